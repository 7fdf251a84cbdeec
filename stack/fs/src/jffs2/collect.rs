//! Garbage collection: moves the nodes of a block that are needed, one a pass, until the block can be erased.
//! Source: Linux 6.12, `fs/jffs2/gc.c`.

use sim::seam::{FileType, Flash, FsError};
use sim::{Cause, Cx, PassKind};

use super::blocks::{List, Node, NodeState, Owner, is_dirty};
use super::error::{Jffs2Error, Result};
use super::inode::Fragment;
use super::media::{
    DirentNode, Entry, HEADER_BYTES, Header, InodeNode, MIN_DATA, PAGE_BYTES, XattrNode, compression, crc, node_type,
};
use super::space::Wanted;
use super::{Counters, Jffs2};

/// How a pass ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    /// Something was done.
    Done,
    /// There is nothing to collect, but blocks are being erased.
    Again,
    /// There is nothing to collect, or it does not help.
    NoSpace,
}

/// Which block garbage is collected from next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Victim {
    /// Of 128 ticks of the clock 50 take an erasable block, 60 a very dirty one, 16 a dirty one and 2 a clean one: that is all
    /// the levelling of wear that JFFS2 has. Source: Linux 6.12, `jffs2_find_gc_block`.
    #[default]
    Linux,
    /// Of 100 ticks 99 take the block that has been dirty longest, however little of it is, and one a clean one. Source: D.
    /// Woodhouse, "JFFS: The Journalling Flash File System" (2001).
    Paper,
}

impl Victim {
    /// The lists at a tick, in the order in which they are looked for a block.
    fn lists(self, tick: u64) -> &'static [List] {
        use List::{Clean, Dirty, Erasable, VeryDirty};
        match (self, tick % 128, tick % 100) {
            (Victim::Linux, 0..50, _) => &[Erasable, VeryDirty, Dirty, Clean],
            (Victim::Linux, 50..110, _) => &[VeryDirty, Dirty, Clean, Erasable],
            (Victim::Linux, 110..126, _) => &[Dirty, Clean, VeryDirty, Erasable],
            (Victim::Paper, _, 1..) => &[Erasable, VeryDirty, Dirty, Clean],
            (Victim::Linux | Victim::Paper, ..) => &[Clean, Dirty, VeryDirty, Erasable],
        }
    }
}

impl<F: Flash> Jffs2<F> {
    /// What the thread does when it wakes: checks an inode after a mount, erases a block, or moves a node. Linux waits for
    /// 50 ms between two. Returns whether something was done.
    /// Errors: the flash's.
    pub fn collect(&mut self, cx: &mut Cx) -> Result<bool> {
        self.may_write()?;
        self.collect_pass(cx).map(|pass| pass == Pass::Done)
    }

    /// One pass.
    pub(super) fn collect_pass(&mut self, cx: &mut Cx) -> Result<Pass> {
        cx.because(Cause::Gc, |cx| self.pass(cx))
    }

    fn pass(&mut self, cx: &mut Cx) -> Result<Pass> {
        self.counters.passes += 1;
        let begun = cx.begin_pass();
        while self.blocks.totals.unchecked > 0 {
            let ino = self.to_check.last().copied().unwrap_or_default();
            if self.check_one(cx)? {
                cx.end_pass(begun, PassKind::Check, ino, (0, 0));
                return Ok(Pass::Done);
            }
            // What is still unchecked is of inodes that have no name.
            if !self.drop_orphans(cx)? {
                return Ok(Pass::NoSpace);
            }
        }
        let pending = self.blocks.first(List::ErasePending);
        if self.erase_one(cx)? {
            cx.end_pass(begun, PassKind::Erase, pending.unwrap_or_default(), (0, 0));
            return Ok(Pass::Done);
        }
        let Some(block) = self.victim(cx)? else {
            return Ok(if self.blocks.erasing > 0 { Pass::Again } else { Pass::NoSpace });
        };
        let Counters { moved, moved_bytes, .. } = self.counters;
        if self.blocks.at(block).sizes.used > 0 {
            self.move_next(cx, block)?;
        }
        if self.blocks.first(List::Collected) == Some(block) && self.blocks.at(block).sizes.used == 0 {
            self.blocks.put(block, List::ErasePending);
        }
        let wrote = (self.counters.moved - moved, self.counters.moved_bytes - moved_bytes);
        cx.end_pass(begun, PassKind::Move, block, wrote);
        Ok(Pass::Done)
    }

