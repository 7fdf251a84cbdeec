//! Which sub-regions the device recommends to its host, and which regions it considers active.
//!
//! For each sub-region the device counts the reads that came without a correct entry although they were short enough
//! for one. After `recommend_after` of them it recommends to load the sub-region: for the first time, or again because
//! too many of its pages were written or moved. If the maximum number of regions is active, it recommends to inactivate
//! the least recently read one. In host control mode it does not: the host chooses what to inactivate.
//!
//! How real devices decide is not published; this rule is the simulator's. It needs no acknowledgement: a
//! recommendation that is lost is repeated after the same number of reads.
//!
//! Knows pages and sub-regions. Does not know where pages are stored: the drive reports with each read whether its
//! entry was correct.
//!
//! Invariant ([`Advisor::check`]): the regions considered active are the members of the list, and at most the maximum.

use std::collections::VecDeque;

use super::config::{Control, HpbConfig};
use super::layout::Layout;
use super::response::{Operation, UpToTwo};
use super::stats::DeviceStats;
use crate::cache::ring::Rings;

/// Recommendation of a response: at most two sub-regions and two regions, all of one logical unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advice {
    /// Requested operation.
    pub operation: Operation,
    /// Sub-regions to activate.
    pub active: UpToTwo<u32>,
    /// Regions to inactivate.
    pub inactive: UpToTwo<u32>,
}

/// Counts reads and decides what to recommend.
#[derive(Clone, Debug)]
pub struct Advisor {
    layout: Layout,
    control: Control,
    recommend_after: u16,
    most_pages: u32,
    most_active: u32,
    /// First pinned region, and one past the last.
    pinned: (u32, u32),
    /// Reads of each sub-region without a correct entry, since it was last recommended or loaded.
    plain_reads: Vec<u16>,
    is_active: Vec<bool>,
    active: u32,
    /// One ring: its members are the regions, its head follows them. The most recently read region is at the front.
    lru: Rings,
    to_activate: VecDeque<u32>,
    to_inactivate: VecDeque<u32>,
    was_reset: bool,
    stats: DeviceStats,
}

impl Advisor {
    /// An advisor without active regions. `config` has passed [`HpbConfig::check`].
    pub fn new(config: &HpbConfig) -> Advisor {
        let layout = Layout::new(config);
        let regions = layout.regions();
        Advisor {
            control: config.control,
            recommend_after: config.recommend_after as u16,
            most_pages: config.most_pages(),
            most_active: config.max_active_regions - config.pinned.1,
            pinned: (config.pinned.0, config.pinned.0 + config.pinned.1),
            plain_reads: vec![0; layout.subregions() as usize],
            is_active: vec![false; regions as usize],
            active: 0,
            lru: Rings::new(regions + 1),
            to_activate: VecDeque::new(),
            to_inactivate: VecDeque::new(),
            was_reset: false,
            stats: DeviceStats::default(),
            layout,
        }
    }

    /// Counters of the entries that came with reads, and of the bytes sent to the host.
    pub fn stats(&self) -> &DeviceStats {
        &self.stats
    }

    /// For the drive, which checks the entries and counts the outcomes.
    pub(crate) fn stats_mut(&mut self) -> &mut DeviceStats {
        &mut self.stats
    }

