//! `nandlab trace info`: prints the format, the contents and the access pattern of a trace.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use runner::report::{self, grouped};
use runner::trace_report::{self, Trace};
use runner::trace_svg;
use serde_json::Value;
use sim::seam::BlockOp;
use workload::trace::pattern::{DevicePattern, Load, PAGE_BYTES, PatternOptions};
use workload::trace::{Format, Pattern, ReadOptions, device_numbers};

use super::input;
use crate::Outcome;
use crate::error::CliError;
use crate::output::{self, Overwrite};

/// Most devices that are printed; `--json` has all.
const PRINTED: usize = 16;
/// Devices with a picture on the page.
const PICTURES: usize = 4;

/// Log of a run's requests, in its directory.
pub const REQUESTS: &str = "requests.ntrace";

/// Arguments of `nandlab trace info`.
#[derive(clap::Args)]
pub struct Args {
    /// The trace, plain or in gzip; - for standard input; or the directory of a guest's run, whose requests.ntrace is read
    file: PathBuf,
    /// Format of the trace: msr, systor, tencent, alibaba, spc, disksim, disksim-ms, blkparse, blktrace, iolog2, iolog3
    /// or ntrace [default: detected]
    #[arg(long, value_parser = input::format_named)]
    format: Option<Format>,
    /// Number that means a read [default: the format's own; tencent: 0, disksim: 1]
    #[arg(long, value_name = "0|1", value_parser = clap::value_parser!(u8).range(0..=1))]
    read_opcode: Option<u8>,
    /// Measure only this device, as the command names it
    #[arg(long, value_name = "N|MAJOR,MINOR", value_parser = input::device)]
    device: Option<u32>,
    /// Print the measures as one JSON document
    #[arg(long)]
    json: bool,
    /// Write a report page with addresses over time, sizes and sequentiality
    #[arg(long, value_name = "OUT.html")]
    html: Option<PathBuf>,
    /// Write pictures of offset over time, reads and writes apart, as one SVG
    #[arg(long, value_name = "OUT.svg")]
    svg: Option<PathBuf>,
    /// Overwrite the page and the SVG if they exist
    #[arg(long)]
    force: bool,
}

/// Runs the command.
/// Errors: a trace that cannot be read; a page that cannot be written.
pub fn run(mut args: Args) -> Result<Outcome, CliError> {
    args.file = recorded(args.file)?;
    let overwrite = Overwrite::new(args.force, [&*args.file]);
    args.html.iter().chain(&args.svg).try_for_each(|made| overwrite.permit(made))?;
    let options = ReadOptions { read_opcode: args.read_opcode };
    let mut opened = input::open(&args.file, args.format, options)?;
    let format = opened.reader.format();
    let pictures = if args.html.is_some() || args.svg.is_some() { PICTURES } else { 0 };
    let mut pattern = Pattern::new(PatternOptions { pictures, ..PatternOptions::default() });
    loop {
        let next = opened.reader.next_record();
        match next.map_err(|error| input::failed(&args.file, &error, Some(format)))? {
            Some(record) if args.device.is_none_or(|device| device == record.device) => pattern.add(&record),
            Some(_) => {}
            None => break,
        }
    }
    opened.bar.finish_and_clear();
    if let (Some(device), 0, 1..) = (args.device, pattern.devices().len(), opened.reader.notes().records) {
        let what = format!("found no record of device {}, expected some", input::device_name(device));
        return Err(CliError::input(&args.file, what, "leave out --device to see which devices there are"));
    }
    let name = args.file.display().to_string();
    let trace = Trace { name: &name, format, why: &opened.why, notes: opened.reader.notes(), pattern: &pattern };
    if let Some(page) = &args.html {
        output::write(page, report::page(&trace_report::document(&trace)).as_bytes(), &overwrite)?;
    }
    if let Some(drawing) = &args.svg {
        output::write(drawing, trace_svg::svg(&trace).as_bytes(), &overwrite)?;
    }
    if args.json {
        output::print_json("nandlab/trace-info/1", &trace_report::measures(&trace))?;
    } else {
        output::print(&summary(&trace, args.html.as_deref()))?;
    }
    Ok(Outcome::Done)
}

