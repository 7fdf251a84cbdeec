//! Detects the format of a trace from its beginning.
//!
//! Text is tried with the parsers themselves: a format fits if the first record's line parses. No line fits two
//! formats. The codes of reads and writes are the format's own: Tencent has 0 for a read, DiskSim 1, and commas or
//! blanks tell the two apart. A trace whose author swapped the codes cannot be detected.

use super::Format;
use super::error::{TraceError, quoted};
use super::text::csv::{self, Hosts};
use super::text::{Parsed, blkparse, iolog};
use super::{blktrace, ntrace};

/// Bytes that are examined.
pub const LOOKED_AT: usize = 16 << 10;

/// The byte order mark that some editors put before a text.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A detected format, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detected {
    /// The detected format.
    pub format: Format,
    /// How it was recognized, for the user.
    pub why: String,
}

const BY_LINES: [Format; 8] = [
    Format::Blkparse,
    Format::Msr,
    Format::Systor,
    Format::Alibaba,
    Format::Spc,
    Format::Tencent,
    Format::DiskSim,
    Format::DiskSimMs,
];

fn fits(format: Format, line: &[u8]) -> bool {
    match format {
        Format::Blkparse => matches!(blkparse::event(line), Ok(parsed) if parsed != Parsed::End),
        // The code of a read does not matter here.
        _ => csv::parse(format, line, 0, &mut Hosts::default()).is_ok(),
    }
}

/// Detects the format of a trace that begins with `beginning`; `whole` if that is all of it.
/// Errors: no known format fits.
pub fn detect(beginning: &[u8], whole: bool) -> Result<Detected, TraceError> {
    let unknown = |found: String| Err(TraceError::Unrecognised { found });
    let known = |format: Format, why: String| Ok(Detected { format, why });
    if beginning.is_empty() {
        return unknown("an empty input".to_owned());
    }
    if beginning.starts_with(&ntrace::MAGIC) {
        return known(Format::Ntrace, "it begins with the magic of .ntrace".to_owned());
    }
    if let Some(&first) = beginning.first_chunk::<4>() {
        if let Some(big_endian) = blktrace::is_big_endian(first) {
            let order = if big_endian { "big-endian" } else { "little-endian" };
            return known(Format::Blktrace, format!("it begins with blktrace's magic, {order}"));
        }
        if let Some(version) = blktrace::other_version(first) {
            return unknown(format!("blktrace's magic with version {version}; version 7 is known,"));
        }
    }
    for (magic, name) in
        [(&b"\x1f\x8b"[..], "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"\xfd7zXZ", "xz"), (b"BZh", "bzip2")]
    {
        if beginning.starts_with(magic) {
            return unknown(format!("{name} data"));
        }
    }
    let text = beginning.strip_prefix(BYTE_ORDER_MARK).unwrap_or(beginning);
    let mut lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
    // The last piece is a complete line only at the end of the input.
    if !whole && lines.len() > 1 {
        lines.pop();
    }
    let mut lines = lines
        .iter()
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .filter(|line| !line.trim_ascii().is_empty())
        .peekable();
    match lines.peek() {
        None => return unknown("blank lines only".to_owned()),
        Some(&iolog::HEAD_2) => return known(Format::Iolog2, "its first line is \"fio version 2 iolog\"".to_owned()),
        Some(&iolog::HEAD_3) => return known(Format::Iolog3, "its first line is \"fio version 3 iolog\"".to_owned()),
        _ => {}
    }
    let heading = lines.next_if(|line| csv::is_heading(line));
    let Some(&first) = lines.peek() else {
        return unknown(format!("{} and no record after it", quoted(heading.unwrap_or_default())));
    };
    let Some(format) = BY_LINES.into_iter().find(|&format| fits(format, first)) else {
        return unknown(quoted(first));
    };
    let (good, all) = lines.fold((0, 0), |(good, all), line| (good + usize::from(fits(format, line)), all + 1));
    let heading = if heading.is_some() { "after a heading, " } else { "" };
    known(format, format!("{heading}{good} of the first {all} lines are: {}", format.shape()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<Format> {
        detect(text.as_bytes(), true).ok().map(|detected| detected.format)
    }

    #[test]
    fn each_format_is_known_by_its_first_record() {
        let cases = [
            ("128166372003061629,usr,0,Read,7014609920,24576,41286", Format::Msr),
            ("Timestamp,Response,IOType,LUN,Offset,Size\n1455592804.4,0.0002,,0,4096,8192", Format::Systor),
            ("1455592804.409113,0.000239,W,0,24160698368,4096", Format::Systor),
            ("1538323200,12910952,128,0,1063", Format::Tencent),
            ("419,W,8792731648,16384,1577808144360767", Format::Alibaba),
            ("device_id,opcode,offset,length,timestamp\r\n419,R,0,16384,15\r\n", Format::Alibaba),
            ("0,20941264,8192,W,0.551706", Format::Spc),
            ("\n\n0,303567,3584,w,0.000000,x", Format::Spc),
            ("48513000 0 8904208 16 1\n", Format::DiskSim),
            ("0.048513 0 8904208 16 1\n", Format::DiskSimMs),
            ("  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]", Format::Blkparse),
            ("fio version 2 iolog\n/dev/a add\n", Format::Iolog2),
            ("fio version 3 iolog\r\n2 a add\r\n", Format::Iolog3),
            ("\u{feff}419,W,8792731648,16384,1577808144360767", Format::Alibaba),
        ];
        for (text, format) in cases {
            assert_eq!(of(text), Some(format), "{text}");
        }
    }

    #[test]
    fn the_polarity_goes_with_the_format_that_is_found() {
        let of = |text: &str| detect(text.as_bytes(), true).map(|it| it.format.polarity()).ok();
        assert_eq!(of("1538323200,12910952,128,0,1063"), Some("0 = read, 1 = write"));
        assert_eq!(of("1538323200 0 12910952 128 0"), Some("1 = read, 0 = write"));
    }

    #[test]
    fn what_is_no_trace_is_named_with_the_choices() {
        for (text, found) in [
            ("", "an empty input"),
            ("\n\n", "blank lines only"),
            ("hello, world", "\"hello, world\""),
            ("Timestamp,Offset\n", "\"Timestamp,Offset\" and no record"),
            ("\x1f\u{8b}", "\"\\x1f"),
        ] {
            let error = detect(text.as_bytes(), true).expect_err(text).to_string();
            assert!(error.contains(found) && error.contains("tencent: Timestamp,Offset,Size"), "{error}");
        }
        assert!(detect(b"\x1f\x8b\x08", true).expect_err("packed").to_string().contains("found gzip data"));
        let eight = detect(&[8, 0x74, 0x61, 0x65], true).expect_err("a version to come").to_string();
        assert!(eight.contains("version 8"), "{eight}");
    }

    #[test]
    fn a_line_that_the_look_cuts_in_two_does_not_count() {
        let detected = detect(b"419,W,0,16384,15\n419,W,0,1", false).expect("the first line tells");
        assert!(detected.why.starts_with("1 of the first 1 lines"), "{}", detected.why);
    }
}
