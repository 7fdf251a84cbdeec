//! A drive without space reports it: every request completes, and none succeeds that should fail.

use std::cell::Cell;
use std::rc::Rc;

use nand::{Array, ArrayConfig, FaultPlan, Tags};
use sim::seam::{BlockDevice, BlockError, BlockRequest, Payload};
use sim::{Ns, Seed};
use ssd::cache::Policy;
use ssd::device::hpb::{HpbConfig, HpbDevice};
use ssd::ftl::{NONE, Place, Step, UnitFtl};
use ssd::{
    CacheConfig, Cells, DispatchConfig, Dispatcher, DriveConfig, FrontConfig, Order, Protocol, Scheduling, Shape, Ssd,
    Timing, TrimmedReads,
};

/// An FTL that places eight pages and is full then.
struct Eight(u32);

impl UnitFtl for Eight {
    fn lpns(&self) -> u32 {
        64
    }
    fn lookup(&self, _: u32) -> u32 {
        NONE
    }
    fn holds(&self, _: u32) -> u32 {
        NONE
    }
    fn place(&mut self, _: u32) -> Place {
        self.0 += 1;
        if self.0 > 8 { Place::Full } else { Place::At(self.0 - 1) }
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

fn drive(cache: Option<CacheConfig>) -> Ssd<Array<Tags>, Eight> {
    drive_behind(cache, None, 0)
}

fn drive_behind(cache: Option<CacheConfig>, hpb: Option<HpbConfig>, link_bytes_per_s: u64) -> Ssd<Array<Tags>, Eight> {
    drive_of(Eight(0), None, cache, hpb, link_bytes_per_s)
}

fn drive_of<M: UnitFtl>(
    ftl: M,
    faults: Option<FaultPlan>,
    cache: Option<CacheConfig>,
    hpb: Option<HpbConfig>,
    link_bytes_per_s: u64,
) -> Ssd<Array<Tags>, M> {
    let shape = Shape {
        channels: 1,
        ways: 1,
        dies: 1,
        planes: 1,
        blocks: 4,
        pages: 32,
        page_bytes: 4096,
        order: Order::CHANNEL_FIRST,
        multi_plane: false,
    };
    let array = Array::new(ArrayConfig { faults, ..ArrayConfig::plain(ssd::cells::geometry(&shape, 0)) }, Tags);
    let timing = Timing::plain(Ns(50), Ns(200), Ns(1_000), Ns(2), Ns(10));
    let config = DispatchConfig {
        timing,
        scheduling: Scheduling::ReadsFirst,
        bus_order: ssd::BusOrder::CommandsFirst,
        background_after: None,
    };
    let front = FrontConfig {
        protocol: Protocol::Nvme { weights: vec![1] },
        depth: 4,
        command: Ns(1),
        read_latency: Ns::ZERO,
        write_latency: Ns::ZERO,
        link_bytes_per_s,
        half_duplex: false,
        write_cache: true,
        trimmed_reads: TrimmedReads::Zeroes,
    };
    let dispatcher = Dispatcher::new(&shape, config, Cells::new(&shape, array), vec![ftl]);
    Ssd::new(DriveConfig { pages: 64, front, cache, map: None, hpb }, &shape, dispatcher).unwrap()
}

/// Writes pages in order, a flush after every third, up to four requests at a time, until the drive refuses. Returns
/// the numbers of requests accepted, completed without an error, and completed with one.
fn write_until_refused(drive: &mut Ssd<Array<Tags>, Eight>) -> [u32; 3] {
    let (mut taken, mut well, mut failed) = (0, 0, 0);
    let (mut now, mut free) = (Ns(0), vec![0, 1, 2, 3]);
    let mut refused = false;
    while !refused || free.len() < 4 {
        if !refused && let Some(tag) = free.pop() {
            let request =
                if taken % 4 == 3 { BlockRequest::flush() } else { BlockRequest::write(u64::from(taken) * 8 % 512, 8) };
            match drive.submit(now, tag, request, Payload::Length(request.bytes() as u32)) {
                Ok(()) => taken += 1,
                Err(BlockError::WornOut { .. }) => {
                    refused = true;
                    free.push(tag);
                }
                Err(other) => panic!("{other}"),
            }
            continue;
        }
        let done = drive.next_done(Ns(u64::MAX)).expect("a request that was taken ends");
        now = done.at;
        free.push(done.tag);
        match done.result {
            Ok(()) => well += 1,
            Err(BlockError::WornOut { .. }) => {
                failed += 1;
                refused |= failed > 3;
            }
            Err(other) => panic!("{other}"),
        }
    }
    [taken, well, failed]
}

#[test]
fn a_full_drive_fails_the_write_that_finds_no_room() {
    let [taken, well, failed] = write_until_refused(&mut drive(None));
    assert_eq!(taken, well + failed);
    assert!(failed > 0 && well >= 8, "{well} of {taken} went well");
}

#[test]
fn a_full_drive_with_a_buffer_fails_what_waits_for_it() {
    for policy in Policy::ALL {
        let [taken, well, failed] = write_until_refused(&mut drive(Some(CacheConfig { policy, pages: 4 })));
        assert_eq!(taken, well + failed, "{policy:?}");
        assert!(failed > 0, "{policy:?}: a flush of pages that are not in the cells succeeded");
    }
}

#[test]
fn a_full_drive_with_a_buffer_accepts_only_reads() {
    let mut drive = drive(Some(CacheConfig { policy: Policy::Lru, pages: 4 }));
    write_until_refused(&mut drive);
    let now = drive.now();
    for request in [BlockRequest::write(0, 8), BlockRequest::trim(0, 8), BlockRequest::flush()] {
        let refused = drive.submit(now, 0, request, Payload::Length(request.bytes() as u32));
        assert!(matches!(refused, Err(BlockError::WornOut { .. })), "{request:?}: {refused:?}");
    }
    for sectors in [1, 8, 64] {
        drive.submit(drive.now(), 0, BlockRequest::read(0, sectors), Payload::Length(0)).expect("it reads");
        assert_eq!(drive.next_done(Ns(u64::MAX)).map(|done| done.result), Some(Ok(())));
    }
    // Nothing was read from a flash that keeps nothing: a buffer of another size is cleared.
    let mut data = [7; 512];
    drive.take(0, &mut data);
    assert_eq!(data, [0; 512]);
}

fn submit(drive: &mut Ssd<Array<Tags>, Eight>, at: Ns, tag: u32, request: BlockRequest) {
    drive.submit(at, tag, request, Payload::Length(request.bytes() as u32)).expect("accepted");
}

/// What is in the buffer will never be in the cells: a write that comes later must not succeed, even if it needs no slot.
#[test]
fn a_write_that_was_on_the_link_when_the_drive_wore_out_fails() {
    // A page takes 4,096 ns on the link. Three pages stay in the buffer, and eight more find their place.
    let mut drive = drive_behind(Some(CacheConfig { policy: Policy::Lru, pages: 4 }), None, 1_000_000_000);
    for page in 0..11 {
        let start = drive.now().0 + 10_000;
        submit(&mut drive, Ns(start), 0, BlockRequest::write(8 * page, 8));
        assert_eq!(drive.next_done(Ns(u64::MAX)).map(|done| done.result), Some(Ok(())));
    }
    // For page 11 another must leave, which has no place. Page 10 is in the buffer.
    let start = Ns(drive.now().0 + 10_000);
    for (tag, page) in [(0, 11), (1, 10)] {
        submit(&mut drive, start, tag, BlockRequest::write(8 * page, 8));
    }
    let ends: Vec<_> = std::iter::from_fn(|| drive.next_done(Ns(u64::MAX))).collect();
    let second = ends.iter().find(|done| done.tag == 1).expect("every request completes");
    assert!(matches!(second.result, Err(BlockError::WornOut { .. })), "{ends:?}");
}

/// A response with an error has sense data where a recommendation would be: the next good one has it.
#[test]
fn a_request_that_fails_takes_no_recommendation_with_it() {
    let hpb = HpbConfig { subregion_pages: 16, region_subregions: 1, max_active_regions: 4, ..HpbConfig::plain(64) };
    let mut drive = drive_behind(None, Some(hpb), 1_000_000_000);
    for page in 0..8 {
        let start = drive.now();
        submit(&mut drive, start, 0, BlockRequest::write(8 * page, 8));
        assert_eq!(drive.next_done(Ns(u64::MAX)).map(|done| done.result), Some(Ok(())));
    }
    // The ninth write fails when its data have come, while those of a read, which was not by entry, are on their way.
    let start = drive.now();
    submit(&mut drive, start, 0, BlockRequest::write(8 * 8, 8));
    assert_eq!(drive.next_done(Ns(start.0 + 2_000)), None);
    submit(&mut drive, Ns(start.0 + 2_000), 1, BlockRequest::read(0, 8));
    let first = drive.next_done(Ns(u64::MAX)).expect("the write ends");
    assert!(first.tag == 0 && matches!(first.result, Err(BlockError::WornOut { .. })), "{first:?}");
    assert_eq!(drive.take_advice(0), None);
    let second = drive.next_done(Ns(u64::MAX)).expect("the read ends");
    assert_eq!((second.tag, second.result), (1, Ok(())));
    assert_eq!(drive.take_advice(1).map(|advice| advice.active.as_slice().to_vec()), Some(vec![0]));
}

/// An FTL that places one page, then none, and counts how often it is asked.
struct One(Rc<Cell<u32>>);

impl UnitFtl for One {
    fn lpns(&self) -> u32 {
        64
    }
    fn lookup(&self, _: u32) -> u32 {
        NONE
    }
    fn holds(&self, _: u32) -> u32 {
        5
    }
    fn place(&mut self, _: u32) -> Place {
        self.0.set(self.0.get() + 1);
        if self.0.get() > 1 { Place::Full } else { Place::At(0) }
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

/// The data of a failed program that find no place stay in memory. Later writes must not take the place that they need, should
/// there be one again.
#[test]
fn a_unit_without_room_for_the_data_of_a_failed_program_places_no_others() {
    let asked = Rc::new(Cell::new(0));
    let faults = FaultPlan { program_failure: 1.0, ..FaultPlan::none(Seed(1)) };
    let mut drive = drive_of(One(Rc::clone(&asked)), Some(faults), None, None, 0);
    for page in [5, 6, 5, 7] {
        let start = drive.now();
        drive.submit(start, 0, BlockRequest::write(8 * page, 8), Payload::Length(4096)).expect("a free tag");
        let result = drive.next_done(Ns(u64::MAX)).map(|done| done.result);
        assert!(matches!(result, Some(Err(BlockError::WornOut { .. }))), "page {page}: {result:?}");
        assert_eq!(asked.get(), 2, "the first write, and again when its program failed");
    }
    // What was to be written is still there.
    let start = drive.now();
    drive.submit(start, 0, BlockRequest::read(8 * 5, 8), Payload::Length(0)).expect("a free tag");
    assert_eq!(drive.next_done(Ns(u64::MAX)).map(|done| done.result), Some(Ok(())));
    assert_eq!(drive.dispatcher().counts().host_reads, 0);
}
