//! Logs of guests: what a guest asked of its device in one run, so that other runs need no guest.
//!
//! A log has a head, a TOML document, and a body: of a guest on a drive every request since its boot (`.ntrace`), of a guest
//! on raw flash the result (`.json`). A replay makes each request when those that it may have waited for are done, after
//! the same think time, and so moves the marks. `docs/format/guest-log.md` describes the files.
//!
//! On the device of the log a replay is the run again, in every count, byte and time: the recording is a fixpoint of the
//! replay, and contents do not matter to a drive. Only the processes are not told apart.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use sim::Ns;
use sim::seam::BlockDevice;
use thiserror::Error;
use workload::drive::{Ended, Limits, Observer, Report, run};
use workload::replay::{Arrival, DependencyReplay};
use workload::trace::{Format, ReadOptions, TraceReader, TraceRecord, TraceWriter};

use crate::measure::Outcome;
use crate::measure::outcome::guest::{GuestOutcome, Mark};
use crate::parts::Library;
use crate::run::DriveRunError;
use crate::schema::Experiment;

/// Form of the head.
pub const SCHEMA: &str = "nandlab/guest-log/1";
/// Longest head in bytes.
pub const MOST_HEAD: usize = 16 << 20;
/// Longest body in bytes.
pub const MOST_BODY: usize = 1 << 30;
/// Most bytes of the job's output that a log keeps: the end.
const MOST_OUTPUT: usize = 16 << 10;

/// What a log says beside its requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// [`SCHEMA`].
    pub schema: String,
    /// SHA-256 of everything that made it ([`Made::fingerprint`]).
    pub fingerprint: String,
    /// SHA-256 of the body.
    pub body_sha256: String,
    /// What made it, beside the experiment.
    pub made: Made,
    /// The job.
    pub job: JobLog,
    /// Its marks, in the order of time.
    #[serde(default)]
    pub mark: Vec<MarkLog>,
    /// Metrics of the run with the guest, to compare a replay with.
    #[serde(default)]
    pub metrics: BTreeMap<String, f64>,
    /// The resolved experiment.
    pub experiment: toml::Table,
}

/// What made a log, beside its experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Made {
    /// Version of Linux, and hash of its configuration and driver.
    pub linux: String,
    /// Version of the guest's clock and flash, [`GUEST_MODEL_VERSION`](crate::GUEST_MODEL_VERSION).
    pub model_version: u32,
    /// SHA-256 of nandlab's program that the job calls (`guest.program`); empty if it calls none.
    #[serde(default)]
    pub port: String,
    /// Programs of the host that the experiment names.
    #[serde(default)]
    pub program: Vec<HostProgram>,
}

/// A program of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostProgram {
    /// Its name.
    pub name: String,
    /// SHA-256 of the executable file.
    pub sha256: String,
    /// Debian's package with its version; empty if unknown. It is no part of the fingerprint.
    #[serde(default)]
    pub package: String,
}

/// The job of a log. Times are virtual, since the guest's boot, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobLog {
    /// When it began.
    pub began_ns: u64,
    /// When it ended.
    pub ended_ns: Option<u64>,
    /// Its exit code.
    pub exit: Option<i32>,
    /// Requests that it submitted.
    pub requests: u64,
    /// Completion of its first request that is measured.
    pub measured_from_ns: Option<u64>,
    /// End of its output.
    pub output: String,
}

/// A mark of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MarkLog {
    /// The line.
    pub text: String,
    /// Its time since the guest's boot.
    pub at_ns: u64,
    /// The request that completed last before it, counted from 1 in the order of submission; 0: none had.
    #[serde(default)]
    pub after: u64,
    /// Time since that completion.
    #[serde(default)]
    pub distance_ns: u64,
}

