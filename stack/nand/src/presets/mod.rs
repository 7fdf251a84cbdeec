//! Real parts by name, every figure with its source.
//!
//! Knows what data sheets and Linux's chip tables say. Does not know which part suits whom. A figure whose source is
//! [`RECALLED`] was not read again when it was written down: use it for design, never as acceptance data.
//!
//! Invariants, held by tests: names are unique, every part makes a valid [`ArrayConfig`], every figure has a source.

mod nandsim_id;
mod nor;
mod raw;
mod spi;

use std::fmt;

pub use nandsim_id::{DEFAULT_ID as NANDSIM_DEFAULT_ID, NandsimChip, UnknownId, by_nandsim_id};
use sim::Ns;
use sim::seam::{Geometry, Medium};
use thiserror::Error;

use crate::config::{ArrayConfig, HostPrice, Layout, NorRule, PageOrder, Rules};
use crate::ecc::Ecc;
use crate::fault::FaultPlan;
use crate::timing::{BusMode, CellTimes, Timing};
use crate::wearout::{BitErrors, WearOut};

/// The source of a figure that was written down from memory.
pub const RECALLED: &str = "recalled, unverified";

/// A number and where it is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure<T> {
    /// The number.
    pub value: T,
    /// Document, or table of a source file.
    pub source: &'static str,
}

impl<T> Figure<T> {
    const fn of(value: T, source: &'static str) -> Figure<T> {
        Figure { value, source }
    }

    const fn recalled(value: T) -> Figure<T> {
        Figure { value, source: RECALLED }
    }

    /// Whether the whole figure was read in its source. That source may speak of the part's kind: it then says so.
    pub fn is_verified(&self) -> bool {
        !self.source.contains("recalled")
    }
}

/// What kind of part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One bit per cell, parallel bus.
    Slc,
    /// Two bits per cell, parallel bus.
    Mlc,
    /// Three bits per cell, parallel bus.
    Tlc,
    /// SLC NAND behind SPI.
    SpiNand,
    /// NOR on a memory bus.
    ParallelNor,
    /// NOR behind SPI.
    SpiNor,
}

impl Kind {
    /// Whether it is a NOR.
    pub const fn is_nor(self) -> bool {
        matches!(self, Kind::ParallelNor | Kind::SpiNor)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Slc => "SLC NAND",
            Kind::Mlc => "MLC NAND",
            Kind::Tlc => "TLC NAND",
            Kind::SpiNand => "SPI NAND",
            Kind::ParallelNor => "parallel NOR",
            Kind::SpiNor => "SPI NOR",
        })
    }
}

/// A flash part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// The maker's name for it, without package and speed grade.
    pub name: &'static str,
    /// Who makes it.
    pub vendor: &'static str,
    /// Kind of part.
    pub kind: Kind,
    /// Blocks, pages, OOB. The sub-page is what Linux programs with this part's ECC.
    pub geometry: Figure<Geometry>,
    /// Planes of the (one) die.
    pub planes: Figure<u32>,
    /// Page to register, typical where the sheet has it, else largest, in ns. NOR: 0, it is read at bus speed.
    pub read_ns: Figure<u64>,
    /// Typical program, in ns: of a page; on NOR of one byte, at the rate of a full write buffer.
    pub program_ns: Figure<u64>,
    /// Typical block erase, in ns.
    pub erase_ns: Figure<u64>,
    /// The interface at its fastest.
    pub bus: Figure<BusMode>,
    /// The code that the part asks for, its own or the controller's; `None` on NOR.
    pub ecc: Figure<Option<Ecc>>,
    /// Rated program–erase cycles.
    pub endurance_cycles: Figure<u32>,
    /// Rated data retention in years.
    pub retention_years: Figure<u32>,
    /// Programs of a page between two erases (NOP).
    pub programs_per_page: Figure<u8>,
    /// What it answers to READ ID; empty where unknown.
    pub id: Figure<&'static [u8]>,
}

