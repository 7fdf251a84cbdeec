//! `nandlab trace`: block traces, looked at and turned into other formats.

mod convert;
mod info;
pub mod input;
mod replay;

pub use replay::Replay;

use clap::Subcommand;

use crate::Outcome;
use crate::error::CliError;

/// What is to be done.
#[derive(Subcommand)]
pub enum Command {
    /// Tell a trace's format and pattern
    Info(info::Args),
    /// Write a trace in another format
    Convert(convert::Args),
    /// Replay a trace on a simulated drive
    Replay(replay::Args),
}

/// Runs.
pub fn run(command: Command) -> Result<Outcome, CliError> {
    match command {
        Command::Info(args) => info::run(args),
        Command::Convert(args) => convert::run(args),
        Command::Replay(args) => replay::run(args),
    }
}
