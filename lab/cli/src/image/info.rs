//! `nandlab image info`: prints the contents of an image.

use std::fmt::Write;

use serde::Serialize;
use ubi::image::{Fastmap, Finding, Geometry, LeftOut, Scan, Severity, Volume, check};

use super::ecc::{EccJson, print_lost};
use super::files::describe::{self, Described, Jffs2Json, UbifsJson};
use super::files::opened::FilesError;
use super::files::{self, Alone};
use super::input::Loaded;
use super::json::{CountsJson, FastmapJson, GeometryJson, HistogramJson, LostPebJson, VolumeJson, VtblJson, lost_pebs};
use super::load::Source;
use super::ls;
use crate::Outcome;
use crate::error::CliError;
use crate::output;

/// Arguments of `nandlab image info`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: Source,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Document {
    file: String,
    bytes: u64,
    geometry: GeometryJson,
    pebs: CountsJson,
    lost_pebs: Vec<LostPebJson>,
    image_seqs: Vec<ImageSeqJson>,
    sqnum: Option<RangeJson>,
    never_attached: bool,
    erase_counters: HistogramJson,
    volume_table: VtblJson,
    fastmap: Option<FastmapJson>,
    volumes: Vec<VolumeInfoJson>,
    findings: TallyJson,
    ecc: Option<EccJson>,
}

#[derive(Serialize)]
struct VolumeInfoJson {
    #[serde(flatten)]
    volume: VolumeJson,
    ubifs: Option<UbifsJson>,
    ubifs_error: Option<String>,
    jffs2: Option<Jffs2Json>,
    jffs2_error: Option<String>,
}

#[derive(Serialize)]
struct BareDocument {
    file: String,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ubifs: Option<UbifsJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    jffs2: Option<Jffs2Json>,
}

#[derive(Serialize)]
struct ImageSeqJson {
    image_seq: u32,
    pebs: u32,
}

#[derive(Serialize)]
struct RangeJson {
    min: u64,
    max: u64,
}

#[derive(Serialize)]
struct TallyJson {
    errors: usize,
    warnings: usize,
    notes: usize,
}

/// Number of findings with this severity.
pub fn tally(findings: &[Finding], severity: Severity) -> usize {
    findings.iter().filter(|finding| finding.severity == severity).count()
}

fn volumes_json(scan: &Scan<'_>) -> Vec<VolumeInfoJson> {
    let of = |volume: &Volume| {
        let volume_json = VolumeJson::new(scan, volume);
        let none =
            VolumeInfoJson { volume: volume_json, ubifs: None, ubifs_error: None, jffs2: None, jffs2_error: None };
        match describe::of_volume(scan, volume) {
            None => none,
            Some(Ok(Described::Ubifs(ubifs))) => VolumeInfoJson { ubifs: Some(*ubifs), ..none },
            Some(Ok(Described::Jffs2(jffs2))) => VolumeInfoJson { jffs2: Some(*jffs2), ..none },
            Some(Err(FilesError::Ubifs(error))) => VolumeInfoJson { ubifs_error: Some(error.to_string()), ..none },
            Some(Err(FilesError::Jffs2(error))) => VolumeInfoJson { jffs2_error: Some(error.to_string()), ..none },
        }
    };
    scan.volumes().iter().map(of).collect()
}

/// Prints what is in an image of a file system without UBI.
fn alone(args: &Args, loaded: &Loaded, alone: Alone<'_>) -> Result<Outcome, CliError> {
    let block_bytes = alone.raw_block_bytes();
    let described = describe::of_alone(alone).map_err(|error| files::failed(&args.source.image, &error))?;
    args.source.was_read(loaded)?;
    let (file, length) = (args.source.name(), loaded.bytes());
    if args.json {
        let (ubifs, jffs2) = match described {
            Described::Ubifs(ubifs) => (Some(*ubifs), None),
            Described::Jffs2(jffs2) => (None, Some(*jffs2)),
        };
        output::print_json("nandlab/image-info/1", &BareDocument { file, bytes: length, ubifs, jffs2 })?;
    } else {
        let mut out = format!("{file}: {} without UBI, {}\n", described.name(), bytes(length));
        described.lines(&mut |label, value| {
            let _ = writeln!(out, "  {label:<22}{value}");
        });
        output::print(&out)?;
    }
    Ok(args.source.ended_alone(loaded, block_bytes, Outcome::Done))
}

