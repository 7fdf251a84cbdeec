//! Write-back: the flusher's turns, and what others write.

use sim::seam::{FileSystem, FsError, Payload};
use sim::{Cx, Ns};

use super::inodes::{Entry, List};
use super::pages::{Owner, PAGE};
use super::{Counters, PageCache};

/// Pages that are written at least where the file system below wants space. Source: Linux 6.12 `fs/ubifs/budget.c` (`NR_TO_WRITE`).
const FOR_SPACE: u64 = 16;

/// After this time of writing the flusher looks again whether it is to go on.
const SLICE: Ns = Ns(100_000_000);

/// Why pages are written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum WriteBack {
    /// More than the background limit was dirty.
    Background,
    /// They were dirty for long.
    Periodic,
    /// `fsync`, and writes to an inode with the flag `SYNC`.
    Fsync,
    /// `sync`.
    Sync,
    /// A writer that reached the limit waited for them.
    Limit,
    /// Memory was full of dirty pages.
    Eviction,
    /// A file was cut in the middle of them.
    Truncate,
    /// The file system below had no space left for something else, but promised more to them than they take.
    Space,
}

impl WriteBack {
    /// Every reason.
    pub const ALL: [WriteBack; 8] = [
        WriteBack::Background,
        WriteBack::Periodic,
        WriteBack::Fsync,
        WriteBack::Sync,
        WriteBack::Limit,
        WriteBack::Eviction,
        WriteBack::Truncate,
        WriteBack::Space,
    ];

    /// Name in results.
    pub const fn name(self) -> &'static str {
        match self {
            WriteBack::Background => "background",
            WriteBack::Periodic => "periodic",
            WriteBack::Fsync => "fsync",
            WriteBack::Sync => "sync",
            WriteBack::Limit => "limit",
            WriteBack::Eviction => "eviction",
            WriteBack::Truncate => "truncate",
            WriteBack::Space => "space",
        }
    }
}

/// What the flusher is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// Writes what is old, and at most so many pages.
    Periodic(u64),
    /// Writes until little enough is dirty.
    Background,
}

/// The inode that is being written.
#[derive(Clone, Copy, Debug)]
struct Turn {
    entry: Entry,
    /// Pages that it may still write.
    left: u64,
    /// Where it goes on.
    next: u64,
}

/// What the flusher has done since it looked whether it is to go on.
#[derive(Clone, Copy, Debug)]
struct Slice {
    began: Ns,
    has_progress: bool,
}

/// The flusher.
#[derive(Clone, Debug, Default)]
pub(super) struct Flusher {
    work: Option<Work>,
    slice: Option<Slice>,
    turn: Option<Turn>,
    /// When the next step is due.
    due: Option<Ns>,
    /// When it last looked for what is old, or zero, as if the file system was mounted when virtual time began.
    last_periodic: Ns,
}

impl<F: FileSystem> PageCache<F> {
    /// When [`wake`](Self::wake) has something to do. The inner file system has times of its own.
    pub fn next_wake(&self) -> Option<Ns> {
        self.flusher.due
    }

    /// One step of the flusher: what it has to write next that lies together. `cx` is its clock, which is set forward to
    /// [`next_wake`](Self::next_wake).
    /// Errors: loss of power. Other failures wait for `fsync` and `sync`.
    pub fn wake(&mut self, cx: &mut Cx) -> Result<(), FsError> {
        let Some(due) = self.flusher.due else { return Ok(()) };
        cx.wait_until(due);
        if self.flusher.work.is_none() {
            self.begin_work(cx.now());
        }
        self.step(cx, None)
    }

    /// An inode has dirty pages.
    pub(super) fn queue(&mut self, slot: u32, now: Ns) {
        if self.inodes.at(slot).queued.is_some() {
            return;
        }
        self.inodes.queue(slot, List::Dirty, now);
        if self.flusher.work.is_none() && self.flusher.due.is_none() {
            self.sleep(now);
        }
    }

    /// Wakes the flusher if much is dirty, and lets a writer wait if too much is.
    pub(super) fn balance(&mut self, cx: &mut Cx) -> Result<(), FsError> {
        if self.dirty > self.limits.background && self.flusher.work.is_none() {
            self.flusher.due = Some(self.flusher.due.map_or(cx.now(), |due| due.min(cx.now())));
        }
        while self.dirty >= self.limits.dirty {
            if self.flusher.work.is_none() {
                self.begin_work(cx.now());
            }
            self.step(cx, Some(WriteBack::Limit))?;
        }
        Ok(())
    }

