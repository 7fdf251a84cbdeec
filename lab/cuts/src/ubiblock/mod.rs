//! Power cuts of a ubiblock: a UBI volume as a block device, with LEBs in memory that power takes away.
//!
//! | promise | how it is checked |
//! |---|---|
//! | what a flush or a FUA write promised is there, sector by sector | every sector against the [`model`] |
//! | UBI attaches, stays writable, and its own invariants hold | attach, `Ubi::check`, no PEB lost |
//! | the recovered device works like the one before | whole LEBs are written and read, a second cut, another attach, checked again |
//!
//! Of the forms of write-back `atomic` keeps all of it, `v2-like` and `unmap-first` are known to lose a LEB. They are the
//! known-bad twins of this enumeration. Formatting and making the volume are not cut.

mod model;
#[cfg(test)]
mod twins;

use std::collections::BTreeSet;

use nand::{Bytes, PowerCut};
use runner::run::guest::dump;
use runner::schema::limits::{Cuts as Section, KnownBad};
use runner::schema::{ExperimentError, word, wrong};
use runner::subject::Ubiblock;
use sim::seam::{BlockDevice, BlockError, BlockOp, BlockRequest, LebVolume, Payload, SECTOR_BYTES};
use sim::{Cx, Lnum, Ns, Rng, Seed};
use ubi::block::UbiBlock;

use super::check::{Broken, Check, Site, at_the_end, second, verdict};
use super::engine::{Attempt, Cuts, Engine, Rig, described};
use super::rules::Rules;
use super::ssd::host;
use super::tape::Tape;
use super::volume::{self, Volume};
use super::weights;
use model::Model;

/// Steps in the description of a failure.
const HISTORY: usize = 8;
/// Whole LEBs that are written after a recovery.
const EXERCISE: u32 = 12;
/// Most NAND operations before a second cut.
const SECOND_CUT_WITHIN: u64 = 96;
/// Most sectors: every cut reads all of them.
const MOST_SECTORS: u64 = 1 << 16;
/// Pauses between requests, drawn evenly: the background and the idle write-back come in the long ones.
const PAUSES_NS: [u64; 4] = [0, 0, 1, 2_000_000_000];

/// A ubiblock on a flash that records its operations.
pub(super) type Device = UbiBlock<Volume>;

/// An enumeration of a ubiblock.
#[derive(Clone, Debug)]
pub struct UbiblockPlan {
    /// How a cut acts.
    pub rules: Rules,
    /// The device under test.
    pub subject: Ubiblock,
    /// Requests of the host.
    load: host::Load,
    /// What a test does behind UBI's back.
    sabotage: Option<Sabotage>,
    /// Mistakes of UBI that a test puts into the recovered device alone.
    once_recovered: Option<ubi::KnownBad>,
}

/// Changes the medium behind UBI's back: a test so finds the check that notices.
type Sabotage = fn(Site, &mut Tape, &Model);

/// Refuses a deliberate mistake beside those that are forms of the device.
pub(super) fn no_known_bad(cuts: &Section) -> Result<(), ExperimentError> {
    if cuts.known_bad == KnownBad::None {
        return Ok(());
    }
    let expected = "none: the forms v2-like and unmap-first of `ubiblock.form` are the mistakes to be found";
    wrong("cuts.known_bad", word(&cuts.known_bad), expected)
}

impl UbiblockPlan {
    /// Plans the cuts of a ubiblock.
    /// Errors: the first key whose value is impossible.
    pub(super) fn new(subject: Ubiblock, rules: Rules, cuts: &Section) -> Result<UbiblockPlan, ExperimentError> {
        no_known_bad(cuts)?;
        if subject.facts().read_only.is_some() {
            return wrong("ubiblock.form", "read-only", "a form with writes: nothing else can be lost in a cut");
        }
        let leb_bytes = subject.flash.layout.leb_bytes;
        if !leb_bytes.is_multiple_of(SECTOR_BYTES) {
            let expected = "pages, so that a LEB has whole sectors of 512 bytes";
            return wrong("nand.page_bytes", format!("LEBs of {leb_bytes} bytes"), expected);
        }
        let sectors = subject.bytes() / u64::from(SECTOR_BYTES);
        if sectors > MOST_SECTORS {
            let expected = format!("at most {}: every cut reads all of it", MOST_SECTORS * u64::from(SECTOR_BYTES));
            return wrong("ubiblock.size_bytes", subject.bytes(), expected);
        }
        let mut load = host::Load {
            requests: cuts.operations,
            depth: 1,
            most_pages: cuts.most_pages,
            queues: 1,
            weights: host::Load::WEIGHTS,
        };
        weights(&cuts.mix, &host::Kind::ALL.map(host::Kind::name), &mut load.weights)?;
        Ok(UbiblockPlan { rules, subject, load, sabotage: None, once_recovered: None })
    }

