//! Traces in every format: samples written by hand, and round trips.

use std::collections::BTreeMap;

use proptest::prelude::*;
use sim::Ns;
use sim::seam::BlockOp;
use workload::trace::{Format, MAX_LEN_BYTES, Notes, NtraceFile, NtraceWriter, ReadOptions};
use workload::trace::{TraceError, TraceReader, TraceRecord, TraceWriter};

macro_rules! sample {
    ($name:literal) => {
        include_bytes!(concat!("../../../fuzz/corpus/trace_detect/", $name))
    };
}

fn drain(mut reader: TraceReader<&[u8]>) -> Result<(Vec<TraceRecord>, Notes), TraceError> {
    let mut records = Vec::new();
    while let Some(record) = reader.next_record()? {
        records.push(record);
    }
    assert!(matches!(reader.next_record(), Ok(None)), "nothing comes after the end");
    Ok((records, reader.notes().clone()))
}

fn read(bytes: &[u8], format: Format) -> (Vec<TraceRecord>, Notes) {
    drain(TraceReader::new(bytes, format, ReadOptions::default())).expect("the trace is good")
}

/// Reads a sample whose format must be detected.
fn found(bytes: &[u8], format: Format) -> (Vec<TraceRecord>, Notes) {
    let (reader, detected) = TraceReader::detect(bytes, ReadOptions::default()).expect("the sample has a format");
    assert_eq!(detected.format, format, "{}", detected.why);
    drain(reader).expect("the sample is good")
}

fn write(records: &[TraceRecord], format: Format) -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new(), format).expect("memory takes it");
    records.iter().for_each(|record| writer.write(record).expect("memory takes it"));
    writer.finish().expect("memory takes it").0
}

/// Time, operation, device, offset, length, latency.
type Row = (u64, BlockOp, u32, u64, u64, Option<u64>);

fn rows(records: &[TraceRecord]) -> Vec<Row> {
    let row = |it: &TraceRecord| (it.at.0, it.op, it.device, it.offset_bytes, it.len_bytes, it.latency.map(|it| it.0));
    records.iter().map(row).collect()
}

use BlockOp::{Flush, Read, Trim, Write};

#[test]
fn msr_cambridge() {
    let (records, notes) = found(sample!("msr.csv"), Format::Msr);
    let expected = [
        (0, Read, 0, 7_014_609_920, 24_576, Some(4_128_600)),
        (1_332_052_600, Write, 0, 2_517_872_640, 4096, Some(196_300)),
        (2_332_061_600, Write, 1, 2_517_876_736, 8192, None),
        (2_332_061_600, Read, 0, 7_014_609_920, 512, Some(10_000)),
    ];
    assert_eq!(rows(&records), expected);
    assert_eq!((notes.out_of_order, notes.furthest_back), (1, Ns(952_867_900)));
}

#[test]
fn systor_17() {
    let (records, notes) = found(sample!("systor.csv"), Format::Systor);
    let expected = [
        (0, Write, 0, 24_160_698_368, 4096, Some(239_000)),
        (2_887_000, Read, 0, 899_056_122_368, 131_072, None),
        (723_963_001, Read, 1, 4096, 512, Some(806_000)),
    ];
    assert_eq!(rows(&records), expected);
    assert_eq!(notes.skipped, [("requests without a type", 1)]);
}

#[test]
fn tencent() {
    let (records, _) = found(sample!("tencent.csv"), Format::Tencent);
    let expected = [
        (0, Read, 1063, 6_610_407_424, 65_536, None),
        (0, Write, 1627, 3_245_408_256, 4096, None),
        (1_000_000_000, Read, 1360, 974_902_476_800, 196_608, None),
    ];
    assert_eq!(rows(&records), expected);
}

#[test]
fn alibaba() {
    let (records, _) = found(sample!("alibaba.csv"), Format::Alibaba);
    let expected = [
        (0, Write, 419, 8_792_731_648, 16_384, None),
        (46_000, Read, 725, 59_110_326_272, 360_448, None),
        (85_000, Read, 12, 350_868_463_616, 8192, None),
        (133_000, Write, 419, 8_792_748_032, 4096, None),
    ];
    assert_eq!(rows(&records), expected);
}

