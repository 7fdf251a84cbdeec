//! Host Performance Booster, device side: a drive whose L2P mapping table is cached in host memory.
//!
//! A UFS device has little memory and keeps its L2P mapping table in flash. With HPB the host caches parts of that
//! table and sends the entry of a page with the read, so that the device need not look it up. Source: JESD220-3 (1.0)
//! and JESD220-3A (2.0), as far as they can be derived from the Linux driver (6.1, `ufshpb`).
//!
//! | module | contents |
//! |---|---|
//! | [`config`] | versions, modes, limits, parameters, all with the defaults of Linux |
//! | [`layout`] | logical units, regions and sub-regions |
//! | [`entry`] | the 8-byte HPB entry of a page |
//! | [`commands`] | HPB commands of the host: the interface between a device and [`host::Hpb`](crate::host::Hpb) |
//! | [`advisor`] | which sub-regions the device recommends to activate |
//! | [`stats`] | counters that the host cannot read |
//! | [`cdb`] | CDBs of HPB READ, HPB READ BUFFER and HPB WRITE BUFFER |
//! | [`response`] | HPB recommendation in the data segment of a response |
//!
//! Knows pages and sub-regions. Does not know time or flash: the drive ([`Ssd`](crate::Ssd)) executes the commands in
//! virtual time and checks each entry against its mapping. The host's driver is in [`host::hpb`](crate::host::hpb).

pub mod advisor;
pub mod cdb;
pub mod commands;
pub mod config;
pub mod entry;
pub mod layout;
pub mod response;
pub mod stats;

pub use advisor::{Advice, Advisor};
pub use cdb::{HpbCommand, HpbRead, HpbReadBuffer, HpbWriteBuffer};
pub use commands::{HpbDevice, MAP_COMMANDS, MapCommand, ReadCommand};
pub use config::{Control, HpbConfig, LuConfig, Params, Version};
pub use response::{Operation, Recommendation, Subregion, UpToTwo};

/// `wHPBVersion` of HPB 1.0: an HPB READ covers a single block.
pub const VERSION_1_0: u16 = 0x0100;
/// `wHPBVersion` of HPB 2.0: longer reads, and pre-requests that carry the entries of a read.
pub const VERSION_2_0: u16 = 0x0200;
