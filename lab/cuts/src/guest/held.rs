//! The known-bad twin of raw flash that keeps what it programs: a chip that answers a program at once and holds it in a
//! volatile buffer.
//!
//! Programs reach the cells in order, each when the buffer has no room for a later one; an erasure is done at once, after
//! those of its block. A read finds what the buffer holds. So nothing shows until a power cut, which takes back the last
//! programs.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use guest::FlashCall;

/// Bytes that the buffer holds, data and OOB.
const BYTES: usize = 32 << 10;

/// A program that was answered and not done.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub address: u64,
    data: Arc<[u8]>,
    oob_at: u32,
    oob: Arc<[u8]>,
}

impl Program {
    fn bytes(&self) -> usize {
        self.data.len() + self.oob.len()
    }

    /// The call that does it.
    pub fn call(&self) -> FlashCall<'_> {
        FlashCall::Program { data: &self.data, oob_at: self.oob_at, oob: &self.oob }
    }
}

/// The buffer: programs in the order of their calls.
#[derive(Clone, Debug, Default)]
pub(super) struct Held(VecDeque<Program>);

impl Held {
    pub fn hold(&mut self, address: u64, data: &[u8], oob_at: u32, oob: &[u8]) {
        self.0.push_back(Program { address, data: data.into(), oob_at, oob: oob.into() });
    }

    /// The oldest program, if the buffer holds too much.
    pub fn too_much(&mut self) -> Option<Program> {
        let held: usize = self.0.iter().map(Program::bytes).sum();
        if held > BYTES { self.0.pop_front() } else { None }
    }

    /// The oldest program within these addresses.
    pub fn within(&mut self, addresses: &Range<u64>) -> Option<Program> {
        let at = self.0.iter().position(|program| addresses.contains(&program.address))?;
        self.0.remove(at)
    }

    /// Puts what it holds over what the cells read as: data at `address`, and OOB bytes of the page there from `oob_at`.
    pub fn show(&self, address: u64, page_bytes: u32, data: &mut [u8], oob_at: u32, oob: &mut [u8]) {
        for program in &self.0 {
            program_over(data, address, &program.data, program.address);
            if program.address / u64::from(page_bytes) == address / u64::from(page_bytes) {
                program_over(oob, oob_at.into(), &program.oob, program.oob_at.into());
            }
        }
    }
}

/// Programs the part of `new` that lies in `cells`; each begins at its place.
fn program_over(cells: &mut [u8], cells_at: u64, new: &[u8], new_at: u64) {
    let (from, to) = (cells_at.max(new_at), (cells_at + cells.len() as u64).min(new_at + new.len() as u64));
    if from < to {
        let inside = |at: u64| -> Range<usize> { (from - at) as usize..(to - at) as usize };
        cells[inside(cells_at)].iter_mut().zip(&new[inside(new_at)]).for_each(|(cell, new)| *cell &= new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_read_and_leaves_in_order_when_there_is_no_room() {
        let mut held = Held::default();
        held.hold(2048, &[0x0f; 2048], 2, &[1, 2]);
        held.hold(4096, &[0xf0; 4], 0, &[]);
        let (mut data, mut oob) = ([0xff; 2052], [0xff; 4]);
        held.show(2048, 2048, &mut data, 1, &mut oob);
        assert_eq!((data[0], data[2047], &data[2048..], oob), (0x0f, 0x0f, &[0xf0; 4][..], [0xff, 1, 2, 0xff]));
        let mut before = [0xff; 3];
        held.show(2046, 2048, &mut before, 0, &mut []);
        assert_eq!(before, [0xff, 0xff, 0x0f]);
        assert!(held.too_much().is_none());
        held.hold(6144, &vec![0; BYTES], 0, &[]);
        let left: Vec<u64> = std::iter::from_fn(|| held.too_much()).map(|program| program.address).collect();
        assert_eq!(left, [2048, 4096]);
        assert!(held.within(&(0..6144)).is_none());
        assert_eq!(held.within(&(6144..8192)).map(|program| program.address), Some(6144));
    }
}
