//! Finding LEBs: with free space for the journal, dirty ones for garbage collection, empty ones for the index.

use super::{Change, EMPTY, FREEABLE, FREEABLE_INDEX, LEFT, Leb, Space, flags};

/// Which LEBs garbage collection may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victims {
    /// Dirty ones: free space must become more.
    Dirty,
    /// An empty or freeable one, if there is one: the journal needs a LEB.
    Any,
    /// As `Any`, but none of the index: the reserve of garbage collection is to be found again.
    NoIndex,
}

impl Space {
    fn lnum(&self, at: u32) -> u32 {
        self.first + at
    }

    fn take(&mut self, at: u32, set: u8) -> (u32, Leb) {
        let lnum = self.lnum(at);
        self.change(lnum, Change { set: flags::TAKEN | set, ..Change::default() });
        (lnum, *self.leb(lnum))
    }

    /// LEBs of the index beyond those that it has now, which are kept for it.
    fn reserved(&self, min_index_lebs: i32) -> i32 {
        (min_index_lebs - self.totals.index_lebs).max(0)
    }

    /// Takes a LEB with at least `bytes` of free space for a journal head: an empty one, unless those are kept for the
    /// index; with `squeeze`, one that is filled in part is preferred. Returns it and where its free space begins.
    /// `collected` is the number of index LEBs that become empty with the next commit.
    pub fn take_free(&mut self, bytes: u32, min_index_lebs: i32, collected: i32, squeeze: bool) -> Option<(u32, u32)> {
        let bytes = bytes as i32;
        let may_be_empty = self.reserved(min_index_lebs) < self.available() + collected;
        let may_be_empty = may_be_empty && self.totals.empty_lebs > self.totals.taken_empty_lebs;
        let empty = self.lists.newest(EMPTY).filter(|_| may_be_empty);
        let fits = |&at: &u32| self.lebs[at as usize].free >= bytes;
        let part = self.heaps[2].members().next().filter(fits);
        let found = if squeeze { part.or(empty) } else { empty.or(part) };
        let dirty = || self.heaps[0].members().find(fits);
        let left = || self.lists.members(LEFT).find(|at| fits(at) && !self.lebs[*at as usize].has(flags::INDEX));
        let whole = self.leb_bytes;
        let suits = |_: &Space, leb: &Leb| {
            let is_freeable = leb.space() == whole && leb.dirty > 0;
            !leb.has(flags::INDEX) && leb.free >= bytes && (may_be_empty || leb.free < whole) && !is_freeable
        };
        let found = found.or_else(dirty).or_else(left).or_else(|| self.scan(may_be_empty.into(), suits))?;
        let (lnum, leb) = self.take(found, 0);
        Some((lnum, (self.leb_bytes - leb.free) as u32))
    }

    /// Takes the LEB that garbage collection moves: the one with the most dirty bytes in the heap, if it has at least `least`
    /// bytes of dirty and free space; else one of the others that has so much.
    pub fn take_dirty(
        &mut self,
        least: i32,
        victims: Victims,
        min_index_lebs: i32,
        collected: i32,
    ) -> Option<(u32, Leb)> {
        let mut no_index = victims == Victims::NoIndex || min_index_lebs >= self.totals.index_lebs;
        let mut may_be_empty = false;
        if victims != Victims::Dirty {
            may_be_empty = self.reserved(min_index_lebs) < self.available() + collected;
            no_index = victims == Victims::NoIndex || min_index_lebs >= self.totals.index_lebs;
        }
        if may_be_empty && let Some(at) = self.lists.newest(EMPTY).or_else(|| self.lists.newest(FREEABLE)) {
            return Some(self.take(at, 0));
        }
        let space = |at: u32| self.lebs[at as usize].space();
        // Three times what the index takes is kept for it, so that a LEB of it is worth a move only if half is dirt.
        let of_index = self.heaps[1].members().next();
        let of_index = of_index.filter(|&at| !no_index && space(at) >= least && space(at) >= self.leb_bytes / 2);
        let of_data = self.heaps[0].members().next().filter(|&at| space(at) >= least);
        let found = match (of_index, of_data) {
            (Some(index), Some(data)) if space(index) >= space(data) => Some(index),
            (index, data) => data.or(index),
        };
        let worth = |&at: &u32| space(at) >= least && self.lebs[at as usize].dirty >= self.dead;
        let free = || self.heaps[2].members().find(worth);
        let left = || {
            self.lists.members(LEFT).find(|at| worth(at) && !(no_index && self.lebs[*at as usize].has(flags::INDEX)))
        };
        let whole = self.leb_bytes;
        let suits = |space: &Space, leb: &Leb| {
            let is_worth = if leb.space() == whole { may_be_empty } else { leb.dirty >= space.dead };
            leb.space() >= least && is_worth && !(no_index && leb.has(flags::INDEX))
        };
        let found = found.or_else(free).or_else(left).or_else(|| self.scan(0, suits))?;
        Some(self.take(found, 0))
    }

