//! Writing the index: one node after another into empty LEBs, or, where those are too few, into the gaps that obsolete
//! nodes leave in LEBs of the index.
//!
//! Source: Linux 6.12 `fs/ubifs/tnc_commit.c` (behaviour).

use sim::Cx;
use sim::seam::LebVolume;

use super::space::{Change, flags};
use super::{Result, Ubifs, UbifsError};
use crate::ubifs::index::NodeId;
use crate::ubifs::media::{Branch, aligned, pad};
use crate::ubifs::nodes::Stored;
use crate::ubifs::written::Part;

impl<V: LebVolume> Ubifs<V> {
    /// Writes all nodes that changed. Returns the root.
    pub(super) fn write_index(&mut self, cx: &mut Cx) -> Result<Branch> {
        let mut order = std::mem::take(&mut self.order);
        self.index.to_write(&mut order);
        if !order.is_empty() {
            let before = self.index_bytes;
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
            self.nodes.work(cx, order.len() as u64, self.index_bytes.saturating_sub(before));
        }
        self.order = order;
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
        let chunk = self.max_index_node().next_multiple_of(self.min_io);
        let (mut lnum, mut offset) = self.index_head;
        let mut used = 0;
        // What is to be written from `offset` on, and how much of it there is.
        let mut bytes = std::mem::take(&mut self.batch);
        bytes.clear();
        let mut waiting = 0;
        // All at once, so that the processor fetches one while it waits for another.
        let mut nodes = std::mem::take(&mut self.stored);
        nodes.clear();
        nodes.extend(order.iter().map(|&node| self.index.stored(node)));
        for (&node, &stored) in order.iter().zip(&nodes) {
            let whole = aligned(stored.len);
            if offset + waiting + stored.len > self.leb_bytes {
                self.end_index_write(cx, lnum, &mut offset, &mut bytes, waiting)?;
                waiting = 0;
                self.full_index.push(lnum);
                let none = || UbifsError::corrupt(lnum, 0, "there is no empty LEB left for the index");
                lnum = *lebs.get(used).ok_or_else(none)?;
                (used, offset) = (used + 1, 0);
            }
            let sqnum = self.next_sqnum();
            if V::keeps_bytes() {
                let at = bytes.len();
                bytes.resize(at + whole as usize, 0);
                self.index.encode(node, &mut bytes[at..at + stored.len as usize], sqnum);
            }
            self.put_index_node(node, stored, lnum, offset + waiting);
            waiting += whole;
            if waiting >= chunk {
                self.nodes.write_part(cx, Part::Index, (lnum, offset), &bytes, chunk)?;
                offset += chunk;
                waiting -= chunk;
                bytes.drain(..if V::keeps_bytes() { chunk as usize } else { 0 });
            }
        }
        self.end_index_write(cx, lnum, &mut offset, &mut bytes, waiting)?;
        self.index_head = (lnum, offset);
        self.batch = bytes;
        self.stored = nodes;
        Ok(used)
    }

    /// A node of the index is at this place of the flash from now on.
    fn put_index_node(&mut self, node: NodeId, stored: Stored, lnum: u32, offset: u32) {
        self.index.place(node, lnum, offset);
        self.nodes.note(lnum, Stored { offset, ..stored });
        self.index_bytes += u64::from(aligned(stored.len));
    }

    /// Writes what is left, padded to a write unit.
    fn end_index_write(
        &mut self,
        cx: &mut Cx,
        lnum: u32,
        offset: &mut u32,
        bytes: &mut Vec<u8>,
        waiting: u32,
    ) -> Result<()> {
        let end = (*offset + waiting).next_multiple_of(self.min_io) - *offset;
        if end > 0 {
            if V::keeps_bytes() {
                bytes.resize(end as usize, 0);
                pad(&mut bytes[waiting as usize..]);
            }
            self.nodes.write_part(cx, Part::Index, (lnum, *offset), bytes, end)?;
            *offset += end;
        }
        self.space.written(lnum, *offset, end - waiting);
        bytes.clear();
        Ok(())
    }

