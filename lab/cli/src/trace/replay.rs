//! `nandlab trace replay`: replays a trace on a simulated drive.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use indicatif::ProgressBar;
use workload::replay::Arrival;
use workload::trace::{Format, ReadOptions, TraceRecord};

use super::input::{self, Opened};
use crate::Outcome;
use crate::error::CliError;
use crate::given::Given;
use crate::guest::logs::Paths;
use crate::parts::PartDirs;
use crate::run;
use crate::watch::Flag;

/// When requests are issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// At their times in the trace, divided by the speed
    Open,
    /// As soon as fewer than --depth requests are outstanding
    Closed,
    /// When the requests that had completed before them in the trace have completed here, plus their think time
    Dependency,
}

/// Arguments of `nandlab trace replay`.
#[derive(clap::Args)]
pub struct Args {
    /// The trace, plain or in gzip; - for standard input
    file: PathBuf,
    /// An experiment on a drive; the trace replaces its workload
    #[arg(long, value_name = "EXPERIMENT.toml")]
    on: PathBuf,
    /// When requests are issued [default: the experiment's, else open]
    #[arg(long, value_enum)]
    mode: Option<Mode>,
    /// Speed of time relative to the trace; 2 halves every interval [default: the experiment's, else 1]
    #[arg(long, value_name = "FACTOR")]
    speed: Option<f64>,
    /// Requests outstanding with --mode closed [default: the experiment's, else 32]
    #[arg(long, value_name = "N")]
    depth: Option<u32>,
    /// Wrap addresses beyond the drive around to its start [default: refuse them]
    #[arg(long)]
    wrap: bool,
    /// Replay only this device, as `nandlab trace info` names it; required if the trace has several
    #[arg(long, value_name = "N|MAJOR,MINOR", value_parser = input::device)]
    device: Option<u32>,
    /// Format of the trace, by the names of `nandlab trace info --format` [default: detected]
    #[arg(long, value_parser = input::format_named)]
    format: Option<Format>,
    /// Number that means a read [default: the format's own; tencent: 0, disksim: 1]
    #[arg(long, value_name = "0|1", value_parser = clap::value_parser!(u8).range(0..=1))]
    read_opcode: Option<u8>,
    /// Override a key of the experiment, as in `--set ssd.ways=2`; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The seed; overrides the experiment's
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    parts: PartDirs,
    #[command(flatten)]
    watch: Flag,
    /// Directory for the results [default: none are written]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Draw where the latency of the requests and the time of dies and buses went as a flame graph in this file, or, if its
    /// name ends in .folded, write the stacks as text for other programs
    #[arg(long, value_name = "FILE.svg")]
    flame: Option<PathBuf>,
    /// Overwrite the results of --out, and the file of --flame, that exist
    #[arg(long)]
    force: bool,
    /// Print the result as one JSON document
    #[arg(long)]
    json: bool,
}

/// Runs the command.
/// Errors: a trace or an experiment that cannot be used; results that cannot be written.
pub fn run(args: Args) -> Result<Outcome, CliError> {
    let mut given = Given::new(&args.set, args.seed)?;
    given.push("trace.file", run::quoted(&args.file.to_string_lossy()), args.file.display().to_string());
    if let Some(mode) = args.mode {
        let name = mode.to_possible_value().expect("no mode is hidden");
        given.push("trace.mode", run::quoted(name.get_name()), format!("--mode {}", name.get_name()));
    }
    if let Some(speed) = args.speed {
        given.push("trace.speed", format!("{speed:?}"), format!("--speed {speed}"));
    }
    if let Some(depth) = args.depth {
        given.push("trace.depth", depth.to_string(), format!("--depth {depth}"));
    }
    if let Some(device) = args.device {
        given.push("trace.device", device.to_string(), format!("--device {}", input::device_name(device)));
    }
    if args.wrap {
        given.push("trace.wrap", "true".to_owned(), "--wrap".to_owned());
    }
    run::execute(&run::Request {
        file: &args.on,
        given,
        inputs: args.parts.inputs(),
        library: &*args.parts.library()?,
        format: args.format,
        read_opcode: args.read_opcode,
        out: args.out.as_deref(),
        flash: None,
        disk: None,
        from: None,
        logs: Paths::default(),
        flame: args.flame.as_deref(),
        force: args.force,
        json: args.json,
        serves: false,
        watching: args.watch.start()?.as_ref(),
    })
}

/// The records of one device of a trace, in order.
pub struct Replay<'a> {
    path: &'a Path,
    opened: Opened,
    /// The device that the user chose; `None` if the trace has only one.
    wanted: Option<u32>,
    /// The device of the records replayed so far.
    device: Option<u32>,
    seen: bool,
    failed: Option<CliError>,
}

impl<'a> Replay<'a> {
    /// Errors: a file that cannot be read or is no trace.
    pub fn open(
        path: &'a Path,
        device: Option<u32>,
        format: Option<Format>,
        read_opcode: Option<u8>,
    ) -> Result<Replay<'a>, CliError> {
        let opened = input::open(path, format, ReadOptions { read_opcode })?;
        input::show_message(&opened.bar);
        Ok(Replay { path, opened, wanted: device, device, seen: false, failed: None })
    }

    /// Its progress bar.
    pub fn bar(&self) -> ProgressBar {
        self.opened.bar.clone()
    }

    /// The error that ended the trace early, if any.
    pub fn into_error(self) -> Option<CliError> {
        self.opened.bar.finish_and_clear();
        self.failed
    }

    fn record(&mut self) -> Result<Option<TraceRecord>, CliError> {
        loop {
            let format = self.opened.reader.format();
            let record = self.opened.reader.next_record();
            let Some(record) = record.map_err(|error| input::failed(self.path, &error, Some(format)))? else {
                return match self.wanted {
                    Some(wanted) if !self.seen => Err(no_device(self.path, wanted)),
                    _ => Ok(None),
                };
            };
            let replayed = *self.device.get_or_insert(record.device);
            if replayed == record.device {
                self.seen = true;
                return Ok(Some(record));
            }
            if self.wanted.is_none() {
                return Err(several_devices(self.path, replayed, record.device));
            }
        }
    }
}

impl Iterator for Replay<'_> {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        loop {
            match self.record() {
                Ok(record) => {
                    let record = record?;
                    if let Some(request) = record.request() {
                        return Some(Arrival { at: record.at, request, latency: record.latency });
                    }
                }
                Err(error) => {
                    self.failed = Some(error);
                    return None;
                }
            }
        }
    }
}

fn no_device(path: &Path, device: u32) -> CliError {
    let what = format!("found no record of device {}, expected some", input::device_name(device));
    CliError::input(path, what, "`nandlab trace info` lists the devices")
}

fn several_devices(path: &Path, one: u32, other: u32) -> CliError {
    let (device, one, other) = (one, input::device_name(one), input::device_name(other));
    let what = format!("found records of devices {one} and {other}, expected those of one drive");
    let help = format!("choose a device, as --device {one} (trace.device = {device}); `nandlab trace info` lists them");
    CliError::input(path, what, help)
}
