//! Power cuts: every shape of tear, and enumerating cuts finds a broken order of updates.

use sim::seam::{Flash, FlashError, Payload};
use sim::{Cx, Peb, Seed};

use super::{NAND, NOR, plain, put, read};
use crate::{Array, ArrayConfig, Bytes, PageOrder, Pairing, PowerCut, PrefixBytes, Store, Tags, Tear};

const LOST: Result<(), FlashError> = Err(FlashError::PowerLost);

/// Old data in page 0 of PEB 1, then a cut program of page 1 and 2.
fn torn_program(cut: PowerCut) -> Array<Bytes> {
    let mut array = plain(NAND);
    put(&mut array, 1, 0, &[0xaa; 512]);
    array.set_power_cut(Some(PowerCut { at: crate::CutAt::Op(1), ..cut }));
    let data: Vec<u8> = (0..1024u32).map(|at| (at * 7) as u8).collect();
    assert_eq!(array.program(&mut Cx::new(), Peb(1), 512, Payload::Bytes(&data)), LOST);
    array.power_on();
    array.check();
    array
}

fn data(at: u32) -> u8 {
    (at * 7) as u8
}

/// A block full of 0x3c whose erase was cut.
fn torn_erase(cut: PowerCut) -> Array<Bytes> {
    let mut array = plain(NAND);
    put(&mut array, 1, 0, &[0x3c; 4096]);
    array.set_power_cut(Some(PowerCut { at: crate::CutAt::Op(1), ..cut }));
    assert_eq!(array.erase(&mut Cx::new(), Peb(1)), LOST);
    array.power_on();
    array.check();
    array
}

#[test]
fn a_cut_spares_as_many_operations_as_it_says_and_then_everything_is_lost() {
    for spared in 0..3 {
        let mut array = plain(NAND);
        array.set_power_cut(Some(PowerCut::at_op(spared, Tear::Clean)));
        let mut cx = Cx::new();
        let mut done = 0;
        for page in 0..3 {
            done += u64::from(array.program(&mut cx, Peb(0), page * 512, Payload::Length(512)).is_ok());
        }
        assert_eq!(done, spared);
        assert_eq!(array.ops(), spared);
        assert_eq!(array.erase(&mut cx, Peb(1)), LOST);
        assert_eq!(array.read(&mut cx, Peb(1), 0, &mut [0; 4]).map(|_| ()), LOST);
        assert_eq!(array.mark_bad(&mut cx, Peb(1)), LOST);
        assert_eq!(array.read_oob(Peb(1), 0, &mut [0; 4]), LOST);
        assert!(!array.is_powered());
        array.power_on();
        assert_eq!((array.ops(), array.ops_total()), (0, spared));
        array.erase(&mut cx, Peb(1)).unwrap();
    }
}

#[test]
fn reads_and_refused_programs_do_not_bring_the_cut_nearer() {
    let mut array = plain(NAND);
    array.set_power_cut(Some(PowerCut::at_op(1, Tear::Clean)));
    read(&mut array, 0, 0, 512);
    array.program(&mut Cx::new(), Peb(0), 1, Payload::Length(512)).unwrap_err();
    put(&mut array, 0, 0, &[0; 512]);
    assert_eq!(array.erase(&mut Cx::new(), Peb(0)), LOST);
}

#[test]
fn a_cut_that_did_not_trip_stays_armed() {
    let mut array = plain(NAND);
    array.set_power_cut(Some(PowerCut::at_op(1, Tear::Clean)));
    put(&mut array, 0, 0, &[0; 512]);
    array.power_off();
    array.power_on();
    put(&mut array, 0, 512, &[0; 512]);
    assert_eq!(array.erase(&mut Cx::new(), Peb(0)), LOST);
    array.power_on();
    array.erase(&mut Cx::new(), Peb(0)).unwrap();
}