    /// Nodes that no check reached. False: there are none.
    fn drop_orphans(&mut self, cx: &mut Cx) -> Result<bool> {
        let nodes: Vec<u32> = self.caches.values().flat_map(|cache| cache.nodes.iter().copied()).collect();
        let unchecked: Vec<u32> =
            nodes.into_iter().filter(|&id| self.blocks.node(id).state == NodeState::Unchecked).collect();
        let is_some = !unchecked.is_empty();
        for id in unchecked {
            self.obsolete(cx, id)?;
        }
        Ok(is_some)
    }

    /// The block that is collected: the one under way, or one that the tick of the clock chooses.
    fn victim(&mut self, cx: &mut Cx) -> Result<Option<u32>> {
        if let Some(block) = self.blocks.first(List::Collected) {
            return Ok(Some(block));
        }
        let lists = self.options.victim.lists(self.draw(cx));
        let block = loop {
            if let (1.., Some(block)) = (self.blocks.count(List::Free), self.blocks.first(List::BadUsed)) {
                break block;
            }
            let first = |&list: &List| match (self.options.victim, list) {
                (Victim::Paper, List::VeryDirty | List::Dirty) => self.blocks.longest_dirty(),
                _ => self.blocks.first(list),
            };
            if let Some(block) = lists.iter().find_map(first) {
                break block;
            }
            if self.blocks.first(List::AwaitsBuffer).is_none() {
                return Ok(None);
            }
            self.flush(cx)?;
            if self.blocks.first(List::ErasePending).is_some() {
                return Ok(None);
            }
        };
        self.blocks.put(block, List::Collected);
        self.blocks.waste_to_dirt(block);
        self.blocks.blocks[block as usize].next_node = 0;
        Ok(Some(block))
    }

    /// What decides which block is next: the tick, as in Linux. Where time stands still, since nothing has a price, each choice
    /// counts as a tick, so that no list is chosen for ever.
    fn draw(&mut self, cx: &Cx) -> u64 {
        let tick = self.tick(cx);
        let (last, repeated) = self.last_draw;
        self.last_draw = (tick, if last == tick { repeated + 1 } else { 0 });
        tick + self.last_draw.1
    }

    /// Moves the next node of a block that is needed.
    fn move_next(&mut self, cx: &mut Cx, block: u32) -> Result<()> {
        let at = &self.blocks.blocks[block as usize];
        let next =
            (at.next_node..at.nodes.len()).find(|&next| self.blocks.node(at.nodes[next]).state != NodeState::Obsolete);
        let next = next.expect("bytes in use are of nodes that are not obsolete");
        let id = at.nodes[next];
        self.blocks.blocks[block as usize].next_node = next;
        let Node { owner, state, .. } = *self.blocks.node(id);
        match owner {
            Owner::None if state == NodeState::Pristine => match self.copy(cx, id)? {
                true => Ok(()),
                // Nobody can say any more what was to be kept.
                false => self.obsolete(cx, id),
            },
            Owner::None => self.obsolete(cx, id),
            Owner::Xattr(xid) => self.move_datum(cx, xid, id),
            Owner::Xref(ino, xid) => self.move_ref(cx, (ino, xid), id),
            Owner::Inode(ino) => {
                if !self.inodes.has(ino) && state == NodeState::Pristine && self.copy(cx, id)? {
                    return Ok(());
                }
                self.move_live(cx, ino, id)
            }
        }
    }

    /// Moves a node of an inode by what the inode is now.
    fn move_live(&mut self, cx: &mut Cx, ino: u32, id: u32) -> Result<()> {
        match self.load(cx, ino) {
            Ok(_) => {}
            Err(error @ Jffs2Error::Flash(_)) => return Err(error),
            // Nothing can be read of it, so nothing of it can be kept.
            Err(_) => return self.obsolete(cx, id),
        }
        if self.blocks.node(id).state == NodeState::Obsolete {
            return Ok(());
        }
        let state = self.blocks.node(id).state;
        let inode = self.inode(ino);
        if inode.metadata == Some(id) {
            return self.move_metadata(cx, ino, id);
        }
        if let Some((from, to)) = inode.range_of(id) {
            if state == NodeState::Pristine && self.copy(cx, id)? {
                return Ok(());
            }
            return match from / PAGE_BYTES < (to - 1) / PAGE_BYTES {
                true => self.move_hole(cx, ino, id, (from, to)),
                false => self.move_data(cx, ino, (from, to)),
            };
        }
        let name = inode.names.iter().find(|(_, name)| name.node == id).map(|(bytes, name)| (bytes.clone(), *name));
        match name {
            Some((bytes, name)) if name.ino == 0 && !self.still_hides(cx, ino, id, &bytes)? => {
                self.inode(ino).names.remove(&bytes);
                self.obsolete(cx, id)
            }
            Some((bytes, name)) => self.move_name_node(cx, ino, &bytes, (name.ino, name.kind)),
            None => self.obsolete(cx, id),
        }
    }

