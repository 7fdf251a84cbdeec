//! `nandlab report`: makes one page of results that were kept.

use std::path::PathBuf;

use runner::measure::Outcome as Found;
use runner::report;

use crate::Outcome;
use crate::error::CliError;
use crate::output::{self, Overwrite};

/// Arguments of `nandlab report`.
#[derive(clap::Args)]
pub struct Args {
    /// Directories that `nandlab run --out` wrote, or their result.json files
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// The HTML page to write
    #[arg(short, long, default_value = "report.html")]
    out: PathBuf,
    /// Overwrite the page if it exists
    #[arg(long)]
    force: bool,
}

/// Runs the command.
/// Errors: a file that cannot be read or is no result; a page that cannot be written.
pub fn run(args: Args) -> Result<Outcome, CliError> {
    let file = |path: &PathBuf| if path.is_dir() { path.join("result.json") } else { path.clone() };
    let files: Vec<PathBuf> = args.runs.iter().map(file).collect();
    let overwrite = Overwrite::new(args.force, files.iter().map(PathBuf::as_path));
    overwrite.permit(&args.out)?;
    let mut found: Vec<Found> = Vec::new();
    for file in &files {
        let text = std::fs::read_to_string(file).map_err(|error| CliError::read(file, &error))?;
        found.push(Found::read(&text).map_err(|error| {
            let what = format!("found no result of a run: {error}");
            CliError::input(file, what, "name a directory that `nandlab run --out` of this version wrote")
        })?);
    }
    let runs: Vec<_> = found.iter().map(|run| (run.experiment.title.clone(), run)).collect();
    let document = report::of_runs(&runs);
    output::write(&args.out, report::page(&document).as_bytes(), &overwrite)?;
    for line in report::answer::comparison(&runs) {
        output::print(&format!("{line}\n"))?;
    }
    output::print(&format!("open {}\n", args.out.display()))?;
    Ok(Outcome::Done)
}
