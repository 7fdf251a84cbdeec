//! A run on a drive: preconditions the drive without taking virtual time, then runs the load.
//!
//! The code is compiled for each translation layer. On a store without bytes, the cells of a preconditioned drive stay
//! erased: nothing reads them back, and pages may be skipped. With bytes, every page that holds data is programmed with
//! zeroes, so that flash and layers agree. Wear of the cells begins with the run: preconditioning does not wear them.

use nand::{Array, Blank, Bytes, FaultCounts, Store, Tags};
use sim::seam::{BlockDevice, BlockError, BlockOp, BlockRequest, Flash};
use sim::{Cause, Ns, Rng, Seed};
use ssd::device::Protocol;
use ssd::ftl::bast::Bast;
use ssd::ftl::block::BlockFtl;
use ssd::ftl::fast::Fast;
use ssd::ftl::page::{ConfigError, PageFtl};
use ssd::ftl::{NONE, UnitFtl};
use ssd::host::Hpb;
use ssd::untimed::UnitFull;
use ssd::{Cells, Dispatcher, Shape, ShapeError, Ssd, Striping, Untimed};
use thiserror::Error;
use workload::drive::{Ended, JobTotals, Report};
use workload::fio::FioError;

use super::guest::{self, GuestError};
use super::put::{self, Source};
use super::{Progress, Reports, warm_up};
use crate::measure::books::{Books, Layer};
use crate::measure::meter::{
    COMPONENTS, Closed, FlowMeter, LastDone, Meter, MeteredDrive, Meters, OpMeter, StopAt, StopReason, Watch, Window,
    component_name,
};
use crate::measure::outcome::drive::{
    Before, Debt, DriveOutcome, EndOfLife, FlowFigures, OpFigures, PatternFigures, Status, WearFigures,
    write_amplification,
};
use crate::measure::outcome::faults::FaultFigures;
use crate::measure::outcome::phases::PhaseFigures;
use crate::measure::{self, Detail, Measured, cdf};
use crate::schema::Experiment;
use crate::schema::drive::Contents;
use crate::schema::load::{Precondition, PreconditionKind, TraceMode};
use crate::subject::{self, Drive, Load, faults, ufs};