    /// Positions of regions and sub-regions.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    fn is_pinned(&self, region: u32) -> bool {
        (self.pinned.0..self.pinned.1).contains(&region)
    }

    /// Records a read of `pages` pages from `first` on. `by_entry`: it came with correct entries for all of them.
    #[inline]
    pub fn read(&mut self, first: u32, pages: u32, by_entry: bool) {
        let Some((sub, end)) = self.layout.subregions_of(first, pages) else { return };
        let region = self.layout.region_of(sub);
        if self.is_active[region as usize] {
            self.lru.move_front(self.layout.regions(), region);
        }
        if !by_entry && pages <= self.most_pages {
            for sub in sub..end {
                self.read_plainly(sub);
            }
        }
    }

    fn read_plainly(&mut self, sub: u32) {
        let reads = &mut self.plain_reads[sub as usize];
        *reads += 1;
        if *reads < self.recommend_after {
            return;
        }
        *reads = 0;
        let region = self.layout.region_of(sub);
        match self.control {
            // The host chooses what is active; the device only reports that entries are no longer correct.
            Control::Host if !self.is_active[region as usize] => return,
            Control::Host => {}
            Control::Device => self.takes_for_active(region),
        }
        if !self.to_activate.contains(&sub) {
            self.to_activate.push_back(sub);
        }
    }

    /// Makes a region active. If that exceeds the maximum, the least recently read region becomes inactive.
    fn takes_for_active(&mut self, region: u32) {
        if self.is_pinned(region) {
            return;
        }
        let anchor = self.layout.regions();
        self.lru.move_front(anchor, region);
        if std::mem::replace(&mut self.is_active[region as usize], true) {
            return;
        }
        self.active += 1;
        if self.active > self.most_active {
            let oldest = self.lru.prev(anchor);
            self.forget(oldest);
            if self.control == Control::Device {
                self.to_activate.retain(|&sub| self.layout.region_of(sub) != oldest);
                self.to_inactivate.push_back(oldest);
            }
        }
        self.to_inactivate.retain(|&leaving| leaving != region);
    }

    fn forget(&mut self, region: u32) {
        if std::mem::take(&mut self.is_active[region as usize]) {
            self.lru.unlink(region);
            self.active -= 1;
        }
    }

    /// Whether the next response has a recommendation.
    #[inline]
    pub fn has_advice(&self) -> bool {
        self.was_reset || !self.to_activate.is_empty() || !self.to_inactivate.is_empty()
    }

    /// Takes the recommendation for the next response.
    pub fn advice(&mut self) -> Option<Advice> {
        if std::mem::take(&mut self.was_reset) {
            let (active, inactive) = (UpToTwo::default(), UpToTwo::default());
            return Some(Advice { operation: Operation::DeviceReset, active, inactive });
        }
        // All from the logical unit of the first pending region.
        let layout = &self.layout;
        let region_of = |sub: &u32| layout.region_of(*sub);
        let first = self.to_inactivate.front().copied().or_else(|| self.to_activate.front().map(region_of))?;
        let lu = layout.lu_of_region(first);
        let of_lu = |region: u32| layout.lu_of_region(region) == lu;
        let leaving = self.to_inactivate.iter().take(2).take_while(|&&region| of_lu(region)).copied();
        let inactive = UpToTwo::of(leaving);
        let stays = |sub: &u32| of_lu(region_of(sub)) && !inactive.as_slice().contains(&region_of(sub));
        let active = UpToTwo::of(self.to_activate.iter().copied().take(2).take_while(stays));
        self.to_inactivate.drain(..inactive.as_slice().len());
        self.to_activate.drain(..active.as_slice().len());
        Some(Advice { operation: Operation::UpdateRegions, active, inactive })
    }

    /// Records that the host loads a sub-region.
    pub fn loads(&mut self, sub: u32) {
        self.plain_reads[sub as usize] = 0;
        self.to_activate.retain(|&waiting| waiting != sub);
        self.takes_for_active(self.layout.region_of(sub));
        let (from, to) = self.layout.pages_of(sub);
        self.stats.map_bytes += u64::from(to - from) * u64::from(super::entry::ENTRY_BYTES);
    }

    /// Records that the host has inactivated a region.
    pub fn inactivated(&mut self, region: u32) {
        if region < self.layout.regions() {
            self.forget(region);
        }
    }

    /// Records that the host has inactivated all regions.
    pub fn all_inactivated(&mut self) {
        (0..self.layout.regions()).for_each(|region| self.forget(region));
    }

    /// Drops all HPB state, which the next response reports.
    pub fn reset(&mut self) {
        self.all_inactivated();
        self.plain_reads.fill(0);
        self.to_activate.clear();
        self.to_inactivate.clear();
        self.was_reset = true;
    }

    /// Panics: an invariant of this module is violated.
    pub fn check(&self) {
        let members: Vec<u32> = self.lru.iter(self.layout.regions()).collect();
        assert_eq!(members.len() as u32, self.active, "active regions");
        assert!(self.active <= self.most_active, "too many active regions");
        assert!(members.iter().all(|&region| self.is_active[region as usize] && !self.is_pinned(region)));
    }
}
