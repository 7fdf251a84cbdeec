//! Runs a workload once without a cut, then every cut of each of its steps on a clone.
//!
//! Cut number `at` interrupts NAND operation `at / tears`, counted from the start of the workload, with tear `at %
//! tears`. Results do not depend on the number of threads: each chunk of the workload begins with a state from the run
//! without cuts, and the draws of a cut come from the seed and its number.
//!
//! Knows steps, NAND operations and broken promises. Does not know the layer on the flash, which is a [`Rig`].

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, Once};

use nand::PowerCut;
use runner::run::guest::Keep;
use sim::{Cause, Ns, Rng, Seed};

use super::check::{Broken, Check, at_the_end};
use super::rules::Rules;
use super::select::Selection;
use super::tape::{FlashOp, Tape};
use super::{Failure, Outcome, Phase, Story};

/// Failures that are described; further ones are only counted.
const TOLD: usize = 100;

/// A system on a flash that works step by step, with the promises that it makes.
pub(super) trait Rig: Send + Sync {
    /// The system between two steps.
    type Stage: Clone + Send + Sync;
    /// A step about to be cut, and the states allowed after it.
    type Scene;
    /// Steps between two kept stages, as long as [`STAGES_BYTES`] suffice.
    const CHUNK: usize;

    /// How cells look after a cut, and the seed of draws.
    fn rules(&self) -> &Rules;

    /// The stage's flash.
    fn tape(stage: &Self::Stage) -> &Tape;

    /// The stage's flash.
    fn tape_mut(stage: &mut Self::Stage) -> &mut Tape;

    /// Draws the next step. False if there is none. Called once per step, in order.
    fn draw(&mut self, stage: &mut Self::Stage) -> bool;

    /// Does one step without a cut.
    fn advance(&self, stage: Self::Stage, step: usize) -> Result<Self::Stage, Broken>;

    /// The step that follows `stage`.
    fn scene(&self, stage: &mut Self::Stage, step: usize) -> Self::Scene;

    /// Does the step on a clone of `stage`, interrupted by `cut` (which counts operations of the stage's flash),
    /// restores power and checks the result.
    fn cut(
        &self,
        stage: &Self::Stage,
        scene: &Self::Scene,
        cut: PowerCut,
        attempt: &mut Attempt<'_>,
    ) -> Result<(), Broken>;

    /// The last operations up to this step.
    fn history(&self, step: usize) -> Vec<String>;

    /// Time on the clock of the device; `None` if it has none.
    fn now(_: &Self::Stage) -> Option<Ns> {
        None
    }

    /// Parts of the workload up to and with this step, of which some may be left out; `None` if none may.
    fn parts(&self, _: usize) -> Option<usize> {
        None
    }

    /// A part of the workload, described.
    fn part(&self, _: usize) -> Option<String> {
        None
    }

    /// The same system with some parts of its workload only, in order, but for those that are not possible any more; and
    /// the stage from which it begins. `first` is that of the whole workload.
    fn only(&self, _: &[usize], _first: Self::Stage) -> Option<(Self, Self::Stage)>
    where
        Self: Sized,
    {
        None
    }
}

/// What a cut met and did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    /// The phase in which the cut came; without counts.
    pub phase: Phase,
    /// Contents that the medium destroyed.
    pub lost: u64,
    /// Contents of which an older version came back.
    pub older: u64,
}

/// Memory for the stages of a workload. With more steps there are no more of them, but more steps between two: each thread
/// repeats the steps from a stage to the next, which costs the workload once more in all, however many there are.
const STAGES_BYTES: usize = 128 << 20;
/// Stages in any case, so that several threads have work.
const LEAST_STAGES: usize = 16;

/// One cut being tried.
pub(super) struct Attempt<'a> {
    /// Random stream of this cut alone.
    pub rng: Rng,
    pub story: &'a mut Story,
    keep: Option<Keep<'a>>,
    at: u64,
    step: usize,
    nand_op: u64,
    tear: &'static str,
    hit: Option<FlashOp>,
    /// Cuts that may follow.
    further_cuts: u32,
    pub tally: Tally,
}

