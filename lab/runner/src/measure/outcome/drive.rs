//! Result of a run on a drive.

use serde::{Deserialize, Serialize};
use sim::CauseCounts;

use super::phases::PhaseFigures;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// The load or a condition of the experiment ended.
    Done,
    /// The drive accepts no more writes.
    WornOut,
}

/// The end of a drive's life.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndOfLife {
    /// Virtual time in nanoseconds.
    pub at_ns: u64,
    /// The resource that is used up.
    pub why: String,
    /// Bytes written by the host in the run.
    pub host_bytes: u64,
}

/// Preconditioning of the drive before the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Before {
    /// Pages written by the host.
    pub host_pages: u64,
    /// Pages programmed for any cause.
    pub pages: u64,
    /// Blocks erased.
    pub erases: u64,
    /// `steady`: number of windows written.
    pub windows: u32,
    /// `steady`: write amplification of the last window.
    pub write_amplification: Option<f64>,
    /// `steady`: whether it differed from the window before by less than `settled_within`.
    pub settled: bool,
    /// `steady`: random writes in virtual time that followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<WarmUp>,
    /// Before a trace with times of its own: what the drive did until it was idle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_idle: Option<Debt>,
}

/// Random writes in virtual time before the measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WarmUp {
    /// Number of windows.
    pub windows: u32,
    /// Pages written by the host.
    pub pages: u64,
    /// Virtual time in nanoseconds.
    pub ns: u64,
    /// Pages programmed per page programmed for the host, in the last window.
    pub write_amplification: Option<f64>,
    /// Writes per second in the last window.
    pub iops: Option<f64>,
    /// Whether the last window differs little from the one before.
    pub settled: bool,
}

/// Requests of one operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpFigures {
    /// Name of the operation.
    pub op: String,
    /// Requests that count.
    pub count: u64,
    /// Bytes transferred or discarded.
    pub bytes: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Requests per second.
    pub iops: f64,
    /// Throughput in MB/s (10^6 bytes).
    pub mb_s: f64,
    /// Mean request size in bytes.
    pub mean_bytes: f64,
    /// Smallest latency in nanoseconds, from issue to completion.
    pub min_ns: u64,
    /// Mean latency in nanoseconds.
    pub mean_ns: f64,
    /// Standard deviation of the latency in nanoseconds.
    pub stddev_ns: f64,
    /// Median latency in nanoseconds.
    pub p50_ns: u64,
    /// 90th percentile of latency, in nanoseconds.
    pub p90_ns: u64,
    /// 99th percentile of latency, in nanoseconds.
    pub p99_ns: u64,
    /// 99.9th percentile of latency, in nanoseconds.
    pub p999_ns: u64,
    /// 99.99th percentile of latency, in nanoseconds.
    pub p9999_ns: u64,
    /// 99.999th percentile of latency, in nanoseconds.
    pub p99999_ns: u64,
    /// Greatest latency in nanoseconds.
    pub max_ns: u64,
    /// Parts of the mean latency: name and nanoseconds. They sum to the mean.
    pub time: Vec<(String, f64)>,
    /// Points of the cumulative distribution: latency and share of operations at or below it.
    pub cdf: Vec<(u64, f64)>,
}

/// Programmed bytes of one cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CauseFigures {
    /// Name of the cause.
    pub cause: String,
    /// Bytes programmed for it.
    pub bytes: u64,
    /// Bytes programmed per byte written by the host. These sum to the write amplification.
    pub per_host_byte: f64,
}

/// Write amplification and its causes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WriteAmplification {
    /// Bytes written by the host.
    pub host_bytes: u64,
    /// Bytes programmed.
    pub flash_bytes: u64,
    /// Bytes programmed per byte written by the host; `None` if it wrote nothing.
    pub total: Option<f64>,
    /// Parts by cause.
    pub by_cause: Vec<CauseFigures>,
}

