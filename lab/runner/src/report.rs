//! The report: the document that the page draws, and the page with the document in it.
//!
//! The page is built from `web/` and committed; nothing here draws, and nothing there computes.

use serde_json::{Value, json};

use crate::outcome::{HEAD_PEBS, Outcome};
use crate::ssd;
use crate::study::{Found, Judgement};

/// The page, with a place for the document.
const PAGE: &str = include_str!("../../../web/dist/report.html");
/// That place.
const PLACE: &str = "/*NANDLAB_DATA*/";

/// The document of one run.
pub fn of_run(outcome: &Outcome) -> Value {
    let experiment = &outcome.experiment;
    document(
        &experiment.title,
        &experiment.question,
        experiment.seed,
        &outcome.fingerprint,
        summary(outcome),
        &[(experiment.title.clone(), experiment.to_toml(), run(&experiment.title, outcome))],
        &[],
    )
}

/// The document of several runs and studies.
pub fn of_studies(title: &str, runs: &[(String, &Found)], judgements: &[Judgement]) -> Value {
    let question = judgements.iter().map(|judgement| judgement.question.as_str()).collect::<Vec<_>>().join(" ");
    let seed = judgements.first().map_or(1, |judgement| judgement.seed);
    let fingerprint = judgements
        .iter()
        .flat_map(|judgement| &judgement.fingerprints)
        .map(|(_, fingerprint)| &fingerprint[..fingerprint.len().min(8)])
        .collect::<Vec<_>>()
        .join(" ");
    let tile = |label: &str, value: String| json!({"label": label, "value": value});
    let summary = match runs {
        [] => Vec::new(),
        [(_, Found::Wear(outcome))] => summary(outcome),
        [(_, Found::Ssd(outcome))] => ssd::report::summary(outcome, 1),
        _ => vec![tile("runs", runs.len().to_string()), tile("model version", crate::MODEL_VERSION.to_string())],
    };
    let drawn = |(name, found): &(String, &Found)| match found {
        Found::Wear(outcome) => (name.clone(), outcome.experiment.to_toml(), run(name, outcome)),
        Found::Ssd(outcome) => (name.clone(), outcome.experiment.to_toml(), ssd::report::run(name, outcome)),
    };
    let drawn: Vec<_> = runs.iter().map(drawn).collect();
    document(title, &question, seed, &fingerprint, summary, &drawn, judgements)
}

/// The page with a document in it: one file that opens from disk.
pub fn page(document: &Value) -> String {
    let text = document.to_string().replace('<', "\\u003c");
    PAGE.replacen(PLACE, &text, 1)
}

/// A document of runs, each with its name, its experiment and what the page draws of it.
fn document(
    title: &str,
    question: &str,
    seed: u64,
    fingerprint: &str,
    summary: Vec<Value>,
    runs: &[(String, String, Value)],
    judgements: &[Judgement],
) -> Value {
    json!({
        "schema": "nandlab-report/1",
        "title": title,
        "question": question,
        "version": env!("CARGO_PKG_VERSION"),
        "model_version": crate::MODEL_VERSION,
        "seed": if seed < 1 << 53 { json!(seed) } else { json!(seed.to_string()) },
        "fingerprint": fingerprint,
        "summary": summary,
        "experiment_toml": runs.iter().map(|(_, toml, _)| toml.as_str()).collect::<Vec<_>>().join("\n# ---\n\n"),
        "runs": runs.iter().map(|(_, _, run)| run).collect::<Vec<_>>(),
        "studies": judgements,
    })
}

fn summary(outcome: &Outcome) -> Vec<Value> {
    let tile = |label: &str, value: String| json!({"label": label, "value": value});
    let (peb, ec) = outcome.most_worn();
    let groups = &outcome.groups;
    vec![
        tile("PEBs", grouped(outcome.erase_counts.len() as u64)),
        tile("erasures", grouped(outcome.erase_counts.iter().map(|&ec| u64::from(ec)).sum())),
        tile("first 64, mean", grouped(groups.first64.avg)),
        tile("others, mean", grouped(groups.others.avg)),
        tile("first 64 over others", format!("{:.2}", outcome.head_ratio())),
        tile("most worn", format!("PEB {peb}: {}", grouped(u64::from(ec)))),
        tile("fastmap writes per PEB", format!("{:.4}", outcome.fastmap.writes_per_user_peb)),
        tile("stopped by", outcome.stopped_by.clone()),
    ]
}

fn run(name: &str, outcome: &Outcome) -> Value {
    let pebs = outcome.erase_counts.len();
    let endurance = outcome.experiment.nand.as_ref().map_or(0, |nand| nand.endurance);
    json!({
        "name": name,
        "wear": {
            "erase_counts": outcome.erase_counts,
            "groups": [
                {"name": "first 64", "from": 0, "to": HEAD_PEBS.min(pebs)},
                {"name": "others", "from": HEAD_PEBS.min(pebs), "to": pebs},
            ],
            "endurance": if endurance == 0 { Value::Null } else { json!(endurance) },
        },
        "timeline": outcome.timeline.iter().map(|point| json!({
            "t_ns": point.t_ns,
            "erases": point.erases,
            "free": point.free,
            "waf": point.waf,
            "groups": [point.groups.first64, point.groups.others],
        })).collect::<Vec<_>>(),
        "causes": outcome.programmed_bytes.iter().map(|(cause, bytes)| json!({"cause": cause, "bytes": bytes})).collect::<Vec<_>>(),
        "erase_causes": outcome.erases_by_cause.iter().map(|(cause, erases)| json!({"cause": cause, "erases": erases})).collect::<Vec<_>>(),
        "latency": outcome.latency,
        "counters": outcome.metrics.counters(),
    })
}

/// A number with its thousands apart.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_one_place_for_the_document() {
        assert_eq!(PAGE.matches(PLACE).count(), 1);
    }

    #[test]
    fn a_document_cannot_end_its_script() {
        let page = page(&json!({"title": "</script><script>alert(1)</script>"}));
        assert!(!page.contains("</script><script>alert"));
    }

    #[test]
    fn thousands_stand_apart() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
