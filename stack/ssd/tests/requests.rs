//! Requests on a drive of one die, with times by hand: what is refused, when a write is in the buffer, what a flush waits
//! for, and which component of the latency each wait belongs to.
//!
//! Read 50, program 200, command 2, transfer 10, in nanoseconds: a page is read in 62 and programmed in 212. Controller
//! and link take no time.

use nand::{Array, ArrayConfig, Tags};
use sim::seam::{BlockDevice, BlockDone, BlockError, BlockRequest, Payload};
use sim::{Cause, Ns};
use ssd::cache::Policy;
use ssd::dispatch::io::Breakdown;
use ssd::ftl::UnitFtl;
use ssd::ftl::page::{PageConfig, PageFtl, SlcCache, SlcFull};
use ssd::{
    BusOrder, CacheConfig, Cells, DispatchConfig, Dispatcher, DriveConfig, FrontConfig, Order, Protocol, Scheduling,
    Shape, Ssd, Timing, TrimmedReads,
};

const PAGES: u32 = 128;
const READ: u64 = 62;
const PROGRAM: u64 = 212;

type Drive = Ssd<Array<Tags>, PageFtl>;

struct Kind {
    protocol: Protocol,
    cache: Option<CacheConfig>,
    write_cache: bool,
    link_bytes_per_s: u64,
    page_bytes: u32,
    slc: Option<SlcCache>,
}

const UNBUFFERED: Kind =
    Kind { protocol: Protocol::Ufs, cache: None, write_cache: true, link_bytes_per_s: 0, page_bytes: 4096, slc: None };

fn buffered(policy: Policy, pages: u32) -> Kind {
    Kind { cache: Some(CacheConfig { policy, pages }), ..UNBUFFERED }
}

fn drive(kind: Kind) -> Drive {
    let shape = Shape {
        channels: 1,
        ways: 1,
        dies: 1,
        planes: 1,
        blocks: 24,
        pages: 8,
        page_bytes: kind.page_bytes,
        order: Order::CHANNEL_FIRST,
        multi_plane: false,
    };
    let array = Array::new(ArrayConfig::plain(ssd::cells::geometry(&shape, 0)), Tags);
    let slc = [Ns(20), Ns(90), Ns(700)];
    let timing = Timing { slc, ..Timing::plain(Ns(50), Ns(200), Ns(1_000), Ns(2), Ns(10)) };
    let (scheduling, bus_order) = (Scheduling::ReadsFirst, BusOrder::CommandsFirst);
    let config = DispatchConfig { timing, scheduling, bus_order, background_after: None };
    let front = FrontConfig {
        protocol: kind.protocol,
        depth: 8,
        command: Ns(0),
        read_latency: Ns::ZERO,
        write_latency: Ns::ZERO,
        link_bytes_per_s: kind.link_bytes_per_s,
        half_duplex: false,
        write_cache: kind.write_cache,
        trimmed_reads: TrimmedReads::Zeroes,
    };
    let ftl = PageConfig { slc: kind.slc, ..PageConfig::new(24, 8, PAGES) };
    let ftl = PageFtl::new(ftl, sim::Seed(1).stream("gc")).expect("a legal geometry");
    let dispatcher = Dispatcher::new(&shape, config, Cells::new(&shape, array), vec![ftl]);
    let config = DriveConfig { pages: PAGES, front, cache: kind.cache, map: None, hpb: None };
    Ssd::new(config, &shape, dispatcher).expect("a drive that can be")
}

fn read(page: u64) -> BlockRequest {
    BlockRequest::read(page * 8, 8)
}

fn write(page: u64, pages: u32) -> BlockRequest {
    BlockRequest::write(page * 8, pages * 8)
}

fn submit(drive: &mut Drive, at: u64, tag: u32, request: BlockRequest) -> Result<(), BlockError> {
    drive.submit(Ns(at), tag, request, Payload::Length(request.bytes() as u32))
}

