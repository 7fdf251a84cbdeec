//! LEB properties: a tree of four branches a node, in an area of its own. Its nodes are packed to the bit.
//!
//! A leaf (*pnode*) holds free and dirty bytes of four LEBs, an inner node (*nnode*) where its four children are. A
//! *ltab* holds free and dirty bytes of the LEBs of the area itself, an *lsave* numbers of LEBs worth reading at mount.
//! A node has no magic number and no sequence number: 16 bits of checksum, 4 of type, and in the big model its number.

use super::bits::{Bits, PackBits};
use super::{MediaError, SuperBlock, sb_flags};

/// Children of a node.
pub const FANOUT: usize = 4;
const FANOUT_U32: u32 = 4;
const CRC_BITS: u32 = 16;
const TYPE_BITS: u32 = 4;

/// Type of an LPT node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum LptType {
    /// Leaf.
    Pnode,
    /// Inner node.
    Nnode,
    /// Table of the area's own LEBs.
    Ltab,
    /// Save table.
    Lsave,
}

impl LptType {
    const ALL: [LptType; 4] = [LptType::Pnode, LptType::Nnode, LptType::Ltab, LptType::Lsave];

    /// Name of the type in messages.
    pub const fn name(self) -> &'static str {
        match self {
            LptType::Pnode => "pnode",
            LptType::Nnode => "nnode",
            LptType::Ltab => "ltab",
            LptType::Lsave => "lsave",
        }
    }
}

/// Properties of a LEB of the main area.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LebProps {
    /// Bytes at the end that were never written.
    pub free: u32,
    /// Bytes of nodes that are obsolete, and of padding.
    pub dirty: u32,
    /// Whether it holds index nodes.
    pub is_index: bool,
}

/// Where an LPT node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LptAddr {
    /// LEB.
    pub lnum: u32,
    /// Byte in the LEB.
    pub offset: u32,
}

/// Free and dirty bytes of a LEB of the LPT area.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LtabEntry {
    /// Bytes at the end that were never written.
    pub free: u32,
    /// Bytes of obsolete nodes.
    pub dirty: u32,
}

/// CRC-16 with the reflected polynomial 0xA001 and initial value 0xFFFF.
pub fn crc16(bytes: &[u8]) -> u16 {
    const TABLE: [u16; 256] = {
        let mut table = [0; 256];
        let mut index: u16 = 0;
        while index < 256 {
            let (mut crc, mut bit) = (index, 0);
            while bit < 8 {
                crc = if crc & 1 != 0 { crc >> 1 ^ 0xa001 } else { crc >> 1 };
                bit += 1;
            }
            table[index as usize] = crc;
            index += 1;
        }
        table
    };
    bytes.iter().fold(0xffff, |crc, &byte| crc >> 8 ^ TABLE[usize::from(crc.to_le_bytes()[0] ^ byte)])
}

/// Number of bits of the greatest number up to `value`.
const fn bits_of(value: u32) -> u32 {
    u32::BITS - value.leading_zeros()
}

/// Sizes of the tree and its nodes, which follow from the super block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LptGeometry {
    /// Whether nodes carry their numbers, and the area holds an lsave.
    pub is_big: bool,
    /// First LEB of the area.
    pub first: u32,
    /// LEBs of the area.
    pub lebs: u32,
    /// Bytes of a LEB.
    pub leb_bytes: u32,
    /// First LEB of the main area.
    pub main_first: u32,
    /// LEBs of the main area.
    pub main_lebs: u32,
    /// Levels of nnodes.
    pub height: u32,
    /// Leaves that the main area needs.
    pub pnodes: u32,
    /// Numbers in the lsave.
    pub lsave_count: u32,
    space_bits: u32,
    lnum_bits: u32,
    offset_bits: u32,
    spc_bits: u32,
    number_bits: u32,
    main_lnum_bits: u32,
}

const fn whole_bytes(bits: u32) -> usize {
    bits.div_ceil(8) as usize
}

