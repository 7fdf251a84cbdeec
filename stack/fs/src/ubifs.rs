//! UBIFS on a volume of LEBs.
//!
//! [`media`] is the format. `mount` finds out what a volume holds: super block, master node, `index`, and the journal,
//! which it replays. [`Reader`] reads files. [`mkfs`] makes a new file system.

pub mod check;
mod error;
mod index;
mod lprops;
pub mod media;
pub mod mkfs;
mod mount;
mod nodes;
mod orphans;
mod read;
mod scan;
mod seam;
mod tags;
mod write;
mod written;

pub use error::{Result, UbifsError};
pub use mount::{BudUse, Journal, Mounted, check_superblock};
pub use read::{Data, DirEntry, Inode, Reader};
pub use write::{Counters, KnownBad, Options, Ubifs};
pub use written::{Part, Written};
