//! Power-cut enumeration: cuts power at every NAND operation of a workload in turn, and checks what recovery must have
//! kept.
//!
//! | module | knows |
//! |---|---|
//! | `check` | the checks, by name |
//! | `engine` | steps of a workload, their cuts, threads; not which layer runs on the flash |
//! | `ubi` | UBI, its operations and its promises |
//! | `files` | file systems, UBIFS on UBI and JFFS2, their calls and their promises |
//! | `ssd` | drives, their requests and their promises |
//! | `guest` | Linux, its job on a drive or raw flash, and what it finds after a cut |
//! | `select` | which of all cuts are run |
//! | `reduce` | a failing case with the shortest workload, and its file |
//! | `rules` | how cells look after a cut |
//! | `tape` | the last operation of the flash |
//! | `volume` | a volume of UBI for a file system or a ubiblock |
//!
//! Knows the array and the layers on it; knows no file system, no file and no clock.

mod check;
mod engine;
mod files;
mod guest;
mod reduce;
mod rules;
mod select;
mod ssd;
mod tape;
mod ubi;
mod ubiblock;
mod volume;

pub use check::Check;
pub use files::{
    FilesPlan, Jffs1Plan, Jffs2Plan, Jffs2UbiPlan, KNOWN_BAD_JFFS1, KNOWN_BAD_JFFS2, KNOWN_BAD_UBIFS, UbifsOnUbi,
    UbifsPlan,
};
pub use guest::GuestPlan;
pub use reduce::{Case, CaseError};
pub use rules::{Noticed, Rules};
pub use select::Selection;
pub use ssd::{KNOWN_BAD as KNOWN_BAD_SSD, SsdPlan};
pub use ubi::{KNOWN_BAD, UbiPlan};
pub use ubiblock::UbiblockPlan;

use engine::Cuts;
use sim::{Cause, Seed};

use runner::parts::Library;
use runner::run::guest::Keep;
use runner::schema::limits::{Destroys, Mix};
use runner::schema::{Experiment, ExperimentError, word, wrong};
use runner::subject::Subject;
use runner::subject::flash::Bare;

/// An enumeration of power cuts, with every choice explicit.
#[derive(Clone, Debug)]
pub enum Plan {
    /// Cuts of UBI on raw flash.
    Ubi(Box<UbiPlan>),
    /// Cuts of a drive.
    Ssd(Box<SsdPlan>),
    /// Cuts of a UBI volume as a block device.
    Ubiblock(Box<UbiblockPlan>),
    /// Cuts of UBIFS on UBI.
    Ubifs(Box<UbifsPlan>),
    /// Cuts of JFFS on raw flash.
    Jffs1(Box<Jffs1Plan>),
    /// Cuts of JFFS2 on raw flash.
    Jffs2(Box<Jffs2Plan>),
    /// Cuts of JFFS2 on UBI.
    Jffs2OnUbi(Box<Jffs2UbiPlan>),
    /// Cuts of any of them under Linux.
    Guest(Box<GuestPlan>),
}

impl Plan {
    /// Reads the enumeration of an experiment: its device, and its table `[cuts]`.
    /// Errors: as [`Experiment::resolve`].
    pub fn resolve(text: &str, sets: &[(String, String)]) -> Result<Plan, ExperimentError> {
        Plan::resolve_with(text, sets, Library::embedded())
    }

