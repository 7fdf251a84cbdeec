//! A file system on a volume of UBI: its size, how it is made and mounted, and its load.

use std::sync::Arc;

use fs::cache;
use fs::ubifs::media::Compression;
use fs::ubifs::mkfs::{Compress, Mkfs, OptionError};
use fs::ubifs::{self, mkfs};
use nand::ArrayConfig;
use sim::seam::Timestamp;
use sim::{CpuPrice, Ns, Seed};
use ubi::layout::Layout;
use workload::file::fio::FioFile;
use workload::file::logger;
use workload::file::postmark;
use workload::file::strace::{self, Trace};
use workload::file::sysbench::{self, Mode};
use workload::fio::{Extent, Job, Sizes};
use workload::fsstress::{self, Op};

use super::flash::attach_blank;
use super::load::mix_of;
use crate::report::grouped;
use crate::schema::fs::{
    self as words, CallMode, Fio, Fs, FsKind, Fsstress, Lebs, Postmark, Strace, Sysbench, TestMode,
};
use crate::schema::jffs::Logger;
use crate::schema::{Experiment, ExperimentError, word, wrong};

/// A file system, ready to be made.
#[derive(Clone, Debug)]
pub struct FileSystem {
    /// LEBs of the volume.
    pub lebs: u32,
    /// How it is made.
    pub format: mkfs::Options,
    /// How it is mounted.
    pub mount: ubifs::Options,
    /// Whether it is unmounted at the end.
    pub unmount: bool,
    /// Whether it is mounted again after that.
    pub mount_again: bool,
    /// Time of the processor for each operation.
    pub operation: Ns,
    /// The page cache, if there is one.
    pub cache: Option<cache::Config>,
    /// What is repeated, if anything.
    pub repeat: Option<Repeat>,
    /// Whether bytes of files are kept.
    pub keep_bytes: bool,
    /// The load.
    pub load: FileLoad,
}

/// A part of a run whose calls on LEBs are repeated until the run ends.
#[derive(Clone, Copy, Debug)]
pub struct Repeat {
    /// Operations before it.
    pub after: u64,
    /// Operations in it.
    pub operations: u64,
}

/// The load of a file system.
#[derive(Clone, Debug)]
pub enum FileLoad {
    /// Processes of fsstress, so many.
    Fsstress(u32, Box<fsstress::Options>),
    /// PostMark.
    Postmark(postmark::Options),
    /// The `fileio` test of sysbench.
    Sysbench(sysbench::Options),
    /// A trace of strace, once it is given.
    Strace(strace::Options, Option<Arc<Trace>>),
    /// Processes of a fio job.
    Fio(Box<Job>),
    /// A device that appends to logs.
    Logger(logger::Options),
}

impl FileLoad {
    pub(super) fn build(experiment: &Experiment) -> Result<FileLoad, ExperimentError> {
        // The programs take seeds of 32 bits.
        let seed = |given: Option<u32>| given.unwrap_or(experiment.seed as u32);
        if let Some(section) = &experiment.postmark {
            return of_postmark(section, seed(section.seed)).map(FileLoad::Postmark);
        }
        if let Some(section) = &experiment.sysbench {
            return of_sysbench(section).map(FileLoad::Sysbench);
        }
        if let Some(section) = &experiment.strace {
            return Ok(FileLoad::Strace(of_strace(section), None));
        }
        if let Some(section) = &experiment.fio {
            return of_fio(section, Seed(experiment.seed)).map(|job| FileLoad::Fio(Box::new(job)));
        }
        if let Some(section) = &experiment.logger {
            return of_logger(section).map(FileLoad::Logger);
        }
        let section = experiment.fsstress.clone().unwrap_or_default();
        let options = of_fsstress(&section, seed(section.seed))?;
        Ok(FileLoad::Fsstress(section.processes, Box::new(options)))
    }

