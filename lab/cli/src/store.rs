//! The directory of a run: `result.json`, `experiment.toml`, `wear.parquet`, `latency.parquet`, `timeline.parquet`,
//! `report.html`. Each file appears completely or not at all; `docs/format/run-directory.md` describes them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::data_type::{DoubleType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use runner::measure::outcome::drive::Point as DrivePoint;
use runner::measure::outcome::flash::Point as FlashPoint;
use runner::measure::{Detail, Outcome as Found};
use runner::report;
use runner::study::Finished;
use runner::subject::drive;

use crate::error::CliError;
use crate::interrupt;
use crate::output::{self, Overwrite};

/// Files of a run.
const OF_RUN: [&str; 6] =
    ["result.json", "experiment.toml", "wear.parquet", "latency.parquet", "timeline.parquet", "report.html"];
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
        OF_RUN[..5].iter().try_for_each(|name| overwrite.permit(&dir.join(name)))?;
    }
    OF_STUDIES.iter().try_for_each(|name| overwrite.permit(&dir.join(name)))?;
    output::make_dir(dir)
}

/// Directory of a run of a study.
fn of_study(dir: &Path, study: &str, id: &str) -> PathBuf {
    dir.join(study).join(id.replace([' ', '/'], "-"))
}

/// Writes a run.
/// Errors: a file that cannot be written.
pub fn write_run(dir: &Path, found: &Found, overwrite: &Overwrite) -> Result<(), CliError> {
    write_results(dir, found, overwrite)?;
    let runs = [(found.experiment.title.clone(), found)];
    output::write(&dir.join("report.html"), report::page(&report::of_runs(&runs)).as_bytes(), overwrite)
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
    let runs: Vec<_> =
        finished.iter().flat_map(|done| &done.runs).map(|(title, found)| (title.clone(), found)).collect();
    let judgements: Vec<_> = finished.iter().map(|done| done.judgement.clone()).collect();
    output::write(&dir.join("studies.json"), &json(&judgements), overwrite)?;
    let title = judgements.iter().map(|judgement| judgement.study.as_str()).collect::<Vec<_>>().join(", ");
    let page = report::page(&report::of_studies(&title, &runs, &judgements));
    output::write(&dir.join("report.html"), page.as_bytes(), overwrite)
}

fn write_results(dir: &Path, found: &Found, overwrite: &Overwrite) -> Result<(), CliError> {
    let (wear, latency, timeline) = match &found.measured.detail {
        Detail::Flash(detail) => (
            flash_wear(&found.measured.erase_counts),
            latency(detail.latency.iter().map(|op| &op.cdf[..])),
            flash_timeline(&detail.timeline),
        ),
        Detail::Drive(detail) => {
            (drive_wear(found), latency(detail.ops.iter().map(|op| &op.cdf[..])), drive_timeline(&detail.timeline))
        }
    };
    let files = [json(found), found.experiment.to_toml().into_bytes(), wear, latency, timeline];
    let files = OF_RUN.iter().zip(&files);
    interrupt::together(|| {
        files.into_iter().try_for_each(|(name, bytes)| output::write(&dir.join(name), bytes, overwrite))
    })
}

fn json(document: &impl serde::Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(document).expect("every key of a document is a string");
    bytes.push(b'\n');
    bytes
}

/// A column of a table.
enum Column {
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Double(Vec<f64>),
}

fn flash_wear(erase_counts: &[u32]) -> Vec<u8> {
    let pebs = (0..erase_counts.len() as i32).collect();
    let counts = erase_counts.iter().map(|&ec| ec as i32).collect();
    table(
        "message wear { required int32 peb; required int32 erase_count; }",
        vec![Column::Int32(pebs), Column::Int32(counts)],
    )
}

/// A table of cumulative distributions, one per operation.
fn latency<'a>(distributions: impl Iterator<Item = &'a [(u64, f64)]>) -> Vec<u8> {
    let mut columns = (Vec::new(), Vec::new(), Vec::new());
    for (op, cdf) in (0..).zip(distributions) {
        for &(ns, share) in cdf {
            columns.0.push(op);
            columns.1.push(ns as i64);
            columns.2.push(share);
        }
    }
    table(
        "message latency { required int32 op; required int64 latency_ns; required double share_at_or_below; }",
        vec![Column::Int32(columns.0), Column::Int64(columns.1), Column::Double(columns.2)],
    )
}

