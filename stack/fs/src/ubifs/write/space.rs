//! Properties of the LEBs of the main area, in memory: what is free, what is dirty, and which LEB is the best for what.
//!
//! As in Linux LEBs are kept by category: lists of empty and freeable ones, heaps of those with dirty or free space. A heap holds
//! 256 LEBs. Those that it has no room for are in a list: the newest of them with enough space is taken once the heap has
//! none. So garbage collection may move a LEB with little dirt though others have more.
//!
//! Linux reads the LPT leaf by leaf, when it needs one, and knows the category of no LEB in a leaf that it has not read. So does
//! this: the properties are all here, but those of such a leaf are in no list and no heap.
//! Source: Linux 6.12 `fs/ubifs/lprops.c`, `find.c`, `lpt.c` (behaviour).

mod find;
mod heap;
mod lists;
mod scan;
#[cfg(test)]
mod tests;

use crate::ubifs::lprops::wasted;
use crate::ubifs::media::lpt::{FANOUT, LebProps};
use crate::ubifs::media::{MAX_NODE_BYTES, SuperBlock, TruncationNode, index_bytes};
pub(super) use find::Victims;
use heap::Heap;
use lists::Lists;

/// Bits of [`Leb::flags`].
pub mod flags {
    /// It is in use: a bud, the index head, or the reserve of garbage collection.
    pub const TAKEN: u8 = 1;
    /// It holds nodes of the index.
    pub const INDEX: u8 = 2;
}

/// Where a LEB is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Category {
    /// Its leaf of the LPT was not read.
    Unread,
    /// Of no use.
    None,
    /// Dirty space, at least the dead watermark and more than free space.
    Dirty,
    /// A LEB of the index with room for an index node.
    DirtyIndex,
    /// Free space.
    Free,
    /// Nothing in it.
    Empty,
    /// Free and dirty space only.
    Freeable,
    /// The same, of the index.
    FreeableIndex,
    /// One that is kept as a heap, which is full.
    Left,
}

/// A LEB.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leb {
    /// Bytes at the end that were not written. Signed, as while the journal is replayed sums are out of order.
    pub free: i32,
    /// Bytes of obsolete nodes and of padding.
    pub dirty: i32,
    /// See [`flags`].
    pub flags: u8,
    category: Category,
    /// It is among those that changed.
    is_changed: bool,
    /// Place in its heap, if it is in one.
    place: u32,
}

impl Leb {
    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Free and dirty bytes.
    pub fn space(&self) -> i32 {
        self.free + self.dirty
    }
}

/// Totals over all LEBs, as in the master node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub empty_lebs: i32,
    /// Of these, those that are taken.
    pub taken_empty_lebs: i32,
    pub index_lebs: i32,
    pub free: i64,
    pub dirty: i64,
    pub used: i64,
    pub dead: i64,
    pub dark: i64,
}

/// A change of a LEB's properties: what is `None` stays.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Change {
    pub free: Option<i32>,
    pub dirty: Option<i32>,
    /// Flags to set.
    pub set: u8,
    /// Flags to clear.
    pub clear: u8,
}

/// The table.
#[derive(Clone, Debug)]
pub(super) struct Space {
    first: u32,
    pub leb_bytes: i32,
    min_index_node: i32,
    /// Space below it is of no use.
    pub dead: i32,
    /// Space below it may be of no use.
    pub dark: i32,
    lebs: Vec<Leb>,
    lists: Lists<4>,
    heaps: [Heap; 3],
    pub totals: Totals,
    /// LEBs that changed since they were asked for.
    changed: Vec<u32>,
    /// Leaves of the LPT that were not read.
    unread: usize,
    /// Where the last scan of the LPT ended.
    scan_at: u32,
    /// LEBs in the save table of the LPT.
    lsave_count: i32,
}

