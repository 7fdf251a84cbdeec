//! The log-block FTLs on a flash that rejects illegal operations, compared with a model of what was written.

use proptest::prelude::*;
use sim::{Rng, Seed};
use ssd::ftl::bast::{Bast, BastPolicy};
use ssd::ftl::block::BlockPolicy;
use ssd::ftl::fast::{Fast, FastPolicy};
use ssd::ftl::hybrid::{Hybrid, HybridConfig, LogPolicy};
use ssd::ftl::{NONE, Place, Step, UnitFtl};
use std::collections::VecDeque;
use std::fmt::Debug;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    Erased,
    Padding,
    Page { lpn: u32, version: u64, seq: u64 },
    Broken,
}

/// How a bench delays and fails operations.
#[derive(Clone, Copy, Debug)]
struct Habits {
    /// Number of programs in progress before the oldest is performed.
    depth: usize,
    /// Fraction of programs and of erases that fail.
    failing: f64,
    /// Whether a copy carries its source's sequence number.
    copies_keep_seq: bool,
}

const PLAIN: Habits = Habits { depth: 0, failing: 0.0, copies_keep_seq: false };

/// An FTL, its flash, and a model of what was written.
struct Bench<P> {
    ftl: Hybrid<P>,
    config: HybridConfig,
    habits: Habits,
    rng: Rng,
    /// Contents of each page, programs in progress included.
    image: Vec<Cell>,
    flash: Vec<Cell>,
    /// Next page of each block; `NONE` for a bad block.
    next: Vec<u32>,
    under_way: VecDeque<u32>,
    /// Erases of each block.
    erases: Vec<u32>,
    /// Whether an erase was requested and has not been reported. Nothing is placed meanwhile, as a die does one
    /// operation at a time.
    erasing: bool,
    /// Pages and versions whose programs failed meanwhile.
    failed: Vec<(u32, u64)>,
    /// The newest version of each logical page; 0 if it is unmapped.
    newest: Vec<u64>,
    clock: u64,
    last: u32,
    programs: u64,
}

impl<P: LogPolicy> Bench<P> {
    fn new(config: HybridConfig, habits: Habits, seed: u64) -> Bench<P> {
        let ftl = Hybrid::new(config.clone()).unwrap();
        let pages = (config.blocks * config.pages) as usize;
        let mut next = vec![0; config.blocks as usize];
        config.bad.iter().for_each(|&block| next[block as usize] = NONE);
        Bench {
            ftl,
            habits,
            rng: Seed(seed).stream("bench"),
            image: vec![Cell::Erased; pages],
            flash: vec![Cell::Erased; pages],
            next,
            under_way: VecDeque::new(),
            erases: vec![0; config.blocks as usize],
            erasing: false,
            failed: Vec::new(),
            newest: vec![0; config.lpns as usize],
            clock: 0,
            last: NONE,
            programs: 0,
            config,
        }
    }

    /// Performs the oldest program in progress. If it fails, its page is placed again.
    fn perform(&mut self) {
        let Some(ppn) = self.under_way.pop_front() else { return };
        let (block, page) = (ppn / self.config.pages, ppn % self.config.pages);
        assert_eq!(self.next[block as usize], page, "page {page} of block {block} is not the next one");
        self.next[block as usize] += 1;
        if !self.rng.chance(self.habits.failing) {
            self.flash[ppn as usize] = self.image[ppn as usize];
            return;
        }
        self.flash[ppn as usize] = Cell::Broken;
        let contents = std::mem::replace(&mut self.image[ppn as usize], Cell::Broken);
        let lpn = self.ftl.holds(ppn);
        self.ftl.program_failed(ppn);
        self.ftl.check();
        assert_eq!(self.ftl.holds(ppn), NONE);
        if lpn != NONE {
            let Cell::Page { lpn: own, version, .. } = contents else { panic!("{contents:?} was thought valid") };
            assert_eq!((lpn, self.ftl.lookup(lpn)), (own, NONE));
            match self.erasing {
                true => self.failed.push((lpn, version)),
                false => drop(self.put(lpn, version)),
            }
        }
    }

