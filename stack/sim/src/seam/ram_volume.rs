//! The second implementor of [`LebVolume`]: the oracle that tests compare UBI with.

use super::{LebError, LebVolume, Payload};
use crate::{Cx, Lnum};

/// LEBs in memory: no medium, no wear, no space limit.
#[derive(Clone, Debug)]
pub struct RamVolume {
    leb_bytes: u32,
    min_io_bytes: u32,
    lebs: Vec<Option<Vec<u8>>>,
}

impl RamVolume {
    /// A volume of `lebs` unmapped LEBs.
    pub fn new(lebs: u32, leb_bytes: u32, min_io_bytes: u32) -> RamVolume {
        RamVolume { leb_bytes, min_io_bytes, lebs: vec![None; lebs as usize] }
    }

    fn check(&self, lnum: Lnum, offset: u32, len: u32, unit: u32) -> Result<(), LebError> {
        if lnum.at() >= self.lebs.len() {
            return Err(LebError::NoSuchLeb { lnum, lebs: self.lebs() });
        }
        let fits = offset.checked_add(len).is_some_and(|end| end <= self.leb_bytes);
        if !fits || !offset.is_multiple_of(unit) || !len.is_multiple_of(unit) {
            return Err(LebError::OutOfBounds { lnum, offset, len });
        }
        Ok(())
    }

    fn fill(cells: &mut [u8], data: Payload<'_>) {
        match data {
            Payload::Bytes(bytes) => cells.copy_from_slice(bytes),
            Payload::Length(_) => cells.fill(0),
        }
    }
}

impl LebVolume for RamVolume {
    fn keeps_bytes() -> bool {
        true
    }

    fn lebs(&self) -> u32 {
        self.lebs.len() as u32
    }

    fn leb_bytes(&self) -> u32 {
        self.leb_bytes
    }

    fn min_io_bytes(&self) -> u32 {
        self.min_io_bytes
    }

    fn read(&mut self, _cx: &mut Cx, lnum: Lnum, offset: u32, buf: &mut [u8]) -> Result<(), LebError> {
        self.check(lnum, offset, buf.len() as u32, 1)?;
        match &self.lebs[lnum.at()] {
            Some(cells) => buf.copy_from_slice(&cells[offset as usize..][..buf.len()]),
            None => buf.fill(0xff),
        }
        Ok(())
    }

    fn write(&mut self, _cx: &mut Cx, lnum: Lnum, offset: u32, data: Payload<'_>) -> Result<(), LebError> {
        self.check(lnum, offset, data.len(), self.min_io_bytes)?;
        let leb_bytes = self.leb_bytes as usize;
        let cells = self.lebs[lnum.at()].get_or_insert_with(|| vec![0xff; leb_bytes]);
        RamVolume::fill(&mut cells[offset as usize..][..data.len() as usize], data);
        Ok(())
    }

    fn change(&mut self, cx: &mut Cx, lnum: Lnum, data: Payload<'_>) -> Result<(), LebError> {
        self.check(lnum, 0, data.len(), self.min_io_bytes)?;
        self.lebs[lnum.at()] = None;
        if data.is_empty() { Ok(()) } else { self.write(cx, lnum, 0, data) }
    }

    fn map(&mut self, _cx: &mut Cx, lnum: Lnum) -> Result<(), LebError> {
        self.check(lnum, 0, 0, 1)?;
        if self.lebs[lnum.at()].is_some() {
            return Err(LebError::Mapped { lnum });
        }
        self.lebs[lnum.at()] = Some(vec![0xff; self.leb_bytes as usize]);
        Ok(())
    }

    fn unmap(&mut self, _cx: &mut Cx, lnum: Lnum) -> Result<(), LebError> {
        self.check(lnum, 0, 0, 1)?;
        self.lebs[lnum.at()] = None;
        Ok(())
    }

    fn is_mapped(&self, lnum: Lnum) -> bool {
        self.lebs.get(lnum.at()).is_some_and(Option::is_some)
    }

    fn sync(&mut self, _cx: &mut Cx) -> Result<(), LebError> {
        Ok(())
    }
}
