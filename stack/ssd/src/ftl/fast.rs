//! Fully associative sector translation: one sequential log block, and log blocks that any logical blocks share.
//!
//! Source: Lee, Park, Chung, Lee, Park and Song, "A log buffer-based flash translation layer using fully-associative
//! sector translation", ACM Transactions on Embedded Computing Systems 6(3), 2007; its abstract, and summaries of the
//! rest: the full text was not at hand. A write of a logical block's first page
//! opens the sequential log block for it, after merging the one before; the pages that follow in order are appended. A
//! page of the same logical block out of order closes it: it is merged, by a switch or partially. All others go to the
//! random log blocks, in the order of writing. When those are full, the oldest is emptied: each logical block that has
//! a page in it is merged fully, with its newest pages wherever they are.
//!
//! Ours, beyond the ascending order in data blocks (see [`bast`](super::bast)): a page that closes the sequential log block goes to the
//! random ones; a random log block without a valid page is erased without a merge; when so many blocks have failed that
//! only one log block is left, it is a random one.

use super::hybrid::{Core, HybridConfig, HybridCounts, Roles, Scanned};
use super::page::ConfigError;
use super::{NONE, Place, Step, UnitFtl};

/// Blocks left for merging.
const SPARE: u32 = 1;

/// The layer of one unit.
#[derive(Clone, Debug)]
pub struct Fast {
    core: Core,
}

impl Fast {
    /// Over erased blocks. Errors: numbers that do not go together; fewer than two log blocks; fewer good blocks than
    /// logical blocks, log blocks and one to merge into.
    pub fn new(config: HybridConfig) -> Result<Fast, ConfigError> {
        Fast::check_logs(&config)?;
        Ok(Fast { core: Core::new(config, SPARE)? })
    }

    /// From the erase counts and every programmed page: physical page, logical page, and a number that grew with each
    /// write (copies may carry their source's); `None` for padding. Trims are forgotten. Errors: as for
    /// [`new`](Self::new); a page out of range.
    pub fn rebuild(
        config: HybridConfig,
        erases: Vec<u32>,
        scan: impl IntoIterator<Item = Scanned>,
    ) -> Result<Fast, ConfigError> {
        Fast::check_logs(&config)?;
        Ok(Fast { core: Core::rebuild(config, SPARE, Roles::Shared, erases, scan)? })
    }

    fn check_logs(config: &HybridConfig) -> Result<(), ConfigError> {
        if config.logs >= 2 {
            return Ok(());
        }
        let expected = "at least 2: a sequential one and a random one".to_owned();
        Err(ConfigError { what: "log blocks of a unit", found: config.logs.into(), expected })
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
        self.core.opened() + self.core.shared.len() as u32
    }

    /// Asserts the invariants, at a cost of every page.
    pub fn check(&self) {
        self.core.check();
        assert!(self.core.opened() <= 1, "one sequential log block");
    }

    /// Whether there is a sequential log block besides the random ones.
    #[inline]
    fn has_sequential(&self) -> bool {
        self.core.log_limit(SPARE) > 1
    }

    /// The block that takes `lpn` as it is.
    #[inline]
    fn ready(&self, lpn: u32) -> Option<u32> {
        if self.core.busy() {
            return None;
        }
        let (logical, offset) = self.core.split(lpn);
        let held = self.core.logical(logical);
        if held.log != NONE {
            return self.core.takes_next(held.log, offset).then_some(held.log);
        }
        if self.core.takes_next(held.data, offset) {
            return Some(held.data);
        }
        if offset == 0 && (held.data == NONE || self.has_sequential()) {
            return None;
        }
        self.core.shared.back().copied().filter(|&block| self.core.has_room(block))
    }

    /// What has to come before `lpn`.
    fn open(&mut self, lpn: u32) -> Next {
        let (logical, offset) = self.core.split(lpn);
        let sequential = self.has_sequential();
        let core = &mut self.core;
        let held = *core.logical(logical);
        let owner = core.least_recent_log();
        if held.log != NONE {
            return Next::Merge(logical);
        }
        let opened = if offset == 0 && held.data == NONE {
            core.take_data(logical, SPARE as usize)
        } else if offset == 0 && sequential {
            if let Some(owner) = owner {
                return Next::Merge(owner);
            }
            core.take_log(logical, SPARE as usize)
        } else if core.shared.len() as u32 + u32::from(sequential) < core.log_limit(SPARE) {
            core.take_shared(SPARE as usize)
        } else {
            None
        };
        if let Some(block) = opened {
            return Next::Write(block);
        }
        match (core.shared.front().copied(), owner) {
            (Some(oldest), None) if core.empty(oldest) => Next::Work,
            (Some(oldest), Some(_)) if sequential && core.empty(oldest) => Next::Work,
            (_, Some(owner)) => Next::Merge(owner),
            (_, None) => Next::Nothing,
        }
    }
}

/// What comes next where no block takes a page as it is.
enum Next {
    /// Write to this block, just opened.
    Write(u32),
    /// Merge this logical block.
    Merge(u32),
    /// The work that there is now.
    Work,
    /// Nothing makes room.
    Nothing,
}

impl UnitFtl for Fast {
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
        loop {
            if let Some(step) = self.core.work() {
                return Place::Work(step);
            }
            if let Some(block) = self.ready(lpn) {
                return Place::At(self.core.write(block, lpn));
            }
            let goes_on = match self.open(lpn) {
                Next::Write(block) => return Place::At(self.core.write(block, lpn)),
                Next::Merge(logical) => self.core.begin(logical),
                Next::Work => true,
                Next::Nothing => false,
            };
            if !goes_on && !self.core.relieve() {
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