/// Erasures in the run, over all blocks of all units.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WearFigures {
    /// Number of blocks.
    pub blocks: u64,
    /// Erasures of all blocks.
    pub erases: u64,
    /// Least erase count.
    pub min: u32,
    /// Mean erase count.
    pub mean: f64,
    /// Median of the erase counts.
    pub p50: u32,
    /// 90th percentile of the erase counts.
    pub p90: u32,
    /// 99th percentile of the erase counts.
    pub p99: u32,
    /// Greatest erase count.
    pub max: u32,
}

impl WearFigures {
    /// Summarizes erase counts.
    pub fn of(counts: &[u32]) -> WearFigures {
        let mut sorted = counts.to_vec();
        sorted.sort_unstable();
        // Nearest rank: the least value at or below which the share of blocks lies.
        let rank =
            |percent: usize| sorted.get((sorted.len() * percent).div_ceil(100).saturating_sub(1)).copied().unwrap_or(0);
        let erases: u64 = counts.iter().map(|&count| u64::from(count)).sum();
        WearFigures {
            blocks: counts.len() as u64,
            erases,
            min: rank(0),
            mean: erases as f64 / counts.len().max(1) as f64,
            p50: rank(50),
            p90: rank(90),
            p99: rank(99),
            max: rank(100),
        }
    }
}

/// Results of one of several jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowFigures {
    /// Name of the job.
    pub name: String,
    /// Submission queue of its requests.
    pub queue: usize,
    /// Figures of each operation that occurred.
    pub ops: Vec<OpFigures>,
    /// Pages last written by it that the drive moved.
    pub pages_moved: u64,
    /// Their share of all pages moved, and so of the time of collection; `None` if none was moved.
    pub moved_share: Option<f64>,
    /// Bytes that it wrote and of its pages that were moved, per byte that it wrote; `None` if it wrote nothing.
    pub write_amplification: Option<f64>,
}

impl FlowFigures {
    /// Figures of an operation; `None` if it did not occur.
    pub fn op(&self, name: &str) -> Option<&OpFigures> {
        self.ops.iter().find(|op| op.op == name)
    }
}

/// Utilisation of dies and channels, from 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Utilisation {
    /// Utilisation of each die's array.
    pub dies: Vec<f64>,
    /// Utilisation of each channel.
    pub channels: Vec<f64>,
}

/// Work that the drive has left at the last completion. It is in no other figure of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Debt {
    /// Dirty pages in the write buffer. They stay there until a flush or until the buffer needs their room.
    pub buffered_pages: u64,
    /// Pages programmed from then on until the drive is idle.
    pub pages: u64,
    /// Blocks erased from then on until the drive is idle.
    pub erases: u64,
    /// Time until the drive is idle, in nanoseconds; 0 if it has no work left.
    pub ns: u64,
}

/// Pattern of the writes that the drive received.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PatternFigures {
    /// Share of written bytes in segments of 1 MiB that were written from the first byte to the last.
    pub segmented_sequentiality: Option<f64>,
    /// Share of written bytes that continue the previous write of their segment.
    pub segmented_continuity: Option<f64>,
    /// Bytes that neither share includes, because of the memory bound.
    pub not_looked_at: u64,
}

/// A window of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// Its end, in nanoseconds of virtual time. It begins where the previous one ends.
    pub t_ns: u64,
    /// Requests completed: reads, writes, flushes, trims.
    pub requests: [u64; 4],
    /// Bytes of these requests.
    pub bytes: [u64; 4],
    /// Pages programmed for the host, including those that a flush wrote out.
    pub host_pages: u64,
    /// Pages programmed for any cause.
    pub pages: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Longest time of a request in the drive, in nanoseconds.
    pub max_ns: u64,
}

impl Point {
    /// Merges two adjacent windows.
    pub fn and(self, next: &Point) -> Point {
        let sum = |a: [u64; 4], b: [u64; 4]| std::array::from_fn(|at| a[at] + b[at]);
        Point {
            t_ns: next.t_ns,
            requests: sum(self.requests, next.requests),
            bytes: sum(self.bytes, next.bytes),
            host_pages: self.host_pages + next.host_pages,
            pages: self.pages + next.pages,
            erases: self.erases + next.erases,
            max_ns: self.max_ns.max(next.max_ns),
        }
    }
}

