//! fio jobs over files: one process of a job, with a file of its own.
//!
//! The requests are those of [`Generator`], with the file as the device. `setup_files` of fio comes before them: a file
//! that is missing or too short is removed and made anew; where the job reads, or `overwrite` is set, it gets its size, is
//! written from beginning to end, and synchronized. With `create_on_open` it is taken as it is, or made empty. The first
//! failure ends the job, and a read beyond the end of the file is one. Source: fio 3.33, from what it does
//! (`tests/file/fio.txt`).
//!
//! What differs:
//!
//! - Reads and writes are plain ones of the page cache below, so one at a time whatever the engine and its depth: buffered
//!   `libaio` is synchronous too.
//! - While the number of writes is a multiple of `fsync`, fio synchronizes after reads as well, when nothing is dirty.
//! - A job with `fsync` and `fdatasync` calls `fsync` where either is due.
//! - Contents are random, as fio's are by default, whatever the options of buffers say.
//! - fio lets the kernel drop the file's clean pages when it opens it, and when a job that goes on begins the file anew
//!   (`invalidate`, on by default); so does this, whatever `invalidate` says.
//! - Trims, rate limits, and sizes and offsets in percent are refused.

use sim::seam::{BlockOp, BlockRequest, FileSystem, FsError, Ino, NewInode, ReadInto, SetAttr};
use sim::{Cx, Ns, Rng, Seed};

use super::{FileOp, FileStep};
use crate::load::fio::{Extent, FioError, Generator, Job, Mix};

const SECTOR: u64 = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Looks for the file.
    SetUp,
    /// Makes it; then it is written or not.
    Make(bool),
    /// Writes it up to its size, from here on.
    LayOut(u64),
    FsyncLayout,
    /// Opens the file, or makes it.
    Open,
    Run,
    End,
}

/// A process of a job.
#[derive(Clone, Debug)]
pub struct FioFile {
    job: Job,
    clone: u32,
    name: String,
    /// Bytes that the file must have.
    file_bytes: u64,
    generator: Generator,
    /// How often the file was begun anew.
    restarts: u64,
    phase: Phase,
    ino: Option<Ino>,
    delay: Ns,
    /// When requests began.
    began: Option<Ns>,
    requests: u64,
    contents: Rng,
    buffer: Vec<u8>,
}

impl FioFile {
    /// Process `clone` (from 0) of a job, whose file `JOB.CLONE.0` comes into the root.
    /// Errors: what the module refuses; a job without a size; what [`Generator::new`] refuses.
    pub fn new(job: &Job, clone: u32, seed: Seed) -> Result<FioFile, FioError> {
        let refuse = |why: &str| FioError::Job { job: job.name.clone(), line: job.line, why: why.to_owned() };
        if matches!(job.mix, Mix::Trim | Mix::TrimWrite) {
            return Err(refuse("files are not trimmed"));
        }
        if job.rate.iter().any(Option::is_some) {
            return Err(refuse("rate limits are of block devices only"));
        }
        let (Some(Extent::Bytes(size)), Extent::Bytes(offset), Extent::Bytes(increment)) =
            (job.size, job.offset, job.offset_increment)
        else {
            return Err(refuse("a job over files needs size, in bytes, as offsets"));
        };
        let file_bytes = increment.checked_mul(clone.into()).and_then(|bytes| bytes.checked_add(offset));
        let file_bytes =
            file_bytes.and_then(|bytes| bytes.checked_add(size)).ok_or_else(|| refuse("the file is too large"))?;
        let stream = |what| seed.stream(&format!("fio/{}#{}/{clone}/{what}", job.name, job.twin));
        let (low, high) = job.start_delay;
        let drawn = if high > low { stream("start").below(high.0 - low.0 + 1) } else { 0 };
        Ok(FioFile {
            clone,
            name: format!("{}.{clone}.0", job.name),
            file_bytes,
            generator: Generator::new(job, clone, file_bytes / SECTOR, seed)?,
            restarts: 0,
            phase: Phase::SetUp,
            ino: None,
            delay: Ns(low.0 + drawn),
            began: None,
            requests: 0,
            contents: stream("contents"),
            buffer: Vec::new(),
            job: job.clone(),
        })
    }

