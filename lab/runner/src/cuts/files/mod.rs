//! Power cuts of UBIFS, on UBI, on raw flash.
//!
//! | promise | how it is checked |
//! |---|---|
//! | the file system can be mounted for writing, and a check of everything finds no error | [`fs::ubifs::Reader::check`] |
//! | names are those after one operation since they were made safe | [`fs::model::history`] |
//! | attributes, extended attributes and each block are such as they were since they were made safe | likewise |
//! | what has no name is gone | the check of everything |
//! | UBI attaches, stays writable, and its own invariants hold | attach, `Ubi::check`, no PEB lost |
//! | the recovered file system works like the one before | more calls, a second cut, another mount, checked again |
//!
//! Each step of the workload is done once, and the flash is kept before each of its operations. A cut is that operation,
//! interrupted on a copy: the layers above need not do it again. The first step of each run shows that they would leave the
//! same. Formatting and making the file system are not cut.

mod calls;
mod device;
mod load;
#[cfg(test)]
mod twins;

use std::sync::Arc;

use fs::model::history::{History, Rule};
use fs::model::view::Everything;
use fs::ubifs::check::Severity;
use fs::ubifs::{KnownBad, Options, Ubifs, mkfs};
use nand::{ArrayConfig, CutAt, PowerCut};
use sim::{Cx, Ns, Peb};
use ubi::Config;
use workload::fsstress;

use super::check::{Breach, Broken, Check, Site, at_the_end, second};
use super::engine::{Attempt, Cuts, Engine, Rig, described};
use super::rules::Rules;
use super::tape::{Frame, Tape};
use super::weights;
use crate::run::guest::dump;
use crate::schema::limits::{Cuts as Section, KnownBad as Word};
use crate::schema::{ExperimentError, word, wrong};
use crate::subject::{FileLoad, FileSystem, RawFlash};
use calls::Call;
use device::{Down, Known, Stage, Volume, black_box, bring_up, structure, whole};
use load::{KINDS, Load, after_recovery};

/// Steps in the description of a failure.
const HISTORY: usize = 12;
/// Calls after a recovery.
const EXERCISE: u32 = 6;
/// Most NAND operations before a second cut.
const SECOND_CUT_WITHIN: u64 = 96;

const GOOD: KnownBad = KnownBad {
    skip_write_buffer: false,
    write_one_master: false,
    forget_orphans: false,
    clean_log_first: false,
    trust_heads: false,
};

/// Deliberate mistakes of UBIFS by their names in a file.
pub const KNOWN_BAD: [(Word, KnownBad); 5] = [
    (Word::None, GOOD),
    (Word::SkipWriteBuffer, KnownBad { skip_write_buffer: true, ..GOOD }),
    (Word::WriteOneMaster, KnownBad { write_one_master: true, ..GOOD }),
    (Word::ForgetOrphans, KnownBad { forget_orphans: true, ..GOOD }),
    (Word::TrustHeads, KnownBad { trust_heads: true, ..GOOD }),
];

/// An enumeration of UBIFS, with every choice explicit.
#[derive(Clone, Debug)]
pub struct UbifsPlan {
    /// How a cut acts.
    pub rules: Rules,
    /// Configuration of the flash.
    pub array: ArrayConfig,
    /// Attach parameters of UBI.
    pub ubi: Config,
    /// LEBs of the volume.
    pub lebs: u32,
    /// How the file system is made.
    pub format: mkfs::Options,
    /// How it is mounted, with its deliberate mistakes.
    pub mount: Options,
    /// Processes of fsstress.
    pub processes: u32,
    /// What each of them does.
    pub stress: fsstress::Options,
    /// Number of calls.
    pub operations: u32,
    /// Weights of the kinds of draws.
    weights: [u32; KINDS.len()],
    /// What a test does behind the layers' back.
    sabotage: Option<Sabotage>,
}

/// Changes the medium behind the layers' back: a test so finds the check that notices.
type Sabotage = fn(Site, &mut Tape);

