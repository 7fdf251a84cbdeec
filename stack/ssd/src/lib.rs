//! A solid-state drive over a raw flash: N channels × M ways, a flash translation layer, and a front end.
//!
//! | module | knows | does not know |
//! |---|---|---|
//! | [`shape`] | channels, ways, dies, planes, and which logical page goes where | contents, time |
//! | [`ftl`] | which physical page holds a logical one, in one unit | time, requests |
//! | [`dispatch`] | dies, buses, page operations, event by event | requests, the host |
//! | [`device`] | commands, queues, the link, and the ATA, UFS and HPB data of a device | pages |
//! | [`drive`] | requests and their pages | the requester |
//! | [`host`] | the host's HPB driver and the entries that it caches | flash, the drive's mapping |
//! | [`power`] | page tags, from which the mapping is rebuilt at power-on | how a layer maps |
//! | [`untimed`] | the drive's mapping and wear | time, the flash |
//!
//! Start with [`Ssd`].

pub mod cache;
pub mod cells;
pub mod device;
pub mod dispatch;
mod divisor;
pub mod drive;
pub mod ftl;
pub mod host;
mod known_bad;
pub mod power;
pub mod shape;
pub mod tag;
pub mod timing;
pub mod untimed;

pub use cells::Cells;
pub use device::{FrontConfig, Protocol, TrimmedReads};
pub use dispatch::{BusOrder, DispatchConfig, Dispatcher, Scheduling};
pub use drive::{CacheConfig, DriveConfig, Served, Ssd};
pub use known_bad::KnownBad;
pub use shape::{Axis, Order, Shape, ShapeError, Striping};
pub use timing::Timing;
pub use untimed::Untimed;
