//! Reads, writes and cuts of files.

use sim::Cx;
use sim::seam::{Attr, FileSystem, FsError, Held, Ino, PageState, Payload, ReadInto, SetAttr};

use super::inodes::Reader;
use super::pages::{Owner, PAGE};
use super::{PageCache, WriteBack};

const PAGE_BYTES: u64 = PAGE as u64;

/// Pages of the first window of read-ahead for a request of `request` pages. Source: Linux 6.1 `mm/readahead.c`
/// (behaviour), as the next.
fn first_window(request: u64, most: u64) -> u64 {
    let pages = request.next_power_of_two();
    if pages <= most / 32 {
        4 * pages
    } else if pages <= most / 4 {
        2 * pages
    } else {
        most
    }
}

/// Pages of the window after one of `pages`.
fn next_window(pages: u64, most: u64) -> u64 {
    if pages < most / 16 {
        4 * pages
    } else if pages <= most / 2 {
        2 * pages
    } else {
        most
    }
}

impl Reader {
    /// The page up to which is to be read when page `index` is not cached and `request` pages are wanted from there on,
    /// with read-ahead of at most `most` pages.
    fn miss(&mut self, index: u64, request: u64, most: u64) -> u64 {
        let (end, pages) = self.window;
        let pages = if most == 0 {
            return index + request;
        } else if index == end && pages > 0 {
            next_window(pages, most)
        } else if index == 0 || index == self.next || index + 1 == self.next {
            first_window(request, most)
        } else {
            return index + request;
        };
        let end = index + pages.max(request);
        self.window = (end, pages);
        end
    }
}

impl<F: FileSystem> PageCache<F> {
    /// The slot of an inode, which is asked for if it is not known.
    pub(super) fn slot(&mut self, cx: &mut Cx, ino: Ino) -> Result<u32, FsError> {
        match self.inodes.find(ino) {
            Some(slot) => Ok(slot),
            None => {
                let attr = self.inner.getattr(cx, ino)?;
                Ok(self.inodes.insert(&attr))
            }
        }
    }

    /// The slot of a regular file; `None` of anything else.
    fn file(&mut self, cx: &mut Cx, ino: Ino) -> Result<Option<u32>, FsError> {
        let slot = self.slot(cx, ino)?;
        if self.inodes.at(slot).is_regular {
            return Ok(Some(slot));
        }
        self.inodes.remove_if_idle(slot);
        Ok(None)
    }

