//! The index in memory: a B+ tree over the nodes of the main area, read from flash as far as it is used.
//!
//! Linux calls it TNC, tree node cache. It knows keys and places of leaf nodes, and reads entries only to tell apart
//! names whose hashes are equal. A change makes the nodes on the path to the root dirty: they are to be written by the
//! next commit.
//!
//! Invariants: keys of a node do not decrease; the key of a branch is at most the least below it; a child's level is
//! one less than its parent's; a node that is not the root has at least one branch; the parent of a dirty node is dirty.

mod change;
mod commit;
#[cfg(test)]
mod tests;
mod walk;

use sim::Cx;
use sim::seam::LebVolume;

use super::error::{Result, UbifsError};
use super::media::{Branch, DentNode, Key, KeyType, Master, MediaError, NodeType, SuperBlock};
use super::nodes::Nodes;
pub use commit::NodeId;
pub use walk::Met;

/// No child in memory.
const NONE: u32 = u32::MAX;
/// Bit of a child that is not in memory and stays in the arrays nevertheless.
const AWAY: u32 = 1 << 31;
/// More levels than an index can have: 2^32 leaves with a fanout of 3.
const MOST_LEVELS: u16 = 32;

/// Greater than every key: the key of a slot that is not used.
const UNUSED: Key = Key(u64::MAX);
/// Up to this fanout all keys of a node are compared, without a branch that depends on them.
const FEW: usize = 16;

/// A branch in memory. Its key is in an array of its own, which a search reads alone.
#[derive(Clone, Copy, Debug)]
struct Slot {
    lnum: u32,
    offset: u32,
    len: u32,
    /// The node, if it is in memory; never at level 0. With [`AWAY`], if it is only in the arrays.
    child: u32,
}

impl Slot {
    const UNUSED: Slot = Slot { lnum: 0, offset: 0, len: 0, child: NONE };

    /// A branch whose node is not in memory.
    fn of(branch: &Branch) -> Slot {
        Slot { lnum: branch.lnum, offset: branch.offset, len: branch.len, child: NONE }
    }

    fn branch(&self, key: Key) -> Branch {
        Branch { key, lnum: self.lnum, offset: self.offset, len: self.len }
    }
}

/// A node in memory. Its branches are `fanout` keys and slots of the tree's arrays.
#[derive(Clone, Copy, Debug)]
struct Znode {
    parent: u32,
    /// Place among the parent's branches.
    place: u32,
    len: u32,
    level: u16,
    is_dirty: bool,
}

/// A leaf of the index: a node at level 0, and one of its branches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    node: u32,
    at: u32,
}

/// The index.
#[derive(Clone, Debug)]
pub struct Index {
    fanout: usize,
    nodes: Vec<Znode>,
    /// [`UNUSED`] past the last branch of a node.
    keys: Vec<Key>,
    slots: Vec<Slot>,
    /// Numbers of unused nodes.
    unused: Vec<u32>,
    root: Slot,
    main: std::ops::Range<u32>,
    leb_bytes: u32,
    /// Nodes that leave memory stay in the arrays, for the volume does not keep them. They are read again as others are.
    keeps_nodes: bool,
    /// How many of them there are.
    away: usize,
    /// Nodes that are to be written.
    dirty_nodes: usize,
    /// What is no longer in use, if anybody wants to know.
    gone: Option<Gone>,
    near: Near,
}

/// A node to which a search came, and the first key that is past it.
#[derive(Clone, Copy, Debug)]
struct Step {
    node: u32,
    end: Key,
}

/// Levels that [`Near`] knows. Few trees have more, whose upper ones are gone through again.
const NEAR_LEVELS: usize = 8;

/// The way of the last search, by level: the next one is often for a key close by, and need not begin at the root. Each step holds
/// by itself. Changes above the leaves end that.
#[derive(Clone, Copy, Debug)]
struct Near([Step; NEAR_LEVELS]);

impl Near {
    const NOWHERE: Near = Near([Step { node: NONE, end: Key(0) }; NEAR_LEVELS]);
}

