//! The flash as one range of bytes, with the price of the processor's work, and a count of all of it.

use std::ops::{Add, AddAssign, Sub};

use sim::seam::{Flash, FsError, LebError, Payload};
use sim::{CpuPrice, Cx, Ns, Peb};

/// Result of an operation.
pub(super) type Result<T> = std::result::Result<T, FsError>;

/// What was done, and the time that it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Elements of lists that the processor visited: nodes of a file in the order of versions or of contents, and nodes
    /// found on the flash.
    pub nodes: u64,
    /// Bytes that it summed or compared.
    pub summed: u64,
    /// Bytes that it copied.
    pub copied: u64,
    /// Bytes read from the flash.
    pub read: u64,
    /// Bytes programmed.
    pub programmed: u64,
    /// Sectors erased.
    pub erased: u64,
    /// Time of the processor.
    pub cpu: Ns,
    /// Time of reads: the bus of the flash.
    pub bus: Ns,
    /// Time of programs.
    pub program: Ns,
    /// Time of erases.
    pub erase: Ns,
}

impl Work {
    /// All the time that it took.
    pub fn time(&self) -> Ns {
        self.cpu + self.bus + self.program + self.erase
    }

    fn merge(self, other: Work, ns: fn(u64, u64) -> u64) -> Work {
        let times = |one: Ns, two: Ns| Ns(ns(one.0, two.0));
        Work {
            nodes: ns(self.nodes, other.nodes),
            summed: ns(self.summed, other.summed),
            copied: ns(self.copied, other.copied),
            read: ns(self.read, other.read),
            programmed: ns(self.programmed, other.programmed),
            erased: ns(self.erased, other.erased),
            cpu: times(self.cpu, other.cpu),
            bus: times(self.bus, other.bus),
            program: times(self.program, other.program),
            erase: times(self.erase, other.erase),
        }
    }
}

impl Add for Work {
    type Output = Work;
    fn add(self, other: Work) -> Work {
        self.merge(other, |one, two| one + two)
    }
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Work) {
        *self = *self + other;
    }
}

impl Sub for Work {
    type Output = Work;
    fn sub(self, earlier: Work) -> Work {
        self.merge(earlier, |one, two| one - two)
    }
}

/// The flash, the prices, and what was done since the mount began.
#[derive(Clone, Debug)]
pub(super) struct Medium<F> {
    pub flash: F,
    pub cpu: CpuPrice,
    pub done: Work,
}

fn failed(error: sim::seam::FlashError) -> FsError {
    FsError::Medium(LebError::Flash(error))
}

impl<F: Flash> Medium<F> {
    /// Bytes of a sector.
    pub fn sector(&self) -> u32 {
        self.flash.geometry().peb_bytes
    }

    /// Block and offset of a byte, and how many bytes of `length` are in that block.
    fn place(&self, at: u32, length: usize) -> (Peb, u32, usize) {
        let sector = self.sector();
        let offset = at % sector;
        (Peb(at / sector), offset, length.min((sector - offset) as usize))
    }

    /// Reads from byte `at` on into memory.
    pub fn read(&mut self, cx: &mut Cx, at: u32, mut into: &mut [u8]) -> Result<()> {
        let began = cx.now();
        let (mut at, length) = (at, into.len() as u64);
        while !into.is_empty() {
            let (peb, offset, length) = self.place(at, into.len());
            let (here, rest) = into.split_at_mut(length);
            self.flash.read(cx, peb, offset, here).map_err(failed)?;
            (into, at) = (rest, at + length as u32);
        }
        self.done.read += length;
        self.done.bus += cx.now() - began;
        self.copy(cx, length);
        Ok(())
    }

    /// Programs bytes from byte `at` on.
    pub fn program(&mut self, cx: &mut Cx, at: u32, mut bytes: &[u8]) -> Result<()> {
        let began = cx.now();
        self.done.programmed += bytes.len() as u64;
        let mut at = at;
        while !bytes.is_empty() {
            let (peb, offset, length) = self.place(at, bytes.len());
            let (here, rest) = bytes.split_at(length);
            self.flash.program(cx, peb, offset, Payload::Bytes(here)).map_err(failed)?;
            (bytes, at) = (rest, at + length as u32);
        }
        self.done.program += cx.now() - began;
        Ok(())
    }

    /// Erases the sector that begins at byte `at`.
    pub fn erase(&mut self, cx: &mut Cx, at: u32) -> Result<()> {
        let began = cx.now();
        let (peb, ..) = self.place(at, 0);
        self.flash.erase(cx, peb).map_err(failed)?;
        self.done.erased += 1;
        self.done.erase += cx.now() - began;
        Ok(())
    }

    fn spend(&mut self, cx: &mut Cx, span: Ns) {
        self.done.cpu += span;
        cx.spend(span);
    }

    /// The processor visits `nodes` elements of a list.
    pub fn visit(&mut self, cx: &mut Cx, nodes: u64) {
        self.done.nodes += nodes;
        self.spend(cx, self.cpu.nodes(nodes));
    }

    /// It sums or compares `bytes`.
    pub fn sum(&mut self, cx: &mut Cx, bytes: u64) {
        self.done.summed += bytes;
        self.spend(cx, self.cpu.crc(bytes));
    }

    /// It copies `bytes`.
    pub fn copy(&mut self, cx: &mut Cx, bytes: u64) {
        self.done.copied += bytes;
        self.spend(cx, self.cpu.copy(bytes));
    }
}
