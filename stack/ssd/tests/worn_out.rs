//! A drive without space reports it: every request completes, and none succeeds that should fail.

use nand::{Array, ArrayConfig, Tags};
use sim::Ns;
use sim::seam::{BlockDevice, BlockError, BlockRequest, Payload};
use ssd::cache::Policy;
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
    let array = Array::new(ArrayConfig::plain(ssd::cells::geometry(&shape, 0)), Tags);
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
        link_bytes_per_s: 0,
        half_duplex: false,
        write_cache: true,
        trimmed_reads: TrimmedReads::Zeroes,
    };
    let dispatcher = Dispatcher::new(&shape, config, Cells::new(&shape, array), vec![Eight(0)]);
    Ssd::new(DriveConfig { pages: 64, front, cache, map: None, hpb: None }, &shape, dispatcher).unwrap()
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
