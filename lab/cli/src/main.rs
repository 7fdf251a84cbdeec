//! The `nandlab` command: one module for each subcommand.
//!
//! Only this crate and the runner touch the world. A subcommand returns what it means for the exit code, or an
//! [`error::CliError`], which knows its own.

mod cuts;
mod error;
mod identify;
mod image;
mod mapped_file;
mod output;
mod parts;
mod progress;
mod report;
mod run;
mod schema;
mod ssd;
mod store;
mod study;
mod trace;

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
    /// Run an experiment
    Run(run::Args),
    /// Run published tables again: theirs beside ours, and a verdict
    Study(study::Args),
    /// Cut power at every flash operation in turn, and check what survives
    Cuts(cuts::Args),
    /// Print a drive's IDENTIFY data or UFS descriptors
    Identify(identify::Args),
    /// Read, check and make UBI images
    #[command(subcommand)]
    Image(image::Command),
    /// Look at block traces, and write them in other formats
    #[command(subcommand)]
    Trace(trace::Command),
    /// List flash parts and drives, and where their values are from
    Parts(parts::Args),
    /// Make one page of runs that were kept
    Report(report::Args),
    /// Print the JSON Schema of experiments
    Schema(schema::Args),
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
        Command::Run(args) => run::run(args),
        Command::Study(args) => study::run(args),
        Command::Cuts(args) => cuts::run(args),
        Command::Identify(args) => identify::run(args),
        Command::Image(command) => image::run(command),
        Command::Trace(command) => trace::run(command),
        Command::Parts(args) => parts::run(&args),
        Command::Report(args) => report::run(args),
        Command::Schema(args) => schema::run(&args),
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
