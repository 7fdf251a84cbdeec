//! A new file of a fixed size, mapped into memory: a simulated flash may be larger than memory.
#![allow(unsafe_code)]

use std::path::{Path, PathBuf};

use memmap2::MmapMut;

use crate::error::CliError;
use crate::interrupt::Temporary;
use crate::output::{Overwrite, temporary_beside};

/// The file, under a temporary name until it is [finished](MappedFile::finish). If dropped before, it is removed.
#[derive(Debug)]
pub struct MappedFile {
    map: MmapMut,
    target: PathBuf,
    temporary: Temporary,
}

impl MappedFile {
    /// Creates a file of `bytes` zero bytes.
    /// Errors: `target` may not be overwritten; the file cannot be made that large, or mapped.
    pub fn create(target: &Path, bytes: u64, overwrite: &Overwrite) -> Result<MappedFile, CliError> {
        overwrite.permit(target)?;
        let failed = |error: std::io::Error| CliError::write(target, &error);
        let (temporary, file) = Temporary::create(temporary_beside(target)?).map_err(failed)?;
        // Allocate all blocks now: a full disk would otherwise end the run with a signal.
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes)
            .map_err(|error| failed(error.into()))?;
        // SAFETY: this process created the file under a name of its own, which no other process gets before `finish`;
        // so nothing truncates or writes it while it is mapped.
        let map = unsafe { MmapMut::map_mut(&file) }.map_err(failed)?;
        Ok(MappedFile { map, target: target.to_owned(), temporary })
    }

    /// Path of the file once it is finished.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Where a device's contents go that come piece by piece, and are `never_written` elsewhere.
    pub fn filled(&mut self, never_written: u8) -> impl FnMut(u64, &[u8]) {
        // A new file is zero and has no blocks on the disk yet.
        if never_written != 0 {
            self.map.fill(never_written);
        }
        |at, bytes| self.map[at as usize..][..bytes.len()].copy_from_slice(bytes)
    }

    /// Writes the remaining data to the disk and renames the file to its target.
    /// Errors: the file cannot be written; `target` was created meanwhile.
    pub fn finish(self, overwrite: &Overwrite) -> Result<(), CliError> {
        let failed = |error| CliError::write(&self.target, &error);
        self.map.flush().map_err(failed)?;
        overwrite.permit(&self.target)?;
        self.temporary.rename(&self.target).map_err(failed)
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