    /// Name of the program.
    pub fn name(&self) -> &'static str {
        match self {
            FileLoad::Fsstress(..) => "fsstress",
            FileLoad::Postmark(_) => "postmark",
            FileLoad::Sysbench(_) => "sysbench",
            FileLoad::Strace(..) => "strace",
            FileLoad::Fio(_) => "fio",
            FileLoad::Logger(_) => "logger",
        }
    }

    /// Whether the load ends by itself.
    pub fn has_end(&self) -> bool {
        let ends_by_time = matches!(self, FileLoad::Fio(job) if job.runtime.is_some());
        ends_by_time || self.operations().is_some()
    }

    /// About so many operations, to show progress; `None` if the load has no end, or time is what ends it.
    pub fn operations(&self) -> Option<u64> {
        match self {
            FileLoad::Fsstress(processes, options) => {
                let all = u64::from(*processes).saturating_mul(options.operations).saturating_mul(options.loops);
                (options.loops > 0).then_some(all)
            }
            // Half of the transactions of the second half make files, which are then removed.
            FileLoad::Postmark(options) => Some(
                2 * u64::from(options.number)
                    + 2 * u64::from(options.transactions)
                    + 2 * u64::from(options.subdirectories),
            ),
            FileLoad::Sysbench(options) => {
                let rounds = options.requests.checked_div(options.fsync_frequency).unwrap_or(0);
                let syncs = if options.fsync_all { options.requests } else { rounds * u64::from(options.files) };
                (options.requests > 0).then_some(options.requests.saturating_add(syncs))
            }
            FileLoad::Logger(options) => {
                let calls = if options.fsync { 2 } else { 1 };
                (options.entries > 0).then_some(options.entries.saturating_mul(calls))
            }
            FileLoad::Strace(options, trace) => {
                let calls = trace.as_ref().map_or(1, |trace| trace.summary().calls);
                (options.loops > 0).then_some(calls.saturating_mul(options.loops))
            }
            FileLoad::Fio(job) => {
                let Some(Extent::Bytes(bytes)) = job.size else { return None };
                let whole = (!job.time_based).then(|| bytes / job.sizes[0].min());
                let requests = job.number_ios.or(whole)?.saturating_mul(job.numjobs.into());
                Some(requests.saturating_add(requests.checked_div(job.fsync).unwrap_or(0)))
            }
        }
    }
}

impl FileSystem {
    /// Whether what is written may be kept: a record of calls has no bytes.
    pub fn may_keep_bytes(&self) -> bool {
        self.keep_bytes && self.repeat.is_none()
    }

    /// Whether what is written must be kept on a flash that does not fail: to be compressed, or to be mounted again.
    pub fn needs_bytes(&self) -> bool {
        let is_plain = matches!(self.format.compress, Compress::Always(Compression::None));
        self.may_keep_bytes() && (!is_plain || self.mount_again)
    }

