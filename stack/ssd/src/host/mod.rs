//! Host-side drivers: layers over a [`BlockDevice`](sim::seam::BlockDevice) that the drive does not know of.

pub mod hpb;

pub use hpb::Hpb;
