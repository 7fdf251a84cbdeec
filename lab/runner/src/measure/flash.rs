//! Metrics of a run on UBI.

use ubi::{FastmapTrigger, Stats};

use super::outcome::flash::{FastmapFigures, FlashOutcome, HEAD_PEBS, Latency, Point, VolumesOutcome};
use super::outcome::table::{BINS, WearTable};
use super::{Metrics, NS_PER_S, NS_PER_US, file_system};
use crate::schema::limits::SECONDS_PER_DAY;

/// A PEB outside the first 64 is an outlier if it was erased at least this many times as often as their median.
const OUTLIER_FACTOR: f64 = 10.0;

/// The metrics of a run of `virtual_ns`; `stats` are UBI's, if it is there.
pub fn of_flash(outcome: &FlashOutcome, erase_counts: &[u32], virtual_ns: u64, stats: Option<&Stats>) -> Metrics {
    let mut metrics = Metrics::default();
    metrics.put("run.time_us", virtual_ns as f64 / NS_PER_US);
    metrics.put("run.steps", outcome.steps as f64);
    let wrote_nothing = outcome.file_system.is_some() && outcome.host_bytes == 0;
    let last = outcome.timeline.last().filter(|_| !wrote_nothing);
    metrics.put("waf", last.map_or(f64::NAN, |point| point.waf));
    if let Some(volumes) = &outcome.volumes {
        of_volumes(&mut metrics, outcome, volumes, erase_counts.len());
    }
    if let Some(found) = &outcome.file_system {
        file_system::put(&mut metrics, found, &outcome.latency, virtual_ns);
    }
    let of_lebs = if outcome.file_system.is_none() { &outcome.latency[..] } else { &[] };
    for op in of_lebs {
        metrics.put("leb_write.count", op.count as f64);
        metrics.put("leb_write.mean_us", op.mean_ns / NS_PER_US);
        for (stat, ns) in
            [("p50", op.p50_ns), ("p90", op.p90_ns), ("p99", op.p99_ns), ("p999", op.p999_ns), ("max", op.max_ns)]
        {
            metrics.put(&format!("leb_write.{stat}_us"), ns as f64 / NS_PER_US);
        }
    }
    for (cause, bytes) in &outcome.programmed_bytes {
        metrics.put(&format!("programmed.{cause}"), *bytes as f64);
    }
    for (cause, erases) in &outcome.erases_by_cause {
        metrics.put(&format!("erased.{cause}"), *erases as f64);
    }
    wear(&mut metrics, erase_counts);
    let Some(stats) = stats else { return metrics };
    for (id, count) in [
        ("ubi.user_pebs", stats.user_pebs),
        ("ubi.erases", stats.erases),
        ("ubi.scrubs", stats.scrubs),
        ("bad.blocks", stats.retired),
        ("wl.moves", stats.moves),
        ("wl.anchor_moves", stats.anchor_moves),
        ("wl.give_backs", stats.give_backs),
        ("fastmap.writes", stats.fastmap_writes),
        ("fastmap.anchors_in_place", stats.anchors_in_place),
        ("fastmap.data_in_place", stats.data_blocks_in_place),
    ] {
        metrics.put(id, count as f64);
    }
    for (trigger, &count) in FastmapTrigger::ALL.iter().zip(&stats.fastmap_triggers) {
        metrics.put(&format!("fastmap.writes_for.{}", trigger.name()), count as f64);
    }
    metrics.put("fastmap.mean_user_pool_since_attach", stats.mean_user_pool());
    let Some(FastmapFigures {
        writes_per_user_peb,
        mean_user_pool,
        starved_refill_share,
        empty_wl_pool_share,
        anchors_in_place_share,
        data_in_place_share,
        give_backs_per_write,
        moves_per_user_peb,
    }) = outcome.fastmap
    else {
        return metrics;
    };
    for (stat, value) in [
        ("writes_per_user_peb", writes_per_user_peb),
        ("mean_user_pool", mean_user_pool),
        ("starved_refill_share", starved_refill_share),
        ("empty_wl_pool_share", empty_wl_pool_share),
        ("anchors_in_place_share", anchors_in_place_share),
        ("data_in_place_share", data_in_place_share),
        ("give_backs_per_write", give_backs_per_write),
        ("moves_per_user_peb", moves_per_user_peb),
    ] {
        metrics.put(&format!("fastmap.{stat}"), value);
    }
    metrics
}

