//! Job files: sections, inheritance and the meaning of each option.
//!
//! Invariants: memory is bounded by the text (a job shares its lists with the section from which it inherits them); an
//! error has its line; a parsed job needs no further check except against a device.

#![deny(clippy::cast_possible_truncation)]

use std::sync::Arc;

use super::error::{FioError, shown};
use super::job::{
    Distribution, Extent, Job, MAX_BLOCK_BYTES, MAX_CLONES, MAX_DEPTH, Mix, Rate, Sizes, Split, ThinkCount, Zone,
    ZoneLen,
};
use super::options::{Standing, is_off, main_name, nearest, standing};
use super::value::{Expected, KbBase, between, boolean, decimal, integer, pairs, percent, range, shares, time, triple};

const SECTOR: u64 = sim::seam::SECTOR_BYTES as u64;
const S: u64 = 1_000_000_000;
const US: u64 = 1_000;
/// Most block sizes of a direction, and most zones.
const MAX_SPLIT: usize = 64;
const MAX_ZONES: usize = 256;

/// A section's options so far. A job starts from the `[global]` sections before it.
#[derive(Clone)]
struct Draft {
    job: Job,
    kb: KbBase,
    bs: [Option<u64>; 3],
    range: [Option<(u64, u64)>; 3],
    split: [Option<Split>; 3],
    align: [Option<u64>; 3],
    rate: [Option<Rate>; 3],
    rate_iops: [Option<Rate>; 3],
}

/// A line that sets an option.
struct Entry<'a> {
    line: u32,
    option: &'a str,
    value: &'a str,
}

/// Parses a job file.
///
/// Errors: [`FioError`], with the line of the first error.
pub fn parse(text: &str) -> Result<Vec<Job>, FioError> {
    let blank = Draft {
        job: Job::new("", 0),
        kb: KbBase(1024),
        bs: [None; 3],
        range: [None; 3],
        split: [None, None, None],
        align: [None; 3],
        rate: [None; 3],
        rate_iops: [None; 3],
    };
    let mut global = blank;
    let mut jobs: Vec<Job> = Vec::new();
    let mut names = std::collections::BTreeMap::<String, u32>::new();
    let mut clones = 0;
    // The current section: its name (None for [global]), its line, its entries.
    let mut section: Option<(Option<&str>, u32)> = None;
    let mut entries: Vec<Entry<'_>> = Vec::new();
    let lines = text.lines().map(Some).chain([None]);
    for (at, raw) in lines.enumerate() {
        let line = u32::try_from(at + 1).unwrap_or(u32::MAX);
        let content = raw.map(strip);
        if content == Some("") {
            continue;
        }
        let header = content.is_none_or(|content| content.starts_with('['));
        if header {
            if let Some((name, at)) = section {
                let mut draft = global.clone();
                draft.apply_all(&entries)?;
                entries.clear();
                match name {
                    None => global = draft,
                    Some(name) => {
                        let mut job = draft.finish(name, at)?;
                        clones += u64::from(job.numjobs);
                        if clones > MAX_CLONES {
                            return Err(conflict(&job.name, at, format!("more than {MAX_CLONES} jobs and clones")));
                        }
                        let twins = names.entry(job.name.clone()).or_insert(0);
                        job.twin = *twins;
                        *twins += 1;
                        jobs.push(job);
                    }
                }
            }
            let Some(content) = content else { break };
            section = Some((section_name(content, line)?, line));
            continue;
        }
        let content = content.unwrap_or_default();
        if content.split([' ', '\t', '=']).next() == Some("include") {
            let option = "include".to_owned();
            return Err(FioError::Unsupported { line, option, why: "other files are not read" });
        }
        if section.is_none() {
            return Err(FioError::Syntax { line, found: shown(content), expected: "a section: [global] or [name]" });
        }
        entries.push(entry(content, line));
    }
    if jobs.is_empty() {
        let line = u32::try_from(text.lines().count().max(1)).unwrap_or(u32::MAX);
        return Err(FioError::Syntax { line, found: "the end of the file".to_owned(), expected: "a job: [name]" });
    }
    for (job, queue) in jobs.iter_mut().zip(0..) {
        job.queue = queue;
    }
    Ok(jobs)
}

