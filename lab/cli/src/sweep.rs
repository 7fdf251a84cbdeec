//! `nandlab sweep`: one experiment over a grid of values of its keys.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use runner::measure::Outcome as Found;
use runner::report;
use runner::schema;
use runner::sweep::{self, Axis, Point, Shard, Sweep};

use crate::Outcome;
use crate::error::CliError;
use crate::output::{self, NewFile};
use crate::parts::PartDirs;
use crate::progress::Bars;
use crate::run::{self, Request, Stopped};
use crate::store;
use crate::columns::{Column, Columns};

/// Metrics that the terminal's table has if the points have them.
const SHOWN: [&str; 7] =
    ["read.iops", "read.p99_us", "write.iops", "write.p99_us", "waf", "life.first.p50_years", "wear.all.max"];
/// Most rows of the terminal's table.
const MOST_ROWS: usize = 60;

/// Arguments of `nandlab sweep`.
#[derive(clap::Args)]
pub struct Args {
    /// The experiment, a TOML file; its [sweep] is used where the command line says nothing
    file: PathBuf,
    /// A key and its values, as in `--vary ssd.ftl.gc=greedy,fifo`; several make a grid
    #[arg(long, value_name = "KEY=VALUE,…")]
    vary: Vec<String>,
    /// Run only so many combinations, drawn at random
    #[arg(long, value_name = "N")]
    samples: Option<u64>,
    /// Run only this part of the points, as in 1/4; parts with the same --out complete each other
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// Use finished points of a sweep in another directory, such as a shard of another machine
    #[arg(long, value_name = "DIR")]
    from: Vec<PathBuf>,
    /// Show this metric in the table (docs/format/metrics.md); may be given several times
    #[arg(long, value_name = "ID")]
    metric: Vec<String>,
    /// Override a key of the file, as in `--set nand.pebs=4096`; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The seed; overrides the file's
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    parts: PartDirs,
    /// Directory for the results; finished points in it are not run again
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Print the table as one JSON document
    #[arg(long)]
    json: bool,
}

/// Runs the command.
/// Errors: a file that is no experiment; a key that cannot be varied; results that cannot be written.
pub fn run(args: Args) -> Result<Outcome, CliError> {
    let text = run::read(&args.file)?;
    let beside = args.file.parent().unwrap_or(Path::new(""));
    let mut pairs = run::pairs(&args.set, args.seed)?;
    if let Some(path) = schema::job_path(&text, &pairs) {
        pairs.push(run::job_file(&beside.join(path))?);
    }
    let library = args.parts.library()?;
    let given = pairs.iter().any(|(key, _)| key == "trace.file");
    let trace =
        schema::trace_path(&text, &pairs).map(|path| if given { PathBuf::from(path) } else { beside.join(path) });
    let input = trace.as_deref().map(digest).transpose()?.unwrap_or_default();
    let sweep = Sweep::new(&text, &pairs, &args.vary, args.samples, &input, &library)
        .map_err(|error| run::refused(&args.file, &error))?;
    let runs = args.out.join("runs");
    store::prepare(&runs)?;
    let kept: Vec<PathBuf> =
        std::iter::once(runs.clone()).chain(args.from.iter().map(|dir| dir.join("runs"))).collect();
    let mut found: BTreeMap<usize, Found> =
        sweep.points.iter().filter_map(|point| Some((point.index, kept_result(&kept, point)?))).collect();
    let before = found.len();
    let wanted: Vec<&Point> = sweep
        .points
        .iter()
        .filter(|point| args.shard.is_none_or(|shard| shard.has(point)) && !found.contains_key(&point.index))
        .collect();
    let bars = Bars::new(!args.json);
    let bar = bars.add("points");
    let done = AtomicUsize::new(0);
    let results = sweep::run(&wanted, |point| {
        let request = Request {
            file: &args.file,
            pairs: Vec::new(),
            library: &library,
            format: None,
            read_opcode: None,
            out: None,
            flash: None,
            force: false,
            // A point has no progress bar of its own.
            json: true,
        };
        let found = run::on_store(&point.prepared, trace.as_deref(), &request)?;
        keep(&runs, point, &found)?;
        bar.show_count(done.fetch_add(1, Ordering::Relaxed) + 1, wanted.len());
        Ok(found)
    });
    bar.finish();
    let mut failed = Vec::new();
    for (point, result) in wanted.iter().zip(results) {
        match result {
            Ok(outcome) => drop(found.insert(point.index, outcome)),
            Err(Stopped::Cli(error)) => return Err(error),
            Err(Stopped::Run(error)) => failed.push(format!("{}: {error}", named(&sweep.axes, point))),
        }
    }
    let rows: Vec<(&Point, &Found)> =
        sweep.points.iter().filter_map(|point| Some((point, found.get(&point.index)?))).collect();
    let metrics = shown(&args.metric, &rows)?;
    let document = report::sweep::document(&sweep, &rows, &metrics);
    write(&args.out, &sweep.axes, &rows, &document)?;
    if args.json {
        output::print_json(&document["sweep"])?;
    } else {
        let mut text = lines(&sweep.axes, &rows, &metrics);
        for line in report::sweep::answer(&sweep.axes, &rows, &metrics) {
            text += &format!("{line}\n");
        }
        let (of, again) = (sweep.points.len(), wanted.len() - failed.len());
        text += &format!("{} of {of} points: {again} run now, {before} kept from before", rows.len());
        text += if rows.len() + failed.len() < of { "; the others belong to other shards\n" } else { "\n" };
        text += &format!("results in {}; open {}\n", args.out.display(), args.out.join("report.html").display());
        output::print(&text)?;
    }
    for line in &failed {
        eprintln!("failed: {line}");
    }
    Ok(if failed.is_empty() { Outcome::Done } else { Outcome::Failed })
}

