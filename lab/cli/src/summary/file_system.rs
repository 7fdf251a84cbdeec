//! Terminal output for a file system.

use runner::measure::outcome::file_system::{FileSystemOutcome, Jffs2Figures, RebootOutcome};
use runner::measure::outcome::flash::FlashOutcome;
use runner::measure::outcome::gc::{GcOutcome, Split};
use runner::measure::{Outcome, chain};
use runner::report::drive::{bytes, span};
use runner::report::grouped;

/// Kinds of operations whose latency is shown: those that took the longest together.
const SHOWN: usize = 6;

/// From the bytes of the programs to those in cells: a line for each layer, with what it consists of, the most first.
fn of_chain(files: &FileSystemOutcome) -> String {
    let layers = chain::of(files);
    let mut text = String::new();
    for (layer, ratio) in layers.iter().zip(chain::ratios(&layers)) {
        let ratio = ratio.map_or(String::new(), |ratio| format!("× {ratio:.3}"));
        text += &format!("{:>9}  {ratio:<9} {}", bytes(layer.bytes), layer.label);
        let mut parts: Vec<_> = layer.parts.iter().collect();
        parts.sort_by_key(|part| std::cmp::Reverse(part.bytes));
        let parts: Vec<_> = parts.into_iter().map(|part| format!("{} {}", part.label, bytes(part.bytes))).collect();
        text += &if parts.is_empty() { "\n".to_owned() } else { format!(": {}\n", parts.join(", ")) };
    }
    text
}

/// What a program did on a file system, and what that cost.
pub(super) fn of_file_system(found: &Outcome, detail: &FlashOutcome, files: &FileSystemOutcome) -> String {
    let metric = |id: &str| found.metrics().value(id).unwrap_or(0.0);
    let place = if files.lebs > 0 { format!(", {} LEBs", grouped(files.lebs.into())) } else { String::new() };
    let mut text = format!(
        "{} on {}{place}: {:.0} operations a second, {} written, {} read\n",
        files.load,
        files.kind,
        metric("fs.operations_per_s"),
        bytes(files.written_bytes),
        bytes(files.read_bytes),
    );
    if !files.failed.is_empty() {
        let failed = files.failed.iter().map(|(errno, count)| format!("{} {errno}", grouped(*count)));
        text += &format!("failed: {}\n", failed.collect::<Vec<_>>().join(", "));
    }
    if files.kind == "ubifs" {
        text += &format!(
            "{} data nodes; {} commits ({} waited for, {} in the background); {} LEBs collected, {} moved; {} index nodes\n",
            grouped(files.data_nodes),
            grouped(files.commits),
            grouped(files.commits_required),
            grouped(files.commits_background),
            grouped(files.collected_lebs),
            bytes(files.moved_bytes),
            grouped(files.index_nodes),
        );
    }
    if let Some(gc) = &files.gc {
        text += &of_gc(gc);
    }
    for mount in &files.mounts {
        let parts: Vec<_> = mount.parts.iter().map(|(part, ns)| format!("{part} {}", span(*ns as f64))).collect();
        text += &format!("{} mount: {} ({})\n", mount.name, span(mount.ns() as f64), parts.join(", "));
    }
    if let Some(reboots) = &files.reboots {
        text += &of_reboots(reboots);
    }
    if let Some(Jffs2Figures { used_bytes, dirty_bytes, free_bytes, erased, .. }) = &files.jffs2 {
        text += &format!(
            "flash: {} in use, {} obsolete, {} erased; {} blocks erased\n",
            bytes(*used_bytes),
            bytes(*dirty_bytes),
            bytes(*free_bytes),
            grouped(*erased),
        );
    }
    if files.written_bytes > 0 {
        text += &of_chain(files);
        let mut causes: Vec<_> = files.programmed_bytes.iter().collect();
        causes.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        let share =
            |(cause, bytes): &(String, u64)| format!("{cause} {:.3}", *bytes as f64 / files.written_bytes as f64);
        let shares = causes.into_iter().map(share).collect::<Vec<_>>().join(", ");
        text += &format!("{:.3} bytes on flash per byte: {shares}\n", metric("waf"));
    }
    let mut slowest: Vec<_> = detail.latency.iter().collect();
    slowest.sort_by(|a, b| (b.mean_ns * b.count as f64).total_cmp(&(a.mean_ns * a.count as f64)));
    for op in slowest.iter().take(SHOWN) {
        let [p50, p99, max] = [op.p50_ns, op.p99_ns, op.max_ns].map(|ns| span(ns as f64));
        text +=
            &format!("{:<12}{:>9} times, median {p50}, 99 % within {p99}, at most {max}\n", op.op, grouped(op.count));
    }
    if let Some(free) = files.free_bytes {
        text += &format!("free at the end: {}\n", bytes(free));
    }
    text
}

/// Garbage collection: its passes, and who waited for them.
fn of_gc(gc: &GcOutcome) -> String {
    let Some(lengths) = &gc.lengths else { return String::new() };
    let time = |ns: u64| span(ns as f64);
    let by_writer: u64 = gc.passes.iter().filter(|passes| passes.by == "writer").map(|passes| passes.count).sum();
    let mut text = format!(
        "garbage collection: {} passes ({} by programs), mean {}, 99 % within {}, at most {}; {} blocks emptied, at most {} each\n",
        grouped(lengths.count),
        grouped(by_writer),
        span(lengths.mean_ns),
        time(lengths.p99_ns),
        time(lengths.max_ns),
        grouped(gc.collected),
        time(gc.longest_collection_ns),
    );
    if let Some(stalls) = &gc.stalls {
        let Split { cpu_ns, bus_ns, program_ns, erase_ns, other_ns } = gc.stalled;
        let parts = [
            ("processor", cpu_ns),
            ("reads", bus_ns),
            ("programs", program_ns),
            ("erases", erase_ns),
            ("busy chip", other_ns),
        ];
        let parts = parts.iter().filter(|(_, ns)| *ns > 0).map(|(part, ns)| format!("{part} {}", time(*ns)));
        text += &format!(
            "waited for it: {} operations, median {}, 99 % within {}, at most {}; in all {}: {}\n",
            grouped(stalls.count),
            time(stalls.p50_ns),
            time(stalls.p99_ns),
            time(stalls.max_ns),
            time(gc.stalled.ns()),
            parts.collect::<Vec<_>>().join(", "),
        );
    }
    text
}

/// How long each stage of a device took.
fn of_reboots(found: &RebootOutcome) -> String {
    let first = found.each.first().unwrap_or(&found.sum).stages();
    let mut text = format!("switched on {} times:", grouped(found.count));
    let all = first.into_iter().zip(found.sum.stages()).zip(found.longest.stages());
    for (((stage, first), (_, sum)), (_, longest)) in all {
        let mean = sum as f64 / found.count.max(1) as f64;
        text += &format!(
            " {stage} {} the first time, {} on average, at most {};",
            span(first as f64),
            span(mean),
            span(longest as f64)
        );
    }
    text.truncate(text.len() - 1);
    text + "\n"
}
