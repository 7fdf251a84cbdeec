//! Block-level mapping: a logical block lies in one physical block, each page in its place; overwriting copies.
//!
//! The algorithm is that of early cards and disks with replacement blocks, in NAND's ascending order. A page beyond the
//! last one written of its block is programmed there, and what it skips is padded. A page before it opens a
//! *replacement block*: the pages before the one to be written are copied, then it is written; later pages are written
//! there as long as they come in ascending order, with those between them copied. A page that goes back, or one of
//! another logical block when all replacement blocks are in use (the one written least recently is chosen), closes it:
//! the pages after are copied, the replacement is the data block from then on, and the old one is erased.
//!
//! A closing counts as a switch if nothing was copied at all, as partial if only the end was, as full if pages before the
//! first one written were copied. A block takes part in wear levelling only in that the least worn free block is taken.

use super::hybrid::{Core, HybridConfig, HybridCounts, Roles, Scanned};
use super::page::ConfigError;
use super::{NONE, Place, Step, UnitFtl};

/// Blocks left for merging: none, since a replacement block is what is merged into.
const SPARE: u32 = 0;

/// The layer of one unit.
#[derive(Clone, Debug)]
pub struct BlockFtl {
    core: Core,
}

impl BlockFtl {
    /// Over erased blocks; `config.logs` replacement blocks may be open at once. Errors: numbers that do not go together;
    /// fewer good blocks than logical blocks and replacement blocks.
    pub fn new(config: HybridConfig) -> Result<BlockFtl, ConfigError> {
        Ok(BlockFtl { core: Core::new(config, SPARE)? })
    }

    /// From the erase counts and every programmed page: physical page, logical page, and a number that grew with each
    /// write (copies may carry their source's); `None` for padding. Trims are forgotten. Errors: as for
    /// [`new`](Self::new); a page out of range.
    pub fn rebuild(
        config: HybridConfig,
        erases: Vec<u32>,
        scan: impl IntoIterator<Item = Scanned>,
    ) -> Result<BlockFtl, ConfigError> {
        Ok(BlockFtl { core: Core::rebuild(config, SPARE, Roles::InOrder, erases, scan)? })
    }

    /// How it was made.
    pub fn config(&self) -> &HybridConfig {
        &self.core.config
    }

    /// What it has done.
    pub fn counts(&self) -> &HybridCounts {
        &self.core.counts
    }

    /// Blocks that are good.
    pub fn good_blocks(&self) -> u32 {
        self.core.good()
    }

    /// Replacement blocks open.
    pub fn log_blocks(&self) -> u32 {
        self.core.opened()
    }

    /// Asserts the invariants, at a cost of every page.
    pub fn check(&self) {
        self.core.check();
    }

    /// The block that takes `lpn`, perhaps after what it skips is filled.
    #[inline]
    fn goes_to(&self, lpn: u32) -> Option<u32> {
        if self.core.busy() {
            return None;
        }
        let (logical, offset) = self.core.split(lpn);
        let held = self.core.logical(logical);
        let block = if held.log == NONE { held.data } else { held.log };
        (self.core.has_room(block) && self.core.block(block).next <= offset).then_some(block)
    }
}

impl UnitFtl for BlockFtl {
    fn lpns(&self) -> u32 {
        self.core.config.lpns
    }

    #[inline]
    fn lookup(&self, lpn: u32) -> u32 {
        self.core.lookup(lpn)
    }

    #[inline]
    fn holds(&self, ppn: u32) -> u32 {
        self.core.holds(ppn)
    }

    fn place(&mut self, lpn: u32) -> Place {
        let (logical, offset) = self.core.split(lpn);
        loop {
            if let Some(step) = self.core.work() {
                return Place::Work(step);
            }
            if let Some(block) = self.goes_to(lpn) {
                if self.core.block(block).next < offset {
                    return Place::Work(self.core.fill(block));
                }
                return Place::At(self.core.write(block, lpn));
            }
            let held = *self.core.logical(logical);
            let opened = if held.data == NONE {
                self.core.take_data(logical, 0)
            } else if held.log == NONE && self.core.opened() < self.core.log_limit(SPARE) {
                self.core.take_log(logical, 0)
            } else {
                None
            };
            if opened.is_some() {
                continue;
            }
            let closed = if held.log != NONE { Some(logical) } else { self.core.least_recent_log() };
            if !closed.is_some_and(|logical| self.core.begin(logical)) && !self.core.relieve() {
                return Place::Full;
            }
        }
    }

    #[inline]
    fn follows(&self, ppn: u32, lpn: u32) -> bool {
        let (_, offset) = self.core.split(lpn);
        self.core.comes_after(ppn, self.goes_to(lpn).filter(|&block| self.core.takes_next(block, offset)))
    }

    fn housekeeping(&mut self) -> Option<Step> {
        self.core.housekeeping()
    }

    fn trim(&mut self, lpn: u32) {
        self.core.trim(lpn);
    }

    fn erased(&mut self, block: u32, ok: bool) {
        self.core.erased(block, ok);
    }

    fn program_failed(&mut self, ppn: u32) {
        self.core.program_failed(ppn);
    }

    fn handed_out(&self, block: u32) -> u32 {
        self.core.handed_out(block)
    }

    fn erase_counts(&self) -> &[u32] {
        self.core.erase_counts()
    }
}
