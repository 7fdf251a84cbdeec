//! Runs a load on a device. One loop serves all loads: [`run()`].
//!
//! A [`Load`] decides which request comes next. The loop owns the clock, the device's tags, the limits, the errors and
//! the totals. In virtual time the order of events is: first completions, in the device's order; then the load's
//! alarms, in the order of its [`Alarms`].
//!
//! A request is *issued* by a user of the load, *submitted* to the device when a tag is free, and *done*. While every
//! tag is in use, issued requests wait in the host in the order of issue; [`Span`] separates that wait from the
//! device's time. Otherwise the host takes no time: a user issues its next request in the nanosecond of a completion.
//!
//! The loop is generic over device, load and [`Observer`]; it allocates nothing per request once its queues have grown.
//! It knows no file, no trace format and nothing behind the seam.
//!
//! [`Ended`] lists the ways in which a run ends; the totals are valid in each of them. Uncorrectable reads count as
//! errors of their operation and the run continues. Any other fault of the device ends the run.

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
