//! Composes an experiment from the stack's layers, runs it and measures it.
//!
//! Knows every layer; writes no file. Files, terminals and progress bars belong to the command line.

pub mod export;
pub mod flame;
pub mod measure;
pub mod parts;
pub mod report;
pub mod run;
pub mod schema;
pub mod subject;
pub mod sweep;
pub mod trace_report;
pub mod trace_svg;

/// Version of the model: raised whenever a modelled number changes, with an entry in the changelog.
pub const MODEL_VERSION: u32 = 15;

/// Version of what Linux as a guest sees, its clock and the flash under it: raised, with [`MODEL_VERSION`], whenever the result
/// of a guest on raw flash moves. Nothing of our UBI and file systems is in it.
pub const GUEST_MODEL_VERSION: u32 = 5;
