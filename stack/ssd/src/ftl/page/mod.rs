//! Page-level mapping: any logical page may be in any physical page of the unit.
//!
//! The FTL keeps one table in each direction, four bytes a page: `l2p`, the physical page of each logical page, and
//! `p2l`, the logical page whose newest contents a physical page holds. For an invalid page, and for one not yet
//! programmed, `p2l` has [`NONE`], so no bitmap of valid pages is needed.
//!
//! Pages are allocated from *frontiers*: open blocks, each filled in order. Host pages, copied pages, pages of levelled
//! blocks and pages for blocks in SLC mode have a frontier each. A block is closed when its last page is allocated;
//! only closed blocks are collected.
//!
//! This module knows neither time nor the contents of pages. It keeps no journal: after a loss of power the mapping is
//! rebuilt from the pages' tags ([`PageFtl::rebuild`]).
//!
//! Invariants (asserted by [`PageFtl::check`]):
//! - `l2p[lpn] == ppn` exactly where `p2l[ppn] == lpn`;
//! - the index counts for each block the pages that `p2l` maps;
//! - a page not allocated since its block was erased is not mapped; free, erasing and bad blocks have no valid page;
//! - each block is in exactly one state, free blocks exactly those in the pools, candidates exactly the closed normal
//!   blocks, frontiers exactly the open ones;
//! - copies, erases and host pages are each counted under a cause.

mod config;
mod fast;
mod proof;
mod rebuild;
mod work;

use super::gc::Index;
use super::wear::{FreeBlocks, Spread, Wear};
use super::{NONE, Place, Step, UnitFtl};
use crate::divisor::Divisor;
use crate::untimed::Tally;
pub use config::{ConfigError, Foreground, PageConfig, SlcCache, SlcFull};
use sim::{Cause, CauseCounts, Rng, prefetch};
use std::collections::VecDeque;
use work::Job;

/// State of a block in its life cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockState {
    /// Erased; no page allocated.
    Free,
    /// A write frontier: its pages are being allocated.
    Open,
    /// All its pages are allocated, or it was found programmed after a loss of power. The next step is its collection.
    Closed,
    /// Its valid pages are being copied out.
    Victim,
    /// Its erase was requested and has not ended.
    Erasing,
    /// A program failed in it: it will be emptied and retired.
    Failing,
    /// Retired, or a factory bad block.
    Bad,
}

impl BlockState {
    /// The table of legal transitions.
    const fn may_become(self, next: BlockState) -> bool {
        use BlockState::*;
        matches!(
            (self, next),
            (Free, Open)
                | (Open, Closed | Failing)
                | (Closed, Victim | Failing)
                | (Victim, Erasing | Failing | Bad)
                | (Failing, Victim)
                | (Erasing, Free | Bad)
        )
    }
}

/// An open block, as the physical pages of it that are not allocated: `next..end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Frontier {
    next: u32,
    end: u32,
}

impl Frontier {
    fn room(self) -> u32 {
        self.end - self.next
    }
}

/// Indices of the frontiers, by the kind of data written to them.
const HOST: usize = 0;
const COPIED: usize = 1;
const LEVELLED: usize = 2;
const SLC: usize = 3;

/// The page-level FTL of one unit.
#[derive(Clone, Debug)]
pub struct PageFtl {
    config: PageConfig,
    by_pages: Divisor,
    by_planes: Divisor,
    l2p: Vec<u32>,
    p2l: Vec<u32>,
    index: Index,
    state: Vec<BlockState>,
    /// Pages of each block allocated since its erase; of an open block, its capacity.
    written: Vec<u32>,
    erases: Vec<u32>,
    free: FreeBlocks,
    slc: Vec<bool>,
    slc_free: FreeBlocks,
    /// Closed SLC blocks, oldest first.
    slc_closed: VecDeque<u32>,
    frontiers: [Frontier; 4],
    /// The collection, levelling or retirement in progress.
    job: Option<Job>,
    /// The folding of an SLC block in progress: its valid pages are copied to normal blocks.
    fold: Option<Job>,
    /// Blocks in which a program failed and which are yet to be emptied.
    failing: VecDeque<u32>,
    /// Number of victims in succession that had no invalid page.
    fruitless: u32,
    spread: Spread,
    /// Erases since a block was last levelled.
    since_levelled: u32,
    /// Pages allocated since the FTL was made: the clock of block ages. A rebuild starts it at `clock_before`.
    clock: u64,
    clock_before: u64,
    rng: Rng,
    programmed: CauseCounts,
    erased: CauseCounts,
    folded: u64,
    retired: u32,
}

