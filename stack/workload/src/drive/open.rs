//! The open loop: a recording's requests at their times, divided by a speed factor, whatever the device does.
//!
//! What the device cannot take waits in the host, without bound: [`Report::max_waiting`] tells how far the device fell
//! behind. Memory is that of the waiting requests.

use sim::Ns;
use sim::seam::{BlockDevice, BlockDone, BlockRequest};

use super::port::{Port, Refused, ended, is_survivable};
use super::report::{Ended, JobTotals, Limits, Observer, Report};

/// A recorded request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When it was issued, from any zero.
    pub at: Ns,
    /// What was asked.
    pub request: BlockRequest,
    /// How long it took, where the recording tells.
    pub latency: Option<Ns>,
}

impl From<(Ns, BlockRequest, Option<Ns>)> for Arrival {
    fn from((at, request, latency): (Ns, BlockRequest, Option<Ns>)) -> Arrival {
        Arrival { at, request, latency }
    }
}

/// How much faster than in the recording time passes: 2 halves every span.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed(f64);

impl Speed {
    /// As recorded.
    pub const RECORDED: Speed = Speed(1.0);

    /// `factor` times as fast; `None` unless it is finite and above 0.
    pub fn times(factor: f64) -> Option<Speed> {
        (factor.is_finite() && factor > 0.0).then_some(Speed(factor))
    }

    /// A recorded span as it lasts here. Exact at speed 1, rounded down to nanoseconds elsewhere.
    #[inline]
    pub fn scale(self, span: Ns) -> Ns {
        if self.0 == 1.0 { span } else { Ns((span.0 as f64 / self.0) as u64) }
    }
}

/// How a recording is replayed by [`open_loop`].
#[derive(Clone, Copy, Debug)]
pub struct OpenLoop {
    /// When the first request is issued.
    pub start: Ns,
    /// How fast recorded time passes.
    pub speed: Speed,
    /// Requests done earlier than this do not count.
    pub counted_from: Ns,
    /// Where the run ends at the latest.
    pub limits: Limits,
}

impl OpenLoop {
    /// At the recorded speed from time 0, all counted.
    pub const PLAIN: OpenLoop =
        OpenLoop { start: Ns::ZERO, speed: Speed::RECORDED, counted_from: Ns::ZERO, limits: Limits::NONE };
}

/// Replays `records`, which come in the order of their times; one that is behind counts as disordered and is issued
/// with the one before it.
pub fn open_loop<D, I, O>(device: &mut D, records: I, how: OpenLoop, observer: &mut O) -> Report
where
    D: BlockDevice,
    I: IntoIterator,
    I::Item: Into<Arrival>,
    O: Observer,
{
    let mut replay = Replay::new(device, how.start, how.counted_from);
    let ended = match replay.open(records.into_iter().map(Into::into), how, observer) {
        Ok(ended) => replay.settle(ended),
        Err(refused) => ended(&refused, 0),
    };
    replay.report(ended)
}

/// Recorded times since the first record, never falling.
#[derive(Debug, Default)]
pub(super) struct Clock {
    first: Option<Ns>,
    last: Ns,
}

impl Clock {
    pub(super) fn since_first(&mut self, at: Ns, disordered: &mut u64) -> Ns {
        let first = *self.first.get_or_insert(at);
        *disordered += u64::from(at < self.last);
        self.last = self.last.max(at);
        self.last - first
    }
}

/// What both replays share: the device, its queue and the sums.
pub(super) struct Replay<'d, D: BlockDevice> {
    pub device: &'d mut D,
    pub port: Port,
    pub totals: JobTotals,
    pub issued: u64,
    pub disordered: u64,
    from: Ns,
    counted_from: Ns,
    last_done: Ns,
}

impl<'d, D: BlockDevice> Replay<'d, D> {
    pub(super) fn new(device: &'d mut D, start: Ns, counted_from: Ns) -> Replay<'d, D> {
        let port = Port::new(device);
        let totals = JobTotals { from: start.max(counted_from), ..JobTotals::default() };
        Replay { device, port, totals, issued: 0, disordered: 0, from: start, counted_from, last_done: start }
    }

    pub(super) fn settle(&self, ended: Ended) -> Ended {
        self.port.settle(self.last_done, ended)
    }

    pub(super) fn report(self, ended: Ended) -> Report {
        Report {
            jobs: vec![self.totals],
            from: self.from,
            to: self.last_done,
            issued: self.issued,
            max_waiting: self.port.max_waiting,
            disordered: self.disordered,
            ended,
        }
    }

    #[inline]
    pub(super) fn issue(&mut self, at: Ns, owner: u32, request: BlockRequest) -> Result<(), Refused> {
        self.issued += 1;
        self.port.issue(self.device, at, owner, request)
    }

    /// Books a completion; returns its owner.
    #[inline]
    pub(super) fn complete<O: Observer>(&mut self, done: &BlockDone, observer: &mut O) -> Result<u32, Refused> {
        let slot = self.port.completed(done);
        self.port.pass_on(self.device, done)?;
        self.last_done = done.at;
        if let Err(error) = &done.result {
            observer.on_error(0, &slot.request, error);
            if !is_survivable(error) {
                return Err(Box::new((done.at, slot, error.clone())));
            }
        }
        let (span, counted) = (slot.span(done.at), done.at >= self.counted_from);
        self.totals.book(&slot.request, span, counted, done.result.is_err());
        observer.on_done(0, &slot.request, span, counted);
        Ok(slot.owner)
    }

    fn open<O: Observer>(
        &mut self,
        mut records: impl Iterator<Item = Arrival>,
        how: OpenLoop,
        observer: &mut O,
    ) -> Result<Ended, Refused> {
        let mut clock = Clock::default();
        let mut fetch = |disordered: &mut u64| {
            let record = records.next()?;
            let at = how.speed.scale(clock.since_first(record.at, disordered));
            Some((Ns(how.start.0.saturating_add(at.0)), record.request))
        };
        let mut next = fetch(&mut self.disordered);
        let mut ended = Ended::Done;
        loop {
            let at = next.map_or(Ns(u64::MAX), |(at, _)| at);
            match (self.device.next_done(at), next) {
                (Some(done), _) => {
                    self.complete(&done, observer)?;
                }
                (None, None) => return Ok(ended),
                (None, Some(_)) if at >= how.limits.until || self.issued >= how.limits.requests => {
                    ended = Ended::Limit;
                    next = None;
                }
                (None, Some((at, request))) => {
                    self.issue(at, 0, request)?;
                    next = fetch(&mut self.disordered);
                }
            }
        }
    }
}