/// OOB bytes that are programmed alone are an operation like others: none, the first, or some bits of them are there.
#[test]
fn a_program_of_oob_alone_is_torn_too() {
    let oob = [0x19, 0x85, 0x20, 0x03];
    let left = |cut: PowerCut| {
        let mut array = Array::new(ArrayConfig::plain(NAND), Bytes::with_oob());
        array.set_power_cut(Some(cut));
        let cx = &mut Cx::new();
        assert_eq!(array.program_oob(cx, Peb(1), 0, &oob), LOST);
        assert_eq!(array.ops(), 0, "an interrupted operation does not count");
        array.power_on();
        let mut found = [0; 4];
        array.read_oob(Peb(1), 0, &mut found).unwrap();
        array.program_oob(cx, Peb(1), 0, &oob).unwrap();
        assert_eq!(array.ops(), 1);
        found
    };
    assert_eq!(left(PowerCut::at_op(0, Tear::Clean)), [0xff; 4]);
    let prefix = |bytes| Tear::Prefix(PrefixBytes::Exactly(bytes));
    assert_eq!(left(PowerCut::at_op(0, prefix(2))), [0x19, 0x85, 0xff, 0xff]);
    assert_eq!(left(PowerCut::at_op(0, prefix(9))), oob);
    let torn: Vec<[u8; 4]> =
        (0..100).map(|seed| left(PowerCut::at_op(0, Tear::RandomBits).seeded(Seed(seed)))).collect();
    assert!(torn.iter().all(|found| found.iter().zip(oob).all(|(found, meant)| found & meant == meant)));
    assert!(torn.iter().any(|found| *found != oob && *found != [0xff; 4]), "{torn:?}");
}

#[test]
fn a_clean_cut_leaves_everything_as_it_was() {
    let mut array = torn_program(PowerCut::at_op(0, Tear::Clean));
    assert_eq!(read(&mut array, 1, 512, 1024), [0xff; 1024]);
    put(&mut array, 1, 512, &[0; 512]);
    let mut array = torn_erase(PowerCut::at_op(0, Tear::Clean));
    assert_eq!(read(&mut array, 1, 0, 4096), [0x3c; 4096]);
    assert_eq!(array.erase_counts()[1], 0);
}

#[test]
fn a_prefix_of_a_program_ends_at_any_byte() {
    for made_it in [0, 1, 200, 511, 512, 700, 1024, 4000] {
        let cut = PowerCut::at_op(0, Tear::Prefix(PrefixBytes::Exactly(made_it)));
        let mut array = torn_program(cut);
        let made_it = made_it.min(1024);
        let expected: Vec<u8> = (0..1024).map(|at| if at < made_it { data(at) } else { 0xff }).collect();
        assert_eq!(read(&mut array, 1, 512, 1024), expected);
        assert_eq!(array.bytes_into_cells(), 512 + u64::from(made_it));
        // The page in which the program stopped cannot be used again; the next one can.
        assert_eq!(array.mark(Peb(1)), 512 + made_it.next_multiple_of(512));
    }
}

#[test]
fn a_drawn_prefix_reaches_both_ends() {
    let made_it: Vec<u64> = (0..4000)
        .map(|seed| {
            let mut array = plain(NAND);
            let cut = PowerCut::at_op(0, Tear::Prefix(PrefixBytes::Drawn)).seeded(Seed(seed));
            array.set_power_cut(Some(cut));
            array.program(&mut Cx::new(), Peb(0), 0, Payload::Length(128)).unwrap_err();
            array.bytes_into_cells()
        })
        .collect();
    assert!(made_it.contains(&0) && made_it.contains(&128) && made_it.contains(&64));
}

#[test]
fn a_torn_page_has_some_of_its_bits() {
    let mut mixtures = 0;
    for seed in 0..50 {
        let mut array = torn_program(PowerCut::at_op(0, Tear::RandomBits).seeded(Seed(seed)));
        assert_eq!(read(&mut array, 1, 0, 512), [0xaa; 512], "the page before is untouched");
        let cells = read(&mut array, 1, 512, 1024);
        let whole: Vec<u8> = (0..1024).map(data).collect();
        assert!(cells.iter().zip(&whole).all(|(cell, byte)| cell & byte == *byte), "a bit fell that was not to fall");
        let (first, second) = (&cells[..512], &cells[512..]);
        assert!(first == &whole[..512] || second == [0xff; 512], "only one page is torn");
        mixtures += u32::from(cells != whole && cells != [0xff; 1024]);
    }
    assert!(mixtures > 40, "{mixtures} of 50");
}

