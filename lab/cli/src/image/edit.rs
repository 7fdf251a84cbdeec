//! `nandlab image edit`: changes volumes, contents, erase counters and the fastmap of a flash image.
//!
//! Our own UBI is attached to the bytes of the image and does the work, so that its rules hold: copies before erasures,
//! sequence numbers, both copies of the volume table, and a fastmap of what is there at the end.

mod ask;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use ::fs::ubifs::media::{Header, NodeType, SuperBlock};
use serde::Serialize;
use sim::seam::LebVolume;
use sim::{Cx, Lnum, Peb, VolId};
use ubi::image::counters::CounterEdit;
use ubi::image::{Scan, Severity, check};
use ubi::{UbiError, VolumeInfo, VolumeRequest, VolumeSize};

use self::ask::{Add, CounterOf, Named, Size};
use super::flash::{Device, Image, Known};
use super::load::{number32, size32};
use super::ls::printable;
use crate::Outcome;
use crate::error::CliError;
use crate::output::{self, NewFile, Overwrite};
use ubi::image::PebList;

/// Arguments of `nandlab image edit`.
#[derive(clap::Args)]
pub struct Args {
    /// Dump of a whole flash, with or without OOB; or an image, with --pebs for the flash that it is for
    image: PathBuf,
    /// File to write
    #[arg(short, long, value_name = "FILE", required_unless_present = "in_place")]
    output: Option<PathBuf>,
    /// Replace IMAGE by the result, once that is complete
    #[arg(long, conflicts_with = "output")]
    in_place: bool,
    /// Remove the volume with this name or number; may be given several times, as may each of the next five
    #[arg(long, value_name = "VOLUME")]
    remove: Vec<String>,
    /// Rename volumes, all at once: names may be exchanged; a volume whose name another one gets is removed
    #[arg(long, value_name = "VOLUME=NAME", value_parser = ask::named)]
    rename: Vec<Named>,
    /// Resize a volume to bytes as 4MiB, to LEBs as 20lebs, or to `all` that is available
    #[arg(long, value_name = "VOLUME=SIZE", value_parser = ask::resize)]
    resize: Vec<(String, Size)>,
    /// Add a volume of SIZE as above; OPTIONS are static, id=N, align=BYTES, skip-check
    #[arg(long, value_name = "NAME=SIZE[,OPTION…]", value_parser = ask::add)]
    add: Vec<Add>,
    /// Replace the contents of a volume by those of a file
    #[arg(long, value_name = "VOLUME=FILE", value_parser = ask::named)]
    write: Vec<Named>,
    /// Set erase counters, at the end: of PEBs, as 3,40-42=1000, or of all, as all=0
    #[arg(long, value_name = "PEBS=N", value_parser = ask::counters)]
    ec: Vec<CounterOf>,
    /// Write a fastmap [default: if the image has a valid one]
    #[arg(long)]
    fastmap: bool,
    /// Remove the fastmap
    #[arg(long, conflicts_with = "fastmap")]
    no_fastmap: bool,
    /// PEBs of the flash: those after the image are erased [default: those of the image]
    #[arg(long, value_name = "N", value_parser = number32)]
    pebs: Option<u32>,
    /// PEBs that are bad, as 3,17,40-42 [default: those that are marked in the OOB]
    #[arg(long, value_name = "LIST", value_parser = PebList::parse)]
    bad_blocks: Option<PebList>,
    /// Bytes of a PEB without OOB [default: the distance of EC headers]
    #[arg(long, value_name = "BYTES", value_parser = size32)]
    peb_size: Option<u32>,
    /// Bytes of a page, 1 on a NOR [default: guessed]
    #[arg(long, value_name = "BYTES", value_parser = size32)]
    page_size: Option<u32>,
    /// Bytes of a sub-page [default: as the VID header's offset allows]
    #[arg(long, value_name = "BYTES", value_parser = size32)]
    sub_page_size: Option<u32>,
    /// Bytes of OOB after each page; 0 for none [default: guessed]
    #[arg(long, value_name = "BYTES", value_parser = size32)]
    oob_size: Option<u32>,
    /// Overwrite the output if it exists
    #[arg(long)]
    force: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Document {
    file: String,
    pebs: u32,
    available_lebs: u32,
    fastmap: bool,
    erasures: u64,
    programmed_bytes: u64,
    edits: Vec<String>,
    volumes: Vec<VolumeJson>,
}

#[derive(Serialize)]
struct VolumeJson {
    id: u32,
    name: String,
    r#type: &'static str,
    reserved_lebs: u32,
    leb_bytes: u32,
    data_bytes: u64,
}

impl Args {
    fn known(&self) -> Known {
        Known {
            peb_bytes: self.peb_size,
            page_bytes: self.page_size,
            subpage_bytes: self.sub_page_size,
            oob_bytes: self.oob_size,
            pebs: self.pebs,
            bad_blocks: self.bad_blocks.clone(),
        }
    }
}

/// Runs the command. The output appears when all edits are done, or not at all.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    let volumes = args.remove.len() + args.rename.len() + args.resize.len() + args.add.len() + args.write.len();
    let asked = volumes + args.ec.len() > 0 || args.fastmap || args.no_fastmap;
    if !asked {
        let help = "give --add, --remove, --resize, --rename, --write, --ec, --fastmap or --no-fastmap";
        return Err(CliError::input(&args.image, "found no edit to make", help));
    }
    let inputs = args.write.iter().map(|named| Path::new(&named.to)).chain([&*args.image]);
    let overwrite = if args.in_place { Overwrite::new(true, []) } else { Overwrite::new(args.force, inputs) };
    let target = match &args.output {
        Some(output) => output.clone(),
        None => fs::canonicalize(&args.image).map_err(|error| CliError::read(&args.image, &error))?,
    };
    overwrite.permit(&target)?;
    let mode = fs::metadata(&args.image).map_err(|error| CliError::read(&args.image, &error))?.permissions();
    let bytes = fs::read(&args.image).map_err(|error| CliError::read(&args.image, &error))?;
    let (image, flash) = Image::of(&args.image, bytes, &args.known())?;
    let mut cx = Cx::new();
    let fastmap = if args.fastmap || args.no_fastmap { Some(args.fastmap) } else { None };
    let mut device = image.attach(flash, fastmap, &mut cx)?;
    device.flush(&mut cx).map_err(|error| refused("attach", &error))?;
    let mut edits = Vec::new();
    edit(args, &mut device, &mut cx, &mut edits)?;
    device.flush(&mut cx).map_err(|error| refused("the end", &error))?;
    let volumes: Vec<VolumeInfo> = device.volume_infos().collect();
    let (pebs, available) = (device.layout().pebs, device.available_pebs());
    let (flash, detached) = device.detach(&mut cx);
    detached.map_err(|error| refused("the end", &error))?;
    let (erasures, programmed_bytes) = (flash.erases_by_cause().total(), flash.programmed_bytes().total());
    let mut bytes = flash.into_store().into_buffer();
    let fastmap = finish(args, &image, &mut bytes, &mut edits)?;
    let mut out = NewFile::create(&target, &overwrite)?;
    out.write(image.before())?;
    out.write(&bytes)?;
    out.finish()?;
    if args.in_place {
        fs::set_permissions(&target, mode).map_err(|error| CliError::write(&target, &error))?;
    }
    let volumes = volumes.into_iter().map(|info| VolumeJson {
        id: info.vol_id.0,
        name: printable(&info.record.name),
        r#type: info.record.vol_type.name(),
        reserved_lebs: info.record.reserved_pebs,
        leb_bytes: info.leb_bytes,
        data_bytes: info.data_bytes,
    });
    let document = Document {
        file: args.output.as_ref().unwrap_or(&args.image).display().to_string(),
        pebs,
        available_lebs: available,
        fastmap,
        erasures,
        programmed_bytes,
        edits,
        volumes: volumes.collect(),
    };
    if args.json {
        output::print_json("nandlab/image-edit/1", &document)?;
    } else {
        output::print(&summary(&document))?;
    }
    Ok(Outcome::Done)
}

