//! FUSE's requests: each becomes a call of the [`Bridge`], which lives in the thread that owns the file system.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::mpsc::Sender;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, IoctlFlags, KernelConfig, LockOwner,
    OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyIoctl,
    ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use sim::seam::{InodeFlags, NAME_MAX, NewInode};

use super::bridge::{Bridge, Change, Entry, WriteHow};
use super::convert;
use super::session::Event;

/// How long Linux may believe a name and what `stat` says. It makes every change itself, and knows of it.
const TTL: Duration = Duration::from_secs(3600);
/// Inode numbers are not used again.
const GENERATION: Generation = Generation(0);
/// The contents that Linux has of a file are right at the next opening too.
const OPENED: FopenFlags = FopenFlags::FOPEN_KEEP_CACHE;

/// `_IOR('f', 1, long)`, as 64-bit and as 32-bit programs have it.
const FS_IOC_GETFLAGS: [u32; 2] = [0x8008_6601, 0x8004_6601];
/// `_IOW('f', 2, long)`.
const FS_IOC_SETFLAGS: [u32; 2] = [0x4008_6602, 0x4004_6602];
/// `_IOR('X', 31, struct fsxattr)`: how Linux asks for the flags before it lets them be set.
const FS_IOC_FSGETXATTR: u32 = 0x801c_581f;
/// Bytes of `struct fsxattr`, which begins with the flags; the rest is for quotas and extents.
const FSXATTR_BYTES: usize = 28;

