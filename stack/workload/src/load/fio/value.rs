//! Parsers of option values: numbers with units, times, percentages, and lists for reads, writes and trims.
//!
//! Every function returns the expected form as its error; the caller adds line, option and value.

#![deny(clippy::cast_possible_truncation)]

use sim::Ns;

/// Description of the values allowed.
pub(super) type Expected = String;

fn expected<T>(what: &str) -> Result<T, Expected> {
    Err(what.to_owned())
}

/// Meaning of `k` and `ki`: with base 1024, `k` is 1024 and `ki` 1000; with base 1000, the reverse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KbBase(pub u64);

const INTEGER: &str = "a whole number, with 0x or a unit (k, m, g, t, p, each also as ki, kb, kib)";

/// A whole number, decimal or `0x`, with an optional unit of data.
pub(super) fn integer(text: &str, base: KbBase) -> Result<u64, Expected> {
    if text.starts_with('(') {
        return expected("a number: expressions in parentheses are not supported");
    }
    let lower = text.to_ascii_lowercase();
    let (digits, radix) = match lower.strip_prefix("0x") {
        Some(rest) => (rest, 16),
        None => (&lower[..], 10),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let (number, mut suffix) = digits.split_at(end);
    // In hexadecimal a final `b` is a digit, so only units without one can follow.
    let Ok(number) = u64::from_str_radix(number, radix) else { return expected(INTEGER) };
    suffix = suffix.strip_suffix('b').unwrap_or(suffix);
    let (power, other) = match suffix.as_bytes() {
        [] => return Ok(number),
        [unit] => (*unit, false),
        [unit, b'i'] => (*unit, true),
        _ => return expected(INTEGER),
    };
    let Some(power) = (1..).zip(b"kmgtp").find_map(|(at, &unit)| (unit == power).then_some(at)) else {
        return expected(if power == b'z' { "a number of bytes: zones are not supported" } else { INTEGER });
    };
    let factor: u64 = if (base.0 == 1024) != other { 1024 } else { 1000 };
    match factor.checked_pow(power).and_then(|factor| number.checked_mul(factor)) {
        Some(value) => Ok(value),
        None => expected("less than 2^64"),
    }
}

/// A whole number from `low` to `high`.
pub(super) fn between(text: &str, base: KbBase, low: u64, high: u64) -> Result<u64, Expected> {
    match integer(text, base) {
        Ok(value) if (low..=high).contains(&value) => Ok(value),
        Err(what) if high == u64::MAX => Err(what),
        _ => Err(format!("a whole number from {low} to {high}")),
    }
}

/// A percentage from 0 to 100, with or without `%`.
pub(super) fn percent(text: &str) -> Result<u8, Expected> {
    match text.strip_suffix('%').unwrap_or(text).parse() {
        Ok(value @ 0..=100) => Ok(value),
        _ => expected("a percentage from 0 to 100"),
    }
}

/// True or false. An option without a value is true.
pub(super) fn boolean(text: &str) -> Result<bool, Expected> {
    match text {
        "" | "1" | "true" => Ok(true),
        "0" | "false" => Ok(false),
        _ => expected("0 or 1"),
    }
}

/// A time span; `unit_ns` is the unit of a plain number.
pub(super) fn time(text: &str, unit_ns: u64) -> Result<Ns, Expected> {
    const TIME: &str = "a time: a whole number with d, h, m, s, ms or us";
    let lower = text.to_ascii_lowercase();
    let end = lower.find(|c: char| !c.is_ascii_digit()).unwrap_or(lower.len());
    let (number, suffix) = lower.split_at(end);
    let Ok(number) = number.parse::<u64>() else { return expected(TIME) };
    let unit = match suffix {
        "" => unit_ns,
        "us" | "usec" => 1_000,
        "ms" | "msec" => 1_000_000,
        "s" | "sec" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return expected(TIME),
    };
    // A sixteenth of the range of virtual time, so that sums of a few spans do not overflow.
    match number.checked_mul(unit).filter(|&ns| ns <= u64::MAX / 16) {
        Some(ns) => Ok(Ns(ns)),
        None => expected("less than 36 years"),
    }
}

/// Two values separated by `-` or `:`, or one for both; swapped if the first is larger.
pub(super) fn range<T: Ord + Copy>(text: &str, one: impl Fn(&str) -> Result<T, Expected>) -> Result<(T, T), Expected> {
    let (low, high) = match text.split_once(['-', ':']) {
        Some((low, high)) => (one(low)?, one(high)?),
        None => (one(text)?, one(text)?),
    };
    Ok((low.min(high), low.max(high)))
}

/// Comma-separated values for reads, writes and trims. An empty one is `None`; the last one applies to the rest unless
/// a comma ends the list.
pub(super) fn triple<T: Clone>(
    text: &str,
    one: impl Fn(&str) -> Result<T, Expected>,
) -> Result<[Option<T>; 3], Expected> {
    let parts: Vec<&str> = text.splitn(4, ',').collect();
    if parts.len() > 3 {
        return expected("at most three values: for reads, writes and trims");
    }
    let mut values = [None, None, None];
    let mut last = None;
    for (at, value) in values.iter_mut().enumerate() {
        if let Some(part) = parts.get(at) {
            last = if part.is_empty() { None } else { Some(one(part)?) };
        }
        *value = last.clone();
    }
    if values.iter().all(Option::is_none) {
        return expected("a value for reads, writes or trims");
    }
    Ok(values)
}

/// A finite decimal number.
pub(super) fn decimal(text: &str) -> Result<f64, Expected> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => expected("a decimal number"),
    }
}

