//! `nandlab image compare`: lists what differs between two images.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;
use ubi::image::{Difference, Extent, Scan, compare};

use super::info::counted;
use super::input::STDIN;
use super::load::{How, number32, remark};
use super::map::volume_name;
use crate::Outcome;
use crate::error::CliError;
use crate::output;

/// Arguments of `nandlab image compare`.
#[derive(clap::Args)]
pub struct Args {
    /// An image; - for standard input
    a: PathBuf,
    /// The image to compare it with
    b: PathBuf,
    #[command(flatten)]
    how: How,
    /// Read the device with this image sequence number of B, where --image-seq chooses one of A
    #[arg(long, value_name = "N", value_parser = number32)]
    image_seq_b: Option<u32>,
    /// Compare only volumes and their contents: no erase counters, PEBs, fastmap or image sequence number
    #[arg(long)]
    volumes: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Document {
    file_a: String,
    file_b: String,
    equal: bool,
    differences: Vec<DifferenceJson>,
}

#[derive(Serialize)]
struct DifferenceJson {
    aspect: &'static str,
    volume: Option<u32>,
    a: String,
    b: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    lebs: Option<Vec<u32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pebs: Option<Vec<u32>>,
}

/// Runs the command. It fails if anything differs.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    if args.a == args.b && args.a == Path::new(STDIN) {
        let what = "found standard input twice, expected it once";
        return Err(CliError::input(Path::new(STDIN), what, "name a file for one of the two"));
    }
    let how_b = args.how.with_image_seq(args.image_seq_b);
    let (loaded_a, loaded_b) = (args.how.load(&args.a)?, how_b.load(&args.b)?);
    let (dump_a, dump_b) = (args.how.probe(&args.a, &loaded_a)?, how_b.probe(&args.b, &loaded_b)?);
    remark(&args.a, &dump_a);
    remark(&args.b, &dump_b);
    let (a, b) = (Scan::new(&dump_a), Scan::new(&dump_b));
    args.how.is_one(&args.a, &loaded_a, &a)?;
    how_b.is_one(&args.b, &loaded_b, &b)?;
    let extent = if args.volumes { Extent::Volumes } else { Extent::Everything };
    let differences = compare(&a, &b, extent);
    loaded_a.was_read(&args.a)?;
    loaded_b.was_read(&args.b)?;
    let equal = differences.is_empty();
    if args.json {
        let document = Document {
            file_a: args.a.display().to_string(),
            file_b: args.b.display().to_string(),
            equal,
            differences: differences.into_iter().map(DifferenceJson::new).collect(),
        };
        output::print_json("nandlab/image-compare/1", &document)?;
    } else {
        output::print(&text(args, &a, &b, &differences))?;
    }
    let outcome = if equal { Outcome::Done } else { Outcome::Failed };
    let outcome = args.how.ended(&args.a, &loaded_a, &a, outcome);
    Ok(how_b.ended(&args.b, &loaded_b, &b, outcome))
}

impl DifferenceJson {
    fn new(it: Difference) -> DifferenceJson {
        let numbers = Some(it.numbers).filter(|numbers| !numbers.is_empty());
        let (lebs, pebs) = if it.volume.is_some() { (numbers, None) } else { (None, numbers) };
        DifferenceJson { aspect: it.aspect.name(), volume: it.volume.map(|id| id.0), a: it.a, b: it.b, lebs, pebs }
    }
}

fn text(args: &Args, a: &Scan<'_>, b: &Scan<'_>, differences: &[Difference]) -> String {
    let mut out = String::new();
    for it in differences {
        let place = match it.volume {
            Some(id) => {
                let name = volume_name(a, id).or_else(|| volume_name(b, id));
                format!(" volume {id}{}", name.map_or(String::new(), |name| format!(" ({name})")))
            }
            None => String::new(),
        };
        let unit = if it.volume.is_some() { "LEB" } else { "PEB" };
        let numbers = match it.numbers.len() {
            0 => String::new(),
            n => format!(": {}: {}", counted(n, unit), ranges(&it.numbers)),
        };
        let _ = writeln!(out, "{}{place}{numbers}\n  A: {}\n  B: {}", it.aspect.name(), it.a, it.b);
    }
    let (file_a, file_b) = (args.a.display(), args.b.display());
    let _ = match differences.len() {
        0 => writeln!(out, "{file_a} (A) and {file_b} (B) are equal"),
        n => writeln!(out, "{file_a} (A) and {file_b} (B): {}", counted(n, "difference")),
    };
    out
}

/// Ascending numbers as 3, 7-9: as many ranges as fit into a line.
fn ranges(numbers: &[u32]) -> String {
    const SHOWN: usize = 12;
    let ranges: Vec<&[u32]> = numbers.chunk_by(|a, b| a + 1 == *b).collect();
    let shown = ranges.iter().take(SHOWN).map(|range| match range {
        [first, .., last] => format!("{first}-{last}"),
        [one] => one.to_string(),
        [] => String::new(),
    });
    let more = if ranges.len() > SHOWN { ", …" } else { "" };
    format!("{}{more}", shown.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::ranges;

    #[test]
    fn neighbours_become_ranges() {
        assert_eq!(ranges(&[1, 3, 4, 5, 9]), "1, 3-5, 9");
        let many: Vec<u32> = (0..40).map(|n| 2 * n).collect();
        assert!(ranges(&many).ends_with("22, …"));
    }
}
