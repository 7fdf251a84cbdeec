//! Sweeps: one experiment over a grid of values of its keys, or over a random sample of the grid.
//!
//! A point of a sweep is a complete experiment. Its id depends on nothing but that experiment and the version of the
//! model, so results that are kept by id serve every sweep that has the point: one that is run again after an
//! interruption, with more values, or in shards.

use std::collections::BTreeSet;

use rayon::prelude::*;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use sim::Seed;

use crate::MODEL_VERSION;
use crate::measure::{Metrics, Outcome};
use crate::parts::Library;
use crate::run::Prepared;
use crate::schema::{Experiment, ExperimentError, is_key, limits, parse, wrong};

/// Most points of a grid from which all are run, or a sample is drawn.
const MOST_POINTS: u64 = 1 << 40;
/// Most points that are run.
const MOST_RUN: u64 = 100_000;

/// A key and the values that it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The dotted key.
    pub key: String,
    /// Its values, as `--set` takes them.
    pub values: Vec<String>,
}

impl Axis {
    /// Parses `KEY=VALUE,VALUE…`. A comma in brackets or quotes belongs to a value.
    /// Errors: no such key; no value; the same value twice.
    pub fn parse(text: &str) -> Result<Axis, ExperimentError> {
        let Some((key, values)) = text.split_once('=') else {
            return wrong("sweep.vary", text, "KEY=VALUE,VALUE…, as in ssd.ftl.gc=greedy,fifo");
        };
        let key = key.trim().to_owned();
        if !is_key(&key) || key.starts_with("sweep.") {
            return Err(ExperimentError::unknown(key));
        }
        let values = split(values);
        if let Some(empty) = values.iter().position(String::is_empty) {
            return wrong(key, text, format!("a value {} between the commas", empty + 1));
        }
        let distinct: BTreeSet<&String> = values.iter().collect();
        if distinct.len() < values.len() {
            return wrong(key, text, "each value once");
        }
        Ok(Axis { key, values })
    }
}

/// Splits at the commas that are in no brackets and no quotes.
fn split(text: &str) -> Vec<String> {
    let (mut parts, mut depth, mut quote) = (vec![String::new()], 0u32, None);
    for c in text.chars() {
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = parts.last_mut() {
            last.push(c);
        }
    }
    parts.into_iter().map(|part| part.trim().to_owned()).collect()
}

/// Indices of every cell of a grid with these numbers of values; the last index changes fastest.
pub fn cells(lengths: &[usize]) -> impl Iterator<Item = Vec<usize>> + use<> {
    let lengths = lengths.to_vec();
    let count: usize = lengths.iter().product();
    (0..count).map(move |cell| cell_at(&lengths, cell as u64))
}

fn cell_at(lengths: &[usize], mut cell: u64) -> Vec<usize> {
    let mut indices = vec![0; lengths.len()];
    for (index, &length) in indices.iter_mut().zip(lengths).rev() {
        *index = (cell % length as u64) as usize;
        cell /= length as u64;
    }
    indices
}

/// One experiment of a sweep.
#[derive(Clone, Debug)]
pub struct Point {
    /// Its place in the whole sweep, from 0.
    pub index: usize,
    /// Value of each axis.
    pub values: Vec<String>,
    /// The experiment, ready to run.
    pub prepared: Prepared,
    /// Id under which its result is kept, in hexadecimal.
    pub id: String,
}

/// A sweep.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The varied keys.
    pub axes: Vec<Axis>,
    /// Its points.
    pub points: Vec<Point>,
}

/// One of several equal parts of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Number of this part, from 1.
    pub number: usize,
    /// Number of parts.
    pub of: usize,
}

impl std::str::FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let parsed = text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        match parsed {
            Some((number, of)) if (1..=of).contains(&number) => Ok(Shard { number, of }),
            _ => Err("expected a part and the number of parts, as in 1/4".to_owned()),
        }
    }
}

impl Shard {
    /// Whether a point belongs to this part.
    pub fn has(self, point: &Point) -> bool {
        point.index % self.of == self.number - 1
    }
}

