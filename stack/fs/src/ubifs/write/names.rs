//! Directories: names come, go and move.
//!
//! Each operation writes its entries and inodes as one group to the journal. Space is promised and room made first, so that
//! nothing in memory changes if there is none.

use std::collections::BTreeSet;

use sim::Cx;
use sim::seam::{DeviceNumber, FsError, Ino, LebVolume, NewInode, RenameFlags};

use super::budget::Request;
use super::inodes::Inode;
use super::journal::Appended;
use super::{Result, Ubifs, UbifsError};
use crate::ubifs::media::{
    Compression, DentNode, Device, Group, InodeNode, ItemType, Key, KeyType, MAX_NAME, ROOT_INO, aligned, inode_flags,
};
use crate::ubifs::nodes::BASE_HEAD;
use crate::ubifs::read::{DirEntry, read_entry};

/// Set-group-ID.
const SET_GROUP_ID: u32 = 0o2000;
/// Inode numbers end here.
const LAST_INO: u32 = 0xffff_ff00;
/// Longest target of a symbolic link.
const MAX_TARGET: usize = 4095;

type FsResult<T> = std::result::Result<T, FsError>;

/// Bytes that an entry counts for in its directory.
pub(super) fn entry_bytes(name: &[u8]) -> u64 {
    aligned(DentNode::bytes_of(name.len()) as u32).into()
}

/// What a new inode is made of.
pub(super) struct Making {
    pub item: ItemType,
    pub data: Vec<u8>,
    pub size: u64,
}

fn whole(sizes: &[usize]) -> usize {
    sizes.iter().map(|&size| size.next_multiple_of(8)).sum()
}

impl<V: LebVolume> Ubifs<V> {
    pub(super) fn entry_key(&self, dir: u32, name: &[u8]) -> Key {
        Key::dent(dir, self.sb.key_hash.of(name))
    }

    /// An inode that the caller names.
    pub(super) fn get(&mut self, cx: &mut Cx, ino: Ino) -> FsResult<u32> {
        let number = u32::try_from(ino.0).map_err(|_| FsError::Stale { ino })?;
        let slot = self.load(cx, number)?;
        let inode = self.inodes.at(slot);
        if inode.nlink == 0 && inode.opens == 0 || inode.flags & inode_flags::XATTR != 0 {
            return Err(FsError::Stale { ino });
        }
        Ok(slot)
    }

    fn get_dir(&mut self, cx: &mut Cx, dir: Ino) -> FsResult<u32> {
        let slot = self.get(cx, dir)?;
        if self.inodes.at(slot).is_dir() { Ok(slot) } else { Err(FsError::NotDir { ino: dir }) }
    }

    /// Directory and the entry of a name in it, if there is one.
    pub(super) fn find_entry(&mut self, cx: &mut Cx, dir: Ino, name: &[u8]) -> FsResult<(u32, Option<DirEntry>)> {
        let slot = self.get_dir(cx, dir)?;
        if name.len() > MAX_NAME {
            return Err(FsError::NameTooLong { bytes: name.len() });
        }
        let key = self.entry_key(self.inodes.at(slot).ino, name);
        let found = self.index.find_named(&mut self.nodes, cx, key, name, false)?;
        let entry = found.map(|(_, branch)| read_entry(&mut self.nodes, cx, &branch)).transpose()?;
        Ok((slot, entry))
    }

    /// Directory, entry and inode of a name.
    fn existing(&mut self, cx: &mut Cx, dir: Ino, name: &[u8]) -> FsResult<(u32, u32)> {
        let (slot, entry) = self.find_entry(cx, dir, name)?;
        let entry = entry.ok_or(FsError::NoEntry { dir })?;
        let inode = self.load(cx, entry.ino)?;
        self.inodes.set_above(inode, self.inodes.at(slot).ino);
        Ok((slot, inode))
    }

