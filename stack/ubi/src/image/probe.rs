//! Guesses the geometry of a dump from its EC headers.
//!
//! The PEB size is the most common distance of EC headers. OOB is decided by which page and OOB size makes VID headers
//! and volume-table records readable.

use std::collections::BTreeMap;

use super::bad::KnownBad;
use super::devices;
use super::dump::{Bytes, raw_peb_bytes, strip};
use super::survey::{SAMPLE, Seen, on_grid, survey};
use super::{Dump, Geometry, Input, MAX_PEB_BYTES, MAX_PEBS, MIN_PEB_BYTES, Oob};
use crate::media::{EcHdr, LAYOUT_VOLUME_ID, VidHdr, VtblRecord, vtbl_slots};

/// Geometry given by the user; it overrides the guess.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// Bytes of a PEB, without OOB.
    pub peb_bytes: Option<u32>,
    /// Bytes of a page.
    pub page_bytes: Option<u32>,
    /// Bytes of OOB after each page; 0 for none.
    pub oob_bytes: Option<u32>,
    /// Image sequence number of the device to read, where the dump holds several.
    pub image_seq: Option<u32>,
}

/// Why bytes cannot be read as UBI. `Display` says what was found and what was expected; [`ProbeError::help`] suggests
/// what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    /// The input is empty.
    #[error("found 0 bytes, expected a UBI image")]
    Empty,
    /// The input has no EC header.
    #[error("found {found} and no \"UBI#\" magic in {bytes} bytes, expected a UBI image")]
    NotUbi {
        /// What it looks like instead.
        found: &'static str,
        /// Length of the input.
        bytes: u64,
        /// What to do about that kind of input.
        help: &'static str,
    },
    /// There are magic numbers, but no valid header.
    #[error("found {magics} \"UBI#\" magics (the first at byte {first}), none of them an EC header with a right CRC")]
    NoWholeHeader {
        /// Number of magics.
        magics: u64,
        /// Byte offset of the first.
        first: u64,
    },
    /// Only one EC header, so the PEB size cannot be measured.
    #[error("found one EC header, at byte {at}, expected at least two to measure the PEB size")]
    OneHeader {
        /// Byte offset of the header.
        at: u64,
    },
    /// EC headers are at no distance that a PEB can have.
    #[error("found {headers} EC headers, the first two {distance} bytes apart, expected PEBs of 512 bytes to 16 MiB")]
    Distances {
        /// Number of EC headers.
        headers: u64,
        /// Bytes from the first to the second.
        distance: u64,
    },
    /// The given PEB size contradicts the headers.
    #[error("PEB size {given} was given, but EC headers are {found} bytes apart")]
    PebSize {
        /// PEB size given, in bytes.
        given: u32,
        /// Distance of headers, in bytes.
        found: u64,
    },
    /// A given size is impossible.
    #[error("{what} {given} was given, expected {expected}")]
    Given {
        /// Name of the size.
        what: &'static str,
        /// Value given.
        given: u32,
        /// Values allowed.
        expected: &'static str,
    },
    /// The headers are valid, but their offsets lie outside a PEB.
    #[error(
        "EC headers put the VID header at {vid_hdr_offset} and data at {data_offset}, expected both inside a PEB of \
         {peb_bytes} bytes and 64 bytes or more apart (the first such header is at byte {at})"
    )]
    Offsets {
        /// Offset of the VID header according to the headers.
        vid_hdr_offset: u32,
        /// Offset of the data according to the headers.
        data_offset: u32,
        /// Bytes of a PEB.
        peb_bytes: u32,
        /// Byte offset of the first of these headers.
        at: u64,
    },
    /// Not a single PEB is complete.
    #[error("found {bytes} bytes, expected at least one PEB of {peb_bytes} bytes: {missing} bytes are missing")]
    NoWholePeb {
        /// Length of the input.
        bytes: u64,
        /// Bytes of a PEB in the dump.
        peb_bytes: u32,
        /// Bytes missing from the first PEB.
        missing: u64,
    },
    /// More than [`MAX_PEBS`](super::MAX_PEBS).
    #[error("found {pebs} PEBs of {peb_bytes} bytes, expected at most {MAX_PEBS}")]
    TooManyPebs {
        /// Number of PEBs.
        pebs: u64,
        /// Bytes of a PEB in the dump.
        peb_bytes: u32,
    },
    /// No EC header has the image sequence number that was given.
    #[error("found no EC header with image_seq {given:#010x}, expected {}", one_of(.found))]
    NoSuchDevice {
        /// The number given.
        given: u32,
        /// Those that are there, the first few.
        found: Vec<u32>,
    },
}

