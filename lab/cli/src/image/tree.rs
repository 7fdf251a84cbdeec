//! `nandlab image pack TREE`: an image of UBIFS from a directory, as mkfs.ubifs and ubinize make it. JFFS2 is made by
//! [`jffs2`].

mod host;
pub mod jffs2;
mod out;
mod table;
mod target;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use ::fs::ubifs::media::{Compression, KeyHash, SuperBlock, sb_flags};
use ::fs::ubifs::mkfs::{Compress, Made, Mkfs, MkfsError, Options, Reserve};
use serde::Serialize;
use ubi::image::pack::{Image, Layout, Options as UbiOptions};
use ubi::media::VtblRecord;

use self::host::{Read, Walk};
use self::out::{Out, Volume, refused};
use super::info::bytes;
use super::load::{number32, size32, size64};
use crate::Outcome;
use crate::error::CliError;
use crate::output::{self, Overwrite, place_of};

/// Arguments for a tree: the options of `mkfs.ubifs`, and those of `ubinize` for the only volume.
#[derive(clap::Args)]
pub struct TreeArgs {
    /// Of a directory: write UBIFS alone, for ubinize or ubiupdatevol
    #[arg(long, help_heading = TREE)]
    bare: bool,
    /// Bytes of a LEB [default: what the headers leave of a PEB]
    #[arg(long, value_name = "BYTES", value_parser = size32, help_heading = TREE)]
    leb_size: Option<u32>,
    /// LEBs to which the file system may grow [default: those of --volume-size, else 4 GiB]
    #[arg(short = 'c', long, value_name = "N", value_parser = number32, help_heading = TREE)]
    max_leb_cnt: Option<u32>,
    /// Compression: none, lzo, zlib, zstd, or favor-lzo, which takes zlib where it is much better [default: lzo]. Of JFFS2:
    /// none, rtime, zlib, lzo, or smallest, which tries all [default: zlib, and rtime where that fails]
    #[arg(long, alias = "compr", value_name = "KIND", value_parser = compression, help_heading = TREE)]
    compress: Option<Kind>,
    /// With favor-lzo: per cent by which zlib must be better [default: 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..100), help_heading = TREE)]
    favor_percent: Option<u32>,
    /// Name of the volume [default: rootfs]
    #[arg(long, value_name = "NAME", help_heading = TREE)]
    volume_name: Option<String>,
    /// Bytes of the volume, in whole LEBs [default: what it needs, and at the first attach what is left of the flash]
    #[arg(long, value_name = "BYTES", value_parser = size64, help_heading = TREE)]
    volume_size: Option<u64>,
    /// Erase free space at the first mount, for programmers that write pages of 0xFF
    #[arg(short = 'F', long, help_heading = TREE)]
    space_fixup: bool,
    /// Device table, as mkfs.ubifs and mkfs.jffs2 read it: devices that are not in the tree, owners and modes of what is
    #[arg(short = 'D', long, alias = "devtable", value_name = "FILE", help_heading = TREE)]
    device_table: Option<PathBuf>,
    /// Make root the owner of all files
    #[arg(short = 'U', long, help_heading = TREE)]
    squash_uids: bool,
    /// Branches of an index node [default: 8]
    #[arg(short, long, value_name = "N", value_parser = number32, help_heading = TREE)]
    fanout: Option<u32>,
    /// Bytes of the journal [default: an eighth of the LEBs, 8 MiB at most]
    #[arg(short, long, value_name = "BYTES", value_parser = size64, help_heading = TREE)]
    jrn_size: Option<u64>,
    /// LEBs of the log [default: what the journal needs]
    #[arg(short, long, value_name = "N", value_parser = number32, help_heading = TREE)]
    log_lebs: Option<u32>,
    /// LEBs for inodes that are deleted while they are open [default: 1]
    #[arg(long, value_name = "N", value_parser = number32, help_heading = TREE)]
    orph_lebs: Option<u32>,
    /// Bytes that only root may fill [default: 0]
    #[arg(short = 'R', long, value_name = "BYTES", value_parser = size64, help_heading = TREE)]
    reserved: Option<u64>,
    /// Hash of names: r5, or test, the first four bytes [default: r5]
    #[arg(short, long, value_name = "KIND", value_parser = key_hash, help_heading = TREE)]
    keyhash: Option<KeyHash>,
    /// UUID, in hexadecimal [default: from the contents]
    #[arg(long, value_name = "UUID", value_parser = uuid, help_heading = TREE)]
    uuid: Option<[u8; 16]>,
}