    /// As [`resolve`](Self::resolve), with the parts of a library.
    /// Errors: as [`Experiment::resolve`].
    pub fn resolve_with(text: &str, sets: &[(String, String)], library: &Library) -> Result<Plan, ExperimentError> {
        let experiment = Experiment::resolve_with(text, sets, library)?;
        let has_other = experiment.ssd.is_some() || experiment.ubiblock.is_some() || experiment.fs.is_some();
        let on_ubi = !has_other && experiment.guest.is_none();
        let is_faultless = experiment.ubiblock.is_some() || experiment.guest.is_some() || experiment.fs.is_some();
        if experiment.faults.is_some() && is_faultless {
            let expected = "no faults: UBI on raw flash and drives without a guest are cut on flash that fails";
            return wrong("faults", "it", expected);
        }
        let cuts = experiment.cuts.clone().unwrap_or_default();
        let rules = Rules::of(Seed(experiment.seed), &cuts)?;
        if cuts.destroys != Destroys::Nothing && !on_ubi {
            return wrong("cuts.destroys", word(&cuts.destroys), "nothing: only UBI has a volume table");
        }
        let subject = Subject::build_with(&experiment, library)?;
        if experiment.guest.is_some() {
            return Ok(Plan::Guest(Box::new(match subject {
                Subject::Flash(flash) => GuestPlan::on_flash(experiment, rules, *flash)?,
                Subject::Drive(drive) => GuestPlan::on_drive(experiment, SsdPlan::new(&drive, rules, &cuts)?),
                Subject::Ubiblock(device) => GuestPlan::on_ubiblock(experiment, rules, *device)?,
            })));
        }
        Ok(match subject {
            Subject::Flash(flash) => match (&flash.bare, &flash.file_system) {
                (Some(Bare::Filled(_)), _) => {
                    return wrong("fill", "it", "fsstress: power cuts interrupt no other load of a file system");
                }
                (Some(Bare::Jffs1(subject)), _) => {
                    Plan::Jffs1(Box::new(Jffs1Plan::new(&flash, subject, rules, &cuts)?))
                }
                (Some(Bare::Jffs2(subject)), _) => match subject.lebs {
                    Some(lebs) => Plan::Jffs2OnUbi(Box::new(Jffs2UbiPlan::new(&flash, subject, lebs, rules, &cuts)?)),
                    None => Plan::Jffs2(Box::new(Jffs2Plan::new(&flash, subject, rules, &cuts)?)),
                },
                (None, Some(file_system)) => Plan::Ubifs(Box::new(UbifsPlan::new(&flash, file_system, rules, &cuts)?)),
                (None, None) => Plan::Ubi(Box::new(UbiPlan::new(&flash, rules, &cuts)?)),
            },
            Subject::Drive(drive) => {
                let faults = experiment.faults.as_ref();
                Plan::Ssd(Box::new(SsdPlan::new(&drive, rules, &cuts)?.with(faults, drive.array)?))
            }
            Subject::Ubiblock(device) => Plan::Ubiblock(Box::new(UbiblockPlan::new(*device, rules, &cuts)?)),
        })
    }

    /// Bytes of the device, and what a byte of it is that was never written.
    pub fn contents(&self) -> (u64, u8) {
        match self {
            Plan::Ubi(plan) => (plan.array.geometry.bytes(), 0xff),
            Plan::Ssd(plan) => (plan.drive.bytes(), 0),
            Plan::Ubiblock(plan) => (plan.subject.flash.array.geometry.bytes(), 0xff),
            Plan::Ubifs(plan) => (plan.system.array.geometry.bytes(), 0xff),
            Plan::Jffs1(plan) => (plan.system.array.geometry.bytes(), 0xff),
            Plan::Jffs2(plan) => (plan.system.array.geometry.bytes(), 0xff),
            Plan::Jffs2OnUbi(plan) => (plan.system.array.geometry.bytes(), 0xff),
            Plan::Guest(plan) => plan.contents(),
        }
    }

    /// How a cut acts.
    pub fn rules(&self) -> &Rules {
        match self {
            Plan::Ubi(plan) => &plan.rules,
            Plan::Ssd(plan) => &plan.rules,
            Plan::Ubiblock(plan) => &plan.rules,
            Plan::Ubifs(plan) => &plan.rules,
            Plan::Jffs1(plan) => &plan.rules,
            Plan::Jffs2(plan) => &plan.rules,
            Plan::Jffs2OnUbi(plan) => &plan.rules,
            Plan::Guest(plan) => plan.rules(),
        }
    }

