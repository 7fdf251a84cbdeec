//! `nandlab study`: published tables beside ours, with verdicts.

mod logs;

use std::borrow::Cow;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use runner::parts::Library;
use runner::report::figure::Figure;
use runner::report::{self, four_digits};
use runner::run::{Failed, FlashRunError, GuestError, Host};
use runner::schema;
use serde_json::json;
use study::{
    self, BarChart, Claim, Device, Event, Finished, Judgement, KernelPair, Kind, RunSpec, Source, Spec, StudyError,
    TablePair, Verdict,
};

use self::logs::FromHost;
use crate::Outcome;
use crate::error::CliError;
use crate::guest;
use crate::interrupt;
use crate::output::{self, Overwrite};
use crate::parts::PartDirs;
use crate::progress::{Bar, Bars, Work};
use crate::store;
use crate::table::{self, Table};

/// File with a study's runs and claims.
const FILE: &str = "study.toml";
/// File with a study's published numbers.
const PUBLISHED: &str = "published.json";

/// Arguments of `nandlab study`.
#[derive(clap::Args)]
pub struct Args {
    /// `list`, `all`, names of studies, or directories with a study.toml of your own
    #[arg(required = true)]
    names: Vec<String>,
    #[command(flatten)]
    parts: PartDirs,
    /// Stop the runs sooner, and judge only claims that do not depend on their length
    #[arg(long)]
    quick: bool,
    /// Show Linux's own UBI, UBIFS or JFFS2 beside the runs that have a kernel run (`[kernel]` of the study): in the guest, whose kernels
    /// must be built
    #[arg(long)]
    kernel: bool,
    /// Run the guests of runs with [guest] instead of replaying their logs, and keep the logs in the cache. Their kernel
    /// must be built (`nandlab guest build`)
    #[arg(long)]
    refresh: bool,
    /// With --refresh: run the guest of this run alone, by its id, and judge nothing
    #[arg(long, value_name = "RUN", requires = "refresh")]
    only: Option<String>,
    /// With --refresh: keep the logs in this directory too, as studies/NAME/logs has them
    #[arg(long, value_name = "DIR", requires = "refresh")]
    keep_logs: Option<PathBuf>,
    /// Directory for the results and the report [default: none are written]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Overwrite the results of --out and the logs of --keep-logs that exist
    #[arg(long)]
    force: bool,
    /// Print one JSON document: with an item for each study
    #[arg(long)]
    json: bool,
    /// Print the page of all verdicts, as docs/truth.md is one
    #[arg(long, conflicts_with_all = ["json", "only", "quick"])]
    markdown: bool,
}

