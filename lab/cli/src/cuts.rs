//! `nandlab cuts`: cuts power at every NAND operation of a workload in turn, and checks every promise.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cuts::{Case, Enumeration, Failure, Outcome as Found, Phases, Plan, Selection, Story};
use indicatif::{ProgressBar, ProgressStyle};
use runner::schema::word;
use serde::Serialize;
use sim::{Cause, Ns, Seed};

use crate::Outcome;
use crate::error::CliError;
use crate::given::Given;
use crate::mapped_file::MappedFile;
use crate::output::Overwrite;
use crate::parts::PartDirs;
use crate::{guest, output, run};

/// Most failures that are printed; `--json` has more.
const PRINTED: usize = 5;

/// Arguments of `nandlab cuts`.
#[derive(clap::Args)]
pub struct Args {
    /// The experiment, a TOML file; its table `[cuts]` configures the enumeration
    #[arg(required_unless_present = "replay")]
    file: Option<PathBuf>,
    /// Override a key of the file, as in `--set cuts.operations=200`; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The seed; overrides the file's
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    parts: PartDirs,
    /// Run only every Nth cut
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    every: u64,
    /// Run at least N cuts, evenly spread over all
    #[arg(long, value_name = "N", conflicts_with = "every", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Run N cuts, dense in the beginning and ever wider apart
    #[arg(long, value_name = "N", conflicts_with_all = ["every", "count"], value_parser = clap::value_parser!(u64).range(1..))]
    log: Option<u64>,
    /// Run N cuts drawn at random, with the seed of the experiment
    #[arg(long, value_name = "N", conflicts_with_all = ["every", "count", "log"], value_parser = clap::value_parser!(u64).range(1..))]
    random: Option<u64>,
    /// Cut the operation under way at this time of the workload, as 3ms or 1.5s; may be given several times.
    /// Of devices with a clock: drives and ubiblocks
    #[arg(long, value_name = "TIME", conflicts_with_all = ["every", "count", "log", "random"], value_parser = time)]
    time: Vec<Ns>,
    /// Run only cuts that interrupt an operation done for this cause, as scrub, wear_level or gc; --every, --count, --log and
    /// --random choose among them
    #[arg(long, value_name = "CAUSE", conflicts_with = "time", value_parser = cause)]
    cause: Option<Cause>,
    /// Run every cut (the default)
    #[arg(long, conflicts_with_all = ["every", "count", "log", "random", "time"])]
    all: bool,
    /// Run only this cut and print a log of it
    #[arg(long, value_name = "N", conflicts_with_all = ["every", "count", "log", "random", "time", "cause", "all"])]
    at: Option<u64>,
    /// Reduce the first failure to the shortest workload that still fails, and save it in this file for --replay
    #[arg(long, value_name = "CASE")]
    save: Option<PathBuf>,
    /// Run a saved case alone and print a log of it
    #[arg(long, value_name = "CASE", conflicts_with_all = ["file", "set", "seed", "every", "count", "log", "random", "time", "cause", "all", "at", "save"])]
    replay: Option<PathBuf>,
    /// With --at or --replay: keep what the cut left in this file: of raw flash a dump without OOB, of a drive a disk image
    #[arg(long, value_name = "FILE")]
    flash: Option<PathBuf>,
    /// Overwrite the files of --flash and --save if they exist; an input is never overwritten
    #[arg(long)]
    force: bool,
    /// Number of threads [default: one per processor]. The result does not depend on it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Print the result as one JSON document
    #[arg(long)]
    json: bool,
}

/// The document of `--json`: `docs/format/cuts-json.md`.
#[derive(Serialize)]
struct Document<'a> {
    cuts: u64,
    failed: u64,
    failures: &'a [Failure],
    lost: u64,
    older: u64,
    phases: &'a Phases,
    #[serde(skip_serializing_if = "Option::is_none")]
    story: Option<&'a [String]>,
}

/// Reads a time with its unit.
fn time(text: &str) -> Result<Ns, String> {
    let at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let ns = match unit {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return Err("a number and a unit, ns, us, ms or s".to_owned()),
    };
    let number: f64 = number.parse().map_err(|_| "a number and a unit, as 3ms".to_owned())?;
    if (0.0..1e9).contains(&number) { Ok(Ns((number * ns) as u64)) } else { Err("from 0 to below 1e9".to_owned()) }
}

/// A cause by its name in results.
fn cause(text: &str) -> Result<Cause, String> {
    let names = Cause::ALL.map(Cause::name);
    let found = Cause::ALL.into_iter().find(|cause| cause.name() == text);
    found.ok_or_else(|| format!("expected one of {}", names.join(", ")))
}

