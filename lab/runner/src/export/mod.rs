//! Protocols by which others use a drive, without their sockets.

pub mod http;
pub mod nbd;
pub mod vhost_blk;
