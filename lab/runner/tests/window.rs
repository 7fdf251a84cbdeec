//! The window of measurement of a run on a drive: from its first counted request to its last completion.

use runner::measure::Outcome;
use runner::run::Prepared;

const DRIVE: &str = "title = 't'\n[ssd]\nchannels = 2\nways = 2\nplanes = 2\nblocks = 64\npages = 32\n\
                     over_provisioning_percent = 20\n";

fn run(text: &str) -> Outcome {
    let prepared = Prepared::resolve(&format!("{DRIVE}{text}"), &[]).unwrap_or_else(|error| panic!("{error}"));
    prepared.run(None, &mut |_| ()).unwrap_or_else(|error| panic!("{error}"))
}

fn of(outcome: &Outcome, id: &str) -> f64 {
    outcome.metrics().value(id).unwrap_or_else(|error| panic!("{error}"))
}

const STEADY: &str = "[precondition]\nkind = 'steady'\n";

#[test]
fn collection_after_the_last_completion_is_debt_and_in_no_other_figure() {
    // Dies are never idle for a second in the run, so background collection begins after it.
    let with = |gc_background: u32| {
        run(&format!(
            "ftl.gc_background = {gc_background}\nftl.background_after_us = 1e6\n{STEADY}\
             [workload]\nrequests = 500\ndepth = 4\n"
        ))
    };
    let (none, much) = (with(0), with(24));
    assert!(of(&much, "debt.pages") > 1000.0 && of(&much, "debt.erases") > 10.0 && of(&much, "debt.seconds") > 1.0);
    assert_eq!([of(&none, "debt.pages"), of(&none, "debt.erases"), of(&none, "debt.seconds")], [0.0; 3]);
    for metric in none.metrics().all().iter().filter(|metric| !metric.id.starts_with("debt.")) {
        assert_eq!(of(&much, &metric.id), metric.value, "{}", metric.id);
    }
    assert_eq!(much.measured.erase_counts, none.measured.erase_counts);
    assert_eq!(much.drive().unwrap().timeline, none.drive().unwrap().timeline);
}

#[test]
fn the_run_ends_with_its_last_completion() {
    let found = run("[precondition]\nkind = 'sequential'\n[workload]\nrw = 'read'\nrequests = 1\n");
    let (time, latency) = (of(&found, "run.time_us"), of(&found, "read.mean_us"));
    assert!(time > 10.0 && time == latency, "{time} us, of which the read took {latency}");
}

#[test]
fn amplification_does_not_depend_on_the_length_of_the_run() {
    let waf = |requests: u32| {
        let found = run(&format!(
            "cache.policy = 'lru'\ncache.mib = 2\nfront.write_cache = true\nftl.foreground = 'paced'\n{STEADY}\
             settled_within = 0.005\n[workload]\nrequests = {requests}\ndepth = 8\n"
        ));
        assert!(found.drive().unwrap().before.warm_up.unwrap().settled);
        of(&found, "waf")
    };
    let (short, long) = (waf(3_000), waf(100_000));
    assert!((short / long - 1.0).abs() < 0.03, "{short} after 3,000 requests, {long} after 100,000");
}

#[test]
fn without_a_warm_up_the_buffer_holds_a_short_run() {
    let found = run(&format!(
        "cache.policy = 'lru'\ncache.mib = 2\nfront.write_cache = true\n{STEADY}warm_up_windows = 0\n\
         [workload]\nrequests = 400\n"
    ));
    assert_eq!((of(&found, "waf"), of(&found, "debt.buffered_pages") > 300.0), (0.0, true));
    assert_eq!(found.drive().unwrap().before.warm_up, None);
}

#[test]
fn a_ramp_is_in_no_figure_but_the_timeline() {
    let found = run(&format!("{STEADY}[workload]\nramp_s = 0.5\nseconds = 1\ndepth = 8\n"));
    let drive = found.drive().unwrap();
    let written = drive.op("write").unwrap().bytes;
    let all: u64 = drive.timeline.iter().map(|point| point.bytes[1]).sum();
    // The first request that counts opens the window.
    assert_eq!(drive.write_amplification.host_bytes, written - 4096);
    assert!(all > written + written / 3, "{all} bytes with the ramp, {written} without");
    assert!((1_000_000_000..1_050_000_000).contains(&drive.measured_ns), "{} ns", drive.measured_ns);
    let erases: u64 = drive.timeline.iter().map(|point| point.erases).sum();
    assert!(drive.wear.erases > 0 && drive.wear.erases < erases - erases / 5, "{} of {erases}", drive.wear.erases);
    assert!(drive.utilisation.dies.iter().all(|&share| (0.0..=1.01).contains(&share)));
}

#[test]
fn merges_of_the_preconditioning_do_not_count() {
    let found = run("ftl.mapping = 'bast'\nftl.log_blocks = 4\n[precondition]\nkind = 'random'\n\
                     [workload]\nrw = 'randread'\nrequests = 100\n");
    for id in ["merge.switch", "merge.partial", "merge.full", "merge.pages_copied", "wear.erases"] {
        assert_eq!(of(&found, id), 0.0, "{id}");
    }
    assert!(found.drive().unwrap().before.erases > 0);
}
