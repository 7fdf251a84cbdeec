//! What a host's driver adds to a block device: layers over [`BlockDevice`](sim::seam::BlockDevice) that a drive knows
//! nothing of.

pub mod hpb;

pub use hpb::Hpb;
