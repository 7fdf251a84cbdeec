//! Puts a load on a block device.

use sim::seam::{BlockDevice, BlockError, BlockOp, BlockRequest, Payload};
use sim::{Ns, Seed};
use workload::drive::{
    Arrival, DependencyTrue, Ended, JobTotals, Limits, Observer, OpenLoop, Report, Span, Speed, closed_loop,
    dependency_true, iozone, launches, open_loop,
};
use workload::fio::FioError;

use super::phases::PhaseFigures;
use crate::schema::Experiment;
use crate::schema::load::TraceMode;
use crate::subject::{Load, load};

/// The requests of a trace, in the order of their times.
pub type Arrivals<'a> = &'a mut dyn Iterator<Item = Arrival>;

/// Puts the load of an experiment on a device. A trace without its requests asks nothing.
/// Errors: a job that does not fit the device.
pub fn put<D: BlockDevice, O: Observer>(
    experiment: &Experiment,
    load: &Load,
    arrivals: Option<Arrivals<'_>>,
    device: &mut D,
    observer: &mut O,
) -> Result<(Report, Vec<PhaseFigures>), FioError> {
    let limits = load::limits(experiment);
    let trace = match load {
        Load::Iozone(test) => {
            let (report, phases) = iozone(device, test, Ns::ZERO, limits, observer);
            return Ok((
                report,
                phases.iter().map(|phase| PhaseFigures::of_iozone(phase, test.record_bytes())).collect(),
            ));
        }
        Load::Apps(installed) => {
            let (report, cycles) = launches(device, installed, Ns::ZERO, limits, observer);
            let figures = cycles.iter().enumerate().map(|(at, cycle)| PhaseFigures::of_cycle(at, cycle)).collect();
            return Ok((report, figures));
        }
        Load::Jobs(jobs) => {
            let report = closed_loop(device, jobs, Seed(experiment.seed), Ns::ZERO, limits, observer)?;
            return Ok((report, Vec::new()));
        }
        Load::Trace(trace) => trace,
    };
    let sectors = device.sectors();
    let arrivals = arrivals.into_iter().flatten();
    let arrivals = arrivals.map(|arrival| if trace.wrap { wrapped(arrival, sectors) } else { arrival });
    let speed = Speed::times(trace.speed).unwrap_or(Speed::RECORDED);
    let report = match trace.mode {
        TraceMode::Dependency => {
            dependency_true(device, arrivals, DependencyTrue { speed, limits, ..DependencyTrue::PLAIN }, observer)
        }
        TraceMode::Closed => closed_replay(device, arrivals, trace.depth, limits, observer),
        TraceMode::Open => open_loop(device, arrivals, OpenLoop { speed, limits, ..OpenLoop::PLAIN }, observer),
    };
    Ok((report, Vec::new()))
}

/// A request that begins within the drive, shortened if it would leave it.
fn wrapped(arrival: Arrival, sectors: u64) -> Arrival {
    let BlockRequest { sector, sectors: count, .. } = arrival.request;
    let sector = sector % sectors.max(1);
    let count = u64::from(count).min(sectors - sector) as u32;
    Arrival { request: BlockRequest { sector, sectors: count, ..arrival.request }, ..arrival }
}

