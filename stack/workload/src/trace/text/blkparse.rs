//! The default output format of `blkparse`.
//!
//! `major,minor cpu sequence seconds.nanoseconds pid action RWBS sector + sectors [process]`; without sectors,
//! `[process]` follows RWBS directly, and a completion ends with `[error]`. Totals per CPU follow the events and end
//! the trace. Source: blkparse(1), as facts.

use sim::Ns;
use sim::seam::{BlockOp, SECTOR_BYTES};

use super::fields::{Fault, Fields};
use super::{Parsed, length, skipped};
use crate::trace::pairing::{Event, Kind};

/// Bits of a device number below the major one, as in the kernel.
pub const MINOR_BITS: u32 = 20;

/// Decoded letters of RWBS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rwbs {
    /// The operation; `None` if it is neither read, write, flush nor discard.
    pub op: Option<BlockOp>,
    pub fua: bool,
    pub flush_before: bool,
}

/// Decodes the letters. F before the operation is a flush before it, F after it is force unit access; `sectors`
/// distinguishes a flush with data from one without. `None` for unknown letters.
fn rwbs(letters: &[u8], sectors: u32) -> Option<Rwbs> {
    let (flush, rest) = match letters {
        [b'F', rest @ ..] => (true, rest),
        _ => (false, letters),
    };
    let (op, flags) = match rest {
        [b'R', flags @ ..] => (Some(BlockOp::Read), flags),
        [b'W', flags @ ..] => (Some(BlockOp::Write), flags),
        [b'D', b'E', flags @ ..] | [b'D', flags @ ..] => (Some(BlockOp::Trim), flags),
        [b'F', flags @ ..] => (Some(BlockOp::Flush), flags),
        [b'N', flags @ ..] => (flush.then_some(BlockOp::Flush), flags),
        flags if flush => (Some(BlockOp::Flush), flags),
        _ => return None,
    };
    if flags.iter().any(|flag| !b"FASMBUVZ".contains(flag)) {
        return None;
    }
    let is_flush = flush && sectors == 0 || op == Some(BlockOp::Flush);
    let op = if is_flush { Some(BlockOp::Flush) } else { op };
    let op = op.filter(|&op| op == BlockOp::Flush || sectors > 0);
    Some(Rwbs { op, fua: flags.contains(&b'F') && !is_flush, flush_before: flush && !is_flush })
}

/// Whether `line` begins the totals that blkparse prints after the events.
fn is_sum(line: &[u8]) -> bool {
    [&b"CPU"[..], b"Total (", b"Throughput (", b"Events (", b"Skips: ", b"Input file "]
        .iter()
        .any(|head| line.starts_with(head))
}

/// Parses one line.
pub fn event(line: &[u8]) -> Result<Parsed, Fault> {
    if is_sum(line) {
        return Ok(Parsed::End);
    }
    let mut fields = Fields::blank(line);
    let before = fields.clone();
    let numbers = fields.word("a device's major and minor number")?;
    let Some(device) = std::str::from_utf8(numbers).ok().and_then(device_of) else {
        return Err(before.fault_of_next("a device's major and minor number, as in 8,0"));
    };
    fields.number("a CPU's number")?;
    fields.number("a sequence number")?;
    let at = fields.decimal(9, "a time in seconds", false)?;
    let process = fields.number32("a process's number")?;
    let before = fields.clone();
    let kind = match fields.word("an action")? {
        b"Q" => Kind::Queued,
        b"D" => Kind::Issued,
        b"R" => Kind::Requeued,
        b"C" => Kind::Completed,
        b"m" => return Ok(Parsed::Skipped(skipped::MESSAGE)),
        action if action.len() <= 2 && action.iter().all(u8::is_ascii_alphabetic) => return Ok(Parsed::Nothing),
        _ => return Err(before.fault_of_next("an action of one or two letters")),
    };
    let letters_begin = fields.clone();
    let letters = fields.word("letters for the operation")?;
    let (sector, sectors) = range(&mut fields)?;
    let Some(meaning) = rwbs(letters, sectors) else {
        return Err(letters_begin.fault_of_next("letters for the operation, as in R, WS, FWFS or D"));
    };
    let Some(op) = meaning.op else { return Ok(Parsed::Skipped(skipped::NO_BLOCKS)) };
    let (sector, sectors) = if op == BlockOp::Flush { (0, 0) } else { (sector, sectors) };
    Ok(Parsed::Event(Event {
        kind,
        at: Ns(at),
        device,
        op,
        sector,
        sectors,
        fua: meaning.fua,
        flush_before: meaning.flush_before,
        process: Some(process).filter(|&process| process != 0),
    }))
}

/// The number of a device in a record, from its major and minor number: `8,0`.
pub fn device_of(numbers: &str) -> Option<u32> {
    let (major, minor) = numbers.split_once(',')?;
    let (major, minor) = (major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?);
    (major < 1 << (32 - MINOR_BITS) && minor < 1 << MINOR_BITS).then_some(major << MINOR_BITS | minor)
}

/// The major and minor number of a device in a record; `None` if it is too small to have a major one.
pub fn device_numbers(device: u32) -> Option<String> {
    let (major, minor) = (device >> MINOR_BITS, device & ((1 << MINOR_BITS) - 1));
    (major > 0).then(|| format!("{major},{minor}"))
}

