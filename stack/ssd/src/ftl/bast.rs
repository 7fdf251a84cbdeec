//! Block-associative sector translation: a log block for each logical block that is being overwritten.
//!
//! Source: Kim, Kim, Noh, Min and Cho, "A space-efficient flash translation layer for CompactFlash systems", IEEE
//! Transactions on Consumer Electronics 48(2), 2002, as later papers tell it (Lee et al. 2007, section 2). A page goes
//! into the data block of its logical block if it is the next there, else into the log block, in the order of writing.
//! A full log block is merged with its data block: by a switch if it holds all pages in order, partially if it holds
//! the first ones in order, fully else. If all log blocks are in use, the one written least recently is merged first.
//!
//! Ours: NAND blocks are programmed in ascending order, so a first write beyond a data block's next page goes to the log too
//! (2002's parts allowed any order); a data block is taken when the first page of its logical block is written, or by
//! a merge. Complete log blocks in order are switched in idle times.

use super::hybrid::{Core, HybridConfig, HybridCounts, Roles, Scanned};
use super::page::ConfigError;
use super::{Place, Step, UnitFtl};

/// Blocks left for merging.
const SPARE: u32 = 1;

/// The layer of one unit.
#[derive(Clone, Debug)]
pub struct Bast {
    core: Core,
}

impl Bast {
    /// Over erased blocks. Errors: numbers that do not go together; fewer good blocks than logical blocks, log blocks
    /// and one to merge into.
    pub fn new(config: HybridConfig) -> Result<Bast, ConfigError> {
        Ok(Bast { core: Core::new(config, SPARE)? })
    }

    /// From the erase counts and every programmed page: physical page, logical page, and a number that grew with each
    /// write (copies may carry their source's); `None` for padding. Trims are forgotten. Errors: as for
    /// [`new`](Self::new); a page out of range.
    pub fn rebuild(
        config: HybridConfig,
        erases: Vec<u32>,
        scan: impl IntoIterator<Item = Scanned>,
    ) -> Result<Bast, ConfigError> {
        Ok(Bast { core: Core::rebuild(config, SPARE, Roles::Own, erases, scan)? })
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

    /// Log blocks in use.
    pub fn log_blocks(&self) -> u32 {
        self.core.opened()
    }

    /// Asserts the invariants, at a cost of every page.
    pub fn check(&self) {
        self.core.check();
    }

    /// The block that takes `lpn` as it is.
    #[inline]
    fn ready(&self, lpn: u32) -> Option<u32> {
        if self.core.busy() {
            return None;
        }
        let (logical, offset) = self.core.split(lpn);
        let held = self.core.logical(logical);
        if self.core.takes_next(held.data, offset) {
            return Some(held.data);
        }
        self.core.has_room(held.log).then_some(held.log)
    }

    /// Opens a block for `lpn`.
    fn open(&mut self, lpn: u32) -> Option<u32> {
        let (logical, offset) = self.core.split(lpn);
        let core = &mut self.core;
        if offset == 0 && core.logical(logical).data == super::NONE {
            return core.take_data(logical, SPARE as usize);
        }
        if core.opened() < core.log_limit(SPARE) { core.take_log(logical, SPARE as usize) } else { None }
    }
}

impl UnitFtl for Bast {
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
        let (logical, _) = self.core.split(lpn);
        loop {
            if let Some(step) = self.core.work() {
                return Place::Work(step);
            }
            if let Some(block) = self.ready(lpn) {
                return Place::At(self.core.write(block, lpn));
            }
            let merged = if self.core.logical(logical).log != super::NONE {
                // Full, or failed.
                Some(logical)
            } else if let Some(block) = self.open(lpn) {
                return Place::At(self.core.write(block, lpn));
            } else {
                self.core.least_recent_log()
            };
            if !merged.is_some_and(|logical| self.core.begin(logical)) && !self.core.relieve() {
                return Place::Full;
            }
        }
    }

    #[inline]
    fn follows(&self, ppn: u32, lpn: u32) -> bool {
        self.core.comes_after(ppn, self.ready(lpn))
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
