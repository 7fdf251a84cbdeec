//! The front end against the rules of its protocols: which command starts next, which wait, and how long the link takes.
//!
//! SATA (ACS-3, NCQ): FLUSH CACHE and DATA SET MANAGEMENT are non-queued: they start when no command is in progress, and
//! none starts before they complete. NVMe (weighted round robin): a queue gives up to its weight of commands in its turn,
//! and an empty queue passes. UFS: one queue in order.

use std::collections::{BTreeMap, VecDeque};

use sim::seam::{BlockOp, BlockRequest};
use sim::{Ns, Rng, Seed};
use ssd::device::Front;
use ssd::{FrontConfig, Protocol, TrimmedReads};

fn config(protocol: Protocol, command: u64) -> FrontConfig {
    FrontConfig {
        protocol,
        depth: 32,
        command: Ns(command),
        read_latency: Ns::ZERO,
        write_latency: Ns::ZERO,
        link_bytes_per_s: 0,
        half_duplex: false,
        write_cache: false,
        trimmed_reads: TrimmedReads::Zeroes,
    }
}

fn is_exclusive(op: BlockOp) -> bool {
    matches!(op, BlockOp::Flush | BlockOp::Trim)
}

/// Queues, and whose turn it is: a list of turns, one entry for each command that may be fetched in them.
struct Model {
    sata: bool,
    weights: Vec<u32>,
    queues: Vec<VecDeque<(u32, BlockOp)>>,
    turns: VecDeque<usize>,
    in_progress: BTreeMap<u32, BlockOp>,
    /// When the last exclusive command completed.
    exclusive_until: u64,
}

impl Model {
    fn new(protocol: &Protocol) -> Model {
        let weights = match protocol {
            Protocol::Nvme { weights } => weights.clone(),
            _ => vec![1],
        };
        Model {
            sata: *protocol == Protocol::Sata,
            queues: vec![VecDeque::new(); weights.len()],
            weights,
            turns: VecDeque::new(),
            in_progress: BTreeMap::new(),
            exclusive_until: 0,
        }
    }

    fn waiting(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }

    fn may_start(&self, op: BlockOp) -> bool {
        let excluded = self.in_progress.values().any(|&other| is_exclusive(other));
        !self.sata || !excluded && (!is_exclusive(op) || self.in_progress.is_empty())
    }

    /// The next command, if it may start now.
    fn fetch(&mut self) -> Option<u32> {
        if self.waiting() == 0 {
            return None;
        }
        loop {
            match self.turns.front() {
                // All queues' turns, again and again.
                None => {
                    for (queue, &weight) in self.weights.iter().enumerate() {
                        self.turns.extend(std::iter::repeat_n(queue, weight as usize));
                    }
                }
                Some(&queue) if self.queues[queue].is_empty() => {
                    // What is left of its turn is lost.
                    while self.turns.front() == Some(&queue) {
                        self.turns.pop_front();
                    }
                    // A queue alone has no turn but its own.
                }
                Some(&queue) => {
                    let (tag, op) = self.queues[queue][0];
                    if !self.may_start(op) {
                        return None;
                    }
                    self.queues[queue].pop_front();
                    self.turns.pop_front();
                    self.in_progress.insert(tag, op);
                    return Some(tag);
                }
            }
        }
    }
}

fn request(rng: &mut Rng) -> BlockRequest {
    let mut request = match rng.below(8) {
        0 => BlockRequest::flush(),
        1 => BlockRequest::trim(0, 8),
        2..=4 => BlockRequest::read(0, 8),
        _ => BlockRequest::write(0, 8),
    };
    // More queues of the host than the drive has: they share.
    request.queue = rng.below(9) as u16;
    request
}

