//! Power returns: every unit's mapping is built anew from the tags of its pages.
//!
//! What was in the controller's memory is gone: the mapping, the write buffer, requests under way. What the cells hold is
//! complete for every write that was completed without a buffer, and for every write before a completed flush, since a place
//! is erased only when what it held stands elsewhere.
//!
//! At most one program and one erase were under way in each die. The program can have torn the last page of an eraseblock;
//! so that page's contents are held against the tag's CRC. The erase begins at the first page: an eraseblock
//! whose first page does not hold what its tag says counts as empty, for all that it held stood elsewhere before the erase
//! began. And since nobody can tell a block that looks erased from one whose erase did not quite end, every such block is
//! erased once more before it is programmed. A page-level layer programs no block further that was open; a log-block layer
//! does, if the next page looks erased, for its merges need the room.
//!
//! A program that fails and a loss of power before its contents stand elsewhere are two faults at once: then the version before
//! may be lost too.
//!
//! A trim leaves no trace in the cells: a page that was trimmed and not written since may hold old contents again.
//!
//! Knows tags and blocks. Does not know how a layer maps: it gives what it found to whoever builds layers.

use sim::Ns;
use sim::seam::{Flash, FlashError};
use thiserror::Error;

use crate::cells::Cells;
use crate::dispatch::{DispatchConfig, Dispatcher};
use crate::drive::{DriveConfig, Ssd};
use crate::ftl::UnitFtl;
use crate::tag::{Found, OOB_BYTES, Tag, crc};
use crate::{Shape, ShapeError};

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
}

/// What it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Reads of out-of-band bytes.
    pub tags_read: u64,
    /// Reads of whole pages.
    pub pages_read: u64,
    /// Pages whose contents and tag do not belong together, or that have no tag.
    pub torn: u64,
    /// How long the dies take for these reads, all at once.
    pub took: Ns,
}