    /// Linux 6.12 `wb_over_bg_thresh`.
    fn is_over_background(&mut self, now: Ns) -> bool {
        self.dirty > self.share.of(now, self.limits.background)
    }

    /// The flusher wakes again after an interval, if there is anything to be written.
    fn sleep(&mut self, now: Ns) {
        let interval = self.config.writeback_interval;
        let sleeps = interval > Ns::ZERO && self.inodes.queued() > 0;
        self.flusher.due = sleeps.then(|| now + interval);
    }

    /// Looks first for what is old, if it is time, and then whether much is dirty.
    fn begin_work(&mut self, now: Ns) {
        let interval = self.config.writeback_interval;
        let is_time = interval > Ns::ZERO && now >= self.flusher.last_periodic + interval;
        if is_time {
            self.flusher.last_periodic = now;
        }
        self.flusher.slice = None;
        self.flusher.work = if is_time && self.inodes.queued() > 0 {
            Some(Work::Periodic(self.dirty + self.inodes.queued()))
        } else {
            self.is_over_background(now).then_some(Work::Background)
        };
        match self.flusher.work {
            Some(_) => self.flusher.due = Some(now),
            None => self.sleep(now),
        }
    }

    /// The flusher has done what someone asked of it, and then looks for more at once, as when it wakes by itself. Its next interval
    /// begins.
    fn look_for_more(&mut self, cx: &mut Cx) -> Result<(), FsError> {
        if self.flusher.work.is_none() {
            self.begin_work(cx.now());
            while self.flusher.work.is_some() {
                self.step(cx, None)?;
            }
        }
        Ok(())
    }

    fn end_work(&mut self, now: Ns) {
        let was_periodic = matches!(self.flusher.work.take(), Some(Work::Periodic(_)));
        self.flusher.slice = None;
        if was_periodic && self.is_over_background(now) {
            self.flusher.work = Some(Work::Background);
        } else {
            self.sleep(now);
        }
    }

    /// Writes one run of pages, or finds that there is nothing more to do. A writer that waits is the `reason` then.
    fn step(&mut self, cx: &mut Cx, reason: Option<WriteBack>) -> Result<(), FsError> {
        while let Some(work) = self.flusher.work {
            let Some(turn) = self.flusher.turn.filter(|turn| self.inodes.is_valid(turn.entry)) else {
                self.flusher.turn = None;
                self.next_turn(cx.now(), work);
                continue;
            };
            let most = turn.left.min(self.limits.run);
            let run = self.inodes.at(turn.entry.slot).table.dirty_run(turn.next, most);
            let Some((first, pages)) = run.filter(|_| turn.left > 0) else {
                self.end_turn(cx, turn)?;
                continue;
            };
            let reason = reason.unwrap_or(match work {
                Work::Background => WriteBack::Background,
                Work::Periodic(_) => WriteBack::Periodic,
            });
            self.write_run(cx, turn.entry.slot, first, pages, reason)?;
            let next = first + pages;
            self.flusher.turn = Some(Turn { left: turn.left - pages, next, ..turn });
            if let Some(Work::Periodic(pages_left)) = &mut self.flusher.work {
                *pages_left = pages_left.saturating_sub(pages);
            }
            if let Some(slice) = &mut self.flusher.slice {
                slice.has_progress = true;
            }
            self.flusher.due = Some(cx.now());
            return Ok(());
        }
        Ok(())
    }

    /// Begins to write the next inode, or ends the work.
    fn next_turn(&mut self, now: Ns, work: Work) {
        let is_used_up = matches!(work, Work::Periodic(0));
        let goes_on = self.flusher.slice.filter(|slice| {
            !(slice.has_progress && (is_used_up || now > slice.began + SLICE)) && self.inodes.first(List::Io).is_some()
        });
        if goes_on.is_none() {
            let is_stuck = self.flusher.slice.is_some_and(|slice| !slice.has_progress);
            if is_stuck || is_used_up || work == Work::Background && !self.is_over_background(now) {
                return self.end_work(now);
            }
            if self.inodes.first(List::Io).is_none() {
                match work {
                    Work::Background => self.inodes.refill(None),
                    // What became dirty when virtual time began is not old before it has expired.
                    Work::Periodic(_) => match now.0.checked_sub(self.config.expire.0) {
                        Some(before) => self.inodes.refill(Some(Ns(before))),
                        None => return self.end_work(now),
                    },
                }
            }
            self.flusher.slice = Some(Slice { began: now, has_progress: false });
        }
        match self.inodes.first(List::Io) {
            None => self.end_work(now),
            Some(entry) => {
                let next = self.inodes.at(entry.slot).cursor;
                self.flusher.turn = Some(Turn { entry, left: self.limits.chunk, next });
            }
        }
    }

