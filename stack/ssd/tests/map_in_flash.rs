//! A drive of one die whose mapping table is in flash: what each request waits for, against a list of the cached map
//! pages.
//!
//! A page is read in 62 ns and programmed in 212; a map page that was written before is read, changed and programmed in
//! 274. Between two requests the die becomes idle, and there is room enough that nothing is collected.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use nand::{Array, ArrayConfig, Tags};
use sim::seam::{BlockDevice, BlockRequest, Payload};
use sim::{Cause, Ns, Seed};
use ssd::dispatch::io::Breakdown;
use ssd::ftl::map_cache::MapCacheConfig;
use ssd::ftl::page::{PageConfig, PageFtl};
use ssd::ftl::{NONE, Place, Step, UnitFtl};
use ssd::{
    BusOrder, Cells, DispatchConfig, Dispatcher, DriveConfig, FrontConfig, Order, Protocol, Scheduling, Shape, Ssd,
    Timing, TrimmedReads,
};

const PAGES: u32 = 120;
const ENTRIES: u32 = 16;
const READ: u64 = 62;
const PROGRAM: u64 = 212;
const REWRITE: u64 = 274;

fn drive(map: MapCacheConfig) -> Ssd<Array<Tags>, PageFtl> {
    let lpns = PAGES + map.map_pages();
    drive_of(map, PageFtl::new(PageConfig::new(512, 8, lpns), Seed(1).stream("gc")).expect("a legal geometry"))
}

fn drive_of<M: UnitFtl>(map: MapCacheConfig, ftl: M) -> Ssd<Array<Tags>, M> {
    let shape = Shape {
        channels: 1,
        ways: 1,
        dies: 1,
        planes: 1,
        blocks: 512,
        pages: 8,
        page_bytes: 4096,
        order: Order::CHANNEL_FIRST,
        multi_plane: false,
    };
    let array = Array::new(ArrayConfig::plain(ssd::cells::geometry(&shape, 0)), Tags);
    let timing = Timing::plain(Ns(50), Ns(200), Ns(1_000), Ns(2), Ns(10));
    let (scheduling, bus_order) = (Scheduling::ReadsFirst, BusOrder::CommandsFirst);
    let config = DispatchConfig { timing, scheduling, bus_order, background_after: None };
    let front = FrontConfig {
        protocol: Protocol::Ufs,
        depth: 8,
        command: Ns(0),
        read_latency: Ns::ZERO,
        write_latency: Ns::ZERO,
        link_bytes_per_s: 0,
        half_duplex: false,
        write_cache: false,
        trimmed_reads: TrimmedReads::Zeroes,
    };
    let dispatcher = Dispatcher::new(&shape, config, Cells::new(&shape, array), vec![ftl]);
    let config = DriveConfig { pages: PAGES, front, cache: None, map: Some(map), hpb: None };
    Ssd::new(config, &shape, dispatcher).expect("a drive that can be")
}

/// Cached map pages, the least recently used first, and whether they were changed; and what is on the flash.
#[derive(Default)]
struct Model {
    cached: Vec<(u32, bool)>,
    on_flash: Vec<bool>,
    written: Vec<bool>,
    hits: u64,
    misses: u64,
    reads: u64,
    writes: u64,
}

impl Model {
    /// Waits of a request for its map page: reading it, and writing another back before the request's turn.
    fn access(&mut self, capacity: usize, lpn: u32, writes: bool) -> (u64, u64) {
        let page = lpn / ENTRIES;
        if let Some(at) = self.cached.iter().position(|cached| cached.0 == page) {
            let (_, changed) = self.cached.remove(at);
            self.cached.push((page, changed || writes));
            self.hits += 1;
            return (0, 0);
        }
        self.misses += 1;
        let mut back = 0;
        if self.cached.len() == capacity
            && let (old, true) = self.cached.remove(0)
        {
            back = if self.on_flash[old as usize] { REWRITE } else { PROGRAM };
            self.on_flash[old as usize] = true;
            self.writes += 1;
        }
        self.cached.push((page, writes));
        if self.on_flash[page as usize] {
            // The die writes the other page back when it has read this one: the request waits for both.
            self.reads += 1;
            return (READ, back);
        }
        // All entries of a page that was never written are empty. Reads go before writes.
        (0, if writes { back } else { 0 })
    }
}

