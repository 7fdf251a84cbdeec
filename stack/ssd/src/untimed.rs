//! A whole drive without time: striping over units, and the translation layer of each unit.
//!
//! It preconditions drives for a measurement, and it determines write amplification and wear when latency is not
//! needed. There is no flash below: pages are counted, not kept. The final state of the layers is the initial state of
//! the timed dispatcher ([`Untimed::into_units`]). The layer reports which pages of a block are programmed then
//! ([`PageFtl::handed_out`](crate::ftl::page::PageFtl::handed_out)).
//!
//! Units share nothing. Many writes are therefore sorted by unit in rounds, and each unit executes its share in host
//! order. The resulting state is the same as for one write at a time, with the tables of one unit in the CPU caches.

use crate::ftl::{NONE, Place, Step, UnitFtl};
use crate::{Shape, Striping};
use sim::{Cause, CauseCounts, Rng};
use thiserror::Error;

/// Pages programmed and blocks erased, by cause. Pages written by the host are under [`Cause::Host`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Pages programmed.
    pub programmed: CauseCounts,
    /// Blocks erased.
    pub erased: CauseCounts,
}

impl Tally {
    /// Write amplification: all programmed pages divided by those of the host. `None` without host pages.
    pub fn waf(&self) -> Option<f64> {
        let host = self.programmed[Cause::Host];
        (host > 0).then(|| self.programmed.total() as f64 / host as f64)
    }

    /// Difference from `before`, an earlier state of the same tally.
    pub fn since(&self, before: &Tally) -> Tally {
        Tally { programmed: self.programmed.since(&before.programmed), erased: self.erased.since(&before.erased) }
    }
}

/// Performs a step in no time and counts it.
pub fn perform<M: UnitFtl + ?Sized>(unit: &mut M, step: Step, tally: &mut Tally) {
    match step {
        Step::Copy { cause, .. } => tally.programmed[cause] += 1,
        Step::Pad { .. } => tally.programmed[Cause::Padding] += 1,
        Step::Erase { block, cause } => {
            tally.erased[cause] += 1;
            unit.erased(block, true);
        }
    }
}

/// [`UnitFtl::write_untimed`] step by step. Errors: the number of pages written when the unit was full.
pub fn write_stepwise<M: UnitFtl + ?Sized>(unit: &mut M, lpns: &[u32], tally: &mut Tally) -> Result<(), usize> {
    for (done, &lpn) in lpns.iter().enumerate() {
        loop {
            match unit.place(lpn) {
                Place::At(_) => break,
                Place::Work(step) => perform(unit, step, tally),
                Place::Full => return Err(done),
            }
        }
        tally.programmed[Cause::Host] += 1;
    }
    Ok(())
}

/// A unit has no free block for a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("logical page {lpn}: no free block is left in unit {unit}")]
pub struct UnitFull {
    /// Unit without a free block.
    pub unit: u32,
    /// Logical page of the drive that could not be written.
    pub lpn: u32,
}

/// When a drive under random writes counts as being in steady state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SteadyUntil {
    /// Relative change of the write amplification from one window to the next must be below this. In a window the host
    /// writes as many pages as the drive has.
    pub change: f64,
    /// Maximum number of windows.
    pub at_most: u32,
}

impl Default for SteadyUntil {
    /// Less than 1 %; at most 20 windows.
    fn default() -> SteadyUntil {
        SteadyUntil { change: 0.01, at_most: 20 }
    }
}

/// Result of writing until steady state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steady {
    /// Number of windows written.
    pub windows: u32,
    /// Write amplification of the last window.
    pub waf: f64,
    /// Whether the criterion was met.
    pub settled: bool,
}

/// Logical pages that each unit must have for a drive of `pages` logical pages: whole stripes.
pub fn lpns_per_unit(shape: &Shape, pages: u32) -> u32 {
    let cells = shape.all_dies() * shape.planes;
    pages.div_ceil(cells) * shape.unit_planes()
}

/// Maximum pages in a round of sorted writes, and the pages per unit in a smaller round.
const ROUND: usize = 1 << 20;
const SHARE: usize = 1 << 12;

/// A drive whose operations take no time: mapping and wear alone.
#[derive(Clone, Debug)]
pub struct Untimed<M> {
    striping: Striping,
    units: Vec<M>,
    pages: u32,
    tally: Tally,
    /// Writes of a round, by unit.
    queues: Vec<Vec<u32>>,
}

impl<M: UnitFtl> Untimed<M> {
    /// A drive of `pages` logical pages over `units`. Panics: a unit has fewer logical pages than its share
    /// ([`lpns_per_unit`]).
    pub fn new(striping: Striping, units: Vec<M>, pages: u32) -> Untimed<M> {
        for (unit, layer) in (0..).zip(&units) {
            let beyond = layer.lpns()..=layer.lpns() + 8;
            let short = beyond.map(|local| striping.lpn(unit, local)).find(|&lpn| lpn < pages);
            assert!(short.is_none(), "unit {unit} has {} pages and none for page {short:?} of the drive", layer.lpns());
        }
        let queues = units.iter().map(|_| Vec::new()).collect();
        Untimed { striping, units, pages, tally: Tally::default(), queues }
    }

