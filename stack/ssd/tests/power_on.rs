//! Power-on after a loss of power: what it finds, what it reads, and how long it takes.

use nand::{Array, ArrayConfig, Bytes, PowerCut, Tear};
use sim::seam::{BlockDevice, BlockRequest, Flash, Payload};
use sim::{Cx, Ns, Rng, Seed};
use ssd::dispatch::CheckpointRegions;
use ssd::ftl::UnitFtl;
use ssd::ftl::bast::BastPolicy;
use ssd::ftl::block::BlockPolicy;
use ssd::ftl::fast::FastPolicy;
use ssd::ftl::hybrid::{Hybrid, HybridConfig, LogPolicy};
use ssd::ftl::page::{PageConfig, PageFtl};
use ssd::power::{PowerOnError, RecoveryStats, Scan};
use ssd::{
    Cells, DispatchConfig, Dispatcher, DriveConfig, FrontConfig, Order, Protocol, Scheduling, Shape, Ssd, Timing,
    TrimmedReads,
};

const SHAPE: Shape = Shape {
    channels: 2,
    ways: 1,
    dies: 1,
    planes: 1,
    blocks: 64,
    pages: 16,
    page_bytes: 512,
    order: Order::CHANNEL_FIRST,
    multi_plane: false,
};
const LPNS: u32 = 700;
const EVERY: u32 = 300;

type Drive = Ssd<Array<Bytes>, PageFtl>;

fn config() -> DriveConfig {
    let front = FrontConfig {
        protocol: Protocol::Sata,
        depth: 4,
        command: Ns(0),
        read_latency: Ns::ZERO,
        write_latency: Ns::ZERO,
        link_bytes_per_s: 0,
        half_duplex: false,
        write_cache: false,
        trimmed_reads: TrimmedReads::Zeroes,
    };
    DriveConfig { pages: 2 * LPNS, front, cache: None, map: None, hpb: None }
}

fn dispatch() -> DispatchConfig {
    let timing = Timing::plain(Ns(50_000), Ns(200_000), Ns(1_000_000), Ns(100), Ns(51_200));
    DispatchConfig {
        timing,
        scheduling: Scheduling::ReadsFirst,
        bus_order: ssd::BusOrder::CommandsFirst,
        background_after: None,
    }
}

fn regions() -> Vec<CheckpointRegions> {
    vec![CheckpointRegions::of(&SHAPE, LPNS, &[]).expect("room for two images"); 2]
}

fn unit() -> PageConfig {
    PageConfig { bad: regions()[0].blocks().collect(), ..PageConfig::new(SHAPE.blocks, SHAPE.pages, LPNS) }
}

fn rng() -> Rng {
    Seed(5).stream("gc")
}

fn drive(oob_bytes: u32) -> Drive {
    let array = Array::new(ArrayConfig::plain(ssd::cells::geometry(&SHAPE, oob_bytes)), Bytes::with_oob());
    let layers = (0..2).map(|_| PageFtl::new(unit(), rng()).unwrap()).collect();
    let mut drive =
        Ssd::new(config(), &SHAPE, Dispatcher::new(&SHAPE, dispatch(), Cells::new(&SHAPE, array), layers)).unwrap();
    drive.write_checkpoints(EVERY, regions());
    drive
}

/// Writes pages one after the other until power is lost. Returns the number of pages written.
fn write(drive: &mut Drive, pages: impl IntoIterator<Item = u32>) -> u32 {
    let mut written = 0;
    for page in pages {
        let request = BlockRequest::write(u64::from(page), 1);
        let data = [page as u8; 512];
        if drive.submit(drive.now(), 0, request, Payload::Bytes(&data)).is_err()
            || drive.next_done(Ns(u64::MAX)).is_none_or(|done| done.result.is_err())
        {
            break;
        }
        written += 1;
    }
    written
}

fn flash_of<M: UnitFtl>(drive: Ssd<Array<Bytes>, M>) -> Array<Bytes> {
    let mut flash = drive.into_dispatcher().into_parts().0.into_flash();
    flash.power_off();
    flash.power_on();
    flash
}

fn power_on(flash: Array<Bytes>) -> Result<(Drive, RecoveryStats), PowerOnError<ssd::ftl::page::ConfigError>> {
    Ssd::power_on(config(), &SHAPE, dispatch(), flash, &regions(), |_, scan| {
        PageFtl::rebuild(unit(), rng(), scan.erases, &scan.bad, scan.pages)
    })
}

