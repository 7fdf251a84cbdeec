//! One request of a trace.
//!
//! It counts bytes, because some traces have requests that begin or end within a sector; [`TraceRecord::request`]
//! rounds them outward to sectors. It does not know the format that it came from.

use sim::Ns;
use sim::seam::{BlockOp, BlockRequest, SECTOR_BYTES};

/// Longest request: its sectors, rounded outward, still fit into 32 bits. 2 TiB less 2 sectors.
pub const MAX_LEN_BYTES: u64 = (u32::MAX as u64 - 2) * SECTOR_BYTES as u64;

/// A recorded request of a block device.
///
/// Readers return records in the order of the file, with `at` never decreasing, `len_bytes` at most [`MAX_LEN_BYTES`],
/// and `offset_bytes + len_bytes` within 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRecord {
    /// When it was issued, since the beginning of the trace.
    pub at: Ns,
    /// The operation.
    pub op: BlockOp,
    /// Number of the volume, disk or file; 0 in traces of one.
    pub device: u32,
    /// Offset of the first byte; 0 for a flush.
    pub offset_bytes: u64,
    /// Length in bytes; 0 for a flush, and for requests that transferred nothing.
    pub len_bytes: u64,
    /// Whether it has force unit access.
    pub fua: bool,
    /// Time from issue to completion, if recorded.
    pub latency: Option<Ns>,
    /// Process or submission queue, if recorded.
    pub process: Option<u32>,
}

impl TraceRecord {
    /// A record without latency, process and force unit access, of device 0.
    pub const fn new(at: Ns, op: BlockOp, offset_bytes: u64, len_bytes: u64) -> TraceRecord {
        TraceRecord { at, op, device: 0, offset_bytes, len_bytes, fua: false, latency: None, process: None }
    }

    /// One past its last byte.
    pub const fn end_bytes(&self) -> u64 {
        self.offset_bytes.saturating_add(self.len_bytes)
    }

    /// When it completed, if recorded.
    pub fn done_at(&self) -> Option<Ns> {
        self.latency.map(|latency| Ns(self.at.0.saturating_add(latency.0)))
    }

    /// The request in whole sectors, on queue 0: all sectors that it touches, for a discard too. `None` if it touches
    /// none and is no flush.
    pub fn request(&self) -> Option<BlockRequest> {
        if self.op == BlockOp::Flush {
            return Some(BlockRequest::flush());
        }
        if self.len_bytes == 0 {
            return None;
        }
        let unit = u64::from(SECTOR_BYTES);
        let sector = self.offset_bytes / unit;
        let sectors = u32::try_from(self.end_bytes().div_ceil(unit) - sector).unwrap_or(u32::MAX);
        Some(BlockRequest { op: self.op, sector, sectors, fua: self.fua, queue: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_rounded_outward_to_sectors() {
        let request = |offset, len| TraceRecord::new(Ns(0), BlockOp::Read, offset, len).request();
        assert_eq!(request(0, 512), Some(BlockRequest::read(0, 1)));
        assert_eq!(request(511, 2), Some(BlockRequest::read(0, 2)));
        assert_eq!(request(512, 1), Some(BlockRequest::read(1, 1)));
        assert_eq!(request(1000, 1048), Some(BlockRequest::read(1, 3)));
        assert_eq!(request(4096, 0), None);
        assert_eq!(request(511, MAX_LEN_BYTES), Some(BlockRequest::read(0, u32::MAX - 1)));
        assert_eq!(request(u64::MAX - 1, 1), Some(BlockRequest::read(u64::MAX / 512, 1)));
    }

    #[test]
    fn a_flush_is_a_request_without_sectors() {
        assert_eq!(TraceRecord::new(Ns(7), BlockOp::Flush, 0, 0).request(), Some(BlockRequest::flush()));
    }
}
