//! Power cuts of UBI.
//!
//! | promise | how it is checked |
//! |---|---|
//! | no LEB that was written is lost; after an atomic change a LEB is old or new | contents against the [model](self#the-model) |
//! | the volume table is one of its two states | by number, name, kind, size and update marker |
//! | erase counters never fall | the headers on flash before and after; and each erasure since the attach is counted (under `linux-6.1` but on PEBs that held a fastmap's data block) |
//! | no PEB is lost | [`ubi::Ubi::check`]; none is bad or kept as corrupt; the device is not read-only |
//! | attaching by fastmap and by scan agree | [`ubi::attach::compare`]; and both pass all of the above |
//! | the recovered device works like the one before | more operations, a second cut, another attach, checked again |
//!
//! # The model
//!
//! The contents of the device are known exactly, except in the operation that was cut, and for LEBs that were unmapped
//! and not yet erased: these may reappear, as on Linux. The cuts begin after formatting: a cut in the middle of the
//! very first attach may leave a flash that has to be formatted again, as on Linux.

mod known;
mod model;
mod plan;
mod rig;
#[cfg(test)]
mod twins;
mod workload;

use std::sync::Arc;

use nand::PowerCut;
use runner::run::guest::dump;
use runner::schema::limits::Destroys;
use sim::Rng;
use ubi::Ubi;
use ubi::layout::Layout;

use super::Story;
use super::check::{Broken, Check, Site, at_the_end, second, verdict};
use super::engine::{Attempt, Cuts, Engine, Rig, Tally, described};
use super::rules::Rules;
use super::tape::{FlashOp, Tape};
use known::Known;
use model::World;
pub use plan::{KNOWN_BAD, UbiPlan};
use rig::{
    Down, Found, Hit, Ledger, Owners, both_ways_agree, bring_up, bring_up_from, counters_on_flash, destroy_a_table,
    hold_against, limits, never_fall, owners, perform, take_down,
};
use workload::{Kind, Limits, Mix, Op, draw};

/// Operations in the description of a failure.
const HISTORY: usize = 8;
/// Operations after a recovery, before the device is attached again.
const EXERCISE: usize = 3;
/// Most NAND operations of a recovery before a second cut.
const SECOND_CUT_WITHIN: u64 = 48;

/// Weights of operations after a recovery.
const EXERCISE_MIX: [u32; 13] = [2, 1, 2, 1, 3, 24, 24, 3, 10, 4, 8, 0, 0];

/// The device between two operations of the workload.
#[derive(Clone)]
struct Stage {
    ubi: Ubi<Tape>,
    world: World,
    ledger: Ledger,
    /// What was compared before the step that is cut.
    known: Arc<Known>,
}

/// An operation of the workload, with the number of names and contents drawn by then.
#[derive(Clone)]
struct Drawn {
    op: Op,
    serial: u64,
}

/// UBI on a flash, and a partly drawn workload.
struct UbiRig {
    plan: UbiPlan,
    layout: Layout,
    limits: Limits,
    rng: Rng,
    drawn: Vec<Drawn>,
    /// The operations to do instead of drawn ones, the last first.
    script: Option<Vec<Drawn>>,
}

/// Formats the device and runs the workload once without a cut.
/// Errors: why UBI cannot run on the device.
pub(super) fn prepare(plan: UbiPlan) -> Result<Box<dyn Cuts>, String> {
    let ubi = match bring_up(&plan, &plan.ubi, Tape::new(&plan.array, nand::Bytes::new())) {
        Ok(ubi) => ubi,
        Err(Down::Broken(why)) => return Err(why.what),
        Err(Down::Power(_)) => unreachable!("no cut is armed"),
    };
    let rig = UbiRig {
        layout: *ubi.layout(),
        limits: limits(&ubi),
        rng: plan.rules.seed.stream("cuts/workload"),
        drawn: Vec::with_capacity(plan.operations as usize),
        script: None,
        plan,
    };
    if rig.limits.lebs == 0 {
        return Err("no LEB is left for volumes: the device is too small".to_owned());
    }
    let stage = Stage { ledger: Ledger::open(&ubi), world: World::default(), ubi, known: Arc::default() };
    Ok(Box::new(Engine::prepare(rig, stage)))
}