    fn program(&mut self, ppn: u32, contents: Cell) {
        assert_eq!(self.image[ppn as usize], Cell::Erased, "page {ppn} is programmed twice");
        self.image[ppn as usize] = contents;
        self.programs += 1;
        self.under_way.push_back(ppn);
        while self.under_way.len() > self.habits.depth {
            self.perform();
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Copy { from, to, .. } => {
                let contents = self.image[from as usize];
                let Cell::Page { lpn, version, seq } = contents else { panic!("{contents:?} is copied") };
                assert_eq!(self.ftl.holds(to), lpn);
                self.clock += 1;
                let seq = if self.habits.copies_keep_seq { seq } else { self.clock };
                self.program(to, Cell::Page { lpn, version, seq });
            }
            Step::Pad { at, .. } => {
                assert_eq!(self.ftl.holds(at), NONE);
                self.program(at, Cell::Padding);
            }
            Step::Erase { block, .. } => {
                self.erasing = true;
                while !self.under_way.is_empty() {
                    self.perform();
                }
                let range = (block * self.config.pages) as usize..((block + 1) * self.config.pages) as usize;
                for ppn in range.clone() {
                    assert_eq!(self.ftl.holds(ppn as u32), NONE, "block {block} is erased with a valid page");
                }
                let ok = !self.rng.chance(self.habits.failing);
                assert_ne!(self.next[block as usize], NONE, "a bad block is erased");
                self.next[block as usize] = if ok { 0 } else { NONE };
                self.erases[block as usize] += 1;
                self.image[range.clone()].fill(Cell::Erased);
                self.flash[range].fill(Cell::Erased);
                self.ftl.erased(block, ok);
                self.erasing = false;
                for (lpn, version) in std::mem::take(&mut self.failed) {
                    self.put(lpn, version);
                }
            }
        }
    }

    /// Places a page, with all required work. Returns false if the unit is full.
    fn put(&mut self, lpn: u32, version: u64) -> bool {
        let mut steps = 0;
        loop {
            let follows = self.last != NONE && self.ftl.follows(self.last, lpn);
            let placed = self.ftl.place(lpn);
            let in_step = self.last != NONE && !(self.last + 1).is_multiple_of(self.config.planes);
            // Right after a failure, `follows` may return false although the next page does follow.
            let next = in_step && placed == Place::At(self.last + 1);
            assert!(follows == next || (next && self.habits.failing > 0.0), "after {} came {placed:?}", self.last);
            match placed {
                Place::Work(step) => {
                    self.last = NONE;
                    self.step(step);
                    self.ftl.check();
                    steps += 1;
                    let most = 4 * self.config.blocks * (self.config.pages + 1);
                    assert!(steps <= most, "{most} steps and no place");
                }
                Place::At(ppn) => {
                    assert_eq!((self.ftl.lookup(lpn), self.ftl.holds(ppn)), (ppn, lpn));
                    self.clock += 1;
                    self.newest[lpn as usize] = version;
                    self.last = ppn;
                    self.program(ppn, Cell::Page { lpn, version, seq: self.clock });
                    return true;
                }
                Place::Full => {
                    if self.ftl.lookup(lpn) == NONE {
                        self.newest[lpn as usize] = 0;
                    }
                    self.last = NONE;
                    let needed = self.config.logical_blocks() + self.config.logs + P::SPARE;
                    let good = self.ftl.good_blocks();
                    assert!(good < needed, "full with {good} blocks good, and {needed} needed");
                    return false;
                }
            }
        }
    }

    fn write(&mut self, lpn: u32) -> bool {
        self.clock += 1;
        let placed = self.put(lpn, self.clock);
        self.ftl.check();
        placed
    }

    fn write_all(&mut self, lpns: impl IntoIterator<Item = u32>) {
        for lpn in lpns {
            assert!(self.write(lpn), "no room for page {lpn}");
        }
        self.check();
    }

    fn check(&self) {
        self.ftl.check();
        for (lpn, &version) in (0..).zip(&self.newest) {
            let ppn = self.ftl.lookup(lpn);
            let found = (ppn != NONE).then(|| self.image[ppn as usize]);
            match found {
                None => assert_eq!(version, 0, "page {lpn} is lost"),
                Some(Cell::Page { lpn: own, version: held, .. }) => assert_eq!((own, held), (lpn, version)),
                Some(other) => panic!("page {lpn} is at {ppn}, which is {other:?}"),
            }
        }
        assert_eq!(self.ftl.erase_counts(), self.erases);
        for (block, cells) in (0..).zip(self.image.chunks(self.config.pages as usize)) {
            // What a checkpoint notes: power-on looks at the pages behind these.
            let programmed = cells.iter().filter(|&&cell| cell != Cell::Erased).count() as u32;
            if self.habits.failing == 0.0 {
                assert_eq!(self.ftl.handed_out(block), programmed, "block {block}");
            }
        }
        let counts = self.ftl.counts();
        assert!(counts.host_pages + counts.copied_pages + counts.padded_pages >= self.programs);
    }