fn one_of(image_seqs: &[u32]) -> String {
    let named: Vec<String> = image_seqs.iter().map(|image_seq| format!("{image_seq:#010x}")).collect();
    named.join(" or ")
}

impl ProbeError {
    /// What the user can do about it.
    pub fn help(&self) -> &'static str {
        match self {
            ProbeError::Empty => "dump the flash again: `nanddump -f dump.bin /dev/mtdN`",
            ProbeError::NotUbi { help, .. } => help,
            ProbeError::NoWholeHeader { .. } => {
                "the dump was read without ECC correction, or with pages in another order: dump it again with \
                 `nanddump` on the device"
            }
            ProbeError::OneHeader { .. } | ProbeError::Distances { .. } => "give the PEB size with --peb-size",
            ProbeError::PebSize { .. } => {
                "leave --peb-size out, or give --page-size and --oob-size as well if the \
                                           dump holds OOB"
            }
            ProbeError::Given { .. } => "leave the option out: sizes are guessed from the headers",
            ProbeError::Offsets { .. } => {
                "the headers were damaged or forged after their CRC was computed; only a \
                                           fresh dump helps"
            }
            ProbeError::NoWholePeb { .. } => "the dump was cut short: dump it again, or give a smaller --peb-size",
            ProbeError::TooManyPebs { .. } => {
                "give the PEB size with --peb-size, or read a part with --offset and --length"
            }
            ProbeError::NoSuchDevice { .. } => "give one of these with --image-seq",
        }
    }
}

/// Page and OOB bytes of common parts.
const SHAPES: [(u32, u32); 20] = [
    (512, 16),
    (2048, 64),
    (2048, 128),
    (2048, 112),
    (2048, 96),
    (4096, 128),
    (4096, 224),
    (4096, 256),
    (4096, 218),
    (4096, 208),
    (4096, 192),
    (8192, 256),
    (8192, 376),
    (8192, 436),
    (8192, 448),
    (8192, 512),
    (8192, 640),
    (8192, 744),
    (16384, 1280),
    (16384, 1216),
];

