//! Each kind of fault, and that draws repeat.

use sim::seam::{Flash, FlashError, Payload};
use sim::{Cx, Ns, Peb, Seed};

use super::{NAND, put, read};
use crate::nandsim::Weak;
use crate::wearout::{Codeword, YEAR};
use crate::{
    Array, ArrayConfig, BitErrors, Blank, Bytes, Ecc, FactoryBad, FaultCounts, FaultPlan, Geometry, Lifetime,
    NandsimFaults, Tags, WearOut,
};

fn faulty(geometry: Geometry, plan: FaultPlan) -> Array<Bytes> {
    let mut config = ArrayConfig::plain(geometry);
    config.ecc = Some(Ecc::new(4, 512));
    config.faults = Some(plan);
    Array::new(config, Bytes::new())
}

fn nandsim(faults: NandsimFaults) -> Array<Bytes> {
    faulty(NAND, FaultPlan { nandsim: faults, ..FaultPlan::none(Seed(1)) })
}

#[test]
fn nandsim_strings_are_read_as_the_kernel_reads_them() {
    let faults = NandsimFaults::parse("3,0x10,010", "5:100,6", "64:0x2", "", 7).unwrap();
    assert_eq!(faults.bad_blocks, [3, 16, 8]);
    assert_eq!(faults.weak_blocks, [Weak { at: 5, max: 100 }, Weak { at: 6, max: 3 }]);
    assert_eq!(faults.weak_pages, [Weak { at: 64, max: 2 }]);
    assert_eq!((faults.grave_pages.len(), faults.bitflips), (0, 7));
    assert!(NandsimFaults::parse("", "", "", "", 0).unwrap().is_empty());
}

#[test]
fn a_wrong_nandsim_string_is_named_with_its_place() {
    let wrong = |weak| NandsimFaults::parse("", weak, "", "", 0).unwrap_err();
    assert_eq!((wrong("5:100,x").at, wrong("5:100,x").found.as_str()), (6, "x"));
    assert_eq!((wrong("5:,7").at, wrong("5:,7").parameter), (2, "weakblocks"));
    assert_eq!(wrong("5,").found, "");
    assert_eq!(wrong("+5").found, "+5");
    assert_eq!(wrong("4294967296").found, "4294967296");
    for (at, name) in ["badblocks", "weakblocks", "weakpages", "gravepages"].into_iter().enumerate() {
        let text = |of: usize| if of == at { "1,y" } else { "2" };
        let error = NandsimFaults::parse(text(0), text(1), text(2), text(3), 0).unwrap_err();
        assert_eq!((error.parameter, error.at, error.found.as_str()), (name, 2, "y"));
        assert_eq!(error.to_string(), format!("{name}, byte 2: found \"y\", expected a number below 2^32"));
    }
    assert_eq!(NandsimFaults::parse("5:3", "", "", "", 0).unwrap_err().found, "5:3", "bad blocks have no count");
}

#[test]
fn nandsims_bad_blocks_are_bad_from_the_start() {
    let array = nandsim(NandsimFaults::parse("2", "", "", "", 0).unwrap());
    assert_eq!(array.bad_pebs().collect::<Vec<_>>(), [Peb(2)]);
}

#[test]
fn a_weak_block_fails_after_as_many_erases_as_it_has() {
    let mut array = nandsim(NandsimFaults::parse("", "1:2", "", "", 0).unwrap());
    let mut cx = Cx::new();
    assert_eq!(array.erase(&mut cx, Peb(1)), Ok(()));
    assert_eq!(array.erase(&mut cx, Peb(1)), Ok(()));
    assert_eq!(array.erase(&mut cx, Peb(1)), Err(FlashError::EraseFailed { peb: Peb(1) }));
    assert_eq!(array.erase(&mut cx, Peb(2)), Ok(()));
    assert_eq!(array.erase_counts()[1], 3, "nandsim counts the failed one too");
    assert_eq!(array.fault_counts().erase_failures, 1);
}

#[test]
fn a_weak_page_fails_after_as_many_programs_as_it_has() {
    // Page 9 is the second page of PEB 1.
    let mut array = nandsim(NandsimFaults::parse("", "", "9:1", "", 0).unwrap());
    let mut cx = Cx::new();
    put(&mut array, 1, 0, &[1; 1024]);
    array.erase(&mut cx, Peb(1)).unwrap();
    put(&mut array, 1, 0, &[2; 512]);
    let failed = array.program(&mut cx, Peb(1), 512, Payload::Bytes(&[3; 512]));
    assert_eq!(failed, Err(FlashError::ProgramFailed { peb: Peb(1), offset: 512 }));
    assert_eq!(read(&mut array, 1, 512, 4), [3; 4], "nandsim has programmed the page by then");
    assert_eq!(array.bytes_into_cells(), 1024 + 512 + 512);
    put(&mut array, 1, 1024, &[4; 512]);
}

#[test]
fn a_grave_page_loses_its_data_after_as_many_reads_as_it_has() {
    let mut array = nandsim(NandsimFaults::parse("", "", "", "9:2", 0).unwrap());
    put(&mut array, 1, 0, &[5; 1536]);
    assert_eq!(read(&mut array, 1, 512, 512), [5; 512]);
    assert_eq!(read(&mut array, 1, 0, 1536), [5; 1536]);
    let mut buf = [0; 1024];
    let lost = array.read(&mut Cx::new(), Peb(1), 256, &mut buf);
    assert_eq!(lost, Err(FlashError::Uncorrectable { peb: Peb(1), offset: 512 }));
    assert_eq!(buf[..256], [5; 256], "the page before is good");
    assert_ne!(buf[256..768], [5; 512]);
    assert_eq!(buf[768..], [5; 256], "the page after is good");
}

