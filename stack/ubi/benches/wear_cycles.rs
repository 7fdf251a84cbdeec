//! PEB cycles per second on one core, with the store `tags`. A cycle takes, writes and erases one PEB: for a LEB, a
//! move or a block of a fastmap. Also prints the cycles per LEB written.
//!
//! Random LEBs of a volume are rewritten. `full`: it has every LEB, so that refills find few PEBs. `half-empty`: it has half
//! of them, so that refills fill the pools.

#![expect(missing_docs, reason = "criterion's macro makes a public function without")]

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use nand::{Array, ArrayConfig, Tags};
use sim::seam::{Geometry, LebVolume, Medium, Payload};
use sim::{Cx, Lnum, Rng, Seed, VolId};
use ubi::{Config, Policy, Ubi, VolumeRequest, VolumeSize};

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
    for lnum in 0..ubi.volume(vol_id).expect("it exists").lebs() {
        write(&mut ubi, &mut cx, vol_id, Lnum(lnum));
    }
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

fn write(ubi: &mut Device, cx: &mut Cx, vol_id: VolId, lnum: Lnum) {
    let mut volume = ubi.volume(vol_id).expect("it exists");
    let bytes = volume.leb_bytes();
    volume.unmap(cx, lnum).expect("it exists");
    volume.write(cx, lnum, 0, Payload::Length(bytes)).expect("no faults");
    while ubi.has_background_work() {
        ubi.step_background(cx).expect("no faults");
    }
}

fn rewrite(ubi: &mut Device, cx: &mut Cx, vol_id: VolId, rng: &mut Rng) {
    let lebs = ubi.volume(vol_id).expect("it exists").lebs();
    write(ubi, cx, vol_id, Lnum(rng.below(lebs.into()) as u32));
}

fn rewrites(c: &mut Criterion, name: &str, size: fn(u32) -> VolumeSize) {
    let mut group = c.benchmark_group(name);
    group.throughput(Throughput::Elements(CYCLES));
    for (name, policy) in POLICIES {
        for pebs in PEBS {
            let (mut ubi, mut cx, vol_id) = device(pebs, policy, size(pebs));
            let mut rng = Seed(1).stream("bench/rewrites");
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

fn full(c: &mut Criterion) {
    rewrites(c, "full", |_| VolumeSize::Max);
}

fn half_empty(c: &mut Criterion) {
    rewrites(c, "half-empty", |pebs| VolumeSize::Lebs(pebs / 2));
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(3))
        .without_plots();
    targets = full, half_empty
}
criterion_main!(benches);
