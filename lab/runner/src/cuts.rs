//! Power-cut enumeration: power is lost at every NAND operation of a workload in turn, and everything that was promised
//! must be there when it returns.
//!
//! | module | knows |
//! |---|---|
//! | `engine` | steps of a workload, cuts of them, threads; not what works on the flash |
//! | `ubi` | UBI, its operations and its promises |
//! | `ssd` | drives, their requests and their promises |
//! | `rules`, `keys` | the file: what a cut leaves, and strict reading |
//! | `tape` | what the flash was last asked |
//!
//! Knows the array and what works on it; knows no file system, no file and no clock.

mod engine;
mod keys;
mod rules;
mod ssd;
mod tape;
mod ubi;

pub use keys::PlanError;
pub use rules::{Noticed, Rules};
pub use ssd::{KNOWN_BAD as KNOWN_BAD_SSD, SsdPlan};
pub use ubi::{KNOWN_BAD, Kind, Mix, UbiPlan};

use engine::Cuts;
use keys::Keys;
use sim::Seed;

/// What is enumerated, every choice explicit.
#[derive(Clone, Debug)]
pub enum Plan {
    /// UBI.
    Ubi(Box<UbiPlan>),
    /// A drive.
    Ssd(Box<SsdPlan>),
}

impl Plan {
    /// Reads an enumeration's file: of a drive if it has a table `ssd`. Every key and its default is in
    /// `docs/format/cuts-json.md`.
    /// Errors: what is no TOML, an unknown key, a value out of its range.
    pub fn resolve(text: &str) -> Result<Plan, PlanError> {
        let mut top = Keys::parse(text)?;
        let seed = Seed(top.number("seed", 0, i64::MAX as u64, 0)?);
        let mut cuts = top.table("cuts")?;
        let rules = Rules::resolve(seed, &mut cuts)?;
        let plan = match top.values("ssd")? {
            None => Plan::Ubi(Box::new(UbiPlan::resolve(&mut top, rules, &mut cuts)?)),
            Some(ssd) => Plan::Ssd(Box::new(SsdPlan::resolve(ssd, &mut top, rules, &mut cuts)?)),
        };
        cuts.finish()?;
        top.finish()?;
        Ok(plan)
    }

    /// What is under test, in a word.
    pub fn subject(&self) -> &'static str {
        match self {
            Plan::Ubi(_) => "UBI",
            Plan::Ssd(_) => "the drive",
        }
    }
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

    /// Runs the cuts of a selection on `jobs` threads. `progress` is told how many more are done.
    pub fn run(&self, selection: Selection, jobs: usize, progress: &(dyn Fn(u64) + Sync)) -> Outcome {
        self.0.run(selection, jobs, progress)
    }

    /// Runs cut `at` alone and tells everything.
    /// Errors: there are not so many.
    pub fn tell(&self, at: u64) -> Result<(Story, Option<Failure>), String> {
        self.0.tell(at)
    }
}

/// Whether a text is a file of cuts: it has a table `cuts`.
pub fn is_plan(text: &str) -> bool {
    text.parse::<toml::Table>().is_ok_and(|table| table.contains_key("cuts"))
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

    fn told() -> Story {
        Story { lines: Some(Vec::new()) }
    }

    fn is_told(&self) -> bool {
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
