//! The on-flash format of UBIFS, written once: nodes, keys, the super block, the master node, LEB properties.
//!
//! All integers are little-endian. A node begins at an offset that is a multiple of 8 and ends in the same LEB. Source:
//! Linux 6.12 `fs/ubifs/ubifs-media.h` (layout). This module knows bytes only: no volume, no policy.

// What flash says is checked before it becomes narrower.
#![deny(clippy::cast_possible_truncation)]

mod bits;
mod key;
pub mod lpt;
mod master;
mod nodes;
mod superblock;

pub use key::{Key, KeyHash, KeyType, MAX_BLOCK};
pub use master::{Master, master_flags};
pub(crate) use nodes::padded;
pub use nodes::{
    Branch, COMMIT_START_BYTES, DataNode, DentNode, Device, INDEX_HEADER_BYTES, IndexNode, InodeNode,
    ORPHAN_HEADER_BYTES, OrphanNode, REFERENCE_BYTES, ReferenceNode, TruncationNode, commit_start, encode_commit_start,
    encode_index, index_bytes, inode_flags, pad,
};
pub use superblock::{SuperBlock, sb_flags};

/// UBIFS's checksum: CRC-32 (reflected, polynomial 0xEDB88320), initial value all ones, *not* inverted at the end.
pub fn crc(bytes: &[u8]) -> u32 {
    !crc32fast::hash(bytes)
}

/// Magic number of a node.
pub const MAGIC: u32 = 0x0610_1831;
/// Bytes of the header that every node begins with.
pub const HEADER_BYTES: usize = 24;
/// Bytes of a block: the data of one data node.
pub const BLOCK_BYTES: u32 = 4096;
/// Longest name of a directory entry or an extended attribute, in bytes.
pub const MAX_NAME: usize = 255;
/// Most bytes in an inode node: the target of a symbolic link, or the value of an extended attribute.
pub const MAX_INLINE: usize = 4096;
/// Inode number of the root directory.
pub const ROOT_INO: u32 = 1;
/// Least inode number of other files.
pub const FIRST_INO: u32 = 64;
/// First LEB of the log; the super block and two copies of the master node come before.
pub const LOG_LNUM: u32 = 3;
/// The LEB of the super block.
pub const SB_LNUM: u32 = 0;
/// The LEBs of the two copies of the master node.
pub const MASTER_LNUMS: [u32; 2] = [1, 2];
/// Value of bytes in a gap too small for a padding node.
pub const PADDING_BYTE: u8 = 0xce;
/// Bytes of a padding node, which may be followed by zeroes that it covers.
pub const PAD_NODE_BYTES: usize = 28;
/// Largest node: an inode with inline data, in bytes.
pub const MAX_NODE_BYTES: usize = InodeNode::BYTES + MAX_INLINE;

/// Type of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum NodeType {
    /// Inode.
    Inode,
    /// Data of a block.
    Data,
    /// Directory entry.
    Dent,
    /// Entry of an extended attribute.
    Xent,
    /// Truncation of a file, in the journal only.
    Truncation,
    /// Padding.
    Padding,
    /// Super block.
    SuperBlock,
    /// Master.
    Master,
    /// Reference from the log to a bud.
    Reference,
    /// Index.
    Index,
    /// Start of a commit.
    CommitStart,
    /// List of orphans.
    Orphan,
    /// HMAC of what comes before, in an authenticated image.
    Auth,
    /// Signature of the super block.
    Signature,
}

impl NodeType {
    const ALL: [NodeType; 14] = {
        use NodeType::*;
        [
            Inode,
            Data,
            Dent,
            Xent,
            Truncation,
            Padding,
            SuperBlock,
            Master,
            Reference,
            Index,
            CommitStart,
            Orphan,
            Auth,
            Signature,
        ]
    };

