//! Experiments on drives: the same result on every machine, sums that add up, and drives that wear out.

use runner::measure::Outcome;
use runner::measure::outcome::drive::Status;
use runner::parts::Library;
use runner::report;
use runner::run::{Failed, Prepared};
use runner::schema::ExperimentError;
use sim::Ns;
use sim::seam::BlockRequest;
use workload::replay::Arrival;

const SMALL: &str = "title = 'golden'
[ssd]
channels = 2
ways = 2
planes = 2
blocks = 24
pages = 16
multi_plane = true
over_provisioning_percent = 40
[ssd.ftl]
background_after_us = 500.0
gc_background = 4
[ssd.front]
protocol = 'sata'
depth = 32
command_us = 5
link_mb_s = 300
half_duplex = true
[precondition]
kind = 'steady'
[workload]
rw = 'randrw'
read_percent = 30
depth = 16
flush_every = 50
requests = 8000
";

/// Fingerprint of `SMALL`. If it changes, a result changed: raise `MODEL_VERSION` and add it to the changelog.
/// `make test` runs this in the dev profile, `make thorough` in the release profile.
const GOLDEN: &str = "49f2bdfb5d6faaae1f59cf78361695a489f2cf6a7ec9e77a845890934448412d";

fn run(prepared: &Prepared, arrivals: Option<&mut dyn Iterator<Item = Arrival>>) -> Result<Outcome, Failed> {
    prepared.run(arrivals, &mut |_| ())
}

fn resolve(text: &str, sets: &[(&str, &str)]) -> Result<Prepared, ExperimentError> {
    let sets: Vec<_> = sets.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    Prepared::resolve(text, &sets)
}

fn found(sets: &[(&str, &str)]) -> Outcome {
    run(&resolve(SMALL, sets).unwrap(), None).unwrap()
}

/// Checks what must hold for every outcome.
fn check(found: &Outcome) {
    let host = &found.drive().unwrap().write_amplification;
    assert_eq!(
        host.by_cause.iter().map(|cause| cause.bytes).sum::<u64>(),
        host.flash_bytes,
        "causes sum to what was programmed"
    );
    let parts: f64 = host.by_cause.iter().map(|cause| cause.per_host_byte).sum();
    assert!((parts - host.total.unwrap_or(0.0)).abs() < 1e-9, "{host:?}");
    for op in &found.drive().unwrap().ops {
        let heads: f64 = op.time.iter().map(|(_, ns)| ns).sum();
        assert!((heads - op.mean_ns).abs() < 1e-6 * op.mean_ns.max(1.0), "heads of {op:?}");
        assert!(
            op.p50_ns <= op.p90_ns
                && op.p99_ns <= op.p999_ns
                && op.p9999_ns <= op.p99999_ns
                && op.p99999_ns <= op.max_ns
        );
    }
    let at_work = found.drive().unwrap().utilisation.dies.iter().chain(&found.drive().unwrap().utilisation.channels);
    assert!(at_work.clone().all(|share| (0.0..=1.0).contains(share)), "{:?}", found.drive().unwrap().utilisation);
    let erases: u64 = found.measured.erase_counts.iter().map(|&count| u64::from(count)).sum();
    assert_eq!(erases, found.drive().unwrap().wear.erases);
    assert_eq!(
        found.drive().unwrap().timeline.iter().map(|point| point.erases).sum::<u64>(),
        erases,
        "the run over time has every erasure"
    );
    let pages: u64 = found.drive().unwrap().timeline.iter().map(|point| point.pages).sum();
    assert_eq!(pages * u64::from(found.drive().unwrap().page_bytes), host.flash_bytes);
}

#[test]
fn the_result_is_the_golden_one() {
    let found = found(&[]);
    check(&found);
    assert_eq!(found.fingerprint, GOLDEN);
}

#[test]
fn another_seed_gives_another_result() {
    assert_ne!(found(&[("seed", "2")]).measured.erase_counts, found(&[]).measured.erase_counts);
}

