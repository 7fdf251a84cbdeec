//! The drive's flash: maps units, blocks and pages to eraseblocks and byte offsets of a raw flash.
//!
//! The dispatcher models time; the flash below models rules, contents, wear and faults. It is called when an operation
//! ends, so that a power cut tears the operations in progress.

use sim::seam::{Flash, FlashError, Geometry, Medium, Payload, ReadStatus};
use sim::{Cause, Cx, Ns, Peb};

use crate::divisor::Divisor;
use crate::ftl::UnitFtl;
use crate::tag::{Found, OOB_BYTES, Tag, crc};
use crate::{KnownBad, Shape};

/// A raw flash with the addresses of a drive: unit, block and page.
#[derive(Clone, Debug)]
pub struct Cells<F> {
    flash: F,
    /// Its clock is the drive's plus `shelved`: by it the flash knows how old data are.
    cx: Cx,
    /// Time that the drive lay on the shelf.
    shelved: Ns,
    shape: Shape,
    blocks: u32,
    unit_planes: u32,
    unit_pages: Divisor,
    by_unit_planes: Divisor,
    page_bytes: u32,
    /// Whether pages carry a [`Tag`] in their OOB area.
    tagged: bool,
    /// Stamp of the last program.
    stamp: u64,
    contents: Vec<u8>,
    pub(crate) known_bad: KnownBad,
}

/// Bits of a stamp that count programs between two power-ons.
const LIFE_SHIFT: u32 = 32;

/// Number of the life, from one power-on to the next, in which a page with this stamp was programmed.
pub(crate) const fn life(stamp: u64) -> u64 {
    stamp >> LIFE_SHIFT
}

/// Contents of a page, as its tag records them when it is programmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Logical page of the unit, or [`NONE`](crate::ftl::NONE).
    pub lpn: u32,
    /// Whether the page is padding, because the logical page was unmapped.
    pub padding: bool,
    /// Version of the source if the page is a copy; `None`: a new version.
    pub version: Option<u64>,
    /// Erase count of the block.
    pub erases: u32,
    /// Whether the contents could not be read when they were copied here.
    pub lost: bool,
}

impl<F: Flash> Cells<F> {
    /// Cells over a flash with the geometry that [`geometry`] returns. Panics: another geometry.
    pub fn new(shape: &Shape, flash: F) -> Cells<F> {
        let found = flash.geometry();
        let fits = found.pebs == shape.all_dies() * shape.planes * shape.blocks
            && found.peb_bytes == shape.pages * shape.page_bytes
            && found.page_bytes == shape.page_bytes;
        assert!(fits, "the flash is not of the drive's shape: {found:?}");
        Cells {
            tagged: F::KEEPS_BYTES && found.oob_bytes as usize >= OOB_BYTES,
            stamp: 0,
            contents: Vec::new(),
            known_bad: KnownBad::default(),
            flash,
            cx: Cx::new(),
            shelved: Ns::ZERO,
            shape: *shape,
            blocks: shape.blocks,
            unit_planes: shape.unit_planes(),
            unit_pages: Divisor::new(shape.unit_pages()),
            by_unit_planes: Divisor::new(shape.unit_planes()),
            page_bytes: shape.page_bytes,
        }
    }

    /// Channels, dies, planes and blocks of the drive.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Whether pages are tagged ([`Tag`]): the flash keeps bytes and has enough OOB bytes per page.
    #[inline]
    pub fn is_tagged(&self) -> bool {
        self.tagged
    }

    /// Advances the clock of the flash to the drive's.
    #[inline]
    pub(crate) fn advance_to(&mut self, now: Ns) {
        self.cx.wait_until(now + self.shelved);
    }

    /// Lets the data in the cells age by `span` while the drive's clock stands still.
    pub(crate) fn age(&mut self, span: Ns) {
        self.shelved += span;
        self.cx.spend(span);
    }

    pub(crate) fn stamp(&self) -> u64 {
        self.stamp
    }

