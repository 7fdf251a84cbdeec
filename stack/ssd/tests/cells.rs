//! Units, blocks and pages of a drive in the eraseblocks of the raw flash below.

use std::collections::BTreeSet;

use nand::{Array, ArrayConfig, Tags};
use proptest::prelude::*;
use sim::{Cause, Peb, Seed};
use ssd::ftl::UnitFtl;
use ssd::ftl::page::{PageConfig, PageFtl};
use ssd::untimed::Tally;
use ssd::{Cells, Order, Shape, Striping};

fn shapes() -> impl Strategy<Value = Shape> {
    (1..3u32, 1..3u32, prop_oneof![Just(1u32), Just(2), Just(4)], any::<bool>()).prop_map(
        |(channels, dies, planes, multi_plane)| Shape {
            channels,
            ways: 1,
            dies,
            planes,
            blocks: 12,
            pages: 4,
            page_bytes: 512,
            order: Order::CHANNEL_FIRST,
            multi_plane,
        },
    )
}

fn cells(shape: &Shape) -> Cells<Array<Tags>> {
    Cells::new(shape, Array::new(ArrayConfig::plain(ssd::cells::geometry(shape, 0)), Tags))
}

proptest! {
    /// Every physical page has a place of its own, and together they fill the flash.
    #[test]
    fn pages_fill_the_flash(shape in shapes()) {
        let cells = cells(&shape);
        let mut places = BTreeSet::new();
        for unit in 0..shape.units() {
            for ppn in 0..shape.blocks * shape.unit_pages() {
                let (peb, offset) = cells.place(unit, ppn);
                prop_assert!(peb == cells.peb(unit, cells.block(ppn), cells.plane(ppn)) && offset % 512 == 0);
                prop_assert!(places.insert((peb, offset)), "{peb:?} at {offset} holds two pages");
            }
        }
        let pebs: BTreeSet<Peb> = places.iter().map(|&(peb, _)| peb).collect();
        prop_assert_eq!(pebs.len() as u32, shape.all_dies() * shape.planes * shape.blocks);
        prop_assert!(places.iter().all(|&(_, offset)| offset < 4 * 512));
    }

    /// One bad plane makes the block bad, since its planes are erased together. A block that is marked is bad on all of them.
    #[test]
    fn a_block_is_bad_if_any_of_its_planes_is(shape in shapes(), draws in prop::collection::vec(any::<u32>(), 0..6)) {
        let pebs = shape.all_dies() * shape.planes * shape.blocks;
        let factory: BTreeSet<Peb> = draws.iter().map(|draw| Peb(draw % pebs)).collect();
        let mut cells = cells(&shape);
        for &peb in &factory {
            sim::seam::Flash::mark_bad(cells.flash_mut(), &mut sim::Cx::new(), peb).unwrap();
        }
        for unit in 0..shape.units() {
            let of_unit = |block: u32| (0..shape.unit_planes()).map(move |plane| (block, plane));
            let is_bad = |&block: &u32| of_unit(block).any(|(block, plane)| factory.contains(&cells.peb(unit, block, plane)));
            let expected: Vec<u32> = (0..shape.blocks).filter(is_bad).collect();
            prop_assert_eq!(cells.bad_blocks(unit), expected);
        }
        let (unit, block) = (shape.units() - 1, 3);
        let mut expected = factory.clone();
        expected.extend((0..shape.unit_planes()).map(|plane| cells.peb(unit, block, plane)));
        cells.mark_bad(unit, block).unwrap();
        prop_assert_eq!(cells.flash().bad_pebs().collect::<BTreeSet<_>>(), expected);
    }

    /// A drive that was filled without time finds exactly the pages programmed that its layers have handed out, all of them
    /// under one cause.
    #[test]
    fn what_a_layer_handed_out_is_programmed_and_nothing_else(
        shape in shapes(), pages in prop::collection::vec(0..60u32, 0..150),
    ) {
        let mut cells = cells(&shape);
        let mut handed_out = BTreeSet::new();
        for unit in 0..shape.units() {
            let config = PageConfig { planes: shape.unit_planes(), ..PageConfig::new(12, shape.unit_pages(), 28) };
            let mut layer = PageFtl::new(config, Seed(u64::from(unit)).stream("gc")).unwrap();
            let lpns: Vec<u32> = pages.iter().map(|page| (page + unit) % 28).collect();
            layer.write_untimed(&lpns[..lpns.len().saturating_sub(unit as usize)], &mut Tally::default()).unwrap();
            cells.adopt(unit, &layer).unwrap();
            for block in 0..shape.blocks {
                let first = block * shape.unit_pages();
                handed_out.extend((first..first + layer.handed_out(block)).map(|ppn| cells.place(unit, ppn)));
            }
        }
        let flash = cells.flash();
        for peb in (0..shape.all_dies() * shape.planes * shape.blocks).map(Peb) {
            let rows = handed_out.iter().filter(|&&(at, _)| at == peb).count() as u32;
            prop_assert_eq!(flash.mark(peb), rows * 512, "PEB {}", peb);
        }
        let bytes = 512 * handed_out.len() as u64;
        prop_assert_eq!((flash.programmed_bytes()[Cause::Layout], flash.bytes_into_cells()), (bytes, bytes));
    }
}

/// Dies are numbered with the channel changing fastest, then the way, then the die within its chip, whatever order the
/// pages are striped in.
#[test]
fn dies_have_their_numbers_by_channel_way_and_die() {
    let shape = |order| Shape {
        channels: 2,
        ways: 3,
        dies: 2,
        planes: 1,
        blocks: 12,
        pages: 4,
        page_bytes: 512,
        order: Order::by_name(order).expect("a name"),
        multi_plane: false,
    };
    let units = |order| {
        let striping = Striping::new(&shape(order));
        (0..12).map(|lpn| striping.locate(lpn).0).collect::<Vec<u32>>()
    };
    assert_eq!(units("cwdp"), (0..12).collect::<Vec<u32>>());
    // The two dies of a chip are 2 x 3 apart, the ways of a channel 2.
    assert_eq!(units("dcwp"), [0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11]);
    assert_eq!(units("wcdp"), [0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11]);
    assert_eq!(units("pdwc"), [0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11]);
}

/// Planes are erased together: if one of them fails, the others are erased all the same.
#[test]
fn an_erase_that_fails_on_a_plane_erases_the_others() {
    for failing in 0..2 {
        let shape = Shape {
            channels: 1,
            ways: 1,
            dies: 1,
            planes: 2,
            blocks: 12,
            pages: 4,
            page_bytes: 512,
            order: Order::CHANNEL_FIRST,
            multi_plane: true,
        };
        let mut cells = cells(&shape);
        (0..8).for_each(|page| cells.program(Cause::Host, 0, 3 * 8 + page, None).expect("a good page"));
        let bad = cells.peb(0, 3, failing);
        sim::seam::Flash::mark_bad(cells.flash_mut(), &mut sim::Cx::new(), bad).expect("power");
        assert!(cells.erase(Cause::Gc, 0, 3).is_err(), "plane {failing}");
        assert_eq!(cells.flash().mark(cells.peb(0, 3, 1 - failing)), 0, "plane {}", 1 - failing);
    }
}
