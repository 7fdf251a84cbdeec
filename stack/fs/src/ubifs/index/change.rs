//! Changes of the index.

use std::ops::Range;

use sim::Cx;
use sim::seam::LebVolume;

use super::{AWAY, Index, NONE, Near, Place, Slot, UNUSED, Znode, entry};
use crate::ubifs::error::{Result, UbifsError};
use crate::ubifs::media::{Branch, Key, KeyType};
use crate::ubifs::nodes::Nodes;

impl Index {
    /// Makes `branch` the leaf of its key, which is no entry's. Returns the one that it replaces.
    pub fn put<V: LebVolume>(&mut self, nodes: &mut Nodes<V>, cx: &mut Cx, branch: Branch) -> Result<Option<Branch>> {
        debug_assert!(matches!(branch.key.key_type(), Some(KeyType::Inode | KeyType::Data)));
        let place = self.insertion(nodes, cx, branch.key)?;
        let found = self.from(nodes, cx, place)?.filter(|(_, old)| old.key == branch.key);
        Ok(self.replace_or_insert(found, place, branch))
    }

    /// Makes `branch` the leaf of the entry with this name. Returns the one that it replaces.
    pub fn put_named<V: LebVolume>(
        &mut self,
        nodes: &mut Nodes<V>,
        cx: &mut Cx,
        branch: Branch,
        name: &[u8],
        is_replay: bool,
    ) -> Result<Option<Branch>> {
        let (found, place) = self.find_to_change(nodes, cx, (branch.key, name), is_replay)?;
        Ok(self.replace_or_insert(found, place, branch))
    }

    /// Replaces the leaf that was found, or inserts `branch` at the place for its key.
    fn replace_or_insert(
        &mut self,
        found: Option<(Place, Branch)>,
        place: Option<Place>,
        branch: Branch,
    ) -> Option<Branch> {
        if let Some((place, old)) = found {
            self.replace(place, branch);
            return Some(old);
        }
        let Place { node, at } = place.unwrap_or(Place { node: self.root.child, at: 0 });
        self.insert_slot(node, at, (branch.key, Slot::of(&branch)), false);
        None
    }

    /// Removes the leaf with this key, which is no entry's. Returns it.
    pub fn remove<V: LebVolume>(&mut self, nodes: &mut Nodes<V>, cx: &mut Cx, key: Key) -> Result<Option<Branch>> {
        let Some((place, old)) = self.find(nodes, cx, key)? else { return Ok(None) };
        self.delete(nodes, cx, place)?;
        Ok(Some(old))
    }

    /// Removes the entry with this key and name. Returns its leaf.
    pub fn remove_named<V: LebVolume>(
        &mut self,
        nodes: &mut Nodes<V>,
        cx: &mut Cx,
        key: Key,
        name: &[u8],
        is_replay: bool,
    ) -> Result<Option<Branch>> {
        let (found, _) = self.find_to_change(nodes, cx, (key, name), is_replay)?;
        let Some((place, old)) = found else { return Ok(None) };
        self.delete(nodes, cx, place)?;
        Ok(Some(old))
    }

    /// Removes the leaves with keys from `first` to `last`, and calls `gone` with each. Of those in one node the first goes last, as in Linux.
    pub fn remove_range<V: LebVolume>(
        &mut self,
        nodes: &mut Nodes<V>,
        cx: &mut Cx,
        (first, last): (Key, Key),
        mut gone: impl FnMut(Branch),
    ) -> Result<()> {
        let mut found = self.lower_bound(nodes, cx, first)?;
        while let Some((place, branch)) = found.filter(|(_, found)| found.key <= last) {
            let Place { node, at } = place;
            let others = at + 1..self.before(node, last, true);
            for at in others.clone() {
                self.forget(Place { node, at });
                gone(self.branch(node, at));
            }
            self.dirty(node);
            self.drop_slots(node, others);
            let is_last = self.nodes[node as usize].len == 1;
            self.delete(nodes, cx, place)?;
            gone(branch);
            // What follows has moved up, unless the node is gone too: its number may be another's by now.
            found = match is_last {
                true => self.lower_bound(nodes, cx, first)?,
                false => self.from(nodes, cx, Some(place))?,
            };
        }
        Ok(())
    }

    /// Removes an inode with all that belongs to it, its extended attributes too, and calls `gone` with each leaf.
    /// `is_replay` allows for entries of attributes whose LEBs were since erased, as in [`find_named`](Index::find_named).
    pub fn remove_inode<V: LebVolume>(
        &mut self,
        nodes: &mut Nodes<V>,
        cx: &mut Cx,
        ino: u32,
        is_replay: bool,
        mut gone: impl FnMut(Branch),
    ) -> Result<()> {
        let of = |ino| (Key::inode(ino), Key(Key::inode(ino).0 | u64::from(u32::MAX)));
        let mut attribute = self.lower_bound(nodes, cx, Key::xent(ino, 0))?;
        let mut values = Vec::new();
        while let Some((place, branch)) = attribute.filter(|(_, branch)| branch.key <= of(ino).1) {
            match entry(nodes, cx, &branch) {
                Ok(entry) => values.extend(u32::try_from(entry.ino)),
                Err(UbifsError::Node { .. }) if is_replay => {}
                Err(error) => return Err(error),
            }
            attribute = self.next(nodes, cx, place)?;
        }
        for value in values {
            self.remove_range(nodes, cx, of(value), &mut gone)?;
        }
        self.remove_range(nodes, cx, of(ino), gone)
    }

