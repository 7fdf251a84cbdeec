//! Contents of files.
//! Source: Linux 6.12, `fs/jffs2/file.c`, `read.c` and `write.c`.

use std::ops::Range;

use sim::Cx;
use sim::seam::{FileType, Flash, FsError, Ino, Payload, ReadInto};

use super::blocks::Node;
use super::error::{Jffs2Error, Result};
use super::inode::{DataNode, Fragment};
use super::media::{InodeNode, MIN_DATA, PAGE_BYTES, compression};
use super::space::{Purpose, Wanted};
use super::{Jffs2, media};
use crate::compress::Algorithm;

/// Most bytes of a file: Linux gives JFFS2 no large files.
pub(super) const MOST_BYTES: u64 = 0x7fff_ffff;

impl<F: Flash> Jffs2<F> {
    fn regular(&mut self, cx: &mut Cx, ino: Ino) -> Result<u32> {
        let inode = self.get(cx, ino)?;
        match inode.file_type {
            FileType::Regular => Ok(inode.ino),
            FileType::Directory => Err(FsError::IsDir { ino }.into()),
            _ => Err(FsError::Invalid { why: "no regular file" }.into()),
        }
    }

    /// As the seam's.
    pub(super) fn read_file(&mut self, cx: &mut Cx, ino: Ino, offset: u64, into: ReadInto<'_>) -> Result<u32> {
        let number = self.regular(cx, ino)?;
        let size = self.inode(number).size;
        let len = u64::from(size).saturating_sub(offset).min(into.len().into()) as u32;
        if len == 0 {
            return Ok(0);
        }
        let (from, end) = (offset as u32, offset as u32 + len);
        match into {
            ReadInto::Bytes(out) if self.pages.is_on() => {
                for part in pages(from, end) {
                    self.pages.count_read(number, part.start / PAGE_BYTES);
                    let inside = (part.start - from) as usize..(part.end - from) as usize;
                    self.read_range(cx, number, part.start, &mut out[inside])?;
                }
            }
            ReadInto::Length(_) if self.pages.is_on() => {
                for part in pages(from, end) {
                    self.pages.count_read(number, part.start / PAGE_BYTES);
                    self.page(cx, number, part.start / PAGE_BYTES)?;
                }
            }
            ReadInto::Bytes(out) => self.read_range(cx, number, from, &mut out[..len as usize])?,
            ReadInto::Length(_) => self.read_parts(cx, number, (from, end), |_, _| {})?,
        }
        Ok(len)
    }

    /// Reads bytes of a file that is in memory, by its pages if they are kept; zeroes where it has none.
    pub(super) fn read_range(&mut self, cx: &mut Cx, ino: u32, offset: u32, out: &mut [u8]) -> Result<()> {
        if !self.pages.is_on() {
            out.fill(0);
            return self.read_flash(cx, ino, offset, out);
        }
        for part in pages(offset, offset + out.len() as u32) {
            let page = self.page(cx, ino, part.start / PAGE_BYTES)?;
            let begin = (part.start % PAGE_BYTES) as usize;
            let inside = (part.start - offset) as usize..(part.end - offset) as usize;
            out[inside.clone()].copy_from_slice(&page[begin..begin + inside.len()]);
        }
        Ok(())
    }

    /// A page of a file that is in memory: read from flash as a whole, unless it is kept, and kept then.
    fn page(&mut self, cx: &mut Cx, ino: u32, index: u32) -> Result<&[u8]> {
        if self.pages.get(ino, index).is_none() {
            let mut page = [0; PAGE_BYTES as usize];
            self.read_flash(cx, ino, index * PAGE_BYTES, &mut page)?;
            self.pages.insert(ino, index, &page);
        }
        Ok(self.pages.get(ino, index).expect("it was just put there"))
    }

    /// Reads bytes of a file from flash into zeroes.
    fn read_flash(&mut self, cx: &mut Cx, ino: u32, offset: u32, out: &mut [u8]) -> Result<()> {
        let end = offset + out.len() as u32;
        self.read_parts(cx, ino, (offset, end), |at, bytes| {
            let at = (at - offset) as usize;
            out[at..at + bytes.len()].copy_from_slice(bytes);
        })
    }

