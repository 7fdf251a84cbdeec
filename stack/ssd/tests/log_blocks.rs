//! Rules of the log-block FTLs, each with the steps worked out by hand: which replacement block is closed, what a merge
//! leaves whose pages were trimmed meanwhile, what becomes of blocks that failed, and how old blocks are after a power-on.

use sim::Cause;
use ssd::ftl::bast::{Bast, BastPolicy};
use ssd::ftl::block::BlockPolicy;
use ssd::ftl::fast::{Fast, FastPolicy};
use ssd::ftl::hybrid::{Hybrid, HybridConfig, LogPolicy};
use ssd::ftl::{Place, Step, UnitFtl};

/// Pages of a block.
const PAGES: u32 = 4;

/// A unit, and the steps that it required since they were last taken.
struct Unit<P> {
    ftl: Hybrid<P>,
    steps: Vec<Step>,
}

impl<P: LogPolicy> Unit<P> {
    /// A unit of four logical blocks, in data blocks 0 to 3.
    fn filled(blocks: u32, logs: u32) -> Unit<P> {
        let ftl = Hybrid::new(HybridConfig::new(blocks, PAGES, 4 * PAGES, logs)).expect("a legal geometry");
        let mut unit = Unit { ftl, steps: Vec::new() };
        (0..4 * PAGES).for_each(|lpn| assert_eq!(unit.write(lpn), lpn));
        assert_eq!(unit.steps, []);
        unit
    }

    fn perform(&mut self, step: Step) {
        if let Step::Erase { block, .. } = step {
            self.ftl.erased(block, true);
        }
        self.steps.push(step);
        self.ftl.check();
    }

    /// Writes a page, with all work that it requires, and returns where it went.
    fn write(&mut self, lpn: u32) -> u32 {
        loop {
            match self.ftl.place(lpn) {
                Place::At(ppn) => return ppn,
                Place::Work(step) => self.perform(step),
                Place::Full => panic!("no room for page {lpn}"),
            }
        }
    }

    fn erased(&self) -> Vec<u32> {
        let erased = |step: &Step| if let Step::Erase { block, .. } = step { Some(*block) } else { None };
        self.steps.iter().filter_map(erased).collect()
    }

    /// Pages copied, each with the cause under which it is counted.
    fn copied(&self) -> Vec<(u32, Cause)> {
        let copied = |step: &Step| if let Step::Copy { from, cause, .. } = step { Some((*from, *cause)) } else { None };
        self.steps.iter().filter_map(copied).collect()
    }
}

/// Page `lpn` with sequence number `seq` in page `offset` of a block.
fn tag(block: u32, offset: u32, lpn: u32, seq: u64) -> (u32, Option<(u32, u64)>) {
    (block * PAGES + offset, Some((lpn, seq)))
}

/// Data blocks 0 to 3 of four logical blocks, with the lowest sequence numbers.
fn data() -> impl Iterator<Item = (u32, Option<(u32, u64)>)> + Clone {
    (0..4 * PAGES).map(|lpn| (lpn, Some((lpn, 1 + u64::from(lpn)))))
}

#[test]
fn a_page_that_goes_back_closes_its_own_replacement_block() {
    let mut unit = Unit::<BlockPolicy>::filled(8, 2);
    // Replacement blocks of logical blocks 1 and 0, of which that of 1 was written least recently.
    let other = unit.write(4);
    unit.write(0);
    let copy = |from| (from, Cause::Gc);
    unit.write(0);
    assert_eq!((unit.copied(), unit.erased()), (vec![copy(1), copy(2), copy(3)], vec![0]));
    assert_eq!(unit.ftl.lookup(4), other, "that of logical block 1 is still open");
    // A third logical block needs a replacement block: now it is closed.
    unit.steps.clear();
    unit.write(8);
    assert_eq!((unit.copied(), unit.erased()), (vec![copy(5), copy(6), copy(7)], vec![1]));
}

