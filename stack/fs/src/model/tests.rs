//! Rules of POSIX and of Linux's manual pages, each in a table: calls, and the error or what `stat` says afterwards.

use sim::Ns;

use super::*;

/// The oracle with paths, whose invariants are checked after every call.
struct World {
    fs: Model,
    cx: Cx,
}

type Done = Result<(), FsError>;

impl World {
    /// `d/` with `d/f` and `d/sub/`, an empty `e/`, a file `f` of 3 bytes with a second name `g`, a link `l`.
    fn new() -> World {
        let mut world = World { fs: Model::new(Timestamp { seconds: 1_000, nanos: 0 }), cx: Cx::new() };
        world.mkdir("d").unwrap();
        world.mkdir("d/sub").unwrap();
        world.mkdir("e").unwrap();
        world.create("d/f").unwrap();
        world.create("f").unwrap();
        world.write("f", 0, b"abc").unwrap();
        world.link("f", "g").unwrap();
        world.symlink("l", b"f").unwrap();
        world
    }

    fn ino(&mut self, path: &str) -> Ino {
        let parts = path.split('/').filter(|part| !part.is_empty());
        parts.fold(self.fs.root(), |dir, part| self.fs.lookup(&mut self.cx, dir, part.as_bytes()).unwrap().ino)
    }

    fn place<'a>(&mut self, path: &'a str) -> (Ino, &'a [u8]) {
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        (self.ino(dir), name.as_bytes())
    }

    fn stat(&mut self, path: &str) -> Attr {
        let ino = self.ino(path);
        self.fs.getattr(&mut self.cx, ino).unwrap()
    }

    fn done<T>(&self, result: Result<T, FsError>) -> Done {
        self.fs.check();
        result.map(|_| ())
    }

    fn create(&mut self, path: &str) -> Done {
        let (dir, name) = self.place(path);
        let done = self.fs.create(&mut self.cx, dir, name, NewInode::of_root(0o644));
        self.done(done)
    }

    fn mkdir(&mut self, path: &str) -> Done {
        let (dir, name) = self.place(path);
        let done = self.fs.mkdir(&mut self.cx, dir, name, NewInode::of_root(0o755));
        self.done(done)
    }

    fn mknod(&mut self, path: &str, file_type: FileType) -> Done {
        let (dir, name) = self.place(path);
        let device = DeviceNumber { major: 1, minor: 3 };
        let done = self.fs.mknod(&mut self.cx, dir, name, NewInode::of_root(0o600), file_type, device);
        self.done(done)
    }

    fn symlink(&mut self, path: &str, target: &[u8]) -> Done {
        let (dir, name) = self.place(path);
        let done = self.fs.symlink(&mut self.cx, dir, name, target, NewInode::of_root(0o600));
        self.done(done)
    }

    fn link(&mut self, from: &str, path: &str) -> Done {
        let ino = self.ino(from);
        let (dir, name) = self.place(path);
        let done = self.fs.link(&mut self.cx, ino, dir, name);
        self.done(done)
    }

    fn unlink(&mut self, path: &str) -> Done {
        let (dir, name) = self.place(path);
        let done = self.fs.unlink(&mut self.cx, dir, name);
        self.done(done)
    }

    fn rmdir(&mut self, path: &str) -> Done {
        let (dir, name) = self.place(path);
        let done = self.fs.rmdir(&mut self.cx, dir, name);
        self.done(done)
    }

    fn rename(&mut self, from: &str, to: &str, flags: RenameFlags) -> Done {
        let (from, to) = (self.place(from), self.place(to));
        let done = self.fs.rename(&mut self.cx, from, to, flags);
        self.done(done)
    }

    fn write(&mut self, path: &str, offset: u64, data: &[u8]) -> Done {
        let ino = self.ino(path);
        let done = self.fs.write(&mut self.cx, ino, offset, Payload::Bytes(data));
        self.done(done)
    }

    fn truncate(&mut self, path: &str, size: u64) -> Done {
        let ino = self.ino(path);
        let done = self.fs.setattr(&mut self.cx, ino, &SetAttr::size(size));
        self.done(done)
    }

    fn setxattr(&mut self, path: &str, name: &[u8], value: &[u8], how: SetXattr) -> Done {
        let ino = self.ino(path);
        let done = self.fs.setxattr(&mut self.cx, ino, name, value, how);
        self.done(done)
    }

    fn removexattr(&mut self, path: &str, name: &[u8]) -> Done {
        let ino = self.ino(path);
        let done = self.fs.removexattr(&mut self.cx, ino, name);
        self.done(done)
    }

    fn contents(&mut self, path: &str) -> Vec<u8> {
        let attr = self.stat(path);
        let mut bytes = vec![0xee; attr.size as usize];
        assert_eq!(self.fs.read(&mut self.cx, attr.ino, 0, ReadInto::Bytes(&mut bytes)), Ok(attr.size as u32));
        bytes
    }

    fn names(&mut self, path: &str, cookie: u64) -> Vec<(String, u64)> {
        let ino = self.ino(path);
        let mut names = Vec::new();
        let mut each = |entry: Dirent<'_>| {
            names.push((String::from_utf8_lossy(entry.name).into_owned(), entry.cookie));
            true
        };
        self.fs.readdir(&mut self.cx, ino, cookie, &mut each).unwrap();
        names
    }
}

