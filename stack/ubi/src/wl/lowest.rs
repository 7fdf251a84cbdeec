//! A set of PEBs that knows its least worn member.
//!
//! The used PEBs: nearly all of a full device. Only the first in the order (erase count, PEB number) is ever asked
//! for, so this is a tournament over a dense array, sixteen entrants a match: an update touches a cache line or two a
//! level and stops where the winner stays.

use sim::{EraseCount, Peb};

const FAN: usize = 16;
const ABSENT: u64 = u64::MAX;

/// The set.
#[derive(Clone, Debug)]
pub struct Lowest {
    /// Level 0 holds each PEB's key; level n+1 the least of sixteen of level n; the last level one entry.
    levels: Vec<Vec<u64>>,
    len: u32,
}

impl Lowest {
    /// An empty set with room for PEBs `0..pebs`.
    pub fn new(pebs: u32) -> Lowest {
        let mut levels = vec![vec![ABSENT; (pebs as usize).max(1).next_multiple_of(FAN)]];
        while levels.last().is_some_and(|level| level.len() > 1) {
            let matches = levels.last().map_or(1, |level| level.len().div_ceil(FAN));
            let room = if matches == 1 { 1 } else { matches.next_multiple_of(FAN) };
            levels.push(vec![ABSENT; room]);
        }
        Lowest { levels, len: 0 }
    }

    /// How many PEBs it holds.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether it holds none.
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

    /// Whether `peb` is in the set.
    #[inline]
    pub fn contains(&self, peb: Peb) -> bool {
        self.levels[0][peb.at()] != ABSENT
    }

    /// Adds `peb`, which must not be in the set.
    #[inline]
    pub fn insert(&mut self, peb: Peb, ec: EraseCount) {
        let key = u64::from(ec.0) << 32 | u64::from(peb.0);
        debug_assert!(!self.contains(peb), "PEB {peb} is in the set already");
        self.len += 1;
        let mut at = peb.at();
        for level in &mut self.levels {
            if level[at] <= key {
                return;
            }
            level[at] = key;
            at /= FAN;
        }
    }

    /// Takes `peb` out. It must be in the set.
    #[inline]
    pub fn remove(&mut self, peb: Peb) {
        debug_assert!(self.contains(peb), "PEB {peb} is not in the set");
        self.len -= 1;
        let mut at = peb.at();
        let mut gone = std::mem::replace(&mut self.levels[0][at], ABSENT);
        for depth in 1..self.levels.len() {
            let start = at / FAN * FAN;
            at /= FAN;
            if self.levels[depth][at] != gone {
                return;
            }
            let entrants: &[u64; FAN] = self.levels[depth - 1][start..start + FAN].try_into().expect("whole matches");
            let winner = entrants.iter().copied().fold(ABSENT, u64::min);
            gone = std::mem::replace(&mut self.levels[depth][at], winner);
        }
    }

    /// PEBs in the order of their numbers, with erase counts.
    pub fn iter(&self) -> impl Iterator<Item = (Peb, EraseCount)> + '_ {
        self.levels[0]
            .iter()
            .filter(|&&key| key != ABSENT)
            .map(|&key| (Peb(key as u32), EraseCount((key >> 32) as u32)))
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
            for (peb, ec) in ops {
                match model.iter().find(|&&(_, other)| other == peb).copied() {
                    Some(key) => {
                        model.remove(&key);
                        set.remove(Peb(peb));
                    }
                    None => {
                        model.insert((ec, peb));
                        set.insert(Peb(peb), EraseCount(ec));
                    }
                }
                prop_assert_eq!(set.first().map(|(peb, ec)| (ec.0, peb.0)), model.first().copied());
                prop_assert_eq!(set.len() as usize, model.len());
            }
        }
    }

    #[test]
    fn one_peb_is_enough() {
        let mut set = Lowest::new(1);
        set.insert(Peb(0), EraseCount(3));
        assert_eq!(set.first(), Some((Peb(0), EraseCount(3))));
        set.remove(Peb(0));
        assert!(set.is_empty() && set.first().is_none());
    }
}
