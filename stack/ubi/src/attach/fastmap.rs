//! Attach by the fastmap: find the anchor, read the fastmap, then read headers only of PEBs that may have been used
//! since: those in its two pools.
//!
//! A contradiction makes the fastmap unusable, and the caller scans instead; a scan is always right. What the fastmap
//! cannot know is no contradiction: a PEB that it lists as used or waiting for erasure may have been erased since. So a
//! LEB may be mapped to a PEB that is erased; the device reads the VID header before it first relies on such a mapping.
//!
//! Time is linear in the number of PEBs. Memory is bounded whatever the flash holds: the fastmap's buffer and twice as
//! much for its LEB tables, less than 64 bytes per PEB, 200 per PEB of a pool, one LEB, two volume tables.

mod stream;

use sim::seam::{Flash, FlashError};
use sim::{Cx, EraseCount, Lnum, Peb, VolId};

use self::stream::{FmVolume, Place, Stream};
use super::claims::{Claim, Claims, ERASE, contest};
use super::reader::{Found, Headers, Quality, Reader};
use super::table::{self, Table};
use super::{AttachError, AttachInfo, AttachedBy, AttachedVolume, PebFate};
use crate::layout::Layout;
use crate::media::{
    FM_DATA_VOLUME_ID, FM_MAX_BLOCKS, FM_MAX_START, FM_SB_VOLUME_ID, FmSb, LAYOUT_VOLUME_ID, VidHdr, VolType,
    VtblRecord, crc, fastmap_bytes,
};

/// Why the fastmap was not used. Unless it is `Fatal`, the caller scans the flash.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FastmapUnusable {
    /// There is no fastmap.
    #[error("no fastmap among the first {FM_MAX_START} PEBs")]
    NotFound,
    /// The fastmap contradicts itself or the flash.
    #[error("PEB {peb}, offset {offset}: {why}")]
    Invalid {
        /// PEB of the contradiction.
        peb: Peb,
        /// Byte offset in the PEB.
        offset: u32,
        /// What contradicts what.
        why: String,
    },
    /// A scan would fail as well.
    #[error(transparent)]
    Fatal(#[from] AttachError),
}

/// Reads the state of the flash from its fastmap.
/// Errors: see [`FastmapUnusable`].
pub fn attach_by_fastmap<F: Flash>(flash: &mut F, cx: &mut Cx, layout: &Layout) -> Result<AttachInfo, FastmapUnusable> {
    attach_by_fastmap_of(flash, cx, layout, &[])
}

/// As [`attach_by_fastmap`]; headers in `read`, by PEB, are not read again.
/// Errors: see [`FastmapUnusable`].
pub fn attach_by_fastmap_of<F: Flash>(
    flash: &mut F,
    cx: &mut Cx,
    layout: &Layout,
    read: &[Option<&Headers>],
) -> Result<AttachInfo, FastmapUnusable> {
    let mut reader = Reader::with(flash, cx, layout, read)?;
    let start = Start::read(&mut reader)?;
    let fastmap = read_fastmap(&mut reader, &start)?;
    let mut attach = Attach::new(reader, fastmap, &start)?;
    attach.scan_pools()?;
    attach.place_claims()?;
    let info = attach.finish()?;
    info.check();
    Ok(info)
}

/// Whether `peb` still holds the LEB that the fastmap says it does. If not, the LEB was unmapped after the fastmap was
/// written, and the PEB was erased or its erasure interrupted: the LEB is unmapped, and the PEB is to be erased.
/// Call it once for each mapping of an [`AttachedBy::Fastmap`] that was not replaced since. A write through a stale
/// mapping would put data behind no VID header, and the next attach would lose them.
/// Errors: faults of the flash; a valid header that is impossible or claims another LEB.
pub fn still_holds<F: Flash>(
    flash: &mut F,
    cx: &mut Cx,
    layout: &Layout,
    peb: Peb,
    vol_id: VolId,
    lnum: Lnum,
) -> Result<bool, AttachError> {
    let Found::Header { hdr, .. } = Reader::new(flash, cx, layout)?.vid_hdr(peb)? else { return Ok(false) };
    if (hdr.vol_id, hdr.lnum) == (vol_id.0, lnum.0) {
        return Ok(true);
    }
    let what = format!("LEB {lnum} is said to be in PEB {peb}, which holds LEB {} of volume {}", hdr.lnum, hdr.vol_id);
    Err(AttachError::Volume { vol_id, what })
}

