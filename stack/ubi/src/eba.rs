//! Logical eraseblocks: which PEB holds each, and reading, writing, changing and unmapping them.
//!
//! The VID header is written before the data, with a sequence number higher than any before. If a write fails, the LEB
//! is recovered to another PEB with the data written so far.

use sim::seam::{Flash, FlashError, LebError, Payload};
use sim::{Cause, Cx, Lnum, Peb, VolId};

use crate::attach::{AttachError, still_holds};
use crate::device::Ubi;
use crate::media::{self, LAYOUT_COMPAT, LAYOUT_VOLUME_ID, UNMAPPED, VidHdr, VolType};
use crate::record::Op;
use crate::wl::{Owner, PebState};

/// PEBs that a write tries before it fails.
const WRITE_ATTEMPTS: u32 = 4;

impl<F: Flash> Ubi<F> {
    pub(crate) fn mapping(&self, owner: Owner) -> Option<Peb> {
        let peb = if owner.vol_id.0 == LAYOUT_VOLUME_ID {
            self.layout_eba[owner.lnum.at()]
        } else {
            self.volumes[owner.vol_id.0 as usize].as_ref()?.eba[owner.lnum.at()]
        };
        (peb != UNMAPPED).then_some(Peb(peb))
    }

    /// The PEB of a LEB that is about to be used. After an attach by fastmap, the first use verifies the PEB: the LEB
    /// may have been unmapped and the PEB erased since the fastmap was written; then the LEB is unmapped.
    /// Errors: faults of the flash; `ReadOnly` if the PEB holds another LEB.
    #[inline]
    pub(crate) fn checked_mapping(&mut self, cx: &mut Cx, owner: Owner) -> Result<Option<Peb>, LebError> {
        match self.mapping(owner) {
            Some(peb) if self.unchecked.get(peb.at()) == Some(&true) && !self.known_bad.trust_old_mappings => {
                self.check_mapping(cx, owner, peb)
            }
            mapping => Ok(mapping),
        }
    }

    #[cold]
    fn check_mapping(&mut self, cx: &mut Cx, owner: Owner, peb: Peb) -> Result<Option<Peb>, LebError> {
        match still_holds(&mut self.flash, cx, &self.layout, peb, owner.vol_id, owner.lnum) {
            Ok(true) => {
                self.unchecked[peb.at()] = false;
                Ok(Some(peb))
            }
            Ok(false) => {
                self.replace_mapping(owner, UNMAPPED);
                self.put_peb(peb, false, Cause::Host);
                Ok(None)
            }
            Err(AttachError::Flash(error)) => Err(error.into()),
            Err(_) => {
                let why = "the fastmap names the wrong PEB for a LEB";
                self.go_read_only(why);
                Err(LebError::ReadOnly { lnum: owner.lnum, why })
            }
        }
    }

    #[inline]
    pub(crate) fn set_mapping(&mut self, owner: Owner, peb: Peb) {
        self.replace_mapping(owner, peb.0);
    }

    #[inline]
    fn replace_mapping(&mut self, owner: Owner, peb: u32) {
        if owner.vol_id.0 == LAYOUT_VOLUME_ID {
            self.layout_eba[owner.lnum.at()] = peb;
        } else if let Some(volume) = self.volumes[owner.vol_id.0 as usize].as_mut() {
            volume.eba[owner.lnum.at()] = peb;
        }
    }

    /// Writes the VID header of `owner`'s LEB to `peb`; `copy` is the size and checksum of the data of a copy.
    pub(crate) fn write_vid(
        &mut self,
        cx: &mut Cx,
        peb: Peb,
        owner: Owner,
        copy: Option<(u32, u32)>,
    ) -> Result<(), FlashError> {
        let sqnum = self.next_sqnum();
        self.program_vid(cx, peb, |ubi| {
            let (vol_type, _, static_bytes) = ubi.describe(owner);
            let internal = owner.vol_id.0 == LAYOUT_VOLUME_ID;
            let volume = if internal { None } else { ubi.volumes[owner.vol_id.0 as usize].as_ref() };
            let is_static = vol_type == VolType::Static;
            let (data_size, data_crc) = copy.unwrap_or((static_bytes.unwrap_or(0), 0));
            VidHdr {
                vol_type,
                copy_flag: copy.is_some(),
                compat: if internal { LAYOUT_COMPAT } else { 0 },
                vol_id: owner.vol_id.0,
                lnum: owner.lnum.0,
                data_size,
                used_ebs: volume.filter(|_| is_static).map_or(0, |volume| volume.used_ebs),
                data_pad: volume.map_or(0, |volume| volume.record.data_pad),
                data_crc,
                sqnum,
            }
        })
    }