    /// Name of the subject for messages.
    pub fn subject(&self) -> &'static str {
        match self {
            Plan::Ubi(_) => "UBI",
            Plan::Ssd(_) => "the drive",
            Plan::Ubiblock(_) => "the ubiblock",
            Plan::Ubifs(_) => "UBIFS",
            Plan::Jffs1(_) => "JFFS",
            Plan::Jffs2(_) => "JFFS2",
            Plan::Jffs2OnUbi(_) => "JFFS2 on UBI",
            Plan::Guest(_) => "the guest's job",
        }
    }
}

/// Applies the weights of a file over the defaults of `kinds`.
/// Errors: an unknown kind; no kind with a weight above 0.
fn weights(mix: &Mix, kinds: &[&str], weights: &mut [u32]) -> Result<(), ExperimentError> {
    for (name, weight) in mix.given() {
        match kinds.iter().position(|kind| *kind == name) {
            Some(at) => weights[at] = weight,
            None => return wrong(format!("cuts.mix.{name}"), weight, format!("one of {}", kinds.join(", "))),
        }
    }
    if weights.iter().all(|&weight| weight == 0) {
        return wrong("cuts.mix", "every weight 0", "one above 0");
    }
    Ok(())
}

/// An enumeration whose workload ran once without a cut.
pub struct Enumeration(Box<dyn Cuts>);

impl Enumeration {
    /// Runs the workload once without a cut.
    /// Errors: why the workload cannot run on the device.
    pub fn prepare(plan: Plan) -> Result<Enumeration, String> {
        Ok(Enumeration(match plan {
            Plan::Ubi(plan) => ubi::prepare(*plan)?,
            Plan::Ssd(plan) => ssd::prepare(*plan)?,
            Plan::Ubiblock(plan) => ubiblock::prepare(*plan)?,
            Plan::Ubifs(plan) => files::prepare(*plan)?,
            Plan::Jffs1(plan) => files::prepare(*plan)?,
            Plan::Jffs2(plan) => files::prepare(*plan)?,
            Plan::Jffs2OnUbi(plan) => files::prepare(*plan)?,
            Plan::Guest(plan) => guest::prepare(*plan)?,
        }))
    }

    /// Number of cuts.
    pub fn cuts(&self) -> u64 {
        self.0.cuts()
    }

    /// NAND operations of the workload, without formatting.
    pub fn nand_ops(&self) -> u64 {
        self.0.nand_ops()
    }

    /// Numbers of the cuts of a selection, in order. Errors: times, on a device without a clock.
    pub fn list(&self, selection: &Selection) -> Result<Vec<u64>, String> {
        let list = self.0.list(selection, None);
        match selection {
            Selection::Times(_) if list.is_empty() => Err("no operation is under way at these times".to_owned()),
            _ => Ok(list),
        }
    }

    /// Of the cuts that interrupt an operation done for `cause`, the numbers of those of a selection, in order.
    /// Errors: there are none; times.
    pub fn list_of(&self, selection: &Selection, cause: Cause) -> Result<Vec<u64>, String> {
        let list = self.0.list(selection, Some(cause));
        if list.is_empty() {
            return Err(format!("no operation of the workload is done for {}", cause.name()));
        }
        Ok(list)
    }

    /// Runs cuts, whose numbers are in order, on `jobs` threads. `progress` is called with the number of cuts done since
    /// the last call.
    pub fn run(&self, list: &[u64], jobs: usize, progress: &(dyn Fn(u64) + Sync)) -> Outcome {
        self.0.run(list, jobs, progress)
    }

    /// Runs cut `at` alone and returns a log of it. `keep` gets the contents of the device when power is back, before
    /// anything is written: of raw flash and of a ubiblock a dump without OOB, of a drive its
    /// sectors, as of a ubiblock under a guest. What it does not get is 0xFF on raw
    /// flash and zero on a drive.
    /// Errors: there is no such cut.
    pub fn tell(&self, at: u64, keep: Option<Keep<'_>>) -> Result<(Story, Option<Failure>), String> {
        self.0.tell(at, keep)
    }
}

