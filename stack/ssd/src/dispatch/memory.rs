//! Pages on their way into the cells: placed, and not programmed yet. They are read from the controller's memory.

use sim::seam::{BlockError, Flash, FlashError};

use super::Dispatcher;
use super::die::Deferred;
use super::io::IoKind;
use crate::ftl::{NONE, Step, UnitFtl};

/// Where a page's newest contents are while its place is not programmed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Holder {
    /// In a write of a whole page.
    Write(u32),
    /// In a write of some sectors, over this physical page.
    Over(u32, u32),
    /// Still at the place from which they are copied: it is erased only after the copy.
    At(u32),
}

impl Holder {
    /// Of an operation's or a deferred write's page operation, and the page below or before it.
    fn of(write: u32, from: u32) -> Holder {
        match (write, from) {
            (NONE, from) => Holder::At(from),
            (write, NONE) => Holder::Write(write),
            (write, from) => Holder::Over(write, from),
        }
    }
}

impl<F: Flash, M: UnitFtl> Dispatcher<F, M> {
    /// Who holds the newest contents of `lpn`, placed at `ppn`, if the cells do not.
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

    /// Serves a read from memory, or of a page that holds nothing. Whether it was such a one.
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

    /// Contents that a holder has. What lies below some sectors may itself be on its way.
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
            None => self.fetched(read, unit, from),
        };
        if let Some(write) = over {
            self.ios.overlay(write, &mut page);
        }
        page
    }

    /// What a physical page of a unit has in its cells, whatever that is; zeroes if it cannot be read.
    pub(crate) fn contents_at(&mut self, unit: u32, ppn: u32) -> Vec<u8> {
        let mut page = self.blank_page();
        if ppn != NONE && self.cells.read(unit, ppn, &mut page).is_err() {
            page.fill(0);
        }
        page
    }

    /// Reads a page's contents, if they are kept, for `io`.
    #[inline]
    pub(super) fn fetch(&mut self, io: u32, unit: u32, ppn: u32) {
        if let Some(page) = F::kept(|| self.fetched(io, unit, ppn)) {
            self.ios.set_page(io, page, u128::MAX);
        }
    }

    /// What a physical page of a unit has in its cells, for `io`, which fails if it cannot be read.
    fn fetched(&mut self, io: u32, unit: u32, ppn: u32) -> Vec<u8> {
        let mut page = self.blank_page();
        match self.cells.read(unit, ppn, &mut page) {
            Ok(_) if !self.lost.contains(&(unit, ppn)) => {}
            Err(FlashError::PowerLost) => {
                self.power_lost = true;
                self.ios[io].result = Err(BlockError::PowerLost);
            }
            Ok(_) | Err(_) => self.ios[io].result = Err(BlockError::Uncorrectable { sector: 0 }),
        }
        page
    }
}
