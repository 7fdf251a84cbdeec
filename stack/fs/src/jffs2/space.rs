//! Room for nodes: how much must stay free, who may take it, and when garbage is collected.
//! Source: Linux 6.12, `fs/jffs2/nodemgmt.c` and `jffs2_calc_trigger_levels`.

use sim::seam::{Flash, FlashError, FsError};
use sim::{Cause, Cx};

use super::blocks::{Blocks, List, Obsoleting, Owner, Sizes, is_dirty};
use super::collect::Pass;
use super::error::{Jffs2Error, Result};
use super::media::{self, SUMMARY_FRAME, padded};
use super::{Collected, Jffs2};

/// Erasures that may fail before a block of NAND is bad.
const MOST_FAILURES: u32 = 2;

/// Thresholds, in eraseblocks unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    /// Kept free for deletions.
    pub deletion: u32,
    /// Kept free from writes.
    pub write: u32,
    /// With fewer free ones the thread collects garbage.
    pub trigger: u32,
    /// With more free ones the nodes of a page are merged when one of them is collected.
    pub merge: u32,
    /// With so many very dirty ones the thread collects garbage.
    pub very_dirty: u32,
    /// With fewer obsolete bytes than this nothing is collected, and space is out.
    pub least_dirt: u32,
}

impl Levels {
    /// Of a flash. `marks`: nodes become obsolete on flash.
    pub(super) fn of(blocks: &Blocks, marks: bool) -> Levels {
        let (count, block) = (blocks.blocks.len() as u32, blocks.block_bytes);
        let lost = blocks.bytes() / 50 + count * 100;
        let write = 2 + lost.div_ceil(block);
        let trigger = write + 1;
        Levels {
            deletion: 2,
            write,
            trigger,
            merge: 3,
            very_dirty: if marks { 10 * trigger } else { trigger },
            least_dirt: block + blocks.bytes() / 100,
        }
    }
}

/// What room is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A write, which leaves room for deletions.
    Write,
    /// A deletion, which is nearly always allowed.
    Deletion,
}

/// A node that is to be written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// Bytes that it needs at least.
    pub bytes: u32,
    /// Bytes of its entry in a summary.
    pub in_summary: u32,
}

impl Wanted {
    pub fn inode(bytes: usize) -> Wanted {
        Wanted { bytes: padded(bytes as u32), in_summary: 18 }
    }

    pub fn dirent(name: &[u8]) -> Wanted {
        let bytes = media::DirentNode::BYTES + name.len();
        Wanted { bytes: padded(bytes as u32), in_summary: 24 + name.len() as u32 }
    }

    pub fn xattr(bytes: usize) -> Wanted {
        Wanted { bytes: padded(bytes as u32), in_summary: 18 }
    }

    pub fn xref() -> Wanted {
        Wanted { bytes: media::XrefNode::BYTES as u32, in_summary: 6 }
    }
}

impl<F: Flash> Jffs2<F> {
    /// The flash failed in the middle of a change: nothing is written any more.
    pub(super) fn fail(&mut self, error: FlashError) -> Jffs2Error {
        if error != FlashError::PowerLost {
            self.broken = Some("the flash failed");
        }
        Jffs2Error::Flash(error)
    }

    /// Errors: mounted for reading only, or made so by an error.
    pub(super) fn may_write(&self) -> Result<()> {
        let why = if self.options.read_only { Some("it is mounted for reading only") } else { self.broken };
        why.map_or(Ok(()), |why| Err(FsError::ReadOnly { why }.into()))
    }

    /// Bytes that are obsolete, and not in blocks that are to be erased.
    fn dirt(&self) -> i64 {
        let Sizes { dirty, .. } = self.blocks.totals;
        let erasing = i64::from(self.blocks.erasing) * i64::from(self.blocks.block_bytes);
        i64::from(dirty) + i64::from(self.blocks.erasing_bytes) - erasing
    }

