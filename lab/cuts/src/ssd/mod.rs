//! Power cuts of a drive.
//!
//! | promise | how it is checked |
//! |---|---|
//! | data flushed, written with FUA or past the buffer are kept; no sector is torn or reverts | every sector against the [`model`] |
//! | the mapping is consistent | `check` of every layer and of the dispatcher |
//! | erase counts never fall | counts in memory before, compared with those in the tags |
//! | no block is lost | no block is marked bad |
//! | the recovered drive works like the one before | more requests, a second cut, another power-on, checked again |
//!
//! What was compared and not written since is not read again: see [`known`] and [`read`].
//!
//! The first cut interrupts the first flash operation of the empty drive. Power-on only reads, so there is nothing to
//! cut in it. A cut tears the operation that it interrupts, and those under way on other dies, each in a drawn way.

pub(super) mod drive;
pub(super) mod host;
pub(super) mod known;
mod model;
mod plan;
mod read;
#[cfg(test)]
mod twins;

use std::sync::Arc;

use nand::PowerCut;
use runner::subject;
use sim::Ns;
use sim::seam::BlockRequest;
use ssd::ftl::bast::Bast;
use ssd::ftl::block::BlockFtl;
use ssd::ftl::fast::Fast;
use ssd::ftl::page::PageFtl;

use super::check::{Broken, Check, Site, at_the_end, second, verdict};
use super::engine::{Attempt, Cuts, Engine, Rig, described};
use super::rules::Rules;
use super::tape::Tape;
use drive::{Drive, Layer, Wear, bring_up, fresh, tear_other_dies, whole};
use host::{Down, Host, Load};
use known::{Known, Seen};
use model::Model;
pub use plan::{KNOWN_BAD, SsdPlan};
use read::{READS, SURVIVED, Skip, read_all};

/// Requests in the description of a failure.
const HISTORY: usize = 8;
/// Requests after a recovery that is cut again, and after the last one.
const EXERCISE: u32 = 32;
const LAST_EXERCISE: u32 = 8;
/// Most NAND operations before a second cut.
const SECOND_CUT_WITHIN: u64 = 96;
/// Weights of the requests after a recovery.
const EXERCISE_WEIGHTS: [u32; 5] = [70, 8, 8, 4, 10];

/// The drive between two steps of its host.
#[derive(Clone)]
struct Stage<M> {
    drive: Drive<M>,
    model: Model,
    host: Host,
    /// What its cells held before the step that is cut.
    known: Arc<Known>,
}

/// A drive with layer `M`, and a partly drawn workload.
struct SsdRig<M> {
    plan: SsdPlan,
    /// Whether writes are durable at completion.
    at_once: bool,
    requests: Vec<BlockRequest>,
    /// Requests submitted by the end of each step.
    issued: Vec<u32>,
    layer: std::marker::PhantomData<fn() -> M>,
}

/// Whether a write is kept as soon as it completes: no buffer holds it.
fn keeps_at_once(config: &ssd::DriveConfig) -> bool {
    config.cache.is_none() || !config.front.write_cache
}

/// Whether trimmed sectors may read as what they were before.
fn shows_old(plan: &SsdPlan) -> bool {
    plan.drive.config.front.trimmed_reads == ssd::TrimmedReads::Undefined
}

/// Runs the workload once without a cut.
/// Errors: why the drive cannot be built.
pub(super) fn prepare(plan: SsdPlan) -> Result<Box<dyn Cuts>, String> {
    fn of<M: Layer>(plan: SsdPlan) -> Result<Box<dyn Cuts>, String> {
        let drive: Drive<M> = fresh(&plan)?;
        let at_once = keeps_at_once(drive.device().config());
        let page = plan.drive.shape.page_bytes / sim::seam::SECTOR_BYTES;
        let model = Model::new(sim::seam::BlockDevice::sectors(&drive), page.into(), shows_old(&plan));
        let host = Host::new(plan.load.clone(), plan.rules.seed.stream("cuts/workload"), &model, at_once);
        let rig = SsdRig { plan, at_once, requests: Vec::new(), issued: Vec::new(), layer: std::marker::PhantomData };
        Ok(Box::new(Engine::prepare(rig, Stage { drive, model, host, known: Arc::default() })))
    }
    match plan.drive.layer {
        subject::Layer::Bast(_) => of::<Bast>(plan),
        subject::Layer::Fast(_) => of::<Fast>(plan),
        subject::Layer::Block(_) => of::<BlockFtl>(plan),
        subject::Layer::Page(_) => of::<PageFtl>(plan),
    }
}

impl<M: Layer> Rig for SsdRig<M> {
    type Stage = Stage<M>;
    type Scene = Arc<Known>;
    const CHUNK: usize = 64;

    fn rules(&self) -> &Rules {
        &self.plan.rules
    }

