//! Studies: repeat published tables and judge the results.
//!
//! A study is a directory: `study.toml` (its runs and claims, and numbers derived from theory), `published.json` (the
//! numbers as printed, if any) and, in `studies/`, `SOURCE.md` (where they come from, and why a claim misses). No such
//! number is in the code.
//!
//! The runs of a study are on raw flash (`kind = "wear"`, the default), on a drive (`kind = "ssd"`), or on whatever each
//! states (`kind = "guest"`). A run with a guest replays the log of one: `guest`.

mod bars;
mod expression;
mod grid;
pub mod guest;
mod judge;
mod kernel;
mod layers;
mod measure;
pub mod page;
mod pictures;
mod published;
mod spec;
pub mod theory;
pub mod truth;

use std::borrow::Cow;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use bars::BarChart;
pub use guest::{Logs, MissingLog};
pub use judge::{Claim, Kind, Relation, Verdict};
pub use kernel::{KernelPair, kernel_pairs};
pub use pictures::{Operation, Pictures, Requests, RunPicture};
pub use published::PublishedGroups;
pub use spec::{Device, RunSpec, Spec};

use runner::measure::Outcome;
use runner::measure::outcome::table::{BINS, Row};
use runner::parts::Library;
use runner::report::figure::Figure;
use runner::run::Progress;
use runner::run::{Failed, Prepared};
use runner::schema::{ExperimentError, nearest};

/// Why a study could not be judged.
#[derive(Debug, Error)]
pub enum StudyError {
    /// There is no study of this name.
    #[error("no study `{name}`{}", nearest.as_ref().map_or(String::new(), |known| format!("; did you mean `{known}`?")))]
    Unknown {
        /// Name requested.
        name: String,
        /// The nearest known name.
        nearest: Option<String>,
    },
    /// `study.toml` or `published.json` is invalid.
    #[error("study `{study}`, {place}: {what}")]
    Spec {
        /// Name of the study.
        study: String,
        /// Path of the invalid entry.
        place: String,
        /// What is wrong, and what was expected.
        what: String,
    },
    /// An experiment of the study is refused.
    #[error("study `{study}`, run `{run}`: {error}")]
    Experiment {
        /// Name of the study.
        study: String,
        /// Id of the run.
        run: String,
        /// Why the experiment is refused.
        error: ExperimentError,
    },
    /// The log of a run with a guest cannot be used, or no run of the study has one.
    #[error("study `{study}`, run `{run}`: {}", no_log.what)]
    Log {
        /// Name of the study.
        study: String,
        /// Id of the run.
        run: String,
        /// Why there is none.
        no_log: Box<guest::NoLog>,
    },
    /// A run failed.
    #[error("study `{study}`, run `{run}`: {error}")]
    Run {
        /// Name of the study.
        study: String,
        /// Id of the run.
        run: String,
        /// Why the run failed.
        error: Box<Failed>,
    },
}

/// The texts of a study: one of the tree's, which are built in, or a user's own.
#[derive(Clone, Debug)]
pub struct Source {
    /// Name of its directory.
    pub name: Cow<'static, str>,
    /// Text of `study.toml`.
    pub toml: Cow<'static, str>,
    /// Text of `published.json`; `{}` if the study has none.
    pub published: Cow<'static, str>,
}

macro_rules! studies {
    ($($name:literal $($published:literal)?),* $(,)?) => {
        /// The built-in studies, in the order of `study list`.
        pub const ALL: &[Source] = &[$(Source {
            name: Cow::Borrowed($name),
            toml: Cow::Borrowed(include_str!(concat!("../../../studies/", $name, "/study.toml"))),
            published: Cow::Borrowed(studies!(@published $name $($published)?)),
        }),*];
    };
    (@published $name:literal) => { "{}" };
    (@published $name:literal $published:literal) => {
        include_str!(concat!("../../../studies/", $name, "/", $published))
    };
}
studies![
    "fastmap-data-peb" "published.json",
    "fastmap-first-64" "published.json",
    "fastmap-30-days" "published.json",
    "fastmap-throughput" "published.json",
    "fastmap-latency" "published.json",
    "ssd-ncq" "published.json",
    "ssd-alignment",
    "ssd-parallelism",
    "ssd-trim",
    "ssd-barrier",
    "ssd-bplru",
    "ssd-postmark" "published.json",
    "hpb-iozone" "published.json",
    "hpb-app-start" "published.json",
    "hpb-app-start-guest" "published.json",
    "hpb-claim" "published.json",
    "hpb-writes",
    "ubi-scrubbing",
    "retention",
    "ubiblock-wear" "published.json",
    "ubiblock-time" "published.json",
    "fs-wear-shootout",
    "jffs1-mount" "published.json",
    "jffs1-overhead" "published.json",
    "jffs2-powerfail" "published.json",
    "jffs-two-volumes",
    "jffs-idle-gc",
    "jffs2-appends",
];

