//! A run, from an experiment to its result.
//!
//! [`Prepared::new`] builds and checks the subject and its load; [`Prepared::run`] runs them.

mod bench;
mod booked;
pub mod drive;
mod file_system;
pub mod flash;
pub mod guest;
pub mod live;
mod put;
mod thread;
mod ubi_log;
mod ubiblock;
mod volumes;
mod warm_up;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nand::AnyStore;
use thiserror::Error;
use workload::file::strace::Trace;

pub use drive::DriveRunError;
pub use flash::FlashRunError;
use guest::log::Body;
pub use guest::log::GuestLog;
pub use guest::{GuestError, Host};
pub use live::Live;
pub use put::{Arrivals, Source};
pub use ubi_log::{UbiDoes, UbiEvent, UbiLog};

use crate::measure::{Measured, Outcome};
use crate::parts::{Library, PartUse};
use crate::schema::flash::Nand;
use crate::schema::volumes::Volume;
use crate::schema::{Experiment, ExperimentError, wrong};
use crate::subject::{FileLoad, Load, Subject};

/// Fewest PEBs of a run on raw flash.
const LEAST_PEBS: u32 = 64;

/// An experiment with its subject and load built.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The resolved experiment.
    pub experiment: Experiment,
    /// The built subject.
    pub subject: Subject,
    /// The load, if the subject is a block device.
    load: Option<Load>,
    /// The part that the experiment names, if any.
    part: Option<PartUse>,
    /// Whether the outcome has a flame graph.
    flame: bool,
    /// Set while somebody wants a sample.
    wanted: Arc<AtomicBool>,
}

/// Progress of a run.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Progress towards the nearest condition, from 0 to 1.
    pub done: f64,
    /// Virtual time in nanoseconds.
    pub virtual_ns: u64,
    /// Work so far: erasures of raw flash, requests of a block device.
    pub work: u64,
    /// What was measured so far, if [`Prepared::wanted`] was set; without a fingerprint.
    pub so_far: Option<Box<Outcome>>,
}

/// Where reports of a run go.
struct Reports<'a> {
    /// Whether a sample is wanted.
    wanted: &'a AtomicBool,
    report: &'a mut dyn FnMut(Progress),
    of: &'a Prepared,
    /// Who gets the calls of UBI, if somebody does.
    ubi: Option<UbiLog<'a>>,
}

impl Reports<'_> {
    /// Whether the next report should have a sample.
    #[inline]
    fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Whether the outcome has a flame graph.
    fn wants_flame(&self) -> bool {
        self.of.flame
    }

    /// Reports progress, with a sample if there is one.
    fn report(&mut self, progress: Progress, measured: Option<Measured>) {
        let so_far = measured.map(|measured| {
            self.wanted.store(false, Ordering::Relaxed);
            Box::new(Outcome::so_far(self.of.experiment.clone(), self.of.part.clone(), measured))
        });
        (self.report)(Progress { so_far, ..progress });
    }
}

