//! The end of a `steady` preconditioning: random writes in virtual time.
//!
//! Preconditioning without time leaves every die at the same point: its write buffer is empty, and collection that is
//! paced over the host's writes has yet to begin, so all dies begin it together. Random writes in virtual time follow,
//! until write amplification and rate no longer change from one window to the next. Then the measurement begins.

use nand::{Array, Store};
use sim::seam::BlockDevice;
use sim::{Cause, Seed};
use ssd::Ssd;
use workload::drive::{Ended, Limits, run};
use workload::fio::{Extent, FioLoad, Job, Mix, Sizes};

use super::DriveRunError;
use crate::measure::books::{Books, Layer};
use crate::measure::outcome::drive::WarmUp;
use crate::schema::load::Precondition;
use crate::subject::Drive;

/// Requests outstanding.
const DEPTH: u32 = 64;
/// Greatest change of the rate of writes between two windows of a warm drive. Their write amplification has the bound
/// `settled_within`, but at least [`LEAST_CHANGE`].
const MOST_RATE_CHANGE: f64 = 0.05;
/// Noise of the write amplification of a window.
const LEAST_CHANGE: f64 = 0.02;
/// Writes random pages to a preconditioned drive until it is warm.
/// Errors: the drive fails.
pub fn warm_up<S: Store, M: Layer>(
    section: &Precondition,
    seed: u64,
    drive: &Drive,
    ssd: &mut Ssd<Array<S>, M>,
) -> Result<WarmUp, DriveRunError> {
    let mut found = WarmUp::default();
    let pages = u64::from((f64::from(drive.pages()) * section.fraction).round() as u32);
    let page_bytes = u64::from(drive.shape.page_bytes);
    let window = u64::from(window(drive));
    let mut job = Job::new("warm-up", 0);
    (job.mix, job.random, job.random_map) = (Mix::Write, true, false);
    job.sizes = [const { Sizes::Fixed(0) }; 3].map(|_| Sizes::Fixed(page_bytes));
    job.align = [page_bytes; 3];
    job.size = Some(Extent::Bytes(pages * page_bytes));
    job.depth = DEPTH.min(ssd.queue_depth());
    job.number_ios = Some(window);
    job.time_based = true;
    let jobs = [job];
    let mut seeds = Seed(seed).stream("ssd/warm-up");
    let mut last: Option<(f64, f64)> = None;
    // As the rest of the preconditioning, it wears nothing.
    ssd.flash_mut().suspend_wear();
    while found.windows < section.warm_up_windows && !found.settled && pages > 0 {
        let before = Books::of(ssd);
        let mut load = FioLoad::new(&jobs, ssd.sectors(), Seed(seeds.below(u64::MAX)))?;
        let report = run(ssd, &mut load, ssd.now(), Limits::NONE, &mut ());
        match report.ended {
            Ended::Device { at, request, error, .. } => return Err(DriveRunError::device(at, &request, error)),
            Ended::Stalled { at, outstanding } => return Err(DriveRunError::Stalled { at_ns: at.0, outstanding }),
            _ => {}
        }
        let done = Books::of(ssd).since(&before);
        let programs = done.programmed();
        let of_host = programs[Cause::Host] + programs[Cause::Flush];
        let waf = programs.total() as f64 / of_host.max(1) as f64;
        let rate = window as f64 / done.length().as_s();
        let near = |now: f64, then: f64, within: f64| (now - then).abs() <= within * then;
        found.settled = last.is_some_and(|(last_waf, last_rate)| {
            near(waf, last_waf, section.settled_within.max(LEAST_CHANGE)) && near(rate, last_rate, MOST_RATE_CHANGE)
        });
        last = Some((waf, rate));
        found.windows += 1;
        found.pages += window;
        found.ns += done.length().0;
        found.write_amplification = Some(waf);
        found.iops = Some(rate);
    }
    ssd.flash_mut().wear_from_now_on();
    Ok(found)
}

/// Pages of a window: the write buffer is filled once, and each unit collects some blocks. At most the drive once.
fn window(drive: &Drive) -> u32 {
    let buffer = drive.config.cache.as_ref().map_or(0, |cache| cache.pages);
    let blocks = drive.shape.units().saturating_mul(drive.shape.unit_pages());
    buffer.max(blocks).min(drive.pages())
}
