//! Writing the index: one node after another into empty LEBs, or, where those are too few, into the gaps that obsolete
//! nodes leave in LEBs of the index.
//!
//! Source: Linux 6.12 `fs/ubifs/tnc_commit.c` (behaviour).

use sim::Cx;
use sim::seam::LebVolume;

use super::space::{Change, flags};
use super::{Result, Ubifs, UbifsError};
use crate::ubifs::index::NodeId;
use crate::ubifs::media::{Branch, IndexNode, NodeType, aligned, pad};

impl<V: LebVolume> Ubifs<V> {
    /// Writes all nodes that changed. Returns the root.
    pub(super) fn write_index(&mut self, cx: &mut Cx) -> Result<Branch> {
        let order = self.index.to_write();
        if !order.is_empty() {
            let mut lebs = Vec::new();
            let needed = self.lebs_for(order.len());
            while lebs.len() < needed
                && let Some(lnum) = self.space.take_empty(flags::INDEX)
            {
                self.nodes.unmap(cx, lnum)?;
                lebs.push(lnum);
            }
            let mut rest = &order[..];
            if lebs.len() < needed {
                rest = self.fill_gaps(cx, rest, lebs.len())?;
            }
            let used = self.append_index(cx, rest, &lebs)?;
            for &lnum in &lebs[used..] {
                self.space.change(lnum, Change { clear: flags::TAKEN | flags::INDEX, ..Change::default() });
            }
            self.counters.index_nodes += order.len() as u64;
        }
        self.old_nodes.clear();
        self.dirty_index = self.space.dirty_index();
        self.index_was_committed();
        Ok(self.index.root_branch())
    }

    /// Empty LEBs that so many nodes need, besides the room at the head, if each is as large as can be.
    fn lebs_for(&self, nodes: usize) -> usize {
        let node = self.max_index_node();
        let at_head = (self.leb_bytes - self.index_head.1) / node;
        nodes.saturating_sub(at_head as usize).div_ceil((self.leb_bytes / node) as usize)
    }

    /// Appends nodes to the index head, and then to `lebs`. Returns how many of those were used.
    fn append_index(&mut self, cx: &mut Cx, order: &[NodeId], lebs: &[u32]) -> Result<usize> {
        let chunk = self.max_index_node().next_multiple_of(self.min_io) as usize;
        let (mut lnum, mut offset) = self.index_head;
        let mut used = 0;
        // What is to be written from `offset` on.
        let mut bytes: Vec<u8> = Vec::with_capacity(2 * chunk);
        for &node in order {
            let len = self.index.bytes_of(node);
            if offset as usize + bytes.len() + len > self.leb_bytes as usize {
                self.end_index_write(cx, lnum, &mut offset, &mut bytes)?;
                self.space.change(lnum, Change { clear: flags::TAKEN, ..Change::default() });
                let none = || UbifsError::corrupt(lnum, 0, "there is no empty LEB left for the index");
                lnum = *lebs.get(used).ok_or_else(none)?;
                (used, offset) = (used + 1, 0);
            }
            let at = bytes.len();
            bytes.resize(at + aligned(len as u32) as usize, 0);
            let sqnum = self.next_sqnum();
            self.index.place(node, lnum, offset + at as u32, &mut bytes[at..at + len], sqnum);
            self.nodes.note(lnum, offset + at as u32, &bytes[at..at + len]);
            self.index_bytes += u64::from(aligned(len as u32));
            if bytes.len() >= chunk {
                self.nodes.write(cx, lnum, offset, &bytes[..chunk])?;
                offset += chunk as u32;
                bytes.drain(..chunk);
            }
        }
        self.end_index_write(cx, lnum, &mut offset, &mut bytes)?;
        self.index_head = (lnum, offset);
        Ok(used)
    }

    /// Writes what is left, padded to a write unit.
    fn end_index_write(&mut self, cx: &mut Cx, lnum: u32, offset: &mut u32, bytes: &mut Vec<u8>) -> Result<()> {
        let used = bytes.len();
        let end = (*offset as usize + used).next_multiple_of(self.min_io as usize) - *offset as usize;
        if end > 0 {
            bytes.resize(end, 0);
            pad(&mut bytes[used..]);
            self.nodes.write(cx, lnum, *offset, bytes)?;
            *offset += end as u32;
        }
        self.space.written(lnum, *offset, (end - used) as u32);
        bytes.clear();
        Ok(())
    }

