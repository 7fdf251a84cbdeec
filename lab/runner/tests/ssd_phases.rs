//! Loads with phases, from the experiment's file to the outcome and the report.

use runner::measure::Outcome;
use runner::report;
use runner::run::{Failed, Prepared};
use runner::schema::ExperimentError;
use workload::replay::Arrival;

const DRIVE: &str = "title = 'phases'
[ssd]
channels = 2
ways = 1
planes = 2
blocks = 64
pages = 32
over_provisioning_percent = 40
[ssd.timing]
read_us = [50.0]
[ssd.front]
depth = 32
command_us = 3.0
[precondition]
kind = 'sequential'
";
const IOZONE: &str = "[iozone]\nthreads = 4\nrange_bytes = 4194304\nhost_us = 20.0\n";
const APPS: &str = "[apps]
apps = 5
games = 2
cycles = 3
app_mib = 2.0
game_mib = 4.0
app_random_reads = 40
game_random_reads = 60
app_sequential_mib = 0.5
game_sequential_mib = 1.0
app_cpu_ms = 2.0
game_cpu_ms = 3.0
page_cache_mib = 64.0
";

fn run(prepared: &Prepared, arrivals: Option<&mut dyn Iterator<Item = Arrival>>) -> Result<Outcome, Failed> {
    prepared.run(arrivals, &mut |_| ())
}

fn resolve(load: &str, sets: &[(&str, &str)]) -> Result<Prepared, ExperimentError> {
    let sets: Vec<_> = sets.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    Prepared::resolve(&format!("{DRIVE}{load}"), &sets)
}

fn found(load: &str, sets: &[(&str, &str)]) -> Outcome {
    run(&resolve(load, sets).unwrap(), None).unwrap()
}

#[test]
fn iozone_reads_then_writes_and_the_outcome_has_both_phases() {
    let found = found(IOZONE, &[("iozone.stonewall", "false")]);
    let names: Vec<_> = found.drive().unwrap().phases.iter().map(|phase| phase.name.as_str()).collect();
    assert_eq!(names, ["random read", "random write"]);
    // 4 MiB in records of 4 KiB, and a flush of each of four threads.
    let (read, write) = (&found.drive().unwrap().phases[0], &found.drive().unwrap().phases[1]);
    assert_eq!((read.requests, write.requests, found.drive().unwrap().requests), (1024, 1024, 2 * 1024 + 4));
    assert_eq!((read.from_ns, read.to_ns, write.bytes), (0, write.from_ns, 4 << 20));
    assert_eq!(
        (found.drive().unwrap().op("read").unwrap().count, found.drive().unwrap().op("flush").unwrap().count),
        (1024, 4)
    );
    // Four threads in step: the sum of their rates is about the total rate, and not below.
    let all = read.bytes as f64 / 1e6 / read.seconds();
    assert!(read.mb_s >= all && read.mb_s < 1.2 * all, "{} and {all}", read.mb_s);
    let again = Prepared::resolve(&found.experiment.to_toml(), &[]).unwrap();
    assert_eq!(run(&again, None).unwrap().fingerprint, found.fingerprint);
}

#[test]
fn phases_and_records_of_iozone_can_be_chosen() {
    let found = found(IOZONE, &[("iozone.phases", "['write']"), ("iozone.records", "10"), ("iozone.flush", "false")]);
    assert_eq!((found.drive().unwrap().phases.len(), found.drive().unwrap().requests), (1, 40));
    assert_eq!(
        (found.drive().unwrap().phases[0].name.as_str(), found.drive().unwrap().phases[0].requests),
        ("random write", 40)
    );
}

#[test]
fn cycles_of_apps_read_less_from_the_second_on() {
    let found = found(APPS, &[]);
    assert_eq!(found.drive().unwrap().phases.len(), 3);
    let reads = 3 * (40 + 4) + 2 * (60 + 8);
    for (at, phase) in found.drive().unwrap().phases.iter().enumerate() {
        assert_eq!((phase.name.clone(), phase.launches_ns.len()), (format!("cycle {}", at + 1), 5));
        assert_eq!((phase.reads, phase.cache_hits.unwrap() + phase.requests), (Some(reads), reads));
        assert_eq!(phase.launches_ns.iter().sum::<u64>(), phase.to_ns - phase.from_ns);
    }
    assert!(found.drive().unwrap().phases[1].requests < found.drive().unwrap().phases[0].requests / 2);
    assert!(found.drive().unwrap().phases[1].seconds() < found.drive().unwrap().phases[0].seconds());
    assert_eq!(
        found.drive().unwrap().phases.iter().map(|phase| phase.requests).sum::<u64>(),
        found.drive().unwrap().requests
    );
}

