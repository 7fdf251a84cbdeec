//! Grids: a measure over two parameters of a drive, each cell made of one run or several.
//!
//! A `[[grid]]` of `study.toml` becomes runs of the study, beside those of `[[run]]`, and a [`Figure`] of its
//! judgement. The run called `on` in the cell at 4 and 0.5, in shown units, of the grid `sram` has the id
//! `sram/4/0.5/on`, so that a claim can name it as any other run. `docs/format/study.md` describes the keys.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::expression::Expression;
use super::spec::whole;
use super::{Found, RunSpec, measure};

/// A grid as the study states it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GridSpec {
    /// Its name within the study.
    pub id: String,
    /// For people.
    pub title: String,
    /// Of the cells.
    #[serde(default)]
    pub unit: String,
    /// The parameter from left to right.
    pub x: AxisSpec,
    /// The parameter from below to above.
    pub y: AxisSpec,
    /// What every run sets over the base experiment, by dotted key.
    #[serde(default)]
    pub set: toml::Table,
    /// The runs of a cell by name, and what each sets beside.
    pub runs: BTreeMap<String, toml::Table>,
    /// A cell's figure: arithmetic over measures of the runs of the cell.
    pub cell: String,
    /// Figures at which the picture has a line.
    #[serde(default)]
    pub levels: Vec<f64>,
    /// Points to be shown beside ours.
    #[serde(default)]
    pub mark: Vec<Mark>,
    /// The share of the requests and drive writes at which a quick run stops; 1 runs it whole.
    #[serde(default = "whole")]
    pub quick: f64,
}

/// A parameter of a grid.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AxisSpec {
    /// The key, or keys that get the same value.
    pub key: Keys,
    /// What it is, with its unit.
    pub label: String,
    /// Values of the key.
    pub values: Vec<toml::Value>,
    /// The same as numbers for people; the values themselves where it is absent.
    pub shown: Option<Vec<f64>>,
    /// Whether equal factors lie equally far apart.
    #[serde(default)]
    pub log: bool,
}

/// One key or several.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Keys {
    /// One.
    One(String),
    /// Several.
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

/// A point beside ours, in shown units.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    /// From left to right.
    pub x: f64,
    /// From below to above.
    pub y: f64,
    /// The figure there, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub z: Option<f64>,
    /// What it is.
    pub label: String,
}

/// A parameter of a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// What it is, with its unit.
    pub label: String,
    /// Whether equal factors lie equally far apart.
    pub log: bool,
    /// Its values as shown, ascending.
    pub values: Vec<f64>,
}

/// A picture of a measure over two parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The grid's name.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// Of `z`, `levels` and the marks' `z`.
    pub unit: String,
    /// From left to right.
    pub x: Axis,
    /// From below to above.
    pub y: Axis,
    /// A row for each value of `y`, in it a figure for each value of `x`; nothing where a run has no such figure.
    pub z: Vec<Vec<Option<f64>>>,
    /// Figures at which to draw a line, ascending.
    pub levels: Vec<f64>,
    /// Points beside ours.
    pub marks: Vec<Mark>,
}

/// A grid that holds together; the keys it sets are looked at when its runs become experiments.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    spec: GridSpec,
    x: Axis,
    y: Axis,
}

/// A name that becomes a part of an id, and so of a claim's text.
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
        if values.len() < 2 || !ascends(&values) {
            return Err(format!("`{name}`: found {values:?}, expected two or more numbers in ascending order"));
        }
        if self.log && values[0] <= 0.0 {
            return Err(format!("`{name}.log`: found {}, expected numbers above 0", values[0]));
        }
        Ok(Axis { label: self.label.clone(), log: self.log, values })
    }
}