/// A line without comment and surrounding blanks.
fn strip(raw: &str) -> &str {
    raw.split([';', '#']).next().unwrap_or_default().trim()
}

/// The section's name, `None` for `[global]`.
fn section_name(content: &str, line: u32) -> Result<Option<&str>, FioError> {
    let syntax = |expected| Err(FioError::Syntax { line, found: shown(content), expected });
    let Some(name) = content.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) else {
        return syntax("a section: [global] or [name]");
    };
    match name.trim() {
        "" => syntax("a name between the brackets"),
        "global" => Ok(None),
        name if name.starts_with("global") => syntax("another name: fio takes every section global… for [global]"),
        name if name.len() > 255 => syntax("a name of at most 255 bytes"),
        name => Ok(Some(name)),
    }
}

fn entry(content: &str, line: u32) -> Entry<'_> {
    let (option, value) = content.split_once('=').unwrap_or((content, ""));
    Entry { line, option: option.trim(), value: value.trim() }
}

fn conflict(job: &str, line: u32, why: impl Into<String>) -> FioError {
    FioError::Job { job: job.to_owned(), line, why: why.into() }
}

/// A number of bytes: whole sectors, not 0.
fn sectors(text: &str, kb: KbBase, most: u64) -> Result<u64, Expected> {
    match between(text, kb, SECTOR, most) {
        Ok(bytes) if bytes.is_multiple_of(SECTOR) => Ok(bytes),
        Ok(_) => Err(format!("a multiple of the sector, {SECTOR} bytes")),
        Err(what) => Err(what),
    }
}

/// A number of bytes in whole sectors, or a percentage of the device.
fn extent(text: &str, kb: KbBase) -> Result<Extent, Expected> {
    match text.strip_suffix('%') {
        Some(_) => percent(text).map(Extent::Percent),
        None => match integer(text, kb)? {
            bytes if bytes.is_multiple_of(SECTOR) => Ok(Extent::Bytes(bytes)),
            _ => Err(format!("a multiple of the sector, {SECTOR} bytes, or a percentage")),
        },
    }
}

