//! The host's page cache, with least-recently-used eviction.
//!
//! Pages are numbered densely by the caller, so a page is found by index and not by hash. Cached pages are in a ring of
//! slots ordered by their last use.
//!
//! Invariants: at most `capacity` pages; a page has a slot exactly if that slot names the page.

/// Marks a page without a slot.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Slot {
    page: u32,
    /// Slot used just before this one.
    older: u32,
    /// Slot used just after this one.
    newer: u32,
}

/// The cached pages.
#[derive(Clone, Debug)]
pub struct PageCache {
    /// Slot of each page.
    slot_of: Vec<u32>,
    /// A ring: `newer` of the newest slot is the oldest.
    slots: Vec<Slot>,
    newest: u32,
    capacity: usize,
}

impl PageCache {
    /// An empty cache of `capacity` pages, for pages numbered below `pages`.
    pub fn new(pages: u32, capacity: u32) -> PageCache {
        let capacity = capacity.min(pages) as usize;
        PageCache { slot_of: vec![NONE; pages as usize], slots: Vec::with_capacity(capacity), newest: NONE, capacity }
    }

    /// Cached pages.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether a page is cached; does not count as a use.
    #[inline]
    pub fn holds(&self, page: u32) -> bool {
        self.slot_of[page as usize] != NONE
    }

    /// Uses a page if it is cached; returns whether it is.
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

    /// Inserts a page that is not cached yet and uses it; evicts the least recently used one if the cache is full.
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
            // Reuse the oldest slot as the newest: the ring turns by one.
            let oldest = self.slots[self.newest as usize].newer;
            self.slot_of[self.slots[oldest as usize].page as usize] = NONE;
            self.slots[oldest as usize].page = page;
            self.newest = oldest;
            oldest
        };
        self.slot_of[page as usize] = slot;
    }

    /// Inserts a slot between the newest and the oldest.
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

    /// Checks the invariants; panics if one is broken.
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

    /// A slow reference: pages in the order of use, the oldest first.
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
