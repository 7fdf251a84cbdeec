//! Changes over an image that is never written.
//!
//! Invariant: once a block has a buffer of its own, the image is not read for it, not even for OOB.

use std::sync::Arc;

use sim::Peb;
use sim::seam::{Geometry, Payload};

use super::bytes::{Cells, program_cells, read_cells};
use super::mapped::{end_in_dump, oob_place, read_pieces};
use super::{Store, end_of_data, sealed::Sealed};
use crate::image::{self, ImageError};

/// A block that was changed: its cells and its OOB, each up to the last byte that is not 0xFF.
#[derive(Clone, Debug, Default)]
struct Changed {
    cells: Cells,
    oob: Cells,
}

/// Reads come from the base, a raw dump of the whole device, until a block is modified; then the block is copied. The
/// image needs no copy and never changes.
#[derive(Clone, Debug)]
pub struct Overlay<M> {
    base: M,
    geometry: Geometry,
    with_oob: bool,
    changed: Vec<Option<Changed>>,
}

impl<M: AsRef<[u8]>> Overlay<M> {
    /// A store over `base`, a raw dump with or without OOB.
    /// Errors: the length of `base` does not fit the device.
    pub fn new(geometry: Geometry, base: M, with_oob: bool) -> Result<Overlay<M>, ImageError> {
        image::check_length(&geometry, base.as_ref().len() as u64, with_oob)?;
        Ok(Overlay { base, geometry, with_oob, changed: vec![None; geometry.pebs as usize] })
    }

    /// Blocks that were modified, even if their contents now equal the base again.
    pub fn changed_pebs(&self) -> usize {
        self.changed.iter().flatten().count()
    }

    /// The block's own copy, made from the base on first use.
    fn own(&mut self, peb: Peb) -> &mut Changed {
        let slot = &mut self.changed[peb.at()];
        if slot.is_none() {
            let geometry = &self.geometry;
            let base = self.base.as_ref();
            let mut cells = vec![0xff; end_in_dump(base, geometry, self.with_oob, peb) as usize];
            read_pieces(base, geometry, self.with_oob, peb, 0, &mut cells);
            let mut oob = Vec::new();
            if self.with_oob {
                for page in 0..geometry.pages_per_peb() {
                    oob.extend_from_slice(&base[oob_place(geometry, peb, page)..][..geometry.oob_bytes as usize]);
                }
                oob.truncate(end_of_data(&oob));
            }
            *slot = Some(Changed { cells: Arc::new(cells), oob: Arc::new(oob) });
        }
        slot.as_mut().expect("just filled")
    }
}

impl<M> Sealed for Overlay<M> {}

impl<M: AsRef<[u8]>> Store for Overlay<M> {
    const KEEPS_BYTES: bool = true;

    fn attach(&mut self, geometry: &Geometry) {
        assert_eq!(*geometry, self.geometry, "the base was laid out for another device");
    }

    fn read(&self, peb: Peb, offset: u32, buf: &mut [u8]) {
        match &self.changed[peb.at()] {
            Some(block) => read_cells(&block.cells, offset, buf),
            None => read_pieces(self.base.as_ref(), &self.geometry, self.with_oob, peb, offset, buf),
        }
    }

    fn program(&mut self, peb: Peb, offset: u32, data: Payload<'_>) {
        let limit = self.geometry.peb_bytes;
        program_cells(&mut self.own(peb).cells, limit, offset, data);
    }

    fn erase(&mut self, peb: Peb) {
        self.changed[peb.at()] = Some(Changed::default());
    }

    fn replace(&mut self, peb: Peb, data: &[u8]) {
        self.own(peb).cells = Arc::new(data[..end_of_data(data)].to_vec());
    }

    fn programmed_end(&self, peb: Peb) -> u32 {
        match &self.changed[peb.at()] {
            Some(block) => end_of_data(&block.cells) as u32,
            None => end_in_dump(self.base.as_ref(), &self.geometry, self.with_oob, peb),
        }
    }

    fn keeps_oob(&self) -> bool {
        self.with_oob
    }

    fn read_oob(&self, peb: Peb, page: u32, buf: &mut [u8]) {
        match &self.changed[peb.at()] {
            Some(block) => read_cells(&block.oob, page * self.geometry.oob_bytes, buf),
            None if self.with_oob => {
                let place = oob_place(&self.geometry, peb, page);
                buf.copy_from_slice(&self.base.as_ref()[place..place + buf.len()]);
            }
            None => buf.fill(0xff),
        }
    }

    fn program_oob(&mut self, peb: Peb, page: u32, data: &[u8]) {
        if self.with_oob {
            let (oob_bytes, pages) = (self.geometry.oob_bytes, self.geometry.pages_per_peb());
            program_cells(&mut self.own(peb).oob, oob_bytes * pages, page * oob_bytes, Payload::Bytes(data));
        }
    }

    fn held_bytes(&self) -> usize {
        let own: usize = self.changed.iter().flatten().map(|b| b.cells.capacity() + b.oob.capacity()).sum();
        own + self.changed.capacity() * size_of::<Option<Changed>>()
    }
}
