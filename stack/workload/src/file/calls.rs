//! The system calls of a load, for a program elsewhere that makes them: Linux in the guest, beside a file system of nandlab's.
//!
//! The generator of a load works on this file system, which keeps names and sizes but no contents, and succeeds in everything. It
//! notes each call as a line; the bytes of a write follow their line.
//!
//! | line | call |
//! |---|---|
//! | `open SLOT NAME` | opens a file; what was open in the slot is closed |
//! | `create SLOT NAME` | makes a file that must not exist, and opens it |
//! | `close SLOT` | closes a file, which then loses its name |
//! | `read SLOT OFFSET BYTES` | `pread` |
//! | `write SLOT OFFSET BYTES` | `pwrite` |
//! | `truncate SLOT BYTES` | `ftruncate` |
//! | `fsync SLOT`, `fdatasync SLOT` | the call |
//! | `rename FROM TO` | the call |
//! | `sync` | the call |
//! | `sleep NS` | waits |
//!
//! All files are in one directory. It has no other calls, because the loads that are replayed make none.

use std::collections::BTreeMap;
use std::fmt::Display;

use sim::seam::{
    Attr, DeviceNumber, Dirent, FileSystem, FileType, FsError, Ino, InodeFlags, NewInode, Payload, ReadInto,
    RenameFlags, SetAttr, SetXattr, StatFs, Timestamp,
};
use sim::{Cx, Ns};

/// Files that the program keeps open.
const SLOTS: usize = 32;
/// The directory.
const ROOT: Ino = Ino(1);

#[derive(Clone, Debug)]
struct File {
    name: Vec<u8>,
    size: u64,
}

/// Notes the calls of a load.
#[derive(Clone, Debug)]
pub struct Calls {
    names: BTreeMap<Vec<u8>, Ino>,
    files: BTreeMap<Ino, File>,
    last: Ino,
    slots: [Option<Ino>; SLOTS],
    /// The slot that is used next.
    turn: usize,
    noted: Vec<u8>,
}

impl Default for Calls {
    fn default() -> Calls {
        let (names, files) = (BTreeMap::new(), BTreeMap::new());
        Calls { names, files, last: ROOT, slots: [None; SLOTS], turn: 0, noted: Vec::new() }
    }
}

impl Calls {
    /// The calls since the last time, as text.
    pub fn take(&mut self, into: &mut Vec<u8>) {
        into.append(&mut self.noted);
    }

    /// The program begins anew, with no file open.
    pub fn restart(&mut self) {
        self.slots = [None; SLOTS];
    }

    /// The program waits.
    pub fn sleep(&mut self, span: Ns) {
        self.note(format_args!("sleep {}", span.0));
    }

    fn note(&mut self, line: impl Display) {
        self.noted.extend_from_slice(line.to_string().as_bytes());
        self.noted.push(b'\n');
    }

    fn note_name(&mut self, line: impl Display, name: &[u8]) {
        self.noted.extend_from_slice(line.to_string().as_bytes());
        self.noted.extend_from_slice(name);
        self.noted.push(b'\n');
    }

    fn file(&mut self, ino: Ino) -> Result<&mut File, FsError> {
        self.files.get_mut(&ino).ok_or(FsError::Stale { ino })
    }

    fn attr(&self, ino: Ino) -> Attr {
        let size = self.files.get(&ino).map_or(0, |file| file.size);
        let file_type = if ino == ROOT { FileType::Directory } else { FileType::Regular };
        let [atime, mtime, ctime] = [Timestamp::default(); 3];
        let (mode, uid, gid, nlink) = (0o644, 0, 0, 1);
        let (device, flags) = (DeviceNumber::default(), InodeFlags::default());
        Attr { ino, file_type, mode, uid, gid, nlink, size, device, flags, atime, mtime, ctime }
    }

