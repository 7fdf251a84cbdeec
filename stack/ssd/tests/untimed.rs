//! A drive without time over units whose steps the test chooses, and the criterion of a steady state.

use sim::Seed;
use ssd::ftl::page::{PageConfig, PageFtl};
use ssd::ftl::{NONE, Place, Step, UnitFtl};
use ssd::untimed::{Steady, SteadyUntil, UnitFull, lpns_per_unit};
use ssd::{Order, Shape, Striping, Untimed};

const SHAPE: Shape = Shape {
    channels: 2,
    ways: 1,
    dies: 1,
    planes: 1,
    blocks: 40,
    pages: 16,
    page_bytes: 4096,
    order: Order::CHANNEL_FIRST,
    multi_plane: false,
};

/// A unit that places so many pages and is full then, and has so many steps of background work.
struct Limited {
    pages: u32,
    idle: u32,
}

impl UnitFtl for Limited {
    fn lpns(&self) -> u32 {
        500
    }
    fn lookup(&self, _: u32) -> u32 {
        NONE
    }
    fn holds(&self, _: u32) -> u32 {
        NONE
    }
    fn place(&mut self, _: u32) -> Place {
        let left = self.pages.checked_sub(1);
        self.pages = left.unwrap_or(0);
        left.map_or(Place::Full, Place::At)
    }
    fn follows(&self, _: u32, _: u32) -> bool {
        false
    }
    fn housekeeping(&mut self) -> Option<Step> {
        self.idle = self.idle.checked_sub(1)?;
        Some(Step::Pad { at: self.idle, lpn: NONE })
    }
    fn trim(&mut self, _: u32) {}
    fn erased(&mut self, _: u32, _: bool) {}
    fn program_failed(&mut self, _: u32) {}
    fn erase_counts(&self) -> &[u32] {
        &[]
    }
}

fn drive(units: [Limited; 2]) -> Untimed<Limited> {
    Untimed::new(Striping::new(&SHAPE), units.into(), 1_000)
}

#[test]
fn a_full_unit_is_named_with_the_page_that_found_no_room() {
    for (room, unit, lpn) in [([3, 9], 0, 6), ([9, 3], 1, 7), ([0, 9], 0, 0), ([9, 8], 1, 17)] {
        // Even pages are of unit 0, odd ones of unit 1.
        let full = || drive(room.map(|pages| Limited { pages, idle: 0 }));
        assert_eq!(full().fill_sequential(18), Err(UnitFull { unit, lpn }), "{room:?}");
        let mut drive = full();
        let one_by_one = (0..20).find_map(|lpn| drive.write(lpn).err());
        assert_eq!(one_by_one, Some(UnitFull { unit, lpn }), "{room:?}, one by one");
    }
    assert_eq!(drive([9, 9].map(|pages| Limited { pages, idle: 0 })).fill_sequential(18), Ok(()));
}

#[test]
fn idle_time_has_so_many_steps_for_each_unit() {
    let mut drive = drive([3, 7].map(|idle| Limited { pages: 0, idle }));
    assert_eq!([2, 2, 2, 2, 2].map(|steps| drive.idle(steps)), [4, 3, 2, 1, 0]);
}

/// In a window as many pages are written as the drive has. It is steady when its write amplification differs from that of
/// the window before by less than `change` of it.
#[test]
fn steady_state_is_a_small_change_from_one_window_to_the_next() {
    const PAGES: u32 = 900;
    let fresh = || {
        let lpns = lpns_per_unit(&SHAPE, PAGES);
        let unit = |at| PageFtl::new(PageConfig::new(SHAPE.blocks, SHAPE.pages, lpns), Seed(at).stream("gc"));
        let units = [1, 2].map(|at| unit(at).expect("a legal geometry")).into();
        let mut drive = Untimed::new(Striping::new(&SHAPE), units, PAGES);
        drive.fill_sequential(PAGES).expect("room");
        drive
    };
    let mut drive = fresh();
    let mut rng = Seed(7).stream("pages");
    let windows: Vec<f64> = (0..12)
        .map(|_| {
            let before = drive.tally().programmed.total();
            drive.fill_random(PAGES.into(), &mut rng).expect("room");
            (drive.tally().programmed.total() - before) as f64 / f64::from(PAGES)
        })
        .collect();
    let mut by_change = Vec::new();
    for change in [0.5, 0.3, 0.2, 0.1, 0.05, 0.03, 0.02, 0.01] {
        let settled = (1..12).find(|&at| (windows[at] - windows[at - 1]).abs() < change * windows[at - 1]);
        let expected = match settled {
            Some(at) => Steady { windows: at as u32 + 1, waf: windows[at], settled: true },
            None => Steady { windows: 12, waf: windows[11], settled: false },
        };
        let found = fresh().steady_state(SteadyUntil { change, at_most: 12 }, &mut Seed(7).stream("pages"));
        assert_eq!(found, Ok(expected), "{change}: {windows:?}");
        by_change.push(expected.windows);
    }
    assert!(by_change.first() < by_change.last(), "{by_change:?}");
}
