//! Map cache of the HPB driver: which regions are active, which of their entries are dirty, and how a read is sent.
//!
//! A read is sent as HPB READ if every sub-region that it touches is valid and none of its pages is dirty. A write
//! makes pages dirty until their sub-region is loaded again. `activation.rs` decides what is activated and inactivated,
//! `timers.rs` handles the timeouts.
//!
//! Behaves like `ufshpb` in Linux 6.1, with these differences. Work is done immediately, not later by a worker thread.
//! An activation that gets no place among the active regions is dropped and retried with the next read (host control
//! mode) or the next recommendation (device control mode), instead of being kept and retried together with all others.
//! After a reset the next read of a region reloads all its valid sub-regions, not only the one that is read. Pinned
//! regions ignore a recommendation to be inactivated.
//!
//! Knows pages, entries as 8 bytes, and the clock for its timeouts. Does not know the contents of an entry.
//!
//! Invariants ([`Driver::check`]):
//! - a sub-region has memory if and only if it is not unused; no two share any;
//! - all sub-regions of an inactive region are unused; the active regions are exactly the members of their logical
//!   unit's list, and at most the maximum number.

use std::collections::VecDeque;

use super::state::{LuState, RegionState, SubState};
use super::stats::HostStats;
use crate::cache::ring::Rings;
use crate::device::hpb::config::MOST_PRE_REQUESTED;
use crate::device::hpb::layout::Layout;
use crate::device::hpb::{Control, HpbConfig, MapCommand, Params, ReadCommand};
use crate::ftl::NONE;