#[test]
fn one_page_read_in_1024_flips_bits_and_ecc_mends_them() {
    let mut array = nandsim(NandsimFaults { bitflips: 4, ..NandsimFaults::default() });
    put(&mut array, 0, 0, &[0x77; 512]);
    let (mut flipped, mut buf) = (0, [0; 512]);
    for _ in 0..200_000 {
        let status = array.read(&mut Cx::new(), Peb(0), 0, &mut buf).unwrap();
        assert_eq!(buf, [0x77; 512]);
        assert_eq!(status.scrub, status.bitflips_corrected >= 3);
        flipped += u32::from(status.bitflips_corrected > 0);
    }
    assert!((150..245).contains(&flipped), "{flipped} of 200000, expected 195");
    let counts = array.fault_counts();
    assert_eq!((counts.corrected_pages, counts.uncorrectable_pages), (flipped.into(), 0));
    // The next page is erased, and read without errors.
    (0..20_000).for_each(|_| assert!(array.read(&mut Cx::new(), Peb(0), 512, &mut buf).is_ok()));
    assert_eq!((array.fault_counts(), buf), (counts, [0xff; 512]));
    assert_eq!(read(&mut array, 1, 0, 8), [0xff; 8]);
}

/// Linux's `mtd_read` returns the most bits that were corrected in a codeword, and -EUCLEAN from the threshold on, wherever that
/// codeword lies in the page.
#[test]
fn the_worst_codeword_of_a_page_decides_on_scrubbing() {
    let pages_of_four = Geometry { peb_bytes: 16_384, page_bytes: 2_048, subpage_bytes: 512, ..NAND };
    let plan =
        FaultPlan { nandsim: NandsimFaults { bitflips: 9, ..NandsimFaults::default() }, ..FaultPlan::none(Seed(1)) };
    let mut array = faulty(pages_of_four, plan);
    put(&mut array, 0, 0, &[0x77; 2_048]);
    let (mut scrubs, mut buf) = (0, [0; 2_048]);
    for _ in 0..200_000 {
        if let Ok(status) = array.read(&mut Cx::new(), Peb(0), 0, &mut buf) {
            assert_eq!(status.scrub, status.bitflips_corrected >= 3, "{status:?}");
            scrubs += u32::from(status.scrub);
        }
    }
    assert!(scrubs > 30, "{scrubs}");
}

#[test]
fn more_flips_than_ecc_mends_reach_the_reader_and_not_the_cells() {
    let mut array = nandsim(NandsimFaults { bitflips: 2000, ..NandsimFaults::default() });
    put(&mut array, 0, 0, &[0x77; 512]);
    let mut buf = [0; 512];
    let failed = (0..50_000).find(|_| array.read(&mut Cx::new(), Peb(0), 0, &mut buf).is_err());
    assert!(failed.is_some());
    assert_ne!(buf, [0x77; 512]);
    let mut dump = Vec::new();
    array.dump(false, &mut dump).unwrap();
    assert_eq!(dump[..512], [0x77; 512]);
}

fn worn(lifetime: Lifetime, rating_cycles: u32) -> WearOut {
    WearOut { lifetime, program_failure_at_rating: 0.0, ..WearOut::by_rating(rating_cycles) }
}

#[test]
fn a_block_past_its_endurance_never_erases_again() {
    let plan = FaultPlan { wear_out: Some(worn(Lifetime::Fixed, 10)), ..FaultPlan::none(Seed(1)) };
    let mut array = faulty(NAND, plan);
    let mut cx = Cx::new();
    let results: Vec<bool> = (0..13).map(|_| array.erase(&mut cx, Peb(1)).is_ok()).collect();
    assert_eq!(results, [vec![true; 10], vec![false; 3]].concat());
    assert_eq!(array.endurance_of(Peb(1)), Some(10));
    let program = array.program(&mut cx, Peb(1), 0, Payload::Length(512));
    assert_eq!(program, Err(FlashError::NotErased { peb: Peb(1), offset: 0 }), "it is not erased");
    assert_eq!(array.erase_counts()[1], 13);
    array.check();
}

#[test]
fn erases_while_wear_is_suspended_wear_nothing() {
    let plan = FaultPlan { wear_out: Some(worn(Lifetime::Fixed, 10)), ..FaultPlan::none(Seed(1)) };
    let mut array = faulty(NAND, plan);
    let mut cx = Cx::new();
    array.suspend_wear();
    assert!((0..30).all(|_| array.erase(&mut cx, Peb(1)).is_ok()));
    array.wear_from_now_on();
    let results: Vec<bool> = (0..13).map(|_| array.erase(&mut cx, Peb(1)).is_ok()).collect();
    assert_eq!(results, [vec![true; 10], vec![false; 3]].concat());
    assert_eq!(array.erase_counts()[1], 43);
    array.check();
}