impl LptGeometry {
    /// The geometry for a super block, whose sizes were checked.
    pub fn new(sb: &SuperBlock) -> LptGeometry {
        let max_main = sb.main_lebs() + (sb.max_lebs - sb.lebs);
        let max_pnodes = max_main.div_ceil(FANOUT_U32);
        let mut height = 1;
        while 1u64 << (2 * height) < u64::from(max_pnodes) {
            height += 1;
        }
        LptGeometry {
            is_big: sb.flags & sb_flags::BIG_LPT != 0,
            first: sb.lpt_first(),
            lebs: sb.lpt_lebs,
            leb_bytes: sb.leb_bytes,
            main_first: sb.main_first(),
            main_lebs: sb.main_lebs(),
            height,
            pnodes: sb.main_lebs().div_ceil(FANOUT_U32),
            lsave_count: sb.lsave_count,
            space_bits: bits_of(sb.leb_bytes) - 3,
            lnum_bits: bits_of(sb.lpt_lebs),
            offset_bits: bits_of(sb.leb_bytes - 1),
            spc_bits: bits_of(sb.leb_bytes),
            number_bits: bits_of(sb.max_lebs.div_ceil(FANOUT_U32) - 1),
            main_lnum_bits: bits_of(sb.max_lebs - 1),
        }
    }

    const fn head_bits(&self) -> u32 {
        CRC_BITS + TYPE_BITS + if self.is_big { self.number_bits } else { 0 }
    }

    /// Bytes of a pnode.
    pub const fn pnode_bytes(&self) -> usize {
        whole_bytes(self.head_bits() + (self.space_bits * 2 + 1) * FANOUT_U32)
    }

    /// Bytes of a nnode.
    pub const fn nnode_bytes(&self) -> usize {
        whole_bytes(self.head_bits() + (self.lnum_bits + self.offset_bits) * FANOUT_U32)
    }

    /// Bytes of the ltab.
    pub const fn ltab_bytes(&self) -> usize {
        whole_bytes(CRC_BITS + TYPE_BITS + self.lebs * self.spc_bits * 2)
    }

    /// Bytes of the lsave.
    pub const fn lsave_bytes(&self) -> usize {
        whole_bytes(CRC_BITS + TYPE_BITS + self.lsave_count * self.main_lnum_bits)
    }

    /// Bytes of a node of this type.
    pub const fn bytes(&self, lpt_type: LptType) -> usize {
        match lpt_type {
            LptType::Pnode => self.pnode_bytes(),
            LptType::Nnode => self.nnode_bytes(),
            LptType::Ltab => self.ltab_bytes(),
            LptType::Lsave => self.lsave_bytes(),
        }
    }

    /// Nnodes on all levels that the main area needs.
    pub fn nnodes(&self) -> u32 {
        let mut on_level = self.pnodes;
        (0..self.height).fold(0, |sum, _| {
            on_level = on_level.div_ceil(FANOUT_U32);
            sum + on_level
        })
    }

