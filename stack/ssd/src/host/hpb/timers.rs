//! What the driver looks at by the clock: fHPBReset after a reset, and active regions that are not read any more.

use sim::Ns;

use super::driver::{Driver, Region};
use super::state::{LuState, RegionState};
use crate::device::hpb::{Control, MapCommand};

pub(super) const NS_PER_MS: u64 = 1_000_000;
/// The driver reads fHPBReset so often after it has set it, and this far apart.
const RESET_POLLS: u64 = 10;
const RESET_POLL_EVERY: u64 = NS_PER_MS;

impl Driver {
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
}
