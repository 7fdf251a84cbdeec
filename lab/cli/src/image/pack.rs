//! `nandlab image pack`: makes an image from an ini file, byte for byte as `ubinize` does, or the contents of a whole
//! flash, byte for byte as `ubiformat` does. A directory is the business of `tree`.

use std::ffi::OsStr;
use std::fmt::Write;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use sim::Lnum;
use ubi::image::ini::{self, VolumeSection};
use ubi::image::pack::{Image, Layout, Options, PackError};
use ubi::image::whole::Counters;

use super::info::bytes;
use super::load::{number32, size32};
use super::ready::Ready;
use super::tree::jffs2::{self, Jffs2Args};
use super::tree::{self, Request, TreeArgs, first_of};
use super::whole_flash::{self, OldShape, WholeArgs, WholeFlash, WholeJson};
use crate::Outcome;
use crate::error::CliError;
use crate::output::{self, NewFile, Overwrite};

/// Arguments of `nandlab image pack`: the options of `ubinize`.
#[derive(clap::Args)]
pub struct Args {
    /// A directory, to be packed into a volume of UBIFS, or into JFFS2. Or the ini file, with a section per volume; paths in it are
    /// relative to the current directory. For a whole flash also an image that was packed, or nothing for a flash without
    /// volumes
    #[arg(required_unless_present_any = ["whole_flash", "pebs"])]
    ini: Option<PathBuf>,
    /// Image to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Bytes of a PEB, as 131072 or 128KiB
    #[arg(short, long, value_name = "BYTES", value_parser = size32, required_unless_present_any = ["whole_flash", "bare", "jffs2"])]
    peb_size: Option<u32>,
    /// Smallest write unit: the page of a NAND, 1 on a NOR
    #[arg(short, long, value_name = "BYTES", value_parser = size32, required_unless_present_any = ["whole_flash", "jffs2"])]
    min_io_size: Option<u32>,
    /// Smallest write unit of headers: the sub-page [default: that of --whole-flash, else --min-io-size]
    #[arg(short, long, value_name = "BYTES", value_parser = size32)]
    sub_page_size: Option<u32>,
    /// Offset of the VID header in a PEB, in bytes [default: the first sub-page after the EC header]
    #[arg(short = 'O', long, value_name = "BYTES", value_parser = number32)]
    vid_hdr_offset: Option<u32>,
    /// Erase counter of every PEB [default: 0, or those that --keep-ec gives]
    #[arg(short, long, value_name = "N", value_parser = number32)]
    erase_counter: Option<u32>,
    /// Format version in the headers
    #[arg(short = 'x', long, value_name = "N", value_parser = number8, default_value = "1")]
    ubi_ver: u8,
    /// Image sequence number, the same in all PEBs [default: the CRC-32 of the ini file and the contents, or that of the
    /// image]
    #[arg(short = 'Q', long, value_name = "N", value_parser = number32)]
    image_seq: Option<u32>,
    #[command(flatten)]
    whole: WholeArgs,
    #[command(flatten)]
    tree: TreeArgs,
    #[command(flatten)]
    jffs2: Jffs2Args,
    /// Overwrite the output if it exists
    #[arg(long)]
    force: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

fn number8(text: &str) -> Result<u8, String> {
    let number = ini::number(text.as_bytes()).and_then(|number| u8::try_from(number).ok());
    number.ok_or_else(|| "expected a number from 0 to 255".to_owned())
}

#[derive(Serialize)]
struct Document {
    file: String,
    bytes: u64,
    pebs: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    needed_pebs: Option<u64>,
    peb_bytes: u32,
    leb_bytes: u32,
    vid_hdr_offset: u32,
    data_offset: u32,
    image_seq: u32,
    volumes: Vec<PackedJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    whole_flash: Option<WholeJson>,
}

#[derive(Serialize)]
struct PackedJson {
    id: u32,
    name: String,
    r#type: &'static str,
    image: Option<String>,
    image_bytes: u64,
    reserved_lebs: u32,
    used_lebs: u32,
}

/// What is packed.
enum Contents {
    /// Volumes of an ini file; none for an empty flash.
    Volumes(Image),
    /// An image that was packed before.
    Ready(Ready),
}

impl Contents {
    fn pebs(&self) -> u64 {
        match self {
            Contents::Volumes(image) => image.pebs(),
            Contents::Ready(image) => image.pebs(),
        }
    }
}

/// Runs the command. The input is checked before the output is created.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    let part = args.whole.part()?;
    let of_part = part.as_ref().map(|part| &part.config.geometry);
    let whole_pebs = args.whole.pebs(of_part);
    let ini = args.ini.as_deref().unwrap_or(Path::new(""));
    if args.jffs2.jffs2 {
        return pack_jffs2(args, ini, whole_pebs.is_some());
    }
    if ini.is_dir() {
        if whole_pebs.is_some() {
            let help = "pack the directory first, then the image with --whole-flash";
            return Err(CliError::input(ini, "found a directory, expected an ini file for a whole flash", help));
        }
        return tree::run(&args.tree, &request(args, ini));
    }
    if let Some(option) = args.tree.given() {
        let what = format!("found no directory, expected one with {option}");
        return Err(CliError::input(ini, what, "name a directory, or leave the option out"));
    }
    let mut ready = match args.ini.as_deref() {
        Some(path) if whole_pebs.is_some() => Ready::open(path)?,
        _ => None,
    };
    let text = match &args.ini {
        Some(_) if ready.is_some() => Vec::new(),
        Some(path) => fs::read(path).map_err(|error| CliError::read(path, &error))?,
        None => Vec::new(),
    };
    let sections = match &args.ini {
        Some(_) if ready.is_none() => ini::parse(&text).map_err(|error| {
            let file = format!("{}:{}", ini.display(), error.line);
            CliError::Input { file, what: error.what, help: error.help }
        })?,
        _ => Vec::new(),
    };
    let others = args.whole.inputs();
    let inputs = sections.iter().filter_map(path).chain([ini]).chain(others.iter().map(|path| &**path));
    let overwrite = Overwrite::new(args.force, inputs);
    overwrite.permit(&args.output)?;
    let sizes = sections.iter().map(|section| image_bytes(ini, section)).collect::<Result<Vec<u64>, CliError>>()?;
    let refused = |error: PackError| match error {
        PackError::Volume { section, line, what, help } => {
            CliError::Input { file: format!("{}:{line}", ini.display()), what: format!("[{section}] {what}"), help }
        }
        PackError::Option { .. } => CliError::input(&args.output, error.to_string(), error.help()),
    };
    // The parser asks for those that no part gives.
    let size = |given: Option<u32>, of_part: Option<u32>| given.or(of_part).unwrap_or_default();
    let options = Options {
        peb_bytes: size(args.peb_size, of_part.map(|part| part.peb_bytes)),
        min_io_bytes: size(args.min_io_size, of_part.map(|part| part.page_bytes)),
        sub_page_bytes: args.sub_page_size.or(of_part.map(|part| part.subpage_bytes)),
        vid_hdr_offset: args.vid_hdr_offset,
        erase_counter: args.erase_counter.map_or(0, u64::from),
        ubi_ver: args.ubi_ver,
        image_seq: 0,
    };
    // Refuse what cannot be packed before reading the contents to compute the image sequence number.
    let layout = Layout::new(options).map_err(refused)?;
    layout.image(&sections, &sizes).map_err(refused)?;
    if let Some(ready) = &mut ready {
        ready.check(&layout)?;
    }
    let image_seq = match (args.image_seq, &ready) {
        (Some(number), _) => number,
        (None, Some(ready)) => ready.image_seq(),
        (None, None) => contents_number(&text, &sections)?,
    };
    let layout = Layout::new(Options { image_seq, ..options }).map_err(refused)?;
    let contents = match ready {
        Some(ready) => Contents::Ready(ready),
        None => Contents::Volumes(layout.image(&sections, &sizes).map_err(refused)?),
    };
    let counters = match whole_pebs {
        None => None,
        Some(pebs) => {
            let (peb_bytes, page_bytes) = (options.peb_bytes, options.min_io_bytes);
            let old = OldShape { pebs, peb_bytes, page_bytes, oob_bytes: of_part.map(|part| part.oob_bytes) };
            let counters = args.whole.counters(&old, args.erase_counter.map(u64::from))?;
            fits(args, &contents, &counters)?;
            Some(counters)
        }
    };
    match &counters {
        None => {
            let mut out = NewFile::create(&args.output, &overwrite)?;
            each_peb(&contents, &sections, |peb| out.write(&peb))?;
            out.finish()?;
        }
        Some(counters) => {
            let mut out = WholeFlash::create(&args.output, &overwrite, counters, &layout)?;
            each_peb(&contents, &sections, |peb| out.put(peb, image_seq))?;
            out.finish()?;
        }
    }
    if args.json {
        let document = document(args, &layout, image_seq, &contents, &sections, counters.as_ref());
        output::print_json("nandlab/image-pack/1", &document)?;
    } else {
        output::print(&summary(args, &layout, image_seq, &contents, counters.as_ref()))?;
    }
    Ok(Outcome::Done)
}

