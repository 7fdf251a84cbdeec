//! Bar charts: a measure of runs that differ in two words, such as a file system and a workload.
//!
//! A grid varies keys over numbers; its picture has axes. Where a study compares things by name there is nothing
//! between two of them, so a `[[bars]]` of `study.toml` draws a bar for each run of `[[run]]` that it names: groups from
//! left to right, in each group a bar per series. `docs/format/study.md` describes the keys.

use runner::measure::Outcome;
use serde::{Deserialize, Serialize};

use super::expression::Expression;
use super::guest::MissingLog;
use super::{RunSpec, measure};

/// A bar chart in `study.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BarsSpec {
    /// Title of the chart.
    pub title: String,
    /// Unit of the bars' values.
    #[serde(default)]
    pub unit: String,
    /// Value of a bar: arithmetic over measures, in which `run` stands for the bar's run.
    pub measure: String,
    /// Id of a bar's run, in which `{group}` and `{series}` stand for the names.
    pub run: String,
    /// Names of the groups, from left to right.
    pub groups: Vec<String>,
    /// Names of the bars of each group, from left to right.
    pub series: Vec<String>,
    /// Whether the axis of values is logarithmic.
    #[serde(default)]
    pub log: bool,
}

/// A bar chart of a judged study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BarChart {
    /// Title of the chart.
    pub title: String,
    /// Unit of `values`.
    pub unit: String,
    /// Whether the axis of values is logarithmic.
    pub log: bool,
    /// Names of the groups.
    pub groups: Vec<String>,
    /// Names of the bars of each group.
    pub series: Vec<String>,
    /// A row per group, in it a value per series; `None` if there is no such run or it lacks the measure.
    pub values: Vec<Vec<Option<f64>>>,
}

/// Whether names are distinct and not empty.
fn are_names(names: &[String]) -> bool {
    let mut sorted: Vec<&String> = names.iter().collect();
    sorted.sort();
    !names.is_empty() && names.iter().all(|name| !name.is_empty()) && sorted.windows(2).all(|pair| pair[0] != pair[1])
}

impl BarsSpec {
    fn id(&self, group: &str, series: &str) -> String {
        self.run.replace("{group}", group).replace("{series}", series)
    }

    /// Checks a chart against the ids of the study's runs.
    /// Errors: what is wrong, with the key.
    pub(super) fn check(&self, runs: &[RunSpec]) -> Result<(), String> {
        for (key, names) in [("groups", &self.groups), ("series", &self.series)] {
            if !are_names(names) {
                return Err(format!("`{key}`: found {names:?}, expected names that differ, at least one"));
            }
        }
        let expression = Expression::parse(&self.measure).map_err(|what| format!("`measure`: {what}"))?;
        if expression.runs().iter().all(|name| *name != "run") {
            return Err(format!("`measure`: found `{}`, expected a metric of `run`, as `waf(run)`", self.measure));
        }
        let named = |group: &String, series: &String| {
            let id = self.id(group, series);
            runs.iter().any(|run| run.id == id)
        };
        // A combination may have no run, but a name without any is a misspelt one.
        let lonely = |key: &str, name: &String| {
            format!(
                "`{key}`: no run `{}` is one of `{name}`; `run` makes ids of `{{group}}` and `{{series}}`",
                self.run
            )
        };
        if let Some(group) = self.groups.iter().find(|group| !self.series.iter().any(|series| named(group, series))) {
            return Err(lonely("groups", group));
        }
        match self.series.iter().find(|series| !self.groups.iter().any(|group| named(group, series))) {
            Some(series) => Err(lonely("series", series)),
            None => Ok(()),
        }
    }

    /// The chart. A value that is not finite is left out, as is one that a logarithmic axis cannot show. There is no chart
    /// if no bar has a value, and logs of its runs are missing.
    /// Errors: no bar has a value though none is missing, and why the first has none.
    pub(super) fn chart(
        &self,
        found: &[(RunSpec, Outcome)],
        missing: &[MissingLog],
    ) -> Result<Option<BarChart>, String> {
        let expression = Expression::parse(&self.measure)?;
        let mut why = None;
        let mut value = |group: &String, series: &String| {
            let id = self.id(group, series);
            let run_of = |name: &str| if name == "run" { id.clone() } else { name.to_owned() };
            let value = expression.value(&|what, run| measure::of_run(what, &run_of(run), found));
            let value = value.map_err(|what| why.get_or_insert(what).clone()).ok();
            value.filter(|value| value.is_finite() && (!self.log || *value > 0.0))
        };
        let mut row = |group| self.series.iter().map(|series| value(group, series)).collect::<Vec<_>>();
        let values: Vec<Vec<Option<f64>>> = self.groups.iter().map(&mut row).collect();
        if values.iter().flatten().flatten().count() == 0 {
            let ids = self.groups.iter().flat_map(|group| self.series.iter().map(|series| self.id(group, series)));
            if ids.into_iter().any(|id| missing.iter().any(|log| log.run == id)) {
                return Ok(None);
            }
            return Err(format!("no bar has a value: {}", why.unwrap_or_else(|| "no number is finite".to_owned())));
        }
        let BarsSpec { title, unit, groups, series, log, .. } = self.clone();
        Ok(Some(BarChart { title, unit, log, groups, series, values }))
    }
}

#[cfg(test)]
mod tests {
    use runner::parts::Library;

    use crate::{Finished, MissingLog, Source, StudyError};

