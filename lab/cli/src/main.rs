//! The `nandlab` command: one module for each subcommand.
//!
//! Only this crate and the runner touch the world. A subcommand returns what it means for the exit code, or an
//! [`error::CliError`], which knows its own.

mod error;
mod image;
mod output;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A laboratory for flash storage.
#[derive(Parser)]
#[command(name = "nandlab", version, about, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Read, check and make UBI images
    Image(image::Args),
}

/// How a command that ran to its end went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Done: exit code 0.
    Done,
    /// A check failed: exit code 1.
    Failed,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Image(args) => image::run(args),
    };
    match outcome {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Failed) => ExitCode::from(1),
        Err(error) => {
            eprintln!("{}", error.report());
            ExitCode::from(error.exit_code())
        }
    }
}
