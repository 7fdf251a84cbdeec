//! The directory of a run: `result.json`, `experiment.toml`, tables of wear, latency and the timeline as CSV and as
//! Parquet, `fio.json` of a drive, `report.html`. Each file appears completely or not at all;
//! `docs/format/run-directory.md` describes them.

use std::path::{Path, PathBuf};

use runner::measure::outcome::drive::Point as DrivePoint;
use runner::measure::outcome::flash::Point as FlashPoint;
use runner::measure::{Detail, Outcome as Found};
use runner::report;
use runner::subject::drive;
use serde_json::json;
use study::Finished;

use crate::columns::{Column, Columns};
use crate::error::CliError;
use crate::interrupt;
use crate::output::{self, Overwrite, Versioned};

/// A whole number of a point: its name, and how it is read.
type Figure<P> = (&'static str, fn(&P) -> u64);
/// Files of a run, the page last; a run on raw flash has no `fio.json`, one without a guest on a drive no requests.
pub const OF_RUN: [&str; 11] = [
    "result.json",
    "experiment.toml",
    "fio.json",
    "wear.csv",
    "wear.parquet",
    "latency.csv",
    "latency.parquet",
    "timeline.csv",
    "timeline.parquet",
    REQUESTS,
    PAGE,
];
/// Requests of a guest to a drive.
pub const REQUESTS: &str = "requests.ntrace";
/// The page of a run.
const PAGE: &str = "report.html";
/// Form of `result.json`.
pub const RUN: &str = "nandlab/run/1";
/// Form of `studies.json`.
pub const STUDIES: &str = "nandlab/studies/1";
/// Files of one or more studies, beside a directory for each study with one for each run.
const OF_STUDIES: [&str; 2] = ["studies.json", "report.html"];

/// Creates the directory of a run.
/// Errors: it has results that may not be overwritten; it cannot be created.
pub fn prepare_run(dir: &Path, overwrite: &Overwrite) -> Result<(), CliError> {
    OF_RUN.iter().try_for_each(|name| overwrite.permit(&dir.join(name)))?;
    output::make_dir(dir)
}

/// Creates the directory of studies, each with the ids of its runs.
/// Errors: as [`prepare_run`].
pub fn prepare_studies<'a>(
    dir: &Path,
    runs: impl IntoIterator<Item = (&'a str, &'a str)>,
    overwrite: &Overwrite,
) -> Result<(), CliError> {
    for (study, id) in runs {
        let dir = of_study(dir, study, id);
        OF_RUN.iter().filter(|&&name| name != PAGE).try_for_each(|name| overwrite.permit(&dir.join(name)))?;
    }
    OF_STUDIES.iter().try_for_each(|name| overwrite.permit(&dir.join(name)))?;
    output::make_dir(dir)
}

/// Directory of a run of a study.
fn of_study(dir: &Path, study: &str, id: &str) -> PathBuf {
    dir.join(study).join(id.replace([' ', '/'], "-"))
}

/// Writes a run. Its page shows the log of a guest's requests, if the directory has one.
/// Errors: a file that cannot be written; a log that cannot be read.
pub fn write_run(dir: &Path, found: &Found, overwrite: &Overwrite) -> Result<(), CliError> {
    write_results(dir, found, overwrite)?;
    let runs = [(found.experiment.title.clone(), found)];
    let mut document = report::of_runs(&runs);
    if found.measured.guest.is_some()
        && let Some(pictures) = crate::trace::info::pictures(dir)?
    {
        document["trace"] = pictures;
    }
    output::write(&dir.join(PAGE), report::page(&document).as_bytes(), overwrite)
}

/// Writes a run of a study, without a page.
/// Errors: as [`write_run`].
pub fn write_run_of_study(
    dir: &Path,
    study: &str,
    id: &str,
    found: &Found,
    overwrite: &Overwrite,
) -> Result<(), CliError> {
    let dir = of_study(dir, study, id);
    output::make_dir(&dir)?;
    write_results(&dir, found, overwrite)
}

/// Writes `studies.json` and one report of all studies.
/// Errors: as [`write_run`].
pub fn write_studies(dir: &Path, finished: &[Finished], overwrite: &Overwrite) -> Result<(), CliError> {
    let judgements: Vec<_> = finished.iter().map(|done| done.judgement.clone()).collect();
    let document = json!({ "studies": judgements });
    output::write(&dir.join("studies.json"), &bytes(&Versioned::new(STUDIES, &document)), overwrite)?;
    let title = judgements.iter().map(|judgement| judgement.study.as_str()).collect::<Vec<_>>().join(", ");
    let page = report::page(&study::page::of(&title, finished));
    output::write(&dir.join("report.html"), page.as_bytes(), overwrite)
}

