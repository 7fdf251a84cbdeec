//! What ID bytes make of nandsim.

use crate::{NANDSIM_DEFAULT_ID, by_nandsim_id};

#[test]
fn nandsim_id_bytes_give_the_device_that_the_kernel_makes_of_them() {
    let chip = by_nandsim_id(&[0xec, 0xd5, 0x51, 0x95]).unwrap();
    let g = chip.geometry;
    assert_eq!((g.bytes(), g.pebs, g.peb_bytes), (2 << 30, 16384, 128 << 10));
    assert_eq!((g.page_bytes, g.oob_bytes, g.subpage_bytes), (2048, 64, 512));
    assert_eq!((chip.bus_bits, chip.bits_per_cell), (8, 1));

    let g = by_nandsim_id(&NANDSIM_DEFAULT_ID).unwrap().geometry;
    assert_eq!((g.bytes(), g.pebs, g.page_bytes, g.oob_bytes, g.subpage_bytes), (128 << 20, 8192, 512, 16, 256));

    // 16-bit bus, 64 KiB blocks of 1 KiB pages.
    let chip = by_nandsim_id(&[0x20, 0xb1, 0x00, 0x44]).unwrap();
    assert_eq!((chip.bus_bits, chip.geometry.page_bytes, chip.geometry.oob_bytes), (16, 1024, 32));
    assert_eq!(chip.geometry.peb_bytes, 64 << 10);

    // MLC has no sub-pages.
    let chip = by_nandsim_id(&[0xec, 0xd5, 0x14, 0x25]).unwrap();
    assert_eq!((chip.bits_per_cell, chip.geometry.subpage_bytes), (2, 2048));
    chip.config().validate().unwrap();
}

#[test]
fn unknown_id_bytes_are_refused() {
    assert!(by_nandsim_id(&[0x98]).is_err());
    assert!(by_nandsim_id(&[0x98, 0x00]).is_err());
    assert!(by_nandsim_id(&[0xec, 0xd5, 0x51]).is_err(), "a large page needs its fourth byte");
}