    /// Makes room for a node in the block that is written. Returns how many bytes there are.
    /// Errors: no space, for which garbage was collected as far as that is of use; the flash's.
    pub(super) fn reserve(&mut self, cx: &mut Cx, wanted: Wanted, purpose: Purpose) -> Result<u32> {
        self.may_write()?;
        self.complete();
        let room = self.make_room(cx, wanted, purpose)?;
        self.counters.reserved += 1;
        self.is_reserved = true;
        Ok(room)
    }

    fn make_room(&mut self, cx: &mut Cx, wanted: Wanted, purpose: Purpose) -> Result<u32> {
        loop {
            self.make_free(cx, purpose)?;
            if let Some(room) = self.try_reserve(cx, wanted)? {
                return Ok(room);
            }
        }
    }

    /// What room was made for is written: the thread gets a signal if it has work now.
    /// Source: Linux 6.12, `jffs2_complete_reservation`.
    pub(super) fn complete(&mut self) {
        if std::mem::take(&mut self.is_reserved) && self.has_work() {
            self.signals += 1;
        }
    }

    /// How many signals were sent to the thread since this was last asked: with each change that left work for it, and with a block that
    /// is to be erased, or was erased. One ends the thread's sleep; another one that comes while the thread waits for its turn makes it
    /// do a pass more.
    /// Source: Linux 6.12, the callers of `jffs2_garbage_collect_trigger`.
    pub fn take_signals(&mut self) -> u32 {
        self.complete();
        let to_erase = u32::from(std::mem::take(&mut self.blocks.is_to_erase));
        std::mem::take(&mut self.signals).max(to_erase)
    }

    /// Makes sure that two nodes have room, for each of which it is reserved again: in the block that is written, or with a block more
    /// than a write must leave, or else together in another block.
    pub(super) fn make_room_for_two(&mut self, cx: &mut Cx, both: Wanted) -> Result<()> {
        self.may_write()?;
        self.make_free(cx, Purpose::Write)?;
        let fits = self.blocks.first(List::Next).is_some_and(|block| self.room(block, both).is_some());
        if fits || self.frees_one_more(cx)? { Ok(()) } else { self.make_room(cx, both, Purpose::Write).map(drop) }
    }

    /// Whether so little is obsolete that it is of no use to collect garbage.
    fn is_short(&self) -> bool {
        let Sizes { dirty, free, unchecked, .. } = self.blocks.totals;
        let all = u64::from(dirty) + u64::from(free) + u64::from(unchecked) + u64::from(self.blocks.erasing_bytes);
        self.dirt() + i64::from(unchecked) < i64::from(self.levels.least_dirt)
            || all / u64::from(self.blocks.block_bytes) <= u64::from(self.levels.write)
    }

    /// Collects garbage until as many blocks are free as a write must leave. A deletion may go on with fewer.
    fn make_free(&mut self, cx: &mut Cx, purpose: Purpose) -> Result<()> {
        while self.free_blocks() < self.levels.write {
            if self.is_short() {
                if purpose == Purpose::Deletion && self.free_blocks() >= self.levels.deletion {
                    break;
                }
                return Err(FsError::NoSpace.into());
            }
            self.counters.foreground += 1;
            match self.collect_pass(cx)? {
                Pass::Done | Pass::Again => {}
                Pass::NoSpace => return Err(FsError::NoSpace.into()),
            }
        }
        Ok(())
    }

