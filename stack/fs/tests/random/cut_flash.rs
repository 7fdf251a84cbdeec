//! A flash that loses power in the middle of an operation, and of which programs fail.
//!
//! What a power cut leaves:
//!
//! - of a program of NAND, the pages before the one that was being programmed; that one is untouched, partly programmed, or
//!   garbage, which ECC may say it cannot correct;
//! - of a program of NOR, some bytes from the first on, and of the next some of the bits that should fall;
//! - of an erasure, the old contents, all 0xFF, or garbage in some of the bytes.
//!
//! A failed program leaves what a power cut does, which ECC corrects, or all of it.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use sim::seam::{Flash, FlashError, Geometry, Medium, Payload, RamFlash, ReadStatus};
use sim::{Cx, Peb, Rng, Seed};

/// The flash. Clones are the same flash: one is the file system's, another switches power on.
#[derive(Clone, Debug)]
pub struct CutFlash(Rc<RefCell<State>>, Geometry);

#[derive(Debug)]
struct State {
    flash: RamFlash,
    /// Pages of NAND or programs of NOR, and erasures.
    events: u64,
    cut_at: Option<u64>,
    is_off: bool,
    /// Of 1000 programs so many fail.
    failing: u64,
    /// Pages that ECC cannot correct.
    uncorrectable: BTreeSet<(u32, u32)>,
    rng: Rng,
}

impl CutFlash {
    pub fn new(geometry: Geometry, seed: u64) -> CutFlash {
        let rng = Seed(seed).stream("fs/cut-flash");
        let flash = RamFlash::new(geometry);
        let uncorrectable = BTreeSet::new();
        let state = State { flash, events: 0, cut_at: None, is_off: false, failing: 0, uncorrectable, rng };
        CutFlash(Rc::new(RefCell::new(state)), geometry)
    }

    /// Number of operations so far that a power cut can interrupt.
    pub fn events(&self) -> u64 {
        self.0.borrow().events
    }

    /// Lets power fail in the event that follows `events` others; `None`: never.
    pub fn cut_after(&self, events: Option<u64>) {
        let mut state = self.0.borrow_mut();
        state.cut_at = events.map(|events| state.events + events);
    }

    /// Lets so many of 1000 programs fail from now on.
    pub fn fail(&self, per_mille: u64) {
        self.0.borrow_mut().failing = per_mille;
    }

    /// Lets power return.
    pub fn power_cycle(&self) {
        self.0.borrow_mut().is_off = false;
    }
}

impl State {
    fn is_on(&self) -> Result<(), FlashError> {
        if self.is_off { Err(FlashError::PowerLost) } else { Ok(()) }
    }

    /// Returns whether power is lost in the event.
    fn event(&mut self) -> bool {
        self.is_off = self.cut_at == Some(self.events);
        self.events += 1;
        self.is_off
    }

    fn fails(&mut self) -> bool {
        self.failing > 0 && self.rng.below(1000) < self.failing
    }

    /// What a page becomes in which power was lost. `None`: nothing was programmed, or nothing that can be seen.
    fn torn(&mut self, page: &[u8]) -> Option<Vec<u8>> {
        let done = self.rng.below(page.len() as u64 + 1) as usize;
        let mut torn = page.to_vec();
        match self.rng.below(4) {
            0 => return None,
            1 => torn[done..].fill(0xff),
            2 => torn[done..].iter_mut().for_each(|byte| *byte = self.rng.bits() as u8),
            _ => torn.fill_with(|| self.rng.bits() as u8),
        }
        torn.iter().any(|&byte| byte != 0xff).then_some(torn)
    }
}

impl Flash for CutFlash {
    const KEEPS_BYTES: bool = true;

    fn geometry(&self) -> &Geometry {
        &self.1
    }

    fn read(&mut self, cx: &mut Cx, peb: Peb, offset: u32, buf: &mut [u8]) -> Result<ReadStatus, FlashError> {
        let mut state = self.0.borrow_mut();
        state.is_on()?;
        let status = state.flash.read(cx, peb, offset, buf)?;
        let page = self.1.page_bytes;
        let pages = offset / page..(offset + buf.len() as u32).div_ceil(page);
        match pages.into_iter().find(|&number| state.uncorrectable.contains(&(peb.0, number))) {
            Some(number) => Err(FlashError::Uncorrectable { peb, offset: number * page }),
            None => Ok(status),
        }
    }