/// What changes of the index made obsolete on flash: LEB, offset and length of each node.
#[derive(Clone, Debug, Default)]
pub struct Gone {
    /// Leaves.
    pub leaves: Vec<(u32, u32, u32)>,
    /// Index nodes.
    pub nodes: Vec<(u32, u32, u32)>,
}

/// A leaf that was found, and where.
type Found = (Place, Branch);

impl Index {
    /// The index whose root the master node names.
    pub fn new(sb: &SuperBlock, master: &Master) -> Index {
        let Master { root_lnum: lnum, root_offset: offset, root_len: len, .. } = *master;
        Index {
            fanout: sb.fanout as usize,
            nodes: Vec::new(),
            keys: Vec::new(),
            slots: Vec::new(),
            unused: Vec::new(),
            root: Slot { lnum, offset, len, child: NONE },
            main: sb.main_first()..sb.lebs,
            leb_bytes: sb.leb_bytes,
            keeps_nodes: false,
            away: 0,
            dirty_nodes: 0,
            gone: None,
            near: Near::NOWHERE,
        }
    }

    /// The volume keeps no bytes: index nodes cannot be read from it.
    pub fn keep_nodes(&mut self) {
        self.keeps_nodes = true;
    }

    /// From now on what becomes obsolete is noted, for [`gone`](Index::gone).
    pub fn note_gone(&mut self) {
        self.gone = Some(Gone::default());
    }

    /// What became obsolete since it was last emptied. Panics unless it is noted.
    pub fn gone(&mut self) -> &mut Gone {
        self.gone.as_mut().expect("what becomes obsolete is noted")
    }

    /// Nodes in memory.
    pub fn loaded(&self) -> usize {
        self.nodes.len() - self.unused.len() - self.away
    }

    /// Forgets the lowest level of nodes that are in memory as they are on flash. Places become invalid.
    pub fn shrink(&mut self) {
        self.near = Near::NOWHERE;
        for number in 0..self.nodes.len() as u32 {
            let node = self.nodes[number as usize];
            if node.level != 0 || node.is_dirty || node.len == 0 || self.root.child == number {
                continue;
            }
            let keeps_nodes = self.keeps_nodes;
            let child = &mut self.slot_mut(node.parent, node.place).child;
            if !keeps_nodes {
                *child = NONE;
                self.release(number);
            } else if *child < AWAY {
                *child |= AWAY;
                self.away += 1;
            }
        }
    }

    fn slot(&self, node: u32, at: u32) -> &Slot {
        &self.slots[node as usize * self.fanout + at as usize]
    }

    fn slot_mut(&mut self, node: u32, at: u32) -> &mut Slot {
        &mut self.slots[node as usize * self.fanout + at as usize]
    }

    fn key(&self, node: u32, at: u32) -> Key {
        self.keys[node as usize * self.fanout + at as usize]
    }

    fn key_mut(&mut self, node: u32, at: u32) -> &mut Key {
        &mut self.keys[node as usize * self.fanout + at as usize]
    }

    fn branch(&self, node: u32, at: u32) -> Branch {
        self.slot(node, at).branch(self.key(node, at))
    }

    fn keys(&self, node: u32) -> &[Key] {
        &self.keys[node as usize * self.fanout..][..self.nodes[node as usize].len as usize]
    }

    fn slots(&self, node: u32) -> &[Slot] {
        &self.slots[node as usize * self.fanout..][..self.nodes[node as usize].len as usize]
    }

    /// How many branches of a node have keys less than `key`, or, if `is_or_equal`, not greater.
    fn before(&self, node: u32, key: Key, is_or_equal: bool) -> u32 {
        let keys = &self.keys[node as usize * self.fanout..][..self.fanout];
        // Keys are smaller than `UNUSED`, so that there is one after `key`.
        let bound = Key(key.0.saturating_add(u64::from(is_or_equal)));
        (match self.fanout {
            // Nearly every file system has 8.
            8 => keys.as_chunks::<8>().0.iter().flatten().fold(0, |before, &other| before + usize::from(other < bound)),
            ..=FEW => keys.iter().fold(0, |before, &other| before + usize::from(other < bound)),
            _ => keys.partition_point(|&other| other < bound),
        }) as u32
    }