#[test]
fn the_resolved_experiment_gives_the_same_result_again() {
    let first = found(&[("workload.requests", "1000")]);
    let again = resolve(&first.experiment.to_toml(), &[]).unwrap();
    assert_eq!(run(&again, None).unwrap().fingerprint, first.fingerprint);
}

#[test]
fn contents_do_not_matter_to_the_result() {
    let sets = [("workload.requests", "2000")];
    let tags = found(&sets);
    let bytes = found(&[sets[0], ("ssd.store", "bytes")]);
    assert_eq!(tags.measured.erase_counts, bytes.measured.erase_counts);
    let (tags, bytes) = (tags.drive().unwrap(), bytes.drive().unwrap());
    assert_eq!((&tags.ops, &tags.timeline), (&bytes.ops, &bytes.timeline));
}

#[test]
fn every_mapping_runs_and_its_sums_add_up() {
    for mapping in ["page", "dftl", "bast", "fast", "block"] {
        let sets = [
            ("ssd.ftl.mapping", mapping),
            ("ssd.ftl.log_blocks", "4"),
            ("ssd.ftl.map_cache_kib", "4"),
            ("precondition.kind", "sequential"),
            ("workload.requests", "1500"),
        ];
        let found = found(&sets);
        check(&found);
        assert_eq!(found.drive().unwrap().status, Status::Done, "{mapping}");
        assert!(found.drive().unwrap().write_amplification.total.unwrap() >= 1.0, "{mapping}");
    }
}

#[test]
fn map_pages_are_not_read_for_the_host() {
    let sets = [
        ("ssd.ftl.mapping", "dftl"),
        ("ssd.ftl.map_cache_kib", "4"),
        ("precondition.kind", "sequential"),
        ("workload.rw", "randread"),
        ("workload.flush_every", "0"),
        ("workload.requests", "1500"),
    ];
    let found = found(&sets);
    let counter = |id: &str| found.metrics().value(id).unwrap();
    assert_eq!(counter("flash.host_reads"), 1500.0);
    assert!(counter("map.reads") > 0.0 && counter("map.reads") <= counter("map.misses"));
}

#[test]
fn every_write_buffer_runs_and_its_sums_add_up() {
    for policy in ["none", "fifo", "lru", "bplru"] {
        for cached in ["true", "false"] {
            let sets = [
                ("ssd.cache.policy", policy),
                ("ssd.cache.mib", "0.25"),
                ("ssd.front.write_cache", cached),
                ("workload.requests", "1500"),
            ];
            let found = found(&sets);
            check(&found);
            assert_eq!(found.drive().unwrap().status, Status::Done, "{policy}, {cached}");
        }
    }
}

#[test]
fn every_drive_resolves_and_runs_a_short_job() {
    for part in Library::embedded().parts().filter(|part| part.kind() == "drive") {
        let name = &part.head().name;
        let text = format!(
            "title = '{name}'\n[ssd]\npart = '{name}'\n[precondition]\nkind = 'sequential'\nfraction = 0.01\n[workload]\nrw = 'randrw'\nrequests = 500\n"
        );
        resolve(&text, &[]).unwrap_or_else(|error| panic!("{name} as it is: {error}"));
        let blocks = if ["660p", "sata-2008"].contains(&name.as_str()) { "256" } else { "96" };
        let mut sets = vec![("ssd.blocks", blocks)];
        if ["ufs-3.1", "ufs-4.0"].contains(&name.as_str()) {
            // One block per unit: the default buffer would be half of so small a flash.
            sets.push(("ssd.write_booster.mib", "100"));
        }
        let small = resolve(&text, &sets).unwrap_or_else(|error| panic!("{name}: {error}"));
        let found = run(&small, None).unwrap();
        check(&found);
        assert_eq!(
            found.drive().unwrap().op("read").map_or(0, |op| op.count)
                + found.drive().unwrap().op("write").map_or(0, |op| op.count),
            500
        );
    }
}

