//! Any file system behind the seam, as FUSE asks for it.
//!
//! Linux does most of what the seam leaves to its caller: it walks paths, checks permissions (`default_permissions`),
//! applies the umask, takes away set-user-ID bits. Three things are left, for Linux does not know of them here:
//!
//! - [`InodeFlags::IMMUTABLE`] and [`InodeFlags::APPEND`] are checked, as Linux does above its own file systems;
//! - set-user-ID bits go at a write past the page cache, where FUSE asks for it;
//! - a write of a file that was opened with `O_SYNC` or `O_DSYNC`, or has [`InodeFlags::SYNC`], is followed by a sync.
//!
//! FUSE calls the root inode 1. If the file system does not, the two numbers change places.

use std::collections::BTreeMap;
use std::time::Duration;

use fs::jffs2::Jffs2;
use fs::ubifs::{Reader, Ubifs};
use fuser::{Errno, FileAttr, INodeNo, TimeOrNow};
use rustix::fs::OFlags;
use sim::seam::{
    Attr, FallocateMode, FileSystem, FileType, Flash, FsError, Ino, InodeFlags, LebVolume, NAME_MAX, NewInode, Payload,
    ReadInto, RenameFlags, SetAttr, SetXattr, StatFs,
};
use sim::{Cx, Ns};

use super::clock::Clock;
use super::convert;
use crate::image::{Opened, is_component};

/// Flags that `chattr` may set, as on UBIFS.
const SETTABLE: InodeFlags = InodeFlags(
    InodeFlags::COMPRESSED.0
        | InodeFlags::SYNC.0
        | InodeFlags::IMMUTABLE.0
        | InodeFlags::APPEND.0
        | InodeFlags::DIR_SYNC.0,
);
const UNCHANGEABLE: InodeFlags = InodeFlags(InodeFlags::IMMUTABLE.0 | InodeFlags::APPEND.0);
/// Flags of `open`, on x86 and ARM. rustix 1.1 gives `OFlags::DSYNC` the number of `O_SYNC`.
const O_DSYNC: i32 = 0o10_000;
const O_SYNC: i32 = 0o4_010_000;
/// Most errors of the medium that are printed: each is one line.
const MOST_REPORTED: u32 = 32;

/// A file system with work of its own between requests.
pub trait Served: FileSystem {
    /// When [`wake`](Self::wake) has something to do; `last` is when it was called last.
    fn next_wake(&self, _last: Ns) -> Option<Ns> {
        None
    }

    /// Does what is due: writes what has waited long enough.
    /// Errors: those of a file system.
    fn wake(&mut self, _cx: &mut Cx) -> std::result::Result<(), FsError> {
        Ok(())
    }
}

impl<V: LebVolume> Served for Reader<V> {}

/// Between two passes of JFFS2's thread. Source: Linux 6.12, `jffs2_garbage_collect_thread`.
const PAUSE: Ns = Ns(50_000_000);
/// After which the write buffer of JFFS2 is written. Source: Linux 6.12, `dirty_writeback_interval`.
const WRITE_BACK: Ns = Ns(5_000_000_000);

impl<F: Flash> Served for Jffs2<F> {
    fn next_wake(&self, last: Ns) -> Option<Ns> {
        if self.is_read_only() {
            return None;
        }
        let collects = self.has_work().then_some(Ns(last.0.saturating_add(PAUSE.0)));
        [collects, self.flush_due(WRITE_BACK)].into_iter().flatten().min()
    }

    fn wake(&mut self, cx: &mut Cx) -> std::result::Result<(), FsError> {
        if self.flush_due(WRITE_BACK).is_some_and(|due| due <= cx.now()) {
            self.flush_waiting(cx)?;
        }
        if self.has_work() {
            self.collect(cx)?;
        }
        Ok(())
    }
}

/// The file system of an image that is open for reading.
pub fn served<'f>(fs: &'f mut Opened<'_, '_>) -> &'f mut dyn Served {
    match fs {
        Opened::Ubifs(reader) => &mut **reader,
        Opened::Jffs2(fs) => &mut **fs,
    }
}

impl<V: LebVolume> Served for Ubifs<V> {
    fn next_wake(&self, _: Ns) -> Option<Ns> {
        Ubifs::next_wake(self)
    }

