//! A reader of bare UBIFS images that shares no code with the writer: it walks nodes as they stand, and descends the tree
//! of LEB properties. Written from the tables of the format.

use std::collections::{BTreeMap, BTreeSet};

/// A little-endian number of `len` bytes.
pub fn int(bytes: &[u8], at: usize, len: usize) -> u64 {
    (0..len).rev().fold(0, |value, byte| value << 8 | u64::from(bytes[at + byte]))
}

fn crc32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(!0, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 })
    })
}

/// A node where it stands.
pub struct Node<'a> {
    pub lnum: u64,
    pub at: usize,
    pub kind: u8,
    pub sqnum: u64,
    pub bytes: &'a [u8],
}

impl Node<'_> {
    /// Inode number and lower word of the key of a leaf.
    pub fn key(&self) -> (u64, u64) {
        (int(self.bytes, 24, 4), int(self.bytes, 28, 4))
    }
}

/// Sum of what a LEB of the main area holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leb {
    pub free: u64,
    pub dirty: u64,
    pub is_index: bool,
}

pub struct Image<'a> {
    pub bytes: &'a [u8],
    pub leb_bytes: usize,
    pub min_io: usize,
    pub main_first: u64,
    pub lebs: u64,
}

impl<'a> Image<'a> {
    pub fn new(bytes: &'a [u8]) -> Image<'a> {
        let field = |at| int(bytes, at, 4);
        let (leb_bytes, lebs) = (field(36) as usize, field(40));
        assert_eq!(bytes.len(), leb_bytes * lebs as usize, "the image has as many LEBs as the super block says");
        let main_first = 3 + field(56) + field(60) + field(64);
        Image { bytes, leb_bytes, min_io: field(32) as usize, main_first, lebs }
    }

    pub fn leb(&self, lnum: u64) -> &'a [u8] {
        &self.bytes[lnum as usize * self.leb_bytes..][..self.leb_bytes]
    }

    /// Nodes of a LEB but padding, and where what was written ends. Panics if anything else is in it.
    pub fn nodes(&self, lnum: u64) -> (Vec<Node<'a>>, usize) {
        let leb = self.leb(lnum);
        let (mut at, mut nodes) = (0, Vec::new());
        while at < leb.len() && leb[at] != 0xff {
            if leb[at] == 0xce {
                at += leb[at..].iter().take_while(|&&byte| byte == 0xce).count();
                assert_eq!(at % self.min_io, 0, "LEB {lnum}: such padding ends a write unit");
                continue;
            }
            assert_eq!(int(leb, at, 4), 0x0610_1831, "LEB {lnum}:{at}: magic");
            let len = int(leb, at + 16, 4) as usize;
            let bytes = &leb[at..at + len];
            assert_eq!(int(bytes, 4, 4), u64::from(crc32(&bytes[8..])), "LEB {lnum}:{at}: CRC");
            let kind = bytes[20];
            if kind == 5 {
                at += 28 + int(bytes, 24, 4) as usize;
                continue;
            }
            nodes.push(Node { lnum, at, kind, sqnum: int(bytes, 8, 8), bytes });
            at = (at + len).next_multiple_of(8);
        }
        let end = at.next_multiple_of(self.min_io);
        assert!(leb[end..].iter().all(|&byte| byte == 0xff), "LEB {lnum}: empty from {end} on");
        (nodes, end)
    }

    /// All nodes of the main area, and what its LEBs hold.
    pub fn main(&self) -> (Vec<Node<'a>>, Vec<Leb>) {
        let (mut all, mut lebs) = (Vec::new(), Vec::new());
        for lnum in self.main_first..self.lebs {
            let (nodes, end) = self.nodes(lnum);
            let used: usize = nodes.iter().map(|node| node.bytes.len().next_multiple_of(8)).sum();
            let is_index = nodes.iter().any(|node| node.kind == 9);
            assert!(nodes.iter().all(|node| (node.kind == 9) == is_index), "LEB {lnum} holds index nodes or leaves");
            lebs.push(Leb { free: (self.leb_bytes - end) as u64, dirty: (end - used) as u64, is_index });
            all.extend(nodes);
        }
        (all, lebs)
    }