#[test]
fn commands_start_in_the_order_of_their_protocol() {
    let (mut at_once, mut excluded) = (0, 0);
    for seed in 0..300 {
        let mut rng = Seed(seed).stream("front");
        let protocol = match rng.below(3) {
            0 => Protocol::Sata,
            1 => Protocol::Ufs,
            _ => Protocol::Nvme { weights: (0..1 + rng.below(4)).map(|_| 1 + rng.below(3) as u32).collect() },
        };
        let command = [0, 7][rng.below(2) as usize];
        let mut front = Front::new(&config(protocol.clone(), command));
        let mut model = Model::new(&protocol);
        let (mut now, mut tag) = (0, 0);
        let mut fetching: Option<(u64, u32)> = None;
        for _ in 0..400 {
            let place = format!("seed {seed}, {protocol:?}, command {command}, at {now}");
            match rng.below(4) {
                0 | 1 => {
                    let request = request(&mut rng);
                    let queue = usize::from(request.queue) % model.queues.len();
                    let free = command == 0 && model.waiting() == 0 && model.queues.len() == 1 && !model.sata;
                    // A caller may always queue instead.
                    if rng.chance(0.5) {
                        assert_eq!(front.take_at_once(), free, "{place}");
                        if free {
                            model.in_progress.insert(tag, request.op);
                            tag += 1;
                            at_once += 1;
                            continue;
                        }
                    }
                    front.queue(tag, &request);
                    model.queues[queue].push_back((tag, request.op));
                    tag += 1;
                }
                2 => {
                    now += rng.below(6);
                    let done = model.in_progress.iter().nth(rng.below(4) as usize).map(|(&tag, &op)| (tag, op));
                    if let Some((tag, op)) = done.filter(|&(tag, _)| fetching.is_none_or(|other| other.1 != tag)) {
                        front.completed(op, now);
                        model.in_progress.remove(&tag);
                        if model.sata && is_exclusive(op) {
                            model.exclusive_until = now;
                        }
                    }
                }
                _ => {
                    now += rng.below(6);
                    if let Some((at, tag)) = fetching.take_if(|fetching| fetching.0 <= now) {
                        assert_eq!((front.fetched_at(), front.take_fetched()), (Some(at), Some(tag)), "{place}");
                    }
                }
            }
            // The controller fetches one command at a time.
            while fetching.is_none() {
                let expected = model.fetch();
                excluded += u32::from(expected.is_none() && model.waiting() > 0);
                let found = front.fetch(now);
                if command == 0 {
                    assert_eq!(found, expected, "{place}");
                } else {
                    assert_eq!(found, None, "{place}");
                    fetching = expected.map(|tag| (now + command, tag));
                }
                assert_eq!(front.fetched_at(), fetching.map(|(at, _)| at), "{place}");
                if expected.is_none() {
                    break;
                }
            }
            assert_eq!(front.fetched_at(), fetching.map(|(at, _)| at), "{place}");
            if fetching.is_some() {
                assert_eq!(front.fetch(now), None, "{place}");
            }
            // The wait of a command that was submitted some time ago.
            let submitted = now - rng.below(20).min(now);
            let barrier = model.exclusive_until.max(submitted).min(now) - submitted;
            assert_eq!(front.waits(submitted, now), (barrier, now - submitted - barrier), "{place}");
        }
    }
    assert!(at_once > 500 && excluded > 500, "{at_once} at once, {excluded} had to wait");
}

#[test]
fn a_drive_without_weights_or_with_a_weight_of_zero_serves_every_queue() {
    for (weights, expected) in [(vec![], [0, 1, 2, 3]), (vec![0, 0], [0, 2, 1, 3]), (vec![2, 0], [0, 1, 2, 3])] {
        let mut front = Front::new(&config(Protocol::Nvme { weights: weights.clone() }, 0));
        for (tag, queue) in [(0, 0), (1, 0), (2, 1), (3, 1)] {
            front.queue(tag, &BlockRequest { queue, ..BlockRequest::read(0, 8) });
        }
        let order: Vec<Option<u32>> = (0..5).map(|_| front.fetch(0)).collect();
        assert_eq!(order, [&expected.map(Some)[..], &[None]].concat(), "{weights:?}");
    }
}

/// A transfer of n bytes at r bytes a second takes n / r seconds, rounded up to a nanosecond.
#[test]
fn transfers_follow_each_other_on_the_link() {
    let mut rng = Seed(1).stream("link");
    for half_duplex in [false, true] {
        for rate in [0, 1, 600_000_000, 3_000_000_001] {
            let mut front =
                Front::new(&FrontConfig { link_bytes_per_s: rate, half_duplex, ..config(Protocol::Ufs, 0) });
            let (mut free, mut now) = ([0u64; 2], 0);
            for _ in 0..200 {
                now += rng.below(2_000);
                let (bytes, out) = (512 * rng.below(9), rng.chance(0.5));
                let direction = usize::from(out && !half_duplex);
                let span = if rate == 0 { 0 } else { (bytes * 1_000_000_000).div_ceil(rate) };
                let end = if rate == 0 { now } else { free[direction].max(now) + span };
                free[direction] = end;
                let found = if out { front.link_out(now, bytes) } else { front.link_in(now, bytes) };
                assert_eq!(found, end, "{bytes} bytes at {now}, out {out}, half duplex {half_duplex}, {rate}");
            }
        }
    }
}
