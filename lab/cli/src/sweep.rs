//! `nandlab sweep`: one experiment over a grid of values of its keys.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use runner::report;
use runner::schema;
use runner::sweep::{self, Axis, Point, Row, Shard, Sweep};

use crate::Outcome;
use crate::columns::{Column, Columns};
use crate::error::CliError;
use crate::given::Given;
use crate::guest::logs::Paths;
use crate::interrupt;
use crate::output::{self, Overwrite};
use crate::parts::PartDirs;
use crate::progress::{Bars, Work};
use crate::run::{self, Request, Stopped};
use crate::table::{self, Table};

/// Metrics that the terminal's table has if the points have them.
const SHOWN: [&str; 6] =
    ["read.iops", "read.p99_us", "write.iops", "write.p99_us", "waf", "life.level_first.p50_years"];
/// Most rows of the terminal's table.
const MOST_ROWS: usize = 60;

/// Files of a sweep, beside the results of its points.
const OF_SWEEP: [&str; 3] = ["sweep.csv", "sweep.parquet", "report.html"];

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
    /// Overwrite sweep.csv, sweep.parquet and report.html in a directory that no sweep made
    #[arg(long)]
    force: bool,
    /// Print the table as one JSON document
    #[arg(long)]
    json: bool,
}

/// Runs the command.
/// Errors: a file that is no experiment; a key that cannot be varied; results that cannot be written.
pub fn run(args: Args) -> Result<Outcome, CliError> {
    let text = run::read(&args.file)?;
    let beside = args.file.parent().unwrap_or(Path::new(""));
    let mut given = Given::new(&args.set, args.seed)?;
    let mut inputs = args.parts.inputs();
    inputs.push(args.file.clone());
    if let Some(path) = schema::job_path(&text, given.pairs()) {
        let path = beside.join(path);
        given.push("workload.fio", run::job_file(&path)?, path.display().to_string());
        inputs.push(path);
    }
    let library = args.parts.library()?;
    let is_given = given.option_of("trace.file").is_some();
    let trace = schema::trace_path(&text, given.pairs())
        .map(|path| if is_given { PathBuf::from(path) } else { beside.join(path) });
    inputs.extend(trace.clone());
    let is_given = given.option_of("strace.file").is_some();
    let strace = schema::strace_path(&text, given.pairs())
        .map(|path| if is_given { PathBuf::from(path) } else { beside.join(path) });
    inputs.extend(strace.clone());
    // An experiment has one load, and so one of both.
    let input = trace.as_deref().or(strace.as_deref()).map(digest).transpose()?.unwrap_or_default();
    let mut sweep = Sweep::new(&text, given.pairs(), &args.vary, args.samples, &input, &library)
        .map_err(|error| given.refused(&args.file, &error))?;
    if let Some(path) = &strace {
        give_calls(&mut sweep, path, &args.file)?;
    }
    let runs = args.out.join("runs");
    // The tables and the page of a sweep are written again whenever it goes on.
    let overwrite = Overwrite::new(args.force || runs.is_dir(), inputs.iter().map(PathBuf::as_path));
    OF_SWEEP.iter().try_for_each(|name| overwrite.permit(&args.out.join(name)))?;
    output::make_dir(&runs)?;
    interrupt::keeps(format!("finished points are kept in {}; the same command goes on there", args.out.display()));
    let kept: Vec<PathBuf> =
        std::iter::once(runs.clone()).chain(args.from.iter().map(|dir| dir.join("runs"))).collect();
    let mut found: BTreeMap<usize, Row> =
        sweep.points.iter().filter_map(|point| Some((point.index, kept_result(&kept, point)?))).collect();
    let before = found.len();
    let wanted: Vec<&Point> = sweep
        .points
        .iter()
        .filter(|point| args.shard.is_none_or(|shard| shard.has(point)) && !found.contains_key(&point.index))
        .collect();
    let bars = Bars::new(!args.json);
    let work = if sweep.points.iter().any(|point| point.prepared.experiment.has_block_device()) {
        Work::Requests
    } else {
        Work::Erasures
    };
    let bar = bars.add("sweep", work, wanted.len());
    let results = sweep::run(&wanted, |point| {
        let request = Request {
            file: &args.file,
            given: Given::default(),
            inputs: Vec::new(),
            library: &library,
            format: None,
            read_opcode: None,
            out: None,
            flash: None,
            disk: None,
            from: None,
            logs: Paths::default(),
            flame: None,
            force: false,
            // A point has no progress bar of its own.
            json: true,
            serves: false,
            watching: None,
        };
        let (found, _) = run::on_store(&point.prepared, trace.as_deref(), &request, &overwrite)?;
        let bytes = serde_json::to_vec(&found).expect("every key of a document is a string");
        output::write(&kept_file(&runs, point), &bytes, &Overwrite::new(true, []))?;
        bar.finish_run(&point.id, &found);
        Ok(found.into())
    });
    bar.finish();
    let mut failed = Vec::new();
    for (point, result) in wanted.iter().zip(results) {
        match result {
            Ok(row) => drop(found.insert(point.index, row)),
            Err(Stopped::Cli(error)) => return Err(error),
            Err(Stopped::Run(error)) => failed.push(format!("{}: {error}", named(&sweep.axes, point))),
        }
    }
    let rows: Vec<(&Point, &Row)> =
        sweep.points.iter().filter_map(|point| Some((point, found.get(&point.index)?))).collect();
    let metrics = shown(&args.metric, &rows)?;
    let document = report::sweep::document(&sweep, &rows, &metrics);
    write(&args.out, &sweep.axes, &rows, &document, &overwrite)?;
    if args.json {
        output::print_json("nandlab/sweep/1", &document["sweep"])?;
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

/// Gives each point the calls of the trace at `path` on files of its `strace.root`.
/// Errors: the trace is varied; it cannot be read.
fn give_calls(sweep: &mut Sweep, path: &Path, file: &Path) -> Result<(), CliError> {
    if sweep.axes.iter().any(|axis| axis.key == "strace.file") {
        let help = "sweep each trace on its own: --set strace.file=PATH";
        return Err(CliError::input(file, "found several traces in `strace.file`, expected one for all points", help));
    }
    let mut by_root = BTreeMap::new();
    for point in &mut sweep.points {
        let Some(strace) = &point.prepared.experiment.strace else { continue };
        let calls = match by_root.get(&strace.root) {
            Some(calls) => Arc::clone(calls),
            None => {
                let calls = Arc::new(run::calls(path, &strace.root)?);
                by_root.insert(strace.root.clone(), Arc::clone(&calls));
                calls
            }
        };
        point.prepared = point.prepared.clone().with_calls(calls);
    }
    Ok(())
}

/// Digest of a file.
/// Errors: it cannot be read.
fn digest(path: &Path) -> Result<String, CliError> {
    let bytes = std::fs::read(path).map_err(|error| CliError::read(path, &error))?;
    Ok(sweep::digest(&bytes))
}

/// The kept result of a point; a file that is damaged counts as none.
fn kept_result(dirs: &[PathBuf], point: &Point) -> Option<Row> {
    let read = |dir: &PathBuf| serde_json::from_slice(&std::fs::read(kept_file(dir, point)).ok()?).ok();
    dirs.iter().find_map(read)
}

fn kept_file(dir: &Path, point: &Point) -> PathBuf {
    dir.join(format!("{}.json", point.id))
}

fn named(axes: &[Axis], point: &Point) -> String {
    let pairs = axes.iter().zip(&point.values).map(|(axis, value)| format!("{}={value}", axis.key));
    pairs.collect::<Vec<_>>().join(", ")
}

/// The metrics to show: those asked for, or the usual ones that a point has.
/// Errors: an id that no run has.
fn shown(asked: &[String], rows: &[(&Point, &Row)]) -> Result<Vec<String>, CliError> {
    let has = |id: &str| rows.iter().any(|(_, found)| found.metrics.value(id).is_ok());
    for id in asked.iter().filter(|id| !has(id)) {
        if let Some((_, found)) = rows.first()
            && let Err(why) = found.metrics.value(id)
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
fn write(
    out: &Path,
    axes: &[Axis],
    rows: &[(&Point, &Row)],
    document: &serde_json::Value,
    overwrite: &Overwrite,
) -> Result<(), CliError> {
    let mut ids: Vec<&str> = Vec::new();
    for metric in rows.iter().flat_map(|(_, found)| found.metrics.all()) {
        if !ids.contains(&metric.id.as_str()) {
            ids.push(&metric.id);
        }
    }
    let text = |pick: &dyn Fn(&(&Point, &Row)) -> String| Column::Text(rows.iter().map(pick).collect());
    let mut table = Columns::new("sweep");
    for (at, axis) in axes.iter().enumerate() {
        table = table.with(&axis.key, text(&|(point, _)| point.values[at].clone()));
    }
    table = table.with("fingerprint", text(&|(_, found)| found.fingerprint.clone()));
    for id in ids {
        let values = rows.iter().map(|(_, found)| found.metrics.value(id).unwrap_or(f64::NAN));
        table = table.with(id, Column::Double(values.collect()));
    }
    let contents = [table.csv().into_bytes(), table.parquet(), report::page(document).into_bytes()];
    interrupt::together(|| {
        OF_SWEEP.iter().zip(&contents).try_for_each(|(name, bytes)| output::write(&out.join(name), bytes, overwrite))
    })
}

/// The table for a terminal.
fn lines(axes: &[Axis], rows: &[(&Point, &Row)], metrics: &[String]) -> String {
    let mut table =
        Table::new(axes.iter().map(|axis| axis.key.clone()).chain(metrics.iter().cloned())).named_by(axes.len());
    for (point, found) in rows.iter().take(MOST_ROWS) {
        let value = |id: &String| found.metrics.value(id).map_or("-".to_owned(), report::four_digits);
        table.row(point.values.iter().cloned().chain(metrics.iter().map(value)).collect());
    }
    if rows.len() > MOST_ROWS {
        table.note(format!("… {} more rows in sweep.csv", rows.len() - MOST_ROWS));
    }
    format!("{}\n", table.print(table::width()))
}
