//! A directory of the host, called operation by operation as the oracle is.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use fs::model::{Node, Tree};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, Stat, Timespec, Timestamps, XattrFlags};
use rustix::io::Errno;
use sim::seam::{Attr, DeviceNumber, FileType, Ino, SetXattr, Timestamp};

use super::Outcome;
use super::ops::{At, MAX_OPENED, Op, Which, base_at, has_contents, has_xattrs, opened_at, told};

pub struct Host {
    top: PathBuf,
    pub uid: u32,
    pub gid: u32,
    opened: Vec<(OwnedFd, FileType)>,
}

fn type_of(stat: &Stat) -> FileType {
    *FileType::ALL.iter().find(|file_type| file_type.mode_bits() == stat.st_mode & 0o170_000).expect("a known type")
}

fn mode(bits: u32) -> Mode {
    Mode::from_raw_mode(bits)
}

fn name(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}

const STAY: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC);

impl Host {
    /// An empty directory in memory, where the host has a file system for that.
    pub fn new(seed: u64) -> Host {
        rustix::process::umask(Mode::empty());
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let top = parent.join(format!("nandlab-oracle-{}-{seed}", std::process::id()));
        rustix::fs::mkdir(&top, mode(0o755)).expect("a directory of the host");
        Host::at(&top)
    }

    /// A directory that is there, and goes with this.
    pub fn at(top: &Path) -> Host {
        rustix::process::umask(Mode::empty());
        let top = top.to_owned();
        let root = rustix::fs::open(&top, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOATIME, Mode::empty());
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Host { top, uid, gid, opened: vec![(root.expect("just made"), FileType::Directory)] }
    }

    /// Whether the host keeps `user.` attributes here; tmpfs does since Linux 6.6.
    pub fn has_xattrs(&self) -> bool {
        let root = &self.opened[0].0;
        let set = rustix::fs::fsetxattr(root, "user.a", b"", XattrFlags::empty());
        if set == Err(Errno::OPNOTSUPP) {
            eprintln!("{}: no attributes of users", self.top.display());
            return false;
        }
        set.and_then(|()| rustix::fs::fremovexattr(root, "user.a")).expect("attributes");
        true
    }

    pub fn fsync(&self, at: &At) {
        if let Ok((Some(file), _)) = self.file(&Which::Named(at.clone()), false) {
            rustix::fs::fsync(file).expect("it is written");
        }
    }

    pub fn sync(&self) {
        rustix::fs::syncfs(&self.opened[0].0).expect("it is written");
    }

    pub fn apply(&mut self, op: &Op) -> Outcome {
        self.call(op).map_err(Errno::raw_os_error)
    }

