//! Flash whose faults are set while it runs.

use std::collections::BTreeSet;

use sim::seam::{Flash, FlashError, Geometry, Payload, RamFlash, ReadStatus};
use sim::{Cx, Peb};

/// RAM flash with faults on demand.
#[derive(Clone)]
pub struct Faulty {
    ram: RamFlash,
    /// Blocks whose reads need correction until they are erased.
    pub tired: BTreeSet<u32>,
    /// Blocks that are unreadable from this offset on, until they are erased.
    pub unreadable: BTreeSet<u32>,
    unreadable_from: u32,
    /// Blocks whose programs all fail.
    pub unwritable: BTreeSet<u32>,
    /// Blocks whose erases all fail.
    pub unerasable: BTreeSet<u32>,
    /// Every block written from now on is tired.
    pub ages_at_once: bool,
    /// Programs that will fail, counted from the first.
    pub failing_programs: BTreeSet<u64>,
    /// Programs done.
    pub programs: u64,
    /// Erases that will fail, counted from the first.
    pub failing_erases: BTreeSet<u64>,
    /// Erases done.
    pub erases: u64,
    /// Programs and erases until power fails.
    pub ops_left: u64,
}

impl Faulty {
    pub fn new(geometry: Geometry) -> Faulty {
        Faulty {
            ram: RamFlash::new(geometry),
            tired: BTreeSet::new(),
            unreadable: BTreeSet::new(),
            unreadable_from: 2 * geometry.page_bytes,
            unwritable: BTreeSet::new(),
            unerasable: BTreeSet::new(),
            ages_at_once: false,
            failing_programs: BTreeSet::new(),
            programs: 0,
            failing_erases: BTreeSet::new(),
            erases: 0,
            ops_left: u64::MAX,
        }
    }

    /// The next `count` programs fail.
    pub fn fail_programs(&mut self, count: u64) {
        self.failing_programs.extend(self.programs..self.programs + count);
    }

    fn operate(&mut self) -> Result<(), FlashError> {
        self.ops_left = self.ops_left.checked_sub(1).ok_or(FlashError::PowerLost)?;
        Ok(())
    }
}

impl Flash for Faulty {
    const KEEPS_BYTES: bool = true;

    fn geometry(&self) -> &Geometry {
        self.ram.geometry()
    }

    fn read(&mut self, cx: &mut Cx, peb: Peb, offset: u32, buf: &mut [u8]) -> Result<ReadStatus, FlashError> {
        let mut status = self.ram.read(cx, peb, offset, buf)?;
        if self.unreadable.contains(&peb.0) && offset >= self.unreadable_from {
            return Err(FlashError::Uncorrectable { peb, offset });
        }
        status.scrub = self.tired.contains(&peb.0);
        Ok(status)
    }

    fn program(&mut self, cx: &mut Cx, peb: Peb, offset: u32, data: Payload<'_>) -> Result<(), FlashError> {
        self.operate()?;
        self.ram.program(cx, peb, offset, data)?;
        if self.ages_at_once && offset >= self.unreadable_from {
            self.tired.insert(peb.0);
        }
        self.programs += 1;
        if self.unwritable.contains(&peb.0) || self.failing_programs.remove(&(self.programs - 1)) {
            return Err(FlashError::ProgramFailed { peb, offset });
        }
        Ok(())
    }

    fn erase(&mut self, cx: &mut Cx, peb: Peb) -> Result<(), FlashError> {
        self.operate()?;
        self.ram.erase(cx, peb)?;
        self.tired.remove(&peb.0);
        self.unreadable.remove(&peb.0);
        self.erases += 1;
        if self.unerasable.contains(&peb.0) || self.failing_erases.remove(&(self.erases - 1)) {
            return Err(FlashError::EraseFailed { peb });
        }
        Ok(())
    }

    fn is_bad(&self, peb: Peb) -> bool {
        self.ram.is_bad(peb)
    }

    fn mark_bad(&mut self, cx: &mut Cx, peb: Peb) -> Result<(), FlashError> {
        self.operate()?;
        self.ram.mark_bad(cx, peb)
    }
}
