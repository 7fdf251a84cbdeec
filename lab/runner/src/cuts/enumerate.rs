//! The enumeration: the workload once without a cut, and then every cut of each of its operations on a clone.
//!
//! Cut number `at` interrupts NAND operation `at / tears`, counted from the first after the flash was formatted, and
//! leaves what tear `at % tears` leaves. Results do not depend on the number of threads: a chunk of the workload begins
//! at a state that the run without cuts left, and every draw of a cut comes from the seed and its number.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use nand::{CutAt, PowerCut};
use sim::{Rng, Seed};
use ubi::Ubi;
use ubi::layout::Layout;

use super::model::World;
use super::plan::{Noticed, Plan};
use super::rig::{
    Broken, Down, Ledger, both_ways_agree, bring_up, counters_on_flash, hold_against, limits, never_fall, perform,
    unless_it_panics,
};
use super::tape::{FlashOp, Tape};
use super::workload::{Limits, Mix, Op, draw};
use super::{Failure, Outcome, Selection, Story};

/// Operations of the workload between two kept states.
const CHUNK: usize = 24;
/// Operations of the workload that a failure tells of.
const HISTORY: usize = 8;
/// Failures that are told; the others are counted.
const TOLD: usize = 100;
/// Operations after a recovery, before it is attached once more.
const EXERCISE: usize = 3;
/// The most NAND operations of a recovery that a second cut lets pass.
const SECOND_CUT_WITHIN: u64 = 48;

/// The mix of operations after a recovery.
const EXERCISE_MIX: [u32; 13] = [2, 1, 2, 1, 3, 24, 24, 3, 10, 4, 8, 0, 0];

/// The device between two operations of the workload.
#[derive(Clone)]
struct Stage {
    ubi: Ubi<Tape>,
    world: World,
    ledger: Ledger,
}

struct Step {
    op: Op,
    /// Names and contents drawn when it was drawn.
    serial: u64,
    /// NAND operations before it.
    first: u64,
    /// NAND operations of it.
    count: u64,
}

/// An enumeration that is ready to run.
pub struct Enumeration {
    plan: Plan,
    layout: Layout,
    limits: Limits,
    steps: Vec<Step>,
    /// The state before every [`CHUNK`]th step.
    stages: Vec<Stage>,
    /// What broke without any cut: the workload ends there.
    uncut: Option<Failure>,
}

impl Enumeration {
    /// Runs the workload once, without a cut.
    /// Errors: why UBI does not run on the device at all.
    pub fn prepare(plan: Plan) -> Result<Enumeration, String> {
        let ubi = match bring_up(&plan, &plan.ubi, Tape::new(&plan.array)) {
            Ok(ubi) => ubi,
            Err(Down::Broken(why)) => return Err(why),
            Err(Down::Power(_)) => unreachable!("no cut is armed"),
        };
        let mut it = Enumeration {
            layout: *ubi.layout(),
            limits: limits(&ubi),
            steps: Vec::with_capacity(plan.operations as usize),
            stages: Vec::new(),
            uncut: None,
            plan,
        };
        if it.limits.lebs == 0 {
            return Err("no LEB is left for volumes: the device is too small".to_owned());
        }
        let mut stage = Stage { ledger: Ledger::open(&ubi), world: World::default(), ubi };
        let mut rng = it.plan.seed.stream("cuts/workload");
        let formatted = stage.ubi.flash().array.ops();
        for index in 0..it.plan.operations as usize {
            let first = stage.ubi.flash().array.ops() - formatted;
            let op = draw(&mut rng, &it.plan.mix, &mut stage.world, it.limits);
            if index % CHUNK == 0 {
                it.stages.push(stage.clone());
            }
            it.steps.push(Step { op, serial: stage.world.serial, first, count: 0 });
            match unless_it_panics(|| it.advance(stage, index)) {
                Ok(next) => stage = next,
                Err(mut broken) => {
                    broken.iter_mut().for_each(|what| what.insert_str(0, "without any cut: "));
                    let at = first * it.plan.tears.len() as u64;
                    it.uncut = Some(Failure { at, history: it.history(index), broken });
                    it.steps.pop();
                    break;
                }
            }
            it.steps[index].count = stage.ubi.flash().array.ops() - formatted - first;
        }
        Ok(it)
    }

