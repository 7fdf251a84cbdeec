//! `nandlab image` as a user runs it.

#[path = "image/support.rs"]
mod support;

#[path = "image/damage.rs"]
mod damage;
#[path = "image/devices.rs"]
mod devices;
#[path = "image/ecc.rs"]
mod ecc;
#[path = "image/edit.rs"]
mod edit;
#[path = "image/extract.rs"]
mod extract;
#[path = "image/files.rs"]
mod files;
#[path = "image/info.rs"]
mod info;
#[path = "image/input.rs"]
mod input;
#[path = "image/jffs2.rs"]
mod jffs2;
#[path = "image/jffs2_pack.rs"]
mod jffs2_pack;
#[path = "image/mkfs.rs"]
mod mkfs;
#[path = "image/mount.rs"]
mod mount;
#[path = "image/mount_jffs2.rs"]
mod mount_jffs2;
#[path = "image/nodes.rs"]
mod nodes;
#[path = "image/pack.rs"]
mod pack;
#[path = "image/tables.rs"]
mod tables;
#[path = "image/whole.rs"]
mod whole;