/// The built-in study called `name`.
/// Errors: `Unknown`, with the nearest name.
pub fn by_name(name: &str) -> Result<&'static Source, StudyError> {
    ALL.iter().find(|study| study.name == name).ok_or_else(|| StudyError::Unknown {
        name: name.to_owned(),
        nearest: nearest(name, ALL.iter().map(|study| &*study.name)),
    })
}

/// A published table and the same table of our runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TablePair {
    /// Title of the table.
    pub title: String,
    /// Column names.
    pub columns: Vec<String>,
    /// Rows as printed; an empty row if the document has none.
    pub published: Vec<Vec<serde_json::Value>>,
    /// Our rows.
    pub ours: Vec<Vec<serde_json::Value>>,
}

/// A judged study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// Name of the study.
    pub study: String,
    /// Question of the study.
    pub question: String,
    /// Whose numbers its claims compare with; empty if the study does not say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub against: String,
    /// Version of the model.
    pub model_version: u32,
    /// Seed of the runs.
    pub seed: u64,
    /// Whether runs were shortened, and only claims that do not depend on their length were judged.
    pub quick: bool,
    /// Fingerprint of each run.
    pub fingerprints: Vec<(String, String)>,
    /// Runs without a log of their guest: the claims that need them are not judged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_logs: Vec<MissingLog>,
    /// Judged claims.
    pub claims: Vec<Claim>,
    /// Published tables beside ours.
    pub tables: Vec<TablePair>,
    /// Figures of its grids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<Figure>,
    /// Its bar charts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bars: Vec<BarChart>,
}

impl Judgement {
    /// Number of claims with this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.claims.iter().filter(|claim| claim.verdict == verdict).count()
    }

    /// The verdicts by kind of claim, in words; nothing for a kind without claims.
    pub fn counts(&self) -> Vec<String> {
        let of = |kind: Kind, verdict: Verdict| {
            self.claims.iter().filter(|claim| claim.kind == kind && claim.verdict == verdict).count()
        };
        Kind::ALL
            .into_iter()
            .filter(|kind| self.claims.iter().any(|claim| claim.kind == *kind))
            .map(|kind| {
                let verdicts = [Verdict::Hit, Verdict::Miss, Verdict::Calibrated, Verdict::NotJudged];
                let [hit, miss, calibrated, not_judged] = verdicts.map(|of_it| of(kind, of_it));
                let rest = if not_judged > 0 { format!(", {not_judged} not judged") } else { String::new() };
                match kind {
                    Kind::SelfCheck => format!("self-checks: {hit} hold, {miss} fail{rest}"),
                    _ => format!("{}: {hit} hit, {miss} miss, {calibrated} calibrated{rest}", kind.name()),
                }
            })
            .collect()
    }
}

/// A judged study with its runs.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The verdicts.
    pub judgement: Judgement,
    /// Title and outcome of each `[[run]]`; results of a grid's runs are in its figure.
    pub runs: Vec<(String, Outcome)>,
    /// Pictures of the requests of its guests.
    pub pictures: Vec<Pictures>,
}

/// What happens to a run of a study.
#[derive(Debug)]
pub enum Event<'a> {
    /// It is under way.
    Progress(Progress),
    /// It has finished.
    Finished(&'a Outcome),
}