/// Result of a run on a drive, beside what every run has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriveOutcome {
    /// How it ended.
    pub status: Status,
    /// The end of the drive's life, if it was reached.
    pub end_of_life: Option<EndOfLife>,
    /// Limitations of the load that the user should know, a sentence each.
    pub remarks: Vec<String>,
    /// Logical capacity in bytes.
    pub logical_bytes: u64,
    /// Raw flash in bytes.
    pub raw_bytes: u64,
    /// Bytes of a page, the unit of mapping.
    pub page_bytes: u32,
    /// Bytes of an erase unit: one block of every plane that works in step.
    pub block_bytes: u64,
    /// Preconditioning of the drive.
    pub before: Before,
    /// Length of the measured part, in nanoseconds of virtual time: without the load's ramp.
    pub measured_ns: u64,
    /// Requests submitted.
    pub requests: u64,
    /// Most requests that waited in the host for a slot in the drive's queue.
    pub max_waiting: u64,
    /// Trace records earlier than the record before them.
    pub disordered: u64,
    /// Figures of each operation that occurred.
    pub ops: Vec<OpFigures>,
    /// Figures of each flow, for loads of several jobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<FlowFigures>,
    /// Figures of each phase, for loads that have phases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseFigures>,
    /// Write amplification.
    pub write_amplification: WriteAmplification,
    /// Work left at the last completion.
    pub debt: Debt,
    /// Erasures in the run.
    pub wear: WearFigures,
    /// Utilisation of dies and channels.
    pub utilisation: Utilisation,
    /// Pattern of the writes, if requested.
    pub pattern: Option<PatternFigures>,
    /// UFS with HPB: the host's files in sysfs, as path and value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sysfs: Vec<(String, String)>,
    /// The run over time, window by window.
    pub timeline: Vec<Point>,
}

impl DriveOutcome {
    /// Figures of an operation; `None` if it did not occur.
    pub fn op(&self, name: &str) -> Option<&OpFigures> {
        self.ops.iter().find(|op| op.op == name)
    }
}

/// Write amplification of bytes programmed, by cause.
pub(crate) fn write_amplification(programmed: &CauseCounts, host_bytes: u64) -> WriteAmplification {
    let over = |bytes: u64| bytes as f64 / host_bytes as f64;
    let flash_bytes = programmed.total();
    WriteAmplification {
        host_bytes,
        flash_bytes,
        total: (host_bytes > 0).then(|| over(flash_bytes)),
        by_cause: programmed
            .nonzero()
            .map(|(cause, bytes)| {
                let per_host_byte = if host_bytes > 0 { over(bytes) } else { 0.0 };
                CauseFigures { cause: cause.name().to_owned(), bytes, per_host_byte }
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Cause;

    #[test]
    fn causes_sum_to_the_write_amplification() {
        let mut programmed = CauseCounts::default();
        (programmed[Cause::Host], programmed[Cause::Gc], programmed[Cause::Map]) = (100 << 12, 150 << 12, 30 << 12);
        let found = write_amplification(&programmed, 100 << 12);
        assert_eq!((found.total, found.flash_bytes), (Some(2.8), 280 << 12));
        assert_eq!(found.by_cause.iter().map(|cause| cause.bytes).sum::<u64>(), found.flash_bytes);
        assert_eq!(write_amplification(&programmed, 0).total, None);
    }

    #[test]
    fn ranks_of_wear_are_those_of_blocks() {
        let wear = WearFigures::of(&(1..=100).rev().collect::<Vec<_>>());
        assert_eq!((wear.min, wear.p50, wear.p90, wear.p99, wear.max), (1, 50, 90, 99, 100));
        assert_eq!((wear.erases, wear.mean), (5050, 50.5));
        assert_eq!(WearFigures::of(&[]).max, 0);
    }
}
