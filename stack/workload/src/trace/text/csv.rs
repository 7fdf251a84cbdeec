//! Formats of separated fields: MSR Cambridge, SYSTOR '17, Tencent, Alibaba, SPC, DiskSim.
//!
//! Sources: the traces' own descriptions (SNIA IOTTA 388 and 4964, the two cloud providers' repositories, SPC trace
//! file format 1.0.1, DiskSim 4.0 manual), as facts.

use sim::Ns;
use sim::seam::{BlockOp, SECTOR_BYTES};

use super::fields::{Fault, Fields};
use super::{Parsed, length, read_or_write, record, sectors, skipped};
use crate::trace::Format;

/// Whether `line`, the first of a file, is a heading.
pub fn is_heading(line: &[u8]) -> bool {
    let begins = |name: &[u8]| line.get(..name.len()).is_some_and(|head| head.eq_ignore_ascii_case(name));
    begins(b"timestamp") || begins(b"device_id") || begins(b"asu,") || begins(b"time") || begins(b"#")
}

/// Nanoseconds per unit of Windows file time.
const FILE_TIME_NS: u64 = 100;

/// Hosts in MSR's lines.
#[derive(Debug, Default)]
pub struct Hosts {
    first: Option<Vec<u8>>,
    /// Lines of other hosts than the first line's.
    pub others: u64,
}

impl Hosts {
    fn note(&mut self, host: &[u8]) {
        match &self.first {
            None => self.first = Some(host.to_vec()),
            Some(first) => self.others += u64::from(first != host),
        }
    }
}

/// Parses a line of `format`, which must be one of this module's. `read` is the code of a read where codes are numbers.
pub fn parse(format: Format, line: &[u8], read: u8, hosts: &mut Hosts) -> Result<Parsed, Fault> {
    match format {
        Format::Msr => msr(line, hosts),
        Format::Systor => systor(line),
        Format::Tencent => tencent(line, read),
        Format::Alibaba => alibaba(line),
        Format::Spc => spc(line),
        Format::DiskSim => disksim(line, false, read),
        Format::DiskSimMs => disksim(line, true, read),
        Format::Blkparse | Format::Blktrace | Format::Iolog2 | Format::Iolog3 | Format::Ntrace => {
            unreachable!("{} has no such lines", format.name())
        }
    }
}

/// `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`. An empty response time is unknown.
fn msr(line: &[u8], hosts: &mut Hosts) -> Result<Parsed, Fault> {
    let ticks = |ticks: u64| ticks.checked_mul(FILE_TIME_NS);
    let mut fields = Fields::comma(line);
    let at = fields.checked("a time in 100 ns", ticks)?;
    let host = fields.word("a host's name")?;
    let device = fields.number32("a disk's number of 32 bits")?;
    let kind = fields.clone();
    let Some(op) = read_or_write(&mut fields, "Read or Write")? else {
        return Err(kind.fault_of_next("Read or Write"));
    };
    let offset = fields.number("an offset in bytes")?;
    let len = length(&mut fields, offset, 1, "a size in bytes, below 2 TiB")?;
    let latency = "a response time in 100 ns";
    let latency = fields.optional(|fields| fields.checked(latency, ticks), latency)?;
    fields.done()?;
    hosts.note(host);
    let mut record = record(at, op, device, offset, len);
    record.latency = latency.map(Ns);
    Ok(Parsed::Record(record))
}

/// `Timestamp,Response,IOType,LUN,Offset,Size`. An empty response is unknown; a request without a type is skipped.
fn systor(line: &[u8]) -> Result<Parsed, Fault> {
    let mut fields = Fields::comma(line);
    let at = fields.decimal(9, "a time in seconds", false)?;
    let latency = "a response time in seconds";
    let latency = fields.optional(|fields| fields.decimal(9, latency, false), latency)?;
    let op = read_or_write(&mut fields, "R, W or nothing")?;
    let device = fields.number32("a LUN of 32 bits")?;
    let offset = fields.number("an offset in bytes")?;
    let len = length(&mut fields, offset, 1, "a size in bytes, below 2 TiB")?;
    fields.done()?;
    let Some(op) = op else { return Ok(Parsed::Skipped(skipped::BLANK_TYPE)) };
    let mut record = record(at, op, device, offset, len);
    record.latency = latency.map(Ns);
    Ok(Parsed::Record(record))
}

/// 0 or 1; `read` is the code of a read.
fn bit(fields: &mut Fields<'_>, read: u8) -> Result<BlockOp, Fault> {
    fields.checked("0 or 1", |code| match code {
        0 | 1 if code == u64::from(read) => Some(BlockOp::Read),
        0 | 1 => Some(BlockOp::Write),
        _ => None,
    })
}

/// `Timestamp,Offset,Size,IOType,VolumeID`.
fn tencent(line: &[u8], read: u8) -> Result<Parsed, Fault> {
    let mut fields = Fields::comma(line);
    let at = fields.decimal(9, "a time in seconds", false)?;
    let offset = sectors(&mut fields, "an offset in sectors")?;
    let len = length(&mut fields, offset, SECTOR_BYTES, "a size in sectors, below 2 TiB")?;
    let op = bit(&mut fields, read)?;
    let device = fields.number32("a volume's number of 32 bits")?;
    fields.done()?;
    Ok(Parsed::Record(record(at, op, device, offset, len)))
}

