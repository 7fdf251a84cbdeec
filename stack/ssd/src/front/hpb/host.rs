//! The driver's side of HPB: which sub-regions are active, which of their entries are dirty, and what is loaded next.
//!
//! A read becomes an HPB READ when every sub-region that it touches is valid and none of its pages is dirty. A write
//! makes pages dirty, until their sub-region is loaded again. In device control mode the host does as it is advised; in
//! host control mode it counts reads and decides, and of the device's advice heeds only that an active sub-region
//! should be loaded again. A worker does first all inactivations, then activations; it hands [`Command`]s to whoever
//! carries them.
//!
//! Behaviour as Linux 6.1's `ufshpb` shows it, with these differences. Work is done as soon as it is known, not by a
//! thread some time later. An activation that finds no place is dropped, and tried again with the next read (host
//! control) or the next advice (device control), instead of being kept and tried with every other one. After a reset
//! every valid sub-region of a region is loaded again with the region's next read, not only the one that is read.
//! Pinned regions ignore the advice to be inactivated.
//!
//! Knows pages, entries as 8 bytes, and the clock for its timeouts. Does not know what is in an entry.
//!
//! Invariants ([`Host::check`]):
//! - a sub-region has memory exactly if it is not unused; no two share any;
//! - an inactive region has unused sub-regions only; the active ones are exactly the members of their unit's list, and at most so
//!   many as may be.

use std::collections::VecDeque;

use sim::Ns;

use super::config::{Control, HpbConfig, MOST_PRE_REQUESTED, Params};
use super::device::Advice;
use super::layout::Layout;
use super::response::Operation;
use super::state::{LuState, RegionState, SubState};
use super::stats::HostStats;
use crate::cache::ring::Rings;
use crate::ftl::NONE;

const NS_PER_MS: u64 = 1_000_000;
/// Looks at fHPBReset after it was set, and the time between two.
const RESET_POLLS: u64 = 10;
const RESET_POLL_EVERY: u64 = NS_PER_MS;

/// How a read is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// As any read.
    Plain,
    /// With the entry of its first page.
    Entry(u64),
    /// With its entries sent before, under this number.
    PreRequest(u8),
}

/// What the worker asks of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Entries of a sub-region (HPB READ BUFFER 01h).
    Load {
        /// Which.
        sub: u32,
    },
    /// A region is not active any more (HPB WRITE BUFFER 01h).
    Inactivate {
        /// Which.
        region: u32,
    },
    /// None is (HPB WRITE BUFFER 03h).
    InactivateAll,
    /// Entries of a read that follows (HPB WRITE BUFFER 02h).
    PreRequest {
        /// Number by which the read names them.
        id: u8,
    },
}

#[derive(Clone, Debug)]
struct Region {
    state: RegionState,
    /// Is to be inactivated.
    leaves: bool,
    /// Written since a sub-region of it was loaded.
    dirty: bool,
    /// To be loaded again with its next read.
    update: bool,
    reads: u32,
    expiries: u32,
    deadline: u64,
}

#[derive(Clone, Copy, Debug)]
struct Sub {
    state: SubState,
    /// Is to be loaded.
    queued: bool,
    /// Is to be loaded once more when it is.
    again: bool,
    /// Host control mode: found no place when it was to be loaded; its next read asks again.
    wanted: bool,
    /// Its memory, or [`NONE`].
    slot: u32,
    reads: u32,
}

impl Sub {
    const UNUSED: Sub =
        Sub { state: SubState::Unused, queued: false, again: false, wanted: false, slot: NONE, reads: 0 };
}

/// Entries of a read that is preceded by them.
#[derive(Clone, Debug, Default)]
struct PreRequest {
    page: u32,
    entries: Vec<u64>,
}

