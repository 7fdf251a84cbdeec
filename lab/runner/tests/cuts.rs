//! Power cuts of UBI, enumerated; and the enumeration itself, tested by twins that are known to be bad.

use runner::cuts::{Enumeration, KNOWN_BAD, Outcome, Plan, Selection};

fn run(text: &str, every: u64, jobs: usize) -> Outcome {
    let plan = Plan::resolve(text).expect("a good file");
    let enumeration = Enumeration::prepare(plan).expect("a device that UBI runs on");
    enumeration.run(Selection { every }, jobs, &|_| {})
}

const NAND: &str = "medium = 'nand'";
const SUB_PAGES: &str = "pebs = 72\npeb_bytes = 16384\npage_bytes = 2048\nsubpage_bytes = 512";
const NOR: &str = "medium = 'nor'";

fn file(seed: u64, device: &str, policy: &str, fastmap: bool, reserve: bool, operations: u32) -> String {
    format!(
        "seed = {seed}\n[device]\n{device}\n[ubi]\npolicy = '{policy}'\nfastmap = {fastmap}\n\
         fastmap_reserve_pools = {reserve}\n[workload]\noperations = {operations}\n"
    )
}

/// All kinds of tears: 7 has no factor in common with their number.
#[test]
fn every_promise_survives_every_cut() {
    let mut cuts = 0;
    for (seed, device) in (1..).zip([NAND, SUB_PAGES, NOR]) {
        for policy in ["linux-6.1", "linux-6.7"] {
            for (fastmap, reserve) in [(true, false), (true, true), (false, false)] {
                let outcome = run(&file(seed, device, policy, fastmap, reserve, 400), 7, 2);
                let first = outcome.failures.first();
                assert_eq!(first, None, "{device}, {policy}, fastmap: {fastmap}, reserved: {reserve}");
                cuts += outcome.cuts;
            }
        }
    }
    assert!(cuts > 5000, "{cuts} cuts prove little");
}

/// The first cut that finds each mistake is in `docs/format/cuts-json.md`.
#[test]
fn every_known_bad_twin_is_caught() {
    for (name, _) in KNOWN_BAD {
        let text = format!("{}[cuts]\nknown_bad = '{name}'\n", file(1, NAND, "linux-6.7", true, false, 500));
        let outcome = run(&text, 1, 2);
        println!(
            "{name}: {} of {} cuts, first {:?}",
            outcome.failed,
            outcome.cuts,
            outcome.failures.first().map(|f| f.at)
        );
        assert_eq!(outcome.failed > 0, name != "none", "{name}: {:#?}", outcome.failures.first());
    }
}

#[test]
fn the_result_does_not_depend_on_the_number_of_threads() {
    let text =
        format!("{}[cuts]\nknown_bad = 'change-without-copy-flag'\n", file(1, NAND, "linux-6.7", true, false, 300));
    let alone = run(&text, 3, 1);
    assert!(alone.failed > 0);
    assert_eq!(alone, run(&text, 3, 4));
}

#[test]
fn a_failure_can_be_run_again_by_its_number() {
    let text = format!("{}[cuts]\nknown_bad = 'erase-before-change'\n", file(1, NAND, "linux-6.7", true, false, 300));
    let first = run(&text, 1, 2).failures.swap_remove(0);
    let enumeration = Enumeration::prepare(Plan::resolve(&text).unwrap()).unwrap();
    let (story, again) = enumeration.tell(first.at).expect("a number that was run");
    assert_eq!(again.as_ref(), Some(&first));
    assert!(story.lines().iter().any(|line| line.starts_with(&format!("cut {}:", first.at))), "{story:?}");
    assert!(enumeration.tell(enumeration.cuts()).is_err());
}

#[test]
fn a_bad_file_is_refused_by_key() {
    let refused = |text: &str| Plan::resolve(text).unwrap_err().to_string();
    assert_eq!(
        refused("[workload]\noperatoins = 4"),
        "workload.operatoins: found an unknown key, expected a known key; the nearest is `operations`"
    );
    assert_eq!(
        refused("[ubi]\npolicy = 'linux-5.0'"),
        "ubi.policy: found \"linux-5.0\", expected one of \"linux-6.1\", \"linux-6.7\""
    );
    assert_eq!(refused("[device]\npebs = 3"), "device.pebs: found 3, expected an integer from 16 to 65536");
    assert_eq!(refused("[device]\npage_bytes = 500"), "device.page_bytes: found 500, expected a power of two");
    assert!(refused("[cuts]\ntear = []").starts_with("cuts.tear: found []"));
    assert!(refused("seed = ").starts_with("line 1: found "));
}