/// Runs a study on the parts of a library, its runs in parallel, and judges it. `watch` is called with the progress and
/// the end of each run, from several threads. Runs with a guest replay those of `logs`; one without a log is left out, and
/// so is what needs it.
/// Errors: [`StudyError`]; no run has a log.
pub fn run(
    source: &Source,
    quick: bool,
    library: &Library,
    logs: &dyn Logs,
    watch: &(dyn Fn(&RunSpec, Event<'_>) + Sync),
) -> Result<Finished, StudyError> {
    let spec = Spec::parse(source)?;
    spec.check()?;
    let questions: Vec<(RunSpec, Prepared)> = spec
        .runs
        .iter()
        .map(|run| Ok((run.clone(), spec.question_of(run, quick, library)?)))
        .collect::<Result<_, StudyError>>()?;
    let guests = guest::Guests::new(&spec.name, &questions, logs, spec.pictured(&questions)?);
    let (found, mut told): (Vec<Option<Outcome>>, Vec<_>) = questions
        .par_iter()
        .map(|(run, question)| {
            let mut progress = |progress| watch(run, Event::Progress(progress));
            if question.experiment.guest.is_some() {
                let replayed = guests.replay(run, question, &mut progress)?;
                let Some((found, told)) = replayed else { return Ok((None, None)) };
                watch(run, Event::Finished(&found));
                return Ok((Some(found), Some(told)));
            }
            let found = question.run(None, &mut progress);
            let found = found.map_err(|error| StudyError::Run {
                study: spec.name.clone(),
                run: run.id.clone(),
                error: Box::new(error),
            })?;
            watch(run, Event::Finished(&found));
            Ok((Some(found), None))
        })
        .collect::<Result<Vec<_>, StudyError>>()?
        .into_iter()
        .unzip();
    let drawn = told.iter_mut().flatten().filter_map(|told| told.take_requests()).collect();
    let asked = questions.into_iter().map(|(run, _)| run);
    let (mut runs, mut missing): (Vec<(RunSpec, Outcome)>, Vec<MissingLog>) = (Vec::new(), Vec::new());
    for (run, found) in asked.zip(found) {
        match found {
            Some(found) => runs.push((run, found)),
            None => {
                let of = run.replays.as_ref().and_then(|id| spec.runs.iter().find(|other| other.id == *id));
                missing.push(MissingLog { command: logs.command(&spec.name, of.unwrap_or(&run)), run: run.id });
            }
        }
    }
    if let (true, Some(first)) = (runs.is_empty(), spec.runs.first()) {
        let no_log = Box::new(guest::none_has(&spec.name, first));
        return Err(StudyError::Log { study: spec.name.clone(), run: first.id.clone(), no_log });
    }
    let claims = judge::judge(&spec, &runs, &missing, quick)?;
    let mut tables = Vec::new();
    for (run, found) in &runs {
        tables.extend(wear_tables(&spec, run, found)?);
    }
    tables.extend(spec.comparison(&runs, &missing)?);
    tables.extend(guest::table(&told, &missing));
    let figures = spec
        .grids
        .iter()
        .filter_map(|grid| {
            grid.figure(&runs, &missing).map_err(|what| spec.wrong(&format!("grid `{}`", grid.id()), what)).transpose()
        })
        .collect::<Result<_, _>>()?;
    let charts = spec.bars.iter();
    let bars = charts
        .filter_map(|bars| {
            let wrong = |what| spec.wrong(&format!("bars `{}`", bars.title), what);
            bars.chart(&runs, &missing).map_err(wrong).transpose()
        })
        .collect::<Result<_, _>>()?;
    let pictures = spec.pictures.iter().map(|pictures| pictures.pictures(&spec.runs, &drawn, &missing)).collect();
    let judgement = Judgement {
        study: spec.name.clone(),
        question: spec.question.clone(),
        against: spec.against.clone(),
        model_version: runner::MODEL_VERSION,
        seed: spec.seed(),
        quick,
        fingerprints: runs.iter().map(|(run, found)| (run.id.clone(), found.fingerprint.clone())).collect(),
        missing_logs: missing,
        claims,
        tables,
        figures,
        bars,
    };
    let stated = runs.into_iter().filter(|(run, _)| run.grid.is_none());
    Ok(Finished { judgement, runs: stated.map(|(run, found)| (run.title, found)).collect(), pictures })
}

/// The published wear table of a run beside ours; `None` if there is none.
fn wear_tables(spec: &Spec, run: &RunSpec, outcome: &Outcome) -> Result<Option<TablePair>, StudyError> {
    let (Some(path), Some(ours)) = (&run.published, outcome.flash()) else { return Ok(None) };
    let published = spec.published(path)?;
    let number = |row: &serde_json::Value, key: &str| row.get(key).cloned().unwrap_or(serde_json::Value::Null);
    let line = |label: [serde_json::Value; 2], row: &serde_json::Value| {
        let mut line = label.to_vec();
        line.extend(["count", "min", "avg", "max"].map(|key| number(row, key)));
        line
    };
    let bounds = |bin: usize| {
        let (from, to) = BINS[bin];
        [from.into(), to.map_or(serde_json::Value::from("inf"), serde_json::Value::from)]
    };
    let total = || [serde_json::Value::from("Total"), serde_json::Value::from("")];
    let mut theirs = Vec::new();
    for bin in 0..BINS.len() {
        let row = published.pointer(&format!("/bins/{bin}")).cloned().unwrap_or_default();
        theirs.push(line(bounds(bin), &row));
    }
    theirs.push(line(total(), &published.get("total").cloned().unwrap_or_default()));
    let json = |row: &Row| serde_json::to_value(row).unwrap_or_default();
    let table = &ours.table;
    let mut ours: Vec<_> = table.bins.iter().enumerate().map(|(bin, row)| line(bounds(bin), &json(row))).collect();
    ours.push(line(total(), &json(&table.total)));
    Ok(Some(TablePair {
        title: run.title.clone(),
        columns: ["from", "to", "count", "min", "avg", "max"].map(str::to_owned).to_vec(),
        published: theirs,
        ours,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_study_of_the_tree_parses_and_its_claims_name_its_runs() {
        for source in ALL {
            let spec = Spec::parse(source).unwrap();
            for run in &spec.runs {
                spec.question_of(run, false, Library::embedded()).unwrap();
                spec.question_of(run, true, Library::embedded()).unwrap();
            }
            spec.check().unwrap();
            assert!(!judge::expand(&spec).unwrap().is_empty(), "{}", source.name);
        }
    }

    /// A table on flash of 128 PEBs: the printed numbers are all different, and stand in the order of the columns.
    #[test]
    fn a_printed_table_stands_beside_ours_column_by_column() {
        let toml = "question = '?'\ntolerance = 0.5\n[base]\ntitle = 'b'\nseed = 9\n[base.nand]\npebs = 128\n\
                    peb_bytes = 16384\npage_bytes = 512\n[base.fs]\ncompression = 'none'\n[base.fsstress]\nloops = 0\n\
                    [base.stop]\nmean_erases_of_others = 3.0\n\
                    [[run]]\nid = 'a'\ntitle = 'Table 1'\npublished = '/table'\nclaims = ['others/max']\n";
        let published = "{\"table\": {\"bins\": [{\"count\": 64, \"min\": 5, \"avg\": 6, \"max\": 7}, \
                         {\"count\": 100, \"min\": 1, \"avg\": 2, \"max\": 3}], \
                         \"total\": {\"count\": 164, \"min\": 8, \"avg\": 9, \"max\": 10}}}";
        let source = Source { name: "x".into(), toml: toml.into(), published: published.into() };
        let done = run(&source, false, Library::embedded(), &(), &|_, _| ()).unwrap();
        let [pair] = &done.judgement.tables[..] else { panic!("{:?}", done.judgement.tables) };
        assert_eq!((pair.title.as_str(), pair.columns.join(" ").as_str()), ("Table 1", "from to count min avg max"));
        let numbers = |row: &[serde_json::Value]| row.iter().map(|cell| cell.as_f64()).collect::<Vec<_>>();
        let last = |rows: &[Vec<serde_json::Value>]| numbers(&rows[rows.len() - 1][2..]);
        assert_eq!(numbers(&pair.published[0][2..]), [64.0, 5.0, 6.0, 7.0].map(Some));
        assert_eq!(last(&pair.published), [164.0, 8.0, 9.0, 10.0].map(Some));
        let total = &done.runs[0].1.flash().expect("raw flash").table.total;
        let json = serde_json::to_value(total).unwrap();
        let ours = ["count", "min", "avg", "max"].map(|key| json[key].as_f64());
        assert_eq!(last(&pair.ours), ours);
        assert!(ours.windows(2).all(|two| two[0] != two[1]), "{ours:?}");
    }

    #[test]
    fn an_unknown_study_names_the_nearest() {
        assert!(by_name("fastmap-first-46").unwrap_err().to_string().contains("`fastmap-first-64`"));
    }
}
