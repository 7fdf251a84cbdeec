//! The device's half of HPB, asked command by command: what the entries of a load say, which of those that come with a read
//! are used, and what a command of the driver changes.

use nand::{Array, ArrayConfig, Bytes};
use sim::Ns;
use sim::seam::{BlockDevice, BlockError, BlockRequest, Payload};
use ssd::cache::Policy;
use ssd::device::hpb::entry::Entry;
use ssd::device::hpb::{Advice, Control, HpbConfig, HpbDevice, LuConfig, MapCommand, Operation, ReadCommand, Version};
use ssd::ftl::map_cache::MapCacheConfig;
use ssd::ftl::page::{PageConfig, PageFtl};
use ssd::ftl::{NONE, UnitFtl};
use ssd::{
    BusOrder, CacheConfig, Cells, DispatchConfig, Dispatcher, DriveConfig, FrontConfig, Order, Protocol, Scheduling,
    Shape, Ssd, Timing, TrimmedReads,
};

const PAGES: u32 = 640;
const DEPTH: u32 = 4;

type Drive = Ssd<Array<Bytes>, PageFtl>;

/// 20 regions of 2 sub-regions of 16 pages.
fn hpb() -> HpbConfig {
    HpbConfig {
        version: Version::V2,
        subregion_pages: 16,
        region_subregions: 2,
        max_active_regions: 20,
        single_command_pages: 8,
        lus: vec![LuConfig { pages: PAGES, hpb: true }],
        ..HpbConfig::plain(PAGES)
    }
}

/// A drive of one die, whose pages are all written in order.
fn drive(hpb: HpbConfig, map: Option<MapCacheConfig>, cache: Option<CacheConfig>) -> Drive {
    let shape = Shape {
        channels: 1,
        ways: 1,
        dies: 1,
        planes: 1,
        blocks: 64,
        pages: 32,
        page_bytes: 512,
        order: Order::CHANNEL_FIRST,
        multi_plane: false,
    };
    let array = Array::new(ArrayConfig::plain(ssd::cells::geometry(&shape, 0)), Bytes::default());
    let timing = Timing::plain(Ns(50), Ns(200), Ns(1_000), Ns(2), Ns(10));
    let (scheduling, bus_order) = (Scheduling::ReadsFirst, BusOrder::CommandsFirst);
    let config = DispatchConfig { timing, scheduling, bus_order, background_after: None };
    let front = FrontConfig {
        protocol: Protocol::Ufs,
        depth: DEPTH,
        command: Ns(0),
        read_latency: Ns::ZERO,
        write_latency: Ns::ZERO,
        link_bytes_per_s: 0,
        half_duplex: false,
        write_cache: true,
        trimmed_reads: TrimmedReads::Deterministic,
    };
    let lpns = PAGES + map.map_or(0, |map| map.map_pages());
    let ftl = PageFtl::new(PageConfig::new(64, 32, lpns), sim::Seed(1).stream("gc")).expect("a legal geometry");
    let dispatcher = Dispatcher::new(&shape, config, Cells::new(&shape, array), vec![ftl]);
    let config = DriveConfig { pages: PAGES, front, cache, map, hpb: Some(hpb) };
    let mut drive = Ssd::new(config, &shape, dispatcher).expect("a drive that can be");
    (0..PAGES).for_each(|page| write(&mut drive, page, page as u8));
    ask(&mut drive, BlockRequest::flush(), ReadCommand::Plain, &[]);
    drive
}

/// Sends a request and waits for it. Returns the recommendation in its response.
fn ask(drive: &mut Drive, request: BlockRequest, command: ReadCommand, data: &[u8]) -> Option<Advice> {
    drive.submit_with(drive.now(), 0, request, command, Payload::Bytes(data)).expect("a free tag");
    let done = drive.next_done(Ns(u64::MAX)).expect("it ends");
    assert_eq!((done.tag, done.result), (0, Ok(())));
    drive.take_advice(0)
}

fn write(drive: &mut Drive, page: u32, fill: u8) {
    ask(drive, BlockRequest::write(page.into(), 1), ReadCommand::Plain, &[fill; 512]);
}

/// The first byte of each page read, and how many were read by an entry.
fn read(drive: &mut Drive, page: u32, pages: u32, command: ReadCommand) -> (Vec<u8>, u64) {
    let before = right(drive);
    ask(drive, BlockRequest::read(page.into(), pages), command, &[]);
    let mut data = vec![0; 512 * pages as usize];
    drive.take(0, &mut data);
    (data.chunks(512).map(|page| page[0]).collect(), right(drive) - before)
}

