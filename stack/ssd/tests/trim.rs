//! What trimmed pages read as, and whether such a read uses the flash.

use nand::{Array, ArrayConfig, Bytes};
use sim::Ns;
use sim::seam::{BlockDevice, BlockRequest, Payload};
use ssd::ftl::page::{PageConfig, PageFtl};
use ssd::{
    Cells, DispatchConfig, Dispatcher, DriveConfig, FrontConfig, Order, Protocol, Scheduling, Shape, Ssd, Timing,
    TrimmedReads,
};

type Drive = Ssd<Array<Bytes>, PageFtl>;

const PAGES: u32 = 200;

fn drive(trimmed_reads: TrimmedReads) -> Drive {
    drive_of(trimmed_reads, 1)
}

/// One die of 4 KiB pages.
fn drive_of(trimmed_reads: TrimmedReads, depth: u32) -> Drive {
    let shape = Shape {
        channels: 1,
        ways: 1,
        dies: 1,
        planes: 1,
        blocks: 32,
        pages: 8,
        page_bytes: 4096,
        order: Order::CHANNEL_FIRST,
        multi_plane: false,
    };
    let array = Array::new(ArrayConfig::plain(ssd::cells::geometry(&shape, 0)), Bytes::default());
    let timing = Timing::plain(Ns(50), Ns(200), Ns(1_000), Ns(2), Ns(10));
    let config = DispatchConfig {
        timing,
        scheduling: Scheduling::ReadsFirst,
        bus_order: ssd::BusOrder::CommandsFirst,
        background_after: None,
    };
    let front = FrontConfig {
        protocol: Protocol::Sata,
        depth,
        command: Ns(1),
        read_latency: Ns::ZERO,
        write_latency: Ns::ZERO,
        link_bytes_per_s: 0,
        half_duplex: false,
        write_cache: false,
        trimmed_reads,
    };
    let layer = PageFtl::new(PageConfig::new(32, 8, PAGES), sim::Seed(1).stream("gc")).unwrap();
    let dispatcher = Dispatcher::new(&shape, config, Cells::new(&shape, array), vec![layer]);
    Ssd::new(DriveConfig { pages: PAGES, front, cache: None, map: None, hpb: None }, &shape, dispatcher).unwrap()
}

fn ask(drive: &mut Drive, request: BlockRequest, data: &[u8]) {
    drive.submit(drive.now(), 0, request, Payload::Bytes(data)).unwrap();
    assert_eq!(drive.next_done(Ns(u64::MAX)).unwrap().result, Ok(()));
}

fn write(drive: &mut Drive, page: u64, fill: u8) {
    ask(drive, BlockRequest::write(page * 8, 8), &[fill; 4096]);
}

fn trim(drive: &mut Drive, page: u64) {
    ask(drive, BlockRequest::trim(page * 8, 8), &[]);
}

/// The byte that fills a sector, and the pages read from the flash for it.
fn read(drive: &mut Drive, sector: u64) -> (u8, u64) {
    let before = drive.dispatcher().counts().host_reads;
    ask(drive, BlockRequest::read(sector, 1), &[]);
    let mut data = [0xee; 512];
    drive.take(0, &mut data);
    assert!(data.iter().all(|&byte| byte == data[0]), "{data:?}");
    (data[0], drive.dispatcher().counts().host_reads - before)
}

#[test]
fn a_page_never_written_is_zeroes_and_touches_no_flash() {
    for reads in TrimmedReads::ALL {
        assert_eq!(read(&mut drive(reads), 0), (0, 0), "{reads:?}");
    }
}

#[test]
fn a_trimmed_page_reads_as_the_drive_promises() {
    for (reads, expected) in
        [(TrimmedReads::Zeroes, (0, 0)), (TrimmedReads::Deterministic, (0xff, 0)), (TrimmedReads::Undefined, (7, 1))]
    {
        let mut drive = drive(reads);
        write(&mut drive, 3, 7);
        assert_eq!(read(&mut drive, 24), (7, 1));
        trim(&mut drive, 3);
        assert_eq!([read(&mut drive, 24), read(&mut drive, 31)], [expected; 2], "{reads:?}");
        write(&mut drive, 3, 9);
        assert_eq!(read(&mut drive, 24), (9, 1), "{reads:?}");
    }
}

#[test]
fn old_contents_are_shown_until_their_block_is_erased() {
    let mut drive = drive(TrimmedReads::Undefined);
    write(&mut drive, 3, 7);
    trim(&mut drive, 3);
    for round in 0..12 {
        (4..PAGES.into()).for_each(|page| write(&mut drive, page, round));
    }
    assert!(drive.dispatcher().counts().erases >= 100, "every block was erased");
    assert_eq!(read(&mut drive, 24), (0, 0));
}

#[test]
fn the_rest_of_a_trimmed_page_stays_the_same_when_a_part_is_written() {
    let mut drive = drive(TrimmedReads::Deterministic);
    write(&mut drive, 3, 7);
    trim(&mut drive, 3);
    ask(&mut drive, BlockRequest::write(25, 1), &[5; 512]);
    assert_eq!([24, 25, 26, 31].map(|sector| read(&mut drive, sector).0), [0xff, 5, 0xff, 0xff]);
    // A trim of part of a page changes nothing.
    ask(&mut drive, BlockRequest::trim(24, 4), &[]);
    assert_eq!([24, 25].map(|sector| read(&mut drive, sector).0), [0xff, 5]);
}

/// Marks are kept for each page of the drive.
#[test]
fn each_page_is_trimmed_by_itself() {
    let mut drive = drive(TrimmedReads::Deterministic);
    let trimmed = [0, 1, 62, 63, 64, 65, 127, 128, 129, 199];
    (0..PAGES.into()).filter(|page| page % 3 != 0).for_each(|page| write(&mut drive, page, page as u8));
    trimmed.iter().for_each(|&page| trim(&mut drive, page));
    write(&mut drive, 64, 9);
    for page in 0..PAGES.into() {
        let expected = match page {
            64 => 9,
            _ if trimmed.contains(&page) => 0xff,
            _ if page % 3 == 0 => 0,
            _ => page as u8,
        };
        assert_eq!(read(&mut drive, 8 * page).0, expected, "page {page}");
    }
}

/// Each read of a trimmed page returns the same, also while a write of it waits for its die.
#[test]
fn a_trimmed_page_is_the_same_until_its_write_has_begun() {
    for (reads, expected) in [(TrimmedReads::Zeroes, 0), (TrimmedReads::Deterministic, 0xff)] {
        let mut drive = drive_of(reads, 4);
        write(&mut drive, 3, 7);
        trim(&mut drive, 3);
        let start = Ns(drive.now().0 + 10_000);
        let requests = [
            (BlockRequest::write(4 * 8, 8), vec![8; 4096]),
            (BlockRequest::write(3 * 8, 8), vec![9; 4096]),
            (BlockRequest::read(3 * 8, 1), Vec::new()),
        ];
        for (tag, (request, data)) in (0..).zip(&requests) {
            drive.submit(start, tag, *request, Payload::Bytes(data)).expect("a free tag");
        }
        // A nanosecond for each command, then without the flash.
        assert_eq!(drive.next_done(Ns(u64::MAX)).map(|done| (done.tag, done.at)), Some((2, start + Ns(3))));
        let mut data = [0xee; 512];
        drive.take(2, &mut data);
        assert_eq!(data, [expected; 512], "{reads:?}");
        while drive.next_done(Ns(u64::MAX)).is_some() {}
        assert_eq!(read(&mut drive, 24).0, 9);
    }
}
