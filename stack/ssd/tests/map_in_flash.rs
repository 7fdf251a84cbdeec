//! A drive of one die whose mapping table is in flash: what each request waits for, against a list of the cached map
//! pages.
//!
//! A page is read in 62 ns and programmed in 212; a map page that was written before is read, changed and programmed in
//! 274. Between two requests the die becomes idle, and there is room enough that nothing is collected.

use nand::{Array, ArrayConfig, Tags};
use sim::seam::{BlockDevice, BlockRequest, Payload};
use sim::{Cause, Ns, Seed};
use ssd::dispatch::io::Breakdown;
use ssd::ftl::map_cache::MapCacheConfig;
use ssd::ftl::page::{PageConfig, PageFtl};
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
    let lpns = PAGES + map.map_pages();
    let ftl = PageFtl::new(PageConfig::new(512, 8, lpns), Seed(1).stream("gc")).expect("a legal geometry");
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
