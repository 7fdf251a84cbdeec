//! Inconsistencies of a dump, each with its PEB and byte offset.
//!
//! An *error* loses data, or makes Linux refuse the image or part of it. A *warning* is something that Linux repairs or
//! ignores. A *note* is only information. The scan collects; this module judges.

mod fastmap;
mod linux;
mod volumes;

use std::collections::BTreeMap;

use sim::{Peb, VolId};

use super::bad::LeftOut;
use super::scan::{BadWhy, HeaderFault, LoserWhy, PebState, Scan, is_known_internal, is_possible, other_version};
use crate::media::{INTERNAL_VOLUME_START, MediaError, compat};

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Information only.
    Note,
    /// Linux repairs or ignores it.
    Warning,
    /// Data are lost, or Linux refuses the image or part of it.
    Error,
}

impl Severity {
    /// Name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

macro_rules! classes {
    ($($(#[$doc:meta])* $class:ident = $name:literal,)*) => {
        /// Kinds of findings.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Class {
            $($(#[$doc])* $class,)*
        }

        impl Class {
            /// Every kind.
            pub const ALL: &'static [Class] = &[$(Class::$class),*];

            /// Name in reports.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Class::$class => $name,)*
                }
            }
        }
    };
}

classes! {
    /// The last PEB is truncated.
    Truncated = "truncated",
    /// A bad PEB, or bad-block markers that are too many to be true.
    BadPeb = "bad-peb",
    /// An EC header that is broken or missing.
    EcHeader = "ec-header",
    /// A VID header that is broken.
    VidHeader = "vid-header",
    /// A VID header whose fields contradict each other or the volume table.
    VidFields = "vid-fields",
    /// A header of another format version.
    Version = "version",
    /// More than one image sequence number.
    ImageSeq = "image-seq",
    /// An EC header that puts VID header or data elsewhere than the others do.
    HeaderOffsets = "header-offsets",
    /// Two PEBs claim one LEB with the same sequence number.
    SqnumTie = "sqnum-tie",
    /// One sequence number on different LEBs.
    SqnumRepeat = "sqnum-repeat",
    /// An older or torn claim to a LEB.
    StaleLeb = "stale-leb",
    /// Bytes in a PEB that no VID header accounts for.
    FreeNotErased = "free-not-erased",
    /// More corrupted PEBs than Linux attaches with.
    TooManyCorrupt = "too-many-corrupt",
    /// Both copies of the volume table are missing or broken.
    VtblLost = "vtbl-lost",
    /// One copy of the volume table is missing.
    VtblCopy = "vtbl-copy",
    /// A broken record of the volume table.
    VtblRecord = "vtbl-record",
    /// The two copies of the volume table differ.
    VtblDiffer = "vtbl-differ",
    /// Two volumes of one name.
    VolumeName = "volume-name",
    /// More than one auto-resize volume, or an unknown flag.
    VolumeFlags = "volume-flags",
    /// Volumes reserve more PEBs than the device has.
    ReservedPebs = "reserved-pebs",
    /// An interrupted volume update.
    UpdateMarker = "update-marker",
    /// A LEB beyond the end of its volume.
    LebOutOfRange = "leb-out-of-range",
    /// LEBs of a volume that is not in the table.
    OrphanVolume = "orphan-volume",
    /// LEBs of an unknown internal volume.
    InternalVolume = "internal-volume",
    /// A static volume that lacks LEBs.
    StaticLebMissing = "static-leb-missing",
    /// LEBs of a static volume that disagree on its length.
    StaticUsedEbs = "static-used-ebs",
    /// Data that do not match their checksum.
    DataCrc = "data-crc",
    /// Linux refuses to attach the device.
    LinuxRefuses = "linux-refuses",
    /// Linux reads something else than what is newest on flash.
    LinuxReads = "linux-reads",
    /// A fastmap that Linux would not use.
    FastmapInvalid = "fastmap-invalid",
    /// A fastmap that contradicts the headers.
    FastmapDisagrees = "fastmap-disagrees",
}

/// One inconsistency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Severity of the inconsistency.
    pub severity: Severity,
    /// Kind of inconsistency.
    pub class: Class,
    /// PEB of the finding, if it is about one.
    pub peb: Option<Peb>,
    /// Byte offset in the PEB, if there is one.
    pub offset: Option<u32>,
    /// Volume of the finding, if it is about one.
    pub volume: Option<VolId>,
    /// What was found and what was expected.
    pub what: String,
}

/// Findings collected so far.
struct Findings<'s, 'a> {
    scan: &'s Scan<'a>,
    list: Vec<Finding>,
}

impl Findings<'_, '_> {
    fn add(&mut self, severity: Severity, class: Class, place: Place, what: String) {
        let Place { peb, offset, volume } = place;
        self.list.push(Finding { severity, class, peb, offset, volume, what });
    }
}

/// Where a finding is.
#[derive(Clone, Copy, Default)]
struct Place {
    peb: Option<Peb>,
    offset: Option<u32>,
    volume: Option<VolId>,
}

impl Place {
    fn at(peb: Peb, offset: u32) -> Place {
        Place { peb: Some(peb), offset: Some(offset), volume: None }
    }

