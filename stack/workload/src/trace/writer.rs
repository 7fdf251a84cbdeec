//! Writes records in any format.
//!
//! [`Format::fit`] drops or rounds what a format cannot hold; [`Lost`] counts that.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use sim::Ns;
use sim::seam::{BlockOp, SECTOR_BYTES};

use super::ntrace::NtraceWriter;
use super::text::blkparse::MINOR_BITS;
use super::{Format, TraceRecord, blktrace};

/// Records that lost something in writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Dropped: flushes and discards that the format lacks, requests without bytes or longer than it can hold.
    pub dropped: u64,
    /// Records whose time or latency was rounded down.
    pub times: u64,
    /// Records whose range was rounded outward to sectors.
    pub ranges: u64,
    /// Records that lost a latency, process or force unit access.
    pub fields: u64,
}

/// Most completions that wait to be written in the order of time; beyond that the earliest is written early.
const COMPLETIONS: usize = 1 << 16;

#[derive(Debug)]
enum Out<W> {
    Text(W),
    Ntrace(NtraceWriter<W>),
}

/// Writes a trace; [`finish`](TraceWriter::finish) completes it.
#[derive(Debug)]
pub struct TraceWriter<W> {
    out: Out<W>,
    format: Format,
    line: Line,
    lost: Lost,
    /// Pending completions, by time and number.
    completions: BTreeMap<(Ns, u32), TraceRecord>,
    /// Events written, which number the next one.
    sequence: u32,
    /// fio's logs: devices that were named already.
    files: BTreeSet<u32>,
    now: Ns,
}

/// A line or event being built.
#[derive(Debug, Default)]
struct Line(Vec<u8>);

impl Line {
    fn text(&mut self, text: &str) -> &mut Line {
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    fn number(&mut self, mut number: u64) -> &mut Line {
        let mut digits = [0; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.0.extend_from_slice(&digits[at..]);
        self
    }

    /// Writes `number` / 10^`places` with all decimal places.
    fn decimal(&mut self, number: u64, places: u32) -> &mut Line {
        let unit = 10u64.pow(places);
        self.number(number / unit).text(".");
        for place in (0..places).rev() {
            self.0.push(b'0' + (number / 10u64.pow(place) % 10) as u8);
        }
        self
    }
}

/// Heading of the format; empty if it has none.
const fn heading(format: Format) -> &'static str {
    match format {
        Format::Systor => "Timestamp,Response,IOType,LUN,Offset,Size\n",
        Format::Iolog2 => "fio version 2 iolog\n",
        Format::Iolog3 => "fio version 3 iolog\n",
        _ => "",
    }
}

impl<W: Write> TraceWriter<W> {
    /// Writes the heading, if the format has one.
    pub fn new(mut out: W, format: Format) -> io::Result<TraceWriter<W>> {
        out.write_all(heading(format).as_bytes())?;
        let out = if format == Format::Ntrace { Out::Ntrace(NtraceWriter::new(out)?) } else { Out::Text(out) };
        Ok(TraceWriter {
            out,
            format,
            line: Line::default(),
            lost: Lost::default(),
            completions: BTreeMap::new(),
            sequence: 0,
            files: BTreeSet::new(),
            now: Ns(0),
        })
    }

    /// What was lost so far.
    pub fn lost(&self) -> &Lost {
        &self.lost
    }

    /// Appends a record. Times must not decrease; readers ensure that.
    pub fn write(&mut self, record: &TraceRecord) -> io::Result<()> {
        let Some(fitted) = self.format.fit(record) else {
            self.lost.dropped += 1;
            return Ok(());
        };
        let rounded = fitted.at != record.at
            || matches!((fitted.latency, record.latency), (Some(kept), Some(given)) if kept != given);
        let ranges = (fitted.offset_bytes, fitted.len_bytes) != (record.offset_bytes, record.len_bytes);
        let left_out = (fitted.fua, fitted.latency.is_some(), fitted.process.is_some())
            != (record.fua, record.latency.is_some(), record.process.is_some());
        self.lost.times += u64::from(rounded);
        self.lost.ranges += u64::from(ranges && record.op != BlockOp::Flush);
        self.lost.fields += u64::from(left_out);
        if let Out::Ntrace(writer) = &mut self.out {
            return writer.write(&fitted);
        }
        self.line.0.clear();
        if matches!(self.format, Format::Blkparse | Format::Blktrace) {
            self.events(&fitted);
        } else {
            self.record(&fitted);
        }
        match &mut self.out {
            Out::Text(out) => out.write_all(&self.line.0),
            Out::Ntrace(_) => unreachable!("its records are no lines"),
        }
    }

    /// Writes completions before the record, then its issue event.
    fn events(&mut self, record: &TraceRecord) {
        while let Some((&(done_at, number), _)) = self.completions.first_key_value()
            && (done_at <= record.at || self.completions.len() >= COMPLETIONS)
        {
            let done = self.completions.remove(&(done_at, number)).expect("it is the first");
            self.event(&done, done_at, true);
        }
        let number = self.sequence;
        self.event(record, record.at, false);
        if let Some(done_at) = record.done_at().filter(|_| record.latency.is_some()) {
            self.completions.insert((done_at, number), *record);
        }
    }

