//! `nandlab image check`: lists every inconsistency: of UBI, and of UBIFS or JFFS2 in its volumes or alone in a file.

use std::fmt::Write;

use fs::{jffs2, ubifs};
use serde::Serialize;
use sim::Cx;
use ubi::image::{Dump, Finding, ImageVolume, Scan, Severity, Volume, check};

use super::ecc::{EccJson, PlaceJson};
use super::files::jffs2::Blocks;
use super::files::{Alone, Holds, Lebs};
use super::info::{counted, tally};
use super::json::GeometryJson;
use super::load::Source;
use crate::Outcome;
use crate::error::CliError;
use crate::output;

/// Arguments of `nandlab image check`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: Source,
    /// Print no notes, which are information only
    #[arg(short, long)]
    quiet: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Document {
    file: String,
    geometry: GeometryJson,
    errors: usize,
    warnings: usize,
    notes: usize,
    findings: Vec<FindingJson>,
    ecc: Option<EccJson>,
    file_systems: Vec<FileSystemJson>,
}

#[derive(Serialize)]
struct BareDocument {
    file: String,
    file_systems: Vec<FileSystemJson>,
}

/// A file system and what was found in it.
#[derive(Serialize)]
struct FileSystemJson {
    volume: Option<u32>,
    /// Which one it is.
    file_system: &'static str,
    /// Why it cannot be mounted.
    refused: Option<String>,
    inodes: u64,
    leaves: u64,
    index_nodes: u64,
    errors: usize,
    warnings: usize,
    notes: usize,
    /// Findings beyond those listed.
    more: u64,
    findings: Vec<InFilesJson>,
}

#[derive(Serialize)]
struct InFilesJson {
    severity: &'static str,
    class: &'static str,
    leb: Option<u32>,
    offset: Option<u32>,
    what: String,
}

#[derive(Serialize)]
struct FindingJson {
    severity: &'static str,
    class: &'static str,
    peb: Option<u32>,
    offset: Option<u32>,
    file_offset: Option<u64>,
    volume: Option<u32>,
    what: String,
}

/// What is wrong with a step.
const UNCORRECTABLE: &str = "more wrong bits than the code corrects";

impl FindingJson {
    fn uncorrectable(place: &PlaceJson) -> FindingJson {
        FindingJson {
            severity: Severity::Error.name(),
            class: "ecc",
            peb: place.peb,
            offset: place.offset,
            file_offset: Some(place.file_offset),
            volume: None,
            what: format!("page {}, step {}: {UNCORRECTABLE}", place.page, place.step),
        }
    }
}

