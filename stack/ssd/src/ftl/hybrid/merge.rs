//! Merges, erases and emptying of blocks, step by step.

use super::*;

impl<P: LogPolicy> Hybrid<P> {
    /// The next step of work that comes before the next host page; `None` if there is none, or if no free block is left
    /// to continue with ([`Hybrid::stuck`]).
    pub(super) fn work(&mut self) -> Option<Step> {
        loop {
            if let Some(block) = self.stale.pop_front() {
                self.set_role(block, Role::Erasing);
                self.counts.erases += 1;
                return Some(Step::Erase { block, cause: Cause::Gc });
            }
            if let Some(merge) = self.merge {
                if let Some(step) = self.merge_step(merge) {
                    return Some(step);
                }
                continue;
            }
            // A block that must be emptied: merge the logical block of its first valid page, then look again.
            let &block = self.emptying.front().filter(|_| !self.stuck)?;
            let first = block as usize * self.config.pages as usize;
            let lpn = self.p2l[first..].iter().find(|&&lpn| lpn != NONE).expect("a evacuating block has a valid page");
            if !self.begin(lpn / self.config.pages) {
                self.stuck = true;
                return None;
            }
        }
    }

    /// Empties a block before the next host page, and releases it. Returns false if it is being emptied already.
    pub(in crate::ftl) fn empty(&mut self, block: u32) -> bool {
        if self.block(block).valid > 0 {
            return self.evacuate(block);
        }
        self.discard(block);
        true
    }

    /// Begins to merge a logical block: in place if its log block, or the block that is being emptied, holds its pages
    /// in order; otherwise into a free block; if there is none, into its data block if that holds its pages in order.
    /// Returns false if nothing can be merged into.
    pub(super) fn begin(&mut self, logical: u32) -> bool {
        debug_assert!(self.merge.is_none());
        let emptied = self.emptying.front().copied().filter(|&block| self.block(block).role == Role::Orphan);
        let in_place = [Some(self.logical(logical).log), emptied]
            .into_iter()
            .flatten()
            .find(|&block| block != NONE && self.holds_in_order(block, logical));
        let target = in_place.or_else(|| self.take(Role::Target, logical, 0)).or_else(|| self.data_in_order(logical));
        let Some(target) = target else { return false };
        self.begin_at(logical, target);
        true
    }

    fn begin_at(&mut self, logical: u32, target: u32) {
        let held = *self.block(target);
        if held.role == Role::Log {
            self.logical[logical as usize].log = NONE;
            self.opened.retain(|&own| own != logical);
        }
        if held.role == Role::Data {
            self.logical[logical as usize].data = NONE;
        }
        if held.role != Role::Target {
            self.set_role(target, Role::Target);
        }
        self.stop_evacuating(target);
        self.blocks[target as usize].owner = logical;
        let first = logical * self.config.pages;
        let past = self.config.lpns.min(first + self.config.pages);
        let last = (first + held.next.min(past - first)..past).rfind(|&lpn| self.l2p[lpn as usize] != NONE);
        let end = last.map_or(held.next, |lpn| lpn - first + 1);
        let full = held.next == 0 || held.copied;
        self.merge = Some(Merge { logical, target, end, full, copied: false });
    }

    /// The last resort if no block is free: begins a merge that needs no free block, or releases a block whose pages
    /// are all invalid. Returns false if there is neither.
    pub(super) fn relieve(&mut self) -> bool {
        if self.merge.is_some() || !self.free.is_empty() {
            return false;
        }
        let invalid = |block: &u32| {
            let held = self.block(*block);
            matches!(held.role, Role::Data | Role::Log | Role::Shared | Role::Orphan)
                && held.valid == 0
                && held.next > 0
        };
        if let Some(block) = (0..self.config.blocks).find(invalid) {
            let flawed = self.block(block).flawed;
            self.discard(block);
            return !flawed || self.relieve();
        }
        let log_in_order = |&logical: &u32| {
            let log = self.logical(logical).log;
            self.holds_in_order(log, logical).then_some((self.block(log).stamp, logical, log))
        };
        let data_in_order = |&logical: &u32| {
            let stamp = self.block(self.logical(logical).log).stamp;
            self.data_in_order(logical).map(|data| (stamp, logical, data))
        };
        // The one whose log block was written least recently.
        let oldest = self.opened.iter().filter_map(log_in_order).min();
        match oldest.or_else(|| self.opened.iter().filter_map(data_in_order).min()) {
            Some((_, logical, target)) => {
                self.begin_at(logical, target);
                true
            }
            None => false,
        }
    }

    /// A logical block's data block, if the pages that it does not hold can be added to it.
    fn data_in_order(&self, logical: u32) -> Option<u32> {
        Some(self.logical(logical).data).filter(|&data| data != NONE && self.holds_in_order(data, logical))
    }

    /// Whether a block can become a logical block's data block as it is: each allocated page holds the newest contents
    /// for its offset, or the logical page of that offset is unmapped.
    pub(super) fn holds_in_order(&self, block: u32, logical: u32) -> bool {
        let Block { flawed, next, .. } = *self.block(block);
        let (first, from) = (logical * self.config.pages, block * self.config.pages);
        !flawed
            && (0..next).all(|offset| match self.p2l[(from + offset) as usize] {
                NONE => self.l2p.get((first + offset) as usize).is_none_or(|&newest| newest == NONE),
                lpn => lpn == first + offset,
            })
    }

    /// The next copy of a merge; `None` when the merge has ended.
    fn merge_step(&mut self, merge: Merge) -> Option<Step> {
        let Merge { logical, target, end, full, copied } = merge;
        if self.block(target).next < end {
            let step = self.fill(target);
            if let (Some(merge), Step::Copy { .. }) = (&mut self.merge, step) {
                merge.copied = true;
            }
            return Some(step);
        }
        self.merge = None;
        if self.logical(logical).live == 0 || self.block(target).valid == 0 {
            // Its pages were trimmed, or their programs failed, in the meantime.
            self.discard(target);
        } else {
            match (full, copied) {
                (true, _) => self.counts.full_merges += 1,
                (false, true) => self.counts.partial_merges += 1,
                (false, false) => self.counts.switch_merges += 1,
            }
        }
        let Logical { data, log, .. } = *self.logical(logical);
        for old in [data, log].into_iter().filter(|&old| old != NONE) {
            if self.block(old).valid == 0 {
                self.discard(old);
            }
        }
        if self.block(target).role == Role::Target {
            debug_assert_eq!(self.logical(logical).data, NONE, "the old data block holds pages after the merge");
            self.set_role(target, Role::Data);
            self.logical[logical as usize].data = target;
        }
        None
    }

    /// Work for idle times: pending work, then merges that copy nothing.
    pub(super) fn idle_step(&mut self) -> Option<Step> {
        loop {
            if let Some(step) = self.work() {
                return Some(step);
            }
            if self.merge.is_some() {
                return None;
            }
            let complete = |&&logical: &&u32| {
                let log = self.logical(logical).log;
                self.block(log).next == self.config.pages && self.holds_in_order(log, logical)
            };
            let &logical = self.opened.iter().find(complete)?;
            self.begin_at(logical, self.logical(logical).log);
        }
    }

    /// The logical block whose log block was written least recently.
    pub(in crate::ftl) fn least_recent_log(&self) -> Option<u32> {
        self.opened.iter().copied().min_by_key(|&logical| self.block(self.logical(logical).log).stamp)
    }
}