/// Runs the command; a claim that misses gives exit code 1, one that is not judged does not.
/// Errors: an unknown name; a study that fails; results that cannot be written.
pub fn run(args: Args) -> Result<Outcome, CliError> {
    if args.names == ["list"] {
        return list(args.json);
    }
    let sources = pick(&args.names)?;
    let library = args.parts.library()?;
    let mut specs = Vec::new();
    for (source, dir) in &sources {
        specs.push(Spec::parse(source).map_err(|error| failed(dir.as_deref(), error))?);
    }
    let files =
        sources.iter().filter_map(|(_, dir)| dir.as_ref()).flat_map(|dir| [FILE, PUBLISHED].map(|name| dir.join(name)));
    let inputs: Vec<PathBuf> = files.chain(args.parts.inputs()).collect();
    let overwrite = Overwrite::new(args.force, inputs.iter().map(PathBuf::as_path));
    if let Some(dir) = &args.out {
        let kept = specs.iter().flat_map(|spec| kept(spec).map(|run| (&*spec.name, &*run.id)));
        store::prepare_studies(dir, kept, &overwrite)?;
    }
    let in_words = !args.json && !args.markdown;
    let bars = Bars::new(in_words);
    if let Some(id) = &args.only {
        return only(id, &args, &sources, &specs, &bars, &overwrite);
    }
    let mut finished = Vec::new();
    // Before the runs: they take long.
    let beside = match args.kernel {
        true => sources.iter().map(|(source, dir)| beside(source, dir.as_deref(), args.quick, &library)).collect(),
        false => Ok(Vec::new()),
    }?;
    if args.kernel && beside.iter().all(|(pairs, _)| pairs.is_empty()) {
        let file = PathBuf::from(args.names.join(" "));
        return Err(CliError::input(
            &file,
            "--kernel, but no kernel run",
            "leave --kernel out, or name fastmap-first-64, fastmap-throughput, fastmap-latency, jffs2-powerfail or \
             jffs2-appends",
        ));
    }
    let unwritten = Mutex::new(None);
    for (at, ((source, dir), spec)) in sources.iter().zip(&specs).enumerate() {
        let work = if spec.kind == Device::Wear { Work::Erasures } else { Work::Requests };
        let bar = bars.add(&source.name, work, spec.runs.len());
        interrupted(spec, &bar, args.out.as_deref());
        let watch = |run: &RunSpec, event: Event<'_>| match event {
            Event::Progress(progress) => bar.show(&run.id, progress),
            Event::Finished(found) => {
                if let (Some(out), None) = (&args.out, &run.grid)
                    && let Err(error) = store::write_run_of_study(out, &spec.name, &run.id, found, &overwrite)
                    && let Ok(mut first) = unwritten.lock()
                {
                    first.get_or_insert(error);
                }
                bar.finish_run(&run.id, found);
                interrupted(spec, &bar, args.out.as_deref());
            }
        };
        let how = (args.refresh, args.keep_logs.as_deref());
        let logs = FromHost::new(how, dir.as_deref(), &library, &overwrite);
        let mut done =
            study::run(source, args.quick, &library, &logs, &watch).map_err(|error| failed(dir.as_deref(), error))?;
        bar.finish();
        if let Some((pairs, kernels)) = beside.get(at) {
            let bar = bars.add("Linux in the guest", Work::Erasures, 2 * pairs.len());
            done.judgement.tables.extend(kernel_tables(pairs, kernels, &bar)?);
            bar.finish();
        }
        if in_words {
            output::print(&print(&done))?;
        }
        finished.push(done);
    }
    if args.json {
        let judgements: Vec<&Judgement> = finished.iter().map(|done| &done.judgement).collect();
        output::print_json(store::STUDIES, &json!({ "studies": judgements }))?;
    }
    if args.markdown {
        let judgements: Vec<Judgement> = finished.iter().map(|done| done.judgement.clone()).collect();
        output::print(&study::truth::page(&judgements))?;
    }
    // After the verdicts: a full disk must not lose them.
    if let Some(error) = unwritten.into_inner().ok().flatten() {
        return Err(error);
    }
    if let Some(dir) = &args.out {
        store::write_studies(dir, &finished, &overwrite)?;
        if in_words {
            output::print(&format!("results in {}; open {}\n", dir.display(), dir.join("report.html").display()))?;
        }
    }
    let misses: usize = finished.iter().map(|done| done.judgement.count(Verdict::Miss)).sum();
    Ok(if misses == 0 { Outcome::Done } else { Outcome::Failed })
}

/// Runs the guest of one run, and keeps its log.
fn only(
    id: &str,
    args: &Args,
    sources: &[Picked],
    specs: &[Spec],
    bars: &Bars,
    overwrite: &Overwrite,
) -> Result<Outcome, CliError> {
    let library = args.parts.library()?;
    let runs =
        || sources.iter().zip(specs).flat_map(|(source, spec)| spec.runs.iter().map(move |run| (source, spec, run)));
    let Some(((_, dir), spec, run)) = runs().find(|(.., run)| run.id == id) else {
        let nearest = schema::nearest(id, runs().map(|(.., run)| run.id.as_str()));
        let hint = nearest.map_or(String::new(), |nearest| format!("; did you mean `{nearest}`?"));
        return Err(CliError::input(
            Path::new(&args.names.join(" ")),
            format!("no run `{id}`{hint}"),
            "name a run of the study",
        ));
    };
    if let Some(of) = &run.replays {
        return Err(CliError::input(
            Path::new(&*spec.name),
            format!("run `{id}` replays the guest of `{of}`"),
            format!("refresh that run: --only '{of}'"),
        ));
    }
    let dir = dir.as_deref();
    let prepared = spec.question_of(run, args.quick, &library).map_err(|error| failed(dir, error))?;
    if prepared.experiment.guest.is_none() {
        return Err(CliError::input(Path::new(&*spec.name), format!("run `{id}` has no guest"), "leave --only out"));
    }
    let logs = FromHost::new((true, args.keep_logs.as_deref()), dir, &library, overwrite);
    let bar = bars.add(id, Work::Requests, 1);
    let log = logs.fresh(run, &prepared, &mut |progress| bar.show(id, progress)).map_err(|no_log| {
        failed(dir, StudyError::Log { study: spec.name.clone(), run: id.to_owned(), no_log: Box::new(no_log) })
    })?;
    bar.finish();
    if !args.json {
        output::print(&format!("the log of {id} is in the cache, under {}\n", log.head.fingerprint))?;
    }
    Ok(Outcome::Done)
}

