//! Why a trace could not be read or written, and where.

use std::fmt;
use std::io;

use thiserror::Error;

use super::Format;

/// A place in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a text: line and column, both from 1, and the offset of the line's first byte.
    Line {
        /// Line number, from 1.
        line: u64,
        /// Column in bytes, from 1.
        column: u64,
        /// Offset of the line's first byte.
        byte: u64,
    },
    /// In a binary format: offset in bytes.
    Byte(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line { line, column, byte } => write!(f, "line {line} (byte {byte}), column {column}"),
            Place::Byte(byte) => write!(f, "byte {byte}"),
        }
    }
}

/// Why a trace could not be read.
#[derive(Debug, Error)]
pub enum TraceError {
    /// The input could not be read.
    #[error("byte {byte}: {error}")]
    Read {
        /// Bytes read before the error.
        byte: u64,
        /// The error of the input.
        error: io::Error,
    },
    /// The input violates the format.
    #[error("{place}: found {found}, expected {expected}")]
    Malformed {
        /// Where it does.
        place: Place,
        /// What was found.
        found: String,
        /// What is allowed.
        expected: String,
    },
    /// The beginning fits no known format.
    #[error("found {found}, expected {}", beginnings())]
    Unrecognised {
        /// The beginning of the input.
        found: String,
    },
}

/// How each format begins, to help the user recognize a file.
fn beginnings() -> String {
    let mut text = String::from("one of");
    for format in Format::ALL {
        text.push_str("\n    ");
        text.push_str(format.name());
        text.push_str(": ");
        text.push_str(format.shape());
    }
    text
}

/// Bytes for a message: quoted, without control characters, at most 48 of them.
pub(super) fn quoted(bytes: &[u8]) -> String {
    const MOST: usize = 48;
    if bytes.is_empty() {
        return "nothing".to_owned();
    }
    let shown = bytes[..bytes.len().min(MOST)].escape_ascii().to_string();
    if bytes.len() > MOST { format!("\"{shown}…\"") } else { format!("\"{shown}\"") }
}
