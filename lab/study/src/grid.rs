//! Grids: a measure over two parameters; each cell has one run or several.
//!
//! A `[[grid]]` of `study.toml` becomes runs of the study beside those of `[[run]]`, claims on its cells, and a
//! [`Figure`] of its judgement. The run `on` in the cell at 4 and 0.5 (shown values) of the grid `sram` has the id
//! `sram/4/0.5/on`, by which a claim can name it like any other run. A grid without `y` is a row of cells and has no
//! figure. `docs/format/study.md` describes the keys.

use std::collections::{BTreeMap, BTreeSet};

use runner::measure::Outcome;
use runner::report::figure::{Axis, Figure, Mark};
use runner::sweep;
use serde::Deserialize;

use super::expression::Expression;
use super::guest::MissingLog;
use super::spec::{ClaimSpec, whole};
use super::{RunSpec, measure};

/// A grid in `study.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GridSpec {
    /// Id within the study.
    pub id: String,
    /// Title of the figure.
    pub title: String,
    /// Unit of the cells' values.
    #[serde(default)]
    pub unit: String,
    /// The horizontal parameter.
    pub x: AxisSpec,
    /// The vertical parameter; without it the grid is one row.
    pub y: Option<AxisSpec>,
    /// Keys that every run sets over the base experiment.
    #[serde(default)]
    pub set: toml::Table,
    /// Runs of a cell by name, and the keys that each adds.
    pub runs: BTreeMap<String, toml::Table>,
    /// Value of a cell: arithmetic over measures of its runs. A grid without `y` has none.
    pub cell: Option<String>,
    /// Claims on the cells.
    #[serde(default)]
    pub claim: Vec<ClaimSpec>,
    /// Values at which the figure has a contour line.
    #[serde(default)]
    pub levels: Vec<f64>,
    /// Published points to show beside ours.
    #[serde(default)]
    pub mark: Vec<Mark>,
    /// Share of the requests and drive writes after which a quick run stops; 1 for the whole run.
    #[serde(default = "whole")]
    pub quick: f64,
}

/// A parameter of a grid.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AxisSpec {
    /// Key, or several keys that get the same value.
    pub key: Keys,
    /// Label with unit.
    pub label: String,
    /// Values of the key, one per column or row.
    pub values: Vec<toml::Value>,
    /// The values as numbers for display; without it, the values themselves.
    pub shown: Option<Vec<f64>>,
    /// Further keys to set with each value.
    #[serde(default)]
    pub also: Vec<toml::Table>,
    /// Whether the axis is logarithmic.
    #[serde(default)]
    pub log: bool,
}

/// One key or several.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Keys {
    /// A single key.
    One(String),
    /// Several keys with the same value.
    Several(Vec<String>),
}

impl Keys {
    fn all(&self) -> &[String] {
        match self {
            Keys::One(key) => std::slice::from_ref(key),
            Keys::Several(keys) => keys,
        }
    }
}

/// A validated grid. Its keys are checked when its runs become experiments.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    spec: GridSpec,
    x: Axis,
    y: Option<Axis>,
}

/// Most runs of a grid.
const MOST_RUNS: usize = 10_000;

/// Whether a name can be part of an id, and so of a claim's text.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.trim() == text && !text.contains(['/', '(', ')'])
}

fn ascends(numbers: &[f64]) -> bool {
    numbers.iter().all(|number| number.is_finite()) && numbers.windows(2).all(|pair| pair[0] < pair[1])
}