/// Work for the thread of the file system: a call and its reply.
pub type Job = Box<dyn FnOnce(&mut Bridge<'_>) + Send>;

/// Where requests arrive.
pub struct Requests {
    /// The thread of the file system.
    pub to: Sender<Event>,
}

impl Requests {
    /// If the thread of the file system is gone, the reply is dropped, and with that an I/O error.
    fn ask(&self, job: impl FnOnce(&mut Bridge<'_>) + Send + 'static) {
        let _ = self.to.send(Event::Request(Box::new(job)));
    }
}

/// Sends the reply for an operation that returns nothing.
fn done(reply: ReplyEmpty, result: Result<(), Errno>) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

fn entry(reply: ReplyEntry, result: Result<fuser::FileAttr, Errno>) {
    match result {
        Ok(attr) => reply.entry(&TTL, &attr, GENERATION),
        Err(error) => reply.error(error),
    }
}

fn attr(reply: ReplyAttr, result: Result<fuser::FileAttr, Errno>) {
    match result {
        Ok(attr) => reply.attr(&TTL, &attr),
        Err(error) => reply.error(error),
    }
}

fn data(reply: ReplyData, result: Result<Vec<u8>, Errno>) {
    match result {
        Ok(bytes) => reply.data(&bytes),
        Err(error) => reply.error(error),
    }
}

fn opened(reply: ReplyOpen, result: Result<u64, Errno>, flags: FopenFlags) {
    match result {
        Ok(number) => reply.opened(FileHandle(number), flags),
        Err(error) => reply.error(error),
    }
}

/// Of `most` bytes; 0 asks for the length.
fn attribute(reply: ReplyXattr, result: Result<Vec<u8>, Errno>, most: u32) {
    match result {
        Ok(value) if most == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() > most as usize => reply.error(Errno::ERANGE),
        Ok(value) => reply.data(&value),
        Err(error) => reply.error(error),
    }
}

/// The new inode of a request.
fn new(request: &Request, mode: u32) -> NewInode {
    NewInode { mode, uid: request.uid(), gid: request.gid() }
}

fn owned(name: &OsStr) -> Vec<u8> {
    name.as_bytes().to_vec()
}

impl Filesystem for Requests {
    fn init(&mut self, _: &Request, _: &mut KernelConfig) -> io::Result<()> {
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let name = owned(name);
        self.ask(move |bridge| entry(reply, bridge.lookup(parent, &name)));
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.ask(move |bridge| attr(reply, bridge.getattr(ino)));
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        fh: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let change = Change { mode, uid, gid, size, atime, mtime, is_open: fh.is_some() };
        self.ask(move |bridge| attr(reply, bridge.setattr(ino, &change)));
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        self.ask(move |bridge| data(reply, bridge.readlink(ino)));
    }

    fn mknod(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, rdev: u32, reply: ReplyEntry) {
        let (name, new) = (owned(name), new(request, mode));
        self.ask(move |bridge| entry(reply, bridge.mknod(parent, &name, new, rdev)));
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        let (name, new) = (owned(name), new(request, mode));
        self.ask(move |bridge| entry(reply, bridge.mkdir(parent, &name, new)));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = owned(name);
        self.ask(move |bridge| done(reply, bridge.unlink(parent, &name)));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = owned(name);
        self.ask(move |bridge| done(reply, bridge.rmdir(parent, &name)));
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let (name, target, new) = (owned(name), owned(target.as_os_str()), new(request, 0o777));
        self.ask(move |bridge| entry(reply, bridge.symlink(parent, &name, &target, new)));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (name, newname) = (owned(name), owned(newname));
        self.ask(move |bridge| done(reply, bridge.rename((parent, &name), (newparent, &newname), flags.bits())));
    }

    fn link(&self, _: &Request, ino: INodeNo, newparent: INodeNo, newname: &OsStr, reply: ReplyEntry) {
        let newname = owned(newname);
        self.ask(move |bridge| entry(reply, bridge.link(ino, newparent, &newname)));
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.ask(move |bridge| opened(reply, bridge.open(ino, flags.0), OPENED));
    }

    fn create(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, _: i32, reply: ReplyCreate) {
        let (name, new) = (owned(name), new(request, mode));
        self.ask(move |bridge| match bridge.create(parent, &name, new) {
            Ok((attr, number)) => reply.created(&TTL, &attr, GENERATION, FileHandle(number), OPENED),
            Err(error) => reply.error(error),
        });
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.ask(move |bridge| data(reply, bridge.read(ino, offset, size)));
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let data = data.to_vec();
        let how = WriteHow { flags: flags.0, kill_set_id: write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID) };
        self.ask(move |bridge| match bridge.write(fh.0, ino, offset, &data, how) {
            Ok(written) => reply.written(written),
            Err(error) => reply.error(error),
        });
    }

    /// Nothing waits for a file to be closed.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.ask(move |bridge| done(reply, bridge.release(fh.0)));
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, datasync: bool, reply: ReplyEmpty) {
        self.ask(move |bridge| done(reply, bridge.fsync(ino, datasync)));
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.ask(move |bridge| opened(reply, bridge.opendir(ino), FopenFlags::empty()));
    }

    fn readdir(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        self.ask(move |bridge| {
            let listed = bridge.readdir(ino, offset, &mut |Entry { ino, kind, name, next }| {
                !reply.add(ino, next, kind, OsStr::from_bytes(name))
            });
            match listed {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(error),
            }
        });
    }

    fn releasedir(&self, _: &Request, _: INodeNo, fh: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.ask(move |bridge| done(reply, bridge.release(fh.0)));
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, datasync: bool, reply: ReplyEmpty) {
        self.ask(move |bridge| done(reply, bridge.fsync(ino, datasync)));
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        self.ask(move |bridge| match bridge.statfs() {
            Ok(found) => {
                let unit = found.block_bytes;
                reply.statfs(found.blocks, found.free, found.available, 0, 0, unit, NAME_MAX as u32, unit);
            }
            Err(error) => reply.error(error),
        });
    }

    fn setxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, value: &[u8], flags: i32, _: u32, reply: ReplyEmpty) {
        let (name, value) = (owned(name), value.to_vec());
        self.ask(move |bridge| done(reply, bridge.setxattr(ino, &name, &value, flags)));
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let name = owned(name);
        self.ask(move |bridge| attribute(reply, bridge.getxattr(ino, &name), size));
    }

    fn listxattr(&self, request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let is_root = request.uid() == 0;
        self.ask(move |bridge| attribute(reply, bridge.listxattr(ino, is_root), size));
    }

    fn removexattr(&self, _: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = owned(name);
        self.ask(move |bridge| done(reply, bridge.removexattr(ino, &name)));
    }

    /// `lsattr` and `chattr`: Linux passes the flags as 4 bytes, whatever the command's name says.
    fn ioctl(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        cmd: u32,
        in_data: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        let given = in_data.first_chunk().map(|&bytes| u32::from_ne_bytes(bytes));
        self.ask(move |bridge| {
            let result = match (cmd, given) {
                (cmd, _) if FS_IOC_GETFLAGS.contains(&cmd) => {
                    bridge.flags(ino).map(|flags| flags.to_ne_bytes().to_vec())
                }
                (FS_IOC_FSGETXATTR, _) => bridge.flags(ino).map(|flags| {
                    let mut fsxattr = convert::xflags(InodeFlags(flags)).to_ne_bytes().to_vec();
                    fsxattr.resize(FSXATTR_BYTES, 0);
                    fsxattr
                }),
                (cmd, Some(flags)) if FS_IOC_SETFLAGS.contains(&cmd) => {
                    bridge.set_flags(ino, flags).map(|()| Vec::new())
                }
                _ => Err(Errno::ENOTTY),
            };
            match result {
                Ok(out) => reply.ioctl(0, &out),
                Err(error) => reply.error(error),
            }
        });
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.ask(move |bridge| done(reply, bridge.fallocate(ino, mode, offset, length)));
    }
}
