//! The report: the document with results, and the page that displays it.
//!
//! The page is built from `web/` and committed. The page draws, this module computes.

pub mod answer;
pub mod drive;
pub mod ended;
pub mod figure;
pub mod fio;
mod flash;
pub mod sweep;

use serde_json::{Value, json};

use crate::measure::{Detail, Outcome};
use crate::schema::Experiment;

/// The page, with a placeholder for the document.
const PAGE: &str = include_str!("../../../../web/dist/report.html");
/// The placeholder.
const PLACE: &str = "/*NANDLAB_DATA*/";

/// A fingerprint that is not known while the run goes on.
const UNKNOWN: &str = "known at the end";

/// A run and its name on the page.
pub type Named<'a> = (String, &'a Outcome);

/// The document of one or several runs; the seed is that of the first.
pub fn of_runs(runs: &[Named<'_>]) -> Value {
    let Some((_, first)) = runs.first() else { return Value::Null };
    let experiment = &first.experiment;
    let heading = match runs {
        [_] => Heading {
            title: &experiment.title,
            question: &experiment.question,
            seed: experiment.seed,
            fingerprint: first.fingerprint.clone(),
        },
        _ => Heading {
            title: "several runs",
            question: "",
            seed: experiment.seed,
            fingerprint: shortened(runs.iter().map(|(_, run)| &run.fingerprint)),
        },
    };
    document(&heading, runs)
}

/// Inserts a document into the page; the result is one file that opens from disk.
pub fn page(document: &Value) -> String {
    let text = document.to_string().replace('<', "\\u003c");
    PAGE.replacen(PLACE, &text, 1)
}

/// The page of a run that goes on, whose documents are events of `url`, at the server that has the page.
pub fn live_page(url: &str) -> String {
    page(&json!({"events": url})).replacen("connect-src 'none'", "connect-src 'self'", 1)
}

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct LiveState<'a> {
    /// Its progress.
    pub done: f64,
    /// Virtual time in nanoseconds.
    pub virtual_ns: u64,
    /// Requests or erasures so far.
    pub work: u64,
    /// What `work` counts.
    pub unit: &'a str,
    /// Work in a second of real time, of late.
    pub per_s: f64,
}

/// An event before anything was measured.
pub fn awaited(experiment: &Experiment) -> Value {
    let heading = Heading {
        title: &experiment.title,
        question: &experiment.question,
        seed: experiment.seed,
        fingerprint: UNKNOWN.to_owned(),
    };
    let mut document = document(&heading, &[]);
    document["experiment_toml"] = json!(experiment.to_toml());
    document
}

/// An event of a run that goes on: what it has measured so far.
pub fn so_far(outcome: &Outcome, state: &LiveState<'_>) -> Value {
    let mut document = of_runs(&[(outcome.experiment.title.clone(), outcome)]);
    document["fingerprint"] = json!(UNKNOWN);
    document["runs"][0]["ended"] = Value::Null;
    let LiveState { done, virtual_ns, work, unit, per_s } = *state;
    document["live"] = json!({"done": done, "virtual_ns": virtual_ns, "work": work, "unit": unit, "per_s": per_s});
    document
}

/// Heading of a page.
pub struct Heading<'a> {
    /// Title.
    pub title: &'a str,
    /// The question that the runs answer; may be empty.
    pub question: &'a str,
    /// Seed of the first run.
    pub seed: u64,
    /// Fingerprints of the results.
    pub fingerprint: String,
}

/// The first eight digits of each fingerprint.
pub fn shortened<'a>(fingerprints: impl Iterator<Item = &'a String>) -> String {
    fingerprints.map(|text| &text[..text.len().min(8)]).collect::<Vec<_>>().join(" ")
}

fn tile(label: &str, value: String) -> Value {
    json!({"label": label, "value": value})
}

/// The document of runs under a heading; its list of studies is empty.
pub fn document(heading: &Heading<'_>, runs: &[Named<'_>]) -> Value {
    let summary = match runs {
        [(_, run)] => match &run.measured.detail {
            Detail::Flash(detail) => flash::summary(run, detail),
            Detail::Drive(detail) | Detail::Ubiblock(detail) => drive::summary(run, detail),
        },
        _ => Vec::new(),
    };
    let seed = heading.seed;
    json!({
        "schema": "nandlab-report/1",
        "title": heading.title,
        "question": heading.question,
        "version": env!("CARGO_PKG_VERSION"),
        "model_version": crate::MODEL_VERSION,
        // JavaScript represents integers exactly only up to this value.
        "seed": if seed < 1 << 53 { json!(seed) } else { json!(seed.to_string()) },
        "fingerprint": heading.fingerprint,
        "summary": summary,
        "comparison": answer::comparison(runs),
        "experiment_toml": runs.iter().map(|(_, run)| run.experiment.to_toml()).collect::<Vec<_>>().join("\n# ---\n\n"),
        "runs": runs.iter().map(|(name, outcome)| run(name, outcome)).collect::<Vec<_>>(),
        "studies": [],
    })
}

/// A run in the document: what every run has, then what its subject has.
fn run(name: &str, outcome: &Outcome) -> Value {
    let mut drawn = match &outcome.measured.detail {
        Detail::Flash(detail) => flash::run(outcome, detail),
        Detail::Drive(detail) | Detail::Ubiblock(detail) => drive::run(outcome, detail),
    };
    drawn["name"] = json!(name);
    drawn["part"] = json!(outcome.part);
    drawn["answer"] = json!(answer::of(outcome));
    drawn["counters"] = json!(outcome.metrics().counters());
    drawn["ended"] = json!(ended::of(outcome));
    drawn
}

/// A number with thousands separators.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number with at most four significant digits, and all digits before the point.
pub fn four_digits(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let before = value.abs().log10().floor() as i32 + 1;
    let digits = (4 - before).clamp(0, 9) as usize;
    let text = format!("{value:.digits$}");
    if digits == 0 { text } else { text.trim_end_matches('0').trim_end_matches('.').to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_one_place_for_the_document() {
        assert_eq!(PAGE.matches(PLACE).count(), 1);
        assert_eq!(PAGE.matches("connect-src 'none'").count(), 1);
    }

    #[test]
    fn a_document_cannot_end_its_script() {
        let page = page(&json!({"title": "</script><script>alert(1)</script>"}));
        assert!(!page.contains("</script><script>alert"));
    }

    #[test]
    fn numbers_keep_four_digits() {
        let shown = [0.0, 0.001_234_56, 1.0, 1.5, 100.0, 9999.6].map(four_digits);
        assert_eq!(shown, ["0", "0.001235", "1", "1.5", "100", "10000"]);
    }

    #[test]
    fn thousands_stand_apart() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
