//! Power cuts of UBI, enumerated; and the enumeration itself, tested with known-bad twins.

use cuts::{Case, Check, Enumeration, KNOWN_BAD, Outcome, Phase, Plan, Selection};
use runner::schema::word;

fn run(text: &str, every: u64, jobs: usize) -> Outcome {
    let plan = Plan::resolve(text, &[]).expect("a good file");
    let enumeration = Enumeration::prepare(plan).expect("a device that UBI runs on");
    let list = enumeration.list(&Selection::Every(every)).expect("no times");
    enumeration.run(&list, jobs, &|_| {})
}

const NAND: &str = "pebs = 96\npeb_bytes = 8192\npage_bytes = 512";
const SUB_PAGES: &str = "pebs = 72\npeb_bytes = 16384\npage_bytes = 2048\nsubpage_bytes = 512";
const NOR: &str = "medium = 'nor'\npebs = 96\npeb_bytes = 8192\npage_bytes = 1";

fn file(seed: u64, device: &str, policy: &str, fastmap: bool, reserve: bool, operations: u32) -> String {
    format!(
        "title = 't'\nseed = {seed}\n[nand]\n{device}\n[ubi]\nwl = '{policy}'\nwl_threshold = 4\nfastmap = {fastmap}\n\
         fastmap_reserve_pools = {reserve}\n[cuts]\noperations = {operations}\n"
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
    for (mistake, _) in KNOWN_BAD {
        let name = word(&mistake);
        // Without a medium that destroys one, nobody misses the second table.
        let destroys = if name == "write-one-table" { "destroys = 'volume-table'\n" } else { "" };
        let text = format!("{}known_bad = '{name}'\n{destroys}", file(1, NAND, "linux-6.7", true, false, 500));
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
    let text = format!("{}known_bad = 'change-without-copy-flag'\n", file(1, NAND, "linux-6.7", true, false, 300));
    let alone = run(&text, 3, 1);
    assert!(alone.failed > 0);
    assert_eq!(alone, run(&text, 3, 4));
}

#[test]
fn a_failure_can_be_run_again_by_its_number() {
    let text = format!("{}known_bad = 'erase-before-change'\n", file(1, NAND, "linux-6.7", true, false, 300));
    let first = run(&text, 1, 2).failures.swap_remove(0);
    let enumeration = Enumeration::prepare(Plan::resolve(&text, &[]).unwrap()).unwrap();
    let (story, again) = enumeration.tell(first.at, None).expect("a number that was run");
    assert_eq!(again.as_ref(), Some(&first));
    assert!(story.lines().iter().any(|line| line.starts_with(&format!("cut {}:", first.at))), "{story:?}");
    assert!(enumeration.tell(enumeration.cuts(), None).is_err());
}

#[test]
fn a_bad_file_is_refused_by_key() {
    let refused = |text: &str| {
        let text = format!("title = 't'\n[nand]\npebs = 96\npeb_bytes = 8192\npage_bytes = 512\n{text}");
        Plan::resolve(&text, &[]).unwrap_err().to_string()
    };
    assert_eq!(refused("[cuts]\noperatoins = 4"), "unknown key `cuts.operatoins`; did you mean `cuts.operations`?");
    assert_eq!(
        refused("[ubi]\nwl = 'linux-6.2'"),
        "key `ubi.wl`: found `linux-6.2`, expected one of `linux-6.1`, `linux-6.7`; did you mean `linux-6.1`?"
    );
    assert!(refused("subpage_bytes = 500").starts_with("key `nand.subpage_bytes`: found `500`"));
    assert!(refused("[cuts]\ntear = []").starts_with("key `cuts.tear`: found `0 values`"));
    for (faults, most) in [("bitflips = 5\necc_bits = 4", 4), ("bitflips = 1\necc_bits = 0", 0)] {
        let words = format!("`faults.bitflips`: found `{}`, expected at most {most}", most + 1);
        let found = refused(&format!("[faults]\n{faults}\n"));
        assert!(found.contains(&words), "{found}");
    }
    assert!(refused("[cuts]\ntear = ['clean', 'clean']").starts_with("key `cuts.tear`: found `clean twice`"));
    assert!(refused("[cuts]\nknown_bad = 'ignore-fua'").contains("a mistake of UBI"));
    assert!(refused("[cuts.mix]\nfua = 3").starts_with("key `cuts.mix.fua`"));
    assert!(refused("seed = ").starts_with("not valid TOML"));
}

/// A read that needed correction makes UBI move the block: power fails in that move, and while the old block is erased.
#[test]
fn a_cut_in_a_scrub_loses_nothing() {
    let text = include_str!("../../../experiments/cuts-ubi-scrub.toml");
    let enumeration = Enumeration::prepare(Plan::resolve(text, &[]).expect("a good file")).expect("a device");
    let list = enumeration.list_of(&Selection::Every(1), sim::Cause::Scrub).expect("some are scrubbed");
    let found = enumeration.run(&list, 2, &|_| {});
    assert_eq!(found.failures.first(), None);
    let phases: Vec<_> = found.phases.iter().map(|phase| (phase.operation, phase.cause, phase.cuts > 100)).collect();
    assert_eq!(phases, [("erase", "scrub", true), ("program", "scrub", true)]);
    let none = enumeration.list_of(&Selection::Every(1), sim::Cause::Gc);
    assert_eq!(none, Err("no operation of the workload is done for gc".to_owned()));
}

/// While an anchor is erased in place, an older one may be on flash: Linux 6.1 then attaches by that. To wait for free PEBs mends it.
#[test]
fn an_old_fastmap_comes_back_under_linux_6_1_and_not_where_erasures_are_waited_for() {
    let text = include_str!("../../../experiments/cuts-ubi-old-anchor.toml");
    let found = run(text, 7, 2);
    assert!(found.failed >= 3, "{} of {} cuts", found.failed, found.cuts);
    for failure in &found.failures {
        let is_its = |check: &Check| matches!(check, Check::BothWays | Check::Contents);
        assert!(failure.checks.iter().all(is_its), "{failure:#?}");
    }
    let found = run(&format!("{text}\n[ubi.changes]\nwait_for_free_pebs = true\n"), 7, 2);
    assert_eq!(found.failures.first(), None);
    assert!(found.cuts > 1000, "{} cuts", found.cuts);
}

/// One dialect: every experiment that runs can be cut.
#[test]
fn an_experiment_without_a_table_of_cuts_can_be_cut() {
    let text = "title = 't'\n[nand]\npebs = 80\npeb_bytes = 8192\npage_bytes = 512\n[stop]\nsteps = 1\n";
    let outcome = run(text, 97, 2);
    assert_eq!((outcome.failures.first(), outcome.cuts > 20), (None, true), "{} cuts", outcome.cuts);
}

/// Reduces the first failure of an experiment, reads the case back and runs it: it fails by the same checks.
fn reduced(text: &str) -> Case {
    let enumeration = Enumeration::prepare(Plan::resolve(text, &[]).unwrap()).unwrap();
    let found = enumeration.run(&enumeration.list(&Selection::Every(1)).unwrap(), 2, &|_| {});
    let failure = found.failures.first().expect("a known-bad twin fails");
    let case = enumeration.reduce(failure, text, &[]);
    let case = Case::parse(&case.to_text()).expect("what was written can be read");
    let again = Enumeration::prepare(Plan::resolve(&case.experiment, &[]).unwrap()).unwrap();
    let shorter = again.of_case(&case).expect("the same workload").expect("parts can be left out");
    let (_, failure) = shorter.tell(case.cut.expect("it fails with a cut"), None).expect("there is such a cut");
    let checks: Vec<String> = failure.expect("it fails again").checks.iter().map(word).collect();
    assert_eq!(checks, case.checks);
    case
}

#[test]
fn a_failure_is_reduced_to_the_operations_that_it_needs() {
    let text = |mistake| format!("{}known_bad = '{mistake}'\n", file(1, NAND, "linux-6.7", true, false, 500));
    // The volume table is changed atomically too.
    let case = reduced(&text("erase-before-change"));
    assert_eq!((case.workload.len(), &case.workload[0][..6]), (1, "create"), "{:#?}", case.workload);
    let case = reduced(&text("change-without-copy-flag"));
    assert_eq!((case.workload.len(), &case.workload[0][..6]), (1, "create"), "{:#?}", case.workload);

    let drive = "title = 't'\nseed = 1\n[ssd]\nchannels = 2\nways = 1\nplanes = 1\nblocks = 16\npages = 8\npage_kib = 1.0\n\
                 over_provisioning_percent = 50.0\n[ssd.cache]\npolicy = 'lru'\npages = 12\n[cuts]\noperations = 300\n\
                 known_bad = 'flush-at-once'\n";
    let case = reduced(drive);
    assert!(case.workload.len() <= 12, "{:#?}", case.workload);
    assert!(
        case.workload.iter().any(|request| request == "flush" || request.ends_with(", FUA")),
        "{:#?}",
        case.workload
    );

    let ubiblock = "title = 't'\n[nand]\npebs = 72\npeb_bytes = 4096\npage_bytes = 512\n[cuts]\nmost_pages = 14\n\
                    operations = 240\n[ubiblock]\nsize_bytes = 21504\nform = 'unmap-first'\n";
    let case = reduced(ubiblock);
    assert!(case.workload.len() <= 12, "{:#?}", case.workload);
}

#[test]
fn a_case_of_another_workload_is_refused_by_its_first_operation() {
    let text = format!("{}known_bad = 'erase-before-change'\n", file(1, NAND, "linux-6.7", true, false, 300));
    let mut case = reduced(&text);
    case.workload[0] = "sync".to_owned();
    let again = Enumeration::prepare(Plan::resolve(&case.experiment, &[]).unwrap()).unwrap();
    let error = again.of_case(&case).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("operation 1 is") && error.contains("the case has \"sync\""), "{error}");
}

#[test]
fn every_cut_is_in_one_phase() {
    let text = file(1, NAND, "linux-6.7", true, false, 200);
    let found = run(&text, 1, 2);
    let phases: Vec<_> = found.phases.iter().collect();
    assert_eq!(phases.iter().map(|phase| phase.cuts).sum::<u64>(), found.cuts);
    for wanted in
        [("program", "host"), ("program", "header"), ("program", "fastmap"), ("program", "layout"), ("erase", "host")]
    {
        assert!(phases.iter().any(|phase| (phase.operation, phase.cause) == wanted), "{wanted:?}: {phases:#?}");
    }
    let names: Vec<_> = phases.iter().map(|phase| (phase.operation, phase.cause)).collect();
    assert!(names.is_sorted() && names.iter().all(|(operation, _)| !operation.is_empty()), "{names:?}");
}

const FAULTS: &str =
    "[faults]\nbitflips = 2\nweakblocks = '7:3,30:2'\nweakpages = '300:4'\necc_bits = 4\necc_step_bytes = 512\n";

/// What survives when cuts meet the other faults: power fails again in the recovery, erases and programs fail, bits flip,
/// torn cells read differently each time, and the medium destroys a copy of the volume table.
#[test]
fn every_promise_survives_cuts_among_other_faults() {
    for (name, more) in [
        ("further cuts", "further_cuts = 4\n"),
        ("unstable cells", "unstable = true\n"),
        ("a volume table destroyed", "destroys = 'volume-table'\n"),
        ("failing flash", FAULTS),
    ] {
        for (seed, device) in (1..).zip([NAND, SUB_PAGES]) {
            let outcome = run(&(file(seed, device, "linux-6.7", true, false, 300) + more), 5, 2);
            assert_eq!(outcome.failures.first(), None, "{name}, {device}");
            assert!(outcome.cuts > 200, "{name}, {device}: {} cuts prove little", outcome.cuts);
        }
    }
}

/// UBI, as Linux, counts the erasures of a torture test when all are done: cut in between, a counter may fall. Nothing else
/// may, and no attach that fails on the failing flash is passed over.
#[test]
fn a_cut_in_a_torture_test_costs_counts_of_that_block_and_nothing_else() {
    let text = file(1, NAND, "linux-6.7", true, false, 2000).replace("[ubi]", "[ubi]\nbeb_per_1024 = 300")
        + "[faults]\nprogram_failure = 0.002\n";
    let found = run(&text, 5, 2);
    let torture = |phase: &&Phase| phase.cause == "torture";
    let tortured: u64 = found.phases.iter().filter(torture).map(|phase| phase.cuts).sum();
    assert!(tortured > 40, "{tortured} cuts of torture: {:?}", found.phases);
    for failure in &found.failures {
        assert_eq!(failure.checks, [Check::ComesUp], "{failure:#?}");
        assert!(failure.broken.iter().all(|what| what.contains("cannot be attached: ")), "{failure:#?}");
    }
}

/// A torn page of MLC takes an older one with it. UBI cannot keep that, and Linux refuses such parts; everything else is kept.
#[test]
fn paired_pages_lose_what_shares_cells_with_a_torn_page_and_nothing_else() {
    let whole = file(1, NAND, "linux-6.7", true, false, 400) + "paired_pages = 'mlc'\n";
    assert_eq!(run(&whole, 2, 2).failures.first(), None, "and after a second cut");
    let once = run(&(whole + "second_cut = false\n"), 1, 2);
    assert_eq!(once.failures.first(), None);
    assert!(once.lost > 0 && once.older > 0, "{} lost and {} older in {} cuts", once.lost, once.older, once.cuts);
    // Only a program tears a page, and one alone takes one LEB at most.
    for phase in once.phases.iter() {
        let most = if phase.operation == "program" { phase.cuts } else { 0 };
        assert!(phase.lost <= most, "{phase:?}");
    }
    let alone = run(&file(1, NAND, "linux-6.7", true, false, 400), 2, 2);
    assert_eq!((alone.lost, alone.older), (0, 0), "without pairs nothing is lost");
}