    /// Loses all tables, between any two programs, and rebuilds them.
    fn lose_power(&mut self) {
        let erases = self.ftl.erase_counts().to_vec();
        let scan = |(ppn, cell): (u32, &Cell)| match *cell {
            Cell::Erased => None,
            Cell::Padding | Cell::Broken => Some((ppn, None)),
            Cell::Page { lpn, seq, .. } => Some((ppn, Some((lpn, seq)))),
        };
        let scan: Vec<_> = (0..).zip(&self.flash).filter_map(scan).collect();
        self.under_way.clear();
        self.image.clone_from(&self.flash);
        self.last = NONE;
        self.programs = 0;
        self.ftl = Hybrid::rebuild(self.config.clone(), erases, &[], scan).unwrap();
        self.ftl.check();
    }
}

#[derive(Clone, Copy, Debug)]
enum Move {
    Write(u32),
    Run(u32, u32),
    Trim(u32, u32),
    Idle,
    LosePower(u32),
}

fn moves(count: usize) -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        8 => (0u32..200).prop_map(Move::Write),
        8 => (0u32..7).prop_map(Move::Write),
        8 => (0u32..200, 1u32..30).prop_map(|(first, count)| Move::Run(first, count)),
        2 => (0u32..200, 1u32..12).prop_map(|(first, count)| Move::Trim(first, count)),
        2 => Just(Move::Idle),
        1 => (0u32..12).prop_map(Move::LosePower),
    ];
    prop::collection::vec(one, 1..count)
}

prop_compose! {
    /// Geometries with at least `logs` log blocks and `spare` free blocks for merges, many of them without any further
    /// block.
    fn configs(logs: u32, spare: u32)(
        pages in 1u32..9, planes in 1u32..4, data in 1u32..6, logs in logs..logs + 4, more in 0u32..4, short in 0u32..8,
        bad in prop::collection::vec(0u32..20, 0..3),
    ) -> HybridConfig {
        let pages = pages * planes;
        let good = data + logs + spare + more.saturating_sub(1);
        let blocks = good + bad.len() as u32;
        let lpns = data * pages - short.min(pages - 1);
        HybridConfig { blocks, pages, planes, lpns, logs, bad: bad.into_iter().map(|bad| bad % blocks).collect() }
    }
}

fn run<P: LogPolicy>(config: HybridConfig, habits: Habits, seed: u64, moves: &[Move]) {
    let mut bench = Bench::<P>::new(config.clone(), habits, seed);
    let lpns = config.lpns;
    for &one in moves {
        match one {
            Move::Write(lpn) => {
                bench.write(lpn % lpns);
            }
            Move::Run(first, count) => {
                for lpn in (first % lpns..lpns).take(count as usize) {
                    bench.write(lpn);
                }
            }
            Move::Trim(first, count) => {
                for lpn in (first % lpns..lpns).take(count as usize) {
                    bench.ftl.trim(lpn);
                    bench.newest[lpn as usize] = 0;
                    bench.ftl.check();
                }
            }
            Move::Idle => {
                let mut steps = 0;
                bench.last = NONE;
                while let Some(step) = bench.ftl.housekeeping() {
                    bench.step(step);
                    bench.ftl.check();
                    steps += 1;
                    assert!(steps < 4 * config.blocks * (config.pages + 1), "housekeeping never ends");
                }
            }
            Move::LosePower(_) if habits.failing > 0.0 => {}
            Move::LosePower(steps) => {
                // In the middle of the work for a write.
                bench.clock += 1;
                for _ in 0..steps {
                    let Place::Work(step) = bench.ftl.clone().place(0) else { break };
                    let again = bench.ftl.place(0);
                    assert_eq!(again, Place::Work(step));
                    bench.step(step);
                }
                while !bench.under_way.is_empty() {
                    bench.perform();
                }
                let trimmed: Vec<_> = (0..lpns).filter(|&lpn| bench.newest[lpn as usize] == 0).collect();
                bench.lose_power();
                for lpn in trimmed {
                    // Its old contents may be mapped again.
                    if bench.ftl.lookup(lpn) != NONE {
                        bench.ftl.trim(lpn);
                        bench.ftl.check();
                    }
                }
            }
        }
        bench.check();
    }
}

