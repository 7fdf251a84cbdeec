//! UBI images as files: reading and diagnosing any dump, and writing what `ubinize` writes.
//!
//! A *dump* is the bytes of a flash or of an image, with or without OOB, complete or truncated. Reading one never fails
//! on its contents: [`Dump::probe`] finds where the PEBs are, [`Scan`] classifies each PEB and resolves each LEB,
//! [`check()`] lists inconsistencies. This diagnostic reader is separate from attach, which stops at the first thing
//! that Linux would refuse, but uses the same [`media`](crate::media) decoders.
//!
//! It works on slices, or on an [`Input`] that is read piece by piece: no file, no clock. Memory beyond the dump is
//! bounded by about 1 KiB per PEB (PEBs are at least [`MIN_PEB_BYTES`]), plus the piece that is looked at: one PEB or
//! 1 MiB. Time is a few passes over the bytes. A size or count in a header is compared with the dump before anything is
//! allocated or looped over.

mod bad;
pub mod check;
mod compare;
mod contents;
pub mod counters;
mod devices;
mod dump;
mod fastmap;
pub mod ini;
mod leb_volume;
pub mod linux;
pub mod pack;
mod peb_list;
mod probe;
mod scan;
mod survey;
pub mod wear;
pub mod whole;

pub use bad::{BadBlocks, KnownBad, LeftOut, NoSuchPeb};
pub use check::{Class, Finding, Severity, check};
pub use compare::{Aspect, Difference, Extent, compare};
pub use contents::{Contents, ContentsError};
pub use devices::FoundDevice;
pub use dump::{Dump, Geometry, Input, Oob};
pub use fastmap::{Fastmap, FastmapFault, FastmapLists, FastmapVolume};
pub use leb_volume::ImageVolume;
pub use peb_list::PebList;
pub use probe::{Overrides, ProbeError};
pub use scan::{BadWhy, HeaderFault, Leb, Loser, LoserWhy, PebCounts, PebState, Scan, Volume, Vtbl, VtblCopy};

/// Smallest PEB size accepted, in bytes.
pub const MIN_PEB_BYTES: u32 = 512;
/// Largest PEB size accepted, in bytes.
pub const MAX_PEB_BYTES: u32 = 16 << 20;
/// Most PEBs accepted: 64 GiB of PEBs of 16 KiB.
pub const MAX_PEBS: u32 = 1 << 22;

#[cfg(test)]
mod tests;
