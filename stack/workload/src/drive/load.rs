//! The seam between the loop and a load.

use std::ops::Range;

use sim::Ns;
use sim::seam::BlockRequest;

use super::alarms::Alarms;
use super::report::Report;

/// A load of a block device.
///
/// It consists of *users*, numbered by the load: threads, clones of a job, the reader of a recording. A user gets a
/// turn when its group begins, when its alarm is up, and when one of its requests is done. It answers with [`Next`].
/// Groups of users run one after another: a group begins when all users of the one before have ended.
pub trait Load {
    /// Queue that orders alarms of the same time.
    type Alarms: Alarms;

    /// Number of jobs in the report.
    fn jobs(&self) -> usize;

    /// Job of a user's requests, and whether those done at `now` count: those of a ramp do not.
    fn account(&self, user: u32, now: Ns) -> (usize, bool);

    /// The users of the next group; `None` after the last.
    fn begin(&mut self, now: Ns) -> Option<Range<u32>>;

    /// Turn of a user whose group begins, whose alarm is up, or that answered [`Then::Again`].
    fn next(&mut self, turn: Turn) -> Next;

    /// Turn of a user whose request is done. `failed`: its data could not be read.
    fn done(&mut self, turn: Turn, request: &BlockRequest, failed: bool) -> Next;

    /// Announces requests that will be issued soon, after `user` has issued one. Changes no result; the device may
    /// prefetch its tables.
    #[inline]
    fn foresee(&mut self, _user: u32, _announce: impl FnMut(Soon, &BlockRequest)) {}

    /// Adds to the report what only the load can know. Called once, however the run ended.
    fn finish<S>(&mut self, _report: &mut Report<S>) {}
}

/// A turn of a user.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// Number of the user; after a completion, the one under which the request was issued.
    pub user: u32,
    /// Virtual time of the turn.
    pub now: Ns,
    /// Time limit of the run.
    pub until: Ns,
    /// A limit of the run is reached: no user may issue requests. A user with work left answers [`Then::Cut`].
    pub is_closed: bool,
}

/// A user's answer to its turn.
#[derive(Clone, Copy, Debug)]
pub struct Next {
    /// A request to issue now, and the user that gets the turn when it is done.
    pub issue: Option<(u32, BlockRequest)>,
    /// How the user continues.
    pub then: Then,
}

/// How a user continues after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It has another turn at once.
    Again,
    /// It waits for a completion or for an alarm that is set.
    Wait,
    /// It waits until this time, or for an earlier completion.
    At(Ns),
    /// It has done all its work.
    End,
    /// It has ended with work left, because of a limit.
    Cut,
}

impl Next {
    /// Issues a request, then continues with `then`.
    #[inline]
    pub const fn issue(user: u32, request: BlockRequest, then: Then) -> Next {
        Next { issue: Some((user, request)), then }
    }
}

impl From<Then> for Next {
    /// Continues with `then` without issuing a request.
    #[inline]
    fn from(then: Then) -> Next {
        Next { issue: None, then }
    }
}

/// How soon an announced request is issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Soon {
    /// After some other requests: see [`BlockDevice::expect`](sim::seam::BlockDevice::expect).
    Ahead,
    /// Among the next ones, and already announced: see
    /// [`BlockDevice::expect_next`](sim::seam::BlockDevice::expect_next).
    Next,
}
