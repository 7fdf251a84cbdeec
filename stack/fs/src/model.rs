//! The oracle: a file system in memory that does what Linux does, and nothing else.
//!
//! Other implementors of [`FileSystem`] are compared with it after every operation, by [`tree()`]. It knows no medium: no
//! operation takes time, space never ends, and what was done is never lost. A harness that meets `NoSpace` elsewhere
//! leaves the operation out here.
//!
//! Where file systems of Linux differ, it does as UBIFS: its largest file, its attributes, its inherited flags.
//!
//! `tests/linux` runs drawn operations here and on a directory of the host, and compares every error and the
//! trees: Linux itself says whether the oracle is right.

mod contents;
pub mod history;
mod tree;
pub mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sim::Cx;
use sim::seam::{
    Attr, DeviceNumber, Dirent, FileSystem, FileType, FsError, Held, Ino, InodeFlags, NAME_MAX, NewInode, PageState,
    Payload, ReadInto, RenameFlags, SetAttr, SetXattr, StatFs, Timestamp,
};

use contents::Contents;
pub use tree::{Node, Tree, tree};

/// Largest file: UBIFS numbers 2^29 blocks of 4 KiB.
pub const MAX_FILE_BYTES: u64 = 1 << 41;
/// Longest target of a symbolic link (`PATH_MAX` without the final 0).
pub const MAX_TARGET_BYTES: usize = 4095;
/// Longest value of an extended attribute, as in UBIFS.
pub const MAX_VALUE_BYTES: usize = 4096;
/// Most bytes of names of extended attributes, each with a final 0 (`XATTR_LIST_MAX`).
pub const MAX_XATTR_LIST_BYTES: usize = 65_536;

const ROOT: Ino = Ino(1);

/// A file system in memory. Clones share the inodes that none of them changes.
#[derive(Clone, Debug)]
pub struct Model {
    epoch: Timestamp,
    keeps_bytes: bool,
    inodes: BTreeMap<Ino, Arc<Inode>>,
    next_ino: u64,
    next_cookie: u64,
    /// How often an entry was made, removed or given another inode.
    name_changes: u64,
    /// Inodes that were made or may have changed since a history noted them.
    touched: BTreeSet<Ino>,
}

#[derive(Clone, Debug)]
struct Inode {
    mode: u32,
    uid: u32,
    gid: u32,
    /// Names; of a directory as `stat` says it.
    nlink: u32,
    opens: u32,
    flags: InodeFlags,
    atime: Timestamp,
    mtime: Timestamp,
    ctime: Timestamp,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    body: Body,
}

#[derive(Clone, Debug)]
enum Body {
    Regular(Contents),
    Directory(Directory),
    Symlink(Vec<u8>),
    /// A device, a pipe or a socket.
    Special(FileType, DeviceNumber),
}

#[derive(Clone, Debug)]
struct Directory {
    parent: Ino,
    entries: BTreeMap<Vec<u8>, Entry>,
    /// Names by the number of their making, which is their cookie.
    order: BTreeMap<u64, Vec<u8>>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    ino: Ino,
    cookie: u64,
}

impl Inode {
    fn file_type(&self) -> FileType {
        match &self.body {
            Body::Regular(_) => FileType::Regular,
            Body::Directory(_) => FileType::Directory,
            Body::Symlink(_) => FileType::Symlink,
            Body::Special(file_type, _) => *file_type,
        }
    }

    fn is_dir(&self) -> bool {
        matches!(self.body, Body::Directory(_))
    }

    fn attr(&self, ino: Ino) -> Attr {
        let (size, device) = match &self.body {
            Body::Regular(contents) => (contents.size(), DeviceNumber::default()),
            Body::Directory(_) => (0, DeviceNumber::default()),
            Body::Symlink(target) => (target.len() as u64, DeviceNumber::default()),
            Body::Special(_, device) => (0, *device),
        };
        Attr {
            ino,
            file_type: self.file_type(),
            mode: self.mode,
            uid: self.uid,
            gid: self.gid,
            nlink: self.nlink,
            size,
            device,
            flags: self.flags,
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
        }
    }

    /// The contents changed.
    fn modified(&mut self, now: Timestamp) {
        self.mtime = now;
        self.ctime = now;
    }
}

