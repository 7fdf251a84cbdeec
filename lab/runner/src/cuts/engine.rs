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
use sim::{Rng, Seed};

use super::rules::Rules;
use super::tape::{FlashOp, Tape};
use super::{Failure, Outcome, Selection, Story};
use crate::run::guest::Keep;

/// Failures that are described; further ones are only counted.
const TOLD: usize = 100;

/// Broken promises, in sentences.
pub(super) type Broken = Vec<String>;

/// A system on a flash that works step by step, with the promises that it makes.
pub(super) trait Rig: Send + Sync {
    /// The system between two steps.
    type Stage: Clone + Send + Sync;
    /// A step about to be cut, and the states allowed after it.
    type Scene;
    /// Steps between two kept stages.
    const CHUNK: usize;

    /// How cells look after a cut, and the seed of draws.
    fn rules(&self) -> &Rules;

    /// NAND operations that the stage's flash has done.
    fn nand_ops(stage: &Self::Stage) -> u64;

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
}

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
}

impl Attempt<'_> {
    /// Number of the step that is cut.
    pub fn step(&self) -> usize {
        self.step
    }

    /// Logs a power cut and the operation that it interrupted.
    pub fn struck(&mut self, tape: &mut Tape, cut: &PowerCut) {
        self.hit = tape.last;
        for op in tape.recording.take().into_iter().flatten() {
            self.story.tell(|| format!("  {op}"));
        }
        let ecc = if cut.ecc_sees_torn { "ECC sees it" } else { "ECC does not see it" };
        let name = self.name();
        self.story.tell(|| format!("{name}; {ecc}"));
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

/// Adds to broken promises when they were found.
pub(super) fn at_the_end(when: &str, broken: Broken) -> Broken {
    broken.into_iter().map(|what| format!("{when}: {what}")).collect()
}

/// Marks broken promises as those of a second cut.
pub(super) fn second(broken: Broken) -> Broken {
    at_the_end("after a second cut", broken)
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
        Err(vec![format!("it panicked: {}", text.unwrap_or("no message"))])
    })
}

/// A step of the workload.
struct Step {
    /// NAND operations before the step.
    first: u64,
    /// NAND operations of the step.
    count: u64,
}

/// An enumeration of one rig.
pub(super) struct Engine<R: Rig> {
    rig: R,
    steps: Vec<Step>,
    /// State before every [`Rig::CHUNK`]th step.
    stages: Vec<R::Stage>,
    /// Failure without any cut; the workload ends there.
    uncut: Option<Failure>,
}

/// An enumeration of any rig.
pub(super) trait Cuts: Send + Sync {
    /// NAND operations of the workload.
    fn nand_ops(&self) -> u64;
    /// Number of cuts.
    fn cuts(&self) -> u64;
    /// Runs the cuts of a selection on `jobs` threads. `progress` is called with the number of cuts done since the last
    /// call.
    fn run(&self, selection: Selection, jobs: usize, progress: &(dyn Fn(u64) + Sync)) -> Outcome;
    /// Runs cut `at` alone and returns a log of it; `keep` gets what it left. Errors: there is no such cut.
    fn tell(&self, at: u64, keep: Option<Keep<'_>>) -> Result<(Story, Option<Failure>), String>;
}

impl<R: Rig> Engine<R> {
    /// Runs the workload once from `stage` without a cut.
    pub fn prepare(rig: R, mut stage: R::Stage) -> Engine<R> {
        let mut it = Engine { rig, steps: Vec::new(), stages: Vec::new(), uncut: None };
        let begin = R::nand_ops(&stage);
        for index in 0.. {
            if !it.rig.draw(&mut stage) {
                break;
            }
            let first = R::nand_ops(&stage) - begin;
            if index % R::CHUNK == 0 {
                it.stages.push(stage.clone());
            }
            it.steps.push(Step { first, count: 0 });
            match unless_it_panics(|| it.rig.advance(stage, index)) {
                Ok(next) => stage = next,
                Err(broken) => {
                    let at = first * it.rig.rules().tears.len() as u64;
                    let broken = at_the_end("without any cut", broken);
                    it.uncut = Some(Failure { at, history: it.rig.history(index), broken });
                    it.steps.pop();
                    break;
                }
            }
            it.steps[index].count = R::nand_ops(&stage) - begin - first;
        }
        it
    }

    fn tears(&self) -> u64 {
        self.rig.rules().tears.len() as u64
    }