/// Parses `first/second:first/second…`, at most `most` pairs; the part after the slash may be missing or empty.
pub(super) fn pairs(text: &str, most: usize) -> Result<Vec<(&str, Option<&str>)>, Expected> {
    let mut pairs = Vec::new();
    for part in text.split(':') {
        if pairs.len() == most {
            return Err(format!("at most {most} entries"));
        }
        pairs.push(match part.split_once('/') {
            Some((first, second)) => (first, Some(second).filter(|second| !second.is_empty())),
            None => (part, None),
        });
    }
    Ok(pairs)
}

/// Fills missing percentages with equal shares of the rest, to a total of 100. Shares are in units of 1/(100 · number
/// missing), so that thirds are exact.
pub(super) fn shares(percentages: &[Option<u8>]) -> Result<Vec<u32>, Expected> {
    let given: u32 = percentages.iter().flatten().map(|&percent| u32::from(percent)).sum();
    let missing: u32 = percentages.iter().map(|percent| u32::from(percent.is_none())).sum();
    if given > 100 || (missing == 0 && given != 100) {
        return Err(format!("percentages that add up to 100; these make {given}"));
    }
    let parts = missing.max(1);
    Ok(percentages.iter().map(|percent| percent.map_or(100 - given, |percent| u32::from(percent) * parts)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: KbBase = KbBase(1024);
    const SI: KbBase = KbBase(1000);

    #[test]
    fn units_follow_kb_base() {
        for (text, base, value) in [
            ("4096", KIB, 4096),
            ("4096B", KIB, 4096),
            ("4k", KIB, 4096),
            ("4kB", KIB, 4096),
            ("4ki", KIB, 4000),
            ("1m", KIB, 1 << 20),
            ("1MiB", KIB, 1_000_000),
            ("4k", SI, 4000),
            ("4KiB", SI, 4096),
            ("1t", SI, 1_000_000_000_000),
            ("1p", KIB, 1 << 50),
            ("0x1000", KIB, 4096),
            ("0x4k", KIB, 4096),
        ] {
            assert_eq!(integer(text, base), Ok(value), "{text}");
        }
        for text in ["", "k", "-1", "1.5k", "4z", "4kx", "(8*4k)", "99999999p", "99999999999999999999", "é"] {
            assert!(integer(text, KIB).is_err(), "{text}");
        }
    }

    #[test]
    fn times_have_the_unit_of_their_option_unless_they_name_one() {
        assert_eq!(time("10", 1_000_000_000), Ok(Ns::from_s(10)));
        assert_eq!(time("10", 1_000), Ok(Ns::from_us(10)));
        assert_eq!(time("10ms", 1_000), Ok(Ns::from_ms(10)));
        assert_eq!(time("2M", 1), Ok(Ns::from_s(120)));
        assert!(time("10x", 1).is_err() && time("", 1).is_err() && time("99999999999d", 1).is_err());
    }

    #[test]
    fn a_list_ends_with_its_last_value_unless_a_comma_ends_it() {
        let one = |text: &str| integer(text, KIB);
        assert_eq!(triple("1", one), Ok([Some(1), Some(1), Some(1)]));
        assert_eq!(triple("1,2", one), Ok([Some(1), Some(2), Some(2)]));
        assert_eq!(triple("1,2,", one), Ok([Some(1), Some(2), None]));
        assert_eq!(triple(",2", one), Ok([None, Some(2), Some(2)]));
        assert_eq!(triple(",2,", one), Ok([None, Some(2), None]));
        assert_eq!(triple("1,2,3", one), Ok([Some(1), Some(2), Some(3)]));
        assert!(triple("1,2,3,4", one).is_err() && triple("", one).is_err() && triple(",,", one).is_err());
    }

    #[test]
    fn missing_percentages_share_what_is_left() {
        assert_eq!(shares(&[Some(50), None, None]), Ok(vec![100, 50, 50]));
        assert_eq!(shares(&[Some(100)]), Ok(vec![100]));
        assert_eq!(shares(&[None]), Ok(vec![100]));
        assert!(shares(&[Some(60), Some(50)]).is_err() && shares(&[Some(90)]).is_err());
    }
}
