//! Power returns: every unit's mapping is built anew from the tags of its pages.
//!
//! What was in the controller's memory is gone: the mapping, the write buffer, requests under way. What the cells hold
//! is complete for every write that was completed without a buffer, and for every write before a completed flush, since
//! a place is erased only when what it held stands elsewhere.
//!
//! At most one program and one erase were under way in each die. The program can have torn the last page of an
//! eraseblock; so that page's contents are held against the tag's CRC. The erase begins at the first page: an
//! eraseblock whose first page does not hold what its tag says counts as empty, for all that it held stood elsewhere
//! before the erase began. And since nobody can tell a block that looks erased from one whose erase did not quite end,
//! every such block is erased once more before it is programmed. A page-level layer programs no block further that was
//! open; a log-block layer does, if the next page looks erased, for its merges need the room.
//!
//! A program that fails and a loss of power before its contents stand elsewhere are two faults at once: then the
//! version before may be lost too.
//!
//! With checkpoints ([`CheckpointRegions`]) only blocks that were opened since the newest whole one, and pages handed
//! out since, are looked at; of every other block its first page tells that it was not erased meanwhile.
//!
//! A trim leaves no trace in the cells: a page that was trimmed and not written since may hold old contents again.
//!
//! Knows tags, images and blocks. Does not know how a layer maps: it gives what it found to the `rebuild` function of its caller.

use sim::Ns;
use sim::seam::{Flash, FlashError};
use thiserror::Error;

use crate::cells::Cells;
use crate::dispatch::{CheckpointRegions, DispatchConfig, Dispatcher, Image, LOST};
use crate::drive::{DriveConfig, Ssd};
use crate::ftl::{NONE, UnitFtl};
use crate::tag::{Found, OOB_BYTES, Tag, crc};
use crate::{KnownBad, Shape, ShapeError};

/// What the pages of a unit say of themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Erase count of each block, as its newest tag has it; the mean of the others where no tag could be read.
    pub erases: Vec<u32>,
    /// Blocks that are marked bad.
    pub bad: Vec<u32>,
    /// Every programmed page: its number, and logical page and version; `None` for padding and for what cannot be read.
    /// A block that looks erased has one such: it is to be erased before it is used.
    pub pages: Vec<(u32, Option<(u32, u64)>)>,
    /// Physical pages whose contents are lost.
    pub lost: Vec<u32>,
}

/// Reads that the recovery took, and what they found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryStats {
    /// Reads of out-of-band bytes.
    pub tags_read: u64,
    /// Reads of whole pages.
    pub pages_read: u64,
    /// Pages whose contents and tag do not belong together, or that have no tag.
    pub torn: u64,
    /// The region of each unit in which its newest checkpoint was found whole.
    pub checkpoints: Vec<Option<usize>>,
    /// How long the dies take for these reads, all at once.
    pub took: Ns,
}

