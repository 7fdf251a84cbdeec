//! Inodes in memory: those that are in use, and those that are to be written.

use std::collections::{BTreeMap, VecDeque};

use sim::seam::LebVolume;
use sim::{Cx, Ns};

use super::budget::Request;
use super::{Result, Ubifs, UbifsError};
use crate::ubifs::media::{Compression, Group, InodeNode, ItemType, Key, NodeType, inode_flags};

/// Inodes that stay in memory though nobody uses them: of each some 200 bytes.
const MOST: usize = 64 << 10;
const PAGE: usize = 1024;
const NONE: u32 = u32::MAX;

/// An inode in memory.
#[derive(Clone, Debug)]
pub(super) struct Inode {
    pub ino: u32,
    pub creat_sqnum: u64,
    pub size: u64,
    /// Size in the newest node.
    pub synced_size: u64,
    pub atime: (u64, u32),
    pub ctime: (u64, u32),
    pub mtime: (u64, u32),
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    pub mode: u32,
    pub item: ItemType,
    pub flags: u32,
    pub xattr_cnt: u32,
    pub xattr_size: u32,
    pub xattr_names: u32,
    pub compression: Compression,
    pub data: Vec<u8>,
    /// How often it is open.
    pub opens: u32,
    /// Commit during which its last link went.
    pub orphaned_in: u64,
    /// Since when it is to be written.
    pub dirty_since: Option<Ns>,
    /// Its size changed, which `fdatasync` writes.
    pub size_is_dirty: bool,
}

impl Inode {
    pub fn is_dir(&self) -> bool {
        self.item == ItemType::Dir
    }

    /// Whether changes are written at once.
    pub fn is_sync(&self) -> bool {
        self.flags & (inode_flags::SYNC | inode_flags::XATTR) != 0
    }

    /// Whether changes of the directory are written at once.
    pub fn is_dir_sync(&self) -> bool {
        self.flags & (inode_flags::SYNC | inode_flags::DIR_SYNC) != 0
    }

    /// Encodes its node, but for the checksum; one without a link comes without its data.
    pub fn encode(&self, node: &mut [u8], group: Group, sqnum: u64) {
        let data = if self.nlink == 0 { &[] } else { &self.data[..] };
        InodeNode {
            key: Key::inode(self.ino),
            creat_sqnum: self.creat_sqnum,
            size: self.size,
            atime: self.atime,
            ctime: self.ctime,
            mtime: self.mtime,
            nlink: self.nlink,
            uid: self.uid,
            gid: self.gid,
            mode: self.mode,
            flags: self.flags,
            xattr_cnt: self.xattr_cnt,
            xattr_size: self.xattr_size,
            xattr_names: self.xattr_names,
            compression: self.compression,
            data,
        }
        .encode_without_crc(node, group, sqnum);
        InodeNode::set_data_len(node, self.data.len());
    }

    fn decode(ino: u32, node: &InodeNode<'_>, item: ItemType) -> Inode {
        Inode {
            ino,
            creat_sqnum: node.creat_sqnum,
            size: node.size,
            synced_size: node.size,
            atime: node.atime,
            ctime: node.ctime,
            mtime: node.mtime,
            nlink: node.nlink,
            uid: node.uid,
            gid: node.gid,
            mode: node.mode,
            item,
            flags: node.flags,
            xattr_cnt: node.xattr_cnt,
            xattr_size: node.xattr_size,
            xattr_names: node.xattr_names,
            compression: node.compression,
            data: node.data.to_vec(),
            opens: 0,
            orphaned_in: 0,
            dirty_since: None,
            size_is_dirty: false,
        }
    }

    /// What is promised while it is dirty.
    pub(super) fn budget(&self) -> Request {
        Request { changed_inodes: 1, changed_inline: self.data.len() as u32, ..Request::default() }
    }
}