    /// Copies a node as it is. False: it does not fit where nodes are written, or is damaged, so it must be written anew.
    fn copy(&mut self, cx: &mut Cx, id: u32) -> Result<bool> {
        let Node { len, owner, .. } = *self.blocks.node(id);
        let least = match owner {
            Owner::None => len,
            _ => len.min(InodeNode::BYTES as u32 + MIN_DATA),
        };
        // An upper bound of its bytes in a summary.
        let room = self.reserve_for_collection(cx, Wanted { bytes: least, in_summary: len })?;
        if room < len {
            return Ok(false);
        }
        let mut bytes = std::mem::take(&mut self.node);
        bytes.resize(len as usize, 0);
        let copied = self.copy_by(cx, id, &mut bytes);
        self.node = bytes;
        copied
    }

    /// As [`copy`](Self::copy), by way of `bytes`, which are as long as the node.
    fn copy_by(&mut self, cx: &mut Cx, id: u32, bytes: &mut [u8]) -> Result<bool> {
        let endian = self.device.endian();
        let Node { block, offset, len, owner, .. } = *self.blocks.node(id);
        self.device.read(cx, block, offset, bytes)?;
        self.spend(cx, 1, u64::from(len));
        let Some(header) = bytes.get(..HEADER_BYTES).and_then(|head| Header::read(endian, head).ok()) else {
            return Ok(false);
        };
        let body = |at: usize, len: usize| bytes.get(at..at + len);
        let entry = match header.node_type {
            node_type::INODE => {
                let node = body(0, InodeNode::BYTES).and_then(|head| InodeNode::read(endian, head));
                let is_whole = |node: &InodeNode| {
                    node.unpacked == 0
                        || body(InodeNode::BYTES, node.packed as usize).is_some_and(|data| crc(data) == node.data_crc)
                };
                match node.filter(is_whole) {
                    Some(node) => Some(Entry::inode(&node, 0, header.len)),
                    None => return Ok(false),
                }
            }
            node_type::DIRENT => {
                let node = body(0, DirentNode::BYTES).and_then(|head| DirentNode::read(endian, head));
                let name = node.and_then(|node| body(DirentNode::BYTES, node.name_len.into()).map(|name| (node, name)));
                match name.filter(|(node, name)| crc(name) == node.name_crc && !name.contains(&0)) {
                    Some((node, name)) => Some(Entry::dirent(&node, name, 0)),
                    None => return Ok(false),
                }
            }
            _ if owner == Owner::None => None,
            _ => return Ok(false),
        };
        let copy =
            self.put_node(cx, bytes, (NodeState::Pristine, owner), |offset| entry.map(|one| one.at(offset)), None)?;
        self.counters.copied += 1;
        self.counters.copied_bytes += u64::from(len);
        if let Owner::Inode(ino) = owner {
            self.moved(ino, id, copy);
        }
        self.obsolete(cx, id)?;
        Ok(true)
    }

    /// A node of an inode is elsewhere now.
    fn moved(&mut self, ino: u32, old: u32, new: u32) {
        let Some(inode) = self.inodes.get_mut(ino) else { return };
        if inode.metadata == Some(old) {
            inode.metadata = Some(new);
        }
        if let Some(node) = inode.nodes.remove(&old) {
            inode.nodes.insert(new, node);
            for (_, part) in inode.fragments.range_mut(node.offset..node.offset.saturating_add(node.len)) {
                if part.node == Some(old) {
                    part.node = Some(new);
                }
            }
        }
        for name in inode.names.values_mut().filter(|name| name.node == old) {
            name.node = new;
        }
    }

