//! A volume filled by a log-structured file system: what UBIFS does to its LEBs when no space is left.
//!
//! A full UBIFS commits every few LEBs, because each write must first find space. Its areas then behave as follows:
//!
//! - *log*: a commit begins a new log LEB and unmaps the one before; all others are unmapped;
//! - *LEB properties*: the next of its LEBs is written occasionally, and the oldest one in use unmapped;
//! - *orphan*: one LEB of two is in use;
//! - *main*: garbage collection maps one of the few empty LEBs, fills it, and unmaps the LEB that it emptied.
//!
//! So the number of unmapped LEBs is nearly constant and small, and UBI's pools depend on it. The sizes of the areas
//! follow from the volume's size by UBIFS's own rule ([`UbifsAreas`]). Every step maps one LEB and unmaps one.
//!
//! How unequal the lives of LEBs are is measured ([`lifetimes`]). Steps come in bursts ([`NearFull::pause`]), and UBI's
//! background thread has a clock of its own ([`Wakes`]), so that how far it lags behind follows from times.

pub mod areas;
mod bursts;
pub mod lifetimes;
pub mod thread;

use sim::seam::{LebError, LebVolume, Payload};
use sim::{Cx, Lnum, Rng, Seed};

use areas::FIXED_LEBS;
pub use areas::UbifsAreas;
pub use lifetimes::Heat;
use lifetimes::Heats;
pub use thread::{Processor, Wakes};

/// Parameters of the load. [`NearFullParams::ubifs`] has the values that the studies use for every device, and their
/// sources.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NearFullParams {
    /// LEBs of the main area that are empty between two steps, because garbage collection and the index keep them.
    pub empty_main_lebs: u32,
    /// Share of steps that begin a log LEB: one per commit.
    pub log_share: f64,
    /// Share of steps that rewrite a LEB of the master or LEB-properties area: unmap it, then write it again.
    pub in_place_share: f64,
    /// Share of garbage-collected LEBs that are unmapped only after the next step. Log LEBs always are: a commit unmaps
    /// the old log LEB when it ends.
    pub late_unmap_share: f64,
    /// Share of the LEBs emptied by garbage collection that it had filled a few steps earlier.
    pub short_lived_share: f64,
    /// Share of the main area that is never rewritten.
    pub cold_share: f64,
    /// How unequal the lives of the other LEBs are.
    pub heat: &'static [Heat],
}

impl NearFullParams {
    /// UBIFS under fsstress on a full volume, as traced in a kernel on devices of 1,024 to 16,384 PEBs
    /// (`docs/design/near-full.md`).
    /// `leb_bytes`: of the volume. Small LEBs fill sooner, so that more of them are written for each commit.
    pub fn ubifs(leb_bytes: u32) -> NearFullParams {
        NearFullParams {
            empty_main_lebs: 4,
            log_share: by_leb_size(leb_bytes, 0.20, 0.35),
            in_place_share: by_leb_size(leb_bytes, 0.065, 0.017),
            late_unmap_share: 0.12,
            short_lived_share: 0.18,
            cold_share: 0.001,
            heat: lifetimes::fsstress(leb_bytes),
        }
    }
}

/// A share that was measured with LEBs of 15,360 and of 126,976 bytes; between them linear in the size's logarithm.
fn by_leb_size(leb_bytes: u32, small: f64, large: f64) -> f64 {
    const SMALL: f64 = 15_360.0;
    const LARGE: f64 = 126_976.0;
    let at = (f64::from(leb_bytes) / SMALL).ln() / (LARGE / SMALL).ln();
    small + (large - small) * at.clamp(0.0, 1.0)
}

/// How many steps of the main area ago a short-lived LEB was filled.
const SHORT_LIFE: usize = 3;

/// Generator of the load.
#[derive(Clone, Debug)]
pub struct NearFull {
    params: NearFullParams,
    leb_bytes: u32,
    log: Ring,
    lpt: Ring,
    /// LEBs of the LEB-properties area in use: those up to the ring's current one.
    lpt_used: u32,
    /// Main LEBs that hold data and may be collected.
    warm: Vec<u32>,
    /// Main LEBs that are unmapped, oldest first.
    empty: std::collections::VecDeque<u32>,
    /// LEB to unmap after the next step.
    to_unmap: Option<u32>,
    /// First LEB of the main area.
    main_first: u32,
    /// The LEBs filled last, as indices into `warm`.
    recent: [usize; SHORT_LIFE],
    heats: Heats,
    steps: u64,
    rng: Rng,
}

/// An area with one LEB in use; the next one is used in turn.
#[derive(Clone, Copy, Debug)]
struct Ring {
    first: u32,
    lebs: u32,
    at: u32,
}

impl Ring {
    fn current(&self) -> u32 {
        self.first + self.at
    }

    fn advance(&mut self) -> u32 {
        self.at = (self.at + 1) % self.lebs;
        self.current()
    }
}

