//! Host Performance Booster: the drive's mapping table, cached in the host's memory.
//!
//! A UFS device has little memory and keeps its mapping table (L2P map) in flash. With HPB the host keeps parts of that
//! table and hands the entry of a page over with the read, so that the device need not look it up. Source: JESD220-3
//! (1.0), JESD220-3A (2.0), as far as the Linux driver (6.1, `ufshpb`) shows them.
//!
//! | module | is |
//! |---|---|
//! | [`config`] | versions, modes, limits, parameters, all with the defaults of Linux |
//! | [`layout`] | logical units, regions and sub-regions |
//! | [`entry`] | the 8 bytes that the host keeps for a page |
//! | [`state`] | states of logical units, regions and sub-regions, and their legal moves |
//! | [`host`] | the driver's side: what is active, what is dirty, what is loaded next |
//! | [`device`] | the device's side: what it advises, and what it counts |
//! | [`stats`] | what both have counted, by the names of sysfs |
//! | [`cdb`] | commands as bytes: HPB READ, HPB READ BUFFER, HPB WRITE BUFFER |
//! | [`response`] | what a device advises, as bytes of a response |
//! | [`wire`] | what the two sides say to each other as those bytes, and back |
//!
//! Both sides know pages and sub-regions. Neither knows time but the host its timeouts, nor flash: the drive
//! ([`Ssd`](crate::Ssd)) carries commands from one to the other, in virtual time, and holds each entry against its
//! mapping.

pub mod cdb;
pub mod config;
pub mod device;
pub mod entry;
pub mod host;
pub mod layout;
pub mod response;
pub mod state;
pub mod stats;
pub mod wire;

pub use cdb::{HpbCommand, HpbRead, HpbReadBuffer, HpbWriteBuffer};
pub use config::{Control, HpbConfig, LuConfig, Params, Version};
pub use response::{Operation, Recommendation, Subregion, UpToTwo};

/// `wHPBVersion` of version 1.0: HPB READ of a single block.
pub const VERSION_1_0: u16 = 0x0100;
/// Of version 2.0: longer ones, and entries sent before them.
pub const VERSION_2_0: u16 = 0x0200;