/// A cut after which a promise was broken.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Failure {
    /// Number of the cut, with which it can be run again.
    pub at: u64,
    /// The last operations before the cut, and the one that it interrupted.
    pub history: Vec<String>,
    /// The checks that found it, each once.
    pub checks: Vec<Check>,
    /// Promises that were broken, in sentences.
    pub broken: Vec<String>,
}

/// Result of an enumeration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Cuts that were run.
    pub cuts: u64,
    /// Cuts after which a promise was broken.
    pub failed: u64,
    /// The first failures.
    pub failures: Vec<Failure>,
    /// LEBs and sectors that the medium destroyed, which no layer could keep.
    pub lost: u64,
    /// LEBs and sectors of which an older version came back because the medium destroyed the newer.
    pub older: u64,
    /// The cuts by what they interrupted.
    pub phases: Phases,
}

impl Outcome {
    fn add(&mut self, other: Outcome) {
        self.cuts += other.cuts;
        self.failed += other.failed;
        self.failures.extend(other.failures);
        self.lost += other.lost;
        self.older += other.older;
        other.phases.0.into_iter().for_each(|phase| self.phases.add(phase));
    }
}

/// Cuts that interrupted one kind of operation, done for one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Phase {
    /// `program` or `erase`; empty if the cut met no operation.
    pub operation: &'static str,
    /// Why it was done: a name of [`sim::Cause`].
    pub cause: &'static str,
    /// Cuts.
    pub cuts: u64,
    /// Of these, cuts after which a promise was broken.
    pub failed: u64,
    /// LEBs and sectors that the medium destroyed in these cuts.
    pub lost: u64,
}

impl Phase {
    fn of(operation: &'static str, cause: Cause) -> Phase {
        Phase { operation, cause: cause.name(), ..Phase::default() }
    }
}

/// Cuts by phase, sorted by operation and cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Phases(Vec<Phase>);

impl Phases {
    /// The phases.
    pub fn iter(&self) -> impl Iterator<Item = &Phase> {
        self.0.iter()
    }

    fn add(&mut self, phase: Phase) {
        let key = |phase: &Phase| (phase.operation, phase.cause);
        match self.0.binary_search_by_key(&key(&phase), key) {
            Ok(at) => {
                let there = &mut self.0[at];
                there.cuts += phase.cuts;
                there.failed += phase.failed;
                there.lost += phase.lost;
            }
            Err(at) => self.0.insert(at, phase),
        }
    }
}

/// Log of one cut.
#[derive(Clone, Debug, Default)]
pub struct Story {
    lines: Option<Vec<String>>,
}

impl Story {
    fn silent() -> Story {
        Story { lines: None }
    }

    fn written() -> Story {
        Story { lines: Some(Vec::new()) }
    }

    fn is_written(&self) -> bool {
        self.lines.is_some()
    }