/// The driver.
#[derive(Clone, Debug)]
pub struct Host {
    layout: Layout,
    control: Control,
    most_pages: u32,
    /// The same with a pre-request; 0: there are none.
    most_pre_requested: u32,
    params: Params,
    /// Regions of a unit that may be in its list.
    most_active: u32,
    lus: Vec<LuState>,
    active: Vec<u32>,
    regions: Vec<Region>,
    subs: Vec<Sub>,
    /// Members are the regions; heads follow them, one for each unit, the region activated longest ago at the front.
    lru: Rings,
    /// Memory: entries of each slot, and a bit for each page that is dirty.
    entries: Vec<u64>,
    dirty: Vec<u64>,
    free: Vec<u32>,
    slots: u32,
    to_load: VecDeque<u32>,
    to_leave: VecDeque<u32>,
    loads: u32,
    commands: VecDeque<Command>,
    pre_requests: Vec<PreRequest>,
    free_ids: Vec<u8>,
    next_poll: u64,
    /// How long the device takes to clear fHPBReset; since when it is set, while it is.
    reset_takes: u64,
    reset_since: Option<u64>,
    stats: HostStats,
}

impl Host {
    /// Of a configuration that was checked, for a queue of `depth`. Brought up: pinned regions are to be loaded.
    pub fn new(config: &HpbConfig, depth: u32) -> Host {
        let layout = Layout::new(config);
        let (regions, subs, lus) = (layout.regions(), layout.subregions(), layout.lus().len());
        // Numbers of pre-requests are below 7Fh, and 0 is none.
        let ids = (depth / 2).min(126) as u8;
        let mut host = Host {
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
            pre_requests: vec![PreRequest::default(); usize::from(ids) + 1],
            free_ids: (1..=ids).rev().collect(),
            next_poll: 0,
            reset_takes: config.reset.0,
            reset_since: Some(0),
            stats: HostStats::default(),
            layout,
        };
        let (first, count) = config.pinned;
        for region in first..first + count {
            host.region_becomes(region, RegionState::Pinned);
            let (from, to) = host.layout.subregions_in(region);
            for sub in from..to {
                host.take_memory(sub);
                host.sub_becomes(sub, SubState::Invalid);
                host.queue(sub);
            }
        }
        host.look_at_reset(0);
        host
    }

    /// The host has reset the device: until it has cleared fHPBReset nothing is loaded and no entry is used. What was
    /// loaded stays, and is held against the mapping by the device as ever.
    pub fn reset(&mut self, now: Ns) {
        for lu in 0..self.lus.len() {
            if self.lus[lu].may_become(LuState::Reset) {
                self.lu_becomes(lu, LuState::Reset);
            }
        }
        self.reset_since = Some(now.0);
        self.look_at_reset(now.0);
    }

    /// Looks at fHPBReset as often as was due up to `now`. Where it stays set, HPB is dropped.
    #[cold]
    fn look_at_reset(&mut self, now: u64) {
        let Some(since) = self.reset_since else { return };
        let looks = self.reset_takes.div_ceil(RESET_POLL_EVERY);
        let next = if looks <= RESET_POLLS { LuState::Present } else { LuState::Failed };
        if now < since + looks.min(RESET_POLLS) * RESET_POLL_EVERY {
            return;
        }
        self.reset_since = None;
        for lu in 0..self.lus.len() {
            if matches!(self.lus[lu], LuState::Init | LuState::Reset) {
                self.lu_becomes(lu, next);
            }
        }
        if next == LuState::Failed {
            self.to_load.drain(..).for_each(|sub| self.subs[sub as usize].queued = false);
        } else if self.control == Control::Host {
            self.commands.push_back(Command::InactivateAll);
            self.stats.umap_req_cnt += 1;
        }
    }

    /// Where regions lie.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// What it has counted.
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

    /// Regions that are active, pinned ones not counted.
    pub fn active_regions(&self) -> u32 {
        self.active.iter().sum()
    }

    /// Whether it waits for anything: loads under way, or work to be done.
    pub fn is_idle(&self) -> bool {
        self.loads == 0 && self.to_load.is_empty() && self.to_leave.is_empty() && self.commands.is_empty()
    }