fn mapping(drive: &Drive) -> Vec<u32> {
    drive.dispatcher().units().iter().flat_map(|unit| (0..LPNS).map(|lpn| unit.lookup(lpn))).collect()
}

#[test]
fn with_a_checkpoint_less_is_read_and_the_same_is_found() {
    let mut before = drive(64);
    let mut draws = Seed(1).stream("pages");
    let pages = 2 * u64::from(LPNS);
    assert_eq!(write(&mut before, 0..2 * LPNS), 2 * LPNS);
    assert_eq!(write(&mut before, (0..3_000).map(|_| draws.below(pages) as u32)), 3_000);
    let held = mapping(&before);
    let flash = flash_of(before);
    let mut without = flash.clone();
    for unit in 0..2 {
        for block in regions()[0].blocks() {
            without.erase(&mut Cx::new(), sim::Peb(unit * SHAPE.blocks + block)).unwrap();
        }
    }
    let (by_checkpoint, few) = power_on(flash).unwrap();
    let (by_scan, many) = power_on(without).unwrap();
    assert!(few.checkpoints.iter().all(Option::is_some), "{few:?}");
    assert_eq!(many.checkpoints, [None, None]);
    assert_eq!(mapping(&by_checkpoint), held);
    assert_eq!(mapping(&by_scan), held);
    assert!(2 * few.tags_read < many.tags_read, "{} for {} tags", few.tags_read, many.tags_read);
    assert!(few.took < many.took);
    let counts = |drive: &Drive| drive.dispatcher().units()[0].erase_counts()[..60].to_vec();
    assert_eq!(counts(&by_checkpoint).iter().max(), counts(&by_scan).iter().max());
}

#[test]
fn a_checkpoint_that_is_cut_leaves_the_one_before() {
    let mut before = drive(64);
    // Two checkpoints in each unit.
    write(&mut before, (0..4 * EVERY + 100).map(|n| n % (2 * LPNS)));
    let (_, found) = power_on(flash_of(before.clone())).unwrap();
    assert_eq!(found.checkpoints, [Some(1), Some(1)]);
    // The third goes into the region of the first, and power is lost during it. Its first step is an erase, after 100
    // more pages in each unit.
    let mut cut_found = 0;
    for ops in 390..430 {
        let mut drive = before.clone();
        let at = PowerCut::at_op(drive.flash_mut().ops() + ops, Tear::RandomBits);
        drive.flash_mut().set_power_cut(Some(at));
        write(&mut drive, (0..2_000).map(|n| n % (2 * LPNS)));
        let (_, found) = power_on(flash_of(drive)).unwrap();
        assert!(found.checkpoints.iter().all(Option::is_some), "a cut after {ops} operations: {found:?}");
        cut_found += u32::from(found.checkpoints == [Some(1), Some(1)]);
    }
    assert!(cut_found > 0);
}

#[test]
fn coming_up_takes_the_reads_of_the_busiest_die() {
    // Nothing was written: the scan reads the tag and the contents of each block's first page, and the first tag of
    // each region.
    let (_, recovered) = power_on(flash_of(drive(64))).unwrap();
    let kept = regions()[0].blocks().count() as u64;
    let blocks = u64::from(SHAPE.blocks) - kept;
    assert_eq!((recovered.tags_read, recovered.pages_read), (2 * (blocks + 2), 2 * blocks));
    // The transfer of a tag is 40 of 512 bytes; a command takes 100 ns.
    let tag = 50_000 + 100 + 51_200 * 40 / 512;
    let page = 50_000 + 100 + 51_200;
    assert_eq!(recovered.took, Ns((blocks + 2) * tag + blocks * page));
}

/// Four dies on one channel: the scan's transfers take longer than the reads of any die.
#[test]
fn coming_up_takes_the_transfers_of_the_busiest_channel() {
    let shape = Shape { channels: 1, ways: 4, ..SHAPE };
    let array = Array::new(ArrayConfig::plain(ssd::cells::geometry(&shape, 64)), Bytes::with_oob());
    let unit = PageConfig::new(SHAPE.blocks, SHAPE.pages, LPNS);
    let rebuild = |_, scan: Scan| PageFtl::rebuild(unit.clone(), rng(), scan.erases, &scan.bad, scan.pages);
    let (_, recovered) = Ssd::power_on(config(), &shape, dispatch(), array, &[], rebuild).expect("power");
    // Of each block the first tag and, since it is blank, the contents of that page.
    let blocks = u64::from(SHAPE.blocks);
    assert_eq!((recovered.tags_read, recovered.pages_read), (4 * blocks, 4 * blocks));
    let of_a_die = blocks * (100 + 51_200 * 40 / 512 + 100 + 51_200);
    assert!(of_a_die + 2 * blocks * 50_000 < 4 * of_a_die);
    assert_eq!(recovered.took, Ns(4 * of_a_die));
}

