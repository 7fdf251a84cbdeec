//! Names: making and removing them, and the inodes behind them.
//! Source: Linux 6.12, `fs/jffs2/dir.c` and `write.c`.

use sim::Cx;
use sim::seam::{DeviceNumber, FileType, Flash, FsError, Ino, NewInode, RenameFlags};

use super::blocks::NodeState;
use super::error::Result;
use super::inode::{Inode, Name};
use super::media::{DirentNode, InodeNode, MAX_NAME, ROOT_INO, encode_device};
use super::space::{Purpose, Wanted};
use super::{Cache, Jffs2};

/// Most bytes of the target of a symbolic link.
pub(super) const MOST_TARGET: usize = 254;
/// Bit of the permissions of a directory: what is made in it has its group.
const SET_GROUP: u32 = 0o2000;

/// Type of an inode in an entry of a directory: the upper bits of its mode.
const fn kind(file_type: FileType) -> u8 {
    (file_type.mode_bits() >> 12) as u8
}

/// Type of an inode by what an entry says.
pub(super) fn file_type(kind: u8) -> Option<FileType> {
    FileType::ALL.into_iter().find(|&file_type| self::kind(file_type) == kind)
}

impl<F: Flash> Jffs2<F> {
    /// A directory that is in memory.
    pub(super) fn directory(&mut self, cx: &mut Cx, dir: Ino, name: &[u8]) -> Result<u32> {
        if name.len() > MAX_NAME {
            return Err(FsError::NameTooLong { bytes: name.len() }.into());
        }
        let inode = self.get(cx, dir)?;
        if inode.is_dir() { Ok(inode.ino) } else { Err(FsError::NotDir { ino: dir }.into()) }
    }

    /// What a name in a directory that is in memory names.
    pub(super) fn name(&mut self, dir: u32, name: &[u8]) -> Option<Name> {
        self.inode(dir).names.get(name).copied().filter(|name| name.ino != 0)
    }

    /// A directory in which a new name may be.
    fn room_for(&mut self, cx: &mut Cx, dir: Ino, name: &[u8]) -> Result<u32> {
        let number = self.directory(cx, dir, name)?;
        if self.name(number, name).is_some() {
            return Err(FsError::Exists { ino: dir }.into());
        }
        let is_removed = self.caches.get(number).is_none_or(|cache| cache.links == 0);
        if is_removed { Err(FsError::NoEntry { dir }.into()) } else { Ok(number) }
    }

    /// Makes an inode and its first name. Returns its number.
    pub(super) fn make(
        &mut self,
        cx: &mut Cx,
        (dir, name): (Ino, &[u8]),
        new: NewInode,
        file_type: FileType,
        data: &[u8],
    ) -> Result<u32> {
        self.may_write()?;
        if file_type == FileType::Symlink && data.len() > MOST_TARGET {
            return Err(FsError::NameTooLong { bytes: data.len() }.into());
        }
        let dir_number = self.room_for(cx, dir, name)?;
        self.reserve(cx, Wanted::inode(InodeNode::BYTES + data.len()), Purpose::Write)?;
        let now = self.now(cx);
        let parent = self.load(cx, dir_number)?;
        let (inherits, group) = (parent.mode & SET_GROUP != 0, parent.gid);
        let ino = self.highest_ino + 1;
        let is_dir = file_type == FileType::Directory;
        let mut inode = Inode::new(ino, file_type);
        inode.mode = match file_type {
            FileType::Symlink => 0o777,
            FileType::Directory if inherits => new.mode & 0o7777 | SET_GROUP,
            _ => new.mode & 0o7777,
        };
        (inode.uid, inode.gid) = (new.uid as u16, if inherits { group } else { new.gid as u16 });
        (inode.atime, inode.mtime, inode.ctime, inode.version) = (now, now, now, 1);
        inode.data = data.to_vec();
        if file_type == FileType::Symlink {
            inode.size = data.len() as u32;
        }
        *self.cache(ino) =
            Cache { links: if is_dir { dir_number } else { 1 }, is_dir, is_checked: true, ..Cache::default() };
        let packed = data.len() as u32;
        let node = InodeNode { version: 1, packed, unpacked: packed, ..inode.describe() };
        let id = match self.put_inode(cx, &node, data, false) {
            Ok(id) => id,
            Err(error) => {
                self.caches.remove(ino);
                return Err(error);
            }
        };
        inode.metadata = Some(id);
        self.inodes.insert(ino, Box::new(inode));
        if let Err(error) = self.add_name(cx, dir_number, name, ino, file_type, Purpose::Write) {
            self.cache(ino).links = 0;
            if !error.is_power_loss() {
                self.delete(cx, ino)?;
            }
            return Err(error);
        }
        if is_dir {
            self.inode(dir_number).links += 1;
        }
        Ok(ino)
    }

