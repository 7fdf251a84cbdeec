//! Why an operation on a file system fails.

use thiserror::Error;

use super::{FlashError, Ino, LebError};
use crate::{Lnum, Peb};

/// Why an operation failed: Linux's error numbers by name, with the place where that helps.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FsError {
    /// `EPERM`: the operation is not for this kind of inode, such as a hard link to a directory.
    #[error("inode {ino}: operation not permitted")]
    NotPermitted {
        /// The inode.
        ino: Ino,
    },
    /// `ENOENT`: the directory has no such name, or is itself removed.
    #[error("directory {dir}: no such entry")]
    NoEntry {
        /// The directory.
        dir: Ino,
    },
    /// `EEXIST`: the name or the attribute exists.
    #[error("inode {ino}: the name exists")]
    Exists {
        /// The directory, or the host of the attribute.
        ino: Ino,
    },
    /// `ENOTDIR`: a directory is needed.
    #[error("inode {ino}: not a directory")]
    NotDir {
        /// What is none.
        ino: Ino,
    },
    /// `EISDIR`: a directory is refused.
    #[error("inode {ino}: is a directory")]
    IsDir {
        /// The directory.
        ino: Ino,
    },
    /// `ENOTEMPTY`: the directory to be removed or replaced has entries.
    #[error("directory {dir}: not empty")]
    NotEmpty {
        /// The directory.
        dir: Ino,
    },
    /// `EBUSY`: the root can be neither removed nor renamed.
    #[error("inode {ino}: busy")]
    Busy {
        /// The inode.
        ino: Ino,
    },
    /// `EINVAL`.
    #[error("invalid: {why}")]
    Invalid {
        /// What is.
        why: &'static str,
    },
    /// `EFBIG`: beyond the largest file.
    #[error("inode {ino}: {bytes} bytes are more than a file can have")]
    FileTooBig {
        /// The file.
        ino: Ino,
        /// The size that it would have.
        bytes: u64,
    },
    /// `ENOSPC`: no space for the change, which is not made.
    #[error("no space left")]
    NoSpace,
    /// `EROFS`: mounted for reading only, or made so by an error.
    #[error("read-only: {why}")]
    ReadOnly {
        /// Why.
        why: &'static str,
    },
    /// `EMLINK`: the inode has as many names as the format can count.
    #[error("inode {ino}: too many links")]
    TooManyLinks {
        /// The inode.
        ino: Ino,
    },
    /// `ERANGE`: the value of an attribute is too long.
    #[error("a value of {bytes} bytes is too long")]
    Range {
        /// Its length.
        bytes: usize,
    },
    /// `ENAMETOOLONG`: a name above [`NAME_MAX`](super::NAME_MAX), or a target of a symbolic link that is too long.
    #[error("a name of {bytes} bytes is too long")]
    NameTooLong {
        /// Its length.
        bytes: usize,
    },
    /// `ELOOP`: a symbolic link where none is followed.
    #[error("inode {ino}: too many symbolic links")]
    Loop {
        /// The symbolic link.
        ino: Ino,
    },
    /// `ENODATA`: the inode has no such attribute.
    #[error("inode {ino}: no such attribute")]
    NoAttr {
        /// The inode.
        ino: Ino,
    },
    /// `EOPNOTSUPP`: the file system does not have this operation or this kind of attribute.
    #[error("not supported: {what}")]
    NotSupported {
        /// The operation.
        what: &'static str,
    },
    /// `ESTALE`: there is no inode of this number.
    #[error("inode {ino}: does not exist")]
    Stale {
        /// The number.
        ino: Ino,
    },
    /// `EUCLEAN`: what is on the medium breaks the rules of the format.
    #[error("LEB {lnum}, offset {offset}: {what}")]
    Corrupt {
        /// LEB of what is wrong.
        lnum: Lnum,
        /// Its offset in the LEB, in bytes.
        offset: u32,
        /// What was found and what was expected.
        what: String,
    },
    /// `EUCLEAN`: as `Corrupt`, of a file system on raw flash.
    #[error("PEB {peb}, offset {offset}: {what}")]
    Node {
        /// Block of what is wrong.
        peb: Peb,
        /// Its offset in the block, in bytes.
        offset: u32,
        /// What was found and what was expected.
        what: String,
    },
    /// The medium failed, or power was lost.
    #[error(transparent)]
    Medium(#[from] LebError),
}