    /// Programs a VID header, which is made only where its bytes are kept.
    pub(crate) fn program_vid(
        &mut self,
        cx: &mut Cx,
        peb: Peb,
        hdr: impl FnOnce(&Self) -> VidHdr,
    ) -> Result<(), FlashError> {
        let (offset, size) = (self.layout.vid_hdr_aloffset, self.layout.vid_hdr_alsize);
        let mut scratch = std::mem::take(&mut self.scratch);
        let payload = F::offer(&mut scratch, size, |page| {
            let shift = (self.layout.vid_hdr_offset - offset) as usize;
            page[shift..shift + VidHdr::BYTES].copy_from_slice(&hdr(self).encode());
        });
        let outcome = cx.because(Cause::Header, |cx| self.flash.program(cx, peb, offset, payload));
        self.scratch = scratch;
        outcome
    }

    /// Reads from a LEB; an unmapped one reads 0xFF. A read that needed correction marks the LEB for scrubbing.
    pub(crate) fn read_leb(&mut self, cx: &mut Cx, owner: Owner, offset: u32, buf: &mut [u8]) -> Result<(), LebError> {
        let Some(peb) = self.checked_mapping(cx, owner)? else {
            buf.fill(0xff);
            return Ok(());
        };
        let status = self.flash.read(cx, peb, self.layout.data_offset + offset, buf)?;
        if status.scrub {
            self.scrub(peb);
        }
        Ok(())
    }

    /// Marks a PEB that holds a LEB for scrubbing.
    pub(crate) fn scrub(&mut self, peb: Peb) {
        if matches!(self.wear.state(peb), PebState::Used | PebState::Protected) {
            self.wear.take_holding(peb, PebState::Scrub);
            self.wear.join_scrub(peb);
            self.ensure_wear_levelling();
        }
    }

    /// Writes to a LEB; maps it first if it is unmapped.
    pub(crate) fn write_leb(
        &mut self,
        cx: &mut Cx,
        owner: Owner,
        offset: u32,
        data: Payload<'_>,
    ) -> Result<(), LebError> {
        self.writable().map_err(|error| error.at(owner.lnum))?;
        let op = if data.is_empty() { Op::Map } else { Op::Write };
        self.note(cx, op, owner, (offset, data.len()));
        if let Some(peb) = self.checked_mapping(cx, owner)? {
            if data.is_empty() {
                return Ok(());
            }
            return match self.flash.program(cx, peb, self.layout.data_offset + offset, data) {
                Err(FlashError::ProgramFailed { .. }) => self.recover(cx, owner, peb, offset, data),
                other => Ok(other?),
            };
        }
        let peb = self.write_elsewhere(cx, owner, |ubi, cx, peb| {
            ubi.write_vid(cx, peb, owner, None)?;
            ubi.program_data(cx, peb, offset, data)
        })?;
        self.set_mapping(owner, peb);
        Ok(())
    }

    #[inline]
    fn program_data(&mut self, cx: &mut Cx, peb: Peb, offset: u32, data: Payload<'_>) -> Result<(), FlashError> {
        if data.is_empty() {
            return Ok(());
        }
        self.flash.program(cx, peb, self.layout.data_offset + offset, data)
    }

    /// Takes a PEB for `owner` and writes to it. If the write fails, that PEB is queued for torture and another is
    /// tried.
    /// Errors: no free PEB; faults of the flash; `ReadOnly` after too many failures.
    #[inline]
    fn write_elsewhere(
        &mut self,
        cx: &mut Cx,
        owner: Owner,
        mut write: impl FnMut(&mut Self, &mut Cx, Peb) -> Result<(), FlashError>,
    ) -> Result<Peb, LebError> {
        for _ in 0..WRITE_ATTEMPTS {
            let peb = self.get_peb(cx).map_err(|error| error.at(owner.lnum))?;
            match write(self, cx, peb) {
                Ok(()) => {
                    self.wear.set_owner(peb, owner);
                    return Ok(peb);
                }
                Err(FlashError::ProgramFailed { .. }) => {
                    self.stats.recoveries += 1;
                    self.put_peb(peb, true, Cause::Recovery);
                }
                Err(FlashError::PowerLost) => return Err(FlashError::PowerLost.into()),
                Err(error) => {
                    self.put_peb(peb, false, Cause::Recovery);
                    return Err(error.into());
                }
            }
        }
        self.go_read_only("a write failed on several blocks");
        Err(LebError::ReadOnly { lnum: owner.lnum, why: "a write failed on several blocks" })
    }

    /// Recovers a LEB whose write failed: writes what it held, and the new data, to another PEB. That has the copy flag: after
    /// a cut either it is complete, or the failed one is used.
    fn recover(
        &mut self,
        cx: &mut Cx,
        owner: Owner,
        failed: Peb,
        offset: u32,
        data: Payload<'_>,
    ) -> Result<(), LebError> {
        self.stats.recoveries += 1;
        cx.because(Cause::Recovery, |cx| {
            let mut buffer = Vec::new();
            self.flash.read_back(cx, failed, self.layout.data_offset, offset, &mut buffer)?;
            let length = offset + data.len();
            if F::KEEPS_BYTES {
                buffer.extend_from_slice(data.bytes().unwrap_or_default());
                buffer.resize(length as usize, 0);
            }
            let whole = if F::KEEPS_BYTES { Payload::Bytes(&buffer) } else { Payload::Length(length) };
            let copy = Some((length, crc_of(whole)));
            // Getting a PEB may run wear levelling, which must leave the failed one to us.
            self.pinned = Some(owner);
            let peb = self.write_elsewhere(cx, owner, |ubi, cx, peb| {
                ubi.write_vid(cx, peb, owner, copy)?;
                ubi.program_data(cx, peb, 0, whole)
            });
            self.pinned = None;
            let peb = peb?;
            self.set_mapping(owner, peb);
            self.put_peb(failed, true, Cause::Recovery);
            Ok(())
        })
    }