/// Submits requests at one moment, under tags from 0 on. Returns when each completed, counted from then, in the order of
/// completion, with the components of its latency.
fn all(drive: &mut Drive, requests: &[BlockRequest]) -> Vec<(u32, u64, Breakdown)> {
    let start = drive.now().0 + 10_000;
    for (tag, &request) in (0..).zip(requests) {
        submit(drive, start, tag, request).expect("a free tag");
    }
    let mut ends = Vec::new();
    while let Some(done) = drive.next_done(Ns(u64::MAX)) {
        assert_eq!(done.result, Ok(()));
        ends.push((done.tag, done.at.0 - start, *drive.breakdown_of(done.tag)));
    }
    ends
}

/// Their tags and times only.
fn ends(drive: &mut Drive, requests: &[BlockRequest]) -> Vec<(u32, u64)> {
    all(drive, requests).into_iter().map(|(tag, end, _)| (tag, end)).collect()
}

fn programmed(drive: &Drive) -> u64 {
    drive.dispatcher().counts().programs.total()
}

#[test]
fn what_is_beyond_the_drive_or_its_queue_is_refused() {
    let mut drive = drive(UNBUFFERED);
    let sectors = u64::from(PAGES) * 8;
    assert_eq!((drive.sectors(), drive.queue_depth()), (sectors, 8));
    for (sector, count, end) in
        [(sectors, 1, sectors + 1), (sectors - 1, 2, sectors + 1), (u64::MAX, 1, u64::MAX), (u64::MAX - 3, 5, u64::MAX)]
    {
        for request in [BlockRequest::read(sector, count), BlockRequest::write(sector, count)] {
            let refused = submit(&mut drive, 0, 0, request);
            assert_eq!(refused, Err(BlockError::OutOfBounds { sector, end, sectors }), "{request:?}");
        }
    }
    let full = Err(BlockError::QueueFull { depth: 8 });
    for tag in [8, 9, u32::MAX] {
        assert_eq!(submit(&mut drive, 0, tag, read(0)), full, "tag {tag}");
    }
    assert_eq!(submit(&mut drive, 0, 7, BlockRequest::write(sectors - 1, 1)), Ok(()));
    assert_eq!(submit(&mut drive, 0, 7, read(0)), full, "its tag is in use");
    assert_eq!(submit(&mut drive, 0, 6, read(0)), Ok(()));
    while drive.next_done(Ns(u64::MAX)).is_some() {}
    assert_eq!(submit(&mut drive, 1_000, 7, read(0)), Ok(()), "its tag is free again");
}

#[test]
fn without_power_nothing_succeeds_and_nothing_more_is_accepted() {
    let mut drive = drive(UNBUFFERED);
    all(&mut drive, &[write(0, 1)]);
    drive.flash_mut().power_off();
    let start = drive.now().0;
    submit(&mut drive, start, 0, write(1, 1)).expect("nobody has noticed yet");
    let done = drive.next_done(Ns(u64::MAX));
    assert_eq!(done, Some(BlockDone { tag: 0, at: Ns(start + PROGRAM), result: Err(BlockError::PowerLost) }));
    for request in [read(0), write(0, 1), BlockRequest::flush()] {
        assert_eq!(submit(&mut drive, start + 1_000, 0, request), Err(BlockError::PowerLost));
    }
}

#[test]
fn a_request_completes_with_its_last_page_and_has_that_page_s_waits() {
    let mut drive = drive(UNBUFFERED);
    let three = Breakdown { queue: 2 * PROGRAM, bus: 12, die: 200, ..Breakdown::default() };
    assert_eq!(all(&mut drive, &[write(0, 3)]), [(0, 3 * PROGRAM, three)]);
    let two = Breakdown { queue: READ, bus: 12, die: 50, ..Breakdown::default() };
    assert_eq!(all(&mut drive, &[BlockRequest::read(7, 2)]), [(0, 2 * READ, two)]);
    // Sectors of one page; then some of a page are written, which is read first.
    assert_eq!(ends(&mut drive, &[BlockRequest::read(8, 8)]), [(0, READ)]);
    assert_eq!(ends(&mut drive, &[BlockRequest::write(9, 3)]), [(0, READ + PROGRAM)]);
    assert_eq!(ends(&mut drive, &[BlockRequest::flush(), BlockRequest::trim(0, 8)]), [(0, 0), (1, 0)]);
    assert_eq!(ends(&mut drive, &[read(0), read(100)]), [(0, 0), (1, 0)], "unmapped pages take no flash");
}