/// The body of a log.
#[derive(Clone, Debug)]
pub enum Body {
    /// Requests to a drive, an .ntrace file.
    Requests(Cow<'static, [u8]>),
    /// The result on raw flash.
    Result(Box<Outcome>),
}

/// A log.
#[derive(Clone, Debug)]
pub struct GuestLog {
    /// What it says.
    pub head: Head,
    /// Its requests or its result.
    pub body: Body,
}

/// Why a log cannot be used.
#[derive(Debug, Error)]
pub enum LogError {
    /// It is no log, or damaged.
    #[error("{0}")]
    Malformed(String),
    /// It is of another experiment.
    #[error("stale: {0}")]
    Stale(String),
}

fn malformed<T>(what: impl Into<String>) -> Result<T, LogError> {
    Err(LogError::Malformed(what.into()))
}

/// SHA-256 in hexadecimal.
pub fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The keys of an experiment on which a guest's requests may depend, as JSON.
fn essence(experiment: &Experiment) -> serde_json::Value {
    let mut value = serde_json::to_value(experiment).unwrap_or_default();
    let no_effect = [("", &["title", "record", "cuts"][..]), ("guest", &["hung_s", "check"][..])];
    for (table, keys) in no_effect {
        let table = if table.is_empty() { value.as_object_mut() } else { value[table].as_object_mut() };
        table.into_iter().for_each(|table| keys.iter().for_each(|key| drop(table.remove(*key))));
    }
    value
}

/// The first key in which the experiments of a log and of a run differ that replays it on a drive of its own; `None` if
/// the drive alone differs.
pub fn difference_beside_the_drive(log: &Experiment, run: &Experiment) -> Option<String> {
    let without = |experiment: &Experiment| {
        let mut value = essence(experiment);
        value.as_object_mut().into_iter().for_each(|table| drop(table.remove("ssd")));
        value
    };
    difference("", &without(log), &without(run))
}

/// The first key in which two values differ, with both.
fn difference(path: &str, log: &serde_json::Value, now: &serde_json::Value) -> Option<String> {
    if let (Some(log), Some(now)) = (log.as_object(), now.as_object()) {
        let null = serde_json::Value::Null;
        let keys = log.keys().chain(now.keys().filter(|key| !log.contains_key(*key)));
        return keys.into_iter().find_map(|key| {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            difference(&path, log.get(key).unwrap_or(&null), now.get(key).unwrap_or(&null))
        });
    }
    (log != now).then(|| format!("the log has {path} = {log}, the experiment {now}"))
}

impl Made {
    /// SHA-256 of an experiment and of this, but for the packages' names.
    pub fn fingerprint(&self, experiment: &Experiment) -> String {
        let programs: Vec<_> = self.program.iter().map(|program| (&program.name, &program.sha256)).collect();
        let all = (essence(experiment), &self.linux, self.model_version, &self.port, programs);
        digest(&serde_json::to_vec(&all).unwrap_or_default())
    }
}

impl GuestLog {
    /// Reads a log.
    /// Errors: what is no log, or damaged; a body that is not its.
    pub fn parse(head: &str, body: Cow<'static, [u8]>) -> Result<GuestLog, LogError> {
        if head.len() > MOST_HEAD || body.len() > MOST_BODY {
            return malformed(format!(
                "found {} and {} bytes, expected at most {MOST_HEAD} and {MOST_BODY}",
                head.len(),
                body.len()
            ));
        }
        let head: Head = toml::from_str(head).or_else(|error| malformed(error.to_string()))?;
        if head.schema != SCHEMA {
            return malformed(format!("found schema `{}`, expected `{SCHEMA}`", head.schema));
        }
        let sum = digest(&body);
        if sum != head.body_sha256 {
            return malformed(format!("the file beside it has SHA-256 {sum}, expected {}", head.body_sha256));
        }
        if let Some((id, value)) = head.metrics.iter().find(|(_, value)| !value.is_finite()) {
            return malformed(format!("found {value} for the metric {id}"));
        }
        let times = head.mark.iter().map(|mark| mark.at_ns);
        if !times.clone().is_sorted() {
            return malformed("its marks are not in the order of time".to_owned());
        }
        let (began, ended) = (head.job.began_ns, head.job.ended_ns.unwrap_or(u64::MAX));
        if let Some(at) = times.chain([ended]).find(|&at| at < began) {
            return malformed(format!("found a mark or an end at {at} ns, before the job began at {began} ns"));
        }
        let is_flash = !["ssd", "ubiblock"].iter().any(|device| head.experiment.contains_key(*device));
        let body = match is_flash {
            false => Body::Requests(body),
            true => {
                let text = std::str::from_utf8(&body).or_else(|error| malformed(error.to_string()))?;
                Body::Result(Box::new(Outcome::read(text).or_else(malformed)?))
            }
        };
        Ok(GuestLog { head, body })
    }

