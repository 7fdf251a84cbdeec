//! The one error type of the command line.

use std::io;
use std::path::Path;

/// Why a command did not do its work. It names the file, what was found and what was expected; `help` is the remedy.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The user's input cannot be used.
    #[error("{file}: {what}")]
    Input {
        /// The file, with a line or an offset where there is one.
        file: String,
        /// What was found and what was expected.
        what: String,
        /// What to do about it.
        help: String,
    },
    /// The machine cannot do it.
    #[error("{file}: {what}")]
    Environment {
        /// The file.
        file: String,
        /// What happened.
        what: String,
        /// What to do about it.
        help: String,
    },
}

impl CliError {
    /// Bad input in `file`.
    pub fn input(file: &Path, what: impl Into<String>, help: impl Into<String>) -> CliError {
        CliError::Input { file: file.display().to_string(), what: what.into(), help: help.into() }
    }

    /// The machine failed on `file`.
    pub fn environment(file: &Path, what: impl Into<String>, help: impl Into<String>) -> CliError {
        CliError::Environment { file: file.display().to_string(), what: what.into(), help: help.into() }
    }

    /// A file that could not be opened or read.
    pub fn read(file: &Path, error: &io::Error) -> CliError {
        match error.kind() {
            io::ErrorKind::NotFound => CliError::input(file, "no such file", "check the path"),
            io::ErrorKind::PermissionDenied => {
                CliError::environment(file, "permission to read it is denied", "run as a user who may read it")
            }
            io::ErrorKind::IsADirectory => {
                CliError::input(file, "found a directory, expected a file", "name a file in it")
            }
            _ => CliError::environment(file, format!("cannot be read: {error}"), "check the disk it is on"),
        }
    }

    /// A file that could not be made or written.
    pub fn write(file: &Path, error: &io::Error) -> CliError {
        let help = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space, or write elsewhere",
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => "write where you may",
            io::ErrorKind::NotFound => "make its directory first",
            _ => "check the disk it is on",
        };
        CliError::environment(file, format!("cannot be written: {error}"), help)
    }

    /// 2 for input, 3 for the machine.
    pub fn exit_code(&self) -> u8 {
        match self {
            CliError::Input { .. } => 2,
            CliError::Environment { .. } => 3,
        }
    }

    /// As it is printed: the error, then the remedy.
    pub fn report(&self) -> String {
        let (CliError::Input { help, .. } | CliError::Environment { help, .. }) = self;
        format!("error: {self}\n  help: {help}")
    }
}
