//! The closed loop: fio jobs, each of which keeps its depth of requests outstanding.
//!
//! What holds an issue back, as in fio's inline submission, is one of these; a job has one thread, which then does
//! nothing else:
//!
//! - *depth*: until one of its requests is done;
//! - *flush* (`fsync`, `fdatasync`, `end_fsync`): it is issued once the job has nothing outstanding, and nothing else is
//!   until it is done: an asynchronous engine drains before it syncs, and syncs inline;
//! - *think time*: after so many requests the job drains, then pauses;
//! - *rate*: a job ahead of its cap drains, then sleeps until it no longer is. Rates count from the job's start, so that a
//!   slow spell is made up for; a mixed job turns to the direction that lags.
//!
//! The time order of events is: completions first, in the device's order; then wake-ups, in the order of jobs. Jobs that
//! start at one time issue in the order of the file, each up to its depth.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use sim::seam::{BlockDevice, BlockDone, BlockOp, BlockRequest};
use sim::{Ns, Rng, Seed};

use super::port::{Port, Refused, ended, is_survivable};
use super::report::{Ended, JobTotals, Limits, Observer, Report};
use crate::fio::{FioError, Generator, Job, Rate, Sizes, ThinkCount};

const NS_PER_S: u128 = 1_000_000_000;

/// What holds a worker's next issue back, beside its depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    /// Until its job's turn comes.
    NotStarted,
    Open,
    /// Until it has nothing outstanding; then it pauses, sleeps to a time, or flushes.
    DrainToThink,
    DrainToSleep(Ns),
    DrainToFlush(BlockRequest),
    /// Until its wake-up.
    Asleep,
    /// Until its flush is done.
    Flushing,
    /// It issues nothing more.
    Ended,
}

/// A clone of a job.
struct Worker<'a> {
    job: &'a Job,
    index: usize,
    generator: Generator,
    /// Of a plain job, requests drawn and not yet issued: the device is told of them, so that its tables are at hand.
    drawn: VecDeque<BlockRequest>,
    gate: Gate,
    outstanding: u32,
    depth: u32,
    /// No pauses, rates or flushes: issuing needs no look at them.
    plain: bool,
    /// From its group's start to its own.
    delay: Ns,
    starts: Ns,
    counted_from: Ns,
    ends: Ns,
    think_mark: u64,
    issued: u64,
    completed: u64,
    pace: Pace,
}

/// Rates of the three directions.
struct Pace {
    /// Whether any is capped.
    capped: bool,
    next: [Ns; 3],
    bytes: [u64; 3],
    requests: [u64; 3],
    rng: Rng,
}

impl Pace {
    /// Books a request and says when the next of its direction may go.
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
            // As fio: by requests where sizes are listed, by the smallest block's bytes elsewhere.
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

/// What a worker does next.
enum Step {
    Issue(BlockRequest),
    WakeAt(Ns),
    Wait,
}

/// How many requests of a plain job are drawn ahead: enough for memory to answer, few enough to stay in the cache.
const AHEAD: usize = 32;
/// How many are drawn at a time, so that memory answers for all of them together.
const BATCH: usize = 16;

impl Worker<'_> {
    /// The next request of a plain job.
    #[inline]
    fn draw<D: BlockDevice>(&mut self, device: &D) -> Option<BlockRequest> {
        if self.drawn.len() <= AHEAD - BATCH {
            self.draw_batch(device);
        }
        self.drawn.pop_front()
    }