/// Inodes by number, in pages, and where they are.
#[derive(Clone, Debug, Default)]
pub(super) struct Inodes {
    pages: Vec<Option<Box<[u32; PAGE]>>>,
    slots: Vec<Option<Inode>>,
    unused: Vec<u32>,
    /// Dirty ones and since when, the longest first; some are clean again.
    dirty: VecDeque<(u32, Ns)>,
    dirty_count: usize,
    /// Inodes that became dirty, for a cache above that has them written; none without one.
    dirtied: Option<VecDeque<u32>>,
    /// The directory above each directory that was looked up or made. They stay when the inode leaves memory, as names in
    /// Linux's cache keep those above them.
    above: BTreeMap<u32, u32>,
}

impl Inodes {
    /// The directory above a directory, if it is known.
    pub fn above(&self, ino: u32) -> Option<u32> {
        self.above.get(&ino).copied()
    }

    /// Number of directories of which it is known.
    pub fn known_above(&self) -> usize {
        self.above.len()
    }

    /// An inode has a name in a directory.
    pub fn set_above(&mut self, slot: u32, dir: u32) {
        let inode = self.at(slot);
        if inode.is_dir() {
            self.above.insert(inode.ino, dir);
        }
    }

    /// A directory is no more.
    pub fn forget_above(&mut self, ino: u32) {
        self.above.remove(&ino);
    }

    pub fn at(&self, slot: u32) -> &Inode {
        self.slots[slot as usize].as_ref().expect("the slot is in use")
    }

    pub fn at_mut(&mut self, slot: u32) -> &mut Inode {
        self.slots[slot as usize].as_mut().expect("the slot is in use")
    }

    pub fn find(&self, ino: u32) -> Option<u32> {
        let page = self.pages.get(ino as usize / PAGE)?.as_ref()?;
        Some(page[ino as usize % PAGE]).filter(|&slot| slot != NONE)
    }

    pub fn insert(&mut self, inode: Inode) -> u32 {
        let (page, at) = (inode.ino as usize / PAGE, inode.ino as usize % PAGE);
        let slot = self.unused.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[slot as usize] = Some(inode);
        if self.pages.len() <= page {
            self.pages.resize(page + 1, None);
        }
        self.pages[page].get_or_insert_with(|| Box::new([NONE; PAGE]))[at] = slot;
        slot
    }

    /// Drops an inode from memory. It must be clean.
    pub fn forget(&mut self, slot: u32) {
        let Some(inode) = self.slots[slot as usize].take() else { return };
        debug_assert!(inode.dirty_since.is_none(), "inode {} is dirty", inode.ino);
        let page = &mut self.pages[inode.ino as usize / PAGE];
        if let Some(slots) = page {
            slots[inode.ino as usize % PAGE] = NONE;
            if slots.iter().all(|&slot| slot == NONE) {
                *page = None;
            }
        }
        self.unused.push(slot);
    }

    /// Entries of the list of those that are dirty, void ones too.
    #[cfg(test)]
    pub fn listed(&self) -> usize {
        self.dirty.len()
    }

    /// Drops entries of inodes that were written, if they are most.
    fn prune(&mut self) {
        if self.dirty.len() > 2 * self.dirty_count + 64 {
            let mut dirty = std::mem::take(&mut self.dirty);
            dirty.retain(|&entry| self.is_dirty_since(entry));
            self.dirty = dirty;
        }
    }

    /// Whether an entry still stands for its inode.
    fn is_dirty_since(&self, (slot, since): (u32, Ns)) -> bool {
        self.slots[slot as usize].as_ref().and_then(|inode| inode.dirty_since) == Some(since)
    }

    /// Whether dirty inodes are not written until somebody else says so.
    pub fn is_watched(&self) -> bool {
        self.dirtied.is_some()
    }

    pub fn next_dirtied(&mut self) -> Option<u32> {
        self.dirtied.get_or_insert_default().pop_front()
    }

    pub fn has_dirty(&self) -> bool {
        self.dirty_count > 0
    }

    /// Drops what nobody uses, if there is much of it.
    fn shrink(&mut self) {
        if self.slots.len() - self.unused.len() <= MOST {
            return;
        }
        for slot in 0..self.slots.len() {
            let is_idle = |inode: &Inode| inode.dirty_since.is_none() && inode.opens == 0;
            if self.slots[slot].as_ref().is_some_and(is_idle) {
                self.forget(slot as u32);
            }
        }
    }
}

