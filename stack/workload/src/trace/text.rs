//! Formats of text, a line a record.
//!
//! Each parser takes one line without its end and says what stands in it; it keeps nothing but what later lines need. It
//! does not know where the line is, what came before in time, or who asks.

pub(super) mod blkparse;
pub(super) mod csv;
pub(super) mod fields;
pub(super) mod iolog;

use sim::Ns;
use sim::seam::{BlockOp, SECTOR_BYTES};

use super::pairing::Event;
use super::{MAX_LEN_BYTES, TraceRecord};
use fields::{Fault, Fields};

/// What a line holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// A request; `at` in the format's own time.
    Record(TraceRecord),
    /// Something that befell a request.
    Event(Event),
    /// Something that is no request, and why.
    Skipped(&'static str),
    /// Nothing: a blank, a heading.
    Nothing,
    /// The end of the trace; what follows is something else.
    End,
}

/// Why lines of each kind are left out.
pub(super) mod skipped {
    /// SYSTOR '17 has requests of which it does not tell what they are.
    pub const BLANK_TYPE: &str = "requests without a type";
    /// Commands that pass the block layer through.
    pub const NO_BLOCKS: &str = "commands that are no read, write, flush or trim";
    /// `m` lines, process names, clocks.
    pub const MESSAGE: &str = "messages";
    /// fio opens and closes.
    pub const FILE_ACTION: &str = "actions on files that move no data";
    /// A completion whose request was handed over before the trace began.
    pub const LONE_COMPLETION: &str = "completions of requests that the trace does not hold";
    /// Hand-overs to the driver of a device whose queue events were taken already.
    pub const LATE_ISSUE: &str = "hand-overs to a driver that began late in the trace";
}

/// Sectors as bytes.
fn sectors(fields: &mut Fields<'_>, expected: &'static str) -> Result<u64, Fault> {
    fields.checked(expected, |sectors| sectors.checked_mul(u64::from(SECTOR_BYTES)))
}

/// A length that stays within 64 bits and [`MAX_LEN_BYTES`]: the number times `unit`.
fn length(fields: &mut Fields<'_>, offset: u64, unit: u32, expected: &'static str) -> Result<u64, Fault> {
    fields.checked(expected, |count| {
        let bytes = count.checked_mul(u64::from(unit)).filter(|&bytes| bytes <= MAX_LEN_BYTES)?;
        offset.checked_add(bytes).map(|_| bytes)
    })
}

/// A letter or word for a read or a write; `None` if nothing stands there.
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
