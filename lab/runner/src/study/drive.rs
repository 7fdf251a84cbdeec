//! What a claim measures on a drive.
//!
//! | measure | is |
//! |---|---|
//! | `iops`, `mb_s` | requests, and 10^6 bytes, a second |
//! | `mean_us`, `p99_us`, `max_us` | latency |
//! | `time_us` | length of the run |
//! | `waf` | bytes programmed over bytes that the host wrote, in the whole run |
//! | `late_waf` | the same over the last half of the pages that the host wrote, by the timeline |
//! | `erases` | blocks erased |
//! | `pages_read`, `pages_programmed` | for each request, for whatever cause |
//! | `busy_channels`, `busy_dies` | at work at a time, in the mean |
//!
//! `read.`, `write.`, `trim.` and `flush.` before the first five take one operation. Without it rates are sums, the mean
//! is over all requests, the greatest is of all, and a percentile is refused if there are several operations.

use crate::ssd::SsdOutcome;
use crate::ssd::outcome::{OpFigures, Point};

const NS_PER_US: f64 = 1e3;

/// Errors: what is wrong with the measure, in words.
pub(super) fn measure(what: &str, outcome: &SsdOutcome) -> Result<f64, String> {
    let (op, stat) = match what.split_once('.') {
        Some((op, stat)) => (Some(op), stat),
        None => (None, what),
    };
    if let Some(figure) = of_operations(stat) {
        let ops: Vec<&OpFigures> = match op {
            Some(name) => outcome.op(name).into_iter().collect(),
            None => outcome.ops.iter().collect(),
        };
        if ops.is_empty() {
            return Err(format!("the run has no {}", op.unwrap_or("requests")));
        }
        return figure(&ops);
    }
    if op.is_some() {
        return Err(format!("no figure `{stat}` of an operation"));
    }
    let per_request = |pages: f64| pages / outcome.requests.max(1) as f64;
    match stat {
        "time_us" => Ok(outcome.virtual_ns as f64 / NS_PER_US),
        "waf" => outcome.write_amplification.total.ok_or_else(|| "the host wrote nothing".to_owned()),
        "late_waf" => late(&outcome.timeline).ok_or_else(|| "the host wrote too little".to_owned()),
        "erases" => Ok(outcome.wear.erases as f64),
        "pages_read" => {
            let pages = |counter: &str| outcome.counters.iter().find(|known| known.name == counter);
            let all = ["pages read for the host", "pages read to be copied or merged"].iter();
            Ok(per_request(all.filter_map(|name| pages(name)).map(|counter| counter.value).sum()))
        }
        "pages_programmed" => {
            let page_bytes = outcome.experiment.ssd.page_kib * 1024.0;
            Ok(per_request(outcome.write_amplification.flash_bytes as f64 / page_bytes))
        }
        "busy_channels" => Ok(outcome.utilisation.channels.iter().sum()),
        "busy_dies" => Ok(outcome.utilisation.dies.iter().sum()),
        _ => Err(format!("no figure `{stat}`")),
    }
}

type OfOperations = fn(&[&OpFigures]) -> Result<f64, String>;

fn of_operations(stat: &str) -> Option<OfOperations> {
    Some(match stat {
        "iops" => |ops| Ok(ops.iter().map(|op| op.iops).sum()),
        "mb_s" => |ops| Ok(ops.iter().map(|op| op.mb_s).sum()),
        "mean_us" => |ops| {
            let count: u64 = ops.iter().map(|op| op.count).sum();
            Ok(ops.iter().map(|op| op.mean_ns * op.count as f64).sum::<f64>() / count as f64 / NS_PER_US)
        },
        "p99_us" => |ops| match ops {
            [op] => Ok(op.p99_ns as f64 / NS_PER_US),
            _ => Err("several operations: name one, as in `read.p99_us`".to_owned()),
        },
        "max_us" => |ops| Ok(ops.iter().map(|op| op.max_ns).max().unwrap_or(0) as f64 / NS_PER_US),
        _ => return None,
    })
}

/// Pages programmed over pages that the host wrote, from the point by which it had written half.
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
    use crate::ssd::{SsdExperiment, run};

    fn outcome(rw: &str) -> SsdOutcome {
        let load = format!("[workload]\nrw = '{rw}'\nrequests = 100\nblock_bytes = 8192\n");
        let text = format!("title = 't'\n[ssd]\nblocks = 8\npages = 8\nover_provisioning_percent = 100\n{load}");
        run(&SsdExperiment::resolve(&text, &[]).unwrap(), None, &mut |_| ()).unwrap()
    }

    #[test]
    fn figures_are_those_of_the_outcome() {
        let found = outcome("randwrite");
        let op = found.op("write").unwrap();
        assert_eq!(measure("iops", &found), Ok(op.iops));
        assert_eq!(measure("write.mean_us", &found), Ok(op.mean_ns / 1e3));
        assert_eq!(measure("time_us", &found), Ok(found.virtual_ns as f64 / 1e3));
        assert_eq!(measure("pages_programmed", &found), Ok(2.0));
        assert_eq!(measure("waf", &found), Ok(1.0));
    }

    #[test]
    fn what_the_run_does_not_have_is_an_error() {
        let found = outcome("randrw");
        for (what, why) in [
            ("trim.iops", "the run has no trim"),
            ("p99_us", "several operations"),
            ("read.waf", "no figure `waf` of an operation"),
            ("speed", "no figure `speed`"),
        ] {
            assert!(measure(what, &found).unwrap_err().contains(why), "{what}");
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
}
