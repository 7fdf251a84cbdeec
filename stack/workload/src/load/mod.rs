//! The loads, one module each. Those of a block device implement [`Load`](crate::drive::Load).

pub mod apps;
pub mod fio;
pub mod iozone;
pub mod replay;
pub mod volumes;