fn write_results(dir: &Path, found: &Found, overwrite: &Overwrite) -> Result<(), CliError> {
    let tables = match &found.measured.detail {
        Detail::Flash(detail) => [
            flash_wear(&found.measured.erase_counts),
            latency(detail.latency.iter().map(|op| (op.op.as_str(), &op.cdf[..]))),
            flash_timeline(&detail.timeline),
        ],
        Detail::Drive(detail) => [
            drive_wear(found),
            latency(detail.ops.iter().map(|op| (op.op.as_str(), &op.cdf[..]))),
            drive_timeline(&detail.timeline),
        ],
        Detail::Ubiblock(detail) => [
            flash_wear(&found.measured.erase_counts),
            latency(detail.ops.iter().map(|op| (op.op.as_str(), &op.cdf[..]))),
            drive_timeline(&detail.timeline),
        ],
    };
    let mut files = vec![
        ("result.json".to_owned(), bytes(&Versioned::new(RUN, found))),
        ("experiment.toml".to_owned(), found.experiment.to_toml().into_bytes()),
    ];
    files.extend(report::fio::document(found).map(|fio| ("fio.json".to_owned(), bytes(&fio))));
    for table in tables {
        files.push((format!("{}.csv", table.name()), table.csv().into_bytes()));
        files.push((format!("{}.parquet", table.name()), table.parquet()));
    }
    interrupt::together(|| files.iter().try_for_each(|(name, bytes)| output::write(&dir.join(name), bytes, overwrite)))
}

fn bytes(document: &impl serde::Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(document).expect("every key of a document is a string");
    bytes.push(b'\n');
    bytes
}

fn flash_wear(erase_counts: &[u32]) -> Columns {
    Columns::new("wear")
        .int("peb", 0..erase_counts.len() as i64)
        .int("erase_count", erase_counts.iter().map(|&ec| ec.into()))
}

/// A table of cumulative distributions, one for each operation.
fn latency<'a>(distributions: impl Iterator<Item = (&'a str, &'a [(u64, f64)])>) -> Columns {
    let points: Vec<_> = distributions.flat_map(|(op, cdf)| cdf.iter().map(move |point| (op, point))).collect();
    Columns::new("latency")
        .with("op", Column::Text(points.iter().map(|(op, _)| (*op).to_owned()).collect()))
        .int("latency_ns", points.iter().map(|(_, (ns, _))| *ns as i64))
        .with("share_at_or_below", Column::Double(points.iter().map(|(_, (_, share))| *share).collect()))
}

fn flash_timeline(points: &[FlashPoint]) -> Columns {
    let ints: [Figure<FlashPoint>; 9] = [
        ("t_ns", |point| point.t_ns),
        ("erases", |point| point.erases),
        ("free_pebs", |point| u64::from(point.free)),
        ("first64_min", |point| point.groups.first64.min),
        ("first64_avg", |point| point.groups.first64.avg),
        ("first64_max", |point| point.groups.first64.max),
        ("others_min", |point| point.groups.others.min),
        ("others_avg", |point| point.groups.others.avg),
        ("others_max", |point| point.groups.others.max),
    ];
    let waf = Column::Double(points.iter().map(|point| point.waf).collect());
    with_all(Columns::new("timeline"), points, &ints).with("write_amplification", waf)
}

fn drive_wear(found: &Found) -> Columns {
    let ssd = found.experiment.ssd.as_ref().expect("it is a run on a drive");
    let shape = drive::shape(ssd).expect("the drive has run");
    let erase_counts = &found.measured.erase_counts;
    let blocks = || (0..erase_counts.len()).map(|at| (at as u32 / shape.blocks, at as u32 % shape.blocks));
    Columns::new("wear")
        .int("channel", blocks().map(|(unit, _)| shape.channel_of_die(shape.die_of_unit(unit)).into()))
        .int("die", blocks().map(|(unit, _)| shape.die_of_unit(unit).into()))
        .int("unit", blocks().map(|(unit, _)| unit.into()))
        .int("block", blocks().map(|(_, block)| block.into()))
        .int("erase_count", erase_counts.iter().map(|&count| count.into()))
}

fn drive_timeline(points: &[DrivePoint]) -> Columns {
    let ints: [Figure<DrivePoint>; 12] = [
        ("t_ns", |point| point.t_ns),
        ("reads", |point| point.requests[0]),
        ("writes", |point| point.requests[1]),
        ("flushes", |point| point.requests[2]),
        ("trims", |point| point.requests[3]),
        ("read_bytes", |point| point.bytes[0]),
        ("write_bytes", |point| point.bytes[1]),
        ("trim_bytes", |point| point.bytes[3]),
        ("host_pages", |point| point.host_pages),
        ("pages", |point| point.pages),
        ("erases", |point| point.erases),
        ("max_latency_ns", |point| point.max_ns),
    ];
    with_all(Columns::new("timeline"), points, &ints)
}

fn with_all<P>(table: Columns, points: &[P], ints: &[Figure<P>]) -> Columns {
    ints.iter().fold(table, |table, (name, pick)| table.int(*name, points.iter().map(|point| pick(point) as i64)))
}
