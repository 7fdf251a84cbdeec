//! What each operation draws and does.

use sim::Cx;
use sim::seam::{
    DeviceNumber, FallocateMode, FileSystem, FileType, FsError, Ino, NewInode, Payload, ReadInto, RenameFlags, SetAttr,
    SetXattr,
};

use super::names::{Entry, Kind, Kinds, Name, Slot};
use super::{Fsstress, Op, Outcome, Step};

/// Longest read or write.
const LONGEST: u64 = 32 * 4096;
/// How far beyond the end of a file offsets are drawn.
const BEYOND: u64 = 1 << 20;
/// How far beyond the end of a file copies go: 1,024 blocks.
const COPY_BEYOND: u64 = 1024 * BLOCK;
/// `st_blksize`, to which direct I/O is aligned.
const BLOCK: u64 = 4096;
/// Most buffers of a vector (`IOV_MAX`).
const MOST_BUFFERS: u64 = 1024;
/// `PATH_MAX`.
const LONGEST_TARGET: u64 = 4096;
/// Bytes of a pipe.
const PIPE: u64 = 16 * BLOCK;

type Called = Result<Outcome, FsError>;

fn round_down(bytes: u64) -> u64 {
    bytes - bytes % BLOCK
}

impl Fsstress {
    pub(super) fn call<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, random: u64, step: &mut Step) -> Called {
        match step.op {
            Op::Afsync => self.afsync(fs, cx, random, step),
            Op::Aread | Op::Dread => self.read(fs, cx, random, step, true),
            Op::Awrite | Op::Dwrite => self.write(fs, cx, random, step, true),
            Op::Read | Op::Readv | Op::UringRead => self.read(fs, cx, random, step, false),
            Op::Write | Op::Writev | Op::UringWrite => self.write(fs, cx, random, step, false),
            Op::Mread | Op::Mwrite => self.mapping(fs, cx, random, step),
            Op::Allocsp | Op::Freesp => self.space_of_xfs(fs, cx, random, step),
            Op::Resvsp | Op::Unresvsp => self.reservation(fs, cx, random, step),
            Op::Fallocate | Op::Punch | Op::Zero | Op::Collapse | Op::Insert => self.fallocate(fs, cx, random, step),
            Op::Fiemap => self.fiemap(fs, cx, random, step),
            Op::Truncate => self.truncate(fs, cx, random, step),
            Op::Fsync => self.fsync(fs, cx, Kinds::FILE_OR_DIRECTORY, random, step),
            Op::Fdatasync => self.fsync(fs, cx, Kinds::REGULAR, random, step),
            Op::Sync => fs.sync(cx).map(|()| Outcome::Done),
            Op::Clonerange | Op::Copyrange | Op::Splice => self.between(fs, cx, random, step),
            Op::Deduperange => self.deduperange(fs, cx, random, step),
            Op::Creat | Op::Mkdir | Op::Mknod | Op::Symlink => self.make(fs, cx, random, step),
            Op::Link => self.link(fs, cx, random, step),
            Op::Unlink => self.unlink(fs, cx, random, step),
            Op::Rmdir => self.rmdir(fs, cx, random, step),
            Op::Rename | Op::Rnoreplace | Op::Rexchange | Op::Rwhiteout => self.rename(fs, cx, random, step),
            Op::Chown => self.chown(fs, cx, random, step),
            Op::Stat => match self.pick(Kinds::ANY, random, step) {
                Some(slot) => fs.getattr(cx, self.names.entry(slot).ino).map(|_| Outcome::Done),
                None => Ok(Outcome::Nothing),
            },
            Op::Readlink => match self.pick(Kinds::SYMLINK, random, step) {
                Some(slot) => fs.readlink(cx, self.names.entry(slot).ino).map(|_| Outcome::Done),
                None => Ok(Outcome::Nothing),
            },
            Op::Getdents => {
                let slot = self.pick(Kinds::DIRECTORY, random, step);
                fs.readdir(cx, self.ino_or_home(slot), 0, &mut |_| true).map(|()| Outcome::Done)
            }
            Op::Getattr | Op::Setattr => self.flags(fs, cx, random, step),
            Op::Setxattr => {
                self.pick(Kinds::ANY, random, step);
                self.random.draw();
                self.random.draw();
                Ok(Outcome::Refused)
            }
            Op::Getfattr | Op::Removefattr => self.one_attribute(fs, cx, random, step),
            Op::Setfattr => self.setfattr(fs, cx, random, step),
            Op::Listfattr => match self.pick(Kinds::FILE_OR_DIRECTORY, random, step) {
                Some(slot) => fs.listxattr(cx, self.names.entry(slot).ino).map(|_| Outcome::Done),
                None => Ok(Outcome::Nothing),
            },
            Op::AttrSet => self.attr_set(fs, cx, random, step),
            Op::AttrRemove => self.attr_remove(fs, cx, random, step),
            Op::Bulkstat1 => {
                if self.random.odd() {
                    self.pick(Kinds::ANY, random, step);
                }
                Ok(Outcome::Refused)
            }
            Op::Bulkstat | Op::Snapshot | Op::SubvolCreate | Op::SubvolDelete => Ok(Outcome::Refused),
        }
    }

    fn pick(&self, kinds: Kinds, random: u64, step: &mut Step) -> Option<Slot> {
        let slot = self.names.pick(kinds, random)?;
        step.file = Some(self.names.name(slot));
        Some(slot)
    }

    /// A second file, by a draw of its own.
    fn pick_other(&mut self, kinds: Kinds, step: &mut Step) -> Option<Slot> {
        let random = self.random.draw();
        let slot = self.names.pick(kinds, random)?;
        step.other = Some(self.names.name(slot));
        Some(slot)
    }

    fn ino_or_home(&self, slot: Option<Slot>) -> Ino {
        slot.map_or(self.home, |slot| self.names.entry(slot).ino)
    }

    /// Inode of the directory that holds an entry.
    fn dir_of(&self, entry: &Entry) -> Ino {
        self.dir(entry.parent)
    }

    fn dir(&self, parent: Option<u32>) -> Ino {
        parent.map_or(self.home, |id| self.names.directory(id))
    }

    /// The byte that is written: it changes with each name made.
    fn fill(&self) -> u8 {
        (self.next_id & 0xff) as u8
    }

    /// A regular file and its size.
    fn regular<F: FileSystem>(
        &mut self,
        fs: &mut F,
        cx: &mut Cx,
        random: u64,
        step: &mut Step,
    ) -> Result<Option<(Ino, u64)>, FsError> {
        let Some(slot) = self.pick(Kinds::REGULAR, random, step) else { return Ok(None) };
        let ino = self.names.entry(slot).ino;
        Ok(Some((ino, fs.getattr(cx, ino)?.size)))
    }

    fn afsync<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, random: u64, step: &mut Step) -> Called {
        let Some(slot) = self.pick(Kinds::FILE_OR_DIRECTORY, random, step) else { return Ok(Outcome::Nothing) };
        if !self.options.direct_io {
            return Ok(Outcome::Refused);
        }
        fs.fsync(cx, self.names.entry(slot).ino, false).map(|()| Outcome::Done)
    }

    /// Length of a read or write after the draw of its offset; of a vector, in whole equal buffers.
    fn length(&mut self, direct: bool, op: Op) -> u64 {
        let length = self.random.below(LONGEST) + 1;
        match op {
            _ if direct => round_down(length).max(BLOCK),
            Op::Readv | Op::Writev => {
                let buffers = self.random.below(length.min(MOST_BUFFERS)) + 1;
                length / buffers * buffers
            }
            _ => length,
        }
    }

    fn read<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, random: u64, step: &mut Step, direct: bool) -> Called {
        if direct && !self.options.direct_io {
            let found = self.pick(Kinds::REGULAR, random, step);
            return Ok(if found.is_some() { Outcome::Refused } else { Outcome::Nothing });
        }
        let Some((ino, size)) = self.regular(fs, cx, random, step)? else { return Ok(Outcome::Nothing) };
        if size == 0 {
            return Ok(Outcome::Nothing);
        }
        let offset = self.random.wide() % size;
        let offset = if direct { round_down(offset) } else { offset };
        let length = self.length(direct, step.op);
        step.range = Some((offset, length));
        step.read = u64::from(fs.read(cx, ino, offset, ReadInto::Length(length as u32))?);
        Ok(Outcome::Done)
    }

    fn write<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, random: u64, step: &mut Step, direct: bool) -> Called {
        if direct && !self.options.direct_io {
            let found = self.pick(Kinds::REGULAR, random, step);
            return Ok(if found.is_some() { Outcome::Refused } else { Outcome::Nothing });
        }
        let Some((ino, size)) = self.regular(fs, cx, random, step)? else { return Ok(Outcome::Nothing) };
        let offset = self.random.wide() % (size + BEYOND);
        let offset = if direct { round_down(offset) } else { offset };
        let length = self.length(direct, step.op);
        self.put(fs, cx, ino, (offset, length), step)
    }

    /// Writes the range, every byte the same.
    fn put<F: FileSystem>(
        &mut self,
        fs: &mut F,
        cx: &mut Cx,
        ino: Ino,
        (offset, length): (u64, u64),
        step: &mut Step,
    ) -> Called {
        step.range = Some((offset, length));
        let fill = self.fill();
        let data = fs.offer(&mut self.buffer, length as u32, |bytes| bytes.fill(fill));
        step.written = u64::from(fs.write(cx, ino, offset, data)?);
        Ok(Outcome::Done)
    }

    fn mapping<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, random: u64, step: &mut Step) -> Called {
        let Some((ino, size)) = self.regular(fs, cx, random, step)? else { return Ok(Outcome::Nothing) };
        if size == 0 {
            return Ok(Outcome::Nothing);
        }
        let offset = round_down(self.random.wide() % size);
        let length = self.random.below((size - offset).min(LONGEST)) + 1;
        let shared = self.random.odd();
        step.range = Some((offset, length));
        match step.op {
            Op::Mread => {
                step.read = u64::from(fs.read(cx, ino, offset, ReadInto::Length(length as u32))?);
                Ok(Outcome::Done)
            }
            _ if shared => self.put(fs, cx, ino, (offset, length), step),
            _ => Ok(Outcome::Nothing),
        }
    }

    fn space_of_xfs<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, random: u64, step: &mut Step) -> Called {
        let Some((_, size)) = self.regular(fs, cx, random, step)? else { return Ok(Outcome::Nothing) };
        step.range = Some((self.random.wide() % (size + BEYOND), 0));
        Ok(Outcome::Refused)
    }

    fn reservation<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, random: u64, step: &mut Step) -> Called {
        let Some((ino, size)) = self.regular(fs, cx, random, step)? else { return Ok(Outcome::Nothing) };
        let offset = self.random.wide() % (size + BEYOND);
        let length = self.random.below(BEYOND);
        let hole = if step.op == Op::Unresvsp { FallocateMode::PUNCH_HOLE } else { FallocateMode::ALLOCATE };
        reserve(fs, cx, ino, FallocateMode::KEEP_SIZE | hole, (offset, length), step)
    }

    fn fallocate<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, random: u64, step: &mut Step) -> Called {
        let Some((ino, size)) = self.regular(fs, cx, random, step)? else { return Ok(Outcome::Nothing) };
        let mut offset = self.random.wide() % (size + BEYOND);
        let mut length = self.random.below(BEYOND);
        let mode = match step.op {
            Op::Punch => FallocateMode::PUNCH_HOLE,
            Op::Zero => FallocateMode::ZERO_RANGE,
            Op::Collapse => FallocateMode::COLLAPSE_RANGE,
            Op::Insert => FallocateMode::INSERT_RANGE,
            _ => FallocateMode::ALLOCATE,
        };
        if matches!(step.op, Op::Collapse | Op::Insert) && self.done % 2 == 1 {
            offset = offset.next_multiple_of(BLOCK);
            length = length.next_multiple_of(BLOCK);
        }
        let keep_size = if self.random.odd() { FallocateMode::KEEP_SIZE } else { FallocateMode::ALLOCATE };
        reserve(fs, cx, ino, mode | keep_size, (offset, length), step)
    }

    fn fiemap<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, random: u64, step: &mut Step) -> Called {
        let Some((_, size)) = self.regular(fs, cx, random, step)? else { return Ok(Outcome::Nothing) };
        self.random.draw();
        let offset = self.random.wide() % (size + BEYOND);
        self.random.draw();
        self.random.draw();
        step.range = Some((offset, self.random.wide()));
        Ok(Outcome::Refused)
    }

    fn truncate<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, random: u64, step: &mut Step) -> Called {
        let Some((ino, size)) = self.regular(fs, cx, random, step)? else { return Ok(Outcome::Nothing) };
        let size = self.random.wide() % (size + BEYOND);
        step.range = Some((size, 0));
        fs.setattr(cx, ino, &SetAttr::size(size)).map(|_| Outcome::Done)
    }

    fn fsync<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, kinds: Kinds, random: u64, step: &mut Step) -> Called {
        let Some(slot) = self.pick(kinds, random, step) else { return Ok(Outcome::Nothing) };
        fs.fsync(cx, self.names.entry(slot).ino, step.op == Op::Fdatasync).map(|()| Outcome::Done)
    }

    /// Copies, or would share, a range of one file with another, which may be the same.
    fn between<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, random: u64, step: &mut Step) -> Called {
        let Some(from) = self.pick(Kinds::REGULAR, random, step) else { return Ok(Outcome::Nothing) };
        let Some(to) = self.pick_other(Kinds::REGULAR, step) else { return Ok(Outcome::Nothing) };
        let (from, to) = (self.names.entry(from).ino, self.names.entry(to).ino);
        let (from_size, to_size) = (fs.getattr(cx, from)?.size, fs.getattr(cx, to)?.size);
        let length = self.random.below(LONGEST) + 1;
        let shares = step.op == Op::Clonerange;
        let length = if shares { round_down(length).max(BLOCK) } else { length }.min(from_size);
        let rounded = |offset: u64| if shares { round_down(offset) } else { offset };
        let random = self.random.wide();
        let offset = if from_size == length { 0 } else { rounded(random % (from_size - length)) };
        let mut other_offset = rounded(self.random.wide() % (to_size + COPY_BEYOND));
        while step.op != Op::Splice && from == to && offset.abs_diff(other_offset) < length {
            other_offset = rounded(self.random.wide() % (to_size + COPY_BEYOND));
        }
        step.range = Some((offset, length));
        step.other_offset = Some(other_offset);
        if shares {
            return Ok(Outcome::Refused);
        }
        while step.written < length {
            let left = length - step.written;
            // A pipe holds so many pages, and the first may be entered in the middle.
            let piece = if step.op == Op::Splice { left.min(PIPE - (offset + step.written) % BLOCK) } else { left };
            let place = offset + step.written;
            let bytes = piece as u32;
            let read = if fs.keeps_bytes() {
                self.buffer.resize(piece as usize, 0);
                fs.read(cx, from, place, ReadInto::Bytes(&mut self.buffer))?
            } else {
                fs.read(cx, from, place, ReadInto::Length(bytes))?
            };
            let data =
                if fs.keeps_bytes() { Payload::Bytes(&self.buffer[..read as usize]) } else { Payload::Length(read) };
            step.read += u64::from(read);
            let written = fs.write(cx, to, other_offset + step.written, data)?;
            step.written += u64::from(written);
            if written == 0 {
                break;
            }
        }
        Ok(Outcome::Done)
    }

    fn deduperange<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, random: u64, step: &mut Step) -> Called {
        let files = self.names.count(Kind::Regular) as u64;
        if files < 2 {
            return Ok(Outcome::Nothing);
        }
        let count = loop {
            let count = self.random.below(files + 1);
            if (2..=128).contains(&count) {
                break count;
            }
        };
        let Some((source, size)) = self.regular(fs, cx, random, step)? else { return Ok(Outcome::Nothing) };
        let mut others = [source; 128];
        for other in &mut others[1..count as usize] {
            let random = self.random.draw();
            if let Some(slot) = self.names.pick(Kinds::REGULAR, random) {
                *other = self.names.entry(slot).ino;
            }
        }
        let length = round_down(self.random.below(LONGEST) + 1);
        let length = if length == 0 { BLOCK / 2 } else { length }.min(size / 2);
        let random = self.random.wide();
        let offset = if size == length { 0 } else { round_down(random % (size - length)) };
        step.range = Some((offset, length));
        // Where the others would be shared: only in the same file does it matter how often is drawn.
        for &other in &others[1..count as usize] {
            for _ in 0..=10 {
                let random = self.random.wide();
                let at = if size <= length { 0 } else { round_down(random % (size - length)) };
                if other != source || at.abs_diff(offset) >= length {
                    break;
                }
            }
        }
        Ok(Outcome::Refused)
    }

    /// A name not used yet.
    fn new_name(&mut self, kind: Kind, step: &mut Step) -> Name {
        let name = Name { kind, id: self.next_id };
        self.next_id += 1;
        step.other = Some(name);
        name
    }

    fn make<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, random: u64, step: &mut Step) -> Called {
        let parent = self.names.pick(Kinds::DIRECTORY, random).map(|slot| self.names.entry(slot).id);
        let dir = self.dir(parent);
        let kind = match step.op {
            Op::Mkdir => Kind::Directory,
            Op::Mknod => Kind::Device,
            Op::Symlink => Kind::Symlink,
            _ => Kind::Regular,
        };
        if kind == Kind::Regular {
            // Whether it is a real-time file of XFS.
            self.random.draw();
        }
        let name = self.new_name(kind, step);
        let path = name.to_string();
        let path = path.as_bytes();
        let attr = match kind {
            Kind::Regular => fs.create(cx, dir, path, NewInode::of_root(0o666))?,
            Kind::Directory => fs.mkdir(cx, dir, path, NewInode::of_root(0o777))?,
            Kind::Device => {
                let new = NewInode::of_root(0o444);
                fs.mknod(cx, dir, path, new, FileType::CharDevice, DeviceNumber::default())?
            }
            Kind::Symlink => {
                let length = self.random.below(LONGEST_TARGET) as usize;
                step.range = Some((0, length as u64));
                self.buffer.clear();
                self.buffer.resize(length, b'x');
                for at in (10..length.saturating_sub(1)).step_by(10) {
                    self.buffer[at] = b'/';
                }
                fs.symlink(cx, dir, path, &self.buffer, NewInode::of_root(0o777))?
            }
        };
        self.names.add(kind, Entry { id: name.id, parent, xattrs: 0, ino: attr.ino });
        Ok(Outcome::Done)
    }

    /// Directory of a new name.
    fn new_parent(&mut self) -> Option<u32> {
        let random = self.random.draw();
        self.names.pick(Kinds::DIRECTORY, random).map(|slot| self.names.entry(slot).id)
    }

    fn link<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, random: u64, step: &mut Step) -> Called {
        let Some(slot) = self.pick(Kinds::NO_DIRECTORY, random, step) else { return Ok(Outcome::Nothing) };
        let parent = self.new_parent();
        let name = self.new_name(slot.kind, step);
        let source = *self.names.entry(slot);
        fs.link(cx, source.ino, self.dir(parent), name.to_string().as_bytes())?;
        self.names.add(slot.kind, Entry { id: name.id, parent, ..source });
        Ok(Outcome::Done)
    }

    fn unlink<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, random: u64, step: &mut Step) -> Called {
        let Some(slot) = self.pick(Kinds::NO_DIRECTORY, random, step) else { return Ok(Outcome::Nothing) };
        let entry = *self.names.entry(slot);
        let dir = self.dir_of(&entry);
        let name = self.names.name(slot).to_string();
        self.take_name(fs, cx, entry.ino, |fs, cx| fs.unlink(cx, dir, name.as_bytes()))?;
        self.names.remove(slot);
        Ok(Outcome::Done)
    }

    fn rmdir<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, random: u64, step: &mut Step) -> Called {
        let Some(slot) = self.pick(Kinds::DIRECTORY, random, step) else { return Ok(Outcome::Nothing) };
        let entry = *self.names.entry(slot);
        let dir = self.dir_of(&entry);
        let name = self.names.name(slot).to_string();
        self.take_name(fs, cx, entry.ino, |fs, cx| fs.rmdir(cx, dir, name.as_bytes()))?;
        let gone = self.names.remove(slot);
        self.names.forget_children(gone.id);
        Ok(Outcome::Done)
    }

    /// Takes a name of an inode, which is deleted at once or when the process goes on.
    fn take_name<F: FileSystem>(
        &mut self,
        fs: &mut F,
        cx: &mut Cx,
        ino: Ino,
        call: impl FnOnce(&mut F, &mut Cx) -> Result<(), FsError>,
    ) -> Result<(), FsError> {
        if !self.options.overlaps {
            return call(fs, cx);
        }
        fs.open(cx, ino)?;
        let taken = call(fs, cx);
        match taken {
            Ok(()) => self.unnamed = Some(ino),
            Err(_) => fs.release(cx, ino)?,
        }
        taken
    }

    fn rename<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, random: u64, step: &mut Step) -> Called {
        let (kinds, flags) = match step.op {
            Op::Rnoreplace => (Kinds::ANY, RenameFlags::NO_REPLACE),
            Op::Rexchange => (Kinds::ANY, RenameFlags::EXCHANGE),
            Op::Rwhiteout => (Kinds::DEVICE, RenameFlags::WHITEOUT),
            _ => (Kinds::ANY, RenameFlags::NONE),
        };
        let Some(slot) = self.pick(kinds, random, step) else { return Ok(Outcome::Nothing) };
        let source = *self.names.entry(slot);
        let from_dir = self.dir_of(&source);
        let from = self.names.name(slot).to_string();
        let from = (from_dir, from.as_bytes());
        if flags == RenameFlags::EXCHANGE {
            let Some(other) = self.pick_other(Kinds::only(slot.kind), step) else { return Ok(Outcome::Nothing) };
            let target = *self.names.entry(other);
            let related = self.names.is_above(source.id, &target) || self.names.is_above(target.id, &source);
            if slot.kind == Kind::Directory && related {
                return Ok(Outcome::Nothing);
            }
            let to = self.names.name(other).to_string();
            fs.rename(cx, from, (self.dir_of(&target), to.as_bytes()), flags)?;
            self.names.exchange(slot, other);
            return Ok(Outcome::Done);
        }
        let parent = self.new_parent();
        let name = self.new_name(slot.kind, step);
        fs.rename(cx, from, (self.dir(parent), name.to_string().as_bytes()), flags)?;
        if flags == RenameFlags::WHITEOUT {
            let whiteout = fs.lookup(cx, from.0, from.1)?.ino;
            let left = self.names.entry_mut(slot);
            (left.xattrs, left.ino) = (0, whiteout);
        } else {
            self.names.remove(slot);
            if slot.kind == Kind::Directory {
                self.names.move_children(source.id, name.id);
            }
        }
        self.names.add(slot.kind, Entry { id: name.id, parent, ..source });
        Ok(Outcome::Done)
    }

    fn chown<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, random: u64, step: &mut Step) -> Called {
        let slot = self.pick(Kinds::ANY, random, step);
        let (uid, gid) = (self.random.draw(), self.random.draw());
        let mask = (1 << self.random.below(31)) - 1;
        let (uid, gid) = (Some((uid & mask) as u32), Some((gid & mask) as u32));
        let ino = self.ino_or_home(slot);
        fs.setattr(cx, ino, &SetAttr { uid, gid, ..SetAttr::default() }).map(|_| Outcome::Done)
    }

    /// Only a regular file can be opened for that: no directory for writing, no device 0:0, no link into nothing.
    fn flags<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, random: u64, step: &mut Step) -> Called {
        let slot = self.pick(Kinds::ANY, random, step);
        if step.op == Op::Setattr {
            // Of 31 random flags there are always some that do not exist.
            self.random.draw();
            return Ok(Outcome::Refused);
        }
        match slot {
            Some(slot) if slot.kind == Kind::Regular => {
                fs.getattr(cx, self.names.entry(slot).ino).map(|_| Outcome::Done)
            }
            _ => Ok(Outcome::Refused),
        }
    }

    fn one_attribute<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, random: u64, step: &mut Step) -> Called {
        let Some(slot) = self.pick(Kinds::FILE_OR_DIRECTORY, random, step) else { return Ok(Outcome::Nothing) };
        let Entry { xattrs, ino, .. } = *self.names.entry(slot);
        let number = if xattrs > 0 { self.random.below(xattrs.into()) + 1 } else { 0 };
        let name = format!("user.x{number}");
        step.range = Some((number, 0));
        if step.op == Op::Removefattr {
            fs.removexattr(cx, ino, name.as_bytes())?;
        } else {
            let value = fs.getxattr(cx, ino, name.as_bytes())?;
            step.range = Some((number, value.len() as u64));
        }
        Ok(Outcome::Done)
    }

    fn setfattr<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, random: u64, step: &mut Step) -> Called {
        const CHARACTERS: &[u8; 63] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ\0";
        let Some(slot) = self.pick(Kinds::FILE_OR_DIRECTORY, random, step) else { return Ok(Outcome::Nothing) };
        let Entry { xattrs, ino, .. } = *self.names.entry(slot);
        let known = xattrs > 0 && self.random.odd();
        let number = if known { self.random.below(xattrs.into()) + 1 } else { u64::from(xattrs) + 1 };
        let how = match (self.random.odd(), known) {
            (false, _) => SetXattr::Set,
            (true, true) => SetXattr::Replace,
            (true, false) => SetXattr::Create,
        };
        let length = self.random.below(101);
        step.range = Some((number, length));
        self.buffer.clear();
        for _ in 0..length {
            self.buffer.push(CHARACTERS[self.random.below(63) as usize]);
        }
        fs.setxattr(cx, ino, format!("user.x{number}").as_bytes(), &self.buffer, how)?;
        self.names.entry_mut(slot).xattrs += 1;
        Ok(Outcome::Done)
    }

    fn attr_set<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, random: u64, step: &mut Step) -> Called {
        let slot = self.pick(Kinds::ANY, random, step);
        let name = format!("user.a{:x}", self.next_id);
        self.next_id += 1;
        let longest = [10, 100, 1_000, 10_000][self.random.below(4) as usize];
        let length = self.random.below(longest).max(1);
        step.range = Some((0, length));
        let ino = self.ino_or_home(slot);
        if slot.is_some_and(|slot| matches!(slot.kind, Kind::Symlink | Kind::Device)) {
            return Err(FsError::NotPermitted { ino });
        }
        self.buffer.clear();
        self.buffer.resize(length as usize, self.fill());
        fs.setxattr(cx, ino, name.as_bytes(), &self.buffer, SetXattr::Set).map(|()| Outcome::Done)
    }

    fn attr_remove<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, random: u64, step: &mut Step) -> Called {
        let slot = self.pick(Kinds::ANY, random, step);
        let ino = self.ino_or_home(slot);
        let names = fs.listxattr(cx, ino)?;
        if names.is_empty() {
            return Ok(Outcome::Nothing);
        }
        // The program takes the one after the one drawn, and none after the last.
        match names.get(self.random.below(names.len() as u64) as usize + 1) {
            Some(name) => fs.removexattr(cx, ino, name).map(|()| Outcome::Done),
            None => Ok(Outcome::Nothing),
        }
    }
}

/// Asks for space; the VFS refuses an empty range itself.
fn reserve<F: FileSystem>(
    fs: &mut F,
    cx: &mut Cx,
    ino: Ino,
    mode: FallocateMode,
    (offset, length): (u64, u64),
    step: &mut Step,
) -> Called {
    step.range = Some((offset, length));
    if length == 0 {
        return Err(FsError::Invalid { why: "an empty range" });
    }
    match fs.fallocate(cx, ino, mode, offset, length) {
        Err(FsError::NotSupported { .. }) => Ok(Outcome::Refused),
        other => other.map(|()| Outcome::Done),
    }
}
