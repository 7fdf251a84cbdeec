//! PEB cycles per second on one core, with the store `tags`. A cycle takes, writes and erases one PEB: for a LEB, a
//! move or a block of a fastmap. Also prints the cycles per LEB written.
//!
//! `near-full` is the load of the studies: a log-structured file system on a volume that fills the device. `half-empty`
//! rewrites random LEBs of a volume of half the device, so that refills fill the pools.

#![expect(missing_docs, reason = "criterion's macro makes a public function without")]

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use nand::{Array, ArrayConfig, Tags};
use sim::seam::{Geometry, LebVolume, Medium, Payload};
use sim::{Cx, Lnum, Rng, Seed, VolId};
use ubi::{Config, Policy, Ubi, VolumeRequest, VolumeSize};
use workload::{NearFull, NearFullParams};

type Device = Ubi<Array<Tags>>;

/// PEB cycles per timed pass: long enough for the timer, short enough for a few hundred passes.
const CYCLES: u64 = 20_000;
const PEBS: [u32; 3] = [1024, 16_384, 262_144];
const POLICIES: [(&str, Policy); 2] = [("linux-6.1", Policy::LINUX_6_1), ("linux-6.7", Policy::LINUX_6_7)];

fn geometry(pebs: u32) -> Geometry {
    Geometry { medium: Medium::Nand, pebs, peb_bytes: 128 << 10, page_bytes: 2048, subpage_bytes: 512, oob_bytes: 64 }
}

fn device(pebs: u32, policy: Policy, size: VolumeSize) -> (Device, Cx, VolId) {
    let mut cx = Cx::new();
    let array = Array::new(ArrayConfig::plain(geometry(pebs)), Tags);
    let mut ubi = match Ubi::attach(array, &mut cx, &Config::linux(policy)) {
        Ok(ubi) => ubi,
        Err(failure) => panic!("{failure}"),
    };
    ubi.flush(&mut cx).expect("no faults");
    let vol_id = ubi.create_volume(&mut cx, &VolumeRequest::dynamic("data", size)).expect("the volume fits");
    (ubi, cx, vol_id)
}

fn tell(ubi: &Device) {
    let stats = ubi.stats();
    let (erases, lebs) = (stats.erases as f64, stats.user_pebs.max(1) as f64);
    println!(
        "  {:.2} PEB cycles for each LEB written, {:.4} fastmaps",
        erases / lebs,
        stats.fastmap_writes as f64 / lebs
    );
}

fn near_full(c: &mut Criterion) {
    let mut group = c.benchmark_group("near-full");
    group.throughput(Throughput::Elements(CYCLES));
    for (name, policy) in POLICIES {
        for pebs in PEBS {
            let (mut ubi, mut cx, vol_id) = device(pebs, policy, VolumeSize::Max);
            let mut volume = ubi.volume(vol_id).expect("it exists");
            let params = NearFullParams::ubifs(126_976);
            let mut load = NearFull::fill(&mut volume, &mut cx, params, Seed(1), |_, _| Ok(())).expect("it fits");
            group.bench_function(BenchmarkId::new(name, pebs), |b| {
                b.iter(|| {
                    let enough = ubi.stats().erases + CYCLES;
                    while ubi.stats().erases < enough {
                        let mut volume = ubi.volume(vol_id).expect("it exists");
                        load.step(&mut volume, &mut cx).expect("no faults");
                        // The thread lags behind half of the steps.
                        while load.steps().is_multiple_of(2) && ubi.has_background_work() {
                            ubi.step_background(&mut cx).expect("no faults");
                        }
                    }
                });
            });
            tell(&ubi);
        }
    }
    group.finish();
}

fn rewrite(ubi: &mut Device, cx: &mut Cx, vol_id: VolId, rng: &mut Rng) {
    let mut volume = ubi.volume(vol_id).expect("it exists");
    let lnum = Lnum(rng.below(u64::from(volume.lebs())) as u32);
    let bytes = volume.leb_bytes();
    volume.unmap(cx, lnum).expect("it exists");
    volume.write(cx, lnum, 0, Payload::Length(bytes)).expect("no faults");
    while ubi.has_background_work() {
        ubi.step_background(cx).expect("no faults");
    }
}

fn half_empty(c: &mut Criterion) {
    let mut group = c.benchmark_group("half-empty");
    group.throughput(Throughput::Elements(CYCLES));
    for (name, policy) in POLICIES {
        for pebs in PEBS {
            let (mut ubi, mut cx, vol_id) = device(pebs, policy, VolumeSize::Lebs(pebs / 2));
            let mut rng = Seed(1).stream("bench/half-empty");
            group.bench_function(BenchmarkId::new(name, pebs), |b| {
                b.iter(|| {
                    let enough = ubi.stats().erases + CYCLES;
                    while ubi.stats().erases < enough {
                        rewrite(&mut ubi, &mut cx, vol_id, &mut rng);
                    }
                });
            });
            tell(&ubi);
        }
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(3))
        .without_plots();
    targets = near_full, half_empty
}
criterion_main!(benches);
