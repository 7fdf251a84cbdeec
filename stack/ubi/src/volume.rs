//! Volumes: creating, removing, resizing, renaming, updating; and the handle that a file system uses.
//!
//! Every change of the volume table is written to both copies in turn, each by an atomic LEB change, so that after a
//! cut at least one copy is intact. Attach uses the first intact one.

use sim::seam::{Flash, FlashError, LebError, LebVolume, Payload};
use sim::{Cause, Cx, Lnum, Peb, VolId};

use crate::device::{Ubi, VolumeState};
use crate::eba::crc_of;
use crate::error::UbiError;
use crate::media::{LAYOUT_LEBS, LAYOUT_VOLUME_ID, UNMAPPED, VidHdr, VolType, VtblRecord, vtbl_slots};
use crate::record::Op;
use crate::stats::FastmapTrigger;
use crate::wl::Owner;

/// Parameters of a new volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeRequest {
    /// Number of the volume; `None` for the lowest free one.
    pub vol_id: Option<VolId>,
    /// Name, 1 to 127 bytes without NUL.
    pub name: String,
    /// Type of the volume.
    pub vol_type: VolType,
    /// Size of the volume.
    pub size: VolumeSize,
    /// Usable LEB bytes are a multiple of this; 1 for none.
    pub alignment: u32,
    /// Whether to skip the check of a static volume when it is opened.
    pub skip_check: bool,
}

/// Size of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeSize {
    /// At least this many bytes.
    Bytes(u64),
    /// This many LEBs.
    Lebs(u32),
    /// All available PEBs.
    Max,
}

impl VolumeRequest {
    /// A dynamic volume of `size`, alignment 1.
    pub fn dynamic(name: &str, size: VolumeSize) -> VolumeRequest {
        VolumeRequest {
            vol_id: None,
            name: name.to_owned(),
            vol_type: VolType::Dynamic,
            size,
            alignment: 1,
            skip_check: false,
        }
    }
}

/// State of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeInfo {
    /// Number of the volume.
    pub vol_id: VolId,
    /// Its record in the volume table.
    pub record: VtblRecord,
    /// Usable bytes per LEB.
    pub leb_bytes: u32,
    /// Number of mapped LEBs.
    pub mapped: u32,
    /// LEBs that the last update of a static volume wrote; 0 of a dynamic one.
    pub used_lebs: u32,
    /// Data bytes: of a static volume those of the last update, of a dynamic one its capacity.
    pub data_bytes: u64,
    /// Whether a check found a static volume damaged.
    pub corrupted: bool,
}

impl<F: Flash> Ubi<F> {
    /// Creates a volume.
    /// Errors: a number, name, size or alignment out of range or taken; not enough PEBs; faults of the flash.
    pub fn create_volume(&mut self, cx: &mut Cx, request: &VolumeRequest) -> Result<VolId, UbiError> {
        self.writable()?;
        let vol_id = self.pick_vol_id(request.vol_id)?;
        self.check_name(&request.name, None)?;
        let leb_bytes = self.layout.leb_bytes;
        let alignment = request.alignment;
        let aligned = alignment == 1 || alignment.is_multiple_of(self.layout.min_io_bytes);
        if alignment == 0 || alignment > leb_bytes || !aligned {
            return bad(
                "alignment",
                alignment,
                format!("1, or a multiple of {}, at most {leb_bytes}", self.layout.min_io_bytes),
            );
        }
        if request.skip_check && request.vol_type == VolType::Dynamic {
            return bad("skip-check", "set", "only on a static volume".to_owned());
        }
        let data_pad = leb_bytes % alignment;
        let usable = leb_bytes - data_pad;
        // LEBs of an earlier volume of this number must not reappear in this one.
        self.flush(cx)?;
        let need = match request.size {
            VolumeSize::Lebs(lebs) => u64::from(lebs),
            VolumeSize::Bytes(bytes) => bytes.div_ceil(u64::from(usable)),
            VolumeSize::Max => u64::from(self.available_pebs),
        };
        if need == 0 {
            return bad("size", 0, "at least one LEB".to_owned());
        }
        let reserved_pebs = self.take_available(need)?;
        let record = VtblRecord {
            reserved_pebs,
            alignment,
            data_pad,
            vol_type: request.vol_type,
            upd_marker: false,
            name: request.name.as_bytes().to_vec(),
            flags: if request.skip_check { VtblRecord::SKIP_CHECK } else { 0 },
        };
        self.volumes[vol_id.0 as usize] = Some(VolumeState {
            record,
            eba: vec![UNMAPPED; reserved_pebs as usize],
            leb_bytes: usable,
            used_ebs: 0,
            last_eb_bytes: 0,
            corrupted: false,
            checked: true,
        });
        self.store_volume_table(cx, FastmapTrigger::Volumes)?;
        Ok(vol_id)
    }

