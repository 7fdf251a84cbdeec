//! `nandlab image extract`: writes each volume's contents to a file.
//!
//! A file is called `ID-NAME.img`. A volume's name may contain any byte: what is not a letter, a digit or one of `.-_+`
//! becomes `_`, so that no name leads out of the directory. Files are written under a temporary name and appear
//! completely or not at all.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;
use ubi::image::{Contents, ContentsError, Scan, Volume, Vtbl, VtblCopy};

use super::input;
use super::load::Source;
use super::ls::printable;
use crate::Outcome;
use crate::error::CliError;
use crate::output::{self, NewFile, Overwrite};

/// Arguments of `nandlab image extract`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: Source,
    /// Directory to write to; created if it does not exist
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    output: PathBuf,
    /// Extract only the volume with this name or number; may be given several times
    #[arg(long = "volume", value_name = "NAME")]
    volumes: Vec<String>,
    /// Extract damaged static volumes too: 0xFF for missing data, wrong bytes as they are
    #[arg(long)]
    damaged: bool,
    /// Overwrite files that exist
    #[arg(long)]
    force: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Document {
    file: String,
    volume_table: Option<u32>,
    extracted: Vec<Extracted>,
}

#[derive(Serialize)]
struct Extracted {
    volume: u32,
    name: Option<String>,
    file: String,
    renamed: bool,
    bytes: u64,
    unmapped_lebs: u32,
}

/// Largest size of a volume's file, as a multiple of the image's size: more would be mostly padding.
const MOST_FILLING: u64 = 16;

/// Runs the command. Everything is checked before the first file is written. Without a whole volume table it fails,
/// after it has written what the VID headers tell.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    let loaded = args.source.load()?;
    let dump = args.source.probe(&loaded)?;
    args.source.remark(&dump);
    let scan = Scan::new(&dump);
    args.source.is_one(&loaded, &scan)?;
    let volumes = chosen(args, scan.volumes())?;
    let overwrite = Overwrite::new(args.force, [input::file(&args.source.image)]);
    let mut plan = Vec::new();
    let mut total: u64 = 0;
    for volume in &volumes {
        let contents = scan.contents(volume.id, args.damaged).map_err(|error| refused(args, &error))?;
        total = total.saturating_add(contents.bytes());
        let (file, renamed) = file_name(volume);
        let target = args.output.join(file);
        overwrite.permit(&target)?;
        plan.push((contents, target, renamed));
    }
    if total > dump.len().saturating_mul(MOST_FILLING) && total > 1 << 26 {
        let what = format!(
            "volumes would be {total} bytes, expected at most {MOST_FILLING} times the {} of the image: headers lie \
             about LEB numbers, or most of the image is missing",
            dump.len()
        );
        return Err(CliError::input(
            &args.source.image,
            what,
            "choose one with --volume; `nandlab image check` says more",
        ));
    }
    args.source.was_read(&loaded)?;
    output::make_dir(&args.output)?;
    let mut extracted = Vec::new();
    for (contents, target, renamed) in plan {
        let was_read = || args.source.was_read(&loaded);
        extracted.push(write(&contents, &target, renamed, &overwrite, was_read)?);
    }
    let volume_table = scan.vtbl().from;
    if args.json {
        let document = Document { file: args.source.name(), volume_table, extracted };
        output::print_json("nandlab/image-extract/1", &document)?;
    } else {
        output::print(&text(&extracted, &volumes))?;
    }
    if volume_table.is_some() {
        return Ok(Outcome::Done);
    }
    eprintln!("{}", table_lost(&args.source, scan.vtbl()));
    Ok(Outcome::Failed)
}

/// What a lost volume table means for the files.
fn table_lost(source: &Source, vtbl: &Vtbl) -> String {
    let copy = |number: usize| match &vtbl.copies[number] {
        VtblCopy { peb: None, .. } => format!("copy {number} is missing"),
        VtblCopy { peb: Some(peb), broken } => {
            format!("copy {number} in PEB {peb} has {} broken records", broken.len())
        }
    };
    format!(
        "error: {}: no copy of the volume table is whole: {}, {}\n  help: the files hold what VID headers and whole \
         records say; names and sizes may be missing, and so may volumes: `nandlab image check` says more",
        input::name(&source.image).display(),
        copy(0),
        copy(1)
    )
}