/// A layer that looks at the tag alone must be found out, and so must one that looks at the data alone.
#[test]
fn of_a_torn_page_either_the_data_or_the_oob_may_be_whole() {
    let mut seen = std::collections::BTreeMap::new();
    for seed in 0..400 {
        let mut array = Array::new(ArrayConfig::plain(NAND), Bytes::with_oob());
        array.set_power_cut(Some(PowerCut::at_op(0, Tear::RandomBits).seeded(Seed(seed))));
        let (data, oob) = ([0x35; 512], [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 7, 0x21, 0x99, 0, 1, 2]);
        let cx = &mut Cx::new();
        assert_eq!(array.program_with_oob(cx, Peb(0), 0, Payload::Bytes(&data), &oob), LOST);
        array.power_on();
        let mut found = [0; 12];
        array.read_oob(Peb(0), 0, &mut found).unwrap();
        let cells = read(&mut array, 0, 0, 512);
        assert!(found.iter().zip(oob).all(|(cell, byte)| cell & byte == byte), "a bit fell that was not to fall");
        *seen.entry((cells == data, found == oob)).or_insert(0) += 1;
    }
    assert!(seen[&(false, true)] > 50 && seen[&(false, false)] > 50 && seen[&(true, false)] > 5, "{seen:?}");
}

#[test]
fn an_interrupted_erase_must_be_repeated() {
    let mut differ = 0;
    for seed in 0..20 {
        let mut array = torn_erase(PowerCut::at_op(0, Tear::RandomBits).seeded(Seed(seed)));
        let cells = read(&mut array, 1, 0, 4096);
        assert!(cells.iter().all(|cell| cell & 0x3c == 0x3c), "an erase lets no bit fall");
        differ += u32::from(cells != [0x3c; 4096] && cells != [0xff; 4096]);
        let program = array.program(&mut Cx::new(), Peb(1), 0, Payload::Length(512));
        assert_eq!(program, Err(FlashError::NotErased { peb: Peb(1), offset: 0 }));
        assert_eq!(array.erase_counts()[1], 1, "the pulse wore the block");
        array.erase(&mut Cx::new(), Peb(1)).unwrap();
        put(&mut array, 1, 0, &[1; 512]);
        assert_eq!(read(&mut array, 1, 0, 1024), [[1u8; 512], [0xff; 512]].concat());
        array.check();
    }
    assert!(differ >= 15, "{differ} of 20");
}

#[test]
fn an_erase_that_reads_blank_must_still_be_repeated() {
    let mut array = torn_erase(PowerCut::at_op(0, Tear::Prefix(PrefixBytes::Exactly(u32::MAX))));
    assert_eq!(read(&mut array, 1, 0, 4096), [0xff; 4096]);
    let program = array.program(&mut Cx::new(), Peb(1), 0, Payload::Length(512));
    assert_eq!(program, Err(FlashError::NotErased { peb: Peb(1), offset: 0 }));
}

#[test]
fn an_interrupted_erase_spoils_the_unused_pages_too() {
    let mut array = plain(NAND);
    put(&mut array, 1, 0, &[0; 512]);
    array.set_power_cut(Some(PowerCut::at_op(1, Tear::RandomBits)));
    array.erase(&mut Cx::new(), Peb(1)).unwrap_err();
    assert_eq!((array.ops(), array.ops_total()), (1, 1), "the cut erase is no operation");
    array.power_on();
    let program = array.program(&mut Cx::new(), Peb(1), 2048, Payload::Length(512));
    assert_eq!(program, Err(FlashError::NotErased { peb: Peb(1), offset: 2048 }));
    array.check();
}

