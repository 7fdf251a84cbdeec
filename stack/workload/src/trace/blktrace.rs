//! The format of `blktrace`: binary events in the byte order of the recording machine.
//!
//! Source: Linux `include/uapi/linux/blktrace_api.h` (6.12), as facts. `blktrace` writes a file per CPU; `blkparse -d`
//! merges them in the order of time.

use std::io::Read;

use sim::Ns;
use sim::seam::{BlockOp, SECTOR_BYTES};

use super::error::{Place, TraceError};
use super::pairing::{Event, Kind};
use super::source::Source;
use super::text::{Parsed, skipped};
use super::{Cut, TraceRecord};

/// Bytes of an event, without the payload that may follow.
pub const EVENT_BYTES: usize = 4 + 4 + 8 + 8 + 4 + 4 + 4 + 4 + 4 + 2 + 2;
const _: () = assert!(EVENT_BYTES == 48);

/// First word of every event: 0x65617400 and the version.
pub const MAGIC: u32 = 0x6561_7400 | VERSION;
const VERSION: u32 = 7;

/// Low bits of the action: what happened.
const QUEUE: u32 = 1;
const REQUEUE: u32 = 6;
const ISSUE: u32 = 7;
const COMPLETE: u32 = 8;

/// High bits of the action: the kind of request.
const READ: u32 = 1 << 16;
const WRITE: u32 = 1 << 17;
const FLUSH: u32 = 1 << 18;
const ISSUE_CATEGORY: u32 = 1 << 22;
const COMPLETE_CATEGORY: u32 = 1 << 23;
const PASSED_THROUGH: u32 = 1 << 25;
const NOTIFY: u32 = 1 << 26;
const DISCARD: u32 = 1 << 29;
const FUA: u32 = 1 << 31;

/// Result of reading one event.
pub(super) enum Step {
    Parsed(Parsed),
    Cut(Cut),
    End,
}

/// Whether `first`, the first four bytes of an event, is big-endian; `None` if it is no event.
pub(super) fn is_big_endian(first: [u8; 4]) -> Option<bool> {
    if u32::from_le_bytes(first) == MAGIC {
        Some(false)
    } else if u32::from_be_bytes(first) == MAGIC {
        Some(true)
    } else {
        None
    }
}

/// The version in `first` if it is blktrace's magic with another version.
pub(super) fn other_version(first: [u8; 4]) -> Option<u32> {
    [u32::from_le_bytes(first), u32::from_be_bytes(first)]
        .into_iter()
        .find(|number| number & !0xff == MAGIC & !0xff && *number != MAGIC)
        .map(|number| number & 0xff)
}

