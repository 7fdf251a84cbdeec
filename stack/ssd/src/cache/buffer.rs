//! The buffer itself.

use super::index::Index;
use super::ring::Rings;
use crate::ShapeError;
use crate::ftl::NONE;

/// Which page leaves first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Write-through: slots only stage pages on their way to the flash. Every page handed in is written, in order, even
    /// if it is written again meanwhile.
    None,
    /// The page that became dirty first; writing it again does not move it.
    Fifo,
    /// The page written least recently. Reads do not count.
    Lru,
    /// Block padding LRU (Kim and Ahn, FAST '08; abstract and summaries). A group is the pages of an erase block. The group written least
    /// recently leaves as a whole, in ascending order and padded with its missing pages, so that the translation layer
    /// below sees one sequential write of a block (a switch merge). A group whose pages were just written in order from
    /// first to last is unlikely to be written again soon: it goes to the back of the list (LRU compensation). Reads
    /// do not count.
    Bplru,
    /// The same without padding: to show what padding does.
    BplruUnpadded,
    /// The same without LRU compensation: to show what that does.
    BplruUncompensated,
}

impl Policy {
    /// Every policy.
    pub const ALL: [Policy; 6] =
        [Policy::None, Policy::Fifo, Policy::Lru, Policy::Bplru, Policy::BplruUnpadded, Policy::BplruUncompensated];

    /// Its name in experiments.
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

    /// Whether pages leave in groups.
    #[inline]
    pub const fn by_group(self) -> bool {
        matches!(self, Policy::Bplru | Policy::BplruUnpadded | Policy::BplruUncompensated)
    }

    /// The policy of that name.
    pub fn by_name(name: &str) -> Option<Policy> {
        Policy::ALL.into_iter().find(|policy| policy.name() == name)
    }
}

/// A buffer's size and policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferConfig {
    /// Which page leaves first.
    pub policy: Policy,
    /// Pages that it holds, those under way included.
    pub capacity: u32,
    /// Logical pages of the drive.
    pub lpns: u32,
    /// Pages of a group, for the policies [by group](Policy::by_group): page `lpn` is in group `lpn / group_pages`. Others ignore it.
    pub group_pages: u32,
}

/// What became of a page handed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// It was dirty already, in this slot: put the new contents over the old.
    Hit(u32),
    /// It has this slot now, whose contents are not yet set.
    New(u32),
    /// Every slot is taken: nothing changed. Write a [victim](WriteBuffer::victim) out, release it, and ask again.
    Full,
}

/// A page to be written out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evicted {
    /// The page.
    pub lpn: u32,
    /// Where its contents are, or `None`: read them from the flash.
    pub slot: Option<u32>,
    /// Whether the page was not dirty and is written only to complete its group. Its slot, if it has one, belongs to an
    /// earlier write that is still under way: it is not released for this one.
    pub padding: bool,
}

/// What a buffer has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferCounts {
    /// Pages handed in that were dirty already.
    pub hits: u64,
    /// Pages handed in that were not.
    pub misses: u64,
    /// Dirty pages handed out.
    pub evictions: u64,
    /// Groups handed out.
    pub groups: u64,
    /// Pages handed out to complete a group.
    pub padding: u64,
    /// Groups sent to the back because they were written in order.
    pub compensations: u64,
    /// Dirty pages that were trimmed: writes that the flash never saw.
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
    /// Under BPLRU, the node of its group while it is dirty.
    node: u32,
    state: State,
}

/// A group that has dirty pages.
#[derive(Clone, Copy, Debug)]
struct Node {
    group: u32,
    /// Dirty pages.
    dirty: u32,
    /// Pages written in order from the group's first, without any other between.
    run: u32,
}

