//! Counters of a device.

/// Why UBI wrote a fastmap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum FastmapTrigger {
    /// The user pool was used up when a LEB needed a PEB.
    UserPool,
    /// The wear-levelling pool was used up when a LEB needed a PEB.
    WlPool,
    /// Both pools were used up when a LEB needed a PEB.
    BothPools,
    /// Wear levelling found its pool empty and requested a refill.
    WorkItem,
    /// The volume table changed.
    Volumes,
    /// The device was detached.
    Detach,
}

impl FastmapTrigger {
    /// Every trigger, in the order of the counters.
    pub const ALL: [FastmapTrigger; 6] = [
        FastmapTrigger::UserPool,
        FastmapTrigger::WlPool,
        FastmapTrigger::BothPools,
        FastmapTrigger::WorkItem,
        FastmapTrigger::Volumes,
        FastmapTrigger::Detach,
    ];

    /// Name of the trigger in results.
    pub const fn name(self) -> &'static str {
        match self {
            FastmapTrigger::UserPool => "user_pool",
            FastmapTrigger::WlPool => "wl_pool",
            FastmapTrigger::BothPools => "both_pools",
            FastmapTrigger::WorkItem => "work_item",
            FastmapTrigger::Volumes => "volumes",
            FastmapTrigger::Detach => "detach",
        }
    }
}

/// Counters since attach.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Stats {
    /// PEBs allocated for LEBs.
    pub user_pebs: u64,
    /// Erasures, including those in place and of torture tests.
    pub erases: u64,
    /// Fastmaps written.
    pub fastmap_writes: u64,
    /// Fastmaps written by trigger, in the order of [`FastmapTrigger::ALL`].
    pub fastmap_triggers: [u64; 6],
    /// Fastmaps whose anchor was erased and rewritten in place, because no PEB was free for it.
    pub anchors_in_place: u64,
    /// Fastmap data blocks erased and rewritten in place.
    pub data_blocks_in_place: u64,
    /// LEBs moved for wear levelling.
    pub moves: u64,
    /// LEBs moved out of the first 64 PEBs to make a spare anchor.
    pub anchor_moves: u64,
    /// LEBs moved because a read needed correction.
    pub scrubs: u64,
    /// Targets that wear levelling returned to the free tree, because the difference of erase counts was too small.
    pub give_backs: u64,
    /// Number of refills after which the user pool had that many PEBs, from none to as many as it may have.
    pub user_pool_sizes: Vec<u64>,
    /// Number of refills after which the wear-levelling pool had that many PEBs, likewise.
    pub wl_pool_sizes: Vec<u64>,
    /// Writes recovered to another PEB after a program failure.
    pub recoveries: u64,
    /// PEBs marked bad.
    pub retired: u64,
}

impl Stats {
    /// Nothing counted yet, of pools of at most so many PEBs.
    pub fn new(user_pool_max: u32, wl_pool_max: u32) -> Stats {
        let sizes = |max| vec![0; max as usize + 1];
        Stats { user_pool_sizes: sizes(user_pool_max), wl_pool_sizes: sizes(wl_pool_max), ..Stats::default() }
    }

    /// Mean size of the user pool after a refill; 0 before the first.
    pub fn mean_user_pool(&self) -> f64 {
        let refills: u64 = self.user_pool_sizes.iter().sum();
        let pebs: u64 = self.user_pool_sizes.iter().enumerate().map(|(size, count)| size as u64 * count).sum();
        if refills == 0 { 0.0 } else { pebs as f64 / refills as f64 }
    }

    /// Fastmap writes per PEB allocated for a LEB; 0 before the first.
    pub fn fastmap_writes_per_user_peb(&self) -> f64 {
        if self.user_pebs == 0 { 0.0 } else { self.fastmap_writes as f64 / self.user_pebs as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: three refills of 4, 4 and 10 PEBs; 6 fastmaps for 24 PEBs.
    #[test]
    fn means_are_those_of_arithmetic_and_zero_before_the_first() {
        let mut stats = Stats::new(10, 5);
        assert_eq!((stats.mean_user_pool(), stats.fastmap_writes_per_user_peb()), (0.0, 0.0));
        (stats.user_pool_sizes[4], stats.user_pool_sizes[10]) = (2, 1);
        (stats.fastmap_writes, stats.user_pebs) = (6, 24);
        assert_eq!((stats.mean_user_pool(), stats.fastmap_writes_per_user_peb()), (6.0, 0.25));
    }
}