    /// Checks checksum and type of a node of type `expected` at the beginning of `bytes`, and in the big model the
    /// number.
    fn open<'a>(&self, bytes: &'a [u8], expected: LptType, number: Option<u32>) -> Result<Bits<'a>, MediaError> {
        let len = self.bytes(expected);
        let Some(node) = bytes.get(..len) else {
            return Err(MediaError::Short { what: expected.name(), len: bytes.len() });
        };
        let mut bits = Bits::new(node, 0);
        let (found, computed) = (bits.take(CRC_BITS), u32::from(crc16(&node[2..])));
        if found != computed {
            return Err(MediaError::Crc { found, computed });
        }
        let found = bits.take(TYPE_BITS);
        if found != u32::from(expected as u8) {
            return super::field("type of an LPT node", found, expected.name());
        }
        if let Some(number) = number.filter(|_| self.is_big) {
            let found = bits.take(self.number_bits);
            if found != number {
                return super::field("number of an LPT node", found, "the number of its place in the tree");
            }
        }
        Ok(bits)
    }

    /// Decodes a pnode. `number` is its place: 0 for the one of the first LEBs.
    /// Errors: checksum, type or number are wrong; more free and dirty bytes than a LEB has.
    pub fn pnode(&self, bytes: &[u8], number: u32) -> Result<[LebProps; FANOUT], MediaError> {
        let mut bits = self.open(bytes, LptType::Pnode, Some(number))?;
        let mut lebs = [LebProps::default(); FANOUT];
        for leb in &mut lebs {
            let free = bits.take(self.space_bits) << 3;
            let dirty = bits.take(self.space_bits) << 3;
            *leb = LebProps { free, dirty, is_index: bits.take(1) != 0 };
            if free + dirty > self.leb_bytes {
                return super::field("free and dirty bytes of a LEB", free + dirty, "at most a LEB");
            }
        }
        Ok(lebs)
    }

    /// Decodes a nnode. `number` is its place. A missing child is `None`: all its LEBs are empty.
    /// Errors: checksum, type or number are wrong; a child outside of the area.
    pub fn nnode(&self, bytes: &[u8], number: u32) -> Result<[Option<LptAddr>; FANOUT], MediaError> {
        let mut bits = self.open(bytes, LptType::Nnode, Some(number))?;
        let mut children = [None; FANOUT];
        for child in &mut children {
            let (lnum, offset) = (bits.take(self.lnum_bits), bits.take(self.offset_bits));
            *child = match lnum {
                absent if absent == self.lebs => None,
                beyond if beyond > self.lebs => return super::field("child of a nnode", lnum, "a LEB of the LPT area"),
                _ => Some(LptAddr { lnum: self.first + lnum, offset }),
            };
        }
        Ok(children)
    }

    /// Decodes the ltab. Errors: checksum or type are wrong; more free and dirty bytes than a LEB has.
    pub fn ltab(&self, bytes: &[u8]) -> Result<Vec<LtabEntry>, MediaError> {
        let mut bits = self.open(bytes, LptType::Ltab, None)?;
        let mut entry = || {
            let (free, dirty) = (bits.take(self.spc_bits), bits.take(self.spc_bits));
            match free.checked_add(dirty) {
                Some(sum) if sum <= self.leb_bytes => Ok(LtabEntry { free, dirty }),
                _ => super::field("free and dirty bytes of an LPT LEB", free, "with the dirty ones, at most a LEB"),
            }
        };
        (0..self.lebs).map(|_| entry()).collect()
    }

    /// Decodes the lsave. Errors: checksum or type are wrong; a LEB outside of the main area.
    pub fn lsave(&self, bytes: &[u8]) -> Result<Vec<u32>, MediaError> {
        let mut bits = self.open(bytes, LptType::Lsave, None)?;
        let mut entry = || match bits.take(self.main_lnum_bits) {
            lnum if lnum >= self.main_first && lnum - self.main_first < self.main_lebs => Ok(lnum),
            other => super::field("LEB of the lsave", other, "a LEB of the main area"),
        };
        (0..self.lsave_count).map(|_| entry()).collect()
    }

    fn close(node: &mut [u8]) {
        let sum = crc16(&node[2..]).to_le_bytes();
        node[..2].copy_from_slice(&sum);
    }

    fn begin<'a>(&self, node: &'a mut [u8], lpt_type: LptType, number: Option<u32>) -> PackBits<'a> {
        debug_assert_eq!(node.len(), self.bytes(lpt_type));
        node.fill(0);
        let mut bits = PackBits::new(node, CRC_BITS);
        bits.put((lpt_type as u8).into(), TYPE_BITS);
        if let Some(number) = number.filter(|_| self.is_big) {
            bits.put(number, self.number_bits);
        }
        bits
    }

    /// Encodes a pnode into `node`, which is [`pnode_bytes`](Self::pnode_bytes) long.
    pub fn encode_pnode(&self, lebs: &[LebProps; FANOUT], number: u32, node: &mut [u8]) {
        let mut bits = self.begin(node, LptType::Pnode, Some(number));
        for leb in lebs {
            bits.put(leb.free >> 3, self.space_bits);
            bits.put(leb.dirty >> 3, self.space_bits);
            bits.put(leb.is_index.into(), 1);
        }
        Self::close(node);
    }

    /// Encodes a nnode into `node`, which is [`nnode_bytes`](Self::nnode_bytes) long.
    pub fn encode_nnode(&self, children: &[Option<LptAddr>; FANOUT], number: u32, node: &mut [u8]) {
        let mut bits = self.begin(node, LptType::Nnode, Some(number));
        for child in children {
            let (lnum, offset) = child.map_or((self.lebs, 0), |addr| (addr.lnum - self.first, addr.offset));
            bits.put(lnum, self.lnum_bits);
            bits.put(offset, self.offset_bits);
        }
        Self::close(node);
    }

    /// Encodes the ltab into `node`, which is [`ltab_bytes`](Self::ltab_bytes) long.
    pub fn encode_ltab(&self, ltab: &[LtabEntry], node: &mut [u8]) {
        let mut bits = self.begin(node, LptType::Ltab, None);
        for entry in ltab {
            bits.put(entry.free, self.spc_bits);
            bits.put(entry.dirty, self.spc_bits);
        }
        Self::close(node);
    }

    /// Encodes the lsave into `node`, which is [`lsave_bytes`](Self::lsave_bytes) long.
    pub fn encode_lsave(&self, lnums: &[u32], node: &mut [u8]) {
        let mut bits = self.begin(node, LptType::Lsave, None);
        for &lnum in lnums {
            bits.put(lnum, self.main_lnum_bits);
        }
        Self::close(node);
    }

    /// Type of the node at the beginning of `bytes`, if its checksum says that there is one.
    pub fn type_at(&self, bytes: &[u8]) -> Option<LptType> {
        let code = Bits::new(bytes.get(..4)?, CRC_BITS).take(TYPE_BITS);
        let lpt_type = LptType::ALL.into_iter().find(|&lpt_type| u32::from(lpt_type as u8) == code)?;
        self.open(bytes, lpt_type, None).is_ok().then_some(lpt_type)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With an LPT of two LEBs.
    fn super_block(lebs: u32, max_lebs: u32, leb_bytes: u32) -> SuperBlock {
        SuperBlock { max_lebs, ..SuperBlock::of_test(lebs, leb_bytes, 2048) }
    }

    /// Sizes that mkfs.ubifs 2.1.5 printed for this volume (`facts`: LEB 126976, at most 2500 LEBs, 2 of LPT).
    #[test]
    fn sizes_are_those_of_mkfs() {
        let geometry = LptGeometry::new(&super_block(200, 2500, 126_976));
        let sizes = [geometry.pnode_bytes(), geometry.nnode_bytes(), geometry.ltab_bytes()];
        assert_eq!((sizes, geometry.height), ([17, 12, 11], 5));
    }

    #[test]
    fn crc16_is_that_of_modbus() {
        // Check value of CRC-16/MODBUS in the catalogue of parametrised CRC algorithms.
        assert_eq!(crc16(b"123456789"), 0x4b37);
    }

    #[test]
    fn a_node_keeps_its_fields_and_knows_its_place() {
        for flags in [0, sb_flags::BIG_LPT] {
            let sb = SuperBlock { flags, ..super_block(200, 2500, 126_976) };
            let geometry = LptGeometry::new(&sb);
            let lebs = [(0, 126_976, false), (126_976, 0, true), (8, 16, true), (0, 0, false)]
                .map(|(free, dirty, is_index)| LebProps { free, dirty, is_index });
            let mut node = vec![0xff; geometry.pnode_bytes()];
            geometry.encode_pnode(&lebs, 5, &mut node);
            assert_eq!(geometry.pnode(&node, 5), Ok(lebs));
            assert_eq!(geometry.pnode(&node, 6).is_err(), geometry.is_big);
            assert_eq!(geometry.type_at(&node), Some(LptType::Pnode));
            let children =
                [Some(LptAddr { lnum: 7, offset: 126_975 }), None, Some(LptAddr { lnum: 8, offset: 0 }), None];
            let mut node = vec![0xff; geometry.nnode_bytes()];
            geometry.encode_nnode(&children, 1, &mut node);
            assert_eq!(geometry.nnode(&node, 1), Ok(children));
            node[3] ^= 0x40;
            assert!(geometry.nnode(&node, 1).is_err());
            let ltab = [LtabEntry { free: 126_976, dirty: 0 }, LtabEntry { free: 1, dirty: 126_975 }];
            let mut node = vec![0xff; geometry.ltab_bytes()];
            geometry.encode_ltab(&ltab, &mut node);
            assert_eq!(geometry.ltab(&node), Ok(ltab.to_vec()));
            let lnums: Vec<u32> = (0..256).map(|lnum| lnum % 150 + sb.main_first()).collect();
            let mut node = vec![0xff; geometry.lsave_bytes()];
            geometry.encode_lsave(&lnums, &mut node);
            assert_eq!(geometry.lsave(&node), Ok(lnums));
        }
    }
}
