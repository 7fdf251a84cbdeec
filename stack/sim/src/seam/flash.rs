//! Raw flash, as the layers above see it: eraseblocks that are erased as a whole, programmed in write units, and read.

use thiserror::Error;

use super::{LebError, Payload, payload};
use crate::{Cx, Peb};

/// Whether every byte is 0xFF, as erased cells read.
pub fn is_erased(bytes: &[u8]) -> bool {
    are_all(bytes, 0xff)
}

/// Whether every byte is zero: programmed to the last bit, or a hole of a file.
pub fn is_zero(bytes: &[u8]) -> bool {
    are_all(bytes, 0)
}

#[inline(always)]
fn are_all(bytes: &[u8], value: u8) -> bool {
    // All are as the first one, which the C library compares faster than a loop does.
    bytes.first().is_none_or(|&first| first == value && bytes[1..] == bytes[..bytes.len() - 1])
}

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

/// Good news of a read.
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
    /// The flash is a volume of UBI, which failed otherwise.
    #[error(transparent)]
    Volume(Box<LebError>),
}

/// A raw flash device.
///
/// Implementors: `nand::Array`, which has timing, wear and faults, and [`RamFlash`](super::RamFlash), which has none. A
/// layer above is generic over this trait: the same code runs on stores that keep bytes and on stores that keep none.
pub trait Flash {
    /// Whether programmed data can be read back. If not, a caller need not build headers: programming
    /// [`Payload::Length`] has the same wear, order rules and time.
    const KEEPS_BYTES: bool;

