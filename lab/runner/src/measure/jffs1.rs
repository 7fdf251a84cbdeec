//! Metrics of a run on JFFS.

use super::outcome::flash::FlashOutcome;
use super::outcome::jffs1::{JffsOutcome, PassFigures, WorkFigures};
use super::{Metrics, NS_PER_S, flash};

/// The metrics of a run of `virtual_ns` on JFFS.
pub fn of_jffs(outcome: &FlashOutcome, found: &JffsOutcome, erase_counts: &[u32], virtual_ns: u64) -> Metrics {
    let mut metrics = flash::of_raw_flash(outcome, erase_counts, virtual_ns);
    metrics.put("run.steps", outcome.steps as f64);
    let programmed: u64 = outcome.programmed_bytes.iter().map(|(_, bytes)| bytes).sum();
    metrics.put_ratio("waf", programmed as f64, outcome.host_bytes as f64);
    metrics.put("jffs.mount_empty_s", found.mount_empty.ns() as f64 / NS_PER_S);
    for (id, value) in [
        ("jffs.nodes", found.full.nodes.into()),
        ("jffs.data_bytes", found.full.data_bytes),
        ("jffs.header_bytes", found.full.header_bytes),
        ("jffs.dirty_bytes", found.full.dirty_bytes),
        ("jffs.free_bytes", found.full.free_bytes),
        ("jffs.fill_passes", found.passes.len() as u64),
    ] {
        metrics.put(id, value as f64);
    }
    let Some(then) = &found.then else { return metrics };
    let seconds = |ns: u64| ns as f64 / NS_PER_S;
    let WorkFigures { cpu_ns, bus_ns, program_ns, erase_ns, visited, .. } = then.work;
    for (id, ns) in [
        ("jffs.then.all_s", then.work.ns()),
        ("jffs.then.cpu_s", cpu_ns),
        ("jffs.then.bus_s", bus_ns),
        ("jffs.then.program_s", program_ns),
        ("jffs.then.erase_s", erase_ns),
        ("jffs.then.longest_pass_s", then.passes.iter().map(|pass| pass.ns).max().unwrap_or(0)),
    ] {
        metrics.put(id, seconds(ns));
    }
    let sum = |of: fn(&PassFigures) -> u64| then.passes.iter().map(of).sum::<u64>() as f64;
    metrics.put("jffs.then.visited", visited as f64);
    metrics.put("jffs.then.passes", then.passes.len() as f64);
    metrics.put("jffs.then.moved_bytes", sum(|pass| pass.moved_bytes));
    metrics.put("jffs.then.nodes", then.left.nodes.into());
    metrics
}
