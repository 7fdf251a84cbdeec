//! fsstress of xfstests: 60 operations on files of its own, drawn by weight.
//!
//! Each draw is made as the program makes it, in its order and by its generator of random numbers. On a file system that
//! answers alike, the operations are therefore those of the program with the same `-s`, `-n`, `-p`, `-l` and `-f`, name by
//! name and byte by byte. Source: xfstests `ltp/fsstress.c` at 0049872c, as built with AIO and io_uring.
//!
//! What is behind the file system answers for it here: the VFS does `fallocate` of XFS's reservations, copies and splices
//! by pages, io_uring and AIO as plain calls; it refuses direct I/O to a file system without it ([`Options::direct_io`]),
//! shared ranges and what is XFS's own.
//!
//! A process is an actor: it has a clock of its own, a directory `p` with its number, and its own random numbers.

mod calls;
mod names;
mod op;
mod random;

use sim::Cx;
use sim::seam::{FileSystem, FsError, Ino, NewInode};

use names::Names;
pub use names::{Kind, Name};
pub use op::{OPS, Op};
use random::Random;

/// Options of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Operations of a loop of a process (`-n`).
    pub operations: u64,
    /// Loops (`-l`); 0: without end. Each goes on with the files that are there.
    pub loops: u64,
    /// Seed (`-s`). The random numbers of process p begin loop l, counted from 1, with this plus l times p.
    pub seed: u32,
    /// Weight of each operation (`-f`), in the order of [`Op::TABLE`].
    pub weights: [u32; OPS],
    /// Whether the file system can be written to and read from past the page cache. UBIFS cannot: `O_DIRECT` is refused.
    pub direct_io: bool,
    /// Whether other processes come between a system call that takes the last name of an inode and its deletion, which Linux
    /// does at the end of the call. A commit in between finds an orphan. Without it nothing comes between.
    pub overlaps: bool,
}

impl Default for Options {
    /// The defaults of fsstress, for UBIFS; its seed would be the time, and is 1 here.
    fn default() -> Options {
        let weights = Op::TABLE.map(|(_, _, weight)| weight);
        Options { operations: 1, loops: 1, seed: 1, weights, direct_io: false, overlaps: false }
    }
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done.
    Done,
    /// There was no file for it, or the file was empty, or a private mapping was written: the file system was not
    /// asked.
    Nothing,
    /// The kernel does not have it for this file system.
    Refused,
    /// The file system failed it.
    Failed(FsError),
}

/// An operation that was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The operation.
    pub op: Op,
    /// How it ended.
    pub outcome: Outcome,
    /// What it was done to. `None`: the directory of the process, or nothing.
    pub file: Option<Name>,
    /// The name made, or the second file.
    pub other: Option<Name>,
    /// Offset and length in the file, in bytes.
    pub range: Option<(u64, u64)>,
    /// Offset in the second file.
    pub other_offset: Option<u64>,
    /// Bytes read from files.
    pub read: u64,
    /// Bytes written to files.
    pub written: u64,
}

impl Step {
    /// An operation that found nothing to do.
    fn of(op: Op) -> Step {
        Step {
            op,
            outcome: Outcome::Nothing,
            file: None,
            other: None,
            range: None,
            other_offset: None,
            read: 0,
            written: 0,
        }
    }

    /// Whether power was lost, after which no step has a meaning.
    pub fn is_power_loss(&self) -> bool {
        matches!(&self.outcome, Outcome::Failed(error) if error.is_power_loss())
    }
}

/// One process of a run.
#[derive(Clone, Debug)]
pub struct Fsstress {
    options: Options,
    /// Operations by weight: one of them is drawn uniformly.
    table: Vec<Op>,
    random: Random,
    process: u32,
    seed: u32,
    home: Ino,
    names: Names,
    next_id: u32,
    /// Operations done in this loop, and loops begun.
    done: u64,
    looped: u64,
    buffer: Vec<u8>,
    /// An inode that may have lost its last name, and is still open.
    unnamed: Option<Ino>,
}

impl Fsstress {
    /// Makes process `process` and its directory, in the root.
    /// Errors: those of the file system; weights of 0 are `Invalid`.
    pub fn new<F: FileSystem>(fs: &mut F, cx: &mut Cx, options: &Options, process: u32) -> Result<Fsstress, FsError> {
        let weights = Op::TABLE.iter().zip(options.weights);
        let table: Vec<Op> = weights.flat_map(|(&(op, ..), weight)| (0..weight).map(move |_| op)).collect();
        if table.is_empty() {
            return Err(FsError::Invalid { why: "every weight is 0" });
        }
        let root = fs.root();
        let home = fs.mkdir(cx, root, format!("p{process:x}").as_bytes(), NewInode::of_root(0o777))?.ino;
        let seed = options.seed.wrapping_add(process);
        Ok(Fsstress {
            options: *options,
            table,
            random: Random::new(seed),
            process,
            seed,
            home,
            names: Names::default(),
            next_id: 0,
            done: 0,
            looped: 1,
            buffer: Vec::new(),
            unnamed: None,
        })
    }

    /// Does the next operation; `None` after the last.
    pub fn step<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx) -> Option<Step> {
        if self.done == self.options.operations {
            if self.looped == self.options.loops || self.options.operations == 0 {
                return self
                    .unnamed
                    .take()
                    .and_then(|ino| fs.release(cx, ino).err())
                    .map(|error| Step { outcome: Outcome::Failed(error), ..Step::of(Op::Unlink) });
            }
            self.looped += 1;
            self.done = 0;
            self.seed = self.seed.wrapping_add(self.process);
            self.random = Random::new(self.seed);
        }
        let op = self.table[self.random.below(self.table.len() as u64) as usize];
        let random = self.random.draw();
        let mut step = Step::of(op);
        let deleted = self.unnamed.take().map_or(Ok(()), |ino| fs.release(cx, ino));
        let called = deleted.and_then(|()| self.call(fs, cx, random, &mut step));
        step.outcome = called.unwrap_or_else(Outcome::Failed);
        self.done += 1;
        Some(step)
    }
}

#[cfg(test)]
mod tests;
