//! The rules of the medium.

use sim::seam::{Flash, FlashError, Payload};
use sim::{Cause, Cx, Peb};

use super::{NAND, NOR, plain, put, read};
use crate::{Array, ArrayConfig, Bytes, NorRule, PageOrder, Tags};

fn refused<F: Flash>(flash: &mut F, offset: u32, len: u32) -> FlashError {
    flash.program(&mut Cx::new(), Peb(1), offset, Payload::Length(len)).expect_err("a breach of the rules")
}

#[test]
fn programmed_cells_are_not_programmed_again() {
    let mut array = plain(NAND);
    put(&mut array, 1, 0, &[1; 512]);
    let again = FlashError::NotErased { peb: Peb(1), offset: 0 };
    assert_eq!(refused(&mut array, 0, 512), again);
    assert_eq!(read(&mut array, 1, 0, 512), [1; 512]);
    array.erase(&mut Cx::new(), Peb(1)).unwrap();
    put(&mut array, 1, 0, &[2; 512]);
    assert_eq!(array.ops(), 3, "the refused program reached no cell");
}

#[test]
fn a_skipped_page_counts_as_programmed() {
    let mut array = plain(NAND);
    put(&mut array, 1, 1024, &[1; 512]);
    assert_eq!(refused(&mut array, 512, 512), FlashError::NotErased { peb: Peb(1), offset: 512 });
}

#[test]
fn a_consecutive_part_refuses_a_skip() {
    let mut config = ArrayConfig::plain(NAND);
    config.rules.order = PageOrder::Consecutive;
    let mut array = Array::new(config, Tags);
    // The fast path must check the rule too: nothing else makes this device careful.
    assert_eq!(refused(&mut array, 512, 512), FlashError::OutOfOrder { peb: Peb(1), offset: 512 });
    array.program(&mut Cx::new(), Peb(1), 0, Payload::Length(128)).unwrap();
    array.program(&mut Cx::new(), Peb(1), 512, Payload::Length(512)).unwrap();
    assert_eq!(refused(&mut array, 1536, 512), FlashError::OutOfOrder { peb: Peb(1), offset: 1536 });
}

#[test]
fn a_page_is_programmed_as_often_as_the_part_allows() {
    let mut config = ArrayConfig::plain(NAND);
    config.rules.programs_per_page = 2;
    let mut array = Array::new(config, Tags);
    let mut cx = Cx::new();
    let mut program = |offset, len| array.program(&mut cx, Peb(1), offset, Payload::Length(len));
    program(0, 128).unwrap();
    program(128, 128).unwrap();
    assert_eq!(program(256, 128), Err(FlashError::NotErased { peb: Peb(1), offset: 256 }));
    // A program that runs on into the next page leaves that page programmed once.
    program(512, 128).unwrap();
    program(640, 512).unwrap();
    program(1152, 128).unwrap();
    assert_eq!(program(1280, 128), Err(FlashError::NotErased { peb: Peb(1), offset: 1280 }));
}

#[test]
fn a_part_without_order_takes_each_page_when_it_comes() {
    let mut config = ArrayConfig::plain(NAND);
    config.rules.order = PageOrder::Any;
    config.rules.programs_per_page = 2;
    let mut array = Array::new(config, Bytes::new());
    put(&mut array, 1, 1024, &[1; 512]);
    put(&mut array, 1, 0, &[2; 128]);
    assert_eq!(refused(&mut array, 0, 128), FlashError::NotErased { peb: Peb(1), offset: 0 });
    put(&mut array, 1, 256, &[3; 128]);
    assert_eq!(refused(&mut array, 384, 128), FlashError::NotErased { peb: Peb(1), offset: 384 });
    array.erase(&mut Cx::new(), Peb(1)).unwrap();
    put(&mut array, 1, 384, &[4; 128]);
    array.check();
    // The same contents in a new array obey the same rule.
    let mut config = ArrayConfig::plain(NAND);
    config.rules.order = PageOrder::Any;
    let mut array = Array::new(config, array.into_store());
    assert_eq!(refused(&mut array, 384, 128), FlashError::NotErased { peb: Peb(1), offset: 384 });
    put(&mut array, 1, 256, &[4; 128]);
}

