//! Dependency-true replay: a request is issued when everything that was done before it in the recording is done here,
//! plus its think time.
//!
//! A recording shows, for request i, its issue aᵢ and its completion cᵢ = aᵢ + latency. Its user may have waited for any
//! request j with cⱼ ≤ aᵢ, and for no other: these are its *causes* Pᵢ. Here it is issued at
//!
//! ```text
//! rᵢ = max over j in Pᵢ of Rⱼ  +  (aᵢ − max over j in Pᵢ of cⱼ) / speed        Rⱼ: completion here
//! ```
//!
//! with the start of the run, and the first issue, where Pᵢ is empty.
//!
//! **One maximum is enough.** Records come in the order of issue, so aᵢ never falls and the causes only grow: Pᵢ ⊆ Pₖ for
//! i < k. Both maxima are therefore running ones, over all records whose recorded completion the recording's clock has
//! passed. Nothing is kept of a record that is a cause already and done here: it is in both maxima.
//!
//! **One record waits at a time.** The last record read waits until all its causes are done here; no further one is
//! read before, for its causes would include these. When the last cause is done, at `now`, the maximum of the Rⱼ is
//! `now`: completions come in the order of time.
//!
//! **No cycle.** A cause precedes in the recording (aⱼ ≤ cⱼ ≤ aᵢ; of records at one time and without latency, those
//! read before), so the first record in the order of issue that is not done never waits for a later one.
//!
//! **Memory.** What is kept are the records read and not yet both a cause and done. Let i be the first of them. While
//! it is not done here, a record k with aₖ ≥ cᵢ waits; once it is done, it is kept only until a record is read with
//! aₖ ≥ cᵢ. So all records kept were issued, in the recording, within the latency of i, but for one: the window is the
//! number of requests that the recording issued while one request was under way. [`DependencyTrue::window`] bounds it,
//! against recordings whose latencies are nonsense.
//!
//! **Fixpoint.** On the device of the recording, at speed 1, rᵢ = aᵢ: if it holds for all records before i, then Rⱼ = cⱼ
//! for its causes, the maxima are equal, and what is left is aᵢ.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use sim::Ns;
use sim::seam::{BlockDevice, BlockRequest};

use super::open::{Arrival, Clock, Replay, Speed};
use super::port::{Refused, ended};
use super::report::{Ended, Limits, Observer, Report};

/// A million records: some 50 MB.
pub const DEFAULT_WINDOW: usize = 1 << 20;

/// How a recording is replayed by [`dependency_true`].
#[derive(Clone, Copy, Debug)]
pub struct DependencyTrue {
    /// When the first request is issued.
    pub start: Ns,
    /// How fast think time passes. What the device takes is the device's.
    pub speed: Speed,
    /// Requests done earlier than this do not count.
    pub counted_from: Ns,
    /// Where the run ends at the latest.
    pub limits: Limits,
    /// The most records kept.
    pub window: usize,
}

impl DependencyTrue {
    /// From time 0 with recorded think times, all counted.
    pub const PLAIN: DependencyTrue = DependencyTrue {
        start: Ns::ZERO,
        speed: Speed::RECORDED,
        counted_from: Ns::ZERO,
        limits: Limits::NONE,
        window: DEFAULT_WINDOW,
    };
}

/// A record that is not yet both a cause and done.
#[derive(Clone, Copy, Debug)]
struct Kept {
    request: BlockRequest,
    is_cause: bool,
    is_done: bool,
}

/// Replays `records`, which come in the order of their times and bring latencies.
///
/// A record without a latency ends the run with [`Ended::Recording`], as do more than `how.window` records under way.
pub fn dependency_true<D, I, O>(device: &mut D, records: I, how: DependencyTrue, observer: &mut O) -> Report
where
    D: BlockDevice,
    I: IntoIterator,
    I::Item: Into<Arrival>,
    O: Observer,
{
    let mut causes = Causes {
        records: records.into_iter().map(Into::into).fuse().enumerate(),
        clock: Clock::default(),
        kept: Vec::new(),
        unused: Vec::new(),
        recorded: BinaryHeap::new(),
        blocking: 0,
        latest_recorded: Ns::ZERO,
        waiting: None,
        scheduled: BinaryHeap::new(),
        how,
    };
    let mut replay = Replay::new(device, how.start, how.counted_from);
    let ended = match causes.run(&mut replay, observer) {
        Ok(ended) => replay.settle(ended),
        Err(refused) => ended(&refused, 0),
    };
    replay.report(ended)
}

