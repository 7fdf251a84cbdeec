//! Out-of-band bytes: bad-block marks, and what a driver keeps beside a page (JFFS2's clean marker, an FTL's tags).

use sim::seam::{Flash, FlashError, Medium};
use sim::{Cx, Peb};

use super::{Array, BAD};
use crate::store::Store;

/// Where the factory marks a bad block in the OOB of its first page: byte 5 of small pages, byte 0 of large ones.
/// Source: Linux `include/linux/mtd/rawnand.h`, `NAND_SMALL_BADBLOCK_POS` and `NAND_LARGE_BADBLOCK_POS`.
pub const fn bad_mark_at(page_bytes: u32) -> usize {
    if page_bytes > 512 { 0 } else { 5 }
}

impl<S: Store> Array<S> {
    pub(super) fn marked_bad_in_oob(&self, peb: Peb) -> bool {
        let at = bad_mark_at(self.geometry.page_bytes);
        if !self.store.keeps_oob() || at >= self.geometry.oob_bytes as usize {
            return false;
        }
        let mut mark = [0xff; 6];
        self.store.read_oob(peb, 0, &mut mark[..=at]);
        mark[at] != 0xff
    }

    pub(super) fn mark_bad_in_oob(&mut self, peb: Peb) {
        let at = bad_mark_at(self.geometry.page_bytes);
        if self.store.keeps_oob() && at < self.geometry.oob_bytes as usize {
            let mut mark = [0xff; 6];
            mark[at] = 0;
            self.store.program_oob(peb, 0, &mark[..=at]);
        }
    }

    /// Reads the first OOB bytes of a page; 0xFF if the store keeps none. Takes no time: the page read has fetched
    /// them.
    /// Errors: `PowerLost`; `OutOfBounds`.
    pub fn read_oob(&mut self, peb: Peb, page: u32, buf: &mut [u8]) -> Result<(), FlashError> {
        self.oob_in_bounds(peb, page, buf.len())?;
        self.store.read_oob(peb, page, buf);
        Ok(())
    }

    /// Programs the first OOB bytes of a page: bits only fall. Takes one page program, and counts as one in
    /// [`ops`](Array::ops). A power cut may tear it; ECC does not cover it alone.
    /// Errors: `PowerLost`; `BadBlock`; `OutOfBounds`, always on NOR.
    pub fn program_oob(&mut self, cx: &mut Cx, peb: Peb, page: u32, data: &[u8]) -> Result<(), FlashError> {
        self.oob_in_bounds(peb, page, data.len())?;
        if self.blocks[peb.at()].flags & BAD != 0 {
            return Err(FlashError::BadBlock { peb });
        }
        self.program_oob_carefully(cx, peb, page, data)
    }

    /// Programs the OOB bytes of a program into the cells.
    pub(super) fn put_oob(&mut self, peb: Peb, offset: u32, oob: &[u8]) {
        if !oob.is_empty() {
            self.store.program_oob(peb, offset / self.geometry.page_bytes, oob);
        }
    }

    /// All OOB bytes of a block; empty if the store keeps none.
    pub(crate) fn oob_of(&self, peb: Peb) -> Vec<u8> {
        if !self.store.keeps_oob() || self.geometry.oob_bytes == 0 {
            return Vec::new();
        }
        let mut oob = vec![0; (self.geometry.pages_per_peb() * self.geometry.oob_bytes) as usize];
        for (page, oob) in (0..).zip(oob.chunks_mut(self.geometry.oob_bytes as usize)) {
            self.store.read_oob(peb, page, oob);
        }
        oob
    }

    /// Reads OOB bytes of a page whose ECC covers data and OOB together.
    pub(super) fn oob_under_ecc(
        &mut self,
        cx: &mut Cx,
        peb: Peb,
        offset: u32,
        buf: &mut [u8],
    ) -> Result<(), FlashError> {
        self.read_oob(peb, offset / self.geometry.page_bytes, buf)?;
        // Reading one byte of the page checks its ECC; the byte is not used.
        self.read(cx, peb, offset, &mut [0]).map(drop)
    }

    pub(super) fn oob_in_bounds(&self, peb: Peb, page: u32, len: usize) -> Result<(), FlashError> {
        if !self.powered {
            return Err(FlashError::PowerLost);
        }
        let fits = self.geometry.medium == Medium::Nand
            && peb.at() < self.blocks.len()
            && page < self.geometry.pages_per_peb()
            && len <= self.geometry.oob_bytes as usize;
        if fits {
            Ok(())
        } else {
            let offset = page.saturating_mul(self.geometry.page_bytes);
            Err(FlashError::OutOfBounds { peb, offset, len: len as u32 })
        }
    }
}