#[test]
fn every_family_has_failed_the_stated_share_at_the_rating() {
    for lifetime in [Lifetime::Weibull { shape: 4.0 }, Lifetime::LogNormal { sigma: 0.3 }, Lifetime::Normal { cv: 0.2 }]
    {
        let wear = worn(lifetime, 100_000);
        let mut rng = Seed(5).stream("nand/endurance");
        let mut drawn: Vec<u32> = (0..20_000).map(|_| wear.draw_endurance(&mut rng)).collect();
        drawn.sort_unstable();
        let failed = drawn.iter().filter(|&&cycles| cycles <= 100_000).count();
        // 2 % of 20000, give or take five standard deviations.
        assert!((300..500).contains(&failed), "{lifetime:?}: {failed}");
        assert!(drawn[10_000] > 110_000, "{lifetime:?}: half of the blocks last well beyond the rating");
    }
}

#[test]
fn weibull_of_shape_4_has_its_median_at_2_42_ratings() {
    let mut rng = Seed(5).stream("nand/endurance");
    let wear = WearOut::by_rating(100_000);
    let mut drawn: Vec<u32> = (0..20_001).map(|_| wear.draw_endurance(&mut rng)).collect();
    drawn.sort_unstable();
    // (ln 2 / -ln 0.98)^(1/4) = 2.42.
    assert!((drawn[10_000] as f64 / 242_000.0 - 1.0).abs() < 0.01, "{}", drawn[10_000]);
}

#[test]
fn programs_fail_as_often_as_wear_says() {
    let wear = WearOut { program_failure_at_rating: 0.5, program_failure_exponent: 1.0, ..worn(Lifetime::Fixed, 1000) };
    assert_eq!((wear.program_failure(0), wear.program_failure(500), wear.program_failure(1000)), (0.0, 0.25, 0.5));
    let mut array = faulty(NAND, FaultPlan { wear_out: Some(wear), ..FaultPlan::none(Seed(2)) });
    let mut cx = Cx::new();
    let mut failed = [0; 2];
    for cycle in 0..1000 {
        array.erase(&mut cx, Peb(0)).unwrap();
        for page in 0..8 {
            let result = array.program(&mut cx, Peb(0), page * 512, Payload::Length(512));
            failed[usize::from(cycle >= 500)] += u32::from(result.is_err());
        }
    }
    // 4000 programs at 12.5 % on average, then 4000 at 37.5 %.
    assert!((400..600).contains(&failed[0]) && (1350..1650).contains(&failed[1]), "{failed:?}");
    assert_eq!(array.fault_counts().program_failures, u64::from(failed[0] + failed[1]));
}

#[test]
fn the_error_rate_is_calibrated_to_the_code() {
    let ecc = Ecc::new(40, 1024);
    let model = BitErrors::by_rating(3000);
    let rber = model.calibrate(Some(ecc));
    let at_rating = rber.at(3000, YEAR, 0);
    assert!((at_rating / rber.limit - 1.0).abs() < 1e-12, "{at_rating:e} {:e}", rber.limit);
    let uber = rber.codeword(ecc.codeword_bits(), rber.limit).more_than(40) / 8192.0;
    assert!((uber / 1e-15 - 1.0).abs() < 1e-6, "{uber:e}");
    let disturbed = rber.at(3000, YEAR, 1_000_000);
    assert!((disturbed / rber.limit - 2.0).abs() < 1e-12);
    let year = rber.at(3000, YEAR, 0);
    assert!(rber.at(3001, YEAR, 0) > year && rber.at(3000, YEAR + Ns(1_000_000_000), 0) > year);
    assert!(rber.at(0, YEAR, 0) < 0.02 * year, "fresh cells hardly err");
    assert_eq!(rber.at(u32::MAX, YEAR, u64::MAX), 0.5);
}

#[test]
fn stronger_codes_bear_more() {
    let limit = |ecc| BitErrors::by_rating(1).calibrate(Some(ecc)).limit;
    assert!(limit(Ecc::new(1, 512)) < limit(Ecc::new(4, 512)));
    assert!(limit(Ecc::new(4, 512)) < limit(Ecc::new(8, 512)));
    // 40 bits of 8752: below the naive ratio of bits, which would fail every second codeword.
    let forty = limit(Ecc::new(40, 1024));
    assert!(forty > 1e-4 && forty < 40.0 / 8752.0, "{forty:e}");
    assert_eq!(Ecc::new(40, 1024).codeword_bits(), 8 * (1024 + 70), "14 parity bits per corrected bit");
    assert_eq!(Ecc::new(8, 512).parity_bytes(), 13);
    assert_eq!((Ecc::new(1, 512).scrub_at, Ecc::new(4, 512).scrub_at, Ecc::new(40, 1024).scrub_at), (1, 3, 30));
}

#[test]
fn errors_of_a_codeword_are_over_dispersed() {
    let word = Codeword::new(8752, 0.002, 16);
    let mut rng = Seed(1).stream("test/rank");
    let draws: Vec<f64> = (0..40_000).map(|_| f64::from(word.quantile(rng.unit()))).collect();
    let mean = draws.iter().sum::<f64>() / draws.len() as f64;
    let variance = draws.iter().map(|k| (k - mean).powi(2)).sum::<f64>() / draws.len() as f64;
    assert!((mean / 17.504 - 1.0).abs() < 0.01, "{mean}");
    // m·p·(1-p)·(1 + (m-1)/(α+β+1)) = 36.6, against 17.5 of a binomial.
    assert!((variance / 36.6 - 1.0).abs() < 0.04, "{variance}");
    // Eight bits, α = 2, β = 14/3: P(0) = β(β+1)/((β+8)(β+9)).
    let none = (14.0 * 17.0) / (38.0 * 41.0);
    assert!((Codeword::new(8, 0.3, 2).more_than(0) - (1.0 - none)).abs() < 1e-12);
    assert_eq!(word.quantile(0.0), 0);
}

