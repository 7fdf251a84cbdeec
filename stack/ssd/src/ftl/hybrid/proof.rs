//! Assertion of the invariants.

use super::*;

impl<P: LogPolicy> Hybrid<P> {
    /// Panics unless the invariants that the module's header lists hold. Examines every page.
    pub fn check(&self) {
        let pages = self.config.pages;
        for (lpn, &ppn) in (0..).zip(&self.l2p) {
            assert!(ppn == NONE || self.p2l[ppn as usize] == lpn, "page {lpn} is at {ppn}, which says otherwise");
        }
        let mut live = vec![0; self.logical.len()];
        let mut good = 0;
        let mut counts = [0usize; 3];
        for (number, block) in (0..).zip(&self.blocks) {
            let first = number * pages;
            let mut valid = 0;
            for offset in 0..pages {
                let lpn = self.p2l[(first + offset) as usize];
                if lpn == NONE {
                    continue;
                }
                assert_eq!(self.l2p[lpn as usize], first + offset, "page {lpn}");
                assert!(offset < block.next, "page {offset} of block {number} was not handed out");
                if matches!(block.role, Role::Data | Role::Target) {
                    assert_eq!(lpn, block.owner * pages + offset, "block {number} holds page {lpn} out of place");
                }
                if block.role == Role::Log {
                    assert_eq!(lpn / pages, block.owner, "block {number}");
                }
                valid += 1;
                live[(lpn / pages) as usize] += 1;
            }
            assert_eq!(valid, block.valid, "valid pages of block {number}");
            good += u32::from(block.role != Role::Bad && !block.flawed);
            let none = || assert_eq!(valid, 0, "block {number} is {:?}", block.role);
            match block.role {
                Role::Free => {
                    none();
                    assert_eq!((block.next, block.flawed), (0, false));
                    counts[0] += 1;
                }
                Role::Stale => {
                    none();
                    assert!(self.stale.contains(&number));
                }
                Role::Erasing | Role::Bad => none(),
                Role::Data => assert_eq!(self.logical(block.owner).data, number),
                Role::Log => {
                    assert_eq!(self.logical(block.owner).log, number);
                    assert!(self.opened.contains(&block.owner));
                    counts[1] += 1;
                }
                Role::Shared => {
                    assert!(self.shared.contains(&number));
                    counts[2] += 1;
                }
                Role::Target => assert_eq!(self.merge.map(|merge| merge.target), Some(number)),
                Role::Orphan => assert!(block.evacuating),
            }
            assert_eq!(block.evacuating, self.emptying.contains(&number), "whether block {number} is to be emptied");
            assert!(!block.evacuating || valid > 0, "block {number} is empty and not discarded");
        }
        assert_eq!(counts, [self.free.len(), self.opened.len(), self.shared.len()]);
        match P::LOGS {
            LogKind::PerBlock | LogKind::InPlace => assert!(self.shared.is_empty(), "no log block is shared"),
            LogKind::Shared => assert!(self.opened.len() <= 1, "one sequential log block"),
        }
        assert_eq!(good, self.good);
        for (at, logical) in (0..).zip(&self.logical) {
            assert_eq!(logical.live, live[at as usize], "live pages of logical block {at}");
            for (block, role) in [(logical.data, Role::Data), (logical.log, Role::Log)] {
                assert!(block == NONE || (self.block(block).role, self.block(block).owner) == (role, at));
            }
        }
    }
}
