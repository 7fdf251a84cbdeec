//! Power-on recovery: rebuilds the mapping of every unit from the tags of its pages.
//!
//! A power loss destroys the contents of the controller's memory: the mapping, the write buffer and the requests in
//! progress. The cells hold the data of every write that completed without a buffer, and of every write before a
//! completed flush, because a block is erased only when its valid data are programmed elsewhere.
//!
//! In each die at most one program and one erase were in progress. The program may have torn the last page of an
//! eraseblock, so the contents of that page are compared with the CRC in its tag. Pages may have been programmed behind
//! a torn one since: their stamps are of a later life of the drive, and so the contents of every page that was the last
//! one at an earlier power-on are compared as well. Such a page that cannot be read counts as torn.
//!
//! An erase begins at the first page: an eraseblock whose first page does not match its tag counts as empty, because all
//! its valid data were elsewhere before the erase began. A block that looks erased cannot be distinguished from one whose
//! erase was interrupted late, so every such block is erased again before it is programmed. Where a block looks erased or
//! counts as empty on one plane, and has pages of later rows, it counts as empty on all.
//!
//! A page-level layer programs no further pages of a block that was open. A log-block layer does, because its merges need
//! the space, if the next page looks erased and no eraseblock of the block begins with a page that is torn or looks erased:
//! at the next power-on pages behind that would count as erased with it.
//!
//! A program failure followed by a power loss before the data are programmed elsewhere is a double fault: the previous
//! version may then be lost as well.
//!
//! With checkpoints ([`CheckpointRegions`]), only the blocks opened and the pages handed out since the newest complete
//! checkpoint are scanned. Of every other block the first page shows that it has not been erased since.
//!
//! A trim is not recorded in the cells: a page that was trimmed and not written since may have its old contents again. Where
//! a log-block layer has programmed padding for want of the page, the tag of the padding says so, and older contents are not
//! mapped: otherwise a block that was merged before the loss of power would not be complete, and could not be completed where
//! no block is free.
//!
//! Knows tags, checkpoint images and blocks. Does not know how a layer maps: the caller's `rebuild` function does.

use sim::Ns;
use sim::seam::{Flash, FlashError};
use thiserror::Error;

use crate::cells::{Cells, life};
use crate::dispatch::{CheckpointRegions, DispatchConfig, Dispatcher, Image, LOST};
use crate::drive::{DriveConfig, Ssd};
use crate::ftl::{NONE, UnitFtl};
use crate::tag::{Found, OOB_BYTES, Tag, crc};
use crate::{KnownBad, Shape, ShapeError};

/// Result of scanning the tags of a unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Erase count of each block, from its tags or the checkpoint; the mean of the others if neither has it.
    pub erases: Vec<u32>,
    /// Blocks that are marked bad.
    pub bad: Vec<u32>,
    /// Every programmed page: physical page, logical page and version; `None` for padding and for pages that cannot be
    /// read. A block that looks erased has one such page: it must be erased before it is used.
    pub pages: Vec<(u32, Option<(u32, u64)>)>,
    /// Physical pages whose contents are lost.
    pub lost: Vec<u32>,
    /// Blocks that may take no more pages before they are erased: the first page of one of their eraseblocks is torn, or looks erased
    /// though a page behind it was programmed. What is written behind it the next power-on could not tell from what an interrupted
    /// erase leaves.
    pub closed: Vec<u32>,
}

/// Reads done by the recovery, and their results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryStats {
    /// Number of OOB reads.
    pub tags_read: u64,
    /// Number of page reads.
    pub pages_read: u64,
    /// Torn pages: their contents do not match their tag, or they have no tag.
    pub torn: u64,
    /// For each unit, the region with its newest complete checkpoint.
    pub checkpoints: Vec<Option<usize>>,
    /// Duration of these reads, with all dies working in parallel.
    pub took: Ns,
}

/// What a scan finds in an eraseblock of which no checkpoint knows a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScannedBlock {
    /// Its programmed pages: physical page, and the tag that its contents are known by.
    tags: Vec<(u32, Option<Tag>)>,
    /// Whether it counts as empty, because it looks erased or its first page is not what its tag says.
    is_empty: bool,
    reads: RecoveryStats,
}