/// Packs a directory into JFFS2. Errors: options of UBI and UBIFS; no directory.
fn pack_jffs2(args: &Args, tree: &Path, is_whole: bool) -> Result<Outcome, CliError> {
    let of_ubi = [
        ("--min-io-size", args.min_io_size.is_some()),
        ("--sub-page-size", args.sub_page_size.is_some()),
        ("--vid-hdr-offset", args.vid_hdr_offset.is_some()),
        ("--erase-counter", args.erase_counter.is_some()),
        ("--ubi-ver", args.ubi_ver != 1),
        ("--image-seq", args.image_seq.is_some()),
        ("a whole flash", is_whole),
    ];
    if let Some(option) = first_of(of_ubi) {
        let help = "leave it out, or leave out --jffs2 for UBIFS; to fill up the flash, give its bytes with --pad";
        return Err(CliError::input(Path::new(option), "found it with --jffs2, which has no UBI below", help));
    }
    if let Some(option) = args.tree.given_of_ubifs() {
        let help = "leave it out, or leave out --jffs2 for UBIFS";
        return Err(CliError::input(Path::new(option), "found an option of UBIFS with --jffs2", help));
    }
    if !tree.is_dir() {
        return Err(CliError::input(tree, "found no directory, expected one with --jffs2", "name a directory"));
    }
    let (output, force, json) = (&*args.output, args.force, args.json);
    let request = jffs2::Request { tree, output, force, json, block_bytes: args.peb_size };
    jffs2::run(&args.jffs2, &args.tree, &request)
}

