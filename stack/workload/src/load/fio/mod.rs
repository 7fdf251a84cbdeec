//! fio job files as workloads of a block device.
//!
//! [`parse`] reads a job file into [`Job`]s; a [`Generator`] is the request stream of one clone of a job; [`FioLoad`]
//! gives the requests their times. `docs/format/fio.md` lists the options, their meaning here and those that are
//! refused. Source: fio's HOWTO (version 3), as facts.
//!
//! This module knows only the size of the device. It reads no file and substitutes no variable.

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
