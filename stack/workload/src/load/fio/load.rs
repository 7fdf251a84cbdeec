//! fio jobs as a load: a closed loop, in which each clone of a job keeps its depth of requests outstanding.
//!
//! As in fio's inline submission, an issue can be held back for one of these reasons. A job has one thread, which does
//! nothing else meanwhile:
//!
//! - *depth*: until one of its requests is done;
//! - *flush* (`fsync`, `fdatasync`, `end_fsync`): it is issued once the job has nothing outstanding, and nothing else
//!   is issued until it is done: an asynchronous engine drains before it syncs, and syncs inline;
//! - *think time*: after `thinktime_blocks` requests the job drains, then pauses;
//! - *rate*: a job ahead of its rate limit drains, then sleeps until it no longer is. Rates count from the job's start,
//!   so a slow period is made up for; a mixed job switches to the direction that lags.
//!
//! A group of users is the clones of the jobs between two stonewalls. Alarms of the same time go off in the order of
//! jobs, so jobs that start together issue in the order of the file, each up to its depth.

use std::collections::VecDeque;
use std::ops::Range;

use sim::seam::{BlockOp, BlockRequest};
use sim::{Ns, Rng, Seed};

use super::{FioError, Generator, Job, Rate, Sizes, ThinkCount};
use crate::drive::{ByUser, Load, Next, Report, Soon, Then, Turn};

const NS_PER_S: u128 = 1_000_000_000;

/// What holds back the next issue of a clone, beside its depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    /// Until its group begins.
    NotStarted,
    /// Until its start delay has passed.
    Delayed,
    Open,
    /// Until it has nothing outstanding; then it pauses, sleeps until a time, or flushes.
    DrainToThink,
    DrainToSleep(Ns),
    DrainToFlush(BlockRequest),
    /// Until its alarm.
    Asleep,
    /// Until its flush is done.
    Flushing,
    /// It issues no more requests.
    Ended,
}

/// A clone of a job: a user of the load.
struct Worker<'a> {
    job: &'a Job,
    /// Index of its job in the file.
    index: usize,
    generator: Generator,
    /// Requests of a plain job that were drawn and announced to the device, but not yet issued.
    drawn: VecDeque<BlockRequest>,
    gate: Gate,
    outstanding: u32,
    depth: u32,
    /// No pauses, rates or flushes, so issuing need not check for them.
    plain: bool,
    /// Delay from the start of its group to its own.
    delay: Ns,
    starts: Ns,
    counted_from: Ns,
    /// End of its runtime.
    ends: Ns,
    /// When all its requests were done.
    ended: Option<Ns>,
    /// Whether a limit of the run ended it.
    cut: bool,
    think_mark: u64,
    issued: u64,
    completed: u64,
    pace: Pace,
}

/// Rate limits of the three directions.
struct Pace {
    /// Whether any direction has a limit.
    capped: bool,
    next: [Ns; 3],
    bytes: [u64; 3],
    requests: [u64; 3],
    rng: Rng,
}

impl Pace {
    /// Counts a request and computes when the next of its direction may be issued.
    fn book(&mut self, job: &Job, starts: Ns, request: &BlockRequest) {
        let Some(at) = direction(request.op) else { return };
        let Some(rate) = job.rate[at] else { return };
        self.bytes[at] += request.bytes();
        self.requests[at] += 1;
        let block = job.sizes[at].min();
        let split = matches!(job.sizes[at], Sizes::Split(_));
        let span = |amount: u64, a_second: u64| {
            let ns = u128::from(amount) * NS_PER_S / u128::from(a_second.max(1));
            u64::try_from(ns).unwrap_or(u64::MAX)
        };
        self.next[at] = match rate {
            _ if job.rate_poisson => {
                let mean = match rate {
                    Rate::Bytes(cap) => span(block, cap),
                    Rate::Requests(cap) => span(1, cap),
                };
                let gap = -libm::log(1.0 - self.rng.unit()) * mean as f64;
                Ns(self.next[at].max(starts).0.saturating_add(gap as u64))
            }
            Rate::Bytes(cap) => Ns(starts.0.saturating_add(span(self.bytes[at], cap))),
            // As fio: by requests if sizes are listed, else by the bytes of the smallest block.
            Rate::Requests(cap) if split => Ns(starts.0.saturating_add(span(self.requests[at], cap))),
            Rate::Requests(cap) => Ns(starts.0.saturating_add(span(self.bytes[at], cap.saturating_mul(block)))),
        };
    }
}

fn direction(op: BlockOp) -> Option<usize> {
    match op {
        BlockOp::Read => Some(0),
        BlockOp::Write => Some(1),
        BlockOp::Trim => Some(2),
        BlockOp::Flush => None,
    }
}

/// Next move of a clone.
enum Step {
    Issue(BlockRequest),
    WakeAt(Ns),
    Wait,
}

