//! The run: the drive is brought into its state without time, then the load is put on it in time.
//!
//! The translation layer is chosen once; what follows is compiled for each. On tags, the cells below a drive that was
//! brought into a state are as good as erased: nothing reads them back, and pages may be skipped. Where bytes are kept,
//! every page that holds something is programmed with zeroes, so that the flash and the layers agree. The wear of cells
//! begins with the run: preconditioning wears nothing out.

use std::cell::Cell;

use nand::{Array, Bytes, Store, Tags};
use sim::seam::{BlockDevice, BlockError, BlockOp, Flash};
use sim::{Cause, Ns, Rng, Seed};
use ssd::dispatch::io::Split;
use ssd::ftl::bast::Bast;
use ssd::ftl::block::BlockFtl;
use ssd::ftl::fast::Fast;
use ssd::ftl::hybrid::HybridCounts;
use ssd::ftl::page::{ConfigError, PageFtl};
use ssd::ftl::{NONE, UnitFtl};
use ssd::host::Hpb;
use ssd::untimed::UnitFull;
use ssd::{Cells, Dispatcher, Shape, ShapeError, Ssd, Striping, Untimed};
use thiserror::Error;
use workload::drive::{Ended, JobTotals, Report};
use workload::fio::FioError;

use super::compose;
use super::experiment::SsdExperiment;
use super::load::{self, Arrivals};
use super::meter::{HEADS, Meter, OpMeter, StopAt, Tap, head_name};
use super::outcome::{
    Before, EndOfLife, OpFigures, PatternFigures, SsdOutcome, Status, Utilisation, WearFigures, write_amplification,
};
use super::phases::{self, PhaseFigures};
use super::ufs;
use crate::outcome::Counter;
use crate::wear::{Progress, cdf};

