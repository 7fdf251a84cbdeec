//! The page-level FTL on a flash that rejects illegal operations, compared with the newest version of each page.

use std::collections::BTreeMap;

use proptest::prelude::*;
use sim::{Cause, Seed};
use ssd::ftl::gc::GcPolicy;
use ssd::ftl::page::{BlockState, Foreground, PageConfig, PageFtl, SlcCache, SlcFull};
use ssd::ftl::wear::Wear;
use ssd::ftl::{NONE, Place, Step, UnitFtl};
use ssd::untimed::{SteadyUntil, Tally, lpns_per_unit, write_stepwise};
use ssd::{Order, Shape, Striping, Untimed};

/// Contents of a page: a logical page and its version.
type Contents = (u32, u32);

/// The flash of one unit: pages are programmed in order and erased block by block.
struct Flash {
    pages: u32,
    contents: Vec<Option<Contents>>,
    programmed: Vec<u32>,
    erases: Vec<u32>,
}

impl Flash {
    fn new(config: &PageConfig) -> Flash {
        let pages = config.blocks * config.pages;
        Flash {
            pages: config.pages,
            contents: vec![None; pages as usize],
            programmed: vec![0; config.blocks as usize],
            erases: vec![0; config.blocks as usize],
        }
    }

    fn program(&mut self, ppn: u32, contents: Option<(u32, u32)>) {
        let (block, page) = (ppn / self.pages, ppn % self.pages);
        assert_eq!(self.programmed[block as usize], page, "block {block} is programmed in order, each page once");
        self.programmed[block as usize] += 1;
        self.contents[ppn as usize] = contents;
    }

    fn erase(&mut self, block: u32) {
        let from = (block * self.pages) as usize;
        self.contents[from..from + self.pages as usize].fill(None);
        self.programmed[block as usize] = 0;
        self.erases[block as usize] += 1;
    }
}

/// Operations of the flash that are to fail next.
#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    program: bool,
    erase: bool,
}

/// An FTL with its flash and a model of what the host wrote.
struct Rig {
    ftl: PageFtl,
    flash: Flash,
    newest: BTreeMap<u32, u32>,
    version: u32,
    faults: Faults,
    /// Number of operations that failed.
    failures: u32,
    /// Whether so much failed that the unit may become full.
    harmed: bool,
}

