//! The drive under test: created empty, powered on after a cut, read and compared with the model.

use nand::Bytes;
use runner::run::guest::Keep;
use runner::subject;
use sim::Peb;
use ssd::dispatch::CheckpointRegions;
use ssd::ftl::UnitFtl;
use ssd::ftl::bast::Bast;
use ssd::ftl::block::BlockFtl;
use ssd::ftl::fast::Fast;
use ssd::ftl::hybrid::HybridConfig;
use ssd::ftl::page::{ConfigError, PageConfig, PageFtl};
use ssd::host::Hpb;
use ssd::power::{RecoveryStats, Scan, TestAids};
use ssd::tag::OOB_BYTES;
use ssd::{Cells, Dispatcher, Ssd};

use super::known::Known;
use super::plan::SsdPlan;
use crate::check::{Broken, Check, verdict};
use crate::engine::Attempt;
use crate::rules::Rules;
use crate::tape::Tape;

/// Out-of-band bytes of a page.
pub(super) const OOB: u32 = (OOB_BYTES as u32).next_multiple_of(64);

/// A translation layer that an enumeration can build.
pub(crate) trait Layer: UnitFtl + Clone + Send + Sync + 'static {
    /// Builds the layer over erased blocks.
    fn fresh(plan: &SsdPlan) -> Result<Self, ConfigError>;
    /// Builds the layer after a power cut, from a scan of the tags.
    fn again(plan: &SsdPlan, scan: Scan) -> Result<Self, ConfigError>;
    /// Checks the invariants of the layer; panics if one is broken.
    fn check(&self);
    /// Number of blocks that are not bad.
    fn good_blocks(&self) -> u32;
}

impl Layer for PageFtl {
    fn fresh(plan: &SsdPlan) -> Result<PageFtl, ConfigError> {
        PageFtl::new(page_config(plan), plan.rules.seed.stream("gc"))
    }

    fn again(plan: &SsdPlan, scan: Scan) -> Result<PageFtl, ConfigError> {
        let rng = plan.rules.seed.stream("gc/again");
        PageFtl::rebuild(page_config(plan), rng, scan.erases, &scan.bad, scan.pages)
    }

    fn check(&self) {
        PageFtl::check(self);
    }

    fn good_blocks(&self) -> u32 {
        PageFtl::good_blocks(self)
    }
}

fn page_config(plan: &SsdPlan) -> PageConfig {
    match &plan.drive.layer {
        subject::Layer::Page(config) => config.clone(),
        other => unreachable!("{other:?} is no page-level mapping"),
    }
}

fn hybrid_config(plan: &SsdPlan) -> HybridConfig {
    match &plan.drive.layer {
        subject::Layer::Bast(config) | subject::Layer::Fast(config) | subject::Layer::Block(config) => config.clone(),
        other => unreachable!("{other:?} has no log blocks"),
    }
}

macro_rules! log_block_layers {
    ($($layer:ty),*) => {$(
        impl Layer for $layer {
            fn fresh(plan: &SsdPlan) -> Result<Self, ConfigError> {
                <$layer>::new(hybrid_config(plan))
            }

            fn again(plan: &SsdPlan, scan: Scan) -> Result<Self, ConfigError> {
                <$layer>::rebuild(hybrid_config(plan), scan.erases, &scan.closed, scan.pages)
            }

            fn check(&self) {
                <$layer>::check(self);
            }

            fn good_blocks(&self) -> u32 {
                <$layer>::good_blocks(self)
            }
        }
    )*};
}
log_block_layers!(Bast, Fast, BlockFtl);

pub(crate) type Drive<M> = Hpb<Ssd<Tape, M>>;

/// Creates an empty drive.
/// Errors: a configuration that a layer or the drive refuses.
pub(crate) fn fresh<M: Layer>(plan: &SsdPlan) -> Result<Drive<M>, String> {
    let shape = plan.drive.shape;
    let layers: Result<Vec<M>, _> = (0..shape.units()).map(|_| M::fresh(plan)).collect();
    let layers = layers.map_err(|error| error.to_string())?;
    let tape = Tape::new(&plan.array, Bytes::with_oob());
    let dispatcher = Dispatcher::new(&shape, plan.drive.dispatch, Cells::new(&shape, tape), layers);
    let mut drive = Ssd::new(plan.drive.config.clone(), &shape, dispatcher).map_err(|error| error.to_string())?;
    drive.set_known_bad(plan.known_bad);
    if !areas(plan).is_empty() {
        drive.write_checkpoints(plan.drive.section.ftl.checkpoint_every, areas(plan));
    }
    Ok(Hpb::new(drive))
}

/// Blocks of each unit reserved for checkpoints; empty if none are written.
fn areas(plan: &SsdPlan) -> Vec<CheckpointRegions> {
    let units = plan.drive.shape.units();
    plan.drive.checkpoints.as_ref().map_or_else(Vec::new, |areas| vec![areas.clone(); units as usize])
}

