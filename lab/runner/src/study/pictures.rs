//! Pictures of requests: where in its device each run of a study read and wrote, and when.
//!
//! A `[[pictures]]` of `study.toml` names runs with a guest on a block device. Each is drawn from its log, from the
//! beginning of the job, on the time of the log. The cells of all pictures of a study together are at most [`MOST_CELLS`], so that
//! a page with many of them stays small. `docs/format/study.md` describes the keys.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sim::Ns;
use sim::seam::BlockOp;
use workload::trace::Pattern;
use workload::trace::pattern::{DevicePattern, PatternOptions};

use super::RunSpec;
use super::guest::MissingLog;
use crate::run::DriveRunError;
use crate::run::guest::log::GuestLog;
use crate::trace_report::{MOST_CELLS, picture};

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
