//! The attached device: its parts, attach and detach.
//!
//! Knows PEBs, LEBs and volumes; knows no file. Invariants, checked by [`Ubi::check`]: every PEB is in one place of
//! [`Wear`]; every mapped LEB has one PEB whose owner it is; reserved and available PEBs add up.

use sim::seam::{Flash, FlashError, LebError, Payload};
use sim::{Cause, Cx, EraseCount, Lnum, Peb, VolId};

use crate::attach::{
    self, AttachError, AttachInfo, AttachedBy, AttachedVolume, PebFate, TableCopy, attach_by_fastmap, attach_by_scan,
};
use crate::config::{Config, user_pool_max};
use crate::error::UbiError;
use crate::layout::Layout;
use crate::media::{self, EcHdr, LAYOUT_LEBS, LAYOUT_VOLUME_ID, UNMAPPED, VidHdr, VtblRecord};
use crate::record::Record;
use crate::stats::{FastmapTrigger, Stats};
use crate::wl::{Owner, PebState, Wear, Work};

/// With a sequence number from here on, a device is not written: its next ones would begin at 0 again some day, and new
/// data would lose to old. Linux writes on.
const LAST_SQNUM: u64 = u64::MAX - u32::MAX as u64;

/// PEBs reserved for wear levelling.
pub const WL_RESERVED_PEBS: u32 = 1;
/// PEBs reserved for atomic LEB changes.
pub const EBA_RESERVED_PEBS: u32 = 1;

/// A volume of the attached device.
#[derive(Clone, Debug)]
pub(crate) struct VolumeState {
    pub(crate) record: VtblRecord,
    /// PEB of each LEB; [`UNMAPPED`] for none.
    pub(crate) eba: Vec<u32>,
    /// Usable bytes per LEB.
    pub(crate) leb_bytes: u32,
    /// Static volumes: LEBs written by the last update.
    pub(crate) used_ebs: u32,
    /// Static volumes: bytes in the last LEB of the update.
    pub(crate) last_eb_bytes: u32,
    /// Static volumes: whether a check found them damaged.
    pub(crate) corrupted: bool,
    /// Static volumes: whether they were checked since attach.
    pub(crate) checked: bool,
}

/// An attached UBI device on flash `F`.
#[derive(Clone, Debug)]
pub struct Ubi<F> {
    pub(crate) flash: F,
    pub(crate) layout: Layout,
    pub(crate) config: Config,
    pub(crate) wear: Wear,
    pub(crate) volumes: Vec<Option<VolumeState>>,
    pub(crate) layout_eba: [u32; LAYOUT_LEBS as usize],
    /// Blocks of the fastmap on flash, anchor first; empty when there is none.
    pub(crate) fastmap: Vec<Peb>,
    /// PEBs of one fastmap; 0 if fastmap is off.
    pub(crate) fastmap_blocks: u32,
    /// PEBs left over for fastmaps that another kernel may write.
    pub(crate) fastmap_room: u32,
    pub(crate) wl_scheduled: bool,
    pub(crate) produce_anchor: bool,
    pub(crate) fastmap_work: bool,
    pub(crate) sqnum: u64,
    pub(crate) image_seq: u32,
    pub(crate) good_pebs: u32,
    pub(crate) kept_pebs: u32,
    pub(crate) available_pebs: u32,
    pub(crate) beb_reserved: u32,
    pub(crate) pools_reserved: u32,
    pub(crate) max_erroneous: u32,
    pub(crate) read_only: Option<&'static str>,
    pub(crate) background_failures: u32,
    pub(crate) attached_by: AttachedBy,
    pub(crate) notes: Vec<String>,
    pub(crate) stats: Stats,
    /// Buffer for a header write or for data on their way to the flash.
    pub(crate) scratch: Vec<u8>,
    pub(crate) known_bad: KnownBad,
    /// By PEB: whether its LEB's mapping comes from the fastmap and was not verified yet. Empty after a scan.
    pub(crate) unchecked: Vec<bool>,
    /// LEB that a write is moving to another PEB; wear levelling must leave it.
    pub(crate) pinned: Option<Owner>,
    /// Where calls and erasures are recorded, if they are.
    pub(crate) record: Option<Record>,
}

