//! Attach by reading the headers of every PEB.
//!
//! | EC header | VID header | fate |
//! |---|---|---|
//! | erased | not read | erase |
//! | whole | erased | free; erase when either needed correction |
//! | broken | erased | erase |
//! | whole or broken | whole | by its volume |
//! | whole | broken | erase if the data area is erased or hard to read (an interrupted erase), else keep as corrupt |
//! | broken | broken | erase |
//!
//! Time is linear in the number of PEBs. Memory is bounded whatever the flash holds: less than 200 bytes per PEB, one
//! LEB, two volume tables, 4 bytes for each LEB that a valid volume table reserves (no more than there are PEBs). Data
//! areas are read only behind broken VID headers, and of copies whose original is still there.

use sim::seam::Flash;
use sim::{Cx, EraseCount, Lnum, Peb, VolId};

use super::claims::{Claim, Claims, ERASE, contest};
use super::reader::{DataArea, Found, Headers, Reader};
use super::table::{self, Table};
use super::{AttachError, AttachInfo, AttachedBy, AttachedVolume, PebFate, TableCopy};
use crate::layout::Layout;
use crate::media::{
    FM_DATA_VOLUME_ID, FM_SB_VOLUME_ID, INTERNAL_VOLUME_START, LAYOUT_VOLUME_ID, VidHdr, VolType, compat, vtbl_slots,
};

/// No erase counter exceeds `MAX_ERASE_COUNT`, so this value can mean "unknown".
const UNKNOWN_EC: EraseCount = EraseCount(u32::MAX);

/// PEBs with unreadable or broken headers that a blank flash may have: bad blocks not yet marked, and a block whose
/// header was torn by a power cut.
const ODD_PEBS_OF_AN_EMPTY_FLASH: u32 = 2;

/// Reads the headers of every PEB and resolves what the flash holds.
/// Errors: see [`AttachError`].
pub fn attach_by_scan<F: Flash>(flash: &mut F, cx: &mut Cx, layout: &Layout) -> Result<AttachInfo, AttachError> {
    attach_by_scan_of(flash, cx, layout, &[])
}

/// As [`attach_by_scan`]; headers in `read`, by PEB, are not read again.
/// Errors: see [`AttachError`].
pub fn attach_by_scan_of<F: Flash>(
    flash: &mut F,
    cx: &mut Cx,
    layout: &Layout,
    read: &[Option<&Headers>],
) -> Result<AttachInfo, AttachError> {
    let mut scan = Scan::new(Reader::with(flash, cx, layout, read)?);
    for peb in (0..layout.pebs).map(Peb) {
        scan.look_at(peb)?;
    }
    scan.refuse_too_many_corrupt()?;
    let info = if scan.is_empty()? { scan.finish_empty() } else { scan.finish()? };
    info.check();
    Ok(info)
}

/// Numbers of PEBs that decisions depend on.
#[derive(Default)]
struct Seen {
    good: u32,
    corrupt: u32,
    first_corrupt: Option<Peb>,
    preserved: u32,
    /// Valid VID headers.
    vid_hdrs: u32,
    /// Both headers broken, and read without ECC errors: no interrupted erase leaves that on NAND.
    garbage: u32,
    /// Both headers unreadable, or a broken EC header alone.
    odd: u32,
}

struct Scan<'a, F> {
    reader: Reader<'a, F>,
    fates: Vec<PebFate>,
    erase_counts: Vec<EraseCount>,
    claims: Claims,
    seen: Seen,
    max_sqnum: u64,
    read_only: bool,
    notes: Vec<String>,
}

