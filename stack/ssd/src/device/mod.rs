//! What a drive shows to its host: link, queues, which commands exclude which, and the formats of ATA, UFS and HPB.
//!
//! SATA has one queue of up to 32 commands; FLUSH CACHE and DATA SET MANAGEMENT (TRIM) are not queued: they wait until
//! the queue is empty, and nothing begins before they end. NVMe has several queues, all commands are queued, and the
//! controller fetches from the queues in turn, by weight if it has weights. UFS has one queue of 32, and queues
//! SYNCHRONIZE CACHE and UNMAP with the rest. Source: ACS-3 and SATA 3.x, NCQ; NVMe base specification, command
//! arbitration.
//!
//! Knows commands and their order. Does not know pages.

pub mod ata;
pub mod hpb;
pub mod ufs;

use std::collections::VecDeque;

use sim::Ns;
use sim::seam::{BlockOp, BlockRequest};

/// The protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// One queue; flush and trim alone.
    Sata,
    /// One queue of up to 32 commands, flush and trim among them.
    Ufs,
    /// A weight for each submission queue: so many commands are fetched from it in its turn.
    Nvme {
        /// Weights; all 1 is plain round robin.
        weights: Vec<u32>,
    },
}

/// What a read gives of sectors that were trimmed and not written since. Sectors never written are zeroes everywhere.
/// Source: ACS-3, DATA SET MANAGEMENT: IDENTIFY word 69, bits 14 (DRAT) and 5 (RZAT).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrimmedReads {
    /// Zeroes (DRAT and RZAT).
    #[default]
    Zeroes,
    /// Equal bytes at each read, and no zeroes (DRAT alone): [`TRIMMED_BYTE`] throughout.
    Deterministic,
    /// Anything, from one read to the next (neither bit): what the cells still hold, zeroes once that is erased.
    Undefined,
}

/// What a trimmed sector is full of under [`TrimmedReads::Deterministic`]: what erased cells read as.
pub const TRIMMED_BYTE: u8 = 0xff;

impl TrimmedReads {
    /// Every kind.
    pub const ALL: [TrimmedReads; 3] = [TrimmedReads::Zeroes, TrimmedReads::Deterministic, TrimmedReads::Undefined];

    /// Its name in experiments.
    pub const fn name(self) -> &'static str {
        match self {
            TrimmedReads::Zeroes => "zeroes",
            TrimmedReads::Deterministic => "deterministic",
            TrimmedReads::Undefined => "undefined",
        }
    }

    /// The kind of that name.
    pub fn by_name(name: &str) -> Option<TrimmedReads> {
        TrimmedReads::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A drive's front end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrontConfig {
    /// The protocol.
    pub protocol: Protocol,
    /// Commands that the drive holds at a time: up to 32 with NCQ, 1 without.
    pub depth: u32,
    /// The controller's own work on a command; one at a time.
    pub command: Ns,
    /// Payload bytes a second over the link; 0: it takes no time.
    pub link_bytes_per_s: u64,
    /// Whether both directions share the link, as on SATA.
    pub half_duplex: bool,
    /// Whether writes complete in the drive's memory.
    pub write_cache: bool,
    /// What trimmed sectors read as.
    pub trimmed_reads: TrimmedReads,
}

/// Queues, link and controller.
#[derive(Clone, Debug)]
pub struct Front {
    queues: Vec<VecDeque<(u32, BlockOp)>>,
    weights: Vec<u32>,
    /// Whose turn it is, and how many of its turn are left.
    turn: usize,
    left: u32,
    exclusive_ops: bool,
    command: u64,
    /// The command that the controller works on, and when it is known.
    fetching: Option<(u64, u32)>,
    /// Commands fetched and not completed; whether one of them excludes others.
    under_way: u32,
    excluding: bool,
    /// When the last excluding command ended.
    exclusive_until: u64,
    waiting: u32,
    rate: u64,
    half_duplex: bool,
    link: [u64; 2],
}