    /// Records a stamp found on the flash: later stamps are greater.
    pub(crate) fn stamped(&mut self, stamp: u64) {
        if !self.known_bad.restart_versions {
            self.stamp = self.stamp.max(stamp);
        }
    }

    /// Begins a new life of the drive, after a power-on: later stamps are of a later [`life`].
    pub(crate) fn begin_life(&mut self) {
        if !self.known_bad.restart_versions {
            self.stamp = (life(self.stamp) + 1) << LIFE_SHIFT;
        }
    }

    /// The raw flash below.
    pub fn flash(&self) -> &F {
        &self.flash
    }

    /// The raw flash, to cut its power or read its contents.
    pub fn flash_mut(&mut self) -> &mut F {
        &mut self.flash
    }

    /// Returns the raw flash, for another drive over it.
    pub fn into_flash(self) -> F {
        self.flash
    }

    /// Row of a physical page of a unit: its page number within its NAND block.
    #[inline]
    pub fn row(&self, ppn: u32) -> u32 {
        self.by_unit_planes.quotient(self.unit_pages.remainder(ppn))
    }

    /// Block of a physical page within its unit.
    #[inline]
    pub fn block(&self, ppn: u32) -> u32 {
        self.unit_pages.quotient(ppn)
    }

    /// Plane of a physical page within its unit.
    #[inline]
    pub fn plane(&self, ppn: u32) -> u32 {
        self.by_unit_planes.remainder(ppn)
    }

    /// Eraseblock of a unit's block on one of the unit's planes.
    #[inline]
    pub fn peb(&self, unit: u32, block: u32, plane: u32) -> Peb {
        Peb((unit * self.unit_planes + plane) * self.blocks + block)
    }

    /// Eraseblock of a physical page of a unit, and the offset of its first byte there.
    #[inline]
    pub fn place(&self, unit: u32, ppn: u32) -> (Peb, u32) {
        let (block, page) = self.unit_pages.divide(ppn);
        let (row, plane) = self.by_unit_planes.divide(page);
        (self.peb(unit, block, plane), row * self.page_bytes)
    }

    /// Reads a page.
    /// Errors: those of the flash.
    #[inline]
    pub fn read(&mut self, unit: u32, ppn: u32, buf: &mut [u8]) -> Result<ReadStatus, FlashError> {
        let (peb, offset) = self.place(unit, ppn);
        self.flash.read(&mut self.cx, peb, offset, buf)
    }

    /// Reads a page into [`contents`](Self::contents).
    /// Errors: those of the flash.
    pub(crate) fn read_contents(&mut self, unit: u32, ppn: u32) -> Result<ReadStatus, FlashError> {
        let mut contents = std::mem::take(&mut self.contents);
        contents.resize(self.page_bytes as usize, 0);
        let outcome = self.read(unit, ppn, &mut contents);
        self.contents = contents;
        outcome
    }

    /// Contents of the page read last by [`read_contents`](Self::read_contents).
    pub(crate) fn contents(&self) -> &[u8] {
        &self.contents
    }

    /// Reads OOB bytes of a page.
    /// Errors: those of the flash.
    pub fn read_oob(&mut self, unit: u32, ppn: u32, buf: &mut [u8]) -> Result<(), FlashError> {
        let (peb, offset) = self.place(unit, ppn);
        self.flash.read_oob(&mut self.cx, peb, offset, buf)
    }

    /// Tag of a page; `None` if there is none or it cannot be read.
    pub fn tag(&mut self, unit: u32, ppn: u32) -> Option<Tag> {
        let mut oob = [0; OOB_BYTES];
        self.read_oob(unit, ppn, &mut oob).ok()?;
        match Tag::decode(&oob) {
            Found::Tag(tag) => Some(tag),
            Found::Blank | Found::Torn => None,
        }
    }