#[derive(Clone, Debug)]
pub(super) struct Region {
    pub(super) state: RegionState,
    /// Queued for inactivation.
    pub(super) leaves: bool,
    /// Written since one of its sub-regions was loaded.
    pub(super) dirty: bool,
    /// To be loaded again with its next read.
    pub(super) update: bool,
    pub(super) reads: u32,
    pub(super) expiries: u32,
    pub(super) deadline: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Sub {
    pub(super) state: SubState,
    /// Queued for loading.
    pub(super) queued: bool,
    /// To be loaded again when the load in progress completes.
    pub(super) again: bool,
    /// Host control mode: its region could not be activated; the next read requests the load again.
    pub(super) wanted: bool,
    /// Slot of its memory, or [`NONE`].
    pub(super) slot: u32,
    pub(super) reads: u32,
}

impl Sub {
    const UNUSED: Sub =
        Sub { state: SubState::Unused, queued: false, again: false, wanted: false, slot: NONE, reads: 0 };
}

/// Map cache and pending work of the HPB driver.
#[derive(Clone, Debug)]
pub struct Driver {
    pub(super) layout: Layout,
    pub(super) control: Control,
    pub(super) most_pages: u32,
    /// Maximum pages of a read with a pre-request; 0: no pre-requests.
    pub(super) most_pre_requested: u32,
    pub(super) params: Params,
    /// Maximum number of regions in the list of a logical unit: active ones that are not pinned.
    pub(super) most_active: u32,
    pub(super) lus: Vec<LuState>,
    pub(super) active: Vec<u32>,
    pub(super) regions: Vec<Region>,
    pub(super) subs: Vec<Sub>,
    /// One ring per logical unit: its members are the regions, the heads follow them. The region activated longest ago
    /// is at the front.
    pub(super) lru: Rings,
    /// Memory: the entries of each slot; in `dirty`, one bit per page.
    pub(super) entries: Vec<u64>,
    pub(super) dirty: Vec<u64>,
    pub(super) free: Vec<u32>,
    pub(super) slots: u32,
    pub(super) to_load: VecDeque<u32>,
    pub(super) to_leave: VecDeque<u32>,
    pub(super) loads: u32,
    pub(super) commands: VecDeque<MapCommand>,
    /// Entries of each pre-request, by READ ID.
    pub(super) pre_requests: Vec<Vec<u64>>,
    pub(super) free_ids: Vec<u8>,
    pub(super) next_poll: u64,
    /// Time in ns that the device takes to clear fHPBReset; `reset_since` is when it was set, if it is set.
    pub(super) reset_takes: u64,
    pub(super) reset_since: Option<u64>,
    pub(super) stats: HostStats,
}

impl Driver {
    /// Driver for a device with queue depth `depth`. Loading of the pinned regions is queued. `config` has passed
    /// [`HpbConfig::check`].
    pub fn new(config: &HpbConfig, depth: u32) -> Driver {
        let layout = Layout::new(config);
        let (regions, subs, lus) = (layout.regions(), layout.subregions(), layout.lus().len());
        // READ IDs are below 7Fh, and 0 means none.
        let ids = (depth / 2).min(126) as u8;
        let mut driver = Driver {
            control: config.control,
            most_pages: config.most_pages(),
            most_pre_requested: if config.pre_requests && ids > 0 { MOST_PRE_REQUESTED } else { 0 },
            params: config.params,
            most_active: config.max_active_regions - config.pinned.1,
            lus: layout.lus().iter().map(|lu| if lu.hpb { LuState::Init } else { LuState::Failed }).collect(),
            active: vec![0; lus],
            regions: vec![
                Region {
                    state: RegionState::Inactive,
                    leaves: false,
                    dirty: false,
                    update: false,
                    reads: 0,
                    expiries: 0,
                    deadline: 0,
                };
                regions as usize
            ],
            subs: vec![Sub::UNUSED; subs as usize],
            lru: Rings::new(regions + lus as u32),
            entries: Vec::new(),
            dirty: Vec::new(),
            free: Vec::new(),
            slots: 0,
            to_load: VecDeque::new(),
            to_leave: VecDeque::new(),
            loads: 0,
            commands: VecDeque::new(),
            pre_requests: vec![Vec::new(); usize::from(ids) + 1],
            free_ids: (1..=ids).rev().collect(),
            next_poll: 0,
            reset_takes: config.reset.0,
            reset_since: Some(0),
            stats: HostStats::default(),
            layout,
        };
        let (first, count) = config.pinned;
        for region in first..first + count {
            driver.region_becomes(region, RegionState::Pinned);
            let (from, to) = driver.layout.subregions_in(region);
            for sub in from..to {
                driver.take_memory(sub);
                driver.sub_becomes(sub, SubState::Invalid);
                driver.queue(sub);
            }
        }
        driver.look_at_reset(0);
        driver
    }

    /// Positions of regions and sub-regions.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Counters, named as in sysfs.
    pub fn stats(&self) -> &HostStats {
        &self.stats
    }

    /// State of a logical unit.
    pub fn lu(&self, lu: usize) -> LuState {
        self.lus[lu]
    }

    /// State of a sub-region.
    pub fn sub(&self, sub: u32) -> SubState {
        self.subs[sub as usize].state
    }

    /// State of a region.
    pub fn region(&self, region: u32) -> RegionState {
        self.regions[region as usize].state
    }

    /// Number of active regions, without pinned ones.
    pub fn active_regions(&self) -> u32 {
        self.active.iter().sum()
    }

    /// Whether nothing is pending: no load in flight and no queued work.
    pub fn is_idle(&self) -> bool {
        self.loads == 0 && self.to_load.is_empty() && self.to_leave.is_empty() && self.commands.is_empty()
    }

    /// Prefetches the entry of `page` into the CPU cache. Changes no result.
    #[inline]
    pub fn expect(&self, page: u32) {
        if let Some((sub, _)) = self.layout.subregions_of(page, 1) {
            let slot = self.subs[sub as usize].slot;
            if slot != NONE {
                sim::prefetch(&self.entries, slot as usize * self.sub_pages() + self.layout.offset(page) as usize);
            }
        }
    }

    pub(super) const fn sub_pages(&self) -> usize {
        self.layout.subregion_pages() as usize
    }

