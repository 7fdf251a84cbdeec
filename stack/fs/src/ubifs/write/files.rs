//! Contents of files: blocks of 4 KiB, each a node of its own.
//!
//! Source: Linux 6.12 `fs/ubifs/file.c`, `journal.c` (behaviour).

use sim::Cx;
use sim::seam::{FsError, Held, Ino, LebVolume, PageState, Payload, ReadInto, SetAttr, Timestamp};

use super::budget::Request;
use super::{Result, Ubifs, UbifsError};
use crate::compress::Algorithm;
use crate::ubifs::media::{
    BLOCK_BYTES, Branch, Compression, DataNode, Group, ItemType, Key, MAX_BLOCK, TruncationNode, inode_flags,
};
use crate::ubifs::mount::cut_blocks;
use crate::ubifs::nodes::{BASE_HEAD, DATA_HEAD};
use crate::ubifs::read::read_data;

/// Shorter blocks are not compressed.
const LEAST_COMPRESSED: usize = 128;
/// Compression must gain this much.
const LEAST_GAIN: usize = 64;
/// Largest file.
const MAX_BYTES: u64 = (MAX_BLOCK as u64 + 1) * BLOCK_BYTES as u64;

/// What was promised has space.
fn without_space(error: UbifsError) -> UbifsError {
    match error {
        UbifsError::NoSpace => UbifsError::ReadOnly { why: "there is no space for what was promised" },
        other => other,
    }
}

/// What is promised for a page: with index nodes, if it may be new.
fn page_request(is_new: bool) -> Request {
    Request { new_page: is_new, changed_page: !is_new, ..Request::default() }
}

type FsResult<T> = std::result::Result<T, FsError>;

impl<V: LebVolume> Ubifs<V> {
    fn get_file(&mut self, cx: &mut Cx, ino: Ino) -> FsResult<u32> {
        let slot = self.get(cx, ino)?;
        match self.inodes.at(slot).item {
            ItemType::File => Ok(slot),
            ItemType::Dir => Err(FsError::IsDir { ino }),
            _ => Err(FsError::Invalid { why: "no regular file" }),
        }
    }

    pub(super) fn read_file(&mut self, cx: &mut Cx, ino: Ino, offset: u64, into: ReadInto<'_>) -> FsResult<u32> {
        let slot = self.get_file(cx, ino)?;
        let (ino, size) = (self.inodes.at(slot).ino, self.inodes.at(slot).size);
        let len = u64::from(into.len()).min(size.saturating_sub(offset));
        if len == 0 {
            return Ok(0);
        }
        let out = match into {
            ReadInto::Bytes(bytes) => &mut bytes[..len as usize],
            ReadInto::Length(_) => &mut [],
        };
        out.fill(0);
        let end = offset + len;
        let last = Key::data(ino, ((end - 1) / Self::BLOCK) as u32);
        let mut found = self.index.lower_bound(&mut self.nodes, cx, Key::data(ino, (offset / Self::BLOCK) as u32))?;
        while let Some((place, branch)) = found.filter(|(_, branch)| branch.key <= last) {
            let bytes = self.read_leaf(cx, &branch)?;
            let at = u64::from(branch.key.low()) * Self::BLOCK;
            let (from, to) = (at.max(offset), (at + u64::from(bytes)).min(end));
            if from < to && !out.is_empty() {
                let block = &self.block;
                let part = &block[(from - at) as usize..(to - at) as usize];
                out[(from - offset) as usize..(to - offset) as usize].copy_from_slice(part);
            }
            found = self.index.next(&mut self.nodes, cx, place)?;
        }
        Ok(len as u32)
    }

    /// Reads a data node into the beginning of `block`. Returns the length of the data.
    fn read_leaf(&mut self, cx: &mut Cx, branch: &Branch) -> Result<u32> {
        match V::keeps_bytes() {
            true => read_data(&mut self.nodes, &mut self.unpack, cx, branch, &mut self.block[..]),
            false => self.nodes.data_size(cx, branch),
        }
    }

