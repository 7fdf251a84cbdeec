//! Terminal output for the result of a run.

mod drive;
mod file_system;
mod flash;

use runner::measure::{Detail, Outcome};
use runner::report::{answer, grouped};

use crate::table;

/// A summary for a terminal.
pub fn of(outcome: &Outcome) -> String {
    let mut text = match &outcome.measured.detail {
        Detail::Flash(found) => flash::summary(outcome, found),
        Detail::Drive(found) | Detail::Ubiblock(found) => drive::summary(outcome, found),
    };
    text.push('\n');
    for sentence in answer::of(outcome) {
        table::wrapped(&sentence, table::text_width()).iter().for_each(|line| text += &format!("{line}\n"));
    }
    text
}

/// Faults of the flash, and what became of the data.
fn of_faults(found: &Outcome) -> String {
    let Some(faults) = &found.measured.faults else { return String::new() };
    let (corrected, lost) = (grouped(faults.corrected_bits), grouped(faults.lost));
    let (unit, scrubbed) = match &found.measured.detail {
        // What Linux's UBI scrubs, its own log says.
        Detail::Flash(_) if found.measured.guest.is_some() => ("page reads", String::new()),
        Detail::Flash(_) => ("LEBs", format!("{} PEBs scrubbed, ", grouped(faults.scrubbed))),
        Detail::Drive(_) => ("pages and reads", String::new()),
        Detail::Ubiblock(_) => ("reads", format!("{} PEBs scrubbed, ", grouped(faults.scrubbed))),
    };
    let mut text = format!(
        "faults: {corrected} bits corrected in {} page reads, {} uncorrectable page reads; {scrubbed}{} blocks retired, {lost} {unit} lost\n",
        grouped(faults.corrected_pages),
        grouped(faults.uncorrectable_pages),
        grouped(faults.retired)
    );
    if faults.program_failures + faults.erase_failures > 0 {
        text += &format!(
            "{} programs and {} erases failed\n",
            grouped(faults.program_failures),
            grouped(faults.erase_failures)
        );
    }
    if faults.unnoticed_bits > 0 {
        text += &format!("{} wrong bits reached the reader: there is no ECC\n", grouped(faults.unnoticed_bits));
    }
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