#[test]
fn ecc_sees_torn_pages_when_it_is_told_to() {
    let tear = Tear::Prefix(PrefixBytes::Exactly(200));
    let mut blind = torn_program(PowerCut::at_op(0, tear));
    assert_eq!(read(&mut blind, 1, 512, 2), [data(0), data(1)]);
    let mut array = torn_program(PowerCut::at_op(0, tear).seen_by_ecc());
    let mut buf = [0; 4];
    let seen = FlashError::Uncorrectable { peb: Peb(1), offset: 512 };
    assert_eq!(array.read(&mut Cx::new(), Peb(1), 512, &mut buf), Err(seen.clone()));
    assert_eq!(buf, [data(0), data(1), data(2), data(3)], "the buffer holds what the cells gave");
    // A read that ends in the torn page fails too; a read of its neighbour does not.
    assert_eq!(array.read(&mut Cx::new(), Peb(1), 510, &mut buf), Err(seen));
    assert_eq!(read(&mut array, 1, 508, 4), [0xaa; 4]);
    assert_eq!(read(&mut array, 1, 1024, 4), [0xff; 4]);
    array.erase(&mut Cx::new(), Peb(1)).unwrap();
    assert_eq!(read(&mut array, 1, 512, 4), [0xff; 4]);
    array.check();
}

#[test]
fn tags_know_torn_pages_too() {
    let mut array = Array::new(ArrayConfig::plain(NAND), Tags);
    array.set_power_cut(Some(PowerCut::at_op(0, Tear::RandomBits).seen_by_ecc()));
    array.program(&mut Cx::new(), Peb(2), 0, Payload::Length(512)).unwrap_err();
    array.power_on();
    array.read(&mut Cx::new(), Peb(2), 0, &mut [0; 8]).unwrap_err();
    array.read(&mut Cx::new(), Peb(3), 0, &mut [0; 8]).unwrap();
}

#[test]
fn unstable_bits_change_from_read_to_read_and_stable_ones_do_not() {
    let tear = Tear::RandomBits;
    let mut stable = torn_erase(PowerCut::at_op(0, tear).seeded(Seed(3)));
    assert_eq!(read(&mut stable, 1, 0, 4096), read(&mut stable, 1, 0, 4096));
    let mut array = torn_erase(PowerCut::at_op(0, tear).seeded(Seed(3)).unstable());
    let (one, two) = (read(&mut array, 1, 0, 4096), read(&mut array, 1, 0, 4096));
    let flips: u32 = one.iter().zip(&two).map(|(a, b)| (a ^ b).count_ones()).sum();
    // Each bit of either read flips with 1/64: they differ in about 2/64 of 32768 bits.
    assert!((900..1150).contains(&flips), "{flips}");
    array.erase(&mut Cx::new(), Peb(1)).unwrap();
    assert_eq!(read(&mut array, 1, 0, 4096), [0xff; 4096]);
}

#[test]
fn the_same_cut_leaves_the_same_cells() {
    let cells = |seed| read(&mut torn_erase(PowerCut::at_op(0, Tear::RandomBits).seeded(Seed(seed))), 1, 0, 4096);
    assert_eq!(cells(8), cells(8));
    assert_ne!(cells(8), cells(9));
}

#[test]
fn nor_tears_to_the_byte_and_goes_on_there() {
    let mut array = plain(NOR);
    array.set_power_cut(Some(PowerCut::at_op(0, Tear::Prefix(PrefixBytes::Exactly(3))).seen_by_ecc()));
    array.program(&mut Cx::new(), Peb(0), 10, Payload::Bytes(&[1, 2, 3, 4, 5])).unwrap_err();
    array.power_on();
    assert_eq!(read(&mut array, 0, 10, 5), [1, 2, 3, 0xff, 0xff]);
    put(&mut array, 0, 13, &[4, 5]);
    assert_eq!(read(&mut array, 0, 10, 5), [1, 2, 3, 4, 5]);
}