    /// How many cuts there are.
    pub fn cuts(&self) -> u64 {
        self.nand_ops() * self.plan.tears.len() as u64
    }

    /// NAND operations of the workload, formatting left out.
    pub fn nand_ops(&self) -> u64 {
        self.steps.last().map_or(0, |step| step.first + step.count)
    }

    /// How many of them a selection takes.
    pub fn selected(&self, selection: Selection) -> u64 {
        self.cuts().div_ceil(selection.every.max(1))
    }

    /// One step of the workload, without a cut.
    fn advance(&self, stage: Stage, index: usize) -> Result<Stage, Broken> {
        let Stage { ubi, mut world, mut ledger } = stage;
        let Step { op, serial, .. } = &self.steps[index];
        world.serial = *serial;
        let mut after = world.after(op, self.layout.leb_bytes);
        let mut ubi = match perform(&self.plan, ubi, op) {
            Ok(ubi) => ubi,
            Err(Down::Broken(what)) => return Err(vec![what]),
            Err(Down::Power(_)) => return Err(vec!["power was lost".to_owned()]),
        };
        if matches!(op, Op::Crash | Op::Detach) {
            after = hold_against(&mut ubi, &after, &Op::Background, &after)?;
            ledger = Ledger::open(&ubi);
        }
        ubi.check();
        world = after;
        Ok(Stage { ubi, world, ledger })
    }

    fn history(&self, index: usize) -> Vec<String> {
        let first = (index + 1).saturating_sub(HISTORY);
        (first..=index).map(|i| format!("operation {i}: {}", self.steps[i].op)).collect()
    }