impl Directory {
    fn of(parent: Ino) -> Directory {
        Directory { parent, entries: BTreeMap::new(), order: BTreeMap::new() }
    }
}

fn check_name(name: &[u8]) -> Result<(), FsError> {
    if name.len() > NAME_MAX {
        return Err(FsError::NameTooLong { bytes: name.len() });
    }
    assert!(!name.is_empty() && name != b"." && name != b"..", "the caller walks paths");
    Ok(())
}

/// How many of `length` bytes at `offset` the largest file has.
fn within_largest(ino: Ino, offset: u64, length: u32) -> Result<u32, FsError> {
    if offset >= MAX_FILE_BYTES {
        return Err(FsError::FileTooBig { ino, bytes: offset });
    }
    let length = u64::from(length).min(MAX_FILE_BYTES - offset);
    Ok(u32::try_from(length).expect("at most what was given"))
}

fn check_xattr_name(name: &[u8]) -> Result<(), FsError> {
    if name.len() > NAME_MAX {
        return Err(FsError::NameTooLong { bytes: name.len() });
    }
    let prefixes: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];
    match prefixes.iter().find(|prefix| name.starts_with(prefix)) {
        None => Err(FsError::NotSupported { what: "an attribute of this prefix" }),
        Some(prefix) if prefix.len() == name.len() => Err(FsError::Invalid { why: "an attribute without a name" }),
        Some(_) => Ok(()),
    }
}

impl Model {
    /// An empty file system whose root is root's, with mode 0755, and compresses. `epoch` is when virtual time 0 was.
    pub fn new(epoch: Timestamp) -> Model {
        let root = Inode {
            mode: 0o755,
            uid: 0,
            gid: 0,
            nlink: 2,
            opens: 0,
            flags: InodeFlags::COMPRESSED,
            atime: epoch,
            mtime: epoch,
            ctime: epoch,
            xattrs: BTreeMap::new(),
            body: Body::Directory(Directory::of(ROOT)),
        };
        let inodes = BTreeMap::from([(ROOT, Arc::new(root))]);
        Model {
            epoch,
            keeps_bytes: true,
            inodes,
            next_ino: ROOT.0 + 1,
            next_cookie: 1,
            name_changes: 0,
            touched: BTreeSet::from([ROOT]),
        }
    }

    /// The same, but the contents of files are not kept and read as zeroes.
    pub fn without_bytes(epoch: Timestamp) -> Model {
        Model { keeps_bytes: false, ..Model::new(epoch) }
    }

    /// Number of inodes, the root and those without a name counted.
    pub fn inodes(&self) -> usize {
        self.inodes.len()
    }

    fn now(&self, cx: &Cx) -> Timestamp {
        self.epoch.after(cx.now())
    }

    fn inode(&self, ino: Ino) -> Result<&Inode, FsError> {
        self.inodes.get(&ino).map(|inode| &**inode).ok_or(FsError::Stale { ino })
    }

    fn inode_mut(&mut self, ino: Ino) -> Result<&mut Inode, FsError> {
        let inode = self.inodes.get_mut(&ino).ok_or(FsError::Stale { ino })?;
        self.touched.insert(ino);
        Ok(Arc::make_mut(inode))
    }

