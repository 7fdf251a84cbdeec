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

    /// Fills `found` with the nodes that are to be written, children before their parents.
    pub fn to_write(&self, found: &mut Vec<NodeId>) {
        found.clear();
        if self.dirty_nodes > 0 {
            self.dirty_below(self.root.child, self.nodes[self.root.child as usize].level, found);
        }
        debug_assert_eq!(found.len(), self.dirty_nodes);
    }

    fn dirty_below(&self, node: u32, level: u16, found: &mut Vec<NodeId>) {
        if level > 0 {
            // A child in memory is to be written if it is nowhere on flash.
            for slot in self.slots(node).iter().filter(|slot| slot.child != NONE && slot.len == 0) {
                match level {
                    1 => found.push(NodeId(slot.child)),
                    _ => self.dirty_below(slot.child, level - 1, found),
                }
            }
        }
        found.push(NodeId(node));
    }

    /// Bytes of a node on flash.
    pub fn bytes_of(&self, NodeId(node): NodeId) -> usize {
        index_bytes(self.nodes[node as usize].len as usize)
    }

    /// What a node is where it is on flash, but for its offset.
    pub fn stored(&self, NodeId(node): NodeId) -> Stored {
        let (len, level) = (self.bytes_of(NodeId(node)) as u32, self.nodes[node as usize].level);
        Stored { key: self.key(node, 0), offset: 0, len, at: node, level, node_type: NodeType::Index }
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

    /// Whether an index node is in use that was found at this place of the flash.
    pub fn has_node<V: LebVolume>(
        &mut self,
        nodes: &mut Nodes<V>,
        cx: &mut Cx,
        found: &Stored,
        place: (u32, u32),
    ) -> Result<bool> {
        if found.at != NONE {
            return Ok(self.is_at(found.at, place));
        }
        let root = self.root(nodes, cx)?;
        if self.nodes[root as usize].level == found.level {
            return Ok((self.root.lnum, self.root.offset) == place && self.root.len > 0);
        }
        Ok(self.above(nodes, cx, root, (found.key, found.level), place)?.is_some())
    }

    /// Marks an index node that was found at this place of the flash as to be written elsewhere, if it is in use.
    pub fn displace<V: LebVolume>(
        &mut self,
        nodes: &mut Nodes<V>,
        cx: &mut Cx,
        found: &Stored,
        place: (u32, u32),
    ) -> Result<()> {
        if found.at != NONE {
            if self.is_at(found.at, place) {
                let Znode { parent, place, .. } = self.nodes[found.at as usize];
                if parent != NONE {
                    self.child(nodes, cx, parent, place)?;
                }
                self.dirty(found.at);
            }
            return Ok(());
        }
        let root = self.root(nodes, cx)?;
        if self.nodes[root as usize].level == found.level {
            if (self.root.lnum, self.root.offset) == place && self.root.len > 0 {
                self.dirty(root);
            }
            return Ok(());
        }
        if let Some((parent, at)) = self.above(nodes, cx, root, (found.key, found.level), place)? {
            let node = self.child(nodes, cx, parent, at)?;
            self.dirty(node);
        }
        Ok(())
    }

    /// Whether a node that was written with this number is still at this place of the flash. Numbers of nodes that leave
    /// memory stay theirs.
    fn is_at(&self, number: u32, place: (u32, u32)) -> bool {
        let Some(node) = self.nodes.get(number as usize).filter(|node| node.len > 0) else { return false };
        let slot = if node.parent == NONE { &self.root } else { self.slot(node.parent, node.place) };
        (slot.lnum, slot.offset) == place && slot.len > 0
    }

    /// The parent, and the place in it, of the node of this level that is at `place` of the flash.
    fn above<V: LebVolume>(
        &mut self,
        nodes: &mut Nodes<V>,
        cx: &mut Cx,
        node: u32,
        (key, level): (Key, u16),
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
            let found = self.above(nodes, cx, child, (key, level), place)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}
