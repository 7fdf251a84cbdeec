//! `nandlab mount`: the file system of an image as a directory of this machine, by FUSE.

mod bridge;
mod clock;
mod convert;
mod overlay;
mod requests;
mod session;
#[cfg(test)]
mod tests;
mod writable;

use std::path::{Path, PathBuf};

use self::bridge::Bridge;
use self::clock::Clock;
use self::session::{How, Mounted};
use self::writable::{Request, Written};
use crate::Outcome;
use crate::error::CliError;
use crate::image::{self, Source, number32, size32};
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
    /// Let files be changed; the changes are written to IMAGE when it is unmounted, and not before
    #[arg(long)]
    rw: bool,
    /// Keep changes in FILE and leave IMAGE as it is; the next mount with FILE goes on there, without --rw to read
    #[arg(long, value_name = "FILE")]
    overlay: Option<PathBuf>,
    /// PEBs of the flash, LEBs of UBIFS without UBI, or eraseblocks of JFFS2: those after the image are erased [default: those of the image, and of UBI that was never attached a quarter more, at least 32]
    #[arg(long, value_name = "N", value_parser = number32, requires = "rw")]
    pebs: Option<u32>,
    /// Bytes of a sub-page [default: as the VID header's offset allows]
    #[arg(long, value_name = "BYTES", value_parser = size32, requires = "rw")]
    sub_page_size: Option<u32>,
    /// Let other users in too; permissions are checked for them [default: only you]
    #[arg(long)]
    allow_other: bool,
}

/// Runs the command until the directory is unmounted.
/// Errors: an image without a file system that can be mounted; a directory that cannot be mounted on; what was changed
/// cannot be written.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    let dir = session::mount_point(&args.dir)?;
    let how = How { source: args.source.name(), read_only: !args.rw, allow_other: args.allow_other };
    if args.rw {
        let request = Request {
            source: &args.source,
            volume: args.volume.as_deref(),
            subpage_bytes: args.sub_page_size,
            pebs: args.pebs,
            overlay: args.overlay.as_deref(),
        };
        let written =
            writable::with(&request, &mut |fs, cx| serve(&dir, &how, Bridge::new(fs, cx, Clock::SINCE_1970)))?;
        let Written { changed, blocks, unit } = written;
        let target = args.overlay.as_deref().unwrap_or(&args.source.image).display();
        output::print(&format!("{changed} of {blocks} {unit} changed, written to {target}\n"))?;
        return Ok(Outcome::Done);
    }
    let loaded = match &args.overlay {
        Some(overlay) => writable::overlaid(&args.source, overlay)?,
        None => args.source.load()?,
    };
    let ((), outcome) = image::with_loaded(&args.source, &loaded, args.volume.as_deref(), |files| {
        serve(&dir, &how, Bridge::new(bridge::served(&mut files.fs), &mut files.cx, Clock::SINCE_1970))
    })?;
    Ok(outcome)
}

fn serve(dir: &Path, how: &How, bridge: Bridge<'_>) -> Result<(), CliError> {
    let ending = Ending::on_signal().map_err(|error| CliError::read(dir, &error))?;
    let mounted = Mounted::new(dir, how)?;
    mounted.end_on_signal(ending);
    let access = if how.read_only { "for reading" } else { "for reading and writing" };
    output::print(&format!("{} on {} {access}; Ctrl-C or `umount` ends it\n", how.source, dir.display()))?;
    mounted.serve(bridge)
}