    fn program(&mut self, cx: &mut Cx, peb: Peb, offset: u32, data: Payload<'_>) -> Result<(), FlashError> {
        let state = &mut *self.0.borrow_mut();
        state.is_on()?;
        let bytes = data.bytes().expect("contents matter");
        if self.1.medium == Medium::Nor {
            let mut there = vec![0; bytes.len()];
            state.flash.read(cx, peb, offset, &mut there)?;
            let is_cut = state.event();
            if !is_cut && !state.fails() {
                return state.flash.program(cx, peb, offset, data);
            }
            let done = state.rng.below(bytes.len() as u64 + 1) as usize;
            let mut torn = bytes[..done].to_vec();
            if let Some(&next) = bytes.get(done) {
                torn.push(next | state.rng.bits() as u8);
            }
            state.flash.program(cx, peb, offset, Payload::Bytes(&torn))?;
            return Err(if is_cut { FlashError::PowerLost } else { FlashError::ProgramFailed { peb, offset } });
        }
        let page = self.1.page_bytes;
        for (at, bytes) in (offset..).step_by(page as usize).zip(bytes.chunks(page as usize)) {
            if !state.event() {
                if state.fails() {
                    let torn = if state.rng.chance(0.2) { Some(bytes.to_vec()) } else { state.torn(bytes) };
                    torn.map_or(Ok(()), |torn| state.flash.program(cx, peb, at, Payload::Bytes(&torn)))?;
                    return Err(FlashError::ProgramFailed { peb, offset: at });
                }
                state.flash.program(cx, peb, at, Payload::Bytes(bytes))?;
                continue;
            }
            if let Some(torn) = state.torn(bytes) {
                state.flash.program(cx, peb, at, Payload::Bytes(&torn))?;
                if torn != bytes && state.rng.chance(0.5) {
                    state.uncorrectable.insert((peb.0, at / page));
                }
            }
            return Err(FlashError::PowerLost);
        }
        Ok(())
    }

    fn read_oob(&mut self, cx: &mut Cx, peb: Peb, offset: u32, buf: &mut [u8]) -> Result<(), FlashError> {
        let mut state = self.0.borrow_mut();
        state.is_on()?;
        state.flash.read_oob(cx, peb, offset, buf)
    }

    fn program_oob(&mut self, cx: &mut Cx, peb: Peb, offset: u32, oob: &[u8]) -> Result<(), FlashError> {
        let mut state = self.0.borrow_mut();
        state.is_on()?;
        if state.event() && state.rng.chance(0.5) {
            return Err(FlashError::PowerLost);
        }
        state.flash.program_oob(cx, peb, offset, oob)?;
        state.is_on()
    }

    fn erase(&mut self, cx: &mut Cx, peb: Peb) -> Result<(), FlashError> {
        let state = &mut *self.0.borrow_mut();
        state.is_on()?;
        let fails = state.event();
        let mut contents = vec![0; self.1.peb_bytes as usize];
        state.flash.read(cx, peb, 0, &mut contents)?;
        let how = state.rng.below(3);
        if fails && how == 0 {
            return Err(FlashError::PowerLost);
        }
        state.flash.erase(cx, peb)?;
        state.uncorrectable.retain(|(block, _)| *block != peb.0);
        if !fails {
            return Ok(());
        }
        if how == 1 {
            // Some of the bits have not risen yet, in some bytes.
            let from = state.rng.below(contents.len() as u64) as usize;
            contents[..from].fill(0xff);
            contents[from..].iter_mut().for_each(|byte| *byte |= state.rng.bits() as u8);
            let page = self.1.page_bytes as usize;
            let first = from / page * page;
            state.flash.program(cx, peb, first as u32, Payload::Bytes(&contents[first..]))?;
        }
        Err(FlashError::PowerLost)
    }

    fn is_bad(&self, peb: Peb) -> bool {
        self.0.borrow().flash.is_bad(peb)
    }

    fn mark_bad(&mut self, cx: &mut Cx, peb: Peb) -> Result<(), FlashError> {
        let mut state = self.0.borrow_mut();
        state.is_on()?;
        state.flash.mark_bad(cx, peb)
    }
}