    /// Whether the file is set up, so that requests are next.
    pub fn is_prepared(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Run | Phase::End)
    }

    /// When measurement begins: after the ramp.
    pub fn counted_from(&self) -> Option<Ns> {
        self.began.map(|began| Ns(began.0.saturating_add(self.job.ramp.0)))
    }

    /// Does the next call; `None` after the last, and when a file could not be made, which the step before told.
    pub fn step<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx) -> Option<FileStep> {
        loop {
            match self.phase {
                Phase::SetUp => {
                    let found = fs.lookup(cx, fs.root(), self.name.as_bytes());
                    let lays_out = self.job.mix != Mix::Write || self.job.overwrite;
                    self.phase = match found {
                        _ if self.job.create_on_open => Phase::Open,
                        Ok(attr) if attr.size >= self.file_bytes => Phase::Open,
                        _ => Phase::Make(lays_out),
                    };
                    if self.phase != Phase::Open && found.is_ok() {
                        let result = fs.unlink(cx, fs.root(), self.name.as_bytes());
                        return Some(self.told(FileOp::Remove, (0, 0), result));
                    }
                }
                Phase::Make(lays_out) => {
                    self.phase = if lays_out { Phase::LayOut(0) } else { Phase::Open };
                    return Some(self.make(fs, cx, 0o644, lays_out));
                }
                Phase::LayOut(offset) if offset < self.file_bytes => {
                    let bytes = self.job.sizes[1].max().min(self.file_bytes - offset) as u32;
                    self.phase = Phase::LayOut(offset + u64::from(bytes));
                    return Some(self.write(fs, cx, offset, bytes));
                }
                Phase::LayOut(_) => self.phase = Phase::FsyncLayout,
                Phase::FsyncLayout => {
                    self.phase = Phase::Open;
                    return Some(self.fsync(fs, cx, false));
                }
                Phase::Open => match self.open(fs, cx) {
                    None => {}
                    step => return step,
                },
                Phase::Run => match self.request(fs, cx) {
                    None => self.phase = Phase::End,
                    step => return step,
                },
                Phase::End => {
                    if let Some(ino) = self.ino.take().filter(|_| self.began.is_some()) {
                        // Nothing is left to be told: a deleted file is gone now.
                        let _ = fs.release(cx, ino);
                    }
                    return None;
                }
            }
        }
    }

    /// A step. A failure ends the job.
    fn told(&mut self, op: FileOp, (offset, bytes): (u64, u32), result: Result<(), FsError>) -> FileStep {
        if result.is_err() {
            self.phase = Phase::End;
        }
        let calls = u32::from(bytes > 0);
        FileStep { op, file: self.clone, offset, bytes: bytes.into(), calls, result }
    }

    fn make<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, mode: u32, lays_out: bool) -> FileStep {
        let made = fs.create(cx, fs.root(), self.name.as_bytes(), NewInode::of_root(mode));
        let result = made.and_then(|attr| {
            self.ino = Some(attr.ino);
            if lays_out { fs.setattr(cx, attr.ino, &SetAttr::size(self.file_bytes)).map(|_| ()) } else { Ok(()) }
        });
        self.told(FileOp::Create, (0, 0), result)
    }

    /// Opens the file. A step is only told if it is made.
    fn open<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx) -> Option<FileStep> {
        let opened = match fs.lookup(cx, fs.root(), self.name.as_bytes()) {
            Err(FsError::NoEntry { .. }) => return Some(self.make(fs, cx, 0o600, false)),
            found => found.and_then(|attr| fs.open(cx, attr.ino).map(|()| attr.ino)),
        };
        match opened {
            Ok(ino) => {
                fs.drop_clean(ino);
                self.ino = Some(ino);
            }
            Err(error) => return Some(self.told(FileOp::Create, (0, 0), Err(error))),
        }
        cx.idle_until(cx.now() + self.delay);
        self.began = Some(cx.now());
        self.phase = Phase::Run;
        None
    }

    fn request<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx) -> Option<FileStep> {
        let ends = self.counted_from().zip(self.job.runtime).map(|(from, span)| Ns(from.0.saturating_add(span.0)));
        if ends.is_some_and(|ends| cx.now() >= ends) {
            self.generator.stop();
        }
        let BlockRequest { op, sector, sectors, .. } = self.generator.next()?;
        if op == BlockOp::Flush {
            let is_last = self.job.end_fsync && self.generator.is_exhausted();
            return Some(self.fsync(fs, cx, self.job.fsync == 0 && !is_last));
        }
        if self.requests > 0 && self.requests.is_multiple_of(self.job.think_blocks) {
            cx.idle_until(cx.now() + self.job.think);
        }
        self.requests += 1;
        let (offset, bytes) = (sector * SECTOR, sectors * SECTOR as u32);
        let restarts = self.generator.restarts();
        if std::mem::replace(&mut self.restarts, restarts) != restarts
            && let Some(ino) = self.ino
        {
            fs.drop_clean(ino);
        }
        if op == BlockOp::Write {
            return Some(self.write(fs, cx, offset, bytes));
        }
        let ino = self.ino.expect("the file is open");
        let read = fs.read(cx, ino, offset, ReadInto::Length(bytes)).and_then(|read| match read == bytes {
            true => Ok(()),
            false => Err(FsError::Invalid { why: "a read beyond the end of the file" }),
        });
        Some(self.told(FileOp::Read, (offset, bytes), read))
    }

    fn write<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, offset: u64, bytes: u32) -> FileStep {
        let ino = self.ino.expect("the file is open");
        let contents = &mut self.contents;
        let data = fs.offer(&mut self.buffer, bytes, |buffer| {
            for word in buffer.chunks_mut(8) {
                word.copy_from_slice(&contents.bits().to_le_bytes()[..word.len()]);
            }
        });
        let written = fs.write(cx, ino, offset, data).and_then(|written| match written == bytes {
            true if self.job.fua && self.began.is_some() => fs.fsync(cx, ino, false),
            true => Ok(()),
            false => Err(FsError::NoSpace),
        });
        self.told(FileOp::Write, (offset, bytes), written)
    }

    fn fsync<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, data_only: bool) -> FileStep {
        let result = fs.fsync(cx, self.ino.expect("the file is open"), data_only);
        self.told(FileOp::Fsync, (0, 0), result)
    }
}
