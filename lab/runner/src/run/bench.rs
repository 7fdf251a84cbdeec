//! A load on a block device that is measured: what runs on a drive and on a ubiblock have in common.

use nand::FaultCounts;
use sim::Ns;
use sim::seam::{BlockError, BlockOp};
use workload::drive::{Ended, JobTotals, Report};

use super::put::{self, Source};
use super::{DriveRunError, Progress, Reports, guest};
use crate::measure::books::Books;
use crate::measure::meter::{
    COMPONENTS, Closed, FlowMeter, LastDone, Meter, MeteredDrive, Meters, OpMeter, StopAt, StopReason, Watch, Window,
};
use crate::measure::metered::{Metered, Parts, part_name};
use crate::measure::outcome::drive::{
    Before, Debt, DriveOutcome, EndOfLife, FlowFigures, OpFigures, PatternFigures, Status, WearFigures,
    write_amplification,
};
use crate::measure::outcome::faults::FaultFigures;
use crate::measure::outcome::phases::PhaseFigures;
use crate::measure::{self, Detail, Measured, cdf};
use crate::schema::Experiment;
use crate::subject::Load;
use crate::subject::block::{BlockFacts, BlockKind};

/// What a load is run with.
#[derive(Clone, Copy)]
pub(super) struct Bench<'a> {
    /// The resolved experiment.
    pub experiment: &'a Experiment,
    /// What the host knows of the device.
    pub facts: &'a BlockFacts,
    /// The built load.
    pub load: &'a Load,
    /// What was done to the device before.
    pub before: &'a Before,
}

/// A device after its run.
pub(super) struct Ran<'b, D> {
    /// The measurements.
    pub measured: Measured,
    /// The device; it is idle, unless it is worn out.
    pub device: D,
    /// Who gets its contents.
    pub keep: put::Kept<'b>,
}

impl Bench<'_> {
    /// Runs the load on a device. `sysfs` are the files of sysfs that the device has.
    /// Errors: [`DriveRunError`].
    pub fn run<'b, D: Metered>(
        &self,
        mut device: D,
        source: Source<'_, 'b>,
        mut reports: Reports<'_>,
        sysfs: impl FnOnce(&D) -> Vec<(String, String)>,
    ) -> Result<Ran<'b, D>, DriveRunError> {
        let &Bench { experiment, facts, load, before } = self;
        let flows: Vec<String> = load.flows().into_iter().map(str::to_owned).collect();
        let faults = device.fault_counts();
        let last = LastDone::default();
        let by_process = load.is_from_outside() && !source.is_log();
        let mut meter = Meter::new(&last, if by_process { guest::PROCESSES } else { flows.len() });
        let stop = stop_at(experiment, load, facts.bytes);
        // What is known so far of a guest's processes, or of clients, has no names yet.
        let known = if by_process { &[][..] } else { &flows[..] };
        let wanted = reports.wanted;
        let wants_flame = reports.wants_flame();
        if wants_flame {
            device.record();
        }
        let mut report = |progress: Progress, so_far: Option<(Window, Box<Meters>)>| {
            let so_far = so_far.map(|(window, meters)| {
                let span = window.elapsed - window.opened;
                let found =
                    found::<D::Parts>(facts, before, &window, (&meters, known, by_process), (progress.work, span));
                measured(facts.kind, found, window.elapsed, &window.books, String::new(), None)
            });
            reports.report(progress, so_far);
        };
        let watch = Watch { wanted, report: &mut report };
        let mut metered = MeteredDrive::new(device, &last, &experiment.record, stop, load.has_ramp(), watch);
        let put::Put { report, phases, guest, processes, keep } =
            put::put(experiment, facts, load, source, &mut metered, &mut meter)?;
        let flows = if by_process { &processes } else { &flows };
        let flame = wants_flame.then(|| Box::new(metered.graph(&meter.meters)));
        let (mut measured, device) =
            conclude(self, faults, metered, (&meter.meters, flows, by_process), (&report, phases), sysfs)?;
        measured.flame = flame;
        measured.guest = guest.map(Box::new);
        Ok(Ran { measured, device, keep })
    }
}