/// The first of these options that was given.
pub fn first_of(options: impl IntoIterator<Item = (&'static str, bool)>) -> Option<&'static str> {
    options.into_iter().find(|(_, given)| *given).map(|(option, _)| option)
}

/// Errors: the output is in the tree that is packed.
fn check_place(tree: &Path, output: &Path) -> Result<(), CliError> {
    if place_of(output).starts_with(place_of(tree)) {
        let what = "found it inside of the tree that is packed, expected another place";
        return Err(CliError::input(output, what, "give another name"));
    }
    Ok(())
}

/// The root of the device table; an empty one if there is none.
fn device_table(args: &TreeArgs) -> Result<table::Node, CliError> {
    match &args.device_table {
        None => Ok(table::Node::default()),
        Some(path) => table::parse(path, &std::fs::read(path).map_err(|error| CliError::read(path, &error))?),
    }
}

const TREE: &str = "Options for a directory";
/// Room of a file system that may become as large as its flash, unless told otherwise.
const DEFAULT_BYTES: u64 = 4 << 30;

/// A compression, before it is known by how much zlib must be better.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Always(Compression),
    FavorLzo,
    Rtime,
    Smallest,
}

fn compression(text: &str) -> Result<Kind, String> {
    let always = Compression::ALL.into_iter().find(|kind| kind.name() == text);
    match (always, text) {
        (Some(kind), _) => Ok(Kind::Always(kind)),
        (None, "favor-lzo" | "favor_lzo") => Ok(Kind::FavorLzo),
        (None, "rtime") => Ok(Kind::Rtime),
        (None, "smallest") => Ok(Kind::Smallest),
        _ => Err("expected none, lzo, zlib, zstd or favor-lzo; of JFFS2 none, rtime, zlib, lzo or smallest".to_owned()),
    }
}

fn key_hash(text: &str) -> Result<KeyHash, String> {
    match text {
        "r5" => Ok(KeyHash::R5),
        "test" => Ok(KeyHash::Test),
        _ => Err("expected r5 or test".to_owned()),
    }
}

fn uuid(text: &str) -> Result<[u8; 16], String> {
    let digits: String = text.chars().filter(|&c| c != '-').collect();
    let number = u128::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 32);
    number.map(u128::to_be_bytes).ok_or_else(|| "expected 32 hexadecimal digits".to_owned())
}

impl TreeArgs {
    /// The first option that is for a directory only, if one was given.
    pub fn given(&self) -> Option<&'static str> {
        let common = [
            ("--compress", self.compress.is_some()),
            ("--device-table", self.device_table.is_some()),
            ("--squash-uids", self.squash_uids),
        ];
        self.given_of_ubifs().or(first_of(common))
    }

    /// The first option that is for UBIFS only, if one was given.
    pub fn given_of_ubifs(&self) -> Option<&'static str> {
        let all = [
            ("--bare", self.bare),
            ("--leb-size", self.leb_size.is_some()),
            ("--max-leb-cnt", self.max_leb_cnt.is_some()),
            ("--favor-percent", self.favor_percent.is_some()),
            ("--volume-name", self.volume_name.is_some()),
            ("--volume-size", self.volume_size.is_some()),
            ("--space-fixup", self.space_fixup),
            ("--fanout", self.fanout.is_some()),
            ("--jrn-size", self.jrn_size.is_some()),
            ("--log-lebs", self.log_lebs.is_some()),
            ("--orph-lebs", self.orph_lebs.is_some()),
            ("--reserved", self.reserved.is_some()),
            ("--keyhash", self.keyhash.is_some()),
            ("--uuid", self.uuid.is_some()),
        ];
        first_of(all)
    }

    fn options(&self, min_io_bytes: u32, leb_bytes: u32, max_lebs: u32) -> Options {
        let defaults = Options::new(min_io_bytes, leb_bytes, max_lebs);
        Options {
            compress: match self.compress {
                None | Some(Kind::Rtime | Kind::Smallest) => defaults.compress,
                Some(Kind::Always(kind)) => Compress::Always(kind),
                Some(Kind::FavorLzo) => Compress::FavorLzo { percent: self.favor_percent.unwrap_or(20) },
            },
            fanout: self.fanout.unwrap_or(defaults.fanout),
            key_hash: self.keyhash.unwrap_or(defaults.key_hash),
            journal_bytes: self.jrn_size,
            log_lebs: self.log_lebs,
            orphan_lebs: self.orph_lebs.unwrap_or(defaults.orphan_lebs),
            reserve: self.reserved.map_or(defaults.reserve, Reserve::Data),
            space_fixup: self.space_fixup,
            uuid: self.uuid,
            ..defaults
        }
    }
}

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
    /// Sizes of the flash, and of the headers.
    pub ubi: UbiOptions,
    /// Image sequence number, if one is wanted.
    pub image_seq: Option<u32>,
}

