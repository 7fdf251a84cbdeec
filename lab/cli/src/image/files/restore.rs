//! Writes the files of an image to a directory of this machine.
//!
//! Nothing outside of the directory is ever written: every file is made by its name in a directory that this module
//! opened, no symbolic link is followed, and a name that is no single component of a path is left out. What cannot be
//! restored is listed, and the rest goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, FileType as HostType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags, chmodat, chownat,
    fchmod, ftruncate, linkat, lsetxattr, makedev, mkdirat, mknodat, openat, symlinkat, unlinkat, utimensat,
};
use rustix::io::{Errno, pwrite};
use sim::seam::{DeviceNumber, FileType, Ino, Timestamp};

use super::Files;
use super::opened::{Cursor, Entry, Inode, Loss, Piece};
use super::walk::{is_component, type_name};
use crate::error::CliError;
use crate::image::ls::printable;

/// Bytes of data written at a time.
const CHUNK: usize = 256 << 10;
/// Deepest directory that is restored: each is open while those below it are written.
const MOST_DEPTH: usize = 512;

/// How files are written.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whether files get the owners and groups of the image.
    pub owners: bool,
    /// Whether files that exist are replaced.
    pub force: bool,
}

/// Something that could not be restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Path in the image.
    pub path: Vec<u8>,
    /// What is missing, and why.
    pub what: String,
}

/// What was written.
#[derive(Clone, Debug, Default)]
pub struct Restored {
    /// Names of files that are no directories, hard links counted each.
    pub files: u64,
    /// Directories below the root.
    pub dirs: u64,
    /// Bytes of regular files, holes counted.
    pub bytes: u64,
    /// What could not be restored.
    pub lost: Vec<Lost>,
}

struct Frame {
    dir: OwnedFd,
    inode: Inode,
    entries: std::vec::IntoIter<Entry>,
    /// Bytes of the directory's path.
    path_len: usize,
}

struct Restore<'f, 's, 'a> {
    files: &'f mut Files<'s, 'a>,
    options: Options,
    done: Restored,
    root: OwnedFd,
    /// Path of the file that is written, from the root on.
    path: Vec<u8>,
    /// Where inodes with several names were written first. The directories of such a path are this module's own.
    linked: BTreeMap<Ino, Vec<u8>>,
    seen_dirs: BTreeSet<Ino>,
    chunk: Vec<u8>,
}

/// Writes every file to `target`, a directory that exists.
/// Errors: the root of the file system cannot be read; `target` cannot be opened.
pub fn restore(files: &mut Files<'_, '_>, target: &Path, options: Options) -> Result<Restored, CliError> {
    let root = files.fs.root(&mut files.cx).map_err(|error| files.failed(&error))?;
    let dir = openat(CWD, target, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| CliError::write(target, &error.into()))?;
    let mut restore = Restore {
        root: dir.try_clone().map_err(|error| CliError::write(target, &error))?,
        files,
        options,
        done: Restored::default(),
        path: Vec::new(),
        linked: BTreeMap::new(),
        seen_dirs: BTreeSet::from([root.attr.ino]),
        chunk: Vec::with_capacity(CHUNK),
    };
    restore.tree(dir, root);
    restore.path.clear();
    for what in restore.files.fs.strays() {
        restore.lost(what);
    }
    Ok(restore.done)
}