    /// A directory in which the name is free.
    fn free_name(&mut self, cx: &mut Cx, dir: Ino, name: &[u8]) -> FsResult<u32> {
        match self.find_entry(cx, dir, name)? {
            (_, Some(_)) => Err(FsError::Exists { ino: dir }),
            (slot, None) if self.inodes.at(slot).nlink == 0 => Err(FsError::NoEntry { dir }),
            (slot, None) => Ok(slot),
        }
    }

    pub(super) fn is_empty_dir(&mut self, cx: &mut Cx, slot: u32) -> Result<bool> {
        let ino = self.inodes.at(slot).ino;
        let first = self.index.lower_bound(&mut self.nodes, cx, Key::dent(ino, 0))?;
        Ok(first.is_none_or(|(_, branch)| branch.key.ino() != ino || branch.key.key_type() != Some(KeyType::Dent)))
    }

    /// A new inode in a directory, or for an attribute, which is in no index yet.
    pub(super) fn new_inode(&mut self, cx: &Cx, parent: u32, new: NewInode, making: Making) -> Result<Inode> {
        let now = self.now(cx);
        if self.highest_ino >= LAST_INO {
            return Err(UbifsError::NoSpace);
        }
        self.highest_ino += 1;
        let creat_sqnum = self.next_sqnum();
        let compression = if making.item == ItemType::File { self.compression() } else { Compression::None };
        let parent = self.inodes.at(parent);
        let is_dir = making.item == ItemType::Dir;
        let inherits_group = parent.is_dir() && parent.mode & SET_GROUP_ID != 0;
        let mut inherited = inode_flags::COMPRESSED | inode_flags::SYNC;
        if is_dir {
            inherited |= inode_flags::DIR_SYNC;
        }
        let flags = if parent.is_dir() { parent.flags & inherited } else { 0 };
        let mode = new.mode & 0o7777 | if is_dir && inherits_group { SET_GROUP_ID } else { 0 };
        Ok(Inode {
            ino: self.highest_ino,
            creat_sqnum,
            size: making.size,
            synced_size: 0,
            atime: now,
            ctime: now,
            mtime: now,
            nlink: if is_dir { 2 } else { 1 },
            uid: new.uid,
            gid: if inherits_group { parent.gid } else { new.gid },
            mode: making.item.mode() | mode,
            item: making.item,
            flags,
            xattr_cnt: 0,
            xattr_size: 0,
            xattr_names: 0,
            compression,
            data: making.data,
            opens: 0,
            orphaned_in: 0,
            dirty_since: None,
            size_is_dirty: false,
        })
    }

    /// The directory's entries changed.
    fn touch(&mut self, cx: &Cx, dir: u32, grows: u64, shrinks: u64) {
        let now = self.now(cx);
        let dir = self.inodes.at_mut(dir);
        dir.size = (dir.size + grows).saturating_sub(shrinks);
        (dir.mtime, dir.ctime) = (now, now);
    }

    /// Promises space, runs `work`, and takes the promise back. A deletion goes on without.
    fn within(
        &mut self,
        cx: &mut Cx,
        request: &Request,
        is_deletion: bool,
        work: impl FnOnce(&mut Self, &mut Cx) -> Result<()>,
    ) -> Result<()> {
        match self.reserve_budget(cx, request) {
            Ok(()) => {
                let done = work(self, cx);
                self.release_budget(request);
                done
            }
            Err(UbifsError::NoSpace) if is_deletion => {
                let done = work(self, cx);
                self.space_was_made();
                done
            }
            Err(error) => Err(error),
        }
    }

