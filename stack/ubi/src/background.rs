//! The background thread. One step is one erasure, one attempt of wear levelling, or one fastmap that was requested.
//!
//! Works are done in the order in which they were queued, by this thread or by a writer that finds no free PEB.

use sim::seam::{Flash, FlashError, LebError, Payload};
use sim::{Cause, Cx, EraseCount, Peb, VolId};

use crate::device::{Background, Ubi};
use crate::eba::crc_of;
use crate::error::UbiError;
use crate::media::{FM_MAX_START, LAYOUT_VOLUME_ID, VolType};
use crate::record::Op;
use crate::stats::FastmapTrigger;
use crate::wl::{Owner, PebState, Work};

/// Consecutive failures after which the device becomes read-only.
const MAX_FAILURES: u32 = 32;

/// Patterns of a torture test, in order.
const TORTURE_PATTERNS: [u8; 3] = [0xa5, 0x5a, 0x00];

/// Why a move was abandoned.
enum Halt {
    /// A fault of the flash, or power loss.
    Fault(FlashError),
    /// The source is not fully readable.
    SourceUnreadable,
    /// The target failed, or needed correction right after it was written.
    TargetSuspect,
}

impl<F: Flash> Ubi<F> {
    /// Does one work.
    /// Errors: `PowerLost`. After too many other failures the device becomes read-only and the thread idles.
    pub fn step_background(&mut self, cx: &mut Cx) -> Result<Background, UbiError> {
        if self.read_only.is_some() {
            return Ok(Background::Idle);
        }
        if self.fastmap_work {
            self.update_fastmap(cx, FastmapTrigger::WorkItem)?;
            self.fastmap_work = false;
            return Ok(Background::WroteFastmap);
        }
        let done = self.do_work(cx);
        match &done {
            Ok(_) => self.background_failures = 0,
            Err(UbiError::Flash(FlashError::PowerLost)) => {}
            Err(_) => {
                self.background_failures += 1;
                if self.background_failures > MAX_FAILURES {
                    self.go_read_only("the background thread failed too often");
                }
            }
        }
        done
    }

    /// Whether [`step_background`](Self::step_background) has something to do.
    #[inline]
    pub fn has_background_work(&self) -> bool {
        (self.fastmap_work || !self.wear.works().is_empty()) && self.read_only.is_none()
    }

    /// Does all background work, as `ubi_flush` and a file system's sync do. All works queued now are done, and those
    /// that follow from them. The number is limited, because levelling can feed itself: on a full device with a tiny
    /// threshold, the fastmaps that moves require wear more than the moves level.
    /// Errors: as [`step_background`](Self::step_background).
    pub fn flush(&mut self, cx: &mut Cx) -> Result<(), UbiError> {
        // A fastmap that the work before requested may come first, hence twice.
        let enough = 2 * (self.wear.works().len() + self.layout.pebs as usize);
        for _ in 0..enough {
            if !self.has_background_work() {
                break;
            }
            self.step_background(cx)?;
        }
        Ok(())
    }

    /// Does the erasure of `peb` now if it is queued; other works wait.
    /// Errors: as [`step_background`](Self::step_background).
    pub(crate) fn erase_queued(&mut self, cx: &mut Cx, peb: Peb) -> Result<(), UbiError> {
        let work = self.wear.take_erase(peb);
        self.do_this(cx, work).map(drop)
    }

    /// Does the oldest queued work.
    pub(crate) fn do_work(&mut self, cx: &mut Cx) -> Result<Background, UbiError> {
        let work = self.wear.next_work();
        self.do_this(cx, work)
    }

    fn do_this(&mut self, cx: &mut Cx, work: Option<Work>) -> Result<Background, UbiError> {
        match work {
            None => Ok(Background::Idle),
            Some(Work::Erase { peb, torture, cause }) => {
                cx.because(cause, |cx| self.erase_and_free(cx, peb, torture))?;
                Ok(Background::Erased)
            }
            Some(Work::WearLevel) => {
                self.wear_level(cx)?;
                Ok(Background::WearLevelled)
            }
        }
    }

