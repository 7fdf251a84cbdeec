//! `nandlab image check`: lists every inconsistency: of UBI, and of UBIFS in its volumes or alone in a file.

use std::fmt::Write;

use fs::ubifs::Reader;
use fs::ubifs::check::Report;
use serde::Serialize;
use sim::Cx;
use ubi::image::{Dump, Finding, ImageVolume, Scan, Severity, check};

use super::ecc::{EccJson, PlaceJson};
use super::files::{Bare, Holds, Lebs};
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
    if let Some(bare) = Bare::open(&loaded) {
        let found = checked(None, Lebs::Bare(bare));
        args.source.was_read(&loaded)?;
        return alone(args, found);
    }
    // A mixture of devices is checked as Linux would find it, and fails.
    let dump = args.source.probe(&loaded)?;
    args.source.remark(&dump);
    let scan = Scan::new(&dump);
    let findings = check(&scan);
    let holding = scan.volumes().into_iter().filter(|volume| Holds::of(&scan, volume) == Holds::Ubifs);
    let file_systems: Vec<FileSystemJson> =
        holding.map(|volume| checked(Some(volume.id.0), Lebs::Volume(ImageVolume::new(&scan, volume)))).collect();
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

/// Mounts a file system and checks it.
fn checked(volume: Option<u32>, lebs: Lebs<'_, '_>) -> FileSystemJson {
    let mut cx = Cx::new();
    let report = Reader::mount(lebs, &mut cx).and_then(|mut reader| reader.check(&mut cx));
    let (report, refused) = match report {
        Ok(report) => (report, None),
        Err(error) => (Report::default(), Some(error.to_string())),
    };
    let number = |severity| report.findings.iter().filter(|finding| finding.severity == severity).count();
    use fs::ubifs::check::Severity::{Error, Note, Warning};
    let name = |severity| match severity {
        Error => "error",
        Warning => "warning",
        Note => "note",
    };
    let findings = report.findings.iter().map(|finding| InFilesJson {
        severity: name(finding.severity),
        class: finding.class.name(),
        leb: finding.place.map(|(lnum, _)| lnum.0),
        offset: finding.place.map(|(_, offset)| offset),
        what: finding.what.clone(),
    });
    FileSystemJson {
        volume,
        refused,
        inodes: report.inodes,
        leaves: report.leaves,
        index_nodes: report.index_nodes,
        errors: number(Error),
        warnings: number(Warning),
        notes: number(Note),
        more: report.more,
        findings: findings.collect(),
    }
}

impl FileSystemJson {
    fn is_whole(&self) -> bool {
        self.refused.is_none() && self.errors == 0 && self.more == 0
    }

    fn lines(&self, quiet: bool, out: &mut String) {
        let of = self.volume.map_or("UBIFS".to_owned(), |volume| format!("UBIFS in volume {volume}"));
        if let Some(refused) = &self.refused {
            let _ = writeln!(out, "error[mount] {of}: {refused}");
            return;
        }
        for InFilesJson { severity, class, leb, offset, what } in &self.findings {
            if quiet && *severity == "note" {
                continue;
            }
            let _ = write!(out, "{severity}[ubifs-{class}]");
            if let Some(volume) = self.volume {
                let _ = write!(out, " volume {volume}");
            }
            if let (Some(leb), Some(offset)) = (leb, offset) {
                let _ = write!(out, " LEB {leb} offset {offset}");
            }
            let _ = writeln!(out, ": {what}");
        }
        if self.more > 0 {
            let _ = writeln!(out, "error[ubifs-index]: {} more findings, which are not listed", self.more);
        }
        let [errors, warnings, notes] = [(self.errors, "error"), (self.warnings, "warning"), (self.notes, "note")]
            .map(|(n, what)| counted(n, what));
        let (inodes, leaves, index) = (self.inodes, self.leaves, self.index_nodes);
        let _ =
            writeln!(out, "{of}: {inodes} inodes, {leaves} nodes, {index} index nodes: {errors}, {warnings}, {notes}");
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
