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
        /// Line, from 1.
        line: u64,
        /// Column in bytes, from 1.
        column: u64,
        /// Where the line begins.
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
    /// The input failed.
    #[error("byte {byte}: {error}")]
    Read {
        /// How many bytes were read before.
        byte: u64,
        /// What the input said.
        error: io::Error,
    },
    /// Something that the format does not allow.
    #[error("{place}: found {found}, expected {expected}")]
    Malformed {
        /// Where.
        place: Place,
        /// What stands there.
        found: String,
        /// What may stand there.
        expected: String,
    },
    /// The beginning looks like no format that is known.
    #[error("found {found}, expected {}", beginnings())]
    Unrecognised {
        /// What the input begins with.
        found: String,
    },
}

/// Every format as it may begin, for the user who must find out which one a file has.
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

/// Bytes as a message may show them: quoted, without control characters, at most 48 of them.
pub(super) fn quoted(bytes: &[u8]) -> String {
    const MOST: usize = 48;
    if bytes.is_empty() {
        return "nothing".to_owned();
    }
    let shown = bytes[..bytes.len().min(MOST)].escape_ascii().to_string();
    if bytes.len() > MOST { format!("\"{shown}…\"") } else { format!("\"{shown}\"") }
}