#[test]
fn a_merge_whose_last_page_is_trimmed_leaves_no_block() {
    let mut unit = Unit::<BastPolicy>::filled(8, 2);
    // A full log block in no order: the next page of logical block 0 has it merged into a third block.
    for lpn in [1, 0, 1, 0] {
        unit.write(lpn);
    }
    let log = unit.ftl.lookup(1) / PAGES;
    let Place::Work(step @ Step::Copy { to, .. }) = unit.ftl.place(1) else { panic!("a merge") };
    unit.perform(step);
    (0..PAGES).for_each(|lpn| unit.ftl.trim(lpn));
    unit.ftl.check();
    unit.write(4);
    let mut erased = unit.erased();
    erased.sort_unstable();
    let mut all = [0, log, to / PAGES];
    all.sort_unstable();
    assert_eq!(erased, all, "data block, log block and the merge's target");
    let counts = unit.ftl.counts();
    assert_eq!((counts.full_merges, counts.partial_merges, counts.switch_merges, counts.copied_pages), (0, 0, 0, 1));
}

/// Copies out of a block in which a program failed are recovery, other copies of the same merge are not.
#[test]
fn only_what_leaves_a_failed_block_is_counted_as_recovery() {
    let mut unit = Unit::<BastPolicy>::filled(8, 2);
    let kept = unit.write(1);
    let failed = unit.write(0);
    assert_eq!(kept / PAGES, failed / PAGES, "one log block");
    unit.ftl.program_failed(failed);
    unit.write(0);
    assert_eq!(unit.copied(), [(kept, Cause::Recovery), (2, Cause::Gc), (3, Cause::Gc)]);
    assert_eq!((unit.erased(), unit.ftl.counts().retired), (vec![0], 1), "the log block is retired without an erase");
}

/// Programs may end after their block has lost its last valid page.
#[test]
fn a_block_that_fails_while_it_waits_for_its_erase_is_not_erased() {
    let mut unit = Unit::<BastPolicy>::filled(8, 2);
    (0..PAGES).for_each(|lpn| unit.ftl.trim(lpn));
    unit.ftl.program_failed(3);
    unit.ftl.check();
    unit.write(4);
    assert_eq!((unit.steps.len(), unit.ftl.counts().retired, unit.ftl.good_blocks()), (0, 1, 7));
    assert_eq!(unit.ftl.erase_counts()[0], 0);
}

/// Without a free block a failed block cannot be emptied; that goes on when a block has been freed.
#[test]
fn a_failed_block_is_emptied_as_soon_as_a_block_is_free() {
    // Data blocks 0 to 3 and replacement blocks of logical blocks 0 and 2: no block is free.
    let mut unit = Unit::<BlockPolicy>::filled(6, 2);
    assert_eq!([0, 8].map(|lpn| unit.write(lpn) / PAGES), [4, 5]);
    unit.ftl.program_failed(5);
    unit.ftl.check();
    // The replacement block of 0 is completed, block 0 is erased, and logical block 1 moves there. With a block less there
    // may be one replacement block: that of 2 is completed before one is opened for page 5, behind a copy of page 4.
    let ppn = unit.write(5);
    assert_eq!((unit.erased(), unit.ftl.counts().retired), (vec![0, 2], 1));
    assert_eq!((ppn, [4, 6, 7].map(|lpn| unit.ftl.lookup(lpn))), (2 * PAGES + 1, [2 * PAGES, 2, 3]));
}

#[test]
fn the_least_worn_free_block_is_taken_whatever_became_free_last() {
    // Block 0 holds padding only: it is erased before anything is written.
    let wear = vec![9, 3, 1, 2, 1, 7];
    let mut ftl =
        Bast::rebuild(HybridConfig::new(6, PAGES, 2 * PAGES, 1), wear, &[], [(0, None)]).expect("a legal scan");
    assert_eq!(ftl.place(0), Place::Work(Step::Erase { block: 0, cause: Cause::Gc }));
    ftl.erased(0, true);
    // Worn 10, 3, 1, 2, 1 and 7 times.
    assert_eq!([0, 4].map(|lpn| ftl.place(lpn)), [2, 4].map(|block| Place::At(block * PAGES)));
}