/// What a test may do to a power-on.
#[derive(Clone, Copy, Debug, Default)]
pub struct TestAids<'a> {
    /// Deliberate defects of the firmware.
    pub known_bad: KnownBad,
    /// By PEB: what [`Cells::scan_eraseblock`] found in an eraseblock that has not changed since. It is not read again,
    /// but counted as if it were. PEBs past the end are read.
    pub earlier: &'a [Option<&'a ScannedBlock>],
}

/// Why a drive does not power on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PowerOnError<E> {
    /// The flash keeps no tags, so no mapping can be rebuilt.
    #[error(
        "{oob_bytes} out-of-band bytes a page, expected {OOB_BYTES} or more in a flash that keeps bytes: nothing says what a page holds"
    )]
    NoTags {
        /// OOB bytes per page.
        oob_bytes: u32,
    },
    /// Power was lost again during the recovery.
    #[error(transparent)]
    Flash(#[from] FlashError),
    /// A translation layer cannot be rebuilt from the scan.
    #[error("unit {unit}: {error}")]
    Layer {
        /// Unit of the translation layer.
        unit: u32,
        /// Error of the `rebuild` function.
        error: E,
    },
    /// The configuration is invalid.
    #[error(transparent)]
    Shape(#[from] ShapeError),
}

/// A program that a tag records.
struct Program {
    lpn: u32,
    stamp: u64,
    padding: bool,
}

/// Removes the logical pages whose last program was padding: they had been trimmed.
fn drop_trimmed(pages: &mut [(u32, Option<(u32, u64)>)], mut programs: Vec<Program>) {
    if programs.iter().all(|program| !program.padding || program.lpn == NONE) {
        return;
    }
    programs.sort_unstable_by_key(|program| (program.lpn, program.stamp));
    let last = programs.chunk_by(|program, next| program.lpn == next.lpn).filter_map(<[Program]>::last);
    let trimmed: Vec<u32> = last.filter(|program| program.padding).map(|program| program.lpn).collect();
    for (_, page) in pages {
        *page = page.filter(|(lpn, _)| trimmed.binary_search(lpn).is_err());
    }
}

/// Newest checkpoint of a unit.
struct Checkpoint {
    image: Image,
    /// Number of the checkpoint: pages programmed before it have a lower stamp.
    number: u64,
    region: usize,
}

impl<F: Flash> Cells<F> {
    /// Scans the tags of a unit, except in the blocks of `regions`. `earlier`: see [`TestAids`]. Also returns the region of
    /// the newest checkpoint.
    /// Errors: power is lost; all other errors are part of the result.
    fn scan(
        &mut self,
        unit: u32,
        regions: Option<&CheckpointRegions>,
        earlier: &[Option<&ScannedBlock>],
        recovered: &mut RecoveryStats,
    ) -> Result<(Scan, Option<usize>), FlashError> {
        let shape = *self.shape();
        let checkpoint = match regions {
            Some(regions) => self.newest_checkpoint(unit, regions, recovered)?,
            None => None,
        };
        let kept: Vec<u32> = regions.into_iter().flat_map(CheckpointRegions::blocks).collect();
        let pages = Vec::with_capacity((shape.blocks * shape.unit_pages()) as usize);
        let mut programs = Vec::new();
        let mut scan = Scan { erases: Vec::new(), bad: self.bad_blocks(unit), pages, ..Scan::default() };
        let mut known = vec![None; shape.blocks as usize];
        // From the checkpoint: the logical page of each physical page, and the physical pages whose contents were lost.
        let mut mapped: Vec<u32> = Vec::new();
        let mut lost_then: Vec<u32> = Vec::new();
        if let Some(Checkpoint { image, .. }) = &checkpoint {
            mapped = vec![NONE; (shape.blocks * shape.unit_pages()) as usize];
            for (lpn, &place) in (0..).zip(&image.map) {
                if let Some(held) = mapped.get_mut((place & !LOST) as usize).filter(|_| place != NONE) {
                    *held = lpn;
                }
            }
            let lost = image.map.iter().filter(|&&place| place != NONE && place & LOST != 0);
            lost_then = lost.map(|place| place & !LOST).collect();
            known = image.erases.iter().map(|&erases| Some(erases)).collect();
        }
        let mut from_image = Vec::new();
        for block in
            (0..shape.blocks).filter(|block| !scan.bad.contains(block) && !kept.contains(block)).collect::<Vec<_>>()
        {
            let before = scan.pages.len();
            let first = block * shape.unit_pages();
            let mut from = 0;
            if let Some(Checkpoint { image, number, .. }) = &checkpoint {
                let handed_out = image.handed_out[block as usize].min(shape.unit_pages());
                if handed_out > 0 && self.unchanged_since(unit, first, handed_out, *number, recovered)? {
                    from = handed_out;
                    from_image.extend(scan.pages.len()..scan.pages.len() + from as usize);
                    let page = |ppn: u32| Some(mapped[ppn as usize]).filter(|&lpn| lpn != NONE).map(|lpn| (lpn, 0));
                    scan.pages.extend((first..first + from).map(|ppn| (ppn, page(ppn))));
                    scan.lost.extend(lost_then.iter().filter(|&&ppn| (first..first + from).contains(&ppn)));
                }
            }
            let erases = self.scan_block(unit, block, (from, earlier), &mut scan, &mut programs, recovered)?;
            known[block as usize] = known[block as usize].max(erases);
            if scan.pages.len() == before && !self.known_bad.trust_blank_blocks {
                scan.pages.push((first, None));
            }
        }
        drop_trimmed(&mut scan.pages, programs);
        self.add_versions(unit, &mut scan.pages, &from_image, recovered)?;
        let sum: u64 = known.iter().flatten().map(|&erases| u64::from(erases)).sum();
        let mean = (sum / (known.iter().flatten().count() as u64).max(1)) as u32;
        scan.erases = known.into_iter().map(|known| known.unwrap_or(mean)).collect();
        Ok((scan, checkpoint.map(|checkpoint| checkpoint.region)))
    }

    /// Scans an eraseblock as a power-on does that has no checkpoint: the one with a unit's block on a plane.
    /// Errors: power is lost.
    pub fn scan_eraseblock(&mut self, unit: u32, block: u32, plane: u32) -> Result<ScannedBlock, FlashError> {
        let mut scanned = ScannedBlock::default();
        scanned.is_empty = self.scan_plane(unit, (block, plane), 0, &mut scanned.tags, &mut scanned.reads)?;
        Ok(scanned)
    }

    /// Scans the pages of a block on a plane, from page `from` of the block on, into `tags`. Returns whether the eraseblock counts as
    /// empty.
    fn scan_plane(
        &mut self,
        unit: u32,
        (block, plane): (u32, u32),
        from: u32,
        tags: &mut Vec<(u32, Option<Tag>)>,
        recovered: &mut RecoveryStats,
    ) -> Result<bool, FlashError> {
        let Shape { pages: rows, .. } = *self.shape();
        let (unit_pages, planes) = (self.shape().unit_pages(), self.shape().unit_planes());
        tags.clear();
        // The first row whose page on this plane is not before `from`.
        for row in from.saturating_sub(plane).div_ceil(planes)..rows {
            let ppn = block * unit_pages + row * planes + plane;
            match self.read_tag(unit, ppn, recovered)? {
                Found::Blank if self.looks_erased(unit, ppn, recovered)? => break,
                Found::Blank => {
                    // Contents without a tag: an interrupted program.
                    recovered.torn += 1;
                    tags.push((ppn, None));
                }
                Found::Torn => tags.push((ppn, None)),
                Found::Tag(tag) => tags.push((ppn, Some(tag))),
            }
        }
        self.drop_torn(unit, from > plane, tags, recovered)
    }

    /// Scans the pages of a block from page `from` on. Returns the block's erase count, if a tag has it.
    fn scan_block(
        &mut self,
        unit: u32,
        block: u32,
        (from, earlier): (u32, &[Option<&ScannedBlock>]),
        scan: &mut Scan,
        programs: &mut Vec<Program>,
        recovered: &mut RecoveryStats,
    ) -> Result<Option<u32>, FlashError> {
        let mut read: Vec<(u32, Option<Tag>)> = Vec::new();
        let mut erases = None;
        let first = block * self.shape().unit_pages();
        let (pages_before, programs_before) = (scan.pages.len(), programs.len());
        // Whether the block counts as empty on a plane, and the lowest first page of a plane that is torn or looks erased.
        let (mut has_empty, mut damaged) = (false, None);
        for plane in 0..self.shape().unit_planes() {
            let (tags, is_empty) = match earlier.get(self.peb(unit, block, plane).at()) {
                Some(Some(known)) if from == 0 => {
                    recovered.tags_read += known.reads.tags_read;
                    recovered.pages_read += known.reads.pages_read;
                    recovered.torn += known.reads.torn;
                    (&known.tags, known.is_empty)
                }
                _ => {
                    let is_empty = self.scan_plane(unit, (block, plane), from, &mut read, recovered)?;
                    (&read, is_empty)
                }
            };
            has_empty |= is_empty;
            if from <= plane && !matches!(tags.first(), Some((_, Some(_)))) {
                damaged = damaged.or(Some(first + plane));
            }
            for &(ppn, tag) in tags {
                let version = |tag: &Tag| if self.known_bad.ignore_versions { 0 } else { tag.version };
                let held = tag.as_ref().filter(|tag| !tag.padding).map(|tag| (tag.lpn, version(tag)));
                scan.pages.push((ppn, held));
                if let Some(tag) = tag {
                    programs.push(Program { lpn: tag.lpn, stamp: tag.stamp, padding: tag.padding });
                    self.stamped(tag.stamp);
                    scan.lost.extend(tag.lost.then_some(ppn));
                    let count = if self.known_bad.forget_erase_counts { 0 } else { tag.erases };
                    erases = erases.max(Some(count));
                }
            }
        }
        // Rows are programmed in order: one behind such a first page shows that an erase has begun. Within the first row the program of
        // that page was interrupted.
        let last = scan.pages[pages_before..].iter().map(|&(ppn, _)| ppn).max();
        if has_empty && last >= Some(first + self.shape().unit_planes()) {
            scan.pages[pages_before..].iter_mut().for_each(|page| page.1 = None);
            programs.truncate(programs_before);
        }
        scan.closed.extend((damaged.is_some() && damaged <= last).then_some(block));
        Ok(erases)
    }

    /// Removes the tags of pages that an interrupted program or erase has torn, in one eraseblock. `behind_others`: the
    /// pages before them are known from a checkpoint. Returns whether the eraseblock counts as empty.
    fn drop_torn(
        &mut self,
        unit: u32,
        behind_others: bool,
        tags: &mut [(u32, Option<Tag>)],
        recovered: &mut RecoveryStats,
    ) -> Result<bool, FlashError> {
        let mut is_empty = tags.is_empty() && !behind_others;
        if self.known_bad.trust_torn_pages {
            return Ok(is_empty);
        }
        let Some(last) = tags.len().checked_sub(1) else { return Ok(is_empty) };
        for at in 0..=last {
            let (ppn, Some(tag)) = tags[at] else { continue };
            // Whether power was lost after this page and before the next one.
            let was_last = match tags.get(at + 1) {
                Some((_, Some(next))) => life(next.stamp) > life(tag.stamp),
                Some((_, None)) | None => true,
            };
            if !was_last && (at > 0 || behind_others) {
                continue;
            }
            match self.holds(unit, ppn, &tag, recovered)? {
                Contents::AsTagged => {}
                Contents::Other if at == 0 && !behind_others => {
                    recovered.torn += tags.len() as u64;
                    tags.iter_mut().for_each(|(_, tag)| *tag = None);
                    is_empty = true;
                }
                Contents::Other | Contents::Unreadable => {
                    recovered.torn += 1;
                    tags[at].1 = None;
                }
            }
        }
        Ok(is_empty)
    }

    /// Whether a block has not been erased since a checkpoint, at which `handed_out` of its pages were handed out.
    fn unchanged_since(
        &mut self,
        unit: u32,
        first: u32,
        handed_out: u32,
        number: u64,
        recovered: &mut RecoveryStats,
    ) -> Result<bool, FlashError> {
        for ppn in first..first + handed_out.min(self.shape().unit_planes()) {
            let stands = match self.read_tag(unit, ppn, recovered)? {
                Found::Tag(tag) => {
                    tag.stamp < number && matches!(self.holds(unit, ppn, &tag, recovered)?, Contents::AsTagged)
                }
                Found::Blank | Found::Torn => false,
            };
            if !stands {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads the versions of pages known from a checkpoint (`from_image`, indices into `pages`) if other pages with the
    /// same logical page were found: a copy has the same version as its source.
    fn add_versions(
        &mut self,
        unit: u32,
        pages: &mut [(u32, Option<(u32, u64)>)],
        from_image: &[usize],
        recovered: &mut RecoveryStats,
    ) -> Result<(), FlashError> {
        if from_image.is_empty() {
            return Ok(());
        }
        let lpns = pages.iter().filter_map(|page| page.1).map(|(lpn, _)| lpn as usize + 1).max().unwrap_or(0);
        let mut found = vec![false; lpns];
        pages
            .iter()
            .filter_map(|page| page.1)
            .filter(|&(_, version)| version > 0)
            .for_each(|(lpn, _)| found[lpn as usize] = true);
        for &at in from_image {
            if let (ppn, Some((lpn, version))) = &mut pages[at]
                && found[*lpn as usize]
                && let Found::Tag(tag) = self.read_tag(unit, *ppn, recovered)?
                && tag.lpn == *lpn
            {
                *version = tag.version;
            }
        }
        Ok(())
    }

    /// The newest complete checkpoint.
    fn newest_checkpoint(
        &mut self,
        unit: u32,
        regions: &CheckpointRegions,
        recovered: &mut RecoveryStats,
    ) -> Result<Option<Checkpoint>, FlashError> {
        let mut newest: Option<Checkpoint> = None;
        let bad = self.bad_blocks(unit);
        for (region, blocks) in regions.each().iter().enumerate() {
            if blocks.iter().any(|block| bad.contains(block)) {
                continue;
            }
            let found = self.read_checkpoint(unit, blocks, recovered)?;
            if let Some((image, number)) = found
                && newest.as_ref().is_none_or(|other| other.number < number)
            {
                newest = Some(Checkpoint { image, number, region });
            }
        }
        Ok(newest)
    }

    /// The image in a region and its number, if it is complete.
    fn read_checkpoint(
        &mut self,
        unit: u32,
        blocks: &[u32],
        recovered: &mut RecoveryStats,
    ) -> Result<Option<(Image, u64)>, FlashError> {
        let shape = *self.shape();
        let mut bytes = Vec::new();
        let mut number = None;
        let pages = blocks.iter().flat_map(|block| block * shape.unit_pages()..(block + 1) * shape.unit_pages());
        for (page, ppn) in (0..).zip(pages) {
            let Found::Tag(tag) = self.read_tag(unit, ppn, recovered)? else { break };
            self.stamped(tag.stamp);
            let follows = tag.lpn == page && number.is_none_or(|number| number == tag.version);
            if !follows || !matches!(self.holds(unit, ppn, &tag, recovered)?, Contents::AsTagged) {
                break;
            }
            number = Some(tag.version);
            bytes.extend_from_slice(self.contents());
        }
        Ok(number.and_then(|number| Some((Image::decode(&bytes, shape.blocks)?, number))))
    }

    fn read_tag(&mut self, unit: u32, ppn: u32, recovered: &mut RecoveryStats) -> Result<Found, FlashError> {
        recovered.tags_read += 1;
        let mut oob = [0; OOB_BYTES];
        match self.read_oob(unit, ppn, &mut oob) {
            Ok(()) => Ok(Tag::decode(&oob)),
            Err(FlashError::PowerLost) => Err(FlashError::PowerLost),
            Err(_) => Ok(Found::Torn),
        }
    }

    /// Reads a page into [`contents`](Self::contents). Returns whether it could be read.
    fn read_page(&mut self, unit: u32, ppn: u32, recovered: &mut RecoveryStats) -> Result<bool, FlashError> {
        recovered.pages_read += 1;
        match self.read_contents(unit, ppn) {
            Ok(_) => Ok(true),
            Err(FlashError::PowerLost) => Err(FlashError::PowerLost),
            Err(_) => Ok(false),
        }
    }

    fn looks_erased(&mut self, unit: u32, ppn: u32, recovered: &mut RecoveryStats) -> Result<bool, FlashError> {
        // All bytes, without a branch between them: nearly always all are 0xFF.
        let all_ones = |bytes: &[u8]| bytes.iter().fold(0xff, |ones, byte| ones & byte) == 0xff;
        Ok(self.read_page(unit, ppn, recovered)? && all_ones(self.contents()))
    }

    fn holds(&mut self, unit: u32, ppn: u32, tag: &Tag, recovered: &mut RecoveryStats) -> Result<Contents, FlashError> {
        let readable = self.read_page(unit, ppn, recovered)?;
        Ok(match readable {
            true if crc(self.contents()) == tag.contents => Contents::AsTagged,
            true => Contents::Other,
            false => Contents::Unreadable,
        })
    }
}

/// Contents of a page, compared with its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contents {
    AsTagged,
    Other,
    Unreadable,
}

impl<F: Flash, M: UnitFtl> Ssd<F, M> {
    /// Powers a drive on after a power loss. `rebuild` makes the translation layer of a unit from its scan. `regions`
    /// are the blocks of each unit in which checkpoints were written; empty if there are none. To write further
    /// checkpoints, call [`resume_checkpoints`](Self::resume_checkpoints).
    /// Errors: see [`PowerOnError`]; the flash is lost with them, so keep a clone if it is needed.
    pub fn power_on<E>(
        config: DriveConfig,
        shape: &Shape,
        dispatch: DispatchConfig,
        flash: F,
        regions: &[CheckpointRegions],
        rebuild: impl FnMut(u32, Scan) -> Result<M, E>,
    ) -> Result<(Ssd<F, M>, RecoveryStats), PowerOnError<E>> {
        Ssd::power_on_with(TestAids::default(), config, shape, dispatch, flash, regions, rebuild)
    }

    /// Like [`power_on`](Self::power_on), with the aids of a test.
    pub fn power_on_with<E>(
        TestAids { known_bad, earlier }: TestAids<'_>,
        config: DriveConfig,
        shape: &Shape,
        dispatch: DispatchConfig,
        flash: F,
        regions: &[CheckpointRegions],
        mut rebuild: impl FnMut(u32, Scan) -> Result<M, E>,
    ) -> Result<(Ssd<F, M>, RecoveryStats), PowerOnError<E>> {
        let oob_bytes = flash.geometry().oob_bytes;
        let mut cells = Cells::new(shape, flash);
        cells.known_bad = known_bad;
        if !cells.is_tagged() {
            return Err(PowerOnError::NoTags { oob_bytes });
        }
        let mut recovered = RecoveryStats::default();
        let mut layers = Vec::with_capacity(shape.units() as usize);
        let mut lost = Vec::new();
        // Dies work in parallel; the dies of a channel share its bus.
        let mut dies = vec![0; shape.all_dies() as usize];
        let mut buses = vec![0; shape.channels as usize];
        for unit in 0..shape.units() {
            let before = (recovered.tags_read, recovered.pages_read);
            let (mut scan, checkpoint) = cells.scan(unit, regions.get(unit as usize), earlier, &mut recovered)?;
            recovered.checkpoints.push(checkpoint);
            lost.push(std::mem::take(&mut scan.lost));
            layers.push(rebuild(unit, scan).map_err(|error| PowerOnError::Layer { unit, error })?);
            let (tags, pages) = (recovered.tags_read - before.0, recovered.pages_read - before.1);
            let timing = &dispatch.timing;
            let tag_transfer = timing.transfer.0 * OOB_BYTES as u64 / u64::from(shape.page_bytes);
            let bus = tags * (timing.command.0 + tag_transfer) + pages * (timing.command.0 + timing.transfer.0);
            let die = shape.die_of_unit(unit);
            dies[die as usize] += bus + (tags + pages) * timing.read[0].0;
            buses[shape.channel_of_die(die) as usize] += bus;
        }
        cells.begin_life();
        recovered.took = Ns(dies.into_iter().chain(buses).max().unwrap_or(0));
        let mut dispatcher = Dispatcher::new(shape, dispatch, cells, layers);
        (0..).zip(lost).for_each(|(unit, pages)| dispatcher.set_lost(unit, pages));
        let mut drive = Ssd::new(config, shape, dispatcher)?;
        drive.set_known_bad(known_bad);
        Ok((drive, recovered))
    }

    /// Resumes writing checkpoints. `recovered` has the region of each newest checkpoint, which is overwritten last.
    pub fn resume_checkpoints(&mut self, every: u32, regions: Vec<CheckpointRegions>, recovered: &RecoveryStats) {
        self.write_checkpoints(every, regions);
        for (unit, region) in (0..).zip(&recovered.checkpoints) {
            if let &Some(region) = region {
                self.dispatcher_mut().checkpoint_lies_in(unit, region);
            }
        }
    }
}