    /// What to program: `length` bytes, which `build` finds all zero and fills. It is called only where bytes are kept,
    /// and `buffer` is where they are built; elsewhere `buffer` is left alone and the payload is a mere length.
    #[inline(always)]
    fn offer(buffer: &mut Vec<u8>, length: u32, build: impl FnOnce(&mut [u8])) -> Payload<'_> {
        payload::offer(Self::KEEPS_BYTES, buffer, length, build)
    }

    /// Contents that a layer holds in memory, on their way to the flash or from it: what `build` returns, which is
    /// called only where bytes are kept; else `None`.
    #[inline(always)]
    fn kept<T>(build: impl FnOnce() -> T) -> Option<T> {
        Self::KEEPS_BYTES.then(build)
    }

    /// Reads `length` bytes of `peb` at `offset` for the layer's own use: to judge them, or to program them elsewhere.
    /// `buffer` is made that long and holds them. Where no bytes are kept the read takes as long, and a mere length comes
    /// back. Where `length` is 0 no read is done.
    /// Errors: as [`read`](Self::read).
    #[inline(always)]
    fn read_back<'a>(
        &mut self,
        cx: &mut Cx,
        peb: Peb,
        offset: u32,
        length: u32,
        buffer: &'a mut Vec<u8>,
    ) -> Result<(Payload<'a>, ReadStatus), FlashError> {
        buffer.resize(length as usize, 0);
        let status = if length > 0 { self.read(cx, peb, offset, buffer)? } else { ReadStatus::default() };
        Ok((if Self::KEEPS_BYTES { Payload::Bytes(buffer) } else { Payload::Length(length) }, status))
    }

    /// The shape of the device.
    fn geometry(&self) -> &Geometry;

    /// Reads `buf.len()` bytes of `peb` at `offset`.
    /// Errors: `PowerLost`; `Uncorrectable`, with the uncorrected contents in `buf`; `OutOfBounds`.
    fn read(&mut self, cx: &mut Cx, peb: Peb, offset: u32, buf: &mut [u8]) -> Result<ReadStatus, FlashError>;

    /// Reads `len` bytes of `peb` at `offset`, and says whether every one is 0xFF. `buffer` is where they are looked at, unless the
    /// flash knows without that; the read takes as long.
    /// Errors: as [`read`](Self::read); what it leaves is in `buffer` then.
    fn reads_erased(
        &mut self,
        cx: &mut Cx,
        peb: Peb,
        offset: u32,
        len: u32,
        buffer: &mut Vec<u8>,
    ) -> Result<bool, FlashError> {
        buffer.resize(len as usize, 0);
        self.read(cx, peb, offset, buffer).map(|_| is_erased(buffer))
    }

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

    /// Programs the first out-of-band bytes of the page at `offset` and nothing else of it: bits only fall. Its data may be
    /// programmed later. Without an implementation: `OutOfBounds`.
    /// Errors: `PowerLost`; `BadBlock`; `OutOfBounds`.
    fn program_oob(&mut self, _cx: &mut Cx, peb: Peb, offset: u32, oob: &[u8]) -> Result<(), FlashError> {
        Err(FlashError::OutOfBounds { peb, offset, len: oob.len() as u32 })
    }

    /// Erases `peb`: every byte, out-of-band bytes too, reads 0xFF.
    /// Errors: `PowerLost` (its bits may be unstable), `EraseFailed`, `BadBlock`.
    fn erase(&mut self, cx: &mut Cx, peb: Peb) -> Result<(), FlashError>;

    /// One past the last programmed byte of `peb`, in whole sub-pages, where the flash knows without a read; else
    /// `None`. It says where a block's data end when nobody keeps their bytes.
    fn programmed_end(&self, _peb: Peb) -> Option<u32> {
        None
    }

    /// Whether `peb` is marked bad.
    fn is_bad(&self, peb: Peb) -> bool;

    /// Marks `peb` bad for good.
    /// Errors: `PowerLost`.
    fn mark_bad(&mut self, cx: &mut Cx, peb: Peb) -> Result<(), FlashError>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seam::{BlockDevice, LebVolume, RamDisk, RamFlash, RamVolume};

    const NAND: Geometry =
        Geometry { medium: Medium::Nand, pebs: 2, peb_bytes: 1024, page_bytes: 256, subpage_bytes: 256, oob_bytes: 0 };

    /// A flash that counts what is programmed and read, and keeps no bytes.
    struct Counter {
        programmed: u32,
        read: usize,
    }

    impl Flash for Counter {
        const KEEPS_BYTES: bool = false;
        fn geometry(&self) -> &Geometry {
            &NAND
        }
        fn read(&mut self, _: &mut Cx, _: Peb, _: u32, buf: &mut [u8]) -> Result<ReadStatus, FlashError> {
            self.read += buf.len();
            Ok(ReadStatus::default())
        }
        fn program(&mut self, _: &mut Cx, _: Peb, _: u32, data: Payload<'_>) -> Result<(), FlashError> {
            assert_eq!(data.bytes(), None);
            self.programmed += data.len();
            Ok(())
        }
        fn erase(&mut self, _: &mut Cx, _: Peb) -> Result<(), FlashError> {
            Ok(())
        }
        fn is_bad(&self, _: Peb) -> bool {
            false
        }
        fn mark_bad(&mut self, _: &mut Cx, _: Peb) -> Result<(), FlashError> {
            Ok(())
        }
    }

    /// Writes a page, copies it to the next block and says whether the copy holds.
    fn write_and_copy<F: Flash>(flash: &mut F, built: &mut u32) -> bool {
        let (mut cx, mut first, mut second) = (Cx::new(), Vec::new(), Vec::new());
        let page = F::offer(&mut first, 256, |page| {
            page[3] = 7;
            *built += 1;
        });
        flash.program(&mut cx, Peb(0), 0, page).unwrap();
        let (read, _) = flash.read_back(&mut cx, Peb(0), 0, 256, &mut second).unwrap();
        flash.program(&mut cx, Peb(1), 0, read).unwrap();
        let mut third = Vec::new();
        let (back, status) = flash.read_back(&mut cx, Peb(1), 0, 256, &mut third).unwrap();
        assert_eq!(status, ReadStatus::default());
        back == page
    }

    #[test]
    fn a_layer_is_written_once_for_flashes_that_keep_bytes_and_flashes_that_do_not() {
        let (mut ram, mut counter, mut built) = (RamFlash::new(NAND), Counter { programmed: 0, read: 0 }, 0);
        assert!(write_and_copy(&mut ram, &mut built));
        let mut page = [0xee; 4];
        ram.read(&mut Cx::new(), Peb(1), 0, &mut page).unwrap();
        assert_eq!((page, built), ([0, 0, 0, 7], 1));
        assert!(write_and_copy(&mut counter, &mut built));
        assert_eq!((counter.programmed, counter.read, built), (512, 512, 1), "as many bytes, and none built");
        assert_eq!((RamFlash::kept(|| 1), Counter::kept(|| unreachable!("nobody asks"))), (Some(1), None::<u8>));
    }

    /// What a flash that implements no OOB has.
    #[test]
    fn a_flash_without_oob_reads_none_and_programs_none() {
        let (mut flash, cx) = (Counter { programmed: 0, read: 0 }, &mut Cx::new());
        let page = Payload::Length(256);
        assert_eq!(flash.program_with_oob(cx, Peb(1), 512, page, &[]), Ok(()));
        let refused = |len| Err(FlashError::OutOfBounds { peb: Peb(1), offset: 512, len });
        assert_eq!(flash.program_with_oob(cx, Peb(1), 512, page, &[0; 3]), refused(3));
        assert_eq!(flash.program_oob(cx, Peb(1), 512, &[0; 2]), refused(2));
        let mut oob = [0x77; 5];
        assert_eq!(flash.read_oob(cx, Peb(1), 512, &mut oob), Ok(()));
        assert_eq!((oob, flash.programmed, flash.read), ([0xff; 5], 256, 0));
        assert_eq!(flash.programmed_end(Peb(1)), None);
    }

    #[test]
    fn a_geometry_has_its_bytes_and_its_pages() {
        assert_eq!((NAND.bytes(), NAND.pages_per_peb()), (2048, 4));
        let large = Geometry { pebs: 5000, peb_bytes: 1 << 20, page_bytes: 4096, ..NAND };
        assert_eq!((large.bytes(), large.pages_per_peb()), (5_242_880_000, 256));
        let nor =
            Geometry { medium: Medium::Nor, pebs: 3, peb_bytes: 1000, page_bytes: 1, subpage_bytes: 1, oob_bytes: 0 };
        assert_eq!((nor.bytes(), nor.pages_per_peb()), (3000, 1000));
    }

    #[test]
    fn a_read_that_fails_is_an_error_and_one_of_no_bytes_is_not_done() {
        let (mut flash, mut buffer) = (RamFlash::new(NAND), Vec::new());
        let beyond = flash.read_back(&mut Cx::new(), Peb(2), 0, 256, &mut buffer);
        assert_eq!(beyond, Err(FlashError::OutOfBounds { peb: Peb(2), offset: 0, len: 256 }));
        let nothing = flash.read_back(&mut Cx::new(), Peb(2), 0, 0, &mut buffer);
        assert_eq!(nothing, Ok((Payload::Bytes(&[]), ReadStatus::default())));
    }

    #[test]
    fn volumes_and_block_devices_take_offers_too() {
        let (mut first, mut second) = (Vec::new(), Vec::new());
        assert_eq!(RamVolume::offer(&mut first, 2, |bytes| bytes[0] = 1), Payload::Bytes(&[1, 0]));
        assert_eq!(RamDisk::offer(&mut second, 2, |bytes| bytes[1] = 1), Payload::Bytes(&[0, 1]));
    }

    #[test]
    fn any_bit_shows_that_bytes_are_neither_erased_nor_zero() {
        for (is, value) in [(is_erased as fn(&[u8]) -> bool, 0xff), (is_zero, 0)] {
            for len in [0, 1, 63, 64, 65, 200] {
                let mut bytes = vec![value; len];
                assert!(is(&bytes));
                for bit in 0..8 * len {
                    bytes[bit / 8] ^= 1 << (bit % 8);
                    assert!(!is(&bytes), "bit {bit} of {len} bytes");
                    bytes[bit / 8] = value;
                }
            }
        }
    }
}
