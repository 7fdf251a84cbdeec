//! The life of a device at the load of a run, and the wear from which it follows, by hand.

use nand::WearOut;
use runner::measure::Metrics;
use runner::measure::life::{Device, Rates, put};
use runner::measure::outcome::drive::WearFigures;
use runner::report;
use runner::run::Prepared;

const ENDURANCE: u32 = 3000;
/// A year of 365.25 days, in seconds.
const YEAR: f64 = 365.25 * 86_400.0;

/// The metrics of a device that ran for 1,000 s, in which its host wrote 5 MB.
fn life(erase_counts: &[u32], reserve: u64) -> Metrics {
    let mut metrics = Metrics::default();
    let device = Device { erase_counts, seconds: 1000.0, host_bytes: 5e6, endurance: ENDURANCE, reserve };
    put(&mut metrics, device);
    metrics
}

/// Seconds until so many blocks are worn out: the 10th, 50th and 90th percentile.
fn until(erase_counts: &[u32], number: u64) -> [f64; 3] {
    Rates::of(erase_counts, 1000.0, WearOut::by_rating(ENDURANCE)).until(number)
}

fn near(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < 1e-9
}

#[test]
fn a_life_is_in_years_and_its_bytes_are_those_of_the_median() {
    let counts = [40, 50, 60, 900];
    let metrics = life(&counts, 1);
    let [p10, p50, p90] = until(&counts, 1);
    for (share, seconds) in [("p10", p10), ("p50", p50), ("p90", p90)] {
        let years = metrics.value(&format!("life.first.{share}_years")).unwrap();
        assert!(near(years * YEAR, seconds), "{share}: {years} years, {seconds} s");
    }
    assert!(near(metrics.value("life.first.host_bytes").unwrap(), p50 * 5e6 / 1000.0));
}

/// With a reserve of one block the second that wears out is the end, here a tenth as worn as the first.
#[test]
fn a_reserve_is_used_up_by_one_block_more_than_it_has() {
    let counts = [1000, 100, 100];
    for (reserve, number) in [(0, 1), (1, 2), (2, 3)] {
        let median = life(&counts, reserve).value("life.reserve.p50_years").unwrap() * YEAR;
        assert!(near(median, until(&counts, number)[1]), "{reserve}");
        let level = life(&counts, reserve).value("life.level_reserve.p50_years").unwrap() * YEAR;
        assert!(near(level, until(&[400; 3], number)[1]), "{reserve}, level");
    }
    let years = |reserve| life(&counts, reserve).value("life.reserve.p50_years").unwrap();
    assert!(years(1) > 5.0 * years(0), "{} and {}", years(0), years(1));
}

#[test]
fn level_wear_is_over_all_blocks_also_those_that_were_never_erased() {
    let level = life(&[0, 0, 0, 200], 0).value("life.level_first.p50_years").unwrap() * YEAR;
    assert!(near(level, until(&[50; 4], 1)[1]), "{level}");
}

/// Ten erasures a block, not ten of the device.
#[test]
fn lives_by_uneven_wear_need_ten_erasures_of_each_block() {
    let has_first = |count| life(&[count; 20], 0).value("life.first.p50_years").is_ok();
    assert_eq!([1, 9, 10].map(has_first), [false, false, true]);
    assert!(life(&[9; 20], 0).value("life.level_first.p50_years").is_ok());
}

#[test]
fn wear_counts_the_blocks_that_were_never_erased() {
    let wear = WearFigures::of(&[0, 6, 0, 2]);
    assert_eq!((wear.blocks, wear.erases, wear.min, wear.p50, wear.max), (4, 8, 0, 0, 6));
    assert_eq!(wear.mean, 2.0);
}

const LOGS: &str = "title = 't'\n[nand]\npebs = 128\nendurance = 3000\n[ubi]\nfastmap = false\nbeb_per_1024 = 40\n\
                    [workload]\nkind = 'volumes'\n[workload.volume.logs]\npattern = 'append'\nsize_bytes = 1_000_000\n\
                    rate_bytes = 1_000_000\n[stop]\ndays = 3\n";

/// 40 of 1,024 PEBs are kept for bad ones: of 128 five.
#[test]
fn the_reserve_of_raw_flash_is_what_ubi_keeps_for_bad_blocks() {
    let found = Prepared::resolve(LOGS, &[]).unwrap().run(None, &mut |_| ()).unwrap();
    assert_eq!(found.metrics().value("life.reserve_blocks"), Ok(5.0));
    let answer = report::answer::of(&found).join(" ");
    assert!(answer.contains("the 5 blocks in reserve are used up after"), "{answer}");
    // The log has eight LEBs, and no data are moved: the other blocks wear little.
    let [first, level] =
        ["first", "level_first"].map(|end| found.metrics().value(&format!("life.{end}.p50_years")).unwrap());
    assert!(level > 1.1 * first && answer.contains("with level wear the first would last"), "{answer}");
}

#[test]
fn a_reserve_of_one_block_or_none_is_a_sentence() {
    for (per_1024, expected) in [(8, "; the only block in reserve is used up after "), (0, "; no block is in reserve.")]
    {
        let text = LOGS.replace("beb_per_1024 = 40", &format!("beb_per_1024 = {per_1024}"));
        let found = Prepared::resolve(&text, &[]).unwrap().run(None, &mut |_| ()).unwrap();
        let answer = report::answer::of(&found).join(" ");
        assert!(answer.contains(expected), "{answer}");
    }
}

/// Of a flash that was worn before the run shows only a part of the wear.
#[test]
fn flash_that_was_worn_before_has_no_life_in_the_answer() {
    let answer = |faults: &str| {
        let found = Prepared::resolve(&format!("{LOGS}[faults]\nwear_out = true\n{faults}"), &[]).unwrap();
        report::answer::of(&found.run(None, &mut |_| ()).unwrap()).join(" ")
    };
    assert!(answer("").contains("At this load"), "{}", answer(""));
    let worn = answer("worn_cycles = 100\n");
    assert!(!worn.contains("At this load"), "{worn}");
}