    /// The data of a device's inode.
    pub(super) fn device_data(&self, file_type: FileType, device: DeviceNumber) -> Vec<u8> {
        match file_type.is_device() {
            true => encode_device(self.device.endian(), device.major, device.minor),
            false => Vec::new(),
        }
    }

    /// Writes an entry of a directory, and puts the name into it in the place of one that is equal. Times of the directory
    /// move. It must be in memory afterwards, and is.
    fn add_name(
        &mut self,
        cx: &mut Cx,
        dir: u32,
        name: &[u8],
        ino: u32,
        file_type: FileType,
        purpose: Purpose,
    ) -> Result<()> {
        self.reserve(cx, Wanted::dirent(name), purpose)?;
        let now = self.now(cx);
        let parent = self.load(cx, dir)?;
        parent.version += 1;
        let version = parent.version;
        let kind = if ino == 0 { 0 } else { kind(file_type) };
        let node = DirentNode { dir, version, ino, time: now, kind, ..DirentNode::default() };
        let id = self.put_dirent(cx, &node, name, false)?;
        let parent = self.inode(dir);
        (parent.mtime, parent.ctime) = (now, now);
        if let Some(old) = parent.put_name(name, id, version, ino, kind) {
            self.obsolete(cx, old)?;
        }
        Ok(())
    }

    /// Removes a name from its directory: by a node that says so, or, where nodes become obsolete on flash, by that.
    fn drop_name(&mut self, cx: &mut Cx, dir: u32, name: &[u8]) -> Result<()> {
        self.may_write()?;
        if !self.marks_obsolete() && !self.options.known_bad.no_deletion {
            return self.add_name(cx, dir, name, 0, FileType::Regular, Purpose::Deletion);
        }
        self.mark_older(cx, dir)?;
        let now = self.now(cx);
        let parent = self.load(cx, dir)?;
        (parent.mtime, parent.ctime) = (now, now);
        let old = parent.names.remove(name).expect("the caller has found it");
        self.obsolete(cx, old.node)
    }

    /// Marks nodes of a directory on flash that a mount found to be obsolete, for power failed before they were marked. Linux
    /// leaves them alone, and a name that is removed may be there again after the next mount, as it was before.
    fn mark_older(&mut self, cx: &mut Cx, dir: u32) -> Result<()> {
        let nodes = self.caches.get(dir).map(|cache| cache.nodes.clone()).unwrap_or_default();
        for id in nodes {
            if self.blocks.node(id).state == NodeState::Obsolete && self.marks_obsolete() {
                self.mark_obsolete(cx, id)?;
            }
        }
        Ok(())
    }

    /// As the seam's.
    pub(super) fn add_link(&mut self, cx: &mut Cx, ino: Ino, dir: Ino, name: &[u8]) -> Result<u32> {
        self.may_write()?;
        let dir_number = self.directory(cx, dir, name)?;
        self.room_for(cx, dir, name)?;
        let inode = self.get(cx, ino)?;
        let (number, file_type) = (inode.ino, inode.file_type);
        if file_type == FileType::Directory {
            return Err(FsError::NotPermitted { ino }.into());
        }
        if self.caches.get(number).is_none_or(|cache| cache.links == 0) {
            return Err(FsError::NoEntry { dir }.into());
        }
        self.add_name(cx, dir_number, name, number, file_type, Purpose::Write)?;
        self.cache(number).links += 1;
        self.load(cx, number)?.links += 1;
        Ok(number)
    }

    /// As the seam's `unlink` and `rmdir`.
    pub(super) fn remove(&mut self, cx: &mut Cx, dir: Ino, name: &[u8], is_rmdir: bool) -> Result<()> {
        self.may_write()?;
        let dir_number = self.directory(cx, dir, name)?;
        let found = self.name(dir_number, name).ok_or(FsError::NoEntry { dir })?;
        let victim = self.load(cx, found.ino)?;
        let ino = Ino(found.ino.into());
        match (victim.is_dir(), is_rmdir) {
            (true, false) => return Err(FsError::IsDir { ino }.into()),
            (false, true) => return Err(FsError::NotDir { ino }.into()),
            (true, true) if victim.live_names().next().is_some() => return Err(FsError::NotEmpty { dir: ino }.into()),
            _ => {}
        }
        self.drop_name(cx, dir_number, name)?;
        if is_rmdir {
            self.inode(dir_number).links -= 1;
        }
        self.unlinked(cx, found.ino)
    }