    /// Programs a page with its tag.
    /// Errors: those of the flash.
    pub fn program_tagged(
        &mut self,
        cause: Cause,
        unit: u32,
        ppn: u32,
        data: Payload<'_>,
        held: Held,
    ) -> Result<(), FlashError> {
        let (peb, offset) = self.place(unit, ppn);
        self.stamp += 1;
        let version = held.version.unwrap_or(self.stamp);
        let tag = Tag {
            lpn: held.lpn,
            padding: held.padding,
            version,
            stamp: self.stamp,
            erases: held.erases,
            lost: held.lost,
            contents: data.bytes().map_or(0, crc),
        };
        let flash = &mut self.flash;
        self.cx.because(cause, |cx| flash.program_with_oob(cx, peb, offset, data, &tag.encode()))
    }

    /// Programs a page; `data` is `None` if the flash keeps no contents.
    /// Errors: those of the flash.
    #[inline]
    pub fn program(&mut self, cause: Cause, unit: u32, ppn: u32, data: Option<&[u8]>) -> Result<(), FlashError> {
        let (peb, offset) = self.place(unit, ppn);
        let payload = data.map_or(Payload::Length(self.page_bytes), Payload::Bytes);
        let flash = &mut self.flash;
        self.cx.because(cause, |cx| flash.program(cx, peb, offset, payload))
    }

    /// Erases a unit's block on all its planes. If the erase fails on one plane, the block has failed.
    /// Errors: those of the flash.
    pub fn erase(&mut self, cause: Cause, unit: u32, block: u32) -> Result<(), FlashError> {
        let mut outcome = Ok(());
        for plane in 0..self.unit_planes {
            let peb = self.peb(unit, block, plane);
            let flash = &mut self.flash;
            match self.cx.because(cause, |cx| flash.erase(cx, peb)) {
                Err(FlashError::PowerLost) => return Err(FlashError::PowerLost),
                Err(error) => outcome = Err(error),
                Ok(()) => {}
            }
        }
        outcome
    }

    /// Marks a unit's block bad on all its planes.
    /// Errors: power is lost.
    pub fn mark_bad(&mut self, unit: u32, block: u32) -> Result<(), FlashError> {
        for plane in 0..self.unit_planes {
            let peb = self.peb(unit, block, plane);
            self.flash.mark_bad(&mut self.cx, peb)?;
        }
        Ok(())
    }

    /// Programs the pages that a translation layer has handed out before this flash existed: the drive was
    /// preconditioned without time. Only these programs count as wear of the drive, under [`Cause::Layout`].
    /// Errors: those of the flash.
    pub fn adopt<M: UnitFtl>(&mut self, unit: u32, layer: &M) -> Result<(), FlashError> {
        for block in 0..self.blocks {
            let pages = layer.handed_out(block);
            for plane in 0..self.unit_planes {
                let rows = pages / self.unit_planes + u32::from(pages % self.unit_planes > plane);
                let (peb, flash) = (self.peb(unit, block, plane), &mut self.flash);
                if rows > 0 {
                    let payload = Payload::Length(rows * self.page_bytes);
                    self.cx.because(Cause::Layout, |cx| flash.program(cx, peb, 0, payload))?;
                }
            }
        }
        Ok(())
    }

    /// Blocks of a unit that are marked bad on at least one plane.
    pub fn bad_blocks(&self, unit: u32) -> Vec<u32> {
        (0..self.blocks)
            .filter(|&block| (0..self.unit_planes).any(|plane| self.flash.is_bad(self.peb(unit, block, plane))))
            .collect()
    }
}

/// Geometry of the raw flash under a drive of this shape, with `oob_bytes` OOB bytes per page.
pub fn geometry(shape: &Shape, oob_bytes: u32) -> Geometry {
    Geometry {
        medium: Medium::Nand,
        pebs: shape.all_dies() * shape.planes * shape.blocks,
        peb_bytes: shape.pages * shape.page_bytes,
        page_bytes: shape.page_bytes,
        subpage_bytes: shape.page_bytes,
        oob_bytes,
    }
}
