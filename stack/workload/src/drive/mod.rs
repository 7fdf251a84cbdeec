//! How does a load meet a device? One loop serves them all: [`run()`].
//!
//! A [`Load`] decides what is asked for next; the loop has the clock, the device's tags, the limits, the errors and the
//! sums. In virtual time the order of events is: completions first, in the device's order; then the load's alarms, in
//! the order that its [`Alarms`] give them.
//!
//! A request is *issued* by a user of the load, *submitted* to the device when a tag is free, and *done*. While every
//! tag is taken, issued requests wait in the host in the order of issue; [`Span`] separates that wait from the device's
//! own time. Time in the host is otherwise free: a user issues its next request in the very nanosecond of a completion.
//!
//! The loop is generic over device, load and [`Observer`]; it allocates nothing per request once its queues have grown.
//! It knows nothing of files, of trace formats or of what is behind the seam.
//!
//! [`Ended`] names the ways in which a run ends; the totals up to there hold in each of them. Reads that the device
//! could not correct count as errors of their operation and the run goes on. Any other fault of the device ends the run.

mod alarms;
mod load;
mod port;
mod report;
mod run;
#[cfg(test)]
mod tests;

pub use alarms::{Alarms, ByUser, InOrder, One};
pub use load::{Load, Next, Soon, Then, Turn};
pub use report::{Ended, JobTotals, Limits, Observer, OpTotals, Report, Span};
pub use run::run;
