//! `nandlab image extract`: writes the files of each volume that holds UBIFS or JFFS2, and the contents of every other to a file.
//!
//! The files of the only volume that is extracted go to the directory itself, those of one among others to a directory in
//! it, `ID-NAME`. A file with contents is called `ID-NAME.img`. A volume's name may contain any byte: what is not a letter, a digit or one of `.-_+`
//! becomes `_`, so that no name leads out of the directory. Files are written under a temporary name and appear
//! completely or not at all.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;
use ubi::image::{Contents, ContentsError, Scan, Volume, Vtbl, VtblCopy};

use super::files::restore::{self, Options, Restored};
use super::files::{Alone, Files, Holds};
use super::info::counted;
use super::input::{self, Loaded};
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
    /// Write the contents of volumes with a file system to files too, instead of the files in them
    #[arg(long)]
    raw: bool,
    /// Do not restore owners and groups, which takes privileges
    #[arg(long)]
    no_owner: bool,
    /// Extract damaged static volumes too: 0xFF for missing data, wrong bytes as they are
    #[arg(long)]
    damaged: bool,
    /// Overwrite files that exist, and write to a directory that is not empty
    #[arg(long)]
    force: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    file: String,
    volume_table: Option<u32>,
    extracted: &'a [Extracted],
}

#[derive(Serialize)]
struct Extracted {
    volume: Option<u32>,
    name: Option<String>,
    file: String,
    renamed: bool,
    bytes: u64,
    unmapped_lebs: u32,
    files: Option<FilesJson>,
}

#[derive(Serialize)]
struct FilesJson {
    files: u64,
    dirs: u64,
    lost: Vec<LostJson>,
}

#[derive(Serialize)]
struct LostJson {
    path: String,
    what: String,
}

/// What a volume becomes.
enum Plan<'s, 'a> {
    /// A file with its contents.
    Contents(Contents<'s, 'a>),
    /// A directory with its files.
    Files(Box<Files<'s, 'a>>),
}

/// Largest size of a volume's file, as a multiple of the image's size: more would be mostly padding.
const MOST_FILLING: u64 = 16;
/// Files listed that could not be restored, without --json.
const MOST_LISTED: usize = 32;

/// Runs the command. Everything is checked before the first file is written. Without a whole volume table it fails,
/// after it has written what the VID headers tell; so it does if a file cannot be restored as it is in the image.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    let loaded = args.source.load()?;
    if let (Some(found), true) = (Alone::open(&args.source, &loaded)?, args.volumes.is_empty()) {
        return alone(args, &loaded, found);
    }
    let dump = args.source.probe(&loaded)?;
    args.source.remark(&dump);
    let scan = Scan::new(&dump);
    args.source.is_one(&loaded, &scan)?;
    let volumes = chosen(args, scan.volumes())?;
    let overwrite = Overwrite::new(args.force, [input::file(&args.source.image)]);
    let mut plan = Vec::new();
    let mut total: u64 = 0;
    for volume in &volumes {
        let (name, renamed) = file_name(volume);
        if !args.raw && Holds::of(&scan, volume).is_files() {
            let target = if volumes.len() == 1 { args.output.clone() } else { args.output.join(name) };
            may_fill(args, &target)?;
            let files = Box::new(Files::of_volume(&args.source.image, &scan, volume)?);
            plan.push((Plan::Files(files), target, renamed && volumes.len() > 1));
            continue;
        }
        let contents = scan.contents(volume.id, args.damaged).map_err(|error| refused(args, &error))?;
        total = total.saturating_add(contents.bytes());
        let target = args.output.join(format!("{name}.img"));
        overwrite.permit(&target)?;
        plan.push((Plan::Contents(contents), target, renamed));
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
    for ((plan, target, renamed), volume) in plan.into_iter().zip(&volumes) {
        let was_read = || args.source.was_read(&loaded);
        let it = match plan {
            Plan::Contents(contents) => write(&contents, &target, renamed, &overwrite, was_read)?,
            Plan::Files(mut files) => {
                let it = Extracted::of(Some(volume), &target, renamed, restore(args, &mut files, &target)?);
                was_read()?;
                it
            }
        };
        extracted.push(it);
    }
    let volume_table = scan.vtbl().from;
    report(args, volume_table, &extracted, &volumes)?;
    let is_whole = extracted.iter().all(Extracted::is_whole);
    if volume_table.is_none() {
        eprintln!("{}", table_lost(&args.source, scan.vtbl()));
    }
    let outcome = if is_whole && volume_table.is_some() { Outcome::Done } else { Outcome::Failed };
    Ok(args.source.ended(&loaded, &scan, outcome))
}

