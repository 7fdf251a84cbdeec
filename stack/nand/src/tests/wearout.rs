//! Endurance, codes and codewords: shares by hand, and the numbers of data sheets.

use sim::seam::{Flash, FlashError};
use sim::{Cx, Ns, Peb, Seed};

use super::{NAND, put};
use crate::wearout::{Codeword, YEAR};
use crate::{Array, ArrayConfig, BitErrors, Bytes, Ecc, FaultPlan, Geometry, Lifetime, WearOut};

fn later(span: Ns) -> Cx {
    let mut cx = Cx::new();
    cx.spend(span);
    cx
}

/// The formulas of the families, by hand, for a rating of 1,000 cycles at which 2 % have failed: the normal quantile of 2 % is
/// -2.053748910631823 (any table of the normal distribution).
#[test]
fn shares_of_failed_blocks_are_those_of_the_families() {
    const Q02: f64 = -2.053_748_910_631_823;
    let share = |lifetime, erases| WearOut { lifetime, ..WearOut::by_rating(1000) }.failed_share(erases);
    let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found}, expected {expected}");
    for lifetime in [Lifetime::Weibull { shape: 4.0 }, Lifetime::LogNormal { sigma: 0.3 }, Lifetime::Normal { cv: 0.2 }]
    {
        near(share(lifetime, 1000.0), 0.02);
        assert_eq!((share(lifetime, 0.0), share(lifetime, -5.0)), (0.0, 0.0), "{lifetime:?}");
    }
    // Weibull: 1 - 0.98^((n/N)^4). Half the rating: 1 - 0.98^(1/16).
    near(share(Lifetime::Weibull { shape: 4.0 }, 500.0), 1.0 - 0.98_f64.powf(1.0 / 16.0));
    near(share(Lifetime::Weibull { shape: 4.0 }, 2000.0), 1.0 - 0.98_f64.powi(16));
    // The median of the normal is N / (1 + cv·q), that of the lognormal N·exp(-σ·q).
    near(share(Lifetime::Normal { cv: 0.2 }, 1000.0 / (1.0 + 0.2 * Q02)), 0.5);
    near(share(Lifetime::LogNormal { sigma: 0.3 }, 1000.0 * (-0.3 * Q02).exp()), 0.5);
    // One deviation above the median: 0.8413447460685429.
    near(share(Lifetime::LogNormal { sigma: 0.3 }, 1000.0 * (0.3 - 0.3 * Q02).exp()), 0.841_344_746_068_542_9);
    assert_eq!((share(Lifetime::Fixed, 999.0), share(Lifetime::Fixed, 1000.0)), (0.0, 1.0));
    // No block lasts less than one erase.
    let short = WearOut { failed_at_rating: 0.999, ..WearOut::by_rating(1) };
    let mut rng = Seed(5).stream("test/endurance");
    assert!((0..1000).all(|_| short.draw_endurance(&mut rng) >= 1));
    // One program in 10^7 at the rating; twice the cycles, 2^4 times as many.
    let wear = WearOut::by_rating(1000);
    assert!((wear.program_failure(1000) / 1e-7 - 1.0).abs() < 1e-12);
    assert!((wear.program_failure(2000) / 16e-7 - 1.0).abs() < 1e-12);
}

/// Normal draws have the mean, the deviation and the tails of a normal distribution: 15.87 % beyond one deviation on each side.
#[test]
fn normal_and_lognormal_endurances_spread_as_stated() {
    const Q02: f64 = -2.053_748_910_631_823;
    let mut rng = Seed(5).stream("test/endurance");
    let (mean, median) = (1e6 / (1.0 + 0.2 * Q02), 1e6 * (-0.3 * Q02).exp());
    let mut outside = |lifetime, low: f64, high: f64| {
        let wear = WearOut { lifetime, ..WearOut::by_rating(1_000_000) };
        let drawn: Vec<f64> = (0..20_000).map(|_| f64::from(wear.draw_endurance(&mut rng))).collect();
        [drawn.iter().filter(|&&n| n < low).count(), drawn.iter().filter(|&&n| n > high).count()]
    };
    // 3,173 of 20,000 on each side, with a deviation of 52.
    let normal = outside(Lifetime::Normal { cv: 0.2 }, mean * 0.8, mean * 1.2);
    let lognormal = outside(Lifetime::LogNormal { sigma: 0.3 }, median * (-0.3_f64).exp(), median * 0.3_f64.exp());
    for found in normal.into_iter().chain(lognormal) {
        assert!((2913..3433).contains(&found), "{normal:?} {lognormal:?}");
    }
}

