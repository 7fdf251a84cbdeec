//! Configuration of the page-level FTL, and the checks of it.

use crate::ftl::gc::GcPolicy;
use crate::ftl::wear::Wear;
use thiserror::Error;

/// How foreground garbage collection, which the host waits for, is spread over host pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Foreground {
    /// When the host needs a block and no more than `gc_low` are free, victims are collected completely, one after the
    /// other.
    #[default]
    Block,
    /// A victim is always being collected once fewer than `gc_low + 2` blocks of pages are left, in free blocks and in
    /// frontiers. Its `v` valid pages of `p` are spread over the `p - v` host pages that it makes room for: before each
    /// row of them, a page on each plane, the share of its copies that is due, in whole rows. If room runs out all the
    /// same, as `Block`.
    Paced,
}

/// What happens to a host page if no page in SLC mode is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlcFull {
    /// It goes to a normal block; SLC blocks are folded when the unit is idle.
    #[default]
    Direct,
    /// It waits until the oldest SLC block is folded into normal blocks.
    Fold,
}

/// Blocks permanently in SLC mode (one bit a cell), as a write cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlcCache {
    /// Number of blocks: the first good blocks of the unit.
    pub blocks: u32,
    /// Pages of an SLC block; at most those of a normal block.
    pub pages: u32,
    /// What happens to host pages when it is full.
    pub when_full: SlcFull,
    /// Whether its blocks are folded while the unit is idle.
    pub folds_idle: bool,
}

/// Configuration of a page-level FTL of one unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageConfig {
    /// Blocks of the unit, bad ones included: at least 4.
    pub blocks: u32,
    /// Pages of a unit's block, over all its planes.
    pub pages: u32,
    /// Logical pages of the unit. Over-provisioning as the literature defines it, spare over logical pages, is
    /// `blocks * pages / lpns - 1`.
    pub lpns: u32,
    /// Planes operated together: consecutive pages of a block are on consecutive planes.
    pub planes: u32,
    /// Numbers of the factory bad blocks, in any order.
    pub bad: Vec<u32>,
    /// Victim selection policy.
    pub gc: GcPolicy,
    /// Free blocks that the host may not open: at least 1. From 2 on the FTL also survives a failed program or erase,
    /// or a loss of power, in the middle of a collection.
    pub gc_low: u32,
    /// Background collection threshold: an idle unit collects while fewer blocks are free than this.
    pub gc_background: u32,
    /// Least number of invalid pages of a block that an idle unit collects: at least 1. With few of them it would copy a
    /// nearly full block for each page that the host writes, as often as the host leaves it idle, and wear the flash
    /// out for a reserve that it cannot reach.
    pub gc_background_gain: u32,
    /// How foreground collection is spread over host pages.
    pub foreground: Foreground,
    /// Whether copied pages have a frontier apart from host pages.
    pub separate: bool,
    /// Wear levelling policy.
    pub wear: Wear,
    /// The SLC write cache; `None`: no block is in SLC mode.
    pub slc: Option<SlcCache>,
}

/// An invalid configuration of an FTL.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{what}: found {found}, expected {expected}")]
pub struct ConfigError {
    /// The setting that is invalid, in words.
    pub what: &'static str,
    /// Its value.
    pub found: u64,
    /// The valid values, in words.
    pub expected: String,
}

impl PageConfig {
    /// Greedy collection when the host needs a block and two or fewer are free, and of blocks an eighth of which is
    /// invalid when idle (FEMU's rule: `select_victim_line` without `force`); copied pages apart; dynamic wear
    /// levelling; one plane, no bad block, no SLC cache.
    pub fn new(blocks: u32, pages: u32, lpns: u32) -> PageConfig {
        PageConfig {
            blocks,
            pages,
            lpns,
            planes: 1,
            bad: Vec::new(),
            gc: GcPolicy::Greedy,
            gc_low: 2,
            gc_background: 4,
            gc_background_gain: (pages / 8).max(1),
            foreground: Foreground::Block,
            separate: true,
            wear: Wear::Dynamic,
            slc: None,
        }
    }

