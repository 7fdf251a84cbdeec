//! The `fileio` test of sysbench, with one thread and plain reads and writes.
//!
//! `prepare` makes the files; the run then reads and writes blocks. After every so many requests each file is synchronized,
//! one after the other, if anything was written: with 128 files and 100 requests more than half of the calls are fsyncs.
//!
//! The order of requests is that of sysbench 1.0. Its random places come from a generator that it seeds with the time;
//! here they come from the run's seed. Everything written is zero, as there.

use sim::seam::{FileSystem, FsError, Ino, NewInode, Payload, ReadInto};
use sim::{Cx, Rng, Seed};

use super::{FileOp, FileStep};

/// Test mode (`--file-test-mode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Makes files and writes them from beginning to end.
    #[default]
    SeqWr,
    /// Writes files that exist from beginning to end.
    SeqRewr,
    /// Reads from beginning to end.
    SeqRd,
    /// Reads at random.
    RndRd,
    /// Writes at random.
    RndWr,
    /// Reads and writes at random.
    RndRw,
}

/// Options of the test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Test mode.
    pub mode: Mode,
    /// Files (`--file-num`).
    pub files: u32,
    /// Bytes of all files together (`--file-total-size`); each has its share, rounded down.
    pub total_bytes: u64,
    /// Bytes of a request (`--file-block-size`).
    pub block_bytes: u32,
    /// Blocks of a sequential request (`--file-merged-requests`); 0 is 1.
    pub merged_requests: u32,
    /// Requests after which files are synchronized (`--file-fsync-freq`); 0: never.
    pub fsync_frequency: u64,
    /// Synchronizes after every write, and at no other time (`--file-fsync-all`).
    pub fsync_all: bool,
    /// Synchronizes every file at the end (`--file-fsync-end`).
    pub fsync_end: bool,
    /// `fdatasync` (`--file-fsync-mode`).
    pub data_only: bool,
    /// Reads for each write of the mixed mode (`--file-rw-ratio`).
    pub rw_ratio: f64,
    /// Reads and writes of the run (`--max-requests` of sysbench 0.4; `--events` of 1.0 counts fsyncs too); 0: without end.
    pub requests: u64,
}

impl Default for Options {
    /// The defaults of sysbench, with the number of requests of version 0.4.
    fn default() -> Options {
        Options {
            mode: Mode::default(),
            files: 128,
            total_bytes: 2 << 30,
            block_bytes: 16_384,
            merged_requests: 0,
            fsync_frequency: 100,
            fsync_all: false,
            fsync_end: true,
            data_only: false,
            rw_ratio: 1.5,
            requests: 10_000,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The file that is made, and how much of it is written; `None`: it is not open yet.
    Prepare(u32, Option<u64>),
    Run,
    FsyncAtEnd(u32),
    End,
}

/// A test.
#[derive(Clone, Debug)]
pub struct FileIo {
    options: Options,
    file_bytes: u64,
    files: Vec<Ino>,
    phase: Phase,
    /// Place of the next sequential request: file and offset.
    next: (u32, u64),
    /// The file that is synchronized next, if anything was written since all were.
    fsync_next: u32,
    is_dirty: bool,
    reads: u64,
    writes: u64,
    /// Whether the last write is to be synchronized.
    fsync_last: Option<u32>,
    random: Rng,
    buffer: Vec<u8>,
}

impl FileIo {
    /// A test that has not begun. Its files, `test_file.0` and so on, come into the root.
    /// Errors: `Invalid` without a file, or with files of no byte or blocks of none.
    pub fn new(options: &Options, seed: Seed) -> Result<FileIo, FsError> {
        let file_bytes = options.total_bytes.checked_div(options.files.into()).unwrap_or_default();
        if file_bytes == 0 || options.block_bytes == 0 {
            return Err(FsError::Invalid { why: "a test without files, or of empty files or blocks" });
        }
        Ok(FileIo {
            options: *options,
            file_bytes,
            files: Vec::new(),
            phase: Phase::Prepare(0, None),
            next: (0, 0),
            fsync_next: 0,
            is_dirty: false,
            reads: 0,
            writes: 0,
            fsync_last: None,
            random: seed.stream("workload/sysbench-fileio"),
            buffer: Vec::new(),
        })
    }

    /// Whether the run has begun, which sysbench measures.
    pub fn is_prepared(&self) -> bool {
        !matches!(self.phase, Phase::Prepare(file, _) if file < self.options.files)
    }

    /// Does the next call; `None` after the last, and when a file could not be made, which the step before told.
    pub fn step<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx) -> Option<FileStep> {
        if let Some(file) = self.fsync_last.take() {
            return Some(self.fsync(fs, cx, file));
        }
        loop {
            match self.phase {
                Phase::Prepare(file, _) if file == self.options.files => self.phase = Phase::Run,
                Phase::Prepare(file, None) => return Some(self.open(fs, cx, file)),
                Phase::Prepare(file, Some(offset)) if offset < self.file_bytes => {
                    self.phase = Phase::Prepare(file, Some(offset + u64::from(self.options.block_bytes)));
                    return Some(self.write(fs, cx, file, offset, self.options.block_bytes));
                }
                Phase::Prepare(file, Some(_)) => {
                    self.phase = Phase::Prepare(file + 1, None);
                    return Some(self.fsync(fs, cx, file));
                }
                Phase::Run if self.options.requests > 0 && self.requests() >= self.options.requests => {
                    let only_reads = matches!(self.options.mode, Mode::SeqRd | Mode::RndRd);
                    let syncs = self.options.fsync_end && !self.options.fsync_all && !only_reads;
                    self.phase = if syncs { Phase::FsyncAtEnd(0) } else { Phase::End };
                }
                Phase::Run => return Some(self.request(fs, cx)),
                Phase::FsyncAtEnd(file) if file < self.options.files => {
                    self.phase = Phase::FsyncAtEnd(file + 1);
                    return Some(self.fsync(fs, cx, file));
                }
                Phase::FsyncAtEnd(_) => self.phase = Phase::End,
                Phase::End => return None,
            }
        }
    }

    fn requests(&self) -> u64 {
        self.reads + self.writes
    }

    /// Opens a file of the test; in the creating mode it is made anew, else only if there is none.
    fn open<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, file: u32) -> FileStep {
        let name = format!("test_file.{file}");
        let root = fs.root();
        let found = match fs.lookup(cx, root, name.as_bytes()) {
            Ok(_) if self.options.mode == Mode::SeqWr => match fs.unlink(cx, root, name.as_bytes()) {
                Ok(()) => Err(FsError::NoEntry { dir: root }),
                Err(error) => Err(error),
            },
            found => found,
        };
        let made = match found {
            Err(FsError::NoEntry { .. }) => fs.create(cx, root, name.as_bytes(), NewInode::of_root(0o600)),
            found => found,
        };
        let result = match made {
            Ok(attr) => {
                self.files.push(attr.ino);
                // The run of the creating mode writes the files itself.
                let creates = self.options.mode == Mode::SeqWr;
                self.phase =
                    if creates { Phase::Prepare(file + 1, None) } else { Phase::Prepare(file, Some(attr.size)) };
                Ok(())
            }
            Err(error) => {
                self.phase = Phase::End;
                Err(error)
            }
        };
        FileStep { op: FileOp::Create, file, offset: 0, bytes: 0, calls: 0, result }
    }

