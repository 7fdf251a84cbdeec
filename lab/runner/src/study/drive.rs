//! What a claim measures on a drive.
//!
//! | measure | is |
//! |---|---|
//! | `iops`, `mb_s` | requests, and 10^6 bytes, a second |
//! | `mean_us`, `p99_us`, `max_us` | latency |
//! | `time_us` | length of the run |
//! | `waf` | bytes programmed over bytes that the host wrote, in the whole run |
//! | `late_waf` | the same over the last half of the pages that the host wrote, by the timeline |
//! | `padded` | bytes programmed to complete blocks over bytes that the host wrote |
//! | `erases` | blocks erased |
//! | `erases_per_block` | the same over blocks' worth of pages programmed |
//! | `late_mb_s`, `late_erases`, `late_erases_per_block` | over the last half of the bytes that the host wrote, by the timeline: 10^6 bytes a second, erasures for each page of 4 KiB, and as above |
//! | `switch_merges`, `partial_merges`, `full_merges` | of log-block layers, for each request, those of preconditioning included |
//! | `buffer_hits` | share of pages written that were dirty in the write buffer |
//! | `pages_read`, `pages_programmed` | for each request, for whatever cause |
//! | `map_missing` | pages of the mapping table read for each page read for the host |
//! | `hpb_hits` | reads sent with an entry, over those short enough for one |
//! | `hpb_map_bytes` | bytes of entries that went to the host, for each request |
//! | `hpb_stale` | entries that were out of date, over those that came |
//! | `busy_channels`, `busy_dies` | at work at a time, in the mean |
//! | `phase.N.mb_s`, `phase.N.seconds`, `phase.N.iops` | of a load's phase N, from 1: 10^6 bytes a second (of iozone the sum of its threads' rates), length, requests of the drive a second |
//!
//! `read.`, `write.`, `trim.` and `flush.` before the first five take one operation. Without it rates are sums, the mean
//! is over all requests, the greatest is of all, and a percentile is refused if there are several operations.

use sim::seam::BlockOp;

use crate::ssd::SsdOutcome;
use crate::ssd::outcome::{OpFigures, Point};

const NS_PER_US: f64 = 1e3;

/// Errors: what is wrong with the measure, in words.
pub(super) fn measure(what: &str, outcome: &SsdOutcome) -> Result<f64, String> {
    if let Some(what) = what.strip_prefix("phase.") {
        return of_phase(what, outcome);
    }
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
    let counter = |name: &str| outcome.counters.iter().find(|known| known.name == name).map(|known| known.value);
    match stat {
        "time_us" => Ok(outcome.virtual_ns as f64 / NS_PER_US),
        "waf" => outcome.write_amplification.total.ok_or_else(|| "the host wrote nothing".to_owned()),
        "late_waf" => late(&outcome.timeline).ok_or_else(|| "the host wrote too little".to_owned()),
        "padded" => {
            let padding = outcome.write_amplification.by_cause.iter().find(|cause| cause.cause == "padding");
            Ok(padding.map_or(0.0, |cause| cause.per_host_byte))
        }
        "erases" => Ok(outcome.wear.erases as f64),
        "erases_per_block" => {
            let blocks = outcome.write_amplification.flash_bytes as f64 / outcome.block_bytes as f64;
            if blocks > 0.0 { Ok(outcome.wear.erases as f64 / blocks) } else { Err("nothing was written".to_owned()) }
        }
        "late_mb_s" | "late_erases" | "late_erases_per_block" => {
            let half = LastHalf::of(&outcome.timeline).ok_or_else(|| "the host wrote too little".to_owned())?;
            let page_bytes = outcome.page_bytes() as f64;
            Ok(match stat {
                "late_mb_s" => half.bytes as f64 * 1e3 / half.ns as f64,
                "late_erases" => half.erases as f64 * 4096.0 / half.bytes as f64,
                _ => half.erases as f64 * outcome.block_bytes as f64 / (half.pages as f64 * page_bytes),
            })
        }
        "switch_merges" | "partial_merges" | "full_merges" => {
            let merges = counter(&format!("{}, preconditioning included", stat.replace('_', " ")));
            merges.map(per_request).ok_or_else(|| "the layer merges nothing".to_owned())
        }
        "buffer_hits" => {
            let [hits, misses] = ["pages written again in the write buffer", "pages that came into the write buffer"]
                .map(|name| counter(name).unwrap_or(0.0));
            if hits + misses > 0.0 { Ok(hits / (hits + misses)) } else { Err("nothing was buffered".to_owned()) }
        }
        "pages_read" => {
            let all = ["pages read for the host", "pages read to be copied or merged", "map pages read"];
            Ok(per_request(all.into_iter().filter_map(counter).sum()))
        }
        "pages_programmed" => {
            let page_bytes = outcome.page_bytes() as f64;
            Ok(per_request(outcome.write_amplification.flash_bytes as f64 / page_bytes))
        }
        "map_missing" => {
            let [maps, host] = ["map pages read", "pages read for the host"].map(|name| counter(name).unwrap_or(0.0));
            if host > 0.0 { Ok(maps / host) } else { Err("nothing was read from the flash".to_owned()) }
        }
        "hpb_hits" => {
            let [hits, misses] = ["hpb_stats/hit_cnt", "hpb_stats/miss_cnt"].map(|path| sysfs(outcome, path));
            let (hits, misses) = (hits?, misses?);
            if hits + misses > 0.0 { Ok(hits / (hits + misses)) } else { Err("no read was short enough".to_owned()) }
        }
        "hpb_map_bytes" => sysfs(outcome, "nandlab/map_bytes_to_host").map(per_request),
        "hpb_stale" => {
            let [right, stale] = ["nandlab/entries_right", "nandlab/entries_stale"].map(|path| sysfs(outcome, path));
            let (right, stale) = (right?, stale?);
            if right + stale > 0.0 { Ok(stale / (right + stale)) } else { Err("no entry was used".to_owned()) }
        }
        "busy_channels" => Ok(outcome.utilisation.channels.iter().sum()),
        "busy_dies" => Ok(outcome.utilisation.dies.iter().sum()),
        _ => Err(format!("no figure `{stat}`")),
    }
}

