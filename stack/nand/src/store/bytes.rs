//! Sparse memory, copied on write.
//!
//! Invariants: a block without a buffer is erased; a buffer is never longer than its block, and what lies past its end
//! is 0xFF.

use std::sync::Arc;

use sim::Peb;
use sim::seam::{Geometry, Payload};

use super::{Store, and_into, end_of_data, sealed::Sealed};

/// One block's cells up to the last programmed byte.
pub(super) type Cells = Arc<Vec<u8>>;

/// Keeps what was programmed, in memory. Only the programmed part of a block takes memory. A clone shares every block
/// until one of the two writes it, so a power-cut enumeration can clone a device per operation.
#[derive(Clone, Debug, Default)]
pub struct Bytes {
    blocks: Vec<Option<Cells>>,
    /// Empty when no OOB is kept.
    oob: Vec<Option<Cells>>,
    wants_oob: bool,
    peb_bytes: u32,
    oob_bytes: u32,
    oob_peb_bytes: u32,
}

impl Bytes {
    /// A store of erased cells that keeps no OOB.
    pub fn new() -> Bytes {
        Bytes::default()
    }

    /// A store of erased cells that keeps OOB.
    pub fn with_oob() -> Bytes {
        Bytes { wants_oob: true, ..Bytes::default() }
    }

    /// Whether block `peb` of both is the same memory, OOB included: one was cloned from the other, and neither was changed
    /// there since. Erased blocks are shared with erased ones. Blocks with equal contents need not be shared.
    #[inline]
    pub fn shares(&self, other: &Bytes, peb: Peb) -> bool {
        let same = |ours: &[Option<Cells>], theirs: &[Option<Cells>]| match (ours.get(peb.at()), theirs.get(peb.at())) {
            (Some(Some(ours)), Some(Some(theirs))) => Arc::ptr_eq(ours, theirs),
            (Some(None), Some(None)) | (None, None) => true,
            _ => false,
        };
        same(&self.blocks, &other.blocks) && same(&self.oob, &other.oob)
    }
}

/// Programs into a buffer that grows up to `limit` bytes.
pub(super) fn program_cells(cells: &mut Cells, limit: u32, offset: u32, data: Payload<'_>) {
    let (start, end) = (offset as usize, (offset + data.len()) as usize);
    // Double the capacity, but never beyond the block: a full block takes exactly its size.
    let room = |capacity: usize| (capacity * 2).clamp(end, (limit as usize).max(end));
    if Arc::get_mut(cells).is_none() {
        // Shared with a clone: a copy of its own, with room at once.
        let mut own = Vec::with_capacity(room(cells.len()));
        own.extend_from_slice(cells);
        *cells = Arc::new(own);
    }
    let cells = Arc::get_mut(cells).expect("it is not shared");
    if cells.len() < end {
        if cells.capacity() < end {
            cells.reserve_exact(room(cells.capacity()) - cells.len());
        }
        if let (true, Payload::Bytes(bytes)) = (cells.len() <= start, data) {
            // Fresh cells take the data without an AND.
            cells.resize(start, 0xff);
            cells.extend_from_slice(bytes);
            return;
        }
        cells.resize(end, 0xff);
    }
    and_into(&mut cells[start..end], data);
}

/// Reads from a buffer; what lies past its end is 0xFF.
pub(super) fn read_cells(cells: &[u8], offset: u32, buf: &mut [u8]) {
    let held = cells.get(offset as usize..).unwrap_or(&[]);
    let held = &held[..held.len().min(buf.len())];
    buf[..held.len()].copy_from_slice(held);
    buf[held.len()..].fill(0xff);
}

impl Sealed for Bytes {}

impl Store for Bytes {
    const KEEPS_BYTES: bool = true;

    fn attach(&mut self, geometry: &Geometry) {
        self.peb_bytes = geometry.peb_bytes;
        self.oob_bytes = geometry.oob_bytes;
        self.oob_peb_bytes = geometry.oob_bytes * geometry.pages_per_peb();
        self.wants_oob &= geometry.oob_bytes > 0;
        self.blocks.resize(geometry.pebs as usize, None);
        self.oob.resize(if self.wants_oob { geometry.pebs as usize } else { 0 }, None);
    }

    #[inline]
    fn read(&self, peb: Peb, offset: u32, buf: &mut [u8]) {
        match &self.blocks[peb.at()] {
            Some(cells) => read_cells(cells, offset, buf),
            None => buf.fill(0xff),
        }
    }

    #[inline]
    fn program(&mut self, peb: Peb, offset: u32, data: Payload<'_>) {
        program_cells(self.blocks[peb.at()].get_or_insert_default(), self.peb_bytes, offset, data);
    }

    #[inline]
    fn erase(&mut self, peb: Peb) {
        self.blocks[peb.at()] = None;
        if let Some(oob) = self.oob.get_mut(peb.at()) {
            *oob = None;
        }
    }

    fn replace(&mut self, peb: Peb, data: &[u8]) {
        let end = end_of_data(data);
        self.blocks[peb.at()] = (end > 0).then(|| Arc::new(data[..end].to_vec()));
    }

    #[inline]
    fn is_known_erased(&self, peb: Peb) -> bool {
        self.blocks[peb.at()].is_none()
    }

    fn programmed_end(&self, peb: Peb) -> u32 {
        self.blocks[peb.at()].as_ref().map_or(0, |cells| end_of_data(cells) as u32)
    }

    fn keeps_oob(&self) -> bool {
        self.wants_oob
    }

    fn read_oob(&self, peb: Peb, page: u32, buf: &mut [u8]) {
        match self.oob.get(peb.at()).and_then(Option::as_ref) {
            Some(cells) => read_cells(cells, page * self.oob_bytes, buf),
            None => buf.fill(0xff),
        }
    }

    fn program_oob(&mut self, peb: Peb, page: u32, data: &[u8]) {
        if let Some(oob) = self.oob.get_mut(peb.at()) {
            program_cells(oob.get_or_insert_default(), self.oob_peb_bytes, page * self.oob_bytes, Payload::Bytes(data));
        }
    }

    fn held_bytes(&self) -> usize {
        let cells: usize = self.blocks.iter().chain(&self.oob).flatten().map(|cells| cells.capacity()).sum();
        cells + (self.blocks.capacity() + self.oob.capacity()) * size_of::<Option<Cells>>()
    }
}
