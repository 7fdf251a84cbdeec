//! A block device: sectors that are read, written, flushed and discarded, several requests at a time.
//!
//! The user submits a request at a virtual time and polls for completions in the order of time; the device runs its own
//! events in between. A synchronous device answers at once with a completion in the future. The user's clock never runs
//! ahead of a completion that it has not seen: it calls [`BlockDevice::next_done`] up to the time at which it wants to
//! act, then acts.

use thiserror::Error;

use super::{Payload, payload};
use crate::Ns;

/// Bytes of a sector, the unit of [`BlockRequest::sector`]. As in Linux's block layer, devices with larger logical
/// sectors use this unit too.
pub const SECTOR_BYTES: u32 = 512;

/// Operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum BlockOp {
    /// Reads sectors.
    Read,
    /// Writes sectors. Durable once a later flush completes, or at completion with `fua`.
    Write,
    /// When it completes, every write that completed before it was submitted is durable.
    Flush,
    /// The host no longer needs the contents of the sectors (TRIM, UNMAP, DISCARD).
    Trim,
}

impl BlockOp {
    /// Every operation, in the order of reports.
    pub const ALL: [BlockOp; 4] = [BlockOp::Read, BlockOp::Write, BlockOp::Flush, BlockOp::Trim];

    /// Name of the operation in results.
    pub const fn name(self) -> &'static str {
        match self {
            BlockOp::Read => "read",
            BlockOp::Write => "write",
            BlockOp::Flush => "flush",
            BlockOp::Trim => "trim",
        }
    }
}

/// A request to a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRequest {
    /// The operation.
    pub op: BlockOp,
    /// First sector; 0 for a flush.
    pub sector: u64,
    /// Number of sectors; 0 for a flush only.
    pub sectors: u32,
    /// Force unit access: a write is durable when it completes.
    pub fua: bool,
    /// Queue of the host's software. A device with fewer submission queues maps it to them modulo their number, as
    /// blk-mq does; 0 if the host has only one.
    pub queue: u16,
}

impl BlockRequest {
    /// Reads `sectors` sectors from `sector` on.
    pub const fn read(sector: u64, sectors: u32) -> BlockRequest {
        BlockRequest { op: BlockOp::Read, sector, sectors, fua: false, queue: 0 }
    }

    /// Writes `sectors` sectors from `sector` on, without `fua`.
    pub const fn write(sector: u64, sectors: u32) -> BlockRequest {
        BlockRequest { op: BlockOp::Write, sector, sectors, fua: false, queue: 0 }
    }

    /// Flushes the write cache.
    pub const fn flush() -> BlockRequest {
        BlockRequest { op: BlockOp::Flush, sector: 0, sectors: 0, fua: false, queue: 0 }
    }

    /// Discards `sectors` sectors from `sector` on.
    pub const fn trim(sector: u64, sectors: u32) -> BlockRequest {
        BlockRequest { op: BlockOp::Trim, sector, sectors, fua: false, queue: 0 }
    }

    /// One past the request's last sector.
    pub const fn end(&self) -> u64 {
        self.sector + self.sectors as u64
    }

    /// Bytes transferred or discarded.
    pub const fn bytes(&self) -> u64 {
        self.sectors as u64 * SECTOR_BYTES as u64
    }
}

/// Why a request was refused or failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BlockError {
    /// Power failed. Sticks until power-on.
    #[error("power lost")]
    PowerLost,
    /// The range ends beyond the device.
    #[error("sectors {sector} to {end}: the device has {sectors}")]
    OutOfBounds {
        /// First sector asked for.
        sector: u64,
        /// One past the last sector asked for.
        end: u64,
        /// Sectors of the device.
        sectors: u64,
    },
    /// Every tag of the queue is in use: wait for a completion.
    #[error("the queue holds {depth} requests already")]
    QueueFull {
        /// Depth of the queue.
        depth: u32,
    },
    /// Data could not be read back: more wrong bits than ECC corrects.
    #[error("sector {sector}: uncorrectable")]
    Uncorrectable {
        /// First sector of the page.
        sector: u64,
    },
    /// The device was opened for reading only. Nothing is wrong with it.
    #[error("the device is read-only: {why}")]
    ReadOnly {
        /// Why it is read-only.
        why: &'static str,
    },
    /// The device accepts no more writes: its spare blocks are used up, or none can be freed.
    #[error("the device takes no more writes: {why}")]
    WornOut {
        /// The resource that is used up.
        why: &'static str,
    },
}