    /// Largest number of logical pages that the FTL can guarantee to hold and still collect: all pages of good normal
    /// blocks except those of `gc_low` blocks and of a frontier each for copied (if `separate`) and for levelled data,
    /// minus one page.
    ///
    /// With this number, and all of them valid, some closed block still has an invalid page whenever the host finds no
    /// room, so that collecting it makes progress.
    pub fn most_lpns(&self) -> u64 {
        let mut bad = self.bad.clone();
        bad.sort_unstable();
        bad.dedup();
        let used = bad.len() as u64
            + u64::from(self.slc.map_or(0, |slc| slc.blocks))
            + u64::from(self.gc_low)
            + u64::from(self.separate)
            + u64::from(self.wear.moves());
        (u64::from(self.blocks).saturating_sub(used) * u64::from(self.pages)).saturating_sub(1)
    }

    /// Pages of the unit that hold no data when a victim is chosen, on average: a number of blocks that does not depend
    /// on the size of the unit. The rest of the spare decides write amplification.
    ///
    /// `gc_low` blocks are free. With `separate`, the frontier of copies is half full. Paced collection begins when
    /// two blocks beyond `gc_low` are left, frontiers included.
    pub fn reserved_pages(&self) -> f64 {
        let beyond = match self.foreground {
            Foreground::Block if self.separate => 0.5,
            Foreground::Block => 0.0,
            Foreground::Paced => 2.0,
        };
        (f64::from(self.gc_low) + beyond) * f64::from(self.pages)
    }

    /// Errors: an inconsistent configuration; too many logical pages.
    pub fn check(&self) -> Result<(), ConfigError> {
        let refuse = |what, found: u64, expected: String| Err(ConfigError { what, found, expected });
        if self.blocks < 4 {
            return refuse("blocks of a unit", self.blocks.into(), "at least 4".into());
        }
        if self.pages == 0 || u64::from(self.blocks) * u64::from(self.pages) >= 1 << 31 {
            let most = "1 or more, with fewer than 2^31 pages in the unit";
            return refuse("pages of a unit's block", self.pages.into(), most.into());
        }
        if self.planes == 0 || !self.pages.is_multiple_of(self.planes) {
            let expected = format!("a divisor of the {} pages of a unit's block", self.pages);
            return refuse("planes of a unit", self.planes.into(), expected);
        }
        if let Some(&block) = self.bad.iter().find(|&&block| block >= self.blocks) {
            return refuse("bad block", block.into(), format!("below {}", self.blocks));
        }
        if self.gc_low == 0 {
            return refuse("gc_low", 0, "at least 1: a collection needs a block to copy to".into());
        }
        if self.gc_background_gain == 0 {
            return refuse("gc_background_gain", 0, "at least 1: a collection that frees no page never ends".into());
        }
        match self.gc {
            GcPolicy::DChoices { d: 0 } => return refuse("gc d", 0, "at least 1".into()),
            GcPolicy::Windowed { window: 0 } => return refuse("gc window", 0, "at least 1".into()),
            _ => {}
        }
        if let Wear::Static { every: 0, .. } = self.wear {
            return refuse("wear every", 0, "at least 1".into());
        }
        if let Some(slc) = self.slc
            && (slc.pages == 0 || slc.pages > self.pages || !slc.pages.is_multiple_of(self.planes))
        {
            let expected = format!("1 to {}, a multiple of the {} planes", self.pages, self.planes);
            return refuse("pages of an SLC block", slc.pages.into(), expected);
        }
        let most = self.most_lpns();
        if self.lpns == 0 || u64::from(self.lpns) > most {
            let expected = format!(
                "1 to {most}: {} blocks of {} pages, less {} bad, {} in SLC mode, {} kept free by gc_low, {} frontiers, 1 page",
                self.blocks,
                self.pages,
                self.bad.len(),
                self.slc.map_or(0, |slc| slc.blocks),
                self.gc_low,
                u32::from(self.separate) + u32::from(self.wear.moves()),
            );
            return refuse("logical pages of a unit", self.lpns.into(), expected);
        }
        Ok(())
    }
}