impl Sweep {
    /// Builds the points of an experiment's sweep: those of its `[sweep]`, or those of `vary` and `samples` where given.
    /// `sets` are set before the values of the axes. `input` stands for the contents of files that the experiment names,
    /// such as a trace's digest; it goes into the ids.
    /// Errors: an experiment that cannot be read; nothing to vary; too many points; the first point that is no
    /// experiment, with its values.
    pub fn new(
        text: &str,
        sets: &[(String, String)],
        vary: &[String],
        samples: Option<u64>,
        input: &str,
        library: &Library,
    ) -> Result<Sweep, ExperimentError> {
        let mut table = parse(text)?;
        let stated = match table.remove("sweep") {
            Some(mut stated) => {
                crate::schema::check_key("sweep", &mut stated)?;
                let stated: Result<limits::Sweep, toml::de::Error> = stated.try_into();
                stated.map_err(|error| ExperimentError::Syntax(error.to_string()))?
            }
            None => limits::Sweep::default(),
        };
        let vary = if vary.is_empty() { &stated.vary } else { vary };
        let axes: Vec<Axis> = vary.iter().map(|text| Axis::parse(text)).collect::<Result<_, _>>()?;
        if axes.is_empty() {
            return wrong("sweep.vary", "nothing", "keys to vary: --vary KEY=VALUE,VALUE…, or vary in [sweep]");
        }
        let mut seen = BTreeSet::new();
        if let Some(twice) = axes.iter().find(|axis| !seen.insert(&axis.key)) {
            return wrong("sweep.vary", &twice.key, "each key once");
        }
        let lengths: Vec<usize> = axes.iter().map(|axis| axis.values.len()).collect();
        let whole = lengths.iter().try_fold(1u64, |all, &length| all.checked_mul(length as u64));
        let Some(whole) = whole.filter(|&whole| whole <= MOST_POINTS) else {
            return wrong(
                "sweep.vary",
                format!("{lengths:?} values"),
                format!("a grid of at most {MOST_POINTS} points"),
            );
        };
        let samples = samples.unwrap_or(stated.samples);
        let number = if samples == 0 { whole } else { samples.min(whole) };
        if number > MOST_RUN {
            return wrong("sweep.samples", number, format!("at most {MOST_RUN} points"));
        }
        let chosen: Vec<u64> = if number == whole { (0..whole).collect() } else { sample(number, whole) };
        let point = |(index, &cell): (usize, &u64)| {
            let at = cell_at(&lengths, cell);
            let values: Vec<String> = axes.iter().zip(at).map(|(axis, at)| axis.values[at].clone()).collect();
            let own = axes.iter().map(|axis| axis.key.clone()).zip(values.iter().cloned());
            let sets: Vec<(String, String)> = sets.iter().cloned().chain(own).collect();
            let prepared = Experiment::from_table(table.clone(), &sets, library)
                .and_then(|experiment| Prepared::new(experiment, library))
                .map_err(|error| at_point(&axes, &values, error))?;
            let id = id(&prepared, input);
            Ok(Point { index, values, prepared, id })
        };
        let points = chosen.iter().enumerate().map(point).collect::<Result<_, ExperimentError>>()?;
        Ok(Sweep { axes, points })
    }
}

/// The error of a point, with the values of the axes if it is about none of them.
fn at_point(axes: &[Axis], values: &[String], error: ExperimentError) -> ExperimentError {
    match error {
        ExperimentError::Value { key, found, expected } => {
            let others = axes.iter().zip(values).filter(|(axis, _)| axis.key != key);
            let others: Vec<String> = others.map(|(axis, value)| format!("{}={value}", axis.key)).collect();
            let expected =
                if others.is_empty() { expected } else { format!("{expected} (with {})", others.join(", ")) };
            ExperimentError::Value { key, found, expected }
        }
        other => other,
    }
}

/// `number` different cells of `whole`, ascending (Floyd's sampling; always the same ones).
fn sample(number: u64, whole: u64) -> Vec<u64> {
    let mut rng = Seed(1).stream("sweep");
    let mut chosen = BTreeSet::new();
    for last in whole - number..whole {
        let drawn = rng.below(last + 1);
        if !chosen.insert(drawn) {
            chosen.insert(last);
        }
    }
    chosen.into_iter().collect()
}

/// Id of an experiment's result.
fn id(prepared: &Prepared, input: &str) -> String {
    let subject = &prepared.subject;
    let version = env!("CARGO_PKG_VERSION");
    let text = format!("{version} {MODEL_VERSION}\n{}\n{subject:?}\n{input}", prepared.experiment.to_toml());
    digest(text.as_bytes())[..24].to_owned()
}

/// SHA-256 in hexadecimal.
pub fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What a sweep needs of the result of a point.
#[derive(Clone, Debug, Deserialize)]
pub struct Row {
    /// Fingerprint of the run.
    pub fingerprint: String,
    /// Every metric of the run.
    pub metrics: Metrics,
}

impl From<Outcome> for Row {
    fn from(outcome: Outcome) -> Row {
        Row { fingerprint: outcome.fingerprint, metrics: outcome.measured.metrics }
    }
}

