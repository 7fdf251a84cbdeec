//! Result of a run on raw flash.

use serde::{Deserialize, Serialize};

use super::file_system::FileSystemOutcome;
use super::jffs1::JffsOutcome;
use super::table::{Row, WearTable, row};

/// PEBs among which a fastmap's anchor must be: the first 64.
pub const HEAD_PEBS: usize = 64;

/// Wear of the first 64 PEBs and of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Groups {
    /// PEBs 0 to 63.
    pub first64: Row,
    /// The other PEBs.
    pub others: Row,
}

impl Groups {
    /// Wear of a device's groups, from its erase counts.
    pub fn of(erase_counts: &[u32]) -> Groups {
        let (head, rest) = erase_counts.split_at(HEAD_PEBS.min(erase_counts.len()));
        Groups { first64: row(head.iter().copied()), others: row(rest.iter().copied()) }
    }
}

/// Mean erase count of the first 64 PEBs over that of the others, outliers included. `None` if there are no others, or
/// none of them was erased.
pub fn head_ratio(erase_counts: &[u32]) -> Option<f64> {
    let sum = |counts: &[u32]| counts.iter().map(|&ec| u64::from(ec)).sum::<u64>() as f64;
    let (head, rest) = erase_counts.split_at(HEAD_PEBS.min(erase_counts.len()));
    let erased = sum(rest);
    (erased > 0.0).then(|| (sum(head) / head.len() as f64) / (erased / rest.len() as f64))
}

/// A point of the timeline.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Virtual time in nanoseconds.
    pub t_ns: u64,
    /// Erasures so far.
    pub erases: u64,
    /// Free PEBs.
    pub free: u32,
    /// Bytes programmed per byte of data that the load wrote.
    pub waf: f64,
    /// Wear of the two groups.
    pub groups: Groups,
}

/// Latency of one kind of operation, in nanoseconds of virtual time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Name of the operation.
    pub op: String,
    /// Number of operations.
    pub count: u64,
    /// Smallest latency.
    pub min_ns: u64,
    /// Mean latency.
    pub mean_ns: f64,
    /// Median latency.
    pub p50_ns: u64,
    /// 90th percentile of latency.
    pub p90_ns: u64,
    /// 99th percentile of latency.
    pub p99_ns: u64,
    /// 99.9th percentile of latency.
    pub p999_ns: u64,
    /// Greatest latency.
    pub max_ns: u64,
    /// Points of the cumulative distribution: latency and share of operations at or below it.
    pub cdf: Vec<(u64, f64)>,
}

/// Figures of UBI's fastmap and wear levelling.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FastmapFigures {
    /// Fastmap writes per PEB allocated for a LEB.
    pub writes_per_user_peb: f64,
    /// Mean size of the user pool after a refill.
    pub mean_user_pool: f64,
    /// Share of refills that left one PEB or none in the user pool.
    pub starved_refill_share: f64,
    /// Share of refills that left the wear-levelling pool empty.
    pub empty_wl_pool_share: f64,
    /// Share of fastmap writes whose anchor was rewritten in place.
    pub anchors_in_place_share: f64,
    /// Share of fastmap writes whose data block was rewritten in place.
    pub data_in_place_share: f64,
    /// Targets that wear levelling returned unused, per fastmap write.
    pub give_backs_per_write: f64,
    /// Moves per PEB allocated for a LEB.
    pub moves_per_user_peb: f64,
}

/// What the user of a volume did in the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeFigures {
    /// Name of the volume.
    pub name: String,
    /// What its user does: `append`, `rewrite`, `image` or `static`.
    pub pattern: String,
    /// LEBs of the volume.
    pub lebs: u32,
    /// Writes; of an image, LEBs written.
    pub writes: u64,
    /// Bytes of these writes, without what fills them up to write units or LEBs.
    pub host_bytes: u64,
    /// Updates of the volume that ended.
    pub updates: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// LEBs that could not be read.
    #[serde(default)]
    pub lost_lebs: u32,
}

/// What the users of volumes did, from the start of the load to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumesOutcome {
    /// How much later than its time the last operation began, in nanoseconds: the flash is too slow for the load if this
    /// is more than an update takes.
    pub behind_ns: u64,
    /// Bytes programmed by cause.
    pub programmed_bytes: Vec<(String, u64)>,
    /// Each volume.
    pub volumes: Vec<VolumeFigures>,
}

/// Result of a run on raw flash, beside what every run has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlashOutcome {
    /// Steps of the load: writes of the volumes' users, operations on the file system.
    pub steps: u64,
    /// LEBs of the volumes.
    pub volume_lebs: u32,
    /// Bytes that the load wrote.
    #[serde(default)]
    pub host_bytes: u64,
    /// The error with which UBI ended the run, if a fault of the flash made it fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// What the volumes' users did, if the load is volumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volumes: Option<VolumesOutcome>,
    /// What the file system did, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_system: Option<FileSystemOutcome>,
    /// What JFFS did, if it has the flash to itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jffs: Option<JffsOutcome>,
    /// Erase counts by decade.
    pub table: WearTable,
    /// Wear of the two groups.
    pub groups: Groups,
    /// Figures of fastmap and wear levelling; `None` where they are Linux's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fastmap: Option<FastmapFigures>,
    /// Number of refills after which the user pool had 0, 1, 2 … PEBs.
    pub user_pool_sizes: Vec<u64>,
    /// Programmed bytes by cause.
    pub programmed_bytes: Vec<(String, u64)>,
    /// Erasures by cause.
    pub erases_by_cause: Vec<(String, u64)>,
    /// Latency of each operation.
    pub latency: Vec<Latency>,
    /// The run over time.
    pub timeline: Vec<Point>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_other_pebs_has_no_ratio() {
        assert_eq!(head_ratio(&[5; 64]), None);
        assert_eq!(head_ratio(&[5; 10]), None);
        assert_eq!(head_ratio(&[]), None);
        assert_eq!(head_ratio(&[[6; 64].as_slice(), &[0; 2]].concat()), None);
        assert_eq!(head_ratio(&[[6; 64].as_slice(), &[1, 3]].concat()), Some(3.0));
    }
}