#[test]
fn each_request_waits_for_its_map_page_and_for_what_is_written_back() {
    for (seed, capacity) in [(1, 1), (2, 2), (3, 4), (4, 7), (5, 8)] {
        let map = MapCacheConfig { map_page_bytes: 4 * ENTRIES, ..MapCacheConfig::pages(PAGES, 64 * capacity) };
        let mut drive = drive(map);
        let pages = map.map_pages() as usize;
        assert_eq!(pages, 8);
        let mut model =
            Model { on_flash: vec![false; pages], written: vec![false; PAGES as usize], ..Model::default() };
        let mut rng = Seed(seed).stream("map");
        for step in 0..600 {
            let lpn = rng.below(PAGES.into()) as u32;
            let writes = rng.chance(0.4);
            let request = if writes { BlockRequest::write } else { BlockRequest::read };
            let request = request(u64::from(lpn) * 8, 8);
            let start = drive.now().0 + 10_000;
            drive.submit(Ns(start), 3, request, Payload::Length(4096)).expect("a free tag");
            let done = drive.next_done(Ns(u64::MAX)).expect("it ends");
            let expected = if !writes && !model.written[lpn as usize] {
                Breakdown::default()
            } else {
                let (map, queue) = model.access(capacity as usize, lpn, writes);
                model.written[lpn as usize] |= writes;
                Breakdown { map, queue, bus: 12, die: if writes { 200 } else { 50 }, ..Breakdown::default() }
            };
            let found = *drive.breakdown_of(3);
            assert_eq!((found, done.at.0 - start), (expected, expected.total()), "step {step}, {request:?}");
            assert!(drive.next_done(Ns(start + 9_000)).is_none());
        }
        let (counts, reads, writes) = drive.map_counts();
        let found = (counts.hits, counts.misses, reads, writes);
        assert_eq!(found, (model.hits, model.misses, model.reads, model.writes));
        let flash = drive.dispatcher().counts();
        assert_eq!((flash.map_reads, flash.programs[Cause::Map], flash.programs[Cause::Gc]), (reads, writes, 0));
        assert!(capacity == 8 || model.writes > 10 && model.reads > 10, "{found:?}");
    }
}

/// Requests for the entries of one map page wait for it together.
#[test]
fn a_map_page_is_read_once_for_all_that_wait_for_it() {
    let map = MapCacheConfig { map_page_bytes: 4 * ENTRIES, ..MapCacheConfig::pages(PAGES, 64) };
    let mut drive = drive(map);
    let one = |drive: &mut Ssd<Array<Tags>, PageFtl>, request: BlockRequest| {
        let start = drive.now().0 + 10_000;
        drive.submit(Ns(start), 0, request, Payload::Length(request.bytes() as u32)).expect("a free tag");
        drive.next_done(Ns(u64::MAX)).expect("it ends").at.0 - start
    };
    // Two map pages in turn: each write puts the other on the flash.
    one(&mut drive, BlockRequest::write(0, 24));
    one(&mut drive, BlockRequest::write(16 * 8, 8));
    one(&mut drive, BlockRequest::write(0, 8));
    one(&mut drive, BlockRequest::write(16 * 8, 8));
    one(&mut drive, BlockRequest::read(16 * 8, 8));
    let before = drive.map_counts();
    let start = drive.now().0 + 10_000;
    for tag in 0..3 {
        drive
            .submit(Ns(start), tag, BlockRequest::read(u64::from(tag) * 8, 8), Payload::Length(0))
            .expect("a free tag");
    }
    let ends: Vec<(u32, u64, u64)> = std::iter::from_fn(|| drive.next_done(Ns(u64::MAX)))
        .map(|done| (done.tag, done.at.0 - start))
        .collect::<Vec<_>>()
        .into_iter()
        .map(|(tag, end)| (tag, end, drive.breakdown_of(tag).map))
        .collect();
    // The map page of the first was read; the other one, which was changed, is written back before the reads.
    let after = READ + REWRITE;
    assert_eq!(ends, [(0, after + READ, READ), (1, after + 2 * READ, READ), (2, after + 3 * READ, READ)]);
    let (counts, reads, writes) = drive.map_counts();
    assert_eq!((counts.misses - before.0.misses, reads - before.1, writes - before.2), (1, 1, 1));
}

