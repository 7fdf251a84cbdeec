//! Names: inodes are made, removed and renamed. Each inode has one name, which is part of its nodes.

use sim::Cx;
use sim::seam::{Attr, DeviceNumber, FileType, Flash, FsError, Ino, NewInode, RenameFlags};

use super::Jffs1;
use super::file::File;
use super::media::{MAX_NAME_BYTES, RawInode};
use super::medium::Result;
use super::write::Room;

const SET_GROUP_ID: u32 = 0o2000;
/// Longest target of a symbolic link (`PATH_MAX` without the final 0).
const MAX_TARGET_BYTES: usize = 4095;

/// What a rename is to do: the inode that moves, and the one that goes.
type Renamed = Option<(u32, Option<u32>)>;

impl<F: Flash> Jffs1<F> {
    fn directory(&self, ino: Ino) -> Result<&File> {
        Some(self.file(ino)?).filter(|file| file.is_dir()).ok_or(FsError::NotDir { ino })
    }

    /// What a name stands for, if it exists.
    fn find(&self, dir: Ino, name: &[u8]) -> Result<Option<u32>> {
        let directory = self.directory(dir)?;
        if name.len() > MAX_NAME_BYTES {
            return Err(FsError::NameTooLong { bytes: name.len() });
        }
        assert!(!name.is_empty() && name != b"." && name != b"..", "the caller walks paths");
        Ok(directory.entries.get(name).copied())
    }

    pub(super) fn found(&self, dir: Ino, name: &[u8]) -> Result<Ino> {
        let ino = self.find(dir, name)?.ok_or(FsError::NoEntry { dir })?;
        Ok(Ino(ino.into()))
    }

    /// Adds the name of an inode to its directory.
    pub(super) fn add_entry(&mut self, ino: u32) {
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        let file = self.files.get_mut(&ino).expect("it has a name");
        file.cookie = cookie;
        let (pino, name) = (file.pino, file.name.clone());
        let dir = self.files.get_mut(&pino).expect("it is in a directory");
        dir.order.insert(cookie, name.clone());
        // Two files of one name are a mistake of the writer; the later inode wins, as a search would find it first.
        if let Some(other) = dir.entries.insert(name, ino) {
            let other = self.files[&other].cookie;
            self.files.get_mut(&pino).expect("it was there").order.remove(&other);
        }
    }

    /// Takes the name of an inode out of its directory.
    fn remove_entry(&mut self, ino: u32) {
        let File { pino, name, cookie, .. } = &self.files[&ino];
        let (pino, name, cookie) = (*pino, name.clone(), *cookie);
        let dir = self.files.get_mut(&pino).expect("it is in a directory");
        dir.entries.remove(&name);
        dir.order.remove(&cookie);
    }

    /// The entries of a directory changed. The flash does not know it.
    fn touch(&mut self, dir: Ino, now: u32) -> Result<()> {
        self.file_mut(dir)?.shown = (now, now);
        Ok(())
    }

    fn make(
        &mut self,
        cx: &mut Cx,
        dir: Ino,
        name: &[u8],
        new: NewInode,
        file_type: FileType,
        data: &[u8],
    ) -> Result<Attr> {
        if self.find(dir, name)?.is_some() {
            return Err(FsError::Exists { ino: dir });
        }
        let parent = self.file(dir)?;
        if parent.deleted {
            return Err(FsError::NoEntry { dir });
        }
        let (now, inherits) = (self.now(cx), parent.mode & SET_GROUP_ID != 0);
        let is_dir = file_type == FileType::Directory;
        let raw = RawInode {
            ino: self.next_ino,
            pino: dir.0 as u32,
            mode: file_type.mode_bits() | new.mode & 0o7777 | if is_dir && inherits { SET_GROUP_ID } else { 0 },
            uid: new.uid as u16,
            gid: if inherits { parent.gid } else { new.gid as u16 },
            atime: now,
            mtime: now,
            ctime: now,
            data_bytes: data.len() as u32,
            name_bytes: name.len() as u8,
            nlink: 1,
            accurate: 0xff,
            ..RawInode::default()
        };
        if raw.data_offset() + raw.data_bytes > self.max_chunk() {
            return Err(FsError::NameTooLong { bytes: data.len() });
        }
        self.put(cx, raw, name, data, Room::Writer)?;
        self.next_ino += 1;
        self.add_entry(raw.ino);
        let ino = Ino(raw.ino.into());
        self.touch(ino, now)?;
        self.touch(dir, now)?;
        self.attr(cx, ino)
    }

    pub(super) fn make_plain(
        &mut self,
        cx: &mut Cx,
        dir: Ino,
        name: &[u8],
        new: NewInode,
        file_type: FileType,
    ) -> Result<Attr> {
        self.make(cx, dir, name, new, file_type, &[])
    }

    pub(super) fn make_special(
        &mut self,
        cx: &mut Cx,
        dir: Ino,
        name: &[u8],
        new: NewInode,
        (file_type, device): (FileType, DeviceNumber),
    ) -> Result<Attr> {
        match file_type {
            FileType::Regular => return self.make_plain(cx, dir, name, new, file_type),
            FileType::Directory | FileType::Symlink => return Err(FsError::Invalid { why: "the type of a node" }),
            _ => {}
        }
        // A byte for each is all that the format has.
        let (Ok(major), Ok(minor)) = (u8::try_from(device.major), u8::try_from(device.minor)) else {
            return Err(FsError::Invalid { why: "a number of a device above 255" });
        };
        let number = self.options.endian.half(u16::from_be_bytes([major, minor]));
        self.make(cx, dir, name, new, file_type, &number)
    }

