//! Checkpoints of a unit: when each of their steps comes, where they lie, and what power-on finds with them, for images
//! of several blocks and for planes that are programmed together.

use nand::{Array, ArrayConfig, Bytes};
use sim::seam::{BlockDevice, BlockRequest, Flash, Payload};
use sim::{Cause, Cx, Ns, Peb, Rng, Seed};
use ssd::dispatch::CheckpointRegions;
use ssd::ftl::page::{PageConfig, PageFtl};
use ssd::ftl::{NONE, UnitFtl};
use ssd::power::RecoveryStats;
use ssd::tag::{Found, OOB_BYTES, Tag};
use ssd::{
    BusOrder, Cells, DispatchConfig, Dispatcher, DriveConfig, FrontConfig, Order, Protocol, Scheduling, Shape, Ssd,
    Timing, TrimmedReads,
};

const BLOCKS: u32 = 240;
const PAGES: u32 = 4;
const LPNS: u32 = 400;
const EVERY: u32 = 41;
/// 12 bytes, 4 a logical page and 8 a block, in pages of 512 bytes.
const IMAGE_PAGES: u32 = (12 + 4 * LPNS + 8 * BLOCKS).div_ceil(512);

type Drive = Ssd<Array<Bytes>, PageFtl>;

struct Bench {
    planes: u32,
}

impl Bench {
    fn shape(&self) -> Shape {
        Shape {
            channels: 1,
            ways: 1,
            dies: 1,
            planes: self.planes,
            blocks: BLOCKS,
            pages: PAGES,
            page_bytes: 512,
            order: Order::CHANNEL_FIRST,
            multi_plane: true,
        }
    }

    fn regions(&self) -> Vec<CheckpointRegions> {
        vec![CheckpointRegions::of(&self.shape(), LPNS, &[]).expect("room for two images")]
    }

    /// Blocks of a region.
    fn region_blocks(&self) -> u32 {
        IMAGE_PAGES.div_ceil(PAGES * self.planes)
    }

    fn ftl(&self) -> PageConfig {
        let bad = self.regions()[0].blocks().collect();
        PageConfig { planes: self.planes, bad, ..PageConfig::new(BLOCKS, PAGES * self.planes, LPNS) }
    }

    fn config() -> DriveConfig {
        let front = FrontConfig {
            protocol: Protocol::Ufs,
            depth: 1,
            command: Ns(0),
            read_latency: Ns::ZERO,
            write_latency: Ns::ZERO,
            link_bytes_per_s: 0,
            half_duplex: false,
            write_cache: false,
            trimmed_reads: TrimmedReads::Zeroes,
        };
        DriveConfig { pages: LPNS, front, cache: None, map: None, hpb: None }
    }

    fn dispatch() -> DispatchConfig {
        let timing = Timing::plain(Ns(50), Ns(200), Ns(1_000), Ns(2), Ns(10));
        let (scheduling, bus_order) = (Scheduling::ReadsFirst, BusOrder::CommandsFirst);
        DispatchConfig { timing, scheduling, bus_order, background_after: None }
    }

    fn rng() -> Rng {
        Seed(5).stream("gc")
    }

    fn drive(&self) -> Drive {
        let shape = self.shape();
        let array = Array::new(ArrayConfig::plain(ssd::cells::geometry(&shape, 64)), Bytes::with_oob());
        let ftl = PageFtl::new(self.ftl(), Self::rng()).expect("a legal geometry");
        let dispatcher = Dispatcher::new(&shape, Self::dispatch(), Cells::new(&shape, array), vec![ftl]);
        let mut drive = Ssd::new(Self::config(), &shape, dispatcher).expect("a drive that can be");
        drive.write_checkpoints(EVERY, self.regions());
        drive
    }

    /// Power is lost and comes back.
    fn again(&self, drive: Drive) -> (Drive, RecoveryStats) {
        let mut flash = drive.into_dispatcher().into_parts().0.into_flash();
        flash.power_off();
        flash.power_on();
        let (mut drive, found) =
            Ssd::power_on(Self::config(), &self.shape(), Self::dispatch(), flash, &self.regions(), |_, scan| {
                PageFtl::rebuild(self.ftl(), Self::rng(), scan.erases, &scan.bad, scan.pages)
            })
            .expect("power");
        drive.resume_checkpoints(EVERY, self.regions(), &found);
        (drive, found)
    }
}

fn write(drive: &mut Drive, page: u32) {
    let data = [page as u8; 512];
    drive.submit(drive.now(), 0, BlockRequest::write(page.into(), 1), Payload::Bytes(&data)).expect("a free tag");
    assert_eq!(drive.next_done(Ns(u64::MAX)).map(|done| done.result), Some(Ok(())));
}