impl PageFtl {
    /// Makes an empty FTL over erased blocks. `rng` is used by the GC policies that draw at random.
    ///
    /// Errors: see [`PageConfig::check`].
    pub fn new(config: PageConfig, rng: Rng) -> Result<PageFtl, ConfigError> {
        let erases = vec![0; config.blocks as usize];
        let mut ftl = PageFtl::without_free_blocks(config, erases, rng)?;
        for block in 0..ftl.config.blocks {
            if ftl.state[block as usize] == BlockState::Free {
                ftl.put_free(block);
            }
        }
        Ok(ftl)
    }

    /// An FTL whose good blocks all have the state `Free`, but are in no pool yet.
    fn without_free_blocks(config: PageConfig, erases: Vec<u32>, rng: Rng) -> Result<PageFtl, ConfigError> {
        config.check()?;
        let blocks = config.blocks as usize;
        let mut state = vec![BlockState::Free; blocks];
        for &block in &config.bad {
            state[block as usize] = BlockState::Bad;
        }
        let mut slc = vec![false; blocks];
        let good = (0..blocks).filter(|&block| state[block] == BlockState::Free);
        for block in good.take(config.slc.map_or(0, |slc| slc.blocks as usize)) {
            slc[block] = true;
        }
        let mut ftl = PageFtl {
            by_pages: Divisor::new(config.pages),
            by_planes: Divisor::new(config.planes),
            l2p: vec![NONE; config.lpns as usize],
            p2l: vec![NONE; blocks * config.pages as usize],
            index: Index::new(config.blocks),
            state,
            written: vec![0; blocks],
            erases,
            free: FreeBlocks::new(config.wear),
            slc,
            slc_free: FreeBlocks::new(config.wear),
            slc_closed: VecDeque::new(),
            frontiers: [Frontier::default(); 4],
            job: None,
            fold: None,
            failing: VecDeque::new(),
            fruitless: 0,
            spread: Spread::new(std::iter::empty()),
            since_levelled: 0,
            clock: 0,
            clock_before: 0,
            rng,
            programmed: CauseCounts::default(),
            erased: CauseCounts::default(),
            folded: 0,
            retired: 0,
            config,
        };
        ftl.spread = ftl.spread_of_good_blocks();
        Ok(ftl)
    }

    /// The configuration that the FTL was built with.
    pub fn config(&self) -> &PageConfig {
        &self.config
    }

    /// Number of free blocks, without those in SLC mode.
    pub fn free_blocks(&self) -> u32 {
        self.free.len()
    }

    /// Number of good blocks, including those in SLC mode.
    pub fn good_blocks(&self) -> u32 {
        self.state.iter().filter(|&&state| state != BlockState::Bad).count() as u32
    }

    /// Number of blocks retired since the FTL was built.
    pub fn retired_blocks(&self) -> u32 {
        self.retired
    }

    /// State of a block in its life cycle.
    pub fn block_state(&self, block: u32) -> BlockState {
        self.state[block as usize]
    }

    /// Number of pages of a block that hold the newest contents of a logical page.
    pub fn valid_pages(&self, block: u32) -> u32 {
        self.index.valid(block)
    }

    /// Number of pages of a block allocated since its erase. These are its first pages.
    pub fn handed_out(&self, block: u32) -> u32 {
        let left = self.frontiers.iter().find(|frontier| self.is_frontier(**frontier, block)).map_or(0, |f| f.room());
        self.written[block as usize] - left
    }