impl Front {
    /// Empty queues and an idle link.
    pub fn new(config: &FrontConfig) -> Front {
        let weights = match &config.protocol {
            Protocol::Sata | Protocol::Ufs => vec![1],
            Protocol::Nvme { weights } if weights.is_empty() => vec![1],
            Protocol::Nvme { weights } => weights.iter().map(|&weight| weight.max(1)).collect(),
        };
        Front {
            queues: vec![VecDeque::new(); weights.len()],
            left: weights[0],
            weights,
            turn: 0,
            exclusive_ops: config.protocol == Protocol::Sata,
            command: config.command.0,
            fetching: None,
            under_way: 0,
            excluding: false,
            exclusive_until: 0,
            waiting: 0,
            rate: config.link_bytes_per_s,
            half_duplex: config.half_duplex,
            link: [0; 2],
        }
    }

    /// A command comes in.
    #[inline]
    pub fn queue(&mut self, tag: u32, request: &BlockRequest) {
        let queue = usize::from(request.queue).min(self.queues.len() - 1);
        self.queues[queue].push_back((tag, request.op));
        self.waiting += 1;
    }

    /// Lets the controller take a command that comes in now without its being queued, where that takes no time and no
    /// other waits or excludes it. Whether it did.
    #[inline]
    pub fn take_at_once(&mut self) -> bool {
        let free = self.command == 0 && self.waiting == 0 && self.queues.len() == 1 && !self.exclusive_ops;
        self.under_way += u32::from(free);
        free
    }

    /// When the controller will know the command that it works on.
    #[inline]
    pub fn fetched_at(&self) -> Option<u64> {
        self.fetching.map(|(at, _)| at)
    }

    /// The command whose fetch is over.
    pub fn take_fetched(&mut self) -> Option<u32> {
        self.fetching.take().map(|(_, tag)| tag)
    }

    /// Lets the controller take the next command, if it is free and one may begin. Returns it where that takes no
    /// time.
    #[inline]
    pub fn fetch(&mut self, now: u64) -> Option<u32> {
        if self.waiting == 0 || self.fetching.is_some() {
            return None;
        }
        let (queue, op) = self.candidate()?;
        if self.exclusive_ops {
            let alone = matches!(op, BlockOp::Flush | BlockOp::Trim);
            if self.excluding || alone && self.under_way > 0 {
                return None;
            }
            self.excluding = alone;
        }
        let (tag, _) = self.queues[queue].pop_front()?;
        self.waiting -= 1;
        self.under_way += 1;
        self.left = self.left.saturating_sub(1);
        if self.command == 0 {
            return Some(tag);
        }
        self.fetching = Some((now + self.command, tag));
        None
    }

    /// The queue to be served next, and its first command.
    #[inline]
    fn candidate(&mut self) -> Option<(usize, BlockOp)> {
        for _ in 0..=self.queues.len() {
            if self.left > 0
                && let Some(&(_, op)) = self.queues[self.turn].front()
            {
                return Some((self.turn, op));
            }
            self.turn = (self.turn + 1) % self.queues.len();
            self.left = self.weights[self.turn];
        }
        None
    }

    /// Of the time from `submitted` to `now`, what went by behind a command that excludes others, and the rest: the
    /// controller's.
    #[inline]
    pub fn waits(&self, submitted: u64, now: u64) -> (u64, u64) {
        let barrier = self.exclusive_until.clamp(submitted, now) - submitted;
        (barrier, now - submitted - barrier)
    }

    /// A command is complete.
    #[inline]
    pub fn completed(&mut self, op: BlockOp, now: u64) {
        self.under_way -= 1;
        if self.excluding && matches!(op, BlockOp::Flush | BlockOp::Trim) {
            self.excluding = false;
            self.exclusive_until = now;
        }
    }

    /// When data that begin to cross the link to the drive now have done so.
    #[inline]
    pub fn link_in(&mut self, now: u64, bytes: u64) -> u64 {
        self.cross(0, now, bytes)
    }

    /// When data that begin to cross the link to the host now have done so.
    #[inline]
    pub fn link_out(&mut self, now: u64, bytes: u64) -> u64 {
        self.cross(if self.half_duplex { 0 } else { 1 }, now, bytes)
    }

    #[inline]
    fn cross(&mut self, direction: usize, now: u64, bytes: u64) -> u64 {
        if self.rate == 0 {
            return now;
        }
        let span = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(self.rate)) as u64;
        let end = self.link[direction].max(now) + span;
        self.link[direction] = end;
        end
    }
}
