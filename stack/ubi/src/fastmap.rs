//! Writing a fastmap: choosing its PEBs, encoding the device's state, and invalidating the previous fastmap.

use sim::seam::{Flash, FlashError};
use sim::{Cause, Cx, EraseCount, Peb};

use crate::device::Ubi;
use crate::error::UbiError;
use crate::media::{
    self, EcHdr, FM_DATA_VOLUME_ID, FM_SB_VOLUME_ID, FmEba, FmHdr, FmPool, FmSb, FmVolHdr, LAYOUT_VOLUME_ID, VidHdr,
    VolType, compat,
};
use crate::stats::FastmapTrigger;
use crate::wl::{PebState, Pool, Work};

/// No PEB for a block of the fastmap; handled like a failed write.
const NO_BLOCK: FlashError = FlashError::EraseFailed { peb: Peb(u32::MAX) };

impl<F: Flash> Ubi<F> {
    /// Refills the pools and writes a fastmap of the resulting state. At detach the pools are emptied instead: nothing
    /// will be taken from them, and the next attach has no pool to scan. Does nothing without fastmap or when
    /// read-only.
    /// Errors: faults of the flash. If the fastmap cannot be written, the old one is invalidated and the device runs on
    /// without.
    pub(crate) fn update_fastmap(&mut self, cx: &mut Cx, trigger: FastmapTrigger) -> Result<(), UbiError> {
        if self.fastmap_blocks == 0 || self.read_only.is_some() {
            return Ok(());
        }
        if self.config.policy.wait_for_free_pebs {
            self.wait_for_free_pebs(cx)?;
        }
        if trigger == FastmapTrigger::Detach {
            self.empty_pools();
        } else {
            self.refill_pools();
        }
        self.stats.fastmap_triggers[trigger as usize] += 1;
        let outcome = cx.because(Cause::Fastmap, |cx| self.replace_fastmap(cx));
        match outcome {
            Ok(()) => {
                self.stats.fastmap_writes += 1;
                self.ensure_anchor();
                Ok(())
            }
            Err(FlashError::PowerLost) => Err(FlashError::PowerLost.into()),
            Err(_) => {
                cx.because(Cause::Fastmap, |cx| self.invalidate_fastmap(cx, true))?;
                self.ensure_anchor();
                Ok(())
            }
        }
    }

    /// Chooses blocks and writes them. After any fault but power loss, `self.fastmap` holds every block, old or new,
    /// that has to be invalidated.
    fn replace_fastmap(&mut self, cx: &mut Cx) -> Result<(), FlashError> {
        // From here until the new one is chosen there is no fastmap; `middling_free` depends on that.
        let old = std::mem::take(&mut self.fastmap);
        let mut blocks = Vec::with_capacity(self.fastmap_blocks as usize);
        let outcome = self.choose_blocks(cx, &old, &mut blocks);
        self.fastmap = blocks;
        if outcome.is_ok() {
            return self.write_fastmap(cx);
        }
        // Blocks not yet queued for erasure still belong to the old fastmap.
        for &was in &old {
            if self.wear.state(was) == PebState::Fastmap && !self.fastmap.contains(&was) {
                self.fastmap.push(was);
            }
        }
        outcome
    }

    /// Chooses the new fastmap's PEBs, anchor first. If no PEB is free, the old block is erased and used again in
    /// place.
    fn choose_blocks(&mut self, cx: &mut Cx, old: &[Peb], blocks: &mut Vec<Peb>) -> Result<(), FlashError> {
        for i in 1..self.fastmap_blocks as usize {
            let new = self.take_fastmap_data_peb();
            let block = match (new, old.get(i).copied()) {
                (Some(new), was) => {
                    was.into_iter().for_each(|was| self.put_fastmap_peb(was));
                    new
                }
                (None, Some(was)) => {
                    self.stats.data_blocks_in_place += 1;
                    let remembered = self.wear.ec(was);
                    self.erase_in_place(cx, was)?;
                    if !self.config.policy.count_in_place_erases {
                        self.wear.set_ec(was, remembered);
                    }
                    was
                }
                (None, None) => return Err(NO_BLOCK),
            };
            blocks.push(block);
        }
        for &was in old.iter().skip(self.fastmap_blocks as usize) {
            self.put_fastmap_peb(was);
        }
        let anchor = match (self.wear.use_spare_anchor(), old.first().copied()) {
            (Some(new), was) => {
                was.into_iter().for_each(|was| self.put_fastmap_peb(was));
                new
            }
            (None, Some(was)) => {
                self.stats.anchors_in_place += 1;
                self.erase_in_place(cx, was)?;
                was
            }
            (None, None) => return Err(NO_BLOCK),
        };
        blocks.insert(0, anchor);
        Ok(())
    }

    /// Erases a block that the fastmap uses again in place. The new erase counter is the one on flash plus one: the
    /// count in memory may be lower (see [`Policy::count_in_place_erases`](crate::Policy::count_in_place_erases)).
    /// Errors: as [`sync_erase`](Self::sync_erase); `EraseFailed` also if there is no valid EC header.
    fn erase_in_place(&mut self, cx: &mut Cx, peb: Peb) -> Result<(), FlashError> {
        let (bytes, _) = self.flash.read_back(cx, peb, 0, EcHdr::BYTES as u32, &mut self.scratch)?;
        if let Some(bytes) = bytes.bytes() {
            let hdr = bytes.try_into().ok().and_then(|bytes| EcHdr::decode(bytes).ok());
            let hdr = hdr.ok_or(FlashError::EraseFailed { peb })?;
            self.wear.set_ec(peb, EraseCount(hdr.ec as u32)); // at most MAX_ERASE_COUNT
        }
        self.sync_erase(cx, peb, false)
    }

