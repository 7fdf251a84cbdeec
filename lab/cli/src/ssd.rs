//! Runs on a solid-state drive, for `nandlab run` and `nandlab trace replay`.

use std::path::{Path, PathBuf};

use runner::report::grouped;
use runner::ssd::outcome::{Status, WriteAmplification};
use runner::ssd::phases::PhaseFigures;
use runner::ssd::report::{bytes, span};
use runner::ssd::{self, SsdExperiment, SsdOutcome, SsdRunError};
use workload::replay::Arrival;
use workload::trace::{Format, ReadOptions};

use crate::error::CliError;
use crate::mapped_file::MappedFile;
use crate::progress::Bars;
use crate::trace::input;
use crate::{Outcome, output, run, store};

/// What is to be run, and where its results go.
pub struct Request<'a> {
    /// The experiment's file.
    pub file: &'a Path,
    /// Its text.
    pub text: &'a str,
    /// Keys over it.
    pub pairs: Vec<(String, String)>,
    /// Format of the recording, if it is known.
    pub format: Option<Format>,
    /// Which of two numbers means a read in it.
    pub read_opcode: Option<u8>,
    /// Directory for results.
    pub out: Option<&'a Path>,
    /// File for the flash's contents.
    pub flash: Option<&'a Path>,
    /// Whether that is overwritten.
    pub force: bool,
    /// Whether the result is printed as JSON.
    pub json: bool,
}

/// A text as a TOML string, for a pair.
pub fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("a string is JSON")
}

/// The pair that puts a job file in the place of the experiment's load.
/// Errors: the file cannot be read.
pub fn job_file(path: &Path) -> Result<(String, String), CliError> {
    let text = std::fs::read_to_string(path).map_err(|error| CliError::read(path, &error))?;
    Ok(("workload.fio".to_owned(), quoted(&text)))
}

/// Runs.
/// Errors: an experiment or a load that cannot be used, results that cannot be written. A drive that takes no more writes is
/// a failed run.
pub fn run(request: &Request<'_>) -> Result<Outcome, CliError> {
    let beside = request.file.parent().unwrap_or(Path::new(""));
    let mut pairs = request.pairs.clone();
    if let Some(path) = ssd::experiment::job_path(request.text, &pairs) {
        pairs.push(job_file(&beside.join(path))?);
    }
    let experiment =
        SsdExperiment::resolve(request.text, &pairs).map_err(|error| run::refused(request.file, &error))?;
    if let Some(dir) = request.out {
        store::prepare(dir)?;
    }
    let from_command_line = request.pairs.iter().any(|(key, _)| key == "trace.file");
    let trace = experiment
        .trace
        .as_ref()
        .map(|trace| if from_command_line { PathBuf::from(&trace.file) } else { beside.join(&trace.file) });
    let found = match on_store(&experiment, trace.as_deref(), request) {
        Ok(found) => found,
        Err(Stopped::Cli(error)) => return Err(error),
        Err(Stopped::Run(error)) if error.is_the_drives() => {
            eprintln!("failed: {}: {error}", request.file.display());
            return Ok(Outcome::Failed);
        }
        Err(Stopped::Run(error)) => {
            return Err(CliError::input(request.file, error.to_string(), help(&error)));
        }
    };
    if let Some(dir) = request.out {
        store::write_ssd_run(dir, &found)?;
    }
    if request.json {
        output::print_json(&found)?;
    } else {
        output::print(&summary(&found, request.out))?;
    }
    Ok(match (&found.status, &found.end_of_life) {
        (Status::Done, _) => Outcome::Done,
        (Status::WornOut, end) => {
            let why = end.as_ref().map_or("", |end| end.why.as_str());
            eprintln!("failed: the drive takes no more writes: {why}");
            Outcome::Failed
        }
    })
}

/// Why there is no result.
enum Stopped {
    Cli(CliError),
    Run(SsdRunError),
}

impl From<CliError> for Stopped {
    fn from(error: CliError) -> Stopped {
        Stopped::Cli(error)
    }
}

impl From<SsdRunError> for Stopped {
    fn from(error: SsdRunError) -> Stopped {
        Stopped::Run(error)
    }
}

fn help(error: &SsdRunError) -> &'static str {
    match error {
        SsdRunError::Load(_) => {
            "make the load fit the drive: see workload.offset_bytes, workload.size_bytes, or the job file"
        }
        SsdRunError::Recording(_) => "replay it in another mode: --mode open or closed",
        SsdRunError::Device { .. } => "give the drive more capacity, or wrap the trace's addresses with trace.wrap",
        _ => "change the experiment so that it can run",
    }
}

