//! The page's sections for a run on a block device.

use serde_json::{Value, json};

use super::{grouped, tile};
use crate::measure::Outcome;
use crate::measure::outcome::drive::{DriveOutcome, FlowFigures, Point};
use crate::measure::outcome::phases::PhaseFigures;
use crate::schema::flash::Medium;
use crate::schema::{Experiment, word};
use crate::subject::drive::Drive;

/// Bytes for people, in powers of 1000: `3.4 GB`, `512 kB`.
pub fn bytes(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit < 5 {
        value /= 1000.0;
        unit += 1;
    }
    let digits = if unit == 0 || value >= 100.0 { 0 } else { 1 };
    format!("{value:.digits$} {}", ["B", "kB", "MB", "GB", "TB", "PB"][unit])
}

/// A time span for people: `1.23 ms`, `5.75 years`.
pub fn span(ns: f64) -> String {
    const UNITS: [(&str, f64, f64); 8] = [
        ("ns", 1.0, 1e3),
        ("µs", 1e3, 1e6),
        ("ms", 1e6, 1e9),
        ("s", 1e9, 6e11),
        ("min", 6e10, 7.2e12),
        ("hours", 3.6e12, 1.728e14),
        ("days", 8.64e13, 3.156e16),
        ("years", 3.15576e16, f64::INFINITY),
    ];
    let (unit, of_one, _) = UNITS.into_iter().find(|&(.., below)| ns < below).unwrap_or(UNITS[7]);
    let value = ns / of_one;
    let digits = if value >= 100.0 || unit == "ns" { 0 } else { 2 };
    format!("{value:.digits$} {unit}")
}

/// A ubiblock and its flash, in words; `None` if the experiment has another device.
pub fn ubiblock(experiment: &Experiment) -> Option<String> {
    let (section, nand) = (experiment.ubiblock.as_ref()?, experiment.nand.as_ref()?);
    let medium = if nand.medium == Medium::Nor { "NOR" } else { "NAND" };
    let part = nand.part.as_ref().map_or(String::new(), |part| format!(" {part}"));
    Some(format!("{} ubiblock on {medium}{part}", word(&section.form)))
}

/// Tiles at the head of the page.
pub(super) fn summary(outcome: &Outcome, detail: &DriveOutcome) -> Vec<Value> {
    let mut tiles = vec![tile("capacity", bytes(detail.logical_bytes))];
    if let Some(on) = ubiblock(&outcome.experiment) {
        tiles.insert(0, tile("device", on));
    }
    for op in &detail.ops {
        tiles.push(tile(&format!("{}s a second", op.op), grouped(op.iops.round() as u64)));
        if op.bytes > 0 {
            tiles.push(tile(&format!("{}, MB/s", op.op), format!("{:.1}", op.mb_s)));
        }
        tiles.push(tile(&format!("{}, 99th percentile", op.op), span(op.p99_ns as f64)));
    }
    if let Some(total) = detail.write_amplification.total {
        tiles.push(tile("write amplification", format!("{total:.3}")));
    }
    tiles.push(tile("erasures", grouped(detail.wear.erases)));
    tiles
}

/// The part of the document that only a drive has.
pub(super) fn run(outcome: &Outcome, detail: &DriveOutcome) -> Value {
    let experiment = &outcome.experiment;
    let of_ssd = experiment.ssd.as_ref().map(|ssd| ssd.endurance);
    let endurance = of_ssd.or(experiment.nand.as_ref().map(|nand| nand.endurance)).unwrap_or(0);
    json!({
        "kind": "ssd",
        "status": detail.status,
        "stopped_by": outcome.measured.stopped_by,
        "end_of_life": detail.end_of_life,
        "remarks": detail.remarks,
        "wear": {
            "erase_counts": outcome.measured.erase_counts,
            "groups": groups(outcome),
            "endurance": if endurance == 0 { Value::Null } else { json!(endurance) },
        },
        "timeline": timeline(&detail.timeline),
        "causes": detail.write_amplification.by_cause.iter()
            .map(|cause| json!({"cause": cause.cause, "bytes": cause.bytes})).collect::<Vec<_>>(),
        "latency": detail.ops,
        "flows": detail.flows.iter().map(flow).collect::<Vec<_>>(),
        "phases": detail.phases.iter().map(phase).collect::<Vec<_>>(),
        "throughput": throughput(&detail.timeline),
        "utilisation": detail.utilisation,
        "write_amplification": detail.write_amplification,
        "sysfs": if detail.sysfs.is_empty() { Value::Null } else { json!(detail.sysfs) },
    })
}

