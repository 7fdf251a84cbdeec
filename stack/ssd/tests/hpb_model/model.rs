//! What the driver must do, by page and by region, as `docs/design` and Linux's `ufshpb` describe it.

use std::collections::{BTreeMap, VecDeque};

use ssd::device::hpb::{Advice, Control, HpbConfig, MapCommand, Operation, ReadCommand, Version};
use ssd::host::hpb::state::{LuState, RegionState, SubState};
use ssd::host::hpb::stats::HostStats;

const MS: u64 = 1_000_000;

#[derive(Clone, Debug)]
pub struct Region {
    unit: usize,
    /// Its sub-regions, which follow one another.
    subs: std::ops::Range<u32>,
    pub state: RegionState,
    leaves: bool,
    dirty: bool,
    update: bool,
    expiries: u32,
    deadline: u64,
}

#[derive(Clone, Debug)]
pub struct Sub {
    region: usize,
    pages: std::ops::Range<u32>,
    pub state: SubState,
    reads: u32,
    queued: bool,
    again: bool,
    wanted: bool,
}

pub struct Model {
    config: HpbConfig,
    /// Pages of each unit, and whether it has HPB.
    units: Vec<(std::ops::Range<u32>, bool)>,
    pub lus: Vec<LuState>,
    pub regions: Vec<Region>,
    /// By number; numbers without pages are left out.
    pub subs: BTreeMap<u32, Sub>,
    /// Of each page: its entry, and whether it was written since the entry came.
    entries: BTreeMap<u32, (u64, bool)>,
    /// Active regions that are not pinned, in the order in which they were activated or asked for last.
    order: Vec<usize>,
    to_load: VecDeque<u32>,
    to_leave: VecDeque<usize>,
    commands: VecDeque<MapCommand>,
    /// READ IDs in flight, with what they carry.
    pub in_flight: BTreeMap<u8, (u32, Vec<u64>)>,
    ids: usize,
    /// Loads under way.
    pub loading: Vec<u32>,
    polled: Option<u64>,
    reset_since: Option<u64>,
    pub stats: HostStats,
}

impl Model {
    pub fn new(config: &HpbConfig, depth: u32) -> Model {
        let mut it = Model {
            config: config.clone(),
            units: Vec::new(),
            lus: Vec::new(),
            regions: Vec::new(),
            subs: BTreeMap::new(),
            entries: BTreeMap::new(),
            order: Vec::new(),
            to_load: VecDeque::new(),
            to_leave: VecDeque::new(),
            commands: VecDeque::new(),
            in_flight: BTreeMap::new(),
            ids: (depth / 2).min(126) as usize,
            loading: Vec::new(),
            polled: None,
            reset_since: Some(0),
            stats: HostStats::default(),
        };
        let mut page = 0;
        for (unit, lu) in config.lus.iter().enumerate() {
            let end = page + lu.pages;
            it.units.push((page..end, lu.hpb));
            it.lus.push(if lu.hpb { LuState::Init } else { LuState::Failed });
            while page < end {
                let region = it.regions.len();
                let first = region as u32 * config.region_subregions;
                let mut sub = first;
                while page < end && sub < first + config.region_subregions {
                    let to = end.min(page + config.subregion_pages);
                    let own = Sub {
                        region,
                        pages: page..to,
                        state: SubState::Unused,
                        reads: 0,
                        queued: false,
                        again: false,
                        wanted: false,
                    };
                    it.subs.insert(sub, own);
                    (page, sub) = (to, sub + 1);
                }
                it.regions.push(Region {
                    unit,
                    subs: first..sub,
                    state: RegionState::Inactive,
                    leaves: false,
                    dirty: false,
                    update: false,
                    expiries: 0,
                    deadline: 0,
                });
            }
        }
        for region in config.pinned.0..config.pinned.0 + config.pinned.1 {
            it.regions[region as usize].state = RegionState::Pinned;
            for sub in it.regions[region as usize].subs.clone() {
                it.sub(sub).state = SubState::Invalid;
                it.queue(sub);
            }
        }
        it.look_at_reset(0);
        it
    }

    fn sub(&mut self, sub: u32) -> &mut Sub {
        self.subs.get_mut(&sub).expect("a sub-region with pages")
    }

    fn hosts(&self) -> bool {
        self.config.control == Control::Host
    }

