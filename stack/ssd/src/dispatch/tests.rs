//! Schedules worked out by hand: each command sequence, checked one nanosecond early and on time.
//!
//! Read 50, program 200, erase 1,000, command 2, transfer 10, in nanoseconds.

use std::collections::BTreeMap;

use nand::{Array, ArrayConfig, Tags};
use sim::flame::Work;
use sim::{Cause, Ns};

use super::io::{Breakdown, ByEntry, Io, IoKind, Owner};
use super::{BusOrder, DispatchConfig, Dispatcher, Scheduling};
use crate::cells::{Cells, geometry};
use crate::ftl::{NONE, Place, Step, UnitFtl};
use crate::{Order, Shape, Timing};

/// An FTL that returns the scripted steps, then consecutive pages.
#[derive(Clone, Debug, Default)]
struct Scripted {
    map: BTreeMap<u32, u32>,
    steps: Vec<Step>,
    background: Vec<Step>,
    next: u32,
}

impl UnitFtl for Scripted {
    fn lpns(&self) -> u32 {
        1 << 10
    }
    fn lookup(&self, lpn: u32) -> u32 {
        self.map.get(&lpn).copied().unwrap_or(NONE)
    }
    fn holds(&self, ppn: u32) -> u32 {
        self.map.iter().find(|&(_, &at)| at == ppn).map_or(NONE, |(&lpn, _)| lpn)
    }
    fn place(&mut self, lpn: u32) -> Place {
        if !self.steps.is_empty() {
            return Place::Work(self.steps.remove(0));
        }
        self.map.insert(lpn, self.next);
        self.next += 1;
        Place::At(self.next - 1)
    }
    fn follows(&self, ppn: u32, _: u32) -> bool {
        self.steps.is_empty() && ppn + 1 == self.next
    }
    fn housekeeping(&mut self) -> Option<Step> {
        (!self.background.is_empty()).then(|| self.background.remove(0))
    }
    fn trim(&mut self, lpn: u32) {
        self.map.remove(&lpn);
    }
    fn erased(&mut self, _: u32, _: bool) {}
    fn program_failed(&mut self, _: u32) {}
    fn erase_counts(&self) -> &[u32] {
        &[]
    }
}

type Bench = Dispatcher<Array<Tags>, Scripted>;

const PLAIN: Timing = Timing::plain(Ns(50), Ns(200), Ns(1_000), Ns(2), Ns(10));

fn shape(channels: u32, ways: u32, planes: u32) -> Shape {
    Shape {
        channels,
        ways,
        dies: 1,
        planes,
        blocks: 8,
        pages: 16,
        page_bytes: 4096,
        order: Order::CHANNEL_FIRST,
        multi_plane: true,
    }
}

fn bench(shape: &Shape, timing: Timing) -> Bench {
    let array = Array::new(ArrayConfig::plain(geometry(shape, 0)), Tags);
    let config = DispatchConfig {
        timing,
        scheduling: Scheduling::ReadsFirst,
        bus_order: BusOrder::CommandsFirst,
        background_after: Some(Ns(7)),
    };
    Dispatcher::new(shape, config, Cells::new(shape, array), vec![Scripted::default(); shape.units() as usize])
}

/// Runs until no event is left and returns when each page operation finished, by tag.
fn ends(bench: &mut Bench) -> Vec<(u32, u64)> {
    let mut ends = Vec::new();
    while let Some(now) = bench.next_time() {
        bench.step();
        bench.check();
        for at in std::mem::take(&mut bench.finished) {
            let io = &bench.ios[at];
            assert_eq!(io.latency.total(), now.0 - io.queued_at, "the components of {:?} sum to its time", io.latency);
            let Owner::Request { tag, .. } = io.owner else { panic!("{:?} owns it", io.owner) };
            ends.push((tag, now.0));
        }
    }
    ends.sort_unstable();
    ends
}

fn push(bench: &mut Bench, at: u64, kind: IoKind, unit: u32, lpn: u32, tag: u32) {
    let io = Bench::io(kind, Cause::Host, unit, lpn, Owner::Request { tag, lpn });
    bench.push(Ns(at), io);
}

fn run_until(bench: &mut Bench, at: u64) {
    while bench.next_time().is_some_and(|next| next.0 <= at) {
        bench.step();
    }
}

/// A bench whose unit 0 holds logical pages 0 to 15 at physical pages 0 to 15.
fn filled(shape: &Shape, timing: Timing) -> Bench {
    let mut bench = bench(shape, timing);
    for unit in 0..shape.units() {
        for page in 0..16 {
            bench.units[unit as usize].map.insert(page, page);
            bench.units[unit as usize].next = 16;
            bench.cells.program(Cause::Host, unit, page, None).unwrap();
        }
    }
    bench
}

