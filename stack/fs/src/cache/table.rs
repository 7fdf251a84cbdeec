//! The cached pages of a file: leaves of 64 pages, sorted, each with a bit for "cached" and one for "dirty".

const LEAF: u64 = 64;

#[derive(Clone, Debug)]
struct Leaf {
    /// Number of its first page, by 64.
    number: u64,
    cached: u64,
    dirty: u64,
    slots: [u32; LEAF as usize],
}

/// Where the pages of a file are.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    leaves: Vec<Leaf>,
    cached: u64,
    dirty: u64,
}

/// A page that was taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// Its slot.
    pub slot: u32,
    /// Whether it was dirty.
    pub is_dirty: bool,
}

/// Bits from `bit` on.
const fn from_bit(bit: u64) -> u64 {
    !0 << bit
}

impl Table {
    pub fn is_empty(&self) -> bool {
        self.cached == 0
    }

    /// Number of dirty pages.
    pub fn dirty(&self) -> u64 {
        self.dirty
    }

    fn find(&self, number: u64) -> Result<usize, usize> {
        match self.leaves.last() {
            None => Err(0),
            Some(last) if last.number == number => Ok(self.leaves.len() - 1),
            Some(last) if last.number < number => Err(self.leaves.len()),
            Some(_) => self.leaves.binary_search_by_key(&number, |leaf| leaf.number),
        }
    }

    /// Slot of a page, if it is cached.
    pub fn get(&self, index: u64) -> Option<u32> {
        let leaf = &self.leaves[self.find(index / LEAF).ok()?];
        let bit = index % LEAF;
        (leaf.cached >> bit & 1 == 1).then(|| leaf.slots[bit as usize])
    }

    /// Whether a page is dirty.
    pub fn is_dirty(&self, index: u64) -> bool {
        self.find(index / LEAF).is_ok_and(|at| self.leaves[at].dirty >> (index % LEAF) & 1 == 1)
    }

    /// Adds a page that is not cached.
    pub fn insert(&mut self, index: u64, slot: u32) {
        let number = index / LEAF;
        let at = self.find(number).unwrap_or_else(|at| {
            let leaf = Leaf { number, cached: 0, dirty: 0, slots: [0; LEAF as usize] };
            self.leaves.insert(at, leaf);
            at
        });
        let (leaf, bit) = (&mut self.leaves[at], index % LEAF);
        debug_assert!(leaf.cached >> bit & 1 == 0, "page {index} is cached already");
        leaf.cached |= 1 << bit;
        leaf.slots[bit as usize] = slot;
        self.cached += 1;
    }

    /// Marks a cached page as dirty or as clean; returns whether that is new.
    pub fn set_dirty(&mut self, index: u64, is_dirty: bool) -> bool {
        let at = self.find(index / LEAF).expect("the page is cached");
        let (leaf, bit) = (&mut self.leaves[at], index % LEAF);
        debug_assert!(leaf.cached >> bit & 1 == 1, "page {index} is not cached");
        if (leaf.dirty >> bit & 1 == 1) == is_dirty {
            return false;
        }
        leaf.dirty ^= 1 << bit;
        self.dirty = if is_dirty { self.dirty + 1 } else { self.dirty - 1 };
        true
    }

    /// Takes out the last cached page from `from` to `to`, which is not included.
    pub fn take(&mut self, from: u64, to: u64) -> Option<Taken> {
        let last = to.checked_sub(1)?;
        let past = self.find(last / LEAF).map_or_else(|at| at, |at| at + 1);
        for at in (0..past).rev() {
            let leaf = &mut self.leaves[at];
            let first = leaf.number * LEAF;
            let below = if last - first < LEAF - 1 { !from_bit(last - first + 1) } else { !0 };
            let Some(bit) = (leaf.cached & below).checked_ilog2().map(u64::from) else { continue };
            if first + bit < from {
                return None;
            }
            let taken = Taken { slot: leaf.slots[bit as usize], is_dirty: leaf.dirty >> bit & 1 == 1 };
            leaf.cached &= !(1 << bit);
            leaf.dirty &= !(1 << bit);
            self.cached -= 1;
            self.dirty -= u64::from(taken.is_dirty);
            if leaf.cached == 0 {
                self.leaves.remove(at);
            }
            return Some(taken);
        }
        None
    }