    /// The sub-regions of pages that all lie in one unit with HPB.
    fn touched(&self, first: u32, pages: u32) -> Option<(usize, Vec<u32>)> {
        let unit = self.units.iter().position(|(of, hpb)| *hpb && of.contains(&first) && first + pages <= of.end)?;
        let meets = |sub: &Sub| sub.pages.start < first + pages && first < sub.pages.end;
        Some((unit, self.subs.iter().filter(|(_, sub)| meets(sub)).map(|(&number, _)| number).collect()))
    }

    /// How a read may be sent. A READ ID is any that is not in flight.
    pub fn read(&mut self, first: u32, pages: u32) -> ReadCommand {
        let Some((unit, subs)) = self.touched(first, pages) else { return ReadCommand::Plain };
        let single = if self.config.version == Version::V1 { 1 } else { self.config.single_command_pages.min(255) };
        let longest = if self.config.pre_requests && self.ids > 0 { 255 } else { 0 };
        if pages > single.max(longest) || self.lus[unit] != LuState::Present {
            return ReadCommand::Plain;
        }
        if self.hosts() {
            subs.iter().for_each(|&sub| self.count_read(sub));
        }
        let valid = subs.iter().all(|sub| self.subs[sub].state == SubState::Valid);
        let clean = |page: u32| self.entries.get(&page).is_some_and(|&(_, written)| !written);
        let usable = valid && (first..first + pages).all(clean);
        if !usable || pages > single && self.in_flight.len() == self.ids {
            self.stats.miss_cnt += 1;
            return ReadCommand::Plain;
        }
        self.stats.hit_cnt += 1;
        if pages <= single {
            return ReadCommand::Entry(self.entries[&first].0);
        }
        self.stats.pre_requests += 1;
        ReadCommand::ReadId(0)
    }

    /// The driver chose this READ ID.
    pub fn sent(&mut self, id: u8, first: u32, pages: u32) {
        assert!((1..=self.ids).contains(&usize::from(id)), "READ ID {id}");
        let entries = (first..first + pages).map(|page| self.entries[&page].0).collect();
        assert!(self.in_flight.insert(id, (first, entries)).is_none(), "READ ID {id} is in flight");
        self.commands.push_back(MapCommand::PreRequest { id, page: first });
    }

    fn region_reads(&self, region: usize) -> u32 {
        self.subs.values().filter(|sub| sub.region == region).map(|sub| sub.reads).sum()
    }

    fn count_read(&mut self, sub: u32) {
        let region = self.subs[&sub].region;
        let own = self.sub(sub);
        own.reads += 1;
        let (reads, wanted) = (own.reads, std::mem::take(&mut own.wanted));
        if reads == self.config.params.activation_thld {
            self.activate(sub);
        } else if wanted {
            self.queue(sub);
        }
        if std::mem::take(&mut self.regions[region].update) {
            for sub in self.regions[region].subs.clone() {
                if self.subs[&sub].state == SubState::Valid {
                    self.activate(sub);
                    self.sub(sub).state = SubState::Invalid;
                }
            }
        }
        if self.region_reads(region) > self.config.subregion_pages {
            let by = self.config.params.normalization_factor;
            for region in 0..self.regions.len() {
                self.subs.values_mut().filter(|sub| sub.region == region).for_each(|sub| sub.reads >>= by);
                if self.regions[region].state == RegionState::Active && self.region_reads(region) == 0 {
                    self.leave(region);
                }
            }
        }
    }

    fn activate(&mut self, sub: u32) {
        self.stats.rcmd_active_cnt += 1;
        let region = self.subs[&sub].region;
        self.regions[region].leaves = false;
        self.queue(sub);
    }

    fn queue(&mut self, sub: u32) {
        if !std::mem::replace(&mut self.sub(sub).queued, true) {
            self.to_load.push_back(sub);
        }
    }

    fn leave(&mut self, region: usize) {
        self.stats.rcmd_inactive_cnt += 1;
        if self.regions[region].state == RegionState::Pinned {
            return;
        }
        for sub in self.regions[region].subs.clone() {
            let own = self.sub(sub);
            (own.queued, own.again) = (false, false);
            if own.state == SubState::Valid {
                own.state = SubState::Invalid;
            }
        }
        if !std::mem::replace(&mut self.regions[region].leaves, true) {
            self.to_leave.push_back(region);
        }
    }