#[test]
fn places_outside_the_device_are_refused() {
    let mut array = plain(NAND);
    let (peb, mut cx) = (Peb(4), Cx::new());
    let outside = |offset, len| Err(FlashError::OutOfBounds { peb, offset, len });
    assert_eq!(array.program(&mut cx, peb, 0, Payload::Length(512)), outside(0, 512));
    assert_eq!(array.erase(&mut cx, peb), outside(0, 4096));
    assert_eq!(array.mark_bad(&mut cx, peb), outside(0, 4096));
    assert_eq!(array.read(&mut cx, peb, 0, &mut [0; 1]).map(|_| ()), outside(0, 1));
    let peb = Peb(1);
    let outside = |offset, len| FlashError::OutOfBounds { peb, offset, len };
    assert_eq!(refused(&mut array, 4096, 128), outside(4096, 128));
    assert_eq!(refused(&mut array, u32::MAX - 127, 256), outside(u32::MAX - 127, 256));
    assert_eq!(refused(&mut array, 64, 128), outside(64, 128));
    assert_eq!(refused(&mut array, 0, 64), outside(0, 64));
}

#[test]
fn a_bad_block_is_neither_programmed_nor_erased() {
    let mut array = plain(NAND);
    let mut cx = Cx::new();
    put(&mut array, 1, 0, &[7; 512]);
    array.mark_bad(&mut cx, Peb(1)).unwrap();
    assert_eq!(refused(&mut array, 512, 512), FlashError::BadBlock { peb: Peb(1) });
    assert_eq!(array.erase(&mut cx, Peb(1)), Err(FlashError::BadBlock { peb: Peb(1) }));
    assert_eq!(read(&mut array, 1, 0, 512), [7; 512], "what is in it can be read");
    assert_eq!(array.bad_pebs().collect::<Vec<_>>(), [Peb(1)]);
}

#[test]
fn nor_bits_only_fall() {
    let mut array = plain(NOR);
    put(&mut array, 0, 5, &[0xf0]);
    put(&mut array, 0, 5, &[0x3c]);
    put(&mut array, 0, 3, &[0x12]);
    assert_eq!(read(&mut array, 0, 3, 4), [0x12, 0xff, 0x30, 0xff]);
    assert_eq!(array.bytes_into_cells(), 3);
    array.check();
}

#[test]
fn a_strict_nor_names_the_byte_whose_bit_would_rise() {
    let mut config = ArrayConfig::plain(NOR);
    config.rules.nor = NorRule::RefuseRaise;
    let mut array = Array::new(config, Bytes::new());
    put(&mut array, 1, 8, &[0x0f, 0x0f]);
    put(&mut array, 1, 8, &[0x0e, 0x0f]);
    let raise = array.program(&mut Cx::new(), Peb(1), 8, Payload::Bytes(&[0x0e, 0x1f]));
    assert_eq!(raise, Err(FlashError::NotErased { peb: Peb(1), offset: 9 }));
}

#[test]
fn causes_sum_to_what_went_into_cells() {
    let mut array = plain(NAND);
    let mut cx = Cx::new();
    put(&mut array, 0, 0, &[0; 512]);
    cx.because(Cause::Gc, |cx| {
        array.program(cx, Peb(0), 512, Payload::Length(1024)).unwrap();
        array.erase(cx, Peb(3)).unwrap();
    });
    assert_eq!(array.programmed_bytes()[Cause::Host], 512);
    assert_eq!(array.programmed_bytes()[Cause::Gc], 1024);
    assert_eq!(array.bytes_into_cells(), 1536);
    assert_eq!(array.erases_by_cause()[Cause::Gc], 1);
    assert_eq!(array.erase_counts(), [0, 0, 0, 1]);
    assert_eq!(array.ops(), 3);
    array.check();
}

