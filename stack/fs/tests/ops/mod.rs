//! Drawn operations, as a user of Linux makes them, and the caller that brings them to a file system as the VFS does.

pub mod draw;

use std::fmt;

pub use fs::model::view::{Names, names};
use sim::seam::{
    DeviceNumber, FileSystem, FileType, FsError, Ino, NewInode, Payload, ReadInto, RenameFlags, SetAttr, SetXattr,
    Timestamp,
};
use sim::{Cx, Rng, Seed};

/// Times from here on are of the run, and not set by an operation.
pub const PRESENT: u64 = 1_500_000_000;
/// Most inodes that are open at once, the root counted.
pub const MAX_OPENED: usize = 8;

/// A name below an open directory, which is counted as [`Which::Opened`] counts, but 0 is the root; and components.
#[derive(Clone)]
pub struct At {
    pub base: usize,
    pub path: Vec<Vec<u8>>,
    /// One of the names that exist instead, see [`At::find`].
    pub exists: Option<usize>,
}

impl fmt::Debug for At {
    /// As a path.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.exists, self.base) {
            (Some(exists), _) => return write!(f, "name {exists}"),
            (None, 0) => {}
            (None, base) => write!(f, "opened {}:", base - 1)?,
        }
        self.path.iter().try_for_each(|name| match name.len() {
            0..=20 => write!(f, "/{}", name.escape_ascii()),
            length => write!(f, "/{length} bytes"),
        })
    }
}

impl At {
    /// A path below the root.
    pub fn new(path: &[u8]) -> At {
        At { base: 0, path: path.split(|&byte| byte == b'/').map(<[u8]>::to_vec).collect(), exists: None }
    }

    /// Puts a name that exists here, if that is asked for.
    pub fn find(&mut self, names: &Names) {
        if let Some(drawn) = self.exists.take().filter(|_| names.len() > 1) {
            let path = names.keys().nth(1 + drawn % (names.len() - 1)).expect("within");
            *self = At::new(&path[1..]);
        }
    }
}

/// What a call is about: a name, or an open inode. The numbers of open inodes go round, so that each stands for one.
#[derive(Clone, Debug)]
pub enum Which {
    Named(At),
    Opened(usize),
}

/// What bytes are like.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Zeroes,
    /// Compresses well.
    Text,
    /// Does not compress.
    Noise,
}

/// Contents by their seed. Shorter contents are the beginning of longer ones.
#[derive(Clone, Copy, Debug)]
pub struct Fill {
    pub kind: Kind,
    pub length: usize,
    pub seed: u64,
}

impl Fill {
    pub fn bytes(self) -> Vec<u8> {
        let mut rng: Rng = Seed(self.seed).stream("fs/fill");
        let mut bytes = Vec::with_capacity(self.length + 8);
        while bytes.len() < self.length {
            match self.kind {
                Kind::Zeroes => bytes.resize(self.length, 0),
                Kind::Text => {
                    let words: [&[u8]; 4] = [b"journal ", b"index ", b"garbage ", b"leaf "];
                    bytes.extend_from_slice(words[rng.below(4) as usize]);
                }
                Kind::Noise => bytes.extend_from_slice(&rng.bits().to_le_bytes()),
            }
        }
        bytes.truncate(self.length);
        bytes
    }
}