/// Replays the requests alone: as many outstanding as `depth` and the drive allow, whatever their times.
fn closed_replay<D: BlockDevice, O: Observer>(
    device: &mut D,
    mut arrivals: impl Iterator<Item = Arrival>,
    depth: u32,
    limits: Limits,
    observer: &mut O,
) -> Report {
    let depth = depth.min(device.queue_depth());
    let mut report = Report {
        jobs: vec![JobTotals { from: Ns::ZERO, ..JobTotals::default() }],
        from: Ns::ZERO,
        to: Ns::ZERO,
        issued: 0,
        max_waiting: 0,
        disordered: 0,
        ended: Ended::Done,
    };
    let mut under_way = vec![(BlockRequest::flush(), Ns::ZERO); depth as usize];
    let mut free: Vec<u32> = (0..depth).rev().collect();
    let mut now = Ns::ZERO;
    let refused = |at, request, error| Ended::Device { at, job: 0, request, error };
    loop {
        while let Some(&tag) = free.last() {
            if now >= limits.until || report.issued >= limits.requests {
                report.ended = Ended::Limit;
                break;
            }
            let Some(Arrival { request, .. }) = arrivals.next() else { break };
            let bytes = if request.op == BlockOp::Write { request.bytes() } else { 0 };
            let data = Payload::Length(u32::try_from(bytes).unwrap_or(u32::MAX));
            if let Err(error) = device.submit(now, tag, request, data) {
                report.ended = refused(now, request, error);
                return report;
            }
            free.pop();
            report.issued += 1;
            under_way[tag as usize] = (request, now);
        }
        let Some(done) = device.next_done(Ns(u64::MAX)) else {
            if free.len() < depth as usize {
                report.ended = Ended::Stalled { at: now, outstanding: depth as usize - free.len() };
            }
            return report;
        };
        now = done.at;
        let (request, issued) = under_way[done.tag as usize];
        (report.to, report.jobs[0].to) = (now, now);
        free.push(done.tag);
        if let Err(error) = done.result {
            observer.on_error(0, &request, &error);
            if !matches!(error, BlockError::Uncorrectable { .. }) {
                report.ended = refused(now, request, error);
                return report;
            }
        }
        observer.on_done(0, &request, Span { issued, submitted: issued, done: now }, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::seam::RamDisk;

    fn replayed<D: BlockDevice>(
        depth: u32,
        wrap: bool,
        mut arrivals: impl Iterator<Item = Arrival>,
        device: &mut D,
        observer: &mut impl Observer,
    ) -> Report {
        let trace = format!("file = 'x'\nmode = 'closed'\ndepth = {depth}\nwrap = {wrap}\n");
        let experiment = Experiment::resolve(&format!("title = 't'\n[ssd]\n[trace]\n{trace}"), &[]).unwrap();
        let load = Load::Trace(experiment.trace.clone().unwrap());
        put(&experiment, &load, Some(&mut arrivals), device, observer).unwrap().0
    }

    fn arrivals(count: u64) -> Vec<Arrival> {
        (0..count).map(|i| (Ns(i * 1_000_000), BlockRequest::read(i * 8, 8), None).into()).collect()
    }

    #[test]
    fn a_closed_replay_keeps_its_depth_whatever_the_times() {
        let mut disk = RamDisk::new(1 << 10, 32, 4, Ns(10));
        let mut ends = Vec::new();
        let mut observer = |_: usize, _: &BlockRequest, span: Span, _: bool| ends.push(span.done.0);
        let records = arrivals(6).into_iter();
        let report = replayed(2, false, records, &mut disk, &mut observer);
        assert_eq!((report.ended, report.issued), (Ended::Done, 6));
        assert_eq!(ends, [10, 10, 20, 20, 30, 30], "two of the four servers work");
    }

    #[test]
    fn addresses_beyond_the_drive_wrap_if_asked_and_end_the_run_if_not() {
        let run = |wrap| {
            let mut disk = RamDisk::new(12, 4, 1, Ns(10));
            let records = arrivals(3).into_iter();
            replayed(1, wrap, records, &mut disk, &mut ())
        };
        assert_eq!(run(true).ended, Ended::Done);
        assert!(matches!(run(false).ended, Ended::Device { .. }));
    }

    /// A disk that stops answering.
    struct Mute(RamDisk, u32);

    impl BlockDevice for Mute {
        const KEEPS_BYTES: bool = false;
        fn sectors(&self) -> u64 {
            self.0.sectors()
        }
        fn queue_depth(&self) -> u32 {
            self.0.queue_depth()
        }
        fn submit(&mut self, at: Ns, tag: u32, request: BlockRequest, data: Payload<'_>) -> Result<(), BlockError> {
            self.0.submit(at, tag, request, data)
        }
        fn next_done(&mut self, until: Ns) -> Option<sim::seam::BlockDone> {
            self.1 = self.1.checked_sub(1)?;
            self.0.next_done(until)
        }
        fn take(&mut self, tag: u32, buf: &mut [u8]) {
            self.0.take(tag, buf);
        }
    }

    #[test]
    fn a_closed_replay_on_a_device_that_stands_still_says_so() {
        let mut disk = Mute(RamDisk::new(1 << 10, 32, 4, Ns(10)), 3);
        let report = replayed(2, false, arrivals(6).into_iter(), &mut disk, &mut ());
        assert_eq!(report.ended, Ended::Stalled { at: Ns(20), outstanding: 2 });
    }
}
