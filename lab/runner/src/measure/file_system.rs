//! Metrics of a file system.

use sim::PassKind;

use super::outcome::file_system::{FileSystemOutcome, Jffs2Figures, RebootOutcome, Throughput};
use super::outcome::flash::Latency;
use super::outcome::gc::{GcOutcome, MountOutcome, Passes, Split};
use super::{Metrics, NS_PER_S, NS_PER_US, chain};

/// Adds the metrics of a file system in a run of `virtual_ns`. `latency` is by operation.
pub(super) fn put(metrics: &mut Metrics, found: &FileSystemOutcome, latency: &[Latency], virtual_ns: u64) {
    let own = found.count(|op| op.done + op.nothing + op.refused + op.failed);
    let all = (own + found.repeated_operations) as f64;
    metrics.put("host.bytes", found.written_bytes as f64);
    for (cause, bytes) in &found.programmed_bytes {
        metrics.put_ratio(&format!("waf.by.{cause}"), *bytes as f64, found.written_bytes as f64);
    }
    chain::put(metrics, found);
    metrics.put_ratio("fs.operations_per_s", all, virtual_ns as f64 / NS_PER_S);
    metrics.put("fs.nothing", found.count(|op| op.nothing) as f64);
    metrics.put("fs.refused", found.count(|op| op.refused) as f64);
    metrics.put("fs.failed", found.count(|op| op.failed) as f64);
    for (errno, count) in &found.failed {
        metrics.put(&format!("fs.failed.{}", errno.to_ascii_lowercase()), *count as f64);
    }
    metrics.put("fs.read_bytes", found.read_bytes as f64);
    let of_ubifs = [
        ("fs.data_bytes", found.data_bytes),
        ("fs.data_nodes", found.data_nodes),
        ("fs.commits", found.commits),
        ("fs.commits_required", found.commits_required),
        ("fs.commits_background", found.commits_background),
        ("fs.collected_lebs", found.collected_lebs),
        ("fs.moved_bytes", found.moved_bytes),
        ("fs.collected_index_lebs", found.collected_index_lebs),
        ("fs.index_nodes", found.index_nodes),
        ("fs.index_nodes_in_gaps", found.index_nodes_in_gaps),
    ];
    if found.kind == "ubifs" {
        of_ubifs.into_iter().for_each(|(id, value)| metrics.put(id, value as f64));
    }
    if let Some(gc) = &found.gc {
        of_gc(metrics, gc);
    }
    of_mounts(metrics, &found.mounts);
    if let Some(figures) = &found.jffs2 {
        of_jffs2(metrics, figures);
    }
    if let Some(reboots) = &found.reboots {
        of_reboots(metrics, reboots);
    }
    if found.repeated_operations > 0 {
        metrics.put("fs.repeated", found.repeated_operations as f64);
    }
    if let Some(bytes) = found.free_bytes {
        metrics.put("fs.free_bytes", bytes as f64);
    }
    if let Some(cache) = &found.page_cache {
        for (id, pages) in
            [("cache.hits", cache.hits), ("cache.misses", cache.misses), ("cache.dropped", cache.dropped)]
        {
            metrics.put(id, pages as f64);
        }
        for (why, pages) in &cache.written {
            metrics.put(&format!("cache.written.{why}"), *pages as f64);
        }
    }
    if let Some(Throughput { read_bytes, written_bytes, ns }) = found.throughput {
        for (op, bytes) in [("read", read_bytes), ("write", written_bytes)] {
            if bytes > 0 {
                metrics.put_ratio(&format!("fs.{op}.mb_s"), bytes as f64 / 1e6, ns as f64 / NS_PER_S);
            }
        }
    }
    for op in found.operations.iter().filter(|op| op.with_fastmap > 0) {
        metrics.put(&format!("fs.{}.with_fastmap", op.op), op.with_fastmap as f64);
        let longest = op.max_without_fastmap_ns as f64 / NS_PER_US;
        metrics.put(&format!("fs.{}.max_without_fastmap_us", op.op), longest);
    }
    put_latency(metrics, latency);
}

/// Adds the latency of operations.
pub(super) fn put_latency(metrics: &mut Metrics, latency: &[Latency]) {
    for op in latency {
        metrics.put(&format!("fs.{}.count", op.op), op.count as f64);
        metrics.put(&format!("fs.{}.mean_us", op.op), op.mean_ns / NS_PER_US);
        for (stat, ns) in [("min", op.min_ns), ("p50", op.p50_ns), ("p99", op.p99_ns), ("max", op.max_ns)] {
            metrics.put(&format!("fs.{}.{stat}_us", op.op), ns as f64 / NS_PER_US);
        }
    }
}