impl AxisSpec {
    fn axis(&self, name: &str) -> Result<Axis, String> {
        let number = |value: &toml::Value| value.as_float().or_else(|| value.as_integer().map(|value| value as f64));
        let values = match &self.shown {
            Some(shown) => shown.clone(),
            None => {
                let numbers: Option<Vec<f64>> = self.values.iter().map(number).collect();
                numbers.ok_or_else(|| format!("`{name}.values` are no numbers: expected `{name}.shown` beside them"))?
            }
        };
        if values.len() != self.values.len() {
            return Err(format!("`{name}.values` has {} and `{name}.shown` {}", self.values.len(), values.len()));
        }
        if !self.also.is_empty() && self.also.len() != self.values.len() {
            return Err(format!("`{name}.values` has {} and `{name}.also` {}", self.values.len(), self.also.len()));
        }
        if values.len() < 2 || !ascends(&values) {
            return Err(format!("`{name}`: found {values:?}, expected two or more numbers in ascending order"));
        }
        if self.log && values[0] <= 0.0 {
            return Err(format!("`{name}.log`: found {}, expected numbers above 0", values[0]));
        }
        Ok(Axis { label: self.label.clone(), log: self.log, values })
    }

    /// Every key that the axis sets.
    fn keys(&self) -> BTreeSet<&str> {
        self.key.all().iter().chain(self.also.iter().flat_map(toml::Table::keys)).map(String::as_str).collect()
    }

    /// Keys and values that the axis sets at its value number `index`.
    fn at(&self, index: usize) -> impl Iterator<Item = (String, toml::Value)> {
        let own = self.key.all().iter().map(move |key| (key.clone(), self.values[index].clone()));
        own.chain(self.also.get(index).into_iter().flatten().map(|(key, value)| (key.clone(), value.clone())))
    }
}

impl Grid {
    /// Validates a grid. Errors: what is wrong, with the key.
    pub(super) fn new(spec: GridSpec) -> Result<Grid, String> {
        let x = spec.x.axis("x")?;
        let y = spec.y.as_ref().map(|y| y.axis("y")).transpose()?;
        if y.is_some() != spec.cell.is_some() {
            return Err("`cell` and `y`: expected both, for a picture, or neither".to_owned());
        }
        let cells = x.values.len().saturating_mul(y.as_ref().map_or(1, |y| y.values.len()));
        let runs = cells.saturating_mul(spec.runs.len());
        if runs > MOST_RUNS {
            return Err(format!("found {cells} cells and {runs} runs, expected {MOST_RUNS} runs at most"));
        }
        let grid = Grid { spec, x, y };
        grid.check_names()?;
        grid.check_keys()?;
        let GridSpec { levels, mark, quick, .. } = &grid.spec;
        if !ascends(levels) {
            return Err(format!("`levels`: found {levels:?}, expected numbers in ascending order"));
        }
        for mark in mark {
            let on = |axis: &Axis, at: f64| at.is_finite() && (!axis.log || at > 0.0);
            if !on(&grid.x, mark.x) || !grid.y.as_ref().is_some_and(|y| on(y, mark.y)) {
                return Err(format!("`mark`: `{}` at {} and {} is on no axis", mark.label, mark.x, mark.y));
            }
        }
        if !(*quick > 0.0 && *quick <= 1.0) {
            return Err(format!("`quick`: found {quick}, expected above 0, at most 1"));
        }
        Ok(grid)
    }

    fn check_names(&self) -> Result<(), String> {
        let GridSpec { id, runs, cell, .. } = &self.spec;
        if let Some(name) = [id].into_iter().chain(runs.keys()).find(|name| !is_name(name)) {
            return Err(format!("`{name}` is no name: expected a text without parentheses and slashes"));
        }
        let Some(cell) = cell else { return Ok(()) };
        let named = Expression::parse(cell).map_err(|what| format!("`cell`: {what}"))?.runs();
        if let Some(unknown) = named.iter().find(|name| !runs.contains_key(**name)) {
            let known: Vec<&str> = runs.keys().map(String::as_str).collect();
            return Err(format!("`cell`: no run `{unknown}` among `runs`: {}", known.join(", ")));
        }
        if named.is_empty() {
            return Err("`cell` names no run".to_owned());
        }
        Ok(())
    }

