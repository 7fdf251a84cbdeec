//! What a run on a drive found.

use serde::{Deserialize, Serialize};
use sim::CauseCounts;

use super::phases::PhaseFigures;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// The load ended, or a condition of the experiment.
    Done,
    /// The drive takes no more writes.
    WornOut,
}

/// The end of a drive's life.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndOfLife {
    /// Virtual time.
    pub at_ns: u64,
    /// What is used up.
    pub why: String,
    /// Bytes that the host had written in the run.
    pub host_bytes: u64,
}

/// How the drive was before the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Before {
    /// Pages that the host wrote.
    pub host_pages: u64,
    /// All pages programmed.
    pub pages: u64,
    /// Blocks erased.
    pub erases: u64,
    /// `steady`: windows written.
    pub windows: u32,
    /// `steady`: write amplification of the last.
    pub write_amplification: Option<f64>,
    /// `steady`: whether it differed from the one before by less than was asked.
    pub settled: bool,
}

/// Requests of one operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpFigures {
    /// The operation.
    pub op: String,
    /// Requests that count.
    pub count: u64,
    /// Bytes moved or discarded.
    pub bytes: u64,
    /// How many failed.
    pub errors: u64,
    /// Requests a second.
    pub iops: f64,
    /// 10^6 bytes a second.
    pub mb_s: f64,
    /// Bytes of a request.
    pub mean_bytes: f64,
    /// Least latency, from the user's call to the completion.
    pub min_ns: u64,
    /// Mean.
    pub mean_ns: f64,
    /// Percentiles.
    pub p50_ns: u64,
    /// 90th.
    pub p90_ns: u64,
    /// 99th.
    pub p99_ns: u64,
    /// 99.9th.
    pub p999_ns: u64,
    /// 99.99th.
    pub p9999_ns: u64,
    /// 99.999th.
    pub p99999_ns: u64,
    /// Greatest.
    pub max_ns: u64,
    /// Mean time by where it went: head and nanoseconds. They sum to the mean.
    pub time: Vec<(String, f64)>,
    /// Points of the cumulative distribution: latency and share of operations at or below it.
    pub cdf: Vec<(u64, f64)>,
}

/// Programmed bytes of one cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CauseFigures {
    /// The cause.
    pub cause: String,
    /// Bytes.
    pub bytes: u64,
    /// Over the bytes that the host wrote. These sum to the write amplification.
    pub per_host_byte: f64,
}

/// What writing cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WriteAmplification {
    /// Bytes that the host wrote.
    pub host_bytes: u64,
    /// Bytes programmed.
    pub flash_bytes: u64,
    /// The second over the first; none where the host wrote nothing.
    pub total: Option<f64>,
    /// By cause.
    pub by_cause: Vec<CauseFigures>,
}

/// Erasures in the run, over all blocks of all units.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WearFigures {
    /// Blocks.
    pub blocks: u64,
    /// Erasures.
    pub erases: u64,
    /// Least.
    pub min: u32,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: u32,
    /// 90th percentile.
    pub p90: u32,
    /// 99th.
    pub p99: u32,
    /// Greatest.
    pub max: u32,
}

impl WearFigures {
    /// Of erase counts.
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

/// Shares of the run in which parts were at work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Utilisation {
    /// Each die's array.
    pub dies: Vec<f64>,
    /// Each channel.
    pub channels: Vec<f64>,
}

/// The pattern of the writes handed to the drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PatternFigures {
    /// Share of written bytes in segments of 1 MiB that were filled from the first byte to the last.
    pub segmented_sequentiality: Option<f64>,
    /// Share of written bytes that continue the last write of their segment.
    pub segmented_continuity: Option<f64>,
    /// Bytes that are in neither, for want of memory.
    pub not_looked_at: u64,
}