    /// Builds the file system of an experiment; `None` if it has none.
    /// Errors: the first key whose value is impossible.
    pub(super) fn build(
        experiment: &Experiment,
        array: &ArrayConfig,
        ubi: &ubi::Config,
        layout: &Layout,
    ) -> Result<Option<FileSystem>, ExperimentError> {
        let Some(section) = &experiment.fs else { return Ok(None) };
        refuse_keys(section, &[])?;
        let lebs = lebs_of(section, array, ubi)?;
        let Layout { min_io_bytes, leb_bytes, .. } = *layout;
        let maker = match section.made_by {
            words::Maker::Mkfs => mkfs::Options::new(min_io_bytes, leb_bytes, lebs),
            words::Maker::FirstMount => mkfs::Options::first_mount(min_io_bytes, leb_bytes, lebs),
        };
        let format = mkfs::Options {
            compress: Compress::Always(match section.compression {
                words::Compression::None => Compression::None,
                words::Compression::Lzo => Compression::Lzo,
                words::Compression::Zlib => Compression::Zlib,
                words::Compression::Zstd => Compression::Zstd,
            }),
            fanout: section.fanout,
            journal_bytes: section.journal_bytes.or(maker.journal_bytes),
            orphan_lebs: section.orphan_lebs.unwrap_or(maker.orphan_lebs),
            reserve: section.reserved_bytes.map_or(maker.reserve, mkfs::Reserve::Data),
            ..maker
        };
        Mkfs::<()>::new(&format, Box::new(|_, _| Ok(()))).map_err(|error| of_mkfs(&error))?;
        let least = layout.min_io_bytes.max(8);
        if let Some(bytes) = section.max_write_bytes
            && (!bytes.is_power_of_two() || bytes < least || bytes > layout.leb_bytes)
        {
            let expected =
                format!("a power of two from {least} to the {} bytes of a LEB", grouped(layout.leb_bytes.into()));
            return wrong("fs.max_write_bytes", bytes, expected);
        }
        let ns = |seconds: f64| Ns((seconds * 1e9).round() as u64);
        let mount = ubifs::Options {
            epoch: Timestamp { seconds: section.starts_s, nanos: 0 },
            max_write_bytes: section.max_write_bytes,
            compression: None,
            writeback_interval: ns(section.writeback_s),
            expire: ns(section.expire_s),
            cpu: CpuPrice {
                crc_ps_per_byte: section.node_ps_per_byte,
                node_ps: section.node_ns * 1000,
                copy_ps_per_byte: section.copy_ps_per_byte,
                ..CpuPrice::FREE
            },
            ..ubifs::Options::default()
        };
        let Fs { unmount, mount_again, operation_us, keep_bytes, .. } = *section;
        let load = FileLoad::build(experiment)?;
        let cache = section.page_cache.as_ref().map(|cache| of_cache(cache, &mount)).transpose()?;
        if section.repeat.is_some() && experiment.faults.is_some() {
            return wrong("fs.repeat", "a record", "none beside `faults`: a file system answers to what a flash loses");
        }
        if section.repeat.is_some() && section.compression != words::Compression::None {
            return wrong("fs.repeat", "a record", "none unless fs.compression is `none`: it has no bytes to compress");
        }
        if !keep_bytes && (experiment.faults.is_some() || section.compression != words::Compression::None) {
            let expected = "`true` unless fs.compression is `none` and there is no `faults`: both look at bytes";
            return wrong("fs.keep_bytes", false, expected);
        }
        if mount_again && (section.repeat.is_some() || !keep_bytes) {
            let expected = "`false` with fs.repeat or without fs.keep_bytes: a mount reads what was written";
            return wrong("fs.mount_again", true, expected);
        }
        let repeat = section
            .repeat
            .as_ref()
            .map(|repeat| Repeat { after: repeat.after_operations, operations: repeat.operations });
        let operation = ns(operation_us / 1e6);
        Ok(Some(FileSystem { lebs, format, mount, unmount, mount_again, operation, cache, repeat, keep_bytes, load }))
    }
}

