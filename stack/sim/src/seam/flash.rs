//! Raw flash, as the layers above see it: eraseblocks that are erased as a whole, programmed in write units, and read.

use thiserror::Error;

use crate::{Cx, Peb};

/// Kind of cells; it decides the rules of programming.
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
    /// NAND or NOR.
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

/// What to program: bytes, or only a number of them.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// This many bytes that are never read back. A store that keeps bytes programs zeroes.
    Length(u32),
}

impl Payload<'_> {
    /// Length in bytes.
    #[inline]
    pub fn len(&self) -> u32 {
        match self {
            Payload::Bytes(bytes) => bytes.len() as u32,
            Payload::Length(length) => *length,
        }
    }

    /// Whether the length is 0.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Status of a successful read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadStatus {
    /// Most bits that ECC corrected in one codeword of the range read.
    pub bitflips_corrected: u32,
    /// Whether that number reaches the part's threshold: the data is good, but the block should be scrubbed.
    pub scrub: bool,
}

/// Faults of the medium, and programs that break its rules. Every variant carries the place.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FlashError {
    /// Power failed before or during the operation. Sticks until power-on; do not retry.
    #[error("power lost")]
    PowerLost,
    /// More bits were wrong than ECC corrects. The buffer holds the uncorrected contents.
    #[error("PEB {peb}, offset {offset}: uncorrectable")]
    Uncorrectable {
        /// Block of the read.
        peb: Peb,
        /// Offset in the block, in bytes, of the page with the first bad codeword.
        offset: u32,
    },
    /// The part reported a failed program. Move the block's data and retire it.
    #[error("PEB {peb}, offset {offset}: program failed")]
    ProgramFailed {
        /// Block of the program.
        peb: Peb,
        /// Offset of the program in the block, in bytes.
        offset: u32,
    },
    /// The part reported a failed erase. Retire the block.
    #[error("PEB {peb}: erase failed")]
    EraseFailed {
        /// Block of the erase.
        peb: Peb,
    },
    /// The block is marked bad: it may be neither programmed nor erased.
    #[error("PEB {peb}: marked bad")]
    BadBlock {
        /// Block of the program or erase.
        peb: Peb,
    },
    /// A program over cells that are not erased.
    #[error("PEB {peb}, offset {offset}: programmed twice without an erase")]
    NotErased {
        /// Block of the program.
        peb: Peb,
        /// Offset of the program in the block, in bytes.
        offset: u32,
    },
    /// A program of a page before the last one programmed in the block, or one that skips a page on a part that forbids
    /// it.
    #[error("PEB {peb}, offset {offset}: pages of a block are programmed in order")]
    OutOfOrder {
        /// Block of the program.
        peb: Peb,
        /// Offset of the program in the block, in bytes.
        offset: u32,
    },
    /// A program or read beyond the block, or a program that is not whole write units.
    #[error("PEB {peb}, offset {offset}, {len} bytes: outside the block or not whole write units")]
    OutOfBounds {
        /// Block of the operation.
        peb: Peb,
        /// Offset in the block, in bytes.
        offset: u32,
        /// Length in bytes.
        len: u32,
    },
}

/// A raw flash device.
///
/// Implementors: `nand::Array`, which has timing, wear and faults, and [`RamFlash`](super::RamFlash), which has none. A
/// layer above is generic over this trait: the same code runs on stores that keep bytes and on stores that keep none.
pub trait Flash {
    /// Whether programmed data can be read back. If not, a caller need not build headers: programming
    /// [`Payload::Length`] has the same wear, order rules and time.
    const KEEPS_BYTES: bool;

    /// The shape of the device.
    fn geometry(&self) -> &Geometry;

    /// Reads `buf.len()` bytes of `peb` at `offset`.
    /// Errors: `PowerLost`; `Uncorrectable`, with the uncorrected contents in `buf`; `OutOfBounds`.
    fn read(&mut self, cx: &mut Cx, peb: Peb, offset: u32, buf: &mut [u8]) -> Result<ReadStatus, FlashError>;

    /// Programs `data` at `offset`; both ends are at sub-page boundaries.
    /// Errors: `PowerLost` (the pages may be torn), `ProgramFailed`, and breaches of the rules.
    fn program(&mut self, cx: &mut Cx, peb: Peb, offset: u32, data: Payload<'_>) -> Result<(), FlashError>;

    /// Programs one page and its first out-of-band bytes in one operation; `data` is the whole page. A power cut may
    /// tear either. A flash without OOB accepts only an empty `oob`.
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

    /// Reads the first out-of-band bytes of the page at `offset`; 0xFF if none are kept. Counts as a read of the page,
    /// whose ECC covers both.
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

    /// Marks `peb` bad for good.
    /// Errors: `PowerLost`.
    fn mark_bad(&mut self, cx: &mut Cx, peb: Peb) -> Result<(), FlashError>;
}
