//! Reads of pages that are placed and not yet programmed: their contents come from the controller's memory.

use sim::seam::{BlockError, Flash, FlashError};

use super::Dispatcher;
use super::die::Deferred;
use super::io::IoKind;
use crate::ftl::{NONE, Step, UnitFtl};

/// Where the newest contents of a page are while its physical page is not programmed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Holder {
    /// In this page operation, a write of the whole page.
    Write(u32),
    /// In the first, a write of some sectors, merged with the second, a physical page.
    Over(u32, u32),
    /// Still at this physical page, the source of a copy. Its block is erased only after the copy.
    At(u32),
}

impl Holder {
    /// The holder for a page operation (or [`NONE`]) and the physical page that it copies or is merged with (or
    /// [`NONE`]).
    fn of(write: u32, from: u32) -> Holder {
        match (write, from) {
            (NONE, from) => Holder::At(from),
            (write, NONE) => Holder::Write(write),
            (write, from) => Holder::Over(write, from),
        }
    }
}

impl<F: Flash, M: UnitFtl> Dispatcher<F, M> {
    /// The holder of the newest contents of `lpn`, placed at `ppn`; `None` if they are in the cells.
    #[inline]
    pub(super) fn in_memory(&self, d: u32, unit: u32, lpn: u32, ppn: u32) -> Option<Holder> {
        if !self.recovering.is_empty()
            && let Some(&(_, _, write)) = self.recovering.iter().find(|&&(at, page, _)| (at, page) == (unit, lpn))
        {
            return Some(Holder::Write(write));
        }
        let die = &self.dies[d as usize];
        match die.deferred {
            Some(Deferred::Placed { write, at, old }) if at == ppn && self.ios[write].unit == unit => {
                let merges = self.ios[write].kind == IoKind::Merge;
                return Some(Holder::of(write, if merges { old } else { NONE }));
            }
            Some(Deferred::Step(of, Step::Copy { from, to, .. })) if (of, to) == (unit, ppn) => {
                return Some(Holder::At(from));
            }
            _ => {}
        }
        let ops = [&die.cache_register, &die.suspended, &die.held];
        ops.into_iter()
            .flatten()
            .find_map(|op| op.programs(unit, ppn).map(|page| Holder::of(op.io[page], op.from[page])))
    }

    /// The physical page whose cells a read of `lpn` would return if it were done now; [`NONE`] if it would return no
    /// cells as they are: the page is unmapped, lost, or not programmed yet.
    #[inline]
    pub(crate) fn in_cells(&self, unit: u32, lpn: u32) -> u32 {
        let ppn = self.units[unit as usize].lookup(lpn);
        let d = self.shape.die_of_unit(unit);
        let under_way = || {
            let op = &self.dies[d as usize].page_register;
            op.as_ref().is_some_and(|op| op.programs(unit, ppn).is_some())
        };
        if ppn == NONE || under_way() || self.in_memory(d, unit, lpn, ppn).is_some() || self.lost.contains(&(unit, ppn))
        {
            return NONE;
        }
        ppn
    }

    /// Serves a read from memory. Returns whether it could: the page is not in the cells yet, or is unmapped.
    #[inline]
    pub(super) fn read_from_memory(&mut self, d: u32, read: u32, unit: u32, lpn: u32, ppn: u32) -> bool {
        match self.in_memory(d, unit, lpn, ppn) {
            None => ppn == NONE,
            Some(holder) => {
                if let Some(page) = F::kept(|| self.held_contents(d, unit, holder, read)) {
                    self.ios.set_page(read, page, u128::MAX);
                }
                true
            }
        }
    }

    /// Contents of a holder. The physical page that a partial write is merged with may itself be in memory.
    fn held_contents(&mut self, d: u32, unit: u32, holder: Holder, read: u32) -> Vec<u8> {
        let (from, over) = match holder {
            Holder::Write(write) => {
                if self.lost_ios.contains(&write) {
                    self.ios[read].result = Err(BlockError::Uncorrectable { sector: 0 });
                }
                return self.ios.page(write).to_vec();
            }
            Holder::Over(write, from) => (from, Some(write)),
            Holder::At(from) => (from, None),
        };
        let mut page = match self.in_memory(d, unit, NONE, from) {
            Some(below) => self.held_contents(d, unit, below, read),
            None => {
                let mut page = Vec::new();
                self.fetch_into(read, unit, from, &mut page);
                page
            }
        };
        if let Some(write) = over {
            self.ios.overlay(write, &mut page);
        }
        page
    }

    /// Reads a page from the cells into `io`, if the flash keeps contents.
    #[inline]
    pub(super) fn fetch(&mut self, io: u32, unit: u32, ppn: u32) {
        if F::KEEPS_BYTES {
            let mut page = self.ios.take_page(io);
            self.fetch_into(io, unit, ppn, &mut page);
            self.ios.set_page(io, page, u128::MAX);
        }
    }

    /// Contents of a physical page in the cells. If it cannot be read or its contents are lost, `io` fails.
    fn fetch_into(&mut self, io: u32, unit: u32, ppn: u32, page: &mut Vec<u8>) {
        page.clear();
        page.resize(self.shape.page_bytes as usize, 0);
        match self.cells.read(unit, ppn, page) {
            Ok(_) if !self.lost.contains(&(unit, ppn)) => {}
            Err(FlashError::PowerLost) => {
                self.power_lost = true;
                self.ios[io].result = Err(BlockError::PowerLost);
            }
            Ok(_) | Err(_) => self.ios[io].result = Err(BlockError::Uncorrectable { sector: 0 }),
        }
    }
}
