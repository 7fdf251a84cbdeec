//! Flash translation layers (FTLs): which physical page holds a logical page, and the work that garbage collection,
//! merges and wear levelling require.
//!
//! Each unit of the drive (see [`Shape`](crate::Shape)) is managed separately: logical pages are striped over the
//! units, so a unit has its own logical pages `0..`, its own blocks and its own [`UnitFtl`]. Nothing here knows time,
//! the bus or requests. An FTL updates its state at once when it returns a page or a step of work; the caller must
//! perform the step on the flash before its next call to the same unit. The caller is the dispatcher, in simulated time
//! (`dispatch`), or `Untimed`, without time; the results are the same.
//!
//! Physical pages are numbered block by block: page `p` of block `b` is `b * pages + p`.

pub mod bast;
pub mod block;
pub mod fast;
pub mod gc;
pub mod hybrid;
pub mod map_cache;
pub mod page;
pub mod wear;

/// Value of a page number that means "no page". Tables with four bytes a page have it for unmapped pages.
pub const NONE: u32 = u32::MAX;

/// A flash operation that an FTL requires. The FTL's own state has changed already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read physical page `from` and program it at `to`.
    Copy {
        /// The physical page that is read.
        from: u32,
        /// The physical page that is programmed, in the same unit.
        to: u32,
        /// The cause under which its programmed bytes are counted.
        cause: sim::Cause,
    },
    /// Program a page of padding at `at`, so that the block is programmed in order. No logical page is mapped to it.
    Pad {
        /// The physical page that is programmed.
        at: u32,
        /// The unmapped logical page that would be there, or [`NONE`]: its tag has it, so that after a loss of power the
        /// page does not get older contents.
        lpn: u32,
    },
    /// Erase a block; afterwards the caller calls [`UnitFtl::erased`].
    Erase {
        /// Number of the block in its unit.
        block: u32,
        /// The cause under which the erase is counted.
        cause: sim::Cause,
    },
}

/// Answer of [`UnitFtl::place`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The page goes to this physical page; the mapping is updated already.
    At(u32),
    /// This step must be performed first; then call `place` again.
    Work(Step),
    /// The unit is full and no work makes room: the spare blocks are used up.
    Full,
}

/// The FTL of one unit.
///
/// The caller performs what [`place`](Self::place) and [`housekeeping`](Self::housekeeping) return before the next
/// call, except that several placed pages or copies may be in progress together as long as they are programmed in the
/// order of their numbers within a block.
pub trait UnitFtl {
    /// Number of logical pages of the unit.
    fn lpns(&self) -> u32;

    /// The physical page that holds `lpn`, or [`NONE`] if it is unmapped.
    fn lookup(&self, lpn: u32) -> u32;

    /// The logical page whose newest contents are at `ppn`, or [`NONE`] if `ppn` is invalid or not programmed.
    fn holds(&self, ppn: u32) -> u32;

    /// A hint that `lpn` will be looked up or placed soon: its table entry may be prefetched. Changes no result.
    #[inline]
    fn expect(&self, _lpn: u32) {}

    /// A hint that `lpn`, announced by [`expect`](Self::expect) some time ago, will be placed soon: entries that depend
    /// on its entry may be prefetched. Changes no result.
    #[inline]
    fn expect_place(&self, _lpn: u32) {}

    /// Allocates the physical page for the next contents of `lpn`. After `At`, the old physical page is invalid.
    fn place(&mut self, lpn: u32) -> Place;

    /// Whether [`place`](Self::place) of `lpn` would now return `At(ppn + 1)`, where `ppn` was placed last: then the
    /// two can be programmed in one multi-plane operation.
    fn follows(&self, ppn: u32, lpn: u32) -> bool;

    /// The next step of background work while the unit is idle: garbage collection, merges, wear levelling. `None` if
    /// there is none.
    fn housekeeping(&mut self) -> Option<Step>;

    /// Unmaps `lpn`.
    fn trim(&mut self, lpn: u32);

    /// Reports the end of an erase that a step requested; with `ok` false it failed, and the block is retired.
    fn erased(&mut self, block: u32, ok: bool);

    /// Reports that the program at `ppn` failed; the contents are still in the controller's memory. The FTL unmaps the
    /// page (if it held a logical page, the caller places that again), and retires the block after emptying it.
    fn program_failed(&mut self, ppn: u32);

    /// Whether any block is in SLC mode (one bit a cell). If not, [`is_slc`](Self::is_slc) need not be called.
    #[inline]
    fn uses_slc(&self) -> bool {
        false
    }

    /// Whether a block is in SLC mode: part of a cache in front of blocks with more bits a cell.
    fn is_slc(&self, _block: u32) -> bool {
        false
    }

    /// Number of pages of a block allocated since its erase, counted from its first page.
    fn handed_out(&self, _block: u32) -> u32 {
        0
    }

    /// Erase count of each block.
    fn erase_counts(&self) -> &[u32];

    /// Writes `lpns` one after the other without simulated time. The state afterwards is that of [`place`](Self::place)
    /// for each, with all required work performed and no erase failing. An FTL may implement it faster.
    ///
    /// Errors: the number of pages written when the unit was full.
    fn write_untimed(&mut self, lpns: &[u32], tally: &mut crate::untimed::Tally) -> Result<(), usize> {
        crate::untimed::write_stepwise(self, lpns, tally)
    }
}
