//! The file system behind the seam.

use sim::Cx;
use sim::seam::{
    Attr, DeviceNumber, Dirent, FileSystem, FileType, FsError, Held, Ino, InodeFlags, LebVolume, NewInode, PageState,
    Payload, ReadInto, RenameFlags, SetAttr, SetXattr, StatFs, Timestamp,
};

use super::Ubifs;
use super::budget::MIN_INDEX_LEBS;
use crate::ubifs::media::{BLOCK_BYTES, DataNode, Device, ItemType, ROOT_INO, inode_flags};
use crate::ubifs::nodes::HEADS;
use crate::ubifs::seam::{self, file_type};

const FLAGS: [(u32, InodeFlags); 5] = [
    (inode_flags::COMPRESSED, InodeFlags::COMPRESSED),
    (inode_flags::SYNC, InodeFlags::SYNC),
    (inode_flags::IMMUTABLE, InodeFlags::IMMUTABLE),
    (inode_flags::APPEND, InodeFlags::APPEND),
    (inode_flags::DIR_SYNC, InodeFlags::DIR_SYNC),
];

/// Flags that the caller can set.
pub(super) const SETTABLE: u32 =
    inode_flags::COMPRESSED | inode_flags::SYNC | inode_flags::IMMUTABLE | inode_flags::APPEND | inode_flags::DIR_SYNC;

/// Flags as on flash.
pub(super) fn to_media(flags: InodeFlags) -> u32 {
    FLAGS.into_iter().filter(|&(_, flag)| flags.has(flag)).fold(0, |all, (media, _)| all | media)
}

impl<V: LebVolume> Ubifs<V> {
    fn attr(&self, slot: u32) -> Attr {
        let inode = self.inodes.at(slot);
        let time = |(seconds, nanos)| Timestamp { seconds, nanos };
        let file_type = file_type(inode.item);
        let device = match file_type.is_device() {
            true => Device::decode(&inode.data).unwrap_or(Device { major: 0, minor: 0 }),
            false => Device { major: 0, minor: 0 },
        };
        let flags = FLAGS.into_iter().filter(|&(media, _)| inode.flags & media != 0);
        Attr {
            ino: Ino(inode.ino.into()),
            file_type,
            mode: inode.mode & 0o7777,
            uid: inode.uid,
            gid: inode.gid,
            nlink: inode.nlink,
            size: inode.size,
            device: DeviceNumber { major: device.major, minor: device.minor },
            flags: flags.fold(InodeFlags::default(), |all, (_, flag)| all | flag),
            atime: time(inode.atime),
            mtime: time(inode.mtime),
            ctime: time(inode.ctime),
        }
    }
}

impl<V: LebVolume> FileSystem for Ubifs<V> {
    fn keeps_bytes(&self) -> bool {
        V::keeps_bytes()
    }

    fn root(&self) -> Ino {
        Ino(ROOT_INO.into())
    }

    fn lookup(&mut self, cx: &mut Cx, dir: Ino, name: &[u8]) -> Result<Attr, FsError> {
        self.bound_memory();
        let (dir_slot, entry) = self.find_entry(cx, dir, name)?;
        let slot = self.load(cx, entry.ok_or(FsError::NoEntry { dir })?.ino)?;
        self.inodes.set_above(slot, self.inodes.at(dir_slot).ino);
        Ok(self.attr(slot))
    }

    fn getattr(&mut self, cx: &mut Cx, ino: Ino) -> Result<Attr, FsError> {
        let slot = self.get(cx, ino)?;
        Ok(self.attr(slot))
    }

    fn setattr(&mut self, cx: &mut Cx, ino: Ino, change: &SetAttr) -> Result<Attr, FsError> {
        let slot = self.set_attributes(cx, ino, change)?;
        Ok(self.attr(slot))
    }

    fn create(&mut self, cx: &mut Cx, dir: Ino, name: &[u8], new: NewInode) -> Result<Attr, FsError> {
        self.bound_memory();
        let slot = self.make_node(cx, dir, name, new, ItemType::File, DeviceNumber::default())?;
        Ok(self.attr(slot))
    }

    fn mkdir(&mut self, cx: &mut Cx, dir: Ino, name: &[u8], new: NewInode) -> Result<Attr, FsError> {
        self.bound_memory();
        let slot = self.make_node(cx, dir, name, new, ItemType::Dir, DeviceNumber::default())?;
        Ok(self.attr(slot))
    }

