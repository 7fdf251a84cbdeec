//! UBI: logical eraseblocks on raw flash, on the exact on-flash format of Linux.
//!
//! Knows PEBs, LEBs and volumes; knows no file, no host file system and no wall clock. The same code runs on stores
//! that keep bytes (images, mounts, power cuts) and on stores that keep none (wear over simulated weeks).
//!
//! Read [`media`] for the format, [`wl`] for where a PEB can be, then [`Ubi`]. [`block`] makes a block device of a volume.

pub mod attach;
mod background;
pub mod block;
mod check;
mod config;
mod device;
mod eba;
mod error;
mod fastmap;
pub mod image;
pub mod layout;
pub mod media;
mod pools;
pub mod record;
mod stats;
mod volume;
pub mod wl;

pub use config::{Config, Policy, user_pool_max};
pub use device::{AttachFailure, Background, EBA_RESERVED_PEBS, KnownBad, Ubi, WL_RESERVED_PEBS};
pub use error::UbiError;
pub use stats::{FastmapTrigger, Stats};
pub use volume::{Volume, VolumeInfo, VolumeRequest, VolumeSize};