    fn place<'a>(&self, at: &'a At) -> Result<(OwnedFd, &'a OsStr), Errno> {
        let (last, above) = at.path.split_last().expect("a path has a component");
        let mut dir = rustix::io::dup(&self.opened[base_at(at.base, self.opened.len())].0)?;
        for part in above {
            dir = rustix::fs::openat(&dir, name(part), OFlags::PATH | OFlags::DIRECTORY | STAY, Mode::empty())?;
        }
        Ok((dir, name(last)))
    }

    fn stat(&self, at: &At) -> Result<Stat, Errno> {
        let (dir, name) = self.place(at)?;
        rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// An open file, for reading or for writing too, and its type; none of what is neither file nor directory.
    fn file(&self, which: &Which, writes: bool) -> Result<(Option<OwnedFd>, FileType), Errno> {
        match which {
            Which::Opened(at) => {
                let (file, file_type) = &self.opened[opened_at(*at, self.opened.len())];
                Ok((Some(rustix::io::dup(file)?), *file_type))
            }
            Which::Named(at) => {
                let file_type = type_of(&self.stat(at)?);
                let access = if writes { OFlags::RDWR } else { OFlags::RDONLY };
                let (dir, name) = self.place(at)?;
                let open = || rustix::fs::openat(&dir, name, access | OFlags::NOATIME | STAY, Mode::empty());
                Ok((if has_xattrs(file_type) { Some(open()?) } else { None }, file_type))
            }
        }
    }

    fn call(&mut self, op: &Op) -> Result<Vec<u8>, Errno> {
        match op {
            Op::Create(at, bits) => {
                let (dir, name) = self.place(at)?;
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | STAY;
                rustix::fs::openat(dir, name, flags, mode(*bits))?;
            }
            Op::Mkdir(at, bits) => {
                let (dir, name) = self.place(at)?;
                rustix::fs::mkdirat(dir, name, mode(*bits))?;
            }
            Op::Mknod(at, file_type, device) => {
                let (dir, name) = self.place(at)?;
                let file_type = rustix::fs::FileType::from_raw_mode(file_type.mode_bits());
                let device = rustix::fs::makedev(device.major, device.minor);
                rustix::fs::mknodat(dir, name, file_type, mode(0o600), device)?;
            }
            Op::Symlink(at, length) => {
                let (dir, at) = self.place(at)?;
                rustix::fs::symlinkat(name(&vec![b'x'; *length]), dir, at)?;
            }
            Op::Readlink(at) => {
                let (dir, name) = self.place(at)?;
                return Ok(rustix::fs::readlinkat(dir, name, Vec::new())?.into_bytes());
            }
            Op::Link(from, to) => {
                self.stat(from)?;
                let ((from_dir, from), (to_dir, to)) = (self.place(from)?, self.place(to)?);
                rustix::fs::linkat(from_dir, from, to_dir, to, AtFlags::empty())?;
            }
            Op::LinkOpened(from, to) => {
                let (dir, name) = self.place(to)?;
                let from = &self.opened[opened_at(*from, self.opened.len())].0;
                rustix::fs::linkat(from, "", dir, name, AtFlags::EMPTY_PATH)?;
            }
            Op::Unlink(at) => {
                let (dir, name) = self.place(at)?;
                rustix::fs::unlinkat(dir, name, AtFlags::empty())?;
            }
            Op::Rmdir(at) => {
                let (dir, name) = self.place(at)?;
                rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR)?;
            }
            Op::Rename(from, to, flags) => {
                let ((from_dir, from), (to_dir, to)) = (self.place(from)?, self.place(to)?);
                let flags = rustix::fs::RenameFlags::from_bits_retain(flags.0);
                rustix::fs::renameat_with(from_dir, from, to_dir, to, flags)?;
            }
            Op::Stat(at) => {
                let stat = self.stat(at)?;
                return Ok(told(type_of(&stat), stat.st_nlink as u32, stat.st_size as u64));
            }
            Op::Chmod(at, bits) => {
                let file_type = type_of(&self.stat(at)?);
                if file_type != FileType::Symlink {
                    let (dir, name) = self.place(at)?;
                    let set_group = if file_type == FileType::Directory { 0o2000 } else { 0 };
                    rustix::fs::chmodat(dir, name, mode(bits & (0o1777 | set_group)), AtFlags::empty())?;
                }
            }
            Op::Chown(at, uid, gid) => {
                let (dir, name) = self.place(at)?;
                let (uid, gid) = (rustix::process::Uid::from_raw(*uid), rustix::process::Gid::from_raw(*gid));
                rustix::fs::chownat(dir, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
            }
            Op::Times(at, atime, mtime) => {
                let (dir, name) = self.place(at)?;
                let spec = |time: &Timestamp| Timespec { tv_sec: time.seconds as i64, tv_nsec: time.nanos.into() };
                let times = Timestamps { last_access: spec(atime), last_modification: spec(mtime) };
                rustix::fs::utimensat(dir, name, &times, AtFlags::SYMLINK_NOFOLLOW)?;
            }
            Op::Truncate(which, size) => {
                if let (Some(file), file_type) = self.file(which, true)?
                    && has_contents(which, file_type)
                {
                    rustix::fs::ftruncate(file, *size)?;
                }
            }
            Op::Write(which, offset, data) => {
                if let (Some(file), file_type) = self.file(which, true)?
                    && has_contents(which, file_type)
                {
                    let written = rustix::io::pwrite(file, &data.bytes(), *offset)? as u32;
                    return Ok(written.to_le_bytes().to_vec());
                }
            }
            Op::Read(which, offset, length) => {
                if let (Some(file), FileType::Regular) = self.file(which, false)? {
                    let mut bytes = vec![0xee; *length as usize];
                    let read = rustix::io::pread(file, &mut bytes, *offset)?;
                    bytes.truncate(read);
                    return Ok(bytes);
                }
            }
            Op::Getxattr(which, name) => {
                if let (Some(file), _) = self.file(which, false)? {
                    return value(&file, name);
                }
            }
            Op::Setxattr(which, name, value, how) => {
                if let (Some(file), _) = self.file(which, false)? {
                    let flags = match how {
                        SetXattr::Set => XattrFlags::empty(),
                        SetXattr::Create => XattrFlags::CREATE,
                        SetXattr::Replace => XattrFlags::REPLACE,
                    };
                    rustix::fs::fsetxattr(file, *name, &value.bytes(), flags)?;
                }
            }
            Op::Removexattr(which, name) => {
                if let (Some(file), _) = self.file(which, false)? {
                    rustix::fs::fremovexattr(file, *name)?;
                }
            }
            Op::Open(at) => {
                let file_type = type_of(&self.stat(at)?);
                let writes = file_type == FileType::Regular;
                if self.opened.len() < MAX_OPENED
                    && let (Some(file), file_type) = self.file(&Which::Named(at.clone()), writes)?
                {
                    self.opened.push((file, file_type));
                }
            }
            Op::Release(at) => {
                if self.opened.len() > 1 {
                    drop(self.opened.swap_remove(opened_at(*at, self.opened.len())));
                }
            }
        }
        Ok(Vec::new())
    }

    /// Everything below the directory, as the oracle's own is read.
    pub fn tree(&self) -> Tree {
        let mut tree = Tree::default();
        let root = rustix::io::dup(&self.opened[0].0).expect("a descriptor");
        walk(&root, Vec::new(), &mut tree).expect("the directory can be read");
        let mut first: BTreeMap<Ino, Vec<u8>> = BTreeMap::new();
        for (path, node) in &mut tree.nodes {
            node.same_as = first.get(&node.attr.ino).cloned();
            first.entry(node.attr.ino).or_insert_with(|| path.clone());
            node.attr.ino = Ino(0);
        }
        tree
    }
}

