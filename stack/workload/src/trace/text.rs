//! Text formats, one record per line.
//!
//! Each parser decodes one line without its end, and keeps only what later lines need. It does not know where the line
//! is, what time came before, or who calls.

// Whatever a line says is checked before it becomes narrower.
#![deny(clippy::cast_possible_truncation)]

pub(super) mod blkparse;
pub(super) mod csv;
pub(super) mod fields;
pub(super) mod iolog;

use sim::Ns;
use sim::seam::{BlockOp, SECTOR_BYTES};

use super::pairing::Event;
use super::{MAX_LEN_BYTES, TraceRecord};
use fields::{Fault, Fields};

/// Contents of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// A request; `at` in the format's own time.
    Record(TraceRecord),
    /// An event of a request.
    Event(Event),
    /// Not a request, for this reason.
    Skipped(&'static str),
    /// Nothing: blank or a heading.
    Nothing,
    /// The end of the trace; other text follows.
    End,
}

/// Reasons for skipping lines and events.
pub(super) mod skipped {
    /// SYSTOR '17 has requests without an operation.
    pub const BLANK_TYPE: &str = "requests without a type";
    /// Pass-through commands.
    pub const NO_BLOCKS: &str = "commands that are no read, write, flush or trim";
    /// `m` lines, process names, clocks.
    pub const MESSAGE: &str = "messages";
    /// fio opens and closes files.
    pub const FILE_ACTION: &str = "actions on files that move no data";
    /// A completion whose request was issued before the trace began.
    pub const LONE_COMPLETION: &str = "completions of requests that the trace does not hold";
    /// Issue events of a device whose queue events were used already.
    pub const LATE_ISSUE: &str = "issue events (D) of a device already traced by its queue events (Q)";
}

/// Reads sectors and converts them to bytes.
fn sectors(fields: &mut Fields<'_>, expected: &'static str) -> Result<u64, Fault> {
    fields.checked(expected, |sectors| sectors.checked_mul(u64::from(SECTOR_BYTES)))
}

/// Reads a length in units of `unit`; it must be at most [`MAX_LEN_BYTES`] and end within 64 bits.
fn length(fields: &mut Fields<'_>, offset: u64, unit: u32, expected: &'static str) -> Result<u64, Fault> {
    fields.checked(expected, |count| {
        let bytes = count.checked_mul(u64::from(unit)).filter(|&bytes| bytes <= MAX_LEN_BYTES)?;
        offset.checked_add(bytes).map(|_| bytes)
    })
}

/// A letter or word for a read or a write; `None` if the field is empty.
fn read_or_write(fields: &mut Fields<'_>, expected: &'static str) -> Result<Option<BlockOp>, Fault> {
    let before = fields.clone();
    Ok(Some(match fields.word(expected)? {
        b"R" | b"r" | b"Read" | b"read" | b"READ" => BlockOp::Read,
        b"W" | b"w" | b"Write" | b"write" | b"WRITE" => BlockOp::Write,
        b"" => return Ok(None),
        _ => return Err(before.fault_of_next(expected)),
    }))
}

fn record(at: u64, op: BlockOp, device: u32, offset_bytes: u64, len_bytes: u64) -> TraceRecord {
    TraceRecord { device, ..TraceRecord::new(Ns(at), op, offset_bytes, len_bytes) }
}