    /// The files of the log: head and body.
    pub fn files(&self) -> (String, Cow<'_, [u8]>) {
        let head = toml::to_string(&self.head).unwrap_or_default();
        let body = match &self.body {
            Body::Requests(bytes) => Cow::Borrowed(&**bytes),
            Body::Result(found) => Cow::Owned(result(found)),
        };
        (head, body)
    }

    /// Checks that the log is of an experiment: same device, guest, stop and seed. Keys that are newer than the log have
    /// their defaults in it.
    /// Errors: `Stale`, with the first key that differs.
    pub fn agrees(&self, experiment: &Experiment, library: &Library) -> Result<(), LogError> {
        let logged = Experiment::from_table(self.head.experiment.clone(), &[], library)
            .map_err(|error| LogError::Stale(format!("its experiment cannot be read: {error}")))?;
        if let Some(what) = difference("", &essence(&logged), &essence(experiment)) {
            return Err(LogError::Stale(what));
        }
        // A stored result is a result of the model; requests are not.
        let made = self.head.made.model_version;
        match &self.body {
            Body::Result(_) if made != crate::GUEST_MODEL_VERSION => {
                let now = crate::GUEST_MODEL_VERSION;
                Err(LogError::Stale(format!("it is a result of model {made}, and this is model {now}")))
            }
            _ => Ok(()),
        }
    }

    /// Calls `with` for each request, in their order.
    /// Errors: a result has no requests; requests that cannot be read.
    pub fn each_request(&self, mut with: impl FnMut(TraceRecord)) -> Result<(), DriveRunError> {
        let Body::Requests(bytes) = &self.body else {
            return Err(DriveRunError::Recording("a result has no requests".to_owned()));
        };
        let mut reader = TraceReader::new(&bytes[..], Format::Ntrace, ReadOptions::default());
        let damaged = |error: workload::trace::TraceError| DriveRunError::Recording(error.to_string());
        while let Some(record) = reader.next_record().map_err(damaged)? {
            with(record);
        }
        Ok(())
    }

    /// Replays the requests on a device. Returns what the loop reports, and the guest with its marks moved.
    /// Errors: requests that cannot be read.
    pub(in crate::run) fn replay<D: BlockDevice, O: Observer>(
        &self,
        device: &mut D,
        observer: &mut O,
    ) -> Result<(Report<O::Stop>, GuestOutcome), DriveRunError> {
        let Body::Requests(bytes) = &self.body else {
            return Err(DriveRunError::Recording("a result has no requests".to_owned()));
        };
        let Head { job, mark, made, .. } = &self.head;
        let mut reader = TraceReader::new(&bytes[..], Format::Ntrace, ReadOptions::default());
        let damaged = RefCell::new(None);
        let arrivals = std::iter::from_fn(|| {
            loop {
                match reader.next_record() {
                    Ok(None) => return None,
                    Ok(Some(record)) => {
                        if let Some(request) = record.request() {
                            return Some(Arrival { at: record.at, request, latency: record.latency });
                        }
                    }
                    Err(error) => {
                        *damaged.borrow_mut() = Some(error.to_string());
                        return None;
                    }
                }
            }
        });
        let times = [job.began_ns].into_iter().chain(mark.iter().map(|mark| mark.at_ns)).chain(job.ended_ns);
        let mut load = DependencyReplay::new(arrivals)
            .from_zero(times.map(Ns).collect())
            .counted_if_done_from(Ns(job.measured_from_ns.unwrap_or(u64::MAX)));
        let mut report = run(device, &mut load, Ns::ZERO, Limits::NONE, observer);
        let moved = load.moved().to_vec();
        drop(load);
        if let Some(why) = damaged.into_inner() {
            return Err(DriveRunError::Recording(why));
        }
        let began = moved.first().copied().unwrap_or_default();
        let ended = job.ended_ns.and_then(|_| moved.get(mark.len() + 1)).copied();
        report.from = began;
        report.to = ended.map_or(report.to, |at| at.max(report.to));
        (report.jobs[0].from, report.jobs[0].to) = (began, report.to);
        report.issued = job.requests;
        if matches!(report.ended, Ended::Done) && job.exit.is_none() {
            report.ended = Ended::Limit;
        }
        let marks = mark.iter().zip(moved.iter().skip(1));
        let guest = GuestOutcome {
            linux: made.linux.clone(),
            began_ns: began.0,
            ended_ns: ended.map(|at| at.0),
            exit: job.exit,
            output: job.output.clone(),
            marks: marks.map(|(mark, at)| Mark { at_ns: at.0, text: mark.text.clone() }).collect(),
            refused: None,
            console: String::new(),
        };
        Ok((report, guest))
    }
}

/// A result on raw flash as the body of a log.
fn result(found: &Outcome) -> Vec<u8> {
    serde_json::to_vec(found).unwrap_or_default()
}

/// Collects the requests of a guest while it runs.
pub struct Recorder {
    writer: TraceWriter<Vec<u8>>,
    /// Completion and number of each request.
    done: Vec<(u64, u64)>,
    measured_from_ns: Option<u64>,
    failed: Option<String>,
}

impl Default for Recorder {
    fn default() -> Recorder {
        let writer = TraceWriter::new(Vec::new(), Format::Ntrace).expect("memory takes it");
        Recorder { writer, done: Vec::new(), measured_from_ns: None, failed: None }
    }
}

impl Recorder {
    /// Records a request, as [`Host::log`](super::Host::log) passes it on. One that never completed is left out: nothing
    /// waited for it.
    pub fn record(&mut self, record: &TraceRecord, is_measured: bool) {
        let Some(done) = record.done_at() else { return };
        if is_measured {
            self.measured_from_ns = Some(self.measured_from_ns.map_or(done.0, |from| from.min(done.0)));
        }
        self.done.push((done.0, self.done.len() as u64 + 1));
        if let Err(error) = self.writer.write(record) {
            self.failed.get_or_insert_with(|| error.to_string());
        }
    }