#[test]
fn a_read_is_command_array_and_transfer() {
    let mut bench = filled(&shape(1, 1, 1), PLAIN);
    push(&mut bench, 0, IoKind::Read, 0, 3, 1);
    bench.kick(Ns(0));
    run_until(&mut bench, 61);
    assert!(bench.finished.is_empty(), "one tick early");
    run_until(&mut bench, 62);
    assert_eq!(bench.finished.len(), 1);
    assert_eq!(bench.ios[bench.finished[0]].latency, Breakdown { bus: 12, die: 50, ..Breakdown::default() });
}

#[test]
fn a_program_is_transfer_and_array() {
    let mut bench = bench(&shape(1, 1, 1), PLAIN);
    push(&mut bench, 0, IoKind::Write, 0, 3, 1);
    bench.kick(Ns(0));
    run_until(&mut bench, 211);
    assert!(bench.finished.is_empty(), "one tick early");
    assert_eq!(ends(&mut bench), [(1, 212)]);
}

#[test]
fn reads_of_two_dies_share_their_bus_and_overlap_in_their_arrays() {
    let mut bench = filled(&shape(1, 2, 1), PLAIN);
    push(&mut bench, 0, IoKind::Read, 0, 0, 1);
    push(&mut bench, 0, IoKind::Read, 1, 0, 2);
    bench.kick(Ns(0));
    // Commands 0–2 and 2–4, arrays to 52 and 54, transfers 52–62 and 62–72: dies begin in the order in which they were
    // pushed to.
    assert_eq!(ends(&mut bench), [(1, 62), (2, 72)]);
}

#[test]
fn reads_of_two_channels_do_not_meet() {
    let mut bench = filled(&shape(2, 1, 1), PLAIN);
    push(&mut bench, 0, IoKind::Read, 0, 0, 1);
    push(&mut bench, 0, IoKind::Read, 1, 0, 2);
    bench.kick(Ns(0));
    assert_eq!(ends(&mut bench), [(1, 62), (2, 62)]);
}

#[test]
fn a_multi_plane_program_takes_its_transfers_and_one_array_time() {
    let mut bench = bench(&shape(1, 1, 2), PLAIN);
    push(&mut bench, 0, IoKind::Write, 0, 0, 1);
    push(&mut bench, 0, IoKind::Write, 0, 1, 2);
    push(&mut bench, 0, IoKind::Write, 0, 2, 3);
    bench.kick(Ns(0));
    // Two pages 0–22 and 22–222; the third alone 222–234 and to 434.
    assert_eq!(ends(&mut bench), [(1, 222), (2, 222), (3, 434)]);
    assert_eq!(bench.counts().program_ops, 2);
}

#[test]
fn pages_of_one_row_are_booked_to_their_own_causes() {
    let mut bench = bench(&shape(1, 1, 2), PLAIN);
    bench.units[0].steps.push(Step::Pad { at: 32, lpn: NONE });
    for (lpn, cause) in [(0, Cause::Padding), (1, Cause::Host), (2, Cause::Flush)] {
        let io = Bench::io(IoKind::Write, cause, 0, lpn, Owner::Request { tag: lpn, lpn });
        bench.push(Ns(0), io);
    }
    bench.kick(Ns(0));
    // The step of the layer, two pages together, the last.
    assert_eq!(ends(&mut bench), [(0, 434), (1, 434), (2, 646)]);
    let booked = bench.counts().programs;
    assert_eq!([Cause::Padding, Cause::Host, Cause::Flush].map(|cause| booked[cause]), [2, 1, 1]);
}

#[test]
fn a_multi_plane_read_takes_one_array_time_and_its_transfers() {
    let mut bench = filled(&shape(1, 1, 2), PLAIN);
    push(&mut bench, 0, IoKind::Read, 0, 4, 1);
    push(&mut bench, 0, IoKind::Read, 0, 5, 2);
    bench.kick(Ns(0));
    assert_eq!(ends(&mut bench), [(1, 72), (2, 72)]);
    // Pages of different rows are two operations.
    push(&mut bench, 100, IoKind::Read, 0, 5, 1);
    push(&mut bench, 100, IoKind::Read, 0, 6, 2);
    bench.kick(Ns(100));
    assert_eq!(ends(&mut bench), [(1, 162), (2, 224)]);
}

#[test]
fn a_cache_program_brings_data_in_while_the_array_works() {
    let mut bench = bench(&shape(1, 1, 1), Timing { cache_program: true, ..PLAIN });
    for owner in 0..3 {
        push(&mut bench, 0, IoKind::Write, 0, owner, owner);
    }
    bench.kick(Ns(0));
    // Data 0–12, 12–24, and the third's from 212, when the register is free; arrays to 212, 412, 612.
    assert_eq!(ends(&mut bench), [(0, 212), (1, 412), (2, 612)]);
    let mut plain = self::bench(&shape(1, 1, 1), PLAIN);
    for owner in 0..3 {
        push(&mut plain, 0, IoKind::Write, 0, owner, owner);
    }
    plain.kick(Ns(0));
    assert_eq!(ends(&mut plain), [(0, 212), (1, 424), (2, 636)]);
}

