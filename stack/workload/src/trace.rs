//! Block traces: requests recorded on somebody's disk, read and written in twelve formats, and their access pattern.
//!
//! [`TraceReader`] detects the format and returns [`TraceRecord`]s one at a time; [`TraceWriter`] writes them in any
//! format and counts what that cannot hold; [`Pattern`] measures them. Nothing here knows files: inputs are `Read`,
//! outputs `Write`. Memory is bounded whatever the length and contents of the trace, and bad input is an error with its
//! place, never a panic.

mod blktrace;
mod detect;
mod error;
mod format;
mod ntrace;
mod pairing;
pub mod pattern;
mod reader;
mod record;
mod source;
mod text;
mod writer;

pub use detect::{Detected, detect};
pub use error::{Place, TraceError};
pub use format::{Format, Holds};
pub use ntrace::{NtraceFile, NtraceWriter};
pub use pattern::Pattern;
pub use reader::{Notes, ReadOptions, TraceReader};
pub use record::{MAX_LEN_BYTES, TraceRecord};
pub use text::blkparse::{device_numbers, device_of};
pub use writer::{Lost, TraceWriter};

/// Where a trace is truncated. Everything before is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Offset after the last byte.
    pub byte: u64,
    /// Number of complete records.
    pub records: u64,
}