fn chosen(args: &Args, volumes: Vec<Volume>) -> Result<Vec<Volume>, CliError> {
    let is = |volume: &Volume, name: &str| {
        volume.record.as_ref().is_some_and(|record| record.name == name.as_bytes()) || volume.id.to_string() == name
    };
    if let Some(missing) = args.volumes.iter().find(|name| !volumes.iter().any(|volume| is(volume, name))) {
        let names: Vec<String> = volumes
            .iter()
            .map(|volume| volume.record.as_ref().map_or(volume.id.to_string(), |record| printable(&record.name)))
            .collect();
        let what = format!("found no volume {missing:?}, expected one of: {}", names.join(", "));
        return Err(CliError::input(&args.source.image, what, "`nandlab image ls` lists the volumes"));
    }
    if args.volumes.is_empty() {
        return Ok(volumes);
    }
    Ok(volumes.into_iter().filter(|volume| args.volumes.iter().any(|name| is(volume, name))).collect())
}

fn refused(args: &Args, error: &ContentsError) -> CliError {
    let help = match error {
        ContentsError::NoSuchVolume { .. } => "`nandlab image ls` lists the volumes",
        _ => "leave the volume out with --volume, or take what is left of it with --damaged",
    };
    CliError::input(&args.source.image, error.to_string(), help)
}

/// A name that is one component of a path and not hidden, and whether it differs from the volume's.
fn file_name(volume: &Volume) -> (String, bool) {
    let Some(record) = &volume.record else {
        return (format!("{}-.img", volume.id), false);
    };
    let plain = |&byte: &u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' | b'+' => char::from(byte),
        _ => '_',
    };
    let name: String = record.name.iter().map(plain).collect();
    let renamed = name.as_bytes() != record.name;
    (format!("{}-{name}.img", volume.id), renamed)
}

fn write(
    contents: &Contents<'_, '_>,
    target: &Path,
    renamed: bool,
    overwrite: &Overwrite,
    was_read: impl Fn() -> Result<(), CliError>,
) -> Result<Extracted, CliError> {
    let volume = contents.volume();
    let filling = vec![0xff; volume.usable_leb_bytes as usize];
    let mut file = NewFile::create(target, overwrite)?;
    let (mut bytes, mut unmapped_lebs) = (0, 0);
    for leb in contents.lebs() {
        let leb = leb.as_deref().unwrap_or_else(|| {
            unmapped_lebs += 1;
            &filling
        });
        file.write(leb)?;
        bytes += leb.len() as u64;
    }
    was_read()?;
    file.finish()?;
    let name = volume.record.as_ref().map(|record| String::from_utf8_lossy(&record.name).into_owned());
    Ok(Extracted { volume: volume.id.0, name, file: target.display().to_string(), renamed, bytes, unmapped_lebs })
}

fn text(extracted: &[Extracted], volumes: &[Volume]) -> String {
    let mut out = String::new();
    for (it, volume) in extracted.iter().zip(volumes) {
        let _ = write!(out, "{}: {} bytes of volume {}", it.file, it.bytes, it.volume);
        if it.unmapped_lebs > 0 {
            let _ = write!(out, ", {} unmapped LEBs filled with 0xFF", it.unmapped_lebs);
        }
        if let Some(record) = volume.record.as_ref().filter(|_| it.renamed) {
            let _ = write!(
                out,
                "; the volume is called {:?}: what is unsafe in a file name became _",
                printable(&record.name)
            );
        }
        if volume.record.as_ref().is_some_and(|record| record.upd_marker) {
            out.push_str("; its update was interrupted, so the contents are void");
        }
        out.push('\n');
    }
    if extracted.is_empty() {
        out.push_str("no volumes\n");
    }
    out
}