    fn wake(&mut self, cx: &mut Cx) -> std::result::Result<(), FsError> {
        Ubifs::wake(self, cx)
    }
}

/// What a request changes of an inode.
#[derive(Clone, Copy, Debug, Default)]
pub struct Change {
    /// Permissions; bits of the type are ignored.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Bytes of a regular file.
    pub size: Option<u64>,
    /// Time of the last access.
    pub atime: Option<TimeOrNow>,
    /// Time of the last change of the contents.
    pub mtime: Option<TimeOrNow>,
    /// Whether the file is open for the caller, who was asked for permission then.
    pub is_open: bool,
}

/// An entry of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Inode.
    pub ino: INodeNo,
    /// Type.
    pub kind: fuser::FileType,
    /// Name.
    pub name: &'a [u8],
    /// Where to go on after this entry.
    pub next: u64,
}

/// How a write is done.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteHow {
    /// Flags of the open file, as `open` has them.
    pub flags: i32,
    /// Whether set-user-ID bits go.
    pub kill_set_id: bool,
}

/// An open file or directory.
#[derive(Debug)]
struct Handle {
    ino: Ino,
    /// Whether each write is followed by a sync.
    is_sync: bool,
}

/// A file system that FUSE asks.
pub struct Bridge<'f> {
    fs: &'f mut dyn Served,
    cx: &'f mut Cx,
    clock: Clock,
    handles: BTreeMap<u64, Handle>,
    next_handle: u64,
    /// Parents of directories that were looked up, for `..`.
    parents: BTreeMap<Ino, Ino>,
    reported: u32,
    /// Whether the last work between requests failed.
    failed: bool,
    /// When it was done last.
    woken: Ns,
}

type Result<T> = std::result::Result<T, Errno>;

fn refuse(attr: &Attr, flags: InodeFlags) -> Result<()> {
    if attr.flags.0 & flags.0 != 0 { Err(Errno::EPERM) } else { Ok(()) }
}

fn check_name(name: &[u8]) -> Result<()> {
    if name.len() > NAME_MAX { Err(Errno::ENAMETOOLONG) } else { Ok(()) }
}

