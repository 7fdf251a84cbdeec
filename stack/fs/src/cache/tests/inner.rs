//! The model as an inner file system that takes time, notes what is written, and can be full.

use std::collections::{BTreeMap, VecDeque};

use sim::seam::{
    Attr, DeviceNumber, Dirent, FallocateMode, FileSystem, FileType, FsError, Held, Ino, NewInode, PageState, Payload,
    ReadInto, RenameFlags, SetAttr, SetXattr, StatFs, Timestamp,
};
use sim::{Cx, Ns};

use super::PAGE;
use crate::model::Model;

#[derive(Clone, Debug)]
pub struct Inner {
    pub model: Model,
    /// Time that a page takes that is written.
    pub page: Ns,
    /// Pages that can still be written.
    pub space: u64,
    /// Whether a write-back without space writes nothing rather than fail.
    pub is_short: bool,
    /// Calls that wrote: time of the end, inode, first page, pages.
    pub written: Vec<(Ns, Ino, u64, u64)>,
    /// Calls that read: inode, first page, pages.
    pub read: Vec<(Ino, u64, u64)>,
    /// Inodes that were to be written, and when.
    pub nodes: Vec<(Ns, Ino)>,
    /// Inodes that `setattr` made dirty.
    pub dirtied: VecDeque<Ino>,
    pub fsyncs: Vec<(Ino, bool)>,
    pub syncs: u32,
    /// Pages promised and not yet used or dropped.
    pub promised: u64,
    /// Of these, such as are new: of those of which the cache had nothing all, of the others a third.
    pub new: u64,
    /// With so many promised, each call that takes space wants some to be written first.
    pub most_promised: u64,
    /// Whether the last such call did.
    pub wants: bool,
    /// Whether each call that takes space fails, whatever is written.
    pub is_full: bool,
    /// Whether the page was new when it was promised last.
    pub was_new: BTreeMap<(Ino, u64), bool>,
}

impl Inner {
    pub fn new(keeps_bytes: bool) -> Inner {
        let epoch = Timestamp { seconds: 1_000, nanos: 0 };
        Inner {
            model: if keeps_bytes { Model::new(epoch) } else { Model::without_bytes(epoch) },
            page: Ns::ZERO,
            space: u64::MAX,
            is_short: false,
            written: Vec::new(),
            read: Vec::new(),
            nodes: Vec::new(),
            dirtied: VecDeque::new(),
            fsyncs: Vec::new(),
            syncs: 0,
            promised: 0,
            most_promised: u64::MAX,
            wants: false,
            is_full: false,
            new: 0,
            was_new: BTreeMap::new(),
        }
    }

    fn takes_space(&mut self) -> Result<(), FsError> {
        self.wants = !self.is_full && self.promised >= self.most_promised;
        if self.wants || self.is_full { Err(FsError::NoSpace) } else { Ok(()) }
    }

    fn note(&mut self, cx: &mut Cx, ino: Ino, offset: u64, length: u32) -> Result<u32, FsError> {
        let pages = u64::from(length).div_ceil(PAGE).min(self.space);
        if pages == 0 {
            return Err(FsError::NoSpace);
        }
        self.space -= pages;
        cx.spend(Ns(pages * self.page.0));
        self.written.push((cx.now(), ino, offset / PAGE, pages));
        Ok((pages * PAGE).min(length.into()) as u32)
    }
}

