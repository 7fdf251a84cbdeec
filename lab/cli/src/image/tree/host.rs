//! Reads a directory tree of the host into a file system that is being made.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use fs::ubifs::media::{Device, ItemType, inode_flags};
use fs::ubifs::mkfs::{Attributes, Xattr};
use rustix::fs::{AtFlags, IFlags, Mode, OFlags, SeekFrom, Stat};
use rustix::io::Errno;

use super::table::{Entry, Node};
use super::target::{Inline, Target};
use crate::error::CliError;

/// Bytes that are read at once.
const CHUNK: usize = 256 << 10;

/// A file with several names, before all were seen.
struct Linked<I> {
    inode: I,
    attributes: Attributes,
    size: u64,
    names: u32,
    inline: Inline,
    xattrs: Vec<Xattr>,
}

/// What was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// Directories and other files, the root included; several names of a file count once.
    pub files: u64,
    /// Bytes of regular files, holes included.
    pub bytes: u64,
    /// Extended attributes that the file system cannot have: with UBIFS access control lists.
    pub left_out: u64,
}

/// Names of a directory, in one piece of memory.
#[derive(Default)]
struct Names {
    bytes: Vec<u8>,
    /// Begin and end of each.
    spans: Vec<(u32, u32)>,
}

impl Names {
    fn push(&mut self, name: &[u8]) {
        let begin = self.bytes.len() as u32;
        self.bytes.extend_from_slice(name);
        self.spans.push((begin, self.bytes.len() as u32));
    }

    fn name(&self, span: (u32, u32)) -> &[u8] {
        &self.bytes[span.0 as usize..span.1 as usize]
    }

    fn sort(&mut self) {
        let Names { bytes, spans } = self;
        spans.sort_unstable_by_key(|&(begin, end)| &bytes[begin as usize..end as usize]);
    }
}

/// Reads the tree at `root`.
pub struct Walk<'m, T: Target> {
    mkfs: &'m mut T,
    squash: bool,
    /// Where the walk is, for messages and for calls that want a path.
    path: PathBuf,
    /// Time of what only the table has.
    time: (i64, u32),
    /// Place in `linked` of each file with several names, by device and inode of the host.
    places: BTreeMap<(u64, u64), usize>,
    linked: Vec<Linked<T::Inode>>,
    buffer: Vec<u8>,
    read: Read,
}

fn refused<E: From<CliError>>(path: &Path, what: impl Into<String>, help: &str) -> E {
    CliError::input(path, what, help).into()
}

impl<'m, T: Target> Walk<'m, T> {
    /// A walk of the tree at `root`. With `squash`, root owns all that the table does not give to another.
    pub fn new(mkfs: &'m mut T, root: &Path, squash: bool) -> Walk<'m, T> {
        let (path, buffer) = (root.to_owned(), vec![0; CHUNK]);
        let (places, linked) = (BTreeMap::new(), Vec::new());
        Walk { mkfs, squash, path, time: (0, 0), places, linked, buffer, read: Read::default() }
    }

    /// Where the walk is, or ended by an error.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads it all. `table` is the root of the device table.
    /// Errors: a file cannot be read; the table contradicts the tree; the file system cannot hold it.
    pub fn read(&mut self, table: &Node) -> Result<Read, T::Error> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(&self.path, flags, Mode::empty()).map_err(|error| self.unreadable(error))?;
        let stat = rustix::fs::fstat(&fd).map_err(|error| self.unreadable(error))?;
        self.time = time(&stat);
        let attributes = self.attributes(&stat, flags_of(&fd), table.entry.as_ref(), ItemType::Dir)?;
        let dir = self.mkfs.root();
        self.dir(dir, Some(fd), table, &attributes)?;
        for linked in std::mem::take(&mut self.linked) {
            let Linked { inode, attributes, size, names, inline, xattrs } = linked;
            self.mkfs.inode(inode, &attributes, (size, names), &inline, &xattrs)?;
        }
        Ok(self.read)
    }

