//! What is on flash, in numbers.

use std::collections::BTreeMap;

use sim::Cx;
use sim::seam::Flash;

use super::Jffs2;
use super::blocks::{List, Node, NodeState, Owner};
use super::error::Result;
use super::media::{DirentNode, HEADER_BYTES, Header, InodeNode, Summary, compression, node_type};

/// Eraseblocks by their state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockCounts {
    /// Full, and next to nothing of them is obsolete.
    pub clean: u32,
    /// Some of them is obsolete, or cannot be used.
    pub dirty: u32,
    /// Erased, with a clean marker or where none is needed.
    pub free: u32,
    /// Erased as far as can be seen, without a clean marker: a mount for writing erases them again.
    pub unmarked: u32,
    /// Nothing in them is needed: to be erased.
    pub obsolete: u32,
    /// The one that is written next: 0 or 1.
    pub next: u32,
    /// Bad.
    pub bad: u32,
}

/// Nodes with data that are compressed in one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// Nodes.
    pub nodes: u64,
    /// Bytes on flash.
    pub packed: u64,
    /// Bytes of the files.
    pub unpacked: u64,
}

/// What is on flash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Eraseblocks.
    pub blocks: BlockCounts,
    /// Bytes of nodes that are needed, as far as is known without a look at data.
    pub used_bytes: u64,
    /// Bytes of what is needed no more, or never was.
    pub obsolete_bytes: u64,
    /// Erased bytes.
    pub free_bytes: u64,
    /// Inodes that a name leads to, and the root directory.
    pub inodes: u64,
    /// Names of them.
    pub names: u64,
    /// Nodes that are needed.
    pub nodes: u64,
    /// By the number of the [`compression`](super::media::compression).
    pub compression: BTreeMap<u8, Packed>,
    /// Eraseblocks with a summary that is right.
    pub summaries: u32,
}

impl<F: Flash> Jffs2<F> {
    /// Counts what is on flash. Reads the beginning of each node and the summaries.
    /// Errors: the flash's.
    pub fn statistics(&mut self, cx: &mut Cx) -> Result<Statistics> {
        let count = |list: List| self.blocks.count(list);
        let whole = self.blocks.block_bytes;
        let is_erased = |block: &&super::blocks::Block| block.list == List::ErasePending && block.sizes.free == whole;
        let unmarked = self.blocks.blocks.iter().filter(is_erased).count() as u32;
        let blocks = BlockCounts {
            clean: count(List::Clean),
            dirty: count(List::Dirty) + count(List::VeryDirty) + count(List::Collected) + count(List::BadUsed),
            free: count(List::Free),
            unmarked,
            obsolete: count(List::ErasePending) + count(List::Erasable) + count(List::AwaitsBuffer) - unmarked,
            next: count(List::Next),
            bad: count(List::Bad),
        };
        let totals = self.blocks.totals;
        let mut found = Statistics {
            blocks,
            used_bytes: u64::from(totals.used) + u64::from(totals.unchecked),
            obsolete_bytes: u64::from(totals.dirty) + u64::from(totals.wasted),
            free_bytes: u64::from(totals.free),
            inodes: self.caches.values().filter(|cache| cache.links > 0).count() as u64,
            ..Statistics::default()
        };
        for block in 0..self.blocks.blocks.len() as u32 {
            self.count_nodes(cx, block, &mut found)?;
            found.summaries += u32::from(self.has_summary(cx, block)?);
        }
        Ok(found)
    }

    fn count_nodes(&mut self, cx: &mut Cx, block: u32, found: &mut Statistics) -> Result<()> {
        let endian = self.device.endian();
        for id in self.blocks.at(block).nodes.clone() {
            let Node { offset, len, state, owner, .. } = *self.blocks.node(id);
            if state == NodeState::Obsolete || owner == Owner::None {
                continue;
            }
            found.nodes += 1;
            let mut head = [0; InodeNode::BYTES];
            let bytes = &mut head[..InodeNode::BYTES.min(len as usize)];
            self.device.read(cx, block, offset, bytes)?;
            let header = bytes.get(..HEADER_BYTES).and_then(|bytes| Header::read(endian, bytes).ok());
            match header.map(|header| header.node_type) {
                Some(node_type::INODE) if bytes.len() == InodeNode::BYTES => {
                    let Some(node) = InodeNode::read(endian, bytes).filter(|node| node.covers() > 0) else { continue };
                    let packed = found.compression.entry(node.compression).or_default();
                    packed.nodes += 1;
                    packed.packed += if node.compression == compression::ZERO { 0 } else { u64::from(node.packed) };
                    packed.unpacked += u64::from(node.covers());
                }
                Some(node_type::DIRENT) if bytes.len() >= DirentNode::BYTES => {
                    let is_name = DirentNode::read(endian, bytes).is_some_and(|node| node.ino != 0);
                    found.names += u64::from(is_name);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn has_summary(&mut self, cx: &mut Cx, block: u32) -> Result<bool> {
        let whole = self.blocks.block_bytes;
        let mut tail = [0; Summary::TAIL_BYTES];
        if self.device.is_bad(block) || whole < tail.len() as u32 {
            return Ok(false);
        }
        self.device.read(cx, block, whole - tail.len() as u32, &mut tail)?;
        let Some(offset) = Summary::offset(self.device.endian(), &tail, whole) else { return Ok(false) };
        let mut bytes = vec![0; (whole - offset) as usize];
        self.device.read(cx, block, offset, &mut bytes)?;
        Ok(Summary::read(self.device.endian(), &bytes, offset).is_some())
    }
}