    pub(super) fn replace(&mut self, place: Place, branch: Branch) {
        self.forget(place);
        *self.key_mut(place.node, place.at) = branch.key;
        *self.slot_mut(place.node, place.at) = Slot::of(&branch);
        self.dirty(place.node);
    }

    /// Notes that a leaf is obsolete.
    fn forget(&mut self, Place { node, at }: Place) {
        let Slot { lnum, offset, len, .. } = *self.slot(node, at);
        if let Some(gone) = &mut self.gone {
            gone.leaves.push((lnum, offset, len));
        }
    }

    /// Marks a node and those above it as to be written. What is on flash of them is obsolete.
    pub(super) fn dirty(&mut self, mut node: u32) {
        while node != NONE && !self.nodes[node as usize].is_dirty {
            let Znode { parent, place, .. } = self.nodes[node as usize];
            self.nodes[node as usize].is_dirty = true;
            self.dirty_nodes += 1;
            let slot = if parent == NONE { &mut self.root } else { self.slot_mut(parent, place) };
            let (lnum, offset, len) = (slot.lnum, slot.offset, slot.len);
            (slot.lnum, slot.offset, slot.len) = (0, 0, 0);
            if let Some(gone) = &mut self.gone {
                gone.nodes.push((lnum, offset, len));
            }
            node = parent;
        }
    }

    /// How many branches a full node keeps when one with `key` is inserted before the one at `at`; whether it is an append;
    /// and whether the new branch stays with them. Linux keeps the blocks of a file together.
    fn split(&self, node: u32, at: u32, key: Key, is_append: bool) -> (u32, bool, bool) {
        let Znode { len, level, .. } = self.nodes[node as usize];
        let is_data = |key: Key| key.key_type() == Some(KeyType::Data);
        let of_file = |at: u32| {
            let other = self.key(node, at);
            other.ino() == key.ino() && is_data(other)
        };
        let half = len.div_ceil(2);
        let is_leaf_of_data = level == 0 && is_data(key);
        let appends = if is_leaf_of_data { at == len && of_file(len - 1) } else { is_append && at == len };
        if appends {
            return (len, true, false);
        }
        let is_between = at < len && (is_leaf_of_data || is_append);
        if is_between && at >= half && of_file(0) && !of_file(at) {
            return (at, false, true);
        }
        if at < half { (half - 1, false, true) } else { (half, false, false) }
    }

    /// Inserts a branch before the one at `at`, and splits the node if it is full.
    fn insert_slot(&mut self, node: u32, at: u32, slot: (Key, Slot), is_append: bool) {
        self.dirty(node);
        let Znode { len, level, .. } = self.nodes[node as usize];
        if (len as usize) < self.fanout {
            self.put_slot(node, at, slot);
            return;
        }
        self.near = Near::NOWHERE;
        let (keep, is_append, stays) = self.split(node, at, slot.0, is_append);
        let sibling = self.allocate(Znode { parent: NONE, place: 0, len: len - keep, level, is_dirty: true });
        self.dirty_nodes += 1;
        let (from, to) = (node as usize * self.fanout, sibling as usize * self.fanout);
        let moved = from + keep as usize..from + len as usize;
        self.slots.copy_within(moved.clone(), to);
        self.keys.copy_within(moved.clone(), to);
        self.keys[moved].fill(UNUSED);
        self.nodes[node as usize].len = keep;
        self.adopt(sibling, 0);
        if stays {
            self.put_slot(node, at, slot);
        } else {
            self.put_slot(sibling, at - keep, slot);
        }
        let above = (self.key(sibling, 0), Slot { child: sibling, ..Slot::UNUSED });
        let Znode { parent, place, .. } = self.nodes[node as usize];
        if parent != NONE {
            self.insert_slot(parent, place + 1, above, is_append);
            return;
        }
        let root = self.allocate(Znode { parent: NONE, place: 0, len: 2, level: level + 1, is_dirty: true });
        self.dirty_nodes += 1;
        let below = (self.key(node, 0), Slot { child: node, ..Slot::UNUSED });
        for (at, (key, slot)) in (0..).zip([below, above]) {
            *self.key_mut(root, at) = key;
            *self.slot_mut(root, at) = slot;
        }
        self.root = Slot { child: root, ..Slot::UNUSED };
        self.adopt(root, 0);
    }

    /// Inserts a branch before the one at `at` of a node that is not full.
    fn put_slot(&mut self, node: u32, at: u32, (key, slot): (Key, Slot)) {
        let first = node as usize * self.fanout;
        let here = first + at as usize;
        let after = here..first + self.nodes[node as usize].len as usize;
        self.slots.copy_within(after.clone(), here + 1);
        self.keys.copy_within(after, here + 1);
        self.slots[here] = slot;
        self.keys[here] = key;
        self.nodes[node as usize].len += 1;
        self.adopt(node, at);
        if at == 0 && self.nodes[node as usize].parent != NONE {
            self.lower_keys(node);
        }
    }