impl Attempt<'_> {
    /// Number of the step that is cut.
    pub fn step(&self) -> usize {
        self.step
    }

    /// Logs a power cut and the operation that it interrupted.
    pub fn struck(&mut self, tape: &mut Tape, cut: &PowerCut) {
        self.hit = tape.last;
        self.tally.phase = tape.last.map_or(Phase::default(), |op| Phase::of(op.name(), tape.cause));
        for op in tape.recording.take().into_iter().flatten() {
            self.story.tell(|| format!("  {op}"));
        }
        let ecc = if cut.ecc_sees_torn { "ECC sees it" } else { "ECC does not see it" };
        let name = self.name();
        self.story.tell(|| format!("{name}; {ecc}"));
    }

    /// Whether another cut follows; counts it.
    pub fn goes_on(&mut self) -> bool {
        let goes_on = self.further_cuts > 0;
        self.further_cuts -= u32::from(goes_on);
        goes_on
    }

    /// Passes on what the cut left, if somebody wants it: once, not after a second cut.
    pub fn left(&mut self, contents: impl FnOnce(Keep<'_>) -> Result<(), Broken>) -> Result<(), Broken> {
        self.keep.take().map_or(Ok(()), contents)
    }

    fn name(&self) -> String {
        let Attempt { at, nand_op, tear, .. } = self;
        format!("cut {at}: NAND operation {nand_op}, {}; left: {tear}", described(self.hit))
    }
}

/// Describes the operation that a cut interrupted.
pub(super) fn described(hit: Option<FlashOp>) -> String {
    hit.map_or("nothing".to_owned(), |hit| hit.to_string())
}

/// Runs `work`; a panic is a broken promise.
pub(super) fn unless_it_panics<T>(work: impl FnOnce() -> Result<T, Broken>) -> Result<T, Broken> {
    thread_local! { static QUIET: std::cell::Cell<bool> = const { std::cell::Cell::new(false) }; }
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                loud(info);
            }
        }));
    });
    let outer = QUIET.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    QUIET.set(outer);
    done.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Err(vec![Check::Invariants.broken(format!("it panicked: {}", text.unwrap_or("no message")))])
    })
}

fn failure(at: u64, history: Vec<String>, broken: Broken) -> Failure {
    let mut checks: Vec<Check> = broken.iter().map(|breach| breach.check).collect();
    checks.sort_unstable();
    checks.dedup();
    Failure { at, history, checks, broken: broken.into_iter().map(|breach| breach.what).collect() }
}

/// A step of the workload.
struct Step {
    /// NAND operations before the step.
    first: u64,
    /// NAND operations of the step.
    count: u64,
    /// When it began.
    began: Option<Ns>,
}

/// An enumeration of one rig.
pub(super) struct Engine<R: Rig> {
    rig: R,
    steps: Vec<Step>,
    /// State before every `chunk`th step.
    stages: Vec<R::Stage>,
    /// Steps between two stages: [`Rig::CHUNK`], or its double until all stages fit into [`STAGES_BYTES`].
    chunk: usize,
    /// Why each NAND operation of the workload was done.
    causes: Vec<Cause>,
    /// Failure without any cut; the workload ends there.
    uncut: Option<Failure>,
    /// Number of the cut in the whole workload from which this one was reduced: its draws.
    draws_of: Option<u64>,
}

/// An enumeration of any rig.
pub(super) trait Cuts: Send + Sync {
    /// NAND operations of the workload.
    fn nand_ops(&self) -> u64;
    /// Number of cuts.
    fn cuts(&self) -> u64;
    /// Numbers of the cuts of a selection; with `cause`, of those cuts alone that interrupt an operation done for it.
    fn list(&self, selection: &Selection, cause: Option<Cause>) -> Vec<u64>;
    /// Runs cuts on `jobs` threads. `progress` is called with the number of cuts done since the last call.
    fn run(&self, list: &[u64], jobs: usize, progress: &(dyn Fn(u64) + Sync)) -> Outcome;
    /// Runs cut `at` alone and returns a log of it; `keep` gets what it left. Errors: there is no such cut.
    fn tell(&self, at: u64, keep: Option<Keep<'_>>) -> Result<(Story, Option<Failure>), String>;
    /// The failure of the workload without any cut.
    fn uncut(&self) -> Option<&Failure>;
    /// Parts of the workload up to the step of cut `at`, of which some may be left out; `None` if none may.
    fn parts(&self, at: u64) -> Option<usize>;
    /// Descriptions of parts; those that there are.
    fn described(&self, parts: &[usize]) -> Vec<String>;
    /// The workload with some of its parts only; its cuts draw as cut `draws_of` of this one.
    fn only(&self, parts: &[usize], draws_of: u64) -> Option<Box<dyn Cuts>>;
}

impl<R: Rig> Engine<R> {
    /// Runs the workload once from `stage` without a cut.
    pub fn prepare(rig: R, stage: R::Stage) -> Engine<R> {
        Engine::drawing_as(rig, stage, None)
    }