    fn request<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx) -> FileStep {
        let Options { mode, fsync_frequency, fsync_all, .. } = self.options;
        let writes = match mode {
            Mode::SeqWr | Mode::SeqRewr | Mode::RndWr => true,
            Mode::SeqRd | Mode::RndRd => false,
            Mode::RndRw => (self.reads as f64 + 1.0) / (self.writes as f64 + 1.0) >= self.options.rw_ratio,
        };
        let is_due = fsync_frequency > 0 && !fsync_all && self.requests().checked_rem(fsync_frequency) == Some(0);
        if is_due && self.is_dirty {
            let file = self.fsync_next;
            self.fsync_next = (file + 1) % self.options.files;
            self.is_dirty = self.fsync_next != 0;
            return self.fsync(fs, cx, file);
        }
        let (file, offset, bytes) = match mode {
            Mode::SeqWr | Mode::SeqRewr | Mode::SeqRd => self.sequential(),
            Mode::RndRd | Mode::RndWr | Mode::RndRw => self.random(),
        };
        if writes {
            self.writes += 1;
            self.is_dirty = true;
            self.fsync_last = fsync_all.then_some(file);
            return self.write(fs, cx, file, offset, bytes);
        }
        self.reads += 1;
        let read = fs.read(cx, self.files[file as usize], offset, ReadInto::Length(bytes));
        FileStep { op: FileOp::Read, file, offset, bytes: bytes.into(), calls: 1, result: read.map(|_| ()) }
    }

    fn sequential(&mut self) -> (u32, u64, u32) {
        let (file, offset) = self.next;
        let longest = u64::from(self.options.block_bytes) * u64::from(self.options.merged_requests.max(1));
        let bytes = longest.min(self.file_bytes - offset);
        let is_last = offset + bytes == self.file_bytes;
        self.next = if is_last { ((file + 1) % self.options.files, 0) } else { (file, offset + bytes) };
        (file, offset, u32::try_from(bytes).expect("a request is below 4 GiB"))
    }

    /// Uniform over all files, rounded down to a block of the whole, cut at the end of the file.
    fn random(&mut self) -> (u32, u64, u32) {
        let block = u64::from(self.options.block_bytes);
        let place = self.random.below(self.file_bytes * u64::from(self.options.files)) / block * block;
        let (file, offset) = (place / self.file_bytes, place % self.file_bytes);
        let bytes = block.min(self.file_bytes - offset);
        (file as u32, offset, bytes as u32)
    }

    fn write<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, file: u32, offset: u64, bytes: u32) -> FileStep {
        let data: Payload<'_> = fs.offer(&mut self.buffer, bytes, |_| {});
        let written = fs.write(cx, self.files[file as usize], offset, data);
        FileStep { op: FileOp::Write, file, offset, bytes: bytes.into(), calls: 1, result: written.map(|_| ()) }
    }

    fn fsync<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, file: u32) -> FileStep {
        let result = fs.fsync(cx, self.files[file as usize], self.options.data_only);
        FileStep { op: FileOp::Fsync, file, offset: 0, bytes: 0, calls: 0, result }
    }
}