/// The kernel runs of a study with what they boot. Errors: a kernel that is not built.
fn beside(
    source: &Source,
    dir: Option<&Path>,
    quick: bool,
    library: &Library,
) -> Result<(Vec<KernelPair>, Vec<Booted>), CliError> {
    let pairs = study::kernel_pairs(source, quick, library).map_err(|error| failed(dir, error))?;
    let booted = pairs.iter().filter_map(|pair| pair.linux.experiment.guest.as_ref()).map(|section| {
        let kernel = guest::kernel(runner::run::guest::wanted(section))?;
        Ok(Booted { kernel, program: guest::program(section)? })
    });
    let booted = booted.collect::<Result<Vec<_>, CliError>>()?;
    Ok((pairs, booted))
}

/// What a kernel run boots.
struct Booted {
    kernel: ::guest::Kernel,
    program: Option<Vec<u8>>,
}

/// Runs each pair, the pairs in parallel. Errors: a run that fails.
fn kernel_tables(pairs: &[KernelPair], booted: &[Booted], bar: &Bar) -> Result<Vec<TablePair>, CliError> {
    let one = |pair: &KernelPair, booted: &Booted| {
        let host = Host {
            kernel: &booted.kernel,
            terminal: &mut (),
            program: booted.program.as_deref(),
            image: None,
            keep: None,
            keep_flash: None,
            backing: None,
            requests: None,
            log: None,
            ubi: None,
        };
        let name = format!("{} in the guest", pair.title);
        let linux = pair.linux.run_guest(host, &mut |progress| bar.show(&name, progress))?;
        bar.finish_run(&name, &linux);
        let exit = linux.measured.guest.as_ref().and_then(|guest| guest.exit);
        if exit.is_some_and(|code| code != 0) {
            let said = linux.measured.guest.as_ref().map_or("", |guest| guest.output.as_str());
            let error = GuestError::Load(format!("exit code {}; it said:\n{said}", exit.unwrap_or_default()));
            return Err(FlashRunError::Guest(error).into());
        }
        let ours = pair.ours.run(None, &mut |progress| bar.show(&pair.title, progress))?;
        bar.finish_run(&pair.title, &ours);
        Ok(pair.table(&linux, &ours))
    };
    let tables = std::thread::scope(|scope| {
        let threads: Vec<_> =
            pairs.iter().zip(booted).map(|(pair, booted)| scope.spawn(|| one(pair, booted))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a run does not panic")).collect::<Result<_, Failed>>()
    });
    tables.map_err(|error| {
        CliError::input(
            Path::new("--kernel"),
            error.to_string(),
            "run one of its experiments with `nandlab run` to see more",
        )
    })
}

/// Sets what an interruption says.
fn interrupted(spec: &Spec, bar: &Bar, out: Option<&Path>) {
    let in_no_grid = kept(spec).count();
    let kept = match out {
        None => "without --out no results are kept".to_owned(),
        Some(_) if in_no_grid == 0 => "the runs of a grid are not kept".to_owned(),
        Some(dir) => {
            let whose = if in_no_grid == spec.runs.len() { "their results" } else { "results of those in no grid" };
            format!("{whose} are in {}", dir.join(&spec.name).display())
        }
    };
    let (study, done, all) = (&spec.name, bar.finished(), spec.runs.len());
    interrupt::keeps(format!("{done} of {all} runs of {study} had finished; {kept}"));
}

/// Runs whose results are kept: those of grids are in the figures.
fn kept(spec: &Spec) -> impl Iterator<Item = &RunSpec> {
    spec.runs.iter().filter(|run| run.grid.is_none())
}

fn list(json: bool) -> Result<Outcome, CliError> {
    let mut rows = Vec::new();
    for source in study::ALL {
        let spec = Spec::parse(source).map_err(|error| failed(None, error))?;
        rows.push((&source.name, spec.question, spec.runs.len()));
    }
    if json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(name, question, runs)| json!({"study": name, "question": question, "runs": runs}))
            .collect();
        output::print_json("nandlab/study-list/1", &json!({ "studies": rows }))?;
    } else {
        let mut table = Table::new(["study", "runs", "question"]).text_last();
        rows.into_iter()
            .for_each(|(name, question, runs)| table.row(vec![name.to_string(), runs.to_string(), question]));
        output::print(&table.print(table::text_width()))?;
    }
    Ok(Outcome::Done)
}