impl<'f> Bridge<'f> {
    /// A bridge to `fs`, whose times are those of `clock`.
    pub fn new(fs: &'f mut dyn Served, cx: &'f mut Cx, clock: Clock) -> Bridge<'f> {
        Bridge {
            fs,
            cx,
            clock,
            handles: BTreeMap::new(),
            next_handle: 1,
            parents: BTreeMap::new(),
            reported: 0,
            failed: false,
            woken: Ns::ZERO,
        }
    }

    /// Sets the time to the present; to be called before each request.
    pub fn tick(&mut self) {
        self.failed = false;
        self.clock.set(self.cx);
    }

    /// How long the file system has nothing to do; `None` for ever.
    pub fn idle(&self) -> Option<Duration> {
        self.fs.next_wake(self.woken).filter(|_| !self.failed).map(|at| self.clock.until(at))
    }

    /// Does what the file system has to do between requests. After an error it is left alone until the next request.
    pub fn wake(&mut self) {
        self.tick();
        self.woken = self.cx.now();
        self.failed = self.ask(|fs, cx| fs.wake(cx)).is_err();
    }

    fn errno(&mut self, error: &FsError) -> Errno {
        let is_medium = matches!(error, FsError::Corrupt { .. } | FsError::Medium(_));
        if is_medium && self.reported < MOST_REPORTED {
            self.reported += 1;
            eprintln!("error: {error}");
        }
        convert::errno(error)
    }

    /// Calls the file system.
    fn ask<T>(&mut self, call: impl FnOnce(&mut dyn Served, &mut Cx) -> std::result::Result<T, FsError>) -> Result<T> {
        let asked = call(self.fs, self.cx);
        asked.map_err(|error| self.errno(&error))
    }

    /// The number that the file system has for one of FUSE's, and the other way round.
    fn swap(&self, ino: u64) -> u64 {
        match (self.fs.root().0, INodeNo::ROOT.0) {
            (root, one) if ino == one => root,
            (root, one) if ino == root => one,
            _ => ino,
        }
    }

    fn inner(&self, ino: INodeNo) -> Ino {
        Ino(self.swap(ino.0))
    }

    fn outer(&self, ino: Ino) -> INodeNo {
        INodeNo(self.swap(ino.0))
    }

    /// What was found or made in `dir`.
    fn found(&mut self, dir: Ino, attr: &Attr) -> FileAttr {
        self.has_parent(attr, dir);
        convert::file_attr(attr, self.outer(attr.ino))
    }

    fn has_parent(&mut self, attr: &Attr, dir: Ino) {
        if attr.file_type == FileType::Directory {
            self.parents.insert(attr.ino, dir);
        }
    }

    fn attr(&mut self, ino: Ino) -> Result<Attr> {
        self.ask(|fs, cx| fs.getattr(cx, ino))
    }

    /// Errors: a directory in which nothing may be made.
    fn may_create(&mut self, dir: Ino, name: &[u8]) -> Result<()> {
        check_name(name)?;
        refuse(&self.attr(dir)?, InodeFlags::IMMUTABLE)
    }

    /// Errors: a name that may not be taken away, or is not there.
    fn may_delete(&mut self, dir: Ino, name: &[u8]) -> Result<Attr> {
        check_name(name)?;
        refuse(&self.attr(dir)?, UNCHANGEABLE)?;
        let victim = self.ask(|fs, cx| fs.lookup(cx, dir, name))?;
        refuse(&victim, UNCHANGEABLE)?;
        Ok(victim)
    }

    /// The inode behind a name.
    pub fn lookup(&mut self, dir: INodeNo, name: &[u8]) -> Result<FileAttr> {
        check_name(name)?;
        let dir = self.inner(dir);
        let attr = self.ask(|fs, cx| fs.lookup(cx, dir, name))?;
        Ok(self.found(dir, &attr))
    }

    /// What is known of an inode.
    pub fn getattr(&mut self, ino: INodeNo) -> Result<FileAttr> {
        let inner = self.inner(ino);
        Ok(convert::file_attr(&self.attr(inner)?, ino))
    }

    /// Changes an inode.
    pub fn setattr(&mut self, ino: INodeNo, change: &Change) -> Result<FileAttr> {
        let (inner, Change { mode, uid, gid, size, atime, mtime, is_open }) = (self.inner(ino), *change);
        let now = self.clock.present(self.cx);
        let is_set = |time: Option<TimeOrNow>| matches!(time, Some(TimeOrNow::SpecificTime(_)));
        let time = |time: TimeOrNow| match time {
            TimeOrNow::SpecificTime(time) => convert::requested(time),
            TimeOrNow::Now => now,
        };
        let set = SetAttr {
            mode: mode.map(|mode| mode & 0o7777),
            uid,
            gid,
            size,
            atime: atime.map(time),
            mtime: mtime.map(time),
            flags: None,
        };
        let before = self.attr(inner)?;
        if set == SetAttr::default() {
            return Ok(convert::file_attr(&before, ino));
        }
        if mode.is_some() || uid.is_some() || gid.is_some() || is_set(atime) || is_set(mtime) {
            refuse(&before, UNCHANGEABLE)?;
        } else if size.is_some() {
            refuse(&before, if is_open { InodeFlags::APPEND } else { UNCHANGEABLE })?;
        } else {
            refuse(&before, InodeFlags::IMMUTABLE)?;
        }
        let attr = self.ask(|fs, cx| fs.setattr(cx, inner, &set))?;
        Ok(convert::file_attr(&attr, ino))
    }

    /// Flags of an inode, as `FS_IOC_GETFLAGS` has them.
    pub fn flags(&mut self, ino: INodeNo) -> Result<u32> {
        let ino = self.inner(ino);
        Ok(self.attr(ino)?.flags.0)
    }

    /// Sets the flags of an inode, as `FS_IOC_SETFLAGS` does. Linux has asked for permission.
    pub fn set_flags(&mut self, ino: INodeNo, flags: u32) -> Result<()> {
        let ino = self.inner(ino);
        if flags & !SETTABLE.0 != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        let is_dir = self.attr(ino)?.file_type == FileType::Directory;
        let flags = InodeFlags(if is_dir { flags } else { flags & !InodeFlags::DIR_SYNC.0 });
        self.ask(|fs, cx| fs.setattr(cx, ino, &SetAttr { flags: Some(flags), ..SetAttr::default() }))?;
        Ok(())
    }

    /// Target of a symbolic link.
    pub fn readlink(&mut self, ino: INodeNo) -> Result<Vec<u8>> {
        let ino = self.inner(ino);
        self.ask(|fs, cx| fs.readlink(cx, ino))
    }

    /// Makes an inode of the type that `mode` says.
    pub fn mknod(&mut self, dir: INodeNo, name: &[u8], new: NewInode, rdev: u32) -> Result<FileAttr> {
        let dir = self.inner(dir);
        let file_type = convert::file_type(new.mode).ok_or(Errno::EINVAL)?;
        let device = if file_type.is_device() { convert::device(rdev) } else { Default::default() };
        let new = NewInode { mode: new.mode & 0o7777, ..new };
        self.may_create(dir, name)?;
        let attr = self.ask(|fs, cx| fs.mknod(cx, dir, name, new, file_type, device))?;
        Ok(self.found(dir, &attr))
    }

    /// Makes a directory.
    pub fn mkdir(&mut self, dir: INodeNo, name: &[u8], new: NewInode) -> Result<FileAttr> {
        let dir = self.inner(dir);
        let new = NewInode { mode: new.mode & 0o7777, ..new };
        self.may_create(dir, name)?;
        let attr = self.ask(|fs, cx| fs.mkdir(cx, dir, name, new))?;
        Ok(self.found(dir, &attr))
    }

    /// Makes a symbolic link.
    pub fn symlink(&mut self, dir: INodeNo, name: &[u8], target: &[u8], new: NewInode) -> Result<FileAttr> {
        let dir = self.inner(dir);
        self.may_create(dir, name)?;
        let attr = self.ask(|fs, cx| fs.symlink(cx, dir, name, target, new))?;
        Ok(self.found(dir, &attr))
    }

    /// Gives an inode another name.
    pub fn link(&mut self, ino: INodeNo, dir: INodeNo, name: &[u8]) -> Result<FileAttr> {
        let (ino, dir) = (self.inner(ino), self.inner(dir));
        self.may_create(dir, name)?;
        refuse(&self.attr(ino)?, UNCHANGEABLE)?;
        let attr = self.ask(|fs, cx| fs.link(cx, ino, dir, name))?;
        Ok(self.found(dir, &attr))
    }

    /// Removes a name of what is no directory.
    pub fn unlink(&mut self, dir: INodeNo, name: &[u8]) -> Result<()> {
        let dir = self.inner(dir);
        self.may_delete(dir, name)?;
        self.ask(|fs, cx| fs.unlink(cx, dir, name))
    }

    /// Removes an empty directory.
    pub fn rmdir(&mut self, dir: INodeNo, name: &[u8]) -> Result<()> {
        let dir = self.inner(dir);
        let victim = self.may_delete(dir, name)?;
        self.ask(|fs, cx| fs.rmdir(cx, dir, name))?;
        self.parents.remove(&victim.ino);
        Ok(())
    }

    /// Moves a name; `flags` are those of `renameat2`.
    pub fn rename(&mut self, from: (INodeNo, &[u8]), to: (INodeNo, &[u8]), flags: u32) -> Result<()> {
        let flags = RenameFlags(flags);
        let (from, to) = ((self.inner(from.0), from.1), (self.inner(to.0), to.1));
        let moved = self.may_delete(from.0, from.1)?;
        self.may_create(to.0, to.1)?;
        let target = match self.fs.lookup(self.cx, to.0, to.1) {
            Ok(_) => Some(self.may_delete(to.0, to.1)?),
            Err(_) => None,
        };
        self.ask(|fs, cx| fs.rename(cx, from, to, flags))?;
        self.has_parent(&moved, to.0);
        if let Some(target) = target.filter(|_| flags.has(RenameFlags::EXCHANGE)) {
            self.has_parent(&target, from.0);
        }
        Ok(())
    }

    /// Opens a file; `flags` are those of `open`. Returns a number for it.
    pub fn open(&mut self, ino: INodeNo, flags: i32) -> Result<u64> {
        let ino = self.inner(ino);
        let attr = self.attr(ino)?;
        let flags = OFlags::from_bits_retain(flags as u32);
        if !(flags & OFlags::ACCMODE).is_empty() {
            refuse(&attr, if flags.contains(OFlags::APPEND) { InodeFlags::IMMUTABLE } else { UNCHANGEABLE })?;
        }
        self.hold(&attr)
    }

    fn hold(&mut self, attr: &Attr) -> Result<u64> {
        let ino = attr.ino;
        self.ask(|fs, cx| fs.open(cx, ino))?;
        let number = self.next_handle;
        self.next_handle += 1;
        self.handles.insert(number, Handle { ino, is_sync: attr.flags.has(InodeFlags::SYNC) });
        Ok(number)
    }

    /// Makes an empty regular file and opens it. Returns a number for the open file.
    pub fn create(&mut self, dir: INodeNo, name: &[u8], new: NewInode) -> Result<(FileAttr, u64)> {
        let dir = self.inner(dir);
        let new = NewInode { mode: new.mode & 0o7777, ..new };
        self.may_create(dir, name)?;
        let attr = self.ask(|fs, cx| fs.create(cx, dir, name, new))?;
        let number = self.hold(&attr)?;
        Ok((self.found(dir, &attr), number))
    }

    /// Closes an open file or directory.
    pub fn release(&mut self, handle: u64) -> Result<()> {
        let Handle { ino, .. } = self.handles.remove(&handle).ok_or(Errno::EBADF)?;
        self.ask(|fs, cx| fs.release(cx, ino))
    }

    /// Reads up to `length` bytes; fewer where the file ends.
    pub fn read(&mut self, ino: INodeNo, offset: u64, length: u32) -> Result<Vec<u8>> {
        let ino = self.inner(ino);
        let mut bytes = vec![0; length as usize];
        let read = self.ask(|fs, cx| fs.read(cx, ino, offset, ReadInto::Bytes(&mut bytes)))?;
        bytes.truncate(read as usize);
        Ok(bytes)
    }

    /// Writes; returns the number of bytes written.
    pub fn write(&mut self, handle: u64, ino: INodeNo, offset: u64, data: &[u8], how: WriteHow) -> Result<u32> {
        let ino = self.inner(ino);
        if how.kill_set_id {
            self.kill_set_id(ino)?;
        }
        let written = self.ask(|fs, cx| fs.write(cx, ino, offset, Payload::Bytes(data)))?;
        let has = |flags: i32| how.flags & flags == flags;
        let is_sync = has(O_SYNC) || self.handles.get(&handle).is_some_and(|open| open.is_sync);
        if is_sync || has(O_DSYNC) {
            self.ask(|fs, cx| fs.fsync(cx, ino, !is_sync))?;
        }
        Ok(written)
    }

    /// Takes away set-user-ID, and set-group-ID where the group may execute the file: elsewhere it asks for locks.
    fn kill_set_id(&mut self, ino: Ino) -> Result<()> {
        let attr = self.attr(ino)?;
        let killed = if attr.mode & 0o010 != 0 { 0o6000 } else { 0o4000 };
        if attr.file_type != FileType::Regular || attr.mode & killed == 0 {
            return Ok(());
        }
        let change = SetAttr { mode: Some(attr.mode & !killed), ..SetAttr::default() };
        self.ask(|fs, cx| fs.setattr(cx, ino, &change))?;
        Ok(())
    }

    /// Reserves or removes space; `mode` is that of `fallocate`.
    pub fn fallocate(&mut self, ino: INodeNo, mode: i32, offset: u64, length: u64) -> Result<()> {
        let ino = self.inner(ino);
        let mode = FallocateMode(mode as u32);
        let attr = self.attr(ino)?;
        let only_grows = mode.0 & !FallocateMode::KEEP_SIZE.0 == 0;
        refuse(&attr, if only_grows { InodeFlags::IMMUTABLE } else { UNCHANGEABLE })?;
        self.ask(|fs, cx| fs.fallocate(cx, ino, mode, offset, length))
    }

    /// After it returns, an inode and its contents survive the end of this process.
    pub fn fsync(&mut self, ino: INodeNo, data_only: bool) -> Result<()> {
        let ino = self.inner(ino);
        self.ask(|fs, cx| fs.fsync(cx, ino, data_only))
    }

    /// Opens a directory.
    pub fn opendir(&mut self, ino: INodeNo) -> Result<u64> {
        let ino = self.inner(ino);
        let attr = self.attr(ino)?;
        self.hold(&attr)
    }

    /// Calls `each` with the entries of a directory from `offset` on, `.` and `..` first, until it returns false.
    /// What no file may be called is left out: Linux would refuse the whole directory.
    pub fn readdir(&mut self, dir: INodeNo, offset: u64, each: &mut dyn FnMut(Entry<'_>) -> bool) -> Result<()> {
        /// Where the entries of the file system begin: after `.` and `..`.
        const FIRST: u64 = 2;
        let inner = self.inner(dir);
        let parent = self.parents.get(&inner).map_or(dir, |&parent| self.outer(parent));
        let dots: [(INodeNo, &[u8]); 2] = [(dir, b"."), (parent, b"..")];
        for ((ino, name), next) in dots.into_iter().zip(1..).skip(offset.min(FIRST) as usize) {
            if !each(Entry { ino, kind: fuser::FileType::Directory, name, next }) {
                return Ok(());
            }
        }
        let root = self.fs.root();
        let cookie = offset.saturating_sub(FIRST);
        self.ask(|fs, cx| {
            fs.readdir(cx, inner, cookie, &mut |entry| {
                let ino = match entry.ino {
                    ino if ino == root => INodeNo::ROOT,
                    Ino(ino) if ino == INodeNo::ROOT.0 => INodeNo(root.0),
                    Ino(ino) => INodeNo(ino),
                };
                let (kind, name, next) = (convert::kind(entry.file_type), entry.name, entry.cookie + FIRST);
                !is_component(name) || each(Entry { ino, kind, name, next })
            })
        })
    }

    /// Size and free space.
    pub fn statfs(&mut self) -> Result<StatFs> {
        self.ask(|fs, cx| fs.statfs(cx))
    }

    /// Value of an extended attribute.
    pub fn getxattr(&mut self, ino: INodeNo, name: &[u8]) -> Result<Vec<u8>> {
        let ino = self.inner(ino);
        self.ask(|fs, cx| fs.getxattr(cx, ino, name))
    }

    /// Sets an extended attribute; `flags` are those of `setxattr`.
    pub fn setxattr(&mut self, ino: INodeNo, name: &[u8], value: &[u8], flags: i32) -> Result<()> {
        let ino = self.inner(ino);
        let how = match flags {
            0 => SetXattr::Set,
            1 => SetXattr::Create,
            2 => SetXattr::Replace,
            _ => return Err(Errno::EINVAL),
        };
        refuse(&self.attr(ino)?, UNCHANGEABLE)?;
        self.ask(|fs, cx| fs.setxattr(cx, ino, name, value, how))
    }

    /// Names of the extended attributes, each with a final 0. Those of `trusted.` are for root alone.
    pub fn listxattr(&mut self, ino: INodeNo, is_root: bool) -> Result<Vec<u8>> {
        let ino = self.inner(ino);
        let names = self.ask(|fs, cx| fs.listxattr(cx, ino))?;
        let shown = names.into_iter().filter(|name| is_root || !name.starts_with(b"trusted."));
        Ok(shown.flat_map(|name| name.into_iter().chain([0])).collect())
    }

    /// Removes an extended attribute.
    pub fn removexattr(&mut self, ino: INodeNo, name: &[u8]) -> Result<()> {
        let ino = self.inner(ino);
        refuse(&self.attr(ino)?, UNCHANGEABLE)?;
        self.ask(|fs, cx| fs.removexattr(cx, ino, name))
    }

    /// Closes what is still open and writes everything: FUSE tells nothing of closings at an unmount.
    /// Errors: the first one; the rest was done as far as possible.
    pub fn finish(mut self) -> std::result::Result<(), FsError> {
        self.tick();
        let open = std::mem::take(&mut self.handles);
        let released =
            open.into_values().map(|open| self.fs.release(self.cx, open.ino)).fold(Ok(()), std::result::Result::and);
        released.and(self.fs.sync(self.cx))
    }
}