    fn put_fastmap_peb(&mut self, peb: Peb) {
        self.wear.set_state(peb, PebState::Erasing);
        self.wear.queue(Work::Erase { peb, torture: false, cause: Cause::Fastmap });
    }

    /// Invalidates a fastmap that could not be written, and its predecessor. The anchors are erased at once, since
    /// attach must not find them, the other blocks in the background. The newest anchor is erased last: while it
    /// exists, attach trusts no older one.
    ///
    /// If `suspect`, the blocks failed and are torture-tested.
    pub(crate) fn invalidate_fastmap(&mut self, cx: &mut Cx, suspect: bool) -> Result<(), UbiError> {
        for peb in std::mem::take(&mut self.fastmap).into_iter().rev() {
            self.wear.set_state(peb, PebState::Erasing);
            let torture = suspect && peb.0 >= media::FM_MAX_START;
            self.wear.queue(Work::Erase { peb, torture, cause: Cause::Fastmap });
        }
        let may_be_anchor = |work: &Work| match *work {
            Work::Erase { peb, cause: Cause::Fastmap, .. } if peb.0 < media::FM_MAX_START => Some(peb),
            _ => None,
        };
        while let Some(peb) = self.wear.works().iter().find_map(may_be_anchor) {
            self.wear.unqueue_erase(peb);
            self.erase_and_free(cx, peb, false)?;
        }
        Ok(())
    }

    /// Writes the fastmap to the chosen PEBs: VID headers first, then the data.
    fn write_fastmap(&mut self, cx: &mut Cx) -> Result<(), FlashError> {
        let blocks = self.fastmap.clone();
        for (lnum, &peb) in (0..).zip(&blocks) {
            let sqnum = self.next_sqnum();
            self.program_vid(cx, peb, |_| VidHdr {
                vol_type: VolType::Dynamic,
                copy_flag: false,
                compat: compat::DELETE,
                vol_id: if lnum == 0 { FM_SB_VOLUME_ID } else { FM_DATA_VOLUME_ID },
                lnum,
                data_size: 0,
                used_ebs: 0,
                data_pad: 0,
                data_crc: 0,
                sqnum,
            })?;
        }
        let leb_bytes = self.layout.leb_bytes;
        let mut buffer = Vec::new();
        let stream =
            F::offer(&mut buffer, blocks.len() as u32 * leb_bytes, |stream| self.encode_fastmap(&blocks, stream));
        for (lnum, &peb) in (0..).zip(&blocks) {
            self.flash.program(cx, peb, self.layout.data_offset, stream.part(lnum * leb_bytes, leb_bytes))?;
        }
        Ok(())
    }

    /// Puts the device's state into `stream`, which is all zeroes.
    fn encode_fastmap(&self, blocks: &[Peb], stream: &mut [u8]) {
        let mut at = FmSb::BYTES + FmHdr::BYTES;
        for pool in [&self.wear.user_pool, &self.wear.wl_pool] {
            encode_pool(pool).encode(&mut stream[at..]);
            at += FmPool::BYTES;
        }
        let mut pair = |stream: &mut [u8], peb: Peb| {
            stream[at..at + 4].copy_from_slice(&peb.0.to_be_bytes());
            stream[at + 4..at + 8].copy_from_slice(&self.wear.ec(peb).0.to_be_bytes());
            at += 8;
        };
        let mut hdr = FmHdr { bad: self.layout.pebs - self.good_pebs, ..FmHdr::default() };
        for peb in self.wear.free().iter() {
            pair(stream, peb);
            hdr.free += 1;
        }
        for peb in self.wear.used_and_protected() {
            pair(stream, peb);
            hdr.used += 1;
        }
        // PEBs that are not fully readable still hold their LEBs.
        for peb in self.wear.scrubs().chain(self.wear.erroneous_pebs()) {
            pair(stream, peb);
            hdr.scrub += 1;
        }
        for work in self.wear.works() {
            if let Work::Erase { peb, .. } = *work {
                pair(stream, peb);
                hdr.erase += 1;
            }
        }
        let layout = (LAYOUT_VOLUME_ID, VolType::Dynamic, 0, 0, 0, &self.layout_eba[..]);
        let users = self.volumes.iter().zip(0..).filter_map(|(volume, vol_id)| {
            let volume = volume.as_ref()?;
            let record = &volume.record;
            Some((vol_id, record.vol_type, record.data_pad, volume.used_ebs, volume.last_eb_bytes, &volume.eba[..]))
        });
        for (vol_id, vol_type, data_pad, used_ebs, last_eb_bytes, eba) in users.chain([layout]) {
            let vol_type = vol_type.in_fastmap();
            FmVolHdr { vol_id, vol_type, data_pad, used_ebs, last_eb_bytes }.encode(&mut stream[at..]);
            at += FmVolHdr::BYTES;
            FmEba { reserved_pebs: eba.len() as u32 }.encode(&mut stream[at..]);
            at += FmEba::HEADER_BYTES;
            for &peb in eba {
                stream[at..at + 4].copy_from_slice(&peb.to_be_bytes());
                at += 4;
            }
            hdr.volumes += 1;
        }
        hdr.encode(&mut stream[FmSb::BYTES..]);
        let sb =
            FmSb { data_crc: 0, blocks: blocks.iter().map(|&peb| (peb.0, self.wear.ec(peb).0)).collect(), sqnum: 0 };
        sb.encode(stream);
        let data_crc = media::crc(stream);
        FmSb { data_crc, ..sb }.encode(stream);
    }
}

fn encode_pool(pool: &Pool) -> FmPool {
    FmPool { max_size: pool.max() as u16, pebs: pool.pebs().to_vec() }
}
