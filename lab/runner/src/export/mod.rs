//! Protocols by which others use a drive, without their sockets.

pub mod nbd;
