//! Reads records of any format, one at a time, in bounded memory.
//!
//! If times count from a date, the first record's time is subtracted. A record earlier than the one before is raised to
//! that one's time, and counted. The order of the file is kept.

use std::io::Read;

use sim::Ns;

use super::blktrace::{self, Step};
use super::detect::{BYTE_ORDER_MARK, LOOKED_AT};
use super::error::TraceError;
use super::ntrace::Blocks;
use super::pairing::{Pairing, Taken};
use super::source::Source;
use super::text::csv::{self, Hosts};
use super::text::iolog::Iolog;
use super::text::{Parsed, blkparse, skipped};
use super::{Cut, Detected, Format, TraceRecord, detect};

/// Options of a reader, beside the format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// Code of a read in formats where 0 and 1 distinguish reads and writes; `None` for the format's default.
    pub read_opcode: Option<u8>,
}

/// Observations of a reader; complete at the end of the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Records returned.
    pub records: u64,
    /// Records earlier than the one before; they were raised to its time.
    pub out_of_order: u64,
    /// Largest step back in time.
    pub furthest_back: Ns,
    /// Lines or events that are no records: reason and number.
    pub skipped: Vec<(&'static str, u64)>,
    /// MSR: records of other hosts than the first record's. Their disk numbers cannot be told apart from its own.
    pub other_hosts: u64,
    /// Where the trace is truncated, if it is.
    pub cut: Option<Cut>,
}

impl Notes {
    fn skip(&mut self, why: &'static str) {
        match self.skipped.iter_mut().find(|(known, _)| *known == why) {
            Some((_, count)) => *count += 1,
            None => self.skipped.push((why, 1)),
        }
    }
}

/// State that lines and events need from earlier ones.
#[derive(Debug)]
enum State {
    Lines(Hosts),
    Iolog(Iolog),
    Blkparse(Pairing),
    Blktrace { pairing: Pairing, big_endian: Option<bool> },
    Ntrace(Blocks),
}

/// Reader of a trace.
#[derive(Debug)]
pub struct TraceReader<R> {
    source: Source<R>,
    format: Format,
    read_opcode: u8,
    state: State,
    notes: Notes,
    /// Time of the first record, if times count from a date.
    origin: Option<u64>,
    last: u64,
    heading_may_come: bool,
    ended: bool,
}

impl<R: Read> TraceReader<R> {
    /// Reads `input` in this format.
    pub fn new(input: R, format: Format, options: ReadOptions) -> TraceReader<R> {
        TraceReader::of_source(Source::new(input), format, options)
    }

    /// Detects the format, then reads.
    /// Errors: no known format fits, or the input cannot be read.
    pub fn detect(input: R, options: ReadOptions) -> Result<(TraceReader<R>, Detected), TraceError> {
        let mut source = Source::new(input);
        let beginning = source.peek(LOOKED_AT)?;
        let whole = beginning.len() < LOOKED_AT;
        let detected = detect(&beginning[..beginning.len().min(LOOKED_AT)], whole)?;
        let format = detected.format;
        Ok((TraceReader::of_source(source, format, options), detected))
    }

    fn of_source(source: Source<R>, format: Format, options: ReadOptions) -> TraceReader<R> {
        let state = match format {
            Format::Iolog2 | Format::Iolog3 => State::Iolog(Iolog::default()),
            Format::Blkparse => State::Blkparse(Pairing::default()),
            Format::Blktrace => State::Blktrace { pairing: Pairing::default(), big_endian: None },
            Format::Ntrace => State::Ntrace(Blocks::of_file()),
            _ => State::Lines(Hosts::default()),
        };
        let usual = if format == Format::Tencent { 0 } else { 1 };
        TraceReader {
            source,
            format,
            read_opcode: options.read_opcode.unwrap_or(usual),
            state,
            notes: Notes::default(),
            origin: None,
            last: 0,
            heading_may_come: true,
            ended: false,
        }
    }

    /// Reads an .ntrace file from a block on, which begins at byte `offset` of it.
    pub(super) fn from_block(input: R, offset: u64, first_record: u64) -> TraceReader<R> {
        let source = Source::new(input).at_offset(offset);
        let mut reader = TraceReader::of_source(source, Format::Ntrace, ReadOptions::default());
        reader.state = State::Ntrace(Blocks::from_block(first_record));
        reader
    }

    /// Format of the trace.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Observations so far.
    pub fn notes(&self) -> &Notes {
        &self.notes
    }