impl Draft {
    fn apply_all(&mut self, entries: &[Entry<'_>]) -> Result<(), FioError> {
        // Units first: they apply to the whole section.
        let (units, others): (Vec<_>, Vec<_>) = entries.iter().partition(|entry| entry.option == "kb_base");
        for entry in units.into_iter().chain(others) {
            self.apply(entry)?;
        }
        Ok(())
    }

    fn apply(&mut self, entry: &Entry<'_>) -> Result<(), FioError> {
        let &Entry { line, option, value } = entry;
        match standing(option) {
            None => {
                return Err(FioError::Unknown { line, option: shown(option), nearest: nearest(option) });
            }
            Some(Standing::Inert(_)) => return Ok(()),
            Some(Standing::Unsupported(_)) if is_off(option, value) => return Ok(()),
            Some(Standing::Unsupported(why)) => {
                return Err(FioError::Unsupported { line, option: shown(option), why });
            }
            Some(Standing::Effective) => {}
        }
        if value.contains('$') {
            let option = format!("{option}={}", shown(value));
            return Err(FioError::Unsupported { line, option, why: "variables and keywords are not substituted" });
        }
        if let Some(why) = unsupported_value(main_name(option), value) {
            return Err(FioError::Unsupported { line, option: format!("{option}={}", shown(value)), why });
        }
        self.set(main_name(option), value).map_err(|expected| FioError::Value {
            line,
            option: option.to_owned(),
            value: shown(value),
            expected,
        })
    }

    #[rustfmt::skip]
    fn set(&mut self, option: &str, value: &str) -> Result<(), Expected> {
        let kb = self.kb;
        let number = |low, high| between(value, kb, low, high);
        let narrow = |high: u64| u32::try_from(number(1, high)?).map_err(|_| format!("at most {}", u32::MAX));
        let job = &mut self.job;
        match option {
            "kb_base" => self.kb = match value {
                "1000" => KbBase(1000),
                "1024" => KbBase(1024),
                _ => return Err("1000 or 1024".to_owned()),
            },
            "name" => match value.len() {
                1..=255 => value.clone_into(&mut job.name),
                _ => return Err("a name of 1 to 255 bytes".to_owned()),
            },
            "rw" => (job.mix, job.random) = pattern(value)?,
            "rwmixread" => job.mix_read_percent = percent(value)?,
            "rwmixwrite" => job.mix_read_percent = 100 - percent(value)?,
            "bs" => self.bs = triple(value, |text| sectors(text, kb, MAX_BLOCK_BYTES))?,
            "bsrange" => self.range = triple(&value.replace('/', ","), |text| {
                range(text, |text| sectors(text, kb, MAX_BLOCK_BYTES))
            })?,
            "bssplit" => self.split = triple(value, |text| split(text, kb))?,
            "ba" => self.align = triple(value, |text| sectors(text, kb, MAX_BLOCK_BYTES))?,
            "size" => job.size = match extent(value, kb)? {
                Extent::Bytes(0) => None,
                Extent::Percent(0) => return Err("a percentage from 1 to 100".to_owned()),
                extent => Some(extent),
            },
            "io_size" => job.io_size = match extent(value, kb)? {
                Extent::Bytes(0) | Extent::Percent(0) => None,
                extent => Some(extent),
            },
            "offset" => job.offset = extent(value, kb)?,
            "offset_align" => job.offset_align = match value {
                "0" => None,
                _ => Some(sectors(value, kb, MAX_BLOCK_BYTES)?),
            },
            "offset_increment" => job.offset_increment = extent(value, kb)?,
            "iodepth" => job.iodepth = narrow(MAX_DEPTH)?,
            "numjobs" => job.numjobs = narrow(MAX_CLONES)?,
            "ioengine" => job.synchronous = synchronous(value)?,
            "rate" => {
                let caps = triple(value, |text| integer(text, kb))?;
                self.rate = caps.map(|it| it.filter(|&cap| cap > 0).map(Rate::Bytes));
            }
            "rate_iops" => {
                let caps = triple(value, |text| between(text, kb, 0, S))?;
                self.rate_iops = caps.map(|it| it.filter(|&cap| cap > 0).map(Rate::Requests));
            }
            "rate_process" => job.rate_poisson = match value {
                "linear" => false,
                "poisson" => true,
                _ => return Err("linear or poisson".to_owned()),
            },
            "thinktime" => job.think = time(value, US)?,
            "thinktime_blocks" => job.think_blocks = number(1, u64::MAX)?,
            "thinktime_blocks_type" => job.think_count = match value {
                "complete" => ThinkCount::Complete,
                "issue" => ThinkCount::Issue,
                _ => return Err("complete or issue".to_owned()),
            },
            "fsync" => job.fsync = number(0, u64::MAX)?,
            "fdatasync" => job.fdatasync = number(0, u64::MAX)?,
            "end_fsync" => job.end_fsync = boolean(value)?,
            "sync" => job.fua = match value {
                "0" | "none" => false,
                "1" | "sync" | "dsync" => true,
                _ => return Err("none, sync or dsync".to_owned()),
            },
            "random_distribution" => job.distribution = distribution(value, kb)?,
            "norandommap" => job.random_map = !boolean(value)?,
            "randseed" => job.randseed = Some(number(0, u64::MAX)?),
            "ramp_time" => job.ramp = time(value, S)?,
            "runtime" => job.runtime = Some(time(value, S)?).filter(|time| time.0 > 0),
            "overwrite" => job.overwrite = boolean(value)?,
            "create_on_open" => job.create_on_open = boolean(value)?,
            "time_based" => job.time_based = boolean(value)?,
            "loops" => job.loops = number(0, u64::MAX)?.max(1),
            "stonewall" => job.stonewall = boolean(value)?,
            "percentage_random" => {
                let given = triple(value, percent)?;
                job.percentage_random = given.map(|percent| percent.unwrap_or(100));
            }
            "number_ios" => job.number_ios = Some(number(0, u64::MAX)?).filter(|&number| number > 0),
            "startdelay" => job.start_delay = range(value, |text| time(text, S))?,
            other => unreachable!("{other} is in the table of options that have an effect"),
        }
        Ok(())
    }

    /// Resolves options that depend on others.
    fn finish(self, name: &str, line: u32) -> Result<Job, FioError> {
        let mut job = self.job;
        job.line = line;
        if job.name.is_empty() {
            name.clone_into(&mut job.name);
        }
        let refuse = |job: &Job, why: &str| Err(conflict(&job.name, line, why));
        for at in 0..3 {
            job.sizes[at] = match (&self.split[at], self.range[at]) {
                (Some(split), _) => Sizes::Split(Arc::clone(split)),
                (None, Some((low, high))) if low < high => Sizes::Range(low, high),
                (None, Some((low, _))) => Sizes::Fixed(low),
                (None, None) => Sizes::Fixed(self.bs[at].unwrap_or(4096)),
            };
            // Alignment applies to random requests only.
            let block = job.sizes[at].min();
            job.align[at] = self.align[at].filter(|_| job.random).unwrap_or(block);
            if job.random_map && job.uses(at) && job.align[at] != block {
                job.random_map = false;
            }
        }
        job.random_map &= job.random && job.distribution == Distribution::Uniform;
        job.depth = if job.synchronous { 1 } else { job.iodepth };
        if job.time_based && job.runtime.is_none() {
            return refuse(&job, "time_based needs a runtime");
        }
        if self.rate.iter().any(Option::is_some) && self.rate_iops.iter().any(Option::is_some) {
            return refuse(&job, "rate and rate_iops exclude each other");
        }
        job.rate = std::array::from_fn(|at| self.rate[at].or(self.rate_iops[at]));
        Ok(job)
    }
}

fn pattern(value: &str) -> Result<(Mix, bool), Expected> {
    Ok(match value {
        "read" => (Mix::Read, false),
        "write" => (Mix::Write, false),
        "trim" => (Mix::Trim, false),
        "randread" => (Mix::Read, true),
        "randwrite" => (Mix::Write, true),
        "randtrim" => (Mix::Trim, true),
        "rw" | "readwrite" => (Mix::ReadWrite, false),
        "randrw" => (Mix::ReadWrite, true),
        "trimwrite" => (Mix::TrimWrite, false),
        "randtrimwrite" => (Mix::TrimWrite, true),
        _ => {
            return Err("read, write, trim, randread, randwrite, randtrim, rw, readwrite, randrw, trimwrite or \
                        randtrimwrite"
                .to_owned());
        }
    })
}

/// Values that fio accepts and this project does not.
fn unsupported_value(option: &str, value: &str) -> Option<&'static str> {
    match option {
        "rw" if value.contains(':') => Some("positions follow from rw and random_distribution alone"),
        "random_distribution" if value.starts_with("sequence") => Some("a fixed sequence of blocks is a trace"),
        "sync" if value.contains("range") => Some("only fsync, fdatasync, end_fsync and sync reach a device"),
        "ioengine" => {
            let name = value.split(':').next().unwrap_or_default();
            let other = [
                "null",
                "net",
                "netsplice",
                "cpuio",
                "rdma",
                "e4defrag",
                "rbd",
                "rados",
                "http",
                "nbd",
                "dfs",
                "mtd",
                "filecreate",
                "filestat",
                "filedelete",
                "dircreate",
                "dirstat",
                "dirdelete",
                "exec",
                "nfs",
                "libhdfs",
                "libcufile",
                "libpmem",
                "dev-dax",
                "libiscsi",
                "gfapi",
                "gfapi_async",
                "ftruncate",
                "falloc",
                "external",
            ];
            other.contains(&name).then_some("it does no block I/O on the device")
        }
        _ => None,
    }
}

