//! The first part of a mount: which nodes are in which eraseblock, by a look at each of them or by the block's summary.
//! Data of files are not read.
//! Source: Linux 6.12, `fs/jffs2/scan.c`.

use std::collections::BTreeMap;

use sim::Cx;
use sim::seam::Flash;

use super::blocks::{List, NodeState, Owner, is_dirty};
use super::damage::Lost;
use super::device::Marker;
use super::error::{Jffs2Error, Result};
use super::media::{
    Compat, DirentNode, Entry, HEADER_BYTES, Header, InodeNode, PAGE_BYTES, SUMMARY_FRAME, Summary, XattrNode,
    XrefNode, crc, node_type, padded,
};
use super::{Collected, Jffs2};

/// Bytes at the beginning of a block that are all 0xFF where it is erased.
const EMPTY_SCAN: usize = 256;

/// A name that was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct FoundName {
    pub node: u32,
    pub version: u32,
    pub ino: u32,
    pub kind: u8,
}

/// What the look at the flash found, beside the nodes themselves.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The newest entry of each name, by directory.
    pub names: BTreeMap<u32, BTreeMap<Vec<u8>, FoundName>>,
    /// A sum of versions: it rotates the lists, so that wear does not begin at the same block after each mount.
    pub sum: u32,
    /// What a summary of the block would say.
    collected: Collected,
}

/// What an eraseblock is found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Erased, as far as can be seen, but without a clean marker.
    Erased,
    /// Erased, with a clean marker.
    Free,
    /// Full of what is needed.
    Clean,
    /// In use, and some of it obsolete or free.
    Used,
    /// Nothing in it is needed.
    Dirt,
    Bad,
}

impl<F: Flash> Jffs2<F> {
    /// Looks at every block and puts it on its list.
    pub(super) fn scan(&mut self, cx: &mut Cx) -> Result<Found> {
        let mut found = Found::default();
        let mut next: Option<(u32, Collected)> = None;
        let (mut erased, mut bad) = (0, 0);
        let count = self.blocks.blocks.len() as u32;
        for block in 0..count {
            found.collected = Collected::default();
            match self.scan_block(cx, block, &mut found)? {
                State::Erased => {
                    erased += 1;
                    self.blocks.put_first(block, List::ErasePending);
                }
                State::Free if self.blocks.at(block).sizes.dirty == 0 => self.blocks.put_first(block, List::Free),
                State::Free | State::Dirt => self.blocks.put_first(block, List::ErasePending),
                State::Clean => self.blocks.put_first(block, List::Clean),
                State::Bad => {
                    bad += 1;
                    self.blocks.found_bad(block);
                }
                State::Used => {
                    let free = self.blocks.at(block).sizes.free;
                    let is_better = next.as_ref().is_none_or(|&(other, _)| self.blocks.at(other).sizes.free < free);
                    let second = match free > self.least_free() && is_better {
                        true => next.replace((block, std::mem::take(&mut found.collected))).map(|(other, _)| other),
                        false => Some(block),
                    };
                    second.into_iter().for_each(|block| self.file_dirty(block));
                }
            }
        }
        if let Some((block, collected)) = next {
            self.blocks.dirt_to_waste(block);
            if let Some(page) = self.device.page_bytes() {
                let skip = self.blocks.at(block).sizes.free % page;
                self.blocks.add_dirt(block, skip);
            }
            self.blocks.put(block, List::Next);
            self.collected = collected;
        }
        let totals = &self.blocks.totals;
        let is_foreign = totals.used == 0 && totals.unchecked == 0;
        let others = count - self.blocks.count(List::Free) - erased - bad;
        if self.blocks.erasing > 0 && is_foreign && (others > 0 || bad == count) {
            return Err(Jffs2Error::NoNodes { blocks: others });
        }
        Ok(found)
    }