/// A study, with its directory if it is the user's own.
type Picked = (Cow<'static, Source>, Option<PathBuf>);

fn pick(names: &[String]) -> Result<Vec<Picked>, CliError> {
    if names == ["all"] {
        return Ok(study::ALL.iter().map(|source| (Cow::Borrowed(source), None)).collect());
    }
    names.iter().map(|name| one(name)).collect()
}

/// Finds a study. A path has a separator or leads to a study.toml; anything else is a name.
fn one(name: &str) -> Result<Picked, CliError> {
    let dir = Path::new(name);
    match study::by_name(name) {
        Ok(source) => Ok((Cow::Borrowed(source), None)),
        Err(_) if name.contains(['/', '\\']) || dir.join(FILE).is_file() => {
            Ok((Cow::Owned(read(dir)?), Some(dir.to_owned())))
        }
        Err(error) => Err(failed(None, error)),
    }
}

/// Reads a study of the user's own. Without a published.json it has no published numbers.
/// Errors: there is no study.toml; a file that is not UTF-8 text.
fn read(dir: &Path) -> Result<Source, CliError> {
    let file = dir.join(FILE);
    let toml = std::fs::read_to_string(&file).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => CliError::input(
            dir,
            format!("found no {FILE} in it"),
            "name a directory as docs/format/study.md describes it",
        ),
        _ => CliError::read(&file, &error),
    })?;
    let published = match std::fs::read_to_string(dir.join(PUBLISHED)) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => "{}".to_owned(),
        Err(error) => return Err(CliError::read(&dir.join(PUBLISHED), &error)),
    };
    // Even `.` has a directory name.
    let whole = dir.canonicalize().map_err(|error| CliError::read(dir, &error))?;
    let name = whole.file_name().map_or("study".into(), |name| name.to_string_lossy().into_owned());
    Ok(Source { name: name.into(), toml: toml.into(), published: published.into() })
}

fn failed(dir: Option<&Path>, error: StudyError) -> CliError {
    let help = match (&error, dir) {
        (StudyError::Unknown { .. }, _) => {
            "`nandlab study list` shows them all; a directory is named with a /, as ./my-study"
        }
        (StudyError::Log { no_log, .. }, _) => {
            let file = dir.unwrap_or(Path::new("study"));
            return match no_log.is_the_machines {
                true => CliError::environment(file, error.to_string(), &no_log.help),
                false => CliError::input(file, error.to_string(), &no_log.help),
            };
        }
        (_, Some(_)) => {
            "mend the study; docs/format/study.md describes it, and `nandlab run --help-keys` lists the keys of its runs"
        }
        (_, None) => "this is a fault of nandlab: please report it with this message",
    };
    let file = dir.map_or("study".to_owned(), |dir| dir.join(FILE).display().to_string());
    CliError::Input { file, what: error.to_string(), help: help.to_owned() }
}

