//! A run on raw flash: a load on LEBs of UBI, until a condition ends it.
//!
//! Two actors with a clock each. The writer does a step of the load; then the background thread erases and moves what it
//! can before the writer's next request (`thread.rs`). The load determines the pace: users of volumes (`volumes.rs`) have their
//! rates, a file system (`file_system/`) its program.

use fs::jffs1::Jffs1;
use fs::jffs2::Jffs2;
use hdrhistogram::Histogram;
use nand::{AnyStore, Array, Sparse, Store, Tags};
use sim::seam::{FsError, LebError};
use sim::{CauseCounts, Cx, Flame, Ns};
use thiserror::Error;
use ubi::attach::AttachError;
use ubi::{Stats, Ubi, UbiError};

use super::file_system::on_flash::OnFlash;
use super::guest::GuestError;
use super::thread::Thread;
use super::{Progress, Reports, file_system, ubi_log, volumes};
use crate::flame::Graph;
use crate::measure::outcome::faults::FaultFigures;
use crate::measure::outcome::file_system::FileSystemOutcome;
use crate::measure::outcome::flash::{FastmapFigures, FlashOutcome, Groups, HEAD_PEBS, Latency, Point, VolumesOutcome};
use crate::measure::outcome::table::WearTable;
use crate::measure::{self, Detail, Measured, cdf};
use crate::schema::Experiment;
use crate::subject::flash::Bare;
use crate::subject::{RawFlash, faults};

/// Why a run failed.
#[derive(Debug, Error)]
pub enum FlashRunError {
    /// The device does not attach.
    #[error("attach: {0}")]
    Attach(#[from] AttachError),
    /// An operation of UBI fails.
    #[error("UBI: {0}")]
    Ubi(#[from] UbiError),
    /// An operation on a volume fails.
    #[error("volume {name:?}: {error}")]
    Volume {
        /// Name of the volume.
        name: String,
        /// Error of the operation.
        error: UbiError,
    },
    /// The run with a guest fails.
    #[error(transparent)]
    Guest(#[from] GuestError),
    /// A LEB operation fails.
    #[error("step {step}: {error}")]
    Leb {
        /// Number of the step of the load.
        step: u64,
        /// Error of the operation.
        error: LebError,
    },
    /// A file system cannot be made, or its load not prepared.
    #[error("making the file system and the files of its load: {error}")]
    SetUp {
        /// Why.
        error: String,
    },
    /// A store with bytes, which a record of calls does not have.
    #[error(
        "`fs.repeat` and `fs.keep_bytes = false` have no bytes of files, so that there is no flash to keep; \
         leave them or the flash out"
    )]
    HasNoBytes,
    /// A file system can no longer be written.
    #[error("operation {operation} on the file system: {error}")]
    FileSystem {
        /// Number of the operation of the load.
        operation: u64,
        /// Why.
        error: FsError,
    },
}

impl FlashRunError {
    /// Whether a fault of the flash is the cause: UBI can no longer write, or lost what it needs.
    fn is_the_devices(&self) -> bool {
        let of_leb = |error: &LebError| {
            matches!(
                error,
                LebError::Flash(_) | LebError::NoSpace { .. } | LebError::ReadOnly { .. } | LebError::Corrupt { .. }
            )
        };
        match self {
            FlashRunError::Ubi(error) | FlashRunError::Volume { error, .. } => match error {
                UbiError::Flash(_) | UbiError::NoFreePeb | UbiError::ReadOnly { .. } => true,
                UbiError::Leb(error) => of_leb(error),
                _ => false,
            },
            FlashRunError::Leb { error, .. } => of_leb(error),
            FlashRunError::FileSystem { error, .. } => match error {
                FsError::Medium(error) => of_leb(error),
                FsError::Corrupt { .. } | FsError::ReadOnly { .. } => true,
                _ => false,
            },
            FlashRunError::Attach(_)
            | FlashRunError::Guest(_)
            | FlashRunError::SetUp { .. }
            | FlashRunError::HasNoBytes => false,
        }
    }
}

/// Runs an experiment on a store without bytes, or in memory where faults of reads or a file system need them. `reports` gets the
/// progress from time to time.
/// Errors: [`FlashRunError`].
pub(super) fn run(experiment: &Experiment, flash: &RawFlash, reports: Reports<'_>) -> Result<Measured, FlashRunError> {
    let may_fail = flash.array.faults.is_some();
    if flash.bare.is_some()
        || faults::reach_reads(&flash.array)
        || flash.file_system.as_ref().is_some_and(|fs| fs.needs_bytes() || may_fail && fs.may_keep_bytes())
    {
        let without = flash.without_contents();
        let flash = without.as_ref().unwrap_or(flash);
        return run_on(experiment, flash, Sparse::new().into(), reports).map(|(measured, _)| measured);
    }
    on_ubi(experiment, flash, Tags, reports).map(|(measured, _)| measured)
}

/// As [`run`], on a store with contents, which must be erased. Also returns the store with the contents at the end. The outcome
/// does not depend on the store. It gets a last fastmap, as at detach, which the outcome does not count.
/// Errors: [`FlashRunError`].
pub(super) fn run_on<'s>(
    experiment: &Experiment,
    flash: &RawFlash,
    store: AnyStore<'s>,
    reports: Reports<'_>,
) -> Result<(Measured, AnyStore<'s>), FlashRunError> {
    match &flash.bare {
        Some(Bare::Filled(of)) => file_system::jffs1::run(experiment, flash, of, store, reports),
        Some(Bare::Jffs1(of)) => {
            let mut writer = Cx::new();
            let array = Array::new(flash.array.clone(), store);
            let rig = OnFlash::<Jffs1<_>>::make(experiment, flash, of, array, &mut writer)?;
            put(experiment, flash, writer, rig, reports)
        }
        Some(Bare::Jffs2(of)) if of.lebs.is_none() => {
            let mut writer = Cx::new();
            let array = Array::new(flash.array.clone(), store);
            let rig = OnFlash::<Jffs2<_>>::make(experiment, flash, of, array, &mut writer)?;
            put(experiment, flash, writer, rig, reports)
        }
        Some(Bare::Jffs2(of)) => {
            let (device, mut writer) = attached(flash, store)?;
            let lebs = of.lebs.unwrap_or_default();
            let volume = file_system::as_flash(experiment, flash, device, lebs, &mut writer)?;
            let rig = OnFlash::<Jffs2<_>>::make(experiment, flash, of, volume, &mut writer)?;
            put(experiment, flash, writer, rig, reports)
        }
        None => on_ubi(experiment, flash, store, reports),
    }
}

