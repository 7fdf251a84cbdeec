//! What can be asked of a device. Each load of a block device implements [`Load`](crate::drive::Load); a new one is one
//! more file here.

pub mod apps;
pub mod fio;
pub mod iozone;
pub mod near_full;
pub mod replay;
