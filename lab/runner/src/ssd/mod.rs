//! Runs on a drive: from a built drive and its load to the result.
//!
//! | module | does |
//! |---|---|
//! | [`identify`] | IDENTIFY DEVICE and its log page, or the descriptors of UFS |
//! | [`mod@put`] | puts a load on a block device |
//! | [`mod@run`] | preconditioning without time, then the run |
//! | [`meter`] | latencies, where the time went, the run over time |
//! | [`theory`] | what equations say of a drive, for studies |
//! | [`ufs`] | descriptors and sysfs of a UFS device |

pub mod identify;
pub mod meter;
pub mod put;
pub mod run;
pub mod theory;
pub mod ufs;

pub use run::{Run, SsdRunError};
