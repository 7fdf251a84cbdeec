//! Metrics of a file system.

use super::outcome::file_system::{FileSystemOutcome, Throughput};
use super::outcome::flash::Latency;
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
    for (id, value) in [
        ("fs.read_bytes", found.read_bytes),
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
    ] {
        metrics.put(id, value as f64);
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
    for op in latency {
        metrics.put(&format!("fs.{}.count", op.op), op.count as f64);
        metrics.put(&format!("fs.{}.mean_us", op.op), op.mean_ns / NS_PER_US);
        for (stat, ns) in [("min", op.min_ns), ("p50", op.p50_ns), ("p99", op.p99_ns), ("max", op.max_ns)] {
            metrics.put(&format!("fs.{}.{stat}_us", op.op), ns as f64 / NS_PER_US);
        }
    }
}