fn mapping(drive: &Drive) -> Vec<u32> {
    (0..LPNS).map(|lpn| drive.dispatcher().units()[0].lookup(lpn)).collect()
}

#[test]
fn a_region_is_as_many_blocks_as_an_image_fills_and_they_are_the_last() {
    assert_eq!(IMAGE_PAGES, 7, "12 + 1,600 + 1,920 bytes");
    for (planes, expected) in [(1, vec![239, 238, 237, 236]), (2, vec![239, 238])] {
        let bench = Bench { planes };
        assert_eq!(bench.regions()[0].blocks().collect::<Vec<_>>(), expected);
        assert_eq!(2 * bench.region_blocks(), expected.len() as u32);
    }
}

/// A checkpoint begins when `every` host pages were placed since the last one began: the blocks of its region are erased,
/// then its pages programmed, a step before each further host page.
#[test]
fn a_step_of_a_checkpoint_comes_before_each_host_page() {
    for planes in [1, 2] {
        let bench = Bench { planes };
        let mut drive = bench.drive();
        let erases = bench.region_blocks();
        let programs = IMAGE_PAGES.div_ceil(planes);
        for placed in 1..=400u32 {
            write(&mut drive, (placed * 7) % LPNS);
            let (mut erased, mut pages) = (0, 0);
            for begin in (EVERY..placed).step_by(EVERY as usize) {
                let steps = placed - begin;
                erased += steps.min(erases);
                pages += (steps.saturating_sub(erases).min(programs) * planes).min(IMAGE_PAGES);
            }
            let counts = drive.dispatcher().counts();
            let found = (counts.erases, counts.programs[Cause::Map], counts.programs[Cause::Host]);
            assert_eq!(found, (erased.into(), pages.into(), placed.into()), "{planes} planes, {placed} pages");
        }
    }
}

/// Pages count, not operations: two of a row, programmed together, are two.
#[test]
fn pages_that_are_programmed_together_each_count_for_the_next_checkpoint() {
    let mut drive = Bench { planes: 2 }.drive();
    for row in 0..EVERY {
        assert_eq!(drive.dispatcher().counts().erases, 0, "after {} pages", 2 * row);
        let data = [row as u8; 1024];
        drive.submit(drive.now(), 0, BlockRequest::write(2 * u64::from(row), 2), Payload::Bytes(&data)).expect("a tag");
        assert_eq!(drive.next_done(Ns(u64::MAX)).map(|done| done.result), Some(Ok(())));
        assert_eq!(drive.dispatcher().counts().program_ops, u64::from(row) + 1, "both pages at once");
        if 2 * (row + 1) >= EVERY {
            break;
        }
    }
    // 42 pages of 41: the first step, an erase, comes before the next.
    write(&mut drive, 100);
    assert_eq!(drive.dispatcher().counts().erases, 1);
}

#[test]
fn power_on_finds_the_newest_complete_image_and_the_next_goes_into_the_other_region() {
    for planes in [1, 2] {
        let bench = Bench { planes };
        let steps = bench.region_blocks() + IMAGE_PAGES.div_ceil(planes);
        // Pages written, and the region of the newest image that is complete by then.
        for (pages, region) in [
            (EVERY, None),
            (EVERY + steps - 1, None),
            (EVERY + steps, Some(0)),
            (2 * EVERY + steps - 1, Some(0)),
            (2 * EVERY + steps, Some(1)),
            (3 * EVERY + 1, Some(1)),
            (3 * EVERY + steps, Some(0)),
        ] {
            let place = format!("{planes} planes, {pages} pages");
            let mut drive = bench.drive();
            (0..pages).for_each(|page| write(&mut drive, (page * 11) % LPNS));
            let held = mapping(&drive);
            let erases = drive.dispatcher().units()[0].erase_counts().to_vec();
            let (mut drive, found) = bench.again(drive);
            assert_eq!(found.checkpoints, [region], "{place}");
            assert_eq!(mapping(&drive), held, "{place}");
            assert_eq!(drive.dispatcher().units()[0].erase_counts(), erases, "{place}");
            assert_eq!(found.torn, 0, "{place}");
            // Two more images after it: the older one is overwritten first.
            for more in 1..=2 {
                (0..EVERY + steps).for_each(|page| write(&mut drive, (page * 13) % LPNS));
                let next = region.map_or(more - 1, |region| (region + more) % 2);
                let held = mapping(&drive);
                let (after, found) = bench.again(drive.clone());
                assert_eq!((found.checkpoints, mapping(&after)), (vec![Some(next)], held), "{place}");
                // Begin anew from there.
                drive = after;
            }
        }
    }
}

