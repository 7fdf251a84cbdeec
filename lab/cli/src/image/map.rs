//! `nandlab image map`: prints which PEB holds each LEB.

use std::fmt::Write;

use serde::Serialize;
use sim::VolId;
use ubi::image::Scan;
use ubi::media::{FM_DATA_VOLUME_ID, FM_SB_VOLUME_ID, LAYOUT_VOLUME_ID};

use super::load::Source;
use super::ls::printable;
use crate::Outcome;
use crate::columns;
use crate::error::CliError;
use crate::output;

/// Arguments of `nandlab image map`.
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
    lebs: Vec<Row>,
}

/// A LEB and the PEB that holds it.
#[derive(Serialize)]
struct Row {
    volume: u32,
    name: Option<String>,
    leb: u32,
    peb: u32,
    sqnum: u64,
    erase_counter: Option<u64>,
    file_offset: u64,
}

const HEAD: [&str; 7] = ["volume", "name", "leb", "peb", "sqnum", "erase_counter", "file_offset"];

/// Runs the command. LEBs that no PEB holds have no row.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    let loaded = args.source.load()?;
    let dump = args.source.probe(&loaded)?;
    args.source.remark(&dump);
    let scan = Scan::new(&dump);
    args.source.is_one(&loaded, &scan)?;
    let rows: Vec<Row> = rows(&scan, args.source.how.offset);
    if args.json {
        output::print_json("nandlab/image-map/1", &Document { file: args.source.name(), lebs: rows })?;
    } else if args.csv {
        output::print(&csv(HEAD, rows.iter().map(|row| row.cells("", u32::to_string))))?;
    } else {
        output::print(&text(HEAD, rows.iter().map(|row| row.cells("-", |&id| number(VolId(id))))))?;
    }
    Ok(args.source.ended(&loaded, &scan, Outcome::Done))
}

fn rows(scan: &Scan<'_>, offset: u64) -> Vec<Row> {
    let lebs = scan.lebs().iter();
    lebs.map(|(&(volume, lnum), leb)| Row {
        volume: volume.0,
        name: volume_name(scan, volume),
        leb: lnum.0,
        peb: leb.peb.0,
        sqnum: leb.vid.sqnum,
        erase_counter: scan.pebs()[leb.peb.at()].ec().map(|ec| ec.ec),
        file_offset: scan.dump().file_offset(leb.peb, 0) + offset,
    })
    .collect()
}

impl Row {
    fn cells(&self, unknown: &str, volume: impl Fn(&u32) -> String) -> Vec<String> {
        vec![
            volume(&self.volume),
            self.name.clone().unwrap_or_else(|| unknown.to_owned()),
            self.leb.to_string(),
            self.peb.to_string(),
            self.sqnum.to_string(),
            self.erase_counter.map_or(unknown.to_owned(), |ec| ec.to_string()),
            self.file_offset.to_string(),
        ]
    }
}

/// Name of a volume: from the table, or of those that UBI keeps for itself. `None` if it is not in the table.
pub fn volume_name(scan: &Scan<'_>, id: VolId) -> Option<String> {
    match id.0 {
        LAYOUT_VOLUME_ID => Some("layout volume".to_owned()),
        FM_SB_VOLUME_ID => Some("fastmap super block".to_owned()),
        FM_DATA_VOLUME_ID => Some("fastmap data".to_owned()),
        user => scan.vtbl().records.get(&user).map(|record| printable(&record.name)),
    }
}

/// Number of a volume for people: internal ones are known by their hexadecimal numbers.
pub fn number(id: VolId) -> String {
    if id.0 < 128 { id.to_string() } else { format!("{:#x}", id.0) }
}

/// Rows as CSV.
pub fn csv<const N: usize>(head: [&str; N], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut text = String::new();
    columns::line(&mut text, head.iter().map(|name| (*name).to_owned()));
    rows.for_each(|row| columns::line(&mut text, row.into_iter()));
    text
}

/// Rows as a table: a line for each, however wide the terminal is. Columns of words are flush left, those of numbers
/// flush right.
pub fn text<const N: usize>(head: [&str; N], rows: impl Iterator<Item = Vec<String>>) -> String {
    let head: Vec<String> = head.iter().map(|name| name.replace('_', " ")).collect();
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    let is_number = |cell: &str| cell == "-" || cell.starts_with("0x") || cell.bytes().all(|it| it.is_ascii_digit());
    let columns: Vec<(usize, bool)> = (0..N)
        .map(|at| {
            let width = rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
            (width, rows.iter().skip(1).all(|row| is_number(&row[at])))
        })
        .collect();
    let mut text = String::new();
    for row in &rows {
        let begin = text.len();
        for (cell, (width, is_right)) in row.iter().zip(&columns) {
            let _ = match is_right {
                true => write!(text, "{cell:>width$}  "),
                false => write!(text, "{cell:<width$}  "),
            };
        }
        text.truncate(begin + text[begin..].trim_end().len());
        text.push('\n');
    }
    text
}
