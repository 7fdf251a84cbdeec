//! The subject of an experiment, built once: raw flash with UBI, a drive, or a ubiblock, which is a volume of UBI as a
//! block device.
//!
//! Building is the validation: a subject that exists can run. Values on which a layer would panic are refused here,
//! with their key. Runs, power-cut enumerations, `identify` and reports use the subject; none reads the experiment's
//! values again.

pub mod block;
pub mod drive;
pub mod faults;
pub mod file_system;
pub mod flash;
pub mod hpb;
pub mod identify;
pub mod jffs;
pub mod jffs1;
pub mod jffs2;
pub mod load;
pub mod ubiblock;
pub mod ufs;
mod volumes;

pub use drive::{Drive, Layer};
pub use file_system::{FileLoad, FileSystem};
pub use flash::RawFlash;
pub use load::Load;
pub use ubiblock::Ubiblock;

use block::BlockFacts;

use crate::parts::Library;
use crate::schema::{Experiment, ExperimentError};

/// The subject of an experiment.
#[derive(Clone, Debug)]
pub enum Subject {
    /// Raw flash with UBI.
    Flash(Box<RawFlash>),
    /// A drive.
    Drive(Box<Drive>),
    /// A volume of UBI as a block device.
    Ubiblock(Box<Ubiblock>),
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
            None => {
                let flash = RawFlash::build(experiment, library)?;
                match &experiment.ubiblock {
                    Some(section) => Subject::Ubiblock(Box::new(Ubiblock::build(section, experiment, flash)?)),
                    None => Subject::Flash(Box::new(flash)),
                }
            }
        };
        if let Some(guest) = &experiment.guest {
            crate::run::guest::check(guest, &subject)?;
            crate::run::guest::check_load(experiment, guest, subject.block().is_none())?;
        }
        Ok(subject)
    }

    /// What a host knows of it; `None` if it is no block device.
    pub fn block(&self) -> Option<BlockFacts> {
        match self {
            Subject::Flash(_) => None,
            Subject::Drive(drive) => Some(drive.facts()),
            Subject::Ubiblock(device) => Some(device.facts()),
        }
    }
}