    /// Makes an inode under a new name. Returns where it is in memory.
    pub(super) fn make(&mut self, cx: &mut Cx, dir: Ino, name: &[u8], new: NewInode, making: Making) -> FsResult<u32> {
        let dir_slot = self.free_name(cx, dir, name)?;
        if making.item == ItemType::Symlink && making.data.is_empty() {
            return Err(FsError::NoEntry { dir });
        }
        let request = Request {
            new_inode: true,
            new_inline: making.data.len() as u32,
            new_entry: true,
            changed_inodes: 1,
            ..Request::default()
        };
        let mut made = 0;
        self.change(|fs| {
            fs.within(cx, &request, false, |fs, cx| {
                let dir_bytes = fs.inodes.at(dir_slot).node_bytes();
                let inode_bytes = InodeNode::BYTES + making.data.len();
                let is_dir = making.item == ItemType::Dir;
                let inode = fs.new_inode(cx, dir_slot, new, making)?;
                fs.reserve(cx, BASE_HEAD, whole(&[DentNode::bytes_of(name.len()), inode_bytes, dir_bytes]))?;
                made = fs.inodes.insert(inode);
                fs.touch(cx, dir_slot, entry_bytes(name), 0);
                if is_dir {
                    fs.inodes.at_mut(dir_slot).nlink += 1;
                }
                let key = fs.entry_key(fs.inodes.at(dir_slot).ino, name);
                fs.update(cx, key, name, made, dir_slot, false)
            })
        })?;
        self.inodes.set_above(made, self.inodes.at(dir_slot).ino);
        Ok(made)
    }

    /// Writes an entry, its inode and the directory, all of which are as they shall be, and for which there is room.
    pub(super) fn update(
        &mut self,
        cx: &mut Cx,
        key: Key,
        name: &[u8],
        slot: u32,
        dir_slot: u32,
        is_deletion: bool,
    ) -> Result<()> {
        let (inode, dir) = (self.inodes.at(slot), self.inodes.at(dir_slot));
        let (ino, item, nlink, dir_ino) = (inode.ino, inode.item, inode.nlink, dir.ino);
        let is_last = is_deletion && nlink == 0;
        let is_sync = dir.is_dir_sync() || !is_last && inode.is_sync();
        self.begin();
        let named = if is_deletion { 0 } else { ino };
        let entry_at = self.put_entry(key, named, item, name, Group::In);
        let (inode_at, inode_len) = self.put_inode(slot, Group::In);
        let (dir_at, dir_len) = self.put_inode(dir_slot, Group::Last);
        if is_last {
            self.orphan(slot);
        }
        let place = self.append(cx, BASE_HEAD, &[ino, dir_ino], is_sync)?;
        self.index_entry(cx, &place, key, name, entry_at, is_deletion)?;
        let branch = place.branch(Key::inode(ino), inode_at, inode_len);
        self.index.put(&mut self.nodes, cx, branch)?;
        let branch = place.branch(Key::inode(dir_ino), dir_at, dir_len);
        self.index.put(&mut self.nodes, cx, branch)?;
        self.settle();
        self.inode_was_written(slot);
        self.inode_was_written(dir_slot);
        Ok(())
    }

    /// The inode has no link any more.
    fn orphan(&mut self, slot: u32) {
        let ino = self.inodes.at(slot).ino;
        self.orphans.add(ino);
        self.inodes.at_mut(slot).orphaned_in = self.commit;
    }

    /// Points the index to an entry of the journal, or lets it forget the name.
    fn index_entry(
        &mut self,
        cx: &mut Cx,
        place: &Appended,
        key: Key,
        name: &[u8],
        at: usize,
        is_deletion: bool,
    ) -> Result<()> {
        let len = DentNode::bytes_of(name.len());
        if is_deletion {
            self.index.remove_named(&mut self.nodes, cx, key, name, false)?;
            self.space.add_dirt(place.lnum, len as u32);
        } else {
            self.index.put_named(&mut self.nodes, cx, place.branch(key, at, len), name, false)?;
        }
        Ok(())
    }

    pub(super) fn make_node(
        &mut self,
        cx: &mut Cx,
        dir: Ino,
        name: &[u8],
        new: NewInode,
        item: ItemType,
        device: DeviceNumber,
    ) -> FsResult<u32> {
        let data = match item {
            ItemType::BlockDevice | ItemType::CharDevice => {
                Device { major: device.major, minor: device.minor }.encode()
            }
            _ => Vec::new(),
        };
        // A device is as long as its number, a directory as its inode.
        let size = if item == ItemType::Dir { InodeNode::BYTES as u64 } else { data.len() as u64 };
        self.make(cx, dir, name, new, Making { item, data, size })
    }