    fn tape(stage: &Stage<M>) -> &Tape {
        stage.drive.device().dispatcher().cells().flash()
    }

    fn tape_mut(stage: &mut Stage<M>) -> &mut Tape {
        stage.drive.device_mut().flash_mut()
    }

    fn draw(&mut self, stage: &mut Stage<M>) -> bool {
        if stage.host.is_done() {
            return false;
        }
        self.requests.extend(stage.host.hands_over());
        self.issued.push(self.requests.len() as u32);
        true
    }

    fn advance(&self, mut stage: Stage<M>, _: usize) -> Result<Stage<M>, Broken> {
        match stage.host.step(&mut stage.drive, &mut stage.model) {
            Ok(()) => {}
            Err(Down::Broken(what)) => return Err(what),
            Err(Down::NoSpare(what)) => return Err(without_spare(&stage.drive, what)),
            Err(Down::Power) => return Err(vec![Check::Power.broken("power was lost")]),
        }
        Ok(stage)
    }

    fn scene(&self, stage: &mut Stage<M>, _: usize) -> Arc<Known> {
        stage.known = Arc::new(Known::of(&stage.drive, &stage.known));
        stage.known.clone()
    }

    fn cut(
        &self,
        stage: &Stage<M>,
        known: &Arc<Known>,
        cut: PowerCut,
        attempt: &mut Attempt<'_>,
    ) -> Result<(), Broken> {
        let Stage { mut drive, mut model, mut host, .. } = stage.clone();
        drive.device_mut().flash_mut().array.set_power_cut(Some(cut));
        if attempt.story.is_written() {
            drive.device_mut().flash_mut().recording = Some(Vec::new());
        }
        self.sabotage(Site::Armed, drive.device_mut().flash_mut(), &mut Wear(Vec::new()));
        let ended = host.step(&mut drive, &mut model);
        if drive.device_mut().flash_mut().array.is_powered() {
            return Err(match ended {
                Err(Down::Broken(what) | Down::NoSpare(what)) => what,
                _ => vec![Check::Power.broken("the cut did not trip: the run is not deterministic")],
            });
        }
        if let Err(Down::Broken(what)) = ended {
            return Err(what);
        }
        host.last_completions(&mut drive, &mut model)?;
        attempt.struck(drive.device_mut().flash_mut(), &cut);
        tear_other_dies(&self.plan.rules, &mut drive, attempt);
        self.survive(drive, model, &mut Seen::new(known), attempt, true)
    }

    fn history(&self, step: usize) -> Vec<String> {
        let issued = self.issued[step] as usize;
        let first = issued.saturating_sub(HISTORY);
        (first..issued).map(|i| format!("request {}: {}", i + 1, host::described(&self.requests[i]))).collect()
    }

    fn now(stage: &Stage<M>) -> Option<Ns> {
        Some(stage.drive.device().now())
    }

    fn parts(&self, step: usize) -> Option<usize> {
        Some(self.issued.get(step).map_or(self.requests.len(), |&issued| issued as usize))
    }

    fn part(&self, part: usize) -> Option<String> {
        self.requests.get(part).map(host::described)
    }

    fn only(&self, parts: &[usize], first: Stage<M>) -> Option<(SsdRig<M>, Stage<M>)> {
        let script: Vec<BlockRequest> = parts.iter().filter_map(|&part| self.requests.get(part).copied()).collect();
        let host = first.host.scripted(script.into());
        let (plan, requests) = (self.plan.clone(), Vec::new());
        let rig = SsdRig { plan, requests, at_once: self.at_once, issued: Vec::new(), layer: self.layer };
        Some((rig, Stage { host, ..first }))
    }
}

/// What a workload found that ends because the drive takes no more writes.
fn without_spare<M: Layer>(drive: &Drive<M>, what: Broken) -> Broken {
    match drive::failures(drive) {
        0 => what,
        failures => vec![Check::Works.broken(format!(
            "the drive has no spare block left after {failures} failed programs and erases: lower the rates of [faults], or raise \
             ssd.over_provisioning_percent"
        ))],
    }
}