    pub(super) fn read_file(
        &mut self,
        cx: &mut Cx,
        ino: Ino,
        offset: u64,
        mut into: ReadInto<'_>,
    ) -> Result<u32, FsError> {
        let Some(slot) = self.file(cx, ino)? else { return self.inner.read(cx, ino, offset, into) };
        let size = self.inodes.at(slot).size;
        let length = u64::from(into.len()).min(size.saturating_sub(offset));
        if length == 0 {
            self.inodes.remove_if_idle(slot);
            return Ok(0);
        }
        let end = offset + length;
        let (mut index, past) = (offset / PAGE_BYTES, end.div_ceil(PAGE_BYTES));
        let mut result = Ok(());
        while index < past {
            let done = match self.inodes.at(slot).table.get(index) {
                Some(page) => {
                    self.counters.hits += 1;
                    self.pages.touch(page);
                    if let Some(contents) = self.pages.contents(page) {
                        copy_out(contents, index, (offset, end), &mut into);
                    }
                    Ok(index + 1)
                }
                None => self.read_missing(cx, slot, index, past, (offset, end), &mut into),
            };
            match done {
                Ok(next) => index = next,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        self.inodes.at_mut(slot).reader.next = past;
        self.inodes.remove_if_idle(slot);
        match result {
            Err(error) if error.is_power_loss() || index * PAGE_BYTES <= offset => Err(error),
            Err(_) => Ok((index * PAGE_BYTES - offset) as u32),
            Ok(()) => Ok(length as u32),
        }
    }

    /// Reads what is not cached from `index` on, in one call: up to `past`, where the request ends, and ahead. Returns the
    /// page after it.
    fn read_missing(
        &mut self,
        cx: &mut Cx,
        slot: u32,
        index: u64,
        past: u64,
        range: (u64, u64),
        into: &mut ReadInto<'_>,
    ) -> Result<u64, FsError> {
        let inode = self.inodes.at_mut(slot);
        let wanted = inode.reader.miss(index, past - index, self.limits.read_ahead);
        let wanted = wanted.min(inode.size.div_ceil(PAGE_BYTES));
        let next = (index + 1..wanted).find(|&index| inode.table.get(index).is_some()).unwrap_or(wanted);
        self.counters.misses += next.min(past) - index;
        self.counters.read_ahead += next.saturating_sub(past.max(index));
        let mut buffer = std::mem::take(&mut self.buffer);
        let read = self.read_pages(cx, slot, index, next, &mut buffer);
        if read.is_ok() && self.keeps_bytes {
            for (contents, index) in buffer.chunks_exact(PAGE as usize).zip(index..next.min(past)) {
                copy_out(contents, index, range, into);
            }
        }
        self.buffer = buffer;
        read.map(|()| next.min(past))
    }

    /// Reads pages that are not cached into `buffer` and the cache.
    fn read_pages(
        &mut self,
        cx: &mut Cx,
        slot: u32,
        index: u64,
        next: u64,
        buffer: &mut Vec<u8>,
    ) -> Result<(), FsError> {
        let inode = self.inodes.at(slot);
        let (ino, begin) = (inode.ino, index * PAGE_BYTES);
        let length = u32::try_from((next * PAGE_BYTES).min(inode.size) - begin).expect("a read is below 4 GiB");
        buffer.clear();
        let wanted = if self.keeps_bytes {
            buffer.resize(((next - index) * PAGE_BYTES) as usize, 0);
            ReadInto::Bytes(&mut buffer[..length as usize])
        } else {
            ReadInto::Length(length)
        };
        self.inner.read(cx, ino, begin, wanted)?;
        self.counters.read += next - index;
        for at in index..next {
            let page = self.insert(cx, slot, at)?;
            if let Some(contents) = self.pages.contents_mut(page) {
                contents.copy_from_slice(&buffer[((at - index) * PAGE_BYTES) as usize..][..PAGE as usize]);
            }
        }
        Ok(())
    }

    /// Adds a clean page of zeroes.
    fn insert(&mut self, cx: &mut Cx, slot: u32, index: u64) -> Result<u32, FsError> {
        self.make_room(cx, slot)?;
        let page = self.pages.insert(Owner { inode: slot, index });
        self.inodes.at_mut(slot).table.insert(index, page);
        Ok(page)
    }

    pub(super) fn write_file(&mut self, cx: &mut Cx, ino: Ino, offset: u64, data: Payload<'_>) -> Result<u32, FsError> {
        if data.is_empty() {
            return self.inner.write(cx, ino, offset, data);
        }
        let Some(slot) = self.file(cx, ino)? else { return self.inner.write(cx, ino, offset, data) };
        let mut done = 0;
        let mut result = Ok(());
        while done < data.len() {
            let at = offset.saturating_add(done.into());
            let part = (PAGE - (at % PAGE_BYTES) as u32).min(data.len() - done);
            let written = self.write_part(cx, slot, at, data.part(done, part)).and_then(|written| {
                self.balance(cx)?;
                Ok(written)
            });
            match written {
                Ok(written) => done += written,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
            if written != Ok(part) {
                break;
            }
        }
        let is_sync = self.inodes.at(slot).is_sync;
        self.inodes.remove_if_idle(slot);
        match result {
            Err(error) if done == 0 || error.is_power_loss() => return Err(error),
            _ if is_sync => self.fsync_file(cx, ino, true)?,
            _ => {}
        }
        Ok(done)
    }

    /// Writes what lies in one page. Returns how much was written.
    fn write_part(&mut self, cx: &mut Cx, slot: u32, offset: u64, data: Payload<'_>) -> Result<u32, FsError> {
        let index = offset / PAGE_BYTES;
        let inode = self.inodes.at(slot);
        let (ino, size) = (inode.ino, inode.size);
        let mut page = inode.table.get(index);
        if page.is_none() && data.len() < PAGE && index * PAGE_BYTES < size {
            let mut buffer = std::mem::take(&mut self.buffer);
            let read = self.read_pages(cx, slot, index, index + 1, &mut buffer);
            self.buffer = buffer;
            read?;
            self.counters.read_to_write += 1;
            page = self.inodes.at(slot).table.get(index);
        }
        let (state, Held { length: written, is_new }) = self.with_space_keeping(cx, Some(slot), |cache, cx| {
            // A page that was written for space is clean now.
            let state = match page {
                None => PageState::Absent,
                Some(_) if cache.inodes.at(slot).table.is_dirty(index) => PageState::Dirty,
                Some(_) => PageState::Clean,
            };
            Ok((state, cache.inner.hold_back(cx, ino, offset, data.len(), state)?))
        })?;
        let inode = self.inodes.at_mut(slot);
        inode.size = size.max(offset + u64::from(written));
        if written == 0 {
            return Ok(0);
        }
        let page = match page {
            Some(page) => page,
            None => self.insert(cx, slot, index)?,
        };
        self.pages.touch(page);
        if let Some(contents) = self.pages.contents_mut(page) {
            let inside = &mut contents[(offset % PAGE_BYTES) as usize..][..written as usize];
            match data {
                Payload::Bytes(bytes) => inside.copy_from_slice(&bytes[..written as usize]),
                Payload::Length(_) => inside.fill(0),
            }
        }
        if state != PageState::Dirty {
            self.inodes.at_mut(slot).table.set_dirty(index, is_new);
            self.pages.set_dirty(page);
            self.dirty += 1;
            self.queue(slot, cx.now());
        }
        Ok(written)
    }

    /// The file has another size, which the inner file system knows already.
    pub(super) fn resize(&mut self, cx: &mut Cx, slot: u32, size: u64) -> Result<(), FsError> {
        let old = std::mem::replace(&mut self.inodes.at_mut(slot).size, size);
        if size >= old {
            return Ok(());
        }
        self.drop_pages(slot, size.div_ceil(PAGE_BYTES), u64::MAX);
        self.clear(slot, size, size.next_multiple_of(PAGE_BYTES));
        let last = size / PAGE_BYTES;
        if !size.is_multiple_of(PAGE_BYTES) && self.inodes.at(slot).table.is_dirty(last) {
            self.write_run(cx, slot, last, 1, WriteBack::Truncate)?;
        }
        self.inodes.remove_if_idle(slot);
        Ok(())
    }

    /// Changes an inode, and writes the page in which that cuts it. `None` if there is no such page that is dirty, or the inner file system
    /// leaves it to the cache.
    pub(super) fn cut_dirty_page(&mut self, cx: &mut Cx, ino: Ino, change: &SetAttr) -> Result<Option<Attr>, FsError> {
        let (Some(size), Some(slot)) = (change.size, self.inodes.find(ino)) else { return Ok(None) };
        let (inode, index) = (self.inodes.at(slot), size / PAGE_BYTES);
        let Some(page) = inode
            .table
            .get(index)
            .filter(|_| size < inode.size && !size.is_multiple_of(PAGE_BYTES) && inode.table.is_dirty(index))
        else {
            return Ok(None);
        };
        let length = (size % PAGE_BYTES) as u32;
        let data = match self.pages.contents(page) {
            Some(contents) => Payload::Bytes(&contents[..length as usize]),
            None => Payload::Length(length),
        };
        let done = self.inner.cut_within_page(cx, ino, change, data, inode.table.is_new(index))?;
        if done.is_some() {
            self.inodes.at_mut(slot).table.set_clean(index);
            self.pages.set_clean(page);
            self.dirty -= 1;
            self.counters.calls += 1;
            self.counters.written.0[WriteBack::Truncate as usize] += 1;
            self.share.add(cx.now(), 1);
        }
        Ok(done)
    }

    /// A range of a file is a hole, as the inner file system knows already.
    pub(super) fn punch(&mut self, slot: u32, from: u64, to: u64) {
        let (first, past) = (from.div_ceil(PAGE_BYTES), to / PAGE_BYTES);
        if first <= past {
            self.drop_pages(slot, first, past);
            self.clear(slot, from, first * PAGE_BYTES);
            self.clear(slot, past * PAGE_BYTES, to);
        } else {
            self.clear(slot, from, to);
        }
    }

    /// Lets a range within a page be zero, if it is cached.
    fn clear(&mut self, slot: u32, from: u64, to: u64) {
        let index = from / PAGE_BYTES;
        if from < to
            && let Some(page) = self.inodes.at(slot).table.get(index)
            && let Some(contents) = self.pages.contents_mut(page)
        {
            contents[(from - index * PAGE_BYTES) as usize..(to - index * PAGE_BYTES) as usize].fill(0);
        }
    }

    /// Drops the pages from `from` to `to`, which is not included, written or not.
    pub(super) fn drop_pages(&mut self, slot: u32, from: u64, to: u64) {
        let inode = self.inodes.at_mut(slot);
        self.are_new.clear();
        while let Some(taken) = inode.table.take(from, to) {
            self.pages.remove(taken.slot);
            if taken.is_dirty {
                self.are_new.push(taken.is_new);
            }
        }
        let dirty = self.are_new.len() as u64;
        if dirty > 0 {
            self.dirty -= dirty;
            self.counters.dropped += dirty;
            self.inner.let_go(inode.ino, &self.are_new);
        }
    }

    /// Drops the clean pages of a file.
    pub(super) fn drop_clean_pages(&mut self, slot: u32) {
        let mut to = u64::MAX;
        while let Some(index) = self.inodes.at(slot).table.last_clean(to) {
            self.drop_pages(slot, index, index + 1);
            to = index;
        }
        self.inodes.remove_if_idle(slot);
    }

    /// The inode is gone.
    pub(super) fn forget(&mut self, slot: u32) {
        self.drop_pages(slot, 0, u64::MAX);
        self.inodes.remove(slot);
    }

    pub(super) fn fsync_file(&mut self, cx: &mut Cx, ino: Ino, data_only: bool) -> Result<(), FsError> {
        if let Some(slot) = self.inodes.find(ino) {
            self.write_pages(cx, slot, WriteBack::Fsync)?;
            if let Some(error) = self.inodes.at_mut(slot).error.take() {
                return Err(error);
            }
        }
        self.inner.fsync(cx, ino, data_only)
    }
}

/// Copies what a page has of a range of the file that is read.
fn copy_out(contents: &[u8], index: u64, (offset, end): (u64, u64), into: &mut ReadInto<'_>) {
    if let ReadInto::Bytes(bytes) = into {
        let begin = index * PAGE_BYTES;
        let (from, to) = (begin.max(offset), (begin + PAGE_BYTES).min(end));
        let inside = &contents[(from - begin) as usize..(to - begin) as usize];
        bytes[(from - offset) as usize..(to - offset) as usize].copy_from_slice(inside);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 128 KiB are 32 pages. A file that is read by pages: 4 pages first, then twice as many each time; a request of 8
    /// pages or more makes the first window the largest.
    #[test]
    fn windows_of_read_ahead_grow_as_linux_lets_them() {
        let mut reader = Reader::default();
        let mut ends = Vec::new();
        let mut index = 0;
        for _ in 0..6 {
            let end = reader.miss(index, 1, 32);
            ends.push(end - index);
            (index, reader.next) = (end, end);
        }
        assert_eq!(ends, [4, 8, 16, 32, 32, 32]);
        assert_eq!([1, 2, 3, 8, 9, 40].map(|request| first_window(request, 32)), [4, 4, 8, 16, 32, 32]);
        // 2 MiB: a window below a 16th of the largest grows fourfold.
        assert_eq!([16, 31, 32, 256, 257].map(|pages| next_window(pages, 512)), [64, 124, 64, 512, 512]);
    }

    #[test]
    fn only_reads_in_sequence_read_ahead() {
        let mut reader = Reader::default();
        assert_eq!(reader.miss(100, 1, 32), 101);
        reader.next = 101;
        assert_eq!(reader.miss(500, 2, 32), 502);
        reader.next = 502;
        assert_eq!(reader.miss(502, 1, 32), 506);
        assert_eq!(reader.miss(506, 1, 0), 507);
        // A read that begins in the page in which the last one ended.
        let mut reader = Reader { next: 101, ..Reader::default() };
        assert_eq!(reader.miss(100, 1, 32), 104);
    }
}