impl Rig {
    fn new(config: &PageConfig, seed: u64) -> Rig {
        let ftl = PageFtl::new(config.clone(), Seed(seed).stream("gc")).expect("a legal geometry");
        let flash = Flash::new(config);
        Rig { ftl, flash, newest: BTreeMap::new(), version: 0, faults: Faults::default(), failures: 0, harmed: false }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Copy { from, to, .. } => {
                let (lpn, version) = self.flash.contents[from as usize].expect("a copied page holds something");
                assert_eq!(self.ftl.lookup(lpn), to);
                if std::mem::take(&mut self.faults.program) {
                    self.fail_program(to);
                    self.put(lpn, version);
                } else {
                    self.flash.program(to, Some((lpn, version)));
                }
            }
            Step::Erase { block, .. } => {
                let ok = !std::mem::take(&mut self.faults.erase);
                self.flash.erase(block);
                if !ok {
                    self.failed();
                }
                self.ftl.erased(block, ok);
            }
            Step::Pad { .. } => unreachable!("this layer pads nothing"),
        }
    }

    /// Counts a failure. One block may fail at any moment without harm if two are kept free and one block is spare.
    fn failed(&mut self) {
        self.failures += 1;
        let config = self.ftl.config();
        let spare = config.most_lpns() >= u64::from(config.lpns + config.pages);
        self.harmed |= self.failures > 1 || config.gc_low < 2 || !spare;
    }

    fn fail_program(&mut self, at: u32) {
        self.failed();
        self.flash.program(at, None);
        self.ftl.program_failed(at);
    }

    /// Places a page, with all required work. Returns false if the unit is full.
    fn put(&mut self, lpn: u32, version: u32) -> bool {
        let config = self.ftl.config().clone();
        let pages = config.blocks * (config.pages + 2);
        let foreseen = self.last_placed_in(lpn);
        for steps in 0..=10 * pages {
            match self.ftl.place(lpn) {
                Place::At(at) => {
                    if let Some(foreseen) = foreseen {
                        assert_eq!((at, steps), (foreseen, 0), "what follows, follows");
                    }
                    assert_eq!((self.ftl.lookup(lpn), self.ftl.holds(at)), (at, lpn));
                    if std::mem::take(&mut self.faults.program) {
                        self.fail_program(at);
                        return self.put(lpn, version);
                    }
                    self.flash.program(at, Some((lpn, version)));
                    self.newest.insert(lpn, version);
                    return true;
                }
                Place::Work(step) => self.step(step),
                Place::Full => {
                    assert!(self.harmed, "the layer promised room for {} pages", config.lpns);
                    // Data that were to be placed again after a failed program are lost when the unit is full.
                    if self.ftl.lookup(lpn) == NONE {
                        self.newest.remove(&lpn);
                    }
                    return false;
                }
            }
        }
        panic!("no page and no refusal after {} steps", 10 * pages);
    }

    /// Tears the program of a host page by a loss of power: the page has no readable tag, and the version written is
    /// lost.
    fn tear(&mut self, lpn: u32) {
        loop {
            match self.ftl.place(lpn) {
                Place::At(at) => return self.flash.program(at, None),
                Place::Work(step) => self.step(step),
                Place::Full => return,
            }
        }
    }

    /// Loses power after some steps of work for `lpn`, and rebuilds the FTL from the flash.
    fn cut(&mut self, lpn: u32, after: u32, torn: bool, seed: u64) {
        for _ in 0..after {
            match self.ftl.place(lpn) {
                Place::Work(step) => self.step(step),
                Place::At(at) => {
                    self.version += 1;
                    self.flash.program(at, Some((lpn, self.version)));
                    self.newest.insert(lpn, self.version);
                }
                Place::Full => break,
            }
        }
        if torn {
            self.tear(lpn);
        }
        let config = self.ftl.config().clone();
        let bad = |block: &u32| self.ftl.block_state(*block) == BlockState::Bad;
        let retired: Vec<u32> = (0..config.blocks).filter(bad).collect();
        // A copy has its source's version as its sequence number.
        let page = |ppn: u32| self.flash.contents[ppn as usize].map(|(lpn, version)| (lpn, u64::from(version)));
        let of_block =
            |block: u32| (0..self.flash.programmed[block as usize]).map(move |page| block * config.pages + page);
        // From the last block to the first: the order does not matter.
        let found: Vec<_> = (0..config.blocks).rev().flat_map(of_block).map(|ppn| (ppn, page(ppn))).collect();
        let erases = self.flash.erases.clone();
        self.ftl = PageFtl::rebuild(self.ftl.config().clone(), Seed(seed).stream("gc"), erases, &retired, found)
            .expect("what the layer wrote");
        for lpn in (0..config.lpns).filter(|lpn| !self.newest.contains_key(lpn)) {
            self.ftl.trim(lpn);
        }
    }

    /// The physical page that `lpn` must get next, if `follows` is true after one that was allocated.
    fn last_placed_in(&self, lpn: u32) -> Option<u32> {
        let config = self.ftl.config();
        let open = (0..config.blocks).filter(|&block| self.ftl.block_state(block) == BlockState::Open);
        let mut last =
            open.map(|block| block * config.pages + self.ftl.handed_out(block)).filter(|at| at % config.pages > 0);
        last.find(|&next| self.ftl.follows(next - 1, lpn))
    }

    fn write(&mut self, lpn: u32) -> bool {
        self.version += 1;
        self.put(lpn, self.version)
    }

    fn check(&self) {
        self.ftl.check();
        for lpn in 0..self.ftl.lpns() {
            let ppn = self.ftl.lookup(lpn);
            let found = (ppn != NONE).then(|| self.flash.contents[ppn as usize].expect("a mapped page is programmed"));
            assert_eq!(found, self.newest.get(&lpn).map(|&v| (lpn, v)));
        }
        for block in 0..self.ftl.config().blocks {
            assert_eq!(self.ftl.handed_out(block), self.flash.programmed[block as usize], "block {block}");
        }
        assert_eq!(self.ftl.erase_counts(), &self.flash.erases[..]);
    }
}