    fn allocate(&mut self, node: Znode) -> u32 {
        match self.unused.pop() {
            Some(number) => {
                self.nodes[number as usize] = node;
                number
            }
            None => {
                self.nodes.push(node);
                self.keys.resize(self.nodes.len() * self.fanout, UNUSED);
                self.slots.resize(self.nodes.len() * self.fanout, Slot::UNUSED);
                self.nodes.len() as u32 - 1
            }
        }
    }

    fn release(&mut self, number: u32) {
        self.nodes[number as usize].len = 0;
        self.keys[number as usize * self.fanout..][..self.fanout].fill(UNUSED);
        self.unused.push(number);
    }

    /// The root, read if it is not in memory.
    fn root<V: LebVolume>(&mut self, nodes: &mut Nodes<V>, cx: &mut Cx) -> Result<u32> {
        if self.root.child == NONE {
            let branch = self.root.branch(Key(0));
            self.root.child = self.read(nodes, cx, &branch, None)?;
        }
        Ok(self.root.child)
    }

    /// A child of an inner node, read if it is not in memory.
    fn child<V: LebVolume>(&mut self, nodes: &mut Nodes<V>, cx: &mut Cx, node: u32, at: u32) -> Result<u32> {
        let child = self.slot(node, at).child;
        if child < AWAY {
            return Ok(child);
        }
        self.load(nodes, cx, node, at)
    }

    #[cold]
    fn load<V: LebVolume>(&mut self, nodes: &mut Nodes<V>, cx: &mut Cx, node: u32, at: u32) -> Result<u32> {
        let branch = self.branch(node, at);
        let child = match self.slot(node, at).child {
            NONE => self.read(nodes, cx, &branch, Some((node, at)))?,
            away => {
                nodes.spend_read(cx, branch.lnum, branch.offset, branch.len)?;
                self.away -= 1;
                away & !AWAY
            }
        };
        self.slot_mut(node, at).child = child;
        Ok(child)
    }

    /// Reads the index node at `branch`, whose parent and place are given but for the root.
    fn read<V: LebVolume>(
        &mut self,
        nodes: &mut Nodes<V>,
        cx: &mut Cx,
        branch: &Branch,
        parent: Option<(u32, u32)>,
    ) -> Result<u32> {
        let above = parent.map(|(parent, _)| self.nodes[parent as usize].level - 1);
        let (level, branches) = self.on_flash(nodes, cx, branch, above)?;
        let (number, place) = parent.unwrap_or((NONE, 0));
        let number = self.allocate(Znode { parent: number, place, len: branches.len() as u32, level, is_dirty: false });
        for (at, branch) in (0..).zip(&branches) {
            *self.key_mut(number, at) = branch.key;
            *self.slot_mut(number, at) = Slot::of(branch);
        }
        Ok(number)
    }