    pub(super) fn make_symlink(
        &mut self,
        cx: &mut Cx,
        dir: Ino,
        name: &[u8],
        target: &[u8],
        new: NewInode,
    ) -> FsResult<u32> {
        if target.is_empty() {
            return Err(FsError::NoEntry { dir });
        }
        if target.len() > MAX_TARGET {
            return Err(FsError::NameTooLong { bytes: target.len() });
        }
        let making = Making { item: ItemType::Symlink, data: target.to_vec(), size: target.len() as u64 };
        self.make(cx, dir, name, NewInode { mode: 0o777, ..new }, making)
    }

    pub(super) fn add_link(&mut self, cx: &mut Cx, ino: Ino, dir: Ino, name: &[u8]) -> FsResult<u32> {
        let slot = self.get(cx, ino)?;
        let dir_slot = self.free_name(cx, dir, name)?;
        let inode = self.inodes.at(slot);
        if inode.is_dir() {
            return Err(FsError::NotPermitted { ino });
        }
        if inode.nlink == 0 {
            return Err(FsError::NoEntry { dir });
        }
        if inode.nlink == u32::MAX {
            return Err(FsError::TooManyLinks { ino });
        }
        let changed_inline = inode.data.len() as u32;
        let request = Request { new_entry: true, changed_inodes: 2, changed_inline, ..Request::default() };
        self.change(|fs| {
            fs.within(cx, &request, false, |fs, cx| {
                let sizes = [slot, dir_slot].map(|slot| fs.inodes.at(slot).node_bytes());
                fs.reserve(cx, BASE_HEAD, whole(&[DentNode::bytes_of(name.len()), sizes[0], sizes[1]]))?;
                let now = fs.now(cx);
                let inode = fs.inodes.at_mut(slot);
                (inode.nlink, inode.ctime) = (inode.nlink + 1, now);
                fs.touch(cx, dir_slot, entry_bytes(name), 0);
                let key = fs.entry_key(fs.inodes.at(dir_slot).ino, name);
                fs.update(cx, key, name, slot, dir_slot, false)
            })
        })?;
        Ok(slot)
    }

    /// Removes a name; with `dir_wanted` of an empty directory, else of anything else.
    pub(super) fn remove_name(&mut self, cx: &mut Cx, dir: Ino, name: &[u8], dir_wanted: bool) -> FsResult<()> {
        let (dir_slot, slot) = self.existing(cx, dir, name)?;
        let (ino, is_dir) = (Ino(self.inodes.at(slot).ino.into()), self.inodes.at(slot).is_dir());
        match (dir_wanted, is_dir) {
            (true, false) => return Err(FsError::NotDir { ino }),
            (false, true) => return Err(FsError::IsDir { ino }),
            (true, true) if !self.is_empty_dir(cx, slot)? => return Err(FsError::NotEmpty { dir: ino }),
            _ => {}
        }
        let request = Request { changed_entry: true, changed_inodes: 2, ..Request::default() };
        self.change(|fs| {
            fs.within(cx, &request, true, |fs, cx| {
                let is_last = is_dir || fs.inodes.at(slot).nlink == 1;
                if is_last && !fs.orphans.has_room() {
                    return Err(UbifsError::NoSpace);
                }
                let sizes = [fs.bytes_without_link(slot), fs.inodes.at(dir_slot).node_bytes()];
                fs.reserve(cx, BASE_HEAD, whole(&[DentNode::bytes_of(name.len()), sizes[0], sizes[1]]))?;
                let now = fs.now(cx);
                fs.drop_link(slot, now);
                fs.touch(cx, dir_slot, 0, entry_bytes(name));
                if is_dir {
                    fs.inodes.at_mut(dir_slot).nlink -= 1;
                }
                let key = fs.entry_key(fs.inodes.at(dir_slot).ino, name);
                fs.update(cx, key, name, slot, dir_slot, true)
            })?;
            fs.delete_if_unused(cx, slot)
        })
    }

