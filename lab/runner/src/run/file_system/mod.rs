//! A file system as the load of raw flash: makes it on a volume, and does on it what a program does.
//!
//! Operations follow one another: each ends before the next one begins, whichever process it is of. Between them the file
//! system's threads, each with a clock of its own, write what has waited long enough and commit (`mounted.rs`). UBI's
//! thread works beside all of them (`beside.rs`).

mod beside;
pub(super) mod jffs1;
mod mounted;
mod repeat;

use std::collections::{BTreeMap, VecDeque};

use fs::ubifs::{Counters, Ubifs, Written};
use hdrhistogram::Histogram;
use nand::{Array, Store};
use sim::seam::{FsError, LebVolume};
use sim::{Cause, CauseCounts, Cx, Flame, Ns, Seed};
use ubi::block::OnUbi;
use ubi::{Ubi, UbiError, VolumeRequest, VolumeSize};
use workload::file::fio::FioFile;
use workload::file::logger::Logger;
use workload::file::postmark::Postmark;
use workload::file::strace::Replay;
use workload::file::sysbench::FileIo;
use workload::file::{FileOp, FileStep};
use workload::fsstress::{self, Fsstress};

use self::beside::Beside;
use self::mounted::{Mounted, Use};
use self::repeat::{Recording, Repeat};
use super::flash::{Done, FlashRunError, Recorder, Rig, latency, named};
use super::thread::Thread;
use crate::measure::outcome::file_system::{FileSystemOutcome, Operations, PageCacheOutcome, Throughput, errno_name};
use crate::measure::outcome::flash::{Latency, VolumesOutcome};
use crate::schema::Experiment;
use crate::subject::{FileLoad, FileSystem, RawFlash};

/// Why nothing is asked in between.
const GONE: &str = "a file system is between two places only within a call";
/// Name of the volume.
const VOLUME: &str = "data";
/// A minute.
const MINUTE: Ns = Ns(60_000_000_000);

/// A program under way.
enum Program {
    /// fsstress's processes that have operations left, the one that waits longest first, with the time since when.
    Fsstress(VecDeque<(Fsstress, Ns)>),
    Postmark(Box<Postmark>),
    Sysbench(Box<FileIo>),
    Strace(Box<Replay>),
    Logger(Box<Logger>),
    /// fio's processes, as those of fsstress.
    Fio(VecDeque<(FioFile, Ns)>),
}

impl Program {
    /// Whether what comes before its measurement is done.
    fn is_prepared(&self) -> bool {
        match self {
            Program::Fsstress(_) | Program::Postmark(_) => true,
            Program::Sysbench(load) => load.is_prepared(),
            Program::Strace(load) => load.is_prepared(),
            Program::Logger(load) => load.is_prepared(),
            Program::Fio(processes) => processes.iter().all(|(process, _)| process.is_prepared()),
        }
    }

    /// When the next operation is due; `None` at once.
    fn due(&self) -> Option<Ns> {
        match self {
            Program::Strace(load) => load.due(),
            Program::Logger(load) => load.due(),
            Program::Fsstress(_) | Program::Postmark(_) | Program::Sysbench(_) | Program::Fio(_) => None,
        }
    }

    /// Its processes are ready for their next operation.
    fn ready(&mut self, now: Ns) {
        match self {
            Program::Fsstress(processes) => processes.iter_mut().for_each(|(_, ready)| *ready = now),
            Program::Fio(processes) => processes.iter_mut().for_each(|(_, ready)| *ready = now),
            Program::Postmark(_) | Program::Sysbench(_) | Program::Strace(_) | Program::Logger(_) => {}
        }
    }
}

/// An operation that was done.
struct Step {
    op: &'static str,
    /// Since when its process was ready for it.
    ready: Ns,
    outcome: fsstress::Outcome,
    read: u64,
    written: u64,
    /// When the measurement of throughput began, if this is part of it.
    counted_from: Option<Ns>,
}

/// A step of a program whose process was ready for it at a time.
struct NextStep<'a>(&'a mut Program, &'a mut Cx, Ns);

