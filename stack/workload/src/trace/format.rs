//! The formats: their names, their layout, and what each can hold.

use sim::Ns;
use sim::seam::{BlockOp, SECTOR_BYTES};

use super::TraceRecord;

/// A format of traces. `docs/format/trace.md` lists them with their sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// MSR Cambridge, CSV.
    Msr,
    /// SYSTOR '17, CSV.
    Systor,
    /// Tencent CBS, CSV.
    Tencent,
    /// Alibaba Cloud, CSV.
    Alibaba,
    /// Storage Performance Council, CSV; UMass's traces.
    Spc,
    /// DiskSim ASCII as SSD simulators write it: times in nanoseconds.
    DiskSim,
    /// DiskSim ASCII as DiskSim itself writes it: times in milliseconds.
    DiskSimMs,
    /// Output of `blkparse`.
    Blkparse,
    /// Binary events of `blktrace`, one file in the order of time (`blkparse -d`).
    Blktrace,
    /// fio's log of I/Os, version 2.
    Iolog2,
    /// fio's log of I/Os, version 3.
    Iolog3,
    /// nandlab's own binary format.
    Ntrace,
}

/// What a format can hold. [`Format::fit`] drops or rounds the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holds {
    /// Resolution of times and latencies, which are rounded down to it.
    pub tick: Ns,
    /// Unit of offsets in bytes; offsets are rounded down to it.
    pub offset_unit: u64,
    /// Unit of lengths in bytes; the end of a range is rounded up to it.
    pub len_unit: u64,
    /// Longest length in bytes; longer requests are dropped.
    pub longest: u64,
    /// Whether it holds reads and writes of no bytes.
    pub empty: bool,
    /// Whether it holds flushes and discards; if not, they are dropped.
    pub flush_and_trim: bool,
    /// Whether it holds force unit access.
    pub fua: bool,
    /// Whether it holds latencies.
    pub latency: bool,
    /// Whether it holds processes; 0 may stand for none.
    pub process: bool,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 12] = [
        Format::Msr,
        Format::Systor,
        Format::Tencent,
        Format::Alibaba,
        Format::Spc,
        Format::DiskSim,
        Format::DiskSimMs,
        Format::Blkparse,
        Format::Blktrace,
        Format::Iolog2,
        Format::Iolog3,
        Format::Ntrace,
    ];

    /// Name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Msr => "msr",
            Format::Systor => "systor",
            Format::Tencent => "tencent",
            Format::Alibaba => "alibaba",
            Format::Spc => "spc",
            Format::DiskSim => "disksim",
            Format::DiskSimMs => "disksim-ms",
            Format::Blkparse => "blkparse",
            Format::Blktrace => "blktrace",
            Format::Iolog2 => "iolog2",
            Format::Iolog3 => "iolog3",
            Format::Ntrace => "ntrace",
        }
    }

    /// The format with this name.
    pub fn from_name(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format.name() == name)
    }

    /// Layout of a record, with units.
    pub const fn shape(self) -> &'static str {
        match self {
            Format::Msr => "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime (100 ns, Read or Write, bytes)",
            Format::Systor => "Timestamp,Response,IOType,LUN,Offset,Size (seconds, R or W, bytes)",
            Format::Tencent => {
                "Timestamp,Offset,Size,IOType,VolumeID (seconds, sectors of 512 bytes, 0 = read, 1 = write)"
            }
            Format::Alibaba => "device_id,opcode,offset,length,timestamp (R or W, bytes, microseconds)",
            Format::Spc => "ASU,LBA,Size,Opcode,Timestamp (sectors of 512 bytes, bytes, R or W, seconds)",
            Format::DiskSim => "time device LBA sectors type (nanoseconds, sectors of 512 bytes, 1 = read, 0 = write)",
            Format::DiskSimMs => {
                "time device LBA sectors type (milliseconds with a point, sectors of 512 bytes, 1 = read, 0 = write)"
            }
            Format::Blkparse => {
                "major,minor cpu sequence seconds.nanoseconds pid action RWBS sector + sectors [process]"
            }
            Format::Blktrace => "binary records with magic 0x65617407, of either byte order",
            Format::Iolog2 => "\"fio version 2 iolog\", then: file action offset length (wait: milliseconds)",
            Format::Iolog3 => "\"fio version 3 iolog\", then: time file action offset length (microseconds)",
            Format::Ntrace => "nandlab's own binary format",
        }
    }

    /// Meaning of the operation codes, if they are numbers or ambiguous letters.
    pub const fn polarity(self) -> &'static str {
        match self {
            Format::Msr => "Read, Write",
            Format::Systor | Format::Alibaba | Format::Spc => "R = read, W = write",
            Format::Tencent => "0 = read, 1 = write",
            Format::DiskSim | Format::DiskSimMs => "1 = read, 0 = write",
            Format::Blkparse => "RWBS: R, W, D = trim, F = flush before and force unit access after the letter",
            Format::Blktrace => "bits of the action",
            Format::Iolog2 | Format::Iolog3 => "read, write, trim, sync and datasync = flush",
            Format::Ntrace => "nandlab's",
        }
    }

    /// The format that a file name's ending selects for writing, if only one format has it.
    pub fn from_ending(name: &str) -> Option<Format> {
        let ending = name.rsplit_once('.')?.1;
        match ending {
            "ntrace" => Some(Format::Ntrace),
            "spc" => Some(Format::Spc),
            "blkparse" => Some(Format::Blkparse),
            "blktrace" => Some(Format::Blktrace),
            "iolog" => Some(Format::Iolog3),
            _ => None,
        }
    }

    /// Whether its times count from a date, so that the first record's time is subtracted.
    pub const fn is_dated(self) -> bool {
        matches!(self, Format::Msr | Format::Systor | Format::Tencent | Format::Alibaba | Format::Blktrace)
    }

    /// What it can hold.
    pub const fn holds(self) -> Holds {
        let plain = Holds {
            tick: Ns(1),
            offset_unit: 1,
            len_unit: 1,
            longest: super::MAX_LEN_BYTES,
            empty: true,
            flush_and_trim: false,
            fua: false,
            latency: false,
            process: false,
        };
        let sector = SECTOR_BYTES as u64;
        match self {
            Format::Msr => Holds { tick: Ns(100), latency: true, ..plain },
            Format::Systor => Holds { latency: true, ..plain },
            Format::Tencent => Holds { tick: Ns::from_s(1), offset_unit: sector, len_unit: sector, ..plain },
            Format::Alibaba => Holds { tick: Ns::from_us(1), ..plain },
            Format::Spc => Holds { offset_unit: sector, ..plain },
            Format::DiskSim | Format::DiskSimMs => Holds { offset_unit: sector, len_unit: sector, ..plain },
            Format::Blkparse | Format::Blktrace => Holds {
                offset_unit: sector,
                len_unit: sector,
                longest: u32::MAX as u64 - 511,
                empty: false,
                flush_and_trim: true,
                fua: true,
                latency: true,
                process: true,
                ..plain
            },
            Format::Iolog2 => Holds { tick: Ns::from_ms(1), flush_and_trim: true, ..plain },
            Format::Iolog3 => Holds { tick: Ns::from_us(1), flush_and_trim: true, ..plain },
            Format::Ntrace => Holds { flush_and_trim: true, fua: true, latency: true, process: true, ..plain },
        }
    }

    /// `record` as this format can hold it, or `None` if it cannot. Only this function decides that: writers write what
    /// it returns, and readers return the same. Devices are kept, except that fio's logs name files, which are numbered
    /// in the order in which they appear.
    pub fn fit(self, record: &TraceRecord) -> Option<TraceRecord> {
        let holds = self.holds();
        let tick = holds.tick.0;
        let floor = |time: Ns| Ns(time.0 - time.0 % tick);
        let moves = matches!(record.op, BlockOp::Read | BlockOp::Write);
        if !moves && !holds.flush_and_trim || record.len_bytes == 0 && record.op != BlockOp::Flush && !holds.empty {
            return None;
        }
        let offset_bytes = record.offset_bytes - record.offset_bytes % holds.offset_unit;
        let len = if record.len_bytes == 0 { 0 } else { record.end_bytes() - offset_bytes };
        let len_bytes = len.div_ceil(holds.len_unit).checked_mul(holds.len_unit)?;
        if len_bytes > holds.longest || offset_bytes.checked_add(len_bytes).is_none() {
            return None;
        }
        let mut fitted = TraceRecord {
            at: floor(record.at),
            offset_bytes,
            len_bytes,
            fua: record.fua && holds.fua,
            latency: record.latency.filter(|_| holds.latency).map(floor),
            process: record.process.filter(|_| holds.process),
            ..*record
        };
        if matches!(self, Format::Blkparse | Format::Blktrace) {
            fitted.process = fitted.process.filter(|&process| process != 0);
            fitted.latency = fitted.latency.filter(|latency| fitted.at.0.checked_add(latency.0).is_some());
        }
        if record.op == BlockOp::Flush && self != Format::Ntrace {
            (fitted.offset_bytes, fitted.len_bytes, fitted.fua) = (0, 0, false);
        }
        Some(fitted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_again() {
        for format in Format::ALL {
            assert_eq!(Format::from_name(format.name()), Some(format));
        }
        assert_eq!(Format::from_name("MSR"), None);
    }

    #[test]
    fn fitting_again_changes_nothing() {
        let record = TraceRecord {
            fua: true,
            latency: Some(Ns(12_345)),
            process: Some(7),
            ..TraceRecord::new(Ns(1_234_567_891), BlockOp::Write, 1000, 1001)
        };
        for format in Format::ALL {
            let once = format.fit(&record).expect("every format holds a write");
            assert_eq!(format.fit(&once), Some(once), "{}", format.name());
        }
    }

    #[test]
    fn sectors_are_rounded_outward() {
        let record = TraceRecord::new(Ns(0), BlockOp::Read, 1000, 1001);
        let fitted = |format: Format| format.fit(&record).map(|it| (it.offset_bytes, it.len_bytes));
        assert_eq!(fitted(Format::Msr), Some((1000, 1001)));
        assert_eq!(fitted(Format::Spc), Some((512, 1489)));
        assert_eq!(fitted(Format::DiskSim), Some((512, 1536)));
    }

    #[test]
    fn what_cannot_be_held_is_dropped() {
        let flush = TraceRecord::new(Ns(0), BlockOp::Flush, 0, 0);
        let holders: Vec<_> = Format::ALL.into_iter().filter(|format| format.fit(&flush).is_some()).collect();
        assert_eq!(holders, [Format::Blkparse, Format::Blktrace, Format::Iolog2, Format::Iolog3, Format::Ntrace]);
        let long = TraceRecord::new(Ns(0), BlockOp::Read, 0, 1 << 32);
        assert_eq!(Format::Blktrace.fit(&long), None);
        assert_eq!(Format::Spc.fit(&long), Some(long));
    }
}
