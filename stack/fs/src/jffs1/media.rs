//! The format of JFFS version 1: one kind of node, with checksums that are sums of bytes.
//!
//! A node is a raw inode of 60 bytes, a name, and data; name and data are each padded to four bytes. All its fields are
//! in the byte order of the machine that wrote them. Source: Linux 2.6.12, `include/linux/jffs.h`.
//!
//! A node says: of inode `ino`, from `offset` on, remove `removed_bytes` and insert `data_bytes`; what the other fields
//! say of the inode holds from this version on. The node of a name that replaces another has the number of the replaced
//! inode as its data, and changes no contents.

/// First word of a node: "1984" as a number.
pub const MAGIC: u32 = 0x3438_3931;
/// A word that is erased.
pub const EMPTY: u32 = 0xffff_ffff;
/// A word of space that is not used.
pub const DIRTY: u32 = 0;
/// Number of the root directory.
pub const ROOT_INO: u32 = 1;
/// Longest name in bytes. 255 is what a length reads as that was not written.
pub const MAX_NAME_BYTES: usize = 254;
/// Nodes begin at multiples of this, and their parts are padded to it.
pub const ALIGN: u32 = 4;

/// Order of the bytes of a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Endian {
    /// Lowest byte first, as on ARM and the ETRAX.
    #[default]
    Little,
    /// Highest byte first, as on PowerPC.
    Big,
}

impl Endian {
    /// A word of the flash.
    pub fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Endian::Little => u32::from_le_bytes(bytes),
            Endian::Big => u32::from_be_bytes(bytes),
        }
    }

    /// A word for the flash.
    pub fn bytes(self, word: u32) -> [u8; 4] {
        match self {
            Endian::Little => word.to_le_bytes(),
            Endian::Big => word.to_be_bytes(),
        }
    }

    /// A half word of the flash.
    pub fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Endian::Little => u16::from_le_bytes(bytes),
            Endian::Big => u16::from_be_bytes(bytes),
        }
    }

    /// A half word for the flash.
    pub fn half(self, half: u16) -> [u8; 2] {
        match self {
            Endian::Little => half.to_le_bytes(),
            Endian::Big => half.to_be_bytes(),
        }
    }

    /// Bits of "rename" and "deleted" in their byte: a compiler for little-endian machines gives out bit fields from the
    /// lowest bit on, one for big-endian machines from the highest.
    const fn flag_bits(self) -> (u8, u8) {
        match self {
            Endian::Little => (0x40, 0x80),
            Endian::Big => (0x02, 0x01),
        }
    }
}

/// Sum of bytes: the checksum of everything.
pub fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |sum, &byte| sum.wrapping_add(byte.into()))
}

/// `bytes` with their padding.
pub const fn padded(bytes: u32) -> u32 {
    bytes.next_multiple_of(ALIGN)
}

/// The fixed part of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawInode {
    /// Number of the inode; 0 in a node that only fills space.
    pub ino: u32,
    /// Number of its directory; 0 of the root.
    pub pino: u32,
    /// Number of this node among those of the inode.
    pub version: u32,
    /// `st_mode`.
    pub mode: u32,
    /// Owner.
    pub uid: u16,
    /// Group.
    pub gid: u16,
    /// Time of the last access, in seconds since 1970.
    pub atime: u32,
    /// Time of the last change of the contents.
    pub mtime: u32,
    /// Time of the creation or of the last change of attributes.
    pub ctime: u32,
    /// Where contents are removed and inserted, in bytes.
    pub offset: u32,
    /// Bytes of data in this node.
    pub data_bytes: u32,
    /// Bytes that are removed before.
    pub removed_bytes: u32,
    /// Length of the name.
    pub name_bytes: u8,
    /// Number of names, always 1.
    pub nlink: u8,
    /// The name replaces that of another inode, whose number is the data.
    pub renames: bool,
    /// The inode is deleted, for good.
    pub deleted: bool,
    /// 0xFF, or 0 if the node is obsolete. Not part of the checksum.
    pub accurate: u8,
    /// Checksum of the data.
    pub data_sum: u32,
    /// Checksum of the name.
    pub name_sum: u16,
}

/// Why bytes are no raw inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotRawInode {
    /// It does not begin with [`MAGIC`].
    Magic(u32),
    /// Its checksum is another.
    Checksum {
        /// What is there.
        found: u16,
        /// The sum of its bytes.
        computed: u32,
    },
}

