//! Block traces: what somebody's disk was asked once, in twelve formats, in and out, and what its pattern is.
//!
//! [`TraceReader`] finds out the format and hands out [`TraceRecord`]s one at a time; [`TraceWriter`] writes them in any
//! format and counts what that cannot hold; [`Pattern`] measures them as they pass. Nothing here knows files: inputs are
//! `Read`, outputs `Write`. Memory is bounded whatever the length of the trace and whatever is in it, and bad input is an
//! error that names its place, never a panic.

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
pub use writer::{Lost, TraceWriter};

/// Where a trace was cut off. What is before it is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Its last byte's offset, plus one.
    pub byte: u64,
    /// Records that are whole.
    pub records: u64,
}
