//! A volume of logical eraseblocks, as a file system sees it.

use thiserror::Error;

use super::{FlashError, Payload, payload};
use crate::{Cx, Lnum};

/// Error of an operation on a volume.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LebError {
    /// The flash failed, or power was lost.
    #[error(transparent)]
    Flash(#[from] FlashError),
    /// No free physical eraseblock is left.
    #[error("LEB {lnum}: no free physical eraseblock")]
    NoSpace {
        /// LEB to be mapped.
        lnum: Lnum,
    },
    /// The LEB does not exist.
    #[error("LEB {lnum}: the volume has {lebs}")]
    NoSuchLeb {
        /// LEB of the request.
        lnum: Lnum,
        /// LEBs of the volume.
        lebs: u32,
    },
    /// The range ends beyond the LEB, or is not whole write units.
    #[error("LEB {lnum}, offset {offset}, {len} bytes: outside the LEB or not whole write units")]
    OutOfBounds {
        /// LEB of the request.
        lnum: Lnum,
        /// Offset in the LEB, in bytes.
        offset: u32,
        /// Length in bytes.
        len: u32,
    },
    /// The volume cannot be written: it is static or open for reading, or the device is read-only.
    #[error("LEB {lnum}: read-only ({why})")]
    ReadOnly {
        /// LEB of the request.
        lnum: Lnum,
        /// Why it is read-only.
        why: &'static str,
    },
    /// The LEB is mapped already.
    #[error("LEB {lnum}: mapped already")]
    Mapped {
        /// LEB of the request.
        lnum: Lnum,
    },
    /// An update of the volume was interrupted, and its contents are invalid.
    #[error("LEB {lnum}: the volume's update was interrupted; update it again")]
    Updating {
        /// LEB of the request.
        lnum: Lnum,
    },
    /// Data of a static volume do not match their checksum.
    #[error("LEB {lnum}: checksum mismatch")]
    Corrupt {
        /// LEB of the request.
        lnum: Lnum,
    },
}

/// A volume of logical eraseblocks: written in write units from low to high, unmapped, mapped, changed atomically.
pub trait LebVolume {
    /// Whether what was written can be read back. A function, for a trait with a constant cannot be a `dyn`.
    fn keeps_bytes() -> bool
    where
        Self: Sized;

    /// What to write: `length` bytes, built as [`Flash::offer`](super::Flash::offer) says.
    #[inline(always)]
    fn offer(buffer: &mut Vec<u8>, length: u32, build: impl FnOnce(&mut [u8])) -> Payload<'_>
    where
        Self: Sized,
    {
        payload::offer(Self::keeps_bytes(), buffer, length, build)
    }

    /// Number of LEBs.
    fn lebs(&self) -> u32;

    /// Bytes of a LEB.
    fn leb_bytes(&self) -> u32;

    /// Write unit in bytes.
    fn min_io_bytes(&self) -> u32;

    /// Reads `buf.len()` bytes; an unmapped LEB reads 0xFF.
    fn read(&mut self, cx: &mut Cx, lnum: Lnum, offset: u32, buf: &mut [u8]) -> Result<(), LebError>;

    /// Writes `data` at `offset`, mapping the LEB first if needed. A write unit can be written once until the LEB is
    /// unmapped.
    fn write(&mut self, cx: &mut Cx, lnum: Lnum, offset: u32, data: Payload<'_>) -> Result<(), LebError>;

    /// Replaces the contents atomically: after a power cut they are the old or the new.
    fn change(&mut self, cx: &mut Cx, lnum: Lnum, data: Payload<'_>) -> Result<(), LebError>;

    /// Maps an unmapped LEB to an erased block, so that stale contents cannot come back after a cut.
    fn map(&mut self, cx: &mut Cx, lnum: Lnum) -> Result<(), LebError>;

    /// Unmaps the LEB. It reads 0xFF now; the old contents may return after a power cut until the block is erased.
    fn unmap(&mut self, cx: &mut Cx, lnum: Lnum) -> Result<(), LebError>;

    /// Unmaps the LEB and waits until its block is erased, so that the old contents cannot return. Without an implementation
    /// it waits for every block.
    fn erase(&mut self, cx: &mut Cx, lnum: Lnum) -> Result<(), LebError> {
        self.unmap(cx, lnum)?;
        self.sync(cx)
    }

    /// Whether the LEB is mapped.
    fn is_mapped(&self, lnum: Lnum) -> bool;

    /// Waits until every unmapped block is erased.
    fn sync(&mut self, cx: &mut Cx) -> Result<(), LebError>;
}