    fn draw_batch<D: BlockDevice>(&mut self, device: &D) {
        let known = self.drawn.len();
        self.drawn.iter().for_each(|request| device.expect_next(request));
        for _ in known..AHEAD {
            let Some(request) = self.generator.next() else { break };
            self.drawn.push_back(request);
        }
        self.drawn.range(known..).for_each(|request| device.expect(request));
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

    /// The next move at `now`, of a worker that is not asleep.
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
                    match self.drawn.pop_front().or_else(|| self.generator.next()) {
                        None => self.gate = Gate::Ended,
                        Some(flush) if flush.op == BlockOp::Flush => self.gate = Gate::DrainToFlush(flush),
                        Some(request) => {
                            self.issued += 1;
                            self.pace.book(self.job, self.starts, &request);
                            return Step::Issue(request);
                        }
                    }
                }
                Gate::NotStarted | Gate::Asleep | Gate::Flushing | Gate::Ended => return Step::Wait,
                _ if self.outstanding > 0 => return Step::Wait,
                Gate::DrainToFlush(flush) => {
                    self.gate = Gate::Flushing;
                    return Step::Issue(flush);
                }
                Gate::DrainToThink => {
                    self.gate = Gate::DrainToSleep(Ns(now.0.saturating_add(self.job.think.0)));
                }
                // The end of the runtime interrupts every sleep.
                Gate::DrainToSleep(at) if at.min(self.ends) > now => {
                    self.gate = Gate::Asleep;
                    return Step::WakeAt(at.min(self.ends));
                }
                Gate::DrainToSleep(_) => self.gate = Gate::Open,
            }
        }
    }

    /// Closes the gate if the next request would come too early for its rate.
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

    /// After an issue or a completion at full depth: whether a pause is due.
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
}

struct Loop<'a, 'd, D: BlockDevice> {
    device: &'d mut D,
    port: Port,
    workers: Vec<Worker<'a>>,
    totals: Vec<JobTotals>,
    wakes: BinaryHeap<Reverse<(Ns, u32)>>,
    /// Workers of the jobs between two stonewalls: those under way are `group.start..group.end`.
    group: std::ops::Range<usize>,
    /// How many of the group have not ended.
    active: usize,
    limits: Limits,
    issued: u64,
    /// Whether a limit ended a job.
    cut: bool,
    last_done: Ns,
}

/// Runs jobs from `start` on until they end, in the order of their file: a job with `stonewall` starts when all before it
/// have ended.
///
/// Each clone draws from streams of its own, so that adding a job leaves the others' requests as they were.
///
/// Errors: a job that does not fit the device.
pub fn closed_loop<D: BlockDevice, O: Observer>(
    device: &mut D,
    jobs: &[Job],
    seed: Seed,
    start: Ns,
    limits: Limits,
    observer: &mut O,
) -> Result<Report, FioError> {
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
                generator: Generator::new(job, clone, device.sectors(), seed)?,
                drawn: VecDeque::with_capacity(AHEAD),
                gate: Gate::NotStarted,
                outstanding: 0,
                depth: job.depth,
                plain: !capped && job.think.0 == 0 && job.fsync == 0 && job.fdatasync == 0 && !job.end_fsync,
                delay: Ns(low.0 + drawn),
                starts: start,
                counted_from: start,
                ends: Ns(u64::MAX),
                think_mark: 0,
                issued: 0,
                completed: 0,
                pace: Pace { capped, next: [start; 3], bytes: [0; 3], requests: [0; 3], rng: stream("pace") },
            });
        }
    }
    let mut run = Loop {
        port: Port::new(device),
        device,
        workers,
        totals: vec![JobTotals::default(); jobs.len()],
        wakes: BinaryHeap::new(),
        group: 0..0,
        active: 0,
        limits,
        issued: 0,
        cut: false,
        last_done: start,
    };
    run.start_group(start);
    let outcome = run.run(observer);
    let ended = match outcome {
        Ok(()) => run.port.settle(run.last_done, if run.cut { Ended::Limit } else { Ended::Done }),
        Err(refused) => {
            let job = run.workers[refused.1.owner as usize].index;
            ended(&refused, job)
        }
    };
    Ok(Report {
        jobs: run.totals,
        from: start,
        to: run.last_done,
        issued: run.issued,
        max_waiting: run.port.max_waiting,
        disordered: 0,
        ended,
    })
}

impl<D: BlockDevice> Loop<'_, '_, D> {
    fn run<O: Observer>(&mut self, observer: &mut O) -> Result<(), Refused> {
        loop {
            let until = self.wakes.peek().map_or(Ns(u64::MAX), |&Reverse((at, _))| at);
            match self.device.next_done(until) {
                Some(done) => self.complete(done, observer)?,
                None => match self.wakes.pop() {
                    Some(Reverse((at, worker))) => self.wake(worker, at)?,
                    None => return Ok(()),
                },
            }
        }
    }