    fn event(&mut self, record: &TraceRecord, at: Ns, done: bool) {
        self.sequence = self.sequence.wrapping_add(1);
        if self.format == Format::Blktrace {
            self.line.0.extend_from_slice(&blktrace::encode(record, at, done, self.sequence));
            return;
        }
        let (major, minor) = (record.device >> MINOR_BITS, record.device & ((1 << MINOR_BITS) - 1));
        let line = &mut self.line;
        line.number(u64::from(major)).text(",").number(u64::from(minor)).text(" 0 ").number(u64::from(self.sequence));
        line.text(" ").decimal(at.0, 9).text(" ").number(u64::from(record.process.unwrap_or(0)));
        line.text(if done { " C " } else { " D " });
        line.text(match record.op {
            BlockOp::Read => "R",
            BlockOp::Write => "W",
            BlockOp::Trim => "D",
            BlockOp::Flush => "FN",
        });
        line.text(if record.fua { "F " } else { " " });
        let (sector, sectors) = in_sectors(record);
        match (record.op, done) {
            (BlockOp::Flush, false) => line.text("[nandlab]\n"),
            (BlockOp::Flush, true) => line.text("0 [0]\n"),
            (_, false) => line.number(sector).text(" + ").number(sectors).text(" [nandlab]\n"),
            (_, true) => line.number(sector).text(" + ").number(sectors).text(" [0]\n"),
        };
    }

    fn record(&mut self, record: &TraceRecord) {
        let is_read = record.op == BlockOp::Read;
        let (at, device) = (record.at.0, u64::from(record.device));
        let (offset, len) = (record.offset_bytes, record.len_bytes);
        let (sector, sectors) = in_sectors(record);
        let line = &mut self.line;
        match self.format {
            Format::Msr => {
                line.number(at / 100).text(",nandlab,").number(device).text(if is_read { ",Read," } else { ",Write," });
                line.number(offset).text(",").number(len).text(",");
                if let Some(latency) = record.latency {
                    line.number(latency.0 / 100);
                }
            }
            Format::Systor => {
                line.decimal(at, 9).text(",");
                if let Some(latency) = record.latency {
                    line.decimal(latency.0, 9);
                }
                line.text(if is_read { ",R," } else { ",W," }).number(device);
                line.text(",").number(offset).text(",").number(len);
            }
            Format::Tencent => {
                line.number(at / 1_000_000_000).text(",").number(sector).text(",").number(sectors);
                line.text(if is_read { ",0," } else { ",1," }).number(device);
            }
            Format::Alibaba => {
                line.number(device).text(if is_read { ",R," } else { ",W," });
                line.number(offset).text(",").number(len).text(",").number(at / 1000);
            }
            Format::Spc => {
                line.number(device).text(",").number(sector).text(",").number(len);
                line.text(if is_read { ",R," } else { ",W," }).decimal(at, 9);
            }
            Format::DiskSim | Format::DiskSimMs => {
                if self.format == Format::DiskSim {
                    line.number(at)
                } else {
                    line.decimal(at, 6)
                };
                line.text(" ").number(device).text(" ").number(sector).text(" ").number(sectors);
                line.text(if is_read { " 1" } else { " 0" });
            }
            Format::Iolog2 | Format::Iolog3 => {
                self.log_line(record);
                return;
            }
            Format::Blkparse | Format::Blktrace | Format::Ntrace => unreachable!("they are written elsewhere"),
        }
        line.text("\n");
    }

    fn log_line(&mut self, record: &TraceRecord) {
        let version_3 = self.format == Format::Iolog3;
        let line = &mut self.line;
        let device = u64::from(record.device);
        let begin = |line: &mut Line| {
            if version_3 {
                line.number(record.at.0 / 1000).text(" ");
            }
            line.text("device").number(device);
        };
        if self.files.insert(record.device) {
            for action in [" add\n", " open\n"] {
                begin(line);
                line.text(action);
            }
        }
        if !version_3 && record.at > self.now {
            self.now = record.at;
            begin(line);
            line.text(" wait ").number(record.at.0 / 1_000_000).text(" 0\n");
        }
        begin(line);
        line.text(match record.op {
            BlockOp::Read => " read ",
            BlockOp::Write => " write ",
            BlockOp::Flush => " sync ",
            BlockOp::Trim => " trim ",
        });
        line.number(record.offset_bytes).text(" ").number(record.len_bytes).text("\n");
    }

    /// Writes pending events and returns the output.
    pub fn finish(mut self) -> io::Result<(W, Lost)> {
        self.line.0.clear();
        while let Some(((done_at, _), record)) = self.completions.pop_first() {
            self.event(&record, done_at, true);
        }
        let mut out = match self.out {
            Out::Ntrace(writer) => return Ok((writer.finish()?, self.lost)),
            Out::Text(out) => out,
        };
        out.write_all(&self.line.0)?;
        out.flush()?;
        Ok((out, self.lost))
    }
}

fn in_sectors(record: &TraceRecord) -> (u64, u64) {
    let unit = u64::from(SECTOR_BYTES);
    (record.offset_bytes / unit, record.len_bytes / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_all_their_digits() {
        let mut line = Line::default();
        line.number(0).text(" ").number(u64::MAX).text(" ").decimal(1_000_000_007, 9).text(" ").decimal(5, 6);
        assert_eq!(String::from_utf8_lossy(&line.0), "0 18446744073709551615 1.000000007 0.000005");
    }

    #[test]
    fn what_is_lost_is_counted() {
        let mut writer = TraceWriter::new(Vec::new(), Format::Alibaba).expect("memory takes it");
        let mut record = TraceRecord::new(Ns(1_500), BlockOp::Write, 100, 50);
        record.latency = Some(Ns(7));
        writer.write(&record).expect("memory takes it");
        writer.write(&TraceRecord::new(Ns(2_000), BlockOp::Flush, 0, 0)).expect("memory takes it");
        let (bytes, lost) = writer.finish().expect("memory takes it");
        assert_eq!(String::from_utf8_lossy(&bytes), "0,W,100,50,1\n");
        assert_eq!(lost, Lost { dropped: 1, times: 1, ranges: 0, fields: 1 });
    }
}