/// BAST with two log blocks found by a scan, that of logical block 0 the older. `lpns` are written before page 8, which
/// needs a log block: the logical block whose log block is merged for it.
fn merged_after_a_scan(lpns: &[u32]) -> u32 {
    let logs = [tag(4, 0, 1, 100), tag(5, 0, 5, 110)];
    let config = HybridConfig::new(9, PAGES, 4 * PAGES, 2);
    let ftl = Bast::rebuild(config, vec![0; 9], &[], data().chain(logs)).expect("a legal scan");
    let mut unit = Unit { ftl, steps: Vec::new() };
    for &lpn in lpns {
        unit.write(lpn);
    }
    assert_eq!(unit.steps, []);
    unit.write(8);
    let erased = unit.erased();
    [0, 1].into_iter().find(|&logical| erased.contains(&logical)).expect("its data block is erased")
}

#[test]
fn after_a_power_on_the_log_block_with_the_oldest_pages_is_merged_first() {
    assert_eq!(merged_after_a_scan(&[]), 0);
    assert_eq!(merged_after_a_scan(&[6]), 0);
    assert_eq!(merged_after_a_scan(&[0]), 1, "what is written now is newer than all that was found");
    assert_eq!(merged_after_a_scan(&[0, 6]), 0);
}

/// Only a log block whose pages are at their offsets can be FAST's sequential one: any other is a random one, and takes
/// pages of all logical blocks.
#[test]
fn a_log_block_out_of_order_is_a_random_one_after_a_power_on() {
    let config = HybridConfig::new(9, PAGES, 4 * PAGES, 3);
    let ftl = Fast::rebuild(config.clone(), vec![0; 9], &[], data().chain([tag(4, 0, 2, 100)])).expect("a legal scan");
    let mut unit = Unit { ftl, steps: Vec::new() };
    assert_eq!(unit.write(5), 4 * PAGES + 1, "behind page 2");
    let ftl = Fast::rebuild(config, vec![0; 9], &[], data().chain([tag(4, 0, 0, 100)])).expect("a legal scan");
    let mut unit: Unit<FastPolicy> = Unit { ftl, steps: Vec::new() };
    assert_ne!(unit.write(5) / PAGES, 4, "block 4 is the sequential log block of logical block 0");
    assert_eq!(unit.write(1), 4 * PAGES + 1);
}

/// FAST has a sequential log block besides the random ones; when blocks have failed so that one log block is left, it is a
/// random one.
#[test]
fn the_last_log_block_of_fast_takes_first_pages_too() {
    let mut unit = Unit::<FastPolicy>::filled(7, 2);
    let failed = unit.write(1);
    unit.ftl.program_failed(failed);
    assert_eq!((unit.ftl.good_blocks(), unit.ftl.counts().retired), (6, 1));
    let random = unit.write(1);
    assert_eq!([0, 4, 8].map(|lpn| unit.write(lpn)), [1, 2, 3].map(|page| random + page));
    assert_eq!((&unit.steps[..], unit.ftl.log_blocks()), (&[][..], 1));
}

/// Block 4 has page 0 of a logical block and three pages left. If it is closed, a page goes elsewhere, and so do all until it is erased.
#[test]
fn a_block_that_a_power_on_closes_takes_no_more_pages() {
    let config = HybridConfig::new(9, PAGES, 4 * PAGES, 2);
    let goes_to = |closed: &[u32]| {
        let scan = data().chain([tag(4, 0, 8, 100)]);
        let ftl = Bast::rebuild(config.clone(), vec![0; 9], closed, scan).expect("a legal scan");
        ftl.check();
        let mut unit = Unit { ftl, steps: Vec::new() };
        (unit.write(9), unit.write(10))
    };
    assert_eq!(goes_to(&[]), (4 * PAGES + 1, 4 * PAGES + 2));
    let (first, second) = goes_to(&[4]);
    assert!([first, second].iter().all(|ppn| ppn / PAGES != 4), "{first} and {second}");
    let refused = Bast::rebuild(config, vec![0; 9], &[9], data()).expect_err("there is no such block");
    assert_eq!(refused.to_string(), "block: found 9, expected below 9");
}