    fn take_available(&mut self, need: u64) -> Result<u32, UbiError> {
        if need > u64::from(self.available_pebs) {
            return Err(UbiError::NoSpace {
                need: u32::try_from(need).unwrap_or(u32::MAX),
                available: self.available_pebs,
            });
        }
        self.available_pebs -= need as u32;
        Ok(need as u32)
    }

    fn pick_vol_id(&self, wanted: Option<VolId>) -> Result<VolId, UbiError> {
        let slots = vtbl_slots(self.layout.leb_bytes);
        match wanted {
            Some(vol_id) if vol_id.0 >= slots => bad("vol_id", vol_id, format!("below {slots}")),
            Some(vol_id) if self.volumes[vol_id.0 as usize].is_some() => Err(UbiError::VolumeExists(vol_id)),
            Some(vol_id) => Ok(vol_id),
            None => {
                let free = self.volumes.iter().position(Option::is_none);
                free.map(|slot| VolId(slot as u32)).ok_or(UbiError::NoFreeVolumeId(slots))
            }
        }
    }

    fn check_name(&self, name: &str, renamed: Option<&[(VolId, &str)]>) -> Result<(), UbiError> {
        if name.is_empty() || name.len() > VtblRecord::NAME_MAX || name.contains('\0') {
            return bad("name", format!("{name:?}"), format!("1 to {} bytes without NUL", VtblRecord::NAME_MAX));
        }
        let taken = self.volumes.iter().zip(0..).find(|(volume, slot)| {
            let gone = renamed.is_some_and(|renamed| renamed.iter().any(|(vol_id, _)| vol_id.0 == *slot));
            !gone && volume.as_ref().is_some_and(|volume| volume.record.name == name.as_bytes())
        });
        match taken {
            Some((_, slot)) => Err(UbiError::NameExists { name: name.to_owned(), vol_id: VolId(slot) }),
            None => Ok(()),
        }
    }

    /// Removes a volume and its contents.
    /// Errors: `NoSuchVolume`; faults of the flash.
    pub fn remove_volume(&mut self, cx: &mut Cx, vol_id: VolId) -> Result<(), UbiError> {
        self.writable()?;
        self.state(vol_id)?;
        // The record is removed first: attach erases LEBs of a volume that the table does not know.
        let gone = [vol_id.0 as usize];
        self.store_table_without(cx, &gone)?;
        self.forget_volumes(cx, &gone);
        self.update_fastmap(cx, FastmapTrigger::Volumes)
    }

    /// Unmaps the LEBs of volumes that were removed from the table.
    fn forget_volumes(&mut self, cx: &Cx, gone: &[usize]) {
        for &slot in gone {
            let Some(volume) = self.volumes[slot].take() else { continue };
            for (lnum, &peb) in (0..).zip(&volume.eba) {
                self.note(cx, Op::Unmap, Self::owner_of(VolId(slot as u32), lnum), (0, 0));
                if peb != UNMAPPED {
                    self.put_peb(Peb(peb), false, Cause::Host);
                }
            }
            self.available_pebs += volume.record.reserved_pebs;
        }
    }

