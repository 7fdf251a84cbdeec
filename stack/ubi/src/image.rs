//! UBI images as files: reading and diagnosing any dump, and writing what `ubinize` writes.
//!
//! A *dump* is the bytes of a flash or of an image, with or without OOB, complete or truncated. Reading one never fails
//! on its contents: [`Dump::probe`] finds where the PEBs are, [`Scan`] classifies each PEB and resolves each LEB,
//! [`check()`] lists inconsistencies. This diagnostic reader is separate from attach, which stops at the first thing
//! that Linux would refuse, but uses the same [`media`](crate::media) decoders.
//!
//! It works on slices: no file, no clock. Memory beyond the dump is bounded by about 1 KiB per PEB (PEBs are at least
//! [`MIN_PEB_BYTES`]), plus one PEB if OOB must be removed. Time is a few passes over the bytes. A size or count in a
//! header is compared with the dump before anything is allocated or looped over.

pub mod check;
mod contents;
pub mod counters;
mod dump;
mod fastmap;
pub mod ini;
pub mod linux;
pub mod pack;
mod probe;
mod scan;
pub mod wear;
pub mod whole;

pub use check::{Class, Finding, Severity, check};
pub use contents::{Contents, ContentsError};
pub use dump::{Dump, Geometry, Oob};
pub use fastmap::{Fastmap, FastmapFault, FastmapLists, FastmapVolume};
pub use probe::{Overrides, ProbeError};
pub use scan::{BadWhy, HeaderFault, Leb, Loser, LoserWhy, PebCounts, PebState, Scan, Volume, Vtbl, VtblCopy};

/// Smallest PEB size accepted, in bytes.
pub const MIN_PEB_BYTES: u32 = 512;
/// Largest PEB size accepted, in bytes.
pub const MAX_PEB_BYTES: u32 = 16 << 20;

#[cfg(test)]
mod tests;