    /// Writes nodes into gaps of index LEBs until `lebs` empty ones are enough for the others, which are returned.
    fn fill_gaps<'o>(&mut self, cx: &mut Cx, order: &'o [NodeId], lebs: usize) -> Result<&'o [NodeId]> {
        let mut rest = order;
        let mut taken = Vec::new();
        while self.lebs_for(rest.len()) > lebs {
            let Some(lnum) = self.take_gap_leb() else { break };
            taken.push(lnum);
            rest = self.fill_leb(cx, rest, lnum)?;
        }
        self.counters.index_nodes_in_gaps += (order.len() - rest.len()) as u64;
        for lnum in taken {
            self.space.release(lnum);
        }
        Ok(rest)
    }

    /// A LEB of the index with obsolete nodes: the dirtiest as of the last commit, any, or one that was emptied.
    fn take_gap_leb(&mut self) -> Option<u32> {
        while let Some(lnum) = self.dirty_index.pop() {
            if let Some(lnum) = self.space.take_index(Some(lnum)) {
                return Some(lnum);
            }
        }
        self.space.take_index(None).or_else(|| {
            let lnum = self.collected_index.pop()?;
            self.space.change(lnum, Change { set: flags::INDEX, ..Change::default() });
            Some(lnum)
        })
    }

    /// Writes nodes into the gaps of a LEB, which is then changed atomically. Returns those that did not fit.
    fn fill_leb<'o>(&mut self, cx: &mut Cx, order: &'o [NodeId], lnum: u32) -> Result<&'o [NodeId]> {
        let (mut leb, found) = self.nodes.scan(cx, lnum)?;
        let (mut kept, mut placed) = (Vec::new(), Vec::new());
        let mut rest = order;
        let (mut gap, mut dirt) = (0, 0);
        for node in &found {
            let place = (lnum, node.offset);
            let is_old = self.old_nodes.contains(&place);
            if !is_old {
                let error = |error| UbifsError::node(lnum, node.offset, NodeType::Index.name(), error);
                let first = IndexNode::first(node.of(&leb)).map_err(error)?;
                if !self.index.has_node(&mut self.nodes, cx, first, place)? {
                    continue;
                }
            }
            let end = aligned(node.offset + node.header.len);
            if is_old {
                dirt += end - node.offset;
            }
            kept.push((node.offset, node.of(&leb).to_vec()));
            let (left, _) = self.fill_gap(&mut leb, (lnum, gap, node.offset), rest, &mut dirt, &mut placed);
            (rest, gap) = (left, end);
        }
        let (left, end) = self.fill_gap(&mut leb, (lnum, gap, self.leb_bytes), rest, &mut dirt, &mut placed);
        rest = left;
        let is_written = rest.len() < order.len();
        if is_written || self.space.leb(lnum).free == self.leb_bytes as i32 {
            let (free, dirty) = (Some((self.leb_bytes - end) as i32), Some(dirt as i32));
            self.space.change(lnum, Change { free, dirty, ..Change::default() });
        }
        if is_written {
            self.nodes.forget(lnum);
            for (offset, node) in kept {
                self.nodes.note(lnum, offset, &node);
            }
            for (offset, len) in placed {
                self.nodes.note(lnum, offset, &leb[offset as usize..][..len as usize]);
            }
            self.nodes.change(cx, lnum, &leb[..end as usize])?;
        }
        Ok(rest)
    }

    /// Puts nodes into the gap of a LEB between two offsets, and pads it. Returns the others, and where the gap's contents
    /// end: of the last gap, at a write unit.
    fn fill_gap<'o>(
        &mut self,
        leb: &mut [u8],
        (lnum, start, end): (u32, u32, u32),
        order: &'o [NodeId],
        dirt: &mut u32,
        placed: &mut Vec<(u32, u32)>,
    ) -> (&'o [NodeId], u32) {
        let (mut rest, mut at) = (order, start);
        while let Some((&node, others)) = rest.split_first() {
            let len = self.index.bytes_of(node) as u32;
            if len >= end - at {
                break;
            }
            let next = at + aligned(len);
            let bytes = &mut leb[at as usize..next as usize];
            bytes.fill(0);
            let sqnum = self.next_sqnum();
            self.index.place(node, lnum, at, &mut bytes[..len as usize], sqnum);
            self.index_bytes += u64::from(aligned(len));
            placed.push((at, len));
            (rest, at) = (others, next);
        }
        let whole = if end == self.leb_bytes { at.next_multiple_of(self.min_io) } else { end };
        if whole > at {
            pad(&mut leb[at as usize..whole as usize]);
            *dirt += whole - at;
        }
        (rest, whole)
    }
}
