//! Guest runs of a study: each replays the log of a run with the guest.
//!
//! Logs of the tree are in `studies/STUDY/logs/`, two files a run, and are built in. Where else they come from is the
//! caller's part, who reads files and runs guests. A run without a log leaves the claims that need it unjudged, and the
//! rest of its study judged. A run with `replays` has no log of its own: it replays that of another run, whose drive
//! alone may differ.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::OnceLock;

use runner::measure::Outcome;
use runner::parts::Library;
use runner::run::guest::log::{GuestLog, Head, difference_beside_the_drive};
use runner::run::{Prepared, Progress};
use runner::schema::Experiment;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::pictures::{self, Requests};
use super::{RunSpec, StudyError, TablePair};

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

/// Why a log cannot be used, or cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoLog {
    /// What is wrong, with the file if there is one.
    pub what: String,
    /// How to correct it.
    pub help: String,
    /// Whether the machine lacks something, rather than the input being wrong.
    pub is_the_machines: bool,
}

/// A log and whence it comes; `None` if there is none.
pub type Taken = Result<Option<(GuestLog, From)>, NoLog>;

/// Whoever has logs of guest runs.
pub trait Logs: Sync {
    /// The log of a run; `None` if there is none.
    /// Errors: it cannot be used, or was asked for and cannot be made.
    fn of(&self, study: &str, run: &RunSpec, prepared: &Prepared, watch: &mut dyn FnMut(Progress)) -> Taken;

    /// The command that makes the log of a run.
    fn command(&self, study: &str, run: &RunSpec) -> String {
        command(study, run)
    }
}

/// Those of the tree alone, with the built-in parts.
impl Logs for () {
    fn of(&self, study: &str, run: &RunSpec, prepared: &Prepared, _watch: &mut dyn FnMut(Progress)) -> Taken {
        let found = beside(study, run, &prepared.experiment, Library::embedded(), &|name| built_in(study, name))?;
        Ok(found.map(|log| (log, From::Tree)))
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

/// The command that runs the guest of one run, and keeps its log in the cache. `study` is the name of a study, or the path
/// of its directory.
pub fn command(study: &str, run: &RunSpec) -> String {
    format!("nandlab study {} --refresh --only {}", quoted(study), quoted(&run.id))
}

/// A word as a shell reads it again.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:+,%@".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The remedy for a run without a usable log.
pub fn refresh(study: &str, run: &RunSpec) -> String {
    format!(
        "run the guest: nandlab study {study} --refresh, or for this run alone --refresh --only '{}'; it needs the kernel of `nandlab guest build`",
        run.id
    )
}

/// The error for a study none of whose runs has a log; `run` is one of them.
pub(super) fn none_has(study: &str, run: &RunSpec) -> NoLog {
    NoLog {
        what: "no log of the guest, in the study's logs or in the cache".to_owned(),
        help: refresh(study, run),
        is_the_machines: true,
    }
}

/// A run without a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingLog {
    /// Id of the run.
    pub run: String,
    /// The command that makes it.
    pub command: String,
}

impl fmt::Display for MissingLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no log of {}; make it with `{}`", self.run, self.command)
    }
}

/// Why an expression over these runs has no value; `None` if no log of theirs is missing.
pub(super) fn why_no_value(runs: &[&str], missing: &[MissingLog]) -> Option<String> {
    let lacking = missing.iter().filter(|log| runs.contains(&log.run.as_str())).map(MissingLog::to_string);
    let lacking: Vec<String> = lacking.collect();
    (!lacking.is_empty()).then(|| lacking.join("; "))
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
    requests: Option<Requests>,
}

impl Told {
    /// Takes out the requests to be drawn, with the id of their run.
    pub(super) fn take_requests(&mut self) -> Option<(String, Requests)> {
        Some((self.run.clone(), self.requests.take()?))
    }
}

/// The logs of a study's runs.
pub(super) struct Guests<'a> {
    study: &'a str,
    questions: &'a [(RunSpec, Prepared)],
    logs: &'a dyn Logs,
    /// Those that several runs replay, by the id of their run. Each is taken once.
    shared: BTreeMap<&'a str, OnceLock<Taken>>,
    /// Runs whose requests are drawn.
    pictured: BTreeSet<&'a str>,
}

