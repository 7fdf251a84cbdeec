//! Every PEB's state, every LEB's place, the volume table and the fastmap, by the rules of a full scan.
//!
//! Nothing here is refused: what cannot be read is kept with the reason, what is claimed twice is resolved as Linux
//! resolves it and the losers are kept too.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sim::{Lnum, Peb, VolId};

use super::dump::Dump;
use super::fastmap::{self, Fastmap};
use super::probe::ec_of_any_version;
use crate::media::{
    EcHdr, FM_DATA_VOLUME_ID, FM_SB_VOLUME_ID, INTERNAL_VOLUME_START, LAYOUT_LEBS, LAYOUT_VOLUME_ID, MAX_VOLUMES,
    MediaError, VidHdr, VolType, VtblRecord, crc, is_erased, vtbl_slots,
};

/// How a bad PEB shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadWhy {
    /// The bad-block marker in the OOB of this page is not 0xFF.
    Marker {
        /// The page.
        page: u32,
        /// What the marker is.
        byte: u8,
    },
    /// Every byte is 0x00.
    AllZero,
}

/// What a PEB holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PebState {
    /// A bad block.
    Bad(BadWhy),
    /// All 0xFF, the EC header too.
    Erased,
    /// An EC header and no VID header.
    Free {
        /// The header.
        ec: EcHdr,
        /// First byte from the VID header on that is not 0xFF, though nothing should be there.
        dirty_at: Option<u32>,
    },
    /// A VID header, so the data of a LEB.
    Used {
        /// The EC header; erased or broken ones leave the counter unknown.
        ec: Result<EcHdr, HeaderFault>,
        /// The VID header.
        vid: VidHdr,
    },
    /// No EC header, and no VID header where other PEBs have theirs.
    CorruptEc {
        /// What is in the EC header's place.
        fault: HeaderFault,
        /// What is in the VID header's place, if anything.
        vid: Option<MediaError>,
    },
    /// An EC header, and something broken in the VID header's place.
    CorruptVid {
        /// The EC header.
        ec: EcHdr,
        /// What is wrong with the VID header.
        error: MediaError,
        /// Whether data follow it. If not, an interrupted write explains it and Linux erases the PEB.
        has_data: bool,
    },
}

/// Why an EC header says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderFault {
    /// All 0xFF.
    Erased,
    /// Something else is there.
    Broken(MediaError),
    /// Whole, with offsets that cannot be.
    Offsets {
        /// As it says.
        vid_hdr_offset: u32,
        /// As it says.
        data_offset: u32,
    },
}

impl PebState {
    /// The EC header, where there is one.
    pub fn ec(&self) -> Option<&EcHdr> {
        match self {
            PebState::Free { ec, .. } | PebState::CorruptVid { ec, .. } | PebState::Used { ec: Ok(ec), .. } => Some(ec),
            _ => None,
        }
    }

    /// The VID header, where there is one.
    pub fn vid(&self) -> Option<&VidHdr> {
        if let PebState::Used { vid, .. } = self { Some(vid) } else { None }
    }

    /// One word.
    pub const fn name(&self) -> &'static str {
        match self {
            PebState::Bad(_) => "bad",
            PebState::Erased => "erased",
            PebState::Free { .. } => "free",
            PebState::Used { .. } => "used",
            PebState::CorruptEc { .. } => "corrupt-ec",
            PebState::CorruptVid { .. } => "corrupt-vid",
        }
    }
}

/// How many PEBs are in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PebCounts {
    /// With a VID header.
    pub used: u32,
    /// With an EC header only.
    pub free: u32,
    /// All 0xFF.
    pub erased: u32,
    /// Bad.
    pub bad: u32,
    /// Without a readable EC header, and no VID header.
    pub corrupt_ec: u32,
    /// With a broken VID header.
    pub corrupt_vid: u32,
}

/// Why another PEB holds the LEB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoserWhy {
    /// Its sequence number is lower.
    Older,
    /// It is the newer, but a copy whose data do not match their checksum: the copying was interrupted.
    TornCopy,
    /// Its sequence number is the same. Linux refuses to attach; the lower PEB is taken here.
    SameSqnum,
}

/// A PEB that claims a LEB and does not have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loser {
    /// The PEB.
    pub peb: Peb,
    /// Its sequence number.
    pub sqnum: u64,
    /// Why it lost.
    pub why: LoserWhy,
}

/// Where a LEB is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leb {
    /// The PEB that has it.
    pub peb: Peb,
    /// Its VID header.
    pub vid: VidHdr,
    /// The other claims to it.
    pub losers: Vec<Loser>,
}

/// One copy of the volume table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VtblCopy {
    /// Where it is; `None` when it is missing.
    pub peb: Option<Peb>,
    /// Records that cannot be read.
    pub broken: Vec<(u32, MediaError)>,
}

