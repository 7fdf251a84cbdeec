//! What an experiment is put to, built once: raw flash with UBI, or a drive.
//!
//! Building is the validation: a subject that exists can run. Everything that the layers would panic on is refused here, with the
//! key. A run, an enumeration of power cuts, `identify` and a report use what was built; none reads the experiment's numbers
//! again.

pub mod drive;
pub mod flash;
pub mod hpb;
pub mod load;

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
    /// Builds the subject of an experiment on parts that nandlab knows.
    /// Errors: the first key whose value makes no device.
    pub fn build(experiment: &Experiment) -> Result<Subject, ExperimentError> {
        Subject::build_with(experiment, Library::embedded())
    }

    /// As [`build`](Self::build), on the parts of a library.
    /// Errors: as there.
    pub fn build_with(experiment: &Experiment, library: &Library) -> Result<Subject, ExperimentError> {
        Ok(match &experiment.ssd {
            Some(ssd) => Subject::Drive(Box::new(Drive::build(ssd, experiment.seed)?)),
            None => Subject::Flash(Box::new(RawFlash::build(experiment, library)?)),
        })
    }
}
