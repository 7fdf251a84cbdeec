//! A file system as the load of raw flash: makes it on a volume, and does on it what a program does.
//!
//! Operations follow one another: each ends before the next one begins, whichever process it is of. Between them the file
//! system's threads, each with a clock of its own, write what has waited long enough and commit (`mounted.rs`). UBI's
//! thread works beside all of them (`beside.rs`).

mod beside;
pub(super) mod counted;
pub(super) mod device;
mod gc;
mod ground;
mod jffs;
pub(super) mod jffs1;
mod mounted;
pub(super) mod on_flash;
pub(super) mod program;
mod repeat;

use fs::jffs2::Gluebi;
use fs::ubifs::{Counters, Ubifs, Written};
use nand::{Array, Store};
use sim::seam::{FsError, LebVolume};
use sim::{Cause, CauseCounts, Cx, Flame, Ns, Seed, VolId};
use ubi::block::OnUbi;
use ubi::{Stats, Ubi, UbiError, VolumeRequest, VolumeSize};
use workload::fsstress;

use self::beside::Beside;
use self::counted::Counted;
use self::gc::{By, Gc};
use self::mounted::Mounted;
use self::program::{NextStep, Prepare, Program};
use self::repeat::{Recording, Repeat};
use super::flash::{Done, FlashRunError, Recorder, Rig, detached, named};
use super::thread::Thread;
use crate::measure::outcome::file_system::{FileSystemOutcome, PageCacheOutcome};
use crate::measure::outcome::flash::{Latency, VolumesOutcome};
use crate::measure::outcome::gc::{MountOutcome, Split};
use crate::schema::Experiment;
use crate::subject::{FileSystem, RawFlash};

/// Why nothing is asked in between.
const GONE: &str = "a file system is between two places only within a call";
/// Name of the volume.
const VOLUME: &str = "data";
/// A minute.
const MINUTE: Ns = Ns(60_000_000_000);

/// Where the file system is.
enum Place<S: Store> {
    Mounted(Box<Mounted<Beside<S>>>),
    Unmounted(Box<Beside<S>>),
    /// What it did is repeated.
    Repeating(Box<Repeat<S>>),
    /// On its way from one of these to another.
    Gone,
}

/// Makes the volume, and UBI's thread beside it.
/// Errors: those of UBI.
fn volume<S: Store>(
    experiment: &Experiment,
    flash: &RawFlash,
    mut device: Ubi<Array<S>>,
    lebs: u32,
    cx: &mut Cx,
) -> Result<(Beside<S>, VolId), FlashRunError> {
    let vol_id = device.create_volume(cx, &VolumeRequest::dynamic(VOLUME, VolumeSize::Lebs(lebs)))?;
    let volume = OnUbi::open(device, cx, vol_id).map_err(|failure| failure.error)?;
    let thread = Thread::new(&flash.array, volume.ubi().layout().ec_hdr_alsize);
    Ok((Beside::new(volume, thread, experiment.faults.is_some()), vol_id))
}

/// A volume for JFFS2.
/// Errors: those of UBI.
pub(super) fn as_flash<S: Store>(
    experiment: &Experiment,
    flash: &RawFlash,
    device: Ubi<Array<S>>,
    lebs: u32,
    cx: &mut Cx,
) -> Result<Gluebi<Beside<S>>, FlashRunError> {
    volume(experiment, flash, device, lebs, cx).map(|(volume, _)| Gluebi::new(volume))
}

/// What the layers did.
#[derive(Clone, Copy, Default)]
struct Books {
    ubifs: Counters,
    written: Written,
    background: u64,
    cache: Option<fs::cache::Counters>,
}

impl Books {
    fn of<V: LebVolume>(fs: &Mounted<V>) -> Books {
        Books {
            ubifs: *fs.counters(),
            written: *fs.ubifs().written(),
            background: fs.background_commits(),
            cache: fs.cache().copied(),
        }
    }
}

/// A file system with a program on it.
pub(super) struct Files<'a, S: Store> {
    of: &'a FileSystem,
    place: Place<S>,
    program: Program,
    /// When the last operation ended.
    queued: Ns,
    counted: Counted,
    gc: Gc,
    /// The mount after the run, if there was one.
    mounts: Vec<MountOutcome>,
    ubi: &'a ubi::Config,
    vol_id: VolId,
    /// The file system's counters before the load, and at the end of it.
    before: Books,
    after: Option<Books>,
    /// What was written to the volume before.
    volume_before: CauseCounts,
    /// What UBI counted, and what was written to the volume, before it was mounted again.
    before_mount: Option<Box<(Stats, CauseCounts)>>,
    free_bytes: Option<u64>,
    /// Records of the file system's threads that have ended.
    flames: Vec<(&'static str, Flame)>,
}

