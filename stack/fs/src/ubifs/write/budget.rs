//! Budgeting: space is promised to an operation before it begins, pessimistically, so that whatever is in memory can be
//! written, the index too.
//!
//! Source: Linux 6.12 `fs/ubifs/budget.c` (rules and formulas).

use sim::seam::LebVolume;
use sim::{Cause, Cx};

use super::collect::Collected;
use super::{Result, Ubifs, UbifsError};
use crate::ubifs::media::{BLOCK_BYTES, DataNode, DentNode, InodeNode, MAX_NAME, aligned};
use crate::ubifs::nodes::HEADS;

/// How often space is made before an operation fails.
const MOST_TRIES: u32 = 3;
/// LEBs that the index has at least.
pub(super) const MIN_INDEX_LEBS: i64 = 2;
/// Bytes promised for a page, an inode without inline data, and an entry.
const PAGE: i64 = DataNode::HEADER_BYTES as i64 + BLOCK_BYTES as i64;
const INODE: i64 = InodeNode::BYTES as i64;
const ENTRY: i64 = DentNode::bytes_of(MAX_NAME) as i64;

/// What was promised.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Budget {
    /// Bytes of index nodes of operations that are not done.
    index_growth: i64,
    /// The same of those that are done, but not committed.
    uncommitted: i64,
    /// Bytes of new data.
    pub(super) data_growth: i64,
    /// Bytes of data that make others obsolete.
    change_growth: i64,
    /// LEBs kept for the index.
    pub min_index_lebs: i32,
    /// The last attempt failed, and nothing was released since.
    is_full: bool,
    /// Pages of a cache above that have space promised.
    pages: usize,
    /// Whether the operation that runs leaves nothing changed if it fails now, so that it can be made again.
    is_fresh: bool,
    /// Whether it failed so that the cache above writes pages back.
    wants_write_back: bool,
    /// Pages that had space promised then.
    asked: Option<usize>,
}

impl Budget {
    /// An operation begins, or has come to where it undoes all that it did if it fails.
    pub fn begin(&mut self) {
        (self.is_fresh, self.wants_write_back) = (true, false);
    }

    /// The operation that runs cannot be made again.
    pub fn is_under_way(&mut self) {
        self.is_fresh = false;
    }

    /// Pages of a cache above that have space promised.
    #[cfg(test)]
    pub fn pages(&self) -> usize {
        self.pages
    }

    fn add(&mut self, (index, new, changed): (i64, i64, i64)) {
        self.index_growth += index;
        self.data_growth += new;
        self.change_growth += changed;
    }

    /// Bytes of index nodes of operations that are not done, and of those that are but not committed.
    #[cfg(test)]
    pub fn of_index(&self) -> (i64, i64) {
        (self.index_growth, self.uncommitted)
    }

    /// A cache above keeps a page, for which space is promised.
    pub fn keeps_page(&mut self) {
        self.pages += 1;
    }

    /// Promises for pages of the cache above are used up.
    pub fn loses_pages(&mut self, pages: usize) {
        debug_assert!(pages <= self.pages);
        self.pages -= pages;
    }

    /// Whether the cache above was asked to write pages back, and may find that the operation fits then.
    pub fn wants_write_back(&self) -> bool {
        self.wants_write_back
    }

    /// Whether the cache above is to write pages back before anything else makes space: as long as that leaves fewer of them.
    fn asks(&mut self, is_fresh: bool) -> bool {
        self.wants_write_back = is_fresh && self.pages > 0 && self.asked.is_none_or(|asked| self.pages < asked);
        if self.wants_write_back {
            self.asked = Some(self.pages);
        }
        self.wants_write_back
    }
}

/// What an operation needs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Request {
    pub new_inode: bool,
    /// Inline data of the new inode.
    pub new_inline: u32,
    pub new_page: bool,
    pub new_entry: bool,
    pub changed_page: bool,
    pub changed_inodes: u32,
    /// Inline data of the changed inodes.
    pub changed_inline: u32,
    pub changed_entry: bool,
}

impl Request {
    fn growth(&self, index_node: i64) -> (i64, i64, i64) {
        let if_so = |is: bool, bytes: i64| if is { bytes } else { 0 };
        let nodes = i64::from(self.new_inode) + i64::from(self.new_page) + i64::from(self.new_entry);
        let new = if_so(self.new_inode, INODE)
            + if_so(self.new_page, PAGE)
            + if_so(self.new_entry, aligned(ENTRY as u32).into());
        let changed = if_so(self.changed_page, PAGE)
            + i64::from(self.changed_inodes) * INODE
            + if_so(self.changed_entry, aligned(ENTRY as u32).into());
        (
            nodes * index_node,
            new + i64::from(aligned(self.new_inline)),
            changed + i64::from(aligned(self.changed_inline)),
        )
    }
}

impl<V: LebVolume> Ubifs<V> {
    /// LEBs to be kept for the index: three times what it takes, and one for its head.
    pub(super) fn calc_min_index_lebs(&self) -> i32 {
        let budget = &self.budget;
        let bytes = self.committed_index_bytes as i64 + budget.index_growth + budget.uncommitted;
        let leb = i64::from(self.leb_bytes - self.max_index_node());
        ((3 * bytes + leb - 1) / leb + 1).max(MIN_INDEX_LEBS) as i32
    }

