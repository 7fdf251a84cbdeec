//! Result of a run: one document for every subject.
//!
//! [`Outcome`] has what every run has: its experiment, its part, its metrics, erase counts, and a fingerprint over all
//! of it. [`Detail`] adds what only raw flash or only a drive has. Studies, tables and scripts use the metrics.

pub mod drive;
pub mod flash;
pub mod phases;
pub mod table;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Metrics;
use crate::parts::PartUse;
use crate::schema::Experiment;
use drive::DriveOutcome;
use flash::FlashOutcome;

/// Result of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The resolved experiment.
    pub experiment: Experiment,
    /// The part that it names, with the figures whose source is memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<PartUse>,
    /// Version of nandlab.
    pub version: String,
    /// Version of the model, [`MODEL_VERSION`](crate::MODEL_VERSION).
    pub model_version: u32,
    /// SHA-256 over everything else but words for people (labels of metrics, and the part), in hexadecimal.
    pub fingerprint: String,
    /// The measurements.
    #[serde(flatten)]
    pub measured: Measured,
}

/// Measurements of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Condition that ended it: `workload`, a key of `[stop]`, or `worn_out`.
    pub stopped_by: String,
    /// Length in nanoseconds of virtual time.
    pub virtual_ns: u64,
    /// Erasures of each block: on raw flash since it was new, PEB by PEB; on a drive in the run, unit by unit.
    pub erase_counts: Vec<u32>,
    /// Every metric, by id.
    pub metrics: Metrics,
    /// What only this kind of subject has.
    #[serde(flatten)]
    pub detail: Detail,
}

/// Results that only one kind of subject has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum Detail {
    /// Raw flash with UBI.
    #[serde(rename = "ubi")]
    Flash(Box<FlashOutcome>),
    /// A drive.
    #[serde(rename = "ssd")]
    Drive(Box<DriveOutcome>),
}

impl Outcome {
    /// The outcome of an experiment, with its fingerprint.
    pub fn new(experiment: Experiment, part: Option<PartUse>, measured: Measured) -> Outcome {
        let mut bare = measured.clone();
        bare.metrics.drop_labels();
        let mut outcome = Outcome {
            experiment,
            part: None,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            model_version: crate::MODEL_VERSION,
            fingerprint: String::new(),
            measured: bare,
        };
        let bytes = serde_json::to_vec(&outcome).unwrap_or_default();
        outcome.fingerprint = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        Outcome { part, measured, ..outcome }
    }

    /// Every metric, by id.
    pub fn metrics(&self) -> &Metrics {
        &self.measured.metrics
    }

    /// Results of raw flash; `None` for a drive.
    pub fn flash(&self) -> Option<&FlashOutcome> {
        match &self.measured.detail {
            Detail::Flash(flash) => Some(flash),
            Detail::Drive(_) => None,
        }
    }

    /// Results of a drive; `None` for raw flash.
    pub fn drive(&self) -> Option<&DriveOutcome> {
        match &self.measured.detail {
            Detail::Drive(drive) => Some(drive),
            Detail::Flash(_) => None,
        }
    }
}

impl Measured {
    /// The most worn block and its erase count.
    pub fn most_worn(&self) -> (usize, u32) {
        let counts = self.erase_counts.iter().copied().enumerate();
        counts.max_by_key(|&(block, ec)| (ec, std::cmp::Reverse(block))).unwrap_or((0, 0))
    }
}
