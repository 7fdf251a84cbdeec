//! nandsim's own faults, under nandsim's names.
//!
//! The module takes them as strings: `badblocks=3,0x10`, `weakblocks=5:100` (block : erases that succeed, 3 if
//! omitted), `weakpages=64:2` (page of the device : programs that succeed), `gravepages=9` (page : reads that succeed)
//! and `bitflips=2`. Numbers are decimal, hexadecimal after `0x` or octal after `0`, as the kernel parses them.
//! Source: Linux 6.12 `drivers/mtd/nand/raw/nandsim.c`.

use thiserror::Error;

/// A block or page that fails after so many operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weak {
    /// The block's number, or the page's number in the device.
    pub at: u32,
    /// Operations that succeed; every later one fails.
    pub max: u32,
}

impl Weak {
    /// nandsim's default count of operations that succeed.
    pub const DEFAULT_MAX: u32 = 3;
}

/// The five faults of nandsim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NandsimFaults {
    /// Blocks marked bad from the start.
    pub bad_blocks: Vec<u32>,
    /// Blocks whose erases fail after `max`. The block is erased and the wear counted before the failure is reported.
    pub weak_blocks: Vec<Weak>,
    /// Pages whose programs fail after `max`. The page is programmed before the failure is reported.
    pub weak_pages: Vec<Weak>,
    /// Pages whose reads after `max` return random bytes. They are reported as uncorrectable.
    pub grave_pages: Vec<Weak>,
    /// Most bits that a page read flips; one read in 1024 flips any. 0 for none.
    pub bitflips: u32,
}

/// A fault string that nandsim would refuse.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{parameter}, byte {at}: found {found:?}, expected {expected}")]
pub struct ParseError {
    /// Name of the module parameter.
    pub parameter: &'static str,
    /// Byte offset in the string.
    pub at: usize,
    /// The text found there.
    pub found: String,
    /// What was expected instead.
    pub expected: &'static str,
}

impl NandsimFaults {
    /// Parses the values of the module's parameters; an empty string means no fault of that kind.
    /// Errors: the parameter and the offset at which it is no list of numbers.
    pub fn parse(
        badblocks: &str,
        weakblocks: &str,
        weakpages: &str,
        gravepages: &str,
        bitflips: u32,
    ) -> Result<NandsimFaults, ParseError> {
        let bad_blocks = parse_list("badblocks", badblocks, false)?.into_iter().map(|weak| weak.at).collect();
        Ok(NandsimFaults {
            bad_blocks,
            weak_blocks: parse_list("weakblocks", weakblocks, true)?,
            weak_pages: parse_list("weakpages", weakpages, true)?,
            grave_pages: parse_list("gravepages", gravepages, true)?,
            bitflips,
        })
    }

    /// Whether no fault is configured.
    pub fn is_empty(&self) -> bool {
        *self == NandsimFaults::default()
    }
}

fn parse_list(parameter: &'static str, text: &str, with_max: bool) -> Result<Vec<Weak>, ParseError> {
    let mut list = Vec::new();
    let mut at = 0;
    if text.is_empty() {
        return Ok(list);
    }
    for item in text.split(',') {
        let number = |word: &str, at: usize| {
            parse_number(word).ok_or_else(|| ParseError {
                parameter,
                at,
                found: word.to_owned(),
                expected: "a number below 2^32",
            })
        };
        let (place, max) = match item.split_once(':') {
            Some((place, max)) if with_max => (place, number(max, at + place.len() + 1)?),
            _ => (item, Weak::DEFAULT_MAX),
        };
        list.push(Weak { at: number(place, at)?, max });
        at += item.len() + 1;
    }
    Ok(list)
}

fn parse_number(word: &str) -> Option<u32> {
    let digits_only = |digits: &str, radix| {
        // `from_str_radix` accepts a sign; nandsim does not.
        digits.chars().all(|c| c.is_digit(radix)).then(|| u32::from_str_radix(digits, radix).ok()).flatten()
    };
    if let Some(hex) = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        return digits_only(hex, 16);
    }
    match word.strip_prefix('0') {
        Some(octal) if !octal.is_empty() => digits_only(octal, 8),
        _ => digits_only(word, 10),
    }
}
