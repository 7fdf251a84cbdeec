//! The 8 bytes that the host keeps for a page. What is in them is the device's business: JESD220-3 says their length
//! only.
//!
//! Ours, from the most significant bit: 32 of the physical page in its unit (all ones: the page holds nothing), 8 of
//! how many pages from this one on lie as a sequential write puts them, 24 of a checksum over both and the logical
//! page. The checksum finds an entry that was mixed up or damaged. It cannot tell that a page has moved since: the
//! device looks.

use crate::ftl::NONE;

/// An entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry(pub u64);

/// Bytes of an entry on the wire, big-endian.
pub const ENTRY_BYTES: u32 = 8;

impl Entry {
    /// Of logical page `page`, which is physical page `ppn` of its unit; `run` pages from it on follow each other.
    #[inline]
    pub const fn new(page: u32, ppn: u32, run: u8) -> Entry {
        let body = (ppn as u64) << 32 | (run as u64) << 24;
        Entry(body | checksum(body, page))
    }

    /// The physical page, and the pages that follow from it, its own included, if the entry is one of logical page
    /// `page`.
    #[inline]
    pub const fn read(self, page: u32) -> Option<(u32, u8)> {
        let body = self.0 & !0xff_ffff;
        if checksum(body, page) != self.0 & 0xff_ffff {
            return None;
        }
        Some(((body >> 32) as u32, (body >> 24) as u8))
    }

    /// Whether an entry that was read says that its page holds nothing.
    pub const fn is_nothing(ppn: u32) -> bool {
        ppn == NONE
    }
}

/// 24 bits that change with every bit of the body and of the page.
#[inline]
const fn checksum(body: u64, page: u32) -> u64 {
    let mixed = (body ^ (page as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    (mixed ^ mixed >> 29) >> 40
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_entry_reads_back_for_its_own_page(page in any::<u32>(), ppn in any::<u32>(), run in any::<u8>()) {
            prop_assert_eq!(Entry::new(page, ppn, run).read(page), Some((ppn, run)));
        }

        #[test]
        fn no_bits_at_all_make_it_panic(bits in any::<u64>(), page in any::<u32>()) {
            if let Some((ppn, run)) = Entry(bits).read(page) {
                prop_assert_eq!(Entry::new(page, ppn, run), Entry(bits));
            }
        }
    }

    #[test]
    fn a_damaged_or_mixed_up_entry_is_found() {
        let entry = Entry::new(77, 1234, 3);
        assert!((0..64).all(|bit| Entry(entry.0 ^ 1 << bit).read(77).is_none()));
        assert!((0..1000).filter(|&page| page != 77).all(|page| entry.read(page).is_none()));
    }
}