fn stop_at(experiment: &Experiment, load: &Load, logical_bytes: u64) -> StopAt {
    let stop = &experiment.stop;
    let job = experiment.fio_job();
    let least = |values: [f64; 2]| values.into_iter().filter(|&value| value > 0.0).fold(f64::INFINITY, f64::min);
    let seconds = least([stop.first_time().map_or(0.0, |(seconds, _)| seconds), job.seconds]);
    let all = load.requests().unwrap_or(job.requests);
    let requests = least([stop.requests as f64, all as f64]);
    StopAt {
        written: if stop.drive_writes > 0.0 { (stop.drive_writes * logical_bytes as f64) as u64 } else { u64::MAX },
        max_erases: stop.max_erases,
        until: if seconds.is_finite() { (seconds * 1e9) as u64 } else { u64::MAX },
        requests: if requests.is_finite() { requests as u64 } else { u64::MAX },
    }
}

/// Latencies, names of the flows, and whether those are processes of a guest, or clients.
type OfLoad<'a> = (&'a Meters, &'a [String], bool);

/// What a window of measurement shows of a device. `requests` were issued, and measured for `span`.
fn found<P: Parts>(
    facts: &BlockFacts,
    before: &Before,
    window: &Window,
    (meters, names, by_process): OfLoad<'_>,
    (requests, span): (u64, Ns),
) -> DriveOutcome {
    DriveOutcome {
        status: Status::Done,
        end_of_life: None,
        remarks: Vec::new(),
        logical_bytes: facts.bytes,
        raw_bytes: facts.raw_bytes,
        page_bytes: facts.page_bytes,
        block_bytes: facts.block_bytes,
        before: before.clone(),
        measured_ns: span.0,
        requests,
        max_waiting: 0,
        disordered: 0,
        ops: BlockOp::ALL.iter().zip(&meters.ops).filter_map(|(op, meter)| figures::<P>(*op, meter, span)).collect(),
        flows: flows::<P>(names, meters, &window.moved, facts, span, by_process),
        phases: Vec::new(),
        write_amplification: write_amplification(window.books.programmed(), window.host_bytes),
        debt: Debt::default(),
        wear: WearFigures::of(window.books.erases()),
        utilisation: window.books.utilisation(),
        pattern: None,
        sysfs: Default::default(),
        timeline: window.timeline.clone(),
    }
}

/// The measurements of a run of `elapsed` with these books.
fn measured(
    kind: BlockKind,
    found: DriveOutcome,
    elapsed: Ns,
    books: &Books,
    stopped_by: String,
    faults: Option<FaultFigures>,
) -> Measured {
    let mut metrics = measure::of_drive(&found, elapsed.0, books.metrics());
    faults.iter().for_each(|faults| faults.put(&mut metrics));
    Measured {
        stopped_by,
        virtual_ns: elapsed.0,
        metrics,
        faults,
        erase_counts: books.erases().to_vec(),
        guest: None,
        flame: None,
        detail: match kind {
            BlockKind::Drive => Detail::Drive(Box::new(found)),
            BlockKind::Ubiblock => Detail::Ubiblock(Box::new(found)),
        },
    }
}

/// The measurements of a run that ended with a report, and the device.
fn conclude<D: Metered>(
    bench: &Bench<'_>,
    faults: FaultCounts,
    metered: MeteredDrive<'_, D>,
    of_load @ (meters, ..): OfLoad<'_>,
    (report, phases): (&Report<StopReason>, Vec<PhaseFigures>),
    sysfs: impl FnOnce(&D) -> Vec<(String, String)>,
) -> Result<(Measured, D), DriveRunError> {
    let &Bench { experiment, facts, before, .. } = bench;
    let (status, stopped_by, end_of_life) = match &report.ended {
        Ended::Stopped { why, .. } => (Status::Done, why.key().to_owned(), None),
        Ended::Done => (Status::Done, "workload".to_owned(), None),
        Ended::Limit => {
            let by_time = experiment.stop.requests == 0 || report.issued < experiment.stop.requests;
            let time = experiment.stop.first_time().map_or("virtual_s", |(_, key)| key);
            (Status::Done, if by_time { time } else { "requests" }.to_owned(), None)
        }
        Ended::Device { at, error: BlockError::WornOut { why }, .. } => {
            let end = EndOfLife { at_ns: at.0, why: (*why).to_owned(), host_bytes: metered.written() };
            (Status::WornOut, "worn_out".to_owned(), Some(end))
        }
        Ended::Device { at, request, error, .. } => return Err(DriveRunError::device(*at, request, error.clone())),
        &Ended::Stalled { at, outstanding } => return Err(DriveRunError::Stalled { at_ns: at.0, outstanding }),
        Ended::Recording(why) => return Err(DriveRunError::Recording(why.clone())),
    };
    let Closed { mut device, window, pattern } = metered.close();
    let sysfs = sysfs(&device);
    let faults = experiment.faults.as_ref().map(|_| {
        let counts = device.fault_counts().since(&faults);
        let lost = window.books.counter("flash.lost") + meters.ops[0].errors;
        FaultFigures::new(counts, window.books.counter("ubi.scrubs"), window.books.counter("bad.blocks"), lost)
    });
    let debt = if status == Status::Done { device.until_idle() } else { Debt::default() };
    let elapsed = window.elapsed;
    let span = span(report, elapsed);
    let found = DriveOutcome {
        status,
        end_of_life,
        remarks: bench.load.remarks(),
        max_waiting: report.max_waiting as u64,
        disordered: report.disordered,
        phases,
        debt,
        pattern: pattern.and_then(|pattern| {
            let (_, seen) = pattern.devices().next()?;
            Some(PatternFigures {
                segmented_sequentiality: seen.segments.seg_seq(),
                segmented_continuity: seen.segments.seg_cont(),
                not_looked_at: seen.segments.not_looked_at(),
            })
        }),
        sysfs,
        ..found::<D::Parts>(facts, before, &window, of_load, (report.issued, span))
    };
    Ok((measured(facts.kind, found, elapsed, &window.books, stopped_by, faults), device))
}