    /// Collects garbage until one block more is free. False: there is too little of it.
    fn frees_one_more(&mut self, cx: &mut Cx) -> Result<bool> {
        while self.free_blocks() <= self.levels.write {
            if self.is_short() {
                return Ok(false);
            }
            self.counters.foreground += 1;
            if self.collect_pass(cx)? == Pass::NoSpace {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// As [`reserve`](Self::reserve), for garbage collection itself.
    pub(super) fn reserve_for_collection(&mut self, cx: &mut Cx, wanted: Wanted) -> Result<u32> {
        loop {
            if let Some(room) = self.try_reserve(cx, wanted)? {
                return Ok(room);
            }
        }
    }

    /// Room in the block that is written, or in another that becomes it. `None`: look again, for something was erased. In a fresh
    /// block Linux does not look whether a summary has room beside the node: a node may fill it, and then it gets none.
    fn try_reserve(&mut self, cx: &mut Cx, wanted: Wanted) -> Result<Option<u32>> {
        // Room for a summary is kept in a fresh block only if the one before was closed with one, just now.
        let mut has_summary = false;
        // Nothing is kept for one in a block that was just found to get none.
        let mut gets_none = false;
        loop {
            let Some(block) = self.blocks.first(List::Next) else {
                let Some(free) = self.open_block(cx, wanted)? else { return Ok(None) };
                let kept = if has_summary { padded(wanted.in_summary + SUMMARY_FRAME) } else { 0 };
                return Ok(Some(free.saturating_sub(kept)));
            };
            let free = self.blocks.at(block).sizes.free;
            let room = if gets_none { Some(free).filter(|_| wanted.bytes <= free) } else { self.room(block, wanted) };
            if let Some(room) = room {
                return Ok(Some(room));
            }
            if self.options.summary && !self.collected.is_disabled {
                if self.write_summary(cx, block)? {
                    self.blocks.close(block);
                    has_summary = true;
                } else {
                    gets_none = true;
                }
                continue;
            }
            if self.device.is_waiting() {
                self.flush(cx)?;
                continue;
            }
            self.blocks.add_waste(block, free);
            self.blocks.close(block);
            gets_none = false;
        }
    }

    /// Bytes for nodes in the block that is written; `None`: it has no room for this one. What the summary takes is kept free, with the
    /// entry of the node. In a block without a summary Linux keeps a frame of it too, where there is room, less the byte by which its
    /// "none" is short of 0.
    /// Source: Linux 6.12, `jffs2_do_reserve_space`.
    fn room(&self, block: u32, wanted: Wanted) -> Option<u32> {
        let free = self.blocks.at(block).sizes.free;
        let frame = wanted.in_summary + SUMMARY_FRAME;
        let kept = match (self.options.summary, self.collected.is_disabled) {
            (false, _) => [0; 2],
            (true, false) => [padded(self.collected.bytes + frame); 2],
            (true, true) => [padded(frame - 1), 0],
        };
        kept.into_iter().find(|kept| wanted.bytes + kept <= free).map(|kept| free - kept)
    }

    /// Takes the next free block to be written. Returns its free bytes; `None`: one was erased first, or data were written to make
    /// that possible.
    fn open_block(&mut self, cx: &mut Cx, wanted: Wanted) -> Result<Option<u32>> {
        let Some(block) = self.blocks.first(List::Free) else {
            if let (0, Some(block)) = (self.blocks.erasing, self.blocks.first(List::Erasable)) {
                self.blocks.put(block, List::ErasePending);
            }
            let awaits_buffer = self.blocks.first(List::AwaitsBuffer).is_some() && !self.retries.rescues();
            if self.blocks.erasing == 0 && awaits_buffer {
                self.flush(cx)?;
                return Ok(None);
            }
            if self.blocks.erasing == 0 {
                return Err(FsError::NoSpace.into());
            }
            self.erase_one(cx)?;
            return Ok(None);
        };
        self.blocks.put(block, List::Next);
        self.collected = Collected::default();
        // The clean marker is obsolete from the first node on.
        if let Some(&marker) = self.blocks.at(block).nodes.first() {
            self.obsolete(cx, marker)?;
        }
        let free = self.blocks.at(block).sizes.free;
        if wanted.bytes > free { Err(FsError::NoSpace.into()) } else { Ok(Some(free)) }
    }

    /// Writes the summary of a block that is full. False: it does not fit, or a program failed, and the block gets none.
    fn write_summary(&mut self, cx: &mut Cx, block: u32) -> Result<bool> {
        let whole = self.blocks.block_bytes;
        let offset = whole - self.blocks.at(block).sizes.free;
        let Collected { entries, padding, .. } = &self.collected;
        let marker = self.device.marker_bytes();
        let bytes = match entries.is_empty() {
            true => None,
            false => media::write_summary(self.device.endian(), entries, (marker, *padding), offset, whole),
        };
        let Some(bytes) = bytes else {
            self.collected.is_disabled = true;
            return Ok(false);
        };
        self.spend(cx, 1, bytes.len() as u64);
        if let Err(error) = cx.because(Cause::Index, |cx| self.program(cx, block, offset, &bytes, None)) {
            return self.bounded(|fs| {
                fs.tolerate(error)?;
                match fs.device.page_bytes() {
                    Some(_) => fs.retire(cx, block)?,
                    None => {
                        fs.blocks.add_waste(block, whole - offset);
                        fs.blocks.close(block);
                    }
                }
                Ok(false)
            });
        }
        self.blocks.add(block, whole - offset, super::NodeState::Normal, Owner::None);
        self.counters.summaries += 1;
        Ok(true)
    }

    /// Writes bytes where a node goes.
    /// Errors: the flash's, about which nothing has been done.
    pub(super) fn program(
        &mut self,
        cx: &mut Cx,
        block: u32,
        offset: u32,
        node: &[u8],
        ino: Option<u32>,
    ) -> Result<(), FlashError> {
        let pushed = self.device.write(cx, (block, offset), node, ino)?;
        if pushed {
            self.buffer_is_safe(cx);
        }
        Ok(())
    }

    /// Writes what waits in the buffer.
    /// Errors: the flash's; nothing is written any more.
    pub(super) fn flush(&mut self, cx: &mut Cx) -> Result<()> {
        self.bounded(|fs| {
            while let Some((block, _)) = fs.device.waiting_page() {
                fs.may_write()?;
                let flushed = cx.because(Cause::Flush, |cx| fs.device.flush(cx));
                match flushed {
                    Ok(flushed) => {
                        let lost = flushed.map_or(0, |(_, lost)| lost);
                        if lost > 0 {
                            // The summary counts only the padding that a mount found, as Linux's.
                            fs.blocks.add_waste(block, lost);
                        }
                        fs.buffer_is_safe(cx);
                        break;
                    }
                    Err(error) => {
                        fs.tolerate(error)?;
                        fs.retire(cx, block)?;
                    }
                }
            }
            Ok(())
        })
    }

    /// What waited is on flash: blocks that it replaced may be erased.
    pub(super) fn buffer_is_safe(&mut self, cx: &Cx) {
        if self.retries.rescues() {
            return;
        }
        while let Some(block) = self.blocks.first(List::AwaitsBuffer) {
            // Each counts as a tick.
            let soon = !(self.tick(cx) + self.boot.awaited).is_multiple_of(128);
            self.boot.awaited += 1;
            self.blocks.put(block, if soon { List::ErasePending } else { List::Erasable });
        }
    }

    /// Writes a node where room was reserved for it.
    pub(super) fn put_node(
        &mut self,
        cx: &mut Cx,
        node: &[u8],
        (state, owner): (super::NodeState, Owner),
        entry: impl FnOnce(u32) -> Option<media::Entry>,
        ino: Option<u32>,
    ) -> Result<u32> {
        self.spend(cx, 1, node.len() as u64);
        if cx.cause() == Cause::Gc {
            self.counters.moved += 1;
            self.counters.moved_bytes += node.len() as u64;
        }
        let owner_ino = match owner {
            Owner::Inode(ino) => Some(ino),
            _ => None,
        };
        let entry = entry(0);
        let (block, offset) = self.place(cx, node, owner, entry.as_ref().map_or(0, media::Entry::bytes), ino)?;
        let id = self.blocks.add(block, padded(node.len() as u32), state, owner);
        if let Some(ino) = owner_ino {
            self.cache(ino).nodes.push(id);
        }
        self.note_entry(entry, offset);
        self.fill_up(cx, block)?;
        Ok(id)
    }

    /// Notes for the summary that a node is at `offset` of the block that is written. `None`: a summary cannot name it.
    pub(super) fn note_entry(&mut self, entry: Option<media::Entry>, offset: u32) {
        if self.options.summary {
            match entry {
                Some(entry) => {
                    self.collected.bytes += entry.bytes();
                    self.collected.entries.push(entry.at(offset));
                }
                None => self.collected.is_disabled = true,
            }
        }
    }

    /// A node was written. A block without more room is clean now; with more than a little waste it stays the one that is written
    /// until room is wanted for the next node.
    /// Source: Linux 6.12, `jffs2_add_physical_node_ref`.
    pub(super) fn fill_up(&mut self, cx: &mut Cx, block: u32) -> Result<()> {
        let Sizes { free, dirty, wasted, .. } = self.blocks.at(block).sizes;
        if free > 0 || dirty > 0 || is_dirty(wasted) {
            return Ok(());
        }
        if self.device.is_waiting() {
            self.flush(cx)?;
        }
        if self.blocks.at(block).list == List::Next {
            self.blocks.close(block);
        }
        Ok(())
    }

    /// Erases a block that waits for it. False: none does.
    pub(super) fn erase_one(&mut self, cx: &mut Cx) -> Result<bool> {
        let Some(block) = self.blocks.first(List::ErasePending) else { return Ok(false) };
        for (id, owner) in self.blocks.begin_erase(block) {
            self.forget_node(id, owner);
        }
        match cx.because(Cause::Gc, |cx| self.device.erase(cx, block)) {
            Ok(true) => {
                self.counters.erased += 1;
                self.signals += 1;
                self.blocks.end_erase(block);
                let marker = self.device.marker_bytes();
                if marker > 0 {
                    self.blocks.add(block, marker, super::NodeState::Normal, Owner::None);
                }
            }
            Ok(false) => {
                let failures = self.blocks.failed(block);
                if self.device.page_bytes().is_some() && failures < MOST_FAILURES {
                    self.blocks.erase_again(block);
                } else {
                    if self.device.page_bytes().is_some() {
                        self.device.mark_bad(cx, block).map_err(|error| self.fail(error))?;
                    }
                    self.blocks.end_bad(block);
                }
            }
            Err(error) => return Err(self.fail(error)),
        }
        Ok(true)
    }

    /// Whether the thread has something to do.
    /// Source: Linux 6.12, `jffs2_thread_should_wake`.
    pub fn has_work(&self) -> bool {
        let is_short = self.free_blocks() < self.levels.trigger && self.dirt() > i64::from(self.levels.least_dirt);
        self.blocks.first(List::ErasePending).is_some()
            || self.blocks.totals.unchecked > 0
            || is_short
            || self.blocks.count(List::VeryDirty) >= self.levels.very_dirty
    }

    pub(super) fn obsoleting(&self, cx: &Cx) -> Obsoleting {
        Obsoleting {
            mounting: false,
            buffered: (self.device.is_waiting() || self.retries.rescues()) && !self.options.known_bad.erase_early,
            erase_soon: !self.tick(cx).is_multiple_of(128),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand, of `jffs2_calc_trigger_levels`: 2 % of the flash and 100 bytes a block, rounded up to blocks, beside 2 for
    /// deletions; a block and 1 % of the flash.
    #[test]
    fn thresholds_are_those_of_linux() {
        // 16 blocks of 64 KiB: 20,971 and 1,600 bytes, 1 block.
        let nor = Levels::of(&Blocks::new(16, 65_536), true);
        let expected = Levels { deletion: 2, write: 3, trigger: 4, merge: 3, very_dirty: 40, least_dirt: 76_021 };
        assert_eq!(nor, expected);
        // 1,024 blocks of 128 KiB: 2,684,354 and 102,400 bytes, 22 blocks.
        let nand = Levels::of(&Blocks::new(1024, 131_072), false);
        let expected = Levels { deletion: 2, write: 24, trigger: 25, merge: 3, very_dirty: 25, least_dirt: 1_473_249 };
        assert_eq!(nand, expected);
    }
}