fn habits(failing: f64) -> impl Strategy<Value = Habits> {
    (0usize..4, any::<bool>()).prop_map(move |(depth, copies_keep_seq)| Habits { depth, failing, copies_keep_seq })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn block_mapping_finds_the_newest_of_every_page(
        config in configs(1, 0), habits in habits(0.0), seed in any::<u64>(), moves in moves(60),
    ) {
        run::<BlockPolicy>(config, habits, seed, &moves);
    }

    #[test]
    fn bast_finds_the_newest_of_every_page(
        config in configs(1, 1), habits in habits(0.0), seed in any::<u64>(), moves in moves(60),
    ) {
        run::<BastPolicy>(config, habits, seed, &moves);
    }

    #[test]
    fn fast_finds_the_newest_of_every_page(
        config in configs(2, 1), habits in habits(0.0), seed in any::<u64>(), moves in moves(60),
    ) {
        run::<FastPolicy>(config, habits, seed, &moves);
    }

    #[test]
    fn failures_lose_nothing_as_long_as_there_is_room(
        which in 0..3, config in configs(2, 1), often in 0usize..3, habits in habits(0.0), seed in any::<u64>(),
        moves in moves(60),
    ) {
        let habits = Habits { failing: [0.001, 0.01, 0.1][often], ..habits };
        match which {
            0 => run::<BlockPolicy>(config, habits, seed, &moves),
            1 => run::<BastPolicy>(config, habits, seed, &moves),
            _ => run::<FastPolicy>(config, habits, seed, &moves),
        }
    }
}

fn bench<P: LogPolicy>(blocks: u32, pages: u32, lpns: u32, logs: u32) -> Bench<P> {
    Bench::new(HybridConfig::new(blocks, pages, lpns, logs), PLAIN, 1)
}

/// Switch, partial and full merges so far, and pages copied and padded.
fn merges<P: LogPolicy>(bench: &Bench<P>) -> (u64, u64, u64, u64, u64) {
    let counts = bench.ftl.counts();
    let copied = (counts.copied_pages, counts.padded_pages);
    (counts.switch_merges, counts.partial_merges, counts.full_merges, copied.0, copied.1)
}

#[test]
fn bast_switches_a_log_written_in_order_and_merges_any_other() {
    let mut bench = bench::<BastPolicy>(4, 4, 8, 1);
    bench.write_all(0..8);
    assert_eq!(merges(&bench), (0, 0, 0, 0, 0), "first writes in order go to the data blocks");
    bench.write_all(0..4);
    assert_eq!(bench.ftl.log_blocks(), 1);
    bench.write_all([0, 1]);
    assert_eq!(merges(&bench), (1, 0, 0, 0, 0), "the log was full and in order");
    bench.write_all([7]);
    assert_eq!(merges(&bench), (1, 1, 0, 2, 0), "pages 2 and 3 completed it to make room for page 7's log");
    bench.write_all([7, 7, 7]);
    assert_eq!(merges(&bench), (1, 1, 0, 2, 0));
    bench.write_all([7]);
    assert_eq!(merges(&bench), (1, 1, 1, 6, 0), "four versions of one page filled the log");
    assert_eq!(bench.ftl.counts().erases, 1 + 1 + 2);
}

#[test]
fn bast_merges_the_log_written_least_recently() {
    let mut bench = bench::<BastPolicy>(8, 4, 16, 2);
    bench.write_all(0..16);
    bench.write_all([0, 4, 1]);
    let logs = [0, 4].map(|lpn| bench.ftl.lookup(lpn) / 4);
    bench.write_all([8]);
    assert_eq!(bench.ftl.lookup(0) / 4, logs[0], "still in its log");
    assert_eq!(merges(&bench), (0, 1, 0, 3, 0), "logical block 1 was merged");
    assert_ne!(bench.ftl.lookup(12), bench.ftl.lookup(8));
}

