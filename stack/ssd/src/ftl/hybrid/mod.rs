//! Log-block (hybrid) mapping: data blocks, log blocks, and merges of them.
//!
//! [`BlockFtl`](super::block::BlockFtl), [`Bast`](super::bast::Bast) and [`Fast`](super::fast::Fast) map logical
//! *blocks*: the pages of logical block `b` are `b * pages..`, and a data block holds page `i` of its logical block in
//! its own page `i` or not at all. A page that cannot go there goes to a log block and is merged later. The three
//! differ only in which log blocks they open and which they merge: that is their [`LogPolicy`], the rest is [`Hybrid`].
//!
//! The modelled device keeps small tables: a data block for each logical block, and a page table for its log blocks.
//! Here one table in each direction holds them all (`l2p`, `p2l`): the content is the same, and a lookup is one load.
//! Blocks are programmed in ascending order, page after page: where a data block must skip an unmapped page, the page
//! is padded.
//!
//! **Merges** bring the newest pages of one logical block into one block, which becomes its data block: a *switch*
//! merge needs no copy, since the log block holds every page at its offset; a *partial* merge copies the pages that are
//! missing at the end of such a log block; a *full* merge copies every page to a free block. They run step by step; the
//! state is consistent between any two steps, so trims and failures may come in between.
//!
//! **Failures.** A block in which a program failed takes no more pages. Its logical blocks are merged out of it, then
//! it is retired without being erased. A block whose erase failed is retired.
//!
//! Knows: blocks, pages, roles. Does not know: which log block to merge, time, contents.
//!
//! Invariants ([`Hybrid::check`]): `l2p[lpn] == ppn` exactly where `p2l[ppn] == lpn`; each block has one role, and the
//! tables agree with it; a data block's valid pages are at their offsets and of its logical block; valid pages are
//! below the block's next page.

mod config;
mod merge;
mod proof;
mod rebuild;

pub use config::HybridConfig;
pub use rebuild::Scanned;

use super::page::ConfigError;
use super::{NONE, Place, Step, UnitFtl};
use sim::Cause;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt::Debug;
use std::marker::PhantomData;

/// How the pages of an FTL's log blocks are associated with logical blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogKind {
    /// A log block of its own for some logical blocks (BAST). Its pages are in order of writing.
    PerBlock,
    /// A replacement block of its own for some logical blocks (block mapping). Each page is at its offset; gaps are
    /// filled by copies or padding.
    InPlace,
    /// One sequential log block, with the pages of one logical block at their offsets, and others shared by all logical
    /// blocks (FAST).
    Shared,
}

/// What a policy decides if no open block takes a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MakeRoom {
    /// It opened a block that takes the page.
    Opened,
    /// This logical block must be merged.
    Merge(u32),
    /// It requested that a log block be emptied.
    Emptying,
    /// Nothing; only a merge that needs no free block can help.
    Nothing,
}

/// Policy of a log-block FTL: the log block that a page goes to, and the logical block that is merged for it.
pub trait LogPolicy: Clone + Debug + Sized {
    /// Free blocks that are reserved for merges.
    const SPARE: u32;
    /// Kind of the log blocks that it uses.
    const LOGS: LogKind;

    /// The open block that takes `lpn`, if there is one; under [`LogKind::InPlace`] perhaps after its gap is filled.
    fn open_block(ftl: &Hybrid<Self>, lpn: u32) -> Option<u32>;

    /// Opens a block for `lpn`, or chooses what is merged first. Called if [`open_block`](Self::open_block) returns
    /// `None` and no other work is pending.
    fn make_room(ftl: &mut Hybrid<Self>, lpn: u32) -> MakeRoom;
}

/// Counters of a log-block FTL since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HybridCounts {
    /// Switch merges: merges without a copy.
    pub switch_merges: u64,
    /// Partial merges: only the pages missing at a log block's end were copied.
    pub partial_merges: u64,
    /// Full merges: pages were copied from the first one on.
    pub full_merges: u64,
    /// Host pages placed.
    pub host_pages: u64,
    /// Pages copied by merges, and to fill gaps of replacement blocks.
    pub copied_pages: u64,
    /// Pages padded, to keep later pages at their offsets.
    pub padded_pages: u64,
    /// Erases requested.
    pub erases: u64,
    /// Blocks retired after a failed program or erase.
    pub retired: u64,
}