#[test]
fn a_cache_read_lets_the_array_work_while_data_go_out() {
    let mut bench = filled(&shape(1, 1, 1), Timing { cache_read: true, ..PLAIN });
    for owner in 0..3 {
        push(&mut bench, 0, IoKind::Read, 0, 2 * owner, owner);
    }
    bench.kick(Ns(0));
    // Array to 52; next command 52–54 and array to 104, data 54–64; command 104–106, array to 156, data 106–116;
    // 156–166.
    assert_eq!(ends(&mut bench), [(0, 64), (1, 116), (2, 166)]);
    let mut plain = filled(&shape(1, 1, 1), PLAIN);
    for owner in 0..3 {
        push(&mut plain, 0, IoKind::Read, 0, 2 * owner, owner);
    }
    plain.kick(Ns(0));
    assert_eq!(ends(&mut plain), [(0, 62), (1, 124), (2, 186)]);
}

#[test]
fn a_read_suspends_a_program_which_then_takes_what_was_left() {
    let timing = Timing { suspend_program: Some(Ns(5)), resume: Ns(3), ..PLAIN };
    let mut bench = filled(&shape(1, 1, 1), timing);
    push(&mut bench, 0, IoKind::Write, 0, 20, 1);
    bench.kick(Ns(0));
    run_until(&mut bench, 100);
    push(&mut bench, 100, IoKind::Read, 0, 4, 2);
    bench.kick(Ns(100));
    // Suspended 100–105; command to 107, array to 157, data to 167; resumed with 112 left and 3 on top.
    assert_eq!(ends(&mut bench), [(1, 282), (2, 167)]);
    assert_eq!(bench.counts().suspends, 1);
}

#[test]
fn a_read_that_comes_when_little_is_left_waits() {
    let timing = Timing { suspend_program: Some(Ns(5)), resume: Ns(3), ..PLAIN };
    let mut bench = filled(&shape(1, 1, 1), timing);
    push(&mut bench, 0, IoKind::Write, 0, 20, 1);
    bench.kick(Ns(0));
    run_until(&mut bench, 204);
    push(&mut bench, 204, IoKind::Read, 0, 4, 2);
    bench.kick(Ns(204));
    assert_eq!(ends(&mut bench), [(1, 212), (2, 274)]);
}

#[test]
fn an_erase_is_suspended_as_often_as_allowed() {
    let timing = Timing { suspend_erase: Some(Ns(10)), resume: Ns(4), max_suspends: 1, ..PLAIN };
    let mut bench = filled(&shape(1, 1, 1), timing);
    bench.units[0].steps.push(Step::Erase { block: 5, cause: Cause::Gc });
    push(&mut bench, 0, IoKind::Write, 0, 20, 1);
    bench.kick(Ns(0));
    run_until(&mut bench, 300);
    push(&mut bench, 300, IoKind::Read, 0, 4, 2);
    bench.kick(Ns(300));
    run_until(&mut bench, 371);
    assert!(bench.finished.is_empty(), "one tick early");
    run_until(&mut bench, 500);
    assert_eq!(std::mem::take(&mut bench.finished).len(), 1);
    push(&mut bench, 500, IoKind::Read, 0, 4, 3);
    bench.kick(Ns(500));
    // Erase 2–1002 suspended at 300 with 702 left: read 310–372, erase from 372 to 1078; the second read waits for it.
    assert_eq!(ends(&mut bench), [(1, 1352), (3, 1140)]);
}

#[test]
fn a_copy_reads_moves_and_programs_and_a_copyback_keeps_off_the_bus() {
    for (copyback, end) in [(false, 2 + 50 + 10 + 12 + 200), (true, 2 + 50 + 2 + 200)] {
        let mut bench = filled(&shape(1, 1, 1), Timing { copyback, ..PLAIN });
        bench.units[0].steps.push(Step::Copy { from: 3, to: 16, cause: Cause::Gc });
        bench.units[0].next = 17;
        push(&mut bench, 0, IoKind::Write, 0, 20, 1);
        bench.kick(Ns(0));
        assert_eq!(ends(&mut bench), [(1, end + 212)], "copyback {copyback}");
        assert_eq!(bench.counts().programs[Cause::Gc], 1);
    }
}