fn summary(document: &Document) -> String {
    let mut out = String::new();
    for edit in &document.edits {
        let _ = writeln!(out, "{edit}");
    }
    let _ = writeln!(
        out,
        "{}: {} PEBs, {} LEBs available, {} fastmap; {} erasures, {} bytes programmed",
        document.file,
        document.pebs,
        document.available_lebs,
        if document.fastmap { "with a" } else { "no" },
        document.erasures,
        document.programmed_bytes
    );
    for volume in &document.volumes {
        let VolumeJson { id, name, r#type, reserved_lebs, leb_bytes, data_bytes } = volume;
        let _ = writeln!(
            out,
            "  volume {id} {name:?}, {type}: {reserved_lebs} LEBs of {leb_bytes} bytes, {data_bytes} bytes of data"
        );
    }
    out
}

/// The error for an edit that UBI refuses.
fn refused(option: &str, error: &UbiError) -> CliError {
    let help = match error {
        UbiError::NoSpace { .. } => "remove or shrink another volume, or give a larger flash with --pebs N",
        UbiError::BadRequest { what: "update", .. } => "resize the volume first: --resize VOLUME=SIZE",
        UbiError::NameExists { .. } | UbiError::VolumeExists(_) => "remove or rename that volume, or take another",
        UbiError::ReadOnly { .. } => "see `nandlab image check`",
        _ => "see `nandlab image ls` for the volumes that there are",
    };
    CliError::input(Path::new(option), error.to_string(), help)
}

/// Does what UBI does: volumes and contents.
fn edit(args: &Args, device: &mut Device, cx: &mut Cx, edits: &mut Vec<String>) -> Result<(), CliError> {
    for name in &args.remove {
        let id = find(device, "--remove", name)?;
        device.remove_volume(cx, id).map_err(|error| refused(&format!("--remove {name}"), &error))?;
        edits.push(format!("removed volume {id} {name:?}"));
    }
    if !args.rename.is_empty() {
        let ids = args.rename.iter().map(|named| find(device, "--rename", &named.volume));
        let ids = ids.collect::<Result<Vec<VolId>, CliError>>()?;
        let renames: Vec<(VolId, &str)> =
            ids.into_iter().zip(&args.rename).map(|(id, named)| (id, named.to.as_str())).collect();
        let before = device.volume_infos().count();
        device.rename_volumes(cx, &renames).map_err(|error| refused("--rename", &error))?;
        edits.extend(renames.iter().map(|(id, name)| format!("renamed volume {id} to {name:?}")));
        let gone = before - device.volume_infos().count();
        if gone > 0 {
            edits.push(format!("removed {gone} volumes whose names others got"));
        }
    }
    // Those that shrink make room for those that grow.
    let mut sizes = Vec::new();
    for (name, size) in &args.resize {
        let id = find(device, "--resize", name)?;
        let info = volume(device, id);
        let lebs = lebs_of(*size, &info);
        sizes.push((lebs.is_none_or(|lebs| lebs > info.record.reserved_pebs), id, name, lebs));
    }
    sizes.sort_by_key(|(grows, _, _, lebs)| (*grows, lebs.is_none()));
    for (_, id, name, lebs) in sizes {
        let lebs = lebs.unwrap_or_else(|| volume(device, id).record.reserved_pebs + device.available_pebs());
        let is_written = args.write.iter().any(|named| find(device, "--write", &named.volume).is_ok_and(|to| to == id));
        if let Some(needed) = ubifs_lebs(device, cx, id).filter(|&needed| needed > lebs && !is_written) {
            let what = format!("UBIFS in {name:?} has {needed} LEBs and cannot be mounted in a volume of {lebs}");
            let help = "give it as many, or pack its files anew for a smaller volume and --write that";
            return Err(CliError::input(Path::new(&format!("--resize {name}")), what, help));
        }
        device.resize_volume(cx, id, lebs).map_err(|error| refused(&format!("--resize {name}"), &error))?;
        edits.push(format!("resized volume {id} {name:?} to {lebs} LEBs"));
    }
    for add in &args.add {
        let request = VolumeRequest {
            vol_id: add.id.map(VolId),
            name: add.name.clone(),
            vol_type: add.vol_type,
            size: match add.size {
                Size::Bytes(bytes) => VolumeSize::Bytes(bytes),
                Size::Lebs(lebs) => VolumeSize::Lebs(lebs),
                Size::All => VolumeSize::Max,
            },
            alignment: add.alignment,
            skip_check: add.skip_check,
        };
        let id = device.create_volume(cx, &request).map_err(|error| refused(&format!("--add {}", add.name), &error))?;
        edits.push(format!("added volume {id} {:?}, {} LEBs", add.name, volume(device, id).record.reserved_pebs));
    }
    for named in &args.write {
        let id = find(device, "--write", &named.volume)?;
        let path = Path::new(&named.to);
        let data = fs::read(path).map_err(|error| CliError::read(path, &error))?;
        let option = format!("--write {}={}", named.volume, named.to);
        device.update_volume(cx, id, &data).map_err(|error| refused(&option, &error))?;
        edits.push(format!("wrote {} bytes to volume {id} {:?}", data.len(), named.volume));
    }
    Ok(())
}

/// LEBs of the UBIFS in a volume, if it holds one.
fn ubifs_lebs(device: &mut Device, cx: &mut Cx, id: VolId) -> Option<u32> {
    let mut bytes = [0; SuperBlock::BYTES];
    device.volume(id).ok()?.read(cx, Lnum(0), 0, &mut bytes).ok()?;
    let (_, node) = Header::expect(&bytes, NodeType::SuperBlock).ok()?;
    SuperBlock::decode(node).ok().map(|super_block| super_block.lebs)
}

/// Does what UBI does not: sets erase counters. Returns whether there is a valid fastmap.
/// Errors: counters that cannot be set; a fastmap was asked for and Linux would not use it.
fn finish(args: &Args, image: &Image, bytes: &mut [u8], edits: &mut Vec<String>) -> Result<bool, CliError> {
    let wanted = {
        let dump = image.probe(bytes)?;
        let mut counters = BTreeMap::new();
        let scan = Scan::new(&dump);
        let has_header = |peb: &u32| scan.pebs()[*peb as usize].ec().is_some();
        for CounterOf { pebs, ec } in &args.ec {
            let (mut set, all) = (0, dump.geometry().pebs);
            if let Some(last) = pebs.as_ref().and_then(PebList::last).filter(|&last| last >= all) {
                let what = format!("found PEB {last}, expected less than the {all} of the flash");
                return Err(CliError::input(Path::new("--ec"), what, "number PEBs from 0"));
            }
            // Of all PEBs, bad ones have none.
            let chosen = (0..all).filter(|peb| pebs.as_ref().map_or(has_header(peb), |pebs| pebs.contains(*peb)));
            for peb in chosen {
                counters.insert(Peb(peb), u64::from(*ec));
                set += 1;
            }
            edits.push(format!("set {set} erase counters to {ec}"));
        }
        CounterEdit::new(&dump, counters).map_err(|error| {
            CliError::input(Path::new("--ec"), error.to_string(), "give good PEBs and counters up to 2147483647")
        })?
    };
    wanted.apply(bytes);
    let dump = image.probe(bytes)?;
    let scan = Scan::new(&dump);
    let errors = check(&scan).iter().filter(|finding| finding.severity == Severity::Error).count();
    if errors > 0 {
        eprintln!("warning: the result has {errors} errors; see `nandlab image check`");
    }
    match scan.fastmap() {
        Some(fastmap) if args.fastmap && !fastmap.is_valid() => {
            let what = fastmap.faults.first().map_or("it is not valid", |fault| fault.what.as_str());
            let what = format!("Linux would not use it: {what}");
            Err(CliError::input(Path::new("--fastmap"), what, "leave it out: Linux scans this flash"))
        }
        found => Ok(found.is_some_and(|fastmap| fastmap.is_valid())),
    }
}

/// The volume with this name, or else this number.
fn find(device: &Device, option: &str, name: &str) -> Result<VolId, CliError> {
    let by_number = || {
        let id = VolId(name.parse().ok()?);
        device.volume_infos().any(|info| info.vol_id == id).then_some(id)
    };
    device.find_volume(name).or_else(by_number).ok_or_else(|| {
        let names: Vec<String> = device.volume_infos().map(|info| printable(&info.record.name)).collect();
        let expected = if names.is_empty() { "none: there is no volume".to_owned() } else { names.join(", ") };
        let what = format!("found no volume {name:?}, expected one of {expected}");
        CliError::input(Path::new(option), what, "name a volume, or give its number")
    })
}

fn volume(device: &Device, id: VolId) -> VolumeInfo {
    device.volume_infos().find(|info| info.vol_id == id).expect("the volume was found before")
}

/// LEBs of a size; `None` for all that are available.
fn lebs_of(size: Size, info: &VolumeInfo) -> Option<u32> {
    match size {
        Size::Bytes(bytes) => Some(u32::try_from(bytes.div_ceil(u64::from(info.leb_bytes))).unwrap_or(u32::MAX)),
        Size::Lebs(lebs) => Some(lebs),
        Size::All => None,
    }
}