    /// Erases a PEB and adds it to the free tree; retires it if the erasure fails.
    pub(crate) fn erase_and_free(&mut self, cx: &mut Cx, peb: Peb, torture: bool) -> Result<(), UbiError> {
        match self.sync_erase(cx, peb, torture) {
            Ok(()) => {}
            Err(FlashError::PowerLost) => {
                self.wear.requeue(Work::Erase { peb, torture, cause: cx.cause() });
                return Err(FlashError::PowerLost.into());
            }
            Err(_) => return self.retire(cx, peb),
        }
        if self.known_bad.forget_erased {
            return Ok(());
        }
        if self.fastmap_blocks > 0 && peb.0 < FM_MAX_START && self.wear.spare_anchor().is_none() {
            self.wear.keep_erased_as_anchor(peb);
            self.produce_anchor = false;
        } else {
            self.wear.add_free(peb);
        }
        self.wear.release_oldest();
        self.ensure_wear_levelling();
        Ok(())
    }

    /// Marks a PEB bad and takes a replacement from the bad-block reserve.
    fn retire(&mut self, cx: &mut Cx, peb: Peb) -> Result<(), UbiError> {
        if self.beb_reserved == 0 && self.available_pebs == 0 {
            self.wear.requeue(Work::Erase { peb, torture: false, cause: cx.cause() });
            self.go_read_only("a block went bad and no PEB is reserved for it");
            return Err(UbiError::ReadOnly { why: "a block went bad and no PEB is reserved for it" });
        }
        if let Err(error) = self.flash.mark_bad(cx, peb) {
            self.wear.requeue(Work::Erase { peb, torture: false, cause: cx.cause() });
            return Err(error.into());
        }
        self.wear.set_state(peb, PebState::Bad);
        self.good_pebs -= 1;
        if self.beb_reserved > 0 {
            self.beb_reserved -= 1;
        } else {
            self.available_pebs -= 1;
        }
        self.stats.retired += 1;
        Ok(())
    }

    /// Tests a PEB with three patterns; returns the number of erasures.
    /// Errors: `EraseFailed` if a pattern does not read back.
    pub(crate) fn torture(&mut self, cx: &mut Cx, peb: Peb) -> Result<u32, FlashError> {
        let mut buffer = Vec::new();
        for pattern in TORTURE_PATTERNS {
            self.note_erase(cx, peb);
            self.flash.erase(cx, peb)?;
            self.expect_filled(cx, peb, 0xff, &mut buffer)?;
            let written = F::offer(&mut buffer, self.layout.peb_bytes, |block| block.fill(pattern));
            self.flash.program(cx, peb, 0, written).map_err(|error| suspect(error, peb))?;
            self.expect_filled(cx, peb, pattern, &mut buffer)?;
        }
        Ok(TORTURE_PATTERNS.len() as u32)
    }

    /// Errors: `EraseFailed` unless the block can be read and every byte of it is `byte`.
    fn expect_filled(&mut self, cx: &mut Cx, peb: Peb, byte: u8, buffer: &mut Vec<u8>) -> Result<(), FlashError> {
        let read = self.flash.read_back(cx, peb, 0, self.layout.peb_bytes, buffer);
        let (read, _) = read.map_err(|error| suspect(error, peb))?;
        match read.bytes() {
            Some(bytes) if bytes.iter().any(|&found| found != byte) => Err(FlashError::EraseFailed { peb }),
            _ => Ok(()),
        }
    }

    /// Queues a look for a LEB to move, if one is needed and none is queued.
    #[inline]
    pub(crate) fn ensure_wear_levelling(&mut self) {
        if !self.wl_scheduled && (self.wear.wants_scrub() || self.needs_wear_levelling()) {
            self.wl_scheduled = true;
            self.wear.queue(Work::WearLevel);
        }
    }

    /// Whether the wear difference between the free target and the least worn used PEB reaches the threshold.
    #[inline]
    fn needs_wear_levelling(&self) -> bool {
        let Some((_, lowest)) = self.wear.least_worn_used() else { return false };
        let in_tree = self.wl_choice().map(|(_, ec)| ec);
        let ec = match self.wear.wl_pool.peek() {
            Some(next) => in_tree.max(Some(self.wear.ec(next))),
            None => in_tree,
        };
        ec.is_some_and(|ec| ec.0 >= lowest.0.saturating_add(self.config.wl_threshold))
    }