    fn directory(&self, ino: Ino) -> Result<&Directory, FsError> {
        match &self.inode(ino)?.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(FsError::NotDir { ino }),
        }
    }

    /// A directory that exists, for what has been looked up in it.
    fn directory_mut(&mut self, ino: Ino) -> &mut Directory {
        match self.inodes.get_mut(&ino).map(|inode| &mut Arc::make_mut(inode).body) {
            Some(Body::Directory(directory)) => directory,
            _ => unreachable!("inode {ino} was a directory before"),
        }
    }

    fn regular(&self, ino: Ino) -> Result<&Contents, FsError> {
        match &self.inode(ino)?.body {
            Body::Regular(contents) => Ok(contents),
            Body::Directory(_) => Err(FsError::IsDir { ino }),
            _ => Err(FsError::Invalid { why: "no regular file" }),
        }
    }

    fn regular_mut(&mut self, ino: Ino) -> Result<(&mut Inode, bool), FsError> {
        self.regular(ino)?;
        let keeps_bytes = self.keeps_bytes;
        Ok((self.inode_mut(ino)?, keeps_bytes))
    }

    /// Writes contents; the times stay.
    fn put(&mut self, ino: Ino, offset: u64, data: Payload<'_>) -> Result<u32, FsError> {
        let (inode, keeps_bytes) = self.regular_mut(ino)?;
        if data.is_empty() {
            return Ok(0);
        }
        let length = within_largest(ino, offset, data.len())?;
        if let Body::Regular(contents) = &mut inode.body {
            match data.part(0, length) {
                Payload::Bytes(bytes) if keeps_bytes => contents.write(offset, bytes),
                other => contents.write_zeroes(offset, u64::from(other.len())),
            }
        }
        Ok(length)
    }

    /// What a name stands for, if it exists.
    fn find(&self, dir: Ino, name: &[u8]) -> Result<Option<Entry>, FsError> {
        let directory = self.directory(dir)?;
        check_name(name)?;
        Ok(directory.entries.get(name).copied())
    }

    fn found(&self, dir: Ino, name: &[u8]) -> Result<Entry, FsError> {
        self.find(dir, name)?.ok_or(FsError::NoEntry { dir })
    }

    /// Refuses a name that exists, and a directory that is removed.
    fn is_free(&self, dir: Ino, name: &[u8]) -> Result<(), FsError> {
        if self.find(dir, name)?.is_some() {
            return Err(FsError::Exists { ino: dir });
        }
        if self.inode(dir)?.nlink == 0 {
            return Err(FsError::NoEntry { dir });
        }
        Ok(())
    }

    fn add_entry(&mut self, dir: Ino, name: &[u8], ino: Ino, now: Timestamp) {
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        let directory = self.directory_mut(dir);
        directory.entries.insert(name.to_vec(), Entry { ino, cookie });
        directory.order.insert(cookie, name.to_vec());
        self.touch(dir, now);
    }

    fn remove_entry(&mut self, dir: Ino, name: &[u8], now: Timestamp) {
        let directory = self.directory_mut(dir);
        let entry = directory.entries.remove(name).expect("looked up before");
        directory.order.remove(&entry.cookie);
        self.touch(dir, now);
    }

    /// Lets an existing name stand for another inode.
    fn set_entry(&mut self, dir: Ino, name: &[u8], ino: Ino, now: Timestamp) {
        self.directory_mut(dir).entries.get_mut(name).expect("looked up before").ino = ino;
        self.touch(dir, now);
    }

    /// The directory's entries changed.
    fn touch(&mut self, dir: Ino, now: Timestamp) {
        self.name_changes += 1;
        self.at(dir).modified(now);
    }

    /// An inode that a name stands for.
    fn at(&mut self, ino: Ino) -> &mut Inode {
        self.touched.insert(ino);
        Arc::make_mut(self.inodes.get_mut(&ino).expect("a name stands for it"))
    }

    /// A new inode in `dir`, without a name yet.
    fn new_inode(&mut self, dir: Ino, new: NewInode, body: Body, now: Timestamp) -> Ino {
        const SET_GROUP_ID: u32 = 0o2000;
        let parent = &self.inodes[&dir];
        let is_dir = matches!(body, Body::Directory(_));
        let inherits_group = parent.mode & SET_GROUP_ID != 0;
        let inherited = InodeFlags::COMPRESSED | InodeFlags::SYNC;
        let inherited = if is_dir { inherited | InodeFlags::DIR_SYNC } else { inherited };
        let inode = Inode {
            mode: new.mode & 0o7777 | if is_dir && inherits_group { SET_GROUP_ID } else { 0 },
            uid: new.uid,
            gid: if inherits_group { parent.gid } else { new.gid },
            nlink: if is_dir { 2 } else { 1 },
            opens: 0,
            flags: InodeFlags(parent.flags.0 & inherited.0),
            atime: now,
            mtime: now,
            ctime: now,
            xattrs: BTreeMap::new(),
            body,
        };
        let ino = Ino(self.next_ino);
        self.next_ino += 1;
        self.inodes.insert(ino, Arc::new(inode));
        self.touched.insert(ino);
        ino
    }

    fn make(&mut self, cx: &Cx, dir: Ino, name: &[u8], new: NewInode, body: Body) -> Result<Attr, FsError> {
        self.is_free(dir, name)?;
        let now = self.now(cx);
        let is_dir = matches!(body, Body::Directory(_));
        let ino = self.new_inode(dir, new, body, now);
        self.add_entry(dir, name, ino, now);
        if is_dir {
            self.at(dir).nlink += 1;
        }
        Ok(self.inodes[&ino].attr(ino))
    }

    /// Takes a name away from an inode; a directory has only one.
    fn drop_name(&mut self, ino: Ino, now: Timestamp) {
        let inode = self.at(ino);
        inode.nlink = if inode.is_dir() { 0 } else { inode.nlink - 1 };
        inode.ctime = now;
        self.delete_if_unused(ino);
    }

    fn delete_if_unused(&mut self, ino: Ino) {
        if self.inodes.get(&ino).is_some_and(|inode| inode.nlink == 0 && inode.opens == 0) {
            self.inodes.remove(&ino);
            self.touched.remove(&ino);
        }
    }

    /// Whether `ino` is `dir` or a directory above it.
    fn is_at_or_above(&self, ino: Ino, dir: Ino) -> bool {
        let mut at = dir;
        loop {
            if at == ino {
                return true;
            }
            match self.directory(at) {
                Ok(directory) if directory.parent != at => at = directory.parent,
                _ => return false,
            }
        }
    }

    /// A directory moves from one parent to another.
    fn move_directory(&mut self, ino: Ino, from: Ino, to: Ino) {
        if self.inodes[&ino].is_dir() {
            self.directory_mut(ino).parent = to;
            self.at(from).nlink -= 1;
            self.at(to).nlink += 1;
        }
    }

    /// What a rename would do, or why it is refused: inode of the source, entry of the target. `None`: source and target
    /// are one inode, which needs no change.
    fn may_rename(
        &self,
        (from_dir, from_name): (Ino, &[u8]),
        (to_dir, to_name): (Ino, &[u8]),
        flags: RenameFlags,
    ) -> Result<Option<(Ino, Option<Ino>)>, FsError> {
        if !flags.is_valid() {
            return Err(FsError::Invalid { why: "flags of a rename" });
        }
        self.directory(to_dir)?;
        let source = self.found(from_dir, from_name)?.ino;
        let target = self.find(to_dir, to_name)?.map(|entry| entry.ino);
        let exchange = flags.has(RenameFlags::EXCHANGE);
        if flags.has(RenameFlags::NO_REPLACE) && target.is_some() {
            return Err(FsError::Exists { ino: to_dir });
        }
        if exchange && target.is_none() {
            return Err(FsError::NoEntry { dir: to_dir });
        }
        if self.inode(to_dir)?.nlink == 0 {
            return Err(FsError::NoEntry { dir: to_dir });
        }
        if from_dir != to_dir && self.is_at_or_above(source, to_dir) {
            return Err(FsError::Invalid { why: "a directory below itself" });
        }
        let Some(target) = target else { return Ok(Some((source, None))) };
        if from_dir != to_dir && self.is_at_or_above(target, from_dir) {
            return Err(if exchange {
                FsError::Invalid { why: "a directory below itself" }
            } else {
                FsError::NotEmpty { dir: target }
            });
        }
        if source == target {
            return Ok(None);
        }
        if !exchange {
            match (self.inode(source)?.is_dir(), &self.inode(target)?.body) {
                (false, Body::Directory(_)) => return Err(FsError::IsDir { ino: target }),
                (true, Body::Directory(directory)) if !directory.entries.is_empty() => {
                    return Err(FsError::NotEmpty { dir: target });
                }
                (true, Body::Directory(_)) | (false, _) => {}
                (true, _) => return Err(FsError::NotDir { ino: target }),
            }
        }
        Ok(Some((source, Some(target))))
    }

    /// Holds what must always hold: names and links agree, directories form a tree, nothing unreachable stays, no file
    /// has contents beyond its size. Panics where it does not.
    pub fn check(&self) {
        let mut names: BTreeMap<Ino, u32> = BTreeMap::new();
        for (&ino, inode) in &self.inodes {
            let Body::Directory(directory) = &inode.body else { continue };
            assert_eq!(directory.entries.len(), directory.order.len(), "directory {ino}");
            let mut below = 0;
            for (name, entry) in &directory.entries {
                assert_eq!(directory.order.get(&entry.cookie), Some(name), "directory {ino}");
                *names.entry(entry.ino).or_default() += 1;
                if let Body::Directory(child) = &self.inodes[&entry.ino].body {
                    assert_eq!(child.parent, ino, "parent of {}", entry.ino);
                    below += 1;
                }
            }
            let is_removed = inode.nlink == 0 && below == 0 && directory.entries.is_empty();
            assert!(is_removed || inode.nlink == below + 2, "directory {ino}: {} links", inode.nlink);
        }
        for (&ino, inode) in &self.inodes {
            let named = names.get(&ino).copied().unwrap_or_default();
            match &inode.body {
                Body::Directory(_) => assert_eq!(named, u32::from(inode.nlink > 0 && ino != ROOT), "directory {ino}"),
                _ => assert_eq!(named, inode.nlink, "inode {ino}"),
            }
            assert!(inode.nlink > 0 || inode.opens > 0, "inode {ino} is unused");
            assert!(ino == ROOT || !inode.is_dir() || inode.nlink == 0 || self.is_at_or_above(ROOT, ino), "{ino}");
            if let Body::Regular(contents) = &inode.body {
                contents.check();
            }
        }
    }
}