impl RawInode {
    /// Its length in bytes.
    pub const BYTES: usize = 60;
    /// Offset of the byte that says whether the node is obsolete.
    pub const ACCURATE_OFFSET: u32 = 51;
    /// Offset of the checksums, which are its last three fields.
    pub const SUMS_OFFSET: u32 = 52;
    const CHECKSUM_OFFSET: usize = 58;

    /// The raw inode that fills `bytes` of space, at least [`RawInode::BYTES`]: it is obsolete from the beginning, and
    /// its data are the erased bytes that follow.
    pub fn filler(bytes: u32) -> RawInode {
        let data_bytes = bytes - RawInode::BYTES as u32;
        RawInode { data_bytes, data_sum: data_bytes * 0xff, ..RawInode::default() }
    }

    /// Bytes of the whole node on the flash.
    pub const fn node_bytes(&self) -> u32 {
        RawInode::BYTES as u32 + padded(self.name_bytes as u32) + padded(self.data_bytes)
    }

    /// Where the data begin in the node.
    pub const fn data_offset(&self) -> u32 {
        RawInode::BYTES as u32 + padded(self.name_bytes as u32)
    }

    /// Its bytes, with their checksum.
    pub fn encode(&self, endian: Endian) -> [u8; RawInode::BYTES] {
        let mut out = [0; RawInode::BYTES];
        let words = [(0, MAGIC), (4, self.ino), (8, self.pino), (12, self.version), (16, self.mode), (24, self.atime)];
        let more = [
            (28, self.mtime),
            (32, self.ctime),
            (36, self.offset),
            (40, self.data_bytes),
            (44, self.removed_bytes),
            (52, self.data_sum),
        ];
        for (at, word) in words.into_iter().chain(more) {
            out[at..at + 4].copy_from_slice(&endian.bytes(word));
        }
        for (at, half) in [(20, self.uid), (22, self.gid), (56, self.name_sum)] {
            out[at..at + 2].copy_from_slice(&endian.half(half));
        }
        let (renames, deleted) = endian.flag_bits();
        out[48] = self.name_bytes;
        out[49] = self.nlink;
        out[50] = (u8::from(self.renames) * renames) | (u8::from(self.deleted) * deleted);
        // Neither `accurate` nor the checksum itself, both still 0, is part of the sum. 58 bytes do not overflow it.
        let sum = checksum(&out) as u16;
        out[51] = self.accurate;
        out[RawInode::CHECKSUM_OFFSET..].copy_from_slice(&endian.half(sum));
        out
    }

    /// Reads a raw inode.
    /// Errors: it is none.
    pub fn decode(bytes: &[u8; RawInode::BYTES], endian: Endian) -> Result<RawInode, NotRawInode> {
        let word = |at: usize| endian.u32(bytes[at..at + 4].try_into().expect("four bytes"));
        let half = |at: usize| endian.u16(bytes[at..at + 2].try_into().expect("two bytes"));
        if word(0) != MAGIC {
            return Err(NotRawInode::Magic(word(0)));
        }
        let accurate = bytes[RawInode::ACCURATE_OFFSET as usize];
        let computed = checksum(&bytes[..RawInode::CHECKSUM_OFFSET]) - u32::from(accurate);
        let found = half(RawInode::CHECKSUM_OFFSET);
        if u32::from(found) != computed {
            return Err(NotRawInode::Checksum { found, computed });
        }
        let (renames, deleted) = endian.flag_bits();
        Ok(RawInode {
            ino: word(4),
            pino: word(8),
            version: word(12),
            mode: word(16),
            uid: half(20),
            gid: half(22),
            atime: word(24),
            mtime: word(28),
            ctime: word(32),
            offset: word(36),
            data_bytes: word(40),
            removed_bytes: word(44),
            name_bytes: bytes[48],
            nlink: bytes[49],
            renames: bytes[50] & renames != 0,
            deleted: bytes[50] & deleted != 0,
            accurate,
            data_sum: word(52),
            name_sum: half(56),
        })
    }
}

const _: () = assert!(RawInode::BYTES == 5 * 4 + 2 * 2 + 6 * 4 + 4 + 4 + 2 * 2);

#[cfg(test)]
mod tests {
    use super::*;

