//! Inodes that the cache knows, by number, and the lists of those that are to be written back.

use std::collections::VecDeque;

use sim::Ns;
use sim::seam::{Attr, FileType, FsError, Ino, InodeFlags};

use super::table::Table;

const GROUP: usize = 1024;
const NONE: u32 = u32::MAX;

/// Where the reader of a file is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reader {
    /// Page after the last one that was read, 0 at the beginning.
    pub next: u64,
    /// Page after the last window of read-ahead, and the pages of that window.
    pub window: (u64, u64),
}

/// An inode that has cached pages, is open, or waits to be written back.
#[derive(Clone, Debug)]
pub(super) struct Inode {
    pub ino: Ino,
    pub is_regular: bool,
    pub is_sync: bool,
    pub size: u64,
    pub table: Table,
    pub opens: u32,
    /// It is open and has no name.
    pub is_unlinked: bool,
    /// Its place in the lists of those to be written, if it is in one.
    pub queued: Option<Entry>,
    /// Page at which background and periodic write-back go on.
    pub cursor: u64,
    /// A failed write-back that no `fsync` has reported.
    pub error: Option<FsError>,
    pub reader: Reader,
}

/// An inode in a list. An entry is void if the inode has another or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub slot: u32,
    stamp: u64,
    /// When the inode became dirty.
    pub since: Ns,
}

/// A list of inodes to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    /// The turn of these has not come.
    Dirty,
    /// These are written now.
    Io,
    /// These had a turn and have more to write.
    MoreIo,
}

/// The inodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Inodes {
    groups: Vec<Option<Box<[u32; GROUP]>>>,
    slots: Vec<Option<Inode>>,
    unused: Vec<u32>,
    lists: [VecDeque<Entry>; 3],
    stamp: u64,
    queued: u64,
    /// See [`keep`](Inodes::keep).
    kept: Option<u32>,
}

impl Inodes {
    pub fn at(&self, slot: u32) -> &Inode {
        self.slots[slot as usize].as_ref().expect("the slot is in use")
    }

    pub fn at_mut(&mut self, slot: u32) -> &mut Inode {
        self.slots[slot as usize].as_mut().expect("the slot is in use")
    }

    pub fn find(&self, ino: Ino) -> Option<u32> {
        let group = self.groups.get(ino.0 as usize / GROUP)?.as_ref()?;
        Some(group[ino.0 as usize % GROUP]).filter(|&slot| slot != NONE)
    }

    /// Adds an inode that is not known.
    pub fn insert(&mut self, attr: &Attr) -> u32 {
        let inode = Inode {
            ino: attr.ino,
            is_regular: attr.file_type == FileType::Regular,
            is_sync: attr.flags.has(InodeFlags::SYNC),
            size: attr.size,
            table: Table::default(),
            opens: 0,
            is_unlinked: false,
            queued: None,
            cursor: 0,
            error: None,
            reader: Reader::default(),
        };
        let slot = self.unused.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[slot as usize] = Some(inode);
        let number = usize::try_from(attr.ino.0).expect("a number of 32 bits");
        if self.groups.len() <= number / GROUP {
            self.groups.resize(number / GROUP + 1, None);
        }
        self.groups[number / GROUP].get_or_insert_with(|| Box::new([NONE; GROUP]))[number % GROUP] = slot;
        slot
    }

    /// Forgets an inode without pages.
    pub fn remove(&mut self, slot: u32) {
        self.unqueue(slot);
        let inode = self.slots[slot as usize].take().expect("the slot is in use");
        debug_assert!(inode.table.is_empty(), "inode {} has pages", inode.ino);
        let number = inode.ino.0 as usize;
        if let Some(group) = &mut self.groups[number / GROUP] {
            group[number % GROUP] = NONE;
            if group.iter().all(|&slot| slot == NONE) {
                self.groups[number / GROUP] = None;
            }
        }
        self.unused.push(slot);
    }

    /// An inode that stays known, whatever is written.
    pub fn keep(&mut self, slot: Option<u32>) {
        self.kept = slot;
    }

    /// Forgets an inode that nothing is known of but its size.
    pub fn remove_if_idle(&mut self, slot: u32) {
        let inode = self.at(slot);
        if self.kept != Some(slot) && inode.table.is_empty() && inode.opens == 0 && inode.queued.is_none() {
            self.remove(slot);
        }
    }

    /// Inodes in the lists.
    pub fn queued(&self) -> u64 {
        self.queued
    }

    /// Whether an entry still stands for its inode.
    pub fn is_valid(&self, entry: Entry) -> bool {
        self.slots[entry.slot as usize].as_ref().is_some_and(|inode| inode.queued == Some(entry))
    }

    /// Puts an inode at the end of a list, and takes it out of the one that it was in.
    pub fn queue(&mut self, slot: u32, list: List, since: Ns) {
        self.stamp += 1;
        let entry = Entry { slot, stamp: self.stamp, since };
        if self.at_mut(slot).queued.replace(entry).is_none() {
            self.queued += 1;
        }
        self.lists[list as usize].push_back(entry);
        self.prune(list);
    }

    /// Takes an inode out of the lists.
    pub fn unqueue(&mut self, slot: u32) {
        if self.at_mut(slot).queued.take().is_some() {
            self.queued -= 1;
        }
    }

    /// Drops void entries, if they are most.
    fn prune(&mut self, list: List) {
        if self.lists[list as usize].len() as u64 > 2 * self.queued + 64 {
            let mut entries = std::mem::take(&mut self.lists[list as usize]);
            entries.retain(|&entry| self.is_valid(entry));
            self.lists[list as usize] = entries;
        }
    }

    /// The first inode of a list.
    pub fn first(&mut self, list: List) -> Option<Entry> {
        while let Some(&entry) = self.lists[list as usize].front() {
            if self.is_valid(entry) {
                return Some(entry);
            }
            self.lists[list as usize].pop_front();
        }
        None
    }

    /// When the last inode of a list became dirty.
    pub fn last_since(&mut self, list: List) -> Option<Ns> {
        while let Some(&entry) = self.lists[list as usize].back() {
            if self.is_valid(entry) {
                return Some(entry.since);
            }
            self.lists[list as usize].pop_back();
        }
        None
    }

    /// Lets the turn come of those that had one before, and of those dirty since `before` or longer.
    pub fn refill(&mut self, before: Option<Ns>) {
        let [_, io, more_io] = &mut self.lists;
        io.append(more_io);
        while let Some(entry) = self.first(List::Dirty) {
            if before.is_some_and(|before| entry.since > before) {
                break;
            }
            self.lists[List::Dirty as usize].pop_front();
            self.lists[List::Io as usize].push_back(entry);
        }
    }

    /// Every inode.
    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Inode)> {
        self.slots.iter().enumerate().filter_map(|(slot, inode)| Some((slot as u32, inode.as_ref()?)))
    }
}
