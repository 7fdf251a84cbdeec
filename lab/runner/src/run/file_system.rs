//! A file system as the load of raw flash: makes it on a volume, and does on it what a program does.
//!
//! Operations follow one another: each ends before the next one begins, whichever process it is of. Between them the file
//! system's background thread, which has a clock of its own, writes what has waited long enough and commits. UBI's
//! thread is the third actor.

use std::collections::{BTreeMap, VecDeque};

use fs::ubifs::mkfs::{Attributes, Mkfs, MkfsError};
use fs::ubifs::{Counters, Ubifs};
use hdrhistogram::Histogram;
use nand::{Array, Store};
use sim::seam::{FileSystem as _, FsError, LebVolume, Payload};
use sim::{Cause, Cx, Ns, Seed, VolId};
use ubi::block::OnUbi;
use ubi::{Ubi, UbiError, VolumeRequest, VolumeSize};
use workload::file::postmark::Postmark;
use workload::file::sysbench::FileIo;
use workload::file::{FileOp, FileStep};
use workload::fsstress::{self, Fsstress};

use super::flash::{Done, FlashRunError, Recorder, Rig, latency};
use super::thread::Thread;
use crate::measure::outcome::file_system::{FileSystemOutcome, Operations, errno_name};
use crate::measure::outcome::flash::{Latency, VolumesOutcome};
use crate::schema::Experiment;
use crate::subject::{FileLoad, FileSystem, RawFlash};

/// Name of the volume.
const VOLUME: &str = "data";

/// A program under way.
enum Program {
    /// fsstress's processes that have operations left, the one that waits longest first, with the time since when.
    Fsstress(VecDeque<(Fsstress, Ns)>),
    Postmark(Box<Postmark>),
    Sysbench(Box<FileIo>),
}

/// An operation that was done.
struct Step {
    op: &'static str,
    /// Since when its process was ready for it.
    ready: Ns,
    outcome: fsstress::Outcome,
    read: u64,
    written: u64,
}

impl Program {
    /// Does the next operation; `None` after the last.
    fn step<F: sim::seam::FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, ready: Ns) -> Option<Step> {
        match self {
            Program::Fsstress(processes) => loop {
                let (mut process, ready) = processes.pop_front()?;
                let Some(fsstress::Step { op, outcome, read, written, .. }) = process.step(fs, cx) else { continue };
                processes.push_back((process, cx.now()));
                return Some(Step { op: op.name(), ready, outcome, read, written });
            },
            Program::Postmark(load) => load.step(fs, cx).map(|step| Step::of(step, ready)),
            Program::Sysbench(load) => load.step(fs, cx).map(|step| Step::of(step, ready)),
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
        };
        let bytes = if step.result.is_ok() { step.bytes } else { 0 };
        let outcome = match step.result {
            Ok(()) => fsstress::Outcome::Done,
            Err(error) => fsstress::Outcome::Failed(error),
        };
        let of = |counts| if counts { bytes } else { 0 };
        Step { op, ready, outcome, read: of(reads), written: of(writes) }
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
}

impl Kind {
    fn new() -> Kind {
        let latency = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("the bounds are valid");
        Kind { latency, done: 0, nothing: 0, refused: 0, failed: 0 }
    }
}

/// Where the file system is.
enum Place<S: Store> {
    Mounted(Box<Ubifs<OnUbi<Array<S>>>>),
    Unmounted(Box<OnUbi<Array<S>>>),
    /// An unmount that failed took it.
    Gone,
}

/// A file system with a program on it.
pub(super) struct Files<'a, S: Store> {
    of: &'a FileSystem,
    place: Place<S>,
    program: Program,
    /// The file system's background thread.
    flusher: Cx,
    /// When the last operation ended.
    queued: Ns,
    kinds: BTreeMap<&'static str, Kind>,
    failed: BTreeMap<i32, u64>,
    operations: u64,
    written: u64,
    read: u64,
    /// Commits of the background thread.
    background: u64,
    /// The file system's counters before the load, and at the end of it.
    before: Counters,
    after: Option<Counters>,
    free_bytes: Option<u64>,
}