impl<M: Layer> SsdRig<M> {
    /// Restores power after a cut and checks every promise. After the first cut, power is switched off once more in the end.
    fn survive(
        &self,
        drive: Drive<M>,
        mut model: Model,
        seen: &mut Seen<'_>,
        attempt: &mut Attempt<'_>,
        is_first: bool,
    ) -> Result<(), Broken> {
        let site = if is_first { Site::Cut } else { Site::SecondCut };
        let mut drive = self.power_on(drive, &mut model, seen, attempt, site)?;
        self.sabotage(Site::Recovered, drive.device_mut().flash_mut(), &mut Wear(Vec::new()));
        let goes_on = attempt.goes_on();
        let requests = if is_first || goes_on { EXERCISE } else { LAST_EXERCISE };
        if goes_on {
            let cut = self.plan.rules.second(&mut attempt.rng, SECOND_CUT_WITHIN);
            drive.device_mut().flash_mut().array.set_power_cut(Some(cut));
        }
        let load = Load { requests, weights: EXERCISE_WEIGHTS, ..self.plan.load.clone() };
        let rng = sim::Seed(attempt.rng.bits()).stream("cuts/exercise");
        let mut host = Host::new(load, rng, &model, self.at_once);
        while !host.is_done() {
            if attempt.story.is_written()
                && let Some(request) = host.hands_over()
            {
                attempt.story.tell(|| format!("then: {}", host::described(request)));
            }
            let ended = host.step(&mut drive, &mut model);
            let powered = drive.device_mut().flash_mut().array.is_powered();
            match ended {
                Err(Down::Broken(what)) => return Err(at_the_end("after the recovery", what)),
                Err(Down::NoSpare(what)) if powered && drive::failures(&drive) == 0 => {
                    return Err(at_the_end("after the recovery", what));
                }
                Err(Down::NoSpare(_)) if powered => {
                    attempt.story.tell(|| "the drive has no spare block left, and takes no more writes".to_owned());
                    return self.ends(drive, model, seen, attempt, is_first);
                }
                _ if powered => {}
                _ => {
                    host.last_completions(&mut drive, &mut model)?;
                    let last = drive.device_mut().flash_mut().last;
                    attempt.story.tell(|| format!("second cut: {}", described(last)));
                    tear_other_dies(&self.plan.rules, &mut drive, attempt);
                    return self.survive(drive, model, seen, attempt, false).map_err(second);
                }
            }
        }
        drive.device_mut().flash_mut().array.set_power_cut(None);
        self.sabotage(Site::Used, drive.device_mut().flash_mut(), &mut Wear(Vec::new()));
        let mut broken = Broken::new();
        whole(&self.plan, &drive, &mut broken);
        verdict(at_the_end("after the recovery", broken))?;
        let skip = Skip { seen: &mut *seen, rng: attempt.rng.clone(), keep: is_first };
        let skip = self.may_skip(false).then_some(skip);
        read_all(&mut drive, &mut model, READS, skip).map_err(|broken| at_the_end("after the recovery", broken))?;
        self.ends(drive, model, seen, attempt, is_first)
    }

    /// After the first cut: switches power off once more, and checks every promise.
    fn ends(
        &self,
        mut drive: Drive<M>,
        mut model: Model,
        seen: &mut Seen<'_>,
        attempt: &mut Attempt<'_>,
        is_first: bool,
    ) -> Result<(), Broken> {
        if is_first {
            attempt.story.tell(|| "power off between two operations".to_owned());
            drive.device_mut().flash_mut().array.set_power_cut(None);
            drive.device_mut().flash_mut().array.power_off();
            self.power_on(drive, &mut model, seen, attempt, Site::End)
                .map_err(|broken| at_the_end("in the end", broken))?;
        }
        Ok(())
    }

    /// Whether pages that were seen need not be read again, in a read of the whole drive that is the last or not. Not if reads
    /// may fail, or differ each time. With HPB only in the last: by reading the host gets entries, and a read by entry takes another way.
    fn may_skip(&self, is_last: bool) -> bool {
        self.plan.array.faults.is_none() && !shows_old(&self.plan) && (is_last || self.plan.drive.config.hpb.is_none())
    }

    fn sabotage(&self, site: Site, tape: &mut Tape, wear: &mut Wear) {
        if let Some(sabotage) = self.plan.sabotage {
            sabotage(site, tape, wear);
        }
    }

    /// Restores power and compares every sector with the model.
    fn power_on(
        &self,
        drive: Drive<M>,
        model: &mut Model,
        seen: &mut Seen<'_>,
        attempt: &mut Attempt<'_>,
        site: Site,
    ) -> Result<Drive<M>, Broken> {
        let mut wear = Wear::of(&drive);
        let mut tape: Tape = drive.into_device().into_dispatcher().into_parts().0.into_flash();
        self.sabotage(site, &mut tape, &mut wear);
        let (mut drive, recovered) = bring_up(&self.plan, tape, &wear, seen.known())?;
        attempt.story.tell(|| drive::described(&recovered));
        attempt.left(|keep| drive::contents(&drive, keep))?;
        let skip = Skip { seen, rng: attempt.rng.clone(), keep: site == Site::SecondCut };
        let skip = self.may_skip(site == Site::End).then_some(skip);
        read_all(&mut drive, model, SURVIVED, skip)?;
        attempt.story.tell(|| "everything promised is there".to_owned());
        Ok(drive)
    }
}
