//! The oracle against Linux: drawn operations on the model and on a directory of the host, error for error and byte for
//! byte, and the two trees at the end of each hundred.
//!
//! Without root the host refuses devices, owners and `trusted.` attributes, which are then not drawn.

mod host;

use fs::model::{Model, Tree, tree};
use host::Host;
use sim::seam::{
    DeviceNumber, FileSystem, FileType, FsError, Ino, NewInode, Payload, ReadInto, RenameFlags, SetAttr, SetXattr,
    Timestamp,
};
use sim::{Cx, Rng, Seed};

/// A name below an open directory: number of the opened inode (0 is the root), and components.
#[derive(Clone, Debug)]
struct At {
    base: usize,
    path: Vec<Vec<u8>>,
}

/// What a call is about: a name, or an open inode.
#[derive(Clone, Debug)]
enum Which {
    Named(At),
    Opened(usize),
}

#[derive(Clone, Debug)]
enum Op {
    Create(At, u32),
    Mkdir(At, u32),
    Mknod(At, FileType, DeviceNumber),
    Symlink(At, Vec<u8>),
    Readlink(At),
    Link(At, At),
    LinkOpened(usize, At),
    Unlink(At),
    Rmdir(At),
    Rename(At, At, RenameFlags),
    Stat(At),
    Chmod(At, u32),
    Chown(At, u32, u32),
    Times(At, Timestamp, Timestamp),
    Truncate(Which, u64),
    Write(Which, u64, Vec<u8>),
    Read(Which, u64, u32),
    Getxattr(Which, &'static str),
    Setxattr(Which, &'static str, Vec<u8>, SetXattr),
    Removexattr(Which, &'static str),
    Open(At),
    Release(usize),
}

/// Bytes that a call returns, or its error number.
type Outcome = Result<Vec<u8>, i32>;

/// Times from here on are of the run, and not set by an operation.
const PRESENT: u64 = 1_500_000_000;

/// The model, called as Linux's VFS calls a file system.
struct Oracle {
    fs: Model,
    cx: Cx,
    new: NewInode,
    /// The root, and what is open, with its type.
    opened: Vec<(Ino, FileType)>,
}

impl Oracle {
    fn new(uid: u32, gid: u32) -> Oracle {
        let mut fs = Model::new(Timestamp { seconds: 2_000_000_000, nanos: 0 });
        let mut cx = Cx::new();
        let root = fs.root();
        fs.setattr(&mut cx, root, &SetAttr { uid: Some(uid), gid: Some(gid), ..SetAttr::default() }).unwrap();
        Oracle { fs, cx, new: NewInode { mode: 0, uid, gid }, opened: vec![(root, FileType::Directory)] }
    }

    /// Directory and name.
    fn place<'a>(&mut self, at: &'a At) -> Result<(Ino, &'a [u8]), FsError> {
        let (name, above) = at.path.split_last().expect("a path has a component");
        let mut dir = self.opened[at.base].0;
        for part in above {
            let attr = self.fs.lookup(&mut self.cx, dir, part)?;
            if attr.file_type != FileType::Directory {
                return Err(FsError::NotDir { ino: attr.ino });
            }
            dir = attr.ino;
        }
        Ok((dir, name))
    }

    fn find(&mut self, at: &At) -> Result<(Ino, FileType), FsError> {
        let (dir, name) = self.place(at)?;
        let attr = self.fs.lookup(&mut self.cx, dir, name)?;
        Ok((attr.ino, attr.file_type))
    }

    fn which(&mut self, which: &Which) -> Result<(Ino, FileType), FsError> {
        match which {
            Which::Named(at) => self.find(at),
            Which::Opened(at) => Ok(self.opened[*at]),
        }
    }

    fn apply(&mut self, op: &Op) -> Outcome {
        self.call(op).map_err(|error| error.errno())
    }

    fn call(&mut self, op: &Op) -> Result<Vec<u8>, FsError> {
        let new = self.new;
        match op {
            Op::Create(at, mode) => {
                let (dir, name) = self.place(at)?;
                self.fs.create(&mut self.cx, dir, name, NewInode { mode: *mode, ..new })?;
            }
            Op::Mkdir(at, mode) => {
                let (dir, name) = self.place(at)?;
                self.fs.mkdir(&mut self.cx, dir, name, NewInode { mode: *mode, ..new })?;
            }
            Op::Mknod(at, file_type, device) => {
                let (dir, name) = self.place(at)?;
                let new = NewInode { mode: 0o600, ..new };
                self.fs.mknod(&mut self.cx, dir, name, new, *file_type, *device)?;
            }
            Op::Symlink(at, target) => {
                let (dir, name) = self.place(at)?;
                self.fs.symlink(&mut self.cx, dir, name, target, new)?;
            }
            Op::Readlink(at) => {
                let (ino, _) = self.find(at)?;
                return self.fs.readlink(&mut self.cx, ino);
            }
            Op::Link(from, to) => {
                let (ino, _) = self.find(from)?;
                let (dir, name) = self.place(to)?;
                self.fs.link(&mut self.cx, ino, dir, name)?;
            }
            Op::LinkOpened(from, to) => {
                let (dir, name) = self.place(to)?;
                self.fs.link(&mut self.cx, self.opened[*from].0, dir, name)?;
            }
            Op::Unlink(at) => {
                let (dir, name) = self.place(at)?;
                self.fs.unlink(&mut self.cx, dir, name)?;
            }
            Op::Rmdir(at) => {
                let (dir, name) = self.place(at)?;
                self.fs.rmdir(&mut self.cx, dir, name)?;
            }
            Op::Rename(from, to, flags) => {
                let (from, to) = (self.place(from)?, self.place(to)?);
                self.fs.rename(&mut self.cx, from, to, *flags)?;
            }
            Op::Stat(at) => {
                let (ino, _) = self.find(at)?;
                let attr = self.fs.getattr(&mut self.cx, ino)?;
                return Ok(host::told(attr.file_type, attr.nlink, attr.size));
            }
            Op::Chmod(at, mode) => {
                let (ino, file_type) = self.find(at)?;
                if file_type != FileType::Symlink {
                    let set_group = if file_type == FileType::Directory { 0o2000 } else { 0 };
                    let mode = Some(mode & (0o1777 | set_group));
                    self.fs.setattr(&mut self.cx, ino, &SetAttr { mode, ..SetAttr::default() })?;
                }
            }
            Op::Chown(at, uid, gid) => {
                let (ino, _) = self.find(at)?;
                let change = SetAttr { uid: Some(*uid), gid: Some(*gid), ..SetAttr::default() };
                self.fs.setattr(&mut self.cx, ino, &change)?;
            }
            Op::Times(at, atime, mtime) => {
                let (ino, _) = self.find(at)?;
                let change = SetAttr { atime: Some(*atime), mtime: Some(*mtime), ..SetAttr::default() };
                self.fs.setattr(&mut self.cx, ino, &change)?;
            }
            Op::Truncate(which, size) => {
                let (ino, file_type) = self.which(which)?;
                if host::has_contents(which, file_type) {
                    self.fs.setattr(&mut self.cx, ino, &SetAttr::size(*size))?;
                }
            }
            Op::Write(which, offset, data) => {
                let (ino, file_type) = self.which(which)?;
                if host::has_contents(which, file_type) {
                    let written = self.fs.write(&mut self.cx, ino, *offset, Payload::Bytes(data))?;
                    return Ok(written.to_le_bytes().to_vec());
                }
            }
            Op::Read(which, offset, length) => {
                let (ino, file_type) = self.which(which)?;
                if file_type == FileType::Regular {
                    let mut bytes = vec![0xee; *length as usize];
                    let read = self.fs.read(&mut self.cx, ino, *offset, ReadInto::Bytes(&mut bytes))?;
                    bytes.truncate(read as usize);
                    return Ok(bytes);
                }
            }
            Op::Getxattr(which, name) => {
                let (ino, file_type) = self.which(which)?;
                if host::has_xattrs(file_type) {
                    return self.fs.getxattr(&mut self.cx, ino, name.as_bytes());
                }
            }
            Op::Setxattr(which, name, value, how) => {
                let (ino, file_type) = self.which(which)?;
                if host::has_xattrs(file_type) {
                    self.fs.setxattr(&mut self.cx, ino, name.as_bytes(), value, *how)?;
                }
            }
            Op::Removexattr(which, name) => {
                let (ino, file_type) = self.which(which)?;
                if host::has_xattrs(file_type) {
                    self.fs.removexattr(&mut self.cx, ino, name.as_bytes())?;
                }
            }
            Op::Open(at) => {
                let (ino, file_type) = self.find(at)?;
                if host::has_xattrs(file_type) {
                    self.fs.open(&mut self.cx, ino)?;
                    self.opened.push((ino, file_type));
                }
            }
            Op::Release(at) => {
                let (ino, _) = self.opened.swap_remove(*at);
                self.fs.release(&mut self.cx, ino)?;
            }
        }
        Ok(Vec::new())
    }
}

/// Leaves out what the host cannot be asked for: flags, times of the present, the last access of links, which reading
/// them moves.
fn comparable(mut tree: Tree) -> Tree {
    for node in tree.nodes.values_mut() {
        let attr = &mut node.attr;
        attr.flags = Default::default();
        attr.ctime = Timestamp::default();
        for time in [&mut attr.atime, &mut attr.mtime] {
            if time.seconds >= PRESENT {
                *time = Timestamp { seconds: PRESENT, nanos: 0 };
            }
        }
        if attr.file_type == FileType::Symlink {
            attr.atime = Timestamp::default();
        }
    }
    tree
}

/// Draws operations: few names, so that they meet.
struct Draw {
    rng: Rng,
    is_root: bool,
    has_xattrs: bool,
}

impl Draw {
    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.rng.below(of.len() as u64) as usize]
    }

