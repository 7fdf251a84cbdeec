//! A new file of a fixed size, mapped into memory: a simulated flash may be larger than memory.
#![allow(unsafe_code)]

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use memmap2::MmapMut;

use crate::error::CliError;
use crate::output::{refuse_to_overwrite, temporary_beside};

/// The file, under a temporary name until it is [finished](MappedFile::finish). If dropped before, it is removed.
#[derive(Debug)]
pub struct MappedFile {
    map: MmapMut,
    target: PathBuf,
    temporary: PathBuf,
    finished: bool,
}

impl MappedFile {
    /// Creates a file of `bytes` zero bytes.
    /// Errors: `target` exists and `force` is not set; the file cannot be made that large, or mapped.
    pub fn create(target: &Path, bytes: u64, force: bool) -> Result<MappedFile, CliError> {
        refuse_to_overwrite(target, force)?;
        let temporary = temporary_beside(target)?;
        let failed = |error: std::io::Error| {
            let _ = fs::remove_file(&temporary);
            CliError::write(&temporary, &error)
        };
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&temporary);
        let file = file.map_err(|error| CliError::write(&temporary, &error))?;
        // Allocate all blocks now: a full disk would otherwise end the run with a signal.
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes)
            .map_err(|error| failed(error.into()))?;
        // SAFETY: this process created the file under a name of its own, which no other process gets before `finish`;
        // so nothing truncates or writes it while it is mapped.
        let map = unsafe { MmapMut::map_mut(&file) }.map_err(failed)?;
        Ok(MappedFile { map, target: target.to_owned(), temporary, finished: false })
    }

    /// Writes the remaining data to the disk and renames the file to its target.
    /// Errors: the file cannot be written; `target` was created meanwhile and `force` is not set.
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
