//! `fio.json` beside what fio itself writes, and read by fio's own converter.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Output of fio 3.33, `--output-format=json+`, for a job of random reads and one of random writes with flushes.
const FIO: &str = include_str!("fixtures/fio-3.33.json");
const EXPERIMENT: &str = "title = 'small'
[ssd]
channels = 2
ways = 1
planes = 1
blocks = 32
pages = 16
over_provisioning_percent = 40
[precondition]
kind = 'sequential'
[workload]
fio = '''
[reads]
rw=randread
bs=4k
iodepth=4
ioengine=libaio
number_ios=700
[writes]
rw=randwrite
bs=8k
fsync=8
number_ios=300
'''
";

fn run(name: &str) -> (PathBuf, Value) {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fio-json-{name}"));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("small.toml"), EXPERIMENT).unwrap();
    let out = Command::new(env!("CARGO_BIN_EXE_nandlab"))
        .args(["run", "small.toml", "--out", "out"])
        .current_dir(&dir)
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let document = serde_json::from_slice(&std::fs::read(dir.join("out/fio.json")).unwrap()).unwrap();
    (dir, document)
}

/// Paths of keys and the kinds of their values; bins and job options have keys of their own.
fn paths(value: &Value, prefix: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) if !prefix.ends_with("bins") && !prefix.ends_with("job options") => {
            map.iter().for_each(|(key, value)| paths(value, &format!("{prefix}/{key}"), found));
        }
        Value::Array(items) => items.iter().for_each(|item| paths(item, prefix, found)),
        Value::String(_) => drop(found.insert(format!("{prefix}: text"))),
        Value::Number(_) => drop(found.insert(format!("{prefix}: number"))),
        _ => drop(found.insert(prefix.to_owned())),
    }
}

#[test]
fn keys_and_types_are_those_of_fio() {
    let mut theirs = BTreeSet::new();
    paths(&serde_json::from_str(FIO).unwrap(), "", &mut theirs);
    let mut ours = BTreeSet::new();
    paths(&run("keys").1, "", &mut ours);
    let unknown: Vec<_> =
        ours.iter().filter(|path| !path.starts_with("/global options") && !theirs.contains(*path)).collect();
    assert!(unknown.is_empty(), "fio has no {unknown:?}");
    // What fio-plot reads.
    for path in ["bw: number", "iops: number", "iops_mean: number", "lat_ns/mean: number", "lat_ns/stddev: number"] {
        assert!(ours.contains(&format!("/jobs/read/{path}")), "{path}");
    }
}

#[test]
fn figures_are_those_of_the_jobs() {
    let (_, document) = run("figures");
    let jobs = document["jobs"].as_array().unwrap();
    assert_eq!([&jobs[0]["jobname"], &jobs[1]["jobname"]], ["reads", "writes"]);
    assert_eq!((&jobs[0]["read"]["total_ios"], &jobs[0]["read"]["io_bytes"]), (&700.into(), &(700 * 4096).into()));
    assert_eq!((&jobs[1]["write"]["total_ios"], &jobs[1]["write"]["io_bytes"]), (&300.into(), &(300 * 8192).into()));
    // A flush after each 8th of 300 writes.
    assert_eq!(jobs[1]["sync"]["total_ios"], 37);
    assert_eq!(jobs[0]["job options"]["iodepth"], "4");
    let bins: u64 = jobs[0]["read"]["clat_ns"]["bins"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
    assert_eq!(bins, 700);
}

#[test]
fn percentiles_are_those_of_the_result() {
    let (dir, document) = run("percentiles");
    let result: Value = serde_json::from_slice(&std::fs::read(dir.join("out/result.json")).unwrap()).unwrap();
    let ours = &result["flows"][0]["ops"][0];
    let fios = &document["jobs"][0]["read"]["clat_ns"];
    for (percentile, key) in [("50.000000", "p50_ns"), ("99.000000", "p99_ns"), ("99.990000", "p9999_ns")] {
        assert_eq!(fios["percentile"][percentile], ours[key], "{percentile}");
    }
    assert_eq!((&fios["min"], &fios["max"]), (&ours["min_ns"], &ours["max_ns"]));
}

#[test]
fn fios_own_converter_reads_it() {
    let (dir, _) = run("converter");
    let converter = Command::new("fio_jsonplus_clat2csv").args(["out/fio.json", "lat.csv"]).current_dir(&dir).output();
    let Ok(converted) = converter else { panic!("fio_jsonplus_clat2csv is missing: install Debian's package fio") };
    assert!(converted.status.success(), "{}", String::from_utf8_lossy(&converted.stderr));
    let csv = std::fs::read_to_string(dir.join("lat_job0.csv")).unwrap();
    let last: Vec<&str> = csv.lines().last().unwrap().split(',').map(str::trim).collect();
    let heads: Vec<&str> = csv.lines().next().unwrap().split(',').map(str::trim).collect();
    let cumulative = heads.iter().position(|&head| head == "read_clat_ns_cumulative").unwrap();
    assert_eq!(last[cumulative], "700");
}
