//! `nandlab mount`: the file system of an image as a directory of this machine, by FUSE.

mod bridge;
mod clock;
mod convert;
mod requests;
mod session;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use self::bridge::Bridge;
use self::clock::Clock;
use self::session::{How, Mounted};
use crate::Outcome;
use crate::error::CliError;
use crate::image::{self, Source};
use crate::interrupt::Ending;
use crate::output;

/// Arguments of `nandlab mount`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: Source,
    /// Directory to mount on
    dir: PathBuf,
    /// The volume, by name or number, where several hold a file system
    #[arg(long, value_name = "NAME")]
    volume: Option<String>,
    /// Let other users in too; permissions are checked for them [default: only you]
    #[arg(long)]
    allow_other: bool,
}

/// Runs the command until the directory is unmounted.
/// Errors: an image without a file system that can be read; a directory that cannot be mounted on.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    let dir = session::mount_point(&args.dir)?;
    let how = How { source: args.source.name(), read_only: true, allow_other: args.allow_other };
    image::with_files(&args.source, args.volume.as_deref(), |files| {
        serve(&dir, &how, Bridge::new(&mut files.reader, &mut files.cx, Clock::SINCE_1970))
    })?;
    Ok(Outcome::Done)
}

fn serve(dir: &Path, how: &How, bridge: Bridge<'_>) -> Result<(), CliError> {
    let ending = Ending::on_signal().map_err(|error| CliError::read(dir, &error))?;
    let mounted = Mounted::new(dir, how)?;
    mounted.end_on_signal(ending);
    let access = if how.read_only { "for reading" } else { "for reading and writing" };
    output::print(&format!("{} on {} {access}; Ctrl-C or `umount` ends it\n", how.source, dir.display()))?;
    mounted.serve(bridge)
}