/// A binary BCH code over GF(2^m) corrects t bits with m·t parity bits, where 2^m - 1 is at least the length of the codeword.
/// The codes of data sheets: 4 and 8 bits per 512 bytes take 7 and 13 bytes, 24 and 40 per 1,024 take 42 and 70.
#[test]
fn parity_is_that_of_a_bch_code() {
    for (bits, step_bytes, parity) in [
        (4, 512, 7),
        (8, 512, 13),
        (16, 512, 26),
        (24, 1024, 42),
        (40, 1024, 70),
        (60, 1024, 105),
        // 8 × 56 + 9 × 7 = 511 = 2^9 - 1: exactly full. One bit more needs the next field: 10 × 8 bits.
        (7, 56, 8),
        (8, 56, 10),
        // 8 × 30 + 8 = 248 fit in 255; 8 × 31 + 8 = 256 do not.
        (1, 30, 1),
        (1, 31, 2),
    ] {
        let ecc = Ecc::new(bits, step_bytes);
        assert_eq!(ecc.parity_bytes(), parity, "{bits} of {step_bytes}");
        assert_eq!(ecc.codeword_bits(), 8 * (step_bytes + parity));
    }
    // Linux scrubs at three quarters of the strength, rounded up.
    assert_eq!([1, 2, 3, 4, 5, 6, 7, 8].map(|bits| Ecc::new(bits, 512).scrub_at), [1, 2, 3, 3, 4, 5, 6, 6]);
}

/// One wrong bit at a time in two codewords: at the strength a page is corrected, beyond it is lost, in the codeword that was read.
#[test]
fn each_codeword_is_corrected_on_its_own() {
    let geometry = Geometry { page_bytes: 1024, subpage_bytes: 256, peb_bytes: 8192, ..NAND };
    let limit = 0.002;
    let model = BitErrors { limit_rber: Some(limit), ..BitErrors::by_rating(1000) };
    let mut config = ArrayConfig::plain(geometry);
    config.ecc = Some(Ecc { bits: 8, step_bytes: 512, scrub_at: 5 });
    config.faults = Some(FaultPlan { bit_errors: Some(model), worn_cycles: 1000, ..FaultPlan::none(Seed(3)) });
    let mut array = Array::new(config, Bytes::new());
    let at_year = later(YEAR);
    let (mut lost, mut scrubbed, mut whole_lost) = (0, 0, 0);
    for peb in 0..4 {
        put(&mut array, peb, 0, &[0x5a; 8192]);
        for page in 0..8 {
            let mut seen = Vec::new();
            for half in 0..2 {
                let mut buf = [0; 512];
                let before = array.fault_counts();
                let offset = page * 1024 + half * 512;
                let found = array.read(&mut at_year.clone(), Peb(peb), offset, &mut buf);
                let counts = array.fault_counts().since(&before);
                // Any byte of it is read with the whole codeword.
                for at in [0, 1, 510, 511] {
                    let part = array.read(&mut at_year.clone(), Peb(peb), offset + at, &mut [0]);
                    assert_eq!(part, found);
                }
                match found {
                    Ok(status) => {
                        assert_eq!(buf, [0x5a; 512]);
                        assert_eq!(counts.corrected_bits, u64::from(status.bitflips_corrected));
                        assert_eq!(counts.corrected_pages, u64::from(status.bitflips_corrected > 0));
                        assert!(status.bitflips_corrected <= 8 && status.scrub == (status.bitflips_corrected >= 5));
                        scrubbed += u32::from(status.scrub);
                        seen.push(Some(status.bitflips_corrected));
                    }
                    Err(error) => {
                        let start = page * 1024;
                        assert_eq!(error, FlashError::Uncorrectable { peb: Peb(peb), offset: start });
                        let wrong: u32 = buf.iter().map(|byte| (byte ^ 0x5a).count_ones()).sum();
                        // All wrong bits of the codeword reach the reader, but those in its parity.
                        assert!((1..40).contains(&wrong), "{wrong}");
                        assert_eq!((counts.uncorrectable_pages, counts.corrected_pages), (1, 0));
                        lost += 1;
                        seen.push(None);
                    }
                }
            }
            let mut buf = [0; 1024];
            match array.read(&mut at_year.clone(), Peb(peb), page * 1024, &mut buf) {
                Ok(status) => assert_eq!(Some(status.bitflips_corrected), seen[0].max(seen[1]), "the worse codeword"),
                Err(_) => {
                    assert!(seen.contains(&None));
                    for half in 0..2 {
                        assert_eq!(buf[half * 512..][..512] == [0x5a; 512], seen[half].is_some());
                    }
                    whole_lost += 1;
                }
            }
        }
    }
    // 64 codewords of 4,200 bits with 8.4 wrong on average.
    assert!((10..54).contains(&lost) && whole_lost > 8 && scrubbed > 10, "{lost} {whole_lost} {scrubbed}");
}

