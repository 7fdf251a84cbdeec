//! Garbage collection: what is in use in a dirty LEB is moved to the LEB of the collector's journal head, and the LEB is free.
//!
//! Victims are the dirtiest first. The reserve, one empty LEB, lets it begin when nothing else is free; the first LEB that it
//! empties becomes the next reserve.
//! Source: Linux 6.12 `fs/ubifs/gc.c` (behaviour).

use sim::seam::LebVolume;
use sim::{Cx, PassKind};

use super::space::{Change, Leb, Victims, flags};
use super::{Due, Result, Ubifs, UbifsError};
use crate::ubifs::index::Place;
use crate::ubifs::media::{InodeNode, KeyType, NodeType, aligned};
use crate::ubifs::nodes::{GC_HEAD, HEADS, NO_LEB, Stored};

/// LEBs after which a commit is asked for, if some of the index were emptied.
const SOFT_LIMIT: u32 = 4;
/// LEBs after which it gives up.
const HARD_LIMIT: u32 = 32;

/// What a run of the collector came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Collected {
    /// This LEB is empty, and taken.
    Leb(u32),
    /// A commit must come first.
    CommitFirst,
    /// There is nothing to be gained.
    Nothing,
}

/// What became of a LEB.
enum Moved {
    /// It is free.
    Free,
    /// It is the new reserve.
    Reserve,
    /// It was one of the index, and is free after the next commit.
    Index,
    CommitFirst,
}

/// A node that is moved, and where the index points to it.
type Leaf = (Stored, Place);

/// What is moved of a LEB: data nodes and others.
#[derive(Clone, Debug, Default)]
pub(super) struct Moving {
    data: Vec<Leaf>,
    others: Vec<Leaf>,
}

impl<V: LebVolume> Ubifs<V> {
    /// Collects garbage until a LEB is empty. With `anyway` even if there are empty ones.
    /// Errors: the medium's.
    pub(super) fn collect_garbage(&mut self, cx: &mut Cx, anyway: bool) -> Result<Collected> {
        if self.commit_is_required() {
            return Ok(Collected::CommitFirst);
        }
        let mut least = self.space.dead;
        let mut tries = 0;
        let mut done = loop {
            if self.commit_is_required() {
                break Collected::CommitFirst;
            }
            if tries > SOFT_LIMIT && !self.collected_index.is_empty() {
                self.due = Due::Required;
                break Collected::CommitFirst;
            }
            if tries > HARD_LIMIT {
                break Collected::Nothing;
            }
            let victims = if anyway { Victims::Dirty } else { Victims::Any };
            let collected = self.collected_index.len() as i32;
            let found = self.space.take_dirty(least, victims, self.budget.min_index_lebs, collected);
            let Some((lnum, leb)) = found else { break Collected::Nothing };
            let before = self.room_at_collector();
            match self.collect_leb(cx, lnum, leb)? {
                Moved::CommitFirst => {
                    self.space.release(lnum);
                    break Collected::CommitFirst;
                }
                Moved::Free => break Collected::Leb(lnum),
                Moved::Index => {}
                Moved::Reserve if self.room_at_collector() > before => least = (least / 2).max(self.space.dead),
                Moved::Reserve if tries < SOFT_LIMIT => {}
                Moved::Reserve => least = (least * 2).min(self.space.dark),
            }
            tries += 1;
        };
        if done == Collected::Nothing && !self.collected_index.is_empty() {
            self.due = Due::Required;
            done = Collected::CommitFirst;
        }
        self.flush_head(cx, GC_HEAD)?;
        if let Some(reserve) = self.gc_lnum {
            self.nodes.unmap(cx, reserve)?;
        }
        Ok(done)
    }

    /// Bytes left in the LEB of the collector's head.
    fn room_at_collector(&self) -> u32 {
        let head = self.nodes.head(GC_HEAD);
        if head.lnum == NO_LEB { 0 } else { self.leb_bytes - head.end() }
    }

    /// What makes nodes obsolete must be on flash before they go.
    fn flush_others(&mut self, cx: &mut Cx) -> Result<()> {
        (0..HEADS).filter(|&head| head != GC_HEAD).try_for_each(|head| self.flush_head(cx, head))
    }

    /// Empties a LEB that is taken: a pass.
    fn collect_leb(&mut self, cx: &mut Cx, lnum: u32, leb: Leb) -> Result<Moved> {
        let (begun, before) = (cx.begin_pass(), self.counters.moved_bytes);
        let moved = self.empty_leb(cx, lnum, leb)?;
        let nodes = self.moving.data.len() + self.moving.others.len();
        let bytes = self.counters.moved_bytes - before;
        cx.end_pass(begun, PassKind::Move, lnum, (if bytes > 0 { nodes as u64 } else { 0 }, bytes));
        Ok(moved)
    }

    fn empty_leb(&mut self, cx: &mut Cx, lnum: u32, leb: Leb) -> Result<Moved> {
        let whole = self.leb_bytes as i32;
        let empty = Change { free: Some(whole), dirty: Some(0), ..Change::default() };
        if leb.space() == whole {
            if leb.free != whole {
                self.flush_others(cx)?;
                self.space.change(lnum, empty);
            }
            self.nodes.unmap(cx, lnum)?;
            return Ok(self.keep_or_free(lnum));
        }
        let mut found = std::mem::take(&mut self.found);
        self.nodes.scan(cx, lnum, &mut found)?;
        let moved = self.collect_nodes(cx, lnum, &found);
        self.found = found;
        moved
    }

