//! Sparse memory for runs whose files have no bytes of their own: what was programmed to zeroes takes no memory.
//!
//! Invariant: each entry of `cells` belongs to one unit.

use std::ops::Range;

use sim::Peb;
use sim::seam::{Geometry, Payload, is_erased, is_zero};

use super::{Store, and_into, end_of_data, sealed::Sealed};

/// Bytes that are kept together.
const UNIT: usize = 128;
/// A unit whose bits are all set.
const ERASED: u32 = u32::MAX;
/// A unit whose bits are all clear.
const ZERO: u32 = u32::MAX - 1;

/// Cells of one block.
#[derive(Clone, Debug)]
struct Block {
    /// For each unit [`ERASED`], [`ZERO`], or the number of the unit of `cells` that holds it.
    units: Box<[u32]>,
    cells: Vec<[u8; UNIT]>,
}

impl Block {
    fn erased(bytes: u32) -> Block {
        Block { units: vec![ERASED; (bytes as usize).div_ceil(UNIT)].into(), cells: Vec::new() }
    }

    /// Programs a part of a unit.
    fn program(&mut self, unit: usize, begin: usize, data: Payload<'_>) {
        let clears_all = clears_all(data);
        if !clears_all && matches!(data, Payload::Bytes(bytes) if is_erased(bytes)) {
            return;
        }
        let held = match self.units[unit] {
            ZERO => return,
            ERASED if clears_all && data.len() as usize == UNIT => {
                self.units[unit] = ZERO;
                return;
            }
            ERASED => {
                self.units[unit] = self.cells.len() as u32;
                self.cells.push([0xff; UNIT]);
                self.cells.last_mut().expect("it was just put there")
            }
            place => &mut self.cells[place as usize],
        };
        and_into(&mut held[begin..begin + data.len() as usize], data);
    }

    /// Programs whole units to zeroes.
    fn clear(&mut self, units: Range<usize>) {
        for unit in &mut self.units[units] {
            match *unit {
                ERASED | ZERO => *unit = ZERO,
                place => self.cells[place as usize].fill(0),
            }
        }
    }

    fn read(&self, unit: usize, begin: usize, buf: &mut [u8]) {
        match self.units[unit] {
            ERASED => buf.fill(0xff),
            ZERO => buf.fill(0),
            place => buf.copy_from_slice(&self.cells[place as usize][begin..begin + buf.len()]),
        }
    }

    fn programmed_end(&self) -> u32 {
        let ends = |(unit, &place): (usize, &u32)| match place {
            ERASED => None,
            ZERO => Some((unit + 1) * UNIT),
            place => match end_of_data(&self.cells[place as usize]) {
                0 => None,
                end => Some(unit * UNIT + end),
            },
        };
        self.units.iter().enumerate().rev().find_map(ends).unwrap_or(0) as u32
    }
}

/// Keeps what was programmed, in memory, without OOB. Zeroes take a thirtieth of their length, so that a file system whose
/// files hold nothing but zeroes takes the memory of its nodes.
#[derive(Clone, Debug, Default)]
pub struct Sparse {
    blocks: Vec<Option<Block>>,
    peb_bytes: u32,
}

impl Sparse {
    /// A store of erased cells.
    pub fn new() -> Sparse {
        Sparse::default()
    }
}

/// Whether data have every bit clear.
fn clears_all(data: Payload<'_>) -> bool {
    match data {
        Payload::Bytes(bytes) => is_zero(bytes),
        Payload::Length(_) => true,
    }
}

/// Calls `each` with every unit that `len` bytes at `offset` touch, where they begin in it, and which of them those are.
#[inline]
fn by_unit(offset: u32, len: usize, mut each: impl FnMut(usize, usize, Range<usize>)) {
    let (mut done, mut at) = (0, offset as usize);
    while done < len {
        let begin = at % UNIT;
        let take = (UNIT - begin).min(len - done);
        each(at / UNIT, begin, done..done + take);
        done += take;
        at += take;
    }
}

impl Sealed for Sparse {}

impl Store for Sparse {
    const KEEPS_BYTES: bool = true;

    fn attach(&mut self, geometry: &Geometry) {
        self.peb_bytes = geometry.peb_bytes;
        self.blocks.resize_with(geometry.pebs as usize, || None);
    }

    #[inline]
    fn read(&self, peb: Peb, offset: u32, buf: &mut [u8]) {
        match &self.blocks[peb.at()] {
            Some(block) => by_unit(offset, buf.len(), |unit, begin, part| block.read(unit, begin, &mut buf[part])),
            None => buf.fill(0xff),
        }
    }

    #[inline]
    fn program(&mut self, peb: Peb, offset: u32, data: Payload<'_>) {
        let block = self.blocks[peb.at()].get_or_insert_with(|| Block::erased(self.peb_bytes));
        let (begin, end) = (offset as usize, (offset + data.len()) as usize);
        if begin.is_multiple_of(UNIT) && end.is_multiple_of(UNIT) && clears_all(data) {
            return block.clear(begin / UNIT..end / UNIT);
        }
        by_unit(offset, data.len() as usize, |unit, begin, part| {
            block.program(unit, begin, data.part(part.start as u32, part.len() as u32));
        });
    }

    #[inline]
    fn erase(&mut self, peb: Peb) {
        self.blocks[peb.at()] = None;
    }

    fn replace(&mut self, peb: Peb, data: &[u8]) {
        self.erase(peb);
        let end = end_of_data(data);
        if end > 0 {
            self.program(peb, 0, Payload::Bytes(&data[..end]));
        }
    }

    #[inline]
    fn is_known_erased(&self, peb: Peb) -> bool {
        self.blocks[peb.at()].is_none()
    }

    fn programmed_end(&self, peb: Peb) -> u32 {
        self.blocks[peb.at()].as_ref().map_or(0, Block::programmed_end)
    }

    fn keeps_oob(&self) -> bool {
        false
    }

    fn read_oob(&self, _: Peb, _: u32, buf: &mut [u8]) {
        buf.fill(0xff);
    }

    fn program_oob(&mut self, _: Peb, _: u32, _: &[u8]) {}

    fn held_bytes(&self) -> usize {
        let held = |block: &Block| size_of_val(&*block.units) + block.cells.capacity() * UNIT;
        self.blocks.iter().flatten().map(held).sum::<usize>() + self.blocks.capacity() * size_of::<Option<Block>>()
    }
}
