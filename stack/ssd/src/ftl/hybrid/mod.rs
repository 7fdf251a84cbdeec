//! What the older layers have in common: data blocks, log blocks, and merging them.
//!
//! [`BlockFtl`](super::block::BlockFtl), [`Bast`](super::bast::Bast) and [`Fast`](super::fast::Fast) map logical
//! *blocks*: the pages of logical block `b` are `b * pages..`, and a data block holds page `i` of its logical block in
//! its own page `i` or not at all. What cannot go there goes to a log block and is merged later. The layers differ only
//! in which log blocks they open and which they merge; the rest is here.
//!
//! The device that is modelled keeps small tables: a data block for each logical block, and a page table for its log
//! blocks. Here one table each way holds them all (`map`, `back`), since the truth is the same and looking up is one
//! load. Blocks are programmed in ascending order, page after page: where a data block must skip a page that holds
//! nothing, the page is padded.
//!
//! **Merges** bring the newest pages of one logical block into one block, which becomes its data block:
//! a *switch* needs no copy, since the log block holds every page in its place; a *partial* merge copies the pages
//! that are missing at the end of such a log block; a *full* merge copies every page to a fresh block. They run step by
//! step; the state is consistent between any two, so trims and failures may come in between.
//!
//! **Failures.** A block whose program failed takes no more pages. Its logical blocks are merged out of it, then it is
//! retired without being erased. A block whose erasure failed is retired.
//!
//! Knows: blocks, pages, roles. Does not know: which log block to merge, time, contents.
//!
//! Invariants (`Core::check`): `map[lpn] == ppn` exactly where `back[ppn] == lpn`; each block has one role and the role
//! that tables say; a data block's valid pages are in their places and of its logical block; valid pages lie below the
//! block's next page.

mod config;
mod merge;
mod proof;
mod rebuild;

pub use config::HybridConfig;
pub(super) use rebuild::Roles;
pub use rebuild::Scanned;

use super::page::ConfigError;
use super::{NONE, Step};
use sim::Cause;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// What a layer has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HybridCounts {
    /// Merges without a copy.
    pub switch_merges: u64,
    /// Merges that copied the pages missing at a log block's end.
    pub partial_merges: u64,
    /// Merges that copied from the first page.
    pub full_merges: u64,
    /// Pages placed for the host.
    pub host_pages: u64,
    /// Pages copied.
    pub copied_pages: u64,
    /// Pages padded.
    pub padded_pages: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Blocks retired since the layer was made: programs or erasures failed.
    pub retired: u64,
}

/// What a block is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Erased.
    Free,
    /// Holds a logical block's pages in their places.
    Data,
    /// Log block of one logical block.
    Log,
    /// Log block of any logical blocks.
    Shared,
    /// Becomes the data block of the logical block being merged.
    Target,
    /// Holds valid pages and fits no other role: to be merged away.
    Orphan,
    /// Holds nothing valid.
    Stale,
    /// An erasure was asked for.
    Erasing,
    /// Not to be used.
    Bad,
}

impl Role {
    /// The table of legal moves.
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
    /// The logical block, of a data, log or target block.
    pub(super) owner: u32,
    /// Pages handed out since it was erased.
    pub(super) next: u32,
    /// Pages that hold the newest contents of some logical page.
    pub(super) valid: u32,
    /// When a page was last written here by the host: numbers of host pages.
    pub(super) stamp: u64,
    /// A program failed here.
    flawed: bool,
    /// To be emptied.
    leaving: bool,
    /// Pages were copied here before the host's.
    copied: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Logical {
    /// Its data block, or [`NONE`].
    pub(super) data: u32,
    /// Its own log block, or [`NONE`].
    pub(super) log: u32,
    /// Its pages that hold something, wherever.
    live: u32,
}

/// The merge in progress.
#[derive(Clone, Copy, Debug)]
struct Merge {
    logical: u32,
    target: u32,
    /// Offset after the last page to be copied.
    end: u32,
    /// Whether the target was empty, or had pages copied to it, when the merge began.
    full: bool,
    /// Whether anything was copied.
    copied: bool,
}

/// Blocks, pages and merges of one unit.
#[derive(Clone, Debug)]
pub(super) struct Core {
    pub(super) config: HybridConfig,
    map: Vec<u32>,
    back: Vec<u32>,
    blocks: Vec<Block>,
    erases: Vec<u32>,
    logical: Vec<Logical>,
    /// Logical blocks with a log block of their own.
    opened: Vec<u32>,
    /// Shared log blocks, oldest first.
    pub(super) shared: VecDeque<u32>,
    /// Erased blocks, least worn first, the lowest number on a tie.
    free: BinaryHeap<Reverse<(u32, u32)>>,
    stale: VecDeque<u32>,
    /// Blocks to be emptied; each has a valid page.
    emptying: VecDeque<u32>,
    merge: Option<Merge>,
    /// Emptying found no block to merge to, and none was freed since.
    stuck: bool,
    /// Blocks neither bad nor flawed.
    good: u32,
    pub(super) counts: HybridCounts,
}

impl Core {
    /// Over erased blocks. Errors: see [`HybridConfig::check`].
    pub(super) fn new(config: HybridConfig, spare: u32) -> Result<Core, ConfigError> {
        let mut core = Core::without_free_blocks(config, spare)?;
        core.gather_free();
        Ok(core)
    }