    /// The slot of a file, which it gets if it has none; and whether it had one.
    fn place(&mut self, ino: Ino) -> (usize, bool) {
        if let Some(slot) = self.slots.iter().position(|held| *held == Some(ino)) {
            return (slot, true);
        }
        let slot = self.turn;
        self.slots[slot] = Some(ino);
        self.turn = (slot + 1) % SLOTS;
        (slot, false)
    }

    /// The slot of a file that is opened if it is not.
    fn opened(&mut self, ino: Ino) -> Result<usize, FsError> {
        let name = self.file(ino)?.name.clone();
        let (slot, is_open) = self.place(ino);
        if !is_open {
            self.note_name(format_args!("open {slot} "), &name);
        }
        Ok(slot)
    }

    /// Closes a file that loses its name: it is gone at once.
    fn forget(&mut self, ino: Ino) {
        if let Some(slot) = self.slots.iter().position(|held| *held == Some(ino)) {
            self.slots[slot] = None;
            self.note(format_args!("close {slot}"));
        }
        self.files.remove(&ino);
    }
}

/// A name that a line can hold.
fn plain(dir: Ino, name: &[u8]) -> Result<(), FsError> {
    if dir != ROOT || name.is_empty() || name.iter().any(|byte| byte.is_ascii_whitespace() || *byte == b'/') {
        return Err(FsError::Invalid { why: "a name with blanks, or in another directory" });
    }
    Ok(())
}

fn none<T>(what: &'static str) -> Result<T, FsError> {
    Err(FsError::NotSupported { what })
}

impl FileSystem for Calls {
    fn keeps_bytes(&self) -> bool {
        true
    }

    fn root(&self) -> Ino {
        ROOT
    }

    /// Whoever looks for a file opens it.
    fn lookup(&mut self, _: &mut Cx, dir: Ino, name: &[u8]) -> Result<Attr, FsError> {
        plain(dir, name)?;
        let ino = *self.names.get(name).ok_or(FsError::NoEntry { dir })?;
        let (slot, _) = self.place(ino);
        self.note_name(format_args!("open {slot} "), name);
        Ok(self.attr(ino))
    }

    fn getattr(&mut self, _: &mut Cx, ino: Ino) -> Result<Attr, FsError> {
        if ino != ROOT {
            self.file(ino)?;
        }
        Ok(self.attr(ino))
    }

    fn setattr(&mut self, _: &mut Cx, ino: Ino, change: &SetAttr) -> Result<Attr, FsError> {
        let (Some(size), true) = (change.size, SetAttr { size: None, ..*change } == SetAttr::default()) else {
            return none("a change of more than the size");
        };
        let slot = self.opened(ino)?;
        self.note(format_args!("truncate {slot} {size}"));
        self.file(ino)?.size = size;
        Ok(self.attr(ino))
    }

    fn create(&mut self, _: &mut Cx, dir: Ino, name: &[u8], _: NewInode) -> Result<Attr, FsError> {
        plain(dir, name)?;
        if self.names.contains_key(name) {
            return Err(FsError::Exists { ino: dir });
        }
        self.last = Ino(self.last.0 + 1);
        let ino = self.last;
        self.names.insert(name.to_vec(), ino);
        self.files.insert(ino, File { name: name.to_vec(), size: 0 });
        let (slot, _) = self.place(ino);
        self.note_name(format_args!("create {slot} "), name);
        Ok(self.attr(ino))
    }

    fn rename(&mut self, _: &mut Cx, from: (Ino, &[u8]), to: (Ino, &[u8]), flags: RenameFlags) -> Result<(), FsError> {
        plain(from.0, from.1)?;
        plain(to.0, to.1)?;
        if flags != RenameFlags::NONE {
            return none("a rename with flags");
        }
        let ino = self.names.remove(from.1).ok_or(FsError::NoEntry { dir: from.0 })?;
        // A program that logs closes its log before it renames it: the next one is another file.
        for gone in [Some(ino), self.names.insert(to.1.to_vec(), ino)].into_iter().flatten() {
            if gone != ino {
                self.forget(gone);
            } else if let Some(slot) = self.slots.iter().position(|held| *held == Some(ino)) {
                self.slots[slot] = None;
                self.note(format_args!("close {slot}"));
            }
        }
        self.file(ino)?.name = to.1.to_vec();
        let to = [b" ", to.1].concat();
        self.note_name("rename ", &[from.1, &to].concat());
        Ok(())
    }

