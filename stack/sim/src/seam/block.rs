//! A block device: sectors that are read, written, flushed and discarded, several requests at a time.
//!
//! The user hands a request over at a virtual time and asks for completions in the order of time; the device runs its
//! own events in between. A synchronous device answers at once with a completion in the future. The user's clock
//! never runs ahead of a completion that it has not seen: it calls [`BlockDevice::next_done`] up to the time at which
//! it wants to act, then acts.

use thiserror::Error;

use super::{Payload, payload};
use crate::Ns;

/// Bytes of a sector, the unit of [`BlockRequest::sector`]. Devices with larger logical sectors count in these all
/// the same, as Linux's block layer does.
pub const SECTOR_BYTES: u32 = 512;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum BlockOp {
    /// Sectors to the host.
    Read,
    /// Sectors to the device. Durable once a later flush is done, or at completion with `fua`.
    Write,
    /// Every write that completed before this request was handed over is durable when it completes.
    Flush,
    /// The sectors hold nothing that the host wants (TRIM, UNMAP, DISCARD).
    Trim,
}

impl BlockOp {
    /// Every operation, in the order in which reports list them.
    pub const ALL: [BlockOp; 4] = [BlockOp::Read, BlockOp::Write, BlockOp::Flush, BlockOp::Trim];

    /// The name under which results book it.
    pub const fn name(self) -> &'static str {
        match self {
            BlockOp::Read => "read",
            BlockOp::Write => "write",
            BlockOp::Flush => "flush",
            BlockOp::Trim => "trim",
        }
    }
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRequest {
    /// What is asked.
    pub op: BlockOp,
    /// First sector; 0 for a flush.
    pub sector: u64,
    /// How many sectors; 0 for a flush only.
    pub sectors: u32,
    /// Force unit access: a write is durable when it completes.
    pub fua: bool,
    /// Submission queue, where the device has several.
    pub queue: u16,
}

impl BlockRequest {
    /// A read.
    pub const fn read(sector: u64, sectors: u32) -> BlockRequest {
        BlockRequest { op: BlockOp::Read, sector, sectors, fua: false, queue: 0 }
    }

    /// A write.
    pub const fn write(sector: u64, sectors: u32) -> BlockRequest {
        BlockRequest { op: BlockOp::Write, sector, sectors, fua: false, queue: 0 }
    }

    /// A flush.
    pub const fn flush() -> BlockRequest {
        BlockRequest { op: BlockOp::Flush, sector: 0, sectors: 0, fua: false, queue: 0 }
    }

    /// A discard.
    pub const fn trim(sector: u64, sectors: u32) -> BlockRequest {
        BlockRequest { op: BlockOp::Trim, sector, sectors, fua: false, queue: 0 }
    }

    /// One past its last sector.
    pub const fn end(&self) -> u64 {
        self.sector + self.sectors as u64
    }

    /// Bytes that it moves or discards.
    pub const fn bytes(&self) -> u64 {
        self.sectors as u64 * SECTOR_BYTES as u64
    }
}

/// Why a request was refused or failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BlockError {
    /// Power went. Sticks until power-on.
    #[error("power lost")]
    PowerLost,
    /// The range leaves the device.
    #[error("sectors {sector} to {end}: the device has {sectors}")]
    OutOfBounds {
        /// First sector asked for.
        sector: u64,
        /// One past the last.
        end: u64,
        /// How many the device has.
        sectors: u64,
    },
    /// Every slot of the queue is taken: wait for a completion.
    #[error("the queue holds {depth} requests already")]
    QueueFull {
        /// Its depth.
        depth: u32,
    },
    /// Data could not be read back: more wrong bits than ECC corrects.
    #[error("sector {sector}: uncorrectable")]
    Uncorrectable {
        /// First sector of the page.
        sector: u64,
    },
    /// The device takes no more writes: its spare blocks are used up, or none can be freed.
    #[error("the device takes no more writes: {why}")]
    WornOut {
        /// What is used up.
        why: &'static str,
    },
}

/// A finished request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockDone {
    /// The tag under which it was handed over.
    pub tag: u32,
    /// When it completed.
    pub at: Ns,
    /// How it went.
    pub result: Result<(), BlockError>,
}

/// A block device that serves several requests at a time.
///
/// Implementors: `ssd::Ssd`, and [`RamDisk`](super::RamDisk), which has a fixed service time and no flash.
pub trait BlockDevice {
    /// Whether what was written can be read back with [`take`](Self::take).
    const KEEPS_BYTES: bool;

    /// What to write: `length` bytes, built as [`Flash::offer`](super::Flash::offer) says.
    #[inline(always)]
    fn offer(buffer: &mut Vec<u8>, length: u32, build: impl FnOnce(&mut [u8])) -> Payload<'_> {
        payload::offer(Self::KEEPS_BYTES, buffer, length, build)
    }

    /// Capacity in sectors.
    fn sectors(&self) -> u64;

    /// How many requests it holds at a time; tags are below it.
    fn queue_depth(&self) -> u32;

    /// Hands a request over at `at`, which is not before the last completion returned nor the last submission. `tag`
    /// is below [`queue_depth`](Self::queue_depth) and not in use. `data` has the request's length; other requests than writes
    /// bring `Payload::Length(0)`.
    /// Errors: `OutOfBounds`, `QueueFull`, `PowerLost`; the request is not taken then.
    fn submit(&mut self, at: Ns, tag: u32, request: BlockRequest, data: Payload<'_>) -> Result<(), BlockError>;

    /// The host will ask this soon. Changes no result: a device may touch its tables, so that they are at hand.
    #[inline]
    fn expect(&self, _request: &BlockRequest) {}

    /// The host, which said some time ago that it would ask this, will very soon. Changes no result: what lies behind those
    /// tables may be touched as well.
    #[inline]
    fn expect_next(&self, _request: &BlockRequest) {}

    /// Runs the device up to the next completion, or to `until` if none comes before or at it. Completions come in
    /// the order of time, ties in the order of completion inside the device.
    fn next_done(&mut self, until: Ns) -> Option<BlockDone>;

    /// Data of a read that has completed, before its tag is used again. Filled with zeroes where the device keeps no
    /// bytes. `buf` has the request's length.
    fn take(&mut self, tag: u32, buf: &mut [u8]);
}