/// Work that a unit requires before its next page.
#[derive(Clone, Copy, Debug)]
enum Work {
    /// The copy of a logical page.
    Move(u32),
    /// The erase of a block that was never used: the end of a victim.
    Erase,
}

/// A unit that places pages one after the other, with work that the test asks for.
struct Scripted {
    l2p: Vec<u32>,
    next: u32,
    work: Rc<RefCell<VecDeque<Work>>>,
}

impl UnitFtl for Scripted {
    fn lpns(&self) -> u32 {
        self.l2p.len() as u32
    }
    fn lookup(&self, lpn: u32) -> u32 {
        self.l2p[lpn as usize]
    }
    fn holds(&self, ppn: u32) -> u32 {
        self.l2p.iter().position(|&at| at == ppn).map_or(NONE, |lpn| lpn as u32)
    }
    fn place(&mut self, lpn: u32) -> Place {
        let moved = match self.work.borrow_mut().pop_front() {
            Some(Work::Erase) => return Place::Work(Step::Erase { block: 511, cause: Cause::Gc }),
            Some(Work::Move(moved)) => Some(moved),
            None => None,
        };
        let to = self.next;
        self.next += 1;
        let from = std::mem::replace(&mut self.l2p[moved.unwrap_or(lpn) as usize], to);
        match moved {
            Some(_) => Place::Work(Step::Copy { from, to, cause: Cause::Gc }),
            None => Place::At(to),
        }
    }
    fn follows(&self, _: u32, _: u32) -> bool {
        false
    }
    fn housekeeping(&mut self) -> Option<Step> {
        None
    }
    fn trim(&mut self, _: u32) {}
    fn erased(&mut self, _: u32, _: bool) {}
    fn program_failed(&mut self, _: u32) {}
    fn erase_counts(&self) -> &[u32] {
        &[]
    }
}

/// The map page of copied pages is written once for each victim, and not while a write of it waits already.
#[test]
fn a_victim_has_the_map_page_of_its_copies_written_once() {
    let map = MapCacheConfig { map_page_bytes: 4 * ENTRIES, ..MapCacheConfig::pages(PAGES, 64) };
    let work = Rc::new(RefCell::new(VecDeque::new()));
    let lpns = (PAGES + map.map_pages()) as usize;
    let mut drive = drive_of(map, Scripted { l2p: vec![NONE; lpns], next: 0, work: Rc::clone(&work) });
    let mut write_with = |page: u32, before: &[Work]| {
        work.borrow_mut().extend(before);
        let start = drive.now().0 + 10_000;
        let request = BlockRequest::write(u64::from(page) * 8, 8);
        drive.submit(Ns(start), 0, request, Payload::Length(4096)).expect("a free tag");
        assert!(drive.next_done(Ns(u64::MAX)).is_some_and(|done| done.result.is_ok()));
        // The write of a map page may follow.
        assert!(drive.next_done(Ns(start + 9_000)).is_none());
        let (counts, _, writes) = drive.map_counts();
        (writes, counts.moved_cached, counts.moved_written)
    };
    // Pages 16 to 31 are of map page 1. Then map page 0 is the only one that is cached.
    (16..32).for_each(|page| assert_eq!(write_with(page, &[]), (0, 0, 0)));
    assert_eq!(write_with(0, &[]), (1, 0, 0), "map page 1 was changed");
    use Work::{Erase, Move};
    let two_victims = [Move(16), Move(17), Erase, Move(18), Move(19), Erase];
    assert_eq!(write_with(0, &two_victims), (2, 0, 2), "the write waits while the second victim is emptied");
    assert_eq!(write_with(0, &[Move(20)]), (3, 0, 3), "a victim is begun");
    assert_eq!(write_with(0, &[Move(21)]), (3, 0, 3), "and goes on");
    assert_eq!(write_with(0, &[Erase, Move(22)]), (4, 0, 4), "the next one");
    assert_eq!(write_with(0, &[Move(0), Erase]), (4, 1, 4), "the entry of page 0 is cached");
}