    /// A block with less room than this is not written any further.
    fn least_free(&self) -> u32 {
        let nodes = 2 * InodeNode::BYTES as u32;
        if self.marks_obsolete() { nodes } else { nodes.max(self.device.page_bytes().unwrap_or(0)) }
    }

    fn file_dirty(&mut self, block: u32) {
        self.blocks.waste_to_dirt(block);
        let is_very = self.blocks.at(block).sizes.dirty >= self.blocks.block_bytes / 2;
        self.blocks.put_first(block, if is_very { List::VeryDirty } else { List::Dirty });
    }

    fn scan_block(&mut self, cx: &mut Cx, block: u32, found: &mut Found) -> Result<State> {
        if self.device.is_bad(block) {
            return Ok(State::Bad);
        }
        let marker = self.device.marker();
        let has_oob_marker = marker == Marker::InOob && self.device.has_oob_marker(cx, block)?;
        if let Some(state) = self.scan_summary(cx, block, found)? {
            return Ok(state);
        }
        let whole = self.blocks.block_bytes as usize;
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.resize(whole, 0);
        let head = self.looked_at().min(whole);
        self.device.read(cx, block, 0, &mut bytes[..head])?;
        let erased = bytes[..head].chunks(4).take_while(|word| word.iter().all(|&byte| byte == 0xff)).count() * 4;
        let state = if erased >= head {
            match (marker, has_oob_marker) {
                (Marker::InOob, _) if !self.device.has_empty_oob(cx, block, has_oob_marker)? => Ok(State::Dirt),
                (Marker::InOob, false) | (Marker::InBlock, _) => Ok(State::Erased),
                (Marker::InOob, true) | (Marker::None, _) => Ok(State::Free),
            }
        } else if self.is_only_marker(&bytes[..head]) {
            self.blocks.add(block, HEADER_BYTES as u32, NodeState::Normal, Owner::None);
            Ok(State::Free)
        } else {
            self.device.read(cx, block, head as u32, &mut bytes[head..])?;
            self.blocks.add_dirt(block, erased as u32);
            self.scan_nodes(cx, block, &bytes, erased, found).map(|()| self.classify(block))
        };
        self.scratch = bytes;
        state
    }

    /// Bytes at the beginning of a block by which it is taken for erased. Where the clean marker is in the OOB of the first
    /// page, all of that page: its first bytes are erased before its OOB when the erasure is interrupted, and Linux, which
    /// looks at 256, would take the block for erased.
    fn looked_at(&self) -> usize {
        let page = self.device.page_bytes().filter(|_| self.device.marker() == Marker::InOob).unwrap_or(0);
        EMPTY_SCAN.max(page as usize)
    }

    /// Whether a block begins with a clean marker and nothing after it.
    fn is_only_marker(&self, head: &[u8]) -> bool {
        let endian = self.device.endian();
        let is_marker =
            |header: Header| header.node_type == node_type::CLEAN_MARKER && header.len == HEADER_BYTES as u32;
        self.device.marker() == Marker::InBlock
            && Header::read(endian, head).is_ok_and(is_marker)
            && head[HEADER_BYTES..EMPTY_SCAN / 8].iter().all(|&byte| byte == 0xff)
    }