/// `device_id,opcode,offset,length,timestamp`.
fn alibaba(line: &[u8]) -> Result<Parsed, Fault> {
    let mut fields = Fields::comma(line);
    let device = fields.number32("a device's number of 32 bits")?;
    let kind = fields.clone();
    let Some(op) = read_or_write(&mut fields, "R or W")? else { return Err(kind.fault_of_next("R or W")) };
    let offset = fields.number("an offset in bytes")?;
    let len = length(&mut fields, offset, 1, "a length in bytes, below 2 TiB")?;
    let at = fields.checked("a time in microseconds", |us| us.checked_mul(1000))?;
    fields.done()?;
    Ok(Parsed::Record(record(at, op, device, offset, len)))
}

/// `ASU,LBA,Size,Opcode,Timestamp`; application-specific fields may follow and are ignored.
fn spc(line: &[u8]) -> Result<Parsed, Fault> {
    let mut fields = Fields::comma(line);
    let device = fields.number32("an ASU of 32 bits")?;
    let offset = sectors(&mut fields, "an LBA in sectors")?;
    let len = length(&mut fields, offset, 1, "a size in bytes, below 2 TiB")?;
    let kind = fields.clone();
    let Some(op) = read_or_write(&mut fields, "R or W")? else { return Err(kind.fault_of_next("R or W")) };
    let at = fields.decimal(9, "a time in seconds", false)?;
    Ok(Parsed::Record(record(at, op, device, offset, len)))
}

/// `time device LBA sectors type`. Times are whole nanoseconds, or milliseconds with a decimal point.
fn disksim(line: &[u8], milliseconds: bool, read: u8) -> Result<Parsed, Fault> {
    let mut fields = Fields::blank(line);
    let at = if milliseconds {
        fields.decimal(6, "a time in milliseconds with a point", true)?
    } else {
        fields.number("a time in nanoseconds")?
    };
    let device = fields.number32("a device's number of 32 bits")?;
    let offset = sectors(&mut fields, "an LBA in sectors")?;
    let len = length(&mut fields, offset, SECTOR_BYTES, "a size in sectors, below 2 TiB")?;
    let op = bit(&mut fields, read)?;
    fields.done()?;
    Ok(Parsed::Record(record(at, op, device, offset, len)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(parsed: Result<Parsed, Fault>) -> sim::seam::BlockRequest {
        match parsed.expect("the line is good") {
            Parsed::Record(record) => record.request().expect("it moves something"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_and_the_same_request_in_every_format() {
        let write = sim::seam::BlockRequest::write(8, 16);
        assert_eq!(one(msr(b"128166372003061629,usr,0,Write,4096,8192,41286", &mut Hosts::default())), write);
        assert_eq!(one(systor(b"1455592804.409113,0.000239,W,0,4096,8192")), write);
        assert_eq!(one(tencent(b"1538323200,8,16,1,1063", 0)), write);
        assert_eq!(one(alibaba(b"419,W,4096,8192,1577808144360767")), write);
        assert_eq!(one(spc(b"0,8,8192,w,0.026214, more, 7")), write);
        assert_eq!(one(disksim(b"27 0 8 16 0", false, 1)), write);
        assert_eq!(one(disksim(b"0.000027  0 8 16 0", true, 1)), write);
    }

    #[test]
    fn zero_is_a_read_for_tencent_and_a_write_for_disksim() {
        assert_eq!(one(tencent(b"1,8,16,0,1", 0)).op, BlockOp::Read);
        assert_eq!(one(disksim(b"1 0 8 16 1", false, 1)).op, BlockOp::Read);
        assert_eq!(one(tencent(b"1,8,16,0,1", 1)).op, BlockOp::Write);
    }

    #[test]
    fn numbers_beyond_32_bits_are_kept_where_they_may_be_and_refused_where_not() {
        let Ok(Parsed::Record(far)) = alibaba(b"1,R,549755813888,4096,4294967296000000") else { panic!("it is good") };
        assert_eq!((far.offset_bytes, far.at), (1 << 39, Ns(4_294_967_296_000_000_000)));
        let fault = alibaba(b"4294967296,R,0,4096,1").expect_err("a device has 32 bits");
        assert_eq!((fault.column, &fault.found[..]), (0, "\"4294967296\""));
        let fault = tencent(b"1,36028797018963968,8,0,1", 0).expect_err("no byte has that number");
        assert_eq!((fault.column, fault.expected), (2, "an offset in sectors"));
        let fault = alibaba(b"1,R,18446744073709551615,1,1").expect_err("its end has no number");
        assert_eq!(fault.column, 25);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let fault = msr(b"128166372003061629,usr,0,Wrote,4096,8192,41286", &mut Hosts::default()).expect_err("no type");
        assert_eq!((fault.column, &fault.found[..], fault.expected), (25, "\"Wrote\"", "Read or Write"));
        let fault = systor(b"1.5,0.2,W,0,4096").expect_err("no size");
        assert_eq!((fault.column, &fault.found[..]), (16, "the end of the line"));
        let fault = systor(b"1.5,0.2,W,0,4096,512,9").expect_err("a field too many");
        assert_eq!(fault.expected, "the end of the line");
    }

    #[test]
    fn a_blank_response_is_unknown_and_a_blank_type_is_left_out() {
        assert_eq!(systor(b"1.5,0.2,,0,4096,512"), Ok(Parsed::Skipped(skipped::BLANK_TYPE)));
        let Ok(Parsed::Record(record)) = systor(b"1.5,,R,0,4096,512") else { panic!("it is good") };
        assert_eq!(record.latency, None);
        let Ok(Parsed::Record(record)) = msr(b"12,h,1,read,0,512,", &mut Hosts::default()) else {
            panic!("it is good")
        };
        assert_eq!((record.latency, record.at, record.device), (None, Ns(1200), 1));
    }
}
