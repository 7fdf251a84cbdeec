//! The page's sections for a run on raw flash.

use serde_json::{Value, json};

use super::{grouped, tile};
use crate::measure::outcome::file_system::FileSystemOutcome;
use crate::measure::outcome::flash::{FlashOutcome, HEAD_PEBS, Latency, head_ratio};
use crate::measure::outcome::gc::{GcOutcome, Split};
use crate::measure::{Outcome, chain};

/// Tiles at the head of the page.
pub fn summary(outcome: &Outcome, detail: &FlashOutcome) -> Vec<Value> {
    let measured = &outcome.measured;
    let (peb, ec) = measured.most_worn();
    let groups = &detail.groups;
    let mut tiles = vec![
        tile("PEBs", grouped(measured.erase_counts.len() as u64)),
        tile("erasures", grouped(measured.erase_counts.iter().map(|&ec| u64::from(ec)).sum())),
        tile("first 64, mean", grouped(groups.first64.avg)),
    ];
    if groups.others.count > 0 {
        tiles.push(tile("others, mean", grouped(groups.others.avg)));
    }
    tiles.extend(head_ratio(&measured.erase_counts).map(|ratio| tile("first 64 over others", format!("{ratio:.2}"))));
    tiles.push(tile("most worn", format!("PEB {peb}: {}", grouped(u64::from(ec)))));
    if let Some(fastmap) = &detail.fastmap {
        tiles.push(tile("fastmap writes per PEB", format!("{:.4}", fastmap.writes_per_user_peb)));
    }
    tiles
}

/// The part of the document that only raw flash has.
pub fn run(outcome: &Outcome, detail: &FlashOutcome) -> Value {
    let erase_counts = &outcome.measured.erase_counts;
    let pebs = erase_counts.len();
    let endurance = outcome.experiment.nand.as_ref().map_or(0, |nand| nand.endurance);
    json!({
        "wear": {
            "erase_counts": erase_counts,
            "groups": [
                {"name": "first 64", "from": 0, "to": HEAD_PEBS.min(pebs)},
                {"name": "others", "from": HEAD_PEBS.min(pebs), "to": pebs},
            ],
            "endurance": if endurance == 0 { Value::Null } else { json!(endurance) },
        },
        "timeline": detail.timeline.iter().map(|point| json!({
            "t_ns": point.t_ns,
            "erases": point.erases,
            "free": point.free,
            "waf": point.waf,
            "groups": [point.groups.first64, point.groups.others],
        })).collect::<Vec<_>>(),
        "causes": detail.programmed_bytes.iter().map(|(cause, bytes)| json!({"cause": cause, "bytes": bytes})).collect::<Vec<_>>(),
        "chain": detail.file_system.as_ref().map(|found| of_chain(outcome, found)),
        "collection": detail.file_system.as_ref().and_then(of_collection),
        "erase_causes": detail.erases_by_cause.iter().map(|(cause, erases)| json!({"cause": cause, "erases": erases})).collect::<Vec<_>>(),
        "latency": drawn(detail),
    })
}

/// The way of the bytes through the layers, and the life of the flash at that rate.
fn of_chain(outcome: &Outcome, found: &FileSystemOutcome) -> Value {
    let layers = chain::of(found);
    let layer = |(layer, ratio): (&chain::Layer, Option<f64>)| {
        json!({
            "name": layer.label,
            "bytes": layer.bytes,
            "ratio": ratio,
            "parts": layer.parts.iter().map(|part| json!([part.label, part.bytes])).collect::<Vec<_>>(),
        })
    };
    json!({
        "layers": layers.iter().zip(chain::ratios(&layers)).map(layer).collect::<Vec<_>>(),
        "erases": outcome.measured.erase_counts.iter().map(|&ec| u64::from(ec)).sum::<u64>(),
        "life": ENDS.iter().filter_map(|(end, words)| of_end(outcome, end, words)).collect::<Vec<_>>(),
    })
}

/// Most of the longest waits that are shown.
const WAITS: usize = 12;

/// Garbage collection as the programs felt it, and mounts.
fn of_collection(found: &FileSystemOutcome) -> Option<Value> {
    let gc = found.gc.as_ref()?;
    let parts = |split: Split| json!(split.parts());
    let GcOutcome { passes, stalled, worst, moments, moment_ns, .. } = gc;
    Some(json!({
        "moment_ns": moment_ns,
        "moments": moments.iter().map(|one| json!([
            one.t_ns, one.thread_ns, one.waited_ns, one.longest_ns, one.free_bytes, one.dirty_bytes
        ])).collect::<Vec<_>>(),
        "passes": passes.iter().map(|sum| json!({
            "by": sum.by,
            "kind": sum.kind,
            "count": sum.count,
            "ns": sum.split.ns(),
            "moved_bytes": sum.moved_bytes,
        })).collect::<Vec<_>>(),
        "waited": parts(*stalled),
        "worst": worst.iter().take(WAITS).map(|wait| json!({
            "op": wait.op,
            "start_ns": wait.start_ns,
            "ns": wait.split.ns(),
            "parts": parts(wait.split),
        })).collect::<Vec<_>>(),
        "mounts": found.mounts,
    }))
}

/// Ends of a flash's life, in words.
const ENDS: [(&str, &str); 4] = [
    ("first", "first block worn out"),
    ("reserve", "reserve used up"),
    ("level_first", "first block worn out, with level wear"),
    ("level_reserve", "reserve used up, with level wear"),
];

/// When an end comes: for 10, 50 and 90 % of devices, in years, and bytes that the programs have written by the median.
fn of_end(outcome: &Outcome, end: &str, words: &str) -> Option<Value> {
    let metric = |stat: &str| outcome.metrics().value(&format!("life.{end}.{stat}")).ok();
    let years = [metric("p10_years")?, metric("p50_years")?, metric("p90_years")?];
    Some(json!({"name": words, "years": years, "host_bytes": metric("host_bytes")}))
}

/// Kinds of operations on files whose latency is drawn: the page has so many colours.
const DRAWN: usize = 8;

/// Latencies to be drawn: of operations on files those that took the longest together, of the others all.
fn drawn(detail: &FlashOutcome) -> Vec<&Latency> {
    let mut all: Vec<&Latency> = detail.latency.iter().collect();
    if detail.file_system.is_some() {
        let total = |op: &Latency| op.mean_ns * op.count as f64;
        all.sort_by(|a, b| total(b).total_cmp(&total(a)));
        all.truncate(DRAWN);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Prepared;

    #[test]
    fn the_kinds_of_operations_that_took_the_longest_are_drawn() {
        let text = "title = 't'\n[nand]\npebs = 128\ndelays = 'on'\n[fs]\n[fsstress]\noperations = 400\n";
        let found = Prepared::resolve(text, &[]).unwrap().run(None, &mut |_| ()).unwrap();
        let detail = found.flash().unwrap();
        let drawn = drawn(detail);
        let total = |op: &Latency| op.mean_ns * op.count as f64;
        assert!(detail.latency.len() > DRAWN && drawn.len() == DRAWN);
        assert!(drawn.is_sorted_by(|a, b| total(a) >= total(b)));
        let least = total(drawn[DRAWN - 1]);
        assert_eq!(detail.latency.iter().filter(|op| total(op) > least).count(), DRAWN - 1);
    }
}