impl Rig for UbiRig {
    type Stage = Stage;
    type Scene = Scene;
    const CHUNK: usize = 24;

    fn rules(&self) -> &Rules {
        &self.plan.rules
    }

    fn tape(stage: &Stage) -> &Tape {
        stage.ubi.flash()
    }

    fn tape_mut(stage: &mut Stage) -> &mut Tape {
        stage.ubi.flash_mut()
    }

    fn draw(&mut self, stage: &mut Stage) -> bool {
        if let Some(script) = &mut self.script {
            while let Some(next) = script.pop() {
                if stage.world.allows(&next.op, self.limits) {
                    self.drawn.push(next);
                    return true;
                }
            }
            return false;
        }
        if self.drawn.len() as u32 == self.plan.operations {
            return false;
        }
        let op = draw(&mut self.rng, &self.plan.mix, &mut stage.world, self.limits);
        self.drawn.push(Drawn { op, serial: stage.world.serial });
        true
    }

    fn advance(&self, stage: Stage, step: usize) -> Result<Stage, Broken> {
        let Stage { ubi, mut world, mut ledger, known } = stage;
        let Drawn { op, serial } = &self.drawn[step];
        world.serial = *serial;
        let mut after = world.after(op, self.layout.leb_bytes);
        let mut ubi = match perform(&self.plan, ubi, op) {
            Ok(ubi) => ubi,
            Err(Down::Broken(what)) => return Err(vec![what]),
            Err(Down::Power(_)) => return Err(vec![Check::Power.broken("power was lost")]),
        };
        if matches!(op, Op::Crash | Op::Detach) {
            let hit = Hit::of(ubi.flash(), &Owners::new(), self.plan.array.faults.is_some(), false);
            after = hold_against(&mut ubi, &after, &Op::Background, &after, &known, (&hit, &mut Tally::default()))?;
            ledger = Ledger::open(&ubi);
            let tape = ubi.flash_mut();
            tape.tortured.fill(false);
            tape.fastmap_data = tape.holding_fastmap_data(self.layout.vid_hdr_offset);
        }
        ubi.check();
        world = after;
        Ok(Stage { ubi, world, ledger, known })
    }

    fn scene(&self, stage: &mut Stage, step: usize) -> Scene {
        let Drawn { op, serial } = &self.drawn[step];
        stage.world.serial = *serial;
        stage.known = Arc::new(Known::of(&stage.ubi, &stage.world, &stage.known));
        Scene::of(stage, stage.world.clone(), op, self, true)
    }

    fn cut(&self, stage: &Stage, scene: &Scene, cut: PowerCut, attempt: &mut Attempt<'_>) -> Result<(), Broken> {
        let mut ubi = stage.ubi.clone();
        ubi.flash_mut().array.set_power_cut(Some(cut));
        if attempt.story.is_written() {
            ubi.flash_mut().recording = Some(Vec::new());
        }
        self.sabotage(Site::Armed, ubi.flash_mut(), scene);
        match perform(&self.plan, ubi, &scene.op) {
            Ok(_) => Err(vec![Check::Power.broken("the cut did not trip: the run is not deterministic")]),
            Err(Down::Broken(what)) => Err(vec![what]),
            Err(Down::Power(mut tape)) => {
                attempt.struck(&mut tape, &cut);
                self.survive(*tape, scene, &Hit::default(), attempt, true)
            }
        }
    }

    fn history(&self, step: usize) -> Vec<String> {
        let first = (step + 1).saturating_sub(HISTORY);
        (first..=step).map(|i| format!("operation {i}: {}", self.drawn[i].op)).collect()
    }

