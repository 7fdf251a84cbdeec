//! The one error type of the command line.

use std::io;
use std::path::Path;

/// Why a command failed: the file, what was found and what was expected, and a remedy in `help`.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The input cannot be used.
    #[error("{file}: {what}")]
    Input {
        /// The file, with a line or an offset if there is one.
        file: String,
        /// What was found and what was expected.
        what: String,
        /// How to correct it.
        help: String,
    },
    /// The machine failed, or lacks something.
    #[error("{file}: {what}")]
    Environment {
        /// The file concerned.
        file: String,
        /// Description of the failure.
        what: String,
        /// How to correct it.
        help: String,
    },
}

impl CliError {
    /// An error in the input `file`.
    pub fn input(file: &Path, what: impl Into<String>, help: impl Into<String>) -> CliError {
        CliError::Input { file: file.display().to_string(), what: what.into(), help: help.into() }
    }

    /// A failure of the machine on `file`.
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
            io::ErrorKind::InvalidData => {
                CliError::input(file, "found bytes that are no text, expected UTF-8", "name a text file")
            }
            io::ErrorKind::NotADirectory => {
                CliError::input(file, "found a file in its path, expected directories", "check the path")
            }
            _ => CliError::environment(file, format!("cannot be read: {error}"), "check the disk it is on"),
        }
    }

    /// A file that could not be created or written.
    pub fn write(file: &Path, error: &io::Error) -> CliError {
        if error.kind() == io::ErrorKind::NotADirectory {
            return CliError::input(file, "found a file in its path, expected directories", "give another name");
        }
        let help = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space, or write elsewhere",
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => "write where you may",
            io::ErrorKind::NotFound => "make its directory first",
            _ => "check the disk it is on",
        };
        CliError::environment(file, format!("cannot be written: {error}"), help)
    }

    /// Exit code: 2 for input, 3 for the machine.
    pub fn exit_code(&self) -> u8 {
        match self {
            CliError::Input { .. } => 2,
            CliError::Environment { .. } => 3,
        }
    }

    /// The error as printed, with its remedy.
    pub fn report(&self) -> String {
        let (CliError::Input { help, .. } | CliError::Environment { help, .. }) = self;
        format!("error: {self}\n  help: {help}")
    }
}
