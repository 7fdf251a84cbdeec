//! Victim selection of garbage collection: which block is collected next.
//!
//! A policy is a pure function of the candidates: the closed blocks of a unit, in ascending order of their numbers.
//! [`Index`] finds the same victim without examining all of them; a property test verifies that the two agree. This
//! module knows counts and ages of blocks; it knows neither pages nor mappings.
//!
//! Age is counted in pages that the unit has programmed since the block was closed.

mod index;

pub use index::{Index, NOT_CANDIDATE};
use sim::Rng;

/// A victim selection policy. Ties are part of the rule, so that runs repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GcPolicy {
    /// Fewest valid pages; the lowest block on a tie.
    Greedy,
    /// Greatest `(1 - u) / 2u * age`, where `u` is the valid share of the block (Kawaguchi, Nishioka, Motoda 1995); the
    /// oldest on a tie. A block without valid pages comes before all others, the lowest first.
    CostBenefit,
    /// Fewest valid pages of `d` candidates drawn with replacement; the lowest block on a tie (Van Houdt 2013).
    DChoices {
        /// Number of candidates drawn, at least 1.
        d: u32,
    },
    /// The candidate that was closed first.
    Fifo,
    /// Fewest valid pages among the `window` oldest candidates; the oldest on a tie (Hu et al. 2009).
    Windowed {
        /// Number of candidates examined, at least 1.
        window: u32,
    },
    /// Any candidate, with equal probability.
    Random,
}

/// A block that may be collected: it is closed.
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
    /// The victim among `candidates`, which must be in ascending order of `block`; `None` if there are none. `pages` is
    /// the number of pages of a block, `now` the unit's clock in programmed pages.
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

/// The candidate with the fewest valid pages: [`GcPolicy::Greedy`].
pub fn greedy(candidates: &[Candidate]) -> Option<u32> {
    candidates.iter().min_by_key(|candidate| (candidate.valid, candidate.block)).map(|candidate| candidate.block)
}

/// The candidate with the greatest benefit-cost ratio: [`GcPolicy::CostBenefit`].
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

/// Whether the first pair `(valid, age)` has a greater `(pages - valid) / valid * age` than the second, in exact
/// arithmetic.
fn benefit_exceeds(first: (u32, u64), second: (u32, u64), pages: u32) -> bool {
    let gain = |(valid, age): (u32, u64)| u128::from(pages - valid) * u128::from(age);
    gain(first) * u128::from(second.0) > gain(second) * u128::from(first.0)
}

/// The candidate that was closed first: [`GcPolicy::Fifo`].
pub fn fifo(candidates: &[Candidate]) -> Option<u32> {
    candidates.iter().min_by_key(|candidate| candidate.closed_at).map(|candidate| candidate.block)
}

/// The candidate with the fewest valid pages among the oldest `window`: [`GcPolicy::Windowed`].
pub fn windowed(candidates: &[Candidate], window: u32) -> Option<u32> {
    let mut oldest_first: Vec<&Candidate> = candidates.iter().collect();
    oldest_first.sort_unstable_by_key(|candidate| candidate.closed_at);
    let oldest = oldest_first.into_iter().take(window as usize);
    oldest.min_by_key(|candidate| (candidate.valid, candidate.closed_at)).map(|candidate| candidate.block)
}

/// The candidate with the fewest valid pages among `d` drawn ones: [`GcPolicy::DChoices`].
pub fn d_choices(candidates: &[Candidate], d: u32, rng: &mut Rng) -> Option<u32> {
    if candidates.is_empty() {
        return None;
    }
    let drawn = (0..d.max(1)).map(|_| &candidates[rng.below(candidates.len() as u64) as usize]);
    drawn.min_by_key(|candidate| (candidate.valid, candidate.block)).map(|candidate| candidate.block)
}
