//! Garbage collection: what is in use in a dirty LEB is moved to the LEB of the collector's journal head, and the LEB is free.
//!
//! Victims are the dirtiest first. The reserve, one empty LEB, lets it begin when nothing else is free; the first LEB that it
//! empties becomes the next reserve.
//! Source: Linux 6.12 `fs/ubifs/gc.c` (behaviour).

use sim::Cx;
use sim::seam::LebVolume;

use super::space::{Change, Leb, Victims, flags};
use super::{Due, Result, Ubifs, UbifsError};
use crate::ubifs::media::{DataNode, DentNode, IndexNode, InodeNode, Key, KeyType, MediaError, NodeType, aligned};
use crate::ubifs::nodes::{GC_HEAD, HEADS, NO_LEB};
use crate::ubifs::scan::Found;

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

/// A node that is moved.
struct Node {
    found: Found,
    key: Key,
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

    /// Empties a LEB that is taken.
    fn collect_leb(&mut self, cx: &mut Cx, lnum: u32, leb: Leb) -> Result<Moved> {
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
        let (bytes, nodes) = self.nodes.scan(cx, lnum)?;
        if nodes.first().is_some_and(|node| node.header.node_type == NodeType::Index) {
            for node in &nodes {
                let error = |error| UbifsError::node(lnum, node.offset, NodeType::Index.name(), error);
                let place = IndexNode::first(node.of(&bytes)).map_err(error)?;
                self.index.displace(&mut self.nodes, cx, place, (lnum, node.offset))?;
            }
            self.settle();
            // Until the next commit its nodes are needed.
            self.space.change(lnum, Change { clear: flags::INDEX, ..empty });
            self.collected_index.push(lnum);
            self.counters.collected_index += 1;
            return Ok(Moved::Index);
        }
        if !self.move_nodes(cx, lnum, &bytes, nodes)? {
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
    fn move_nodes(&mut self, cx: &mut Cx, lnum: u32, bytes: &[u8], found: Vec<Found>) -> Result<bool> {
        if self.nodes.head(GC_HEAD).lnum == NO_LEB && !self.take_reserve(cx)? {
            return Ok(false);
        }
        let (mut data, mut others) = (Vec::new(), Vec::new());
        for found in found {
            let Some(key) = key_of(&found, bytes)
                .map_err(|error| UbifsError::node(lnum, found.offset, found.header.node_type.name(), error))?
            else {
                continue;
            };
            if self.index.has_leaf(&mut self.nodes, cx, key, (lnum, found.offset))? {
                let node = Node { found, key };
                if key.key_type() == Some(KeyType::Data) { data.push(node) } else { others.push(node) }
            }
        }
        data.sort_by_key(|node| node.key);
        others.sort_by_key(|node| match node.key.key_type() {
            Some(KeyType::Inode) => (false, u64::from(u32::MAX - node.found.header.len), 0),
            _ => (true, node.key.ino().into(), node.key.low()),
        });
        let shortest = data.iter().chain(&others).map(|node| node.found.header.len).min().unwrap_or(0);
        let (mut data, mut others) = (&data[..], others);
        loop {
            while let Some((node, rest)) = data.split_first() {
                if node.found.header.len > self.room_at_collector() {
                    break;
                }
                self.move_node(cx, lnum, bytes, node)?;
                data = rest;
            }
            let mut left = Vec::new();
            let mut nodes = others.into_iter();
            for node in nodes.by_ref() {
                let (room, len) = (self.room_at_collector(), node.found.header.len);
                let is_plain = node.key.key_type() == Some(KeyType::Dent) || len as usize == InodeNode::BYTES;
                if room < shortest || len > room && is_plain {
                    left.push(node);
                    break;
                }
                if len > room {
                    left.push(node);
                } else {
                    self.move_node(cx, lnum, bytes, &node)?;
                }
            }
            left.extend(nodes);
            others = left;
            if data.is_empty() && others.is_empty() {
                return Ok(true);
            }
            if !self.take_reserve(cx)? {
                return Ok(false);
            }
        }
    }

    fn move_node(&mut self, cx: &mut Cx, lnum: u32, bytes: &[u8], node: &Node) -> Result<()> {
        self.begin();
        let moved = node.found.of(bytes);
        let at = self.place(moved.len());
        self.batch[at..].copy_from_slice(moved);
        self.counters.moved_bytes += u64::from(aligned(node.found.header.len));
        let to = self.append(cx, GC_HEAD, &[], false)?;
        let from = (lnum, node.found.offset);
        self.index.leaf_moved(&mut self.nodes, cx, node.key, from, (to.lnum, to.offset))?;
        self.settle();
        Ok(())
    }
}

/// Key of a node of a bud; `None` of one that the index does not point to.
fn key_of(found: &Found, leb: &[u8]) -> std::result::Result<Option<Key>, MediaError> {
    let node = found.of(leb);
    Ok(match found.header.node_type {
        NodeType::Inode => Some(InodeNode::decode(node)?.key),
        NodeType::Data => Some(DataNode::decode(node)?.key),
        NodeType::Dent | NodeType::Xent => Some(DentNode::decode(node)?.key),
        _ => None,
    })
}