fn value(file: impl AsFd, name: &str) -> Result<Vec<u8>, Errno> {
    let mut value = vec![0; 1 << 16];
    let length = rustix::fs::fgetxattr(file, name, &mut value[..])?;
    value.truncate(length);
    Ok(value)
}

fn walk(dir: &OwnedFd, path: Vec<u8>, tree: &mut Tree) -> Result<(), Errno> {
    let stat = rustix::fs::fstat(dir)?;
    tree.nodes.insert(path.clone(), node(&stat, Some(dir), Vec::new())?);
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let bytes = entry.file_name().to_bytes();
        if bytes == b"." || bytes == b".." {
            continue;
        }
        let below = if path.is_empty() { bytes.to_vec() } else { [&path[..], b"/", bytes].concat() };
        let stat = rustix::fs::statat(dir, name(bytes), AtFlags::SYMLINK_NOFOLLOW)?;
        let file_type = type_of(&stat);
        let flags = OFlags::RDONLY | OFlags::NOATIME | STAY;
        let open = || rustix::fs::openat(dir, name(bytes), flags, Mode::empty());
        match file_type {
            FileType::Directory => walk(&open()?, below, tree)?,
            FileType::Regular => {
                tree.nodes.insert(below, node(&stat, Some(&open()?), Vec::new())?);
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(dir, name(bytes), Vec::new())?.into_bytes();
                tree.nodes.insert(below, node(&stat, None, target)?);
            }
            _ => {
                tree.nodes.insert(below, node(&stat, None, Vec::new())?);
            }
        }
    }
    Ok(())
}

fn node(stat: &Stat, file: Option<&OwnedFd>, target: Vec<u8>) -> Result<Node, Errno> {
    let file_type = type_of(stat);
    let mut crc = 0;
    if let (Some(file), FileType::Regular) = (file, file_type) {
        let mut bytes = vec![0; stat.st_size as usize];
        assert_eq!(rustix::io::pread(file, &mut bytes, 0)?, bytes.len());
        crc = crc32fast::hash(&bytes);
    }
    let mut xattrs = BTreeMap::new();
    if let Some(file) = file {
        let mut list = vec![0; 1 << 16];
        let length = rustix::fs::flistxattr(file, &mut list[..]).or_else(|error| match error {
            Errno::OPNOTSUPP => Ok(0),
            other => Err(other),
        })?;
        let names = list[..length].split(|&byte| byte == 0).filter(|name| !name.is_empty());
        for name in names.filter(|name| name.starts_with(b"user.") || name.starts_with(b"trusted.")) {
            xattrs.insert(name.to_vec(), value(file, &String::from_utf8_lossy(name))?);
        }
    }
    let device = DeviceNumber { major: rustix::fs::major(stat.st_rdev), minor: rustix::fs::minor(stat.st_rdev) };
    let time = |seconds: i64, nanos: u64| Timestamp { seconds: seconds as u64, nanos: nanos as u32 };
    let attr = Attr {
        ino: Ino(stat.st_ino),
        file_type,
        mode: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        nlink: stat.st_nlink as u32,
        size: if matches!(file_type, FileType::Regular | FileType::Symlink) { stat.st_size as u64 } else { 0 },
        device: if file_type.is_device() { device } else { DeviceNumber::default() },
        flags: Default::default(),
        atime: time(stat.st_atime, stat.st_atime_nsec),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: Timestamp::default(),
    };
    Ok(Node { attr, crc, target, xattrs, same_as: None })
}

impl Drop for Host {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.top).ok();
    }
}