/// With an image only blocks opened since, and the first page of each other block, are looked at.
#[test]
fn an_image_spares_the_tags_of_what_was_written_before_it() {
    let bench = Bench { planes: 1 };
    let steps = bench.region_blocks() + IMAGE_PAGES;
    let mut drive = bench.drive();
    // Four images, the last complete: 4 x 41 pages lie in 41 blocks, and 9 more steps in two and a quarter.
    let pages = 4 * EVERY + steps;
    (0..pages).for_each(|page| write(&mut drive, page));
    let (drive, found) = bench.again(drive);
    assert_eq!(found.checkpoints, [Some(1)]);
    // Both images: seven pages each and the blank one behind them. Each block's first page is read, for its tag and to
    // see that it is whole or blank; of the 41 full ones no more. The pages since are read one by one, and in the block
    // that is open the blank one behind them.
    let used = u64::from(4 * EVERY / PAGES);
    let since = u64::from(steps);
    let free = u64::from(BLOCKS) - 4 - used - since.div_ceil(PAGES.into());
    assert_eq!(found.tags_read, 2 * 8 + used + since + 1 + free, "{found:?}");
    assert_eq!(mapping(&drive).iter().filter(|&&ppn| ppn != NONE).count() as u32, pages);
}

/// The block that is open when an image is made is read from the page on that comes next, even if it has one page.
#[test]
fn an_image_spares_the_first_page_of_the_block_that_is_open() {
    let bench = Bench { planes: 1 };
    let steps = bench.region_blocks() + IMAGE_PAGES;
    assert_eq!((EVERY % PAGES, steps), (1, 9), "the last page before it is the first of its block");
    let mut drive = bench.drive();
    (0..EVERY + steps).for_each(|page| write(&mut drive, page));
    let (_, found) = bench.again(drive);
    assert_eq!(found.checkpoints, [Some(0)]);
    // Seven tags of the image and the blank one behind it, one of the other region; the first pages of eleven blocks; nine
    // pages since, in the last of these and two more, and the blank one behind them; the first page of each other block.
    let free = u64::from(BLOCKS) - 4 - 13;
    assert_eq!(found.tags_read, 8 + 1 + 11 + 9 + 1 + free, "{found:?}");
}

/// A raw erase of one of the eraseblocks under block 3, and what is programmed there again afterwards: page by page contents
/// and OOB bytes as they were, the first byte of the first page changed.
fn disturb(flash: &mut Array<Bytes>, bench: &Bench, plane: u32, again: u32) {
    let cx = &mut Cx::new();
    let peb = Peb(plane * BLOCKS + 3);
    let mut pages = Vec::new();
    for row in 0..again {
        let (mut data, mut oob) = ([0; 512], [0; 64]);
        flash.read(cx, peb, row * 512, &mut data).expect("a good page");
        Flash::read_oob(flash, cx, peb, row * 512, &mut oob).expect("a good page");
        pages.push((data, oob));
    }
    flash.erase(cx, peb).expect("a good block");
    for (row, (mut data, oob)) in (0..).zip(pages) {
        data[0] ^= u8::from(row == 0);
        flash.program_with_oob(cx, peb, row * 512, Payload::Bytes(&data), &oob).expect("a good page");
    }
    assert!(plane < bench.planes);
}

/// An erase that power interrupted may have left any of its planes, and of a page its tag: it has begun, so that whatever
/// the block held is elsewhere. With and without an image nothing in such a block is believed.
#[test]
fn a_block_whose_erase_has_begun_on_any_plane_is_not_believed() {
    for (planes, plane, again, images) in [
        (2, 0, 0, true),
        (2, 1, 0, true),
        (1, 0, 1, true),
        (1, 0, PAGES, true),
        (2, 1, PAGES, true),
        (1, 0, PAGES, false),
        (2, 0, PAGES, false),
        (2, 1, PAGES, false),
    ] {
        let bench = Bench { planes };
        let mut drive = bench.drive();
        (0..EVERY + 20).for_each(|page| write(&mut drive, page));
        let held = mapping(&drive);
        let mut flash = drive.into_dispatcher().into_parts().0.into_flash();
        disturb(&mut flash, &bench, plane, again);
        let regions = if images { bench.regions() } else { Vec::new() };
        let (drive, found) =
            Ssd::power_on(Bench::config(), &bench.shape(), Bench::dispatch(), flash, &regions, |_, scan| {
                let kept = bench.regions()[0].blocks().collect::<Vec<_>>();
                let pages = scan.pages.into_iter().filter(|(ppn, _)| !kept.contains(&(ppn / (PAGES * planes))));
                PageFtl::rebuild(bench.ftl(), Bench::rng(), scan.erases, &scan.bad, pages)
            })
            .expect("power");
        let place = format!("plane {plane} of {planes}, {again} pages, images: {images}");
        assert_eq!(found.checkpoints, [images.then_some(0)], "{place}");
        let torn = |ppn: u32| ppn != NONE && ppn / (PAGES * planes) == 3;
        assert_eq!(held.iter().filter(|&&ppn| torn(ppn)).count() as u32, planes * PAGES, "{place}");
        let expected: Vec<u32> = held.iter().map(|&ppn| if torn(ppn) { NONE } else { ppn }).collect();
        assert_eq!(mapping(&drive), expected, "{place}");
    }
}

