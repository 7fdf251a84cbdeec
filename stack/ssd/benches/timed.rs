//! Simulated requests a second, on one core, of the timed drive, event by event: 16 GiB raw (8 channels, 4 ways, 1 die,
//! 2 planes operated together, 256 blocks, 256 pages of 4 KiB), 12.5 % over-provisioning (spare over logical pages),
//! greedy collection, 32 requests of 4 KiB in progress at random addresses, in steady state. The driver of fio jobs is
//! included, and a sum of each request's latency by component.

#![expect(missing_docs, reason = "criterion's macro makes a public function without")]

mod device;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nand::{Array, ArrayConfig, Tags};
use sim::seam::BlockDevice;
use sim::{Ns, Seed};
use ssd::ftl::page::{Foreground, PageConfig, PageFtl};
use ssd::untimed::{SteadyUntil, lpns_per_unit};
use ssd::{
    Cells, DispatchConfig, Dispatcher, DriveConfig, FrontConfig, Protocol, Scheduling, Ssd, Striping, Timing,
    TrimmedReads, Untimed,
};
use workload::drive::{self, Limits};
use workload::fio::{self, FioLoad};

use device::SHAPE;

const REQUESTS: u64 = 500_000;
const PAGE: u32 = SHAPE.page_bytes;

type Drive = Ssd<Array<Tags>, PageFtl>;

fn steady() -> Drive {
    let pages = (SHAPE.raw_pages() * 8 / 9) as u32;
    let unit = |unit: u32| {
        let mut config = PageConfig::new(SHAPE.blocks, SHAPE.unit_pages(), lpns_per_unit(&SHAPE, pages));
        (config.planes, config.foreground) = (SHAPE.unit_planes(), Foreground::Paced);
        PageFtl::new(config, Seed(1).stream(&format!("ssd/gc/{unit}"))).expect("a legal geometry")
    };
    let mut drive = Untimed::new(Striping::new(&SHAPE), (0..SHAPE.units()).map(unit).collect(), pages);
    drive.fill_sequential(pages).expect("it has room");
    let steady = drive.steady_state(SteadyUntil::default(), &mut Seed(1).stream("host")).expect("it has room");
    println!("  {:.3} pages for each written, after {} windows", steady.waf, steady.windows);
    let units = drive.into_units();
    let mut cells = Cells::new(&SHAPE, Array::new(ArrayConfig::plain(ssd::cells::geometry(&SHAPE, 0)), Tags));
    for (at, unit) in (0..).zip(&units) {
        cells.adopt(at, unit).expect("no faults");
    }
    let transfer = Timing::transfer_of(PAGE, 224, 400);
    let timing = Timing::plain(Ns::from_us(50), Ns::from_us(600), Ns::from_ms(3), Ns(200), transfer);
    let config = DispatchConfig {
        timing,
        scheduling: Scheduling::ReadsFirst,
        bus_order: ssd::BusOrder::CommandsFirst,
        background_after: None,
    };
    let front = FrontConfig {
        protocol: Protocol::Nvme { weights: vec![1] },
        depth: 32,
        command: Ns::ZERO,
        read_latency: Ns::ZERO,
        write_latency: Ns::ZERO,
        link_bytes_per_s: 0,
        half_duplex: false,
        write_cache: false,
        trimmed_reads: TrimmedReads::Zeroes,
    };
    let config = (config, DriveConfig { pages, front, cache: None, map: None, hpb: None });
    Ssd::new(config.1, &SHAPE, Dispatcher::new(&SHAPE, config.0, cells, units)).expect("no buffer")
}

fn timed(c: &mut Criterion) {
    let mut group = c.benchmark_group("timed-4k");
    group.throughput(Throughput::Elements(REQUESTS)).sample_size(10);
    let mut drive = steady();
    for rw in ["randread", "randwrite"] {
        let text = format!("[job]\nrw={rw}\nbs=4k\nioengine=libaio\niodepth=32\nnorandommap=1\nloops=1000000\n");
        let jobs = fio::parse(&text).expect("a job");
        let mut round = 0;
        group.bench_function(rw, |b| {
            b.iter(|| {
                round += 1;
                let limits = Limits { requests: REQUESTS, ..Limits::NONE };
                let start = drive.now();
                let mut load = FioLoad::new(&jobs, drive.sectors(), Seed(round)).expect("it fits");
                drive::run(&mut drive, &mut load, start, limits, &mut ());
            });
        });
    }
    assert!(drive.sectors() > 0);
    println!("  {:?}", drive.dispatcher().counts());
}

criterion_group!(benches, timed);
criterion_main!(benches);
