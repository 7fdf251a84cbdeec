//! UFS on the wire: UPIUs, queries, descriptors, and the SCSI commands that a host uses.
//!
//! All numbers are big-endian. A decoder ignores bytes after the end of its format; it never panics. Reserved fields
//! are written as zero. In a UPIU or descriptor they are ignored when read, because a later version may use them;
//! `MEANT` of such a format is the mask of the bits that it defines. In a CDB they are rejected, for which a device
//! returns CHECK CONDITION.
//!
//! Sources: JESD220 (3.1; fields that a later version moved are noted) and SBC-3 for the CDBs, with the names, offsets
//! and values of Linux 6.1 `include/ufs/ufs.h`, EDK II `Ufs.h` and Fuchsia's UFS driver. A statement marked *recalled*
//! is shown by none of these.
//!
//! Knows bytes, and the answers of a device to queries. Does not know time, queues or initiators.
//!
//! | module | formats |
//! |---|---|
//! | [`upiu`] | header, Command, Response, Query Request, Query Response |
//! | [`query`] | operations, response codes, flags, attributes |
//! | [`descriptor`] | device, geometry, unit |
//! | [`cdb`] | READ(10), WRITE(10), UNMAP and its list, SYNCHRONIZE CACHE(10) |
//! | [`sense`] | sense data of a Response UPIU |
//! | [`device`] | the device's side of queries: current descriptors, flags and attributes |

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