#[test]
fn a_torn_page_without_order_is_spent() {
    let mut config = ArrayConfig::plain(NAND);
    config.rules.order = PageOrder::Any;
    let mut array = Array::new(config, Bytes::new());
    array.set_power_cut(Some(PowerCut::at_op(0, Tear::Prefix(PrefixBytes::Exactly(10)))));
    array.program(&mut Cx::new(), Peb(0), 512, Payload::Length(512)).unwrap_err();
    array.power_on();
    array.program(&mut Cx::new(), Peb(0), 896, Payload::Length(128)).unwrap_err();
    put(&mut array, 0, 0, &[1; 512]);
}

/// Two blocks hold one record: a number in page 0, the higher one counts. Updating must never lose both.
fn newest<S: Store>(array: &mut Array<S>) -> Option<u8> {
    let mut buf = [0; 4];
    let mut value = |peb| {
        array.read(&mut Cx::new(), Peb(peb), 0, &mut buf).ok();
        (buf[0] != 0xff && buf == [buf[0]; 4]).then_some(buf[0])
    };
    value(0).max(value(1))
}

fn save_then_erase_old(array: &mut Array<Bytes>) -> Result<(), FlashError> {
    let mut cx = Cx::new();
    array.program(&mut cx, Peb(1), 0, Payload::Bytes(&[2; 512]))?;
    array.erase(&mut cx, Peb(0))
}

fn erase_old_then_save(array: &mut Array<Bytes>) -> Result<(), FlashError> {
    let mut cx = Cx::new();
    array.erase(&mut cx, Peb(0))?;
    array.program(&mut cx, Peb(1), 0, Payload::Bytes(&[2; 512]))
}

/// The first cut after which neither the old nor the new number is there.
fn first_broken_cut(update: fn(&mut Array<Bytes>) -> Result<(), FlashError>) -> Option<u64> {
    let mut before = plain(NAND);
    put(&mut before, 0, 0, &[1; 512]);
    before.power_on();
    (0..).find_map(|op| {
        for tear in [Tear::Clean, Tear::Prefix(PrefixBytes::Exactly(100)), Tear::RandomBits] {
            let mut array = before.clone();
            array.set_power_cut(Some(PowerCut::at_op(op, tear)));
            if update(&mut array).is_ok() {
                return Some(None);
            }
            array.power_on();
            if !matches!(newest(&mut array), Some(1 | 2)) {
                return Some(Some(op));
            }
        }
        None
    })?
}

#[test]
fn enumerated_cuts_find_the_bad_twin_and_spare_the_good_one() {
    assert_eq!(first_broken_cut(save_then_erase_old), None);
    assert_eq!(first_broken_cut(erase_old_then_save), Some(0));
}

/// A page with OOB whose program was cut, read back: data, OOB.
fn torn_with_oob(cut: PowerCut) -> (Array<Bytes>, Vec<u8>, Vec<u8>) {
    let geometry = sim::seam::Geometry { oob_bytes: 16, ..NAND };
    let mut array = Array::new(ArrayConfig::plain(geometry), Bytes::with_oob());
    array.set_power_cut(Some(cut));
    let cx = &mut Cx::new();
    assert_eq!(array.program_with_oob(cx, Peb(1), 0, Payload::Bytes(&[0x0f; 512]), &[0x33; 16]), LOST);
    array.power_on();
    array.check();
    let (mut data, mut oob) = (vec![0; 512], vec![0; 16]);
    if !cut.ecc_sees_torn {
        array.read(cx, Peb(1), 0, &mut data).unwrap();
        Flash::read_oob(&mut array, cx, Peb(1), 0, &mut oob).unwrap();
    }
    (array, data, oob)
}

#[test]
fn oob_goes_in_behind_the_last_byte_of_its_page() {
    let cut = |bytes| PowerCut::at_op(0, Tear::Prefix(PrefixBytes::Exactly(bytes)));
    let (_, data, oob) = torn_with_oob(cut(511));
    assert_eq!((&data[..511], data[511], &oob[..]), (&[0x0f; 511][..], 0xff, &[0xff; 16][..]));
    let (_, data, oob) = torn_with_oob(cut(512));
    assert_eq!((&data[..], &oob[..]), (&[0x0f; 512][..], &[0x33; 16][..]));
    let (_, data, oob) = torn_with_oob(PowerCut::at_op(0, Tear::Clean));
    assert_eq!((&data[..], &oob[..]), (&[0xff; 512][..], &[0xff; 16][..]));
}