impl Use<Option<Step>> for NextStep<'_> {
    /// Does the next operation; `None` after the last.
    fn of<F: sim::seam::FileSystem>(self, fs: &mut F) -> Option<Step> {
        let NextStep(program, cx, ready) = self;
        match program {
            Program::Fsstress(processes) => loop {
                let (mut process, ready) = processes.pop_front()?;
                let Some(fsstress::Step { op, outcome, read, written, .. }) = process.step(fs, cx) else { continue };
                processes.push_back((process, cx.now()));
                return Some(Step { op: op.name(), ready, outcome, read, written, counted_from: None });
            },
            Program::Postmark(load) => load.step(fs, cx).map(|step| Step::of(step, ready)),
            Program::Sysbench(load) => load.step(fs, cx).map(|step| Step::of(step, ready)),
            Program::Strace(load) => load.step(fs, cx).map(|step| Step::of(step, ready)),
            Program::Logger(load) => load.step(fs, cx).map(|step| Step::of(step, ready)),
            // Before the run each process sets its file up, one after another.
            Program::Fio(processes) if !processes.iter().all(|(process, _)| process.is_prepared()) => {
                let (process, _) = processes.iter_mut().find(|(process, _)| !process.is_prepared())?;
                process.step(fs, cx).map(|step| Step::of(step, ready))
            }
            Program::Fio(processes) => loop {
                let (mut process, ready) = processes.pop_front()?;
                let Some(step) = process.step(fs, cx) else { continue };
                let counted_from = process.counted_from().filter(|&from| cx.now() >= from);
                processes.push_back((process, cx.now()));
                return Some(Step { counted_from, ..Step::of(step, ready) });
            },
        }
    }
}

impl Step {
    fn of(step: FileStep, ready: Ns) -> Step {
        let (op, reads, writes) = match step.op {
            FileOp::Create => ("create", false, true),
            FileOp::Remove => ("remove", false, false),
            FileOp::Mkdir => ("mkdir", false, false),
            FileOp::Rmdir => ("rmdir", false, false),
            FileOp::Read => ("read", true, false),
            FileOp::Write => ("write", false, true),
            FileOp::Append => ("append", false, true),
            FileOp::Fsync => ("fsync", false, false),
            FileOp::Fdatasync => ("fdatasync", false, false),
            FileOp::Sync => ("sync", false, false),
            FileOp::Open => ("open", false, false),
            FileOp::Close => ("close", false, false),
            FileOp::Truncate => ("truncate", false, false),
            FileOp::Rename => ("rename", false, false),
        };
        let bytes = if step.result.is_ok() { step.bytes } else { 0 };
        let outcome = match step.result {
            Ok(()) => fsstress::Outcome::Done,
            Err(error) => fsstress::Outcome::Failed(error),
        };
        let of = |counts| if counts { bytes } else { 0 };
        Step { op, ready, outcome, read: of(reads), written: of(writes), counted_from: None }
    }
}

/// Operations of one kind.
#[derive(Clone)]
struct Kind {
    latency: Histogram<u64>,
    done: u64,
    nothing: u64,
    refused: u64,
    failed: u64,
    /// Operations during which a fastmap was written, and the longest of the others.
    with_fastmap: u64,
    longest_without: Ns,
}

impl Kind {
    fn new() -> Kind {
        let latency = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("the bounds are valid");
        Kind { latency, done: 0, nothing: 0, refused: 0, failed: 0, with_fastmap: 0, longest_without: Ns::ZERO }
    }
}

/// Brings the load to where its measurement begins.
struct Prepare<'a>(&'a FileLoad, Seed, &'a mut Cx);

impl Use<Result<Program, FsError>> for Prepare<'_> {
    fn of<F: sim::seam::FileSystem>(self, fs: &mut F) -> Result<Program, FsError> {
        let Prepare(load, seed, cx) = self;
        match load {
            FileLoad::Fsstress(processes, options) => {
                let made = (0..*processes).map(|process| Fsstress::new(fs, cx, options, process));
                let made = made.collect::<Result<Vec<_>, _>>()?;
                Ok(Program::Fsstress(made.into_iter().map(|process| (process, Ns::ZERO)).collect()))
            }
            FileLoad::Postmark(options) => Ok(Program::Postmark(Box::new(Postmark::new(options)))),
            FileLoad::Sysbench(options) => Ok(Program::Sysbench(Box::new(FileIo::new(options, seed)?))),
            FileLoad::Strace(options, trace) => {
                let trace = trace.clone().ok_or(FsError::Invalid { why: "the trace of strace was not given" })?;
                Ok(Program::Strace(Box::new(Replay::new(trace, *options, seed))))
            }
            FileLoad::Logger(options) => Ok(Program::Logger(Box::new(Logger::new(options, seed)?))),
            FileLoad::Fio(job) => {
                let made = (0..job.numjobs).map(|clone| FioFile::new(job, clone, seed));
                let made = made.map(|process| process.expect("the experiment was checked"));
                Ok(Program::Fio(made.map(|process| (process, Ns::ZERO)).collect()))
            }
        }
    }
}