    /// Bytes of an inode's node when it has lost a link: without its data, if that was the last.
    fn bytes_without_link(&self, slot: u32) -> usize {
        let inode = self.inodes.at(slot);
        if inode.is_dir() || inode.nlink == 1 { InodeNode::BYTES } else { inode.node_bytes() }
    }

    fn drop_link(&mut self, slot: u32, now: (u64, u32)) {
        let inode = self.inodes.at_mut(slot);
        inode.nlink = if inode.is_dir() { 0 } else { inode.nlink - 1 };
        inode.ctime = now;
    }

    /// Deletes an inode that has neither a link nor an opener. If there is no space for that, it stays an orphan, which the
    /// next mount deletes.
    pub(super) fn delete_if_unused(&mut self, cx: &mut Cx, slot: u32) -> Result<()> {
        let inode = self.inodes.at(slot);
        let ino = inode.ino;
        if inode.nlink > 0 || inode.opens > 0 {
            return Ok(());
        }
        if inode.xattr_cnt > 0 || inode.orphaned_in != self.commit {
            match self.write_deletion(cx, slot) {
                Err(UbifsError::NoSpace) => return Ok(()),
                done => done?,
            }
        } else {
            // The journal has the node without a link already.
            self.index.remove_inode(&mut self.nodes, cx, ino, false, |_| {})?;
            self.settle();
            self.orphans.remove(ino);
            self.clean(slot);
        }
        self.inodes.forget_above(ino);
        self.inodes.forget(slot);
        Ok(())
    }

    /// Whether `slot` is the directory `dir` or above it.
    fn is_at_or_above(&mut self, cx: &mut Cx, slot: u32, dir: u32) -> FsResult<bool> {
        if !self.inodes.at(slot).is_dir() {
            return Ok(false);
        }
        let (wanted, mut at) = (self.inodes.at(slot).ino, self.inodes.at(dir).ino);
        // In a damaged image directories may hold each other, so that no way ends at the root.
        for _ in 0..=self.inodes.known_above() {
            match at {
                _ if at == wanted => return Ok(true),
                ROOT_INO => return Ok(false),
                _ => match self.inodes.above(at) {
                    Some(above) => at = above,
                    None => break,
                },
            }
        }
        // The flash has no way up: look from above.
        let wanted = self.inodes.at(dir).ino;
        let mut ahead = vec![self.inodes.at(slot).ino];
        let mut seen = BTreeSet::new();
        while let Some(ino) = ahead.pop() {
            if ino == wanted {
                return Ok(true);
            }
            if !seen.insert(ino) {
                continue;
            }
            let entries = self.entries(cx, ino, KeyType::Dent)?;
            ahead.extend(entries.into_iter().filter(|entry| entry.item == ItemType::Dir).map(|entry| entry.ino));
        }
        Ok(false)
    }

    /// All entries of a directory, or attributes of an inode.
    pub(super) fn entries(&mut self, cx: &mut Cx, ino: u32, kind: KeyType) -> Result<Vec<DirEntry>> {
        let first = if kind == KeyType::Xent { Key::xent(ino, 0) } else { Key::dent(ino, 0) };
        let mut found = self.index.lower_bound(&mut self.nodes, cx, first)?;
        let mut entries = Vec::new();
        while let Some((place, branch)) = found
            && branch.key.ino() == ino
            && branch.key.key_type() == Some(kind)
        {
            entries.push(read_entry(&mut self.nodes, cx, &branch)?);
            found = self.index.next(&mut self.nodes, cx, place)?;
        }
        Ok(entries)
    }

