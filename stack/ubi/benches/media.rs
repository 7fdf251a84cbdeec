//! Speed of checksums, headers and the search for erased bytes.

#![expect(missing_docs, reason = "criterion's macro makes a public function without")]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sim::seam::is_erased;
use ubi::media::{EcHdr, VidHdr, VolType, crc};

fn media(c: &mut Criterion) {
    let mut group = c.benchmark_group("media");
    let leb = vec![0xa5; 124 << 10];
    let blank = vec![0xff; 124 << 10];
    group.throughput(Throughput::Bytes(leb.len() as u64));
    group.bench_function("crc of a 124 KiB LEB", |b| b.iter(|| crc(black_box(&leb))));
    group.bench_function("is_erased of a blank 124 KiB LEB", |b| b.iter(|| is_erased(black_box(&blank))));

    let ec = EcHdr { ec: 1000, vid_hdr_offset: 2048, data_offset: 4096, image_seq: 1 };
    let vid = VidHdr {
        vol_type: VolType::Dynamic,
        copy_flag: false,
        compat: 0,
        vol_id: 0,
        lnum: 7,
        data_size: 0,
        used_ebs: 0,
        data_pad: 0,
        data_crc: 0,
        sqnum: 99,
    };
    let (ec_bytes, vid_bytes) = (ec.encode(), vid.encode());
    group.throughput(Throughput::Elements(1));
    group.bench_function("encode an EC header", |b| b.iter(|| black_box(&ec).encode()));
    group.bench_function("decode an EC header", |b| b.iter(|| EcHdr::decode(black_box(&ec_bytes))));
    group.bench_function("decode a VID header", |b| b.iter(|| VidHdr::decode(black_box(&vid_bytes))));
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(30).without_plots();
    targets = media
}
criterion_main!(benches);
