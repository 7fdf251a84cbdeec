//! Result of a run: one document for every subject.
//!
//! [`Outcome`] has what every run has: its experiment, its part, its metrics, erase counts, and a fingerprint over all
//! of it. [`Detail`] adds what only raw flash or only a drive has. Studies, tables and scripts use the metrics.

pub mod drive;
pub mod faults;
pub mod file_system;
pub mod flash;
pub mod gc;
pub mod guest;
pub mod jffs1;
pub mod phases;
mod read;
pub mod table;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Metrics;
use super::life::{self, Device};
use crate::flame::Graph;
use crate::parts::PartUse;
use crate::schema::Experiment;
use drive::DriveOutcome;
use faults::FaultFigures;
use flash::FlashOutcome;
use guest::GuestOutcome;

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
    /// Condition that ended it: `workload`, a key of `[stop]`, `worn_out`, or `failed` (UBI).
    pub stopped_by: String,
    /// Length in nanoseconds of virtual time.
    pub virtual_ns: u64,
    /// Erasures of each block: on raw flash since it was new, PEB by PEB; on a ubiblock in the run, PEB by PEB;
    /// on a drive in the run, unit by unit.
    pub erase_counts: Vec<u32>,
    /// Every metric, by id.
    pub metrics: Metrics,
    /// Faults of the flash, if the experiment has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faults: Option<FaultFigures>,
    /// The guest, if one was the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest: Option<Box<GuestOutcome>>,
    /// Where the virtual time went, if that was asked for: no part of the result, which is the same without it.
    #[serde(skip)]
    pub flame: Option<Box<Graph>>,
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
    /// A volume of UBI as a block device: measured as a drive is.
    #[serde(rename = "ubiblock")]
    Ubiblock(Box<DriveOutcome>),
}

impl Outcome {
    /// The outcome of an experiment, with its fingerprint.
    pub fn new(experiment: Experiment, part: Option<PartUse>, measured: Measured) -> Outcome {
        let mut outcome = Outcome::so_far(experiment, None, measured);
        let measured = outcome.measured.clone();
        outcome.measured.metrics.drop_labels();
        let bytes = serde_json::to_vec(&outcome).unwrap_or_default();
        outcome.fingerprint = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        Outcome { part, measured, ..outcome }
    }

    /// What a run that goes on has measured so far: without a fingerprint.
    pub fn so_far(experiment: Experiment, part: Option<PartUse>, mut measured: Measured) -> Outcome {
        measured.put_life(&experiment);
        measured.guest.iter().for_each(|guest| super::guest::put(&mut measured.metrics, guest));
        Outcome {
            experiment,
            part,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            model_version: crate::MODEL_VERSION,
            fingerprint: String::new(),
            measured,
        }
    }

    /// Every metric, by id.
    pub fn metrics(&self) -> &Metrics {
        &self.measured.metrics
    }

    /// Results of raw flash; `None` for a block device.
    pub fn flash(&self) -> Option<&FlashOutcome> {
        match &self.measured.detail {
            Detail::Flash(flash) => Some(flash),
            Detail::Drive(_) | Detail::Ubiblock(_) => None,
        }
    }

    /// Results of a block device; `None` for raw flash.
    pub fn drive(&self) -> Option<&DriveOutcome> {
        self.measured.block()
    }
}

impl Measured {
    /// Results of a block device; `None` for raw flash.
    pub fn block(&self) -> Option<&DriveOutcome> {
        match &self.detail {
            Detail::Drive(found) | Detail::Ubiblock(found) => Some(found),
            Detail::Flash(_) => None,
        }
    }

    /// Adds the metrics of the device's life at the load of the run.
    fn put_life(&mut self, experiment: &Experiment) {
        let of_raw_flash = |host_bytes: u64| {
            let pebs = self.erase_counts.len() as u64;
            let ubi = experiment.ubi.clone().or_else(|| experiment.guest.as_ref().map(|_| Default::default()));
            let reserved = ubi.map_or(0, |ubi| u64::from(ubi.beb_per_1024));
            let endurance = experiment.nand.as_ref().map_or(0, |nand| nand.endurance);
            (host_bytes, endurance, (pebs * reserved).div_ceil(1024))
        };
        let (host_bytes, endurance, reserve) = match &self.detail {
            Detail::Flash(flash) => of_raw_flash(flash.host_bytes),
            Detail::Ubiblock(found) => of_raw_flash(found.write_amplification.host_bytes),
            Detail::Drive(drive) => {
                let spare = drive.raw_bytes.saturating_sub(drive.logical_bytes);
                let endurance = experiment.ssd.as_ref().map_or(0, |ssd| ssd.endurance);
                (drive.write_amplification.host_bytes, endurance, spare / drive.block_bytes.max(1))
            }
        };
        let device = Device {
            erase_counts: &self.erase_counts,
            seconds: self.virtual_ns as f64 / 1e9,
            host_bytes: host_bytes as f64,
            endurance,
            reserve,
        };
        life::put(&mut self.metrics, device);
    }

    /// The most worn block and its erase count.
    pub fn most_worn(&self) -> (usize, u32) {
        let counts = self.erase_counts.iter().copied().enumerate();
        counts.max_by_key(|&(block, ec)| (ec, std::cmp::Reverse(block))).unwrap_or((0, 0))
    }
}