#[test]
fn bast_thrashes_where_fast_does_not() {
    // One page of each of four logical blocks in turn, and two log blocks: the case that FAST is designed for.
    let hot = || (0..64).map(|n| [1, 5, 9, 13][n % 4]);
    let mut bast = bench::<BastPolicy>(7, 4, 16, 2);
    let mut fast = bench::<FastPolicy>(7, 4, 16, 2);
    bast.write_all((0..16).chain(hot()));
    fast.write_all((0..16).chain(hot()));
    // BAST opens a log block for nearly every write and merges it with one page in it. FAST fills four pages, then
    // merges the four logical blocks.
    assert_eq!(bast.ftl.counts().full_merges, 62);
    assert_eq!(fast.ftl.counts().full_merges, 60);
    // With one more log block, FAST's oldest log block has no valid page when it is reclaimed.
    let mut fast = bench::<FastPolicy>(8, 4, 16, 3);
    fast.write_all((0..16).chain(hot()));
    assert_eq!(fast.ftl.counts().full_merges, 0);
}

#[test]
fn fast_switches_or_completes_its_sequential_log() {
    let mut bench = bench::<FastPolicy>(6, 4, 12, 2);
    bench.write_all(0..12);
    bench.write_all(0..4);
    bench.write_all([4, 5]);
    assert_eq!(merges(&bench), (1, 0, 0, 0, 0), "a first page opened the sequential log for another block");
    bench.write_all([8]);
    assert_eq!(merges(&bench), (1, 1, 0, 2, 0));
    bench.write_all([10]);
    assert_eq!(merges(&bench), (1, 2, 0, 5, 0), "page 9 was skipped");
    bench.write_all([1, 5, 9]);
    assert_eq!(merges(&bench), (1, 2, 0, 5, 0), "the random log took all");
    bench.write_all([1]);
    assert_eq!(merges(&bench), (1, 2, 3, 17, 0), "three logical blocks had a page in it");
}

#[test]
fn fast_keeps_writes_in_order_out_of_the_random_logs() {
    let mut bench = bench::<FastPolicy>(6, 4, 12, 2);
    bench.write_all((0..12).chain([1]));
    let random = bench.ftl.lookup(1) / 4;
    bench.write_all(8..12);
    bench.write_all([2]);
    assert_eq!(bench.ftl.lookup(2) / 4, random, "page 2 follows page 1");
    assert_eq!((8..12).map(|lpn| bench.ftl.lookup(lpn) % 4).collect::<Vec<_>>(), [0, 1, 2, 3]);
    bench.write_all([4]);
    assert_eq!(merges(&bench), (1, 0, 0, 0, 0));
}

#[test]
fn a_scan_gives_each_block_its_role_back() {
    let config = HybridConfig::new(6, 4, 12, 2);
    let page = |ppn, lpn, seq| (ppn, Some((lpn, seq)));
    // Block 0: data of logical block 0. Block 3: its log block, with page 1 twice. Block 4: no newest page. Block 5:
    // begins with padding.
    let scan =
        [page(0, 0, 1), page(1, 1, 2), page(12, 1, 3), page(13, 1, 5), page(16, 0, 0), (20, None), page(21, 9, 4)];
    let mut ftl = Bast::rebuild(config.clone(), vec![7; 6], &[], scan).unwrap();
    ftl.check();
    assert_eq!([0, 1, 2, 9].map(|lpn| ftl.lookup(lpn)), [0, 13, NONE, 21]);
    assert_eq!((ftl.log_blocks(), ftl.erase_counts()), (1, &[7; 6][..]));
    assert_eq!(ftl.place(1), Place::Work(Step::Erase { block: 4, cause: sim::Cause::Gc }));
    ftl.erased(4, true);
    assert_eq!([1, 2, 10].map(|lpn| ftl.place(lpn)), [14, 2, 22].map(Place::At), "log, data block, data block");
    // The same sequence number twice: in another block it is a copy, in the same block the only contents.
    let ftl = Bast::rebuild(config.clone(), vec![0; 6], &[], [page(0, 0, 1), page(1, 0, 1)]).unwrap();
    assert_eq!(ftl.lookup(0), 0);
    let ftl = Bast::rebuild(config, vec![0; 6], &[], [page(0, 0, 1), page(8, 0, 1), page(9, 1, 2)]).unwrap();
    assert_eq!((ftl.lookup(0), ftl.lookup(1)), (8, 9), "block 0 holds nothing that block 2 does not");
}

