//! Why a job file is refused.

use thiserror::Error;

/// What is wrong with a job file, and where.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FioError {
    /// The line is no section, option or comment.
    #[error("line {line}: found {found}; expected {expected}")]
    Syntax {
        /// Line, from 1.
        line: u32,
        /// What stands there.
        found: String,
        /// What belongs there.
        expected: &'static str,
    },
    /// No such option.
    #[error("line {line}: unknown option `{option}`; the nearest known one is `{nearest}`")]
    Unknown {
        /// Line, from 1.
        line: u32,
        /// The option.
        option: String,
        /// The known option that takes the fewest edits.
        nearest: &'static str,
    },
    /// fio knows the option, or the value, and this project does not carry it out.
    #[error("line {line}: `{option}` is known but not supported: {why}")]
    Unsupported {
        /// Line, from 1.
        line: u32,
        /// The option, or option and value.
        option: String,
        /// What stands against it.
        why: &'static str,
    },
    /// A value that the option does not take.
    #[error("line {line}: {option}={value}: expected {expected}")]
    Value {
        /// Line, from 1.
        line: u32,
        /// The option.
        option: String,
        /// What was given.
        value: String,
        /// What it takes.
        expected: String,
    },
    /// Options that do not fit together, or not to the device.
    #[error("job `{job}` (line {line}): {why}")]
    Job {
        /// The job's section.
        job: String,
        /// Line of the section, from 1.
        line: u32,
        /// What does not fit.
        why: String,
    },
}

/// At most the first 60 characters: a hostile file shall not fill the screen.
pub(super) fn shown(text: &str) -> String {
    if text.chars().count() <= 60 { text.to_owned() } else { text.chars().take(60).chain("…".chars()).collect() }
}
