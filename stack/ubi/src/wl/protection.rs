//! The protection queue: a ring of lists; each erasure releases the oldest.
//!
//! Few PEBs are protected at a time, so the entries are in a table of their own, where free entries are reused. The
//! owner of a PEB keeps the number of its entry.

use sim::Peb;

use super::PROTECTION_ERASES;

const NIL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    next: u32,
    prev: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    link: Link,
    peb: Peb,
    slot: u8,
}

/// The protection queue.
#[derive(Clone, Debug)]
pub(super) struct Protection {
    entries: Vec<Entry>,
    /// Free entries; the one freed last is reused first.
    vacant: Vec<u32>,
    heads: [Link; PROTECTION_ERASES],
    oldest: usize,
}

impl Protection {
    pub fn new() -> Protection {
        let nil = Link { next: NIL, prev: NIL };
        Protection { entries: Vec::new(), vacant: Vec::new(), heads: [nil; PROTECTION_ERASES], oldest: 0 }
    }

    /// Adds a PEB to the youngest list; returns the number of its entry.
    #[inline]
    pub fn add(&mut self, peb: Peb) -> u32 {
        let slot = if self.oldest == 0 { PROTECTION_ERASES - 1 } else { self.oldest - 1 };
        let tail = self.heads[slot].prev;
        let entry = Entry { link: Link { next: NIL, prev: tail }, peb, slot: slot as u8 };
        let new = match self.vacant.pop() {
            Some(vacant) => {
                self.entries[vacant as usize] = entry;
                vacant
            }
            None => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
        };
        if tail == NIL {
            self.heads[slot].next = new;
        } else {
            self.entries[tail as usize].link.next = new;
        }
        self.heads[slot].prev = new;
        new
    }

    /// Removes the PEB of entry `at`.
    #[inline]
    pub fn remove(&mut self, at: u32) {
        let Entry { link: Link { next, prev }, slot, .. } = self.entries[at as usize];
        let head = &mut self.heads[usize::from(slot)];
        if prev == NIL {
            head.next = next;
        } else {
            self.entries[prev as usize].link.next = next;
        }
        if next == NIL {
            head.prev = prev;
        } else {
            self.entries[next as usize].link.prev = prev;
        }
        self.vacant.push(at);
    }

    /// Takes the next PEB from the oldest list; when that is empty, it becomes the youngest.
    #[inline]
    pub fn release(&mut self) -> Option<Peb> {
        let head = &mut self.heads[self.oldest];
        let at = head.next;
        if at == NIL {
            head.prev = NIL;
            self.oldest = if self.oldest + 1 == PROTECTION_ERASES { 0 } else { self.oldest + 1 };
            return None;
        }
        let Entry { link, peb, .. } = self.entries[at as usize];
        head.next = link.next;
        self.vacant.push(at);
        Some(peb)
    }

    /// Every protected PEB, list by list.
    pub fn iter(&self) -> impl Iterator<Item = Peb> + '_ {
        self.heads.iter().flat_map(|head| {
            let entry = |at: u32| self.entries.get(at as usize);
            std::iter::successors(entry(head.next), move |at| entry(at.link.next)).map(|entry| entry.peb)
        })
    }
}