impl UbifsPlan {
    /// Plans the cuts of a file system. The flash takes no time, and does not fail otherwise.
    /// Errors: the first key whose value is impossible.
    pub(super) fn new(
        flash: &RawFlash,
        file_system: &FileSystem,
        rules: Rules,
        cuts: &Section,
    ) -> Result<UbifsPlan, ExperimentError> {
        let Some(&(_, known_bad)) = KNOWN_BAD.iter().find(|(word, _)| *word == cuts.known_bad) else {
            return wrong("cuts.known_bad", word(&cuts.known_bad), "a mistake of UBIFS");
        };
        let FileSystem { lebs, format, mount, load, .. } = file_system;
        let FileLoad::Fsstress(processes, stress) = load else {
            return wrong(load.name(), "it", "fsstress: power cuts interrupt no other load of a file system");
        };
        let mut weights_of = KINDS.map(|(_, weight)| weight);
        weights(&cuts.mix, &KINDS.map(|(kind, _)| kind), &mut weights_of)?;
        Ok(UbifsPlan {
            rules,
            array: ArrayConfig { rules: flash.array.rules, ..ArrayConfig::plain(flash.array.geometry) },
            ubi: flash.ubi.clone(),
            lebs: *lebs,
            format: *format,
            mount: Options { known_bad, ..*mount },
            processes: *processes,
            // The number of calls ends it.
            stress: fsstress::Options { operations: u64::MAX, overlaps: false, ..**stress },
            operations: cuts.operations,
            weights: weights_of,
            sabotage: None,
        })
    }

    fn load(&self) -> Load {
        Load::new(self.weights, self.rules.seed.stream("cuts/workload"))
    }
}

/// UBIFS, and the calls that were drawn.
struct UbifsRig {
    plan: UbifsPlan,
    load: Load,
    steps: Vec<Call>,
    /// The calls to make instead of drawn ones, the last first.
    script: Option<Vec<Call>>,
}

/// A step about to be cut.
struct Scene {
    /// The flash before each of its operations.
    frames: Vec<Frame>,
    /// What may be there after a cut.
    history: Arc<History>,
    /// When power is back.
    now: Ns,
}

/// Makes the file system and runs the workload once without a cut.
/// Errors: why the file system cannot be made.
pub(super) fn prepare(plan: UbifsPlan) -> Result<Box<dyn Cuts>, String> {
    let mut stage = Stage::fresh(&plan)?;
    stage.tape_mut().last = None;
    let load = plan.load();
    Ok(Box::new(Engine::prepare(UbifsRig { plan, load, steps: Vec::new(), script: None }, stage)))
}

impl Rig for UbifsRig {
    type Stage = Stage;
    type Scene = Scene;
    const CHUNK: usize = 16;

    fn rules(&self) -> &Rules {
        &self.plan.rules
    }

    fn tape(stage: &Stage) -> &Tape {
        stage.tape()
    }

    fn tape_mut(stage: &mut Stage) -> &mut Tape {
        stage.tape_mut()
    }

    fn draw(&mut self, stage: &mut Stage) -> bool {
        let next = match &mut self.script {
            Some(script) => loop {
                match script.pop() {
                    Some(call) if !stage.allows(&call) => {}
                    next => break next,
                }
            },
            None if self.steps.len() as u32 >= self.plan.operations => None,
            None => self.load.draw(&self.plan, stage),
        };
        let is_drawn = next.is_some();
        self.steps.extend(next);
        is_drawn
    }

    fn advance(&self, stage: Stage, step: usize) -> Result<Stage, Broken> {
        match stage.step(&self.plan, &self.steps[step]) {
            Ok((mut stage, safe)) => {
                stage.made_safe(safe);
                Ok(stage)
            }
            Err(Down::Broken(what)) => Err(what),
            Err(Down::Power) => Err(vec![Check::Power.broken("power was lost")]),
        }
    }

    fn scene(&self, stage: &mut Stage, step: usize) -> Scene {
        let mut copy = stage.clone();
        copy.tape_mut().film = Some(Vec::new());
        match copy.step(&self.plan, &self.steps[step]) {
            Ok((mut after, _)) => {
                let frames = after.tape_mut().film.take().unwrap_or_default();
                let Known { history, now, .. } = after.known;
                Scene { frames, history: Arc::new(history), now }
            }
            Err(_) => unreachable!("it went well before"),
        }
    }

