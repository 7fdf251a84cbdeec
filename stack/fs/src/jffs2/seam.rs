//! The file system behind the seam.

use sim::seam::{
    Attr, DeviceNumber, Dirent, FileSystem, FileType, Flash, FsError, Ino, NewInode, Payload, ReadInto, RenameFlags,
    SetAttr, SetXattr, StatFs,
};
use sim::{Cx, Ns};

use super::blocks::Sizes;
use super::collect::Pass;
use super::media::{PAGE_BYTES, ROOT_INO};
use super::{Jffs2, names};
use crate::jffs2::Result;

impl<F: Flash> Jffs2<F> {
    /// Writes what waits in the buffer of inode `ino`, or of any that a call wrote: by garbage collection, which fills the
    /// page with what is of use, or with padding where that does not help.
    /// Source: Linux 6.12, `jffs2_flush_wbuf_gc`.
    fn flush_for(&mut self, cx: &mut Cx, ino: Option<u32>) -> Result<()> {
        if !self.device.waits(ino) || self.options.known_bad.skip_write_buffer {
            return Ok(());
        }
        if self.blocks.totals.unchecked > 0 {
            return self.pad(cx);
        }
        while self.device.waits(ino) {
            match self.collect_pass(cx) {
                Ok(Pass::Done) => {}
                Err(error) if error.is_power_loss() => return Err(error),
                Ok(Pass::Again | Pass::NoSpace) | Err(_) => return self.pad(cx),
            }
        }
        Ok(())
    }

    /// Errors: an error of the flash made the file system read-only, and what it took for written may be lost.
    fn is_whole(&self) -> Result<()> {
        self.broken.map_or(Ok(()), |why| Err(FsError::ReadOnly { why }.into()))
    }

    /// Writes what waits in the buffer, padded to a page, because somebody asks for it.
    fn pad(&mut self, cx: &mut Cx) -> Result<()> {
        if self.options.known_bad.no_padding {
            return Ok(());
        }
        self.flush(cx)
    }

    /// When the write buffer is to be written if nobody asks for it: by a timer of Linux that was set to `interval`.
    pub fn flush_due(&self, interval: Ns) -> Option<Ns> {
        self.device.timer().map(|since| self.timer_ends(since, interval))
    }

    /// When a timer of Linux ends that is set to `span` at `from`. The tick counts that is under way. Longer ones end with one of the
    /// next 8 ticks, or 64, and so on.
    /// Source: Linux 6.12, `calc_wheel_index`.
    pub fn timer_ends(&self, from: Ns, span: Ns) -> Ns {
        const SECOND: u128 = 1_000_000_000;
        let hz = u128::from(self.options.hz);
        let ticks = (u128::from(span.0) * hz).div_ceil(SECOND) as u64;
        let level = (0..8).find(|&level| ticks < 63 << (3 * level)).unwrap_or(8);
        let unit = 1 << (3 * level);
        let end = ((self.tick_at(from) + ticks) / unit + 1) * unit;
        let since_boot = u128::from(end - self.tick_at(self.boot.at));
        Ns(self.boot.at.0 + (since_boot * SECOND).div_ceil(hz) as u64)
    }

    /// The timer of the write buffer has ended: what waits there is written.
    /// Errors: the flash's.
    pub fn flush_waiting(&mut self, cx: &mut Cx) -> Result<()> {
        self.device.stop_timer();
        self.flush_for(cx, None)
    }
}

impl<F: Flash> FileSystem for Jffs2<F> {
    fn keeps_bytes(&self) -> bool {
        F::KEEPS_BYTES && self.options.has_contents
    }

    fn root(&self) -> Ino {
        Ino(ROOT_INO.into())
    }

    fn lookup(&mut self, cx: &mut Cx, dir: Ino, name: &[u8]) -> Result<Attr, FsError> {
        self.bound_memory();
        let number = self.directory(cx, dir, name)?;
        let found = self.name(number, name).ok_or(FsError::NoEntry { dir })?;
        Ok(self.attr_of(cx, found.ino)?)
    }

    fn getattr(&mut self, cx: &mut Cx, ino: Ino) -> Result<Attr, FsError> {
        self.bound_memory();
        let number = self.get(cx, ino)?.ino;
        Ok(self.attr_of(cx, number)?)
    }

    fn setattr(&mut self, cx: &mut Cx, ino: Ino, change: &SetAttr) -> Result<Attr, FsError> {
        self.bound_memory();
        let number = self.set_attributes(cx, ino, change)?;
        Ok(self.attr_of(cx, number)?)
    }

    fn create(&mut self, cx: &mut Cx, dir: Ino, name: &[u8], new: NewInode) -> Result<Attr, FsError> {
        self.mknod(cx, dir, name, new, FileType::Regular, DeviceNumber::default())
    }

    fn mkdir(&mut self, cx: &mut Cx, dir: Ino, name: &[u8], new: NewInode) -> Result<Attr, FsError> {
        self.bound_memory();
        let number = self.make(cx, (dir, name), new, FileType::Directory, &[])?;
        Ok(self.attr_of(cx, number)?)
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
        self.bound_memory();
        if matches!(file_type, FileType::Directory | FileType::Symlink) {
            return Err(FsError::Invalid { why: "the type of a node" });
        }
        let data = self.device_data(file_type, device);
        let number = self.make(cx, (dir, name), new, file_type, &data)?;
        Ok(self.attr_of(cx, number)?)
    }