    const STUDY: &str = "kind = 'ssd'
question = 'How fast?'
run = [
    { id = 'read-1', title = 'r1', set = { 'workload.rw' = 'randread', 'ssd.front.depth' = 1 } },
    { id = 'read-8', title = 'r8', set = { 'workload.rw' = 'randread', 'ssd.front.depth' = 8, 'workload.depth' = 8 } },
    { id = 'write-1', title = 'w1', set = { 'workload.rw' = 'randwrite', 'ssd.front.depth' = 1 } },
]
[base]
title = 'base'
seed = 1
[base.ssd]
channels = 2
ways = 1
planes = 1
blocks = 16
pages = 16
over_provisioning_percent = 40
[base.precondition]
kind = 'sequential'
[base.workload]
requests = 200
[[bars]]
title = 'Rate'
unit = '1/s'
measure = 'all.iops(run) / 2'
run = '{group}-{series}'
groups = ['read', 'write']
series = ['1', '8']
";

    fn finished(text: &str) -> Result<Finished, StudyError> {
        let source = Source { name: "tiny".into(), toml: text.to_owned().into(), published: "{}".into() };
        crate::run(&source, false, Library::embedded(), &(), &|_, _| ())
    }

    fn refused(from: &str, to: &str) -> String {
        assert!(STUDY.contains(from), "{from}");
        finished(&STUDY.replace(from, to)).map(|done| done.judgement).unwrap_err().to_string()
    }

    #[test]
    fn a_bar_is_the_measure_of_its_run_and_one_without_a_run_is_empty() {
        let done = finished(STUDY).unwrap();
        let [bars] = &done.judgement.bars[..] else { panic!("{:?}", done.judgement.bars) };
        let rate = |title: &str| {
            let (_, found) = done.runs.iter().find(|(name, _)| name == title).unwrap();
            Some(found.metrics().value("all.iops").unwrap() / 2.0)
        };
        assert_eq!(bars.values, vec![vec![rate("r1"), rate("r8")], vec![rate("w1"), None]]);
        let json = serde_json::to_value(&done.judgement).unwrap();
        assert_eq!(json["bars"][0]["groups"], serde_json::json!(["read", "write"]));
        assert_eq!(serde_json::from_value::<crate::Judgement>(json).unwrap(), done.judgement);
    }

    #[test]
    fn names_differ_and_are_not_empty() {
        let are = |names: &[&str]| super::are_names(&names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
        assert!(are(&["a"]) && are(&["b", "a", "ab"]));
        assert!(!are(&[]) && !are(&[""]) && !are(&["a", ""]) && !are(&["a", "b", "a"]));
    }

    /// The first read is compared with itself: 0, and 1 over it is not finite. The queued one is faster, a write slower.
    #[test]
    fn a_bar_that_its_axis_cannot_show_is_left_out() {
        let signs = |measure: &str, log: bool| {
            let text = STUDY.replace("all.iops(run) / 2", measure) + if log { "log = true\n" } else { "" };
            let bars = finished(&text).unwrap().judgement.bars.remove(0);
            assert_eq!(bars.log, log);
            let sign = |value: &Option<f64>| {
                value.map(|value| {
                    if value > 0.0 {
                        '+'
                    } else if value < 0.0 {
                        '-'
                    } else {
                        '0'
                    }
                })
            };
            bars.values.iter().map(|row| row.iter().map(sign).collect::<Vec<_>>()).collect::<Vec<_>>()
        };
        let difference = "all.iops(run) - all.iops(read-1)";
        let all = [vec![Some('0'), Some('+')], vec![Some('-'), None]];
        assert_eq!(signs(difference, false), all);
        assert_eq!(signs(difference, true), [vec![None, Some('+')], vec![None, None]]);
        let inverse = format!("1 / ({difference})");
        assert_eq!(signs(&inverse, false), [vec![None, Some('+')], vec![Some('-'), None]]);
        let none = refused("all.iops(run) / 2", "all.iops(run) / 0");
        assert!(none.contains("no bar has a value"), "{none}");
    }

    #[test]
    fn a_chart_that_names_nothing_is_refused_with_its_key() {
        for (from, to, says) in [
            ("groups = ['read', 'write']", "groups = ['read', 'wite']", "`groups`: no run"),
            ("series = ['1', '8']", "series = ['1', '9']", "`series`: no run"),
            ("series = ['1', '8']", "series = ['1', '1']", "expected names that differ"),
            ("series = ['1', '8']", "series = []", "at least one"),
            ("all.iops(run) / 2", "all.iops(read-1)", "expected a metric of `run`"),
            ("all.iops(run) / 2", "all.iops(run", "`measure`"),
            ("all.iops(run) / 2", "all.iopps(run)", "no metric `all.iopps`"),
        ] {
            let message = refused(from, to);
            assert!(message.contains(says) && message.contains("Rate"), "{to}: {message}");
        }
    }

    /// A log that is missing excuses an empty chart only if it is the log of one of the chart's runs.
    #[test]
    fn a_chart_without_a_value_waits_for_logs_of_its_own_runs_alone() {
        let spec = super::BarsSpec {
            title: "Rate".to_owned(),
            unit: String::new(),
            measure: "all.iops(run)".to_owned(),
            run: "{group}-{series}".to_owned(),
            groups: vec!["read".to_owned(), "write".to_owned()],
            series: vec!["1".to_owned(), "8".to_owned()],
            log: false,
        };
        let of = |run: &str| MissingLog { run: run.to_owned(), command: String::new() };
        for (missing, waits) in [
            (vec![], false),
            (vec![of("trim-1")], false),
            (vec![of("read-1")], true),
            (vec![of("trim-1"), of("write-8")], true),
        ] {
            let chart = spec.chart(&[], &missing);
            assert_eq!(chart.is_ok(), waits, "{missing:?}: {chart:?}");
            assert_eq!(chart.unwrap_or(None), None);
        }
    }
}