    /// Number of logical pages of the drive.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// Translation layer of each unit.
    pub fn units(&self) -> &[M] {
        &self.units
    }

    /// Translation layer of each unit, for a timed drive.
    pub fn into_units(self) -> Vec<M> {
        self.units
    }

    /// Pages programmed and blocks erased since the drive was made.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Erase counts of all blocks, unit by unit.
    pub fn erase_counts(&self) -> impl Iterator<Item = u32> + '_ {
        self.units.iter().flat_map(|unit| unit.erase_counts().iter().copied())
    }

    /// Writes a page. Panics: the drive has no such page.
    ///
    /// Errors: the page's unit is full.
    pub fn write(&mut self, lpn: u32) -> Result<(), UnitFull> {
        assert!(lpn < self.pages, "page {lpn} of {}", self.pages);
        let (unit, local) = self.striping.locate(lpn);
        let outcome = self.units[unit as usize].write_untimed(&[local], &mut self.tally);
        outcome.map_err(|_| UnitFull { unit, lpn })
    }

    /// Unit of a page, and the unit's physical page that holds it, if there is one.
    pub fn read(&self, lpn: u32) -> (u32, Option<u32>) {
        let (unit, local) = self.striping.locate(lpn);
        let ppn = self.units[unit as usize].lookup(local);
        (unit, (ppn != NONE).then_some(ppn))
    }

    /// Trims a page: it is unmapped.
    pub fn trim(&mut self, lpn: u32) {
        let (unit, local) = self.striping.locate(lpn);
        self.units[unit as usize].trim(local);
    }

    /// Writes pages in order, sorted by unit in rounds. Panics: the drive has no such page.
    ///
    /// Errors: a unit is full. Other units may then have received the rest of the round.
    pub fn write_all(&mut self, lpns: impl IntoIterator<Item = u32>) -> Result<(), UnitFull> {
        let round = (self.units.len() * SHARE).min(ROUND);
        let mut lpns = lpns.into_iter();
        loop {
            let mut queued = 0;
            for lpn in lpns.by_ref().take(round) {
                assert!(lpn < self.pages, "page {lpn} of {}", self.pages);
                let (unit, local) = self.striping.locate(lpn);
                self.queues[unit as usize].push(local);
                queued += 1;
            }
            let mut full = None;
            for (unit, (layer, queue)) in (0..).zip(self.units.iter_mut().zip(&mut self.queues)) {
                if let Err(written) = layer.write_untimed(queue, &mut self.tally) {
                    full = full.or(Some(UnitFull { unit, lpn: self.striping.lpn(unit, queue[written]) }));
                }
                queue.clear();
            }
            match full {
                Some(full) => return Err(full),
                None if queued < round => return Ok(()),
                None => {}
            }
        }
    }

    /// Writes the first `pages` pages in order.
    ///
    /// Errors: as [`Untimed::write_all`].
    pub fn fill_sequential(&mut self, pages: u32) -> Result<(), UnitFull> {
        self.write_all(0..pages)
    }

    /// Writes `count` pages, chosen uniformly at random.
    ///
    /// Errors: as [`Untimed::write_all`].
    pub fn fill_random(&mut self, count: u64, rng: &mut Rng) -> Result<(), UnitFull> {
        let pages = u64::from(self.pages);
        self.write_all((0..count).map(|_| rng.below(pages) as u32))
    }

    /// Writes uniformly random pages until the drive is in steady state. To measure a drive without unwritten pages,
    /// fill it first.
    ///
    /// Errors: as [`Untimed::write_all`].
    pub fn steady_state(&mut self, until: SteadyUntil, rng: &mut Rng) -> Result<Steady, UnitFull> {
        let mut steady = Steady { windows: 0, waf: f64::NAN, settled: false };
        while steady.windows < until.at_most && !steady.settled {
            let before = self.tally;
            self.fill_random(u64::from(self.pages), rng)?;
            let waf = self.tally.since(&before).waf().unwrap_or(1.0);
            steady.settled = (waf - steady.waf).abs() < until.change * steady.waf;
            steady.waf = waf;
            steady.windows += 1;
        }
        Ok(steady)
    }

    /// Performs the housekeeping of every unit, at most `steps` steps each. Returns the total number of steps.
    pub fn idle(&mut self, steps: u64) -> u64 {
        let mut done = 0;
        for unit in &mut self.units {
            for _ in 0..steps {
                let Some(step) = unit.housekeeping() else {
                    break;
                };
                perform(unit, step, &mut self.tally);
                done += 1;
            }
        }
        done
    }
}
