//! `nandlab image pack TREE --jffs2`: an image of JFFS2 from a directory, as mkfs.jffs2 and sumtool make it.

use std::path::Path;

use ::fs::jffs2::media::Endian;
use ::fs::jffs2::mkfs::{Made, Mkfs, MkfsError, Options, Pad};
use ::fs::jffs2::{Compress, Packer};
use ::fs::ubifs::media::Compression;
use serde::Serialize;

use super::host::{Read, Walk};
use super::{Kind, TreeArgs, check_place, device_table};
use crate::Outcome;
use crate::error::CliError;
use crate::image::info::bytes;
use crate::image::load::{size32, size64};
use crate::output::{self, NewFile, Overwrite};

/// Arguments for JFFS2: the options of `mkfs.jffs2`.
#[derive(clap::Args)]
pub struct Jffs2Args {
    /// Pack the directory into JFFS2, for a NOR or a raw NAND; --peb-size is that of an eraseblock [default: 64 KiB]
    #[arg(long, help_heading = JFFS2)]
    pub jffs2: bool,
    /// Write numbers with the greatest byte first [default: the least byte first]
    #[arg(short, long, requires = "jffs2", help_heading = JFFS2)]
    big_endian: bool,
    /// Fill up with empty eraseblocks to BYTES, or the last eraseblock with 0xFF [default: end after the last node]
    #[arg(long, value_name = "BYTES", value_parser = size64, num_args = 0..=1, requires = "jffs2", help_heading = JFFS2)]
    pad: Option<Option<u64>>,
    /// Begin no eraseblock with a clean marker, as on a NAND, whose clean markers are in the OOB
    #[arg(short, long, requires = "jffs2", help_heading = JFFS2)]
    no_cleanmarkers: bool,
    /// Bytes of a clean marker [default: 12]
    #[arg(
        long,
        value_name = "BYTES",
        value_parser = size32,
        requires = "jffs2",
        conflicts_with = "no_cleanmarkers",
        help_heading = JFFS2
    )]
    cleanmarker_size: Option<u32>,
    /// Most bytes of a file in a node: the page of the processor that mounts it [default: 4096]
    #[arg(long, value_name = "BYTES", value_parser = size32, requires = "jffs2", help_heading = JFFS2)]
    page_size: Option<u32>,
    /// End each full eraseblock with a summary, as sumtool does: a mount is faster
    #[arg(long, requires = "jffs2", help_heading = JFFS2)]
    summary: bool,
}

const JFFS2: &str = "Options for a directory that becomes JFFS2";
/// Bytes of an eraseblock, unless told otherwise: as mkfs.jffs2.
const DEFAULT_BLOCK: u32 = 64 << 10;

/// What `pack` was asked for besides.
pub struct Request<'a> {
    /// The directory.
    pub tree: &'a Path,
    /// The image to write.
    pub output: &'a Path,
    /// Whether it may be overwritten.
    pub force: bool,
    /// Whether to print JSON.
    pub json: bool,
    /// Bytes of an eraseblock.
    pub block_bytes: Option<u32>,
}

#[derive(Serialize)]
struct Document {
    file: String,
    bytes: u64,
    jffs2: Jffs2Json,
}

#[derive(Serialize)]
struct Jffs2Json {
    endian: &'static str,
    block_bytes: u32,
    blocks: u64,
    used_blocks: u32,
    summaries: u32,
    inodes: u32,
    nodes: u64,
    files: u64,
    data_bytes: u64,
    packed_bytes: u64,
}

/// How data are compressed. Errors: a way that JFFS2 does not have.
fn compress(kind: Option<Kind>) -> Result<Compress, CliError> {
    Ok(match kind {
        // What mkfs.jffs2 does.
        None => Compress::Priority(&[Packer::Zlib, Packer::Rtime]),
        Some(Kind::Always(Compression::None)) => Compress::None,
        Some(Kind::Always(Compression::Lzo)) => Compress::Priority(&[Packer::Lzo]),
        Some(Kind::Always(Compression::Zlib)) => Compress::Priority(&[Packer::Zlib]),
        Some(Kind::Rtime) => Compress::Priority(&[Packer::Rtime]),
        Some(Kind::Smallest) => Compress::Size(Packer::ALL),
        Some(Kind::Always(Compression::Zstd) | Kind::FavorLzo) => {
            let what = "found what only UBIFS has, expected none, rtime, zlib, lzo or smallest";
            return Err(CliError::input(Path::new("--compress"), what, "choose one of these, or leave out --jffs2"));
        }
    })
}

