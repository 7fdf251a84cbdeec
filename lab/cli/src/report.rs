//! `nandlab report`: one page from runs that were kept.

use std::path::PathBuf;

use runner::outcome::Outcome as Found;
use runner::report;
use runner::ssd::SsdOutcome;
use runner::study;
use serde_json::Value;

use crate::Outcome;
use crate::error::CliError;
use crate::output::{self, NewFile};

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Directories that `nandlab run --out` wrote, or their result.json files
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// The page
    #[arg(short, long, default_value = "report.html")]
    out: PathBuf,
    /// Overwrite it
    #[arg(long)]
    force: bool,
}

/// Writes the page.
/// Errors: a result that cannot be read or is none; a page that cannot be written.
pub fn run(args: Args) -> Result<Outcome, CliError> {
    let mut found: Vec<(String, Found)> = Vec::new();
    let mut drives: Vec<(String, SsdOutcome)> = Vec::new();
    for path in &args.runs {
        let file = if path.is_dir() { path.join("result.json") } else { path.clone() };
        let text = std::fs::read_to_string(&file).map_err(|error| CliError::read(&file, &error))?;
        let unusable = |error: serde_json::Error| {
            CliError::input(
                &file,
                format!("found no result of a run: {error}"),
                "name a directory that `nandlab run --out` wrote",
            )
        };
        let document: Value = serde_json::from_str(&text).map_err(unusable)?;
        if document["kind"] == "ssd" {
            let outcome: SsdOutcome = serde_json::from_value(document).map_err(unusable)?;
            drives.push((outcome.experiment.title.clone(), outcome));
        } else {
            let outcome: Found = serde_json::from_value(document).map_err(unusable)?;
            found.push((outcome.experiment.title.clone(), outcome));
        }
    }
    let document = match (&found[..], &drives[..]) {
        ([(_, one)], []) => report::of_run(one),
        ([], drives) => {
            let runs: Vec<_> = drives.iter().map(|(name, outcome)| (name.clone(), outcome)).collect();
            runner::ssd::report::of_runs(&runs)
        }
        _ => {
            let wear = |(name, run): &(String, Found)| (name.clone(), study::Found::Wear(Box::new(run.clone())));
            let drive = |(name, run): &(String, SsdOutcome)| (name.clone(), study::Found::Ssd(Box::new(run.clone())));
            let all: Vec<(String, study::Found)> = found.iter().map(wear).chain(drives.iter().map(drive)).collect();
            let runs: Vec<(String, &study::Found)> = all.iter().map(|(name, run)| (name.clone(), run)).collect();
            report::of_studies("several runs", &runs, &[])
        }
    };
    let mut file = NewFile::create(&args.out, args.force)?;
    file.write(report::page(&document).as_bytes())?;
    file.finish(args.force)?;
    output::print(&format!("open {}\n", args.out.display()))?;
    Ok(Outcome::Done)
}