    /// Empties a LEB that holds these nodes.
    fn collect_nodes(&mut self, cx: &mut Cx, lnum: u32, nodes: &[Stored]) -> Result<Moved> {
        let empty = Change { free: Some(self.leb_bytes as i32), dirty: Some(0), ..Change::default() };
        if nodes.first().is_some_and(|node| node.node_type == NodeType::Index) {
            for node in nodes {
                self.index.displace(&mut self.nodes, cx, node, (lnum, node.offset))?;
            }
            self.settle();
            // Until the next commit its nodes are needed.
            self.space.change(lnum, Change { clear: flags::INDEX, ..empty });
            self.collected_index.push(lnum);
            self.counters.collected_index += 1;
            return Ok(Moved::Index);
        }
        let mut moving = std::mem::take(&mut self.moving);
        let is_done = self.move_nodes(cx, lnum, nodes, &mut moving);
        self.moving = moving;
        if !is_done? {
            return Ok(Moved::CommitFirst);
        }
        self.flush_others(cx)?;
        self.space.change(lnum, empty);
        self.counters.collected += 1;
        if self.gc_lnum.is_some() {
            self.flush_head(cx, GC_HEAD)?;
            self.nodes.unmap(cx, lnum)?;
        }
        Ok(self.keep_or_free(lnum))
    }

    fn keep_or_free(&mut self, lnum: u32) -> Moved {
        match self.gc_lnum {
            Some(_) => Moved::Free,
            None => {
                self.gc_lnum = Some(lnum);
                Moved::Reserve
            }
        }
    }

    /// Empties a LEB that is taken, and makes it the reserve, which is missing.
    pub(super) fn collect_reserve(&mut self, cx: &mut Cx, lnum: u32, leb: Leb) -> Result<()> {
        let moved = self.collect_leb(cx, lnum, leb)?;
        self.flush_head(cx, GC_HEAD)?;
        match moved {
            Moved::Reserve => self.nodes.unmap(cx, lnum),
            _ => Err(UbifsError::corrupt(lnum, 0, "the LEB does not become the reserve of garbage collection")),
        }
    }

    /// The reserve becomes the LEB of the collector's head. Returns false if a commit must come first.
    fn take_reserve(&mut self, cx: &mut Cx) -> Result<bool> {
        let Some(reserve) = self.gc_lnum else {
            let lnum = self.nodes.head(GC_HEAD).lnum;
            return Err(UbifsError::corrupt(lnum, 0, "garbage collection has no reserve to go on in"));
        };
        self.flush_head(cx, GC_HEAD)?;
        self.nodes.unmap(cx, reserve)?;
        if !self.add_bud(cx, GC_HEAD, reserve, 0)? {
            return Ok(false);
        }
        self.gc_lnum = None;
        self.nodes.seek(GC_HEAD, reserve, 0);
        Ok(true)
    }

    /// Moves what is in use: data in the order of files, then inodes, the longest first, then entries by hash. Returns false
    /// if a commit must come first.
    fn move_nodes(&mut self, cx: &mut Cx, lnum: u32, found: &[Stored], moving: &mut Moving) -> Result<bool> {
        if self.nodes.head(GC_HEAD).lnum == NO_LEB && !self.take_reserve(cx)? {
            return Ok(false);
        }
        let Moving { data, others } = moving;
        data.clear();
        others.clear();
        for node in found {
            if let Some(place) = self.index.leaf_at(&mut self.nodes, cx, node.key, (lnum, node.offset))? {
                if node.node_type == NodeType::Data { data.push((*node, place)) } else { others.push((*node, place)) }
            }
        }
        data.sort_unstable_by_key(|(node, _)| node.key);
        // Of equal ones the first of the LEB.
        others.sort_unstable_by_key(|(Stored { offset, len, key, .. }, _)| match key.key_type() {
            Some(KeyType::Inode) => (false, u64::from(u32::MAX - len), 0, *offset),
            _ => (true, key.ino().into(), key.low(), *offset),
        });
        let shortest = data.iter().chain(&*others).map(|(node, _)| node.len).min().unwrap_or(0);
        let mut data = &data[..];
        loop {
            while let Some((leaf, rest)) = data.split_first() {
                if leaf.0.len > self.room_at_collector() {
                    break;
                }
                self.move_node(cx, leaf)?;
                data = rest;
            }
            let (mut is_full, mut left) = (false, 0);
            for at in 0..others.len() {
                let leaf = others[at];
                let (room, Stored { len, key, .. }) = (self.room_at_collector(), leaf.0);
                let is_plain = key.key_type() == Some(KeyType::Dent) || len as usize == InodeNode::BYTES;
                is_full |= room < shortest || len > room && is_plain;
                if is_full || len > room {
                    others[left] = leaf;
                    left += 1;
                } else {
                    self.move_node(cx, &leaf)?;
                }
            }
            others.truncate(left);
            if data.is_empty() && others.is_empty() {
                return Ok(true);
            }
            if !self.take_reserve(cx)? {
                return Ok(false);
            }
        }
    }

    fn move_node(&mut self, cx: &mut Cx, (node, place): &Leaf) -> Result<()> {
        self.counters.moved_bytes += u64::from(aligned(node.len));
        let to = self.append_moved(cx, node)?;
        self.index.leaf_moved(*place, (to.lnum, to.offset));
        self.settle();
        Ok(())
    }
}