/// Why a run failed.
#[derive(Debug, Error)]
pub enum Failed {
    /// A run on raw flash failed.
    #[error(transparent)]
    Flash(#[from] FlashRunError),
    /// A run on a block device failed.
    #[error(transparent)]
    Drive(#[from] DriveRunError),
}

impl Prepared {
    /// Reads an experiment and builds its subject with the built-in parts.
    /// Errors: the first key with an impossible value.
    pub fn resolve(text: &str, sets: &[(String, String)]) -> Result<Prepared, ExperimentError> {
        Prepared::resolve_with(text, sets, Library::embedded())
    }

    /// As [`resolve`](Self::resolve), with the parts of a library.
    /// Errors: as [`resolve`](Self::resolve).
    pub fn resolve_with(text: &str, sets: &[(String, String)], library: &Library) -> Result<Prepared, ExperimentError> {
        Prepared::new(Experiment::resolve_with(text, sets, library)?, library)
    }

    /// Builds the subject and load of an experiment. Raw flash without a load has UBIFS under fsstress.
    /// Errors: the first key with an impossible value.
    pub fn new(experiment: Experiment, library: &Library) -> Result<Prepared, ExperimentError> {
        let experiment = experiment.with_load();
        let subject = Subject::build_with(&experiment, library)?;
        let load = subject.block().map(|facts| Load::build(&experiment, &facts)).transpose()?;
        stops(&experiment, &subject)?;
        let part = PartUse::of(&experiment, library);
        Ok(Prepared { experiment, subject, load, part, flame: false, wanted: Arc::default() })
    }

    /// Records where the virtual time goes, which slows the run a little. The outcome is the same but for
    /// [`Measured::flame`].
    pub fn with_flame(mut self) -> Prepared {
        self.flame = true;
        self
    }

    /// Gives the trace of strace that is the load.
    pub fn with_calls(mut self, calls: Arc<Trace>) -> Prepared {
        if let Subject::Flash(raw) = &mut self.subject
            && let Some(FileLoad::Strace(_, trace)) = raw.program_mut()
        {
            *trace = Some(calls);
        }
        self
    }

    /// A flag with which another thread asks for a sample: as long as it is set, the next report of progress has what was
    /// measured so far, and clears it. The outcome does not depend on it.
    pub fn wanted(&self) -> Arc<AtomicBool> {
        self.wanted.clone()
    }

    fn reports<'a>(&'a self, report: &'a mut dyn FnMut(Progress)) -> Reports<'a> {
        Reports { wanted: &self.wanted, report, of: self, ubi: None }
    }

    /// Geometry of the flash, without OOB.
    pub fn geometry(&self) -> sim::seam::Geometry {
        match &self.subject {
            Subject::Flash(flash) => flash.array.geometry,
            Subject::Drive(drive) => drive.array.geometry,
            Subject::Ubiblock(device) => device.flash.array.geometry,
        }
    }

    /// Runs the load. `arrivals` are the requests of the trace, if the load is one. `watch` is called periodically with
    /// the progress.
    /// Errors: why the run failed.
    pub fn run(&self, arrivals: Option<Arrivals<'_>>, watch: &mut dyn FnMut(Progress)) -> Result<Outcome, Failed> {
        let measured = match &self.subject {
            Subject::Flash(_) if self.experiment.guest.is_some() => {
                return Err(FlashRunError::from(GuestError::NoHost).into());
            }
            Subject::Flash(raw) => flash::run(&self.experiment, raw, self.reports(watch))?,
            _ => self.on_block(&self.experiment, self.load(), source(arrivals), self.reports(watch))?,
        };
        Ok(self.outcome(measured))
    }

    /// Runs the guest that is the load.
    /// Errors: why the run failed.
    pub fn run_guest(&self, mut host: Host<'_>, watch: &mut dyn FnMut(Progress)) -> Result<Outcome, Failed> {
        let measured = match &self.subject {
            Subject::Flash(raw) => {
                let (mut measured, found) = guest::run_flash(&self.experiment, raw, &mut host, self.reports(watch))?;
                measured.guest = Some(Box::new(found));
                measured
            }
            _ => self.on_block(&self.experiment, self.load(), Source::Guest(&mut host), self.reports(watch))?,
        };
        Ok(self.outcome(measured))
    }

    /// What the guest of the experiment would do, from a log: on a block device its requests are made again, each when
    /// those that it waited for are done; a run on raw flash has the stored result.
    /// Errors: a log that cannot be read, or is of another kind of device.
    pub fn replay_guest(&self, log: &GuestLog, watch: &mut dyn FnMut(Progress)) -> Result<Outcome, Failed> {
        match (&self.subject, &log.body) {
            (Subject::Drive(_) | Subject::Ubiblock(_), Body::Requests(_)) => {
                let measured = self.on_block(&self.experiment, self.load(), Source::Log(log), self.reports(watch))?;
                Ok(self.outcome(measured))
            }
            (Subject::Flash(_), Body::Result(found)) => Ok((**found).clone()),
            _ => Err(DriveRunError::Recording("the log is of another kind of device".to_owned()).into()),
        }
    }

    /// Lets clients use the block device, in place of the experiment's load and without its conditions to stop.
    /// Errors: the subject is raw flash; why the run failed.
    pub fn serve(&self, mut live: Live<'_>, watch: &mut dyn FnMut(Progress)) -> Result<Outcome, Failed> {
        if self.subject.block().is_none() {
            return Err(DriveRunError::Clients("found raw flash, expected a block device".to_owned()).into());
        }
        let experiment = Experiment {
            workload: None,
            flow: Vec::new(),
            trace: None,
            iozone: None,
            apps: None,
            guest: None,
            stop: Default::default(),
            ..self.experiment.clone()
        };
        let measured = self.on_block(&experiment, &Load::Live, Source::Live(&mut live), self.reports(watch))?;
        Ok(Outcome::new(experiment, self.part.clone(), measured))
    }

    fn outcome(&self, measured: Measured) -> Outcome {
        Outcome::new(self.experiment.clone(), self.part.clone(), measured)
    }

    /// As [`run`](Self::run), on a store with contents, which must be erased. Also returns the store with the contents at the
    /// end.
    /// Errors: as [`run`](Self::run).
    pub fn run_on<'s>(
        &self,
        store: AnyStore<'s>,
        arrivals: Option<Arrivals<'_>>,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<(Outcome, AnyStore<'s>), Failed> {
        let (measured, store) = match &self.subject {
            Subject::Flash(raw) => flash::run_on(&self.experiment, raw, store, self.reports(watch))?,
            Subject::Drive(drive) => {
                let run = drive::Run { experiment: &self.experiment, drive, load: self.load() };
                run.go_on(store, source(arrivals), self.reports(watch))?
            }
            Subject::Ubiblock(subject) => {
                let run = ubiblock::Run { experiment: &self.experiment, subject, load: self.load() };
                run.go_on(store, source(arrivals), self.reports(watch))?
            }
        };
        Ok((self.outcome(measured), store))
    }

    /// As [`run`](Self::run), or on a store as [`run_on`](Self::run_on), of a load on nandlab's UBI, whose calls and erasures `ubi`
    /// gets.
    /// Errors: as [`run`](Self::run).
    pub fn run_logged<'s>(
        &self,
        store: Option<AnyStore<'s>>,
        ubi: UbiLog<'_>,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<(Outcome, Option<AnyStore<'s>>), Failed> {
        let Subject::Flash(raw) = &self.subject else {
            return Err(DriveRunError::Recording("found a block device, expected raw flash".to_owned()).into());
        };
        let reports = Reports { ubi: Some(ubi), ..self.reports(watch) };
        let (measured, store) = match store {
            Some(store) => {
                let (measured, store) = flash::run_on(&self.experiment, raw, store, reports)?;
                (measured, Some(store))
            }
            None => (flash::run(&self.experiment, raw, reports)?, None),
        };
        Ok((self.outcome(measured), store))
    }