    /// The free PEB that wear levelling would take, and its erase count: the most worn below lowest + 2 × threshold.
    #[inline]
    pub(crate) fn wl_choice(&self) -> Option<(Peb, EraseCount)> {
        let free = self.wear.free();
        let (_, lowest) = free.first()?;
        free.last_below(u64::from(lowest.0) + 2 * u64::from(self.config.wl_threshold))
    }

    /// Takes the target PEB for a move.
    fn move_target(&mut self) -> Option<Peb> {
        if self.fastmap_blocks > 0 {
            let next = self.wear.wl_pool.take();
            if let Some(peb) = next {
                self.wear.set_state(peb, PebState::Moving);
            }
            return next;
        }
        let (peb, _) = self.wl_choice()?;
        self.wear.take_free(peb, PebState::Moving);
        Some(peb)
    }

    /// Moves one LEB, if wear levelling or scrubbing needs it.
    fn wear_level(&mut self, cx: &mut Cx) -> Result<(), UbiError> {
        self.wl_scheduled = false;
        if self.fastmap_blocks > 0 {
            if self.wear.wl_pool.is_used_up() {
                self.fastmap_work = true;
                return Ok(());
            }
        } else if self.wear.free().is_empty() {
            return Ok(());
        }
        let least = self.wear.least_worn_used();
        if least.is_none() && !self.wear.wants_scrub() {
            return Ok(());
        }
        let head = self.wear.least_worn_used_head();
        if let (Some(anchor), Some((_, ec))) = (self.wear.spare_anchor(), head)
            && self.wear.ec(anchor).0 >= ec.0.saturating_add(self.config.wl_threshold)
        {
            // The spare anchor is worn: move a LEB out of the first 64 PEBs to make room for a better one.
            self.wear.drop_spare_anchor();
            self.produce_anchor = true;
        }
        let (source, cause) = if self.produce_anchor {
            let Some((peb, _)) = head else { return Ok(()) };
            (peb, Cause::WearLevel)
        } else if let Some(peb) = self.wear.next_scrub() {
            (peb, Cause::Scrub)
        } else {
            let Some((peb, _)) = least else { return Ok(()) };
            (peb, Cause::WearLevel)
        };
        let Some(target) = self.move_target() else { return Ok(()) };
        if !self.produce_anchor
            && cause == Cause::WearLevel
            && self.wear.ec(target).0 < self.wear.ec(source).0.saturating_add(self.config.wl_threshold)
        {
            self.wear.add_free(target);
            self.stats.give_backs += 1;
            return Ok(());
        }
        if std::mem::take(&mut self.produce_anchor) {
            self.stats.anchor_moves += 1;
        } else if cause == Cause::Scrub {
            self.stats.scrubs += 1;
        } else {
            self.stats.moves += 1;
        }
        cx.because(cause, |cx| self.move_leb(cx, source, target))
    }

    /// Moves the LEB in `source` to `target` and erases `source`.
    fn move_leb(&mut self, cx: &mut Cx, source: Peb, target: Peb) -> Result<(), UbiError> {
        let scrubbing = self.wear.state(source) == PebState::Scrub;
        let owner = self.wear.owner(source);
        match self.checked_mapping(cx, owner) {
            Ok(Some(_)) | Err(LebError::ReadOnly { .. }) => {}
            Ok(None) if self.wear.state(source) == PebState::Erasing => {
                // The mapping from the fastmap was stale: there is nothing to move.
                self.wear.add_free(target);
                return Ok(());
            }
            Ok(None) => {}
            Err(error) => return Err(error.into()),
        }
        self.wear.take_holding(source, PebState::Moving);
        self.note(cx, Op::Move, owner, (0, 0));
        if self.mapping(owner) != Some(source) || self.pinned == Some(owner) {
            // The volume is being removed, or a write is moving the LEB.
            self.wear.protect(source);
            self.wear.add_free(target);
            return Ok(());
        }
        match self.copy_leb(cx, source, target, owner) {
            Ok(()) => {
                self.set_mapping(owner, target);
                self.wear.set_owner(target, owner);
                self.wear.add_used(target);
                self.wear.set_state(source, PebState::Erasing);
                self.erase_and_free(cx, source, false)
            }
            Err(Halt::Fault(FlashError::PowerLost)) => Err(FlashError::PowerLost.into()),
            Err(Halt::SourceUnreadable) => {
                if self.wear.erroneous() > self.max_erroneous {
                    self.go_read_only("too many blocks cannot be read");
                }
                self.wear.add_erroneous(source);
                self.wear.add_free(target);
                self.ensure_wear_levelling();
                Ok(())
            }
            Err(Halt::TargetSuspect | Halt::Fault(_)) => {
                if scrubbing {
                    self.wear.add_scrub(source)
                } else {
                    self.wear.add_used(source)
                }
                self.wear.set_state(target, PebState::Erasing);
                self.erase_and_free(cx, target, true)
            }
        }
    }