    fn plausible(&self, branch: &Branch, before: Key) -> std::result::Result<(), &'static str> {
        let Branch { key, lnum, offset, len } = *branch;
        if !self.main.contains(&lnum) {
            return Err("outside of the main area");
        }
        if !offset.is_multiple_of(8) || offset > self.leb_bytes || len > self.leb_bytes - offset {
            return Err("not a node that begins at a multiple of 8 and ends in its LEB");
        }
        if key < before { Err("its key is less than that of the branch before") } else { Ok(()) }
    }

    /// Node and place where a leaf with `key` is inserted: before the first whose key is not less. The place may be past
    /// the last branch of the node. `None` of an empty tree.
    fn insertion<V: LebVolume>(&mut self, nodes: &mut Nodes<V>, cx: &mut Cx, key: Key) -> Result<Option<Place>> {
        // Equal keys of entries may be in more than one node. Another key is where its own branch leads: Linux looks for it
        // nowhere else.
        self.descend(nodes, cx, key, !key.is_of_entry())
    }

    /// The place for `key` in the node to which the branches above lead: with `is_or_equal` the last one whose key is not greater,
    /// else the last one whose key is less.
    fn descend<V: LebVolume>(
        &mut self,
        nodes: &mut Nodes<V>,
        cx: &mut Cx,
        key: Key,
        is_or_equal: bool,
    ) -> Result<Option<Place>> {
        let root = self.root(nodes, cx)?;
        if self.nodes[root as usize].len == 0 {
            return Ok(None);
        }
        let root = Step { node: root, end: UNUSED };
        let place = self.below(nodes, cx, self.nearest(key, is_or_equal).unwrap_or(root), (key, is_or_equal))?;
        debug_assert_eq!(
            self.below(nodes, cx, root, (key, is_or_equal)),
            Ok(place),
            "the way from the root leads elsewhere"
        );
        Ok(Some(place))
    }

    /// The lowest node on the way of the last search under which `key` is for certain.
    #[inline]
    fn nearest(&self, key: Key, is_or_equal: bool) -> Option<Step> {
        let is_above = |&&Step { node, end }: &&Step| {
            key < end && node != NONE && {
                let first = self.key(node, 0);
                first < key || is_or_equal && first == key
            }
        };
        self.near.0.iter().find(is_above).copied()
    }

    /// As [`descend`](Self::descend), from a node that `key` is under.
    fn below<V: LebVolume>(
        &mut self,
        nodes: &mut Nodes<V>,
        cx: &mut Cx,
        Step { mut node, mut end }: Step,
        (key, is_or_equal): (Key, bool),
    ) -> Result<Place> {
        for level in (0..self.nodes[node as usize].level).rev() {
            let after = self.before(node, key, is_or_equal).max(1);
            if (after as usize) < self.fanout {
                end = end.min(self.key(node, after));
            }
            node = self.child(nodes, cx, node, after - 1)?;
            if let Some(step) = self.near.0.get_mut(usize::from(level)) {
                *step = Step { node, end };
            }
        }
        Ok(Place { node, at: self.before(node, key, false) })
    }

    /// The first leaf whose key is not less than `key`.
    /// Errors: the volume's; index nodes that are none or contradict each other.
    pub fn lower_bound<V: LebVolume>(
        &mut self,
        nodes: &mut Nodes<V>,
        cx: &mut Cx,
        key: Key,
    ) -> Result<Option<(Place, Branch)>> {
        let place = self.insertion(nodes, cx, key)?;
        self.from(nodes, cx, place)
    }

    /// The leaf at `place`, or the one after it if the node ends there.
    fn from<V: LebVolume>(
        &mut self,
        nodes: &mut Nodes<V>,
        cx: &mut Cx,
        place: Option<Place>,
    ) -> Result<Option<(Place, Branch)>> {
        match place {
            None => Ok(None),
            Some(place @ Place { node, at }) if at < self.nodes[node as usize].len => {
                Ok(Some((place, self.branch(node, at))))
            }
            Some(Place { node, at }) => self.next(nodes, cx, Place { node, at: at - 1 }),
        }
    }

    /// The leaf after the one at `place`.
    /// Errors: as [`lower_bound`](Index::lower_bound).
    pub fn next<V: LebVolume>(
        &mut self,
        nodes: &mut Nodes<V>,
        cx: &mut Cx,
        place: Place,
    ) -> Result<Option<(Place, Branch)>> {
        let Place { mut node, mut at } = place;
        while at + 1 >= self.nodes[node as usize].len {
            let Znode { parent, place, .. } = self.nodes[node as usize];
            if parent == NONE {
                return Ok(None);
            }
            (node, at) = (parent, place);
        }
        at += 1;
        while self.nodes[node as usize].level > 0 {
            node = self.child(nodes, cx, node, at)?;
            at = 0;
        }
        Ok(Some((Place { node, at }, self.branch(node, at))))
    }

    /// The leaf with exactly this key; of equal keys the first.
    pub fn find<V: LebVolume>(
        &mut self,
        nodes: &mut Nodes<V>,
        cx: &mut Cx,
        key: Key,
    ) -> Result<Option<(Place, Branch)>> {
        Ok(self.lower_bound(nodes, cx, key)?.filter(|(_, branch)| branch.key == key))
    }

    /// The entry with this key and name.
    ///
    /// While the journal is replayed, the index may point to entries whose LEBs were since erased: one that cannot be
    /// read counts, if no other has the name, since only the entry that the journal is about to replace or remove can be
    /// one. `is_replay` allows for that.
    pub fn find_named<V: LebVolume>(
        &mut self,
        nodes: &mut Nodes<V>,
        cx: &mut Cx,
        key: Key,
        name: &[u8],
        is_replay: bool,
    ) -> Result<Option<(Place, Branch)>> {
        let place = self.insertion(nodes, cx, key)?;
        Ok(self.named_from(nodes, cx, place, (key, name), is_replay)?.0)
    }

    /// As [`find_named`](Index::find_named), for a change. Also returns where the entry belongs if it is not there. Where a branch above has
    /// the key itself, Linux looks first in the node that it leads to, and writes that anew even if the entry is in the one before.
    fn find_to_change<V: LebVolume>(
        &mut self,
        nodes: &mut Nodes<V>,
        cx: &mut Cx,
        (key, name): (Key, &[u8]),
        is_replay: bool,
    ) -> Result<(Option<Found>, Option<Place>)> {
        let place = self.insertion(nodes, cx, key)?;
        let behind = if self.near.0[0].end == key { self.descend(nodes, cx, key, true)? } else { None };
        if let Some(Place { node, .. }) = behind {
            self.dirty(node);
        }
        let (found, belongs) = self.named_from(nodes, cx, place, (key, name), is_replay)?;
        Ok((found, belongs.or(behind).or(place)))
    }

    /// As [`find_named`](Index::find_named), where `place` is the one for `key`. Also returns where the entry belongs among others with the
    /// key, which are in the order of their names, if there are any.
    fn named_from<V: LebVolume>(
        &mut self,
        nodes: &mut Nodes<V>,
        cx: &mut Cx,
        place: Option<Place>,
        (key, name): (Key, &[u8]),
        is_replay: bool,
    ) -> Result<(Option<Found>, Option<Place>)> {
        let (mut gone, mut belongs) = (None, None);
        let mut found = self.from(nodes, cx, place)?;
        while let Some((place, branch)) = found.filter(|(_, branch)| branch.key == key) {
            match entry(nodes, cx, &branch) {
                Ok(entry) if entry.name == name => return Ok((Some((place, branch)), Some(place))),
                Ok(entry) if entry.name < name => belongs = Some(Place { at: place.at + 1, ..place }),
                Ok(_) => belongs = belongs.or(Some(place)),
                Err(UbifsError::Node { .. }) if is_replay => gone = gone.or(Some((place, branch))),
                Err(error) => return Err(error),
            }
            found = self.next(nodes, cx, place)?;
        }
        Ok((gone, belongs))
    }
}

/// Reads the entry that `branch` points to.
/// Errors: the volume's; the node is no entry, or has another key.
pub fn entry<'n, V: LebVolume>(nodes: &'n mut Nodes<V>, cx: &mut Cx, branch: &Branch) -> Result<DentNode<'n>> {
    let (expected, what) = match branch.key.key_type() {
        Some(KeyType::Xent) => (NodeType::Xent, "extended attribute entry node"),
        _ => (NodeType::Dent, "directory entry node"),
    };
    let node = nodes.node(cx, branch, expected)?;
    let none = |error| UbifsError::node(branch.lnum, branch.offset, what, error);
    let entry = DentNode::decode(node).map_err(none)?;
    if entry.key != branch.key {
        return Err(none(MediaError::Field { what: "key", found: entry.key.0, expected: "that of the branch" }));
    }
    Ok(entry)
}