#[test]
fn a_drive_that_wears_out_says_so_and_when() {
    let sets = [
        ("ssd.endurance", "12"),
        ("workload.rw", "randwrite"),
        ("workload.flush_every", "0"),
        ("workload.requests", "1000000"),
    ];
    let found = found(&sets);
    assert_eq!((found.drive().unwrap().status, found.measured.stopped_by.as_str()), (Status::WornOut, "worn_out"));
    let page = &report::of_runs(&[("r".to_owned(), &found)])["runs"][0];
    assert_eq!((&page["status"], &page["stopped_by"]), (&"worn-out".into(), &"worn_out".into()));
    assert_eq!(page["remarks"], serde_json::json!(found.drive().unwrap().remarks));
    let end = found.drive().unwrap().end_of_life.as_ref().unwrap();
    assert_eq!(page["end_of_life"]["at_ns"], end.at_ns);
    assert_eq!(page["ended"], format!("The run ended because the drive wore out: {}.", end.why));
    assert!(end.at_ns > 0 && end.host_bytes > 0 && !end.why.is_empty());
    assert!(found.metrics().value("bad.blocks").unwrap() > 0.0);
}

#[test]
fn each_condition_ends_a_run() {
    for (key, value, words) in [
        ("stop.requests", "700", "ended after 700 requests."),
        ("stop.virtual_s", "0.05", " ms of virtual time."),
        ("stop.drive_writes", "0.4", "ended when the host had written the drive 0.4 times."),
        ("stop.max_erases", "3", "ended when the first block had 3 erasures."),
    ] {
        let found = found(&[("workload.requests", "0"), (key, value)]);
        assert_eq!(format!("stop.{}", found.measured.stopped_by), key);
        let said = report::ended::of(&found);
        assert!(said.ends_with(words), "{said}");
    }
    let done = report::ended::of(&found(&[("workload.requests", "1500"), ("workload.flush_every", "0")]));
    assert_eq!(done, "The run ended when the load was done, after 1,500 requests.");
}

#[test]
fn the_page_parts_slc_blocks_from_the_others() {
    let sets = [
        ("ssd.over_provisioning_percent", "70"),
        ("ssd.ftl.slc_percent", "12.5"),
        ("ssd.ftl.slc_when_full", "fold"),
        ("ssd.ftl.checkpoint_every", "64"),
        ("workload.rw", "randwrite"),
        ("workload.requests", "6000"),
        ("workload.flush_every", "0"),
        ("ssd.timing.read_us", "[40, 60, 80]"),
        ("ssd.timing.program_us", "[300, 600, 900]"),
    ];
    let found = found(&sets);
    let groups = report::of_runs(&[("r".to_owned(), &found)])["runs"][0]["wear"]["groups"].clone();
    assert_eq!((&groups[0]["name"], &groups[1]["name"]), (&"SLC blocks".into(), &"TLC blocks".into()));
    let number = |key: &str| groups[0][key].as_u64().unwrap() as usize;
    let (from, to, every) = (number("from"), number("to"), number("every"));
    let erases = &found.measured.erase_counts;
    assert_eq!((every, erases.len() % every), (found.experiment.ssd.as_ref().unwrap().blocks as usize, 0));
    let mean = |slc: bool| {
        let blocks = erases.iter().enumerate().filter(|(block, _)| (from..to).contains(&(block % every)) == slc);
        let counts: Vec<f64> = blocks.map(|(_, &count)| f64::from(count)).collect();
        counts.iter().sum::<f64>() / counts.len() as f64
    };
    assert!(mean(true) > 2.0 * mean(false), "{} and {}", mean(true), mean(false));
}

