//! The areas of UBIFS on a volume that it formats itself, and the size of its LEB-properties tree (LPT).
//!
//! Sources: the defaults of Linux 6.1 `create_default_filesystem` (journal 5 %, at most 32 MiB; log twice the journal's
//! references plus two LEBs), and the sizes of LPT nodes (bits of each field) in `fs/ubifs/lpt.c`.

/// LEBs of each area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UbifsAreas {
    /// LEBs of the log.
    pub log: u32,
    /// LEBs of the LEB-properties tree.
    pub lpt: u32,
    /// LEBs of the orphan area.
    pub orphan: u32,
    /// LEBs of the main area.
    pub main: u32,
}

/// Super block and two master LEBs: written in place, unmapped only briefly.
pub(super) const FIXED_LEBS: u32 = 3;
const ORPHAN_LEBS: u32 = 2;
const JOURNAL_PER_CENT: u64 = 5;
const JOURNAL_MAX_BYTES: u64 = 32 << 20;
const JOURNAL_MIN_LEBS: u64 = 8;

impl UbifsAreas {
    /// Areas of a volume of `lebs` LEBs; `None` if it has under 32 LEBs.
    pub fn of(lebs: u32, leb_bytes: u32, min_io_bytes: u32) -> Option<UbifsAreas> {
        if lebs < 32 {
            return None;
        }
        let leb = u64::from(leb_bytes);
        let journal =
            (u64::from(lebs) * JOURNAL_PER_CENT / 100).max(JOURNAL_MIN_LEBS).min((JOURNAL_MAX_BYTES / leb).max(1));
        let reference_bytes = u64::from(min_io_bytes).max(64);
        let log = (2 * reference_bytes * journal).div_ceil(leb) as u32 + 2;
        let for_lpt_and_main = lebs.checked_sub(FIXED_LEBS + log + ORPHAN_LEBS)?;
        let lpt = Lpt { lebs, leb, min_io: u64::from(min_io_bytes) }.area(for_lpt_and_main)?;
        Some(UbifsAreas { log, lpt, orphan: ORPHAN_LEBS, main: for_lpt_and_main - lpt })
    }
}

impl UbifsAreas {
    /// LEBs of the LEB-properties area that are mapped. Of 2 LEBs all were on the recorded kernel, of 6 LEBs 3.7.
    pub(super) fn lpt_used(&self) -> u32 {
        self.lpt - 3 * (self.lpt - LEAST_LEBS) / 5
    }
}

/// Children of a node of the tree, and LEBs of a leaf.
const FANOUT: u64 = 4;
/// Checksum and type of a node, in bits.
const HEAD_BITS: u64 = 16 + 4;
/// LEB numbers in the table of LEBs that the large model reads at mount.
const SAVED_LEBS: u64 = 256;
/// The area has room for so many copies of the tree.
const COPIES: u64 = 4;
const LEAST_LEBS: u32 = 2;

/// A LEB-properties tree on a volume.
struct Lpt {
    lebs: u32,
    leb: u64,
    min_io: u64,
}

/// Bits that hold the numbers from 0 to `most`.
fn bits(most: u64) -> u64 {
    u64::from(u64::BITS - most.leading_zeros())
}

impl Lpt {
    /// LEBs of its area, of those that it shares with the main area; `None` if the main area gets none.
    fn area(&self, shared: u32) -> Option<u32> {
        let mut area = LEAST_LEBS;
        // The large model, whose nodes have numbers, is for a tree that does not fit into a LEB.
        let large = self.bytes(shared.checked_sub(area)?, area, false) > self.leb;
        // More LEBs of the tree are less main area, so it ends; each round needs at least as many as the one before.
        loop {
            let need = (COPIES * self.bytes(shared.checked_sub(area).filter(|&main| main > 0)?, area, large))
                .div_ceil(self.leb);
            if need <= u64::from(area) {
                return Some(area);
            }
            area = u32::try_from(need).ok()?;
        }
    }

    /// Bytes of the tree over a main area, with what its nodes leave free at the ends of LEBs.
    fn bytes(&self, main: u32, area: u32, large: bool) -> u64 {
        let number = if large { bits(u64::from(self.lebs).div_ceil(FANOUT) - 1) } else { 0 };
        let node = |each: u64| (HEAD_BITS + number + FANOUT * each).div_ceil(8);
        // A leaf has free and dirty space of its LEBs in units of 8 bytes, and whether they hold index nodes.
        let leaf = node(2 * (bits(self.leb) - 3) + 1);
        let inner = node(bits(u64::from(area)) + bits(self.leb - 1));
        let table = (HEAD_BITS + u64::from(area) * 2 * bits(self.leb)).div_ceil(8);
        let saved = (HEAD_BITS + SAVED_LEBS * bits(u64::from(self.lebs) - 1)).div_ceil(8);
        let leaves = u64::from(main).div_ceil(FANOUT);
        let (mut level, mut inners) = (leaves, 0);
        loop {
            level = level.div_ceil(FANOUT);
            inners += level;
            if level == 1 {
                break;
            }
        }
        let tree = leaves * leaf + inners * inner + table + if large { saved } else { 0 };
        // At the end of each LEB less than a node is left.
        let left_per_leb = leaf.max(inner);
        let (mut last, mut whole) = (tree + left_per_leb, tree + left_per_leb);
        while last > self.leb {
            last = last - self.leb + left_per_leb;
            whole += left_per_leb;
        }
        whole + last.next_multiple_of(self.min_io) - last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_those_that_the_kernel_made() {
        let log = |lebs| UbifsAreas::of(lebs, 126_976, 2048).map(|areas| areas.log);
        assert_eq!([998, 8026, 16_056].map(log), [Some(4), Some(11), Some(11)]);
        assert_eq!(UbifsAreas::of(998, 126_976, 2048).map(|areas| areas.main), Some(987));
    }

    /// Counts of LEBs that Linux's superblock had (`lpt_lebs`), on PEBs of 128 KiB with pages of 2 KiB and of 16 KiB with
    /// pages of 512 bytes.
    #[test]
    fn the_tree_s_area_is_the_kernel_s() {
        let lpt = |lebs, leb, page| UbifsAreas::of(lebs, leb, page).map(|areas| areas.lpt);
        assert_eq!(lpt(998, 126_976, 2048), Some(2));
        assert_eq!(lpt(8026, 126_976, 2048), Some(2));
        assert_eq!(lpt(15_968, 126_976, 2048), Some(3));
        assert_eq!(lpt(3992, 15_360, 512), Some(6));
    }

    /// The sizes of nodes on an image that mkfs.ubifs made: 2,500 LEBs of 126,976 bytes, leaf 17 bytes, inner node 12,
    /// table 11. By hand: 622 leaves, 156 + 39 + 10 + 3 + 1 inner nodes, one spare leaf.
    #[test]
    fn a_small_tree_adds_up_by_hand() {
        let tree = 622 * 17 + 209 * 12 + 11 + 17;
        let lpt = Lpt { lebs: 2500, leb: 126_976, min_io: 2048 };
        assert_eq!(lpt.bytes(2486, 2, false), u64::next_multiple_of(tree, 2048));
    }

    #[test]
    fn a_volume_without_room_has_no_areas() {
        assert_eq!(UbifsAreas::of(31, 126_976, 2048), None);
        for lebs in 32..200 {
            for leb in [448, 1024, 15_360] {
                if let Some(areas) = UbifsAreas::of(lebs, leb, 64) {
                    assert_eq!(FIXED_LEBS + areas.log + areas.lpt + areas.orphan + areas.main, lebs);
                }
            }
        }
    }
}