impl<'a> Dump<'a> {
    /// Finds the PEBs in `bytes`.
    /// Errors: the bytes are not UBI, all headers are impossible, or they contradict `given`.
    pub fn probe(bytes: &'a [u8], given: &Overrides) -> Result<Dump<'a>, ProbeError> {
        probe(Bytes::Memory(bytes), given)
    }

    /// As [`probe`](Dump::probe), of bytes that are read piece by piece.
    pub fn probe_input(input: &'a dyn Input, given: &Overrides) -> Result<Dump<'a>, ProbeError> {
        probe(Bytes::Input(input), given)
    }
}

fn probe<'a>(bytes: Bytes<'a>, given: &Overrides) -> Result<Dump<'a>, ProbeError> {
    check_given(given)?;
    if bytes.len() == 0 {
        return Err(ProbeError::Empty);
    }
    let survey = survey(bytes, given.image_seq)?;
    let seen = &survey.seen;
    if let (Some(given), []) = (given.image_seq, &seen[..]) {
        return Err(ProbeError::NoSuchDevice { given, found: survey.groups.keys().copied().take(8).collect() });
    }
    let shapes = shapes(given);
    let (stride, residue) = match given.peb_bytes {
        None => measured(seen, bytes.len()).ok_or_else(|| match seen[..] {
            [first, second, ..] => ProbeError::Distances { headers: survey.headers, distance: second.at - first.at },
            _ => ProbeError::OneHeader { at: seen[0].at },
        })?,
        Some(peb_bytes) => {
            let best = shapes
                .iter()
                .filter(|shape| shape.is_none_or(|oob| peb_bytes % oob.page_bytes == 0))
                .map(|&shape| u64::from(raw_peb_bytes(peb_bytes, shape)))
                .map(|stride| {
                    let (residue, hits) = residue(seen, stride);
                    (hits, stride, residue)
                })
                .max_by_key(|&(hits, stride, _)| (hits, std::cmp::Reverse(stride)));
            let (hits, stride, residue) = best.unwrap_or((1, u64::from(peb_bytes), 0));
            if let Some((found, _)) = measured(seen, bytes.len())
                && hits * 2 < seen.len()
                && found != stride
            {
                return Err(ProbeError::PebSize { given: peb_bytes, found });
            }
            (stride, residue)
        }
    };
    let rest = bytes.len() - residue;
    if rest < stride {
        return Err(ProbeError::NoWholePeb { bytes: rest, peb_bytes: stride as u32, missing: stride - rest });
    }
    let pebs = rest / stride;
    if pebs > u64::from(MAX_PEBS) {
        return Err(ProbeError::TooManyPebs { pebs, peb_bytes: stride as u32 });
    }
    let headers = on_grid(bytes, residue, stride, pebs);
    let own: Vec<Seen> = match given.image_seq {
        Some(wanted) => headers.iter().filter(|hdr| hdr.image_seq == wanted).copied().collect(),
        None => headers.clone(),
    };
    let geometry = Geometry {
        start: residue,
        peb_bytes: stride as u32,
        oob: None,
        pebs: pebs as u32,
        partial_bytes: (rest % stride) as u32,
        ec_headers: 0,
        agreeing: 0,
        vid_hdr_offset: 0,
        data_offset: 0,
        min_io_bytes: 0,
        min_io_why: "",
        peb_bytes_given: given.peb_bytes.is_some(),
    };
    let geometry = best_shape(bytes, &own, geometry, given, &shapes)?;
    let off_grid = devices::off_grid(&headers, &survey, stride);
    let dump = Dump { bytes, geometry, image_seq: given.image_seq, off_grid, bad: KnownBad::default() };
    Ok(match given.image_seq {
        Some(wanted) => devices::limit(dump, wanted, &headers, &survey),
        None => dump,
    })
}

fn check_given(given: &Overrides) -> Result<(), ProbeError> {
    if let Some(size) = given.peb_bytes
        && !(MIN_PEB_BYTES..=MAX_PEB_BYTES).contains(&size)
    {
        return Err(ProbeError::Given { what: "PEB size", given: size, expected: "512 bytes to 16 MiB" });
    }
    if let Some(size) = given.page_bytes
        && !(size.is_power_of_two() && size <= 1 << 16)
    {
        return Err(ProbeError::Given { what: "page size", given: size, expected: "a power of two up to 64 KiB" });
    }
    if let Some(size) = given.oob_bytes
        && size > 1 << 14
    {
        return Err(ProbeError::Given { what: "OOB size", given: size, expected: "at most 16 KiB" });
    }
    Ok(())
}

/// Page and OOB sizes to try: none, and each common one that `given` allows.
fn shapes(given: &Overrides) -> Vec<Option<Oob>> {
    let mut shapes = Vec::new();
    if given.oob_bytes.is_none_or(|oob| oob == 0) {
        shapes.push(None);
    }
    let Some(oob_bytes) = given.oob_bytes.filter(|&oob| oob != 0) else {
        if given.oob_bytes.is_none() {
            let fits = |page| given.page_bytes.is_none_or(|given| given == page);
            let common = SHAPES.iter().filter(|(page, _)| fits(*page));
            shapes.extend(common.map(|&(page_bytes, oob_bytes)| Some(Oob { page_bytes, oob_bytes })));
        }
        return shapes;
    };
    let pages = given.page_bytes.map_or(vec![512, 2048, 4096, 8192, 16384], |page| vec![page]);
    shapes.extend(pages.into_iter().map(|page_bytes| Some(Oob { page_bytes, oob_bytes })));
    shapes
}

/// The most common remainder of header offsets modulo `stride`, the smallest on a tie, and how many headers have it.
fn residue(seen: &[Seen], stride: u64) -> (u64, usize) {
    let mut counts = BTreeMap::new();
    for hdr in seen {
        *counts.entry(hdr.at % stride).or_insert(0usize) += 1;
    }
    counts.into_iter().max_by_key(|&(residue, count)| (count, std::cmp::Reverse(residue))).unwrap_or((0, 0))
}

