//! Polls and timeouts of the HPB driver: fHPBReset after a reset, and the read timeouts of active regions.

use sim::Ns;

use super::driver::{Driver, Region};
use super::state::{LuState, RegionState};
use crate::device::hpb::{Control, MapCommand};

pub(super) const NS_PER_MS: u64 = 1_000_000;
/// The driver polls fHPBReset at most this often after setting it, with `RESET_POLL_EVERY` between polls.
const RESET_POLLS: u64 = 10;
const RESET_POLL_EVERY: u64 = NS_PER_MS;

impl Driver {
    /// Records that the host has reset the device: until fHPBReset is cleared, nothing is loaded and no entry is used.
    /// Loaded entries are kept; the device checks them against its mapping as before.
    pub fn reset(&mut self, now: Ns) {
        for lu in 0..self.lus.len() {
            if self.lus[lu].may_become(LuState::Reset) {
                self.lu_becomes(lu, LuState::Reset);
            }
        }
        self.reset_since = Some(now.0);
        self.look_at_reset(now.0);
    }

    /// Does the polls of fHPBReset that were due up to `now`. If it stays set, HPB is disabled.
    #[cold]
    pub(super) fn look_at_reset(&mut self, now: u64) {
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
            self.commands.push_back(MapCommand::InactivateAll);
            self.stats.umap_req_cnt += 1;
        }
    }

    /// Does what was due up to `now`, in order: polls of fHPBReset while it is set; in host control mode the read
    /// timeouts of active regions, which may inactivate them.
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
                // Nothing can expire before a region is activated.
                self.next_poll = self.next_poll.max(now / interval * interval + interval);
            }
        }
    }
}