/// Why a run failed.
#[derive(Debug, Error)]
pub enum DriveRunError {
    /// A layer refuses its configuration.
    #[error("translation layer: {0}")]
    Layer(#[from] ConfigError),
    /// The write buffer refuses its size.
    #[error("write buffer: {0}")]
    Buffer(#[from] ShapeError),
    /// The load is empty, or does not fit the drive.
    #[error("load: {0}")]
    Load(#[from] FioError),
    /// The drive has no room for preconditioning.
    #[error("preconditioning: {0}")]
    NoRoom(#[from] UnitFull),
    /// A recording cannot be replayed.
    #[error("trace: {0}")]
    Recording(String),
    /// The run with a guest fails.
    #[error(transparent)]
    Guest(#[from] GuestError),
    /// Those who serve the drive to clients cannot go on.
    #[error("clients: {0}")]
    Clients(String),
    /// The drive stalled with requests outstanding.
    #[error("at {at_ns} ns the drive stalled: it is idle, and {outstanding} requests are outstanding")]
    Stalled {
        /// Time of the last completion.
        at_ns: u64,
        /// Requests in the device or waiting in the host.
        outstanding: usize,
    },
    /// The drive refused or lost a request.
    #[error("at {at_ns} ns, {op} of sectors {first} to {end}: {error}")]
    Device {
        /// Time of the error, in nanoseconds.
        at_ns: u64,
        /// Operation of the request.
        op: &'static str,
        /// First sector of the request.
        first: u64,
        /// One past its last sector.
        end: u64,
        /// Error of the drive.
        error: BlockError,
    },
}

impl DriveRunError {
    /// The error of a request at a time.
    pub(super) fn device(at: Ns, request: &BlockRequest, error: BlockError) -> DriveRunError {
        DriveRunError::Device { at_ns: at.0, op: request.op.name(), first: request.sector, end: request.end(), error }
    }

    /// Whether the drive failed, and not the experiment.
    pub fn is_the_drives(&self) -> bool {
        matches!(self, DriveRunError::NoRoom(_) | DriveRunError::Stalled { .. })
    }
}

/// A run of a load on a drive.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    /// The resolved experiment.
    pub experiment: &'a Experiment,
    /// The built drive.
    pub drive: &'a Drive,
    /// The built load.
    pub load: &'a Load,
}

impl Run<'_> {
    /// Runs the load. `source` is what a load needs from outside. `reports` gets the progress
    /// from time to time.
    /// Errors: [`DriveRunError`]. A drive that wears out is no error but an outcome.
    pub(super) fn go(&self, source: Source<'_, '_>, reports: Reports<'_>) -> Result<Measured, DriveRunError> {
        match self.drive.section.store {
            _ if self.load.is_from_outside() && !source.is_log() => {
                self.go_on(Bytes::new(), source, reports).map(|(measured, _)| measured)
            }
            Contents::Bytes => self.go_on(Bytes::new(), source, reports).map(|(measured, _)| measured),
            // Faults of reads need pages that are read; what they hold is of no account.
            Contents::Tags if faults::reach_reads(&self.drive.array) => {
                self.go_on(Blank, source, reports).map(|(measured, _)| measured)
            }
            Contents::Tags => self.go_on(Tags, source, reports).map(|(measured, _)| measured),
        }
    }

    /// As [`go`](Self::go), on a store, which must be erased; also returns the store with the contents at the end. The
    /// outcome does not depend on it.
    /// Errors: as [`go`](Self::go).
    pub(super) fn go_on<S: Store>(
        &self,
        store: S,
        source: Source<'_, '_>,
        reports: Reports<'_>,
    ) -> Result<(Measured, S), DriveRunError> {
        let units = 0..self.drive.shape.units();
        match &self.drive.layer {
            subject::Layer::Bast(config) => {
                let units = units.map(|_| Bast::new(config.clone())).collect::<Result<_, _>>()?;
                self.units::<S, Bast>(store, units, source, reports)
            }
            subject::Layer::Fast(config) => {
                let units = units.map(|_| Fast::new(config.clone())).collect::<Result<_, _>>()?;
                self.units::<S, Fast>(store, units, source, reports)
            }
            subject::Layer::Block(config) => {
                let units = units.map(|_| BlockFtl::new(config.clone())).collect::<Result<_, _>>()?;
                self.units::<S, BlockFtl>(store, units, source, reports)
            }
            subject::Layer::Page(config) => {
                let seed = Seed(self.experiment.seed);
                let unit = |unit| PageFtl::new(config.clone(), seed.stream(&format!("ssd/unit/{unit}")));
                let units = units.map(unit).collect::<Result<_, _>>()?;
                self.units::<S, PageFtl>(store, units, source, reports)
            }
        }
    }

    fn units<S: Store, M: Layer>(
        &self,
        store: S,
        units: Vec<M>,
        source: Source<'_, '_>,
        mut reports: Reports<'_>,
    ) -> Result<(Measured, S), DriveRunError> {
        let &Run { experiment, drive, load } = self;
        let shape = &drive.shape;
        load.fits(drive, Seed(experiment.seed))?;
        let mut untimed = Untimed::new(Striping::new(shape), units, drive.pages() + drive.map_pages());
        let mut before = precondition(experiment, drive, &mut untimed)?;
        let image = source.image();
        if let Some(image) = image {
            guest::check_image(experiment, drive, image)?;
            untimed.write_all(guest::pages_of(image, shape.page_bytes))?;
        }
        let units = untimed.into_units();
        let mut cells = Cells::new(shape, Array::new(drive.array.clone(), store));
        if S::KEEPS_BYTES {
            // Preconditioning has gone well.
            cells.flash_mut().suspend_faults(true);
            program_what_is_held(&mut cells, &units, shape, image.unwrap_or_default());
            cells.flash_mut().suspend_faults(false);
        }
        let mut dispatcher = Dispatcher::new(shape, drive.dispatch, cells, units);
        if let Some(areas) = &drive.checkpoints {
            let areas = vec![areas.clone(); shape.units() as usize];
            dispatcher.write_checkpoints(drive.section.ftl.checkpoint_every, areas);
        }
        let mut ssd = Ssd::new(drive.config.clone(), shape, dispatcher)?;
        let warms_up =
            |section: &&Precondition| section.kind == PreconditionKind::Steady && section.warm_up_windows > 0;
        if let Some(section) = experiment.precondition.as_ref().filter(warms_up) {
            before.warm_up = Some(warm_up::warm_up(section, experiment.seed, drive, &mut ssd)?);
        }
        if before.pages > 0 && matches!(load, Load::Trace(trace) if trace.mode != TraceMode::Closed) {
            // A trace's gaps are for work of its own, not for what preconditioning left to do. It wears nothing either.
            ssd.flash_mut().suspend_wear();
            before.until_idle = Some(until_idle(&mut ssd));
            ssd.flash_mut().wear_from_now_on();
        }
        ssd.age(drive.shelf);
        let flows: Vec<String> = load.flows().into_iter().map(str::to_owned).collect();
        if !flows.is_empty() {
            ssd.follow_queues(flows.len() as u16);
        }
        let faults = ssd.flash_mut().fault_counts();
        let ssd = Hpb::new(ssd);
        let last = LastDone::default();
        let by_process = load.is_from_outside() && !source.is_log();
        let mut meter = Meter::new(&last, if by_process { guest::PROCESSES } else { flows.len() });
        let stop = stop_at(experiment, load, drive.bytes());
        // What is known so far of a guest's processes, or of clients, has no names yet.
        let known = if by_process { &[][..] } else { &flows[..] };
        let wanted = reports.wanted;
        let mut report = |progress: Progress, so_far: Option<(Window, Box<Meters>)>| {
            let measured = so_far.map(|(window, meters)| {
                let span = window.elapsed - window.opened;
                let found = found(drive, &before, &window, (&meters, known, by_process), (progress.work, span));
                measured(found, window.elapsed, &window.books, String::new(), None)
            });
            reports.report(progress, measured);
        };
        let watch = Watch { wanted, report: &mut report };
        let mut metered = MeteredDrive::new(ssd, &last, &experiment.record, stop, load.has_ramp(), watch);
        let put::Put { report, phases, guest, processes, keep } =
            put::put(experiment, drive, load, source, &mut metered, &mut meter)?;
        let flows = if by_process { &processes } else { &flows };
        let remarks = match load {
            Load::Jobs(jobs) => jobs.iter().flat_map(|job| job.remarks()).collect(),
            Load::Live => vec!["the requests come from clients: the experiment's workload is not run".to_owned()],
            _ => Vec::new(),
        };
        let (mut measured, store) = conclude(
            experiment,
            drive,
            (&before, faults),
            metered,
            (&meter.meters, flows, by_process),
            (&report, phases),
            (remarks, keep),
        )?;
        measured.guest = guest.map(Box::new);
        Ok((measured, store))
    }
}

fn stop_at(experiment: &Experiment, load: &Load, logical_bytes: u64) -> StopAt {
    let stop = &experiment.stop;
    let job = experiment.fio_job();
    let least = |values: [f64; 2]| values.into_iter().filter(|&value| value > 0.0).fold(f64::INFINITY, f64::min);
    let seconds = least([stop.virtual_s, job.seconds]);
    let all = load.requests().unwrap_or(job.requests);
    let requests = least([stop.requests as f64, all as f64]);
    StopAt {
        written: if stop.drive_writes > 0.0 { (stop.drive_writes * logical_bytes as f64) as u64 } else { u64::MAX },
        max_erases: stop.max_erases,
        until: if seconds.is_finite() { (seconds * 1e9) as u64 } else { u64::MAX },
        requests: if requests.is_finite() { requests as u64 } else { u64::MAX },
    }
}

/// Preconditions a drive as the experiment requests. Pages of the mapping table are written once, at the end.
fn precondition<M: UnitFtl>(
    experiment: &Experiment,
    drive: &Drive,
    untimed: &mut Untimed<M>,
) -> Result<Before, UnitFull> {
    let section = experiment.precondition.clone().unwrap_or_default();
    let host_pages = drive.pages();
    let pages = (f64::from(host_pages) * section.fraction).round() as u32;
    let mut rng = Seed(experiment.seed).stream("ssd/precondition");
    let mut before = Before::default();
    let random = |untimed: &mut Untimed<M>, rng: &mut Rng| {
        untimed.write_all((0..pages).map(|_| rng.below(u64::from(pages)) as u32))
    };
    match section.kind {
        PreconditionKind::None => {}
        PreconditionKind::Sequential => untimed.fill_sequential(pages)?,
        PreconditionKind::Random => random(untimed, &mut rng)?,
        PreconditionKind::Steady if pages == 0 => {}
        PreconditionKind::Steady => {
            untimed.fill_sequential(pages)?;
            while before.windows < section.windows && !before.settled {
                let start = *untimed.tally();
                random(untimed, &mut rng)?;
                let waf = untimed.tally().since(&start).waf().unwrap_or(1.0);
                let last = before.write_amplification.replace(waf);
                before.settled = last.is_some_and(|last| (waf - last).abs() < section.settled_within * last);
                before.windows += 1;
            }
        }
    }
    let tally = untimed.tally();
    before.host_pages = tally.programmed[Cause::Host];
    before.pages = tally.programmed.total();
    before.erases = tally.erased.total();
    if let Some(map) = &drive.config.map
        && section.kind != PreconditionKind::None
    {
        untimed.write_all(host_pages..host_pages + pages.div_ceil(map.entries_per_page()))?;
    }
    Ok(before)
}

/// Programs each page that holds data, so that reads find `image`, zeroes beyond its end, and not erased cells.
fn program_what_is_held<F: Flash, M: UnitFtl>(cells: &mut Cells<F>, units: &[M], shape: &Shape, image: &[u8]) {
    let striping = Striping::new(shape);
    let page_bytes = shape.page_bytes as usize;
    let mut page = vec![0; page_bytes];
    for (unit, layer) in (0..).zip(units) {
        for ppn in 0..shape.blocks * shape.unit_pages() {
            let held = layer.holds(ppn);
            if held != NONE {
                let from = (striping.lpn(unit, held) as usize * page_bytes).min(image.len());
                let there = (image.len() - from).min(page_bytes);
                page[..there].copy_from_slice(&image[from..from + there]);
                page[there..].fill(0);
                let programmed = cells.program(Cause::Host, unit, ppn, Some(&page));
                debug_assert!(programmed.is_ok(), "unit {unit}, page {ppn}: {programmed:?}");
            }
        }
    }
}

/// Latencies, names of the flows, and whether those are processes of a guest, or clients.
type OfLoad<'a> = (&'a Meters, &'a [String], bool);

/// What a window of measurement shows of a drive. `requests` were issued, and measured for `span`.
fn found(
    drive: &Drive,
    before: &Before,
    window: &Window,
    (meters, names, by_process): OfLoad<'_>,
    (requests, span): (u64, Ns),
) -> DriveOutcome {
    let shape = &drive.shape;
    let page_bytes = u64::from(shape.page_bytes);
    DriveOutcome {
        status: Status::Done,
        end_of_life: None,
        remarks: Vec::new(),
        logical_bytes: drive.bytes(),
        raw_bytes: shape.raw_bytes(),
        page_bytes: shape.page_bytes,
        block_bytes: u64::from(shape.unit_pages()) * page_bytes,
        before: before.clone(),
        measured_ns: span.0,
        requests,
        max_waiting: 0,
        disordered: 0,
        ops: BlockOp::ALL.iter().zip(&meters.ops).filter_map(|(op, meter)| figures(*op, meter, span)).collect(),
        flows: flows(names, meters, &window.moved, drive, span, by_process),
        phases: Vec::new(),
        write_amplification: write_amplification(window.books.programs(), page_bytes, window.host_bytes),
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
        detail: Detail::Drive(Box::new(found)),
    }
}

fn conclude<S: Store, M: Layer>(
    experiment: &Experiment,
    drive: &Drive,
    (before, faults): (&Before, FaultCounts),
    metered: MeteredDrive<'_, Array<S>, M>,
    of_load @ (meters, ..): OfLoad<'_>,
    (report, phases): (&Report<StopReason>, Vec<PhaseFigures>),
    (remarks, keep): (Vec<String>, Option<guest::Keep<'_>>),
) -> Result<(Measured, S), DriveRunError> {
    let (status, stopped_by, end_of_life) = match &report.ended {
        Ended::Stopped { why, .. } => (Status::Done, why.key().to_owned(), None),
        Ended::Done => (Status::Done, "workload".to_owned(), None),
        Ended::Limit => {
            let by_time = experiment.stop.requests == 0 || report.issued < experiment.stop.requests;
            (Status::Done, if by_time { "virtual_s" } else { "requests" }.to_owned(), None)
        }
        Ended::Device { at, error: BlockError::WornOut { why }, .. } => {
            let end = EndOfLife { at_ns: at.0, why: (*why).to_owned(), host_bytes: metered.written() };
            (Status::WornOut, "worn_out".to_owned(), Some(end))
        }
        Ended::Device { at, request, error, .. } => return Err(DriveRunError::device(*at, request, error.clone())),
        &Ended::Stalled { at, outstanding } => return Err(DriveRunError::Stalled { at_ns: at.0, outstanding }),
        Ended::Recording(why) => return Err(DriveRunError::Recording(why.clone())),
    };
    let Closed { ssd: hpb, window, pattern } = metered.close();
    let sysfs = ufs::sysfs(drive, hpb.driver().zip(hpb.device().hpb()));
    let mut ssd = hpb.into_device();
    let faults = experiment.faults.as_ref().map(|_| {
        let counts = ssd.flash_mut().fault_counts().since(&faults);
        let lost = window.books.counter("flash.lost") + meters.ops[0].errors;
        FaultFigures::new(counts, 0, window.books.counter("bad.blocks"), lost)
    });
    let debt = if status == Status::Done { until_idle(&mut ssd) } else { Debt::default() };
    let elapsed = window.elapsed;
    let span = span(report, elapsed);
    let found = DriveOutcome {
        status,
        end_of_life,
        remarks,
        max_waiting: report.max_waiting as u64,
        disordered: report.disordered,
        phases,
        debt,
        pattern: pattern.and_then(|pattern| {
            let (_, device) = pattern.devices().next()?;
            Some(PatternFigures {
                segmented_sequentiality: device.segments.seg_seq(),
                segmented_continuity: device.segments.seg_cont(),
                not_looked_at: device.segments.not_looked_at(),
            })
        }),
        sysfs,
        ..found(drive, before, &window, of_load, (report.issued, span))
    };
    let measured = measured(found, elapsed, &window.books, stopped_by, faults);
    if let Some(keep) = keep {
        guest::contents(&mut ssd, keep)?;
    }
    let (cells, _) = ssd.into_dispatcher().into_parts();
    Ok((measured, cells.into_flash().into_store()))
}

/// Lets a drive work until it is idle. Returns what it had left to do.
fn until_idle<S: Store, M: Layer>(ssd: &mut Ssd<Array<S>, M>) -> Debt {
    let buffered = u64::from(ssd.dirty_pages());
    let closed = Books::of(ssd);
    while ssd.next_done(Ns(u64::MAX)).is_some() {}
    Books::of(ssd).since(&closed).debt(buffered)
}

/// Figures of each flow. `moved` has the pages moved: those written before the run, then those of each flow. Processes
/// of a guest, and clients, are flows that share the queues; those whose requests do not count are left out.
fn flows(
    names: &[String],
    meters: &Meters,
    moved: &[u64],
    drive: &Drive,
    measured: Ns,
    by_process: bool,
) -> Vec<FlowFigures> {
    let queues = match &drive.config.front.protocol {
        Protocol::Nvme { weights } if !by_process => weights.len().max(1),
        Protocol::Nvme { .. } | Protocol::Sata | Protocol::Ufs => 1,
    };
    let all: u64 = moved.iter().sum();
    let page_bytes = drive.shape.page_bytes as f64;
    let one = |(at, (name, ops)): (usize, (&String, &FlowMeter))| {
        let pages_moved = moved.get(at + 1).copied().unwrap_or(0);
        let written = ops[BlockOp::Write as usize].as_ref().map_or(0, |op| op.bytes) as f64;
        let ops = BlockOp::ALL.iter().zip(ops).filter_map(|(op, meter)| figures(*op, meter.as_deref()?, measured));
        FlowFigures {
            name: name.clone(),
            queue: at % queues,
            ops: ops.collect(),
            pages_moved,
            moved_share: (all > 0).then(|| pages_moved as f64 / all as f64),
            write_amplification: (written > 0.0).then(|| 1.0 + pages_moved as f64 * page_bytes / written),
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

fn figures(op: BlockOp, meter: &OpMeter, measured: Ns) -> Option<OpFigures> {
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
            .map(|component| (component_name(component).to_owned(), mean(meter.components_ns[component])))
            .collect(),
        cdf: cdf(&meter.latency),
    })
}
