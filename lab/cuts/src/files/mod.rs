//! Power cuts of a file system: UBIFS on UBI, JFFS2 on raw flash or on UBI, and JFFS on raw flash.
//!
//! | promise | how it is checked |
//! |---|---|
//! | it can be mounted for writing, and names and inodes agree | [`System::bring_up`], [`System::structure`] |
//! | names are those after one operation since they were made safe | [`fs::model::history`] |
//! | attributes, extended attributes and each block are such as they were since they were made safe | likewise |
//! | what has no name is gone | the check of everything |
//! | the layers' own invariants hold, and no block is lost | [`System::whole`] |
//! | the recovered file system works like the one before | more calls, a second cut, another mount, checked again |
//!
//! Each step of the workload is done once, and the flash is kept before each of its operations. A cut is that operation,
//! interrupted on a copy: the layers above need not do it again. The first step of each run shows that they would leave the
//! same. Formatting and making the file system are not cut.
//!
//! Knows calls, the model and promises. Which file system it is, is a [`System`]'s.

mod calls;
mod jffs1;
#[cfg(test)]
mod jffs1_twins;
mod jffs2;
#[cfg(test)]
mod jffs2_twins;
mod load;
mod stage;
#[cfg(test)]
mod stage_tests;
#[cfg(test)]
mod twins;
mod ubifs;

use std::fmt;
use std::sync::Arc;

use fs::model::history::{History, Leaves, Rule};
use fs::model::view::Everything;
use nand::{ArrayConfig, CutAt, PowerCut};
use runner::run::guest::dump;
use runner::schema::limits::Cuts as Section;
use runner::schema::{ExperimentError, wrong};
use runner::subject::FileLoad;
use sim::seam::{FileSystem, FsError, Timestamp};
use sim::{Cx, Ns, Peb};
use workload::fsstress;

use super::check::{Breach, Broken, Check, Site, at_the_end, second};
use super::engine::{Attempt, Cuts, Engine, Rig, described};
use super::rules::Rules;
use super::tape::{Frame, Tape};
use super::weights;
use calls::Call;
use load::{KINDS, Load, after_recovery};
use stage::{Down, Known, Stage, black_box, bring_up};

pub use jffs1::{Jffs1OnFlash, KNOWN_BAD as KNOWN_BAD_JFFS1};
pub use jffs2::{Bare, InVolume, Jffs2On, KNOWN_BAD as KNOWN_BAD_JFFS2};
pub use ubifs::{KNOWN_BAD as KNOWN_BAD_UBIFS, UbifsOnUbi};

/// Steps in the description of a failure.
const HISTORY: usize = 12;
/// Calls after a recovery.
const EXERCISE: u32 = 6;
/// Most NAND operations before a second cut.
const SECOND_CUT_WITHIN: u64 = 96;

/// A file system with the layers below it: what is not the same for all of them.
pub(crate) trait System: Clone + fmt::Debug + Send + Sync + 'static {
    /// It, mounted.
    type Fs: FileSystem + Clone + Send + Sync;
    /// Its name for messages.
    const NAME: &'static str;
    /// What a power cut may leave.
    const LEAVES: Leaves;
    /// Whether a rename writes the new name before it removes the old one, so that a power cut may leave both.
    const RENAMES_IN_TWO: bool;
    /// Whether a write beyond the end that finds no space may leave the file longer, by a hole.
    const GROWS_IN_VAIN: bool;
    /// Whether a mount may give the number of an inode that is gone to another.
    const REUSES_INODES: bool;
    /// Whether each call is safe when it returns, without `fsync` or `sync`.
    const WRITES_AT_ONCE: bool;

    /// The flash.
    fn array(&self) -> &ArrayConfig;

    /// When virtual time 0 was.
    fn epoch(&self) -> Timestamp;

    /// Formats an erased flash, makes the file system on it and mounts it. Everything is on the flash.
    /// Errors: why it cannot be made.
    fn fresh(&self, cx: &mut Cx) -> Result<Self::Fs, String>;

    /// Mounts what is on the flash.
    /// Errors: why it cannot be mounted.
    fn bring_up(&self, tape: Tape, cx: &mut Cx) -> Result<Self::Fs, String>;

    /// The flash.
    fn tape(fs: &Self::Fs) -> &Tape;

    /// The flash.
    fn tape_mut(fs: &mut Self::Fs) -> &mut Tape;

    /// The flash, as a loss of power leaves it.
    fn into_tape(fs: Self::Fs) -> Tape;

    /// Unmounts, and checks what is on the flash then.
    fn take_down(fs: Self::Fs, cx: &mut Cx, call: &Call) -> Result<Tape, Down>;

    /// Does what has waited long enough.
    fn wake(&self, fs: &mut Self::Fs, cx: &mut Cx) -> Result<(), FsError>;

    /// Does what there is to do in the background.
    fn background(fs: &mut Self::Fs, cx: &mut Cx) -> Result<(), FsError>;

    /// Checks what the layers promise of themselves.
    fn whole(fs: &Self::Fs) -> Result<(), Broken>;

    /// Checks the whole file system, just mounted after a loss of power.
    fn structure(fs: &mut Self::Fs, cx: &mut Cx) -> Result<(), Down>;

    /// The call as this file system can do it; `None` if it cannot, or may do half of it in a way that the model cannot.
    fn suited(call: Call, known: &mut Known) -> Option<Call>;
}