    fn run_chunk(&self, chunk: usize, selection: Selection, progress: &(dyn Fn(u64) + Sync)) -> Outcome {
        let mut outcome = Outcome::default();
        let mut stage = self.stages[chunk].clone();
        let (tears, every) = (self.tears(), selection.every.max(1));
        for index in chunk * R::CHUNK..((chunk + 1) * R::CHUNK).min(self.steps.len()) {
            let Step { first, count } = self.steps[index];
            let before = outcome.cuts;
            let mut at = (first * tears).next_multiple_of(every);
            if at < (first + count) * tears {
                let scene = self.rig.scene(&mut stage, index);
                while at < (first + count) * tears {
                    outcome.cuts += 1;
                    if let Err(failure) = self.cut(&stage, &scene, index, at, (&mut Story::silent(), None)) {
                        outcome.failed += 1;
                        if outcome.failures.len() < TOLD {
                            outcome.failures.push(failure);
                        }
                    }
                    at += every;
                }
            }
            progress(outcome.cuts - before);
            stage = self.rig.advance(stage, index).expect("it went well before");
        }
        outcome
    }

    fn cut<'a>(
        &self,
        stage: &R::Stage,
        scene: &R::Scene,
        index: usize,
        at: u64,
        (story, keep): (&'a mut Story, Option<Keep<'a>>),
    ) -> Result<(), Failure> {
        let rules = self.rig.rules();
        let (nand_op, tear) = (at / self.tears(), (at % self.tears()) as usize);
        let mut rng = Seed(rules.seed.0 ^ at.wrapping_mul(0x9e37_79b9_7f4a_7c15)).stream("cuts/cut");
        let cut = rules.power_cut(&mut rng, R::nand_ops(stage) + nand_op - self.steps[index].first, tear);
        let mut attempt = Attempt { rng, story, keep, at, step: index, nand_op, tear: rules.tears[tear].0, hit: None };
        unless_it_panics(|| self.rig.cut(stage, scene, cut, &mut attempt)).map_err(|broken| {
            let mut history = self.rig.history(index);
            history.push(attempt.name());
            Failure { at, history, broken }
        })
    }
}

impl<R: Rig> Cuts for Engine<R> {
    fn nand_ops(&self) -> u64 {
        self.steps.last().map_or(0, |step| step.first + step.count)
    }

    fn cuts(&self) -> u64 {
        self.nand_ops() * self.tears()
    }

    fn run(&self, selection: Selection, jobs: usize, progress: &(dyn Fn(u64) + Sync)) -> Outcome {
        let next = AtomicUsize::new(0);
        let outcomes: Vec<Mutex<Option<Outcome>>> = self.stages.iter().map(|_| Mutex::new(None)).collect();
        std::thread::scope(|scope| {
            for _ in 0..jobs.max(1) {
                scope.spawn(|| {
                    loop {
                        let chunk = next.fetch_add(1, Ordering::Relaxed);
                        let Some(slot) = outcomes.get(chunk) else { break };
                        let outcome = self.run_chunk(chunk, selection, progress);
                        *slot.lock().expect("no holder of the lock panics") = Some(outcome);
                    }
                });
            }
        });
        let mut whole = Outcome::default();
        for outcome in outcomes {
            let outcome = outcome.into_inner().expect("no holder of the lock panics").expect("every chunk was run");
            whole.cuts += outcome.cuts;
            whole.failed += outcome.failed;
            whole.failures.extend(outcome.failures);
        }
        if let Some(uncut) = &self.uncut {
            whole.failed += 1;
            whole.failures.push(uncut.clone());
        }
        whole.failures.truncate(TOLD);
        whole
    }

    fn tell(&self, at: u64, keep: Option<Keep<'_>>) -> Result<(Story, Option<Failure>), String> {
        let nand_op = at / self.tears();
        let index = self.steps.iter().position(|step| (step.first..step.first + step.count).contains(&nand_op));
        let Some(index) = index else {
            return Err(format!("{at}: the workload has {} cuts, from 0", self.cuts()));
        };
        let mut stage = self.stages[index / R::CHUNK].clone();
        for step in index / R::CHUNK * R::CHUNK..index {
            stage = self.rig.advance(stage, step).expect("it went well before");
        }
        let mut story = Story::written();
        self.rig.history(index).into_iter().for_each(|line| story.tell(|| line));
        let scene = self.rig.scene(&mut stage, index);
        let failure = self.cut(&stage, &scene, index, at, (&mut story, keep.map(|keep| keep as Keep<'_>))).err();
        Ok((story, failure))
    }
}