/// Runs the command.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    let loaded = args.source.load()?;
    if let Some(found) = Alone::open(&args.source, &loaded)? {
        return alone(args, &loaded, found);
    }
    let dump = args.source.probe(&loaded)?;
    let scan = Scan::new(&dump);
    let findings = check(&scan);
    args.source.is_one(&loaded, &scan)?;
    let ecc = args.source.corrected(&loaded, &scan);
    let lost = ecc.as_ref().map_or(0, |ecc| ecc.uncorrectable);
    if args.json {
        let seqs = scan.image_seqs();
        output::print_json(
            "nandlab/image-info/1",
            &Document {
                file: args.source.name(),
                bytes: dump.len(),
                geometry: GeometryJson::new(dump.geometry()),
                pebs: CountsJson::new(&scan),
                lost_pebs: lost_pebs(&scan),
                image_seqs: seqs.into_iter().map(|(image_seq, pebs)| ImageSeqJson { image_seq, pebs }).collect(),
                sqnum: scan.sqnums().map(|(min, max)| RangeJson { min, max }),
                never_attached: scan.is_never_attached(),
                erase_counters: HistogramJson::new(&scan.wear().all),
                volume_table: VtblJson::new(scan.vtbl()),
                fastmap: scan.fastmap().map(FastmapJson::new),
                volumes: volumes_json(&scan),
                findings: TallyJson {
                    errors: tally(&findings, Severity::Error),
                    warnings: tally(&findings, Severity::Warning),
                    notes: tally(&findings, Severity::Note),
                },
                ecc,
            },
        )?;
    } else {
        output::print(&text(&args.source.name(), &scan, &findings, ecc.as_ref()))?;
        if let Some(ecc) = &ecc {
            print_lost(&args.source.image, ecc.code(), &ecc.places, lost);
        }
    }
    Ok(if lost == 0 { Outcome::Done } else { Outcome::Failed })
}

fn text(name: &str, scan: &Scan<'_>, findings: &[Finding], ecc: Option<&EccJson>) -> String {
    let dump = scan.dump();
    let mut out = format!("{name}: UBI, {}\n", bytes(dump.len()));
    let mut line = |label: &str, value: String| {
        let _ = writeln!(out, "  {label:<22}{value}");
    };
    geometry(dump.geometry(), &mut line);
    if let Some(ecc) = ecc {
        line("ECC", ecc.text());
    }
    let counts = scan.counts();
    line(
        "PEBs",
        format!(
            "{} used, {} free, {} erased, {} bad, {} corrupt{}",
            counts.used,
            counts.free,
            counts.erased,
            counts.bad,
            counts.corrupt_ec + counts.corrupt_vid,
            if counts.foreign == 0 { String::new() } else { format!(", {} of other devices", counts.foreign) }
        ),
    );
    if let (markers @ 1.., false) = scan.bad_markers() {
        line("bad-block markers", format!("ignored: {markers} PEBs have other bytes there, taken for ECC"));
    }
    match dump.known_bad().left_out() {
        Some(LeftOut::Unknown) => line("bad blocks", "left out of the dump, and nothing says which".to_owned()),
        Some(LeftOut::ByFastmap) => line("bad blocks", "left out of the dump; the fastmap says which".to_owned()),
        Some(LeftOut::Listed) | None => {}
    }
    let seqs: Vec<String> =
        scan.image_seqs().into_iter().map(|(seq, pebs)| format!("{seq:#010x} on {pebs} PEBs")).collect();
    line("image sequence number", or_none(seqs.join(", ")));
    let never = if scan.is_never_attached() { " (never attached)" } else { "" };
    line("sequence numbers", scan.sqnums().map_or("none".to_owned(), |(min, max)| format!("{min} to {max}{never}")));
    let total = scan.wear().all.total;
    let ecs = format!("min {}, avg {}, max {} over {} PEBs", total.min, total.avg(), total.max, total.count);
    line("erase counters", ecs);
    line("volume table", volume_table(scan));
    line("fastmap", scan.fastmap().map_or("none".to_owned(), fastmap));
    let [errors, warnings] = [Severity::Error, Severity::Warning].map(|severity| tally(findings, severity));
    let verdict = match (errors, warnings) {
        (0, 0) => "consistent".to_owned(),
        _ => {
            let (errors, warnings) = (counted(errors, "error"), counted(warnings, "warning"));
            format!("{errors}, {warnings}; `nandlab image check` names them")
        }
    };
    line("check", verdict);
    out.push_str(&lost(scan));
    out.push('\n');
    out.push_str(&ls::table(scan));
    for volume in scan.volumes() {
        let Some(described) = describe::of_volume(scan, &volume) else { continue };
        let name = volume.record.as_ref().map_or("?".to_owned(), |record| ls::printable(&record.name));
        let kind = match &described {
            Ok(described) => described.name(),
            Err(error) => error.of(),
        };
        let _ = writeln!(out, "\n{kind} in volume {} ({name})", volume.id);
        match described {
            Ok(described) => described.lines(&mut |label, value| {
                let _ = writeln!(out, "  {label:<22}{value}");
            }),
            Err(error) => {
                let _ = writeln!(out, "  cannot be mounted: {error}");
            }
        }
    }
    out
}