/// Digest of a file.
/// Errors: it cannot be read.
fn digest(path: &Path) -> Result<String, CliError> {
    let bytes = std::fs::read(path).map_err(|error| CliError::read(path, &error))?;
    Ok(sweep::digest(&bytes))
}

/// The kept result of a point; a file that is damaged counts as none.
fn kept_result(dirs: &[PathBuf], point: &Point) -> Option<Found> {
    let read =
        |dir: &PathBuf| serde_json::from_slice(&std::fs::read(dir.join(format!("{}.json", point.id))).ok()?).ok();
    dirs.iter().find_map(read)
}

fn keep(runs: &Path, point: &Point, found: &Found) -> Result<(), CliError> {
    let bytes = serde_json::to_vec(found).expect("every key of a document is a string");
    let mut file = NewFile::create(&runs.join(format!("{}.json", point.id)), true)?;
    file.write(&bytes)?;
    file.finish(true)
}

fn named(axes: &[Axis], point: &Point) -> String {
    let pairs = axes.iter().zip(&point.values).map(|(axis, value)| format!("{}={value}", axis.key));
    pairs.collect::<Vec<_>>().join(", ")
}

/// The metrics to show: those asked for, or the usual ones that a point has.
/// Errors: an id that no run has.
fn shown(asked: &[String], rows: &[(&Point, &Found)]) -> Result<Vec<String>, CliError> {
    let has = |id: &str| rows.iter().any(|(_, found)| found.metrics().value(id).is_ok());
    for id in asked.iter().filter(|id| !has(id)) {
        if let Some((_, found)) = rows.first()
            && let Err(why) = found.metrics().value(id)
        {
            return Err(CliError::input(Path::new("--metric"), why, "docs/format/metrics.md lists them all"));
        }
    }
    Ok(match asked {
        [] => SHOWN.iter().filter(|id| has(id)).map(|&id| id.to_owned()).collect(),
        asked => asked.to_vec(),
    })
}

/// Writes `sweep.csv`, `sweep.parquet` and `report.html`. The tables have every metric of every point.
fn write(out: &Path, axes: &[Axis], rows: &[(&Point, &Found)], document: &serde_json::Value) -> Result<(), CliError> {
    let mut ids: Vec<&str> = Vec::new();
    for metric in rows.iter().flat_map(|(_, found)| found.metrics().all()) {
        if !ids.contains(&metric.id.as_str()) {
            ids.push(&metric.id);
        }
    }
    let text = |pick: &dyn Fn(&(&Point, &Found)) -> String| Column::Text(rows.iter().map(pick).collect());
    let mut table = Columns::new("sweep");
    for (at, axis) in axes.iter().enumerate() {
        table = table.with(&axis.key, text(&|(point, _)| point.values[at].clone()));
    }
    table = table.with("fingerprint", text(&|(_, found)| found.fingerprint.clone()));
    for id in ids {
        let values = rows.iter().map(|(_, found)| found.metrics().value(id).unwrap_or(f64::NAN));
        table = table.with(id, Column::Double(values.collect()));
    }
    store::write(&out.join("sweep.csv"), table.csv().as_bytes())?;
    store::write(&out.join("sweep.parquet"), &table.parquet())?;
    store::write(&out.join("report.html"), report::page(document).as_bytes())
}

/// The table for a terminal.
fn lines(axes: &[Axis], rows: &[(&Point, &Found)], metrics: &[String]) -> String {
    let heads = axes.iter().map(|axis| axis.key.clone()).chain(metrics.iter().cloned());
    let mut cells: Vec<Vec<String>> = vec![heads.collect()];
    for (point, found) in rows.iter().take(MOST_ROWS) {
        let value = |id: &String| found.metrics().value(id).map_or("-".to_owned(), report::four_digits);
        cells.push(point.values.iter().cloned().chain(metrics.iter().map(value)).collect());
    }
    let widths: Vec<usize> =
        (0..cells[0].len()).map(|at| cells.iter().map(|row| row[at].chars().count()).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for row in &cells {
        let padded = row.iter().zip(&widths).enumerate().map(|(at, (cell, &width))| {
            if at < axes.len() { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        text += padded.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    if rows.len() > MOST_ROWS {
        text += &format!("… {} more rows in sweep.csv\n", rows.len() - MOST_ROWS);
    }
    text.push('\n');
    text
}
