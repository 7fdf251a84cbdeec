//! `nandlab cuts`: cuts power at every NAND operation of a workload in turn, and checks every promise.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use runner::cuts::{Enumeration, Failure, Outcome as Found, Plan, Selection, Story};
use serde::Serialize;

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
    file: PathBuf,
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
    /// Run every cut (the default)
    #[arg(long, conflicts_with_all = ["every", "count"])]
    all: bool,
    /// Run only this cut and print a log of it
    #[arg(long, value_name = "N", conflicts_with_all = ["every", "count", "all"])]
    at: Option<u64>,
    /// With --at: keep what the cut left in this file: of raw flash a dump without OOB, of a drive a disk image
    #[arg(long, value_name = "FILE", requires = "at")]
    flash: Option<PathBuf>,
    /// Overwrite the file of --flash if it exists; the experiment is never overwritten
    #[arg(long, requires = "flash")]
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
    #[serde(skip_serializing_if = "Option::is_none")]
    story: Option<&'a [String]>,
}

/// Runs the command.
/// Errors: a file that cannot be read or is no experiment; a device on which the workload cannot run; no such cut.
pub fn run(args: Args) -> Result<Outcome, CliError> {
    let plan = load(&args)?;
    let subject = plan.subject();
    let overwrite = Overwrite::new(args.force, [args.file.as_path()]);
    let (bytes, never_written) = plan.contents();
    let mut image = args.flash.as_deref().map(|path| MappedFile::create(path, bytes, &overwrite)).transpose()?;
    let began = cpu_time();
    let help = match &plan {
        Plan::Guest(_) => "run it without cuts to see more: nandlab run, nandlab guest shell",
        _ => "give it more or larger blocks",
    };
    let enumeration = Enumeration::prepare(plan)
        .map_err(|why| CliError::input(&args.file, format!("{subject} does not run on this device: {why}"), help))?;
    let (found, story) = match args.at {
        Some(at) => {
            let mut copy = image.as_mut().map(|image| image.filled(never_written));
            let keep = copy.as_mut().map(|copy| copy as runner::run::guest::Keep<'_>);
            let (story, failure) = enumeration.tell(at, keep).map_err(|why| {
                CliError::input(Path::new("--at"), why, "give the number that a failure named, with the same file")
            })?;
            let failures: Vec<_> = failure.into_iter().collect();
            (Found { cuts: 1, failed: failures.len() as u64, failures }, Some(story))
        }
        None => (enumerate(&args, &enumeration), None),
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
                story: story.as_ref().map(Story::lines),
            },
        )?;
    } else {
        output::print(&summary(&args, &enumeration, &found, story.as_ref(), rate_per_cpu_s))?;
    }
    Ok(if found.failed == 0 { Outcome::Done } else { Outcome::Failed })
}

fn load(args: &Args) -> Result<Plan, CliError> {
    let text = run::read(&args.file)?;
    let given = Given::new(&args.set, args.seed)?;
    let plan = Plan::resolve_with(&text, given.pairs(), &*args.parts.library()?);
    let mut plan = plan.map_err(|error| given.refused(&args.file, &error))?;
    if let Plan::Guest(plan) = &mut plan {
        guest::tools(&plan.section().fs, true, true)?;
        plan.boot(guest::kernel(plan.wanted())?, guest::program(plan.section())?);
    }
    Ok(plan)
}

fn enumerate(args: &Args, enumeration: &Enumeration) -> Found {
    let selection = args.count.map_or(Selection { every: args.every }, |count| enumeration.spread(count));
    let bar = if std::io::stderr().is_terminal() && !args.json {
        ProgressBar::new(enumeration.selected(selection))
    } else {
        ProgressBar::hidden()
    };
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {human_pos} of {human_len} cuts, {per_sec}, {eta} left")
    {
        bar.set_style(style);
    }
    let jobs = args.jobs.map(usize::from);
    let jobs = jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let found = enumeration.run(selection, jobs, &|cuts| bar.inc(cuts));
    bar.finish_and_clear();
    found
}

fn summary(args: &Args, enumeration: &Enumeration, found: &Found, story: Option<&Story>, rate: f64) -> String {
    let mut text = String::new();
    for line in story.map(Story::lines).unwrap_or_default() {
        text += &format!("{line}\n");
    }
    for failure in found.failures.iter().take(PRINTED) {
        text += &format!("cut {} broke a promise\n", failure.at);
        failure.history.iter().for_each(|line| text += &format!("  {line}\n"));
        failure.broken.iter().for_each(|line| text += &format!("  broken: {line}\n"));
        if story.is_none() {
            text += &format!("  again: nandlab cuts {}{} --at {}\n", args.file.display(), overrides(args), failure.at);
        }
    }
    if found.failed > PRINTED as u64 {
        text += &format!("and {} more\n", found.failed - PRINTED as u64);
    }
    let verdict =
        if found.failed == 0 { "every promise was kept".to_owned() } else { format!("{} failed", found.failed) };
    let nand_ops = enumeration.nand_ops();
    let rate = if rate < 10.0 { format!("{rate:.1}") } else { format!("{rate:.0}") };
    text + &format!("{} cuts in {nand_ops} NAND operations: {verdict}; {rate} cuts per CPU second\n", found.cuts)
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
