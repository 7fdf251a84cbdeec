//! What a commit and garbage collection need of the index: nodes to be written, and where nodes are on flash.

use sim::Cx;
use sim::seam::LebVolume;

use super::{Index, NONE, Place, Znode};
use crate::ubifs::error::Result;
use crate::ubifs::media::{Branch, Key, NodeType, encode_index, index_bytes};
use crate::ubifs::nodes::{Nodes, Stored};

/// A node of the index in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeId(u32);

impl Index {
    /// Number of nodes that are to be written.
    pub fn dirty_nodes(&self) -> usize {
        self.dirty_nodes
    }

    /// The nodes that are to be written, children before their parents.
    pub fn to_write(&self) -> Vec<NodeId> {
        let mut found = Vec::with_capacity(self.dirty_nodes);
        let mut ahead = Vec::new();
        if self.root.child != NONE && self.nodes[self.root.child as usize].is_dirty {
            ahead.push((self.root.child, false));
        }
        while let Some((node, is_done)) = ahead.pop() {
            if is_done || self.nodes[node as usize].level == 0 {
                found.push(NodeId(node));
                continue;
            }
            ahead.push((node, true));
            let children = self.slots(node).iter().rev().map(|slot| slot.child);
            let dirty = children.filter(|&child| child != NONE && self.nodes[child as usize].is_dirty);
            ahead.extend(dirty.map(|child| (child, false)));
        }
        debug_assert_eq!(found.len(), self.dirty_nodes);
        found
    }

    /// Bytes of a node on flash.
    pub fn bytes_of(&self, NodeId(node): NodeId) -> usize {
        index_bytes(self.nodes[node as usize].len as usize)
    }

    /// What a node is where it is on flash, but for its offset.
    pub fn stored(&self, NodeId(node): NodeId) -> Stored {
        let (len, level) = (self.bytes_of(NodeId(node)) as u32, self.nodes[node as usize].level);
        Stored { offset: 0, len, node_type: NodeType::Index, key: self.key(node, 0), level }
    }

    /// Encodes a node. Its children are on flash already.
    pub fn encode(&self, NodeId(node): NodeId, bytes: &mut [u8], sqnum: u64) {
        let branches = self.keys(node).iter().zip(self.slots(node));
        encode_index(self.nodes[node as usize].level, branches.map(|(&key, slot)| slot.branch(key)), bytes, sqnum);
    }

    /// A node is on flash at this place from now on, as it is. Its children are there already.
    pub fn place(&mut self, NodeId(node): NodeId, lnum: u32, offset: u32) {
        debug_assert!(self.slots(node).iter().all(|slot| slot.len > 0), "a child is nowhere");
        let Znode { parent, place, len, .. } = self.nodes[node as usize];
        self.nodes[node as usize].is_dirty = false;
        self.dirty_nodes -= 1;
        let slot = if parent == NONE { &mut self.root } else { self.slot_mut(parent, place) };
        (slot.lnum, slot.offset, slot.len) = (lnum, offset, index_bytes(len as usize) as u32);
    }

    /// The root on flash, after everything was written.
    pub fn root_branch(&self) -> Branch {
        self.root.branch(Key(0))
    }

    /// The leaf at `place` was moved to another place of the flash.
    pub fn leaf_moved(&mut self, place: Place, (lnum, offset): (u32, u32)) {
        let branch = self.branch(place.node, place.at);
        self.replace(place, Branch { lnum, offset, ..branch });
    }

    /// The leaf with this key that is at this place of the flash. It stays where it is in the index until a leaf or a range
    /// is inserted or removed.
    pub fn leaf_at<V: LebVolume>(
        &mut self,
        nodes: &mut Nodes<V>,
        cx: &mut Cx,
        key: Key,
        (lnum, offset): (u32, u32),
    ) -> Result<Option<Place>> {
        let mut found = self.find(nodes, cx, key)?;
        while let Some((place, branch)) = found.filter(|(_, branch)| branch.key == key) {
            if (branch.lnum, branch.offset) == (lnum, offset) {
                return Ok(Some(place));
            }
            found = self.next(nodes, cx, place)?;
        }
        Ok(None)
    }

    /// Whether the node of this level whose first key is `key` is at this place of the flash.
    pub fn has_node<V: LebVolume>(
        &mut self,
        nodes: &mut Nodes<V>,
        cx: &mut Cx,
        (key, level): (Key, u16),
        place: (u32, u32),
    ) -> Result<bool> {
        let root = self.root(nodes, cx)?;
        if self.nodes[root as usize].level == level {
            return Ok((self.root.lnum, self.root.offset) == place && self.root.len > 0);
        }
        Ok(self.above(nodes, cx, root, key, level, place)?.is_some())
    }

    /// Marks the node at this place of the flash as to be written elsewhere, if it is in use.
    pub fn displace<V: LebVolume>(
        &mut self,
        nodes: &mut Nodes<V>,
        cx: &mut Cx,
        (key, level): (Key, u16),
        place: (u32, u32),
    ) -> Result<()> {
        let root = self.root(nodes, cx)?;
        if self.nodes[root as usize].level == level {
            if (self.root.lnum, self.root.offset) == place && self.root.len > 0 {
                self.dirty(root);
            }
            return Ok(());
        }
        if let Some((parent, at)) = self.above(nodes, cx, root, key, level, place)? {
            let node = self.child(nodes, cx, parent, at)?;
            self.dirty(node);
        }
        Ok(())
    }

    /// The parent, and the place in it, of the node of this level that is at `place` of the flash.
    fn above<V: LebVolume>(
        &mut self,
        nodes: &mut Nodes<V>,
        cx: &mut Cx,
        node: u32,
        key: Key,
        level: u16,
        place: (u32, u32),
    ) -> Result<Option<(u32, u32)>> {
        let above = self.nodes[node as usize].level;
        if above <= level {
            return Ok(None);
        }
        // Keys may be equal across nodes, so that more than one child may lead there.
        let end = self.before(node, key, true);
        let first = self.before(node, key, false).saturating_sub(1);
        for at in first..end.max(first + 1).min(self.nodes[node as usize].len) {
            if above == level + 1 {
                let slot = self.slot(node, at);
                if (slot.lnum, slot.offset) == place && slot.len > 0 {
                    return Ok(Some((node, at)));
                }
                continue;
            }
            let child = self.child(nodes, cx, node, at)?;
            let found = self.above(nodes, cx, child, key, level, place)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}
