//! A set of PEBs that knows its least worn member.
//!
//! Holds the used PEBs, which are nearly all of a full device. Only the first in the order (erase count, PEB number) is
//! needed, so this is a tournament tree with sixteen players per match. It keeps only the winners: the keys are with
//! the owner of the PEBs, which is asked when a winner leaves.

use std::ops::Range;

use sim::{EraseCount, Peb};

/// PEBs in a match.
pub(super) const FAN: usize = 16;
/// The key of a PEB that is not in the set.
pub(super) const ABSENT: u64 = u64::MAX;

/// Erase count above PEB number.
#[inline]
pub(super) fn key_of(peb: Peb, ec: EraseCount) -> u64 {
    u64::from(ec.0) << 32 | u64::from(peb.0)
}

/// A set of PEBs.
#[derive(Clone, Debug)]
pub struct Lowest {
    /// Level 0 holds the least key of sixteen PEBs; level n+1 the least of sixteen of level n; the last level one entry.
    levels: Vec<Vec<u64>>,
    len: u32,
}

impl Lowest {
    /// An empty set with room for PEBs `0..pebs`.
    pub fn new(pebs: u32) -> Lowest {
        let mut levels = Vec::new();
        let mut entrants = (pebs as usize).max(1);
        loop {
            let matches = entrants.div_ceil(FAN);
            let room = if matches == 1 { 1 } else { matches.next_multiple_of(FAN) };
            levels.push(vec![ABSENT; room]);
            if matches == 1 {
                return Lowest { levels, len: 0 };
            }
            entrants = matches;
        }
    }

    /// PEBs in the set.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether the set is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The least worn PEB and its erase count; the lowest number on a tie.
    #[inline]
    pub fn first(&self) -> Option<(Peb, EraseCount)> {
        let key = self.levels[self.levels.len() - 1][0];
        (key != ABSENT).then_some((Peb(key as u32), EraseCount((key >> 32) as u32)))
    }

    /// Adds `peb`, which must not be in the set.
    #[inline]
    pub fn insert(&mut self, peb: Peb, ec: EraseCount) {
        let key = key_of(peb, ec);
        self.len += 1;
        let mut at = peb.at();
        for level in &mut self.levels {
            at /= FAN;
            if level[at] <= key {
                return;
            }
            level[at] = key;
        }
    }

    /// Removes `peb`, which must be in the set with erase count `ec`. `least` returns the least key of a range of PEBs,
    /// without this one.
    #[inline]
    pub fn remove(&mut self, peb: Peb, ec: EraseCount, least: impl Fn(Range<usize>) -> u64) {
        self.len -= 1;
        let gone = key_of(peb, ec);
        let mut at = peb.at() / FAN;
        if self.levels[0][at] != gone {
            return;
        }
        let mut winner = least(at * FAN..(at + 1) * FAN);
        self.levels[0][at] = winner;
        for depth in 1..self.levels.len() {
            let start = at / FAN * FAN;
            at /= FAN;
            if self.levels[depth][at] != gone {
                return;
            }
            let entrants: &[u64; FAN] = self.levels[depth - 1][start..start + FAN].try_into().expect("whole matches");
            winner = entrants.iter().copied().fold(ABSENT, u64::min);
            self.levels[depth][at] = winner;
        }
    }

    /// Checks that each match was won by the least key; panics otherwise. `least`: the least keys of sixteen PEBs each, from the
    /// first on, with [`ABSENT`] where the set has none of them.
    pub(super) fn check(&self, least: &[u64]) {
        assert!(least.len() <= self.levels[0].len(), "a set of more PEBs");
        for (at, &winner) in self.levels[0].iter().enumerate() {
            assert_eq!(
                winner,
                least.get(at).copied().unwrap_or(ABSENT),
                "least worn of the sixteen PEBs from {}",
                at * FAN
            );
        }
        for (depth, pair) in self.levels.windows(2).enumerate() {
            for (entrants, &winner) in pair[0].chunks(FAN).zip(&pair[1]) {
                assert_eq!(winner, entrants.iter().copied().fold(ABSENT, u64::min), "a match of level {}", depth + 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn its_first_is_that_of_a_sorted_set(ops in prop::collection::vec((0u32..600, 0u32..9), 1..800), pebs in 600u32..700) {
            let mut set = Lowest::new(pebs);
            let mut model: BTreeSet<(u32, u32)> = BTreeSet::new();
            let least = |model: &BTreeSet<(u32, u32)>, of: Range<usize>| {
                let keys = model.iter().filter(|&&(_, peb)| of.contains(&(peb as usize)));
                keys.map(|&(ec, peb)| key_of(Peb(peb), EraseCount(ec))).next().unwrap_or(ABSENT)
            };
            for (peb, ec) in ops {
                match model.iter().find(|&&(_, other)| other == peb).copied() {
                    Some(key) => {
                        model.remove(&key);
                        set.remove(Peb(peb), EraseCount(key.0), |of| least(&model, of));
                    }
                    None => {
                        model.insert((ec, peb));
                        set.insert(Peb(peb), EraseCount(ec));
                    }
                }
                prop_assert_eq!(set.first().map(|(peb, ec)| (ec.0, peb.0)), model.first().copied());
                prop_assert_eq!(set.len() as usize, model.len());
            }
            let matches: Vec<u64> =
                (0..pebs as usize).step_by(FAN).map(|at| least(&model, at..at + FAN)).collect();
            set.check(&matches);
        }
    }

    #[test]
    fn one_peb_is_enough() {
        let mut set = Lowest::new(1);
        set.insert(Peb(0), EraseCount(3));
        assert_eq!(set.first(), Some((Peb(0), EraseCount(3))));
        set.remove(Peb(0), EraseCount(3), |_| ABSENT);
        assert!(set.is_empty() && set.first().is_none());
    }
}