    /// Memory will be asked for the entry of `page` soon.
    #[inline]
    pub fn expect(&self, page: u32) {
        if let Some((sub, _)) = self.layout.subregions_of(page, 1) {
            let slot = self.subs[sub as usize].slot;
            if slot != NONE {
                sim::prefetch(&self.entries, (slot as usize) * self.sub_pages() + self.layout.offset(page) as usize);
            }
        }
    }

    const fn sub_pages(&self) -> usize {
        self.layout.subregion_pages() as usize
    }

    /// Words of a slot's dirty bits.
    const fn dirty_words(&self) -> usize {
        self.sub_pages().div_ceil(64)
    }

    fn lu_becomes(&mut self, lu: usize, next: LuState) {
        debug_assert!(self.lus[lu].may_become(next), "unit {lu}: {:?} became {next:?}", self.lus[lu]);
        self.lus[lu] = next;
    }

    fn region_becomes(&mut self, region: u32, next: RegionState) {
        let state = &mut self.regions[region as usize].state;
        debug_assert!(state.may_become(next), "region {region}: {state:?} became {next:?}");
        *state = next;
    }

    fn sub_becomes(&mut self, sub: u32, next: SubState) {
        let state = &mut self.subs[sub as usize].state;
        debug_assert!(state.may_become(next), "sub-region {sub}: {state:?} became {next:?}");
        *state = next;
    }

    /// How a read of `pages` pages is sent.
    #[inline]
    pub fn read(&mut self, first: u32, pages: u32) -> Read {
        let Some((sub, end)) = self.layout.subregions_of(first, pages) else { return Read::Plain };
        if pages > self.most_pages && pages > self.most_pre_requested || !self.is_present(sub) {
            return Read::Plain;
        }
        if self.control == Control::Host {
            self.count_read(sub, end);
        }
        if !self.all_usable(sub, end, first, pages) {
            self.stats.miss_cnt += 1;
            return Read::Plain;
        }
        if pages > self.most_pages {
            return self.pre_request(first, pages);
        }
        self.stats.hit_cnt += 1;
        let slot = self.subs[sub as usize].slot as usize;
        Read::Entry(self.entries[slot * self.sub_pages() + self.layout.offset(first) as usize])
    }

    #[inline]
    fn is_present(&self, sub: u32) -> bool {
        self.lus[self.layout.lu_of_region(self.layout.region_of(sub))] == LuState::Present
    }

    /// Whether the entries of all pages may be used.
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

    fn pre_request(&mut self, first: u32, pages: u32) -> Read {
        let Some(id) = self.free_ids.pop() else {
            self.stats.miss_cnt += 1;
            return Read::Plain;
        };
        let mut entries = std::mem::take(&mut self.pre_requests[usize::from(id)].entries);
        entries.clear();
        for page in first..first + pages {
            if let Some((sub, _)) = self.layout.subregions_of(page, 1) {
                let slot = self.subs[sub as usize].slot as usize;
                entries.push(self.entries[slot * self.sub_pages() + self.layout.offset(page) as usize]);
            }
        }
        self.pre_requests[usize::from(id)] = PreRequest { page: first, entries };
        self.stats.hit_cnt += 1;
        self.stats.pre_requests += 1;
        self.commands.push_back(Command::PreRequest { id });
        Read::PreRequest(id)
    }

    /// First page and entries of a pre-request.
    pub fn pre_requested(&self, id: u8) -> (u32, &[u64]) {
        let request = &self.pre_requests[usize::from(id)];
        (request.page, &request.entries)
    }

    /// A read that was preceded by its entries is over.
    pub fn pre_request_done(&mut self, id: u8) {
        self.free_ids.push(id);
    }

    /// Pages are written or discarded: their entries are not to be used until they are loaded again.
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

