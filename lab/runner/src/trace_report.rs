//! The document of a trace, for `nandlab trace info --json` and for the report page.
//!
//! `docs/format/trace-info.md` describes both. The size of the page's document is bounded: cells of pictures are merged
//! until there are at most [`MOST_CELLS`], segments until a device has at most [`MOST_BARS`] bars.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use sim::seam::BlockOp;
use workload::trace::pattern::{DevicePattern, Load, Log2, OpLoad, PAGE_BYTES, Picture, SEGMENT_BYTES, Segments};
use workload::trace::{Format, Notes, Pattern};

use crate::report::grouped;

/// Most cells of all pictures on a page.
pub const MOST_CELLS: usize = 120_000;
/// Most bars of sequentiality per device.
pub const MOST_BARS: usize = 256;
/// Most devices on a page; `--json` has all of them.
const MOST_DEVICES: usize = 16;

/// A trace that was read to its end.
#[derive(Clone, Copy, Debug)]
pub struct Trace<'a> {
    /// Name that the user gave.
    pub name: &'a str,
    /// Format of the trace.
    pub format: Format,
    /// How the format was recognized.
    pub why: &'a str,
    /// Observations of the reader.
    pub notes: &'a Notes,
    /// Access pattern of the trace.
    pub pattern: &'a Pattern,
}

/// Builds the document of `--json`.
pub fn measures(trace: &Trace<'_>) -> Value {
    let notes = trace.notes;
    json!({
        "file": trace.name,
        "format": {"name": trace.format.name(), "why": trace.why, "operations": trace.format.polarity()},
        "notes": {
            "records": notes.records,
            "out_of_order": notes.out_of_order,
            "furthest_back_ns": notes.furthest_back.0,
            "skipped": notes.skipped.iter().map(|(what, count)| json!({"what": what, "count": count})).collect::<Vec<_>>(),
            "other_hosts": notes.other_hosts,
            "cut": notes.cut.map(|cut| json!({"byte": cut.byte, "records": cut.records})),
        },
        "all": load(trace.pattern.all()),
        "devices": trace.pattern.devices().map(|(number, pattern)| device(number, pattern)).collect::<Vec<_>>(),
        "other_devices_records": trace.pattern.other_devices(),
    })
}

fn device(number: u32, pattern: &DevicePattern) -> Value {
    let (read, written, either) = pattern.segments.footprint_pages();
    let mut document = load(&pattern.load);
    document["device"] = json!(number);
    document["seg_seq"] = json!(pattern.segments.seg_seq());
    document["seg_cont"] = json!(pattern.segments.seg_cont());
    document["footprint_bytes"] =
        json!({"read": read * PAGE_BYTES, "written": written * PAGE_BYTES, "either": either * PAGE_BYTES});
    document["not_looked_at_bytes"] = json!(pattern.segments.not_looked_at());
    document
}

fn load(load: &Load) -> Value {
    let ops = BlockOp::ALL.into_iter().filter(|&op| load.op(op).requests > 0);
    let depth = &load.depth;
    json!({
        "requests": load.requests(),
        "first_ns": load.first_at().map(|at| at.0),
        "duration_ns": load.duration().0,
        "read_share": load.read_share(),
        "ops": ops.map(|op| operation(op, load.op(op))).collect::<Vec<_>>(),
        "gaps_ns": distribution(&load.gaps),
        "depth": (depth.known() > 0).then(|| json!({
            "known": depth.known(),
            "mean": depth.mean(),
            "max": depth.max(),
            "gave_up": depth.gave_up(),
            "span_ns": depth.width().0,
            "over_time": depth.over_time().collect::<Vec<_>>(),
        })),
    })
}

fn operation(op: BlockOp, load: &OpLoad) -> Value {
    json!({
        "op": op.name(),
        "requests": load.requests,
        "bytes": load.bytes,
        "mean_bytes": load.mean_bytes(),
        "fua": load.fua,
        "sizes": distribution(&load.sizes),
        "latency_ns": distribution(&load.latencies),
    })
}

fn distribution(log: &Log2) -> Value {
    if log.count() == 0 {
        return Value::Null;
    }
    json!({
        "count": log.count(),
        "min": log.min(),
        "mean": log.mean(),
        "max": log.max(),
        "bins": log.bins().collect::<Vec<_>>(),
    })
}