    /// Checks that no key of an axis is also set elsewhere, because then the figure would not vary it.
    fn check_keys(&self) -> Result<(), String> {
        let GridSpec { x, y, set, runs, .. } = &self.spec;
        let y_keys = y.as_ref().map(AxisSpec::keys);
        if x.key.all().is_empty() || y.as_ref().is_some_and(|y| y.key.all().is_empty()) {
            return Err("`x.key` and `y.key`: expected a key in each".to_owned());
        }
        let mut seen = BTreeSet::new();
        for key in x.keys().into_iter().chain(y_keys.into_iter().flatten()) {
            if !seen.insert(key) {
                return Err(format!("key `{key}` is set twice by `x` and `y`"));
            }
            if [set].into_iter().chain(runs.values()).any(|table| table.contains_key(key)) {
                return Err(format!("key `{key}` is set by a parameter and by `set` or `runs`"));
            }
        }
        Ok(())
    }

    pub(super) fn id(&self) -> &str {
        &self.spec.id
    }

    /// The measure of its cells; `None` without a picture.
    pub(super) fn cell(&self) -> Option<&String> {
        self.spec.cell.as_ref()
    }

    fn run_id(&self, x: f64, y: Option<f64>, run: &str) -> String {
        let y = y.map_or(String::new(), |y| format!("/{y}"));
        format!("{}/{x}{y}/{run}", self.spec.id)
    }

    /// Index and shown value of `x` and `y` for each cell, row by row.
    fn cells(&self) -> impl Iterator<Item = ((usize, f64), Option<(usize, f64)>)> {
        let rows = self.y.as_ref().map_or(1, |y| y.values.len());
        sweep::cells(&[rows, self.x.values.len()]).map(|at| {
            let y = self.y.as_ref().map(|y| (at[0], y.values[at[0]]));
            ((at[1], self.x.values[at[1]]), y)
        })
    }

    /// The runs of all cells, row by row.
    pub(super) fn runs(&self) -> Vec<RunSpec> {
        let GridSpec { id, title, set, runs, quick, .. } = &self.spec;
        let mut all = Vec::new();
        for ((x_at, x), y) in self.cells() {
            for (name, own) in runs {
                let mut set = set.clone();
                set.extend(own.clone());
                set.extend(self.spec.x.at(x_at));
                let mut place = format!("{} {x}", self.x.label);
                if let (Some(axis), Some(spec), Some((y_at, y))) = (&self.y, &self.spec.y, y) {
                    set.extend(spec.at(y_at));
                    place += &format!(", {} {y}", axis.label);
                }
                all.push(RunSpec {
                    id: self.run_id(x, y.map(|(_, y)| y), name),
                    title: format!("{title}: {place}, {name}"),
                    row: Some(format!("{name}, {place}")),
                    set,
                    quick: *quick,
                    grid: Some(id.clone()),
                    ..RunSpec::default()
                });
            }
        }
        all
    }

    /// The claims on all cells, row by row.
    pub(super) fn claims(&self) -> Vec<ClaimSpec> {
        let mut all = Vec::new();
        for claim in &self.spec.claim {
            for ((_, x), y) in self.cells().filter(|((_, x), _)| claim.at_x.is_none_or(|only| only == *x)) {
                let y = y.map(|(_, y)| y);
                let of_cell = |text: &str| {
                    let text = text.replace("{x}", &x.to_string());
                    y.map_or(text.clone(), |y| text.replace("{y}", &y.to_string()))
                };
                let own = |text: String, name: &String| {
                    text.replace(&format!("({name})"), &format!("({})", self.run_id(x, y, name)))
                };
                all.push(ClaimSpec {
                    id: of_cell(&claim.id),
                    ours: self.spec.runs.keys().fold(of_cell(&claim.ours), own),
                    published: claim.published.as_deref().map(of_cell),
                    derived: claim.derived.as_deref().map(of_cell),
                    at_x: None,
                    ..claim.clone()
                });
            }
        }
        all
    }