impl FileSystem for Model {
    fn keeps_bytes(&self) -> bool {
        self.keeps_bytes
    }

    fn root(&self) -> Ino {
        ROOT
    }

    fn lookup(&mut self, _cx: &mut Cx, dir: Ino, name: &[u8]) -> Result<Attr, FsError> {
        let ino = self.found(dir, name)?.ino;
        Ok(self.inode(ino)?.attr(ino))
    }

    fn getattr(&mut self, _cx: &mut Cx, ino: Ino) -> Result<Attr, FsError> {
        Ok(self.inode(ino)?.attr(ino))
    }

    fn setattr(&mut self, cx: &mut Cx, ino: Ino, change: &SetAttr) -> Result<Attr, FsError> {
        let now = self.now(cx);
        if let Some(bytes) = change.size {
            self.regular(ino)?;
            if bytes > MAX_FILE_BYTES {
                return Err(FsError::FileTooBig { ino, bytes });
            }
        }
        let inode = self.inode_mut(ino)?;
        inode.ctime = now;
        if let (Some(size), Body::Regular(contents)) = (change.size, &mut inode.body) {
            contents.set_size(size);
            inode.mtime = now;
        }
        inode.mode = change.mode.map_or(inode.mode, |mode| mode & 0o7777);
        inode.uid = change.uid.unwrap_or(inode.uid);
        inode.gid = change.gid.unwrap_or(inode.gid);
        inode.atime = change.atime.unwrap_or(inode.atime);
        inode.mtime = change.mtime.unwrap_or(inode.mtime);
        inode.flags = change.flags.unwrap_or(inode.flags);
        Ok(inode.attr(ino))
    }

