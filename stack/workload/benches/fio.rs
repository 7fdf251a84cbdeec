//! Cost of a load without its device: drawing requests, and the loop on a device that does nothing.

#![expect(missing_docs, reason = "criterion's macro makes a public function without")]

use std::collections::VecDeque;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sim::seam::{BlockDevice, BlockDone, BlockError, BlockRequest, Payload};
use sim::{Ns, Seed};
use workload::drive::{Limits, Span, run};
use workload::fio::{FioLoad, Generator, Job, parse};
use workload::replay::{Arrival, DependencyReplay, OpenReplay};

const SECTORS: u64 = 1 << 31;
const REQUESTS: u64 = 1 << 20;

/// A device that serves any number of requests at once, each in the same time.
struct Null {
    under_way: VecDeque<(Ns, u32)>,
}

impl BlockDevice for Null {
    const KEEPS_BYTES: bool = false;
    fn sectors(&self) -> u64 {
        SECTORS
    }
    fn queue_depth(&self) -> u32 {
        1024
    }
    #[inline]
    fn submit(&mut self, at: Ns, tag: u32, _: BlockRequest, _: Payload<'_>) -> Result<(), BlockError> {
        self.under_way.push_back((at + Ns(1000), tag));
        Ok(())
    }
    #[inline]
    fn next_done(&mut self, until: Ns) -> Option<BlockDone> {
        let &(at, tag) = self.under_way.front()?;
        if at > until {
            return None;
        }
        self.under_way.pop_front();
        Some(BlockDone { tag, at, result: Ok(()) })
    }
    fn take(&mut self, _: u32, buf: &mut [u8]) {
        buf.fill(0);
    }
}

fn null() -> Null {
    Null { under_way: VecDeque::with_capacity(1024) }
}

fn job(options: &str) -> Job {
    parse(&format!("[job]\n{}\n", options.replace(' ', "\n"))).expect("it is right").remove(0)
}

fn generators(c: &mut Criterion) {
    let mut group = c.benchmark_group("fio generator");
    group.throughput(Throughput::Elements(REQUESTS));
    for options in [
        "rw=write",
        "rw=randread",
        "rw=randwrite norandommap",
        "rw=randrw rwmixread=70",
        "rw=randread bssplit=4k/60:16k/40",
        "rw=randread bssplit=4k/60:16k/40 norandommap",
        "rw=randread random_distribution=zipf:1.2",
        "rw=randread random_distribution=pareto:0.2",
        "rw=randread random_distribution=normal:10",
        "rw=randread random_distribution=zoned:60/10:30/20:10/70",
    ] {
        let job = job(&format!("{options} time_based runtime=1d"));
        let mut generator = Generator::new(&job, 0, SECTORS, Seed(1)).expect("it fits");
        group.bench_function(options, |b| {
            b.iter(|| {
                generator.by_ref().take(REQUESTS as usize).fold(0, |sum, request| sum ^ black_box(request).sector)
            })
        });
    }
    group.finish();
}

fn closed(c: &mut Criterion) {
    let mut group = c.benchmark_group("closed loop on a null device");
    group.throughput(Throughput::Elements(REQUESTS));
    group.bench_function("the device alone, depth 32", |b| {
        b.iter(|| {
            let mut device = null();
            for tag in 0..32 {
                device.submit(Ns(0), tag, BlockRequest::read(0, 8), Payload::Length(0)).expect("it takes all");
            }
            for _ in 0..REQUESTS {
                let done = device.next_done(Ns(u64::MAX)).expect("32 are under way");
                let request = black_box(BlockRequest::read(0, 8));
                device.submit(done.at, done.tag, request, Payload::Length(0)).expect("it takes all");
            }
        });
    });
    for (name, options) in [
        ("randread, depth 32", "rw=randread ioengine=libaio iodepth=32"),
        ("randread without a map, depth 32", "rw=randread norandommap ioengine=libaio iodepth=32"),
        ("randread, depth 1", "rw=randread"),
        ("write and fsync=8, depth 1", "rw=write fsync=8"),
        ("8 clones of randread, depth 256, on 1024 tags", "rw=randread ioengine=libaio iodepth=256 numjobs=8"),
    ] {
        let clones = if options.contains("numjobs") { 8 } else { 1 };
        let jobs = [job(&format!("{options} number_ios={} time_based runtime=1d", REQUESTS / clones))];
        group.bench_function(name, |b| {
            b.iter(|| {
                let mut latency = 0u64;
                let mut see = |_: usize, _: &BlockRequest, span: Span, _: bool| latency += span.latency().0;
                let mut load = FioLoad::new(&jobs, SECTORS, Seed(1)).expect("it fits");
                let report = run(&mut null(), &mut load, Ns::ZERO, Limits::NONE, &mut see);
                assert_eq!(report.jobs[0].requests() / REQUESTS, 1);
                latency
            });
        });
    }
    group.finish();
}

fn replays(c: &mut Criterion) {
    let mut group = c.benchmark_group("replay on a null device");
    group.throughput(Throughput::Elements(REQUESTS));
    let records =
        || (0..REQUESTS).map(|n| Arrival { at: Ns(n * 50), request: BlockRequest::read(n, 8), latency: Some(Ns(900)) });
    group.bench_function("open loop", |b| {
        b.iter(|| run(&mut null(), &mut OpenReplay::new(records()), Ns::ZERO, Limits::NONE, &mut ()));
    });
    group.bench_function("dependency-true, 18 under way", |b| {
        b.iter(|| run(&mut null(), &mut DependencyReplay::new(records()), Ns::ZERO, Limits::NONE, &mut ()));
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10).without_plots();
    targets = generators, closed, replays
}
criterion_main!(benches);
