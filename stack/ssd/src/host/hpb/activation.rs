//! Which sub-regions are loaded and which regions are inactivated: decisions of host control mode, recommendations of
//! the device, and the worker that turns both into commands.
//!
//! In device control mode the host follows the recommendations. In host control mode it decides by counting reads, and
//! follows only recommendations to reload a sub-region of an active region that is not dirty. The worker does all
//! inactivations before any activation.

use sim::Ns;

use super::driver::Driver;
use super::state::{RegionState, SubState};
use super::timers::NS_PER_MS;
use crate::device::hpb::{Advice, Control, MapCommand, Operation};
use crate::ftl::NONE;

impl Driver {
    /// Host control mode: counts a read in each sub-region that it touches.
    pub(super) fn count_read(&mut self, first: u32, end: u32) {
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

    /// The counter of a region is too large: scales all counters down and inactivates active regions that reach 0.
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

    /// Queues a sub-region for loading, as an activation.
    fn activate(&mut self, sub: u32) {
        self.stats.rcmd_active_cnt += 1;
        self.regions[self.layout.region_of(sub) as usize].leaves = false;
        self.queue(sub);
    }

    pub(super) fn queue(&mut self, sub: u32) {
        if !std::mem::replace(&mut self.subs[sub as usize].queued, true) {
            self.to_load.push_back(sub);
        }
    }

    /// Queues a region for inactivation: from now on its entries are neither used nor loaded. Pinned regions ignore it.
    pub(super) fn leave(&mut self, region: u32) {
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

    /// Processes the recommendation of a response.
    pub fn advised(&mut self, advice: &Advice) {
        let (active, inactive) = (advice.active.as_slice(), advice.inactive.as_slice());
        match advice.operation {
            Operation::None => {}
            // Both counts are zero: nothing is recommended.
            Operation::UpdateRegions if active.is_empty() && inactive.is_empty() => {}
            Operation::UpdateRegions => {
                self.stats.rcmd_noti_cnt += 1;
                active.iter().for_each(|&sub| self.advised_active(sub));
                // A region that is in both lists is inactivated.
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

    /// The device has lost its HPB state.
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

    /// The worker's next command. Call it until it returns `None`, after every read, recommendation or completion.
    #[inline]
    pub fn next_command(&mut self, now: Ns) -> Option<MapCommand> {
        if self.commands.is_empty() && (!self.to_leave.is_empty() || !self.to_load.is_empty()) {
            self.work(now);
        }
        self.commands.pop_front()
    }

    /// Does all queued inactivations, then activations.
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

    /// Whether entries of the region are being loaded.
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
        self.commands.push_back(MapCommand::Load { sub });
    }

    /// Activates a region, evicting another one if necessary. Returns whether it is active.
    fn make_active(&mut self, region: u32, now: Ns) -> bool {
        let lu = self.layout.lu_of_region(region);
        let anchor = self.layout.regions() + lu as u32;
        match self.region(region) {
            RegionState::Pinned => return true,
            RegionState::Active => {
                self.lru.move_back(anchor, region);
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
            let Some(victim) = self.lru.iter(anchor).find(may_go) else { return false };
            self.evict(victim);
        }
        self.region_becomes(region, RegionState::Active);
        self.lru.move_back(anchor, region);
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
            self.commands.push_back(MapCommand::Inactivate { region });
        }
    }

    pub(super) fn take_memory(&mut self, sub: u32) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots += 1;
            self.entries.resize(self.slots as usize * self.sub_pages(), 0);
            self.dirty.resize(self.slots as usize * self.dirty_words(), 0);
            self.slots - 1
        });
        self.subs[sub as usize].slot = slot;
    }

    /// Stores the entries of a sub-region that was loaded, one for each of its pages.
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

    /// Records that a load has failed: it is requested again when the sub-region is read or recommended again.
    pub fn load_failed(&mut self, sub: u32) {
        self.loads -= 1;
        self.subs[sub as usize].again = false;
        let reads = std::mem::take(&mut self.subs[sub as usize].reads);
        self.regions[self.layout.region_of(sub) as usize].reads -= reads;
        self.sub_becomes(sub, SubState::Invalid);
    }
}