fn policies() -> impl Strategy<Value = GcPolicy> {
    prop_oneof![
        Just(GcPolicy::Greedy),
        Just(GcPolicy::CostBenefit),
        Just(GcPolicy::Fifo),
        Just(GcPolicy::Random),
        (1u32..6).prop_map(|d| GcPolicy::DChoices { d }),
        (1u32..6).prop_map(|window| GcPolicy::Windowed { window }),
    ]
}

/// Geometries from the smallest valid one, with as many logical pages as are valid, or fewer.
fn configs() -> impl Strategy<Value = PageConfig> {
    let wear = prop_oneof![
        Just(Wear::None),
        Just(Wear::Dynamic),
        (0u32..4, 1u32..4).prop_map(|(threshold, every)| Wear::Static { threshold, every }),
    ];
    let foreground = prop_oneof![Just(Foreground::Block), Just(Foreground::Paced)];
    let slc = prop_oneof![
        2 => Just(None),
        1 => (1u32..4, 1u32..9, any::<[bool; 2]>()).prop_map(|(blocks, pages, [fold, folds_idle])| {
            let when_full = if fold { SlcFull::Fold } else { SlcFull::Direct };
            Some(SlcCache { blocks, pages, when_full, folds_idle })
        }),
    ];
    let shape = (4u32..14, 1u32..9, 1u32..3, prop::collection::vec(0u32..14, 0..3));
    let background = (0u32..6, 1u32..9);
    (shape, policies(), wear, foreground, slc, any::<bool>(), 1u32..4, background, 0u32..4)
        .prop_map(|((blocks, pages, planes, bad), gc, wear, foreground, slc, separate, gc_low, background, fewer)| {
            let pages = pages * planes;
            let mut config = PageConfig::new(blocks, pages, 0);
            config.planes = planes;
            config.bad = bad.into_iter().filter(|&block| block < blocks).collect();
            config.slc = slc.map(|slc| SlcCache { pages: (slc.pages * planes).min(pages), ..slc });
            (config.gc, config.wear, config.foreground, config.separate) = (gc, wear, foreground, separate);
            (config.gc_low, (config.gc_background, config.gc_background_gain)) = (gc_low, background);
            config.lpns = (config.most_lpns() as u32).saturating_sub(fewer * (1 + fewer % 2 * config.pages));
            config
        })
        .prop_filter("it must be legal", |config| config.check().is_ok())
}

#[derive(Clone, Debug)]
enum Op {
    Write(u32),
    Trim(u32),
    Idle(u32),
    FailProgram,
    FailErase,
}

fn healthy() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => any::<u32>().prop_map(Op::Write),
        // A few pages written often, the others rarely.
        6 => (0u32..3).prop_map(Op::Write),
        1 => any::<u32>().prop_map(Op::Trim),
        2 => (1u32..20).prop_map(Op::Idle),
    ]
}

fn failing() -> impl Strategy<Value = Op> {
    prop_oneof![20 => healthy(), 1 => Just(Op::FailProgram), 1 => Just(Op::FailErase)]
}