#[test]
fn two_copies_into_one_row_share_the_program() {
    let mut bench = filled(&shape(1, 1, 2), PLAIN);
    for (from, to) in [(3, 16), (6, 17)] {
        bench.units[0].steps.push(Step::Copy { from, to, cause: Cause::Gc });
    }
    bench.units[0].next = 18;
    push(&mut bench, 0, IoKind::Write, 0, 20, 1);
    bench.kick(Ns(0));
    // Two reads of 62, then both pages in (22) and one program; the write after it.
    assert_eq!(ends(&mut bench), [(1, 2 * 62 + 22 + 200 + 212)]);
}

#[test]
fn part_of_a_page_is_read_before_it_is_written() {
    let mut bench = filled(&shape(1, 1, 1), PLAIN);
    push(&mut bench, 0, IoKind::Merge, 0, 3, 1);
    bench.kick(Ns(0));
    assert_eq!(ends(&mut bench), [(1, 2 + 50 + 10 + 12 + 200)]);
    // No page is read where the page has no contents yet.
    push(&mut bench, 1_000, IoKind::Merge, 0, 30, 1);
    bench.kick(Ns(1_000));
    assert_eq!(ends(&mut bench), [(1, 1_212)]);
}

#[test]
fn a_page_that_was_never_written_takes_no_flash() {
    let mut bench = bench(&shape(1, 1, 1), PLAIN);
    push(&mut bench, 5, IoKind::Read, 0, 3, 1);
    bench.kick(Ns(5));
    assert_eq!((bench.finished.len(), bench.counts().host_reads), (1, 0));
}

#[test]
fn background_work_begins_after_a_while_and_a_read_waits_for_one_step_at_most() {
    let mut bench = filled(&shape(1, 1, 1), PLAIN);
    bench.units[0].background = vec![Step::Copy { from: 0, to: 16, cause: Cause::Gc }; 1];
    bench.units[0].background.push(Step::Copy { from: 1, to: 17, cause: Cause::Gc });
    push(&mut bench, 0, IoKind::Read, 0, 5, 1);
    bench.kick(Ns(0));
    // Read to 62, idle to 69, the first copy to 343. A read at 100 comes between the two.
    run_until(&mut bench, 100);
    bench.finished.clear();
    push(&mut bench, 100, IoKind::Read, 0, 5, 2);
    bench.kick(Ns(100));
    assert_eq!(ends(&mut bench), [(2, 69 + 274 + 62)]);
    assert_eq!(bench.counts().programs[Cause::Gc], 2);
}

/// When nothing is left to do, the next idle time is waited out anew: 7 ns after the read of 1,000, at 1,069.
#[test]
fn background_work_waits_for_each_idle_time() {
    let work = Step::Copy { from: 0, to: 16, cause: Cause::Gc };
    for (next, end) in [(1_065, 1_065 + 62), (1_068, 1_068 + 62), (1_070, 1_069 + 274 + 62)] {
        let mut bench = filled(&shape(1, 1, 1), PLAIN);
        bench.units[0].background = vec![work];
        push(&mut bench, 0, IoKind::Read, 0, 5, 1);
        bench.kick(Ns(0));
        assert_eq!(ends(&mut bench), [(1, 62)]);
        assert_eq!(bench.counts().programs[Cause::Gc], 1);
        bench.units[0].background = vec![Step::Copy { from: 1, to: 17, cause: Cause::Gc }];
        push(&mut bench, 1_000, IoKind::Read, 0, 5, 2);
        bench.kick(Ns(1_000));
        run_until(&mut bench, next - 1);
        bench.finished.clear();
        push(&mut bench, next, IoKind::Read, 0, 5, 3);
        bench.kick(Ns(next));
        assert_eq!(ends(&mut bench), [(3, end)], "a read at {next}");
        assert_eq!(bench.counts().programs[Cause::Gc], 2);
    }
}

/// Once it has begun it goes on without a further idle time, on each unit of the die.
#[test]
fn background_work_goes_on_until_no_unit_of_the_die_has_any() {
    let work = |from| Step::Copy { from, to: 16 + from, cause: Cause::Gc };
    for (units, to) in [([vec![work(0), work(1)], vec![]], 617), ([vec![work(0)], vec![work(0), work(1)]], 891)] {
        let mut bench = filled(&Shape { multi_plane: false, ..shape(1, 1, 2) }, PLAIN);
        for (unit, work) in bench.units.iter_mut().zip(units) {
            unit.background = work;
        }
        push(&mut bench, 0, IoKind::Read, 0, 5, 1);
        bench.kick(Ns(0));
        // Read to 62, idle to 69, copies of 274 each, to 343, 617 and 891. A read waits for the last one.
        run_until(&mut bench, to - 272);
        bench.finished.clear();
        push(&mut bench, to - 272, IoKind::Read, 0, 5, 2);
        bench.kick(Ns(to - 272));
        assert_eq!(ends(&mut bench), [(2, to + 62)]);
        assert_eq!(bench.counts().programs[Cause::Gc], (to - 69) / 274);
    }
}

