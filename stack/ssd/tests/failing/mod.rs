//! A flash of which chosen programs fail.

use std::collections::BTreeSet;

use nand::{Array, Bytes};
use sim::seam::{Flash, FlashError, Geometry, Payload, ReadStatus};
use sim::{Cx, Peb};

/// An array of which chosen programs fail, counted from 1, and chosen pages cannot be read.
pub struct Failing {
    pub array: Array<Bytes>,
    pub failing: BTreeSet<u32>,
    pub programs: u32,
    pub rotten: BTreeSet<(Peb, u32)>,
}

impl Failing {
    pub fn new(array: Array<Bytes>, failing: impl IntoIterator<Item = u32>) -> Failing {
        Failing { array, failing: failing.into_iter().collect(), programs: 0, rotten: BTreeSet::new() }
    }
}

impl Flash for Failing {
    const KEEPS_BYTES: bool = true;

    fn geometry(&self) -> &Geometry {
        self.array.geometry()
    }

    fn read(&mut self, cx: &mut Cx, peb: Peb, offset: u32, buf: &mut [u8]) -> Result<ReadStatus, FlashError> {
        if self.rotten.contains(&(peb, offset)) {
            return Err(FlashError::Uncorrectable { peb, offset });
        }
        self.array.read(cx, peb, offset, buf)
    }

    fn program(&mut self, cx: &mut Cx, peb: Peb, offset: u32, data: Payload<'_>) -> Result<(), FlashError> {
        self.programs += 1;
        if self.failing.contains(&self.programs) {
            // The cells are neither blank nor what they should be.
            self.array.program(cx, peb, offset, Payload::Bytes(&[0xbd; 512]))?;
            return Err(FlashError::ProgramFailed { peb, offset });
        }
        self.array.program(cx, peb, offset, data)
    }

    fn program_with_oob(
        &mut self,
        cx: &mut Cx,
        peb: Peb,
        offset: u32,
        data: Payload<'_>,
        oob: &[u8],
    ) -> Result<(), FlashError> {
        self.programs += 1;
        if self.failing.contains(&self.programs) {
            self.array.program_with_oob(cx, peb, offset, Payload::Bytes(&[0xbd; 512]), &vec![0; oob.len()])?;
            return Err(FlashError::ProgramFailed { peb, offset });
        }
        self.array.program_with_oob(cx, peb, offset, data, oob)
    }

    fn read_oob(&mut self, cx: &mut Cx, peb: Peb, offset: u32, buf: &mut [u8]) -> Result<(), FlashError> {
        Flash::read_oob(&mut self.array, cx, peb, offset, buf)
    }

    fn erase(&mut self, cx: &mut Cx, peb: Peb) -> Result<(), FlashError> {
        self.array.erase(cx, peb)
    }

    fn is_bad(&self, peb: Peb) -> bool {
        self.array.is_bad(peb)
    }

    fn mark_bad(&mut self, cx: &mut Cx, peb: Peb) -> Result<(), FlashError> {
        self.array.mark_bad(cx, peb)
    }
}
