//! Programs on a file system, step by step.

use std::collections::VecDeque;

use sim::seam::FsError;
use sim::{Cx, Ns, Seed};
use workload::file::fio::FioFile;
use workload::file::logger::Logger;
use workload::file::postmark::Postmark;
use workload::file::strace::Replay;
use workload::file::sysbench::FileIo;
use workload::file::{FileOp, FileStep};
use workload::fsstress::{self, Fsstress};

use super::mounted::Use;
use crate::subject::FileLoad;

/// A program under way.
pub(super) enum Program {
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
    pub fn is_prepared(&self) -> bool {
        match self {
            Program::Fsstress(_) | Program::Postmark(_) => true,
            Program::Sysbench(load) => load.is_prepared(),
            Program::Strace(load) => load.is_prepared(),
            Program::Logger(load) => load.is_prepared(),
            Program::Fio(processes) => processes.iter().all(|(process, _)| process.is_prepared()),
        }
    }

    /// When the next operation is due; `None` at once.
    pub fn due(&self) -> Option<Ns> {
        match self {
            Program::Strace(load) => load.due(),
            Program::Logger(load) => load.due(),
            Program::Fsstress(_) | Program::Postmark(_) | Program::Sysbench(_) | Program::Fio(_) => None,
        }
    }

    /// Its processes are ready for their next operation.
    pub fn ready(&mut self, now: Ns) {
        match self {
            Program::Fsstress(processes) => processes.iter_mut().for_each(|(_, ready)| *ready = now),
            Program::Fio(processes) => processes.iter_mut().for_each(|(_, ready)| *ready = now),
            Program::Postmark(_) | Program::Sysbench(_) | Program::Strace(_) | Program::Logger(_) => {}
        }
    }
}

/// An operation that was done.
pub(in crate::run) struct Step {
    pub op: &'static str,
    /// Since when its process was ready for it.
    pub ready: Ns,
    pub outcome: fsstress::Outcome,
    pub read: u64,
    pub written: u64,
    /// When the measurement of throughput began, if this is part of it.
    pub counted_from: Option<Ns>,
}

/// A step of a program whose process was ready for it at a time.
pub(super) struct NextStep<'a>(pub &'a mut Program, pub &'a mut Cx, pub Ns);

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
    pub fn of(step: FileStep, ready: Ns) -> Step {
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

/// Brings the load to where its measurement begins.
pub(super) struct Prepare<'a>(pub &'a FileLoad, pub Seed, pub &'a mut Cx);

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