    fn drawing_as(rig: R, mut stage: R::Stage, draws_of: Option<u64>) -> Engine<R> {
        let mut it = Engine {
            rig,
            steps: Vec::new(),
            stages: Vec::new(),
            chunk: R::CHUNK,
            causes: Vec::new(),
            uncut: None,
            draws_of,
        };
        let most = (STAGES_BYTES / R::tape(&stage).most_bytes()).max(LEAST_STAGES);
        let begin = R::tape(&stage).array.ops();
        for index in 0.. {
            if !it.rig.draw(&mut stage) {
                break;
            }
            let first = R::tape(&stage).array.ops() - begin;
            if index % it.chunk == 0 {
                it.stages.push(stage.clone());
                if it.stages.len() > most {
                    it.keep_every_other_stage();
                }
            }
            it.steps.push(Step { first, count: 0, began: R::now(&stage) });
            R::tape_mut(&mut stage).causes = Some(Vec::new());
            match unless_it_panics(|| it.rig.advance(stage, index)) {
                Ok(next) => stage = next,
                Err(broken) => {
                    let at = first * it.rig.rules().tears.len() as u64;
                    let broken = at_the_end("without any cut", broken);
                    it.uncut = Some(failure(at, it.rig.history(index), broken));
                    it.steps.pop();
                    break;
                }
            }
            it.steps[index].count = R::tape(&stage).array.ops() - begin - first;
            it.causes.resize((first + it.steps[index].count) as usize, Cause::Host);
            for (operation, cause) in R::tape_mut(&mut stage).causes.take().into_iter().flatten() {
                // One that was refused has the number of the next.
                if let Some(place) = it.causes.get_mut((operation - begin) as usize) {
                    *place = cause;
                }
            }
        }
        it
    }

    /// The rig.
    #[cfg(test)]
    pub fn rig(&self) -> &R {
        &self.rig
    }

    fn keep_every_other_stage(&mut self) {
        let mut index = 0;
        self.stages.retain(|_| {
            index += 1;
            index % 2 == 1
        });
        self.chunk *= 2;
    }

    fn tears(&self) -> u64 {
        self.rig.rules().tears.len() as u64
    }

    /// Runs the cuts of `list` that lie in a chunk.
    fn run_chunk(&self, chunk: usize, list: &[u64], progress: &(dyn Fn(u64) + Sync)) -> Outcome {
        let mut outcome = Outcome::default();
        let steps = chunk * self.chunk..((chunk + 1) * self.chunk).min(self.steps.len());
        let tears = self.tears();
        let end = |index: usize| (self.steps[index].first + self.steps[index].count) * tears;
        let mut left = list;
        left = &left[left.partition_point(|&at| at < self.steps[steps.start].first * tears)..];
        left = &left[..left.partition_point(|&at| at < end(steps.end - 1))];
        let mut stage = self.stages[chunk].clone();
        for index in steps {
            if left.is_empty() {
                break;
            }
            let (here, rest) = left.split_at(left.partition_point(|&at| at < end(index)));
            left = rest;
            if !here.is_empty() {
                let scene = self.rig.scene(&mut stage, index);
                for &at in here {
                    self.cut_and_count(&stage, &scene, index, at, &mut outcome);
                }
                progress(here.len() as u64);
            }
            stage = self.rig.advance(stage, index).expect("it went well before");
        }
        outcome
    }

