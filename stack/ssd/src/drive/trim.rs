//! What trimmed pages read as.
//!
//! A trim takes whole pages; of a page of which it has only some sectors nothing changes. Pages that read as neither zeroes
//! nor what they held are marked here. A partial write of such a page writes the rest of it too: it must go on reading the
//! same.

use sim::seam::{BlockRequest, Flash};

use super::Ssd;
use crate::device::{TRIMMED_BYTE, TrimmedReads};
use crate::ftl::UnitFtl;

/// Which pages are trimmed, where that matters.
#[derive(Clone, Debug)]
pub(super) struct Trimmed {
    reads: TrimmedReads,
    /// Under [`TrimmedReads::Deterministic`] two bits for each page, in pairs of words; none elsewhere. The first: it was
    /// ever trimmed, so that what holds nothing was trimmed last. The second: no write came since.
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

    /// A page is written. What lies below its sectors, if that is no matter of the layer below.
    #[inline]
    pub(super) fn written(&mut self, lpn: u32) -> Option<u8> {
        let [_, unwritten] = self.marks.get_mut(lpn as usize / 64)?;
        let bit = 1 << (lpn % 64);
        let marked = *unwritten & bit != 0;
        *unwritten &= !bit;
        marked.then_some(TRIMMED_BYTE)
    }

    /// Whether a page was trimmed and not written since, so that what the layer below may have of it (padding) is not shown.
    #[inline]
    pub(super) fn is_marked(&self, lpn: u32) -> bool {
        self.marks.get(lpn as usize / 64).is_some_and(|[_, unwritten]| unwritten >> (lpn % 64) & 1 == 1)
    }

    /// What a page that holds nothing is full of.
    fn blank(&self, lpn: u32) -> u8 {
        let marked = self.marks.get(lpn as usize / 64).is_some_and(|[ever, _]| ever >> (lpn % 64) & 1 == 1);
        if marked { TRIMMED_BYTE } else { 0 }
    }

    /// Whether reads show what the cells still hold.
    pub(super) fn shows_old(&self) -> bool {
        self.reads == TrimmedReads::Undefined
    }
}

impl<F: Flash, M: UnitFtl> Ssd<F, M> {
    /// Whole pages of the range hold nothing any more.
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

    /// A request that reads a page that holds nothing gets what such a page reads as.
    pub(super) fn blank_into_request(&mut self, tag: u32, lpn: u32) {
        if F::KEEPS_BYTES {
            let page = vec![self.trimmed.blank(lpn); 512 << self.page_shift];
            self.sectors_into_request(tag, lpn, &page);
        }
    }
}