    fn volume(volume: VolId) -> Place {
        Place { volume: Some(volume), ..Place::default() }
    }

    fn of(self, volume: VolId) -> Place {
        Place { volume: Some(volume), ..self }
    }
}

/// Lists every inconsistency of a scanned dump: those of PEBs in order, then of volumes, then of the fastmap.
pub fn check(scan: &Scan<'_>) -> Vec<Finding> {
    let mut findings = Findings { scan, list: Vec::new() };
    findings.dump();
    for (peb, state) in scan.pebs().iter().enumerate() {
        findings.peb(Peb(peb as u32), state);
    }
    findings.image_seq();
    findings.sqnums();
    findings.volumes();
    findings.fastmap();
    findings.linux();
    findings.list
}

impl Findings<'_, '_> {
    fn dump(&mut self) {
        let geometry = self.scan.dump().geometry();
        if geometry.partial_bytes != 0 {
            let (have, missing, peb) = (geometry.partial_bytes, geometry.missing_bytes(), geometry.pebs);
            let what =
                format!("the dump ends inside PEB {peb}, after {have} of its bytes: {missing} bytes are missing");
            self.add(Severity::Error, Class::Truncated, Place::at(Peb(peb), geometry.partial_data_bytes()), what);
        }
        if let (markers @ 1.., false) = self.scan.bad_markers() {
            let what = format!(
                "{markers} of {} PEBs have something else than 0xFF where bad blocks are marked: it is taken for ECC, \
                 and no PEB for bad",
                geometry.pebs
            );
            self.add(Severity::Note, Class::BadPeb, Place::default(), what);
        }
        if let (blank @ 1.., false) = self.scan.padded() {
            let what =
                format!("{blank} of {} PEBs are 0xFF: too many for padded bad blocks, so none is", geometry.pebs);
            self.add(Severity::Note, Class::BadPeb, Place::default(), what);
        }
        if self.scan.dump().known_bad().left_out() == Some(LeftOut::Unknown) {
            let what = "the dump leaves bad blocks out, and nothing says which: PEB numbers are those in the dump";
            self.add(Severity::Note, Class::BadPeb, Place::default(), what.to_owned());
        }
        let counts = self.scan.counts();
        let limit = match geometry.pebs - counts.bad {
            0..20 => 8,
            good => good / 20,
        };
        let corrupted =
            self.scan.pebs().iter().filter(|peb| matches!(peb, PebState::CorruptVid { has_data: true, .. })).count();
        if corrupted as u32 >= limit {
            let what =
                format!("{corrupted} PEBs hold data under a broken VID header; Linux refuses to attach from {limit}");
            self.add(Severity::Error, Class::TooManyCorrupt, Place::default(), what);
        }
    }