fn right(drive: &Drive) -> u64 {
    drive.hpb().expect("a device with HPB").stats().entries_right
}

/// Sends a command of the driver and waits for it. Returns the entries of a load.
fn command(drive: &mut Drive, command: MapCommand, entries: &[u64]) -> Vec<u64> {
    drive.submit_map(drive.now(), DEPTH, command, entries).expect("power");
    let done = drive.next_done(Ns(u64::MAX)).expect("it ends");
    assert_eq!((done.tag, done.result), (DEPTH, Ok(())));
    drive.entries(DEPTH).to_vec()
}

fn load(drive: &mut Drive, sub: u32) -> Vec<u64> {
    command(drive, MapCommand::Load { sub }, &[])
}

/// HPB 2.0: 8 bits for the number of pages that follow each other, 255 at most. HPB 1.0 has none.
#[test]
fn an_entry_has_the_pages_placed_behind_it_in_version_two_only() {
    let large = HpbConfig { subregion_pages: 512, region_subregions: 1, max_active_regions: 2, ..hpb() };
    for (version, config) in [(Version::V1, hpb()), (Version::V2, hpb()), (Version::V2, large)] {
        let pages = config.subregion_pages;
        let mut drive = drive(HpbConfig { version, ..config }, None, None);
        let runs: Vec<u32> = (0..)
            .zip(load(&mut drive, 0))
            .map(|(page, entry)| Entry(entry).read(page).expect("an entry of its page").1.into())
            .collect();
        let run = |page: u32| if version == Version::V1 { 1 } else { (pages - page).min(255) };
        assert_eq!(runs, (0..pages).map(run).collect::<Vec<u32>>(), "{version:?}, {pages} pages");
    }
}

#[test]
fn the_entries_of_a_pre_request_serve_one_read_of_its_page() {
    let mut drive = drive(HpbConfig { pre_requests: true, ..hpb() }, None, None);
    let entries = load(&mut drive, 0);
    let by_id = ReadCommand::ReadId(3);
    let bytes = |first: u8| (first..first + 10).collect::<Vec<u8>>();
    assert_eq!(read(&mut drive, 2, 10, by_id), (bytes(2), 0), "no entries have come");
    command(&mut drive, MapCommand::PreRequest { id: 3, page: 2 }, &entries[2..12]);
    assert_eq!(read(&mut drive, 2, 10, by_id), (bytes(2), 10));
    assert_eq!(read(&mut drive, 2, 10, by_id), (bytes(2), 0), "they are used up");
    // For another read, or under another READ ID.
    command(&mut drive, MapCommand::PreRequest { id: 3, page: 3 }, &entries[2..12]);
    assert_eq!(read(&mut drive, 2, 10, by_id), (bytes(2), 0));
    command(&mut drive, MapCommand::PreRequest { id: 4, page: 2 }, &entries[2..12]);
    assert_eq!(read(&mut drive, 2, 10, by_id), (bytes(2), 0));
    assert_eq!(read(&mut drive, 2, 10, ReadCommand::ReadId(4)), (bytes(2), 10));
}

/// The device recommends to load a sub-region again after reads that its entries did not cover wholly.
#[test]
fn a_read_that_its_entry_covers_in_part_counts_as_one_without() {
    let mut drive = drive(HpbConfig { recommend_after: 2, ..hpb() }, None, None);
    let entries = load(&mut drive, 0);
    write(&mut drive, 5, 99);
    let mut advised = |pages: u32| {
        let advice = ask(&mut drive, BlockRequest::read(0, pages), ReadCommand::Entry(entries[0]), &[]);
        advice.map(|advice| (advice.operation, advice.active.as_slice().to_vec()))
    };
    assert_eq!((0..6).map(|_| advised(5)).collect::<Vec<_>>(), vec![None; 6], "covered wholly");
    assert_eq!(advised(6), None, "the first that was not");
    assert_eq!(advised(8), Some((Operation::UpdateRegions, vec![0])), "the second");
}

/// Host control mode: the device reports sub-regions of active regions only, and the host says which these are.
#[test]
fn of_regions_that_the_host_has_inactivated_nothing_is_recommended() {
    let config = HpbConfig { control: Control::Host, recommend_after: 1, ..hpb() };
    let leave = [Some(MapCommand::Inactivate { region: 0 }), Some(MapCommand::InactivateAll), None];
    for how in leave {
        let mut drive = drive(config.clone(), None, None);
        load(&mut drive, 1);
        load(&mut drive, 6);
        how.into_iter().for_each(|how| drop(command(&mut drive, how, &[])));
        let mut advised = |page: u64| ask(&mut drive, BlockRequest::read(page, 1), ReadCommand::Plain, &[]).is_some();
        let expected = match how {
            Some(MapCommand::Inactivate { .. }) => [false, true],
            Some(_) => [false; 2],
            None => [true; 2],
        };
        assert_eq!([advised(20), advised(100)], expected, "{how:?}");
    }
}

