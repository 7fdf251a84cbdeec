//! Reduces steps that end in a mistake to those that are needed for it.
//!
//! Steps that were run say which names they found and in which event of which step power failed, so they can be left out
//! one by one, which drawn steps cannot: what is left would mean something else.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::run::{Outcome, Step, Subject, run};

/// Runs `steps` as [`run`] does.
/// Errors: the first mistake, or a panic, after the fewest steps for which one was found.
pub fn judge<S: Subject>(make: impl Fn() -> S, steps: &[Step], cuts: &[u64]) -> Result<Outcome, String> {
    let mut trace = Vec::new();
    let mut why = match attempt(&make, steps, cuts, &mut trace) {
        Ok(outcome) => return Ok(outcome),
        Err(why) => why,
    };
    let mut left = trace;
    let mut length = left.len();
    while length > 0 {
        let mut at = 0;
        let before = left.len();
        while at < left.len() {
            let fewer = [&left[..at], &left[left.len().min(at + length)..]].concat();
            match attempt(&make, &fewer, &[], &mut Vec::new()) {
                Ok(_) => at += length,
                Err(other) => (left, why) = (fewer, other),
            }
        }
        if length > 1 || left.len() == before {
            length /= 2;
        }
    }
    let lines: String = left.iter().map(|step| format!("\n    {step:?}")).collect();
    Err(format!("{why}\nafter{lines}"))
}

fn attempt<S: Subject>(
    make: impl Fn() -> S,
    steps: &[Step],
    cuts: &[u64],
    trace: &mut Vec<Step>,
) -> Result<Outcome, String> {
    catch_unwind(AssertUnwindSafe(|| run(&mut make(), steps, cuts, trace))).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("panic: {}", said.unwrap_or("of no text")))
    })
}