#[test]
fn random_bits_of_oob_fall_and_rise_with_their_page() {
    let mut between = 0;
    for seed in 0..50 {
        let (mut array, data, oob) = torn_with_oob(PowerCut::at_op(0, Tear::RandomBits).seeded(Seed(seed)));
        assert!(data.iter().all(|byte| byte & 0x0f == 0x0f) && oob.iter().all(|byte| byte & 0x33 == 0x33));
        between += u32::from(oob != [0x33; 16] && oob != [0xff; 16]);
        array.set_power_cut(Some(PowerCut::at_op(0, Tear::RandomBits).seeded(Seed(seed))));
        assert_eq!(array.erase(&mut Cx::new(), Peb(1)), LOST);
        array.power_on();
        array.check();
        let mut after = vec![0; 16];
        Flash::read_oob(&mut array, &mut Cx::new(), Peb(1), 0, &mut after).unwrap();
        assert!(after.iter().zip(&oob).all(|(after, before)| after & before == *before), "a bit fell in an erase");
    }
    assert!(between > 25, "{between}");
}

#[test]
fn ecc_that_sees_a_torn_page_sees_it_in_the_oob() {
    let cut = PowerCut::at_op(0, Tear::Prefix(PrefixBytes::Exactly(100))).seen_by_ecc();
    let (mut array, ..) = torn_with_oob(cut);
    let found = Flash::read_oob(&mut array, &mut Cx::new(), Peb(1), 0, &mut [0; 4]);
    assert_eq!(found, Err(FlashError::Uncorrectable { peb: Peb(1), offset: 0 }));
}

#[test]
fn an_interrupted_erase_clears_the_oob_of_the_pages_that_it_reached() {
    let geometry = sim::seam::Geometry { oob_bytes: 16, ..NAND };
    let mut array = Array::new(ArrayConfig::plain(geometry), Bytes::with_oob());
    let cx = &mut Cx::new();
    for page in 0..3 {
        array.program_with_oob(cx, Peb(1), page * 512, Payload::Bytes(&[0; 512]), &[0x33; 16]).unwrap();
    }
    array.set_power_cut(Some(PowerCut::at_op(3, Tear::Prefix(PrefixBytes::Exactly(1023)))));
    assert_eq!(array.erase(cx, Peb(1)), LOST);
    array.power_on();
    let oob = [0, 1, 2].map(|page| {
        let mut oob = [0; 16];
        Flash::read_oob(&mut array, cx, Peb(1), page * 512, &mut oob).unwrap();
        oob
    });
    assert_eq!(oob, [[0xff; 16], [0x33; 16], [0x33; 16]]);
    array.erase(cx, Peb(1)).unwrap();
    assert_eq!(array.oob_of(Peb(1)), vec![0xff; 16 * geometry.pages_per_peb() as usize]);
}

#[test]
fn a_program_with_oob_is_of_one_whole_page() {
    let geometry = sim::seam::Geometry { oob_bytes: 16, ..NAND };
    let mut array = Array::new(ArrayConfig::plain(geometry), Bytes::with_oob());
    let cx = &mut Cx::new();
    for (offset, len, oob) in [(0, 1024, 16), (256, 512, 16), (0, 512, 17), (4096, 512, 16)] {
        let found = array.program_with_oob(cx, Peb(1), offset, Payload::Length(len), &vec![0; oob]);
        assert!(matches!(found, Err(FlashError::OutOfBounds { .. })), "{offset} {len} {oob}: {found:?}");
    }
    assert_eq!(array.programmed_bytes().total(), 0);
}

