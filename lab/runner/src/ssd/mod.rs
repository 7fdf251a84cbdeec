//! Experiments on a solid-state drive: from a TOML file to what was found.
//!
//! | module | does |
//! |---|---|
//! | [`experiment`] | the file: strict, laid over a preset, checked |
//! | [`presets`] | drives by name, every figure with its source |
//! | [`compose`] | the file's numbers as the drive's configurations |
//! | [`identify`] | what the drive tells its host: IDENTIFY DEVICE and its log page, or the descriptors of UFS |
//! | [`load`] | what the host asks: fio jobs or a trace |
//! | [`mod@run`] | preconditioning without time, then the run |
//! | [`meter`] | latencies, where the time went, the run over time |
//! | [`phases`] | loads that run in phases: iozone's threads, app start-up |
//! | [`outcome`] | the result and its fingerprint |
//! | [`report`] | the result as the page's document |
//! | [`theory`] | what equations say of a drive, for studies |
//! | [`ufs`] | Host Performance Booster and WriteBooster, and what a host reads of them |
//!
//! Knows the drive and the loads. Does not know files: a trace comes as records, a job file as text.

pub mod compose;
pub mod experiment;
pub mod identify;
pub mod load;
pub mod meter;
pub mod outcome;
pub mod phases;
pub mod presets;
pub mod report;
pub mod run;
pub mod theory;
pub mod ufs;

pub use experiment::{SsdExperiment, is_ssd};
pub use outcome::SsdOutcome;
pub use run::{SsdRunError, run, run_on};
