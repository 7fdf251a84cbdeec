//! State of every PEB, place of every LEB, the volume table and the fastmap, by the rules of a full scan.
//!
//! Nothing is refused: what cannot be read is kept with the reason. Two claims to a LEB are resolved as Linux does, and
//! the losers are kept too.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sim::seam::is_erased;
use sim::{Lnum, Peb, VolId};

use super::dump::Dump;
use super::fastmap::{self, Fastmap};
use super::linux::{self, How, Verdict};
use super::survey::ec_of_any_version;
use crate::media::{
    EcHdr, FM_DATA_VOLUME_ID, FM_SB_VOLUME_ID, INTERNAL_VOLUME_START, LAYOUT_LEBS, LAYOUT_VOLUME_ID, MAX_VOLUMES,
    MediaError, VidHdr, VolType, VtblRecord, crc, needed_pebs, vtbl_slots,
};

/// How a bad PEB was recognized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadWhy {
    /// The bad-block marker in the OOB of this page is not 0xFF.
    Marker {
        /// Page with the marker.
        page: u32,
        /// Value of the marker.
        byte: u8,
    },
    /// Every byte is 0x00.
    AllZero,
    /// It was listed as bad.
    Listed,
    /// Every byte is 0xFF, in a dump in which bad blocks are padded so.
    Padded,
    /// The dump leaves it out.
    LeftOut,
}

/// What a PEB holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PebState {
    /// A bad block.
    Bad(BadWhy),
    /// A PEB of another device than the one that was asked for, with its EC header.
    Foreign(EcHdr),
    /// All 0xFF, the EC header too.
    Erased,
    /// An EC header and no VID header.
    Free {
        /// The EC header.
        ec: EcHdr,
        /// Offset of the first byte from the VID header on that is not 0xFF, although the PEB is free.
        dirty_at: Option<u32>,
    },
    /// A VID header, and so the data of a LEB.
    Used {
        /// The EC header; if it is erased or broken, the counter is unknown.
        ec: Result<EcHdr, HeaderFault>,
        /// The VID header.
        vid: VidHdr,
    },
    /// No EC header, and no VID header at the usual offset.
    CorruptEc {
        /// What was found instead of the EC header.
        fault: HeaderFault,
        /// What was found instead of the VID header; `None` if erased.
        vid: Option<MediaError>,
        /// Whether both headers are broken, and the EC header looks as if an erasure had lost power.
        is_half_erased: bool,
    },
    /// An EC header, and a broken VID header.
    CorruptVid {
        /// The EC header.
        ec: EcHdr,
        /// What is wrong with the VID header.
        error: MediaError,
        /// Whether data follow. If not, the write was interrupted and Linux erases the PEB.
        has_data: bool,
    },
}

/// Why an EC header cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderFault {
    /// All 0xFF: it was never written.
    Erased,
    /// Not a header.
    Broken(MediaError),
    /// Valid, with impossible offsets.
    Offsets {
        /// Offset of the VID header that it gives.
        vid_hdr_offset: u32,
        /// Offset of the data that it gives.
        data_offset: u32,
    },
}

impl PebState {
    /// The EC header, if there is one.
    pub fn ec(&self) -> Option<&EcHdr> {
        match self {
            PebState::Free { ec, .. } | PebState::CorruptVid { ec, .. } | PebState::Used { ec: Ok(ec), .. } => Some(ec),
            _ => None,
        }
    }

    /// The VID header, if there is one.
    pub fn vid(&self) -> Option<&VidHdr> {
        if let PebState::Used { vid, .. } = self { Some(vid) } else { None }
    }

    /// Name of the state in reports.
    pub const fn name(&self) -> &'static str {
        match self {
            PebState::Bad(_) => "bad",
            PebState::Foreign(_) => "foreign",
            PebState::Erased => "erased",
            PebState::Free { .. } => "free",
            PebState::Used { .. } => "used",
            PebState::CorruptEc { .. } => "corrupt-ec",
            PebState::CorruptVid { .. } => "corrupt-vid",
        }
    }
}

