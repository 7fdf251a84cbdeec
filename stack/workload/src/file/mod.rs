//! Loads of files over the seam of file systems: PostMark, the `fileio` test of sysbench, fio jobs, traces of strace, and
//! devices that log or that are switched off.
//!
//! Like the programs, they go on when a call fails, which the step tells; whoever runs them decides what a failure means.

pub mod calls;
mod contents;
pub mod fio;
pub mod logger;
pub mod postmark;
pub mod reboots;
pub mod strace;
pub mod sysbench;

use contents::Contents;
use sim::seam::FsError;

/// What a step did to a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOp {
    /// Made a file, and wrote it if `bytes` is above 0.
    Create,
    /// Removed a file.
    Remove,
    /// Made a directory.
    Mkdir,
    /// Removed a directory.
    Rmdir,
    /// Read.
    Read,
    /// Wrote into a file.
    Write,
    /// Wrote at the end of a file.
    Append,
    /// Synchronized a file.
    Fsync,
    /// Synchronized the data of a file.
    Fdatasync,
    /// Synchronized everything.
    Sync,
    /// Opened a file, and made or emptied it if that was asked for.
    Open,
    /// Closed a file.
    Close,
    /// Gave a file another size.
    Truncate,
    /// Renamed.
    Rename,
}

/// A step of a load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileStep {
    /// What was done.
    pub op: FileOp,
    /// Number of the file or directory, which is in its name.
    pub file: u32,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Bytes read or written.
    pub bytes: u64,
    /// Reads or writes that this took.
    pub calls: u32,
    /// The first failure.
    pub result: Result<(), FsError>,
}
