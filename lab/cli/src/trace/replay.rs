//! `nandlab trace replay`: a trace on a simulated drive.

use std::path::PathBuf;

use clap::ValueEnum;
use workload::trace::Format;

use super::input;
use crate::Outcome;
use crate::error::CliError;
use crate::{run, ssd};

/// When requests are issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// At their times in the trace, divided by the speed
    Open,
    /// As soon as fewer than --depth are outstanding
    Closed,
    /// When what had completed before them in the trace has completed here, plus their think time
    Dependency,
}

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// The trace, plain or in gzip; - for standard input
    file: PathBuf,
    /// The experiment whose drive it is replayed on; its workload is not used
    #[arg(long, value_name = "EXPERIMENT.toml")]
    on: PathBuf,
    /// When requests are issued
    #[arg(long, value_enum)]
    mode: Option<Mode>,
    /// How much faster than in the trace time passes
    #[arg(long, value_name = "FACTOR")]
    speed: Option<f64>,
    /// Requests outstanding, for --mode closed
    #[arg(long, value_name = "N")]
    depth: Option<u32>,
    /// Let addresses beyond the drive begin again at its start
    #[arg(long)]
    wrap: bool,
    /// Replay this device only; needed where the trace has several
    #[arg(long, value_name = "N")]
    device: Option<u32>,
    /// The trace's format, if it shall not be found out
    #[arg(long, value_parser = input::format_named)]
    format: Option<Format>,
    /// The number that means a read, where it is not the format's own (tencent: 0, disksim: 1)
    #[arg(long, value_name = "0|1", value_parser = clap::value_parser!(u8).range(0..=1))]
    read_opcode: Option<u8>,
    /// Set a key over the experiment, as in `--set ssd.ways=2`; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The seed, over the experiment's
    #[arg(long)]
    seed: Option<u64>,
    /// Where to write the results
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the result as one JSON document
    #[arg(long)]
    json: bool,
}

/// Replays.
/// Errors: a trace or an experiment that cannot be used; results that cannot be written.
pub fn run(args: Args) -> Result<Outcome, CliError> {
    let text = run::read(&args.on)?;
    run::check_is_ssd(&args.on, &text)?;
    let mut pairs = run::pairs(&args.set, args.seed)?;
    let mut put = |key: &str, value: String| pairs.push((format!("trace.{key}"), value));
    put("file", ssd::quoted(&args.file.to_string_lossy()));
    if let Some(mode) = args.mode {
        let name = mode.to_possible_value().expect("no mode is hidden");
        put("mode", ssd::quoted(name.get_name()));
    }
    if let Some(speed) = args.speed {
        put("speed", format!("{speed:?}"));
    }
    if let Some(depth) = args.depth {
        put("depth", depth.to_string());
    }
    if let Some(device) = args.device {
        put("device", device.to_string());
    }
    if args.wrap {
        put("wrap", "true".to_owned());
    }
    ssd::run(&ssd::Request {
        file: &args.on,
        text: &text,
        pairs,
        format: args.format,
        read_opcode: args.read_opcode,
        out: args.out.as_deref(),
        flash: None,
        force: false,
        json: args.json,
    })
}