/// Copyback moves a page within its plane, and only as it is: contents of the host come over the bus.
#[test]
fn a_copyback_stays_in_its_plane_and_takes_no_new_contents() {
    let (in_place, by_bus) = (2 + 50 + 2 + 200, 2 + 50 + 10 + 12 + 200);
    for (from, to, end) in [(0, 16, in_place), (1, 17, in_place), (0, 17, by_bus), (1, 16, by_bus)] {
        let mut bench = filled(&shape(1, 1, 2), Timing { copyback: true, ..PLAIN });
        bench.units[0].background = vec![Step::Copy { from, to, cause: Cause::Gc }];
        push(&mut bench, 0, IoKind::Read, 0, 5, 1);
        bench.kick(Ns(0));
        run_until(&mut bench, 69);
        bench.finished.clear();
        push(&mut bench, 70, IoKind::Read, 0, 5, 2);
        bench.kick(Ns(70));
        assert_eq!(ends(&mut bench), [(2, 69 + end + 62)], "page {from} to {to}");
    }
    for copyback in [false, true] {
        // Page 0 goes to page 16, which is in the same plane.
        let mut bench = filled(&shape(1, 1, 2), Timing { copyback, ..PLAIN });
        push(&mut bench, 0, IoKind::Merge, 0, 0, 1);
        bench.kick(Ns(0));
        assert_eq!(ends(&mut bench), [(1, by_bus)], "copyback {copyback}");
    }
}

#[test]
fn writes_wait_for_reads_only_where_reads_go_first() {
    let reads_first = [(1, 336), (2, 124), (9, 62)];
    let in_order = [(1, 274), (2, 336), (9, 62)];
    for (scheduling, expected) in [(Scheduling::ReadsFirst, reads_first), (Scheduling::InOrder, in_order)] {
        let mut bench = filled(&shape(1, 1, 1), PLAIN);
        bench.config.scheduling = scheduling;
        push(&mut bench, 0, IoKind::Read, 0, 0, 9);
        bench.kick(Ns(0));
        push(&mut bench, 1, IoKind::Write, 0, 40, 1);
        push(&mut bench, 2, IoKind::Read, 0, 7, 2);
        assert_eq!(ends(&mut bench), expected);
    }
}

/// A die of two planes that read independently, with pages 0 to 15: even ones on plane 0.
fn independent() -> Bench {
    filled(&shape(1, 1, 2), Timing { independent_reads: 2, ..PLAIN })
}

#[test]
fn independent_planes_read_at_the_same_time_and_share_the_bus() {
    let read_4_and = |other: u32, mut bench: Bench| {
        push(&mut bench, 0, IoKind::Read, 0, 4, 1);
        push(&mut bench, 0, IoKind::Read, 0, other, 2);
        bench.kick(Ns(0));
        (ends(&mut bench), bench.busy().0)
    };
    // Commands 0–2 and 2–4, arrays to 52 and 54, data 52–62 and 62–72: the die works from 2 to 54.
    assert_eq!(read_4_and(7, independent()), (vec![(1, 62), (2, 72)], vec![Ns(52)]));
    // Pages of the same row take a command each.
    assert_eq!(read_4_and(5, independent()), (vec![(1, 62), (2, 72)], vec![Ns(52)]));
    // The same plane, and planes that do not read independently.
    assert_eq!(read_4_and(6, independent()), (vec![(1, 62), (2, 124)], vec![Ns(100)]));
    assert_eq!(read_4_and(7, filled(&shape(1, 1, 2), PLAIN)), (vec![(1, 62), (2, 124)], vec![Ns(100)]));
}

/// Plane `p` of four belongs to group `p % 2`: planes 0 and 2 read one after the other, planes 0 and 1 at the same time.
#[test]
fn groups_of_planes_are_every_other_plane() {
    let timing = Timing { independent_reads: 2, ..PLAIN };
    for (other, end) in [(5, 72), (6, 124), (7, 72)] {
        let mut bench = filled(&shape(1, 1, 4), timing);
        // Rows 0 and 1, so that no two are one operation.
        push(&mut bench, 0, IoKind::Read, 0, 0, 1);
        push(&mut bench, 0, IoKind::Read, 0, other, 2);
        bench.kick(Ns(0));
        assert_eq!(ends(&mut bench), [(1, 62), (2, end)], "planes 0 and {}", other % 4);
    }
    // Planes that are units of their own.
    for (unit, end) in [(1, 72), (2, 124), (3, 72)] {
        let mut bench = filled(&Shape { multi_plane: false, ..shape(1, 1, 4) }, timing);
        push(&mut bench, 0, IoKind::Read, 0, 0, 1);
        push(&mut bench, 0, IoKind::Read, unit, 0, 2);
        bench.kick(Ns(0));
        assert_eq!(ends(&mut bench), [(1, 62), (2, end)], "planes 0 and {unit}");
    }
}