fn on_store(experiment: &SsdExperiment, trace: Option<&Path>, request: &Request<'_>) -> Result<SsdOutcome, Stopped> {
    let mut opened = match trace {
        None => None,
        Some(path) => {
            let options = ReadOptions { read_opcode: request.read_opcode };
            Some((path, input::open(path, request.format, options)?))
        }
    };
    let mut failed = None;
    let wanted = experiment.trace.as_ref().and_then(|trace| trace.device);
    // The device whose records are replayed.
    let mut device = wanted;
    let mut arrivals = opened.as_mut().map(|(path, opened)| {
        let (failed, device) = (&mut failed, &mut device);
        let mut seen = false;
        std::iter::from_fn(move || {
            loop {
                match opened.reader.next_record() {
                    Ok(None) => {
                        if let (Some(wanted), false) = (wanted, seen) {
                            *failed = Some(no_device(path, wanted));
                        }
                        return None;
                    }
                    Ok(Some(record)) => {
                        let replayed = *device.get_or_insert(record.device);
                        if replayed != record.device {
                            if wanted.is_none() {
                                *failed = Some(several_devices(path, replayed, record.device));
                                return None;
                            }
                            continue;
                        }
                        seen = true;
                        if let Some(request) = record.request() {
                            return Some(Arrival { at: record.at, request, latency: record.latency });
                        }
                    }
                    Err(error) => {
                        *failed = Some(input::failed(path, &error, Some(opened.reader.format())));
                        return None;
                    }
                }
            }
        })
    });
    let arrivals = arrivals.as_mut().map(|arrivals| arrivals as &mut dyn Iterator<Item = Arrival>);
    // The recording shows its own progress.
    let bars = Bars::new(!request.json && trace.is_none());
    let bar = bars.add(&experiment.title);
    let mut watch = |progress| bar.show_requests(progress);
    let found = match request.flash {
        None => ssd::run(experiment, arrivals, &mut watch)?,
        Some(path) => {
            let geometry = ssd::compose::array_config(experiment).geometry;
            let file = MappedFile::create(path, geometry.bytes(), request.force)?;
            let store = nand::Mapped::erased(geometry, file, false).map_err(|error| {
                CliError::input(path, error.to_string(), "this is a fault of nandlab: please report it")
            })?;
            let (found, store) = ssd::run_on(experiment, store, arrivals, &mut watch)?;
            store.into_buffer().finish(request.force)?;
            found
        }
    };
    bar.finish();
    match failed {
        Some(error) => Err(error.into()),
        None => Ok(found),
    }
}

fn no_device(path: &Path, device: u32) -> CliError {
    let what = format!("found no record of device {device}, expected some");
    CliError::input(path, what, "`nandlab trace info` tells which devices there are")
}

fn several_devices(path: &Path, one: u32, other: u32) -> CliError {
    let what = format!("found records of devices {one} and {other}, expected those of one drive");
    let help = format!("choose a device, as --device {one} (trace.device); `nandlab trace info` tells which there are");
    CliError::input(path, what, help)
}

fn summary(found: &SsdOutcome, out: Option<&Path>) -> String {
    let mut text = format!(
        "{}: {} on {} of {}; {} requests in {} (ended by {})\n",
        found.experiment.title,
        found.experiment.ssd.preset,
        bytes(found.logical_bytes),
        bytes(found.raw_bytes),
        grouped(found.requests),
        span(found.virtual_ns as f64),
        found.stopped_by,
    );
    let before = &found.before;
    if before.pages > 0 {
        text += &format!(
            "before the run: {} pages written, {} programmed",
            grouped(before.host_pages),
            grouped(before.pages)
        );
        if let Some(waf) = before.write_amplification {
            let state = if before.settled { "steady" } else { "not yet steady" };
            text += &format!("; {state} after {} windows at a write amplification of {waf:.3}", before.windows);
        }
        text.push('\n');
    }
    if let Some(end) = &found.end_of_life {
        text += &format!(
            "the drive wore out after {} and {} written: {}\n",
            span(end.at_ns as f64),
            bytes(end.host_bytes),
            end.why
        );
    }
    text += &operations(found);
    text += &phases(&found.phases);
    text += &amplification(&found.write_amplification);
    let wear = &found.wear;
    text += &format!(
        "\nerasures {} over {} blocks: least {}, mean {:.2}, median {}, 99th percentile {}, most {}\n",
        grouped(wear.erases),
        grouped(wear.blocks),
        wear.min,
        wear.mean,
        wear.p50,
        wear.p99,
        wear.max
    );
    let mean = |shares: &[f64]| 100.0 * shares.iter().sum::<f64>() / shares.len().max(1) as f64;
    text += &format!(
        "at work on average: dies {:.1} %, channels {:.1} %\n",
        mean(&found.utilisation.dies),
        mean(&found.utilisation.channels)
    );
    if let Some(share) = found.pattern.as_ref().and_then(|pattern| pattern.segmented_sequentiality) {
        text += &format!("segmented sequentiality of the writes {:.2} %\n", 100.0 * share);
    }
    text += &tree(&found.sysfs);
    for remark in &found.remarks {
        text += &format!("note: {remark}\n");
    }
    text += &format!("fingerprint {}\n", found.fingerprint);
    if let Some(dir) = out {
        text += &format!("results in {}; open {}\n", dir.display(), dir.join("report.html").display());
    }
    text
}