    /// The log of a run that has ended.
    /// Errors: the run has no guest; a request that cannot be written.
    pub fn finish(mut self, made: Made, found: &Outcome) -> Result<GuestLog, LogError> {
        let Some(guest) = &found.measured.guest else { return malformed("the run has no guest") };
        let requests = self.writer.finish().or_else(|error| malformed(error.to_string()))?.0;
        if let Some(why) = self.failed {
            return malformed(why);
        }
        let body = match found.drive() {
            Some(_) => Body::Requests(Cow::Owned(requests)),
            None => Body::Result(Box::new(slim(found))),
        };
        let body_sha256 = match &body {
            Body::Requests(bytes) => digest(bytes),
            Body::Result(found) => digest(&result(found)),
        };
        self.done.sort_unstable();
        let mark = guest.marks.iter().map(|mark| {
            let before = self.done[..self.done.partition_point(|&(done, _)| done <= mark.at_ns)].last();
            let (done, after) = before.copied().unwrap_or_default();
            MarkLog { text: mark.text.clone(), at_ns: mark.at_ns, after, distance_ns: mark.at_ns - done }
        });
        let experiment = toml::Table::try_from(&found.experiment).or_else(|error| malformed(error.to_string()))?;
        let head = Head {
            schema: SCHEMA.to_owned(),
            fingerprint: made.fingerprint(&found.experiment),
            body_sha256,
            made,
            job: JobLog {
                began_ns: guest.began_ns,
                ended_ns: guest.ended_ns,
                exit: guest.exit,
                requests: found.drive().map_or(0, |drive| drive.requests),
                measured_from_ns: self.measured_from_ns,
                output: end_of(&guest.output),
            },
            mark: mark.collect(),
            metrics: found.metrics().all().iter().map(|metric| (metric.id.clone(), metric.value)).collect(),
            experiment,
        };
        Ok(GuestLog { head, body })
    }
}

/// The end of an output.
fn end_of(text: &str) -> String {
    let mut from = text.len().saturating_sub(MOST_OUTPUT);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    text[from..].to_owned()
}

/// A result without what a study does not need: the console, and all but the end of the output.
fn slim(found: &Outcome) -> Outcome {
    let mut found = found.clone();
    if let Some(guest) = &mut found.measured.guest {
        guest.console.clear();
        guest.output = end_of(&guest.output);
    }
    found
}

/// Programs of the host that the job of an experiment may call, by the words in it: mkfs, mount, setup and job. `find`
/// returns the executable of a name.
pub fn programs_named(experiment: &Experiment, mut find: impl FnMut(&str) -> Option<HostProgram>) -> Vec<HostProgram> {
    let Some(guest) = &experiment.guest else { return Vec::new() };
    let script = super::script(guest, true);
    let is_of_word = |c: char| c.is_alphanumeric() || "._+-/".contains(c);
    let mut words: Vec<&str> = script.split(|c| !is_of_word(c)).filter(|word| !word.is_empty()).collect();
    words.sort_unstable();
    words.dedup();
    let mut found: Vec<HostProgram> = words.into_iter().filter_map(&mut find).collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use sim::seam::{BlockOp, RamDisk};

    use super::*;

    const EXPERIMENT: &str = "title = 'x'\nseed = 3\n[ssd]\n[guest]\njob = 'dd if=/dev/zero of=f; sync'\n";

    fn experiment(sets: &[(&str, &str)]) -> Experiment {
        let sets: Vec<_> = sets.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        Experiment::resolve(EXPERIMENT, &sets).unwrap()
    }

    /// Two requests of setup and two of the job, 10 us each, with a mark between those.
    fn log() -> GuestLog {
        let mut recorder = Recorder::default();
        for (at, is_measured) in [(5, false), (20, false), (40, true), (57, true)] {
            let record = TraceRecord::new(Ns::from_us(at), BlockOp::Write, 4096 * at, 4096);
            recorder.record(&TraceRecord { latency: Some(Ns::from_us(10)), ..record }, is_measured);
        }
        recorder.record(&TraceRecord::new(Ns::from_us(58), BlockOp::Write, 0, 512), true);
        let body = recorder.writer.finish().unwrap().0;
        let head = Head {
            schema: SCHEMA.to_owned(),
            fingerprint: Made::default().fingerprint(&experiment(&[])),
            body_sha256: digest(&body),
            made: Made { linux: "6.12.1-0".to_owned(), ..Made::default() },
            job: JobLog {
                began_ns: 32_000,
                ended_ns: Some(70_000),
                exit: Some(0),
                requests: 2,
                measured_from_ns: recorder.measured_from_ns,
                output: "said".to_owned(),
            },
            mark: vec![MarkLog { text: "first".to_owned(), at_ns: 51_000, after: 3, distance_ns: 1_000 }],
            metrics: BTreeMap::new(),
            experiment: toml::Table::try_from(experiment(&[])).unwrap(),
        };
        GuestLog { head, body: Body::Requests(body.into()) }
    }

    fn replayed(service_us: u64) -> (u64, u64, Vec<u64>) {
        let mut disk = RamDisk::new(1 << 10, 8, 1, Ns::from_us(service_us));
        let (report, guest) = log().replay(&mut disk, &mut ()).unwrap();
        let job = &report.jobs[0];
        assert_eq!((report.issued, job.requests(), job.ramp_requests), (2, 2, 2));
        assert_eq!((guest.exit, guest.output.as_str(), guest.marks.len()), (Some(0), "said", 1));
        (job.from.0, job.to.0, guest.marks.iter().map(|mark| mark.at_ns).collect())
    }

    #[test]
    fn marks_and_the_ends_of_the_job_move_with_the_requests() {
        assert_eq!(replayed(10), (32_000, 70_000, vec![51_000]));
        // Each of four requests takes 20 us more: two before the job, three before the mark.
        assert_eq!(replayed(30), (32_000 + 40_000, 70_000 + 80_000, vec![51_000 + 60_000]));
    }

    #[test]
    fn a_log_of_a_ubiblock_has_requests_and_one_of_raw_flash_a_result() {
        let of = |device: &str| {
            let text = EXPERIMENT.replace("[ssd]", device);
            let mut log = log();
            log.head.experiment = toml::Table::try_from(Experiment::resolve(&text, &[]).unwrap()).unwrap();
            let (head, body) = log.files();
            GuestLog::parse(&head, body.into_owned().into())
        };
        assert!(matches!(of("[nand]\n[ubiblock]").unwrap().body, Body::Requests(_)));
        assert!(of("[nand]").is_err(), "its body is no JSON");
    }

    #[test]
    fn a_log_is_read_as_it_was_written_and_one_that_is_damaged_says_how() {
        let log = log();
        let (head, body) = log.files();
        let body = body.into_owned();
        let parse =
            |head: &str, body: &[u8]| GuestLog::parse(head, body.to_vec().into()).map_err(|error| error.to_string());
        assert_eq!(parse(&head, &body).unwrap().head, log.head);
        for (head, body, word) in [
            (head.clone(), &body[..body.len() - 1], "SHA-256"),
            (head.replace("guest-log/1", "guest-log/2"), &body[..], "schema"),
            (head.replace("at_ns = 51000", "at_ns = 31000"), &body[..], "before the job began"),
            (head.replace("began_ns = 32000", "began_ms = 32"), &body[..], "began_ms"),
            (head[..100].to_owned(), &body[..], "TOML"),
        ] {
            let error = parse(&head, body).unwrap_err();
            assert!(error.contains(word), "no `{word}` in {error}");
        }
    }

    #[test]
    fn a_log_of_another_experiment_is_stale_and_a_newer_key_is_not() {
        let library = Library::embedded();
        let agrees = |log: &GuestLog, sets: &[(&str, &str)]| {
            log.agrees(&experiment(sets), library).map_err(|error| error.to_string())
        };
        let mut log = log();
        assert_eq!(agrees(&log, &[("title", "'y'"), ("guest.hung_s", "7"), ("record.pattern", "true")]), Ok(()));
        for (key, value, shown) in [
            ("seed", "4", "seed = 3, the experiment 4"),
            ("ssd.channels", "2", "ssd.channels = "),
            ("guest.job", "'sync'", "guest.job = "),
            ("stop.requests", "9", "stop.requests = 0, the experiment 9"),
        ] {
            let error = agrees(&log, &[(key, value)]).unwrap_err();
            assert!(error.starts_with("stale: ") && error.contains(shown), "{error}");
        }
        log.head.experiment["guest"].as_table_mut().unwrap().remove("wl_threshold").unwrap();
        assert_eq!(agrees(&log, &[]), Ok(()));
        let fingerprint = |made: Made| made.fingerprint(&experiment(&[]));
        let program = HostProgram { name: "dd".to_owned(), sha256: "1".to_owned(), package: "coreutils 9".to_owned() };
        let with = |program| fingerprint(Made { program: vec![program], ..Made::default() });
        assert_ne!(with(program.clone()), fingerprint(Made::default()));
        assert_eq!(with(program.clone()), with(HostProgram { package: String::new(), ..program.clone() }));
        assert_ne!(with(program.clone()), with(HostProgram { sha256: "2".to_owned(), ..program }));
    }

    #[test]
    fn a_stored_result_of_another_model_is_stale_and_requests_are_not() {
        let library = Library::embedded();
        let made_by_another = |mut log: GuestLog| {
            let experiment = Experiment::from_table(log.head.experiment.clone(), &[], library).unwrap();
            assert_eq!(log.agrees(&experiment, library).map_err(|error| error.to_string()), Ok(()));
            log.head.made.model_version += 1;
            log.agrees(&experiment, library).map_err(|error| error.to_string())
        };
        assert_eq!(made_by_another(log()), Ok(()));
        // Of the tree: UBIFS of Linux on raw flash.
        let head = include_str!("../../../../../studies/fs-wear-shootout/logs/ubifs-logger.toml");
        let body = include_bytes!("../../../../../studies/fs-wear-shootout/logs/ubifs-logger.json");
        let (now, other) = (crate::GUEST_MODEL_VERSION, crate::GUEST_MODEL_VERSION + 1);
        assert_eq!(
            made_by_another(GuestLog::parse(head, body[..].into()).unwrap()),
            Err(format!("stale: it is a result of model {other}, and this is model {now}"))
        );
    }

    #[test]
    fn the_programs_of_a_job_are_the_words_of_its_script() {
        let find = |name: &str| {
            ["dd", "sync", "mkfs.ext4", "/dev/zero"]
                .contains(&name)
                .then(|| HostProgram { name: name.to_owned(), ..Default::default() })
        };
        let found = programs_named(&experiment(&[("guest.fs.kind", "'ext4'")]), find);
        let names: Vec<_> = found.iter().map(|program| program.name.as_str()).collect();
        assert_eq!(names, ["/dev/zero", "dd", "mkfs.ext4", "sync"]);
    }
}