fn flash_timeline(points: &[FlashPoint]) -> Vec<u8> {
    let int =
        |pick: &dyn Fn(&FlashPoint) -> u64| Column::Int64(points.iter().map(|point| pick(point) as i64).collect());
    table(
        "message timeline { required int64 t_ns; required int64 erases; required int64 free_pebs;
           required double write_amplification;
           required int64 first64_min; required int64 first64_avg; required int64 first64_max;
           required int64 others_min; required int64 others_avg; required int64 others_max; }",
        vec![
            int(&|point| point.t_ns),
            int(&|point| point.erases),
            int(&|point| u64::from(point.free)),
            Column::Double(points.iter().map(|point| point.waf).collect()),
            int(&|point| point.groups.first64.min),
            int(&|point| point.groups.first64.avg),
            int(&|point| point.groups.first64.max),
            int(&|point| point.groups.others.min),
            int(&|point| point.groups.others.avg),
            int(&|point| point.groups.others.max),
        ],
    )
}

fn drive_wear(found: &Found) -> Vec<u8> {
    let ssd = found.experiment.ssd.as_ref().expect("it is a run on a drive");
    let shape = drive::shape(ssd).expect("the drive has run");
    let erase_counts = &found.measured.erase_counts;
    let number = |at: usize| (at as u32 / shape.blocks, at as u32 % shape.blocks);
    let column =
        |pick: &dyn Fn(usize) -> u32| Column::Int32((0..erase_counts.len()).map(|at| pick(at) as i32).collect());
    table(
        "message wear { required int32 channel; required int32 die; required int32 unit; required int32 block;
           required int32 erase_count; }",
        vec![
            column(&|at| shape.channel_of_die(shape.die_of_unit(number(at).0))),
            column(&|at| shape.die_of_unit(number(at).0)),
            column(&|at| number(at).0),
            column(&|at| number(at).1),
            column(&|at| erase_counts[at]),
        ],
    )
}

fn drive_timeline(points: &[DrivePoint]) -> Vec<u8> {
    let int =
        |pick: &dyn Fn(&DrivePoint) -> u64| Column::Int64(points.iter().map(|point| pick(point) as i64).collect());
    table(
        "message timeline { required int64 t_ns; required int64 reads; required int64 writes; required int64 flushes;
           required int64 trims; required int64 read_bytes; required int64 write_bytes; required int64 trim_bytes;
           required int64 host_pages; required int64 pages; required int64 erases; required int64 max_latency_ns; }",
        vec![
            int(&|point| point.t_ns),
            int(&|point| point.requests[0]),
            int(&|point| point.requests[1]),
            int(&|point| point.requests[2]),
            int(&|point| point.requests[3]),
            int(&|point| point.bytes[0]),
            int(&|point| point.bytes[1]),
            int(&|point| point.bytes[3]),
            int(&|point| point.host_pages),
            int(&|point| point.pages),
            int(&|point| point.erases),
            int(&|point| point.max_ns),
        ],
    )
}

/// A Parquet file in memory. The schema is fixed and the columns are complete, so writing cannot fail.
fn table(schema: &str, columns: Vec<Column>) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(schema).expect("the schema is well formed"));
    let properties = Arc::new(WriterProperties::builder().set_created_by("nandlab".to_owned()).build());
    let mut bytes = Vec::new();
    let fill = |bytes: &mut Vec<u8>| -> Result<(), parquet::errors::ParquetError> {
        let mut file = SerializedFileWriter::new(bytes, schema, properties)?;
        let mut group = file.next_row_group()?;
        for column in columns {
            let Some(mut writer) = group.next_column()? else { break };
            match column {
                Column::Int32(values) => writer.typed::<Int32Type>().write_batch(&values, None, None)?,
                Column::Int64(values) => writer.typed::<Int64Type>().write_batch(&values, None, None)?,
                Column::Double(values) => writer.typed::<DoubleType>().write_batch(&values, None, None)?,
            };
            writer.close()?;
        }
        group.close()?;
        file.close()?;
        Ok(())
    };
    fill(&mut bytes).expect("a table in memory can be written");
    bytes
}
