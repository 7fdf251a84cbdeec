//! Simulated host writes a second, on one core, without time and flash: 16 GiB raw (8 channels, 4 ways, 1 die, 2 planes
//! operated together, 256 blocks, 256 pages of 4 KiB), 12.5 % over-provisioning (spare over logical pages), greedy
//! collection. The write amplification is printed as well.

#![expect(missing_docs, reason = "criterion's macro makes a public function without")]

mod device;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use sim::{Rng, Seed};
use ssd::ftl::gc::GcPolicy;
use ssd::ftl::page::{PageConfig, PageFtl};
use ssd::untimed::{SteadyUntil, lpns_per_unit};
use ssd::{Striping, Untimed};

use device::SHAPE;

/// Host pages of one measured pass.
const WRITES: u64 = 1_000_000;

fn empty(gc: GcPolicy) -> Untimed<PageFtl> {
    let pages = (SHAPE.raw_pages() * 8 / 9) as u32;
    let unit = |unit: u32| {
        let mut config = PageConfig::new(SHAPE.blocks, SHAPE.unit_pages(), lpns_per_unit(&SHAPE, pages));
        (config.planes, config.gc) = (SHAPE.unit_planes(), gc);
        PageFtl::new(config, Seed(1).stream(&format!("ssd/gc/{unit}"))).expect("a legal geometry")
    };
    Untimed::new(Striping::new(&SHAPE), (0..SHAPE.units()).map(unit).collect(), pages)
}

fn full(gc: GcPolicy) -> Untimed<PageFtl> {
    let mut drive = empty(gc);
    let pages = drive.pages();
    drive.fill_sequential(pages).expect("it has room");
    drive
}

fn steady(gc: GcPolicy, rng: &mut Rng) -> Untimed<PageFtl> {
    let mut drive = full(gc);
    let steady = drive.steady_state(SteadyUntil::default(), rng).expect("it has room");
    println!("  {gc:?}: {:.3} pages for each written, after {} windows", steady.waf, steady.windows);
    drive
}

fn random_writes(c: &mut Criterion) {
    let mut group = c.benchmark_group("random-4k");
    group.throughput(Throughput::Elements(WRITES)).sample_size(10);
    for gc in [GcPolicy::Greedy, GcPolicy::CostBenefit, GcPolicy::DChoices { d: 10 }, GcPolicy::Fifo] {
        let mut rng = Seed(1).stream("host");
        let mut drive = steady(gc, &mut rng);
        group.bench_function(format!("{gc:?}"), |b| {
            b.iter(|| drive.fill_random(WRITES, &mut rng).expect("it has room"));
        });
    }
    // Page by page, as a trace is replayed.
    let mut rng = Seed(1).stream("host");
    let mut drive = steady(GcPolicy::Greedy, &mut rng);
    group.bench_function("one-by-one", |b| {
        b.iter(|| {
            for _ in 0..WRITES {
                let lpn = rng.below(u64::from(drive.pages())) as u32;
                drive.write(lpn).expect("it has room");
            }
        });
    });
}

fn precondition(c: &mut Criterion) {
    let mut group = c.benchmark_group("precondition");
    group.sample_size(10);
    group.bench_function("sequential-fill", |b| {
        b.iter_batched_ref(
            || empty(GcPolicy::Greedy),
            |drive| {
                let pages = drive.pages();
                drive.fill_sequential(pages).expect("it has room");
            },
            BatchSize::PerIteration,
        );
    });
    group.bench_function("steady-state", |b| {
        b.iter_batched_ref(
            || full(GcPolicy::Greedy),
            |drive| drive.steady_state(SteadyUntil::default(), &mut Seed(1).stream("host")).expect("it has room"),
            BatchSize::PerIteration,
        );
    });
}

criterion_group!(benches, random_writes, precondition);
criterion_main!(benches);
