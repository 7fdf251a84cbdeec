//! `nandlab image check`: lists every inconsistency.

use std::fmt::Write;

use serde::Serialize;
use ubi::image::{Dump, Finding, Scan, Severity, check};

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

/// Runs the command. It fails if a finding is an error.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    let loaded = args.source.load()?;
    // A mixture of devices is checked as Linux would find it, and fails.
    let dump = args.source.probe(&loaded)?;
    args.source.remark(&dump);
    let findings = check(&Scan::new(&dump));
    args.source.was_read(&loaded)?;
    let file_offset = |finding: &Finding| place(&dump, finding).map(|at| at + args.source.how.offset);
    let [errors, warnings, notes] =
        [Severity::Error, Severity::Warning, Severity::Note].map(|severity| tally(&findings, severity));
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
                findings: findings.collect(),
            },
        )?;
    } else {
        let mut out = String::new();
        for finding in findings.iter().filter(|finding| !args.quiet || finding.severity != Severity::Note) {
            let _ = writeln!(out, "{}", line(finding, file_offset(finding)));
        }
        let [errors, warnings, notes] =
            [(errors, "error"), (warnings, "warning"), (notes, "note")].map(|(n, what)| counted(n, what));
        let _ = writeln!(out, "{}: {errors}, {warnings}, {notes}", args.source.name());
        output::print(&out)?;
    }
    Ok(if errors == 0 { Outcome::Done } else { Outcome::Failed })
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