    /// The block that a physical page belongs to.
    #[inline]
    pub fn block_of(&self, ppn: u32) -> u32 {
        self.by_pages.quotient(ppn)
    }

    /// Pages allocated, by cause: host pages, and copies for collection (folding included), for levelling, and for
    /// emptying failing blocks ([`Cause::Recovery`]).
    pub fn programmed(&self) -> &CauseCounts {
        &self.programmed
    }

    /// Erases requested, by cause.
    pub fn erasures(&self) -> &CauseCounts {
        &self.erased
    }

    /// Pages copied out of SLC blocks; also counted under [`Cause::Gc`].
    pub fn folded_pages(&self) -> u64 {
        self.folded
    }

    fn is_frontier(&self, frontier: Frontier, block: u32) -> bool {
        frontier.room() > 0 && self.block_of(frontier.next) == block
    }

    fn become_state(&mut self, block: u32, next: BlockState) {
        let state = &mut self.state[block as usize];
        debug_assert!(state.may_become(next), "block {block}: {state:?} became {next:?}");
        *state = next;
    }

    fn spread_of_good_blocks(&self) -> Spread {
        let good = self.state.iter().zip(&self.erases).filter(|&(&state, _)| state != BlockState::Bad);
        Spread::new(good.map(|(_, &erases)| erases))
    }

    fn put_free(&mut self, block: u32) {
        let pool = if self.slc[block as usize] { &mut self.slc_free } else { &mut self.free };
        pool.put(block, self.erases[block as usize]);
    }

    /// Number of pages of a block, in its mode (SLC or normal).
    fn capacity(&self, block: u32) -> u32 {
        match self.config.slc {
            Some(slc) if self.slc[block as usize] => slc.pages,
            _ => self.config.pages,
        }
    }

    /// Index of the frontier for pages copied by collection.
    fn copied(&self) -> usize {
        if self.config.separate { COPIED } else { HOST }
    }

    /// Opens a free block if `frontier` has no open one. Returns whether it has one now.
    fn open(&mut self, frontier: usize) -> bool {
        if self.frontiers[frontier].room() > 0 {
            return true;
        }
        let block = match frontier {
            SLC => self.slc_free.take(false),
            _ => self.free.take(frontier != HOST),
        };
        let Some(block) = block else {
            return false;
        };
        self.become_state(block, BlockState::Open);
        let capacity = self.capacity(block);
        self.written[block as usize] = capacity;
        let next = block * self.config.pages;
        self.frontiers[frontier] = Frontier { next, end: next + capacity };
        true
    }

    /// Allocates the next page of an open `frontier` to `lpn`, and invalidates its old page.
    fn hand_out(&mut self, frontier: usize, lpn: u32, cause: Cause) -> u32 {
        self.forget(lpn);
        self.put_next(frontier, lpn, cause)
    }

    /// Allocates the next page of an open `frontier` to the page at `from` in `victim`, and invalidates that one.
    #[inline]
    fn hand_out_copy(&mut self, frontier: usize, victim: u32, from: u32, cause: Cause) -> u32 {
        let lpn = std::mem::replace(&mut self.p2l[from as usize], NONE);
        debug_assert_eq!((self.l2p[lpn as usize], self.block_of(from)), (from, victim));
        self.index.remove_valid(victim, 1);
        self.put_next(frontier, lpn, cause)
    }

    /// Maps `lpn`, which is mapped to no page, to the next page of an open `frontier`.
    #[inline]
    fn put_next(&mut self, frontier: usize, lpn: u32, cause: Cause) -> u32 {
        let ppn = self.frontiers[frontier].next;
        self.l2p[lpn as usize] = ppn;
        self.p2l[ppn as usize] = lpn;
        let block = self.block_of(ppn);
        self.index.add_valid(block, 1);
        self.programmed[cause] += 1;
        self.advance_frontier(frontier, block, 1);
        ppn
    }