    fn symlink(&mut self, cx: &mut Cx, dir: Ino, name: &[u8], target: &[u8], new: NewInode) -> Result<Attr, FsError> {
        self.bound_memory();
        if target.is_empty() {
            return Err(FsError::NoEntry { dir });
        }
        let number = self.make(cx, (dir, name), new, FileType::Symlink, target)?;
        Ok(self.attr_of(cx, number)?)
    }

    fn readlink(&mut self, cx: &mut Cx, ino: Ino) -> Result<Vec<u8>, FsError> {
        let inode = self.get(cx, ino)?;
        match inode.file_type {
            FileType::Symlink => Ok(inode.data.clone()),
            _ => Err(FsError::Invalid { why: "no symbolic link" }),
        }
    }

    fn link(&mut self, cx: &mut Cx, ino: Ino, dir: Ino, name: &[u8]) -> Result<Attr, FsError> {
        self.bound_memory();
        let number = self.add_link(cx, ino, dir, name)?;
        Ok(self.attr_of(cx, number)?)
    }

    fn unlink(&mut self, cx: &mut Cx, dir: Ino, name: &[u8]) -> Result<(), FsError> {
        self.bound_memory();
        Ok(self.remove(cx, dir, name, false)?)
    }

    fn rmdir(&mut self, cx: &mut Cx, dir: Ino, name: &[u8]) -> Result<(), FsError> {
        self.bound_memory();
        Ok(self.remove(cx, dir, name, true)?)
    }

    fn rename(&mut self, cx: &mut Cx, from: (Ino, &[u8]), to: (Ino, &[u8]), flags: RenameFlags) -> Result<(), FsError> {
        self.bound_memory();
        Ok(self.move_name(cx, from, to, flags)?)
    }

    fn read(&mut self, cx: &mut Cx, ino: Ino, offset: u64, into: ReadInto<'_>) -> Result<u32, FsError> {
        self.bound_memory();
        Ok(self.read_file(cx, ino, offset, into)?)
    }

    fn write(&mut self, cx: &mut Cx, ino: Ino, offset: u64, data: Payload<'_>) -> Result<u32, FsError> {
        self.bound_memory();
        self.may_write()?;
        Ok(self.write_file(cx, ino, offset, data)?)
    }

    fn getxattr(&mut self, cx: &mut Cx, ino: Ino, name: &[u8]) -> Result<Vec<u8>, FsError> {
        Ok(self.xattr(cx, ino, name)?)
    }

    fn setxattr(&mut self, cx: &mut Cx, ino: Ino, name: &[u8], value: &[u8], how: SetXattr) -> Result<(), FsError> {
        Ok(self.set_xattr(cx, ino, name, value, how)?)
    }

    fn listxattr(&mut self, cx: &mut Cx, ino: Ino) -> Result<Vec<Vec<u8>>, FsError> {
        Ok(self.list_xattrs(cx, ino)?)
    }

    fn removexattr(&mut self, cx: &mut Cx, ino: Ino, name: &[u8]) -> Result<(), FsError> {
        Ok(self.remove_xattr(cx, ino, name)?)
    }

    fn readdir(
        &mut self,
        cx: &mut Cx,
        dir: Ino,
        cookie: u64,
        each: &mut dyn FnMut(Dirent<'_>) -> bool,
    ) -> Result<(), FsError> {
        let number = self.directory(cx, dir, b"")?;
        let inode = self.inode(number);
        let mut names: Vec<(&Vec<u8>, &super::inode::Name)> =
            inode.live_names().filter(|(_, name)| name.place >= cookie).collect();
        names.sort_by_key(|(_, name)| name.place);
        for (bytes, name) in names {
            let file_type = names::file_type(name.kind).unwrap_or(FileType::Regular);
            if !each(Dirent { ino: Ino(name.ino.into()), file_type, name: bytes, cookie: name.place + 1 }) {
                break;
            }
        }
        Ok(())
    }

    /// As Linux's: what is obsolete counts as free, less what writes must leave.
    fn statfs(&mut self, _: &mut Cx) -> Result<StatFs, FsError> {
        let Sizes { dirty, free, .. } = self.blocks.totals;
        let kept = u64::from(self.blocks.block_bytes) * u64::from(self.levels.write);
        let available = (u64::from(dirty) + u64::from(free)).saturating_sub(kept) / u64::from(PAGE_BYTES);
        let blocks = u64::from(self.blocks.bytes() / PAGE_BYTES);
        Ok(StatFs { block_bytes: PAGE_BYTES, blocks, free: available, available })
    }

    fn open(&mut self, cx: &mut Cx, ino: Ino) -> Result<(), FsError> {
        self.get(cx, ino)?.opens += 1;
        Ok(())
    }

    fn release(&mut self, cx: &mut Cx, ino: Ino) -> Result<(), FsError> {
        let inode = self.get(cx, ino)?;
        assert!(inode.opens > 0, "inode {ino} is released more often than opened");
        inode.opens -= 1;
        let (number, is_dead) = (inode.ino, inode.opens == 0 && inode.links == 0);
        if is_dead {
            self.delete(cx, number)?;
        }
        Ok(())
    }

    fn fsync(&mut self, cx: &mut Cx, ino: Ino, _data_only: bool) -> Result<(), FsError> {
        let number = self.get(cx, ino)?.ino;
        self.is_whole()?;
        Ok(self.flush_for(cx, Some(number))?)
    }

    fn sync(&mut self, cx: &mut Cx) -> Result<(), FsError> {
        self.is_whole()?;
        if self.options.known_bad.skip_write_buffer {
            return Ok(());
        }
        self.device.stop_timer();
        Ok(self.pad(cx)?)
    }
}