    /// The next jobs up to a stonewall begin.
    fn start_group(&mut self, now: Ns) {
        let start = self.group.end;
        let is_wall = |worker: usize| {
            let of = &self.workers;
            of[worker].job.stonewall && of[worker].index != of[worker - 1].index
        };
        let end = (start + 1..self.workers.len()).find(|&worker| is_wall(worker)).unwrap_or(self.workers.len());
        self.group = start..end.max(start);
        self.active = self.group.len();
        for worker in self.group.clone() {
            let at = Ns(now.0.saturating_add(self.workers[worker].delay.0));
            self.wakes.push(Reverse((at.min(self.limits.until), worker as u32)));
        }
    }

    fn wake(&mut self, worker: u32, now: Ns) -> Result<(), Refused> {
        let it = &mut self.workers[worker as usize];
        if it.gate == Gate::NotStarted {
            it.start(now);
            let totals = &mut self.totals[it.index];
            totals.from = totals.from.min(it.counted_from);
        } else {
            it.gate = Gate::Open;
        }
        self.advance(worker, now)
    }

    #[inline]
    fn complete<O: Observer>(&mut self, done: BlockDone, observer: &mut O) -> Result<(), Refused> {
        let slot = self.port.completed(&done);
        self.port.pass_on(self.device, &done)?;
        let now = done.at;
        self.last_done = now;
        let worker = &mut self.workers[slot.owner as usize];
        let failed = done.result.is_err();
        if let Err(error) = done.result {
            observer.on_error(worker.index, &slot.request, &error);
            if !is_survivable(&error) {
                return Err(Box::new((now, slot, error)));
            }
        }
        let counted = now >= worker.counted_from;
        let span = slot.span(now);
        self.totals[worker.index].book(&slot.request, span, counted, failed);
        observer.on_done(worker.index, &slot.request, span, counted);
        worker.outstanding -= 1;
        // The plain case: one done, one issued, nothing else to look at.
        if worker.plain && worker.gate == Gate::Open && now < worker.ends && self.issued < self.limits.requests {
            if now < self.limits.until
                && let Some(request) = worker.draw(self.device)
            {
                worker.outstanding += 1;
                worker.issued += 1;
                self.issued += 1;
                return self.port.issue(self.device, now, slot.owner, request);
            }
        } else if slot.request.op == BlockOp::Flush {
            worker.gate = Gate::Open;
        } else {
            worker.completed += 1;
            // fio looks at completions when its queue is full.
            if worker.outstanding + 1 >= worker.depth && worker.gate == Gate::Open {
                worker.check_think();
            }
        }
        self.advance(slot.owner, now)
    }

    /// Issues what `worker` may issue at `now`.
    fn advance(&mut self, worker: u32, now: Ns) -> Result<(), Refused> {
        let it = &mut self.workers[worker as usize];
        loop {
            if self.issued >= self.limits.requests || now >= self.limits.until {
                self.cut |= it.gate != Gate::Ended;
                it.gate = Gate::Ended;
            }
            match it.step(now) {
                Step::Issue(request) => {
                    it.outstanding += 1;
                    self.issued += 1;
                    self.port.issue(self.device, now, worker, request)?;
                    // With a full queue, completions are counted when the first is taken from it.
                    let counts = it.outstanding < it.depth || it.job.think_count == ThinkCount::Issue;
                    if counts && request.op != BlockOp::Flush {
                        it.check_think();
                    }
                }
                Step::WakeAt(at) => {
                    self.wakes.push(Reverse((at.min(self.limits.until), worker)));
                    return Ok(());
                }
                Step::Wait => break,
            }
        }
        if it.gate == Gate::Ended && it.outstanding == 0 {
            // An ended worker comes here once: nothing of it is under way any more.
            self.totals[it.index].to = self.totals[it.index].to.max(now.min(it.ends));
            self.active -= 1;
            if self.active == 0 && !self.cut && self.group.end < self.workers.len() {
                self.start_group(now);
            }
        }
        Ok(())
    }
}