    fn cut_and_count(&self, stage: &R::Stage, scene: &R::Scene, index: usize, at: u64, outcome: &mut Outcome) {
        let (found, tally) = self.cut(stage, scene, index, at, (&mut Story::silent(), None));
        outcome.cuts += 1;
        outcome.lost += tally.lost;
        outcome.older += tally.older;
        let failed = u64::from(found.is_err());
        outcome.failed += failed;
        outcome.phases.add(Phase { cuts: 1, failed, lost: tally.lost, ..tally.phase });
        if let Err(failure) = found
            && outcome.failures.len() < TOLD
        {
            outcome.failures.push(failure);
        }
    }

    fn cut<'a>(
        &self,
        stage: &R::Stage,
        scene: &R::Scene,
        index: usize,
        at: u64,
        (story, keep): (&'a mut Story, Option<Keep<'a>>),
    ) -> (Result<(), Failure>, Tally) {
        let rules = self.rig.rules();
        let (nand_op, tear) = (at / self.tears(), (at % self.tears()) as usize);
        let number = self.draws_of.unwrap_or(at);
        let mut rng = Seed(rules.seed.0 ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).stream("cuts/cut");
        let cut = rules.power_cut(&mut rng, R::tape(stage).array.ops() + nand_op - self.steps[index].first, tear);
        let tear = rules.tears[tear].0;
        let mut attempt = Attempt {
            rng,
            story,
            keep,
            at,
            step: index,
            nand_op,
            tear,
            hit: None,
            further_cuts: rules.further_cuts,
            tally: Tally::default(),
        };
        let found = unless_it_panics(|| self.rig.cut(stage, scene, cut, &mut attempt)).map_err(|broken| {
            let mut history = self.rig.history(index);
            history.push(attempt.name());
            failure(at, history, broken)
        });
        (found, attempt.tally)
    }

    /// The step of cut `at`.
    fn step_of(&self, at: u64) -> Option<usize> {
        let nand_op = at / self.tears();
        let index = self.steps.partition_point(|step| step.first + step.count <= nand_op);
        (index < self.steps.len()).then_some(index)
    }
}

