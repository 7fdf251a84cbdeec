//! Allocating PEBs: the fastmap's pools, their refills, and the fastmap write that each refill requires.
//!
//! A PEB taken from a pool need not be in the fastmap's tables, because attach scans the pools. So a new fastmap is due
//! only when a pool is used up. How often that is depends on the free PEBs that a refill finds:
//! `docs/design/ubi-fastmap.md`.

use sim::seam::Flash;
use sim::{Cause, Cx, Peb};

use crate::device::{EBA_RESERVED_PEBS, Ubi, WL_RESERVED_PEBS};
use crate::error::UbiError;
use crate::media::FM_MAX_START;
use crate::stats::FastmapTrigger;
use crate::wl::{PebState, Work};

/// Attempts of a writer to get a PEB before it fails.
const ATTEMPTS: u32 = 10;

/// How many PEBs ahead the tables of the flash are prefetched.
const HANDED_OUT_SOON: usize = 3;

impl<F: Flash> Ubi<F> {
    /// Gets a PEB for a LEB and protects it. May write a fastmap, and may erase.
    /// Errors: `NoFreePeb` if none is free and none is waiting to be erased; faults of the flash.
    pub(crate) fn get_peb(&mut self, cx: &mut Cx) -> Result<Peb, UbiError> {
        if self.fastmap_blocks == 0 {
            return self.get_peb_without_fastmap(cx);
        }
        for attempt in 1.. {
            let used_up = (self.wear.user_pool.is_used_up(), self.wear.wl_pool.is_used_up());
            let trigger = match used_up {
                (false, false) => None,
                (true, false) => Some(FastmapTrigger::UserPool),
                (false, true) => Some(FastmapTrigger::WlPool),
                (true, true) => Some(FastmapTrigger::BothPools),
            };
            if self.known_bad.hand_out_before_fastmap && trigger.is_some() {
                self.refill_pools();
                self.fastmap_work = true;
            } else if let Some(trigger) = trigger {
                self.update_fastmap(cx, trigger)?;
            }
            if let Some(soon) = self.wear.user_pool.peek_ahead(HANDED_OUT_SOON) {
                self.touch(soon);
            }
            if let Some(peb) = self.wear.user_pool.take() {
                self.wear.protect(peb);
                self.stats.user_pebs += 1;
                return Ok(peb);
            }
            match attempt {
                ATTEMPTS if self.wear.works().is_empty() => break,
                ATTEMPTS => self.catch_up(cx)?,
                _ if attempt > ATTEMPTS + 1 => break,
                _ => self.produce_free_peb(cx)?,
            }
        }
        Err(UbiError::NoFreePeb)
    }

    /// Does all works queued now. A writer so far ahead of the background thread has to wait for it, for example on a
    /// new flash of which hardly a PEB has been erased yet.
    fn catch_up(&mut self, cx: &mut Cx) -> Result<(), UbiError> {
        for _ in 0..self.wear.works().len() {
            self.do_work(cx)?;
        }
        Ok(())
    }

    fn get_peb_without_fastmap(&mut self, cx: &mut Cx) -> Result<Peb, UbiError> {
        if self.wear.free().is_empty() {
            self.produce_free_peb(cx)?;
        }
        let peb = self.middling_free().ok_or(UbiError::NoFreePeb)?;
        self.wear.protect_free(peb);
        self.stats.user_pebs += 1;
        Ok(peb)
    }

    /// Does queued works until a PEB is free.
    fn produce_free_peb(&mut self, cx: &mut Cx) -> Result<(), UbiError> {
        while self.wear.free().is_empty() && !self.wear.works().is_empty() {
            self.do_work(cx)?;
        }
        Ok(())
    }

    /// A free PEB of medium wear; `None` if none is free, or the only one is kept for an anchor.
    #[inline]
    pub(crate) fn middling_free(&mut self) -> Option<Peb> {
        let anchor_held = self.config.policy.pass_over_unless_anchor && self.wear.spare_anchor().is_some();
        let free = self.wear.free_shape();
        let ((_, lowest), (_, highest)) = (free.first()?, free.last()?);
        let (lowest, highest) = (u64::from(lowest.0), u64::from(highest.0));
        let threshold = u64::from(self.config.wl_threshold);
        if highest - lowest >= 2 * threshold {
            return free.last_below(lowest + threshold).map(|(peb, _)| peb);
        }
        free.settle();
        let root = free.root()?;
        if self.fastmap_blocks > 0 && self.fastmap.is_empty() && root.0 < FM_MAX_START && !anchor_held {
            // No fastmap exists, because the first or the next one is being made: leave it the PEBs that can become an
            // anchor, even if nothing else is free.
            return free.after_root();
        }
        Some(root)
    }

