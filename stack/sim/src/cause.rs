//! Why bytes are programmed and blocks erased.

use std::ops::{Index, IndexMut};

/// Cause of flash work. Every programmed byte has exactly one, so the parts of write amplification sum to the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Cause {
    /// Data written by the layer above.
    Host,
    /// Headers that make a block usable: UBI's erase-counter and volume-identifier headers.
    Header,
    /// The volume table, the super block and other metadata of a format.
    Layout,
    /// Fastmap blocks.
    Fastmap,
    /// Blocks moved to level wear.
    WearLevel,
    /// Blocks moved because a read needed correction.
    Scrub,
    /// A failed write, repeated on another block.
    Recovery,
    /// Test patterns that decide whether a block is still good.
    Torture,
    /// Garbage collection.
    Gc,
    /// Mapping tables of a translation layer.
    Map,
    /// A file system's journal.
    Journal,
    /// A file system's index.
    Index,
    /// Dirty data written because of a flush.
    Flush,
    /// Pages without user data, programmed to complete a block: by a write buffer, or between two pages of a block that
    /// must be programmed in order.
    Padding,
}

impl Cause {
    /// Every cause, in the order of reports.
    pub const ALL: [Cause; 14] = [
        Cause::Host,
        Cause::Header,
        Cause::Layout,
        Cause::Fastmap,
        Cause::WearLevel,
        Cause::Scrub,
        Cause::Recovery,
        Cause::Torture,
        Cause::Gc,
        Cause::Map,
        Cause::Journal,
        Cause::Index,
        Cause::Flush,
        Cause::Padding,
    ];

    /// Name of the cause in results.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::Host => "host",
            Cause::Header => "header",
            Cause::Layout => "layout",
            Cause::Fastmap => "fastmap",
            Cause::WearLevel => "wear_level",
            Cause::Scrub => "scrub",
            Cause::Recovery => "recovery",
            Cause::Torture => "torture",
            Cause::Gc => "gc",
            Cause::Map => "map",
            Cause::Journal => "journal",
            Cause::Index => "index",
            Cause::Flush => "flush",
            Cause::Padding => "padding",
        }
    }
}

/// A count per cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CauseCounts([u64; Cause::ALL.len()]);

impl CauseCounts {
    /// The sum over all causes.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Counts since `before`, an earlier state of the same counts.
    pub fn since(&self, before: &CauseCounts) -> CauseCounts {
        CauseCounts(std::array::from_fn(|cause| self.0[cause] - before.0[cause]))
    }

    /// Causes with a count above 0, in the order of reports.
    pub fn nonzero(&self) -> impl Iterator<Item = (Cause, u64)> + '_ {
        Cause::ALL.into_iter().map(|cause| (cause, self[cause])).filter(|&(_, count)| count > 0)
    }
}

impl Index<Cause> for CauseCounts {
    type Output = u64;
    #[inline]
    fn index(&self, cause: Cause) -> &u64 {
        &self.0[cause as usize]
    }
}

impl IndexMut<Cause> for CauseCounts {
    #[inline]
    fn index_mut(&mut self, cause: Cause) -> &mut u64 {
        &mut self.0[cause as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_since_are_differences_cause_by_cause() {
        let (mut before, mut after, mut expected) =
            (CauseCounts::default(), CauseCounts::default(), CauseCounts::default());
        for (number, cause) in (0..).zip(Cause::ALL) {
            // 0, 3, 6, 0, 3 and so on more.
            (before[cause], after[cause]) = (5 + number, 5 + number + 3 * (number % 3));
            expected[cause] = 3 * (number % 3);
        }
        assert_eq!(after.since(&before), expected);
        assert_eq!(before.since(&before), CauseCounts::default());
        // 5 to 18, and of 14 causes five have 3 more and four have 6 more.
        assert_eq!((before.total(), after.total(), expected.total()), (161, 200, 39));
        let more: Vec<u64> = expected.nonzero().map(|(_, count)| count).collect();
        assert_eq!(more, [3, 6, 3, 6, 3, 6, 3, 6, 3]);
        assert!(expected.nonzero().map(|(cause, _)| cause).is_sorted());
    }

    #[test]
    fn every_cause_has_its_own_slot_and_name() {
        let mut counts = CauseCounts::default();
        for cause in Cause::ALL {
            counts[cause] += 1;
        }
        assert_eq!(counts.total(), Cause::ALL.len() as u64);
        let mut names: Vec<_> = Cause::ALL.iter().map(|cause| cause.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Cause::ALL.len());
    }
}