#[test]
fn behind_the_link_the_wait_for_it_is_of_the_link() {
    // 4,096 ns a page in either direction.
    let mut drive = drive(Kind { link_bytes_per_s: 1_000_000_000, ..UNBUFFERED });
    let parts = |link, queue, die| Breakdown { link, queue, bus: 12, die, ..Breakdown::default() };
    let found = all(&mut drive, &[write(0, 1), write(1, 1), write(2, 2)]);
    assert_eq!(found[0], (0, 4_096 + PROGRAM, parts(4_096, 0, 200)));
    assert_eq!(found[1], (1, 8_192 + PROGRAM, parts(8_192, 0, 200)));
    assert_eq!(found[2], (2, 16_384 + 2 * PROGRAM, parts(16_384, PROGRAM, 200)));
    let found = all(&mut drive, &[read(0), read(2)]);
    assert_eq!(found[0], (0, READ + 4_096, parts(4_096, 0, 50)));
    assert_eq!(found[1], (1, READ + 8_192, parts(2 * 4_096 - READ, READ, 50)));
}

#[test]
fn a_sata_flush_and_what_comes_behind_it_wait() {
    let mut drive = drive(Kind { protocol: Protocol::Sata, ..UNBUFFERED });
    let found = all(&mut drive, &[write(0, 1), BlockRequest::flush(), read(0), read(90)]);
    let behind = |found: &(u32, u64, Breakdown)| (found.0, found.1, found.2.flush, found.2.controller);
    let expected =
        [(0, PROGRAM, 0, 0), (1, PROGRAM, 0, PROGRAM), (3, PROGRAM, PROGRAM, 0), (2, PROGRAM + READ, PROGRAM, 0)];
    assert_eq!(found.iter().map(behind).collect::<Vec<_>>(), expected);
}

/// Pages are evicted when less than an eighth of the slots is free, one at least; a write-through buffer keeps none.
#[test]
fn the_buffer_keeps_an_eighth_of_its_slots_free() {
    for policy in [Policy::Fifo, Policy::Lru] {
        for (capacity, kept) in [(1, 0u32), (7, 6), (8, 7), (15, 14), (16, 14), (24, 21), (64, 56)] {
            for writes in [kept.max(1) - 1, kept, kept + 1, kept + 5] {
                let mut drive = drive(buffered(policy, capacity));
                for page in 0..writes {
                    all(&mut drive, &[write(page.into(), 1)]);
                }
                let out = u64::from(writes.saturating_sub(kept));
                let found = (programmed(&drive), drive.dirty_pages());
                assert_eq!(found, (out, writes.min(kept)), "{policy:?}: {writes} writes into {capacity} slots");
            }
        }
    }
    let mut drive = drive(buffered(Policy::None, 16));
    for page in 0..5 {
        all(&mut drive, &[write(page, 1)]);
        assert_eq!((programmed(&drive), drive.dirty_pages()), (page + 1, 0));
    }
}

#[test]
fn a_write_longer_than_the_buffer_waits_for_each_slot_and_the_next_behind_it() {
    let mut drive = drive(buffered(Policy::Fifo, 8));
    // Eight pages at once; each further one when a page has left: 12 programs. The last slot frees one for the second.
    let found = all(&mut drive, &[write(0, 20), write(40, 1), write(2, 1)]);
    let waits = |flush| Breakdown { flush, ..Breakdown::default() };
    // Page 2 has left, so that its write needs a slot too.
    let expected = [(0, 12), (1, 13), (2, 14)].map(|(tag, pages)| (tag, pages * PROGRAM, waits(pages * PROGRAM)));
    assert_eq!(found, expected);
    let counts = drive.buffer_counts();
    assert_eq!((counts.misses, counts.hits), (22, 0));
    // A write of a page that is there needs no slot, and a read of it no flash.
    assert_eq!(ends(&mut drive, &[write(2, 1), read(2)]), [(0, 0), (1, 0)]);
    assert_eq!(drive.buffer_counts().hits, 1);
    assert_eq!(ends(&mut drive, &[read(0)]), [(0, READ)], "it has left");
}

