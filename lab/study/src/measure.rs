//! Values of claims: `metric.id(run)`, `layers.name(run)`, and arithmetic over them.

use runner::measure::{Outcome, check_metric};

use super::expression::Expression;
use super::{RunSpec, layers};

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

#[cfg(test)]
mod tests {
    use runner::run::Prepared;

    use super::*;

    /// Ids that begin alike are different runs.
    #[test]
    fn a_measure_is_of_the_run_of_that_very_id() {
        let run = |id: &str, requests: u32| {
            let text = format!(
                "title = 't'\n[ssd]\nchannels = 1\nways = 1\nplanes = 1\nblocks = 16\npages = 16\n\
                 over_provisioning_percent = 40\n[precondition]\nkind = 'sequential'\n\
                 [workload]\nrw = 'randread'\nrequests = {requests}\n"
            );
            let found = Prepared::resolve(&text, &[]).unwrap().run(None, &mut |_| ()).unwrap();
            (RunSpec { id: id.to_owned(), ..RunSpec::default() }, found)
        };
        let runs = [run("queue-32", 30), run("queue-3", 20), run("queue", 10)];
        let value = |text: &str| evaluate(text, &runs);
        for (id, count) in [("queue-32", 30.0), ("queue-3", 20.0), ("queue", 10.0)] {
            assert_eq!(value(&format!("read.count({id})")), Ok(count));
        }
        assert_eq!(value("(read.count(queue-32) - read.count(queue-3)) / read.count(queue)"), Ok(1.0));
        let error = value("read.count(queue-)").unwrap_err();
        assert!(error.contains("no run `queue-`"), "{error}");
    }
}