    /// Reads what a file has from `offset` to `end`, and hands out each part with the place where it begins; none for
    /// holes.
    fn read_parts(
        &mut self,
        cx: &mut Cx,
        ino: u32,
        (offset, end): (u32, u32),
        mut each: impl FnMut(u32, &[u8]),
    ) -> Result<()> {
        let inode = self.inode(ino);
        let first = inode.fragment_at(offset).map_or(offset, |(at, _)| at);
        let parts: Vec<(u32, Fragment)> = inode.fragments.range(first..end).map(|(&at, &part)| (at, part)).collect();
        let mut data = std::mem::take(&mut self.unpacked);
        let mut read = |(at, part): (u32, Fragment)| {
            let Some(id) = part.node else { return Ok(()) };
            let begins = self.inode(ino).nodes[&id].offset;
            let (from, to) = (at.max(offset), (at + part.len).min(end));
            if !self.read_data(cx, id, &mut data)? {
                return Ok(());
            }
            let Some(bytes) = data.get((from - begins) as usize..(to - begins) as usize) else {
                let Node { block, offset, .. } = *self.blocks.node(id);
                return Err(Jffs2Error::corrupt(block, offset, "a node with fewer data than it says"));
            };
            each(from, bytes);
            Ok(())
        };
        let done = parts.into_iter().try_for_each(&mut read);
        self.unpacked = data;
        done
    }

    /// Reads and unpacks the data of a node. False: it is a hole.
    /// Errors: they are not what their CRC says, or cannot be unpacked.
    pub(super) fn read_data(&mut self, cx: &mut Cx, id: u32, out: &mut Vec<u8>) -> Result<bool> {
        let endian = self.device.endian();
        let Node { block, offset, len, .. } = *self.blocks.node(id);
        let wrong = |what: &str| Jffs2Error::corrupt(block, offset, what);
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.resize(len as usize, 0);
        let read = self.device.read(cx, block, offset, &mut bytes);
        self.spend(cx, 1, u64::from(len));
        let unpacked = read.map_err(Jffs2Error::from).and_then(|()| {
            let node = bytes.get(..InodeNode::BYTES).and_then(|head| InodeNode::read(endian, head));
            let node = node.ok_or_else(|| wrong("an inode node whose CRC differs"))?;
            if node.compression == compression::ZERO {
                return Ok(false);
            }
            let data = bytes.get(InodeNode::BYTES..InodeNode::BYTES + node.packed as usize);
            let data = data.filter(|data| media::crc(data) == node.data_crc);
            let data = data.ok_or_else(|| wrong("data whose CRC differs"))?;
            if node.unpacked > MOST_UNPACKED {
                return Err(wrong("data of more than a megabyte in one node"));
            }
            let algorithm = match node.compression {
                compression::NONE => {
                    out.clear();
                    out.extend_from_slice(data);
                    return Ok(true);
                }
                compression::RTIME => Algorithm::Rtime,
                compression::ZLIB => Algorithm::Zlib,
                compression::LZO => Algorithm::Lzo,
                other => return Err(wrong(&format!("data compressed by {other}, expected none, rtime, zlib or lzo"))),
            };
            out.resize(node.unpacked as usize, 0);
            cx.spend(self.options.cpu.unpack(u64::from(node.unpacked)));
            self.unpacker.decompress(algorithm, data, out).map_err(|error| wrong(&error.to_string()))?;
            Ok(true)
        });
        self.scratch = bytes;
        unpacked
    }

