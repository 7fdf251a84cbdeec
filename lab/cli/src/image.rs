//! `nandlab image`: UBI images, read with [`ubi::image`] and made with it.

mod check;
mod extract;
mod info;
mod json;
mod load;
mod ls;
mod pack;
mod wear;

use clap::Subcommand;

use crate::Outcome;
use crate::error::CliError;

/// What is to be done.
#[derive(Subcommand)]
pub enum Command {
    /// Geometry, PEBs, volumes, erase counters, sequence numbers and fastmap of an image
    Info(info::Args),
    /// The volumes of an image
    Ls(ls::Args),
    /// Write each volume's contents to a file
    Extract(extract::Args),
    /// Make an image as ubinize does, byte for byte
    Pack(pack::Args),
    /// Name every inconsistency of an image; exit code 1 if one is an error
    Check(check::Args),
    /// Histogram and map of erase counters
    Wear(wear::Args),
}

/// Runs the subcommand.
pub fn run(command: Command) -> Result<Outcome, CliError> {
    match command {
        Command::Info(args) => info::run(&args),
        Command::Ls(args) => ls::run(&args),
        Command::Extract(args) => extract::run(&args),
        Command::Pack(args) => pack::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Wear(args) => wear::run(&args),
    }
}
