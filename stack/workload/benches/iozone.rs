//! Cost of iozone's threads without their device, on a device that does nothing.

#![expect(missing_docs, reason = "criterion's macro makes a public function without")]

use std::collections::VecDeque;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sim::Ns;
use sim::seam::{BlockDevice, BlockDone, BlockError, BlockRequest, Payload};
use workload::drive::{Limits, Span, run};
use workload::iozone::{Iozone, IozoneLoad, Phase, order};

const FILE_RECORDS: u32 = 1 << 16;
const THREADS: u32 = 16;

/// A device that serves any number of requests at once, each in the same time.
struct Null {
    under_way: VecDeque<(Ns, u32)>,
}

impl BlockDevice for Null {
    const KEEPS_BYTES: bool = false;
    fn sectors(&self) -> u64 {
        1 << 31
    }
    fn queue_depth(&self) -> u32 {
        32
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

fn threads(c: &mut Criterion) {
    let mut group = c.benchmark_group("iozone on a null device");
    group.throughput(Throughput::Elements(u64::from(FILE_RECORDS * THREADS)));
    for (name, host) in [("16 threads", Ns::ZERO), ("16 threads with host time", Ns(300))] {
        let load = Iozone {
            threads: THREADS,
            record_sectors: 8,
            file_records: FILE_RECORDS,
            first_sector: 0,
            phases: vec![Phase::Read],
            host,
            records: 0,
            stonewall: true,
            flush: true,
            mixed_records: 1,
        };
        group.bench_function(name, |b| {
            b.iter(|| {
                let mut device = Null { under_way: VecDeque::with_capacity(32) };
                let mut latency = 0u64;
                let mut see = |_: usize, _: &BlockRequest, span: Span, _: bool| latency += span.latency().0;
                let report = run(&mut device, &mut IozoneLoad::new(&load), Ns::ZERO, Limits::NONE, &mut see);
                (latency, report.issued)
            });
        });
    }
    group.throughput(Throughput::Elements(u64::from(FILE_RECORDS)));
    group.bench_function("the order of a file", |b| b.iter(|| order(FILE_RECORDS)));
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10).without_plots();
    targets = threads
}
criterion_main!(benches);