    /// Reads the next record; `None` at the end, or where the trace is truncated (see [`notes`](Self::notes)).
    /// Errors: the format is violated; the input cannot be read. No record follows an error.
    pub fn next_record(&mut self) -> Result<Option<TraceRecord>, TraceError> {
        let next = self.next_raw();
        if next.is_err() {
            self.ended = true;
            self.state = State::Lines(Hosts::default());
        }
        Ok(next?.map(|record| self.in_order(record)))
    }

    fn next_raw(&mut self) -> Result<Option<TraceRecord>, TraceError> {
        loop {
            if let State::Blkparse(pairing) | State::Blktrace { pairing, .. } = &mut self.state
                && let Some(record) = pairing.pop()
            {
                return Ok(Some(record));
            }
            if self.ended {
                return Ok(None);
            }
            let parsed = match &mut self.state {
                State::Ntrace(blocks) => {
                    use super::ntrace::Next;
                    match blocks.next(&mut self.source)? {
                        Next::Record(record) => return Ok(Some(record)),
                        Next::End => None,
                        Next::Cut(cut) => {
                            self.notes.cut = Some(cut);
                            None
                        }
                    }
                }
                State::Blktrace { big_endian, .. } => {
                    match blktrace::step(&mut self.source, big_endian, self.notes.records)? {
                        Step::Parsed(parsed) => Some(parsed),
                        Step::End => None,
                        Step::Cut(cut) => {
                            self.notes.cut = Some(cut);
                            None
                        }
                    }
                }
                _ => self.line()?,
            };
            match parsed {
                Some(Parsed::Record(record)) => return Ok(Some(record)),
                Some(Parsed::Event(event)) => {
                    let (State::Blkparse(pairing) | State::Blktrace { pairing, .. }) = &mut self.state else {
                        unreachable!("only these formats have events")
                    };
                    match pairing.push(event) {
                        Taken::Yes | Taken::Passed => {}
                        Taken::LoneCompletion => self.notes.skip(skipped::LONE_COMPLETION),
                        Taken::LateIssue => self.notes.skip(skipped::LATE_ISSUE),
                    }
                }
                Some(Parsed::Skipped(why)) => self.notes.skip(why),
                Some(Parsed::Nothing) => {}
                Some(Parsed::End) | None => {
                    self.ended = true;
                    if let State::Blkparse(pairing) | State::Blktrace { pairing, .. } = &mut self.state {
                        pairing.end();
                    }
                }
            }
        }
    }

    fn line(&mut self) -> Result<Option<Parsed>, TraceError> {
        let begins = self.source.offset();
        let Some(mut line) = self.source.line()? else { return Ok(None) };
        let mut marks = 0;
        if begins == 0 && line.starts_with(BYTE_ORDER_MARK) {
            marks = BYTE_ORDER_MARK.len();
            line = &line[marks..];
        }
        if line.trim_ascii().is_empty() {
            return Ok(Some(Parsed::Nothing));
        }
        let heading_may_come = std::mem::take(&mut self.heading_may_come);
        let parsed = match &mut self.state {
            State::Lines(_) if heading_may_come && csv::is_heading(line) => Ok(Parsed::Nothing),
            State::Lines(hosts) => csv::parse(self.format, line, self.read_opcode, hosts),
            State::Blkparse(_) => blkparse::event(line),
            State::Iolog(log) if self.format == Format::Iolog2 => log.version_2(line),
            State::Iolog(log) => log.version_3(line),
            State::Blktrace { .. } | State::Ntrace(_) => unreachable!("they have no lines"),
        };
        parsed.map(Some).map_err(|fault| TraceError::Malformed {
            place: self.source.line_place(marks + fault.column, begins),
            found: fault.found,
            expected: fault.expected.to_owned(),
        })
    }

    fn in_order(&mut self, mut record: TraceRecord) -> TraceRecord {
        let mut at = record.at.0;
        if self.notes.records > 0 && at < self.last {
            self.notes.out_of_order += 1;
            self.notes.furthest_back = self.notes.furthest_back.max(Ns(self.last - at));
            at = self.last;
        }
        self.last = at;
        if self.format.is_dated() {
            at -= *self.origin.get_or_insert(at);
        }
        self.notes.records += 1;
        if let State::Lines(hosts) = &self.state {
            self.notes.other_hosts = hosts.others;
        }
        record.at = Ns(at);
        record
    }
}