/// Whether an engine has one request outstanding at a time.
fn synchronous(engine: &str) -> Result<bool, Expected> {
    match engine {
        "sync" | "psync" | "vsync" | "pvsync" | "pvsync2" | "mmap" | "splice" => Ok(true),
        "libaio" | "io_uring" | "io_uring_cmd" | "posixaio" | "solarisaio" | "windowsaio" | "sg" | "xnvme"
        | "libblkio" => Ok(false),
        _ => Err("an engine of block I/O: sync, psync, vsync, pvsync, pvsync2, mmap, splice, libaio, io_uring, \
                  io_uring_cmd, posixaio, solarisaio, windowsaio, sg, xnvme or libblkio"
            .to_owned()),
    }
}

/// Parses `size/percentage:size/percentage…`.
fn split(text: &str, kb: KbBase) -> Result<Split, Expected> {
    let pairs = pairs(text, MAX_SPLIT)?;
    let percentages = pairs.iter().map(|(_, share)| share.map(percent).transpose());
    let weights = shares(&percentages.collect::<Result<Vec<_>, _>>()?)?;
    let sizes = pairs.iter().map(|(size, _)| sectors(size, kb, MAX_BLOCK_BYTES));
    let sizes = sizes.collect::<Result<Vec<_>, _>>()?;
    Ok(sizes.into_iter().zip(weights).filter(|&(_, weight)| weight > 0).collect())
}