    fn unreadable(&self, error: Errno) -> T::Error {
        CliError::read(&self.path, &io::Error::from(error)).into()
    }

    /// Fills and ends a directory; one that only the table has is on no host.
    fn dir(
        &mut self,
        mut dir: T::Dir,
        host: Option<OwnedFd>,
        table: &Node,
        attributes: &Attributes,
    ) -> Result<(), T::Error> {
        self.read.files += 1;
        let mut names = Names::default();
        let mut xattrs = Vec::new();
        if let Some(fd) = &host {
            xattrs = self.xattrs(Some(fd))?;
            let entries = rustix::fs::Dir::read_from(fd).map_err(|error| self.unreadable(error))?;
            for entry in entries {
                let entry = entry.map_err(|error| self.unreadable(error))?;
                match entry.file_name().to_bytes() {
                    b"." | b".." => {}
                    name => names.push(name),
                }
            }
            names.sort();
        }
        let of_host = names.spans.len();
        for name in table.children.keys() {
            let found = names.spans[..of_host].binary_search_by_key(&&name[..], |&span| names.name(span));
            if found.is_err() {
                names.push(name);
            }
        }
        let only_in_table: Vec<(u32, u32)> = names.spans[of_host..].to_vec();
        names.sort();
        for &span in &names.spans {
            let name = names.name(span);
            let node = table.children.get(name);
            self.path.push(OsStr::from_bytes(name));
            match &host {
                Some(fd) if !only_in_table.contains(&span) => self.of_host(&mut dir, fd, name, node)?,
                _ => self.of_table(&mut dir, name, node.expect("only the table has it"))?,
            }
            self.path.pop();
        }
        drop(host);
        self.mkfs.end_dir(&dir, attributes, &xattrs)
    }

