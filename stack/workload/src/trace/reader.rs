//! Records from any format, one at a time, in bounded memory.
//!
//! Times: those that count from a date have the first record's taken off; one that is before the record before it is
//! raised to that record's, and counted. The order of the file is kept.

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

/// What a reader is told beside the format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// The number that means a read in formats where 0 and 1 tell reads from writes; the format's own if not given.
    pub read_opcode: Option<u8>,
}

/// What a reader noticed; complete when it has come to the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Records handed out.
    pub records: u64,
    /// How many of them were before the record before them, and were raised to its time.
    pub out_of_order: u64,
    /// By how much at most.
    pub furthest_back: Ns,
    /// What is in the trace but is no record: why, and how many.
    pub skipped: Vec<(&'static str, u64)>,
    /// MSR: records of another host than the first record's. Their disks' numbers cannot be told apart from its.
    pub other_hosts: u64,
    /// Where the trace was cut off, if it was.
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

/// What lines and events need of those before them.
#[derive(Debug)]
enum State {
    Lines(Hosts),
    Iolog(Iolog),
    Blkparse(Pairing),
    Blktrace { pairing: Pairing, big_endian: Option<bool> },
    Ntrace(Blocks),
}

/// Reads a trace.
#[derive(Debug)]
pub struct TraceReader<R> {
    source: Source<R>,
    format: Format,
    read_opcode: u8,
    state: State,
    notes: Notes,
    /// Time of the first record, where times count from a date.
    origin: Option<u64>,
    last: u64,
    heading_may_come: bool,
    ended: bool,
}

impl<R: Read> TraceReader<R> {
    /// Reads `input` as `format`.
    pub fn new(input: R, format: Format, options: ReadOptions) -> TraceReader<R> {
        TraceReader::of_source(Source::new(input), format, options)
    }

    /// Finds out the format, then reads.
    /// Errors: the beginning is of no format that is known, or the input fails.
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

    /// Its format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// What was noticed so far.
    pub fn notes(&self) -> &Notes {
        &self.notes
    }

    /// The next record; `None` at the end, or where the trace is cut off, which the notes tell.
    /// Errors: something that the format does not allow, with its place; the input fails. Nothing comes after an error.
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