#[test]
fn spc() {
    let (records, _) = found(sample!("spc.csv"), Format::Spc);
    let expected = [
        (0, Write, 0, 155_426_304, 3584, None),
        (0, Write, 1, 28_462_080, 3072, None),
        (26_214_000, Write, 0, 155_429_888, 3584, None),
        (551_706_000, Read, 1, 123_310_080, 3072, None),
    ];
    assert_eq!(rows(&records), expected);
}

#[test]
fn disksim_in_nanoseconds_and_in_milliseconds() {
    let (records, _) = found(sample!("disksim.trace"), Format::DiskSim);
    let expected = [
        (0, Read, 0, 4_558_954_496, 8192, None),
        (48_513_000, Write, 0, 4_558_962_688, 4096, None),
        (48_513_000, Write, 1, 0, 512, None),
    ];
    assert_eq!(rows(&records), expected);
    let (records, _) = found(sample!("disksim-ms.trace"), Format::DiskSimMs);
    assert_eq!(rows(&records)[1], (48_513, Write, 0, 4_558_962_688, 4096, None));
}

#[test]
fn blkparse_text() {
    let (records, notes) = found(sample!("blkparse.txt"), Format::Blkparse);
    let (sda, dm) = (8 << 20, 253 << 20);
    let expected = [
        (10_612, Write, sda, 223_490 * 512, 4096, Some(389_388)),
        (13_000, Flush, sda, 0, 0, Some(500_000)),
        (520_000, Write, sda, 1_052_624 * 512, 4096, Some(120_000)),
        (530_000, Trim, sda, 1 << 30, 2 << 20, Some(870_000)),
        (700_000, Read, sda, 0, 131_072, Some(200_000)),
        (1_000_000, Flush, dm, 0, 0, Some(100_000)),
    ];
    assert_eq!(rows(&records), expected);
    assert_eq!(records.iter().filter(|record| record.fua).count(), 1);
    assert_eq!(records[0].process, Some(697));
    let skipped = [("commands that are no read, write, flush or trim", 1), ("messages", 1)];
    assert_eq!(notes.skipped, skipped);
}

/// Reasons in the order in which they first came, each with the number of its lines.
#[test]
fn every_line_that_is_no_record_is_counted_under_its_reason() {
    let (records, notes) = read(
        b"fio version 3 iolog\n1 a add\n2 a open\n3 a write 0 512\n4 b add\n5 b open\n6 b read 0 512\n7 a close\n",
        Format::Iolog3,
    );
    assert_eq!((records.len(), notes.records), (2, 2));
    assert_eq!(notes.skipped, [("actions on files that move no data", 5)]);
    let without_a_type = "1.5,0.2,,0,4096,512\n1.6,0.2,W,0,4096,512\n".repeat(3);
    let (records, notes) = read(without_a_type.as_bytes(), Format::Systor);
    assert_eq!((records.len(), notes.records), (3, 3));
    assert_eq!(notes.skipped, [("requests without a type", 3)]);
    let message = "  8,0    1    2    0.1   5  m   N cfq1 slice\n";
    let command = "  8,0    1    2    0.1   5  D   N 0 (12 00) [udevd]\n";
    let text = [message, command, command, message, command, command].concat();
    let (records, notes) = read(text.as_bytes(), Format::Blkparse);
    assert_eq!(records, []);
    assert_eq!(notes.skipped, [("messages", 2), ("commands that are no read, write, flush or trim", 4)]);
}

