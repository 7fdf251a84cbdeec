//! The bytes of an image: a file that is read piece by piece, or standard input.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, IsTerminal, Read, Seek};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::buffer::spare_capacity;
use rustix::io::{Errno, pread};
use ubi::image::{Dump, Input, Overrides, ProbeError};

use super::ecc::Corrected;
use crate::error::CliError;

/// Name of standard input among the arguments.
pub const STDIN: &str = "-";
/// Most bytes of a pipe: they are kept in memory.
const MOST_PIPED: u64 = 2 << 30;

/// Part of an image that a command reads.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Bytes to skip.
    pub offset: u64,
    /// Bytes to read; `None` for all.
    pub length: Option<u64>,
}

/// An image, open for reading.
#[derive(Debug)]
pub enum Loaded {
    /// The contents of a pipe.
    Memory(Vec<u8>),
    /// A file.
    File(FileInput),
    /// Either, corrected by the code bytes in its OOB.
    Corrected(Box<Corrected>),
}

/// A part of a file. Memory holds no more of it than the piece that is looked at.
#[derive(Debug)]
pub struct FileInput {
    file: File,
    start: u64,
    bytes: u64,
    /// Why a read failed, the first time.
    failed: RefCell<Option<io::Error>>,
}

impl Input for FileInput {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read(&self, at: u64, length: usize, into: &mut Vec<u8>) {
        let whole = into.len() + length;
        into.reserve_exact(length);
        while into.len() < whole {
            let done = (into.len() + length - whole) as u64;
            let failed = match pread(self.file.as_fd(), spare_capacity(into), self.start + at + done) {
                Ok(0) => io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter while it was read"),
                Ok(_) | Err(Errno::INTR) => continue,
                Err(error) => error.into(),
            };
            self.failed.borrow_mut().get_or_insert(failed);
            into.resize(whole, 0xff);
        }
        into.truncate(whole);
    }
}

impl Loaded {
    /// Opens the image at `path`, or standard input for `-`.
    /// Errors: it is no file and not standard input; it ends before `part`; a pipe has too much for memory.
    pub fn open(path: &Path, part: Part) -> Result<Loaded, CliError> {
        let read = |error| CliError::read(name(path), &error);
        let is_stdin = path == Path::new(STDIN);
        let mut file = match is_stdin {
            true if io::stdin().is_terminal() => {
                let what = "found a terminal, expected an image";
                return Err(CliError::input(name(path), what, "name a file, or send one: `zcat dump.gz | nandlab …`"));
            }
            true => File::from(io::stdin().as_fd().try_clone_to_owned().map_err(read)?),
            false => File::open(path).map_err(read)?,
        };
        let found = file.metadata().map_err(read)?;
        if found.is_dir() {
            return Err(CliError::input(name(path), "found a directory, expected an image", "name a file in it"));
        }
        if found.is_file() {
            let begin = if is_stdin { file.stream_position().map_err(read)? } else { 0 };
            let whole = found.len().saturating_sub(begin);
            let bytes = part.of(path, whole)?;
            return Ok(Loaded::File(FileInput { file, start: begin + part.offset, bytes, failed: RefCell::new(None) }));
        }
        if !is_stdin {
            let help = "copy it to a file first, `nanddump -f dump.bin /dev/mtdN`, or give it on standard input as `-`";
            return Err(CliError::input(path, "found a device or a pipe, expected a file", help));
        }
        piped(file, part)
    }

    /// Number of bytes.
    pub fn bytes(&self) -> u64 {
        match self {
            Loaded::Memory(bytes) => bytes.len() as u64,
            Loaded::File(file) => file.bytes(),
            Loaded::Corrected(dump) => dump.bytes(),
        }
    }