    /// Adds what the host has in a directory.
    fn of_host(
        &mut self,
        dir: &mut T::Dir,
        parent: &OwnedFd,
        name: &[u8],
        table: Option<&Node>,
    ) -> Result<(), T::Error> {
        let stat =
            rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).map_err(|error| self.unreadable(error))?;
        let Some(item) = ItemType::of_mode(stat.st_mode) else {
            return Err(refused(&self.path, format!("found mode {:o}, expected a file", stat.st_mode), "leave it out"));
        };
        let entry = table.and_then(|node| node.entry.as_ref());
        if item != ItemType::Dir
            && let Some(below) = table.and_then(|node| node.children.values().next())
        {
            let line = first_line(below);
            let what = format!("found no directory, expected one: line {line} of the device table has a file in it");
            return Err(refused(&self.path, what, "correct the path in the table"));
        }
        let open = |flags: OFlags| {
            let flags = flags | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            rustix::fs::openat(parent, name, flags, Mode::empty())
        };
        if item == ItemType::Dir {
            let fd = open(OFlags::DIRECTORY).map_err(|error| self.unreadable(error))?;
            let attributes = self.attributes(&stat, flags_of(&fd), entry, item)?;
            let new = self.mkfs.new_dir()?;
            let inode = T::inode_of(&new);
            self.dir(new, Some(fd), table.unwrap_or(&Node::default()), &attributes)?;
            return self.mkfs.entry(dir, name, inode, item, &attributes);
        }
        let has_names = stat.st_nlink > 1;
        let on_host = (stat.st_dev, stat.st_ino);
        if has_names && let Some(&at) = self.places.get(&on_host) {
            if let Some(entry) = entry {
                // Owner and mode belong to the file, whatever the name.
                let attributes = self.attributes(&stat, 0, Some(entry), item)?;
                self.linked[at].attributes = Attributes { flags: self.linked[at].attributes.flags, ..attributes };
            }
            self.linked[at].names += 1;
            let Linked { inode, attributes, .. } = self.linked[at];
            return self.mkfs.entry(dir, name, inode, item, &attributes);
        }
        self.read.files += 1;
        let inode = self.mkfs.new_inode()?;
        let (mut size, mut inline) = (0, Inline::None);
        let (xattrs, attributes);
        if item == ItemType::File {
            let fd = open(OFlags::empty()).map_err(|error| self.unreadable(error))?;
            attributes = self.attributes(&stat, flags_of(&fd), entry, item)?;
            xattrs = self.xattrs(Some(&fd))?;
            size = stat.st_size.cast_unsigned();
            self.data(inode, &attributes, &File::from(fd), &stat)?;
        } else {
            attributes = self.attributes(&stat, 0, entry, item)?;
            xattrs = self.xattrs(None)?;
            match item {
                ItemType::Symlink => {
                    let target = rustix::fs::readlinkat(parent, name, Vec::new());
                    let target = target.map_err(|error| self.unreadable(error))?.into_bytes();
                    size = target.len() as u64;
                    inline = Inline::Target(target);
                }
                ItemType::BlockDevice | ItemType::CharDevice => {
                    let (major, minor) = (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev));
                    inline = Inline::Device(Device { major, minor });
                }
                _ => {}
            }
        }
        if has_names {
            self.places.insert(on_host, self.linked.len());
            self.linked.push(Linked { inode, attributes, size, names: 1, inline, xattrs });
        } else {
            self.mkfs.inode(inode, &attributes, (size, 1), &inline, &xattrs)?;
        }
        self.mkfs.entry(dir, name, inode, item, &attributes)
    }

    /// Adds what only the device table has in a directory.
    fn of_table(&mut self, dir: &mut T::Dir, name: &[u8], node: &Node) -> Result<(), T::Error> {
        let Some(Entry { line, item, mode, uid, gid, device }) = node.entry else {
            let what = format!(
                "found no such directory, expected one: line {} of the device table has a file in it",
                first_line(node)
            );
            return Err(refused(&self.path, what, "add a line for the directory before, of type d"));
        };
        if item == ItemType::File {
            let what = format!("found no such file, expected one: line {line} of the device table gives its mode");
            return Err(refused(&self.path, what, "a table makes devices, pipes and directories, no regular files"));
        }
        let (atime, ctime, mtime) = (self.time, self.time, self.time);
        let attributes = Attributes { mode: item.mode() | mode, uid, gid, atime, ctime, mtime, flags: 0 };
        if item == ItemType::Dir {
            let new = self.mkfs.new_dir()?;
            let inode = T::inode_of(&new);
            self.dir(new, None, node, &attributes)?;
            return self.mkfs.entry(dir, name, inode, item, &attributes);
        }
        if let Some(below) = node.children.values().next() {
            let line = first_line(below);
            let what = format!("found no directory, expected one: line {line} of the device table has a file in it");
            return Err(refused(&self.path, what, "correct the path in the table"));
        }
        self.read.files += 1;
        let inode = self.mkfs.new_inode()?;
        let inline = if item == ItemType::Fifo { Inline::None } else { Inline::Device(device) };
        self.mkfs.inode(inode, &attributes, (0, 1), &inline, &[])?;
        self.mkfs.entry(dir, name, inode, item, &attributes)
    }

    /// Attributes of a file of the host. Its times are all that of its last change: the others tell when somebody read
    /// or copied the tree, and would make each image another one.
    fn attributes(
        &self,
        stat: &Stat,
        flags: u32,
        entry: Option<&Entry>,
        item: ItemType,
    ) -> Result<Attributes, T::Error> {
        let time = time(stat);
        let (uid, gid) = if self.squash { (0, 0) } else { (stat.st_uid, stat.st_gid) };
        // Only of directories.
        let flags = if item == ItemType::Dir { flags } else { flags & !inode_flags::DIR_SYNC };
        let found = Attributes { mode: stat.st_mode, uid, gid, atime: time, ctime: time, mtime: time, flags };
        let Some(&Entry { line, item: expected, mode, uid, gid, .. }) = entry else { return Ok(found) };
        if expected != item || !matches!(item, ItemType::File | ItemType::Dir) {
            let what = format!("found it in the tree, and in line {line} of the device table");
            return Err(refused(
                &self.path,
                what,
                "a table adds what is not in the tree, and gives owners of its files and directories",
            ));
        }
        Ok(Attributes { mode: item.mode() | mode, uid, gid, ..found })
    }

    /// Adds the data of a file, without its holes.
    fn data(&mut self, inode: T::Inode, attributes: &Attributes, file: &File, stat: &Stat) -> Result<(), T::Error> {
        /// Bytes that `st_blocks` counts in.
        const SECTOR: u64 = 512;
        let size = stat.st_size.cast_unsigned();
        self.read.bytes += size;
        let is_sparse = stat.st_blocks.cast_unsigned().saturating_mul(SECTOR) < size;
        let mut at = 0;
        while at < size {
            if is_sparse {
                match rustix::fs::seek(file, SeekFrom::Data(at)) {
                    Ok(data) => at = data - data % u64::from(self.mkfs.unit()),
                    Err(Errno::NXIO) => break,
                    // A file system that cannot tell.
                    Err(_) => {}
                }
            }
            let wanted = (size - at).min(CHUNK as u64) as usize;
            let mut filled = 0;
            while filled < wanted {
                match file.read_at(&mut self.buffer[filled..wanted], at + filled as u64) {
                    Ok(0) => {
                        let help = "pack again when nothing writes to it";
                        return Err(refused(&self.path, "became shorter while it was read", help));
                    }
                    Ok(more) => filled += more,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(CliError::read(&self.path, &error).into()),
                }
            }
            self.mkfs.data(inode, attributes, size, at, &self.buffer[..filled])?;
            at += filled as u64;
        }
        Ok(())
    }

    /// Extended attributes of the file at the path, which may be open, sorted by name.
    fn xattrs(&mut self, open: Option<&OwnedFd>) -> Result<Vec<Xattr>, T::Error> {
        // The buffer is as long as Linux lets a list or a value be.
        let listed = match open {
            Some(fd) => rustix::fs::flistxattr(fd, &mut self.buffer[..]),
            None => rustix::fs::llistxattr(&self.path, &mut self.buffer[..]),
        };
        let list = match listed {
            Ok(0) | Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
            Ok(len) => self.buffer[..len].to_vec(),
            Err(error) => return Err(self.unreadable(error)),
        };
        let mut xattrs = Vec::new();
        for name in list.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
            if !T::takes_xattr(name) {
                self.read.left_out += 1;
                continue;
            }
            let value = match open {
                Some(fd) => rustix::fs::fgetxattr(fd, name, &mut self.buffer[..]),
                None => rustix::fs::lgetxattr(&self.path, name, &mut self.buffer[..]),
            };
            let len = value.map_err(|error| self.unreadable(error))?;
            xattrs.push(Xattr { name: name.to_vec(), value: self.buffer[..len].to_vec() });
        }
        xattrs.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(xattrs)
    }
}

/// The first line that a node, or what is in it, came from.
fn first_line(node: &Node) -> u32 {
    match node.entry {
        Some(entry) => entry.line,
        None => node.children.values().map(first_line).min().unwrap_or_default(),
    }
}

fn time(stat: &Stat) -> (i64, u32) {
    (stat.st_mtime, stat.st_mtime_nsec as u32)
}

/// Flags that UBIFS has too; none on a file system that has none.
fn flags_of(fd: impl AsFd) -> u32 {
    let Ok(found) = rustix::fs::ioctl_getflags(fd) else { return 0 };
    let pairs = [
        (IFlags::SYNC, inode_flags::SYNC),
        (IFlags::IMMUTABLE, inode_flags::IMMUTABLE),
        (IFlags::APPEND, inode_flags::APPEND),
        (IFlags::DIRSYNC, inode_flags::DIR_SYNC),
    ];
    pairs.into_iter().filter(|(host, _)| found.contains(*host)).map(|(_, ours)| ours).sum()
}