    pub fn write(&mut self, first: u32, pages: u32) {
        for page in first..first + pages {
            let Some((&number, _)) = self.subs.iter().find(|(_, sub)| sub.pages.contains(&page)) else { continue };
            let region = self.subs[&number].region;
            if !self.units[self.regions[region].unit].1 {
                continue;
            }
            if self.subs[&number].state == SubState::Valid
                && let Some((_, written)) = self.entries.get_mut(&page)
            {
                *written = true;
            }
            if self.hosts() {
                self.sub(number).reads = 0;
                self.regions[region].dirty = true;
            }
        }
    }

    pub fn advised(&mut self, advice: &Advice) {
        let (active, inactive) = (advice.active.as_slice(), advice.inactive.as_slice());
        match advice.operation {
            Operation::UpdateRegions if active.len() + inactive.len() > 0 => {
                self.stats.rcmd_noti_cnt += 1;
                active.iter().for_each(|&sub| self.advised_active(sub));
                if !self.hosts() {
                    inactive.iter().for_each(|&region| self.leave(region as usize));
                }
            }
            Operation::DeviceReset => {
                self.stats.rcmd_noti_cnt += 1;
                for region in 0..self.regions.len() {
                    match (self.regions[region].state, self.hosts()) {
                        (RegionState::Inactive, _) => {}
                        (_, true) => self.regions[region].update = true,
                        (RegionState::Active, false) => self.leave(region),
                        (RegionState::Pinned, false) => {
                            self.regions[region].subs.clone().for_each(|sub| self.advised_active(sub));
                        }
                    }
                }
            }
            _ => {}
        }
    }

    fn advised_active(&mut self, sub: u32) {
        let region = &self.regions[self.subs[&sub].region];
        if self.hosts() && (region.state != RegionState::Active || region.dirty) {
            return;
        }
        self.activate(sub);
        if self.subs[&sub].state == SubState::Valid {
            self.sub(sub).state = SubState::Invalid;
        }
    }

    pub fn next_command(&mut self, now: u64) -> Option<MapCommand> {
        if self.commands.is_empty() {
            self.leave_what_can();
            self.load_what_can(now);
        }
        self.commands.pop_front()
    }

    fn is_busy(&self, region: usize) -> bool {
        self.regions[region].subs.clone().any(|sub| self.subs[&sub].state == SubState::Issued)
    }

    fn leave_what_can(&mut self) {
        for region in std::mem::take(&mut self.to_leave) {
            if !self.regions[region].leaves {
                continue;
            }
            if self.is_busy(region) {
                self.to_leave.push_back(region);
                continue;
            }
            self.regions[region].leaves = false;
            if self.regions[region].state == RegionState::Active {
                self.evict(region);
            }
        }
    }

    fn load_what_can(&mut self, now: u64) {
        let mut waiting = std::mem::take(&mut self.to_load);
        let mut later = VecDeque::new();
        while let Some(&sub) = waiting.front() {
            if self.hosts() && self.loading.len() as u32 >= self.config.params.inflight_map_req {
                break;
            }
            waiting.pop_front();
            if !self.subs[&sub].queued {
                continue;
            }
            if self.lus[self.regions[self.subs[&sub].region].unit] != LuState::Present {
                later.push_back(sub);
                continue;
            }
            self.sub(sub).queued = false;
            self.load(sub, now);
        }
        waiting.extend(later);
        self.to_load = waiting;
    }

    fn load(&mut self, sub: u32, now: u64) {
        let region = self.subs[&sub].region;
        if self.subs[&sub].state == SubState::Issued {
            self.sub(sub).again = true;
        } else if self.make_active(region, now) {
            self.sub(sub).state = SubState::Issued;
            self.loading.push(sub);
            self.stats.map_req_cnt += 1;
            self.commands.push_back(MapCommand::Load { sub });
        } else {
            self.sub(sub).wanted = true;
        }
    }

    fn make_active(&mut self, region: usize, now: u64) -> bool {
        match self.regions[region].state {
            RegionState::Pinned => return true,
            RegionState::Active => {
                self.order.retain(|&other| other != region);
                self.order.push(region);
                return true;
            }
            RegionState::Inactive => {}
        }
        let unit = self.regions[region].unit;
        let of_unit: Vec<usize> =
            self.order.iter().copied().filter(|&other| self.regions[other].unit == unit).collect();
        let params = self.config.params;
        if of_unit.len() as u32 >= self.config.max_active_regions - self.config.pinned.1 {
            if self.hosts() && self.region_reads(region) < params.eviction_thld_enter {
                return false;
            }
            let may_go = |&&victim: &&usize| {
                !self.is_busy(victim) && (!self.hosts() || self.region_reads(victim) <= params.eviction_thld_exit)
            };
            let Some(&victim) = of_unit.iter().find(may_go) else { return false };
            self.evict(victim);
        }
        self.order.push(region);
        let own = &mut self.regions[region];
        own.state = RegionState::Active;
        own.expiries = params.read_timeout_expiries;
        own.deadline = now + u64::from(params.read_timeout_ms) * MS;
        true
    }