    fn mknod(
        &mut self,
        cx: &mut Cx,
        dir: Ino,
        name: &[u8],
        new: NewInode,
        file_type: FileType,
        device: DeviceNumber,
    ) -> Result<Attr, FsError> {
        let item = match file_type {
            FileType::Regular => ItemType::File,
            FileType::BlockDevice => ItemType::BlockDevice,
            FileType::CharDevice => ItemType::CharDevice,
            FileType::Fifo => ItemType::Fifo,
            FileType::Socket => ItemType::Socket,
            FileType::Directory | FileType::Symlink => return Err(FsError::Invalid { why: "the type of a node" }),
        };
        let slot = self.make_node(cx, dir, name, new, item, device)?;
        Ok(self.attr(slot))
    }

    fn symlink(&mut self, cx: &mut Cx, dir: Ino, name: &[u8], target: &[u8], new: NewInode) -> Result<Attr, FsError> {
        let slot = self.make_symlink(cx, dir, name, target, new)?;
        Ok(self.attr(slot))
    }

    fn readlink(&mut self, cx: &mut Cx, ino: Ino) -> Result<Vec<u8>, FsError> {
        let slot = self.get(cx, ino)?;
        match self.inodes.at(slot).item {
            ItemType::Symlink => Ok(self.inodes.at(slot).data.clone()),
            _ => Err(FsError::Invalid { why: "no symbolic link" }),
        }
    }

    fn link(&mut self, cx: &mut Cx, ino: Ino, dir: Ino, name: &[u8]) -> Result<Attr, FsError> {
        let slot = self.add_link(cx, ino, dir, name)?;
        Ok(self.attr(slot))
    }

    fn unlink(&mut self, cx: &mut Cx, dir: Ino, name: &[u8]) -> Result<(), FsError> {
        self.remove_name(cx, dir, name, false)
    }

    fn rmdir(&mut self, cx: &mut Cx, dir: Ino, name: &[u8]) -> Result<(), FsError> {
        self.remove_name(cx, dir, name, true)
    }

    fn rename(&mut self, cx: &mut Cx, from: (Ino, &[u8]), to: (Ino, &[u8]), flags: RenameFlags) -> Result<(), FsError> {
        self.move_name(cx, from, to, flags)
    }

    fn read(&mut self, cx: &mut Cx, ino: Ino, offset: u64, into: ReadInto<'_>) -> Result<u32, FsError> {
        self.bound_memory();
        self.read_file(cx, ino, offset, into)
    }

    fn write(&mut self, cx: &mut Cx, ino: Ino, offset: u64, data: Payload<'_>) -> Result<u32, FsError> {
        self.bound_memory();
        self.write_file(cx, ino, offset, data)
    }

    fn hold_back(&mut self, cx: &mut Cx, ino: Ino, offset: u64, length: u32, page: PageState) -> Result<Held, FsError> {
        self.promise_write(cx, ino, offset, length, page)
    }

    fn write_back(
        &mut self,
        cx: &mut Cx,
        ino: Ino,
        offset: u64,
        data: Payload<'_>,
        are_new: &[bool],
    ) -> Result<u32, FsError> {
        self.bound_memory();
        self.write_promised(cx, ino, offset, data, are_new)
    }

    fn cut_within_page(
        &mut self,
        cx: &mut Cx,
        ino: Ino,
        change: &SetAttr,
        data: Payload<'_>,
        is_new: bool,
    ) -> Result<Option<Attr>, FsError> {
        let slot = self.truncate_within(cx, ino, change, data, is_new)?;
        Ok(Some(self.attr(slot)))
    }

    fn let_go(&mut self, _: Ino, are_new: &[bool]) {
        self.drop_promises(are_new);
    }

    fn next_dirtied(&mut self) -> Option<Ino> {
        self.inodes.next_dirtied().map(|ino| Ino(ino.into()))
    }

    fn write_inode(&mut self, cx: &mut Cx, ino: Ino) -> Result<(), FsError> {
        self.change(|fs| match fs.inodes.find(ino.0 as u32) {
            Some(slot) if fs.inodes.at(slot).dirty_since.is_some() => fs.write_dirty_inode(cx, slot),
            _ => Ok(()),
        })
    }

    fn wants_write_back(&self) -> bool {
        self.budget.wants_write_back()
    }

    fn getxattr(&mut self, cx: &mut Cx, ino: Ino, name: &[u8]) -> Result<Vec<u8>, FsError> {
        self.xattr(cx, ino, name)
    }

