//! Why a job file is refused.

use thiserror::Error;

/// An error in a job file, with its line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FioError {
    /// The line is neither section, option nor comment.
    #[error("line {line}: found {found}; expected {expected}")]
    Syntax {
        /// Line number, from 1.
        line: u32,
        /// Text of the line.
        found: String,
        /// What is allowed there.
        expected: &'static str,
    },
    /// fio has no such option.
    #[error("line {line}: unknown option `{option}`; the nearest known one is `{nearest}`")]
    Unknown {
        /// Line number, from 1.
        line: u32,
        /// Name of the option.
        option: String,
        /// The known option at the smallest edit distance.
        nearest: &'static str,
    },
    /// fio knows the option or value, but it is not supported here.
    #[error("line {line}: `{option}` is known but not supported: {why}")]
    Unsupported {
        /// Line number, from 1.
        line: u32,
        /// The option, or option and value.
        option: String,
        /// Why it is not supported.
        why: &'static str,
    },
    /// A value that the option does not allow.
    #[error("line {line}: {option}={value}: expected {expected}")]
    Value {
        /// Line number, from 1.
        line: u32,
        /// Name of the option.
        option: String,
        /// The value.
        value: String,
        /// Values allowed.
        expected: String,
    },
    /// Options that contradict each other, or do not fit the device.
    #[error("job `{job}` (line {line}): {why}")]
    Job {
        /// Name of the job.
        job: String,
        /// Line number of its section, from 1.
        line: u32,
        /// The contradiction.
        why: String,
    },
}

/// At most the first 60 characters, so that a hostile file cannot flood the screen.
pub(super) fn shown(text: &str) -> String {
    if text.chars().count() <= 60 { text.to_owned() } else { text.chars().take(60).chain("…".chars()).collect() }
}