/// Of `N.stat`.
fn of_phase(what: &str, outcome: &SsdOutcome) -> Result<f64, String> {
    let (number, stat) = what.split_once('.').ok_or_else(|| format!("`phase.{what}` is not `phase.N.stat`"))?;
    let at = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    let phase = at.and_then(|at| outcome.phases.get(at));
    let phase = phase.ok_or_else(|| format!("the run has {} phases, and no phase {number}", outcome.phases.len()))?;
    match stat {
        "mb_s" => Ok(phase.mb_s),
        "seconds" => Ok(phase.seconds()),
        "iops" => Ok(phase.iops()),
        _ => Err(format!("no figure `{stat}` of a phase")),
    }
}

/// A number that the host of a UFS device shows.
fn sysfs(outcome: &SsdOutcome, path: &str) -> Result<f64, String> {
    let found = outcome.sysfs.iter().find(|(known, _)| known == path);
    found.and_then(|(_, value)| value.parse().ok()).ok_or_else(|| "the run has no HPB".to_owned())
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

/// What happened from the point on by which the host had asked for half of what it wrote in all.
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
    use crate::run::{Found, Prepared};

    fn run(text: &str) -> SsdOutcome {
        match Prepared::resolve(text, &[]).unwrap().run(None, &mut |_| ()).unwrap() {
            Found::Ssd(outcome) => *outcome,
            Found::Wear(_) => panic!("a drive was asked for"),
        }
    }

    fn outcome(rw: &str) -> SsdOutcome {
        let load = format!("[workload]\nrw = '{rw}'\nrequests = 100\nblock_bytes = 8192\n");
        let text = format!("title = 't'\n[ssd]\nblocks = 8\npages = 8\nover_provisioning_percent = 100\n{load}");
        run(&text)
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
    fn a_phase_is_measured_by_its_number() {
        let text = "title = 't'\n[ssd]\nblocks = 8\npages = 8\nover_provisioning_percent = 100\n[iozone]\nthreads = 2\nrange_bytes = 524288\n";
        let found = run(text);
        let write = &found.phases[1];
        assert_eq!(measure("phase.2.mb_s", &found), Ok(write.mb_s));
        assert_eq!(measure("phase.2.seconds", &found), Ok(write.seconds()));
        assert_eq!(measure("phase.2.iops", &found), Ok(write.requests as f64 / write.seconds()));
        for (what, why) in [
            ("phase.3.iops", "the run has 2 phases, and no phase 3"),
            ("phase.0.iops", "no phase 0"),
            ("phase.1.waf", "no figure `waf` of a phase"),
            ("phase.1", "is not `phase.N.stat`"),
        ] {
            assert!(measure(what, &found).unwrap_err().contains(why), "{what}");
        }
        assert!(measure("phase.1.iops", &outcome("randwrite")).unwrap_err().contains("0 phases"));
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
        let found = run(text);
        let of = |what| measure(what, &found).unwrap();
        let causes = &found.write_amplification;
        let padding = causes.by_cause.iter().find(|cause| cause.cause == "padding").unwrap();
        assert_eq!(of("padded"), padding.bytes as f64 / causes.host_bytes as f64);
        assert!(of("padded") > 0.5 && of("buffer_hits") > 0.0 && of("buffer_hits") < 1.0);
        assert!(of("switch_merges") > 0.0 && of("full_merges") < of("switch_merges"));
        let blocks = causes.flash_bytes as f64 / found.block_bytes as f64;
        assert_eq!(of("erases_per_block"), found.wear.erases as f64 / blocks);
        assert!(measure("full_merges", &outcome("randwrite")).unwrap_err().contains("merges nothing"));
    }
}
