//! `nandlab schema`: the JSON Schema of experiments.

use runner::schema::document;

use crate::Outcome;
use crate::error::CliError;
use crate::output;

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Print the reference page of every key instead
    #[arg(long)]
    markdown: bool,
}

/// Prints it.
/// Errors: standard output cannot be written.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    if args.markdown {
        output::print(&document::markdown())?;
    } else {
        output::print_json(document::json_schema())?;
    }
    Ok(Outcome::Done)
}
