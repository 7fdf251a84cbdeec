//! The result of a run on a drive in the layout of fio 3's `--output-format=json+`, for the tools that read it.
//!
//! A job is a flow of the load, or the whole load if it has no flows. What a simulation does not have (processor times,
//! context switches, dates) is 0: nothing in a result depends on the machine. `slat_ns` is 0 and `clat_ns` is the whole
//! latency, as with a synchronous engine. Source of the keys: the output of fio 3.33.

use serde_json::{Map, Value, json};
use workload::fio::{Job, Mix, Sizes};

use crate::measure::Outcome;
use crate::measure::outcome::drive::{DriveOutcome, OpFigures};
use crate::subject::load;

/// fio's default `percentile_list`.
const PERCENTILES: [f64; 17] =
    [1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99];

/// The document; `None` for a run on raw flash.
pub fn document(outcome: &Outcome) -> Option<Value> {
    let drive = outcome.drive()?;
    let jobs = load::jobs_of(&outcome.experiment);
    let ms = drive.measured_ns / 1_000_000;
    let all = match &drive.flows[..] {
        [] => vec![job(&outcome.experiment.title, jobs.first(), &drive.ops, drive)],
        flows => {
            flows.iter().zip(&jobs).map(|(flow, options)| job(&flow.name, Some(options), &flow.ops, drive)).collect()
        }
    };
    Some(json!({
        "fio version": format!("fio-3.33 (nandlab-{})", env!("CARGO_PKG_VERSION")),
        "timestamp": 0,
        "timestamp_ms": 0,
        "time": "",
        "global options": {"runtime": (ms / 1000).to_string()},
        "jobs": all,
        "disk_util": [],
    }))
}

fn job(name: &str, options: Option<&Job>, ops: &[OpFigures], drive: &DriveOutcome) -> Value {
    let of = |name: &str| ops.iter().find(|op| op.op == name);
    let ms = drive.measured_ns / 1_000_000;
    json!({
        "jobname": name,
        "groupid": 0,
        "error": 0,
        "eta": 0,
        "elapsed": drive.measured_ns.div_ceil(1_000_000_000),
        "job options": options.map_or_else(Map::new, job_options),
        "read": direction(of("read"), drive),
        "write": direction(of("write"), drive),
        "trim": direction(of("trim"), drive),
        "sync": {"total_ios": of("flush").map_or(0, |op| op.count), "lat_ns": latency(of("flush"))},
        "job_runtime": ms,
        "usr_cpu": 0.0,
        "sys_cpu": 0.0,
        "ctx": 0,
        "majf": 0,
        "minf": 0,
        "latency_depth": options.map_or(1, |job| job.depth),
        "latency_target": 0,
        "latency_percentile": 100.0,
        "latency_window": 0,
    })
}

fn job_options(job: &Job) -> Map<String, Value> {
    let word = match (job.mix, job.random) {
        (Mix::Read, false) => "read",
        (Mix::Write, false) => "write",
        (Mix::Trim, false) => "trim",
        (Mix::TrimWrite, false) => "trimwrite",
        (Mix::ReadWrite, false) => "rw",
        (Mix::Read, true) => "randread",
        (Mix::Write, true) => "randwrite",
        (Mix::Trim, true) => "randtrim",
        (Mix::TrimWrite, true) => "randtrimwrite",
        (Mix::ReadWrite, true) => "randrw",
    };
    let size = |sizes: &Sizes| {
        if sizes.min() == sizes.max() { sizes.max().to_string() } else { format!("{}-{}", sizes.min(), sizes.max()) }
    };
    let [read, write, trim] = [0, 1, 2].map(|at| size(&job.sizes[at]));
    let bs = if read == write && write == trim { read } else { format!("{read},{write},{trim}") };
    let mut options = Map::new();
    for (key, value) in [
        ("name", job.name.clone()),
        ("rw", word.to_owned()),
        ("bs", bs),
        ("iodepth", job.iodepth.to_string()),
        ("numjobs", job.numjobs.to_string()),
    ] {
        options.insert(key.to_owned(), value.into());
    }
    if job.mix == Mix::ReadWrite {
        options.insert("rwmixread".to_owned(), job.mix_read_percent.to_string().into());
    }
    options
}

/// One direction of a job.
fn direction(op: Option<&OpFigures>, drive: &DriveOutcome) -> Value {
    let none = json!({"min": 0, "max": 0, "mean": 0.0, "stddev": 0.0, "N": 0});
    let bytes = op.map_or(0, |op| op.bytes);
    let iops = op.map_or(0.0, |op| op.iops);
    let bytes_per_s = op.map_or(0.0, |op| op.mb_s * 1e6);
    let kib_per_s = bytes_per_s / 1024.0;
    json!({
        "io_bytes": bytes,
        "io_kbytes": bytes / 1024,
        "bw_bytes": bytes_per_s as u64,
        "bw": kib_per_s as u64,
        "iops": iops,
        "runtime": op.map_or(0, |_| drive.measured_ns / 1_000_000),
        "total_ios": op.map_or(0, |op| op.count),
        "short_ios": 0,
        "drop_ios": 0,
        "slat_ns": none,
        "clat_ns": latency(op),
        "lat_ns": plain(op),
        "bw_min": kib_per_s as u64,
        "bw_max": kib_per_s as u64,
        "bw_agg": if op.is_some() { 100.0 } else { 0.0 },
        "bw_mean": kib_per_s,
        "bw_dev": 0.0,
        "bw_samples": u64::from(op.is_some()),
        "iops_min": iops as u64,
        "iops_max": iops as u64,
        "iops_mean": iops,
        "iops_stddev": 0.0,
        "iops_samples": u64::from(op.is_some()),
    })
}

fn plain(op: Option<&OpFigures>) -> Value {
    match op {
        None => json!({"min": 0, "max": 0, "mean": 0.0, "stddev": 0.0, "N": 0}),
        Some(op) => {
            json!({"min": op.min_ns, "max": op.max_ns, "mean": op.mean_ns, "stddev": op.stddev_ns, "N": op.count})
        }
    }
}

/// Latencies with percentiles, and the number of requests of each latency.
fn latency(op: Option<&OpFigures>) -> Value {
    let mut value = plain(op);
    let Some(op) = op else { return value };
    let exact = [(50.0, op.p50_ns), (90.0, op.p90_ns), (99.0, op.p99_ns), (99.9, op.p999_ns), (99.99, op.p9999_ns)];
    // The distribution is kept with some 400 points: of the rest of the percentiles the nearest one above.
    let at = |percent: f64| {
        if let Some(&(_, ns)) = exact.iter().find(|(exact, _)| *exact == percent) {
            return ns;
        }
        let reached = op.cdf.iter().find(|&&(_, share)| share * 100.0 >= percent - 1e-9);
        reached.or(op.cdf.last()).map_or(0, |&(ns, _)| ns)
    };
    let percentiles = PERCENTILES.iter().map(|&percent| (format!("{percent:.6}"), json!(at(percent))));
    value["percentile"] = Value::Object(percentiles.collect());
    let mut below = 0;
    let bins = op.cdf.iter().filter_map(|&(ns, share)| {
        let up_to = (share * op.count as f64).round() as u64;
        let own = up_to - std::mem::replace(&mut below, up_to);
        (own > 0).then(|| (ns.to_string(), json!(own)))
    });
    value["bins"] = Value::Object(bins.collect());
    value
}
