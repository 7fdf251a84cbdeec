//! The open loop: a recording's requests at their times, divided by a speed factor, whatever the device does.
//!
//! What the device cannot take waits in the host, without bound: [`Report::max_waiting`] tells how far the device fell
//! behind. Memory is that of the waiting requests.

use std::iter::Fuse;
use std::ops::Range;

use sim::Ns;
use sim::seam::BlockRequest;

use super::{Arrival, Clock, Speed};
use crate::drive::{Load, Next, One, Report, Then, Turn};

/// A recording replayed by the clock. Its records come in the order of their times; one that is behind counts as
/// disordered and is issued with the one before it.
pub struct OpenReplay<I> {
    records: Fuse<I>,
    clock: Clock,
    speed: Speed,
    counted_from: Ns,
    start: Option<Ns>,
    next: Option<(Ns, BlockRequest)>,
}

impl<I: Iterator<Item: Into<Arrival>>> OpenReplay<I> {
    /// At the recorded speed, all counted.
    pub fn new(records: impl IntoIterator<IntoIter = I>) -> OpenReplay<I> {
        OpenReplay {
            records: records.into_iter().fuse(),
            clock: Clock::default(),
            speed: Speed::RECORDED,
            counted_from: Ns::ZERO,
            start: None,
            next: None,
        }
    }

    /// How fast recorded time passes.
    pub fn speed(self, speed: Speed) -> OpenReplay<I> {
        OpenReplay { speed, ..self }
    }

    /// Requests done before `at` do not count.
    pub fn counted_from(self, at: Ns) -> OpenReplay<I> {
        OpenReplay { counted_from: at, ..self }
    }

    fn fetch(&mut self) -> Then {
        self.next = self.records.next().zip(self.start).map(|(record, start)| {
            let Arrival { at, request, .. } = record.into();
            let at = self.speed.scale(self.clock.since_first(at));
            (Ns(start.0.saturating_add(at.0)), request)
        });
        self.next.map_or(Then::End, |(at, _)| Then::At(at))
    }
}

impl<I: Iterator<Item: Into<Arrival>>> Load for OpenReplay<I> {
    type Alarms = One;
    const DRAINS: bool = true;

    fn jobs(&self) -> usize {
        1
    }

    #[inline]
    fn account(&self, _user: u32, now: Ns) -> (usize, bool) {
        (0, now >= self.counted_from)
    }

    fn begin(&mut self, now: Ns) -> Option<Range<u32>> {
        self.start.replace(now).is_none().then_some(0..1)
    }

    #[inline]
    fn next(&mut self, turn: Turn) -> Next {
        let Some((_, request)) = self.next else { return self.fetch().into() };
        if turn.is_closed {
            return Then::Cut.into();
        }
        Next::issue(0, request, self.fetch())
    }

    #[inline]
    fn done(&mut self, _turn: Turn, _request: &BlockRequest, _failed: bool) -> Next {
        Then::Wait.into()
    }

    fn finish<S>(&mut self, report: &mut Report<S>) {
        report.jobs[0].from = report.from.max(self.counted_from);
        report.disordered = self.clock.disordered;
    }
}