#[test]
fn blktrace_in_both_byte_orders() {
    let (records, notes) = found(sample!("blktrace-le.bin"), Format::Blktrace);
    let dev = 8 << 20;
    let expected = [
        (0, Write, dev, 223_490 * 512, 4096, Some(7000)),
        (500, Flush, dev, 0, 0, Some(7000)),
        (1000, Read, dev | 1, 4096, 512, Some(6800)),
        (7600, Trim, dev, 1 << 20, 1 << 20, None),
        (7700, Flush, dev, 0, 0, None),
        (7700, Write, dev, 8192, 8192, None),
    ];
    assert_eq!(rows(&records), expected);
    assert!(records[5].fua && notes.cut.is_none());
    assert_eq!(found(sample!("blktrace-be.bin"), Format::Blktrace).0, records);
}

#[test]
fn fios_logs() {
    let (records, _) = found(sample!("fio2.iolog"), Format::Iolog2);
    let expected = [
        (0, Write, 0, 0, 4096, None),
        (12_000_000, Read, 1, 4096, 512, None),
        (12_000_000, Flush, 0, 0, 0, None),
        (12_000_000, Trim, 0, 8192, 65_536, None),
    ];
    assert_eq!(rows(&records), expected);
    let (records, _) = found(sample!("fio3.iolog"), Format::Iolog3);
    let expected =
        [(878_000, Write, 0, 0, 16_384, None), (888_000, Read, 0, 16_384, 4096, None), (891_000, Flush, 0, 0, 0, None)];
    assert_eq!(rows(&records), expected);
}

#[test]
fn line_ends_blank_lines_and_a_byte_order_mark_change_nothing() {
    for (bytes, format) in [(&sample!("msr.csv")[..], Format::Msr), (sample!("fio3.iolog"), Format::Iolog3)] {
        let text = std::str::from_utf8(bytes).expect("the sample is a text");
        let plain = found(bytes, format).0;
        assert_eq!(found(text.replace('\n', "\r\n").as_bytes(), format).0, plain);
        assert_eq!(found(text.replace('\n', "\n\n \r\n").as_bytes(), format).0, plain);
        assert_eq!(found(text.trim_end().as_bytes(), format).0, plain);
        if format == Format::Msr {
            assert_eq!(found(format!("\u{feff}{text}").as_bytes(), format).0, plain);
        }
    }
}

#[test]
fn an_error_names_line_byte_and_column_and_what_was_expected() {
    let bytes = b"128166372003061629,usr,0,Read,7014609920,24576,41286\r\n\r\n128166372003061630,usr,0,Erase,0,512,1\n";
    let mut reader = TraceReader::new(&bytes[..], Format::Msr, ReadOptions::default());
    assert!(matches!(reader.next_record(), Ok(Some(_))));
    let error = reader.next_record().expect_err("no such type").to_string();
    assert_eq!(error, "line 3 (byte 56), column 26: found \"Erase\", expected Read or Write");
    assert!(matches!(reader.next_record(), Ok(None)), "nothing comes after an error");
}

#[test]
fn a_blktrace_file_that_is_cut_off_gives_what_is_whole() {
    let whole = sample!("blktrace-le.bin");
    let all = read(whole, Format::Blktrace).0.len();
    for len in 1..whole.len() {
        let (records, notes) = read(&whole[..len], Format::Blktrace);
        assert!(records.len() <= all);
        let cut = notes.cut.map(|cut| cut.byte);
        assert!(cut.is_none_or(|byte| byte == len as u64), "{cut:?} of {len}");
    }
    assert_eq!(read(&whole[..70], Format::Blktrace).1.cut.map(|cut| cut.byte), Some(70));
}

#[test]
fn numbers_for_reads_can_be_turned_round() {
    let options = ReadOptions { read_opcode: Some(1) };
    let reader = TraceReader::new(&sample!("tencent.csv")[..], Format::Tencent, options);
    let ops: Vec<_> = drain(reader).expect("it is good").0.iter().map(|record| record.op).collect();
    assert_eq!(ops, [Write, Read, Write]);
}

#[test]
fn lines_of_another_host_are_counted() {
    let (_, notes) = read(b"1,usr,0,Read,0,512,1\n2,src,0,Read,0,512,1\n3,usr,0,Read,0,512,1\n", Format::Msr);
    assert_eq!(notes.other_hosts, 1);
}