    /// Takes an empty LEB for the index; what was freeable counts as empty then. The caller unmaps it.
    pub fn take_empty(&mut self, set: u8) -> Option<u32> {
        let found = self.lists.newest(EMPTY).or_else(|| self.lists.newest(FREEABLE));
        let suits = |space: &Space, leb: &Leb| leb.space() == space.leb_bytes && !leb.has(flags::INDEX);
        let at = found.or_else(|| self.scan(0, suits))?;
        let lnum = self.lnum(at);
        let change = Change { free: Some(self.leb_bytes), dirty: Some(0), set: flags::TAKEN | set, clear: 0 };
        self.change(lnum, change);
        Some(lnum)
    }

    /// A freeable LEB.
    pub fn freeable(&self) -> Option<u32> {
        self.lists.newest(FREEABLE).map(|at| self.lnum(at))
    }

    /// A freeable LEB of the index.
    pub fn freeable_index(&self) -> Option<u32> {
        self.lists.newest(FREEABLE_INDEX).map(|at| self.lnum(at))
    }

    /// LEBs of the index with dirty space, the dirtiest last.
    pub fn dirty_index(&self) -> Vec<u32> {
        let mut found: Vec<u32> = self.heaps[1].members().collect();
        found.sort_by_key(|&at| self.lebs[at as usize].space());
        found.into_iter().map(|at| self.lnum(at)).collect()
    }

    /// Takes a LEB of the index with room for a node, if it is not taken: `lnum`, or any.
    pub fn take_index(&mut self, lnum: Option<u32>) -> Option<u32> {
        let at = match lnum {
            Some(lnum) => Some((lnum - self.first) as usize)
                .filter(|&at| self.lebs[at].has(flags::INDEX) && !self.lebs[at].has(flags::TAKEN))
                .map(|at| at as u32),
            None => {
                let of_index = self.heaps[1].members().next().or_else(|| self.lists.newest(FREEABLE_INDEX));
                let left = || self.lists.members(LEFT).find(|&at| self.lebs[at as usize].has(flags::INDEX));
                let suits = |space: &Space, leb: &Leb| leb.has(flags::INDEX) && leb.space() >= space.min_index_node;
                let found = of_index.or_else(left).or_else(|| self.scan(0, suits));
                // The next scan begins behind one that was found without a scan as well.
                found.inspect(|&at| self.scan_at = at)
            }
        }?;
        Some(self.take(at, 0).0)
    }

    /// LEBs worth reading at the next mount, the best first, for the save table of the LPT.
    pub fn valuable(&self) -> impl Iterator<Item = u32> + '_ {
        let lists = [EMPTY, FREEABLE, FREEABLE_INDEX].into_iter().flat_map(|list| self.lists.members(list));
        let heaps = [1, 0, 2].into_iter().flat_map(|heap| self.heaps[heap].members());
        lists.chain(heaps).map(|at| self.lnum(at))
    }
}
