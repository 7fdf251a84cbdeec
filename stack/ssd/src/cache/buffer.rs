//! The write buffer: slots, their states, and the replacement policies.

use super::index::Index;
use super::ring::Rings;
use crate::ShapeError;
use crate::ftl::NONE;

/// Replacement policy: which pages are evicted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Write-through: slots only stage pages on their way to the flash. Every inserted page is written, in order, even
    /// if it is written again meanwhile.
    None,
    /// The page that became dirty first; writing it again does not change the order.
    Fifo,
    /// The least recently written page. Reads do not count.
    Lru,
    /// Block padding LRU (Kim and Ahn, FAST '08; abstract and summaries). A group is the pages of an erase block. The
    /// least recently written group is evicted as a whole, in ascending order and padded with its missing pages, so
    /// that the FTL below sees one sequential write of a block (a switch merge). A group whose pages were just written
    /// in order from first to last is unlikely to be written again soon: it goes to the end of the list where it is
    /// evicted next (LRU compensation). Reads do not count.
    Bplru,
    /// BPLRU without padding, to show the effect of padding.
    BplruUnpadded,
    /// BPLRU without LRU compensation, to show the effect of the compensation.
    BplruUncompensated,
}

impl Policy {
    /// All policies.
    pub const ALL: [Policy; 6] =
        [Policy::None, Policy::Fifo, Policy::Lru, Policy::Bplru, Policy::BplruUnpadded, Policy::BplruUncompensated];

    /// The policy's name in experiments.
    pub const fn name(self) -> &'static str {
        match self {
            Policy::None => "none",
            Policy::Fifo => "fifo",
            Policy::Lru => "lru",
            Policy::Bplru => "bplru",
            Policy::BplruUnpadded => "bplru-unpadded",
            Policy::BplruUncompensated => "bplru-uncompensated",
        }
    }

    /// Whether pages are evicted in groups.
    #[inline]
    pub const fn by_group(self) -> bool {
        matches!(self, Policy::Bplru | Policy::BplruUnpadded | Policy::BplruUncompensated)
    }

    /// The policy with this name in experiments; `None` if there is none.
    pub fn by_name(name: &str) -> Option<Policy> {
        Policy::ALL.into_iter().find(|policy| policy.name() == name)
    }
}

/// Configuration of a write buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferConfig {
    /// Replacement policy.
    pub policy: Policy,
    /// Capacity in pages, including those being written out.
    pub capacity: u32,
    /// Number of keys (logical pages): `lpn` must be below it.
    pub lpns: u32,
    /// Pages of a group, for the policies [by group](Policy::by_group): page `lpn` is in group `lpn / group_pages`.
    /// Other policies ignore it.
    pub group_pages: u32,
}

/// Result of an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// The page was dirty already, in this slot: overlay its contents with the new ones.
    Hit(u32),
    /// The page got this slot, whose contents the caller must set.
    New(u32),
    /// No slot is free, and nothing changed. Write out a [victim](WriteBuffer::victim), release its slots, and try
    /// again.
    Full,
}

/// An evicted page: it must be written to the flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evicted {
    /// Logical page number.
    pub lpn: u32,
    /// The slot with its contents; `None`: they must be read from the flash.
    pub slot: Option<u32>,
    /// Whether the page was not dirty and is written only to complete its group. Its slot, if any, belongs to an
    /// earlier write that is still in progress, and must not be released for this one.
    pub padding: bool,
}

/// Counters of a write buffer since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferCounts {
    /// Insertions of a page that was dirty already.
    pub hits: u64,
    /// Insertions of a page that was not dirty.
    pub misses: u64,
    /// Dirty pages evicted.
    pub evictions: u64,
    /// Groups evicted.
    pub groups: u64,
    /// Pages that were not dirty and were evicted to complete a group.
    pub padding: u64,
    /// LRU compensations: groups moved to the end where they are evicted next, because they were written in order.
    pub compensations: u64,
    /// Dirty pages trimmed before they were written to the flash.
    pub trimmed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Dirty,
    UnderWay,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    lpn: u32,
    /// Under BPLRU, the node of its group while it is dirty; otherwise [`NONE`].
    node: u32,
    state: State,
}

/// A group with dirty pages.
#[derive(Clone, Copy, Debug)]
struct Node {
    group: u32,
    /// Number of dirty pages.
    dirty: u32,
    /// Number of pages written in order, from the group's first, by the last writes to the group.
    run: u32,
}