/// A logical unit may begin anywhere in the table: then the entries of a sub-region are in two map pages of 16.
#[test]
fn a_load_waits_for_every_map_page_that_has_some_of_its_entries() {
    let lus = vec![LuConfig { pages: 104, hpb: true }, LuConfig { pages: PAGES - 104, hpb: true }];
    let map = MapCacheConfig { map_page_bytes: 64, ..MapCacheConfig::pages(PAGES, 128) };
    let mut drive = drive(HpbConfig { lus, ..hpb() }, Some(map), None);
    // Unit 0 has four regions, the last of 8 pages. Sub-region 8 is pages 104 to 119: of map pages 6 and 7.
    for (sub, pages) in [(0, 1), (8, 2), (3, 1), (9, 1), (11, 2)] {
        let before = drive.map_counts().1;
        load(&mut drive, sub);
        assert_eq!(drive.map_counts().1 - before, pages, "sub-region {sub}");
    }
}

#[test]
fn without_power_no_command_of_the_driver_is_accepted() {
    let mut drive = drive(hpb(), None, None);
    drive.flash_mut().power_off();
    drive.submit(drive.now(), 0, BlockRequest::read(0, 1), Payload::Length(0)).expect("nobody has noticed yet");
    let done = drive.next_done(Ns(u64::MAX)).expect("it ends");
    assert_eq!(done.result, Err(BlockError::PowerLost));
    for command in [MapCommand::Load { sub: 0 }, MapCommand::InactivateAll, MapCommand::PreRequest { id: 1, page: 0 }] {
        assert_eq!(drive.submit_map(drive.now(), DEPTH, command, &[]), Err(BlockError::PowerLost), "{command:?}");
    }
}

/// An entry says where a page is in the flash. What the write buffer has is newer, and a trimmed page has nothing there.
#[test]
fn a_right_entry_does_not_show_what_was_written_over_or_trimmed() {
    let mut drive = drive(hpb(), None, Some(CacheConfig { policy: Policy::Lru, pages: 16 }));
    let entries = load(&mut drive, 0);
    let by = |page: u32| ReadCommand::Entry(entries[page as usize]);
    assert_eq!(read(&mut drive, 2, 2, by(2)), (vec![2, 3], 2));
    write(&mut drive, 3, 77);
    assert_eq!(drive.dirty_pages(), 1);
    assert_eq!(read(&mut drive, 2, 2, by(2)).0, [2, 77]);
    assert_eq!(read(&mut drive, 3, 1, by(3)).0, [77]);
    ask(&mut drive, BlockRequest::trim(2, 2), ReadCommand::Plain, &[]);
    assert_eq!(read(&mut drive, 1, 4, by(1)).0, [1, 0xff, 0xff, 4]);
    assert_eq!(read(&mut drive, 2, 1, by(2)).0, [0xff]);
}

/// A buffer that pads blocks has trimmed pages programmed too: an entry of such a page is right, and leads to padding.
#[test]
fn a_right_entry_does_not_show_the_padding_of_a_trimmed_page() {
    let mut drive = drive(hpb(), None, Some(CacheConfig { policy: Policy::Bplru, pages: 16 }));
    ask(&mut drive, BlockRequest::trim(2, 1), ReadCommand::Plain, &[]);
    assert_eq!(drive.dispatcher().units()[0].lookup(2), NONE);
    // Block 0 is written out for others, with all its 32 pages.
    write(&mut drive, 0, 50);
    (0..16).for_each(|page| write(&mut drive, 64 + 2 * page, 60));
    ask(&mut drive, BlockRequest::flush(), ReadCommand::Plain, &[]);
    assert_ne!(drive.dispatcher().units()[0].lookup(2), NONE, "padding");
    let entries = load(&mut drive, 0);
    assert_eq!(read(&mut drive, 1, 1, ReadCommand::Entry(entries[1])), (vec![1], 1));
    assert_eq!(read(&mut drive, 2, 1, ReadCommand::Entry(entries[2])).0, [0xff]);
    assert_eq!(read(&mut drive, 1, 3, ReadCommand::Entry(entries[1])).0, [1, 0xff, 3]);
}
