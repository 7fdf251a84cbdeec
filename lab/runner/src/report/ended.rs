//! Why a run ended, as a sentence.

use super::drive::{bytes, span};
use super::grouped;
use crate::measure::outcome::drive::DriveOutcome;
use crate::measure::{Detail, Outcome};

/// Why the run ended, with the limit of the experiment that it met.
pub fn of(outcome: &Outcome) -> String {
    let stop = &outcome.experiment.stop;
    let block = if matches!(outcome.measured.detail, Detail::Drive(_)) { "block" } else { "PEB" };
    let requests = |drive: u64| format!("after {} requests", grouped(drive));
    let end = |found: &DriveOutcome| found.end_of_life.as_ref().map_or(String::new(), |end| end.why.clone());
    let why = match (outcome.measured.stopped_by.as_str(), &outcome.measured.detail) {
        ("workload", Detail::Drive(drive) | Detail::Ubiblock(drive)) => {
            format!("when the load was done, {}", requests(drive.requests))
        }
        ("workload", Detail::Flash(flash)) if flash.file_system.is_some() => {
            format!("when the load was done, after {} operations", grouped(flash.steps))
        }
        ("requests", Detail::Drive(drive) | Detail::Ubiblock(drive)) => requests(drive.requests),
        ("worn_out", Detail::Drive(drive)) => format!("because the drive wore out: {}", end(drive)),
        ("worn_out", Detail::Ubiblock(device)) => format!("because UBI took no more writes: {}", end(device)),
        ("drive_writes", Detail::Ubiblock(_)) => {
            format!("when the host had written the volume {} times", stop.drive_writes)
        }
        ("drive_writes", _) => format!("when the host had written the drive {} times", stop.drive_writes),
        ("max_erases", _) => format!("when the first {block} had {} erasures", grouped(u64::from(stop.max_erases))),
        ("mean_erases_of_others", _) => {
            let mean = grouped(stop.mean_erases_of_others.round() as u64);
            format!("when the PEBs behind the first 64 had {mean} erasures on average")
        }
        ("steps", Detail::Flash(flash)) => format!("after {} steps of the load", grouped(flash.steps)),
        ("failed", Detail::Flash(flash)) => {
            format!("because UBI could not go on: {}", flash.failure.as_deref().unwrap_or("no reason is known"))
        }
        ("host_bytes", Detail::Flash(flash)) => format!("when the load had written {}", bytes(flash.host_bytes)),
        ("virtual_s" | "days" | "years", _) => {
            format!("after {} of virtual time", span(outcome.measured.virtual_ns as f64))
        }
        (key, _) => format!("by `{key}`"),
    };
    format!("The run ended {why}.")
}