impl<'a, S: Store> Files<'a, S> {
    /// Makes the volume, formats and mounts it, and brings the load to where its measurement begins.
    /// Errors: a store with bytes for a load without; those of device and file system.
    pub fn make(
        experiment: &Experiment,
        flash: &'a RawFlash,
        of: &'a FileSystem,
        device: Ubi<Array<S>>,
        cx: &mut Cx,
    ) -> Result<Files<'a, S>, FlashRunError> {
        if S::KEEPS_BYTES && !of.may_keep_bytes() {
            return Err(FlashRunError::HasNoBytes);
        }
        let (volume, vol_id) = volume(experiment, flash, device, of.lebs, cx)?;
        let setup = |error: FsError| FlashRunError::SetUp { error: error.to_string() };
        let fs = cx.because(Cause::Layout, |cx| Ubifs::format(volume, cx, &of.format, of.mount));
        let fs = fs.map_err(|error| setup(error.into()))?;
        // Times of files are whole seconds, and threads look every few of them: what follows is the same however long
        // the attach took.
        cx.wait_until(Ns((cx.now() + flash.shelf).0.next_multiple_of(MINUTE.0)));
        let mut fs = Mounted::new(fs, of.cache, cx.now());
        let mut program = fs.with(Prepare(&of.load, Seed(experiment.seed), cx)).map_err(setup)?;
        while !program.is_prepared() {
            let Some(step) = fs.with(NextStep(&mut program, cx, cx.now())) else { break };
            if let fsstress::Outcome::Failed(error) = step.outcome {
                return Err(setup(error));
            }
            fs.wake(cx.now(), cx.now()).map_err(setup)?;
        }
        fs.sync(cx).map_err(setup)?;
        cx.wait_until(fs.idle_from());
        fs.keep_passes();
        cx.keep_passes();
        let mut files = Files {
            of,
            gc: Gc::new(cx.now()),
            mounts: Vec::new(),
            ubi: &flash.ubi,
            vol_id,
            before: Books::of(&fs),
            volume_before: fs.ubifs().volume().written(),
            place: Place::Mounted(Box::new(fs)),
            before_mount: None,
            program,
            queued: cx.now(),
            counted: Counted::default(),
            after: None,
            free_bytes: None,
            flames: Vec::new(),
        };
        files.program.ready(cx.now());
        Ok(files)
    }

    /// The volume, wherever the file system is.
    fn volume(&self) -> &Beside<S> {
        match &self.place {
            Place::Mounted(fs) => fs.ubifs().volume(),
            Place::Unmounted(volume) => volume,
            Place::Repeating(repeat) => repeat.volume(),
            Place::Gone => unreachable!("{GONE}"),
        }
    }

    /// The same, to change it; `None` on its way.
    fn volume_mut(&mut self) -> Option<&mut Beside<S>> {
        match &mut self.place {
            Place::Mounted(fs) => Some(fs.volume_mut()),
            Place::Unmounted(volume) => Some(volume),
            Place::Repeating(repeat) => Some(repeat.volume_mut()),
            Place::Gone => None,
        }
    }

    fn error(&self, error: FsError) -> FlashRunError {
        FlashRunError::FileSystem { operation: self.counted.operations, error }
    }

    /// Begins the record that is repeated, or ends it, if it is time.
    fn turn_over(&mut self, now: Ns) {
        let Some(repeat) = self.of.repeat else { return };
        let Place::Mounted(fs) = &mut self.place else { return };
        if self.counted.operations == repeat.after {
            let volume = fs.volume_mut();
            volume.recording = Some(Box::new(Recording::new(volume, now)));
        } else if self.counted.operations == repeat.after + repeat.operations {
            let Some(record) = fs.volume_mut().recording.take().and_then(|recording| recording.end(now)) else {
                return;
            };
            self.after = Some(Books::of(fs));
            self.flames.extend(fs.stop_recording());
            if let Place::Mounted(fs) = std::mem::replace(&mut self.place, Place::Gone) {
                self.place = Place::Repeating(Box::new(Repeat::new(fs.lose_power(), record)));
            }
        }
    }
}