#[test]
fn a_flush_takes_until_every_page_is_in_the_cells() {
    let mut drive = drive(buffered(Policy::Lru, 16));
    assert_eq!(ends(&mut drive, &[BlockRequest::flush()]), [(0, 0)], "nothing is dirty");
    let parts = Breakdown { flush: 5 * PROGRAM, ..Breakdown::default() };
    let found = all(&mut drive, &[write(0, 5), BlockRequest::flush()]);
    assert_eq!(found, [(0, 0, Breakdown::default()), (1, 5 * PROGRAM, parts)]);
    assert_eq!((drive.dirty_pages(), drive.dispatcher().counts().programs[Cause::Flush]), (0, 5));
    // Of two flushes each waits for what was dirty before it.
    let found = ends(&mut drive, &[write(0, 2), BlockRequest::flush(), write(9, 3), BlockRequest::flush()]);
    assert_eq!(found, [(0, 0), (2, 0), (1, 2 * PROGRAM), (3, 5 * PROGRAM)]);
    // Pages that are on their way out count.
    let mut drive = self::drive(buffered(Policy::None, 16));
    assert_eq!(ends(&mut drive, &[write(0, 3), BlockRequest::flush()]), [(0, 0), (1, 3 * PROGRAM)]);
}

#[test]
fn forced_access_and_a_drive_without_write_cache_wait_for_the_cells() {
    let forced = BlockRequest { fua: true, ..write(4, 2) };
    let parts = Breakdown { flush: 2 * PROGRAM, ..Breakdown::default() };
    let mut drive = drive(buffered(Policy::Lru, 16));
    assert_eq!(all(&mut drive, &[forced]), [(0, 2 * PROGRAM, parts)]);
    let mut drive = self::drive(Kind { write_cache: false, ..buffered(Policy::Lru, 16) });
    assert_eq!(all(&mut drive, &[write(4, 2)]), [(0, 2 * PROGRAM, parts)]);
    assert_eq!(ends(&mut drive, &[BlockRequest::flush()]), [(0, 0)], "nothing is left to flush");
}

#[test]
fn part_of_a_page_in_the_buffer_serves_what_it_holds() {
    let mut drive = drive(buffered(Policy::Lru, 16));
    all(&mut drive, &[write(0, 1), BlockRequest::flush()]);
    all(&mut drive, &[BlockRequest::write(2, 3)]);
    let reads = [(2, 3), (3, 1), (1, 2), (4, 2), (0, 8)];
    for ((sector, sectors), from_flash) in reads.into_iter().zip([false, false, true, true, true]) {
        let took = if from_flash { READ } else { 0 };
        assert_eq!(ends(&mut drive, &[BlockRequest::read(sector, sectors)]), [(0, took)], "{sectors} at {sector}");
    }
    // Written out, it is merged with the rest; a whole page is not.
    assert_eq!(ends(&mut drive, &[BlockRequest::flush()]), [(0, READ + PROGRAM)]);
    all(&mut drive, &[BlockRequest::write(0, 3), BlockRequest::write(3, 5)]);
    assert_eq!(ends(&mut drive, &[BlockRequest::flush()]), [(0, PROGRAM)]);
}

/// The mask of a page's sectors, from one sector to 128.
#[test]
fn pages_of_every_size_are_whole_when_all_their_sectors_are_there() {
    for page_bytes in [512, 1024, 32_768, 65_536] {
        let sectors = page_bytes / 512;
        let mut drive = drive(Kind { page_bytes, ..buffered(Policy::Lru, 16) });
        assert_eq!(drive.sectors(), u64::from(PAGES * sectors));
        all(&mut drive, &[BlockRequest::write(sectors.into(), sectors), BlockRequest::flush()]);
        assert_eq!(drive.dispatcher().counts().internal_reads, 0, "{page_bytes} bytes");
        if sectors > 1 {
            all(&mut drive, &[BlockRequest::write(sectors.into(), sectors - 1)]);
            assert_eq!(ends(&mut drive, &[BlockRequest::flush()]), [(0, READ + PROGRAM)], "{page_bytes} bytes");
            all(&mut drive, &[BlockRequest::write(sectors.into(), sectors - 1)]);
            all(&mut drive, &[BlockRequest::write(u64::from(2 * sectors) - 1, 1)]);
            assert_eq!(ends(&mut drive, &[BlockRequest::flush()]), [(0, PROGRAM)], "{page_bytes} bytes");
        }
    }
}

