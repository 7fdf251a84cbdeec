//! What is drawn, and how often: shares worked out by hand, and published vectors.

use sim::seam::{Flash, Geometry, Payload};
use sim::{Cx, Peb, Seed};

use super::{NAND, put, read};
use crate::cut::{raise_some, random_bits};
use crate::fault::Scatter;
use crate::{Array, ArrayConfig, Bytes, Ecc, FaultPlan, NandsimFaults, Pairing, PowerCut, Store, Tear};

/// Source: the values of SplitMix64 from 1234567 that its Java original prints, as listed by Rosetta Code ("Pseudo-random
/// numbers/Splitmix64").
#[test]
fn codewords_draw_from_splitmix64() {
    let published: [u64; 5] = [
        6_457_827_717_110_365_317,
        3_203_168_211_198_807_973,
        9_817_491_932_198_370_423,
        4_593_380_528_125_082_431,
        16_408_922_859_458_223_821,
    ];
    let mut scatter = Scatter::from_state(1_234_567);
    assert_eq!([0; 5].map(|_| scatter.bits()), published);
}

#[test]
fn each_codeword_between_two_erases_has_draws_of_its_own() {
    let mut seen = std::collections::BTreeSet::new();
    for key in [1, 2] {
        for (peb, page, step, erases) in [(0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)] {
            assert!(seen.insert(Scatter::new(key, Peb(peb), page, step, erases).bits()));
            let again = Scatter::new(key, Peb(peb), page, step, erases).bits();
            assert!(seen.contains(&again), "the same codeword draws the same");
        }
    }
}

#[test]
fn wrong_bits_of_a_codeword_are_distinct_everywhere_in_it_and_only_join() {
    let bits = |count, bound| Scatter::new(7, Peb(1), 2, 3, 4).distinct(count, bound);
    for bound in [1, 63, 64, 65, 200] {
        let mut all = bits(1000, bound);
        let whole = all.clone();
        all.sort_unstable();
        assert_eq!(all, (0..bound).collect::<Vec<_>>(), "more than there are: all of them");
        assert!((0..=bound).all(|count| bits(count, bound) == whole[..count as usize]));
    }
}

/// Each density d/16 sets a bit with that probability; 16/16 sets all, 0 none.
#[test]
fn a_density_of_sixteenths_is_the_share_of_bits_that_are_set() {
    for density in 0..=16 {
        let mut rng = Seed(density).stream("test/bits");
        let words: Vec<u64> = (0..4096).map(|_| random_bits(&mut rng, density)).collect();
        let set: u32 = words.iter().map(|word| word.count_ones()).sum();
        let expected = f64::from(1 << 18) * density as f64 / 16.0;
        // 2^18 bits: at most 256 of deviation.
        assert!((f64::from(set) - expected).abs() <= 5.0 * 256.0, "{density}: {set} of {expected}");
        assert!((density > 0 || set == 0) && (density < 16 || set == 1 << 18), "{density}: {set}");
        let every_place = (0..64).all(|bit| words.iter().any(|word| word >> bit & 1 == 1));
        assert_eq!(every_place, density > 0, "{density}");
        for len in [0, 1, 7, 8, 9, 17] {
            let mut cells = vec![0x10; len];
            raise_some(&mut rng, density, &mut cells);
            assert!(cells.iter().all(|cell| cell & 0x10 != 0), "bits only rise");
            assert!(density < 16 || cells == vec![0xff; len]);
            assert!(density > 0 || cells == vec![0x10; len]);
        }
    }
}

/// A page as the cells hold it.
fn cells(array: &Array<Bytes>, peb: u32, offset: u32) -> Vec<u8> {
    let mut page = vec![0; 512];
    array.store().read(Peb(peb), offset, &mut page);
    page
}

/// How many sixteenths of the bits of `cells` are set.
fn sixteenths(cells: &[u8]) -> usize {
    let set: u32 = cells.iter().map(|byte| byte.count_ones()).sum();
    (f64::from(set) / cells.len() as f64 * 2.0).round() as usize
}