impl<'a, F: Flash> Scan<'a, F> {
    fn new(reader: Reader<'a, F>) -> Scan<'a, F> {
        let pebs = reader.layout.pebs;
        Scan {
            fates: vec![ERASE; pebs as usize],
            erase_counts: vec![UNKNOWN_EC; pebs as usize],
            claims: Claims::new(pebs, pebs as usize),
            seen: Seen::default(),
            max_sqnum: 0,
            read_only: false,
            notes: Vec::new(),
            reader,
        }
    }

    /// Reads the headers of `peb`. Its fate stays `Erase` unless they or a volume decide otherwise.
    fn look_at(&mut self, peb: Peb) -> Result<(), AttachError> {
        if self.reader.is_bad(peb) {
            self.fates[peb.at()] = PebFate::Bad;
            self.erase_counts[peb.at()] = EraseCount(0);
            return Ok(());
        }
        self.seen.good += 1;
        let ec_hdr = self.reader.ec_hdr(peb)?;
        let ec_tired = match ec_hdr {
            Found::Erased { .. } => return Ok(()),
            Found::Header { hdr, tired } => {
                self.erase_counts[peb.at()] = EraseCount(hdr.ec as u32); // at most MAX_ERASE_COUNT
                tired
            }
            Found::Bad { .. } => true,
        };
        match (self.reader.vid_hdr(peb)?, ec_hdr) {
            (Found::Header { hdr, tired }, _) => self.claimed(Claim { peb, hdr, scrub: tired || ec_tired })?,
            (Found::Erased { .. }, Found::Bad { .. }) => self.seen.odd += 1,
            (Found::Erased { tired }, _) if tired || ec_tired => {}
            (Found::Erased { .. }, _) => self.fates[peb.at()] = PebFate::Free,
            (Found::Bad { ecc: true, .. }, Found::Bad { ecc: true, .. }) => self.seen.odd += 1,
            (Found::Bad { .. }, Found::Bad { .. }) => self.seen.garbage += 1,
            (Found::Bad { .. }, _) if self.reader.data_area(peb)? == DataArea::Data => {
                self.fates[peb.at()] = PebFate::Corrupt;
                self.seen.corrupt += 1;
                self.seen.first_corrupt.get_or_insert(peb);
            }
            (Found::Bad { .. }, _) => {}
        }
        Ok(())
    }

    /// Handles a valid VID header. Claims of user volumes and of the layout volume wait for the volume table.
    fn claimed(&mut self, claim: Claim) -> Result<(), AttachError> {
        let Claim { peb, hdr: VidHdr { vol_id, sqnum, compat, .. }, .. } = claim;
        self.seen.vid_hdrs += 1;
        self.max_sqnum = self.max_sqnum.max(sqnum);
        let slots = vtbl_slots(self.reader.layout.leb_bytes);
        match vol_id {
            FM_SB_VOLUME_ID => self.fates[peb.at()] = PebFate::OldFastmap { super_block: true },
            FM_DATA_VOLUME_ID => self.fates[peb.at()] = PebFate::OldFastmap { super_block: false },
            LAYOUT_VOLUME_ID => self.claims.push(claim),
            _ if vol_id >= INTERNAL_VOLUME_START => match compat {
                compat::DELETE => {}
                compat::REJECT => return Err(AttachError::Rejected { peb, vol_id: VolId(vol_id) }),
                _ => {
                    self.fates[peb.at()] = PebFate::Preserved;
                    self.seen.preserved += 1;
                    self.read_only |= compat == compat::READ_ONLY;
                }
            },
            _ if vol_id >= slots => {
                let what = format!("PEB {peb} belongs to it, the volume table has {slots} slots");
                return Err(AttachError::Volume { vol_id: VolId(vol_id), what });
            }
            _ => self.claims.push(claim),
        }
        Ok(())
    }

    fn refuse_too_many_corrupt(&self) -> Result<(), AttachError> {
        let Seen { corrupt, first_corrupt: Some(first), .. } = self.seen else { return Ok(()) };
        let good = self.seen.good - self.seen.preserved;
        let limit = if good < 20 { 8 } else { good / 20 };
        if corrupt >= limit {
            return Err(AttachError::TooManyCorrupt { corrupt, good, limit, first });
        }
        Ok(())
    }

    /// Whether the flash is blank: no VID header, no data, and at most [`ODD_PEBS_OF_AN_EMPTY_FLASH`] odd PEBs.
    /// Errors: the flash holds data, but no UBI.
    fn is_empty(&self) -> Result<bool, AttachError> {
        let Seen { vid_hdrs, corrupt, garbage, odd, good, .. } = self.seen;
        if vid_hdrs > 0 {
            return Ok(false);
        }
        if corrupt == 0 && garbage == 0 && odd <= ODD_PEBS_OF_AN_EMPTY_FLASH {
            return Ok(true);
        }
        let why = format!(
            "no PEB of {good} holds a VID header, yet the flash is not empty: \
             {} have broken headers, {corrupt} of them data",
            corrupt + garbage + odd
        );
        Err(AttachError::NoVolumeTable { why })
    }

    fn finish_empty(self) -> AttachInfo {
        let slots = vtbl_slots(self.reader.layout.leb_bytes) as usize;
        self.into_info(true, vec![None; slots], [None; 2], [TableCopy::Bad; 2])
    }

    fn finish(mut self) -> Result<AttachInfo, AttachError> {
        let layout_eba = self.place_layout_volume()?;
        let table = table::read(&mut self.reader, layout_eba, self.seen.good)?;
        for (copy, holder) in layout_eba.iter().enumerate() {
            if let (true, Some(peb)) = (table.tired[copy], holder)
                && let PebFate::Used { scrub, .. } = &mut self.fates[peb.at()]
            {
                *scrub = true;
            }
        }
        let Table { records, copies, notes, .. } = table;
        self.notes.extend(notes);
        let mut volumes = table::unmapped(records);
        self.place_user_volumes(&mut volumes)?;
        self.size_static_volumes(&mut volumes);
        Ok(self.into_info(false, volumes, layout_eba, copies))
    }

    fn place_layout_volume(&mut self) -> Result<[Option<Peb>; 2], AttachError> {
        let mut eba = [None; 2];
        for claim in self.claims.all().iter().filter(|claim| claim.hdr.vol_id == LAYOUT_VOLUME_ID) {
            let Some(slot) = eba.get_mut(claim.hdr.lnum as usize) else {
                let what = format!("PEB {} holds LEB {} of the layout volume, which has 2", claim.peb, claim.hdr.lnum);
                return Err(AttachError::Volume { vol_id: VolId(LAYOUT_VOLUME_ID), what });
            };
            contest(&mut self.reader, &self.claims, claim, slot, &mut self.fates)?;
        }
        Ok(eba)
    }

    /// Resolves user volumes. LEBs that the table does not know will be erased: a removal or shrinking was interrupted.
    fn place_user_volumes(&mut self, volumes: &mut [Option<AttachedVolume>]) -> Result<(), AttachError> {
        let mut unknown = 0;
        for claim in self.claims.all().iter().filter(|claim| claim.hdr.vol_id != LAYOUT_VOLUME_ID) {
            let Claim { peb, hdr, .. } = claim;
            let Some(volume) = &mut volumes[hdr.vol_id as usize] else {
                unknown += 1;
                continue;
            };
            table::agree(&volume.record, hdr, *peb)?;
            if hdr.vol_type == VolType::Static && !volume.record.upd_marker {
                if volume.used_ebs == 0 {
                    volume.used_ebs = hdr.used_ebs;
                }
                if volume.used_ebs != hdr.used_ebs {
                    let what = format!("PEB {peb}: used_ebs = {}, {} in another PEB", hdr.used_ebs, volume.used_ebs);
                    return Err(AttachError::Volume { vol_id: VolId(hdr.vol_id), what });
                }
            }
            match volume.eba.get_mut(Lnum(hdr.lnum).at()) {
                Some(slot) => contest(&mut self.reader, &self.claims, claim, slot, &mut self.fates)?,
                None => unknown += 1,
            }
        }
        if unknown > 0 {
            self.notes.push(format!("{unknown} PEBs hold LEBs that the volume table does not know: to be erased"));
        }
        Ok(())
    }

    /// Sets `last_eb_bytes` of static volumes, from the header of their last LEB.
    fn size_static_volumes(&mut self, volumes: &mut [Option<AttachedVolume>]) {
        for (vol_id, volume) in volumes.iter_mut().enumerate() {
            let Some(volume) = volume.as_mut().filter(|volume| volume.used_ebs > 0) else { continue };
            let used = &volume.eba[..volume.used_ebs as usize];
            let missing = used.iter().filter(|leb| leb.is_none()).count();
            if missing > 0 {
                let of = volume.used_ebs;
                self.notes.push(format!("volume {vol_id}: static, and {missing} of {of} LEBs are missing"));
            }
            let last = used.last().copied().flatten().and_then(|peb| self.claims.of(peb));
            volume.last_eb_bytes = last.map_or(0, |claim| claim.hdr.data_size);
        }
    }

    fn into_info(
        mut self,
        empty: bool,
        volumes: Vec<Option<AttachedVolume>>,
        layout_eba: [Option<Peb>; 2],
        table: [TableCopy; 2],
    ) -> AttachInfo {
        fill_with_mean(&mut self.erase_counts, &self.fates);
        if self.seen.corrupt > 0 {
            let first = self.seen.first_corrupt.unwrap_or(Peb(0));
            self.notes.push(format!("{} PEBs are corrupt and kept (first: PEB {first})", self.seen.corrupt));
        }
        AttachInfo {
            by: AttachedBy::Scan,
            empty,
            fates: self.fates,
            erase_counts: self.erase_counts,
            volumes,
            layout_eba,
            table,
            max_sqnum: self.max_sqnum,
            image_seq: self.reader.image_seq,
            fastmap_blocks: Vec::new(),
            pools: [Vec::new(), Vec::new()],
            read_only: self.read_only,
            notes: self.notes,
        }
    }
}

/// Gives good PEBs with a lost counter the mean of the others.
fn fill_with_mean(erase_counts: &mut [EraseCount], fates: &[PebFate]) {
    let known = |(ec, fate): (&EraseCount, &PebFate)| (*fate != PebFate::Bad && *ec != UNKNOWN_EC).then_some(ec.0);
    let (mut sum, mut count) = (0u64, 0u64);
    for ec in erase_counts.iter().zip(fates).filter_map(known) {
        sum += u64::from(ec);
        count += 1;
    }
    let mean = EraseCount(sum.checked_div(count).unwrap_or(0) as u32);
    erase_counts.iter_mut().filter(|ec| **ec == UNKNOWN_EC).for_each(|ec| *ec = mean);
}
