//! Page operations: the unit of work of the dispatcher, with their latency breakdown and queues.

use sim::Cause;
use sim::seam::BlockError;

use crate::ftl::NONE;

/// Kinds of page operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoKind {
    /// Reads a page into the controller.
    Read,
    /// Programs a whole page.
    Write,
    /// Writes some sectors of a page (the mask of [`Ios::set_page`]): the page is read from the flash, merged, and
    /// programmed.
    Merge,
}

/// The part of the drive that issued a page operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A request of the host.
    Request {
        /// The request's tag.
        tag: u32,
        /// Logical page number in the drive.
        lpn: u32,
    },
    /// The write buffer, which writes out the page in a slot.
    Buffer {
        /// Number of the slot. It is free again when the page is in the cells.
        slot: u32,
    },
    /// The write buffer, which pads a group of pages with a page that it does not hold.
    BufferPadding,
    /// The map cache, which loads a page of the mapping table.
    MapRead {
        /// Number of the page in the table.
        page: u32,
    },
    /// The map cache, which writes back a page of the mapping table.
    MapWrite {
        /// Number of the page in the table.
        page: u32,
    },
    /// The dispatcher, which programs a page elsewhere after its program failed.
    Recovery,
}

/// Components of the latency of a page operation or of a request, in nanoseconds. Every nanosecond is in exactly one of
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breakdown {
    /// Command processing in the controller, and waiting for it.
    pub controller: u64,
    /// Transfer over the host's link, and waiting for it.
    pub link: u64,
    /// Waiting in the drive for the work of other requests.
    pub queue: u64,
    /// Waiting for a page of the mapping table (a map cache miss).
    pub map: u64,
    /// Transfer over the flash channel, and waiting for it.
    pub bus: u64,
    /// The flash array working on this page.
    pub die: u64,
    /// Waiting for garbage collection, wear levelling or a merge on the die.
    pub gc: u64,
    /// Waiting for an erase on the die.
    pub erase: u64,
    /// Waiting for a flush, a barrier, or free space in the write buffer.
    pub flush: u64,
}

impl Breakdown {
    /// Names of the components, in the order of [`Breakdown::values`].
    pub const COMPONENTS: [&'static str; 9] =
        ["controller", "link", "queue", "map", "bus", "die", "gc", "erase", "flush"];

    /// Time of each component, in nanoseconds.
    pub const fn values(&self) -> [u64; 9] {
        [self.controller, self.link, self.queue, self.map, self.bus, self.die, self.gc, self.erase, self.flush]
    }

    /// The whole latency: the sum of the components, in nanoseconds.
    pub fn total(&self) -> u64 {
        self.values().iter().sum()
    }
}

/// An operation on one logical page.
#[derive(Clone, Debug)]
pub struct Io {
    /// Read, whole-page write, or partial write.
    pub kind: IoKind,
    /// The cause under which its programmed bytes are counted.
    pub cause: Cause,
    /// Of a read: whether an HPB entry that came with the request is verified against the page, which occupies the die
    /// longer.
    pub checked: bool,
    /// Of a checked read: the physical page in its entry, and the one that the page was mapped to when the entry was
    /// accepted. The entry's page is read unless the page has moved since.
    pub by_entry: ByEntry,
    /// Unit that the page belongs to.
    pub unit: u32,
    /// Logical page number in the unit.
    pub lpn: u32,
    /// The part of the drive that issued it.
    pub owner: Owner,
    /// Time at which it was queued on its die, in nanoseconds.
    pub queued_at: u64,
    /// The die's internal time at `queued_at`.
    pub(super) seen: InternalTime,
    /// Components of its latency; complete when it is finished.
    pub latency: Breakdown,
    /// Outcome, valid when it is finished.
    pub result: Result<(), BlockError>,
    pub(super) next: u32,
}

/// Where a read by HPB entry goes. Physical pages are numbers in the unit, or [`NONE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByEntry {
    /// The physical page in the entry.
    pub page: u32,
    /// The physical page of the mapping when the device accepted the entry.
    pub mapped: u32,
}

impl ByEntry {
    /// No entry.
    pub const NONE: ByEntry = ByEntry { page: NONE, mapped: NONE };
}

/// Time that a die spent on internal work while requests may have waited, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InternalTime {
    /// Garbage collection, wear levelling, and padding by the FTL.
    pub gc: u64,
    /// Erases, for any cause.
    pub erase: u64,
}

/// Page operations by number. Numbers of released operations are used again.
#[derive(Clone, Debug)]
pub struct Ios {
    all: Vec<Io>,
    free: u32,
    /// Contents by number, if the flash keeps any.
    pages: Vec<Vec<u8>>,
    /// Valid sectors (512 bytes) of each page in `pages`, one bit each.
    masks: Vec<u128>,
}