impl FsError {
    /// Linux's error number, as on x86 and ARM.
    pub fn errno(&self) -> i32 {
        const EIO: i32 = 5;
        const ENOSPC: i32 = 28;
        const EROFS: i32 = 30;
        match self {
            FsError::NotPermitted { .. } => 1,
            FsError::NoEntry { .. } => 2,
            FsError::Busy { .. } => 16,
            FsError::Exists { .. } => 17,
            FsError::NotDir { .. } => 20,
            FsError::IsDir { .. } => 21,
            FsError::Invalid { .. } => 22,
            FsError::FileTooBig { .. } => 27,
            FsError::NoSpace | FsError::Medium(LebError::NoSpace { .. }) => ENOSPC,
            FsError::ReadOnly { .. } | FsError::Medium(LebError::ReadOnly { .. }) => EROFS,
            FsError::TooManyLinks { .. } => 31,
            FsError::Range { .. } => 34,
            FsError::NameTooLong { .. } => 36,
            FsError::NotEmpty { .. } => 39,
            FsError::Loop { .. } => 40,
            FsError::NoAttr { .. } => 61,
            FsError::NotSupported { .. } => 95,
            FsError::Stale { .. } => 116,
            FsError::Corrupt { .. } | FsError::Node { .. } => 117,
            FsError::Medium(_) => EIO,
        }
    }

    /// Whether power was lost, which nobody retries.
    pub fn is_power_loss(&self) -> bool {
        matches!(self, FsError::Medium(LebError::Flash(FlashError::PowerLost)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of Linux's `asm-generic/errno-base.h` and `errno.h`.
    #[test]
    fn error_numbers_are_those_of_linux() {
        let ino = Ino(1);
        let medium = |error| FsError::Medium(error);
        let table = [
            (FsError::NotPermitted { ino }, 1),
            (FsError::NoEntry { dir: ino }, 2),
            (medium(LebError::Flash(FlashError::PowerLost)), 5),
            (medium(LebError::Flash(FlashError::BadBlock { peb: Peb(1) })), 5),
            (FsError::Busy { ino }, 16),
            (FsError::Exists { ino }, 17),
            (FsError::NotDir { ino }, 20),
            (FsError::IsDir { ino }, 21),
            (FsError::Invalid { why: "" }, 22),
            (FsError::FileTooBig { ino, bytes: 1 }, 27),
            (FsError::NoSpace, 28),
            (medium(LebError::NoSpace { lnum: Lnum(1) }), 28),
            (FsError::ReadOnly { why: "" }, 30),
            (medium(LebError::ReadOnly { lnum: Lnum(1), why: "" }), 30),
            (FsError::TooManyLinks { ino }, 31),
            (FsError::Range { bytes: 1 }, 34),
            (FsError::NameTooLong { bytes: 1 }, 36),
            (FsError::NotEmpty { dir: ino }, 39),
            (FsError::Loop { ino }, 40),
            (FsError::NoAttr { ino }, 61),
            (FsError::NotSupported { what: "" }, 95),
            (FsError::Stale { ino }, 116),
            (FsError::Corrupt { lnum: Lnum(1), offset: 0, what: String::new() }, 117),
            (FsError::Node { peb: Peb(1), offset: 0, what: String::new() }, 117),
        ];
        for (error, errno) in table {
            assert_eq!(error.errno(), errno, "{error:?}");
        }
        assert!(medium(LebError::Flash(FlashError::PowerLost)).is_power_loss());
        assert!(!medium(LebError::NoSpace { lnum: Lnum(1) }).is_power_loss());
    }
}