impl VtblCopy {
    /// Whether Linux would use it.
    pub fn is_good(&self) -> bool {
        self.peb.is_some() && self.broken.is_empty()
    }
}

/// The volume table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vtbl {
    /// LEB 0 and LEB 1 of the layout volume.
    pub copies: [VtblCopy; LAYOUT_LEBS as usize],
    /// Whether both are there and their records differ.
    pub differ: bool,
    /// The copy that is used: the first good one. `None`: each record from whichever copy has it whole.
    pub from: Option<u32>,
    /// The records, by volume.
    pub records: BTreeMap<u32, VtblRecord>,
}

/// A volume: what the table says, and what the PEBs say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Its number.
    pub id: VolId,
    /// Its record; `None` when only LEBs are left of it.
    pub record: Option<VtblRecord>,
    /// Kind: by the table, else by the first LEB.
    pub vol_type: VolType,
    /// Bytes at the end of each LEB that the volume does not use.
    pub data_pad: u32,
    /// Bytes of a LEB that it does use.
    pub usable_leb_bytes: u32,
    /// LEBs that are mapped.
    pub mapped: u32,
    /// The highest of them.
    pub last: Option<Lnum>,
    /// LEBs in use by the headers of a static volume.
    pub used_ebs: u32,
    /// Bytes of contents: of the LEBs up to the last mapped one, or the exact size of a static volume.
    pub data_bytes: u64,
}

/// What was found in a dump.
pub struct Scan<'a> {
    pub(super) dump: &'a Dump<'a>,
    pebs: Vec<PebState>,
    lebs: BTreeMap<(VolId, Lnum), Leb>,
    vtbl: Vtbl,
    fastmap: Option<Fastmap>,
    markers: u32,
    markers_believed: bool,
}