/// Erase counts that a drive had in memory when power was lost.
#[derive(Clone, Debug)]
pub(crate) struct Wear(pub Vec<Vec<u32>>);

impl Wear {
    pub fn of<M: Layer>(drive: &Drive<M>) -> Wear {
        Wear(drive.device().dispatcher().units().iter().map(|unit| unit.erase_counts().to_vec()).collect())
    }

    /// Checks that erase counts of blocks with pages never fall. A block without readable tags gets the mean of the
    /// others, which must lie between the least and the greatest count before the cut. It is 0 if no block has a tag.
    fn never_falls(&self, unit: u32, found: &[u32], holds_pages: &[bool], broken: &mut Broken) {
        let known = &self.0[unit as usize];
        let least = known.iter().copied().min().unwrap_or(0);
        let most = known.iter().copied().max().unwrap_or(0);
        for (block, (&before, &now)) in known.iter().zip(found).enumerate() {
            if holds_pages[block] && now < before {
                broken
                    .push(Check::Counters.broken(format!(
                        "the erase count of block {block} of unit {unit} fell from {before} to {now}"
                    )));
            } else if !(least..=most).contains(&now) && (now > 0 || holds_pages.contains(&true)) {
                broken.push(Check::Ledger.broken(format!(
                    "the erase count of block {block} of unit {unit} is {now}; before the cut the least was {least} and the most {most}"
                )));
            }
        }
    }
}

/// Powers the drive on after a cut and checks it. `wear` is from before the cut. Blocks that `known` knows and nobody wrote
/// since are not scanned again.
pub(crate) fn bring_up<M: Layer>(
    plan: &SsdPlan,
    mut tape: Tape,
    wear: &Wear,
    known: &Known,
) -> Result<(Drive<M>, RecoveryStats), Broken> {
    tape.array.set_power_cut(None);
    tape.array.power_on();
    let shape = plan.drive.shape;
    let mut broken = Broken::new();
    let rebuild = |unit: u32, scan: Scan| {
        let mut holds = vec![false; shape.blocks as usize];
        let mut block = 0..0;
        for &(ppn, _) in scan.pages.iter().filter(|(_, held)| held.is_some()) {
            if !block.contains(&ppn) {
                let number = ppn / shape.unit_pages();
                block = number * shape.unit_pages()..(number + 1) * shape.unit_pages();
                holds[number as usize] = true;
            }
        }
        wear.never_falls(unit, &scan.erases, &holds, &mut broken);
        M::again(plan, scan)
    };
    let dispatch = plan.drive.dispatch;
    let areas = areas(plan);
    let aids = TestAids { known_bad: plan.known_bad, earlier: &known.scanned(&tape.array) };
    let up = Ssd::power_on_with(aids, plan.drive.config.clone(), &shape, dispatch, tape, &areas, rebuild);
    let (mut drive, recovered) =
        up.map_err(|error| vec![Check::ComesUp.broken(format!("it does not come up: {error}"))])?;
    if !areas.is_empty() {
        drive.resume_checkpoints(plan.drive.section.ftl.checkpoint_every, areas, &recovered);
    }
    let drive = Hpb::new(drive);
    whole(plan, &drive, &mut broken);
    verdict(broken).map(|()| (drive, recovered))
}

/// Reads the sectors of a clone of the drive.
/// Errors: one cannot be read.
pub(crate) fn contents<M: Layer>(drive: &Drive<M>, keep: Keep<'_>) -> Result<(), Broken> {
    let mut drive = drive.clone();
    let at = drive.device().now();
    runner::run::guest::contents(drive.device_mut(), at, keep)
        .map_err(|error| vec![Check::Works.broken(error.to_string())])
}

/// Describes what power-on found.
pub(crate) fn described(recovered: &RecoveryStats) -> String {
    let RecoveryStats { tags_read, pages_read, torn, took, checkpoints } = recovered;
    let whole = checkpoints.iter().flatten().count();
    let found = if whole == 0 { String::new() } else { format!(", {whole} checkpoints found whole") };
    let us = took.0 / 1000;
    format!("power on: {tags_read} tags and {pages_read} pages read in {us} µs, {torn} pages torn{found}")
}

/// Tears operations under way on other dies, each in a drawn way.
pub(crate) fn tear_other_dies<M: Layer>(rules: &Rules, drive: &mut Drive<M>, attempt: &mut Attempt<'_>) {
    let Attempt { rng, story, .. } = attempt;
    let written = story.is_written();
    drive.device_mut().flash_mut().recording = written.then(Vec::new);
    drive.device_mut().tear_under_way(|tape| {
        tape.array.power_on();
        tape.array.set_power_cut(Some(rules.second(rng, 1)));
    });
    for op in drive.device_mut().flash_mut().recording.take().into_iter().flatten() {
        story.tell(|| format!("also under way: {op}"));
    }
}