/// The distance with the largest hits² / slots: it explains most headers with fewest PEBs that lack one. A multiple of
/// the PEB size explains fewer headers, a divisor leaves more slots empty. The smaller distance on a tie.
fn measured(seen: &[Seen], len: u64) -> Option<(u64, u64)> {
    /// Distances to try, the most frequent first; bounds the work on hostile input.
    const TRIED: usize = 48;
    let (seen, len) = match seen.get(SAMPLE) {
        Some(next) => (&seen[..SAMPLE], next.at),
        None => (seen, len),
    };
    let mut distances = BTreeMap::new();
    for pair in seen.windows(2) {
        *distances.entry(pair[1].at - pair[0].at).or_insert(0usize) += 1;
    }
    let believed = u64::from(MIN_PEB_BYTES)..=2 * u64::from(MAX_PEB_BYTES);
    let mut distances: Vec<(u64, usize)> =
        distances.into_iter().filter(|(distance, _)| believed.contains(distance)).collect();
    distances.sort_by_key(|&(distance, count)| (std::cmp::Reverse(count), distance));
    distances.truncate(TRIED);
    distances
        .into_iter()
        .map(|(stride, _)| {
            let (residue, hits) = residue(seen, stride);
            let slots = (len - residue).div_ceil(stride).max(1);
            ((hits as u128 * hits as u128 * (1 << 20)) / u128::from(slots), stride, residue)
        })
        .max_by_key(|&(score, stride, _)| (score, std::cmp::Reverse(stride)))
        .map(|(_, stride, residue)| (stride, residue))
}

/// Of the shapes that fit the distance, the one under which most headers and records are readable. On a tie without
/// OOB, then the larger page.
fn best_shape(
    bytes: Bytes<'_>,
    aligned: &[Seen],
    found: Geometry,
    given: &Overrides,
    shapes: &[Option<Oob>],
) -> Result<Geometry, ProbeError> {
    let stride = found.peb_bytes;
    let mut best: Option<(u64, u32, Geometry)> = None;
    let mut lie = None;
    for &oob in shapes {
        let peb_bytes = match oob {
            None => stride,
            Some(Oob { page_bytes, oob_bytes }) if stride.is_multiple_of(page_bytes + oob_bytes) => {
                stride / (page_bytes + oob_bytes) * page_bytes
            }
            Some(_) => continue,
        };
        let is_peb = match given.peb_bytes {
            Some(given) => given == peb_bytes,
            None => oob.is_none() || peb_bytes.is_power_of_two(),
        };
        if !is_peb || peb_bytes < MIN_PEB_BYTES {
            continue;
        }
        let Some((vid_hdr_offset, data_offset, agreeing)) = majority(aligned, peb_bytes) else {
            lie.get_or_insert(peb_bytes);
            continue;
        };
        let (min_io_bytes, min_io_why) = min_io(vid_hdr_offset, data_offset, oob, given.page_bytes);
        let ec_headers = aligned.len() as u32;
        let geometry = Geometry {
            peb_bytes,
            oob,
            ec_headers,
            agreeing,
            vid_hdr_offset,
            data_offset,
            min_io_bytes,
            min_io_why,
            ..found.clone()
        };
        // An image without VID headers does not decide; then a power of two is more likely.
        let readable = readable(bytes, aligned, &geometry);
        let likely = match oob {
            None if stride.is_power_of_two() => u32::MAX,
            None => 0,
            Some(oob) if data_offset % oob.page_bytes != 0 => 1,
            Some(oob) => 2 + oob.page_bytes,
        };
        if best.as_ref().is_none_or(|&(score, rank, _)| (readable, likely) > (score, rank)) {
            best = Some((readable, likely, geometry));
        }
    }
    match (best, lie, aligned.first()) {
        (Some((_, _, geometry)), _, _) => Ok(geometry),
        (None, Some(peb_bytes), Some(&Seen { at, vid_hdr_offset, data_offset, .. })) => {
            Err(ProbeError::Offsets { vid_hdr_offset, data_offset, peb_bytes, at })
        }
        _ => Err(match *given {
            Overrides { peb_bytes: Some(size), .. } => ProbeError::PebSize { given: size, found: u64::from(stride) },
            Overrides { page_bytes, oob_bytes, .. } => ProbeError::Given {
                what: "OOB size",
                given: oob_bytes.or(page_bytes).unwrap_or(0),
                expected: "one that with the page size divides the distance of EC headers",
            },
        }),
    }
}

