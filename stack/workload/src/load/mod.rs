//! The loads of a block device, one module each. Each implements [`Load`](crate::drive::Load).

pub mod apps;
pub mod fio;
pub mod iozone;
pub mod near_full;
pub mod replay;