    fn read(&mut self, _: &mut Cx, ino: Ino, offset: u64, into: ReadInto<'_>) -> Result<u32, FsError> {
        let slot = self.opened(ino)?;
        let left = self.file(ino)?.size.saturating_sub(offset).min(u32::MAX.into()) as u32;
        let bytes = into.len().min(left);
        self.note(format_args!("read {slot} {offset} {bytes}"));
        Ok(bytes)
    }

    fn write(&mut self, _: &mut Cx, ino: Ino, offset: u64, data: Payload<'_>) -> Result<u32, FsError> {
        let Payload::Bytes(bytes) = data else { return none("a write without bytes") };
        let slot = self.opened(ino)?;
        self.note(format_args!("write {slot} {offset} {}", bytes.len()));
        self.noted.extend_from_slice(bytes);
        let file = self.file(ino)?;
        file.size = file.size.max(offset + bytes.len() as u64);
        Ok(bytes.len() as u32)
    }

    fn fsync(&mut self, _: &mut Cx, ino: Ino, data_only: bool) -> Result<(), FsError> {
        let slot = self.opened(ino)?;
        let call = if data_only { "fdatasync" } else { "fsync" };
        self.note(format_args!("{call} {slot}"));
        Ok(())
    }

    fn sync(&mut self, _: &mut Cx) -> Result<(), FsError> {
        self.note("sync");
        Ok(())
    }

    fn open(&mut self, _: &mut Cx, ino: Ino) -> Result<(), FsError> {
        self.opened(ino).map(drop)
    }

    fn release(&mut self, _: &mut Cx, ino: Ino) -> Result<(), FsError> {
        self.file(ino).map(drop)
    }

    fn mkdir(&mut self, _: &mut Cx, _: Ino, _: &[u8], _: NewInode) -> Result<Attr, FsError> {
        none("mkdir")
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
        none("mknod")
    }

    fn symlink(&mut self, _: &mut Cx, _: Ino, _: &[u8], _: &[u8], _: NewInode) -> Result<Attr, FsError> {
        none("symlink")
    }

    fn readlink(&mut self, _: &mut Cx, _: Ino) -> Result<Vec<u8>, FsError> {
        none("readlink")
    }

    fn link(&mut self, _: &mut Cx, _: Ino, _: Ino, _: &[u8]) -> Result<Attr, FsError> {
        none("link")
    }

    fn unlink(&mut self, _: &mut Cx, _: Ino, _: &[u8]) -> Result<(), FsError> {
        none("unlink")
    }

    fn rmdir(&mut self, _: &mut Cx, _: Ino, _: &[u8]) -> Result<(), FsError> {
        none("rmdir")
    }

    fn getxattr(&mut self, _: &mut Cx, _: Ino, _: &[u8]) -> Result<Vec<u8>, FsError> {
        none("getxattr")
    }

    fn setxattr(&mut self, _: &mut Cx, _: Ino, _: &[u8], _: &[u8], _: SetXattr) -> Result<(), FsError> {
        none("setxattr")
    }

    fn listxattr(&mut self, _: &mut Cx, _: Ino) -> Result<Vec<Vec<u8>>, FsError> {
        none("listxattr")
    }

    fn removexattr(&mut self, _: &mut Cx, _: Ino, _: &[u8]) -> Result<(), FsError> {
        none("removexattr")
    }

    fn readdir(&mut self, _: &mut Cx, _: Ino, _: u64, _: &mut dyn FnMut(Dirent<'_>) -> bool) -> Result<(), FsError> {
        none("readdir")
    }

    fn statfs(&mut self, _: &mut Cx) -> Result<StatFs, FsError> {
        none("statfs")
    }
}