    /// Number of 64-bit words for the dirty bits of a slot.
    pub(super) const fn dirty_words(&self) -> usize {
        self.sub_pages().div_ceil(64)
    }

    pub(super) fn lu_becomes(&mut self, lu: usize, next: LuState) {
        debug_assert!(self.lus[lu].may_become(next), "unit {lu}: {:?} became {next:?}", self.lus[lu]);
        self.lus[lu] = next;
    }

    pub(super) fn region_becomes(&mut self, region: u32, next: RegionState) {
        let state = &mut self.regions[region as usize].state;
        debug_assert!(state.may_become(next), "region {region}: {state:?} became {next:?}");
        *state = next;
    }

    pub(super) fn sub_becomes(&mut self, sub: u32, next: SubState) {
        let state = &mut self.subs[sub as usize].state;
        debug_assert!(state.may_become(next), "sub-region {sub}: {state:?} became {next:?}");
        *state = next;
    }

    /// Decides how a read of `pages` pages from `first` on is sent.
    #[inline]
    pub fn read(&mut self, first: u32, pages: u32) -> ReadCommand {
        let Some((sub, end)) = self.layout.subregions_of(first, pages) else { return ReadCommand::Plain };
        if pages > self.most_pages && pages > self.most_pre_requested || !self.is_present(sub) {
            return ReadCommand::Plain;
        }
        if self.control == Control::Host {
            self.count_read(sub, end);
        }
        if !self.all_usable(sub, end, first, pages) {
            self.stats.miss_cnt += 1;
            return ReadCommand::Plain;
        }
        if pages > self.most_pages {
            return self.pre_request(first, pages);
        }
        self.stats.hit_cnt += 1;
        let slot = self.subs[sub as usize].slot as usize;
        ReadCommand::Entry(self.entries[slot * self.sub_pages() + self.layout.offset(first) as usize])
    }

    #[inline]
    pub(super) fn is_present(&self, sub: u32) -> bool {
        self.lus[self.layout.lu_of_region(self.layout.region_of(sub))] == LuState::Present
    }

    /// Whether the entries of all pages are valid and not dirty.
    #[inline]
    fn all_usable(&self, sub: u32, end: u32, first: u32, pages: u32) -> bool {
        if end == sub + 1 {
            let from = self.layout.offset(first);
            return self.is_usable(sub, from, from + pages);
        }
        (sub..end).all(|sub| {
            let (from, to) = self.layout.pages_of(sub);
            self.is_usable(sub, first.max(from) - from, (first + pages).min(to) - from)
        })
    }

    #[inline]
    fn is_usable(&self, sub: u32, from: u32, to: u32) -> bool {
        let Sub { state, slot, .. } = self.subs[sub as usize];
        if state != SubState::Valid {
            return false;
        }
        let words = slot as usize * self.dirty_words();
        let is_dirty = |page: u32| self.dirty[words + (page / 64) as usize] >> (page % 64) & 1 == 1;
        !(from..to).any(is_dirty)
    }

    fn pre_request(&mut self, first: u32, pages: u32) -> ReadCommand {
        let Some(id) = self.free_ids.pop() else {
            self.stats.miss_cnt += 1;
            return ReadCommand::Plain;
        };
        let mut entries = std::mem::take(&mut self.pre_requests[usize::from(id)]);
        entries.clear();
        for page in first..first + pages {
            if let Some((sub, _)) = self.layout.subregions_of(page, 1) {
                let slot = self.subs[sub as usize].slot as usize;
                entries.push(self.entries[slot * self.sub_pages() + self.layout.offset(page) as usize]);
            }
        }
        self.pre_requests[usize::from(id)] = entries;
        self.stats.hit_cnt += 1;
        self.stats.pre_requests += 1;
        self.commands.push_back(MapCommand::PreRequest { id, page: first });
        ReadCommand::ReadId(id)
    }