/// A write buffer.
#[derive(Clone, Debug)]
pub struct WriteBuffer {
    config: BufferConfig,
    slots: Vec<Slot>,
    /// Members are the slots. Heads follow them: the free, those under way, the dirty; under BPLRU then one per node,
    /// whose members are its dirty slots.
    rings: Rings,
    /// The newest slot of each page.
    index: Index,
    nodes: Vec<Node>,
    /// Under BPLRU: members are the nodes; heads are the free and, most recently written first, the used.
    orders: Rings,
    groups: Index,
    /// For one victim: the slot at each page of its group.
    group: Vec<u32>,
    dirty: u32,
    under_way: u32,
    counts: BufferCounts,
}

impl WriteBuffer {
    /// An empty buffer. Errors: no slot, no page, no page in a group, more than 2^28 of either.
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

    /// How it was made.
    pub const fn config(&self) -> &BufferConfig {
        &self.config
    }

    /// What it has done.
    pub const fn counts(&self) -> &BufferCounts {
        &self.counts
    }

    /// Slots that hold a page not yet handed out.
    pub const fn dirty(&self) -> u32 {
        self.dirty
    }

    /// Slots handed out and not yet released.
    pub const fn under_way(&self) -> u32 {
        self.under_way
    }

    /// Slots that are free.
    pub const fn free(&self) -> u32 {
        self.config.capacity - self.dirty - self.under_way
    }

    /// The slots handed out and not yet released, oldest first: what a flush has to wait for.
    pub fn slots_under_way(&self) -> impl Iterator<Item = u32> + '_ {
        self.rings.iter(self.under_way_head())
    }

    /// The page of a slot that is not free.
    pub fn page(&self, slot: u32) -> Option<u32> {
        let slot = self.slots.get(slot as usize)?;
        (slot.state != State::Free).then_some(slot.lpn)
    }

    /// The slot with the newest contents of `lpn`, dirty or under way.
    #[inline]
    pub fn lookup(&self, lpn: u32) -> Option<u32> {
        let slot = self.index.get(lpn);
        (slot != NONE).then_some(slot)
    }

    /// Takes a page in. A page that is under way gets a new slot; its older contents stay where they are until they are
    /// released (to complete a page of which only some sectors are written, [look it up](Self::lookup) first).
    /// Panics for a page that the drive does not have.
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

    /// Group of a page, and the page's number in it.
    #[inline]
    fn split(&self, lpn: u32) -> (u32, u32) {
        (lpn / self.config.group_pages, lpn % self.config.group_pages)
    }

    /// The node of a group, a free one if it has none.
    #[inline]
    fn node_of(&mut self, group: u32) -> u32 {
        match self.groups.find(group) {
            Ok(node) => node,
            Err(place) => {
                // There are as many nodes as slots, and each used one has a dirty slot.
                let node = self.orders.next(self.free_nodes());
                debug_assert_ne!(node, self.free_nodes());
                self.nodes[node as usize] = Node { group, dirty: 0, run: 0 };
                self.groups.fill(place, group, node);
                self.orders.move_front(self.used_nodes(), node);
                node
            }
        }
    }

    /// Orders a node anew after a page of it was written.
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

    /// Pages of a group: the last one may be short.
    #[inline]
    fn pages_of(&self, group: u32) -> u32 {
        (self.config.lpns - group * self.config.group_pages).min(self.config.group_pages)
    }

    /// Hands out what is to be written next, appended to `out`; its slots are under way from now on. Returns how many
    /// pages were appended, none if nothing is dirty.
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

    /// Hands out every dirty page, in the order in which victims would leave, appended to `out`. Nothing is padded: a
    /// flush is urgent.
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

    /// A slot that was handed out is on the flash: it is free again. Returns whether it still held the newest contents
    /// of its page. Panics for a slot that is not under way.
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

    /// `lpn` holds nothing any more: it is no longer found, and no longer written if it was dirty. A slot that is under
    /// way stays so until it is released; returns whether there is one, so that the caller trims the layer below after
    /// it and not before.
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

    /// Asserts the invariants, at a cost of every slot.
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
