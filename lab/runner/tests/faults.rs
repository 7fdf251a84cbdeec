//! Faults of the flash in experiments: what they do is arithmetic, and data survive what ECC and UBI can repair.

use runner::measure::Outcome;
use runner::measure::outcome::faults::FaultFigures;
use runner::run::Prepared;

const FLASH: &str = "title = 'small'
[nand]
pebs = 64
endurance = 1000
[ubi]
fastmap = false
[workload]
kind = 'volumes'
[workload.volume.root]
pattern = 'static'
size_bytes = 1_000_000
reads_per_day = 24.0
[workload.volume.logs]
pattern = 'append'
size_bytes = 2_000_000
rate_bytes = 1_000_000
per = 'hour'
write_bytes = 2048
[stop]
days = 1
";

const DRIVE: &str = "title = 'drive'
[ssd]
channels = 1
ways = 2
planes = 1
blocks = 64
pages = 32
over_provisioning_percent = 30
[precondition]
kind = 'sequential'
[workload]
rw = 'randread'
requests = 20000
depth = 4
";

fn run(base: &str, faults: &str) -> Outcome {
    let prepared = Prepared::resolve(&format!("{base}[faults]\n{faults}"), &[]);
    prepared.unwrap_or_else(|error| panic!("{faults}: {error}")).run(None, &mut |_| ()).unwrap()
}

fn figures(outcome: &Outcome) -> FaultFigures {
    outcome.measured.faults.expect("the experiment has faults")
}

fn refused(base: &str, faults: &str) -> String {
    let resolved = Prepared::resolve(&format!("{base}[faults]\n{faults}"), &[]);
    resolved.err().unwrap_or_else(|| panic!("accepted: {faults}")).to_string()
}

#[test]
fn faults_that_never_occur_change_nothing_but_the_time_of_reads() {
    let without = Prepared::resolve(FLASH, &[]).unwrap().run(None, &mut |_| ()).unwrap();
    let with = run(FLASH, "ecc_bits = 4\n");
    assert_eq!(without.measured.erase_counts, with.measured.erase_counts);
    assert_eq!(figures(&with), FaultFigures::default());
    assert_eq!(without.measured.faults, None);
}

#[test]
fn nandsims_grave_pages_lose_the_lebs_that_lie_on_them() {
    // Every page of the flash can be read ten times: more than UBI needs for its headers, less than the 24 reads of data.
    let pages: Vec<String> = (0..64 * 64).map(|page| format!("{page}:10")).collect();
    let found = run(FLASH, &format!("ecc_bits = 1\ngravepages = '{}'\n", pages.join(",")));
    let lost = figures(&found);
    // 1,000,000 bytes are eight LEBs of 126,976 bytes. Of the 24 reads of their 489 pages 14 fail; UBI stops at the first
    // page of a LEB that it cannot read, and it moves none of them.
    assert_eq!(lost.lost, 8);
    assert!(lost.uncorrectable_pages >= 14 * 8, "{lost:?}");
}

#[test]
fn bit_flips_of_nandsim_are_one_read_in_1024_and_corrected() {
    let found = run(FLASH, "ecc_bits = 4\nbitflips = 1\n");
    let faults = figures(&found);
    // 24 reads of 8 LEBs: 1,000,000 bytes are 489 pages of 2,048 bytes.
    let mean = 24.0 * 489.0 / 1024.0;
    let found = faults.corrected_pages as f64;
    assert!((found - mean).abs() < 5.0 * f64::sqrt(mean), "{faults:?}, expected {mean}");
    assert_eq!((faults.lost, faults.uncorrectable_pages, faults.unnoticed_bits), (0, 0, 0));
    let without = figures(&run(FLASH, "ecc_bits = 0\nbitflips = 1\n"));
    assert_eq!(without.corrected_bits, 0);
    assert!(without.unnoticed_bits > 0);
}

#[test]
fn ubi_keeps_all_data_when_programs_fail() {
    let found = run(FLASH, "ecc_bits = 4\nbitflips = 1\nprogram_failure = 0.0005\n");
    let faults = figures(&found);
    assert!(faults.program_failures > 3, "{faults:?}");
    assert_eq!((faults.lost, found.measured.stopped_by.as_str()), (0, "days"));
}

#[test]
fn flash_that_fails_too_often_ends_the_run_and_says_why() {
    // No block can be erased more than twice.
    let blocks: Vec<String> = (0..64).map(|block| format!("{block}:2")).collect();
    let found = run(FLASH, &format!("weakblocks = '{}'\n", blocks.join(",")));
    assert_eq!(found.measured.stopped_by, "failed");
    assert!(figures(&found).retired > 0);
    let runner::measure::Detail::Flash(flash) = &found.measured.detail else { panic!("it is raw flash") };
    assert!(flash.failure.as_ref().is_some_and(|why| why.contains("read-only") || why.contains("bad")), "{flash:?}");
}

