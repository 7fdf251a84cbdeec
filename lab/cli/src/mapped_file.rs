//! A new file of a fixed size, mapped into memory: a simulated flash that may be larger than memory.
#![allow(unsafe_code)]

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use memmap2::MmapMut;

use crate::error::CliError;
use crate::output::{refuse_to_overwrite, temporary_beside};

/// The file, under a temporary name until it is [finished](MappedFile::finish). Dropped before, it leaves nothing.
#[derive(Debug)]
pub struct MappedFile {
    map: MmapMut,
    target: PathBuf,
    temporary: PathBuf,
    finished: bool,
}

impl MappedFile {
    /// Makes a file of `bytes` zero bytes.
    /// Errors: `target` is there and `force` is not; it cannot be made that large, or mapped.
    pub fn create(target: &Path, bytes: u64, force: bool) -> Result<MappedFile, CliError> {
        refuse_to_overwrite(target, force)?;
        let temporary = temporary_beside(target)?;
        let failed = |error: std::io::Error| {
            let _ = fs::remove_file(&temporary);
            CliError::write(&temporary, &error)
        };
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&temporary);
        let file = file.map_err(|error| CliError::write(&temporary, &error))?;
        // Its blocks are taken now: a disk that is full would end the run with a signal later.
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes)
            .map_err(|error| failed(error.into()))?;
        // SAFETY: the file was made by this process under a name of its own, and nobody else knows it before
        // `finish`; so nothing shortens or writes it while it is mapped.
        let map = unsafe { MmapMut::map_mut(&file) }.map_err(failed)?;
        Ok(MappedFile { map, target: target.to_owned(), temporary, finished: false })
    }

    /// Writes what is left to the disk and gives the file its name.
    /// Errors: it cannot be written; `target` has appeared meanwhile and `force` is not given.
    pub fn finish(mut self, force: bool) -> Result<(), CliError> {
        self.map.flush().map_err(|error| CliError::write(&self.temporary, &error))?;
        refuse_to_overwrite(&self.target, force)?;
        fs::rename(&self.temporary, &self.target).map_err(|error| CliError::write(&self.target, &error))?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        if !self.finished {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

impl AsRef<[u8]> for MappedFile {
    fn as_ref(&self) -> &[u8] {
        &self.map
    }
}

impl AsMut<[u8]> for MappedFile {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.map
    }
}
