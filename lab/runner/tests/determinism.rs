//! The same experiment and seed give the same result, bit for bit, in every build profile and with any number of
//! threads.

use runner::measure::Outcome;
use runner::run::Prepared;

const SMALL: &str = "title = 'golden'
[nand]
pebs = 128
delays = 'on'
[ubi]
wl = 'linux-6.1'
wl_threshold = 64
[fs]
compression = 'none'
page_cache = {}
[fsstress]
processes = 2
loops = 0
[stop]
steps = 30000
";

/// Fingerprint of `SMALL`. If it changes, a result changed: raise `MODEL_VERSION`, unless it only has new figures, and add it to the changelog.
/// `make test` runs this in the dev profile, `make thorough` in the release profile.
const GOLDEN: &str = "6727615ffa2eec93d24f8e2954eb16cd8989bb0c1e23c0d1cceda8281dc37906";

fn found(sets: &[(&str, &str)]) -> Outcome {
    let sets: Vec<_> = sets.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    run(SMALL, &sets)
}

fn run(text: &str, sets: &[(String, String)]) -> Outcome {
    Prepared::resolve(text, sets).unwrap().run(None, &mut |_| ()).unwrap()
}

#[test]
fn the_result_is_the_golden_one() {
    assert_eq!(found(&[]).fingerprint, GOLDEN);
}

#[test]
fn another_seed_gives_another_result() {
    assert_ne!(found(&[("seed", "2")]).measured.erase_counts, found(&[]).measured.erase_counts);
}

#[test]
fn threads_do_not_matter() {
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            use rayon::prelude::*;
            (1..5u64)
                .into_par_iter()
                .map(|seed| found(&[("seed", &seed.to_string()), ("stop.steps", "5000")]).fingerprint)
                .collect::<Vec<_>>()
        })
    };
    assert_eq!(with(1), with(2));
}

#[test]
fn the_resolved_experiment_gives_the_same_result_again() {
    let first = found(&[("stop.steps", "3000")]);
    assert_eq!(run(&first.experiment.to_toml(), &[]).fingerprint, first.fingerprint);
}

#[test]
fn causes_sum_to_what_the_flash_took() {
    let found = found(&[("stop.steps", "3000")]);
    let by_cause: u64 = found.flash().unwrap().erases_by_cause.iter().map(|(_, erases)| erases).sum();
    assert_eq!(by_cause, found.measured.erase_counts.iter().map(|&ec| u64::from(ec)).sum::<u64>());
    assert!(found.flash().unwrap().programmed_bytes.iter().any(|(cause, bytes)| cause == "fastmap" && *bytes > 0));
}

#[test]
fn each_condition_ends_a_run() {
    for (key, value, words) in [
        ("stop.steps", "2000", " steps of the load."),
        ("stop.virtual_s", "10", " s of virtual time."),
        ("stop.max_erases", "40", "ended when the first PEB had 40 erasures."),
        ("stop.mean_erases_of_others", "3", "when the PEBs behind the first 64 had 3 erasures on average."),
    ] {
        let found = found(&[("stop.steps", "0"), (key, value)]);
        assert_eq!(format!("stop.{}", found.measured.stopped_by), key);
        let said = runner::report::ended::of(&found);
        assert!(said.ends_with(words), "{said}");
    }
}
