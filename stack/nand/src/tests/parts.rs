//! Presets: consistent, unique names, a source for every figure.

use sim::seam::{Flash, Medium, Payload};
use sim::{Cx, Ns, Peb, Seed};

use crate::presets::{self, Kind, NANDSIM_DEFAULT_ID, by_name, by_nandsim_id};
use crate::{Array, PageOrder, Tags};

#[test]
fn there_are_parts_of_every_kind_and_each_has_its_own_name() {
    let mut names: Vec<_> = presets::all().map(|part| part.name.to_ascii_uppercase()).collect();
    let count = names.len();
    assert!(count >= 18, "{count}");
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    for kind in [Kind::Slc, Kind::Mlc, Kind::Tlc, Kind::SpiNand, Kind::ParallelNor, Kind::SpiNor] {
        assert!(presets::all().any(|part| part.kind == kind), "{kind}");
    }
}

#[test]
fn every_part_is_a_device_and_every_figure_has_a_source() {
    for part in presets::all() {
        let config = part.config();
        config.validate().unwrap_or_else(|wrong| panic!("{}: {wrong}", part.name));
        let mut config = config;
        config.faults = Some(part.faults(Seed(1)));
        config.validate().unwrap_or_else(|wrong| panic!("{}: {wrong}", part.name));
        for (figure, source) in part.sources() {
            assert!(source.len() > 10, "{}: {figure} has no source", part.name);
        }
        assert_eq!(part.kind.is_nor(), part.geometry.value.medium == Medium::Nor, "{}", part.name);
        assert_eq!(part.kind.is_nor(), part.ecc.value.is_none(), "{}", part.name);
    }
}

#[test]
fn figures_are_of_their_kind() {
    for part in presets::all() {
        let name = part.name;
        let bytes = part.geometry.value.bytes();
        assert!((512 << 10..64 << 30).contains(&bytes), "{name}: {bytes}");
        let cycles = part.endurance_cycles.value;
        let (fewest, most) = match part.kind {
            Kind::Tlc => (500, 3_000),
            Kind::Mlc => (3_000, 10_000),
            _ => (50_000, 100_000),
        };
        assert!((fewest..=most).contains(&cycles), "{name}: {cycles}");
        assert!(part.program_ns.value < part.erase_ns.value, "{name}");
        if !part.kind.is_nor() {
            assert!(part.read_ns.value < part.program_ns.value, "{name}");
            let ecc = part.ecc.value.unwrap();
            let steps = part.geometry.value.page_bytes / ecc.step_bytes;
            // LDPC and on-die codes have room of their own; a BCH code must fit the OOB.
            let parity = steps * ecc.parity_bytes();
            assert!(parity <= part.geometry.value.oob_bytes, "{name}: {parity} bytes of parity");
        }
    }
}

#[test]
fn half_of_all_parts_have_cell_times_that_were_read_in_a_source() {
    let read = presets::all().filter(|part| part.program_ns.is_verified() && part.erase_ns.is_verified()).count();
    assert!(2 * read >= presets::all().count(), "{read}");
}

#[test]
fn an_unknown_name_is_told_its_neighbours() {
    assert_eq!(by_name("k9f1g08u0d").unwrap().name, "K9F1G08U0D");
    let unknown = by_name("K9F1G08U0F").unwrap_err();
    assert!(unknown.nearest[..2].contains(&"K9F1G08U0D") && unknown.nearest[..2].contains(&"K9F1G08U0E"));
    assert!(unknown.to_string().contains("K9F1G08U0D"), "{unknown}");
}

#[test]
fn a_part_takes_what_its_sheet_says() {
    let part = by_name("MT29F4G08ABADA").unwrap();
    let mut array = Array::new(part.config(), Tags);
    let mut cx = Cx::new();
    array.erase(&mut cx, Peb(0)).unwrap();
    // 60h, three addresses, D0h and status at 20 ns, tWB, tWHR.
    assert_eq!(cx.now(), Ns(700_000 + 6 * 20 + 180));
    array.program(&mut cx, Peb(0), 0, Payload::Length(2048)).unwrap();
    assert_eq!(cx.now(), Ns(700_300 + 8 * 20 + 580 + 2112 * 20 + 200_000));
    assert_eq!(by_name("TC58NVG5D2").unwrap().config().rules.order, PageOrder::Consecutive);
}

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

#[test]
fn parts_of_the_kernel_s_table_have_the_geometry_that_their_id_gives() {
    let mut compared = 0;
    for part in presets::all().filter(|part| part.id.source.contains("nand_ids.c")) {
        let by_id = by_nandsim_id(part.id.value).unwrap().geometry;
        let own = part.geometry.value;
        assert_eq!(
            (own.pebs, own.peb_bytes, own.page_bytes, own.oob_bytes),
            (by_id.pebs, by_id.peb_bytes, by_id.page_bytes, by_id.oob_bytes),
            "{}",
            part.name
        );
        compared += 1;
    }
    assert!(compared >= 7, "{compared}");
}