/// Deliberate mistakes, for testing the tests: a power-cut check must catch each of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownBad {
    /// An atomic change erases the old copy before the new one is written.
    pub erase_before_change: bool,
    /// An atomic change writes its new copy without the copy flag, so that a torn one wins.
    pub change_without_copy_flag: bool,
    /// A fastmap is written only after PEBs of the refilled pools were taken.
    pub hand_out_before_fastmap: bool,
    /// An erasure does not increase the erase counter.
    pub forget_erase_count: bool,
    /// After an attach by fastmap, a mapping is used without verifying the PEB.
    pub trust_old_mappings: bool,
    /// A change of the volume table writes its first copy only.
    pub write_one_table: bool,
    /// A PEB whose erasure was asked for is erased and then forgotten: it is in no list.
    pub forget_erased: bool,
}

/// A flash that could not be attached, with the reason.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct AttachFailure<F> {
    /// The flash, unchanged.
    pub flash: F,
    /// Why attach failed.
    pub error: AttachError,
}

/// Result of one step of the background thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Background {
    /// Nothing to do.
    Idle,
    /// Erased a PEB.
    Erased,
    /// Ran wear levelling; moved a LEB if one had to be moved.
    WearLevelled,
    /// Wrote a fastmap that wear levelling had requested.
    WroteFastmap,
}

impl<F: Flash> Ubi<F> {
    /// Attaches a flash: by the fastmap if there is a usable one, else by a scan. A blank flash is formatted.
    /// Errors: those of [`AttachError`]; the failure also returns the flash.
    pub fn attach(mut flash: F, cx: &mut Cx, config: &Config) -> Result<Ubi<F>, AttachFailure<F>> {
        match read_flash(&mut flash, cx, config) {
            Ok((layout, info)) => {
                Ubi::from_info(flash, cx, config, layout, info).map_err(|(flash, error)| AttachFailure { flash, error })
            }
            Err(error) => Err(AttachFailure { flash, error }),
        }
    }

    /// Attaches a flash from what [`attach_by_scan`] or [`attach_by_fastmap`] found on it, without reading it again. The flash
    /// must not have changed since.
    /// Errors: as [`Ubi::attach`], but for those of reading.
    pub fn attach_found(flash: F, cx: &mut Cx, config: &Config, found: AttachInfo) -> Result<Ubi<F>, AttachFailure<F>> {
        match Layout::new(flash.geometry(), config.vid_hdr_offset) {
            Ok(layout) => Ubi::from_info(flash, cx, config, layout, found)
                .map_err(|(flash, error)| AttachFailure { flash, error }),
            Err(error) => Err(AttachFailure { flash, error: error.into() }),
        }
    }

    /// Builds the device from the result of attach.
    fn from_info(
        flash: F,
        cx: &mut Cx,
        config: &Config,
        layout: Layout,
        info: AttachInfo,
    ) -> Result<Ubi<F>, (F, AttachError)> {
        let (pool_max, fastmap_blocks) = match config.has_fastmap(layout.pebs) {
            true => (user_pool_max(layout.pebs), media::fastmap_blocks(layout.pebs, layout.leb_bytes)),
            false => (0, 0),
        };
        let slots = media::vtbl_slots(layout.leb_bytes) as usize;
        let mut ubi = Ubi {
            wear: Wear::new(layout.pebs, pool_max, pool_max / 2),
            volumes: vec![None; slots],
            layout_eba: info.layout_eba.map(|peb| peb.map_or(UNMAPPED, |peb| peb.0)),
            fastmap: info.fastmap_blocks.clone(),
            fastmap_blocks,
            fastmap_room: 0,
            wl_scheduled: false,
            produce_anchor: false,
            fastmap_work: false,
            sqnum: info.max_sqnum.saturating_add(1),
            image_seq: if info.empty { config.image_seq } else { info.image_seq },
            good_pebs: 0,
            kept_pebs: 0,
            available_pebs: 0,
            beb_reserved: 0,
            pools_reserved: 0,
            max_erroneous: (layout.pebs / 10).max(16),
            read_only: match (info.read_only, info.max_sqnum) {
                (true, _) => Some("an unknown internal volume requires it"),
                (_, LAST_SQNUM..) => Some("the sequence numbers are used up"),
                _ => None,
            },
            background_failures: 0,
            attached_by: info.by.clone(),
            notes: info.notes.clone(),
            stats: Stats::new(pool_max, pool_max / 2),
            scratch: Vec::new(),
            known_bad: KnownBad::default(),
            unchecked: Vec::new(),
            pinned: None,
            record: None,
            flash,
            layout,
            config: config.clone(),
        };
        match ubi.bring_up(cx, info) {
            Ok(()) => Ok(ubi),
            Err(error) => Err((ubi.flash, error)),
        }
    }