    /// The figure, if the grid has two parameters. A cell is empty if its runs lack the measure or the value is not
    /// finite. There is no figure if no cell has a value, and logs of the grid's runs are missing.
    /// Errors: no cell has a value though none is missing, and why the first has none.
    pub(super) fn figure(
        &self,
        found: &[(RunSpec, Outcome)],
        missing: &[MissingLog],
    ) -> Result<Option<Figure>, String> {
        let (Some(cell), Some(y_axis)) = (&self.spec.cell, &self.y) else { return Ok(None) };
        let cell = Expression::parse(cell)?;
        let mut why = None;
        let mut figure_at = |x: f64, y: f64| {
            let value = cell.value(&|what, run| measure::of_run(what, &self.run_id(x, Some(y), run), found));
            value.map_err(|what| why.get_or_insert(what).clone()).ok().filter(|value| value.is_finite())
        };
        let mut row = |y: f64| self.x.values.iter().map(|&x| figure_at(x, y)).collect();
        let z: Vec<Vec<Option<f64>>> = y_axis.values.iter().map(|&y| row(y)).collect();
        if z.iter().flatten().flatten().count() == 0 {
            let prefix = format!("{}/", self.id());
            if missing.iter().any(|log| log.run.starts_with(&prefix)) {
                return Ok(None);
            }
            let why = why.unwrap_or_else(|| "no number is finite".to_owned());
            return Err(format!("`cell`: no cell has a figure: {why}"));
        }
        let GridSpec { id, title, unit, levels, mark, .. } = self.spec.clone();
        Ok(Some(Figure { id, title, unit, x: self.x.clone(), y: y_axis.clone(), z, levels, marks: mark }))
    }
}

#[cfg(test)]
mod tests {
    use runner::parts::Library;
    use runner::run::Prepared;

    use super::*;
    use crate::{Finished, Source, Spec, StudyError};

    const BASE: &str = "kind = 'ssd'
question = 'How fast?'
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
rw = 'randread'
requests = 200
";
    const GRID: &str = "[[grid]]
id = 'rate'
title = 'Rate'
unit = 'x'
x = { key = 'ssd.front.depth', label = 'depth', values = [1, 2, 8], log = true }
y = { key = 'workload.block_bytes', label = 'KiB', values = [4096, 16384], shown = [4, 16] }
set = { 'workload.requests' = 100 }
runs = { one = { 'ssd.channels' = 1 }, two = {} }
cell = 'read.iops(two) / read.iops(one) * 100 - 100'
levels = [5, 50]
mark = [{ x = 4, y = 5.5, z = 60, label = 'elsewhere' }]
quick = 0.5
";

    fn source(text: &str) -> Source {
        Source { name: "tiny".into(), toml: format!("{BASE}{text}").into(), published: "{\"rate\": 1.0}".into() }
    }

    fn finished(text: &str, quick: bool) -> Result<Finished, StudyError> {
        crate::run(&source(text), quick, Library::embedded(), &(), &|_, _| ())
    }

    /// `GRID` with one thing changed.
    fn refused(from: &str, to: &str) -> String {
        assert!(GRID.contains(from), "{from}");
        finished(&GRID.replace(from, to), false).map(|done| done.judgement).unwrap_err().to_string()
    }

