//! Which block garbage collection empties next.
//!
//! A policy is a pure function of the candidates: the closed blocks of a unit, in ascending order of their numbers.
//! [`Index`] answers the same without looking at all of them; a property test holds the two equal. It knows counts and
//! ages of blocks, and neither pages nor mappings.
//!
//! Age is counted in pages: how many the unit has programmed since the block was closed.

mod index;

pub use index::{Index, NOT_CANDIDATE};
use sim::Rng;

/// A rule by which a victim is chosen. Ties are part of the rule, so that runs repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GcPolicy {
    /// Fewest valid pages; the lowest block on a tie.
    Greedy,
    /// Greatest `(1 - u) / 2u * age`, where `u` is the valid share of the block (Kawaguchi, Nishioka, Motoda 1995); the
    /// oldest on a tie. A block without valid pages comes before all others, the lowest first.
    CostBenefit,
    /// Fewest valid pages of `d` blocks drawn with replacement; the lowest block on a tie (Van Houdt 2013).
    DChoices {
        /// How many are drawn, at least 1.
        d: u32,
    },
    /// The block closed first.
    Fifo,
    /// Fewest valid pages of the `window` oldest; the oldest on a tie (Hu et al. 2009).
    Windowed {
        /// How many are looked at, at least 1.
        window: u32,
    },
    /// Any, with equal chances.
    Random,
}

/// A block that may be collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Number of the block in its unit.
    pub block: u32,
    /// Pages that would have to be relocated.
    pub valid: u32,
    /// The unit's clock, in programmed pages, when the block was closed: different for every block.
    pub closed_at: u64,
}

impl GcPolicy {
    /// The victim among `candidates`, which are in ascending order of `block`; `None` if there are none. `pages` is how
    /// many a block has, `now` the unit's clock.
    pub fn choose(self, candidates: &[Candidate], pages: u32, now: u64, rng: &mut Rng) -> Option<u32> {
        match self {
            GcPolicy::Greedy => greedy(candidates),
            GcPolicy::CostBenefit => cost_benefit(candidates, pages, now),
            GcPolicy::DChoices { d } => d_choices(candidates, d, rng),
            GcPolicy::Fifo => fifo(candidates),
            GcPolicy::Windowed { window } => windowed(candidates, window),
            GcPolicy::Random => d_choices(candidates, 1, rng),
        }
    }
}

/// See [`GcPolicy::Greedy`].
pub fn greedy(candidates: &[Candidate]) -> Option<u32> {
    candidates.iter().min_by_key(|candidate| (candidate.valid, candidate.block)).map(|candidate| candidate.block)
}

/// See [`GcPolicy::CostBenefit`].
pub fn cost_benefit(candidates: &[Candidate], pages: u32, now: u64) -> Option<u32> {
    if let Some(empty) = candidates.iter().find(|candidate| candidate.valid == 0) {
        return Some(empty.block);
    }
    let mut oldest_first: Vec<&Candidate> = candidates.iter().collect();
    oldest_first.sort_unstable_by_key(|candidate| candidate.closed_at);
    let mut best: Option<&Candidate> = None;
    for candidate in oldest_first {
        if best.is_none_or(|best| {
            benefit_exceeds((candidate.valid, now - candidate.closed_at), (best.valid, now - best.closed_at), pages)
        }) {
            best = Some(candidate);
        }
    }
    best.map(|candidate| candidate.block)
}

/// Whether `(pages - valid) / valid * age` of the first pair `(valid, age)` exceeds that of the second, exactly.
fn benefit_exceeds(first: (u32, u64), second: (u32, u64), pages: u32) -> bool {
    let gain = |(valid, age): (u32, u64)| u128::from(pages - valid) * u128::from(age);
    gain(first) * u128::from(second.0) > gain(second) * u128::from(first.0)
}

/// See [`GcPolicy::Fifo`].
pub fn fifo(candidates: &[Candidate]) -> Option<u32> {
    candidates.iter().min_by_key(|candidate| candidate.closed_at).map(|candidate| candidate.block)
}

/// See [`GcPolicy::Windowed`].
pub fn windowed(candidates: &[Candidate], window: u32) -> Option<u32> {
    let mut oldest_first: Vec<&Candidate> = candidates.iter().collect();
    oldest_first.sort_unstable_by_key(|candidate| candidate.closed_at);
    let oldest = oldest_first.into_iter().take(window as usize);
    oldest.min_by_key(|candidate| (candidate.valid, candidate.closed_at)).map(|candidate| candidate.block)
}

/// See [`GcPolicy::DChoices`].
pub fn d_choices(candidates: &[Candidate], d: u32, rng: &mut Rng) -> Option<u32> {
    if candidates.is_empty() {
        return None;
    }
    let drawn = (0..d.max(1)).map(|_| &candidates[rng.below(candidates.len() as u64) as usize]);
    drawn.min_by_key(|candidate| (candidate.valid, candidate.block)).map(|candidate| candidate.block)
}
