//! IDENTIFY DEVICE data, word by word from ACS-3, table 45; the vendor log page byte by byte from
//! `docs/format/ssd-log.md`; and the entries of DATA SET MANAGEMENT.

use ssd::device::ata::{
    Identity, SHAPE_LOG, ShapeLog, identify, read_identify, read_shape_log, shape_log, trim_ranges,
};
use ssd::{Order, Shape};

fn plain() -> Identity {
    Identity {
        model: String::new(),
        serial: String::new(),
        sectors: 0,
        queue_depth: 1,
        physical_sector_bytes: 512,
        trim: false,
        deterministic_trim: false,
        zeroing_trim: false,
        write_cache: false,
    }
}

/// IDENTIFY DEVICE data of words by hand: all others are zero, and word 255 has the signature and the checksum.
fn data_of(words: &[(usize, u16)]) -> Vec<u8> {
    let mut data = vec![0u8; 512];
    for &(at, word) in words {
        data[2 * at] = (word & 0xff) as u8;
        data[2 * at + 1] = (word >> 8) as u8;
    }
    data[510] = 0xa5;
    let sum: u32 = data.iter().map(|&byte| u32::from(byte)).sum();
    data[511] = ((256 - sum % 256) % 256) as u8;
    data
}

/// What every drive reports, whatever it is: blank strings but for the firmware's, "1.0".
fn always() -> Vec<(usize, u16)> {
    let mut words: Vec<(usize, u16)> = (10..20).chain(23..47).map(|at| (at, 0x2020)).collect();
    words.extend([(23, 0x312e), (24, 0x3020)]);
    words.push((47, 0x8001)); // 80h, and one sector per DRQ block
    words.push((49, 0x0300)); // LBA, DMA
    words.push((53, 0x0006)); // words 88 and 64 to 70 are valid
    words.push((76, 0x0006)); // SATA Gen1 and Gen2 speeds
    words.push((80, 0x0300)); // ATA8-ACS, ACS-2
    words.push((82, 0x0020)); // volatile write cache supported
    words.push((83, 0x7400)); // shall be one, FLUSH CACHE EXT, FLUSH CACHE, 48-bit addresses
    words.push((84, 0x4060)); // shall be one, WRITE DMA FUA EXT, general-purpose logging
    words.push((86, 0x3400)); // as word 83, enabled
    words.push((87, 0x4060)); // as word 84
    words.push((106, 0x4000)); // word is valid; one logical sector in a physical one
    words.push((209, 0x4000)); // word is valid; the first logical sector is aligned
    words.push((217, 1)); // no rotating medium
    words.push((222, 0x1000)); // serial transport
    words
}

#[test]
fn every_word_of_identify_device_is_what_acs_3_asks_for() {
    let with = |words: &[(usize, u16)]| data_of(&[&always()[..], words].concat());
    let cases: [(Identity, Vec<u8>); 9] = [
        (plain(), with(&[])),
        // Two characters a word, the first in the high byte; what is no printable ASCII is a question mark.
        (
            Identity { model: "A b\u{e9}\tZ~".to_owned(), serial: "S9!".to_owned(), ..plain() },
            with(&[(10, 0x5339), (11, 0x2120), (27, 0x4120), (28, 0x623f), (29, 0x3f5a), (30, 0x7e20)]),
        ),
        (Identity { queue_depth: 32, ..plain() }, with(&[(75, 31), (76, 0x0106)])),
        (Identity { queue_depth: 2, ..plain() }, with(&[(75, 1), (76, 0x0106)])),
        (
            Identity { sectors: 0x0123_4567_89ab_cdef, ..plain() },
            with(&[(60, 0xffff), (61, 0x0fff), (100, 0xcdef), (101, 0x89ab), (102, 0x4567), (103, 0x0123)]),
        ),
        (
            Identity { sectors: 0x0abc_def1, ..plain() },
            with(&[(60, 0xdef1), (61, 0x0abc), (100, 0xdef1), (101, 0x0abc)]),
        ),
        (Identity { trim: true, ..plain() }, with(&[(105, 1), (169, 1)])),
        (Identity { deterministic_trim: true, write_cache: true, ..plain() }, with(&[(69, 0x4000), (85, 0x0020)])),
        (Identity { zeroing_trim: true, physical_sector_bytes: 4096, ..plain() }, with(&[(69, 0x0020), (106, 0x6003)])),
    ];
    for (identity, expected) in cases {
        let found = identify(&identity);
        let differ: Vec<usize> =
            (0..256).filter(|&at| found[2 * at..2 * at + 2] != expected[2 * at..2 * at + 2]).collect();
        assert!(differ.is_empty(), "words {differ:?} of {identity:?}");
    }
}

#[test]
fn long_names_are_cut_at_20_and_40_characters() {
    let digits: String = (0..50u8).map(|at| char::from(b'0' + at % 10)).collect();
    let data = identify(&Identity { model: digits.clone(), serial: digits, ..plain() });
    // Each pair of characters is swapped.
    let swapped = b"10325476981032547698103254769810325476981032547698";
    assert_eq!((&data[20..40], &data[54..94]), (&swapped[..20], &swapped[..40]));
    assert_eq!((&data[40..46], &data[46..54]), (&[0; 6][..], &b".1 0    "[..]), "what is between and the firmware");
}