/// The density of a tear is drawn from 0 to 16 sixteenths, each as likely: of 1,700 cuts each has 100, with a deviation of 10.
#[test]
fn tears_of_every_density_are_as_likely() {
    let geometry = Geometry { oob_bytes: 512, ..NAND };
    let mut of_program = [0; 17];
    let mut of_erase = [0; 17];
    let mut of_oob = [0; 17];
    let (mut none_of_oob, mut same_of_oob) = (0, 0);
    for seed in 0..1700 {
        let cut = |ops| Some(PowerCut::at_op(ops, Tear::RandomBits).seeded(Seed(seed)));
        let mut array = Array::new(ArrayConfig::plain(geometry), Bytes::with_oob());
        let cx = &mut Cx::new();
        array.set_power_cut(cut(0));
        array.program_with_oob(cx, Peb(0), 0, Payload::Bytes(&[0; 512]), &[0; 512]).unwrap_err();
        array.power_on();
        let data = sixteenths(&read(&mut array, 0, 0, 512));
        of_program[data] += 1;
        let mut oob = [0; 512];
        array.read_oob(Peb(0), 0, &mut oob).unwrap();
        // Of the OOB: as the data in a quarter of the cuts, whole in a quarter, and any density in the others.
        let oob = sixteenths(&oob);
        of_oob[oob] += 1;
        none_of_oob += u32::from(oob == 0 && data > 0);
        same_of_oob += u32::from(oob == data && data > 0);
        put(&mut array, 1, 0, &[0; 4096]);
        array.set_power_cut(cut(1));
        array.erase(cx, Peb(1)).unwrap_err();
        array.power_on();
        of_erase[sixteenths(&read(&mut array, 1, 0, 4096))] += 1;
    }
    assert!(of_program.iter().all(|found| (55..150).contains(found)), "{of_program:?}");
    assert!(of_erase.iter().all(|found| (55..150).contains(found)), "{of_erase:?}");
    // Of the OOB, three quarters of 1,700 are spread over 17 densities: 75 each, with a deviation of 9.
    assert!(of_oob[1..].iter().all(|found| (45..108).contains(found)), "{of_oob:?}");
    // 16/17 of 1,700 cuts: a quarter and a thirty-fourth of 1,600 is 447, with a deviation of 18.
    assert!((393..501).contains(&none_of_oob), "{none_of_oob}");
    assert!((393..501).contains(&same_of_oob), "{same_of_oob}");
}

/// An interrupted erase raises the bits of the OOB with the density of the data.
#[test]
fn an_interrupted_erase_raises_the_oob_like_the_data() {
    let geometry = Geometry { oob_bytes: 512, ..NAND };
    for seed in 0..40 {
        let mut array = Array::new(ArrayConfig::plain(geometry), Bytes::with_oob());
        let cx = &mut Cx::new();
        for page in 0..8 {
            array.program_with_oob(cx, Peb(2), page * 512, Payload::Bytes(&[0; 512]), &[0; 512]).unwrap();
        }
        array.set_power_cut(Some(PowerCut::at_op(8, Tear::RandomBits).seeded(Seed(seed))));
        array.erase(cx, Peb(2)).unwrap_err();
        array.power_on();
        let data = sixteenths(&read(&mut array, 2, 0, 4096));
        assert_eq!(sixteenths(&array.oob_of(Peb(2))), data);
    }
}

/// A quarter of the bits of a lower page flip: 1,024 of 4,096, with a deviation of 28. The upper page is in another word line.
#[test]
fn a_destroyed_page_has_a_quarter_of_its_bits_wrong() {
    let mut array = Array::new(ArrayConfig::plain(NAND), Bytes::new());
    for page in 0..5 {
        put(&mut array, 3, page * 512, &[0x5a; 512]);
    }
    let cut = PowerCut::at_op(5, Tear::RandomBits).seeded(Seed(1)).paired(Pairing::Mlc).seen_by_ecc();
    array.set_power_cut(Some(cut));
    array.program(&mut Cx::new(), Peb(3), 5 * 512, Payload::Bytes(&[9; 512])).unwrap_err();
    array.power_on();
    array.check();
    assert_eq!(array.destroyed().collect::<Vec<_>>(), [(Peb(3), 1)], "page 5 is paired with page 1");
    let mut page = [0; 512];
    array.read(&mut Cx::new(), Peb(3), 512, &mut page).unwrap_err();
    let wrong: u32 = page.iter().map(|byte| (byte ^ 0x5a).count_ones()).sum();
    assert!((884..1164).contains(&wrong), "{wrong}");
    for whole in [0, 2, 3, 4] {
        assert_eq!(read(&mut array, 3, whole * 512, 512), [0x5a; 512], "page {whole}");
    }
    // A lower page that was never programmed has nothing to lose.
    let mut array = Array::new(ArrayConfig::plain(NAND), Bytes::new());
    array.set_power_cut(Some(cut_of_page_5()));
    array.program(&mut Cx::new(), Peb(3), 5 * 512, Payload::Bytes(&[9; 512])).unwrap_err();
    array.power_on();
    assert_eq!((array.destroyed().count(), read(&mut array, 3, 512, 512)), (0, vec![0xff; 512]));
}

fn cut_of_page_5() -> PowerCut {
    PowerCut::at_op(0, Tear::RandomBits).seeded(Seed(1)).paired(Pairing::Mlc)
}

