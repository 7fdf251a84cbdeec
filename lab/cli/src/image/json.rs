//! Pieces of the JSON documents, described in `docs/format/image-json.md`.

use serde::Serialize;
use ubi::image::wear::{Bin, Histogram};
use ubi::image::{Fastmap, FastmapLists, Geometry, PebState, Scan, Volume, Vtbl};
use ubi::media::VtblRecord;

use super::files::Holds;

/// Geometry of a dump.
#[derive(Serialize)]
pub struct GeometryJson {
    start: u64,
    peb_bytes: u32,
    peb_bytes_given: bool,
    pebs: u32,
    partial_bytes: u32,
    missing_bytes: u32,
    oob: Option<OobJson>,
    ec_headers: u32,
    agreeing: u32,
    vid_hdr_offset: u32,
    data_offset: u32,
    leb_bytes: u32,
    min_io_bytes: u32,
    min_io_why: &'static str,
}

#[derive(Serialize)]
struct OobJson {
    page_bytes: u32,
    oob_bytes: u32,
}

impl GeometryJson {
    pub fn new(geometry: &Geometry) -> GeometryJson {
        GeometryJson {
            start: geometry.start,
            peb_bytes: geometry.peb_bytes,
            peb_bytes_given: geometry.peb_bytes_given,
            pebs: geometry.pebs,
            partial_bytes: geometry.partial_bytes,
            missing_bytes: geometry.missing_bytes(),
            oob: geometry.oob.map(|oob| OobJson { page_bytes: oob.page_bytes, oob_bytes: oob.oob_bytes }),
            ec_headers: geometry.ec_headers,
            agreeing: geometry.agreeing,
            vid_hdr_offset: geometry.vid_hdr_offset,
            data_offset: geometry.data_offset,
            leb_bytes: geometry.leb_bytes(),
            min_io_bytes: geometry.min_io_bytes,
            min_io_why: geometry.min_io_why,
        }
    }
}

/// Numbers of PEBs by state.
#[derive(Serialize)]
pub struct CountsJson {
    used: u32,
    free: u32,
    erased: u32,
    bad: u32,
    foreign: u32,
    corrupt_ec: u32,
    corrupt_vid: u32,
}

impl CountsJson {
    pub fn new(scan: &Scan<'_>) -> CountsJson {
        let counts = scan.counts();
        CountsJson {
            used: counts.used,
            free: counts.free,
            erased: counts.erased,
            bad: counts.bad,
            foreign: counts.foreign,
            corrupt_ec: counts.corrupt_ec,
            corrupt_vid: counts.corrupt_vid,
        }
    }
}

/// A bad, corrupt or foreign PEB.
#[derive(Serialize)]
pub struct LostPebJson {
    pub peb: u32,
    pub state: &'static str,
    pub what: String,
}

/// All bad and corrupt PEBs.
pub fn lost_pebs(scan: &Scan<'_>) -> Vec<LostPebJson> {
    let what = |state: &PebState| match state {
        PebState::Bad(why) => why.to_string(),
        PebState::Foreign(ec) => format!("image_seq {:#010x}: of another device", ec.image_seq),
        PebState::CorruptEc { fault, .. } => format!("EC header: {fault}"),
        PebState::CorruptVid { error, .. } => format!("VID header: {error}"),
        PebState::Erased | PebState::Free { .. } | PebState::Used { .. } => String::new(),
    };
    let lost = |state: &PebState| !matches!(state, PebState::Erased | PebState::Free { .. } | PebState::Used { .. });
    let pebs = scan.pebs().iter().enumerate().filter(|(_, state)| lost(state));
    pebs.map(|(peb, state)| LostPebJson { peb: peb as u32, state: state.name(), what: what(state) }).collect()
}

/// A bin of a histogram.
#[derive(Serialize)]
pub struct BinJson {
    from: u32,
    to: Option<u32>,
    count: u32,
    min: u32,
    avg: u64,
    max: u32,
}

impl BinJson {
    fn new(bin: &Bin) -> BinJson {
        BinJson { from: bin.from, to: bin.to, count: bin.count, min: bin.min, avg: bin.avg(), max: bin.max }
    }
}

/// A histogram of erase counters.
#[derive(Serialize)]
pub struct HistogramJson {
    bins: Vec<BinJson>,
    total: BinJson,
}

impl HistogramJson {
    pub fn new(histogram: &Histogram) -> HistogramJson {
        HistogramJson { bins: histogram.bins.iter().map(BinJson::new).collect(), total: BinJson::new(&histogram.total) }
    }
}

/// The volume table.
#[derive(Serialize)]
pub struct VtblJson {
    copies: Vec<VtblCopyJson>,
    differ: bool,
    taken: Option<u32>,
}

#[derive(Serialize)]
struct VtblCopyJson {
    peb: Option<u32>,
    good: bool,
    broken_records: Vec<u32>,
}