/// An enumeration of a file system, with every choice explicit.
#[derive(Clone, Debug)]
pub struct FilesPlan<S> {
    /// How a cut acts.
    pub rules: Rules,
    /// The file system, and the layers below it.
    pub system: S,
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
    /// The system with mistakes that a test puts into the recovered one alone.
    once_recovered: Option<S>,
}

/// Changes the medium behind the layers' back: a test so finds the check that notices.
type Sabotage = fn(Site, &mut Tape);

/// Power cuts of UBIFS on UBI.
pub type UbifsPlan = FilesPlan<UbifsOnUbi>;
/// Power cuts of JFFS on raw flash.
pub type Jffs1Plan = FilesPlan<Jffs1OnFlash>;
/// Power cuts of JFFS2 on raw flash.
pub type Jffs2Plan = FilesPlan<Jffs2On<Bare>>;
/// Power cuts of JFFS2 on UBI.
pub type Jffs2UbiPlan = FilesPlan<Jffs2On<InVolume>>;

impl<S> FilesPlan<S> {
    /// Plans the cuts of a file system under a load.
    /// Errors: the first key whose value is impossible.
    fn of(system: S, load: &FileLoad, rules: Rules, cuts: &Section) -> Result<FilesPlan<S>, ExperimentError> {
        let FileLoad::Fsstress(processes, stress) = load else {
            return wrong(load.name(), "it", "fsstress: power cuts interrupt no other load of a file system");
        };
        let mut weights_of = KINDS.map(|(_, weight)| weight);
        weights(&cuts.mix, &KINDS.map(|(kind, _)| kind), &mut weights_of)?;
        Ok(FilesPlan {
            rules,
            system,
            processes: *processes,
            // The number of calls ends it.
            stress: fsstress::Options { operations: u64::MAX, overlaps: false, ..**stress },
            operations: cuts.operations,
            weights: weights_of,
            sabotage: None,
            once_recovered: None,
        })
    }

    fn load(&self) -> Load {
        Load::new(self.weights, self.rules.seed.stream("cuts/workload"))
    }
}

/// A file system, and the calls that were drawn.
struct FilesRig<S> {
    plan: FilesPlan<S>,
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
pub(super) fn prepare<S: System>(plan: FilesPlan<S>) -> Result<Box<dyn Cuts>, String> {
    let mut stage = Stage::<S>::fresh(&plan.system)?;
    stage.tape_mut().last = None;
    let load = plan.load();
    Ok(Box::new(Engine::prepare(FilesRig { plan, load, steps: Vec::new(), script: None }, stage)))
}

impl<S: System> Rig for FilesRig<S> {
    type Stage = Stage<S>;
    type Scene = Scene;
    const CHUNK: usize = 16;

    fn rules(&self) -> &Rules {
        &self.plan.rules
    }

    fn tape(stage: &Stage<S>) -> &Tape {
        stage.tape()
    }

    fn tape_mut(stage: &mut Stage<S>) -> &mut Tape {
        stage.tape_mut()
    }