/// Roles are given in the order of the blocks' newest pages: of the log blocks found the newest are kept, in that order,
/// and the oldest is merged first. What has no role is merged out before anything is written.
#[test]
fn after_a_scan_log_blocks_are_as_old_as_their_newest_page() {
    // Data blocks 0 to 3; four log blocks of pages of several logical blocks. Block 7 is the oldest, then 5, 6, 4.
    let page = |block: u32, offset: u32, lpn: u32, seq: u64| (block * 4 + offset, Some((lpn, seq)));
    let data = (0..16).map(|lpn| (lpn, Some((lpn, 1 + u64::from(lpn)))));
    let logs = [(7, 100), (5, 110), (6, 120), (4, 130)];
    let logs = logs.into_iter().enumerate().flat_map(|(at, (block, seq))| {
        // Pages 3, 7, 11 and 15 shifted, so that no log is in order.
        (0..4).map(move |offset| page(block, offset, (4 * offset + at as u32) % 16, seq + u64::from(offset)))
    });
    // Four random logs and one in order may be in use.
    let config = HybridConfig::new(12, 4, 16, 5);
    let mut ftl = Fast::rebuild(config.clone(), vec![0; 12], &[], data.clone().chain(logs.clone())).unwrap();
    ftl.check();
    assert_eq!(ftl.log_blocks(), 4);
    let mut first_erased = Vec::new();
    let mut placed = 0;
    while first_erased.len() < 8 && placed < 200 {
        match ftl.place(1 + placed * 7 % 15) {
            Place::Work(Step::Erase { block, .. }) => {
                ftl.erased(block, true);
                first_erased.push(block);
            }
            Place::Work(_) => {}
            Place::At(_) => placed += 1,
            Place::Full => panic!("it has room"),
        }
        ftl.check();
    }
    let freed = first_erased.iter().filter(|block| (4..8).contains(*block)).collect::<Vec<_>>();
    assert_eq!(freed[..2], [&7, &5], "the oldest first: {first_erased:?}");
    // Of three logs in all, two random ones stay: the newest. The others are emptied before the first write.
    let config = HybridConfig { logs: 3, ..config };
    let mut ftl = Fast::rebuild(config, vec![0; 12], &[], data.chain(logs)).unwrap();
    ftl.check();
    assert_eq!(ftl.log_blocks(), 2);
    let mut erased = Vec::new();
    loop {
        match ftl.place(1) {
            Place::Work(Step::Erase { block, .. }) => {
                ftl.erased(block, true);
                erased.push(block);
            }
            Place::Work(_) => {}
            Place::At(_) => break,
            Place::Full => panic!("it has room"),
        }
        ftl.check();
    }
    // Both logs are full: then the older of them is merged for the page to be written.
    let logs: Vec<u32> = erased.iter().copied().filter(|block| (4..8).contains(block)).collect();
    assert_eq!(logs, [7, 5, 6], "{erased:?}");
}

/// A logical block of which every page is trimmed needs neither its data block nor its log.
#[test]
fn the_blocks_of_a_trimmed_logical_block_are_erased_without_a_copy() {
    let mut bench = bench::<BastPolicy>(8, 4, 16, 2);
    bench.write_all((0..8).chain([1, 0]));
    for lpn in 0..4 {
        bench.ftl.trim(lpn);
        bench.newest[lpn as usize] = 0;
    }
    bench.check();
    let copied = bench.ftl.counts().copied_pages;
    let erases = |bench: &Bench<BastPolicy>| bench.erases.iter().sum::<u32>();
    assert_eq!(erases(&bench), 0);
    // Both its data block and its log are taken before a fresh one is merged.
    while erases(&bench) < 2 {
        bench.write_all([8, 9, 8, 12, 13, 12]);
    }
    bench.check();
    assert_eq!((erases(&bench), bench.erases[0]), (2, 1));
    assert_eq!(bench.ftl.counts().copied_pages, copied);
}

