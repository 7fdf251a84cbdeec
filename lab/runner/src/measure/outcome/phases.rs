//! Measurements of each phase of a load: of iozone's phases, and of cycles of app launches.

use serde::{Deserialize, Serialize};
use workload::apps::Cycle;
use workload::iozone::IozonePhase;

/// Figures of a phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseFigures {
    /// Name: `random read`, `random write`, `cycle 1` and so on.
    pub name: String,
    /// Begin, in nanoseconds of virtual time.
    pub from_ns: u64,
    /// End of its last thread or launch, in nanoseconds of virtual time.
    pub to_ns: u64,
    /// Requests of the drive, without flushes.
    pub requests: u64,
    /// Bytes of these requests.
    pub bytes: u64,
    /// Throughput in MB/s (10^6 bytes): for iozone the sum of the threads' rates, else bytes over the phase's length.
    pub mb_s: f64,
    /// Reads of apps, including those served by the page cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads: Option<u64>,
    /// Reads that the page cache served completely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_hits: Option<u64>,
    /// Length of each launch in nanoseconds, in the order of the apps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub launches_ns: Vec<u64>,
}

impl PhaseFigures {
    /// Length in seconds.
    pub fn seconds(&self) -> f64 {
        (self.to_ns - self.from_ns) as f64 / 1e9
    }

    /// Requests of the drive per second.
    pub fn iops(&self) -> f64 {
        over(self.requests as f64, self.seconds())
    }

    pub(crate) fn of_iozone(phase: &IozonePhase, record_bytes: u64) -> PhaseFigures {
        PhaseFigures {
            name: phase.phase.name().to_owned(),
            from_ns: phase.from.0,
            to_ns: phase.to.0,
            requests: phase.records,
            bytes: phase.records * record_bytes,
            mb_s: phase.bytes_per_s / 1e6,
            reads: None,
            cache_hits: None,
            launches_ns: Vec::new(),
        }
    }

    pub(crate) fn of_cycle(at: usize, cycle: &Cycle) -> PhaseFigures {
        PhaseFigures {
            name: format!("cycle {}", at + 1),
            from_ns: cycle.from.0,
            to_ns: cycle.to.0,
            requests: cycle.requests,
            bytes: cycle.bytes,
            mb_s: over(cycle.bytes as f64 / 1e6, (cycle.to - cycle.from).as_s()),
            reads: Some(cycle.reads),
            cache_hits: Some(cycle.hits),
            launches_ns: cycle.launches.iter().map(|launch| (launch.to - launch.from).0).collect(),
        }
    }
}

fn over(amount: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { amount / seconds } else { 0.0 }
}