    /// Writes the node with an inode's attributes anew.
    fn move_metadata(&mut self, cx: &mut Cx, ino: u32, id: u32) -> Result<()> {
        let data = match self.inode(ino).file_type {
            FileType::BlockDevice | FileType::CharDevice | FileType::Symlink => self.inode(ino).data.clone(),
            _ => Vec::new(),
        };
        self.reserve_for_collection(cx, Wanted::inode(InodeNode::BYTES + data.len()))?;
        let inode = self.inode(ino);
        inode.version += 1;
        let size = if inode.fragments.is_empty() { inode.size } else { inode.end() };
        let len = data.len() as u32;
        let node = InodeNode { version: inode.version, size, packed: len, unpacked: len, ..inode.describe() };
        let new = self.put_inode(cx, &node, &data, true)?;
        self.counters.rewritten += 1;
        self.inode(ino).metadata = Some(new);
        self.obsolete(cx, id)
    }

    /// Writes an entry of a directory anew.
    fn move_name_node(&mut self, cx: &mut Cx, dir: u32, name: &[u8], (ino, kind): (u32, u8)) -> Result<()> {
        self.reserve_for_collection(cx, Wanted::dirent(name))?;
        let inode = self.inode(dir);
        inode.version += 1;
        let version = inode.version;
        // Times that were set differ, and are in the inode's own node.
        let time = if inode.mtime == inode.ctime { inode.mtime } else { 0 };
        let node = DirentNode { dir, version, ino, time, kind, ..DirentNode::default() };
        let id = self.put_dirent(cx, &node, name, true)?;
        self.counters.rewritten += 1;
        if let Some(old) = self.inode(dir).put_name(name, id, version, ino, kind) {
            self.obsolete(cx, old)?;
        }
        Ok(())
    }

