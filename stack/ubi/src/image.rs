//! UBI images as files: read everything and report, and write what `ubinize` writes.
//!
//! A *dump* is the bytes of a flash or of an image, with or without OOB, whole or cut short. This module never fails
//! on what it finds in one: [`Dump::probe`] finds where the PEBs are, [`Scan`] classifies each PEB and resolves each
//! LEB, [`check()`] turns what is inconsistent into findings. It is the diagnostic reader, apart from the attach of the
//! running layer (which stops at the first thing that Linux would refuse), and stands on the same
//! [`media`](crate::media) decoders.
//!
//! It knows slices: no file, no clock. Memory beyond the dump's own bytes is bounded by about 1 KiB for each PEB
//! (and PEBs are at least [`MIN_PEB_BYTES`]), plus one PEB where OOB must be stripped; time by a few passes over the
//! bytes. No size or count that a header claims is ever allocated or looped over before it is compared with what the
//! dump holds.

pub mod check;
mod contents;
mod dump;
mod fastmap;
pub mod ini;
pub mod pack;
mod probe;
mod scan;
pub mod wear;

pub use check::{Class, Finding, Severity, check};
pub use contents::{Contents, ContentsError};
pub use dump::{Dump, Geometry, Oob};
pub use fastmap::{Fastmap, FastmapFault, FastmapLists, FastmapVolume};
pub use probe::{Overrides, ProbeError};
pub use scan::{BadWhy, HeaderFault, Leb, Loser, LoserWhy, PebCounts, PebState, Scan, Volume, Vtbl, VtblCopy};

/// Smallest PEB that is believed.
pub const MIN_PEB_BYTES: u32 = 512;
/// Largest PEB that is believed.
pub const MAX_PEB_BYTES: u32 = 16 << 20;

#[cfg(test)]
mod tests;
