//! The closed loop: a recording's requests, with a fixed number outstanding.

use std::ops::Range;

use sim::Ns;
use sim::seam::BlockRequest;

use super::Arrival;
use crate::drive::{Load, Next, One, Report, Then, Turn};

/// A recording replayed at a queue depth; its times and latencies are ignored.
pub struct ClosedReplay<I> {
    records: I,
    depth: u32,
    under_way: u32,
    begun: bool,
    cut: bool,
}

impl<I: Iterator<Item: Into<Arrival>>> ClosedReplay<I> {
    /// Replays `records` with `depth` requests outstanding.
    pub fn new(records: impl IntoIterator<IntoIter = I>, depth: u32) -> ClosedReplay<I> {
        ClosedReplay { records: records.into_iter(), depth, under_way: 0, begun: false, cut: false }
    }
}

impl<I: Iterator<Item: Into<Arrival>>> Load for ClosedReplay<I> {
    type Alarms = One;

    fn jobs(&self) -> usize {
        1
    }

    #[inline]
    fn account(&self, _user: u32, _now: Ns) -> (usize, bool) {
        (0, true)
    }

    fn begin(&mut self, _now: Ns) -> Option<Range<u32>> {
        (!std::mem::replace(&mut self.begun, true)).then_some(0..1)
    }

    #[inline(always)]
    fn next(&mut self, turn: Turn) -> Next {
        if self.under_way >= self.depth || self.cut {
            return Then::Wait.into();
        }
        if turn.is_closed {
            self.cut = true;
            return Then::Cut.into();
        }
        let Some(record) = self.records.next() else { return Then::Wait.into() };
        self.under_way += 1;
        let then = if self.under_way < self.depth { Then::Again } else { Then::Wait };
        Next::issue(0, record.into().request, then)
    }

    #[inline(always)]
    fn done(&mut self, turn: Turn, _request: &BlockRequest, _failed: bool) -> Next {
        self.under_way -= 1;
        self.next(turn)
    }

    fn finish<S>(&mut self, report: &mut Report<S>) {
        (report.jobs[0].from, report.jobs[0].to) = (report.from, report.to);
    }
}