#[test]
fn the_report_has_the_phases_and_other_runs_have_none() {
    let iozone = found(IOZONE, &[]);
    let document = report::of_runs(&[("iozone".to_owned(), &iozone)]);
    let phases = document["runs"][0]["phases"].as_array().unwrap();
    assert_eq!((phases.len(), phases[1]["name"].as_str()), (2, Some("random write")));
    assert_eq!(phases[0]["requests"], iozone.drive().unwrap().phases[0].requests);
    assert_eq!(phases[0]["mb_s"].as_f64(), Some(iozone.drive().unwrap().phases[0].mb_s));
    assert_eq!(phases[0]["seconds"].as_f64(), Some(iozone.drive().unwrap().phases[0].seconds()));
    let fio = found("[workload]\nrequests = 100\n", &[]);
    assert!(fio.drive().unwrap().phases.is_empty() && serde_json::to_value(&fio).unwrap().get("phases").is_none());
}

#[test]
fn two_loads_at_once_are_refused_with_the_names_of_both() {
    for (load, more, one, other) in [
        (IOZONE, "[trace]\nfile = 'x'\n", "iozone", "trace"),
        (IOZONE, "[apps]\napp_mib = 1.0\n", "iozone", "apps"),
        (APPS, "[workload]\nfio = \"\"\"\n[a]\nrw=read\n\"\"\"\n", "apps", "workload.fio"),
    ] {
        let error = resolve(&format!("{load}{more}"), &[]).unwrap_err().to_string();
        assert!(error.contains(&format!("`{one}`")) && error.contains(&format!("it and {other}")), "{error}");
    }
}

#[test]
fn a_value_out_of_range_names_its_key() {
    for (load, key, value) in [
        (IOZONE, "iozone.threads", "0"),
        (IOZONE, "iozone.record_bytes", "1000"),
        (IOZONE, "iozone.range_bytes", "1099511627776"),
        (IOZONE, "iozone.range_bytes", "8192"),
        (IOZONE, "iozone.offset_bytes", "1099511627776"),
        (IOZONE, "iozone.phases", "[]"),
        (IOZONE, "iozone.phases", "['trim']"),
        (IOZONE, "iozone.host_us", "-1.0"),
        (APPS, "apps.games", "6"),
        (APPS, "apps.readers", "0"),
        (APPS, "apps.sequential_kib", "6"),
        (APPS, "apps.order", "sorted"),
        (APPS, "apps.size_bytes", "1099511627776"),
        (APPS, "apps.size_bytes", "1048576"),
        (APPS, "apps.app_mib", "0.6"),
        (APPS, "apps.game_mib", "1.1"),
        (APPS, "apps.write_percent", "101.0"),
    ] {
        let error = resolve(load, &[(key, value)]).unwrap_err().to_string();
        assert!(error.starts_with(&format!("key `{key}")), "{key}: {error}");
    }
    let error = resolve("[iozone]\nthraeds = 4\n", &[]).unwrap_err().to_string();
    assert!(error.contains("`iozone.threads`"), "{error}");
}

/// iozone adds the rates of its threads, each over its own time, which is no longer than the phase.
#[test]
fn the_rate_of_a_phase_is_the_sum_of_its_threads() {
    let text = "title = 't'\n[ssd]\nchannels = 2\nways = 1\nplanes = 1\nblocks = 64\npages = 16\nover_provisioning_percent = 20\n\
                [precondition]\nkind = 'random'\n[iozone]\nthreads = 5\nrange_bytes = '4MiB'\nstonewall = false\n";
    let found = Prepared::resolve(text, &[]).unwrap().run(None, &mut |_| ()).unwrap();
    for phase in &found.drive().unwrap().phases {
        let over_the_phase = phase.bytes as f64 / 1e6 / phase.seconds();
        assert!(
            phase.mb_s > over_the_phase * 1.0001 && phase.mb_s < over_the_phase * 1.5,
            "{phase:?}: {over_the_phase}"
        );
    }
}