fn print(done: &Finished) -> String {
    let judgement = &done.judgement;
    let mut text = format!("\n== {} ==\n{}\n", judgement.study, judgement.question);
    if judgement.quick {
        text += "quick: the runs were cut short; only claims that do not depend on their length are judged\n";
    }
    for table in &judgement.tables {
        text += &pair(table, table::width());
    }
    for figure in &judgement.figures {
        text += &picture(figure, table::width());
    }
    for bars in &judgement.bars {
        text += &bar_table(bars, table::width());
    }
    text += &claims(&judgement.claims);
    text += &(judgement.counts().join("\n") + "\n");
    text + &without_logs(judgement)
}

/// What was not judged, and why; nothing if no log is missing.
fn without_logs(judgement: &Judgement) -> String {
    let [first, others @ ..] = &judgement.missing_logs[..] else { return String::new() };
    let claims = match judgement.count(Verdict::NotJudged) {
        1 => "1 claim is not judged".to_owned(),
        count => format!("{count} claims are not judged"),
    };
    if others.is_empty() {
        return format!("{claims}: {first}\n");
    }
    let runs: Vec<&str> = judgement.missing_logs.iter().map(|log| log.run.as_str()).collect();
    format!("{claims}: there is no log of {}; make each, as `{}`\n", runs.join(", "), first.command)
}

/// The claims as tables, one for each kind.
fn claims(claims: &[Claim]) -> String {
    let mut text = String::new();
    for kind in Kind::ALL {
        let mut claims = claims.iter().filter(|claim| claim.kind == kind).peekable();
        if claims.peek().is_none() {
            continue;
        }
        let mut table = Table::new(["claim", kind.name(), "ours", "expected", "verdict"]);
        for claim in claims {
            let verdict = match claim.verdict {
                Verdict::Hit if kind == Kind::SelfCheck => "holds",
                Verdict::Miss if kind == Kind::SelfCheck => "FAILS",
                Verdict::Hit => "hit",
                Verdict::Miss => "MISS",
                Verdict::Calibrated => "calibrated",
                Verdict::NotJudged => "not judged",
            };
            table.row(vec![
                claim.id.clone(),
                claim.expected.map_or("-".to_owned(), number),
                claim.ours.map_or("-".to_owned(), number),
                claim.relation.to_string(),
                verdict.to_owned(),
            ]);
            if let Some(reason) = &claim.reason {
                let what = if claim.verdict == Verdict::NotJudged { "not judged" } else { "why" };
                table.note(format!("{what}: {reason}"));
            }
        }
        text += &format!("\n{}", table.print(table::width()));
    }
    text
}

fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() >= 10.0 {
        return report::grouped(value as u64);
    }
    if value.abs() < 10.0 { format!("{value:.4}") } else { format!("{value:.2}") }
}

/// A figure as a table, with the greatest `y` first, and its marks below.
fn picture(figure: &Figure, width: usize) -> String {
    let unit = if figure.unit.is_empty() { String::new() } else { format!(", {}", figure.unit) };
    let mut table = Table::new(std::iter::once(String::new()).chain(figure.x.values.iter().map(f64::to_string)));
    for (y, cells) in figure.y.values.iter().zip(&figure.z).rev() {
        let cells = cells.iter().map(|cell| cell.map_or("-".to_owned(), four_digits));
        table.row(std::iter::once(y.to_string()).chain(cells).collect());
    }
    let mut text = format!("\n{}{unit}\ndown: {}; across: {}\n", figure.title, figure.y.label, figure.x.label);
    text += &table.print(width);
    for mark in &figure.marks {
        let z = mark.z.map_or(String::new(), |z| format!(": {}", four_digits(z)));
        text += &format!("{} (at {}, {}){z}\n", mark.label, mark.x, mark.y);
    }
    text
}

/// A bar chart as a table: a line per series, a column per group.
fn bar_table(bars: &BarChart, width: usize) -> String {
    let unit = if bars.unit.is_empty() { String::new() } else { format!(", {}", bars.unit) };
    let mut table = Table::new(std::iter::once(String::new()).chain(bars.groups.iter().cloned()));
    for (at, series) in bars.series.iter().enumerate() {
        let cells = bars.values.iter().map(|group| group[at].map_or("-".to_owned(), four_digits));
        table.row(std::iter::once(series.clone()).chain(cells).collect());
    }
    format!("\n{}{unit}\n{}", bars.title, table.print(width))
}