fn flow(flow: &FlowFigures) -> Value {
    let iops = |op: &str| flow.op(op).map(|op| op.iops);
    let count: u64 = flow.ops.iter().map(|op| op.count).sum();
    let total_ns: f64 = flow.ops.iter().map(|op| op.mean_ns * op.count as f64).sum();
    json!({
        "name": flow.name,
        "queue": flow.queue,
        "read_iops": iops("read"),
        "write_iops": iops("write"),
        "mean_us": if count > 0 { json!(total_ns / count as f64 / 1e3) } else { Value::Null },
        "p99_us": flow.ops.iter().map(|op| op.p99_ns).max().map(|ns| ns as f64 / 1e3),
        "waf": flow.write_amplification,
        "gc_share": flow.moved_share,
    })
}

fn phase(phase: &PhaseFigures) -> Value {
    json!({"name": phase.name, "seconds": phase.seconds(), "mb_s": phase.mb_s, "requests": phase.requests})
}

/// Groups of blocks: those in SLC mode and the others if there is an SLC cache, otherwise the blocks of each die.
fn groups(outcome: &Outcome) -> Vec<Value> {
    let ssd = outcome.experiment.ssd.as_ref();
    let Some(drive) = ssd.and_then(|ssd| Drive::build(ssd, outcome.experiment.seed).ok()) else { return Vec::new() };
    let shape = &drive.shape;
    if let Some((from, to)) = drive.layer.slc_blocks() {
        let cells = ["", "SLC", "MLC", "TLC", "QLC"].get(drive.section.timing.read_us.len()).unwrap_or(&"");
        // Every unit has its SLC blocks; the first group that names a block has it.
        return vec![
            json!({"name": "SLC blocks", "from": from, "to": to, "every": shape.blocks}),
            json!({"name": format!("{cells} blocks").trim_start(), "from": 0, "to": shape.units() * shape.blocks}),
        ];
    }
    let per_die = (shape.units_per_die() * shape.blocks) as usize;
    // More dies cannot be told apart in a picture.
    if shape.all_dies() > 8 {
        return Vec::new();
    }
    (0..shape.all_dies() as usize)
        .map(|die| {
            let channel = shape.channel_of_die(die as u32);
            let way = die as u32 / shape.channels;
            json!({"name": format!("channel {channel}, die {way}"), "from": die * per_die, "to": (die + 1) * per_die})
        })
        .collect()
}

fn timeline(points: &[Point]) -> Vec<Value> {
    let mut erases = 0;
    points
        .iter()
        .map(|point| {
            erases += point.erases;
            let waf = (point.host_pages > 0).then(|| point.pages as f64 / point.host_pages as f64);
            json!({"t_ns": point.t_ns, "erases": erases, "waf": waf, "groups": []})
        })
        .collect()
}

/// Rates over time, for the throughput chart.
fn throughput(points: &[Point]) -> Vec<Value> {
    let mut began = 0;
    points
        .iter()
        .map(|point| {
            let seconds = (point.t_ns - began).max(1) as f64 / 1e9;
            began = point.t_ns;
            let rate = |amount: u64| amount as f64 / seconds;
            json!({
                "t_ns": point.t_ns,
                "read_iops": rate(point.requests[0]),
                "write_iops": rate(point.requests[1]),
                "read_mb_s": rate(point.bytes[0]) / 1e6,
                "write_mb_s": rate(point.bytes[1]) / 1e6,
                "max_ns": point.max_ns,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_spans_are_written_for_people() {
        assert_eq!([0, 999, 32_000_000_000, 1_000_204_886_016].map(bytes), ["0 B", "999 B", "32.0 GB", "1.0 TB"]);
        assert_eq!([250.0, 1500.0, 2.5e6, 3.2e9].map(span), ["250 ns", "1.50 µs", "2.50 ms", "3.20 s"]);
        // 50,386.7 hours are 5.748 years of 365.25 days.
        let long = [7.19e12, 7.3e12, 3.0e14, 50_386.7 * 3.6e12];
        assert_eq!(long.map(span), ["120 min", "2.03 hours", "3.47 days", "5.75 years"]);
    }
}