    /// Sectors of a page of the flash, the unit of the load.
    fn page(&self) -> u64 {
        u64::from((self.subject.flash.array.geometry.page_bytes / SECTOR_BYTES).max(1))
    }
}

/// Formats a flash and makes the device on it.
/// Errors: UBI refuses it.
pub(super) fn fresh(subject: &Ubiblock) -> Result<Device, String> {
    subject.make(Tape::new(&subject.flash.array, Bytes::new()), None).map_err(|error| error.to_string())
}

/// Restores power, attaches the flash and opens the device.
/// Errors: promises of UBI that are broken.
pub(super) fn bring_up(subject: &Ubiblock, device: Device) -> Result<Device, Broken> {
    let mut tape = device.into_volume().into_ubi().into_flash();
    tape.array.set_power_cut(None);
    tape.array.power_on();
    let mut cx = Cx::new();
    let volume = volume::opened(tape, &subject.flash.ubi, &mut cx).map_err(|what| vec![Check::ComesUp.broken(what)])?;
    let device = UbiBlock::new(volume, cx.now(), subject.config.clone())
        .map_err(|error| vec![Check::ComesUp.broken(error.to_string())])?;
    whole(&device)?;
    Ok(device)
}

/// Checks what UBI promises of itself. Errors: promises that are broken.
pub(super) fn whole(device: &Device) -> Result<(), Broken> {
    volume::whole(device.volume())
}

/// What the host does in a step.
#[derive(Clone, Copy, Debug)]
enum Step {
    Request(BlockRequest),
    Pause(Ns),
}

impl Step {
    fn described(&self) -> String {
        match self {
            Step::Request(request) => host::described(request),
            Step::Pause(Ns(ns)) => format!("nothing for {ns} ns"),
        }
    }
}

/// Why a step failed.
enum Down {
    Power,
    Broken(Broken),
}

/// The device between two steps of its host.
#[derive(Clone)]
struct Stage {
    device: Device,
    model: Model,
    now: Ns,
    /// Version of the next write.
    version: u32,
}

impl Stage {
    fn new(device: Device, model: Model, version: u32) -> Stage {
        Stage { now: device.now(), device, model, version }
    }

    fn is_powered(&self) -> bool {
        self.device.volume().ubi().flash().array.is_powered()
    }

    fn step(&mut self, step: &Step) -> Result<(), Down> {
        let outcome = match step {
            Step::Request(request) => self.ask(request),
            &Step::Pause(pause) => {
                self.now += pause;
                while self.device.next_done(self.now).is_some() {}
                Ok(())
            }
        };
        if self.is_powered() { outcome } else { outcome.and(Err(Down::Power)) }
    }

    fn ask(&mut self, request: &BlockRequest) -> Result<(), Down> {
        let broken =
            |what: String| Down::Broken(vec![Check::Works.broken(format!("{}: {what}", host::described(request)))]);
        let mut data = Vec::new();
        self.version += 1;
        self.model.asked(request, self.version, &mut data);
        let payload = if request.op == BlockOp::Write { Payload::Bytes(&data) } else { Payload::Length(0) };
        let submitted = self.device.submit(self.now, 0, *request, payload);
        let result = submitted.map(|()| self.device.next_done(Ns(u64::MAX)));
        match result {
            Ok(Some(done)) => {
                self.now = done.at;
                done.result.map_err(|error| match error {
                    BlockError::PowerLost => Down::Power,
                    error => broken(format!("failed: {error}")),
                })?;
            }
            Ok(None) => return Err(broken("never completed".to_owned())),
            Err(BlockError::PowerLost) => return Err(Down::Power),
            Err(error) => return Err(broken(format!("refused: {error}"))),
        }
        self.model.done(request);
        if request.op == BlockOp::Read && self.is_powered() {
            let mut found = vec![0xee; request.bytes() as usize];
            self.device.take(0, &mut found);
            let wrong = self.model.reads(request.sector, &found);
            if !wrong.is_empty() {
                return Err(Down::Broken(Check::Reads.each(wrong).collect()));
            }
        }
        Ok(())
    }