/// Erase counts are in the tags of programmed pages. What is blank has the mean of the others, rounded down.
#[test]
fn a_blank_block_is_as_worn_as_the_others_are_on_average() {
    let shape = Shape { channels: 1, ..SHAPE };
    let array = Array::new(ArrayConfig::plain(ssd::cells::geometry(&shape, 64)), Bytes::with_oob());
    let unit = PageConfig::new(SHAPE.blocks, SHAPE.pages, LPNS);
    let layer = PageFtl::new(unit.clone(), rng()).expect("a legal geometry");
    let config = DriveConfig { pages: LPNS, ..config() };
    let dispatcher = Dispatcher::new(&shape, dispatch(), Cells::new(&shape, array), vec![layer]);
    let mut drive = Ssd::new(config.clone(), &shape, dispatcher).expect("a drive that can be");
    let mut draws = Seed(3).stream("pages");
    assert_eq!(write(&mut drive, 0..LPNS), LPNS);
    assert_eq!(write(&mut drive, (0..9_000).map(|_| draws.below(LPNS.into()) as u32)), 9_000);
    let ftl = &drive.dispatcher().units()[0];
    let known: Vec<Option<u32>> = (0..SHAPE.blocks)
        .map(|block| (UnitFtl::handed_out(ftl, block) > 0).then(|| ftl.erase_counts()[block as usize]))
        .collect();
    let tagged: Vec<u32> = known.iter().copied().flatten().collect();
    let mean = tagged.iter().sum::<u32>() / tagged.len() as u32;
    assert!(tagged.len() < known.len() && mean > 5, "{known:?}");
    let mut found = Vec::new();
    Ssd::power_on(config, &shape, dispatch(), flash_of(drive), &[], |_, scan: Scan| {
        found.clone_from(&scan.erases);
        PageFtl::rebuild(unit.clone(), rng(), scan.erases, &scan.bad, scan.pages)
    })
    .expect("power");
    assert_eq!(found, known.iter().map(|known| known.unwrap_or(mean)).collect::<Vec<_>>());
}

#[test]
fn a_flash_without_room_for_tags_is_refused_with_the_reason() {
    let error = power_on(flash_of(drive(39))).map(drop).unwrap_err();
    assert!(error.to_string().starts_with("39 out-of-band bytes a page, expected 40 or more"), "{error}");
}

/// Power was lost when block 0 was erased on one of its two planes. What it has on the other one was elsewhere when the erase began, or
/// trimmed: it counts as empty, and takes no more pages before it is erased.
#[test]
fn a_block_that_is_erased_on_one_plane_is_empty() {
    let shape = Shape { channels: 1, planes: 2, blocks: 10, pages: 4, multi_plane: true, ..SHAPE };
    let unit = || HybridConfig { planes: 2, ..HybridConfig::new(10, 8, 32, 2) };
    let config = || DriveConfig { pages: 32, ..config() };
    // Pages of block 0 with contents, and the blocks that take no more pages.
    let found = |pages: u32, erased: Option<u32>| {
        let array = Array::new(ArrayConfig::plain(ssd::cells::geometry(&shape, 64)), Bytes::with_oob());
        let layers = vec![Hybrid::<BastPolicy>::new(unit()).expect("a legal geometry")];
        let dispatcher = Dispatcher::new(&shape, dispatch(), Cells::new(&shape, array), layers);
        let mut drive = Ssd::new(config(), &shape, dispatcher).expect("a legal drive");
        for page in 0..pages {
            drive.submit(drive.now(), 0, BlockRequest::write(page.into(), 1), Payload::Bytes(&[1; 512])).unwrap();
            assert_eq!(drive.next_done(Ns(u64::MAX)).expect("a write ends").result, Ok(()));
        }
        let mut flash = flash_of(drive);
        if let Some(plane) = erased {
            flash.erase(&mut Cx::new(), sim::Peb(plane * shape.blocks)).unwrap();
        }
        let mut found = (0, Vec::new());
        Ssd::power_on(config(), &shape, dispatch(), flash, &[], |_, scan| {
            found = (scan.pages.iter().filter(|page| page.1.is_some()).count(), scan.closed.clone());
            Hybrid::<BastPolicy>::rebuild(unit(), scan.erases, &scan.closed, scan.pages)
        })
        .expect("the layer knows its flash");
        found
    };
    for pages in [1, 3, 8] {
        assert_eq!(found(pages, None), (pages as usize, vec![]));
    }
    for (pages, plane) in [(4, 0), (3, 1), (8, 0), (8, 1)] {
        assert_eq!(found(pages, Some(plane)), (0, vec![0]), "{pages} pages, erased on plane {plane}");
    }
    // Pages 0 and 1 are one row: the program of page 0 may have been interrupted before it changed anything.
    assert_eq!([found(2, Some(0)), found(3, Some(0)), found(2, Some(1))], [(1, vec![0]), (1, vec![0]), (1, vec![])]);
    // Page 0 alone was there.
    assert_eq!((found(1, Some(0)), found(1, Some(1))), ((0, vec![]), (1, vec![])));
}

