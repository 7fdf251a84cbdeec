//! The page and the answer of a sweep.

use serde_json::{Value, json};

use super::figure::{Axis as FigureAxis, Figure};
use super::{Heading, document as page_document, four_digits, grouped};
use crate::sweep::{Axis, Point, Row, Sweep, cells};

/// Key whose values are repetitions: charts show the mean over them.
const SEED: &str = "seed";
/// Most lines of a chart; a chart with more is left out.
const MOST_LINES: usize = 12;
/// Contour lines of a chart.
const CONTOURS: usize = 6;
/// Ratio of an axis's greatest value to its least from which it is logarithmic.
const LOG_FROM: f64 = 16.0;

/// Rows of a sweep: its points that have a result.
pub type Rows<'a> = [(&'a Point, &'a Row)];

/// The document of a sweep's page. `metrics` are ids.
pub fn document(sweep: &Sweep, rows: &Rows<'_>, metrics: &[String]) -> Value {
    let base = sweep.points.first().map(|point| &point.prepared.experiment);
    let heading = Heading {
        title: base.map_or("sweep", |base| &base.title),
        question: base.map_or("", |base| &base.question),
        seed: base.map_or(1, |base| base.seed),
        fingerprint: format!("{} points", rows.len()),
    };
    let mut document = page_document(&heading, &[]);
    if let Some(base) = base {
        let keys: Vec<&str> = sweep.axes.iter().map(|axis| axis.key.as_str()).collect();
        document["experiment_toml"] =
            json!(format!("# The first point; the sweep varies {}.\n{}", keys.join(", "), base.to_toml()));
    }
    let axis = |axis: &Axis| json!({"key": axis.key, "values": axis.values, "numbers": numbers(axis)});
    let known = |id: &String| {
        let metric = rows.iter().flat_map(|(_, found)| found.metrics.all()).find(|metric| metric.id == *id);
        metric.map_or(json!({"id": id}), |metric| json!({"id": id, "label": metric.label, "unit": metric.unit}))
    };
    let row = |(point, found): &(&Point, &Row)| {
        let values = metrics.iter().map(|id| found.metrics.value(id).ok());
        json!({"values": point.values, "metrics": values.collect::<Vec<_>>(), "fingerprint": found.fingerprint})
    };
    let shown: Vec<Value> = metrics.iter().map(known).collect();
    document["sweep"] = json!({
        "points": sweep.points.len(),
        "axes": sweep.axes.iter().map(axis).collect::<Vec<_>>(),
        "metrics": shown,
        "rows": rows.iter().map(row).collect::<Vec<_>>(),
        "answer": answer(&sweep.axes, rows, metrics),
        "lines": metrics.iter().zip(&shown).filter_map(|(id, known)| lines(&sweep.axes, rows, id, known)).collect::<Vec<_>>(),
        "figures": metrics.iter().zip(&shown).filter_map(|(id, known)| contours(&sweep.axes, rows, id, known)).collect::<Vec<_>>(),
    });
    document
}

/// The values of an axis as numbers; `None` if one is a word.
fn numbers(axis: &Axis) -> Option<Vec<f64>> {
    axis.values.iter().map(|value| value.replace('_', "").parse().ok()).collect()
}

