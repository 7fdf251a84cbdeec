//! Pages in memory: a slab, and the clean ones in the order of their use.
//!
//! Invariant: a page is in the list exactly if it is clean.

use sim::seam::is_zero;

/// Bytes of a page.
pub(super) const PAGE: u32 = 4096;
const NONE: u32 = u32::MAX;
pub(super) static ZEROES: [u8; PAGE as usize] = [0; PAGE as usize];

/// Whose page it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    /// Slot of the inode.
    pub inode: u32,
    /// Number of the page in the file.
    pub index: u64,
}

#[derive(Clone, Debug)]
struct Page {
    owner: Owner,
    older: u32,
    newer: u32,
    is_listed: bool,
}

/// The pages.
#[derive(Clone, Debug)]
pub(super) struct Pages {
    pages: Vec<Page>,
    /// Contents of each page that were ever other than zeroes; nothing where no bytes are kept.
    contents: Vec<Option<Box<[u8; PAGE as usize]>>>,
    keeps_bytes: bool,
    unused: Vec<u32>,
    oldest: u32,
    newest: u32,
}

impl Pages {
    pub fn new(keeps_bytes: bool) -> Pages {
        Pages { pages: Vec::new(), contents: Vec::new(), keeps_bytes, unused: Vec::new(), oldest: NONE, newest: NONE }
    }

    /// Pages, clean and dirty.
    pub fn len(&self) -> u64 {
        (self.pages.len() - self.unused.len()) as u64
    }

    /// Adds a clean page of zeroes, which is the newest.
    pub fn insert(&mut self, owner: Owner) -> u32 {
        let page = Page { owner, older: NONE, newer: NONE, is_listed: false };
        let slot = match self.unused.pop() {
            Some(slot) => {
                self.pages[slot as usize] = page;
                if let Some(Some(contents)) = self.contents.get_mut(slot as usize) {
                    contents.fill(0);
                }
                slot
            }
            None => {
                self.pages.push(page);
                if self.keeps_bytes {
                    self.contents.push(None);
                }
                self.pages.len() as u32 - 1
            }
        };
        self.list(slot);
        slot
    }

    pub fn remove(&mut self, slot: u32) {
        self.unlist(slot);
        self.unused.push(slot);
    }

    /// Uses a page.
    pub fn touch(&mut self, slot: u32) {
        if self.newest != slot && self.pages[slot as usize].is_listed {
            self.unlist(slot);
            self.list(slot);
        }
    }

    pub fn set_dirty(&mut self, slot: u32) {
        self.unlist(slot);
    }

    /// The page was written, which counts as a use.
    pub fn set_clean(&mut self, slot: u32) {
        self.list(slot);
    }

    /// The clean page that was used longest ago.
    pub fn oldest(&self) -> Option<Owner> {
        (self.oldest != NONE).then(|| self.pages[self.oldest as usize].owner)
    }

    /// Contents of a page, if they are kept.
    pub fn contents(&self, slot: u32) -> Option<&[u8; PAGE as usize]> {
        self.contents.get(slot as usize).map(|contents| contents.as_deref().unwrap_or(&ZEROES))
    }

    /// Contents of a page to be changed, if they are kept.
    pub fn contents_mut(&mut self, slot: u32) -> Option<&mut [u8; PAGE as usize]> {
        self.contents.get_mut(slot as usize).map(|contents| &mut **contents.get_or_insert_with(|| Box::new(ZEROES)))
    }

    /// Changes bytes of a page, if they are kept. Zeroes in a page that never had others take no memory.
    pub fn put(&mut self, slot: u32, begin: usize, bytes: &[u8]) {
        match self.contents.get_mut(slot as usize) {
            Some(None) if is_zero(bytes) => {}
            Some(contents) => {
                contents.get_or_insert_with(|| Box::new(ZEROES))[begin..begin + bytes.len()].copy_from_slice(bytes);
            }
            None => {}
        }
    }

    fn list(&mut self, slot: u32) {
        let older = std::mem::replace(&mut self.newest, slot);
        let page = &mut self.pages[slot as usize];
        debug_assert!(!page.is_listed, "page {slot} is clean already");
        (page.older, page.newer, page.is_listed) = (older, NONE, true);
        match older {
            NONE => self.oldest = slot,
            _ => self.pages[older as usize].newer = slot,
        }
    }

    fn unlist(&mut self, slot: u32) {
        let page = &mut self.pages[slot as usize];
        if !std::mem::take(&mut page.is_listed) {
            return;
        }
        let (older, newer) = (page.older, page.newer);
        match older {
            NONE => self.oldest = newer,
            _ => self.pages[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            _ => self.pages[newer as usize].older = older,
        }
    }

    /// Owners of the clean pages, from the oldest on. Panics if links disagree.
    #[cfg(test)]
    pub fn listed(&self) -> Vec<Owner> {
        let mut listed = Vec::new();
        let (mut older, mut slot) = (NONE, self.oldest);
        while slot != NONE {
            let page = &self.pages[slot as usize];
            assert!(page.is_listed && page.older == older, "page {slot}");
            listed.push(page.owner);
            (older, slot) = (slot, page.newer);
        }
        assert_eq!(self.newest, older);
        listed
    }

    /// Whose page it is.
    #[cfg(test)]
    pub fn owner(&self, slot: u32) -> Owner {
        self.pages[slot as usize].owner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn page(index: u64) -> Owner {
        Owner { inode: 0, index }
    }

    #[test]
    fn clean_pages_are_listed_by_their_last_use() {
        let mut pages = Pages::new(false);
        let slots: Vec<u32> = (0..4).map(|index| pages.insert(page(index))).collect();
        pages.touch(slots[1]);
        assert_eq!(pages.listed(), [0, 2, 3, 1].map(page));
        pages.set_dirty(slots[2]);
        pages.touch(slots[2]);
        assert_eq!((pages.listed(), pages.len()), ([0, 3, 1].map(page).to_vec(), 4));
        pages.set_clean(slots[2]);
        assert_eq!(pages.listed(), [0, 3, 1, 2].map(page));
        pages.remove(slots[0]);
        assert_eq!(pages.oldest(), Some(page(3)));
        assert_eq!(pages.insert(page(9)), slots[0]);
        assert_eq!(pages.listed(), [3, 1, 2, 9].map(page));
    }

    #[test]
    fn a_page_that_is_used_again_begins_with_zeroes() {
        let mut pages = Pages::new(true);
        let slot = pages.insert(page(0));
        pages.contents_mut(slot).unwrap().fill(7);
        pages.remove(slot);
        let again = pages.insert(page(1));
        assert_eq!((again, pages.contents(again)), (slot, Some(&[0; PAGE as usize])));
    }

    #[test]
    fn without_bytes_no_contents_are_kept() {
        let mut pages = Pages::new(false);
        let slot = pages.insert(page(0));
        assert_eq!((pages.contents(slot), pages.contents.capacity()), (None, 0));
    }
}
