//! Keys of the index: an inode number, and what of the inode.

use super::{MediaError, field, u32_at};

/// Largest block number of a file: a file ends at 2^29 blocks.
pub const MAX_BLOCK: u32 = (1 << 29) - 1;

/// What a key is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum KeyType {
    /// The inode.
    Inode,
    /// A block of its data.
    Data,
    /// An entry of the directory.
    Dent,
    /// An entry of its extended attributes.
    Xent,
}

/// A key: the inode number in the upper half, type and block number or hash of a name in the lower. Keys are ordered as
/// numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Key(pub u64);

impl Key {
    /// Bytes of a key in a branch of an index node.
    pub const BYTES: usize = 8;

    const fn new(ino: u32, key_type: KeyType, low: u32) -> Key {
        Key((ino as u64) << 32 | (key_type as u64) << 29 | low as u64)
    }

    /// Key of an inode.
    pub const fn inode(ino: u32) -> Key {
        Key::new(ino, KeyType::Inode, 0)
    }

    /// Key of a block of a file. Panics above [`MAX_BLOCK`].
    pub const fn data(ino: u32, block: u32) -> Key {
        assert!(block <= MAX_BLOCK);
        Key::new(ino, KeyType::Data, block)
    }

    /// Key of an entry in directory `dir` whose name has this hash.
    pub const fn dent(dir: u32, hash: u32) -> Key {
        Key::new(dir, KeyType::Dent, hash & MAX_BLOCK)
    }

    /// Key of an extended attribute of `host` whose name has this hash.
    pub const fn xent(host: u32, hash: u32) -> Key {
        Key::new(host, KeyType::Xent, hash & MAX_BLOCK)
    }

    /// Inode number: of the directory in the key of an entry, of the host in that of an attribute.
    pub const fn ino(self) -> u32 {
        #[allow(clippy::cast_possible_truncation, reason = "the upper half")]
        let ino = (self.0 >> 32) as u32;
        ino
    }

    /// What the key is of. `None` of a key that no version of the format writes.
    pub const fn key_type(self) -> Option<KeyType> {
        match self.0 >> 29 & 7 {
            0 => Some(KeyType::Inode),
            1 => Some(KeyType::Data),
            2 => Some(KeyType::Dent),
            3 => Some(KeyType::Xent),
            _ => None,
        }
    }

    /// Whether it is of an entry, of which there may be more with this key.
    pub const fn is_of_entry(self) -> bool {
        matches!(self.key_type(), Some(KeyType::Dent | KeyType::Xent))
    }

    /// Block number or hash.
    pub const fn low(self) -> u32 {
        #[allow(clippy::cast_possible_truncation, reason = "29 bits")]
        let low = (self.0 & MAX_BLOCK as u64) as u32;
        low
    }

    /// Decodes the first 8 bytes of a key. Errors: a type above 3.
    pub fn decode(bytes: &[u8]) -> Result<Key, MediaError> {
        let key = Key(u64::from(u32_at(bytes, 0)) << 32 | u64::from(u32_at(bytes, 4)));
        match key.key_type() {
            Some(_) => Ok(key),
            None => field("key type", key.0 >> 29 & 7, "0 to 3"),
        }
    }

    /// Writes the key to the first 8 bytes.
    pub fn encode(self, bytes: &mut [u8]) {
        bytes[..4].copy_from_slice(&self.ino().to_le_bytes());
        #[allow(clippy::cast_possible_truncation, reason = "the lower half")]
        bytes[4..8].copy_from_slice(&(self.0 as u32).to_le_bytes());
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.key_type() {
            Some(key_type) => write!(f, "{key_type:?}({}, {:#x})", self.ino(), self.low()),
            None => write!(f, "Key({:#018x})", self.0),
        }
    }
}

/// How names are hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum KeyHash {
    /// The hash of reiserfs.
    R5,
    /// The first four bytes of the name, for tests of collisions.
    Test,
}

impl KeyHash {
    /// Hash of a name in 29 bits. The values 0 to 2 are left to `.`, `..` and the end of a directory.
    pub fn of(self, name: &[u8]) -> u32 {
        let hash = match self {
            KeyHash::R5 => name.iter().fold(0u32, |hash, &byte| {
                // Bytes are signed: those from 0x80 on count as negative.
                let byte = i32::from(byte.cast_signed());
                let sum = hash.wrapping_add((byte << 4).cast_unsigned()).wrapping_add((byte >> 4).cast_unsigned());
                sum.wrapping_mul(11)
            }),
            KeyHash::Test => {
                let mut first = [0; 4];
                let len = name.len().min(4);
                first[..len].copy_from_slice(&name[..len]);
                u32::from_le_bytes(first)
            }
        };
        match hash & MAX_BLOCK {
            low @ 0..=2 => low + 3,
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_an_inode_follow_it_in_order() {
        let keys = [
            Key::inode(7),
            Key::data(7, 0),
            Key::data(7, MAX_BLOCK),
            Key::dent(7, 3),
            Key::xent(7, 3),
            Key::xent(7, MAX_BLOCK),
            Key::inode(8),
        ];
        assert!(keys.is_sorted());
        let mut bytes = [0; 8];
        for key in keys {
            key.encode(&mut bytes);
            assert_eq!(Key::decode(&bytes), Ok(key));
        }
    }

    #[test]
    fn a_key_is_two_little_endian_words() {
        let mut bytes = [0; 8];
        Key::dent(0x0102_0304, 0x0506_0708).encode(&mut bytes);
        assert_eq!(bytes, [4, 3, 2, 1, 8, 7, 6, 0x45]);
        assert!(Key::decode(&[0, 0, 0, 0, 0, 0, 0, 0x80]).is_err());
    }

    #[test]
    fn r5_by_hand() {
        // "a": (0x61 << 4) + (0x61 >> 4) = 1552 + 6, times 11.
        assert_eq!(KeyHash::R5.of(b"a"), 1558 * 11);
        // "ab": (17138 + 0x620 + 6) * 11.
        assert_eq!(KeyHash::R5.of(b"ab"), (17138 + 1568 + 6) * 11);
        // 0xe4 is -28: -448 + -2 = -450, times 11 is -4950 in 29 bits.
        assert_eq!(KeyHash::R5.of(b"\xe4"), (1 << 29) - 4950);
        assert_eq!(KeyHash::R5.of(b""), 3);
        assert_eq!(KeyHash::Test.of(b"\x01"), 4);
        assert_eq!(KeyHash::Test.of(b"abcde"), u32::from_le_bytes(*b"abcd") & MAX_BLOCK);
    }
}
