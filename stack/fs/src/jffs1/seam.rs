//! The file system behind the seam.

use sim::Cx;
use sim::seam::{
    Attr, DeviceNumber, Dirent, FileSystem, FileType, Flash, FsError, Ino, InodeFlags, NewInode, Payload, ReadInto,
    RenameFlags, SetAttr, SetXattr, StatFs, Timestamp,
};

use super::Jffs1;
use super::media::ROOT_INO;
use super::medium::Result;

/// Unit of `statfs`.
const BLOCK_BYTES: u32 = 4096;

const NO_XATTRS: FsError = FsError::NotSupported { what: "extended attributes" };

impl<F: Flash> Jffs1<F> {
    pub(super) fn attr(&mut self, cx: &mut Cx, ino: Ino) -> Result<Attr> {
        let file_type = self.file(ino)?.file_type();
        let mut device = DeviceNumber::default();
        if file_type.is_device()
            && let Ok(number) = <[u8; 2]>::try_from(&self.whole(cx, ino)?[..])
        {
            let [major, minor] = self.options.endian.u16(number).to_be_bytes();
            device = DeviceNumber { major: major.into(), minor: minor.into() };
        }
        let file = self.file(ino)?;
        let nlink = match file_type {
            _ if file.deleted => 0,
            FileType::Directory => 2 + file.entries.values().filter(|below| self.files[below].is_dir()).count() as u32,
            _ => 1,
        };
        let time = |seconds: u32| Timestamp { seconds: seconds.into(), nanos: 0 };
        Ok(Attr {
            ino,
            file_type,
            mode: file.mode & 0o7777,
            uid: file.uid.into(),
            gid: file.gid.into(),
            nlink,
            size: file.size.into(),
            device,
            flags: InodeFlags::default(),
            atime: time(file.atime),
            mtime: time(file.shown.0),
            ctime: time(file.shown.1),
        })
    }
}

impl<F: Flash> FileSystem for Jffs1<F> {
    fn keeps_bytes(&self) -> bool {
        true
    }

    fn root(&self) -> Ino {
        Ino(ROOT_INO.into())
    }

    fn lookup(&mut self, cx: &mut Cx, dir: Ino, name: &[u8]) -> Result<Attr> {
        let ino = self.found(dir, name)?;
        self.attr(cx, ino)
    }

    fn getattr(&mut self, cx: &mut Cx, ino: Ino) -> Result<Attr> {
        self.attr(cx, ino)
    }

    fn setattr(&mut self, cx: &mut Cx, ino: Ino, change: &SetAttr) -> Result<Attr> {
        self.set_attributes(cx, ino, change)
    }

    fn create(&mut self, cx: &mut Cx, dir: Ino, name: &[u8], new: NewInode) -> Result<Attr> {
        self.make_plain(cx, dir, name, new, FileType::Regular)
    }

    fn mkdir(&mut self, cx: &mut Cx, dir: Ino, name: &[u8], new: NewInode) -> Result<Attr> {
        self.make_plain(cx, dir, name, new, FileType::Directory)
    }

    fn mknod(
        &mut self,
        cx: &mut Cx,
        dir: Ino,
        name: &[u8],
        new: NewInode,
        file_type: FileType,
        device: DeviceNumber,
    ) -> Result<Attr> {
        self.make_special(cx, dir, name, new, (file_type, device))
    }

    fn symlink(&mut self, cx: &mut Cx, dir: Ino, name: &[u8], target: &[u8], new: NewInode) -> Result<Attr> {
        self.make_symlink(cx, dir, name, target, new)
    }

    fn readlink(&mut self, cx: &mut Cx, ino: Ino) -> Result<Vec<u8>> {
        match self.file(ino)?.file_type() {
            FileType::Symlink => self.whole(cx, ino),
            _ => Err(FsError::Invalid { why: "no symbolic link" }),
        }
    }

    /// There are no hard links.
    fn link(&mut self, _: &mut Cx, ino: Ino, _: Ino, _: &[u8]) -> Result<Attr> {
        Err(FsError::NotPermitted { ino })
    }

    fn unlink(&mut self, cx: &mut Cx, dir: Ino, name: &[u8]) -> Result<()> {
        self.remove_name(cx, dir, name, false)
    }

    fn rmdir(&mut self, cx: &mut Cx, dir: Ino, name: &[u8]) -> Result<()> {
        self.remove_name(cx, dir, name, true)
    }

    fn rename(&mut self, cx: &mut Cx, from: (Ino, &[u8]), to: (Ino, &[u8]), flags: RenameFlags) -> Result<()> {
        self.move_name(cx, from, to, flags)
    }

    fn read(&mut self, cx: &mut Cx, ino: Ino, offset: u64, into: ReadInto<'_>) -> Result<u32> {
        self.read_file(cx, ino, offset, into)
    }

    fn write(&mut self, cx: &mut Cx, ino: Ino, offset: u64, data: Payload<'_>) -> Result<u32> {
        self.write_file(cx, ino, offset, data)
    }

    fn getxattr(&mut self, _: &mut Cx, _: Ino, _: &[u8]) -> Result<Vec<u8>> {
        Err(NO_XATTRS)
    }

    fn setxattr(&mut self, _: &mut Cx, _: Ino, _: &[u8], _: &[u8], _: SetXattr) -> Result<()> {
        Err(NO_XATTRS)
    }

    fn listxattr(&mut self, _: &mut Cx, ino: Ino) -> Result<Vec<Vec<u8>>> {
        self.file(ino).map(|_| Vec::new())
    }

    fn removexattr(&mut self, _: &mut Cx, _: Ino, _: &[u8]) -> Result<()> {
        Err(NO_XATTRS)
    }

    fn readdir(&mut self, _: &mut Cx, dir: Ino, cookie: u64, each: &mut dyn FnMut(Dirent<'_>) -> bool) -> Result<()> {
        let directory = self.file(dir)?;
        if !directory.is_dir() {
            return Err(FsError::NotDir { ino: dir });
        }
        for (&cookie, name) in directory.order.range(cookie + 1..) {
            let ino = directory.entries[name];
            let file_type = self.files[&ino].file_type();
            if !each(Dirent { ino: Ino(ino.into()), file_type, name, cookie }) {
                break;
            }
        }
        Ok(())
    }

    fn statfs(&mut self, _: &mut Cx) -> Result<StatFs> {
        let whole = self.log.size.saturating_sub(self.min_free());
        let free = (self.log.free() + self.log.dirty).saturating_sub(self.min_free());
        let blocks = |bytes: u32| u64::from(bytes / BLOCK_BYTES);
        Ok(StatFs { block_bytes: BLOCK_BYTES, blocks: blocks(whole), free: blocks(free), available: blocks(free) })
    }

    fn open(&mut self, _: &mut Cx, ino: Ino) -> Result<()> {
        self.file_mut(ino)?.opens += 1;
        Ok(())
    }

    fn release(&mut self, cx: &mut Cx, ino: Ino) -> Result<()> {
        let file = self.file_mut(ino)?;
        assert!(file.opens > 0, "inode {ino} is released more often than opened");
        file.opens -= 1;
        if file.deleted && file.opens == 0 {
            self.free_file(cx, ino.0 as u32)?;
        }
        Ok(())
    }

    /// Every change was written before its call returned.
    fn fsync(&mut self, _: &mut Cx, ino: Ino, _: bool) -> Result<()> {
        self.file(ino).map(|_| ())
    }

    fn sync(&mut self, _: &mut Cx) -> Result<()> {
        Ok(())
    }
}