    /// The first dirty page from `from` on, and how many follow each other from there, at most `most`.
    pub fn dirty_run(&self, from: u64, most: u64) -> Option<(u64, u64)> {
        let at = self.find(from / LEAF).unwrap_or_else(|at| at);
        let (at, first) = (at..self.leaves.len()).find_map(|at| {
            let leaf = &self.leaves[at];
            let first = leaf.number * LEAF;
            let bits = if from > first { leaf.dirty & from_bit(from - first) } else { leaf.dirty };
            (bits != 0).then(|| (at, first + u64::from(bits.trailing_zeros())))
        })?;
        let mut end = first;
        for leaf in &self.leaves[at..] {
            if leaf.number != end / LEAF {
                break;
            }
            let bit = end % LEAF;
            let follow = u64::from((!(leaf.dirty >> bit)).trailing_zeros()).min(LEAF - bit);
            end += follow;
            if bit + follow < LEAF || end - first >= most {
                break;
            }
        }
        Some((first, (end - first).min(most)))
    }

    /// Cached pages with slots, in order, and whether each is dirty.
    #[cfg(test)]
    pub fn pages(&self) -> Vec<(u64, u32, bool)> {
        let mut pages = Vec::new();
        for leaf in &self.leaves {
            assert!(leaf.cached != 0 && leaf.dirty & !leaf.cached == 0);
            for bit in (0..LEAF).filter(|bit| leaf.cached >> bit & 1 == 1) {
                pages.push((leaf.number * LEAF + bit, leaf.slots[bit as usize], leaf.dirty >> bit & 1 == 1));
            }
        }
        assert!(pages.is_sorted());
        assert_eq!(self.cached, pages.len() as u64);
        assert_eq!(self.dirty, pages.iter().filter(|page| page.2).count() as u64);
        pages
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use sim::Seed;

    use super::*;

    /// Pages around the ends of leaves, against a map.
    #[test]
    fn a_table_is_a_map_with_dirty_pages() {
        let mut rng = Seed(1).stream("fs/cache/table");
        let (mut table, mut map) = (Table::default(), BTreeMap::new());
        for step in 0..20_000 {
            let index = [rng.below(70), 60 + rng.below(140), 1 << 50 | rng.below(3)][rng.below(3) as usize];
            match rng.below(8) {
                0..4 if !map.contains_key(&index) => {
                    table.insert(index, step);
                    map.insert(index, (step, false));
                }
                0..6 => {
                    if let Some((_, is_dirty)) = map.get_mut(&index) {
                        let dirty = rng.chance(0.7);
                        assert_eq!(table.set_dirty(index, dirty), dirty != *is_dirty);
                        *is_dirty = dirty;
                    }
                }
                6 => {
                    let to = index + rng.below(90);
                    let last = map.range(index..to).next_back().map(|(&index, &page)| (index, page));
                    let taken = last.map(|(_, (slot, is_dirty))| Taken { slot, is_dirty });
                    assert_eq!(table.take(index, to), taken, "step {step}");
                    last.map(|(index, _)| map.remove(&index));
                }
                _ => {
                    let most = 1 + rng.below(80);
                    let first = map.range(index..).find(|(_, (_, is_dirty))| *is_dirty).map(|(&first, _)| first);
                    let run = first.map(|first| {
                        let dirty = |at: &u64| map.get(at).is_some_and(|(_, is_dirty)| *is_dirty);
                        (first, (first..first + most).take_while(dirty).count() as u64)
                    });
                    assert_eq!(table.dirty_run(index, most), run, "step {step}");
                }
            }
            assert_eq!(table.get(index), map.get(&index).map(|page| page.0));
            assert_eq!(table.is_dirty(index), map.get(&index).is_some_and(|page| page.1));
        }
        let pages: Vec<_> = map.iter().map(|(&index, &(slot, is_dirty))| (index, slot, is_dirty)).collect();
        assert_eq!(table.pages(), pages);
    }
}
