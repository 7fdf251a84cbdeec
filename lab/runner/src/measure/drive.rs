//! Metrics of a run on a block device.

use sim::seam::BlockOp;

use super::outcome::drive::{DriveOutcome, FlowFigures, OpFigures, Point};
use super::{Metrics, NS_PER_US, ubiblock};

/// The metrics of a run of `virtual_ns`; `counted` are the counters of the device's layers.
pub fn of_drive(outcome: &DriveOutcome, virtual_ns: u64, counted: Metrics) -> Metrics {
    let mut metrics = Metrics::default();
    metrics.put("run.time_us", virtual_ns as f64 / NS_PER_US);
    metrics.put("run.requests", outcome.requests as f64);
    operations(&mut metrics, &outcome.ops);
    for (at, phase) in outcome.phases.iter().enumerate() {
        let mut put = |stat: &str, value| metrics.put(&format!("phase.{}.{stat}", at + 1), value);
        put("seconds", phase.seconds());
        put("mb_s", phase.mb_s);
        put("iops", phase.iops());
    }
    flows(&mut metrics, &outcome.flows);
    writing(&mut metrics, outcome);
    metrics.put("busy.channels", outcome.utilisation.channels.iter().sum());
    metrics.put("busy.dies", outcome.utilisation.dies.iter().sum());
    if let Some(pattern) = &outcome.pattern {
        let shares = [("seg_seq", pattern.segmented_sequentiality), ("seg_cont", pattern.segmented_continuity)];
        for (id, share) in shares {
            share.into_iter().for_each(|share| metrics.put(&format!("pattern.{id}"), share));
        }
    }
    shares(&mut metrics, outcome, &counted);
    ubiblock::shares(&mut metrics, &counted);
    metrics.0.extend(counted.0);
    metrics
}

fn operations(metrics: &mut Metrics, ops: &[OpFigures]) {
    if !ops.is_empty() {
        let count: u64 = ops.iter().map(|op| op.count).sum();
        let total_ns: f64 = ops.iter().map(|op| op.mean_ns * op.count as f64).sum();
        metrics.put("all.iops", ops.iter().map(|op| op.iops).sum());
        metrics.put("all.mb_s", ops.iter().map(|op| op.mb_s).sum());
        metrics.put("all.mean_us", total_ns / count as f64 / NS_PER_US);
        metrics.put("all.max_us", ops.iter().map(|op| op.max_ns).max().unwrap_or(0) as f64 / NS_PER_US);
    }
    if let [op] = ops {
        metrics.put("all.p99_us", op.p99_ns as f64 / NS_PER_US);
    }
    for op in ops {
        let mut put = |stat: &str, value| metrics.put(&format!("{}.{stat}", op.op), value);
        put("count", op.count as f64);
        put("errors", op.errors as f64);
        put("iops", op.iops);
        put("mb_s", op.mb_s);
        put("mean_us", op.mean_ns / NS_PER_US);
        put("p50_us", op.p50_ns as f64 / NS_PER_US);
        put("p90_us", op.p90_ns as f64 / NS_PER_US);
        put("p99_us", op.p99_ns as f64 / NS_PER_US);
        put("p999_us", op.p999_ns as f64 / NS_PER_US);
        put("max_us", op.max_ns as f64 / NS_PER_US);
    }
}

fn flows(metrics: &mut Metrics, flows: &[FlowFigures]) {
    for (at, flow) in flows.iter().enumerate() {
        let mut put = |stat: &str, value| metrics.put(&format!("flow.{}.{stat}", at + 1), value);
        for op in &flow.ops {
            put(&format!("{}.iops", op.op), op.iops);
            put(&format!("{}.mean_us", op.op), op.mean_ns / NS_PER_US);
            put(&format!("{}.p99_us", op.op), op.p99_ns as f64 / NS_PER_US);
        }
        put("moved_share", flow.moved_share.unwrap_or(f64::NAN));
        put("waf", flow.write_amplification.unwrap_or(f64::NAN));
    }
}