    /// The nodes of a block by its summary, if it has one that is right.
    fn scan_summary(&mut self, cx: &mut Cx, block: u32, found: &mut Found) -> Result<Option<State>> {
        let whole = self.blocks.block_bytes;
        if !self.options.summary || whole < SUMMARY_FRAME {
            return Ok(None);
        }
        let endian = self.device.endian();
        let tail = self.device.page_bytes().unwrap_or(Summary::TAIL_BYTES as u32).min(whole);
        let mut bytes = vec![0; tail as usize];
        self.device.read(cx, block, whole - tail, &mut bytes)?;
        let Some(offset) = Summary::offset(endian, &bytes, whole) else { return Ok(None) };
        let mut bytes = vec![0; (whole - offset) as usize];
        self.device.read(cx, block, offset, &mut bytes)?;
        self.spend(cx, 1, bytes.len() as u64);
        let Some(summary) = Summary::read(endian, &bytes, offset) else { return Ok(None) };
        if self.options.verify_summary && !self.options.known_bad.trust_summary {
            let first = summary.entries.first();
            if let Some((at, node_type, len)) = first.map(Entry::header)
                && !self.is_at(cx, (block, at), Header { node_type, len })?
            {
                self.stale_summaries.push(block);
                return Ok(None);
            }
        }
        if summary.clean_marker > 0 {
            match summary.clean_marker == self.device.marker_bytes() {
                true => drop(self.blocks.add(block, summary.clean_marker, NodeState::Normal, Owner::None)),
                false => self.blocks.add_dirt(block, padded(summary.clean_marker)),
            }
        }
        for entry in summary.entries {
            let (at, len) = entry.place();
            let begin = whole - self.blocks.at(block).sizes.free;
            self.blocks.add_dirt(block, at - begin);
            let len = padded(len);
            match entry {
                Entry::Inode { ino, version, .. } => {
                    let id = self.blocks.add(block, len, NodeState::Unchecked, Owner::Inode(ino));
                    self.found_node(ino, id, version);
                    found.sum = found.sum.wrapping_add(version);
                }
                Entry::Dirent { dir, version, ino, kind, name, .. } => {
                    let id = self.blocks.add(block, len, NodeState::Unchecked, Owner::Inode(dir));
                    self.found_node(dir, id, version);
                    found.sum = found.sum.wrapping_add(version);
                    self.found_name(found, (dir, &name), FoundName { node: id, version, ino, kind });
                }
                Entry::Xattr { xid, version, .. } => {
                    let id = self.blocks.add(block, len, NodeState::Unchecked, Owner::Xattr(xid));
                    self.xattrs.add_datum(xid, version, id);
                    found.sum = found.sum.wrapping_add(xid);
                }
                Entry::Xref { .. } => {
                    // The summary does not say of what.
                    let mut node = [0; XrefNode::BYTES];
                    self.device.read(cx, block, at, &mut node)?;
                    let header = Header::read(endian, &node).ok();
                    let is_one = header.is_some_and(|header| header.node_type == node_type::XREF);
                    match XrefNode::read(endian, &node).filter(|_| is_one) {
                        Some(node) => {
                            let owner = Owner::Xref(node.ino, node.xid);
                            let id = self.blocks.add(block, len, NodeState::Pristine, owner);
                            self.found_ref(&node, id);
                        }
                        None => self.blocks.add_dirt(block, len),
                    }
                    found.sum = found.sum.wrapping_add(block * whole + at);
                }
            }
        }
        let begin = whole - self.blocks.at(block).sizes.free;
        self.blocks.add_dirt(block, offset - begin);
        self.blocks.add(block, whole - offset, NodeState::Normal, Owner::None);
        Ok(Some(self.classify(block)))
    }

    /// Whether a node is there, by its header.
    fn is_at(&mut self, cx: &mut Cx, (block, offset): (u32, u32), expected: Header) -> Result<bool> {
        let mut head = [0; HEADER_BYTES];
        self.device.read(cx, block, offset, &mut head)?;
        let same = |found: Header| (found.node_type, found.len) == (expected.node_type, expected.len);
        Ok(Header::read(self.device.endian(), &head).is_ok_and(same))
    }

