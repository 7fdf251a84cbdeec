//! A trace of strace as the load of a run: its bytes, its times, its files on the flash.

use runner::measure::Outcome;
use runner::report::answer;
use runner::run::Prepared;
use workload::file::strace::Trace;

const SAMPLE: &str = include_str!("../../../samples/logger.strace");
const EXPERIMENT: &str = include_str!("../../../experiments/lifetime-strace.toml");

fn run(sets: &[(&str, &str)]) -> Outcome {
    let sets: Vec<_> = sets.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let prepared = Prepared::resolve(EXPERIMENT, &sets).unwrap_or_else(|error| panic!("{error}"));
    let trace = Trace::read(SAMPLE.as_bytes(), "/data").unwrap();
    prepared.with_calls(trace.into()).run(None, &mut |_| ()).unwrap_or_else(|error| panic!("{error}"))
}

fn of(outcome: &Outcome, id: &str) -> f64 {
    outcome.metrics().value(id).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_pass_writes_the_bytes_of_the_trace_in_the_time_of_the_trace() {
    let summary = Trace::read(SAMPLE.as_bytes(), "/data").unwrap().summary();
    let found = run(&[("strace.loops", "1")]);
    assert_eq!(found.measured.stopped_by, "workload");
    assert_eq!([of(&found, "host.bytes"), of(&found, "fs.failed")], [summary.written_bytes as f64, 0.0]);
    let syncs = of(&found, "fs.fsync.count") + of(&found, "fs.fdatasync.count");
    assert_eq!(syncs, summary.syncs as f64);
    let seconds = found.measured.virtual_ns as f64 / 1e9;
    assert!((summary.span.as_s()..summary.span.as_s() + 2.0).contains(&seconds), "{seconds}");
    let fast = run(&[("strace.loops", "1"), ("strace.mode", "'closed'")]);
    assert!(fast.measured.virtual_ns * 4 < found.measured.virtual_ns, "{}", fast.measured.virtual_ns);
    assert_eq!(of(&fast, "host.bytes"), of(&found, "host.bytes"));
}

#[test]
fn a_day_of_passes_says_how_long_the_flash_lasts() {
    let found = run(&[]);
    assert_eq!(found.measured.stopped_by, "days");
    assert!(answer::of(&found).iter().any(|line| line.contains("the first block is worn out after")));
    // Half as many blocks are erased twice as often.
    let half = run(&[("nand.pebs", "256")]);
    let ratio = of(&found, "life.level_first.p50_years") / of(&half, "life.level_first.p50_years");
    assert!((1.7..2.3).contains(&ratio), "{ratio}");
    // The chain: what is overwritten in the page cache never reaches the flash, what is compressed takes less of it.
    let flash = ["fs.data_bytes", "cache.dropped"].map(|id| of(&found, id));
    assert!(flash[0] > of(&found, "host.bytes") && flash[1] > 0.0, "pages are whole, bytes are not: {flash:?}");
}
