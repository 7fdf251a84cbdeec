//! Assertion of the invariants.

use super::*;

impl PageFtl {
    /// Panics unless the invariants that the module's header lists hold. Examines every page.
    pub fn check(&self) {
        let pages = self.config.pages;
        let mapped = self.l2p.iter().filter(|&&ppn| ppn != NONE).count();
        assert_eq!(mapped, self.p2l.iter().filter(|&&lpn| lpn != NONE).count(), "mapped pages, seen from both sides");
        for (lpn, &ppn) in (0..).zip(&self.l2p) {
            assert!(ppn == NONE || self.p2l[ppn as usize] == lpn, "lpn {lpn} is at {ppn}, which disagrees");
        }
        self.index.check();
        let mut open = 0;
        for block in 0..self.config.blocks {
            let at = (block * pages) as usize;
            let valid = self.p2l[at..at + pages as usize].iter().filter(|&&lpn| lpn != NONE).count() as u32;
            assert_eq!(valid, self.index.valid(block), "valid pages of block {block}");
            let handed_out = self.handed_out(block);
            let beyond = &self.p2l[at + handed_out as usize..at + pages as usize];
            assert!(beyond.iter().all(|&lpn| lpn == NONE), "block {block}: a page that was not handed out is mapped");
            let state = self.state[block as usize];
            let slc = self.slc[block as usize];
            match state {
                BlockState::Free => assert_eq!(handed_out, 0, "free block {block}"),
                BlockState::Erasing | BlockState::Bad => assert_eq!(valid, 0, "{state:?} block {block}"),
                _ => {}
            }
            let frontiers = self.frontiers.iter().filter(|frontier| self.is_frontier(**frontier, block)).count();
            assert_eq!(frontiers == 1, state == BlockState::Open, "block {block} is {state:?}");
            open += frontiers;
            let pooled = |pool: &FreeBlocks| pool.iter().any(|other| other == block);
            assert_eq!(pooled(&self.free), state == BlockState::Free && !slc, "block {block} is {state:?}");
            assert_eq!(pooled(&self.slc_free), state == BlockState::Free && slc, "block {block} is {state:?}");
            assert_eq!(
                self.index.is_candidate(block),
                state == BlockState::Closed && !slc,
                "block {block} is {state:?}"
            );
            assert_eq!(self.slc_closed.contains(&block), state == BlockState::Closed && slc);
            assert_eq!(self.failing.contains(&block), state == BlockState::Failing);
            let worked_on = [self.job, self.fold].into_iter().flatten().filter(|job| job.block == block).count();
            assert_eq!(worked_on == 1, state == BlockState::Victim, "block {block} is {state:?}");
        }
        assert_eq!(open, self.frontiers.iter().filter(|frontier| frontier.room() > 0).count());
        assert_eq!(self.programmed.total(), self.clock - self.clock_before, "every page has a cause");
        assert_eq!(self.spread.difference(), self.spread_of_good_blocks().difference());
    }
}
