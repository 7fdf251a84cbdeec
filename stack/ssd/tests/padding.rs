//! Padding of log-block layers: its tag says of which logical page it takes the place, and a power-on does not map older
//! contents of that page.

mod failing;

use failing::Failing;
use nand::{Array, ArrayConfig, Bytes};
use sim::seam::{BlockDevice, BlockRequest, Flash, Payload};
use sim::{Cx, Ns, Peb};
use ssd::ftl::bast::BastPolicy;
use ssd::ftl::hybrid::{Hybrid, HybridConfig};
use ssd::ftl::{NONE, UnitFtl};
use ssd::tag::{Found, OOB_BYTES, Tag, crc};
use ssd::{
    BusOrder, Cells, DispatchConfig, Dispatcher, DriveConfig, FrontConfig, Order, Protocol, Scheduling, Shape, Ssd,
    Timing, TrimmedReads,
};

const SHAPE: Shape = Shape {
    channels: 1,
    ways: 1,
    dies: 1,
    planes: 1,
    blocks: 8,
    pages: 4,
    page_bytes: 512,
    order: Order::CHANNEL_FIRST,
    multi_plane: false,
};
const LPNS: u32 = 8;

type Bast = Hybrid<BastPolicy>;

fn config() -> DriveConfig {
    let front = FrontConfig {
        protocol: Protocol::Sata,
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
    DispatchConfig {
        timing: Timing::plain(Ns(50), Ns(200), Ns(1_000), Ns(2), Ns(10)),
        scheduling: Scheduling::ReadsFirst,
        bus_order: BusOrder::CommandsFirst,
        background_after: None,
    }
}

fn unit() -> HybridConfig {
    HybridConfig::new(SHAPE.blocks, SHAPE.pages, LPNS, 2)
}

fn array() -> Array<Bytes> {
    Array::new(ArrayConfig::plain(ssd::cells::geometry(&SHAPE, 64)), Bytes::with_oob())
}

fn power_on(flash: Array<Bytes>) -> Ssd<Array<Bytes>, Bast> {
    let (drive, _) = Ssd::power_on(config(), &SHAPE, dispatch(), flash, &[], |_, scan| {
        Bast::rebuild(unit(), scan.erases, &scan.closed, scan.pages)
    })
    .expect("the layer knows its flash");
    drive
}

/// Logical pages of all padding of a flash, in the order of the flash.
fn padded(flash: &mut Array<Bytes>) -> Vec<u32> {
    let mut lpns = Vec::new();
    for (peb, page) in (0..SHAPE.blocks).flat_map(|peb| (0..SHAPE.pages).map(move |page| (peb, page))) {
        let mut oob = [0; OOB_BYTES];
        Flash::read_oob(flash, &mut Cx::new(), Peb(peb), page * SHAPE.page_bytes, &mut oob).expect("a good block");
        match Tag::decode(&oob) {
            Found::Tag(tag) if tag.padding => lpns.push(tag.lpn),
            Found::Tag(_) | Found::Blank | Found::Torn => {}
        }
    }
    lpns
}

/// Pages 0 to 3 are written, and page 0 again until its log block is full: the next write merges. Page 1 is trimmed before, or
/// its copy into the merged block fails. Returns the logical pages of the padding.
fn merged(trims: bool, fails: Option<u32>) -> (Vec<u32>, Array<Bytes>) {
    let flash = Failing::new(array(), fails);
    let layers = vec![Bast::new(unit()).expect("a legal geometry")];
    let dispatcher = Dispatcher::new(&SHAPE, dispatch(), Cells::new(&SHAPE, flash), layers);
    let mut drive = Ssd::new(config(), &SHAPE, dispatcher).expect("a drive that can be");
    let trim = trims.then(|| BlockRequest::trim(1, 1));
    let writes = |pages: &[u64]| pages.iter().map(|&page| BlockRequest::write(page, 1)).collect::<Vec<_>>();
    for request in writes(&[0, 1, 2, 3, 0, 0, 0, 0]).into_iter().chain(trim).chain(writes(&[0])) {
        drive
            .submit(drive.now(), 0, request, Payload::Bytes(&[request.sector as u8; 512]))
            .expect("the queue is empty");
        assert_eq!(drive.next_done(Ns(u64::MAX)).expect("it ends").result, Ok(()));
    }
    let mut flash = drive.into_dispatcher().into_parts().0.into_flash().array;
    (padded(&mut flash), flash)
}

#[test]
fn the_tag_of_padding_has_the_page_that_was_trimmed() {
    let (lpns, flash) = merged(true, None);
    assert_eq!(lpns, [1]);
    let mapped: Vec<bool> =
        (0..4).map(|lpn| power_on(flash.clone()).dispatcher().units()[0].lookup(lpn) != NONE).collect();
    assert_eq!(mapped, [true, false, true, true]);
}

/// The merge begins anew before the page that could not be copied is written again, and pads its place: the page is not trimmed.
#[test]
fn the_tag_of_padding_has_no_page_whose_program_failed() {
    assert_eq!(merged(false, None).0, []);
    let (lpns, flash) = merged(false, Some(10));
    assert_eq!(lpns, [NONE]);
    assert_ne!(power_on(flash).dispatcher().units()[0].lookup(1), NONE);
}

/// Block 0 holds pages 0 to 3. It was merged into block 1, which has padding for page 1, and was not erased before power was lost.
/// What was programmed for a page last counts; a block that counts as empty, and padding for no page, say nothing.
#[test]
fn older_contents_than_padding_are_not_mapped() {
    let (page, padding) = (|lpn, version| (lpn, version, false), |lpn| (lpn, 0, true));
    let old = [page(0, 1), page(1, 2), page(2, 3), page(3, 4)];
    let merged = [page(0, 1), padding(1), page(2, 3), page(3, 4)];
    let of_none = [page(0, 1), padding(NONE), page(2, 3), page(3, 4)];
    for (blocks, expected) in [
        (vec![&old[..]], Some(1)),
        (vec![&old, &merged], None),
        (vec![&merged, &old], Some(5)),
        (vec![&old, &of_none], Some(1)),
        (vec![&old, &merged, &[page(1, 9)]], Some(8)),
    ] {
        let mut flash = array();
        let mut stamp = 0;
        for (peb, pages) in (0..).zip(&blocks) {
            for (offset, &(lpn, version, padding)) in (0..).step_by(512).zip(*pages) {
                stamp += 1;
                let version = if padding { stamp } else { version };
                let data = [lpn as u8; 512];
                let tag = Tag { lpn, padding, version, stamp, erases: 0, lost: false, contents: crc(&data) };
                flash
                    .program_with_oob(&mut Cx::new(), Peb(peb), offset, Payload::Bytes(&data), &tag.encode())
                    .expect("a good page");
            }
        }
        let drive = power_on(flash);
        let found = drive.dispatcher().units()[0].lookup(1);
        assert_eq!(Some(found).filter(|&ppn| ppn != NONE), expected, "{blocks:?}");
    }
}

/// On two planes: padding in block 1 for page 1, which block 0 holds. Page 1 was written to block 2 later, and trimmed again: block 2 was
/// erased on plane 0 when power was lost, and what it says does not count.
#[test]
fn a_page_in_a_half_erased_block_does_not_undo_padding() {
    let shape = Shape { planes: 2, multi_plane: true, ..SHAPE };
    let unit = || HybridConfig { planes: 2, ..HybridConfig::new(SHAPE.blocks, 2 * SHAPE.pages, LPNS, 2) };
    let mut flash = Array::new(ArrayConfig::plain(ssd::cells::geometry(&shape, 64)), Bytes::with_oob());
    // Block, physical page in it, logical page, and whether it is padding.
    let programs =
        [(0, 0, 0, false), (0, 1, 1, false), (1, 0, 0, false), (1, 1, 1, true), (2, 1, 1, false), (2, 3, 2, false)];
    for (stamp, (block, page, lpn, padding)) in (1..).zip(programs) {
        let data = [lpn as u8; 512];
        let tag = Tag { lpn, padding, version: stamp, stamp, erases: 0, lost: false, contents: crc(&data) };
        let (peb, offset) = (Peb(page % 2 * SHAPE.blocks + block), page / 2 * 512);
        flash.program_with_oob(&mut Cx::new(), peb, offset, Payload::Bytes(&data), &tag.encode()).expect("a good page");
    }
    let (drive, _) = Ssd::power_on(config(), &shape, dispatch(), flash, &[], |_, scan| {
        Bast::rebuild(unit(), scan.erases, &scan.closed, scan.pages)
    })
    .expect("the layer knows its flash");
    assert_eq!([0, 1, 2].map(|lpn| drive.dispatcher().units()[0].lookup(lpn)), [8, NONE, NONE]);
}
