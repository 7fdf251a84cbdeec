//! `--flame FILE`: the flame graph of a run, as a picture or as text.

use std::path::Path;

use runner::flame;
use runner::measure::Outcome;
use runner::run::Prepared;

use crate::error::CliError;
use crate::output::{self, Overwrite};

/// Whether the file is text for other programs, and no picture.
/// Errors: the file name's ending is of neither.
fn is_text(path: &Path) -> Result<bool, CliError> {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("svg") => Ok(false),
        Some("folded") => Ok(true),
        _ => Err(CliError::input(
            path,
            "found a name of another kind, expected one that ends in .svg or .folded",
            "name a picture, as out.svg, or the stacks as text for other programs, as out.folded",
        )),
    }
}

/// Prepares a run for its graph, before it begins.
/// Errors: a file that cannot be written.
pub fn prepare(prepared: Prepared, path: &Path, overwrite: &Overwrite) -> Result<Prepared, CliError> {
    is_text(path)?;
    overwrite.permit(path)?;
    Ok(prepared.with_flame())
}

/// Writes the graph of a run. Returns a line that says so.
/// Errors: the file cannot be written.
pub fn write(path: &Path, found: &Outcome, overwrite: &Overwrite) -> Result<String, CliError> {
    let graph = found.measured.flame.as_deref().cloned().unwrap_or_default();
    let text = if is_text(path)? { graph.folded() } else { flame::svg(&graph, &found.experiment.title) };
    output::write(path, text.as_bytes(), overwrite)?;
    Ok(format!("flame graph of virtual time in {}\n", path.display()))
}