/// A unit of two planes whose pages are written one at a time. Power is lost in any program or erase, and a second time between two:
/// what was written before is there. A page that is torn may be the first of its eraseblock, and the layers with log blocks go on in
/// blocks that are not full: what they write behind such a page must not be taken for what an erase left.
#[test]
fn what_is_written_between_two_losses_of_power_is_there() {
    let mut torn = 0;
    for seed in 0..1000 {
        torn += survives_two_losses::<BlockPolicy>(seed) + survives_two_losses::<BastPolicy>(seed);
        torn += survives_two_losses::<FastPolicy>(seed);
    }
    assert!(torn > 30, "{torn} losses left a block that begins with a torn page");
}

/// How many losses of power left a block that takes no more pages.
fn survives_two_losses<P: LogPolicy>(seed: u64) -> u32 {
    let shape = Shape { channels: 1, planes: 2, blocks: 10, pages: 2, multi_plane: true, ..SHAPE };
    let unit = || HybridConfig { planes: 2, ..HybridConfig::new(10, 4, 16, 2) };
    let config = || DriveConfig { pages: 16, ..config() };
    let fresh = || {
        let array = Array::new(ArrayConfig::plain(ssd::cells::geometry(&shape, 64)), Bytes::with_oob());
        let layer = Hybrid::<P>::new(unit()).expect("a legal geometry");
        Ssd::new(config(), &shape, Dispatcher::new(&shape, dispatch(), Cells::new(&shape, array), vec![layer])).unwrap()
    };
    let mut closed = 0;
    let mut again = |flash: Array<Bytes>| {
        let drive = Ssd::power_on(config(), &shape, dispatch(), flash, &[], |_, scan| {
            closed += u32::from(!scan.closed.is_empty());
            Hybrid::<P>::rebuild(unit(), scan.erases, &scan.closed, scan.pages)
        });
        drive.expect("the layer knows its flash").0
    };
    // What each page holds for certain, and what a write that was cut may have left.
    let (mut holds, mut may_hold) = ([0_u8; 16], [0_u8; 16]);
    let mut drive = fresh();
    let mut version = 0;
    let mut draws = Seed(seed).stream("losses");
    for life in 0..3 {
        let tear = if life < 2 { Tear::RandomBits } else { Tear::Clean };
        let at = drive.dispatcher().cells().flash().ops() + draws.below(40);
        drive.flash_mut().set_power_cut(Some(PowerCut::at_op(at, tear).seeded(Seed(draws.bits()))));
        for _ in 0..200 {
            version += 1;
            let page = draws.below(16) as usize;
            may_hold[page] = version;
            let request = BlockRequest::write(page as u64, 1);
            let done = drive.submit(drive.now(), 0, request, Payload::Bytes(&[version; 512]));
            if done.is_err() || drive.next_done(Ns(u64::MAX)).is_none_or(|done| done.result.is_err()) {
                break;
            }
            holds[page] = version;
        }
        assert_eq!(
            drive.dispatcher().units()[0].good_blocks(),
            10,
            "seed {seed}, life {life}: nothing fails on this flash"
        );
        drive = again(flash_of(drive));
        for page in 0..16 {
            drive.submit(drive.now(), 0, BlockRequest::read(page as u64, 1), Payload::Length(0)).unwrap();
            let done = drive.next_done(Ns(u64::MAX)).expect("a read ends");
            assert_eq!(done.result, Ok(()));
            let mut found = [0xee; 512];
            drive.take(0, &mut found);
            let is_legal = found == [holds[page]; 512] || found == [may_hold[page]; 512];
            assert!(is_legal, "page {page}, seed {seed}, life {life}: {} for {}", found[0], holds[page]);
            (holds[page], may_hold[page]) = (found[0], found[0]);
        }
    }
    closed
}