impl NearFull {
    /// Creates the generator for a volume, and maps every LEB that a full file system uses.
    /// Errors: those of the volume; `NoSpace` if it is too small for the areas.
    pub fn fill<V: LebVolume>(
        volume: &mut V,
        cx: &mut Cx,
        params: NearFullParams,
        seed: Seed,
        mut between: impl FnMut(&mut V, &mut Cx) -> Result<(), LebError>,
    ) -> Result<NearFull, LebError> {
        let (lebs, leb_bytes) = (volume.lebs(), volume.leb_bytes());
        let areas = UbifsAreas::of(lebs, leb_bytes, volume.min_io_bytes())
            .filter(|areas| areas.main > 2 * params.empty_main_lebs + SHORT_LIFE as u32)
            .ok_or(LebError::NoSpace { lnum: Lnum(lebs) })?;
        let log = Ring { first: FIXED_LEBS, lebs: areas.log, at: 0 };
        let lpt_used = areas.lpt_used();
        let lpt = Ring { first: FIXED_LEBS + areas.log, lebs: areas.lpt, at: lpt_used - 1 };
        let orphan = lpt.first + areas.lpt;
        let main = orphan + areas.orphan;
        let cold = (f64::from(areas.main) * params.cold_share) as u32;
        let full = main..lebs - params.empty_main_lebs;
        let in_use = (0..FIXED_LEBS).chain(lpt.first..lpt.first + lpt_used).chain([orphan, log.current()]);
        let in_use = in_use.chain(full.clone());
        for lnum in in_use {
            volume.write(cx, Lnum(lnum), 0, Payload::Length(leb_bytes))?;
            between(volume, cx)?;
        }
        let mut rng = seed.stream("workload/near-full");
        let mut warm: Vec<u32> = full.skip(cold as usize).collect();
        // Hot data are no neighbours at first.
        for at in (1..warm.len()).rev() {
            warm.swap(at, rng.below(at as u64 + 1) as usize);
        }
        let warm_lebs = warm.len();
        Ok(NearFull {
            recent: [0, 1, 2],
            to_unmap: None,
            main_first: main,
            warm,
            empty: (lebs - params.empty_main_lebs..lebs).collect(),
            heats: Heats::of(params.heat, warm_lebs),
            steps: 0,
            params,
            leb_bytes,
            log,
            lpt,
            lpt_used,
            rng,
        })
    }

    /// Steps so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Time from the begin of the last step to the next one, as a multiple of the mean: drawn anew at each call.
    #[inline]
    pub fn pause(&mut self) -> f64 {
        bursts::pause(self.rng.unit())
    }

    /// Does one step: maps one LEB, fills it, and unmaps one, now or after the next step.
    /// Errors: those of the volume.
    #[inline]
    pub fn step<V: LebVolume>(&mut self, volume: &mut V, cx: &mut Cx) -> Result<(), LebError> {
        self.steps += 1;
        let params = &self.params;
        let kind = self.rng.unit();
        let (new, old, late) = if kind < params.log_share {
            let old = self.log.current();
            (self.log.advance(), old, true)
        } else if kind < params.log_share + params.in_place_share {
            let lnum = self.lpt.advance();
            // The oldest LEB in use is the next one itself, if all are.
            let oldest = self.lpt.first + (self.lpt.at + self.lpt.lebs - self.lpt_used) % self.lpt.lebs;
            volume.unmap(cx, Lnum(oldest))?;
            volume.write(cx, Lnum(lnum), 0, Payload::Length(self.leb_bytes))?;
            return Ok(());
        } else {
            let late = self.rng.chance(self.params.late_unmap_share);
            let (new, old) = self.collect();
            (new, old, late)
        };
        volume.write(cx, Lnum(new), 0, Payload::Length(self.leb_bytes))?;
        if let Some(lnum) = self.to_unmap.take() {
            self.unmap(volume, cx, lnum)?;
        }
        if late {
            self.to_unmap = Some(old);
        } else {
            self.unmap(volume, cx, old)?;
        }
        Ok(())
    }

    #[inline]
    fn unmap<V: LebVolume>(&mut self, volume: &mut V, cx: &mut Cx, lnum: u32) -> Result<(), LebError> {
        if lnum >= self.main_first {
            self.empty.push_back(lnum);
        }
        volume.unmap(cx, Lnum(lnum))
    }

    /// Garbage collection: returns the LEB to fill, and the one that is empty afterwards.
    #[inline]
    fn collect(&mut self) -> (u32, u32) {
        let new = self.empty.pop_front().expect("the main area keeps empty LEBs");
        let at = if self.rng.chance(self.params.short_lived_share) {
            self.recent[SHORT_LIFE - 1]
        } else {
            let part = self.rng.unit();
            self.heats.pick(part, self.rng.unit())
        };
        let old = std::mem::replace(&mut self.warm[at], new);
        self.recent.rotate_right(1);
        self.recent[0] = at;
        (new, old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::seam::RamVolume;

    #[test]
    fn the_number_of_unmapped_lebs_stays_small_and_nearly_constant() {
        let mut volume = RamVolume::new(998, 4096, 2048);
        let mut cx = Cx::new();
        let params = NearFullParams::ubifs(126_976);
        let mut load = NearFull::fill(&mut volume, &mut cx, params, Seed(1), |_, _| Ok(())).unwrap();
        let areas = UbifsAreas::of(998, 4096, 2048).unwrap();
        // All log LEBs but one, what the LEB properties leave, one orphan LEB, and the main area's own; one unmapping may
        // be late.
        let all = areas.log - 1 + areas.lpt - areas.lpt_used() + 1 + params.empty_main_lebs;
        for _ in 0..5_000 {
            load.step(&mut volume, &mut cx).unwrap();
            let unmapped = (0..998).filter(|&lnum| !volume.is_mapped(Lnum(lnum))).count() as u32;
            assert!((all - 1..=all).contains(&unmapped), "{unmapped} of {all}");
        }
    }
}
