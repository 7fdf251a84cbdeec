//! An index of the candidates, with which every policy finds its victim without a scan over all blocks.
//!
//! Blocks are divided into groups of about the square root of their number. For each group the index keeps the number
//! of candidates and the fewest valid pages among them. So invalidating a page costs one comparison, and the overall
//! minimum is found by looking at the groups and then into one of them. Candidates also have *slots* in the order in
//! which they were closed. Equally many consecutive slots form a *cohort*, for which the index keeps the fewest valid
//! pages too. The benefit of the fewest valid pages at the age of the oldest member is an upper bound for every member
//! of a cohort. When slots run out, they are compacted.
//!
//! Invariants (asserted by [`Index::check`]): the minimum of a group or cohort is the least key of its candidates, or
//! [`NOT_CANDIDATE`] if it has none; every candidate has one slot, and slots are in strictly ascending order of
//! closing.

use super::{Candidate, GcPolicy, benefit_exceeds};
use crate::ftl::NONE;
use sim::Rng;

/// Added to the key (count of valid pages) of a block that is not a candidate.
pub const NOT_CANDIDATE: u32 = 1 << 31;

/// Valid pages of every block of a unit, and the candidates among them.
#[derive(Clone, Debug)]
pub struct Index {
    /// Valid pages of each block; plus [`NOT_CANDIDATE`] unless it is a candidate.
    keys: Vec<u32>,
    /// For each group: least key of its candidates, or [`NOT_CANDIDATE`].
    least: Vec<u32>,
    /// For each group: number of candidates.
    members: Vec<u32>,
    /// A block's group is its number shifted right by this.
    shift: u32,
    count: u32,
    /// Candidates in the order in which they were closed; [`NONE`] where one was removed.
    slots: Vec<u32>,
    /// Slots in use, those of removed candidates included.
    used: u32,
    slot: Vec<u32>,
    /// For each cohort: least key of its candidates, or [`NOT_CANDIDATE`].
    cohorts: Vec<u32>,
    closed_at: Vec<u64>,
}

impl Index {
    /// An index of `blocks` blocks without valid pages, none of them a candidate.
    pub fn new(blocks: u32) -> Index {
        let shift = (u32::BITS - blocks.leading_zeros()).div_ceil(2);
        let groups = (blocks.div_ceil(1 << shift)) as usize;
        let blocks = blocks as usize;
        Index {
            keys: vec![NOT_CANDIDATE; blocks],
            least: vec![NOT_CANDIDATE; groups],
            members: vec![0; groups],
            shift,
            count: 0,
            slots: vec![NONE; (2 * groups) << shift],
            used: 0,
            slot: vec![0; blocks],
            cohorts: vec![NOT_CANDIDATE; 2 * groups],
            closed_at: vec![0; blocks],
        }
    }

    /// Number of valid pages of a block, candidate or not.
    #[inline]
    pub fn valid(&self, block: u32) -> u32 {
        self.keys[block as usize] & !NOT_CANDIDATE
    }

    /// Whether a block is a candidate for collection.
    #[inline]
    pub fn is_candidate(&self, block: u32) -> bool {
        self.keys[block as usize] < NOT_CANDIDATE
    }

    /// Number of candidates for collection.
    #[inline]
    pub fn candidates(&self) -> u32 {
        self.count
    }

    /// Counts a page of `block` as invalid.
    #[inline]
    pub fn invalidate(&mut self, block: u32) {
        let key = &mut self.keys[block as usize];
        *key -= 1;
        if *key < NOT_CANDIDATE {
            let least = &mut self.least[(block >> self.shift) as usize];
            *least = (*least).min(*key);
            let cohort = &mut self.cohorts[(self.slot[block as usize] >> self.shift) as usize];
            *cohort = (*cohort).min(*key);
        }
    }

    /// Counts `pages` more valid pages in `block`, which must not be a candidate.
    #[inline]
    pub fn add_valid(&mut self, block: u32, pages: u32) {
        self.keys[block as usize] += pages;
    }

    /// Counts `pages` fewer valid pages in `block`, which must not be a candidate.
    pub fn remove_valid(&mut self, block: u32, pages: u32) {
        self.keys[block as usize] -= pages;
    }

    /// Makes `block` a candidate, closed at `now`, later than all others.
    pub fn insert(&mut self, block: u32, now: u64) {
        let at = block as usize;
        self.keys[at] -= NOT_CANDIDATE;
        let group = (block >> self.shift) as usize;
        self.least[group] = self.least[group].min(self.keys[at]);
        self.members[group] += 1;
        self.count += 1;
        self.closed_at[at] = now;
        if self.used as usize == self.slots.len() {
            self.close_up();
        }
        self.take_slot(block);
    }

