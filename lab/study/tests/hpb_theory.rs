//! The simulated UFS device against the closed form of a die-bound drive with part of its map in memory.

use runner::measure::Outcome;
use runner::run::{Failed, Prepared};
use study::theory::{map_bound, map_bound_with_hpb};
use workload::replay::Arrival;

const GIB: u64 = 1 << 30;
const BASE: &str = "title = 't'\n[ssd]\npart = 'ufs-2.1'\n[ssd.front]\ncommand_us = 0.0\nlink_mb_s = 0.0\n\
                    [ssd.hpb]\ncontrol = 'off'\nentry_check_us = 0.0\nrecommend_after = 1\n[precondition]\nkind = 'sequential'\nfraction = 0.27\n\
                    [workload]\nrw = 'randread'\ndepth = 32\nrequests = 60000\n";

fn run(prepared: &Prepared, arrivals: Option<&mut dyn Iterator<Item = Arrival>>) -> Result<Outcome, Failed> {
    prepared.run(arrivals, &mut |_| ())
}

/// Random reads per second.
fn rate(size: u64, sets: &[(&str, &str)]) -> f64 {
    let mut sets: Vec<_> = sets.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    sets.push(("workload.size_bytes".to_owned(), size.to_string()));
    let experiment = Prepared::resolve(BASE, &sets).unwrap_or_else(|error| panic!("{error}"));
    let found = run(&experiment, None).unwrap_or_else(|error| panic!("{error}"));
    found.drive().unwrap().op("read").map_or(0.0, |op| op.iops)
}

/// Bytes whose map pages fit into the memory: 4 MiB per 4 KiB of it.
fn reach(kib: u64) -> f64 {
    (kib << 20) as f64
}

fn near(what: &str, ours: f64, expected: f64) {
    let off = ours / expected - 1.0;
    assert!(off.abs() < 0.03, "{what}: {ours:.4}, expected {expected:.4}, {:.1} % off", 100.0 * off);
}

#[test]
fn a_map_in_flash_costs_what_the_closed_form_says() {
    for kib in [256, 1024, 4096] {
        let memory = kib.to_string();
        // Everything is cached: the rate of a die-bound drive.
        let all = rate(GIB / 8, &[("ssd.ftl.map_cache_kib", &memory)]);
        for size in [GIB, 4 * GIB, 16 * GIB] {
            let ours = rate(size, &[("ssd.ftl.map_cache_kib", &memory)]) / all;
            near(&format!("{kib} KiB, {size} B"), ours, map_bound(reach(kib) / size as f64));
        }
    }
}

#[test]
fn a_limited_host_map_costs_what_the_closed_form_says() {
    // Pinned regions keep the active set constant: the closed form does not include loading.
    let size = 4 * GIB;
    let all = rate(GIB / 8, &[("ssd.ftl.map_cache_kib", "1024")]);
    for share in [0.25, 0.5, 0.9] {
        let regions = (share * 256.0) as u64;
        let (pinned, most) = (regions.to_string(), (regions + 1).to_string());
        let sets = [
            ("ssd.ftl.map_cache_kib", "1024"),
            ("ssd.hpb.control", "device"),
            ("ssd.hpb.pinned_regions", &*pinned),
            ("ssd.hpb.max_active_regions", &*most),
            ("ssd.hpb.recommend_after", "65535"),
        ];
        let covered = regions as f64 / 256.0;
        let ours = rate(size, &sets) / all;
        near(&format!("{share} covered"), ours, map_bound_with_hpb(covered, reach(1024) / size as f64, 0.0));
    }
}