impl<V: LebVolume> Ubifs<V> {
    /// What is between two operations: memory is bounded.
    pub(super) fn bound_memory(&mut self) {
        const MOST_INDEX_NODES: usize = 128 << 10;
        self.inodes.shrink();
        if self.index.loaded() > MOST_INDEX_NODES + 2 * self.index.dirty_nodes() {
            self.index.shrink();
        }
    }

    /// An inode, read if it is not in memory.
    /// Errors: there is none; it is damaged; the medium's.
    pub(super) fn load(&mut self, cx: &mut Cx, ino: u32) -> Result<u32> {
        if let Some(slot) = self.inodes.find(ino) {
            return Ok(slot);
        }
        let found = self.index.find(&mut self.nodes, cx, Key::inode(ino))?;
        let (_, branch) = found.ok_or(UbifsError::NoInode { ino })?;
        let node = self.nodes.node(cx, &branch, NodeType::Inode)?;
        let error = |error| UbifsError::node(branch.lnum, branch.offset, "inode node", error);
        let node = InodeNode::decode(node).map_err(error)?;
        if node.key != branch.key {
            let what = format!("inode node of {:?}, expected {:?}", node.key, branch.key);
            return Err(UbifsError::corrupt(branch.lnum, branch.offset, what));
        }
        let Some(item) = ItemType::of_mode(node.mode) else {
            let what = format!("inode {ino} with mode {:#o}, which has no type", node.mode);
            return Err(UbifsError::corrupt(branch.lnum, branch.offset, what));
        };
        let inode = Inode::decode(ino, &node, item);
        Ok(self.inodes.insert(inode))
    }

    /// The inode is to be written. Its space is promised.
    /// Errors: there is no space.
    pub(super) fn dirty(&mut self, cx: &mut Cx, slot: u32) -> Result<()> {
        if self.inodes.at(slot).dirty_since.is_some() {
            return Ok(());
        }
        let request = self.inodes.at(slot).budget();
        self.reserve_budget(cx, &request)?;
        self.mark_dirty(cx, slot);
        Ok(())
    }

    /// The inode is dirty, for which space was promised.
    pub(super) fn mark_dirty(&mut self, cx: &Cx, slot: u32) {
        let inode = self.inodes.at_mut(slot);
        inode.dirty_since = Some(cx.now());
        self.inodes.dirty.push_back((slot, cx.now()));
        self.inodes.dirty_count += 1;
        self.inodes.prune();
        let ino = self.inodes.at(slot).ino;
        if let Some(dirtied) = &mut self.inodes.dirtied {
            dirtied.push_back(ino);
        }
        if self.inodes.dirty_count == 1 {
            let interval = self.options.writeback_interval.0.max(1);
            self.next_writeback = self.next_writeback.max(Ns((cx.now().0 / interval + 1) * interval));
        }
    }

    /// The inode was written, or is gone.
    pub(super) fn clean(&mut self, slot: u32) {
        let inode = self.inodes.at_mut(slot);
        inode.size_is_dirty = false;
        if inode.dirty_since.take().is_some() {
            let request = inode.budget();
            self.inodes.dirty_count -= 1;
            self.release_budget(&request);
        }
    }

    /// Writes dirty inodes: all, or those that became dirty at `before` at the latest.
    pub(super) fn write_inodes(&mut self, cx: &mut Cx, before: Option<Ns>) -> Result<()> {
        let mut count = self.inodes.dirty.len();
        while count > 0
            && let Some((slot, since)) = self.inodes.dirty.pop_front()
        {
            count -= 1;
            if !self.inodes.is_dirty_since((slot, since)) {
                continue;
            }
            if before.is_some_and(|before| since > before) {
                self.inodes.dirty.push_front((slot, since));
                break;
            }
            if let Err(error) = self.write_dirty_inode(cx, slot) {
                self.inodes.dirty.push_front((slot, since));
                return Err(error);
            }
        }
        Ok(())
    }
}
