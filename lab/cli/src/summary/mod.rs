//! Terminal output for the result of a run.

mod drive;
mod flash;

use runner::measure::{Detail, Outcome};
use runner::report::answer;

/// A summary for a terminal.
pub fn of(outcome: &Outcome) -> String {
    let mut text = match &outcome.measured.detail {
        Detail::Flash(found) => flash::summary(outcome, found),
        Detail::Drive(found) => drive::summary(outcome, found),
    };
    text += &format!("\n{}\n", answer::of(outcome).join("\n"));
    text
}

/// Notes how many figures of the run's part have memory as their source.
fn of_part(found: &Outcome) -> String {
    match &found.part {
        Some(part) if !part.recalled.is_empty() => format!(
            "{} of the {} figures of {} are recalled, not read in a source: `nandlab parts {}`\n",
            part.recalled.len(),
            part.values,
            part.name,
            part.name
        ),
        _ => String::new(),
    }
}
