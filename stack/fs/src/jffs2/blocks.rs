//! Eraseblocks: what nodes they hold, how many of their bytes are of use, and which list each is on.

use std::collections::VecDeque;

use super::media::{InodeNode, MIN_DATA};

/// Where an eraseblock stands. Lists are queues: a block enters at the end and garbage collection takes the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum List {
    /// On none: while it is looked at, or erased.
    None,
    /// Full, and next to nothing of it is obsolete.
    Clean,
    /// Half of it or more is obsolete.
    VeryDirty,
    /// Some of it is obsolete.
    Dirty,
    /// All of it is obsolete, and it is left alone for a while to spread wear.
    Erasable,
    /// All of it is obsolete, but what replaces it is still in the write buffer.
    AwaitsBuffer,
    /// To be erased.
    ErasePending,
    /// Erased, with a clean marker.
    Free,
    /// Never used again.
    Bad,
    /// The block that is written.
    Next,
    /// The block that garbage is collected from.
    Collected,
    /// A program failed in it: nothing more is written there, and garbage collection empties it before others.
    BadUsed,
}

const LISTS: usize = 12;

impl List {
    /// Whether a block may go from this list to `to`.
    pub const fn may_become(self, to: List) -> bool {
        use List::{
            AwaitsBuffer, BadUsed, Clean, Collected, Dirty, Erasable, ErasePending, Free, Next, None, VeryDirty,
        };
        match (self, to) {
            // A mount finds a block in any state; an erasure ends well or badly.
            (None, _) => !matches!(to, None),
            // All of it became obsolete.
            (Clean | Dirty | VeryDirty | Collected | BadUsed, Erasable | AwaitsBuffer | ErasePending) => true,
            // Some of it did. A mount finds blocks with little dirt too, which go to the end when they get more.
            (Clean, Dirty | VeryDirty) | (Dirty, Dirty | VeryDirty) => true,
            // It is the one to collect from.
            (Clean | Dirty | VeryDirty | Erasable | BadUsed, Collected) => true,
            // A program failed in it.
            (Next, BadUsed | AwaitsBuffer | ErasePending | Erasable) => true,
            // It is full, or there is no room for the next node.
            (Next, Clean | Dirty | VeryDirty) => true,
            (Free, Next) => true,
            (Erasable | AwaitsBuffer, ErasePending) | (AwaitsBuffer, Erasable) => true,
            (ErasePending, None) => true,
            _ => false,
        }
    }
}

/// Whether so many obsolete bytes make a block dirty.
/// Source: Linux 6.12, `ISDIRTY`.
pub const fn is_dirty(bytes: u32) -> bool {
    bytes > InodeNode::BYTES as u32 + MIN_DATA
}

/// What a node on flash is known to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// Its data have not been checked since the mount.
    Unchecked,
    /// Nobody needs it.
    Obsolete,
    /// Nothing of it is obsolete: garbage collection copies it as it is.
    Pristine,
    /// Some of it is obsolete, or it shares a page with others: garbage collection writes the page anew.
    Normal,
}

/// What a node belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Nothing: a clean marker, a summary, a node of an unknown type.
    None,
    /// An inode: it, its data, or an entry of it if it is a directory.
    Inode(u32),
    /// An extended attribute.
    Xattr(u32),
    /// That an inode has an attribute: inode and attribute.
    Xref(u32, u32),
}

/// A node on flash.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    pub block: u32,
    pub offset: u32,
    /// Bytes to the next node.
    pub len: u32,
    pub state: NodeState,
    pub owner: Owner,
}

/// Bytes by their use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// In use.
    pub used: u32,
    /// In use, as far as is known without a look at the data.
    pub unchecked: u32,
    /// Obsolete.
    pub dirty: u32,
    /// Obsolete, but too little to collect.
    pub wasted: u32,
    /// Erased.
    pub free: u32,
}

impl Sizes {
    fn of(&mut self, state: NodeState) -> &mut u32 {
        match state {
            NodeState::Unchecked => &mut self.unchecked,
            NodeState::Obsolete => &mut self.dirty,
            NodeState::Pristine | NodeState::Normal => &mut self.used,
        }
    }

