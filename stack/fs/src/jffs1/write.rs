//! Nodes are written at the tail of the log, and contents are read.

use sim::seam::{Attr, Flash, FsError, Ino, Payload, ReadInto, SetAttr, Timestamp};
use sim::{Cause, Cx};

use super::Jffs1;
use super::file::File;
use super::log::{ChunkId, Place};
use super::media::{RawInode, checksum};
use super::medium::Result;

/// A write arrives in such pieces, which end where pages of the file end.
const PAGE: u64 = 4096;
/// A truncation that frees more than this may use the space that writers leave.
const WORTH_TRUNCATING: u32 = 128;

/// Who may use the half sector that is left beside the space of garbage collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// What frees space.
    Recoverable,
    /// Nothing else.
    Writer,
}

/// The number on the flash of an inode; others do not exist.
fn number(ino: Ino) -> Result<u32> {
    u32::try_from(ino.0).map_err(|_| FsError::Stale { ino })
}

impl<F: Flash> Jffs1<F> {
    pub(super) fn file(&self, ino: Ino) -> Result<&File> {
        self.files.get(&number(ino)?).ok_or(FsError::Stale { ino })
    }

    pub(super) fn file_mut(&mut self, ino: Ino) -> Result<&mut File> {
        self.files.get_mut(&number(ino)?).ok_or(FsError::Stale { ino })
    }

    /// Refuses what is no regular file.
    fn regular(&self, ino: Ino) -> Result<&File> {
        let file = self.file(ino)?;
        match file.file_type() {
            sim::seam::FileType::Regular => Ok(file),
            sim::seam::FileType::Directory => Err(FsError::IsDir { ino }),
            _ => Err(FsError::Invalid { why: "no regular file" }),
        }
    }

    /// Collects garbage until so many bytes are free beside those that garbage collection needs. Gives up when more than
    /// `most` sectors were erased since the mount.
    fn make_room(&mut self, cx: &mut Cx, bytes: u32, most: u64) -> Result<()> {
        while u64::from(self.log.free()) < u64::from(self.min_free()) + u64::from(bytes) {
            if self.log.dirty < self.log.sector || self.medium.done.erased > most {
                return Err(FsError::NoSpace);
            }
            self.collect_now(cx)?;
        }
        Ok(())
    }

    /// Writes a node, whose version and sums are filled in, and makes it part of its inode.
    pub(super) fn put(&mut self, cx: &mut Cx, raw: RawInode, name: &[u8], data: &[u8], room: Room) -> Result<()> {
        self.futile = 0;
        let bytes = raw.node_bytes();
        let slack = if room == Room::Writer { self.max_chunk() } else { 0 };
        // A round of the log, in which everything is moved: what is dirt at the end of the flash comes again each time.
        let most = self.medium.done.erased + u64::from(self.log.size / self.log.sector);
        let chunk = loop {
            self.make_room(cx, bytes + slack, most)?;
            match self.log.allocate(bytes) {
                Place::At(chunk) => break chunk,
                Place::FillFirst(end) => cx.because(Cause::Padding, |cx| self.fill_end(cx, end))?,
                Place::Nowhere if self.log.dirty < self.log.sector => return Err(FsError::NoSpace),
                Place::Nowhere => self.collect_now(cx)?,
            }
        };
        // Garbage collection may have written nodes of the inode.
        let file = self.files.get(&raw.ino);
        let raw = RawInode {
            version: file.map_or(1, |file| file.highest + 1),
            deleted: raw.deleted || file.is_some_and(|file| file.deleted),
            data_sum: checksum(data),
            name_sum: checksum(name) as u16,
            ..raw
        };
        self.medium.sum(cx, (RawInode::BYTES + name.len() + data.len()) as u64);
        let at = self.log.chunk(chunk).offset;
        self.medium.program(cx, at, &raw.encode(self.options.endian))?;
        if !name.is_empty() {
            self.medium.program(cx, at + RawInode::BYTES as u32, name)?;
        }
        if !data.is_empty() {
            self.medium.copy(cx, data.len() as u64);
            self.medium.program(cx, at + raw.data_offset(), data)?;
        }
        self.insert(cx, &raw, name, chunk)
    }

    /// Makes a node that is on the flash part of its inode.
    pub(super) fn insert(&mut self, cx: &mut Cx, raw: &RawInode, name: &[u8], chunk: ChunkId) -> Result<()> {
        self.log.revive(chunk, (raw.ino, raw.version), raw.renames);
        let data_at = self.log.chunk(chunk).offset + raw.data_offset();
        let file = self.files.entry(raw.ino).or_insert_with(|| File::new(raw, name));
        file.learn(raw, name);
        file.add(raw, chunk, data_at);
        let changed = file.apply(raw.version);
        // Each time all versions are looked at for those that are not needed any more.
        let visited = changed.visited + file.nodes.len() as u64;
        let redundant = file.forget_redundant();
        self.medium.visit(cx, visited);
        changed.obsolete.into_iter().chain(redundant).try_for_each(|chunk| self.obsolete(cx, chunk))
    }

    /// A node is not needed any more.
    pub(super) fn obsolete(&mut self, cx: &mut Cx, chunk: ChunkId) -> Result<()> {
        self.log.obsolete(chunk);
        if self.options.mark_obsolete {
            let at = self.log.chunk(chunk).offset + RawInode::ACCURATE_OFFSET;
            self.medium.program(cx, at, &[0])?;
        }
        Ok(())
    }

    /// Forgets an inode that is deleted; its nodes are dirt.
    pub(super) fn free_file(&mut self, cx: &mut Cx, ino: u32) -> Result<()> {
        let file = self.files.remove(&ino).expect("it is deleted once");
        self.medium.visit(cx, file.nodes.len() as u64);
        file.nodes.values().try_for_each(|node| self.obsolete(cx, node.chunk))
    }