    fn bring_up(&mut self, cx: &mut Cx, info: AttachInfo) -> Result<(), AttachError> {
        self.place_pebs(&info);
        let mut reserved = 0;
        let AttachInfo { volumes, empty, table, fates, .. } = info;
        for (slot, volume) in volumes.into_iter().enumerate() {
            if let Some(volume) = volume {
                reserved += volume.record.reserved_pebs;
                self.volumes[slot] = Some(volume_state(volume, self.layout.leb_bytes));
            }
        }
        self.reserve_pebs(reserved)?;
        if self.read_only.is_none() {
            // Super blocks of older fastmaps are erased first: no later attach may find them.
            for peb in self.old_anchors(cx, &fates)? {
                self.erase_now(cx, peb)?;
            }
            if empty {
                self.create_layout_volume(cx)?;
            } else if table.iter().any(|copy| !matches!(copy, TableCopy::Good)) {
                // The repair takes PEBs that the fastmap lists as free.
                self.give_up_fastmap(cx)?;
                self.repair_volume_table(cx, table)?;
            }
            self.autoresize(cx)?;
            self.ensure_wear_levelling();
            if self.fastmap_blocks > 0 {
                self.ensure_anchor();
            }
        }
        Ok(())
    }

    /// Super blocks of unused fastmaps, oldest first: while the newest exists, attach trusts no older one.
    fn old_anchors(&mut self, cx: &mut Cx, fates: &[PebFate]) -> Result<Vec<Peb>, FlashError> {
        let mut anchors = Vec::new();
        for (peb, fate) in (0..).map(Peb).zip(fates) {
            if !matches!(fate, PebFate::OldFastmap { super_block: true }) {
                continue;
            }
            let mut hdr = [0; VidHdr::BYTES];
            match self.flash.read(cx, peb, self.layout.vid_hdr_offset, &mut hdr) {
                Ok(_) | Err(FlashError::Uncorrectable { .. }) => {}
                Err(error) => return Err(error),
            }
            anchors.push((VidHdr::decode(&hdr).map_or(0, |hdr| hdr.sqnum), peb));
        }
        anchors.sort();
        Ok(anchors.into_iter().map(|(_, peb)| peb).collect())
    }