/// Why a run found nothing.
#[derive(Debug, Error)]
pub enum SsdRunError {
    /// A layer refuses its numbers.
    #[error("translation layer: {0}")]
    Layer(#[from] ConfigError),
    /// The write buffer refuses its size.
    #[error("write buffer: {0}")]
    Buffer(#[from] ShapeError),
    /// The load is none, or does not fit the drive.
    #[error("load: {0}")]
    Load(#[from] FioError),
    /// The drive has no room for the state in which it was to begin.
    #[error("preconditioning: {0}")]
    NoRoom(#[from] UnitFull),
    /// A recording cannot be replayed.
    #[error("trace: {0}")]
    Recording(String),
    /// The drive stands still with requests under way.
    #[error("at {at_ns} ns the drive stands still: it has nothing to do, and {outstanding} requests are not answered")]
    Stalled {
        /// The last answer before.
        at_ns: u64,
        /// Requests under way or waiting in the host.
        outstanding: usize,
    },
    /// The drive refuses a request, or loses one.
    #[error("at {at_ns} ns, {op} of sectors {first} to {end}: {error}")]
    Device {
        /// When.
        at_ns: u64,
        /// What was asked.
        op: &'static str,
        /// First sector.
        first: u64,
        /// One past the last.
        end: u64,
        /// What the drive said.
        error: BlockError,
    },
}

impl SsdRunError {
    /// Whether the drive could not go on, rather than the experiment being wrong.
    pub fn is_the_drives(&self) -> bool {
        matches!(self, SsdRunError::NoRoom(_) | SsdRunError::Stalled { .. })
    }
}

/// A translation layer as results know it.
trait Layer: UnitFtl {
    /// What it counted, over all units.
    fn counters(units: &[Self]) -> Vec<Counter>
    where
        Self: Sized;
}

fn counter(name: &str, value: u64) -> Counter {
    Counter { name: name.to_owned(), value: value as f64, unit: String::new() }
}

impl Layer for PageFtl {
    fn counters(units: &[PageFtl]) -> Vec<Counter> {
        let sum = |pick: &dyn Fn(&PageFtl) -> u64| units.iter().map(pick).sum();
        vec![
            counter("free blocks", sum(&|unit| u64::from(unit.free_blocks()))),
            counter("blocks retired", sum(&|unit| u64::from(unit.retired_blocks()))),
            counter("pages folded out of SLC blocks, preconditioning included", sum(&|unit| unit.folded_pages())),
        ]
    }
}

fn hybrid_counters<'a>(counts: impl Iterator<Item = &'a HybridCounts> + Clone) -> Vec<Counter> {
    let sum = |pick: fn(&HybridCounts) -> u64| counts.clone().map(pick).sum();
    [
        ("switch merges", sum(|counts| counts.switch_merges)),
        ("partial merges", sum(|counts| counts.partial_merges)),
        ("full merges", sum(|counts| counts.full_merges)),
        ("pages copied", sum(|counts| counts.copied_pages)),
        ("pages padded", sum(|counts| counts.padded_pages)),
        ("blocks retired", sum(|counts| counts.retired)),
    ]
    .map(|(name, value)| counter(&format!("{name}, preconditioning included"), value))
    .into()
}

impl Layer for Bast {
    fn counters(units: &[Bast]) -> Vec<Counter> {
        hybrid_counters(units.iter().map(Bast::counts))
    }
}

impl Layer for Fast {
    fn counters(units: &[Fast]) -> Vec<Counter> {
        hybrid_counters(units.iter().map(Fast::counts))
    }
}

impl Layer for BlockFtl {
    fn counters(units: &[BlockFtl]) -> Vec<Counter> {
        hybrid_counters(units.iter().map(BlockFtl::counts))
    }
}

/// Runs an experiment. `arrivals` are the recording's, where the experiment replays one. `watch` hears of the progress
/// now and then; its `erases` are requests.
/// Errors: [`SsdRunError`]. A drive that wears out is no error but an outcome.
pub fn run(
    experiment: &SsdExperiment,
    arrivals: Option<Arrivals<'_>>,
    watch: &mut dyn FnMut(Progress),
) -> Result<SsdOutcome, SsdRunError> {
    match experiment.ssd.store.as_str() {
        "bytes" => run_on(experiment, Bytes::new(), arrivals, watch).map(|(outcome, _)| outcome),
        _ => run_on(experiment, Tags, arrivals, watch).map(|(outcome, _)| outcome),
    }
}

/// The same on any store, which must be erased; it comes back with what the flash holds at the end. The outcome does not
/// depend on it.
/// Errors: [`SsdRunError`].
pub fn run_on<S: Store>(
    experiment: &SsdExperiment,
    store: S,
    arrivals: Option<Arrivals<'_>>,
    watch: &mut dyn FnMut(Progress),
) -> Result<(SsdOutcome, S), SsdRunError> {
    let drive = &experiment.ssd;
    let units = 0..compose::shape(drive).units();
    let seed = Seed(experiment.seed);
    match drive.ftl.mapping.as_str() {
        "bast" => {
            let units = units.map(|_| Bast::new(compose::hybrid_config(drive))).collect::<Result<_, _>>()?;
            run_units::<S, Bast>(experiment, store, units, arrivals, watch)
        }
        "fast" => {
            let units = units.map(|_| Fast::new(compose::hybrid_config(drive))).collect::<Result<_, _>>()?;
            run_units::<S, Fast>(experiment, store, units, arrivals, watch)
        }
        "block" => {
            let units = units.map(|_| BlockFtl::new(compose::hybrid_config(drive))).collect::<Result<_, _>>()?;
            run_units::<S, BlockFtl>(experiment, store, units, arrivals, watch)
        }
        _ => {
            let config = compose::page_config(drive);
            let unit = |unit| PageFtl::new(config.clone(), seed.stream(&format!("ssd/unit/{unit}")));
            let units = units.map(unit).collect::<Result<_, _>>()?;
            run_units::<S, PageFtl>(experiment, store, units, arrivals, watch)
        }
    }
}

fn run_units<S: Store, M: Layer>(
    experiment: &SsdExperiment,
    store: S,
    units: Vec<M>,
    arrivals: Option<Arrivals<'_>>,
    watch: &mut dyn FnMut(Progress),
) -> Result<(SsdOutcome, S), SsdRunError> {
    let shape = compose::shape(&experiment.ssd);
    let pages = compose::logical_pages(&experiment.ssd);
    let sectors = u64::from(pages) * u64::from(shape.page_bytes / sim::seam::SECTOR_BYTES);
    let jobs = load::jobs(experiment)?;
    let has_jobs = experiment.trace.is_none() && !phases::has_phases(experiment);
    if arrivals.is_none() && !phases::has_phases(experiment) {
        load::fits(&jobs, sectors, Seed(experiment.seed))?;
    }
    let mut drive = Untimed::new(Striping::new(&shape), units, pages + compose::map_pages(&experiment.ssd));
    let before = precondition(experiment, pages, &mut drive)?;
    let erases_before: Vec<u32> = drive.erase_counts().collect();
    let units = drive.into_units();
    let array = Array::new(compose::array_config(experiment), store);
    let mut cells = Cells::new(&shape, array);
    if S::KEEPS_BYTES {
        program_what_is_held(&mut cells, &units, &shape);
    }
    let mut dispatcher = Dispatcher::new(&shape, compose::dispatch(&experiment.ssd), cells, units);
    if let Some(areas) = compose::checkpoints(&experiment.ssd) {
        dispatcher.write_checkpoints(experiment.ssd.ftl.checkpoint_every, vec![areas; shape.units() as usize]);
    }
    let ssd = Hpb::new(Ssd::new(compose::drive(&experiment.ssd), &shape, dispatcher)?);
    let last = Cell::new(Split::default());
    let mut meter = Meter::new(&last);
    let mut tap =
        Tap::new(ssd, &last, &experiment.record, stop_at(experiment, tap_bytes(pages, &shape)), erases_before, watch);
    let (report, phases) = phases::put(experiment, arrivals, &mut tap, &mut meter)?;
    let remarks = if has_jobs { jobs.iter().flat_map(|job| job.remarks()).collect() } else { Vec::new() };
    conclude(experiment, &shape, before, tap, &meter.ops, (&report, phases), remarks)
}

fn tap_bytes(pages: u32, shape: &Shape) -> u64 {
    u64::from(pages) * u64::from(shape.page_bytes)
}

fn stop_at(experiment: &SsdExperiment, logical_bytes: u64) -> StopAt {
    let (stop, workload) = (&experiment.stop, &experiment.workload);
    let least = |values: [f64; 2]| values.into_iter().filter(|&value| value > 0.0).fold(f64::INFINITY, f64::min);
    let seconds = least([stop.virtual_s, workload.seconds]);
    let load = phases::requests(experiment).unwrap_or(workload.requests);
    let requests = least([stop.requests as f64, load as f64]);
    StopAt {
        written: if stop.drive_writes > 0.0 { (stop.drive_writes * logical_bytes as f64) as u64 } else { u64::MAX },
        max_erases: stop.max_erases,
        until: if seconds.is_finite() { (seconds * 1e9) as u64 } else { u64::MAX },
        requests: if requests.is_finite() { requests as u64 } else { u64::MAX },
    }
}

/// Brings a drive of `host_pages` into the state that the experiment asks for. Pages of the mapping table that lie
/// behind them are written once, at the end.
fn precondition<M: UnitFtl>(
    experiment: &SsdExperiment,
    host_pages: u32,
    drive: &mut Untimed<M>,
) -> Result<Before, UnitFull> {
    let section = &experiment.precondition;
    let pages = (f64::from(host_pages) * section.fraction).round() as u32;
    let mut rng = Seed(experiment.seed).stream("ssd/precondition");
    let mut before = Before::default();
    let random =
        |drive: &mut Untimed<M>, rng: &mut Rng| drive.write_all((0..pages).map(|_| rng.below(u64::from(pages)) as u32));
    match section.kind.as_str() {
        "sequential" => drive.fill_sequential(pages)?,
        "random" => random(drive, &mut rng)?,
        "steady" if pages > 0 => {
            drive.fill_sequential(pages)?;
            while before.windows < section.windows && !before.settled {
                let start = *drive.tally();
                random(drive, &mut rng)?;
                let waf = drive.tally().since(&start).waf().unwrap_or(1.0);
                let last = before.write_amplification.replace(waf);
                before.settled = last.is_some_and(|last| (waf - last).abs() < section.settled_within * last);
                before.windows += 1;
            }
        }
        _ => {}
    }
    let tally = drive.tally();
    before.host_pages = tally.programmed[Cause::Host];
    before.pages = tally.programmed.total();
    before.erases = tally.erased.total();
    if let Some(map) = compose::map(&experiment.ssd)
        && section.kind != "none"
    {
        drive.write_all(host_pages..host_pages + pages.div_ceil(map.entries_per_page()))?;
    }
    Ok(before)
}

/// Programs each page that holds something, so that reads find zeroes and not erased cells.
fn program_what_is_held<F: Flash, M: UnitFtl>(cells: &mut Cells<F>, units: &[M], shape: &Shape) {
    let zeroes = vec![0; shape.page_bytes as usize];
    for (unit, layer) in (0..).zip(units) {
        for ppn in 0..shape.blocks * shape.unit_pages() {
            if layer.holds(ppn) != NONE {
                let programmed = cells.program(Cause::Host, unit, ppn, Some(&zeroes));
                debug_assert!(programmed.is_ok(), "unit {unit}, page {ppn}: {programmed:?}");
            }
        }
    }
}

fn conclude<S: Store, M: Layer>(
    experiment: &SsdExperiment,
    shape: &Shape,
    before: Before,
    tap: Tap<'_, Array<S>, M>,
    ops: &[OpMeter; 4],
    (report, phases): (&Report, Vec<PhaseFigures>),
    remarks: Vec<String>,
) -> Result<(SsdOutcome, S), SsdRunError> {
    let (status, stopped_by, end_of_life) = match (&report.ended, tap.stopped()) {
        (_, Some(condition)) => (Status::Done, condition.to_owned(), None),
        (Ended::Done, _) => (Status::Done, "workload".to_owned(), None),
        (Ended::Limit, _) => {
            let by_time = experiment.stop.requests == 0 || report.issued < experiment.stop.requests;
            (Status::Done, if by_time { "virtual_s" } else { "requests" }.to_owned(), None)
        }
        (Ended::Device { at, error: BlockError::WornOut { why }, .. }, _) => {
            let end = EndOfLife { at_ns: at.0, why: (*why).to_owned(), host_bytes: tap.written() };
            (Status::WornOut, "worn_out".to_owned(), Some(end))
        }
        (Ended::Device { at, request, error, .. }, _) => {
            return Err(SsdRunError::Device {
                at_ns: at.0,
                op: request.op.name(),
                first: request.sector,
                end: request.end(),
                error: error.clone(),
            });
        }
        (&Ended::Stalled { at, outstanding }, _) => {
            return Err(SsdRunError::Stalled { at_ns: at.0, outstanding });
        }
        (Ended::Recording(why), _) => return Err(SsdRunError::Recording(why.clone())),
    };
    let host_bytes = tap.written();
    let erase_counts = tap.erases();
    let (hpb, timeline, pattern) = tap.finish();
    let sysfs = ufs::sysfs(&experiment.ssd, hpb.driver().zip(hpb.device().hpb()));
    let ssd = hpb.into_device();
    let now = ssd.now();
    let counts = *ssd.dispatcher().counts();
    let page_bytes = u64::from(shape.page_bytes);
    let measured = measured(report, now);
    let mut counters = vec![
        counter("pages read for the host", counts.host_reads),
        counter("pages read to be copied or merged", counts.internal_reads),
        counter("program operations", counts.program_ops),
        counter("operations suspended for a read", counts.suspends),
        counter("pages lost when they were to be copied", counts.lost),
    ];
    if ssd.config().cache.is_some() {
        let buffer = ssd.buffer_counts();
        counters.extend([
            counter("pages written again in the write buffer", buffer.hits),
            counter("pages that came into the write buffer", buffer.misses),
            counter("pages written out of it", buffer.evictions),
            counter("pages written to complete a group", buffer.padding),
            counter("pages trimmed in it", buffer.trimmed),
            counter("pages in it at the end", u64::from(ssd.dirty_pages())),
        ]);
    }
    if ssd.config().map.is_some() {
        let (map, _, writes) = ssd.map_counts();
        counters.extend([
            counter("map cache hits", map.hits),
            counter("map cache misses", map.misses),
            counter("map pages read", counts.map_reads),
            counter("map pages written", writes),
            counter("map pages written for pages moved", map.moved_written),
        ]);
    }
    counters.extend(M::counters(ssd.dispatcher().units()));
    let (dies, channels) = ssd.dispatcher().busy();
    let share = |busy: Vec<Ns>| busy.iter().map(|busy| busy.0 as f64 / now.0.max(1) as f64).collect();
    let outcome = SsdOutcome {
        kind: "ssd".to_owned(),
        experiment: experiment.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        model_version: crate::MODEL_VERSION,
        fingerprint: String::new(),
        status,
        stopped_by,
        end_of_life,
        remarks,
        logical_bytes: ssd.sectors() * u64::from(sim::seam::SECTOR_BYTES),
        raw_bytes: shape.raw_bytes(),
        block_bytes: u64::from(shape.unit_pages()) * page_bytes,
        before,
        virtual_ns: now.0,
        measured_ns: measured.0,
        requests: report.issued,
        max_waiting: report.max_waiting as u64,
        disordered: report.disordered,
        ops: BlockOp::ALL.iter().zip(ops).filter_map(|(op, meter)| figures(*op, meter, measured)).collect(),
        phases,
        write_amplification: write_amplification(&counts.programs, page_bytes, host_bytes),
        wear: WearFigures::of(&erase_counts),
        erase_counts,
        utilisation: Utilisation { dies: share(dies), channels: share(channels) },
        pattern: pattern.and_then(|pattern| {
            let (_, device) = pattern.devices().next()?;
            Some(PatternFigures {
                segmented_sequentiality: device.segments.seg_seq(),
                segmented_continuity: device.segments.seg_cont(),
                not_looked_at: device.segments.not_looked_at(),
            })
        }),
        counters,
        sysfs,
        timeline,
    };
    let (cells, _) = ssd.into_dispatcher().into_parts();
    Ok((outcome.seal(), cells.into_flash().into_store()))
}

/// From the first job's measured start to the last one's end.
fn measured(report: &Report, now: Ns) -> Ns {
    let from = report.jobs.iter().map(|job: &JobTotals| job.from.0).min().unwrap_or(0);
    let to = report.jobs.iter().map(|job| job.to.0).max().unwrap_or(now.0);
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
        p50_ns: at(0.5),
        p90_ns: at(0.9),
        p99_ns: at(0.99),
        p999_ns: at(0.999),
        p9999_ns: at(0.9999),
        p99999_ns: at(0.99999),
        max_ns: meter.latency.max(),
        time: (0..HEADS)
            .filter(|&head| meter.heads_ns[head] > 0)
            .map(|head| (head_name(head).to_owned(), mean(meter.heads_ns[head])))
            .collect(),
        cdf: cdf(&meter.latency),
    })
}