#[derive(Serialize)]
struct Document {
    file: String,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none", flatten)]
    ubi: Option<UbiJson>,
    ubifs: UbifsJson,
}

#[derive(Serialize)]
struct UbiJson {
    pebs: u64,
    needed_pebs: u64,
    peb_bytes: u32,
    leb_bytes: u32,
    vid_hdr_offset: u32,
    data_offset: u32,
    image_seq: u32,
    volumes: [VolumeJson; 1],
}

#[derive(Serialize)]
struct VolumeJson {
    id: u32,
    name: String,
    r#type: &'static str,
    reserved_lebs: u32,
    used_lebs: u32,
}

#[derive(Serialize)]
struct UbifsJson {
    min_io_bytes: u32,
    leb_bytes: u32,
    lebs: u32,
    max_lebs: u32,
    min_lebs: u32,
    compression: &'static str,
    big_lpt: bool,
    journal_bytes: u64,
    uuid: String,
    files: u64,
    data_bytes: u64,
    index_bytes: u64,
}

/// Packs a directory. The options are checked before the output is created.
pub fn run(args: &TreeArgs, request: &Request<'_>) -> Result<Outcome, CliError> {
    let Request { tree, output, force, ubi, .. } = *request;
    let whole = |what: &str, help: &str| Err(CliError::input(output, what, help));
    check_place(tree, output)?;
    if matches!(args.compress, Some(Kind::Rtime | Kind::Smallest)) {
        let what = "found what only JFFS2 has, expected none, lzo, zlib, zstd or favor-lzo";
        return Err(CliError::input(Path::new("--compress"), what, "choose one of these, or add --jffs2"));
    }
    if args.favor_percent.is_some() && !matches!(args.compress, Some(Kind::FavorLzo)) {
        let what = "found it without --compress favor-lzo";
        return Err(CliError::input(Path::new("--favor-percent"), what, "add it, or leave this out"));
    }
    let table = device_table(args)?;
    let layout = match args.bare {
        true => None,
        false => Some(Layout::new(ubi).map_err(|error| refused(output, &error))?),
    };
    let leb_bytes = match (&layout, args.leb_size) {
        (Some(layout), Some(given)) if given != layout.leb_bytes() => {
            let what = format!("--leb-size is {given}, expected {}: a PEB without its headers", layout.leb_bytes());
            return whole(&what, "leave it out, or give it with --bare");
        }
        (Some(layout), _) => layout.leb_bytes(),
        (None, Some(given)) => given,
        (None, None) => return whole("found no --leb-size, which --bare needs", "give the LEB size of the UBI device"),
    };
    let lebs_of = |size: u64| u32::try_from(size.div_ceil(u64::from(leb_bytes.max(1)))).unwrap_or(u32::MAX);
    let volume_lebs = args.volume_size.map(lebs_of);
    let max_lebs = args.max_leb_cnt.or(volume_lebs).unwrap_or(lebs_of(DEFAULT_BYTES));
    let options = args.options(ubi.min_io_bytes, leb_bytes, max_lebs);
    let overwrite = Overwrite::new(force, args.device_table.iter().map(|path| &**path));
    let name = args.volume_name.as_deref().unwrap_or("rootfs");
    if name.is_empty() || name.len() > VtblRecord::NAME_MAX {
        let what = format!("found a name of {} bytes, expected 1 to {}", name.len(), VtblRecord::NAME_MAX);
        return Err(CliError::input(Path::new("--volume-name"), what, "give a shorter name"));
    }
    let volume = Volume { name: name.as_bytes().to_vec(), lebs: volume_lebs };
    let mut out = match args.bare {
        true => Out::bare(output, &overwrite, leb_bytes)?,
        false => Out::ubi(output, &overwrite, (ubi, max_lebs), volume)?,
    };
    let sink = Box::new(|lnum, bytes: &[u8]| out.put(lnum, bytes));
    let impossible = |error: ::fs::ubifs::mkfs::OptionError| {
        CliError::input(output, error.to_string(), "correct it; --help tells what it is")
    };
    let mut mkfs = Mkfs::new(&options, sink).map_err(impossible)?;
    let failed = |error| match error {
        MkfsError::Sink(error) => error,
        MkfsError::TooSmall { needed } => {
            let help = format!(
                "give --max-leb-cnt {needed} or more: up to what the flash has, and more than the tree needs if files are \
                 to be written later"
            );
            CliError::input(output, format!("max_leb_cnt too low ({needed} needed)"), help)
        }
        MkfsError::Limit { .. } => CliError::input(tree, error.to_string(), "leave out what is too large"),
    };
    let read = Walk::new(&mut mkfs, tree, args.squash_uids).read(&table).map_err(failed)?;
    let made = mkfs.finish().map_err(failed)?;
    let lebs = made.super_block.lebs;
    let needed = lebs.max(made.min_lebs);
    let reserved = volume_lebs.unwrap_or(needed);
    if reserved < needed {
        let what = format!("--volume-size is {reserved} LEBs, the file system needs {needed}");
        let help = format!("give --volume-size {} or more", u64::from(needed) * u64::from(leb_bytes));
        return whole(&what, &help);
    }
    let first = u128::from_be_bytes(made.super_block.uuid).to_be_bytes();
    let image_seq = request.image_seq.unwrap_or(u32::from_be_bytes([first[0], first[1], first[2], first[3]]));
    let image = out.finish(lebs, reserved, image_seq)?;
    if read.left_out != 0 {
        eprintln!("note: {}: UBIFS has no access control lists: {} are left out", tree.display(), read.left_out);
    }
    if request.json {
        output::print_json("nandlab/image-pack/1", &document(output, &made, &read, image.as_ref(), image_seq))?;
    } else {
        output::print(&summary(output, &made, &read, image.as_ref(), image_seq))?;
    }
    Ok(Outcome::Done)
}