/// Turns an error found at `offset` of `peb` into the reason why the fastmap is unusable. An impossible header with a
/// right checksum is fatal wherever it is.
fn blame(peb: Peb, offset: u32) -> impl Fn(AttachError) -> FastmapUnusable {
    move |error| match error {
        AttachError::Flash(_) | AttachError::Header { .. } | AttachError::Mismatch { .. } => {
            FastmapUnusable::Fatal(error)
        }
        error => FastmapUnusable::Invalid { peb, offset, why: error.to_string() },
    }
}

fn fatal(error: FlashError) -> FastmapUnusable {
    FastmapUnusable::Fatal(AttachError::Flash(error))
}

/// Headers of the first PEBs.
struct Start {
    anchor: Claim,
    /// By PEB.
    hdrs: Vec<Option<VidHdr>>,
    max_sqnum: u64,
}

impl Start {
    /// Reads the headers of the first PEBs. The super block with the highest sequence number, which is not 0, is the
    /// anchor.
    ///
    /// A broken VID header there may be a newer anchor torn by a power cut, so no older one is trusted.
    fn read<F: Flash>(reader: &mut Reader<'_, F>) -> Result<Start, FastmapUnusable> {
        let layout = reader.layout;
        let mut anchor: Option<Claim> = None;
        let mut rival = None;
        let mut broken = None;
        let mut max_sqnum = 0;
        let mut hdrs = vec![None; FM_MAX_START.min(layout.pebs) as usize];
        for (peb, slot) in (0..).map(Peb).zip(&mut hdrs) {
            if reader.is_bad(peb) {
                continue;
            }
            if let Found::Erased { .. } = reader.ec_hdr(peb).map_err(blame(peb, 0))? {
                continue; // never used since its erasure
            }
            match reader.vid_hdr(peb).map_err(blame(peb, layout.vid_hdr_offset))? {
                Found::Header { hdr, tired } => {
                    *slot = Some(hdr);
                    max_sqnum = hdr.sqnum.max(max_sqnum);
                    if hdr.vol_id != FM_SB_VOLUME_ID || hdr.sqnum == 0 {
                        continue;
                    }
                    if anchor.is_none_or(|anchor| anchor.hdr.sqnum <= hdr.sqnum) {
                        rival = anchor.filter(|anchor| anchor.hdr.sqnum == hdr.sqnum);
                        anchor = Some(Claim { peb, hdr, scrub: tired });
                    }
                }
                Found::Erased { .. } => {}
                Found::Bad { why, .. } => drop(broken.get_or_insert((peb, why))),
            }
        }
        let Some(anchor) = anchor else { return Err(FastmapUnusable::NotFound) };
        if let Some((peb, why)) = broken {
            let why = format!("a broken VID header among the first {FM_MAX_START} PEBs: {why}");
            return Err(FastmapUnusable::Invalid { peb, offset: layout.vid_hdr_offset, why });
        }
        if let Some(rival) = rival {
            let why = format!("two anchors (the other is PEB {}) have sequence number {}", rival.peb, rival.hdr.sqnum);
            return Err(FastmapUnusable::Invalid { peb: anchor.peb, offset: layout.vid_hdr_offset, why });
        }
        Ok(Start { anchor, hdrs, max_sqnum })
    }
}

/// The fastmap, read and decoded.
struct Fastmap {
    blocks: Vec<Peb>,
    block_counts: Vec<EraseCount>,
    max_sqnum: u64,
    stream: Stream,
}