    pub(super) fn move_name(
        &mut self,
        cx: &mut Cx,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        flags: RenameFlags,
    ) -> FsResult<()> {
        if !flags.is_valid() {
            return Err(FsError::Invalid { why: "flags of a rename" });
        }
        self.get_dir(cx, to.0)?;
        let (from_dir, source) = self.existing(cx, from.0, from.1)?;
        let (to_dir, target) = self.find_entry(cx, to.0, to.1)?;
        let target = target.map(|entry| self.load(cx, entry.ino)).transpose()?;
        let is_exchange = flags.has(RenameFlags::EXCHANGE);
        if flags.has(RenameFlags::NO_REPLACE) && target.is_some() {
            return Err(FsError::Exists { ino: to.0 });
        }
        if is_exchange && target.is_none() {
            return Err(FsError::NoEntry { dir: to.0 });
        }
        if target.is_none() && self.inodes.at(to_dir).nlink == 0 {
            return Err(FsError::NoEntry { dir: to.0 });
        }
        let below_itself = FsError::Invalid { why: "a directory below itself" };
        let moves = from_dir != to_dir;
        if moves && self.is_at_or_above(cx, source, to_dir)? {
            return Err(below_itself);
        }
        let Some(target) = target else {
            return self.rename(cx, (from_dir, from.1), (to_dir, to.1), source, None, flags);
        };
        let target_ino = Ino(self.inodes.at(target).ino.into());
        if moves && self.is_at_or_above(cx, target, from_dir)? {
            return Err(if is_exchange { below_itself } else { FsError::NotEmpty { dir: target_ino } });
        }
        if source == target {
            return Ok(());
        }
        if is_exchange {
            return self.exchange(cx, (from_dir, from.1), (to_dir, to.1), source, target);
        }
        match (self.inodes.at(source).is_dir(), self.inodes.at(target).is_dir()) {
            (false, true) => return Err(FsError::IsDir { ino: target_ino }),
            (true, false) => return Err(FsError::NotDir { ino: target_ino }),
            (true, true) if !self.is_empty_dir(cx, target)? => return Err(FsError::NotEmpty { dir: target_ino }),
            _ => {}
        }
        self.rename(cx, (from_dir, from.1), (to_dir, to.1), source, Some(target), flags)
    }

    fn rename(
        &mut self,
        cx: &mut Cx,
        (from_dir, from_name): (u32, &[u8]),
        (to_dir, to_name): (u32, &[u8]),
        source: u32,
        target: Option<u32>,
        flags: RenameFlags,
    ) -> FsResult<()> {
        let has_whiteout = flags.has(RenameFlags::WHITEOUT);
        let inline = |fs: &Self, slot: u32| fs.inodes.at(slot).data.len() as u32;
        let request = Request {
            new_entry: true,
            changed_entry: true,
            changed_inodes: 4,
            changed_inline: target.map_or(0, |target| inline(self, target)) + inline(self, source),
            new_inode: has_whiteout,
            new_inline: if has_whiteout { 8 } else { 0 },
            ..Request::default()
        };
        self.change(|fs| {
            fs.within(cx, &request, false, |fs, cx| {
                let is_last = target.is_some_and(|target| {
                    let target = fs.inodes.at(target);
                    target.is_dir() || target.nlink == 1
                });
                if is_last && !fs.orphans.has_room() {
                    return Err(UbifsError::NoSpace);
                }
                let mut sizes = vec![DentNode::bytes_of(to_name.len()), DentNode::bytes_of(from_name.len())];
                sizes.extend(target.map(|target| fs.bytes_without_link(target)));
                sizes.push(fs.inodes.at(from_dir).node_bytes());
                if from_dir != to_dir {
                    sizes.push(fs.inodes.at(to_dir).node_bytes());
                }
                sizes.push(if has_whiteout { InodeNode::BYTES + 4 } else { 0 });
                let whiteout = match has_whiteout {
                    false => None,
                    true => {
                        let data = Device { major: 0, minor: 0 }.encode();
                        let making = Making { item: ItemType::CharDevice, data, size: 0 };
                        Some(fs.new_inode(cx, from_dir, NewInode::of_root(0), making)?)
                    }
                };
                fs.reserve(cx, BASE_HEAD, whole(&sizes))?;
                let whiteout = whiteout.map(|inode| fs.inodes.insert(inode));
                let now = fs.now(cx);
                let (moves, is_dir) = (from_dir != to_dir, fs.inodes.at(source).is_dir());
                let grows = if target.is_some() { 0 } else { entry_bytes(to_name) };
                fs.touch(cx, to_dir, grows, 0);
                fs.touch(cx, from_dir, 0, if has_whiteout { 0 } else { entry_bytes(from_name) });
                if is_dir {
                    let gains = moves && target.is_none();
                    let loses = moves || target.is_some();
                    fs.inodes.at_mut(to_dir).nlink += u32::from(gains);
                    fs.inodes.at_mut(from_dir).nlink -= u32::from(loses);
                }
                if let Some(target) = target {
                    fs.drop_link(target, now);
                }
                fs.write_rename(cx, (from_dir, from_name), (to_dir, to_name), source, target, whiteout)?;
                Ok(())
            })?;
            if let Some(target) = target {
                fs.delete_if_unused(cx, target)?;
            }
            fs.touch_moved(cx, source)
        })
    }