/// The beta-binomial distribution by rising factorials: C(n,k) · α↑k · β↑(n-k) / (α+β)↑n.
#[test]
fn wrong_bits_of_a_codeword_are_beta_binomial() {
    for (bits, rber, shape) in [(8_u32, 0.3, 2_u32), (1, 0.5, 1), (20, 0.01, 16), (3, 0.45, 5)] {
        let word = Codeword::new(bits, rber, shape);
        let (alpha, beta) = (f64::from(shape), f64::from(shape) * (1.0 - rber) / rber);
        let rising = |from: f64, count: u32| (0..count).map(|j| from + f64::from(j)).product::<f64>();
        let choose = |k: u32| (0..k).map(|j| f64::from(bits - j) / f64::from(j + 1)).product::<f64>();
        let p: Vec<f64> = (0..=bits)
            .map(|k| choose(k) * rising(alpha, k) * rising(beta, bits - k) / rising(alpha + beta, bits))
            .collect();
        assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        let mut below = 0.0;
        for k in 0..=bits {
            below += p[k as usize];
            let more: f64 = p[k as usize + 1..].iter().sum();
            let found = word.more_than(k);
            assert!((found - more).abs() <= 1e-9 * more, "{bits} bits, more than {k}: {found}, expected {more}");
            // Of all ranks, p(k) give k. Where the share is within rounding, no rank can tell.
            if p[k as usize] > 1e-6 {
                let (first, last) = (below - p[k as usize] * 0.999, below - p[k as usize] * 0.001);
                assert_eq!((word.quantile(first), word.quantile(last)), (k, k), "{bits} bits");
            }
        }
        assert_eq!((word.quantile(0.0), word.quantile(1.0)), (0, bits));
    }
}

/// The defaults that the documentation states.
#[test]
fn defaults_are_as_documented() {
    let bits = BitErrors::by_rating(3000);
    let expected = BitErrors {
        rating_cycles: 3000,
        base_of_limit: 0.01,
        wear_exponent: 2.0,
        retention: 0.5,
        retention_unit: Ns(3600 * 1_000_000_000),
        reads_at_limit: 1_000_000.0,
        uber_at_limit: 1e-15,
        limit_rber: None,
        shape: 16,
    };
    assert_eq!(bits, expected);
    let wear = WearOut {
        rating_cycles: 3000,
        failed_at_rating: 0.02,
        lifetime: Lifetime::Weibull { shape: 4.0 },
        program_failure_at_rating: 1e-7,
        program_failure_exponent: 4.0,
    };
    assert_eq!(WearOut::by_rating(3000), wear);
    assert_eq!(YEAR, Ns(31_557_600 * 1_000_000_000), "365.25 days");
    // Without a code the limit is one wrong bit in 512 bytes; a stated one holds whatever the code.
    assert_eq!(bits.calibrate(None), bits.calibrate(Some(Ecc::new(1, 512))));
    let stated = BitErrors { limit_rber: Some(3e-3), ..bits };
    assert_eq!(stated.calibrate(None), stated.calibrate(Some(Ecc::new(40, 1024))));
    assert_eq!(stated.calibrate(None).limit, 3e-3);
}