    /// Compares every sector with the promises after a cut, and adopts what is there.
    fn survived(&mut self) -> Result<(), Broken> {
        let per_leb = self.model.per_leb();
        let leb_bytes = per_leb * u64::from(SECTOR_BYTES);
        let mut leb = vec![0; leb_bytes as usize];
        let mut broken = Broken::new();
        for lnum in 0..self.model.sectors() / per_leb {
            let cx = &mut Cx::new();
            let volume = self.device.volume_mut();
            let whole = volume.read(cx, Lnum(lnum as u32), 0, &mut leb).is_ok();
            let mut wrong = Vec::new();
            for (number, found) in (lnum * per_leb..).zip(leb.chunks_exact_mut(SECTOR_BYTES as usize)) {
                let offset = (number % per_leb) as u32 * SECTOR_BYTES;
                let is_there = whole || volume.read(cx, Lnum(lnum as u32), offset, found).is_ok();
                wrong.extend(self.model.survived(number, is_there.then_some(&*found)).err());
            }
            if !wrong.is_empty() {
                let state = if volume.is_mapped(Lnum(lnum as u32)) { "torn" } else { "gone: no PEB holds it" };
                broken.push(Check::Contents.broken(format!("LEB {lnum} is {state}")));
                broken.extend(Check::Contents.each(wrong));
            }
        }
        verdict(broken)
    }
}

/// A ubiblock, and the steps that were drawn.
struct UbiblockRig {
    plan: UbiblockPlan,
    rng: Rng,
    steps: Vec<Step>,
    /// The steps to do instead of drawn ones, the last first.
    script: Option<Vec<Step>>,
}

/// Runs the workload once without a cut.
/// Errors: why the device cannot be made.
pub(super) fn prepare(plan: UbiblockPlan) -> Result<Box<dyn Cuts>, String> {
    let mut device = fresh(&plan.subject)?;
    let model = model_of(&plan, &device);
    device.volume_mut().flash_mut().last = None;
    let rig = UbiblockRig { rng: plan.rules.seed.stream("cuts/workload"), plan, steps: Vec::new(), script: None };
    Ok(Box::new(Engine::prepare(rig, Stage::new(device, model, 0))))
}

fn model_of(plan: &UbiblockPlan, device: &Device) -> Model {
    let per_leb = plan.subject.flash.layout.leb_bytes / SECTOR_BYTES;
    debug_assert_eq!(device.sectors(), u64::from(plan.subject.lebs) * u64::from(per_leb));
    Model::new(plan.subject.lebs, per_leb.into(), plan.subject.config.discard)
}

impl Rig for UbiblockRig {
    type Stage = Stage;
    type Scene = ();
    const CHUNK: usize = 64;

    fn rules(&self) -> &Rules {
        &self.plan.rules
    }

    fn tape(stage: &Stage) -> &Tape {
        stage.device.volume().ubi().flash()
    }

    fn tape_mut(stage: &mut Stage) -> &mut Tape {
        stage.device.volume_mut().flash_mut()
    }

    fn draw(&mut self, stage: &mut Stage) -> bool {
        if let Some(script) = &mut self.script {
            let next = script.pop();
            self.steps.extend(next);
            return next.is_some();
        }
        if self.steps.len() as u32 >= self.plan.load.requests {
            return false;
        }
        let pause = PAUSES_NS[self.rng.below(PAUSES_NS.len() as u64) as usize];
        let request = self.plan.load.draw(&mut self.rng, stage.model.sectors(), self.plan.page());
        let after_request = matches!(self.steps.last(), Some(Step::Request(_)));
        self.steps.push(if after_request && pause > 0 { Step::Pause(Ns(pause)) } else { Step::Request(request) });
        true
    }

    fn advance(&self, mut stage: Stage, step: usize) -> Result<Stage, Broken> {
        match stage.step(&self.steps[step]) {
            Ok(()) => Ok(stage),
            Err(Down::Broken(what)) => Err(what),
            Err(Down::Power) => Err(vec![Check::Power.broken("power was lost")]),
        }
    }

    fn scene(&self, _: &mut Stage, _: usize) {}

    fn cut(&self, stage: &Stage, (): &(), cut: PowerCut, attempt: &mut Attempt<'_>) -> Result<(), Broken> {
        let mut stage = stage.clone();
        let tape = stage.device.volume_mut().flash_mut();
        tape.array.set_power_cut(Some(cut));
        if attempt.story.is_written() {
            tape.recording = Some(Vec::new());
        }
        self.sabotage(Site::Armed, &mut stage);
        // The step that the engine cuts is the one after those that are done.
        let step = self.steps[attempt.step()];
        match stage.step(&step) {
            Err(Down::Power) => {}
            Err(Down::Broken(what)) => return Err(what),
            Ok(()) => return Err(vec![Check::Power.broken("the cut did not trip: the run is not deterministic")]),
        }
        attempt.struck(stage.device.volume_mut().flash_mut(), &cut);
        self.survive(stage, attempt, true)
    }

    fn history(&self, step: usize) -> Vec<String> {
        let first = (step + 1).saturating_sub(HISTORY);
        (first..=step).map(|at| format!("step {}: {}", at + 1, self.steps[at].described())).collect()
    }

