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
//! or the start of the run and the first issue, if Pᵢ is empty.
//!
//! **One maximum is enough.** Records come in the order of issue, so aᵢ never decreases and the causes only grow: Pᵢ ⊆
//! Pₖ for i < k. Both maxima are therefore running ones, over all records whose recorded completion lies before the
//! recording's clock. A record that is a cause and done here need not be kept: it is in both maxima.
//!
//! **One record waits at a time.** The last record read waits until all its causes are done here. No further record is
//! read before, because its causes would include these. When the last cause is done, at `now`, the maximum of the Rⱼ is
//! `now`: completions come in the order of time.
//!
//! **No cycle.** A cause precedes in the recording (aⱼ ≤ cⱼ ≤ aᵢ; of records at one time and without latency, those
//! read before), so the first record in the order of issue that is not done never waits for a later one.
//!
//! **Memory.** Records are kept until they are both a cause and done. Let i be the first record kept. While it is not
//! done here, a record k with aₖ ≥ cᵢ waits; once it is done, it is kept only until a record with aₖ ≥ cᵢ is read. So
//! all records kept, except one, were issued in the recording within the latency of i: the window is the number of
//! requests that the recording issued while one request was outstanding. [`DependencyReplay::window`] limits it for
//! recordings with absurd latencies.
//!
//! **Fixpoint.** On the device of the recording, at speed 1, rᵢ = aᵢ: if it holds for all records before i, then Rⱼ =
//! cⱼ for its causes, the maxima are equal, and aᵢ remains.
//!
//! **Marks.** A mark is a moment of the recording without a request, such as the end of a phase. It moves as a request
//! would: it comes when all that was done before it is done, after the same think time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::iter::{Enumerate, Fuse};
use std::ops::Range;

use sim::Ns;
use sim::seam::BlockRequest;

use super::{Arrival, Clock, Speed};
use crate::drive::{Ended, Load, Next, One, Report, Then, Turn};

/// Default of the most records kept: a million, some 50 MB.
pub const DEFAULT_WINDOW: usize = 1 << 20;

/// A record that is not yet both a cause and done.
#[derive(Clone, Copy, Debug)]
struct Kept {
    request: BlockRequest,
    is_cause: bool,
    is_done: bool,
    counts: bool,
}

/// What the last record or mark read is.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A request: order of reading, index in `kept`.
    Request(usize, u32),
    /// The next mark.
    Mark,
}

/// A recording replayed with its causes. Its records come in the order of their times and must have latencies.
///
/// A record without a latency ends the run with [`Ended::Recording`], and so do more outstanding records than the
/// window holds.
pub struct DependencyReplay<I> {
    records: Enumerate<Fuse<I>>,
    /// The next record, if it was read to see whether a mark comes before it.
    next: Option<(usize, Arrival)>,
    clock: Clock,
    /// Recorded times of the marks that have not moved, the next one last.
    marks: Vec<Ns>,
    /// Times of the others here, in order.
    moved: Vec<Ns>,
    kept: Vec<Kept>,
    unused: Vec<u32>,
    /// Recorded completions of kept records that are not yet causes: time, order of reading, index in `kept`.
    recorded: BinaryHeap<Reverse<(Ns, usize, u32)>>,
    /// Causes that are not done here.
    blocking: usize,
    /// Latest recorded completion of all causes, since the first record.
    latest_recorded: Ns,
    /// The last record or mark read, if its causes are not done, with its think time.
    waiting: Option<(Ns, Step)>,
    /// Records with a known issue time: time, order of reading, index in `kept`.
    scheduled: BinaryHeap<Reverse<(Ns, usize, u32)>>,
    /// Why no more records can be read.
    unreadable: Option<String>,
    begun: bool,
    cut: bool,
    speed: Speed,
    counted_from: Ns,
    counted_if_done_from: Ns,
    window: usize,
}

impl<I: Iterator<Item: Into<Arrival>>> DependencyReplay<I> {
    /// A replay with the recorded think times, in which all requests count.
    pub fn new(records: impl IntoIterator<IntoIter = I>) -> DependencyReplay<I> {
        DependencyReplay {
            records: records.into_iter().fuse().enumerate(),
            next: None,
            clock: Clock::default(),
            marks: Vec::new(),
            moved: Vec::new(),
            kept: Vec::new(),
            unused: Vec::new(),
            recorded: BinaryHeap::new(),
            blocking: 0,
            latest_recorded: Ns::ZERO,
            waiting: None,
            scheduled: BinaryHeap::new(),
            unreadable: None,
            begun: false,
            cut: false,
            speed: Speed::RECORDED,
            counted_from: Ns::ZERO,
            counted_if_done_from: Ns::ZERO,
            window: DEFAULT_WINDOW,
        }
    }

    /// Sets the speed of think time. The device's time is not scaled.
    pub fn speed(self, speed: Speed) -> DependencyReplay<I> {
        DependencyReplay { speed, ..self }
    }

    /// Excludes requests done before `at` from the totals.
    pub fn counted_from(self, at: Ns) -> DependencyReplay<I> {
        DependencyReplay { counted_from: at, ..self }
    }

    /// Excludes requests that were done before `at` in the recording from the totals.
    pub fn counted_if_done_from(self, at: Ns) -> DependencyReplay<I> {
        DependencyReplay { counted_if_done_from: at, ..self }
    }