/// Attaches UBI to an erased flash.
/// Errors: [`FlashRunError`].
fn attached<S: Store>(flash: &RawFlash, store: S) -> Result<(Ubi<Array<S>>, Cx), FlashRunError> {
    let mut writer = Cx::named(flash.program());
    let mut device = Ubi::attach(Array::new(flash.array.clone(), store), &mut writer, &flash.ubi)
        .map_err(|failure| FlashRunError::Attach(failure.error))?;
    device.flush(&mut writer)?;
    Ok((device, writer))
}

/// Runs UBIFS, or users of volumes, on any store.
/// Errors: [`FlashRunError`].
fn on_ubi<S: Store>(
    experiment: &Experiment,
    flash: &RawFlash,
    store: S,
    reports: Reports<'_>,
) -> Result<(Measured, S), FlashRunError> {
    let (device, mut writer) = attached(flash, store)?;
    if let Some(of) = &flash.file_system {
        let rig = file_system::Files::make(experiment, flash, of, device, &mut writer)?;
        put(experiment, flash, writer, rig, reports)
    } else {
        let rig = volumes::Users::fill(experiment, flash, device, &mut writer)?;
        put(experiment, flash, writer, rig, reports)
    }
}

/// A load with the device under it.
pub(super) trait Rig<S: Store> {
    /// UBI, if it is below the load.
    fn ubi(&self) -> Option<&Ubi<Array<S>>>;
    /// What UBI counted in the run, if there is one.
    fn stats(&self) -> Option<&Stats>;