/// Page numbers by hand: the data sheets' table for a block of 16 pages.
#[test]
fn each_upper_page_of_mlc_is_paired_with_one_lower_page() {
    let pairs: Vec<_> = (0..16).filter_map(|page| Some((Pairing::Mlc.lower_of(page, 16)?, page))).collect();
    assert_eq!(pairs, [(0, 4), (1, 5), (2, 8), (3, 9), (6, 12), (7, 13), (10, 14), (11, 15)]);
    assert!((0..16).all(|page| Pairing::None.lower_of(page, 16).is_none()));
    assert_eq!((Pairing::Mlc.lower_of(16, 16), Pairing::Mlc.lower_of(5, 4)), (None, None), "no such page");
    // Every page of a block is in one pair, whatever its size.
    for pages in [8, 64, 128, 256] {
        let upper: Vec<_> = (0..pages).filter(|&page| Pairing::Mlc.lower_of(page, pages).is_some()).collect();
        let mut all: Vec<_> = upper.iter().filter_map(|&page| Pairing::Mlc.lower_of(page, pages)).collect();
        all.extend(&upper);
        all.sort_unstable();
        assert_eq!(all, (0..pages).collect::<Vec<_>>(), "{pages} pages");
    }
}

#[test]
fn a_torn_upper_page_takes_the_lower_one_with_it_until_the_block_is_erased() {
    let cx = &mut Cx::new();
    for (tear, loses) in [
        (Tear::Clean, false),
        (Tear::Prefix(PrefixBytes::Exactly(100)), true),
        (Tear::Prefix(PrefixBytes::Exactly(512)), false),
        (Tear::RandomBits, true),
    ] {
        let mut array = Array::new(ArrayConfig::plain(NAND), Bytes::new());
        for page in 0..4 {
            array.program(cx, Peb(0), page * 512, Payload::Bytes(&[page as u8; 512])).unwrap();
        }
        let cut = PowerCut::at_op(4, tear).seeded(Seed(7)).paired(Pairing::Mlc).seen_by_ecc();
        array.set_power_cut(Some(cut));
        assert_eq!(array.program(cx, Peb(0), 4 * 512, Payload::Bytes(&[9; 512])), LOST);
        array.power_on();
        // Page 4 is paired with page 0, which was whole for long.
        let lost: Vec<_> = array.destroyed().collect();
        assert_eq!(lost, if loses { vec![(Peb(0), 0)] } else { vec![] }, "{tear:?}");
        let mut page = [0; 512];
        let found = array.read(cx, Peb(0), 0, &mut page);
        assert_eq!(found.is_err(), loses, "{tear:?}");
        assert_eq!(page == [0; 512], !loses, "{tear:?}");
        for other in 1..4 {
            array.read(cx, Peb(0), other * 512, &mut page).unwrap();
            assert_eq!(page, [other as u8; 512], "{tear:?}");
        }
        array.erase(cx, Peb(0)).unwrap();
        array.program(cx, Peb(0), 0, Payload::Bytes(&[5; 512])).unwrap();
        array.read(cx, Peb(0), 0, &mut page).unwrap();
        assert_eq!((page, array.destroyed().next()), ([5; 512], None), "{tear:?}");
        array.check();
    }
}

/// Pages 4 and 5 are paired with pages 0 and 1. Page 4 was programmed whole when power was lost in page 5.
#[test]
fn a_program_of_two_pages_loses_the_pair_of_the_one_that_is_torn() {
    let cx = &mut Cx::new();
    let mut array = Array::new(ArrayConfig::plain(NAND), Bytes::new());
    for page in 0..4 {
        array.program(cx, Peb(0), page * 512, Payload::Bytes(&[page as u8; 512])).unwrap();
    }
    let tear = Tear::Prefix(PrefixBytes::Exactly(600));
    array.set_power_cut(Some(PowerCut::at_op(4, tear).seeded(Seed(7)).paired(Pairing::Mlc).seen_by_ecc()));
    assert_eq!(array.program(cx, Peb(0), 4 * 512, Payload::Bytes(&[9; 1024])), LOST);
    array.power_on();
    let whole: Vec<_> = (0..4).filter(|page| array.read(cx, Peb(0), page * 512, &mut [0; 512]).is_ok()).collect();
    assert_eq!(whole, [0, 2, 3]);
}