impl<'a> Scan<'a> {
    /// Reads every PEB. Takes a few passes over the dump; never fails.
    pub fn new(dump: &'a Dump<'a>) -> Scan<'a> {
        let pebs = dump.geometry().pebs;
        let markers = (0..pebs).filter(|&peb| dump.bad_marker(Peb(peb)).is_some()).count() as u32;
        // Some controllers keep ECC where others keep the marker: a flash cannot be this bad.
        let markers_believed = markers <= (pebs / 8).max(2);
        let mut scan = Scan {
            dump,
            pebs: (0..pebs).map(|peb| classify(dump, Peb(peb), markers_believed)).collect(),
            lebs: BTreeMap::new(),
            vtbl: Vtbl::default(),
            fastmap: None,
            markers,
            markers_believed,
        };
        scan.resolve();
        scan.vtbl = scan.volume_table();
        scan.fastmap = fastmap::find(&scan);
        scan
    }

    /// The dump.
    pub fn dump(&self) -> &'a Dump<'a> {
        self.dump
    }

    /// State of each PEB.
    pub fn pebs(&self) -> &[PebState] {
        &self.pebs
    }

    /// Every LEB that a VID header claims, internal volumes too.
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

    /// PEBs whose OOB has something else than 0xFF for a bad-block marker, and whether that is taken to mean bad.
    pub fn bad_markers(&self) -> (u32, bool) {
        (self.markers, self.markers_believed)
    }

    /// How many PEBs are in each state.
    pub fn counts(&self) -> PebCounts {
        let mut counts = PebCounts::default();
        for peb in &self.pebs {
            *match peb {
                PebState::Bad(_) => &mut counts.bad,
                PebState::Erased => &mut counts.erased,
                PebState::Free { .. } => &mut counts.free,
                PebState::Used { .. } => &mut counts.used,
                PebState::CorruptEc { .. } => &mut counts.corrupt_ec,
                PebState::CorruptVid { .. } => &mut counts.corrupt_vid,
            } += 1;
        }
        counts
    }

    /// Image sequence numbers and how many PEBs have each.
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

    /// Whether no running UBI has ever written to it: every sequence number is 0, as `ubinize` leaves them.
    pub fn is_never_attached(&self) -> bool {
        self.sqnums().is_none_or(|(_, max)| max == 0)
    }

    /// Every volume that the table or a LEB names, internal ones excepted, by number.
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

    /// LEBs of a volume, in order.
    pub fn lebs_of(&self, id: VolId) -> impl Iterator<Item = (Lnum, &Leb)> {
        self.lebs.range((id, Lnum(0))..=(id, Lnum(u32::MAX))).map(|(&(_, lnum), leb)| (lnum, leb))
    }

    /// The highest LEB number that a dump of this size can mean. A longer volume is a header that lies, or a dump of
    /// which most is missing.
    pub fn believable_lebs(&self) -> u32 {
        self.dump.geometry().pebs.saturating_mul(16).max(1024)
    }

    fn volume(&self, id: VolId) -> Volume {
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

    /// Data area of a PEB.
    pub fn data(&self, peb: Peb) -> Cow<'a, [u8]> {
        let at = self.dump.geometry().data_offset as usize;
        match self.dump.peb(peb) {
            Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[at..]),
            Cow::Owned(mut bytes) => Cow::Owned(bytes.split_off(at)),
        }
    }

    /// Whether the checksum in a VID header is the one of the data after it; false when `data_size` cannot be.
    pub fn data_crc_matches(&self, peb: Peb, vid: &VidHdr) -> bool {
        self.data(peb).get(..vid.data_size as usize).is_some_and(|data| crc(data) == vid.data_crc)
    }

    fn resolve(&mut self) {
        let mut claims: BTreeMap<(VolId, Lnum), Vec<(Peb, VidHdr)>> = BTreeMap::new();
        for (peb, state) in self.pebs.iter().enumerate() {
            if let PebState::Used { vid, .. } = state {
                claims.entry((VolId(vid.vol_id), Lnum(vid.lnum))).or_default().push((Peb(peb as u32), *vid));
            }
        }
        self.lebs = claims.into_iter().map(|(leb, claims)| (leb, self.winner(claims))).collect();
    }

    /// The newest claim, unless it is a torn copy. Only as many checksums are computed as there are copies.
    fn winner(&self, mut claims: Vec<(Peb, VidHdr)>) -> Leb {
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

/// Whether a volume is one that this reader knows among the internal ones.
pub(super) fn is_known_internal(id: VolId) -> bool {
    matches!(id.0, LAYOUT_VOLUME_ID | FM_SB_VOLUME_ID | FM_DATA_VOLUME_ID)
}

/// Whether a number can be a volume's at all.
pub(super) fn is_possible(id: VolId) -> bool {
    id.0 < MAX_VOLUMES || id.0 >= INTERNAL_VOLUME_START
}

fn classify(dump: &Dump<'_>, peb: Peb, markers_believed: bool) -> PebState {
    if markers_believed && let Some((page, byte)) = dump.bad_marker(peb) {
        return PebState::Bad(BadWhy::Marker { page, byte });
    }
    let geometry = dump.geometry();
    let bytes = dump.peb(peb);
    let (ec_bytes, rest) = bytes.split_first_chunk::<{ EcHdr::BYTES }>().expect("a PEB is larger than a header");
    let ec = match EcHdr::decode(ec_bytes) {
        Ok(ec) if is_ours(&ec, dump) => Ok(ec),
        Ok(EcHdr { vid_hdr_offset, data_offset, .. }) => Err(HeaderFault::Offsets { vid_hdr_offset, data_offset }),
        Err(_) if is_erased(ec_bytes) => Err(HeaderFault::Erased),
        Err(error) => Err(HeaderFault::Broken(error)),
    };
    let vid_bytes = bytes[geometry.vid_hdr_offset as usize..].first_chunk::<{ VidHdr::BYTES }>();
    let vid_bytes = vid_bytes.expect("the probe put the VID header inside the PEB");
    let vid = if is_erased(vid_bytes) { None } else { Some(VidHdr::decode(vid_bytes)) };
    match (ec, vid) {
        (ec, Some(Ok(vid))) => PebState::Used { ec, vid },
        (Ok(ec), None) => {
            // The rest of the EC header's write unit may hold anything: Linux fills it with zeroes.
            let from = geometry.vid_hdr_offset as usize;
            let beyond = &bytes[from..];
            let dirty_at = if is_erased(beyond) { None } else { beyond.iter().position(|&byte| byte != 0xff) };
            PebState::Free { ec, dirty_at: dirty_at.map(|at| (from + at) as u32) }
        }
        (Ok(ec), Some(Err(error))) => {
            let has_data = !is_erased(&bytes[geometry.data_offset as usize..]);
            PebState::CorruptVid { ec, error, has_data }
        }
        (Err(HeaderFault::Erased), None) if is_erased(rest) => PebState::Erased,
        (Err(_), _) if bytes.iter().all(|&byte| byte == 0) => PebState::Bad(BadWhy::AllZero),
        (Err(fault), vid) => PebState::CorruptEc { fault, vid: vid.and_then(Result::err) },
    }
}

/// Whether the header's offsets are possible; another image's possible ones are left to the check.
fn is_ours(ec: &EcHdr, dump: &Dump<'_>) -> bool {
    super::probe::possible_offsets(ec.vid_hdr_offset, ec.data_offset, dump.geometry().peb_bytes)
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

/// The version that a header of another version states, if it is otherwise whole.
pub(super) fn other_version(dump: &Dump<'_>, peb: Peb) -> Option<u8> {
    let bytes = dump.peb(peb);
    let ec_bytes = bytes.first_chunk::<{ EcHdr::BYTES }>()?;
    ec_of_any_version(ec_bytes).map(|_| ec_bytes[4]).filter(|&version| version != crate::media::VERSION)
}