    fn create(&mut self, cx: &mut Cx, dir: Ino, name: &[u8], new: NewInode) -> Result<Attr, FsError> {
        self.make(cx, dir, name, new, Body::Regular(Contents::default()))
    }

    fn mkdir(&mut self, cx: &mut Cx, dir: Ino, name: &[u8], new: NewInode) -> Result<Attr, FsError> {
        self.make(cx, dir, name, new, Body::Directory(Directory::of(dir)))
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
        let body = match file_type {
            FileType::Regular => Body::Regular(Contents::default()),
            FileType::Directory | FileType::Symlink => return Err(FsError::Invalid { why: "the type of a node" }),
            _ => Body::Special(file_type, device),
        };
        self.make(cx, dir, name, new, body)
    }

    fn symlink(&mut self, cx: &mut Cx, dir: Ino, name: &[u8], target: &[u8], new: NewInode) -> Result<Attr, FsError> {
        if target.is_empty() {
            return Err(FsError::NoEntry { dir });
        }
        if target.len() > MAX_TARGET_BYTES {
            return Err(FsError::NameTooLong { bytes: target.len() });
        }
        self.make(cx, dir, name, NewInode { mode: 0o777, ..new }, Body::Symlink(target.to_vec()))
    }

    fn readlink(&mut self, _cx: &mut Cx, ino: Ino) -> Result<Vec<u8>, FsError> {
        match &self.inode(ino)?.body {
            Body::Symlink(target) => Ok(target.clone()),
            _ => Err(FsError::Invalid { why: "no symbolic link" }),
        }
    }

