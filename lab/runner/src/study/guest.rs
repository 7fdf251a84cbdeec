//! Guest runs of a study: each replays the log of a run with the guest.
//!
//! Logs of the tree are in `studies/STUDY/logs/`, two files a run, and are built in. Where else they come from is the
//! caller's part, who reads files and runs guests. A run with `replays` has no log of its own: it replays that of another
//! run, whose drive alone may differ.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::Value;

use super::{RunSpec, StudyError, TablePair};
use crate::measure::Outcome;
use crate::parts::Library;
use crate::run::guest::log::{GuestLog, Head, difference_beside_the_drive};
use crate::run::{Prepared, Progress};
use crate::schema::Experiment;

/// Every log of the tree: study, name of the file, contents.
const BUILT_IN: &[(&str, &str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/logs.rs"));

/// Where a log comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// From the study's directory.
    Tree,
    /// From the user's cache.
    Cache,
    /// The guest ran just now.
    Fresh,
}

impl From {
    /// Name for tables.
    pub const fn name(self) -> &'static str {
        match self {
            From::Tree => "tree",
            From::Cache => "cache",
            From::Fresh => "fresh",
        }
    }
}

/// Why there is no log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoLog {
    /// What is wrong, with the file if there is one.
    pub what: String,
    /// How to correct it.
    pub help: String,
    /// Whether the machine lacks something, rather than the input being wrong.
    pub is_the_machines: bool,
}

/// Whoever has logs of guest runs.
pub trait Logs: Sync {
    /// The log of a run.
    /// Errors: there is none; it cannot be used.
    fn of(
        &self,
        study: &str,
        run: &RunSpec,
        prepared: &Prepared,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<(GuestLog, From), NoLog>;
}

/// Those of the tree alone, with the built-in parts.
impl Logs for () {
    fn of(
        &self,
        study: &str,
        run: &RunSpec,
        prepared: &Prepared,
        _watch: &mut dyn FnMut(Progress),
    ) -> Result<(GuestLog, From), NoLog> {
        let found = beside(study, run, &prepared.experiment, Library::embedded(), &|name| built_in(study, name))?;
        found.map(|log| (log, From::Tree)).ok_or_else(|| missing(study, run))
    }
}

/// A file of the tree's logs.
pub fn built_in(study: &str, name: &str) -> Option<Cow<'static, [u8]>> {
    let found = BUILT_IN.iter().find(|(of, file, _)| *of == study && *file == name);
    found.map(|(.., bytes)| Cow::Borrowed(*bytes))
}

/// Names of the files of a run's log, head and body. Any character of the id but letters, digits, `-`, `_` and an inner
/// `.` is written as `%` and two hexadecimal digits for each byte.
pub fn file_names(id: &str, experiment: &Experiment) -> [String; 2] {
    let mut name = String::new();
    for (at, byte) in id.bytes().enumerate() {
        if byte.is_ascii_alphanumeric() || b"-_".contains(&byte) || (byte == b'.' && at > 0) {
            name.push(byte.into());
        } else {
            name += &format!("%{byte:02X}");
        }
    }
    [format!("{name}.toml"), format!("{name}.{}", body_ending(experiment))]
}

/// Ending of the file with the body of an experiment's log.
pub fn body_ending(experiment: &Experiment) -> &'static str {
    if experiment.has_block_device() { "ntrace" } else { "json" }
}

/// The remedy for a run without a usable log.
pub fn refresh(study: &str, run: &RunSpec) -> String {
    format!(
        "run the guest: nandlab study {study} --refresh, or for this run alone --refresh --only '{}'; it needs the kernel of `nandlab guest build`",
        run.id
    )
}

/// The error for a run without a log.
pub fn missing(study: &str, run: &RunSpec) -> NoLog {
    NoLog {
        what: "no log of the guest, in the study's logs or in the cache".to_owned(),
        help: refresh(study, run),
        is_the_machines: true,
    }
}

/// The log of a run beside its study. `read` returns a file by its name.
/// Errors: it is damaged or stale.
pub fn beside(
    study: &str,
    run: &RunSpec,
    experiment: &Experiment,
    library: &Library,
    read: &dyn Fn(&str) -> Option<Cow<'static, [u8]>>,
) -> Result<Option<GuestLog>, NoLog> {
    let [head, body] = file_names(&run.id, experiment);
    let Some(text) = read(&head) else { return Ok(None) };
    let wrong = |what: String| NoLog {
        what: format!("logs/{head}: {what}"),
        help: format!("{}; with --keep-logs DIR for the study's logs", refresh(study, run)),
        is_the_machines: false,
    };
    let bytes = read(&body).ok_or_else(|| wrong(format!("there is no {body} beside it")))?;
    let text = std::str::from_utf8(&text).map_err(|error| wrong(error.to_string()))?;
    let log = GuestLog::parse(text, bytes).map_err(|error| wrong(error.to_string()))?;
    log.agrees(experiment, library).map_err(|error| wrong(error.to_string()))?;
    Ok(Some(log))
}

/// A guest run's log, for the table.
pub(super) struct Told {
    run: String,
    from: From,
    head: Head,
}