    fn peb(&mut self, peb: Peb, state: &PebState) {
        use Severity::{Error, Note, Warning};
        let vid_at = self.scan.dump().geometry().vid_hdr_offset;
        match state {
            PebState::Bad(BadWhy::Marker { page, byte }) => {
                let what = format!("marked bad: {byte:#04x} in the OOB of page {page}");
                self.add(Note, Class::BadPeb, Place::at(peb, 0), what);
            }
            PebState::Bad(BadWhy::AllZero) => {
                self.add(
                    Note,
                    Class::BadPeb,
                    Place::at(peb, 0),
                    "every byte is 0x00: taken for a bad block".to_owned(),
                );
            }
            PebState::Bad(why @ (BadWhy::Listed | BadWhy::Padded | BadWhy::LeftOut)) => {
                self.add(Note, Class::BadPeb, Place::at(peb, 0), why.to_string());
            }
            PebState::Erased | PebState::Foreign(_) => {}
            PebState::Free { dirty_at: Some(at), .. } => {
                let what = "a free PEB is not erased: found data without a VID header, expected 0xFF".to_owned();
                self.add(Error, Class::FreeNotErased, Place::at(peb, *at), what);
            }
            PebState::Free { dirty_at: None, .. } => {}
            PebState::Used { ec, vid } => {
                if let Err(fault) = ec {
                    let what = format!("EC header: {fault}; the PEB holds data and its erase counter is lost");
                    self.ec_fault(Error, peb, fault, what);
                }
                self.vid_fields(peb, vid);
            }
            PebState::CorruptEc { fault: HeaderFault::Erased, vid, .. } => {
                let what = match vid {
                    Some(error) => format!("no EC header, and no VID header either: {error}"),
                    None => "no EC header, and data where a PEB without one should be erased".to_owned(),
                };
                self.add(Warning, Class::EcHeader, Place::at(peb, 0), what);
            }
            PebState::CorruptEc { fault, vid: Some(error), is_half_erased: true } => {
                let what = format!(
                    "EC header: {fault}; VID header: {error}: as if an erasure had lost power; Linux erases the PEB"
                );
                self.ec_fault(Warning, peb, fault, what);
            }
            PebState::CorruptEc { fault, vid, .. } => {
                let severity = if vid.is_some() { Error } else { Warning };
                let what = match vid {
                    Some(error) => format!("EC header: {fault}; VID header: {error}"),
                    None if is_impossible(fault) => format!("EC header: {fault}; no VID header"),
                    None => format!("EC header: {fault}; no VID header: Linux erases the PEB"),
                };
                self.ec_fault(severity, peb, fault, what);
            }
            PebState::CorruptVid { error, has_data, .. } => {
                let (severity, fate) = match has_data {
                    true => (Error, "data follow, and which LEB they are is lost"),
                    false => (Warning, "no data follow: an interrupted write, which Linux erases"),
                };
                let class = if is_version(error) { Class::Version } else { Class::VidHeader };
                self.add(severity, class, Place::at(peb, vid_at), format!("VID header: {error}; {fate}"));
            }
        }
        if let Some(ec) = state.ec() {
            let geometry = self.scan.dump().geometry();
            let (found, expected) =
                ((ec.vid_hdr_offset, ec.data_offset), (geometry.vid_hdr_offset, geometry.data_offset));
            if found != expected {
                let what = format!(
                    "EC header: VID header at {} and data at {}, expected {} and {} as in {} of {} PEBs",
                    found.0, found.1, expected.0, expected.1, geometry.agreeing, geometry.ec_headers
                );
                self.add(Error, Class::HeaderOffsets, Place::at(peb, 16), what);
            }
        }
    }