/// Builds the page's document.
pub fn document(trace: &Trace<'_>) -> Value {
    let pictures = trace.pattern.devices().filter(|(_, device)| device.picture.is_some()).count().max(1);
    let devices = trace.pattern.devices().take(MOST_DEVICES).map(|(number, pattern)| {
        let mut document = device(number, pattern);
        document["picture"] = pattern.picture.as_ref().map_or(Value::Null, |it| picture(it, MOST_CELLS / pictures));
        document["segments"] = segments(&pattern.segments);
        document
    });
    let all = trace.pattern.all();
    let fact = |label: &str, value: String| json!({"label": label, "value": value});
    let mut summary = vec![fact("requests", grouped(all.requests())), fact("duration", seconds(all.duration().as_s()))];
    for op in [BlockOp::Read, BlockOp::Write] {
        if let Some(mean) = all.op(op).mean_bytes() {
            summary.push(fact(&format!("average {}", op.name()), format!("{:.1} KiB", mean / 1024.0)));
        }
    }
    if let (1, Some((_, only))) = (trace.pattern.devices().len(), trace.pattern.devices().next())
        && let Some(share) = only.segments.seg_seq()
    {
        summary.push(fact("segmented sequentiality", format!("{:.1} %", 100.0 * share)));
    }
    json!({
        "schema": "nandlab-report/1",
        "title": Path::new(trace.name).file_name().map_or(trace.name.into(), |name| name.to_string_lossy()),
        "question": "What was asked of the device, where, when, and how sequentially?",
        "version": env!("CARGO_PKG_VERSION"),
        "summary": summary,
        "trace": {
            "format": format!("{}: {}", trace.format.name(), trace.why),
            "notes": sentences(trace),
            "devices": devices.collect::<Vec<_>>(),
            "other_devices": trace.pattern.devices().len().saturating_sub(MOST_DEVICES),
        },
    })
}

fn seconds(seconds: f64) -> String {
    match seconds {
        s if s >= 7200.0 => format!("{:.1} h", s / 3600.0),
        s if s >= 1.0 => format!("{s:.1} s"),
        s => format!("{:.3} ms", s * 1e3),
    }
}

/// What the user must know about the trace, in sentences.
pub fn sentences(trace: &Trace<'_>) -> Vec<String> {
    let notes = trace.notes;
    let mut told = Vec::new();
    if let Some(cut) = notes.cut {
        told.push(format!("The trace is cut off at byte {}: {} records are whole.", cut.byte, grouped(cut.records)));
    }
    if notes.out_of_order > 0 {
        let furthest = seconds(notes.furthest_back.as_s());
        told.push(format!(
            "{} records are before the record before them, by {furthest} at most; they were raised to its time.",
            grouped(notes.out_of_order)
        ));
    }
    told.extend(notes.skipped.iter().map(|(what, count)| format!("Left out: {} {what}.", grouped(*count))));
    if notes.other_hosts > 0 {
        told.push(format!(
            "{} records are of another host than the first; their disks count as its disks of the same number.",
            grouped(notes.other_hosts)
        ));
    }
    if trace.pattern.other_devices() > 0 {
        let records = grouped(trace.pattern.other_devices());
        told.push(format!("{records} records are of devices beyond those that are measured apart."));
    }
    let unseen: u64 = trace.pattern.devices().map(|(_, device)| device.segments.not_looked_at()).sum();
    if unseen > 0 {
        told.push(format!("Sequentiality and footprint leave out {unseen} bytes, beyond the bounds of memory."));
    }
    if trace.pattern.all().depth.gave_up() {
        told.push("More requests were under way than are followed; queue depth is measured up to there.".to_owned());
    }
    told
}