/// The pair of offsets in most headers, among possible pairs; the smaller on a tie.
fn majority(aligned: &[Seen], peb_bytes: u32) -> Option<(u32, u32, u32)> {
    let mut counts = BTreeMap::new();
    for hdr in aligned.iter().filter(|hdr| possible_offsets(hdr.vid_hdr_offset, hdr.data_offset, peb_bytes)) {
        *counts.entry((hdr.vid_hdr_offset, hdr.data_offset)).or_insert(0u32) += 1;
    }
    counts
        .into_iter()
        .max_by_key(|&(offsets, count)| (count, std::cmp::Reverse(offsets)))
        .map(|((vid_hdr_offset, data_offset), count)| (vid_hdr_offset, data_offset, count))
}

pub(super) fn possible_offsets(vid_hdr_offset: u32, data_offset: u32, peb_bytes: u32) -> bool {
    vid_hdr_offset >= EcHdr::BYTES as u32
        && vid_hdr_offset.checked_add(VidHdr::BYTES as u32).is_some_and(|end| end <= data_offset)
        && data_offset < peb_bytes
}

/// Number of VID headers and volume-table records readable under `geometry`, in a sample of the PEBs. Records weigh
/// most: they span several pages, so a wrong page size breaks them.
fn readable(bytes: Bytes<'_>, aligned: &[Seen], geometry: &Geometry) -> u64 {
    const SAMPLED: usize = 256;
    let raw = u64::from(geometry.raw_peb_bytes());
    let mut score = 0;
    for hdr in aligned.iter().take(SAMPLED) {
        let slots = vtbl_slots(geometry.leb_bytes()) as usize;
        let table_end = geometry.data_offset as usize + slots * VtblRecord::BYTES;
        let raw_end = match geometry.oob {
            Some(oob) => table_end + (table_end / oob.page_bytes as usize + 1) * oob.oob_bytes as usize,
            None => table_end,
        };
        let peb = strip(bytes.get(hdr.at, raw.min(raw_end as u64)), geometry.oob);
        let vid = peb.get(geometry.vid_hdr_offset as usize..).and_then(|rest| rest.first_chunk::<{ VidHdr::BYTES }>());
        let Some(Ok(vid)) = vid.map(VidHdr::decode) else { continue };
        score += 1;
        if vid.vol_id == LAYOUT_VOLUME_ID {
            let table = peb.get(geometry.data_offset as usize..).unwrap_or(&[]);
            let (records, _) = table.as_chunks::<{ VtblRecord::BYTES }>();
            let whole = records.iter().take(slots).filter(|it| VtblRecord::decode(it, geometry.leb_bytes()).is_ok());
            score += 1000 * whole.count() as u64;
        }
    }
    score
}

fn min_io(vid_hdr_offset: u32, data_offset: u32, oob: Option<Oob>, page: Option<u32>) -> (u32, &'static str) {
    if let Some(page) = page {
        return (page, "as given");
    }
    if let Some(oob) = oob {
        return (oob.page_bytes, "the page between two OOB areas");
    }
    match (vid_hdr_offset, data_offset) {
        (64, 128) => (1, "headers are not padded, as on NOR; any unit up to 64 bytes would look the same"),
        (vid, data) if vid.is_power_of_two() && data == 2 * vid => {
            (vid, "VID header and data one unit apart; pages of twice the size with two sub-pages would look the same")
        }
        (vid, data) if data.is_power_of_two() && vid.is_power_of_two() => {
            (data, "data begin at a power of two, the VID header in an earlier sub-page")
        }
        (_, data) if data.is_power_of_two() => {
            (data, "data begin at a power of two; the VID header's offset is custom")
        }
        (_, data) => (1 << data.trailing_zeros(), "the largest power of two that divides the data offset"),
    }
}
