//! Runs a load on a block device.

use sim::seam::{BlockDevice, BlockRequest};
use sim::{Ns, Seed};
use workload::apps::LaunchLoad;
use workload::drive::{Observer, Report, run};
use workload::fio::{FioError, FioLoad};
use workload::iozone::IozoneLoad;
use workload::replay::{Arrival, ClosedReplay, DependencyReplay, OpenReplay, Speed};

use super::DriveRunError;
use super::guest::log::GuestLog;
use super::guest::{self, GuestError, Host};
use super::live::{self, Live};
use crate::measure::outcome::guest::GuestOutcome;
use crate::measure::outcome::phases::PhaseFigures;
use crate::schema::Experiment;
use crate::schema::load::TraceMode;
use crate::subject::block::BlockFacts;
use crate::subject::{Load, load};

/// The requests of a trace, in the order of their times.
pub type Arrivals<'a> = &'a mut dyn Iterator<Item = Arrival>;

/// What a load needs from outside.
pub enum Source<'a, 'b> {
    /// Nothing.
    None,
    /// The requests of a trace.
    Trace(Arrivals<'a>),
    /// A guest's kernel, its terminal and its image.
    Guest(&'a mut Host<'b>),
    /// What a guest asked for in another run.
    Log(&'a GuestLog),
    /// Clients in real time.
    Live(&'a mut Live<'b>),
}

impl<'b> Source<'_, 'b> {
    /// Whether it replays a guest's requests, which have no contents.
    pub(super) fn is_log(&self) -> bool {
        matches!(self, Source::Log(_))
    }

    /// Contents of the device at the start, if they come from outside.
    pub(super) fn image(&self) -> Option<&'b [u8]> {
        match self {
            Source::Guest(host) => host.image,
            Source::Live(live) => live.image,
            Source::None | Source::Trace(_) | Source::Log(_) => None,
        }
    }

    /// Whether what is written is kept outside the drive.
    pub(super) fn keeps_contents(&self) -> bool {
        matches!(self, Source::Guest(host) if host.backing.is_some())
    }
}

/// What came of a load.
pub struct Put<'a, S> {
    /// Totals and how it ended.
    pub report: Report<S>,
    /// Its phases, if it has any.
    pub phases: Vec<PhaseFigures>,
    /// The guest, if it was one.
    pub guest: Option<GuestOutcome>,
    /// Names of the guest's processes, or of the clients, that submitted requests, in the order of the observer's jobs.
    pub processes: Vec<String>,
    /// Who gets the contents of the device at the end.
    pub keep: Kept<'a>,
}

/// Who gets contents at the end of a run.
#[derive(Default)]
pub struct Kept<'a> {
    /// Those of the block device.
    pub contents: Option<guest::Keep<'a>>,
    /// Those of the raw flash below it, without OOB.
    pub flash: Option<guest::Keep<'a>>,
}

/// Runs the load of an experiment on a device. A trace without its requests issues none.
/// Errors: a job that does not fit the device; a guest that fails.
pub fn put<'a, D: BlockDevice, O: Observer>(
    experiment: &Experiment,
    facts: &BlockFacts,
    load: &Load,
    source: Source<'_, 'a>,
    device: &mut D,
    observer: &mut O,
) -> Result<Put<'a, O::Stop>, DriveRunError> {
    if let Source::Log(log) = source {
        let (report, guest) = log.replay(device, observer)?;
        return Ok(Put {
            report,
            phases: Vec::new(),
            guest: Some(guest),
            processes: Vec::new(),
            keep: Kept::default(),
        });
    }
    if let Load::Guest = load {
        let Source::Guest(host) = source else { return Err(GuestError::NoHost.into()) };
        let guest::PutByGuest { report, guest, processes } = guest::put(experiment, facts, host, device, observer)?;
        let keep = Kept { contents: host.keep.take(), flash: host.keep_flash.take() };
        return Ok(Put { report, phases: Vec::new(), guest: Some(guest), processes, keep });
    }
    if let Load::Live = load {
        let Source::Live(live) = source else { return Err(DriveRunError::Clients("there are none".to_owned())) };
        let report = live::put(facts, live, device, observer)?;
        let processes = live.clients.names();
        let keep = Kept { contents: live.keep.take(), flash: live.keep_flash.take() };
        return Ok(Put { report, phases: Vec::new(), guest: None, processes, keep });
    }
    let arrivals = if let Source::Trace(arrivals) = source { Some(arrivals) } else { None };
    let (report, phases) = generated(experiment, load, arrivals, device, observer)?;
    Ok(Put { report, phases, guest: None, processes: Vec::new(), keep: Kept::default() })
}

