//! Bad blocks that the dump itself does not show: those that the user lists, and those that a tool padded or left out.
//!
//! `nanddump` writes 0xFF in the place of a bad block (`--bb=padbad`), or leaves it out (`--bb=skipbad`, its default). A
//! dump that leaves blocks out has other PEB numbers than the flash from the first bad block on. LEBs do not mind, since
//! each PEB says what it holds; a fastmap does. It also tells which they are: it lists every good PEB of the flash.

use std::collections::{BTreeMap, BTreeSet};

use sim::Peb;

use super::fastmap::read_lists;
use super::{Dump, PebList};
use crate::media::{FM_DATA_VOLUME_ID, FM_MAX_BLOCKS, FM_MAX_START, FM_SB_VOLUME_ID, FmSb, VidHdr, crc};

/// What the user says about the bad blocks of a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadBlocks {
    /// These PEBs are bad; the dump has something in their places.
    Listed(Vec<u32>),
    /// Bad blocks are 0xFF in the dump.
    Padded,
    /// The dump leaves bad blocks out: these, or if they are not known, those that a fastmap does not list.
    Skipped(Option<Vec<u32>>),
}

/// Most PEBs that a list may name: bounds the memory for "0-4294967295".
const MOST_LISTED: u32 = 1 << 20;

impl BadBlocks {
    /// Reads `3,17,40-42`, `padbad`, `skipbad` or `skipbad:3,17`.
    /// Errors: what is wrong with the text.
    pub fn parse(text: &str) -> Result<BadBlocks, String> {
        match text {
            "padbad" => Ok(BadBlocks::Padded),
            "skipbad" => Ok(BadBlocks::Skipped(None)),
            _ => match text.strip_prefix("skipbad:") {
                Some(list) => Ok(BadBlocks::Skipped(Some(numbers(list)?))),
                None => Ok(BadBlocks::Listed(numbers(text)?)),
            },
        }
    }
}

/// The PEB numbers of a list, in order, each once.
fn numbers(list: &str) -> Result<Vec<u32>, String> {
    let list = PebList::parse(list).map_err(|wrong| format!("{wrong}, or padbad, skipbad or skipbad:3,17"))?;
    list.pebs(MOST_LISTED).ok_or_else(|| format!("found more than {MOST_LISTED} PEBs, expected fewer"))
}

/// Where a dump without its bad blocks has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// At the PEBs that the user listed.
    Listed,
    /// At those that the fastmap does not list.
    ByFastmap,
    /// Nobody knows: PEBs have the numbers that they have in the dump.
    Unknown,
}

/// What is known of the bad blocks of a dump beside what its bytes show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownBad {
    /// Bad PEBs, in order.
    pebs: Vec<u32>,
    is_padded: bool,
    left_out: Option<LeftOut>,
}

impl KnownBad {
    /// Bad PEBs that were listed or found, in order.
    pub fn pebs(&self) -> &[u32] {
        &self.pebs
    }

    /// Whether a PEB of 0xFF is a bad one.
    pub fn is_padded(&self) -> bool {
        self.is_padded
    }

    /// Where the dump leaves bad blocks out, if it does.
    pub fn left_out(&self) -> Option<LeftOut> {
        self.left_out
    }

    /// Whether the PEB is known to be bad.
    pub(super) fn is_bad(&self, peb: Peb) -> bool {
        self.pebs.binary_search(&peb.0).is_ok()
    }

    /// Whether the dump leaves the PEB out.
    pub(super) fn is_left_out(&self, peb: Peb) -> bool {
        self.left_out.is_some() && self.is_bad(peb)
    }

    /// Number of PEBs before `peb` that the dump leaves out.
    pub(super) fn left_out_before(&self, peb: Peb) -> u64 {
        if self.left_out.is_none() { 0 } else { self.pebs.partition_point(|&bad| bad < peb.0) as u64 }
    }
}

/// A listed PEB that cannot be in the dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("PEB {peb} was given as a bad block, expected one of the flash's {pebs} PEBs, 0 to {}", pebs - 1)]
pub struct NoSuchPeb {
    /// The PEB given.
    pub peb: u32,
    /// PEBs of the flash, those included that the dump leaves out.
    pub pebs: u32,
}

impl<'a> Dump<'a> {
    /// The dump with what is known of its bad blocks. Where it leaves some out, PEBs get the numbers of the flash.
    /// Errors: a listed PEB lies behind the end of the flash.
    pub fn with_bad_blocks(mut self, bad: &BadBlocks) -> Result<Dump<'a>, NoSuchPeb> {
        let (pebs, left_out) = match bad {
            BadBlocks::Listed(pebs) => (pebs.clone(), None),
            BadBlocks::Padded => {
                self.bad.is_padded = true;
                return Ok(self);
            }
            BadBlocks::Skipped(Some(pebs)) => (pebs.clone(), Some(LeftOut::Listed)),
            BadBlocks::Skipped(None) => match not_listed(&self) {
                Some(pebs) => (pebs, Some(LeftOut::ByFastmap)),
                None => (Vec::new(), Some(LeftOut::Unknown)),
            },
        };
        let missing = if left_out.is_some() { pebs.len() as u32 } else { 0 };
        let flash = self.geometry.pebs + missing;
        if let Some(&peb) = pebs.last().filter(|&&last| last >= flash) {
            return Err(NoSuchPeb { peb, pebs: flash });
        }
        self.geometry.pebs = flash;
        self.bad = KnownBad { pebs, is_padded: false, left_out };
        Ok(self)
    }
}

