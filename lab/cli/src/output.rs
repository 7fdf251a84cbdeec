//! Output: to standard output, and to files that appear completely or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::CliError;

/// Prints `text`. A reader that closed the pipe, as `head` does, is no error.
pub fn print(text: &str) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CliError::write(Path::new("standard output"), &error))
        }
        _ => Ok(()),
    }
}

/// Prints one JSON document.
pub fn print_json(document: &impl Serialize) -> Result<(), CliError> {
    let mut text = serde_json::to_string_pretty(document).expect("every key of a document is a string");
    text.push('\n');
    print(&text)
}

/// A file being written under a temporary name beside its target, to which it is renamed at the end. If dropped before,
/// it is removed.
pub struct NewFile {
    target: PathBuf,
    temporary: PathBuf,
    file: Option<BufWriter<File>>,
}

impl NewFile {
    /// Errors: the file is there and `force` is not, or it cannot be made.
    pub fn create(target: &Path, force: bool) -> Result<NewFile, CliError> {
        refuse_to_overwrite(target, force)?;
        let temporary = temporary_beside(target)?;
        // `create_new` neither follows a link nor takes what somebody else left there.
        let file = OpenOptions::new().write(true).create_new(true).open(&temporary);
        let file = file.map_err(|error| CliError::write(&temporary, &error))?;
        Ok(NewFile { target: target.to_owned(), temporary, file: Some(BufWriter::with_capacity(1 << 20, file)) })
    }

    /// Appends `bytes`.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        let file = self.file.as_mut().expect("a file is open until it is finished");
        file.write_all(bytes).map_err(|error| CliError::write(&self.temporary, &error))
    }

    /// Renames the file to its target, once its bytes are on the disk.
    pub fn finish(mut self, force: bool) -> Result<(), CliError> {
        let file = self.file.take().expect("a file is open until it is finished");
        let written = file.into_inner().map_err(io::IntoInnerError::into_error).and_then(|file| file.sync_all());
        written.map_err(|error| CliError::write(&self.temporary, &error))?;
        refuse_to_overwrite(&self.target, force)?;
        fs::rename(&self.temporary, &self.target).map_err(|error| CliError::write(&self.target, &error))
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // After `finish` the temporary name does not exist and this removes nothing.
        let _ = fs::remove_file(&self.temporary);
    }
}

/// The temporary name beside `target`, under which a file is written.
/// Errors: `target` is not the name of a file.
pub fn temporary_beside(target: &Path) -> Result<PathBuf, CliError> {
    let Some(name) = target.file_name() else {
        return Err(CliError::input(target, "found a directory, expected the name of a file", "name a file in it"));
    };
    let mut temporary_name = std::ffi::OsString::from(".");
    temporary_name.push(name);
    temporary_name.push(format!(".{}.tmp", std::process::id()));
    Ok(target.with_file_name(temporary_name))
}

/// Checks that `target` may be written. Errors: it exists and `force` is not set, or it is a directory.
pub fn refuse_to_overwrite(target: &Path, force: bool) -> Result<(), CliError> {
    match fs::symlink_metadata(target) {
        Ok(found) if found.is_dir() => {
            Err(CliError::input(target, "found a directory of that name, expected none", "give another name"))
        }
        Ok(_) if !force => {
            Err(CliError::input(target, "found a file of that name, expected none", "give another name, or --force"))
        }
        _ => Ok(()),
    }
}