/// Mean of a metric over the rows that have these values of some axes; `None` if none has it.
fn mean(rows: &Rows<'_>, id: &str, at: &[(usize, &String)]) -> Option<f64> {
    let has = |point: &Point| at.iter().all(|&(axis, value)| point.values[axis] == *value);
    let values: Vec<f64> =
        rows.iter().filter(|(point, _)| has(point)).filter_map(|(_, found)| found.metrics.value(id).ok()).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Axes with several values, without the seed.
fn varied(axes: &[Axis]) -> Vec<usize> {
    (0..axes.len()).filter(|&at| axes[at].values.len() > 1 && axes[at].key != SEED).collect()
}

/// Title of a chart, with the number of seeds that its values are means of.
fn title(axes: &[Axis], id: &str, known: &Value) -> String {
    let label = known["label"].as_str().unwrap_or(id);
    match axes.iter().find(|axis| axis.key == SEED) {
        Some(seeds) if seeds.values.len() > 1 => format!("{label}, mean over {} seeds", seeds.values.len()),
        _ => label.to_owned(),
    }
}

fn is_log(numbers: &[f64]) -> bool {
    let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let most = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    least > 0.0 && most / least >= LOG_FROM
}

/// A chart of lines: over the axis of numbers with the most values, or over words if there is none; a line for each
/// combination of the other axes' values. `None` if nothing varies, or there would be too many lines.
fn lines(axes: &[Axis], rows: &Rows<'_>, id: &str, known: &Value) -> Option<Value> {
    let varied = match varied(axes) {
        none if none.is_empty() => (0..axes.len()).filter(|&at| axes[at].values.len() > 1).collect(),
        varied => varied,
    };
    let rank = |at: &usize| (numbers(&axes[*at]).is_some(), axes[*at].values.len());
    let x = *varied.iter().max_by_key(|&at| rank(at))?;
    let others: Vec<usize> = varied.iter().copied().filter(|&at| at != x).collect();
    let lengths: Vec<usize> = others.iter().map(|&at| axes[at].values.len()).collect();
    if lengths.iter().try_fold(1usize, |all, &length| all.checked_mul(length))? > MOST_LINES {
        return None;
    }
    let series = cells(&lengths).map(|cell| {
        let fixed: Vec<(usize, &String)> =
            others.iter().zip(cell).map(|(&axis, value)| (axis, &axes[axis].values[value])).collect();
        let name =
            fixed.iter().map(|(axis, value)| format!("{} {value}", axes[*axis].key)).collect::<Vec<_>>().join(", ");
        let at = |value| mean(rows, id, &[&fixed[..], &[(x, value)]].concat());
        json!({"name": name, "values": axes[x].values.iter().map(at).collect::<Vec<_>>()})
    });
    let numbers = numbers(&axes[x]);
    let log = numbers.as_deref().is_some_and(is_log);
    Some(json!({
        "id": id,
        "title": title(axes, id, known),
        "unit": known["unit"],
        "x": {"label": axes[x].key, "log": log, "values": axes[x].values, "numbers": numbers},
        "series": series.collect::<Vec<_>>(),
    }))
}

/// A contour chart, if exactly two axes of numbers vary.
fn contours(axes: &[Axis], rows: &Rows<'_>, id: &str, known: &Value) -> Option<Figure> {
    let varied = varied(axes);
    let [y, x] = varied[..] else { return None };
    let sorted = |at: usize| {
        let mut pairs: Vec<(f64, &String)> = numbers(&axes[at])?.into_iter().zip(&axes[at].values).collect();
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
        Some(pairs)
    };
    let (columns, lines) = (sorted(x)?, sorted(y)?);
    let axis = |at: usize, pairs: &[(f64, &String)]| {
        let values: Vec<f64> = pairs.iter().map(|(number, _)| *number).collect();
        FigureAxis { label: axes[at].key.clone(), log: is_log(&values), values }
    };
    let row = |(_, line): &(f64, &String)| {
        columns.iter().map(|(_, column)| mean(rows, id, &[(x, column), (y, line)])).collect()
    };
    let z: Vec<Vec<Option<f64>>> = lines.iter().map(row).collect();
    let known_values = || z.iter().flatten().flatten().copied();
    let (least, most) =
        (known_values().fold(f64::INFINITY, f64::min), known_values().fold(f64::NEG_INFINITY, f64::max));
    if least >= most {
        return None;
    }
    let step = (most - least) / (CONTOURS + 1) as f64;
    Some(Figure {
        id: id.to_owned(),
        title: title(axes, id, known),
        unit: known["unit"].as_str().unwrap_or("").to_owned(),
        x: axis(x, &columns),
        y: axis(y, &lines),
        levels: round_levels(least, most, step),
        z,
        marks: Vec::new(),
    })
}

/// Round numbers between two bounds, about `step` apart: multiples of 1, 2 or 5 times a power of ten.
fn round_levels(least: f64, most: f64, step: f64) -> Vec<f64> {
    let power = 10f64.powf(step.log10().floor());
    let round = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power).into_iter().find(|&round| round >= step);
    let round = round.unwrap_or(10.0 * power);
    let first = (least / round).floor() as i64 + 1;
    (first..).map(|at| at as f64 * round).take_while(|&level| level < most).collect()
}

fn number(value: f64) -> String {
    if value >= 10_000.0 { grouped(value.round() as u64) } else { four_digits(value) }
}

/// Where each metric is least and greatest, a sentence for each that differs.
pub fn answer(axes: &[Axis], rows: &Rows<'_>, metrics: &[String]) -> Vec<String> {
    let place = |point: &Point| {
        let pairs = axes.iter().zip(&point.values).map(|(axis, value)| format!("{} {value}", axis.key));
        pairs.collect::<Vec<_>>().join(", ")
    };
    let line = |id: &String| {
        let with = |(point, found): &(&'_ Point, &Row)| Some((place(point), found.metrics.value(id).ok()?));
        let values: Vec<(String, f64)> = rows.iter().filter_map(with).collect();
        let metric = rows.iter().flat_map(|(_, found)| found.metrics.all()).find(|metric| metric.id == *id)?;
        let unit = if metric.unit.is_empty() { String::new() } else { format!(" {}", metric.unit) };
        let least = values.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
        let most = values.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let times = if least.1 > 0.0 { format!(", {:.2} times", most.1 / least.1) } else { String::new() };
        let text = format!(
            "{}: from {}{unit} ({}) to {}{unit} ({}){times}.",
            metric.label,
            number(least.1),
            least.0,
            number(most.1),
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
    fn contour_lines_are_at_round_numbers() {
        assert_eq!(round_levels(1.3, 9.8, 8.5 / 7.0), [2.0, 4.0, 6.0, 8.0]);
        assert_eq!(round_levels(0.0, 700.0, 100.0), [100.0, 200.0, 300.0, 400.0, 500.0, 600.0]);
    }

    #[test]
    fn axes_that_span_a_wide_range_are_logarithmic() {
        assert!(is_log(&[1.0, 4.0, 32.0]) && !is_log(&[7.0, 28.0, 50.0]) && !is_log(&[0.0, 100.0]));
    }

    #[test]
    fn an_axis_of_words_has_no_numbers() {
        let axis = |text: &str| Axis::parse(text).unwrap();
        assert_eq!(numbers(&axis("workload.depth=1,32,1_024")), Some(vec![1.0, 32.0, 1024.0]));
        assert_eq!(numbers(&axis("ssd.ftl.gc=greedy,fifo")), None);
    }
}
