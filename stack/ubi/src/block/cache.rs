//! The LEBs in memory: which are there, which are dirty, which was not used for longest.
//!
//! Knows no volume and no time. Without bytes a slot has an empty buffer; everything else is the same. Slots are found
//! by a scan: a cache has a handful of them.

use sim::Lnum;

/// A LEB in memory.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub lnum: Lnum,
    /// Contents of the whole LEB; empty where no bytes are kept.
    pub bytes: Vec<u8>,
    /// Whether the contents are newer than the flash's.
    pub dirty: bool,
    /// When it was used last, in uses of the cache. No two slots have the same.
    used: u64,
}

/// The cache. Invariants: at most `most` slots, no two of one LEB.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    slots: Vec<Slot>,
    most: usize,
    uses: u64,
    /// Buffer of a slot that was removed.
    spare: Vec<u8>,
}

impl Cache {
    /// An empty cache of at most `most` LEBs.
    pub fn new(most: u32) -> Cache {
        Cache { slots: Vec::new(), most: most as usize, uses: 0, spare: Vec::new() }
    }

    /// Whether a new LEB needs another one to leave.
    pub fn is_full(&self) -> bool {
        self.slots.len() >= self.most
    }

    /// The slot of a LEB, which counts as a use.
    pub fn find(&mut self, lnum: Lnum) -> Option<&mut Slot> {
        let slot = self.slots.iter_mut().find(|slot| slot.lnum == lnum)?;
        self.uses += 1;
        slot.used = self.uses;
        Some(slot)
    }

    /// The slot of a LEB, which does not count as a use.
    pub fn peek(&mut self, lnum: Lnum) -> Option<&mut Slot> {
        self.slots.iter_mut().find(|slot| slot.lnum == lnum)
    }

    /// The LEB that was not used for longest.
    pub fn oldest(&self) -> Option<Lnum> {
        self.slots.iter().min_by_key(|slot| slot.used).map(|slot| slot.lnum)
    }

    /// A buffer for the contents of a LEB that is about to be inserted.
    pub fn buffer(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.spare)
    }

    /// Inserts a clean LEB, as used now. There is room for it, and it is not there.
    pub fn insert(&mut self, lnum: Lnum, bytes: Vec<u8>) {
        debug_assert!(!self.is_full() && self.peek(lnum).is_none(), "LEB {lnum}");
        self.uses += 1;
        self.slots.push(Slot { lnum, bytes, dirty: false, used: self.uses });
    }

    /// Removes a LEB, dirty or not; does nothing if it is not there.
    pub fn remove(&mut self, lnum: Lnum) {
        if let Some(at) = self.slots.iter().position(|slot| slot.lnum == lnum) {
            self.spare = self.slots.swap_remove(at).bytes;
        }
    }

    /// The lowest dirty LEB.
    pub fn first_dirty(&self) -> Option<Lnum> {
        self.slots.iter().filter(|slot| slot.dirty).map(|slot| slot.lnum).min()
    }

    /// Number of dirty LEBs.
    pub fn dirty(&self) -> u32 {
        self.slots.iter().filter(|slot| slot.dirty).count() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_leb_not_used_for_longest_is_the_next_to_leave() {
        let mut cache = Cache::new(2);
        cache.insert(Lnum(5), vec![5]);
        cache.insert(Lnum(7), vec![7]);
        assert!(cache.is_full());
        assert_eq!(cache.oldest(), Some(Lnum(5)));
        assert!(cache.find(Lnum(5)).is_some());
        assert_eq!(cache.oldest(), Some(Lnum(7)));
        assert!(cache.peek(Lnum(7)).is_some());
        assert_eq!(cache.oldest(), Some(Lnum(7)), "a peek is no use");
        cache.remove(Lnum(7));
        assert_eq!((cache.oldest(), cache.is_full(), cache.buffer()), (Some(Lnum(5)), false, vec![7]));
    }

    #[test]
    fn dirty_lebs_are_found_from_the_lowest_on() {
        let mut cache = Cache::new(3);
        for lnum in [9, 4, 6] {
            cache.insert(Lnum(lnum), Vec::new());
        }
        assert_eq!((cache.first_dirty(), cache.dirty()), (None, 0));
        for lnum in [9, 6] {
            cache.find(Lnum(lnum)).unwrap().dirty = true;
        }
        assert_eq!((cache.first_dirty(), cache.dirty()), (Some(Lnum(6)), 2));
    }
}