    /// Erases queued PEBs before a refill, so that it finds enough free ones.
    pub(crate) fn wait_for_free_pebs(&mut self, cx: &mut Cx) -> Result<(), UbiError> {
        let enough =
            WL_RESERVED_PEBS + EBA_RESERVED_PEBS + (self.fastmap_blocks - 1) + self.pools_reserved + self.beb_reserved;
        loop {
            let left = |pool: &crate::wl::Pool| pool.size() - pool.used();
            // Counted before the work is done, so that at least one is done if there is any.
            let free = self.wear.free().len() + left(&self.wear.user_pool) + left(&self.wear.wl_pool);
            if self.wear.works().is_empty() {
                return Ok(());
            }
            self.do_work(cx)?;
            if free >= enough {
                return Ok(());
            }
        }
    }

    /// PEBs that the pool may still take from the free tree.
    fn left_for_pool(&self, user: bool) -> i64 {
        let free = i64::from(self.wear.free().len());
        let blocks = i64::from(self.fastmap_blocks - 1);
        if self.config.policy.pools_use_beb_reserve {
            return free - blocks;
        }
        let blocks = if self.wear.wl_pool.size() > 0 { blocks } else { 0 };
        let reserve = if user { 0 } else { i64::from(self.beb_reserved) };
        free - blocks - reserve
    }

    /// Whether the fastmap may take a PEB from the free tree for itself.
    fn fastmap_may_take(&self) -> bool {
        let reserve = if self.config.policy.pools_use_beb_reserve { 0 } else { self.beb_reserved };
        self.wear.free().len() > reserve
    }

    /// Returns unused PEBs of the pools to the free tree, and chooses the next anchor.
    pub(crate) fn empty_pools(&mut self) {
        self.wear.return_pools();
        self.wear.drop_spare_anchor();
        self.take_spare_anchor();
    }

    /// Returns unused PEBs of the pools to the free tree, chooses the next anchor, and fills the pools in turn, PEB by
    /// PEB.
    pub(crate) fn refill_pools(&mut self) {
        self.empty_pools();
        loop {
            let mut full = 0;
            for user in [true, false] {
                let pool = if user { &self.wear.user_pool } else { &self.wear.wl_pool };
                if pool.is_full() {
                    full += 1;
                    continue;
                }
                let left = self.left_for_pool(user);
                if left <= 0 || self.wear.free().is_empty() {
                    full = 2;
                    break;
                }
                let peb = if user { self.middling_free() } else { self.wl_pool_choice(left) };
                let Some(peb) = peb else {
                    full = 2;
                    break;
                };
                self.wear.pool(peb, user);
            }
            if full == 2 {
                break;
            }
        }
        self.stats.user_pool_sizes[self.wear.user_pool.size() as usize] += 1;
        self.stats.wl_pool_sizes[self.wear.wl_pool.size() as usize] += 1;
    }

    fn wl_pool_choice(&mut self, left: i64) -> Option<Peb> {
        let (user, wl) = (&self.wear.user_pool, &self.wear.wl_pool);
        let wanted = i64::from(user.max() - user.size() + wl.max() - wl.size());
        if self.config.policy.wl_beyond_limit && left - wanted < 1 {
            let bound = 2 * u64::from(self.config.wl_threshold);
            let free = self.wear.free_shape();
            let (_, lowest) = free.first()?;
            return free.descent_end(u64::from(lowest.0) + bound);
        }
        self.wl_choice().map(|(peb, _)| peb)
    }

    /// Takes the best anchor from the free tree, if the fastmap may take one.
    fn take_spare_anchor(&mut self) -> bool {
        let best = if self.fastmap_may_take() { self.wear.best_anchor() } else { None };
        if let Some(peb) = best {
            self.wear.keep_spare_anchor(peb);
        }
        best.is_some()
    }

    /// Takes a free PEB for a data block of the fastmap.
    pub(crate) fn take_fastmap_data_peb(&mut self) -> Option<Peb> {
        if !self.fastmap_may_take() {
            return None;
        }
        let peb = self.middling_free()?;
        self.wear.take_free(peb, PebState::Fastmap);
        Some(peb)
    }

    /// Ensures a spare anchor: a free PEB among the first 64, or one that wear levelling will free.
    pub(crate) fn ensure_anchor(&mut self) {
        if self.wear.spare_anchor().is_some() || self.take_spare_anchor() {
            return;
        }
        self.produce_anchor = true;
        if !self.wl_scheduled {
            self.wl_scheduled = true;
            self.wear.queue(Work::WearLevel);
        }
    }

    /// Prefetches the entry of a PEB in the flash's tables, which may be larger than the cache. No other effect.
    #[inline]
    fn touch(&self, peb: Peb) {
        std::hint::black_box(self.flash.is_bad(peb));
    }

    /// Queues the erasure of a PEB that held a LEB.
    pub(crate) fn put_peb(&mut self, peb: Peb, torture: bool, cause: Cause) {
        self.touch(peb);
        self.wear.take_holding(peb, PebState::Erasing);
        self.wear.queue(Work::Erase { peb, torture, cause });
    }
}