    #[test]
    fn each_cell_is_the_arithmetic_over_its_own_two_runs() {
        let claim = "[[claim]]\nid = 'queued'\nours = 'read.iops(rate/8/4/two) / read.iops(rate/1/4/two)'\n\
                     published = '/rate'\nabove = 1.0\n";
        let done = finished(&format!("{GRID}{claim}"), false).unwrap();
        let [figure] = &done.judgement.figures[..] else { panic!("{:?}", done.judgement.figures) };
        assert_eq!((figure.id.as_str(), figure.unit.as_str(), &figure.levels), ("rate", "x", &vec![5.0, 50.0]));
        assert_eq!((&figure.x.values, figure.x.log), (&vec![1.0, 2.0, 8.0], true));
        assert_eq!((&figure.y.values, figure.y.log), (&vec![4.0, 16.0], false));
        assert_eq!(figure.marks[0].z, Some(60.0));
        for (row, bytes) in figure.z.iter().zip([4096, 16384]) {
            for (cell, depth) in row.iter().zip([1, 2, 8]) {
                let iops = |channels: u32| {
                    let sets =
                        [("workload.requests", 100), ("ssd.front.depth", depth), ("workload.block_bytes", bytes)];
                    let mut sets = sets.map(|(key, value)| (key.to_owned(), value.to_string())).to_vec();
                    sets.push(("ssd.channels".to_owned(), channels.to_string()));
                    let base = toml::to_string(&toml::from_str::<toml::Table>(BASE).unwrap()["base"]).unwrap();
                    let run = Prepared::resolve(&base, &sets).unwrap();
                    let found = run.run(None, &mut |_| ()).unwrap();
                    found.drive().unwrap().op("read").unwrap().iops
                };
                assert_eq!(*cell, Some(iops(2) / iops(1) * 100.0 - 100.0), "{depth}, {bytes}");
            }
        }
        assert!(figure.z[0][2] > figure.z[0][0], "two channels gain more when they are asked at once: {:?}", figure.z);
        let json = serde_json::to_value(&done.judgement).unwrap();
        assert_eq!(json["figures"][0]["y"], serde_json::json!({"label": "KiB", "log": false, "values": [4.0, 16.0]}));
        assert_eq!(serde_json::from_value::<crate::Judgement>(json).unwrap(), done.judgement);
        assert_eq!(done.judgement.claims[0].id, "queued");
        assert!(done.judgement.claims[0].ours > Some(1.0));
        assert_eq!(done.judgement.fingerprints.len(), 12);
        assert!(done.judgement.fingerprints.iter().any(|(id, _)| id == "rate/8/16/one"));
        assert!(done.runs.is_empty(), "results of a grid's runs are in its figure");
    }

    #[test]
    fn the_grid_of_the_documentation_parses() {
        let page = include_str!("../../../docs/format/study.md");
        let grid = page.split("```toml").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        let spec = Spec::parse(&source(grid)).unwrap();
        assert_eq!(spec.runs.len(), 12);
        assert!(spec.runs.iter().any(|run| run.id == "queue/4/128/on"));
    }

    #[test]
    fn a_name_has_nothing_that_an_id_or_a_claim_needs() {
        assert!(["a", "a b", "a-b.c,d", "4"].iter().all(|name| is_name(name)));
        assert!(["", " ", " a", "a ", "a/b", "a(b", "a)b"].iter().all(|name| !is_name(name)));
    }

    #[test]
    fn a_run_of_a_grid_is_called_after_its_place() {
        let spec = Spec::parse(&source(GRID)).unwrap();
        let first = &spec.runs[0];
        assert_eq!((first.id.as_str(), first.title.as_str()), ("rate/1/4/one", "Rate: depth 1, KiB 4, one"));
        assert_eq!((first.row.as_deref(), first.quick), (Some("one, depth 1, KiB 4"), 0.5));
        let ids: Vec<&str> = spec.runs.iter().map(|run| run.id.as_str()).collect();
        assert_eq!(ids[1..5], ["rate/1/4/two", "rate/2/4/one", "rate/2/4/two", "rate/8/4/one"]);
    }

    /// At their limits: 10,000 runs, an axis from 0 that is not logarithmic, a mark at its end.
    #[test]
    fn grids_at_their_limits_are_accepted() {
        let many = |count: u32| (1..=count).map(|value| value.to_string()).collect::<Vec<_>>().join(", ");
        let runs =
            |text: &str| Spec::parse(&source(text)).map(|spec| spec.runs.len()).map_err(|error| error.to_string());
        assert_eq!(runs(&GRID.replace("values = [1, 2, 8]", &format!("values = [{}]", many(2500)))), Ok(10_000));
        let row = |count: u32| {
            format!(
                "[[grid]]\nid = 'row'\ntitle = 'Row'\nruns = {{ one = {{}}, two = {{}} }}\n\
                 x = {{ key = 'workload.requests', label = 'n', values = [{}] }}\n",
                many(count)
            )
        };
        assert_eq!(runs(&row(5000)), Ok(10_000));
        assert!(runs(&row(5001)).unwrap_err().contains("5001 cells and 10002 runs"));
        assert_eq!(runs(&GRID.replace("values = [1, 2, 8], log = true", "values = [0, 2, 8]")), Ok(12));
        assert_eq!(runs(&GRID.replace("quick = 0.5", "quick = 1")), Ok(12));
        assert_eq!(runs(&GRID.replace("x = 4, y = 5.5", "x = 0.1, y = 0")), Ok(12));
    }