/// Extracts a file system that is in the file without UBI.
fn alone(args: &Args, loaded: &Loaded, found: Alone<'_>) -> Result<Outcome, CliError> {
    may_fill(args, &args.output)?;
    let block_bytes = found.raw_block_bytes();
    let mut files = Files::alone(&args.source.image, found)?;
    let restored = restore(args, &mut files, &args.output)?;
    args.source.was_read(loaded)?;
    let it = Extracted::of(None, &args.output, false, restored);
    let is_whole = it.is_whole();
    report(args, None, &[it], &[])?;
    let outcome = if is_whole { Outcome::Done } else { Outcome::Failed };
    Ok(args.source.ended_alone(loaded, block_bytes, outcome))
}

fn restore(args: &Args, files: &mut Files<'_, '_>, target: &Path) -> Result<Restored, CliError> {
    output::make_dir(target)?;
    restore::restore(files, target, Options { owners: !args.no_owner, force: args.force })
}

/// Errors: files would be written among others.
fn may_fill(args: &Args, target: &Path) -> Result<(), CliError> {
    let has_files = std::fs::read_dir(target).is_ok_and(|mut entries| entries.next().is_some());
    if has_files && !args.force {
        let what = "found files in the directory, expected an empty one, or none";
        return Err(CliError::input(target, what, "name another with -o, or give --force"));
    }
    Ok(())
}

fn report(args: &Args, volume_table: Option<u32>, extracted: &[Extracted], volumes: &[Volume]) -> Result<(), CliError> {
    if args.json {
        let document = Document { file: args.source.name(), volume_table, extracted };
        return output::print_json("nandlab/image-extract/1", &document);
    }
    output::print(&text(extracted, volumes))?;
    for lost in extracted.iter().filter_map(|it| it.files.as_ref()).map(|files| &files.lost) {
        for LostJson { path, what } in lost.iter().take(MOST_LISTED) {
            eprintln!("not restored: {path}: {what}");
        }
        if lost.len() > MOST_LISTED {
            eprintln!("not restored: {} more; --json lists them all", lost.len() - MOST_LISTED);
        }
        let is_owner = |lost: &LostJson| lost.what.starts_with("its owner");
        if lost.iter().any(is_owner) {
            eprintln!("  help: run as root to restore owners, or leave them out with --no-owner");
        }
    }
    Ok(())
}

impl Extracted {
    fn of(volume: Option<&Volume>, target: &Path, renamed: bool, restored: Restored) -> Extracted {
        let Restored { files, dirs, bytes, lost } = restored;
        let lost = lost.into_iter().map(|lost| LostJson { path: printable(&lost.path), what: lost.what }).collect();
        let record = volume.and_then(|volume| volume.record.as_ref());
        Extracted {
            volume: volume.map(|volume| volume.id.0),
            name: record.map(|record| String::from_utf8_lossy(&record.name).into_owned()),
            file: target.display().to_string(),
            renamed,
            bytes,
            unmapped_lebs: 0,
            files: Some(FilesJson { files, dirs, lost }),
        }
    }

    fn is_whole(&self) -> bool {
        self.files.as_ref().is_none_or(|files| files.lost.is_empty())
    }
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
        return (format!("{}-", volume.id), false);
    };
    let plain = |&byte: &u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' | b'+' => char::from(byte),
        _ => '_',
    };
    let name: String = record.name.iter().map(plain).collect();
    let renamed = name.as_bytes() != record.name;
    (format!("{}-{name}", volume.id), renamed)
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
    let file = target.display().to_string();
    Ok(Extracted { volume: Some(volume.id.0), name, file, renamed, bytes, unmapped_lebs, files: None })
}

fn text(extracted: &[Extracted], volumes: &[Volume]) -> String {
    let mut out = String::new();
    for (at, it) in extracted.iter().enumerate() {
        let of = it.volume.map_or("the file system".to_owned(), |volume| format!("volume {volume}"));
        let _ = match &it.files {
            None => write!(out, "{}: {} bytes of {of}", it.file, it.bytes),
            Some(FilesJson { files, dirs, .. }) => {
                let dirs = if *dirs == 1 { "1 directory".to_owned() } else { format!("{dirs} directories") };
                write!(out, "{}: {} and {dirs} of {of}, {} bytes", it.file, counted(*files as usize, "file"), it.bytes)
            }
        };
        if it.unmapped_lebs > 0 {
            let _ = write!(out, ", {} unmapped LEBs filled with 0xFF", it.unmapped_lebs);
        }
        let record = volumes.get(at).and_then(|volume| volume.record.as_ref());
        if let Some(record) = record.filter(|_| it.renamed) {
            let _ = write!(
                out,
                "; the volume is called {:?}: what is unsafe in a file name became _",
                printable(&record.name)
            );
        }
        if record.is_some_and(|record| record.upd_marker) {
            out.push_str("; its update was interrupted, so the contents are void");
        }
        out.push('\n');
    }
    if extracted.is_empty() {
        out.push_str("no volumes\n");
    }
    out
}