    fn evict(&mut self, region: usize) {
        self.order.retain(|&other| other != region);
        let own = &mut self.regions[region];
        (own.state, own.leaves, own.update) = (RegionState::Inactive, false, false);
        for sub in own.subs.clone() {
            let own = self.sub(sub);
            own.state = SubState::Unused;
            for page in own.pages.clone() {
                self.entries.remove(&page);
            }
        }
        if self.hosts() {
            self.stats.umap_req_cnt += 1;
            self.commands.push_back(MapCommand::Inactivate { region: region as u32 });
        }
    }

    pub fn loaded(&mut self, sub: u32, entries: &[u64]) {
        self.loading.retain(|&other| other != sub);
        let region = self.subs[&sub].region;
        for (page, &entry) in self.subs[&sub].pages.clone().zip(entries) {
            self.entries.insert(page, (entry, false));
        }
        self.regions[region].dirty = false;
        let leaves = self.regions[region].leaves;
        let own = self.sub(sub);
        let again = std::mem::take(&mut own.again);
        own.state = if leaves || again { SubState::Invalid } else { SubState::Valid };
        if again {
            self.queue(sub);
        }
    }

    pub fn load_failed(&mut self, sub: u32) {
        self.loading.retain(|&other| other != sub);
        let own = self.sub(sub);
        (own.again, own.reads, own.state) = (false, 0, SubState::Invalid);
    }

    pub fn suspend(&mut self, unit: usize) {
        self.lus[unit] = LuState::Suspend;
    }

    pub fn resume(&mut self, unit: usize) {
        self.lus[unit] = LuState::Present;
    }

    pub fn reset(&mut self, now: u64) {
        for lu in &mut self.lus {
            if matches!(lu, LuState::Present | LuState::Suspend) {
                *lu = LuState::Reset;
            }
        }
        self.reset_since = Some(now);
        self.look_at_reset(now);
    }

    /// A poll every millisecond, ten at most.
    fn look_at_reset(&mut self, now: u64) {
        let Some(since) = self.reset_since else { return };
        let takes = self.config.reset.0;
        let Some(seen) = (0..=10).find(|poll| poll * MS >= takes || *poll == 10) else { return };
        if now < since + seen * MS {
            return;
        }
        self.reset_since = None;
        let works = seen * MS >= takes;
        for lu in self.lus.iter_mut().filter(|lu| matches!(lu, LuState::Init | LuState::Reset)) {
            *lu = if works { LuState::Present } else { LuState::Failed };
        }
        if !works {
            self.to_load.clear();
            self.subs.values_mut().for_each(|sub| sub.queued = false);
        } else if self.hosts() {
            self.commands.push_back(MapCommand::InactivateAll);
            self.stats.umap_req_cnt += 1;
        }
    }

    pub fn poll(&mut self, now: u64) {
        self.look_at_reset(now);
        if !self.hosts() {
            return;
        }
        let params = self.config.params;
        let interval = u64::from(params.timeout_polling_interval_ms) * MS;
        let first = self.polled.map_or(0, |last| last + 1);
        for poll in first..=now / interval {
            self.polled = Some(poll);
            let at = poll * interval;
            let mut members = self.order.clone();
            members.sort_by_key(|&region| self.regions[region].unit);
            for region in members {
                let own = &mut self.regions[region];
                if own.leaves || own.deadline >= at {
                    continue;
                }
                own.expiries = own.expiries.saturating_sub(1);
                own.deadline = at + u64::from(params.read_timeout_ms) * MS;
                if own.dirty || own.expiries == 0 {
                    self.leave(region);
                }
            }
        }
    }

    pub fn is_idle(&self) -> bool {
        self.loading.is_empty() && self.to_load.is_empty() && self.to_leave.is_empty() && self.commands.is_empty()
    }
}