/// Numbers of PEBs by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PebCounts {
    /// PEBs with a VID header.
    pub used: u32,
    /// PEBs with an EC header only.
    pub free: u32,
    /// PEBs that are all 0xFF.
    pub erased: u32,
    /// Bad PEBs.
    pub bad: u32,
    /// PEBs of another device than the one that was asked for.
    pub foreign: u32,
    /// PEBs with neither a readable EC header nor a VID header.
    pub corrupt_ec: u32,
    /// PEBs with a broken VID header.
    pub corrupt_vid: u32,
}

/// Why a claim to a LEB lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoserWhy {
    /// Its sequence number is lower.
    Older,
    /// It is newer, but a torn copy: its data do not match their checksum.
    TornCopy,
    /// Its sequence number is the same. Linux refuses to attach; this reader takes the lower PEB.
    SameSqnum,
}

/// A PEB whose claim to a LEB lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loser {
    /// PEB that lost.
    pub peb: Peb,
    /// Its sequence number.
    pub sqnum: u64,
    /// Why it lost.
    pub why: LoserWhy,
}

/// A LEB and the claims to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leb {
    /// PEB that holds it.
    pub peb: Peb,
    /// Its VID header.
    pub vid: VidHdr,
    /// Other claims to the LEB.
    pub losers: Vec<Loser>,
}

/// One copy of the volume table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VtblCopy {
    /// PEB of the copy; `None` if it is missing.
    pub peb: Option<Peb>,
    /// Slots of records that cannot be decoded.
    pub broken: Vec<(u32, MediaError)>,
}

impl VtblCopy {
    /// Whether Linux would use this copy.
    pub fn is_good(&self) -> bool {
        self.peb.is_some() && self.broken.is_empty()
    }
}

/// The volume table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vtbl {
    /// The copies: LEB 0 and LEB 1 of the layout volume.
    pub copies: [VtblCopy; LAYOUT_LEBS as usize],
    /// Whether both copies exist and their records differ.
    pub differ: bool,
    /// The copy in use: the first good one. `None`: each record comes from whichever copy has it intact.
    pub from: Option<u32>,
    /// Records by volume number.
    pub records: BTreeMap<u32, VtblRecord>,
}

/// A volume: its record in the table and what the PEBs hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Number of the volume.
    pub id: VolId,
    /// Its record; `None` if only LEBs of it exist.
    pub record: Option<VtblRecord>,
    /// Type of the volume: by the table, else by the first LEB.
    pub vol_type: VolType,
    /// Unused bytes at the end of each LEB.
    pub data_pad: u32,
    /// Usable bytes per LEB.
    pub usable_leb_bytes: u32,
    /// Mapped LEBs.
    pub mapped: u32,
    /// The highest mapped LEB.
    pub last: Option<Lnum>,
    /// LEBs in use according to the headers of a static volume.
    pub used_ebs: u32,
    /// Bytes of contents: all LEBs up to the last mapped one, or the exact size of a static volume.
    pub data_bytes: u64,
}

/// Result of scanning a dump.
pub struct Scan<'a> {
    pub(super) dump: &'a Dump<'a>,
    pebs: Vec<PebState>,
    lebs: BTreeMap<(VolId, Lnum), Leb>,
    vtbl: Vtbl,
    fastmap: Option<Fastmap>,
    linux: Verdict,
    markers: u32,
    markers_believed: bool,
    blank: u32,
}

