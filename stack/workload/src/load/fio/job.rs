//! A job's options, with every default filled in.

use std::sync::Arc;

use sim::Ns;

/// Directions in the order in which fio lists values for each of them.
pub const DIRECTIONS: [&str; 3] = ["read", "write", "trim"];
/// Most clones of jobs in one file.
pub const MAX_CLONES: u64 = 4096;
/// The largest `iodepth`.
pub const MAX_DEPTH: u64 = 65_535;
/// The largest block, in bytes.
pub const MAX_BLOCK_BYTES: u64 = 1 << 30;

/// Operations of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// Reads only.
    Read,
    /// Writes only.
    Write,
    /// Trims only.
    Trim,
    /// Reads with probability `mix_read_percent`, else writes.
    ReadWrite,
    /// A trim, then a write of the same range.
    TrimWrite,
}

/// A position or length on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// A number of bytes.
    Bytes(u64),
    /// A percentage of the device.
    Percent(u8),
}

/// Block sizes in bytes with their weights.
pub type Split = Arc<[(u64, u32)]>;

/// Request sizes of a direction, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// All requests have this size.
    Fixed(u64),
    /// Uniform over the multiples of the first value, from the first to the second.
    Range(u64, u64),
    /// Weighted sizes; some weight is above 0.
    Split(Split),
}

impl Sizes {
    /// The smallest size.
    pub fn min(&self) -> u64 {
        match self {
            Sizes::Fixed(bytes) | Sizes::Range(bytes, _) => *bytes,
            Sizes::Split(split) => split.iter().map(|&(bytes, _)| bytes).min().unwrap_or(0),
        }
    }

    /// The largest size.
    pub fn max(&self) -> u64 {
        match self {
            Sizes::Fixed(bytes) | Sizes::Range(_, bytes) => *bytes,
            Sizes::Split(split) => split.iter().map(|&(bytes, _)| bytes).max().unwrap_or(0),
        }
    }
}

/// Distribution of random requests over blocks.
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
    /// Every block with the same probability.
    Uniform,
    /// The block of rank k has weight 1/k^theta; ranks are scattered over the region.
    Zipf {
        /// Exponent, above 0.
        theta: f64,
        /// Shift of all ranks, as a fraction of the region; drawn if `None`.
        center: Option<f64>,
    },
    /// A share `h` of the blocks gets 1 - h of the requests, and so on within each part; ranks are scattered.
    Pareto {
        /// Share of the blocks, above 0 and below 1.
        h: f64,
        /// Shift of all ranks, as for `Zipf`.
        center: Option<f64>,
    },
    /// The mean of twelve uniform draws, spread further by `deviation_percent` of the region; ranks are scattered.
    Normal {
        /// Deviation in percent of the region, 0 to 100.
        deviation_percent: f64,
        /// Shift of all ranks, as a fraction of the region; 0.5 if not given.
        center: f64,
    },
    /// Consecutive zones, for reads, writes and trims.
    Zoned(Arc<[Vec<Zone>; 3]>),
}

/// One zone of [`Distribution::Zoned`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Share of requests, relative to the other zones' weights.
    pub weight: u32,
    /// Length of the zone.
    pub len: ZoneLen,
}

/// Length of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneLen {
    /// The first number of parts, of the second number of parts of the job's region.
    Parts(u32, u32),
    /// A number of bytes.
    Bytes(u64),
}

/// Rate limit of a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Bytes per second.
    Bytes(u64),
    /// Requests per second.
    Requests(u64),
}

/// When a request counts towards `thinktime_blocks`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThinkCount {
    /// When it completes.
    Complete,
    /// When it is issued.
    Issue,
}

