//! `nandlab schema`: prints the JSON Schema of experiments.

use runner::schema::document;

use crate::Outcome;
use crate::error::CliError;
use crate::output;

/// Arguments of `nandlab schema`.
#[derive(clap::Args)]
pub struct Args {
    /// Print the reference page of all keys, in Markdown
    #[arg(long)]
    markdown: bool,
}

/// Runs the command.
/// Errors: standard output cannot be written.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    if args.markdown {
        output::print(&document::markdown())?;
    } else {
        output::print(&format!("{:#}\n", document::json_schema_of_files()))?;
    }
    Ok(Outcome::Done)
}
