//! Raw dumps: pages in order, each followed by its OOB in a dump that has it, as `nanddump` writes them.
//!
//! Knows lengths and offsets, and nothing of what a page holds. Files belong to the lab: a dump goes to a
//! [`std::io::Write`] and comes from a slice.

use std::fmt;
use std::io::{self, Write};

use sim::Peb;
use sim::seam::{Geometry, Payload};
use thiserror::Error;

use crate::array::Array;
use crate::config::ArrayConfig;
use crate::store::{Bytes, Store};

/// A dump whose length does not fit the device.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the dump has {found} bytes, the device {expected}{guess}")]
pub struct ImageError {
    /// Bytes found.
    pub found: u64,
    /// Bytes of a dump of the device, with or without OOB as requested.
    pub expected: u64,
    /// What the dump may be instead.
    pub guess: Guess,
}

/// What a dump of the wrong length may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guess {
    /// As long as the device with OOB, although OOB was not requested.
    WithOob,
    /// As long as the device without OOB, although OOB was requested.
    WithoutOob,
    /// This many whole blocks from the start of the device.
    Blocks(u64),
    /// No known length.
    Unknown,
}

impl fmt::Display for Guess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Guess::WithOob => f.write_str("; it is as long as a dump with OOB"),
            Guess::WithoutOob => f.write_str("; it is as long as a dump without OOB"),
            Guess::Blocks(blocks) => write!(f, "; it is {blocks} whole blocks"),
            Guess::Unknown => Ok(()),
        }
    }
}

/// Bytes of one block in a dump.
pub const fn block_bytes(geometry: &Geometry, with_oob: bool) -> u64 {
    let oob = if with_oob { geometry.oob_bytes as u64 } else { 0 };
    geometry.pages_per_peb() as u64 * (geometry.page_bytes as u64 + oob)
}

/// Bytes of a dump of the whole device.
pub const fn dump_bytes(geometry: &Geometry, with_oob: bool) -> u64 {
    geometry.pebs as u64 * block_bytes(geometry, with_oob)
}

/// Checks that a dump of `found` bytes covers the device.
/// Errors: it does not; the error says what it may be.
pub fn check_length(geometry: &Geometry, found: u64, with_oob: bool) -> Result<(), ImageError> {
    let expected = dump_bytes(geometry, with_oob);
    if found == expected {
        return Ok(());
    }
    let block = block_bytes(geometry, with_oob);
    let guess = if found == dump_bytes(geometry, !with_oob) {
        if with_oob { Guess::WithoutOob } else { Guess::WithOob }
    } else if found > 0 && found.is_multiple_of(block) {
        Guess::Blocks(found / block)
    } else {
        Guess::Unknown
    };
    Err(ImageError { found, expected, guess })
}

impl<S: Store> Array<S> {
    /// Writes a raw dump of the device: the stored contents, without read errors. Works with power on or off.
    /// Errors: the sink's. Do not dump a store that keeps no bytes: it reads as zeroes.
    pub fn dump(&self, with_oob: bool, sink: &mut dyn Write) -> io::Result<()> {
        let geometry = self.config().geometry;
        let (page_bytes, oob_bytes) = (geometry.page_bytes as usize, geometry.oob_bytes as usize);
        let mut block = vec![0; geometry.peb_bytes as usize];
        let mut oob = vec![0; oob_bytes];
        for peb in (0..geometry.pebs).map(Peb) {
            self.store().read(peb, 0, &mut block);
            if !with_oob || oob_bytes == 0 {
                sink.write_all(&block)?;
                continue;
            }
            for (page, cells) in block.chunks_exact(page_bytes).enumerate() {
                self.store().read_oob(peb, page as u32, &mut oob);
                sink.write_all(cells)?;
                sink.write_all(&oob)?;
            }
        }
        Ok(())
    }
}

impl Array<Bytes> {
    /// Makes a device from a raw dump of all of it. OOB is kept exactly when the dump has it.
    /// Errors: the dump's length does not fit the device.
    pub fn load(config: ArrayConfig, dump: &[u8], with_oob: bool) -> Result<Array<Bytes>, ImageError> {
        check_length(&config.geometry, dump.len() as u64, with_oob)?;
        Ok(Array::load_blocks(config, dump, with_oob))
    }

    /// Makes a device from an image of its first blocks, the rest erased: as after flashing the output of ubinize or
    /// mkfs.jffs2. A last block that the image fills in part is padded with 0xFF.
    /// Errors: the image is longer than the device, or ends inside a page.
    pub fn load_front(config: ArrayConfig, image: &[u8], with_oob: bool) -> Result<Array<Bytes>, ImageError> {
        let geometry = config.geometry;
        let page = block_bytes(&geometry, with_oob) / u64::from(geometry.pages_per_peb());
        let (found, expected) = (image.len() as u64, dump_bytes(&geometry, with_oob));
        if found > expected || !found.is_multiple_of(page) {
            return Err(ImageError { found, expected, guess: Guess::Unknown });
        }
        Ok(Array::load_blocks(config, image, with_oob))
    }

    fn load_blocks(config: ArrayConfig, image: &[u8], with_oob: bool) -> Array<Bytes> {
        let geometry = config.geometry;
        let with_oob = with_oob && geometry.oob_bytes > 0;
        let mut store = if with_oob { Bytes::with_oob() } else { Bytes::new() };
        store.attach(&geometry);
        let page_bytes = geometry.page_bytes as usize;
        let stride = page_bytes + if with_oob { geometry.oob_bytes as usize } else { 0 };
        for (peb, block) in image.chunks(block_bytes(&geometry, with_oob) as usize).enumerate() {
            let peb = Peb(peb as u32);
            if with_oob {
                for (page, piece) in block.chunks_exact(stride).enumerate() {
                    let (cells, oob) = piece.split_at(page_bytes);
                    if cells.iter().any(|&byte| byte != 0xff) {
                        store.program(peb, (page * page_bytes) as u32, Payload::Bytes(cells));
                    }
                    if oob.iter().any(|&byte| byte != 0xff) {
                        store.program_oob(peb, page as u32, oob);
                    }
                }
            } else {
                store.replace(peb, block);
            }
        }
        Array::new(config, store)
    }
}