/// The arguments that a directory is packed with.
fn request<'a>(args: &'a Args, tree: &'a Path) -> Request<'a> {
    Request {
        tree,
        output: &args.output,
        force: args.force,
        json: args.json,
        // The parser asks for the sizes, unless UBIFS is packed alone.
        ubi: Options {
            peb_bytes: args.peb_size.unwrap_or_default(),
            min_io_bytes: args.min_io_size.unwrap_or_default(),
            sub_page_bytes: args.sub_page_size,
            vid_hdr_offset: args.vid_hdr_offset,
            erase_counter: args.erase_counter.map_or(0, u64::from),
            ubi_ver: args.ubi_ver,
            image_seq: 0,
        },
        image_seq: args.image_seq,
    }
}

/// Errors: the image does not fit the good PEBs of the flash. Warns where Linux will not attach it.
fn fits(args: &Args, contents: &Contents, counters: &Counters) -> Result<(), CliError> {
    let good = u64::from(counters.good());
    let need = contents.pebs().max(u64::from(ubi::media::LAYOUT_LEBS));
    if need > good {
        let what = format!("the image has {need} PEBs, expected at most the {good} good ones of the flash");
        return Err(CliError::input(&args.output, what, "give a larger flash, or smaller volumes"));
    }
    if let Contents::Volumes(image) = contents
        && image.needed_pebs() > good
    {
        eprintln!(
            "warning: {}: volumes and UBI need {} PEBs, the flash has {good} good ones: Linux will not attach it",
            args.output.display(),
            image.needed_pebs()
        );
    }
    Ok(())
}

fn path(section: &VolumeSection) -> Option<&Path> {
    section.image.as_deref().map(|path| Path::new(OsStr::from_bytes(path)))
}