fn run(rig: &mut Rig, ops: &[Op]) {
    let lpns = rig.ftl.lpns();
    for op in ops {
        match *op {
            Op::Write(lpn) => {
                rig.write(lpn % lpns);
            }
            Op::Trim(lpn) => {
                rig.ftl.trim(lpn % lpns);
                rig.newest.remove(&(lpn % lpns));
            }
            Op::Idle(steps) => {
                for _ in 0..steps {
                    let Some(step) = rig.ftl.housekeeping() else { break };
                    rig.step(step);
                }
            }
            Op::FailProgram => rig.faults.program = true,
            Op::FailErase => rig.faults.erase = true,
        }
        rig.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn every_read_finds_the_newest_version_and_a_healthy_unit_never_runs_full(
        config in configs(), ops in prop::collection::vec(healthy(), 1..400), seed in any::<u64>(),
    ) {
        let mut rig = Rig::new(&config, seed);
        // From the fullest state, with all logical pages mapped.
        for lpn in 0..config.lpns {
            prop_assert!(rig.write(lpn));
        }
        run(&mut rig, &ops);
    }

    #[test]
    fn failing_programs_and_erasures_retire_blocks_and_lose_nothing(
        config in configs(), ops in prop::collection::vec(failing(), 1..300), seed in any::<u64>(),
    ) {
        let mut rig = Rig::new(&config, seed);
        run(&mut rig, &ops);
        let bad = (0..config.blocks).filter(|&block| rig.ftl.block_state(block) == BlockState::Bad).count() as u32;
        prop_assert_eq!(bad, config.blocks - rig.ftl.good_blocks());
    }

    #[test]
    fn a_layer_built_anew_from_the_pages_maps_as_before_and_goes_on(
        config in configs(), ops in prop::collection::vec(healthy(), 1..200), seed in any::<u64>(),
        lives in prop::collection::vec(
            (any::<u32>(), 0u32..20, any::<bool>(), prop::collection::vec(healthy(), 0..100)), 1..6),
    ) {
        let mut rig = Rig::new(&config, seed);
        run(&mut rig, &ops);
        for (lpn, after, torn, more) in lives {
            rig.cut(lpn % config.lpns, after, torn, seed);
            rig.check();
            // With one reserved block, a loss of power during a collection may use it up.
            rig.harmed = config.gc_low == 1;
            run(&mut rig, &more);
        }
    }

    #[test]
    fn writing_without_steps_leaves_the_state_that_the_steps_leave(
        config in configs(), rounds in prop::collection::vec(prop::collection::vec(any::<u32>(), 1..120), 1..8),
        idle in 0u32..5, seed in any::<u64>(),
    ) {
        // Paced copies are done at once here: see `paced_collection_costs_the_same_with_and_without_time`.
        let config = PageConfig { foreground: Foreground::Block, ..config };
        let new = || PageFtl::new(config.clone(), Seed(seed).stream("gc")).expect("a legal geometry");
        let (mut stepped, mut at_once) = (new(), new());
        let (mut by_steps, mut by_run) = (Tally::default(), Tally::default());
        for round in rounds {
            let lpns: Vec<u32> = round.into_iter().map(|lpn| lpn % config.lpns).collect();
            prop_assert_eq!(write_stepwise(&mut stepped, &lpns, &mut by_steps), Ok(()));
            prop_assert_eq!(at_once.write_untimed(&lpns, &mut by_run), Ok(()));
            for _ in 0..idle {
                for (unit, tally) in [(&mut stepped, &mut by_steps), (&mut at_once, &mut by_run)] {
                    if let Some(step) = unit.housekeeping() {
                        ssd::untimed::perform(unit, step, tally);
                    }
                }
            }
            at_once.check();
            prop_assert_eq!(format!("{stepped:?}"), format!("{at_once:?}"));
            prop_assert_eq!(by_steps, by_run);
        }
    }
}

fn unit(config: PageConfig) -> PageFtl {
    PageFtl::new(config, Seed(1).stream("gc")).expect("a legal geometry")
}

#[test]
fn geometries_that_cannot_work_are_refused_with_the_reason() {
    let refusal = |config: PageConfig| config.check().expect_err("refused").to_string();
    assert_eq!(refusal(PageConfig::new(3, 8, 1)), "blocks of a unit: found 3, expected at least 4");
    // Of four blocks, two are kept free and one is open for copies: the rest holds less than a block of data.
    assert!(PageConfig::new(4, 8, 7).check().is_ok());
    let told = refusal(PageConfig::new(4, 8, 8));
    assert!(told.starts_with("logical pages of a unit: found 8, expected 1 to 7: 4 blocks of 8 pages"), "{told}");
    let mut config = PageConfig::new(8, 6, 4);
    config.planes = 4;
    assert_eq!(
        refusal(config.clone()),
        "planes of a unit: found 4, expected a divisor of the 6 pages of a unit's block"
    );
    (config.planes, config.bad) = (2, vec![8]);
    assert_eq!(refusal(config), "bad block: found 8, expected below 8");
}

/// Difference of erase counts, and pages copied by wear levelling, of a unit where nine tenths of the data never
/// change.
fn wear_out(wear: Wear) -> (u32, u64) {
    let mut config = PageConfig::new(64, 16, 800);
    config.wear = wear;
    let mut ftl = unit(config);
    let mut tally = Tally::default();
    let mut rng = Seed(1).stream("host");
    let mut lpns: Vec<u32> = (0..800).collect();
    lpns.extend((0..200_000).map(|_| rng.below(80) as u32));
    ftl.write_untimed(&lpns, &mut tally).expect("a healthy unit has room");
    ftl.check();
    let counts = ftl.erase_counts();
    let spread = counts.iter().max().expect("blocks") - counts.iter().min().expect("blocks");
    (spread, tally.programmed[Cause::WearLevel])
}

#[test]
fn static_levelling_keeps_wear_together_where_data_never_change() {
    let (none, dynamic, levelled) =
        (wear_out(Wear::None), wear_out(Wear::Dynamic), wear_out(Wear::Static { threshold: 10, every: 4 }));
    assert_eq!((none.1, dynamic.1), (0, 0));
    assert!(none.0 > 200 && dynamic.0 > 200, "{none:?} {dynamic:?}");
    assert!(levelled.0 <= 20 && levelled.1 > 0, "{levelled:?}");
}

#[test]
fn host_pages_go_to_slc_blocks_while_any_is_free_and_idle_time_folds_them() {
    let mut config = PageConfig::new(16, 12, 100);
    config.slc = Some(SlcCache { blocks: 3, pages: 4, when_full: SlcFull::Direct, folds_idle: true });
    let mut ftl = unit(config);
    assert_eq!((0..16).filter(|&block| ftl.is_slc(block)).collect::<Vec<_>>(), [0, 1, 2]);
    let mut tally = Tally::default();
    ftl.write_untimed(&(0..20).collect::<Vec<_>>(), &mut tally).expect("room");
    // 3 SLC blocks of 4 pages, then a normal block.
    let in_slc = |ftl: &PageFtl| (0..20).filter(|&lpn| ftl.is_slc(ftl.block_of(ftl.lookup(lpn)))).collect::<Vec<_>>();
    assert_eq!(in_slc(&ftl), (0..12).collect::<Vec<_>>());
    while let Some(step) = ftl.housekeeping() {
        ssd::untimed::perform(&mut ftl, step, &mut tally);
    }
    ftl.check();
    assert_eq!((in_slc(&ftl).len(), ftl.folded_pages(), &ftl.erase_counts()[..4]), (0, 12, &[1, 1, 1, 0][..]));
    ftl.write_untimed(&[30], &mut tally).expect("room");
    assert!(ftl.is_slc(ftl.block_of(ftl.lookup(30))));
}

/// Does all work of an idle unit; returns the number of steps.
fn rest(ftl: &mut PageFtl) -> u32 {
    let mut steps = 0;
    while let Some(step) = ftl.housekeeping() {
        ssd::untimed::perform(ftl, step, &mut Tally::default());
        steps += 1;
    }
    steps
}

#[test]
fn an_idle_unit_of_a_full_drive_does_not_copy_a_block_for_each_page_that_is_written() {
    // Sixteen blocks like those of a small eMMC: the spare does not suffice for the free blocks that are wanted.
    let mut config = PageConfig::new(16, 512, 6297);
    config.gc_background = 3;
    let mut ftl = unit(config);
    let mut tally = Tally::default();
    ftl.write_untimed(&(0..6297).collect::<Vec<_>>(), &mut tally).expect("room");
    rest(&mut ftl);
    let before = ftl.programmed()[Cause::Gc];
    let mut rng = Seed(1).stream("host");
    for _ in 0..4000 {
        ftl.write_untimed(&[rng.below(6297) as u32], &mut tally).expect("room");
        rest(&mut ftl);
    }
    ftl.check();
    let copies = ftl.programmed()[Cause::Gc] - before;
    // Each collection gains an eighth of a block, so that it copies at most seven pages for one.
    assert!(copies <= 7 * 4000, "{copies} copies for 4000 pages");
}

#[test]
fn an_idle_unit_collects_a_block_with_as_many_invalid_pages_as_it_asks_for() {
    for (invalid, collected) in [(7, 0), (8, 1)] {
        let mut config = PageConfig::new(8, 64, 256);
        (config.gc_background, config.gc_background_gain) = (4, 8);
        let mut ftl = unit(config);
        // Four full blocks and a fifth, begun, leave three free.
        ftl.write_untimed(&(0..256).collect::<Vec<_>>(), &mut Tally::default()).expect("room");
        ftl.write_untimed(&(0..invalid).collect::<Vec<_>>(), &mut Tally::default()).expect("room");
        rest(&mut ftl);
        assert_eq!(ftl.erasures()[Cause::Gc], collected, "{invalid} invalid pages");
    }
}

#[test]
fn paced_collection_spreads_copies_over_host_pages() {
    let longest = |foreground| {
        let mut config = PageConfig::new(64, 64, 3200);
        config.foreground = foreground;
        let mut ftl = unit(config);
        let mut rng = Seed(1).stream("host");
        let mut longest = 0;
        for write in 0..60_000 {
            let lpn = if write < 3200 { write } else { rng.below(3200) as u32 };
            let mut steps = 0;
            while let Place::Work(step) = ftl.place(lpn) {
                ssd::untimed::perform(&mut ftl, step, &mut Tally::default());
                steps += 1;
            }
            longest = longest.max(steps);
        }
        longest
    };
    let (block, paced) = (longest(Foreground::Block), longest(Foreground::Paced));
    assert!(block > 40 && paced < 16, "{block} steps before a page at most, paced {paced}");
}

/// Pages programmed per page of the host over the second half of many random writes, step by step or at once.
fn steady_waf(foreground: Foreground, planes: u32, stepwise: bool) -> f64 {
    const LPNS: u32 = 64 * 54;
    let ftl = unit(PageConfig { foreground, planes, ..PageConfig::new(64, 64, LPNS) });
    let (mut ftl, mut rng, mut tally) = (ftl, Seed(1).stream("host"), Tally::default());
    let mut before = Tally::default();
    for round in 0..200 {
        if round == 100 {
            before = tally;
        }
        let lpns: Vec<u32> =
            (0..LPNS).map(|lpn| if round == 0 { lpn } else { rng.below(u64::from(LPNS)) as u32 }).collect();
        let written =
            if stepwise { write_stepwise(&mut ftl, &lpns, &mut tally) } else { ftl.write_untimed(&lpns, &mut tally) };
        written.expect("room");
    }
    ftl.check();
    tally.since(&before).waf().expect("the host wrote")
}

#[test]
fn paced_collection_costs_the_same_with_and_without_time() {
    for planes in [1, 4] {
        let (timed, untimed) =
            (steady_waf(Foreground::Paced, planes, true), steady_waf(Foreground::Paced, planes, false));
        assert!((timed / untimed - 1.0).abs() < 0.01, "{planes} planes: {timed} step by step, {untimed} at once");
    }
}

/// The copies of a victim are even: no window of a few blocks' host pages has much more of them than another.
#[test]
fn paced_collection_is_as_even_as_its_victims() {
    let copies = |foreground| {
        const LPNS: u32 = 64 * 54;
        let mut ftl = unit(PageConfig { foreground, planes: 4, ..PageConfig::new(64, 64, LPNS) });
        let (mut rng, mut tally) = (Seed(1).stream("host"), Tally::default());
        let all: Vec<u32> = (0..LPNS).chain((0..40 * LPNS).map(|_| rng.below(LPNS.into()) as u32)).collect();
        write_stepwise(&mut ftl, &all, &mut tally).expect("room");
        let mut windows: Vec<u64> = Vec::new();
        for _ in 0..400 {
            let lpns: Vec<u32> = (0..32).map(|_| rng.below(LPNS.into()) as u32).collect();
            let before = tally;
            write_stepwise(&mut ftl, &lpns, &mut tally).expect("room");
            windows.push(tally.since(&before).programmed[Cause::Gc]);
        }
        let mean = windows.iter().sum::<u64>() as f64 / windows.len() as f64;
        let square = windows.iter().map(|&copies| (copies as f64 - mean).powi(2)).sum::<f64>() / windows.len() as f64;
        square.sqrt() / mean
    };
    let (block, paced) = (copies(Foreground::Block), copies(Foreground::Paced));
    assert!(paced < 0.25 && block > 2.0 * paced, "variation of copies: at once {block}, paced {paced}");
}

/// Paced copies and host pages each come in whole rows, so that one operation programs all planes.
#[test]
fn paced_collection_keeps_the_planes_together() {
    const LPNS: u32 = 64 * 54;
    let mut ftl = unit(PageConfig { foreground: Foreground::Paced, planes: 4, ..PageConfig::new(64, 64, LPNS) });
    let mut rng = Seed(1).stream("host");
    let (mut rows, mut pages, mut last) = (0u32, 0u32, None);
    let mut programmed = |ppn: u32| {
        let goes_on = last.is_some_and(|last: u32| last + 1 == ppn && !ppn.is_multiple_of(4));
        (rows, pages, last) = (rows + u32::from(!goes_on), pages + 1, Some(ppn));
    };
    for write in 0..20 * LPNS {
        let lpn = if write < LPNS { write } else { rng.below(LPNS.into()) as u32 };
        loop {
            match ftl.place(lpn) {
                Place::At(ppn) => break programmed(ppn),
                Place::Work(step) => {
                    if let Step::Copy { to, .. } = step {
                        programmed(to);
                    }
                    ssd::untimed::perform(&mut ftl, step, &mut Tally::default());
                }
                Place::Full => panic!("page {lpn} finds no room"),
            }
        }
    }
    let each = f64::from(pages) / f64::from(rows);
    assert!(each > 3.7, "{each} pages a program");
}

#[test]
fn sorted_by_unit_or_one_by_one_a_drive_ends_in_the_same_state() {
    let shape = Shape {
        channels: 2,
        ways: 3,
        dies: 1,
        planes: 2,
        blocks: 16,
        pages: 8,
        page_bytes: 4096,
        order: Order::CHANNEL_FIRST,
        multi_plane: true,
    };
    let pages = 1000;
    let drive = || {
        let units = (0..shape.units()).map(|_| unit(PageConfig::new(16, 16, lpns_per_unit(&shape, pages))));
        Untimed::new(Striping::new(&shape), units.collect(), pages)
    };
    let (mut sorted, mut single) = (drive(), drive());
    let mut rng = Seed(2).stream("host");
    let lpns: Vec<u32> = (0..pages).chain((0..20_000).map(|_| rng.below(u64::from(pages)) as u32)).collect();
    sorted.write_all(lpns.iter().copied()).expect("room");
    for &lpn in &lpns {
        single.write(lpn).expect("room");
    }
    assert_eq!(sorted.tally(), single.tally());
    assert_eq!(format!("{:?}", sorted.units()), format!("{:?}", single.units()));
    let programmed = sorted.tally().programmed;
    assert_eq!(programmed[Cause::Host], lpns.len() as u64);
    let own: u64 = sorted.units().iter().map(|unit| unit.programmed().total()).sum();
    assert_eq!(own, programmed.total(), "the drive's sum is that of its units");
    let erased: u64 = sorted.erase_counts().map(u64::from).sum();
    assert_eq!(erased, sorted.tally().erased.total());
    single.trim(7);
    assert_eq!((single.read(7).1, single.read(8).1.is_some()), (None, true));
}

#[test]
fn steady_state_is_reached_and_told() {
    let shape = Shape {
        channels: 1,
        ways: 2,
        dies: 1,
        planes: 1,
        blocks: 512,
        pages: 32,
        page_bytes: 4096,
        order: Order::CHANNEL_FIRST,
        multi_plane: true,
    };
    let pages = 26_000;
    let units = (0..2).map(|_| unit(PageConfig::new(512, 32, lpns_per_unit(&shape, pages))));
    let mut drive = Untimed::new(Striping::new(&shape), units.collect(), pages);
    drive.fill_sequential(pages).expect("room");
    assert_eq!(drive.tally().waf(), Some(1.0));
    let mut rng = Seed(3).stream("host");
    let steady = drive.steady_state(SteadyUntil::default(), &mut rng).expect("room");
    assert!(steady.settled && steady.windows >= 2, "{steady:?}");
    let before = *drive.tally();
    drive.fill_random(5 * u64::from(pages), &mut rng).expect("room");
    let after = drive.tally().since(&before).waf().expect("the host wrote");
    assert!((after / steady.waf - 1.0).abs() < 0.02, "{after} after {steady:?}");
    let never = SteadyUntil { change: 0.0, at_most: 3 };
    let steady = drive.steady_state(never, &mut rng).expect("room");
    assert_eq!((steady.settled, steady.windows), (false, 3));
}

#[test]
fn a_drive_is_made_only_of_units_that_have_their_share() {
    let shape = Shape {
        channels: 3,
        ways: 1,
        dies: 1,
        planes: 1,
        blocks: 16,
        pages: 8,
        page_bytes: 4096,
        order: Order::CHANNEL_FIRST,
        multi_plane: false,
    };
    let pages = 240;
    let share = lpns_per_unit(&shape, pages);
    assert_eq!(share, 80);
    let made = |lpns: [u32; 3]| {
        let units = lpns.map(|lpns| unit(PageConfig::new(16, 8, lpns)));
        std::panic::catch_unwind(|| Untimed::new(Striping::new(&shape), units.into(), pages)).is_ok()
    };
    assert!(made([share; 3]) && made([share + 1, share, share + 8]));
    for short in 0..3 {
        for missing in [1, 30] {
            let mut lpns = [share; 3];
            lpns[short] -= missing;
            assert!(!made(lpns), "unit {short} misses {missing} pages");
        }
    }
}

/// Of two pages with the same number, that in another block is the copy of a collection that was interrupted. Both in one
/// block are no copy of it: then the block is not left out.
#[test]
fn a_page_that_is_twice_in_one_block_is_not_lost_in_a_rebuild() {
    let page = |ppn, lpn, seq| (ppn, Some((lpn, seq)));
    let rebuild = |scan: &[(u32, Option<(u32, u64)>)]| {
        let config = PageConfig::new(8, 4, 8);
        let ftl = PageFtl::rebuild(config, Seed(1).stream("gc"), vec![0; 8], &[], scan.iter().copied());
        let ftl = ftl.expect("a legal scan");
        ftl.check();
        [ftl.lookup(0), ftl.lookup(1)]
    };
    assert_eq!(rebuild(&[page(0, 0, 1), page(1, 0, 1)]), [0, NONE]);
    assert_eq!(rebuild(&[page(0, 0, 1), page(1, 1, 2), page(8, 0, 1), page(9, 1, 2)]), [8, 9], "block 0 is left out");
    assert_eq!(rebuild(&[page(0, 0, 1), page(8, 0, 1), page(9, 1, 2)]), [8, 9], "block 0 is left out");
    assert_eq!(rebuild(&[page(0, 0, 1), page(1, 0, 1), page(2, 1, 1)]), [0, 2]);
}
