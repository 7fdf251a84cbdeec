//! Why an operation on UBIFS fails.

use sim::Lnum;
use sim::seam::LebError;

use super::media::MediaError;
use crate::compress::DecompressError;

/// Error of an operation on a UBIFS file system.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UbifsError {
    /// The volume failed.
    #[error(transparent)]
    Leb(#[from] LebError),
    /// The volume does not begin with a super block.
    #[error("no UBIFS: LEB 0 does not begin with a super block ({0})")]
    NoSuperBlock(MediaError),
    /// The format needs a feature that is not supported.
    #[error("{what}, which is not supported")]
    Unsupported {
        /// What the super block asks for.
        what: String,
    },
    /// A field of the super block does not fit the volume, or the others.
    #[error("super block: {what} = {found}, expected {expected}")]
    SuperBlock {
        /// Name of the field.
        what: &'static str,
        /// Value found.
        found: u64,
        /// What is expected.
        expected: String,
    },
    /// No valid master node, or two that a power cut cannot explain.
    #[error("master nodes (LEBs 1 and 2): {what}")]
    Master {
        /// What is wrong.
        what: String,
    },
    /// Bytes are not the node that a branch, the master node or the log says is there.
    #[error("LEB {lnum}, offset {offset}: {what}: {error}")]
    Node {
        /// LEB of the node.
        lnum: Lnum,
        /// Its offset in bytes.
        offset: u32,
        /// What is expected there.
        what: &'static str,
        /// What is wrong with it.
        error: MediaError,
    },
    /// The structures contradict each other in a way that a power cut does not explain.
    #[error("LEB {lnum}, offset {offset}: {what}")]
    Corrupt {
        /// LEB.
        lnum: Lnum,
        /// Offset in bytes.
        offset: u32,
        /// What is wrong.
        what: String,
    },
    /// Data cannot be decompressed.
    #[error("LEB {lnum}, offset {offset}: data of inode {ino}, block {block}: {error}")]
    Data {
        /// LEB of the data node.
        lnum: Lnum,
        /// Its offset in bytes.
        offset: u32,
        /// The file.
        ino: u32,
        /// The block.
        block: u32,
        /// What is wrong with it.
        error: DecompressError,
    },
    /// There is no space for the change.
    #[error("no space left")]
    NoSpace,
    /// There may be space for the change once a cache above has written pages back.
    #[error("no space left before pages are written back")]
    WriteBackFirst,
    /// The file system became read-only.
    #[error("read-only: {why}")]
    ReadOnly {
        /// Why.
        why: &'static str,
    },
    /// An inode that an entry names does not exist.
    #[error("inode {ino} does not exist")]
    NoInode {
        /// Its number.
        ino: u32,
    },
}

impl UbifsError {
    pub(crate) fn corrupt(lnum: u32, offset: u32, what: impl Into<String>) -> UbifsError {
        UbifsError::Corrupt { lnum: Lnum(lnum), offset, what: what.into() }
    }

    pub(crate) fn node(lnum: u32, offset: u32, what: &'static str, error: MediaError) -> UbifsError {
        UbifsError::Node { lnum: Lnum(lnum), offset, what, error }
    }
}

/// Result of an operation on a UBIFS file system.
pub type Result<T> = std::result::Result<T, UbifsError>;
