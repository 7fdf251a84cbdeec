//! Raw dumps written and loaded, with OOB and without.

use sim::seam::{Flash, FlashError, Payload};
use sim::{Cx, Peb};

use super::{NAND, NOR, plain, put, read};
use crate::image::{Guess, check_length, dump_bytes};
use crate::{Array, ArrayConfig, Bytes, Mapped, Overlay, Store};

fn with_oob() -> Array<Bytes> {
    let mut array = Array::new(ArrayConfig::plain(NAND), Bytes::with_oob());
    let mut cx = Cx::new();
    put(&mut array, 1, 0, &[0x21; 600 - 600 % 128]);
    array.program_oob(&mut cx, Peb(1), 2, &[0x19, 0x85]).unwrap();
    array.mark_bad(&mut cx, Peb(3)).unwrap();
    array
}

fn dump<S: Store>(array: &Array<S>, oob: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    array.dump(oob, &mut bytes).unwrap();
    assert_eq!(bytes.len() as u64, dump_bytes(&NAND, oob));
    bytes
}

#[test]
fn a_dump_with_oob_loads_as_the_same_device() {
    let array = with_oob();
    let bytes = dump(&array, true);
    let page = 512 + 16;
    assert_eq!(bytes[8 * page..][..4], [0x21; 4]);
    assert_eq!(bytes[10 * page + 512..][..3], [0x19, 0x85, 0xff]);
    let mut again = Array::load(ArrayConfig::plain(NAND), &bytes, true).unwrap();
    assert_eq!(dump(&again, true), bytes);
    assert_eq!(again.bad_pebs().collect::<Vec<_>>(), [Peb(3)]);
    assert_eq!((again.mark(Peb(1)), again.mark(Peb(0))), (512, 0));
    let programmed = again.program(&mut Cx::new(), Peb(1), 0, Payload::Length(512));
    assert_eq!(programmed, Err(FlashError::NotErased { peb: Peb(1), offset: 0 }));
    assert_eq!(again.bytes_into_cells(), 0, "loading is no wear");
}

#[test]
fn a_small_page_is_marked_bad_at_its_fifth_byte() {
    let bytes = dump(&with_oob(), true);
    assert_eq!(bytes[24 * 528 + 512..][..7], [0xff, 0xff, 0xff, 0xff, 0xff, 0, 0xff]);
}

#[test]
fn a_dump_without_oob_loads_as_the_same_contents() {
    let bytes = dump(&with_oob(), false);
    let again = Array::load(ArrayConfig::plain(NAND), &bytes, false).unwrap();
    assert_eq!(dump(&again, false), bytes);
    assert_eq!(again.bad_pebs().count(), 0, "marks are in OOB");
}

#[test]
fn a_dump_of_the_wrong_length_says_what_it_may_be() {
    let (plain, full) = (dump_bytes(&NAND, false), dump_bytes(&NAND, true));
    let guess = |found, oob| check_length(&NAND, found, oob).unwrap_err().guess;
    assert_eq!(guess(full, false), Guess::WithOob);
    assert_eq!(guess(plain, true), Guess::WithoutOob);
    assert_eq!(guess(2 * 4096, false), Guess::Blocks(2));
    assert_eq!(guess(5000, false), Guess::Unknown);
    let told = check_length(&NAND, full, false).unwrap_err().to_string();
    assert_eq!(told, "the dump has 16896 bytes, the device 16384; it is as long as a dump with OOB");
    assert!(Array::load(ArrayConfig::plain(NAND), &[0; 4096], false).is_err());
}

#[test]
fn an_image_of_the_first_blocks_leaves_the_rest_erased() {
    let image = [[1u8; 4096].as_slice(), &[2; 512]].concat();
    let mut array = Array::load_front(ArrayConfig::plain(NAND), &image, false).unwrap();
    assert_eq!(read(&mut array, 1, 0, 1024), [[2u8; 512], [0xff; 512]].concat());
    assert_eq!(read(&mut array, 3, 0, 4096), [0xff; 4096]);
    put(&mut array, 1, 512, &[3; 512]);
    array.check();
    assert!(Array::load_front(ArrayConfig::plain(NAND), &image[..4100], false).is_err(), "half a page");
    assert!(Array::load_front(ArrayConfig::plain(NAND), &[0; 5 * 4096], false).is_err(), "longer than the device");
}

#[test]
fn an_overlay_leaves_its_base_alone() {
    let base = dump(&with_oob(), true);
    let before = base.clone();
    let mut array = Array::new(ArrayConfig::plain(NAND), Overlay::new(NAND, &base[..], true).unwrap());
    assert_eq!(array.bad_pebs().collect::<Vec<_>>(), [Peb(3)]);
    put(&mut array, 1, 512, &[9; 512]);
    let mut oob = [0; 2];
    array.read_oob(Peb(1), 2, &mut oob).unwrap();
    assert_eq!(oob, [0x19, 0x85], "the copied block kept its OOB");
    array.erase(&mut Cx::new(), Peb(1)).unwrap();
    array.read_oob(Peb(1), 2, &mut oob).unwrap();
    assert_eq!((read(&mut array, 1, 0, 512), oob), (vec![0xff; 512], [0xff; 2]));
    assert_eq!(array.store().changed_pebs(), 1);
    assert_eq!(base, before);
}

#[test]
fn a_mapped_buffer_is_a_dump_at_all_times() {
    for oob in [false, true] {
        let buffer = vec![0; dump_bytes(&NAND, oob) as usize];
        let mut array = Array::new(ArrayConfig::plain(NAND), Mapped::erased(NAND, buffer, oob).unwrap());
        let mut cx = Cx::new();
        put(&mut array, 2, 0, &[5; 1536]);
        array.program_oob(&mut cx, Peb(2), 1, &[0x42]).unwrap();
        put(&mut array, 1, 0, &[6; 512]);
        array.erase(&mut cx, Peb(1)).unwrap();
        let bytes = dump(&array, oob);
        assert_eq!(array.into_store().into_buffer(), bytes);
    }
    assert!(Mapped::new(NAND, vec![0; 100], false).is_err());
}

#[test]
fn an_attached_block_is_marked_up_to_its_last_byte() {
    for last in [0, 3, 7, 8, 9, 4095] {
        let mut image = vec![0xff; 4096];
        image[last] = 0xfe;
        let array = Array::load_front(ArrayConfig::plain(NOR), &image, false).unwrap();
        assert_eq!((array.mark(Peb(0)), array.mark(Peb(1))), (last as u32 + 1, 0));
    }
}

#[test]
fn oob_outside_the_page_is_refused() {
    let mut array = with_oob();
    let mut cx = Cx::new();
    array.program_oob(&mut cx, Peb(1), 8, &[0]).unwrap_err();
    array.program_oob(&mut cx, Peb(1), 0, &[0; 17]).unwrap_err();
    assert_eq!(array.program_oob(&mut cx, Peb(3), 0, &[0]), Err(FlashError::BadBlock { peb: Peb(3) }));
    let mut bare = plain(NAND);
    bare.program_oob(&mut cx, Peb(1), 0, &[0]).unwrap();
    let mut oob = [0];
    bare.read_oob(Peb(1), 0, &mut oob).unwrap();
    assert_eq!(oob, [0xff], "this store keeps none");
}