const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const EEXIST: i32 = 17;
const ENOTDIR: i32 = 20;
const EISDIR: i32 = 21;
const EINVAL: i32 = 22;
const EFBIG: i32 = 27;
const ERANGE: i32 = 34;
const ENAMETOOLONG: i32 = 36;
const ENOTEMPTY: i32 = 39;
const ENODATA: i32 = 61;
const EOPNOTSUPP: i32 = 95;

/// A name that is one byte too long.
fn long() -> String {
    "n".repeat(256)
}

/// mkdir(2), mknod(2), symlink(2), link(2), unlink(2), rmdir(2), rename(2), truncate(2), write(2), setxattr(2).
#[test]
fn refused_calls_have_the_errors_of_the_manual_pages_and_change_nothing() {
    type Call = fn(&mut World) -> Done;
    let none = RenameFlags::NONE;
    assert_eq!(none, RenameFlags::default());
    let table: &[(&str, Call, i32)] = &[
        ("create over a file", |w| w.create("f"), EEXIST),
        ("create over a directory", |w| w.create("d"), EEXIST),
        ("mkdir over a link", |w| w.mkdir("l"), EEXIST),
        ("a name of 256 bytes", |w| w.create(&long()), ENAMETOOLONG),
        ("a new name of 256 bytes", |w| w.rename("f", &long(), RenameFlags::NONE), ENAMETOOLONG),
        ("mknod of a directory", |w| w.mknod("n", FileType::Directory), EINVAL),
        ("a symbolic link to nothing", |w| w.symlink("n", b""), ENOENT),
        ("a target of 4,096 bytes", |w| w.symlink("n", &[b'x'; 4096]), ENAMETOOLONG),
        ("a hard link to a directory", |w| w.link("d", "n"), EPERM),
        ("a hard link over a file", |w| w.link("f", "g"), EEXIST),
        ("a hard link to a directory over a file", |w| w.link("d", "g"), EEXIST),
        ("unlink of nothing", |w| w.unlink("n"), ENOENT),
        ("unlink of a directory", |w| w.unlink("e"), EISDIR),
        ("rmdir of nothing", |w| w.rmdir("n"), ENOENT),
        ("rmdir of a file", |w| w.rmdir("f"), ENOTDIR),
        ("rmdir of a link", |w| w.rmdir("l"), ENOTDIR),
        ("rmdir of a full directory", |w| w.rmdir("d"), ENOTEMPTY),
        ("rename of nothing", |w| w.rename("n", "m", RenameFlags::NONE), ENOENT),
        ("rename of nothing to a name that is too long", |w| w.rename("n", &long(), RenameFlags::NONE), ENOENT),
        ("a file over a directory", |w| w.rename("f", "e", RenameFlags::NONE), EISDIR),
        ("a directory over a file", |w| w.rename("e", "f", RenameFlags::NONE), ENOTDIR),
        ("a directory over a full one", |w| w.rename("e", "d", RenameFlags::NONE), ENOTEMPTY),
        ("a directory into itself", |w| w.rename("d", "d/n", RenameFlags::NONE), EINVAL),
        ("a directory below itself", |w| w.rename("d", "d/sub/n", RenameFlags::NONE), EINVAL),
        ("a directory over the one that holds it", |w| w.rename("d/sub", "d", RenameFlags::NONE), ENOTEMPTY),
        ("a file over the directory that holds it", |w| w.rename("d/f", "d", RenameFlags::NONE), ENOTEMPTY),
        ("exchange with one's parent", |w| w.rename("d/sub", "d", RenameFlags::EXCHANGE), EINVAL),
        ("exchange with one's child", |w| w.rename("d", "d/sub", RenameFlags::EXCHANGE), EINVAL),
        ("exchange with nothing", |w| w.rename("f", "n", RenameFlags::EXCHANGE), ENOENT),
        ("no replacement of a file", |w| w.rename("d/f", "f", RenameFlags::NO_REPLACE), EEXIST),
        ("no replacement of the same file", |w| w.rename("f", "g", RenameFlags::NO_REPLACE), EEXIST),
        (
            "exchange without replacement",
            |w| w.rename("d/f", "f", RenameFlags::NO_REPLACE | RenameFlags::EXCHANGE),
            EINVAL,
        ),
        ("a flag that does not exist", |w| w.rename("d/f", "f", RenameFlags(8)), EINVAL),
        ("truncate of a directory", |w| w.truncate("d", 0), EISDIR),
        ("truncate of a link", |w| w.truncate("l", 0), EINVAL),
        ("a file of more than 2 TiB", |w| w.truncate("f", (1 << 41) + 1), EFBIG),
        ("write beyond 2 TiB", |w| w.write("f", 1 << 41, b"x"), EFBIG),
        ("write to a directory", |w| w.write("d", 0, b"x"), EISDIR),
        ("write to a link", |w| w.write("l", 0, b"x"), EINVAL),
        ("removal of no attribute", |w| w.removexattr("f", b"user.a"), ENODATA),
        ("replacement of no attribute", |w| w.setxattr("f", b"user.a", b"", SetXattr::Replace), ENODATA),
        ("an attribute without prefix", |w| w.setxattr("f", b"a", b"", SetXattr::Set), EOPNOTSUPP),
        ("an attribute of the system", |w| w.setxattr("f", b"system.a", b"", SetXattr::Set), EOPNOTSUPP),
        ("a prefix without a name", |w| w.setxattr("f", b"user.", b"", SetXattr::Set), EINVAL),
        ("a value of 4,097 bytes", |w| w.setxattr("f", b"user.a", &[0; 4097], SetXattr::Set), ERANGE),
    ];
    for (what, call, errno) in table {
        let mut world = World::new();
        let before = tree(&mut world.fs, &mut world.cx).unwrap();
        world.cx.spend(Ns(5));
        assert_eq!(call(&mut world).map_err(|error| error.errno()), Err(*errno), "{what}");
        let after = tree(&mut world.fs, &mut world.cx).unwrap();
        assert_eq!(before.difference(&after), None, "{what}");
    }
}