impl Restore<'_, '_, '_> {
    fn lost(&mut self, what: impl Into<String>) {
        let path = if self.path.is_empty() { b"/".to_vec() } else { self.path.clone() };
        self.done.lost.push(Lost { path, what: what.into() });
    }

    fn tree(&mut self, dir: OwnedFd, root: Inode) {
        let mut frames = Vec::new();
        self.enter(&mut frames, dir, root);
        while let Some(frame) = frames.last_mut() {
            self.path.truncate(frame.path_len);
            let Some(entry) = frame.entries.next() else {
                let Frame { dir, inode, .. } = frames.pop().expect("there is one");
                self.attributes(&dir, b".", &inode);
                self.metadata(&dir, b".", &inode);
                continue;
            };
            self.path.push(b'/');
            self.path.extend_from_slice(&entry.name);
            if !is_component(&entry.name) {
                self.lost("its name is no name of a file: nothing was written");
                continue;
            }
            let inode = match self.files.fs.inode(&mut self.files.cx, entry.ino) {
                Ok(inode) => inode,
                Err(error) => {
                    self.lost(error.to_string());
                    continue;
                }
            };
            if inode.attr.file_type != entry.file_type {
                let (found, named) = (type_name(inode.attr.file_type), type_name(entry.file_type));
                self.lost(format!("its entry names a {named}, its inode is a {found}: restored as that"));
            }
            let frame = frames.last().expect("there is one");
            if inode.attr.file_type != FileType::Directory {
                self.file(&frame.dir, &entry.name, &inode);
            } else if !self.seen_dirs.insert(inode.attr.ino) {
                self.lost("the directory has another name too: restored once");
            } else if frames.len() == MOST_DEPTH {
                self.lost(format!("more than {MOST_DEPTH} directories deep"));
            } else {
                match self.directory(&frame.dir, &entry.name) {
                    Ok(dir) => {
                        self.done.dirs += 1;
                        self.enter(&mut frames, dir, inode);
                    }
                    Err(error) => self.lost(format!("the directory cannot be made: {}", io::Error::from(error))),
                }
            }
        }
    }

    fn enter(&mut self, frames: &mut Vec<Frame>, dir: OwnedFd, inode: Inode) {
        let entries = self.files.fs.entries(&mut self.files.cx, inode.attr.ino).unwrap_or_else(|error| {
            self.lost(format!("the directory cannot be read: {error}"));
            Vec::new()
        });
        self.losses(&inode);
        frames.push(Frame { dir, inode, entries: entries.into_iter(), path_len: self.path.len() });
    }

    fn directory(&self, dir: &OwnedFd, name: &[u8]) -> Result<OwnedFd, Errno> {
        match mkdirat(dir, name, Mode::RWXU) {
            Err(Errno::EXIST) if self.options.force => {}
            made => made?,
        }
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(dir, name, flags, Mode::empty())
    }

    /// Calls `make` once more if the name is in use and may be.
    fn make<T>(&self, dir: &OwnedFd, name: &[u8], make: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
        match make() {
            Err(Errno::EXIST) if self.options.force => {
                unlinkat(dir, name, AtFlags::empty())?;
                make()
            }
            made => made,
        }
    }

    fn file(&mut self, dir: &OwnedFd, name: &[u8], inode: &Inode) {
        self.done.files += 1;
        if let Some(first) = self.linked.get(&inode.attr.ino) {
            let below_root = &first[1..];
            match self.make(dir, name, || linkat(&self.root, below_root, dir, name, AtFlags::empty())) {
                Ok(()) => return,
                Err(error) => {
                    let what = format!("no hard link to {}, but a copy: {}", printable(first), io::Error::from(error));
                    self.lost(what);
                }
            }
        }
        self.losses(inode);
        let made = match inode.attr.file_type {
            FileType::Regular => return self.regular(dir, name, inode),
            FileType::Symlink => match inode.target.contains(&0) {
                true => Err(Errno::INVAL),
                false => self.make(dir, name, || symlinkat(&inode.target[..], dir, name)),
            },
            FileType::Fifo => self.node(dir, name, HostType::Fifo, None),
            FileType::Socket => self.node(dir, name, HostType::Socket, None),
            FileType::BlockDevice => self.node(dir, name, HostType::BlockDevice, Some(inode)),
            FileType::CharDevice => self.node(dir, name, HostType::CharacterDevice, Some(inode)),
            FileType::Directory => unreachable!("directories are entered"),
        };
        match made {
            Ok(()) => self.finish(dir, name, inode),
            Err(error) => {
                self.lost(format!(
                    "the {} cannot be made: {}",
                    type_name(inode.attr.file_type),
                    io::Error::from(error)
                ));
            }
        }
    }

    fn node(&self, dir: &OwnedFd, name: &[u8], kind: HostType, device: Option<&Inode>) -> Result<(), Errno> {
        let device = match device {
            None => 0,
            Some(inode) => {
                let DeviceNumber { major, minor } = inode.device.ok_or(Errno::INVAL)?;
                makedev(major, minor)
            }
        };
        self.make(dir, name, || mknodat(dir, name, kind, Mode::RUSR | Mode::WUSR, device))
    }

    fn regular(&mut self, dir: &OwnedFd, name: &[u8], inode: &Inode) {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match self.make(dir, name, || openat(dir, name, flags, Mode::RUSR | Mode::WUSR)) {
            Ok(file) => file,
            Err(error) => return self.lost(format!("the file cannot be made: {}", io::Error::from(error))),
        };
        match self.data(&file, inode).and_then(|()| ftruncate(&file, inode.attr.size)) {
            Ok(()) => self.done.bytes += inode.attr.size,
            Err(error) => self.lost(format!("the file cannot be written: {}", io::Error::from(error))),
        }
        drop(file);
        self.finish(dir, name, inode);
    }

    /// Writes the pieces that have data. One that is damaged is listed, and stays a hole.
    fn data(&mut self, file: &OwnedFd, inode: &Inode) -> Result<(), Errno> {
        let (mut piece, mut begin) = (Vec::new(), 0);
        self.chunk.clear();
        let mut cursor = Cursor::default();
        loop {
            let Files { fs, cx, .. } = &mut *self.files;
            match fs.next_piece(cx, inode, &mut cursor, &mut piece) {
                None => break,
                Some(Piece::Bytes(at)) => {
                    if at != begin + self.chunk.len() as u64 || self.chunk.len() + piece.len() > CHUNK {
                        write_at(file, &self.chunk, begin)?;
                        self.chunk.clear();
                        begin = at;
                    }
                    self.chunk.extend_from_slice(&piece);
                }
                Some(Piece::Missing(what)) => self.lost(what),
            }
        }
        write_at(file, &self.chunk, begin)
    }

    /// Lists what was found damaged of an inode: of a directory also names in it.
    fn losses(&mut self, inode: &Inode) {
        for Loss { name, what } in self.files.fs.losses(inode) {
            let len = self.path.len();
            if let Some(name) = name {
                self.path.push(b'/');
                self.path.extend_from_slice(&name);
            }
            self.lost(what);
            self.path.truncate(len);
        }
    }

    fn finish(&mut self, dir: &OwnedFd, name: &[u8], inode: &Inode) {
        if inode.attr.nlink > 1 {
            self.linked.entry(inode.attr.ino).or_insert_with(|| self.path.clone());
        }
        self.attributes(dir, name, inode);
        self.metadata(dir, name, inode);
    }

    fn attributes(&mut self, dir: &OwnedFd, name: &[u8], inode: &Inode) {
        if !inode.may_have_xattrs {
            return;
        }
        let path = [format!("/proc/self/fd/{}/", dir.as_raw_fd()).as_bytes(), name].concat();
        let Files { fs, cx, .. } = &mut *self.files;
        let attributes = match fs.xattrs(cx, inode.attr.ino) {
            Ok(attributes) => attributes,
            Err(error) => return self.lost(format!("its extended attributes cannot be read: {error}")),
        };
        for xattr in attributes {
            let Files { fs, cx, .. } = &mut *self.files;
            let set = |value: Vec<u8>| {
                lsetxattr(&path[..], &xattr.name[..], &value, XattrFlags::empty())
                    .map_err(|error| io::Error::from(error).to_string())
            };
            if let Err(error) = fs.xattr(cx, inode.attr.ino, &xattr).and_then(set) {
                self.lost(format!("its extended attribute {:?} is missing: {error}", printable(&xattr.name)));
            }
        }
    }

    fn metadata(&mut self, dir: &OwnedFd, name: &[u8], inode: &Inode) {
        let is_symlink = inode.attr.file_type == FileType::Symlink;
        let inode = &inode.attr;
        let failed = |error: Errno| io::Error::from(error).to_string();
        if self.options.owners {
            let (uid, gid) = (Uid::from_raw(inode.uid), Gid::from_raw(inode.gid));
            if let Err(error) = chownat(dir, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW).map_err(failed) {
                self.lost(format!("its owner {}:{} is missing: {error}", inode.uid, inode.gid));
            }
        }
        // Permissions last, for a change of owner clears some. A link has none of its own: they would be those of the file
        // that it leads to, which may be anywhere.
        let mode = Mode::from_raw_mode(inode.mode & 0o7777);
        let set_mode = match name {
            _ if is_symlink => Ok(()),
            b"." => fchmod(dir, mode),
            name => chmodat(dir, name, mode, AtFlags::empty()),
        };
        if let Err(error) = set_mode.map_err(failed) {
            self.lost(format!("its mode {:o} is missing: {error}", inode.mode & 0o7777));
        }
        let time =
            |Timestamp { seconds, nanos }: Timestamp| Timespec { tv_sec: seconds.cast_signed(), tv_nsec: nanos.into() };
        let times = Timestamps { last_access: time(inode.atime), last_modification: time(inode.mtime) };
        if let Err(error) = utimensat(dir, name, &times, AtFlags::SYMLINK_NOFOLLOW).map_err(failed) {
            self.lost(format!("its times are missing: {error}"));
        }
    }
}

fn write_at(file: &OwnedFd, mut bytes: &[u8], mut at: u64) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match pwrite(file, bytes, at) {
            Ok(written) => {
                bytes = &bytes[written..];
                at += written as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