    /// The same, to record what it is asked for.
    fn ubi_mut(&mut self) -> Option<&mut Ubi<Array<S>>>;

    /// The flash.
    fn array(&self) -> &Array<S>;

    /// Blocks that are free.
    fn free_blocks(&self) -> u32;

    /// Does the next step, with the time to the one after it. Returns the condition that ends the run, if the load
    /// meets one itself.
    fn step(&mut self, writer: &mut Cx, recorder: &mut Recorder) -> Result<Option<&'static str>, FlashRunError>;

    /// Lets UBI's background thread do what it ends before the next step, which begins at `now`.
    fn background(&mut self, thread: &mut Thread, now: Ns) -> Result<(), UbiError>;

    /// Does what belongs to the run after its last step.
    fn end(&mut self, _writer: &mut Cx) -> Result<(), FlashRunError> {
        Ok(())
    }

    /// What the load has done so far.
    fn done(&self) -> Done;

    /// Share of the load that is done, as far as that is known; 0 of a load without an end.
    fn share(&self) -> f64 {
        0.0
    }

    /// Latency of each operation.
    fn latency(&self, recorder: &Recorder) -> Vec<Latency>;

    /// What the volumes' users have done so far; `None` if the load is one file system.
    fn volumes(&self) -> Option<VolumesOutcome>;

    /// What a file system has done so far; `None` if the load is none.
    fn file_system(&self) -> Option<FileSystemOutcome> {
        None
    }

    /// Records from now on where the time of threads goes that the rig has beside the writer.
    fn record(&mut self) {}

    /// Ends the records of its threads.
    fn stop_recording(&mut self) -> Vec<(&'static str, Flame)> {
        Vec::new()
    }

    /// Returns the flash: as power left it, or, if its contents are kept, with what is written at the end.
    fn into_array(self, writer: &mut Cx, keeps: bool) -> Result<Array<S>, FlashRunError>;
}

/// Detaches UBI, with a last fastmap if the contents are kept. Returns the flash.
pub(super) fn detached<S: Store>(
    device: Ubi<Array<S>>,
    writer: &mut Cx,
    keeps: bool,
) -> Result<Array<S>, FlashRunError> {
    if !keeps {
        return Ok(device.into_flash());
    }
    let (flash, detached) = device.detach(writer);
    detached?;
    Ok(flash)
}

/// What a load has done so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    /// Steps, or writes of the volumes' users.
    pub writes: u64,
    /// Bytes of data written.
    pub host_bytes: u64,
}