    /// Resizes a volume to `lebs` LEBs; LEBs beyond are lost.
    /// Errors: `NoSuchVolume`; 0 LEBs, or fewer than a static volume uses; not enough PEBs; faults of the flash.
    pub fn resize_volume(&mut self, cx: &mut Cx, vol_id: VolId, lebs: u32) -> Result<(), UbiError> {
        self.writable()?;
        let volume = self.state(vol_id)?;
        let (had, used, kind) = (volume.record.reserved_pebs, volume.used_ebs, volume.record.vol_type);
        if lebs == 0 {
            return bad("size", 0, "at least one LEB".to_owned());
        }
        if kind == VolType::Static && lebs < used {
            return bad("size", lebs, format!("at least the {used} LEBs that the static volume uses"));
        }
        if lebs > had {
            self.take_available(u64::from(lebs - had))?;
        }
        for lnum in lebs..had {
            self.unmap_leb(cx, Self::owner_of(vol_id, lnum))?;
        }
        // LEBs cut off now or earlier must not reappear when the volume grows.
        self.flush(cx)?;
        if let Some(volume) = self.volumes[vol_id.0 as usize].as_mut() {
            volume.record.reserved_pebs = lebs;
            volume.eba.resize(lebs as usize, UNMAPPED);
        }
        self.available_pebs += had.saturating_sub(lebs);
        self.store_volume_table(cx, FastmapTrigger::Volumes)
    }

    /// Renames volumes atomically: after a cut either every name is new or none. Names may be exchanged. A volume whose
    /// name is given to another, and which is not renamed itself, is removed, as `ubirename` does.
    /// Errors: `NoSuchVolume`; an invalid or repeated name; faults of the flash.
    pub fn rename_volumes(&mut self, cx: &mut Cx, renames: &[(VolId, &str)]) -> Result<(), UbiError> {
        self.writable()?;
        for (i, &(vol_id, name)) in renames.iter().enumerate() {
            self.state(vol_id)?;
            match self.check_name(name, Some(renames)) {
                // The volume that has the name is removed.
                Err(UbiError::NameExists { .. }) | Ok(()) => {}
                Err(other) => return Err(other),
            }
            if renames[..i].iter().any(|&(other, other_name)| other == vol_id || other_name == name) {
                return bad("rename", format!("{name:?}"), "each volume and each name once".to_owned());
            }
        }
        let replaced: Vec<usize> = (0..self.volumes.len())
            .filter(|&slot| {
                let renamed = renames.iter().any(|(vol_id, _)| vol_id.0 as usize == slot);
                let name = self.volumes[slot].as_ref().map(|volume| volume.record.name.as_slice());
                !renamed && renames.iter().any(|(_, new)| Some(new.as_bytes()) == name)
            })
            .collect();
        for &(vol_id, name) in renames {
            if let Some(volume) = self.volumes[vol_id.0 as usize].as_mut() {
                volume.record.name = name.as_bytes().to_vec();
            }
        }
        self.store_table_without(cx, &replaced)?;
        self.forget_volumes(cx, &replaced);
        self.update_fastmap(cx, FastmapTrigger::Volumes)
    }

    /// Begins an update: sets the update marker, so that attach notices an interruption, and unmaps every LEB.
    /// Errors: `NoSuchVolume`; more bytes than the volume holds; faults of the flash.
    pub fn begin_update(&mut self, cx: &mut Cx, vol_id: VolId, bytes: u64) -> Result<(), UbiError> {
        self.writable()?;
        let volume = self.state(vol_id)?;
        let room = u64::from(volume.record.reserved_pebs) * u64::from(volume.leb_bytes);
        if bytes > room {
            return bad("update", bytes, format!("at most {room} bytes"));
        }
        let lebs = volume.record.reserved_pebs;
        self.set_update_marker(cx, vol_id, true)?;
        for lnum in 0..lebs {
            self.unmap_leb(cx, Self::owner_of(vol_id, lnum))?;
        }
        // The old contents must not reappear after a cut once the marker is cleared.
        self.flush(cx)?;
        // A LEB of the update that is moved before its end needs the new sizes in its header.
        self.set_static_size(vol_id, bytes);
        Ok(())
    }

    /// Sets the size of a static volume's data.
    fn set_static_size(&mut self, vol_id: VolId, bytes: u64) {
        if let Some(volume) = self.volumes[vol_id.0 as usize].as_mut()
            && volume.record.vol_type == VolType::Static
        {
            let leb_bytes = u64::from(volume.leb_bytes);
            volume.used_ebs = bytes.div_ceil(leb_bytes) as u32;
            volume.last_eb_bytes = if bytes == 0 { 0 } else { ((bytes - 1) % leb_bytes + 1) as u32 };
        }
    }