/// A span of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// Its end, in nanoseconds of virtual time. It begins where the last one ends.
    pub t_ns: u64,
    /// Requests done: reads, writes, flushes, trims.
    pub requests: [u64; 4],
    /// Their bytes.
    pub bytes: [u64; 4],
    /// Pages programmed for the host, those that a flush forced out included.
    pub host_pages: u64,
    /// All pages programmed.
    pub pages: u64,
    /// Blocks erased.
    pub erases: u64,
    /// The longest that a request was in the drive.
    pub max_ns: u64,
}

impl Point {
    /// Two neighbours as one.
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

/// What a run on a drive found, beside what every run has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriveOutcome {
    /// How it ended.
    pub status: Status,
    /// The end of the drive's life, if it came.
    pub end_of_life: Option<EndOfLife>,
    /// What the drive's user may not expect of the load, a sentence each.
    pub remarks: Vec<String>,
    /// Capacity.
    pub logical_bytes: u64,
    /// Flash.
    pub raw_bytes: u64,
    /// Bytes of a page, the unit of mapping.
    pub page_bytes: u32,
    /// Bytes of a block as it is erased: of all planes that work in step.
    pub block_bytes: u64,
    /// How the drive was before.
    pub before: Before,
    /// Length of the part that counts, in nanoseconds of virtual time: without the load's ramp.
    pub measured_ns: u64,
    /// Requests handed over.
    pub requests: u64,
    /// The most that waited in the host for a place in the drive's queue.
    pub max_waiting: u64,
    /// Records of a trace that stood behind a later one.
    pub disordered: u64,
    /// Figures by operation, of those that occurred.
    pub ops: Vec<OpFigures>,
    /// Of loads that run in phases, each phase.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseFigures>,
    /// What writing cost, in the whole run.
    pub write_amplification: WriteAmplification,
    /// Erasures in the run.
    pub wear: WearFigures,
    /// Dies and channels at work.
    pub utilisation: Utilisation,
    /// The pattern of the writes, if asked for.
    pub pattern: Option<PatternFigures>,
    /// UFS with HPB: what its host shows in sysfs, as path and value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sysfs: Vec<(String, String)>,
    /// The run over time.
    pub timeline: Vec<Point>,
}

impl DriveOutcome {
    /// Figures of an operation, if it occurred.
    pub fn op(&self, name: &str) -> Option<&OpFigures> {
        self.ops.iter().find(|op| op.op == name)
    }
}

/// Programmed pages as bytes, by cause.
pub(crate) fn write_amplification(programs: &CauseCounts, page_bytes: u64, host_bytes: u64) -> WriteAmplification {
    let over = |bytes: u64| bytes as f64 / host_bytes as f64;
    let flash_bytes = programs.total() * page_bytes;
    WriteAmplification {
        host_bytes,
        flash_bytes,
        total: (host_bytes > 0).then(|| over(flash_bytes)),
        by_cause: programs
            .nonzero()
            .map(|(cause, pages)| {
                let bytes = pages * page_bytes;
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
        let mut programs = CauseCounts::default();
        (programs[Cause::Host], programs[Cause::Gc], programs[Cause::Map]) = (100, 150, 30);
        let found = write_amplification(&programs, 4096, 100 * 4096);
        assert_eq!((found.total, found.flash_bytes), (Some(2.8), 280 * 4096));
        assert_eq!(found.by_cause.iter().map(|cause| cause.bytes).sum::<u64>(), found.flash_bytes);
        assert_eq!(write_amplification(&programs, 4096, 0).total, None);
    }

    #[test]
    fn ranks_of_wear_are_those_of_blocks() {
        let wear = WearFigures::of(&(1..=100).rev().collect::<Vec<_>>());
        assert_eq!((wear.min, wear.p50, wear.p90, wear.p99, wear.max), (1, 50, 90, 99, 100));
        assert_eq!((wear.erases, wear.mean), (5050, 50.5));
        assert_eq!(WearFigures::of(&[]).max, 0);
    }
}