/// MLC-like decay on one codeword per page, read at `years`.
fn decaying(rating: u32) -> Array<Bytes> {
    let plan = FaultPlan { bit_errors: Some(BitErrors::by_rating(rating)), ..FaultPlan::none(Seed(9)) };
    faulty(NAND, plan)
}

fn later(span: Ns) -> Cx {
    let mut cx = Cx::new();
    cx.spend(span);
    cx
}

#[test]
fn the_medium_s_errors_persist_and_grow_with_age() {
    let mut array = decaying(10);
    let mut cx = Cx::new();
    for _ in 0..2_000 {
        array.erase(&mut cx, Peb(0)).unwrap();
    }
    put(&mut array, 0, 0, &[0x11; 4096]);
    let mut at = |age: Ns| {
        let mut buf = vec![0; 4096];
        let result = array.read(&mut later(age), Peb(0), 0, &mut buf);
        if result.is_ok() {
            assert_eq!(buf, [0x11; 4096]);
        }
        let wrong: u32 = buf.iter().map(|byte| (byte ^ 0x11).count_ones()).sum();
        (result.map(|status| status.bitflips_corrected).unwrap_or(u32::MAX), wrong)
    };
    let (fresh, young, old) = (at(Ns(1)), at(YEAR), at(YEAR * 100));
    assert_eq!(at(YEAR), young, "reading twice gives the same");
    assert!(fresh <= young && young <= old, "{fresh:?} {young:?} {old:?}");
    assert_eq!(old.0, u32::MAX, "200 ratings old, ECC gives up");
    assert!(old.1 > 0, "and the reader sees wrong bits");
    assert!(array.fault_counts().uncorrectable_pages > 0);
    let mut dump = Vec::new();
    array.dump(false, &mut dump).unwrap();
    assert_eq!(dump[..4096], [0x11; 4096], "the cells' data is pristine");
}

/// The formula of [`BitErrors`], written once more: wrong bits of a codeword of `bits` bits, on average.
fn expected_bits(limit: f64, bits: f64, worn: f64, age_s: f64, reads_at_limit: Option<f64>, reads: f64) -> f64 {
    let aged = |seconds: f64| 1.0 + 0.5 * (1.0 + seconds / 3600.0).ln();
    let fresh = 0.01 * limit;
    let wear = (limit - fresh) / aged(365.25 * 86400.0);
    let disturbed = reads_at_limit.map_or(0.0, |most| limit / most * worn * reads);
    bits * (fresh + wear * worn * worn * aged(age_s) + disturbed)
}

/// Wrong bits of a codeword on average, and the formula's, in blocks that were programmed at 0 and in others that were
/// programmed at `second_at`, read at `read_at` after as many reads of the whole block as `reads_before`. The blocks had
/// half of their cycles before the array was made.
fn wrong_bits(cycles: u32, second_at: Ns, read_at: Ns, reads_before: u32) -> [(f64, f64); 2] {
    let (limit, reads_at_limit) = (2e-3, 4_000.0);
    let model = BitErrors { limit_rber: Some(limit), reads_at_limit, ..BitErrors::by_rating(100) };
    let geometry = Geometry { pebs: 64, ..NAND };
    let mut config = ArrayConfig::plain(geometry);
    let ecc = Ecc::new(60, 512);
    config.ecc = Some(ecc);
    let faults = FaultPlan { bit_errors: Some(model), worn_cycles: cycles / 2, ..FaultPlan::none(Seed(3)) };
    config.faults = Some(faults);
    let mut array = Array::new(config, Bytes::new());
    let program = |array: &mut Array<Bytes>, at: Ns, parity: u32| {
        let mut cx = later(at);
        for peb in (0..64).filter(|peb| peb % 2 == parity) {
            (0..cycles - cycles / 2).for_each(|_| array.erase(&mut cx, Peb(peb)).unwrap());
            array.program(&mut cx, Peb(peb), 0, Payload::Bytes(&[0x3c; 4096])).unwrap();
        }
    };
    program(&mut array, Ns(0), 0);
    program(&mut array, second_at, 1);
    let mut cx = later(read_at);
    let mut buf = [0; 4096];
    [0, 1].map(|parity| {
        let of_parity = (0..64).filter(|peb| peb % 2 == parity);
        for peb in of_parity.clone() {
            (0..reads_before).for_each(|_| assert!(array.read(&mut cx, Peb(peb), 0, &mut buf).is_ok()));
        }
        let before = array.fault_counts().corrected_bits;
        for peb in of_parity {
            array.read(&mut cx, Peb(peb), 0, &mut buf).unwrap();
            assert_eq!(buf, [0x3c; 4096]);
        }
        let found = (array.fault_counts().corrected_bits - before) as f64 / (32.0 * 8.0);
        let programmed = if parity == 0 { Ns(0) } else { second_at };
        let age_s = (read_at.0 - programmed.0) as f64 / 1e9;
        let bits = f64::from(ecc.codeword_bits());
        // Each read of a block is one of its eight pages; of the last one, four pages are read before, on average.
        let reads = f64::from(8 * reads_before) + 3.5;
        (found, expected_bits(limit, bits, f64::from(cycles) / 100.0, age_s, Some(reads_at_limit), reads))
    })
}

