//! What the host asks of a drive, and the state in which it finds the drive.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::section::{section, words};

words! {
    /// What is written before the measurement.
    pub enum PreconditionKind {
        /// Nothing.
        None,
        /// The given fraction once, in order.
        Sequential,
        /// As many random pages.
        Random,
        /// In order, then random pages until the write amplification settles.
        Steady,
    }
}

section! {
    /// State of the drive before the measurement, reached without virtual time.
    pub struct Precondition {
        /// What is written before the measurement.
        kind: PreconditionKind = PreconditionKind::None,
        /// Share of the capacity that is written, from its beginning.
        #[schemars(range(min = 0.0, max = 1.0))]
        fraction: f64 = 1.0,
        /// `steady`: two successive windows, in each of which the host writes as many pages, differ by less than this share.
        #[schemars(range(max = 1.0), extend("exclusiveMinimum" = 0.0))]
        settled_within: f64 = 0.01,
        /// `steady`: windows at most.
        #[schemars(range(min = 1, max = 10_000))]
        windows: u32 = 20,
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

section! {
    /// Load of a run on a drive: a fio job file, or one job by the other keys.
    pub struct Workload {
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
        /// Requests in all; 0: no limit.
        requests: u64 = 0,
        /// Virtual seconds; 0: no limit.
        #[schemars(range(min = 0.0, max = 1e9))]
        seconds: f64 = 0.0,
        /// `rw`, `randrw`: share of reads in per cent.
        #[schemars(range(max = 100))]
        read_percent: u8 = 50,
        /// Where the region begins: a multiple of 512.
        offset_bytes: u64 = 0,
        /// How long the region is; 0: to the end.
        size_bytes: u64 = 0,
        /// A flush follows every so many writes; 0: none.
        flush_every: u64 = 0,
        /// Every so many writes, one is a barrier, with a flush before and after it; 0: none.
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
        /// When requests are issued.
        mode: TraceMode = TraceMode::Open,
        /// How much faster than in the trace time passes.
        #[schemars(range(max = 1e9), extend("exclusiveMinimum" = 0.0))]
        speed: f64 = 1.0,
        /// `closed`: requests outstanding.
        #[schemars(range(min = 1))]
        depth: u32 = 32,
        /// Whether addresses beyond the drive wrap around to its start; they are refused otherwise.
        wrap: bool = false,
        /// Device to replay, where the trace has several.
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
        /// `-t`: threads, each with a file.
        #[schemars(range(min = 1, max = 65_535))]
        threads: u32 = 16,
        /// `-r`: bytes of a record, a multiple of 512.
        #[schemars(range(min = 512, max = 16_777_216))]
        record_bytes: u64 = 4096,
        /// Bytes of all files together, `-s` times the threads; 0: to the end of the drive.
        range_bytes: u64 = 1 << 30,
        /// Where the first file begins: a multiple of 512.
        offset_bytes: u64 = 0,
        /// Phases in order.
        #[schemars(length(min = 1))]
        phases: Vec<IozonePhase> = vec![IozonePhase::Read, IozonePhase::Write],
        /// Host time from a completion to the next request of its thread.
        #[schemars(range(min = 0.0, max = 1e9))]
        host_us: f64 = 0.0,
        /// Records after which each thread ends a phase; 0: all of them.
        records: u64 = 0,
        /// Whether the first thread that ends stops the measurement of the others: iozone without `-x`.
        stonewall: bool = true,
        /// Whether a thread's writes end with a flush inside the measured time: `-e`.
        flush: bool = true,
        /// Records within a group of so many, a power of two, are in an order of each file's own; 1: all are in order.
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
        /// Applications.
        #[schemars(range(min = 1, max = 10_000))]
        apps: u32 = 36,
        /// How many of them are games, spread evenly among the others.
        games: u32 = 12,
        /// How often all are launched in turn.
        #[schemars(range(min = 1, max = 10_000))]
        cycles: u32 = 6,
        /// Where the apps' area begins: a multiple of 4096.
        offset_bytes: u64 = 0,
        /// How long the area is; 0: to the end of the drive. The apps' files are spread evenly over it.
        size_bytes: u64 = 0,
        /// Mean size of an app's files.
        #[schemars(range(min = 0.0, max = 1e6))]
        app_mib: f64 = 200.0,
        /// Mean size of a game's files.
        #[schemars(range(min = 0.0, max = 1e6))]
        game_mib: f64 = 1000.0,
        /// Sizes are drawn from the mean less this share to the mean plus this share, in per cent.
        #[schemars(range(min = 0.0, max = 100.0))]
        spread_percent: f64 = 50.0,
        /// The apps' files are fragments of so many KiB all over the area; 0: each app's files are contiguous.
        fragment_kib: u32 = 0,
        /// Random reads of an app's launch, 4 KiB each.
        #[schemars(range(max = 10_000_000))]
        app_random_reads: u32 = 4000,
        /// Random reads of a game's launch, 4 KiB each.
        #[schemars(range(max = 10_000_000))]
        game_random_reads: u32 = 8000,
        /// Share of the random reads that differ at each launch, in per cent.
        #[schemars(range(min = 0.0, max = 100.0))]
        fresh_percent: f64 = 10.0,
        /// Sequential part of an app's launch.
        #[schemars(range(min = 0.0, max = 1e6))]
        app_sequential_mib: f64 = 30.0,
        /// Sequential part of a game's launch.
        #[schemars(range(min = 0.0, max = 1e6))]
        game_sequential_mib: f64 = 150.0,
        /// A request of the sequential part: a multiple of 4.
        #[schemars(range(min = 4, max = 16_384))]
        sequential_kib: u32 = 128,
        /// Order of the two parts of a launch.
        order: LaunchOrder = LaunchOrder::Mixed,
        /// Threads that read.
        #[schemars(range(min = 1, max = 1024))]
        readers: u32 = 2,
        /// Processor time of an app's launch, all readers together, spread evenly over its reads.
        #[schemars(range(min = 0.0, max = 1e9))]
        app_cpu_ms: f64 = 3000.0,
        /// Processor time of a game's launch.
        #[schemars(range(min = 0.0, max = 1e9))]
        game_cpu_ms: f64 = 9000.0,
        /// Size of the page cache; 0: none.
        #[schemars(range(min = 0.0, max = 1e6))]
        page_cache_mib: f64 = 1024.0,
        /// Writes of 4 KiB per 100 reads.
        #[schemars(range(min = 0.0, max = 100.0))]
        write_percent: f64 = 0.0,
    }
}