/// Refuses the tables of other file systems, and `others`: keys of `[fs]` that this one has no use for, each with whether it is
/// given. Errors: the first that is.
pub(super) fn refuse_keys(section: &Fs, others: &[(&'static str, bool)]) -> Result<(), ExperimentError> {
    let tables = [
        ("fs.jffs1", section.kind != FsKind::Jffs1 && section.jffs1.is_some()),
        ("fs.jffs2", section.kind != FsKind::Jffs2 && section.jffs2.is_some()),
    ];
    match tables.iter().chain(others).find(|(_, is_given)| *is_given) {
        Some((key, _)) => wrong(*key, "it", format!("no such key where fs.kind is `{}`", word(&section.kind))),
        None => Ok(()),
    }
}

/// The flusher looks as often as UBIFS's threads do. UBIFS has no read-ahead.
fn of_cache(section: &words::PageCache, mount: &ubifs::Options) -> Result<cache::Config, ExperimentError> {
    let default = cache::Config::linux(section.memory_bytes);
    let config = cache::Config {
        dirty_background_bytes: section.dirty_background_bytes.unwrap_or(default.dirty_background_bytes),
        dirty_bytes: section.dirty_bytes.unwrap_or(default.dirty_bytes),
        expire: mount.expire,
        writeback_interval: mount.writeback_interval,
        read_ahead_bytes: 0,
        ..default
    };
    if config.dirty_bytes > config.memory_bytes {
        let expected = format!("at most the {} of fs.page_cache.memory_bytes", grouped(config.memory_bytes));
        return wrong("fs.page_cache.dirty_bytes", grouped(config.dirty_bytes), expected);
    }
    Ok(config)
}

/// The key behind an option of mkfs.ubifs.
fn of_mkfs(error: &OptionError) -> ExperimentError {
    let (key, remedy) = match error.option {
        "--max-leb-cnt" => ("fs.lebs", "; more LEBs: see fs.lebs and nand.pebs"),
        "--leb-size" => ("nand.peb_bytes", " in a LEB, which a PEB has without UBI's headers"),
        "--min-io-size" => ("nand.page_bytes", ""),
        "--fanout" => ("fs.fanout", ""),
        "--jrn-size" => ("fs.journal_bytes", ""),
        "--reserved" => ("fs.reserved_bytes", ""),
        "--orph-lebs" => ("fs.orphan_lebs", ""),
        option => (option, ""),
    };
    ExperimentError::value(key, grouped(error.found), format!("{}{remedy}", error.expected))
}

fn of_fsstress(section: &Fsstress, seed: u32) -> Result<fsstress::Options, ExperimentError> {
    let mut weights = match section.zero {
        true => [0; fsstress::OPS],
        false => fsstress::Options::default().weights,
    };
    for (name, weight) in section.weights.given() {
        let op = Op::named(name).expect("a test holds keys and operations equal");
        weights[op as usize] = weight;
    }
    if weights.iter().all(|&weight| weight == 0) {
        return wrong("fsstress.weights", "no weight above 0", "at least one operation with a weight");
    }
    Ok(fsstress::Options {
        operations: section.operations,
        loops: section.loops,
        seed,
        weights,
        direct_io: false,
        overlaps: section.processes > 1,
    })
}

fn of_postmark(section: &Postmark, seed: u32) -> Result<postmark::Options, ExperimentError> {
    if section.size_low_bytes > section.size_high_bytes {
        let expected = format!("at most postmark.size_high_bytes, {}", section.size_high_bytes);
        return wrong("postmark.size_low_bytes", section.size_low_bytes, expected);
    }
    Ok(postmark::Options {
        size: (section.size_low_bytes, section.size_high_bytes),
        number: section.number,
        transactions: section.transactions,
        subdirectories: section.subdirectories,
        read: section.read_bytes,
        write: section.write_bytes,
        buffering: section.buffering,
        bias_read: u32::try_from(section.bias_read).ok(),
        bias_create: u32::try_from(section.bias_create).ok(),
        seed,
    })
}

fn of_strace(section: &Strace) -> strace::Options {
    strace::Options {
        loops: section.loops,
        speed: (section.mode == CallMode::Open).then_some(section.speed),
        compressible_percent: section.compressible_percent,
    }
}

fn of_logger(section: &Logger) -> Result<logger::Options, ExperimentError> {
    if section.least_bytes > section.most_bytes {
        let expected = format!("at most logger.most_bytes, {}", section.most_bytes);
        return wrong("logger.least_bytes", section.least_bytes, expected);
    }
    Ok(logger::Options {
        static_files: section.static_files,
        static_bytes: section.static_bytes,
        logs: section.logs,
        log_bytes: section.log_bytes,
        entry_bytes: (section.least_bytes, section.most_bytes),
        entries: section.entries,
        burst: section.burst,
        every: Ns((section.every_s * 1e9).round() as u64),
        fsync: section.fsync,
        compressible_percent: section.compressible_percent,
    })
}

fn of_sysbench(section: &Sysbench) -> Result<sysbench::Options, ExperimentError> {
    if section.file_total_bytes < section.file_num.into() {
        let expected = format!("at least a byte for each of the {} files", section.file_num);
        return wrong("sysbench.file_total_bytes", section.file_total_bytes, expected);
    }
    let blocks = section.file_merged_requests.max(1);
    if u64::from(section.file_block_bytes) * u64::from(blocks) >= 1 << 32 {
        let expected = "such that a request of so many blocks is below 4 GiB";
        return wrong("sysbench.file_merged_requests", section.file_merged_requests, expected);
    }
    Ok(sysbench::Options {
        mode: match section.file_test_mode {
            TestMode::SeqWr => Mode::SeqWr,
            TestMode::SeqRewr => Mode::SeqRewr,
            TestMode::SeqRd => Mode::SeqRd,
            TestMode::RndRd => Mode::RndRd,
            TestMode::RndWr => Mode::RndWr,
            TestMode::RndRw => Mode::RndRw,
        },
        files: section.file_num,
        total_bytes: section.file_total_bytes,
        block_bytes: section.file_block_bytes,
        merged_requests: section.file_merged_requests,
        fsync_frequency: section.file_fsync_freq,
        fsync_all: section.file_fsync_all,
        fsync_end: section.file_fsync_end,
        data_only: section.file_fsync_mode == words::FsyncMode::Fdatasync,
        rw_ratio: section.file_rw_ratio,
        requests: section.max_requests,
    })
}

fn of_fio(section: &Fio, seed: Seed) -> Result<Job, ExperimentError> {
    for (key, bytes) in [("fio.block_bytes", section.block_bytes), ("fio.size_bytes", section.size_bytes)] {
        if !bytes.is_multiple_of(512) {
            return wrong(key, bytes, "a multiple of 512");
        }
    }
    let mut job = Job::new(&section.name, 1);
    (job.mix, job.random) = mix_of(section.rw);
    job.random_map = job.random && !section.norandommap;
    job.mix_read_percent = section.read_percent;
    job.sizes = [const { Sizes::Fixed(0) }; 3].map(|_| Sizes::Fixed(section.block_bytes));
    job.align = [section.block_bytes; 3];
    job.size = Some(Extent::Bytes(section.size_bytes));
    job.numjobs = section.processes;
    job.number_ios = (section.requests > 0).then_some(section.requests);
    job.runtime = (section.seconds > 0.0).then_some(Ns((section.seconds * 1e9) as u64));
    job.ramp = Ns((section.ramp_s * 1e9) as u64);
    job.time_based = section.requests > 0 || section.seconds > 0.0;
    job.fsync = section.flush_every;
    job.end_fsync = section.end_fsync;
    job.fua = section.fua;
    job.overwrite = section.overwrite;
    // What the generator refuses of any process it refuses of the first.
    let refused = FioFile::new(&job, 0, seed).err();
    refused.map_or(Ok(job), |error| wrong("fio", error, "a job that fio's generator for files takes"))
}

/// LEBs of the volume of a file system.
/// Errors: more than are free.
pub(super) fn lebs_of(section: &Fs, array: &ArrayConfig, ubi: &ubi::Config) -> Result<u32, ExperimentError> {
    let free = attach_blank(array, ubi)?.available_pebs();
    match section.lebs {
        Lebs::Count(lebs) if lebs > free => {
            wrong("fs.lebs", grouped(lebs.into()), format!("at most the {} that are free", grouped(free.into())))
        }
        Lebs::Count(lebs) => Ok(lebs),
        Lebs::Whole(words::Whole::All) => Ok(free),
    }
}
