//! Metrics of a guest: those that its job states by marks.

use std::collections::{BTreeMap, BTreeSet};

use super::outcome::guest::GuestOutcome;
use super::{Metrics, NS_PER_S, known};

/// Most names that become metrics.
const MOST_NAMES: usize = 1_000;

/// Adds the metrics of a guest. A mark `value NAME NUMBER` is `guest.value.NAME`, the last of its name; a mark of one word
/// is `guest.mark.WORD_s`, the first of its word.
pub(super) fn put(metrics: &mut Metrics, guest: &GuestOutcome) {
    let since = |at_ns: u64| at_ns.saturating_sub(guest.began_ns) as f64 / NS_PER_S;
    guest.exit.iter().for_each(|&code| metrics.put("guest.exit", f64::from(code)));
    guest.ended_ns.iter().for_each(|&at| metrics.put("guest.job_s", since(at)));
    let mut values = BTreeMap::new();
    let mut words = BTreeSet::new();
    for mark in &guest.marks {
        if let Some((name, value)) = value(&mark.text) {
            if values.len() < MOST_NAMES || values.contains_key(name) {
                values.insert(name, value);
            }
        } else if known::is_name(&mark.text) && words.len() < MOST_NAMES && words.insert(mark.text.as_str()) {
            metrics.put(&format!("guest.mark.{}_s", mark.text), since(mark.at_ns));
        }
    }
    values.into_iter().for_each(|(name, value)| metrics.put(&format!("guest.value.{name}"), value));
}

/// Name and number of a mark `value NAME NUMBER`.
fn value(text: &str) -> Option<(&str, f64)> {
    let mut words = text.split_ascii_whitespace();
    let (Some("value"), Some(name), Some(number), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return None;
    };
    let number: f64 = number.parse().ok()?;
    (known::is_name(name) && number.is_finite()).then_some((name, number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::outcome::guest::Mark;

    fn metrics(marks: &[(u64, &str)]) -> Metrics {
        let mut metrics = Metrics::default();
        let marks = marks.iter().map(|&(at_ns, text)| Mark { at_ns, text: text.to_owned() }).collect();
        let guest = GuestOutcome {
            linux: String::new(),
            began_ns: 2_000_000_000,
            ended_ns: Some(5_500_000_000),
            exit: Some(3),
            output: String::new(),
            marks,
            refused: None,
            console: String::new(),
        };
        put(&mut metrics, &guest);
        metrics
    }

    #[test]
    fn a_word_is_a_time_since_the_job_began_and_a_value_is_a_number() {
        let found = metrics(&[
            (3_000_000_000, "created"),
            (4_000_000_000, "created"),
            (4_250_000_000, "gc-done_2"),
            (4_500_000_000, "value mb_read 1.5e3"),
            (4_600_000_000, "value mb_read 12.25"),
        ]);
        for (id, value) in [
            ("guest.exit", 3.0),
            ("guest.job_s", 3.5),
            ("guest.mark.created_s", 1.0),
            ("guest.mark.gc-done_2_s", 2.25),
            ("guest.value.mb_read", 12.25),
        ] {
            assert_eq!(found.value(id), Ok(value), "{id}");
        }
        let label = |id: &str| found.all().iter().find(|metric| metric.id == id).unwrap().label.clone();
        assert_eq!(label("guest.mark.created_s"), "time of the mark created");
        assert_eq!(
            found.value("guest.mark.craeted_s").unwrap_err(),
            "the run has no `guest.mark.craeted_s`; did you mean `guest.mark.created_s`?"
        );
    }

    #[test]
    fn other_marks_are_no_metrics() {
        let long = "x".repeat(65);
        let others =
            ["done 1", "Created", "value a", "value a b", "value a inf", "value A 1", "value a 1 2", "", &long];
        let found = metrics(&others.map(|text| (3_000_000_000, text)));
        assert_eq!(found.all().len(), 2, "{:?}", found.all());
    }
}
