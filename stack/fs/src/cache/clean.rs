//! Clean pages of files, for a file system that writes at once and asks for its pages itself.

use std::collections::BTreeMap;

use super::Counters;
use super::pages::{Owner, PAGE, Pages, ZEROES};
use super::table::Table;

/// Pages of files in memory. A file is known by the number of its inode. When the memory is full the page that was used longest
/// ago is dropped.
#[derive(Clone, Debug)]
pub(crate) struct CleanPages {
    /// Most pages.
    memory: u64,
    pages: Pages,
    tables: BTreeMap<u32, Table>,
    counters: Counters,
}

impl CleanPages {
    /// No pages yet, with memory for so many bytes.
    pub fn new(memory_bytes: u64) -> CleanPages {
        CleanPages {
            memory: memory_bytes / u64::from(PAGE),
            pages: Pages::new(true),
            tables: BTreeMap::new(),
            counters: Counters::default(),
        }
    }

    /// Whether pages are kept at all.
    pub fn is_on(&self) -> bool {
        self.memory > 0
    }

    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// A reader wants a page.
    pub fn count_read(&mut self, ino: u32, index: u32) {
        match self.slot(ino, index) {
            Some(_) => self.counters.hits += 1,
            None => self.counters.misses += 1,
        }
    }

    fn slot(&self, ino: u32, index: u32) -> Option<u32> {
        self.tables.get(&ino)?.get(index.into())
    }

    /// Uses a page, if it is there.
    pub fn get(&mut self, ino: u32, index: u32) -> Option<&[u8]> {
        let slot = self.slot(ino, index)?;
        self.pages.touch(slot);
        self.pages.contents(slot).map(|contents| &contents[..])
    }

    /// Adds a page that is not there, and was read.
    pub fn insert(&mut self, ino: u32, index: u32, contents: &[u8]) {
        if self.pages.len() >= self.memory
            && let Some(Owner { inode, index }) = self.pages.oldest()
        {
            self.drop_from(inode, index, index + 1);
            self.counters.evicted += 1;
        }
        self.counters.read += 1;
        let slot = self.pages.insert(Owner { inode: ino, index: index.into() });
        self.tables.entry(ino).or_default().insert(index.into(), slot);
        self.pages.put(slot, 0, contents);
    }

    /// Bytes of a file are others now: of a page that is there, beyond whose end they do not go.
    pub fn change(&mut self, ino: u32, offset: u32, bytes: &[u8]) {
        if let Some(slot) = self.slot(ino, offset / PAGE) {
            self.pages.touch(slot);
            self.pages.put(slot, (offset % PAGE) as usize, bytes);
        }
    }

    /// A file ends at `size`: pages behind it go, and the rest of the last one is zero.
    pub fn cut(&mut self, ino: u32, size: u32) {
        self.drop_from(ino, size.div_ceil(PAGE).into(), u64::MAX);
        if let Some(slot) = self.slot(ino, size / PAGE) {
            let begin = (size % PAGE) as usize;
            self.pages.put(slot, begin, &ZEROES[begin..]);
        }
    }

    /// What a page holds is no longer known.
    pub fn drop_page(&mut self, ino: u32, index: u32) {
        self.drop_from(ino, index.into(), u64::from(index) + 1);
    }

    /// Pages of files go, but for those whose inode is to be kept.
    pub fn retain(&mut self, mut keep: impl FnMut(u32) -> bool) {
        let others: Vec<u32> = self.tables.keys().copied().filter(|&ino| !keep(ino)).collect();
        for ino in others {
            self.drop_from(ino, 0, u64::MAX);
        }
    }

    fn drop_from(&mut self, ino: u32, from: u64, to: u64) {
        let Some(table) = self.tables.get_mut(&ino) else { return };
        while let Some(taken) = table.take(from, to) {
            self.pages.remove(taken.slot);
        }
        if table.is_empty() {
            self.tables.remove(&ino);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(bytes: u64) -> CleanPages {
        CleanPages::new(bytes)
    }

    fn bytes(pages: &mut CleanPages, ino: u32, index: u32) -> Option<(u8, u8)> {
        pages.get(ino, index).map(|page| (page[0], page[PAGE as usize - 1]))
    }

    #[test]
    fn the_page_that_was_used_longest_ago_is_dropped() {
        let mut pages = pages(3 * 4096);
        for index in 0..3 {
            pages.insert(7, index, &[index as u8 + 1; 4096]);
        }
        assert_eq!(bytes(&mut pages, 7, 0), Some((1, 1)));
        pages.insert(8, 0, &[9; 100]);
        let there = [(7, 0), (7, 1), (7, 2), (8, 0)].map(|(ino, index)| bytes(&mut pages, ino, index));
        assert_eq!(there, [Some((1, 1)), None, Some((3, 3)), Some((9, 0))]);
        assert_eq!((pages.pages.len(), pages.counters().evicted), (3, 1));
    }

    /// 5,000 bytes: the second page has 904 of them.
    #[test]
    fn a_cut_leaves_zeroes_in_the_last_page_and_none_behind_it() {
        let mut pages = pages(1 << 20);
        for index in 0..4 {
            pages.insert(7, index, &[5; 4096]);
        }
        pages.insert(8, 3, &[6; 4096]);
        pages.cut(7, 5000);
        let rest: Vec<bool> = (0..4).map(|index| pages.get(7, index).is_some()).collect();
        assert_eq!(rest, [true, true, false, false]);
        let last = pages.get(7, 1).expect("it is there");
        assert!(last[..904].iter().all(|&byte| byte == 5) && last[904..].iter().all(|&byte| byte == 0));
        pages.cut(7, 4096);
        assert_eq!((bytes(&mut pages, 7, 0), bytes(&mut pages, 7, 1)), (Some((5, 5)), None));
        pages.cut(7, 0);
        assert_eq!((bytes(&mut pages, 7, 0), bytes(&mut pages, 8, 3)), (None, Some((6, 6))));
    }

    #[test]
    fn a_change_reaches_a_page_that_is_there_and_no_other() {
        let mut pages = pages(1 << 20);
        pages.insert(7, 1, &[5; 4096]);
        pages.change(7, 8190, &[1, 2]);
        pages.change(7, 0, &[1]);
        pages.change(8, 4096, &[1]);
        let page = pages.get(7, 1).expect("it is there");
        assert_eq!((page[4093], page[4094], page[4095]), (5, 1, 2));
        assert_eq!((bytes(&mut pages, 7, 0), bytes(&mut pages, 8, 1)), (None, None));
        pages.insert(9, 0, &[3; 4096]);
        pages.drop_page(7, 1);
        pages.retain(|ino| ino != 9);
        assert_eq!((pages.pages.len(), pages.tables.len()), (0, 0));
    }
}