    fn cut(&self, stage: &Stage, scene: &Scene, cut: PowerCut, attempt: &mut Attempt<'_>) -> Result<(), Broken> {
        let is_struck = |frame: &&Frame| cut.at == CutAt::Op(frame.array.ops());
        let did_not_trip = || vec![Check::Power.broken("the cut did not trip: the run is not deterministic")];
        let frame = scene.frames.iter().find(is_struck).ok_or_else(did_not_trip)?;
        let mut tape = frame.cut(cut, |tape| self.sabotage(Site::Armed, tape));
        if tape.array.is_powered() {
            return Err(did_not_trip());
        }
        // The layers leave the same, and know that power is lost.
        if std::ptr::eq(frame, &scene.frames[scene.frames.len() - 1]) {
            self.is_left_by_the_layers(stage, cut, attempt.step(), &tape)?;
        }
        if attempt.story.is_written() {
            let before = scene.frames.iter().take_while(|other| !std::ptr::eq(*other, frame));
            tape.recording = Some(before.map(|frame| frame.op).collect());
        }
        attempt.struck(&mut tape, &cut);
        self.survive(tape, &scene.history, scene.now, attempt, true)
    }

    fn history(&self, step: usize) -> Vec<String> {
        let first = (step + 1).saturating_sub(HISTORY);
        (first..=step).map(|at| format!("call {}: {}", at + 1, self.steps[at])).collect()
    }

    fn parts(&self, step: usize) -> Option<usize> {
        Some((step + 1).min(self.steps.len()))
    }

    fn part(&self, part: usize) -> Option<String> {
        self.steps.get(part).map(Call::to_string)
    }

    fn only(&self, parts: &[usize], first: Stage) -> Option<(UbifsRig, Stage)> {
        let script = parts.iter().rev().filter_map(|&part| self.steps.get(part).cloned()).collect();
        let (plan, load) = (self.plan.clone(), self.plan.load());
        Some((UbifsRig { plan, load, steps: Vec::new(), script: Some(script) }, first))
    }
}

impl UbifsRig {
    /// Does a step with the cut, and compares the flash that it leaves with `tape`.
    fn is_left_by_the_layers(&self, stage: &Stage, cut: PowerCut, step: usize, tape: &Tape) -> Result<(), Broken> {
        let mut copy = stage.clone();
        copy.tape_mut().array.set_power_cut(Some(cut));
        let CutAt::Op(at) = cut.at else { unreachable!("operations are cut") };
        let lost = black_box(copy.tape_mut(), at);
        let broken = |what: &str| vec![Check::Power.broken(format!("{}: {what}", self.steps[step]))];
        match copy.step(&self.plan, &self.steps[step]) {
            Err(Down::Power) => {}
            Err(Down::Broken(what)) => return Err(what),
            Ok(_) => return Err(broken("it succeeded although power was lost")),
        }
        let left = lost.left.lock().expect("no holder of the lock panics").take();
        let left = left.ok_or_else(|| broken("power was not lost: the run is not deterministic"))?;
        let peb_bytes = self.plan.array.geometry.peb_bytes as usize;
        let (mut here, mut there) = (vec![0; peb_bytes], vec![0; peb_bytes]);
        let is_other = |peb: &Peb| !left.array.store().shares(tape.array.store(), *peb);
        for peb in (0..self.plan.array.geometry.pebs).map(Peb).filter(is_other) {
            left.cells(peb, 0, &mut here);
            tape.cells(peb, 0, &mut there);
            if here != there {
                return Err(broken("the flash is not left as it is without the layers"));
            }
        }
        Ok(())
    }

