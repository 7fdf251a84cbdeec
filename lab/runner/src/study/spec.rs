//! `study.toml`: a base experiment, runs that vary it, and claims over the runs.

use serde::Deserialize;
use serde_json::Value;

use super::{Source, StudyError, TablePair};
use crate::experiment::Experiment;
use crate::outcome::Outcome;
use crate::study::measure;
use crate::study::published::PublishedGroups;

/// A run of a study.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// Its name within the study.
    pub id: String,
    /// For people.
    pub title: String,
    /// What it sets over the base experiment, by dotted key.
    #[serde(default)]
    pub set: toml::Table,
    /// Where its wear table is in `published.json`, as a JSON pointer.
    pub published: Option<String>,
    /// The share of the published wear at which a quick run stops; 1 runs it whole.
    #[serde(default = "whole")]
    pub quick: f64,
    /// Whether min, avg and max of both groups are claims.
    #[serde(default)]
    pub claim_groups: bool,
    /// Whether the mean of the others ended the run, so that it is no claim.
    #[serde(default)]
    pub stops_at_published_mean: bool,
    /// Groups whose claims follow from a number that the model was fitted on.
    #[serde(default)]
    pub calibrated_groups: Vec<String>,
}

fn whole() -> f64 {
    1.0
}

/// A claim as the study states it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimSpec {
    /// Its name.
    pub id: String,
    /// What is measured: `group.stat(run)`, or two of them with `/` or `-` between.
    pub ours: String,
    /// Where the printed number is in `published.json`, as a JSON pointer.
    pub published: String,
    /// Relative tolerance.
    pub within: Option<f64>,
    /// An inequality instead: ours must be below this, as the document says.
    pub below: Option<f64>,
    /// Whether the model was fitted on it.
    #[serde(default)]
    pub calibrated: bool,
    /// Whether it holds at any length of the run.
    #[serde(default)]
    pub scale_free: bool,
}

/// A table of figures over several runs, with what was published where there is.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComparisonSpec {
    /// What it shows.
    pub title: String,
    /// Column heads after the first.
    pub columns: Vec<String>,
    /// For each column, the measure, with `run` for the row's run.
    pub measures: Vec<String>,
    /// Rows: the runs.
    pub runs: Vec<String>,
    /// For each run the published row, as a JSON pointer to a list; empty for none.
    #[serde(default)]
    pub published: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    question: String,
    tolerance: f64,
    base: toml::Table,
    run: Vec<RunSpec>,
    #[serde(default)]
    claim: Vec<ClaimSpec>,
    #[serde(default)]
    comparison: Vec<ComparisonSpec>,
    #[serde(default)]
    reason: std::collections::BTreeMap<String, String>,
}

/// A study.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Its name.
    pub name: String,
    /// What it asks.
    pub question: String,
    /// Relative tolerance of claims on groups.
    pub tolerance: f64,
    /// Its runs.
    pub runs: Vec<RunSpec>,
    /// Its claims, those on groups not yet among them.
    pub claims: Vec<ClaimSpec>,
    /// Why claims miss, by the beginning of their names.
    pub reasons: std::collections::BTreeMap<String, String>,
    comparisons: Vec<ComparisonSpec>,
    base: toml::Table,
    published: Value,
}

impl Spec {
    /// Reads a study.
    /// Errors: `Spec`, naming the file and the place.
    pub fn parse(source: &Source) -> Result<Spec, StudyError> {
        let wrong = |place: &str, what: String| StudyError::Spec {
            study: source.name.to_owned(),
            place: place.to_owned(),
            what,
        };
        let file: File = toml::from_str(source.toml).map_err(|error| wrong("study.toml", error.to_string()))?;
        let published =
            serde_json::from_str(source.published).map_err(|error| wrong("published.json", error.to_string()))?;
        Ok(Spec {
            name: source.name.to_owned(),
            question: file.question,
            tolerance: file.tolerance,
            runs: file.run,
            claims: file.claim,
            reasons: file.reason,
            comparisons: file.comparison,
            base: file.base,
            published,
        })
    }

