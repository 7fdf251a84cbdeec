//! `nandlab image`: UBI images, read with [`ubi::image`] and made with it, and the files of UBIFS and JFFS2, in them or alone.

mod cat;
mod check;
mod compare;
mod convert;
mod ecc;
mod edit;
mod extract;
mod files;
mod flash;
mod info;
mod input;
mod json;
mod load;
mod ls;
mod map;
mod pack;
mod pebs;
mod ready;
mod tree;
mod wear;
mod whole_flash;

use clap::Subcommand;

pub use self::files::jffs2::{Image as Jffs2Image, Shape as Jffs2Shape, refused as jffs2_refused};
pub use self::files::walk::is_component;
pub use self::files::{BareVolume, Holds, Opened, choose, refused, with_loaded};
pub use self::flash::{Image, Known};
pub use self::input::{Loaded, file};
pub use self::load::{Source, number32, size32};

use crate::Outcome;
use crate::error::CliError;

/// Subcommands of `nandlab image`.
#[derive(Subcommand)]
pub enum Command {
    /// Print geometry, PEBs, volumes, erase counters, sequence numbers and fastmap of an image
    Info(info::Args),
    /// List the volumes of an image, or the files in a volume
    Ls(ls::Args),
    /// Print a file of an image
    Cat(cat::Args),
    /// Write the files of each volume with UBIFS or JFFS2, and the contents of the others
    Extract(extract::Args),
    /// Make an image from a directory, as mkfs.ubifs and ubinize do, or from an ini file, byte for byte as ubinize does, or
    /// a whole flash, as ubiformat does
    Pack(pack::Args),
    /// Add OOB to a dump, or remove it
    Convert(convert::Args),
    /// Edit a flash image: volumes, their contents, erase counters, the fastmap
    Edit(edit::Args),
    /// List every inconsistency of an image; exit code 1 if one is an error
    Check(check::Args),
    /// Print a histogram and a map of erase counters
    Wear(wear::Args),
    /// Print which PEB holds each LEB, as a table, JSON or CSV
    Map(map::Args),
    /// Print state, LEB, sequence number and erase counter of each PEB, as a table, JSON or CSV
    Pebs(pebs::Args),
    /// List what differs between two images: volumes, LEBs, erase counters, fastmap; exit code 1 if anything does
    Compare(compare::Args),
}

/// Runs the subcommand.
pub fn run(command: Command) -> Result<Outcome, CliError> {
    match command {
        Command::Info(args) => info::run(&args),
        Command::Ls(args) => ls::run(&args),
        Command::Cat(args) => cat::run(&args),
        Command::Extract(args) => extract::run(&args),
        Command::Pack(args) => pack::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Edit(args) => edit::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Wear(args) => wear::run(&args),
        Command::Map(args) => map::run(&args),
        Command::Pebs(args) => pebs::run(&args),
        Command::Compare(args) => compare::run(&args),
    }
}
