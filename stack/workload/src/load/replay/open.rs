//! The open loop: a recording's requests at their times, divided by a speed, whatever the device does.
//!
//! Requests that the device cannot accept wait in the host, without limit; [`Report::max_waiting`] shows how far the
//! device fell behind. Memory is that of the waiting requests.

use std::ops::Range;

use sim::Ns;
use sim::seam::BlockRequest;

use super::{Arrival, Clock, Speed};
use crate::drive::{Load, Next, One, Report, Then, Turn};

/// A recording replayed by the clock. Its records come in the order of their times; an earlier one counts as disordered
/// and is issued with the one before it.
pub struct OpenReplay<I> {
    records: I,
    clock: Clock,
    speed: Speed,
    counted_from: Ns,
    start: Ns,
    begun: bool,
    /// Request to issue at the next alarm, if it has been read.
    request: BlockRequest,
    is_read: bool,
}

impl<I: Iterator<Item: Into<Arrival>>> OpenReplay<I> {
    /// A replay at the recorded speed, in which all requests count.
    pub fn new(records: impl IntoIterator<IntoIter = I>) -> OpenReplay<I> {
        OpenReplay {
            records: records.into_iter(),
            clock: Clock::default(),
            speed: Speed::RECORDED,
            counted_from: Ns::ZERO,
            start: Ns::ZERO,
            begun: false,
            request: BlockRequest::flush(),
            is_read: false,
        }
    }

    /// Sets the speed of recorded time.
    pub fn speed(self, speed: Speed) -> OpenReplay<I> {
        OpenReplay { speed, ..self }
    }

    /// Excludes requests done before `at` from the totals.
    pub fn counted_from(self, at: Ns) -> OpenReplay<I> {
        OpenReplay { counted_from: at, ..self }
    }

    /// Reads the next record, and sleeps until its time.
    #[inline(always)]
    fn fetch(&mut self) -> Then {
        let Some(record) = self.records.next() else { return Then::End };
        let Arrival { at, request, .. } = record.into();
        let at = self.speed.scale(self.clock.since_first(at));
        (self.request, self.is_read) = (request, true);
        Then::At(Ns(self.start.0.saturating_add(at.0)))
    }
}

impl<I: Iterator<Item: Into<Arrival>>> Load for OpenReplay<I> {
    type Alarms = One;

    fn jobs(&self) -> usize {
        1
    }

    #[inline]
    fn account(&self, _user: u32, now: Ns) -> (usize, bool) {
        (0, now >= self.counted_from)
    }

    fn begin(&mut self, now: Ns) -> Option<Range<u32>> {
        if std::mem::replace(&mut self.begun, true) {
            return None;
        }
        self.start = now;
        Some(0..1)
    }

    #[inline(always)]
    fn next(&mut self, turn: Turn) -> Next {
        if !self.is_read {
            return self.fetch().into();
        }
        if turn.is_closed {
            return Then::Cut.into();
        }
        self.is_read = false;
        Next::issue(0, self.request, Then::Again)
    }

    #[inline(always)]
    fn done(&mut self, _turn: Turn, _request: &BlockRequest, _failed: bool) -> Next {
        Then::Wait.into()
    }

    fn finish<S>(&mut self, report: &mut Report<S>) {
        report.jobs[0].from = report.from.max(self.counted_from);
        report.disordered = self.clock.disordered;
    }
}
