//! Pictures of requests: where in its device each run of a study read and wrote, and when.
//!
//! A `[[pictures]]` of `study.toml` names runs with a guest on a block device. Each is drawn from its log, from the
//! beginning of the job, on the time of the log. The cells of all pictures of a study together are at most [`MOST_CELLS`], so that
//! a page with many of them stays small. `docs/format/study.md` describes the keys.

use std::collections::BTreeMap;

use runner::run::DriveRunError;
use runner::run::guest::log::GuestLog;
use runner::trace_report::{MOST_CELLS, picture};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sim::Ns;
use sim::seam::BlockOp;
use workload::trace::Pattern;
use workload::trace::pattern::{DevicePattern, PatternOptions};

use super::RunSpec;
use super::guest::MissingLog;

/// Pictures in `study.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PicturesSpec {
    /// Title above them.
    pub title: String,
    /// Ids of their runs, from top to bottom.
    pub runs: Vec<String>,
}

/// Pictures of a judged study.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pictures {
    /// Title above them.
    pub title: String,
    /// One for each run.
    pub runs: Vec<RunPicture>,
}

/// The requests of a run, or why there are none.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunPicture {
    /// Id of the run.
    pub run: String,
    /// Its title.
    pub title: String,
    /// The requests; `None` if there is no log of them.
    pub requests: Option<Requests>,
    /// Why there are none.
    pub missing: Option<String>,
}

/// Reads and writes of a job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Requests {
    /// Its reads.
    pub reads: Operation,
    /// Its writes.
    pub writes: Operation,
    /// Share of the written bytes in segments that were written from end to end.
    pub seg_seq: Option<f64>,
    /// Share of the written bytes right after the last write.
    pub seg_cont: Option<f64>,
    /// Cells over time and offset, as `docs/format/trace-info.md` describes them; null without a request.
    pub picture: Value,
}

/// Requests of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Operation {
    /// How many there were.
    pub requests: u64,
    /// Their average size.
    pub mean_bytes: Option<f64>,
}

impl PicturesSpec {
    /// Checks the ids against the study's runs.
    /// Errors: what is wrong, with the key.
    pub(super) fn check(&self, runs: &[RunSpec]) -> Result<(), String> {
        if self.runs.is_empty() {
            return Err("`runs`: found none, expected one at least".to_owned());
        }
        for (at, id) in self.runs.iter().enumerate() {
            if runs.iter().all(|run| run.id != *id) {
                return Err(format!("`runs`: no run `{id}`"));
            }
            if self.runs[..at].contains(id) {
                return Err(format!("`runs`: found `{id}` twice"));
            }
        }
        Ok(())
    }

    /// The pictures of runs whose requests were `drawn`, and of those without a log.
    pub(super) fn pictures(
        &self,
        runs: &[RunSpec],
        drawn: &BTreeMap<String, Requests>,
        missing: &[MissingLog],
    ) -> Pictures {
        let one = |id: &String| RunPicture {
            run: id.clone(),
            title: runs.iter().find(|run| run.id == *id).map_or_else(|| id.clone(), |run| run.title.clone()),
            requests: drawn.get(id).cloned(),
            missing: missing.iter().find(|log| log.run == *id).map(MissingLog::to_string),
        };
        Pictures { title: self.title.clone(), runs: self.runs.iter().map(one).collect() }
    }
}

/// The requests of a log's job, with a share of [`MOST_CELLS`] cells among `pictures` of them.
/// Errors: a log that cannot be read.
pub(super) fn of_log(log: &GuestLog, pictures: usize) -> Result<Requests, DriveRunError> {
    let began = log.head.job.began_ns;
    let mut pattern = Pattern::new(PatternOptions { pictures: 1, ..PatternOptions::default() });
    log.each_request(|mut record| {
        if record.at.0 >= began && matches!(record.op, BlockOp::Read | BlockOp::Write) {
            record.at = Ns(record.at.0 - began);
            pattern.add(&record);
        }
    })?;
    let device = pattern.devices().next().map(|(_, device)| device);
    let operation = |op| {
        device.map_or_else(Operation::default, |device: &DevicePattern| {
            let load = device.load.op(op);
            Operation { requests: load.requests, mean_bytes: load.mean_bytes() }
        })
    };
    Ok(Requests {
        reads: operation(BlockOp::Read),
        writes: operation(BlockOp::Write),
        seg_seq: device.and_then(|device| device.segments.seg_seq()),
        seg_cont: device.and_then(|device| device.segments.seg_cont()),
        picture: device
            .and_then(|device| device.picture.as_ref())
            .map_or(Value::Null, |drawn| picture(drawn, MOST_CELLS / pictures.max(1))),
    })
}

#[cfg(test)]
mod tests {
    use runner::parts::Library;

    use super::*;
    use crate::guest::Logs as _;
    use crate::{Finished, Source, Spec, StudyError};

