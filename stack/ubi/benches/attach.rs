//! Attach of a full 1 GiB device (8,192 PEBs of 128 KiB), by scan and by fastmap, from memory.
//!
//! Also prints the pages read: without delays the processor limits attach, on real flash the pages do.

#![expect(missing_docs, reason = "criterion's macro makes a public function without")]

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use nand::{Array, ArrayConfig, Bytes};
use sim::seam::{Geometry, LebVolume, Medium, Payload};
use sim::{Cx, Lnum};
use ubi::attach::{attach_by_fastmap, attach_by_scan};
use ubi::layout::Layout;
use ubi::{Config, Policy, Ubi, VolumeRequest, VolumeSize};

const GEOMETRY: Geometry = Geometry {
    medium: Medium::Nand,
    pebs: 8192,
    peb_bytes: 128 << 10,
    page_bytes: 2048,
    subpage_bytes: 512,
    oob_bytes: 64,
};

/// A device whose one volume has every LEB mapped, detached with a fastmap. One page of data per LEB is enough: attach
/// reads headers only.
fn filled() -> Array<Bytes> {
    let mut cx = Cx::new();
    let array = Array::new(ArrayConfig::plain(GEOMETRY), Bytes::new());
    let mut ubi = match Ubi::attach(array, &mut cx, &Config::linux(Policy::LINUX_6_7)) {
        Ok(ubi) => ubi,
        Err(failure) => panic!("{failure}"),
    };
    ubi.flush(&mut cx).expect("no faults");
    let request = VolumeRequest::dynamic("data", VolumeSize::Max);
    let vol_id = ubi.create_volume(&mut cx, &request).expect("the device is empty");
    let mut volume = ubi.volume(vol_id).expect("just made");
    for lnum in 0..volume.lebs() {
        volume.write(&mut cx, Lnum(lnum), 0, Payload::Bytes(&[0x5a; 2048])).expect("no faults");
    }
    ubi.flush(&mut cx).expect("no faults");
    let (array, outcome) = ubi.detach(&mut cx);
    outcome.expect("no faults");
    array
}

fn attach(c: &mut Criterion) {
    let mut array = filled();
    let layout = Layout::new(&GEOMETRY, None).expect("a plain geometry");
    let mut cx = Cx::new();
    let before = array.reads().pages;
    attach_by_scan(&mut array, &mut cx, &layout).expect("a good device");
    let between = array.reads().pages;
    attach_by_fastmap(&mut array, &mut cx, &layout).expect("a good fastmap");
    let (scan, fastmap) = (between - before, array.reads().pages - between);
    println!("pages read: scan {scan}, fastmap {fastmap}, ratio {:.1}", scan as f64 / fastmap as f64);

    let mut group = c.benchmark_group("attach 1 GiB");
    group.bench_function("scan", |b| b.iter(|| attach_by_scan(&mut array, &mut cx, &layout).expect("a good device")));
    group.bench_function("fastmap", |b| {
        b.iter(|| attach_by_fastmap(&mut array, &mut cx, &layout).expect("a good fastmap"));
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).measurement_time(Duration::from_secs(3)).without_plots();
    targets = attach
}
criterion_main!(benches);