/// A write buffer. It manages slots; their contents are the caller's.
#[derive(Clone, Debug)]
pub struct WriteBuffer {
    config: BufferConfig,
    slots: Vec<Slot>,
    /// Members are the slots. Heads follow them: free, being written out, dirty; under BPLRU then one for each node,
    /// whose members are its dirty slots.
    rings: Rings,
    /// The newest slot of each page.
    index: Index,
    nodes: Vec<Node>,
    /// Under BPLRU: members are the nodes; heads are the free and the used ones, the latter most recently written
    /// first.
    orders: Rings,
    groups: Index,
    /// Scratch space for one victim: the slot of each page of its group.
    group: Vec<u32>,
    dirty: u32,
    under_way: u32,
    counts: BufferCounts,
}

impl WriteBuffer {
    /// Makes an empty buffer.
    /// Errors: a capacity, a number of pages or a group size that is 0 or too large.
    pub fn new(config: BufferConfig) -> Result<WriteBuffer, ShapeError> {
        let refuse = |what, found: u32, expected| Err(ShapeError { what, found: u64::from(found), expected });
        if !(1..=1 << 28).contains(&config.capacity) {
            return refuse("pages of the write buffer", config.capacity, "1 to 2^28");
        }
        if config.lpns == 0 || config.lpns == NONE {
            return refuse("logical pages", config.lpns, "1 to 2^32 - 2");
        }
        let by_group = config.policy.by_group();
        if by_group && !(1..=1 << 28).contains(&config.group_pages) {
            return refuse("pages of a write buffer's group", config.group_pages, "1 to 2^28");
        }
        let capacity = config.capacity;
        let nodes = if by_group { capacity } else { 0 };
        let mut rings = Rings::new(capacity + 3 + nodes);
        for slot in 0..capacity {
            rings.move_back(capacity, slot);
        }
        let mut orders = Rings::new(nodes + 2);
        for node in 0..nodes {
            orders.move_back(nodes, node);
        }
        Ok(WriteBuffer {
            config,
            slots: vec![Slot { lpn: NONE, node: NONE, state: State::Free }; capacity as usize],
            rings,
            index: Index::new(capacity),
            nodes: vec![Node { group: NONE, dirty: 0, run: 0 }; nodes as usize],
            orders,
            groups: Index::new(nodes),
            group: if by_group { vec![NONE; config.group_pages.min(config.lpns) as usize] } else { Vec::new() },
            dirty: 0,
            under_way: 0,
            counts: BufferCounts::default(),
        })
    }

    const fn free_head(&self) -> u32 {
        self.config.capacity
    }

    const fn under_way_head(&self) -> u32 {
        self.config.capacity + 1
    }

    const fn dirty_head(&self) -> u32 {
        self.config.capacity + 2
    }

    const fn node_head(&self, node: u32) -> u32 {
        self.config.capacity + 3 + node
    }

    const fn free_nodes(&self) -> u32 {
        self.nodes.len() as u32
    }

    const fn used_nodes(&self) -> u32 {
        self.nodes.len() as u32 + 1
    }

    /// The configuration that the buffer was made with.
    pub const fn config(&self) -> &BufferConfig {
        &self.config
    }

    /// Counters since the buffer was made.
    pub const fn counts(&self) -> &BufferCounts {
        &self.counts
    }

    /// Number of slots with a page that is not yet evicted.
    pub const fn dirty(&self) -> u32 {
        self.dirty
    }

    /// Number of slots that were evicted and are not yet released: their pages are being written out.
    pub const fn under_way(&self) -> u32 {
        self.under_way
    }

    /// Number of free slots.
    pub const fn free(&self) -> u32 {
        self.config.capacity - self.dirty - self.under_way
    }

