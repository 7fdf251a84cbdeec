//! The `nandlab` command: one module per subcommand.
//!
//! Only this crate and the runner access files and terminals. A subcommand returns an [`Outcome`], which determines the
//! exit code, or an [`error::CliError`], which has its own.

mod columns;
mod cuts;
mod error;
mod flame;
mod given;
mod guest;
mod identify;
mod image;
mod init;
mod interrupt;
mod kept;
mod manual;
mod mapped_file;
mod mount;
mod output;
mod parts;
mod progress;
mod report;
mod run;
mod schema;
mod serve;
mod store;
mod study;
mod summary;
mod sweep;
mod table;
mod trace;
mod watch;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A power cut of a drive clones it and boots it twice: an allocator that is quick with small pieces saves a fifth of that
/// time (`docs/performance/2026-11-25-cuts.txt`).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

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
    /// Run an experiment over a grid of values of its keys
    Sweep(sweep::Args),
    /// Repeat published tables: the published beside our numbers, and a verdict on each claim
    Study(study::Args),
    /// Cut power at every flash operation in turn, and check that everything promised survives
    Cuts(cuts::Args),
    /// Serve a simulated drive to clients in real time
    Serve(serve::Args),
    /// Linux as a guest on the simulated devices, in virtual time
    #[command(subcommand)]
    Guest(guest::Command),
    /// Print a drive's IDENTIFY data or UFS descriptors
    Identify(identify::Args),
    /// Read, check and make UBI images
    #[command(subcommand)]
    Image(image::Command),
    /// Mount the UBIFS of an image on a directory
    Mount(mount::Args),
    /// Analyze block traces, convert their format, replay them on a drive
    #[command(subcommand)]
    Trace(trace::Command),
    /// List flash parts and drives, with the source of each value
    Parts(parts::Args),
    /// Make one report page of results that were kept
    Report(report::Args),
    /// Print the JSON Schema of experiments
    Schema(schema::Args),
    /// Write the experiments and small samples that the README's commands use
    Init(init::Args),
    /// Print the completions of a shell
    Completions(manual::CompletionsArgs),
    /// Print a manual page, or write all of them
    Man(manual::ManArgs),
}

/// Result of a command that ran to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Success: exit code 0.
    Done,
    /// A claim, check or cut failed: exit code 1.
    Failed,
}

fn main() -> ExitCode {
    let command = Cli::parse().command;
    interrupt::watch();
    let outcome = match command {
        Command::Run(args) => run::run(args),
        Command::Sweep(args) => sweep::run(args),
        Command::Study(args) => study::run(args),
        Command::Cuts(args) => cuts::run(args),
        Command::Serve(args) => serve::run(args),
        Command::Guest(command) => guest::run(command),
        Command::Identify(args) => identify::run(args),
        Command::Image(command) => image::run(command),
        Command::Mount(args) => mount::run(&args),
        Command::Trace(command) => trace::run(command),
        Command::Parts(args) => parts::run(&args),
        Command::Report(args) => report::run(args),
        Command::Schema(args) => schema::run(&args),
        Command::Init(args) => init::run(&args),
        Command::Completions(args) => manual::completions(&args),
        Command::Man(args) => manual::man(&args),
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