    fn draw(&mut self, stage: &mut Stage<S>) -> bool {
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

    fn advance(&self, stage: Stage<S>, step: usize) -> Result<Stage<S>, Broken> {
        match stage.step(&self.plan.system, &self.steps[step]) {
            Ok((mut stage, safe)) => {
                stage.made_safe(safe);
                Ok(stage)
            }
            Err(Down::Broken(what)) => Err(what),
            Err(Down::Power) => Err(vec![Check::Power.broken("power was lost")]),
        }
    }

    fn scene(&self, stage: &mut Stage<S>, step: usize) -> Scene {
        let mut copy = stage.clone();
        copy.tape_mut().film = Some(Vec::new());
        match copy.step(&self.plan.system, &self.steps[step]) {
            Ok((mut after, _)) => {
                let frames = after.tape_mut().film.take().unwrap_or_default();
                let Known { history, now, .. } = after.known;
                Scene { frames, history: Arc::new(history), now }
            }
            Err(_) => unreachable!("it went well before"),
        }
    }

    fn cut(&self, stage: &Stage<S>, scene: &Scene, cut: PowerCut, attempt: &mut Attempt<'_>) -> Result<(), Broken> {
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

    fn only(&self, parts: &[usize], first: Stage<S>) -> Option<(FilesRig<S>, Stage<S>)> {
        let script = parts.iter().rev().filter_map(|&part| self.steps.get(part).cloned()).collect();
        let (plan, load) = (self.plan.clone(), self.plan.load());
        Some((FilesRig { plan, load, steps: Vec::new(), script: Some(script) }, first))
    }
}

impl<S: System> FilesRig<S> {
    /// Does a step with the cut, and compares the flash that it leaves with `tape`.
    fn is_left_by_the_layers(&self, stage: &Stage<S>, cut: PowerCut, step: usize, tape: &Tape) -> Result<(), Broken> {
        let mut copy = stage.clone();
        copy.tape_mut().array.set_power_cut(Some(cut));
        let CutAt::Op(at) = cut.at else { unreachable!("operations are cut") };
        let lost = black_box(copy.tape_mut(), at);
        let broken = |what: &str| vec![Check::Power.broken(format!("{}: {what}", self.steps[step]))];
        match copy.step(&self.plan.system, &self.steps[step]) {
            Err(Down::Power) => {}
            Err(Down::Broken(what)) => return Err(what),
            Ok(_) => return Err(broken("it succeeded although power was lost")),
        }
        let left = lost.left.lock().expect("no holder of the lock panics").take();
        let left = left.ok_or_else(|| broken("power was not lost: the run is not deterministic"))?;
        let mut pebs = (0..self.plan.system.array().geometry.pebs).map(Peb);
        if pebs.any(|peb| !left.holds_the_same(tape, peb)) {
            return Err(broken("the flash is not left as it is without the layers"));
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
        let went_down = |attempt: &mut Attempt<'_>, history: &History, now: Ns| {
            let tape = lost.left.lock().expect("no holder of the lock panics").take();
            let tape = tape.ok_or_else(|| vec![Check::Power.broken("power was lost before the cut")])?;
            attempt.story.tell(|| format!("second cut: {}, done for {}", described(tape.last), tape.cause.name()));
            self.survive(*tape, history, now, attempt, false).map_err(second)
        };
        let mut stage = match self.power_on(tape, history, now, attempt) {
            Ok((fs, found)) => Stage::<S>::that_holds(&self.plan.system, fs, &found, now),
            Err(Down::Broken(what)) => return Err(what),
            Err(Down::Power) => return went_down(attempt, history, now),
        };
        self.sabotage(Site::Recovered, stage.0.tape_mut());
        for number in 0..EXERCISE {
            let (up, nodes) = &mut stage;
            let call = after_recovery(&mut attempt.rng, nodes, up, number);
            attempt.story.tell(|| format!("then: {call}"));
            // What the call would have left may be there too.
            let allowed = (cut_at != u64::MAX).then(|| up.known.clone());
            match stage.0.step(&self.plan.system, &call) {
                Ok((mut after, safe)) => {
                    after.made_safe(safe);
                    stage = (after, stage.1);
                }
                Err(Down::Broken(what)) => return Err(at_the_end("after the recovery", what)),
                Err(Down::Power) => {
                    let Some(mut allowed) = allowed else { return went_down(attempt, history, now) };
                    allowed.imagine(&call);
                    return went_down(attempt, &allowed.history, allowed.now);
                }
            }
        }
        let (mut stage, _) = stage;
        stage.tape_mut().array.set_power_cut(None);
        self.sabotage(Site::Used, stage.tape_mut());
        let at_end = |broken| at_the_end("after the recovery", broken);
        S::whole(&stage.fs).map_err(at_end)?;
        stage.reads().map_err(at_end)?;
        if is_first {
            attempt.story.tell(|| "power off between two operations".to_owned());
            let Stage { fs, known: Known { history, now, .. }, .. } = stage;
            let mut tape = S::into_tape(fs);
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
    ) -> Result<(S::Fs, Everything), Down> {
        let mut fs = bring_up(self.plan.once_recovered.as_ref().unwrap_or(&self.plan.system), tape, now)?;
        let mut cx = Cx::new();
        cx.wait_until(now);
        S::whole(&fs).map_err(Down::Broken)?;
        S::structure(&mut fs, &mut cx)?;
        // A look at an inode may mark nodes on NOR, and power may fail in that.
        let found = Everything::of(&mut fs, &mut cx).map_err(|error| match error.is_power_loss() {
            true => Down::Power,
            false => Down::Broken(vec![Check::Reads.broken(format!("it cannot be read: {error}"))]),
        })?;
        attempt.story.tell(|| format!("power on: {} is mounted, with {} names", S::NAME, found.names.len()));
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