#[test]
fn every_property_is_read_back_and_alone() {
    for bits in 0..16u32 {
        for (queue_depth, physical_sector_bytes) in [(1, 512), (2, 1024), (31, 16_384), (32, 4096)] {
            let told = Identity {
                model: "Model X".to_owned(),
                serial: "007".to_owned(),
                sectors: 1 << (bits * 3),
                queue_depth,
                physical_sector_bytes,
                trim: bits & 1 != 0,
                deterministic_trim: bits & 2 != 0,
                zeroing_trim: bits & 4 != 0,
                write_cache: bits & 8 != 0,
            };
            assert_eq!(read_identify(&identify(&told)), Some(told));
        }
    }
    // A drive has at least one command slot and at most 32.
    for (asked, reported) in [(0, 1), (33, 32), (1000, 32)] {
        let data = identify(&Identity { queue_depth: asked, ..plain() });
        assert_eq!(read_identify(&data).map(|read| read.queue_depth), Some(reported));
    }
    // Bits of words 75, 76 and 106 that mean something else are not taken for these.
    let blank = (10..20).chain(27..47).map(|at| (at, 0x2020));
    let of = |words: &[(usize, u16)]| -> [u8; 512] {
        data_of(&blank.clone().chain(words.iter().copied()).collect::<Vec<_>>()).try_into().expect("512 bytes")
    };
    let data = of(&[(75, 0xffe3), (76, 0xfeff), (106, 0xdff3), (69, 0xbfdf), (85, 0xffdf), (169, 0xfffe)]);
    assert_eq!(read_identify(&data), Some(plain()));
    let data = of(&[(75, 0xffe3), (76, 0x0100), (106, 0x6ff3)]);
    let expected = Identity { queue_depth: 4, physical_sector_bytes: 4096, ..plain() };
    assert_eq!(read_identify(&data), Some(expected));
}

#[test]
fn identify_data_without_signature_or_with_a_wrong_sum_are_refused() {
    let whole: [u8; 512] = data_of(&always()).try_into().expect("512 bytes");
    assert!(read_identify(&whole).is_some());
    for at in 0..512 {
        let mut data = whole;
        data[at] ^= 0x40;
        assert_eq!(read_identify(&data), None, "byte {at}");
    }
    // Another signature with a sum of 0.
    let mut data = whole;
    (data[510], data[511]) = (0xa6, data[511].wrapping_sub(1));
    assert_eq!(read_identify(&data), None);
}

#[test]
fn the_log_page_is_its_table_byte_for_byte() {
    let shape = Shape {
        channels: 5,
        ways: 3,
        dies: 2,
        planes: 4,
        blocks: 2048,
        pages: 768,
        page_bytes: 16_384,
        order: Order::PLANE_FIRST,
        multi_plane: true,
    };
    let mut expected = b"NLSHAPE1".to_vec();
    // 16 KiB; 768 of them; channels, ways, dies, planes; in step.
    for number in [0x4000u32, 0xc0_0000, 5, 3, 2, 4, 1] {
        expected.extend(number.to_le_bytes());
    }
    expected.extend(b"pcwd");
    // 5 x 3 x 2 dies of 4 planes: 120 pages of 16 KiB, and 120 blocks of 12 MiB.
    expected.extend((120 * 16_384u64).to_le_bytes());
    expected.extend((120 * 12_582_912u64).to_le_bytes());
    expected.resize(512, 0);
    assert_eq!(shape_log(&shape)[..], expected[..]);
    assert_eq!(SHAPE_LOG, 0xa0, "the first address of device vendor-specific logs");

    // Each field by itself: numbers that no other field has.
    let mut page: [u8; 512] = expected.try_into().expect("512 bytes");
    for (at, field) in page[8..36].iter_mut().enumerate() {
        *field = at as u8 + 1;
    }
    (40..56).for_each(|at| page[at] = at as u8);
    page[36..40].copy_from_slice(b"dwcp");
    let read = ShapeLog {
        page_bytes: 0x0403_0201,
        block_bytes: 0x0807_0605,
        channels: 0x0c0b_0a09,
        ways: 0x100f_0e0d,
        dies: 0x1413_1211,
        planes: 0x1817_1615,
        planes_in_step: true,
        order: "dwcp".to_owned(),
        effective_page_bytes: 0x2f2e_2d2c_2b2a_2928,
        effective_block_bytes: 0x3736_3534_3332_3130,
    };
    assert_eq!(read_shape_log(&page), Some(read));
    page[32..36].fill(0);
    assert!(read_shape_log(&page).is_some_and(|read| !read.planes_in_step));
    for at in 0..8 {
        let mut other = page;
        other[at] ^= 1;
        assert_eq!(read_shape_log(&other), None, "byte {at} of the magic");
    }
}

/// ACS-3, table 33: bits 47:0 are the first sector, bits 63:48 their number; a number of 0 is no range.
#[test]
fn a_trim_entry_is_six_bytes_of_address_and_two_of_length() {
    let entries: [[u8; 8]; 5] = [
        [1, 2, 3, 4, 5, 6, 7, 8],
        [0xff; 8],
        [9, 0, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0x80, 1, 0],
        [0, 0, 0, 0, 0, 0, 0, 1],
    ];
    let expected = [(0x0605_0403_0201, 0x0807), (0xffff_ffff_ffff, 0xffff), (0x8000_0000_0000, 1), (0, 256)];
    let data: Vec<u8> = entries.concat().into_iter().chain([1; 7]).collect();
    assert_eq!(trim_ranges(&data).collect::<Vec<_>>(), expected);
    assert_eq!(trim_ranges(&[]).count(), 0);
}