    /// Reads a block into `block`, with zeroes after its data. Returns the length of the data; `None` of a hole.
    fn read_block(&mut self, cx: &mut Cx, ino: u32, number: u32) -> Result<Option<u32>> {
        let found = self.index.find(&mut self.nodes, cx, Key::data(ino, number))?;
        let len = found.map(|(_, branch)| self.read_leaf(cx, &branch)).transpose()?;
        if V::keeps_bytes() {
            self.block[len.unwrap_or(0) as usize..].fill(0);
        }
        Ok(len)
    }

    pub(super) fn write_file(&mut self, cx: &mut Cx, ino: Ino, offset: u64, data: Payload<'_>) -> FsResult<u32> {
        let slot = self.get_file(cx, ino)?;
        if data.is_empty() {
            return Ok(0);
        }
        if offset >= MAX_BYTES {
            return Err(FsError::FileTooBig { ino, bytes: offset });
        }
        let len = u64::from(data.len()).min(MAX_BYTES - offset);
        let data = data.part(0, len as u32);
        let is_sync = self.inodes.at(slot).is_sync();
        self.change(|fs| {
            // What has no space is not in the file: its space is promised before anything changes.
            let len = fs.reserve_blocks(cx, slot, offset, len)?;
            if !fs.is_as_before(cx, slot, offset + len)
                && let Err(error) = fs.dirty(cx, slot)
            {
                fs.release_blocks();
                return Err(error);
            }
            let now = fs.now(cx);
            let inode = fs.inodes.at_mut(slot);
            (inode.mtime, inode.ctime) = (now, now);
            if offset + len > inode.size {
                (inode.size, inode.size_is_dirty) = (offset + len, true);
            }
            fs.write_blocks(cx, slot, offset, data.part(0, len as u32))?;
            if is_sync && fs.inodes.at(slot).dirty_since.is_some() {
                fs.write_dirty_inode(cx, slot)?;
            }
            Ok(len as u32)
        })
    }

    /// A write that a cache above keeps: the file grows and its times move, and space is promised for a page that was not
    /// kept before. As Linux, it does not look for a page of which the cache has nothing: that counts as new.
    pub(super) fn promise_write(
        &mut self,
        cx: &mut Cx,
        ino: Ino,
        offset: u64,
        length: u32,
        page: PageState,
    ) -> FsResult<Held> {
        let slot = self.get_file(cx, ino)?;
        if offset >= MAX_BYTES {
            return Err(FsError::FileTooBig { ino, bytes: offset });
        }
        let length = u64::from(length).min(MAX_BYTES - offset);
        let number = (offset / Self::BLOCK) as u32;
        self.change(|fs| {
            fs.move_times(cx, slot)?;
            let is_new = fs.promise_page(cx, slot, (number, page), offset + length)?;
            let inode = fs.inodes.at_mut(slot);
            if offset + length > inode.size {
                (inode.size, inode.size_is_dirty) = (offset + length, true);
            }
            if page != PageState::Dirty {
                fs.budget.keeps_page();
            }
            Ok(Held { length: length as u32, is_new })
        })
    }

    /// A write begins: the times of the inode move, which needs space even if the inode is dirty already.
    fn move_times(&mut self, cx: &mut Cx, slot: u32) -> Result<()> {
        let (inode, now) = (self.inodes.at(slot), self.now(cx));
        if (inode.mtime, inode.ctime) == (now, now) {
            return Ok(());
        }
        if inode.dirty_since.is_some() {
            let request = inode.budget();
            self.reserve_budget(cx, &request)?;
            self.release_budget(&request);
        } else {
            self.dirty(cx, slot)?;
        }
        let inode = self.inodes.at_mut(slot);
        (inode.mtime, inode.ctime) = (now, now);
        // What may be made again from here on is what the page needs.
        self.budget.begin();
        Ok(())
    }