#[test]
fn reads_are_counted_in_pages_touched() {
    let mut array = plain(NAND);
    read(&mut array, 0, 500, 24);
    read(&mut array, 0, 512, 512);
    let reads = array.reads();
    assert_eq!((reads.ops, reads.pages, reads.bytes), (2, 3, 536));
}

#[test]
fn a_clone_shares_nothing_that_changes() {
    let mut array = plain(NAND);
    put(&mut array, 0, 0, &[1; 512]);
    let mut twin = array.clone();
    put(&mut twin, 0, 512, &[2; 512]);
    twin.erase(&mut Cx::new(), Peb(0)).unwrap();
    assert_eq!(read(&mut array, 0, 0, 1024), [[1u8; 512], [0xff; 512]].concat());
    assert_eq!(read(&mut twin, 0, 0, 512), [0xff; 512]);
    assert_eq!((array.ops(), twin.ops()), (1, 3));
}

/// What a power-cut laboratory relies on to leave out blocks that it compared before.
#[test]
fn a_block_is_shared_with_a_clone_until_one_of_the_two_changes() {
    let mut array = Array::new(ArrayConfig::plain(NAND), Bytes::with_oob());
    put(&mut array, 0, 0, &[1; 512]);
    put(&mut array, 1, 0, &[1; 512]);
    let twin = array.clone();
    let shared = |array: &Array<Bytes>, peb| array.store().shares(twin.store(), Peb(peb));
    assert!((0..3).all(|peb| shared(&array, peb)), "erased blocks too");
    assert!(!array.store().shares(&Bytes::new(), Peb(0)), "a store without this block");
    put(&mut array, 0, 512, &[0xff; 512]);
    assert_eq!([0, 1, 2].map(|peb| shared(&array, peb)), [false, true, true], "a program, even of nothing");
    let cx = &mut Cx::new();
    array.program_with_oob(cx, Peb(1), 512, Payload::Length(512), &[0]).unwrap();
    array.erase(cx, Peb(0)).unwrap();
    put(&mut array, 0, 0, &[1; 512]);
    assert_eq!(
        [0, 1, 2].map(|peb| shared(&array, peb)),
        [false, false, true],
        "OOB too; equal bytes that were programmed again"
    );
    let mut other = twin.clone();
    other.tamper(Peb(1), |_| {});
    assert!(!shared(&other, 1), "whatever a test does to the cells");
}

#[test]
fn two_gibibytes_in_tags_take_less_than_64_mebibytes() {
    let chip = crate::by_nandsim_id(&[0xec, 0xd5, 0x51, 0x95]).unwrap();
    let mut array = Array::new(ArrayConfig::plain(chip.geometry), Tags);
    let mut cx = Cx::new();
    for peb in (0..chip.geometry.pebs).map(Peb) {
        array.program(&mut cx, peb, 0, Payload::Length(chip.geometry.peb_bytes)).unwrap();
    }
    assert_eq!(array.bytes_into_cells(), 2 << 30);
    assert!(array.held_bytes() < 64 << 20, "{} bytes", array.held_bytes());
    assert!(array.held_bytes() >= 16384 * 4, "the erase counters at least are held");
}

#[test]
fn bytes_hold_only_what_was_programmed() {
    let mut array = plain(NAND);
    let empty = array.held_bytes();
    put(&mut array, 0, 0, &[1; 512]);
    assert!(array.held_bytes() < empty + 1024, "one page of a block of eight");
}

#[test]
fn a_configuration_that_is_no_device_is_named() {
    let mut config = ArrayConfig::plain(NAND);
    config.geometry.peb_bytes = 4000;
    let wrong = config.validate().unwrap_err();
    assert_eq!((wrong.field, wrong.found), ("geometry.peb_bytes", 4000));
    let mut config = ArrayConfig::plain(NAND);
    config.layout.dies_per_channel = 3;
    assert_eq!(config.validate().unwrap_err().field, "layout.dies_per_channel");
}
