//! What a run reports: each completion to an observer, and sums at its end.

use std::convert::Infallible;

use sim::Ns;
use sim::seam::{BlockError, BlockOp, BlockRequest};

/// A request's three times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// When its user asked for it.
    pub issued: Ns,
    /// When the device got it: later than `issued` if every tag was taken.
    pub submitted: Ns,
    /// When it was done.
    pub done: Ns,
}

impl Span {
    /// What the user waited: fio's `lat`.
    pub fn latency(&self) -> Ns {
        self.done - self.issued
    }

    /// Its part before the device took the request: fio's `slat`, as far as queueing makes it.
    pub fn host_wait(&self) -> Ns {
        self.submitted - self.issued
    }

    /// Its part in the device: fio's `clat`.
    pub fn device(&self) -> Ns {
        self.done - self.submitted
    }
}

/// Sees every completion, and may stop the run.
pub trait Observer {
    /// Why it stops a run; [`Infallible`] where it never does.
    type Stop;

    /// A request is done. `job` is an index into [`Report::jobs`]. `counted` is false in a job's ramp. Requests that
    /// failed come here too, after [`on_error`](Self::on_error).
    fn on_done(&mut self, job: usize, request: &BlockRequest, span: Span, counted: bool);

    /// The device could not carry a request out.
    fn on_error(&mut self, _job: usize, _request: &BlockRequest, _error: &BlockError) {}

    /// Asked after each [`on_done`](Self::on_done): a reason ends the run there with [`Ended::Stopped`].
    #[inline]
    fn stop(&mut self) -> Option<Self::Stop> {
        None
    }
}

/// Ignores everything.
impl Observer for () {
    type Stop = Infallible;

    #[inline]
    fn on_done(&mut self, _job: usize, _request: &BlockRequest, _span: Span, _counted: bool) {}
}

/// Calls a function with each completion.
impl<F: FnMut(usize, &BlockRequest, Span, bool)> Observer for F {
    type Stop = Infallible;

    #[inline]
    fn on_done(&mut self, job: usize, request: &BlockRequest, span: Span, counted: bool) {
        self(job, request, span, counted);
    }
}

/// Where a run ends at the latest, beside what its load says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Nothing is issued at or after this time.
    pub until: Ns,
    /// The most requests that are issued, flushes included.
    pub requests: u64,
}

impl Limits {
    /// No limit of time or requests.
    pub const NONE: Limits = Limits { until: Ns(u64::MAX), requests: u64::MAX };
}

/// Sums over the counted requests of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpTotals {
    /// Requests done.
    pub requests: u64,
    /// Bytes that they moved or discarded.
    pub bytes: u64,
    /// How many of them failed.
    pub errors: u64,
    /// Earliest issue.
    pub first: Ns,
    /// Last completion.
    pub last: Ns,
}

/// Sums over a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobTotals {
    /// By operation, in the order of [`BlockOp::ALL`].
    pub ops: [OpTotals; 4],
    /// Requests done in the ramp: they count nowhere else.
    pub ramp_requests: u64,
    /// Begin of the measured window: the job's earliest start, after its ramp. `u64::MAX` where it did not start.
    pub from: Ns,
    /// Its end: the last completion, or a later end of the runtime in which the job idled.
    pub to: Ns,
}

impl Default for JobTotals {
    fn default() -> JobTotals {
        JobTotals { ops: [OpTotals::default(); 4], ramp_requests: 0, from: Ns(u64::MAX), to: Ns::ZERO }
    }
}

impl JobTotals {
    /// Sums of one operation.
    pub fn op(&self, op: BlockOp) -> &OpTotals {
        &self.ops[op as usize]
    }

    /// Length of the measured window; 0 where nothing was measured.
    pub fn window(&self) -> Ns {
        Ns(self.to.0.saturating_sub(self.from.0))
    }

    /// Requests of all operations that counted.
    pub fn requests(&self) -> u64 {
        self.ops.iter().map(|op| op.requests).sum()
    }

    #[inline]
    pub(super) fn book(&mut self, request: &BlockRequest, span: Span, counted: bool, failed: bool) {
        if !counted {
            self.ramp_requests += 1;
            return;
        }
        let op = &mut self.ops[request.op as usize];
        if op.requests == 0 || span.issued < op.first {
            op.first = span.issued;
        }
        op.requests += 1;
        op.bytes += request.bytes();
        op.errors += u64::from(failed);
        op.last = span.done;
        self.to = self.to.max(span.done);
    }
}

/// Why a run ended. `S` is the observer's [`Stop`](Observer::Stop).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended<S = Infallible> {
    /// All work was done.
    Done,
    /// A limit of the run was reached; what was under way then was completed.
    Limit,
    /// The observer stopped the run. Requests under way are lost.
    Stopped {
        /// Completion after which it did.
        at: Ns,
        /// Its reason.
        why: S,
    },
    /// The device gave up: worn out, without power, or it refused a request. Requests under way are lost.
    Device {
        /// Completion or submission of the request that failed.
        at: Ns,
        /// Job of that request.
        job: usize,
        /// The request.
        request: BlockRequest,
        /// The device's error.
        error: BlockError,
    },
    /// The device stands still: requests are under way, and it says that nothing is to come.
    Stalled {
        /// The last completion before, or the start.
        at: Ns,
        /// Requests under way or waiting in the host.
        outstanding: usize,
    },
    /// The recording cannot be replayed so; the sentence says where and why.
    Recording(String),
}

/// Sums of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report<S = Infallible> {
    /// By job of the load: of fio, a job of the file; of iozone, a phase; of app launches, a cycle; of a replay, all.
    pub jobs: Vec<JobTotals>,
    /// Start of the run.
    pub from: Ns,
    /// Last completion of the run, or its start.
    pub to: Ns,
    /// Requests issued.
    pub issued: u64,
    /// The most requests that waited in the host at a time.
    pub max_waiting: usize,
    /// Records of a replay that stood behind a later one; they are issued at that one's time.
    pub disordered: u64,
    /// Why it ended.
    pub ended: Ended<S>,
}