    /// Invalidates the fastmap. Errors: faults of the flash.
    fn give_up_fastmap(&mut self, cx: &mut Cx) -> Result<(), AttachError> {
        match cx.because(Cause::Fastmap, |cx| self.invalidate_fastmap(cx, false)) {
            Err(UbiError::Flash(error)) => Err(error.into()),
            // A block became bad and there was no reserve: the device is read-only now and has the reason.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn place_pebs(&mut self, info: &AttachInfo) {
        if info.by == AttachedBy::Fastmap {
            self.unchecked = info.fates.iter().map(|fate| matches!(fate, PebFate::Used { .. })).collect();
        }
        for (i, &fate) in info.fates.iter().enumerate() {
            let peb = Peb(i as u32);
            self.wear.set_ec(peb, info.erase_counts[i]);
            match fate {
                PebFate::Bad => self.wear.place_at_attach(peb, PebState::Bad),
                PebFate::Corrupt | PebFate::Preserved => {
                    self.kept_pebs += 1;
                    self.wear.place_at_attach(peb, PebState::Kept);
                }
                PebFate::Free => self.wear.add_free(peb),
                PebFate::Erase { torture } => self.wear.queue(Work::Erase { peb, torture, cause: Cause::Layout }),
                PebFate::OldFastmap { super_block } => {
                    if !super_block || self.read_only.is_some() {
                        self.wear.queue(Work::Erase { peb, torture: false, cause: Cause::Fastmap });
                    }
                }
                PebFate::Fastmap { .. } => self.wear.place_at_attach(peb, PebState::Fastmap),
                PebFate::Used { vol_id, lnum, scrub } => {
                    self.wear.set_owner(peb, Owner { vol_id, lnum });
                    self.wear.place_at_attach(peb, PebState::Moving);
                    if scrub { self.wear.add_scrub(peb) } else { self.wear.add_used(peb) }
                }
            }
            if fate != PebFate::Bad {
                self.good_pebs += 1;
            }
        }
    }

    /// Reserves PEBs for UBI's own needs and for volumes.
    /// Errors: `NoSpace` if there are too few good PEBs.
    fn reserve_pebs(&mut self, volumes: u32) -> Result<(), AttachError> {
        let usable = self.good_pebs - self.kept_pebs;
        if self.config.fastmap_reserve_pools && self.fastmap_blocks > 0 {
            self.pools_reserved = self.wear.user_pool.max();
        }
        let two_fastmaps = 2 * media::fastmap_blocks(self.layout.pebs, self.layout.leb_bytes);
        if self.config.fastmap && self.fastmap_blocks == 0 {
            self.fastmap_room = two_fastmaps;
            self.notes.push(format!("a fastmap needs more than {} PEBs: there is none", media::FM_MAX_START));
        }
        let need = LAYOUT_LEBS
            + volumes
            + WL_RESERVED_PEBS
            + EBA_RESERVED_PEBS
            + 2 * self.fastmap_blocks
            + self.fastmap_room
            + self.pools_reserved;
        if usable < need {
            return Err(AttachError::NoSpace { need, have: usable });
        }
        let mut left = usable - need;
        if self.config.fastmap_room && !self.config.fastmap {
            self.fastmap_room = left.min(two_fastmaps);
            left -= self.fastmap_room;
        }
        let bad = self.layout.pebs - self.good_pebs;
        let level = self.config.beb_limit(self.layout.pebs).saturating_sub(bad);
        self.beb_reserved = level.min(left);
        if self.beb_reserved < level {
            self.notes.push(format!("{left} PEBs are left for bad-block handling, {level} are wanted"));
        }
        self.available_pebs = left - self.beb_reserved;
        Ok(())
    }

    /// Erases a PEB that is in no ordered set and adds it to the free tree.
    fn erase_now(&mut self, cx: &mut Cx, peb: Peb) -> Result<(), FlashError> {
        cx.because(Cause::Layout, |cx| self.sync_erase(cx, peb, false))?;
        self.wear.add_free(peb);
        Ok(())
    }

    /// Takes a free PEB before the pools exist.
    fn early_peb(&mut self, cx: &mut Cx) -> Result<Peb, AttachError> {
        if self.wear.free().is_empty() {
            let Some(Work::Erase { peb, .. }) = self.wear.next_work() else {
                return Err(AttachError::NoSpace { need: 1, have: 0 });
            };
            self.erase_now(cx, peb)?;
        }
        let (peb, _) = self.wear.free().first().expect("one was just freed");
        self.wear.take_free(peb, PebState::Moving);
        Ok(peb)
    }

    fn create_layout_volume(&mut self, cx: &mut Cx) -> Result<(), AttachError> {
        let mut buffer = Vec::new();
        let table = self.volume_table(&[], &mut buffer);
        for lnum in 0..LAYOUT_LEBS {
            let peb = self.early_peb(cx)?;
            cx.because(Cause::Layout, |cx| self.write_layout_leb(cx, peb, lnum, table))?;
        }
        Ok(())
    }

    fn write_layout_leb(&mut self, cx: &mut Cx, peb: Peb, lnum: u32, table: Payload<'_>) -> Result<(), FlashError> {
        let owner = Owner { vol_id: VolId(LAYOUT_VOLUME_ID), lnum: Lnum(lnum) };
        self.write_vid(cx, peb, owner, None)?;
        self.flash.program(cx, peb, self.layout.data_offset, table)?;
        self.layout_eba[lnum as usize] = peb.0;
        self.wear.set_owner(peb, owner);
        self.wear.add_used(peb);
        Ok(())
    }

    /// Rewrites a damaged or outdated copy of the volume table from the good one.
    fn repair_volume_table(&mut self, cx: &mut Cx, table: [TableCopy; 2]) -> Result<(), AttachError> {
        let mut buffer = Vec::new();
        let good = self.volume_table(&[], &mut buffer);
        for (lnum, copy) in (0..).zip(table) {
            if copy == TableCopy::Good {
                continue;
            }
            let peb = self.early_peb(cx)?;
            let old = self.layout_eba[lnum as usize];
            cx.because(Cause::Layout, |cx| self.write_layout_leb(cx, peb, lnum, good))?;
            if old != UNMAPPED {
                self.wear.take_holding(Peb(old), PebState::Erasing);
                self.wear.queue(Work::Erase { peb: Peb(old), torture: false, cause: Cause::Layout });
            }
            self.notes.push(format!("copy {lnum} of the volume table was repaired"));
        }
        Ok(())
    }

    fn autoresize(&mut self, cx: &mut Cx) -> Result<(), AttachError> {
        let Some(slot) = self
            .volumes
            .iter()
            .position(|volume| volume.as_ref().is_some_and(|volume| volume.record.flags & VtblRecord::AUTORESIZE != 0))
        else {
            return Ok(());
        };
        let vol_id = VolId(slot as u32);
        let volume = self.volumes[slot].as_mut().expect("it was just found");
        volume.record.flags &= !VtblRecord::AUTORESIZE;
        let grown = volume.record.reserved_pebs + self.available_pebs;
        let outcome = if self.available_pebs == 0 {
            self.store_volume_table(cx, FastmapTrigger::Volumes)
        } else {
            self.resize_volume(cx, vol_id, grown)
        };
        outcome.map_err(|error| match error {
            UbiError::Flash(error) | UbiError::Leb(LebError::Flash(error)) => AttachError::Flash(error),
            other => AttachError::Volume { vol_id, what: other.to_string() },
        })
    }

    /// Writes a last fastmap, so that the next attach is fast, and returns the flash.
    /// Errors: `PowerLost` and other faults; the flash is returned in any case.
    pub fn detach(mut self, cx: &mut Cx) -> (F, Result<(), UbiError>) {
        let outcome = if self.read_only.is_some() {
            Ok(())
        } else {
            self.flush(cx).and_then(|()| self.update_fastmap(cx, FastmapTrigger::Detach))
        };
        (self.flash, outcome)
    }

    /// Returns the flash as it is, as after a power cut.
    pub fn into_flash(self) -> F {
        self.flash
    }

    /// The underlying flash.
    pub fn flash(&self) -> &F {
        &self.flash
    }

    /// The underlying flash, to inject faults while the device runs.
    pub fn flash_mut(&mut self) -> &mut F {
        &mut self.flash
    }

    /// Offsets and sizes in a PEB.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Parameters with which it was attached.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Counters since attach.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// State and wear of each PEB.
    pub fn wear(&self) -> &Wear {
        &self.wear
    }

    /// How it was attached.
    pub fn attached_by(&self) -> &AttachedBy {
        &self.attached_by
    }

    /// Harmless oddities found at attach.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// PEBs available for volumes.
    pub fn available_pebs(&self) -> u32 {
        self.available_pebs
    }

    /// PEBs reserved for bad-block handling.
    pub fn beb_reserved(&self) -> u32 {
        self.beb_reserved
    }

    /// Good PEBs of the device.
    pub fn good_pebs(&self) -> u32 {
        self.good_pebs
    }

    /// Blocks of the fastmap on flash, anchor first; empty when there is none.
    pub fn fastmap_pebs(&self) -> &[Peb] {
        &self.fastmap
    }

    /// Why the device is read-only; `None` if it can be written.
    pub fn read_only(&self) -> Option<&'static str> {
        self.read_only
    }

