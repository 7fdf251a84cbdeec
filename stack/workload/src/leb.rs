//! Load at the level of logical eraseblocks, as a file system puts it on a volume.

pub mod near_full;