/// What a request waits for belongs to garbage collection only if it is work of the FTL: padding by the FTL is, that of the
/// write buffer is a write as others are.
#[test]
fn padding_of_the_buffer_is_a_write_of_which_others_wait_in_the_queue() {
    let wait_for = |by_ftl: bool| {
        let mut bench = filled(&shape(1, 1, 1), PLAIN);
        if by_ftl {
            bench.units[0].background = vec![Step::Pad { at: 16, lpn: NONE }];
            push(&mut bench, 0, IoKind::Read, 0, 3, 1);
        } else {
            bench.push(Ns(57), Bench::io(IoKind::Write, Cause::Padding, 0, 20, Owner::Request { tag: 1, lpn: 20 }));
        }
        bench.kick(Ns(if by_ftl { 0 } else { 57 }));
        // The padding is programmed from 69 to 281, or from 57 to 269.
        run_until(&mut bench, 99);
        bench.finished.clear();
        push(&mut bench, 100, IoKind::Read, 0, 3, 2);
        bench.kick(Ns(100));
        while bench.next_time().is_some() && !bench.finished.iter().any(|&io| bench.ios[io].kind == IoKind::Read) {
            bench.step();
        }
        let read = bench.finished.iter().find(|&&io| bench.ios[io].kind == IoKind::Read);
        bench.ios[*read.expect("it ends")].latency
    };
    let waited = |queue, gc| Breakdown { queue, gc, bus: 12, die: 50, ..Breakdown::default() };
    assert_eq!(wait_for(true), waited(0, 281 - 100));
    assert_eq!(wait_for(false), waited(269 - 100, 0));
}

#[test]
fn a_program_holds_all_planes_and_waits_until_none_reads() {
    let mut bench = independent();
    push(&mut bench, 0, IoKind::Write, 0, 20, 1);
    bench.kick(Ns(0));
    run_until(&mut bench, 100);
    push(&mut bench, 100, IoKind::Read, 0, 4, 2);
    push(&mut bench, 100, IoKind::Read, 0, 7, 3);
    bench.kick(Ns(100));
    // The program to 212; then both reads, as above.
    assert_eq!(ends(&mut bench), [(1, 212), (2, 274), (3, 284)]);

    let mut bench = independent();
    push(&mut bench, 0, IoKind::Read, 0, 7, 2);
    bench.kick(Ns(0));
    push(&mut bench, 1, IoKind::Write, 0, 20, 1);
    bench.kick(Ns(1));
    assert_eq!(ends(&mut bench), [(1, 62 + 212), (2, 62)]);
}

#[test]
fn a_read_of_any_plane_suspends_a_program() {
    let timing = Timing { independent_reads: 2, suspend_program: Some(Ns(5)), resume: Ns(3), ..PLAIN };
    let mut bench = filled(&shape(1, 1, 2), timing);
    push(&mut bench, 0, IoKind::Write, 0, 20, 1);
    bench.kick(Ns(0));
    run_until(&mut bench, 100);
    push(&mut bench, 100, IoKind::Read, 0, 7, 2);
    push(&mut bench, 100, IoKind::Read, 0, 4, 3);
    bench.kick(Ns(100));
    // Suspended 100–105; the first plane's read to 167, the other's data to 177; resumed with 112 left and 3 on top.
    assert_eq!(ends(&mut bench), [(1, 292), (2, 177), (3, 167)]);
    assert_eq!(bench.counts().suspends, 1);
    // The program 12–100 and 177–292, the reads 107–159.
    assert_eq!(bench.busy().0, [Ns(88 + 115 + 52)]);
}

/// What is recorded of arrays, by cause and work, and of buses, in nanoseconds.
type Recorded = (Vec<(Cause, Work, u64)>, Vec<(Cause, u64)>);

fn recorded(bench: &mut Bench) -> Recorded {
    let time = bench.stop_recording().unwrap();
    let dies: Vec<_> = time.dies().map(|(cause, work, span)| (cause, work, span.0)).collect();
    let buses: Vec<_> = time.buses().map(|(cause, span)| (cause, span.0)).collect();
    let sum = |spans: &[Ns]| spans.iter().map(|span| span.0).sum::<u64>();
    let (of_dies, of_buses) = bench.busy();
    assert_eq!(dies.iter().map(|(.., span)| span).sum::<u64>(), sum(&of_dies), "{dies:?}");
    assert_eq!(buses.iter().map(|(_, span)| span).sum::<u64>(), sum(&of_buses), "{buses:?}");
    assert_eq!(bench.stop_recording(), None);
    (dies, buses)
}

