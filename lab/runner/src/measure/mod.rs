//! Metrics: every number of a run that a claim, a table or a script may use, by a stable id.
//!
//! An id is dotted and uses the field's words (`write.p99_us`, `wear.first64.mean`, `gc.pages_copied`); `known` has its
//! unit, label and meaning. A label is for people and may be reworded; an id may not. A metric that a run does not have
//! (`trim.iops` of a load without TRIM, a ratio to 0) is absent, never zero or NaN.

pub(crate) mod books;
pub mod chain;
mod drive;
mod file_system;
mod flash;
mod guest;
mod jffs1;
mod known;
pub(crate) mod latencies;
pub mod life;
pub(crate) mod meter;
pub(crate) mod metered;
pub mod outcome;
mod ubiblock;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use serde_json::json;

pub use drive::of_drive;
pub use flash::{of_flash, of_load_in_guest, of_raw_flash};
pub use jffs1::of_jffs;
pub use known::{ALL, Known, markdown};
pub use outcome::{Detail, Measured, Outcome};

/// Nanoseconds per microsecond, the unit of times in metrics.
const NS_PER_US: f64 = 1e3;
/// Nanoseconds per second.
const NS_PER_S: f64 = 1e9;

/// A measured number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Stable name for claims and scripts.
    pub id: String,
    /// Value; finite.
    pub value: f64,
    /// Its unit; empty for a plain count or a ratio.
    pub unit: String,
    /// Label for people; may be reworded.
    pub label: String,
}

/// The metrics of a run, in the order of measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Metrics(Vec<Metric>);

impl Metrics {
    /// Adds a metric; ignores a value that is not finite.
    /// Panics if the table of metrics lacks the id, which is our bug.
    pub fn put(&mut self, id: &str, value: f64) {
        let (known, parts) = known::of(id).unwrap_or_else(|| panic!("the table of metrics lacks `{id}`"));
        if value.is_finite() {
            let label = parts.iter().fold(known.label.to_owned(), |label, part| label.replacen("{}", part, 1));
            self.0.push(Metric { id: id.to_owned(), value, unit: known.unit.to_owned(), label });
        }
    }

    /// Adds `part / whole`; nothing if `whole` is 0.
    fn put_ratio(&mut self, id: &str, part: f64, whole: f64) {
        self.put(id, if whole == 0.0 { f64::NAN } else { part / whole });
    }

    /// Empties the labels, which may be reworded.
    fn drop_labels(&mut self) {
        self.0.iter_mut().for_each(|metric| metric.label.clear());
    }

    /// All metrics.
    pub fn all(&self) -> &[Metric] {
        &self.0
    }

    /// Metrics for the table of counters on the report page: those that its other sections do not show.
    pub fn counters(&self) -> Vec<serde_json::Value> {
        let shown = |id: &str| {
            let (group, rest) = id.split_once('.').unwrap_or((id, ""));
            // Latencies of operations on files have a table of their own.
            if group == "fs" && rest.contains('.') && !rest.starts_with("failed.") {
                return true;
            }
            ["all", "read", "write", "flush", "trim", "leb_write", "program", "erase", "phase", "programmed", "erased"]
                .contains(&group)
        };
        let row = |metric: &Metric| json!({"id": metric.id, "name": metric.label, "value": metric.value, "unit": metric.unit});
        self.0.iter().filter(|metric| !shown(&metric.id)).map(row).collect()
    }

    /// The value of a metric.
    /// Errors, in words: the run lacks the metric; no run has it, with the nearest id.
    pub fn value(&self, id: &str) -> Result<f64, String> {
        if let Some(metric) = self.0.iter().find(|metric| metric.id == id) {
            return Ok(metric.value);
        }
        if let Some((known, _)) = known::of(id) {
            // Names that the run gave may be misspelt.
            let own = self.0.iter().map(|metric| metric.id.as_str()).filter(|_| known.id.contains("<name>"));
            let nearest = crate::schema::nearest(id, own);
            let hint = nearest.map_or(String::new(), |nearest| format!("; did you mean `{nearest}`?"));
            return Err(format!("the run has no `{id}`{hint}"));
        }
        Err(unknown(id, self.0.iter().map(|metric| metric.id.as_str())))
    }
}

/// Checks that a run may have the metric.
/// Errors, in words: none has, with the nearest id.
pub fn check_metric(id: &str) -> Result<(), String> {
    known::of(id).map(drop).ok_or_else(|| unknown(id, []))
}

/// That no run has a metric, with the nearest id of `own` and of all.
fn unknown<'a>(id: &str, own: impl IntoIterator<Item = &'a str>) -> String {
    let ids = own.into_iter().chain(ALL.iter().map(|known| known.id));
    let nearest = crate::schema::nearest(id, ids.filter(|id| !id.contains('<')));
    format!("no metric `{id}`{}", nearest.map_or(String::new(), |nearest| format!("; did you mean `{nearest}`?")))
}

/// Points of a cumulative distribution, at most some 400: latency, and share of operations at or below it.
pub(crate) fn cdf(latency: &Histogram<u64>) -> Vec<(u64, f64)> {
    let total = latency.len().max(1) as f64;
    let mut below = 0u64;
    let points: Vec<_> = latency
        .iter_recorded()
        .map(|value| {
            below += value.count_since_last_iteration();
            (value.value_iterated_to(), below as f64 / total)
        })
        .collect();
    let thin = points.len().div_ceil(400).max(1);
    let last = points.len().saturating_sub(1);
    let kept = points.iter().enumerate().filter(|(i, _)| i.is_multiple_of(thin) || *i == last);
    kept.map(|(_, &point)| point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_takes_unit_and_label_from_the_table() {
        let mut metrics = Metrics::default();
        metrics.put("phase.2.mb_s", 3.5);
        metrics.put("waf", f64::NAN);
        let [metric] = metrics.all() else { panic!("{metrics:?}") };
        assert_eq!((metric.unit.as_str(), metric.label.as_str()), ("MB/s", "phase 2: throughput"));
        assert_eq!(metrics.value("phase.2.mb_s"), Ok(3.5));
    }

    #[test]
    fn what_a_run_lacks_differs_from_what_nobody_knows() {
        let mut metrics = Metrics::default();
        metrics.put("write.iops", 1.0);
        assert_eq!(metrics.value("read.iops").unwrap_err(), "the run has no `read.iops`");
        assert_eq!(metrics.value("write.ipos").unwrap_err(), "no metric `write.ipos`; did you mean `write.iops`?");
        assert_eq!(metrics.value("elephants").unwrap_err(), "no metric `elephants`");
    }
}
