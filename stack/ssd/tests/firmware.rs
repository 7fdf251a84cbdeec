//! The firmware's latency: every command takes it, and the controller goes on with others meanwhile.

use nand::{Array, ArrayConfig, Tags};
use sim::Ns;
use sim::seam::{BlockDevice, BlockRequest, Payload};
use ssd::cache::Policy;
use ssd::ftl::page::{PageConfig, PageFtl};
use ssd::{
    BusOrder, CacheConfig, Cells, DispatchConfig, Dispatcher, DriveConfig, FrontConfig, Order, Protocol, Scheduling,
    Shape, Ssd, Timing, TrimmedReads,
};

const READ: u64 = 15_000;
const WRITE: u64 = 17_000;
/// A command takes 1,000 ns of the controller, a page 4,096 on the link and 120 of a die's bus, 50 and 200 in it.
const PAGE: u64 = 4_096;

/// Four dies behind a write buffer of four pages, or none.
fn drive(read_latency: u64, write_latency: u64, buffered: bool) -> Ssd<Array<Tags>, PageFtl> {
    let shape = Shape {
        channels: 4,
        ways: 1,
        dies: 1,
        planes: 1,
        blocks: 8,
        pages: 8,
        page_bytes: 4096,
        order: Order::CHANNEL_FIRST,
        multi_plane: false,
    };
    let array = Array::new(ArrayConfig::plain(ssd::cells::geometry(&shape, 0)), Tags);
    let timing = Timing::plain(Ns(50), Ns(200), Ns(1_000), Ns(20), Ns(100));
    let (scheduling, bus_order) = (Scheduling::ReadsFirst, BusOrder::CommandsFirst);
    let config = DispatchConfig { timing, scheduling, bus_order, background_after: None };
    let front = FrontConfig {
        protocol: Protocol::Nvme { weights: vec![1] },
        depth: 64,
        command: Ns(1_000),
        read_latency: Ns(read_latency),
        write_latency: Ns(write_latency),
        link_bytes_per_s: 1_000_000_000,
        half_duplex: false,
        write_cache: buffered,
        trimmed_reads: TrimmedReads::Zeroes,
    };
    let units = (0..4).map(|_| PageFtl::new(PageConfig::new(8, 8, 32), sim::Seed(1).stream("gc")).unwrap()).collect();
    let dispatcher = Dispatcher::new(&shape, config, Cells::new(&shape, array), units);
    let cache = buffered.then_some(CacheConfig { policy: Policy::Fifo, pages: 4 });
    Ssd::new(DriveConfig { pages: 128, front, cache, map: None, hpb: None }, &shape, dispatcher).unwrap()
}

/// Submits requests at once and returns when each completes, counted from then, in order of submission.
fn all(drive: &mut Ssd<Array<Tags>, PageFtl>, requests: &[BlockRequest]) -> Vec<u64> {
    let start = drive.now() + Ns(1_000_000);
    for (tag, request) in (0..).zip(requests) {
        drive.submit(start, tag, *request, Payload::Length(request.bytes() as u32)).unwrap();
    }
    let mut ends = vec![0; requests.len()];
    while let Some(done) = drive.next_done(Ns(u64::MAX)) {
        assert_eq!(done.result, Ok(()));
        let took = (done.at - start).0;
        assert_eq!(drive.breakdown_of(done.tag).total(), took, "{:?}", drive.breakdown_of(done.tag));
        ends[done.tag as usize] = took;
    }
    ends
}

fn read(page: u64) -> BlockRequest {
    BlockRequest::read(page * 8, 8)
}

fn write(page: u64) -> BlockRequest {
    BlockRequest::write(page * 8, 8)
}

#[test]
fn one_request_takes_the_latency_of_its_kind_longer() {
    let mut drive = drive(READ, WRITE, false);
    assert_eq!(all(&mut drive, &[write(3)]), [1_000 + PAGE + WRITE + 120 + 200]);
    assert_eq!(all(&mut drive, &[read(3)]), [1_000 + 20 + 50 + 100 + PAGE + READ]);
    // The controller's share has it, on one tick early there is no completion.
    assert_eq!(drive.breakdown_of(0).controller, 1_000 + READ);
    drive.submit(Ns(9_000_000), 0, read(3), Payload::Length(4096)).unwrap();
    let end = 9_000_000 + 1_170 + PAGE + READ;
    assert!(drive.next_done(Ns(end - 1)).is_none());
    assert_eq!(drive.next_done(Ns(end)).map(|done| done.at), Some(Ns(end)));
}

#[test]
fn many_requests_complete_at_the_same_rate_and_later_by_the_latency() {
    for buffered in [false, true] {
        let (mut without, mut with) = (drive(0, 0, buffered), drive(READ, WRITE, buffered));
        let writes: Vec<_> = (0..40).map(write).collect();
        let reads: Vec<_> = (0..40).map(read).collect();
        for (requests, latency) in [(&writes, WRITE), (&reads, READ)] {
            let (plain, late) = (all(&mut without, requests), all(&mut with, requests));
            // The link is the slowest stage: one request each 4,096 ns.
            assert!(plain.windows(2).all(|ends| ends[1] - ends[0] == PAGE), "{plain:?}");
            assert_eq!(late, plain.iter().map(|end| end + latency).collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_flush_is_delayed_as_a_write_and_does_not_overtake_the_writes_before_it() {
    let mut drive = drive(READ, WRITE, true);
    assert_eq!(all(&mut drive, &[BlockRequest::flush()]), [1_000 + WRITE]);
    // The second write's data are on the link until 1,000 + 2 * 4,096, the flush is fetched at 3,000.
    let ends = all(&mut drive, &[write(0), write(1), BlockRequest::flush()]);
    assert_eq!(ends[..2], [1_000 + PAGE + WRITE, 1_000 + 2 * PAGE + WRITE]);
    // The flush waits until the last page is in the cells.
    assert_eq!(ends[2], ends[1] + 120 + 200);
}
