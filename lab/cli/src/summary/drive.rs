//! Terminal output for a run on a drive.

use runner::measure::Outcome;
use runner::measure::outcome::drive::{Debt, DriveOutcome, FlowFigures, WriteAmplification};
use runner::measure::outcome::phases::PhaseFigures;
use runner::report::drive::{bytes, span};
use runner::report::grouped;

use super::of_part;

/// A summary for a terminal.
pub fn summary(outcome: &Outcome, found: &DriveOutcome) -> String {
    let mut text = format!(
        "{}: {} on {} of {}; {} requests in {} (ended by {})\n",
        outcome.experiment.title,
        outcome.experiment.ssd.as_ref().map_or("", |ssd| &ssd.part),
        bytes(found.logical_bytes),
        bytes(found.raw_bytes),
        grouped(found.requests),
        span(outcome.measured.virtual_ns as f64),
        outcome.measured.stopped_by,
    );
    let before = &found.before;
    if before.pages > 0 {
        text += &format!(
            "before the run: {} pages written, {} programmed",
            grouped(before.host_pages),
            grouped(before.pages)
        );
        if let Some(waf) = before.write_amplification {
            let state = if before.settled { "steady" } else { "not yet steady" };
            text += &format!("; {state} after {} windows at a write amplification of {waf:.3}", before.windows);
        }
        if let Some(warm) = &before.warm_up
            && let (Some(waf), Some(iops)) = (warm.write_amplification, warm.iops)
        {
            let state = if warm.settled { "warm" } else { "not yet warm" };
            let (pages, iops) = (grouped(warm.pages), grouped(iops.round() as u64));
            text += &format!("; {state} after {pages} random writes in {}: {iops}/s at {waf:.3}", span(warm.ns as f64));
        }
        text.push('\n');
    }
    if let Some(end) = &found.end_of_life {
        text += &format!(
            "the drive wore out after {} and {} written: {}\n",
            span(end.at_ns as f64),
            bytes(end.host_bytes),
            end.why
        );
    }
    text += &operations(found);
    text += &flows(&found.flows);
    text += &phases(&found.phases);
    text += &amplification(&found.write_amplification);
    text += &debt(&found.debt);
    let wear = &found.wear;
    text += &format!(
        "\nerasures {} over {} blocks: least {}, mean {:.2}, median {}, 99th percentile {}, most {}\n",
        grouped(wear.erases),
        grouped(wear.blocks),
        wear.min,
        wear.mean,
        wear.p50,
        wear.p99,
        wear.max
    );
    let mean = |shares: &[f64]| 100.0 * shares.iter().sum::<f64>() / shares.len().max(1) as f64;
    text += &format!(
        "at work on average: dies {:.1} %, channels {:.1} %\n",
        mean(&found.utilisation.dies),
        mean(&found.utilisation.channels)
    );
    if let Some(share) = found.pattern.as_ref().and_then(|pattern| pattern.segmented_sequentiality) {
        text += &format!("segmented sequentiality of the writes {:.2} %\n", 100.0 * share);
    }
    text += &tree(&found.sysfs);
    for remark in &found.remarks {
        text += &format!("note: {remark}\n");
    }
    text += &of_part(outcome);
    text += &format!("fingerprint {}\n", outcome.fingerprint);
    text
}

/// The host's files in sysfs as a tree: each directory once.
fn tree(entries: &[(String, String)]) -> String {
    let mut text = String::new();
    let mut above: Vec<&str> = Vec::new();
    for (path, value) in entries {
        let mut parts: Vec<&str> = path.split('/').collect();
        let name = parts.pop().unwrap_or_default();
        let shared = parts.iter().zip(&above).take_while(|(a, b)| a == b).count();
        for (depth, folder) in parts.iter().enumerate().skip(shared) {
            text += &format!("{}{folder}/\n", "  ".repeat(depth));
        }
        let indent = "  ".repeat(parts.len());
        text += &format!("{indent}{name:<width$} {value}\n", width = 36usize.saturating_sub(indent.len()));
        above = parts;
    }
    if text.is_empty() { text } else { format!("\nsysfs, as Linux names it\n{text}") }
}

