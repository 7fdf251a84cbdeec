//! UFS on the wire: packets (UPIU), queries, descriptors, and the SCSI commands that a host uses.
//!
//! All numbers are big-endian. A decoder takes what is long enough and passes over what stands behind it; it never
//! panics. What a format reserves is written as zeroes; in a UPIU or descriptor it is passed over when read, for a
//! later version may use it (each such format has `MEANT`, the mask of the bits that it carries), in a CDB it is
//! refused, as a device does with CHECK CONDITION.
//!
//! Sources: JESD220 (3.1; where a later one moved a field the text says so), SBC-3 for the CDBs, read in the names,
//! offsets and values of Linux 6.1 `include/ufs/ufs.h`, EDK II `Ufs.h` and Fuchsia's UFS driver. A comment marked
//! *recalled* stands for what none of them shows.
//!
//! Knows bytes, and what a device answers to queries. Does not know time, queues or who asked.
//!
//! | module | formats |
//! |---|---|
//! | [`upiu`] | header, Command, Response, Query Request, Query Response |
//! | [`query`] | operations, response codes, flags, attributes |
//! | [`descriptor`] | device, geometry, unit |
//! | [`cdb`] | READ(10), WRITE(10), UNMAP and its list, SYNCHRONIZE CACHE(10) |
//! | [`sense`] | sense data of a Response UPIU |
//! | [`device`] | the device's side of queries: descriptors, flags and attributes as they stand |

pub mod cdb;
pub mod descriptor;
pub mod device;
pub mod query;
pub mod sense;
pub mod upiu;
pub(crate) mod wire;

pub use cdb::ScsiCommand;
pub use descriptor::{DeviceDescriptor, GeometryDescriptor, HpbControl, LuEnable, UnitDescriptor, WriteBoosterType};
pub use device::{Answer, Configuration, Device, Unit, WriteBooster};
pub use query::{Attribute, DescriptorIdn, Flag, FlushStatus, QueryCode, QueryOpcode};
pub use sense::{Sense, SenseKey};
pub use upiu::{CommandUpiu, Nexus, Query, QueryRequest, QueryResponse, ResponseUpiu, ScsiStatus};
pub use wire::{Note, WireError};
