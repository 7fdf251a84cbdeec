//! fio's logs of I/Os, versions 2 and 3.
//!
//! Version 2: `file action offset length`; time passes only with `file wait milliseconds`, counted from the beginning
//! (so fio's source, although its manual says microseconds since the wait before). Version 3 has a time in microseconds
//! before each line and no `wait`. Files are numbered in the order of appearance. Source: fio's HOWTO, "Trace file
//! format", and its `iolog.c`, as facts.

use std::collections::BTreeMap;

use sim::seam::BlockOp;

use super::fields::{Fault, Fields};
use super::{Parsed, length, record, skipped};

/// First line of version 2.
pub const HEAD_2: &[u8] = b"fio version 2 iolog";
/// First line of version 3.
pub const HEAD_3: &[u8] = b"fio version 3 iolog";

/// Most files that a log may name.
const MOST_FILES: usize = 1 << 16;

/// State that later lines need.
#[derive(Debug, Default)]
pub struct Iolog {
    files: BTreeMap<Vec<u8>, u32>,
    /// Version 2: current time, in nanoseconds.
    now_ns: u64,
}

impl Iolog {
    /// Parses a line of version 2.
    pub fn version_2(&mut self, line: &[u8]) -> Result<Parsed, Fault> {
        if line == HEAD_2 {
            return Ok(Parsed::Nothing);
        }
        self.line(line, Fields::blank(line), true)
    }

    /// Parses a line of version 3.
    pub fn version_3(&mut self, line: &[u8]) -> Result<Parsed, Fault> {
        if line == HEAD_3 {
            return Ok(Parsed::Nothing);
        }
        let mut fields = Fields::blank(line);
        self.now_ns = fields.checked("a time in microseconds", |us| us.checked_mul(1000))?;
        self.line(line, fields, false)
    }

    fn line(&mut self, _line: &[u8], mut fields: Fields<'_>, waits: bool) -> Result<Parsed, Fault> {
        let before = fields.clone();
        let name = fields.word("a file's name")?;
        if !self.files.contains_key(name) {
            if self.files.len() == MOST_FILES || name.len() > 4096 {
                return Err(before.fault_of_next("a name of at most 4096 bytes of at most 65,536 files"));
            }
            let number = u32::try_from(self.files.len()).expect("MOST_FILES at most");
            self.files.insert(name.to_vec(), number);
        }
        let device = self.files[name];
        let expected = "add, open, close, read, write, trim, sync or datasync";
        let before = fields.clone();
        let op = match fields.word(expected)? {
            b"add" | b"open" | b"close" | b"unlink" => return Ok(Parsed::Skipped(skipped::FILE_ACTION)),
            b"wait" if waits => {
                let until = fields.checked("milliseconds from the beginning", |ms| ms.checked_mul(1_000_000))?;
                self.now_ns = self.now_ns.max(until);
                return Ok(Parsed::Nothing);
            }
            b"read" => BlockOp::Read,
            b"write" => BlockOp::Write,
            b"trim" => BlockOp::Trim,
            b"sync" | b"datasync" | b"sync_file_range" => {
                return Ok(Parsed::Record(record(self.now_ns, BlockOp::Flush, device, 0, 0)));
            }
            _ => return Err(before.fault_of_next(expected)),
        };
        let offset = fields.number("an offset in bytes")?;
        let len = length(&mut fields, offset, 1, "a length in bytes, below 2 TiB")?;
        fields.done()?;
        Ok(Parsed::Record(record(self.now_ns, op, device, offset, len)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Ns;

    #[test]
    fn version_2_waits_in_milliseconds_from_the_beginning() {
        let mut log = Iolog::default();
        let mut times = Vec::new();
        for line in [
            "fio version 2 iolog",
            "/dev/a add",
            "/dev/a open",
            "/dev/a read 0 4096",
            "/dev/a wait 5 0",
            "/dev/b write 512 512",
            "/dev/a wait 4 0",
            "/dev/b datasync 0 0",
        ] {
            if let Parsed::Record(record) = log.version_2(line.as_bytes()).expect("every line is good") {
                times.push((record.at, record.device, record.op));
            }
        }
        let ms = Ns::from_ms;
        assert_eq!(times, [(ms(0), 0, BlockOp::Read), (ms(5), 1, BlockOp::Write), (ms(5), 1, BlockOp::Flush)]);
    }

    #[test]
    fn version_3_counts_microseconds() {
        let mut log = Iolog::default();
        assert_eq!(log.version_3(b"2 Nvme1n1 add"), Ok(Parsed::Skipped(skipped::FILE_ACTION)));
        let Ok(Parsed::Record(record)) = log.version_3(b"878 Nvme1n1 write 0 16384") else { panic!("it is good") };
        assert_eq!((record.at, record.len_bytes), (Ns::from_us(878), 16_384));
        assert!(log.version_3(b"900 Nvme1n1 wait 5 0").is_err());
    }

    /// A file that is known stays so when no other is taken.
    #[test]
    fn a_name_has_at_most_4096_bytes_and_a_log_at_most_65536_files() {
        let mut log = Iolog::default();
        let mut write = |name: &str| match log.version_3(format!("1 {name} write 0 512").as_bytes()) {
            Ok(Parsed::Record(record)) => Ok(record.device),
            other => Err(other.expect_err("a record or a fault").column),
        };
        assert_eq!(write(&"n".repeat(4096)), Ok(0));
        assert_eq!(write(&"n".repeat(4097)), Err(2));
        for number in 1..65_536 {
            assert_eq!(write(&format!("f{number}")), Ok(number));
        }
        assert_eq!(write("one-more"), Err(2));
        assert_eq!((write("f1"), write("f65535")), (Ok(1), Ok(65_535)));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let fault = Iolog::default().version_3(b"878 Nvme1n1 rite 0 16384").expect_err("no action");
        assert_eq!((fault.column, &fault.found[..]), (12, "\"rite\""));
    }
}