    /// Ends an update that was [begun](Self::begin_update): clears the marker. `bytes` becomes the size of a static
    /// volume.
    /// Errors: `NoSuchVolume`; faults of the flash.
    pub fn end_update(&mut self, cx: &mut Cx, vol_id: VolId, bytes: u64) -> Result<(), UbiError> {
        self.writable()?;
        self.state(vol_id)?;
        self.set_static_size(vol_id, bytes);
        if let Some(volume) = self.volumes[vol_id.0 as usize].as_mut()
            && volume.record.vol_type == VolType::Static
        {
            volume.corrupted = false;
            volume.checked = true;
        }
        self.set_update_marker(cx, vol_id, false)
    }

    /// Replaces the whole contents of a volume.
    /// Errors: as [`begin_update`](Self::begin_update).
    pub fn update_volume(&mut self, cx: &mut Cx, vol_id: VolId, data: &[u8]) -> Result<(), UbiError> {
        let bytes = data.len() as u64;
        self.begin_update(cx, vol_id, bytes)?;
        let leb_bytes = self.state(vol_id)?.leb_bytes as usize;
        for (lnum, chunk) in (0..).zip(data.chunks(leb_bytes)) {
            self.update_leb(cx, vol_id, Lnum(lnum), Payload::Bytes(chunk), bytes)?;
        }
        self.end_update(cx, vol_id, bytes)
    }

    /// Writes one LEB of an update of `bytes` that was [begun](Self::begin_update): `data` is the whole LEB, or the rest
    /// in the last one.
    /// Errors: `NoSuchVolume`; no update was begun; a LEB beyond `bytes`, or data of another length; faults of the
    /// flash.
    pub fn update_leb(
        &mut self,
        cx: &mut Cx,
        vol_id: VolId,
        lnum: Lnum,
        data: Payload<'_>,
        bytes: u64,
    ) -> Result<(), UbiError> {
        self.writable()?;
        let volume = self.state(vol_id)?;
        let (leb_bytes, kind) = (u64::from(volume.leb_bytes), volume.record.vol_type);
        if !volume.record.upd_marker {
            return bad("update", "none", "an update that was begun".to_owned());
        }
        let length = bytes.saturating_sub(u64::from(lnum.0) * leb_bytes).min(leb_bytes);
        if length == 0 || u64::from(data.len()) != length {
            return bad("update", data.len(), format!("{length} bytes in LEB {lnum}"));
        }
        let owner = Self::owner_of(vol_id, lnum.0);
        if kind == VolType::Static {
            return Ok(self.write_static_leb(cx, owner, data, bytes.div_ceil(leb_bytes) as u32)?);
        }
        let mut buffer = Vec::new();
        let padded = self.padded(data, &mut buffer);
        Ok(self.write_leb(cx, owner, 0, padded)?)
    }

    fn set_update_marker(&mut self, cx: &mut Cx, vol_id: VolId, set: bool) -> Result<(), UbiError> {
        if let Some(volume) = self.volumes[vol_id.0 as usize].as_mut() {
            volume.record.upd_marker = set;
        }
        self.store_table_copies(cx)
    }

    /// Verifies the checksums of a static volume's data. A dynamic volume has none and passes.
    /// Errors: `NoSuchVolume`; `Leb(Corrupt)` with the first damaged LEB; faults of the flash.
    pub fn check_volume(&mut self, cx: &mut Cx, vol_id: VolId) -> Result<(), UbiError> {
        let volume = self.state(vol_id)?;
        if volume.record.vol_type == VolType::Dynamic {
            return Ok(());
        }
        let (used, leb_bytes) = (volume.used_ebs, volume.leb_bytes);
        for lnum in 0..used {
            if !self.static_leb_holds(cx, Self::owner_of(vol_id, lnum), leb_bytes)? {
                self.mark_corrupted(vol_id);
                return Err(LebError::Corrupt { lnum: Lnum(lnum) }.into());
            }
        }
        if let Some(volume) = self.volumes[vol_id.0 as usize].as_mut() {
            volume.checked = true;
        }
        Ok(())
    }

    fn mark_corrupted(&mut self, vol_id: VolId) {
        if let Some(volume) = self.volumes[vol_id.0 as usize].as_mut() {
            volume.corrupted = true;
        }
    }