/// The cells of a picture, joined until there are at most `budget`; null if it has none.
pub fn picture(picture: &Picture, budget: usize) -> Value {
    let Some((time, address)) = picture.axes() else { return Value::Null };
    let mut cells: BTreeMap<(u64, u64), [u64; 3]> = picture
        .cells()
        .map(|(column, row, cell)| {
            let place = (time.base + column as u64, address.base + row as u64);
            (place, [cell.reads, cell.writes, cell.trims].map(u64::from))
        })
        .collect();
    let mut joined = 0;
    while cells.len() > budget {
        joined += 1;
        let mut coarser: BTreeMap<(u64, u64), [u64; 3]> = BTreeMap::new();
        for ((column, row), counts) in cells {
            let sums = coarser.entry((column / 2, row / 2)).or_default();
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        cells = coarser;
    }
    let ends = |of: fn(&(u64, u64)) -> u64| {
        let numbers = || cells.keys().map(of);
        (numbers().min().unwrap_or(0), numbers().max().unwrap_or(0))
    };
    let ((left, right), (low, high)) = (ends(|place| place.0), ends(|place| place.1));
    // Powers of two, which a browser's numbers represent exactly whatever their size.
    let (column_ns, row_bytes) = (2f64.powi((time.shift + joined) as i32), 2f64.powi((address.shift + joined) as i32));
    json!({
        "from_ns": left as f64 * column_ns,
        "column_ns": column_ns,
        "columns": right - left + 1,
        "from_bytes": low as f64 * row_bytes,
        "row_bytes": row_bytes,
        "rows": high - low + 1,
        "cells": cells.iter().map(|((column, row), [reads, writes, trims])| {
            json!([column - left, row - low, reads, writes, trims])
        }).collect::<Vec<_>>(),
    })
}

fn segments(segments: &Segments) -> Value {
    let mut bars: BTreeMap<u64, [u64; 2]> = segments
        .iter()
        .filter(|(_, segment)| segment.written_bytes > 0)
        .map(|(number, segment)| (number, [segment.written_bytes, segment.sequential_bytes]))
        .collect();
    let mut shift = 0;
    while bars.len() > MOST_BARS {
        shift += 1;
        let mut wider: BTreeMap<u64, [u64; 2]> = BTreeMap::new();
        for (number, bytes) in bars {
            let sums = wider.entry(number / 2).or_default();
            sums.iter_mut().zip(bytes).for_each(|(sum, bytes)| *sum += bytes);
        }
        bars = wider;
    }
    json!({
        "bar_bytes": SEGMENT_BYTES << shift,
        "bars": bars.iter().map(|(number, [written, sequential])| json!([number, written, sequential])).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Ns;
    use workload::trace::TraceRecord;
    use workload::trace::pattern::PatternOptions;

    fn pattern(records: impl Iterator<Item = TraceRecord>) -> Pattern {
        let mut pattern = Pattern::new(PatternOptions { pictures: 4, ..PatternOptions::default() });
        records.for_each(|record| pattern.add(&record));
        pattern
    }

    #[test]
    fn a_page_stays_small_however_long_the_trace() {
        let mut rng = sim::Seed(3).stream("test/trace-report");
        let pattern = pattern((0..400_000).map(|i: u64| {
            let mut record = TraceRecord::new(Ns(i * 1000), BlockOp::Write, rng.below(1 << 40), 4096);
            record.device = (i % 4) as u32;
            record
        }));
        let notes = Notes { records: 400_000, ..Notes::default() };
        let trace = Trace { name: "random", format: Format::Msr, why: "told", notes: &notes, pattern: &pattern };
        let document = document(&trace);
        let page = crate::report::page(&document).len();
        assert!(page < 5_000_000, "{page} bytes");
        for device in document["trace"]["devices"].as_array().expect("a list") {
            let cells = device["picture"]["cells"].as_array().expect("a list");
            let writes: u64 = cells.iter().filter_map(|cell| cell[3].as_u64()).sum();
            assert_eq!(writes, 100_000, "joining cells loses no request");
            let bars = device["segments"]["bars"].as_array().expect("a list");
            assert!(cells.len() <= MOST_CELLS / 4 && (MOST_BARS / 2..=MOST_BARS).contains(&bars.len()));
        }
    }

    #[test]
    fn what_was_not_there_is_null() {
        let pattern = pattern(std::iter::empty());
        let notes = Notes::default();
        let trace = Trace { name: "empty", format: Format::Spc, why: "told", notes: &notes, pattern: &pattern };
        let document = measures(&trace);
        assert_eq!(document["all"]["read_share"], Value::Null);
        assert_eq!(document["all"]["depth"], Value::Null);
        assert_eq!(document["devices"], json!([]));
        assert!(sentences(&trace).is_empty());
    }
}