    #[test]
    fn a_measure_of_a_cell_that_there_is_not_is_found_before_anything_runs() {
        let spec = Spec::parse(&source(&GRID.replace("read.iops(two)", "read.iop(two)"))).unwrap();
        let error = spec.check().unwrap_err().to_string();
        assert!(error.contains("grid `rate`") && error.contains("did you mean"), "{error}");
    }

    #[test]
    fn a_grid_of_too_many_runs_is_refused() {
        let many: Vec<String> = (1..=2600).map(|value| value.to_string()).collect();
        let values = GRID.lines().find(|line| line.starts_with("x = ")).unwrap();
        let (before, rest) = values.split_once("values = [").unwrap();
        let (_, after) = rest.split_once(']').unwrap();
        let error = refused(values, &format!("{before}values = [{}]{after}", many.join(", ")));
        assert!(error.contains("found 5200 cells and 10400 runs, expected 10000 runs at most"), "{error}");
    }

    #[test]
    fn a_wrong_claim_is_an_error_before_anything_runs() {
        let ran = std::sync::atomic::AtomicBool::new(false);
        let watch = |_: &RunSpec, _: crate::Event<'_>| ran.store(true, std::sync::atomic::Ordering::Relaxed);
        for (claim, what) in [
            ("read.iops(elsewhere)", "no run `elsewhere`"),
            ("read.iop(rate/8/4/two)", "no metric `read.iop`; did you mean"),
        ] {
            let study = source(&format!("{GRID}[[claim]]\nid = 'c'\nours = '{claim}'\nabove = 1.0\n"));
            let error = crate::run(&study, false, Library::embedded(), &(), &watch).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
        assert!(!ran.into_inner());
    }

    #[test]
    fn a_quick_grid_has_every_cell_of_shorter_runs() {
        let [whole, quick] = [false, true].map(|quick| finished(GRID, quick).unwrap().judgement);
        let lengths = |figure: &Figure| figure.z.iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(lengths(&whole.figures[0]), lengths(&quick.figures[0]));
        assert_ne!(whole.fingerprints, quick.fingerprints);
    }

    /// Of a key that both have, a run's own value counts.
    #[test]
    fn a_run_of_a_grid_sets_its_keys_over_those_of_the_grid() {
        let grid = GRID.replace("{ 'ssd.channels' = 1 }", "{ 'workload.requests' = 7 }");
        let spec = Spec::parse(&source(&grid)).unwrap();
        let requests = |name: &str| {
            let run = spec.runs.iter().find(|run| run.id == format!("rate/2/4/{name}")).unwrap();
            run.set["workload.requests"].as_integer()
        };
        assert_eq!((requests("one"), requests("two")), (Some(7), Some(100)));
    }

    #[test]
    fn a_claim_of_each_cell_compares_with_the_number_of_that_cell() {
        let claim =
            "[[grid.claim]]\nid = '{x} and {y}'\nours = 'read.iops(two)'\npublished = '/rates/{x}/{y}'\nwithin = 0.1\n";
        let spec = Spec::parse(&source(&format!("{GRID}{claim}"))).unwrap();
        let claims: Vec<_> = spec
            .claims
            .iter()
            .map(|claim| (claim.id.as_str(), claim.ours.as_str(), claim.published.as_deref().unwrap()))
            .collect();
        assert_eq!(claims.len(), 6);
        assert_eq!(claims[0], ("1 and 4", "read.iops(rate/1/4/two)", "/rates/1/4"));
        assert_eq!(claims[5], ("8 and 16", "read.iops(rate/8/16/two)", "/rates/8/16"));
    }

    #[test]
    fn a_list_of_keys_gets_the_same_value() {
        let grid = GRID.replace("key = 'ssd.front.depth'", "key = ['ssd.front.depth', 'workload.depth']");
        let spec = Spec::parse(&source(&grid)).unwrap();
        let run = spec.runs.iter().find(|run| run.id == "rate/8/16/one").unwrap();
        assert_eq!([run.set["ssd.front.depth"].as_integer(), run.set["workload.depth"].as_integer()], [Some(8); 2]);
        assert_eq!(run.set["ssd.channels"].as_integer(), Some(1));
    }

    #[test]
    fn a_key_that_no_experiment_has_is_named_with_its_grid() {
        for (from, to, key) in [
            ("'workload.block_bytes'", "'workload.blok_bytes'", "did you mean `workload.block_bytes`?"),
            ("'ssd.channels' = 1", "'ssd.chanels' = 1", "did you mean `ssd.channels`?"),
            ("values = [1, 2, 8]", "values = [0, 2, 8], shown = [1, 2, 3]", "`ssd.front.depth`"),
        ] {
            let error = refused(from, to);
            assert!(error.contains("grid `rate`") && error.contains(key), "{error}");
        }
    }

    #[test]
    fn a_grid_that_does_not_hold_together_is_refused_before_it_runs() {
        for (from, to, why) in [
            ("shown = [4, 16]", "shown = [4, 16, 64]", "`y.values` has 2 and `y.shown` 3"),
            ("shown = [4, 16]", "shown = [16, 4]", "in ascending order"),
            ("values = [1, 2, 8]", "values = [1]", "two or more numbers"),
            ("values = [1, 2, 8]", "values = ['1', '2']", "expected `x.shown`"),
            ("values = [1, 2, 8]", "values = [0, 2, 8]", "`x.log`: found 0"),
            ("'workload.block_bytes'", "'ssd.front.depth'", "`ssd.front.depth` is set twice"),
            ("'workload.requests' = 100", "'ssd.front.depth' = 1", "`ssd.front.depth` is set by a parameter"),
            ("read.iops(one)", "read.iops(on)", "no run `on` among `runs`: one, two"),
            ("* 100 - 100'", "* 100 -'", "ends too soon"),
            ("'read.iops(two) / read.iops(one) * 100 - 100'", "'7'", "names no run"),
            ("one = {", "'o/ne' = {", "`o/ne` is no name"),
            ("levels = [5, 50]", "levels = [50, 5]", "`levels`"),
            ("x = 4,", "x = 0,", "`elsewhere` at 0 and 5.5 is on no axis"),
            ("quick = 0.5", "quick = 0", "`quick`: found 0"),
            ("quick = 0.5", "quick = 1.01", "`quick`: found 1.01"),
            ("x = 4, y = 5.5", "x = inf, y = 5.5", "`elsewhere` at inf and 5.5 is on no axis"),
            ("x = 4, y = 5.5", "x = 4, y = nan", "`elsewhere` at 4 and NaN is on no axis"),
            ("key = 'workload.block_bytes'", "key = []", "expected a key in each"),
            ("key = 'ssd.front.depth'", "key = []", "expected a key in each"),
            ("values = [1, 2, 8]", "values = [1, 2, 2]", "in ascending order"),
            ("shown = [4, 16]", "shown = [4, inf]", "in ascending order"),
        ] {
            let error = refused(from, to);
            assert!(error.contains("grid `rate`") && error.contains(why), "{to}: {error}");
        }
        assert!(refused("levels =", "levles =").contains("levles"));
    }

    #[test]
    fn two_grids_or_two_runs_of_one_id_are_refused() {
        let error = finished(&format!("{GRID}{GRID}"), false).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("grid `rate`: another grid has this id"), "{error}");
        let run = "[[run]]\nid = 'rate/1/4/one'\ntitle = 'alone'\n";
        let error = finished(&format!("{run}{GRID}"), false).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("run `rate/1/4/one`: another run has this id"), "{error}");
    }

    const ROW: &str = "[[grid]]
