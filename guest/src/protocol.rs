//! The memory of the channel: where each field lies, as `driver/channel.h` says. All numbers are little-endian, times
//! virtual nanoseconds since the guest started.

use sim::Ns;
use sim::seam::{BlockOp, BlockRequest};

/// First field of the memory.
pub const MAGIC: u32 = 0x424c_444e;
/// Version of the layout.
pub const VERSION: u32 = 3;
/// Most requests of a block device that are outstanding at a time.
pub const MOST_TAGS: u32 = 1024;
/// Place and length of the job's data.
pub const JOB_AT: u32 = 64 << 10;
/// Length of the job's data in bytes.
pub const JOB_BYTES: u32 = 64 << 10;
/// Place of the first request's data.
pub const DATA_AT: u32 = 128 << 10;

/// A field: its place in bytes.
macro_rules! fields {
    ($($name:ident = $at:expr;)*) => {
        /// Place of each field, in bytes.
        pub mod at {
            $(#[doc = concat!("Field `", stringify!($name), "`.")] pub const $name: usize = $at;)*
            /// Each field's name and place, to compare with the header of the driver.
            pub const ALL: &[(&str, usize)] = &[$((stringify!($name), $name)),*];
        }
    };
}

fields! {
    MAGIC = 0;
    VERSION = 4;
    BYTES = 8;
    SEED = 16;
    SYSCALL_NS = 24;
    REQUEST_NS = 32;
    JOB_AT = 40;
    JOB_BYTES = 44;
    DATA_AT = 48;
    TAG_BYTES = 52;
    SECTORS = 56;
    LOGICAL_BYTES = 64;
    PHYSICAL_BYTES = 68;
    DEPTH = 72;
    FEATURES = 76;
    PEBS = 80;
    PEB_BYTES = 84;
    PAGE_BYTES = 88;
    SUBPAGE_BYTES = 92;
    OOB_BYTES = 96;
    IS_NOR = 100;
    ECC_BITS = 104;
    ECC_STEP_BYTES = 108;
    BITFLIP_THRESHOLD = 112;
    LOG_UBI = 116;
    OP = 120;
    COUNT = 124;
    NOW = 128;
    LIMIT = 136;
    ADDRESS = 144;
    LENGTH = 152;
    OOB_AT = 156;
    OOB_LENGTH = 160;
    PID = 164;
    COMM = 168;
    AT = 184;
    STATUS = 192;
    DONE = 196;
    TURN = 200;
    REQUESTS = 208;
    DONES = 208 + 48 * 1024;
}

/// Length of a request in the memory.
pub const REQUEST_BYTES: usize = 48;
/// Length of a completion in the memory.
pub const DONE_BYTES: usize = 8;
const _: () = assert!(at::TURN.is_multiple_of(4));
const _: () = assert!(at::DONES + DONE_BYTES * MOST_TAGS as usize <= JOB_AT as usize);

/// What a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Op {
    /// Block: new requests; run the device up to a time or its next completion.
    Run = 1,
    /// Flash: read.
    Read = 2,
    /// Flash: program.
    Program = 3,
    /// Flash: erase an eraseblock.
    Erase = 4,
    /// Flash: whether an eraseblock is marked bad.
    IsBad = 5,
    /// Flash: mark an eraseblock bad.
    MarkBad = 6,
    /// Job: output.
    Output = 7,
    /// Job: input.
    Input = 8,
    /// Job: a mark.
    Mark = 9,
    /// UBI: a call.
    Ubi = 10,
}

impl Op {
    /// The operation of a code, if there is one.
    pub fn of(code: u32) -> Option<Op> {
        use Op::*;
        [Run, Read, Program, Erase, IsBad, MarkBad, Output, Input, Mark, Ubi].into_iter().find(|&op| op as u32 == code)
    }
}

/// Whose turn it is, in [`at::TURN`].
pub mod turn {
    /// nandlab's; the guest looks here before it sleeps.
    pub const CALLED: u32 = 0;
    /// nandlab's; the guest sleeps until the pipe has a byte.
    pub const ASLEEP: u32 = 1;
    /// The guest's.
    pub const REPLIED: u32 = 2;
}

/// Result of an operation of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Status {
    /// It is done.
    Ok = 0,
    /// The device failed or refused it.
    Error = 1,
    /// More bits were wrong than ECC corrects.
    Uncorrectable = 2,
    /// The eraseblock is marked bad.
    BadBlock = 3,
}

/// Features of a block device, in [`at::FEATURES`].
pub mod feature {
    /// It has a volatile write cache, and flushes.
    pub const CACHE: u32 = 1;
    /// It takes writes with FUA.
    pub const FUA: u32 = 2;
    /// It discards.
    pub const TRIM: u32 = 4;
}

/// What Linux's UBI is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum UbiOp {
    /// Map a LEB to a PEB without writing to it.
    Map = 1,
    /// Unmap a LEB.
    Unmap = 2,
    /// Write to a LEB.
    Write = 3,
    /// Write a LEB of a static volume.
    WriteStatic = 4,
    /// Atomic LEB change.
    Change = 5,
    /// Copy a LEB to another PEB: wear levelling and scrubbing.
    Move = 6,
}

impl UbiOp {
    /// The call of a code, if there is one.
    pub fn of(code: u32) -> Option<UbiOp> {
        use UbiOp::*;
        [Map, Unmap, Write, WriteStatic, Change, Move].into_iter().find(|&op| op as u32 == code)
    }

    /// Name, as recordings have it.
    pub const fn name(self) -> &'static str {
        ["map", "unmap", "write", "write-static", "change", "move"][self as usize - 1]
    }
}

/// A call of UBI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UbiCall {
    /// What it asks for.
    pub op: UbiOp,
    /// Volume; internal volumes have numbers from 0x7fffefff.
    pub volume: u32,
    /// Logical eraseblock.
    pub leb: u32,
    /// First byte in the LEB of a write.
    pub offset: u32,
    /// Bytes of a write or change.
    pub bytes: u32,
}

/// Name of a process, up to the first zero byte.
pub fn process(comm: &[u8]) -> &[u8] {
    comm.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// A request as the guest's block layer submitted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When it was submitted.
    pub at: Ns,
    /// Its tag, below the device's depth.
    pub tag: u32,
    /// What it asks for. Zeroes are a write.
    pub request: BlockRequest,
    /// Whether it writes zeroes and carries no data.
    pub zeroes: bool,
    /// Process that submitted it; kernel threads have their own.
    pub pid: u32,
    /// Its name, up to the first zero byte.
    pub comm: [u8; 16],
}

impl Request {
    /// Reads a request from the memory. `None` if it has no such operation.
    pub fn read(bytes: &[u8]) -> Option<Request> {
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let (op, zeroes) = match bytes[22] {
            0 => (BlockOp::Read, false),
            1 => (BlockOp::Write, false),
            2 => (BlockOp::Flush, false),
            3 => (BlockOp::Trim, false),
            4 => (BlockOp::Write, true),
            _ => return None,
        };
        let request = BlockRequest { op, sector: u64_at(8), sectors: u32_at(16), fua: bytes[23] & 1 == 1, queue: 0 };
        Some(Request {
            at: Ns(u64_at(0)),
            tag: u32::from(u16::from_le_bytes([bytes[20], bytes[21]])),
            request,
            zeroes,
            pid: u32_at(24),
            comm: bytes[32..48].try_into().expect("sixteen bytes"),
        })
    }

    /// Name of the process.
    pub fn process(&self) -> &[u8] {
        process(&self.comm)
    }
}
