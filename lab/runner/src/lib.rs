//! Composes an experiment from the stack's layers, runs it, measures, and judges studies by it.
//!
//! Knows every layer and no path to write: files, terminals and progress bars belong to the command line.

pub mod cuts;
pub mod measure;
pub mod parts;
pub mod report;
pub mod run;
pub mod schema;
pub mod ssd;
pub mod study;
pub mod subject;
pub mod trace_report;
pub mod wear;

/// The model's version: raised whenever a modelled number moves, with an entry in the changelog.
pub const MODEL_VERSION: u32 = 2;