    fn parts(&self, step: usize) -> Option<usize> {
        Some((step + 1).min(self.drawn.len()))
    }

    fn part(&self, part: usize) -> Option<String> {
        Some(self.drawn.get(part)?.op.to_string())
    }

    fn only(&self, parts: &[usize], first: Stage) -> Option<(UbiRig, Stage)> {
        let script = parts.iter().rev().filter_map(|&part| self.drawn.get(part).cloned()).collect();
        let (plan, rng) = (self.plan.clone(), self.rng.clone());
        Some((
            UbiRig { plan, layout: self.layout, limits: self.limits, rng, drawn: Vec::new(), script: Some(script) },
            first,
        ))
    }
}

impl UbiRig {
    /// Restores power to `tape` and checks every promise. `is_first`: no cut came before.
    /// `earlier` is what cuts before this one destroyed.
    fn survive(
        &self,
        mut tape: Tape,
        scene: &Scene,
        earlier: &Hit,
        attempt: &mut Attempt<'_>,
        is_first: bool,
    ) -> Result<(), Broken> {
        tape.array.power_on();
        tape.array.set_power_cut(None);
        attempt.left(|keep| {
            dump(&tape.array, keep);
            Ok(())
        })?;
        self.sabotage(if is_first { Site::Cut } else { Site::SecondCut }, &mut tape, scene);
        let mut table_is_lost = false;
        if is_first
            && self.plan.destroys == Destroys::VolumeTable
            && let Some(peb) = destroy_a_table(&mut tape, &self.layout, &mut attempt.rng)
        {
            table_is_lost = true;
            attempt.story.tell(|| format!("the medium destroys the volume table in PEB {peb}"));
        }
        let hit = &Hit::of(&tape, &scene.owners, self.plan.array.faults.is_some(), table_is_lost).and(earlier);
        for (peb, page) in tape.array.destroyed() {
            attempt.story.tell(|| format!("the cut destroyed page {page} of PEB {peb}"));
        }
        let goes_on = attempt.goes_on();
        let Attempt { rng, story, tally, .. } = &mut *attempt;
        let mut broken = Broken::new();
        let (counters, may_lag) = (counters_on_flash(&tape, &scene.known), &self.may_lag(&tape));
        never_fall(&scene.counters, &counters, may_lag, &mut broken);
        let interrupted = match tape.last {
            Some(FlashOp::Erase { peb }) => Some(peb),
            _ => None,
        };
        if let Some(ledger) = &scene.ledger {
            ledger.audit(&tape, &counters, may_lag, interrupted, &mut broken);
        }
        let mut found = None;
        if self.plan.ubi.fastmap {
            if hit.table {
                let why = "a volume table was destroyed, and the fastmap may still name it";
                story.tell(|| format!("attach: not compared: {why}"));
            } else {
                let known = &scene.known;
                found = both_ways_agree(&tape, &self.layout, known, &counters, may_lag, story, &mut broken);
            }
            self.survives_a_scan(&tape, scene, found.as_mut(), hit, &mut broken);
        }
        verdict(std::mem::take(&mut broken))?;

        if goes_on {
            tape.array.set_power_cut(Some(self.plan.rules.second(rng, SECOND_CUT_WITHIN)));
        }
        let chosen = found.as_mut().and_then(Found::chosen);
        let mut ubi = match bring_up_from(&self.plan, &self.plan.ubi, tape, found.as_ref().zip(chosen)) {
            Ok(ubi) => ubi,
            Err(Down::Broken(what)) => return Err(vec![what]),
            Err(Down::Power(tape)) => {
                story.tell(|| format!("second cut, in the attach: {}", described(tape.last)));
                let again = Scene { counters, ledger: None, ..scene.clone() };
                return self.survive(*tape, &again, hit, attempt, false).map_err(second);
            }
        };
        ubi.notes().iter().for_each(|note| story.tell(|| format!("note: {note}")));
        let world = hold_against(&mut ubi, &scene.before, &scene.op, &scene.after, &scene.known, (hit, &mut *tally))?;
        let Tally { lost, older, .. } = *tally;
        story.tell(|| match lost + older {
            0 => "everything promised is there".to_owned(),
            _ => format!("the medium destroyed {lost} LEBs, of {older} an older version came back; all else is there"),
        });
        if let Some(why) = ubi.read_only() {
            story.tell(|| format!("read-only: {why}"));
            return Ok(());
        }
        self.sabotage(Site::Recovered, ubi.flash_mut(), scene);
        if let Some(mistakes) = self.plan.once_recovered {
            ubi.set_known_bad(mistakes);
        }

        // Blocks that the medium took are missing.
        let limits = if self.plan.is_harsh() { limits(&ubi) } else { self.limits };
        let mut stage = Stage { ledger: Ledger::open(&ubi), world, ubi, known: scene.known.clone() };
        for _ in 0..EXERCISE {
            let op = draw(rng, &exercise_mix(&self.plan.mix, &stage.world), &mut stage.world, limits);
            story.tell(|| format!("then: {op}"));
            let before = std::mem::take(&mut stage.world);
            let next = Scene::of(&stage, before, &op, self, goes_on);
            let Stage { ubi, ledger, known, .. } = stage;
            match perform(&self.plan, ubi, &op) {
                Ok(up) => {
                    stage = Stage { ubi: up, ledger, world: next.after, known };
                }
                Err(down) => return self.went_down(down, &next, hit, attempt),
            }
        }
        stage.ubi.check();
        let op = if rng.chance(0.5) { Op::Crash } else { Op::Detach };
        story.tell(|| format!("then: {op}"));
        let before = std::mem::take(&mut stage.world);
        let next = Scene::of(&stage, before, &op, self, goes_on);
        let mut tape = match take_down(stage.ubi, &op) {
            Ok(tape) => tape,
            Err(down) => return self.went_down(down, &next, hit, attempt),
        };
        self.sabotage(Site::Down, &mut tape, scene);
        let mut found = self.compared(&tape, &next, hit, &mut broken);
        verdict(at_the_end("in the end", std::mem::take(&mut broken)))?;
        let chosen = found.as_mut().and_then(Found::chosen);
        let mut ubi = match bring_up_from(&self.plan, &self.plan.ubi, tape, found.as_ref().zip(chosen)) {
            Ok(ubi) => ubi,
            Err(down) => return self.went_down(down, &next, hit, attempt),
        };
        ubi.flash_mut().array.set_power_cut(None);
        self.sabotage(Site::Used, ubi.flash_mut(), scene);
        hold_against(&mut ubi, &next.after, &Op::Background, &next.after, &scene.known, (hit, &mut Tally::default()))
            .map_err(|broken| at_the_end("after it was attached once more", broken))?;
        let mut tape = ubi.into_flash();
        self.sabotage(Site::End, &mut tape, scene);
        never_fall(&counters, &counters_on_flash(&tape, &scene.known), &self.may_lag(&tape), &mut broken);
        // Not again, if the attach wrote nothing.
        if found.is_none_or(|found| !found.is_of(&tape)) {
            self.compared(&tape, &next, hit, &mut broken);
        }
        verdict(at_the_end("in the end", broken))
    }