/// Programs and erases that failed.
pub(super) fn failures<M: Layer>(drive: &Drive<M>) -> u64 {
    let counts = drive.device().dispatcher().cells().flash().array.fault_counts();
    counts.program_failures + counts.erase_failures
}

/// Units with fewer than `blocks` good ones, and how many those have, from where `failures` of the whole drive do not excuse it.
fn lost_blocks(blocks: u32, good: impl Iterator<Item = u32>, failures: u64) -> Vec<(usize, u32)> {
    let mut missing = 0;
    let is_lost = |&(_, good): &(usize, u32)| {
        missing += u64::from(blocks - good);
        good < blocks && missing > failures
    };
    good.enumerate().filter(is_lost).collect()
}

/// Checks every invariant of the drive, and that no block is lost.
pub(crate) fn whole<M: Layer>(plan: &SsdPlan, drive: &Drive<M>, broken: &mut Broken) {
    let dispatcher = drive.device().dispatcher();
    dispatcher.check();
    let array = &dispatcher.cells().flash().array;
    let kept = areas(plan).first().map_or(0, |areas| areas.blocks().count() as u32);
    let blocks = dispatcher.cells().shape().blocks - kept;
    // Each failed program or erase may cost a block, and nothing else.
    let failures = failures(drive);
    dispatcher.units().iter().for_each(M::check);
    let good = dispatcher.units().iter().map(M::good_blocks);
    let lost = lost_blocks(blocks, good, failures).into_iter();
    broken.extend(
        lost.map(|(unit, good)| Check::Blocks.broken(format!("{good} of {blocks} blocks of unit {unit} are good"))),
    );
    let bad: Vec<Peb> = array.bad_pebs().collect();
    // One failure marks a block bad on all its planes.
    let of_unit = |unit: usize| dispatcher.cells().bad_blocks(unit as u32).len() as u64;
    if !bad.is_empty() && (0..dispatcher.units().len()).map(of_unit).sum::<u64>() > failures {
        broken.push(Check::Blocks.broken(format!("blocks are marked bad: {bad:?}")));
    }
    if dispatcher.counts().lost > 0 {
        let lost = dispatcher.counts().lost;
        broken.push(Check::Contents.broken(format!("{lost} pages could not be read when they were to be copied")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each failure costs the drive one block, not each unit one.
    #[test]
    fn a_failure_excuses_one_lost_block_of_all_units() {
        let lost = |good: &[u32], failures| lost_blocks(16, good.iter().copied(), failures);
        assert_eq!(lost(&[16, 16], 0), []);
        assert_eq!(lost(&[16, 15], 0), [(1, 15)]);
        assert_eq!(lost(&[15, 16], 1), []);
        assert_eq!(lost(&[14, 16], 2), []);
        assert_eq!(lost(&[15, 15], 2), []);
        assert_eq!(lost(&[15, 15, 16], 1), [(1, 15)]);
        assert_eq!(lost(&[14, 15], 1), [(0, 14), (1, 15)]);
    }

    /// A block with pages has its count or a greater one; one without them may have any that there was.
    #[test]
    fn an_erase_count_lies_where_it_may() {
        let wear = Wear(vec![vec![0], vec![5, 3, 8]]);
        let check = |found: [u32; 3], holds_pages: [bool; 3]| {
            let mut broken = Broken::new();
            wear.never_falls(1, &found, &holds_pages, &mut broken);
            broken.into_iter().map(|breach| breach.check).collect::<Vec<_>>()
        };
        for (found, of_pages, of_none) in [
            ([5, 3, 8], None, None),
            ([8, 8, 8], None, None),
            ([4, 3, 8], Some(Check::Counters), None),
            ([3, 3, 8], Some(Check::Counters), None),
            ([2, 3, 8], Some(Check::Counters), Some(Check::Ledger)),
            ([5, 2, 8], Some(Check::Counters), Some(Check::Ledger)),
            ([9, 3, 8], Some(Check::Ledger), Some(Check::Ledger)),
            ([5, 9, 8], Some(Check::Ledger), Some(Check::Ledger)),
            ([5, 3, 7], Some(Check::Counters), None),
        ] {
            let checks = [check(found, [true; 3]), check(found, [false; 3])];
            assert_eq!(checks, [of_pages, of_none].map(|check| check.into_iter().collect::<Vec<_>>()), "{found:?}");
        }
        // Without a tag in the unit there is no mean.
        assert_eq!(check([0; 3], [false; 3]), []);
        assert_eq!(check([0, 3, 8], [false, true, true]), [Check::Ledger]);
    }
}
