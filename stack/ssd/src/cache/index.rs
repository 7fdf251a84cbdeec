//! A bounded hash table from page numbers to slots: open addressing with linear probing, all memory allocated at
//! construction.
//!
//! Deletion moves later entries of the run back, so there are no tombstones and probes stay short. At most half of the
//! places are in use. There is no iteration: the order of the places must not influence results.

use crate::ftl::NONE;

/// A map from keys to slots. Neither may be [`NONE`].
#[derive(Clone, Debug)]
pub(crate) struct Index {
    places: Vec<Place>,
    /// Right shift of the multiplied key that leaves as many bits as a place number has.
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
    /// Makes an empty index for at most `most` keys.
    pub(crate) fn new(most: u32) -> Index {
        let count = (most as usize * 2).next_power_of_two().max(4);
        Index { places: vec![EMPTY; count], shift: 32 - count.trailing_zeros(), held: 0, most }
    }

    /// The place where the probe for a key begins (Fibonacci hashing, which spreads neighbouring keys evenly).
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

    /// The slot of `key`, or else the place where [`fill`](Self::fill) would put it.
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

    /// Adds `key` at the place that [`find`](Self::find) just returned for it.
    #[inline]
    pub(crate) fn fill(&mut self, at: usize, key: u32, slot: u32) {
        debug_assert!(key != NONE && slot != NONE);
        debug_assert_eq!(self.places[at].key, NONE);
        assert!(self.held < self.most, "an index of {} keys takes no more", self.most);
        self.places[at] = Place { key, slot };
        self.held += 1;
    }

    /// Maps `key` to `slot`, instead of any other.
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

    /// Removes `key`.
    #[inline]
    pub(crate) fn remove(&mut self, key: u32) {
        self.remove_if(key, |_| true);
    }

    /// Removes `key` if `asked` is true of its slot. Returns whether it was removed.
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
            // An entry may fill the hole if its probe passes over the hole.
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

    /// Number of keys held.
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
