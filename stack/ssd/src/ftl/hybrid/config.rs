//! Configuration of the FTLs that map blocks.

use super::LogKind;
use crate::ftl::page::ConfigError;

/// Size of a unit and of its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HybridConfig {
    /// Blocks of the unit, bad ones included.
    pub blocks: u32,
    /// Pages of a block of the unit, over all its planes.
    pub pages: u32,
    /// Planes operated together: consecutive pages of a block are on consecutive planes.
    pub planes: u32,
    /// Logical pages of the unit.
    pub lpns: u32,
    /// Log blocks in use at once, including the sequential one of FAST; for block mapping, replacement blocks.
    pub logs: u32,
    /// Numbers of the factory bad blocks.
    pub bad: Vec<u32>,
}

impl HybridConfig {
    /// A configuration with one plane and no bad block.
    pub fn new(blocks: u32, pages: u32, lpns: u32, logs: u32) -> HybridConfig {
        HybridConfig { blocks, pages, planes: 1, lpns, logs, bad: Vec::new() }
    }

    /// Number of logical blocks: the most data blocks that are needed.
    pub fn logical_blocks(&self) -> u32 {
        self.lpns.div_ceil(self.pages.max(1))
    }

    /// Number of blocks that are not factory bad blocks.
    pub fn good_blocks(&self) -> u32 {
        let mut bad = self.bad.clone();
        bad.sort_unstable();
        bad.dedup();
        self.blocks.saturating_sub(bad.len() as u32)
    }

    /// Errors: an inconsistent configuration; too few log blocks for the kind; too few good blocks if `spare` are
    /// reserved for merges.
    pub(super) fn check(&self, spare: u32, logs: LogKind) -> Result<(), ConfigError> {
        let refuse = |what, found: u32, expected: String| Err(ConfigError { what, found: found.into(), expected });
        if self.pages == 0 || u64::from(self.blocks) * u64::from(self.pages) >= 1 << 31 {
            let most = "1 or more, with fewer than 2^31 pages in the unit";
            return refuse("pages of a unit's block", self.pages, most.into());
        }
        if self.planes == 0 || !self.pages.is_multiple_of(self.planes) {
            let expected = format!("a divisor of the {} pages of a unit's block", self.pages);
            return refuse("planes of a unit", self.planes, expected);
        }
        if let Some(&block) = self.bad.iter().find(|&&block| block >= self.blocks) {
            return refuse("bad block", block, format!("below {}", self.blocks));
        }
        if self.lpns == 0 {
            return refuse("logical pages of a unit", 0, "at least 1".into());
        }
        let (least, why) = match logs {
            LogKind::PerBlock | LogKind::InPlace => (1, "at least 1"),
            LogKind::Shared => (2, "at least 2: a sequential one and a random one"),
        };
        if self.logs < least {
            return refuse("log blocks of a unit", self.logs, why.into());
        }
        let data = self.logical_blocks();
        let needed = u64::from(data) + u64::from(self.logs) + u64::from(spare);
        if u64::from(self.good_blocks()) < needed {
            let expected = format!(
                "{needed} or more: {data} for {} logical pages of {} a block, {} log blocks, {spare} to merge into",
                self.lpns, self.pages, self.logs
            );
            return refuse("good blocks of a unit", self.good_blocks(), expected);
        }
        Ok(())
    }
}