/// The section of a page with the pictures of a run's requests; `None` if its directory has no log of them.
/// Errors: the log cannot be read.
pub fn pictures(dir: &Path) -> Result<Option<Value>, CliError> {
    let file = dir.join(REQUESTS);
    if !file.is_file() {
        return Ok(None);
    }
    let mut opened = input::open(&file, None, ReadOptions::default())?;
    let mut pattern = Pattern::new(PatternOptions { pictures: PICTURES, ..PatternOptions::default() });
    let failed = |error| input::failed(&file, &error, Some(Format::Ntrace));
    while let Some(record) = opened.reader.next_record().map_err(failed)? {
        pattern.add(&record);
    }
    opened.bar.finish_and_clear();
    let (why, notes) = (&opened.why, opened.reader.notes());
    let trace = Trace { name: REQUESTS, format: Format::Ntrace, why, notes, pattern: &pattern };
    let mut document = trace_report::document(&trace);
    Ok(Some(document["trace"].take()))
}

/// The trace that a path means: of a run's directory the log of its requests.
/// Errors: the directory has none.
fn recorded(path: PathBuf) -> Result<PathBuf, CliError> {
    if !path.is_dir() {
        return Ok(path);
    }
    let log = path.join(REQUESTS);
    if log.is_file() {
        return Ok(log);
    }
    let what = format!("found a directory without {REQUESTS}");
    let help = "a run with a guest on a block device writes it with --out; another log: `nandlab run` with --trace FILE.ntrace";
    Err(CliError::input(&path, what, help))
}

fn summary(trace: &Trace<'_>, page: Option<&Path>) -> String {
    let mut text = String::new();
    let all = trace.pattern.all();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<12}{value}");
    };
    line("format", format!("{} ({})", trace.format.name(), trace.why));
    line("operations", trace.format.polarity().to_owned());
    line("records", grouped(trace.notes.records));
    line("duration", format!("{:.6} s", all.duration().as_s()));
    for note in trace_report::sentences(trace) {
        line("note", note);
    }
    text.push('\n');
    let devices = trace.pattern.devices();
    if devices.len() != 1 {
        block(&mut text, "all devices", all, None);
    }
    for (number, device) in trace.pattern.devices().take(PRINTED) {
        let name = match device_numbers(number) {
            Some(numbers) => format!("device {numbers} (trace.device = {number})"),
            None => format!("device {number}"),
        };
        block(&mut text, &name, &device.load, Some(device));
    }
    if devices.len() > PRINTED {
        let _ = writeln!(text, "and {} devices more: see --json, or --device N", devices.len() - PRINTED);
    }
    if let Some(page) = page {
        let _ = writeln!(text, "open {}", page.display());
    }
    text
}

fn block(text: &mut String, name: &str, load: &Load, device: Option<&DevicePattern>) {
    let _ = writeln!(text, "{name}");
    for op in BlockOp::ALL {
        let of = load.op(op);
        if of.requests == 0 {
            continue;
        }
        let _ = write!(text, "  {:<6}{:>14} requests", op.name(), grouped(of.requests));
        if let (Some(mean), true) = (of.mean_bytes(), of.bytes > 0) {
            let _ = write!(text, "{:>20} bytes, {:.1} KiB on average", grouped(of.bytes), mean / 1024.0);
        }
        if of.fua > 0 {
            let _ = write!(text, ", {} with force unit access", grouped(of.fua));
        }
        if let (Some(mean), Some(max)) = (of.latencies.mean(), of.latencies.max()) {
            let _ = write!(text, "; latency {:.1} us on average, {:.1} at most", mean / 1e3, max as f64 / 1e3);
        }
        text.push('\n');
    }
    if let Some(share) = load.read_share() {
        let _ = writeln!(text, "  reads are {:.1} % of reads and writes", 100.0 * share);
    }
    if let (Some(mean), Some(max)) = (load.gaps.mean(), load.gaps.max()) {
        let _ = writeln!(text, "  between requests {:.1} us on average, {:.1} at most", mean / 1e3, max as f64 / 1e3);
    }
    if let Some(mean) = load.depth.mean() {
        let _ = writeln!(text, "  queue depth {mean:.2} on average, {} at most", load.depth.max());
    }
    let Some(device) = device else { return };
    let (read, written, either) = device.segments.footprint_pages();
    let mib = |pages: u64| pages as f64 * PAGE_BYTES as f64 / (1 << 20) as f64;
    let _ = writeln!(
        text,
        "  footprint {:.1} MiB read, {:.1} MiB written, {:.1} MiB either",
        mib(read),
        mib(written),
        mib(either)
    );
    if let (Some(sequential), Some(continued)) = (device.segments.seg_seq(), device.segments.seg_cont()) {
        let _ = writeln!(
            text,
            "  written bytes: SegSeq {:.1} % in segments of 1 MiB written from end to end, SegCont {:.1} % right after the last",
            100.0 * sequential,
            100.0 * continued
        );
    }
}
