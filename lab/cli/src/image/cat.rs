//! `nandlab image cat`: prints a file of the file system in an image.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use sim::seam::FileType;

use super::files::{self, walk::type_name};
use super::input;
use super::load::Source;
use super::ls::printable;
use crate::Outcome;
use crate::error::CliError;

/// Bytes read at a time.
const CHUNK: usize = 256 << 10;

/// Arguments of `nandlab image cat`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: Source,
    /// Path of the file in the image
    path: OsString,
    /// The volume, by name or number, where several hold a file system
    #[arg(long, value_name = "NAME")]
    volume: Option<String>,
}

/// Runs the command: the bytes of a regular file, or the target of a symbolic link and a new line.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    let ((), outcome) = files::with(&args.source, args.volume.as_deref(), |files| {
        let inode = files.at(args.path.as_bytes())?;
        let mut out = io::stdout().lock();
        if let Some(loss) = files.fs.losses(&inode).first() {
            let what = format!("{:?}: {}", printable(args.path.as_bytes()), loss.what);
            let help = "`nandlab image extract` gives what is left of it";
            return Err(CliError::input(input::name(&args.source.image), what, help));
        }
        match inode.attr.file_type {
            FileType::Regular => {}
            FileType::Symlink => {
                let line = [&inode.target[..], b"\n"].concat();
                return written(out.write_all(&line).and_then(|()| out.flush()));
            }
            other => {
                let what =
                    format!("found a {} at {:?}, expected a file", type_name(other), printable(args.path.as_bytes()));
                return Err(CliError::input(input::name(&args.source.image), what, "`nandlab image ls` lists them"));
            }
        }
        let mut chunk = vec![0; CHUNK];
        let mut offset = 0;
        loop {
            let read = files.fs.read(&mut files.cx, &inode, offset, &mut chunk);
            let read = read.map_err(|error| files.failed(&error))?;
            if read == 0 {
                return written(out.flush());
            }
            match out.write_all(&chunk[..read]) {
                Ok(()) => offset += read as u64,
                failed => return written(failed),
            }
        }
    })?;
    Ok(outcome)
}

/// A reader that closed the pipe is no error.
fn written(result: io::Result<()>) -> Result<(), CliError> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CliError::write(Path::new("standard output"), &error))
        }
        _ => Ok(()),
    }
}