/// Requests of a plain job that are drawn ahead: enough to hide memory latency, few enough to stay in the cache.
const AHEAD: usize = 32;
/// Requests drawn at a time, so that their cache misses overlap.
const BATCH: usize = 16;

impl Worker<'_> {
    /// Draws the next request.
    fn draw(&mut self) -> Option<BlockRequest> {
        self.drawn.pop_front().or_else(|| self.generator.next())
    }

    #[inline(never)]
    fn draw_ahead(&mut self, mut announce: impl FnMut(Soon, &BlockRequest)) {
        let known = self.drawn.len();
        self.drawn.iter().for_each(|request| announce(Soon::Next, request));
        for _ in known..AHEAD {
            let Some(request) = self.generator.next() else { break };
            self.drawn.push_back(request);
        }
        self.drawn.range(known..).for_each(|request| announce(Soon::Ahead, request));
    }

    fn start(&mut self, at: Ns) {
        self.gate = Gate::Open;
        self.starts = at;
        self.counted_from = Ns(at.0.saturating_add(self.job.ramp.0));
        self.pace.next = [at; 3];
        if let Some(runtime) = self.job.runtime {
            self.ends = Ns(self.counted_from.0.saturating_add(runtime.0));
        }
    }

    fn can_issue(&self) -> bool {
        self.outstanding < self.depth
    }

    /// The next move at `now` of a clone that is not asleep.
    fn step(&mut self, now: Ns) -> Step {
        loop {
            match self.gate {
                Gate::Open => {
                    if !self.can_issue() {
                        return Step::Wait;
                    }
                    if now >= self.ends {
                        self.generator.stop();
                        self.drawn.clear();
                    }
                    if self.pace.capped && self.is_ahead_of_rate(now) {
                        continue;
                    }
                    match self.draw() {
                        None => self.gate = Gate::Ended,
                        Some(flush) if flush.op == BlockOp::Flush => self.gate = Gate::DrainToFlush(flush),
                        Some(request) => {
                            self.issued += 1;
                            self.pace.book(self.job, self.starts, &request);
                            return Step::Issue(request);
                        }
                    }
                }
                Gate::NotStarted | Gate::Delayed | Gate::Asleep | Gate::Flushing | Gate::Ended => {
                    return Step::Wait;
                }
                _ if self.outstanding > 0 => return Step::Wait,
                Gate::DrainToFlush(flush) => {
                    self.gate = Gate::Flushing;
                    return Step::Issue(flush);
                }
                Gate::DrainToThink => {
                    self.gate = Gate::DrainToSleep(Ns(now.0.saturating_add(self.job.think.0)));
                }
                // The end of the runtime interrupts any sleep.
                Gate::DrainToSleep(at) if at.min(self.ends) > now => {
                    self.gate = Gate::Asleep;
                    return Step::WakeAt(at.min(self.ends));
                }
                Gate::DrainToSleep(_) => self.gate = Gate::Open,
            }
        }
    }

    /// Closes the gate if the next request would exceed its rate limit.
    fn is_ahead_of_rate(&mut self, now: Ns) -> bool {
        let Some(at) = self.generator.next_op().and_then(direction) else { return false };
        if self.pace.next[at] <= now || now >= self.ends {
            return false;
        }
        let mut wake = self.pace.next[at];
        if self.generator.mixes_both() {
            let other = self.pace.next[1 - at];
            if other < wake {
                self.generator.switch_direction();
                wake = other;
            }
        }
        if wake > now {
            self.gate = Gate::DrainToSleep(wake);
        }
        wake > now
    }

    /// Closes the gate if a pause is due. Called after an issue, or a completion at full depth.
    fn check_think(&mut self) {
        let count = match self.job.think_count {
            ThinkCount::Issue => self.issued,
            ThinkCount::Complete => self.completed,
        };
        if self.job.think.0 > 0 && count >= self.think_mark.saturating_add(self.job.think_blocks) {
            self.think_mark = count;
            if self.gate == Gate::Open {
                self.gate = Gate::DrainToThink;
            }
        }
    }

    /// Issues if allowed, else waits.
    fn advance(&mut self, turn: Turn) -> Next {
        if turn.is_closed {
            self.cut |= self.gate != Gate::Ended;
            self.gate = Gate::Ended;
        }
        match self.step(turn.now) {
            Step::Issue(request) => {
                self.outstanding += 1;
                // With a full queue, fio counts completions when it takes the first from the queue.
                let counts = self.outstanding < self.depth || self.job.think_count == ThinkCount::Issue;
                if counts && request.op != BlockOp::Flush {
                    self.check_think();
                }
                Next::issue(turn.user, request, Then::Again)
            }
            Step::WakeAt(at) => Then::At(at.min(turn.until)).into(),
            Step::Wait if self.gate == Gate::Ended && self.outstanding == 0 => {
                self.ended = Some(turn.now);
                if self.cut { Then::Cut } else { Then::End }.into()
            }
            Step::Wait => Then::Wait.into(),
        }
    }
}