    fn now(stage: &Stage) -> Option<Ns> {
        Some(stage.now)
    }

    fn parts(&self, step: usize) -> Option<usize> {
        Some((step + 1).min(self.steps.len()))
    }

    fn part(&self, part: usize) -> Option<String> {
        self.steps.get(part).map(Step::described)
    }

    fn only(&self, parts: &[usize], first: Stage) -> Option<(UbiblockRig, Stage)> {
        let script = parts.iter().rev().filter_map(|&part| self.steps.get(part).copied()).collect();
        let (plan, rng) = (self.plan.clone(), self.rng.clone());
        Some((UbiblockRig { plan, rng, steps: Vec::new(), script: Some(script) }, first))
    }
}

impl UbiblockRig {
    /// Restores power after a cut and checks every promise. After the first cut, power is switched off once more in the end.
    fn survive(&self, stage: Stage, attempt: &mut Attempt<'_>, is_first: bool) -> Result<(), Broken> {
        let site = if is_first { Site::Cut } else { Site::SecondCut };
        let mut stage = self.power_on(stage, attempt, site)?;
        self.sabotage(Site::Recovered, &mut stage);
        if let Some(mistakes) = self.plan.once_recovered {
            stage.device.volume_mut().set_known_bad(mistakes);
        }
        if attempt.goes_on() {
            let cut = self.plan.rules.second(&mut attempt.rng, SECOND_CUT_WITHIN);
            stage.device.volume_mut().flash_mut().array.set_power_cut(Some(cut));
        }
        let mut rng = Seed(attempt.rng.bits()).stream("cuts/exercise");
        let per_leb = stage.model.per_leb();
        let mut written = BTreeSet::new();
        for _ in 0..EXERCISE {
            // A LEB whose first copy was torn can only be written whole.
            let lnum = rng.below(stage.model.sectors() / per_leb);
            let write = BlockRequest::write(lnum * per_leb, per_leb as u32);
            let step = match rng.below(4) {
                0 => Step::Request(BlockRequest::flush()),
                1 => Step::Request(BlockRequest { fua: true, ..write }),
                2 => Step::Pause(Ns(PAUSES_NS[3])),
                _ => Step::Request(write),
            };
            if matches!(step, Step::Request(request) if request.op == BlockOp::Write) {
                written.insert(lnum);
            }
            attempt.story.tell(|| format!("then: {}", step.described()));
            match stage.step(&step) {
                Ok(()) => {}
                Err(Down::Broken(what)) => return Err(at_the_end("after the recovery", what)),
                Err(Down::Power) => {
                    let last = stage.device.volume().ubi().flash().last;
                    attempt.story.tell(|| format!("second cut: {}", described(last)));
                    return self.survive(stage, attempt, false).map_err(second);
                }
            }
        }
        stage.device.volume_mut().flash_mut().array.set_power_cut(None);
        self.sabotage(Site::Used, &mut stage);
        whole(&stage.device).map_err(|broken| at_the_end("after the recovery", broken))?;
        for lnum in written {
            match stage.ask(&BlockRequest::read(lnum * per_leb, per_leb as u32)) {
                Ok(()) => {}
                Err(Down::Broken(what)) => return Err(at_the_end("after the recovery", what)),
                Err(Down::Power) => return Err(vec![Check::Power.broken("power was lost")]),
            }
        }
        if is_first {
            attempt.story.tell(|| "power off between two operations".to_owned());
            stage.device.volume_mut().flash_mut().array.power_off();
            self.power_on(stage, attempt, Site::End).map_err(|broken| at_the_end("in the end", broken))?;
        }
        Ok(())
    }

    fn sabotage(&self, site: Site, stage: &mut Stage) {
        if let Some(sabotage) = self.plan.sabotage {
            let Stage { device, model, .. } = stage;
            sabotage(site, device.volume_mut().flash_mut(), model);
        }
    }

    /// Restores power and compares every sector with the model.
    fn power_on(&self, mut stage: Stage, attempt: &mut Attempt<'_>, site: Site) -> Result<Stage, Broken> {
        self.sabotage(site, &mut stage);
        let Stage { device, model, version, .. } = stage;
        let in_memory = device.dirty_lebs();
        let device = bring_up(&self.plan.subject, device)?;
        attempt.story.tell(|| format!("power on: UBI attaches; {in_memory} dirty LEBs were in memory"));
        attempt.left(|keep| {
            dump(&device.volume().ubi().flash().array, keep);
            Ok(())
        })?;
        let mut stage = Stage::new(device, model, version);
        stage.survived()?;
        attempt.story.tell(|| "everything promised is there".to_owned());
        Ok(stage)
    }
}