    /// Starts at the recording's time 0, so that the time before the first record is think time too. `marks` are times of
    /// the recording, ascending; [`moved`](Self::moved) has what becomes of them.
    pub fn from_zero(self, mut marks: Vec<Ns>) -> DependencyReplay<I> {
        marks.reverse();
        DependencyReplay { clock: Clock { first: Some(Ns::ZERO), ..Clock::default() }, marks, ..self }
    }

    /// Times of the marks here, in order; those that were not reached are missing.
    pub fn moved(&self) -> &[Ns] {
        &self.moved
    }

    /// Sets the most records kept.
    pub fn window(self, window: usize) -> DependencyReplay<I> {
        DependencyReplay { window, ..self }
    }

    /// Sleeps until the next record with a known issue time.
    fn sleep(&self) -> Then {
        self.scheduled.peek().map_or(Then::Wait, |&Reverse((at, ..))| Then::At(at))
    }

    /// Schedules the waiting record if its causes are done at `now`, and reads on up to the next that must wait.
    fn read(&mut self, now: Ns) {
        while self.unreadable.is_none() {
            if let Some((think, step)) = self.waiting {
                if self.blocking > 0 {
                    return;
                }
                self.waiting = None;
                let at = Ns(now.0.saturating_add(self.speed.scale(think).0));
                match step {
                    Step::Request(order, index) => self.scheduled.push(Reverse((at, order, index))),
                    Step::Mark => self.moved.push(at),
                }
            }
            if self.mark_is_next() {
                let mark = self.marks.pop().unwrap_or_default();
                self.become_causes(mark);
                self.waiting = Some((Ns(mark.0.saturating_sub(self.latest_recorded.0)), Step::Mark));
                continue;
            }
            let Some((order, record)) = self.next_record() else { return };
            let at = self.clock.since_first(record.at);
            let Some(latency) = record.latency else {
                self.unreadable = Some(format!(
                    "record {}: no latency; dependency-true replay needs the latency of every request",
                    order + 1
                ));
                return;
            };
            self.become_causes(at);
            let done = Ns(at.0.saturating_add(latency.0));
            let counts = done >= self.counted_if_done_from;
            let kept = Kept { request: record.request, is_cause: false, is_done: false, counts };
            let index = match self.unused.pop() {
                Some(index) => {
                    self.kept[index as usize] = kept;
                    index
                }
                None if self.kept.len() < self.window => {
                    self.kept.push(kept);
                    self.kept.len() as u32 - 1
                }
                None => {
                    self.unreadable = Some(format!(
                        "record {}: more than {} records were issued while one was under way; its latency cannot be right",
                        order + 1,
                        self.window
                    ));
                    return;
                }
            };
            self.recorded.push(Reverse((done, order, index)));
            self.waiting = Some((at - self.latest_recorded, Step::Request(order, index)));
        }
    }

    fn next_record(&mut self) -> Option<(usize, Arrival)> {
        self.next.take().or_else(|| self.records.next().map(|(order, record)| (order, record.into())))
    }

    /// Whether the next mark is not after the next record.
    fn mark_is_next(&mut self) -> bool {
        let Some(&mark) = self.marks.last() else { return false };
        self.next = self.next_record();
        self.next.is_none_or(|(_, record)| mark <= record.at)
    }

    /// Makes causes of all records that were done by `at` in the recording.
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

impl<I: Iterator<Item: Into<Arrival>>> Load for DependencyReplay<I> {
    type Alarms = One;

    fn jobs(&self) -> usize {
        1
    }

    #[inline]
    fn account(&self, user: u32, now: Ns) -> (usize, bool) {
        (0, now >= self.counted_from && self.kept[user as usize].counts)
    }

    fn begin(&mut self, now: Ns) -> Option<Range<u32>> {
        if std::mem::replace(&mut self.begun, true) {
            return None;
        }
        self.read(now);
        Some(0..1)
    }

    #[inline(always)]
    fn next(&mut self, turn: Turn) -> Next {
        let Some(&Reverse((at, _, index))) = self.scheduled.peek() else { return Then::Wait.into() };
        if at > turn.now {
            return Then::At(at).into();
        }
        if turn.is_closed {
            self.scheduled.clear();
            self.cut = true;
            return Then::Cut.into();
        }
        self.scheduled.pop();
        Next::issue(index, self.kept[index as usize].request, self.sleep())
    }

    #[inline(always)]
    fn done(&mut self, turn: Turn, _request: &BlockRequest, _failed: bool) -> Next {
        let kept = &mut self.kept[turn.user as usize];
        kept.is_done = true;
        if kept.is_cause {
            self.unused.push(turn.user);
            self.blocking -= 1;
            if self.blocking == 0 && !self.cut {
                self.read(turn.now);
                return self.sleep().into();
            }
        }
        Then::Wait.into()
    }

    fn finish<S>(&mut self, report: &mut Report<S>) {
        report.jobs[0].from = report.from.max(self.counted_from);
        report.disordered = self.clock.disordered;
        if let Some(why) = self.unreadable.take()
            && matches!(report.ended, Ended::Done | Ended::Limit)
        {
            report.ended = Ended::Recording(why);
        }
    }
}
