//! `nandlab identify`: prints a drive's IDENTIFY data or UFS descriptors.

use std::path::PathBuf;

use runner::report::drive::bytes;
use runner::report::grouped;
use runner::schema::Experiment;
use runner::subject::Subject;
use runner::subject::identify;
use serde_json::Value;

use crate::Outcome;
use crate::error::CliError;
use crate::given::Given;
use crate::output::{self, Overwrite};
use crate::parts::PartDirs;
use crate::{run, table};

/// Arguments of `nandlab identify`.
#[derive(clap::Args)]
pub struct Args {
    /// An experiment on a SATA drive or a UFS device
    file: PathBuf,
    /// Override a key of the file, as in `--set ssd.front.depth=1`; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    parts: PartDirs,
    /// Write the raw bytes to files in this directory: identify.bin and log-a0.bin of a SATA drive; device.bin,
    /// geometry.bin and unit-N.bin of a UFS device
    #[arg(long, value_name = "DIR")]
    raw: Option<PathBuf>,
    /// Overwrite files of --raw that exist
    #[arg(long)]
    force: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Runs the command.
/// Errors: an experiment that is not on a SATA drive or a UFS device; files that cannot be written.
pub fn run(args: Args) -> Result<Outcome, CliError> {
    let text = run::read(&args.file)?;
    let given = Given::new(&args.set, None)?;
    let refused = |error| given.refused(&args.file, &error);
    let library = args.parts.library()?;
    let experiment = Experiment::resolve_with(&text, given.pairs(), &library).map_err(refused)?;
    let Subject::Drive(drive) = Subject::build_with(&experiment, &library).map_err(refused)? else {
        let what = "found raw flash (a table `nand`), expected a drive";
        return Err(CliError::input(&args.file, what, "name one of experiments/ssd-*.toml or ufs-*.toml"));
    };
    let answers = identify::answers(&drive, experiment.seed).map_err(refused)?;
    if let Some(dir) = &args.raw {
        let parts = args.parts.inputs();
        let overwrite = Overwrite::new(args.force, parts.iter().chain([&args.file]).map(PathBuf::as_path));
        let files = answers.files();
        files.iter().try_for_each(|(name, _)| overwrite.permit(&dir.join(name)))?;
        output::make_dir(dir)?;
        for (name, bytes) in &files {
            output::write(&dir.join(name), bytes, &overwrite)?;
        }
    }
    let document = identify::document(&answers);
    if args.json {
        output::print_json("nandlab/identify/1", &document)?;
    } else {
        output::print(&summary(&document))?;
    }
    Ok(Outcome::Done)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

fn yes(value: &Value) -> bool {
    value.as_bool().unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn summary(answers: &Value) -> String {
    if text(&answers["protocol"]) == "ufs" { ufs_summary(answers) } else { sata_summary(answers) }
}

/// A value of `width` bytes in the notation of the standards: `0310h`.
fn hex(value: u64, width: u64) -> String {
    format!("{value:0digits$X}h", digits = 2 * width as usize)
}

fn ufs_summary(answers: &Value) -> String {
    let size = |value: &Value| bytes(number(value));
    let mut out = format!("specification    UFS {}\n", text(&answers["spec_version"]));
    out += &format!("capacity         {}\n", size(&answers["bytes"]));
    out += &format!("queue            {} commands, shared by all units\n", number(&answers["queue_depth"]));
    let hpb = &answers["hpb"];
    out += &match hpb.is_null() {
        true => "HPB              none\n".to_owned(),
        false => {
            let regions = grouped(number(&hpb["max_active_regions"]));
            let kib = |value: &Value| value.as_u64().map_or_else(|| "0.5".to_owned(), |bytes| grouped(bytes / 1024));
            let [region, subregion] = ["region_bytes", "subregion_bytes"].map(|key| kib(&hpb[key]));
            let (version, control) = (text(&hpb["version"]), text(&hpb["control"]));
            format!(
                "HPB              version {version}, the {control} decides; regions of {region} KiB in sub-regions of {subregion} KiB, {regions} active at most\n"
            )
        }
    };
    let booster = &answers["write_booster"];
    out += &match booster.is_null() {
        true => "WriteBooster     none\n".to_owned(),
        false => format!("WriteBooster     {}, shared by all units\n", size(&booster["bytes"])),
    };
    for unit in list(&answers["units"]) {
        let hpb = if yes(&unit["hpb"]) { ", with HPB" } else { "" };
        let block = grouped(number(&unit["logical_block_bytes"]));
        out += &format!("unit {:<11} {} in blocks of {block} bytes{hpb}\n", number(&unit["lun"]), size(&unit["bytes"]));
    }
    for descriptor in list(&answers["descriptors"]) {
        let (name, index) = (text(&descriptor["name"]), number(&descriptor["index"]));
        let name = if name == "unit" { format!("unit {index} descriptor") } else { format!("{name} descriptor") };
        out += &format!("\n{name}\n{:<6}  {:<17}  field and meaning\n", "offset", "value");
        for field in list(&descriptor["fields"]) {
            let (offset, value) =
                (hex(number(&field["offset"]), 1), hex(number(&field["value"]), number(&field["bytes"])));
            out += &row(&[&format!("{offset:<6}"), &format!("{value:<17}")], field);
        }
    }
    out += &format!("\nflags\n{:<3}  {:<5}  flag and meaning\n", "idn", "value");
    for flag in list(&answers["flags"]) {
        let value = if flag["value"].is_null() {
            "none"
        } else if yes(&flag["value"]) {
            "set"
        } else {
            "clear"
        };
        out += &row(&[&hex(number(&flag["idn"]), 1), &format!("{value:<5}")], flag);
    }
    out += &format!("\nattributes\n{:<3}  {:<9}  attribute and meaning\n", "idn", "value");
    for attribute in list(&answers["attributes"]) {
        let width = number(&attribute["bytes"]);
        let value = attribute["value"].as_u64().map_or_else(|| "none".to_owned(), |value| hex(value, width));
        out += &row(&[&hex(number(&attribute["idn"]), 1), &format!("{value:<9}")], attribute);
    }
    out
}

/// A line of a table: its columns, then value and meaning, broken into lines on a terminal.
fn row(columns: &[&str], what: &Value) -> String {
    let (name, meaning) = (text(&what["name"]), text(&what["meaning"]));
    let colon = if meaning.is_empty() { "" } else { ": " };
    hanging(&format!("{}  ", columns.join("  ")), &format!("{name}{colon}{meaning}"))
}

/// A text after a prefix; its further lines stand below its first one.
fn hanging(prefix: &str, text: &str) -> String {
    let indent = prefix.chars().count();
    let lines = table::wrapped(text, table::text_width().saturating_sub(indent).max(20));
    format!("{prefix}{}\n", lines.join(&format!("\n{:indent$}", "")))
}

fn sata_summary(answers: &Value) -> String {
    let count = |value: &Value| grouped(number(value));
    let (trim, log) = (&answers["trim"], &answers["shape_log"]);
    let mut out = format!("model            {}\n", text(&answers["model"]));
    out += &format!("serial           {}\n", text(&answers["serial"]));
    out += &format!("capacity         {} sectors, {}\n", count(&answers["sectors"]), bytes(number(&answers["bytes"])));
    let [logical, physical] = ["logical_sector_bytes", "physical_sector_bytes"].map(|key| count(&answers[key]));
    out += &format!("sector           {logical} bytes, physically {physical}\n");
    out += &match yes(&answers["ncq"]) {
        true => format!("queue            NCQ, {} commands\n", count(&answers["queue_depth"])),
        false => "queue            one command at a time\n".to_owned(),
    };
    out += &format!("write cache      {}\n", if yes(&answers["write_cache"]) { "on" } else { "off" });
    out += &format!("medium           {}\n", if yes(&answers["rotating"]) { "rotating" } else { "not rotating" });
    let reads = match (yes(&trim["deterministic"]), yes(&trim["zeroes"])) {
        (true, true) => "trimmed sectors read as zeroes (DRAT, RZAT)",
        (true, false) => "trimmed sectors read the same each time (DRAT)",
        _ => "trimmed sectors may read as anything",
    };
    out += &match yes(&trim["supported"]) {
        true => format!("TRIM             {} bytes of ranges a command; {reads}\n", 512 * number(&trim["blocks"])),
        false => "TRIM             none\n".to_owned(),
    };
    let [channels, ways, dies, planes] = ["channels", "ways", "dies", "planes"].map(|key| number(&log[key]));
    let in_step = if yes(&log["planes_in_step"]) { " in step" } else { "" };
    let order = text(&log["order"]);
    out += &format!(
        "log A0h          {channels} channels x {ways} ways x {dies} dies x {planes} planes{in_step}, order {order}\n"
    );
    let [page, block] = ["page_bytes", "block_bytes"].map(|key| count(&log[key]));
    out += &format!("  NAND           page {page} bytes, erase block {block}\n");
    let [page, block] = ["effective_page_bytes", "effective_block_bytes"].map(|key| count(&log[key]));
    out += &format!("  effective      page {page} bytes, erase block {block}\n\nword  value  meaning (bits)\n");
    for word in list(&answers["words"]) {
        let meaning = text(&word["meaning"]);
        let prefix = format!("{:>4}  {:04X}h  ", number(&word["word"]), number(&word["value"]));
        out += &hanging(&prefix, meaning);
    }
    out
}
