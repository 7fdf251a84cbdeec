//! Drivers: what puts requests on a block device and books how long they took.
//!
//! | driver | a request is issued |
//! |---|---|
//! | [`closed_loop`] | when an earlier one of its job is done: fio jobs with their depth, pauses and rates |
//! | [`open_loop`] | at its time in a recording, whatever the device does |
//! | [`dependency_true`] | when what was done before it in the recording is done here, and its think time has passed |
//! | [`iozone()`] | a host time after the last one of its thread: random reads and writes of iozone's test 2 |
//! | [`launches()`] | when a reader of the app that starts is free: app start-up over a page cache |
//!
//! A request is *issued* by its user, *submitted* to the device when a tag is free, and *done*. While every tag of the
//! device is taken, issued requests wait in the host in the order of issue; [`Span`] tells the wait from the device's
//! own time. Time in the host is otherwise free: a job issues its next request in the very nanosecond of a completion.
//!
//! A driver is generic over the device and over the [`Observer`]; it allocates nothing per request once its queues have
//! grown. It knows nothing of files, of traces' formats or of what is behind the seam. Runs end when the work is done,
//! at a limit, or where the device ends; [`Report::ended`] says which, and the totals up to there hold.
//!
//! Reads that the device could not correct count as errors of their operation and the run goes on. Any other fault of
//! the device ends the run.

mod closed;
mod dependency;
mod iozone;
mod launches;
mod open;
mod port;
mod report;
#[cfg(test)]
mod tests;

pub use closed::closed_loop;
pub use dependency::{DEFAULT_WINDOW, DependencyTrue, dependency_true};
pub use iozone::{IozonePhase, iozone};
pub use launches::{Cycle, Launch, launches};
pub use open::{Arrival, OpenLoop, Speed, open_loop};
pub use report::{Ended, JobTotals, Limits, Observer, OpTotals, Report, Span};