#[test]
fn a_merge_cut_short_is_begun_again_even_if_it_had_the_last_free_block() {
    // Data blocks 0 and 1, log block 2, and block 3 with copies of two pages, which carry their sources' sequence
    // numbers.
    let data = (0..8).map(|ppn| (ppn, Some((ppn, 1 + u64::from(ppn)))));
    let log = [1, 3, 1, 3].into_iter().zip(8..).map(|(lpn, ppn)| (ppn, Some((lpn, 1 + u64::from(ppn)))));
    let copies = [(12, Some((0, 1))), (13, Some((1, 11)))];
    let scan = data.chain(log).chain(copies);
    let mut ftl = Bast::rebuild(HybridConfig::new(4, 4, 8, 1), vec![0; 4], &[], scan).unwrap();
    assert_eq!(ftl.lookup(0), 0, "the copies are dropped");
    for steps in 0.. {
        match ftl.place(0) {
            Place::Work(Step::Erase { block, .. }) => ftl.erased(block, true),
            Place::Work(_) => {}
            placed => {
                // An erase, four copies, two erases.
                assert_eq!((steps, placed != Place::Full), (7, true), "{placed:?}");
                break;
            }
        }
        ftl.check();
    }
}

#[test]
fn block_mapping_copies_the_whole_block_for_a_page_in_its_middle() {
    let mut bench = bench::<BlockPolicy>(4, 4, 12, 1);
    bench.write_all([0, 1, 3]);
    assert_eq!(merges(&bench), (0, 0, 0, 0, 1), "page 2 is padded");
    bench.write_all([1]);
    assert_eq!(merges(&bench), (0, 0, 0, 1, 1), "page 0 is copied before");
    bench.write_all([3]);
    assert_eq!(merges(&bench), (0, 0, 0, 1, 2), "page 2 held nothing");
    bench.write_all([4]);
    assert_eq!(merges(&bench), (0, 0, 0, 1, 2), "another logical block has room in its data block");
    bench.write_all([4]);
    assert_eq!(merges(&bench), (0, 0, 1, 1, 2), "it needed the replacement block");
    bench.write_all(4..8);
    assert_eq!(merges(&bench), (1, 0, 1, 1, 2), "page 4 went back: its replacement held all there was");
    bench.write_all(4..6);
    bench.write_all([0]);
    assert_eq!(merges(&bench), (2, 1, 1, 3, 2));
}

/// Log blocks in use after a scan that finds four data blocks, and log blocks of logical blocks 0, 1 and 2, in order.
fn logs_after_a_scan<P: LogPolicy>(logs: u32) -> u32 {
    let data = (0..16).map(|lpn| (lpn, Some((lpn, 1 + u64::from(lpn)))));
    let found = (0..6).map(|at: u32| ((4 + at / 2) * 4 + at % 2, Some((at / 2 * 4 + at % 2, 100 + u64::from(at)))));
    let ftl = Hybrid::<P>::rebuild(HybridConfig::new(14, 4, 16, logs), vec![0; 14], &[], data.chain(found)).unwrap();
    ftl.check();
    ftl.log_blocks()
}

/// A scan gives no more log blocks their role back than there may be.
#[test]
fn after_a_scan_there_are_no_more_log_blocks_than_before() {
    for logs in 1..5 {
        assert_eq!(logs_after_a_scan::<BastPolicy>(logs), logs.min(3), "BAST, {logs} logs");
        assert_eq!(logs_after_a_scan::<BlockPolicy>(logs), logs.min(3), "block mapping, {logs} logs");
    }
    for logs in 2..5 {
        assert_eq!(logs_after_a_scan::<FastPolicy>(logs), logs.min(3), "FAST, {logs} logs");
    }
}

#[test]
fn idle_time_switches_complete_logs() {
    fn idle<P: LogPolicy>() {
        let mut bench = bench::<P>(8, 4, 12, 2);
        bench.write_all((0..12).chain(0..4));
        let steps: Vec<_> = std::iter::from_fn(|| {
            let step = bench.ftl.housekeeping();
            step.into_iter().for_each(|step| bench.step(step));
            step
        })
        .collect();
        assert!(matches!(steps[..], [Step::Erase { .. }]), "{steps:?}");
        assert_eq!((bench.ftl.counts().switch_merges, bench.ftl.log_blocks()), (1, 0));
        bench.check();
    }
    idle::<BastPolicy>();
    idle::<FastPolicy>();
    idle::<BlockPolicy>();
}

