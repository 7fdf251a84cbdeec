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

/// The whole table of the kernel: every full ID, every device code, and no code that it does not list.
#[test]
fn every_id_of_the_kernel_gives_the_size_that_it_lists() {
    let table = include_str!("nand-ids-6.12.txt");
    let rows: Vec<Vec<&str>> =
        table.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(' ').collect()).collect();
    let number = |text: &str| text.parse::<u64>().unwrap();
    let bytes = |hex: &str| -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    };
    let mut listed = Vec::new();
    for row in &rows {
        let id = bytes(row[1]);
        let mib = number(row[2]) << 20;
        match row[0] {
            "full" => {
                let chip = by_nandsim_id(&id).unwrap();
                let g = chip.geometry;
                assert_eq!(chip.bus_bits, 8, "{row:?}");
                let of = [g.bytes(), g.peb_bytes.into(), g.page_bytes.into(), g.oob_bytes.into()];
                assert_eq!(of, [mib, number(row[3]), number(row[4]), number(row[5])], "{row:?}");
                // With another last byte it is a part like any other, of 2 KiB or 4 KiB pages by its fourth byte.
                let mut other = id.clone();
                *other.last_mut().unwrap() ^= 0xff;
                let g = by_nandsim_id(&other).unwrap().geometry;
                assert_eq!(g.page_bytes, 1024 << (id[3] & 3), "{row:?}");
            }
            "small" => {
                // A maker without full IDs; small pages have two bytes of ID.
                let chip = by_nandsim_id(&[0x20, id[0]]).unwrap();
                let g = chip.geometry;
                assert_eq!(
                    (g.bytes(), g.peb_bytes.into(), chip.bus_bits.into()),
                    (mib, number(row[3]), number(row[4]))
                );
                assert_eq!((g.page_bytes, g.oob_bytes, g.subpage_bytes), (512, 16, 256));
                listed.push(id[0]);
            }
            _ => {
                assert_eq!(by_nandsim_id(&[0x20, id[0], 0x00, 0x15]).unwrap().geometry.bytes(), mib, "{row:?}");
                listed.push(id[0]);
            }
        }
    }
    assert_eq!((rows.len(), listed.len()), (12 + 25 + 51, 76));
    for code in 0..=255 {
        assert_eq!(by_nandsim_id(&[0x20, code, 0x00, 0x15]).is_ok(), listed.contains(&code), "{code:#04x}");
    }
}

/// The fourth byte, bit by bit: page 1024 << bits 0 and 1, OOB of 8 << bit 2 a 512 bytes, block 64 KiB << bits 4 and 5, bus bit 6.
/// Sub-pages: two of an ECC of two steps of 256 bytes, four of one with four, eight or sixteen; none otherwise, and none of MLC.
#[test]
fn the_fourth_byte_gives_the_geometry() {
    for (fourth, page, oob, block, bus, subpage) in [
        (0x00, 1024, 16, 64 << 10, 8, 256),
        (0x15, 2048, 64, 128 << 10, 8, 512),
        (0x26, 4096, 128, 256 << 10, 8, 1024),
        (0x37, 8192, 256, 512 << 10, 8, 8192),
        (0x55, 2048, 64, 128 << 10, 16, 512),
        (0x22, 4096, 64, 256 << 10, 8, 1024),
    ] {
        let chip = by_nandsim_id(&[0x20, 0xda, 0x00, fourth]).unwrap();
        let g = chip.geometry;
        assert_eq!(
            (g.page_bytes, g.oob_bytes, g.peb_bytes, chip.bus_bits, g.subpage_bytes),
            (page, oob, block, bus, subpage)
        );
        let cells = |third| {
            let chip = by_nandsim_id(&[0x20, 0xda, third, fourth]).unwrap();
            (chip.bits_per_cell, chip.geometry.subpage_bytes)
        };
        assert_eq!([0x04, 0x08, 0x0c, 0xf3].map(cells), [(2, page), (3, page), (4, page), (1, subpage)]);
    }
}

#[test]
fn unknown_id_bytes_are_refused() {
    assert!(by_nandsim_id(&[0x98]).is_err());
    assert!(by_nandsim_id(&[0x98, 0x00]).is_err());
    let refused = by_nandsim_id(&[0xec, 0xd5, 0x51]).unwrap_err();
    assert_eq!(refused.id, [0xec, 0xd5, 0x51]);
    assert_eq!(refused.to_string(), "ID bytes [ec, d5, 51]: a large-page code needs four bytes");
}

/// nandsim's array: software Hamming, one bit in 256 bytes; no time, no faults, as many programs of a page as sub-pages.
#[test]
fn a_chip_is_configured_as_nandsim_does_it() {
    for (id, programs) in [(&[0x98, 0x39][..], 2), (&[0xec, 0xd5, 0x51, 0x95], 4), (&[0xec, 0xd5, 0x14, 0x25], 1)] {
        let chip = by_nandsim_id(id).unwrap();
        let plain = crate::ArrayConfig::plain(chip.geometry);
        let rules = crate::Rules { programs_per_page: programs, ..plain.rules };
        let ecc = Some(crate::Ecc { bits: 1, step_bytes: 256, scrub_at: 1 });
        assert_eq!(chip.config(), crate::ArrayConfig { rules, ecc, ..plain });
    }
}