    /// Writes nodes into gaps of index LEBs until `lebs` empty ones are enough for the others, which are returned.
    fn fill_gaps<'o>(&mut self, cx: &mut Cx, order: &'o [NodeId], lebs: usize) -> Result<&'o [NodeId]> {
        let mut rest = order;
        let mut taken = Vec::new();
        self.old_nodes.sort_unstable();
        while self.lebs_for(rest.len()) > lebs {
            let Some(lnum) = self.take_gap_leb() else { break };
            taken.push(lnum);
            rest = self.fill_leb(cx, rest, lnum)?;
        }
        self.counters.index_nodes_in_gaps += (order.len() - rest.len()) as u64;
        self.full_index = taken;
        Ok(rest)
    }

    /// Releases the LEBs in whose gaps nodes were written, and those that are full. Linux does so once the LPT was laid out: only the
    /// next commit writes it, though nothing else may have changed.
    pub(super) fn release_index(&mut self) {
        let mut full = std::mem::take(&mut self.full_index);
        full.drain(..).for_each(|lnum| self.space.release(lnum));
        self.full_index = full;
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
        let mut found = std::mem::take(&mut self.found);
        self.nodes.scan(cx, lnum, &mut found)?;
        let mut rest = order;
        let (mut gap, mut dirt) = (0, 0);
        // What the LEB holds then, where no bytes are kept.
        let mut kept = Vec::new();
        for node in &found {
            let place = (lnum, node.offset);
            let is_old = self.old_nodes.binary_search(&place).is_ok();
            if !is_old && !self.index.has_node(&mut self.nodes, cx, node, place)? {
                continue;
            }
            let end = aligned(node.offset + node.len);
            if is_old {
                dirt += end - node.offset;
            }
            let (left, _) = self.fill_gap((lnum, gap, node.offset), rest, &mut dirt, &mut kept);
            kept.push(*node);
            (rest, gap) = (left, end);
        }
        let (left, end) = self.fill_gap((lnum, gap, self.leb_bytes), rest, &mut dirt, &mut kept);
        rest = left;
        self.found = found;
        let is_written = rest.len() < order.len();
        if is_written || self.space.leb(lnum).free == self.leb_bytes as i32 {
            let (free, dirty) = (Some((self.leb_bytes - end) as i32), Some(dirt as i32));
            self.space.change(lnum, Change { free, dirty, ..Change::default() });
        }
        if is_written {
            self.nodes.forget(lnum);
            kept.into_iter().for_each(|node| self.nodes.note(lnum, node));
            self.nodes.change_to_scanned(cx, Part::Index, lnum, end)?;
        }
        Ok(rest)
    }

    /// Puts nodes into the gap of a LEB between two offsets, and pads it. Returns the others, and where the gap's contents
    /// end: of the last gap, at a write unit.
    fn fill_gap<'o>(
        &mut self,
        (lnum, start, end): (u32, u32, u32),
        order: &'o [NodeId],
        dirt: &mut u32,
        kept: &mut Vec<Stored>,
    ) -> (&'o [NodeId], u32) {
        let (mut rest, mut at) = (order, start);
        while let Some((&node, others)) = rest.split_first() {
            let stored = Stored { offset: at, ..self.index.stored(node) };
            if stored.len >= end - at {
                break;
            }
            let next = at + aligned(stored.len);
            let sqnum = self.next_sqnum();
            if V::keeps_bytes() {
                let bytes = &mut self.nodes.scanned()[at as usize..next as usize];
                bytes.fill(0);
                self.index.encode(node, &mut bytes[..stored.len as usize], sqnum);
            }
            self.index.place(node, lnum, at);
            self.index_bytes += u64::from(aligned(stored.len));
            kept.push(stored);
            (rest, at) = (others, next);
        }
        let whole = if end == self.leb_bytes { at.next_multiple_of(self.min_io) } else { end };
        if whole > at {
            if V::keeps_bytes() {
                pad(&mut self.nodes.scanned()[at as usize..whole as usize]);
            }
            *dirt += whole - at;
        }
        (rest, whole)
    }
}