    /// Name of the type in messages.
    pub const fn name(self) -> &'static str {
        match self {
            NodeType::Inode => "inode node",
            NodeType::Data => "data node",
            NodeType::Dent => "directory entry node",
            NodeType::Xent => "extended attribute entry node",
            NodeType::Truncation => "truncation node",
            NodeType::Padding => "padding node",
            NodeType::SuperBlock => "super block node",
            NodeType::Master => "master node",
            NodeType::Reference => "reference node",
            NodeType::Index => "index node",
            NodeType::CommitStart => "commit start node",
            NodeType::Orphan => "orphan node",
            NodeType::Auth => "authentication node",
            NodeType::Signature => "signature node",
        }
    }

    /// Least and most bytes of a node of this type.
    const fn lengths(self) -> (usize, usize) {
        match self {
            NodeType::Inode => (InodeNode::BYTES, MAX_NODE_BYTES),
            NodeType::Data => (DataNode::HEADER_BYTES, DataNode::HEADER_BYTES + BLOCK_BYTES as usize),
            NodeType::Dent | NodeType::Xent => (DentNode::HEADER_BYTES + 2, DentNode::HEADER_BYTES + MAX_NAME + 1),
            NodeType::Truncation => (TruncationNode::BYTES, TruncationNode::BYTES),
            NodeType::Padding => (PAD_NODE_BYTES, PAD_NODE_BYTES),
            NodeType::SuperBlock => (SuperBlock::BYTES, SuperBlock::BYTES),
            NodeType::Master => (Master::BYTES, Master::BYTES),
            NodeType::Reference => (REFERENCE_BYTES, REFERENCE_BYTES),
            // The fanout bounds it; a LEB does in any case.
            NodeType::Index => (INDEX_HEADER_BYTES, usize::MAX),
            NodeType::CommitStart => (COMMIT_START_BYTES, COMMIT_START_BYTES),
            NodeType::Orphan => (ORPHAN_HEADER_BYTES + 8, usize::MAX),
            NodeType::Auth => (HEADER_BYTES, HEADER_BYTES + 64),
            NodeType::Signature => (HEADER_BYTES + 40, usize::MAX),
        }
    }
}

/// Whether a node was written with others that are valid only together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Group {
    /// The node stands alone.
    None,
    /// More nodes of the group follow.
    In,
    /// The node is the last of its group.
    Last,
}

/// Why bytes are not the node that is expected there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MediaError {
    /// The magic number is wrong.
    #[error("magic {found:#010x}, expected {MAGIC:#010x}")]
    Magic {
        /// Value found.
        found: u32,
    },
    /// The checksum does not match.
    #[error("CRC {found:#010x}, computed {computed:#010x}")]
    Crc {
        /// Checksum stored.
        found: u32,
        /// Checksum of the bytes.
        computed: u32,
    },
    /// The node has another type.
    #[error("node type {found}, expected {}", .expected.name())]
    Type {
        /// Type found.
        found: u8,
        /// Type expected.
        expected: NodeType,
    },
    /// A field is impossible.
    #[error("{what} = {found}, expected {expected}")]
    Field {
        /// Name of the field in the format.
        what: &'static str,
        /// Value found.
        found: u64,
        /// Values allowed.
        expected: &'static str,
    },
    /// The bytes end inside the node.
    #[error("{what} ends after {len} bytes")]
    Short {
        /// Name of the structure.
        what: &'static str,
        /// Bytes available.
        len: usize,
    },
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at + 4)) << 32 | u64::from(u32_at(bytes, at))
}

pub(crate) fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn put64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn field<T>(what: &'static str, found: impl Into<u64>, expected: &'static str) -> Result<T, MediaError> {
    Err(MediaError::Field { what, found: found.into(), expected })
}

/// The header of a node whose bytes were checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Global sequence number: the node with the higher one is newer.
    pub sqnum: u64,
    /// Bytes of the node, header included.
    pub len: u32,
    /// Type of the node.
    pub node_type: NodeType,
    /// Whether the node belongs to a group.
    pub group: Group,
}

impl Header {
    /// Decodes the header at the beginning of `bytes`, which may go on past the node.
    /// Errors: wrong magic; an unknown type; a length that the type cannot have. The checksum is not looked at.
    pub fn peek(bytes: &[u8]) -> Result<Header, MediaError> {
        if bytes.len() < HEADER_BYTES {
            return Err(MediaError::Short { what: "node header", len: bytes.len() });
        }
        let magic = u32_at(bytes, 0);
        if magic != MAGIC {
            return Err(MediaError::Magic { found: magic });
        }
        let Some(&node_type) = NodeType::ALL.get(usize::from(bytes[20])) else {
            return field("node_type", bytes[20], "0 to 13");
        };
        let group = match bytes[21] {
            0 => Group::None,
            1 => Group::In,
            2 => Group::Last,
            other => return field("group_type", other, "0 to 2"),
        };
        let len = u32_at(bytes, 16);
        let (least, most) = node_type.lengths();
        if (len as usize) < least || len as usize > most {
            return field("len", len, "a length that a node of this type can have");
        }
        Ok(Header { sqnum: u64_at(bytes, 8), len, node_type, group })
    }