/// A completed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockDone {
    /// Tag of the request.
    pub tag: u32,
    /// When it completed.
    pub at: Ns,
    /// Success, or why the request failed.
    pub result: Result<(), BlockError>,
}

/// A block device that serves several requests at a time.
///
/// Implementors: `ssd::Ssd`; `ubi::block::UbiBlock`, a UBI volume as a block device; and
/// [`RamDisk`](super::RamDisk), which has a fixed service time and no flash.
pub trait BlockDevice {
    /// Whether data can be read back with [`take`](Self::take).
    const KEEPS_BYTES: bool;

    /// What to write: `length` bytes, built as [`Flash::offer`](super::Flash::offer) says.
    #[inline(always)]
    fn offer(buffer: &mut Vec<u8>, length: u32, build: impl FnOnce(&mut [u8])) -> Payload<'_> {
        payload::offer(Self::KEEPS_BYTES, buffer, length, build)
    }

    /// Capacity in sectors.
    fn sectors(&self) -> u64;

    /// Requests that may be outstanding at a time; tags are below it.
    fn queue_depth(&self) -> u32;

    /// Submits a request at `at`, which is not before the last submission nor the last completion returned. `tag` is
    /// below [`queue_depth`](Self::queue_depth) and not in use. `data` has the length of a write; for other requests it
    /// is `Payload::Length(0)`.
    /// Errors: `OutOfBounds`, `QueueFull`, `PowerLost`; the request is then not queued.
    fn submit(&mut self, at: Ns, tag: u32, request: BlockRequest, data: Payload<'_>) -> Result<(), BlockError>;

    /// Announces a request that the host will submit soon. Changes no result: the device may prefetch its tables.
    #[inline]
    fn expect(&self, _request: &BlockRequest) {}

    /// Announces again, shortly before submission, a request that [`expect`](Self::expect) announced. Changes no
    /// result: the device may prefetch what its tables point to.
    #[inline]
    fn expect_next(&self, _request: &BlockRequest) {}

    /// Runs the device up to the next completion, or to `until` if there is none up to then. Completions come in the
    /// order of time, ties in the order of completion inside the device.
    fn next_done(&mut self, until: Ns) -> Option<BlockDone>;

    /// Copies the data of a completed read, before its tag is used again. Zeroes if the device keeps no bytes. `buf`
    /// has the request's length.
    fn take(&mut self, tag: u32, buf: &mut [u8]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_its_operation_its_sectors_and_nothing_else() {
        let all =
            [BlockRequest::read(10, 3), BlockRequest::write(10, 3), BlockRequest::flush(), BlockRequest::trim(10, 3)];
        assert_eq!(all.map(|request| request.op), BlockOp::ALL);
        assert_eq!(all.map(|request| (request.sector, request.end())), [(10, 13), (10, 13), (0, 0), (10, 13)]);
        assert_eq!(all.map(|request| request.bytes()), [1536, 1536, 0, 1536]);
        assert!(all.iter().all(|request| !request.fua && request.queue == 0));
        assert_eq!(BlockRequest::trim(0, u32::MAX).bytes(), 0x1ff_ffff_fe00, "it has more than 32 bits");
        assert_eq!(BlockOp::ALL.map(BlockOp::name), ["read", "write", "flush", "trim"]);
    }
}
