//! PostMark: many small files, as a mail server has them.
//!
//! Files are made; transactions then read or append, and make or remove, each by a draw; the rest is removed. The draws
//! are those of the program (versions 1.5 to 1.53), by its generator and in its order, so that a run here makes the same
//! files with the same lengths in the same order.

use rand_mt::Mt;
use sim::Cx;
use sim::seam::{FileSystem, FsError, Ino, NewInode, Payload, ReadInto};

use super::{FileOp, FileStep};

/// Buffer of the C library: `st_blksize`.
const BUFFER: u32 = 4096;

/// What `set` sets in PostMark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Least and most bytes of a file; a new one has the least and up to the most, exclusive.
    pub size: (u32, u32),
    /// Files made before the transactions. There are places for twice as many.
    pub number: u32,
    /// Transactions.
    pub transactions: u32,
    /// Directories over which the files are spread; below 2: none.
    pub subdirectories: u32,
    /// Bytes of a read without the C library's buffer.
    pub read: u32,
    /// Bytes of a write without the C library's buffer.
    pub write: u32,
    /// Whether the C library buffers: it reads and writes 4,096 bytes.
    pub buffering: bool,
    /// How many of ten transactions read and do not append; `None`: they do neither (−1 in PostMark).
    pub bias_read: Option<u32>,
    /// How many of ten transactions create and do not delete; `None`: they do neither (−1 in PostMark).
    pub bias_create: Option<u32>,
    /// Seed.
    pub seed: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            size: (500, 10_000),
            number: 500,
            transactions: 500,
            subdirectories: 0,
            read: 512,
            write: 512,
            buffering: true,
            bias_read: Some(5),
            bias_create: Some(5),
            seed: 42,
        }
    }
}

/// What PostMark reports, without times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Files made.
    pub created: u32,
    /// Files read.
    pub read: u32,
    /// Files appended to.
    pub appended: u32,
    /// Files removed.
    pub deleted: u32,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
}

/// A place in the table of files.
#[derive(Clone, Debug, Default)]
struct Slot {
    number: u32,
    directory: Option<u32>,
    /// 0: free.
    size: u32,
    /// `None`: it could not be made, which the program does not remember either.
    ino: Option<Ino>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Directories(u32),
    Files(u32),
    /// The first half of a transaction reads or appends, the second creates or deletes.
    Transaction(u32, bool),
    Deletion(usize),
    Rmdir(u32),
    End,
}

/// A run of PostMark.
#[derive(Clone, Debug)]
pub struct Postmark {
    options: Options,
    random: Mt,
    source: Vec<u8>,
    slots: Vec<Slot>,
    /// The place after the one taken last.
    next_slot: usize,
    directories: Vec<Ino>,
    phase: Phase,
    report: Report,
}

/// The generator as its authors seeded it in 1999: two steps of a congruential generator for each word.
fn seeded(mut seed: u32) -> Mt {
    const WORDS: usize = 624;
    let mut half = || {
        let upper = seed & 0xffff_0000;
        seed = seed.wrapping_mul(69_069).wrapping_add(1);
        upper
    };
    let mut words = [0; WORDS];
    for word in &mut words {
        *word = half();
        *word |= half() >> 16;
    }
    // A generator is recovered from what it puts out, which is its words tempered.
    let tempered = words.map(|word| {
        let word = word ^ word >> 11;
        let word = word ^ (word << 7) & 0x9d2c_5680;
        let word = word ^ (word << 15) & 0xefc6_0000;
        word ^ word >> 18
    });
    Mt::recover(tempered).expect("as many words as it has")
}

impl Postmark {
    /// A run that has not begun. Its files come into the root.
    pub fn new(options: &Options) -> Postmark {
        let mut random = seeded(options.seed);
        let source = (0..2 * options.size.1).map(|_| 32 + (random.next_u32() % 95) as u8).collect();
        let slots = vec![Slot::default(); 2 * options.number as usize];
        Postmark {
            options: *options,
            random,
            source,
            slots,
            next_slot: 0,
            directories: Vec::new(),
            phase: Phase::Directories(0),
            report: Report::default(),
        }
    }

    /// What was done so far.
    pub fn report(&self) -> Report {
        self.report
    }

    /// Whether the transactions are under way, whose time PostMark takes.
    pub fn is_in_transactions(&self) -> bool {
        matches!(self.phase, Phase::Transaction(..))
    }