    fn sum(&self) -> u32 {
        self.used + self.unchecked + self.dirty + self.wasted + self.free
    }
}

/// An eraseblock.
#[derive(Clone, Debug)]
pub struct Block {
    pub sizes: Sizes,
    pub list: List,
    /// Its nodes in the order of their offsets.
    pub nodes: Vec<u32>,
    /// Which of them garbage collection looks at next.
    pub next_node: usize,
    /// Erasures that failed.
    pub failures: u32,
    /// When it became dirty, by the number of blocks that had before.
    dirty_since: u64,
}

/// What becomes of a block of which a node became obsolete.
#[derive(Clone, Copy, Debug)]
pub struct Obsoleting {
    /// A mount is under way: lists are not made yet.
    pub mounting: bool,
    /// Data wait in the write buffer.
    pub buffered: bool,
    /// A block that is all obsolete now is erased soon; else it is left alone for a while.
    pub erase_soon: bool,
}

impl Obsoleting {
    /// Where a block goes of which all is obsolete.
    fn list(self) -> List {
        match self {
            Obsoleting { buffered: true, .. } => List::AwaitsBuffer,
            Obsoleting { erase_soon: true, .. } => List::ErasePending,
            _ => List::Erasable,
        }
    }
}

/// Every eraseblock.
#[derive(Clone, Debug)]
pub struct Blocks {
    pub block_bytes: u32,
    pub blocks: Vec<Block>,
    lists: [VecDeque<u32>; LISTS],
    nodes: Vec<Node>,
    unused: Vec<u32>,
    /// Sums over all blocks, but those that are bad or being erased.
    pub totals: Sizes,
    /// Blocks to be erased, and that being erased.
    pub erasing: u32,
    /// Bytes of the blocks that are being erased.
    pub erasing_bytes: u32,
    pub bad_bytes: u32,
    /// Blocks that became dirty so far.
    dirtied: u64,
    /// A block was added to those that are to be erased, since somebody last looked.
    pub is_to_erase: bool,
}

impl Blocks {
    /// So many erased blocks, on no list.
    pub fn new(count: u32, block_bytes: u32) -> Blocks {
        let sizes = Sizes { free: block_bytes, ..Sizes::default() };
        let block = Block { sizes, list: List::None, nodes: Vec::new(), next_node: 0, failures: 0, dirty_since: 0 };
        Blocks {
            block_bytes,
            blocks: vec![block; count as usize],
            lists: Default::default(),
            nodes: Vec::new(),
            unused: Vec::new(),
            totals: Sizes { free: block_bytes * count, ..Sizes::default() },
            erasing: 0,
            erasing_bytes: 0,
            bad_bytes: 0,
            dirtied: 0,
            is_to_erase: false,
        }
    }

    pub fn at(&self, block: u32) -> &Block {
        &self.blocks[block as usize]
    }

    pub fn node(&self, id: u32) -> &Node {
        &self.nodes[id as usize]
    }

    /// Bytes of the device.
    pub fn bytes(&self) -> u32 {
        self.block_bytes * self.blocks.len() as u32
    }

    /// Blocks on a list.
    pub fn count(&self, list: List) -> u32 {
        self.lists[list as usize].len() as u32
    }

    /// The first block on a list.
    pub fn first(&self, list: List) -> Option<u32> {
        self.lists[list as usize].front().copied()
    }

    /// The block that has been dirty longest, however dirty it is.
    pub fn longest_dirty(&self) -> Option<u32> {
        let dirty = [List::Dirty, List::VeryDirty].iter().flat_map(|&list| &self.lists[list as usize]);
        dirty.copied().min_by_key(|&block| self.at(block).dirty_since)
    }

