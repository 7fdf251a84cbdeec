//! Speed of reading and measuring traces: a million records of each format in memory.

#![expect(missing_docs, reason = "criterion's macro makes a public function without")]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sim::seam::BlockOp;
use sim::{Ns, Seed};
use workload::trace::pattern::PatternOptions;
use workload::trace::{Format, Pattern, ReadOptions, TraceReader, TraceRecord, TraceWriter};

const RECORDS: u64 = 1_000_000;

/// Requests at random offsets on a disk of 64 GiB, two thirds of them writes.
fn records() -> Vec<TraceRecord> {
    let mut rng = Seed(1).stream("bench/trace");
    let mut at = 0;
    let mut record = || {
        at += rng.below(200_000);
        let op = if rng.below(3) == 0 { BlockOp::Read } else { BlockOp::Write };
        let len = 512 << rng.below(8);
        let mut record = TraceRecord::new(Ns(at), op, rng.below(1 << 24) * 4096, len);
        record.latency = Some(Ns(100 * rng.below(1 << 20)));
        record
    };
    (0..RECORDS).map(|_| record()).collect()
}

fn read(bytes: &[u8], format: Format, mut each: impl FnMut(&TraceRecord)) {
    let mut reader = TraceReader::new(bytes, format, ReadOptions::default());
    while let Some(record) = reader.next_record().expect("it was just written") {
        each(&record);
    }
    assert_eq!(reader.notes().records, RECORDS);
}

fn bench(criterion: &mut Criterion) {
    let records = records();
    let mut group = criterion.benchmark_group("trace");
    group.throughput(Throughput::Elements(RECORDS)).sample_size(10);
    for format in Format::ALL {
        let mut writer = TraceWriter::new(Vec::new(), format).expect("memory takes it");
        records.iter().for_each(|record| writer.write(record).expect("memory takes it"));
        let (bytes, _) = writer.finish().expect("memory takes it");
        println!("{}: {:.1} bytes a record", format.name(), bytes.len() as f64 / RECORDS as f64);
        group.bench_function(format!("read/{}", format.name()), |bencher| {
            bencher.iter(|| read(&bytes, format, |record| _ = black_box(record)));
        });
        if format == Format::Msr {
            group.bench_function("read and measure/msr", |bencher| {
                bencher.iter(|| {
                    let mut pattern = Pattern::new(PatternOptions::default());
                    read(&bytes, format, |record| pattern.add(record));
                    black_box(pattern.all().requests())
                });
            });
        }
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().without_plots();
    targets = bench
}
criterion_main!(benches);
