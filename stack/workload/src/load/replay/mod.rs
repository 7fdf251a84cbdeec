//! Replays of a recording, in three modes.
//!
//! | load | a request is issued |
//! |---|---|
//! | [`OpenReplay`] | at its time in the recording, whatever the device does |
//! | [`ClosedReplay`] | as soon as fewer requests than the depth are outstanding, whatever its time |
//! | [`DependencyReplay`] | when everything done before it in the recording is done here, and its think time has passed |
//!
//! A replay is one user and one job.

mod closed;
mod dependency;
mod open;

use sim::Ns;
use sim::seam::BlockRequest;

pub use closed::ClosedReplay;
pub use dependency::{DEFAULT_WINDOW, DependencyReplay};
pub use open::OpenReplay;

/// A recorded request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When it was issued, from any origin.
    pub at: Ns,
    /// The recorded request.
    pub request: BlockRequest,
    /// From its issue to its completion, if the recording has it.
    pub latency: Option<Ns>,
}

impl From<(Ns, BlockRequest, Option<Ns>)> for Arrival {
    fn from((at, request, latency): (Ns, BlockRequest, Option<Ns>)) -> Arrival {
        Arrival { at, request, latency }
    }
}

/// Speed relative to the recording: 2 halves every time span.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed(f64);

impl Speed {
    /// The recorded speed.
    pub const RECORDED: Speed = Speed(1.0);

    /// `factor` times as fast; `None` unless it is finite and above 0.
    pub fn times(factor: f64) -> Option<Speed> {
        (factor.is_finite() && factor > 0.0).then_some(Speed(factor))
    }

    /// Scales a recorded span. Exact at speed 1, else rounded down to nanoseconds.
    #[inline]
    pub fn scale(self, span: Ns) -> Ns {
        if self.0 == 1.0 { span } else { Ns((span.0 as f64 / self.0) as u64) }
    }
}

/// Recorded times since the first record, raised where they decrease.
#[derive(Debug, Default)]
struct Clock {
    first: Option<Ns>,
    last: Ns,
    /// Records earlier than the one before them.
    disordered: u64,
}

impl Clock {
    fn since_first(&mut self, at: Ns) -> Ns {
        let first = *self.first.get_or_insert(at);
        self.disordered += u64::from(at < self.last);
        self.last = self.last.max(at);
        self.last - first
    }
}