#[test]
fn a_trace_is_replayed_in_each_mode() {
    for mode in ["open", "closed", "dependency"] {
        let depth = (mode == "closed").then_some(("trace.depth", "4"));
        let sets: Vec<_> = [("trace.file", "made here"), ("trace.mode", mode)].into_iter().chain(depth).collect();
        let experiment = resolve(SMALL, &sets).unwrap();
        let mut records = (0..1000u64).map(|i| -> Arrival {
            let request = if i % 3 == 0 { BlockRequest::write(i * 8, 8) } else { BlockRequest::read(i * 8, 8) };
            (Ns(i * 100_000), request, Some(Ns(150_000))).into()
        });
        let found = run(&experiment, Some(&mut records)).unwrap();
        check(&found);
        assert_eq!((found.drive().unwrap().requests, found.measured.stopped_by.as_str()), (1000, "workload"), "{mode}");
    }
}

#[test]
fn a_request_beyond_the_drive_is_an_error_with_its_place() {
    let experiment = resolve(SMALL, &[("trace.file", "made here")]).unwrap();
    let mut records = std::iter::once((Ns(0), BlockRequest::read(1 << 40, 8), None).into());
    let error = run(&experiment, Some(&mut records)).unwrap_err().to_string();
    assert!(error.contains("1099511627776"), "{error}");
}

#[test]
fn sequential_writes_are_segmented_and_random_ones_are_not() {
    let share = |rw: &str| {
        let sets = [
            ("workload.rw", rw),
            ("workload.block_bytes", "65536"),
            ("workload.flush_every", "0"),
            ("workload.depth", "1"),
            ("workload.requests", "120"),
            ("record.pattern", "true"),
        ];
        found(&sets).drive().unwrap().pattern.as_ref().unwrap().segmented_sequentiality.unwrap()
    };
    assert!(share("write") > 0.9);
    assert!(share("randwrite") < 0.1);
}

/// Bytes programmed for a cause.
fn of_cause(found: &Outcome, name: &str) -> u64 {
    let causes = &found.drive().unwrap().write_amplification.by_cause;
    causes.iter().find(|cause| cause.cause == name).map_or(0, |cause| cause.bytes)
}

#[test]
fn pages_that_complete_a_group_are_no_host_data() {
    let sets = [
        ("ssd.cache.policy", "bplru"),
        ("ssd.cache.mib", "0.25"),
        ("ssd.front.write_cache", "true"),
        ("ssd.ftl.mapping", "bast"),
        ("ssd.ftl.log_blocks", "4"),
        ("precondition.kind", "sequential"),
        ("workload.rw", "randwrite"),
        ("workload.flush_every", "0"),
        ("workload.requests", "1500"),
    ];
    let found = found(&sets);
    check(&found);
    let page_bytes = 4096;
    let counter = |id: &str| found.metrics().value(id).unwrap() as u64;
    let host: u64 = found.drive().unwrap().timeline.iter().map(|point| point.host_pages).sum();
    assert!(host <= counter("buffer.evictions"), "{host} pages of the host left the buffer");
    assert_eq!(host * page_bytes, of_cause(&found, "host"));
    let padded = of_cause(&found, "padding") / page_bytes;
    let asked = counter("buffer.padding");
    // The last group of a unit is short, and some are on their way when the run ends.
    assert!(padded <= asked && padded * 100 > asked * 98, "{padded} padded, {asked} asked for");
    assert_eq!(of_cause(&found, "flush"), 0);
}

#[test]
fn pages_that_a_block_skips_are_padding() {
    // A page in the middle of an empty block, with a mapping that fixes a page's place in its block.
    let sets = [
        ("ssd.ftl.mapping", "block"),
        ("ssd.ftl.log_blocks", "4"),
        ("precondition.kind", "none"),
        ("workload.rw", "randwrite"),
        ("workload.requests", "300"),
    ];
    let found = found(&sets);
    check(&found);
    assert!(of_cause(&found, "padding") > 0);
    assert_eq!(of_cause(&found, "layout"), 0);
}