struct Causes<I> {
    records: std::iter::Enumerate<I>,
    clock: Clock,
    kept: Vec<Kept>,
    unused: Vec<u32>,
    /// Recorded completions of kept records that are no causes yet: time, order of reading, index in `kept`.
    recorded: BinaryHeap<Reverse<(Ns, usize, u32)>>,
    /// How many causes are not done here.
    blocking: usize,
    /// The maximum of recorded completions over all causes, since the first record.
    latest_recorded: Ns,
    /// The last record read, if its causes are not done: its think time and index in `kept`.
    waiting: Option<(Ns, usize, u32)>,
    /// Records whose time is known: time, order of reading, index in `kept`.
    scheduled: BinaryHeap<Reverse<(Ns, usize, u32)>>,
    how: DependencyTrue,
}

impl<I: Iterator<Item = Arrival>> Causes<I> {
    fn run<D: BlockDevice, O: Observer>(
        &mut self,
        replay: &mut Replay<'_, D>,
        observer: &mut O,
    ) -> Result<Ended, Refused> {
        let mut ended = self.read(self.how.start, &mut replay.disordered);
        loop {
            let until = self.scheduled.peek().map_or(Ns(u64::MAX), |&Reverse((at, ..))| at);
            if let Some(done) = replay.device.next_done(until) {
                let owner = replay.complete(&done, observer)?;
                let kept = &mut self.kept[owner as usize];
                kept.is_done = true;
                if kept.is_cause {
                    self.unused.push(owner);
                    self.blocking -= 1;
                    if ended.is_none() && self.blocking == 0 {
                        ended = self.read(done.at, &mut replay.disordered);
                    }
                }
            } else if let Some(Reverse((at, _, owner))) = self.scheduled.pop() {
                if at >= self.how.limits.until || replay.issued >= self.how.limits.requests {
                    // What is under way is completed; nothing more is issued or read.
                    self.scheduled.clear();
                    ended = ended.or(Some(Ended::Limit));
                    continue;
                }
                replay.issue(at, owner, self.kept[owner as usize].request)?;
            } else {
                return Ok(ended.unwrap_or(Ended::Done));
            }
        }
    }

    /// Schedules the record that waits, if its causes are done at `now`, and reads on up to the next that must wait.
    /// Returns why the replay ends here, if it does.
    fn read(&mut self, now: Ns, disordered: &mut u64) -> Option<Ended> {
        loop {
            if let Some((think, order, index)) = self.waiting {
                if self.blocking > 0 {
                    return None;
                }
                self.waiting = None;
                let at = Ns(now.0.saturating_add(self.how.speed.scale(think).0));
                self.scheduled.push(Reverse((at, order, index)));
            }
            let (order, record) = self.records.next()?;
            let at = self.clock.since_first(record.at, disordered);
            let Some(latency) = record.latency else {
                return Some(Ended::Recording(format!(
                    "record {}: no latency; dependency-true replay needs the latency of every request",
                    order + 1
                )));
            };
            self.become_causes(at);
            let kept = Kept { request: record.request, is_cause: false, is_done: false };
            let index = match self.unused.pop() {
                Some(index) => {
                    self.kept[index as usize] = kept;
                    index
                }
                None if self.kept.len() < self.how.window => {
                    self.kept.push(kept);
                    self.kept.len() as u32 - 1
                }
                None => {
                    return Some(Ended::Recording(format!(
                        "record {}: more than {} records were issued while one was under way; its latency cannot be right",
                        order + 1,
                        self.how.window
                    )));
                }
            };
            self.recorded.push(Reverse((Ns(at.0.saturating_add(latency.0)), order, index)));
            self.waiting = Some((at - self.latest_recorded, order, index));
        }
    }

    /// Every record that was done at `at` in the recording is a cause of what comes now.
    fn become_causes(&mut self, at: Ns) {
        while let Some(&Reverse((completion, _, index))) = self.recorded.peek() {
            if completion > at {
                break;
            }
            self.recorded.pop();
            self.latest_recorded = completion;
            let kept = &mut self.kept[index as usize];
            kept.is_cause = true;
            if kept.is_done {
                self.unused.push(index);
            } else {
                self.blocking += 1;
            }
        }
    }
}