id = 'row'
title = 'Row'
x = { key = 'workload.block_bytes', label = 'KiB', values = [4096, 16384], shown = [4, 16], also = [{ 'workload.requests' = 8 }, { 'workload.requests' = 2 }] }
runs = { one = { 'ssd.channels' = 1 }, two = {} }
claim = [{ id = 'size of {x}', ours = 'read.count(two) / read.count(row/4/one)', published = '/rate', within = 0.0 },
         { id = 'at {x} alone', ours = 'read.count(one)', published = '/rate', at_x = 16, above = 1.0 }]
[[comparison]]
title = 'All'
columns = ['requests']
measures = ['read.count(run)']
runs = ['row/*']
";

    #[test]
    fn a_row_of_cells_has_claims_and_a_table_and_no_picture() {
        let Finished { judgement, .. } = finished(ROW, false).unwrap();
        assert!(judgement.figures.is_empty());
        let claims: Vec<_> = judgement.claims.iter().map(|claim| (claim.id.as_str(), claim.ours)).collect();
        assert_eq!(claims, [("size of 4", Some(1.0)), ("size of 16", Some(0.25)), ("at 16 alone", Some(2.0))]);
        assert_eq!(judgement.claims[0].text, "read.count(row/4/two) / read.count(row/4/one)");
        let rows: Vec<_> = judgement.tables[0].ours.iter().map(|row| row[0].as_str().unwrap()).collect();
        assert_eq!(rows, ["one, KiB 4", "two, KiB 4", "one, KiB 16", "two, KiB 16"]);
    }

    #[test]
    fn a_picture_needs_two_parameters_and_also_a_table_for_each_value() {
        for (from, to, expected) in [
            ("runs = {", "cell = 'read.iops(one)'\nruns = {", "`cell` and `y`: expected both"),
            (", { 'workload.requests' = 2 }]", "]", "`x.values` has 2 and `x.also` 1"),
            ("two = {}", "two = { 'workload.requests' = 3 }", "`workload.requests` is set by a parameter and by"),
        ] {
            let error = finished(&ROW.replace(from, to), false).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    /// A log that is missing excuses an empty figure only if it is the log of one of the grid's runs.
    #[test]
    fn a_figure_without_a_value_waits_for_logs_of_its_own_runs_alone() {
        let spec = Spec::parse(&source(GRID)).unwrap();
        let of = |run: &str| MissingLog { run: run.to_owned(), command: String::new() };
        for (run, waits) in
            [("rate/8/16/one", true), ("rate-2/8/16/one", false), ("rates/1/4/one", false), ("rate", false)]
        {
            assert_eq!(spec.grids[0].figure(&[], &[of(run)]).is_ok(), waits, "{run}");
        }
        assert_eq!(spec.grids[0].figure(&[], &[of("rate/8/16/one")]), Ok(None));
    }

    #[test]
    fn a_study_without_runs_is_refused() {
        assert!(finished("", false).map(|_| ()).unwrap_err().to_string().contains("neither a run nor a grid"));
    }

    #[test]
    fn cells_whose_run_lacks_the_figure_are_empty_and_a_grid_of_none_is_an_error() {
        let mixed = GRID.replace(
            "'ssd.front.depth', label = 'depth', values = [1, 2, 8]",
            "'workload.rw', label = 'rw', values = ['randread', 'randwrite'], shown = [1, 2]",
        );
        let figure = finished(&mixed, false).unwrap().judgement.figures.remove(0);
        assert!(figure.z.iter().all(|row| row[0].is_some() && row[1].is_none()), "{:?}", figure.z);
        let error = refused("read.iops(two)", "trim.iops(two)");
        assert!(error.contains("grid `rate`: `cell`: no cell has a figure"), "{error}");
        assert!(error.contains("the run has no `trim.iops`"), "{error}");
    }
}