fn distribution(value: &str, kb: KbBase) -> Result<Distribution, Expected> {
    let (kind, rest) = match value.split_once([':', '=']) {
        Some((kind, rest)) => (kind, Some(rest)),
        None => (value, None),
    };
    let numbers = |default: f64| -> Result<(f64, Option<f64>), Expected> {
        let Some(rest) = rest else { return Ok((default, None)) };
        let (first, center) = match rest.split_once(':') {
            Some((first, center)) => (first, Some(decimal(center)?)),
            None => (rest, None),
        };
        if center.is_some_and(|center| !(0.0..=1.0).contains(&center)) {
            return Err("a center from 0 to 1".to_owned());
        }
        Ok((decimal(first)?, center))
    };
    match kind {
        "random" if rest.is_none() => Ok(Distribution::Uniform),
        "zipf" => match numbers(1.1)? {
            (theta, center) if theta > 0.0 && theta <= 100.0 => Ok(Distribution::Zipf { theta, center }),
            _ => Err("a theta above 0, at most 100".to_owned()),
        },
        "pareto" => match numbers(0.2)? {
            (h, center) if h > 0.0 && h < 1.0 => Ok(Distribution::Pareto { h, center }),
            _ => Err("a power between 0 and 1".to_owned()),
        },
        "normal" => match numbers(0.0)? {
            (deviation_percent, center) if (0.0..=100.0).contains(&deviation_percent) => {
                Ok(Distribution::Normal { deviation_percent, center: center.unwrap_or(0.5) })
            }
            _ => Err("a deviation from 0 to 100".to_owned()),
        },
        "zoned" | "zoned_abs" => {
            let zones = triple(rest.unwrap_or_default(), |text| zones(text, kb, kind == "zoned_abs"))?;
            Ok(Distribution::Zoned(Arc::new(zones.map(Option::unwrap_or_default))))
        }
        _ => Err("random, zipf:THETA, pareto:POWER, normal:DEVIATION, zoned:… or zoned_abs:…".to_owned()),
    }
}

/// Parses `share of requests/length:…`, lengths in percent or bytes.
fn zones(text: &str, kb: KbBase, absolute: bool) -> Result<Vec<Zone>, Expected> {
    let pairs = pairs(text, MAX_ZONES)?;
    let given = pairs.iter().map(|(share, _)| if share.is_empty() { Ok(None) } else { percent(share).map(Some) });
    let weights = shares(&given.collect::<Result<Vec<_>, _>>()?)?;
    let lens = if absolute {
        let len = |len: Option<&str>| sectors(len.unwrap_or_default(), kb, u64::MAX).map(ZoneLen::Bytes);
        pairs.iter().map(|&(_, text)| len(text)).collect::<Result<Vec<_>, _>>()?
    } else {
        let given = pairs.iter().map(|(_, text)| text.map(percent).transpose());
        let parts = shares(&given.collect::<Result<Vec<_>, _>>()?)?;
        let of = parts.iter().sum();
        parts.into_iter().map(|parts| ZoneLen::Parts(parts, of)).collect()
    };
    Ok(weights.into_iter().zip(lens).map(|(weight, len)| Zone { weight, len }).collect())
}