    /// The change time of what was moved; it is written later, unless the file is synchronous.
    fn touch_moved(&mut self, cx: &mut Cx, slot: u32) -> Result<()> {
        let is_promised = match self.dirty(cx, slot) {
            Err(UbifsError::NoSpace) => false,
            done => done.map(|()| true)?,
        };
        let now = self.now(cx);
        self.inodes.at_mut(slot).ctime = now;
        if is_promised && !self.inodes.at(slot).is_sync() {
            return Ok(());
        }
        match self.write_dirty_inode(cx, slot) {
            // The name has moved; only the time is lost.
            Err(UbifsError::NoSpace) => Ok(()),
            done => done,
        }
    }

    fn write_rename(
        &mut self,
        cx: &mut Cx,
        (from_dir, from_name): (u32, &[u8]),
        (to_dir, to_name): (u32, &[u8]),
        source: u32,
        target: Option<u32>,
        whiteout: Option<u32>,
    ) -> Result<()> {
        let of = |fs: &Self, slot: u32| (fs.inodes.at(slot).ino, fs.inodes.at(slot).item);
        let (source_ino, source_item) = of(self, source);
        let new_key = self.entry_key(of(self, to_dir).0, to_name);
        let old_key = self.entry_key(of(self, from_dir).0, from_name);
        let at = |slot: u32| self.inodes.at(slot);
        let is_sync = at(source).is_sync()
            && (at(from_dir).is_dir_sync()
                || at(to_dir).is_dir_sync()
                || target.is_some_and(|target| at(target).is_sync()));
        self.begin();
        let new_at = self.put_entry(new_key, source_ino, source_item, to_name, Group::In);
        let (old_ino, old_item) = whiteout.map_or((0, ItemType::File), |whiteout| of(self, whiteout));
        let old_at = self.put_entry(old_key, old_ino, old_item, from_name, Group::In);
        let mut inodes: Vec<(u32, Group)> = target.iter().chain(&whiteout).map(|&slot| (slot, Group::In)).collect();
        if from_dir == to_dir {
            inodes.push((from_dir, Group::Last));
        } else {
            inodes.extend([(from_dir, Group::In), (to_dir, Group::Last)]);
        }
        let placed: Vec<(u32, (usize, usize))> =
            inodes.iter().map(|&(slot, group)| (slot, self.put_inode(slot, group))).collect();
        if let Some(target) = target.filter(|&target| self.inodes.at(target).nlink == 0) {
            self.orphan(target);
        }
        let inos: Vec<u32> = inodes.iter().map(|&(slot, _)| self.inodes.at(slot).ino).collect();
        let place = self.append(cx, BASE_HEAD, &inos, is_sync)?;
        self.index_entry(cx, &place, new_key, to_name, new_at, false)?;
        self.index_entry(cx, &place, old_key, from_name, old_at, whiteout.is_none())?;
        self.inodes.set_above(source, self.inodes.at(to_dir).ino);
        for (slot, (at, len)) in placed {
            let branch = place.branch(Key::inode(self.inodes.at(slot).ino), at, len);
            self.index.put(&mut self.nodes, cx, branch)?;
            self.settle();
            self.inode_was_written(slot);
        }
        Ok(())
    }

