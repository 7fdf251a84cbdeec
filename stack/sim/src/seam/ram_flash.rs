//! The second implementor of [`Flash`]: a flat buffer with the rules of the medium and nothing else.

use super::{Flash, FlashError, Geometry, Medium, Payload, ReadStatus};
use crate::{Cx, Peb};

/// Flash without time, wear or faults; refuses what the medium forbids.
#[derive(Clone, Debug)]
pub struct RamFlash {
    geometry: Geometry,
    bytes: Vec<u8>,
    oob: Vec<u8>,
    /// First byte of each block that has not been programmed.
    next: Vec<u32>,
    bad: Vec<bool>,
}

impl RamFlash {
    /// An erased device without bad blocks.
    pub fn new(geometry: Geometry) -> RamFlash {
        let pebs = geometry.pebs as usize;
        let oob = pebs * geometry.pages_per_peb() as usize * geometry.oob_bytes as usize;
        RamFlash {
            geometry,
            bytes: vec![0xff; geometry.bytes() as usize],
            oob: vec![0xff; oob],
            next: vec![0; pebs],
            bad: vec![false; pebs],
        }
    }

    /// Where the OOB bytes of the page at `offset` lie in the buffer.
    fn oob_range(&self, peb: Peb, offset: u32, len: usize) -> Result<std::ops::Range<usize>, FlashError> {
        let Geometry { page_bytes, oob_bytes, .. } = self.geometry;
        self.range(peb, offset, page_bytes)?;
        if len > oob_bytes as usize || !offset.is_multiple_of(page_bytes) {
            return Err(FlashError::OutOfBounds { peb, offset, len: len as u32 });
        }
        let page = peb.at() * self.geometry.pages_per_peb() as usize + (offset / page_bytes) as usize;
        let start = page * oob_bytes as usize;
        Ok(start..start + len)
    }

    fn range(&self, peb: Peb, offset: u32, len: u32) -> Result<std::ops::Range<usize>, FlashError> {
        let end = offset.checked_add(len).filter(|&end| end <= self.geometry.peb_bytes);
        if peb.0 >= self.geometry.pebs || end.is_none() {
            return Err(FlashError::OutOfBounds { peb, offset, len });
        }
        let start = peb.at() * self.geometry.peb_bytes as usize + offset as usize;
        Ok(start..start + len as usize)
    }
}

impl Flash for RamFlash {
    const KEEPS_BYTES: bool = true;

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&mut self, _cx: &mut Cx, peb: Peb, offset: u32, buf: &mut [u8]) -> Result<ReadStatus, FlashError> {
        let range = self.range(peb, offset, buf.len() as u32)?;
        buf.copy_from_slice(&self.bytes[range]);
        Ok(ReadStatus::default())
    }

    fn program(&mut self, _cx: &mut Cx, peb: Peb, offset: u32, data: Payload<'_>) -> Result<(), FlashError> {
        let len = data.len();
        let range = self.range(peb, offset, len)?;
        let unit = self.geometry.subpage_bytes;
        if !offset.is_multiple_of(unit) || !len.is_multiple_of(unit) {
            return Err(FlashError::OutOfBounds { peb, offset, len });
        }
        if self.bad[peb.at()] {
            return Err(FlashError::BadBlock { peb });
        }
        if self.geometry.medium == Medium::Nand && offset < self.next[peb.at()] {
            return Err(FlashError::NotErased { peb, offset });
        }
        self.next[peb.at()] = self.next[peb.at()].max(offset + len);
        match data {
            Payload::Bytes(bytes) => self.bytes[range].iter_mut().zip(bytes).for_each(|(cell, byte)| *cell &= byte),
            Payload::Length(_) => self.bytes[range].fill(0),
        }
        Ok(())
    }

    fn program_with_oob(
        &mut self,
        cx: &mut Cx,
        peb: Peb,
        offset: u32,
        data: Payload<'_>,
        oob: &[u8],
    ) -> Result<(), FlashError> {
        let range = self.oob_range(peb, offset, oob.len())?;
        if data.len() != self.geometry.page_bytes {
            return Err(FlashError::OutOfBounds { peb, offset, len: data.len() });
        }
        self.program(cx, peb, offset, data)?;
        self.oob[range].iter_mut().zip(oob).for_each(|(cell, byte)| *cell &= byte);
        Ok(())
    }

    fn read_oob(&mut self, _cx: &mut Cx, peb: Peb, offset: u32, buf: &mut [u8]) -> Result<(), FlashError> {
        let range = self.oob_range(peb, offset, buf.len())?;
        buf.copy_from_slice(&self.oob[range]);
        Ok(())
    }

    fn program_oob(&mut self, _cx: &mut Cx, peb: Peb, offset: u32, oob: &[u8]) -> Result<(), FlashError> {
        let range = self.oob_range(peb, offset, oob.len())?;
        if self.bad[peb.at()] {
            return Err(FlashError::BadBlock { peb });
        }
        self.oob[range].iter_mut().zip(oob).for_each(|(cell, byte)| *cell &= byte);
        Ok(())
    }

    fn erase(&mut self, _cx: &mut Cx, peb: Peb) -> Result<(), FlashError> {
        let range = self.range(peb, 0, self.geometry.peb_bytes)?;
        if self.bad[peb.at()] {
            return Err(FlashError::BadBlock { peb });
        }
        self.bytes[range].fill(0xff);
        let oob = (self.geometry.pages_per_peb() * self.geometry.oob_bytes) as usize;
        self.oob[peb.at() * oob..(peb.at() + 1) * oob].fill(0xff);
        self.next[peb.at()] = 0;
        Ok(())
    }

    fn is_bad(&self, peb: Peb) -> bool {
        self.bad[peb.at()]
    }

    fn mark_bad(&mut self, _cx: &mut Cx, peb: Peb) -> Result<(), FlashError> {
        self.bad[peb.at()] = true;
        Ok(())
    }
}