    /// As the seam's: page by page. The file may have grown by a hole where the write itself finds no space.
    pub(super) fn write_file(&mut self, cx: &mut Cx, ino: Ino, offset: u64, data: Payload<'_>) -> Result<u32> {
        let number = self.regular(cx, ino)?;
        if data.is_empty() {
            return Ok(0);
        }
        if offset >= MOST_BYTES {
            return Err(FsError::FileTooBig { ino, bytes: offset + u64::from(data.len()) }.into());
        }
        let len = u64::from(data.len()).min(MOST_BYTES - offset) as u32;
        let (mut at, end) = (offset as u32, offset as u32 + len);
        if at > self.inode(number).size {
            self.extend_by_hole(cx, number, at)?;
        }
        let zeroes = [0; PAGE_BYTES as usize];
        while at < end {
            let to = end.min((at / PAGE_BYTES + 1) * PAGE_BYTES);
            let part = match data.part(at - offset as u32, to - at) {
                Payload::Bytes(bytes) => bytes,
                Payload::Length(len) => &zeroes[..len as usize],
            };
            let from = at;
            let written = self.write_page(cx, number, from, part, &mut at);
            if written.is_err() {
                // It is read again: part of it may be on flash.
                self.pages.drop_page(number, from / PAGE_BYTES);
            }
            match written {
                Ok(()) => at = to,
                Err(error) if error.is_power_loss() => return Err(error),
                Err(_) if at > offset as u32 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(at - offset as u32)
    }

    /// A file grows by a hole up to `to`.
    pub(super) fn extend_by_hole(&mut self, cx: &mut Cx, ino: u32, to: u32) -> Result<()> {
        self.reserve(cx, Wanted::inode(InodeNode::BYTES), Purpose::Write)?;
        self.load(cx, ino)?;
        let now = self.now(cx);
        let inode = self.inode(ino);
        inode.version += 1;
        let from = inode.size;
        let node = InodeNode {
            version: inode.version,
            size: to,
            atime: now,
            mtime: now,
            ctime: now,
            offset: from,
            unpacked: to - from,
            compression: compression::ZERO,
            ..inode.describe()
        };
        let id = self.put_inode(cx, &node, &[], false)?;
        self.insert_data(cx, ino, id, &node)?;
        let inode = self.inode(ino);
        (inode.size, inode.mtime, inode.ctime) = (to, now, now);
        Ok(())
    }

    /// Writes within a page. What is written to its end is written from its beginning on, so that many short writes leave
    /// one node; else from a multiple of 4 bytes on. A page may take two nodes, of which the second finds no space: `reached`
    /// is how far the file was written.
    fn write_page(&mut self, cx: &mut Cx, ino: u32, offset: u32, bytes: &[u8], reached: &mut u32) -> Result<()> {
        let mut page = std::mem::take(&mut self.to_write);
        let written = self.write_nodes(cx, ino, (offset, bytes), &mut page, reached);
        self.to_write = page;
        written
    }

    fn write_nodes(
        &mut self,
        cx: &mut Cx,
        ino: u32,
        (offset, bytes): (u32, &[u8]),
        page: &mut Vec<u8>,
        reached: &mut u32,
    ) -> Result<()> {
        let end = offset + bytes.len() as u32;
        let begin = if end.is_multiple_of(PAGE_BYTES) { offset / PAGE_BYTES * PAGE_BYTES } else { offset & !3 };
        let before = (offset - begin) as usize;
        page.clear();
        page.resize(before, 0);
        self.load(cx, ino)?;
        if self.pages.is_on() {
            // Also where the whole page is written.
            self.page(cx, ino, offset / PAGE_BYTES)?;
        }
        self.read_range(cx, ino, begin, page)?;
        page.extend_from_slice(bytes);
        let mut at = begin;
        while at < end {
            let wanted = Wanted::inode(InodeNode::BYTES + MIN_DATA as usize);
            let room = self.reserve(cx, wanted, Purpose::Write)? - InodeNode::BYTES as u32;
            self.load(cx, ino)?;
            let packed = self.pack(cx, &page[(at - begin) as usize..], room);
            let now = self.now(cx);
            let inode = self.inode(ino);
            inode.version += 1;
            let node = InodeNode {
                version: inode.version,
                size: inode.size.max(at + packed.unpacked),
                // On flash only: the inode in memory keeps the time of its last access.
                atime: now,
                mtime: now,
                ctime: now,
                offset: at,
                packed: packed.bytes.len() as u32,
                unpacked: packed.unpacked,
                compression: packed.compression,
                ..inode.describe()
            };
            if self.options.known_bad.obsolete_first {
                let end = at + packed.unpacked;
                let is_covered = |(_, old): &(&u32, &DataNode)| old.offset >= at && old.offset + old.len <= end;
                let covered: Vec<u32> = self.inode(ino).nodes.iter().filter(is_covered).map(|(&id, _)| id).collect();
                for old in covered {
                    self.obsolete(cx, old)?;
                }
            }
            let id = self.put_inode(cx, &node, &packed.bytes, false)?;
            self.insert_data(cx, ino, id, &node)?;
            let inode = self.inode(ino);
            (inode.size, inode.mtime, inode.ctime) = (node.size, now, now);
            let from = at.max(offset);
            at += packed.unpacked;
            *reached = at.max(offset);
            // After each node: garbage collection between two of them writes the page as it is kept.
            self.pages.change(ino, from, &bytes[(from - offset) as usize..(*reached - offset) as usize]);
        }
        Ok(())
    }
}

/// The parts of a range of a file that lie in one page each.
fn pages(from: u32, end: u32) -> impl Iterator<Item = Range<u32>> {
    let pages = from / PAGE_BYTES..end.div_ceil(PAGE_BYTES);
    pages.map(move |page| from.max(page * PAGE_BYTES)..end.min((page + 1) * PAGE_BYTES))
}

/// Most bytes of a file in one node: Linux writes no more than a page, of up to 64 KiB.
const MOST_UNPACKED: u32 = 1 << 20;