    /// Copies a LEB, with the copy flag and a checksum, so that attach prefers the original to a torn copy.
    fn copy_leb(&mut self, cx: &mut Cx, source: Peb, target: Peb, owner: Owner) -> Result<(), Halt> {
        let (vol_type, leb_bytes, static_bytes) = self.describe(owner);
        let (at, unit) = (self.layout.data_offset, self.layout.min_io_bytes);
        let mut buffer = Vec::new();
        let length = static_bytes.unwrap_or(leb_bytes).next_multiple_of(unit);
        let data = match self.flash.read_back(cx, source, at, length, &mut buffer) {
            Ok((data, _)) if vol_type == VolType::Dynamic => {
                used_part(data, unit, self.flash.programmed_end(source).map(|end| end.saturating_sub(at)))
            }
            Ok((data, _)) => data,
            Err(FlashError::PowerLost) => return Err(Halt::Fault(FlashError::PowerLost)),
            Err(_) => return Err(Halt::SourceUnreadable),
        };
        let size = static_bytes.unwrap_or(data.len());
        let program = |error| if error == FlashError::PowerLost { Halt::Fault(error) } else { Halt::TargetSuspect };
        let copy = (size > 0).then(|| (size, crc_of(data.part(0, size))));
        self.write_vid(cx, target, owner, copy).map_err(program)?;
        if size == 0 {
            return Ok(());
        }
        self.flash.program(cx, target, at, data).map_err(program)?;
        let mut buffer = Vec::new();
        let (back, status) = self.flash.read_back(cx, target, at, data.len(), &mut buffer).map_err(program)?;
        if status.scrub || back != data { Err(Halt::TargetSuspect) } else { Ok(()) }
    }

    /// Type and usable bytes of an owner's LEBs; for static volumes also the data bytes of this LEB.
    pub(crate) fn describe(&self, owner: Owner) -> (VolType, u32, Option<u32>) {
        if owner.vol_id == VolId(LAYOUT_VOLUME_ID) {
            return (VolType::Dynamic, self.layout.leb_bytes, None);
        }
        let Some(volume) = self.volumes.get(owner.vol_id.0 as usize).and_then(Option::as_ref) else {
            return (VolType::Dynamic, self.layout.leb_bytes, None);
        };
        let bytes = match volume.record.vol_type {
            VolType::Dynamic => None,
            VolType::Static if owner.lnum.0 + 1 == volume.used_ebs => Some(volume.last_eb_bytes),
            VolType::Static => Some(volume.leb_bytes),
        };
        (volume.record.vol_type, volume.leb_bytes, bytes)
    }

    /// A PEB's erase count in memory.
    pub fn erase_count(&self, peb: Peb) -> EraseCount {
        self.wear.ec(peb)
    }
}

/// The write units of a LEB up to the last that is not erased. Without bytes these are the programmed ones, and all
/// where nobody can tell.
fn used_part(data: Payload<'_>, unit: u32, programmed: Option<u32>) -> Payload<'_> {
    let used = match data.bytes() {
        Some(bytes) => bytes.iter().rposition(|&byte| byte != 0xff).map_or(0, |last| last as u32 + 1),
        None => programmed.map_or(data.len(), |end| end.min(data.len())),
    };
    data.part(0, used.next_multiple_of(unit))
}

/// A fault during torture means that the block is bad; power loss stays what it is.
fn suspect(error: FlashError, peb: Peb) -> FlashError {
    match error {
        FlashError::PowerLost => FlashError::PowerLost,
        _ => FlashError::EraseFailed { peb },
    }
}