/// Packs a directory. The options are checked before the output is created.
pub fn run(args: &Jffs2Args, tree_args: &TreeArgs, request: &Request<'_>) -> Result<Outcome, CliError> {
    let Request { tree, output, force, json, block_bytes } = *request;
    let block_bytes = block_bytes.unwrap_or(DEFAULT_BLOCK);
    check_place(tree, output)?;
    let table = device_table(tree_args)?;
    let pad = match args.pad {
        None => Pad::No,
        Some(None) => Pad::Block,
        Some(Some(size)) if size.is_multiple_of(block_bytes.max(1).into()) => Pad::Size(size),
        Some(Some(size)) => {
            let what = format!("found {size} bytes, expected whole eraseblocks of {block_bytes} bytes");
            return Err(CliError::input(Path::new("--pad"), what, "give the size of the flash or of its partition"));
        }
    };
    let options = Options {
        endian: if args.big_endian { Endian::Big } else { Endian::Little },
        block_bytes,
        page_bytes: args.page_size.unwrap_or(::fs::jffs2::media::PAGE_BYTES),
        clean_marker: match args.no_cleanmarkers {
            true => None,
            false => Some(args.cleanmarker_size.unwrap_or(::fs::jffs2::media::HEADER_BYTES as u32)),
        },
        summary: args.summary,
        compress: compress(tree_args.compress)?,
    };
    let overwrite = Overwrite::new(force, tree_args.device_table.iter().map(|path| &**path));
    let mut out = NewFile::create(output, &overwrite)?;
    let sink = Box::new(|block: &[u8]| out.write(block));
    let impossible = |error: ::fs::jffs2::mkfs::OptionError| {
        CliError::input(output, error.to_string(), "correct it; --help tells what it is")
    };
    let mut mkfs = Mkfs::new(options, sink).map_err(impossible)?;
    let mut walk = Walk::new(&mut mkfs, tree, tree_args.squash_uids);
    let read = walk.read(&table).map_err(|error| failed(walk.path(), error))?;
    let made = mkfs.finish(pad).map_err(|error| failed(output, error))?;
    out.finish()?;
    if read.left_out != 0 {
        let what = "attributes of other name spaces than user, security and trusted";
        eprintln!("note: {}: JFFS2 has no {what}: {} are left out", tree.display(), read.left_out);
    }
    let document = document(output, &options, &made, &read);
    if json {
        output::print_json("nandlab/image-pack/1", &document)?;
    } else {
        output::print(&summary(&document))?;
    }
    Ok(Outcome::Done)
}

/// The error of a file system that cannot be made.
fn failed(path: &Path, error: MkfsError<CliError>) -> CliError {
    let help = match &error {
        MkfsError::Sink(_) => "",
        MkfsError::Limit { what, .. } if what.starts_with("number of") => {
            "make root the owner with --squash-uids, or give another one in a --device-table"
        }
        MkfsError::Limit { what: "bytes of a node", .. } => "give a larger --peb-size, or leave the attribute out",
        MkfsError::Limit { .. } => "leave it out: JFFS2 has no larger ones",
        MkfsError::Acl => "remove it: setfacl -b FILE",
        MkfsError::TooLarge { .. } => "give more bytes with --pad, as many as the flash has",
    };
    match error {
        MkfsError::Sink(error) => error,
        error => CliError::input(path, error.to_string(), help),
    }
}

fn document(file: &Path, options: &Options, made: &Made, read: &Read) -> Document {
    let &Made { bytes, blocks, summaries, inodes, nodes, packed_bytes } = made;
    Document {
        file: file.display().to_string(),
        bytes,
        jffs2: Jffs2Json {
            endian: options.endian.name(),
            block_bytes: options.block_bytes,
            blocks: bytes.div_ceil(options.block_bytes.into()),
            used_blocks: blocks,
            summaries,
            inodes,
            nodes,
            files: read.files,
            data_bytes: read.bytes,
            packed_bytes,
        },
    }
}

fn summary(document: &Document) -> String {
    let Document { file, bytes: whole, jffs2 } = document;
    let summaries = if jffs2.summaries > 0 { format!(", {} with a summary", jffs2.summaries) } else { String::new() };
    format!(
        "{file}: {}, {} eraseblocks of {}\n  JFFS2, {}-endian: {} files, {}, compressed {}; {} eraseblocks used{summaries}\n",
        bytes(*whole),
        jffs2.blocks,
        bytes(jffs2.block_bytes.into()),
        jffs2.endian,
        jffs2.files,
        bytes(jffs2.data_bytes),
        bytes(jffs2.packed_bytes),
        jffs2.used_blocks,
    )
}
