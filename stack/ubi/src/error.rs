//! Errors of a running device.

use sim::seam::{FlashError, LebError};
use sim::{Lnum, VolId};
use thiserror::Error;

/// Errors of a device and its volumes. Those of a LEB are [`LebError`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UbiError {
    /// The flash failed, or power was lost.
    #[error(transparent)]
    Flash(#[from] FlashError),
    /// No physical eraseblock is free and no erasure is pending.
    #[error("no free physical eraseblock")]
    NoFreePeb,
    /// The device became read-only, or was attached read-only.
    #[error("the device is read-only: {why}")]
    ReadOnly {
        /// Why it is read-only.
        why: &'static str,
    },
    /// No such volume.
    #[error("volume {0} does not exist")]
    NoSuchVolume(VolId),
    /// The volume exists already.
    #[error("volume {0} exists already")]
    VolumeExists(VolId),
    /// Another volume has that name.
    #[error("volume {vol_id} already has the name {name:?}")]
    NameExists {
        /// The name requested.
        name: String,
        /// Volume that has the name.
        vol_id: VolId,
    },
    /// A value of the request is out of range.
    #[error("{what} is {found}, expected {expected}")]
    BadRequest {
        /// Name of the value.
        what: &'static str,
        /// Value found.
        found: String,
        /// Values allowed.
        expected: String,
    },
    /// Not enough PEBs for the request.
    #[error("{need} LEBs are needed, {available} are available")]
    NoSpace {
        /// LEBs requested.
        need: u32,
        /// LEBs available.
        available: u32,
    },
    /// All volume numbers are taken.
    #[error("all {0} volume numbers are taken")]
    NoFreeVolumeId(u32),
    /// An error of a LEB.
    #[error(transparent)]
    Leb(#[from] LebError),
}

impl UbiError {
    /// Converts it to an error of LEB `lnum`.
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
