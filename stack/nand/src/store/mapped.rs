//! A flat buffer supplied by the caller.

use sim::Peb;
use sim::seam::{Geometry, Payload};

use super::{Store, and_into, end_of_data, sealed::Sealed};
use crate::image::{self, ImageError};

/// Keeps the whole device in one buffer, laid out as a raw dump: pages in order, each followed by its OOB when the
/// buffer holds OOB. The lab supplies a memory-mapped file for devices beyond RAM; this crate touches no file.
#[derive(Clone, Debug)]
pub struct Mapped<M> {
    buffer: M,
    geometry: Geometry,
    with_oob: bool,
}

impl<M: AsRef<[u8]> + AsMut<[u8]>> Mapped<M> {
    /// A store with the contents of `buffer`; 0xFF is erased.
    /// Errors: the length of the buffer does not fit the device.
    pub fn new(geometry: Geometry, buffer: M, with_oob: bool) -> Result<Mapped<M>, ImageError> {
        image::check_length(&geometry, buffer.as_ref().len() as u64, with_oob)?;
        Ok(Mapped { buffer, geometry, with_oob })
    }

    /// An erased device: fills `buffer` with 0xFF.
    /// Errors: the length of the buffer does not fit the device.
    pub fn erased(geometry: Geometry, mut buffer: M, with_oob: bool) -> Result<Mapped<M>, ImageError> {
        image::check_length(&geometry, buffer.as_ref().len() as u64, with_oob)?;
        buffer.as_mut().fill(0xff);
        Mapped::new(geometry, buffer, with_oob)
    }

    /// Returns the buffer.
    pub fn into_buffer(self) -> M {
        self.buffer
    }
}

/// Bytes from one page's first byte to the next's in a raw dump.
pub(super) fn page_stride(geometry: &Geometry, with_oob: bool) -> usize {
    geometry.page_bytes as usize + if with_oob { geometry.oob_bytes as usize } else { 0 }
}

/// The pieces of a block's byte range in a raw dump: offset in the dump, and length.
pub(super) fn pieces(
    geometry: &Geometry,
    with_oob: bool,
    peb: Peb,
    offset: u32,
    len: u32,
) -> impl Iterator<Item = (usize, usize)> + use<> {
    let (page_bytes, stride) = (geometry.page_bytes as usize, page_stride(geometry, with_oob));
    let block = peb.at() * geometry.pages_per_peb() as usize * stride;
    let mut at = offset as usize;
    let end = at + len as usize;
    // Without OOB the range is one piece.
    let piece_bytes = if stride == page_bytes { usize::MAX } else { page_bytes };
    std::iter::from_fn(move || {
        (at < end).then(|| {
            let in_page = at % page_bytes;
            let length = (end - at).min(piece_bytes.saturating_sub(in_page));
            let place = block + at / page_bytes * stride + in_page;
            at += length;
            (place, length)
        })
    })
}

/// Reads a block's byte range out of a raw dump.
pub(super) fn read_pieces(dump: &[u8], geometry: &Geometry, with_oob: bool, peb: Peb, offset: u32, buf: &mut [u8]) {
    let mut done = 0;
    for (place, length) in pieces(geometry, with_oob, peb, offset, buf.len() as u32) {
        buf[done..done + length].copy_from_slice(&dump[place..place + length]);
        done += length;
    }
}

/// Offset of a page's OOB in a raw dump that has it.
pub(super) fn oob_place(geometry: &Geometry, peb: Peb, page: u32) -> usize {
    let pages = peb.at() * geometry.pages_per_peb() as usize + page as usize;
    pages * page_stride(geometry, true) + geometry.page_bytes as usize
}

/// One past the last byte of a block that is not 0xFF in a raw dump.
pub(super) fn end_in_dump(dump: &[u8], geometry: &Geometry, with_oob: bool, peb: Peb) -> u32 {
    let stride = page_stride(geometry, with_oob);
    let block = peb.at() * geometry.pages_per_peb() as usize * stride;
    (0..geometry.pages_per_peb())
        .rev()
        .find_map(|page| {
            let start = block + page as usize * stride;
            let end = end_of_data(&dump[start..start + geometry.page_bytes as usize]) as u32;
            (end > 0).then(|| page * geometry.page_bytes + end)
        })
        .unwrap_or(0)
}

impl<M> Sealed for Mapped<M> {}

impl<M: AsRef<[u8]> + AsMut<[u8]>> Store for Mapped<M> {
    const KEEPS_BYTES: bool = true;

    fn attach(&mut self, geometry: &Geometry) {
        assert_eq!(*geometry, self.geometry, "the buffer was laid out for another device");
    }

    fn read(&self, peb: Peb, offset: u32, buf: &mut [u8]) {
        read_pieces(self.buffer.as_ref(), &self.geometry, self.with_oob, peb, offset, buf);
    }

    fn program(&mut self, peb: Peb, offset: u32, data: Payload<'_>) {
        let dump = self.buffer.as_mut();
        let mut done = 0;
        for (place, length) in pieces(&self.geometry, self.with_oob, peb, offset, data.len()) {
            let part = match data {
                Payload::Bytes(bytes) => Payload::Bytes(&bytes[done..done + length]),
                Payload::Length(_) => Payload::Length(length as u32),
            };
            and_into(&mut dump[place..place + length], part);
            done += length;
        }
    }

    fn erase(&mut self, peb: Peb) {
        let block = self.geometry.pages_per_peb() as usize * page_stride(&self.geometry, self.with_oob);
        self.buffer.as_mut()[peb.at() * block..][..block].fill(0xff);
    }

    fn replace(&mut self, peb: Peb, data: &[u8]) {
        let dump = self.buffer.as_mut();
        let mut done = 0;
        for (place, length) in pieces(&self.geometry, self.with_oob, peb, 0, data.len() as u32) {
            dump[place..place + length].copy_from_slice(&data[done..done + length]);
            done += length;
        }
    }

    fn programmed_end(&self, peb: Peb) -> u32 {
        end_in_dump(self.buffer.as_ref(), &self.geometry, self.with_oob, peb)
    }

    fn keeps_oob(&self) -> bool {
        self.with_oob
    }

    fn read_oob(&self, peb: Peb, page: u32, buf: &mut [u8]) {
        if self.with_oob {
            let place = oob_place(&self.geometry, peb, page);
            buf.copy_from_slice(&self.buffer.as_ref()[place..place + buf.len()]);
        } else {
            buf.fill(0xff);
        }
    }

    fn program_oob(&mut self, peb: Peb, page: u32, data: &[u8]) {
        if self.with_oob {
            let place = oob_place(&self.geometry, peb, page);
            and_into(&mut self.buffer.as_mut()[place..place + data.len()], Payload::Bytes(data));
        }
    }

    fn held_bytes(&self) -> usize {
        self.buffer.as_ref().len()
    }
}
