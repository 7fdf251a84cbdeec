//! The seam between the loop and what it puts on a device.

use std::ops::Range;

use sim::Ns;
use sim::seam::BlockRequest;

use super::alarms::Alarms;
use super::report::Report;

/// A load of a block device.
///
/// It consists of *users*, numbered by the load: threads, clones of a job, the reader of a recording. A user has its
/// turn when its group begins, when its alarm is up, and when one of its requests is done. It answers with [`Next`].
/// Groups of users follow each other: one begins when all users of the one before have ended.
pub trait Load {
    /// Orders alarms of the same time.
    type Alarms: Alarms;

    /// Whether a run includes what the device does on its own after the last completion, such as writing its buffer
    /// out: if so, it ends when the device has nothing left to do.
    const DRAINS: bool;

    /// How many jobs the report separates.
    fn jobs(&self) -> usize;

    /// The job of a user's requests, and whether those done at `now` count: those of a ramp do not.
    fn account(&self, user: u32, now: Ns) -> (usize, bool);

    /// The users of the next group; `None` after the last.
    fn begin(&mut self, now: Ns) -> Option<Range<u32>>;

    /// The turn of a user whose group begins, whose alarm is up, or who answered [`Then::Again`].
    fn next(&mut self, turn: Turn) -> Next;

    /// The turn of a user whose request is done. `failed`: its data could not be read.
    fn done(&mut self, turn: Turn, request: &BlockRequest, failed: bool) -> Next;

    /// Announces, after `user` has issued a request, which ones it will issue soon. Changes no result; a device may
    /// load its tables for them.
    #[inline]
    fn foresee(&mut self, _user: u32, _announce: impl FnMut(Soon, &BlockRequest)) {}

    /// Adds to the report what only the load knows. Called once, however the run ended.
    fn finish<S>(&mut self, _report: &mut Report<S>) {}
}

/// Whose turn it is, and when.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// The user, by the load's own numbers; for a completion, that under which its request was issued.
    pub user: u32,
    /// Virtual time.
    pub now: Ns,
    /// The run's limit of time.
    pub until: Ns,
    /// A limit of the run is reached: no user may issue any more. Who has more to do answers [`Then::Cut`].
    pub is_closed: bool,
}

/// What a user does.
#[derive(Clone, Copy, Debug)]
pub struct Next {
    /// A request to issue now, and the user whose turn it is when it is done.
    pub issue: Option<(u32, BlockRequest)>,
    /// What follows.
    pub then: Then,
}

/// How a user goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It has another turn at once.
    Again,
    /// It waits for a completion or for an alarm that is set.
    Wait,
    /// It waits for a time, or for a completion before it.
    At(Ns),
    /// It has done all its work.
    End,
    /// It has ended before its work was done, because of a limit.
    Cut,
}

impl Next {
    /// Issues a request, then goes on with `then`.
    #[inline]
    pub const fn issue(user: u32, request: BlockRequest, then: Then) -> Next {
        Next { issue: Some((user, request)), then }
    }
}

impl From<Then> for Next {
    /// Issues nothing.
    #[inline]
    fn from(then: Then) -> Next {
        Next { issue: None, then }
    }
}

/// How near an announced request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Soon {
    /// Some requests ahead: see [`BlockDevice::expect`](sim::seam::BlockDevice::expect).
    Ahead,
    /// Among the next, and announced before: see [`BlockDevice::expect_next`](sim::seam::BlockDevice::expect_next).
    Next,
}