/// Reads all blocks into one buffer, verifies the checksum, and decodes it.
fn read_fastmap<F: Flash>(reader: &mut Reader<'_, F>, start: &Start) -> Result<Fastmap, FastmapUnusable> {
    let layout = reader.layout;
    let anchor = start.anchor.peb;
    let invalid = |at: u32, why: String| FastmapUnusable::Invalid { peb: anchor, offset: layout.data_offset + at, why };
    let bytes = fastmap_bytes(layout.pebs, layout.leb_bytes);
    let lebs = bytes / u64::from(layout.leb_bytes);
    if lebs > FM_MAX_BLOCKS as u64 || (layout.leb_bytes as usize) < FmSb::BYTES {
        return Err(invalid(0, format!("a fastmap of {} PEBs would take {lebs} LEBs", layout.pebs)));
    }
    let mut buffer = vec![0; layout.leb_bytes as usize];
    read_block(reader, anchor, &mut buffer)?;
    let sb = FmSb::decode(&buffer).map_err(|why| invalid(0, why.to_string()))?;
    if sb.blocks.len() as u64 != lebs {
        return Err(invalid(12, format!("used_blocks = {}, expected {lebs}", sb.blocks.len())));
    }
    let mut places: Vec<_> =
        (0..layout.pebs).map(|peb| if reader.is_bad(Peb(peb)) { Place::Bad } else { Place::Unlisted }).collect();
    let mut blocks = Vec::with_capacity(sb.blocks.len());
    for (index, &(peb, _)) in (0..).zip(&sb.blocks) {
        let at = 16 + 4 * index;
        match places.get_mut(peb as usize) {
            Some(place @ Place::Unlisted) => *place = Place::Block(index),
            Some(place) => return Err(invalid(at, format!("block {index} is in PEB {peb}, which is {place:?}"))),
            None => return Err(invalid(at, format!("block {index} is in PEB {peb}, which does not exist"))),
        }
        blocks.push(Peb(peb));
    }
    if blocks[0] != anchor {
        return Err(invalid(16, format!("block 0 is said to be in PEB {}", blocks[0])));
    }
    let mut max_sqnum = start.max_sqnum;
    let mut block_counts = Vec::with_capacity(blocks.len());
    buffer.resize(bytes as usize, 0);
    let (lebs, _) = buffer.split_at_mut(bytes as usize);
    for ((index, &peb), leb) in (0..).zip(&blocks).zip(lebs.chunks_exact_mut(layout.leb_bytes as usize)) {
        block_counts.push(read_ec(reader, peb, "a fastmap block")?.0);
        let hdr = read_block_hdr(reader, peb, index)?;
        max_sqnum = max_sqnum.max(hdr.sqnum);
        if index > 0 {
            read_block(reader, peb, leb)?;
        }
    }
    buffer[FmSb::DATA_CRC_AT..FmSb::DATA_CRC_AT + 4].fill(0);
    let computed = crc(&buffer);
    if computed != sb.data_crc {
        return Err(invalid(FmSb::DATA_CRC_AT as u32, format!("CRC {:#010x}, computed {computed:#010x}", sb.data_crc)));
    }
    let stream = Stream::parse(&buffer, FmSb::BYTES, &blocks, places, layout)?;
    Ok(Fastmap { blocks, block_counts, max_sqnum, stream })
}

/// Reads the data of one block into `leb`.
fn read_block<F: Flash>(reader: &mut Reader<'_, F>, peb: Peb, leb: &mut [u8]) -> Result<(), FastmapUnusable> {
    let offset = reader.layout.data_offset;
    match reader.read(peb, offset, leb).map_err(fatal)? {
        Quality::Raw => Err(FastmapUnusable::Invalid { peb, offset, why: "a fastmap block is unreadable".to_owned() }),
        _ => Ok(()),
    }
}

/// Reads the VID header of block `index`: the super block's, or a data block's. Linux does not look at their LEB numbers.
fn read_block_hdr<F: Flash>(reader: &mut Reader<'_, F>, peb: Peb, index: u32) -> Result<VidHdr, FastmapUnusable> {
    let offset = reader.layout.vid_hdr_offset;
    let invalid = |why| FastmapUnusable::Invalid { peb, offset, why };
    let vol_id = if index == 0 { FM_SB_VOLUME_ID } else { FM_DATA_VOLUME_ID };
    match reader.vid_hdr(peb).map_err(blame(peb, offset))? {
        Found::Header { hdr, .. } if hdr.vol_id == vol_id => Ok(hdr),
        Found::Header { hdr, .. } => {
            Err(invalid(format!("fastmap block {index} says it is of volume {:#x}, not {vol_id:#x}", hdr.vol_id)))
        }
        Found::Erased { .. } => Err(invalid(format!("fastmap block {index} has no VID header"))),
        Found::Bad { why, .. } => Err(invalid(format!("fastmap block {index} has a broken VID header: {why}"))),
    }
}

/// Reads the EC header of `peb`, which must exist: the erase count, and whether the read needed correction.
fn read_ec<F: Flash>(reader: &mut Reader<'_, F>, peb: Peb, what: &str) -> Result<(EraseCount, bool), FastmapUnusable> {
    let invalid = |why| FastmapUnusable::Invalid { peb, offset: 0, why };
    match reader.ec_hdr(peb).map_err(blame(peb, 0))? {
        Found::Header { hdr, tired } => Ok((EraseCount(hdr.ec as u32), tired)), // at most MAX_ERASE_COUNT
        Found::Erased { .. } => Err(invalid(format!("{what} has no EC header"))),
        Found::Bad { why, .. } => Err(invalid(format!("{what} has a broken EC header: {why}"))),
    }
}

