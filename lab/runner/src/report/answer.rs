//! The answer of a run: the sentences that its user came for, and what differs between several runs.

use std::collections::BTreeMap;

use super::Named;
use super::drive::{bytes, span};
use crate::measure::Outcome;
use crate::measure::life::YEAR_S;
use crate::measure::outcome::drive::{DriveOutcome, Point};
use crate::measure::outcome::faults::FaultFigures;
use crate::schema::load::PreconditionKind;

/// Change between quarters of a run below which it is steady.
const STEADY_WITHIN: f64 = 0.05;
/// Most keys and metrics that a comparison lists.
const LISTED: usize = 6;

/// The answer of a run, a sentence each: rates and latencies, life, and what limits them.
pub fn of(outcome: &Outcome) -> Vec<String> {
    let mut answer = Vec::new();
    if let Some(drive) = outcome.drive() {
        answer.extend(rates(drive));
        answer.extend(drift(&drive.timeline).map(|what| format!("Not steady yet. {what}{}", remedy(outcome))));
    }
    answer.extend(outcome.measured.faults.as_ref().map(faults));
    // Of a flash that was worn before, the run shows only a part of the wear.
    let worn = outcome.experiment.faults.as_ref().is_some_and(|faults| faults.worn_cycles > 0);
    answer.extend(life(outcome).filter(|_| !worn));
    answer
}

/// What the faults of the flash cost.
fn faults(found: &FaultFigures) -> String {
    let number = super::grouped;
    let lost = match (found.lost, found.unnoticed_bits) {
        (0, 0) => "No data were lost".to_owned(),
        (0, bits) => format!("{} wrong bits reached the reader, as there is no ECC", number(bits)),
        (lost, _) => format!("Data were lost {} times", number(lost)),
    };
    let corrected = (found.corrected_bits > 0).then(|| format!("ECC corrected {} bits", number(found.corrected_bits)));
    let scrubbed = (found.scrubbed > 0).then(|| format!("UBI scrubbed {} PEBs", number(found.scrubbed)));
    let retired = (found.retired > 0).then(|| format!("{} blocks became bad", number(found.retired)));
    let what: Vec<String> = [corrected, scrubbed, retired].into_iter().flatten().collect();
    if what.is_empty() { format!("{lost}.") } else { format!("{lost}; {}.", what.join(", ")) }
}

/// Rate and 99th percentile of reads and writes.
fn rates(drive: &DriveOutcome) -> impl Iterator<Item = String> {
    let moving = drive.ops.iter().filter(|op| op.bytes > 0 && ["read", "write"].contains(&op.op.as_str()));
    moving.map(|op| {
        let name = if op.op == "read" { "Reads" } else { "Writes" };
        let rate = super::grouped(op.iops.round() as u64);
        format!("{name}: {rate} a second ({:.1} MB/s); 99 % complete within {}.", op.mb_s, span(op.p99_ns as f64))
    })
}

/// A sentence with the amplification and rate of the last three quarters, if either moves in one direction by more than
/// [`STEADY_WITHIN`]; the first quarter is the run's start. Quarters are of host pages.
fn drift(timeline: &[Point]) -> Option<String> {
    let all: u64 = timeline.iter().map(|point| point.host_pages).sum();
    if timeline.len() < 16 || all == 0 {
        return None;
    }
    let mut quarters = [(0, 0, 0u64); 4];
    let (mut seen, mut began) = (0, 0);
    for point in timeline {
        let (host, pages, ns) = &mut quarters[(4 * seen / all).min(3) as usize];
        *host += point.host_pages;
        *pages += point.pages;
        *ns += point.t_ns - began;
        (seen, began) = (seen + point.host_pages, point.t_ns);
    }
    let [_, late @ ..] = quarters;
    let waf = late.map(|(host, pages, _)| pages as f64 / host as f64);
    let rate = late.map(|(host, _, ns)| host as f64 * 1e9 / ns as f64);
    let moves = |[a, b, c]: [f64; 3]| (a < b && b < c || a > b && b > c) && (c / a - 1.0).abs() > STEADY_WITHIN;
    let texts = |numbers: [f64; 3], digits: usize| numbers.map(|number| format!("{number:.digits$}")).join(", ");
    let mut what = Vec::new();
    if moves(waf) {
        what.push(format!("write amplification {}", texts(waf, 2)));
    }
    if moves(rate) {
        what.push(format!("pages written a second {}", texts(rate, 0)));
    }
    let what = (!what.is_empty()).then(|| what.join("; "))?;
    Some(format!("In the second, third and last quarter: {what}."))
}

