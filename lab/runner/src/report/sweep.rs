//! The page and the answer of a sweep.

use serde_json::{Value, json};

use super::{Heading, document as page_document, four_digits};
use crate::measure::Outcome;
use crate::sweep::{Axis, Point, Sweep};

/// Rows of a sweep: its points that have a result.
pub type Rows<'a> = [(&'a Point, &'a Outcome)];

/// The document of a sweep's page. `metrics` are ids.
pub fn document(sweep: &Sweep, rows: &Rows<'_>, metrics: &[String]) -> Value {
    let base = sweep.points.first().map(|point| &point.prepared.experiment);
    let heading = Heading {
        title: base.map_or("sweep", |base| &base.title),
        question: base.map_or("", |base| &base.question),
        seed: base.map_or(1, |base| base.seed),
        fingerprint: format!("{} points", rows.len()),
    };
    let mut document = page_document(&heading, &[], &[]);
    let axis = |axis: &Axis| json!({"key": axis.key, "values": axis.values, "numbers": numbers(axis)});
    let known = |id: &String| {
        let metric = rows.iter().flat_map(|(_, found)| found.metrics().all()).find(|metric| metric.id == *id);
        metric.map_or(json!({"id": id}), |metric| json!({"id": id, "label": metric.label, "unit": metric.unit}))
    };
    let row = |(point, found): &(&Point, &Outcome)| {
        let values = metrics.iter().map(|id| found.metrics().value(id).ok());
        json!({"values": point.values, "metrics": values.collect::<Vec<_>>(), "fingerprint": found.fingerprint})
    };
    document["sweep"] = json!({
        "schema": "nandlab-sweep/1",
        "points": sweep.points.len(),
        "axes": sweep.axes.iter().map(axis).collect::<Vec<_>>(),
        "metrics": metrics.iter().map(known).collect::<Vec<_>>(),
        "rows": rows.iter().map(row).collect::<Vec<_>>(),
        "answer": answer(&sweep.axes, rows, metrics),
    });
    document
}

/// The values of an axis as numbers; `None` if one is a word.
fn numbers(axis: &Axis) -> Option<Vec<f64>> {
    axis.values.iter().map(|value| value.replace('_', "").parse().ok()).collect()
}

/// Where each metric is least and greatest, a sentence for each that differs.
pub fn answer(axes: &[Axis], rows: &Rows<'_>, metrics: &[String]) -> Vec<String> {
    let place = |point: &Point| {
        let pairs = axes.iter().zip(&point.values).map(|(axis, value)| format!("{} {value}", axis.key));
        pairs.collect::<Vec<_>>().join(", ")
    };
    let line = |id: &String| {
        let with = |(point, found): &(&'_ Point, &Outcome)| Some((place(point), found.metrics().value(id).ok()?));
        let values: Vec<(String, f64)> = rows.iter().filter_map(with).collect();
        let least = values.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
        let most = values.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let times = if least.1 > 0.0 { format!(", {:.2} times", most.1 / least.1) } else { String::new() };
        let text = format!(
            "{id}: least {} at {}; most {} at {}{times}.",
            four_digits(least.1),
            least.0,
            four_digits(most.1),
            most.0
        );
        (most.1 > least.1).then_some(text)
    };
    metrics.iter().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_of_words_has_no_numbers() {
        let axis = |text: &str| Axis::parse(text).unwrap();
        assert_eq!(numbers(&axis("workload.depth=1,32,1_024")), Some(vec![1.0, 32.0, 1024.0]));
        assert_eq!(numbers(&axis("ssd.ftl.gc=greedy,fifo")), None);
    }
}