    /// Moves a block to the end of a list.
    pub fn put(&mut self, block: u32, to: List) {
        let from = std::mem::replace(&mut self.blocks[block as usize].list, to);
        assert!(from.may_become(to), "eraseblock {block}: from {from:?} to {to:?}");
        self.leave(block, from);
        if matches!(to, List::Dirty | List::VeryDirty) && !matches!(from, List::Dirty | List::VeryDirty) {
            self.dirtied += 1;
            self.blocks[block as usize].dirty_since = self.dirtied;
        }
        if to != List::None {
            self.lists[to as usize].push_back(block);
        }
        if to == List::ErasePending {
            self.erasing += 1;
            self.is_to_erase = true;
        }
    }

    /// As [`put`](Self::put), at the beginning: Linux's mount files blocks that way.
    pub fn put_first(&mut self, block: u32, to: List) {
        self.put(block, to);
        self.lists[to as usize].rotate_right(1);
    }

    fn leave(&mut self, block: u32, list: List) {
        if list != List::None {
            let queue = &mut self.lists[list as usize];
            let at = queue.iter().position(|&other| other == block).expect("a block is on its list");
            queue.remove(at);
        }
    }

    /// Takes the next block back, where a mount found a better one.
    pub fn close(&mut self, block: u32) {
        let half = self.block_bytes / 2;
        let Sizes { dirty, wasted, .. } = self.at(block).sizes;
        if !is_dirty(dirty + wasted) {
            return self.put(block, List::Clean);
        }
        self.waste_to_dirt(block);
        let list = if dirty + wasted >= half { List::VeryDirty } else { List::Dirty };
        self.put(block, list);
    }

    /// Rotates lists by a number that differs from mount to mount, so that wear begins anywhere.
    pub fn rotate(&mut self, by: u32) {
        let lists = [List::Clean, List::VeryDirty, List::Dirty, List::Erasable, List::ErasePending, List::Free];
        for list in lists {
            let queue = &mut self.lists[list as usize];
            if let len @ 1.. = queue.len() {
                queue.rotate_left((by as usize % len + 1) % len);
            }
        }
    }

    /// Adds a node of `len` bytes where a block is free. Returns its number.
    pub fn add(&mut self, block: u32, len: u32, state: NodeState, owner: Owner) -> u32 {
        let at = &mut self.blocks[block as usize];
        assert!(len <= at.sizes.free, "eraseblock {block}: {len} bytes where {} are free", at.sizes.free);
        let node = Node { block, offset: self.block_bytes - at.sizes.free, len, state, owner };
        for sizes in [&mut at.sizes, &mut self.totals] {
            sizes.free -= len;
            *sizes.of(state) += len;
        }
        let id = self.number(node);
        self.blocks[block as usize].nodes.push(id);
        id
    }

