//! Drawn operations: the cache over the model looks as the model alone.

use sim::seam::{
    FallocateMode, FileSystem, FsError, Ino, InodeFlags, NewInode, Payload, ReadInto, RenameFlags, SetAttr,
};
use sim::{Cx, Ns, Rng, Seed};

use super::inner::Inner;
use super::{PAGE, seconds};
use crate::cache::{Config, Counters, PageCache, WriteBack};
use crate::model::tree;

const NAMES: [&[u8]; 5] = [b"a", b"b", b"c", b"d", b"e"];

/// Draws operations and does each of them to any file system.
struct Draw {
    rng: Rng,
    opened: Vec<Ino>,
}

#[derive(Clone, Debug)]
enum Op {
    Create(&'static [u8]),
    Unlink(&'static [u8]),
    Rename(&'static [u8], &'static [u8], RenameFlags),
    Link(&'static [u8], &'static [u8]),
    Open(&'static [u8]),
    Release(usize),
    Write(Which, u64, Vec<u8>),
    Read(Which, u64, u32),
    Truncate(Which, u64),
    Punch(Which, u64, u64),
    Flags(Which, InodeFlags),
    Mode(Which, u32),
    Fsync(Which, bool),
    Sync,
    Idle(Ns),
    DropClean,
}

#[derive(Clone, Copy, Debug)]
enum Which {
    Named(&'static [u8]),
    Opened(usize),
}

impl Draw {
    fn name(&mut self) -> &'static [u8] {
        NAMES[self.rng.below(NAMES.len() as u64) as usize]
    }

    fn which(&mut self) -> Which {
        if self.rng.chance(0.3) { Which::Opened(self.rng.below(4) as usize) } else { Which::Named(self.name()) }
    }

    /// Around the ends of pages, mostly in the first 20.
    fn offset(&mut self) -> u64 {
        let page = self.rng.below(20) * PAGE;
        match self.rng.below(8) {
            0 => 0,
            1..4 => page,
            4 => page + 1,
            5 => page + PAGE - 1,
            6 => 63 * PAGE + self.rng.below(2 * PAGE),
            _ => page + self.rng.below(PAGE),
        }
    }

    fn length(&mut self) -> u64 {
        match self.rng.below(6) {
            0 => PAGE,
            1 => 3 * PAGE,
            2 => self.rng.below(8 * PAGE),
            3 => 0,
            _ => self.rng.below(PAGE),
        }
    }

    fn op(&mut self) -> Op {
        match self.rng.below(36) {
            0..3 => Op::Create(self.name()),
            3 => Op::Unlink(self.name()),
            4 => Op::Rename(self.name(), self.name(), RenameFlags([0, 0, 2, 4][self.rng.below(4) as usize])),
            5 => Op::Link(self.name(), self.name()),
            6..8 => Op::Open(self.name()),
            8 => Op::Release(self.rng.below(4) as usize),
            9..19 => {
                let (which, offset, length) = (self.which(), self.offset(), self.length());
                let byte = 1 + self.rng.below(255) as u8;
                Op::Write(which, offset, vec![byte; length as usize])
            }
            19..24 => Op::Read(self.which(), self.offset(), self.length() as u32),
            24..26 => Op::Truncate(self.which(), self.offset()),
            26 => Op::Punch(self.which(), self.offset(), 1 + self.length()),
            27 => Op::Flags(self.which(), [InodeFlags::SYNC, InodeFlags(0)][self.rng.below(2) as usize]),
            28 => Op::Mode(self.which(), self.rng.below(0o1000) as u32),
            29..31 => Op::Fsync(self.which(), self.rng.chance(0.5)),
            31 => Op::Sync,
            32..35 => Op::Idle(Ns(self.rng.below(seconds(12).0))),
            _ => Op::DropClean,
        }
    }

    fn ino<F: FileSystem>(&self, fs: &mut F, cx: &mut Cx, which: Which) -> Result<Ino, FsError> {
        match which {
            Which::Opened(at) if !self.opened.is_empty() => Ok(self.opened[at % self.opened.len()]),
            Which::Opened(_) => Ok(fs.root()),
            Which::Named(name) => fs.lookup(cx, fs.root(), name).map(|attr| attr.ino),
        }
    }

    /// What a call returns: bytes read, or a number.
    fn apply<F: FileSystem>(&self, fs: &mut F, cx: &mut Cx, op: &Op) -> Result<(u32, Vec<u8>), FsError> {
        let root = fs.root();
        let nothing = |()| (0, Vec::new());
        match op {
            Op::Create(name) => fs.create(cx, root, name, NewInode::of_root(0o644)).map(|_| (0, Vec::new())),
            Op::Unlink(name) => fs.unlink(cx, root, name).map(nothing),
            Op::Rename(from, to, flags) => fs.rename(cx, (root, from), (root, to), *flags).map(nothing),
            Op::Link(from, to) => {
                let ino = self.ino(fs, cx, Which::Named(from))?;
                fs.link(cx, ino, root, to).map(|attr| (attr.nlink, Vec::new()))
            }
            Op::Open(name) => {
                let ino = self.ino(fs, cx, Which::Named(name))?;
                fs.open(cx, ino).map(nothing)
            }
            Op::Release(at) if self.opened.is_empty() => Ok((*at as u32, Vec::new())),
            Op::Release(at) => fs.release(cx, self.opened[at % self.opened.len()]).map(nothing),
            Op::Write(which, offset, bytes) => {
                let ino = self.ino(fs, cx, *which)?;
                fs.write(cx, ino, *offset, Payload::Bytes(bytes)).map(|written| (written, Vec::new()))
            }
            Op::Read(which, offset, length) => {
                let ino = self.ino(fs, cx, *which)?;
                let mut bytes = vec![0xee; *length as usize];
                let into = if fs.keeps_bytes() { ReadInto::Bytes(&mut bytes) } else { ReadInto::Length(*length) };
                fs.read(cx, ino, *offset, into).map(|read| (read, bytes))
            }
            Op::Truncate(which, size) => {
                let ino = self.ino(fs, cx, *which)?;
                fs.setattr(cx, ino, &SetAttr::size(*size)).map(|_| (0, Vec::new()))
            }
            Op::Punch(which, offset, length) => {
                let ino = self.ino(fs, cx, *which)?;
                let mode = FallocateMode::PUNCH_HOLE | FallocateMode::KEEP_SIZE;
                fs.fallocate(cx, ino, mode, *offset, *length).map(nothing)
            }
            Op::Flags(which, flags) => {
                let ino = self.ino(fs, cx, *which)?;
                let change = SetAttr { flags: Some(*flags), ..SetAttr::default() };
                fs.setattr(cx, ino, &change).map(|_| (0, Vec::new()))
            }
            Op::Mode(which, mode) => {
                let ino = self.ino(fs, cx, *which)?;
                let change = SetAttr { mode: Some(*mode), ..SetAttr::default() };
                fs.setattr(cx, ino, &change).map(|_| (0, Vec::new()))
            }
            Op::Fsync(which, data_only) => {
                let ino = self.ino(fs, cx, *which)?;
                fs.fsync(cx, ino, *data_only).map(nothing)
            }
            Op::Sync => fs.sync(cx).map(nothing),
            Op::Idle(_) | Op::DropClean => Ok((0, Vec::new())),
        }
    }
}

/// Small memories, so that each reason to write and to read comes up.
fn configs() -> [Config; 4] {
    let page = |pages: u64| pages * PAGE;
    let small = Config {
        dirty_background_bytes: page(4),
        dirty_bytes: page(9),
        read_ahead_bytes: page(8) as u32,
        chunk_bytes: page(4) as u32,
        run_bytes: page(3) as u32,
        ..Config::linux(page(40))
    };
    [
        small,
        Config { memory_bytes: page(6), dirty_bytes: page(24), ..small },
        Config { memory_bytes: page(1), read_ahead_bytes: 0, ..small },
        Config::linux(1 << 30),
    ]
}

fn run(seed: u64, config: Config, keeps_bytes: bool, operations: u32) -> Counters {
    let mut draw = Draw { rng: Seed(seed).stream("fs/cache/random"), opened: Vec::new() };
    let mut model = Inner::new(keeps_bytes);
    // Where nothing else writes pages back the file system wants it.
    let most_promised = if config == Config::linux(1 << 30) { 12 } else { u64::MAX };
    let mut cache = PageCache::new(Inner { most_promised, ..Inner::new(keeps_bytes) }, config);
    let (mut cx, mut flusher) = (Cx::new(), Cx::new());
    let mut successes = 0;
    for step in 0..operations {
        let op = draw.op();
        cx.spend(Ns(1_000));
        let ours = draw.apply(&mut cache, &mut cx, &op);
        let models = draw.apply(&mut model.model, &mut cx.clone(), &op);
        // The model has no holes to punch.
        let models = match op {
            Op::Punch(which, offset, length) if ours.is_ok() => {
                let ino = draw.ino(&mut model.model, &mut cx, which).unwrap();
                let mode = FallocateMode::PUNCH_HOLE | FallocateMode::KEEP_SIZE;
                model.fallocate(&mut cx.clone(), ino, mode, offset, length).map(|()| (0, Vec::new()))
            }
            Op::Punch(..) => ours.clone(),
            _ => models,
        };
        assert_eq!(ours, models, "seed {seed}, operation {step}: {op:?}");
        successes += u32::from(ours.is_ok());
        match op {
            Op::Open(name) if ours.is_ok() => {
                let ino = draw.ino(&mut model.model, &mut cx, Which::Named(name)).unwrap();
                draw.opened.push(ino);
            }
            Op::Release(at) if !draw.opened.is_empty() => {
                let at = at % draw.opened.len();
                draw.opened.remove(at);
            }
            Op::Idle(span) => {
                cx.spend(span);
                while cache.next_wake().is_some_and(|due| due.max(flusher.now()) <= cx.now()) {
                    cache.wake(&mut flusher).unwrap();
                    cache.check();
                }
            }
            Op::DropClean => cache.drop_clean(),
            _ => {}
        }
        cache.check();
        assert_eq!(cache.inner().promised * PAGE, cache.dirty_bytes(), "operation {step}: {op:?}");
        let before = tree(&mut cache.clone(), &mut cx.clone()).unwrap();
        let expected = tree(&mut model.model, &mut cx).unwrap();
        assert_eq!(before.difference(&expected), None, "seed {seed}, operation {step}: {op:?}");
        if matches!(op, Op::Sync) {
            let inner = tree(&mut cache.inner_mut().model, &mut cx).unwrap();
            assert_eq!(inner.difference(&expected), None, "seed {seed}, operation {step}, after sync");
        }
    }
    assert!(successes > operations / 3, "{successes} of {operations} did something");
    *cache.counters()
}

#[test]
fn the_cache_looks_as_what_is_below_and_after_a_sync_both_are_the_same() {
    let mut total = [0; WriteBack::ALL.len()];
    for seed in 0..6 {
        for config in configs() {
            let counters = run(seed, config, true, 700);
            for (reason, total) in WriteBack::ALL.into_iter().zip(&mut total) {
                *total += counters.written[reason];
            }
            assert_eq!(counters, run(seed, config, false, 700), "without bytes the same happens");
        }
    }
    assert!(total.iter().all(|&pages| pages > 5), "each reason comes up: {total:?}");
}