    pub(super) fn wrong(&self, place: &str, what: impl Into<String>) -> StudyError {
        StudyError::Spec { study: self.name.clone(), place: place.to_owned(), what: what.into() }
    }

    /// The seed of every run.
    pub fn seed(&self) -> u64 {
        self.base.get("seed").and_then(toml::Value::as_integer).map_or(1, |seed| seed as u64)
    }

    /// What stands at `path` of `published.json`.
    pub fn published(&self, path: &str) -> Result<&Value, StudyError> {
        self.published.pointer(path).ok_or_else(|| self.wrong("published.json", format!("nothing at `{path}`")))
    }

    /// A printed number.
    pub fn published_number(&self, path: &str) -> Result<f64, StudyError> {
        self.published(path)?.as_f64().ok_or_else(|| self.wrong("published.json", format!("no number at `{path}`")))
    }

    /// The groups of a run's published table.
    pub fn groups(&self, run: &RunSpec) -> Result<Option<PublishedGroups>, StudyError> {
        let Some(path) = &run.published else { return Ok(None) };
        PublishedGroups::read(self.published(path)?)
            .map(Some)
            .ok_or_else(|| self.wrong("published.json", format!("no wear table at `{path}`")))
    }

    /// A run's experiment. It stops where the mean of the others is the published one, or sooner when `quick`.
    pub fn experiment(&self, run: &RunSpec, quick: bool) -> Result<Experiment, StudyError> {
        let mut sets: Vec<(String, String)> = vec![("title".to_owned(), format!("'{}'", run.title.replace('\'', "")))];
        sets.extend(run.set.iter().map(|(key, value)| (key.clone(), value.to_string())));
        if run.stops_at_published_mean
            && let Some(groups) = self.groups(run)?
        {
            let mean = groups.others_mean * if quick { run.quick } else { 1.0 };
            sets.push(("stop.mean_erases_of_others".to_owned(), format!("{mean:.3}")));
        } else if quick && run.quick < 1.0 {
            let at = run.set.get("stop.mean_erases_of_others").and_then(toml::Value::as_float);
            if let Some(mean) = at {
                sets.push(("stop.mean_erases_of_others".to_owned(), format!("{:.3}", mean * run.quick)));
            }
        }
        Experiment::from_table(self.base.clone(), &sets).map_err(|error| StudyError::Experiment {
            study: self.name.clone(),
            run: run.id.clone(),
            error,
        })
    }

    /// Tables over several runs.
    pub(super) fn comparison(&self, runs: &[(RunSpec, Outcome)]) -> Result<Vec<TablePair>, StudyError> {
        let mut tables = Vec::new();
        for comparison in &self.comparisons {
            let mut table = TablePair {
                title: comparison.title.clone(),
                columns: std::iter::once("run".to_owned()).chain(comparison.columns.iter().cloned()).collect(),
                published: Vec::new(),
                ours: Vec::new(),
            };
            for (i, id) in comparison.runs.iter().enumerate() {
                let title =
                    runs.iter().find(|(run, _)| run.id == *id).map_or(id.as_str(), |(run, _)| run.title.as_str());
                let mut row = vec![Value::from(title)];
                for text in &comparison.measures {
                    let value = measure::evaluate(&text.replace("run", id), runs)
                        .map_err(|what| self.wrong(&comparison.title, what))?;
                    row.push(Value::from((value * 10_000.0).round() / 10_000.0));
                }
                table.ours.push(row);
                if let Some(path) = comparison.published.get(i).filter(|path| !path.is_empty()) {
                    let mut row = vec![Value::from(title)];
                    row.extend(self.published(path)?.as_array().cloned().unwrap_or_default());
                    table.published.push(row);
                }
            }
            tables.push(table);
        }
        Ok(tables)
    }
}
