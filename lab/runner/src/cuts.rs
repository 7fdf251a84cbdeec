//! Power-cut enumeration: power is lost at every NAND operation of a workload in turn, and everything that was promised
//! must be there when it returns.
//!
//! | module | knows |
//! |---|---|
//! | `engine` | steps of a workload, cuts of them, threads; not what works on the flash |
//! | `ubi` | UBI, its operations and its promises |
//! | `ssd` | drives, their requests and their promises |
//! | `rules` | what a cut leaves |
//! | `tape` | what the flash was last asked |
//!
//! Knows the array and what works on it; knows no file system, no file and no clock.

mod engine;
mod rules;
mod ssd;
mod tape;
mod ubi;

pub use rules::{Noticed, Rules};
pub use ssd::{KNOWN_BAD as KNOWN_BAD_SSD, SsdPlan};
pub use ubi::{KNOWN_BAD, UbiPlan};

use engine::Cuts;
use sim::Seed;

use crate::parts::Library;
use crate::schema::limits::Mix;
use crate::schema::{Experiment, ExperimentError, wrong};
use crate::subject::Subject;

/// What is enumerated, every choice explicit.
#[derive(Clone, Debug)]
pub enum Plan {
    /// UBI.
    Ubi(Box<UbiPlan>),
    /// A drive.
    Ssd(Box<SsdPlan>),
}

impl Plan {
    /// The enumeration of an experiment: of its device, by its table `[cuts]`.
    /// Errors: as [`Experiment::resolve`].
    pub fn resolve(text: &str, sets: &[(String, String)]) -> Result<Plan, ExperimentError> {
        Plan::resolve_with(text, sets, Library::embedded())
    }

    /// As [`resolve`](Self::resolve), on the parts of a library.
    /// Errors: as there.
    pub fn resolve_with(text: &str, sets: &[(String, String)], library: &Library) -> Result<Plan, ExperimentError> {
        let experiment = Experiment::resolve_with(text, sets, library)?;
        let cuts = experiment.cuts.clone().unwrap_or_default();
        let rules = Rules::of(Seed(experiment.seed), &cuts)?;
        Ok(match Subject::build_with(&experiment, library)? {
            Subject::Flash(flash) => Plan::Ubi(Box::new(UbiPlan::new(&flash, rules, &cuts)?)),
            Subject::Drive(drive) => Plan::Ssd(Box::new(SsdPlan::new(&drive, rules, &cuts)?)),
        })
    }

    /// What is under test, in a word.
    pub fn subject(&self) -> &'static str {
        match self {
            Plan::Ubi(_) => "UBI",
            Plan::Ssd(_) => "the drive",
        }
    }
}

/// Puts the weights that a file gives over the defaults of `kinds`.
/// Errors: a kind that is not among them; no kind with a weight.
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

/// An enumeration that is ready to run.
pub struct Enumeration(Box<dyn Cuts>);

impl Enumeration {
    /// Runs the workload once, without a cut.
    /// Errors: why nothing runs on the device at all.
    pub fn prepare(plan: Plan) -> Result<Enumeration, String> {
        Ok(Enumeration(match plan {
            Plan::Ubi(plan) => ubi::prepare(*plan)?,
            Plan::Ssd(plan) => ssd::prepare(*plan)?,
        }))
    }

    /// How many cuts there are.
    pub fn cuts(&self) -> u64 {
        self.0.cuts()
    }

    /// NAND operations of the workload; formatting is left out.
    pub fn nand_ops(&self) -> u64 {
        self.0.nand_ops()
    }

    /// How many cuts a selection takes.
    pub fn selected(&self, selection: Selection) -> u64 {
        self.cuts().div_ceil(selection.every.max(1))
    }

    /// Runs the cuts of a selection on `jobs` threads. `progress` is called with how many more are done.
    pub fn run(&self, selection: Selection, jobs: usize, progress: &(dyn Fn(u64) + Sync)) -> Outcome {
        self.0.run(selection, jobs, progress)
    }

    /// Runs cut `at` alone and tells everything.
    /// Errors: there are not so many.
    pub fn tell(&self, at: u64) -> Result<(Story, Option<Failure>), String> {
        self.0.tell(at)
    }
}

/// Which cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Cuts 0, `every`, 2 × `every`, …; 1 for all.
    pub every: u64,
}

/// A cut after which a promise was broken.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Failure {
    /// Its number, by which it can be run again.
    pub at: u64,
    /// The last operations before it, and what it hit.
    pub history: Vec<String>,
    /// What was broken.
    pub broken: Vec<String>,
}

/// What an enumeration found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Cuts that were run.
    pub cuts: u64,
    /// Cuts after which something was broken.
    pub failed: u64,
    /// The first of them.
    pub failures: Vec<Failure>,
}

/// What happened in one cut, line by line.
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

    /// The lines.
    pub fn lines(&self) -> &[String] {
        self.lines.as_deref().unwrap_or_default()
    }
}