fn geometry(geometry: &Geometry, line: &mut impl FnMut(&str, String)) {
    let Geometry { pebs, ec_headers, agreeing, .. } = *geometry;
    if geometry.start != 0 {
        line("first PEB", format!("at byte {}: what comes before is not UBI", geometry.start));
    }
    let how = if geometry.peb_bytes_given { "given" } else { "guessed" };
    let peb = bytes(u64::from(geometry.peb_bytes));
    line("PEB size", format!("{peb}, {how}: {ec_headers} of {pebs} PEBs begin with an EC header"));
    if geometry.partial_bytes != 0 {
        line(
            "truncated",
            format!(
                "{} bytes of PEB {pebs} are there, {} bytes are missing",
                geometry.partial_bytes,
                geometry.missing_bytes()
            ),
        );
    }
    if let Some(oob) = geometry.oob {
        let page = oob.page_bytes;
        line("OOB", format!("this dump contains OOB of {} bytes per {page}-byte page; read without it", oob.oob_bytes));
    }
    let others = match ec_headers - agreeing {
        0 => String::new(),
        others => format!(" ({others} EC headers say otherwise)"),
    };
    line("VID header, data at", format!("{}, {}{others}", geometry.vid_hdr_offset, geometry.data_offset));
    line("LEB size", bytes(u64::from(geometry.leb_bytes())));
    line("min. I/O unit", format!("{}, inferred: {}", bytes(u64::from(geometry.min_io_bytes)), geometry.min_io_why));
}

fn volume_table(scan: &Scan<'_>) -> String {
    let vtbl = scan.vtbl();
    let copies: Vec<String> = vtbl
        .copies
        .iter()
        .enumerate()
        .map(|(number, copy)| match copy.peb {
            None => format!("copy {number} missing"),
            Some(peb) if copy.is_good() => format!("copy {number} in PEB {peb}"),
            Some(peb) => format!("copy {number} in PEB {peb} with {} broken records", copy.broken.len()),
        })
        .collect();
    let differ = if vtbl.differ { ", they differ" } else { "" };
    format!("{}{differ}", copies.join(", "))
}

fn fastmap(fastmap: &Fastmap) -> String {
    let pebs: Vec<String> = fastmap.blocks.iter().map(|(peb, _)| peb.to_string()).collect();
    let mut text = match fastmap.faults.first() {
        None => "valid".to_owned(),
        Some(fault) => format!("not valid: {}", fault.what),
    };
    let _ = write!(text, "; anchor PEB {}, sqnum {}", fastmap.anchor, fastmap.sqnum);
    if !pebs.is_empty() {
        let _ = write!(text, ", blocks in PEBs {}", pebs.join(" "));
    }
    if let Some(lists) = &fastmap.lists {
        let _ = write!(
            text,
            "; {} free, {} used, {} to scrub, {} to erase, pools {} of {} and {} of {}",
            lists.free.len(),
            lists.used.len(),
            lists.scrub.len(),
            lists.erase.len(),
            lists.user_pool.len(),
            lists.user_pool_max,
            lists.wl_pool.len(),
            lists.wl_pool_max
        );
    }
    text
}

/// Bad and corrupt PEBs, as many as fit on a screen.
fn lost(scan: &Scan<'_>) -> String {
    const SHOWN: usize = 16;
    let lost = lost_pebs(scan);
    let mut out = String::new();
    for LostPebJson { peb, state, what } in lost.iter().take(SHOWN) {
        let _ = writeln!(out, "  PEB {peb}: {state}: {what}");
    }
    if lost.len() > SHOWN {
        let _ = writeln!(out, "  and {} more: `nandlab image check` names them", lost.len() - SHOWN);
    }
    out
}

fn or_none(text: String) -> String {
    if text.is_empty() { "none".to_owned() } else { text }
}

/// A number with its noun: "1 error", "2 errors".
pub fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// A size in bytes and in the largest unit that divides it.
pub fn bytes(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units.into_iter().find(|(shift, _)| bytes != 0 && bytes.is_multiple_of(1 << shift));
    match unit {
        Some((shift, name)) => format!("{bytes} bytes ({} {name})", bytes >> shift),
        None => format!("{bytes} bytes"),
    }
}
