//! The journal: nodes of an operation, written together to a journal head.
//!
//! Source: Linux 6.12 `fs/ubifs/journal.c` (behaviour).

use sim::seam::LebVolume;
use sim::{Cause, Cx, Ns};

use super::collect::Collected;
use super::inodes::Inode;
use super::{Due, Result, Ubifs, UbifsError};
use crate::ubifs::media::{Branch, DentNode, Group, InodeNode, ItemType, Key, aligned, pad, put_crc};
use crate::ubifs::nodes::{BASE_HEAD, DATA_HEAD, GC_HEAD, NO_LEB, Stored};

/// How often a commit is run before an operation fails for lack of space.
const MOST_COMMITS: u32 = 8;

/// Whether a journal head has room.
enum Room {
    Ready,
    CommitFirst,
    Nothing,
}

/// Where nodes were appended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Appended {
    pub lnum: u32,
    pub offset: u32,
}

impl Appended {
    /// The branch of a node `at` bytes behind the first, and `len` long.
    pub fn branch(&self, key: Key, at: usize, len: usize) -> Branch {
        Branch { key, lnum: self.lnum, offset: self.offset + at as u32, len: len as u32 }
    }
}

impl<V: LebVolume> Ubifs<V> {
    /// Makes room for `len` bytes at a journal head: in its LEB, or in another, for which garbage may have to be collected
    /// and a commit run.
    /// Errors: there is no space; the medium's.
    pub(super) fn reserve(&mut self, cx: &mut Cx, head: usize, len: usize) -> Result<()> {
        let mut failed = 0;
        let mut commits = 0;
        loop {
            match self.try_reserve(cx, head, len as u32)? {
                Room::Ready => return Ok(()),
                Room::CommitFirst if commits < 16 * MOST_COMMITS => commits += 1,
                Room::Nothing if failed < MOST_COMMITS => failed += 1,
                _ => return Err(UbifsError::NoSpace),
            }
            self.run_commit(cx)?;
        }
    }

    fn has_room(&self, head: usize, len: u32) -> bool {
        let head = self.nodes.head(head);
        head.lnum != NO_LEB && self.leb_bytes - head.end() >= aligned(len)
    }

    fn try_reserve(&mut self, cx: &mut Cx, head: usize, len: u32) -> Result<Room> {
        if self.has_room(head, len) {
            return Ok(Room::Ready);
        }
        let mut tries = 0;
        let (lnum, offset) = loop {
            let collected = self.collected_index.len() as i32;
            let least = self.budget.min_index_lebs;
            if let Some(found) = self.space.take_free(aligned(len), least, collected, head == BASE_HEAD) {
                if found.1 == 0 {
                    self.nodes.unmap(cx, found.0)?;
                }
                break found;
            }
            match cx.because(Cause::Gc, |cx| self.collect_garbage(cx, false))? {
                Collected::CommitFirst => return Ok(Room::CommitFirst),
                Collected::Nothing if tries == 2 => return Ok(Room::Nothing),
                Collected::Nothing => tries += 1,
                Collected::Leb(lnum) => break (lnum, 0),
            }
        };
        self.flush_head(cx, head)?;
        if !cx.because(Cause::Journal, |cx| self.add_bud(cx, head, lnum, offset))? {
            self.space.release(lnum);
            return Ok(Room::CommitFirst);
        }
        self.nodes.seek(head, lnum, offset);
        Ok(Room::Ready)
    }

    /// Begins a group of nodes.
    pub(super) fn begin(&mut self) {
        self.batch.clear();
    }

    /// Room for a node of `len` bytes in the group; returns where it begins.
    pub(super) fn place(&mut self, len: usize) -> usize {
        let at = self.batch.len().next_multiple_of(8);
        self.batch.resize(at + len, 0);
        at
    }

    /// Adds an entry to the group. Inode number 0 removes it.
    pub(super) fn put_entry(&mut self, key: Key, ino: u32, item: ItemType, name: &[u8], group: Group) -> usize {
        let sqnum = self.next_sqnum();
        let at = self.place(DentNode::bytes_of(name.len()));
        // With double hashes the cookie is random; nothing but NFS looks at it.
        let is_double = self.sb.flags & crate::ubifs::media::sb_flags::DOUBLE_HASH != 0;
        let cookie = if is_double { (sqnum as u32).wrapping_mul(0x9e37_79b1) } else { 0 };
        let node = DentNode { key, ino: ino.into(), item, cookie, name };
        node.encode_without_crc(&mut self.batch[at..], group, sqnum);
        self.sum(at);
        at
    }

    /// Adds an inode to the group; one without a link comes without its data. Returns where, and its bytes.
    pub(super) fn put_inode(&mut self, slot: u32, group: Group) -> (usize, usize) {
        let sqnum = self.next_sqnum();
        let inode = self.inodes.at(slot);
        let len = inode.node_bytes();
        let at = self.batch.len().next_multiple_of(8);
        self.batch.resize(at + len, 0);
        inode.encode(&mut self.batch[at..], group, sqnum);
        self.sum(at);
        (at, len)
    }

    /// Puts its checksum into the last node of the group, which begins `at`; nobody looks at it where no bytes are kept.
    fn sum(&mut self, at: usize) {
        if V::keeps_bytes() {
            put_crc(&mut self.batch[at..]);
        }
    }