/// inode(7): which times a call moves, of which paths. `m`: contents and inode; `c`: inode alone. An exchange, which UBIFS alone has of the
/// file systems here, moves those of directories: Linux writes no other (`tests/images/nodes.txt`).
#[test]
fn calls_move_the_times_that_inode_7_names_and_no_others() {
    type Call = fn(&mut World) -> Done;
    type Moved = &'static [(&'static str, char)];
    let table: &[(&str, Call, Moved)] = &[
        ("create", |w| w.create("d/n"), &[("d", 'm'), ("d/n", 'a')]),
        ("mkdir", |w| w.mkdir("n"), &[("", 'm'), ("n", 'a')]),
        ("link", |w| w.link("f", "e/n"), &[("e", 'm'), ("f", 'c'), ("g", 'c'), ("e/n", 'c')]),
        ("unlink", |w| w.unlink("f"), &[("", 'm'), ("g", 'c')]),
        ("rmdir", |w| w.rmdir("d/sub"), &[("d", 'm')]),
        ("rename", |w| w.rename("d/f", "e/f", RenameFlags::NONE), &[("d", 'm'), ("e", 'm'), ("e/f", 'c')]),
        ("rename over", |w| w.rename("d/f", "f", RenameFlags::NONE), &[("", 'm'), ("d", 'm'), ("f", 'c'), ("g", 'c')]),
        ("rename of a file to itself", |w| w.rename("f", "g", RenameFlags::NONE), &[]),
        ("exchange", |w| w.rename("d/f", "f", RenameFlags::EXCHANGE), &[("", 'm'), ("d", 'm')]),
        ("write", |w| w.write("f", 1, b"x"), &[("f", 'm'), ("g", 'm')]),
        ("write of nothing", |w| w.write("f", 9, b""), &[]),
        ("truncate", |w| w.truncate("f", 0), &[("f", 'm'), ("g", 'm')]),
        ("setxattr", |w| w.setxattr("d", b"user.a", b"1", SetXattr::Set), &[("d", 'c')]),
    ];
    for (what, call, moved) in table {
        let mut world = World::new();
        let old = Timestamp { seconds: 1_000, nanos: 0 };
        let now = Timestamp { seconds: 1_000, nanos: 7 };
        world.cx.spend(Ns(7));
        call(&mut world).unwrap();
        for (path, node) in &tree(&mut world.fs, &mut world.cx).unwrap().nodes {
            let how = moved.iter().find(|(moved, _)| moved.as_bytes() == path).map(|&(_, how)| how);
            let expected = match how {
                None => [old, old, old],
                Some('c') => [old, old, now],
                Some('m') => [old, now, now],
                _ => [now, now, now],
            };
            let Attr { atime, mtime, ctime, .. } = node.attr;
            assert_eq!([atime, mtime, ctime], expected, "{what}: /{}", path.escape_ascii());
        }
    }
}