    /// The nodes of a block by a look at each, from an offset on.
    fn scan_nodes(&mut self, cx: &mut Cx, block: u32, bytes: &[u8], from: usize, found: &mut Found) -> Result<()> {
        let endian = self.device.endian();
        let mut at = from;
        while at < bytes.len() {
            let Some(head) = bytes.get(at..at + HEADER_BYTES) else {
                self.blocks.add_dirt(block, (bytes.len() - at) as u32);
                break;
            };
            if head[..4] == [0xff; 4] {
                let erased = bytes[at..].chunks(4).take_while(|word| word.iter().all(|&byte| byte == 0xff)).count() * 4;
                if at + erased >= bytes.len() {
                    break;
                }
                self.blocks.add_dirt(block, erased as u32);
                at += erased;
                continue;
            }
            let header = match Header::read(endian, head) {
                Ok(header) if header.len as usize >= HEADER_BYTES && header.padded() as usize <= bytes.len() - at => {
                    header
                }
                _ => {
                    self.damages.add_word(block, at as u32, &head[..4]);
                    self.blocks.add_dirt(block, 4);
                    at += 4;
                    continue;
                }
            };
            self.spend(cx, 1, HEADER_BYTES as u64);
            let node = &bytes[at..at + header.len as usize];
            self.scan_node(cx, (block, at as u32), header, node, found)?;
            at += header.padded() as usize;
        }
        let room = self.blocks.at(block).sizes.free;
        found.collected.is_disabled |= padded(found.collected.bytes + SUMMARY_FRAME) > room;
        self.blocks.waste_to_dirt(block);
        Ok(())
    }

    fn scan_node(
        &mut self,
        cx: &mut Cx,
        (block, offset): (u32, u32),
        header: Header,
        node: &[u8],
        found: &mut Found,
    ) -> Result<()> {
        let endian = self.device.endian();
        let len = header.padded();
        if !header.is_accurate() {
            self.blocks.add_dirt(block, len);
            return Ok(());
        }
        let collected = &mut found.collected;
        let mut collect = |entry: Entry| {
            collected.bytes += entry.bytes();
            collected.entries.push(entry);
        };
        match header.node_type {
            node_type::INODE => {
                self.spend(cx, 0, InodeNode::BYTES as u64);
                match node.get(..InodeNode::BYTES).and_then(|head| InodeNode::read(endian, head)) {
                    Some(inode) => {
                        collect(Entry::inode(&inode, offset, header.len));
                        let id = self.blocks.add(block, len, NodeState::Unchecked, Owner::Inode(inode.ino));
                        self.found_node(inode.ino, id, inode.version);
                        found.sum = found.sum.wrapping_add(inode.version);
                    }
                    None => self.damaged(block, header, node),
                }
            }
            node_type::DIRENT => {
                self.spend(cx, 0, node.len() as u64);
                let dirent = node.get(..DirentNode::BYTES).and_then(|head| DirentNode::read(endian, head));
                let name = dirent.and_then(|dirent| {
                    let name = node.get(DirentNode::BYTES..DirentNode::BYTES + usize::from(dirent.name_len))?;
                    // A name ends before a zero byte.
                    let name = name.split(|&byte| byte == 0).next()?;
                    (crc(name) == dirent.name_crc).then_some((dirent, name))
                });
                match name {
                    Some((dirent, name)) => {
                        collect(Entry::dirent(&dirent, name, offset));
                        let DirentNode { dir, version, ino, kind, .. } = dirent;
                        let state = if ino == 0 { NodeState::Normal } else { NodeState::Pristine };
                        let id = self.blocks.add(block, len, state, Owner::Inode(dir));
                        self.found_node(dir, id, version);
                        found.sum = found.sum.wrapping_add(version);
                        self.found_name(found, (dir, name), FoundName { node: id, version, ino, kind });
                    }
                    None => self.damaged(block, header, node),
                }
            }
            node_type::XATTR => {
                self.spend(cx, 0, XattrNode::BYTES as u64);
                let xattr = node.get(..XattrNode::BYTES).and_then(|head| XattrNode::read(endian, head));
                let is_whole = |node: &XattrNode| padded((XattrNode::BYTES + node.data_len()) as u32) == header.len;
                match xattr.filter(is_whole) {
                    Some(xattr) => {
                        collect(Entry::xattr(&xattr, offset, header.len));
                        let id = self.blocks.add(block, len, NodeState::Pristine, Owner::Xattr(xattr.xid));
                        self.xattrs.add_datum(xattr.xid, xattr.version, id);
                    }
                    None => self.damaged(block, header, node),
                }
            }
            node_type::XREF => {
                self.spend(cx, 0, XrefNode::BYTES as u64);
                let is_whole = header.len as usize == XrefNode::BYTES;
                match node.get(..XrefNode::BYTES).filter(|_| is_whole).and_then(|node| XrefNode::read(endian, node)) {
                    Some(xref) => {
                        collect(Entry::Xref { offset });
                        let id = self.blocks.add(block, len, NodeState::Pristine, Owner::Xref(xref.ino, xref.xid));
                        self.found_ref(&xref, id);
                    }
                    None => self.damaged(block, header, node),
                }
            }
            node_type::CLEAN_MARKER => {
                let is_first = self.blocks.at(block).nodes.is_empty();
                if is_first && header.len == self.device.marker_bytes() {
                    self.blocks.add(block, len, NodeState::Normal, Owner::None);
                } else {
                    self.blocks.add_dirt(block, len);
                }
            }
            node_type::PADDING => {
                collected.padding += header.len;
                self.blocks.add_dirt(block, len);
            }
            other => match Compat::of(other) {
                Compat::Delete => self.blocks.add_dirt(block, len),
                Compat::Copy => {
                    self.blocks.add(block, len, NodeState::Pristine, Owner::None);
                    found.collected.is_disabled = true;
                }
                Compat::ReadOnly if self.options.read_only => self.blocks.add_dirt(block, len),
                Compat::ReadOnly => {
                    let may = "may only be read";
                    return Err(Jffs2Error::Feature { block, offset, node_type: other, may });
                }
                Compat::Incompatible => {
                    let may = "may not be mounted";
                    return Err(Jffs2Error::Feature { block, offset, node_type: other, may });
                }
            },
        }
        Ok(())
    }