    pub(super) fn make_symlink(
        &mut self,
        cx: &mut Cx,
        dir: Ino,
        name: &[u8],
        target: &[u8],
        new: NewInode,
    ) -> Result<Attr> {
        if target.is_empty() {
            return Err(FsError::NoEntry { dir });
        }
        if target.len() > MAX_TARGET_BYTES {
            return Err(FsError::NameTooLong { bytes: target.len() });
        }
        self.make(cx, dir, name, NewInode { mode: 0o777, ..new }, FileType::Symlink, target)
    }

    /// Writes the node that deletes an inode, and takes its name away.
    fn delete(&mut self, cx: &mut Cx, ino: u32) -> Result<()> {
        let (now, file) = (self.now(cx), &self.files[&ino]);
        let raw = RawInode { atime: now, ctime: now, name_bytes: 0, deleted: true, ..file.raw(ino) };
        let dir = Ino(file.pino.into());
        self.put(cx, raw, b"", b"", Room::Recoverable)?;
        self.remove_entry(ino);
        self.touch(dir, now)?;
        self.files.get_mut(&ino).expect("it was there").shown.1 = now;
        if self.files[&ino].opens == 0 {
            self.free_file(cx, ino)?;
        }
        Ok(())
    }

    pub(super) fn remove_name(&mut self, cx: &mut Cx, dir: Ino, name: &[u8], directory: bool) -> Result<()> {
        let ino = self.found(dir, name)?;
        if directory {
            if !self.directory(ino)?.entries.is_empty() {
                return Err(FsError::NotEmpty { dir: ino });
            }
        } else if self.file(ino)?.is_dir() {
            return Err(FsError::IsDir { ino });
        }
        self.delete(cx, ino.0 as u32)
    }

    /// Whether `ino` is `dir` or a directory above it.
    fn is_at_or_above(&self, ino: u32, dir: Ino) -> bool {
        let mut at = dir.0 as u32;
        while at != ino && at != 0 {
            at = self.files.get(&at).map_or(0, |file| file.pino);
        }
        at == ino
    }

    fn may_rename(&self, from: (Ino, &[u8]), to: (Ino, &[u8]), flags: RenameFlags) -> Result<Renamed> {
        if !flags.is_valid() {
            return Err(FsError::Invalid { why: "flags of a rename" });
        }
        if flags.has(RenameFlags::EXCHANGE) || flags.has(RenameFlags::WHITEOUT) {
            return Err(FsError::NotSupported { what: "exchanges and whiteouts" });
        }
        self.directory(to.0)?;
        let source = self.found(from.0, from.1)?.0 as u32;
        let target = self.find(to.0, to.1)?;
        if flags.has(RenameFlags::NO_REPLACE) && target.is_some() {
            return Err(FsError::Exists { ino: to.0 });
        }
        if self.file(to.0)?.deleted {
            return Err(FsError::NoEntry { dir: to.0 });
        }
        if from.0 != to.0 && self.is_at_or_above(source, to.0) {
            return Err(FsError::Invalid { why: "a directory below itself" });
        }
        let Some(target) = target else { return Ok(Some((source, None))) };
        let target_ino = Ino(target.into());
        if from.0 != to.0 && self.is_at_or_above(target, from.0) {
            return Err(FsError::NotEmpty { dir: target_ino });
        }
        if source == target {
            return Ok(None);
        }
        match (self.files[&source].is_dir(), &self.files[&target]) {
            (false, file) if file.is_dir() => return Err(FsError::IsDir { ino: target_ino }),
            (true, file) if !file.is_dir() => return Err(FsError::NotDir { ino: target_ino }),
            (true, file) if !file.entries.is_empty() => return Err(FsError::NotEmpty { dir: target_ino }),
            _ => {}
        }
        Ok(Some((source, Some(target))))
    }

    /// A node with the new name, which says what inode it replaces; then that is deleted. If power fails between them, the
    /// mount deletes it.
    pub(super) fn move_name(
        &mut self,
        cx: &mut Cx,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        flags: RenameFlags,
    ) -> Result<()> {
        let Some((source, target)) = self.may_rename(from, to, flags)? else { return Ok(()) };
        let now = self.now(cx);
        let mut raw = RawInode {
            pino: to.0.0 as u32,
            atime: now,
            mtime: now,
            name_bytes: to.1.len() as u8,
            ..self.files[&source].raw(source)
        };
        let replaced = target.filter(|_| !self.options.known_bad.forget_replaced);
        let data = replaced.map(|target| self.options.endian.bytes(target));
        let data = data.as_ref().map_or(&[][..], |bytes| &bytes[..]);
        (raw.renames, raw.data_bytes) = (replaced.is_some(), data.len() as u32);
        let old = self.files[&source].clone();
        self.put(cx, raw, to.1, data, Room::Writer)?;
        // The old name goes from where it was.
        let dir = self.files.get_mut(&old.pino).expect("it is in a directory");
        dir.entries.remove(&old.name);
        dir.order.remove(&old.cookie);
        if let Some(target) = target {
            self.delete(cx, target)?;
        }
        self.add_entry(source);
        self.files.get_mut(&source).expect("it was there").shown.1 = now;
        self.touch(from.0, now)?;
        self.touch(to.0, now)
    }
}
