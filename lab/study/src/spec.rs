//! `study.toml`: a base experiment, runs that vary it, grids of runs, and claims on the results.

use std::collections::BTreeSet;

use runner::measure::Outcome;
use runner::parts::Library;
use runner::run::Prepared;
use runner::schema::load::{FioJob, Workload};
use runner::schema::{Experiment, ExperimentError};
use runner::subject::load;
use serde::Deserialize;
use serde_json::Value;

use super::{Source, StudyError, TablePair};
use crate::bars::BarsSpec;
use crate::expression::Expression;
use crate::grid::{Grid, GridSpec};
use crate::guest::{MissingLog, why_no_value};
use crate::judge;
use crate::kernel::KernelSpec;
use crate::measure;
use crate::pictures::PicturesSpec;
use crate::published::PublishedGroups;

/// A run of a study.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// Id within the study.
    pub id: String,
    /// Title for tables and the page.
    pub title: String,
    /// Keys that it sets over the base experiment.
    #[serde(default)]
    pub set: toml::Table,
    /// Id of the run whose guest it replays, on its own drive; `None` for its own guest. It has that run's keys too,
    /// under its own.
    pub replays: Option<String>,
    /// Path of its wear table in `published.json`, as a JSON pointer.
    pub published: Option<String>,
    /// Share of the published wear, or of the requests, drive writes and iozone's records, after which a quick run
    /// stops; 1 for the whole run.
    #[serde(default = "whole")]
    pub quick: f64,
    /// Numbers of its wear table that are claims: `GROUP/STAT`, with `first64` or `others`, and `min`, `avg`, `max` or
    /// `spread` (max - min).
    #[serde(default)]
    pub claims: Vec<String>,
    /// Whether the run stops when the mean of the others is the published one, which then cannot be claimed.
    #[serde(default)]
    pub stops_at_published_mean: bool,
    /// Groups whose claims follow from a number to which the model was fitted.
    #[serde(default)]
    pub calibrated_groups: Vec<String>,
    /// Id of the grid that it belongs to; `None` for a `[[run]]`.
    #[serde(skip)]
    pub grid: Option<String>,
    /// Its name in a table of the grid's runs; `None` for its title.
    #[serde(skip)]
    pub row: Option<String>,
}

pub(super) fn whole() -> f64 {
    1.0
}

/// Subject of a study's runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Device {
    /// Raw flash with UBI.
    #[default]
    Wear,
    /// A drive.
    Ssd,
    /// Whatever each run states: a drive or raw flash, most with a guest.
    Guest,
}

/// A claim in `study.toml`. It compares our value with a number that is published or derived, or bounds it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimSpec {
    /// Id of the claim. In a grid's claims, `{x}` and `{y}` in `id`, `ours`, `published` and `derived` are replaced by
    /// the cell's shown values.
    pub id: String,
    /// Expression for our value: `metric.id(run)`, numbers, `+ - * /` and parentheses. In a grid's claims a name of
    /// `runs` is the cell's run, and any other name a run of the study.
    pub ours: String,
    /// Path of the number in `published.json`, as a JSON pointer.
    pub published: Option<String>,
    /// Path of the number in `[derived]`, as a JSON pointer.
    pub derived: Option<String>,
    /// In a grid's claims: the only `x` (shown value) that the claim is about.
    pub at_x: Option<f64>,
    /// Relative tolerance, for example 0.05.
    pub within: Option<f64>,
    /// Instead of a tolerance: our value must be below this.
    pub below: Option<f64>,
    /// Instead of a tolerance: our value must be above this.
    pub above: Option<f64>,
    /// For a bound without a number: where a document states the order, and in which words. Without it the bound is a
    /// self-check.
    pub stated: Option<String>,
    /// Whether the derived number follows from the model's own rules, so that it can only come out.
    #[serde(default)]
    pub self_check: bool,
    /// Whether the model was fitted to the number.
    #[serde(default)]
    pub calibrated: bool,
    /// Whether the claim holds for runs of any length.
    #[serde(default)]
    pub scale_free: bool,
}