    /// What to do with a device that an operation after a recovery took down: the second cut, if it is one.
    fn went_down(&self, down: Down, scene: &Scene, hit: &Hit, attempt: &mut Attempt<'_>) -> Result<(), Broken> {
        match down {
            Down::Broken(what) => Err(at_the_end("after the recovery", vec![what])),
            Down::Power(_) if !scene.may_be_cut => Err(vec![Check::Power.broken("power was lost")]),
            Down::Power(tape) => {
                attempt.story.tell(|| format!("second cut: {}", described(tape.last)));
                self.survive(*tape, scene, hit, attempt, false).map_err(second)
            }
        }
    }

    /// Compares both ways of attaching, if there are two and they must agree.
    fn compared(&self, tape: &Tape, scene: &Scene, hit: &Hit, broken: &mut Broken) -> Option<Found> {
        if !self.plan.ubi.fastmap || hit.table {
            return None;
        }
        let counters = counters_on_flash(tape, &scene.known);
        let (known, may_lag) = (&scene.known, &self.may_lag(tape));
        both_ways_agree(tape, &self.layout, known, &counters, may_lag, &mut Story::silent(), broken)
    }

    fn sabotage(&self, site: Site, tape: &mut Tape, scene: &Scene) {
        if let Some(sabotage) = self.plan.sabotage {
            sabotage(site, tape, scene);
        }
    }

