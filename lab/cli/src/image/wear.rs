//! `nandlab image wear`: prints a histogram and a map of erase counters.

use std::fmt::Write;
use std::io::{self, IsTerminal};

use clap::ValueEnum;
use serde::Serialize;
use ubi::image::wear::{FIRST_PEBS, Histogram, Wear};
use ubi::image::{PebState, Scan};

use super::json::HistogramJson;
use super::load::Source;
use crate::Outcome;
use crate::error::CliError;
use crate::output;

/// Arguments of `nandlab image wear`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: Source,
    /// Columns of the map [default: the width of the terminal; 80 in a pipe]
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(16..=1000))]
    width: Option<u16>,
    /// Style of the map; auto is unicode on a terminal without NO_COLOR, else ascii
    #[arg(long, value_enum, default_value = "auto")]
    map: Style,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Characters of a map.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Style {
    Auto,
    Unicode,
    Ascii,
}

#[derive(Serialize)]
struct Document {
    file: String,
    histogram: HistogramJson,
    first_pebs: HistogramJson,
    other_pebs: HistogramJson,
    erase_counters: Vec<Option<u32>>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    let loaded = args.source.load()?;
    let dump = args.source.probe(&loaded)?;
    args.source.remark(&dump);
    let scan = Scan::new(&dump);
    let wear = scan.wear();
    args.source.is_one(&loaded, &scan)?;
    if args.json {
        output::print_json(
            "nandlab/image-wear/1",
            &Document {
                file: args.source.name(),
                histogram: HistogramJson::new(&wear.all),
                first_pebs: HistogramJson::new(&wear.first),
                other_pebs: HistogramJson::new(&wear.others),
                erase_counters: wear.ecs,
            },
        )?;
        return Ok(args.source.ended(&loaded, &scan, Outcome::Done));
    }
    let terminal = io::stdout().is_terminal();
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let unicode = match args.map {
        Style::Auto => terminal && !no_color,
        style => style == Style::Unicode,
    };
    let columns = terminal_size::terminal_size().filter(|_| terminal).map(|(width, _)| width.0);
    let width = args.width.or(columns).unwrap_or(80).max(16);
    let mut out = table("every PEB", &wear.all);
    if wear.ecs.len() > FIRST_PEBS {
        out += &table(&format!("PEBs 0 to {}, where a fastmap keeps its anchor", FIRST_PEBS - 1), &wear.first);
        out += &table("the others", &wear.others);
    }
    let glyphs = if unicode { &UNICODE } else { &ASCII };
    out += &map(&scan, &wear, usize::from(width), glyphs, terminal && !no_color && unicode);
    output::print(&out)?;
    Ok(args.source.ended(&loaded, &scan, Outcome::Done))
}

/// A histogram in the layout of the kernel's fastmap patches.
fn table(title: &str, histogram: &Histogram) -> String {
    let mut out =
        format!("{title}\n{:=<57}\n{:<18}{:<7}{:>5}{:>9}{:>9}{:>9}\n", "", "from", "to", "count", "min", "avg", "max");
    let _ = writeln!(out, "{:-<57}", "");
    for bin in &histogram.bins {
        let to = bin.to.map_or("inf".to_owned(), |to| to.to_string());
        let (avg, from) = (bin.avg(), bin.from);
        let _ = writeln!(out, "{from:<9}..{to:>9}:{:>9}{:>9}{avg:>9}{:>9}", bin.count, bin.min, bin.max);
    }
    let total = &histogram.total;
    let _ = writeln!(out, "{:-<57}", "");
    let _ = writeln!(out, "{:<20}:{:>9}{:>9}{:>9}{:>9}\n", "Total", total.count, total.min, total.avg(), total.max);
    out
}

struct Glyphs {
    levels: [char; 8],
    unknown: char,
    bad: char,
}

const UNICODE: Glyphs =
    Glyphs { levels: ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'], unknown: '·', bad: '×' };
const ASCII: Glyphs = Glyphs { levels: ['.', ':', '-', '=', '+', '*', '#', '@'], unknown: '?', bad: 'x' };
/// Blue to red, in the 256-colour palette of terminals.
const COLORS: [u8; 8] = [27, 33, 43, 48, 190, 220, 208, 196];

/// Rows of the map; on a larger flash a cell stands for several PEBs.
const ROWS: usize = 32;

/// One cell: the most worn of its PEBs, and whether one is bad.
fn map(scan: &Scan<'_>, wear: &Wear, width: usize, glyphs: &Glyphs, color: bool) -> String {
    let label = wear.ecs.len().to_string().len().max(3);
    let columns = (width - label - 1).min(128);
    let per_cell = wear.ecs.len().div_ceil(columns * ROWS).max(1);
    let columns = (columns / 16 * 16).max(8.min(columns));
    let (min, max) = (wear.all.total.min, wear.all.total.max);
    // Badly levelled wear spans decades: a linear scale would show only the worst PEB.
    let logarithmic = max / (min + 1) >= 32;
    let scale = |ec: u32| if logarithmic { f64::from(ec).ln_1p() } else { f64::from(ec) };
    let level = |ec: u32| match scale(max) - scale(min) {
        range if range > 0.0 => ((scale(ec) - scale(min)) / range * 7.0).round() as usize,
        _ => 0,
    };
    let kind = if logarithmic { "logarithmic" } else { "linear" };
    let cells = if per_cell == 1 { String::new() } else { format!(", {per_cell} PEBs a cell, the most worn counts") };
    let mut out =
        format!("erase counters by PEB{cells}; {} = {min} to {} = {max}, {kind}", glyphs.levels[0], glyphs.levels[7]);
    let _ = writeln!(out, "; {} unknown, {} bad", glyphs.unknown, glyphs.bad);
    let pebs: Vec<(Option<u32>, bool)> =
        wear.ecs.iter().zip(scan.pebs()).map(|(&ec, state)| (ec, matches!(state, PebState::Bad(_)))).collect();
    for (row, pebs) in pebs.chunks(columns * per_cell).enumerate() {
        let _ = write!(out, "{:>label$} ", row * columns * per_cell);
        for cell in pebs.chunks(per_cell) {
            let worst = cell.iter().filter_map(|&(ec, _)| ec).max();
            let _ = match worst {
                Some(ec) if color => {
                    write!(out, "\x1b[38;5;{}m{}\x1b[0m", COLORS[level(ec)], glyphs.levels[level(ec)])
                }
                Some(ec) => write!(out, "{}", glyphs.levels[level(ec)]),
                None if cell.iter().any(|&(_, bad)| bad) => write!(out, "{}", glyphs.bad),
                None => write!(out, "{}", glyphs.unknown),
            };
        }
        out.push('\n');
    }
    out
}