#[test]
fn links_of_directories_count_their_directories() {
    let mut world = World::new();
    let links = |world: &mut World| ["", "d", "d/sub", "e"].map(|path| world.stat(path).nlink);
    assert_eq!(links(&mut world), [4, 3, 2, 2]);
    world.rename("d/sub", "e/sub", RenameFlags::NONE).unwrap();
    assert_eq!(["", "d", "e"].map(|path| world.stat(path).nlink), [4, 2, 3]);
    world.rename("e/sub", "f", RenameFlags::EXCHANGE).unwrap();
    assert_eq!(["", "d", "e", "f"].map(|path| world.stat(path).nlink), [5, 2, 2, 2]);
    assert_eq!(world.contents("e/sub"), b"abc");
    world.unlink("d/f").unwrap();
    world.rename("f", "d", RenameFlags::NONE).unwrap();
    assert_eq!(["", "d"].map(|path| world.stat(path).nlink), [4, 2]);
}

#[test]
fn a_whiteout_is_character_device_0_0_under_the_old_name() {
    let mut world = World::new();
    world.rename("f", "e/f", RenameFlags::WHITEOUT | RenameFlags::NO_REPLACE).unwrap();
    let Attr { file_type, mode, device, nlink, .. } = world.stat("f");
    assert_eq!((file_type, mode, device, nlink), (FileType::CharDevice, 0, DeviceNumber { major: 0, minor: 0 }, 1));
    assert_eq!(world.contents("e/f"), b"abc");
}

#[test]
fn a_file_without_a_name_lives_until_it_is_closed() {
    let mut world = World::new();
    let ino = world.ino("f");
    world.fs.open(&mut world.cx, ino).unwrap();
    world.fs.open(&mut world.cx, ino).unwrap();
    world.unlink("f").unwrap();
    world.rename("d/f", "g", RenameFlags::NONE).unwrap();
    assert_eq!(world.fs.getattr(&mut world.cx, ino).unwrap().nlink, 0);
    assert_eq!(world.fs.write(&mut world.cx, ino, 3, Payload::Bytes(b"de")), Ok(2));
    let root = world.fs.root();
    let again = world.fs.link(&mut world.cx, ino, root, b"again").map_err(|error| error.errno());
    assert_eq!(again.err(), Some(ENOENT));
    let inodes = world.fs.inodes();
    world.fs.release(&mut world.cx, ino).unwrap();
    assert_eq!(world.fs.inodes(), inodes);
    world.fs.release(&mut world.cx, ino).unwrap();
    assert_eq!(world.fs.getattr(&mut world.cx, ino), Err(FsError::Stale { ino }));
    assert_eq!(world.fs.inodes(), inodes - 1);
}