fn image_bytes(ini: &Path, section: &VolumeSection) -> Result<u64, CliError> {
    let Some(path) = path(section) else { return Ok(0) };
    let wrong = |what: String, help: &str| CliError::Input {
        file: format!("{}:{}", ini.display(), section.line),
        what: format!("[{}] has image {}: {what}", section.section, path.display()),
        help: help.to_owned(),
    };
    match fs::metadata(path) {
        Ok(found) if found.is_file() => Ok(found.len()),
        Ok(_) => Err(wrong("found a directory or device, expected a file".to_owned(), "name a file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(wrong("no such file".to_owned(), "paths are relative to the current directory, as with ubinize"))
        }
        Err(error) => Err(CliError::read(path, &error)),
    }
}

/// An image sequence number that depends on the contents: remains of another image on a flash are detected, and the
/// same input gives the same image.
fn contents_number(text: &[u8], sections: &[VolumeSection]) -> Result<u32, CliError> {
    const CHUNK: u64 = 1 << 20;
    let mut buffer = Vec::new();
    let mut sums = vec![ubi::media::crc(text)];
    for path in sections.iter().filter_map(path) {
        let mut file = File::open(path).map_err(|error| CliError::read(path, &error))?;
        loop {
            buffer.clear();
            let read = file.by_ref().take(CHUNK).read_to_end(&mut buffer);
            if read.map_err(|error| CliError::read(path, &error))? == 0 {
                break;
            }
            sums.push(ubi::media::crc(&buffer));
            // Hash the checksums: each file contributes four bytes.
            let bytes: Vec<u8> = sums.iter().flat_map(|sum| sum.to_be_bytes()).collect();
            sums = vec![ubi::media::crc(&bytes)];
        }
    }
    Ok(sums[0])
}

/// Calls `put` with each PEB of the image in order.
fn each_peb(
    contents: &Contents,
    sections: &[VolumeSection],
    mut put: impl FnMut(Vec<u8>) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let image = match contents {
        Contents::Volumes(image) => image,
        Contents::Ready(ready) => return ready.each_peb(put),
    };
    for copy in 0..ubi::media::LAYOUT_LEBS {
        put(image.table_peb(copy))?;
    }
    for (volume, section) in image.volumes().iter().zip(sections) {
        let Some(path) = path(section) else { continue };
        let mut file = File::open(path).map_err(|error| CliError::read(path, &error))?;
        let mut data = Vec::new();
        for lnum in 0..volume.used_lebs {
            let left = volume.image_bytes - u64::from(lnum) * u64::from(volume.usable_leb_bytes);
            data.resize(left.min(u64::from(volume.usable_leb_bytes)) as usize, 0);
            file.read_exact(&mut data).map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => {
                    CliError::input(path, "became shorter while it was read", "pack again when nothing writes to it")
                }
                _ => CliError::read(path, &error),
            })?;
            put(image.leb_peb(volume, Lnum(lnum), &data))?;
        }
    }
    Ok(())
}

fn document(
    args: &Args,
    layout: &Layout,
    image_seq: u32,
    contents: &Contents,
    sections: &[VolumeSection],
    counters: Option<&Counters>,
) -> Document {
    let (image, pebs) = match contents {
        Contents::Volumes(image) => (Some(image), image.pebs()),
        Contents::Ready(ready) => (None, ready.pebs()),
    };
    let volumes = image.map_or(&[][..], Image::volumes).iter().zip(sections).map(|(volume, section)| PackedJson {
        id: volume.id.0,
        name: String::from_utf8_lossy(&volume.record.name).into_owned(),
        r#type: volume.record.vol_type.name(),
        image: path(section).map(|path| path.display().to_string()),
        image_bytes: volume.image_bytes,
        reserved_lebs: volume.record.reserved_pebs,
        used_lebs: volume.used_lebs,
    });
    let written = counters.map_or(pebs, |counters| u64::from(counters.pebs()));
    Document {
        file: args.output.display().to_string(),
        bytes: written * u64::from(layout.peb_bytes()),
        pebs,
        needed_pebs: image.map(Image::needed_pebs),
        peb_bytes: layout.peb_bytes(),
        leb_bytes: layout.leb_bytes(),
        vid_hdr_offset: layout.vid_hdr_offset(),
        data_offset: layout.data_offset(),
        image_seq,
        volumes: volumes.collect(),
        whole_flash: counters.map(WholeJson::new),
    }
}

fn summary(args: &Args, layout: &Layout, image_seq: u32, contents: &Contents, counters: Option<&Counters>) -> String {
    let pebs = counters.map_or(contents.pebs(), |counters| u64::from(counters.pebs()));
    let mut out = format!("{}: {}, {pebs} PEBs\n", args.output.display(), bytes(pebs * u64::from(layout.peb_bytes())));
    let _ = writeln!(
        out,
        "  LEB size {}; VID header at {}, data at {}; image sequence number {image_seq:#010x}",
        bytes(u64::from(layout.leb_bytes())),
        layout.vid_hdr_offset(),
        layout.data_offset()
    );
    if let Some(counters) = counters {
        let bad = counters.pebs() - counters.good();
        let _ = writeln!(out, "  image on {} PEBs, {bad} PEBs bad; {}", contents.pebs(), whole_flash::told(counters));
    }
    let Contents::Volumes(image) = contents else { return out };
    for volume in image.volumes() {
        let _ = writeln!(
            out,
            "  volume {} {:?}, {}: {} of {} LEBs used",
            volume.id,
            String::from_utf8_lossy(&volume.record.name),
            volume.record.vol_type.name(),
            volume.used_lebs,
            volume.record.reserved_pebs
        );
    }
    if counters.is_none() {
        let _ = writeln!(
            out,
            "  the flash must have {} PEBs, and more for bad blocks (20 in 1024) and a fastmap",
            image.needed_pebs()
        );
    }
    out
}