    /// An inode lost a name. Linux leaves its times alone, as with a new name.
    fn unlinked(&mut self, cx: &mut Cx, ino: u32) -> Result<()> {
        let inode = self.load(cx, ino)?;
        inode.links = if inode.is_dir() { 0 } else { inode.links - 1 };
        let (links, opens) = (inode.links, inode.opens);
        let cache = self.cache(ino);
        cache.links = if cache.is_dir { 0 } else { cache.links - 1 };
        if links == 0 && opens == 0 { self.delete(cx, ino) } else { Ok(()) }
    }

    /// Deletes an inode without names that nobody has open: its nodes are obsolete.
    pub(super) fn delete(&mut self, cx: &mut Cx, ino: u32) -> Result<()> {
        self.complete();
        self.delete_xattrs(ino);
        let Some(inode) = self.inodes.remove(ino) else { return Ok(()) };
        self.pages.cut(ino, 0);
        let names = inode.names.values().map(|name| name.node);
        let nodes: Vec<u32> = inode.nodes.keys().copied().chain(inode.metadata).chain(names).collect();
        for id in nodes {
            self.obsolete(cx, id)?;
        }
        Ok(())
    }

    /// Whether directory `inner` is `outer` or below it.
    fn is_below(&self, inner: u32, outer: u32) -> bool {
        let (mut at, mut steps) = (inner, 0);
        while at != outer {
            match self.caches.get(at) {
                Some(cache) if at != ROOT_INO && cache.links > 0 && steps < self.caches.len() => at = cache.links,
                _ => return false,
            }
            steps += 1;
        }
        true
    }

    /// As the seam's: the new name is written, then the old one is removed. A loss of power between the two leaves both.
    pub(super) fn move_name(
        &mut self,
        cx: &mut Cx,
        (old_dir, old_name): (Ino, &[u8]),
        (new_dir, new_name): (Ino, &[u8]),
        flags: RenameFlags,
    ) -> Result<()> {
        if flags != RenameFlags::NONE && flags != RenameFlags::NO_REPLACE {
            return Err(FsError::Invalid { why: "flags of a rename that JFFS2 does not have" }.into());
        }
        self.may_write()?;
        self.directory(cx, old_dir, b"")?;
        self.directory(cx, new_dir, b"")?;
        let from = self.directory(cx, old_dir, old_name)?;
        let moved = self.name(from, old_name).ok_or(FsError::NoEntry { dir: old_dir })?;
        let to = self.directory(cx, new_dir, new_name)?;
        let inode = self.load(cx, moved.ino)?;
        let file_type = inode.file_type;
        let is_dir = inode.is_dir();
        self.load(cx, to)?;
        let victim = self.name(to, new_name);
        if victim.is_some() && flags == RenameFlags::NO_REPLACE {
            return Err(FsError::Exists { ino: new_dir }.into());
        }
        if is_dir && self.is_below(to, moved.ino) {
            return Err(FsError::Invalid { why: "a directory is moved below itself" }.into());
        }
        if let Some(victim) = victim {
            if victim.ino == moved.ino {
                return Ok(());
            }
            let ino = Ino(victim.ino.into());
            if self.is_below(from, victim.ino) {
                return Err(FsError::NotEmpty { dir: ino }.into());
            }
            let there = self.load(cx, victim.ino)?;
            match (is_dir, there.is_dir()) {
                (true, false) => return Err(FsError::NotDir { ino }.into()),
                (false, true) => return Err(FsError::IsDir { ino }.into()),
                (true, true) if there.live_names().next().is_some() => {
                    return Err(FsError::NotEmpty { dir: ino }.into());
                }
                _ => {}
            }
        }
        if self.caches.get(to).is_none_or(|cache| cache.links == 0) {
            return Err(FsError::NoEntry { dir: new_dir }.into());
        }
        // Both nodes have room, or none is written. Linux looks for the second after the first, and may leave a hard link.
        let (new, old) = (Wanted::dirent(new_name), Wanted::dirent(old_name));
        let both = Wanted { bytes: new.bytes + old.bytes, in_summary: new.in_summary + old.in_summary };
        self.make_room_for_two(cx, both)?;
        self.add_name(cx, to, new_name, moved.ino, file_type, Purpose::Write)?;
        if is_dir {
            self.inode(to).links += 1;
            self.cache(moved.ino).links = to;
        }
        self.load(cx, from)?;
        if is_dir {
            self.inode(from).links -= 1;
        }
        self.drop_name(cx, from, old_name)?;
        if let Some(victim) = victim {
            if is_dir {
                self.load(cx, to)?.links -= 1;
            }
            self.unlinked(cx, victim.ino)?;
        }
        Ok(())
    }
}