/// A unit of five blocks and two logical blocks after a power-on that finds no block free. Blocks 3 and 4 are the data and the
/// log block of logical block 1.
fn without_free_block(scan: &[(u32, Option<(u32, u64)>)], closed: &[u32]) -> Unit<BastPolicy> {
    let other = (0..4).map(|page| tag(3, page, 4 + page, 5 + u64::from(page))).chain([tag(4, 0, 5, 20)]);
    let config = HybridConfig::new(5, PAGES, 2 * PAGES, 2);
    let ftl = Bast::rebuild(config, vec![0; 5], closed, other.chain(scan.iter().copied())).expect("a legal scan");
    ftl.check();
    Unit { ftl, steps: Vec::new() }
}

/// Page 0 alone was merged into block 0, since the others were trimmed. Power was lost in the erase of block 1, the old data
/// block, which still has page 1; the old log block still has page 3. Block 0 takes both.
#[test]
fn without_a_free_block_a_data_block_is_completed() {
    let mut unit = without_free_block(&[tag(0, 0, 0, 1), tag(1, 1, 1, 2), tag(2, 0, 3, 10)], &[1]);
    assert_eq!(unit.write(6), 4 * PAGES + 1);
    let gc = Cause::Gc;
    let copy = |from, to| Step::Copy { from, to, cause: gc };
    let erase = |block| Step::Erase { block, cause: gc };
    assert_eq!(unit.steps, [copy(5, 1), erase(1), Step::Pad { at: 2, lpn: 2 }, copy(8, 3), erase(2)]);
    assert_eq!([0, 1, 2, 3].map(|lpn| unit.ftl.lookup(lpn)), [0, 1, ssd::ftl::NONE, 3]);
}

/// Pages 0 and 1 were merged into block 1, since the others were trimmed. Of the old data block, which is half erased, page 2 is
/// left. The old log block still has page 3, and page 0 too: that in block 1 counts, which can then be completed.
#[test]
fn of_two_copies_the_one_in_a_block_in_order_counts() {
    let scan = [tag(0, 2, 2, 3), tag(1, 0, 0, 11), tag(1, 1, 1, 2), tag(2, 0, 3, 12), tag(2, 1, 0, 11)];
    let mut unit = without_free_block(&scan, &[0]);
    assert_eq!(unit.ftl.lookup(0), PAGES);
    assert_eq!(unit.write(6), 4 * PAGES + 1);
    assert_eq!([0, 1, 2, 3].map(|lpn| unit.ftl.lookup(lpn)), [4, 5, 6, 7]);
}

/// As before, but of the old data block page 1 is left too, which is at its offset, and page 3, which is the newest of all.
#[test]
fn a_copy_in_a_half_erased_block_does_not_count() {
    let scan = [tag(0, 1, 1, 2), tag(0, 3, 3, 4), tag(1, 0, 0, 1), tag(1, 1, 1, 2), tag(2, 0, 2, 12)];
    let mut unit = without_free_block(&scan, &[0]);
    assert_eq!(unit.write(6), 4 * PAGES + 1);
    assert_eq!([0, 1, 2, 3].map(|lpn| unit.ftl.lookup(lpn)), [4, 5, 6, 7]);
}

/// The last free block fails when log block 4 is merged. Data block 0 is in order, and takes the page of its log block, which is
/// free then.
#[test]
fn when_the_last_free_block_fails_a_data_block_is_completed() {
    let mut unit = without_free_block(&[tag(0, 0, 0, 1), tag(2, 0, 3, 10)], &[]);
    assert_eq!([4, 5, 4].map(|lpn| unit.write(lpn)), [1, 2, 3].map(|page| 4 * PAGES + page));
    let Place::Work(Step::Copy { to, .. }) = unit.ftl.place(5) else { panic!("a merge of logical block 1") };
    assert_eq!(to / PAGES, 1, "block 1 is the only free one");
    unit.ftl.program_failed(to);
    unit.ftl.check();
    unit.write(5);
    assert_eq!((unit.ftl.counts().retired, unit.ftl.lookup(3)), (1, 3));
    assert_eq!(unit.erased()[0], 2);
}