#[test]
fn time_of_dies_and_buses_is_recorded_by_cause_and_work() {
    use Work::{Erase, Program, Read};
    // A collection moves two pages before the write, a page of the table is read and written, and a block is erased.
    let mut bench = filled(&shape(1, 1, 1), PLAIN);
    bench.units[0].steps = vec![
        Step::Copy { from: 0, to: 16, cause: Cause::Gc },
        Step::Copy { from: 1, to: 17, cause: Cause::WearLevel },
        Step::Erase { block: 0, cause: Cause::Gc },
        Step::Pad { at: 18, lpn: NONE },
    ];
    bench.units[0].next = 19;
    bench.record();
    let map = |kind, lpn| Bench::io(kind, Cause::Map, 0, lpn, Owner::Request { tag: lpn, lpn });
    bench.push(Ns(0), map(IoKind::Read, 5));
    bench.push(Ns(0), map(IoKind::Write, 6));
    push(&mut bench, 0, IoKind::Read, 0, 4, 9);
    bench.kick(Ns(0));
    ends(&mut bench);
    let dies = vec![
        (Cause::Host, Read, 50),
        (Cause::WearLevel, Read, 50),
        (Cause::WearLevel, Program, 200),
        (Cause::Gc, Read, 50),
        (Cause::Gc, Program, 200),
        (Cause::Gc, Erase, 1_000),
        (Cause::Map, Read, 50),
        (Cause::Map, Program, 200),
        (Cause::Padding, Program, 200),
    ];
    // A read: a command and its data. A program: both at once. A copy: the one, then the other. An erase: a command.
    let (read, program, erase) = (2 + 10, 2 + 10, 2);
    let buses = vec![
        (Cause::Host, read),
        (Cause::WearLevel, read + program),
        (Cause::Gc, read + program + erase),
        (Cause::Map, read + program),
        (Cause::Padding, program),
    ];
    assert_eq!(recorded(&mut bench), (dies, buses));
}

#[test]
fn what_a_suspend_takes_back_and_reads_at_the_same_time_are_recorded_once() {
    for independent_reads in [1, 2] {
        let timing = Timing { independent_reads, suspend_program: Some(Ns(5)), resume: Ns(3), ..PLAIN };
        let mut bench = filled(&shape(1, 1, 2), timing);
        bench.record();
        push(&mut bench, 0, IoKind::Write, 0, 20, 1);
        bench.kick(Ns(0));
        run_until(&mut bench, 100);
        push(&mut bench, 100, IoKind::Read, 0, 7, 2);
        push(&mut bench, 100, IoKind::Read, 0, 4, 3);
        bench.kick(Ns(100));
        ends(&mut bench);
        // The program 12–100 and its rest of 112 with 3 on top; the reads 107–159, or one after the other.
        let reads = if independent_reads == 2 { 52 } else { 100 };
        let dies = vec![(Cause::Host, Work::Read, reads), (Cause::Host, Work::Program, 88 + 115)];
        assert_eq!(recorded(&mut bench), (dies, vec![(Cause::Host, 12 + 2 * 12)]), "{independent_reads}");
    }
}

#[test]
fn a_read_whose_page_moved_to_another_plane_waits_there() {
    let mut bench = independent();
    for (tag, page) in [(1, 0), (2, 2), (3, 4)] {
        push(&mut bench, 0, IoKind::Read, 0, page, tag);
    }
    bench.kick(Ns(0));
    run_until(&mut bench, 30);
    bench.units[0].map.insert(2, 17);
    // All three on plane 0 at first. At 62 the third begins there, the second on plane 1.
    assert_eq!(ends(&mut bench), [(1, 62), (2, 134), (3, 124)]);
}

#[test]
fn commands_go_before_data_or_after_them() {
    let commands_first = [(0, 69), (1, 119), (2, 257)];
    let data_first = [(0, 67), (1, 129), (2, 257)];
    for (order, expected) in [(BusOrder::CommandsFirst, commands_first), (BusOrder::DataFirst, data_first)] {
        let mut bench = filled(&shape(1, 3, 1), PLAIN);
        bench.config.bus_order = order;
        push(&mut bench, 0, IoKind::Read, 0, 0, 0);
        bench.kick(Ns(0));
        run_until(&mut bench, 45);
        push(&mut bench, 45, IoKind::Write, 2, 40, 2);
        bench.kick(Ns(45));
        run_until(&mut bench, 53);
        push(&mut bench, 53, IoKind::Read, 1, 0, 1);
        bench.kick(Ns(53));
        // At 57, when the write's data are in, the data of die 0 and the command of die 1 wait.
        assert_eq!(ends(&mut bench), expected);
    }
}

#[test]
fn with_data_first_a_cache_read_gains_nothing_on_a_bus_of_its_own() {
    let mut bench = filled(&shape(1, 1, 1), Timing { cache_read: true, ..PLAIN });
    bench.config.bus_order = BusOrder::DataFirst;
    for tag in 0..3 {
        push(&mut bench, 0, IoKind::Read, 0, 2 * tag, tag);
    }
    bench.kick(Ns(0));
    assert_eq!(ends(&mut bench), [(0, 62), (1, 124), (2, 186)]);
}

