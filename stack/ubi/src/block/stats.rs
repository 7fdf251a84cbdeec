//! Counters of a ubiblock, and where the time of its requests goes.

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

/// Components of a request's latency, in nanoseconds. Every nanosecond is in exactly one of them. The wait for a flash
/// that UBI's background thread occupies is in the component that waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breakdown {
    /// Waiting for the driver, which serves earlier requests or writes back because it was idle.
    pub queue: u64,
    /// The driver's own time.
    pub driver: u64,
    /// Reading what the request asks for.
    pub read: u64,
    /// Reading a LEB into the cache, because a part of it is written.
    pub load: u64,
    /// Writing LEBs of the cache back.
    pub write_back: u64,
    /// Unmapping LEBs: of a discard, or before the first write to a LEB with [`Form::UnmapFirst`](super::Form).
    pub unmap: u64,
}

impl Breakdown {
    /// Names of the components, in the order of [`Breakdown::values`].
    pub const COMPONENTS: [&'static str; 6] = ["queue", "driver", "read", "load", "write back", "unmap"];

    /// Time of each component, in nanoseconds.
    pub const fn values(&self) -> [u64; 6] {
        [self.queue, self.driver, self.read, self.load, self.write_back, self.unmap]
    }
}