#[test]
fn stronger_ecc_loses_less_on_the_same_cells() {
    let lost = |bits: u32| {
        let faults =
            format!("bit_errors = true\nrated_ecc_bits = 4\necc_bits = {bits}\nworn_cycles = 3000\nshelf_s = '1y'\n");
        figures(&run(FLASH, &faults))
    };
    let (weak, rated, strong) = (lost(1), lost(4), lost(24));
    assert!(weak.lost > 0 && rated.lost <= weak.lost && strong.lost == 0, "{weak:?} {rated:?} {strong:?}");
    assert_eq!(strong.uncorrectable_pages, 0, "{strong:?}");
    assert!(weak.scrubbed > strong.scrubbed, "{weak:?} {strong:?}");
}

#[test]
fn a_drive_reads_with_errors_corrects_them_and_reports_what_it_cannot() {
    let flips = |bits| figures(&run(DRIVE, &format!("ecc_bits = {bits}\nbitflips = 1\n")));
    let found = flips(4);
    // A page of 4 KiB each request: one read in 1,024 flips one bit.
    let mean = 20_000.0 / 1024.0;
    assert!((found.corrected_pages as f64 - mean).abs() < 5.0 * f64::sqrt(mean), "{found:?}");
    assert_eq!(found.lost, 0);
    let worn = "bit_errors = true\nrated_ecc_bits = 8\necc_bits = 1\nworn_cycles = 3000\nshelf_s = '1y'\n";
    let endurance = DRIVE.replace("blocks = 64", "blocks = 64\nendurance = 1000");
    let outcome = run(&endurance, worn);
    let found = figures(&outcome);
    let failed = outcome.drive().unwrap().ops[0].errors;
    assert!(failed > 0 && found.lost >= failed, "{found:?}, {failed} failed");
    assert_eq!(outcome.metrics().value("faults.lost"), Ok(found.lost as f64));
}

#[test]
fn the_same_faults_come_again() {
    let faults = "bit_errors = true\necc_bits = 4\nworn_cycles = 3000\nshelf_s = '1y'\nprogram_failure = 0.001\n";
    assert_eq!(run(FLASH, faults).fingerprint, run(FLASH, faults).fingerprint);
}

#[test]
fn keys_without_effect_are_refused_with_what_they_need() {
    let bare = FLASH.replace("endurance = 1000\n", "");
    for (base, faults, expected) in [
        (FLASH, "ecc_step_bytes = 512\n", "`faults.ecc_step_bytes`"),
        (FLASH, "bitflip_threshold = 1\n", "`faults.bitflip_threshold`"),
        (FLASH, "ecc_bits = 4\nbitflip_threshold = 5\n", "`faults.bitflip_threshold`"),
        (FLASH, "ecc_bits = 4\necc_step_bytes = 500\n", "`faults.ecc_step_bytes`"),
        (FLASH, "bit_errors = true\n", "faults.ecc_bits beside it"),
        (FLASH, "bitflips = 1\n", "faults.ecc_bits beside it"),
        (FLASH, "shelf_s = '1y'\n", "`faults.shelf_s`"),
        (FLASH, "worn_cycles = 5\n", "`faults.worn_cycles`"),
        (FLASH, "rated_ecc_bits = 5\n", "`faults.rated_ecc_bits`"),
        (FLASH, "weakblocks = '5:x'\n", "`faults.weakblocks`: found `\"x\" at byte 2`"),
        (FLASH, "program_failure = 2\n", "`faults.program_failure`"),
        (&bare, "wear_out = true\n", "nand.endurance beside it"),
        (DRIVE, "wear_out = true\n", "ssd.endurance beside it"),
        (DRIVE, "badblocks = '3'\n", "`faults.badblocks`"),
        (DRIVE, "ecc_bits = 4\nbitflip_threshold = 2\n", "`faults.bitflip_threshold`"),
    ] {
        let error = refused(base, faults);
        assert!(error.contains(expected), "{faults}: {error}");
    }
}

/// A failure of one operation is none of the other.
#[test]
fn programs_and_erases_fail_by_their_own_probability() {
    let programs = figures(&run(FLASH, "program_failure = 0.001\n"));
    assert!(programs.program_failures > 3 && programs.erase_failures == 0, "{programs:?}");
    let erases = figures(&run(FLASH, "erase_failure = 0.01\n"));
    assert!(erases.erase_failures > 0 && erases.program_failures == 0, "{erases:?}");
    assert_eq!(erases.retired, erases.erase_failures);
}

/// The load draws nothing.
#[test]
fn another_seed_has_other_faults() {
    let found = |seed: u32| {
        let found = run(&format!("seed = {seed}\n{FLASH}"), "ecc_bits = 4\nbitflips = 3\nprogram_failure = 0.001\n");
        (figures(&found), found.measured.erase_counts)
    };
    let all: Vec<_> = (1..=4).map(found).collect();
    assert!(all[1..].iter().any(|other| *other != all[0]), "{:?}", all[0].0);
}

/// Data that lay for a year have more wrong bits than fresh ones.
#[test]
fn data_on_a_drive_age_before_the_load() {
    let text = DRIVE.replace("blocks = 64", "blocks = 64\nendurance = 1000");
    let bits = |shelf: &str| {
        let faults = format!("bit_errors = true\necc_bits = 8\nworn_cycles = 1000\nshelf_s = '{shelf}'\n");
        figures(&run(&text, &faults)).corrected_bits
    };
    let (fresh, old) = (bits("0s"), bits("1y"));
    assert!(old > 2 * fresh, "{fresh} and {old} bits");
}