    /// Reads contents of any inode. What no node has is zero.
    pub(super) fn read_contents(&mut self, cx: &mut Cx, ino: u32, offset: u32, into: &mut [u8]) -> Result<()> {
        let to = offset + into.len() as u32;
        let (before, extents) = self.files[&ino].extents_in(offset, to);
        self.medium.visit(cx, before + extents.len() as u64);
        into.fill(0);
        for (at, extent) in extents {
            let (first, last) = (at.max(offset), (at + extent.bytes).min(to));
            let part = &mut into[(first - offset) as usize..(last - offset) as usize];
            self.medium.read(cx, extent.at + (first - at), part)?;
        }
        Ok(())
    }

    /// All contents of a symbolic link or a device.
    pub(super) fn whole(&mut self, cx: &mut Cx, ino: Ino) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.file(ino)?.size as usize];
        self.read_contents(cx, number(ino)?, 0, &mut bytes)?;
        Ok(bytes)
    }

    pub(super) fn read_file(&mut self, cx: &mut Cx, ino: Ino, offset: u64, into: ReadInto<'_>) -> Result<u32> {
        let size = u64::from(self.regular(ino)?.size);
        let length = u64::from(into.len()).min(size.saturating_sub(offset));
        let mut unread = Vec::new();
        let into = match into {
            ReadInto::Bytes(bytes) => &mut bytes[..length as usize],
            ReadInto::Length(_) => {
                unread.resize(length as usize, 0);
                &mut unread[..]
            }
        };
        if length > 0 {
            for (at, page) in (offset..).step_by(PAGE as usize).zip(into.chunks_mut(PAGE as usize)) {
                self.read_contents(cx, number(ino)?, at as u32, page)?;
            }
        }
        Ok(length as u32)
    }

    pub(super) fn write_file(&mut self, cx: &mut Cx, ino: Ino, offset: u64, data: Payload<'_>) -> Result<u32> {
        self.regular(ino)?;
        if data.is_empty() {
            return Ok(0);
        }
        let most = u64::from(u32::MAX);
        if offset >= most {
            return Err(FsError::FileTooBig { ino, bytes: offset });
        }
        let length = u64::from(data.len()).min(most - offset) as u32;
        let largest = u64::from(self.max_chunk()) - RawInode::BYTES as u64;
        let (now, mut done) = (self.now(cx), 0);
        while done < length {
            let at = offset + u64::from(done);
            let piece = (PAGE - at % PAGE).min(largest).min(u64::from(length - done)) as u32;
            let zeroes;
            let bytes = match data.part(done, piece) {
                Payload::Bytes(bytes) => bytes,
                Payload::Length(bytes) => {
                    zeroes = vec![0; bytes as usize];
                    &zeroes[..]
                }
            };
            let file = self.file(ino)?;
            let raw = RawInode {
                atime: now,
                mtime: now,
                offset: at as u32,
                data_bytes: piece,
                removed_bytes: piece.min(file.size.saturating_sub(at as u32)),
                ..file.raw(number(ino)?)
            };
            let name = file.name.clone();
            match self.put(cx, raw, &name, bytes, Room::Writer) {
                Err(FsError::NoSpace) if done > 0 => break,
                other => other?,
            }
            self.file_mut(ino)?.shown = (now, now);
            done += piece;
        }
        Ok(done)
    }

    /// The data of a node that gives a file another size, and what it removes and inserts where.
    fn resize(file: &File, size: u32, raw: &mut RawInode) -> &'static [u8] {
        let is_data = |at: u32| file.data_from(at) > 0;
        if size == file.size {
            return &[];
        }
        let ends_in_data = size == 0 || size < file.size && is_data(size - 1);
        raw.offset = if ends_in_data { size } else { size - 1 };
        raw.removed_bytes = file.size.saturating_sub(raw.offset);
        raw.data_bytes = u32::from(!ends_in_data);
        if ends_in_data { &[] } else { &[0] }
    }

    pub(super) fn set_attributes(&mut self, cx: &mut Cx, ino: Ino, change: &SetAttr) -> Result<Attr> {
        if let Some(bytes) = change.size {
            self.regular(ino)?;
            if bytes > u64::from(u32::MAX) {
                return Err(FsError::FileTooBig { ino, bytes });
            }
        }
        let (now, file) = (self.now(cx), self.file(ino)?);
        if change.flags.is_some() {
            return Err(FsError::NotSupported { what: "flags of inodes" });
        }
        let mut raw = RawInode { ctime: now, ..file.raw(number(ino)?) };
        let (mut data, mut room, mut mtime) = (&[][..], Room::Writer, file.shown.0);
        if let Some(size) = change.size {
            data = Self::resize(file, size as u32, &mut raw);
            (raw.mtime, mtime) = (now, now);
            if size as u32 + WORTH_TRUNCATING < file.size {
                room = Room::Recoverable;
            }
        }
        raw.mode = change.mode.map_or(raw.mode, |mode| raw.mode & !0o7777 | mode & 0o7777);
        // 16 bits are all that the format has.
        raw.uid = change.uid.map_or(raw.uid, |uid| uid as u16);
        raw.gid = change.gid.map_or(raw.gid, |gid| gid as u16);
        raw.atime = change.atime.map_or(raw.atime, seconds);
        if let Some(time) = change.mtime {
            (raw.mtime, mtime) = (seconds(time), seconds(time));
        }
        let name = file.name.clone();
        self.put(cx, raw, &name, data, room)?;
        self.file_mut(ino)?.shown = (mtime, now);
        self.attr(cx, ino)
    }
}

fn seconds(time: Timestamp) -> u32 {
    time.seconds as u32
}
