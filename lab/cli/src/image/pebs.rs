//! `nandlab image pebs`: prints what each PEB holds.

use serde::Serialize;
use sim::{Peb, VolId};
use ubi::image::{PebState, Scan};

use super::load::Source;
use super::map::{csv, number, text, volume_name};
use crate::Outcome;
use crate::error::CliError;
use crate::output;

/// Arguments of `nandlab image pebs`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: Source,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Print CSV with a line of headings
    #[arg(long, conflicts_with = "json")]
    csv: bool,
}

#[derive(Serialize)]
struct Document {
    file: String,
    pebs: Vec<Row>,
}

/// A PEB.
#[derive(Serialize)]
struct Row {
    peb: u32,
    state: &'static str,
    volume: Option<u32>,
    name: Option<String>,
    leb: Option<u32>,
    sqnum: Option<u64>,
    erase_counter: Option<u64>,
    file_offset: Option<u64>,
}

const HEAD: [&str; 8] = ["peb", "state", "volume", "name", "leb", "sqnum", "erase_counter", "file_offset"];

/// Runs the command.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    let loaded = args.source.load()?;
    let dump = args.source.probe(&loaded)?;
    args.source.remark(&dump);
    let scan = Scan::new(&dump);
    args.source.is_one(&loaded, &scan)?;
    let rows = rows(&scan, args.source.how.offset);
    if args.json {
        output::print_json("nandlab/image-pebs/1", &Document { file: args.source.name(), pebs: rows.collect() })?;
    } else if args.csv {
        output::print(&csv(HEAD, rows.map(|row| row.cells("", |id| id.to_string()))))?;
    } else {
        output::print(&text(HEAD, rows.map(|row| row.cells("-", |id| number(VolId(id))))))?;
    }
    Ok(args.source.ended(&loaded, &scan, Outcome::Done))
}

fn rows(scan: &Scan<'_>, offset: u64) -> impl Iterator<Item = Row> {
    let mut is_stale = vec![false; scan.pebs().len()];
    for loser in scan.lebs().values().flat_map(|leb| &leb.losers) {
        is_stale[loser.peb.at()] = true;
    }
    scan.pebs().iter().zip((0..).map(Peb)).zip(is_stale).map(move |((state, peb), is_stale)| {
        let vid = state.vid();
        let is_left_out = matches!(state, PebState::Bad(ubi::image::BadWhy::LeftOut));
        Row {
            peb: peb.0,
            state: if is_stale { "stale" } else { state.name() },
            volume: vid.map(|vid| vid.vol_id),
            name: vid.and_then(|vid| volume_name(scan, VolId(vid.vol_id))),
            leb: vid.map(|vid| vid.lnum),
            sqnum: vid.map(|vid| vid.sqnum),
            erase_counter: state.ec().map(|ec| ec.ec),
            file_offset: (!is_left_out).then(|| scan.dump().file_offset(peb, 0) + offset),
        }
    })
}

impl Row {
    fn cells(&self, unknown: &str, volume: impl Fn(u32) -> String) -> Vec<String> {
        let or_unknown = |cell: Option<String>| cell.unwrap_or_else(|| unknown.to_owned());
        let number = |value: Option<u64>| or_unknown(value.map(|value| value.to_string()));
        vec![
            self.peb.to_string(),
            self.state.to_owned(),
            or_unknown(self.volume.map(volume)),
            or_unknown(self.name.clone()),
            number(self.leb.map(u64::from)),
            number(self.sqnum),
            number(self.erase_counter),
            number(self.file_offset),
        ]
    }
}
