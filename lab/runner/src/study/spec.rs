//! `study.toml`: a base experiment, runs that vary it, grids of them, and claims over the runs.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;

use super::{Source, StudyError, TablePair};
use crate::measure::Outcome;
use crate::parts::Library;
use crate::run::Prepared;
use crate::schema::{Experiment, ExperimentError};
use crate::study::grid::{Grid, GridSpec};
use crate::study::measure;
use crate::study::published::PublishedGroups;
use crate::subject::load;

/// A run of a study.
#[derive(Clone, Debug, Default, Deserialize)]
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
    /// The share of the published wear, or of the requests, drive writes and iozone's records, at which a quick run stops; 1 runs it whole.
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
    /// The grid that it is of; none for a run that the study states.
    #[serde(skip)]
    pub grid: Option<String>,
    /// Its name in a table of the grid's runs; its title where there is none.
    #[serde(skip)]
    pub row: Option<String>,
}

pub(super) fn whole() -> f64 {
    1.0
}

/// On what the runs of a study are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Bare flash.
    #[default]
    Wear,
    /// A drive.
    Ssd,
}

/// A claim as the study states it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimSpec {
    /// Its name.
    pub id: String,
    /// What is measured: `metric.id(run)`, or a number; or arithmetic over them with `+ - * /` and parentheses.
    pub ours: String,
    /// Where the printed number is in `published.json`, as a JSON pointer.
    pub published: String,
    /// Relative tolerance.
    pub within: Option<f64>,
    /// An inequality instead: ours must be below this, as the document says.
    pub below: Option<f64>,
    /// The other one: ours must be above this.
    pub above: Option<f64>,
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
    /// Rows: the runs; `GRID/*` are all those of a grid.
    pub runs: Vec<String>,
    /// For each run the published row, as a JSON pointer to a list; empty for none.
    #[serde(default)]
    pub published: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    kind: Kind,
    question: String,
    #[serde(default)]
    tolerance: f64,
    base: toml::Table,
    #[serde(default)]
    run: Vec<RunSpec>,
    #[serde(default)]
    grid: Vec<GridSpec>,
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
    /// On what its runs are made.
    pub kind: Kind,
    /// What it asks.
    pub question: String,
    /// Relative tolerance of claims on groups.
    pub tolerance: f64,
    /// Its runs: those that it states, then those of its grids.
    pub runs: Vec<RunSpec>,
    /// Its claims, those on groups not yet among them.
    pub claims: Vec<ClaimSpec>,
    /// Why claims miss, by the beginning of their names.
    pub reasons: std::collections::BTreeMap<String, String>,
    pub(super) grids: Vec<Grid>,
    comparisons: Vec<ComparisonSpec>,
    base: toml::Table,
    published: Value,
}