impl Part {
    /// The part as an array: its bus and cell times, its rules, its ECC; no faults, and a host that copies for free.
    pub fn config(&self) -> ArrayConfig {
        let cells = CellTimes {
            read: Ns(self.read_ns.value),
            program: Ns(self.program_ns.value),
            erase: Ns(self.erase_ns.value),
        };
        let order = match self.kind {
            Kind::Mlc | Kind::Tlc => PageOrder::Consecutive,
            _ => PageOrder::Ascending,
        };
        ArrayConfig {
            geometry: self.geometry.value,
            layout: Layout { planes: self.planes.value, ..Layout::SINGLE },
            rules: Rules { order, programs_per_page: self.programs_per_page.value, nor: NorRule::RefuseRaise },
            timing: Timing::Bus { mode: self.bus.value, cells },
            host: HostPrice::FREE,
            ecc: self.ecc.value,
            faults: None,
        }
    }

    /// What wears out and flips in the part as the laboratory models it: [`WearOut::by_rating`] and, on NAND,
    /// [`BitErrors::by_rating`]. Factory bad blocks are not in it.
    pub fn faults(&self, seed: sim::Seed) -> FaultPlan {
        let cycles = self.endurance_cycles.value;
        FaultPlan {
            wear_out: Some(WearOut::by_rating(cycles)),
            bit_errors: (!self.kind.is_nor()).then(|| BitErrors::by_rating(cycles)),
            ..FaultPlan::none(seed)
        }
    }

    /// Every figure's name and source, in the order of the fields.
    pub fn sources(&self) -> [(&'static str, &'static str); 10] {
        [
            ("geometry", self.geometry.source),
            ("planes", self.planes.source),
            ("read", self.read_ns.source),
            ("program", self.program_ns.source),
            ("erase", self.erase_ns.source),
            ("bus", self.bus.source),
            ("ecc", self.ecc.source),
            ("endurance", self.endurance_cycles.source),
            ("retention", self.retention_years.source),
            ("programs_per_page", self.programs_per_page.source),
        ]
    }
}

/// Every part, NAND before NOR.
pub fn all() -> impl Iterator<Item = &'static Part> {
    raw::PARTS.iter().chain(spi::PARTS).chain(nor::PARTS)
}

/// The part of that name; case does not matter.
/// Errors: there is none, and these names are nearest.
pub fn by_name(name: &str) -> Result<&'static Part, UnknownPart> {
    all().find(|part| part.name.eq_ignore_ascii_case(name)).ok_or_else(|| {
        let mut near: Vec<_> = all().map(|part| (distance(name, part.name), part.name)).collect();
        near.sort();
        UnknownPart { name: name.to_owned(), nearest: near.iter().take(3).map(|&(_, name)| name).collect() }
    })
}

/// A name that no part has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no part is called {name:?}; nearest are {}", nearest.join(", "))]
pub struct UnknownPart {
    /// The name asked for.
    pub name: String,
    /// The three nearest names, the nearest first.
    pub nearest: Vec<&'static str>,
}

/// Levenshtein's distance, letters' case apart.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<u8> = b.bytes().map(|c| c.to_ascii_uppercase()).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.bytes().map(|c| c.to_ascii_uppercase()).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// A NAND's geometry from what tables list.
const fn nand(pebs: u32, pages: u32, page_bytes: u32, oob_bytes: u32, subpage_bytes: u32) -> Geometry {
    Geometry { medium: Medium::Nand, pebs, peb_bytes: pages * page_bytes, page_bytes, subpage_bytes, oob_bytes }
}

/// A NOR's geometry.
const fn nor(pebs: u32, peb_bytes: u32) -> Geometry {
    Geometry { medium: Medium::Nor, pebs, peb_bytes, page_bytes: 1, subpage_bytes: 1, oob_bytes: 0 }
}

const fn us(us: u64) -> u64 {
    us * 1_000
}

const fn ms(ms: u64) -> u64 {
    ms * 1_000_000
}