/// Many records, for several blocks.
fn many(count: u64) -> Vec<TraceRecord> {
    let mut rng = sim::Seed(7).stream("test/trace");
    let mut at = 0;
    let record = |_| {
        at += rng.below(100_000);
        let op = BlockOp::ALL[rng.below(4) as usize];
        let mut record = TraceRecord::new(Ns(at), op, rng.below(1 << 30) * 512, rng.below(256) * 512);
        record.device = rng.below(3) as u32;
        record.latency = (rng.below(2) == 0).then(|| Ns(rng.below(1 << 24)));
        record
    };
    (0..count).map(record).collect()
}

#[test]
fn an_ntrace_file_that_is_cut_off_gives_its_whole_blocks() {
    let records = many(80_000);
    let bytes = write(&records, Format::Ntrace);
    assert_eq!(read(&bytes, Format::Ntrace), (records.clone(), Notes { records: 80_000, ..Notes::default() }));
    let step = bytes.len() / 97;
    for len in (1..bytes.len()).step_by(step) {
        let (got, notes) = read(&bytes[..len], Format::Ntrace);
        let cut = notes.cut.expect("it is cut off");
        assert_eq!((cut.byte, cut.records), (len as u64, got.len() as u64));
        assert_eq!(got, records[..got.len()]);
        assert!([0, 32_768, 65_536, 80_000].contains(&got.len()), "{} records", got.len());
    }
    // The index and the footer are lost, but no record.
    assert_eq!(read(&bytes[..bytes.len() - 1], Format::Ntrace).0.len(), 80_000);
}

#[test]
fn a_flipped_bit_in_an_ntrace_file_is_noticed() {
    let bytes = write(&many(2000), Format::Ntrace);
    let intact = read(&bytes, Format::Ntrace);
    let step = bytes.len() / 500;
    for at in (0..bytes.len()).step_by(step) {
        let mut bad = bytes.clone();
        bad[at] ^= 0x10;
        let got = drain(TraceReader::new(&bad[..], Format::Ntrace, ReadOptions::default()));
        match got {
            Err(TraceError::Malformed { .. }) => {}
            // A length that now ends beyond the file looks like a truncation.
            Ok((_, notes)) => assert!(notes.cut.is_some(), "byte {at}: {:?}", notes == intact.1),
            Err(other) => panic!("byte {at}: {other}"),
        }
    }
}

#[test]
fn any_time_of_an_ntrace_file_can_be_reached() {
    let records = many(70_000);
    let bytes = write(&records, Format::Ntrace);
    let mut file = NtraceFile::open(std::io::Cursor::new(&bytes)).expect("it is whole");
    assert_eq!((file.records(), file.last_at()), (70_000, records[69_999].at));
    for from in [0, 1, 32_767, 32_768, 50_000, 69_999] {
        let at = records[from].at;
        let first = records.partition_point(|record| record.at < at);
        let mut got = Vec::new();
        let mut take = |record| {
            got.push(record);
            got.len() < 5
        };
        file.records_from(at, &mut take).expect("it is whole");
        assert_eq!(got[..], records[first..records.len().min(first + 5)], "from {from}");
    }
    file.records_from(file.last_at() + Ns(1), |record| panic!("{record:?}")).expect("nothing is there");
    assert!(NtraceFile::open(std::io::Cursor::new(&bytes[..bytes.len() - 3])).is_err());
}

#[test]
fn an_empty_ntrace_file_is_whole() {
    let bytes = NtraceWriter::new(Vec::new()).and_then(NtraceWriter::finish).expect("memory takes it");
    assert_eq!(read(&bytes, Format::Ntrace), (Vec::new(), Notes::default()));
    assert_eq!(NtraceFile::open(std::io::Cursor::new(&bytes)).expect("it is whole").records(), 0);
    assert_eq!(bytes.len(), 32 + 12 + 32);
}