impl<'a> Scan<'a> {
    /// Scans every PEB. Takes a few passes over the dump; never fails.
    pub fn new(dump: &'a Dump<'a>) -> Scan<'a> {
        let pebs = dump.geometry().pebs;
        let markers = (0..pebs).filter(|&peb| dump.bad_marker(Peb(peb)).is_some()).count() as u32;
        // Some controllers keep ECC bytes in the place of the marker: no flash is as bad as that would mean.
        let markers_believed = markers <= most_bad(pebs);
        let mut scan = Scan {
            dump,
            pebs: (0..pebs).map(|peb| classify(dump, Peb(peb), markers_believed)).collect(),
            lebs: BTreeMap::new(),
            vtbl: Vtbl::default(),
            fastmap: None,
            linux: Verdict { how: How::Refused, why: None, is_read_only: false, volumes: Vec::new() },
            markers,
            markers_believed,
            blank: 0,
        };
        if dump.known_bad().is_padded() {
            scan.pad();
        }
        scan.resolve();
        scan.vtbl = scan.volume_table();
        let bad = scan.pebs.iter().map(|peb| matches!(peb, PebState::Bad(_))).collect();
        scan.linux = linux::verdict(dump, bad, scan.is_never_attached());
        scan.fastmap = fastmap::find(&scan);
        scan
    }

    /// The dump that was scanned.
    pub fn dump(&self) -> &'a Dump<'a> {
        self.dump
    }

    /// State of each PEB.
    pub fn pebs(&self) -> &[PebState] {
        &self.pebs
    }

    /// Every LEB that a VID header claims, of internal volumes too.
    pub fn lebs(&self) -> &BTreeMap<(VolId, Lnum), Leb> {
        &self.lebs
    }

    /// The volume table.
    pub fn vtbl(&self) -> &Vtbl {
        &self.vtbl
    }

    /// The newest fastmap, valid or not.
    pub fn fastmap(&self) -> Option<&Fastmap> {
        self.fastmap.as_ref()
    }

    /// What Linux does with the flash.
    pub fn linux(&self) -> &Verdict {
        &self.linux
    }

    /// Number of PEBs whose bad-block marker is not 0xFF, and whether these are taken as bad.
    pub fn bad_markers(&self) -> (u32, bool) {
        (self.markers, self.markers_believed)
    }

    /// Number of PEBs of 0xFF in a dump in which bad blocks are padded so, and whether these are taken as bad.
    pub fn padded(&self) -> (u32, bool) {
        (self.blank, self.blank <= most_bad(self.pebs.len() as u32))
    }

    /// Numbers of PEBs by state.
    pub fn counts(&self) -> PebCounts {
        let mut counts = PebCounts::default();
        for peb in &self.pebs {
            *match peb {
                PebState::Bad(_) => &mut counts.bad,
                PebState::Foreign(_) => &mut counts.foreign,
                PebState::Erased => &mut counts.erased,
                PebState::Free { .. } => &mut counts.free,
                PebState::Used { .. } => &mut counts.used,
                PebState::CorruptEc { .. } => &mut counts.corrupt_ec,
                PebState::CorruptVid { .. } => &mut counts.corrupt_vid,
            } += 1;
        }
        counts
    }

    /// Image sequence numbers and the number of PEBs that have each.
    pub fn image_seqs(&self) -> BTreeMap<u32, u32> {
        let mut seqs = BTreeMap::new();
        for ec in self.pebs.iter().filter_map(PebState::ec) {
            *seqs.entry(ec.image_seq).or_insert(0) += 1;
        }
        seqs
    }

    /// Lowest and highest sequence number.
    pub fn sqnums(&self) -> Option<(u64, u64)> {
        let sqnums = || self.pebs.iter().filter_map(PebState::vid).map(|vid| vid.sqnum);
        sqnums().min().zip(sqnums().max())
    }

    /// Whether no UBI ever wrote to it: all sequence numbers are 0, as `ubinize` leaves them.
    pub fn is_never_attached(&self) -> bool {
        self.sqnums().is_none_or(|(_, max)| max == 0)
    }

    /// Every user volume in the table or in a LEB, by number.
    pub fn volumes(&self) -> Vec<Volume> {
        let mut ids: Vec<VolId> = self.vtbl.records.keys().map(|&id| VolId(id)).collect();
        let mut last = None;
        for &(id, _) in self.lebs.keys() {
            if last != Some(id) && id.0 < INTERNAL_VOLUME_START {
                ids.push(id);
            }
            last = Some(id);
        }
        ids.sort_unstable();
        ids.dedup();
        ids.into_iter().map(|id| self.volume(id)).collect()
    }

    /// PEBs that a flash needs to attach what the volume table lists, as [`needed_pebs`] says.
    pub fn needed_pebs(&self) -> u64 {
        needed_pebs(self.vtbl.records.values())
    }

    /// LEBs of a volume in order.
    pub fn lebs_of(&self, id: VolId) -> impl Iterator<Item = (Lnum, &Leb)> {
        self.lebs.range((id, Lnum(0))..=(id, Lnum(u32::MAX))).map(|(&(_, lnum), leb)| (lnum, leb))
    }

    /// The highest plausible LEB number in a dump of this size. A higher one means a wrong header, or that most of the
    /// dump is missing.
    pub fn believable_lebs(&self) -> u32 {
        self.dump.geometry().pebs.saturating_mul(16).max(1024)
    }

    pub(super) fn volume(&self, id: VolId) -> Volume {
        let leb_bytes = self.dump.geometry().leb_bytes();
        let record = self.vtbl.records.get(&id.0).cloned();
        let limit = record.as_ref().map_or(u32::MAX, |record| record.reserved_pebs).min(self.believable_lebs());
        let mut lebs = self.lebs_of(id).take_while(|(lnum, _)| lnum.0 < limit);
        let first = lebs.next();
        let last = lebs.last().or(first);
        let vol_type = match (&record, first) {
            (Some(record), _) => record.vol_type,
            (None, Some((_, leb))) => leb.vid.vol_type,
            (None, None) => VolType::Dynamic,
        };
        let data_pad = record.as_ref().map_or_else(
            || first.map_or(0, |(_, leb)| if leb.vid.data_pad < leb_bytes { leb.vid.data_pad } else { 0 }),
            |record| record.data_pad,
        );
        let usable_leb_bytes = leb_bytes - data_pad;
        let used_ebs = match vol_type {
            VolType::Static => first.map_or(0, |(_, leb)| leb.vid.used_ebs),
            VolType::Dynamic => 0,
        };
        let data_bytes = last.map_or(0, |(lnum, leb)| {
            let tail = match vol_type {
                VolType::Static => leb.vid.data_size.min(usable_leb_bytes),
                VolType::Dynamic => usable_leb_bytes,
            };
            u64::from(lnum.0) * u64::from(usable_leb_bytes) + u64::from(tail)
        });
        Volume {
            id,
            vol_type,
            data_pad,
            usable_leb_bytes,
            mapped: self.lebs_of(id).take_while(|(lnum, _)| lnum.0 < limit).count() as u32,
            last: last.map(|(lnum, _)| lnum),
            used_ebs,
            data_bytes,
            record,
        }
    }

    /// The data area of a PEB.
    pub fn data(&self, peb: Peb) -> Cow<'a, [u8]> {
        self.dump.read(peb, self.dump.geometry().data_offset, self.dump.geometry().leb_bytes())
    }

    /// Whether the data match the checksum in their VID header; false if `data_size` is impossible.
    pub fn data_crc_matches(&self, peb: Peb, vid: &VidHdr) -> bool {
        let geometry = self.dump.geometry();
        vid.data_size <= geometry.leb_bytes()
            && crc(&self.dump.read(peb, geometry.data_offset, vid.data_size)) == vid.data_crc
    }

    /// Takes PEBs of 0xFF as bad, unless they are too many for that.
    fn pad(&mut self) {
        self.blank = self.pebs.iter().filter(|state| matches!(state, PebState::Erased)).count() as u32;
        if self.padded().1 {
            let blank = self.pebs.iter_mut().filter(|state| matches!(state, PebState::Erased));
            blank.for_each(|state| *state = PebState::Bad(BadWhy::Padded));
        }
    }

    fn resolve(&mut self) {
        let used = self.pebs.iter().enumerate().filter_map(|(peb, state)| state.vid().map(|vid| (peb as u32, vid)));
        let mut claims: Vec<(VolId, Lnum, Peb)> =
            used.map(|(peb, vid)| (VolId(vid.vol_id), Lnum(vid.lnum), Peb(peb))).collect();
        claims.sort_unstable();
        let same_leb = claims.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1));
        let lebs = same_leb.map(|claims| ((claims[0].0, claims[0].1), self.winner(claims)));
        self.lebs = lebs.collect();
    }

    /// Picks the newest claim that is not a torn copy. Computes a checksum per copy at most.
    fn winner(&self, claims: &[(VolId, Lnum, Peb)]) -> Leb {
        let with_vid = claims.iter().filter_map(|&(_, _, peb)| self.pebs[peb.at()].vid().map(|vid| (peb, *vid)));
        let mut claims: Vec<(Peb, VidHdr)> = with_vid.collect();
        claims.sort_by_key(|&(peb, vid)| (std::cmp::Reverse(vid.sqnum), peb));
        let is_torn = |&(peb, vid): &(Peb, VidHdr)| vid.copy_flag && !self.data_crc_matches(peb, &vid);
        let taken = if claims.len() == 1 { 0 } else { claims.iter().position(|claim| !is_torn(claim)).unwrap_or(0) };
        let (peb, vid) = claims[taken];
        let why = |at: usize, sqnum: u64| match () {
            () if sqnum == vid.sqnum => LoserWhy::SameSqnum,
            () if at < taken => LoserWhy::TornCopy,
            () => LoserWhy::Older,
        };
        let losers = claims
            .iter()
            .enumerate()
            .filter(|&(at, _)| at != taken)
            .map(|(at, &(peb, vid))| Loser { peb, sqnum: vid.sqnum, why: why(at, vid.sqnum) })
            .collect();
        Leb { peb, vid, losers }
    }

    fn volume_table(&self) -> Vtbl {
        let leb_bytes = self.dump.geometry().leb_bytes();
        let slots = vtbl_slots(leb_bytes);
        let mut vtbl = Vtbl::default();
        let mut whole: [BTreeMap<u32, Option<VtblRecord>>; LAYOUT_LEBS as usize] = Default::default();
        let mut bytes: Vec<Cow<'_, [u8]>> = Vec::new();
        for (lnum, (copy, whole)) in vtbl.copies.iter_mut().zip(&mut whole).enumerate() {
            let Some(leb) = self.lebs.get(&(VolId(LAYOUT_VOLUME_ID), Lnum(lnum as u32))) else { continue };
            copy.peb = Some(leb.peb);
            let data = self.data(leb.peb);
            let (records, _) = data.as_chunks::<{ VtblRecord::BYTES }>();
            for (slot, record) in (0..slots).zip(records) {
                match VtblRecord::decode(record, leb_bytes) {
                    Ok(record) => drop(whole.insert(slot, record)),
                    Err(error) => copy.broken.push((slot, error)),
                }
            }
            bytes.push(data);
        }
        if let [first, second] = &bytes[..] {
            let table = slots as usize * VtblRecord::BYTES;
            vtbl.differ = first.get(..table) != second.get(..table);
        }
        vtbl.from = vtbl.copies.iter().position(VtblCopy::is_good).map(|copy| copy as u32);
        let [first, second] = whole;
        let used = match vtbl.from {
            Some(0) => first,
            Some(_) => second,
            None => {
                let mut either = second;
                either.extend(first);
                either
            }
        };
        vtbl.records = used.into_iter().filter_map(|(slot, record)| record.map(|record| (slot, record))).collect();
        vtbl
    }
}