/// The metrics of a run of `virtual_ns` on raw flash without nandlab's UBI.
pub fn of_raw_flash(outcome: &FlashOutcome, erase_counts: &[u32], virtual_ns: u64) -> Metrics {
    let mut metrics = Metrics::default();
    metrics.put("run.time_us", virtual_ns as f64 / NS_PER_US);
    match &outcome.file_system {
        Some(found) => file_system::put(&mut metrics, found, &[], virtual_ns),
        None => metrics.put("host.bytes", outcome.host_bytes as f64),
    }
    for op in &outcome.latency {
        metrics.put(&format!("{}.count", op.op), op.count as f64);
        metrics.put(&format!("{}.mean_us", op.op), op.mean_ns / NS_PER_US);
        for (stat, ns) in [("p50", op.p50_ns), ("p90", op.p90_ns), ("p99", op.p99_ns), ("max", op.max_ns)] {
            metrics.put(&format!("{}.{stat}_us", op.op), ns as f64 / NS_PER_US);
        }
    }
    for (cause, bytes) in &outcome.programmed_bytes {
        metrics.put(&format!("programmed.{cause}"), *bytes as f64);
    }
    for (cause, erases) in &outcome.erases_by_cause {
        metrics.put(&format!("erased.{cause}"), *erases as f64);
    }
    wear(&mut metrics, erase_counts);
    metrics
}

/// Adds what is known of a load that nandlab generated and a guest made: the latency of its operations, and the bytes that were
/// programmed for those that it wrote.
pub fn of_load_in_guest(metrics: &mut Metrics, operations: &[Latency], programmed: u64, written: u64) {
    metrics.put_ratio("waf", programmed as f64, written as f64);
    file_system::put_latency(metrics, operations);
}

/// What the volumes' users wrote, what that cost, and how fast the blocks wear.
fn of_volumes(metrics: &mut Metrics, outcome: &FlashOutcome, volumes: &VolumesOutcome, pebs: usize) {
    metrics.put("host.bytes", outcome.host_bytes as f64);
    metrics.put("host.behind_s", volumes.behind_ns as f64 / NS_PER_S);
    for (cause, bytes) in &volumes.programmed_bytes {
        metrics.put_ratio(&format!("waf.by.{cause}"), *bytes as f64, outcome.host_bytes as f64);
    }
    let (Some(first), Some(last)) = (outcome.timeline.first(), outcome.timeline.last()) else { return };
    let half = outcome.timeline.iter().rev().find(|point| point.t_ns <= last.t_ns / 2).unwrap_or(first);
    let days = (last.t_ns - half.t_ns) as f64 / NS_PER_S / SECONDS_PER_DAY;
    let most = |point: &Point| point.groups.first64.max.max(point.groups.others.max);
    metrics.put_ratio("late.mean_erases_per_day", (last.erases - half.erases) as f64 / pebs as f64, days);
    metrics.put_ratio("late.max_erases_per_day", (most(last) - most(half)) as f64, days);
}

/// Erase counts of all PEBs, the first 64, outliers and others. All are 0 for an empty group.
fn wear(metrics: &mut Metrics, erase_counts: &[u32]) {
    let (head, rest) = erase_counts.split_at(HEAD_PEBS.min(erase_counts.len()));
    let mut sorted = rest.to_vec();
    sorted.sort_unstable();
    let limit = OUTLIER_FACTOR * sorted.get(sorted.len() / 2).map_or(1.0, |&median| f64::from(median.max(1)));
    let (outliers, others): (Vec<u32>, Vec<u32>) = rest.iter().partition(|&&ec| f64::from(ec) >= limit);
    metrics.put("wear.blocks", erase_counts.len() as f64);
    metrics.put("wear.erases", erase_counts.iter().map(|&ec| f64::from(ec)).sum());
    for (row, (from, _)) in WearTable::of(erase_counts).bins.iter().zip(BINS) {
        metrics.put(&format!("wear.decade.{from}"), row.count as f64);
    }
    for (group, pebs) in [("all", erase_counts), ("first64", head), ("others", &others), ("outliers", &outliers)] {
        let sum: f64 = pebs.iter().map(|&ec| f64::from(ec)).sum();
        let bound = |ec: Option<&u32>| ec.map_or(0.0, |&ec| f64::from(ec));
        metrics.put(&format!("wear.{group}.count"), pebs.len() as f64);
        metrics.put(&format!("wear.{group}.min"), bound(pebs.iter().min()));
        metrics.put(&format!("wear.{group}.mean"), sum / pebs.len().max(1) as f64);
        metrics.put(&format!("wear.{group}.max"), bound(pebs.iter().max()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outlier_is_in_no_other_group_but_all() {
        let mut counts = vec![100; HEAD_PEBS];
        counts.extend([5, 6, 7, 60, 1]);
        let mut metrics = Metrics::default();
        wear(&mut metrics, &counts);
        let of = |id| metrics.value(id).unwrap();
        assert_eq!((of("wear.outliers.count"), of("wear.outliers.max")), (1.0, 60.0));
        assert_eq!((of("wear.others.min"), of("wear.others.mean"), of("wear.others.max")), (1.0, 4.75, 7.0));
        assert_eq!([of("wear.decade.0"), of("wear.decade.10"), of("wear.decade.100")], [4.0, 1.0, 64.0]);
        assert_eq!((of("wear.first64.mean"), of("wear.all.count"), of("wear.all.max")), (100.0, 69.0, 100.0));
    }
}
