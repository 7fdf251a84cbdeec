//! The load of a drive, and its state before the run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::section::{section, words};
use super::volumes::Volumes;

words! {
    /// What is written to the drive before the measurement.
    pub enum PreconditionKind {
        /// Nothing: the drive is new.
        None,
        /// The given fraction of the capacity once, in order.
        Sequential,
        /// As many pages as that fraction has, at random addresses.
        Random,
        /// In order, then random pages until the write amplification settles.
        Steady,
    }
}

section! {
    /// State of the drive before the measurement. It is reached without virtual time, but for the warm-up of `steady`.
    pub struct Precondition {
        /// What is written to the drive before the measurement.
        kind: PreconditionKind = PreconditionKind::None,
        /// Share of the capacity that is written, from its beginning.
        #[schemars(range(min = 0.0, max = 1.0))]
        fraction: f64 = 1.0,
        /// `steady`: stop when the write amplification of two successive windows differs by less than this share.
        #[schemars(range(max = 1.0), extend("exclusiveMinimum" = 0.0))]
        settled_within: f64 = 0.01,
        /// `steady`: most windows.
        #[schemars(range(min = 1, max = 10_000))]
        windows: u32 = 20,
        /// `steady`: most windows of random writes in virtual time that follow, until rate and write amplification
        /// settle; 0: none.
        #[schemars(range(max = 10_000))]
        warm_up_windows: u32 = 16,
    }
}

words! {
    /// Operations of a load, as fio's `rw`.
    #[allow(missing_docs)]
    pub enum ReadWrite {
        #[serde(rename = "read")] Read,
        #[serde(rename = "write")] Write,
        #[serde(rename = "trim")] Trim,
        #[serde(rename = "randread")] RandRead,
        #[serde(rename = "randwrite")] RandWrite,
        #[serde(rename = "randtrim")] RandTrim,
        #[serde(rename = "rw")] Rw,
        #[serde(rename = "randrw")] RandRw,
    }
}

/// The load of a run, by `kind`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Workload {
    /// Of a drive: a fio job.
    Fio(FioJob),
    /// Of raw flash: volumes of UBI.
    Volumes(Volumes),
}

words! {
    /// The load of a drive.
    pub enum FioKind {
        /// A fio job.
        Fio,
    }
}

section! {
    /// Load of a run on a drive: a fio job file, or one job by the other keys.
    pub struct FioJob {
        /// The load: a fio job.
        #[serde(skip_serializing)]
        kind: FioKind = FioKind::Fio,
        /// Name of the job in results.
        name: String = "workload".to_owned(),
        /// Text of a fio job file, or its path; empty: the keys below.
        fio: String = String::new(),
        /// Operations, as fio's `rw`.
        rw: ReadWrite = ReadWrite::RandWrite,
        /// Bytes of a request: a multiple of 512.
        #[schemars(range(min = 512, max = 1_073_741_824))]
        block_bytes: u64 = 4096,
        /// Requests outstanding.
        #[schemars(range(min = 1, max = 65_535))]
        depth: u32 = 32,
        /// Most requests; 0: no limit.
        requests: u64 = 0,
        /// Most virtual seconds; 0: no limit.
        #[schemars(range(min = 0.0, max = 1e9))]
        seconds: f64 = 0.0,
        /// Seconds before the measurement begins, as fio's `ramp_time`: requests done earlier do not count.
        #[schemars(range(min = 0.0, max = 1e9))]
        ramp_s: f64 = 0.0,
        /// `rw`, `randrw`: share of reads in per cent.
        #[schemars(range(max = 100))]
        read_percent: u8 = 50,
        /// Start of the region: a multiple of 512.
        offset_bytes: u64 = 0,
        /// Length of the region; 0: to the end.
        size_bytes: u64 = 0,
        /// Writes between two flushes; 0: none.
        flush_every: u64 = 0,
        /// Writes of which the last is a barrier, with a flush before and after it; 0: none.
        barrier_every: u64 = 0,
        /// Exponent of a Zipf distribution of addresses; 0: uniform.
        #[schemars(range(min = 0.0, max = 100.0))]
        zipf: f64 = 0.0,
        /// Whether writes are durable when they complete (FUA).
        fua: bool = false,
    }
}

words! {
    /// When the requests of a trace are issued.
    pub enum TraceMode {
        /// At their times in the trace, divided by `speed`.
        Open,
        /// As soon as fewer than `depth` are outstanding.
        Closed,
        /// When the requests that had completed before them in the trace have completed here, plus their think time.
        Dependency,
    }
}

section! {
    /// Load of a run on a drive: a trace is replayed.
    pub struct Trace {
        /// The trace file.
        file: String = String::new(),
        /// When the requests of the trace are issued.
        mode: TraceMode = TraceMode::Open,
        /// `open`, `dependency`: speed of time relative to the trace: 2 halves every interval.
        #[schemars(range(min = 1e-6, max = 1e9))]
        speed: f64 = 1.0,
        /// `closed`: requests outstanding.
        #[schemars(range(min = 1))]
        depth: u32 = 32,
        /// Whether addresses beyond the drive wrap around to its start; otherwise they are an error.
        wrap: bool = false,
        /// Device to replay, if the trace has several.
        #[serde(skip_serializing_if = "Option::is_none")]
        device: Option<u32> = None,
    }
}

