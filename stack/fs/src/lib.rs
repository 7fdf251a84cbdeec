//! File systems on raw flash, on the exact on-flash formats of Linux.
//!
//! Knows blocks, nodes and files; knows no host file system and no wall clock.
//!
//! Read [`ubifs::media`] for the format of UBIFS, then [`ubifs`]; [`jffs2::media`] and [`jffs2`] likewise. [`jffs1`] is JFFS
//! version 1, on raw NOR. [`model`] is the oracle that they are compared with. [`cache`] is the page cache above them.

pub mod cache;
pub mod compress;
pub mod jffs1;
pub mod jffs2;
pub mod model;
pub mod ubifs;
