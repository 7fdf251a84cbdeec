//! The cache as a file system. What is no content of a file goes to the inner one at once.

use sim::Cx;
use sim::seam::{
    Attr, DeviceNumber, Dirent, FallocateMode, FileSystem, FileType, FsError, Ino, InodeFlags, NewInode, Payload,
    ReadInto, RenameFlags, SetAttr, SetXattr, StatFs,
};

use super::PageCache;

impl<F: FileSystem> PageCache<F> {
    /// A name of an inode is gone, which had `attr` before. Without another its pages are dropped.
    fn lost_name(&mut self, attr: &Attr) {
        if attr.nlink > 1 {
            return;
        }
        if let Some(slot) = self.inodes.find(attr.ino) {
            if self.inodes.at(slot).opens > 0 {
                self.inodes.at_mut(slot).is_unlinked = true;
            } else {
                self.forget(slot);
            }
        }
    }

    /// The inode has these attributes now.
    fn changed(&mut self, cx: &mut Cx, attr: &Attr) -> Result<(), FsError> {
        let Some(slot) = self.inodes.find(attr.ino) else { return Ok(()) };
        self.inodes.at_mut(slot).is_sync = attr.flags.has(InodeFlags::SYNC);
        if attr.file_type == FileType::Regular { self.resize(cx, slot, attr.size) } else { Ok(()) }
    }
}

impl<F: FileSystem> FileSystem for PageCache<F> {
    fn keeps_bytes(&self) -> bool {
        self.keeps_bytes
    }

    fn root(&self) -> Ino {
        self.inner.root()
    }

    fn lookup(&mut self, cx: &mut Cx, dir: Ino, name: &[u8]) -> Result<Attr, FsError> {
        self.inner.lookup(cx, dir, name)
    }

    fn getattr(&mut self, cx: &mut Cx, ino: Ino) -> Result<Attr, FsError> {
        self.inner.getattr(cx, ino)
    }

    fn setattr(&mut self, cx: &mut Cx, ino: Ino, change: &SetAttr) -> Result<Attr, FsError> {
        let attr = self.with_space(cx, |cache, cx| match cache.cut_dirty_page(cx, ino, change)? {
            Some(attr) => Ok(attr),
            None => cache.inner.setattr(cx, ino, change),
        })?;
        self.changed(cx, &attr)?;
        Ok(attr)
    }

    fn create(&mut self, cx: &mut Cx, dir: Ino, name: &[u8], new: NewInode) -> Result<Attr, FsError> {
        self.with_space(cx, |cache, cx| cache.inner.create(cx, dir, name, new))
    }

    fn mkdir(&mut self, cx: &mut Cx, dir: Ino, name: &[u8], new: NewInode) -> Result<Attr, FsError> {
        self.with_space(cx, |cache, cx| cache.inner.mkdir(cx, dir, name, new))
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
        self.with_space(cx, |cache, cx| cache.inner.mknod(cx, dir, name, new, file_type, device))
    }

    fn symlink(&mut self, cx: &mut Cx, dir: Ino, name: &[u8], target: &[u8], new: NewInode) -> Result<Attr, FsError> {
        self.with_space(cx, |cache, cx| cache.inner.symlink(cx, dir, name, target, new))
    }

    fn readlink(&mut self, cx: &mut Cx, ino: Ino) -> Result<Vec<u8>, FsError> {
        self.inner.readlink(cx, ino)
    }

    fn link(&mut self, cx: &mut Cx, ino: Ino, dir: Ino, name: &[u8]) -> Result<Attr, FsError> {
        self.with_space(cx, |cache, cx| cache.inner.link(cx, ino, dir, name))
    }

    fn unlink(&mut self, cx: &mut Cx, dir: Ino, name: &[u8]) -> Result<(), FsError> {
        let attr = self.inner.lookup(cx, dir, name)?;
        self.with_space(cx, |cache, cx| cache.inner.unlink(cx, dir, name))?;
        self.lost_name(&attr);
        Ok(())
    }

    fn rmdir(&mut self, cx: &mut Cx, dir: Ino, name: &[u8]) -> Result<(), FsError> {
        let attr = self.inner.lookup(cx, dir, name)?;
        self.with_space(cx, |cache, cx| cache.inner.rmdir(cx, dir, name))?;
        // A directory without a name counts none of its links.
        self.lost_name(&Attr { nlink: 1, ..attr });
        Ok(())
    }

