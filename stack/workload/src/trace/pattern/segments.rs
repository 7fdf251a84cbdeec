//! Where a device is read and written, and how sequential its writes are.
//!
//! The address space is divided into aligned segments of [`SEGMENT_BYTES`]; a write is split at their borders. In each
//! segment:
//! - A write at its start begins an epoch; a write at the end of the epoch extends it; an epoch that reaches the end of
//!   the segment is complete. Any other write voids it. **SegSeq** is the share of written bytes in complete epochs:
//!   near 1 for a log, small for writes in place. An epoch still open when the trace ends is not complete.
//! - **SegCont** is the share of written bytes in pieces that begin where the previous write in the same segment ended.
//!
//! Writes count in the order of the trace.

use std::collections::BTreeMap;

use sim::seam::BlockOp;

use crate::trace::TraceRecord;

/// Bytes of a segment.
pub const SEGMENT_BYTES: u64 = 1 << 20;
/// Unit of the footprint, in bytes.
pub const PAGE_BYTES: u64 = 4 << 10;
/// Words of 64 pages each in a segment.
const WORDS: usize = (SEGMENT_BYTES / PAGE_BYTES / 64) as usize;
/// Most segments of one request that are examined: 1 GiB.
const MOST_OF_ONE: u64 = 1 << 10;

/// One segment that was read or written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    read: [u64; WORDS],
    written: [u64; WORDS],
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes of them in complete epochs.
    pub sequential_bytes: u64,
    /// End of the open epoch; 0 if none is open.
    epoch: u32,
    /// End of the last write.
    last_end: u32,
}

/// The segments of one device.
#[derive(Clone, Debug, Default)]
pub struct Segments {
    segments: BTreeMap<u64, Segment>,
    written_bytes: u64,
    sequential_bytes: u64,
    continued_bytes: u64,
    not_looked_at: u64,
}

impl Segments {
    /// Adds a record. `left` is the number of segments that may still be added.
    pub(super) fn add(&mut self, record: &TraceRecord, left: &mut usize) {
        if !matches!(record.op, BlockOp::Read | BlockOp::Write) {
            return;
        }
        let (mut at, end) = (record.offset_bytes, record.end_bytes());
        let looked_at = at.saturating_add(MOST_OF_ONE * SEGMENT_BYTES).min(end);
        self.not_looked_at = self.not_looked_at.saturating_add(end - looked_at);
        while at < looked_at {
            let (number, from) = (at / SEGMENT_BYTES, at % SEGMENT_BYTES);
            let len = (SEGMENT_BYTES - from).min(looked_at - at);
            at += len;
            if *left == 0 && !self.segments.contains_key(&number) {
                self.not_looked_at = self.not_looked_at.saturating_add(len);
                continue;
            }
            let segment = self.segments.entry(number).or_insert_with(|| {
                *left -= 1;
                Segment::default()
            });
            if record.op == BlockOp::Read {
                mark(&mut segment.read, from, len);
                continue;
            }
            mark(&mut segment.written, from, len);
            let (sequential, continued) = segment.write(from as u32, len as u32);
            self.written_bytes = self.written_bytes.saturating_add(len);
            self.sequential_bytes = self.sequential_bytes.saturating_add(sequential);
            self.continued_bytes = self.continued_bytes.saturating_add(continued);
        }
    }

    /// SegSeq, from 0 to 1; `None` if nothing was written.
    pub fn seg_seq(&self) -> Option<f64> {
        (self.written_bytes > 0).then(|| self.sequential_bytes as f64 / self.written_bytes as f64)
    }

    /// SegCont, from 0 to 1; `None` if nothing was written.
    pub fn seg_cont(&self) -> Option<f64> {
        (self.written_bytes > 0).then(|| self.continued_bytes as f64 / self.written_bytes as f64)
    }

    /// Bytes read or written beyond the memory bounds, which are in no measure of this module.
    pub fn not_looked_at(&self) -> u64 {
        self.not_looked_at
    }

    /// Distinct pages of [`PAGE_BYTES`] that were read, that were written, and that were either.
    pub fn footprint_pages(&self) -> (u64, u64, u64) {
        let count = |words: [u64; WORDS]| words.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
        self.segments.values().fold((0, 0, 0), |(read, written, either), segment| {
            let both = std::array::from_fn(|word| segment.read[word] | segment.written[word]);
            (read + count(segment.read), written + count(segment.written), either + count(both))
        })
    }

    /// Each segment that was read or written, by number.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u64, &Segment)> {
        self.segments.iter().map(|(&number, segment)| (number, segment))
    }
}

impl Segment {
    /// Adds a write; returns the bytes that it makes sequential, and those that continue the write before.
    fn write(&mut self, from: u32, len: u32) -> (u64, u64) {
        let continued = if from > 0 && from == self.last_end { u64::from(len) } else { 0 };
        self.last_end = from + len;
        self.written_bytes += u64::from(len);
        self.epoch = match from {
            0 => len,
            _ if self.epoch == from => from + len,
            _ => 0,
        };
        if u64::from(self.epoch) < SEGMENT_BYTES {
            return (0, continued);
        }
        self.epoch = 0;
        self.sequential_bytes += SEGMENT_BYTES;
        (SEGMENT_BYTES, continued)
    }
}