/// Runs a load until a condition ends it.
fn put<S: Store, R: Rig<S>>(
    experiment: &Experiment,
    raw: &RawFlash,
    mut writer: Cx,
    mut rig: R,
    mut reports: Reports<'_>,
) -> Result<(Measured, S), FlashRunError> {
    let header_bytes = rig.ubi().map_or(0, |device| device.layout().ec_hdr_alsize);
    let mut background = Thread::new(&raw.array, header_bytes);
    let filled = rig.stats().cloned().unwrap_or_default();
    let pebs = raw.array.geometry.pebs;
    let stop = Stop::of(experiment, pebs);
    let faults = rig.array().fault_counts();
    let started = writer.now();
    let every = (u64::from(pebs) / 16).clamp(64, 4096);
    let mut recorder = Recorder::new(experiment.record.points, rig.array().programmed_bytes());
    let mut steps = 0u64;
    let may_fail = experiment.faults.is_some();
    let mut failure = None;
    let wants_flame = reports.wants_flame();
    if wants_flame {
        writer.record();
        background.record();
        rig.record();
    }
    if let (Some(_), Some(device)) = (&reports.ubi, rig.ubi_mut()) {
        device.set_record(Some(Vec::new()));
    }
    let stopped_by = loop {
        let mut step = || -> Result<Option<&'static str>, FlashRunError> {
            let ended = rig.step(&mut writer, &mut recorder)?;
            match rig.background(&mut background, writer.now()) {
                // UBI tries again later, until it has failed so often that it becomes read-only.
                Err(UbiError::Flash(_)) if may_fail => {}
                done => done?,
            }
            Ok(ended)
        };
        // Of a flash with faults the failure of UBI is a result.
        let ended = match step() {
            Err(error) if may_fail && error.is_the_devices() => {
                failure = Some(error.to_string());
                Some("failed")
            }
            ended => ended?,
        };
        steps += 1;
        if let (Some(log), Some(device)) = (&mut reports.ubi, rig.ubi_mut()) {
            ubi_log::hand_on(device, started, log);
        }
        if ended.is_some() || steps.is_multiple_of(every) {
            let elapsed = writer.now() - started;
            let (done, by) = stop.progress(rig.array().erase_counts(), rig.done(), elapsed);
            let done = rig.share().max(done);
            recorder.record(done, elapsed, &rig);
            if let Some(by) = ended.or(by) {
                break by;
            }
            let wanted = reports.is_wanted();
            if wanted || steps.is_multiple_of(every * 64) {
                let work = rig.array().erases_by_cause().total();
                let so_far = wanted.then(|| {
                    let mut recorder = recorder.clone();
                    recorder.last(elapsed, &rig);
                    measured(&filled, recorder, &rig, elapsed, "")
                });
                reports.report(Progress { done, virtual_ns: elapsed.0, work, so_far: None }, so_far);
            }
        }
    };
    let stopped_by = match if stopped_by == "failed" { Ok(()) } else { rig.end(&mut writer) } {
        Err(error) if may_fail && error.is_the_devices() => {
            failure = Some(error.to_string());
            "failed"
        }
        ended => ended.map(|()| stopped_by)?,
    };
    if let (Some(log), Some(device)) = (&mut reports.ubi, rig.ubi_mut()) {
        ubi_log::hand_on(device, started, log);
        device.set_record(None);
    }
    let elapsed = writer.now() - started;
    recorder.last(elapsed, &rig);
    let flame = wants_flame.then(|| {
        let own = [("writer", writer.stop_recording()), ("UBI", background.stop_recording())];
        let mut threads: Vec<_> = own.into_iter().filter_map(|(name, flame)| Some((name, flame?))).collect();
        threads.extend(rig.stop_recording());
        Box::new(Graph::of_threads(&threads))
    });
    let mut measured = measured(&filled, recorder, &rig, elapsed, stopped_by);
    measured.flame = flame;
    let lost = rig.volumes().map_or(0, |found| found.volumes.iter().map(|volume| u64::from(volume.lost_lebs)).sum());
    if may_fail {
        let stats = rig.stats();
        let since = |pick: fn(&Stats) -> u64| stats.map_or(0, |stats| pick(stats) - pick(&filled));
        let counts = rig.array().fault_counts().since(&faults);
        let figures = FaultFigures::new(counts, since(|stats| stats.scrubs), since(|stats| stats.retired), lost);
        figures.put(&mut measured.metrics);
        measured.faults = Some(figures);
    }
    if let Detail::Flash(found) = &mut measured.detail {
        found.failure = failure;
    }
    let flash = rig.into_array(&mut writer, S::KEEPS_BYTES && stopped_by != "failed")?;
    Ok((measured, flash.into_store()))
}

/// The conditions that end a run.
struct Stop {
    others_total: u64,
    steps: u64,
    host_bytes: u64,
    /// Virtual time, and the key that says so.
    virtual_ns: (u64, &'static str),
    max_erases: u32,
}

impl Stop {
    fn of(experiment: &Experiment, pebs: u32) -> Stop {
        let others = (pebs as usize).saturating_sub(HEAD_PEBS) as f64;
        Stop {
            others_total: (experiment.stop.mean_erases_of_others * others) as u64,
            steps: experiment.stop.steps,
            host_bytes: experiment.stop.host_bytes.unwrap_or(0),
            virtual_ns: experiment.stop.first_time().map_or((0, ""), |(seconds, key)| ((seconds * 1e9) as u64, key)),
            max_erases: experiment.stop.max_erases,
        }
    }