    /// Promises space for a page that is to be kept, and for the inode of a file that grows to `end`. If there is none at once, space is made
    /// for a new page, whatever it is. Returns whether the page counts as new.
    fn promise_page(&mut self, cx: &mut Cx, slot: u32, (number, page): (u32, PageState), end: u64) -> Result<bool> {
        let is_new = match page {
            PageState::Clean => !self.has_block(cx, self.inodes.at(slot).ino, number)?,
            PageState::Absent | PageState::Dirty => true,
        };
        let is_held = page == PageState::Dirty;
        let grows = end > self.inodes.at(slot).size;
        let of_inode = |fs: &Self| u32::from(grows && fs.inodes.at(slot).dirty_since.is_none());
        let request = if is_held { Request::default() } else { page_request(is_new) };
        if !self.promise_at_once(&Request { changed_inodes: of_inode(self), ..request }) {
            self.reserve_budget(cx, &Request { changed_inodes: grows.into(), ..page_request(true) })?;
            if is_held {
                self.release_budget(&page_request(true));
            } else if !is_new {
                self.promise_instead(&page_request(true), &page_request(false));
            }
            if grows && of_inode(self) == 0 {
                self.release_budget(&Request { changed_inodes: 1, ..Request::default() });
            }
        }
        if of_inode(self) == 1 {
            self.mark_dirty(cx, slot);
        }
        Ok(is_new)
    }

    fn has_block(&mut self, cx: &mut Cx, ino: u32, number: u32) -> Result<bool> {
        Ok(self.index.find(&mut self.nodes, cx, Key::data(ino, number))?.is_some())
    }

    /// Writes pages whose space was promised. The times stay. The promises are used up even where it fails.
    pub(super) fn write_promised(
        &mut self,
        cx: &mut Cx,
        ino: Ino,
        offset: u64,
        data: Payload<'_>,
        are_new: &[bool],
    ) -> FsResult<u32> {
        self.budget.loses_pages(are_new.len());
        self.promised.clear();
        self.promised.extend(are_new.iter().copied().map(page_request));
        let done = self.get_file(cx, ino).and_then(|slot| self.change(|fs| fs.write_blocks(cx, slot, offset, data)));
        if done.is_err() {
            self.release_blocks();
        }
        done.map(|()| data.len())
    }

    /// Pages whose space was promised will not be written.
    pub(super) fn drop_promises(&mut self, are_new: &[bool]) {
        self.budget.loses_pages(are_new.len());
        are_new.iter().for_each(|&is_new| self.release_budget(&page_request(is_new)));
    }

    /// Promises space for the blocks of a range, as far as there is any: block by block in `promised`. Returns how many
    /// bytes of the range have space.
    /// Errors: there is none for the first block; the medium's.
    fn reserve_blocks(&mut self, cx: &mut Cx, slot: u32, offset: u64, len: u64) -> Result<u64> {
        let ino = self.inodes.at(slot).ino;
        let end = offset + len;
        self.promised.clear();
        let mut at = offset;
        while at < end {
            let number = at / Self::BLOCK;
            let next = ((number + 1) * Self::BLOCK).min(end);
            // A whole block is not looked up: it counts as new.
            let is_new = next - at == Self::BLOCK || !self.has_block(cx, ino, number as u32)?;
            let request = page_request(is_new);
            match self.reserve_budget(cx, &request) {
                Ok(()) => self.promised.push(request),
                Err(UbifsError::NoSpace) if at > offset => break,
                Err(error) => {
                    self.release_blocks();
                    return Err(error);
                }
            }
            at = next;
        }
        Ok(at - offset)
    }

    /// Releases what is in `promised`.
    fn release_blocks(&mut self) {
        while let Some(request) = self.promised.pop() {
            self.release_budget(&request);
        }
    }