    /// Slots that were evicted and are not yet released, oldest first. A flush must wait for them.
    pub fn slots_under_way(&self) -> impl Iterator<Item = u32> + '_ {
        self.rings.iter(self.under_way_head())
    }

    /// The logical page of a slot; `None` if the slot is free or does not exist.
    pub fn page(&self, slot: u32) -> Option<u32> {
        let slot = self.slots.get(slot as usize)?;
        (slot.state != State::Free).then_some(slot.lpn)
    }

    /// The slot with the newest contents of `lpn`, dirty or being written out.
    #[inline]
    pub fn lookup(&self, lpn: u32) -> Option<u32> {
        let slot = self.index.get(lpn);
        (slot != NONE).then_some(slot)
    }

    /// Inserts a page. If the page is being written out it gets a new slot; its older contents stay in theirs until
    /// that is released. (To complete a page of which only some sectors are written, [look it up](Self::lookup) first.)
    /// Panics if `lpn` is out of range.
    #[inline]
    pub fn insert(&mut self, lpn: u32) -> Inserted {
        assert!(lpn < self.config.lpns, "page {lpn} of {}", self.config.lpns);
        let found = self.index.find(lpn);
        if let Ok(held) = found
            && self.slots[held as usize].state == State::Dirty
            && self.config.policy != Policy::None
        {
            self.counts.hits += 1;
            match self.config.policy {
                Policy::None | Policy::Fifo => {}
                Policy::Lru => self.rings.move_front(self.dirty_head(), held),
                Policy::Bplru | Policy::BplruUnpadded | Policy::BplruUncompensated => {
                    let (group, offset) = self.split(lpn);
                    self.written(self.slots[held as usize].node, group, offset);
                }
            }
            return Inserted::Hit(held);
        }
        let slot = self.rings.next(self.free_head());
        if slot == self.free_head() {
            return Inserted::Full;
        }
        self.counts.misses += 1;
        self.dirty += 1;
        match found {
            Ok(_) => self.index.set(lpn, slot),
            Err(place) => self.index.fill(place, lpn, slot),
        }
        let mut node = NONE;
        if self.config.policy.by_group() {
            let (group, offset) = self.split(lpn);
            node = self.node_of(group);
            self.nodes[node as usize].dirty += 1;
            self.rings.move_front(self.node_head(node), slot);
            self.written(node, group, offset);
        } else {
            self.rings.move_front(self.dirty_head(), slot);
        }
        self.slots[slot as usize] = Slot { lpn, node, state: State::Dirty };
        Inserted::New(slot)
    }

    /// Group of a page, and the page's offset in it.
    #[inline]
    fn split(&self, lpn: u32) -> (u32, u32) {
        (lpn / self.config.group_pages, lpn % self.config.group_pages)
    }

    /// The node of a group; allocates one if the group has none.
    #[inline]
    fn node_of(&mut self, group: u32) -> u32 {
        match self.groups.find(group) {
            Ok(node) => node,
            Err(place) => {
                // There are as many nodes as slots, and each used node has a dirty slot, so one is free.
                let node = self.orders.next(self.free_nodes());
                debug_assert_ne!(node, self.free_nodes());
                self.nodes[node as usize] = Node { group, dirty: 0, run: 0 };
                self.groups.fill(place, group, node);
                self.orders.move_front(self.used_nodes(), node);
                node
            }
        }
    }

    /// Moves a node to its place in the order after a page of it was written.
    #[inline]
    fn written(&mut self, node: u32, group: u32, offset: u32) {
        let pages = self.pages_of(group);
        let run = &mut self.nodes[node as usize].run;
        *run = if offset == *run { offset + 1 } else { u32::from(offset == 0) };
        let in_order = *run == pages && pages > 1 && self.config.policy != Policy::BplruUncompensated;
        let used = self.used_nodes();
        if in_order {
            self.nodes[node as usize].run = 0;
            self.counts.compensations += 1;
            self.orders.move_back(used, node);
        } else {
            self.orders.move_front(used, node);
        }
    }

    /// Number of pages of a group; the last group may be shorter.
    #[inline]
    fn pages_of(&self, group: u32) -> u32 {
        (self.config.lpns - group * self.config.group_pages).min(self.config.group_pages)
    }

    /// Evicts the next page or group and appends its pages to `out`; their slots are being written out from now on.
    /// Returns the number of pages appended: 0 if nothing is dirty.
    pub fn victim(&mut self, out: &mut Vec<Evicted>) -> usize {
        let before = out.len();
        if self.config.policy.by_group() {
            let node = self.orders.prev(self.used_nodes());
            if node != self.used_nodes() {
                self.group_out(node, self.config.policy != Policy::BplruUnpadded, out);
            }
        } else {
            let slot = self.rings.prev(self.dirty_head());
            if slot != self.dirty_head() {
                self.slot_out(slot, out);
            }
        }
        out.len() - before
    }

    /// Evicts every dirty page, in the order of the policy, and appends them to `out`. Nothing is padded: a flush is
    /// urgent.
    pub fn drain(&mut self, out: &mut Vec<Evicted>) {
        if self.config.policy.by_group() {
            while !self.orders.is_empty(self.used_nodes()) {
                self.group_out(self.orders.prev(self.used_nodes()), false, out);
            }
        } else {
            while !self.rings.is_empty(self.dirty_head()) {
                self.slot_out(self.rings.prev(self.dirty_head()), out);
            }
        }
    }

    fn slot_out(&mut self, slot: u32, out: &mut Vec<Evicted>) {
        let held = &mut self.slots[slot as usize];
        held.state = State::UnderWay;
        held.node = NONE;
        out.push(Evicted { lpn: held.lpn, slot: Some(slot), padding: false });
        self.rings.move_back(self.under_way_head(), slot);
        self.dirty -= 1;
        self.under_way += 1;
        self.counts.evictions += 1;
    }

    fn group_out(&mut self, node: u32, padded: bool, out: &mut Vec<Evicted>) {
        let group = self.nodes[node as usize].group;
        let first = group * self.config.group_pages;
        let head = self.node_head(node);
        let mut at = self.rings.next(head);
        while at != head {
            self.group[(self.slots[at as usize].lpn - first) as usize] = at;
            at = self.rings.next(at);
        }
        for offset in 0..self.pages_of(group) {
            let slot = std::mem::replace(&mut self.group[offset as usize], NONE);
            if slot != NONE {
                self.slot_out(slot, out);
            } else if padded {
                let slot = if self.under_way == 0 { None } else { self.lookup(first + offset) };
                out.push(Evicted { lpn: first + offset, slot, padding: true });
                self.counts.padding += 1;
            }
        }
        self.counts.groups += 1;
        self.node_free(node);
    }

    fn node_free(&mut self, node: u32) {
        self.groups.remove(self.nodes[node as usize].group);
        self.nodes[node as usize].group = NONE;
        self.nodes[node as usize].dirty = 0;
        self.orders.move_front(self.free_nodes(), node);
    }

    /// Frees a slot whose page is on the flash now. Returns whether it still held the newest contents of its page.
    /// Panics if the slot is not being written out.
    #[inline]
    pub fn release(&mut self, slot: u32) -> bool {
        let Slot { lpn, state, .. } = self.slots[slot as usize];
        assert_eq!(state, State::UnderWay, "slot {slot} is released and was not handed out");
        let newest = self.index.remove_if(lpn, |held| held == slot);
        self.under_way -= 1;
        self.slot_free(slot);
        newest
    }

    #[inline]
    fn slot_free(&mut self, slot: u32) {
        self.slots[slot as usize] = Slot { lpn: NONE, node: NONE, state: State::Free };
        self.rings.move_front(self.free_head(), slot);
    }

    /// Removes `lpn` from the buffer: it is no longer found, and no longer written if it was dirty. A slot of it that
    /// is being written out stays until it is released; returns whether there is one. Then the caller must trim the FTL
    /// below after that write, not before it.
    pub fn trim(&mut self, lpn: u32) -> bool {
        let newest = self.index.get(lpn);
        if newest != NONE {
            self.index.remove(lpn);
            if self.config.policy == Policy::None {
                let mut at = self.rings.next(self.dirty_head());
                while at != self.dirty_head() {
                    let next = self.rings.next(at);
                    if self.slots[at as usize].lpn == lpn {
                        self.trim_dirty(at);
                    }
                    at = next;
                }
            } else if self.slots[newest as usize].state == State::Dirty {
                self.trim_dirty(newest);
            }
        }
        self.under_way != 0 && self.slots_under_way().any(|slot| self.slots[slot as usize].lpn == lpn)
    }

    fn trim_dirty(&mut self, slot: u32) {
        let node = self.slots[slot as usize].node;
        self.counts.trimmed += 1;
        self.dirty -= 1;
        self.slot_free(slot);
        if node != NONE {
            let held = &mut self.nodes[node as usize];
            held.dirty -= 1;
            held.run = 0;
            if held.dirty == 0 {
                self.node_free(node);
            }
        }
    }

    /// Panics unless the invariants hold. Examines every slot.
    pub fn check(&self) {
        let mut seen = vec![false; self.slots.len()];
        let mut visit = |head: u32, state: State| {
            let mut count = 0;
            for slot in self.rings.iter(head) {
                assert!(!std::mem::replace(&mut seen[slot as usize], true), "slot {slot} is in two lists");
                assert_eq!(self.slots[slot as usize].state, state, "slot {slot}");
                count += 1;
            }
            count
        };
        assert_eq!(visit(self.free_head(), State::Free), self.free());
        assert_eq!(visit(self.under_way_head(), State::UnderWay), self.under_way);
        let mut dirty = visit(self.dirty_head(), State::Dirty);
        let mut used = 0;
        for node in self.orders.iter(self.used_nodes()) {
            let Node { group, dirty: held, .. } = self.nodes[node as usize];
            assert_eq!(self.groups.get(group), node);
            assert!(held > 0, "group {group} has no dirty page");
            assert_eq!(visit(self.node_head(node), State::Dirty), held);
            for slot in self.rings.iter(self.node_head(node)) {
                let Slot { lpn, node: own, .. } = self.slots[slot as usize];
                assert_eq!((lpn / self.config.group_pages, own), (group, node));
            }
            dirty += held;
            used += 1;
        }
        assert_eq!(self.groups.held(), used);
        assert_eq!(dirty, self.dirty);
        assert!(seen.iter().all(|&seen| seen), "a slot is in no list");
        let mut newest = 0;
        for (slot, held) in (0..).zip(&self.slots) {
            if held.state == State::Free {
                continue;
            }
            newest += u32::from(self.index.get(held.lpn) == slot);
            if held.state == State::Dirty && self.config.policy != Policy::None {
                assert_eq!(self.index.get(held.lpn), slot, "page {} is dirty and not the newest", held.lpn);
            }
        }
        assert_eq!(self.index.held(), newest, "the index names a slot that does not hold its page");
    }
}
