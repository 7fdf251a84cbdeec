//! A volume filled by a log-structured file system: what UBIFS does to its LEBs when no space is left.
//!
//! A full UBIFS commits every few LEBs, because each write must first find space. Its areas then behave as follows:
//!
//! - *log*: a commit begins a new log LEB and unmaps the one before; all others are unmapped;
//! - *LEB properties*: one of its LEBs is rewritten occasionally;
//! - *orphan*: one LEB of two is in use;
//! - *main*: garbage collection maps one of the few empty LEBs, fills it, and unmaps the LEB that it emptied.
//!
//! So the number of unmapped LEBs is nearly constant and small, and UBI's pools depend on it. The sizes of the areas
//! follow from the volume's size by UBIFS's own rule ([`UbifsAreas`]). Every step maps one LEB and unmaps one.
//!
//! The generator also decides when the file system keeps the processor, so that the background thread does not run
//! between two steps ([`NearFull::starves_background`]): on one processor a writer keeps its time slice.

use sim::seam::{LebError, LebVolume, Payload};
use sim::{Cx, Lnum, Rng, Seed};

/// The areas of UBIFS on a volume that it formats itself. Source: the defaults of Linux 6.1 `create_default_filesystem`
/// (journal 5 %, at most 32 MiB; log twice the journal's references plus two LEBs).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UbifsAreas {
    /// LEBs of the log.
    pub log: u32,
    /// LEBs of the LEB-properties tree.
    pub lpt: u32,
    /// LEBs of the orphan area.
    pub orphan: u32,
    /// LEBs of the main area.
    pub main: u32,
}

/// Super block and two master LEBs: written in place, unmapped only briefly.
const FIXED_LEBS: u32 = 3;
const JOURNAL_PER_CENT: u64 = 5;
const JOURNAL_MAX_BYTES: u64 = 32 << 20;
const JOURNAL_MIN_LEBS: u64 = 8;

impl UbifsAreas {
    /// Areas of a volume of `lebs` LEBs; `None` if it has under 32 LEBs.
    pub fn of(lebs: u32, leb_bytes: u32, min_io_bytes: u32) -> Option<UbifsAreas> {
        if lebs < 32 {
            return None;
        }
        let leb = u64::from(leb_bytes);
        let journal =
            (u64::from(lebs) * JOURNAL_PER_CENT / 100).max(JOURNAL_MIN_LEBS).min((JOURNAL_MAX_BYTES / leb).max(1));
        let reference_bytes = u64::from(min_io_bytes).max(64);
        let log = (2 * reference_bytes * journal).div_ceil(leb) as u32 + 2;
        // One LEB holds the tree of every device here; a spare one receives its next copy.
        let (lpt, orphan) = (2, 2);
        let main = lebs.checked_sub(FIXED_LEBS + log + lpt + orphan)?;
        Some(UbifsAreas { log, lpt, orphan, main })
    }
}

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
    /// Processor time of the background thread.
    pub background: BackgroundShare,
}

/// When erasures keep up with the writer. This is a property of the machine, not of the file system.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackgroundShare {
    /// Share of steps after which queued erasures are not done before the next step.
    pub lag_share: f64,
    /// Probability per step that a starvation begins, in which the background thread does not run at all.
    pub starve_chance: f64,
    /// Mean length of a starvation, in steps.
    pub starve_steps: f64,
}

impl BackgroundShare {
    /// Every erasure is done before the next step.
    pub const PROMPT: BackgroundShare = BackgroundShare { lag_share: 0.0, starve_chance: 0.0, starve_steps: 1.0 };

    /// The machine of the fastmap report (x86-64 under QEMU): the thread has its own processor, and erasures lag a step
    /// or two. Calibrated on one printed ratio, device A before the series (4.02); every other number is a prediction.
    pub const OWN_PROCESSOR: BackgroundShare =
        BackgroundShare { lag_share: 0.54, starve_chance: 0.0, starve_steps: 1.0 };

    /// User-mode Linux 6.1 on one processor, where the scheduler's clock is the 10 ms tick: a writer keeps the
    /// processor until its tick ends. Calibrated on two counters of the kernel run of device A: fastmap writes per PEB,
    /// and anchors rewritten in place.
    /// PEB and anchors rewritten in place.
    pub const JIFFIES_CLOCK: BackgroundShare =
        BackgroundShare { lag_share: 0.3, starve_chance: 0.037, starve_steps: 6.5 };

    /// The values of this name: `prompt`, `own-processor` or `jiffies-clock`.
    pub fn by_name(name: &str) -> Option<BackgroundShare> {
        match name {
            "prompt" => Some(BackgroundShare::PROMPT),
            "own-processor" => Some(BackgroundShare::OWN_PROCESSOR),
            "jiffies-clock" => Some(BackgroundShare::JIFFIES_CLOCK),
            _ => None,
        }
    }