/// Runs a load that nandlab generates or replays.
fn generated<D: BlockDevice, O: Observer>(
    experiment: &Experiment,
    load: &Load,
    arrivals: Option<Arrivals<'_>>,
    device: &mut D,
    observer: &mut O,
) -> Result<(Report<O::Stop>, Vec<PhaseFigures>), FioError> {
    let limits = load::limits(experiment);
    let start = Ns::ZERO;
    let trace = match load {
        Load::Iozone(test) => {
            let mut load = IozoneLoad::new(test);
            let report = run(device, &mut load, start, limits, observer);
            let figures = load.phases().iter().map(|phase| PhaseFigures::of_iozone(phase, test.record_bytes()));
            return Ok((report, figures.collect()));
        }
        Load::Apps(installed) => {
            let mut load = LaunchLoad::new(installed);
            let report = run(device, &mut load, start, limits, observer);
            let figures = load.cycles().iter().enumerate().map(|(at, cycle)| PhaseFigures::of_cycle(at, cycle));
            return Ok((report, figures.collect()));
        }
        Load::Jobs(jobs) => {
            let mut load = FioLoad::new(jobs, device.sectors(), Seed(experiment.seed))?;
            return Ok((run(device, &mut load, start, limits, observer), Vec::new()));
        }
        Load::Trace(trace) => trace,
        Load::Guest | Load::Live => unreachable!("it comes from outside"),
    };
    let sectors = device.sectors();
    let arrivals = arrivals.into_iter().flatten();
    let arrivals = arrivals.map(|arrival| if trace.wrap { wrapped(arrival, sectors) } else { arrival });
    let speed = Speed::times(trace.speed).unwrap_or(Speed::RECORDED);
    let report = match trace.mode {
        TraceMode::Dependency => {
            run(device, &mut DependencyReplay::new(arrivals).speed(speed), start, limits, observer)
        }
        TraceMode::Closed => {
            let depth = trace.depth.min(device.queue_depth());
            run(device, &mut ClosedReplay::new(arrivals, depth), start, limits, observer)
        }
        TraceMode::Open => run(device, &mut OpenReplay::new(arrivals).speed(speed), start, limits, observer),
    };
    Ok((report, Vec::new()))
}

/// Wraps the address of a request around to the drive's start, and shortens a request that would end beyond the drive.
fn wrapped(arrival: Arrival, sectors: u64) -> Arrival {
    let BlockRequest { sector, sectors: count, .. } = arrival.request;
    let sector = sector % sectors.max(1);
    let count = u64::from(count).min(sectors - sector) as u32;
    Arrival { request: BlockRequest { sector, sectors: count, ..arrival.request }, ..arrival }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::seam::RamDisk;
    use workload::drive::Ended;

    fn replayed<D: BlockDevice>(wrap: bool, mut arrivals: impl Iterator<Item = Arrival>, device: &mut D) -> Report {
        let trace = format!("file = 'x'\nmode = 'closed'\ndepth = 1\nwrap = {wrap}\n");
        let experiment = Experiment::resolve(&format!("title = 't'\n[ssd]\n[trace]\n{trace}"), &[]).unwrap();
        let load = Load::Trace(experiment.trace.clone().unwrap());
        generated(&experiment, &load, Some(&mut arrivals), device, &mut ()).unwrap().0
    }

    fn arrivals(count: u64) -> Vec<Arrival> {
        (0..count).map(|i| (Ns(i * 1_000_000), BlockRequest::read(i * 8, 8), None).into()).collect()
    }

    #[test]
    fn addresses_beyond_the_drive_wrap_if_asked_and_end_the_run_if_not() {
        let run = |wrap| {
            let mut disk = RamDisk::new(12, 4, 1, Ns(10));
            let records = arrivals(3).into_iter();
            replayed(wrap, records, &mut disk)
        };
        assert_eq!(run(true).ended, Ended::Done);
        assert!(matches!(run(false).ended, Ended::Device { .. }));
    }
}
