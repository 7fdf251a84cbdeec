//! Terminal output for a run on a block device.

use runner::measure::Outcome;
use runner::measure::outcome::drive::{Debt, DriveOutcome, FlowFigures, WriteAmplification};
use runner::measure::outcome::phases::PhaseFigures;
use runner::report::drive::{bytes, span, ubiblock};
use runner::report::grouped;

use super::{of_faults, of_part};
use crate::table::{self, Table};

/// A summary for a terminal.
pub fn summary(outcome: &Outcome, found: &DriveOutcome) -> String {
    let mut text = format!(
        "{}: {}; {} requests in {} (ended by {})\n",
        outcome.experiment.title,
        device(outcome, found),
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
        if let Some(idle) = before.until_idle.as_ref().filter(|idle| idle.ns > 0) {
            text += &format!("; idle after {}: {} pages moved", span(idle.ns as f64), grouped(idle.pages));
        }
        text.push('\n');
    }
    if let Some(end) = &found.end_of_life {
        let what = if outcome.experiment.ubiblock.is_some() { "UBI took no more writes" } else { "the drive wore out" };
        text +=
            &format!("{what} after {} and {} written: {}\n", span(end.at_ns as f64), bytes(end.host_bytes), end.why);
    }
    text += &operations(found);
    text += &flows(&found.flows);
    text += &phases(&found.phases);
    text += &amplification(&found.write_amplification);
    text += &debt(outcome, &found.debt);
    text += &cache(outcome);
    let wear = &found.wear;
    text += &format!(
        "\nerasures {} over {} {}: least {}, mean {:.2}, median {}, 99th percentile {}, most {}\n",
        grouped(wear.erases),
        grouped(wear.blocks),
        if outcome.experiment.ubiblock.is_some() { "PEBs" } else { "blocks" },
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
    text += &of_faults(outcome);
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
    let mut table = Table::new([
        "",
        "requests/s",
        "MB/s",
        "KiB each",
        "mean",
        "50 %",
        "90 %",
        "99 %",
        "99.9 %",
        "99.99 %",
        "99.999 %",
        "most",
    ]);
    for op in &found.ops {
        let mut row = vec![
            op.op.clone(),
            grouped(op.iops.round() as u64),
            format!("{:.1}", op.mb_s),
            format!("{:.1}", op.mean_bytes / 1024.0),
            span(op.mean_ns),
        ];
        let percentiles = [op.p50_ns, op.p90_ns, op.p99_ns, op.p999_ns, op.p9999_ns, op.p99999_ns, op.max_ns];
        row.extend(percentiles.map(|ns| span(ns as f64)));
        table.row(row);
        if op.errors > 0 {
            table.note(format!("{} failed", grouped(op.errors)));
        }
    }
    let mut text = format!("\n{}", table.print(table::width()));
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
    let heads = ["flow", "queue", "", "requests/s", "MB/s", "mean", "99 %", "99.9 %", "amplification", "pages moved"];
    let mut table = Table::new(heads);
    for flow in found {
        let written = flow.write_amplification.map_or("-".to_owned(), |waf| format!("{waf:.3}"));
        let moved = flow.moved_share.map_or("-".to_owned(), |share| format!("{:.1} %", 100.0 * share));
        for op in &flow.ops {
            let of_writes = |text: &str| if op.op == "write" { text.to_owned() } else { String::new() };
            table.row(vec![
                flow.name.clone(),
                flow.queue.to_string(),
                op.op.clone(),
                grouped(op.iops.round() as u64),
                format!("{:.1}", op.mb_s),
                span(op.mean_ns),
                span(op.p99_ns as f64),
                span(op.p999_ns as f64),
                of_writes(&written),
                of_writes(&moved),
            ]);
        }
    }
    let mut text = format!("\n{}", table.print(table::width()));
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
    let mut head = vec!["phase", "seconds", "requests", "requests/s", "MB/s"];
    if found.iter().any(|phase| phase.reads.is_some()) {
        head.extend(["reads", "cache hits", "mean launch"]);
    }
    let mut table = Table::new(head);
    for phase in found {
        let mut row = vec![
            phase.name.clone(),
            format!("{:.3}", phase.seconds()),
            grouped(phase.requests),
            grouped(phase.iops().round() as u64),
            format!("{:.2}", phase.mb_s),
        ];
        if let (Some(reads), Some(hits)) = (phase.reads, phase.cache_hits) {
            let launches = &phase.launches_ns;
            let mean = launches.iter().sum::<u64>() as f64 / launches.len().max(1) as f64;
            row.extend([grouped(reads), grouped(hits), span(mean)]);
        }
        table.row(row);
    }
    format!("\n{}", table.print(table::width()))
}

/// The device: its name, its capacity, and the flash that it is on.
fn device(outcome: &Outcome, found: &DriveOutcome) -> String {
    let experiment = &outcome.experiment;
    let (logical, raw) = (bytes(found.logical_bytes), bytes(found.raw_bytes));
    match ubiblock(experiment) {
        Some(name) => format!("{name}, {logical} of {raw}"),
        None => format!("{} on {logical} of {raw}", experiment.ssd.as_ref().map_or("", |ssd| &ssd.part)),
    }
}

/// What the cache of a ubiblock did.
fn cache(outcome: &Outcome) -> String {
    let of = |id: &str| outcome.metrics().value(id).map(|value| value as u64).ok();
    let (Some(hits), Some(loads), Some(whole), Some(back)) =
        (of("ubiblock.write_hits"), of("ubiblock.loads"), of("ubiblock.whole_lebs"), of("ubiblock.write_backs"))
    else {
        return String::new();
    };
    let why = ["evicted", "flushed", "forced", "idle"]
        .map(|why| (why, of(&format!("ubiblock.write_backs.{why}")).unwrap_or(0)));
    let why: Vec<String> =
        why.iter().filter(|(_, count)| *count > 0).map(|(why, count)| format!("{} {why}", grouped(*count))).collect();
    let why = if why.is_empty() { String::new() } else { format!(" ({})", why.join(", ")) };
    format!(
        "cache: {} writes to a cached LEB, {} LEBs read to be changed, {} written whole; {} written back{why}\n",
        grouped(hits),
        grouped(loads),
        grouped(whole),
        grouped(back)
    )
}

fn debt(outcome: &Outcome, found: &Debt) -> String {
    let mut parts = Vec::new();
    if let Ok(lebs) = outcome.metrics().value("ubiblock.dirty_lebs") {
        if lebs > 0.0 {
            parts.push(format!("{lebs} dirty LEBs, written back by the last close"));
        }
    } else if found.buffered_pages > 0 {
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
