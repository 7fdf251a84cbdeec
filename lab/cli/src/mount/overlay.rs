//! A file with the blocks of an image that a mount changed. `docs/format/overlay.md` describes it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::error::CliError;
use crate::output::{NewFile, Overwrite};

/// First bytes of the file.
pub const MAGIC: [u8; 16] = *b"nandlab overlay\n";
/// Version of the form.
const VERSION: u32 = 1;
/// Bytes before the first block.
const HEADER_BYTES: usize = 88;
/// Bytes of a SHA-256.
const HASH_BYTES: usize = 32;

/// An image, or the part of it that is mounted, by which an overlay knows it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Bytes.
    pub bytes: u64,
    /// SHA-256 of them.
    pub hash: [u8; HASH_BYTES],
}

impl Identity {
    /// The identity of these bytes.
    pub fn of(bytes: &[u8]) -> Identity {
        Identity { bytes: bytes.len() as u64, hash: Sha256::digest(bytes).into() }
    }
}

/// Where the blocks of an image are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// Offset of block 0.
    pub start: u64,
    /// Bytes of a block.
    pub bytes: u32,
    /// Their number.
    pub count: u32,
}

impl Blocks {
    /// Offset of a block.
    pub fn offset(&self, block: u32) -> u64 {
        self.start + u64::from(block) * u64::from(self.bytes)
    }

    /// One past the last byte of the last block.
    pub fn end(&self) -> u64 {
        self.offset(self.count)
    }
}

/// The blocks that differ from an image.
#[derive(Debug, PartialEq, Eq)]
pub struct Overlay {
    /// Where they are.
    pub blocks: Blocks,
    /// Contents by number.
    pub changed: BTreeMap<u32, Vec<u8>>,
}

fn wrong(path: &Path, what: impl Into<String>, help: &str) -> CliError {
    CliError::input(path, what, help)
}

impl Overlay {
    /// Reads the file; `None` if there is none.
    /// Errors: it cannot be read, is damaged, or was made over another image than `base`.
    pub fn read(path: &Path, base: &Identity) -> Result<Option<Overlay>, CliError> {
        match fs::read(path) {
            Ok(bytes) => Overlay::decode(path, &bytes, base).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(CliError::read(path, &error)),
        }
    }

    fn decode(path: &Path, bytes: &[u8], base: &Identity) -> Result<Overlay, CliError> {
        let help = "name another file, or remove this one";
        if !bytes.starts_with(&MAGIC) {
            return Err(wrong(path, "found a file that is no overlay of nandlab", help));
        }
        let Some((body, hash)) = bytes.split_last_chunk::<HASH_BYTES>().filter(|(body, _)| body.len() >= HEADER_BYTES)
        else {
            return Err(wrong(path, "the overlay is cut off", help));
        };
        let word = |at: usize| u32::from_le_bytes(*body[at..].first_chunk().expect("the header is there"));
        let long = |at: usize| u64::from_le_bytes(*body[at..].first_chunk().expect("the header is there"));
        if word(16) != VERSION {
            let what = format!("found an overlay of version {}, expected {VERSION}", word(16));
            return Err(wrong(path, what, "use the nandlab that wrote it"));
        }
        if Sha256::digest(body)[..] != hash[..] {
            return Err(wrong(path, "the overlay is damaged: its SHA-256 is another", help));
        }
        if (long(32), &body[40..72]) != (base.bytes, &base.hash[..]) {
            let what = format!("the overlay was made over another image, of {} bytes", long(32));
            return Err(wrong(path, what, "name the image that it was made over, as it was then, or another overlay"));
        }
        let blocks = Blocks { start: long(24), bytes: word(20), count: word(72) };
        let record_bytes = 4 + blocks.bytes as usize;
        let records = &body[HEADER_BYTES..];
        if blocks.bytes == 0 || records.len() as u64 != u64::from(word(76)) * record_bytes as u64 {
            return Err(wrong(path, "the overlay's length is not that of its blocks", help));
        }
        let mut changed = BTreeMap::new();
        for record in records.chunks(record_bytes) {
            let (number, contents) = record.split_first_chunk().expect("it is longer");
            let number = u32::from_le_bytes(*number);
            if number >= blocks.count || changed.insert(number, contents.to_vec()).is_some() {
                return Err(wrong(path, format!("found block {number} twice or beyond the last one"), help));
            }
        }
        Ok(Overlay { blocks, changed })
    }

    /// Writes the file, which is there as a whole or as it was before.
    /// Errors: it cannot be written.
    pub fn write(&self, path: &Path, base: &Identity, overwrite: &Overwrite) -> Result<(), CliError> {
        let mut file = NewFile::create(path, overwrite)?;
        let mut hash = Sha256::new();
        let mut put = |bytes: &[u8]| {
            hash.update(bytes);
            file.write(bytes)
        };
        let Blocks { start, bytes, count } = self.blocks;
        put(&MAGIC)?;
        put(&VERSION.to_le_bytes())?;
        put(&bytes.to_le_bytes())?;
        put(&start.to_le_bytes())?;
        put(&base.bytes.to_le_bytes())?;
        put(&base.hash)?;
        put(&count.to_le_bytes())?;
        put(&(self.changed.len() as u32).to_le_bytes())?;
        put(&[0; 8])?;
        for (number, contents) in &self.changed {
            put(&number.to_le_bytes())?;
            put(contents)?;
        }
        let hash = hash.finalize();
        file.write(&hash)?;
        file.finish()
    }

    /// Puts the blocks into the bytes of the image, which becomes as long as it was.
    pub fn apply(&self, bytes: &mut Vec<u8>) {
        let end = self.blocks.end() as usize;
        if bytes.len() < end {
            bytes.resize(end, 0xff);
        }
        for (&number, contents) in &self.changed {
            bytes[self.blocks.offset(number) as usize..][..contents.len()].copy_from_slice(contents);
        }
    }
}
