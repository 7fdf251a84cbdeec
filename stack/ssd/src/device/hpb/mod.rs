//! Host Performance Booster, the device's half: a drive whose mapping table is cached in the host's memory.
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
//! | [`commands`] | what the host asks: the seam between a device and [`host::Hpb`](crate::host::Hpb) |
//! | [`advisor`] | which sub-regions the device recommends |
//! | [`stats`] | counters that only the device has |
//! | [`cdb`] | commands as bytes: HPB READ, HPB READ BUFFER, HPB WRITE BUFFER |
//! | [`response`] | a recommendation as bytes of a response |
//!
//! Knows pages and sub-regions. Does not know time or flash: the drive ([`Ssd`](crate::Ssd)) runs the commands in virtual
//! time and checks each entry against its mapping. The driver is in [`host::hpb`](crate::host::hpb).

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

/// `wHPBVersion` of version 1.0: HPB READ of a single block.
pub const VERSION_1_0: u16 = 0x0100;
/// `wHPBVersion` of version 2.0: longer reads, and entries sent before them.
pub const VERSION_2_0: u16 = 0x0200;