    fn setxattr(&mut self, cx: &mut Cx, ino: Ino, name: &[u8], value: &[u8], how: SetXattr) -> Result<(), FsError> {
        self.set_xattr(cx, ino, name, value, how)
    }

    fn listxattr(&mut self, cx: &mut Cx, ino: Ino) -> Result<Vec<Vec<u8>>, FsError> {
        let slot = self.get(cx, ino)?;
        let number = self.inodes.at(slot).ino;
        Ok(self.xattr_entries(cx, number)?.into_iter().map(|entry| entry.name).collect())
    }

    fn removexattr(&mut self, cx: &mut Cx, ino: Ino, name: &[u8]) -> Result<(), FsError> {
        self.remove_xattr(cx, ino, name)
    }

    fn readdir(
        &mut self,
        cx: &mut Cx,
        dir: Ino,
        cookie: u64,
        each: &mut dyn FnMut(Dirent<'_>) -> bool,
    ) -> Result<(), FsError> {
        self.bound_memory();
        let slot = self.get(cx, dir)?;
        let inode = self.inodes.at(slot);
        if !inode.is_dir() {
            return Err(FsError::NotDir { ino: dir });
        }
        let at = (inode.ino, cookie);
        seam::list(&mut self.index, &mut self.nodes, cx, at, each)
    }

    /// Free space as Linux reports it: what is available, less what index and headers of it would take.
    fn statfs(&mut self, _: &mut Cx) -> Result<StatFs, FsError> {
        let leb = i64::from(self.leb_bytes);
        let lost_at_ends = leb % (DataNode::HEADER_BYTES as i64 + i64::from(BLOCK_BYTES));
        // Kept are the reserve of garbage collection, one LEB for deletions, one for each head, and the index.
        let lebs = i64::from(self.sb.main_lebs()) - 2 - MIN_INDEX_LEBS - HEADS as i64;
        let whole = self.reported(lebs.max(0) * (leb - lost_at_ends));
        let reserve = self.reported(self.sb.reserve_bytes as i64);
        let least = self.calc_min_index_lebs();
        let reserved = (least - self.space.totals.index_lebs).max(0);
        let empty = self.space.available() + self.collected_index.len() as i32 - reserved;
        // An empty LEB loses less at its end than one that is filled in part.
        let gain = i64::from(empty) * (i64::from(self.space.dark) - lost_at_ends);
        let free = self.reported((self.available(least) + gain - self.outstanding()).max(0));
        let blocks = |bytes: i64| bytes as u64 / u64::from(BLOCK_BYTES);
        Ok(StatFs {
            block_bytes: BLOCK_BYTES,
            blocks: blocks(whole),
            free: blocks(free),
            available: blocks((free - reserve).max(0)),
        })
    }

    fn open(&mut self, cx: &mut Cx, ino: Ino) -> Result<(), FsError> {
        let slot = self.get(cx, ino)?;
        self.inodes.at_mut(slot).opens += 1;
        Ok(())
    }

    fn release(&mut self, cx: &mut Cx, ino: Ino) -> Result<(), FsError> {
        let slot = self.get(cx, ino)?;
        let inode = self.inodes.at_mut(slot);
        assert!(inode.opens > 0, "inode {ino} is released more often than opened");
        inode.opens -= 1;
        if inode.nlink > 0 {
            return Ok(());
        }
        self.change(|fs| fs.delete_if_unused(cx, slot))
    }

    fn fsync(&mut self, cx: &mut Cx, ino: Ino, data_only: bool) -> Result<(), FsError> {
        self.sync_file(cx, ino, data_only)
    }

    fn sync(&mut self, cx: &mut Cx) -> Result<(), FsError> {
        self.change(|fs| fs.sync_all(cx))
    }
}

impl<V: LebVolume> Ubifs<V> {
    /// What of `bytes` of flash is left for data, if every block takes a node and its part of the index.
    /// Source: Linux 6.12, `ubifs_reported_space`.
    fn reported(&self, bytes: i64) -> i64 {
        let fanout = if self.sb.fanout > 3 { i64::from(self.sb.fanout) / 2 } else { 2 };
        let index = 3 * i64::from(self.max_index_node()) / (fanout - 1);
        bytes * i64::from(BLOCK_BYTES) / (DataNode::HEADER_BYTES as i64 + i64::from(BLOCK_BYTES) + index)
    }
}