/// Contents of the physical page that each read returns: unit 0 holds logical pages 0 to 15 at physical pages 0 to 15,
/// each filled with its number.
fn contents_by_entry(planes: u32, groups: u32, reads: &[(u32, ByEntry)]) -> Vec<u8> {
    let shape = shape(1, 1, planes);
    let array = Array::new(ArrayConfig::plain(geometry(&shape, 0)), nand::Bytes::new());
    let timing = Timing { independent_reads: groups, ..PLAIN };
    let config = DispatchConfig {
        timing,
        scheduling: Scheduling::ReadsFirst,
        bus_order: BusOrder::default(),
        background_after: None,
    };
    let mut bench = Dispatcher::new(&shape, config, Cells::new(&shape, array), vec![Scripted::default()]);
    for page in 0..16 {
        bench.units[0].map.insert(page, page);
        bench.cells.program(Cause::Host, 0, page, Some(&[page as u8; 4096])).unwrap();
    }
    bench.units[0].next = 16;
    for (tag, &(lpn, by_entry)) in (0..).zip(reads) {
        let io = Dispatcher::<Array<nand::Bytes>, Scripted>::io(
            IoKind::Read,
            Cause::Host,
            0,
            lpn,
            Owner::Request { tag, lpn },
        );
        bench.push(Ns(0), Io { checked: true, by_entry, ..io });
    }
    bench.kick(Ns(0));
    while bench.next_time().is_some() {
        bench.step();
        bench.check();
    }
    let mut found = vec![0xee; reads.len()];
    for &at in &bench.finished {
        let Owner::Request { tag, .. } = bench.ios[at].owner else { panic!("not ours") };
        found[tag as usize] = bench.ios.page(at).first().copied().unwrap_or(0xff);
    }
    found
}

#[test]
fn a_read_by_entry_reads_the_page_of_its_entry_unless_its_page_has_moved_since() {
    let entry = |page, mapped| ByEntry { page, mapped };
    for (planes, groups) in [(1, 1), (2, 1), (2, 2)] {
        let reads = [
            (3, entry(3, 3)),
            (3, entry(5, 3)),
            (3, entry(5, 9)),
            (4, entry(NONE, 4)),
            (4, entry(7, NONE)),
            (8, entry(8, 8)),
            (9, entry(15, 9)),
            (10, entry(10, 10)),
            (11, entry(6, 7)),
        ];
        // 0xff: the entry says that the page is unmapped, and nothing is read.
        let expected = [3, 5, 3, 0xff, 4, 8, 15, 10, 11];
        assert_eq!(contents_by_entry(planes, groups, &reads), expected, "{planes} planes in {groups} groups");
    }
}

/// When power goes, the cells change of programs and erases that the array has begun, suspended ones included. Data that are
/// on the bus, and copies that still read, leave no trace.
#[test]
fn what_the_arrays_program_or_erase_is_torn_when_power_goes() {
    let timing = Timing { suspend_erase: Some(Ns(10)), resume: Ns(3), ..PLAIN };
    let mut bench = filled(&shape(5, 1, 1), timing);
    bench.cells.program(Cause::Host, 2, 5 * 16, None).unwrap();
    bench.units[2].steps.push(Step::Erase { block: 5, cause: Cause::Gc });
    for unit in [3, 4] {
        bench.units[unit].steps.push(Step::Copy { from: 3, to: 16, cause: Cause::Gc });
        bench.units[unit].next = 17;
    }
    // Programs 12–212 and, after its data, 107–307; an erase 2–60, then a read; copies that read 62–112 and program 74–274.
    for (at, kind, unit, lpn) in [
        (0, IoKind::Write, 0, 20),
        (0, IoKind::Write, 2, 20),
        (0, IoKind::Write, 4, 20),
        (60, IoKind::Read, 2, 4),
        (60, IoKind::Write, 3, 20),
        (95, IoKind::Write, 1, 20),
    ] {
        run_until(&mut bench, at);
        push(&mut bench, at, kind, unit, lpn, unit);
        bench.kick(Ns(at));
    }
    run_until(&mut bench, 100);
    let programmed = |bench: &Bench| {
        let mark = |(unit, block)| bench.cells.flash().mark(bench.cells.peb(unit, block, 0)) / 4096;
        [(0, 1), (1, 1), (2, 5), (3, 1), (4, 1)].map(mark)
    };
    assert_eq!(programmed(&bench), [0, 0, 1, 0, 0]);
    let mut cuts = 0;
    bench.tear_under_way(Ns(100), |_| cuts += 1);
    assert_eq!((cuts, programmed(&bench)), (3, [1, 0, 0, 0, 1]));
}
