//! Counters of a ubiblock.

/// Why a LEB was written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(usize)]
pub enum Because {
    /// Another LEB was written and needed its place.
    Evicted,
    /// A flush.
    Flushed,
    /// A write that forces unit access.
    Forced,
    /// No request came for the idle time.
    Idle,
    /// The device was closed.
    Closed,
}

impl Because {
    /// Every reason, in the order of the counters.
    pub const ALL: [Because; 5] = [Because::Evicted, Because::Flushed, Because::Forced, Because::Idle, Because::Closed];

    /// Name of the reason in results.
    pub const fn name(self) -> &'static str {
        match self {
            Because::Evicted => "evicted",
            Because::Flushed => "flushed",
            Because::Forced => "forced",
            Because::Idle => "idle",
            Because::Closed => "closed",
        }
    }
}

/// Counters since the device was made. A request that spans LEBs counts once in each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockStats {
    /// Reads from a LEB in the cache.
    pub read_hits: u64,
    /// Reads from the volume.
    pub read_misses: u64,
    /// Writes to a LEB in the cache.
    pub write_hits: u64,
    /// LEBs read into the cache, because a part of each was written.
    pub loads: u64,
    /// LEBs that entered the cache without a read, because the whole of each was written.
    pub whole_lebs: u64,
    /// LEBs written back by reason, in the order of [`Because::ALL`].
    pub write_backs: [u64; 5],
    /// LEBs unmapped or dropped from the cache by discards.
    pub discarded: u64,
}

impl BlockStats {
    /// LEBs written back for a reason.
    pub fn written_back(&self, because: Because) -> u64 {
        self.write_backs[because as usize]
    }

    /// LEBs written back for any reason.
    pub fn all_written_back(&self) -> u64 {
        self.write_backs.iter().sum()
    }
}