impl Space {
    /// The table of a file system with these properties, by number of the LEB in the main area. No leaf of the LPT was read.
    pub fn new(sb: &SuperBlock, scan_lnum: u32, props: &[LebProps]) -> Space {
        let min_io = sb.min_io_bytes;
        let node = |bytes: u32| bytes.next_multiple_of(min_io) as i32;
        let mut space = Space {
            first: sb.main_first(),
            leb_bytes: sb.leb_bytes as i32,
            min_index_node: index_bytes(1).next_multiple_of(8) as i32,
            dead: node(TruncationNode::BYTES as u32),
            dark: node(MAX_NODE_BYTES as u32),
            lebs: Vec::with_capacity(props.len()),
            lists: Lists::new(props.len()),
            heaps: Default::default(),
            totals: Totals::default(),
            changed: Vec::new(),
            unread: props.len().div_ceil(FANOUT),
            scan_at: scan_lnum - sb.main_first(),
            lsave_count: sb.lsave_count as i32,
        };
        for props in props {
            let leb = Leb {
                free: props.free as i32,
                dirty: props.dirty as i32,
                flags: if props.is_index { flags::INDEX } else { 0 },
                category: Category::Unread,
                is_changed: false,
                place: 0,
            };
            space.lebs.push(leb);
            space.count(None, &leb);
        }
        space
    }

    fn at(&self, lnum: u32) -> usize {
        (lnum - self.first) as usize
    }

    /// Properties of a LEB.
    pub fn leb(&self, lnum: u32) -> &Leb {
        &self.lebs[self.at(lnum)]
    }

    /// Properties of all, for the LPT.
    pub fn props(&self, at: usize) -> LebProps {
        match self.lebs.get(at) {
            // Beyond the end: free, should the file system grow.
            None => LebProps { free: self.leb_bytes as u32, dirty: 0, is_index: false },
            Some(leb) => LebProps { free: leb.free as u32, dirty: leb.dirty as u32, is_index: leb.has(flags::INDEX) },
        }
    }

    /// Calls `each` with the LEBs of the main area, by place, that changed since the last call.
    pub fn take_changed(&mut self, mut each: impl FnMut(u32)) {
        for at in self.changed.drain(..) {
            self.lebs[at as usize].is_changed = false;
            each(at);
        }
    }

    /// What counts of a LEB only if it holds no index: bytes used, dead and dark.
    #[inline]
    fn of_data(&self, leb: &Leb) -> [i64; 3] {
        if leb.has(flags::INDEX) {
            return [0; 3];
        }
        let (dead, dark) = wasted(leb.space().max(0) as u32, self.dead as u32, self.dark as u32);
        [i64::from(self.leb_bytes - leb.space()), dead.into(), dark.into()]
    }

    /// Counts a LEB as what it is after a change, no longer as what it was before. `None` of one that was not counted.
    #[inline]
    fn count(&mut self, before: Option<&Leb>, after: &Leb) {
        let [used, dead, dark] = self.of_data(after);
        let [was_used, was_dead, was_dark] = before.map_or([0; 3], |before| self.of_data(before));
        let (free, dirty) = before.map_or((0, 0), |before| (before.free, before.dirty));
        let totals = &mut self.totals;
        totals.used += used - was_used;
        totals.dead += dead - was_dead;
        totals.dark += dark - was_dark;
        totals.free += i64::from(after.free - free);
        totals.dirty += i64::from(after.dirty - dirty);
        let whole = self.leb_bytes;
        let is_same = |before: &Leb| before.flags == after.flags && (before.free == whole) == (after.free == whole);
        if before.is_some_and(is_same) {
            return;
        }
        let mut add = |leb: &Leb, sign: i32| {
            let is_empty = leb.free == whole;
            totals.empty_lebs += sign * i32::from(is_empty);
            totals.taken_empty_lebs += sign * i32::from(is_empty && leb.has(flags::TAKEN));
            totals.index_lebs += sign * i32::from(leb.has(flags::INDEX));
        };
        if let Some(before) = before {
            add(before, -1);
        }
        add(after, 1);
    }

    /// Changes a LEB.
    pub fn change(&mut self, lnum: u32, change: Change) {
        let at = self.at(lnum);
        if self.lebs[at].category == Category::Unread {
            self.read(at / FANOUT);
        }
        let before = self.lebs[at];
        if !before.is_changed {
            self.changed.push(at as u32);
        }
        let after = Leb {
            free: change.free.unwrap_or(before.free),
            dirty: change.dirty.unwrap_or(before.dirty),
            flags: before.flags & !change.clear | change.set,
            is_changed: true,
            ..before
        };
        // Field by field: the processor would wait for a structure that it loads just after its parts were stored.
        let leb = &mut self.lebs[at];
        (leb.free, leb.dirty, leb.flags, leb.is_changed) = (after.free, after.dirty, after.flags, true);
        self.count(Some(&before), &after);
        self.sort(at as u32, &after);
    }