    /// Enables deliberate mistakes. Only for testing tests.
    pub fn set_known_bad(&mut self, known_bad: KnownBad) {
        self.known_bad = known_bad;
    }

    pub(crate) fn writable(&self) -> Result<(), UbiError> {
        match self.read_only {
            Some(why) => Err(UbiError::ReadOnly { why }),
            None => Ok(()),
        }
    }

    pub(crate) fn go_read_only(&mut self, why: &'static str) {
        self.read_only.get_or_insert(why);
    }

    pub(crate) fn next_sqnum(&mut self) -> u64 {
        let next = self.sqnum;
        self.sqnum += 1;
        next
    }

    /// Erases `peb` and writes its EC header with the new count. The PEB must be in no ordered place.
    /// Errors: `PowerLost`; `EraseFailed` or `ProgramFailed`, upon which it is to be retired.
    pub(crate) fn sync_erase(&mut self, cx: &mut Cx, peb: Peb, torture: bool) -> Result<(), FlashError> {
        self.prepare_nor_erase(cx, peb)?;
        let mut erases = 1;
        if torture {
            erases += cx.because(Cause::Torture, |cx| self.torture(cx, peb))?;
        }
        self.note_erase(cx, peb);
        self.flash.erase(cx, peb)?;
        if let Some(unchecked) = self.unchecked.get_mut(peb.at()) {
            *unchecked = false;
        }
        self.stats.erases += u64::from(erases);
        let count = if self.known_bad.forget_erase_count { 0 } else { erases };
        let ec = EraseCount(self.wear.ec(peb).0.saturating_add(count).min(media::MAX_ERASE_COUNT as u32));
        cx.because(Cause::Header, |cx| self.write_ec(cx, peb, ec))?;
        self.wear.set_ec(peb, ec);
        Ok(())
    }

