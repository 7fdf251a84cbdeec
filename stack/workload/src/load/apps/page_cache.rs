//! The host's page cache: which pages are in memory, least recently used leaves first.
//!
//! Pages are numbered densely by their user, so that a page is found by an index and not by a hash. The cached ones
//! stand in a ring of slots by the time of their last use.
//!
//! Invariants: at most as many pages as its capacity; a page has a slot exactly if that slot names the page.

/// No slot.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Slot {
    page: u32,
    /// The slot used just before it.
    older: u32,
    /// The slot used just after it.
    newer: u32,
}

/// Pages in memory.
#[derive(Clone, Debug)]
pub struct PageCache {
    /// By page: its slot.
    slot_of: Vec<u32>,
    /// A ring: the newest one's `newer` is the oldest.
    slots: Vec<Slot>,
    newest: u32,
    capacity: usize,
}

impl PageCache {
    /// Of `capacity` pages, numbered below `pages`. Nothing is in it.
    pub fn new(pages: u32, capacity: u32) -> PageCache {
        let capacity = capacity.min(pages) as usize;
        PageCache { slot_of: vec![NONE; pages as usize], slots: Vec::with_capacity(capacity), newest: NONE, capacity }
    }

    /// Pages in it.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether a page is in it; that is no use of the page.
    #[inline]
    pub fn holds(&self, page: u32) -> bool {
        self.slot_of[page as usize] != NONE
    }

    /// Uses a page, if it is there.
    #[inline]
    pub fn touch(&mut self, page: u32) -> bool {
        let slot = self.slot_of[page as usize];
        if slot == NONE {
            return false;
        }
        if slot != self.newest {
            let Slot { older, newer, .. } = self.slots[slot as usize];
            self.slots[older as usize].newer = newer;
            self.slots[newer as usize].older = older;
            self.link_newest(slot);
        }
        true
    }

    /// Uses a page that comes in, if it is not there yet; the least recently used one leaves where there is no room.
    #[inline]
    pub fn put(&mut self, page: u32) {
        if self.capacity == 0 || self.touch(page) {
            return;
        }
        let slot = if self.slots.len() < self.capacity {
            let slot = self.slots.len() as u32;
            self.slots.push(Slot { page, older: slot, newer: slot });
            if self.newest == NONE {
                self.newest = slot;
            } else {
                self.link_newest(slot);
            }
            slot
        } else {
            // The oldest stands where the newest belongs: the ring turns by one.
            let oldest = self.slots[self.newest as usize].newer;
            self.slot_of[self.slots[oldest as usize].page as usize] = NONE;
            self.slots[oldest as usize].page = page;
            self.newest = oldest;
            oldest
        };
        self.slot_of[page as usize] = slot;
    }

    /// Puts a slot that is in no ring between the newest and the oldest.
    #[inline]
    fn link_newest(&mut self, slot: u32) {
        let newest = self.newest;
        let oldest = self.slots[newest as usize].newer;
        self.slots[slot as usize].older = newest;
        self.slots[slot as usize].newer = oldest;
        self.slots[newest as usize].newer = slot;
        self.slots[oldest as usize].older = slot;
        self.newest = slot;
    }

    /// Panics where an invariant is broken.
    #[cfg(test)]
    fn check(&self) {
        assert!(self.slots.len() <= self.capacity);
        let held = self.slot_of.iter().filter(|&&slot| slot != NONE).count();
        assert_eq!(held, self.slots.len());
        for (at, slot) in self.slots.iter().enumerate() {
            assert_eq!(self.slot_of[slot.page as usize], at as u32);
            assert_eq!(self.slots[slot.older as usize].newer, at as u32);
            assert_eq!(self.slots[slot.newer as usize].older, at as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The oldest first.
    struct Naive(Vec<u32>, usize);

    impl Naive {
        fn touch(&mut self, page: u32) -> bool {
            let Some(at) = self.0.iter().position(|&held| held == page) else { return false };
            self.0.remove(at);
            self.0.push(page);
            true
        }

        fn put(&mut self, page: u32) {
            if !self.touch(page) {
                self.0.push(page);
                if self.0.len() > self.1 {
                    self.0.remove(0);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn the_cache_is_bounded_and_holds_what_a_list_would(
            capacity in 0u32..12, steps in prop::collection::vec((any::<bool>(), 0u32..24), 0..400),
        ) {
            let mut cache = PageCache::new(24, capacity);
            let mut naive = Naive(Vec::new(), capacity as usize);
            for (put, page) in steps {
                if put {
                    cache.put(page);
                    naive.put(page);
                } else {
                    prop_assert_eq!(cache.touch(page), naive.touch(page));
                }
                cache.check();
                prop_assert_eq!(cache.len(), naive.0.len());
                for page in 0..24 {
                    prop_assert_eq!(cache.holds(page), naive.0.contains(&page));
                }
            }
        }
    }
}