impl VtblJson {
    pub fn new(vtbl: &Vtbl) -> VtblJson {
        let copies = vtbl.copies.iter().map(|copy| VtblCopyJson {
            peb: copy.peb.map(|peb| peb.0),
            good: copy.is_good(),
            broken_records: copy.broken.iter().map(|&(slot, _)| slot).collect(),
        });
        VtblJson { copies: copies.collect(), differ: vtbl.differ, taken: vtbl.from }
    }
}

/// A volume.
#[derive(Serialize)]
pub struct VolumeJson {
    id: u32,
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name_hex: Option<String>,
    r#type: &'static str,
    in_table: bool,
    reserved_lebs: Option<u32>,
    reserved_bytes: Option<u64>,
    alignment: Option<u32>,
    data_pad: u32,
    usable_leb_bytes: u32,
    mapped_lebs: u32,
    data_bytes: u64,
    flags: Vec<&'static str>,
    update_marker: bool,
    holds: &'static str,
}

impl VolumeJson {
    pub fn new(scan: &Scan<'_>, volume: &Volume) -> VolumeJson {
        let record = volume.record.as_ref();
        let hex = |name: &Vec<u8>| name.iter().map(|byte| format!("{byte:02x}")).collect();
        VolumeJson {
            id: volume.id.0,
            name: record.map(|record| String::from_utf8_lossy(&record.name).into_owned()),
            name_hex: record.map(|it| &it.name).filter(|name| std::str::from_utf8(name).is_err()).map(hex),
            r#type: volume.vol_type.name(),
            in_table: record.is_some(),
            reserved_lebs: record.map(|record| record.reserved_pebs),
            reserved_bytes: record.map(|it| u64::from(it.reserved_pebs) * u64::from(volume.usable_leb_bytes)),
            alignment: record.map(|record| record.alignment),
            data_pad: volume.data_pad,
            usable_leb_bytes: volume.usable_leb_bytes,
            mapped_lebs: volume.mapped,
            data_bytes: volume.data_bytes,
            flags: record.map(flags).unwrap_or_default(),
            update_marker: record.is_some_and(|record| record.upd_marker),
            holds: Holds::of(scan, volume).name(),
        }
    }
}

/// Flags of a volume, named as in an ini file.
pub fn flags(record: &VtblRecord) -> Vec<&'static str> {
    let known = [(VtblRecord::AUTORESIZE, "autoresize"), (VtblRecord::SKIP_CHECK, "skip-check")];
    known.into_iter().filter(|(flag, _)| record.flags & flag != 0).map(|(_, name)| name).collect()
}

/// A fastmap.
#[derive(Serialize)]
pub struct FastmapJson {
    valid: bool,
    anchor: u32,
    sqnum: u64,
    blocks: Vec<PebEcJson>,
    faults: Vec<FaultJson>,
    lists: Option<ListsJson>,
}

#[derive(Serialize)]
struct PebEcJson {
    peb: u32,
    ec: u32,
}

#[derive(Serialize)]
struct FaultJson {
    peb: u32,
    offset: u32,
    what: String,
}

#[derive(Serialize)]
struct ListsJson {
    free: usize,
    used: usize,
    scrub: usize,
    erase: usize,
    bad: u32,
    user_pool: Vec<u32>,
    user_pool_max: u16,
    wl_pool: Vec<u32>,
    wl_pool_max: u16,
    volumes: Vec<FastmapVolumeJson>,
}

#[derive(Serialize)]
struct FastmapVolumeJson {
    id: u32,
    lebs: usize,
    mapped: usize,
}

impl FastmapJson {
    pub fn new(fastmap: &Fastmap) -> FastmapJson {
        let faults = fastmap.faults.iter();
        FastmapJson {
            valid: fastmap.is_valid(),
            anchor: fastmap.anchor.0,
            sqnum: fastmap.sqnum,
            blocks: fastmap.blocks.iter().map(|&(peb, ec)| PebEcJson { peb: peb.0, ec: ec.0 }).collect(),
            faults: faults.map(|it| FaultJson { peb: it.peb.0, offset: it.offset, what: it.what.clone() }).collect(),
            lists: fastmap.lists.as_ref().map(ListsJson::new),
        }
    }
}

impl ListsJson {
    fn new(lists: &FastmapLists) -> ListsJson {
        let volumes = lists.volumes.iter();
        ListsJson {
            free: lists.free.len(),
            used: lists.used.len(),
            scrub: lists.scrub.len(),
            erase: lists.erase.len(),
            bad: lists.hdr.bad,
            user_pool: lists.user_pool.iter().map(|peb| peb.0).collect(),
            user_pool_max: lists.user_pool_max,
            wl_pool: lists.wl_pool.iter().map(|peb| peb.0).collect(),
            wl_pool_max: lists.wl_pool_max,
            volumes: volumes
                .map(|it| FastmapVolumeJson { id: it.id().0, lebs: it.eba.len(), mapped: it.mapped().count() })
                .collect(),
        }
    }
}