#[test]
fn what_a_reader_meets_is_what_the_formula_says_by_cycles_age_and_reads() {
    let mut last = 0.0;
    for (cycles, second_at, read_at, reads_before) in [
        (40, Ns(1), Ns::from_s(60), 0),
        (100, Ns::from_s(30), Ns::from_s(60), 0),
        (100, Ns(YEAR.0 / 2), YEAR, 0),
        (100, YEAR * 9, YEAR * 10, 0),
        (100, YEAR * 9, YEAR * 10, 400),
        (150, YEAR, YEAR * 3, 100),
    ] {
        let both = wrong_bits(cycles, second_at, read_at, reads_before);
        for (found, expected) in both {
            // 256 codewords of a relative spread of a quarter, and of the square root of their bits.
            let spread = (1.0 / 16.0 + 1.0 / expected).sqrt() / 16.0;
            let place = format!("{cycles} cycles, {second_at:?}, read at {read_at:?} after {reads_before} reads");
            assert!((found / expected - 1.0).abs() < 4.0 * spread, "{place}: {found:.3} of {expected:.3} bits");
        }
        assert!(both[0].0 > last, "each case has more than the one before");
        last = both[0].0;
    }
}

#[test]
fn an_erased_page_reads_well_however_worn() {
    let mut array = decaying(1);
    for _ in 0..2_000 {
        array.erase(&mut Cx::new(), Peb(0)).unwrap();
    }
    assert_eq!(read(&mut array, 0, 0, 4096), [0xff; 4096]);
}

#[test]
fn reads_disturb_their_block_until_it_is_erased() {
    let mut plan = FaultPlan::none(Seed(9));
    plan.bit_errors = Some(BitErrors { reads_at_limit: 100.0, ..BitErrors::by_rating(100) });
    let mut array = faulty(NAND, plan);
    let mut cx = Cx::new();
    for _ in 0..1000 {
        array.erase(&mut cx, Peb(0)).unwrap();
        array.erase(&mut cx, Peb(1)).unwrap();
    }
    put(&mut array, 0, 0, &[0; 512]);
    put(&mut array, 1, 0, &[0; 512]);
    let mut buf = [0; 512];
    let failed = (0..100_000).find(|_| array.read(&mut Cx::new(), Peb(0), 0, &mut buf).is_err());
    assert!(failed.is_some_and(|reads| reads > 100), "{failed:?}");
    assert_eq!(read(&mut array, 1, 0, 512), [0; 512], "the neighbour was not read");
    array.erase(&mut cx, Peb(0)).unwrap();
    put(&mut array, 0, 0, &[0; 512]);
    assert_eq!(read(&mut array, 0, 0, 512), [0; 512]);
}

#[test]
fn without_a_code_wrong_bits_reach_the_reader_unnoticed() {
    let mut config = ArrayConfig::plain(NAND);
    let model = BitErrors { uber_at_limit: 0.5, ..BitErrors::by_rating(1) };
    config.faults = Some(FaultPlan { bit_errors: Some(model), ..FaultPlan::none(Seed(4)) });
    let mut array = Array::new(config, Bytes::new());
    for _ in 0..100 {
        array.erase(&mut Cx::new(), Peb(0)).unwrap();
    }
    put(&mut array, 0, 0, &[0; 4096]);
    let mut buf = vec![0; 4096];
    let status = array.read(&mut later(YEAR * 50), Peb(0), 0, &mut buf).unwrap();
    assert_eq!(status.bitflips_corrected, 0);
    // The pages are all zeros: a set bit is a wrong one. None is counted that does not reach the reader.
    let wrong: u32 = buf.iter().map(|byte| byte.count_ones()).sum();
    assert!(wrong > 100, "{wrong}");
    assert_eq!(array.fault_counts().unnoticed_bits, wrong.into());
}

#[test]
fn counts_since_an_earlier_count_are_the_differences() {
    let before = FaultCounts {
        corrected_bits: 3,
        corrected_pages: 2,
        unnoticed_bits: 5,
        uncorrectable_pages: 4,
        program_failures: 7,
        erase_failures: 6,
    };
    let now = FaultCounts {
        corrected_bits: 13,
        corrected_pages: 9,
        unnoticed_bits: 18,
        uncorrectable_pages: 15,
        program_failures: 24,
        erase_failures: 20,
    };
    let since = now.since(&before);
    assert_eq!((since.corrected_bits, since.corrected_pages, since.unnoticed_bits), (10, 7, 13));
    assert_eq!((since.uncorrectable_pages, since.program_failures, since.erase_failures), (11, 17, 14));
}

/// nandsim flips a bit of page and OOB, each as likely as any other. Here the OOB is as long as the page, and the code has four
/// codewords: half of the flips are in OOB, and a quarter of all are in each codeword.
#[test]
fn flips_in_oob_count_against_the_codeword_whose_parity_they_hit() {
    let geometry = Geometry { page_bytes: 2048, subpage_bytes: 512, peb_bytes: 8192, oob_bytes: 2048, ..NAND };
    let corrected = |from: u32, len: usize| {
        let nandsim = NandsimFaults { bitflips: 1, ..NandsimFaults::default() };
        let mut array = faulty(geometry, FaultPlan { nandsim, ..FaultPlan::none(Seed(3)) });
        put(&mut array, 0, 0, &[0; 2048]);
        let mut buf = vec![0; len];
        for _ in 0..800_000 {
            array.read(&mut Cx::new(), Peb(0), from, &mut buf).unwrap();
        }
        array.fault_counts().corrected_bits
    };
    // One read in 1,024 flips a bit: 781, with a deviation of 28; a quarter of them is 195, with one of 14.
    let whole = corrected(0, 2048);
    assert!((641..921).contains(&whole), "{whole}");
    for step in 0..4 {
        let part = corrected(step * 512, 512);
        assert!((125..265).contains(&part), "codeword {step}: {part}");
    }
}