    /// Appends up to `length` bytes from `at` on to `into`: fewer where the image ends.
    pub fn read(&self, at: u64, length: usize, into: &mut Vec<u8>) {
        let at = at.min(self.bytes());
        let length = (length as u64).min(self.bytes() - at) as usize;
        match self {
            Loaded::Memory(bytes) => into.extend_from_slice(&bytes[at as usize..][..length]),
            Loaded::File(file) => file.read(at, length, into),
            Loaded::Corrected(dump) => dump.read(at, length, into),
        }
    }

    /// Finds the PEBs.
    pub fn probe(&self, given: &Overrides) -> Result<Dump<'_>, ProbeError> {
        match self {
            Loaded::Memory(bytes) => Dump::probe(bytes, given),
            Loaded::File(file) => Dump::probe_input(file, given),
            Loaded::Corrected(dump) => Dump::probe_input(&**dump, given),
        }
    }

    /// Errors: a part of the image could not be read, so that nothing found in it counts.
    pub fn was_read(&self, path: &Path) -> Result<(), CliError> {
        match self {
            Loaded::Memory(_) => Ok(()),
            Loaded::Corrected(dump) => dump.raw().was_read(path),
            Loaded::File(file) => match &*file.failed.borrow() {
                Some(error) => Err(CliError::read(name(path), error)),
                None => Ok(()),
            },
        }
    }
}

impl Part {
    /// Bytes to read of an image of `whole` bytes.
    pub fn of(self, path: &Path, whole: u64) -> Result<u64, CliError> {
        match whole.checked_sub(self.offset) {
            Some(rest) => Ok(self.length.unwrap_or(rest).min(rest)),
            None => {
                let what = format!("found {whole} bytes, expected more than --offset {}", self.offset);
                Err(CliError::input(name(path), what, "lower --offset"))
            }
        }
    }
}

/// Reads a pipe to its end, or to the end of `part`.
fn piped(mut pipe: File, part: Part) -> Result<Loaded, CliError> {
    let path = Path::new(STDIN);
    let read = |error| CliError::read(name(path), &error);
    let skipped = io::copy(&mut (&mut pipe).take(part.offset), &mut io::sink()).map_err(read)?;
    part.of(path, skipped)?;
    let most = part.length.unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    pipe.take(most.min(MOST_PIPED + 1)).read_to_end(&mut bytes).map_err(read)?;
    if bytes.len() as u64 > MOST_PIPED {
        let what = format!("found more than {MOST_PIPED} bytes in a pipe, which are kept in memory");
        let help = "write them to a file, which is read piece by piece, or read a part with --offset and --length";
        return Err(CliError::input(name(path), what, help));
    }
    Ok(Loaded::Memory(bytes))
}

/// The file that is read, which no command overwrites.
pub fn file(path: &Path) -> &Path {
    if path == Path::new(STDIN) { Path::new("/dev/stdin") } else { path }
}

/// What messages call the image.
pub fn name(path: &Path) -> &Path {
    if path == Path::new(STDIN) { Path::new("standard input") } else { path }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_becomes_shorter_is_an_error() {
        let path = std::env::temp_dir().join(format!("nandlab-shorter-{}.bin", std::process::id()));
        std::fs::write(&path, [7; 100]).expect("a file of the test");
        let part = Part { offset: 10, length: None };
        let loaded = Loaded::open(&path, part).expect("it is a file");
        let Loaded::File(input) = &loaded else { panic!("it is a file") };
        let mut bytes = vec![1];
        input.read(20, 70, &mut bytes);
        assert_eq!((bytes.len(), bytes[70], loaded.was_read(&path).is_ok()), (71, 7, true));
        File::options().write(true).open(&path).and_then(|file| file.set_len(50)).expect("it can be cut");
        bytes.clear();
        input.read(20, 70, &mut bytes);
        assert_eq!((bytes[19], bytes[20], bytes.len()), (7, 0xff, 70));
        let error = loaded.was_read(&path).expect_err("bytes are missing").to_string();
        assert!(error.contains("the file became shorter while it was read"), "{error}");
        std::fs::remove_file(path).expect("it goes");
    }
}