    /// Names that [`by_name`](Self::by_name) accepts.
    pub const NAMES: [&'static str; 3] = ["prompt", "own-processor", "jiffies-clock"];
}

impl NearFullParams {
    /// UBIFS under fsstress on a full volume, as traced in a kernel on devices of 1,024 to 16,384 PEBs
    /// (`docs/design/near-full.md`).
    pub fn ubifs(background: BackgroundShare) -> NearFullParams {
        NearFullParams {
            empty_main_lebs: 4,
            log_share: 0.35,
            in_place_share: 0.02,
            late_unmap_share: 0.12,
            short_lived_share: 0.4,
            cold_share: 0.01,
            background,
        }
    }
}

/// How many steps of the main area ago a short-lived LEB was filled.
const SHORT_LIFE: usize = 3;

/// Generator of the load.
#[derive(Clone, Debug)]
pub struct NearFull {
    params: NearFullParams,
    leb_bytes: u32,
    log: Ring,
    in_place: Ring,
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
    steps: u64,
    starved: bool,
    lags: bool,
    continue_chance: f64,
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
        let in_place = Ring { first: FIXED_LEBS + areas.log, lebs: areas.lpt, at: 0 };
        let orphan = in_place.first + areas.lpt;
        let main = orphan + areas.orphan;
        let cold = (f64::from(areas.main) * params.cold_share) as u32;
        let full = main..lebs - params.empty_main_lebs;
        let in_use = (0..FIXED_LEBS).chain(in_place.first..=orphan).chain([log.current()]).chain(full.clone());
        for lnum in in_use {
            volume.write(cx, Lnum(lnum), 0, Payload::Length(leb_bytes))?;
            between(volume, cx)?;
        }
        let rng = seed.stream("workload/near-full");
        let warm: Vec<u32> = full.skip(cold as usize).collect();
        let mean_spell = params.background.starve_steps;
        Ok(NearFull {
            recent: [0, 1, 2],
            to_unmap: None,
            main_first: main,
            warm,
            empty: (lebs - params.empty_main_lebs..lebs).collect(),
            continue_chance: if mean_spell > 1.0 { 1.0 - 1.0 / mean_spell } else { 0.0 },
            steps: 0,
            starved: false,
            lags: false,
            params,
            leb_bytes,
            log,
            in_place,
            rng,
        })
    }

    /// Steps so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Whether the background thread must not run before the next step.
    #[inline]
    pub fn starves_background(&self) -> bool {
        self.starved || self.lags
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
            let lnum = self.in_place.advance();
            volume.unmap(cx, Lnum(lnum))?;
            volume.write(cx, Lnum(lnum), 0, Payload::Length(self.leb_bytes))?;
            self.starve();
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
        self.starve();
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
            self.rng.below(self.warm.len() as u64) as usize
        };
        let old = std::mem::replace(&mut self.warm[at], new);
        self.recent.rotate_right(1);
        self.recent[0] = at;
        (new, old)
    }

    #[inline]
    fn starve(&mut self) {
        let background = self.params.background;
        self.lags = self.rng.chance(background.lag_share);
        let chance = if self.starved { self.continue_chance } else { background.starve_chance };
        self.starved = self.rng.chance(chance);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::seam::RamVolume;

    #[test]
    fn areas_are_those_that_the_kernel_made() {
        let log = |lebs| UbifsAreas::of(lebs, 126_976, 2048).map(|areas| areas.log);
        assert_eq!([998, 8026, 16_056].map(log), [Some(4), Some(11), Some(11)]);
        assert_eq!(UbifsAreas::of(998, 126_976, 2048).map(|areas| areas.main), Some(987));
    }

    #[test]
    fn the_number_of_unmapped_lebs_stays_small_and_nearly_constant() {
        let mut volume = RamVolume::new(998, 4096, 2048);
        let mut cx = Cx::new();
        let params = NearFullParams::ubifs(BackgroundShare::PROMPT);
        let mut load = NearFull::fill(&mut volume, &mut cx, params, Seed(1), |_, _| Ok(())).unwrap();
        let log = UbifsAreas::of(998, 4096, 2048).unwrap().log;
        for _ in 0..5_000 {
            load.step(&mut volume, &mut cx).unwrap();
            let unmapped = (0..998).filter(|&lnum| !volume.is_mapped(Lnum(lnum))).count() as u32;
            // All log LEBs but one, one orphan LEB, and the main area's own; one unmapping may be late.
            assert!((log + 3..=log + 4).contains(&unmapped), "{unmapped}");
        }
    }

    #[test]
    fn a_starved_spell_has_its_mean_length() {
        let mut volume = RamVolume::new(998, 4096, 2048);
        let mut cx = Cx::new();
        let background = BackgroundShare { lag_share: 0.0, starve_chance: 0.05, starve_steps: 6.0 };
        let params = NearFullParams::ubifs(background);
        let mut load = NearFull::fill(&mut volume, &mut cx, params, Seed(1), |_, _| Ok(())).unwrap();
        let (mut spells, mut steps, mut was) = (0u32, 0u32, false);
        for _ in 0..100_000 {
            load.step(&mut volume, &mut cx).unwrap();
            let is = load.starves_background();
            spells += u32::from(is && !was);
            steps += u32::from(is);
            was = is;
        }
        let mean = f64::from(steps) / f64::from(spells);
        assert!((5.5..6.5).contains(&mean), "{mean}");
    }
}