    fn load(&self) -> &Load {
        self.load.as_ref().unwrap_or_else(|| unreachable!("a block device is built with its load"))
    }

    fn on_block(
        &self,
        experiment: &Experiment,
        load: &Load,
        source: Source<'_, '_>,
        reports: Reports<'_>,
    ) -> Result<Measured, DriveRunError> {
        match &self.subject {
            Subject::Drive(drive) => drive::Run { experiment, drive, load }.go(source, reports),
            Subject::Ubiblock(subject) => ubiblock::Run { experiment, subject, load }.go(source, reports),
            Subject::Flash(_) => unreachable!("raw flash is no block device"),
        }
    }
}

fn source(arrivals: Option<Arrivals<'_>>) -> Source<'_, '_> {
    arrivals.map_or(Source::None, Source::Trace)
}

/// Checks the stop conditions. Errors: one that the subject does not have; none although the load is endless.
fn stops(experiment: &Experiment, subject: &Subject) -> Result<(), ExperimentError> {
    let stop = &experiment.stop;
    let may_end = matches!(subject, Subject::Flash(raw) if raw.may_end());
    let needs_room = experiment.guest.is_none() && experiment.ubiblock.is_none() && experiment.fs.is_none();
    let too_small = |nand: &&Nand| nand.pebs < LEAST_PEBS && needs_room;
    if let Some(nand) = experiment.nand.as_ref().filter(too_small) {
        return wrong("nand.pebs", nand.pebs, format!("at least {LEAST_PEBS}: the load needs room for a volume"));
    }
    let mut of_flash = vec![
        ("stop.mean_erases_of_others", stop.mean_erases_of_others),
        ("stop.days", stop.days.unwrap_or(0.0)),
        ("stop.years", stop.years.unwrap_or(0.0)),
        ("stop.host_bytes", stop.host_bytes.unwrap_or(0) as f64),
    ];
    let mut others = vec![("stop.requests", stop.requests as f64), ("stop.drive_writes", stop.drive_writes)];
    let steps = ("stop.steps", stop.steps as f64);
    if experiment.volumes().is_some() {
        others.push(steps)
    } else {
        of_flash.push(steps)
    }
    if experiment.ubiblock.is_some() {
        let in_time = |(key, _): &(&str, f64)| ["stop.days", "stop.years"].contains(key);
        others.extend(of_flash.iter().copied().filter(in_time));
        of_flash.retain(|condition| !in_time(condition));
    }
    let (own, others, what) = match experiment.has_block_device() {
        true if experiment.ubiblock.is_some() => (others, of_flash, "a ubiblock"),
        true => (others, of_flash, "a drive"),
        false if experiment.volumes().is_some() => (of_flash, others, "volumes"),
        false => (of_flash, others, "raw flash"),
    };
    if let Some((key, value)) = others.into_iter().find(|&(_, value)| value > 0.0) {
        let known = own.iter().map(|(key, _)| *key).collect::<Vec<_>>().join(", ");
        return wrong(key, value, format!("a condition of {what}: {known}, stop.virtual_s or stop.max_erases"));
    }
    if experiment.record.pattern && !experiment.has_block_device() {
        return wrong("record.pattern", true, "false: it is the pattern of a block device's writes");
    }
    // A guest's job has an end of its own, and so have programs that are not told to go on.
    if experiment.guest.is_some() || may_end {
        return Ok(());
    }
    let none = stop.virtual_s <= 0.0 && stop.max_erases == 0 && own.iter().all(|&(_, value)| value <= 0.0);
    if !experiment.has_block_device() && none {
        let keys: Vec<_> = own.iter().map(|(key, _)| key.trim_start_matches("stop.")).collect();
        let expected = format!("one of {}, virtual_s, max_erases: the load has no end", keys.join(", "));
        return wrong("stop", "no condition", expected);
    }
    let is_static = |volume: &Volume| matches!(volume, Volume::Static(_));
    if experiment.volumes().is_some_and(|load| load.volume.values().all(is_static)) && stop.first_time().is_none() {
        return wrong("stop", "no condition in time", "one of days, years, virtual_s: no volume is ever written");
    }
    Ok(())
}
