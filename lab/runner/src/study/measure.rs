//! Values of claims: `metric.id(run)`, `layers.name(run)`, and arithmetic over them.

use super::expression::Expression;
use super::{RunSpec, layers};
use crate::measure::{Outcome, check_metric};

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
    layers::value(what, found)
        .unwrap_or_else(|| found.metrics().value(what))
        .map_err(|why| format!("`{what}({id})`: {why}"))
}

/// Checks a measure before anything runs.
/// Errors: what is wrong with the text; a metric that no run has.
pub(super) fn check(text: &str) -> Result<(), String> {
    Expression::parse(text)?.measures().into_iter().try_for_each(|(what, run)| {
        layers::check(what).unwrap_or_else(|| check_metric(what)).map_err(|why| format!("`{what}({run})`: {why}"))
    })
}