/// Runs the command. It fails if a finding is an error.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    let loaded = args.source.load()?;
    if let Some(found) = Alone::open(&args.source, &loaded)? {
        let block_bytes = found.raw_block_bytes();
        let found = match found {
            Alone::Ubifs(bare) => ubifs_checked(None, Lebs::Bare(bare)),
            Alone::Jffs2(image) => jffs2_checked(None, Blocks::of_image(image)),
        };
        args.source.was_read(&loaded)?;
        let outcome = alone(args, found)?;
        return Ok(args.source.ended_alone(&loaded, block_bytes, outcome));
    }
    // A mixture of devices is checked as Linux would find it, and fails.
    let dump = args.source.probe(&loaded)?;
    args.source.remark(&dump);
    let scan = Scan::new(&dump);
    let findings = check(&scan);
    let in_volume = |volume: Volume| {
        let (id, holds) = (Some(volume.id.0), Holds::of(&scan, &volume));
        let lebs = ImageVolume::new(&scan, volume);
        match holds {
            Holds::Ubifs => Some(ubifs_checked(id, Lebs::Volume(lebs))),
            Holds::Jffs2 => Some(jffs2_checked(id, Blocks::of_volume(lebs))),
            _ => None,
        }
    };
    let file_systems: Vec<FileSystemJson> = scan.volumes().into_iter().filter_map(in_volume).collect();
    let are_whole = file_systems.iter().all(FileSystemJson::is_whole);
    args.source.was_read(&loaded)?;
    let file_offset = |finding: &Finding| place(&dump, finding).map(|at| at + args.source.how.offset);
    let [errors, warnings, notes] =
        [Severity::Error, Severity::Warning, Severity::Note].map(|severity| tally(&findings, severity));
    let ecc = args.source.corrected(&loaded, &scan);
    let errors = errors + ecc.as_ref().map_or(0, |ecc| ecc.uncorrectable);
    let places = ecc.as_ref().map_or(&[][..], |ecc| &ecc.places);
    if args.json {
        let findings = findings.iter().map(|finding| FindingJson {
            severity: finding.severity.name(),
            class: finding.class.name(),
            peb: finding.peb.map(|peb| peb.0),
            offset: finding.offset,
            file_offset: file_offset(finding),
            volume: finding.volume.map(|volume| volume.0),
            what: finding.what.clone(),
        });
        output::print_json(
            "nandlab/image-check/1",
            &Document {
                file: args.source.name(),
                geometry: GeometryJson::new(dump.geometry()),
                errors,
                warnings,
                notes,
                findings: findings.chain(places.iter().map(FindingJson::uncorrectable)).collect(),
                ecc,
                file_systems,
            },
        )?;
    } else {
        let mut out = String::new();
        for finding in findings.iter().filter(|finding| !args.quiet || finding.severity != Severity::Note) {
            let _ = writeln!(out, "{}", line(finding, file_offset(finding)));
        }
        for place in places {
            let _ = writeln!(out, "error[ecc] {}: {UNCORRECTABLE}", place.text());
        }
        if let Some(ecc) = &ecc {
            let _ = writeln!(out, "{}: ECC {}", args.source.name(), ecc.text());
        }
        let [errors, warnings, notes] =
            [(errors, "error"), (warnings, "warning"), (notes, "note")].map(|(n, what)| counted(n, what));
        let _ = writeln!(out, "{}: {errors}, {warnings}, {notes}", args.source.name());
        file_systems.iter().for_each(|found| found.lines(args.quiet, &mut out));
        output::print(&out)?;
    }
    Ok(if errors == 0 && are_whole { Outcome::Done } else { Outcome::Failed })
}

/// Prints what was found in a file system without UBI.
fn alone(args: &Args, found: FileSystemJson) -> Result<Outcome, CliError> {
    let is_whole = found.is_whole();
    if args.json {
        let document = BareDocument { file: args.source.name(), file_systems: vec![found] };
        output::print_json("nandlab/image-check/1", &document)?;
    } else {
        let mut out = String::new();
        found.lines(args.quiet, &mut out);
        output::print(&out)?;
    }
    Ok(if is_whole { Outcome::Done } else { Outcome::Failed })
}

/// Mounts UBIFS and checks it.
fn ubifs_checked(volume: Option<u32>, lebs: Lebs<'_, '_>) -> FileSystemJson {
    use ubifs::check::Severity::{Error, Note, Warning};
    let mut cx = Cx::new();
    let report = ubifs::Reader::mount(lebs, &mut cx).and_then(|mut reader| reader.check(&mut cx));
    let (report, refused) = split(report);
    let ubifs::check::Report { findings, more, inodes, leaves, index_nodes } = report;
    let name = |severity| match severity {
        Error => "error",
        Warning => "warning",
        Note => "note",
    };
    let findings = findings.into_iter().map(|finding| InFilesJson {
        severity: name(finding.severity),
        class: finding.class.name(),
        leb: finding.place.map(|(lnum, _)| lnum.0),
        offset: finding.place.map(|(_, offset)| offset),
        what: finding.what,
    });
    let found = FileSystemJson { inodes, leaves, index_nodes, more, ..FileSystemJson::new("ubifs", volume, refused) };
    found.with(findings.collect())
}

/// Mounts JFFS2 and checks it.
fn jffs2_checked(volume: Option<u32>, blocks: Blocks<'_, '_>) -> FileSystemJson {
    use jffs2::check::Severity::{Error, Note, Warning};
    let mut cx = Cx::new();
    let missing = blocks.missing_bytes();
    let report = blocks.mount(&mut cx).and_then(|mut fs| fs.check(&mut cx));
    let (report, refused) = split(report);
    let jffs2::check::Report { findings, more, inodes, nodes, .. } = report;
    let name = |severity| match severity {
        Error => "error",
        Warning => "warning",
        Note => "note",
    };
    let findings = findings.into_iter().map(|finding| InFilesJson {
        severity: name(finding.severity),
        class: finding.class.name(),
        leb: finding.place.map(|(block, _)| block),
        offset: finding.place.map(|(_, offset)| offset),
        what: finding.what,
    });
    let found = FileSystemJson { inodes, leaves: nodes, more, ..FileSystemJson::new("jffs2", volume, refused) };
    let cut = (missing > 0).then(|| InFilesJson {
        severity: "error",
        class: "truncated",
        leb: None,
        offset: None,
        what: format!("the image ends inside a node, of which {missing} bytes are missing"),
    });
    found.with(findings.chain(cut).collect())
}