/// An unstable bit flips with 1/64 a read, each alike, and only in the torn cells.
#[test]
fn unstable_bits_flip_one_in_64_each_and_their_neighbours_never() {
    let mut array = Array::new(ArrayConfig::plain(NAND), Bytes::new());
    put(&mut array, 0, 0, &[0xff; 512]);
    array.set_power_cut(Some(PowerCut::at_op(1, Tear::RandomBits).seeded(Seed(2)).unstable()));
    array.program(&mut Cx::new(), Peb(0), 512, Payload::Bytes(&[0xff; 512])).unwrap_err();
    array.power_on();
    assert_eq!(array.unstable_pebs().collect::<Vec<_>>(), [Peb(0)]);
    assert_eq!(array.unstable_cells().collect::<Vec<_>>(), [(Peb(0), 512)]);
    let mut flips = [0; 8];
    let mut edges = [0; 2];
    for (from, len) in [(512, 512), (0, 4096), (510, 4), (700, 100), (1020, 8), (0, 512), (1024, 512)].repeat(40) {
        let cells = read(&mut array, 0, from, len);
        for (at, byte) in cells.iter().enumerate() {
            let torn = (512..1024).contains(&(from as usize + at));
            assert!(torn || *byte == 0xff, "byte {at} of a read at {from}");
            (0..8).for_each(|bit| flips[bit] += u32::from(byte >> bit & 1 == 0));
            edges[0] += u32::from(from as usize + at == 512 && *byte != 0xff);
            edges[1] += u32::from(from as usize + at == 1023 && *byte != 0xff);
        }
    }
    // 40 × (512 + 512 + 2 + 100 + 4) bytes of which each bit flips with 1/64: 706, with a deviation of 26.
    assert!(flips.iter().all(|found| (576..836).contains(found)), "{flips:?}");
    // The first torn byte is read 120 times, and the last one too: of either, one read in eight differs.
    assert!(edges.iter().all(|found| (2..40).contains(found)), "{edges:?}");
    let mut stable = Array::new(ArrayConfig::plain(NAND), Bytes::new());
    stable.set_power_cut(Some(PowerCut::at_op(0, Tear::RandomBits).seeded(Seed(2)).seen_by_ecc()));
    stable.program(&mut Cx::new(), Peb(0), 0, Payload::Bytes(&[0; 512])).unwrap_err();
    stable.power_on();
    assert_eq!((stable.unstable_pebs().count(), stable.destroyed().count()), (0, 0));
}

/// A dead page of nandsim returns random bytes, other ones each time.
#[test]
fn a_grave_page_returns_random_bytes() {
    let mut config = ArrayConfig::plain(NAND);
    config.ecc = Some(Ecc::new(4, 512));
    let nandsim = NandsimFaults::parse("", "", "", "9:0", 0).unwrap();
    config.faults = Some(FaultPlan { nandsim, ..FaultPlan::none(Seed(1)) });
    let mut array = Array::new(config, Bytes::new());
    put(&mut array, 1, 512, &[0; 512]);
    let mut pages = [[0; 512]; 2];
    for page in &mut pages {
        array.read(&mut Cx::new(), Peb(1), 512, page).unwrap_err();
        let distinct: std::collections::BTreeSet<u8> = page.iter().copied().collect();
        // Of 256 values, 512 draws leave out a share of 1/e²: 221 are seen.
        assert!(distinct.len() > 190, "{}", distinct.len());
    }
    assert_ne!(pages[0], pages[1]);
    assert_eq!(array.fault_counts().uncorrectable_pages, 2);
}

/// A cut that changed no bit cannot be seen in stable cells: the page, or the block, is what it was. If ECC sees the tear, or
/// the bits are unstable, it can.
#[test]
fn a_cut_that_changed_no_bit_leaves_no_trace_where_nothing_can_show_it() {
    let (mut programs, mut erases) = (0, 0);
    for seed in 0..200 {
        let cut = PowerCut::at_op(1, Tear::RandomBits).seeded(Seed(seed));
        for (cut, shows) in [(cut, false), (cut.seen_by_ecc(), true), (cut.unstable(), true)] {
            let mut array = Array::new(ArrayConfig::plain(NAND), Bytes::with_oob());
            let cx = &mut Cx::new();
            put(&mut array, 1, 0, &[0; 512]);
            array.set_power_cut(Some(cut));
            array.program_with_oob(cx, Peb(1), 512, Payload::Bytes(&[0; 512]), &[0; 16]).unwrap_err();
            let untouched = [cells(&array, 1, 512), array.oob_of(Peb(1))].concat().iter().all(|&b| b == 0xff);
            array.power_on();
            array.check();
            assert_eq!(array.mark(Peb(1)), if untouched && !shows { 512 } else { 1024 }, "seed {seed}, {cut:?}");
            programs += u32::from(untouched && !shows);
            let mut array = Array::new(ArrayConfig::plain(NAND), Bytes::new());
            put(&mut array, 1, 0, &[0; 512]);
            array.set_power_cut(Some(cut));
            array.erase(cx, Peb(1)).unwrap_err();
            let untouched = cells(&array, 1, 0) == [0; 512];
            array.power_on();
            array.check();
            assert_eq!(array.mark(Peb(1)), if untouched && !shows { 512 } else { 4096 }, "seed {seed}, {cut:?}");
            erases += u32::from(untouched && !shows);
        }
    }
    assert!(programs > 2 && erases > 2, "{programs} {erases}");
}