/// Two blocks of four pages in SLC mode: a page is programmed in 90 and read in 20 there.
#[test]
fn pages_in_slc_mode_take_less_time() {
    let slc = SlcCache { blocks: 2, pages: 4, when_full: SlcFull::Direct, folds_idle: false };
    let mut drive = drive(Kind { slc: Some(slc), ..UNBUFFERED });
    for page in 0..10 {
        let program = if page < 8 { 12 + 90 } else { PROGRAM };
        assert_eq!(ends(&mut drive, &[write(page, 1)]), [(0, program)], "page {page}");
    }
    for page in 0..10 {
        let took = if page < 8 { 12 + 20 } else { READ };
        assert_eq!(ends(&mut drive, &[read(page)]), [(0, took)], "page {page}");
    }
}

#[test]
fn a_trimmed_page_leaves_the_buffer_unwritten() {
    let mut drive = drive(buffered(Policy::Lru, 16));
    all(&mut drive, &[write(0, 4), BlockRequest::trim(8, 16)]);
    assert_eq!((drive.dirty_pages(), drive.buffer_counts().trimmed), (2, 2));
    assert_eq!(ends(&mut drive, &[read(1), BlockRequest::flush()]), [(0, 0), (1, 2 * PROGRAM)]);
    assert_eq!(drive.dispatcher().units()[0].lookup(1), ssd::ftl::NONE);
    // A trim covers whole pages only.
    all(&mut drive, &[write(0, 4), BlockRequest::trim(1, 23)]);
    assert_eq!(drive.dirty_pages(), 2, "pages 0 and 3 are not covered wholly, or not at all");
}

#[test]
fn moved_pages_are_counted_for_the_queue_that_wrote_them() {
    let mut drive = drive(UNBUFFERED);
    let mut rng = sim::Seed(1).stream("owners");
    // Every page is written before the queues are followed; then three queues write in their own ranges.
    for page in 0..u64::from(PAGES) {
        all(&mut drive, &[write(page, 1)]);
    }
    assert!(drive.owners().is_none());
    drive.follow_queues(3);
    let mut owner = vec![0usize; PAGES as usize];
    let before = drive.dispatcher().counts().programs;
    let (mut least, mut most) = (vec![0u64; 4], vec![0u64; 4]);
    for _ in 0..4_000 {
        let queue = rng.below(3) as u16;
        let page = u64::from(queue) * 40 + rng.below([40, 10, 4][usize::from(queue)]);
        let places: Vec<u32> = (0..PAGES).map(|page| drive.dispatcher().units()[0].lookup(page)).collect();
        owner[page as usize] = usize::from(queue) + 1;
        all(&mut drive, &[BlockRequest { queue, ..write(page, 1) }]);
        for (other, &place) in places.iter().enumerate() {
            let moved = drive.dispatcher().units()[0].lookup(other as u32) != place;
            // The page itself may have been moved before it was written.
            least[owner[other]] += u64::from(moved && other as u64 != page);
            most[owner[other]] += u64::from(moved);
        }
    }
    let found = drive.owners().expect("they are followed").pages_moved().to_vec();
    let moved = drive.dispatcher().counts().programs.since(&before);
    assert_eq!(found.iter().sum::<u64>(), moved[Cause::Gc], "every copy has an owner");
    assert!(least.iter().all(|&least| least > 10), "{least:?}");
    for queue in 0..4 {
        assert!((least[queue]..=most[queue]).contains(&found[queue]), "{least:?} {found:?} {most:?}");
    }
}
