//! Configuration of an array; every choice is explicit.
//!
//! Nothing here has a hidden default: [`ArrayConfig::plain`] and a part's file fill every field, so a result can be
//! stored with all of them. [`ArrayConfig::validate`] checks configurations that users wrote;
//! [`Array::new`](crate::Array::new) panics on one that it refuses.

use sim::seam::{Geometry, Medium};
use sim::{CpuPrice, Ns};
use thiserror::Error;

use crate::ecc::Ecc;
use crate::fault::FaultPlan;
use crate::timing::Timing;

/// How eraseblocks are spread over channels, dies and planes.
///
/// A die holds a contiguous range of blocks, as the address of a packaged part does: die `d` of `D` holds PEBs
/// `d·pebs/D` up to `(d+1)·pebs/D`. Die `d` sits on channel `d mod channels`, so that neighbouring dies do not share a
/// bus. Within a die the lowest bits of the block number select the plane, as data sheets have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Channels (buses).
    pub channels: u32,
    /// Dies on each channel.
    pub dies_per_channel: u32,
    /// Planes per die.
    pub planes: u32,
}

impl Layout {
    /// One plane on one die on one channel.
    pub const SINGLE: Layout = Layout { channels: 1, dies_per_channel: 1, planes: 1 };

    /// Dies on all channels.
    pub const fn dies(&self) -> u32 {
        self.channels * self.dies_per_channel
    }
}

/// In which order the pages of a block may be programmed. Ignored on NOR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageOrder {
    /// At or after the first byte that no program has passed yet; pages may be skipped.
    ///
    /// Data sheets forbid going back ("random page address programming is prohibited") but say that the first page
    /// programmed need not be page 0; Linux's own writers skip pages that hold only 0xFF. A skipped page counts as
    /// programmed: coming back to it is refused with `NotErased`.
    Ascending,
    /// As `Ascending`, but skipping a page is refused with `OutOfOrder`. MLC and TLC parts with paired pages require
    /// it.
    Consecutive,
    /// Any page at any time, as small-page SLC parts allow. Costs the array five bytes per page.
    Any,
}

/// What a NOR does with a program that would raise a bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NorRule {
    /// Bits that are 0 stay 0 without an error: the cells are ANDed with the data.
    And,
    /// The program is refused with `NotErased` (parts of the AMD command set time out with an error). Stores that keep
    /// no bytes cannot detect it and allow it.
    RefuseRaise,
}

/// Which programs the medium allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Page order within a block.
    pub order: PageOrder,
    /// Programs allowed per page between two erases (data sheets' NOP), 1 or more. One more is refused with
    /// `NotErased`. Ignored on NOR.
    pub programs_per_page: u8,
    /// What a NOR does with a program that would raise a bit.
    pub nor: NorRule,
}

/// Time of the host's processor per operation, as with nandsim: there the copy *is* the transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostPrice {
    /// [`CpuPrice::copy`] per byte read or programmed.
    pub cpu: CpuPrice,
    /// Time per erase.
    pub erase: Ns,
}

impl HostPrice {
    /// The processor's work takes no time.
    pub const FREE: HostPrice = HostPrice { cpu: CpuPrice::FREE, erase: Ns::ZERO };
}

/// Everything that decides how an [`Array`](crate::Array) behaves.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrayConfig {
    /// Blocks, pages and OOB.
    pub geometry: Geometry,
    /// Channels, dies and planes.
    pub layout: Layout,
    /// Which programs are allowed.
    pub rules: Rules,
    /// Time of operations on the part.
    pub timing: Timing,
    /// Time of operations on the host's processor.
    pub host: HostPrice,
    /// The error-correcting code; `None` to return wrong bits without an error.
    pub ecc: Option<Ecc>,
    /// Faults; `None` for a medium that never fails.
    pub faults: Option<FaultPlan>,
}

impl ArrayConfig {
    /// Only the rules of the medium: no time, no faults, one die. A page may be programmed as often as it has
    /// sub-pages, pages may be skipped, and a NOR ANDs.
    pub fn plain(geometry: Geometry) -> ArrayConfig {
        ArrayConfig {
            geometry,
            layout: Layout::SINGLE,
            rules: Rules {
                order: PageOrder::Ascending,
                programs_per_page: (geometry.page_bytes / geometry.subpage_bytes.max(1)).clamp(1, 255) as u8,
                nor: NorRule::And,
            },
            timing: Timing::NandsimOff,
            host: HostPrice::FREE,
            ecc: None,
            faults: None,
        }
    }

    /// Checks that the values describe a possible device.
    /// Errors: the first invalid field, its value and what was expected.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let g = &self.geometry;
        let need = |holds: bool, field: &'static str, found: u64, expected: &'static str| {
            if holds { Ok(()) } else { Err(ConfigError { field, found, expected }) }
        };
        need(g.pebs > 0, "geometry.pebs", g.pebs.into(), "at least 1")?;
        need(g.page_bytes.is_power_of_two(), "geometry.page_bytes", g.page_bytes.into(), "a power of two")?;
        need(
            g.subpage_bytes.is_power_of_two() && g.subpage_bytes <= g.page_bytes,
            "geometry.subpage_bytes",
            g.subpage_bytes.into(),
            "a power of two, at most a page",
        )?;
        need(
            g.peb_bytes > 0 && g.peb_bytes.is_multiple_of(g.page_bytes),
            "geometry.peb_bytes",
            g.peb_bytes.into(),
            "whole pages",
        )?;
        need(
            g.medium == Medium::Nand || g.subpage_bytes == g.page_bytes,
            "geometry.subpage_bytes",
            g.subpage_bytes.into(),
            "as many as a page on a NOR, which has no sub-pages",
        )?;
        need(
            g.medium == Medium::Nand || g.oob_bytes == 0,
            "geometry.oob_bytes",
            g.oob_bytes.into(),
            "0 on a NOR, which has no out-of-band bytes",
        )?;
        let l = &self.layout;
        need(l.channels > 0, "layout.channels", l.channels.into(), "at least 1")?;
        need(
            l.dies_per_channel > 0 && g.pebs.is_multiple_of(l.dies()),
            "layout.dies_per_channel",
            l.dies_per_channel.into(),
            "at least 1, dividing the blocks evenly",
        )?;
        need(
            l.planes.is_power_of_two() && (g.pebs / l.dies()).is_multiple_of(l.planes),
            "layout.planes",
            l.planes.into(),
            "a power of two, dividing a die's blocks evenly",
        )?;
        let nop = self.rules.programs_per_page;
        need(nop > 0, "rules.programs_per_page", nop.into(), "at least 1")?;
        need(
            self.rules.order != PageOrder::Any || g.page_bytes / g.subpage_bytes <= 32,
            "geometry.subpage_bytes",
            g.subpage_bytes.into(),
            "at most 32 sub-pages of a page where pages may be programmed in any order",
        )?;
        if let Some(ecc) = &self.ecc {
            ecc.validate(g)?;
        }
        if let Some(faults) = &self.faults {
            faults.validate(self)?;
        }
        self.timing.validate()
    }
}

/// A field of an [`ArrayConfig`] with an impossible value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field}: found {found}, expected {expected}")]
pub struct ConfigError {
    /// Path of the field.
    pub field: &'static str,
    /// Its value.
    pub found: u64,
    /// The values allowed.
    pub expected: &'static str,
}
