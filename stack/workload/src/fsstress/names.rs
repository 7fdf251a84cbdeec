//! What fsstress knows of its own files: a list of names for each kind, from which it draws.

use std::collections::BTreeMap;
use std::fmt;

use sim::seam::Ino;

/// Kind of a name, in the order in which fsstress counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// A directory, `d`.
    Directory,
    /// A regular file, `f`.
    Regular,
    /// A symbolic link, `l`.
    Symlink,
    /// A character device, `c`.
    Device,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Directory, Kind::Regular, Kind::Symlink, Kind::Device];

    const fn letter(self) -> char {
        ['d', 'f', 'l', 'c'][self as usize]
    }
}

/// Kinds from which a name is drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kinds(u8);

impl Kinds {
    pub(super) const DIRECTORY: Kinds = Kinds(1);
    pub(super) const REGULAR: Kinds = Kinds(2);
    pub(super) const SYMLINK: Kinds = Kinds(4);
    pub(super) const DEVICE: Kinds = Kinds(8);
    pub(super) const FILE_OR_DIRECTORY: Kinds = Kinds(3);
    pub(super) const NO_DIRECTORY: Kinds = Kinds(14);
    pub(super) const ANY: Kinds = Kinds(15);

    pub(super) const fn only(kind: Kind) -> Kinds {
        Kinds(1 << kind as u8)
    }

    const fn has(self, kind: Kind) -> bool {
        self.0 >> kind as u8 & 1 == 1
    }
}

/// A name, of which each process makes every one only once: letter and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    /// Its kind.
    pub kind: Kind,
    /// Its number.
    pub id: u32,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:x}", self.kind.letter(), self.id)
    }
}

/// An entry of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) id: u32,
    /// Directory by its number; `None` is the process's own.
    pub(super) parent: Option<u32>,
    /// Attributes set so far: the last is called `user.x` and this number.
    pub(super) xattrs: u32,
    pub(super) ino: Ino,
}

/// Where an entry is, until a list changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) kind: Kind,
    at: usize,
}

/// The lists.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    lists: [Vec<Entry>; 4],
    directories: BTreeMap<u32, Ino>,
}

impl Names {
    /// The `random`-th of the names of these kinds, modulo their number.
    #[inline]
    pub(super) fn pick(&self, kinds: Kinds, random: u64) -> Option<Slot> {
        let of = |kind: Kind| if kinds.has(kind) { self.lists[kind as usize].len() } else { 0 };
        let total: usize = Kind::ALL.into_iter().map(of).sum();
        if total == 0 {
            return None;
        }
        let mut at = (random % total as u64) as usize;
        for kind in Kind::ALL {
            if at < of(kind) {
                return Some(Slot { kind, at });
            }
            at -= of(kind);
        }
        unreachable!("it is below the sum")
    }

    pub(super) fn count(&self, kind: Kind) -> usize {
        self.lists[kind as usize].len()
    }

    #[inline]
    pub(super) fn entry(&self, slot: Slot) -> &Entry {
        &self.lists[slot.kind as usize][slot.at]
    }

    pub(super) fn entry_mut(&mut self, slot: Slot) -> &mut Entry {
        &mut self.lists[slot.kind as usize][slot.at]
    }

    #[inline]
    pub(super) fn name(&self, slot: Slot) -> Name {
        Name { kind: slot.kind, id: self.entry(slot).id }
    }

    /// Inode of a directory by its number.
    #[inline]
    pub(super) fn directory(&self, id: u32) -> Ino {
        self.directories[&id]
    }

    pub(super) fn add(&mut self, kind: Kind, entry: Entry) {
        if kind == Kind::Directory {
            self.directories.insert(entry.id, entry.ino);
        }
        self.lists[kind as usize].push(entry);
    }

    /// The last of the list takes the place.
    pub(super) fn remove(&mut self, slot: Slot) -> Entry {
        let entry = self.lists[slot.kind as usize].swap_remove(slot.at);
        if slot.kind == Kind::Directory {
            self.directories.remove(&entry.id);
        }
        entry
    }

    /// Forgets what was in a directory that is gone. It was empty: other hands have removed it.
    pub(super) fn forget_children(&mut self, gone: u32) {
        for list in &mut self.lists {
            list.retain(|entry| entry.parent != Some(gone));
        }
    }

    /// What is in directory `old` is in `new` from now on.
    pub(super) fn move_children(&mut self, old: u32, new: u32) {
        for entry in self.lists.iter_mut().flatten() {
            if entry.parent == Some(old) {
                entry.parent = Some(new);
            }
        }
    }

    /// Two names of a kind have changed places: each keeps number and parent, and stands for the other's inode.
    pub(super) fn exchange(&mut self, one: Slot, other: Slot) {
        let (a, b) = (*self.entry(one), *self.entry(other));
        if one.kind == Kind::Directory {
            for entry in self.lists.iter_mut().flatten() {
                if entry.parent == Some(a.id) {
                    entry.parent = Some(b.id);
                } else if entry.parent == Some(b.id) {
                    entry.parent = Some(a.id);
                }
            }
            self.directories.insert(a.id, b.ino);
            self.directories.insert(b.id, a.ino);
        }
        for (slot, with) in [(one, b), (other, a)] {
            let entry = self.entry_mut(slot);
            (entry.xattrs, entry.ino) = (with.xattrs, with.ino);
        }
    }

    /// Whether directory `above` holds `below`, at any depth.
    pub(super) fn is_above(&self, above: u32, below: &Entry) -> bool {
        let mut at = below.parent;
        while let Some(parent) = at {
            if parent == above {
                return true;
            }
            at =
                self.lists[Kind::Directory as usize].iter().find(|entry| entry.id == parent).and_then(|dir| dir.parent);
        }
        false
    }
}