impl Grid {
    /// Errors: what is wrong, in words that name the key.
    pub(super) fn new(spec: GridSpec) -> Result<Grid, String> {
        let (x, y) = (spec.x.axis("x")?, spec.y.axis("y")?);
        let grid = Grid { spec, x, y };
        grid.check_names()?;
        grid.check_keys()?;
        let GridSpec { levels, mark, quick, .. } = &grid.spec;
        if !ascends(levels) {
            return Err(format!("`levels`: found {levels:?}, expected numbers in ascending order"));
        }
        for mark in mark {
            let on = |axis: &Axis, at: f64| at.is_finite() && (!axis.log || at > 0.0);
            if !on(&grid.x, mark.x) || !on(&grid.y, mark.y) {
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

    /// What a parameter sets must not be set over by anything else, or the picture would not vary it.
    fn check_keys(&self) -> Result<(), String> {
        let GridSpec { x, y, set, runs, .. } = &self.spec;
        let keys: Vec<&String> = x.key.all().iter().chain(y.key.all()).collect();
        if x.key.all().is_empty() || y.key.all().is_empty() {
            return Err("`x.key` and `y.key`: expected a key in each".to_owned());
        }
        for (at, key) in keys.iter().enumerate() {
            if keys[..at].contains(key) {
                return Err(format!("key `{key}` is set twice by `x` and `y`"));
            }
            if [set].into_iter().chain(runs.values()).any(|table| table.contains_key(key.as_str())) {
                return Err(format!("key `{key}` is set by a parameter and by `set` or `runs`"));
            }
        }
        Ok(())
    }

    pub(super) fn id(&self) -> &str {
        &self.spec.id
    }

    fn run_id(&self, x: f64, y: f64, run: &str) -> String {
        format!("{}/{x}/{y}/{run}", self.spec.id)
    }

    /// Every run, row by row.
    pub(super) fn runs(&self) -> Vec<RunSpec> {
        let GridSpec { id, title, set, runs, quick, .. } = &self.spec;
        let mut all = Vec::new();
        for (y, y_value) in self.y.values.iter().zip(&self.spec.y.values) {
            for (x, x_value) in self.x.values.iter().zip(&self.spec.x.values) {
                for (name, own) in runs {
                    let mut set = set.clone();
                    set.extend(own.clone());
                    for (axis, value) in [(&self.spec.x, x_value), (&self.spec.y, y_value)] {
                        set.extend(axis.key.all().iter().map(|key| (key.clone(), value.clone())));
                    }
                    let place = format!("{} {x}, {} {y}", self.x.label, self.y.label);
                    all.push(RunSpec {
                        id: self.run_id(*x, *y, name),
                        title: format!("{title}: {place}, {name}"),
                        set,
                        quick: *quick,
                        grid: Some(id.clone()),
                        ..RunSpec::default()
                    });
                }
            }
        }
        all
    }

    /// The picture. A cell whose runs lack a figure, and one without a finite number, is empty.
    /// Errors: no cell has a figure, and why not the first.
    pub(super) fn figure(&self, found: &[(RunSpec, Found)]) -> Result<Figure, String> {
        let cell = Expression::parse(&self.spec.cell)?;
        let mut why = None;
        let mut figure_at = |x: f64, y: f64| {
            let value = cell.value(&|what, run| measure::of_run(what, &self.run_id(x, y, run), found));
            value.map_err(|what| why.get_or_insert(what).clone()).ok().filter(|value| value.is_finite())
        };
        let mut row = |y: f64| self.x.values.iter().map(|&x| figure_at(x, y)).collect();
        let z: Vec<Vec<Option<f64>>> = self.y.values.iter().map(|&y| row(y)).collect();
        if z.iter().flatten().flatten().count() == 0 {
            let why = why.unwrap_or_else(|| "no number is finite".to_owned());
            return Err(format!("`cell`: no cell has a figure: {why}"));
        }
        let GridSpec { id, title, unit, levels, mark, .. } = self.spec.clone();
        Ok(Figure { id, title, unit, x: self.x.clone(), y: self.y.clone(), z, levels, marks: mark })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Found, Prepared};
    use crate::study::{Finished, Source, Spec, StudyError};

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
        let toml = Box::leak(format!("{BASE}{text}").into_boxed_str());
        Source { name: "tiny", toml, published: "{\"rate\": 1.0}", source: "" }
    }

    fn finished(text: &str, quick: bool) -> Result<Finished, StudyError> {
        crate::study::run(&source(text), quick, &|_, _| ())
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
                    let Found::Ssd(found) = run.run(None, &mut |_| ()).unwrap() else { panic!("it is a drive") };
                    found.op("read").unwrap().iops
                };
                assert_eq!(*cell, Some(iops(2) / iops(1) * 100.0 - 100.0), "{depth}, {bytes}");
            }
        }
        assert!(figure.z[0][2] > figure.z[0][0], "two channels gain more when they are asked at once: {:?}", figure.z);
        let json = serde_json::to_value(&done.judgement).unwrap();
        assert_eq!(json["figures"][0]["y"], serde_json::json!({"label": "KiB", "log": false, "values": [4.0, 16.0]}));
        assert_eq!(serde_json::from_value::<crate::study::Judgement>(json).unwrap(), done.judgement);
        assert_eq!(done.judgement.claims[0].id, "queued");
        assert!(done.judgement.claims[0].ours > 1.0);
        assert_eq!(done.judgement.fingerprints.len(), 12);
        assert!(done.judgement.fingerprints.iter().any(|(id, _)| id == "rate/8/16/one"));
        assert!(done.runs.is_empty(), "runs of a grid are told of by its figure");
    }

    #[test]
    fn the_grid_of_the_documentation_parses() {
        let page = include_str!("../../../../docs/format/study.md");
        let grid = page.split("```toml").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        let spec = Spec::parse(&source(grid)).unwrap();
        assert_eq!(spec.runs.len(), 12);
        assert!(spec.runs.iter().any(|run| run.id == "queue/4/128/on"));
    }

    #[test]
    fn a_quick_grid_has_every_cell_of_shorter_runs() {
        let [whole, quick] = [false, true].map(|quick| finished(GRID, quick).unwrap().judgement);
        let lengths = |figure: &Figure| figure.z.iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(lengths(&whole.figures[0]), lengths(&quick.figures[0]));
        assert_ne!(whole.fingerprints, quick.fingerprints);
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

    #[test]
    fn a_study_without_runs_and_a_grid_on_bare_flash_are_refused() {
        assert!(finished("", false).map(|_| ()).unwrap_err().to_string().contains("neither a run nor a grid"));
        let toml = Box::leak(format!("{BASE}{GRID}").replace("kind = 'ssd'", "kind = 'wear'").into_boxed_str());
        let error = Spec::parse(&Source { toml, ..source("") }).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("grid `rate`: a grid is of drives"), "{error}");
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