/// A table of measures over several runs, beside published values if there are any.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComparisonSpec {
    /// Title of the table.
    pub title: String,
    /// Column headings after the first.
    pub columns: Vec<String>,
    /// Expression of each column, in which `run` stands for the row's run.
    pub measures: Vec<String>,
    /// Ids of the rows' runs; `GRID/*` means all runs of a grid.
    pub runs: Vec<String>,
    /// Path of the published row for each run, as a JSON pointer to a list; empty for none.
    #[serde(default)]
    pub published: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    kind: Device,
    question: String,
    #[serde(default)]
    against: String,
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
    derived: Value,
    #[serde(default)]
    comparison: Vec<ComparisonSpec>,
    #[serde(default)]
    bars: Vec<BarsSpec>,
    #[serde(default)]
    pictures: Vec<PicturesSpec>,
    #[serde(default)]
    reason: std::collections::BTreeMap<String, String>,
    kernel: Option<KernelSpec>,
}

/// A parsed study.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Name of the study.
    pub name: String,
    /// Subject of its runs.
    pub kind: Device,
    /// Question of the study.
    pub question: String,
    /// Whose numbers its claims compare with; empty if the study does not say.
    pub against: String,
    /// Relative tolerance of claims on groups of PEBs.
    pub tolerance: f64,
    /// Its runs: `[[run]]`, then those of its grids.
    pub runs: Vec<RunSpec>,
    /// Its claims, without those on groups of PEBs.
    pub claims: Vec<ClaimSpec>,
    /// Why claims miss, by the prefix of their ids.
    pub reasons: std::collections::BTreeMap<String, String>,
    pub(super) grids: Vec<Grid>,
    pub(super) bars: Vec<BarsSpec>,
    pub(super) pictures: Vec<PicturesSpec>,
    pub(super) kernel: Option<KernelSpec>,
    comparisons: Vec<ComparisonSpec>,
    base: toml::Table,
    published: Value,
    derived: Value,
}

