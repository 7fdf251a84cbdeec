//! A bounded index from page numbers to slots: open addressing with linear probing, all memory taken at construction.
//!
//! Deleting moves later entries of the run back, so there are no tombstones and probes stay short for ever. At most half
//! of the places are in use. Iteration is not offered: the order of the places must not leak into results.

use crate::ftl::NONE;

/// From key to slot. Neither may be [`NONE`].
#[derive(Clone, Debug)]
pub(crate) struct Index {
    places: Vec<Place>,
    /// Of the multiplied key, to leave as many bits as number the places.
    shift: u32,
    held: u32,
    most: u32,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    key: u32,
    slot: u32,
}

const EMPTY: Place = Place { key: NONE, slot: NONE };

impl Index {
    /// For at most `most` keys.
    pub(crate) fn new(most: u32) -> Index {
        let count = (most as usize * 2).next_power_of_two().max(4);
        Index { places: vec![EMPTY; count], shift: 32 - count.trailing_zeros(), held: 0, most }
    }

    /// Where the probe for a key begins (Fibonacci hashing: neighbouring keys are spread evenly).
    #[inline]
    fn home(&self, key: u32) -> usize {
        (key.wrapping_mul(0x9e37_79b1) >> self.shift) as usize
    }

    /// The slot of `key`, or [`NONE`].
    #[inline]
    pub(crate) fn get(&self, key: u32) -> u32 {
        let mask = self.places.len() - 1;
        let mut at = self.home(key);
        loop {
            let place = self.places[at];
            if place.key == key || place.key == NONE {
                return place.slot;
            }
            at = (at + 1) & mask;
        }
    }

    /// The slot of `key`, or the place where [`fill`](Self::fill) would put it.
    #[inline]
    pub(crate) fn find(&self, key: u32) -> Result<u32, usize> {
        let mask = self.places.len() - 1;
        let mut at = self.home(key);
        loop {
            let place = self.places[at];
            if place.key == key {
                return Ok(place.slot);
            }
            if place.key == NONE {
                return Err(at);
            }
            at = (at + 1) & mask;
        }
    }

    /// Adds `key` at a place that [`find`](Self::find) just named for it.
    #[inline]
    pub(crate) fn fill(&mut self, at: usize, key: u32, slot: u32) {
        debug_assert!(key != NONE && slot != NONE);
        debug_assert_eq!(self.places[at].key, NONE);
        assert!(self.held < self.most, "an index of {} keys takes no more", self.most);
        self.places[at] = Place { key, slot };
        self.held += 1;
    }

    /// Makes `slot` that of `key`, in place of any other.
    #[inline]
    pub(crate) fn set(&mut self, key: u32, slot: u32) {
        debug_assert!(key != NONE && slot != NONE);
        let mask = self.places.len() - 1;
        let mut at = self.home(key);
        while self.places[at].key != key {
            if self.places[at].key == NONE {
                return self.fill(at, key, slot);
            }
            at = (at + 1) & mask;
        }
        self.places[at].slot = slot;
    }

    /// Forgets `key`.
    #[inline]
    pub(crate) fn remove(&mut self, key: u32) {
        self.remove_if(key, |_| true);
    }

    /// Forgets `key` if its slot is the one asked for. Returns whether it was.
    #[inline]
    pub(crate) fn remove_if(&mut self, key: u32, asked: impl Fn(u32) -> bool) -> bool {
        let mask = self.places.len() - 1;
        let mut hole = self.home(key);
        while self.places[hole].key != key {
            if self.places[hole].key == NONE {
                return false;
            }
            hole = (hole + 1) & mask;
        }
        if !asked(self.places[hole].slot) {
            return false;
        }
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let place = self.places[at];
            if place.key == NONE {
                break;
            }
            // An entry may fill the hole if its probe passes over it.
            let from_home = at.wrapping_sub(self.home(place.key)) & mask;
            if from_home >= (at.wrapping_sub(hole) & mask) {
                self.places[hole] = place;
                hole = at;
            }
        }
        self.places[hole] = EMPTY;
        self.held -= 1;
        true
    }

    /// Keys held.
    pub(crate) fn held(&self) -> u32 {
        self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn it_holds_what_a_map_holds_whatever_is_added_and_removed(
            most in 1u32..40, stride in prop::sample::select(vec![1u32, 3, 1024, 1 << 20]),
            moves in prop::collection::vec((any::<bool>(), 0u32..60), 0..400),
        ) {
            let mut index = Index::new(most);
            let mut map = BTreeMap::new();
            for (slot, (add, key)) in (0..).zip(moves) {
                let key = key * stride;
                if !add {
                    index.remove(key);
                    map.remove(&key);
                } else if map.contains_key(&key) || map.len() < most as usize {
                    index.set(key, slot);
                    map.insert(key, slot);
                }
                prop_assert_eq!(index.held() as usize, map.len());
                for key in (0..60).map(|key| key * stride) {
                    prop_assert_eq!(index.get(key), map.get(&key).copied().unwrap_or(NONE));
                }
            }
        }
    }
}