fn operations(found: &DriveOutcome) -> String {
    let mut text = "\n".to_owned();
    text += &format!("{:<7}{:>13}{:>11}{:>11}{:>11}", "", "requests/s", "MB/s", "KiB each", "mean");
    let percentiles = ["50 %", "90 %", "99 %", "99.9 %", "99.99 %", "99.999 %", "most"];
    for name in percentiles {
        text += &format!("{name:>11}");
    }
    text.push('\n');
    for op in &found.ops {
        let rate = grouped(op.iops.round() as u64);
        let kib = op.mean_bytes / 1024.0;
        text += &format!("{:<7}{rate:>13}{:>11.1}{kib:>11.1}{:>11}", op.op, op.mb_s, span(op.mean_ns));
        for ns in [op.p50_ns, op.p90_ns, op.p99_ns, op.p999_ns, op.p9999_ns, op.p99999_ns, op.max_ns] {
            text += &format!("{:>11}", span(ns as f64));
        }
        if op.errors > 0 {
            text += &format!("   {} failed", grouped(op.errors));
        }
        text.push('\n');
    }
    for op in &found.ops {
        let parts: Vec<_> = op
            .time
            .iter()
            .map(|(head, ns)| format!("{head} {} ({:.1} %)", span(*ns), 100.0 * ns / op.mean_ns.max(1.0)))
            .collect();
        if !parts.is_empty() {
            text += &format!("where a {} was: {}\n", op.op, parts.join(", "));
        }
    }
    text
}

fn flows(found: &[FlowFigures]) -> String {
    if found.is_empty() {
        return String::new();
    }
    let name = found.iter().map(|flow| flow.name.chars().count()).max().unwrap_or(0).max(4);
    let mut text = format!(
        "\n{:<name$}{:>7}{:>8}{:>13}{:>11}{:>11}{:>11}{:>11}{:>15}{:>13}\n",
        "flow", "queue", "", "requests/s", "MB/s", "mean", "99 %", "99.9 %", "amplification", "pages moved"
    );
    for flow in found {
        let written = flow.write_amplification.map_or("-".to_owned(), |waf| format!("{waf:.3}"));
        let moved = flow.moved_share.map_or("-".to_owned(), |share| format!("{:.1} %", 100.0 * share));
        for op in &flow.ops {
            let (written, moved) = if op.op == "write" { (written.as_str(), moved.as_str()) } else { ("", "") };
            text += &format!(
                "{:<name$}{:>7}{:>8}{:>13}{:>11.1}{:>11}{:>11}{:>11}{written:>15}{moved:>13}\n",
                flow.name,
                flow.queue,
                op.op,
                grouped(op.iops.round() as u64),
                op.mb_s,
                span(op.mean_ns),
                span(op.p99_ns as f64),
                span(op.p999_ns as f64),
            );
        }
    }
    let own: f64 = found.iter().filter_map(|flow| flow.moved_share).sum();
    if own > 0.0 && own < 0.9995 {
        text += &format!("{:.1} % of the pages moved were written before the run\n", 100.0 * (1.0 - own));
    }
    text
}

fn phases(found: &[PhaseFigures]) -> String {
    if found.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{:<14}{:>12}{:>13}{:>13}{:>11}", "phase", "seconds", "requests", "requests/s", "MB/s");
    let of_apps = found.iter().any(|phase| phase.reads.is_some());
    if of_apps {
        text += &format!("{:>13}{:>13}{:>14}", "reads", "cache hits", "mean launch");
    }
    text.push('\n');
    for phase in found {
        let (requests, rate) = (grouped(phase.requests), grouped(phase.iops().round() as u64));
        text += &format!("{:<14}{:>12.3}{requests:>13}{rate:>13}{:>11.2}", phase.name, phase.seconds(), phase.mb_s);
        if let (Some(reads), Some(hits)) = (phase.reads, phase.cache_hits) {
            let launches = &phase.launches_ns;
            let mean = launches.iter().sum::<u64>() as f64 / launches.len().max(1) as f64;
            text += &format!("{:>13}{:>13}{:>14}", grouped(reads), grouped(hits), span(mean));
        }
        text.push('\n');
    }
    text
}

fn debt(found: &Debt) -> String {
    let mut parts = Vec::new();
    if found.buffered_pages > 0 {
        parts.push(format!("{} pages in the write buffer", grouped(found.buffered_pages)));
    }
    if found.pages + found.erases > 0 {
        parts.push(format!(
            "{} pages and {} erasures of background work in {}",
            grouped(found.pages),
            grouped(found.erases),
            span(found.ns as f64)
        ));
    }
    if parts.is_empty() {
        String::new()
    } else {
        format!("left to do after the last completion: {}\n", parts.join(", "))
    }
}

fn amplification(found: &WriteAmplification) -> String {
    let Some(total) = found.total else { return String::new() };
    let mut text = format!("\nwrite amplification {total:.3}: {} of the host\n", bytes(found.host_bytes));
    for cause in &found.by_cause {
        text += &format!("  {:<12}{:>12} {:>9.3}\n", cause.cause, bytes(cause.bytes), cause.per_host_byte);
    }
    text
}