    /// Writes the group to a journal head with room for it; `inos` are those that it is about.
    pub(super) fn append(&mut self, cx: &mut Cx, head: usize, inos: &[u32], is_sync: bool) -> Result<Appended> {
        let used = self.batch.len();
        self.batch.resize(used.next_multiple_of(8), 0);
        pad(&mut self.batch[used..]);
        let (lnum, offset) = (self.nodes.head(head).lnum, self.nodes.head(head).end());
        let cause = match head {
            GC_HEAD => Cause::Gc,
            BASE_HEAD => Cause::Journal,
            _ => cx.cause(),
        };
        cx.because(cause, |cx| self.nodes.append(cx, head, &self.batch))?;
        self.space.written(lnum, self.nodes.head(head).end(), 0);
        if is_sync {
            cx.because(Cause::Flush, |cx| self.flush_head(cx, head))?;
        } else if self.nodes.head(head).used() > 0 {
            let due = Ns(cx.now().0 + self.options.writeback_interval.0);
            let buffer = self.nodes.head_mut(head);
            buffer.due = (head != GC_HEAD).then_some(due);
            for &ino in inos {
                if !buffer.inos.contains(&ino) {
                    buffer.inos.push(ino);
                }
            }
        }
        Ok(Appended { lnum, offset })
    }

    /// Writes a node of the LEB that was scanned last to the collector's head, which has room for it.
    pub(super) fn append_moved(&mut self, cx: &mut Cx, node: &Stored) -> Result<Appended> {
        if V::keeps_bytes() {
            self.begin();
            let bytes = &self.nodes.scanned()[node.offset as usize..][..node.len as usize];
            self.batch.extend_from_slice(bytes);
            return self.append(cx, GC_HEAD, &[], false);
        }
        let to = Appended { lnum: self.nodes.head(GC_HEAD).lnum, offset: self.nodes.head(GC_HEAD).end() };
        cx.because(Cause::Gc, |cx| self.nodes.append_copy(cx, GC_HEAD, *node))?;
        self.space.written(to.lnum, self.nodes.head(GC_HEAD).end(), 0);
        Ok(to)
    }

    /// Writes an inode that is dirty. One without a link is not written: it goes when it is closed.
    /// Errors: there is no space; the medium's.
    pub(super) fn write_dirty_inode(&mut self, cx: &mut Cx, slot: u32) -> Result<()> {
        let inode = self.inodes.at(slot);
        let (ino, nlink) = (inode.ino, inode.nlink);
        if nlink == 0 {
            self.clean(slot);
            return Ok(());
        }
        let (len, is_sync) = (inode.node_bytes(), inode.is_sync());
        self.reserve(cx, BASE_HEAD, len)?;
        self.begin();
        let (at, len) = self.put_inode(slot, Group::Last);
        let place = self.append(cx, BASE_HEAD, &[ino], is_sync)?;
        self.index.put(&mut self.nodes, cx, place.branch(Key::inode(ino), at, len))?;
        self.settle();
        self.inode_was_written(slot);
        Ok(())
    }

    /// Deletes an inode without a link, together with its extended attributes.
    /// Errors: there is no space; the medium's.
    pub(super) fn write_deletion(&mut self, cx: &mut Cx, slot: u32) -> Result<()> {
        self.inodes.at_mut(slot).size = 0;
        let ino = self.inodes.at(slot).ino;
        let mut values = Vec::new();
        if self.inodes.at(slot).xattr_cnt > 0 {
            for entry in self.xattr_entries(cx, ino)? {
                values.push(self.load(cx, entry.ino)?);
            }
        }
        self.reserve(cx, BASE_HEAD, (values.len() + 1) * InodeNode::BYTES)?;
        self.begin();
        for &value in &values {
            self.inodes.at_mut(value).nlink = 0;
            self.put_inode(value, Group::In);
        }
        self.put_inode(slot, Group::Last);
        let bytes = self.batch.len() as u32;
        let place = self.append(cx, BASE_HEAD, &[ino], false)?;
        self.index.remove_inode(&mut self.nodes, cx, ino, false, |_| {})?;
        self.settle();
        self.space.add_dirt(place.lnum, bytes);
        for value in values {
            self.inodes.forget(value);
        }
        self.orphans.remove(ino);
        self.inode_was_written(slot);
        Ok(())
    }

    /// The inode is on flash as it is in memory, or in a write buffer.
    pub(super) fn inode_was_written(&mut self, slot: u32) {
        let inode = self.inodes.at_mut(slot);
        inode.synced_size = inode.size;
        self.clean(slot);
    }

    /// Writes a data node, whose data are in the batch after the header.
    pub(super) fn append_data(&mut self, cx: &mut Cx, ino: u32) -> Result<Appended> {
        self.append(cx, DATA_HEAD, &[ino], false)
    }

    /// Whether a commit is asked for; one that the background was to do is required then.
    pub(super) fn commit_is_required(&mut self) -> bool {
        if self.due == Due::Background {
            self.due = Due::Required;
        }
        self.due == Due::Required
    }
}

impl Inode {
    /// Bytes of its node.
    pub fn node_bytes(&self) -> usize {
        InodeNode::BYTES + if self.nlink == 0 { 0 } else { self.data.len() }
    }
}
