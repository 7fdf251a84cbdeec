//! ubiblock: a UBI volume as a block device.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::section::{section, words};

words! {
    /// How LEBs that were written in the cache reach the flash.
    pub enum Form {
        /// No write is accepted, as in Linux's ubiblock.
        ReadOnly,
        /// When a LEB leaves the cache it is unmapped and written, as in the writable driver of 2012: a power cut in
        /// between loses it.
        V2Like,
        /// A LEB is unmapped as soon as it is cached for writing, as in the driver of 2008: a power cut before it is
        /// written back loses it.
        UnmapFirst,
        /// A LEB is changed atomically: after a power cut it is the old or the new one.
        Atomic,
    }
}

section! {
    /// A volume of UBI as a block device, with a cache of whole LEBs in memory. It is made on the formatted flash of
    /// `[nand]` before virtual time 0. Its loads are those of a drive.
    pub struct Ubiblock {
        /// How LEBs that were written in the cache reach the flash.
        form: Form = Form::Atomic,
        /// LEBs that the cache holds.
        #[schemars(range(min = 1, max = 65_536))]
        cache_lebs: u32 = 1,
        /// Seconds without a request after which the cache is written back; 0: never.
        #[schemars(range(min = 0.0, max = 1e9))]
        idle_s: f64 = 1.0,
        /// Whether a discard unmaps the LEBs that it covers; otherwise it has no effect.
        discard: bool = true,
        /// Most requests outstanding.
        #[schemars(range(min = 1, max = 10_240))]
        depth: u32 = 64,
        /// Time of the driver for each request, in microseconds.
        #[schemars(range(min = 0.0, max = 1e6))]
        request_us: f64 = 1.0,
        /// Size of the volume, rounded up to LEBs; 0: every LEB that is free.
        size_bytes: u64 = 0,
    }
}