    /// Moves a frontier past `pages` allocated pages of its block. The block is closed with its last page.
    #[inline]
    fn advance_frontier(&mut self, frontier: usize, block: u32, pages: u32) {
        self.clock += u64::from(pages);
        self.frontiers[frontier].next += pages;
        if self.frontiers[frontier].room() == 0 {
            self.frontiers[frontier] = Frontier::default();
            self.become_state(block, BlockState::Closed);
            if frontier == SLC {
                self.slc_closed.push_back(block);
            } else {
                self.index.insert(block, self.clock);
            }
        }
    }

    /// Unmaps `lpn` and invalidates its page.
    #[inline]
    fn forget(&mut self, lpn: u32) {
        let old = std::mem::replace(&mut self.l2p[lpn as usize], NONE);
        if old != NONE {
            self.p2l[old as usize] = NONE;
            self.index.invalidate(self.by_pages.quotient(old));
        }
    }
}

impl UnitFtl for PageFtl {
    fn lpns(&self) -> u32 {
        self.config.lpns
    }

    fn handed_out(&self, block: u32) -> u32 {
        PageFtl::handed_out(self, block)
    }

    #[inline]
    fn lookup(&self, lpn: u32) -> u32 {
        self.l2p[lpn as usize]
    }

    #[inline]
    fn holds(&self, ppn: u32) -> u32 {
        self.p2l[ppn as usize]
    }

    #[inline]
    fn expect(&self, lpn: u32) {
        prefetch(&self.l2p, lpn as usize);
    }

    #[inline]
    fn expect_place(&self, lpn: u32) {
        prefetch(&self.p2l, self.l2p[lpn as usize] as usize);
    }

    fn place(&mut self, lpn: u32) -> Place {
        match self.make_room() {
            Ok(frontier) => {
                self.host_page_comes();
                Place::At(self.hand_out(frontier, lpn, Cause::Host))
            }
            Err(refusal) => refusal,
        }
    }

    fn follows(&self, ppn: u32, _: u32) -> bool {
        self.by_planes.remainder(ppn) + 1 < self.config.planes && self.undisturbed().is_some_and(|next| next == ppn + 1)
    }

    fn housekeeping(&mut self) -> Option<Step> {
        self.idle_step()
    }

    fn trim(&mut self, lpn: u32) {
        self.forget(lpn);
    }

    fn erased(&mut self, block: u32, ok: bool) {
        let at = block as usize;
        debug_assert_eq!(self.state[at], BlockState::Erasing, "block {block} was not to be erased");
        self.erases[at] += 1;
        self.since_levelled = self.since_levelled.saturating_add(1);
        self.written[at] = 0;
        let mut same_blocks = true;
        if ok {
            self.become_state(block, BlockState::Free);
            self.put_free(block);
        } else {
            self.become_state(block, BlockState::Bad);
            self.retired += 1;
            same_blocks = false;
        }
        if !same_blocks || !self.spread.rose(self.erases[at] - 1) {
            self.spread = self.spread_of_good_blocks();
        }
    }

    fn program_failed(&mut self, ppn: u32) {
        let lpn = self.p2l[ppn as usize];
        if lpn != NONE {
            self.forget(lpn);
        }
        self.give_up(self.block_of(ppn));
    }

    #[inline]
    fn uses_slc(&self) -> bool {
        self.config.slc.is_some()
    }

    #[inline]
    fn is_slc(&self, block: u32) -> bool {
        self.slc[block as usize]
    }

    fn erase_counts(&self) -> &[u32] {
        &self.erases
    }

    fn write_untimed(&mut self, lpns: &[u32], tally: &mut Tally) -> Result<(), usize> {
        self.write_at_once(lpns, tally)
    }
}

impl PageFtl {
    /// `threshold` and `every` of static wear levelling; `None` under other policies.
    fn levels(&self) -> Option<(u32, u32)> {
        match self.config.wear {
            Wear::Static { threshold, every } => Some((threshold, every)),
            Wear::None | Wear::Dynamic => None,
        }
    }
}
