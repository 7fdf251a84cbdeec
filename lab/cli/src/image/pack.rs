//! `nandlab image pack`: makes an image from an ini file, byte for byte as `ubinize` does.

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

use super::info::bytes;
use super::load::{number32, size32};
use crate::Outcome;
use crate::error::CliError;
use crate::output::{self, NewFile, Overwrite};

/// Arguments of `nandlab image pack`: the options of `ubinize`.
#[derive(clap::Args)]
pub struct Args {
    /// The ini file, with a section per volume; paths in it are relative to the current directory
    ini: PathBuf,
    /// Image to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Bytes of a PEB, as 131072 or 128KiB
    #[arg(short, long, value_name = "BYTES", value_parser = size32)]
    peb_size: u32,
    /// Smallest write unit: the page of a NAND, 1 on a NOR
    #[arg(short, long, value_name = "BYTES", value_parser = size32)]
    min_io_size: u32,
    /// Smallest write unit of headers: the sub-page [default: --min-io-size]
    #[arg(short, long, value_name = "BYTES", value_parser = size32)]
    sub_page_size: Option<u32>,
    /// Offset of the VID header in a PEB, in bytes [default: the first sub-page after the EC header]
    #[arg(short = 'O', long, value_name = "BYTES", value_parser = number32)]
    vid_hdr_offset: Option<u32>,
    /// Erase counter of every PEB
    #[arg(short, long, value_name = "N", value_parser = number32, default_value = "0")]
    erase_counter: u32,
    /// Format version in the headers
    #[arg(short = 'x', long, value_name = "N", value_parser = number8, default_value = "1")]
    ubi_ver: u8,
    /// Image sequence number, the same in all PEBs [default: the CRC-32 of the ini file and the contents]
    #[arg(short = 'Q', long, value_name = "N", value_parser = number32)]
    image_seq: Option<u32>,
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
    needed_pebs: u64,
    peb_bytes: u32,
    leb_bytes: u32,
    vid_hdr_offset: u32,
    data_offset: u32,
    image_seq: u32,
    volumes: Vec<PackedJson>,
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

/// Runs the command. The ini file is checked before the output is created.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    let text = fs::read(&args.ini).map_err(|error| CliError::read(&args.ini, &error))?;
    let sections = ini::parse(&text).map_err(|error| {
        let file = format!("{}:{}", args.ini.display(), error.line);
        CliError::Input { file, what: error.what, help: error.help }
    })?;
    let inputs = sections.iter().filter_map(path).chain([&*args.ini]);
    let overwrite = Overwrite::new(args.force, inputs);
    overwrite.permit(&args.output)?;
    let sizes = sections.iter().map(|section| image_bytes(args, section)).collect::<Result<Vec<u64>, CliError>>()?;
    let refused = |error: PackError| match error {
        PackError::Volume { section, line, what, help } => CliError::Input {
            file: format!("{}:{line}", args.ini.display()),
            what: format!("[{section}] {what}"),
            help,
        },
        PackError::Option { .. } => CliError::input(&args.output, error.to_string(), error.help()),
    };
    let options = Options {
        peb_bytes: args.peb_size,
        min_io_bytes: args.min_io_size,
        sub_page_bytes: args.sub_page_size,
        vid_hdr_offset: args.vid_hdr_offset,
        erase_counter: u64::from(args.erase_counter),
        ubi_ver: args.ubi_ver,
        image_seq: 0,
    };
    // Refuse what cannot be packed before reading the contents to compute the image sequence number.
    Layout::new(options).and_then(|layout| layout.image(&sections, &sizes)).map_err(refused)?;
    let image_seq = match args.image_seq {
        Some(number) => number,
        None => contents_number(&text, &sections)?,
    };
    let layout = Layout::new(Options { image_seq, ..options }).map_err(refused)?;
    let image = layout.image(&sections, &sizes).map_err(refused)?;
    write(args, &image, &sections, &overwrite)?;
    if args.json {
        output::print_json("nandlab/image-pack/1", &document(args, &layout, image_seq, &image, &sections))?;
    } else {
        output::print(&summary(args, &layout, image_seq, &image))?;
    }
    Ok(Outcome::Done)
}

fn path(section: &VolumeSection) -> Option<&Path> {
    section.image.as_deref().map(|path| Path::new(OsStr::from_bytes(path)))
}

fn image_bytes(args: &Args, section: &VolumeSection) -> Result<u64, CliError> {
    let Some(path) = path(section) else { return Ok(0) };
    let wrong = |what: String, help: &str| CliError::Input {
        file: format!("{}:{}", args.ini.display(), section.line),
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

fn write(args: &Args, image: &Image, sections: &[VolumeSection], overwrite: &Overwrite) -> Result<(), CliError> {
    let mut out = NewFile::create(&args.output, overwrite)?;
    for copy in 0..ubi::media::LAYOUT_LEBS {
        out.write(&image.table_peb(copy))?;
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
            out.write(&image.leb_peb(volume, Lnum(lnum), &data))?;
        }
    }
    out.finish()
}

fn document(args: &Args, layout: &Layout, image_seq: u32, image: &Image, sections: &[VolumeSection]) -> Document {
    let volumes = image.volumes().iter().zip(sections).map(|(volume, section)| PackedJson {
        id: volume.id.0,
        name: String::from_utf8_lossy(&volume.record.name).into_owned(),
        r#type: volume.record.vol_type.name(),
        image: path(section).map(|path| path.display().to_string()),
        image_bytes: volume.image_bytes,
        reserved_lebs: volume.record.reserved_pebs,
        used_lebs: volume.used_lebs,
    });
    Document {
        file: args.output.display().to_string(),
        bytes: image.bytes(),
        pebs: image.pebs(),
        needed_pebs: image.needed_pebs(),
        peb_bytes: layout.peb_bytes(),
        leb_bytes: layout.leb_bytes(),
        vid_hdr_offset: layout.vid_hdr_offset(),
        data_offset: layout.data_offset(),
        image_seq,
        volumes: volumes.collect(),
    }
}

fn summary(args: &Args, layout: &Layout, image_seq: u32, image: &Image) -> String {
    let mut out = format!("{}: {}, {} PEBs\n", args.output.display(), bytes(image.bytes()), image.pebs());
    let _ = writeln!(
        out,
        "  LEB size {}; VID header at {}, data at {}; image sequence number {image_seq:#010x}",
        bytes(u64::from(layout.leb_bytes())),
        layout.vid_hdr_offset(),
        layout.data_offset()
    );
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
    let _ = writeln!(
        out,
        "  the flash must have {} PEBs, and more for bad blocks (20 in 1024) and a fastmap",
        image.needed_pebs()
    );
    out
}