#[test]
fn a_removed_directory_that_is_open_is_empty_and_stays_so() {
    let mut world = World::new();
    let ino = world.ino("e");
    world.fs.open(&mut world.cx, ino).unwrap();
    world.rmdir("e").unwrap();
    assert_eq!(world.fs.getattr(&mut world.cx, ino).unwrap().nlink, 0);
    let (root, cx) = (world.fs.root(), &mut world.cx);
    let file = world.fs.lookup(cx, root, b"f").unwrap().ino;
    let refused = [
        world.fs.create(cx, ino, b"n", NewInode::of_root(0)).map(|_| ()),
        world.fs.mkdir(cx, ino, b"n", NewInode::of_root(0)).map(|_| ()),
        world.fs.link(cx, file, ino, b"n").map(|_| ()),
        world.fs.rename(cx, (root, b"f"), (ino, b"n"), RenameFlags::NONE),
        world.fs.lookup(cx, ino, b"n").map(|_| ()),
    ];
    assert_eq!(refused, [const { Err(FsError::NoEntry { dir: Ino(4) }) }; 5]);
    assert_eq!(ino, Ino(4));
    world.fs.release(&mut world.cx, ino).unwrap();
    world.fs.check();
}

/// The VFS looks whether the directory is removed before it looks where it was.
#[test]
fn a_directory_is_not_moved_into_a_removed_one_that_was_below_it() {
    let mut world = World::new();
    let (root, outer, cx) = (world.fs.root(), world.ino("e"), &mut world.cx);
    let inner = world.fs.mkdir(cx, outer, b"x", NewInode::of_root(0o700)).unwrap().ino;
    world.fs.open(cx, inner).unwrap();
    world.fs.rmdir(cx, outer, b"x").unwrap();
    let moved = world.fs.rename(cx, (root, b"e"), (inner, b"n"), RenameFlags::NONE);
    assert_eq!(moved, Err(FsError::NoEntry { dir: inner }));
}

#[test]
fn a_file_that_shrinks_and_grows_reads_zeroes() {
    let mut world = World::new();
    world.write("f", 5000, b"x").unwrap();
    assert_eq!(world.stat("f").size, 5001);
    world.truncate("f", 2).unwrap();
    world.truncate("f", 6).unwrap();
    assert_eq!(world.contents("f"), b"ab\0\0\0\0");
    let attr = world.stat("f");
    let mut bytes = [9; 8];
    assert_eq!(world.fs.read(&mut world.cx, attr.ino, 1, ReadInto::Bytes(&mut bytes)), Ok(5));
    assert_eq!(bytes, *b"b\0\0\0\0\x09\x09\x09");
    assert_eq!(world.fs.read(&mut world.cx, attr.ino, 6, ReadInto::Length(9)), Ok(0));
    assert_eq!(world.fs.read(&mut world.cx, attr.ino, u64::MAX, ReadInto::Length(9)), Ok(0));
}

/// generic_write_checks of Linux: a write up to the largest size is cut there.
#[test]
fn a_write_ends_at_the_largest_size() {
    let mut world = World::new();
    let ino = world.ino("f");
    assert_eq!(world.fs.write(&mut world.cx, ino, MAX_FILE_BYTES - 3, Payload::Bytes(b"abcde")), Ok(3));
    assert_eq!(world.stat("f").size, MAX_FILE_BYTES);
}

#[test]
fn a_cookie_holds_whatever_comes_and_goes() {
    let mut world = World::new();
    for name in ["e/a", "e/b", "e/c", "e/d"] {
        world.create(name).unwrap();
    }
    let all = world.names("e", 0);
    assert_eq!(all.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["a", "b", "c", "d"]);
    let after_b = all[1].1;
    world.unlink("e/b").unwrap();
    world.unlink("e/a").unwrap();
    world.create("e/new").unwrap();
    let rest = world.names("e", after_b);
    assert_eq!(rest.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["c", "d", "new"]);
    let mut first = Vec::new();
    let ino = world.ino("e");
    let mut each = |entry: Dirent<'_>| {
        first.push(entry.name.to_vec());
        false
    };
    world.fs.readdir(&mut world.cx, ino, 0, &mut each).unwrap();
    assert_eq!(first, [b"c"]);
}

