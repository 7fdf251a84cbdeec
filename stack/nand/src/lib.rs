//! NAND and NOR arrays: the rules of the medium, its timing, its wear-out and its faults, over a choice of stores.
//!
//! [`Array`] implements [`sim::seam::Flash`] over a [`Store`]: [`Bytes`] (sparse memory, cheap to clone), [`Mapped`] (a
//! caller's buffer, for example a memory-mapped file), [`Overlay`] (changes over a read-only image) or [`Tags`], which
//! keeps no contents: the array itself knows how far each block is programmed and how often it was erased.
//!
//! This crate knows cells, pages, blocks, dies and buses. It does not know what the bytes mean, which block to use
//! next, what replaces a bad block, or any file of the host.
//!
//! ```
//! use nand::{Array, ArrayConfig, Bytes, presets};
//! use sim::{Cx, Peb, seam::{Flash, Payload}};
//!
//! let part = presets::by_name("K9F1G08U0D")?;
//! let mut array = Array::new(part.config(), Bytes::new());
//! let mut cx = Cx::new();
//! array.program(&mut cx, Peb(7), 0, Payload::Bytes(&[0xa5; 2048]))?;
//! assert!(cx.now() >= sim::Ns::from_us(200));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod array;
pub mod config;
pub mod cut;
pub mod ecc;
pub mod fault;
pub mod image;
pub mod nandsim;
pub mod presets;
pub mod store;
pub mod timing;
pub mod wearout;

pub use array::{Array, Reads};
pub use config::{ArrayConfig, ConfigError, HostPrice, Layout, NorRule, PageOrder, Rules};
pub use cut::{CutAt, PowerCut, PrefixBytes, Tear};
pub use ecc::Ecc;
pub use fault::{FactoryBad, FaultCounts, FaultPlan};
pub use image::ImageError;
pub use nandsim::NandsimFaults;
pub use presets::Part;
pub use sim::seam::{Geometry, Medium};
pub use store::{Bytes, Mapped, Overlay, Store, Tags};
pub use timing::{BusMode, CellTimes, Costs, NandsimDelays, Timing};
pub use wearout::{BitErrors, Lifetime, WearOut};

#[cfg(test)]
mod tests;
