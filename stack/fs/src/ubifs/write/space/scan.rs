//! Leaves of the LPT that were not read yet: when they are, and the search through all of them.

use super::{Category, FREEABLE, LEFT, Leb, Space, flags, heap, weight};
use crate::ubifs::media::lpt::FANOUT;

impl Space {
    /// Reads a leaf, if it was not: its LEBs are sorted by category, the first one first.
    pub fn read(&mut self, leaf: usize) {
        let first = leaf * FANOUT;
        if self.lebs.get(first).is_none_or(|leb| leb.category != Category::Unread) {
            return;
        }
        self.unread -= 1;
        for at in first..self.lebs.len().min(first + FANOUT) {
            self.add(at as u32, self.category(&self.lebs[at]));
        }
    }

    /// Reads the leaf that holds a LEB.
    pub fn read_leb(&mut self, lnum: u32) {
        self.read(self.at(lnum) / FANOUT);
    }

    /// Where the last scan ended, which the master node keeps.
    pub fn scan_lnum(&self) -> u32 {
        self.first + self.scan_at
    }

    /// Goes once through all LEBs, from the one behind that where the last scan ended, and returns the first that is not in use and
    /// suits. Reads the leaves of what it comes by and is worth it. Where all leaves were read there is nothing to find: lists and heaps have
    /// been searched. `taken` empty LEBs count as in use.
    pub(super) fn scan(&mut self, taken: i32, suits: impl Fn(&Space, &Leb) -> bool) -> Option<u32> {
        if self.unread == 0 {
            return None;
        }
        let lebs = self.lebs.len() as u32;
        for step in 1..=lebs {
            let at = (self.scan_at + step) % lebs;
            let leb = self.lebs[at as usize];
            if leb.has(flags::TAKEN) {
                continue;
            }
            let is_found = suits(self, &leb);
            if leb.category == Category::Unread {
                if is_found || self.is_valuable(&leb, taken) {
                    self.read(at as usize / FANOUT);
                }
            } else if is_found && leb.category == Category::Left {
                self.lists.remove(LEFT, at);
                self.add(at, self.category(&leb));
            }
            if is_found {
                self.scan_at = at;
                return Some(at);
            }
        }
        None
    }

    /// Whether it is worth to keep the leaf that a LEB is in.
    fn is_valuable(&self, leb: &Leb, taken: i32) -> bool {
        let category = self.category(leb);
        match (category, weight(category, leb)) {
            (_, Some((heap, _))) => self.heaps[heap].len() < heap::ROOM || leb.space() >= self.dark,
            (Category::Empty, _) => {
                let totals = &self.totals;
                let empty = totals.empty_lebs - totals.taken_empty_lebs - taken + self.lists.len(FREEABLE) as i32;
                empty < self.lsave_count
            }
            _ => matches!(category, Category::Freeable | Category::FreeableIndex),
        }
    }
}
