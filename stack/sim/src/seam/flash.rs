//! Raw flash, as the layers above see it: eraseblocks that are erased whole, programmed in write units and read.

use thiserror::Error;

use crate::{Cx, Peb};

/// What kind of cells: the rules of programming differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// Pages are programmed in order and a bounded number of times; ECC corrects bits.
    Nand,
    /// Any byte may be programmed again as long as bits only fall; no ECC, no bad blocks.
    Nor,
}

/// The shape of a raw flash as its user sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Kind of cells.
    pub medium: Medium,
    /// Number of physical eraseblocks, bad ones included.
    pub pebs: u32,
    /// Bytes of an eraseblock, without OOB.
    pub peb_bytes: u32,
    /// Smallest unit of programming (MTD's `writesize`): the page of a NAND, 1 on a NOR.
    pub page_bytes: u32,
    /// Smallest unit in which a page may be programmed in parts; equal to `page_bytes` when it may not.
    pub subpage_bytes: u32,
    /// Out-of-band bytes of a page; 0 on NOR.
    pub oob_bytes: u32,
}

impl Geometry {
    /// Bytes of the whole device, without OOB.
    pub const fn bytes(&self) -> u64 {
        self.pebs as u64 * self.peb_bytes as u64
    }

    /// Pages of an eraseblock.
    pub const fn pages_per_peb(&self) -> u32 {
        self.peb_bytes / self.page_bytes
    }
}

/// What is programmed: bytes, or only so many of them.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// This many bytes that nobody will read back. A store that keeps bytes programs zeroes.
    Length(u32),
}

impl Payload<'_> {
    /// Its length in bytes.
    #[inline]
    pub fn len(&self) -> u32 {
        match self {
            Payload::Bytes(bytes) => bytes.len() as u32,
            Payload::Length(length) => *length,
        }
    }

    /// Whether nothing is programmed.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Good news of a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadStatus {
    /// The largest number of bits that ECC corrected in one codeword of what was read.
    pub bitflips_corrected: u32,
    /// Whether that number reaches the part's threshold: the data is good, the block is tired.
    pub scrub: bool,
}

/// The medium's faults, and the caller's breaches of its rules. Every variant carries the place.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FlashError {
    /// Power went before or during the operation. Sticks until power-on; nobody retries.
    #[error("power lost")]
    PowerLost,
    /// More bits were wrong than ECC corrects. The buffer holds what the cells gave.
    #[error("PEB {peb}, offset {offset}: uncorrectable")]
    Uncorrectable {
        /// The block.
        peb: Peb,
        /// Byte offset of the first bad codeword's page in the block.
        offset: u32,
    },
    /// The part reported a failed program. The block is to be emptied and retired.
    #[error("PEB {peb}, offset {offset}: program failed")]
    ProgramFailed {
        /// The block.
        peb: Peb,
        /// Byte offset of the program in the block.
        offset: u32,
    },
    /// The part reported a failed erase. The block is to be retired.
    #[error("PEB {peb}: erase failed")]
    EraseFailed {
        /// The block.
        peb: Peb,
    },
    /// The block is marked bad: it may be neither programmed nor erased.
    #[error("PEB {peb}: marked bad")]
    BadBlock {
        /// The block.
        peb: Peb,
    },
    /// A program over cells that are not erased.
    #[error("PEB {peb}, offset {offset}: programmed twice without an erase")]
    NotErased {
        /// The block.
        peb: Peb,
        /// Byte offset of the program in the block.
        offset: u32,
    },
    /// A program of a page before the last one programmed in the block.
    #[error("PEB {peb}, offset {offset}: pages of a block are programmed in order")]
    OutOfOrder {
        /// The block.
        peb: Peb,
        /// Byte offset of the program in the block.
        offset: u32,
    },
    /// A program or read that leaves the block, or a program that is not whole write units.
    #[error("PEB {peb}, offset {offset}, {len} bytes: outside the block or not whole write units")]
    OutOfBounds {
        /// The block.
        peb: Peb,
        /// Byte offset in the block.
        offset: u32,
        /// Length in bytes.
        len: u32,
    },
}

/// Raw flash.
///
/// Implementors: `nand::Array`, which has timing, wear and faults, and [`RamFlash`](super::RamFlash), which has none.
/// A layer above is generic over this trait: the same code runs on stores that keep bytes and on stores that keep
/// only tags.
pub trait Flash {
    /// Whether what was programmed can be read back. Where it cannot, a caller skips building headers: programming
    /// [`Payload::Length`] has the same wear, order rules and time.
    const KEEPS_BYTES: bool;

    /// The shape of the device.
    fn geometry(&self) -> &Geometry;

    /// Reads `buf.len()` bytes of `peb` at `offset`.
    /// Errors: `PowerLost`; `Uncorrectable`, with `buf` filled as the cells gave it; `OutOfBounds`.
    fn read(&mut self, cx: &mut Cx, peb: Peb, offset: u32, buf: &mut [u8]) -> Result<ReadStatus, FlashError>;

    /// Programs `data` at `offset`, which with the length is whole sub-pages.
    /// Errors: `PowerLost` (the pages may be torn), `ProgramFailed`, and breaches of the rules.
    fn program(&mut self, cx: &mut Cx, peb: Peb, offset: u32, data: Payload<'_>) -> Result<(), FlashError>;

    /// Programs a page and its out-of-band bytes, from their first, in one operation: `offset` and the length of `data` are
    /// whole pages, one. Power that goes in the midst may leave either torn. A flash that keeps no OOB takes an empty `oob`
    /// only.
    /// Errors: as [`program`](Self::program).
    fn program_with_oob(
        &mut self,
        cx: &mut Cx,
        peb: Peb,
        offset: u32,
        data: Payload<'_>,
        oob: &[u8],
    ) -> Result<(), FlashError> {
        if oob.is_empty() {
            return self.program(cx, peb, offset, data);
        }
        Err(FlashError::OutOfBounds { peb, offset, len: oob.len() as u32 })
    }

    /// Reads out-of-band bytes of the page at `offset`, from their first; 0xFF where none are kept. It is a read of the page, whose
    /// ECC covers both.
    /// Errors: as [`read`](Self::read).
    fn read_oob(&mut self, _cx: &mut Cx, _peb: Peb, _offset: u32, buf: &mut [u8]) -> Result<(), FlashError> {
        buf.fill(0xff);
        Ok(())
    }

    /// Erases `peb`: every byte, out-of-band bytes too, reads 0xFF.
    /// Errors: `PowerLost` (its bits may be unstable), `EraseFailed`, `BadBlock`.
    fn erase(&mut self, cx: &mut Cx, peb: Peb) -> Result<(), FlashError>;

    /// Whether `peb` is marked bad.
    fn is_bad(&self, peb: Peb) -> bool;

    /// Marks `peb` bad for ever.
    /// Errors: `PowerLost`.
    fn mark_bad(&mut self, cx: &mut Cx, peb: Peb) -> Result<(), FlashError>;
}