    fn take_slot(&mut self, block: u32) {
        let slot = self.used;
        self.used += 1;
        self.slots[slot as usize] = block;
        self.slot[block as usize] = slot;
        let cohort = &mut self.cohorts[(slot >> self.shift) as usize];
        *cohort = (*cohort).min(self.keys[block as usize]);
    }

    /// Compacts the slots: moves all candidates to the first ones.
    fn close_up(&mut self) {
        self.used = 0;
        self.cohorts.fill(NOT_CANDIDATE);
        for slot in 0..self.slots.len() {
            let block = std::mem::replace(&mut self.slots[slot], NONE);
            if block != NONE {
                self.take_slot(block);
            }
        }
    }

    /// Removes `block` from the candidates.
    pub fn remove(&mut self, block: u32) {
        let at = block as usize;
        self.keys[at] += NOT_CANDIDATE;
        let group = block >> self.shift;
        self.least[group as usize] = self.group(group).iter().fold(NOT_CANDIDATE, |least, &key| least.min(key));
        self.members[group as usize] -= 1;
        self.count -= 1;
        let slot = self.slot[at];
        self.slots[slot as usize] = NONE;
        let cohort = slot >> self.shift;
        let keys = self.cohort(cohort).map(|block| self.keys[block as usize]);
        self.cohorts[cohort as usize] = keys.fold(NOT_CANDIDATE, u32::min);
    }

    fn group(&self, group: u32) -> &[u32] {
        let from = (group as usize) << self.shift;
        &self.keys[from..(from + (1 << self.shift)).min(self.keys.len())]
    }

