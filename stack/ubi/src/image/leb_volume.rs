//! A volume of an image as a [`LebVolume`], for reading.

use std::cell::RefCell;

use sim::seam::{LebError, LebVolume, Payload};
use sim::{Cx, Lnum};

use super::Oob;
use super::dump::Bytes;
use super::scan::{Scan, Volume};
use crate::media::VtblRecord;

/// Why an image cannot be written.
const READ_ONLY: &str = "an image that is open for reading";

/// A volume of an image, read in no time. An unmapped LEB reads as 0xFF. Whoever believes what it read from a file asks
/// first whether the file could be read ([`Input`](super::Input)).
pub struct ImageVolume<'s, 'a> {
    scan: &'s Scan<'a>,
    volume: Volume,
    lebs: u32,
    scratch: RefCell<Vec<u8>>,
}

impl std::fmt::Debug for ImageVolume<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ImageVolume").field("volume", &self.volume.id).finish_non_exhaustive()
    }
}

impl<'s, 'a> ImageVolume<'s, 'a> {
    /// Volume `volume` of a scanned image.
    pub fn new(scan: &'s Scan<'a>, volume: Volume) -> ImageVolume<'s, 'a> {
        // A volume that Linux resizes when it attaches the image becomes larger than it says: how much depends on the flash.
        let reserved = volume.record.as_ref().map_or(0, |record| match record.flags & VtblRecord::AUTORESIZE {
            0 => record.reserved_pebs.min(scan.believable_lebs()),
            _ => scan.believable_lebs(),
        });
        let lebs = volume.last.map_or(0, |last| last.0 + 1).max(reserved);
        ImageVolume { scan, volume, lebs, scratch: RefCell::default() }
    }

    /// The volume.
    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    /// PEB that holds a LEB, and the offset in it of the LEB's first byte.
    pub fn place(&self, lnum: Lnum) -> Option<(sim::Peb, u32)> {
        let leb = self.scan.lebs().get(&(self.volume.id, lnum))?;
        Some((leb.peb, self.scan.dump().geometry().data_offset))
    }
}

impl LebVolume for ImageVolume<'_, '_> {
    fn keeps_bytes() -> bool {
        true
    }

    fn lebs(&self) -> u32 {
        self.lebs
    }

    fn leb_bytes(&self) -> u32 {
        self.volume.usable_leb_bytes
    }

    fn min_io_bytes(&self) -> u32 {
        self.scan.dump().geometry().min_io_bytes
    }

    fn read(&mut self, _: &mut Cx, lnum: Lnum, offset: u32, buf: &mut [u8]) -> Result<(), LebError> {
        let (lebs, leb_bytes) = (self.lebs, self.leb_bytes());
        if lnum.0 >= lebs {
            return Err(LebError::NoSuchLeb { lnum, lebs });
        }
        let len = u32::try_from(buf.len()).unwrap_or(u32::MAX);
        if offset > leb_bytes || len > leb_bytes - offset {
            return Err(LebError::OutOfBounds { lnum, offset, len });
        }
        let dump = self.scan.dump();
        match (self.place(lnum), dump.geometry().oob, dump.bytes) {
            (None, _, _) => buf.fill(0xff),
            // Without OOB the bytes are in one piece, and need no memory of their own.
            (Some((peb, data_offset)), None::<Oob>, Bytes::Input(input)) => {
                let at = dump.file_offset(peb, data_offset + offset);
                let there = u64::from(len).min(dump.len().saturating_sub(at)) as usize;
                let mut scratch = self.scratch.borrow_mut();
                scratch.clear();
                input.read(at, there, &mut scratch);
                buf[..there].copy_from_slice(&scratch);
                buf[there..].fill(0xff);
            }
            (Some((peb, data_offset)), _, _) => {
                let bytes = dump.read(peb, data_offset + offset, len);
                buf[..bytes.len()].copy_from_slice(&bytes);
                buf[bytes.len()..].fill(0xff);
            }
        }
        Ok(())
    }

    fn write(&mut self, _: &mut Cx, lnum: Lnum, _: u32, _: Payload<'_>) -> Result<(), LebError> {
        Err(LebError::ReadOnly { lnum, why: READ_ONLY })
    }

    fn change(&mut self, _: &mut Cx, lnum: Lnum, _: Payload<'_>) -> Result<(), LebError> {
        Err(LebError::ReadOnly { lnum, why: READ_ONLY })
    }

    fn map(&mut self, _: &mut Cx, lnum: Lnum) -> Result<(), LebError> {
        Err(LebError::ReadOnly { lnum, why: READ_ONLY })
    }

    fn unmap(&mut self, _: &mut Cx, lnum: Lnum) -> Result<(), LebError> {
        Err(LebError::ReadOnly { lnum, why: READ_ONLY })
    }

    fn is_mapped(&self, lnum: Lnum) -> bool {
        self.place(lnum).is_some()
    }

    fn sync(&mut self, _: &mut Cx) -> Result<(), LebError> {
        Ok(())
    }
}