impl Spec {
    /// Reads a study.
    /// Errors: `Spec`, naming the file and the place.
    pub fn parse(source: &Source) -> Result<Spec, StudyError> {
        let wrong = |place: &str, what: String| StudyError::Spec {
            study: source.name.to_string(),
            place: place.to_owned(),
            what,
        };
        let file: File = toml::from_str(&source.toml).map_err(|error| wrong("study.toml", error.to_string()))?;
        let published =
            serde_json::from_str(&source.published).map_err(|error| wrong("published.json", error.to_string()))?;
        let mut runs = file.run;
        let mut grids: Vec<Grid> = Vec::new();
        let mut claims = Vec::new();
        for spec in file.grid {
            let place = format!("grid `{}`", spec.id);
            if file.kind != Kind::Ssd {
                return Err(wrong(&place, "a grid is of drives: expected `kind = \"ssd\"`".to_owned()));
            }
            let grid = Grid::new(spec).map_err(|what| wrong(&place, what))?;
            if grids.iter().any(|other| other.id() == grid.id()) {
                return Err(wrong(&place, "another grid has this id".to_owned()));
            }
            runs.extend(grid.runs());
            claims.extend(grid.claims());
            grids.push(grid);
        }
        let mut ids = BTreeSet::new();
        if let Some(run) = runs.iter().find(|run| !ids.insert(run.id.as_str())) {
            return Err(wrong(&format!("run `{}`", run.id), "another run has this id".to_owned()));
        }
        if runs.is_empty() {
            return Err(wrong("study.toml", "has neither a run nor a grid".to_owned()));
        }
        Ok(Spec {
            name: source.name.to_string(),
            kind: file.kind,
            question: file.question,
            tolerance: file.tolerance,
            runs,
            grids,
            claims: claims.into_iter().chain(file.claim).collect(),
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

    /// A run, ready. On raw flash it stops where the mean of the others is the published one; sooner when `quick`.
    /// Errors: an experiment that is refused.
    pub fn question_of(&self, run: &RunSpec, quick: bool, library: &Library) -> Result<Prepared, StudyError> {
        let quick = quick.then_some(run.quick).filter(|&share| share < 1.0);
        let mut sets: Vec<(String, String)> = vec![("title".to_owned(), format!("'{}'", run.title.replace('\'', "")))];
        sets.extend(run.set.iter().map(|(key, value)| (key.clone(), value.to_string())));
        if let Some(mean) = self.stop_mean(run)? {
            let mean = mean * quick.unwrap_or(1.0);
            sets.push(("stop.mean_erases_of_others".to_owned(), format!("{mean:.3}")));
        }
        let refused = |error| self.refused(run, error);
        let mut experiment = Experiment::from_table(self.base.clone(), &sets, library).map_err(refused)?;
        if let Some(share) = quick
            && experiment.ssd.is_some()
        {
            shorten(&mut experiment, share);
        }
        Prepared::new(experiment, library).map_err(refused)
    }

    /// The mean erase count at which a run on raw flash stops, where the study states one.
    fn stop_mean(&self, run: &RunSpec) -> Result<Option<f64>, StudyError> {
        match self.groups(run)? {
            Some(groups) if run.stops_at_published_mean => Ok(Some(groups.others_mean)),
            _ => Ok(run.set.get("stop.mean_erases_of_others").and_then(toml::Value::as_float)),
        }
    }

    fn refused(&self, run: &RunSpec, error: ExperimentError) -> StudyError {
        if let Some(grid) = &run.grid {
            return self.wrong(&format!("grid `{grid}`"), format!("run `{}`: {error}", run.id));
        }
        StudyError::Experiment { study: self.name.clone(), run: run.id.clone(), error }
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
            let of_grid = |name: &str| {
                let grid = name.strip_suffix("/*")?;
                let runs = self.runs.iter().filter(move |run| run.grid.as_deref() == Some(grid));
                Some(runs.map(|run| run.id.clone()).collect::<Vec<_>>()).filter(|ids| !ids.is_empty())
            };
            let ids = comparison.runs.iter().flat_map(|name| of_grid(name).unwrap_or_else(|| vec![name.clone()]));
            for (i, id) in ids.enumerate() {
                let run = runs.iter().map(|(run, _)| run).find(|run| run.id == id);
                let title = run.map_or(id.as_str(), |run| run.row.as_ref().unwrap_or(&run.title));
                let mut row = vec![Value::from(title)];
                for text in &comparison.measures {
                    let value = measure::evaluate(&text.replace("(run)", &format!("({id})")), runs)
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

/// Ends a run on a drive after a share of what it would do.
fn shorten(experiment: &mut Experiment, share: f64) {
    let fewer = |requests: u64| (requests as f64 * share).ceil() as u64;
    let workload = experiment.workload.get_or_insert_default();
    workload.requests = fewer(workload.requests);
    experiment.stop.requests = fewer(experiment.stop.requests);
    experiment.stop.drive_writes *= share;
    if let Some(iozone) = &mut experiment.iozone {
        iozone.records = fewer(load::iozone_records(iozone));
    }
}
