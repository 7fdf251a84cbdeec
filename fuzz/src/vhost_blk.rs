//! What a driver of virtio-blk sends: a header, the segments of its chain, and the ranges that it wants discarded.

use runner::export::vhost_blk::{
    Chain, Disk, HEADER_BYTES, ID_BYTES, RANGE_BYTES, Range, Request, Segment, Span, Status, part,
};

use crate::memory;

/// Bytes of a segment in the input: address, length, flags.
const SEGMENT: usize = 13;

fn fits(disk: &Disk, range: &Range, most: u32) {
    assert!(range.offset + u64::from(range.bytes) <= disk.bytes && range.bytes > 0 && range.bytes <= most, "{range:?}");
    assert!(range.offset.is_multiple_of(512) && range.bytes.is_multiple_of(512), "{range:?}");
}

fn bytes(spans: &[Span]) -> u64 {
    spans.iter().map(|span| u64::from(span.bytes)).sum()
}

/// Sixteen bytes of header, the number of segments, the segments; what is left are ranges. What comes of it fits the disk,
/// and the chain has as many bytes as its segments.
pub fn request(data: &[u8]) {
    let (most_bytes, most_discarded) = (32 << 20, 1 << 30);
    let (id, size, physical_bytes, queues) = ("live".to_owned(), 1 << 30, 4096, 4);
    let disk = Disk { id, bytes: size, physical_bytes, queues, most_bytes, most_discarded, read_only: false };
    let Some((header, rest)) = data.split_first_chunk::<HEADER_BYTES>() else { return };
    let (&count, rest) = rest.split_first().unwrap_or((&0, &[]));
    let (segments, ranges) = rest.split_at(rest.len().min(usize::from(count) * SEGMENT));
    let segments = segments.chunks_exact(SEGMENT).map(|segment| Segment {
        address: u64::from_le_bytes(segment[..8].try_into().expect("eight bytes")),
        bytes: u32::from_le_bytes(segment[8..12].try_into().expect("four bytes")),
        is_writable: segment[12] & 1 == 1,
    });
    // A segment becomes a span of header and one of data, in vectors that double.
    let chain = memory::bounded(data.len(), 8, 1024, || Chain::new(segments.clone()));
    if chain.fault.is_none() {
        let of = |writable| segments.clone().filter(move |segment| segment.is_writable == writable);
        let total = |writable| of(writable).map(|segment| u64::from(segment.bytes)).sum::<u64>();
        assert_eq!(bytes(&chain.header) + bytes(&chain.sent), total(false));
        assert_eq!(bytes(&chain.header), HEADER_BYTES as u64);
        assert_eq!(chain.room_bytes + u64::from(chain.status.is_some()), total(true));
        assert_eq!((chain.sent_bytes, chain.room_bytes), (bytes(&chain.sent), bytes(&chain.room)));
        for (from, length) in [(0, u64::MAX), (513, 4096), (chain.room_bytes, 1)] {
            let found: Vec<Span> = part(&chain.room, from, length).collect();
            assert_eq!(bytes(&found), chain.room_bytes.saturating_sub(from).min(length));
        }
    }
    match disk.request(header, &chain) {
        Err(status) => assert_ne!(status, Status::Ok),
        Ok(_) if chain.fault.is_some() => panic!("a request of a chain with a fault"),
        Ok(Request::Read(range)) => {
            assert_eq!(u64::from(range.bytes), chain.room_bytes);
            fits(&disk, &range, most_bytes);
        }
        Ok(Request::Write(range)) => {
            assert_eq!(u64::from(range.bytes), chain.sent_bytes);
            fits(&disk, &range, most_bytes);
        }
        Ok(Request::Flush) => {}
        Ok(Request::Id { bytes }) => assert!(bytes <= ID_BYTES && bytes as u64 <= chain.room_bytes),
        Ok(Request::Ranges { bytes, .. }) => {
            assert!(bytes as u64 == chain.sent_bytes && bytes % RANGE_BYTES == 0 && bytes <= 4096);
        }
    }
    for (discards, most) in [(true, most_discarded), (false, most_bytes)] {
        let found = memory::bounded(ranges.len(), 2, 1024, || disk.ranges(discards, ranges));
        found.iter().flatten().for_each(|range| fits(&disk, range, most));
    }
}
