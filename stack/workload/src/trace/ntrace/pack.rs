//! The records of a block as columns of bytes, before compression.
//!
//! A tag for each record comes first, then a column for each field with what the tags leave open. Numbers are varints:
//! seven bits per byte, the lowest first, the eighth bit set if more follow; signed ones have the sign in the lowest
//! bit.

use sim::Ns;
use sim::seam::BlockOp;

use super::{BlockHead, Wrong};
use crate::trace::{MAX_LEN_BYTES, TraceRecord};

/// Most records in a block.
pub const MOST_RECORDS: u32 = 1 << 15;

const OP: u8 = 0b11;
const FUA: u8 = 1 << 2;
const HAS_LATENCY: u8 = 1 << 3;
const HAS_PROCESS: u8 = 1 << 4;
/// Tag bit: the device is that of the record before.
const SAME_DEVICE: u8 = 1 << 5;
/// Tag bit: the length is that of the record before.
const SAME_LEN: u8 = 1 << 6;
/// Tag bit: the offset is the end of the record before.
const FOLLOWS: u8 = 1 << 7;

/// Largest size of `records` records: tag, time, device, offset, length, latency and process at their longest.
pub fn most_bytes(records: u32) -> u32 {
    records * (1 + 10 + 5 + 10 + 10 + 10 + 10)
}

fn put(column: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        column.push(value as u8 | 0x80);
        value >>= 7;
    }
    column.push(value as u8);
}

/// Encodes a difference as an unsigned number, small for small amounts of either sign.
const fn zigzag(difference: u64) -> u64 {
    let signed = difference as i64;
    ((signed << 1) ^ (signed >> 63)) as u64
}

const fn unzigzag(value: u64) -> u64 {
    (value >> 1) ^ (value & 1).wrapping_neg()
}

/// The record before, against which the next one is encoded.
struct Before {
    at: u64,
    device: u32,
    len: u64,
    end: u64,
    process: u32,
}

impl Before {
    fn of_block(first_at: Ns) -> Before {
        Before { at: first_at.0, device: 0, len: 0, end: 0, process: 0 }
    }
}

/// Appends the columns of `records` to `out`, one after another. Times must not decrease.
pub fn pack(records: &[TraceRecord], out: &mut Vec<u8>) {
    let mut columns: [Vec<u8>; 6] = std::array::from_fn(|_| Vec::with_capacity(2 * records.len()));
    let [times, devices, offsets, lens, latencies, processes] = &mut columns;
    let mut before = Before::of_block(records.first().map_or(Ns(0), |record| record.at));
    out.clear();
    for record in records {
        let mut tag = record.op as u8 & OP;
        put(times, record.at.0 - before.at);
        if record.fua {
            tag |= FUA;
        }
        if record.device == before.device {
            tag |= SAME_DEVICE;
        } else {
            put(devices, u64::from(record.device));
        }
        if record.offset_bytes == before.end {
            tag |= FOLLOWS;
        } else {
            put(offsets, zigzag(record.offset_bytes.wrapping_sub(before.end)));
        }
        if record.len_bytes == before.len {
            tag |= SAME_LEN;
        } else {
            put(lens, record.len_bytes);
        }
        if let Some(latency) = record.latency {
            tag |= HAS_LATENCY;
            put(latencies, latency.0);
        }
        if let Some(process) = record.process {
            tag |= HAS_PROCESS;
            put(processes, zigzag(u64::from(process).wrapping_sub(u64::from(before.process))));
            before.process = process;
        }
        out.push(tag);
        (before.at, before.device, before.len) = (record.at.0, record.device, record.len_bytes);
        before.end = record.end_bytes();
    }
    for column in &columns {
        out.extend_from_slice(column);
    }
}

/// A reader of varints.
struct Column<'a> {
    raw: &'a [u8],
    at: usize,
}

impl Column<'_> {
    fn next(&mut self) -> Result<u64, Wrong> {
        let began = self.at;
        let mut value: u64 = 0;
        for shift in (0..64).step_by(7) {
            let Some(&byte) = self.raw.get(self.at) else {
                return Wrong::new(began, "the end of the block", "a number");
            };
            self.at += 1;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Wrong::new(began, "a number of more than 64 bits", "one of 64 bits at most")
    }

    fn next32(&mut self) -> Result<u32, Wrong> {
        let began = self.at;
        let value = self.next()?;
        u32::try_from(value).or_else(|_| Wrong::new(began, format!("{value}"), "a number of 32 bits"))
    }
}

