//! `nandlab identify`: what a drive tells its host before the first request.

use std::path::{Path, PathBuf};

use runner::report::grouped;
use runner::ssd::report::bytes;
use runner::ssd::{SsdExperiment, identify};
use serde_json::Value;

use crate::Outcome;
use crate::error::CliError;
use crate::output::{self, NewFile};
use crate::{run, store};

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// The experiment whose drive is asked; it must be a SATA drive
    file: PathBuf,
    /// Set a key over the file, as in `--set ssd.front.depth=1`; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Write the bytes themselves to identify.bin and log-a0.bin in this directory
    #[arg(long, value_name = "DIR")]
    raw: Option<PathBuf>,
    /// Overwrite those files
    #[arg(long)]
    force: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Asks.
/// Errors: an experiment that is none on a SATA drive; files that cannot be written.
pub fn run(args: Args) -> Result<Outcome, CliError> {
    let text = run::read(&args.file)?;
    run::check_is_ssd(&args.file, &text)?;
    let pairs = run::pairs(&args.set, None)?;
    let refused = |error| run::refused(&args.file, &error);
    let experiment = SsdExperiment::resolve(&text, &pairs).map_err(refused)?;
    let told = identify::told(&experiment).map_err(refused)?;
    if let Some(dir) = &args.raw {
        store::prepare(dir)?;
        for (name, bytes) in [("identify.bin", &told.identify), ("log-a0.bin", &told.shape_log)] {
            write(&dir.join(name), bytes, args.force)?;
        }
    }
    let document = identify::document(&told);
    if args.json {
        output::print_json(&document)?;
    } else {
        output::print(&summary(&document))?;
    }
    Ok(Outcome::Done)
}

fn write(path: &Path, bytes: &[u8], force: bool) -> Result<(), CliError> {
    let mut file = NewFile::create(path, force)?;
    file.write(bytes)?;
    file.finish(force)
}

fn summary(told: &Value) -> String {
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let count = |value: &Value| grouped(number(value));
    let yes = |value: &Value| value.as_bool().unwrap_or_default();
    let (trim, log) = (&told["trim"], &told["shape_log"]);
    let mut text = format!("model            {}\n", told["model"].as_str().unwrap_or_default());
    text += &format!("serial           {}\n", told["serial"].as_str().unwrap_or_default());
    text += &format!("capacity         {} sectors, {}\n", count(&told["sectors"]), bytes(number(&told["bytes"])));
    let [logical, physical] = ["logical_sector_bytes", "physical_sector_bytes"].map(|key| count(&told[key]));
    text += &format!("sector           {logical} bytes, physically {physical}\n");
    text += &match yes(&told["ncq"]) {
        true => format!("queue            NCQ, {} commands\n", count(&told["queue_depth"])),
        false => "queue            one command at a time\n".to_owned(),
    };
    text += &format!("write cache      {}\n", if yes(&told["write_cache"]) { "on" } else { "off" });
    text += &format!("medium           {}\n", if yes(&told["rotating"]) { "rotating" } else { "not rotating" });
    let reads = match (yes(&trim["deterministic"]), yes(&trim["zeroes"])) {
        (true, true) => "trimmed sectors read as zeroes (DRAT, RZAT)",
        (true, false) => "trimmed sectors read the same each time (DRAT)",
        _ => "trimmed sectors may read as anything",
    };
    text += &match yes(&trim["supported"]) {
        true => format!("TRIM             {} bytes of ranges a command; {reads}\n", 512 * number(&trim["blocks"])),
        false => "TRIM             none\n".to_owned(),
    };
    let [channels, ways, dies, planes] = ["channels", "ways", "dies", "planes"].map(|key| number(&log[key]));
    let in_step = if yes(&log["planes_in_step"]) { " in step" } else { "" };
    let order = log["order"].as_str().unwrap_or_default();
    text += &format!(
        "log A0h          {channels} channels x {ways} ways x {dies} dies x {planes} planes{in_step}, order {order}\n"
    );
    let [page, block] = ["page_bytes", "block_bytes"].map(|key| count(&log[key]));
    text += &format!("  NAND           page {page} bytes, erase block {block}\n");
    let [page, block] = ["effective_page_bytes", "effective_block_bytes"].map(|key| count(&log[key]));
    text += &format!("  effective      page {page} bytes, erase block {block}\n\nword  value  meaning (bits)\n");
    for word in told["words"].as_array().into_iter().flatten() {
        let meaning = word["meaning"].as_str().unwrap_or_default();
        text += &format!("{:>4}  {:04X}h  {meaning}\n", number(&word["word"]), number(&word["value"]));
    }
    text
}
