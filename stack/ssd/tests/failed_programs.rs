//! Chosen programs fail: what reads and trims find until the data are elsewhere, and in which order writes go on.
//!
//! One die of blocks of eight pages, in which copies go where the host's pages go; read 50, program 200, command 2, transfer 10, in nanoseconds: a page is read in 62,
//! programmed in 212 and copied in 274.

mod failing;

use failing::Failing;
use nand::{Array, ArrayConfig, Bytes};
use sim::seam::{BlockDevice, BlockError, BlockRequest, Payload};
use sim::{Cause, Ns, Seed};
use ssd::ftl::page::{PageConfig, PageFtl};
use ssd::ftl::{NONE, UnitFtl};
use ssd::{
    BusOrder, Cells, DispatchConfig, Dispatcher, DriveConfig, FrontConfig, Order, Protocol, Scheduling, Served, Shape,
    Ssd, Timing, TrimmedReads,
};

const PAGES: u32 = 100;
const PROGRAM: u64 = 212;
const COPY: u64 = 274;

/// A drive, when each request began, and what each page read as, by tag.
struct Bench {
    drive: Ssd<Failing, PageFtl>,
    /// Completed requests in their order, with the time since `start` and, of a read, the first byte.
    done: Vec<(u32, u64, u8)>,
    start: u64,
}

impl Bench {
    /// Pages 0 and 1 are written, each filled with its number and 10. Then programs fail whose numbers, counted from 1 again,
    /// are `failing`.
    fn new(failing: &[u32]) -> Bench {
        Bench::with(TrimmedReads::Zeroes, failing)
    }

    fn with(trimmed_reads: TrimmedReads, failing: &[u32]) -> Bench {
        let shape = Shape {
            channels: 1,
            ways: 1,
            dies: 1,
            planes: 1,
            blocks: 24,
            pages: 8,
            page_bytes: 512,
            order: Order::CHANNEL_FIRST,
            multi_plane: false,
        };
        let array = Array::new(ArrayConfig::plain(ssd::cells::geometry(&shape, 0)), Bytes::default());
        let timing = Timing::plain(Ns(50), Ns(200), Ns(1_000), Ns(2), Ns(10));
        let (scheduling, bus_order) = (Scheduling::ReadsFirst, BusOrder::CommandsFirst);
        let dispatch = DispatchConfig { timing, scheduling, bus_order, background_after: None };
        let front = FrontConfig {
            protocol: Protocol::Ufs,
            depth: 8,
            command: Ns(0),
            read_latency: Ns::ZERO,
            write_latency: Ns::ZERO,
            link_bytes_per_s: 0,
            half_duplex: false,
            write_cache: false,
            trimmed_reads,
        };
        let ftl = PageFtl::new(PageConfig { separate: false, ..PageConfig::new(24, 8, PAGES) }, Seed(1).stream("gc"))
            .expect("a legal geometry");
        let flash = Failing::new(array, []);
        let dispatcher = Dispatcher::new(&shape, dispatch, Cells::new(&shape, flash), vec![ftl]);
        let config = DriveConfig { pages: PAGES, front, cache: None, map: None, hpb: None };
        let drive = Ssd::new(config, &shape, dispatcher).expect("a drive that can be");
        let mut bench = Bench { drive, done: Vec::new(), start: 0 };
        for page in 0..2 {
            bench.submit(0, 0, BlockRequest::write(page, 1), page as u8 + 10);
            bench.run(u64::MAX);
        }
        bench.drive.flash_mut().programs = 0;
        bench.drive.flash_mut().failing.extend(failing);
        bench.done.clear();
        bench.start = bench.drive.now().0;
        bench
    }

    /// Sends a request `at` nanoseconds after the start.
    fn submit(&mut self, at: u64, tag: u32, request: BlockRequest, fill: u8) {
        self.run(at);
        let at = Ns(self.start.saturating_add(at).max(self.drive.now().0));
        self.drive.submit(at, tag, request, Payload::Bytes(&[fill; 512])).expect("a free tag");
    }

    fn run(&mut self, until: u64) {
        while let Some(done) = self.drive.next_done(Ns(self.start.saturating_add(until))) {
            assert_eq!(done.result, Ok(()), "request {}", done.tag);
            let mut data = [0xee; 512];
            self.drive.take(done.tag, &mut data);
            assert!(data.iter().all(|&byte| byte == data[0]));
            self.done.push((done.tag, done.at.0 - self.start, data[0]));
        }
    }

    fn read(&mut self, page: u64) -> u8 {
        let at = self.drive.now().0 - self.start;
        self.submit(at, 7, BlockRequest::read(page, 1), 0);
        self.run(u64::MAX);
        self.done.last().expect("it ends").2
    }

    /// Whether page 0 reads as an error, whether the drive says that it is in the cells, and how many contents were lost.
    fn page_0(&mut self) -> (bool, bool, u64) {
        let at = self.drive.now();
        self.drive.submit(at, 7, BlockRequest::read(0, 1), Payload::Length(0)).expect("a free tag");
        let done = self.drive.next_done(Ns(u64::MAX)).expect("it ends");
        let lost = self.drive.dispatcher().counts().lost;
        let fails = done.result == Err(BlockError::Uncorrectable { sector: 0 });
        assert!(fails || done.result == Ok(()), "{done:?}");
        (fails, matches!(self.drive.served_from(0), Served::Cells { .. }), lost)
    }