    fn at(&mut self, opened: &[(Ino, FileType)]) -> At {
        let base = if self.rng.chance(0.2) { self.rng.below(opened.len() as u64) as usize } else { 0 };
        let depth = self.pick(&[1, 1, 2, 2, 2, 3, 3, 4]);
        let path = (0..depth).map(|_| match self.rng.below(60) {
            0 => vec![b'n'; 256],
            1 => vec![b'n'; 255],
            2..=5 => b"\xff\x01 \n".to_vec(),
            _ => vec![self.pick(b"abcd")],
        });
        At { base, path: path.collect() }
    }

    fn which(&mut self, opened: &[(Ino, FileType)]) -> Which {
        if opened.len() > 1 && self.rng.chance(0.4) {
            Which::Opened(1 + self.rng.below(opened.len() as u64 - 1) as usize)
        } else {
            Which::Named(self.at(opened))
        }
    }

    fn xattr(&mut self) -> &'static str {
        let names = ["user.a", "user.b", "user.", "user.c", "plain", "trusted.a"];
        let names = if self.is_root { &names[..] } else { &names[..5] };
        self.pick(names)
    }

    fn rename_flags(&mut self) -> RenameFlags {
        let flags = self.pick(&[0, 0, 0, 0, 1, 2, 2, 2, 4, 5, 3, 8]);
        RenameFlags(if self.is_root { flags } else { flags & !4 })
    }

    fn op(&mut self, opened: &[(Ino, FileType)]) -> Op {
        let mode = self.rng.below(0o2000) as u32 | 0o700;
        let at = self.at(opened);
        let offset = self.pick(&[0, 4096, 4095, 8192]) + self.rng.below(9000);
        match self.rng.below(100) {
            0..10 => Op::Create(at, mode & 0o777),
            10..20 => Op::Mkdir(at, mode & 0o777),
            20..23 => {
                let types = [FileType::Fifo, FileType::Socket, FileType::Regular];
                let file_type = self.pick(&types);
                let devices = [FileType::CharDevice, FileType::BlockDevice];
                let file_type = if self.is_root && self.rng.chance(0.5) { self.pick(&devices) } else { file_type };
                let (major, minor) = (self.rng.below(1 << 12) as u32, self.rng.below(1 << 20) as u32);
                let device = DeviceNumber { major, minor };
                Op::Mknod(at, file_type, if file_type.is_device() { device } else { DeviceNumber::default() })
            }
            23..27 => {
                let lengths = [0, 1, 60, 4095, 4096];
                let length = if self.rng.chance(0.3) { self.pick(&lengths) } else { 1 + self.rng.below(200) as usize };
                Op::Symlink(at, vec![b'x'; length])
            }
            27..29 => Op::Readlink(at),
            29..34 => Op::Link(at, self.at(opened)),
            34 if self.is_root && opened.len() > 1 => {
                Op::LinkOpened(1 + self.rng.below(opened.len() as u64 - 1) as usize, at)
            }
            34..40 => Op::Unlink(at),
            40..44 => Op::Rmdir(at),
            44..58 => Op::Rename(at, self.at(opened), self.rename_flags()),
            58..60 => Op::Stat(at),
            60..62 => Op::Chmod(at, mode | self.pick(&[0, 0o2000])),
            62..64 if self.is_root => Op::Chown(at, self.rng.below(1000) as u32, self.rng.below(1000) as u32),
            62..67 => {
                let time = |rng: &mut Rng| Timestamp {
                    seconds: rng.below(PRESENT / 2),
                    nanos: rng.below(1_000_000_000) as u32,
                };
                Op::Times(at, time(&mut self.rng), time(&mut self.rng))
            }
            67..72 => Op::Truncate(self.which(opened), offset * self.rng.below(2)),
            72..81 => {
                let length = self.pick(&[0, 1, 4096, 5000]);
                Op::Write(self.which(opened), offset, vec![self.rng.bits() as u8; length])
            }
            81..85 => Op::Read(self.which(opened), offset, 6000),
            85..95 if !self.has_xattrs => Op::Stat(at),
            85..87 => Op::Getxattr(self.which(opened), self.xattr()),
            87..93 => {
                let length = self.rng.below(200) as usize;
                let how = self.pick(&[SetXattr::Set, SetXattr::Create, SetXattr::Replace]);
                Op::Setxattr(self.which(opened), self.xattr(), vec![b'v'; length], how)
            }
            93..95 => Op::Removexattr(self.which(opened), self.xattr()),
            95..98 if opened.len() < 8 => Op::Open(at),
            _ if opened.len() > 1 => Op::Release(1 + self.rng.below(opened.len() as u64 - 1) as usize),
            _ => Op::Open(at),
        }
    }
}