/// The logs of a study's runs.
pub(super) struct Guests<'a> {
    study: &'a str,
    questions: &'a [(RunSpec, Prepared)],
    logs: &'a dyn Logs,
    /// Those that several runs replay, by the id of their run. Each is taken once.
    shared: BTreeMap<&'a str, OnceLock<Result<(GuestLog, From), NoLog>>>,
}

impl<'a> Guests<'a> {
    /// The logs of these runs.
    pub(super) fn new(study: &'a str, questions: &'a [(RunSpec, Prepared)], logs: &'a dyn Logs) -> Guests<'a> {
        let shared = questions.iter().filter_map(|(run, _)| run.replays.as_deref());
        let shared = shared.map(|id| (id, OnceLock::new())).collect();
        Guests { study, questions, logs, shared }
    }

    /// Takes the log of a run, its own or that of the run which it replays, and replays it on the drive of `prepared`.
    /// Errors: the two runs differ in more than the drive; there is no log; the replay fails.
    pub(super) fn replay(
        &self,
        run: &RunSpec,
        prepared: &Prepared,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<(Outcome, Told), StudyError> {
        let of = run.replays.as_deref().unwrap_or(&run.id);
        let recorded = self.questions.iter().find(|(other, _)| other.id == of);
        let (of, recorded) = recorded.map_or((run, prepared), |(of, recorded)| (of, recorded));
        if let Some(what) = difference_beside_the_drive(&recorded.experiment, &prepared.experiment) {
            return Err(StudyError::Spec {
                study: self.study.to_owned(),
                place: format!("run `{}`", run.id),
                what: format!("`replays`: found another experiment than that of `{}`: {what}; expected one whose [ssd] alone differs", of.id),
            });
        }
        let take = |watch: &mut dyn FnMut(Progress)| self.logs.of(self.study, of, recorded, watch);
        let own;
        let taken = match self.shared.get(of.id.as_str()) {
            Some(shared) => shared.get_or_init(|| take(watch)),
            None => {
                own = take(watch);
                &own
            }
        };
        let (log, from) = taken.as_ref().map_err(|no_log| StudyError::Log {
            study: self.study.to_owned(),
            run: of.id.clone(),
            no_log: Box::new(no_log.clone()),
        })?;
        let found = prepared.replay_guest(log, watch).map_err(|error| StudyError::Run {
            study: self.study.to_owned(),
            run: run.id.clone(),
            error: Box::new(error),
        })?;
        Ok((found, Told { run: run.id.clone(), from: *from, head: log.head.clone() }))
    }
}

/// The table of the logs; `None` if no run has a guest.
pub(super) fn table(told: &[Option<Told>]) -> Option<TablePair> {
    let row = |told: &Told| {
        let Head { made, job, .. } = &told.head;
        let version = |program: &crate::run::guest::log::HostProgram| match program.package.as_str() {
            "" => format!("{} {}", program.name, program.sha256.get(..12).unwrap_or_default()),
            package => format!("{} ({package})", program.name),
        };
        let programs: Vec<String> = made.program.iter().map(version).collect();
        let exit = job.exit.map_or(Value::Null, Value::from);
        vec![
            told.run.as_str().into(),
            told.from.name().into(),
            made.linux.as_str().into(),
            exit,
            programs.join(", ").into(),
        ]
    };
    let ours: Vec<_> = told.iter().flatten().map(row).collect();
    (!ours.is_empty()).then(|| TablePair {
        title: "Logs of the guests that were replayed".to_owned(),
        columns: ["run", "log", "Linux", "exit", "programs"].map(str::to_owned).to_vec(),
        published: Vec::new(),
        ours,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::{ALL, Spec};

    #[test]
    fn every_log_of_the_tree_is_of_a_run_and_not_stale() {
        let mut files = 0;
        for source in ALL {
            let spec = Spec::parse(source).unwrap();
            for run in &spec.runs {
                let prepared = spec.question_of(run, false, Library::embedded()).unwrap();
                if prepared.experiment.guest.is_some() {
                    let log = ().of(&source.name, run, &prepared, &mut |_| ());
                    // Long logs are not in the tree.
                    let found = log.as_ref().map_or_else(|no_log| no_log.is_the_machines, |_| true);
                    assert!(found, "{}, {}: {log:?}", source.name, run.id);
                    files += if log.is_ok() { 2 } else { 0 };
                }
            }
        }
        assert_eq!(files, BUILT_IN.len(), "a file of studies/*/logs is of no run");
    }

    #[test]
    fn ids_become_different_names_of_files_in_one_folder() {
        let experiment = Experiment::resolve("title = 'x'\n[ssd]", &[]).unwrap();
        let name = |id: &str| file_names(id, &experiment)[1].clone();
        assert_eq!(name("ext4-ss"), "ext4-ss.ntrace");
        assert_eq!(name("grid/1/0.5/on"), "grid%2F1%2F0.5%2Fon.ntrace");
        assert_eq!(name("../x"), "%2E.%2Fx.ntrace");
        assert_ne!(name("a/b"), name("a%2Fb"));
    }
}