    fn tell(&mut self, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push(line());
        }
    }

    /// Lines of the log.
    pub fn lines(&self) -> &[String] {
        self.lines.as_deref().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAND: &str = "[nand]\npebs = 64\npeb_bytes = 4096\npage_bytes = 512\n";
    const UBIBLOCK: &str = "[ubiblock]\nform = 'atomic'\nsize_bytes = 21504\n";
    const SSD: &str = "[ssd]\nchannels = 2\nways = 1\nplanes = 1\nblocks = 16\npages = 8\npage_kib = 1.0\n\
                       capacity_bytes = 131072\n";
    const GUEST: &str = "[guest]\njob = 'true'\n";

    /// Raw flash that was never written is 0xFF, what a host sees of a drive is zero.
    #[test]
    fn a_plan_knows_the_size_of_its_device_and_what_blank_bytes_are() {
        let all = 64 * 4096;
        for (device, subject, contents) in [
            (vec![NAND], "UBI", (all, 0xff)),
            (vec![SSD], "the drive", (131_072, 0)),
            (vec![NAND, UBIBLOCK], "the ubiblock", (all, 0xff)),
            (vec![SSD, GUEST], "the guest's job", (131_072, 0)),
            (vec![NAND, UBIBLOCK, GUEST], "the guest's job", (21_504, 0)),
            (vec![NAND, GUEST], "the guest's job", (all, 0xff)),
            (vec![NAND, "[fs]\nkind = 'jffs2'\n"], "JFFS2", (all, 0xff)),
        ] {
            let text = format!("title = 't'\nseed = 77\n{}[cuts]\n", device.concat());
            let plan = Plan::resolve(&text, &[]).unwrap_or_else(|error| panic!("{device:?}: {error}"));
            assert_eq!((plan.subject(), plan.contents()), (subject, contents), "{device:?}");
            assert_eq!(plan.rules().seed, Seed(77));
        }
    }

    /// Flash fails under UBI and under a drive alone, and only UBI by itself has a volume table to destroy.
    #[test]
    fn faults_and_destroyed_tables_are_refused_where_nothing_is_cut_with_them() {
        for (device, with_faults, with_tables) in [
            (vec![NAND], true, true),
            (vec![SSD], true, false),
            (vec![NAND, UBIBLOCK], false, false),
            (vec![SSD, GUEST], false, false),
            (vec![NAND, UBIBLOCK, GUEST], false, false),
            (vec![NAND, GUEST], false, false),
            (vec![NAND, "[fs]\nkind = 'jffs2'\n"], false, false),
        ] {
            let refused = |more: &str| {
                let text = format!("title = 't'\n{}{more}", device.concat());
                Plan::resolve(&text, &[]).err().map(|error| error.to_string())
            };
            for (more, key, is_taken) in [
                ("[faults]\nerase_failure = 0.01\n[cuts]\n", "key `faults`", with_faults),
                ("[cuts]\ndestroys = 'volume-table'\n", "key `cuts.destroys`", with_tables),
            ] {
                let found = refused(more);
                let is_right = found.as_ref().map_or(is_taken, |error| !is_taken && error.contains(key));
                assert!(is_right, "{device:?}, {more}: {found:?}");
            }
        }
    }

    #[test]
    fn jffs_is_cut_under_fsstress_alone() {
        let jffs =
            "title = 't'\n[nand]\nmedium = 'nor'\npebs = 64\npeb_bytes = 4096\npage_bytes = 1\n[fs]\nkind = 'jffs1'\n";
        assert!(matches!(Plan::resolve(&format!("{jffs}[cuts]\n"), &[]), Ok(Plan::Jffs1(_))));
        let Err(error) = Plan::resolve(&format!("{jffs}[fill]\n[cuts]\n"), &[]) else { panic!("a flash is filled") };
        assert!(error.to_string().contains("key `fill`"), "{error}");
    }

    #[test]
    fn outcomes_are_summed_and_phases_sorted() {
        let phase = |operation, cause, cuts| Phase { operation, cause, cuts, failed: 2 * cuts, lost: 3 * cuts };
        let outcome = |list: &[Phase]| {
            let mut phases = Phases::default();
            list.iter().for_each(|&phase| phases.add(phase));
            Outcome { cuts: 1, failed: 10, failures: Vec::new(), lost: 100, older: 1_000, phases }
        };
        let mut sum = outcome(&[phase("program", "host", 1), phase("erase", "gc", 5)]);
        sum.add(outcome(&[phase("program", "host", 2), phase("program", "gc", 7), phase("erase", "host", 9)]));
        let expected = [
            phase("erase", "gc", 5),
            phase("erase", "host", 9),
            phase("program", "gc", 7),
            phase("program", "host", 3),
        ];
        assert_eq!(sum.phases.iter().copied().collect::<Vec<_>>(), expected);
        assert_eq!((sum.cuts, sum.failed, sum.lost, sum.older), (2, 20, 200, 2_000));
    }
}