    /// Writes data block by block, whose space is in `promised`. Where it fails, all of that is released.
    fn write_blocks(&mut self, cx: &mut Cx, slot: u32, offset: u64, data: Payload<'_>) -> Result<()> {
        let end = offset + u64::from(data.len());
        let mut at = offset;
        for block in 0..self.promised.len() {
            let next = ((at / Self::BLOCK + 1) * Self::BLOCK).min(end);
            let part = data.part((at - offset) as u32, (next - at) as u32);
            if let Err(error) = self.write_part(cx, slot, at, part) {
                self.release_blocks();
                return Err(without_space(error));
            }
            let request = std::mem::take(&mut self.promised[block]);
            self.release_budget(&request);
            at = next;
        }
        Ok(())
    }

    /// Writes data that lie in one block.
    fn write_part(&mut self, cx: &mut Cx, slot: u32, offset: u64, data: Payload<'_>) -> Result<()> {
        let inode = self.inodes.at(slot);
        let (ino, size, synced_size) = (inode.ino, inode.size, inode.synced_size);
        let number = (offset / Self::BLOCK) as u32;
        let start = u64::from(number) * Self::BLOCK;
        let len = Self::BLOCK.min(size - start) as u32;
        // A page that is written back is all that the block has.
        if offset > start || data.len() < len {
            self.read_block(cx, ino, number)?;
        }
        if V::keeps_bytes() {
            let part = &mut self.block[(offset - start) as usize..][..data.len() as usize];
            match data {
                Payload::Bytes(bytes) => part.copy_from_slice(bytes),
                Payload::Length(_) => part.fill(0),
            }
        }
        if (start + Self::BLOCK).min(size) > synced_size && self.inodes.at(slot).dirty_since.is_some() {
            // The inode comes before the data that it does not know of.
            self.write_dirty_inode(cx, slot)?;
        }
        self.write_block(cx, slot, number, len)
    }

    /// Compresses the first `len` bytes of `block` into `node`, after the header. Returns how.
    fn pack_block(&mut self, slot: u32, len: u32, node: &mut Vec<u8>) -> Compression {
        let inode = self.inodes.at(slot);
        let wanted = if inode.flags & inode_flags::COMPRESSED != 0 { inode.compression } else { Compression::None };
        let algorithm = match wanted {
            Compression::None => None,
            Compression::Lzo => Some(Algorithm::Lzo),
            Compression::Zlib => Some(Algorithm::Deflate),
            Compression::Zstd => Some(Algorithm::Zstd),
        };
        node.clear();
        if !V::keeps_bytes() {
            node.resize(DataNode::HEADER_BYTES, 0);
            return Compression::None;
        }
        let data = &self.block[..len as usize];
        node.resize(DataNode::HEADER_BYTES + data.len(), 0);
        let out = &mut node[DataNode::HEADER_BYTES..];
        if let Some(algorithm) = algorithm.filter(|_| data.len() >= LEAST_COMPRESSED)
            && let Some(len) = self.pack.compress(algorithm, data, &mut out[..data.len() - LEAST_GAIN])
        {
            node.truncate(DataNode::HEADER_BYTES + len);
            return wanted;
        }
        out.copy_from_slice(data);
        Compression::None
    }

    /// Writes the first `size` bytes of `block`.
    fn write_block(&mut self, cx: &mut Cx, slot: u32, number: u32, size: u32) -> Result<()> {
        let mut node = std::mem::take(&mut self.packed);
        let compression = self.pack_block(slot, size, &mut node);
        let ino = self.inodes.at(slot).ino;
        let key = Key::data(ino, number);
        let len = if V::keeps_bytes() { node.len() } else { node.len() + size as usize };
        self.reserve(cx, DATA_HEAD, len)?;
        let sqnum = self.next_sqnum();
        if V::keeps_bytes() {
            DataNode::encode_around(key, size, compression, &mut node, Group::None, sqnum);
        } else {
            DataNode::encode_header(key, (size, len as u32), &mut node, Group::None, sqnum);
        }
        self.begin();
        self.batch.extend_from_slice(&node);
        self.packed = node;
        let place = self.append_data(cx, ino)?;
        self.index.put(&mut self.nodes, cx, place.branch(key, 0, len))?;
        self.settle();
        self.counters.data_nodes += 1;
        self.counters.data_bytes += u64::from(size);
        Ok(())
    }

