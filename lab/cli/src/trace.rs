//! `nandlab trace`: analyzes, converts and replays block traces.

pub mod convert;
pub mod info;
pub mod input;
mod replay;

pub use replay::Replay;

use clap::Subcommand;

use crate::Outcome;
use crate::error::CliError;

/// Subcommands of `nandlab trace`.
#[derive(Subcommand)]
pub enum Command {
    /// Print a trace's format and access pattern
    Info(info::Args),
    /// Write a trace in another format
    Convert(convert::Args),
    /// Replay a trace on a simulated drive
    Replay(replay::Args),
}

/// Runs the subcommand.
pub fn run(command: Command) -> Result<Outcome, CliError> {
    match command {
        Command::Info(args) => info::run(args),
        Command::Convert(args) => convert::run(args),
        Command::Replay(args) => replay::run(args),
    }
}