fn mark(words: &mut [u64; WORDS], from: u64, len: u64) {
    let (first, last) = (from / PAGE_BYTES, (from + len - 1) / PAGE_BYTES);
    for page in first..=last {
        words[(page / 64) as usize] |= 1 << (page % 64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Ns;

    const MIB: u64 = 1 << 20;
    const KIB: u64 = 1 << 10;

    fn of(writes: impl IntoIterator<Item = (u64, u64)>) -> Segments {
        let mut segments = Segments::default();
        let mut left = 1000;
        for (offset, len) in writes {
            segments.add(&TraceRecord::new(Ns(0), BlockOp::Write, offset, len), &mut left);
        }
        segments
    }

    /// Both shares in bytes: (completed, continued, written).
    fn shares(writes: &[(u64, u64)]) -> (u64, u64, u64) {
        let segments = of(writes.iter().copied());
        (segments.sequential_bytes, segments.continued_bytes, segments.written_bytes)
    }

    #[test]
    fn a_pure_log_is_wholly_sequential() {
        let log = of((0..4 * 256).map(|page| (page * 4 * KIB, 4 * KIB)));
        assert_eq!(log.seg_seq(), Some(1.0));
        assert_eq!(log.seg_cont(), Some(255.0 / 256.0));
        // Twice over, and in pieces that cross the borders of segments.
        let log = of((0..2).flat_map(|_| (0..64).map(|piece| (piece * 48 * KIB, 48 * KIB))));
        assert_eq!(log.seg_seq(), Some(1.0));
    }

    #[test]
    fn rewrites_in_place_are_hardly_sequential() {
        // Pages far apart, each written ten times.
        let scattered = of((0..10).flat_map(|_| (0..100).map(|page| (page * 300 * KIB, 4 * KIB))));
        assert_eq!(scattered.seg_seq(), Some(0.0));
        // A segment written from end to end once, then its first page 1000 times.
        let mixed = of((0..256).map(|page| (page * 4 * KIB, 4 * KIB)).chain((0..1000).map(|_| (0, 4 * KIB))));
        assert_eq!(mixed.seg_seq(), Some(256.0 / 1256.0));
        assert_eq!(mixed.seg_cont(), Some(255.0 / 1256.0));
    }

    #[test]
    fn one_write_of_a_whole_segment_is_a_whole_epoch() {
        assert_eq!(shares(&[(0, MIB)]), (MIB, 0, MIB));
        assert_eq!(shares(&[(3 * MIB, 2 * MIB)]), (2 * MIB, 0, 2 * MIB));
    }

    #[test]
    fn a_write_is_split_at_the_borders_of_segments() {
        // The second segment's epoch begins with the tail of the first write.
        assert_eq!(shares(&[(512 * KIB, MIB), (1536 * KIB, 512 * KIB)]), (MIB, 512 * KIB, 1536 * KIB));
    }

    #[test]
    fn an_epoch_that_begins_in_the_middle_is_none() {
        assert_eq!(shares(&[(4 * KIB, MIB - 4 * KIB)]), (0, 0, MIB - 4 * KIB));
    }

    #[test]
    fn an_epoch_that_is_not_finished_does_not_count() {
        assert_eq!(shares(&[(0, MIB - 512), (MIB, 512)]), (0, 0, MIB));
    }

    #[test]
    fn a_write_out_of_turn_voids_the_epoch() {
        let writes = [(0, 512 * KIB), (4 * KIB, 4 * KIB), (512 * KIB, 512 * KIB)];
        assert_eq!(shares(&writes), (0, 0, MIB + 4 * KIB));
        // A gap voids it too.
        assert_eq!(shares(&[(0, 4 * KIB), (8 * KIB, MIB - 8 * KIB)]).0, 0);
    }

    #[test]
    fn a_write_at_the_beginning_begins_anew() {
        let writes = [(0, 512 * KIB), (0, 256 * KIB), (256 * KIB, 768 * KIB)];
        assert_eq!(shares(&writes), (MIB, 768 * KIB, 1536 * KIB));
    }

    #[test]
    fn segments_do_not_disturb_each_other() {
        let interleaved: Vec<_> =
            (0..256).flat_map(|page| [(page * 4096, 4096), (8 * MIB + page * 4096, 4096)]).collect();
        assert_eq!(shares(&interleaved).0, 2 * MIB);
    }

    #[test]
    fn reads_leave_the_epoch_alone_and_count_in_the_footprint() {
        let mut segments = Segments::default();
        let mut left = 10;
        for (op, offset, len) in [
            (BlockOp::Write, 0, 512 * KIB),
            (BlockOp::Read, 700 * KIB, 1),
            (BlockOp::Trim, 0, MIB),
            (BlockOp::Write, 512 * KIB, 512 * KIB),
            (BlockOp::Read, 5 * MIB + 4095, 2),
        ] {
            segments.add(&TraceRecord::new(Ns(0), op, offset, len), &mut left);
        }
        assert_eq!(segments.seg_seq(), Some(1.0));
        assert_eq!((segments.footprint_pages(), left), ((3, 256, 258), 8));
    }

    #[test]
    fn what_is_beyond_the_bounds_is_counted_as_not_looked_at() {
        let mut segments = Segments::default();
        let mut left = 2;
        segments.add(&TraceRecord::new(Ns(0), BlockOp::Write, 0, 5 * MIB), &mut left);
        assert_eq!((segments.iter().len(), segments.not_looked_at(), left), (2, 3 * MIB, 0));
        segments.add(&TraceRecord::new(Ns(0), BlockOp::Write, 0, 1 << 40), &mut left);
        assert_eq!(segments.not_looked_at(), 3 * MIB + (1 << 40) - 2 * MIB);
        assert_eq!(segments.seg_seq(), Some(1.0));
    }
}