words! {
    /// Phases of iozone.
    pub enum IozonePhase {
        /// Random reads.
        Read,
        /// Random writes.
        Write,
    }
}

section! {
    /// Load of a run on a drive: `iozone -i2`, threads that read and write the records of their files in random order.
    pub struct Iozone {
        /// `-t`: threads, each with its own file.
        #[schemars(range(min = 1, max = 65_535))]
        threads: u32 = 16,
        /// `-r`: bytes of a record, a multiple of 512.
        #[schemars(range(min = 512, max = 16_777_216))]
        record_bytes: u64 = 4096,
        /// Bytes of all files together, `-s` times the threads; 0: to the end of the drive.
        range_bytes: u64 = 1 << 30,
        /// Start of the first file: a multiple of 512.
        offset_bytes: u64 = 0,
        /// Phases in order.
        #[schemars(length(min = 1))]
        phases: Vec<IozonePhase> = vec![IozonePhase::Read, IozonePhase::Write],
        /// Host time from a completion to the next request of its thread.
        #[schemars(range(min = 0.0, max = 1e9))]
        host_us: f64 = 0.0,
        /// Records after which a thread ends a phase; 0: all of them.
        records: u64 = 0,
        /// Whether the first thread that finishes ends the measurement of the others: iozone without `-x`.
        stonewall: bool = true,
        /// Whether a thread's writes end with a flush inside the measured time: `-e`.
        flush: bool = true,
        /// Size of the groups in which each file's records are shuffled, a power of two; 1: no shuffling.
        #[schemars(range(min = 1, max = 65_536))]
        mixed_records: u32 = 1,
    }
}

words! {
    /// Order of the two parts of an app's launch.
    pub enum LaunchOrder {
        /// Sequential requests spread evenly among the random reads.
        Mixed,
        /// The sequential part first.
        SequentialFirst,
        /// The random reads first.
        RandomFirst,
    }
}

section! {
    /// Load of a run on a drive: apps launched in turn, cycle after cycle. Every default is an assumption.
    pub struct Apps {
        /// Number of applications.
        #[schemars(range(min = 1, max = 10_000))]
        apps: u32 = 36,
        /// How many of them are games, spread evenly among the others.
        games: u32 = 12,
        /// How often all apps are launched in turn.
        #[schemars(range(min = 1, max = 10_000))]
        cycles: u32 = 6,
        /// Start of the apps' area: a multiple of 4096.
        offset_bytes: u64 = 0,
        /// Length of the area; 0: to the end of the drive. The apps' files are spread evenly over it.
        size_bytes: u64 = 0,
        /// Mean size of an app's files, in MiB.
        #[schemars(range(min = 0.0, max = 1e6))]
        app_mib: f64 = 200.0,
        /// Mean size of a game's files, in MiB.
        #[schemars(range(min = 0.0, max = 1e6))]
        game_mib: f64 = 1000.0,
        /// Spread of the sizes: they are drawn uniformly from mean ± this share, in per cent.
        #[schemars(range(min = 0.0, max = 100.0))]
        spread_percent: f64 = 50.0,
        /// Fragment size in KiB: the apps' files are fragments spread over the area; 0: each app's files are
        /// contiguous.
        fragment_kib: u32 = 0,
        /// Random reads of an app's launch, 4 KiB each.
        #[schemars(range(max = 10_000_000))]
        app_random_reads: u32 = 4000,
        /// Random reads of a game's launch, 4 KiB each.
        #[schemars(range(max = 10_000_000))]
        game_random_reads: u32 = 8000,
        /// Share of the random reads that go to fresh places at each launch, in per cent.
        #[schemars(range(min = 0.0, max = 100.0))]
        fresh_percent: f64 = 10.0,
        /// Sequential part of an app's launch, in MiB.
        #[schemars(range(min = 0.0, max = 1e6))]
        app_sequential_mib: f64 = 30.0,
        /// Sequential part of a game's launch, in MiB.
        #[schemars(range(min = 0.0, max = 1e6))]
        game_sequential_mib: f64 = 150.0,
        /// Request size of the sequential part in KiB: a multiple of 4.
        #[schemars(range(min = 4, max = 16_384))]
        sequential_kib: u32 = 128,
        /// Order of the two parts of a launch.
        order: LaunchOrder = LaunchOrder::Mixed,
        /// Number of reading threads.
        #[schemars(range(min = 1, max = 1024))]
        readers: u32 = 2,
        /// Processor time of an app's launch, summed over readers and spread evenly over its reads.
        #[schemars(range(min = 0.0, max = 1e9))]
        app_cpu_ms: f64 = 3000.0,
        /// Processor time of a game's launch.
        #[schemars(range(min = 0.0, max = 1e9))]
        game_cpu_ms: f64 = 9000.0,
        /// Size of the page cache, in MiB; 0: none.
        #[schemars(range(min = 0.0, max = 1e6))]
        page_cache_mib: f64 = 1024.0,
        /// Writes of 4 KiB per 100 reads.
        #[schemars(range(min = 0.0, max = 100.0))]
        write_percent: f64 = 0.0,
    }
}
