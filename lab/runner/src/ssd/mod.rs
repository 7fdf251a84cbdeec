//! Runs on a drive: from a built drive and its load to what was found.
//!
//! | module | does |
//! |---|---|
//! | [`identify`] | IDENTIFY DEVICE and its log page, or the descriptors of UFS |
//! | [`mod@put`] | puts a load on a block device |
//! | [`mod@run`] | preconditioning without time, then the run |
//! | [`meter`] | latencies, where the time went, the run over time |
//! | [`phases`] | figures of loads that run in phases |
//! | [`outcome`] | the result and its fingerprint |
//! | [`report`] | the result as the page's document |
//! | [`theory`] | what equations say of a drive, for studies |
//! | [`ufs`] | descriptors and sysfs of a UFS device |

pub mod identify;
pub mod meter;
pub mod outcome;
pub mod phases;
pub mod presets;
pub mod put;
pub mod report;
pub mod run;
pub mod theory;
pub mod ufs;

pub use outcome::SsdOutcome;
pub use run::{Run, SsdRunError};