/// State of the attach: the fastmap, and what was found on flash since.
struct Attach<'a, F> {
    reader: Reader<'a, F>,
    blocks: Vec<Peb>,
    stream: Stream,
    fates: Vec<PebFate>,
    claims: Claims,
    max_sqnum: u64,
    notes: Vec<String>,
}

impl<'a, F: Flash> Attach<'a, F> {
    /// Sets fates as the fastmap lists them; a used PEB without a LEB is to be erased.
    fn new(reader: Reader<'a, F>, fastmap: Fastmap, start: &Start) -> Result<Attach<'a, F>, FastmapUnusable> {
        let Fastmap { blocks, block_counts, max_sqnum, mut stream } = fastmap;
        for (peb, &ec) in blocks.iter().zip(&block_counts) {
            stream.erase_counts[peb.at()] = ec;
        }
        let fate = |place: &Place| match *place {
            Place::Bad => PebFate::Bad,
            Place::Block(index) => PebFate::Fastmap { index },
            Place::Free => PebFate::Free,
            Place::Unlisted | Place::Pool | Place::Used | Place::Scrub | Place::Erase => ERASE,
        };
        let mut fates: Vec<_> = stream.places.iter().map(fate).collect();
        let layout_eba = (VolId(LAYOUT_VOLUME_ID), &stream.layout_eba[..]);
        let user_ebas = (0..).zip(&stream.volumes).filter_map(|(id, v)| Some((VolId(id), &v.as_ref()?.eba[..])));
        for (vol_id, eba) in std::iter::once(layout_eba).chain(user_ebas) {
            for (lnum, peb) in (0..).map(Lnum).zip(eba) {
                let Some(peb) = peb else { continue };
                let scrub = stream.places[peb.at()] == Place::Scrub;
                fates[peb.at()] = PebFate::Used { vol_id, lnum, scrub };
            }
        }
        let claims = Claims::new(reader.layout.pebs, stream.pools.iter().map(Vec::len).sum());
        let mut attach = Attach { reader, blocks, stream, fates, claims, max_sqnum, notes: Vec::new() };
        attach.check_start(start)?;
        Ok(attach)
    }

    /// Compares the VID headers of the first PEBs, which were read anyway, with the fastmap.
    fn check_start(&mut self, start: &Start) -> Result<(), FastmapUnusable> {
        for (peb, hdr) in (0..).map(Peb).zip(&start.hdrs) {
            let Some(hdr) = hdr else { continue };
            let old = |super_block| PebFate::OldFastmap { super_block };
            self.fates[peb.at()] = match (self.fates[peb.at()], hdr.vol_id) {
                (ERASE, FM_SB_VOLUME_ID) => old(true),
                (ERASE, FM_DATA_VOLUME_ID) => old(false),
                (fate @ (ERASE | PebFate::Fastmap { .. }), _) => fate,
                (fate @ PebFate::Used { vol_id, lnum, .. }, _) if (vol_id.0, lnum.0) == (hdr.vol_id, hdr.lnum) => fate,
                (fate, _) => {
                    let why = format!("holds LEB {} of volume {:#x}; in the fastmap: {fate:?}", hdr.lnum, hdr.vol_id);
                    return Err(FastmapUnusable::Invalid { peb, offset: self.reader.layout.vid_hdr_offset, why });
                }
            };
        }
        Ok(())
    }

    /// Reads the headers of the PEBs in both pools; those still free stay in their pool.
    fn scan_pools(&mut self) -> Result<(), FastmapUnusable> {
        for pool in 0..2 {
            let listed = std::mem::take(&mut self.stream.pools[pool]);
            let mut still_free = Vec::with_capacity(listed.len());
            for peb in listed {
                if self.scan_pool_peb(peb)? {
                    still_free.push(peb);
                }
            }
            self.stream.pools[pool] = still_free;
        }
        Ok(())
    }

    /// Reads the headers of one PEB of a pool. Returns whether it is still free.
    fn scan_pool_peb(&mut self, peb: Peb) -> Result<bool, FastmapUnusable> {
        let offset = self.reader.layout.vid_hdr_offset;
        let (ec, ec_tired) = read_ec(&mut self.reader, peb, "a PEB of a pool")?;
        self.stream.erase_counts[peb.at()] = ec;
        match self.reader.vid_hdr(peb).map_err(blame(peb, offset))? {
            Found::Header { hdr, tired } => {
                self.max_sqnum = self.max_sqnum.max(hdr.sqnum);
                self.claims.push(Claim { peb, hdr, scrub: tired || ec_tired });
                Ok(false)
            }
            Found::Erased { tired } if tired || ec_tired => Ok(false), // its fate stays `Erase`
            Found::Erased { .. } => {
                self.fates[peb.at()] = PebFate::Free;
                Ok(true)
            }
            Found::Bad { why, .. } => {
                Err(FastmapUnusable::Invalid { peb, offset, why: format!("a broken VID header, in a pool: {why}") })
            }
        }
    }

    /// Applies the claims found in the pools, which are newer than the fastmap.
    fn place_claims(&mut self) -> Result<(), FastmapUnusable> {
        let offset = self.reader.layout.vid_hdr_offset;
        for claim in self.claims.all() {
            let Claim { peb, hdr, .. } = claim;
            let invalid = |why| FastmapUnusable::Invalid { peb: *peb, offset, why };
            let slot = match hdr.vol_id {
                FM_SB_VOLUME_ID | FM_DATA_VOLUME_ID => {
                    self.fates[peb.at()] = PebFate::OldFastmap { super_block: hdr.vol_id == FM_SB_VOLUME_ID };
                    continue;
                }
                LAYOUT_VOLUME_ID => self.stream.layout_eba.get_mut(hdr.lnum as usize),
                _ => {
                    let volume = self.stream.volumes.get_mut(hdr.vol_id as usize).and_then(Option::as_mut);
                    volume.and_then(|volume| volume.eba.get_mut(hdr.lnum as usize))
                }
            };
            let Some(slot) = slot else {
                let (lnum, vol_id) = (hdr.lnum, hdr.vol_id);
                return Err(invalid(format!("LEB {lnum} of volume {vol_id:#x}, which the fastmap does not know")));
            };
            contest(&mut self.reader, &self.claims, claim, slot, &mut self.fates).map_err(blame(*peb, offset))?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<AttachInfo, FastmapUnusable> {
        let layout = self.reader.layout;
        let anchor = self.blocks[0];
        let layout_eba = self.stream.layout_eba;
        let good = self.fates.iter().filter(|fate| **fate != PebFate::Bad).count() as u32;
        let table_at = layout_eba[0].or(layout_eba[1]).unwrap_or(anchor);
        let table = table::read(&mut self.reader, layout_eba, good).map_err(blame(table_at, layout.data_offset))?;
        let Table { records, copies, tired, notes } = table;
        self.notes.extend(notes);
        for (peb, _) in layout_eba.iter().zip(tired).filter(|(_, tired)| *tired) {
            if let Some(PebFate::Used { scrub, .. }) = peb.and_then(|peb| self.fates.get_mut(peb.at())) {
                *scrub = true;
            }
        }
        for claim in self.claims.all() {
            if let Some(Some(record)) = records.get(claim.hdr.vol_id as usize) {
                table::agree(record, &claim.hdr, claim.peb).map_err(blame(claim.peb, layout.vid_hdr_offset))?;
            }
        }
        let mut volumes = Vec::with_capacity(records.len());
        let mut changed = 0;
        for (vol_id, record) in (0..).map(VolId).zip(records) {
            let listed = self.stream.volumes[vol_id.0 as usize].take();
            let listed_lebs = listed.as_ref().map(|listed| listed.eba.len());
            changed += u32::from(listed_lebs != record.as_ref().map(|record| record.reserved_pebs as usize));
            volumes.push(self.volume(vol_id, record, listed)?);
        }
        if changed > 1 {
            let why =
                format!("{changed} volumes differ from the volume table; UBI writes a fastmap after each change of it");
            return Err(self.invalid(why));
        }
        for Claim { peb, hdr, .. } in self.claims.all() {
            let Some(Some(volume)) = volumes.get(hdr.vol_id as usize) else { continue };
            let is_void = volume.record.vol_type == VolType::Dynamic || volume.record.upd_marker;
            if !is_void && hdr.used_ebs != volume.used_ebs {
                let why = format!("used_ebs = {}, {} in the fastmap", hdr.used_ebs, volume.used_ebs);
                return Err(FastmapUnusable::Invalid { peb: *peb, offset: layout.vid_hdr_offset, why });
            }
        }
        Ok(AttachInfo {
            by: AttachedBy::Fastmap,
            empty: false,
            fates: self.fates,
            erase_counts: self.stream.erase_counts,
            volumes,
            layout_eba,
            table: copies,
            max_sqnum: self.max_sqnum,
            image_seq: self.reader.image_seq,
            fastmap_blocks: self.blocks,
            pools: self.stream.pools,
            read_only: false,
            notes: self.notes,
        })
    }

    /// Builds a volume from the table's record and the fastmap's list. A power cut between a change of the table and
    /// the next fastmap leaves the volume in only one of them, or with two sizes: the table is right.
    fn volume(
        &mut self,
        vol_id: VolId,
        record: Option<VtblRecord>,
        listed: Option<FmVolume>,
    ) -> Result<Option<AttachedVolume>, FastmapUnusable> {
        let lebs = record.as_ref().map_or(0, |record| record.reserved_pebs as usize);
        let mut eba = vec![None; lebs];
        for (lnum, peb) in listed.iter().flat_map(|volume| volume.eba.iter().enumerate()) {
            match (peb, eba.get_mut(lnum)) {
                (_, Some(leb)) => *leb = *peb,
                (Some(peb), None) => self.fates[peb.at()] = ERASE,
                (None, None) => {}
            }
        }
        let Some(record) = record else {
            if listed.is_some() {
                self.notes.push(format!("volume {vol_id} was removed after the fastmap was written"));
            }
            return Ok(None);
        };
        let mut volume = AttachedVolume { record, eba, used_ebs: 0, last_eb_bytes: 0 };
        let Some(FmVolume { hdr, vol_type, .. }) = listed else {
            self.notes.push(format!("volume {vol_id} was made after the fastmap was written"));
            return Ok(Some(volume));
        };
        let record = &volume.record;
        if (vol_type, hdr.data_pad) != (record.vol_type, record.data_pad) {
            let (found, pad) = (vol_type.name(), hdr.data_pad);
            let why = format!(
                "volume {vol_id} is {found} with data_pad {pad}; in the volume table {} with {}",
                record.vol_type.name(),
                record.data_pad
            );
            return Err(self.invalid(why));
        }
        if record.vol_type == VolType::Static && !record.upd_marker {
            (volume.used_ebs, volume.last_eb_bytes) = self.static_size(vol_id, &volume, &hdr)?;
        }
        Ok(Some(volume))
    }

    /// LEBs of a static volume and bytes in the last one, from the header of the last LEB. The fastmap has the numbers from
    /// before an update that ended after it was written: it is not written when an update ends, so then the last LEB is in
    /// a pool.
    fn static_size(
        &mut self,
        vol_id: VolId,
        volume: &AttachedVolume,
        listed: &crate::media::FmVolHdr,
    ) -> Result<(u32, u32), FastmapUnusable> {
        let mapped = volume.eba.iter().filter(|leb| leb.is_some()).count() as u32;
        let contradiction = |what: &str| format!("volume {vol_id}: used_ebs = {}, {what}", listed.used_ebs);
        if listed.used_ebs == 0 && mapped == 0 {
            return Ok((0, 0));
        }
        let last = mapped.checked_sub(1).and_then(|last| Some((last, (*volume.eba.get(last as usize)?)?)));
        let Some((last, peb)) = last else {
            return Err(self.invalid(contradiction("and other LEBs are mapped")));
        };
        let offset = self.reader.layout.vid_hdr_offset;
        let (hdr, expected) = match self.claims.of(peb) {
            Some(Claim { hdr, .. }) => (*hdr, (mapped, hdr.data_size)),
            None if mapped != listed.used_ebs => {
                return Err(self.invalid(contradiction("and other LEBs are mapped")));
            }
            None => match self.reader.vid_hdr(peb).map_err(blame(peb, offset))? {
                Found::Header { hdr, .. } => (hdr, (listed.used_ebs, listed.last_eb_bytes)),
                _ => return Err(self.invalid(contradiction("and the last LEB has no VID header"))),
            },
        };
        let agrees = table::agree(&volume.record, &hdr, peb);
        agrees.map_err(blame(peb, offset))?;
        if (hdr.vol_id, hdr.lnum) != (vol_id.0, last) || (hdr.used_ebs, hdr.data_size) != expected {
            return Err(self.invalid(contradiction("and the header of the last LEB says otherwise")));
        }
        Ok(expected)
    }

    fn invalid(&self, why: String) -> FastmapUnusable {
        FastmapUnusable::Invalid { peb: self.blocks[0], offset: self.reader.layout.data_offset, why }
    }
}
