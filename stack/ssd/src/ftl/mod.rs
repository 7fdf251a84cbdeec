//! Flash translation: which physical page holds a logical one, and the work that keeps it so.
//!
//! Each unit of the drive (see [`Shape`](crate::Shape)) is managed by itself: logical pages are striped over the units,
//! so a unit has its own logical pages `0..`, its own blocks and its own [`UnitFtl`]. Nothing here knows of time, of
//! the bus or of requests. A layer's state moves on at once when it hands out a page or a step of work; whoever drives
//! it performs the step on the flash before it asks for anything else of the same unit: in virtual time (`dispatch`) or
//! in none (`Untimed`), with the same results.
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

/// In place of a page number: no page. Tables of four bytes a page have it for what is unmapped.
pub const NONE: u32 = u32::MAX;

/// Work on a unit's flash that a layer asks for. Its own state has changed already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read physical page `from` and program it at `to`.
    Copy {
        /// The physical page that is read.
        from: u32,
        /// The physical page that is programmed, in the same unit.
        to: u32,
        /// What its programmed bytes are booked under.
        cause: sim::Cause,
    },
    /// Program a page of padding at `at`, so that the block's order is kept: nothing refers to it.
    Pad {
        /// The physical page that is padded.
        at: u32,
    },
    /// Erase a block; afterwards [`UnitFtl::erased`] is called.
    Erase {
        /// The number of the block in its unit.
        block: u32,
        /// What the erasure is booked under.
        cause: sim::Cause,
    },
}

/// Where a page may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Here; the mapping says so already.
    At(u32),
    /// This first; then ask again.
    Work(Step),
    /// Nowhere, and no work makes room: the spare blocks are used up.
    Full,
}

/// The translation layer of one unit.
///
/// The caller performs what [`place`](Self::place) and [`housekeeping`](Self::housekeeping) return before the
/// next call, except that several placed pages or copies may be under way together as long as they are programmed in
/// the order of their numbers within a block.
pub trait UnitFtl {
    /// Logical pages of the unit.
    fn lpns(&self) -> u32;

    /// The physical page that holds `lpn`, or [`NONE`].
    fn lookup(&self, lpn: u32) -> u32;

    /// The logical page whose newest contents are at `ppn`, or [`NONE`].
    fn holds(&self, ppn: u32) -> u32;

    /// `lpn` will be looked up or placed soon: its entry may be fetched from memory. Changes no result.
    #[inline]
    fn expect(&self, _lpn: u32) {}

    /// `lpn`, expected some time ago, will be placed soon: what depends on its entry may be fetched. Changes no result.
    #[inline]
    fn expect_place(&self, _lpn: u32) {}

    /// Where the next contents of `lpn` go. After `At`, the old place is stale.
    fn place(&mut self, lpn: u32) -> Place;

    /// Whether [`place`](Self::place) of `lpn` would now return `At(ppn + 1)`, where `ppn` was placed last: the two can
    /// be programmed in one multi-plane operation.
    fn follows(&self, ppn: u32, lpn: u32) -> bool;

    /// Work worth doing while the unit is idle: background garbage collection, wear levelling.
    fn housekeeping(&mut self) -> Option<Step>;

    /// `lpn` holds nothing any more.
    fn trim(&mut self, lpn: u32);

    /// A block that a step asked to erase is erased, or has failed for good (`ok` false).
    fn erased(&mut self, block: u32, ok: bool);

    /// The program at `ppn` failed. Its contents are still in memory; the layer takes the page as never written (its
    /// logical page, if it had one, is to be placed again by the caller) and retires the block when it has emptied it.
    fn program_failed(&mut self, ppn: u32);

    /// Whether any block is used with one bit a cell; where none is, [`is_slc`](Self::is_slc) need not be asked.
    #[inline]
    fn uses_slc(&self) -> bool {
        false
    }

    /// Whether a block is used with one bit a cell: a cache in front of blocks with more.
    fn is_slc(&self, _block: u32) -> bool {
        false
    }

    /// Pages of a block handed out since it was erased, from its first on.
    fn handed_out(&self, _block: u32) -> u32 {
        0
    }

    /// Erase counts of its blocks.
    fn erase_counts(&self) -> &[u32];

    /// Writes `lpns` one after the other in no time: as [`place`](Self::place) of each does, with all the work that it
    /// asks for done and no erasure failing. A layer may do it faster, but ends in the same state.
    ///
    /// Errors: how many were written when the unit was full.
    fn write_untimed(&mut self, lpns: &[u32], tally: &mut crate::untimed::Tally) -> Result<(), usize> {
        crate::untimed::write_stepwise(self, lpns, tally)
    }
}