    fn exchange(
        &mut self,
        cx: &mut Cx,
        (one_dir, one_name): (u32, &[u8]),
        (two_dir, two_name): (u32, &[u8]),
        one: u32,
        two: u32,
    ) -> FsResult<()> {
        let request = Request { new_entry: true, changed_entry: true, changed_inodes: 2, ..Request::default() };
        self.change(|fs| {
            fs.within(cx, &request, false, |fs, cx| {
                let sizes = [one_dir, two_dir].map(|slot| fs.inodes.at(slot).node_bytes());
                let names = [one_name, two_name].map(|name| DentNode::bytes_of(name.len()));
                fs.reserve(cx, BASE_HEAD, whole(&[names[0], names[1], sizes[0], sizes[1]]))?;
                fs.touch(cx, one_dir, 0, 0);
                fs.touch(cx, two_dir, 0, 0);
                let is_dir = |fs: &Self, slot: u32| fs.inodes.at(slot).is_dir();
                if one_dir != two_dir && is_dir(fs, one) != is_dir(fs, two) {
                    let (gains, loses) = if is_dir(fs, one) { (two_dir, one_dir) } else { (one_dir, two_dir) };
                    fs.inodes.at_mut(gains).nlink += 1;
                    fs.inodes.at_mut(loses).nlink -= 1;
                }
                fs.write_exchange(cx, (one_dir, one_name), (two_dir, two_name), one, two)
            })?;
            // Linux shows new change times of both until it forgets them, and writes none.
            Ok(())
        })
    }

    fn write_exchange(
        &mut self,
        cx: &mut Cx,
        (one_dir, one_name): (u32, &[u8]),
        (two_dir, two_name): (u32, &[u8]),
        one: u32,
        two: u32,
    ) -> Result<()> {
        let of = |fs: &Self, slot: u32| (fs.inodes.at(slot).ino, fs.inodes.at(slot).item);
        let is_sync = [one_dir, two_dir].iter().any(|&dir| self.inodes.at(dir).is_dir_sync());
        let entries = [(two_dir, two_name, one), (one_dir, one_name, two)];
        self.begin();
        let mut placed = Vec::new();
        for (dir, name, slot) in entries {
            let ((ino, item), key) = (of(self, slot), self.entry_key(of(self, dir).0, name));
            placed.push((key, name, self.put_entry(key, ino, item, name, Group::In)));
            self.inodes.set_above(slot, self.inodes.at(dir).ino);
        }
        let dirs = if one_dir == two_dir { vec![one_dir] } else { vec![one_dir, two_dir] };
        let mut inodes = Vec::new();
        for (at, &dir) in dirs.iter().enumerate() {
            let group = if at + 1 == dirs.len() { Group::Last } else { Group::In };
            inodes.push((dir, self.put_inode(dir, group)));
        }
        let inos: Vec<u32> = dirs.iter().map(|&dir| of(self, dir).0).collect();
        let place = self.append(cx, BASE_HEAD, &inos, is_sync)?;
        for (key, name, at) in placed {
            self.index_entry(cx, &place, key, name, at, false)?;
        }
        for (slot, (at, len)) in inodes {
            let branch = place.branch(Key::inode(of(self, slot).0), at, len);
            self.index.put(&mut self.nodes, cx, branch)?;
            self.settle();
            self.inode_was_written(slot);
        }
        Ok(())
    }
}
