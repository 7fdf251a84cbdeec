//! A run, from an experiment to what it found: each stage is entered once.
//!
//! [`Prepared::new`] builds the subject and its load, which checks every value; [`Prepared::run`] runs.

use nand::Store;
use thiserror::Error;

use crate::measure::Outcome;
use crate::parts::{Library, PartUse};
use crate::schema::{Experiment, ExperimentError, wrong};
use crate::ssd::put::Arrivals;
use crate::ssd::{self, SsdRunError};
use crate::subject::{Load, Subject};
use crate::wear::{self, Progress, RunError};

/// Fewest PEBs of a run on raw flash.
const LEAST_PEBS: u32 = 64;

/// An experiment that can run.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The resolved experiment.
    pub experiment: Experiment,
    /// What it is put to.
    pub subject: Subject,
    /// The load of a drive.
    load: Option<Load>,
    /// The part that the experiment names.
    part: Option<PartUse>,
}

/// Why a run found nothing.
#[derive(Debug, Error)]
pub enum Failed {
    /// On raw flash.
    #[error(transparent)]
    Wear(#[from] RunError),
    /// On a drive.
    #[error(transparent)]
    Ssd(#[from] SsdRunError),
}

impl Prepared {
    /// Reads an experiment and builds what it runs on, out of the parts that nandlab knows.
    /// Errors: the first key whose value is wrong.
    pub fn resolve(text: &str, sets: &[(String, String)]) -> Result<Prepared, ExperimentError> {
        Prepared::resolve_with(text, sets, Library::embedded())
    }

    /// As [`resolve`](Self::resolve), out of the parts of a library.
    /// Errors: as there.
    pub fn resolve_with(text: &str, sets: &[(String, String)], library: &Library) -> Result<Prepared, ExperimentError> {
        Prepared::new(Experiment::resolve_with(text, sets, library)?, library)
    }

    /// Builds what an experiment runs on.
    /// Errors: the first key whose value makes no device or no load.
    pub fn new(experiment: Experiment, library: &Library) -> Result<Prepared, ExperimentError> {
        let subject = Subject::build_with(&experiment, library)?;
        let load = match &subject {
            Subject::Drive(drive) => Some(Load::build(&experiment, drive)?),
            Subject::Flash(_) => None,
        };
        stops(&experiment)?;
        let part = PartUse::of(&experiment, library);
        Ok(Prepared { experiment, subject, load, part })
    }

    /// The shape of the flash, without OOB.
    pub fn geometry(&self) -> sim::seam::Geometry {
        match &self.subject {
            Subject::Flash(flash) => flash.array.geometry,
            Subject::Drive(drive) => drive.array.geometry,
        }
    }

    /// Runs. `arrivals` are the requests of the trace, where the load is one. `watch` is called periodically with the progress.
    /// Errors: why the run could not go on.
    pub fn run(&self, arrivals: Option<Arrivals<'_>>, watch: &mut dyn FnMut(Progress)) -> Result<Outcome, Failed> {
        let measured = match &self.subject {
            Subject::Flash(flash) => wear::run(&self.experiment, flash, watch)?,
            Subject::Drive(_) => self.on_drive().go(arrivals, watch)?,
        };
        Ok(Outcome::new(self.experiment.clone(), self.part.clone(), measured))
    }

    /// As [`run`](Self::run), on a store, which must be erased; it is returned with what the flash holds at the end.
    /// Errors: as there.
    pub fn run_on<S: Store>(
        &self,
        store: S,
        arrivals: Option<Arrivals<'_>>,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<(Outcome, S), Failed> {
        let (measured, store) = match &self.subject {
            Subject::Flash(flash) => wear::run_on(&self.experiment, flash, store, watch)?,
            Subject::Drive(_) => self.on_drive().go_on(store, arrivals, watch)?,
        };
        Ok((Outcome::new(self.experiment.clone(), self.part.clone(), measured), store))
    }

    fn on_drive(&self) -> ssd::Run<'_> {
        let (Subject::Drive(drive), Some(load)) = (&self.subject, &self.load) else {
            unreachable!("a drive is built with its load")
        };
        ssd::Run { experiment: &self.experiment, drive, load }
    }
}

/// Errors: a condition that the subject does not know; no condition where the load has no end.
fn stops(experiment: &Experiment) -> Result<(), ExperimentError> {
    let stop = &experiment.stop;
    if let Some(nand) = experiment.nand.as_ref().filter(|nand| nand.pebs < LEAST_PEBS) {
        return wrong("nand.pebs", nand.pebs, format!("at least {LEAST_PEBS}: the load needs room for a volume"));
    }
    let of_flash = [("stop.mean_erases_of_others", stop.mean_erases_of_others), ("stop.steps", stop.steps as f64)];
    let of_drive = [("stop.requests", stop.requests as f64), ("stop.drive_writes", stop.drive_writes)];
    let (own, others, what) = match experiment.ssd {
        Some(_) => (of_drive, of_flash, "a drive"),
        None => (of_flash, of_drive, "raw flash"),
    };
    if let Some((key, value)) = others.into_iter().find(|&(_, value)| value > 0.0) {
        let known = own.map(|(key, _)| key).join(", ");
        return wrong(key, value, format!("a condition of {what}: {known}, stop.virtual_s or stop.max_erases"));
    }
    let none = stop.virtual_s <= 0.0 && stop.max_erases == 0 && own.iter().all(|&(_, value)| value <= 0.0);
    if experiment.ssd.is_none() && none {
        let expected = "one of mean_erases_of_others, steps, virtual_s, max_erases: the load has no end";
        return wrong("stop", "no condition", expected);
    }
    Ok(())
}