/// inode(7) on set-group-ID of a directory; UBIFS on inherited flags.
#[test]
fn new_inodes_inherit_group_and_flags() {
    let mut world = World::new();
    let ino = world.ino("e");
    let flags = InodeFlags::DIR_SYNC | InodeFlags::SYNC | InodeFlags::IMMUTABLE;
    let change = SetAttr { mode: Some(0o2755), gid: Some(50), flags: Some(flags), ..SetAttr::default() };
    world.fs.setattr(&mut world.cx, ino, &change).unwrap();
    world.mkdir("e/d").unwrap();
    world.create("e/f").unwrap();
    let Attr { mode, gid, flags, .. } = world.stat("e/d");
    assert_eq!((mode, gid, flags), (0o2755, 50, InodeFlags::DIR_SYNC | InodeFlags::SYNC));
    let Attr { mode, gid, flags, .. } = world.stat("e/f");
    assert_eq!((mode, gid, flags), (0o644, 50, InodeFlags::SYNC));
    assert_eq!(world.stat("d").flags, InodeFlags::COMPRESSED);
}

#[test]
fn attributes_are_set_replaced_listed_and_removed() {
    let mut world = World::new();
    world.setxattr("f", b"user.b", b"1", SetXattr::Create).unwrap();
    world.setxattr("f", b"trusted.a", &[7; 4096], SetXattr::Set).unwrap();
    let again = world.setxattr("g", b"user.b", b"2", SetXattr::Create);
    assert_eq!(again.map_err(|error| error.errno()), Err(EEXIST));
    world.setxattr("g", b"user.b", b"22", SetXattr::Replace).unwrap();
    let ino = world.ino("f");
    assert_eq!(world.fs.getxattr(&mut world.cx, ino, b"user.b"), Ok(b"22".to_vec()));
    assert_eq!(world.fs.listxattr(&mut world.cx, ino), Ok(vec![b"trusted.a".to_vec(), b"user.b".to_vec()]));
    world.removexattr("f", b"user.b").unwrap();
    assert_eq!(world.fs.getxattr(&mut world.cx, ino, b"user.b"), Err(FsError::NoAttr { ino }));
}

/// 65,536 bytes of names with their final zeroes: 256 names of 255 bytes.
#[test]
fn names_of_attributes_end_where_they_can_no_longer_be_listed() {
    let mut world = World::new();
    let name = |at: usize| format!("user.{at:0>250}").into_bytes();
    for at in 0..256 {
        world.setxattr("f", &name(at), b"", SetXattr::Set).unwrap();
    }
    assert_eq!(world.setxattr("f", b"user.x", b"", SetXattr::Set), Err(FsError::NoSpace));
    world.setxattr("f", &name(3), b"1", SetXattr::Set).unwrap();
}

#[test]
fn without_bytes_sizes_are_the_same_and_contents_are_zeroes() {
    let mut world = World::new();
    world.fs = Model::without_bytes(Timestamp::default());
    world.create("f").unwrap();
    world.write("f", 9, b"abc").unwrap();
    assert_eq!(world.contents("f"), [0; 12]);
    assert!(!world.fs.keeps_bytes());
}

/// Each difference that a user can see is one of the tree, at its path.
#[test]
fn trees_differ_in_whatever_a_user_sees() {
    type Call = fn(&mut World) -> Done;
    let changes: &[(Call, &str)] = &[
        (|w| w.create("d/n"), "/d/n: "),
        (|w| w.write("f", 1, b"x"), "/f: "),
        (|w| w.truncate("d/f", 1), "/d/f: "),
        (|w| w.setxattr("e", b"user.a", b"", SetXattr::Set), "/e: "),
        (|w| w.unlink("g").and_then(|()| w.create("g")), "/f: "),
        (|w| w.unlink("l").and_then(|()| w.symlink("l", b"g")), "/l: "),
        (|w| w.unlink("l").and_then(|()| w.mknod("l", FileType::Fifo)), "/l: "),
    ];
    for (call, at) in changes {
        let (mut one, mut other) = (World::new(), World::new());
        let before = tree(&mut one.fs, &mut one.cx).unwrap();
        call(&mut other).unwrap();
        let after = tree(&mut other.fs, &mut other.cx).unwrap();
        let difference = before.difference(&after).unwrap();
        assert!(difference.starts_with(at), "{difference}");
        assert_ne!(before.digest(), after.digest());
    }
    let (mut one, mut other) = (World::new(), World::new());
    let trees = [&mut one, &mut other].map(|world| tree(&mut world.fs, &mut world.cx).unwrap());
    assert_eq!(trees[0].difference(&trees[1]), None);
    assert_eq!(trees[0].nodes[&b"g"[..]].same_as.as_deref(), Some(&b"f"[..]));
    assert_eq!(trees[0].nodes[&b"f"[..]].crc, 0x3524_41c2, "CRC-32 of abc");
}