    /// The master node, which both LEBs have alike but for the sequence number.
    pub fn master(&self) -> &'a [u8] {
        let found: Vec<Node<'_>> = [1, 2].map(|lnum| self.nodes(lnum).0.remove(0)).into();
        assert!(found.iter().all(|node| node.kind == 7));
        assert_eq!(found[0].bytes[24..], found[1].bytes[24..]);
        found[0].bytes
    }

    /// Walks the index from the root. Panics unless it is in order, balanced, and its branches end at the leaves.
    pub fn walk_index(&self) -> BTreeSet<(u64, usize)> {
        let master = self.master();
        let place = |at| (int(master, at, 4), int(master, at + 4, 4) as usize, int(master, at + 8, 4) as usize);
        let (mut leaves, mut bytes, mut last) = (BTreeSet::new(), 0, ((0, 0), Vec::new()));
        let fanout = int(self.bytes, 72, 4);
        self.descend(place(48), None, fanout, &mut |level, node: &[u8], key, place| {
            if level.is_some() {
                bytes += node.len().next_multiple_of(8) as u64;
            } else {
                // Names whose hashes are equal are in order too.
                let name = if matches!(node[20], 2 | 3) { node[56..].to_vec() } else { Vec::new() };
                assert!(last < (key, name.clone()), "keys in order");
                last = (key, name);
                assert_eq!((int(node, 24, 4), int(node, 28, 4)), key, "the key of the leaf is in its branch");
                assert!(leaves.insert(place), "a leaf is in the index once");
            }
        });
        assert_eq!(bytes, int(master, 72, 8), "index_size");
        leaves
    }

    #[allow(clippy::type_complexity, reason = "one caller")]
    fn descend(
        &self,
        (lnum, at, len): (u64, usize, usize),
        above: Option<u64>,
        fanout: u64,
        each: &mut dyn FnMut(Option<u64>, &[u8], (u64, u64), (u64, usize)),
    ) {
        let node = &self.leb(lnum)[at..at + len];
        let (children, level) = (int(node, 24, 2), int(node, 26, 2));
        assert!(node[20] == 9 && (1..=fanout).contains(&children) && above.is_none_or(|above| above == level + 1));
        each(Some(level), node, (0, 0), (lnum, at));
        for child in 0..children as usize {
            let branch = &node[28 + 20 * child..][..20];
            let (lnum, at, len) = (int(branch, 0, 4), int(branch, 4, 4) as usize, int(branch, 8, 4) as usize);
            let key = (int(branch, 12, 4), int(branch, 16, 4));
            let leaf = &self.leb(lnum)[at..at + len];
            if level > 0 {
                let first = (int(leaf, 40, 4), int(leaf, 44, 4));
                assert_eq!(key, first, "the key of a branch is the first below");
                self.descend((lnum, at, len), Some(level), fanout, each);
            } else {
                each(None, leaf, key, (lnum, at));
            }
        }
    }

    /// The properties of LEBs as the tree has them.
    pub fn lpt(&self) -> Vec<Leb> {
        let sb = |at| int(self.bytes, at, 4);
        let bits = |value: u64| u64::from(64 - value.leading_zeros());
        let leb = self.leb_bytes as u64;
        let (lpt_lebs, max) = (sb(60), sb(44));
        let is_big = sb(28) & 2 != 0;
        let number_bits = if is_big { bits(max.div_ceil(4) - 1) } else { 0 };
        let (space, lnum_bits, offset_bits) = (bits(leb) - 3, bits(lpt_lebs), bits(leb - 1));
        let mut height = 1;
        let most_leaves = (self.lebs - self.main_first + max - self.lebs).div_ceil(4);
        while 4_u64.pow(height) < most_leaves {
            height += 1;
        }
        let crc16 = |bytes: &[u8]| {
            bytes.iter().fold(0xffff_u64, |crc, &byte| {
                (0..8).fold(crc ^ u64::from(byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xa001 } else { crc >> 1 })
            })
        };
        let take = |node: &[u8], at: &mut u64, width: u64| -> u64 {
            let value =
                (0..width).map(|bit| u64::from(node[((*at + bit) / 8) as usize] >> ((*at + bit) % 8) & 1) << bit);
            let value: u64 = value.sum();
            *at += width;
            value
        };
        let head = 20 + number_bits;
        let pnode = (head + 4 * (2 * space + 1)).div_ceil(8) as usize;
        let nnode = (head + 4 * (lnum_bits + offset_bits)).div_ceil(8) as usize;
        let check = |node: &[u8], kind: u64| {
            assert_eq!(int(node, 0, 2), crc16(&node[2..]), "CRC of an LPT node");
            assert_eq!(take(node, &mut 16, 4), kind);
            take(node, &mut 20, number_bits)
        };
        let master = self.master();
        let mut level = vec![(int(master, 120, 4), int(master, 124, 4) as usize, 1_u64)];
        for depth in 0..height {
            let mut below = Vec::new();
            for &(lnum, at, number) in &level {
                let node = &self.leb(lnum)[at..at + nnode];
                let found = check(node, 1);
                assert!(!is_big || found == number, "number of a nnode");
                let mut bit = head;
                for child in 0..4 {
                    let (lnum, at) = (take(node, &mut bit, lnum_bits), take(node, &mut bit, offset_bits));
                    if lnum != lpt_lebs {
                        // The path, with the topmost 1 pushed up.
                        let number = number & !(1 << (2 * depth)) | (4 + child) << (2 * depth);
                        below.push((3 + sb(56) + lnum, at as usize, number));
                    }
                }
            }
            level = below;
        }
        let mut lebs = Vec::new();
        for (number, &(lnum, at, _)) in level.iter().enumerate() {
            let node = &self.leb(lnum)[at..at + pnode];
            let found = check(node, 0);
            assert!(!is_big || found == number as u64, "number of a pnode");
            let mut bit = head;
            for _ in 0..4 {
                let (free, dirty) = (take(node, &mut bit, space) * 8, take(node, &mut bit, space) * 8);
                lebs.push(Leb { free, dirty, is_index: take(node, &mut bit, 1) == 1 });
            }
        }
        // The table of the area's own LEBs: what is behind the last byte written is free, what is 0xFF before it dirty.
        let width = bits(leb);
        let ltab = (20 + lpt_lebs * width * 2).div_ceil(8) as usize;
        let place = (int(master, 136, 4), int(master, 140, 4) as usize);
        let node = &self.leb(place.0)[place.1..place.1 + ltab];
        assert_eq!((int(node, 0, 2), take(node, &mut 16, 4)), (crc16(&node[2..]), 2));
        let mut bit = 20;
        for lnum in 3 + sb(56)..3 + sb(56) + lpt_lebs {
            let (free, dirty) = (take(node, &mut bit, width), take(node, &mut bit, width));
            let used = self.leb(lnum).iter().rposition(|&byte| byte != 0xff).map_or(0, |at| at as u64 + 1);
            assert_eq!(free, leb - used.next_multiple_of(self.min_io as u64), "LPT LEB {lnum}");
            assert_eq!(dirty, used.next_multiple_of(self.min_io as u64) - used, "LPT LEB {lnum}");
        }
        lebs
    }

    /// Panics unless the image is what it says: index, LEB properties, totals, sequence numbers.
    pub fn check(&self) {
        let master = self.master();
        let (nodes, lebs) = self.main();
        let leaves: BTreeSet<(u64, usize)> =
            nodes.iter().filter(|node| node.kind != 9).map(|node| (node.lnum, node.at)).collect();
        assert_eq!(self.walk_index(), leaves, "the index holds every leaf");
        let empty = Leb { free: self.leb_bytes as u64, ..Leb::default() };
        let mut in_tree = self.lpt();
        let rest = in_tree.split_off(lebs.len());
        assert_eq!(in_tree, lebs, "LEB properties");
        assert!(rest.len() < 4 && rest.iter().all(|leb| *leb == empty));
        let total = |at| int(master, at, 8);
        assert_eq!(total(80), lebs.iter().map(|leb| leb.free).sum::<u64>(), "total_free");
        assert_eq!(total(88), lebs.iter().map(|leb| leb.dirty).sum::<u64>(), "total_dirty");
        let data = || lebs.iter().filter(|leb| !leb.is_index).map(|leb| (leb, leb.free + leb.dirty));
        assert_eq!(total(96), data().map(|(_, space)| self.leb_bytes as u64 - space).sum::<u64>(), "total_used");
        let (dead, dark) =
            (56_usize.next_multiple_of(self.min_io) as u64, 4256_usize.next_multiple_of(self.min_io) as u64);
        assert_eq!(
            total(104),
            data().map(|(_, space)| if space < dead { space } else { 0 }).sum::<u64>(),
            "total_dead"
        );
        let dark_of = |space: u64| match space {
            space if space < dead => 0,
            space if space < dark => space,
            space if space < dark + 56 => space - 56,
            _ => dark,
        };
        assert_eq!(total(112), data().map(|(_, space)| dark_of(space)).sum::<u64>(), "total_dark");
        assert_eq!(int(master, 156, 4), data().filter(|(leb, _)| **leb == empty).count() as u64, "empty_lebs");
        assert_eq!(int(master, 160, 4), lebs.iter().filter(|leb| leb.is_index).count() as u64, "idx_lebs");
        assert_eq!(lebs[(int(master, 60, 4) - self.main_first) as usize], empty, "gc_lnum is empty");
        let (head, at) = (int(master, 64, 4), int(master, 68, 4));
        let leb = lebs[(head - self.main_first) as usize];
        assert!(leb.is_index && at == self.leb_bytes as u64 - leb.free, "ihead");
        // Every number once, and those of a file after its creation.
        let mut sqnums = BTreeSet::new();
        assert!(nodes.iter().all(|node| sqnums.insert(node.sqnum)), "sequence numbers are not repeated");
        let inodes = nodes.iter().filter(|node| node.kind == 0);
        let created: BTreeMap<u64, u64> = inodes.map(|node| (node.key().0, int(node.bytes, 40, 8))).collect();
        for node in nodes.iter().filter(|node| node.kind != 9) {
            assert!(node.sqnum > created[&node.key().0], "{:?}", node.key());
        }
        assert_eq!(int(master, 24, 8), *created.keys().max().unwrap(), "highest_inum");
        let (log, _) = self.nodes(int(master, 44, 4));
        assert!(log.len() == 1 && log[0].kind == 10 && int(log[0].bytes, 24, 8) == int(master, 32, 8), "the log");
    }
}