/// Contents that were on the flash before the run age from its beginning.
#[test]
fn contents_that_an_array_is_made_with_age_too() {
    let mut contents = vec![0xff; 4 * 4096];
    contents[..4096].fill(0);
    let mut config = ArrayConfig::plain(NAND);
    let model = BitErrors { uber_at_limit: 0.5, ..BitErrors::by_rating(1) };
    config.faults = Some(FaultPlan { bit_errors: Some(model), worn_cycles: 100, ..FaultPlan::none(Seed(4)) });
    let mut array = Array::load(config, &contents, false).unwrap();
    let mut buf = vec![0; 4096];
    array.read(&mut later(YEAR * 50), Peb(0), 0, &mut buf).unwrap();
    assert!(buf.iter().any(|&byte| byte != 0));
    array.read(&mut later(YEAR * 50), Peb(1), 0, &mut buf).unwrap();
    assert_eq!(buf, [0xff; 4096], "nothing is on it");
}

fn many_blocks(plan: FaultPlan) -> Array<Tags> {
    let mut config = ArrayConfig::plain(Geometry { pebs: 1000, ..NAND });
    config.faults = Some(plan);
    Array::new(config, Tags)
}

#[test]
fn factory_bad_blocks_come_at_their_rate_and_never_at_peb_0() {
    for seed in 0..20 {
        let plan = FaultPlan { factory_bad: FactoryBad::Rate(0.1), ..FaultPlan::none(Seed(seed)) };
        let bad: Vec<_> = many_blocks(plan.clone()).bad_pebs().collect();
        assert!((60..145).contains(&bad.len()), "{}", bad.len());
        assert_ne!(bad[0], Peb(0));
        assert_eq!(many_blocks(plan).bad_pebs().collect::<Vec<_>>(), bad);
    }
    // Half of the blocks: every one but PEB 0 is bad with some seed.
    let mut met = std::collections::BTreeSet::new();
    for seed in 0..30 {
        let plan = FaultPlan { factory_bad: FactoryBad::Rate(0.5), ..FaultPlan::none(Seed(seed)) };
        met.extend(many_blocks(plan).bad_pebs());
    }
    assert_eq!(met.into_iter().collect::<Vec<_>>(), (1..1000).map(Peb).collect::<Vec<_>>());
    let plan = FaultPlan { factory_bad: FactoryBad::List(vec![Peb(0), Peb(9)]), ..FaultPlan::none(Seed(0)) };
    assert_eq!(many_blocks(plan).bad_pebs().collect::<Vec<_>>(), [Peb(0), Peb(9)]);
}