    pub(super) fn set_attributes(&mut self, cx: &mut Cx, ino: Ino, change: &SetAttr) -> FsResult<u32> {
        let slot = self.get(cx, ino)?;
        if let Some(bytes) = change.size {
            self.get_file(cx, ino)?;
            if bytes > MAX_BYTES {
                return Err(FsError::FileTooBig { ino, bytes });
            }
        }
        let shrinks = change.size.is_some_and(|size| size < self.inodes.at(slot).size);
        self.change(|fs| {
            if shrinks {
                return fs.truncate(cx, slot, change);
            }
            fs.dirty(cx, slot)?;
            fs.apply(cx, slot, change);
            if fs.inodes.at(slot).is_sync() { fs.write_dirty_inode(cx, slot) } else { Ok(()) }
        })?;
        Ok(slot)
    }

    /// Changes an inode in memory.
    fn apply(&mut self, cx: &Cx, slot: u32, change: &SetAttr) {
        let now = self.now(cx);
        let gran = self.sb.time_gran;
        let time = |time: Timestamp| (time.seconds, time.nanos - time.nanos % gran);
        let inode = self.inodes.at_mut(slot);
        inode.ctime = now;
        if let Some(size) = change.size {
            inode.size_is_dirty |= size != inode.size;
            (inode.size, inode.mtime) = (size, now);
        }
        if let Some(mode) = change.mode {
            inode.mode = inode.mode & !0o7777 | mode & 0o7777;
        }
        inode.uid = change.uid.unwrap_or(inode.uid);
        inode.gid = change.gid.unwrap_or(inode.gid);
        inode.atime = change.atime.map_or(inode.atime, time);
        inode.mtime = change.mtime.map_or(inode.mtime, time);
        if let Some(flags) = change.flags {
            inode.flags = inode.flags & !super::seam::SETTABLE | super::seam::to_media(flags);
        }
    }

    /// Cuts a file. The last block is written again, if the cut goes through it.
    /// What a truncation needs.
    fn truncation_request(new_size: u64) -> Request {
        Request {
            changed_page: !new_size.is_multiple_of(Self::BLOCK),
            changed_inodes: 1,
            changed_inline: TruncationNode::BYTES as u32,
            ..Request::default()
        }
    }

    /// Truncates a file within a page whose space was promised, and of which `data` is left. The page comes first, so that the truncation
    /// finds a node of which nothing is to be cut.
    /// Errors: the page keeps its promise.
    pub(super) fn truncate_within(
        &mut self,
        cx: &mut Cx,
        ino: Ino,
        change: &SetAttr,
        data: Payload<'_>,
        is_new: bool,
    ) -> FsResult<u32> {
        let slot = self.get_file(cx, ino)?;
        let new_size = change.size.unwrap_or_default();
        let request = Self::truncation_request(new_size);
        self.change(|fs| {
            fs.reserve_budget(cx, &request)?;
            if let Payload::Bytes(bytes) = data {
                fs.block[..bytes.len()].copy_from_slice(bytes);
            }
            let done = fs
                .write_block(cx, slot, (new_size / Self::BLOCK) as u32, data.len())
                .and_then(|()| fs.write_truncation(cx, slot, change, new_size));
            fs.release_budget(&request);
            done.map_err(without_space)?;
            fs.drop_promises(&[is_new]);
            Ok(slot)
        })
    }