    /// Host control mode: a read is counted in each sub-region that it touches.
    fn count_read(&mut self, first: u32, end: u32) {
        for sub in first..end {
            let r = self.layout.region_of(sub);
            let region = &mut self.regions[r as usize];
            region.reads += 1;
            let update = std::mem::take(&mut region.update);
            let own = &mut self.subs[sub as usize];
            own.reads += 1;
            let wanted = std::mem::take(&mut own.wanted);
            if own.reads == self.params.activation_thld {
                self.activate(sub);
            } else if wanted {
                self.queue(sub);
            }
            if update {
                let (from, to) = self.layout.subregions_in(r);
                for sub in from..to {
                    if self.sub(sub) == SubState::Valid {
                        self.activate(sub);
                        self.sub_becomes(sub, SubState::Invalid);
                    }
                }
            }
            if self.regions[r as usize].reads > self.layout.subregion_pages() {
                self.normalize();
            }
        }
    }

    /// A region was read very often: all counters are scaled down, and active regions that are left with none leave.
    #[cold]
    fn normalize(&mut self) {
        for region in 0..self.layout.regions() {
            let (from, to) = self.layout.subregions_in(region);
            let mut reads = 0;
            for sub in &mut self.subs[from as usize..to as usize] {
                sub.reads >>= self.params.normalization_factor;
                reads += sub.reads;
            }
            self.regions[region as usize].reads = reads;
            if reads == 0 && self.region(region) == RegionState::Active {
                self.leave(region);
            }
        }
    }

    /// A sub-region is to be loaded.
    fn activate(&mut self, sub: u32) {
        self.stats.rcmd_active_cnt += 1;
        self.regions[self.layout.region_of(sub) as usize].leaves = false;
        self.queue(sub);
    }

    fn queue(&mut self, sub: u32) {
        if !std::mem::replace(&mut self.subs[sub as usize].queued, true) {
            self.to_load.push_back(sub);
        }
    }

    /// A region is to be inactivated: nothing of it is used from now on, nor loaded.
    fn leave(&mut self, region: u32) {
        self.stats.rcmd_inactive_cnt += 1;
        if self.region(region) == RegionState::Pinned {
            return;
        }
        let (from, to) = self.layout.subregions_in(region);
        for sub in from..to {
            self.subs[sub as usize].queued = false;
            self.subs[sub as usize].again = false;
            if self.sub(sub) == SubState::Valid {
                self.sub_becomes(sub, SubState::Invalid);
            }
        }
        if !std::mem::replace(&mut self.regions[region as usize].leaves, true) {
            self.to_leave.push_back(region);
        }
    }

    /// What a response advises.
    pub fn advised(&mut self, advice: &Advice) {
        let (active, inactive) = (advice.active.as_slice(), advice.inactive.as_slice());
        match advice.operation {
            Operation::None => {}
            // Both counts zero: nothing is advised.
            Operation::UpdateRegions if active.is_empty() && inactive.is_empty() => {}
            Operation::UpdateRegions => {
                self.stats.rcmd_noti_cnt += 1;
                active.iter().for_each(|&sub| self.advised_active(sub));
                // Named in both, a region leaves.
                if self.control == Control::Device {
                    inactive.iter().for_each(|&region| self.leave(region));
                }
            }
            Operation::DeviceReset => {
                self.stats.rcmd_noti_cnt += 1;
                self.device_was_reset();
            }
        }
    }

    fn advised_active(&mut self, sub: u32) {
        let region = &self.regions[self.layout.region_of(sub) as usize];
        if self.control == Control::Host && (region.state != RegionState::Active || region.dirty) {
            return;
        }
        self.activate(sub);
        if self.sub(sub) == SubState::Valid {
            self.sub_becomes(sub, SubState::Invalid);
        }
    }

    /// The device has lost what it knew of active regions.
    fn device_was_reset(&mut self) {
        let active: Vec<u32> =
            (0..self.layout.regions()).filter(|&region| self.region(region) != RegionState::Inactive).collect();
        for region in active {
            match (self.control, self.region(region)) {
                (Control::Host, _) => self.regions[region as usize].update = true,
                (Control::Device, RegionState::Pinned) => {
                    let (from, to) = self.layout.subregions_in(region);
                    (from..to).for_each(|sub| self.advised_active(sub));
                }
                (Control::Device, _) => self.leave(region),
            }
        }
    }