#[derive(Clone, Debug)]
pub enum Op {
    Create(At, u32),
    Mkdir(At, u32),
    Mknod(At, FileType, DeviceNumber),
    /// To a target of so many bytes.
    Symlink(At, usize),
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
    Write(Which, u64, Fill),
    Read(Which, u64, u32),
    Getxattr(Which, &'static str),
    Setxattr(Which, &'static str, Fill, SetXattr),
    Removexattr(Which, &'static str),
    Open(At),
    Release(usize),
}

impl Op {
    /// Puts names that exist in the places that ask for one.
    pub fn find(&mut self, names: &Names) {
        self.places().into_iter().for_each(|at| at.find(names));
    }

    /// Every name in it.
    pub fn places(&mut self) -> Vec<&mut At> {
        match self {
            Op::Link(from, to) | Op::Rename(from, to, _) => vec![from, to],
            Op::Create(at, _)
            | Op::Mkdir(at, _)
            | Op::Mknod(at, ..)
            | Op::Symlink(at, _)
            | Op::Readlink(at)
            | Op::LinkOpened(_, at)
            | Op::Unlink(at)
            | Op::Rmdir(at)
            | Op::Stat(at)
            | Op::Chmod(at, _)
            | Op::Chown(at, ..)
            | Op::Times(at, ..)
            | Op::Open(at) => vec![at],
            Op::Truncate(which, _)
            | Op::Write(which, ..)
            | Op::Read(which, ..)
            | Op::Getxattr(which, _)
            | Op::Setxattr(which, ..)
            | Op::Removexattr(which, _) => match which {
                Which::Named(at) => vec![at],
                Which::Opened(_) => Vec::new(),
            },
            Op::Release(_) => Vec::new(),
        }
    }
}

/// Which of `opened` inodes a drawn number stands for: not the root, if there is another.
pub fn opened_at(drawn: usize, opened: usize) -> usize {
    if opened == 1 { 0 } else { 1 + drawn % (opened - 1) }
}

/// Which of `opened` inodes the path of an [`At`] begins at.
pub fn base_at(drawn: usize, opened: usize) -> usize {
    if drawn == 0 { 0 } else { opened_at(drawn - 1, opened) }
}

/// Whether contents are read and written: of what is open, only regular files, for a directory is open for reading.
pub fn has_contents(which: &Which, file_type: FileType) -> bool {
    let of_directory = file_type == FileType::Directory && matches!(which, Which::Named(_));
    file_type == FileType::Regular || of_directory
}

/// Whether the VFS lets `user.` attributes through, and opening has no other effect.
pub fn has_xattrs(file_type: FileType) -> bool {
    matches!(file_type, FileType::Regular | FileType::Directory)
}

/// What is compared of `stat`.
pub fn told(file_type: FileType, nlink: u32, size: u64) -> Vec<u8> {
    let has_size = matches!(file_type, FileType::Regular | FileType::Symlink);
    format!("{file_type:?} {nlink} {}", if has_size { size } else { 0 }).into_bytes()
}

/// What a user of a file system has of it.
#[derive(Clone, Debug)]
pub struct Session {
    new: NewInode,
    /// The root, and what is open, with its type.
    pub opened: Vec<(Ino, FileType)>,
}

impl Session {
    /// New inodes are of this owner.
    pub fn new(root: Ino, uid: u32, gid: u32) -> Session {
        Session { new: NewInode { mode: 0, uid, gid }, opened: vec![(root, FileType::Directory)] }
    }
}

/// A file system, called as Linux's VFS calls it.
pub struct Caller<'a, F> {
    pub fs: &'a mut F,
    pub cx: &'a mut Cx,
    pub session: &'a mut Session,
}

impl<F: FileSystem> Caller<'_, F> {
    /// Directory and name.
    pub fn place<'a>(&mut self, at: &'a At) -> Result<(Ino, &'a [u8]), FsError> {
        let (name, above) = at.path.split_last().expect("a path has a component");
        let opened = &self.session.opened;
        let mut dir = opened[base_at(at.base, opened.len())].0;
        for part in above {
            let attr = self.fs.lookup(self.cx, dir, part)?;
            if attr.file_type != FileType::Directory {
                return Err(FsError::NotDir { ino: attr.ino });
            }
            dir = attr.ino;
        }
        Ok((dir, name))
    }

    /// What a name stands for.
    pub fn find(&mut self, at: &At) -> Result<(Ino, FileType), FsError> {
        let (dir, name) = self.place(at)?;
        let attr = self.fs.lookup(self.cx, dir, name)?;
        Ok((attr.ino, attr.file_type))
    }

    /// The inode that a call is about.
    pub fn which(&mut self, which: &Which) -> Result<(Ino, FileType), FsError> {
        match which {
            Which::Named(at) => self.find(at),
            Which::Opened(at) => {
                let opened = &self.session.opened;
                Ok(opened[opened_at(*at, opened.len())])
            }
        }
    }

    fn setattr(&mut self, at: &At, change: &SetAttr) -> Result<(), FsError> {
        let (ino, _) = self.find(at)?;
        self.fs.setattr(self.cx, ino, change).map(|_| ())
    }