fn file_bytes(made: &Made, image: Option<&(Layout, Image)>) -> u64 {
    let SuperBlock { lebs, leb_bytes, .. } = made.super_block;
    image.map_or(u64::from(lebs) * u64::from(leb_bytes), |(_, image)| image.bytes())
}

fn uuid_text(sb: &SuperBlock) -> String {
    let digits = format!("{:032x}", u128::from_be_bytes(sb.uuid));
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    parts.join("-")
}

fn document(file: &Path, made: &Made, read: &Read, image: Option<&(Layout, Image)>, image_seq: u32) -> Document {
    let sb = &made.super_block;
    let ubi = image.map(|(layout, image)| {
        let volume = &image.volumes()[0];
        UbiJson {
            pebs: image.pebs(),
            needed_pebs: image.needed_pebs(),
            peb_bytes: layout.peb_bytes(),
            leb_bytes: layout.leb_bytes(),
            vid_hdr_offset: layout.vid_hdr_offset(),
            data_offset: layout.data_offset(),
            image_seq,
            volumes: [VolumeJson {
                id: volume.id.0,
                name: String::from_utf8_lossy(&volume.record.name).into_owned(),
                r#type: volume.record.vol_type.name(),
                reserved_lebs: volume.record.reserved_pebs,
                used_lebs: volume.used_lebs,
            }],
        }
    });
    Document {
        file: file.display().to_string(),
        bytes: file_bytes(made, image),
        ubi,
        ubifs: UbifsJson {
            min_io_bytes: sb.min_io_bytes,
            leb_bytes: sb.leb_bytes,
            lebs: sb.lebs,
            max_lebs: sb.max_lebs,
            min_lebs: made.min_lebs,
            compression: sb.compression.name(),
            big_lpt: sb.flags & sb_flags::BIG_LPT != 0,
            journal_bytes: sb.max_bud_bytes,
            uuid: uuid_text(sb),
            files: read.files,
            data_bytes: read.bytes,
            index_bytes: made.master.index_bytes,
        },
    }
}

fn summary(file: &Path, made: &Made, read: &Read, image: Option<&(Layout, Image)>, image_seq: u32) -> String {
    let sb = &made.super_block;
    let mut out = format!("{}: {}", file.display(), bytes(file_bytes(made, image)));
    match image {
        None => out.push('\n'),
        Some((layout, image)) => {
            let volume = &image.volumes()[0];
            let autoresize = volume.record.flags & VtblRecord::AUTORESIZE != 0;
            let _ = writeln!(
                out,
                ", {} PEBs\n  LEB size {}; VID header at {}, data at {}; image sequence number {image_seq:#010x}\n  \
                 volume 0 {:?}: {} of {} LEBs used{}",
                image.pebs(),
                bytes(u64::from(layout.leb_bytes())),
                layout.vid_hdr_offset(),
                layout.data_offset(),
                String::from_utf8_lossy(&volume.record.name),
                volume.used_lebs,
                volume.record.reserved_pebs,
                if autoresize { "; grows at the first attach" } else { "" }
            );
        }
    }
    let _ = writeln!(
        out,
        "  UBIFS {}: {} files, {}; {}; {} LEBs, at most {}; journal {}",
        uuid_text(sb),
        read.files,
        bytes(read.bytes),
        sb.compression.name(),
        sb.lebs,
        sb.max_lebs,
        bytes(sb.max_bud_bytes)
    );
    if let Some((_, image)) = image {
        let _ = writeln!(
            out,
            "  the flash must have {} PEBs, and more for bad blocks (20 in 1024) and a fastmap",
            image.needed_pebs()
        );
    }
    out
}