impl FileSystem for Inner {
    fn keeps_bytes(&self) -> bool {
        self.model.keeps_bytes()
    }
    fn root(&self) -> Ino {
        self.model.root()
    }
    fn lookup(&mut self, cx: &mut Cx, dir: Ino, name: &[u8]) -> Result<Attr, FsError> {
        self.model.lookup(cx, dir, name)
    }
    fn getattr(&mut self, cx: &mut Cx, ino: Ino) -> Result<Attr, FsError> {
        self.model.getattr(cx, ino)
    }
    fn setattr(&mut self, cx: &mut Cx, ino: Ino, change: &SetAttr) -> Result<Attr, FsError> {
        self.takes_space()?;
        self.dirtied.push_back(ino);
        self.model.setattr(cx, ino, change)
    }
    fn create(&mut self, cx: &mut Cx, dir: Ino, name: &[u8], new: NewInode) -> Result<Attr, FsError> {
        self.takes_space()?;
        self.model.create(cx, dir, name, new)
    }
    fn mkdir(&mut self, cx: &mut Cx, dir: Ino, name: &[u8], new: NewInode) -> Result<Attr, FsError> {
        self.takes_space()?;
        self.model.mkdir(cx, dir, name, new)
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
        self.takes_space()?;
        self.model.mknod(cx, dir, name, new, file_type, device)
    }
    fn symlink(&mut self, cx: &mut Cx, dir: Ino, name: &[u8], target: &[u8], new: NewInode) -> Result<Attr, FsError> {
        self.takes_space()?;
        self.model.symlink(cx, dir, name, target, new)
    }
    fn readlink(&mut self, cx: &mut Cx, ino: Ino) -> Result<Vec<u8>, FsError> {
        self.model.readlink(cx, ino)
    }
    fn link(&mut self, cx: &mut Cx, ino: Ino, dir: Ino, name: &[u8]) -> Result<Attr, FsError> {
        self.takes_space()?;
        self.model.link(cx, ino, dir, name)
    }
    fn unlink(&mut self, cx: &mut Cx, dir: Ino, name: &[u8]) -> Result<(), FsError> {
        self.takes_space()?;
        self.model.unlink(cx, dir, name)
    }
    fn rmdir(&mut self, cx: &mut Cx, dir: Ino, name: &[u8]) -> Result<(), FsError> {
        self.takes_space()?;
        self.model.rmdir(cx, dir, name)
    }
    fn rename(&mut self, cx: &mut Cx, from: (Ino, &[u8]), to: (Ino, &[u8]), flags: RenameFlags) -> Result<(), FsError> {
        self.takes_space()?;
        self.model.rename(cx, from, to, flags)
    }
    fn read(&mut self, cx: &mut Cx, ino: Ino, offset: u64, into: ReadInto<'_>) -> Result<u32, FsError> {
        let length = into.len();
        let read = self.model.read(cx, ino, offset, into)?;
        assert!(offset.is_multiple_of(PAGE), "a read begins within a page");
        assert_eq!(read, length, "a read goes beyond the end");
        self.read.push((ino, offset / PAGE, u64::from(length).div_ceil(PAGE)));
        Ok(read)
    }
    fn write(&mut self, cx: &mut Cx, ino: Ino, offset: u64, data: Payload<'_>) -> Result<u32, FsError> {
        let written = self.model.write(cx, ino, offset, data)?;
        if written > 0 {
            self.note(cx, ino, offset, written)?;
        }
        Ok(written)
    }
    fn hold_back(&mut self, cx: &mut Cx, ino: Ino, offset: u64, length: u32, page: PageState) -> Result<Held, FsError> {
        assert!(offset % PAGE + u64::from(length) <= PAGE, "a write is kept in more than one page");
        self.takes_space()?;
        let held = self.model.hold_back(cx, ino, offset, length, page)?;
        let is_new = held.is_new || (offset / PAGE).is_multiple_of(3);
        if page != PageState::Dirty {
            self.promised += 1;
            self.new += u64::from(is_new);
            self.was_new.insert((ino, offset / PAGE), is_new);
        }
        Ok(Held { is_new, ..held })
    }
    fn write_back(
        &mut self,
        cx: &mut Cx,
        ino: Ino,
        offset: u64,
        data: Payload<'_>,
        are_new: &[bool],
    ) -> Result<u32, FsError> {
        assert!(offset.is_multiple_of(PAGE), "a write-back begins within a page");
        let end = offset + u64::from(data.len());
        let size = self.model.getattr(cx, ino)?.size;
        assert!(end == size || end < size && end.is_multiple_of(PAGE), "a write-back ends within a page");
        assert_eq!(are_new.len() as u64, u64::from(data.len()).div_ceil(PAGE));
        if self.is_short && self.space == 0 {
            return Ok(0);
        }
        let length = self.note(cx, ino, offset, data.len()).inspect_err(|_| self.let_go(ino, are_new))?;
        let pages = u64::from(length).div_ceil(PAGE);
        for (page, &is_new) in (offset / PAGE..).zip(&are_new[..pages as usize]) {
            assert_eq!(self.was_new[&(ino, page)], is_new, "page {page}");
            self.new -= u64::from(is_new);
        }
        self.promised -= pages;
        self.model.write_back(cx, ino, offset, data.part(0, length), are_new)
    }
    fn next_dirtied(&mut self) -> Option<Ino> {
        self.dirtied.pop_front()
    }
    fn write_inode(&mut self, cx: &mut Cx, ino: Ino) -> Result<(), FsError> {
        self.nodes.push((cx.now(), ino));
        Ok(())
    }
    fn wants_write_back(&self) -> bool {
        self.wants
    }
    fn let_go(&mut self, _ino: Ino, are_new: &[bool]) {
        self.promised -= are_new.len() as u64;
        self.new -= are_new.iter().filter(|&&is_new| is_new).count() as u64;
        assert!(self.new <= self.promised);
    }
    fn fallocate(
        &mut self,
        cx: &mut Cx,
        ino: Ino,
        mode: FallocateMode,
        offset: u64,
        length: u64,
    ) -> Result<(), FsError> {
        assert_eq!(mode, FallocateMode::PUNCH_HOLE | FallocateMode::KEEP_SIZE);
        let size = self.model.getattr(cx, ino)?.size;
        let length = length.min(size.saturating_sub(offset)) as u32;
        self.model.write(cx, ino, offset, Payload::Length(length)).map(|_| ())
    }
    fn getxattr(&mut self, cx: &mut Cx, ino: Ino, name: &[u8]) -> Result<Vec<u8>, FsError> {
        self.model.getxattr(cx, ino, name)
    }
    fn setxattr(&mut self, cx: &mut Cx, ino: Ino, name: &[u8], value: &[u8], how: SetXattr) -> Result<(), FsError> {
        self.takes_space()?;
        self.model.setxattr(cx, ino, name, value, how)
    }
    fn listxattr(&mut self, cx: &mut Cx, ino: Ino) -> Result<Vec<Vec<u8>>, FsError> {
        self.model.listxattr(cx, ino)
    }
    fn removexattr(&mut self, cx: &mut Cx, ino: Ino, name: &[u8]) -> Result<(), FsError> {
        self.takes_space()?;
        self.model.removexattr(cx, ino, name)
    }
    fn readdir(
        &mut self,
        cx: &mut Cx,
        dir: Ino,
        cookie: u64,
        each: &mut dyn FnMut(Dirent<'_>) -> bool,
    ) -> Result<(), FsError> {
        self.model.readdir(cx, dir, cookie, each)
    }
    fn statfs(&mut self, cx: &mut Cx) -> Result<StatFs, FsError> {
        self.model.statfs(cx)
    }
    fn open(&mut self, cx: &mut Cx, ino: Ino) -> Result<(), FsError> {
        self.model.open(cx, ino)
    }
    fn release(&mut self, cx: &mut Cx, ino: Ino) -> Result<(), FsError> {
        self.model.release(cx, ino)
    }
    fn fsync(&mut self, cx: &mut Cx, ino: Ino, data_only: bool) -> Result<(), FsError> {
        self.fsyncs.push((ino, data_only));
        self.model.fsync(cx, ino, data_only)
    }
    fn sync(&mut self, cx: &mut Cx) -> Result<(), FsError> {
        self.syncs += 1;
        self.model.sync(cx)
    }
}
