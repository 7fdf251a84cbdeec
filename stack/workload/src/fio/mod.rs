//! fio job files as workloads of a block device.
//!
//! [`parse`] reads a job file into [`Job`]s; a [`Generator`] is the stream of requests of one clone of a job; the drivers
//! of [`drive`](crate::drive) put it on a device. What each option means here, and which are refused, stands in
//! `docs/format/fio.md`; the facts are those of fio's HOWTO (version 3).
//!
//! This module knows no time and no device but its size. It reads no file and substitutes no variable.

mod cover;
mod error;
mod generator;
mod job;
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
pub use options::{OPTIONS, Standing, standing};
pub use parse::parse;