impl<S: Store> Files<'_, S> {
    /// Attaches the flash and mounts the file system once more.
    fn mount_again(&mut self, writer: &mut Cx) -> Result<(), FlashRunError> {
        let Place::Unmounted(volume) = std::mem::replace(&mut self.place, Place::Gone) else { return Ok(()) };
        self.before_mount = Some(Box::new((volume.ubi().stats().clone(), volume.written())));
        let (mut device, thread, may_fail) = volume.into_parts();
        let record = device.take_record();
        let array = detached(device, writer, self.of.unmount)?;
        let began = writer.now();
        let mut device = Ubi::attach(array, writer, self.ubi).map_err(|failure| failure.error)?;
        device.set_record(record);
        let attached = writer.now();
        let volume = OnUbi::open(device, writer, self.vol_id).map_err(|failure| failure.error)?;
        let fs = Ubifs::mount(Beside::new(volume, thread, may_fail), writer, self.of.mount);
        let fs = fs.map_err(|error| self.error(error.into()))?;
        writer.file("mount");
        let parts = [("attach", attached - began), ("mount", writer.now() - attached)];
        let parts = parts.map(|(part, span)| (part.to_owned(), span.0)).to_vec();
        self.mounts.push(MountOutcome { name: "last".to_owned(), parts });
        self.place = Place::Unmounted(Box::new(fs.lose_power()));
        Ok(())
    }
}