/// Decodes the records whose columns are `raw` into `records`.
pub fn unpack(head: &BlockHead, raw: &[u8], records: &mut Vec<TraceRecord>) -> Result<(), Wrong> {
    records.clear();
    let Some(tags) = raw.get(..head.records as usize) else {
        return Wrong::new(0, format!("{} bytes", raw.len()), format!("a tag for each of {} records", head.records));
    };
    let mut column = Column { raw, at: tags.len() };
    let mut before = Before::of_block(head.first_at);
    for &tag in tags {
        let began = column.at;
        let at = before.at.checked_add(column.next()?).filter(|&at| at <= head.last_at.0);
        let Some(at) = at else { return Wrong::new(began, "a time beyond the block's last", "one within it") };
        before.at = at;
        let op = BlockOp::ALL[usize::from(tag & OP)];
        records.push(TraceRecord { fua: tag & FUA != 0, ..TraceRecord::new(Ns(at), op, 0, 0) });
    }
    for (record, &tag) in records.iter_mut().zip(tags) {
        if tag & SAME_DEVICE == 0 {
            before.device = column.next32()?;
        }
        record.device = before.device;
    }
    // Offsets need the lengths, whose column comes later: decode only differences first.
    for (record, &tag) in records.iter_mut().zip(tags) {
        record.offset_bytes = if tag & FOLLOWS == 0 { unzigzag(column.next()?) } else { 0 };
    }
    for (record, &tag) in records.iter_mut().zip(tags) {
        let began = column.at;
        if tag & SAME_LEN == 0 {
            before.len = column.next()?;
        }
        record.offset_bytes = before.end.wrapping_add(record.offset_bytes);
        record.len_bytes = before.len;
        let fits = before.len <= MAX_LEN_BYTES && record.offset_bytes.checked_add(before.len).is_some();
        if !fits {
            let range = format!("{} bytes at {}", record.len_bytes, record.offset_bytes);
            return Wrong::new(began, range, format!("{MAX_LEN_BYTES} at most, within 64 bits"));
        }
        before.end = record.end_bytes();
    }
    for (record, _) in records.iter_mut().zip(tags).filter(|(_, tag)| *tag & HAS_LATENCY != 0) {
        record.latency = Some(Ns(column.next()?));
    }
    for (record, _) in records.iter_mut().zip(tags).filter(|(_, tag)| *tag & HAS_PROCESS != 0) {
        let began = column.at;
        let process = u64::from(before.process).wrapping_add(unzigzag(column.next()?));
        let Ok(process) = u32::try_from(process) else {
            return Wrong::new(began, format!("process {process}"), "one of 32 bits");
        };
        before.process = process;
        record.process = Some(process);
    }
    if column.at != raw.len() {
        return Wrong::new(column.at, format!("{} bytes more", raw.len() - column.at), "the end of the block");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_of_either_sign_come_back() {
        for difference in [0, 1, u64::MAX, 1 << 63, (1 << 63) - 1, 4096, 0u64.wrapping_sub(4096)] {
            assert_eq!(unzigzag(zigzag(difference)), difference);
        }
        assert_eq!([0, u64::MAX, 1, u64::MAX - 1].map(zigzag), [0, 1, 2, 3]);
    }

    #[test]
    fn the_example_of_the_format_document() {
        let write = |at, offset, len| TraceRecord::new(Ns(at), BlockOp::Write, offset, len);
        let mut last = write(1_300, 12_288, 4096);
        (last.latency, last.fua) = (Some(Ns(200)), true);
        let mut raw = Vec::new();
        pack(&[write(1_000, 4096, 4096), write(1_300, 8192, 4096), last], &mut raw);
        let tags = [0x21, 0xe1, 0xed];
        let times = [0x00, 0xac, 0x02, 0x00];
        let (offsets, lens, latencies) = ([0x80, 0x40], [0x80, 0x20], [0xc8, 0x01]);
        assert_eq!(raw, [&tags[..], &times, &offsets, &lens, &latencies].concat());
    }

    #[test]
    fn a_number_of_more_than_64_bits_is_refused() {
        let mut column = Column { raw: &[0xff; 10], at: 0 };
        assert!(column.next().is_err());
        let mut most = [0xff; 10];
        most[9] = 1;
        assert_eq!(Column { raw: &most, at: 0 }.next(), Ok(u64::MAX));
    }
}