/// Why a drive does not come up.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PowerOnError<E> {
    /// The flash keeps no tags, so that no mapping can be rebuilt.
    #[error(
        "{oob_bytes} out-of-band bytes a page, expected {OOB_BYTES} or more in a flash that keeps bytes: nothing says what a page holds"
    )]
    NoTags {
        /// Out-of-band bytes of a page.
        oob_bytes: u32,
    },
    /// Power was lost again during the recovery.
    #[error(transparent)]
    Flash(#[from] FlashError),
    /// A translation layer cannot be rebuilt from what was found.
    #[error("unit {unit}: {error}")]
    Layer {
        /// The unit whose layer refuses.
        unit: u32,
        /// The layer's reason.
        error: E,
    },
    /// The configuration makes no drive.
    #[error(transparent)]
    Shape(#[from] ShapeError),
}

/// The newest checkpoint of a unit.
struct Checkpoint {
    image: Image,
    /// Its number: what was programmed before has a lower stamp.
    number: u64,
    region: usize,
}

impl<F: Flash> Cells<F> {
    /// Reads the tags of a unit. The blocks of `regions` are left out, and the number of the one with the newest
    /// checkpoint is told.
    /// Errors: power is lost; all else is part of what was found.
    pub fn scan(
        &mut self,
        unit: u32,
        regions: Option<&CheckpointRegions>,
        recovered: &mut RecoveryStats,
    ) -> Result<(Scan, Option<usize>), FlashError> {
        let shape = *self.shape();
        let checkpoint = match regions {
            Some(regions) => self.newest_checkpoint(unit, regions, recovered)?,
            None => None,
        };
        let kept: Vec<u32> = regions.into_iter().flat_map(CheckpointRegions::blocks).collect();
        let mut scan = Scan { erases: Vec::new(), bad: self.bad_blocks(unit), pages: Vec::new(), lost: Vec::new() };
        let mut known = vec![None; shape.blocks as usize];
        // Logical pages by physical one, of the checkpoint; and which of the pages found are its word.
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
            let erases = self.scan_block(unit, block, from, &mut scan, recovered)?;
            known[block as usize] = known[block as usize].max(erases);
            if scan.pages.len() == before && !self.known_bad.trust_blank_blocks {
                scan.pages.push((first, None));
            }
        }
        self.add_versions(unit, &mut scan.pages, &from_image, recovered)?;
        let sum: u64 = known.iter().flatten().map(|&erases| u64::from(erases)).sum();
        let mean = (sum / (known.iter().flatten().count() as u64).max(1)) as u32;
        scan.erases = known.into_iter().map(|known| known.unwrap_or(mean)).collect();
        Ok((scan, checkpoint.map(|checkpoint| checkpoint.region)))
    }

    /// Pages of a block from `from` on, with what they hold. Returns the block's erase count, if a tag has it.
    fn scan_block(
        &mut self,
        unit: u32,
        block: u32,
        from: u32,
        scan: &mut Scan,
        recovered: &mut RecoveryStats,
    ) -> Result<Option<u32>, FlashError> {
        let Shape { pages: rows, .. } = *self.shape();
        let (unit_pages, planes) = (self.shape().unit_pages(), self.shape().unit_planes());
        let mut tags: Vec<(u32, Option<Tag>)> = Vec::new();
        let mut erases = None;
        for plane in 0..planes {
            tags.clear();
            // The first row whose page on this plane is not before `from`.
            for row in from.saturating_sub(plane).div_ceil(planes)..rows {
                let ppn = block * unit_pages + row * planes + plane;
                match self.read_tag(unit, ppn, recovered)? {
                    Found::Blank if self.looks_erased(unit, ppn, recovered)? => break,
                    Found::Blank => {
                        // Contents without a tag: a program that did not come to its end.
                        recovered.torn += 1;
                        tags.push((ppn, None));
                    }
                    Found::Torn => tags.push((ppn, None)),
                    Found::Tag(tag) => tags.push((ppn, Some(tag))),
                }
            }
            self.drop_torn(unit, from > plane, &mut tags, recovered)?;
            for &(ppn, tag) in &tags {
                let version = |tag: &Tag| if self.known_bad.ignore_versions { 0 } else { tag.version };
                let held = tag.as_ref().filter(|tag| !tag.is_padding()).map(|tag| (tag.lpn, version(tag)));
                scan.pages.push((ppn, held));
                if let Some(tag) = tag {
                    self.stamped(tag.stamp);
                    scan.lost.extend(tag.lost.then_some(ppn));
                    let count = if self.known_bad.forget_erase_counts { 0 } else { tag.erases };
                    erases = erases.max(Some(count));
                }
            }
        }
        Ok(erases)
    }

    /// Strikes out what an interrupted program or erase has left in an eraseblock: of its pages, or of those behind
    /// others that stand.
    fn drop_torn(
        &mut self,
        unit: u32,
        behind_others: bool,
        tags: &mut [(u32, Option<Tag>)],
        recovered: &mut RecoveryStats,
    ) -> Result<(), FlashError> {
        if self.known_bad.trust_torn_pages {
            return Ok(());
        }
        let Some(last) = tags.len().checked_sub(1) else { return Ok(()) };
        for at in if last == 0 { vec![0] } else { vec![0, last] } {
            let (ppn, Some(tag)) = tags[at] else { continue };
            if behind_others && at != last {
                continue;
            }
            match self.holds(unit, ppn, &tag, recovered)? {
                Contents::AsTagged => {}
                Contents::Other if at == 0 && !behind_others => {
                    recovered.torn += tags.len() as u64;
                    tags.iter_mut().for_each(|(_, tag)| *tag = None);
                }
                Contents::Other | Contents::Unreadable => {
                    recovered.torn += 1;
                    tags[at].1 = None;
                }
            }
        }
        Ok(())
    }

    /// Whether a block of which `handed_out` pages were handed out at a checkpoint has not been erased since.
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

    /// Gives pages that are known from a checkpoint (`from_image`, by their place in `pages`) their versions, where others
    /// of the same logical page were found: a copy is to be known for one.
    fn add_versions(
        &mut self,
        unit: u32,
        pages: &mut [(u32, Option<(u32, u64)>)],
        from_image: &[usize],
        recovered: &mut RecoveryStats,
    ) -> Result<(), FlashError> {
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

    /// The newest checkpoint that is whole.
    fn newest_checkpoint(
        &mut self,
        unit: u32,
        regions: &CheckpointRegions,
        recovered: &mut RecoveryStats,
    ) -> Result<Option<Checkpoint>, FlashError> {
        let mut newest: Option<Checkpoint> = None;
        for (region, blocks) in regions.each().iter().enumerate() {
            let found = self.read_checkpoint(unit, blocks, recovered)?;
            if let Some((image, number)) = found
                && newest.as_ref().is_none_or(|other| other.number < number)
            {
                newest = Some(Checkpoint { image, number, region });
            }
        }
        Ok(newest)
    }

    /// The image in a region, with its number, if it is whole.
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

    /// Reads a page into [`contents`](Self::contents). Whether it could be read.
    fn read_page(&mut self, unit: u32, ppn: u32, recovered: &mut RecoveryStats) -> Result<bool, FlashError> {
        recovered.pages_read += 1;
        match self.read_contents(unit, ppn) {
            Ok(_) => Ok(true),
            Err(FlashError::PowerLost) => Err(FlashError::PowerLost),
            Err(_) => Ok(false),
        }
    }

    fn looks_erased(&mut self, unit: u32, ppn: u32, recovered: &mut RecoveryStats) -> Result<bool, FlashError> {
        Ok(self.read_page(unit, ppn, recovered)? && self.contents().iter().all(|&byte| byte == 0xff))
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

/// What a page holds, held against its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contents {
    AsTagged,
    Other,
    Unreadable,
}

impl<F: Flash, M: UnitFtl> Ssd<F, M> {
    /// The drive as it comes up after a loss of power. `rebuild` makes the layer of a unit from what was found in it;
    /// `regions` are the blocks of each unit in which checkpoints were written, none without. Further checkpoints are
    /// asked for by [`resume_checkpoints`](Self::resume_checkpoints).
    /// Errors: see [`PowerOnError`]; the flash is lost with them, so keep a clone where it is needed.
    pub fn power_on<E>(
        config: DriveConfig,
        shape: &Shape,
        dispatch: DispatchConfig,
        flash: F,
        regions: &[CheckpointRegions],
        rebuild: impl FnMut(u32, Scan) -> Result<M, E>,
    ) -> Result<(Ssd<F, M>, RecoveryStats), PowerOnError<E>> {
        Ssd::power_on_with(KnownBad::default(), config, shape, dispatch, flash, regions, rebuild)
    }

    /// As [`power_on`](Self::power_on), with deliberate mistakes: for tests of tests.
    pub fn power_on_with<E>(
        known_bad: KnownBad,
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
        // Dies work side by side; those of a channel share its bus.
        let mut dies = vec![0; shape.all_dies() as usize];
        let mut buses = vec![0; shape.channels as usize];
        for unit in 0..shape.units() {
            let before = (recovered.tags_read, recovered.pages_read);
            let (mut scan, checkpoint) = cells.scan(unit, regions.get(unit as usize), &mut recovered)?;
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
        recovered.took = Ns(dies.into_iter().chain(buses).max().unwrap_or(0));
        let mut dispatcher = Dispatcher::new(shape, dispatch, cells, layers);
        (0..).zip(lost).for_each(|(unit, pages)| dispatcher.set_lost(unit, pages));
        let mut drive = Ssd::new(config, shape, dispatcher)?;
        drive.set_known_bad(known_bad);
        Ok((drive, recovered))
    }

    /// Writes checkpoints again, as before: `recovered` says where the newest lie, and those are overwritten last.
    pub fn resume_checkpoints(&mut self, every: u32, regions: Vec<CheckpointRegions>, recovered: &RecoveryStats) {
        self.write_checkpoints(every, regions);
        for (unit, region) in (0..).zip(&recovered.checkpoints) {
            if let &Some(region) = region {
                self.dispatcher_mut().checkpoint_lies_in(unit, region);
            }
        }
    }
}