    /// Corrects parent and place in the children of `node` from place `from` on.
    fn adopt(&mut self, node: u32, from: u32) {
        if self.nodes[node as usize].level == 0 {
            return;
        }
        for at in from..self.nodes[node as usize].len {
            let child = self.slot(node, at).child;
            if child != NONE {
                let child = &mut self.nodes[(child & !AWAY) as usize];
                (child.parent, child.place) = (node, at);
            }
        }
    }

    /// Makes the keys above a node whose first key became less no greater than that.
    fn lower_keys(&mut self, mut node: u32) {
        let key = self.key(node, 0);
        loop {
            let Znode { parent, place, .. } = self.nodes[node as usize];
            if parent == NONE || self.key(parent, place) <= key {
                return;
            }
            *self.key_mut(parent, place) = key;
            self.near = Near::NOWHERE;
            node = parent;
        }
    }

    /// Removes a branch; a node that loses its last one goes too, and a root with one child makes way for it.
    fn delete<V: LebVolume>(&mut self, nodes: &mut Nodes<V>, cx: &mut Cx, Place { node, at }: Place) -> Result<()> {
        if self.nodes[node as usize].level == 0 {
            self.forget(Place { node, at });
        }
        self.dirty(node);
        self.drop_slots(node, at..at + 1);
        let Znode { parent, place, len, .. } = self.nodes[node as usize];
        if len == 0 && parent != NONE {
            self.near = Near::NOWHERE;
            self.release(node);
            self.dirty_nodes -= 1;
            return self.delete(nodes, cx, Place { node: parent, at: place });
        }
        let root = self.root.child;
        let Znode { level, len, .. } = self.nodes[root as usize];
        if len == 0 && level > 0 {
            // The tree is empty: the root is one node without branches.
            self.nodes[root as usize].level = 0;
        }
        self.lower_root(nodes, cx)
    }

    /// Takes branches out of a node.
    fn drop_slots(&mut self, node: u32, gone: Range<u32>) {
        if gone.is_empty() {
            return;
        }
        let first = node as usize * self.fanout;
        let end = first + self.nodes[node as usize].len as usize;
        let (here, after) = (first + gone.start as usize, first + gone.end as usize..end);
        self.slots.copy_within(after.clone(), here);
        self.keys.copy_within(after, here);
        self.keys[end - gone.len()..end].fill(UNUSED);
        self.nodes[node as usize].len -= gone.len() as u32;
        self.adopt(node, gone.start);
    }

    /// Drops roots with one child. Linux writes the child anew, though nothing in it changed.
    fn lower_root<V: LebVolume>(&mut self, nodes: &mut Nodes<V>, cx: &mut Cx) -> Result<()> {
        loop {
            let root = self.root.child;
            let Znode { level, len, .. } = self.nodes[root as usize];
            if level == 0 || len != 1 {
                return Ok(());
            }
            let child = self.child(nodes, cx, root, 0)?;
            self.dirty(child);
            self.dirty_nodes -= 1;
            self.near = Near::NOWHERE;
            self.root = *self.slot(root, 0);
            self.release(root);
            let child = &mut self.nodes[child as usize];
            (child.parent, child.place) = (NONE, 0);
        }
    }

    /// Checks the invariants of what is in memory; panics if one is broken.
    pub fn check(&self) {
        if self.root.child == NONE {
            return;
        }
        let mut seen = 0;
        let mut below = vec![(self.root.child, NONE, 0, Key(0))];
        while let Some((number, parent, place, least)) = below.pop() {
            seen += 1;
            let node = self.nodes[number as usize];
            assert_eq!((node.parent, node.place), (parent, place), "parent of node {number}");
            assert!(node.len > 0 || parent == NONE, "node {number} has no branch");
            assert!(node.len as usize <= self.fanout, "node {number} has too many branches");
            if parent != NONE {
                let above = self.nodes[parent as usize];
                assert_eq!(node.level + 1, above.level, "level of node {number}");
                assert!(!node.is_dirty || above.is_dirty, "node {number} is dirty, its parent is not");
            }
            let keys = self.keys(number);
            assert!(keys.is_sorted(), "keys of node {number}");
            assert!(keys.first().is_none_or(|&key| key >= least), "first key of node {number}");
            let unused = &self.keys[number as usize * self.fanout..][node.len as usize..self.fanout];
            assert!(unused.iter().all(|&key| key == UNUSED), "unused keys of node {number}");
            for (at, (slot, &key)) in (0..).zip(self.slots(number).iter().zip(keys)) {
                assert!(node.level > 0 || slot.child == NONE, "a leaf has no child");
                if slot.child != NONE {
                    below.push((slot.child & !AWAY, number, at, key));
                }
            }
        }
        assert_eq!(seen, self.loaded() + self.away, "nodes that are in no tree");
    }
}
