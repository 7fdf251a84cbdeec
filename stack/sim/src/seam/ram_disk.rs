//! The second implementor of [`BlockDevice`]: memory with a fixed service time on a number of servers.

use super::{BlockDevice, BlockDone, BlockError, BlockOp, BlockRequest, Payload, SECTOR_BYTES};
use crate::Ns;

/// A disk in memory. A request waits for the first free server and takes `service` there; a flush waits for all
/// requests. Data is durable at once.
#[derive(Clone, Debug)]
pub struct RamDisk {
    bytes: Vec<u8>,
    depth: u32,
    service: Ns,
    servers: Vec<Ns>,
    /// Outstanding requests: completion, order of submission, tag.
    pending: Vec<(Ns, u64, u32)>,
    submitted: u64,
    /// Last request of each tag, for [`BlockDevice::take`].
    asked: Vec<BlockRequest>,
    data: Vec<Vec<u8>>,
}

impl RamDisk {
    /// A disk of `sectors` zeroed sectors, `depth` tags, and `servers` servers of `service` each.
    pub fn new(sectors: u64, depth: u32, servers: usize, service: Ns) -> RamDisk {
        RamDisk {
            bytes: vec![0; (sectors * u64::from(SECTOR_BYTES)) as usize],
            depth,
            service,
            servers: vec![Ns::ZERO; servers.max(1)],
            pending: Vec::new(),
            submitted: 0,
            asked: vec![BlockRequest::flush(); depth as usize],
            data: vec![Vec::new(); depth as usize],
        }
    }
}

impl BlockDevice for RamDisk {
    const KEEPS_BYTES: bool = true;

    fn sectors(&self) -> u64 {
        self.bytes.len() as u64 / u64::from(SECTOR_BYTES)
    }

    fn queue_depth(&self) -> u32 {
        self.depth
    }

    fn submit(&mut self, at: Ns, tag: u32, request: BlockRequest, data: Payload<'_>) -> Result<(), BlockError> {
        let sectors = self.sectors();
        if request.sector.checked_add(u64::from(request.sectors)).is_none_or(|end| end > sectors) {
            let end = request.sector.saturating_add(u64::from(request.sectors));
            return Err(BlockError::OutOfBounds { sector: request.sector, end, sectors });
        }
        if self.pending.len() as u32 >= self.depth {
            return Err(BlockError::QueueFull { depth: self.depth });
        }
        let range = (request.sector * 512) as usize..(request.end() * 512) as usize;
        match (request.op, data) {
            (BlockOp::Write, Payload::Bytes(bytes)) => self.bytes[range].copy_from_slice(bytes),
            (BlockOp::Write, Payload::Length(_)) | (BlockOp::Trim, _) => self.bytes[range].fill(0),
            (BlockOp::Read, _) => self.data[tag as usize] = self.bytes[range].to_vec(),
            (BlockOp::Flush, _) => {}
        }
        self.asked[tag as usize] = request;
        let done = if request.op == BlockOp::Flush {
            self.pending.iter().map(|&(done, ..)| done).fold(at, Ns::max)
        } else {
            let server = (0..self.servers.len()).min_by_key(|&server| self.servers[server]).unwrap_or(0);
            self.servers[server] = self.servers[server].max(at) + self.service;
            self.servers[server]
        };
        self.pending.push((done, self.submitted, tag));
        self.submitted += 1;
        Ok(())
    }

    fn next_done(&mut self, until: Ns) -> Option<BlockDone> {
        let next = (0..self.pending.len()).min_by_key(|&at| self.pending[at])?;
        if self.pending[next].0 > until {
            return None;
        }
        let (at, _, tag) = self.pending.swap_remove(next);
        Some(BlockDone { tag, at, result: Ok(()) })
    }

    fn take(&mut self, tag: u32, buf: &mut [u8]) {
        debug_assert_eq!(self.asked[tag as usize].op, BlockOp::Read, "tag {tag} was no read");
        buf.copy_from_slice(&self.data[tag as usize]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_servers_serve_three_requests_in_two_steps() {
        let mut disk = RamDisk::new(64, 4, 2, Ns(10));
        for tag in 0..3 {
            disk.submit(Ns(0), tag, BlockRequest::write(u64::from(tag), 1), Payload::Bytes(&[tag as u8; 512])).unwrap();
        }
        assert_eq!(disk.next_done(Ns(9)), None);
        let done: Vec<_> = std::iter::from_fn(|| disk.next_done(Ns(20))).map(|done| (done.tag, done.at.0)).collect();
        assert_eq!(done, [(0, 10), (1, 10), (2, 20)]);
        disk.submit(Ns(20), 0, BlockRequest::read(2, 1), Payload::Length(0)).unwrap();
        assert!(disk.next_done(Ns(30)).is_some());
        let mut sector = [0; 512];
        disk.take(0, &mut sector);
        assert_eq!(sector, [2; 512]);
    }

    #[test]
    fn a_request_beyond_the_end_is_refused() {
        let mut disk = RamDisk::new(8, 1, 1, Ns(1));
        let refused = disk.submit(Ns(0), 0, BlockRequest::read(8, 1), Payload::Length(0));
        assert_eq!(refused, Err(BlockError::OutOfBounds { sector: 8, end: 9, sectors: 8 }));
    }
}