/// What is run: the text of an experiment, what overrides it, and the file that a message names.
struct Source {
    path: PathBuf,
    text: String,
    given: Given,
    case: Option<Case>,
}

impl Source {
    fn of(args: &Args) -> Result<Source, CliError> {
        let Some(path) = &args.replay else {
            let path = args.file.clone().unwrap_or_default();
            return Ok(Source { text: run::read(&path)?, given: Given::new(&args.set, args.seed)?, path, case: None });
        };
        let help = "give a file that --save wrote";
        let case =
            Case::parse(&run::read_text(path, help)?).map_err(|why| CliError::input(path, why.to_string(), help))?;
        let sets: Vec<String> = case.sets.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let given = Given::new(&sets, None)?;
        Ok(Source { path: path.clone(), text: case.experiment.clone(), given, case: Some(case) })
    }
}

/// Runs the command.
/// Errors: a file that cannot be read or is no experiment; a device on which the workload cannot run; no such cut.
pub fn run(args: Args) -> Result<Outcome, CliError> {
    if args.flash.is_some() && args.at.is_none() && args.replay.is_none() {
        let help = "give --at or --replay too";
        return Err(CliError::input(Path::new("--flash"), "many cuts are run, and it keeps what one left", help));
    }
    let source = Source::of(&args)?;
    let plan = load(&args, &source)?;
    let subject = plan.subject();
    let overwrite = Overwrite::new(args.force, [source.path.as_path()]);
    let (bytes, never_written) = plan.contents();
    let mut image = args.flash.as_deref().map(|path| MappedFile::create(path, bytes, &overwrite)).transpose()?;
    let began = cpu_time();
    let help = match &plan {
        Plan::Guest(_) => "run it without cuts to see more: nandlab run, nandlab guest shell",
        _ => "give it more or larger blocks",
    };
    let seed = plan.rules().seed;
    let whole = Enumeration::prepare(plan)
        .map_err(|why| CliError::input(&source.path, format!("{subject} does not run on this device: {why}"), help))?;
    let (enumeration, at) = match &source.case {
        None => (whole, args.at),
        Some(case) => {
            let help = "run the experiment in it again: nandlab cuts EXPERIMENT --save CASE";
            let shorter = whole.of_case(case).map_err(|why| CliError::input(&source.path, why.to_string(), help))?;
            (shorter.unwrap_or(whole), case.cut)
        }
    };
    let without_a_cut = source.case.is_some() && at.is_none();
    let (found, story) = match at {
        Some(at) => {
            let mut copy = image.as_mut().map(|image| image.filled(never_written));
            let keep = copy.as_mut().map(|copy| copy as runner::run::guest::Keep<'_>);
            let (story, failure) = enumeration.tell(at, keep).map_err(|why| {
                CliError::input(Path::new("--at"), why, "give the number that a failure named, with the same file")
            })?;
            let failures: Vec<_> = failure.into_iter().collect();
            (Found { cuts: 1, failed: failures.len() as u64, failures, ..Found::default() }, Some(story))
        }
        // It fails, or not, before any cut.
        None if without_a_cut => (enumeration.run(&[], 1, &|_| {}), None),
        None => (enumerate(&args, &enumeration, seed)?, None),
    };
    if let Some(image) = image {
        image.finish(&overwrite)?;
    }
    let spent = cpu_time().saturating_sub(began).as_secs_f64();
    let rate_per_cpu_s = found.cuts as f64 / spent.max(1e-6);
    if args.json {
        output::print_json(
            "nandlab/cuts/1",
            &Document {
                cuts: found.cuts,
                failed: found.failed,
                failures: &found.failures,
                lost: found.lost,
                older: found.older,
                phases: &found.phases,
                story: story.as_ref().map(Story::lines),
            },
        )?;
    } else {
        output::print(&summary(&args, &source, &enumeration, &found, story.as_ref(), rate_per_cpu_s))?;
    }
    if let (Some(path), Some(failure)) = (&args.save, found.failures.first()) {
        let case = enumeration.reduce(failure, &source.text, source.given.pairs());
        output::write(path, case.to_text().as_bytes(), &overwrite)?;
        if !args.json {
            let (kept, path) = (case.workload.len(), path.display());
            let operations = if kept == 1 { "1 operation".to_owned() } else { format!("{kept} operations") };
            output::print(&format!("saved, with {operations}: nandlab cuts --replay {path}\n"))?;
        }
    }
    Ok(if found.failed == 0 { Outcome::Done } else { Outcome::Failed })
}

fn load(args: &Args, source: &Source) -> Result<Plan, CliError> {
    let Source { path, text, given, .. } = source;
    let plan = Plan::resolve_with(text, given.pairs(), &*args.parts.library()?);
    let mut plan = plan.map_err(|error| given.refused(path, &error))?;
    if let Plan::Guest(plan) = &mut plan {
        guest::tools(&plan.section().fs, true, true)?;
        plan.boot(guest::kernel(plan.wanted())?, guest::program(plan.section())?);
    }
    Ok(plan)
}

fn enumerate(args: &Args, enumeration: &Enumeration, seed: Seed) -> Result<Found, CliError> {
    let selection = match (args.count, args.log, args.random) {
        (Some(count), ..) => Selection::Count(count),
        (_, Some(count), _) => Selection::Log(count),
        (.., Some(count)) => Selection::Random { count, seed },
        _ if !args.time.is_empty() => Selection::Times(args.time.clone()),
        _ => Selection::Every(args.every),
    };
    let list = match args.cause {
        Some(cause) => enumeration.list_of(&selection, cause).map_err(|why| {
            let help = "run it without --cause: the summary names the causes that there are";
            CliError::input(Path::new("--cause"), why, help)
        })?,
        None => enumeration.list(&selection).map_err(|why| {
            CliError::input(Path::new("--time"), why, "give times within the workload, of a drive or a ubiblock")
        })?,
    };
    let bar = if std::io::stderr().is_terminal() && !args.json {
        ProgressBar::new(list.len() as u64)
    } else {
        ProgressBar::hidden()
    };
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {human_pos} of {human_len} cuts, {per_sec}, {eta} left")
    {
        bar.set_style(style);
    }
    let jobs = args.jobs.map(usize::from);
    let jobs = jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let found = enumeration.run(&list, jobs, &|cuts| bar.inc(cuts));
    bar.finish_and_clear();
    Ok(found)
}

fn summary(
    args: &Args,
    source: &Source,
    enumeration: &Enumeration,
    found: &Found,
    story: Option<&Story>,
    rate: f64,
) -> String {
    let mut text = String::new();
    for line in story.map(Story::lines).unwrap_or_default() {
        text += &format!("{line}\n");
    }
    for failure in found.failures.iter().take(PRINTED) {
        text += &format!("cut {} broke a promise\n", failure.at);
        failure.history.iter().for_each(|line| text += &format!("  {line}\n"));
        failure.broken.iter().for_each(|line| text += &format!("  broken: {line}\n"));
        text += &format!("  checks: {}\n", failure.checks.iter().map(word).collect::<Vec<_>>().join(", "));
        if story.is_none() && source.case.is_none() {
            let path = source.path.display();
            text += &format!("  again: nandlab cuts {path}{} --at {}\n", overrides(args), failure.at);
        }
    }
    if found.failed > PRINTED as u64 {
        text += &format!("and {} more\n", found.failed - PRINTED as u64);
    }
    if story.is_none() {
        text += &phases(&found.phases);
    }
    let verdict =
        if found.failed == 0 { "every promise was kept".to_owned() } else { format!("{} failed", found.failed) };
    let nand_ops = enumeration.nand_ops();
    let rate = if rate < 10.0 { format!("{rate:.1}") } else { format!("{rate:.0}") };
    if found.lost + found.older > 0 {
        let Found { lost, older, .. } = found;
        text += &format!("the medium destroyed {lost} LEBs or sectors; of {older} an older version came back\n");
    }
    text + &format!("{} cuts in {nand_ops} NAND operations: {verdict}; {rate} cuts per CPU second\n", found.cuts)
}

/// Cuts by what they interrupted, a line each.
fn phases(phases: &Phases) -> String {
    let mut text = String::new();
    for phase in phases.iter().filter(|phase| !phase.operation.is_empty()) {
        let lost = if phase.lost > 0 { format!(", {} lost", phase.lost) } else { String::new() };
        text += &format!(
            "  {:<8} {:<11} {:>8} cuts, {} failed{lost}\n",
            phase.operation, phase.cause, phase.cuts, phase.failed
        );
    }
    if text.is_empty() { text } else { format!("cuts by what they interrupted, and why it was done:\n{text}") }
}

/// What the command line overrides in the file, to be repeated.
fn overrides(args: &Args) -> String {
    let sets = args.set.iter().map(|set| format!(" --set '{}'", set.replace('\'', r"'\''")));
    sets.chain(args.seed.map(|seed| format!(" --seed {seed}"))).collect()
}

/// Processor time used by this process, and by guests that have ended.
fn cpu_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let own = Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0));
    own + guests_time().unwrap_or_default()
}

/// Processor time of child processes that have ended, user and system: fields 16 and 17 of `/proc/self/stat`, in clock ticks.
fn guests_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program, field 2, is in parentheses and may hold spaces.
    let fields = stat.rsplit_once(") ")?.1.split(' ').skip(13).take(2);
    let ticks: u64 = fields.map(|field| field.parse().unwrap_or(0)).sum();
    Some(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}