/// Whether this reader knows the internal volume.
pub(super) fn is_known_internal(id: VolId) -> bool {
    matches!(id.0, LAYOUT_VOLUME_ID | FM_SB_VOLUME_ID | FM_DATA_VOLUME_ID)
}

/// Whether a volume can have this number.
pub(super) fn is_possible(id: VolId) -> bool {
    id.0 < MAX_VOLUMES || id.0 >= INTERNAL_VOLUME_START
}

/// Most PEBs of a flash that are believed to be bad.
fn most_bad(pebs: u32) -> u32 {
    (pebs / 8).max(2)
}

/// Classifies a PEB. Of one with both headers only these are read.
fn classify(dump: &Dump<'_>, peb: Peb, markers_believed: bool) -> PebState {
    if dump.known_bad().is_bad(peb) {
        return PebState::Bad(if dump.known_bad().is_left_out(peb) { BadWhy::LeftOut } else { BadWhy::Listed });
    }
    if markers_believed && let Some((page, byte)) = dump.bad_marker(peb) {
        return PebState::Bad(BadWhy::Marker { page, byte });
    }
    let geometry = dump.geometry();
    let headers = dump.read(peb, 0, geometry.vid_hdr_offset + VidHdr::BYTES as u32);
    let ec_bytes = headers.first_chunk::<{ EcHdr::BYTES }>().expect("a PEB is larger than a header");
    let ec = match EcHdr::decode(ec_bytes) {
        Ok(ec) if dump.image_seq().is_some_and(|wanted| ec.image_seq != wanted && ec.image_seq != 0) => {
            return PebState::Foreign(ec);
        }
        Ok(ec) if is_ours(&ec, dump) => Ok(ec),
        Ok(EcHdr { vid_hdr_offset, data_offset, .. }) => Err(HeaderFault::Offsets { vid_hdr_offset, data_offset }),
        Err(_) if is_erased(ec_bytes) => Err(HeaderFault::Erased),
        Err(error) => Err(HeaderFault::Broken(error)),
    };
    let vid_bytes = headers.last_chunk::<{ VidHdr::BYTES }>().expect("the probe put the VID header inside the PEB");
    let vid = if is_erased(vid_bytes) { None } else { Some(VidHdr::decode(vid_bytes)) };
    let ec = match (ec, vid) {
        (ec, Some(Ok(vid))) => return PebState::Used { ec, vid },
        (ec, _) => ec,
    };
    let bytes = dump.peb(peb);
    match (ec, vid) {
        (Ok(ec), Some(Err(error))) => {
            let has_data = !is_erased(&bytes[geometry.data_offset as usize..]);
            PebState::CorruptVid { ec, error, has_data }
        }
        (Ok(ec), _) => {
            // The rest of the EC header's write unit is not checked: Linux fills it with zeroes.
            let from = geometry.vid_hdr_offset as usize;
            let beyond = &bytes[from..];
            let dirty_at = if is_erased(beyond) { None } else { beyond.iter().position(|&byte| byte != 0xff) };
            PebState::Free { ec, dirty_at: dirty_at.map(|at| (from + at) as u32) }
        }
        (Err(HeaderFault::Erased), None) if is_erased(&bytes[EcHdr::BYTES..]) => PebState::Erased,
        (Err(_), _) if bytes.iter().all(|&byte| byte == 0) => PebState::Bad(BadWhy::AllZero),
        (Err(fault), vid) => {
            let vid = vid.and_then(Result::err);
            // A header with a right checksum and impossible fields is no such thing: Linux refuses it.
            let is_broken = |error: &MediaError| matches!(error, MediaError::Magic { .. } | MediaError::Crc { .. });
            let are_broken =
                matches!(&fault, HeaderFault::Broken(ec) if is_broken(ec)) && vid.as_ref().is_some_and(is_broken);
            let is_half_erased = are_broken && is_half_erased(ec_bytes);
            PebState::CorruptEc { fault, vid, is_half_erased }
        }
    }
}