/// What makes a run steady; nothing for a trace, which is as long as it is.
fn remedy(outcome: &Outcome) -> &'static str {
    let experiment = &outcome.experiment;
    let steady = experiment.precondition.as_ref().is_some_and(|section| section.kind == PreconditionKind::Steady);
    match (experiment.trace.is_some(), steady || experiment.ssd.is_none()) {
        (true, _) => "",
        (false, true) => " Run longer.",
        (false, false) => " Run longer, or set precondition.kind = \"steady\".",
    }
}

/// The time until blocks wear out.
fn life(outcome: &Outcome) -> Option<String> {
    let metric = |id: &str| outcome.metrics().value(id).ok();
    let erased = outcome.measured.erase_counts.iter().any(|&count| count > 0);
    let key = if outcome.experiment.ssd.is_some() { "ssd.endurance" } else { "nand.endurance" };
    let years = |id: &str| metric(id).filter(|years| years.is_finite()).map(|years| span(years * YEAR_S * 1e9));
    let end = |end: &str| {
        let of = |share: &str| years(&format!("life.{end}.{share}_years"));
        let range = format!("{} (10 % to 90 % of devices: {} to {})", of("p50")?, of("p10")?, of("p90")?);
        let written = metric(&format!("life.{end}.host_bytes")).filter(|&host| host > 0.0);
        let written = written.map(|host| format!(", when the host has written {}", bytes(host as u64)));
        Some(range + &written.unwrap_or_default())
    };
    let Some(level_first) = end("level_first") else {
        return erased.then(|| format!("Life: not known, as {key} is not set (erasures for which a block is rated)."));
    };
    let blocks = metric("life.reserve_blocks").unwrap_or(0.0) as u64;
    let sentence = |first: String, reserve: Option<String>| {
        let reserve = reserve.map(|reserve| match blocks {
            0 => "; no block is in reserve".to_owned(),
            1 => format!("; the only block in reserve is used up after {reserve}"),
            _ => format!("; the {} blocks in reserve are used up after {reserve}", super::grouped(blocks)),
        });
        format!("the first block is worn out after {first}{}.", reserve.unwrap_or_default())
    };
    let Some(first) = end("first") else {
        let counts = &outcome.measured.erase_counts;
        let mean = counts.iter().map(|&count| f64::from(count)).sum::<f64>() / counts.len() as f64;
        return Some(format!(
            "At this load and with level wear, {} The run erased each block {} times on average, too few to show how level it is.",
            sentence(level_first, end("level_reserve")),
            super::four_digits(mean)
        ));
    };
    let mut text = format!("At this load, {}", sentence(first, end("reserve")));
    if let (Some(uneven), Some(level)) = (metric("life.first.p50_years"), metric("life.level_first.p50_years"))
        && level > uneven * (1.0 + STEADY_WITHIN)
    {
        let level = span(level * YEAR_S * 1e9);
        text += &format!(
            " This supposes that each block wears on as in the run; with level wear the first would last {level}."
        );
    }
    Some(text)
}