/// `sector + sectors`, or zeroes if no number or no plus follows.
fn range(fields: &mut Fields<'_>) -> Result<(u64, u32), Fault> {
    let mut probe = fields.clone();
    let begins_with_digit = probe.word("a sector").is_ok_and(|word| word.iter().all(u8::is_ascii_digit));
    if !begins_with_digit || !probe.word("+").is_ok_and(|word| word == b"+") {
        return Ok((0, 0));
    }
    let unit = SECTOR_BYTES;
    let offset = fields.checked("a sector", |sector| sector.checked_mul(u64::from(unit)))?;
    fields.word("+")?;
    let len = length(fields, offset, unit, "a number of sectors")?;
    let sectors = u32::try_from(len / u64::from(unit)).expect("MAX_LEN_BYTES is fewer sectors than 2^32");
    Ok((offset / u64::from(unit), sectors))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Event {
        match event(line.as_bytes()) {
            Ok(Parsed::Event(event)) => event,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn the_example_of_the_manual_page() {
        let got = read("  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]");
        assert_eq!((got.kind, got.device, got.op), (Kind::Queued, 8 << 20, BlockOp::Write));
        assert_eq!((got.sector, got.sectors, got.process), (223_490, 8, Some(697)));
        let got = read("259,1    0       12     4.000038194     0  C  WS 1052624 + 256 [0]");
        assert_eq!((got.kind, got.at, got.device), (Kind::Completed, Ns(4_000_038_194), 259 << 20 | 1));
    }

    #[test]
    fn letters_before_and_after_the_operation_differ() {
        let case =
            |letters: &str, sectors| rwbs(letters.as_bytes(), sectors).map(|it| (it.op, it.fua, it.flush_before));
        assert_eq!(case("R", 8), Some((Some(BlockOp::Read), false, false)));
        assert_eq!(case("RAM", 8), Some((Some(BlockOp::Read), false, false)));
        assert_eq!(case("WFS", 8), Some((Some(BlockOp::Write), true, false)));
        assert_eq!(case("FWFSM", 8), Some((Some(BlockOp::Write), true, true)));
        assert_eq!(case("FWS", 0), Some((Some(BlockOp::Flush), false, false)));
        assert_eq!(case("FF", 0), Some((Some(BlockOp::Flush), false, false)));
        assert_eq!(case("FN", 0), Some((Some(BlockOp::Flush), false, false)));
        assert_eq!(case("F", 0), Some((Some(BlockOp::Flush), false, false)));
        assert_eq!(case("D", 8), Some((Some(BlockOp::Trim), false, false)));
        assert_eq!(case("DS", 8), Some((Some(BlockOp::Trim), false, false)));
        assert_eq!(case("N", 0), Some((None, false, false)));
        assert_eq!(case("Q", 8), None);
        assert_eq!(case("WX", 8), None);
    }

    /// As `mkdev` of Linux's `kdev_t.h`: 12 bits of the major number above 20 of the minor one.
    #[test]
    fn a_device_is_its_major_and_its_minor_number_and_these_come_back() {
        for (text, device) in [
            ("1,0", 0x0010_0000),
            ("8,0", 0x0080_0000),
            ("8,1", 0x0080_0001),
            ("253,6", 0x0fd0_0006),
            ("259,1048575", 0x103f_ffff),
            ("4095,1048575", 0xffff_ffff),
            ("4095,699050", 0xfffa_aaaa),
        ] {
            assert_eq!(device_of(text), Some(device), "{text}");
            assert_eq!(device_numbers(device).as_deref(), Some(text));
        }
        assert_eq!((device_of("0,7"), device_numbers(7), device_numbers(0xf_ffff)), (Some(7), None, None));
        for wrong in ["4096,0", "8,1048576", "8", "8,", ",1", "8,1,2", "a,0", ""] {
            assert_eq!(device_of(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn what_is_no_request_is_told_apart() {
        assert_eq!(event(b"  8,0    1    2    0.1   5  m   N cfq1 slice"), Ok(Parsed::Skipped(skipped::MESSAGE)));
        assert_eq!(event(b"  8,0    1    2    0.1   5  UT  N [kworker/0:1] 3"), Ok(Parsed::Nothing));
        assert_eq!(
            event(b"  8,0    1    2    0.1   5  D   N 0 (12 00) [udevd]"),
            Ok(Parsed::Skipped(skipped::NO_BLOCKS))
        );
        assert_eq!(event(b"CPU0 (sda):"), Ok(Parsed::End));
        assert_eq!(read("  8,0    1    2    0.1   5  D  FN [kworker/1:1H]").op, BlockOp::Flush);
        assert_eq!(read("  8,0    1    2    0.1   5  C  FN 0 [0]").op, BlockOp::Flush);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let fault = event(b"  8,0    1    2    0.1   5  D  WX 8 + 8 [x]").expect_err("no such letters");
        assert_eq!((fault.column, &fault.found[..]), (31, "\"WX\""));
        assert!(event(b"8,0 1 2 0.1 5 D W 36028797018963968 + 8 [x]").is_err());
        assert!(event(b"4096,0 1 2 0.1 5 D W 8 + 8 [x]").is_err());
    }
}
