//! Many host pages at once, without a step for each copy. Leaves the same state as [`UnitFtl::place`] with the steps
//! that it requires, in a fraction of the time.
//!
//! Most of the time goes to cache misses in the tables, so entries are prefetched in batches before they are used, and
//! a victim is emptied in a loop over its part of `p2l`.

use super::*;
use crate::untimed::{Tally, perform};

/// Number of host pages whose table entries are prefetched.
const AHEAD: usize = 32;

impl PageFtl {
    pub(super) fn write_at_once(&mut self, lpns: &[u32], tally: &mut Tally) -> Result<(), usize> {
        let mut done = 0;
        while done < lpns.len() {
            let run = self.free_run().min((lpns.len() - done) as u32) as usize;
            if run > 0 {
                self.write_run(&lpns[done..done + run]);
                tally.programmed[Cause::Host] += run as u64;
                done += run;
                continue;
            }
            match self.place(lpns[done]) {
                Place::At(_) => {
                    tally.programmed[Cause::Host] += 1;
                    done += 1;
                }
                Place::Full => return Err(done),
                Place::Work(step) => {
                    perform(self, step, tally);
                    self.finish_job(tally);
                }
            }
        }
        Ok(())
    }

    /// Number of host pages that go to the open block with no work between them.
    fn free_run(&self) -> u32 {
        let quiet = self.config.slc.is_none() && self.job.is_none() && self.failing.is_empty() && !self.levelling_due();
        if quiet { self.frontiers[HOST].room().min(self.pages_until_job()) } else { 0 }
    }

    /// Writes `lpns` to the host's frontier, which must have room for them.
    fn write_run(&mut self, lpns: &[u32]) {
        let first = self.frontiers[HOST].next;
        let block = self.block_of(first);
        // Added at once, so that pages overwritten within the run can be subtracted again.
        self.index.add_valid(block, lpns.len() as u32);
        let mut ppn = first;
        for batch in lpns.chunks(AHEAD) {
            for &lpn in batch {
                prefetch(&self.l2p, lpn as usize);
            }
            for &lpn in batch {
                prefetch(&self.p2l, self.l2p[lpn as usize] as usize);
            }
            for &lpn in batch {
                let old = std::mem::replace(&mut self.l2p[lpn as usize], ppn);
                if old != NONE {
                    self.p2l[old as usize] = NONE;
                    self.index.invalidate(self.by_pages.quotient(old));
                }
                self.p2l[ppn as usize] = lpn;
                ppn += 1;
            }
        }
        self.programmed[Cause::Host] += lpns.len() as u64;
        self.advance_frontier(HOST, block, lpns.len() as u32);
    }

    /// All remaining steps of a job that the host waits for, paced ones too: without time, there is nothing to spread
    /// them over. Leaves it under way if there is no room.
    fn finish_job(&mut self, tally: &mut Tally) {
        let Some(job) = self.job.filter(Job::is_urgent) else {
            return;
        };
        let frontier = self.frontier_for(job.cause);
        let valid = self.index.valid(job.block);
        let mut left = valid;
        let mut from = job.rest().start;
        while left > 0 && self.open(frontier) {
            let Frontier { next, .. } = self.frontiers[frontier];
            let pages = left.min(self.frontiers[frontier].room());
            let to_block = self.block_of(next);
            let mut to = next;
            while to < next + pages {
                let lpn = std::mem::replace(&mut self.p2l[from as usize], NONE);
                from += 1;
                if let Some(&later) = self.p2l.get(from as usize + AHEAD / 2) {
                    prefetch(&self.l2p, later as usize);
                }
                if lpn != NONE {
                    self.l2p[lpn as usize] = to;
                    self.p2l[to as usize] = lpn;
                    to += 1;
                }
            }
            left -= pages;
            self.index.remove_valid(job.block, pages);
            self.index.add_valid(to_block, pages);
            self.programmed[job.cause] += u64::from(pages);
            tally.programmed[job.cause] += u64::from(pages);
            self.advance_frontier(frontier, to_block, pages);
        }
        self.job = Some(job.after(from, valid - left));
        if left == 0
            && let Some(step) = self.finish_emptied()
        {
            perform(self, step, tally);
        }
    }
}