    fn rename(&mut self, cx: &mut Cx, from: (Ino, &[u8]), to: (Ino, &[u8]), flags: RenameFlags) -> Result<(), FsError> {
        let source = self.inner.lookup(cx, from.0, from.1).ok();
        let target = self.inner.lookup(cx, to.0, to.1).ok();
        self.with_space(cx, |cache, cx| cache.inner.rename(cx, from, to, flags))?;
        if let (Some(source), Some(target)) = (source, target)
            && source.ino != target.ino
            && !flags.has(RenameFlags::EXCHANGE)
        {
            let nlink = if target.file_type == FileType::Directory { 1 } else { target.nlink };
            self.lost_name(&Attr { nlink, ..target });
        }
        Ok(())
    }

    fn read(&mut self, cx: &mut Cx, ino: Ino, offset: u64, into: ReadInto<'_>) -> Result<u32, FsError> {
        self.read_file(cx, ino, offset, into)
    }

    fn write(&mut self, cx: &mut Cx, ino: Ino, offset: u64, data: Payload<'_>) -> Result<u32, FsError> {
        self.write_file(cx, ino, offset, data)
    }

    fn fallocate(
        &mut self,
        cx: &mut Cx,
        ino: Ino,
        mode: FallocateMode,
        offset: u64,
        length: u64,
    ) -> Result<(), FsError> {
        let moves = FallocateMode::COLLAPSE_RANGE | FallocateMode::INSERT_RANGE;
        if mode.0 & moves.0 != 0 {
            return Err(FsError::NotSupported { what: "fallocate that moves contents" });
        }
        self.with_space(cx, |cache, cx| cache.inner.fallocate(cx, ino, mode, offset, length))?;
        let clears = FallocateMode::PUNCH_HOLE | FallocateMode::ZERO_RANGE;
        let end = offset.saturating_add(length);
        if let Some(slot) = self.inodes.find(ino) {
            if mode.0 & clears.0 != 0 {
                self.punch(slot, offset, end);
            }
            self.inodes.at_mut(slot).size = self.inner.getattr(cx, ino)?.size;
            self.inodes.remove_if_idle(slot);
        }
        Ok(())
    }

    fn getxattr(&mut self, cx: &mut Cx, ino: Ino, name: &[u8]) -> Result<Vec<u8>, FsError> {
        self.inner.getxattr(cx, ino, name)
    }

    fn setxattr(&mut self, cx: &mut Cx, ino: Ino, name: &[u8], value: &[u8], how: SetXattr) -> Result<(), FsError> {
        self.with_space(cx, |cache, cx| cache.inner.setxattr(cx, ino, name, value, how))
    }

    fn listxattr(&mut self, cx: &mut Cx, ino: Ino) -> Result<Vec<Vec<u8>>, FsError> {
        self.inner.listxattr(cx, ino)
    }

    fn removexattr(&mut self, cx: &mut Cx, ino: Ino, name: &[u8]) -> Result<(), FsError> {
        self.with_space(cx, |cache, cx| cache.inner.removexattr(cx, ino, name))
    }

    fn readdir(
        &mut self,
        cx: &mut Cx,
        dir: Ino,
        cookie: u64,
        each: &mut dyn FnMut(Dirent<'_>) -> bool,
    ) -> Result<(), FsError> {
        self.inner.readdir(cx, dir, cookie, each)
    }

    fn statfs(&mut self, cx: &mut Cx) -> Result<StatFs, FsError> {
        self.inner.statfs(cx)
    }

    fn drop_clean(&mut self, ino: Ino) {
        if let Some(slot) = self.inodes.find(ino) {
            self.drop_clean_pages(slot);
        }
    }

    fn open(&mut self, cx: &mut Cx, ino: Ino) -> Result<(), FsError> {
        self.inner.open(cx, ino)?;
        let slot = self.slot(cx, ino)?;
        self.inodes.at_mut(slot).opens += 1;
        Ok(())
    }

    fn release(&mut self, cx: &mut Cx, ino: Ino) -> Result<(), FsError> {
        self.inner.release(cx, ino)?;
        if let Some(slot) = self.inodes.find(ino) {
            let inode = self.inodes.at_mut(slot);
            inode.opens -= 1;
            if inode.opens == 0 && inode.is_unlinked {
                self.forget(slot);
            } else {
                self.inodes.remove_if_idle(slot);
            }
        }
        Ok(())
    }

    fn fsync(&mut self, cx: &mut Cx, ino: Ino, data_only: bool) -> Result<(), FsError> {
        self.fsync_file(cx, ino, data_only)
    }

    fn sync(&mut self, cx: &mut Cx) -> Result<(), FsError> {
        self.write_all(cx)?;
        self.inner.sync(cx)?;
        self.error.take().map_or(Ok(()), Err)
    }
}