    /// Of `hpb-app-start-guest` the run `none-off`, one that has no log, and these lines.
    fn source(lines: &str) -> Source {
        let mut source = crate::by_name("hpb-app-start-guest").unwrap().clone();
        let mut table: toml::Table = toml::from_str(&source.toml).unwrap();
        ["reason", "comparison", "claim"].iter().for_each(|key| drop(table.remove(*key)));
        let runs = table["run"].as_array_mut().unwrap();
        runs.retain(|run| run["id"].as_str() == Some("none-off"));
        runs.push(toml::from_str("id = 'no log'\ntitle = 'it'\nset = { 'guest.job' = 'true' }").unwrap());
        let claim = "[[claim]]\nid = 'c'\nours = 'guest.mark.end1_s(none-off)'\nabove = 0\n";
        source.toml = format!("{}\n{claim}{lines}", toml::to_string(&table).unwrap()).into();
        source
    }

    fn finished(lines: &str) -> Result<Finished, StudyError> {
        crate::run(&source(lines), false, Library::embedded(), &(), &|_, _| ())
    }

    /// Reads and writes in the cells of a picture, and the number of cells.
    fn in_cells(picture: &Value) -> (u64, u64, usize) {
        let cells = picture["cells"].as_array().unwrap();
        let sum = |at: usize| cells.iter().map(|cell| cell[at].as_u64().unwrap()).sum();
        (sum(2), sum(3), cells.len())
    }

    #[test]
    fn a_study_draws_the_requests_of_its_jobs_and_says_where_a_log_is_missing() {
        let done = finished("[[pictures]]\ntitle = 'launches'\nruns = ['none-off', 'no log']\n").unwrap();
        let [Pictures { title, runs }] = &done.pictures[..] else { panic!("{:?}", done.pictures) };
        let [drawn, missing] = &runs[..] else { panic!("{runs:?}") };
        assert_eq!((&**title, &*drawn.run, &drawn.missing), ("launches", "none-off", &None));
        assert!(missing.requests.is_none());
        assert_eq!(
            missing.missing.as_deref(),
            Some("no log of no log; make it with `nandlab study hpb-app-start-guest --refresh --only 'no log'`")
        );

        // The job's requests, as the run counts them; what setup wrote is not among them.
        let requests = drawn.requests.as_ref().unwrap();
        let outcome = done.runs[0].1.drive().unwrap();
        for (op, drawn) in [("read", requests.reads), ("write", requests.writes)] {
            let counted = outcome.ops.iter().find(|it| it.op == op).unwrap();
            assert_eq!(drawn.requests, counted.count, "{op}");
            let mean = counted.bytes as f64 / counted.count as f64;
            assert!((drawn.mean_bytes.unwrap() / mean - 1.0).abs() < 1e-9, "{op}: {drawn:?}, {mean}");
        }
        let (reads, writes, cells) = in_cells(&requests.picture);
        assert_eq!((reads, writes), (requests.reads.requests, requests.writes.requests));
        assert!((100..=MOST_CELLS / 2).contains(&cells), "{cells}");

        let page = crate::page::of("x", &[done]);
        let picture = page.pointer("/studies/0/pictures/0/runs/0/requests/picture").unwrap();
        assert_eq!(in_cells(picture), (reads, writes, cells));
    }

    #[test]
    fn the_more_pictures_a_study_has_the_fewer_cells_has_each() {
        let spec = Spec::parse(&source("")).unwrap();
        let prepared = spec.question_of(&spec.runs[0], false, Library::embedded()).unwrap();
        let log = ().of("hpb-app-start-guest", &spec.runs[0], &prepared, &mut |_| ()).unwrap().unwrap().0;
        let whole = in_cells(&of_log(&log, 1).unwrap().picture);
        let small = in_cells(&of_log(&log, MOST_CELLS / 50).unwrap().picture);
        assert!(whole.2 > 50 && small.2 <= 50, "{whole:?}, {small:?}");
        assert_eq!((whole.0, whole.1), (small.0, small.1), "joining cells loses no request");
    }

    #[test]
    fn pictures_of_runs_that_have_no_requests_are_refused_with_the_reason() {
        const DRIVE: &str = "kind = 'guest'
question = 'Why not?'
run = [{ id = 'load', title = 'a load', set = { 'workload.requests' = 50, 'precondition.kind' = 'none' } }]
base = { title = 'base', ssd = { channels = 2, ways = 1, planes = 1, blocks = 16, pages = 16, over_provisioning_percent = 40 } }
claim = [{ id = 'c', ours = 'run.requests(load)', above = 1 }]
";
        for (runs, words) in [
            ("[]", "`runs`: found none, expected one at least"),
            ("['loads']", "pictures `p`: `runs`: no run `loads`"),
            ("['load', 'load']", "`runs`: found `load` twice"),
            ("['load']", "`runs`: `load` has no guest on a block device"),
        ] {
            let toml = format!("{DRIVE}[[pictures]]\ntitle = 'p'\nruns = {runs}\n").into();
            let source = Source { name: "tiny".into(), toml, published: "{}".into() };
            let error = crate::run(&source, false, Library::embedded(), &(), &|_, _| ()).unwrap_err().to_string();
            assert!(error.contains(words), "no `{words}` in {error}");
        }
    }
}