    /// Looks at what the host looks at by the clock: fHPBReset while it is set; in host control mode what was not
    /// activated for long, which leaves. What was to be looked at since is looked at now, in order.
    #[inline]
    pub fn poll(&mut self, now: Ns) {
        if self.reset_since.is_some() {
            self.look_at_reset(now.0);
        }
        if self.control == Control::Host && self.next_poll <= now.0 {
            self.look_at_timeouts(now.0);
        }
    }

    #[cold]
    fn look_at_timeouts(&mut self, now: u64) {
        let interval = u64::from(self.params.timeout_polling_interval_ms) * NS_PER_MS;
        while self.next_poll <= now {
            let at = self.next_poll;
            let members: Vec<u32> = (0..self.lus.len())
                .flat_map(|lu| self.lru.iter(self.layout.regions() + lu as u32))
                .filter(|&region| !self.regions[region as usize].leaves && self.regions[region as usize].deadline < at)
                .collect();
            for region in members {
                let it = &mut self.regions[region as usize];
                it.expiries = it.expiries.saturating_sub(1);
                it.deadline = at + u64::from(self.params.read_timeout_ms) * NS_PER_MS;
                if it.dirty || it.expiries == 0 {
                    self.leave(region);
                }
            }
            self.next_poll = at + interval;
            let waits = |region: &Region| region.state == RegionState::Active && !region.leaves;
            if !self.regions.iter().any(waits) {
                // Nothing can expire before something is activated.
                self.next_poll = self.next_poll.max(now / interval * interval + interval);
            }
        }
    }

    /// The worker's next command. Call it until there is none, whenever something was read, advised or done.
    #[inline]
    pub fn next_command(&mut self, now: Ns) -> Option<Command> {
        if self.commands.is_empty() && (!self.to_leave.is_empty() || !self.to_load.is_empty()) {
            self.work(now);
        }
        self.commands.pop_front()
    }

    /// First all inactivations, then activations.
    fn work(&mut self, now: Ns) {
        for _ in 0..self.to_leave.len() {
            let Some(region) = self.to_leave.pop_front() else { break };
            if !self.regions[region as usize].leaves {
                continue;
            }
            if self.is_busy(region) {
                self.to_leave.push_back(region);
                continue;
            }
            self.regions[region as usize].leaves = false;
            if self.region(region) == RegionState::Active {
                self.evict(region);
            }
        }
        for _ in 0..self.to_load.len() {
            if self.control == Control::Host && self.loads >= self.params.inflight_map_req {
                break;
            }
            let Some(sub) = self.to_load.pop_front() else { break };
            if !self.subs[sub as usize].queued {
                continue;
            }
            if !self.is_present(sub) {
                self.to_load.push_back(sub);
                continue;
            }
            self.subs[sub as usize].queued = false;
            self.load(sub, now);
        }
    }

    /// Whether entries of the region are on their way.
    fn is_busy(&self, region: u32) -> bool {
        let (from, to) = self.layout.subregions_in(region);
        self.subs[from as usize..to as usize].iter().any(|sub| sub.state == SubState::Issued)
    }

    fn load(&mut self, sub: u32, now: Ns) {
        if self.sub(sub) == SubState::Issued {
            self.subs[sub as usize].again = true;
            return;
        }
        if !self.make_active(self.layout.region_of(sub), now) {
            self.subs[sub as usize].wanted = true;
            return;
        }
        if self.sub(sub) == SubState::Unused {
            self.take_memory(sub);
        }
        if self.sub(sub) == SubState::Valid {
            self.sub_becomes(sub, SubState::Invalid);
        }
        self.sub_becomes(sub, SubState::Issued);
        self.loads += 1;
        self.stats.map_req_cnt += 1;
        self.commands.push_back(Command::Load { sub });
    }