    /// Makes an operation. Returns the bytes that it returns.
    pub fn call(&mut self, op: &Op) -> Result<Vec<u8>, FsError> {
        let new = self.session.new;
        match op {
            Op::Create(at, mode) => {
                let (dir, name) = self.place(at)?;
                self.fs.create(self.cx, dir, name, NewInode { mode: *mode, ..new })?;
            }
            Op::Mkdir(at, mode) => {
                let (dir, name) = self.place(at)?;
                self.fs.mkdir(self.cx, dir, name, NewInode { mode: *mode, ..new })?;
            }
            Op::Mknod(at, file_type, device) => {
                let (dir, name) = self.place(at)?;
                let new = NewInode { mode: 0o600, ..new };
                self.fs.mknod(self.cx, dir, name, new, *file_type, *device)?;
            }
            Op::Symlink(at, length) => {
                let (dir, name) = self.place(at)?;
                self.fs.symlink(self.cx, dir, name, &vec![b'x'; *length], new)?;
            }
            Op::Readlink(at) => {
                let (ino, _) = self.find(at)?;
                return self.fs.readlink(self.cx, ino);
            }
            Op::Link(from, to) => {
                let (ino, _) = self.find(from)?;
                let (dir, name) = self.place(to)?;
                self.fs.link(self.cx, ino, dir, name)?;
            }
            Op::LinkOpened(from, to) => {
                let (dir, name) = self.place(to)?;
                let (ino, _) = self.which(&Which::Opened(*from))?;
                self.fs.link(self.cx, ino, dir, name)?;
            }
            Op::Unlink(at) => {
                let (dir, name) = self.place(at)?;
                self.fs.unlink(self.cx, dir, name)?;
            }
            Op::Rmdir(at) => {
                let (dir, name) = self.place(at)?;
                self.fs.rmdir(self.cx, dir, name)?;
            }
            Op::Rename(from, to, flags) => {
                let (from, to) = (self.place(from)?, self.place(to)?);
                self.fs.rename(self.cx, from, to, *flags)?;
            }
            Op::Stat(at) => {
                let (ino, _) = self.find(at)?;
                let attr = self.fs.getattr(self.cx, ino)?;
                return Ok(told(attr.file_type, attr.nlink, attr.size));
            }
            Op::Chmod(at, mode) => {
                let (ino, file_type) = self.find(at)?;
                if file_type != FileType::Symlink {
                    let set_group = if file_type == FileType::Directory { 0o2000 } else { 0 };
                    let mode = Some(mode & (0o1777 | set_group));
                    self.fs.setattr(self.cx, ino, &SetAttr { mode, ..SetAttr::default() })?;
                }
            }
            Op::Chown(at, uid, gid) => {
                self.setattr(at, &SetAttr { uid: Some(*uid), gid: Some(*gid), ..SetAttr::default() })?;
            }
            Op::Times(at, atime, mtime) => {
                self.setattr(at, &SetAttr { atime: Some(*atime), mtime: Some(*mtime), ..SetAttr::default() })?;
            }
            Op::Truncate(which, size) => {
                let (ino, file_type) = self.which(which)?;
                if has_contents(which, file_type) {
                    self.fs.setattr(self.cx, ino, &SetAttr::size(*size))?;
                }
            }
            Op::Write(which, offset, data) => {
                let (ino, file_type) = self.which(which)?;
                if has_contents(which, file_type) {
                    let written = self.fs.write(self.cx, ino, *offset, Payload::Bytes(&data.bytes()))?;
                    return Ok(written.to_le_bytes().to_vec());
                }
            }
            Op::Read(which, offset, length) => {
                let (ino, file_type) = self.which(which)?;
                if file_type == FileType::Regular {
                    let mut bytes = vec![0xee; *length as usize];
                    let read = self.fs.read(self.cx, ino, *offset, ReadInto::Bytes(&mut bytes))?;
                    bytes.truncate(read as usize);
                    return Ok(bytes);
                }
            }
            Op::Getxattr(which, name) => {
                let (ino, file_type) = self.which(which)?;
                if has_xattrs(file_type) {
                    return self.fs.getxattr(self.cx, ino, name.as_bytes());
                }
            }
            Op::Setxattr(which, name, value, how) => {
                let (ino, file_type) = self.which(which)?;
                if has_xattrs(file_type) {
                    self.fs.setxattr(self.cx, ino, name.as_bytes(), &value.bytes(), *how)?;
                }
            }
            Op::Removexattr(which, name) => {
                let (ino, file_type) = self.which(which)?;
                if has_xattrs(file_type) {
                    self.fs.removexattr(self.cx, ino, name.as_bytes())?;
                }
            }
            Op::Open(at) => {
                let (ino, file_type) = self.find(at)?;
                if has_xattrs(file_type) && self.session.opened.len() < MAX_OPENED {
                    self.fs.open(self.cx, ino)?;
                    self.session.opened.push((ino, file_type));
                }
            }
            Op::Release(at) => {
                let opened = self.session.opened.len();
                if opened > 1 {
                    let (ino, _) = self.session.opened.swap_remove(opened_at(*at, opened));
                    self.fs.release(self.cx, ino)?;
                }
            }
        }
        Ok(Vec::new())
    }
}
