//! nandsim's device: the one whose ID bytes its user gives.
//!
//! nandsim has no part list of its own: `id_bytes` go through the kernel's NAND identification, full IDs first, then
//! the device code's capacity with the page geometry of the fourth byte, then small-page parts by their code alone.
//! Source: Linux 6.12 `drivers/mtd/nand/raw/nand_ids.c` (codes, full IDs) and `nand_base.c` (fourth byte, sub-pages).

use sim::seam::{Geometry, Medium};
use thiserror::Error;

use crate::config::{ArrayConfig, HostPrice, Layout, NorRule, PageOrder, Rules};
use crate::ecc::Ecc;
use crate::timing::Timing;

/// nandsim's default ID bytes: a 128 MiB small-page part.
pub const NANDSIM_DEFAULT_ID: [u8; 2] = [0x98, 0x39];

/// What nandsim makes of ID bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NandsimChip {
    /// Blocks, pages, OOB; the sub-page is the kernel's for software Hamming ECC on SLC: half a page of two code steps,
    /// a quarter of a page of more, none on MLC.
    pub geometry: Geometry,
    /// Width of the bus, 8 or 16.
    pub bus_bits: u32,
    /// Bits per cell by the third byte, 1 where it is not given.
    pub bits_per_cell: u32,
}

impl NandsimChip {
    /// The array as nandsim simulates it by default: delays off, software Hamming ECC (1 bit per 256 bytes), no faults.
    /// nandsim itself enforces no page order and no NOP; here SLC rules are enforced, as a real part would.
    pub fn config(&self) -> ArrayConfig {
        let per_page = self.geometry.page_bytes / self.geometry.subpage_bytes;
        ArrayConfig {
            geometry: self.geometry,
            layout: Layout::SINGLE,
            rules: Rules { order: PageOrder::Ascending, programs_per_page: per_page as u8, nor: NorRule::And },
            timing: Timing::NandsimOff,
            host: HostPrice::FREE,
            ecc: Some(Ecc::new(1, 256)),
            faults: None,
        }
    }
}

/// ID bytes of no part that the kernel knows.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("ID bytes {id:02x?}: {why}")]
pub struct UnknownId {
    /// The bytes.
    pub id: Vec<u8>,
    /// What is wrong with them.
    pub why: &'static str,
}

/// A part with incompatible ID bytes, known by all of them.
struct FullId {
    id: &'static [u8],
    mib: u32,
    peb_kib: u32,
    page_kib: u32,
    oob_bytes: u32,
}

const FULL_IDS: &[FullId] = &[
    full(&[0x98, 0xd1, 0x90, 0x15, 0x76, 0x14, 0x01, 0x00], 128, 128, 2, 64),
    full(&[0x98, 0xdc, 0x90, 0x26, 0x76, 0x15, 0x01, 0x08], 512, 256, 4, 224),
    full(&[0x98, 0xdc, 0x90, 0x26, 0x76, 0x16, 0x08, 0x00], 512, 256, 4, 256),
    full(&[0x98, 0xd3, 0x90, 0x26, 0x76, 0x15, 0x02, 0x08], 1024, 256, 4, 232),
    full(&[0x98, 0xd7, 0x94, 0x32, 0x76, 0x56, 0x09, 0x00], 4096, 1024, 8, 640),
    full(&[0x98, 0xde, 0x94, 0x82, 0x76, 0x56, 0x04, 0x20], 8192, 2048, 8, 640),
    full(&[0x45, 0xde, 0x94, 0x93, 0x76, 0x57], 8192, 4096, 16, 1280),
    full(&[0x45, 0xde, 0x94, 0x93, 0x76, 0x50], 8192, 4096, 16, 1280),
    full(&[0xad, 0xde, 0x94, 0xda, 0x74, 0xc4], 8192, 2048, 8, 640),
    full(&[0xad, 0xde, 0x14, 0xa7, 0x42, 0x4a], 8192, 4096, 16, 1664),
    full(&[0x98, 0xdc, 0x91, 0x15, 0x76], 512, 128, 2, 128),
    full(&[0x98, 0xd3, 0x91, 0x26, 0x76], 1024, 256, 4, 256),
];

const fn full(id: &'static [u8], mib: u32, peb_kib: u32, page_kib: u32, oob_bytes: u32) -> FullId {
    FullId { id, mib, peb_kib, page_kib, oob_bytes }
}

