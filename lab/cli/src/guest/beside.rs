//! The file beside the flash with what a guest writes to a drive.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use runner::run::guest::Backing;

use crate::error::CliError;
use crate::interrupt::Temporary;

/// A sparse file in the user's cache. It has no name any more, so it is gone when the process is.
pub struct Beside {
    file: File,
}

impl Beside {
    /// Creates the file.
    /// Errors: the cache has no place for it.
    pub fn create() -> Result<Beside, CliError> {
        let dir = super::cache_dir()?;
        let path = dir.join(format!("contents-{}", std::process::id()));
        let (temporary, file) = std::fs::create_dir_all(&dir)
            .and_then(|()| Temporary::create(path.clone()))
            .map_err(|error| CliError::write(&path, &error))?;
        // Dropped, it removes the name.
        drop(temporary);
        Ok(Beside { file })
    }
}

impl Backing for Beside {
    fn read(&mut self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, at)
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, at)
    }
}