    fn without_free_blocks(config: HybridConfig, spare: u32) -> Result<Core, ConfigError> {
        config.check(spare)?;
        let empty = Block {
            role: Role::Free,
            owner: NONE,
            next: 0,
            valid: 0,
            stamp: 0,
            flawed: false,
            leaving: false,
            copied: false,
        };
        let mut core = Core {
            map: vec![NONE; config.lpns as usize],
            back: vec![NONE; config.blocks as usize * config.pages as usize],
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
        for at in 0..core.config.bad.len() {
            let block = core.config.bad[at];
            core.blocks[block as usize].role = Role::Bad;
        }
        Ok(core)
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

    #[inline]
    pub(super) fn lookup(&self, lpn: u32) -> u32 {
        self.map[lpn as usize]
    }

    #[inline]
    pub(super) fn holds(&self, ppn: u32) -> u32 {
        self.back[ppn as usize]
    }

    /// Pages of a block handed out since it was erased; none of one that is to be erased.
    pub(super) fn handed_out(&self, block: u32) -> u32 {
        let held = self.block(block);
        if matches!(held.role, Role::Erasing | Role::Bad) { 0 } else { held.next }
    }

    pub(super) fn erase_counts(&self) -> &[u32] {
        &self.erases
    }

    /// Logical block of a page, and the page's number in it.
    #[inline]
    pub(super) fn split(&self, lpn: u32) -> (u32, u32) {
        (lpn / self.config.pages, lpn % self.config.pages)
    }

    #[inline]
    fn block_of(&self, ppn: u32) -> u32 {
        ppn / self.config.pages
    }

    /// Blocks neither bad nor flawed.
    pub(super) fn good(&self) -> u32 {
        self.good
    }

    /// Log blocks that may be in use at once: fewer than configured when blocks have failed. `spare` blocks are left for
    /// merging.
    pub(super) fn log_limit(&self, spare: u32) -> u32 {
        self.config.logs.min(self.good.saturating_sub(self.logical.len() as u32 + spare))
    }

    /// Log blocks of one logical block each, in use.
    pub(super) fn opened(&self) -> u32 {
        self.opened.len() as u32
    }

    /// Whether a block can take the host's next page.
    #[inline]
    pub(super) fn has_room(&self, block: u32) -> bool {
        block != NONE && {
            let block = self.block(block);
            block.next < self.config.pages && !block.flawed && !block.leaving
        }
    }

    /// Whether a block can take the host's next page at `offset`.
    #[inline]
    pub(super) fn takes_next(&self, block: u32, offset: u32) -> bool {
        self.has_room(block) && self.block(block).next == offset
    }

    /// Whether work comes before the host's next page.
    #[inline]
    pub(super) fn busy(&self) -> bool {
        self.merge.is_some() || !self.stale.is_empty() || (!self.emptying.is_empty() && !self.stuck)
    }

    /// Whether a host page at `at` would be placed after `ppn` in one operation over planes.
    #[inline]
    pub(super) fn comes_after(&self, ppn: u32, at: Option<u32>) -> bool {
        let next = ppn + 1;
        !next.is_multiple_of(self.config.planes)
            && at.is_some_and(|block| block * self.config.pages + self.block(block).next == next)
    }

    fn set_role(&mut self, block: u32, next: Role) {
        let role = &mut self.blocks[block as usize].role;
        debug_assert!(role.may_become(next), "block {block}: {role:?} became {next:?}");
        *role = next;
    }

    /// Takes a free block if more than `reserve` are left.
    fn take(&mut self, role: Role, owner: u32, reserve: usize) -> Option<u32> {
        if self.free.len() <= reserve {
            return None;
        }
        let Reverse((_, block)) = self.free.pop()?;
        self.set_role(block, role);
        self.blocks[block as usize].owner = owner;
        Some(block)
    }

    /// Gives a logical block an empty data block.
    pub(super) fn take_data(&mut self, logical: u32, reserve: usize) -> Option<u32> {
        debug_assert_eq!(self.logical(logical).data, NONE);
        let block = self.take(Role::Data, logical, reserve)?;
        self.logical[logical as usize].data = block;
        Some(block)
    }

    /// Gives a logical block an empty log block of its own.
    pub(super) fn take_log(&mut self, logical: u32, reserve: usize) -> Option<u32> {
        debug_assert_eq!(self.logical(logical).log, NONE);
        let block = self.take(Role::Log, logical, reserve)?;
        self.logical[logical as usize].log = block;
        self.opened.push(logical);
        Some(block)
    }

    /// Adds an empty shared log block.
    pub(super) fn take_shared(&mut self, reserve: usize) -> Option<u32> {
        let block = self.take(Role::Shared, NONE, reserve)?;
        self.shared.push_back(block);
        Some(block)
    }

    /// Places a host page in a block.
    pub(super) fn write(&mut self, block: u32, lpn: u32) -> u32 {
        self.counts.host_pages += 1;
        self.blocks[block as usize].stamp = self.counts.host_pages;
        self.put(block, lpn)
    }

    /// Puts the newest contents of `lpn` into a block's next page.
    fn put(&mut self, block: u32, lpn: u32) -> u32 {
        let old = self.map[lpn as usize];
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
        self.map[lpn as usize] = ppn;
        self.back[ppn as usize] = lpn;
        ppn
    }

    /// Fills the next page of a data or log block with what belongs there: a copy, or padding.
    pub(super) fn fill(&mut self, block: u32) -> Step {
        let Block { owner, next, .. } = *self.block(block);
        let lpn = owner * self.config.pages + next;
        let from = self.map.get(lpn as usize).copied().unwrap_or(NONE);
        if from == NONE {
            self.blocks[block as usize].next += 1;
            self.counts.padded_pages += 1;
            return Step::Pad { at: block * self.config.pages + next };
        }
        let cause = match self.block(self.block_of(from)).flawed {
            true => Cause::Recovery,
            false => Cause::Gc,
        };
        self.blocks[block as usize].copied = true;
        self.counts.copied_pages += 1;
        Step::Copy { from, to: self.put(block, lpn), cause }
    }

    /// `lpn` holds nothing any more.
    pub(super) fn trim(&mut self, lpn: u32) {
        let ppn = std::mem::replace(&mut self.map[lpn as usize], NONE);
        if ppn == NONE {
            return;
        }
        self.forget(ppn);
        let logical = lpn / self.config.pages;
        self.logical[logical as usize].live -= 1;
        if self.logical(logical).live == 0 && self.merge.is_none_or(|merge| merge.logical != logical) {
            let Logical { data, log, .. } = *self.logical(logical);
            for block in [data, log].into_iter().filter(|&block| block != NONE) {
                self.let_go(block);
            }
        }
    }

    /// What a physical page holds is stale.
    #[inline]
    fn forget(&mut self, ppn: u32) {
        self.back[ppn as usize] = NONE;
        let block = self.block_of(ppn);
        let held = &mut self.blocks[block as usize];
        held.valid -= 1;
        if held.valid == 0 && held.leaving {
            self.let_go(block);
        }
    }

    /// Takes a block that holds nothing valid out of every table.
    fn let_go(&mut self, block: u32) {
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
        self.stay(block);
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

    /// An erasure is over.
    pub(super) fn erased(&mut self, block: u32, ok: bool) {
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

    /// A program failed: the page holds nothing, and its block takes no more.
    pub(super) fn program_failed(&mut self, ppn: u32) {
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
            // What it has is merged out of it again, elsewhere.
            self.merge = None;
            self.set_role(block, Role::Orphan);
            self.blocks[block as usize].owner = NONE;
        }
        let lpn = self.back[ppn as usize];
        if lpn != NONE {
            self.trim(lpn);
        }
        let held = *self.block(block);
        match held.role {
            Role::Data | Role::Log | Role::Shared | Role::Orphan if held.valid == 0 => self.let_go(block),
            Role::Data | Role::Log | Role::Shared | Role::Orphan => {
                self.leave(block);
            }
            Role::Stale => {
                self.stale.retain(|&stale| stale != block);
                self.retire(block);
            }
            Role::Free | Role::Target | Role::Erasing | Role::Bad => {}
        }
    }

    /// Has a block emptied before the host's next page. Returns false if it already is.
    fn leave(&mut self, block: u32) -> bool {
        if std::mem::replace(&mut self.blocks[block as usize].leaving, true) {
            return false;
        }
        self.emptying.push_back(block);
        self.stuck = false;
        true
    }

    /// A block is not to be emptied any more.
    fn stay(&mut self, block: u32) {
        if std::mem::replace(&mut self.blocks[block as usize].leaving, false) {
            self.emptying.retain(|&leaving| leaving != block);
        }
    }
}