    fn link(&mut self, cx: &mut Cx, ino: Ino, dir: Ino, name: &[u8]) -> Result<Attr, FsError> {
        let inode = self.inode(ino)?;
        let (is_dir, nlink) = (inode.is_dir(), inode.nlink);
        self.is_free(dir, name)?;
        if is_dir {
            return Err(FsError::NotPermitted { ino });
        }
        if nlink == 0 {
            return Err(FsError::NoEntry { dir });
        }
        let now = self.now(cx);
        self.add_entry(dir, name, ino, now);
        let inode = self.at(ino);
        inode.nlink += 1;
        inode.ctime = now;
        Ok(inode.attr(ino))
    }

    fn unlink(&mut self, cx: &mut Cx, dir: Ino, name: &[u8]) -> Result<(), FsError> {
        let ino = self.found(dir, name)?.ino;
        if self.inode(ino)?.is_dir() {
            return Err(FsError::IsDir { ino });
        }
        let now = self.now(cx);
        self.remove_entry(dir, name, now);
        self.drop_name(ino, now);
        Ok(())
    }

    fn rmdir(&mut self, cx: &mut Cx, dir: Ino, name: &[u8]) -> Result<(), FsError> {
        let ino = self.found(dir, name)?.ino;
        if !self.directory(ino)?.entries.is_empty() {
            return Err(FsError::NotEmpty { dir: ino });
        }
        let now = self.now(cx);
        self.remove_entry(dir, name, now);
        self.at(dir).nlink -= 1;
        self.drop_name(ino, now);
        Ok(())
    }

    fn rename(&mut self, cx: &mut Cx, from: (Ino, &[u8]), to: (Ino, &[u8]), flags: RenameFlags) -> Result<(), FsError> {
        let Some((source, target)) = self.may_rename(from, to, flags)? else { return Ok(()) };
        let now = self.now(cx);
        if !flags.has(RenameFlags::EXCHANGE) {
            self.at(source).ctime = now;
        }
        if let Some(target) = target {
            self.set_entry(to.0, to.1, source, now);
            if flags.has(RenameFlags::EXCHANGE) {
                self.set_entry(from.0, from.1, target, now);
                self.move_directory(source, from.0, to.0);
                self.move_directory(target, to.0, from.0);
                return Ok(());
            }
            if self.inodes[&target].is_dir() {
                self.at(to.0).nlink -= 1;
            }
            self.drop_name(target, now);
        } else {
            self.add_entry(to.0, to.1, source, now);
        }
        self.move_directory(source, from.0, to.0);
        if flags.has(RenameFlags::WHITEOUT) {
            let body = Body::Special(FileType::CharDevice, DeviceNumber::default());
            let whiteout = self.new_inode(from.0, NewInode::of_root(0), body, now);
            self.set_entry(from.0, from.1, whiteout, now);
        } else {
            self.remove_entry(from.0, from.1, now);
        }
        Ok(())
    }

    fn read(&mut self, _cx: &mut Cx, ino: Ino, offset: u64, into: ReadInto<'_>) -> Result<u32, FsError> {
        let contents = self.regular(ino)?;
        let length = u64::from(into.len()).min(contents.size().saturating_sub(offset));
        let length = u32::try_from(length).expect("at most what was asked for");
        if let ReadInto::Bytes(bytes) = into {
            contents.read(offset, &mut bytes[..length as usize]);
        }
        Ok(length)
    }

    fn write(&mut self, cx: &mut Cx, ino: Ino, offset: u64, data: Payload<'_>) -> Result<u32, FsError> {
        let now = self.now(cx);
        let length = self.put(ino, offset, data)?;
        if length > 0 {
            self.at(ino).modified(now);
        }
        Ok(length)
    }

    fn hold_back(&mut self, cx: &mut Cx, ino: Ino, offset: u64, length: u32, page: PageState) -> Result<Held, FsError> {
        let now = self.now(cx);
        let (inode, _) = self.regular_mut(ino)?;
        let length = within_largest(ino, offset, length)?;
        if let Body::Regular(contents) = &mut inode.body {
            contents.set_size(contents.size().max(offset + u64::from(length)));
        }
        inode.modified(now);
        Ok(Held { length, is_new: page == PageState::Absent })
    }

