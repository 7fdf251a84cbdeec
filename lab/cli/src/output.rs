//! Output: to standard output, and to files that appear completely or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use serde::Serialize;

use crate::error::CliError;
use crate::interrupt::Temporary;

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

/// A JSON document with the name and version of its form, `nandlab/NAME/VERSION` (`docs/format/json.md`).
#[derive(Serialize)]
pub struct Versioned<'a, T> {
    schema: &'static str,
    #[serde(flatten)]
    document: &'a T,
}

impl<'a, T> Versioned<'a, T> {
    /// `document` is an object.
    pub fn new(schema: &'static str, document: &'a T) -> Versioned<'a, T> {
        Versioned { schema, document }
    }
}

/// Prints an object as a JSON document of the form `schema`.
pub fn print_json(schema: &'static str, document: &impl Serialize) -> Result<(), CliError> {
    let mut text =
        serde_json::to_string_pretty(&Versioned::new(schema, document)).expect("every key of a document is a string");
    text.push('\n');
    print(&text)
}

/// What a command may overwrite: nothing that exists, unless the user says `--force`; its inputs never.
#[derive(Clone, Debug, Default)]
pub struct Overwrite {
    force: bool,
    /// Device and inode of each input.
    inputs: Vec<(u64, u64)>,
}

impl Overwrite {
    /// With `force`, files that exist are overwritten, except the `inputs`. An input that does not exist is ignored:
    /// reading it gives the error.
    pub fn new<'a>(force: bool, inputs: impl IntoIterator<Item = &'a Path>) -> Overwrite {
        let inputs = inputs.into_iter().filter_map(|path| fs::metadata(path).ok());
        Overwrite { force, inputs: inputs.map(|found| (found.dev(), found.ino())).collect() }
    }

    /// Checks that `target` may be written. Errors: it is an input, a directory, or exists without `--force`.
    pub fn permit(&self, target: &Path) -> Result<(), CliError> {
        let is_input = |found: &fs::Metadata| self.inputs.contains(&(found.dev(), found.ino()));
        let (what, help) = match fs::symlink_metadata(target) {
            Ok(found) if found.is_dir() => ("found a directory of that name, expected none", "give another name"),
            Ok(found) if is_input(&found) || fs::metadata(target).is_ok_and(|found| is_input(&found)) => {
                ("found an input of this command, which is never overwritten", "give another name or directory")
            }
            Ok(_) if !self.force => (
                "found a file of that name, expected none",
                "give another name or directory, or --force to overwrite it",
            ),
            _ => return Ok(()),
        };
        Err(CliError::input(target, what, help))
    }
}

/// A path without links and `..`, to compare it with others. What does not exist yet has no links.
pub fn place_of(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let known = whole.ancestors().find_map(|part| Some((fs::canonicalize(part).ok()?, part)));
    let (mut place, part) = known.unwrap_or((PathBuf::new(), Path::new("")));
    for component in whole.strip_prefix(part).unwrap_or(&whole).components() {
        match component {
            Component::ParentDir => drop(place.pop()),
            component => place.push(component),
        }
    }
    place
}

/// Creates a directory with its parents, if it does not exist.
/// Errors: a part of the path is a file; it cannot be created.
pub fn make_dir(dir: &Path) -> Result<(), CliError> {
    fs::create_dir_all(dir).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
            CliError::input(dir, "found a file in its path, expected directories", "name a directory")
        }
        _ => CliError::write(dir, &error),
    })
}

/// A file being written under a temporary name beside its target, to which it is renamed at the end. If dropped before,
/// it is removed.
pub struct NewFile<'a> {
    overwrite: &'a Overwrite,
    target: PathBuf,
    temporary: Temporary,
    file: BufWriter<File>,
}

impl<'a> NewFile<'a> {
    /// Errors: the target may not be overwritten, or the file cannot be made.
    pub fn create(target: &Path, overwrite: &'a Overwrite) -> Result<NewFile<'a>, CliError> {
        overwrite.permit(target)?;
        let created = Temporary::create(temporary_beside(target)?);
        let (temporary, file) = created.map_err(|error| CliError::write(target, &error))?;
        let file = BufWriter::with_capacity(1 << 20, file);
        Ok(NewFile { overwrite, target: target.to_owned(), temporary, file })
    }

    /// Appends `bytes`.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        self.file.write_all(bytes).map_err(|error| CliError::write(&self.target, &error))
    }

    /// Writes `bytes` at a place, in a file that is written in no order: never mixed with [`write`](Self::write).
    pub fn write_at(&mut self, bytes: &[u8], offset: u64) -> Result<(), CliError> {
        self.file.get_ref().write_all_at(bytes, offset).map_err(|error| CliError::write(&self.target, &error))
    }

    /// Renames the file to its target, once its bytes are on the disk.
    pub fn finish(self) -> Result<(), CliError> {
        let failed = |error: io::Error| CliError::write(&self.target, &error);
        let file = self.file.into_inner().map_err(|error| failed(error.into_error()))?;
        file.sync_all().map_err(failed)?;
        self.overwrite.permit(&self.target)?;
        self.temporary.rename(&self.target).map_err(failed)
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

/// Writes a file as a whole.
/// Errors: it may not be overwritten, or cannot be written.
pub fn write(target: &Path, bytes: &[u8], overwrite: &Overwrite) -> Result<(), CliError> {
    let mut file = NewFile::create(target, overwrite)?;
    file.write(bytes)?;
    file.finish()
}

/// A new file as a stream; its errors are wrapped in those of the stream.
pub struct Sink<'a>(pub NewFile<'a>);

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