    /// `/etc/rc` with the contents "hi!\n", written by hand from the table of `facts`: every field has a value of its own.
    fn by_hand() -> (RawInode, [u8; RawInode::BYTES]) {
        let inode = RawInode {
            ino: 7,
            pino: 2,
            version: 3,
            mode: 0o100_644,
            uid: 0x0102,
            gid: 0x0304,
            atime: 0x3b1e_0001,
            mtime: 0x3b1e_0002,
            ctime: 0x3b1e_0003,
            offset: 0x10,
            data_bytes: 4,
            removed_bytes: 1,
            name_bytes: 2,
            nlink: 1,
            renames: false,
            deleted: true,
            accurate: 0xff,
            // 'h' 104 + 'i' 105 + '!' 33 + '\n' 10, and 'r' 114 + 'c' 99.
            data_sum: 252,
            name_sum: 213,
        };
        #[rustfmt::skip]
        let bytes = [
            0x31, 0x39, 0x38, 0x34, // 49 + 57 + 56 + 52 = 214
            7, 0, 0, 0, // 7
            2, 0, 0, 0, // 2
            3, 0, 0, 0, // 3
            0xa4, 0x81, 0, 0, // 0o100644 = 0x81a4: 164 + 129 = 293
            0x02, 0x01, 0x04, 0x03, // 10
            0x01, 0x00, 0x1e, 0x3b, // 1 + 30 + 59 = 90
            0x02, 0x00, 0x1e, 0x3b, // 91
            0x03, 0x00, 0x1e, 0x3b, // 92
            0x10, 0, 0, 0, // 16
            4, 0, 0, 0, // 4
            1, 0, 0, 0, // 1
            2, 1, 0x80, 0xff, // 2 + 1 + 128, without `accurate` = 131
            252, 0, 0, 0, // 252
            213, 0, // 213
            0x8b, 0x05, // 214+7+2+3+293+10+90+91+92+16+4+1+131+252+213 = 1419 = 0x058b
        ];
        (inode, bytes)
    }

    #[test]
    fn a_raw_inode_has_the_bytes_and_the_sum_worked_out_by_hand() {
        let (inode, bytes) = by_hand();
        assert_eq!(inode.encode(Endian::Little), bytes);
        assert_eq!(RawInode::decode(&bytes, Endian::Little), Ok(inode));
        assert_eq!((inode.data_offset(), inode.node_bytes()), (60 + 4, 60 + 4 + 4));
    }

    /// The sum does not depend on the order of bytes, but the flags have other bits: deleted is 1 instead of 128.
    #[test]
    fn a_big_endian_raw_inode_has_its_words_and_bit_fields_the_other_way_round() {
        let (inode, little) = by_hand();
        let big = inode.encode(Endian::Big);
        assert_eq!(big[..8], [0x34, 0x38, 0x39, 0x31, 0, 0, 0, 7]);
        assert_eq!(big[20..24], [1, 2, 3, 4]);
        assert_eq!(big[48..52], [2, 1, 0x01, 0xff]);
        assert_eq!(big[58..], [0x05, 0x0c], "1419 - 127");
        assert_eq!(RawInode::decode(&big, Endian::Big), Ok(inode));
        assert_eq!(RawInode::decode(&little, Endian::Big), Err(NotRawInode::Magic(0x3139_3834)));
    }

    #[test]
    fn an_obsolete_node_has_the_same_sum_and_any_other_bit_another() {
        let (_, bytes) = by_hand();
        let mut obsolete = bytes;
        obsolete[51] = 0;
        assert_eq!(RawInode::decode(&obsolete, Endian::Little).map(|inode| inode.accurate), Ok(0));
        for at in (4..60 * 8).filter(|bit| bit / 8 != 51) {
            let mut wrong = bytes;
            wrong[at / 8] ^= 1 << (at % 8);
            assert!(RawInode::decode(&wrong, Endian::Little).is_err(), "bit {at}");
        }
    }

    /// 100 bytes of space: 40 of them are data that read 0xFF, whose sum is 40 · 255 = 10,200 = 0x27d8. The sum of the raw
    /// inode is 214 + 40 + 0xd8 + 0x27 = 509 = 0x01fd.
    #[test]
    fn a_filler_is_obsolete_and_covers_erased_bytes() {
        let bytes = RawInode::filler(100).encode(Endian::Little);
        let mut expected = [0; 60];
        expected[..4].copy_from_slice(b"1984");
        expected[40] = 40;
        expected[52..54].copy_from_slice(&[0xd8, 0x27]);
        expected[58..].copy_from_slice(&[0xfd, 0x01]);
        assert_eq!(bytes, expected);
        assert_eq!(RawInode::filler(100).node_bytes(), 100);
        assert_eq!(RawInode::filler(60).encode(Endian::Little)[58..], [214, 0]);
    }
}
