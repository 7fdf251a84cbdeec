//! Measures of a trace's access pattern, updated record by record.
//!
//! For all devices together and for each: requests and bytes, sizes, inter-arrival times, latencies, queue depth. For
//! each device also its footprint, how sequential its writes are (defined at [`Segments`]), and a picture of addresses
//! over time.
//!
//! Memory is bounded by [`PatternOptions`]; what exceeds the bounds is counted, not dropped silently.

mod depth;
mod histogram;
mod picture;
mod segments;

use std::collections::BTreeMap;

use sim::Ns;
use sim::seam::BlockOp;

use super::TraceRecord;
pub use depth::{DEPTH_BINS, Depth};
pub use histogram::Log2;
pub use picture::{Axis, Cell, Picture};
pub use segments::{PAGE_BYTES, SEGMENT_BYTES, Segment, Segments};

/// Memory bounds of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatternOptions {
    /// Segments of 1 MiB kept for sequentiality and footprint, over all devices: some 140 bytes each.
    pub segments: usize,
    /// Devices measured separately; the others count only in the totals.
    pub devices: usize,
    /// Devices for which a picture is drawn, in the order of appearance: 2.3 MB each.
    pub pictures: usize,
}

impl Default for PatternOptions {
    fn default() -> PatternOptions {
        PatternOptions { segments: 1 << 21, devices: 4096, pictures: 0 }
    }
}

/// Requests of one operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpLoad {
    /// Number of requests.
    pub requests: u64,
    /// Bytes of these requests.
    pub bytes: u64,
    /// Requests with force unit access.
    pub fua: u64,
    /// Histogram of sizes in bytes.
    pub sizes: Log2,
    /// Histogram of known latencies in nanoseconds.
    pub latencies: Log2,
}

impl OpLoad {
    /// Mean request size in bytes.
    pub fn mean_bytes(&self) -> Option<f64> {
        (self.requests > 0).then(|| self.bytes as f64 / self.requests as f64)
    }
}

/// Requests of a device, or of all devices.
#[derive(Clone, Debug, Default)]
pub struct Load {
    ops: [OpLoad; BlockOp::ALL.len()],
    /// Histogram of nanoseconds between a request and the next.
    pub gaps: Log2,
    /// Queue depth, if latencies are known.
    pub depth: Depth,
    first_at: Option<Ns>,
    last_at: Ns,
}

impl Load {
    fn add(&mut self, record: &TraceRecord) {
        let op = &mut self.ops[record.op as usize];
        op.requests += 1;
        op.bytes = op.bytes.saturating_add(record.len_bytes);
        op.fua += u64::from(record.fua);
        op.sizes.add(record.len_bytes);
        if let Some(latency) = record.latency {
            op.latencies.add(latency.0);
        }
        if self.first_at.is_some() {
            self.gaps.add(record.at.0.saturating_sub(self.last_at.0));
        }
        self.first_at.get_or_insert(record.at);
        self.last_at = record.at;
        self.depth.add(record.at, record.latency);
    }

    /// Requests of `op`.
    pub fn op(&self, op: BlockOp) -> &OpLoad {
        &self.ops[op as usize]
    }

    /// Requests of every operation.
    pub fn requests(&self) -> u64 {
        self.ops.iter().map(|op| op.requests).sum()
    }

    /// Time of the first request.
    pub fn first_at(&self) -> Option<Ns> {
        self.first_at
    }

    /// Time from the first request to the last.
    pub fn duration(&self) -> Ns {
        self.first_at.map_or(Ns(0), |first| self.last_at - first)
    }

    /// Share of reads among reads and writes.
    pub fn read_share(&self) -> Option<f64> {
        let (reads, writes) = (self.op(BlockOp::Read).requests, self.op(BlockOp::Write).requests);
        (reads + writes > 0).then(|| reads as f64 / (reads + writes) as f64)
    }
}

/// Pattern of one device.
#[derive(Clone, Debug, Default)]
pub struct DevicePattern {
    /// Its requests.
    pub load: Load,
    /// Footprint and sequentiality.
    pub segments: Segments,
    /// Picture of addresses over time, if requested.
    pub picture: Option<Picture>,
}

/// Access pattern of a trace.
#[derive(Clone, Debug)]
pub struct Pattern {
    options: PatternOptions,
    all: Load,
    devices: BTreeMap<u32, DevicePattern>,
    other_devices: u64,
    segments_left: usize,
}

impl Pattern {
    /// An empty pattern.
    pub fn new(options: PatternOptions) -> Pattern {
        let segments_left = options.segments;
        Pattern { options, all: Load::default(), devices: BTreeMap::new(), other_devices: 0, segments_left }
    }

    /// Adds a record. Times must not decrease; readers ensure that.
    pub fn add(&mut self, record: &TraceRecord) {
        self.all.add(record);
        let known = self.devices.len();
        let device = match self.devices.get_mut(&record.device) {
            Some(device) => device,
            None if known >= self.options.devices => {
                self.other_devices += 1;
                return;
            }
            None => {
                let picture = (known < self.options.pictures).then(Picture::default);
                self.devices.entry(record.device).or_insert(DevicePattern { picture, ..DevicePattern::default() })
            }
        };
        device.load.add(record);
        device.segments.add(record, &mut self.segments_left);
        if let Some(picture) = &mut device.picture {
            picture.add(record);
        }
    }

    /// Totals of all devices.
    pub fn all(&self) -> &Load {
        &self.all
    }

    /// Devices measured separately, by number.
    pub fn devices(&self) -> impl ExactSizeIterator<Item = (u32, &DevicePattern)> {
        self.devices.iter().map(|(&number, device)| (number, device))
    }

    /// Records of devices beyond [`PatternOptions::devices`].
    pub fn other_devices(&self) -> u64 {
        self.other_devices
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_is_the_sum_of_the_devices_and_of_what_is_beyond_them() {
        let options = PatternOptions { devices: 2, ..PatternOptions::default() };
        let mut pattern = Pattern::new(options);
        for at in 0..30 {
            let device = (at % 3) as u32;
            pattern.add(&TraceRecord { device, ..TraceRecord::new(Ns(at), BlockOp::Read, 0, 1 << device) });
        }
        assert_eq!(pattern.all().requests(), 30);
        let requests: Vec<_> = pattern.devices().map(|(number, device)| (number, device.load.requests())).collect();
        assert_eq!((requests, pattern.other_devices()), (vec![(0, 10), (1, 10)], 10));
        assert_eq!(pattern.all().op(BlockOp::Read).bytes, 70);
    }

    #[test]
    fn means_shares_and_gaps_are_those_of_the_records() {
        let mut pattern = Pattern::new(PatternOptions::default());
        for (at, op, len) in [(100, BlockOp::Read, 4096), (103, BlockOp::Write, 512), (110, BlockOp::Write, 1536)] {
            pattern.add(&TraceRecord::new(Ns(at), op, 0, len));
        }
        let load = pattern.all();
        assert_eq!(load.op(BlockOp::Write).mean_bytes(), Some(1024.0));
        assert_eq!(load.op(BlockOp::Trim).mean_bytes(), None);
        assert_eq!(load.read_share(), Some(1.0 / 3.0));
        assert_eq!(load.gaps.bins().collect::<Vec<_>>(), [(4, 1), (8, 1)]);
        assert_eq!((load.gaps.mean(), load.gaps.max(), load.duration()), (Some(5.0), Some(7), Ns(10)));
    }
}