#[test]
fn drawn_operations_end_as_on_linux() {
    const OPERATIONS: u32 = 6_000;
    let mut errors = std::collections::BTreeMap::<(String, i32), u32>::new();
    let mut most_nodes = 0;
    for seed in 1..=4 {
        let mut host = Host::new(seed);
        let mut oracle = Oracle::new(host.uid, host.gid);
        let (is_root, has_xattrs) = (host.uid == 0, host.has_xattrs());
        if !is_root {
            eprintln!("not root: no devices, owners, whiteouts");
        }
        let mut draw = Draw { rng: Seed(seed).stream("fs/linux"), is_root, has_xattrs };
        for step in 0..OPERATIONS {
            let op = draw.op(&oracle.opened);
            let (ours, linux) = (oracle.apply(&op), host.apply(&op));
            assert_eq!(ours, linux, "seed {seed}, operation {step}: {op:?}");
            oracle.fs.check();
            let name = format!("{op:?}").split('(').next().unwrap_or_default().to_owned();
            *errors.entry((name, ours.err().unwrap_or_default())).or_default() += 1;
            if step % 100 == 99 {
                let ours = comparable(tree(&mut oracle.fs, &mut oracle.cx).unwrap());
                most_nodes = most_nodes.max(ours.nodes.len());
                let difference = ours.difference(&comparable(host.tree()));
                assert_eq!(difference, None, "seed {seed}, after operation {step}, {op:?}");
            }
        }
    }
    // What was drawn must have met what it is to be compared in.
    assert!(most_nodes >= 20, "{most_nodes} paths");
    let met = |name: &str, errno: i32| errors.get(&(name.to_owned(), errno)).copied().unwrap_or_default();
    for (name, errno) in [
        ("Create", 17),
        ("Create", 36),
        ("Mkdir", 20),
        ("Link", 1),
        ("Unlink", 21),
        ("Rmdir", 39),
        ("Rmdir", 20),
        ("Rename", 0),
        ("Rename", 17),
        ("Rename", 20),
        ("Rename", 21),
        ("Rename", 22),
        ("Rename", 39),
        ("Symlink", 36),
        ("Truncate", 21),
        ("Write", 0),
    ] {
        assert!(met(name, errno) > 0, "no {name} ended with {errno}: {errors:?}");
    }
}