/// Figures of each flow. `moved` has the pages moved: those written before the run, then those of each flow. Processes
/// of a guest, and clients, are flows that share the queues; those whose requests do not count are left out.
fn flows<P: Parts>(
    names: &[String],
    meters: &Meters,
    moved: &[u64],
    facts: &BlockFacts,
    measured: Ns,
    by_process: bool,
) -> Vec<FlowFigures> {
    let queues = if by_process { 1 } else { facts.queues };
    let all: u64 = moved.iter().sum();
    let page_bytes = facts.page_bytes as f64;
    let one = |(at, (name, ops)): (usize, (&String, &FlowMeter))| {
        let pages_moved = moved.get(at + 1).copied().unwrap_or(0);
        let written = ops[BlockOp::Write as usize].as_ref().map_or(0, |op| op.bytes) as f64;
        let ops = BlockOp::ALL.iter().zip(ops).filter_map(|(op, meter)| figures::<P>(*op, meter.as_deref()?, measured));
        FlowFigures {
            name: name.clone(),
            queue: at % queues,
            ops: ops.collect(),
            pages_moved,
            moved_share: (all > 0).then(|| pages_moved as f64 / all as f64),
            write_amplification: (written > 0.0 && facts.kind == BlockKind::Drive)
                .then(|| 1.0 + pages_moved as f64 * page_bytes / written),
        }
    };
    let figures = names.iter().zip(&meters.flows).enumerate().map(one);
    figures.filter(|flow| !by_process || !flow.ops.is_empty() || flow.pages_moved > 0).collect()
}

/// Time from the first job's measured start to the last job's end.
fn span(report: &Report<StopReason>, elapsed: Ns) -> Ns {
    let from = report.jobs.iter().map(|job: &JobTotals| job.from.0).min().unwrap_or(0);
    let to = report.jobs.iter().map(|job| job.to.0).max().unwrap_or(elapsed.0);
    Ns(to.saturating_sub(from))
}

fn figures<P: Parts>(op: BlockOp, meter: &OpMeter, measured: Ns) -> Option<OpFigures> {
    let count = meter.latency.len();
    if count == 0 {
        return None;
    }
    let seconds = measured.as_s();
    let rate = |amount: f64| if seconds > 0.0 { amount / seconds } else { 0.0 };
    let at = |quantile: f64| meter.latency.value_at_quantile(quantile);
    let mean = |sum: u128| sum as f64 / count as f64;
    Some(OpFigures {
        op: op.name().to_owned(),
        count,
        bytes: meter.bytes,
        errors: meter.errors,
        iops: rate(count as f64),
        mb_s: rate(meter.bytes as f64 / 1e6),
        mean_bytes: meter.bytes as f64 / count as f64,
        min_ns: meter.latency.min(),
        mean_ns: mean(meter.total_ns),
        stddev_ns: meter.latency.stdev(),
        p50_ns: at(0.5),
        p90_ns: at(0.9),
        p99_ns: at(0.99),
        p999_ns: at(0.999),
        p9999_ns: at(0.9999),
        p99999_ns: at(0.99999),
        max_ns: meter.latency.max(),
        time: (0..COMPONENTS)
            .filter(|&component| meter.components_ns[component] > 0)
            .map(|component| (part_name::<P>(component).to_owned(), mean(meter.components_ns[component])))
            .collect(),
        cdf: cdf(&meter.latency),
    })
}