impl<'a, S: Store> Files<'a, S> {
    /// Makes the volume, formats and mounts it, and brings the load to where its measurement begins.
    /// Errors: a store without bytes; those of device and file system.
    pub fn make(
        experiment: &Experiment,
        flash: &'a RawFlash,
        of: &'a FileSystem,
        mut device: Ubi<Array<S>>,
        cx: &mut Cx,
    ) -> Result<Files<'a, S>, FlashRunError> {
        if !S::KEEPS_BYTES {
            return Err(FlashRunError::NeedsBytes);
        }
        let vol_id = device.create_volume(cx, &VolumeRequest::dynamic(VOLUME, VolumeSize::Lebs(of.lebs)))?;
        let mut volume = open(device, cx, vol_id)?;
        cx.because(Cause::Layout, |cx| format(of, &mut volume, cx))?;
        let setup = |error: FsError| FlashRunError::SetUp { error: error.to_string() };
        volume.sync(cx).map_err(|error| setup(error.into()))?;
        cx.wait_until(cx.now() + flash.shelf);
        let mut fs = Ubifs::mount(volume, cx, of.mount).map_err(|error| setup(error.into()))?;
        let program = match &of.load {
            FileLoad::Fsstress(processes, options) => {
                let made = (0..*processes).map(|process| Fsstress::new(&mut fs, cx, options, process));
                let made = made.collect::<Result<Vec<_>, _>>().map_err(setup)?;
                Program::Fsstress(made.into_iter().map(|process| (process, Ns::ZERO)).collect())
            }
            FileLoad::Postmark(options) => Program::Postmark(Box::new(Postmark::new(options))),
            FileLoad::Sysbench(options) => {
                let mut load = FileIo::new(options, Seed(experiment.seed)).map_err(setup)?;
                while !load.is_prepared() {
                    let Some(step) = load.step(&mut fs, cx) else { break };
                    step.result.map_err(setup)?;
                    if fs.next_wake().is_some_and(|due| due <= cx.now()) {
                        fs.wake(cx).map_err(setup)?;
                    }
                }
                Program::Sysbench(Box::new(load))
            }
        };
        fs.sync(cx).map_err(setup)?;
        let mut files = Files {
            of,
            before: *fs.counters(),
            place: Place::Mounted(Box::new(fs)),
            program,
            flusher: Cx::new(),
            queued: cx.now(),
            kinds: BTreeMap::new(),
            failed: BTreeMap::new(),
            operations: 0,
            written: 0,
            read: 0,
            background: 0,
            after: None,
            free_bytes: None,
        };
        files.flusher.wait_until(cx.now());
        if let Program::Fsstress(processes) = &mut files.program {
            processes.iter_mut().for_each(|(_, ready)| *ready = cx.now());
        }
        Ok(files)
    }

    fn error(&self, error: FsError) -> FlashRunError {
        FlashRunError::FileSystem { operation: self.operations, error }
    }

    /// Books an operation. Errors: one of the medium, after which the file system only reads.
    fn book(&mut self, step: Step, ended: Ns) -> Result<(), FlashRunError> {
        let Step { op, ready, outcome, read, written } = step;
        let kind = self.kinds.entry(op).or_insert_with(Kind::new);
        // What the file system did not see took no time of it.
        if matches!(outcome, fsstress::Outcome::Done | fsstress::Outcome::Failed(_)) {
            kind.latency.saturating_record((ended - ready).0.max(1));
        }
        self.operations += 1;
        self.read += read;
        self.written += written;
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

/// Lets the file system's background thread do what is due before `now`.
fn wake<V: LebVolume>(fs: &mut Ubifs<V>, flusher: &mut Cx, queued: Ns, now: Ns) -> Result<u64, FsError> {
    let before = fs.counters().commits;
    while let Some(due) = fs.next_wake().filter(|&due| due <= now) {
        // A commit has been due since the last operation.
        flusher.wait_until(if due == Ns::ZERO { queued } else { due });
        fs.wake(flusher)?;
    }
    Ok(fs.counters().commits - before)
}

fn open<S: Store>(device: Ubi<Array<S>>, cx: &mut Cx, vol_id: VolId) -> Result<OnUbi<Array<S>>, FlashRunError> {
    OnUbi::open(device, cx, vol_id).map_err(|failure| failure.error.into())
}

/// Makes an empty file system.
fn format<V: LebVolume>(of: &FileSystem, volume: &mut V, cx: &mut Cx) -> Result<(), FlashRunError> {
    let seconds = of.mount.epoch.seconds as i64;
    let time = (seconds, 0);
    let root = Attributes { mode: 0o040_755, atime: time, ctime: time, mtime: time, ..Attributes::default() };
    let mut make = || {
        let sink = |lnum, leb: &[u8]| volume.write(cx, lnum, 0, Payload::Bytes(leb));
        let mut mkfs = match Mkfs::new(&of.format, Box::new(sink)) {
            Ok(mkfs) => mkfs,
            Err(error) => unreachable!("the subject was built with these options: {error}"),
        };
        let dir = mkfs.root();
        mkfs.end_dir(&dir, &root, &[])?;
        mkfs.finish().map(drop)
    };
    make().map_err(|error: MkfsError<_>| FlashRunError::SetUp { error: error.to_string() })
}

impl<S: Store> Rig<S> for Files<'_, S> {
    fn device(&self) -> &Ubi<Array<S>> {
        match &self.place {
            Place::Mounted(fs) => fs.volume().ubi(),
            Place::Unmounted(volume) => volume.ubi(),
            Place::Gone => unreachable!("a run ends with an unmount that fails"),
        }
    }

    fn step(&mut self, writer: &mut Cx, _: &mut Recorder) -> Result<Option<&'static str>, FlashRunError> {
        let Place::Mounted(fs) = &mut self.place else { return Ok(Some("workload")) };
        let ready = writer.now();
        writer.spend(self.of.operation);
        match wake(fs, &mut self.flusher, self.queued, writer.now()) {
            Ok(commits) => self.background += commits,
            Err(error) => return Err(self.error(error)),
        }
        let Some(step) = self.program.step(fs.as_mut(), writer, ready) else { return Ok(Some("workload")) };
        self.queued = writer.now();
        self.book(step, writer.now())?;
        Ok(None)
    }

    fn background(&mut self, thread: &mut Thread, now: Ns) -> Result<(), UbiError> {
        match &mut self.place {
            Place::Mounted(fs) => thread.run_until(fs.volume_mut(), self.queued, now),
            Place::Unmounted(_) | Place::Gone => Ok(()),
        }
    }

    /// Writes everything, and unmounts if that is wanted.
    fn end(&mut self, writer: &mut Cx) -> Result<(), FlashRunError> {
        let Place::Mounted(fs) = &mut self.place else { return Ok(()) };
        writer.wait_until(self.flusher.now());
        // The sync counts what an unmount would do, whose counters nobody could ask for.
        let done = if self.of.unmount { fs.sync(writer) } else { Ok(()) };
        let free = done.and_then(|()| fs.statfs(writer));
        self.after = Some(*fs.counters());
        let free = free.map_err(|error| self.error(error))?;
        self.free_bytes = Some(free.free * u64::from(free.block_bytes));
        if !self.of.unmount {
            return Ok(());
        }
        let Place::Mounted(fs) = std::mem::replace(&mut self.place, Place::Gone) else { return Ok(()) };
        let volume = fs.unmount(writer).map_err(|error| self.error(error))?;
        self.place = Place::Unmounted(Box::new(volume));
        Ok(())
    }

    fn done(&self) -> Done {
        Done { writes: self.operations, host_bytes: self.written }
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
            (None, Place::Mounted(fs)) => *fs.counters(),
            (None, _) => Counters::default(),
        };
        let since = |of: fn(&Counters) -> u64| of(&now) - of(&self.before);
        let operations = self.kinds.iter().map(|(op, kind)| Operations {
            op: (*op).to_owned(),
            done: kind.done,
            nothing: kind.nothing,
            refused: kind.refused,
            failed: kind.failed,
        });
        let failed = self.failed.iter().map(|(&errno, &count)| (errno_name(errno).to_owned(), count));
        Some(FileSystemOutcome {
            kind: "ubifs".to_owned(),
            load: self.of.load.name().to_owned(),
            lebs: self.of.lebs,
            operations: operations.collect(),
            failed: failed.collect(),
            written_bytes: self.written,
            read_bytes: self.read,
            data_bytes: since(|counters| counters.data_bytes),
            data_nodes: since(|counters| counters.data_nodes),
            commits: since(|counters| counters.commits),
            commits_required: since(|counters| counters.commits_required),
            commits_background: self.background,
            collected_lebs: since(|counters| counters.collected),
            moved_bytes: since(|counters| counters.moved_bytes),
            collected_index_lebs: since(|counters| counters.collected_index),
            index_nodes: since(|counters| counters.index_nodes),
            index_nodes_in_gaps: since(|counters| counters.index_nodes_in_gaps),
            free_bytes: self.free_bytes,
            programmed_bytes: Vec::new(),
        })
    }

    fn into_device(self) -> Ubi<Array<S>> {
        match self.place {
            Place::Mounted(fs) => fs.lose_power().into_ubi(),
            Place::Unmounted(volume) => volume.into_ubi(),
            Place::Gone => unreachable!("a run ends with an unmount that fails"),
        }
    }
}