impl Default for Ios {
    fn default() -> Ios {
        Ios { all: Vec::new(), free: NONE, pages: Vec::new(), masks: Vec::new() }
    }
}

impl Ios {
    /// Stores a page operation and returns its number.
    #[inline(always)]
    pub fn add(&mut self, io: Io) -> u32 {
        let at = self.free;
        if at != NONE {
            let place = &mut self.all[at as usize];
            self.free = place.next;
            // Field by field, so that it is written in place.
            (place.kind, place.cause, place.checked) = (io.kind, io.cause, io.checked);
            (place.unit, place.lpn) = (io.unit, io.lpn);
            (place.owner, place.queued_at) = (io.owner, io.queued_at);
            (place.seen.gc, place.seen.erase) = (io.seen.gc, io.seen.erase);
            (place.latency, place.result, place.next) = (io.latency, io.result, io.next);
            if io.checked {
                place.by_entry = io.by_entry;
            }
            at
        } else {
            self.all.push(io);
            (self.all.len() - 1) as u32
        }
    }

    /// Releases a finished page operation; its number will be used again, and so will the memory of its contents.
    #[inline]
    pub fn release(&mut self, at: u32) {
        if let Some(page) = self.pages.get_mut(at as usize) {
            page.clear();
        }
        self.all[at as usize].next = self.free;
        self.free = at;
    }

    /// Sets the contents of page operation `at`. `mask` has one bit for each sector of 512 bytes that is valid.
    pub fn set_page(&mut self, at: u32, page: Vec<u8>, mask: u128) {
        if self.pages.len() <= at as usize {
            self.pages.resize(at as usize + 1, Vec::new());
            self.masks.resize(at as usize + 1, 0);
        }
        self.pages[at as usize] = page;
        self.masks[at as usize] = mask;
    }

    /// Copies the valid sectors of page operation `at` over `page`.
    pub fn overlay(&self, at: u32, page: &mut [u8]) {
        let (Some(own), Some(&mask)) = (self.pages.get(at as usize), self.masks.get(at as usize)) else { return };
        overlay(page, own, mask);
    }

    /// Takes the contents of page operation `at`; empty if it has none. For a finished one: give the memory back with
    /// [`set_page`](Ios::set_page), or for contents that are about to be set.
    pub fn take_page(&mut self, at: u32) -> Vec<u8> {
        self.pages.get_mut(at as usize).map(std::mem::take).unwrap_or_default()
    }

    /// Contents of page operation `at`; empty if it has none.
    pub fn page(&self, at: u32) -> &[u8] {
        self.pages.get(at as usize).map_or(&[], Vec::as_slice)
    }
}

/// Copies the 512-byte sectors of `from` whose bit is set in `mask` over `page`.
pub fn overlay(page: &mut [u8], from: &[u8], mask: u128) {
    for (sector, (to, from)) in page.chunks_mut(512).zip(from.chunks(512)).enumerate() {
        if mask >> sector & 1 == 1 {
            to.copy_from_slice(from);
        }
    }
}

impl std::ops::Index<u32> for Ios {
    type Output = Io;
    #[inline]
    fn index(&self, at: u32) -> &Io {
        &self.all[at as usize]
    }
}

impl std::ops::IndexMut<u32> for Ios {
    #[inline]
    fn index_mut(&mut self, at: u32) -> &mut Io {
        &mut self.all[at as usize]
    }
}

/// A queue of page operations, linked through their `next` fields.
#[derive(Clone, Copy, Debug)]
pub struct Fifo {
    head: u32,
    tail: u32,
}

impl Fifo {
    /// The empty queue.
    pub const EMPTY: Fifo = Fifo { head: NONE, tail: NONE };

    /// The page operation at the head.
    #[inline]
    pub fn front(&self) -> Option<u32> {
        (self.head != NONE).then_some(self.head)
    }

    /// Whether the queue is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head == NONE
    }

    /// Appends a page operation at the tail.
    #[inline]
    pub fn push(&mut self, ios: &mut Ios, at: u32) {
        ios[at].next = NONE;
        if self.head == NONE {
            self.head = at;
        } else {
            ios[self.tail].next = at;
        }
        self.tail = at;
    }

    /// Puts a page operation at the head.
    pub fn push_front(&mut self, ios: &mut Ios, at: u32) {
        ios[at].next = self.head;
        if self.head == NONE {
            self.tail = at;
        }
        self.head = at;
    }

    /// Removes the page operation at the head.
    #[inline]
    pub fn pop(&mut self, ios: &Ios) -> Option<u32> {
        let at = self.front()?;
        self.head = ios[at].next;
        Some(at)
    }
}