    /// Entries of a pre-request, one for each page of the read.
    pub fn pre_requested(&self, id: u8) -> &[u64] {
        &self.pre_requests[usize::from(id)]
    }

    /// Releases the READ ID of a read that has completed.
    pub fn pre_request_done(&mut self, id: u8) {
        self.free_ids.push(id);
    }

    /// Records that pages are written or discarded: their entries are not used until they are loaded again.
    pub fn write(&mut self, mut first: u32, mut pages: u32) {
        while pages > 0 {
            let lus = self.layout.lus();
            let Some(lu) = lus.iter().find(|lu| lu.first_page <= first && first < lu.end_page) else { return };
            let here = pages.min(lu.end_page - first);
            if let Some((sub, end)) = self.layout.subregions_of(first, here) {
                for sub in sub..end {
                    self.write_in(sub, first, here);
                }
            }
            (first, pages) = (first + here, pages - here);
        }
    }

    fn write_in(&mut self, sub: u32, first: u32, pages: u32) {
        let (from, to) = self.layout.pages_of(sub);
        if self.subs[sub as usize].state == SubState::Valid {
            let words = self.subs[sub as usize].slot as usize * self.dirty_words();
            for page in first.max(from) - from..(first + pages).min(to) - from {
                self.dirty[words + (page / 64) as usize] |= 1 << (page % 64);
            }
        }
        if self.control == Control::Host {
            let region = &mut self.regions[self.layout.region_of(sub) as usize];
            let reads = &mut self.subs[sub as usize].reads;
            region.reads -= std::mem::take(reads);
            region.dirty = true;
        }
    }

    /// Suspends a logical unit: until it is [resumed](Self::resume), its reads carry no entry and nothing is loaded.
    pub fn suspend(&mut self, lu: usize) {
        self.lu_becomes(lu, LuState::Suspend);
    }

    /// Resumes a logical unit, with the entries that it had.
    pub fn resume(&mut self, lu: usize) {
        self.lu_becomes(lu, LuState::Present);
    }

    /// Panics: an invariant of this module is violated.
    pub fn check(&self) {
        let mut used = vec![false; self.slots as usize];
        for (sub, own) in (0u32..).zip(&self.subs) {
            assert_eq!(own.slot != NONE, own.state != SubState::Unused, "memory of sub-region {sub}, {:?}", own.state);
            if own.slot != NONE {
                assert!(!std::mem::replace(&mut used[own.slot as usize], true), "sub-region {sub} shares its memory");
                assert!(
                    self.region(self.layout.region_of(sub)) != RegionState::Inactive,
                    "sub-region {sub} of nothing"
                );
            }
        }
        for &slot in &self.free {
            assert!(!std::mem::replace(&mut used[slot as usize], true), "memory {slot} is free and not free");
        }
        assert!(used.iter().all(|&used| used), "memory that nobody has and that is not free");
        let (regions, issued) = (self.layout.regions(), self.subs.iter().filter(|sub| sub.state == SubState::Issued));
        assert_eq!(issued.count() as u32, self.loads, "loads under way");
        for lu in 0..self.lus.len() {
            let members: Vec<u32> = self.lru.iter(regions + lu as u32).collect();
            assert_eq!(members.len() as u32, self.active[lu], "active regions of unit {lu}");
            assert!(self.active[lu] <= self.most_active, "too many active regions in unit {lu}");
            assert!(members.iter().all(|&region| self.region(region) == RegionState::Active));
        }
        let active = self.regions.iter().filter(|region| region.state == RegionState::Active).count();
        assert_eq!(active as u32, self.active_regions(), "an active region is in no list");
        if self.control == Control::Host {
            for region in 0..regions {
                let (from, to) = self.layout.subregions_in(region);
                let reads: u32 = self.subs[from as usize..to as usize].iter().map(|sub| sub.reads).sum();
                assert_eq!(reads, self.regions[region as usize].reads, "reads of region {region}");
            }
        }
    }
}
