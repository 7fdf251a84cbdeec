//! nandlab's own format: small, seekable, checksummed. `docs/format/trace.md` describes it byte by byte; all numbers
//! are little-endian.
//!
//! A head, then blocks of records, each compressed and checksummed separately, then an index of the blocks and a
//! footer. A truncated file can be read up to its last complete block. Records are read exactly as they were written.

mod pack;
mod read;
mod seek;
mod write;

pub use pack::MOST_RECORDS;
pub(super) use read::{Blocks, Next};
pub use seek::NtraceFile;
pub use write::NtraceWriter;

use sim::Ns;

/// First bytes of a file. They detect a copy that was made as text or lost its eighth bit.
pub const MAGIC: [u8; 8] = *b"\x89NTR\r\n\x1a\n";
/// Format version that is written and read.
pub const VERSION: u16 = 1;

const BLOCK_MAGIC: [u8; 4] = *b"NTBK";
const INDEX_MAGIC: [u8; 4] = *b"NTIX";
const END_MAGIC: [u8; 4] = *b"NTEN";

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// An error in a piece: offset in it, what was found, what was expected.
#[derive(Debug, PartialEq, Eq)]
struct Wrong {
    at: usize,
    found: String,
    expected: String,
}

impl Wrong {
    fn new<T>(at: usize, found: impl Into<String>, expected: impl Into<String>) -> Result<T, Wrong> {
        Err(Wrong { at, found: found.into(), expected: expected.into() })
    }

    fn sum<T>(at: usize, found: u32, expected: u32) -> Result<T, Wrong> {
        Wrong::new(at, format!("checksum {found:08x}"), format!("{expected:08x}, of the bytes that are there"))
    }
}

/// Head of the file.
struct Head;

impl Head {
    const BYTES: usize = 32;

    fn encode() -> [u8; Head::BYTES] {
        let mut bytes = [0; Head::BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
        bytes[10..12].copy_from_slice(&(Head::BYTES as u16).to_le_bytes());
        bytes[12..16].copy_from_slice(&MOST_RECORDS.to_le_bytes());
        let sum = crc32fast::hash(&bytes[..28]);
        bytes[28..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn check(bytes: &[u8; Head::BYTES]) -> Result<(), Wrong> {
        if bytes[..8] != MAGIC {
            return Wrong::new(0, super::error::quoted(&bytes[..8]), "the magic of an .ntrace file");
        }
        let version = u16_at(bytes, 8);
        if version != VERSION {
            return Wrong::new(8, format!("version {version}"), format!("version {VERSION}"));
        }
        let (found, sum) = (u32_at(bytes, 28), crc32fast::hash(&bytes[..28]));
        if found != sum {
            return Wrong::sum(28, found, sum);
        }
        let head_bytes = u16_at(bytes, 10);
        if usize::from(head_bytes) != Head::BYTES {
            return Wrong::new(10, format!("a head of {head_bytes} bytes"), format!("{}", Head::BYTES));
        }
        Ok(())
    }
}

/// Head of a block of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BlockHead {
    records: u32,
    packed_bytes: u32,
    raw_bytes: u32,
    first_record: u64,
    first_at: Ns,
    last_at: Ns,
    payload_sum: u32,
}

impl BlockHead {
    const BYTES: usize = 48;

    fn encode(&self) -> [u8; BlockHead::BYTES] {
        let mut bytes = [0; BlockHead::BYTES];
        bytes[..4].copy_from_slice(&BLOCK_MAGIC);
        bytes[4..8].copy_from_slice(&self.records.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.packed_bytes.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.raw_bytes.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.first_record.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.first_at.0.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.last_at.0.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.payload_sum.to_le_bytes());
        let sum = crc32fast::hash(&bytes[..44]);
        bytes[44..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Decodes a head whose magic was checked. Sizes are limited to what its number of records can need.
    fn decode(bytes: &[u8; BlockHead::BYTES]) -> Result<BlockHead, Wrong> {
        let (found, sum) = (u32_at(bytes, 44), crc32fast::hash(&bytes[..44]));
        if found != sum {
            return Wrong::sum(44, found, sum);
        }
        let head = BlockHead {
            records: u32_at(bytes, 4),
            packed_bytes: u32_at(bytes, 8),
            raw_bytes: u32_at(bytes, 12),
            first_record: u64_at(bytes, 16),
            first_at: Ns(u64_at(bytes, 24)),
            last_at: Ns(u64_at(bytes, 32)),
            payload_sum: u32_at(bytes, 40),
        };
        if !(1..=MOST_RECORDS).contains(&head.records) {
            return Wrong::new(4, format!("{} records", head.records), format!("1 to {MOST_RECORDS}"));
        }
        let most = pack::most_bytes(head.records);
        if head.raw_bytes > most {
            return Wrong::new(12, format!("{} bytes unpacked", head.raw_bytes), format!("{most} at most"));
        }
        let most = zstd::zstd_safe::compress_bound(most as usize);
        if head.packed_bytes as usize > most {
            return Wrong::new(8, format!("{} bytes packed", head.packed_bytes), format!("{most} at most"));
        }
        if head.first_at > head.last_at {
            return Wrong::new(24, format!("first time {}", head.first_at.0), format!("{} at most", head.last_at.0));
        }
        Ok(head)
    }
}

/// Place of a block in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct IndexEntry {
    first_at: Ns,
    first_record: u64,
    offset: u64,
}

impl IndexEntry {
    const BYTES: usize = 24;

    fn encode(&self) -> [u8; IndexEntry::BYTES] {
        let mut bytes = [0; IndexEntry::BYTES];
        bytes[..8].copy_from_slice(&self.first_at.0.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.first_record.to_le_bytes());
        bytes[16..].copy_from_slice(&self.offset.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> IndexEntry {
        IndexEntry { first_at: Ns(u64_at(bytes, 0)), first_record: u64_at(bytes, 8), offset: u64_at(bytes, 16) }
    }
}

/// Bytes of the index before its entries: magic and count. A checksum of the whole index follows the entries.
const INDEX_HEAD_BYTES: usize = 8;

/// Footer: the last bytes of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Footer {
    index_at: u64,
    records: u64,
    last_at: Ns,
}

impl Footer {
    const BYTES: usize = 32;

    fn encode(&self) -> [u8; Footer::BYTES] {
        let mut bytes = [0; Footer::BYTES];
        bytes[..8].copy_from_slice(&self.index_at.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.records.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.last_at.0.to_le_bytes());
        let sum = crc32fast::hash(&bytes[..24]);
        bytes[24..28].copy_from_slice(&sum.to_le_bytes());
        bytes[28..].copy_from_slice(&END_MAGIC);
        bytes
    }

    fn decode(bytes: &[u8; Footer::BYTES]) -> Result<Footer, Wrong> {
        if bytes[28..] != END_MAGIC {
            return Wrong::new(28, super::error::quoted(&bytes[28..]), "the end \"NTEN\"");
        }
        let (found, sum) = (u32_at(bytes, 24), crc32fast::hash(&bytes[..24]));
        if found != sum {
            return Wrong::sum(24, found, sum);
        }
        Ok(Footer { index_at: u64_at(bytes, 0), records: u64_at(bytes, 8), last_at: Ns(u64_at(bytes, 16)) })
    }
}
