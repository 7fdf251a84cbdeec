//! `nandlab image ls`: lists the volumes, or the files in one.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use serde::Serialize;
use ubi::image::{Scan, Volume};

use super::files::list::{self, FileJson};
use super::files::{self, Alone, Holds};
use super::json::{VolumeJson, flags};
use super::load::Source;
use crate::Outcome;
use crate::error::CliError;
use crate::output;
use crate::table::{self, Table};

/// Arguments of `nandlab image ls`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: Source,
    /// List the files in this directory of the file system in the image, and not the volumes [default where the image is
    /// a file system without UBI: /]
    path: Option<OsString>,
    /// List the directories below it too
    #[arg(short, long)]
    recursive: bool,
    /// The volume, by name or number, where several hold a file system
    #[arg(long, value_name = "NAME")]
    volume: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Document {
    file: String,
    volumes: Vec<VolumeJson>,
}

#[derive(Serialize)]
struct FilesDocument {
    file: String,
    files: Vec<FileJson>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    let loaded = args.source.load()?;
    let wants_files = args.path.is_some() || args.recursive || args.volume.is_some();
    if wants_files || Alone::open(&args.source, &loaded)?.is_some() {
        drop(loaded);
        return files(args);
    }
    let dump = args.source.probe(&loaded)?;
    args.source.remark(&dump);
    let scan = Scan::new(&dump);
    args.source.is_one(&loaded, &scan)?;
    let volumes = scan.volumes();
    if args.json {
        output::print_json(
            "nandlab/image-ls/1",
            &Document {
                file: args.source.name(),
                volumes: volumes.iter().map(|volume| VolumeJson::new(&scan, volume)).collect(),
            },
        )?;
    } else {
        output::print(&table(&scan))?;
    }
    Ok(args.source.ended(&loaded, &scan, Outcome::Done))
}

fn files(args: &Args) -> Result<Outcome, CliError> {
    let path = args.path.as_deref().map_or(&b"/"[..], |path| path.as_bytes());
    let (rows, outcome) =
        files::with(&args.source, args.volume.as_deref(), |files| list::list(files, path, args.recursive))?;
    if args.json {
        output::print_json("nandlab/image-ls/1", &FilesDocument { file: args.source.name(), files: rows })?;
    } else {
        output::print(&list::text(&rows))?;
    }
    Ok(outcome)
}

/// The volumes, one per line.
pub fn table(scan: &Scan<'_>) -> String {
    let volumes = scan.volumes();
    if volumes.is_empty() {
        return "no volumes\n".to_owned();
    }
    let mut table = Table::new([
        "id",
        "name",
        "type",
        "LEBs",
        "bytes",
        "LEB bytes",
        "alignment",
        "mapped",
        "contents",
        "holds",
        "flags",
    ]);
    volumes.iter().for_each(|volume| table.row(row(scan, volume).to_vec()));
    table.print(table::text_width())
}

fn row(scan: &Scan<'_>, volume: &Volume) -> [String; 11] {
    let record = volume.record.as_ref();
    let known = |value: Option<u64>| value.map_or("?".to_owned(), |value| value.to_string());
    let mut notes = record.map(flags).unwrap_or_default();
    if record.is_none() {
        notes.push("not in the volume table");
    }
    if record.is_some_and(|record| record.upd_marker) {
        notes.push("update interrupted");
    }
    [
        volume.id.to_string(),
        record.map_or("?".to_owned(), |record| printable(&record.name)),
        volume.vol_type.name().to_owned(),
        known(record.map(|record| u64::from(record.reserved_pebs))),
        known(record.map(|it| u64::from(it.reserved_pebs) * u64::from(volume.usable_leb_bytes))),
        volume.usable_leb_bytes.to_string(),
        known(record.map(|record| u64::from(record.alignment))),
        volume.mapped.to_string(),
        volume.data_bytes.to_string(),
        Holds::of(scan, volume).name().to_owned(),
        if notes.is_empty() { "-".to_owned() } else { notes.join(",") },
    ]
}

/// A name for the terminal, with non-printable characters escaped.
pub fn printable(name: &[u8]) -> String {
    String::from_utf8_lossy(name)
        .chars()
        .flat_map(|it| if it.is_control() { it.escape_default().collect() } else { vec![it] })
        .collect()
}