/// Pages of an image have its number. What has pages of two images is none.
#[test]
fn pages_of_two_images_make_none() {
    let bench = Bench { planes: 1 };
    let steps = bench.region_blocks() + IMAGE_PAGES;
    let mut drive = bench.drive();
    (0..2 * EVERY + steps).for_each(|page| write(&mut drive, page));
    let held = mapping(&drive);
    let flash = drive.into_dispatcher().into_parts().0.into_flash();
    let power_on = |flash: Array<Bytes>| {
        let up =
            Ssd::power_on(Bench::config(), &bench.shape(), Bench::dispatch(), flash, &bench.regions(), |_, scan| {
                PageFtl::rebuild(bench.ftl(), Bench::rng(), scan.erases, &scan.bad, scan.pages)
            });
        let (drive, found) = up.expect("power");
        assert_eq!(mapping(&drive), held);
        found.checkpoints
    };
    assert_eq!(power_on(flash.clone()), [Some(1)]);
    // The last page of the newer image, in blocks 237 and 236, takes the place of that of the older, in 239 and 238; and the
    // other way round.
    let last = |block: u32| (Peb(block), (IMAGE_PAGES - 1 - PAGES) * 512);
    for (from, to, found) in [(236, 238, Some(1)), (238, 236, Some(0))] {
        let (mut flash, cx) = (flash.clone(), &mut Cx::new());
        let mut pages = Vec::new();
        for (peb, offset) in (0..IMAGE_PAGES - 1 - PAGES).map(|row| (Peb(to), row * 512)).chain([last(from)]) {
            let (mut data, mut oob) = ([0; 512], [0; 64]);
            flash.read(cx, peb, offset, &mut data).expect("a good page");
            Flash::read_oob(&mut flash, cx, peb, offset, &mut oob).expect("a good page");
            pages.push((data, oob));
        }
        flash.erase(cx, Peb(to)).expect("a good block");
        for (row, (data, oob)) in (0..).zip(pages) {
            flash.program_with_oob(cx, Peb(to), row * 512, Payload::Bytes(&data), &oob).expect("a good page");
        }
        assert_eq!(power_on(flash), [found], "block {from} to {to}");
    }
}

/// Of two pages with the contents of a logical page that with the higher version counts, also if the other is known from an
/// image.
#[test]
fn versions_decide_between_what_an_image_knows_and_what_was_programmed_since() {
    let bench = Bench { planes: 1 };
    let steps = bench.region_blocks() + IMAGE_PAGES;
    let mut drive = bench.drive();
    (0..EVERY + steps).for_each(|page| write(&mut drive, page));
    let held = mapping(&drive);
    assert_eq!(held[7], 7, "block 1, known from the image");
    let mut flash = drive.into_dispatcher().into_parts().0.into_flash();
    let mut oob = [0; OOB_BYTES];
    Flash::read_oob(&mut flash, &mut Cx::new(), Peb(1), 3 * 512, &mut oob).expect("a good page");
    let Found::Tag(tag) = Tag::decode(&oob) else { panic!("{oob:?}") };
    // In block 100, which is blank.
    for (version, expected) in [(tag.version - 1, 7), (tag.version + 1, 100 * PAGES)] {
        let mut flash = flash.clone();
        let data = [9; 512];
        let other = Tag { version, stamp: 1_000, contents: ssd::tag::crc(&data), ..tag };
        flash.program_with_oob(&mut Cx::new(), Peb(100), 0, Payload::Bytes(&data), &other.encode()).expect("blank");
        let up =
            Ssd::power_on(Bench::config(), &bench.shape(), Bench::dispatch(), flash, &bench.regions(), |_, scan| {
                PageFtl::rebuild(bench.ftl(), Bench::rng(), scan.erases, &scan.bad, scan.pages)
            });
        let (drive, found) = up.expect("power");
        assert_eq!((found.checkpoints, mapping(&drive)[7]), (vec![Some(0)], expected), "version {version}");
    }
}