    fn ec_fault(&mut self, severity: Severity, peb: Peb, fault: &HeaderFault, what: String) {
        let version = other_version(self.scan.dump(), peb);
        let class = match fault {
            HeaderFault::Offsets { .. } => Class::HeaderOffsets,
            HeaderFault::Broken(error) if is_version(error) => Class::Version,
            _ => Class::EcHeader,
        };
        let (class, severity) = if version.is_some() { (Class::Version, Severity::Error) } else { (class, severity) };
        let offset = match class {
            Class::Version => 4,
            Class::HeaderOffsets => 16,
            _ => 0,
        };
        self.add(severity, class, Place::at(peb, offset), what);
    }

    fn image_seq(&mut self) {
        self.foreign();
        let seqs = self.scan.image_seqs();
        let Some((&expected, _)) = seqs.iter().filter(|(seq, _)| **seq != 0).max_by_key(|(_, count)| **count) else {
            return;
        };
        // One finding for each number: a flash may hold all of another device.
        let mut others: BTreeMap<u32, (Peb, Peb, u32)> = BTreeMap::new();
        for (peb, state) in self.scan.pebs().iter().enumerate() {
            let Some(ec) = state.ec().filter(|ec| ec.image_seq != expected) else { continue };
            let peb = Peb(peb as u32);
            let (_, last, count) = others.entry(ec.image_seq).or_insert((peb, peb, 0));
            (*last, *count) = (peb, *count + 1);
        }
        for (image_seq, (first, last, count)) in others {
            let (severity, accepted) = match image_seq {
                0 => (Severity::Note, " (0 is accepted next to another)"),
                _ => (Severity::Error, ": of another image, which --image-seq can choose"),
            };
            let and_more = match count {
                1 => String::new(),
                _ => format!(", on this and {} more PEBs up to PEB {last}", count - 1),
            };
            let what = format!("image_seq {image_seq:#010x}{and_more}, expected {expected:#010x} as in most{accepted}");
            self.add(severity, Class::ImageSeq, Place::at(first, 24), what);
        }
    }

    /// Devices beside the one that is read.
    fn foreign(&mut self) {
        for device in self.scan.devices() {
            if !device.is_on_grid && self.scan.dump().image_seq().is_none() {
                let what = format!(
                    "another UBI device: {} EC headers with image_seq {:#010x} from byte {} on, at other distances; \
                     --image-seq {:#010x} reads it",
                    device.ec_headers, device.image_seq, device.first_at, device.image_seq
                );
                self.add(Severity::Error, Class::ImageSeq, Place::default(), what);
            }
        }
        let mut others: BTreeMap<u32, (Peb, u32)> = BTreeMap::new();
        for (peb, state) in self.scan.pebs().iter().enumerate() {
            if let PebState::Foreign(ec) = state {
                others.entry(ec.image_seq).or_insert((Peb(peb as u32), 0)).1 += 1;
            }
        }
        for (image_seq, (first, count)) in others {
            let what =
                format!("{count} PEBs from this one on have image_seq {image_seq:#010x}: left out, as asked for");
            self.add(Severity::Note, Class::ImageSeq, Place::at(first, 24), what);
        }
    }