    /// As [`peek`](Header::peek), and checks the checksum.
    /// Errors: as there; the node goes on past `bytes`; the checksum does not match.
    pub fn read(bytes: &[u8]) -> Result<(Header, &[u8]), MediaError> {
        let header = Header::peek(bytes)?;
        let Some(node) = bytes.get(..header.len as usize) else {
            return Err(MediaError::Short { what: header.node_type.name(), len: bytes.len() });
        };
        let (found, computed) = (u32_at(node, 4), crc(&node[8..]));
        if found != computed {
            return Err(MediaError::Crc { found, computed });
        }
        Ok((header, node))
    }

    /// As [`read`](Header::read) for a node of type `expected`.
    pub fn expect(bytes: &[u8], expected: NodeType) -> Result<(Header, &[u8]), MediaError> {
        let (header, node) = Header::read(bytes)?;
        if header.node_type != expected {
            return Err(MediaError::Type { found: header.node_type as u8, expected });
        }
        Ok((header, node))
    }
}

/// Writes the header of the node in `node`, whose other fields are in place, and its checksum.
pub fn seal(node: &mut [u8], node_type: NodeType, group: Group, sqnum: u64) {
    put_header(node, node_type, group, sqnum);
    put_crc(node);
}

/// Writes the header of the node in `node` without its checksum.
pub(crate) fn put_header(node: &mut [u8], node_type: NodeType, group: Group, sqnum: u64) {
    let len = u32::try_from(node.len()).expect("a node fits into a LEB");
    put32(node, 0, MAGIC);
    put64(node, 8, sqnum);
    put32(node, 16, len);
    node[20] = node_type as u8;
    node[21] = group as u8;
    put16(node, 22, 0);
}

/// Writes the checksum of a node that is complete.
pub(crate) fn put_crc(node: &mut [u8]) {
    let sum = crc(&node[8..]);
    put32(node, 4, sum);
}

/// `offset` rounded up to the place where the next node may begin.
pub const fn aligned(offset: u32) -> u32 {
    offset.next_multiple_of(8)
}

/// Type of a file, as in directory entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ItemType {
    /// Regular file.
    File,
    /// Directory.
    Dir,
    /// Symbolic link.
    Symlink,
    /// Block device.
    BlockDevice,
    /// Character device.
    CharDevice,
    /// Named pipe.
    Fifo,
    /// Socket.
    Socket,
}

impl ItemType {
    const ALL: [ItemType; 7] = {
        use ItemType::*;
        [File, Dir, Symlink, BlockDevice, CharDevice, Fifo, Socket]
    };

    /// Decodes the type of a directory entry.
    pub fn decode(byte: u8) -> Result<ItemType, MediaError> {
        match ItemType::ALL.get(usize::from(byte)) {
            Some(&item) => Ok(item),
            None => field("type", byte, "0 to 6"),
        }
    }

    /// The type in the mode of an inode (`S_IFMT`), if it names one.
    pub const fn of_mode(mode: u32) -> Option<ItemType> {
        match mode & 0o170_000 {
            0o100_000 => Some(ItemType::File),
            0o040_000 => Some(ItemType::Dir),
            0o120_000 => Some(ItemType::Symlink),
            0o060_000 => Some(ItemType::BlockDevice),
            0o020_000 => Some(ItemType::CharDevice),
            0o010_000 => Some(ItemType::Fifo),
            0o140_000 => Some(ItemType::Socket),
            _ => None,
        }
    }

    /// Its bits in a mode.
    pub const fn mode(self) -> u32 {
        match self {
            ItemType::File => 0o100_000,
            ItemType::Dir => 0o040_000,
            ItemType::Symlink => 0o120_000,
            ItemType::BlockDevice => 0o060_000,
            ItemType::CharDevice => 0o020_000,
            ItemType::Fifo => 0o010_000,
            ItemType::Socket => 0o140_000,
        }
    }
}

/// How data are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Compression {
    /// Not at all.
    None,
    /// LZO1X.
    Lzo,
    /// Raw deflate.
    Zlib,
    /// Zstandard.
    Zstd,
}

impl Compression {
    /// Every kind, in the order of their numbers on flash.
    pub const ALL: [Compression; 4] = [Compression::None, Compression::Lzo, Compression::Zlib, Compression::Zstd];

    /// Decodes the kind.
    pub fn decode(number: u16) -> Result<Compression, MediaError> {
        match Compression::ALL.get(usize::from(number)) {
            Some(&kind) => Ok(kind),
            None => field("compr_type", number, "0 to 3"),
        }
    }

    /// Name of the kind, as in `mkfs.ubifs -x`.
    pub const fn name(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Lzo => "lzo",
            Compression::Zlib => "zlib",
            Compression::Zstd => "zstd",
        }
    }
}
