//! Front end of a drive: the link, the command queues, which commands exclude others, and the ATA, UFS and HPB formats.
//!
//! SATA has one queue of up to 32 commands (NCQ). FLUSH CACHE and DATA SET MANAGEMENT (TRIM) are non-queued: they wait
//! until the queue is empty, and no command starts before they complete. NVMe has several submission queues; all
//! commands are queued, and the controller fetches from the queues by round robin, weighted if they have weights. UFS
//! has one queue of 32 and queues SYNCHRONIZE CACHE and UNMAP like all other commands. Sources: ACS-3 and SATA 3.x,
//! NCQ; NVMe base specification, command arbitration.
//!
//! Knows commands and their order. Does not know pages.

pub mod ata;
pub mod hpb;
pub mod ufs;

use std::collections::VecDeque;

use sim::Ns;
use sim::seam::{BlockOp, BlockRequest};

/// Storage protocol: which queues there are and which commands are exclusive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// One queue; flush and trim are non-queued.
    Sata,
    /// One queue of up to 32 commands, which also takes flush and trim.
    Ufs,
    /// Several submission queues, served by weighted round robin.
    Nvme {
        /// One weight per submission queue: the number of commands fetched in its turn. All 1 is plain round robin.
        weights: Vec<u32>,
    },
}

/// Data that reads return for sectors trimmed and not written since. Sectors never written always read as zeroes.
/// Source: ACS-3, DATA SET MANAGEMENT: IDENTIFY word 69, bits 14 (DRAT) and 5 (RZAT).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrimmedReads {
    /// Zeroes (DRAT and RZAT set).
    #[default]
    Zeroes,
    /// The same non-zero data at each read (only DRAT set): [`TRIMMED_BYTE`] throughout.
    Deterministic,
    /// Data that may differ between reads (neither bit set): the old data until the cells are erased, then zeroes.
    Undefined,
}

/// Value of every byte of a trimmed sector under [`TrimmedReads::Deterministic`]: that of erased cells.
pub const TRIMMED_BYTE: u8 = 0xff;

impl TrimmedReads {
    /// All variants.
    pub const ALL: [TrimmedReads; 3] = [TrimmedReads::Zeroes, TrimmedReads::Deterministic, TrimmedReads::Undefined];

    /// Name of the variant in experiments.
    pub const fn name(self) -> &'static str {
        match self {
            TrimmedReads::Zeroes => "zeroes",
            TrimmedReads::Deterministic => "deterministic",
            TrimmedReads::Undefined => "undefined",
        }
    }

    /// The variant with this name.
    pub fn by_name(name: &str) -> Option<TrimmedReads> {
        TrimmedReads::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Configuration of a drive's front end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrontConfig {
    /// Storage protocol.
    pub protocol: Protocol,
    /// Queue depth: up to 32 with NCQ, 1 without.
    pub depth: u32,
    /// Time that the controller spends on each command; it handles one at a time.
    pub command: Ns,
    /// Firmware latency of each read. It is pipelined: the controller goes on with other commands meanwhile.
    pub read_latency: Ns,
    /// Firmware latency of each write, flush and trim, pipelined as well. Flushes and trims do not overtake writes.
    pub write_latency: Ns,
    /// Payload rate of the link in bytes per second; 0: transfers take no time.
    pub link_bytes_per_s: u64,
    /// Whether both directions share the link, as on SATA.
    pub half_duplex: bool,
    /// Whether a write completes once its data are in the drive's memory (volatile write cache).
    pub write_cache: bool,
    /// Data that reads of trimmed sectors return.
    pub trimmed_reads: TrimmedReads,
}

/// Command queues, controller and link of a drive.
#[derive(Clone, Debug)]
pub struct Front {
    queues: Vec<VecDeque<(u32, BlockOp)>>,
    weights: Vec<u32>,
    /// Queue that is being served; `left` is how many more commands may be fetched in its turn.
    turn: usize,
    left: u32,
    exclusive_ops: bool,
    command: u64,
    /// The command that the controller is fetching: when the fetch ends, and the command's tag.
    fetching: Option<(u64, u32)>,
    /// Commands fetched and not completed; `excluding` is set while one of them excludes all others.
    under_way: u32,
    excluding: bool,
    /// When the last exclusive command completed.
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

    /// Appends a command to its submission queue; queues of the host beyond the drive's share these in turn.
    #[inline]
    pub fn queue(&mut self, tag: u32, request: &BlockRequest) {
        let queue = match self.queues.len() {
            1 => 0,
            queues => usize::from(request.queue) % queues,
        };
        self.queues[queue].push_back((tag, request.op));
        self.waiting += 1;
    }

    /// Fetches a new command without queueing it, if fetching takes no time, there is a single queue in which no
    /// command waits, and no command is exclusive. Returns whether it was fetched.
    #[inline]
    pub fn take_at_once(&mut self) -> bool {
        let free = self.command == 0 && self.waiting == 0 && self.queues.len() == 1 && !self.exclusive_ops;
        self.under_way += u32::from(free);
        free
    }

    /// When the fetch in progress ends, if there is one.
    #[inline]
    pub fn fetched_at(&self) -> Option<u64> {
        self.fetching.map(|(at, _)| at)
    }

    /// Ends the fetch in progress and returns the command's tag.
    pub fn take_fetched(&mut self) -> Option<u32> {
        self.fetching.take().map(|(_, tag)| tag)
    }

    /// Fetches the next command, if the controller is free and the command may start. If that takes no time, returns
    /// its tag.
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

    /// The next queue to serve, and the operation of its first command.
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

    /// Splits the time from `submitted` to `now` into the wait behind an exclusive command and the controller's time.
    #[inline]
    pub fn waits(&self, submitted: u64, now: u64) -> (u64, u64) {
        let barrier = self.exclusive_until.clamp(submitted, now) - submitted;
        (barrier, now - submitted - barrier)
    }

    /// Records the completion of a command.
    #[inline]
    pub fn completed(&mut self, op: BlockOp, now: u64) {
        self.under_way -= 1;
        if self.excluding && matches!(op, BlockOp::Flush | BlockOp::Trim) {
            self.excluding = false;
            self.exclusive_until = now;
        }
    }

    /// Occupies the link with a transfer to the drive, starting at `now` or when the link is free. Returns its end.
    #[inline]
    pub fn link_in(&mut self, now: u64, bytes: u64) -> u64 {
        self.cross(0, now, bytes)
    }

    /// Occupies the link with a transfer to the host, starting at `now` or when the link is free. Returns its end.
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