    /// Candidates of a cohort, oldest first.
    fn cohort(&self, cohort: u32) -> impl Iterator<Item = u32> + '_ {
        let from = (cohort as usize) << self.shift;
        self.slots[from..from + (1 << self.shift)].iter().copied().filter(|&block| block != NONE)
    }

    /// Cohorts that have candidates, oldest first, each with its least key.
    fn occupied_cohorts(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        (0..).zip(self.cohorts.iter().copied()).filter(|&(_, least)| least < NOT_CANDIDATE)
    }

    /// Candidates, oldest first.
    pub fn oldest_first(&self) -> impl Iterator<Item = u32> + '_ {
        self.occupied_cohorts().flat_map(|(cohort, _)| self.cohort(cohort))
    }

    /// Candidates in ascending order of their numbers, as a policy gets them.
    pub fn list(&self) -> Vec<Candidate> {
        let candidates = (0..self.keys.len() as u32).filter(|&block| self.is_candidate(block));
        candidates.map(|block| self.candidate(block)).collect()
    }

    fn candidate(&self, block: u32) -> Candidate {
        Candidate { block, valid: self.valid(block), closed_at: self.closed_at[block as usize] }
    }

    /// The victim that `policy` selects; the same as [`GcPolicy::choose`] of [`Index::list`].
    pub fn choose(&self, policy: GcPolicy, pages: u32, now: u64, rng: &mut Rng) -> Option<u32> {
        match policy {
            GcPolicy::Greedy => self.greedy(),
            GcPolicy::CostBenefit => self.cost_benefit(pages, now),
            GcPolicy::DChoices { d } => self.d_choices(d, rng),
            GcPolicy::Fifo => self.oldest_first().next(),
            GcPolicy::Windowed { window } => self.oldest_first().take(window as usize).min_by_key(|&b| self.valid(b)),
            GcPolicy::Random => self.d_choices(1, rng),
        }
    }

    /// The candidate with the fewest valid pages; the lowest on a tie.
    pub fn greedy(&self) -> Option<u32> {
        let least = self.least.iter().copied().fold(NOT_CANDIDATE, u32::min);
        if least == NOT_CANDIDATE {
            return None;
        }
        let group = self.least.iter().position(|&key| key == least)? as u32;
        let within = self.group(group).iter().position(|&key| key == least)?;
        Some((group << self.shift) + within as u32)
    }

    /// Examines cohorts from the oldest, and skips those whose upper bound does not exceed the best candidate so far.
    fn cost_benefit(&self, pages: u32, now: u64) -> Option<u32> {
        let greedy = self.greedy()?;
        if self.valid(greedy) == 0 {
            return Some(greedy);
        }
        let age = |block: u32| now - self.closed_at[block as usize];
        let mut best: Option<(u32, (u32, u64))> = None;
        for (cohort, least) in self.occupied_cohorts() {
            let oldest = self.cohort(cohort).next().map_or(0, age);
            if best.is_some_and(|(_, pair)| !benefit_exceeds((least, oldest), pair, pages)) {
                continue;
            }
            for block in self.cohort(cohort) {
                let candidate = (self.valid(block), age(block));
                if best.is_none_or(|(_, pair)| benefit_exceeds(candidate, pair, pages)) {
                    best = Some((block, candidate));
                }
            }
        }
        best.map(|(block, _)| block)
    }

    fn d_choices(&self, d: u32, rng: &mut Rng) -> Option<u32> {
        if self.count == 0 {
            return None;
        }
        let drawn = (0..d.max(1)).map(|_| self.nth(rng.below(u64::from(self.count)) as u32));
        drawn.min_by_key(|&block| (self.valid(block), block))
    }

    /// The candidate with `rank` candidates before it in ascending order of numbers.
    fn nth(&self, mut rank: u32) -> u32 {
        let mut group = 0;
        while rank >= self.members[group as usize] {
            rank -= self.members[group as usize];
            group += 1;
        }
        let mut within = self.group(group).iter().enumerate().filter(|&(_, &key)| key < NOT_CANDIDATE);
        let (place, _) = within.nth(rank as usize).expect("the group has more candidates than the rank");
        (group << self.shift) + place as u32
    }

    /// Panics unless the invariants of this module hold.
    pub fn check(&self) {
        for (group, (&least, &members)) in (0..).zip(self.least.iter().zip(&self.members)) {
            let candidates = || self.group(group).iter().copied().filter(|&key| key < NOT_CANDIDATE);
            assert_eq!(candidates().min().unwrap_or(NOT_CANDIDATE), least, "least of group {group}");
            assert_eq!(candidates().count() as u32, members, "members of group {group}");
        }
        for (cohort, &least) in (0..).zip(&self.cohorts) {
            let keys = self.cohort(cohort).map(|block| self.keys[block as usize]);
            assert_eq!(keys.fold(NOT_CANDIDATE, u32::min), least, "least of cohort {cohort}");
        }
        let order: Vec<u32> = self.slots.iter().copied().filter(|&block| block != NONE).collect();
        assert_eq!(order.len() as u32, self.count, "every candidate has a slot");
        assert!(order.iter().all(|&block| self.slots[self.slot[block as usize] as usize] == block));
        assert_eq!(self.members.iter().sum::<u32>(), self.count);
        assert!(order.iter().all(|&block| self.is_candidate(block)));
        assert!(order.windows(2).all(|pair| self.closed_at[pair[0] as usize] < self.closed_at[pair[1] as usize]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sim::Seed;

    fn policies() -> Vec<GcPolicy> {
        let mut all = vec![GcPolicy::Greedy, GcPolicy::CostBenefit, GcPolicy::Fifo, GcPolicy::Random];
        all.extend([1, 2, 10].map(|d| GcPolicy::DChoices { d }));
        all.extend([1, 3, 1000].map(|window| GcPolicy::Windowed { window }));
        all
    }

    proptest! {
        #[test]
        fn the_index_chooses_what_the_scan_chooses(
            blocks in 1u32..70, pages in 1u32..9, moves in prop::collection::vec(any::<(u32, u8)>(), 1..300),
        ) {
            let mut index = Index::new(blocks);
            let mut now = 0;
            for (block, what) in moves {
                let block = block % blocks;
                now += 1 + u64::from(what / 16);
                if !index.is_candidate(block) {
                    index.add_valid(block, pages - index.valid(block));
                    index.insert(block, now);
                } else if what % 4 == 0 {
                    index.remove(block);
                } else if index.valid(block) > 0 {
                    index.invalidate(block);
                }
                index.check();
                for policy in policies() {
                    let (mut one, mut other) = (Seed(now).stream("gc"), Seed(now).stream("gc"));
                    let (by_index, by_scan) =
                        (index.choose(policy, pages, now, &mut one), policy.choose(&index.list(), pages, now, &mut other));
                    prop_assert_eq!(by_index, by_scan, "{:?}", policy);
                    prop_assert_eq!(one.bits(), other.bits(), "as many draws");
                }
            }
        }
    }

    #[test]
    fn cost_benefit_takes_an_old_fuller_block_before_a_young_emptier_one() {
        let candidate = |block, valid, closed_at| Candidate { block, valid, closed_at };
        let blocks = [candidate(0, 40, 900), candidate(1, 50, 0), candidate(2, 63, 1)];
        let mut rng = Seed(1).stream("gc");
        let mut choose = |policy: GcPolicy| policy.choose(&blocks, 64, 1000, &mut rng);
        // 24/80 of 100 against 14/100 of 1000.
        assert_eq!(choose(GcPolicy::CostBenefit), Some(1));
        assert_eq!(choose(GcPolicy::Greedy), Some(0));
        assert_eq!(choose(GcPolicy::Fifo), Some(1));
        assert_eq!(choose(GcPolicy::Windowed { window: 2 }), Some(1));
        assert_eq!(choose(GcPolicy::Windowed { window: 3 }), Some(0));
    }
}