impl<S: Store> Rig<S> for Files<'_, S> {
    fn ubi(&self) -> Option<&Ubi<Array<S>>> {
        Some(self.volume().ubi())
    }

    fn ubi_mut(&mut self) -> Option<&mut Ubi<Array<S>>> {
        self.volume_mut().map(Beside::ubi_mut)
    }

    fn stats(&self) -> Option<&Stats> {
        Some(self.before_mount.as_ref().map_or_else(|| self.volume().ubi().stats(), |before| &before.0))
    }

    fn array(&self) -> &Array<S> {
        self.volume().ubi().flash()
    }

    fn free_blocks(&self) -> u32 {
        self.volume().ubi().wear().free().len()
    }

    fn step(&mut self, writer: &mut Cx, _: &mut Recorder) -> Result<Option<&'static str>, FlashRunError> {
        self.turn_over(writer.now());
        let fs = match &mut self.place {
            Place::Mounted(fs) => fs,
            Place::Repeating(repeat) => {
                let step = self.counted.operations + self.counted.repeated;
                let done = repeat.step(writer);
                writer.file("repeat");
                let done = done.map_err(|error| FlashRunError::Leb { step, error })?;
                self.counted.repeated += done.operations;
                self.counted.written += done.written;
                return Ok(None);
            }
            Place::Unmounted(_) | Place::Gone => return Ok(Some("workload")),
        };
        self.program.due().into_iter().for_each(|due| writer.idle_until(due));
        let ready = writer.now();
        writer.spend(self.of.operation);
        if let Err(error) = fs.wake(self.queued, writer.now()) {
            return Err(self.error(error));
        }
        let fastmaps = fs.volume_mut().ubi().stats().fastmap_writes;
        let Some(step) = fs.with(NextStep(&mut self.program, writer, ready)) else { return Ok(Some("workload")) };
        let has_fastmap = fs.volume_mut().ubi().stats().fastmap_writes > fastmaps;
        writer.spend(self.of.mount.cpu.copy(step.read + step.written));
        self.queued = writer.now();
        writer.file(step.op);
        let mut waited = Split::default();
        for pass in writer.take_passes() {
            waited = waited.plus(pass.spent.into());
            self.gc.pass(By::Writer, &pass);
        }
        self.gc.stall(step.op, ready, waited);
        fs.take_passes().for_each(|pass| self.gc.pass(By::Thread, &pass));
        self.gc.space(writer.now(), fs.ubifs().free_and_dirty());
        if let Some(recording) = &mut fs.volume_mut().recording {
            recording.operation(writer.now(), step.written);
        }
        self.counted.add(step, writer.now(), has_fastmap).map_err(|error| self.error(error))?;
        Ok(None)
    }

    fn background(&mut self, _: &mut Thread, now: Ns) -> Result<(), UbiError> {
        match &mut self.place {
            Place::Mounted(fs) => fs.volume_mut().run_until(now),
            Place::Repeating(repeat) => repeat.volume_mut().run_until(now),
            Place::Unmounted(_) | Place::Gone => Ok(()),
        }
    }

    /// Writes everything, and unmounts if that is wanted.
    fn end(&mut self, writer: &mut Cx) -> Result<(), FlashRunError> {
        let Place::Mounted(fs) = &mut self.place else { return Ok(()) };
        writer.idle_until(fs.idle_from());
        let done = if self.of.unmount { fs.sync(writer) } else { Ok(()) };
        let free = done.and_then(|()| fs.statfs(writer));
        writer.file("sync");
        self.after = Some(Books::of(fs));
        self.flames.extend(fs.stop_recording());
        let free = free.map_err(|error| self.error(error))?;
        self.free_bytes = Some(free.free * u64::from(free.block_bytes));
        let Place::Mounted(fs) = &mut self.place else { return Ok(()) };
        if self.of.unmount {
            let done = fs.finish(writer);
            writer.file("unmount");
            self.after = Some(Books::of(fs));
            done.map_err(|error| self.error(error))?;
        }
        if (self.of.unmount || self.of.mount_again)
            && let Place::Mounted(fs) = std::mem::replace(&mut self.place, Place::Gone)
        {
            self.place = Place::Unmounted(Box::new(fs.lose_power()));
        }
        if self.of.mount_again { self.mount_again(writer) } else { Ok(()) }
    }

    fn done(&self) -> Done {
        Done { writes: self.counted.operations + self.counted.repeated, host_bytes: self.counted.written }
    }

    fn share(&self) -> f64 {
        let all = self.of.load.operations().unwrap_or(u64::MAX);
        (self.counted.operations as f64 / all as f64).min(1.0)
    }

    fn latency(&self, _: &Recorder) -> Vec<Latency> {
        self.counted.latency()
    }

    fn volumes(&self) -> Option<VolumesOutcome> {
        None
    }

    fn file_system(&self) -> Option<FileSystemOutcome> {
        let now = match (&self.after, &self.place) {
            (Some(after), _) => *after,
            (None, Place::Mounted(fs)) => Books::of(fs),
            (None, _) => self.before,
        };
        let since = |of: fn(&Counters) -> u64| of(&now.ubifs) - of(&self.before.ubifs);
        let written = now.written.since(&self.before.written);
        let written_to_volume = self.before_mount.as_ref().map_or_else(|| self.volume().written(), |before| before.1);
        Some(FileSystemOutcome {
            lebs: self.of.lebs,
            data_bytes: since(|counters| counters.data_bytes),
            data_nodes: since(|counters| counters.data_nodes),
            commits: since(|counters| counters.commits),
            commits_required: since(|counters| counters.commits_required),
            commits_background: now.background - self.before.background,
            collected_lebs: since(|counters| counters.collected),
            moved_bytes: since(|counters| counters.moved_bytes),
            collected_index_lebs: since(|counters| counters.collected_index),
            index_nodes: since(|counters| counters.index_nodes),
            index_nodes_in_gaps: since(|counters| counters.index_nodes_in_gaps),
            free_bytes: self.free_bytes,
            gc: Some(self.gc.outcome()),
            mounts: self.mounts.clone(),
            page_cache: now.cache.map(|now| PageCacheOutcome::new(&now, &self.before.cache.unwrap_or_default())),
            written_parts: written.nonzero().map(|(part, bytes)| (part.name().to_owned(), bytes)).collect(),
            volume_bytes: named(&written_to_volume.since(&self.volume_before)),
            ..self.counted.outcome("ubifs", self.of.load.name())
        })
    }

    fn record(&mut self) {
        match &mut self.place {
            Place::Mounted(fs) => {
                fs.record();
                fs.volume_mut().thread_mut().record();
            }
            Place::Unmounted(_) | Place::Repeating(_) | Place::Gone => {}
        }
    }

    fn stop_recording(&mut self) -> Vec<(&'static str, Flame)> {
        let mut flames = std::mem::take(&mut self.flames);
        if let Place::Mounted(fs) = &mut self.place {
            flames.extend(fs.stop_recording());
        }
        let thread = self.volume_mut().and_then(|volume| volume.thread_mut().stop_recording());
        flames.extend(thread.map(|flame| ("UBI", flame)));
        flames
    }

    fn into_array(self, writer: &mut Cx, keeps: bool) -> Result<Array<S>, FlashRunError> {
        let device = match self.place {
            Place::Mounted(fs) => fs.lose_power().into_ubi(),
            Place::Unmounted(volume) => volume.into_ubi(),
            Place::Repeating(repeat) => repeat.into_volume().into_ubi(),
            Place::Gone => unreachable!("{GONE}"),
        };
        detached(device, writer, keeps)
    }
}