    fn sqnums(&mut self) {
        let vid_at = self.scan.dump().geometry().vid_hdr_offset;
        let mut of_sqnum: BTreeMap<u64, (Peb, VolId, u32)> = BTreeMap::new();
        for (peb, state) in self.scan.pebs().iter().enumerate() {
            let Some(vid) = state.vid().filter(|vid| vid.sqnum != 0) else { continue };
            let leb = (Peb(peb as u32), VolId(vid.vol_id), vid.lnum);
            let &mut (first, volume, lnum) = of_sqnum.entry(vid.sqnum).or_insert(leb);
            if (volume, lnum) != (leb.1, leb.2) {
                let what = format!(
                    "sqnum {} on LEB {}:{}, expected another than that of LEB {volume}:{lnum} in PEB {first}",
                    vid.sqnum, leb.1, leb.2
                );
                self.add(Severity::Warning, Class::SqnumRepeat, Place::at(leb.0, vid_at + 40), what);
            }
        }
        for (&(volume, lnum), leb) in self.scan.lebs() {
            for loser in &leb.losers {
                let (severity, class, why) = match loser.why {
                    LoserWhy::SameSqnum => (Severity::Error, Class::SqnumTie, "Linux refuses to attach"),
                    LoserWhy::Older => (Severity::Note, Class::StaleLeb, "older: Linux erases it"),
                    LoserWhy::TornCopy => {
                        (Severity::Warning, Class::StaleLeb, "newer, but a copy that was interrupted: Linux erases it")
                    }
                };
                let what = format!(
                    "claims LEB {volume}:{lnum} with sqnum {}, as does PEB {} with {}: {why}",
                    loser.sqnum, leb.peb, leb.vid.sqnum
                );
                self.add(severity, class, Place::at(loser.peb, vid_at + 40).of(volume), what);
            }
        }
    }
}

/// Whether the header has a right checksum and says what cannot be.
fn is_impossible(fault: &HeaderFault) -> bool {
    matches!(fault, HeaderFault::Offsets { .. } | HeaderFault::Broken(MediaError::Field { .. }))
}

fn is_version(error: &MediaError) -> bool {
    matches!(error, MediaError::Field { what: "version", .. })
}

/// How Linux treats an unknown internal volume.
fn fate(compat: u8) -> (Severity, &'static str) {
    match compat {
        compat::DELETE => (Severity::Warning, "delete: Linux erases it"),
        compat::READ_ONLY => (Severity::Warning, "read-only: Linux attaches without writing"),
        compat::PRESERVE => (Severity::Note, "preserve: Linux leaves it alone"),
        compat::REJECT => (Severity::Error, "reject: Linux refuses to attach"),
        _ => (Severity::Error, "unknown: Linux refuses to attach"),
    }
}

impl Findings<'_, '_> {
    /// Checks the fields of a VID header against each other; `volumes` compares them with the volume table.
    fn vid_fields(&mut self, peb: Peb, vid: &crate::media::VidHdr) {
        let vid_at = self.scan.dump().geometry().vid_hdr_offset;
        let leb_bytes = self.scan.dump().geometry().leb_bytes();
        let volume = VolId(vid.vol_id);
        if !is_possible(volume) {
            let what = format!("vol_id {volume}, expected one below 128");
            self.add(Severity::Error, Class::VidFields, Place::at(peb, vid_at + 8).of(volume), what);
        }
        if volume.0 >= INTERNAL_VOLUME_START && !is_known_internal(volume) {
            let (severity, fate) = fate(vid.compat);
            let what = format!(
                "LEB {} of unknown internal volume {:#x}, compat {} ({fate})",
                vid.lnum, vid.vol_id, vid.compat
            );
            self.add(severity, Class::InternalVolume, Place::at(peb, vid_at + 7).of(volume), what);
        }
        if let (Err(why), true) = (vid.check(leb_bytes), is_possible(volume)) {
            let what = format!("VID header: {why}; Linux refuses to attach once it reads this header");
            self.add(Severity::Error, Class::VidFields, Place::at(peb, vid_at + offset_of(&why)).of(volume), what);
        }
    }
}

/// Where in a VID header a field is.
fn offset_of(why: &MediaError) -> u32 {
    match why {
        MediaError::Field { what: "vol_id", .. } => 8,
        MediaError::Field { what: "lnum", .. } => 12,
        MediaError::Field { what: "data_size", .. } => 20,
        MediaError::Field { what: "used_ebs", .. } => 24,
        MediaError::Field { what: "data_pad", .. } => 28,
        MediaError::Field { what: "data_crc", .. } => 32,
        _ => 7,
    }
}