/// Runs points on all processors and returns a row for each, in their order.
pub fn run<E: Send>(points: &[&Point], each: impl Fn(&Point) -> Result<Row, E> + Sync) -> Vec<Result<Row, E>> {
    points.par_iter().map(|point| each(point)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "title = 't'\n[ssd]\nblocks = 32\npages = 16\n[workload]\nrequests = 10\n";

    fn sweep(file: &str, vary: &[&str], samples: Option<u64>) -> Result<Sweep, String> {
        let vary: Vec<String> = vary.iter().map(|&text| text.to_owned()).collect();
        Sweep::new(file, &[], &vary, samples, "", Library::embedded()).map_err(|error| error.to_string())
    }

    fn values(sweep: &Sweep) -> Vec<String> {
        sweep.points.iter().map(|point| point.values.join(" ")).collect()
    }

    #[test]
    fn every_combination_is_a_point_and_the_last_key_changes_fastest() {
        let found = sweep(FILE, &["ssd.ftl.gc=greedy,fifo", "seed=1,2,3"], None).unwrap();
        assert_eq!(values(&found), ["greedy 1", "greedy 2", "greedy 3", "fifo 1", "fifo 2", "fifo 3"]);
        let seeds: Vec<u64> = found.points.iter().map(|point| point.prepared.experiment.seed).collect();
        assert_eq!(seeds, [1, 2, 3, 1, 2, 3]);
        assert_eq!(found.points.iter().map(|point| &point.id).collect::<BTreeSet<_>>().len(), 6);
    }

    #[test]
    fn the_file_states_a_sweep_and_the_command_line_overrides_it() {
        let file = format!("{FILE}[sweep]\nvary = ['seed=1,2']\n");
        assert_eq!(values(&sweep(&file, &[], None).unwrap()), ["1", "2"]);
        assert_eq!(values(&sweep(&file, &["workload.depth=4,8"], None).unwrap()), ["4", "8"]);
    }

    #[test]
    fn a_point_has_the_same_id_in_every_sweep() {
        let small = sweep(FILE, &["seed=2"], None).unwrap();
        let large = sweep(FILE, &["seed=1,2,3"], None).unwrap();
        assert_eq!(small.points[0].id, large.points[1].id);
    }

    #[test]
    fn shards_share_the_points_without_overlap() {
        let all = sweep(FILE, &["seed=1,2,3,4,5"], None).unwrap();
        let of = |text: &str| {
            let shard: Shard = text.parse().unwrap();
            all.points.iter().filter(|point| shard.has(point)).map(|point| point.index).collect::<Vec<_>>()
        };
        assert_eq!([of("1/2"), of("2/2")], [vec![0, 2, 4], vec![1, 3]]);
        for wrong in ["0/2", "3/2", "1", "a/b", "1/0"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_sample_is_of_different_points_and_repeats() {
        let vary = ["seed=1,2,3,4,5,6,7,8,9,10", "workload.depth=1,2,4,8,16,32"];
        let one = values(&sweep(FILE, &vary, Some(7)).unwrap());
        assert_eq!(one.iter().collect::<BTreeSet<_>>().len(), 7);
        assert_eq!(one, values(&sweep(FILE, &vary, Some(7)).unwrap()));
        assert_eq!(values(&sweep(FILE, &vary, Some(999)).unwrap()).len(), 60);
    }

    #[test]
    fn commas_in_brackets_and_quotes_belong_to_a_value() {
        let axis = Axis::parse("ssd.front.queue_weights=[1,2],[3]").unwrap();
        assert_eq!(axis.values, ["[1,2]", "[3]"]);
        assert_eq!(Axis::parse("title='a, b', c").unwrap().values, ["'a, b'", "c"]);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_key() {
        for (vary, what) in [
            ("ssd.ftl.cg=greedy", "did you mean `ssd.ftl.gc`"),
            ("ssd.ftl.gc", "KEY=VALUE"),
            ("ssd.ftl.gc=greedy,,fifo", "a value 2"),
            ("ssd.ftl.gc=greedy,greedy", "each value once"),
            ("ssd.ftl.gc=greedy,fidgety", "fidgety"),
            ("ssd.channels=0", "ssd.channels"),
        ] {
            let error = sweep(FILE, &[vary], None).unwrap_err();
            assert!(error.contains(what), "{vary}: {error}");
        }
        assert!(sweep(FILE, &[], None).unwrap_err().contains("sweep.vary"));
        let error = sweep(FILE, &["ssd.channels=0,8", "seed=5"], None).unwrap_err();
        assert!(error.contains("seed=5"), "{error}");
    }
}