    fn static_leb_holds(&mut self, cx: &mut Cx, owner: Owner, leb_bytes: u32) -> Result<bool, UbiError> {
        let Some(peb) = self.mapping(owner) else { return Ok(false) };
        match self.static_leb_matches(cx, peb, owner, leb_bytes) {
            Err(FlashError::Uncorrectable { .. }) => Ok(false),
            other => Ok(other?),
        }
    }

    /// Whether the data in a PEB match the checksum in its VID header; they do where there are no bytes.
    fn static_leb_matches(&mut self, cx: &mut Cx, peb: Peb, owner: Owner, leb_bytes: u32) -> Result<bool, FlashError> {
        let mut buffer = Vec::new();
        let (hdr, _) = self.flash.read_back(cx, peb, self.layout.vid_hdr_offset, VidHdr::BYTES as u32, &mut buffer)?;
        let Some(hdr) = hdr.bytes() else {
            let length = self.describe(owner).2.unwrap_or(leb_bytes);
            self.flash.read_back(cx, peb, self.layout.data_offset, length, &mut buffer)?;
            return Ok(true);
        };
        let Some(hdr) = hdr.try_into().ok().and_then(|hdr| VidHdr::decode(hdr).ok()) else { return Ok(false) };
        let length = hdr.data_size.min(leb_bytes);
        let (data, _) = self.flash.read_back(cx, peb, self.layout.data_offset, length, &mut buffer)?;
        Ok(crc_of(data) == hdr.data_crc)
    }

    /// Both copies of the table, and then a fastmap.
    pub(crate) fn store_volume_table(&mut self, cx: &mut Cx, trigger: FastmapTrigger) -> Result<(), UbiError> {
        self.store_table_copies(cx)?;
        self.update_fastmap(cx, trigger)
    }

    fn store_table_copies(&mut self, cx: &mut Cx) -> Result<(), UbiError> {
        self.store_table_without(cx, &[])
    }

    /// Writes both copies of the table without the volumes in `gone`. These stay in memory until both are written:
    /// writing may require a fastmap, which must list their LEBs as long as the table on flash has them.
    fn store_table_without(&mut self, cx: &mut Cx, gone: &[usize]) -> Result<(), UbiError> {
        let mut buffer = Vec::new();
        let table = self.volume_table(gone, &mut buffer);
        let copies = if self.known_bad.write_one_table { 1 } else { LAYOUT_LEBS };
        for lnum in 0..copies {
            let owner = Self::owner_of(VolId(LAYOUT_VOLUME_ID), lnum);
            cx.because(Cause::Layout, |cx| self.change_leb(cx, owner, table))?;
        }
        Ok(())
    }