impl<R: Rig + 'static> Cuts for Engine<R> {
    fn nand_ops(&self) -> u64 {
        self.steps.last().map_or(0, |step| step.first + step.count)
    }

    fn cuts(&self) -> u64 {
        self.nand_ops() * self.tears()
    }

    fn list(&self, selection: &Selection, cause: Option<Cause>) -> Vec<u64> {
        let tears = self.tears();
        if let Some(cause) = cause {
            let wanted: Vec<u64> =
                (0..).zip(&self.causes).filter(|&(_, &of)| of == cause).map(|(operation, _)| operation).collect();
            let chosen = selection.list(wanted.len() as u64 * tears, tears, |_| None);
            return chosen.into_iter().map(|at| wanted[(at / tears) as usize] * tears + at % tears).collect();
        }
        selection.list(self.cuts(), tears, |time| {
            let next = self.steps.partition_point(|step| step.began.is_some_and(|began| began <= time));
            let step = &self.steps[next.checked_sub(1)?];
            // Steps without an operation have none to cut: the next one.
            (time <= self.steps.last()?.began?).then_some(step.first)
        })
    }

    fn run(&self, list: &[u64], jobs: usize, progress: &(dyn Fn(u64) + Sync)) -> Outcome {
        let next = AtomicUsize::new(0);
        let outcomes: Vec<Mutex<Option<Outcome>>> = self.stages.iter().map(|_| Mutex::new(None)).collect();
        std::thread::scope(|scope| {
            for _ in 0..jobs.max(1) {
                scope.spawn(|| {
                    loop {
                        let chunk = next.fetch_add(1, Ordering::Relaxed);
                        let Some(slot) = outcomes.get(chunk) else { break };
                        // The last chunk may hold only a step that failed without a cut.
                        let outcome = if chunk * self.chunk < self.steps.len() {
                            self.run_chunk(chunk, list, progress)
                        } else {
                            Outcome::default()
                        };
                        *slot.lock().expect("no holder of the lock panics") = Some(outcome);
                    }
                });
            }
        });
        let mut whole = Outcome::default();
        for outcome in outcomes {
            whole.add(outcome.into_inner().expect("no holder of the lock panics").expect("every chunk was run"));
        }
        if let Some(uncut) = &self.uncut {
            whole.failed += 1;
            whole.failures.push(uncut.clone());
        }
        whole.failures.truncate(TOLD);
        whole
    }

    fn tell(&self, at: u64, keep: Option<Keep<'_>>) -> Result<(Story, Option<Failure>), String> {
        let Some(index) = self.step_of(at) else {
            return Err(format!("{at}: the workload has {} cuts, from 0", self.cuts()));
        };
        let mut stage = self.stages[index / self.chunk].clone();
        for step in index / self.chunk * self.chunk..index {
            stage = self.rig.advance(stage, step).expect("it went well before");
        }
        let mut story = Story::written();
        self.rig.history(index).into_iter().for_each(|line| story.tell(|| line));
        let scene = self.rig.scene(&mut stage, index);
        let (found, _) = self.cut(&stage, &scene, index, at, (&mut story, keep.map(|keep| keep as Keep<'_>)));
        Ok((story, found.err()))
    }

    fn uncut(&self) -> Option<&Failure> {
        self.uncut.as_ref()
    }

    fn parts(&self, at: u64) -> Option<usize> {
        self.rig.parts(self.step_of(at).unwrap_or(self.steps.len()))
    }

    fn described(&self, parts: &[usize]) -> Vec<String> {
        parts.iter().filter_map(|&part| self.rig.part(part)).collect()
    }

    fn only(&self, parts: &[usize], draws_of: u64) -> Option<Box<dyn Cuts>> {
        let (rig, begin) = self.rig.only(parts, self.stages.first()?.clone())?;
        Some(Box::new(Engine::drawing_as(rig, begin, Some(draws_of))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nand::{ArrayConfig, Bytes, Tear};
    use sim::seam::{Flash, FlashError, Geometry, Medium, Payload};
    use sim::{Cx, Peb};

    use crate::rules::Noticed;

    const STEPS: usize = 300;
    const PAGE: u32 = 512;
    /// So large that only the fewest stages may be kept.
    const LARGE: Geometry = Geometry {
        medium: Medium::Nand,
        pebs: 512,
        peb_bytes: 1 << 20,
        page_bytes: PAGE,
        subpage_bytes: PAGE,
        oob_bytes: 16,
    };

    /// Programs one page per step, and two in every third: the second for garbage collection.
    struct Pages {
        rules: Rules,
        drawn: usize,
        /// Steps to do, in order.
        parts: Vec<usize>,
        /// The step that fails without any cut.
        fails_at: Option<usize>,
        /// Whether every fifth cut fails, and says its draw.
        tells: bool,
    }

    #[derive(Clone)]
    struct Written {
        tape: Tape,
        steps: usize,
    }

    impl Written {
        fn step(&mut self) -> Result<(), FlashError> {
            let cx = &mut Cx::new();
            let at = self.steps as u32;
            self.tape.program(cx, Peb(at), 0, Payload::Length(PAGE))?;
            self.steps += 1;
            match at % 3 {
                0 => cx.because(Cause::Gc, |cx| self.tape.program(cx, Peb(at), PAGE, Payload::Length(PAGE))),
                _ => Ok(()),
            }
        }
    }

    impl Rig for Pages {
        type Stage = Written;
        type Scene = ();
        const CHUNK: usize = 4;

        fn rules(&self) -> &Rules {
            &self.rules
        }

        fn tape(stage: &Written) -> &Tape {
            &stage.tape
        }

        fn tape_mut(stage: &mut Written) -> &mut Tape {
            &mut stage.tape
        }

        fn draw(&mut self, _: &mut Written) -> bool {
            self.drawn += 1;
            self.drawn <= self.parts.len()
        }

        fn advance(&self, mut stage: Written, step: usize) -> Result<Written, Broken> {
            if self.fails_at == Some(step) {
                return Err(vec![Check::Works.broken("a step that fails")]);
            }
            stage.step().map(|()| stage).map_err(|error| vec![Check::Works.broken(error.to_string())])
        }

        fn scene(&self, _: &mut Written, _: usize) {}

        /// Breaks a promise if the stage is not the one before the step.
        fn cut(&self, stage: &Written, (): &(), cut: PowerCut, attempt: &mut Attempt<'_>) -> Result<(), Broken> {
            if stage.steps != attempt.step() {
                return Err(vec![Check::Invariants.broken(format!("{} steps were done", stage.steps))]);
            }
            let mut stage = stage.clone();
            stage.tape.array.set_power_cut(Some(cut));
            match stage.step() {
                Err(FlashError::PowerLost) => {
                    attempt.struck(&mut stage.tape, &cut);
                    (attempt.tally.lost, attempt.tally.older) = (attempt.at % 3, attempt.at % 7);
                    let draw = Check::Contents.broken(format!("draw {}", attempt.rng.bits()));
                    let tells = self.tells && attempt.at.is_multiple_of(5);
                    if tells { Err(vec![draw.clone(), Check::Works.broken("more"), draw]) } else { Ok(()) }
                }
                other => Err(vec![Check::Power.broken(format!("{other:?}"))]),
            }
        }

        fn history(&self, _: usize) -> Vec<String> {
            Vec::new()
        }

        /// A step takes 10 ns.
        fn now(stage: &Written) -> Option<Ns> {
            Some(Ns(10 * stage.steps as u64))
        }

        fn only(&self, parts: &[usize], first: Written) -> Option<(Pages, Written)> {
            let parts = parts.iter().map(|&part| self.parts[part]).collect();
            Some((Pages { rules: self.rules.clone(), drawn: 0, parts, ..*self }, first))
        }
    }

    fn engine(geometry: Geometry) -> Engine<Pages> {
        engine_of(geometry, None, false)
    }

    fn engine_of(geometry: Geometry, fails_at: Option<usize>, tells: bool) -> Engine<Pages> {
        let tears = vec![("clean", Tear::Clean), ("random-bits", Tear::RandomBits)];
        let rules = Rules {
            seed: Seed(1),
            tears,
            noticed: Noticed::Never,
            further_cuts: 0,
            unstable: false,
            pairing: nand::Pairing::None,
        };
        let tape = Tape::new(&ArrayConfig::plain(geometry), Bytes::new());
        let parts = (0..STEPS).collect();
        Engine::prepare(Pages { rules, drawn: 0, parts, fails_at, tells }, Written { tape, steps: 0 })
    }

    /// Every cut is counted once, with what it lost, whatever chunk and thread it fell to; a failure names each check once, in
    /// order, and a workload that fails by itself is one failure more.
    #[test]
    fn an_outcome_is_the_sum_of_its_cuts() {
        for fails_at in [None, Some(0), Some(100)] {
            let engine = engine_of(LARGE, fails_at, true);
            let steps = fails_at.unwrap_or(STEPS);
            let cuts = 2 * (steps + steps.div_ceil(3)) as u64;
            assert_eq!(engine.cuts(), cuts);
            let found = engine.run(&engine.list(&Selection::Every(1), None), 2, &|_| {});
            let failed = (0..cuts).filter(|at| at % 5 == 0).count() as u64;
            let uncut = u64::from(fails_at.is_some());
            assert_eq!((found.cuts, found.failed), (cuts, failed + uncut));
            let sum = |by: u64| (0..cuts).map(|at| at % by).sum::<u64>();
            assert_eq!((found.lost, found.older), (sum(3), sum(7)));
            let phases = found.phases.iter().fold((0, 0, 0), |(cuts, failed, lost), phase| {
                (cuts + phase.cuts, failed + phase.failed, lost + phase.lost)
            });
            assert_eq!(phases, (cuts, failed, sum(3)));
            assert!(found.failures.len() <= TOLD);
            let of_cuts = found.failures.iter().filter(|failure| failure.checks.len() > 1);
            assert!(of_cuts.clone().all(|failure| failure.checks == [Check::Works, Check::Contents]), "{found:?}");
            assert!(of_cuts.zip((0..).step_by(5)).all(|(failure, at)| failure.at == at));
            assert_eq!(engine.uncut().map(|failure| failure.at), fails_at.map(|_| cuts));
            assert!(engine.uncut().is_none_or(|failure| failure.broken == ["without any cut: a step that fails"]));
        }
    }

    /// A shorter workload draws in each of its cuts what one cut of the whole drew.
    #[test]
    fn a_part_of_a_workload_draws_as_the_cut_it_was_reduced_from() {
        let whole = engine_of(LARGE, None, true);
        let said = |engine: &dyn Cuts, at: u64| engine.tell(at, None).unwrap().1.expect("each fifth fails").broken;
        let (first, second) = (said(&whole, 100), said(&whole, 105));
        assert_ne!(first, second);
        let shorter = Cuts::only(&whole, &(0..40).collect::<Vec<_>>(), 100).expect("parts");
        assert_eq!(shorter.nand_ops(), 40 + 14);
        assert_eq!((said(&*shorter, 0), said(&*shorter, 105)), (first.clone(), first));
        let other = Cuts::only(&whole, &[0, 1, 2, 3], 105).expect("parts");
        assert_eq!(said(&*other, 5), second);
    }

    /// 300 steps of 1 or 2 operations are 400 operations, each cut with 2 tears.
    #[test]
    fn a_large_device_has_few_stages_and_every_cut_comes_at_its_step() {
        for (geometry, stages) in [(Geometry { peb_bytes: 2 * PAGE, ..LARGE }, 75), (LARGE, 10)] {
            let engine = engine(geometry);
            assert_eq!((engine.stages.len(), engine.steps.len()), (stages, STEPS), "300 steps, by 4 or by 32");
            let all = engine.list(&Selection::Every(1), None);
            let found = engine.run(&all, 2, &|_| {});
            assert_eq!((all.len(), found.cuts, found.failures.first()), (800, 800, None));
            for at in [0, 1, 399, 400, 799] {
                let (_, failure) = engine.tell(at, None).expect("there is such a cut");
                assert_eq!(failure, None, "cut {at}");
            }
        }
    }

    #[test]
    fn cuts_are_chosen_by_the_cause_of_the_operation() {
        let engine = engine(LARGE);
        let gc = engine.list(&Selection::Every(1), Some(Cause::Gc));
        // Of every four operations the second is one, in steps 0, 3, 6…; each with both tears.
        let expected: Vec<u64> = (0..100).flat_map(|turn| [8 * turn + 2, 8 * turn + 3]).collect();
        assert_eq!(gc, expected);
        let found = engine.run(&gc, 1, &|_| {});
        let phases: Vec<_> = found.phases.iter().map(|phase| (phase.operation, phase.cause, phase.cuts)).collect();
        assert_eq!(phases, [("program", "gc", 200)]);
        assert_eq!(engine.list(&Selection::Every(10), Some(Cause::Gc)).len(), 20);
        assert!(engine.list(&Selection::Every(1), Some(Cause::Scrub)).is_empty());
    }

    /// Step 0 begins at 0 ns and has two operations, step 1 begins at 10 ns and has one.
    #[test]
    fn a_time_selects_the_first_operation_of_the_step_that_is_under_way() {
        let engine = engine(LARGE);
        let at = |ns: u64| engine.list(&Selection::Times(vec![Ns(ns)]), None);
        let of = |operation: u64| vec![2 * operation, 2 * operation + 1];
        assert_eq!([0, 9, 10, 19, 20, 30].map(at), [of(0), of(0), of(2), of(2), of(3), of(4)]);
        assert_eq!((at(2990), at(2991)), (of(399), vec![]), "the last step's end is not known");
    }

    #[test]
    fn no_more_cuts_follow_than_the_rules_allow() {
        for further_cuts in 0..4 {
            let (mut story, rng, tally) = (Story::silent(), Seed(1).stream("test"), Tally::default());
            let (keep, hit, tear) = (None, None, "clean");
            let mut attempt =
                Attempt { rng, story: &mut story, keep, at: 0, step: 0, nand_op: 0, tear, hit, further_cuts, tally };
            let follow = (0..10).take_while(|_| attempt.goes_on()).count();
            assert_eq!((follow as u32, attempt.goes_on()), (further_cuts, false));
        }
    }
}