/// Garbage collection, and who waited for it.
fn of_gc(metrics: &mut Metrics, gc: &GcOutcome) {
    let sum = |by: Option<&str>, of: &dyn Fn(&Passes) -> u64| {
        let passes = gc.passes.iter().filter(|passes| by.is_none_or(|by| passes.by == by));
        passes.filter(|passes| passes.kind != PassKind::Check.name()).map(of).fold(0, u64::saturating_add) as f64
    };
    metrics.put("fs.gc.passes", sum(None, &|passes| passes.count));
    metrics.put("fs.gc.passes_by_writer", sum(Some("writer"), &|passes| passes.count));
    metrics.put("fs.gc.moved_bytes", sum(None, &|passes| passes.moved_bytes));
    metrics.put("fs.gc.thread_s", sum(Some("thread"), &|passes| passes.split.ns()) / NS_PER_S);
    metrics.put("fs.gc.writer_s", sum(Some("writer"), &|passes| passes.split.ns()) / NS_PER_S);
    if let Some(lengths) = &gc.lengths {
        metrics.put("fs.gc.mean_pass_us", lengths.mean_ns / NS_PER_US);
        metrics.put("fs.gc.p99_pass_us", lengths.p99_ns as f64 / NS_PER_US);
        metrics.put("fs.gc.max_pass_us", lengths.max_ns as f64 / NS_PER_US);
    }
    metrics.put("fs.gc.collected", gc.collected as f64);
    metrics.put("fs.gc.longest_s", gc.longest_collection_ns as f64 / NS_PER_S);
    metrics.put("fs.stall.count", gc.stalls.as_ref().map_or(0.0, |stalls| stalls.count as f64));
    if let Some(stalls) = &gc.stalls {
        metrics.put("fs.stall.mean_us", stalls.mean_ns / NS_PER_US);
        for (stat, ns) in [("p50", stalls.p50_ns), ("p99", stalls.p99_ns), ("max", stalls.max_ns)] {
            metrics.put(&format!("fs.stall.{stat}_us"), ns as f64 / NS_PER_US);
        }
    }
    let Split { cpu_ns, bus_ns, program_ns, erase_ns, other_ns } = gc.stalled;
    for (part, ns) in [
        ("all", gc.stalled.ns()),
        ("cpu", cpu_ns),
        ("bus", bus_ns),
        ("program", program_ns),
        ("erase", erase_ns),
        ("other", other_ns),
    ] {
        metrics.put(&format!("fs.stall.{part}_s"), ns as f64 / NS_PER_S);
    }
}

fn of_mounts(metrics: &mut Metrics, mounts: &[MountOutcome]) {
    for mount in mounts {
        metrics.put(&format!("fs.mount.{}.s", mount.name), mount.ns() as f64 / NS_PER_S);
        for (part, ns) in &mount.parts {
            metrics.put(&format!("fs.mount.{}.part.{part}_s", mount.name), *ns as f64 / NS_PER_S);
        }
    }
}

fn of_jffs2(metrics: &mut Metrics, figures: &Jffs2Figures) {
    for (id, value) in [
        ("jffs2.used_bytes", figures.used_bytes),
        ("jffs2.dirty_bytes", figures.dirty_bytes),
        ("jffs2.free_bytes", figures.free_bytes),
        ("jffs2.copied", figures.copied),
        ("jffs2.rewritten", figures.rewritten),
        ("jffs2.erased", figures.erased),
        ("jffs2.summaries", figures.summaries),
        ("jffs2.damaged", figures.damaged),
        ("jffs2.failed_programs", figures.failed_programs),
        ("jffs2.rescued", figures.rescued),
    ] {
        metrics.put(id, value as f64);
    }
}

fn of_reboots(metrics: &mut Metrics, found: &RebootOutcome) {
    metrics.put("reboots.count", found.count as f64);
    let seconds = |(stage, ns): (&'static str, u64)| (stage, ns as f64 / NS_PER_S);
    for (stage, first) in found.each.first().iter().flat_map(|first| first.stages().map(seconds)) {
        metrics.put(&format!("reboots.{stage}.first_s"), first);
    }
    for ((stage, sum), (_, longest)) in
        found.sum.stages().map(seconds).into_iter().zip(found.longest.stages().map(seconds))
    {
        metrics.put_ratio(&format!("reboots.{stage}.mean_s"), sum, found.count as f64);
        metrics.put(&format!("reboots.{stage}.max_s"), longest);
    }
}