#[test]
fn one_fault_does_not_shift_another_s_draws() {
    let alone = FaultPlan { wear_out: Some(WearOut::by_rating(1000)), ..FaultPlan::none(Seed(7)) };
    let mut crowded = alone.clone();
    crowded.factory_bad = FactoryBad::Rate(0.2);
    crowded.nandsim.bitflips = 5;
    crowded.bit_errors = Some(BitErrors::by_rating(1000));
    let endurances = |plan| {
        let array = many_blocks(plan);
        (0..1000).map(|peb| array.endurance_of(Peb(peb)).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(endurances(alone.clone()), endurances(crowded));
    assert_ne!(endurances(alone.clone()), endurances(FaultPlan { seed: Seed(8), ..alone }));
}

#[test]
fn a_plan_for_another_device_is_refused() {
    let refused = |plan| {
        let mut config = ArrayConfig::plain(NAND);
        config.faults = Some(plan);
        config.validate().unwrap_err().field
    };
    let with = |nandsim| FaultPlan { nandsim, ..FaultPlan::none(Seed(0)) };
    assert_eq!(refused(with(NandsimFaults::parse("4", "", "", "", 0).unwrap())), "faults.nandsim.badblocks");
    assert_eq!(refused(with(NandsimFaults::parse("", "", "32", "", 0).unwrap())), "faults.nandsim.weakpages");
    let rate = FaultPlan { factory_bad: FactoryBad::Rate(1.5), ..FaultPlan::none(Seed(0)) };
    assert_eq!(refused(rate), "faults.factory_bad.rate");
}

#[test]
fn the_share_of_failed_blocks_is_that_of_drawn_endurances() {
    use crate::{Lifetime, WearOut};
    let mut rng = Seed(5).stream("shares");
    for lifetime in [
        Lifetime::Fixed,
        Lifetime::Normal { cv: 0.2 },
        Lifetime::LogNormal { sigma: 0.3 },
        Lifetime::Weibull { shape: 4.0 },
    ] {
        let wear_out = WearOut { lifetime, ..WearOut::by_rating(10_000) };
        let drawn: Vec<u32> = (0..20_000).map(|_| wear_out.draw_endurance(&mut rng)).collect();
        for erases in [5_000, 10_001, 15_000, 25_000, 40_000] {
            let failed = drawn.iter().filter(|&&endurance| endurance < erases).count() as f64 / 20_000.0;
            let share = wear_out.failed_share(f64::from(erases));
            assert!((failed - share).abs() < 0.015, "{lifetime:?} at {erases}: {failed} drawn, {share} computed");
        }
    }
}

#[test]
fn cycles_before_the_array_was_made_wear_like_those_since() {
    let read_after_a_year = |cycles_before: u32, cycles_since: u32| {
        let plan = FaultPlan {
            bit_errors: Some(BitErrors::by_rating(10)),
            worn_cycles: cycles_before,
            ..FaultPlan::none(Seed(9))
        };
        let mut array = faulty(NAND, plan);
        let mut cx = Cx::new();
        (0..cycles_since).for_each(|_| array.erase(&mut cx, Peb(0)).unwrap());
        put(&mut array, 0, 0, &[0x11; 4096]);
        let mut buffer = [0; 4096];
        let _ = array.read(&mut later(YEAR), Peb(0), 0, &mut buffer);
        (array.fault_counts(), buffer)
    };
    let (counts, _) = read_after_a_year(2000, 0);
    assert!(counts.corrected_bits + counts.uncorrectable_pages > 0, "{counts:?}");
    assert_eq!(read_after_a_year(2000, 0), read_after_a_year(0, 2000));
    assert_eq!(read_after_a_year(0, 0).0.uncorrectable_pages, 0);
}

#[test]
fn a_program_fails_as_often_as_stated_whatever_the_wear() {
    let failures = |seed, program_failure| {
        let mut array = faulty(NAND, FaultPlan { program_failure, ..FaultPlan::none(Seed(seed)) });
        let mut cx = Cx::new();
        let page = NAND.page_bytes;
        for _ in 0..1000 {
            array.erase(&mut cx, Peb(0)).unwrap();
            for at in 0..4 {
                let _ = array.program(&mut cx, Peb(0), at * page, Payload::Bytes(&vec![7; page as usize]));
            }
        }
        array.fault_counts().program_failures
    };
    // 4,000 programs, a fifth of which fail: 800, with a deviation of 25.3.
    let found = failures(1, 0.2);
    assert!((found as i64 - 800).abs() < 127, "{found}");
    assert_eq!(found, failures(1, 0.2));
    assert_eq!((failures(1, 0.0), failures(1, 1.0)), (0, 4000));
}

/// A program of several pages fails if one of them does: of four that fail a fifth of the time, 1 - 0.8^4 = 0.5904.
#[test]
fn a_program_of_several_pages_fails_if_one_of_them_does() {
    let mut array = faulty(NAND, FaultPlan { program_failure: 0.2, ..FaultPlan::none(Seed(1)) });
    for _ in 0..4000 {
        array.erase(&mut Cx::new(), Peb(0)).unwrap();
        let _ = array.program(&mut Cx::new(), Peb(0), 512, Payload::Bytes(&[7; 4 * 512]));
    }
    // 2,362 of 4,000, with a deviation of 31.
    let found = array.fault_counts().program_failures;
    assert!((2206..2518).contains(&found), "{found}");
}

#[test]
fn a_store_without_bytes_counts_the_errors_of_one_with_them() {
    let plan = || {
        let nandsim = NandsimFaults { bitflips: 3, ..NandsimFaults::default() };
        FaultPlan { nandsim, ..FaultPlan::none(Seed(5)) }
    };
    let mut config = ArrayConfig::plain(NAND);
    config.ecc = Some(Ecc::new(2, 512));
    config.faults = Some(plan());
    let (mut blank, mut bytes) = (Array::new(config.clone(), Blank), Array::new(config, Bytes::new()));
    let mut buffer = vec![0; NAND.page_bytes as usize];
    let mut cx = Cx::new();
    blank.program(&mut cx, Peb(1), 0, Payload::Bytes(&buffer)).unwrap();
    bytes.program(&mut cx, Peb(1), 0, Payload::Bytes(&buffer)).unwrap();
    for _ in 0..20_000 {
        let _ = blank.read(&mut cx, Peb(1), 0, &mut buffer);
        let _ = bytes.read(&mut cx, Peb(1), 0, &mut buffer);
    }
    let found = blank.fault_counts();
    assert_eq!(found, bytes.fault_counts());
    assert!(found.corrected_bits > 0 && found.corrected_pages > 0, "{found:?}");
}

/// Everything that can fail, certain to: nothing does while faults are suspended, and all of it does afterwards.
#[test]
fn nothing_fails_while_faults_are_suspended() {
    let nandsim = NandsimFaults::parse("", "1:0", "8:0", "9:0", 0).unwrap();
    let model = BitErrors { limit_rber: Some(0.4), ..BitErrors::by_rating(1) };
    let plans = [
        FaultPlan { nandsim, ..FaultPlan::none(Seed(1)) },
        FaultPlan { program_failure: 1.0, erase_failure: 1.0, ..FaultPlan::none(Seed(1)) },
        FaultPlan { wear_out: Some(worn(Lifetime::Fixed, 1)), worn_cycles: 1, ..FaultPlan::none(Seed(1)) },
        FaultPlan { bit_errors: Some(model), worn_cycles: 10, ..FaultPlan::none(Seed(1)) },
    ];
    for (at, plan) in plans.into_iter().enumerate() {
        let mut array = faulty(NAND, plan);
        let mut cx = later(YEAR);
        array.suspend_faults(true);
        array.erase(&mut cx, Peb(1)).unwrap();
        put(&mut array, 1, 0, &[0x5c; 1024]);
        let mut buf = [0; 1024];
        let status = array.read(&mut cx, Peb(1), 0, &mut buf).unwrap();
        assert_eq!((buf, status.bitflips_corrected), ([0x5c; 1024], 0), "plan {at}");
        assert_eq!(array.fault_counts(), FaultCounts::default(), "plan {at}");
        array.suspend_faults(false);
        let read = array.read(&mut cx, Peb(1), 0, &mut buf).is_err();
        let erase = array.erase(&mut cx, Peb(1)).is_err();
        let program =
            array.erase(&mut cx, Peb(2)).is_err() || array.program(&mut cx, Peb(1), 0, Payload::Length(512)).is_err();
        assert_eq!(
            (read, erase, program),
            [(true, true, true), (false, true, true), (false, true, true), (true, false, false)][at],
            "plan {at}"
        );
        assert_ne!(array.fault_counts(), FaultCounts::default(), "plan {at}");
    }
}

#[test]
fn an_erase_fails_as_often_as_stated_whatever_the_wear() {
    let failures = |seed, erase_failure| {
        let mut array = faulty(NAND, FaultPlan { erase_failure, ..FaultPlan::none(Seed(seed)) });
        let failed = (0..4000).filter(|at| array.erase(&mut Cx::new(), Peb(at % 4)).is_err()).count() as u64;
        assert_eq!(array.fault_counts().erase_failures, failed);
        assert_eq!(array.fault_counts().program_failures, 0);
        failed
    };
    // 4,000 erases, a fifth of which fail: 800, with a deviation of 25.3.
    let found = failures(1, 0.2);
    assert!((found as i64 - 800).abs() < 127, "{found}");
    assert_eq!((failures(1, 0.0), failures(1, 1.0)), (0, 4000));
    assert_ne!(found, failures(2, 0.2));
}

/// A part that takes pages in any order has no mark to tell what is erased: the cells of a failed erase are still used up, and
/// erased pages read well however worn their block is.
#[test]
fn in_any_order_a_failed_erase_leaves_no_page_and_an_erased_one_reads_well() {
    let mut config = ArrayConfig::plain(NAND);
    config.rules.order = crate::PageOrder::Any;
    config.ecc = Some(Ecc::new(4, 512));
    let model = BitErrors { limit_rber: Some(0.4), ..BitErrors::by_rating(1) };
    let nandsim = NandsimFaults::parse("", "2:1", "", "", 0).unwrap();
    config.faults = Some(FaultPlan { bit_errors: Some(model), nandsim, worn_cycles: 10, ..FaultPlan::none(Seed(1)) });
    let mut array = Array::new(config, Bytes::new());
    let cx = &mut Cx::new();
    array.erase(cx, Peb(2)).unwrap();
    array.program(cx, Peb(2), 0, Payload::Bytes(&[0; 4096])).unwrap();
    assert_eq!(array.erase(cx, Peb(2)), Err(FlashError::EraseFailed { peb: Peb(2) }));
    for page in 0..8 {
        let refused = Err(FlashError::NotErased { peb: Peb(2), offset: page * 512 });
        assert_eq!(array.program(cx, Peb(2), page * 512, Payload::Length(512)), refused);
    }
    for peb in [0, 1, 3] {
        array.program(cx, Peb(peb), 0, Payload::Bytes(&[0; 4096])).unwrap();
    }
    array.erase(cx, Peb(1)).unwrap();
    let mut buf = [0; 4096];
    array.read(&mut later(YEAR), Peb(1), 0, &mut buf).unwrap();
    assert_eq!(buf, [0xff; 4096]);
    for peb in [0, 3] {
        let page_0 = FlashError::Uncorrectable { peb: Peb(peb), offset: 0 };
        assert_eq!(array.read(&mut later(YEAR), Peb(peb), 0, &mut buf), Err(page_0), "its neighbours keep their age");
    }
}

/// Data that a cut left in the cells is as old as the cut, and no older.
#[test]
fn torn_data_ages_from_the_cut() {
    let model = BitErrors { limit_rber: Some(3e-3), retention: 1e6, ..BitErrors::by_rating(10) };
    let mut array = faulty(NAND, FaultPlan { bit_errors: Some(model), worn_cycles: 10, ..FaultPlan::none(Seed(1)) });
    let tear = crate::Tear::Prefix(crate::PrefixBytes::Exactly(u32::MAX));
    array.set_power_cut(Some(crate::PowerCut::at_op(0, tear)));
    array.program(&mut later(YEAR), Peb(0), 0, Payload::Bytes(&[0; 4096])).unwrap_err();
    array.power_on();
    let mut buf = [0; 4096];
    array.read(&mut later(YEAR + Ns(1)), Peb(0), 0, &mut buf).expect("as good as fresh");
    let fresh = array.fault_counts().corrected_bits;
    let _ = array.read(&mut later(YEAR * 10), Peb(0), 0, &mut buf);
    let aged = array.fault_counts();
    assert!(aged.uncorrectable_pages > 0, "{aged:?} after {fresh} bits");
}

#[test]
fn the_calibrated_model_is_that_of_the_plan_and_the_code() {
    let array = decaying(3000);
    let expected = BitErrors::by_rating(3000).calibrate(Some(Ecc::new(4, 512)));
    assert_eq!(array.rber(), Some(expected));
    assert_eq!(nandsim(NandsimFaults::default()).rber(), None);
}