/// Small-page parts: capacity in MiB, block in KiB, bus width.
fn small_page(code: u8) -> Option<(u32, u32, u32)> {
    Some(match code {
        0x6b | 0xe3 | 0xe5 => (4, 8, 8),
        0xd6 | 0xe6 => (8, 8, 8),
        0x33 | 0x73 => (16, 16, 8),
        0x43 | 0x53 => (16, 16, 16),
        0x35 | 0x75 => (32, 16, 8),
        0x45 | 0x55 => (32, 16, 16),
        0x36 | 0x76 => (64, 16, 8),
        0x46 | 0x56 => (64, 16, 16),
        0x78 | 0x39 | 0x79 => (128, 16, 8),
        0x72 | 0x49 | 0x74 | 0x59 => (128, 16, 16),
        0x71 => (256, 16, 8),
        _ => return None,
    })
}

/// Large-page parts: capacity in MiB.
fn large_page(code: u8) -> Option<u32> {
    Some(match code {
        0xa2 | 0xa0 | 0xf2 | 0xd0 | 0xf0 | 0xb2 | 0xb0 | 0xc2 | 0xc0 => 64,
        0xa1 | 0xf1 | 0xd1 | 0xb1 | 0xc1 | 0xad => 128,
        0xaa | 0xda | 0xba | 0xca => 256,
        0xac | 0xdc | 0xbc | 0xcc => 512,
        0xa3 | 0xd3 | 0xb3 | 0xc3 => 1024,
        0xa5 | 0xd5 | 0xb5 | 0xc5 => 2048,
        0xa7 | 0xd7 | 0xb7 | 0xc7 => 4096,
        0xae | 0xde | 0xbe | 0xce => 8192,
        0x1a | 0x3a | 0x2a | 0x4a => 16384,
        0x1c | 0x3c | 0x2c | 0x4c => 32768,
        0x1e | 0x3e | 0x2e | 0x4e => 65536,
        _ => return None,
    })
}

/// The device that nandsim simulates for these ID bytes: maker, device code, and for large pages cell type and geometry.
/// nandsim itself refuses pages other than 512, 2048 and 4096 bytes; here every page that the kernel decodes is taken.
/// Errors: too few bytes, or a code that the kernel does not know.
pub fn by_nandsim_id(id: &[u8]) -> Result<NandsimChip, UnknownId> {
    let unknown = |why| UnknownId { id: id.to_vec(), why };
    let [_, code, ..] = *id else { return Err(unknown("needs maker and device code, two bytes")) };
    let bits_per_cell = id.get(2).map_or(1, |third| u32::from(third >> 2 & 3) + 1);
    let chip = |mib: u32, peb_bytes: u32, page_bytes: u32, oob_bytes: u32, bus_bits| {
        let pebs = (u64::from(mib) << 20) / u64::from(peb_bytes);
        let subpage_bytes = match (bits_per_cell, page_bytes / 256) {
            (1, 2) => page_bytes / 2,
            (1, 4 | 8 | 16) => page_bytes / 4,
            _ => page_bytes,
        };
        let medium = Medium::Nand;
        let geometry = Geometry { medium, pebs: pebs as u32, peb_bytes, page_bytes, subpage_bytes, oob_bytes };
        NandsimChip { geometry, bus_bits, bits_per_cell }
    };
    if let Some(known) = FULL_IDS.iter().find(|known| id.starts_with(known.id)) {
        return Ok(chip(known.mib, known.peb_kib << 10, known.page_kib << 10, known.oob_bytes, 8));
    }
    if let Some((mib, peb_kib, bus_bits)) = small_page(code) {
        return Ok(chip(mib, peb_kib << 10, 512, 16, bus_bits));
    }
    let Some(mib) = large_page(code) else { return Err(unknown("a device code that nand_ids.c does not list")) };
    let Some(&fourth) = id.get(3) else { return Err(unknown("a large-page code needs four bytes")) };
    let page_bytes = 1024 << (fourth & 3);
    let oob_bytes = (8 << (fourth >> 2 & 1)) * (page_bytes / 512);
    let peb_bytes = (64 * 1024) << (fourth >> 4 & 3);
    Ok(chip(mib, peb_bytes, page_bytes, oob_bytes, if fourth >> 6 & 1 == 1 { 16 } else { 8 }))
}