/// Whether many bits of an EC header have risen, and none has fallen, where all headers are alike: in magic number, version, padding
/// and the upper half of the counter. An erasure that loses power leaves it so; of a header that lost a bit or two the data may be
/// whole.
fn is_half_erased(header: &[u8; EcHdr::BYTES]) -> bool {
    let whole = EcHdr { ec: 0, vid_hdr_offset: 0, data_offset: 0, image_seq: 0 }.encode();
    let alike = || (0..12).chain(28..60).map(|at| (header[at], whole[at]));
    let risen: u32 = alike().map(|(found, whole)| (found & !whole).count_ones()).sum();
    risen >= 8 && alike().all(|(found, whole)| whole & !found == 0)
}

/// Whether the header's offsets are possible; `check` compares them with the other headers.
fn is_ours(ec: &EcHdr, dump: &Dump<'_>) -> bool {
    super::probe::possible_offsets(ec.vid_hdr_offset, ec.data_offset, dump.geometry().peb_bytes)
}

impl std::fmt::Display for BadWhy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BadWhy::Marker { page, byte } => write!(f, "marker {byte:#04x} in the OOB of page {page}"),
            BadWhy::AllZero => write!(f, "every byte is 0x00"),
            BadWhy::Listed => write!(f, "listed as a bad block"),
            BadWhy::Padded => write!(f, "every byte is 0xFF: a padded bad block"),
            BadWhy::LeftOut => write!(f, "a bad block that the dump leaves out"),
        }
    }
}

impl std::fmt::Display for HeaderFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HeaderFault::Erased => write!(f, "all 0xFF"),
            HeaderFault::Broken(error) => error.fmt(f),
            HeaderFault::Offsets { vid_hdr_offset, data_offset } => {
                write!(f, "vid_hdr_offset {vid_hdr_offset} and data_offset {data_offset} do not fit the PEB")
            }
        }
    }
}

/// The version in a header that is valid but for its version.
pub(super) fn other_version(dump: &Dump<'_>, peb: Peb) -> Option<u8> {
    let bytes = dump.read(peb, 0, EcHdr::BYTES as u32);
    let ec_bytes = bytes.first_chunk::<{ EcHdr::BYTES }>()?;
    ec_of_any_version(ec_bytes).map(|_| ec_bytes[4]).filter(|&version| version != crate::media::VERSION)
}
