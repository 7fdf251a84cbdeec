//! What a guest's job did.

use serde::{Deserialize, Serialize};

/// A line that the job wrote to `/dev/nandlab-mark`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Virtual time since the guest started, in nanoseconds.
    pub at_ns: u64,
    /// The line.
    pub text: String,
}

/// The guest of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestOutcome {
    /// Version of its kernel, and hash of its configuration and driver.
    pub linux: String,
    /// Virtual time at which the measurement began, after boot and setup, in nanoseconds.
    pub began_ns: u64,
    /// Virtual time at which the job ended, the file system unmounted, in nanoseconds; `None` if the run ended before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_ns: Option<u64>,
    /// Exit code of the job; `None` if the run ended before it.
    pub exit: Option<i32>,
    /// Output of setup and job, its end if it is long.
    pub output: String,
    /// Marks of the job.
    pub marks: Vec<Mark>,
    /// First operation that broke a rule of the raw flash, as a second program of a page: it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Console of its kernel, its end if it is long.
    pub console: String,
}