/// Write amplification and wear.
fn writing(metrics: &mut Metrics, outcome: &DriveOutcome) {
    let cost = &outcome.write_amplification;
    metrics.put("waf", cost.total.unwrap_or(f64::NAN));
    for cause in &cost.by_cause {
        metrics.put(&format!("programmed.{}", cause.cause), cause.bytes as f64);
        if cost.host_bytes > 0 {
            metrics.put(&format!("waf.by.{}", cause.cause), cause.per_host_byte);
        }
    }
    if !cost.by_cause.iter().any(|cause| cause.cause == "padding") {
        metrics.put("waf.by.padding", 0.0);
    }
    metrics.put("debt.buffered_pages", outcome.debt.buffered_pages as f64);
    metrics.put("debt.pages", outcome.debt.pages as f64);
    metrics.put("debt.erases", outcome.debt.erases as f64);
    metrics.put("debt.seconds", outcome.debt.ns as f64 / 1e9);
    let wear = &outcome.wear;
    metrics.put("wear.blocks", wear.blocks as f64);
    metrics.put("wear.erases", wear.erases as f64);
    metrics.put_ratio(
        "wear.erases_per_block",
        wear.erases as f64,
        cost.flash_bytes as f64 / outcome.block_bytes as f64,
    );
    metrics.put("wear.all.mean", wear.mean);
    for (stat, erases) in
        [("min", wear.min), ("p50", wear.p50), ("p90", wear.p90), ("p99", wear.p99), ("max", wear.max)]
    {
        metrics.put(&format!("wear.all.{stat}"), f64::from(erases));
    }
    metrics.put("late.waf", late(&outcome.timeline).unwrap_or(f64::NAN));
    let page_bytes = f64::from(outcome.page_bytes);
    metrics.put("flash.programs_per_request", cost.flash_bytes as f64 / page_bytes / outcome.requests.max(1) as f64);
    if let Some(half) = LastHalf::of(&outcome.timeline) {
        metrics.put("late.mb_s", half.bytes as f64 * 1e3 / half.ns as f64);
        metrics.put("late.erases_per_4k", half.erases as f64 * 4096.0 / half.bytes as f64);
        let erased = half.erases as f64 * outcome.block_bytes as f64;
        metrics.put("late.erases_per_block", erased / (half.pages as f64 * page_bytes));
    }
}

/// What follows from what was counted.
fn shares(metrics: &mut Metrics, outcome: &DriveOutcome, counted: &Metrics) {
    let of = |id: &str| counted.value(id).ok();
    let requests = outcome.requests.max(1) as f64;
    for merge in ["switch", "partial", "full"] {
        if let Some(merges) = of(&format!("merge.{merge}")) {
            metrics.put(&format!("merge.{merge}_per_request"), merges / requests);
        }
    }
    if let (Some(hits), Some(misses)) = (of("buffer.hits"), of("buffer.misses")) {
        metrics.put_ratio("buffer.hit_share", hits, hits + misses);
    }
    let read: f64 = ["flash.host_reads", "gc.pages_copied", "map.reads"].into_iter().filter_map(of).sum();
    metrics.put("flash.reads_per_request", read / requests);
    let host = of("flash.host_reads").unwrap_or(0.0);
    metrics.put_ratio("map.reads_per_host_read", of("map.reads").unwrap_or(0.0), host);
    let sysfs = |path: &str| -> Option<f64> {
        let found = outcome.sysfs.iter().find(|(known, _)| known == path);
        found.and_then(|(_, value)| value.parse().ok())
    };
    if let (Some(hits), Some(misses)) = (sysfs("hpb_stats/hit_cnt"), sysfs("hpb_stats/miss_cnt")) {
        metrics.put_ratio("hpb.hit_share", hits, hits + misses);
    }
    if let (Some(right), Some(stale)) = (sysfs("nandlab/entries_right"), sysfs("nandlab/entries_stale")) {
        metrics.put_ratio("hpb.stale_share", stale, right + stale);
    }
    if let Some(bytes) = sysfs("nandlab/map_bytes_to_host") {
        metrics.put("hpb.map_bytes_per_request", bytes / requests);
    }
}

/// The part of the run after the host had written half of its data.
#[derive(Debug, PartialEq, Eq)]
struct LastHalf {
    ns: u64,
    bytes: u64,
    pages: u64,
    erases: u64,
}

impl LastHalf {
    fn of(timeline: &[Point]) -> Option<LastHalf> {
        let written = |point: &Point| point.bytes[BlockOp::Write as usize];
        let half = timeline.iter().map(written).sum::<u64>() / 2;
        let mut before = 0;
        let first = timeline.iter().position(|point| {
            before += written(point);
            before >= half
        })?;
        let (last, late) = (timeline.last()?, timeline.get(first + 1..)?);
        let sum = |of: &dyn Fn(&Point) -> u64| late.iter().map(of).sum();
        let half = LastHalf {
            ns: last.t_ns - timeline[first].t_ns,
            bytes: sum(&written),
            pages: sum(&|point| point.pages),
            erases: sum(&|point| point.erases),
        };
        (half.bytes > 0 && half.pages > 0).then_some(half)
    }
}