/// Where the file system is.
enum Place<S: Store> {
    Mounted(Box<Mounted<Beside<S>>>),
    Unmounted(Box<Beside<S>>),
    /// What it did is repeated.
    Repeating(Box<Repeat<S>>),
    /// On its way from one of these to another.
    Gone,
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
    kinds: BTreeMap<&'static str, Kind>,
    failed: BTreeMap<i32, u64>,
    operations: u64,
    /// Operations that were repeated.
    repeated: u64,
    written: u64,
    read: u64,
    /// fio: what was done after the ramp.
    counted: Option<Throughput>,
    /// The file system's counters before the load, and at the end of it.
    before: Books,
    after: Option<Books>,
    /// What was written to the volume before.
    volume_before: CauseCounts,
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
        mut device: Ubi<Array<S>>,
        cx: &mut Cx,
    ) -> Result<Files<'a, S>, FlashRunError> {
        if S::KEEPS_BYTES && !of.may_keep_bytes() {
            return Err(FlashRunError::HasNoBytes);
        }
        let vol_id = device.create_volume(cx, &VolumeRequest::dynamic(VOLUME, VolumeSize::Lebs(of.lebs)))?;
        let volume = OnUbi::open(device, cx, vol_id).map_err(|failure| failure.error)?;
        let setup = |error: FsError| FlashRunError::SetUp { error: error.to_string() };
        let thread = Thread::new(&flash.array, volume.ubi().layout().ec_hdr_alsize);
        let volume = Beside::new(volume, thread, experiment.faults.is_some());
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
        let mut files = Files {
            of,
            before: Books::of(&fs),
            volume_before: fs.ubifs().volume().written(),
            place: Place::Mounted(Box::new(fs)),
            program,
            queued: cx.now(),
            kinds: BTreeMap::new(),
            failed: BTreeMap::new(),
            operations: 0,
            repeated: 0,
            written: 0,
            read: 0,
            counted: None,
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

    fn error(&self, error: FsError) -> FlashRunError {
        FlashRunError::FileSystem { operation: self.operations, error }
    }

    /// Begins the record that is repeated, or ends it, if it is time.
    fn turn_over(&mut self, now: Ns) {
        let Some(repeat) = self.of.repeat else { return };
        let Place::Mounted(fs) = &mut self.place else { return };
        if self.operations == repeat.after {
            let volume = fs.volume_mut();
            volume.recording = Some(Box::new(Recording::new(volume, now)));
        } else if self.operations == repeat.after + repeat.operations {
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

    /// Books an operation, during which fastmaps were written or not. Errors: one of the medium, after which the file system only reads.
    fn book(&mut self, step: Step, ended: Ns, has_fastmap: bool) -> Result<(), FlashRunError> {
        let Step { op, ready, outcome, read, written, counted_from } = step;
        let kind = self.kinds.entry(op).or_insert_with(Kind::new);
        // What the file system did not see took no time of it.
        if matches!(outcome, fsstress::Outcome::Done | fsstress::Outcome::Failed(_)) {
            kind.latency.saturating_record((ended - ready).0.max(1));
            match has_fastmap {
                true => kind.with_fastmap += 1,
                false => kind.longest_without = kind.longest_without.max(ended - ready),
            }
        }
        self.operations += 1;
        self.read += read;
        self.written += written;
        if let Some(from) = counted_from {
            let counted = self.counted.get_or_insert_default();
            counted.read_bytes += read;
            counted.written_bytes += written;
            // Processes begin one after another.
            counted.ns = counted.ns.max((ended - from).0);
        }
        match outcome {
            fsstress::Outcome::Done => kind.done += 1,
            fsstress::Outcome::Nothing => kind.nothing += 1,
            fsstress::Outcome::Refused => kind.refused += 1,
            fsstress::Outcome::Failed(error) => {
                kind.failed += 1;
                *self.failed.entry(error.errno()).or_default() += 1;
                if matches!(error, FsError::Medium(_) | FsError::Corrupt { .. } | FsError::ReadOnly { .. }) {
                    return Err(self.error(error));
                }
            }
        }
        Ok(())
    }
}

impl<S: Store> Rig<S> for Files<'_, S> {
    fn device(&self) -> &Ubi<Array<S>> {
        self.volume().ubi()
    }

    fn step(&mut self, writer: &mut Cx, _: &mut Recorder) -> Result<Option<&'static str>, FlashRunError> {
        self.turn_over(writer.now());
        let fs = match &mut self.place {
            Place::Mounted(fs) => fs,
            Place::Repeating(repeat) => {
                let step = self.operations + self.repeated;
                let done = repeat.step(writer);
                writer.file("repeat");
                let done = done.map_err(|error| FlashRunError::Leb { step, error })?;
                self.repeated += done.operations;
                self.written += done.written;
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
        if let Some(recording) = &mut fs.volume_mut().recording {
            recording.operation(writer.now(), step.written);
        }
        self.book(step, writer.now(), has_fastmap)?;
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
        if !self.of.unmount {
            return Ok(());
        }
        let Place::Mounted(fs) = &mut self.place else { return Ok(()) };
        let done = fs.finish(writer);
        writer.file("unmount");
        self.after = Some(Books::of(fs));
        done.map_err(|error| self.error(error))?;
        if let Place::Mounted(fs) = std::mem::replace(&mut self.place, Place::Gone) {
            self.place = Place::Unmounted(Box::new(fs.lose_power()));
        }
        Ok(())
    }

    fn done(&self) -> Done {
        Done { writes: self.operations + self.repeated, host_bytes: self.written }
    }

    fn share(&self) -> f64 {
        let all = self.of.load.operations().unwrap_or(u64::MAX);
        (self.operations as f64 / all as f64).min(1.0)
    }

    fn latency(&self, _: &Recorder) -> Vec<Latency> {
        let timed = self.kinds.iter().filter(|(_, kind)| !kind.latency.is_empty());
        timed.map(|(op, kind)| latency(op, &kind.latency)).collect()
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
        let operations = self.kinds.iter().map(|(op, kind)| Operations {
            op: (*op).to_owned(),
            done: kind.done,
            nothing: kind.nothing,
            refused: kind.refused,
            failed: kind.failed,
            with_fastmap: kind.with_fastmap,
            max_without_fastmap_ns: if kind.with_fastmap > 0 { kind.longest_without.0 } else { 0 },
        });
        let failed = self.failed.iter().map(|(&errno, &count)| (errno_name(errno).to_owned(), count));
        Some(FileSystemOutcome {
            kind: "ubifs".to_owned(),
            load: self.of.load.name().to_owned(),
            lebs: self.of.lebs,
            operations: operations.collect(),
            failed: failed.collect(),
            repeated_operations: self.repeated,
            written_bytes: self.written,
            read_bytes: self.read,
            throughput: self.counted,
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
            page_cache: now.cache.map(|now| PageCacheOutcome::new(&now, &self.before.cache.unwrap_or_default())),
            written_parts: written.nonzero().map(|(part, bytes)| (part.name().to_owned(), bytes)).collect(),
            volume_bytes: named(&self.volume().written().since(&self.volume_before)),
            programmed_bytes: Vec::new(),
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
        let thread = match &mut self.place {
            Place::Mounted(fs) => {
                flames.extend(fs.stop_recording());
                fs.volume_mut().thread_mut()
            }
            Place::Unmounted(volume) => volume.thread_mut(),
            Place::Repeating(repeat) => repeat.volume_mut().thread_mut(),
            Place::Gone => return flames,
        };
        flames.extend(thread.stop_recording().map(|flame| ("UBI", flame)));
        flames
    }

    fn into_device(self) -> Ubi<Array<S>> {
        match self.place {
            Place::Mounted(fs) => fs.lose_power().into_ubi(),
            Place::Unmounted(volume) => volume.into_ubi(),
            Place::Repeating(repeat) => repeat.into_volume().into_ubi(),
            Place::Gone => unreachable!("{GONE}"),
        }
    }
}