    /// The inode itself follows its pages. One that is clean leaves the lists; one that has more to write comes again soon if it had
    /// its share, and later if what is left lies before the page where it began.
    fn end_turn(&mut self, cx: &mut Cx, turn: Turn) -> Result<(), FsError> {
        self.flusher.turn = None;
        self.write_node(cx, turn.entry.slot)?;
        let slot = turn.entry.slot;
        self.inodes.at_mut(slot).cursor = if turn.left > 0 { 0 } else { turn.next };
        if self.inodes.at(slot).table.dirty() == 0 {
            self.inodes.unqueue(slot);
            self.inodes.remove_if_idle(slot);
            if let Some(slice) = &mut self.flusher.slice {
                slice.has_progress = true;
            }
        } else if turn.left == 0 {
            self.inodes.queue(slot, List::MoreIo, turn.entry.since);
        } else {
            let is_before = self.inodes.last_since(List::Dirty).is_some_and(|last| turn.entry.since < last);
            self.inodes.queue(slot, List::Dirty, if is_before { cx.now() } else { turn.entry.since });
        }
        Ok(())
    }

    /// Inodes that became dirty in the inner file system have their turn, too.
    fn queue_dirtied(&mut self, cx: &mut Cx) {
        while let Some(ino) = self.inner.next_dirtied() {
            // One that is gone already needs none.
            if let Ok(slot) = self.slot(cx, ino) {
                self.queue(slot, cx.now());
            }
        }
    }

    /// Writes the inode itself.
    fn write_node(&mut self, cx: &mut Cx, slot: u32) -> Result<(), FsError> {
        let ino = self.inodes.at(slot).ino;
        self.inner.write_inode(cx, ino).or_else(|error| self.keep_error(slot, error))
    }

    /// What failed is reported by `fsync` and `sync`.
    /// Errors: loss of power.
    fn keep_error(&mut self, slot: u32, error: FsError) -> Result<(), FsError> {
        if error.is_power_loss() {
            return Err(error);
        }
        self.inodes.at_mut(slot).error = Some(error.clone());
        self.error = Some(error);
        Ok(())
    }

    /// Writes an inode whose turn has come, with every dirty page.
    fn write_inode(&mut self, cx: &mut Cx, slot: u32, reason: WriteBack) -> Result<(), FsError> {
        self.write_pages(cx, slot, reason)?;
        self.write_node(cx, slot)
    }

    /// Writes every dirty page of an inode, in the order of offsets.
    pub(super) fn write_pages(&mut self, cx: &mut Cx, slot: u32, reason: WriteBack) -> Result<(), FsError> {
        let mut next = 0;
        while let Some((first, pages)) = self.inodes.at(slot).table.dirty_run(next, self.limits.run) {
            self.write_run(cx, slot, first, pages, reason)?;
            next = first + pages;
        }
        Ok(())
    }

    /// Runs a call of the inner file system. Where that lacks space, and wants pages to be written first, it is run again after that.
    pub(super) fn with_space<T>(
        &mut self,
        cx: &mut Cx,
        call: impl FnMut(&mut Self, &mut Cx) -> Result<T, FsError>,
    ) -> Result<T, FsError> {
        self.with_space_keeping(cx, None, call)
    }

    /// The same. The inode `keep` stays known.
    pub(super) fn with_space_keeping<T>(
        &mut self,
        cx: &mut Cx,
        keep: Option<u32>,
        mut call: impl FnMut(&mut Self, &mut Cx) -> Result<T, FsError>,
    ) -> Result<T, FsError> {
        loop {
            let done = call(self, cx);
            self.queue_dirtied(cx);
            match done {
                Err(FsError::NoSpace) if self.dirty > 0 && self.inner.wants_write_back() => {
                    self.inodes.keep(keep);
                    let written = self.write_for_space(cx).and_then(|()| self.look_for_more(cx));
                    self.inodes.keep(None);
                    written?;
                }
                done => return done,
            }
        }
    }

    /// Writes whole inodes until 16 pages are written: those first whose turn has come.
    fn write_for_space(&mut self, cx: &mut Cx) -> Result<(), FsError> {
        let before = self.dirty;
        while before - self.dirty < FOR_SPACE {
            if self.inodes.first(List::Io).is_none() {
                self.inodes.refill(None);
            }
            let Some(entry) = self.inodes.first(List::Io) else { break };
            self.write_inode(cx, entry.slot, WriteBack::Space)?;
            self.inodes.unqueue(entry.slot);
            self.inodes.remove_if_idle(entry.slot);
        }
        Ok(())
    }

