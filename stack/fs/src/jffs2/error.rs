//! What can be wrong with a flash that is mounted.

use sim::seam::{FlashError, FsError, LebError};
use thiserror::Error;

/// Why a flash cannot be mounted, or an operation failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Jffs2Error {
    /// The flash failed, or power was lost.
    #[error(transparent)]
    Flash(#[from] FlashError),
    /// There is data, and none of it is a node. Linux refuses to erase it.
    #[error("no JFFS2: found {blocks} eraseblocks with data and no node in them")]
    NoNodes {
        /// Blocks with data.
        blocks: u32,
    },
    /// A node of a type that Linux does not know, and that says that no such file system may be mounted, or not be written.
    #[error("eraseblock {block}, offset {offset}: a node of type {node_type:#06x}, with which the file system {may}")]
    Feature {
        /// Block of the node.
        block: u32,
        /// Its offset.
        offset: u32,
        /// Its type.
        node_type: u16,
        /// What may not be done.
        may: &'static str,
    },
    /// The flash has fewer blocks than a file system needs, or more bytes than its numbers can count.
    #[error("found {blocks} eraseblocks of {bytes} bytes, expected {expected}")]
    Geometry {
        /// Blocks.
        blocks: u32,
        /// Bytes of one.
        bytes: u32,
        /// What would do.
        expected: &'static str,
    },
    /// A node is not what it was when it was found.
    #[error("eraseblock {block}, offset {offset}: {what}")]
    Corrupt {
        /// Block of the node.
        block: u32,
        /// Its offset.
        offset: u32,
        /// What was found, and what was expected.
        what: String,
    },
    /// What an operation answers: Linux's error numbers.
    #[error(transparent)]
    Fs(FsError),
}

/// A result of the file system.
pub type Result<T, E = Jffs2Error> = std::result::Result<T, E>;

impl Jffs2Error {
    pub(super) fn corrupt(block: u32, offset: u32, what: impl Into<String>) -> Jffs2Error {
        Jffs2Error::Corrupt { block, offset, what: what.into() }
    }

    /// Whether power was lost.
    pub fn is_power_loss(&self) -> bool {
        matches!(self, Jffs2Error::Flash(FlashError::PowerLost))
            || matches!(self, Jffs2Error::Fs(error) if error.is_power_loss())
    }
}

impl From<FsError> for Jffs2Error {
    fn from(error: FsError) -> Jffs2Error {
        Jffs2Error::Fs(error)
    }
}

impl From<Jffs2Error> for FsError {
    fn from(error: Jffs2Error) -> FsError {
        match error {
            Jffs2Error::Fs(error) => error,
            Jffs2Error::Flash(FlashError::Volume(error)) => FsError::Medium(*error),
            Jffs2Error::Flash(error) => FsError::Medium(LebError::Flash(error)),
            Jffs2Error::Corrupt { block, offset, what } => FsError::Node { peb: sim::Peb(block), offset, what },
            other => FsError::Node { peb: sim::Peb(0), offset: 0, what: other.to_string() },
        }
    }
}