/// Pages programmed per page written by the host, after the host had written half.
fn late(timeline: &[Point]) -> Option<f64> {
    let half = timeline.iter().map(|point| point.host_pages).sum::<u64>() / 2;
    let mut written = 0;
    let late = timeline.iter().filter(|point| {
        let before = written;
        written += point.host_pages;
        before >= half
    });
    let (pages, host) = late.fold((0, 0), |(pages, host), point| (pages + point.pages, host + point.host_pages));
    (host > 0).then(|| pages as f64 / host as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Outcome;
    use crate::run::Prepared;

    fn found(text: &str) -> Outcome {
        Prepared::resolve(text, &[]).unwrap().run(None, &mut |_| ()).unwrap()
    }

    fn outcome(rw: &str) -> Outcome {
        let load = format!("[workload]\nrw = '{rw}'\nrequests = 100\nblock_bytes = 8192\n");
        found(&format!("title = 't'\n[ssd]\nblocks = 8\npages = 8\nover_provisioning_percent = 100\n{load}"))
    }

    #[test]
    fn metrics_are_those_of_the_outcome() {
        let found = outcome("randwrite");
        let op = found.drive().unwrap().op("write").unwrap();
        let of = |id| found.metrics().value(id).unwrap();
        assert_eq!((of("all.iops"), of("write.mean_us")), (op.iops, op.mean_ns / 1e3));
        assert_eq!(of("run.time_us"), found.measured.virtual_ns as f64 / 1e3);
        assert_eq!((of("flash.programs_per_request"), of("waf")), (2.0, 1.0));
    }

    #[test]
    fn a_phase_is_measured_by_its_number() {
        let found = found(
            "title = 't'\n[ssd]\nblocks = 8\npages = 8\nover_provisioning_percent = 100\n\
             [iozone]\nthreads = 2\nrange_bytes = 524288\n",
        );
        let (write, of) = (&found.drive().unwrap().phases[1], |id| found.metrics().value(id));
        assert_eq!(of("phase.2.mb_s"), Ok(write.mb_s));
        assert_eq!(of("phase.2.seconds"), Ok(write.seconds()));
        assert_eq!(of("phase.2.iops"), Ok(write.requests as f64 / write.seconds()));
        assert_eq!(of("phase.3.iops").unwrap_err(), "the run has no `phase.3.iops`");
        for unknown in ["phase.0.iops", "phase.1.waf", "phase.1"] {
            assert!(of(unknown).unwrap_err().contains("no metric"), "{unknown}");
        }
    }

    #[test]
    fn what_the_run_does_not_have_is_an_error() {
        let found = outcome("randrw");
        for (id, why) in [
            ("trim.iops", "the run has no `trim.iops`"),
            ("all.p99_us", "the run has no `all.p99_us`"),
            ("merge.full", "the run has no `merge.full`"),
            ("read.iosp", "no metric `read.iosp`; did you mean `read.iops`?"),
        ] {
            assert_eq!(found.metrics().value(id).unwrap_err(), why);
        }
    }

    #[test]
    fn late_amplification_is_that_of_the_second_half() {
        let point = |host_pages, pages| Point {
            t_ns: 0,
            requests: [0; 4],
            bytes: [0; 4],
            host_pages,
            pages,
            erases: 0,
            max_ns: 0,
        };
        assert_eq!(late(&[point(10, 10), point(10, 20), point(10, 30), point(10, 50)]), Some(4.0));
        assert_eq!(late(&[]), None);
    }

    #[test]
    fn the_last_half_is_that_of_the_bytes_written() {
        let point = |t_ns, written, erases| Point {
            t_ns,
            requests: [0; 4],
            bytes: [9, written, 0, 0],
            host_pages: 0,
            pages: 3 * written,
            erases,
            max_ns: 0,
        };
        let timeline = [point(10, 100, 1), point(20, 100, 2), point(40, 100, 4), point(70, 100, 8)];
        assert_eq!(LastHalf::of(&timeline), Some(LastHalf { ns: 50, bytes: 200, pages: 600, erases: 12 }));
        assert_eq!(LastHalf::of(&timeline[..1]), None);
        assert_eq!(LastHalf::of(&[]), None);
    }

    #[test]
    fn figures_of_a_buffer_and_of_merges_are_those_that_were_counted() {
        let text = "title = 't'\n[ssd]\nchannels = 1\nways = 1\nplanes = 1\nblocks = 32\npages = 8\nover_provisioning_percent = 40\n\
                    [ssd.ftl]\nmapping = 'bast'\nlog_blocks = 4\n[ssd.cache]\npolicy = 'bplru'\nmib = 0.125\n\
                    [ssd.front]\nwrite_cache = true\n[workload]\nrequests = 600\n[precondition]\nkind = 'sequential'\n";
        let found = found(text);
        let of = |id| found.metrics().value(id).unwrap();
        let found = found.drive().unwrap();
        let causes = &found.write_amplification;
        let padding = causes.by_cause.iter().find(|cause| cause.cause == "padding").unwrap();
        assert_eq!(of("waf.by.padding"), padding.bytes as f64 / causes.host_bytes as f64);
        assert!(of("waf.by.padding") > 0.5 && of("buffer.hit_share") > 0.0 && of("buffer.hit_share") < 1.0);
        assert!(of("merge.switch_per_request") > 0.0 && of("merge.full_per_request") < of("merge.switch_per_request"));
        let blocks = causes.flash_bytes as f64 / found.block_bytes as f64;
        assert_eq!(of("wear.erases_per_block"), found.wear.erases as f64 / blocks);
    }
}