/// The jobs of a file. A job with `stonewall` starts when all before it have ended.
pub struct FioLoad<'a> {
    workers: Vec<Worker<'a>>,
    jobs: usize,
    /// The clones between the last two stonewalls.
    group: Range<usize>,
}

impl<'a> FioLoad<'a> {
    /// The load for a device of `sectors` sectors. Each clone draws from its own streams, so adding a job does not
    /// change the requests of the others.
    /// Errors: a job that does not fit the device.
    pub fn new(jobs: &'a [Job], sectors: u64, seed: Seed) -> Result<FioLoad<'a>, FioError> {
        let mut workers = Vec::new();
        for (index, job) in jobs.iter().enumerate() {
            for clone in 0..job.numjobs {
                let stream = |what| seed.stream(&format!("fio/{}#{}/{clone}/{what}", job.name, job.twin));
                let (low, high) = job.start_delay;
                let drawn = if high > low { stream("start").below(high.0 - low.0 + 1) } else { 0 };
                let capped = job.rate.iter().any(Option::is_some);
                workers.push(Worker {
                    job,
                    index,
                    generator: Generator::new(job, clone, sectors, seed)?,
                    drawn: VecDeque::with_capacity(AHEAD),
                    gate: Gate::NotStarted,
                    outstanding: 0,
                    depth: job.depth,
                    plain: !capped && job.think.0 == 0 && job.fsync == 0 && job.fdatasync == 0 && !job.end_fsync,
                    delay: Ns(low.0 + drawn),
                    starts: Ns::ZERO,
                    counted_from: Ns::ZERO,
                    ends: Ns(u64::MAX),
                    ended: None,
                    cut: false,
                    think_mark: 0,
                    issued: 0,
                    completed: 0,
                    pace: Pace { capped, next: [Ns::ZERO; 3], bytes: [0; 3], requests: [0; 3], rng: stream("pace") },
                });
            }
        }
        Ok(FioLoad { workers, jobs: jobs.len(), group: 0..0 })
    }
}

impl Load for FioLoad<'_> {
    type Alarms = ByUser;

    fn jobs(&self) -> usize {
        self.jobs
    }

    #[inline(always)]
    fn account(&self, user: u32, now: Ns) -> (usize, bool) {
        let worker = &self.workers[user as usize];
        (worker.index, now >= worker.counted_from)
    }

    fn begin(&mut self, _now: Ns) -> Option<Range<u32>> {
        let (start, of) = (self.group.end, &self.workers);
        if start >= of.len() {
            return None;
        }
        let is_wall = |at: &usize| of[*at].job.stonewall && of[*at].index != of[*at - 1].index;
        self.group = start..(start + 1..of.len()).find(is_wall).unwrap_or(of.len());
        Some(self.group.start as u32..self.group.end as u32)
    }

    #[inline(never)]
    fn next(&mut self, turn: Turn) -> Next {
        let worker = &mut self.workers[turn.user as usize];
        match worker.gate {
            Gate::NotStarted => {
                worker.gate = Gate::Delayed;
                let at = Ns(turn.now.0.saturating_add(worker.delay.0));
                return Then::At(at.min(turn.until)).into();
            }
            Gate::Delayed => worker.start(turn.now),
            Gate::Asleep => worker.gate = Gate::Open,
            _ => {}
        }
        worker.advance(turn)
    }

    #[inline(always)]
    fn done(&mut self, turn: Turn, request: &BlockRequest, _failed: bool) -> Next {
        let worker = &mut self.workers[turn.user as usize];
        worker.outstanding -= 1;
        // The plain case: one done, one issued, nothing else to check.
        if worker.plain && worker.gate == Gate::Open && turn.now < worker.ends && !turn.is_closed {
            if let Some(request) = worker.drawn.pop_front() {
                worker.outstanding += 1;
                worker.issued += 1;
                return Next::issue(turn.user, request, Then::Wait);
            }
        } else if request.op == BlockOp::Flush {
            worker.gate = Gate::Open;
        } else {
            worker.completed += 1;
            // fio looks at completions when its queue is full.
            if worker.outstanding + 1 >= worker.depth && worker.gate == Gate::Open {
                worker.check_think();
            }
        }
        // Take a separate turn, so that this rare case does not slow down the plain one.
        Then::Again.into()
    }

    #[inline(always)]
    fn foresee(&mut self, user: u32, announce: impl FnMut(Soon, &BlockRequest)) {
        let worker = &mut self.workers[user as usize];
        if worker.plain && worker.drawn.len() <= AHEAD - BATCH {
            worker.draw_ahead(announce);
        }
    }

    fn finish<S>(&mut self, report: &mut Report<S>) {
        for worker in &self.workers {
            let job = &mut report.jobs[worker.index];
            if !matches!(worker.gate, Gate::NotStarted | Gate::Delayed) {
                job.from = job.from.min(worker.counted_from);
            }
            if let Some(at) = worker.ended {
                job.to = job.to.max(at.min(worker.ends));
            }
        }
    }
}
