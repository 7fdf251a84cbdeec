//! Values of claims: `metric.id(run)`, `layers.name(run)`, and arithmetic over them.

use super::expression::Expression;
use super::{RunSpec, layers};
use crate::measure::Outcome;

/// Evaluates arithmetic over metrics of the runs.
/// Errors: what is wrong with the text.
pub fn evaluate(text: &str, runs: &[(RunSpec, Outcome)]) -> Result<f64, String> {
    Expression::parse(text)?.value(&|what, id| of_run(what, id, runs))
}

/// One metric of the run called `id`, or one measure of its layers.
/// Errors: there is no such run, or it has no such metric.
pub(super) fn of_run(what: &str, id: &str, runs: &[(RunSpec, Outcome)]) -> Result<f64, String> {
    let found = runs.iter().find(|(run, _)| run.id == id).ok_or_else(|| format!("`{what}({id})`: no run `{id}`"));
    let (_, found) = found?;
    layers::value(what, found).unwrap_or_else(|| found.metrics().value(what)).map_err(|why| format!("`{what}({id})`: {why}"))
}