    /// Changes a LEB's contents atomically. The new copy has the copy flag and a checksum: after a cut either it is
    /// complete, or the old one is used. `bytes` is whole write units.
    pub(crate) fn change_leb(&mut self, cx: &mut Cx, owner: Owner, data: Payload<'_>) -> Result<(), LebError> {
        self.writable().map_err(|error| error.at(owner.lnum))?;
        self.note(cx, Op::Change, owner, (0, data.len()));
        if data.is_empty() {
            // An empty change unmaps the LEB.
            self.unmap_leb(cx, owner)?;
            return self.write_leb(cx, owner, 0, Payload::Length(0));
        }
        let crc = crc_of(data);
        if self.known_bad.erase_before_change
            && let Some(old) = self.mapping(owner)
        {
            self.replace_mapping(owner, UNMAPPED);
            self.wear.take_holding(old, PebState::Erasing);
            self.erase_and_free(cx, old, false).map_err(|error| error.at(owner.lnum))?;
        }
        let copy = (!self.known_bad.change_without_copy_flag).then_some((data.len(), crc));
        let peb = self.write_elsewhere(cx, owner, |ubi, cx, peb| {
            ubi.write_vid(cx, peb, owner, copy)?;
            ubi.program_data(cx, peb, 0, data)
        })?;
        let old = self.mapping(owner);
        self.set_mapping(owner, peb);
        if let Some(old) = old {
            self.put_peb(old, false, cx.cause());
        }
        Ok(())
    }

    /// Unmaps a LEB and queues the erasure of its PEB.
    #[inline]
    pub(crate) fn unmap_leb(&mut self, cx: &Cx, owner: Owner) -> Result<(), LebError> {
        self.writable().map_err(|error| error.at(owner.lnum))?;
        self.note(cx, Op::Unmap, owner, (0, 0));
        if let Some(peb) = self.mapping(owner) {
            self.replace_mapping(owner, UNMAPPED);
            self.put_peb(peb, false, Cause::Host);
        }
        Ok(())
    }

    /// Writes one LEB of a static volume: its VID header has the size and checksum of its data.
    pub(crate) fn write_static_leb(
        &mut self,
        cx: &mut Cx,
        owner: Owner,
        data: Payload<'_>,
        used_ebs: u32,
    ) -> Result<(), LebError> {
        self.writable().map_err(|error| error.at(owner.lnum))?;
        self.note(cx, Op::WriteStatic, owner, (0, data.len()));
        let mut buffer = Vec::new();
        let padded = self.padded(data, &mut buffer);
        let data_size = data.len();
        let data_pad = self.volumes[owner.vol_id.0 as usize].as_ref().map_or(0, |volume| volume.record.data_pad);
        let data_crc = crc_of(padded.part(0, data_size));
        let peb = self.write_elsewhere(cx, owner, |ubi, cx, peb| {
            let sqnum = ubi.next_sqnum();
            ubi.program_vid(cx, peb, |_| VidHdr {
                vol_type: VolType::Static,
                copy_flag: false,
                compat: 0,
                vol_id: owner.vol_id.0,
                lnum: owner.lnum.0,
                data_size,
                used_ebs,
                data_pad,
                data_crc,
                sqnum,
            })?;
            ubi.program_data(cx, peb, 0, padded)
        })?;
        self.set_mapping(owner, peb);
        Ok(())
    }

    /// Data of an update, filled up to whole write units with 0xFF.
    pub(crate) fn padded<'a>(&self, data: Payload<'_>, buffer: &'a mut Vec<u8>) -> Payload<'a> {
        F::offer(buffer, data.len().next_multiple_of(self.layout.min_io_bytes), |padded| {
            let (head, rest) = padded.split_at_mut(data.len() as usize);
            if let Some(bytes) = data.bytes() {
                head.copy_from_slice(bytes);
            }
            rest.fill(0xff);
        })
    }

    pub(crate) fn owner_of(vol_id: VolId, lnum: u32) -> Owner {
        Owner { vol_id, lnum: Lnum(lnum) }
    }
}

/// Checksum of a LEB's data; 0 where there are no bytes, and no header to carry it.
pub(crate) fn crc_of(data: Payload<'_>) -> u32 {
    data.bytes().map_or(0, media::crc)
}
