//! Wear levelling: which free block is allocated next, and when cold data move.
//!
//! This module knows erase counts; it knows neither pages nor mappings.

/// Wear levelling policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wear {
    /// No wear levelling: free blocks are used in the order in which they became free.
    None,
    /// Host data go to the least worn free block; copied data, which stay valid longer, to the most worn. If both share
    /// a frontier (open block), the least worn is allocated. The lowest block on a tie.
    #[default]
    Dynamic,
    /// As `Dynamic`, and cold data are moved as well: when the erase counts of the unit's good blocks differ by more
    /// than `threshold`, the valid pages of the coldest block (the closed block with the lowest erase count, the one
    /// closed first on a tie) go to the most worn free block.
    Static {
        /// Difference of erase counts above which blocks are levelled.
        threshold: u32,
        /// While the host writes, at most one block is levelled in this many erases; at least 1. An idle unit levels
        /// without this limit.
        every: u32,
    },
}

impl Wear {
    /// Whether the policy moves cold data, which then have a frontier of their own.
    pub const fn moves(self) -> bool {
        matches!(self, Wear::Static { .. })
    }
}

/// Free blocks, ordered as [`Wear`] allocates them.
#[derive(Clone, Debug)]
pub(super) struct FreeBlocks {
    /// (key, block). The key is the erase count; under [`Wear::None`], the turn at which the block became free.
    blocks: std::collections::BTreeSet<(u64, u32)>,
    by_wear: bool,
    turn: u64,
}

impl FreeBlocks {
    pub(super) fn new(wear: Wear) -> FreeBlocks {
        FreeBlocks { blocks: std::collections::BTreeSet::new(), by_wear: wear != Wear::None, turn: 0 }
    }

    pub(super) fn len(&self) -> u32 {
        self.blocks.len() as u32
    }

    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Adds a free block with its erase count.
    pub(super) fn put(&mut self, block: u32, erases: u32) {
        self.turn += 1;
        self.blocks.insert((if self.by_wear { u64::from(erases) } else { self.turn }, block));
    }

    /// Allocates a block, for data that will soon be overwritten or for data that stay (`cold`).
    pub(super) fn take(&mut self, cold: bool) -> Option<u32> {
        let worn = if cold && self.by_wear { self.blocks.pop_last() } else { self.blocks.pop_first() };
        worn.map(|(_, block)| block)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.blocks.iter().map(|&(_, block)| block)
    }
}

/// Lowest and highest erase count of the good blocks, maintained without a scan at every erase.
#[derive(Clone, Debug)]
pub(super) struct Spread {
    least: u32,
    at_least: u32,
    most: u32,
}

impl Spread {
    /// From the erase counts of all good blocks.
    pub(super) fn new(good: impl Iterator<Item = u32>) -> Spread {
        let mut spread = Spread { least: u32::MAX, at_least: 0, most: 0 };
        for erases in good {
            spread.most = spread.most.max(erases);
            if erases < spread.least {
                (spread.least, spread.at_least) = (erases, 0);
            }
            spread.at_least += u32::from(erases == spread.least);
        }
        spread
    }

    /// Notes that a good block's erase count rose by one, from `before`. Returns false if the spread must be built
    /// anew.
    #[must_use]
    pub(super) fn rose(&mut self, before: u32) -> bool {
        self.most = self.most.max(before + 1);
        self.at_least -= u32::from(before == self.least);
        self.at_least > 0
    }

    /// Difference between the highest and the lowest erase count.
    pub(super) fn difference(&self) -> u32 {
        self.most.saturating_sub(self.least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hot_data_take_the_least_worn_free_block_and_cold_data_the_most_worn() {
        let mut free = FreeBlocks::new(Wear::Dynamic);
        for (block, erases) in [(3, 7), (1, 2), (0, 2), (2, 9)] {
            free.put(block, erases);
        }
        assert_eq!([free.take(false), free.take(true), free.take(false)], [Some(0), Some(2), Some(1)]);
        let mut turns = FreeBlocks::new(Wear::None);
        for (block, erases) in [(3, 7), (1, 2), (0, 9)] {
            turns.put(block, erases);
        }
        assert_eq!([turns.take(true), turns.take(false), turns.take(true)], [Some(3), Some(1), Some(0)]);
    }

    proptest! {
        #[test]
        fn the_spread_is_that_of_all_counts(
            mut counts in prop::collection::vec(0u32..4, 1..9), rises in prop::collection::vec(any::<u32>(), 0..60),
        ) {
            let mut spread = Spread::new(counts.iter().copied());
            for rise in rises {
                let block = rise as usize % counts.len();
                counts[block] += 1;
                if !spread.rose(counts[block] - 1) {
                    spread = Spread::new(counts.iter().copied());
                }
                let difference = counts.iter().max().unwrap_or(&0) - counts.iter().min().unwrap_or(&0);
                prop_assert_eq!(spread.difference(), difference);
            }
        }
    }
}