/// A log that is not complete may go on, and a log out of order would have to be copied: neither is idle work.
#[test]
fn idle_time_leaves_logs_alone_that_are_not_complete_or_not_in_order() {
    for more in [&[0, 1, 2][..], &[1, 0, 2, 3], &[0, 1, 2, 2]] {
        let mut bench = bench::<BastPolicy>(8, 4, 12, 2);
        bench.write_all((0..12).chain(more.iter().copied()));
        assert_eq!((bench.ftl.housekeeping(), bench.ftl.log_blocks()), (None, 1), "{more:?}");
        bench.check();
    }
}

#[test]
fn the_smallest_units_work_and_smaller_ones_are_refused_with_the_reason() {
    fn wear_out<P: LogPolicy>(blocks: u32, pages: u32, lpns: u32, logs: u32) {
        let mut bench = bench::<P>(blocks, pages, lpns, logs);
        bench.write_all((0..500).map(|n| n * 7 % lpns));
        let config = HybridConfig::new(blocks - 1, pages, lpns, logs);
        let refusal = Hybrid::<P>::new(config).unwrap_err();
        assert_eq!((refusal.what, refusal.found), ("good blocks of a unit", u64::from(blocks - 1)));
        let said = refusal.to_string();
        assert!(said.contains(&format!("expected {blocks} or more")), "{said}");
    }
    for pages in [1, 2, 8] {
        wear_out::<BlockPolicy>(4, pages, 3 * pages, 1);
        wear_out::<BastPolicy>(4, pages, 2 * pages, 1);
        wear_out::<FastPolicy>(4, pages, pages, 2);
    }
    wear_out::<BlockPolicy>(2, 1, 1, 1);
    assert_eq!(
        Bast::new(HybridConfig::new(4, 8, 20, 1)).unwrap_err().to_string(),
        "good blocks of a unit: found 4, expected 5 or more: 3 for 20 logical pages of 8 a block, 1 log blocks, 1 to \
         merge into"
    );
}

#[test]
fn numbers_that_make_no_unit_are_refused() {
    let config = |change: fn(&mut HybridConfig)| {
        let mut config = HybridConfig::new(16, 8, 32, 2);
        change(&mut config);
        Fast::new(config).unwrap_err().to_string()
    };
    assert!(config(|config| config.pages = 0).starts_with("pages of a unit's block: found 0"));
    assert!(
        config(|config| config.blocks = 1 << 28)
            .starts_with("pages of a unit's block: found 8, expected 1 or more, with")
    );
    assert!(config(|config| config.planes = 3).ends_with("a divisor of the 8 pages of a unit's block"));
    assert_eq!(config(|config| config.bad = vec![3, 16]), "bad block: found 16, expected below 16");
    assert_eq!(config(|config| config.lpns = 0), "logical pages of a unit: found 0, expected at least 1");
    assert_eq!(
        config(|config| config.logs = 1),
        "log blocks of a unit: found 1, expected at least 2: a sequential one and a random one"
    );
    let config = HybridConfig::new(4, 4, 4, 1);
    let rebuild = |scan| Bast::rebuild(config.clone(), vec![0; 4], &[], [scan]).unwrap_err().to_string();
    assert_eq!(rebuild((16, None)), "physical page: found 16, expected below 16");
    assert_eq!(rebuild((3, Some((4, 1)))), "logical page: found 4, expected below 4, at physical page 3");
    assert!(Bast::rebuild(config.clone(), vec![0; 3], &[], []).is_err());
}

/// The worst case: a unit in which every program fails ends as full.
#[test]
fn a_unit_whose_every_program_fails_is_full_in_the_end() {
    fn fail<P: LogPolicy>() {
        let config = HybridConfig::new(12, 4, 16, 3);
        let mut ftl = Hybrid::<P>::new(config).unwrap();
        let mut failed = 0;
        loop {
            match ftl.place(5) {
                Place::At(ppn) => ftl.program_failed(ppn),
                Place::Work(Step::Erase { block, .. }) => ftl.erased(block, false),
                Place::Work(Step::Pad { at, .. }) => ftl.program_failed(at),
                Place::Work(Step::Copy { to, .. }) => ftl.program_failed(to),
                Place::Full => break,
            }
            ftl.check();
            failed += 1;
            assert!(failed < 1000, "it never ends");
        }
        assert!(ftl.counts().retired >= 3, "{:?}", ftl.counts());
    }
    fail::<BlockPolicy>();
    fail::<BastPolicy>();
    fail::<FastPolicy>();
}