    fn truncate(&mut self, cx: &mut Cx, slot: u32, change: &SetAttr) -> Result<()> {
        let new_size = change.size.unwrap_or_default();
        let request = Self::truncation_request(new_size);
        match self.reserve_budget(cx, &request) {
            Ok(()) => {
                let done = self.write_truncation(cx, slot, change, new_size);
                self.release_budget(&request);
                done
            }
            Err(UbifsError::NoSpace) if new_size == 0 => {
                self.write_truncation(cx, slot, change, new_size)?;
                self.space_was_made();
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn write_truncation(&mut self, cx: &mut Cx, slot: u32, change: &SetAttr, new_size: u64) -> Result<()> {
        let inode = self.inodes.at(slot);
        let (ino, old_size, is_sync, inode_bytes) = (inode.ino, inode.size, inode.is_sync(), inode.node_bytes());
        let number = (new_size / Self::BLOCK) as u32;
        let rest = (new_size % Self::BLOCK) as u32;
        let mut node = std::mem::take(&mut self.packed);
        let mut last = None;
        if rest > 0 && self.read_block(cx, ino, number)?.is_some_and(|bytes| bytes > rest) {
            last = Some(self.pack_block(slot, rest, &mut node));
        }
        let data_bytes = match last {
            None => 0,
            Some(_) if V::keeps_bytes() => node.len(),
            Some(_) => node.len() + rest as usize,
        };
        self.reserve(cx, BASE_HEAD, inode_bytes.next_multiple_of(8) + TruncationNode::BYTES + data_bytes)?;
        self.apply(cx, slot, change);
        self.begin();
        let (inode_at, inode_len) = self.put_inode(slot, Group::In);
        let at = self.place(TruncationNode::BYTES);
        let sqnum = self.next_sqnum();
        let group = if last.is_some() { Group::In } else { Group::Last };
        TruncationNode { ino, old_size, new_size }.encode(&mut self.batch[at..], group, sqnum);
        let data_at = self.batch.len();
        let key = Key::data(ino, number.min(MAX_BLOCK));
        if let Some(compression) = last {
            let sqnum = self.next_sqnum();
            if V::keeps_bytes() {
                DataNode::encode_around(key, rest, compression, &mut node, Group::Last, sqnum);
            } else {
                DataNode::encode_header(key, (rest, data_bytes as u32), &mut node, Group::Last, sqnum);
            }
            self.batch.extend_from_slice(&node);
        }
        self.packed = node;
        let place = self.append(cx, BASE_HEAD, &[ino], is_sync)?;
        if last.is_some() {
            self.index.put(&mut self.nodes, cx, place.branch(key, data_at, data_bytes))?;
        }
        self.index.put(&mut self.nodes, cx, place.branch(Key::inode(ino), inode_at, inode_len))?;
        self.space.add_dirt(place.lnum, TruncationNode::BYTES as u32);
        if let Some(range) = cut_blocks(ino, old_size, new_size) {
            self.index.remove_range(&mut self.nodes, cx, range, |_| {})?;
        }
        self.settle();
        self.inode_was_written(slot);
        Ok(())
    }

    pub(super) fn sync_file(&mut self, cx: &mut Cx, ino: Ino, data_only: bool) -> FsResult<()> {
        let slot = self.get(cx, ino)?;
        self.change(|fs| {
            let inode = fs.inodes.at(slot);
            let number = inode.ino;
            if inode.dirty_since.is_some() && (!data_only || inode.size_is_dirty) {
                fs.write_dirty_inode(cx, slot)?;
            }
            for head in [BASE_HEAD, DATA_HEAD] {
                if fs.nodes.head(head).inos.contains(&number) && !fs.options.known_bad.skip_write_buffer {
                    cx.because(sim::Cause::Flush, |cx| fs.flush_head(cx, head))?;
                }
            }
            Ok(())
        })
    }
}