    /// Bytes that data can take.
    pub(super) fn available(&self, min_index_lebs: i32) -> i64 {
        let totals = &self.space.totals;
        let leb = i64::from(self.leb_bytes);
        // One LEB each for garbage collection, for each head, and for deletions, which need no budget.
        let kept = i64::from(min_index_lebs) + 1 + HEADS as i64 + 1;
        let main = i64::from(self.sb.main_lebs()) * leb;
        let beyond = i64::from((totals.index_lebs - min_index_lebs).max(0)) * i64::from(self.space.dark);
        (main - totals.used - kept * leb - totals.dead - totals.dark - beyond).max(0)
    }

    /// Bytes that are promised, but for the index.
    pub(super) fn outstanding(&self) -> i64 {
        self.budget.data_growth + self.budget.change_growth
    }

    fn fits(&mut self) -> bool {
        let least = self.calc_min_index_lebs();
        let reserved = (least - self.space.totals.index_lebs).max(0);
        let lebs = self.space.available() + self.collected_index.len() as i32;
        let fits = reserved <= lebs && self.available(least) >= self.outstanding();
        if fits {
            self.budget.min_index_lebs = least;
        }
        fits
    }

    /// Promises space. What is promised is to be released.
    /// Errors: there is none; pages of a cache above are to be written back first, and nothing has changed; the medium's.
    pub(super) fn reserve_budget(&mut self, cx: &mut Cx, request: &Request) -> Result<()> {
        let (index, new, changed) = request.growth(self.max_index_node().into());
        if new == 0 && changed == 0 {
            return Ok(());
        }
        let is_fresh = std::mem::take(&mut self.budget.is_fresh);
        if self.budget.is_full {
            self.budget.asked = None;
            return Err(UbifsError::NoSpace);
        }
        let mut was_full = false;
        loop {
            if self.promise_if_fits((index, new, changed)) {
                self.budget.asked = None;
                return Ok(());
            }
            if self.budget.asks(is_fresh) {
                return Err(UbifsError::WriteBackFirst);
            }
            if self.make_space(cx)? {
                continue;
            }
            if was_full {
                self.budget.is_full = true;
                return Err(UbifsError::NoSpace);
            }
            was_full = true;
        }
    }

    fn promise_if_fits(&mut self, (index, new, changed): (i64, i64, i64)) -> bool {
        self.budget.add((index, new, changed));
        let fits = self.fits();
        if !fits {
            self.budget.add((-index, -new, -changed));
        }
        fits
    }

    /// Promises space if there is some without anything being done for it, and nothing was done before.
    pub(super) fn promise_at_once(&mut self, request: &Request) -> bool {
        let growth = request.growth(self.max_index_node().into());
        growth == (0, 0, 0) || self.budget.asked.is_none() && !self.budget.is_full && self.promise_if_fits(growth)
    }

    /// What was promised turns out to be something else, which needs less.
    pub(super) fn promise_instead(&mut self, promised: &Request, needed: &Request) {
        let index_node = self.max_index_node().into();
        let ((index, new, changed), needed) = (promised.growth(index_node), needed.growth(index_node));
        self.budget.add((needed.0 - index, needed.1 - new, needed.2 - changed));
        self.budget.min_index_lebs = self.calc_min_index_lebs();
    }

    /// The operation is done, or failed: its nodes are in the journal or nowhere.
    pub(super) fn release_budget(&mut self, request: &Request) {
        let (index, new, changed) = request.growth(self.max_index_node().into());
        if new == 0 && changed == 0 {
            return;
        }
        self.budget.is_full = false;
        self.budget.index_growth -= index;
        self.budget.uncommitted += index;
        self.budget.data_growth -= new;
        self.budget.change_growth -= changed;
        debug_assert!(self.budget.data_growth >= 0 && self.budget.change_growth >= 0 && self.budget.index_growth >= 0);
        self.budget.min_index_lebs = self.calc_min_index_lebs();
    }

    /// Something was deleted without a budget.
    pub(super) fn space_was_made(&mut self) {
        self.budget.is_full = false;
    }

    /// The index was committed.
    pub(super) fn index_was_committed(&mut self) {
        self.committed_index_bytes = self.index_bytes;
        self.budget.uncommitted = 0;
        self.budget.min_index_lebs = self.calc_min_index_lebs();
    }

    /// What the replay of the journal changed in the index counts as not committed.
    pub(super) fn replay_was_done(&mut self) {
        self.budget.uncommitted = self.index.dirty_nodes() as i64 * i64::from(self.max_index_node());
        self.budget.min_index_lebs = self.calc_min_index_lebs();
    }

    /// Tries to make space, when no page of a cache above is left to be written: writes dirty inodes, whose promises are greater than
    /// what they take; collects garbage; commits.
    /// Returns whether it is worth another try.
    fn make_space(&mut self, cx: &mut Cx) -> Result<bool> {
        for _ in 0..=MOST_TRIES {
            if self.inodes.has_dirty() {
                self.write_inodes(cx, None)?;
                return Ok(true);
            }
            match cx.because(Cause::Gc, |cx| self.collect_garbage(cx, true))? {
                Collected::Leb(lnum) => {
                    self.space.release(lnum);
                    return Ok(true);
                }
                Collected::CommitFirst | Collected::Nothing => self.run_commit(cx)?,
            }
        }
        Ok(false)
    }
}