/// A published table and ours, side by side if the rows match.
fn pair(table: &TablePair, width: usize) -> String {
    let cell = |value: Option<&serde_json::Value>| match value {
        Some(serde_json::Value::String(text)) => text.clone(),
        Some(serde_json::Value::Number(value)) => value.to_string(),
        _ => "-".to_owned(),
    };
    let of = |rows: &[Vec<serde_json::Value>]| {
        let mut out = Table::new(table.columns.clone());
        rows.iter().for_each(|row| out.row((0..table.columns.len()).map(|at| cell(row.get(at))).collect()));
        out
    };
    let (published, ours) = (of(&table.published), of(&table.ours));
    let mut text = format!("\n{}\n", table.title);
    if table.published.is_empty() {
        return text + &ours.print(width);
    }
    // Side by side if there is room.
    let gap = "   |   ";
    let (left, right) = (published.print(usize::MAX), ours.print(usize::MAX));
    let widest = |text: &str| text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    let (of_left, of_right) = (widest(&left), widest(&right));
    if table.published.len() == table.ours.len() && of_left + gap.len() + of_right <= width {
        text += &format!("{:<of_left$}{gap}ours\n", "published");
        for (left, right) in left.lines().zip(right.lines()) {
            text += &format!("{left:<of_left$}{gap}{right}\n");
        }
        return text;
    }
    text + &format!("published\n{}\nours\n{}", published.print(width), ours.print(width))
}

#[cfg(test)]
mod tests {
    use runner::report::figure::{Axis as FigureAxis, Mark};

    use super::*;

    #[test]
    fn a_picture_is_a_table_with_its_heads_and_empty_cells() {
        let axis =
            |label: &str, values: &[f64]| FigureAxis { label: label.to_owned(), log: true, values: values.to_vec() };
        let figure = Figure {
            id: "sram".to_owned(),
            title: "Gain".to_owned(),
            unit: "%".to_owned(),
            x: axis("set, GiB", &[1.0, 16.0]),
            y: axis("cache, MiB", &[0.5, 2.0]),
            z: vec![vec![Some(63.712_34), None], vec![Some(-0.5), Some(12_345.6)]],
            levels: vec![10.0],
            marks: vec![Mark { x: 4.0, y: 1.26, z: Some(63.7), label: "published".to_owned() }],
        };
        let table =
            "\nGain, %\ndown: cache, MiB; across: set, GiB\n         1     16\n  2   -0.5  12346\n0.5  63.71      -\n";
        assert_eq!(picture(&figure, 80), format!("{table}published (at 4, 1.26): 63.7\n"));
    }

    #[test]
    fn a_bar_chart_is_a_table_with_a_line_per_series() {
        let names = |names: [&str; 2]| names.map(str::to_owned).to_vec();
        let bars = BarChart {
            title: "Rate".to_owned(),
            unit: "1/s".to_owned(),
            log: false,
            groups: names(["SS", "SL"]),
            series: names(["ext2", "nilfs2"]),
            values: vec![vec![Some(2125.25), Some(0.5)], vec![None, Some(12.0)]],
        };
        assert_eq!(bar_table(&bars, 80), "\nRate, 1/s\n          SS  SL\next2    2125   -\nnilfs2   0.5  12\n");
    }

    #[test]
    fn tables_beside_each_other_keep_their_headings_and_stand_below_each_other_if_they_are_too_wide() {
        let row = |values: [f64; 2]| vec!["16 PEBs".into(), values[0].into(), values[1].into()];
        let table = TablePair {
            title: "Wear".to_owned(),
            columns: ["device", "erasures of the first 64", "of the others"].map(str::to_owned).to_vec(),
            published: vec![row([1.5, 2.0])],
            ours: vec![row([1.25, 2.0])],
        };
        let heads = "device   erasures of the first 64  of the others";
        let wide = pair(&table, 120);
        assert!(wide.contains(&format!("{heads}   |   {heads}\n")), "{wide}");
        let narrow = pair(&table, 60);
        assert!(
            narrow.lines().all(|line| line.chars().count() <= 60) && narrow.matches(heads).count() == 2,
            "{narrow}"
        );
    }
}