    fn ends(&self) -> Vec<(u32, u64)> {
        self.done.iter().map(|&(tag, at, _)| (tag, at)).collect()
    }
}

fn write(page: u64) -> BlockRequest {
    BlockRequest::write(page, 1)
}

/// Its block is retired: pages 0 and 1 are copied out of it, then the data are programmed, then the other writes.
#[test]
fn the_data_of_a_failed_program_go_before_the_other_writes() {
    let mut bench = Bench::new(&[1]);
    for (tag, page) in [(0, 5), (1, 6), (2, 7)] {
        bench.submit(0, tag, write(page), 20 + page as u8);
    }
    bench.run(u64::MAX);
    let again = PROGRAM + 2 * COPY + PROGRAM;
    assert_eq!(bench.ends(), [(0, again), (1, again + PROGRAM), (2, again + 2 * PROGRAM)]);
    assert_eq!(bench.drive.breakdown_of(0).total(), again);
    assert_eq!([0, 1, 5, 6, 7].map(|page| bench.read(page)), [10, 11, 25, 26, 27]);
    let counts = bench.drive.dispatcher().counts();
    assert_eq!((counts.programs[Cause::Recovery], counts.programs[Cause::Host], counts.lost), (2, 5, 0));
    assert_eq!(bench.drive.dispatcher().units()[0].retired_blocks(), 1);
}

/// Until they are elsewhere, their page is nowhere in the flash and its contents are in the controller.
#[test]
fn a_page_whose_program_failed_is_read_from_memory() {
    // The read is there when the program fails, or comes while pages 0 and 1 are copied.
    for (at, end) in [(100, PROGRAM), (PROGRAM + 88, PROGRAM + COPY), (PROGRAM + COPY + 88, PROGRAM + 2 * COPY)] {
        let mut bench = Bench::new(&[1]);
        bench.submit(0, 0, write(5), 25);
        bench.submit(at, 1, BlockRequest::read(5, 1), 0);
        bench.run(u64::MAX);
        assert_eq!(bench.done[0], (1, end, 25), "a read after {at} ns");
        // Written again, it is what was written then.
        let now = bench.drive.now().0 - bench.start;
        bench.submit(now, 0, write(5), 35);
        bench.run(u64::MAX);
        assert_eq!(bench.read(5), 35);
    }
}

/// The copy of page 0 fails as well. While its contents wait, page 1 is copied.
#[test]
fn a_page_that_is_trimmed_while_its_contents_wait_does_not_come_back() {
    for trims in [false, true] {
        let mut bench = Bench::new(&[1, 2]);
        bench.submit(0, 0, write(5), 25);
        let failed = PROGRAM + COPY;
        bench.submit(failed + 30, 1, BlockRequest::read(0, 1), 0);
        if trims {
            bench.submit(failed + 40, 2, BlockRequest::trim(0, 1), 0);
        }
        bench.run(u64::MAX);
        assert!(bench.done.iter().any(|&(tag, ..)| tag == 0), "the write completes");
        assert_eq!(bench.drive.dispatcher().units()[0].lookup(0) == NONE, trims);
        assert_eq!([0, 1, 5].map(|page| bench.read(page)), [if trims { 0 } else { 10 }, 11, 25]);
        // Page 1 once or, if its first copy was in the block that failed, twice; page 0 only if it is still wanted.
        assert_eq!(bench.drive.dispatcher().counts().programs[Cause::Recovery], 1 + u64::from(!trims));
        assert_eq!(bench.drive.dispatcher().units()[0].retired_blocks(), 2);
    }
}

/// A drive learns that contents are lost when it copies them. They are lost once, however often they are copied then, until
/// the page is written again.
#[test]
fn contents_that_could_not_be_copied_are_lost_until_they_are_written_again() {
    // The programs of page 5 and, when pages 0, 1 and 5 are elsewhere, of page 6 fail.
    let mut bench = Bench::new(&[1, 5]);
    let (peb, offset) = bench.drive.dispatcher().cells().place(0, bench.drive.dispatcher().units()[0].lookup(0));
    bench.drive.flash_mut().rotten.insert((peb, offset));
    assert_eq!(bench.page_0(), (true, true, 0), "nobody has noticed");
    for page in [5, 6] {
        let at = bench.drive.now().0 - bench.start;
        bench.submit(at, 0, write(page), 20 + page as u8);
        bench.run(u64::MAX);
        assert_eq!(bench.page_0(), (true, false, 1), "after the failure of page {page}");
    }
    assert_eq!(bench.drive.dispatcher().units()[0].retired_blocks(), 2);
    assert_eq!([1, 5, 6].map(|page| bench.read(page)), [11, 25, 26]);
    let at = bench.drive.now().0 - bench.start;
    bench.submit(at, 0, write(0), 90);
    bench.run(u64::MAX);
    assert_eq!((bench.page_0(), bench.read(0)), ((false, true, 1), 90));
}

/// Reads may show what a trimmed page held as long as the cells hold it: not what a failed program has left there.
#[test]
fn the_cells_of_a_failed_program_are_never_shown() {
    let mut bench = Bench::with(TrimmedReads::Undefined, &[1]);
    bench.submit(0, 0, write(5), 25);
    bench.submit(100, 1, BlockRequest::trim(5, 1), 0);
    bench.run(u64::MAX);
    assert_eq!(bench.ends(), [(1, 100), (0, PROGRAM)], "the write is not wanted any more");
    assert_eq!((bench.read(5), bench.read(0)), (0, 10));
}