impl<'a> Guests<'a> {
    /// The logs of these runs, and the requests of those that are `pictured`.
    pub(super) fn new(
        study: &'a str,
        questions: &'a [(RunSpec, Prepared)],
        logs: &'a dyn Logs,
        pictured: BTreeSet<&'a str>,
    ) -> Guests<'a> {
        let shared = questions.iter().filter_map(|(run, _)| run.replays.as_deref());
        let shared = shared.map(|id| (id, OnceLock::new())).collect();
        Guests { study, questions, logs, shared, pictured }
    }

    /// Takes the log of a run, its own or that of the run which it replays, and replays it on the drive of `prepared`.
    /// `None` if there is no log.
    /// Errors: the two runs differ in more than the drive; the log cannot be used; the replay fails.
    pub(super) fn replay(
        &self,
        run: &RunSpec,
        prepared: &Prepared,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<Option<(Outcome, Told)>, StudyError> {
        let of = run.replays.as_deref().unwrap_or(&run.id);
        let recorded = self.questions.iter().find(|(other, _)| other.id == of);
        let (of, recorded) = recorded.map_or((run, prepared), |(of, recorded)| (of, recorded));
        if let Some(what) = difference_beside_the_drive(&recorded.experiment, &prepared.experiment) {
            return Err(StudyError::Spec {
                study: self.study.to_owned(),
                place: format!("run `{}`", run.id),
                what: format!(
                    "`replays`: found another experiment than that of `{}`: {what}; expected one whose [ssd] alone differs",
                    of.id
                ),
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
        let taken = taken.as_ref().map_err(|no_log| StudyError::Log {
            study: self.study.to_owned(),
            run: of.id.clone(),
            no_log: Box::new(no_log.clone()),
        })?;
        let Some((log, from)) = taken else { return Ok(None) };
        let failed =
            |error| StudyError::Run { study: self.study.to_owned(), run: run.id.clone(), error: Box::new(error) };
        let found = prepared.replay_guest(log, watch).map_err(failed)?;
        let requests = match self.pictured.contains(run.id.as_str()) {
            true => Some(pictures::of_log(log, self.pictured.len()).map_err(|error| failed(error.into()))?),
            false => None,
        };
        Ok(Some((found, Told { run: run.id.clone(), from: *from, head: log.head.clone(), requests })))
    }
}

/// The table of the logs, those that are missing last; `None` if no run has a guest.
pub(super) fn table(told: &[Option<Told>], missing: &[MissingLog]) -> Option<TablePair> {
    let row = |told: &Told| {
        let Head { made, job, .. } = &told.head;
        let version = |program: &runner::run::guest::log::HostProgram| match program.package.as_str() {
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
    let lacking =
        missing.iter().map(|log| vec![log.run.as_str().into(), "none".into(), "".into(), Value::Null, "".into()]);
    let ours: Vec<_> = told.iter().flatten().map(row).chain(lacking).collect();
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
    use crate::{ALL, Judgement, Source, Spec, Verdict};

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
                    let log = log.unwrap_or_else(|no_log| panic!("{}, {}: {no_log:?}", source.name, run.id));
                    files += if log.is_some() { 2 } else { 0 };
                }
            }
        }
        assert_eq!(files, BUILT_IN.len(), "a file of studies/*/logs is of no run");
    }

    /// A drive under a load, and two guests without a log.
    const PARTIAL: &str = "kind = 'guest'
question = 'How much is judged?'
run = [
    { id = 'load', title = 'a load', set = { 'workload.requests' = 50, 'precondition.kind' = 'none' } },
    { id = 'it is', title = 'a guest', set = { 'guest.job' = 'true' } },
    { id = 'SS-ext4', title = 'another', set = { 'guest.job' = 'sync' } },
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
[derived]
requests = 50
[[claim]]
id = 'all'
ours = 'run.requests(load)'
derived = '/requests'
within = 0.001
[[claim]]
id = 'low'
ours = 'run.requests(load)'
above = 50
[[claim]]
id = 'one'
ours = 'run.requests(SS-ext4)'
above = 1
[[claim]]
id = 'ratio'
ours = 'run.requests(load) / run.requests(it is) / run.requests(SS-ext4)'
above = 1
[[bars]]
title = 'some'
measure = 'run.requests(run)'
run = '{series}'
groups = ['requests']
series = ['load', 'SS-ext4']
[[bars]]
title = 'none'
measure = 'run.requests(run)'
run = '{series}'
groups = ['requests']
series = ['SS-ext4']
[[comparison]]
title = 'both'
columns = ['requests']
measures = ['run.requests(run)']
runs = ['load', 'SS-ext4']
[reason]
low = 'it has no more'
";

    fn partial(text: &str) -> Result<Judgement, StudyError> {
        let source = Source { name: "tiny".into(), toml: text.to_owned().into(), published: "{}".into() };
        crate::run(&source, false, Library::embedded(), &(), &|_, _| ()).map(|done| done.judgement)
    }

    #[test]
    fn a_study_without_some_of_its_logs_judges_the_rest_and_says_how_to_make_them() {
        let judgement = partial(PARTIAL).unwrap();
        let claims: Vec<_> = judgement.claims.iter().map(|claim| (&*claim.id, claim.verdict, claim.ours)).collect();
        let unjudged = |id| (id, Verdict::NotJudged, None);
        let judged = |id, verdict| (id, verdict, Some(50.0));
        let expected = [judged("all", Verdict::Hit), judged("low", Verdict::Miss), unjudged("one"), unjudged("ratio")];
        assert_eq!(claims, expected);
        assert_eq!(
            judgement.counts(),
            ["derived: 1 hit, 0 miss, 0 calibrated", "self-checks: 0 hold, 1 fail, 2 not judged"]
        );
        let verdicts = [Verdict::Hit, Verdict::Miss, Verdict::Calibrated, Verdict::NotJudged];
        assert_eq!(verdicts.map(|verdict| judgement.count(verdict)), [1, 1, 0, 2]);

        let ext4 = "no log of SS-ext4; make it with `nandlab study tiny --refresh --only SS-ext4`";
        let it_is = "no log of it is; make it with `nandlab study tiny --refresh --only 'it is'`";
        let reasons: Vec<_> = judgement.claims.iter().map(|claim| claim.reason.clone().unwrap_or_default()).collect();
        assert_eq!(reasons, ["", "it has no more", ext4, &format!("{it_is}; {ext4}")]);
        assert_eq!(judgement.missing_logs.iter().map(MissingLog::to_string).collect::<Vec<_>>(), [it_is, ext4]);
        assert_eq!(judgement.fingerprints.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["load"]);

        // A chart all of whose bars need logs is left out; elsewhere the place is empty.
        let charts: Vec<_> = judgement.bars.iter().map(|bars| (&*bars.title, bars.values.clone())).collect();
        assert_eq!(charts, [("some", vec![vec![Some(50.0), None]])]);
        let rows = &judgement.tables.iter().find(|table| table.title == "both").unwrap().ours;
        assert_eq!(*rows, [vec!["a load".into(), 50.0.into()], vec!["another".into(), Value::Null]]);
        let logs = &judgement.tables.last().unwrap().ours;
        assert_eq!(
            logs.iter().map(|row| (&row[0], &row[1])).collect::<Vec<_>>(),
            [(&"it is".into(), &"none".into()), (&"SS-ext4".into(), &"none".into())]
        );

        let json = serde_json::to_value(&judgement).unwrap();
        assert_eq!((&json["claims"][2]["verdict"], &json["claims"][2]["ours"]), (&"not judged".into(), &Value::Null));
        assert_eq!(json["missing_logs"][0]["command"], "nandlab study tiny --refresh --only 'it is'");
        assert_eq!(serde_json::from_value::<Judgement>(json).unwrap(), judgement);
    }

    #[test]
    fn a_study_without_any_log_is_an_error_and_so_is_a_misspelt_measure_beside_a_missing_one() {
        let begin = PARTIAL.find("    { id = 'load'").unwrap();
        let end = PARTIAL.find("    { id = 'it is'").unwrap();
        let guests = format!("{}{}", &PARTIAL[..begin], &PARTIAL[end..]).replace("(load)", "(it is)");
        let guests = guests.replace("'load', ", "'it is', ");
        let error = partial(&guests).unwrap_err();
        assert!(matches!(&error, StudyError::Log { no_log, .. } if no_log.is_the_machines), "{error}");
        let error = partial(&PARTIAL.replace("run.requests(load)'\nabove", "run.reqests(load)'\nabove")).unwrap_err();
        assert!(error.to_string().contains("`run.requests`"), "{error}");
    }

    #[test]
    fn a_command_can_be_pasted_into_a_shell() {
        for (word, expected) in [
            ("a-b_c.d/e:f+g,h%i@1", "a-b_c.d/e:f+g,h%i@1"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", r"'it'\''s'"),
            ("a$b", "'a$b'"),
            ("gr\u{fc}n", "'gr\u{fc}n'"),
        ] {
            assert_eq!(quoted(word), expected);
        }
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

    /// Of `hpb-app-start-guest` the run `none-off`, and others with these lines.
    fn replaying(others: &[(&str, &str)]) -> Source {
        let mut source = crate::by_name("hpb-app-start-guest").unwrap().clone();
        let mut table: toml::Table = toml::from_str(&source.toml).unwrap();
        ["reason", "comparison"].iter().for_each(|key| drop(table.remove(*key)));
        let runs = table["run"].as_array_mut().unwrap();
        runs.retain(|run| run["id"].as_str() == Some("none-off"));
        for (id, lines) in others {
            runs.push(toml::from_str(&format!("id = '{id}'\ntitle = '{id}'\n{lines}")).unwrap());
        }
        let claim = "[[claim]]\nid = 'c'\nours = 'guest.mark.end1_s(none-off)'\nabove = 0\n";
        table.insert("claim".to_owned(), toml::from_str::<toml::Table>(claim).unwrap()["claim"].clone());
        source.toml = toml::to_string(&table).unwrap().into();
        source
    }

    /// The tree's logs, counted.
    #[derive(Default)]
    struct Counted(std::sync::atomic::AtomicUsize);

    impl Logs for Counted {
        fn of(&self, study: &str, run: &RunSpec, prepared: &Prepared, watch: &mut dyn FnMut(Progress)) -> Taken {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            ().of(study, run, prepared, watch)
        }
    }

    #[test]
    fn one_log_serves_several_drives_and_is_taken_once() {
        let replays = "replays = 'none-off'\n";
        let on = format!("{replays}[set]\n'ssd.hpb.control' = 'device'");
        let source = replaying(&[("same", replays), ("on", &on)]);
        let logs = Counted::default();
        let found = crate::run(&source, false, Library::embedded(), &logs, &|_, _| ()).unwrap();
        assert_eq!(logs.0.into_inner(), 1);
        let of = |at: usize, id: &str| {
            found.runs[at].1.metrics().all().iter().find(|metric| metric.id == id).map(|metric| metric.value)
        };
        for id in ["guest.mark.end6_s", "map.reads", "read.count"] {
            assert_eq!(of(0, id), of(1, id), "the same drive: {id}");
        }
        assert_eq!(of(0, "read.count"), of(2, "read.count"), "the same requests");
        for id in ["guest.mark.end6_s", "map.reads"] {
            assert!(of(2, id) < of(0, id), "{id}: {:?} with HPB, {:?} without", of(2, id), of(0, id));
        }
        assert!(of(0, "hpb.hit_share").is_none() && of(2, "hpb.hit_share") > Some(0.9));
    }

    #[test]
    fn a_run_that_cannot_replay_the_other_says_why() {
        let replays = "replays = 'none-off'\n";
        for (lines, words) in [
            ("replays = 'non-off'".to_owned(), "`replays`: no run `non-off`"),
            ("replays = 'it'".to_owned(), "`replays`: `it` has no guest of its own"),
            (format!("{replays}[set]\n'guest.memory_mib' = 128"), "guest.memory_mib = 256, the experiment 128"),
            (format!("{replays}[set]\n'precondition.kind' = 'sequential'"), "one whose [ssd] alone differs"),
            (format!("{replays}[set]\n'ssd.blocks' = 20"), "the device has 1468416"),
        ] {
            let source = replaying(&[("it", &lines)]);
            let error = crate::run(&source, false, Library::embedded(), &(), &|_, _| ()).unwrap_err().to_string();
            assert!(error.contains(words), "no `{words}` in {error}");
        }
    }

    #[test]
    fn a_log_that_is_stale_or_half_there_is_refused_with_its_file() {
        let source = crate::by_name("hpb-app-start-guest").unwrap();
        let spec = Spec::parse(source).unwrap();
        let run = spec.runs.iter().find(|run| run.id == "none-off").unwrap();
        let mut experiment = spec.question_of(run, false, Library::embedded()).unwrap().experiment;
        let taken = |experiment: &Experiment, ending: &str| {
            let read = |name: &str| built_in(&source.name, name).filter(|_| name.ends_with(ending));
            beside(&source.name, run, experiment, Library::embedded(), &read).map(|log| log.is_some())
        };
        assert_eq!((taken(&experiment, ""), taken(&experiment, ".ntrace")), (Ok(true), Ok(false)));
        let half = taken(&experiment, ".toml").unwrap_err();
        assert_eq!(half.what, "logs/none-off.toml: there is no none-off.ntrace beside it");
        experiment.guest.as_mut().unwrap().memory_mib = 128;
        let stale = taken(&experiment, "").unwrap_err();
        assert!(stale.what.starts_with("logs/none-off.toml: ") && stale.what.contains("memory_mib"), "{stale:?}");
        assert!(stale.help.contains("--refresh") && !stale.is_the_machines, "{stale:?}");
    }
}