    /// A bud, or the index head, was written up to `end`, `padding` bytes of it padding.
    pub fn written(&mut self, lnum: u32, end: u32, padding: u32) {
        let leb = *self.leb(lnum);
        let (free, dirty) = (self.leb_bytes - end as i32, leb.dirty + padding as i32);
        self.change(lnum, Change { free: Some(free), dirty: Some(dirty), ..Change::default() });
    }

    /// A node of `len` bytes became obsolete.
    #[inline]
    pub fn add_dirt(&mut self, lnum: u32, len: u32) {
        let at = self.at(lnum);
        let (leb, dirt) = (&mut self.lebs[at], len.next_multiple_of(8) as i32);
        if !leb.has(flags::INDEX) || leb.category == Category::Unread {
            let dirty = leb.dirty + dirt;
            return self.change(lnum, Change { dirty: Some(dirty), ..Change::default() });
        }
        // The same for a LEB of the index, of which less is counted: most nodes that become obsolete are in one.
        leb.dirty += dirt;
        self.totals.dirty += i64::from(dirt);
        if !leb.is_changed {
            leb.is_changed = true;
            self.changed.push(at as u32);
        }
        let leb = *leb;
        self.sort(at as u32, &leb);
    }

    /// The LEB is taken no more.
    pub fn release(&mut self, lnum: u32) {
        self.change(lnum, Change { clear: flags::TAKEN, ..Change::default() });
    }

    /// LEBs that can be had without garbage collection: empty and freeable ones that are not taken.
    pub fn available(&self) -> i32 {
        self.totals.empty_lebs - self.totals.taken_empty_lebs + self.lists.len(FREEABLE) as i32
    }

    fn category(&self, leb: &Leb) -> Category {
        let is_index = leb.has(flags::INDEX);
        match leb.space() {
            _ if leb.has(flags::TAKEN) => Category::None,
            _ if leb.free == self.leb_bytes && !is_index => Category::Empty,
            space if space == self.leb_bytes && is_index => Category::FreeableIndex,
            space if space == self.leb_bytes => Category::Freeable,
            space if is_index && space >= self.min_index_node => Category::DirtyIndex,
            _ if is_index => Category::None,
            _ if leb.dirty >= self.dead && leb.dirty > leb.free => Category::Dirty,
            _ if leb.free > 0 => Category::Free,
            _ => Category::None,
        }
    }

    /// Puts a LEB where it belongs.
    #[inline]
    fn sort(&mut self, at: u32, leb: &Leb) {
        let (before, after) = (leb.category, self.category(leb));
        if before == after {
            if let Some((heap, value)) = weight(after, leb) {
                self.heaps[heap].change(at, value, &mut self.lebs);
            }
            return;
        }
        match (list(before), weight(before, leb)) {
            (Some(list), _) => self.lists.remove(list, at),
            (_, Some((heap, _))) => self.heaps[heap].remove(at, &mut self.lebs),
            _ => {}
        }
        self.add(at, after);
    }

    /// Puts a LEB that is nowhere where it belongs by its category.
    fn add(&mut self, at: u32, category: Category) {
        let leb = &mut self.lebs[at as usize];
        leb.category = category;
        match (list(category), weight(category, leb)) {
            (Some(list), _) => self.lists.push(list, at),
            (_, Some((heap, value))) => {
                if let Some(left) = self.heaps[heap].push(at, value, &mut self.lebs) {
                    self.lebs[left as usize].category = Category::Left;
                    self.lists.push(LEFT, left);
                }
            }
            _ => {}
        }
    }
}

/// List of empty LEBs.
const EMPTY: usize = 0;
/// List of LEBs with free and dirty space only.
const FREEABLE: usize = 1;
/// The same of the index.
const FREEABLE_INDEX: usize = 2;
/// List of those that full heaps have no room for.
const LEFT: usize = 3;

/// List of a category that is kept as one.
fn list(category: Category) -> Option<usize> {
    match category {
        Category::Empty => Some(EMPTY),
        Category::Freeable => Some(FREEABLE),
        Category::FreeableIndex => Some(FREEABLE_INDEX),
        Category::Left => Some(LEFT),
        _ => None,
    }
}

/// Heap of a category that is kept as one, and the LEB's value in it.
fn weight(category: Category, leb: &Leb) -> Option<(usize, i32)> {
    match category {
        Category::Dirty => Some((0, leb.dirty)),
        Category::DirtyIndex => Some((1, leb.space())),
        Category::Free => Some((2, leb.free)),
        _ => None,
    }
}