    /// Restores power after a cut and checks every promise. After the first cut, power is switched off once more in the end.
    fn survive(
        &self,
        mut tape: Tape,
        history: &History,
        now: Ns,
        attempt: &mut Attempt<'_>,
        is_first: bool,
    ) -> Result<(), Broken> {
        tape.array.set_power_cut(None);
        tape.array.power_on();
        attempt.left(|keep| {
            dump(&tape.array, keep);
            Ok(())
        })?;
        self.sabotage(if is_first { Site::Cut } else { Site::SecondCut }, &mut tape);
        let mut cut_at = u64::MAX;
        if attempt.goes_on() {
            let cut = self.plan.rules.second(&mut attempt.rng, SECOND_CUT_WITHIN);
            tape.array.set_power_cut(Some(cut));
            if let CutAt::Op(at) = cut.at {
                cut_at = at;
            }
        }
        let lost = black_box(&mut tape, cut_at);
        let went_down = |attempt: &mut Attempt<'_>, history: &History| {
            let tape = lost.left.lock().expect("no holder of the lock panics").take();
            let tape = tape.ok_or_else(|| vec![Check::Power.broken("power was lost before the cut")])?;
            attempt.story.tell(|| format!("second cut: {}, done for {}", described(tape.last), tape.cause.name()));
            self.survive(*tape, history, now, attempt, false).map_err(second)
        };
        let mut stage = match self.power_on(tape, history, now, attempt) {
            Ok((fs, found)) => Stage::that_holds(&self.plan, fs, &found, now),
            Err(Down::Broken(what)) => return Err(what),
            Err(Down::Power) => return went_down(attempt, history),
        };
        self.sabotage(Site::Recovered, stage.0.tape_mut());
        for number in 0..EXERCISE {
            let (up, nodes) = &mut stage;
            let call = after_recovery(&mut attempt.rng, nodes, up, number);
            attempt.story.tell(|| format!("then: {call}"));
            let mut allowed = up.known.clone();
            match stage.0.step(&self.plan, &call) {
                Ok((mut after, safe)) => {
                    after.made_safe(safe);
                    stage = (after, stage.1);
                }
                Err(Down::Broken(what)) => return Err(at_the_end("after the recovery", what)),
                Err(Down::Power) => {
                    // What the call would have left may be there too.
                    allowed.imagine(&call);
                    return went_down(attempt, &allowed.history);
                }
            }
        }
        let (mut stage, _) = stage;
        stage.tape_mut().array.set_power_cut(None);
        self.sabotage(Site::Used, stage.tape_mut());
        let at_end = |broken| at_the_end("after the recovery", broken);
        whole(stage.fs.volume().ubi()).map_err(at_end)?;
        stage.reads().map_err(at_end)?;
        if is_first {
            attempt.story.tell(|| "power off between two operations".to_owned());
            let Stage { fs, known: Known { history, now, .. }, .. } = stage;
            let mut tape = fs.lose_power().into_ubi().into_flash();
            tape.black_box = None;
            self.sabotage(Site::End, &mut tape);
            let found = self.power_on(tape, &history, now, attempt);
            match found {
                Ok(_) => {}
                Err(Down::Broken(what)) => return Err(at_the_end("in the end", what)),
                Err(Down::Power) => return Err(vec![Check::Power.broken("power was lost")]),
            }
        }
        Ok(())
    }

    fn sabotage(&self, site: Site, tape: &mut Tape) {
        if let Some(sabotage) = self.plan.sabotage {
            sabotage(site, tape);
        }
    }

    /// Mounts what is on the flash, checks it, and compares it with what may be there.
    fn power_on(
        &self,
        tape: Tape,
        history: &History,
        now: Ns,
        attempt: &mut Attempt<'_>,
    ) -> Result<(Ubifs<Volume>, Everything), Down> {
        let mut fs = bring_up(&self.plan, tape, now)?;
        let mut cx = Cx::new();
        cx.wait_until(now);
        whole(fs.volume().ubi()).map_err(Down::Broken)?;
        structure(fs.volume().clone(), &mut cx, Severity::Error).map_err(Down::Broken)?;
        let found = Everything::of(&mut fs, &mut cx)
            .map_err(|error| Down::Broken(vec![Check::Reads.broken(format!("it cannot be read: {error}"))]))?;
        attempt.story.tell(|| format!("power on: UBIFS is mounted, with {} names", found.names.len()));
        history.check(&found).map_err(|breach| Down::Broken(vec![broken(breach)]))?;
        attempt.story.tell(|| "everything promised is there".to_owned());
        Ok((fs, found))
    }
}

/// A broken rule by the check that found it.
fn broken(breach: fs::model::history::Breach) -> Breach {
    let check = match breach.rule {
        Rule::Names => Check::Names,
        Rule::Attributes => Check::Attributes,
        Rule::Xattrs => Check::Xattrs,
        Rule::Contents => Check::Contents,
    };
    check.broken(breach.what)
}