    /// Progress of the run, and the condition that has been met, if any.
    fn progress(&self, erase_counts: &[u32], done: Done, elapsed: Ns) -> (f64, Option<&'static str>) {
        let others: u64 = if self.others_total == 0 {
            0
        } else {
            erase_counts[HEAD_PEBS.min(erase_counts.len())..].iter().map(|&ec| u64::from(ec)).sum()
        };
        let max = if self.max_erases == 0 { 0 } else { erase_counts.iter().copied().max().unwrap_or(0) };
        let mut furthest = (0.0, None);
        for (value, limit, name) in [
            (others, self.others_total, "mean_erases_of_others"),
            (done.writes, self.steps, "steps"),
            (done.host_bytes, self.host_bytes, "host_bytes"),
            (elapsed.0, self.virtual_ns.0, self.virtual_ns.1),
            (u64::from(max), u64::from(self.max_erases), "max_erases"),
        ] {
            if limit == 0 {
                continue;
            }
            let share = value as f64 / limit as f64;
            if share > furthest.0 {
                furthest = (share, (value >= limit).then_some(name));
            }
        }
        furthest
    }
}

/// Records the run over time.
#[derive(Clone)]
pub(super) struct Recorder {
    points: f64,
    next_point: f64,
    /// Bytes programmed before the load began.
    before: CauseCounts,
    timeline: Vec<Point>,
    pub(super) latency: Histogram<u64>,
}

impl Recorder {
    fn new(points: u32, before: &CauseCounts) -> Recorder {
        Recorder {
            points: f64::from(points.clamp(2, 10_000)),
            next_point: 0.0,
            before: *before,
            timeline: Vec::new(),
            latency: Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("the bounds are valid"),
        }
    }

    /// Records writes that took `span` together.
    #[inline]
    pub(super) fn writes(&mut self, span: Ns, writes: u64) {
        self.latency.saturating_record_n((span.0 / writes).max(1), writes);
    }

    fn record<S: Store, R: Rig<S>>(&mut self, progress: f64, elapsed: Ns, rig: &R) {
        if progress >= self.next_point {
            self.next_point = progress + 1.0 / self.points;
            self.last(elapsed, rig);
        }
    }

