//! Load generators and block traces: deterministic, one draw at a time, without knowledge of what is behind the seam
//! that they drive.
//!
//! | module | holds |
//! |---|---|
//! | [`drive`] | the loop that puts any [`drive::Load`] on a block device, and what it reports |
//! | [`fio`], [`iozone`], [`apps`], [`replay`] | the loads of block devices, a folder each |
//! | [`volumes`] | the load of UBI: volumes written at a rate |
//! | [`fsstress`], [`file`](mod@file) | the loads of file systems: fsstress, PostMark, sysbench |
//! | [`trace`] | recordings: formats, readers, writers, access patterns |

pub mod drive;
pub mod file;
pub mod fsstress;
mod load;
pub mod trace;

pub use load::{apps, fio, iozone, replay, volumes};