    /// Gives a region a place among the active ones, another one's if need be. Whether there is one.
    fn make_active(&mut self, region: u32, now: Ns) -> bool {
        let lu = self.layout.lu_of_region(region);
        let head = self.layout.regions() + lu as u32;
        match self.region(region) {
            RegionState::Pinned => return true,
            RegionState::Active => {
                self.lru.move_back(head, region);
                return true;
            }
            RegionState::Inactive => {}
        }
        if self.active[lu] >= self.most_active {
            let hosts = self.control == Control::Host;
            if hosts && self.regions[region as usize].reads < self.params.eviction_thld_enter {
                return false;
            }
            let may_go = |&victim: &u32| {
                let cold = self.regions[victim as usize].reads <= self.params.eviction_thld_exit;
                !self.is_busy(victim) && (!hosts || cold)
            };
            let Some(victim) = self.lru.iter(head).find(may_go) else { return false };
            self.evict(victim);
        }
        self.region_becomes(region, RegionState::Active);
        self.lru.move_back(head, region);
        self.active[lu] += 1;
        let it = &mut self.regions[region as usize];
        it.expiries = self.params.read_timeout_expiries;
        it.deadline = now.0 + u64::from(self.params.read_timeout_ms) * NS_PER_MS;
        true
    }

    fn evict(&mut self, region: u32) {
        self.region_becomes(region, RegionState::Inactive);
        self.lru.unlink(region);
        self.active[self.layout.lu_of_region(region)] -= 1;
        self.regions[region as usize].leaves = false;
        self.regions[region as usize].update = false;
        let (from, to) = self.layout.subregions_in(region);
        for sub in from..to {
            if self.sub(sub) != SubState::Unused {
                if self.sub(sub) == SubState::Valid {
                    self.sub_becomes(sub, SubState::Invalid);
                }
                self.sub_becomes(sub, SubState::Unused);
                let slot = std::mem::replace(&mut self.subs[sub as usize].slot, NONE);
                self.free.push(slot);
            }
        }
        if self.control == Control::Host {
            self.stats.umap_req_cnt += 1;
            self.commands.push_back(Command::Inactivate { region });
        }
    }

    fn take_memory(&mut self, sub: u32) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots += 1;
            self.entries.resize(self.slots as usize * self.sub_pages(), 0);
            self.dirty.resize(self.slots as usize * self.dirty_words(), 0);
            self.slots - 1
        });
        self.subs[sub as usize].slot = slot;
    }

    /// Entries of a sub-region have come, one for each of its pages.
    pub fn loaded(&mut self, sub: u32, entries: &[u64]) {
        self.loads -= 1;
        let slot = self.subs[sub as usize].slot as usize;
        let (at, words) = (slot * self.sub_pages(), self.dirty_words());
        self.entries[at..at + entries.len()].copy_from_slice(entries);
        self.dirty[slot * words..(slot + 1) * words].fill(0);
        let region = self.layout.region_of(sub);
        self.regions[region as usize].dirty = false;
        let leaves = self.regions[region as usize].leaves;
        self.sub_becomes(sub, if leaves { SubState::Invalid } else { SubState::Valid });
        if std::mem::take(&mut self.subs[sub as usize].again) {
            self.queue(sub);
            if self.sub(sub) == SubState::Valid {
                self.sub_becomes(sub, SubState::Invalid);
            }
        }
    }

    /// A load has failed: the sub-region is asked for again when it is read or advised again.
    pub fn load_failed(&mut self, sub: u32) {
        self.loads -= 1;
        self.subs[sub as usize].again = false;
        let reads = std::mem::take(&mut self.subs[sub as usize].reads);
        self.regions[self.layout.region_of(sub) as usize].reads -= reads;
        self.sub_becomes(sub, SubState::Invalid);
    }

    /// A unit goes to sleep: until it is [resumed](Self::resume) its reads take no entry, and nothing of it is loaded.
    pub fn suspend(&mut self, lu: usize) {
        self.lu_becomes(lu, LuState::Suspend);
    }

    /// A unit wakes up, with what it had.
    pub fn resume(&mut self, lu: usize) {
        self.lu_becomes(lu, LuState::Present);
    }

    /// Panics when an invariant of this module does not hold.
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

#[cfg(test)]
mod tests;