/// What the host shows in sysfs, as a tree: the folders of a path once.
fn tree(entries: &[(String, String)]) -> String {
    let mut text = String::new();
    let mut above: Vec<&str> = Vec::new();
    for (path, value) in entries {
        let mut parts: Vec<&str> = path.split('/').collect();
        let name = parts.pop().unwrap_or_default();
        let shared = parts.iter().zip(&above).take_while(|(a, b)| a == b).count();
        for (depth, folder) in parts.iter().enumerate().skip(shared) {
            text += &format!("{}{folder}/\n", "  ".repeat(depth));
        }
        let indent = "  ".repeat(parts.len());
        text += &format!("{indent}{name:<width$} {value}\n", width = 36usize.saturating_sub(indent.len()));
        above = parts;
    }
    if text.is_empty() { text } else { format!("\nsysfs, as Linux names it\n{text}") }
}

fn operations(found: &SsdOutcome) -> String {
    let mut text = "\n".to_owned();
    text += &format!("{:<7}{:>13}{:>11}{:>11}{:>11}", "", "requests/s", "MB/s", "KiB each", "mean");
    let percentiles = ["50 %", "90 %", "99 %", "99.9 %", "99.99 %", "99.999 %", "most"];
    for name in percentiles {
        text += &format!("{name:>11}");
    }
    text.push('\n');
    for op in &found.ops {
        let rate = grouped(op.iops.round() as u64);
        let kib = op.mean_bytes / 1024.0;
        text += &format!("{:<7}{rate:>13}{:>11.1}{kib:>11.1}{:>11}", op.op, op.mb_s, span(op.mean_ns));
        for ns in [op.p50_ns, op.p90_ns, op.p99_ns, op.p999_ns, op.p9999_ns, op.p99999_ns, op.max_ns] {
            text += &format!("{:>11}", span(ns as f64));
        }
        if op.errors > 0 {
            text += &format!("   {} failed", grouped(op.errors));
        }
        text.push('\n');
    }
    for op in &found.ops {
        let parts: Vec<_> = op
            .time
            .iter()
            .map(|(head, ns)| format!("{head} {} ({:.1} %)", span(*ns), 100.0 * ns / op.mean_ns.max(1.0)))
            .collect();
        if !parts.is_empty() {
            text += &format!("where a {} was: {}\n", op.op, parts.join(", "));
        }
    }
    text
}

fn phases(found: &[PhaseFigures]) -> String {
    if found.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{:<14}{:>12}{:>13}{:>13}{:>11}", "phase", "seconds", "requests", "requests/s", "MB/s");
    let of_apps = found.iter().any(|phase| phase.reads.is_some());
    if of_apps {
        text += &format!("{:>13}{:>13}{:>14}", "reads", "cache hits", "mean launch");
    }
    text.push('\n');
    for phase in found {
        let (requests, rate) = (grouped(phase.requests), grouped(phase.iops().round() as u64));
        text += &format!("{:<14}{:>12.3}{requests:>13}{rate:>13}{:>11.2}", phase.name, phase.seconds(), phase.mb_s);
        if let (Some(reads), Some(hits)) = (phase.reads, phase.cache_hits) {
            let launches = &phase.launches_ns;
            let mean = launches.iter().sum::<u64>() as f64 / launches.len().max(1) as f64;
            text += &format!("{:>13}{:>13}{:>14}", grouped(reads), grouped(hits), span(mean));
        }
        text.push('\n');
    }
    text
}

fn amplification(found: &WriteAmplification) -> String {
    let Some(total) = found.total else { return String::new() };
    let mut text = format!("\nwrite amplification {total:.3}: {} of the host\n", bytes(found.host_bytes));
    for cause in &found.by_cause {
        text += &format!("  {:<12}{:>12} {:>9.3}\n", cause.cause, bytes(cause.bytes), cause.per_host_byte);
    }
    text
}