/// The report, or why there is none.
fn split<R: Default, E: std::fmt::Display>(report: Result<R, E>) -> (R, Option<String>) {
    match report {
        Ok(report) => (report, None),
        Err(error) => (R::default(), Some(error.to_string())),
    }
}

impl FileSystemJson {
    fn new(file_system: &'static str, volume: Option<u32>, refused: Option<String>) -> FileSystemJson {
        FileSystemJson {
            volume,
            file_system,
            refused,
            inodes: 0,
            leaves: 0,
            index_nodes: 0,
            errors: 0,
            warnings: 0,
            notes: 0,
            more: 0,
            findings: Vec::new(),
        }
    }

    fn with(self, findings: Vec<InFilesJson>) -> FileSystemJson {
        let number = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
        let [errors, warnings, notes] = ["error", "warning", "note"].map(number);
        FileSystemJson { errors, warnings, notes, findings, ..self }
    }

    fn is_whole(&self) -> bool {
        self.refused.is_none() && self.errors == 0 && self.more == 0
    }

    fn lines(&self, quiet: bool, out: &mut String) {
        let is_jffs2 = self.file_system == "jffs2";
        let name = if is_jffs2 { "JFFS2" } else { "UBIFS" };
        // Without UBI the blocks are those of the flash.
        let block = if is_jffs2 && self.volume.is_none() { "eraseblock" } else { "LEB" };
        let of = self.volume.map_or(name.to_owned(), |volume| format!("{name} in volume {volume}"));
        if let Some(refused) = &self.refused {
            let _ = writeln!(out, "error[mount] {of}: {refused}");
            return;
        }
        for InFilesJson { severity, class, leb, offset, what } in &self.findings {
            if quiet && *severity == "note" {
                continue;
            }
            let _ = write!(out, "{severity}[{}-{class}]", self.file_system);
            if let Some(volume) = self.volume {
                let _ = write!(out, " volume {volume}");
            }
            if let (Some(leb), Some(offset)) = (leb, offset) {
                let _ = write!(out, " {block} {leb} offset {offset}");
            }
            let _ = writeln!(out, ": {what}");
        }
        if self.more > 0 {
            let class = if is_jffs2 { "jffs2-node" } else { "ubifs-index" };
            let _ = writeln!(out, "error[{class}]: {} more findings, which are not listed", self.more);
        }
        let [errors, warnings, notes] = [(self.errors, "error"), (self.warnings, "warning"), (self.notes, "note")]
            .map(|(n, what)| counted(n, what));
        let (inodes, leaves, index) = (self.inodes, self.leaves, self.index_nodes);
        let index = if is_jffs2 { String::new() } else { format!(", {index} index nodes") };
        let _ = writeln!(out, "{of}: {inodes} inodes, {leaves} nodes{index}: {errors}, {warnings}, {notes}");
    }
}

fn place(dump: &Dump<'_>, finding: &Finding) -> Option<u64> {
    finding.peb.zip(finding.offset).map(|(peb, offset)| dump.file_offset(peb, offset))
}

fn line(finding: &Finding, file_offset: Option<u64>) -> String {
    let mut line = format!("{}[{}]", finding.severity.name(), finding.class.name());
    if let Some(peb) = finding.peb {
        let _ = write!(line, " PEB {peb}");
    }
    if let (Some(offset), Some(at)) = (finding.offset, file_offset) {
        let _ = write!(line, " offset {offset} (byte {at})");
    }
    if let Some(volume) = finding.volume {
        let _ = match volume.0 {
            0..128 => write!(line, " volume {volume}"),
            internal => write!(line, " volume {internal:#x}"),
        };
    }
    format!("{line}: {}", finding.what)
}