    /// The volume table without the volumes in `gone`, padded to whole write units with zeroes.
    pub(crate) fn volume_table<'a>(&self, gone: &[usize], buffer: &'a mut Vec<u8>) -> Payload<'a> {
        let bytes = (self.volumes.len() * VtblRecord::BYTES) as u32;
        F::offer(buffer, bytes.next_multiple_of(self.layout.min_io_bytes), |table| {
            for ((slot, volume), record) in self.volumes.iter().enumerate().zip(table.chunks_mut(VtblRecord::BYTES)) {
                let stays = volume.as_ref().filter(|_| !gone.contains(&slot));
                record.copy_from_slice(&VtblRecord::encode(stays.map(|volume| &volume.record)));
            }
        })
    }

    pub(crate) fn state(&self, vol_id: VolId) -> Result<&VolumeState, UbiError> {
        self.volumes.get(vol_id.0 as usize).and_then(Option::as_ref).ok_or(UbiError::NoSuchVolume(vol_id))
    }

    /// Every volume, by number.
    pub fn volume_infos(&self) -> impl Iterator<Item = VolumeInfo> + '_ {
        self.volumes.iter().zip(0..).filter_map(|(volume, slot)| {
            let volume = volume.as_ref()?;
            let (lebs, leb_bytes) = (u64::from(volume.record.reserved_pebs), u64::from(volume.leb_bytes));
            let data_bytes = match volume.record.vol_type {
                VolType::Dynamic => lebs * leb_bytes,
                VolType::Static if volume.used_ebs == 0 => 0,
                VolType::Static => u64::from(volume.used_ebs - 1) * leb_bytes + u64::from(volume.last_eb_bytes),
            };
            Some(VolumeInfo {
                vol_id: VolId(slot),
                record: volume.record.clone(),
                leb_bytes: volume.leb_bytes,
                mapped: volume.eba.iter().filter(|&&peb| peb != UNMAPPED).count() as u32,
                used_lebs: volume.used_ebs,
                data_bytes,
                corrupted: volume.corrupted,
            })
        })
    }

    /// Number of the volume called `name`.
    pub fn find_volume(&self, name: &str) -> Option<VolId> {
        self.volume_infos().find(|info| info.record.name == name.as_bytes()).map(|info| info.vol_id)
    }

    /// Opens a volume. A static volume not checked since attach is checked first, unless its flags skip the check.
    /// Errors: `NoSuchVolume`; faults of the flash. A damaged static volume opens, and its LEBs read as `Corrupt`.
    pub fn open_volume(&mut self, cx: &mut Cx, vol_id: VolId) -> Result<Volume<'_, F>, UbiError> {
        if !self.state(vol_id)?.checked {
            match self.check_volume(cx, vol_id) {
                Ok(()) | Err(UbiError::Leb(LebError::Corrupt { .. })) => {}
                Err(other) => return Err(other),
            }
        }
        self.volume(vol_id)
    }

    /// The PEB to which a LEB is mapped; `None` if it is not, or there is no such LEB. After an attach by fastmap a mapping that
    /// was not used yet may be out of date: see [`Volume`]'s reads.
    pub fn peb_of(&self, vol_id: VolId, lnum: Lnum) -> Option<Peb> {
        let eba = &self.volumes.get(vol_id.0 as usize)?.as_ref()?.eba;
        eba.get(lnum.at()).filter(|&&peb| peb != UNMAPPED).map(|&peb| Peb(peb))
    }

    /// Opens a volume without a check.
    /// Errors: `NoSuchVolume`.
    #[inline]
    pub fn volume(&mut self, vol_id: VolId) -> Result<Volume<'_, F>, UbiError> {
        self.state(vol_id)?;
        Ok(Volume { ubi: self, vol_id })
    }
}

fn bad<T>(what: &'static str, found: impl ToString, expected: String) -> Result<T, UbiError> {
    Err(UbiError::BadRequest { what, found: found.to_string(), expected })
}

/// Handle of a volume of an attached device.
#[derive(Debug)]
pub struct Volume<'a, F> {
    ubi: &'a mut Ubi<F>,
    vol_id: VolId,
}

impl<F: Flash> Volume<'_, F> {
    #[inline]
    fn volume(&self) -> &VolumeState {
        self.ubi.volumes[self.vol_id.0 as usize].as_ref().expect("the handle keeps the volume")
    }

    #[inline]
    fn owner(&self, lnum: Lnum) -> Result<Owner, LebError> {
        let lebs = self.volume().record.reserved_pebs;
        if lnum.0 >= lebs {
            return Err(LebError::NoSuchLeb { lnum, lebs });
        }
        Ok(Owner { vol_id: self.vol_id, lnum })
    }

    #[inline]
    fn bounds(&self, lnum: Lnum, offset: u32, len: u32, unit: u32) -> Result<Owner, LebError> {
        let owner = self.owner(lnum)?;
        let fits = offset.checked_add(len).is_some_and(|end| end <= self.volume().leb_bytes);
        if !fits || !offset.is_multiple_of(unit) || !len.is_multiple_of(unit) {
            return Err(LebError::OutOfBounds { lnum, offset, len });
        }
        Ok(owner)
    }

    /// What may be read. As for `ubi_leb_read` of Linux 6.12, a static volume ends with its last byte of data.
    #[inline]
    fn readable(&self, lnum: Lnum, offset: u32, len: u32) -> Result<Owner, LebError> {
        let owner = self.bounds(lnum, offset, len, 1)?;
        let volume = self.volume();
        if volume.record.upd_marker {
            return Err(LebError::Updating { lnum });
        }
        if volume.record.vol_type == VolType::Static {
            if lnum.0 >= volume.used_ebs {
                return Err(LebError::NoSuchLeb { lnum, lebs: volume.used_ebs });
            }
            if lnum.0 + 1 == volume.used_ebs && offset + len > volume.last_eb_bytes {
                return Err(LebError::OutOfBounds { lnum, offset, len });
            }
        }
        Ok(owner)
    }

    #[inline]
    fn dynamic(&self, lnum: Lnum) -> Result<(), LebError> {
        let volume = self.volume();
        if volume.record.upd_marker {
            return Err(LebError::Updating { lnum });
        }
        match volume.record.vol_type {
            VolType::Dynamic => Ok(()),
            VolType::Static => Err(LebError::ReadOnly { lnum, why: "a static volume is written by updates only" }),
        }
    }

    /// Reads a LEB of a static volume and verifies its checksum.
    /// Errors: `Corrupt`; faults of the flash.
    pub fn read_checked(&mut self, cx: &mut Cx, lnum: Lnum, offset: u32, buf: &mut [u8]) -> Result<(), LebError> {
        let owner = self.readable(lnum, offset, buf.len() as u32)?;
        let leb_bytes = self.volume().leb_bytes;
        if self.volume().record.vol_type == VolType::Static
            && self.ubi.mapping(owner).is_some()
            && !self.ubi.static_leb_holds(cx, owner, leb_bytes).map_err(|error| error.at(lnum))?
        {
            self.ubi.mark_corrupted(self.vol_id);
            return Err(LebError::Corrupt { lnum });
        }
        self.ubi.read_leb(cx, owner, offset, buf)
    }
}

