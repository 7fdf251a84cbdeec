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
//! use nand::{Array, ArrayConfig, BusMode, Bytes, CellTimes, Timing, by_nandsim_id};
//! use sim::{Cx, Ns, Peb, seam::{Flash, Payload}};
//!
//! let cells = CellTimes { read: Ns::from_us(40), program: Ns::from_us(250), erase: Ns::from_ms(2) };
//! let timing = Timing::onfi(BusMode::Sdr(4), cells);
//! let config = ArrayConfig { timing, ..by_nandsim_id(&[0xec, 0xf1, 0x00, 0x95])?.config() };
//! let mut array = Array::new(config, Bytes::new());
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
pub mod nandsim_id;
pub mod oob_ecc;
pub mod store;
pub mod timing;
pub mod wearout;

pub use array::{Array, Reads};
pub use config::{ArrayConfig, ConfigError, HostPrice, Layout, NorRule, PageOrder, Rules};
pub use cut::{CutAt, Pairing, PowerCut, PrefixBytes, Tear};
pub use ecc::Ecc;
pub use fault::{FactoryBad, FaultCounts, FaultPlan};
pub use image::ImageError;
pub use nandsim::NandsimFaults;
pub use nandsim_id::{NANDSIM_DEFAULT_ID, NandsimChip, UnknownId, by_nandsim_id};
pub use oob_ecc::{Code, PageEcc};
pub use sim::seam::{Geometry, Medium};
pub use store::{AnyStore, Blank, Buffer, Bytes, Mapped, Overlay, Sparse, Store, Tags};
pub use timing::{BusMode, CellTimes, Costs, NandsimDelays, Timing};
pub use wearout::{BitErrors, Lifetime, WearOut};

#[cfg(test)]
mod tests;
