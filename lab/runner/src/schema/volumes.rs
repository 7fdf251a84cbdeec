//! The load of raw flash in bytes and time: UBI volumes, each with its user.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::section::{section, words};

words! {
    /// The load of raw flash.
    pub enum VolumesKind {
        /// UBI volumes whose users write so many bytes in a given time.
        Volumes,
    }
}

section! {
    /// Load of a run on raw flash, in bytes and time: UBI volumes, each with its own user. UBI's background thread runs
    /// whenever it has work.
    pub struct Volumes {
        /// The load: UBI volumes whose users write so many bytes in a given time.
        kind: VolumesKind = VolumesKind::Volumes,
        /// The volumes by name.
        volume: BTreeMap<String, Volume> = BTreeMap::new(),
    }
}

/// A volume of UBI, by what its user does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "pattern", rename_all = "kebab-case")]
pub enum Volume {
    /// A log: records are appended LEB after LEB. At the end of the volume it goes on at the beginning, where each LEB
    /// is unmapped just before it is written again. Empty at the start.
    Append(Append),
    /// Contents that are rewritten in place: every LEB that a write touches is changed atomically, with all that it
    /// holds. Full at the start.
    Rewrite(Rewrite),
    /// A static volume that is replaced by an update of the volume from time to time. Written before the start.
    Image(Image),
    /// A static volume that is written before the start, and then only read, or never.
    Static(Static),
}

words! {
    /// A span of time.
    pub enum Per {
        /// 1 s.
        Second,
        /// 60 s.
        Minute,
        /// 3600 s.
        Hour,
        /// 24 hours.
        Day,
        /// 7 days.
        Week,
        /// A twelfth of a year.
        Month,
        /// 365.25 days.
        Year,
    }
}

words! {
    /// Order of the places that are rewritten.
    pub enum RewriteOrder {
        /// Drawn uniformly.
        Random,
        /// One after the other, round and round.
        InTurn,
    }
}

section! {
    /// A log.
    pub struct Append {
        /// Size of the volume, rounded up to LEBs; 0: every LEB that no other volume takes.
        size_bytes: u64 = 0,
        /// Bytes that are written in the time `per`: above 0.
        #[schemars(range(max = 1_000_000_000_000_u64))]
        rate_bytes: u64 = 0,
        /// Time in which `rate_bytes` are written.
        per: Per = Per::Minute,
        /// Bytes of a record. Each is filled up to whole write units of the flash.
        #[schemars(range(min = 1, max = 1_073_741_824))]
        write_bytes: u32 = 4096,
    }
}

section! {
    /// Contents that are rewritten in place.
    pub struct Rewrite {
        /// Size of the volume, rounded up to LEBs; 0: every LEB that no other volume takes. The last LEB holds only the
        /// rest of the bytes, and a change of it writes no more.
        size_bytes: u64 = 0,
        /// Bytes that are written in the time `per`: above 0.
        #[schemars(range(max = 1_000_000_000_000_u64))]
        rate_bytes: u64 = 0,
        /// Time in which `rate_bytes` are written.
        per: Per = Per::Minute,
        /// Bytes of a write; the places of writes are multiples of it.
        #[schemars(range(min = 1, max = 1_073_741_824))]
        write_bytes: u32 = 4096,
        /// Order of the places.
        order: RewriteOrder = RewriteOrder::Random,
    }
}

section! {
    /// An image that is updated.
    pub struct Image {
        /// Size of the volume, rounded up to LEBs; 0: every LEB that no other volume takes.
        size_bytes: u64 = 0,
        /// Bytes of the image; 0: the size of the volume.
        image_bytes: u64 = 0,
        /// Days from the beginning of one update to the next.
        #[schemars(range(max = 200_000.0), extend("exclusiveMinimum" = 0.0))]
        every_days: f64 = 30.4375,
    }
}

section! {
    /// Data that are written once.
    pub struct Static {
        /// Size of the volume, rounded up to LEBs; 0: every LEB that no other volume takes. All of it holds data.
        size_bytes: u64 = 0,
        /// How often a day all of it is read; 0: never.
        #[schemars(range(min = 0.0, max = 1e6))]
        reads_per_day: f64 = 0.0,
    }
}
