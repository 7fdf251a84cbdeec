//! The subject of an experiment, built once: raw flash with UBI, or a drive.
//!
//! Building is the validation: a subject that exists can run. Values on which a layer would panic are refused here,
//! with their key. Runs, power-cut enumerations, `identify` and reports use the subject; none reads the experiment's
//! values again.

pub mod drive;
pub mod faults;
pub mod flash;
pub mod hpb;
pub mod identify;
pub mod load;
pub mod ufs;
mod volumes;

pub use drive::{Drive, Layer};
pub use flash::RawFlash;
pub use load::Load;

use crate::parts::Library;
use crate::schema::{Experiment, ExperimentError};

/// The subject of an experiment.
#[derive(Clone, Debug)]
pub enum Subject {
    /// Raw flash with UBI.
    Flash(Box<RawFlash>),
    /// A drive.
    Drive(Box<Drive>),
}

impl Subject {
    /// Builds the subject of an experiment with the built-in parts.
    /// Errors: the first key whose value is impossible.
    pub fn build(experiment: &Experiment) -> Result<Subject, ExperimentError> {
        Subject::build_with(experiment, Library::embedded())
    }

    /// As [`build`](Self::build), with the parts of a library.
    /// Errors: as [`build`](Self::build).
    pub fn build_with(experiment: &Experiment, library: &Library) -> Result<Subject, ExperimentError> {
        let subject = match &experiment.ssd {
            Some(ssd) => {
                let mut drive = Drive::build(ssd, experiment.seed)?;
                if let Some(section) = &experiment.faults {
                    drive.add_faults(section, experiment.seed)?;
                }
                Subject::Drive(Box::new(drive))
            }
            None => Subject::Flash(Box::new(RawFlash::build(experiment, library)?)),
        };
        if let Some(guest) = &experiment.guest {
            crate::run::guest::check(guest, &subject)?;
        }
        Ok(subject)
    }
}