    fn write_back(
        &mut self,
        _cx: &mut Cx,
        ino: Ino,
        offset: u64,
        data: Payload<'_>,
        _are_new: &[bool],
    ) -> Result<u32, FsError> {
        self.put(ino, offset, data)
    }

    fn getxattr(&mut self, _cx: &mut Cx, ino: Ino, name: &[u8]) -> Result<Vec<u8>, FsError> {
        let inode = self.inode(ino)?;
        check_xattr_name(name)?;
        inode.xattrs.get(name).cloned().ok_or(FsError::NoAttr { ino })
    }

    fn setxattr(&mut self, cx: &mut Cx, ino: Ino, name: &[u8], value: &[u8], how: SetXattr) -> Result<(), FsError> {
        let now = self.now(cx);
        let inode = self.inode_mut(ino)?;
        check_xattr_name(name)?;
        if value.len() > MAX_VALUE_BYTES {
            return Err(FsError::Range { bytes: value.len() });
        }
        match (how, inode.xattrs.contains_key(name)) {
            (SetXattr::Create, true) => return Err(FsError::Exists { ino }),
            (SetXattr::Replace, false) => return Err(FsError::NoAttr { ino }),
            (_, true) => {}
            (_, false) => {
                let listed: usize = inode.xattrs.keys().map(|name| name.len() + 1).sum();
                if listed + name.len() + 1 > MAX_XATTR_LIST_BYTES {
                    return Err(FsError::NoSpace);
                }
            }
        }
        inode.xattrs.insert(name.to_vec(), value.to_vec());
        inode.ctime = now;
        Ok(())
    }

    fn listxattr(&mut self, _cx: &mut Cx, ino: Ino) -> Result<Vec<Vec<u8>>, FsError> {
        Ok(self.inode(ino)?.xattrs.keys().cloned().collect())
    }

    fn removexattr(&mut self, cx: &mut Cx, ino: Ino, name: &[u8]) -> Result<(), FsError> {
        let now = self.now(cx);
        let inode = self.inode_mut(ino)?;
        check_xattr_name(name)?;
        inode.xattrs.remove(name).ok_or(FsError::NoAttr { ino })?;
        inode.ctime = now;
        Ok(())
    }

    fn readdir(
        &mut self,
        _cx: &mut Cx,
        dir: Ino,
        cookie: u64,
        each: &mut dyn FnMut(Dirent<'_>) -> bool,
    ) -> Result<(), FsError> {
        let directory = self.directory(dir)?;
        for (&cookie, name) in directory.order.range(cookie + 1..) {
            let ino = directory.entries[name].ino;
            let file_type = self.inodes[&ino].file_type();
            if !each(Dirent { ino, file_type, name, cookie }) {
                break;
            }
        }
        Ok(())
    }

    fn statfs(&mut self, _cx: &mut Cx) -> Result<StatFs, FsError> {
        let held = |inode: &Arc<Inode>| match &inode.body {
            Body::Regular(contents) => contents.held(),
            _ => 0,
        };
        let blocks = 1 << 40;
        let free = blocks - self.inodes.values().map(held).sum::<u64>();
        Ok(StatFs { block_bytes: 4096, blocks, free, available: free })
    }

    fn open(&mut self, _cx: &mut Cx, ino: Ino) -> Result<(), FsError> {
        self.inode_mut(ino)?.opens += 1;
        Ok(())
    }

    fn release(&mut self, _cx: &mut Cx, ino: Ino) -> Result<(), FsError> {
        let inode = self.inode_mut(ino)?;
        assert!(inode.opens > 0, "inode {ino} is released more often than opened");
        inode.opens -= 1;
        self.delete_if_unused(ino);
        Ok(())
    }

    fn fsync(&mut self, _cx: &mut Cx, ino: Ino, _data_only: bool) -> Result<(), FsError> {
        self.inode(ino).map(|_| ())
    }

    fn sync(&mut self, _cx: &mut Cx) -> Result<(), FsError> {
        Ok(())
    }
}

#[cfg(test)]
mod history_tests;
#[cfg(test)]
mod tests;