/// Gap, operation, device, offset, length, and force unit access, latency, process.
type Drawn = (u64, BlockOp, u32, u64, u64, (bool, Option<u64>, Option<u32>));

/// Records that can be told apart by their place, as matching completions requires.
fn records() -> impl Strategy<Value = Vec<TraceRecord>> {
    let one = (
        prop_oneof![Just(0u64), 0..5_000u64, 0..20_000_000_000u64],
        prop::sample::select(&BlockOp::ALL[..]),
        prop_oneof![Just(0u32), 0..3u32, any::<u32>()],
        prop_oneof![Just(0u64), 0..1u64 << 21],
        prop_oneof![Just(4096u64), Just(0), 0..1u64 << 20],
        (any::<bool>(), prop::option::of(0..1u64 << 40), prop::option::of(any::<u32>())),
    );
    prop::collection::vec(one, 0..60).prop_map(|all| {
        let mut at = 0;
        let numbered = all.into_iter().enumerate();
        let record = |(number, (gap, op, device, offset, len, (fua, latency, process))): (usize, Drawn)| {
            at += gap;
            let latency = if op == Flush { Some(Ns(500)) } else { latency.map(Ns) };
            let offset_bytes = if op == Flush { 0 } else { ((number as u64) << 24) + offset };
            let len_bytes = if op == Flush { 0 } else { len };
            TraceRecord { at: Ns(at), op, device, offset_bytes, len_bytes, fua, latency, process }
        };
        numbered.map(record).collect()
    })
}

/// `records` as a reader of `format` returns them.
fn held(records: &[TraceRecord], format: Format) -> Vec<TraceRecord> {
    let mut held: Vec<_> = records.iter().filter_map(|record| format.fit(record)).collect();
    let origin = if format.is_dated() { held.first().map_or(Ns(0), |first| first.at) } else { Ns(0) };
    let mut files = BTreeMap::new();
    for record in &mut held {
        record.at = record.at - origin;
        if matches!(format, Format::Iolog2 | Format::Iolog3) {
            let next = files.len() as u32;
            record.device = *files.entry(record.device).or_insert(next);
        }
    }
    held
}

proptest! {
    #[test]
    fn every_format_gives_back_what_it_can_hold(records in records()) {
        for format in Format::ALL {
            let bytes = write(&records, format);
            let (got, notes) = read(&bytes, format);
            prop_assert_eq!(&got, &held(&records, format), "{}", format.name());
            prop_assert_eq!((notes.out_of_order, notes.cut), (0, None));
            if !got.is_empty() {
                let (_, detected) = TraceReader::detect(&bytes[..], ReadOptions::default()).expect("it is known");
                prop_assert_eq!(detected.format, format, "{}", detected.why);
            }
        }
    }

    #[test]
    fn the_own_format_holds_everything(
        numbers in prop::collection::vec((any::<u64>(), 0..=MAX_LEN_BYTES, any::<u64>(), any::<u32>(), any::<u8>()), 0..40)
    ) {
        let mut records: Vec<_> = numbers.into_iter().map(|(offset, len, time, device, flags)| TraceRecord {
            at: Ns(time),
            op: BlockOp::ALL[usize::from(flags & 3)],
            device,
            offset_bytes: offset.min(u64::MAX - len),
            len_bytes: len,
            fua: flags & 4 != 0,
            latency: (flags & 8 != 0).then_some(Ns(!time)),
            process: (flags & 16 != 0).then_some(!device),
        }).collect();
        records.sort_by_key(|record| record.at);
        prop_assert_eq!(read(&write(&records, Format::Ntrace), Format::Ntrace).0, records);
    }

    #[test]
    fn no_line_makes_a_reader_panic(text in "[-+0-9A-Za-z,. \r\n]{0,200}") {
        for format in Format::ALL {
            let _ = drain(TraceReader::new(text.as_bytes(), format, ReadOptions::default()));
        }
        let _ = TraceReader::detect(text.as_bytes(), ReadOptions::default());
    }
}
