//! Page operations that wait for a die, and what became of them.

use sim::Cause;
use sim::seam::BlockError;

use crate::ftl::NONE;

/// What a page operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoKind {
    /// Read a page into the controller.
    Read,
    /// Program a whole page.
    Write,
    /// Write some sectors of a page ([`Ios::set_page`] says which); the rest is read from the flash first.
    Merge,
}

/// For whom a page operation is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A request of the host's.
    Request {
        /// The request's tag.
        tag: u32,
        /// The page's number in the drive.
        lpn: u32,
    },
    /// The write buffer, which writes out what it has in a slot.
    Buffer {
        /// The slot, free again when the page is in the cells.
        slot: u32,
    },
    /// The write buffer, which fills a group up with a page that it does not hold.
    BufferPadding,
    /// The map cache, which loads a page of the mapping table.
    MapRead {
        /// The page's number in the table.
        page: u32,
    },
    /// The map cache, which writes a page of the mapping table back.
    MapWrite {
        /// The page's number in the table.
        page: u32,
    },
    /// The dispatcher: contents whose program failed go to another place.
    Recovery,
}

/// Components of the latency of a page operation, or of a request, in nanoseconds. Each moment is in one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breakdown {
    /// The controller's own work on the command, and waiting for it.
    pub controller: u64,
    /// Waiting for, and transfer over, the host's link.
    pub link: u64,
    /// Waiting in the drive for other requests' work.
    pub queue: u64,
    /// Waiting for a page of the mapping table.
    pub map: u64,
    /// Waiting for, and using, the channel.
    pub bus: u64,
    /// The array at work on this page.
    pub die: u64,
    /// Waiting for garbage collection, wear levelling or a merge.
    pub gc: u64,
    /// Waiting for an erase on its die.
    pub erase: u64,
    /// Waiting for a flush, a barrier, or room in the write buffer.
    pub flush: u64,
}

impl Breakdown {
    /// Names of the components, in the order of [`Breakdown::values`].
    pub const COMPONENTS: [&'static str; 9] =
        ["controller", "link", "queue", "map", "bus", "die", "gc", "erase", "flush"];

    /// The time of each component.
    pub const fn values(&self) -> [u64; 9] {
        [self.controller, self.link, self.queue, self.map, self.bus, self.die, self.gc, self.erase, self.flush]
    }

    /// The whole latency: all components together.
    pub fn total(&self) -> u64 {
        self.values().iter().sum()
    }
}

/// An operation on one logical page, from its request to the die and back.
#[derive(Clone, Debug)]
pub struct Io {
    /// Whether it reads, programs, or reads, modifies and programs.
    pub kind: IoKind,
    /// To whom its programmed bytes are booked.
    pub cause: Cause,
    /// Of a read: whether its page is held against an entry that came with the request, which takes the die longer.
    pub checked: bool,
    /// Unit whose layer maps the page.
    pub unit: u32,
    /// Logical page of the unit.
    pub lpn: u32,
    /// For whom it is done.
    pub owner: Owner,
    /// When it was handed over.
    pub queued_at: u64,
    /// Time that its die had spent on internal work by then.
    pub(super) seen: InternalTime,
    /// Where its time went; complete when it is finished.
    pub latency: Breakdown,
    /// Whether the page was read or written, or why not.
    pub result: Result<(), BlockError>,
    pub(super) next: u32,
}

/// Time that a die has spent on internal work which requests wait for, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InternalTime {
    /// Garbage collection, wear levelling, padding.
    pub gc: u64,
    /// Erases, for whatever cause.
    pub erase: u64,
}

/// Page operations by number; numbers are used again.
#[derive(Clone, Debug, Default)]
pub struct Ios {
    all: Vec<Io>,
    free: u32,
    /// Contents, where the flash keeps them.
    pages: Vec<Vec<u8>>,
    /// Which sectors of the contents count, one bit each.
    masks: Vec<u128>,
}

impl Ios {
    /// None, with room for `expected`.
    pub fn new(expected: usize) -> Ios {
        Ios { all: Vec::with_capacity(expected), free: NONE, pages: Vec::new(), masks: Vec::new() }
    }

    /// Stores a page operation. Its number, one that was released if there is any.
    #[inline(always)]
    pub fn add(&mut self, io: Io) -> u32 {
        let at = self.free;
        if at != NONE {
            let place = &mut self.all[at as usize];
            self.free = place.next;
            // Field by field, so that it is written where it stays.
            (place.kind, place.cause, place.checked) = (io.kind, io.cause, io.checked);
            (place.unit, place.lpn) = (io.unit, io.lpn);
            (place.owner, place.queued_at) = (io.owner, io.queued_at);
            (place.seen.gc, place.seen.erase) = (io.seen.gc, io.seen.erase);
            (place.latency, place.result, place.next) = (io.latency, io.result, io.next);
            at
        } else {
            self.all.push(io);
            (self.all.len() - 1) as u32
        }
    }

    /// Releases a finished page operation: its number is used again.
    #[inline]
    pub fn release(&mut self, at: u32) {
        self.all[at as usize].next = self.free;
        self.free = at;
    }

    /// Gives it contents, of which the sectors of `mask` count.
    pub fn set_page(&mut self, at: u32, page: Vec<u8>, mask: u128) {
        if self.pages.len() <= at as usize {
            self.pages.resize(at as usize + 1, Vec::new());
            self.masks.resize(at as usize + 1, 0);
        }
        self.pages[at as usize] = page;
        self.masks[at as usize] = mask;
    }

    /// Puts the sectors of its contents that count over `page`.
    pub fn overlay(&self, at: u32, page: &mut [u8]) {
        let (Some(own), Some(&mask)) = (self.pages.get(at as usize), self.masks.get(at as usize)) else { return };
        overlay(page, own, mask);
    }

    /// Its contents; empty where there are none.
    pub fn page(&self, at: u32) -> &[u8] {
        self.pages.get(at as usize).map_or(&[], Vec::as_slice)
    }
}

/// Puts the sectors of `mask` of page `from` over `page`.
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

/// A queue of page operations, linked through themselves.
#[derive(Clone, Copy, Debug)]
pub struct Fifo {
    head: u32,
    tail: u32,
}

impl Fifo {
    /// A queue without page operations.
    pub const EMPTY: Fifo = Fifo { head: NONE, tail: NONE };

    /// The page operation at the head.
    #[inline]
    pub fn front(&self) -> Option<u32> {
        (self.head != NONE).then_some(self.head)
    }

    /// Whether no page operation waits.
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

    /// Puts a page operation before all others.
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
