//! fio job files as workloads of a block device.
//!
//! [`parse`] reads a job file into [`Job`]s; a [`Generator`] is the stream of requests of one clone of a job; [`FioLoad`]
//! gives the streams their times. What each option means here, and which are refused, stands in
//! `docs/format/fio.md`; the facts are those of fio's HOWTO (version 3).
//!
//! This module knows of the device its size alone. It reads no file and substitutes no variable.

mod cover;
mod error;
mod generator;
mod job;
mod load;
mod options;
mod parse;
mod place;
#[cfg(test)]
mod tests;
mod value;

pub use error::FioError;
pub use generator::Generator;
pub use job::{
    DIRECTIONS, Distribution, Extent, Job, MAX_BLOCK_BYTES, MAX_CLONES, MAX_DEPTH, Mix, Rate, Sizes, Split, ThinkCount,
    Zone, ZoneLen,
};
pub use load::FioLoad;
pub use options::{OPTIONS, Standing, standing};
pub use parse::parse;
