//! A device that keeps files that never change, and appends small entries to logs: the load of which jffs-dev wrote in June
//! 2001 that it makes garbage collection long and frequent.
//!
//! A log that is full is renamed over the one before, and begins anew. Entries come in bursts, each at its time.

use sim::seam::{FileSystem, FsError, Ino, NewInode, RenameFlags};
use sim::{Cx, Ns, Rng, Seed};

use super::{Contents, FileOp, FileStep};

/// Bytes of a write to a file that never changes.
const WRITE_BYTES: u64 = 4096;

/// Options of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Files that are written before the run, and never change.
    pub static_files: u32,
    /// Bytes of each.
    pub static_bytes: u64,
    /// Logs.
    pub logs: u32,
    /// Size at which a log is renamed and begins anew; 0: never.
    pub log_bytes: u64,
    /// Least and most bytes of an entry.
    pub entry_bytes: (u32, u32),
    /// Entries; 0: without end.
    pub entries: u64,
    /// Entries that follow one another at once.
    pub burst: u32,
    /// From the beginning of a burst to that of the next.
    pub every: Ns,
    /// Each entry is synchronized.
    pub fsync: bool,
    /// How much of the contents can be compressed away, in percent.
    pub compressible_percent: u32,
}

/// A log.
#[derive(Clone, Copy, Debug)]
struct Log {
    ino: Option<Ino>,
    end: u64,
}

/// What is written before the run: the file, and how much of it there is.
#[derive(Clone, Copy, Debug)]
struct Filling {
    file: u32,
    at: Option<(Ino, u64)>,
}

/// The load.
#[derive(Clone, Debug)]
pub struct Logger {
    options: Options,
    filling: Filling,
    logs: Vec<Log>,
    /// Entries so far.
    entries: u64,
    /// When the first burst began.
    began: Option<Ns>,
    /// A log that is to be synchronized, or the step of one that is renamed.
    next: Option<Next>,
    is_over: bool,
    random: Rng,
    contents: Contents,
}

#[derive(Clone, Copy, Debug)]
enum Next {
    Fsync(u32),
    Rename(u32),
}

impl Logger {
    /// A load that has not begun. Its files, `static.0` and `log.0` and so on, come into the root.
    /// Errors: `Invalid` without a log, or with entries whose least length is 0 or above the most.
    pub fn new(options: &Options, seed: Seed) -> Result<Logger, FsError> {
        let (least, most) = options.entry_bytes;
        if options.logs == 0 || least == 0 || least > most || options.burst == 0 {
            return Err(FsError::Invalid { why: "no log, or entries without bytes" });
        }
        Ok(Logger {
            options: *options,
            filling: Filling { file: 0, at: None },
            logs: vec![Log { ino: None, end: 0 }; options.logs as usize],
            entries: 0,
            began: None,
            next: None,
            is_over: false,
            random: seed.stream("workload/logger"),
            contents: Contents::new(seed.stream("workload/logger-contents"), options.compressible_percent),
        })
    }

    /// Whether the files that never change are written.
    pub fn is_prepared(&self) -> bool {
        self.filling.file == self.options.static_files
    }

    /// When the next entry is due; `None`: at once.
    pub fn due(&self) -> Option<Ns> {
        let is_first = self.next.is_none() && self.entries.is_multiple_of(self.options.burst.into());
        let bursts = self.entries / u64::from(self.options.burst);
        self.began
            .filter(|_| is_first && self.options.every > Ns::ZERO)
            .map(|began| began + Ns(self.options.every.0 * bursts))
    }