    fn number(&mut self, node: Node) -> u32 {
        match self.unused.pop() {
            Some(id) => {
                self.nodes[id as usize] = node;
                id
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        }
    }

    /// A node was written again where block `to` is free, and keeps its number. Returns the number of what it leaves behind,
    /// which is obsolete.
    pub fn relocate(&mut self, id: u32, to: u32, how: Obsoleting) -> u32 {
        let node = *self.node(id);
        let left = self.number(node);
        let place = self.blocks[node.block as usize].nodes.iter_mut().find(|other| **other == id);
        *place.expect("a node is in its block") = left;
        let new = self.add(to, node.len, node.state, node.owner);
        self.nodes[id as usize] = self.nodes[new as usize];
        *self.blocks[to as usize].nodes.last_mut().expect("it was added") = id;
        self.unused.push(new);
        self.obsolete(left, how);
        left
    }

    /// A program failed in the block that is written: what of it is free is of no use.
    pub fn give_up(&mut self, block: u32, how: Obsoleting) {
        self.add_dirt(block, self.at(block).sizes.free);
        self.waste_to_dirt(block);
        let Sizes { used, unchecked, .. } = self.at(block).sizes;
        let list = if used > 0 || unchecked > 0 { List::BadUsed } else { how.list() };
        self.put(block, list);
    }

    /// The next bytes of a block are of no use.
    pub fn add_dirt(&mut self, block: u32, len: u32) {
        if len > 0 {
            self.add(block, len, NodeState::Obsolete, Owner::None);
        }
    }

    /// The next bytes of a block are of no use, and too few to collect.
    pub fn add_waste(&mut self, block: u32, len: u32) {
        self.add_dirt(block, len);
        for sizes in [&mut self.blocks[block as usize].sizes, &mut self.totals] {
            sizes.dirty -= len;
            sizes.wasted += len;
        }
    }

    /// What of a block is wasted becomes dirty.
    pub fn waste_to_dirt(&mut self, block: u32) {
        let wasted = self.at(block).sizes.wasted;
        for sizes in [&mut self.blocks[block as usize].sizes, &mut self.totals] {
            sizes.dirty += wasted;
            sizes.wasted -= wasted;
        }
    }

    /// What of a block is dirty becomes wasted.
    pub fn dirt_to_waste(&mut self, block: u32) {
        let dirty = self.at(block).sizes.dirty;
        for sizes in [&mut self.blocks[block as usize].sizes, &mut self.totals] {
            sizes.wasted += dirty;
            sizes.dirty -= dirty;
        }
    }

    /// A node is found to be in another state, though not obsolete.
    pub fn set(&mut self, id: u32, state: NodeState) {
        let node = &mut self.nodes[id as usize];
        assert!(node.state != NodeState::Obsolete && state != NodeState::Obsolete, "an obsolete node comes back");
        for sizes in [&mut self.blocks[node.block as usize].sizes, &mut self.totals] {
            *sizes.of(node.state) -= node.len;
            *sizes.of(state) += node.len;
        }
        node.state = state;
    }

    /// A node becomes obsolete, and its block changes its list if that is due. Nothing happens if it is already.
    /// Source: Linux 6.12, `jffs2_mark_node_obsolete`.
    pub fn obsolete(&mut self, id: u32, how: Obsoleting) {
        let Node { block, len, state, .. } = self.nodes[id as usize];
        if state == NodeState::Obsolete {
            return;
        }
        self.nodes[id as usize].state = NodeState::Obsolete;
        let at = &mut self.blocks[block as usize];
        let is_next = at.list == List::Next;
        let dirties = !is_next && (at.sizes.dirty > 0 || is_dirty(at.sizes.wasted + len));
        for sizes in [&mut at.sizes, &mut self.totals] {
            *sizes.of(state) -= len;
            *(if dirties { &mut sizes.dirty } else { &mut sizes.wasted }) += len;
        }
        let added = if dirties { len + at.sizes.wasted } else { 0 };
        if dirties {
            self.waste_to_dirt(block);
        }
        if how.mounting || is_next {
            return;
        }
        let Block { sizes, list, .. } = self.blocks[block as usize];
        let half = self.block_bytes / 2;
        if sizes.used == 0 && sizes.unchecked == 0 {
            self.put(block, how.list());
        } else if matches!(list, List::Collected | List::BadUsed) {
        } else if is_dirty(sizes.dirty) && !is_dirty(sizes.dirty - added) {
            // However dirty it is at once.
            self.put(block, List::Dirty);
        } else if sizes.dirty >= half && sizes.dirty - added < half {
            self.put(block, List::VeryDirty);
        }
    }

    /// The block is about to be erased: its nodes are gone. Returns whose they were.
    pub fn begin_erase(&mut self, block: u32) -> Vec<(u32, Owner)> {
        self.put(block, List::None);
        let at = &mut self.blocks[block as usize];
        let sizes = std::mem::take(&mut at.sizes);
        let nodes = std::mem::take(&mut at.nodes);
        at.next_node = 0;
        let Sizes { used, unchecked, dirty, wasted, free } = sizes;
        self.totals.used -= used;
        self.totals.unchecked -= unchecked;
        self.totals.dirty -= dirty;
        self.totals.wasted -= wasted;
        self.totals.free -= free;
        self.erasing_bytes += self.block_bytes;
        self.unused.extend_from_slice(&nodes);
        nodes.into_iter().map(|id| (id, self.nodes[id as usize].owner)).collect()
    }

    /// The block was erased.
    pub fn end_erase(&mut self, block: u32) {
        self.erasing_bytes -= self.block_bytes;
        self.erasing -= 1;
        self.blocks[block as usize].sizes.free = self.block_bytes;
        self.totals.free += self.block_bytes;
        self.put(block, List::Free);
    }

    /// An erasure failed. Returns how many have.
    pub fn failed(&mut self, block: u32) -> u32 {
        self.blocks[block as usize].failures += 1;
        self.blocks[block as usize].failures
    }

    /// The erasure failed, and is tried again later.
    pub fn erase_again(&mut self, block: u32) {
        self.erasing_bytes -= self.block_bytes;
        self.erasing -= 1;
        self.blocks[block as usize].sizes.dirty = self.block_bytes;
        self.totals.dirty += self.block_bytes;
        self.put(block, List::ErasePending);
    }

    /// The block that was being erased is bad.
    pub fn end_bad(&mut self, block: u32) {
        self.erasing_bytes -= self.block_bytes;
        self.erasing -= 1;
        self.bad_bytes += self.block_bytes;
        self.put(block, List::Bad);
    }

    /// A mount found a bad block.
    pub fn found_bad(&mut self, block: u32) {
        self.blocks[block as usize].sizes = Sizes::default();
        self.totals.free -= self.block_bytes;
        self.bad_bytes += self.block_bytes;
        self.put(block, List::Bad);
    }

    /// Contradictions in the books.
    pub fn check(&self) -> Result<(), String> {
        let mut totals = Sizes::default();
        for (number, block) in self.blocks.iter().enumerate() {
            let mut by_node = Sizes { free: block.sizes.free, ..Sizes::default() };
            for &id in &block.nodes {
                let node = self.node(id);
                *by_node.of(node.state) += node.len;
            }
            let obsolete = block.sizes.dirty + block.sizes.wasted;
            let Sizes { used, unchecked, .. } = block.sizes;
            if block.list != List::Bad && !(block.list == List::ErasePending && block.nodes.is_empty()) {
                if (used, unchecked, obsolete) != (by_node.used, by_node.unchecked, by_node.dirty) {
                    return Err(format!("eraseblock {number}: {:?}, by its nodes {by_node:?}", block.sizes));
                }
                if block.sizes.sum() != self.block_bytes {
                    return Err(format!("eraseblock {number}: {:?} are not {}", block.sizes, self.block_bytes));
                }
            }
            if block.list == List::None || !self.lists[block.list as usize].contains(&(number as u32)) {
                return Err(format!("eraseblock {number} is not on its list, {:?}", block.list));
            }
            for (sum, part) in [
                (&mut totals.used, used),
                (&mut totals.unchecked, unchecked),
                (&mut totals.dirty, block.sizes.dirty),
                (&mut totals.wasted, block.sizes.wasted),
                (&mut totals.free, block.sizes.free),
            ] {
                *sum += part;
            }
        }
        let listed: usize = self.lists.iter().map(VecDeque::len).sum();
        match (totals == self.totals, listed == self.blocks.len()) {
            (true, true) => Ok(()),
            (false, _) => Err(format!("all blocks have {totals:?}, counted are {:?}", self.totals)),
            (_, false) => Err(format!("{listed} of {} blocks are on lists", self.blocks.len())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: the order in which blocks became dirty, whichever of the two lists each is on now.
    #[test]
    fn the_block_that_has_been_dirty_longest_is_found_on_either_list() {
        let mut blocks = Blocks::new(4, 4096);
        assert_eq!(blocks.longest_dirty(), None);
        blocks.put(2, List::Dirty);
        blocks.put(0, List::VeryDirty);
        blocks.put(1, List::Dirty);
        blocks.put(3, List::Clean);
        assert_eq!(blocks.longest_dirty(), Some(2));
        // It gets dirtier, and stays the oldest.
        blocks.put(2, List::VeryDirty);
        assert_eq!(blocks.longest_dirty(), Some(2));
        blocks.put(2, List::Collected);
        assert_eq!(blocks.longest_dirty(), Some(0));
    }
}