/// Reads the next event of `source`. `records` is the number of records returned so far, for [`Cut`]. `big_endian` is
/// the byte order of the first event.
pub(super) fn step<R: Read>(
    source: &mut Source<R>,
    big_endian: &mut Option<bool>,
    records: u64,
) -> Result<Step, TraceError> {
    let begins = source.offset();
    let bytes = source.peek(EVENT_BYTES)?;
    let Some(event) = bytes.first_chunk::<EVENT_BYTES>() else {
        let byte = begins + bytes.len() as u64;
        return Ok(if bytes.is_empty() { Step::End } else { Step::Cut(Cut { byte, records }) });
    };
    let malformed = |at: usize, found: String, expected: String| {
        Err(TraceError::Malformed { place: Place::Byte(begins + at as u64), found, expected })
    };
    let first = [event[0], event[1], event[2], event[3]];
    let order = is_big_endian(first).filter(|order| big_endian.is_none_or(|before| before == *order));
    let Some(big) = order else {
        let expected = match big_endian {
            Some(true) => "65617407, most significant byte first".to_owned(),
            Some(false) => "07746165, least significant byte first".to_owned(),
            None => "65617407 in either byte order".to_owned(),
        };
        return malformed(0, format!("{first:02x?} for a magic"), expected);
    };
    *big_endian = Some(big);
    let u32_at = |at: usize| {
        let bytes = event[at..at + 4].try_into().expect("four bytes");
        if big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    };
    let u64_at = |at: usize| {
        let bytes = event[at..at + 8].try_into().expect("eight bytes");
        if big { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) }
    };
    let (at, sector, bytes, action) = (Ns(u64_at(8)), u64_at(16), u32_at(24), u32_at(28));
    let (process, device) = (u32_at(32), u32_at(36));
    let data = [event[46], event[47]];
    let data_bytes = if big { u16::from_be_bytes(data) } else { u16::from_le_bytes(data) };

    let parsed = match meaning(action, bytes) {
        Meaning::Notice => Parsed::Skipped(skipped::MESSAGE),
        Meaning::Other => Parsed::Nothing,
        Meaning::NoBlocks => Parsed::Skipped(skipped::NO_BLOCKS),
        Meaning::Request { kind, op, fua, flush_before } => {
            let flush = op == BlockOp::Flush;
            let (sector, sectors) = if flush { (0, 0) } else { (sector, bytes.div_ceil(SECTOR_BYTES)) };
            let end = sector.checked_add(u64::from(sectors)).and_then(|end| end.checked_mul(u64::from(SECTOR_BYTES)));
            if end.is_none() {
                return malformed(
                    16,
                    format!("sector {sector}"),
                    "one whose bytes have a number of 64 bits".to_owned(),
                );
            }
            let process = Some(process).filter(|&process| process != 0);
            Parsed::Event(Event { kind, at, device, op, sector, sectors, fua, flush_before, process })
        }
    };
    source.consume(EVENT_BYTES);
    if !source.skip(u64::from(data_bytes))? {
        return Ok(Step::Cut(Cut { byte: source.offset(), records }));
    }
    Ok(Step::Parsed(parsed))
}

enum Meaning {
    Notice,
    Other,
    NoBlocks,
    Request { kind: Kind, op: BlockOp, fua: bool, flush_before: bool },
}

fn meaning(action: u32, bytes: u32) -> Meaning {
    if action & NOTIFY != 0 {
        return Meaning::Notice;
    }
    let kind = match action & 0xff {
        QUEUE => Kind::Queued,
        REQUEUE => Kind::Requeued,
        ISSUE => Kind::Issued,
        COMPLETE => Kind::Completed,
        _ => return Meaning::Other,
    };
    let has = |bit: u32| action & bit != 0;
    if has(PASSED_THROUGH) {
        return Meaning::NoBlocks;
    }
    let op = match bytes {
        0 if has(FLUSH) => BlockOp::Flush,
        0 => return Meaning::NoBlocks,
        _ if has(DISCARD) => BlockOp::Trim,
        _ if has(WRITE) => BlockOp::Write,
        _ => BlockOp::Read,
    };
    let flush_before = has(FLUSH) && op != BlockOp::Flush;
    Meaning::Request { kind, op, fua: has(FUA) && op != BlockOp::Flush, flush_before }
}

/// The issue event or, with `done`, the completion event of `record`, which [`super::Format::fit`] has adapted;
/// little-endian, with that sequence number.
pub(super) fn encode(record: &TraceRecord, at: Ns, done: bool, sequence: u32) -> [u8; EVENT_BYTES] {
    let mut action = match record.op {
        BlockOp::Read => READ,
        BlockOp::Write => WRITE,
        BlockOp::Flush => FLUSH,
        BlockOp::Trim => DISCARD | WRITE,
    };
    action |= if record.fua { FUA } else { 0 };
    action |= if done { COMPLETE | COMPLETE_CATEGORY } else { ISSUE | ISSUE_CATEGORY };
    let mut bytes = [0; EVENT_BYTES];
    bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
    bytes[4..8].copy_from_slice(&sequence.to_le_bytes());
    bytes[8..16].copy_from_slice(&at.0.to_le_bytes());
    bytes[16..24].copy_from_slice(&(record.offset_bytes / u64::from(SECTOR_BYTES)).to_le_bytes());
    bytes[24..28].copy_from_slice(&(record.len_bytes as u32).to_le_bytes());
    bytes[28..32].copy_from_slice(&action.to_le_bytes());
    bytes[32..36].copy_from_slice(&record.process.unwrap_or(0).to_le_bytes());
    bytes[36..40].copy_from_slice(&record.device.to_le_bytes());
    bytes
}
