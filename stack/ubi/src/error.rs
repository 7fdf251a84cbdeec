//! What UBI may refuse.

use sim::seam::{FlashError, LebError};
use sim::{Lnum, VolId};
use thiserror::Error;

/// Errors of a running device. Those of a LEB are [`LebError`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UbiError {
    /// The medium's fault, power loss among them.
    #[error(transparent)]
    Flash(#[from] FlashError),
    /// No physical eraseblock is free and no erasure is pending.
    #[error("no free physical eraseblock")]
    NoFreePeb,
    /// The device went read-only, or was attached so.
    #[error("the device is read-only: {why}")]
    ReadOnly {
        /// What made it so.
        why: &'static str,
    },
    /// No such volume.
    #[error("volume {0} does not exist")]
    NoSuchVolume(VolId),
    /// The volume exists already.
    #[error("volume {0} exists already")]
    VolumeExists(VolId),
    /// Another volume has that name.
    #[error("a volume of the name {name:?} exists already (volume {vol_id})")]
    NameExists {
        /// The name.
        name: String,
        /// Who has it.
        vol_id: VolId,
    },
    /// A value of the request is out of its range.
    #[error("{what} is {found}, expected {expected}")]
    BadRequest {
        /// The value's name.
        what: &'static str,
        /// The value.
        found: String,
        /// Its range.
        expected: String,
    },
    /// Not enough PEBs for the request.
    #[error("{need} LEBs are wanted, {available} are available")]
    NoSpace {
        /// LEBs wanted.
        need: u32,
        /// LEBs to be had.
        available: u32,
    },
    /// All volume numbers are taken.
    #[error("all {0} volume numbers are taken")]
    NoFreeVolumeId(u32),
    /// A LEB's error.
    #[error(transparent)]
    Leb(#[from] LebError),
}

impl UbiError {
    /// As a LEB's error, for the layer above.
    pub(crate) fn at(self, lnum: Lnum) -> LebError {
        match self {
            UbiError::Flash(error) => LebError::Flash(error),
            UbiError::NoFreePeb | UbiError::NoSpace { .. } => LebError::NoSpace { lnum },
            UbiError::ReadOnly { why } => LebError::ReadOnly { lnum, why },
            UbiError::Leb(error) => error,
            UbiError::NoSuchVolume(_)
            | UbiError::VolumeExists(_)
            | UbiError::NameExists { .. }
            | UbiError::BadRequest { .. }
            | UbiError::NoFreeVolumeId(_) => LebError::NoSuchLeb { lnum, lebs: 0 },
        }
    }
}