impl<F: Flash> LebVolume for Volume<'_, F> {
    #[inline(always)]
    fn keeps_bytes() -> bool {
        F::KEEPS_BYTES
    }

    fn lebs(&self) -> u32 {
        self.volume().record.reserved_pebs
    }

    fn leb_bytes(&self) -> u32 {
        self.volume().leb_bytes
    }

    fn min_io_bytes(&self) -> u32 {
        self.ubi.layout.min_io_bytes
    }

    fn read(&mut self, cx: &mut Cx, lnum: Lnum, offset: u32, buf: &mut [u8]) -> Result<(), LebError> {
        let owner = self.readable(lnum, offset, buf.len() as u32)?;
        if self.volume().corrupted {
            return Err(LebError::Corrupt { lnum });
        }
        self.ubi.read_leb(cx, owner, offset, buf)
    }

    #[inline]
    fn write(&mut self, cx: &mut Cx, lnum: Lnum, offset: u32, data: Payload<'_>) -> Result<(), LebError> {
        let owner = self.bounds(lnum, offset, data.len(), self.ubi.layout.min_io_bytes)?;
        self.dynamic(lnum)?;
        self.ubi.write_leb(cx, owner, offset, data)
    }

    fn change(&mut self, cx: &mut Cx, lnum: Lnum, data: Payload<'_>) -> Result<(), LebError> {
        let owner = self.bounds(lnum, 0, data.len(), self.ubi.layout.min_io_bytes)?;
        self.dynamic(lnum)?;
        self.ubi.change_leb(cx, owner, data)
    }

    fn map(&mut self, cx: &mut Cx, lnum: Lnum) -> Result<(), LebError> {
        let owner = self.owner(lnum)?;
        self.dynamic(lnum)?;
        if self.ubi.checked_mapping(cx, owner)?.is_some() {
            return Err(LebError::Mapped { lnum });
        }
        self.ubi.write_leb(cx, owner, 0, Payload::Length(0))
    }

    #[inline]
    fn unmap(&mut self, cx: &mut Cx, lnum: Lnum) -> Result<(), LebError> {
        let owner = self.owner(lnum)?;
        self.dynamic(lnum)?;
        self.ubi.unmap_leb(cx, owner)
    }

    /// As `ubi_leb_erase` of Linux 6.12: works for other LEBs wait.
    fn erase(&mut self, cx: &mut Cx, lnum: Lnum) -> Result<(), LebError> {
        let owner = self.owner(lnum)?;
        self.dynamic(lnum)?;
        let peb = self.ubi.mapping(owner);
        self.ubi.unmap_leb(cx, owner)?;
        peb.map_or(Ok(()), |peb| self.ubi.erase_queued(cx, peb)).map_err(|error| error.at(lnum))
    }

    #[inline]
    fn is_mapped(&self, lnum: Lnum) -> bool {
        self.volume().eba.get(lnum.at()).is_some_and(|&peb| peb != UNMAPPED)
    }

    fn sync(&mut self, cx: &mut Cx) -> Result<(), LebError> {
        self.ubi.flush(cx).map_err(|error| error.at(Lnum(0)))
    }
}