/// Role of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Erased, in the free list.
    Free,
    /// Holds pages of a logical block at their offsets.
    Data,
    /// Log block of one logical block.
    Log,
    /// Log block shared by all logical blocks.
    Shared,
    /// Target of the merge in progress: becomes the data block.
    Target,
    /// Holds valid pages and has no other role: its pages must be merged out of it.
    Orphan,
    /// Holds no valid page, and waits for its erase.
    Stale,
    /// Its erase was requested and has not ended.
    Erasing,
    /// Bad from the factory, or retired.
    Bad,
}

impl Role {
    /// The table of legal transitions.
    fn may_become(self, next: Role) -> bool {
        use Role::*;
        match self {
            Free => matches!(next, Data | Log | Shared | Target),
            Data | Shared | Orphan => matches!(next, Stale | Target),
            Log => matches!(next, Stale | Target),
            Target => matches!(next, Data | Orphan | Stale),
            Stale => matches!(next, Erasing | Free | Bad),
            Erasing => matches!(next, Free | Bad),
            Bad => false,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) role: Role,
    /// The logical block of a data, log or target block; otherwise [`NONE`].
    pub(super) owner: u32,
    /// Pages allocated since its erase.
    pub(super) next: u32,
    /// Pages that hold the newest contents of a logical page.
    pub(super) valid: u32,
    /// Time of the last host write into it, counted in host pages.
    pub(super) stamp: u64,
    /// A program failed in it: it takes no more pages, and is retired when it holds no valid page.
    flawed: bool,
    /// Its pages must be merged out of it before the next host page.
    evacuating: bool,
    /// It holds pages copied to it, so a merge into it counts as full.
    copied: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Logical {
    /// Its data block, or [`NONE`].
    pub(super) data: u32,
    /// Its own log block, or [`NONE`].
    pub(super) log: u32,
    /// Number of its mapped pages, in any block.
    live: u32,
}

/// The merge in progress, which is done one step at a time.
#[derive(Clone, Copy, Debug)]
struct Merge {
    logical: u32,
    target: u32,
    /// Offset after the last page that must be copied.
    end: u32,
    /// Whether the target was empty or held copied pages when the merge began.
    full: bool,
    /// Whether a page was copied.
    copied: bool,
}

/// The log-block FTL of one unit. `P` decides how log blocks are used.
#[derive(Clone, Debug)]
pub struct Hybrid<P> {
    config: HybridConfig,
    policy: PhantomData<P>,
    l2p: Vec<u32>,
    p2l: Vec<u32>,
    blocks: Vec<Block>,
    erases: Vec<u32>,
    logical: Vec<Logical>,
    /// Logical blocks with a log block of their own.
    opened: Vec<u32>,
    /// Shared log blocks, oldest first.
    pub(super) shared: VecDeque<u32>,
    /// Erased blocks as (erase count, block), least worn first, lowest number on a tie.
    free: BinaryHeap<Reverse<(u32, u32)>>,
    stale: VecDeque<u32>,
    /// Blocks that must be emptied; each has a valid page.
    emptying: VecDeque<u32>,
    merge: Option<Merge>,
    /// Whether emptying found no free block to merge into, and none became free since.
    stuck: bool,
    /// Blocks that are neither bad nor had a failed program.
    good: u32,
    counts: HybridCounts,
}

impl<P: LogPolicy> Hybrid<P> {
    /// Makes an FTL over erased blocks.
    /// Errors: an inconsistent configuration; fewer log blocks than the policy needs; fewer good blocks than logical
    /// blocks, log blocks and those reserved for merges.
    pub fn new(config: HybridConfig) -> Result<Hybrid<P>, ConfigError> {
        let mut ftl = Hybrid::without_free_blocks(config)?;
        ftl.gather_free();
        Ok(ftl)
    }

    /// Checks a configuration without building the FTL.
    /// Errors: as [`new`](Self::new).
    pub fn check_config(config: &HybridConfig) -> Result<(), ConfigError> {
        config.check(P::SPARE, P::LOGS)
    }

    /// The configuration that the FTL was built with.
    pub fn config(&self) -> &HybridConfig {
        &self.config
    }

    /// Counters of merges, copies and erases since the FTL was made.
    pub fn counts(&self) -> &HybridCounts {
        &self.counts
    }

    /// Number of blocks that are neither bad nor had a failed program.
    pub fn good_blocks(&self) -> u32 {
        self.good
    }

    /// Log blocks in use, including replacement blocks of block mapping.
    pub fn log_blocks(&self) -> u32 {
        self.opened() + self.shared.len() as u32
    }

    fn without_free_blocks(config: HybridConfig) -> Result<Hybrid<P>, ConfigError> {
        Self::check_config(&config)?;
        let empty = Block {
            role: Role::Free,
            owner: NONE,
            next: 0,
            valid: 0,
            stamp: 0,
            flawed: false,
            evacuating: false,
            copied: false,
        };
        let mut ftl = Hybrid {
            policy: PhantomData,
            l2p: vec![NONE; config.lpns as usize],
            p2l: vec![NONE; config.blocks as usize * config.pages as usize],
            blocks: vec![empty; config.blocks as usize],
            erases: vec![0; config.blocks as usize],
            logical: vec![Logical { data: NONE, log: NONE, live: 0 }; config.logical_blocks() as usize],
            opened: Vec::new(),
            shared: VecDeque::new(),
            free: BinaryHeap::new(),
            stale: VecDeque::new(),
            emptying: VecDeque::new(),
            merge: None,
            stuck: false,
            good: config.good_blocks(),
            counts: HybridCounts::default(),
            config,
        };
        for &block in &ftl.config.bad {
            ftl.blocks[block as usize].role = Role::Bad;
        }
        Ok(ftl)
    }

    fn gather_free(&mut self) {
        let free = (0..self.config.blocks).filter(|&block| self.block(block).role == Role::Free);
        self.free = free.map(|block| Reverse((self.erases[block as usize], block))).collect();
    }

    #[inline]
    pub(super) fn block(&self, block: u32) -> &Block {
        &self.blocks[block as usize]
    }

    #[inline]
    pub(super) fn logical(&self, logical: u32) -> &Logical {
        &self.logical[logical as usize]
    }

    /// Logical block of a page, and the page's offset in it.
    #[inline]
    pub(super) fn split(&self, lpn: u32) -> (u32, u32) {
        (lpn / self.config.pages, lpn % self.config.pages)
    }

    #[inline]
    fn block_of(&self, ppn: u32) -> u32 {
        ppn / self.config.pages
    }

    /// Log blocks that may be in use at once: fewer than configured if blocks have failed.
    pub(super) fn log_limit(&self) -> u32 {
        self.config.logs.min(self.good.saturating_sub(self.logical.len() as u32 + P::SPARE))
    }

    /// Log blocks in use that belong to one logical block.
    pub(super) fn opened(&self) -> u32 {
        self.opened.len() as u32
    }

    /// Whether a block can take another host page.
    #[inline]
    pub(super) fn has_room(&self, block: u32) -> bool {
        block != NONE && {
            let block = self.block(block);
            block.next < self.config.pages && !block.flawed && !block.evacuating
        }
    }

    /// Whether a block can take a host page, and its next page is at `offset`.
    #[inline]
    pub(super) fn takes_next(&self, block: u32, offset: u32) -> bool {
        self.has_room(block) && self.block(block).next == offset
    }

    /// Whether other work must be done before the next host page.
    #[inline]
    fn busy(&self) -> bool {
        self.merge.is_some() || !self.stale.is_empty() || (!self.emptying.is_empty() && !self.stuck)
    }

    /// The open block that takes `lpn`; `None` if there is none or other work comes first.
    #[inline]
    fn open_block(&self, lpn: u32) -> Option<u32> {
        if self.busy() { None } else { P::open_block(self, lpn) }
    }

    /// Whether pages before `lpn` must be filled in `block`, which takes it.
    #[inline]
    fn has_gap(&self, block: u32, lpn: u32) -> bool {
        P::LOGS == LogKind::InPlace && self.block(block).next < self.split(lpn).1
    }

    fn set_role(&mut self, block: u32, next: Role) {
        let role = &mut self.blocks[block as usize].role;
        debug_assert!(role.may_become(next), "block {block}: {role:?} became {next:?}");
        *role = next;
    }

    /// Allocates a free block if more than `reserve` are left.
    fn take(&mut self, role: Role, owner: u32, reserve: usize) -> Option<u32> {
        if self.free.len() <= reserve {
            return None;
        }
        let Reverse((_, block)) = self.free.pop()?;
        self.set_role(block, role);
        self.blocks[block as usize].owner = owner;
        Some(block)
    }

    /// Allocates an empty data block for a logical block.
    pub(super) fn take_data(&mut self, logical: u32) -> Option<u32> {
        debug_assert_eq!(self.logical(logical).data, NONE);
        let block = self.take(Role::Data, logical, P::SPARE as usize)?;
        self.logical[logical as usize].data = block;
        Some(block)
    }

    /// Allocates an empty log block for a logical block.
    pub(super) fn take_log(&mut self, logical: u32) -> Option<u32> {
        debug_assert_eq!(self.logical(logical).log, NONE);
        let block = self.take(Role::Log, logical, P::SPARE as usize)?;
        self.logical[logical as usize].log = block;
        self.opened.push(logical);
        Some(block)
    }

    /// Allocates an empty shared log block.
    pub(super) fn take_shared(&mut self) -> Option<u32> {
        let block = self.take(Role::Shared, NONE, P::SPARE as usize)?;
        self.shared.push_back(block);
        Some(block)
    }

    /// Allocates a block's next page to a host page.
    fn write(&mut self, block: u32, lpn: u32) -> u32 {
        self.counts.host_pages += 1;
        self.blocks[block as usize].stamp = self.counts.host_pages;
        self.put(block, lpn)
    }

    /// Maps `lpn` to a block's next page.
    fn put(&mut self, block: u32, lpn: u32) -> u32 {
        let old = self.l2p[lpn as usize];
        if old == NONE {
            self.logical[(lpn / self.config.pages) as usize].live += 1;
        } else {
            self.forget(old);
        }
        let pages = self.config.pages;
        let to = &mut self.blocks[block as usize];
        debug_assert!(to.next < pages && !to.flawed, "block {block}");
        let ppn = block * pages + to.next;
        to.next += 1;
        to.valid += 1;
        self.l2p[lpn as usize] = ppn;
        self.p2l[ppn as usize] = lpn;
        ppn
    }

    /// Fills the next page of a data or log block with the page of that offset: a copy, or padding if it is unmapped.
    fn fill(&mut self, block: u32) -> Step {
        let Block { owner, next, .. } = *self.block(block);
        let lpn = owner * self.config.pages + next;
        let from = self.l2p.get(lpn as usize).copied().unwrap_or(NONE);
        if from == NONE {
            self.blocks[block as usize].next += 1;
            self.counts.padded_pages += 1;
            let lpn = if lpn < self.config.lpns { lpn } else { NONE };
            return Step::Pad { at: block * self.config.pages + next, lpn };
        }
        let cause = match self.block(self.block_of(from)).flawed {
            true => Cause::Recovery,
            false => Cause::Gc,
        };
        self.blocks[block as usize].copied = true;
        self.counts.copied_pages += 1;
        Step::Copy { from, to: self.put(block, lpn), cause }
    }

    /// Marks a physical page as invalid.
    #[inline]
    fn forget(&mut self, ppn: u32) {
        self.p2l[ppn as usize] = NONE;
        let block = self.block_of(ppn);
        let held = &mut self.blocks[block as usize];
        held.valid -= 1;
        if held.valid == 0 && held.evacuating {
            self.discard(block);
        }
    }

    /// Removes a block without valid pages from every table. It is erased, freed or retired.
    fn discard(&mut self, block: u32) {
        let Block { role, owner, next, valid, flawed, .. } = *self.block(block);
        debug_assert_eq!(valid, 0, "block {block} still holds pages");
        match role {
            Role::Data => self.logical[owner as usize].data = NONE,
            Role::Log => {
                self.logical[owner as usize].log = NONE;
                self.opened.retain(|&logical| logical != owner);
            }
            Role::Shared => self.shared.retain(|&shared| shared != block),
            Role::Target | Role::Orphan => {}
            Role::Free | Role::Stale | Role::Erasing | Role::Bad => return,
        }
        self.set_role(block, Role::Stale);
        self.stop_evacuating(block);
        self.blocks[block as usize].owner = NONE;
        if flawed {
            self.retire(block);
        } else if next == 0 {
            self.give_back(block);
        } else {
            self.stale.push_back(block);
        }
    }

    fn give_back(&mut self, block: u32) {
        self.set_role(block, Role::Free);
        let held = &mut self.blocks[block as usize];
        (held.next, held.copied) = (0, false);
        self.free.push(Reverse((self.erases[block as usize], block)));
        self.stuck = false;
    }

    fn retire(&mut self, block: u32) {
        self.set_role(block, Role::Bad);
        self.counts.retired += 1;
    }

    /// Requests that a block be emptied before the next host page. Returns false if that was requested already.
    fn evacuate(&mut self, block: u32) -> bool {
        if std::mem::replace(&mut self.blocks[block as usize].evacuating, true) {
            return false;
        }
        self.emptying.push_back(block);
        self.stuck = false;
        true
    }

    /// Cancels the request to empty a block.
    fn stop_evacuating(&mut self, block: u32) {
        if std::mem::replace(&mut self.blocks[block as usize].evacuating, false) {
            self.emptying.retain(|&evacuating| evacuating != block);
        }
    }
}

impl<P: LogPolicy> UnitFtl for Hybrid<P> {
    fn lpns(&self) -> u32 {
        self.config.lpns
    }

    #[inline]
    fn lookup(&self, lpn: u32) -> u32 {
        self.l2p[lpn as usize]
    }

    #[inline]
    fn holds(&self, ppn: u32) -> u32 {
        self.p2l[ppn as usize]
    }

    fn place(&mut self, lpn: u32) -> Place {
        loop {
            if let Some(step) = self.work() {
                return Place::Work(step);
            }
            if let Some(block) = self.open_block(lpn) {
                if self.has_gap(block, lpn) {
                    return Place::Work(self.fill(block));
                }
                return Place::At(self.write(block, lpn));
            }
            let progress = match P::make_room(self, lpn) {
                MakeRoom::Opened | MakeRoom::Emptying => true,
                MakeRoom::Merge(logical) => self.begin(logical),
                MakeRoom::Nothing => false,
            };
            if !progress && !self.relieve() {
                return Place::Full;
            }
        }
    }

    #[inline]
    fn follows(&self, ppn: u32, lpn: u32) -> bool {
        let next = ppn + 1;
        let goes_to = |block: u32| block * self.config.pages + self.block(block).next;
        !next.is_multiple_of(self.config.planes)
            && self.open_block(lpn).is_some_and(|block| goes_to(block) == next && !self.has_gap(block, lpn))
    }

    fn housekeeping(&mut self) -> Option<Step> {
        self.idle_step()
    }

    fn trim(&mut self, lpn: u32) {
        let ppn = std::mem::replace(&mut self.l2p[lpn as usize], NONE);
        if ppn == NONE {
            return;
        }
        self.forget(ppn);
        let logical = lpn / self.config.pages;
        self.logical[logical as usize].live -= 1;
        if self.logical(logical).live == 0 && self.merge.is_none_or(|merge| merge.logical != logical) {
            let Logical { data, log, .. } = *self.logical(logical);
            for block in [data, log].into_iter().filter(|&block| block != NONE) {
                self.discard(block);
            }
        }
    }

    fn erased(&mut self, block: u32, ok: bool) {
        debug_assert_eq!(self.block(block).role, Role::Erasing, "block {block} was not to be erased");
        self.erases[block as usize] += 1;
        let flawed = self.block(block).flawed;
        if ok && !flawed {
            self.give_back(block);
        } else {
            self.good -= u32::from(!flawed);
            self.retire(block);
        }
    }

    fn program_failed(&mut self, ppn: u32) {
        let block = self.block_of(ppn);
        if ppn % self.config.pages >= self.block(block).next || self.block(block).role == Role::Bad {
            debug_assert!(self.block(block).role == Role::Bad, "page {ppn} was not handed out");
            return;
        }
        let first_failure = !std::mem::replace(&mut self.blocks[block as usize].flawed, true);
        self.good -= u32::from(first_failure);
        if let Some(merge) = self.merge
            && merge.target == block
        {
            // Its valid pages are merged out of it again, into another block.
            self.merge = None;
            self.set_role(block, Role::Orphan);
            self.blocks[block as usize].owner = NONE;
        }
        let lpn = self.p2l[ppn as usize];
        if lpn != NONE {
            self.trim(lpn);
        }
        let held = *self.block(block);
        match held.role {
            Role::Data | Role::Log | Role::Shared | Role::Orphan if held.valid == 0 => self.discard(block),
            Role::Data | Role::Log | Role::Shared | Role::Orphan => {
                self.evacuate(block);
            }
            Role::Stale => {
                self.stale.retain(|&stale| stale != block);
                self.retire(block);
            }
            Role::Free | Role::Target | Role::Erasing | Role::Bad => {}
        }
    }

    /// 0 for a block that is being erased or is bad.
    fn handed_out(&self, block: u32) -> u32 {
        let held = self.block(block);
        if matches!(held.role, Role::Erasing | Role::Bad) { 0 } else { held.next }
    }

    fn erase_counts(&self) -> &[u32] {
        &self.erases
    }
}