/// Why a drive does not come up.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PowerOnError<E> {
    /// The flash has no tags.
    #[error(
        "{oob_bytes} out-of-band bytes a page, expected {OOB_BYTES} or more in a flash that keeps bytes: nothing says what a page holds"
    )]
    NoTags {
        /// Out-of-band bytes of a page.
        oob_bytes: u32,
    },
    /// Power went again.
    #[error(transparent)]
    Flash(#[from] FlashError),
    /// A layer makes nothing of what was found.
    #[error("unit {unit}: {error}")]
    Layer {
        /// The unit.
        unit: u32,
        /// What it says.
        error: E,
    },
    /// The drive cannot be.
    #[error(transparent)]
    Shape(#[from] ShapeError),
}

impl<F: Flash> Cells<F> {
    /// Reads the tags of a unit.
    /// Errors: power is lost; all else is part of what was found.
    pub fn scan(&mut self, unit: u32, recovered: &mut Recovered) -> Result<Scan, FlashError> {
        let shape = *self.shape();
        let (blocks, unit_pages, planes) = (shape.blocks, shape.unit_pages(), shape.unit_planes());
        let mut scan = Scan { erases: vec![0; blocks as usize], bad: self.bad_blocks(unit), pages: Vec::new() };
        let mut known: Vec<Option<u32>> = vec![None; blocks as usize];
        for block in (0..blocks).filter(|block| !scan.bad.contains(block)).collect::<Vec<_>>() {
            let before = scan.pages.len();
            let mut tags: Vec<Option<Tag>> = Vec::new();
            for plane in 0..planes {
                tags.clear();
                for row in 0..shape.pages {
                    let ppn = block * unit_pages + row * planes + plane;
                    match self.read_tag(unit, ppn, recovered)? {
                        Found::Blank if self.looks_erased(unit, ppn, recovered)? => break,
                        Found::Blank => {
                            // Contents without a tag: a program that did not come to its end.
                            recovered.torn += 1;
                            tags.push(None);
                        }
                        Found::Torn => tags.push(None),
                        Found::Tag(tag) => tags.push(Some(tag)),
                    }
                }
                self.distrust(unit, block * unit_pages + plane, &mut tags, recovered)?;
                for (row, tag) in (0..).zip(&tags) {
                    let held = tag.filter(|tag| !tag.is_padding()).map(|tag| (tag.lpn, tag.version));
                    scan.pages.push((block * unit_pages + row * planes + plane, held));
                    let Some(tag) = tag else { continue };
                    self.stamped(tag.stamp);
                    known[block as usize] = known[block as usize].max(Some(tag.erases));
                }
            }
            if scan.pages.len() == before {
                scan.pages.push((block * unit_pages, None));
            }
        }
        let sum: u64 = known.iter().flatten().map(|&erases| u64::from(erases)).sum();
        let mean = (sum / (known.iter().flatten().count() as u64).max(1)) as u32;
        scan.erases.iter_mut().zip(known).for_each(|(erases, known)| *erases = known.unwrap_or(mean));
        Ok(scan)
    }

    fn read_tag(&mut self, unit: u32, ppn: u32, recovered: &mut Recovered) -> Result<Found, FlashError> {
        recovered.tags_read += 1;
        let mut oob = [0; OOB_BYTES];
        match self.read_oob(unit, ppn, &mut oob) {
            Ok(()) => Ok(Tag::decode(&oob)),
            Err(FlashError::PowerLost) => Err(FlashError::PowerLost),
            Err(_) => Ok(Found::Torn),
        }
    }

    fn looks_erased(&mut self, unit: u32, ppn: u32, recovered: &mut Recovered) -> Result<bool, FlashError> {
        recovered.pages_read += 1;
        let mut contents = vec![0; self.shape().page_bytes as usize];
        match self.read(unit, ppn, &mut contents) {
            Ok(_) => Ok(contents.iter().all(|&byte| byte == 0xff)),
            Err(FlashError::PowerLost) => Err(FlashError::PowerLost),
            Err(_) => Ok(false),
        }
    }

    /// Strikes out what an interrupted program or erase has left, of the pages of an eraseblock that begin at `first`.
    fn distrust(
        &mut self,
        unit: u32,
        first: u32,
        tags: &mut [Option<Tag>],
        recovered: &mut Recovered,
    ) -> Result<(), FlashError> {
        let planes = self.shape().unit_planes();
        let Some(last) = tags.len().checked_sub(1) else { return Ok(()) };
        for row in if last == 0 { vec![0] } else { vec![0, last] } {
            let Some(tag) = tags[row] else { continue };
            recovered.pages_read += 1;
            let mut contents = vec![0; self.shape().page_bytes as usize];
            match self.read(unit, first + row as u32 * planes, &mut contents) {
                Ok(_) if crc(&contents) == tag.contents => {}
                Err(FlashError::PowerLost) => return Err(FlashError::PowerLost),
                Ok(_) if row == 0 => {
                    recovered.torn += tags.len() as u64;
                    tags.fill(None);
                }
                Ok(_) | Err(_) => {
                    recovered.torn += 1;
                    tags[row] = None;
                }
            }
        }
        Ok(())
    }
}

impl<F: Flash, M: UnitFtl> Ssd<F, M> {
    /// The drive as it comes up after a loss of power. `rebuild` makes the layer of a unit from what was found in it.
    /// Errors: see [`PowerOnError`]; the flash is lost with them, so whoever wants it keeps a clone.
    pub fn power_on<E>(
        config: DriveConfig,
        shape: &Shape,
        dispatch: DispatchConfig,
        flash: F,
        mut rebuild: impl FnMut(u32, Scan) -> Result<M, E>,
    ) -> Result<(Ssd<F, M>, Recovered), PowerOnError<E>> {
        let oob_bytes = flash.geometry().oob_bytes;
        let mut cells = Cells::new(shape, flash);
        if !cells.is_tagged() {
            return Err(PowerOnError::NoTags { oob_bytes });
        }
        let mut recovered = Recovered::default();
        let mut layers = Vec::with_capacity(shape.units() as usize);
        // Dies work side by side; those of a channel share its bus.
        let mut dies = vec![0; shape.all_dies() as usize];
        let mut buses = vec![0; shape.channels as usize];
        for unit in 0..shape.units() {
            let before = recovered;
            let scan = cells.scan(unit, &mut recovered)?;
            layers.push(rebuild(unit, scan).map_err(|error| PowerOnError::Layer { unit, error })?);
            let (tags, pages) = (recovered.tags_read - before.tags_read, recovered.pages_read - before.pages_read);
            let timing = &dispatch.timing;
            let tag_transfer = timing.transfer.0 * OOB_BYTES as u64 / u64::from(shape.page_bytes);
            let bus = tags * (timing.command.0 + tag_transfer) + pages * (timing.command.0 + timing.transfer.0);
            let die = shape.die_of_unit(unit);
            dies[die as usize] += bus + (tags + pages) * timing.read[0].0;
            buses[shape.channel_of_die(die) as usize] += bus;
        }
        recovered.took = Ns(dies.into_iter().chain(buses).max().unwrap_or(0));
        let dispatcher = Dispatcher::new(shape, dispatch, cells, layers);
        Ok((Ssd::new(config, shape, dispatcher)?, recovered))
    }
}
