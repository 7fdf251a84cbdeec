//! Targets of block traces: any bytes are records or an error, in bounded memory, and what is read can be measured and
//! written again.

use std::io::Cursor;

use workload::trace::pattern::PatternOptions;
use workload::trace::{Format, MAX_LEN_BYTES, NtraceFile, Pattern, ReadOptions, TraceReader, TraceWriter};

use crate::memory;

/// Buffers of fixed size: input, one block of the own format on both sides, one picture while it grows.
const FIXED: usize = 16 << 20;
/// A line or event of some 15 bytes can become a record that waits for its completion.
const TIMES: usize = 32;

/// Finds out the format, then reads.
pub fn detect(data: &[u8]) {
    memory::bounded(data.len(), TIMES, FIXED, || {
        if let Ok((reader, detected)) = TraceReader::detect(data, ReadOptions::default()) {
            assert_eq!(reader.format(), detected.format);
            drain(reader);
        }
    });
}

/// The first byte picks the format.
pub fn text(data: &[u8]) {
    let Some((&number, text)) = data.split_first() else { return };
    let format = Format::ALL[usize::from(number) % Format::ALL.len()];
    memory::bounded(data.len(), TIMES, FIXED, || drain(TraceReader::new(text, format, ReadOptions::default())));
}

/// blktrace's events.
pub fn blktrace(data: &[u8]) {
    let read = || drain(TraceReader::new(data, Format::Blktrace, ReadOptions::default()));
    memory::bounded(data.len(), TIMES, FIXED, read);
}

/// The own format, from its beginning and by its index. The first byte odd: checksums of the head and of the blocks are
/// made right, so that mutations get past them.
pub fn ntrace(data: &[u8]) {
    let Some((&flags, bytes)) = data.split_first() else { return };
    let mut bytes = bytes.to_vec();
    if flags & 1 == 1 {
        right_sums(&mut bytes);
    }
    memory::bounded(data.len(), TIMES, FIXED, || {
        drain(TraceReader::new(&bytes[..], Format::Ntrace, ReadOptions::default()));
        if let Ok(mut file) = NtraceFile::open(Cursor::new(&bytes)) {
            let middle = sim::Ns(file.last_at().0 / 2);
            let _ = file.records_from(middle, |record| record.at >= middle);
        }
    });
}

fn sum(bytes: &mut [u8], covered: std::ops::Range<usize>, at: usize) {
    // The sum of UBI's headers is the same polynomial without the last inversion.
    let Some(part) = bytes.get(covered) else { return };
    let crc = !ubi::media::crc(part);
    if let Some(place) = bytes.get_mut(at..at + 4) {
        place.copy_from_slice(&crc.to_le_bytes());
    }
}

fn right_sums(bytes: &mut [u8]) {
    sum(bytes, 0..28, 28);
    let mut at = 32;
    while bytes.get(at..at + 4) == Some(b"NTBK") {
        let Some(packed) = bytes.get(at + 8..at + 12).and_then(|it| it.try_into().ok()).map(u32::from_le_bytes) else {
            return;
        };
        let end = at + 48 + packed as usize;
        sum(bytes, at + 48..end, at + 40);
        sum(bytes, at..at + 44, at + 44);
        at = end;
    }
}

fn drain(mut reader: TraceReader<&[u8]>) {
    let options = PatternOptions { segments: 64, devices: 4, pictures: 1 };
    let mut pattern = Pattern::new(options);
    let mut writer = TraceWriter::new(Vec::new(), Format::Ntrace).expect("memory takes it");
    let mut last = sim::Ns(0);
    let mut records = Vec::new();
    while let Ok(Some(record)) = reader.next_record() {
        assert!(record.at >= last, "times do not fall");
        assert!(record.len_bytes <= MAX_LEN_BYTES && record.offset_bytes.checked_add(record.len_bytes).is_some());
        let _ = record.request();
        last = record.at;
        pattern.add(&record);
        writer.write(&record).expect("memory takes it");
        if records.len() < 64 {
            records.push(record);
        }
    }
    assert_eq!(pattern.all().requests(), reader.notes().records);
    let (bytes, lost) = writer.finish().expect("memory takes it");
    assert_eq!(lost, workload::trace::Lost::default(), "the own format holds everything");
    let mut again = TraceReader::new(&bytes[..], Format::Ntrace, ReadOptions::default());
    for record in records {
        assert_eq!(again.next_record().expect("it was just written"), Some(record));
    }
}