    fn found_node(&mut self, ino: u32, id: u32, version: u32) {
        let cache = self.cache(ino);
        cache.nodes.push(id);
        cache.version = cache.version.max(version);
    }

    /// The number of an inode that is gone is not used again while something on flash says that it has an attribute. Linux
    /// does use it, and the new inode has the attribute then.
    fn found_ref(&mut self, node: &XrefNode, id: u32) {
        self.highest_ino = self.highest_ino.max(node.ino);
        self.xattrs.add_ref(node, id);
    }

    fn damaged(&mut self, block: u32, header: Header, node: &[u8]) {
        self.counters.damaged += 1;
        let (offset, len) = (self.blocks.block_bytes - self.blocks.at(block).sizes.free, header.padded());
        self.damages.add_node((block, offset, len), None, Lost::Node(header.node_type), node);
        self.blocks.add_dirt(block, len);
    }

    /// Of two entries of one name the newer stays.
    fn found_name(&mut self, found: &mut Found, (dir, name): (u32, &[u8]), new: FoundName) {
        let names = found.names.entry(dir).or_default();
        let loser = match names.get_mut(name) {
            Some(old) if new.version < old.version => Some(new.node),
            Some(old) => Some(std::mem::replace(old, new).node),
            None => {
                names.insert(name.to_vec(), new);
                None
            }
        };
        loser.into_iter().for_each(|node| self.obsolete_in_mount(node));
    }

    fn classify(&self, block: u32) -> State {
        let block = self.blocks.at(block);
        let (sizes, marker) = (&block.sizes, self.device.marker_bytes());
        let needed = sizes.used + sizes.unchecked;
        if needed == marker && sizes.dirty == 0 && block.nodes.len() <= 1 {
            State::Free
        } else if !is_dirty(self.blocks.block_bytes - needed) {
            State::Clean
        } else if needed > 0 {
            State::Used
        } else {
            State::Dirt
        }
    }
}

const _: () = assert!(PAGE_BYTES as usize > EMPTY_SCAN);
