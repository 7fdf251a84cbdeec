//! Simulated requests a second, on one core, of a UFS device with Host Performance Booster: four dies, a mapping table
//! in flash, 16 random reads of 4 KiB in progress over 4 GiB, with all entries in the host's memory. The driver of fio
//! jobs is included.

#![expect(missing_docs, reason = "criterion's macro makes a public function without")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nand::{Array, ArrayConfig, Tags};
use sim::seam::BlockDevice;
use sim::{Ns, Seed};
use ssd::device::hpb::HpbConfig;
use ssd::ftl::map_cache::MapCacheConfig;
use ssd::ftl::page::{PageConfig, PageFtl};
use ssd::host::Hpb;
use ssd::untimed::lpns_per_unit;
use ssd::{
    Cells, DispatchConfig, Dispatcher, DriveConfig, FrontConfig, Order, Protocol, Scheduling, Shape, Ssd, Striping,
    Timing, TrimmedReads, Untimed,
};
use workload::drive::{self, Limits};
use workload::fio::{self, FioLoad};

const REQUESTS: u64 = 1_000_000;
const PAGES: u32 = 4 << 18;
const SHAPE: Shape = Shape {
    channels: 2,
    ways: 2,
    dies: 1,
    planes: 4,
    blocks: 128,
    pages: 768,
    page_bytes: 4096,
    order: Order::CHANNEL_FIRST,
    multi_plane: true,
};

fn device(hpb: bool) -> Hpb<Ssd<Array<Tags>, PageFtl>> {
    let map = MapCacheConfig::pages(PAGES, 1204 << 10);
    let all = PAGES + map.map_pages();
    let unit = |unit: u32| {
        let mut config = PageConfig::new(SHAPE.blocks, SHAPE.unit_pages(), lpns_per_unit(&SHAPE, all));
        config.planes = SHAPE.unit_planes();
        PageFtl::new(config, Seed(1).stream(&format!("ssd/gc/{unit}"))).expect("a legal geometry")
    };
    let mut drive = Untimed::new(Striping::new(&SHAPE), (0..SHAPE.units()).map(unit).collect(), all);
    drive.fill_sequential(all).expect("it has room");
    let cells = Cells::new(&SHAPE, Array::new(ArrayConfig::plain(ssd::cells::geometry(&SHAPE, 0)), Tags));
    let transfer = Timing::transfer_of(4096, 224, 1000);
    let mut timing = Timing::plain(Ns(44_300), Ns::from_us(405), Ns(4_500_000), Ns(200), transfer);
    timing.entry_check = Ns(900);
    let dispatch = DispatchConfig {
        timing,
        scheduling: Scheduling::ReadsFirst,
        bus_order: ssd::BusOrder::CommandsFirst,
        background_after: None,
    };
    let front = FrontConfig {
        protocol: Protocol::Ufs,
        depth: 32,
        command: Ns(3_000),
        read_latency: Ns::ZERO,
        write_latency: Ns::ZERO,
        link_bytes_per_s: 1_166_000_000,
        half_duplex: false,
        write_cache: false,
        trimmed_reads: TrimmedReads::Zeroes,
    };
    let hpb = hpb.then(|| HpbConfig { entry_check: Ns(900), recommend_after: 4, ..HpbConfig::plain(PAGES) });
    let config = DriveConfig { pages: PAGES, front, cache: None, map: Some(map), hpb };
    let dispatcher = Dispatcher::new(&SHAPE, dispatch, cells, drive.into_units());
    Hpb::new(Ssd::new(config, &SHAPE, dispatcher).expect("a drive that can be"))
}

fn reads(c: &mut Criterion) {
    let mut group = c.benchmark_group("ufs-randread-4k");
    group.throughput(Throughput::Elements(REQUESTS)).sample_size(10);
    let text = "[job]\nrw=randread\nbs=4k\nioengine=libaio\niodepth=16\nnorandommap=1\nloops=1000000\n";
    let jobs = fio::parse(text).expect("a job");
    for (name, hpb) in [("hpb on", true), ("hpb off", false)] {
        let mut drive = device(hpb);
        assert_eq!(drive.sectors(), u64::from(PAGES) * 8);
        let mut round = 0;
        group.bench_function(name, |b| {
            b.iter(|| {
                round += 1;
                let limits = Limits { requests: REQUESTS, ..Limits::NONE };
                let start = drive.device().now();
                let mut load = FioLoad::new(&jobs, drive.sectors(), Seed(round)).expect("it fits");
                drive::run(&mut drive, &mut load, start, limits, &mut ());
            });
        });
        if let Some(driver) = drive.driver() {
            println!("  {:.4} of the reads by their entry", driver.stats().hit_rate().unwrap_or(0.0));
        }
    }
}

criterion_group!(benches, reads);
criterion_main!(benches);
