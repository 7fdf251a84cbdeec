//! What trimmed pages read as.
//!
//! A trim affects whole pages only; a page of which it covers some sectors stays unchanged. If trimmed pages must read
//! as something other than zeroes or their old contents, this module marks them. A partial write of such a page must
//! write the rest of it too, so that the rest reads as before.

use sim::seam::{BlockRequest, Flash};

use super::Ssd;
use crate::device::{TRIMMED_BYTE, TrimmedReads};
use crate::ftl::UnitFtl;

/// Marks of trimmed pages, for the kinds of [`TrimmedReads`] that need them.
#[derive(Clone, Debug)]
pub(super) struct Trimmed {
    reads: TrimmedReads,
    /// Under [`TrimmedReads::Deterministic`] two bits for each page, in pairs of words; otherwise empty. First word:
    /// the page was trimmed at least once, so if it is unmapped, a trim unmapped it. Second word: not written since.
    marks: Vec<[u64; 2]>,
}

impl Trimmed {
    pub(super) fn new(reads: TrimmedReads, pages: u32) -> Trimmed {
        let marked = if reads == TrimmedReads::Deterministic { pages } else { 0 };
        Trimmed { reads, marks: vec![[0; 2]; marked.div_ceil(64) as usize] }
    }

    fn mark(&mut self, lpn: u32) {
        if let Some(words) = self.marks.get_mut(lpn as usize / 64) {
            words.iter_mut().for_each(|word| *word |= 1 << (lpn % 64));
        }
    }

    /// Notes that a page is written. Returns the byte that fills the rest of the page if it was trimmed and marked;
    /// `None` if the rest is whatever the FTL has.
    #[inline]
    pub(super) fn written(&mut self, lpn: u32) -> Option<u8> {
        let [_, unwritten] = self.marks.get_mut(lpn as usize / 64)?;
        let bit = 1 << (lpn % 64);
        let marked = *unwritten & bit != 0;
        *unwritten &= !bit;
        marked.then_some(TRIMMED_BYTE)
    }

    /// Whether a page is marked as trimmed and not written since. The FTL may have padding for it, which reads must not
    /// return.
    #[inline]
    pub(super) fn is_marked(&self, lpn: u32) -> bool {
        self.marks.get(lpn as usize / 64).is_some_and(|[_, unwritten]| unwritten >> (lpn % 64) & 1 == 1)
    }

    /// The byte that an unmapped page reads as.
    #[inline]
    pub(super) fn blank(&self, lpn: u32) -> u8 {
        let marked = self.marks.get(lpn as usize / 64).is_some_and(|[ever, _]| ever >> (lpn % 64) & 1 == 1);
        if marked { TRIMMED_BYTE } else { 0 }
    }

    /// Whether reads may return the trimmed contents while the cells still hold them.
    pub(super) fn shows_old(&self) -> bool {
        self.reads == TrimmedReads::Undefined
    }
}

impl<F: Flash, M: UnitFtl> Ssd<F, M> {
    /// Unmaps the whole pages in the range of a trim.
    pub(super) fn trim(&mut self, asked: &BlockRequest) {
        let first = asked.sector.div_ceil(1 << self.page_shift) as u32;
        let end = (asked.end() >> self.page_shift) as u32;
        for lpn in first..end.max(first) {
            let (unit, local) = self.striping.locate(lpn);
            self.trimmed.mark(lpn);
            if self.buffer.is_none() || self.trim_buffered(unit, local) {
                self.dispatcher.trim(unit, local, self.trimmed.shows_old());
            }
        }
    }

    /// Fills the sectors of page `lpn` in a read with what an unmapped page reads as.
    pub(super) fn blank_into_request(&mut self, tag: u32, lpn: u32) {
        if F::KEEPS_BYTES {
            let mut page = vec![self.trimmed.blank(lpn); 512 << self.page_shift];
            self.sectors_into_request(tag, lpn, &mut page);
        }
    }
}
