//! The 8-byte HPB entry that the host caches for a page. JESD220-3 defines its length only, not its contents.
//!
//! Contents here, from the most significant bit: 32 bits physical page within the unit (all ones: the page is
//! unmapped), 8 bits number of pages from this one on that are placed consecutively, as by a sequential write, and 24
//! bits checksum over both and the logical page. The checksum detects damaged entries and entries of another page. It
//! cannot detect that a page has moved since: the device checks its mapping.

use crate::ftl::NONE;

/// HPB entry of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry(pub u64);

/// Size of an entry in bytes. On the wire it is big-endian.
pub const ENTRY_BYTES: u32 = 8;

impl Entry {
    /// Entry of logical page `page`, stored in physical page `ppn` of its unit. `run` pages from it on are consecutive.
    #[inline]
    pub const fn new(page: u32, ppn: u32, run: u8) -> Entry {
        let body = (ppn as u64) << 32 | (run as u64) << 24;
        Entry(body | checksum(body, page))
    }

    /// Physical page, and number of pages placed consecutively from it on, itself included. `None` if the checksum does
    /// not match logical page `page`.
    #[inline]
    pub const fn read(self, page: u32) -> Option<(u32, u8)> {
        let body = self.0 & !0xff_ffff;
        if checksum(body, page) != self.0 & 0xff_ffff {
            return None;
        }
        Some(((body >> 32) as u32, (body >> 24) as u8))
    }

    /// Whether the physical page of an entry means that its logical page is unmapped.
    pub const fn is_nothing(ppn: u32) -> bool {
        ppn == NONE
    }
}

/// 24-bit checksum that depends on every bit of `body` and `page`.
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
