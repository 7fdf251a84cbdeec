//! A run on a drive: preconditions the drive without taking virtual time, then runs the load.
//!
//! The code is compiled for each translation layer. On a store without bytes, the cells of a preconditioned drive stay
//! erased: nothing reads them back, and pages may be skipped. With bytes, every page that holds data is programmed with
//! zeroes, so that flash and layers agree. Wear of the cells begins with the run: preconditioning does not wear them.

use nand::{AnyStore, Array, Blank, Bytes, Store, Tags};
use sim::seam::{BlockError, BlockRequest, Flash};
use sim::{Cause, Ns, Rng, Seed};
use ssd::ftl::bast::Bast;
use ssd::ftl::block::BlockFtl;
use ssd::ftl::fast::Fast;
use ssd::ftl::page::{ConfigError, PageFtl};
use ssd::ftl::{NONE, UnitFtl};
use ssd::host::Hpb;
use ssd::untimed::UnitFull;
use ssd::{Cells, Dispatcher, Shape, ShapeError, Ssd, Striping, Untimed};
use thiserror::Error;
use ubi::UbiError;
use workload::fio::FioError;

use super::bench::{Bench, Ran};
use super::guest::{self, GuestError};
use super::put::Source;
use super::{Reports, warm_up};
use crate::measure::Measured;
use crate::measure::books::Layer;
use crate::measure::metered::until_idle;
use crate::measure::outcome::drive::Before;
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
    /// UBI fails before or after the load.
    #[error("UBI: {0}")]
    Ubi(#[from] UbiError),
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
            _ if source.keeps_contents() && guest::may_be_outside(self.experiment) => {
                self.go_on(Tags, source, reports).map(|(measured, _)| measured)
            }
            _ if self.load.is_from_outside() && !source.is_log() => {
                self.go_on(AnyStore::from(Bytes::new()), source, reports).map(|(measured, _)| measured)
            }
            Contents::Bytes => self.go_on(AnyStore::from(Bytes::new()), source, reports).map(|(measured, _)| measured),
            // Faults of reads need pages that are read; what they hold is of no account.
            Contents::Tags if faults::reach_reads(&self.drive.array) => {
                self.go_on(AnyStore::Blank(Blank), source, reports).map(|(measured, _)| measured)
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
        reports: Reports<'_>,
    ) -> Result<(Measured, S), DriveRunError> {
        let &Run { experiment, drive, load } = self;
        let facts = drive.facts();
        let shape = &drive.shape;
        load.fits(facts.bytes, Seed(experiment.seed))?;
        let mut untimed = Untimed::new(Striping::new(shape), units, drive.pages() + drive.map_pages());
        let mut before = precondition(experiment, drive, &mut untimed)?;
        let image = source.image();
        if let Some(image) = image {
            guest::check_image(experiment, &facts, image)?;
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
        let flows = load.flows().len() as u16;
        if flows > 0 {
            ssd.follow_queues(flows);
        }
        let bench = Bench { experiment, facts: &facts, load, before: &before };
        let sysfs = |hpb: &Hpb<Ssd<Array<S>, M>>| ufs::sysfs(drive, hpb.driver().zip(hpb.device().hpb()));
        let Ran { measured, device, keep } = bench.run(Hpb::new(ssd), source, reports, sysfs)?;
        let mut ssd = device.into_device();
        if let Some(keep) = keep.contents {
            let at = ssd.now();
            guest::contents(&mut ssd, at, keep)?;
        }
        let (cells, _) = ssd.into_dispatcher().into_parts();
        Ok((measured, cells.into_flash().into_store()))
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