    /// By PEB: whether its count in memory may lack erasures, so that the one on flash falls with its next erasure.
    /// Under Linux 6.1 this holds for PEBs in which a fastmap data block was erased in place; under any, for PEBs that were
    /// tortured: UBI counts these erasures when all are done.
    fn may_lag(&self, tape: &Tape) -> Vec<bool> {
        let forgets = !self.plan.ubi.policy.count_in_place_erases;
        let lags = |(held, tortured): (&bool, &bool)| forgets && *held || *tortured;
        tape.fastmap_data.iter().zip(&tape.tortured).map(lags).collect()
    }

    /// Checks the same image, attached with fastmap off.
    fn survives_a_scan(
        &self,
        tape: &Tape,
        scene: &Scene,
        mut found: Option<&mut Found>,
        hit: &Hit,
        broken: &mut Broken,
    ) {
        let config = ubi::Config { fastmap: false, ..self.plan.ubi.clone() };
        let mut copy = tape.clone();
        self.sabotage(Site::Copy, &mut copy, scene);
        let scanned = found.as_mut().and_then(|found| found.scanned());
        match bring_up_from(&self.plan, &config, copy, found.as_deref().zip(scanned)) {
            Ok(mut ubi) => {
                let counted = &mut Tally::default();
                if let Err(found) =
                    hold_against(&mut ubi, &scene.before, &scene.op, &scene.after, &scene.known, (hit, counted))
                {
                    broken.extend(at_the_end("attached without fastmap", found));
                }
            }
            Err(Down::Broken(what)) => broken.extend(at_the_end("attached without fastmap", vec![what])),
            Err(Down::Power(_)) => broken.push(Check::Power.broken("power was lost")),
        }
    }
}

/// An operation about to be cut.
#[derive(Clone)]
pub(super) struct Scene {
    before: World,
    op: Op,
    after: World,
    known: Arc<Known>,
    may_be_cut: bool,
    /// None if it is not cut.
    counters: Vec<Option<u32>>,
    /// `None` if an attach that was cut has begun a new one.
    ledger: Option<Ledger>,
    /// The LEB in each PEB; empty if the medium destroys nothing.
    owners: Owners,
}

impl Scene {
    /// The operation `op` on `stage`, whose promises are `before`; `may_be_cut`: whether a power cut is armed, or will be.
    fn of(stage: &Stage, before: World, op: &Op, rig: &UbiRig, may_be_cut: bool) -> Scene {
        Scene {
            after: before.after(op, rig.layout.leb_bytes),
            before,
            op: op.clone(),
            may_be_cut,
            counters: if may_be_cut { counters_on_flash(stage.ubi.flash(), &stage.known) } else { Vec::new() },
            known: stage.known.clone(),
            ledger: Some(stage.ledger.clone()),
            owners: if rig.plan.is_harsh() { owners(&stage.ubi) } else { Owners::new() },
        }
    }
}

fn exercise_mix(mix: &Mix, world: &World) -> Mix {
    let mut weights = EXERCISE_MIX;
    if world.volumes.values().any(|vol| vol.updating) {
        // The user of such a volume updates it again.
        weights = [0; 13];
        weights[Kind::Update as usize] = 1;
    }
    Mix { weights, ..*mix }
}