/// What differs between runs: keys of the experiments, then results, those that differ most first.
pub fn comparison(runs: &[Named<'_>]) -> Vec<String> {
    if runs.len() < 2 {
        return Vec::new();
    }
    let mut lines = Vec::new();
    let keys = different_keys(runs);
    lines.extend(keys.iter().take(LISTED).map(|(key, values)| format!("{key}: {}", named(runs, values))));
    if keys.len() > LISTED {
        lines.push(format!("{} more keys differ", keys.len() - LISTED));
    }
    let mut results: Vec<(f64, String)> = HEADLINES
        .iter()
        .filter_map(|&(id, words, show)| {
            let values: Vec<f64> = runs.iter().map(|(_, run)| run.metrics().value(id).ok()).collect::<Option<_>>()?;
            let (least, most) = (least(&values), most(&values));
            let ratio = most / least;
            let shown: Vec<String> = values.iter().map(|&value| show(value)).collect();
            (ratio >= 1.05 && ratio.is_finite())
                .then(|| (ratio, format!("{words}: {}, {ratio:.1} times", named(runs, &shown))))
        })
        .collect();
    results.sort_by(|a, b| b.0.total_cmp(&a.0));
    lines.extend(results.into_iter().take(LISTED).map(|(_, line)| line));
    lines
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

fn named(runs: &[Named<'_>], values: &[String]) -> String {
    runs.iter().zip(values).map(|((name, _), value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
}

type Show = fn(f64) -> String;

/// Metrics that a comparison looks at, in words, and how a value is written.
const HEADLINES: [(&str, &str, Show); 10] = [
    ("life.level_first.p50_years", "first block worn out, with level wear, after", |years| span(years * YEAR_S * 1e9)),
    ("life.first.p50_years", "first block worn out after", |years| span(years * YEAR_S * 1e9)),
    ("wear.all.max", "erasures of the most worn block", |count| super::grouped(count as u64)),
    ("waf", "write amplification", |waf| format!("{waf:.3}")),
    ("read.iops", "reads a second", |rate| super::grouped(rate.round() as u64)),
    ("read.p99_us", "99 % of reads within", |us| span(us * 1e3)),
    ("write.iops", "writes a second", |rate| super::grouped(rate.round() as u64)),
    ("write.p99_us", "99 % of writes within", |us| span(us * 1e3)),
    ("leb_write.p99_us", "99 % of LEB writes within", |us| span(us * 1e3)),
    ("run.time_us", "virtual time", |us| span(us * 1e3)),
];

/// Keys that do not have the same value in all experiments, and their values; titles and questions do not count.
fn different_keys(runs: &[Named<'_>]) -> Vec<(String, Vec<String>)> {
    let tables: Vec<BTreeMap<String, String>> = runs
        .iter()
        .map(|(_, run)| {
            let mut flat = BTreeMap::new();
            let table = toml::Table::try_from(&run.experiment).unwrap_or_default();
            flatten("", &toml::Value::Table(table), &mut flat);
            flat
        })
        .collect();
    let keys: std::collections::BTreeSet<&String> = tables.iter().flat_map(BTreeMap::keys).collect();
    keys.into_iter()
        .filter(|key| !["title", "question"].contains(&key.as_str()))
        .map(|key| {
            let value = |table: &BTreeMap<String, String>| table.get(key).cloned().unwrap_or("not set".to_owned());
            (key.clone(), tables.iter().map(value).collect::<Vec<_>>())
        })
        .filter(|(_, values)| values.windows(2).any(|pair| pair[0] != pair[1]))
        .collect()
}

fn flatten(prefix: &str, value: &toml::Value, flat: &mut BTreeMap<String, String>) {
    match value {
        toml::Value::Table(table) => {
            for (key, value) in table {
                let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                flatten(&key, value, flat);
            }
        }
        toml::Value::String(text) => drop(flat.insert(prefix.to_owned(), text.clone())),
        other => drop(flat.insert(prefix.to_owned(), other.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(t_s: u64, host_pages: u64, pages: u64) -> Point {
        Point { t_ns: t_s * 1_000_000_000, requests: [0; 4], bytes: [0; 4], host_pages, pages, erases: 0, max_ns: 0 }
    }

    #[test]
    fn a_run_whose_amplification_grows_is_not_steady() {
        let growing: Vec<Point> = (0..40).map(|at| point(at + 1, 100, 200 + 10 * at)).collect();
        // The second quarter has points 10 to 19: 200 + 145 pages on average for 100.
        let text = drift(&growing).unwrap();
        assert!(text.contains("write amplification 3.45, 4.45, 5.45"), "{text}");
        assert!(!text.contains("a second"), "the rate is constant: {text}");
        let steady: Vec<Point> = (0..40).map(|at| point(at + 1, 100, 300 + 7 * (at % 3))).collect();
        assert_eq!(drift(&steady), None);
        let reads: Vec<Point> = (0..40).map(|at| point(at + 1, 0, 0)).collect();
        assert_eq!(drift(&reads), None);
    }

    #[test]
    fn the_start_of_a_run_does_not_count() {
        let settling: Vec<Point> = (0..40).map(|at| point(at + 1, 100, if at < 10 { 100 } else { 300 })).collect();
        assert_eq!(drift(&settling), None);
    }
}