impl Spec {
    /// Parses a study.
    /// Errors: `Spec`, with the file and the entry.
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
        for run in &runs {
            let Some(of) = &run.replays else { continue };
            let what = match runs.iter().find(|other| other.id == *of) {
                None => format!("`replays`: no run `{of}`"),
                Some(other) if other.replays.is_some() => format!("`replays`: `{of}` has no guest of its own"),
                Some(_) => continue,
            };
            return Err(wrong(&format!("run `{}`", run.id), what));
        }
        for bars in &file.bars {
            bars.check(&runs).map_err(|what| wrong(&format!("bars `{}`", bars.title), what))?;
        }
        for pictures in &file.pictures {
            pictures.check(&runs).map_err(|what| wrong(&format!("pictures `{}`", pictures.title), what))?;
        }
        Ok(Spec {
            name: source.name.to_string(),
            kind: file.kind,
            question: file.question,
            against: file.against,
            tolerance: file.tolerance,
            runs,
            grids,
            bars: file.bars,
            pictures: file.pictures,
            claims: claims.into_iter().chain(file.claim).collect(),
            reasons: file.reason,
            kernel: file.kernel,
            comparisons: file.comparison,
            base: file.base,
            published,
            derived: file.derived,
        })
    }

    /// Checks before anything runs: the claims' runs, relations and numbers, and that there is every metric.
    /// Errors: `Spec`, with the claim, table or figure.
    pub fn check(&self) -> Result<(), StudyError> {
        judge::expand(self)?;
        let of_claims = self.claims.iter().map(|claim| (claim.id.clone(), &claim.ours));
        let of_tables = self
            .comparisons
            .iter()
            .flat_map(|table| table.measures.iter().map(|measure| (table.title.clone(), measure)));
        let of_grids = self.grids.iter().filter_map(|grid| Some((format!("grid `{}`", grid.id()), grid.cell()?)));
        let of_bars = self.bars.iter().map(|bars| (format!("bars `{}`", bars.title), &bars.measure));
        let mut all = of_claims.chain(of_tables).chain(of_grids).chain(of_bars);
        all.try_for_each(|(place, text)| measure::check(text).map_err(|what| self.wrong(&place, what)))
    }

    /// Id and kind of each claim.
    /// Errors: `Spec`, a claim that is refused.
    pub fn kinds(&self) -> Result<Vec<(String, judge::Kind)>, StudyError> {
        Ok(judge::expand(self)?.iter().map(|claim| (claim.id().to_owned(), claim.kind())).collect())
    }

    /// Ids of the runs whose requests are drawn.
    /// Errors: `Spec`, one that has no log of requests.
    pub(super) fn pictured(&self, questions: &[(RunSpec, Prepared)]) -> Result<BTreeSet<&str>, StudyError> {
        for pictures in &self.pictures {
            let has_log =
                |question: &Prepared| question.experiment.guest.is_some() && question.experiment.has_block_device();
            let lacks = |id: &&String| questions.iter().any(|(run, question)| run.id == **id && !has_log(question));
            if let Some(id) = pictures.runs.iter().find(lacks) {
                let place = format!("pictures `{}`", pictures.title);
                return Err(self.wrong(&place, format!("`runs`: `{id}` has no guest on a block device")));
            }
        }
        Ok(self.pictures.iter().flat_map(|pictures| pictures.runs.iter().map(String::as_str)).collect())
    }

    pub(super) fn wrong(&self, place: &str, what: impl Into<String>) -> StudyError {
        StudyError::Spec { study: self.name.clone(), place: place.to_owned(), what: what.into() }
    }

    /// Seed of every run.
    pub fn seed(&self) -> u64 {
        self.base.get("seed").and_then(toml::Value::as_integer).map_or(1, |seed| seed as u64)
    }

    /// The value at `path` of `published.json`.
    pub fn published(&self, path: &str) -> Result<&Value, StudyError> {
        self.published.pointer(path).ok_or_else(|| self.wrong("published.json", format!("nothing at `{path}`")))
    }

    /// The number at `path` of `published.json`.
    pub fn published_number(&self, path: &str) -> Result<f64, StudyError> {
        self.published(path)?.as_f64().ok_or_else(|| self.wrong("published.json", format!("no number at `{path}`")))
    }

    /// The value at `path` of `[derived]`.
    pub fn derived(&self, path: &str) -> Result<&Value, StudyError> {
        self.derived.pointer(path).ok_or_else(|| self.wrong("[derived]", format!("nothing at `{path}`")))
    }

    /// The number at `path` of `[derived]`.
    pub fn derived_number(&self, path: &str) -> Result<f64, StudyError> {
        self.derived(path)?.as_f64().ok_or_else(|| self.wrong("[derived]", format!("no number at `{path}`")))
    }

    /// Groups of a run's published wear table; `None` if it has none.
    pub fn groups(&self, run: &RunSpec) -> Result<Option<PublishedGroups>, StudyError> {
        let Some(path) = &run.published else { return Ok(None) };
        PublishedGroups::read(self.published(path)?)
            .map(Some)
            .ok_or_else(|| self.wrong("published.json", format!("no wear table at `{path}`")))
    }

    /// Prepares a run. On raw flash it stops when the mean of the others reaches the published one; earlier if `quick`, as does a fio
    /// job of a file system. A
    /// guest's job is never cut short: its log is replayed whole.
    /// Errors: a refused experiment.
    pub fn question_of(&self, run: &RunSpec, quick: bool, library: &Library) -> Result<Prepared, StudyError> {
        let quick = quick.then_some(run.quick).filter(|&share| share < 1.0);
        let mut sets: Vec<(String, String)> = vec![("title".to_owned(), format!("'{}'", run.title.replace('\'', "")))];
        let replayed = run.replays.as_ref().and_then(|id| self.runs.iter().find(|other| other.id == *id));
        let of = replayed.into_iter().flat_map(|other| other.set.iter().filter(|(key, _)| !run.set.contains_key(*key)));
        sets.extend(of.chain(&run.set).map(|(key, value)| (key.clone(), value.to_string())));
        if let Some(mean) = self.stop_mean(run)? {
            let mean = mean * quick.unwrap_or(1.0);
            sets.push(("stop.mean_erases_of_others".to_owned(), format!("{mean:.3}")));
        }
        let refused = |error| self.refused(run, error);
        let mut experiment = Experiment::from_table(self.base.clone(), &sets, library).map_err(refused)?;
        if experiment.guest.is_none() && run.replays.is_some() {
            return Err(self.wrong(&format!("run `{}`", run.id), "`replays`: found no [guest], expected one"));
        }
        if let Some(share) = quick
            && experiment.has_block_device()
            && experiment.guest.is_none()
        {
            shorten(&mut experiment, share);
        }
        if let (Some(share), Some(job)) = (quick, &mut experiment.fio) {
            (job.seconds, job.ramp_s) = (job.seconds * share, job.ramp_s * share);
        }
        Prepared::new(experiment, library).map_err(refused)
    }

    /// Mean erase count at which a run on raw flash stops, if the study gives one.
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

    /// Builds the tables over several runs. A cell that needs a run of `missing` is empty.
    pub(super) fn comparison(
        &self,
        runs: &[(RunSpec, Outcome)],
        missing: &[MissingLog],
    ) -> Result<Vec<TablePair>, StudyError> {
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
                let run = self.runs.iter().find(|run| run.id == id);
                let title = run.map_or(id.as_str(), |run| run.row.as_ref().unwrap_or(&run.title));
                let mut row = vec![Value::from(title)];
                for text in &comparison.measures {
                    let text = text.replace("(run)", &format!("({id})"));
                    let wrong = |what| self.wrong(&comparison.title, what);
                    if why_no_value(&Expression::parse(&text).map_err(wrong)?.runs(), missing).is_some() {
                        row.push(Value::Null);
                        continue;
                    }
                    let value = measure::evaluate(&text, runs).map_err(wrong)?;
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

/// Ends a run on a drive after this share of its length.
fn shorten(experiment: &mut Experiment, share: f64) {
    let fewer = |requests: u64| (requests as f64 * share).ceil() as u64;
    let job = experiment.fio_job();
    experiment.workload = Some(Workload::Fio(FioJob { requests: fewer(job.requests), ..job }));
    experiment.stop.requests = fewer(experiment.stop.requests);
    experiment.stop.drive_writes *= share;
    if let Some(iozone) = &mut experiment.iozone {
        iozone.records = fewer(load::iozone_records(iozone));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> Spec {
        let source =
            Source { name: "x".into(), toml: format!("question = '?'\n{text}").into(), published: "{}".into() };
        Spec::parse(&source).unwrap()
    }

    fn experiment(spec: &Spec, quick: bool) -> Experiment {
        spec.question_of(&spec.runs[0], quick, Library::embedded()).unwrap().experiment
    }

    #[test]
    fn a_quick_run_on_raw_flash_stops_at_its_share_of_the_mean() {
        let run = |quick: f64| {
            spec(&format!(
                "base = {{ title = 't', nand = {{ pebs = 256 }} }}\n\
                 run = [{{ id = 'a', title = 'a', quick = {quick}, set = {{ 'stop.mean_erases_of_others' = 40.0 }} }}]\n"
            ))
        };
        for (share, mean) in [(0.25, 10.0), (0.5, 20.0), (1.0, 40.0)] {
            assert_eq!(experiment(&run(share), true).stop.mean_erases_of_others, mean, "{share}");
            assert_eq!(experiment(&run(share), false).stop.mean_erases_of_others, 40.0, "{share}");
        }
    }

    /// Requests are rounded up: a run of one request has one.
    #[test]
    fn a_quick_run_on_a_drive_has_its_share_of_the_requests_and_of_the_writes() {
        let run = |requests: u64, share: f64| {
            spec(&format!(
                "kind = 'ssd'\nbase = {{ title = 't', ssd = {{ blocks = 16, pages = 16, over_provisioning_percent = 40 }}, \
                 workload = {{ rw = 'randwrite' }} }}\n\
                 run = [{{ id = 'a', title = 'a', quick = {share}, \
                 set = {{ 'workload.requests' = {requests}, 'stop.drive_writes' = 3.0 }} }}]\n"
            ))
        };
        for (requests, share, left) in [(41, 0.5, 21), (40, 0.5, 20), (1, 0.01, 1), (1000, 0.25, 250), (7, 1.0, 7)] {
            let spec = run(requests, share);
            let [whole, quick] = [false, true].map(|quick| experiment(&spec, quick));
            assert_eq!((whole.fio_job().requests, whole.stop.drive_writes), (requests, 3.0));
            assert_eq!(
                (quick.fio_job().requests, quick.stop.drive_writes),
                (left, 3.0 * share),
                "{share} of {requests}"
            );
        }
    }

    /// The job of a file system ends by its time, and its ramp with it; iozone by its records.
    #[test]
    fn a_quick_run_has_its_share_of_a_job_and_of_the_ramp_before_it() {
        let fio = "base = { title = 't', nand = { pebs = 256 }, fs = {}, fio = { seconds = 40.0, ramp_s = 8.0 } }\n\
                   run = [{ id = 'a', title = 'a', quick = 0.25 }]\n";
        let job = |quick| experiment(&spec(fio), quick).fio.map(|job| (job.seconds, job.ramp_s));
        assert_eq!([false, true].map(job), [Some((40.0, 8.0)), Some((10.0, 2.0))]);
        let iozone = "kind = 'ssd'\nbase = { title = 't', ssd = {}, iozone = { records = 41 }, stop = { requests = 9 } }\n\
                      run = [{ id = 'a', title = 'a', quick = 0.5 }]\n";
        let ends = |quick| {
            let experiment = experiment(&spec(iozone), quick);
            (experiment.iozone.map(|iozone| iozone.records), experiment.stop.requests)
        };
        assert_eq!([false, true].map(ends), [(Some(41), 9), (Some(21), 5)]);
    }

    /// By hand: 100 PEBs of 2 and one of 30 beside the first 64 have (200 + 30) / 101 erasures on average.
    #[test]
    fn a_run_stops_at_the_published_mean_of_all_outside_the_first_64() {
        let study = "question = '?'\nbase = { title = 't', nand = { pebs = 256 } }\n\
                     run = [{ id = 'a', title = 'a', published = '/table', stops_at_published_mean = true, quick = 0.5 }]\n";
        let published = "{\"table\": {\"bins\": [{\"count\": 64, \"min\": 5, \"avg\": 6, \"max\": 7}, \
                         {\"count\": 100, \"min\": 1, \"avg\": 2, \"max\": 3}, \
                         {\"count\": 1, \"min\": 30, \"avg\": 30, \"max\": 30}], \
                         \"total\": {\"count\": 165, \"min\": 1, \"avg\": 3.7, \"max\": 30}}}";
        let spec = Spec::parse(&Source { name: "x".into(), toml: study.into(), published: published.into() }).unwrap();
        let mean = |quick| experiment(&spec, quick).stop.mean_erases_of_others;
        assert_eq!((mean(false), mean(true)), (2.277, 1.139), "to three digits");
    }

    /// The log of a guest is one of the whole job.
    #[test]
    fn a_quick_run_of_a_guest_is_the_whole_one() {
        let guest = "kind = 'guest'\nbase = { title = 't', ssd = {}, guest = { job = 'sync' }, stop = { requests = 8 } }\n\
                     run = [{ id = 'a', title = 'a', quick = 0.5 }]\n";
        let [whole, quick] = [false, true].map(|quick| experiment(&spec(guest), quick));
        assert_eq!(whole, quick);
    }

    #[test]
    fn a_measure_of_a_table_that_there_is_not_is_found_before_anything_runs() {
        let table = |measure: &str| {
            let text = format!(
                "base = {{ title = 't' }}\nrun = [{{ id = 'a', title = 'a' }}]\n[[claim]]\nid = 'c'\nours = 'waf(a)'\nabove = 0\n\
                 [[comparison]]\ntitle = 'All of them'\ncolumns = ['WAF']\nmeasures = ['{measure}']\nruns = ['a']\n"
            );
            spec(&text).check().map_err(|error| error.to_string())
        };
        assert_eq!(table("waf(run)"), Ok(()));
        let error = table("wav(run)").unwrap_err();
        assert!(error.contains("All of them") && error.contains("did you mean `waf`"), "{error}");
    }
}