    /// Writes every inode, those first whose turn has come.
    pub(super) fn write_all(&mut self, cx: &mut Cx) -> Result<(), FsError> {
        if self.inodes.queued() == 0 {
            return Ok(());
        }
        for list in [List::Io, List::MoreIo, List::Dirty] {
            while let Some(entry) = self.inodes.first(list) {
                self.write_inode(cx, entry.slot, WriteBack::Sync)?;
                self.inodes.unqueue(entry.slot);
                self.inodes.remove_if_idle(entry.slot);
            }
        }
        self.look_for_more(cx)
    }

    /// Makes room for a page: drops the clean one that was used longest ago; if there is none, writes first.
    /// The inode `keep` stays known.
    pub(super) fn make_room(&mut self, cx: &mut Cx, keep: u32) -> Result<(), FsError> {
        while self.pages.len() >= self.limits.memory {
            if let Some(Owner { inode, index }) = self.pages.oldest() {
                self.drop_pages(inode, index, index + 1);
                if inode != keep {
                    self.inodes.remove_if_idle(inode);
                }
                self.counters.evicted += 1;
                continue;
            }
            let lists = [List::Io, List::MoreIo, List::Dirty];
            let entry = lists.into_iter().find_map(|list| self.inodes.first(list)).expect("dirty pages have an inode");
            match self.inodes.at(entry.slot).table.dirty_run(0, self.limits.run) {
                Some((first, pages)) => self.write_run(cx, entry.slot, first, pages, WriteBack::Eviction)?,
                None => {
                    self.write_node(cx, entry.slot)?;
                    self.inodes.unqueue(entry.slot);
                    if entry.slot != keep {
                        self.inodes.remove_if_idle(entry.slot);
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes dirty pages that lie together. They are clean afterwards, even if that failed.
    /// Errors: loss of power.
    pub(super) fn write_run(
        &mut self,
        cx: &mut Cx,
        slot: u32,
        first: u64,
        pages: u64,
        reason: WriteBack,
    ) -> Result<(), FsError> {
        let inode = self.inodes.at(slot);
        let (ino, size) = (inode.ino, inode.size);
        let begin = first * u64::from(PAGE);
        let end = (begin + pages * u64::from(PAGE)).min(size);
        let length = u32::try_from(end - begin).expect("a run is below 4 GiB");
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        self.are_new.clear();
        self.are_new.extend((first..first + pages).map(|index| inode.table.is_new(index)));
        for index in first..first + pages {
            let page = inode.table.get(index).expect("a dirty page is cached");
            if let Some(contents) = self.pages.contents(page) {
                buffer.extend_from_slice(contents);
            }
        }
        let data = if self.keeps_bytes { Payload::Bytes(&buffer[..length as usize]) } else { Payload::Length(length) };
        let mut failed = 0;
        let (inner, counters) = (&mut self.inner, &mut self.counters);
        let (written, result) = write_whole(inner, counters, cx, (ino, begin), data, &self.are_new);
        self.buffer = buffer;
        if let Err(error) = result {
            self.keep_error(slot, error)?;
            failed = pages - u64::from(written / PAGE);
            self.counters.failed += failed;
        }
        for index in first..first + pages {
            let table = &mut self.inodes.at_mut(slot).table;
            table.set_clean(index);
            let page = table.get(index).expect("a dirty page is cached");
            self.pages.set_clean(page);
        }
        self.dirty -= pages;
        self.counters.written.0[reason as usize] += pages - failed;
        self.share.add(cx.now(), pages);
        Ok(())
    }
}

/// Writes all of `data`. Returns how many bytes were written, and why not all.
fn write_whole<F: FileSystem>(
    inner: &mut F,
    counters: &mut Counters,
    cx: &mut Cx,
    (ino, begin): (sim::seam::Ino, u64),
    data: Payload<'_>,
    are_new: &[bool],
) -> (u32, Result<(), FsError>) {
    let mut written = 0;
    while written < data.len() {
        counters.calls += 1;
        let (part, are_new) = (data.part(written, data.len() - written), &are_new[(written / PAGE) as usize..]);
        match inner.write_back(cx, ino, begin + u64::from(written), part, are_new) {
            Ok(0) => {
                inner.let_go(ino, are_new);
                return (written, Err(FsError::NoSpace));
            }
            Ok(bytes) => written += bytes,
            Err(error) => return (written, Err(error)),
        }
    }
    (written, Ok(()))
}