    /// Does the next operation on a file; `None` after the last.
    pub fn step<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx) -> Option<FileStep> {
        loop {
            let step = self.next(fs, cx);
            if step.is_some() || self.phase == Phase::End {
                return step;
            }
        }
    }

    /// The next operation, if there is one to do: a transaction may find nothing.
    fn next<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx) -> Option<FileStep> {
        let subdirectories = if self.options.subdirectories > 1 { self.options.subdirectories } else { 0 };
        match self.phase {
            Phase::Directories(at) if at < subdirectories => {
                self.phase = Phase::Directories(at + 1);
                let root = fs.root();
                let made = fs.mkdir(cx, root, format!("s{at}").as_bytes(), NewInode::of_root(0o700));
                self.directories.push(made.as_ref().map_or(root, |attr| attr.ino));
                Some(step(FileOp::Mkdir, at, made.map(|_| ())))
            }
            Phase::Directories(_) => {
                self.phase = Phase::Files(0);
                None
            }
            Phase::Files(at) if at < self.options.number => {
                self.phase = Phase::Files(at + 1);
                self.create(fs, cx)
            }
            Phase::Files(_) => {
                self.phase = Phase::Transaction(0, false);
                None
            }
            Phase::Transaction(at, false) => {
                if at == self.options.transactions || self.report.created == self.report.deleted {
                    self.phase = Phase::Deletion(0);
                    return None;
                }
                self.phase = Phase::Transaction(at, true);
                let bias = self.options.bias_read?;
                if self.below(10) < bias { self.read(fs, cx) } else { self.append(fs, cx) }
            }
            Phase::Transaction(at, true) => {
                self.phase = Phase::Transaction(at + 1, false);
                let bias = self.options.bias_create?;
                if self.below(10) < bias {
                    self.create(fs, cx)
                } else {
                    let slot = self.used();
                    self.delete(fs, cx, slot)
                }
            }
            Phase::Deletion(at) if at < self.slots.len() => {
                self.phase = Phase::Deletion(at + 1);
                self.delete(fs, cx, at)
            }
            Phase::Deletion(_) => {
                self.phase = Phase::Rmdir(0);
                None
            }
            Phase::Rmdir(at) if at < subdirectories => {
                self.phase = Phase::Rmdir(at + 1);
                let root = fs.root();
                Some(step(FileOp::Rmdir, at, fs.rmdir(cx, root, format!("s{at}").as_bytes())))
            }
            Phase::Rmdir(_) | Phase::End => {
                self.phase = Phase::End;
                None
            }
        }
    }

    /// In `0..bound`; 0 without a draw where there is no other.
    fn below(&mut self, bound: u32) -> u32 {
        if bound > 0 { self.random.next_u32() % bound } else { 0 }
    }

    /// A file that exists.
    fn used(&mut self) -> usize {
        loop {
            let slot = self.below(2 * self.options.number) as usize;
            if self.slots[slot].size > 0 {
                return slot;
            }
        }
    }

    /// The next place if it is free, else the first free one.
    fn free(&mut self) -> Option<usize> {
        let is_free = |slot: &Slot| slot.size == 0;
        let slot = match self.slots.get(self.next_slot) {
            Some(slot) if is_free(slot) => self.next_slot,
            _ => self.slots.iter().position(is_free)?,
        };
        self.next_slot = slot + 1;
        Some(slot)
    }

    fn dir_of(&self, slot: &Slot, root: Ino) -> Ino {
        slot.directory.map_or(root, |directory| self.directories[directory as usize])
    }

    fn create<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx) -> Option<FileStep> {
        let at = self.free()?;
        let directory = (self.options.subdirectories > 1).then(|| self.below(self.options.subdirectories));
        self.report.created += 1;
        let number = self.report.created;
        let (low, high) = self.options.size;
        let size = low + self.below(high - low);
        let slot = Slot { number, directory, size, ino: None };
        let dir = self.dir_of(&slot, fs.root());
        let made = fs.create(cx, dir, number.to_string().as_bytes(), NewInode::of_root(0o644));
        let made = made.map(|attr| attr.ino);
        self.slots[at] = Slot { ino: made.as_ref().ok().copied(), ..slot };
        Some(match made {
            Ok(ino) => self.write(fs, cx, FileOp::Create, number, ino, (0, size)),
            Err(error) => step(FileOp::Create, number, Err(error)),
        })
    }

    fn append<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx) -> Option<FileStep> {
        let at = self.used();
        let Slot { number, size, ino, .. } = self.slots[at];
        if size >= self.options.size.1 {
            return None;
        }
        let Some(ino) = ino else { return Some(missing(FileOp::Append, number, fs.root())) };
        let bytes = self.below(self.options.size.1 - size) + 1;
        self.slots[at].size += bytes;
        self.report.appended += 1;
        Some(self.write(fs, cx, FileOp::Append, number, ino, (size.into(), bytes)))
    }

    /// Writes the beginning of the source into a range of a file.
    fn write<F: FileSystem>(
        &mut self,
        fs: &mut F,
        cx: &mut Cx,
        op: FileOp,
        number: u32,
        ino: Ino,
        (offset, bytes): (u64, u32),
    ) -> FileStep {
        let unit = if self.options.buffering { BUFFER } else { self.options.write };
        let mut done = step(op, number, Ok(()));
        (done.offset, done.bytes) = (offset, bytes.into());
        for from in (0..bytes).step_by(unit as usize) {
            let length = unit.min(bytes - from);
            let data = match fs.keeps_bytes() {
                true => Payload::Bytes(&self.source[from as usize..][..length as usize]),
                false => Payload::Length(length),
            };
            let written = fs.write(cx, ino, offset + u64::from(from), data);
            done.result = done.result.and(written.map(|_| ()));
            done.calls += 1;
        }
        self.report.bytes_written += u64::from(bytes);
        done
    }

    fn read<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx) -> Option<FileStep> {
        let at = self.used();
        let Slot { number, size, ino, .. } = self.slots[at];
        let Some(ino) = ino else { return Some(missing(FileOp::Read, number, fs.root())) };
        let unit = if self.options.buffering { BUFFER } else { self.options.read };
        let mut done = step(FileOp::Read, number, Ok(()));
        done.bytes = size.into();
        for from in (0..size).step_by(unit as usize) {
            let into = ReadInto::Length(unit.min(size - from));
            let read = fs.read(cx, ino, from.into(), into);
            done.result = done.result.and(read.map(|_| ()));
            done.calls += 1;
        }
        self.report.bytes_read += u64::from(size);
        self.report.read += 1;
        Some(done)
    }

    fn delete<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, at: usize) -> Option<FileStep> {
        let slot = &self.slots[at];
        if slot.size == 0 {
            return None;
        }
        let (number, dir) = (slot.number, self.dir_of(slot, fs.root()));
        let removed = fs.unlink(cx, dir, number.to_string().as_bytes());
        if removed.is_ok() {
            self.slots[at].size = 0;
            self.report.deleted += 1;
        }
        Some(step(FileOp::Remove, number, removed))
    }
}