/// The PEBs of the flash that its newest fastmap does not list, in order. `None` if there is no whole fastmap, or it
/// does not account for every PEB of the dump: then it is of another state of the flash.
fn not_listed(dump: &Dump<'_>) -> Option<Vec<u32>> {
    let geometry = dump.geometry();
    let leb_bytes = geometry.leb_bytes();
    let vid = |peb: u32| {
        let bytes = dump.read(Peb(peb), geometry.vid_hdr_offset, VidHdr::BYTES as u32);
        bytes.first_chunk().and_then(|bytes| VidHdr::decode(bytes).ok())
    };
    let newest = |(peb, hdr): (u32, VidHdr)| (hdr.sqnum, peb);
    // Each good PEB is in the dump at its own number or at a lower one.
    let first = (0..geometry.pebs.min(FM_MAX_START)).filter_map(|peb| vid(peb).map(|hdr| (peb, hdr)));
    let (_, anchor) = first.filter(|(_, hdr)| hdr.vol_id == FM_SB_VOLUME_ID).map(newest).max()?;
    let sb = FmSb::decode(&dump.read(Peb(anchor), geometry.data_offset, leb_bytes)).ok()?;
    let mut blocks = BTreeMap::from([(0, (u64::MAX, anchor))]);
    if sb.blocks.len() > 1 {
        for peb in 0..geometry.pebs {
            let Some(hdr) = vid(peb).filter(|hdr| hdr.vol_id == FM_DATA_VOLUME_ID) else { continue };
            let block = blocks.entry(hdr.lnum).or_insert((hdr.sqnum, peb));
            *block = (*block).max((hdr.sqnum, peb));
        }
    }
    let mut stream = Vec::with_capacity(sb.blocks.len().min(FM_MAX_BLOCKS) * leb_bytes as usize);
    for index in 0..sb.blocks.len() as u32 {
        let &(_, peb) = blocks.get(&index)?;
        stream.extend_from_slice(&dump.read(Peb(peb), geometry.data_offset, leb_bytes));
    }
    stream.get_mut(FmSb::DATA_CRC_AT..FmSb::DATA_CRC_AT + 4)?.fill(0);
    if crc(&stream) != sb.data_crc {
        return None;
    }
    let lists = read_lists(&stream, &mut 0, &mut Vec::new()).ok()?;
    // A flash of which more than half is bad is none.
    let flash = geometry.pebs + Some(lists.hdr.bad).filter(|&bad| bad <= geometry.pebs)?;
    let own = sb.blocks.iter().map(|&(peb, _)| Peb(peb));
    let listed: BTreeSet<Peb> =
        lists.listed().map(|(_, peb, _)| peb).chain(lists.pooled().map(|(_, peb)| peb)).chain(own).collect();
    let is_whole = listed.len() == geometry.pebs as usize && listed.last().is_some_and(|last| last.0 < flash);
    let holes = || (0..flash).filter(|&peb| !listed.contains(&Peb(peb))).collect();
    is_whole.then(holes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_in_any_order() {
        assert_eq!(BadBlocks::parse("40-42,3,17,41"), Ok(BadBlocks::Listed(vec![3, 17, 40, 41, 42])));
        assert_eq!(BadBlocks::parse("0"), Ok(BadBlocks::Listed(vec![0])));
        assert_eq!(BadBlocks::parse("padbad"), Ok(BadBlocks::Padded));
        assert_eq!(BadBlocks::parse("skipbad"), Ok(BadBlocks::Skipped(None)));
        assert_eq!(BadBlocks::parse("skipbad:7,2"), Ok(BadBlocks::Skipped(Some(vec![2, 7]))));
    }

    #[test]
    fn a_list_that_says_nothing_sensible_is_refused() {
        for text in ["", "bad", "3,", "-3", "3-", "+3", "3 ,4", "4-3", "0x10", "4294967295", "padbad:3", "skipbad:"] {
            assert!(BadBlocks::parse(text).is_err(), "{text}");
        }
        let error = BadBlocks::parse("0-2147483647").unwrap_err();
        assert!(error.contains("found more than 1048576 PEBs"), "{error}");
        assert!(BadBlocks::parse(&["0-999999"; 100].join(",")).is_err());
    }
}