    /// Invalidates both headers first: on NOR an interrupted erase can leave them looking valid.
    fn prepare_nor_erase(&mut self, cx: &mut Cx, peb: Peb) -> Result<(), FlashError> {
        if self.flash.geometry().medium != sim::seam::Medium::Nor {
            return Ok(());
        }
        cx.because(Cause::Header, |cx| {
            for offset in [0, self.layout.vid_hdr_offset] {
                self.flash.program(cx, peb, offset, Payload::Bytes(&[0; 4]))?;
            }
            Ok(())
        })
    }

    fn write_ec(&mut self, cx: &mut Cx, peb: Peb, ec: EraseCount) -> Result<(), FlashError> {
        let payload = F::offer(&mut self.scratch, self.layout.ec_hdr_alsize, |page| {
            let hdr = EcHdr {
                ec: u64::from(ec.0),
                vid_hdr_offset: self.layout.vid_hdr_offset,
                data_offset: self.layout.data_offset,
                image_seq: self.image_seq,
            };
            page[..EcHdr::BYTES].copy_from_slice(&hdr.encode());
        });
        self.flash.program(cx, peb, 0, payload)
    }
}

/// Reads the state of the flash by fastmap or by scan.
fn read_flash<F: Flash>(flash: &mut F, cx: &mut Cx, config: &Config) -> Result<(Layout, AttachInfo), AttachError> {
    let layout = Layout::new(flash.geometry(), config.vid_hdr_offset)?;
    let info = match read_headers(flash, cx, config, &layout) {
        Err(AttachError::NoBytes) => blank(flash, &layout),
        read => read?,
    };
    Ok((layout, info))
}

/// Reads the flash by fastmap or by scan.
fn read_headers<F: Flash>(
    flash: &mut F,
    cx: &mut Cx,
    config: &Config,
    layout: &Layout,
) -> Result<AttachInfo, AttachError> {
    if config.has_fastmap(layout.pebs) {
        let fastmap = attach_by_fastmap(flash, cx, layout);
        return attach::choose(fastmap, || attach_by_scan(flash, cx, layout));
    }
    attach_by_scan(flash, cx, layout)
}

/// The result of a scan of a blank flash.
fn blank<F: Flash>(flash: &F, layout: &Layout) -> AttachInfo {
    let fate = |i| if flash.is_bad(Peb(i)) { PebFate::Bad } else { PebFate::Erase { torture: false } };
    AttachInfo {
        by: AttachedBy::Scan,
        empty: true,
        fates: (0..layout.pebs).map(fate).collect(),
        erase_counts: vec![EraseCount(0); layout.pebs as usize],
        volumes: Vec::new(),
        layout_eba: [None; 2],
        table: [TableCopy::Good; 2],
        max_sqnum: 0,
        image_seq: 0,
        fastmap_blocks: Vec::new(),
        pools: [Vec::new(), Vec::new()],
        read_only: false,
        notes: Vec::new(),
    }
}

fn volume_state(volume: AttachedVolume, leb_bytes: u32) -> VolumeState {
    VolumeState {
        leb_bytes: leb_bytes - volume.record.data_pad,
        eba: volume.eba.iter().map(|peb| peb.map_or(UNMAPPED, |peb| peb.0)).collect(),
        used_ebs: volume.used_ebs,
        last_eb_bytes: volume.last_eb_bytes,
        corrupted: false,
        checked: volume.record.flags & VtblRecord::SKIP_CHECK != 0,
        record: volume.record,
    }
}
