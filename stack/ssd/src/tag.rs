//! Tag of a page in its OOB area, from which the mapping is rebuilt after a power loss.
//!
//! ```text
//! offset  bytes
//!  0      8     0xFF: reserved for the factory's bad-block mark
//!  8      4     logical page of the unit; of padding the one that was unmapped, or 0xFFFF_FFFF
//! 12      8     version: grows with each write of the drive; a copy keeps its source's
//! 20      8     stamp: grows with each program of the drive; the upper half with each power-on
//! 28      4     erase count of the block; bit 31: the contents are lost, could not be read when they were copied here;
//!               bit 30: padding
//! 32      4     CRC-32 of the page's contents
//! 36      4     CRC-32 of bytes 8 to 35
//! ```
//! Numbers are little-endian. The layout is nandlab's own: real ones are not published, but all need the first two.

use crate::ftl::NONE;

/// Size of a tag in OOB bytes, including those reserved for the bad-block mark.
pub const OOB_BYTES: usize = 40;
const AT: usize = 8;
const LOST: u32 = 1 << 31;
const PADDING: u32 = 1 << 30;

/// Tag of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Logical page of the unit; of padding the one that was unmapped when it was programmed, or [`NONE`].
    pub lpn: u32,
    /// Whether the page is padding.
    pub padding: bool,
    /// Version: grows with each write of the drive. A copy of a page has that of its source.
    pub version: u64,
    /// Stamp: grows with each program of the drive.
    pub stamp: u64,
    /// Erase count of the block.
    pub erases: u32,
    /// Whether the contents could not be read when they were copied here.
    pub lost: bool,
    /// CRC-32 of the page's contents.
    pub contents: u32,
}

/// Result of decoding OOB bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Blank: nothing was programmed.
    Blank,
    /// A valid tag.
    Tag(Tag),
    /// No valid tag: an interrupted program or erase.
    Torn,
}

/// CRC-32 by which contents are verified.
pub fn crc(contents: &[u8]) -> u32 {
    crc32fast::hash(contents)
}

impl Tag {
    /// Encodes the OOB bytes.
    pub fn encode(&self) -> [u8; OOB_BYTES] {
        let mut oob = [0xff; OOB_BYTES];
        oob[8..12].copy_from_slice(&self.lpn.to_le_bytes());
        oob[12..20].copy_from_slice(&self.version.to_le_bytes());
        oob[20..28].copy_from_slice(&self.stamp.to_le_bytes());
        let marks = if self.lost { LOST } else { 0 } | if self.padding { PADDING } else { 0 };
        oob[28..32].copy_from_slice(&(self.erases & !(LOST | PADDING) | marks).to_le_bytes());
        oob[32..36].copy_from_slice(&self.contents.to_le_bytes());
        let own = crc(&oob[AT..36]);
        oob[36..40].copy_from_slice(&own.to_le_bytes());
        oob
    }

    /// Decodes OOB bytes.
    pub fn decode(oob: &[u8; OOB_BYTES]) -> Found {
        if oob[AT..].iter().all(|&byte| byte == 0xff) {
            return Found::Blank;
        }
        let four = |at: usize| u32::from_le_bytes([oob[at], oob[at + 1], oob[at + 2], oob[at + 3]]);
        let eight = |at: usize| u64::from(four(at)) | u64::from(four(at + 4)) << 32;
        if four(36) != crc(&oob[AT..36]) {
            return Found::Torn;
        }
        Found::Tag(Tag {
            lpn: four(8),
            version: eight(12),
            stamp: eight(20),
            erases: four(28) & !(LOST | PADDING),
            lost: four(28) & LOST != 0,
            // Earlier versions wrote no mark, and never the number of a page.
            padding: four(28) & PADDING != 0 || four(8) == NONE,
            contents: four(32),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAG: Tag = Tag {
        lpn: 0x0102_0304,
        version: 5 << 40 | 6,
        stamp: 7,
        erases: 8,
        lost: true,
        padding: false,
        contents: 0x0a0b_0c0d,
    };

    #[test]
    fn a_tag_is_where_its_layout_says() {
        let oob = TAG.encode();
        assert_eq!(oob[..8], [0xff; 8]);
        assert_eq!(oob[8..12], [4, 3, 2, 1]);
        assert_eq!(oob[12..20], [6, 0, 0, 0, 0, 5, 0, 0]);
        assert_eq!(oob[20..28], [7, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!((&oob[28..32], &oob[32..36]), (&[8, 0, 0, 0x80][..], &[0x0d, 0x0c, 0x0b, 0x0a][..]));
        assert_eq!(Tag::decode(&oob), Found::Tag(TAG));
        let padding = Tag { padding: true, lost: false, ..TAG };
        assert_eq!(
            (padding.encode()[28..32].to_vec(), Tag::decode(&padding.encode())),
            (vec![8, 0, 0, 0x40], Found::Tag(padding))
        );
    }

    #[test]
    fn padding_without_a_mark_is_padding() {
        let padding = Tag { lpn: NONE, lost: false, ..TAG };
        assert_eq!(Tag::decode(&padding.encode()), Found::Tag(Tag { padding: true, ..padding }));
    }

    #[test]
    fn a_tag_of_which_a_bit_did_not_fall_is_torn() {
        let oob = TAG.encode();
        for bit in AT * 8..OOB_BYTES * 8 {
            let mut torn = oob;
            torn[bit / 8] |= 1 << (bit % 8);
            let expected = if torn == oob { Found::Tag(TAG) } else { Found::Torn };
            assert_eq!(Tag::decode(&torn), expected, "bit {bit}");
        }
        assert_eq!(Tag::decode(&[0xff; OOB_BYTES]), Found::Blank);
    }
}