    /// Runs the cuts of a selection on `jobs` threads. `progress` is told how many more are done.
    pub fn run(&self, selection: Selection, jobs: usize, progress: &(dyn Fn(u64) + Sync)) -> Outcome {
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

    fn run_chunk(&self, chunk: usize, selection: Selection, progress: &(dyn Fn(u64) + Sync)) -> Outcome {
        let mut outcome = Outcome::default();
        let steps = chunk * CHUNK..((chunk + 1) * CHUNK).min(self.steps.len());
        let mut stage = self.stages[chunk].clone();
        let tears = self.plan.tears.len() as u64;
        for index in steps {
            let Step { op, serial, first, count } = &self.steps[index];
            stage.world.serial = *serial;
            let before = outcome.cuts;
            if *count > 0 {
                let scene = Scene::of(&mut stage, op, self.layout.leb_bytes);
                let every = selection.every.max(1);
                let mut at = (first * tears).next_multiple_of(every);
                while at < (first + count) * tears {
                    outcome.cuts += 1;
                    if let Err((tape, broken)) = self.cut(&stage, &scene, at, *first, &mut Story::silent()) {
                        outcome.failed += 1;
                        if outcome.failures.len() < TOLD {
                            let mut history = self.history(index);
                            history.push(self.name_cut(at, tape));
                            outcome.failures.push(Failure { at, history, broken });
                        }
                    }
                    at += every;
                }
            }
            progress(outcome.cuts - before);
            stage = self.advance(stage, index).expect("it went well before");
        }
        outcome
    }

    fn name_cut(&self, at: u64, hit: Option<FlashOp>) -> String {
        let (nand_op, tear) = self.place(at);
        let hit = hit.map_or("nothing".to_owned(), |hit| hit.to_string());
        format!("cut {at}: NAND operation {nand_op}, {hit}; left: {}", self.plan.tears[tear].0)
    }

    fn place(&self, at: u64) -> (u64, usize) {
        let tears = self.plan.tears.len() as u64;
        (at / tears, (at % tears) as usize)
    }

    /// Runs cut `at` alone and tells everything.
    /// Errors: there are not so many.
    pub fn tell(&self, at: u64) -> Result<(Story, Option<Failure>), String> {
        let (nand_op, _) = self.place(at);
        let index = self.steps.iter().position(|step| (step.first..step.first + step.count).contains(&nand_op));
        let Some(index) = index else {
            return Err(format!("{at}: the workload has {} cuts, from 0", self.cuts()));
        };
        let mut stage = self.stages[index / CHUNK].clone();
        for i in index / CHUNK * CHUNK..index {
            stage = self.advance(stage, i).expect("it went well before");
        }
        let mut story = Story::told();
        let mut history = self.history(index);
        history.iter().for_each(|line| story.tell(|| line.clone()));
        let Step { op, serial, first, .. } = &self.steps[index];
        stage.world.serial = *serial;
        let scene = Scene::of(&mut stage, op, self.layout.leb_bytes);
        let failure = self.cut(&stage, &scene, at, *first, &mut story).err().map(|(hit, broken)| {
            history.push(self.name_cut(at, hit));
            Failure { at, history, broken }
        });
        Ok((story, failure))
    }

    /// What a cut leaves, drawn for number `at`.
    fn power_cut(&self, rng: &mut Rng, after_ops: u64, tear: usize) -> PowerCut {
        let sees = match self.plan.noticed {
            Noticed::Always => true,
            Noticed::Never => false,
            Noticed::Drawn => rng.chance(0.5),
        };
        PowerCut {
            at: CutAt::Op(after_ops),
            tear: self.plan.tears[tear].1,
            ecc_sees_torn: sees,
            unstable: false,
            seed: Seed(rng.bits()),
        }
    }

    /// Cuts the operation of `scene` at number `at` and checks everything. An error names what the cut hit.
    fn cut(
        &self,
        stage: &Stage,
        scene: &Scene,
        at: u64,
        first: u64,
        story: &mut Story,
    ) -> Result<(), (Option<FlashOp>, Broken)> {
        let (nand_op, tear) = self.place(at);
        let mut rng = Seed(self.plan.seed.0 ^ at.wrapping_mul(0x9e37_79b9_7f4a_7c15)).stream("cuts/cut");
        let mut hit = None;
        let outcome = unless_it_panics(|| {
            let mut ubi = stage.ubi.clone();
            let array = &mut ubi.flash_mut().array;
            let cut = self.power_cut(&mut rng, array.ops() + nand_op - first, tear);
            array.set_power_cut(Some(cut));
            if story.is_told() {
                ubi.flash_mut().recording = Some(Vec::new());
            }
            match perform(&self.plan, ubi, &scene.op) {
                Ok(_) => Err(vec!["the cut did not trip: the run is not deterministic".to_owned()]),
                Err(Down::Broken(what)) => Err(vec![what]),
                Err(Down::Power(mut tape)) => {
                    hit = tape.last;
                    for op in tape.recording.take().into_iter().flatten() {
                        story.tell(|| format!("  {op}"));
                    }
                    let ecc = if cut.ecc_sees_torn { "ECC sees it" } else { "ECC does not see it" };
                    story.tell(|| format!("{}; {ecc}", self.name_cut(at, hit)));
                    self.survive(*tape, scene, &mut rng, true, story)
                }
            }
        });
        outcome.map_err(|broken| (hit, broken))
    }

    /// Power returns to `tape`: everything promised must be there. With `go_on` the recovery is cut as well.
    fn survive(
        &self,
        mut tape: Tape,
        scene: &Scene,
        rng: &mut Rng,
        go_on: bool,
        story: &mut Story,
    ) -> Result<(), Broken> {
        tape.array.power_on();
        tape.array.set_power_cut(None);
        let mut broken = Broken::new();
        let counters = counters_on_flash(&mut tape);
        never_fall(&scene.counters, &counters, &mut broken);
        let interrupted = match tape.last {
            Some(FlashOp::Erase { peb }) => Some(peb),
            _ => None,
        };
        let may_lag = !self.plan.ubi.policy.count_in_place_erases;
        if let Some(ledger) = &scene.ledger {
            ledger.audit(&tape, &counters, may_lag, interrupted, &mut broken);
        }
        if self.plan.ubi.fastmap {
            let how = both_ways_agree(&tape, &self.layout, &counters, may_lag, &mut broken);
            story.tell(|| format!("attach: {how}"));
            self.survives_a_scan(&tape, scene, &mut broken);
        }
        if !broken.is_empty() {
            return Err(broken);
        }

        if go_on && self.plan.second_cut {
            let tear = rng.below(self.plan.tears.len() as u64) as usize;
            let cut = self.power_cut(rng, 0, tear);
            tape.array.set_power_cut(Some(PowerCut { at: CutAt::Op(rng.below(SECOND_CUT_WITHIN)), ..cut }));
        }
        let mut ubi = match bring_up(&self.plan, &self.plan.ubi, tape) {
            Ok(ubi) => ubi,
            Err(Down::Broken(what)) => return Err(vec![what]),
            Err(Down::Power(tape)) => {
                story.tell(|| format!("second cut, in the attach: {}", told(tape.last)));
                let again = Scene { counters, ledger: None, ..scene.clone() };
                return self.survive(*tape, &again, rng, false, story).map_err(second);
            }
        };
        ubi.notes().iter().for_each(|note| story.tell(|| format!("note: {note}")));
        let mut world = hold_against(&mut ubi, &scene.before, &scene.op, &scene.after)?;
        story.tell(|| "everything promised is there".to_owned());

        let mut stage = Stage { ledger: Ledger::open(&ubi), world, ubi };
        for turn in 0..=EXERCISE {
            let op = if turn == EXERCISE {
                if rng.chance(0.5) { Op::Crash } else { Op::Detach }
            } else {
                draw(rng, &exercise_mix(&self.plan.mix, &stage.world), &mut stage.world, self.limits)
            };
            story.tell(|| format!("then: {op}"));
            let scene = Scene::of(&mut stage, &op, self.layout.leb_bytes);
            let Stage { ubi, ledger, .. } = stage;
            match perform(&self.plan, ubi, &op) {
                Ok(up) => {
                    stage = Stage { ubi: up, ledger, world: scene.after };
                }
                Err(Down::Broken(what)) => return Err(vec![format!("after the recovery: {what}")]),
                Err(Down::Power(tape)) => {
                    story.tell(|| format!("second cut: {}", told(tape.last)));
                    return self.survive(*tape, &scene, rng, false, story).map_err(second);
                }
            }
            stage.ubi.check();
        }
        let Stage { mut ubi, world: expected, .. } = stage;
        ubi.flash_mut().array.set_power_cut(None);
        world = hold_against(&mut ubi, &expected, &Op::Background, &expected)
            .map_err(|broken| at_the_end("after it was attached once more", broken))?;
        drop(world);
        let mut tape = ubi.into_flash();
        let in_the_end = counters_on_flash(&mut tape);
        never_fall(&counters, &in_the_end, &mut broken);
        if self.plan.ubi.fastmap {
            both_ways_agree(&tape, &self.layout, &in_the_end, may_lag, &mut broken);
        }
        if broken.is_empty() { Ok(()) } else { Err(at_the_end("in the end", broken)) }
    }

    /// The same image, attached with fastmap switched off.
    fn survives_a_scan(&self, tape: &Tape, scene: &Scene, broken: &mut Broken) {
        let config = ubi::Config { fastmap: false, ..self.plan.ubi.clone() };
        match bring_up(&self.plan, &config, tape.clone()) {
            Ok(mut ubi) => {
                if let Err(found) = hold_against(&mut ubi, &scene.before, &scene.op, &scene.after) {
                    broken.extend(at_the_end("attached without fastmap", found));
                }
            }
            Err(Down::Broken(what)) => broken.push(format!("attached without fastmap: {what}")),
            Err(Down::Power(_)) => broken.push("power was lost".to_owned()),
        }
    }
}

/// An operation about to be cut.
#[derive(Clone)]
struct Scene {
    before: World,
    op: Op,
    after: World,
    counters: Vec<Option<u32>>,
    /// `None` where an attach that was cut has begun a new one.
    ledger: Option<Ledger>,
}

impl Scene {
    fn of(stage: &mut Stage, op: &Op, leb_bytes: u32) -> Scene {
        Scene {
            before: stage.world.clone(),
            op: op.clone(),
            after: stage.world.after(op, leb_bytes),
            counters: counters_on_flash(stage.ubi.flash_mut()),
            ledger: Some(stage.ledger.clone()),
        }
    }
}

fn exercise_mix(mix: &Mix, world: &World) -> Mix {
    let mut weights = EXERCISE_MIX;
    if world.volumes.values().any(|vol| vol.updating) {
        // What its user does to such a volume.
        weights = [0; 13];
        weights[super::workload::Kind::Update as usize] = 1;
    }
    Mix { weights, ..*mix }
}

fn told(hit: Option<FlashOp>) -> String {
    hit.map_or("nothing".to_owned(), |hit| hit.to_string())
}

fn second(broken: Broken) -> Broken {
    at_the_end("after a second cut", broken)
}

fn at_the_end(when: &str, broken: Broken) -> Broken {
    broken.into_iter().map(|what| format!("{when}: {what}")).collect()
}
