//! The cached pages of a file: leaves of 64 pages, sorted, each with bits for "cached", "dirty" and, of a dirty one,
//! "new": the file system below may not have it.

const LEAF: u64 = 64;

#[derive(Clone, Debug)]
struct Leaf {
    /// Number of its first page, by 64.
    number: u64,
    cached: u64,
    dirty: u64,
    /// Of the dirty ones.
    new: u64,
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
    /// Whether it was dirty and new.
    pub is_new: bool,
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
            let leaf = Leaf { number, cached: 0, dirty: 0, new: 0, slots: [0; LEAF as usize] };
            self.leaves.insert(at, leaf);
            at
        });
        let (leaf, bit) = (&mut self.leaves[at], index % LEAF);
        debug_assert!(leaf.cached >> bit & 1 == 0, "page {index} is cached already");
        leaf.cached |= 1 << bit;
        leaf.slots[bit as usize] = slot;
        self.cached += 1;
    }

    fn cached(&mut self, index: u64) -> (&mut Leaf, u64) {
        let at = self.find(index / LEAF).expect("the page is cached");
        let (leaf, bit) = (&mut self.leaves[at], index % LEAF);
        debug_assert!(leaf.cached >> bit & 1 == 1, "page {index} is not cached");
        (leaf, bit)
    }

    /// Marks a cached page that is clean as dirty. `is_new`: the file system below may not have it.
    pub fn set_dirty(&mut self, index: u64, is_new: bool) {
        let (leaf, bit) = self.cached(index);
        debug_assert!(leaf.dirty >> bit & 1 == 0, "page {index} is dirty already");
        leaf.dirty |= 1 << bit;
        leaf.new |= u64::from(is_new) << bit;
        self.dirty += 1;
    }

    /// Marks a dirty page as clean.
    pub fn set_clean(&mut self, index: u64) {
        let (leaf, bit) = self.cached(index);
        debug_assert!(leaf.dirty >> bit & 1 == 1, "page {index} is clean already");
        leaf.dirty &= !(1 << bit);
        leaf.new &= !(1 << bit);
        self.dirty -= 1;
    }

    /// Whether a dirty page is new.
    pub fn is_new(&self, index: u64) -> bool {
        self.find(index / LEAF).is_ok_and(|at| self.leaves[at].new >> (index % LEAF) & 1 == 1)
    }

    /// A clean page, if there is one, that is the last before `to`, which is not included.
    pub fn last_clean(&self, to: u64) -> Option<u64> {
        let last = to.checked_sub(1)?;
        let past = self.find(last / LEAF).map_or_else(|at| at, |at| at + 1);
        self.leaves[..past].iter().rev().find_map(|leaf| {
            let first = leaf.number * LEAF;
            let below = if last - first < LEAF - 1 { !from_bit(last - first + 1) } else { !0 };
            (leaf.cached & !leaf.dirty & below).checked_ilog2().map(|bit| first + u64::from(bit))
        })
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
            let is = |bits: u64| bits >> bit & 1 == 1;
            let taken = Taken { slot: leaf.slots[bit as usize], is_dirty: is(leaf.dirty), is_new: is(leaf.new) };
            leaf.cached &= !(1 << bit);
            leaf.dirty &= !(1 << bit);
            leaf.new &= !(1 << bit);
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
                    map.insert(index, (step, false, false));
                }
                0..6 => {
                    if let Some((_, is_dirty, is_new)) = map.get_mut(&index) {
                        if !*is_dirty {
                            *is_new = rng.chance(0.5);
                            table.set_dirty(index, *is_new);
                            *is_dirty = true;
                        } else if rng.chance(0.3) {
                            table.set_clean(index);
                            (*is_dirty, *is_new) = (false, false);
                        }
                    }
                }
                6 => {
                    let to = index + rng.below(90);
                    let last = map.range(index..to).next_back().map(|(&index, &page)| (index, page));
                    let taken = last.map(|(_, (slot, is_dirty, is_new))| Taken { slot, is_dirty, is_new });
                    assert_eq!(table.take(index, to), taken, "step {step}");
                    last.map(|(index, _)| map.remove(&index));
                }
                _ => {
                    let most = 1 + rng.below(80);
                    let first = map.range(index..).find(|(_, (_, is_dirty, _))| *is_dirty).map(|(&first, _)| first);
                    let run = first.map(|first| {
                        let dirty = |at: &u64| map.get(at).is_some_and(|(_, is_dirty, _)| *is_dirty);
                        (first, (first..first + most).take_while(dirty).count() as u64)
                    });
                    assert_eq!(table.dirty_run(index, most), run, "step {step}");
                }
            }
            assert_eq!(table.get(index), map.get(&index).map(|page| page.0));
            assert_eq!(table.is_dirty(index), map.get(&index).is_some_and(|page| page.1));
            assert_eq!(table.is_new(index), map.get(&index).is_some_and(|page| page.2));
            let clean = map.range(..index).rev().find(|(_, (_, is_dirty, _))| !is_dirty).map(|(&clean, _)| clean);
            assert_eq!(table.last_clean(index), clean, "step {step}");
        }
        let pages: Vec<_> = map.iter().map(|(&index, &(slot, is_dirty, _))| (index, slot, is_dirty)).collect();
        assert_eq!(table.pages(), pages);
    }
}