/// A job of a job file. It runs `numjobs` clones.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Name of its section, or the value of `name`.
    pub name: String,
    /// Line number of its section.
    pub line: u32,
    /// Number of earlier jobs with the same name; keeps their random streams apart.
    pub twin: u32,
    /// Operations of its requests.
    pub mix: Mix,
    /// Whether positions are random.
    pub random: bool,
    /// Percentage of reads of [`Mix::ReadWrite`].
    pub mix_read_percent: u8,
    /// Request sizes of reads, writes and trims; multiples of 512.
    pub sizes: [Sizes; 3],
    /// Alignment of random positions of reads, writes and trims, in bytes.
    pub align: [u64; 3],
    /// Start of the region.
    pub offset: Extent,
    /// Unit to which a percentage in `offset` is rounded up; the smallest block if `None`.
    pub offset_align: Option<u64>,
    /// Offset between the regions of consecutive clones.
    pub offset_increment: Extent,
    /// Length of the region; the rest of the device if `None`.
    pub size: Option<Extent>,
    /// Bytes after which it ends; the length of the region if `None`.
    pub io_size: Option<Extent>,
    /// Requests after which it ends.
    pub number_ios: Option<u64>,
    /// Factor for both limits.
    pub loops: u64,
    /// Number of clones.
    pub numjobs: u32,
    /// Requests kept outstanding: 1 with a synchronous engine.
    pub depth: u32,
    /// `iodepth` as written, for [`Job::remarks`].
    pub iodepth: u32,
    /// Rate limits of reads, writes and trims.
    pub rate: [Option<Rate>; 3],
    /// Whether the gaps between rated requests are exponentially distributed; else they are constant.
    pub rate_poisson: bool,
    /// Pause after `think_blocks` requests.
    pub think: Ns,
    /// Requests between two pauses.
    pub think_blocks: u64,
    /// When a request counts towards `think_blocks`.
    pub think_count: ThinkCount,
    /// Writes between two flushes; 0 for none.
    pub fsync: u64,
    /// As `fsync`, for `fdatasync`, which is a flush on a block device.
    pub fdatasync: u64,
    /// Software queue of its requests, [`BlockRequest::queue`](sim::seam::BlockRequest::queue): the place of the job
    /// in its file.
    pub queue: u16,
    /// Whether the last write before each flush of `fsync` is a barrier: another flush precedes it. fio has no option
    /// for this.
    pub barrier: bool,
    /// Whether the job ends with a flush.
    pub end_fsync: bool,
    /// Whether writes are durable when they complete (`sync`).
    pub fua: bool,
    /// Distribution of random positions.
    pub distribution: Distribution,
    /// Whether every block is visited once before any is repeated. Used with [`Distribution::Uniform`].
    pub random_map: bool,
    /// Percentage of random requests among reads, writes and trims; the others continue after the last one.
    pub percentage_random: [u8; 3],
    /// Seed to use instead of the run's.
    pub randseed: Option<u64>,
    /// Time before measurement begins.
    pub ramp: Ns,
    /// Time after the ramp at which it ends.
    pub runtime: Option<Ns>,
    /// Whether it repeats until `runtime` ends it.
    pub time_based: bool,
    /// Start delay, drawn between the two values.
    pub start_delay: (Ns, Ns),
    /// Whether it waits for all jobs before it.
    pub stonewall: bool,
    /// Whether the engine has one request outstanding at a time.
    pub synchronous: bool,
    /// Of a job over files: whether a file is laid out though the job only writes.
    pub overwrite: bool,
    /// Of a job over files: whether a file is made when it is opened, and not laid out.
    pub create_on_open: bool,
}

impl Job {
    /// A job with defaults for everything but its name.
    pub fn new(name: &str, line: u32) -> Job {
        Job {
            name: name.to_owned(),
            line,
            twin: 0,
            mix: Mix::Read,
            random: false,
            mix_read_percent: 50,
            sizes: [const { Sizes::Fixed(4096) }; 3],
            align: [4096; 3],
            offset: Extent::Bytes(0),
            offset_align: None,
            offset_increment: Extent::Bytes(0),
            size: None,
            io_size: None,
            number_ios: None,
            loops: 1,
            numjobs: 1,
            depth: 1,
            iodepth: 1,
            rate: [None; 3],
            rate_poisson: false,
            think: Ns::ZERO,
            think_blocks: 1,
            think_count: ThinkCount::Complete,
            fsync: 0,
            fdatasync: 0,
            queue: 0,
            barrier: false,
            end_fsync: false,
            fua: false,
            distribution: Distribution::Uniform,
            random_map: true,
            percentage_random: [100; 3],
            randseed: None,
            ramp: Ns::ZERO,
            runtime: None,
            time_based: false,
            start_delay: (Ns::ZERO, Ns::ZERO),
            stonewall: false,
            synchronous: true,
            overwrite: false,
            create_on_open: false,
        }
    }

    /// Limitations that the user should know, a sentence each.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.synchronous && self.iodepth > 1 {
            let depth = self.iodepth;
            remarks.push(format!(
                "iodepth={depth} has no effect: the engine is synchronous (fio's own default is); set ioengine=libaio"
            ));
        }
        if (self.fsync > 0 || self.fdatasync > 0) && !matches!(self.mix, Mix::Write | Mix::ReadWrite | Mix::TrimWrite) {
            remarks.push("fsync has no effect: nothing is written".to_owned());
        }
        remarks
    }

    /// Whether the job has requests of direction `at` (read, write, trim).
    pub(super) fn uses(&self, at: usize) -> bool {
        match self.mix {
            Mix::Read => at == 0,
            Mix::Write => at == 1,
            Mix::Trim => at == 2,
            Mix::ReadWrite => at < 2,
            Mix::TrimWrite => at > 0,
        }
    }

    /// The smallest block of the job's directions.
    pub(super) fn min_block(&self) -> u64 {
        (0..3).filter(|&at| self.uses(at)).map(|at| self.sizes[at].min()).min().unwrap_or(512)
    }
}