    fn last<S: Store, R: Rig<S>>(&mut self, elapsed: Ns, rig: &R) {
        let (flash, done) = (rig.array(), rig.done());
        self.timeline.push(Point {
            t_ns: elapsed.0,
            erases: flash.erases_by_cause().total(),
            free: rig.free_blocks(),
            waf: (flash.programmed_bytes().total() - self.before.total()) as f64 / done.host_bytes.max(1) as f64,
            groups: Groups::of(flash.erase_counts()),
        });
    }
}

/// Latency of an operation.
pub(super) fn latency(op: &str, hist: &Histogram<u64>) -> Latency {
    let at = |quantile: f64| hist.value_at_quantile(quantile);
    Latency {
        op: op.to_owned(),
        count: hist.len(),
        min_ns: hist.min(),
        mean_ns: hist.mean(),
        p50_ns: at(0.5),
        p90_ns: at(0.9),
        p99_ns: at(0.99),
        p999_ns: at(0.999),
        max_ns: hist.max(),
        cdf: cdf(hist),
    }
}

/// Counts above 0 by the names of their causes.
pub(super) fn named(counts: &CauseCounts) -> Vec<(String, u64)> {
    counts.nonzero().map(|(cause, count)| (cause.name().to_owned(), count)).collect()
}

fn measured<S: Store, R: Rig<S>>(
    filled: &Stats,
    recorder: Recorder,
    rig: &R,
    elapsed: Ns,
    stopped_by: &str,
) -> Measured {
    let flash = rig.array();
    let stats = rig.stats();
    let erase_counts = flash.erase_counts().to_vec();
    let sizes = stats.map_or(&[][..], |stats| &stats.user_pool_sizes[..]);
    let last_size = sizes.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
    let found = FlashOutcome {
        steps: rig.done().writes,
        volume_lebs: rig.ubi().map_or(0, |ubi| ubi.volume_infos().map(|info| info.record.reserved_pebs).sum()),
        host_bytes: rig.done().host_bytes,
        failure: None,
        volumes: rig.volumes().map(|volumes| VolumesOutcome {
            programmed_bytes: named(&flash.programmed_bytes().since(&recorder.before)),
            ..volumes
        }),
        file_system: rig.file_system().map(|found| FileSystemOutcome {
            programmed_bytes: named(&flash.programmed_bytes().since(&recorder.before)),
            ..found
        }),
        jffs: None,
        table: WearTable::of(&erase_counts),
        groups: Groups::of(&erase_counts),
        fastmap: stats.map(|stats| figures(stats, filled)),
        user_pool_sizes: sizes[..last_size].to_vec(),
        programmed_bytes: named(flash.programmed_bytes()),
        erases_by_cause: named(flash.erases_by_cause()),
        latency: rig.latency(&recorder),
        timeline: recorder.timeline,
    };
    Measured {
        stopped_by: stopped_by.to_owned(),
        virtual_ns: elapsed.0,
        metrics: measure::of_flash(&found, &erase_counts, elapsed.0, stats),
        erase_counts,
        faults: None,
        guest: None,
        flame: None,
        detail: Detail::Flash(Box::new(found)),
    }
}

/// Figures of the load alone, without those of filling the volume.
fn figures(stats: &Stats, filled: &Stats) -> FastmapFigures {
    let since = |pick: fn(&Stats) -> u64| (pick(stats) - pick(filled)) as f64;
    let writes = since(|stats| stats.fastmap_writes).max(1.0);
    let user = since(|stats| stats.user_pebs).max(1.0);
    let sizes = |pick: fn(&Stats) -> &[u64]| -> Vec<f64> {
        pick(stats).iter().zip(pick(filled)).map(|(now, then)| (now - then) as f64).collect()
    };
    let user_sizes = sizes(|stats| &stats.user_pool_sizes[..]);
    let wl_sizes = sizes(|stats| &stats.wl_pool_sizes[..]);
    let refills: f64 = user_sizes.iter().sum::<f64>().max(1.0);
    FastmapFigures {
        writes_per_user_peb: writes / user,
        mean_user_pool: user_sizes.iter().enumerate().map(|(size, count)| size as f64 * count).sum::<f64>() / refills,
        starved_refill_share: user_sizes.iter().take(2).sum::<f64>() / refills,
        empty_wl_pool_share: wl_sizes[0] / refills,
        anchors_in_place_share: since(|stats| stats.anchors_in_place) / writes,
        data_in_place_share: since(|stats| stats.data_blocks_in_place) / writes,
        give_backs_per_write: since(|stats| stats.give_backs) / writes,
        moves_per_user_peb: since(|stats| stats.moves) / user,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stop(condition: &str) -> Stop {
        let text = format!("title = 't'\n[nand]\npebs = 128\n[stop]\n{condition}\n");
        Stop::of(&Experiment::resolve(&text, &[]).unwrap(), 128)
    }

    /// Why a run ends whose PEB 70 was erased seven times, and PEB 3 five times; its load wrote 9 MB in 40 steps and 3 s.
    fn ended(condition: &str) -> Option<&'static str> {
        let mut counts = vec![0; 128];
        (counts[70], counts[3]) = (7, 5);
        stop(condition).progress(&counts, Done { writes: 40, host_bytes: 9_000_000 }, Ns::from_s(3)).1
    }

    #[test]
    fn each_condition_looks_at_its_own_number() {
        for (met, not_met, key) in [
            ("max_erases = 7", "max_erases = 8", "max_erases"),
            ("steps = 40", "steps = 41", "steps"),
            ("host_bytes = 9_000_000", "host_bytes = 9_000_001", "host_bytes"),
            ("virtual_s = 3.0", "virtual_s = 3.1", "virtual_s"),
            // Seven erasures of the 64 PEBs outside the first 64.
            ("mean_erases_of_others = 0.109375", "mean_erases_of_others = 0.125", "mean_erases_of_others"),
        ] {
            assert_eq!((ended(met), ended(not_met)), (Some(key), None), "{key}");
        }
    }
}
