//! An image that was packed before, to be written over a whole flash.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use ubi::image::pack::Layout;
use ubi::image::whole::set_ec;
use ubi::media::EcHdr;

use crate::error::CliError;

/// A file with an image.
pub struct Ready {
    path: PathBuf,
    bytes: u64,
    /// The first EC header.
    first: EcHdr,
    /// Bytes of a PEB, once it was checked.
    peb_bytes: u32,
}

impl Ready {
    /// Opens the file if it begins as an image does; `None` if it is something else.
    /// Errors: it cannot be read.
    pub fn open(path: &Path) -> Result<Option<Ready>, CliError> {
        let failed = |error| CliError::read(path, &error);
        let mut file = File::open(path).map_err(failed)?;
        let mut header = Vec::new();
        file.by_ref().take(EcHdr::BYTES as u64).read_to_end(&mut header).map_err(failed)?;
        let Some(first) = set_ec(&mut header, 0, None) else {
            if header.starts_with(&EcHdr::MAGIC.to_be_bytes()) {
                let what = "found a damaged EC header at byte 0, expected a UBI image";
                return Err(CliError::input(path, what, "see `nandlab image check`"));
            }
            return Ok(None);
        };
        let bytes = file.metadata().map_err(failed)?.len();
        Ok(Some(Ready { path: path.to_owned(), bytes, first, peb_bytes: 0 }))
    }

    /// Checks that the image is made for flash of this layout.
    /// Errors: it has other offsets, ends inside a PEB, or has a PEB without an EC header.
    pub fn check(&mut self, layout: &Layout) -> Result<(), CliError> {
        let ours = (layout.vid_hdr_offset(), layout.data_offset());
        let theirs = (self.first.vid_hdr_offset, self.first.data_offset);
        if ours != theirs {
            let what = format!(
                "the image has VID headers at {} and data at {}, expected {} and {} on this flash",
                theirs.0, theirs.1, ours.0, ours.1
            );
            let help = "give --min-io-size, --sub-page-size or --vid-hdr-offset as for the image, or pack it anew";
            return Err(CliError::input(&self.path, what, help));
        }
        let peb_bytes = u64::from(layout.peb_bytes());
        if !self.bytes.is_multiple_of(peb_bytes) {
            let what = format!("found {} bytes, expected whole PEBs of {peb_bytes}", self.bytes);
            return Err(CliError::input(&self.path, what, "give an image without OOB, with PEBs of this size"));
        }
        let failed = |error| CliError::read(&self.path, &error);
        let mut file = File::open(&self.path).map_err(failed)?;
        let mut header = vec![0; EcHdr::BYTES];
        for peb in 0..self.bytes / peb_bytes {
            file.seek(SeekFrom::Start(peb * peb_bytes)).map_err(failed)?;
            file.read_exact(&mut header).map_err(failed)?;
            if set_ec(&mut header, 0, None).is_none() {
                let what = format!("PEB {peb} (byte {}) has no valid EC header", peb * peb_bytes);
                return Err(CliError::input(&self.path, what, "give an image as `nandlab image pack` makes it"));
            }
        }
        self.peb_bytes = layout.peb_bytes();
        Ok(())
    }

    /// PEBs of the image, which was checked.
    pub fn pebs(&self) -> u64 {
        self.bytes / u64::from(self.peb_bytes.max(1))
    }

    /// Its image sequence number.
    pub fn image_seq(&self) -> u32 {
        self.first.image_seq
    }

    /// Calls `put` with each PEB in order.
    /// Errors: it cannot be read, or was changed since it was checked.
    pub fn each_peb(&self, mut put: impl FnMut(Vec<u8>) -> Result<(), CliError>) -> Result<(), CliError> {
        let failed = |error| CliError::read(&self.path, &error);
        let mut file = BufReader::new(File::open(&self.path).map_err(failed)?);
        for _ in 0..self.pebs() {
            let mut peb = vec![0; self.peb_bytes as usize];
            file.read_exact(&mut peb).map_err(failed)?;
            if set_ec(&mut peb[..EcHdr::BYTES].to_vec(), 0, None).is_none() {
                return Err(CliError::input(&self.path, "changed while it was read", "pack when nothing writes to it"));
            }
            put(peb)?;
        }
        Ok(())
    }
}