    /// Does the next call; `None` after the last, and after one that found no space for a file that never changes.
    pub fn step<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx) -> Option<FileStep> {
        if self.is_over {
            return None;
        }
        if !self.is_prepared() {
            return Some(self.fill(fs, cx));
        }
        self.began.get_or_insert(cx.now());
        match self.next.take() {
            Some(Next::Fsync(log)) => return Some(self.fsync(fs, cx, log)),
            Some(Next::Rename(log)) => return Some(self.rename(fs, cx, log)),
            None => {}
        }
        let log = (self.entries % u64::from(self.options.logs)) as u32;
        if self.logs[log as usize].ino.is_none() {
            return Some(self.create(fs, cx, log));
        }
        if self.options.entries > 0 && self.entries == self.options.entries {
            return None;
        }
        Some(self.append(fs, cx, log))
    }

    /// Makes or writes a file that never changes.
    fn fill<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx) -> FileStep {
        let Filling { file, at } = self.filling;
        let step = |op, offset, bytes, result| FileStep { op, file, offset, bytes, calls: 1, result };
        let Some((ino, offset)) = at else {
            let (root, name) = (fs.root(), format!("static.{file}"));
            let made = fs.create(cx, root, name.as_bytes(), NewInode::of_root(0o644)).map(|attr| attr.ino);
            match &made {
                Ok(ino) => self.filling.at = Some((*ino, 0)),
                Err(_) => self.is_over = true,
            }
            return step(FileOp::Create, 0, 0, made.map(drop));
        };
        let bytes = WRITE_BYTES.min(self.options.static_bytes - offset) as u32;
        let written = self.contents.write(fs, cx, ino, offset, bytes);
        self.is_over = written.is_err();
        let end = offset + u64::from(bytes);
        self.filling.at = Some((ino, end));
        if end >= self.options.static_bytes {
            self.filling = Filling { file: file + 1, at: None };
        }
        step(FileOp::Write, offset, bytes.into(), written)
    }

    fn create<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, log: u32) -> FileStep {
        let (root, name) = (fs.root(), format!("log.{log}"));
        let made = fs.create(cx, root, name.as_bytes(), NewInode::of_root(0o644));
        if let Ok(attr) = &made {
            self.logs[log as usize] = Log { ino: Some(attr.ino), end: 0 };
        }
        // Without its log a device goes on, as syslogd does, and tries again.
        self.entries += u64::from(made.is_err());
        FileStep { op: FileOp::Create, file: log, offset: 0, bytes: 0, calls: 1, result: made.map(drop) }
    }

    fn append<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, log: u32) -> FileStep {
        let (least, most) = self.options.entry_bytes;
        let bytes = least + self.random.below(u64::from(most - least) + 1) as u32;
        let Log { ino, end } = self.logs[log as usize];
        let ino = ino.expect("the log was made");
        let result = self.contents.write(fs, cx, ino, end, bytes);
        self.entries += 1;
        if result.is_ok() {
            self.logs[log as usize].end += u64::from(bytes);
        }
        let is_full = self.options.log_bytes > 0 && self.logs[log as usize].end >= self.options.log_bytes;
        // A log that finds no space is not kept any longer either.
        let is_given_up = self.options.log_bytes > 0 && result.is_err() && end > 0;
        self.next = match (self.options.fsync && result.is_ok(), is_full || is_given_up) {
            (true, _) => Some(Next::Fsync(log)),
            (false, true) => Some(Next::Rename(log)),
            _ => None,
        };
        let bytes = if result.is_ok() { bytes.into() } else { 0 };
        FileStep { op: FileOp::Append, file: log, offset: end, bytes, calls: 1, result }
    }

    fn fsync<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, log: u32) -> FileStep {
        let Log { ino, end } = self.logs[log as usize];
        let result = fs.fsync(cx, ino.expect("the log was made"), false);
        self.next = (self.options.log_bytes > 0 && end >= self.options.log_bytes).then_some(Next::Rename(log));
        FileStep { op: FileOp::Fsync, file: log, offset: 0, bytes: 0, calls: 0, result }
    }

    /// The log becomes the old one, and the next entry goes to a new one.
    fn rename<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, log: u32) -> FileStep {
        let (root, from, to) = (fs.root(), format!("log.{log}"), format!("log.{log}.old"));
        let result = fs.rename(cx, (root, from.as_bytes()), (root, to.as_bytes()), RenameFlags::NONE);
        if result.is_ok() {
            self.logs[log as usize] = Log { ino: None, end: 0 };
        }
        FileStep { op: FileOp::Rename, file: log, offset: 0, bytes: 0, calls: 0, result }
    }
}