    /// Whether a node that removes a name is still needed: an older entry of the name is on flash elsewhere.
    fn still_hides(&mut self, cx: &mut Cx, dir: u32, id: u32, name: &[u8]) -> Result<bool> {
        if self.marks_obsolete() {
            return Ok(false);
        }
        let Node { block, len, .. } = *self.blocks.node(id);
        let nodes = self.caches.get(dir).map(|cache| cache.nodes.clone()).unwrap_or_default();
        for other in nodes {
            let Node { block: there, offset, len: other_len, state, .. } = *self.blocks.node(other);
            if state != NodeState::Obsolete || other_len != len || there == block {
                continue;
            }
            let mut bytes = vec![0; DirentNode::BYTES + name.len()];
            self.device.read(cx, there, offset, &mut bytes)?;
            self.spend(cx, 1, bytes.len() as u64);
            let endian = self.device.endian();
            let is_dirent = Header::read(endian, &bytes).is_ok_and(|header| header.node_type == node_type::DIRENT);
            let node = DirentNode::read(endian, &bytes).filter(|_| is_dirent);
            // A longer name that begins so may take as many words.
            let is_name = |node: DirentNode| node.ino != 0 && usize::from(node.name_len) == name.len();
            if node.is_some_and(is_name) && bytes[DirentNode::BYTES..] == *name {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Writes a hole anew that goes over several pages.
    fn move_hole(&mut self, cx: &mut Cx, ino: u32, id: u32, (from, to): (u32, u32)) -> Result<()> {
        self.reserve_for_collection(cx, Wanted::inode(InodeNode::BYTES))?;
        let Node { block, offset, .. } = *self.blocks.node(id);
        let endian = self.device.endian();
        let fragments = self.inode(ino).nodes[&id].fragments;
        let mut head = [0; InodeNode::BYTES];
        self.device.read(cx, block, offset, &mut head)?;
        // What newer nodes have of it stays theirs: it is written with the version that it had.
        let partial =
            InodeNode::read(endian, &head).filter(|node| fragments > 1 && node.compression == compression::ZERO);
        let inode = self.inode(ino);
        let size = inode.end();
        let node = match partial {
            Some(old) => {
                InodeNode { version: old.version, offset: old.offset, unpacked: old.covers(), ..inode.describe() }
            }
            None => {
                inode.version += 1;
                InodeNode { version: inode.version, offset: from, unpacked: to - from, ..inode.describe() }
            }
        };
        let node = InodeNode { size, compression: compression::ZERO, ..node };
        let new = self.put_inode(cx, &node, &[], true)?;
        self.counters.rewritten += 1;
        if partial.is_none() {
            return self.insert_data(cx, ino, new, &node);
        }
        if self.blocks.node(new).state == NodeState::Pristine {
            self.blocks.set(new, NodeState::Normal);
        }
        self.moved(ino, id, new);
        self.obsolete(cx, id)
    }

    /// Writes the data of a page anew that a node has, with what is beside them in the page if there is room.
    fn move_data(&mut self, cx: &mut Cx, ino: u32, (from, to): (u32, u32)) -> Result<()> {
        let merges = self.blocks.count(List::Free) + self.blocks.erasing > self.levels.merge;
        let (from, end) = if merges { self.widened(ino, (from, to)) } else { (from, to) };
        let mut page = vec![0; (end - from) as usize];
        match self.read_range(cx, ino, from, &mut page) {
            Ok(()) => {}
            Err(error @ Jffs2Error::Flash(_)) => return Err(error),
            Err(_) => return Err(FsError::NoSpace.into()),
        }
        let mut at = from;
        while at < to {
            let room = self.reserve_for_collection(cx, Wanted::inode(InodeNode::BYTES + MIN_DATA as usize))?;
            let packed = self.pack(cx, &page[(at - from) as usize..], room - InodeNode::BYTES as u32);
            let inode = self.inode(ino);
            inode.version += 1;
            let node = InodeNode {
                version: inode.version,
                offset: at,
                packed: packed.bytes.len() as u32,
                unpacked: packed.unpacked,
                compression: packed.compression,
                ..inode.describe()
            };
            let id = self.put_inode(cx, &node, &packed.bytes, true)?;
            self.counters.rewritten += 1;
            self.insert_data(cx, ino, id, &node)?;
            at += packed.unpacked;
        }
        Ok(())
    }

    /// A range within a page with the fragments beside it, but for one at the page's edge in a block that is clean.
    fn widened(&mut self, ino: u32, (mut from, mut to): (u32, u32)) -> (u32, u32) {
        let first = from / PAGE_BYTES * PAGE_BYTES;
        let last = first.saturating_add(PAGE_BYTES);
        let inode = &self.inodes[ino];
        let joins = |part: Fragment| {
            let Some(id) = part.node else { return false };
            let block = self.blocks.at(self.blocks.node(id).block);
            block.list == List::Collected || is_dirty(block.sizes.dirty + block.sizes.wasted)
        };
        for (&at, &part) in inode.fragments.range(first..from).rev() {
            if at > first || joins(part) {
                from = at;
            }
        }
        for (&at, &part) in inode.fragments.range(to..last) {
            let end = at + part.len;
            if end < last || (end == last && joins(part)) {
                to = end;
            } else {
                break;
            }
        }
        (from, to)
    }

    /// Moves the node of an extended attribute.
    fn move_datum(&mut self, cx: &mut Cx, xid: u32, id: u32) -> Result<()> {
        if !self.xattrs.is_current_datum(xid, id) || !self.load_datum(cx, xid)? {
            return self.obsolete(cx, id);
        }
        let bytes = XattrNode::BYTES + self.xattrs.content_len(xid);
        self.reserve_for_collection(cx, Wanted::xattr(bytes))?;
        self.save_datum(cx, xid, true)?;
        self.counters.rewritten += 1;
        self.obsolete(cx, id)
    }

    /// Moves the node that says that an inode has an attribute, or no longer has it.
    fn move_ref(&mut self, cx: &mut Cx, key: (u32, u32), id: u32) -> Result<()> {
        if !self.xattrs.needs_ref(key, id) {
            return self.obsolete(cx, id);
        }
        self.reserve_for_collection(cx, Wanted::xref())?;
        self.save_ref(cx, key, true)?;
        self.counters.rewritten += 1;
        self.obsolete(cx, id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shares that Linux and the paper give, and where each looks if its list is empty.
    #[test]
    fn blocks_are_chosen_as_often_as_linux_and_the_paper_say() {
        let share =
            |victim: Victim, ticks: u64, list: List| (0..ticks).filter(|&tick| victim.lists(tick)[0] == list).count();
        let linux =
            [List::Erasable, List::VeryDirty, List::Dirty, List::Clean].map(|list| share(Victim::Linux, 128, list));
        assert_eq!(linux, [50, 60, 16, 2]);
        assert_eq!(share(Victim::Paper, 100, List::Clean), 1);
        for victim in [Victim::Linux, Victim::Paper] {
            for tick in 0..12_800 {
                let mut lists: Vec<List> = victim.lists(tick).to_vec();
                lists.sort_unstable();
                assert_eq!(lists, [List::Clean, List::VeryDirty, List::Dirty, List::Erasable], "{victim:?} at {tick}");
            }
        }
        // `n < 50` with no erasable block goes on to very dirty ones, `n >= 126` without a clean one to dirty ones.
        assert_eq!((Victim::Linux.lists(0)[1], Victim::Linux.lists(127)[1]), (List::VeryDirty, List::Dirty));
    }
}