fn step(op: FileOp, file: u32, result: Result<(), FsError>) -> FileStep {
    FileStep { op, file, offset: 0, bytes: 0, calls: 0, result }
}

fn missing(op: FileOp, file: u32, dir: Ino) -> FileStep {
    step(op, file, Err(FsError::NoEntry { dir }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fs::model::Model;
    use sim::seam::Timestamp;

    #[test]
    fn what_was_made_is_removed_and_volumes_add_up() {
        let options = Options { transactions: 2_000, subdirectories: 7, ..Options::default() };
        let (mut fs, mut cx) = (Model::new(Timestamp::default()), Cx::new());
        let mut load = Postmark::new(&options);
        let (mut read, mut written, mut in_transactions) = (0, 0, 0);
        while let Some(step) = load.step(&mut fs, &mut cx) {
            assert_eq!(step.result, Ok(()));
            match step.op {
                FileOp::Read => read += step.bytes,
                _ => written += step.bytes,
            }
            assert_eq!(u64::from(step.calls), step.bytes.div_ceil(4096));
            in_transactions += u32::from(load.is_in_transactions());
        }
        let report = load.report();
        assert_eq!((report.bytes_read, report.bytes_written), (read, written));
        assert_eq!(report.created, report.deleted);
        // Two of three steps of a transaction do something: a full file is not appended to.
        assert!((3_000..=4_000).contains(&in_transactions), "{in_transactions}");
        assert_eq!(fs.inodes(), 1);
    }

    #[test]
    fn halves_of_transactions_can_be_locked_out() {
        let options = Options { bias_read: None, bias_create: Some(10), number: 50, ..Options::default() };
        let (mut fs, mut cx) = (Model::without_bytes(Timestamp::default()), Cx::new());
        let mut load = Postmark::new(&options);
        while load.step(&mut fs, &mut cx).is_some() {}
        let Report { created, read, appended, .. } = load.report();
        // Places end at twice the number.
        assert_eq!((created, read, appended), (100, 0, 0));
    }

    /// Every file removed, and none made: the transactions end when the files do.
    #[test]
    fn transactions_end_with_the_files() {
        let options = Options { bias_create: Some(0), number: 50, ..Options::default() };
        let (mut fs, mut cx) = (Model::without_bytes(Timestamp::default()), Cx::new());
        let mut load = Postmark::new(&options);
        while load.step(&mut fs, &mut cx).is_some() {}
        let Report { created, deleted, read, appended, .. } = load.report();
        assert_eq!((created, deleted), (50, 50));
        assert!(read + appended <= 50);
    }
}
