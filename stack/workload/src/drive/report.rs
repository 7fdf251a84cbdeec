//! Reports of a run: each completion to an observer, and totals at the end.

use std::convert::Infallible;

use sim::Ns;
use sim::seam::{BlockError, BlockOp, BlockRequest};

/// The three times of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// When its user issued it.
    pub issued: Ns,
    /// When it was submitted to the device: later than `issued` if every tag was in use.
    pub submitted: Ns,
    /// When it was done.
    pub done: Ns,
}

impl Span {
    /// Time from issue to completion: fio's `lat`.
    pub fn latency(&self) -> Ns {
        self.done - self.issued
    }

    /// The part before submission: the queueing part of fio's `slat`.
    pub fn host_wait(&self) -> Ns {
        self.submitted - self.issued
    }

    /// The part in the device: fio's `clat`.
    pub fn device(&self) -> Ns {
        self.done - self.submitted
    }
}

/// Sees every completion, and can stop the run.
pub trait Observer {
    /// Reason for stopping a run; [`Infallible`] if it never does.
    type Stop;

    /// A request is done. `job` is an index into [`Report::jobs`]. `counted` is false in a job's ramp. Failed requests
    /// are reported too, after [`on_error`](Self::on_error).
    fn on_done(&mut self, job: usize, request: &BlockRequest, span: Span, counted: bool);

    /// A request failed in the device.
    fn on_error(&mut self, _job: usize, _request: &BlockRequest, _error: &BlockError) {}

    /// Called after each [`on_done`](Self::on_done); a reason ends the run with [`Ended::Stopped`].
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

/// Limits of a run, beside those of its load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// No request is issued at or after this time.
    pub until: Ns,
    /// Most requests to issue, flushes included.
    pub requests: u64,
}

impl Limits {
    /// No limit of time or requests.
    pub const NONE: Limits = Limits { until: Ns(u64::MAX), requests: u64::MAX };
}

/// Totals over the counted requests of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpTotals {
    /// Requests done.
    pub requests: u64,
    /// Bytes transferred or discarded.
    pub bytes: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Time of the first issue.
    pub first: Ns,
    /// Time of the last completion.
    pub last: Ns,
}

/// Totals over a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobTotals {
    /// Totals by operation, in the order of [`BlockOp::ALL`].
    pub ops: [OpTotals; 4],
    /// Requests done in the ramp; they are in no other total.
    pub ramp_requests: u64,
    /// Begin of the measured window: the job's earliest start, after its ramp. `u64::MAX` if it did not start.
    pub from: Ns,
    /// End of the measured window: the last completion, or a later end of the runtime in which the job idled.
    pub to: Ns,
}

impl Default for JobTotals {
    fn default() -> JobTotals {
        JobTotals { ops: [OpTotals::default(); 4], ramp_requests: 0, from: Ns(u64::MAX), to: Ns::ZERO }
    }
}

impl JobTotals {
    /// Totals of one operation.
    pub fn op(&self, op: BlockOp) -> &OpTotals {
        &self.ops[op as usize]
    }

    /// Length of the measured window; 0 if nothing was measured.
    pub fn window(&self) -> Ns {
        Ns(self.to.0.saturating_sub(self.from.0))
    }

    /// Counted requests of all operations.
    pub fn requests(&self) -> u64 {
        self.ops.iter().map(|op| op.requests).sum()
    }

    /// Adds a completed request.
    #[inline]
    pub fn book(&mut self, request: &BlockRequest, span: Span, counted: bool, failed: bool) {
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
    /// A limit of the run was reached; outstanding requests were completed.
    Limit,
    /// The observer stopped the run. Outstanding requests are lost.
    Stopped {
        /// Completion at which it stopped.
        at: Ns,
        /// Reason of the observer.
        why: S,
    },
    /// The device failed: it is worn out or without power, or it refused a request. Outstanding requests are lost.
    Device {
        /// Time at which the request completed or was submitted.
        at: Ns,
        /// Job of the failed request.
        job: usize,
        /// The failed request.
        request: BlockRequest,
        /// Error of the device.
        error: BlockError,
    },
    /// The device stalled: requests are outstanding, but it reports no further event.
    Stalled {
        /// Time of the last completion, or of the start.
        at: Ns,
        /// Requests in the device or waiting in the host.
        outstanding: usize,
    },
    /// The recording cannot be replayed in this mode; the text says where and why.
    Recording(String),
}

/// Result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report<S = Infallible> {
    /// Totals by job. A job is a job section of fio, a phase of iozone, a cycle of app launches, or the whole of a
    /// replay.
    pub jobs: Vec<JobTotals>,
    /// Start of the run.
    pub from: Ns,
    /// Last completion of the run, or its start.
    pub to: Ns,
    /// Requests issued.
    pub issued: u64,
    /// Most requests that waited in the host at a time.
    pub max_waiting: usize,
    /// Replayed records that are earlier than the record before them; they are issued at that record's time.
    pub disordered: u64,
    /// Why it ended.
    pub ended: Ended<S>,
}
