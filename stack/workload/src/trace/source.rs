//! The input of every reader: lines or bytes with their offsets, from a buffer of bounded size.
//!
//! A line is at most [`LONGEST_LINE`] bytes long and is returned without a copy.

use std::io::{ErrorKind, Read};

use super::error::{Place, TraceError, quoted};

/// Bytes of the longest line.
pub const LONGEST_LINE: usize = 16 << 10;
/// Bytes read at a time.
const CHUNK: usize = 128 << 10;

/// Buffered input that knows its offset.
#[derive(Debug)]
pub(super) struct Source<R> {
    input: R,
    buffer: Vec<u8>,
    /// Bytes not consumed yet: `buffer[start..end]`.
    start: usize,
    end: usize,
    /// Offset of `buffer[start]` in the input.
    offset: u64,
    /// Lines returned so far.
    lines: u64,
    at_end: bool,
}

impl<R: Read> Source<R> {
    pub fn new(input: R) -> Source<R> {
        Source { input, buffer: Vec::new(), start: 0, end: 0, offset: 0, lines: 0, at_end: false }
    }

    /// Sets the offset of an input that begins at byte `offset` of something longer.
    pub fn at_offset(mut self, offset: u64) -> Source<R> {
        self.offset = offset;
        self
    }

    /// Offset of the next byte.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The next bytes without consuming them: at least `wanted`, or fewer before the end of the input.
    pub fn peek(&mut self, wanted: usize) -> Result<&[u8], TraceError> {
        while self.end - self.start < wanted && !self.at_end {
            self.fill(wanted)?;
        }
        Ok(&self.buffer[self.start..self.end])
    }

    /// Skips the next `count` bytes; `false` if there are fewer.
    pub fn skip(&mut self, mut count: u64) -> Result<bool, TraceError> {
        while count > 0 {
            let have = self.peek(1)?.len() as u64;
            if have == 0 {
                return Ok(false);
            }
            let step = have.min(count);
            self.consume(step as usize);
            count -= step;
        }
        Ok(true)
    }

    /// Consumes `count` bytes returned by [`Self::peek`].
    pub fn consume(&mut self, count: usize) {
        debug_assert!(count <= self.end - self.start);
        self.start += count;
        self.offset += count as u64;
    }

    fn fill(&mut self, wanted: usize) -> Result<(), TraceError> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let size = CHUNK.max(wanted);
        if self.buffer.len() < size {
            self.buffer.resize(size, 0);
        }
        loop {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.at_end = true,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(TraceError::Read { byte: self.offset + self.end as u64, error }),
            }
            return Ok(());
        }
    }

    /// The next line without its line feed and a carriage return before it; `None` at the end of the input.
    pub fn line(&mut self) -> Result<Option<&[u8]>, TraceError> {
        let mut searched = 0;
        let (len, taken) = loop {
            let have = &self.buffer[self.start..self.end];
            if let Some(at) = memchr::memchr(b'\n', &have[searched..]) {
                break (searched + at, searched + at + 1);
            }
            searched = have.len();
            if searched > LONGEST_LINE {
                break (searched, searched);
            }
            if self.at_end {
                break (searched, searched);
            }
            self.fill(searched + 1)?;
        };
        if taken == 0 {
            return Ok(None);
        }
        if len > LONGEST_LINE {
            let have = &self.buffer[self.start..self.end];
            return Err(TraceError::Malformed {
                place: Place::Line { line: self.lines + 1, column: 1, byte: self.offset },
                found: format!("a line of more than {LONGEST_LINE} bytes, {}", quoted(&have[..len])),
                expected: "lines of a trace".to_owned(),
            });
        }
        let from = self.start;
        self.consume(taken);
        self.lines += 1;
        let line = &self.buffer[from..from + len];
        Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
    }

    /// The place of byte `column` (from 0) of the last line returned, which began at byte `line_begins`.
    pub fn line_place(&self, column: usize, line_begins: u64) -> Place {
        Place::Line { line: self.lines, column: column as u64 + 1, byte: line_begins }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An input that returns one byte at a time.
    struct Drops<'a>(&'a [u8]);

    impl Read for Drops<'_> {
        fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
            let count = self.0.len().min(1).min(buf.len());
            buf[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    #[test]
    fn lines_end_at_newlines_and_lose_carriage_returns() {
        let mut source = Source::new(Drops(b"a\r\n\nbc\nlast"));
        let mut lines = Vec::new();
        while let Some(line) = source.line().expect("nothing fails") {
            lines.push(String::from_utf8_lossy(line).into_owned());
        }
        assert_eq!(lines, ["a", "", "bc", "last"]);
        assert_eq!(source.offset(), 11);
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let text = vec![b'7'; 10 * LONGEST_LINE];
        let mut source = Source::new(&text[..]);
        assert!(source.line().expect_err("it is too long").to_string().contains("a line of more than 16384 bytes"));
    }

    #[test]
    fn bytes_are_skipped_across_chunks_and_the_end_is_noticed() {
        let bytes = vec![1; 3 * CHUNK];
        let mut source = Source::new(&bytes[..]);
        assert!(source.skip(2 * CHUNK as u64 + 5).expect("nothing fails"));
        assert_eq!(source.offset(), 2 * CHUNK as u64 + 5);
        assert!(!source.skip(CHUNK as u64).expect("nothing fails"));
    }
}
