//! Calls of the bridge, without a kernel.

use std::time::{Duration, UNIX_EPOCH};

use fs::model::Model;
use fuser::{Errno, INodeNo, TimeOrNow};
use sim::seam::{
    Attr, DeviceNumber, Dirent, FallocateMode, FileSystem, FileType, FsError, Ino, NewInode, Payload, ReadInto,
    RenameFlags, SetAttr, SetXattr, StatFs,
};
use sim::{Cx, Lnum};

use super::super::bridge::{Bridge, Change, Entry, Served, WriteHow};
use super::super::clock::Clock;
use super::model;

const ROOT: INodeNo = INodeNo::ROOT;
/// `chattr +i`, `+a`, `+S`; linux/fs.h.
const IMMUTABLE: u32 = 0x10;
const APPEND: u32 = 0x20;
const SYNC: u32 = 0x8;
/// asm-generic/fcntl.h.
const O_WRONLY: i32 = 1;
const O_RDWR: i32 = 2;
const O_APPEND: i32 = 0o2000;
const O_DSYNC: i32 = 0o10_000;
const O_SYNC: i32 = 0o4_010_000;

fn new(mode: u32) -> NewInode {
    NewInode { mode, uid: 7, gid: 8 }
}

/// Calls `work` with a bridge to an empty file system.
fn bridged(fs: &mut dyn Served, work: impl FnOnce(&mut Bridge<'_>)) {
    let mut cx = Cx::new();
    let mut bridge = Bridge::new(fs, &mut cx, Clock::SINCE_1970);
    bridge.tick();
    work(&mut bridge);
    bridge.finish().expect("it ends");
}

/// Names, inodes and cookies from `offset` on, at most `most`.
fn listed(bridge: &mut Bridge<'_>, dir: INodeNo, offset: u64, most: usize) -> Vec<(String, u64, u64)> {
    let mut found = Vec::new();
    let listed = bridge.readdir(dir, offset, &mut |Entry { ino, name, next, .. }| {
        let goes_on = found.len() < most;
        if goes_on {
            found.push((String::from_utf8_lossy(name).into_owned(), ino.0, next));
        }
        goes_on
    });
    listed.expect("it is a directory");
    found
}

#[test]
fn a_directory_is_read_in_pieces_of_any_size_with_its_dots() {
    bridged(&mut model(), |bridge| {
        let dir = bridge.mkdir(ROOT, b"dir", new(0o40_755)).unwrap().ino;
        let names: Vec<String> = (0..10).map(|at| format!("file{at}")).collect();
        for name in &names {
            bridge.mknod(dir, name.as_bytes(), new(0o100_644), 0).unwrap();
        }
        let whole = listed(bridge, dir, 0, usize::MAX);
        let expected: Vec<&str> = [".", ".."].into_iter().chain(names.iter().map(String::as_str)).collect();
        assert_eq!(whole.iter().map(|entry| entry.0.as_str()).collect::<Vec<_>>(), expected);
        assert_eq!((whole[0].1, whole[1].1), (dir.0, ROOT.0));
        for size in 1..13 {
            let (mut pieces, mut offset) = (Vec::new(), 0);
            loop {
                let piece = listed(bridge, dir, offset, size);
                let Some(last) = piece.last() else { break };
                offset = last.2;
                pieces.extend(piece);
            }
            assert_eq!(pieces, whole, "{size}");
        }
    });
}

#[test]
fn the_parent_of_a_directory_follows_its_moves() {
    bridged(&mut model(), |bridge| {
        let a = bridge.mkdir(ROOT, b"a", new(0o755)).unwrap().ino;
        let b = bridge.mkdir(ROOT, b"b", new(0o755)).unwrap().ino;
        let inner = bridge.mkdir(a, b"inner", new(0o755)).unwrap().ino;
        let other = bridge.mkdir(b, b"other", new(0o755)).unwrap().ino;
        let parent = |bridge: &mut Bridge<'_>, dir| listed(bridge, dir, 1, 1)[0].1;
        assert_eq!((parent(bridge, inner), parent(bridge, other)), (a.0, b.0));
        bridge.rename((a, b"inner"), (b, b"other"), 2).unwrap();
        assert_eq!((parent(bridge, inner), parent(bridge, other)), (b.0, a.0));
        bridge.rename((b, b"other"), (ROOT, b"top"), 0).unwrap();
        assert_eq!(parent(bridge, inner), ROOT.0);
        assert_eq!(bridge.rename((ROOT, b"top"), (ROOT, b"a"), 1), Err(Errno::EEXIST));
        assert_eq!(bridge.rename((ROOT, b"top"), (ROOT, b"new"), 8), Err(Errno::EINVAL));
    });
}

#[test]
fn an_immutable_file_can_not_be_changed_in_any_way() {
    bridged(&mut model(), |bridge| {
        let (file, handle) = bridge.create(ROOT, b"file", new(0o644)).unwrap();
        bridge.release(handle).unwrap();
        let ino = file.ino;
        bridge.set_flags(ino, IMMUTABLE).unwrap();
        let permissions = Change { mode: Some(0o600), ..Change::default() };
        let size = Change { size: Some(0), ..Change::default() };
        let touch = Change { mtime: Some(TimeOrNow::Now), ..Change::default() };
        for change in [permissions, size, touch] {
            assert_eq!(bridge.setattr(ino, &change), Err(Errno::EPERM), "{change:?}");
        }
        assert_eq!(bridge.open(ino, O_WRONLY | O_APPEND), Err(Errno::EPERM));
        assert_eq!(bridge.open(ino, O_RDWR), Err(Errno::EPERM));
        assert_eq!(bridge.link(ino, ROOT, b"second"), Err(Errno::EPERM));
        assert_eq!(bridge.unlink(ROOT, b"file"), Err(Errno::EPERM));
        assert_eq!(bridge.rename((ROOT, b"file"), (ROOT, b"moved"), 0), Err(Errno::EPERM));
        assert_eq!(bridge.setxattr(ino, b"user.a", b"1", 0), Err(Errno::EPERM));
        assert_eq!(bridge.removexattr(ino, b"user.a"), Err(Errno::EPERM));
        assert_eq!(bridge.fallocate(ino, 0, 0, 1), Err(Errno::EPERM));
        let read = bridge.open(ino, 0).unwrap();
        assert_eq!(bridge.read(ino, 0, 10), Ok(vec![]));
        bridge.release(read).unwrap();
        // A file that replaces it may not either.
        let (_, handle) = bridge.create(ROOT, b"another", new(0o644)).unwrap();
        bridge.release(handle).unwrap();
        assert_eq!(bridge.rename((ROOT, b"another"), (ROOT, b"file"), 0), Err(Errno::EPERM));
        bridge.set_flags(ino, 0).unwrap();
        assert_eq!(bridge.unlink(ROOT, b"file"), Ok(()));
    });
}

#[test]
fn a_file_that_may_only_grow_is_opened_to_append() {
    bridged(&mut model(), |bridge| {
        let (file, handle) = bridge.create(ROOT, b"log", new(0o644)).unwrap();
        let ino = file.ino;
        bridge.set_flags(ino, APPEND).unwrap();
        assert_eq!(bridge.open(ino, O_WRONLY), Err(Errno::EPERM));
        let second = bridge.open(ino, O_WRONLY | O_APPEND).unwrap();
        assert_eq!(bridge.write(second, ino, 0, b"line", WriteHow::default()), Ok(4));
        for is_open in [false, true] {
            let cut = Change { size: Some(0), is_open, ..Change::default() };
            assert_eq!(bridge.setattr(ino, &cut), Err(Errno::EPERM));
        }
        let old = Change { mtime: Some(TimeOrNow::SpecificTime(UNIX_EPOCH)), ..Change::default() };
        assert_eq!(bridge.setattr(ino, &old), Err(Errno::EPERM));
        let touch = Change { mtime: Some(TimeOrNow::Now), ..Change::default() };
        assert!(bridge.setattr(ino, &touch).is_ok());
        assert_eq!(bridge.unlink(ROOT, b"log"), Err(Errno::EPERM));
        [handle, second].into_iter().for_each(|handle| bridge.release(handle).unwrap());
    });
}

#[test]
fn names_can_be_added_to_a_directory_that_may_only_grow_and_to_an_immutable_one_none() {
    bridged(&mut model(), |bridge| {
        let dir = bridge.mkdir(ROOT, b"dir", new(0o755)).unwrap().ino;
        bridge.set_flags(dir, APPEND).unwrap();
        bridge.mknod(dir, b"file", new(0o100_644), 0).unwrap();
        assert_eq!(bridge.unlink(dir, b"file"), Err(Errno::EPERM));
        assert_eq!(bridge.rename((dir, b"file"), (ROOT, b"file"), 0), Err(Errno::EPERM));
        bridge.set_flags(dir, IMMUTABLE).unwrap();
        assert_eq!(bridge.mknod(dir, b"second", new(0o100_644), 0), Err(Errno::EPERM));
        assert_eq!(bridge.mkdir(dir, b"second", new(0o755)), Err(Errno::EPERM));
        assert_eq!(bridge.symlink(dir, b"second", b"t", new(0o777)), Err(Errno::EPERM));
        assert_eq!(bridge.create(dir, b"second", new(0o644)).err(), Some(Errno::EPERM));
        assert_eq!(bridge.rmdir(ROOT, b"dir"), Err(Errno::EPERM));
    });
}

#[test]
fn flags_that_ubifs_does_not_have_are_refused() {
    bridged(&mut model(), |bridge| {
        let (file, handle) = bridge.create(ROOT, b"file", new(0o644)).unwrap();
        // `chattr +d`; and `+D` on a file, which is for directories.
        assert_eq!(bridge.set_flags(file.ino, 0x40), Err(Errno::EOPNOTSUPP));
        bridge.set_flags(file.ino, 0x1_0000 | SYNC).unwrap();
        assert_eq!(bridge.flags(file.ino), Ok(SYNC));
        bridge.release(handle).unwrap();
    });
}

#[test]
fn a_write_past_the_page_cache_takes_set_user_id_away() {
    for (before, after) in [(0o6755, 0o755), (0o6745, 0o2745), (0o2755, 0o755), (0o1777, 0o1777)] {
        bridged(&mut model(), |bridge| {
            let (file, handle) = bridge.create(ROOT, b"file", new(before)).unwrap();
            let how = WriteHow { kill_set_id: false, ..WriteHow::default() };
            bridge.write(handle, file.ino, 0, b"x", how).unwrap();
            assert_eq!(u32::from(bridge.getattr(file.ino).unwrap().perm), before);
            bridge.write(handle, file.ino, 0, b"x", WriteHow { kill_set_id: true, ..how }).unwrap();
            assert_eq!(u32::from(bridge.getattr(file.ino).unwrap().perm), after);
            bridge.release(handle).unwrap();
        });
    }
}

#[test]
fn times_are_the_present_or_those_that_are_given() {
    bridged(&mut model(), |bridge| {
        let (file, handle) = bridge.create(ROOT, b"file", new(0o644)).unwrap();
        assert!(file.mtime.elapsed().unwrap() < Duration::from_secs(60), "{:?}", file.mtime);
        let given = UNIX_EPOCH + Duration::new(1_234_567_890, 123_456_789);
        let change = Change { atime: Some(TimeOrNow::SpecificTime(given)), ..Change::default() };
        let attr = bridge.setattr(file.ino, &change).unwrap();
        assert_eq!((attr.atime, attr.mtime), (given, file.mtime));
        let change = Change { atime: Some(TimeOrNow::Now), ..Change::default() };
        assert!(bridge.setattr(file.ino, &change).unwrap().atime >= file.mtime);
        // Nothing to change: not even the time of the last change moves.
        assert_eq!(bridge.setattr(file.ino, &Change::default()), bridge.getattr(file.ino));
        bridge.release(handle).unwrap();
    });
}

#[test]
fn an_inode_without_a_name_lives_until_the_mount_ends() {
    let mut fs = model();
    let mut cx = Cx::new();
    let mut bridge = Bridge::new(&mut fs, &mut cx, Clock::SINCE_1970);
    let (file, handle) = bridge.create(ROOT, b"file", new(0o644)).unwrap();
    bridge.unlink(ROOT, b"file").unwrap();
    bridge.write(handle, file.ino, 0, b"there", WriteHow::default()).unwrap();
    assert_eq!(bridge.read(file.ino, 0, 10), Ok(b"there".to_vec()));
    assert_eq!(bridge.getattr(file.ino).unwrap().nlink, 0);
    bridge.finish().unwrap();
    assert_eq!(fs.inodes(), 1);
}

#[test]
fn attributes_of_trusted_are_for_root() {
    bridged(&mut model(), |bridge| {
        bridge.setxattr(ROOT, b"user.a", b"1", 0).unwrap();
        bridge.setxattr(ROOT, b"trusted.b", b"2", 1).unwrap();
        assert_eq!(bridge.listxattr(ROOT, false), Ok(b"user.a\0".to_vec()));
        assert_eq!(bridge.listxattr(ROOT, true), Ok(b"trusted.b\0user.a\0".to_vec()));
        assert_eq!(bridge.setxattr(ROOT, b"user.a", b"1", 1), Err(Errno::EEXIST));
        assert_eq!(bridge.setxattr(ROOT, b"user.c", b"1", 2), Err(Errno::ENODATA));
        assert_eq!(bridge.setxattr(ROOT, b"system.posix_acl_access", b"1", 0), Err(Errno::EOPNOTSUPP));
        assert_eq!(bridge.getxattr(ROOT, b"trusted.b"), Ok(b"2".to_vec()));
    });
}

#[test]
fn devices_types_and_long_names() {
    bridged(&mut model(), |bridge| {
        let device = bridge.mknod(ROOT, b"device", new(0o020_600), 0x1111_2c70).unwrap();
        assert_eq!((device.rdev, device.kind), (0x1111_2c70, fuser::FileType::CharDevice));
        // What is no device has no number, whatever is asked for.
        assert_eq!(bridge.mknod(ROOT, b"pipe", new(0o010_600), 5).unwrap().rdev, 0);
        assert_eq!(bridge.mknod(ROOT, b"odd", new(0o150_600), 0), Err(Errno::EINVAL));
        assert_eq!(bridge.lookup(ROOT, &[b'n'; 256]), Err(Errno::ENAMETOOLONG));
        assert_eq!(bridge.lookup(ROOT, &[b'n'; 255]), Err(Errno::ENOENT));
        assert_eq!(bridge.getattr(INodeNo(99)), Err(Errno::ESTALE));
    });
}

/// The oracle with another number for its root, names that no file can have, and a record of what is synced.
struct Odd {
    inner: Model,
    synced: Vec<&'static str>,
}

/// The root's number, and the number of the inode that is called 1 here.
const ODD_ROOT: u64 = 1000;

impl Odd {
    fn swap(ino: Ino) -> Ino {
        match ino.0 {
            1 => Ino(ODD_ROOT),
            ODD_ROOT => Ino(1),
            other => Ino(other),
        }
    }

    fn out(attr: Result<Attr, FsError>) -> Result<Attr, FsError> {
        attr.map(|attr| Attr { ino: Odd::swap(attr.ino), ..attr })
    }
}

impl Served for Odd {}

impl FileSystem for Odd {
    fn keeps_bytes(&self) -> bool {
        true
    }
    fn root(&self) -> Ino {
        Ino(ODD_ROOT)
    }
    fn lookup(&mut self, cx: &mut Cx, dir: Ino, name: &[u8]) -> Result<Attr, FsError> {
        if name == b"damaged" {
            return Err(FsError::Corrupt { lnum: Lnum(3), offset: 4, what: "of the test".to_owned() });
        }
        Odd::out(self.inner.lookup(cx, Odd::swap(dir), name))
    }
    fn getattr(&mut self, cx: &mut Cx, ino: Ino) -> Result<Attr, FsError> {
        Odd::out(self.inner.getattr(cx, Odd::swap(ino)))
    }
    fn setattr(&mut self, cx: &mut Cx, ino: Ino, change: &SetAttr) -> Result<Attr, FsError> {
        Odd::out(self.inner.setattr(cx, Odd::swap(ino), change))
    }
    fn create(&mut self, cx: &mut Cx, dir: Ino, name: &[u8], new: NewInode) -> Result<Attr, FsError> {
        Odd::out(self.inner.create(cx, Odd::swap(dir), name, new))
    }
    fn mkdir(&mut self, cx: &mut Cx, dir: Ino, name: &[u8], new: NewInode) -> Result<Attr, FsError> {
        Odd::out(self.inner.mkdir(cx, Odd::swap(dir), name, new))
    }
    fn mknod(
        &mut self,
        _: &mut Cx,
        _: Ino,
        _: &[u8],
        _: NewInode,
        _: FileType,
        _: DeviceNumber,
    ) -> Result<Attr, FsError> {
        unreachable!("no test asks")
    }
    fn symlink(&mut self, _: &mut Cx, _: Ino, _: &[u8], _: &[u8], _: NewInode) -> Result<Attr, FsError> {
        unreachable!("no test asks")
    }
    fn readlink(&mut self, _: &mut Cx, _: Ino) -> Result<Vec<u8>, FsError> {
        unreachable!("no test asks")
    }
    fn link(&mut self, _: &mut Cx, _: Ino, _: Ino, _: &[u8]) -> Result<Attr, FsError> {
        unreachable!("no test asks")
    }
    fn unlink(&mut self, _: &mut Cx, _: Ino, _: &[u8]) -> Result<(), FsError> {
        unreachable!("no test asks")
    }
    fn rmdir(&mut self, _: &mut Cx, _: Ino, _: &[u8]) -> Result<(), FsError> {
        unreachable!("no test asks")
    }
    fn rename(&mut self, _: &mut Cx, _: (Ino, &[u8]), _: (Ino, &[u8]), _: RenameFlags) -> Result<(), FsError> {
        unreachable!("no test asks")
    }
    fn read(&mut self, cx: &mut Cx, ino: Ino, offset: u64, into: ReadInto<'_>) -> Result<u32, FsError> {
        self.inner.read(cx, Odd::swap(ino), offset, into)
    }
    fn write(&mut self, cx: &mut Cx, ino: Ino, offset: u64, data: Payload<'_>) -> Result<u32, FsError> {
        self.inner.write(cx, Odd::swap(ino), offset, data)
    }
    fn fallocate(&mut self, _: &mut Cx, _: Ino, mode: FallocateMode, _: u64, _: u64) -> Result<(), FsError> {
        assert_eq!(mode, FallocateMode::KEEP_SIZE | FallocateMode::PUNCH_HOLE);
        Ok(())
    }
    fn getxattr(&mut self, _: &mut Cx, _: Ino, _: &[u8]) -> Result<Vec<u8>, FsError> {
        unreachable!("no test asks")
    }
    fn setxattr(&mut self, _: &mut Cx, _: Ino, _: &[u8], _: &[u8], _: SetXattr) -> Result<(), FsError> {
        unreachable!("no test asks")
    }
    fn listxattr(&mut self, _: &mut Cx, _: Ino) -> Result<Vec<Vec<u8>>, FsError> {
        unreachable!("no test asks")
    }
    fn removexattr(&mut self, _: &mut Cx, _: Ino, _: &[u8]) -> Result<(), FsError> {
        unreachable!("no test asks")
    }
    fn readdir(
        &mut self,
        cx: &mut Cx,
        dir: Ino,
        cookie: u64,
        each: &mut dyn FnMut(Dirent<'_>) -> bool,
    ) -> Result<(), FsError> {
        for name in [&b".."[..], b"a/b", b"", b"nul\0"] {
            let ino = Ino(7);
            if !each(Dirent { ino, file_type: FileType::Regular, name, cookie: cookie + 1 }) {
                return Ok(());
            }
        }
        self.inner.readdir(cx, Odd::swap(dir), cookie, &mut |entry| each(Dirent { ino: Odd::swap(entry.ino), ..entry }))
    }
    fn statfs(&mut self, cx: &mut Cx) -> Result<StatFs, FsError> {
        self.inner.statfs(cx)
    }
    fn open(&mut self, cx: &mut Cx, ino: Ino) -> Result<(), FsError> {
        self.inner.open(cx, Odd::swap(ino))
    }
    fn release(&mut self, cx: &mut Cx, ino: Ino) -> Result<(), FsError> {
        self.inner.release(cx, Odd::swap(ino))
    }
    fn fsync(&mut self, _: &mut Cx, _: Ino, data_only: bool) -> Result<(), FsError> {
        self.synced.push(if data_only { "data" } else { "inode" });
        Ok(())
    }
    fn sync(&mut self, _: &mut Cx) -> Result<(), FsError> {
        self.synced.push("all");
        Ok(())
    }
}

fn odd() -> Odd {
    Odd { inner: model(), synced: Vec::new() }
}

#[test]
fn a_root_of_any_number_is_inode_1_and_names_that_no_file_can_have_are_left_out() {
    bridged(&mut odd(), |bridge| {
        assert_eq!(bridge.getattr(ROOT).unwrap().ino, ROOT);
        let dir = bridge.mkdir(ROOT, b"dir", new(0o755)).unwrap().ino;
        assert_eq!((bridge.lookup(ROOT, b"dir").unwrap().ino, bridge.getattr(dir).unwrap().ino), (dir, dir));
        let names =
            |found: Vec<(String, u64, u64)>| found.into_iter().map(|(name, ino, _)| (name, ino)).collect::<Vec<_>>();
        let named = |name: &str, ino: u64| (name.to_owned(), ino);
        assert_eq!(names(listed(bridge, ROOT, 0, usize::MAX)), [named(".", 1), named("..", 1), named("dir", dir.0)]);
        assert_eq!(names(listed(bridge, dir, 0, usize::MAX)), [named(".", dir.0), named("..", 1)]);
        assert_eq!(bridge.lookup(ROOT, b"damaged"), Err(Errno::from_i32(117)));
        assert_eq!(bridge.fallocate(dir, 3, 0, 1), Ok(()));
    });
}

#[test]
fn a_synchronous_write_is_followed_by_a_sync() {
    let mut fs = odd();
    bridged(&mut fs, |bridge| {
        let (file, handle) = bridge.create(ROOT, b"file", new(0o644)).unwrap();
        for flags in [O_WRONLY, O_WRONLY | O_DSYNC, O_WRONLY | O_SYNC] {
            bridge.write(handle, file.ino, 0, b"x", WriteHow { flags, ..WriteHow::default() }).unwrap();
        }
        bridge.set_flags(file.ino, SYNC).unwrap();
        let always = bridge.open(file.ino, O_WRONLY).unwrap();
        bridge.write(always, file.ino, 0, b"x", WriteHow { flags: O_WRONLY, ..WriteHow::default() }).unwrap();
        bridge.fsync(file.ino, true).unwrap();
        [handle, always].into_iter().for_each(|handle| bridge.release(handle).unwrap());
        assert_eq!(bridge.release(handle), Err(Errno::EBADF));
    });
    assert_eq!(fs.synced, ["data", "inode", "inode", "data", "all"]);
}
