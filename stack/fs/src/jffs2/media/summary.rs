//! The summary at the end of an eraseblock: what nodes it holds. A mount that finds one reads no other node of the block.

use super::{DirentNode, Endian, Header, InodeNode, XattrNode, XrefNode, crc, node_type};

/// The last word of an eraseblock with a summary.
const MARKER: u32 = 0x0285_1885;
/// Bytes of the summary node before its entries.
const HEAD: usize = 32;
/// Bytes at the end: where the summary begins, and [`MARKER`].
const TAIL: usize = 8;
/// Bytes of a summary without entries.
pub const SUMMARY_FRAME: u32 = (HEAD + TAIL) as u32;

/// A node of the eraseblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// An inode node.
    Inode {
        /// Inode.
        ino: u32,
        /// Version of the node.
        version: u32,
        /// Offset in the block.
        offset: u32,
        /// Bytes of the node.
        len: u32,
    },
    /// An entry of a directory.
    Dirent {
        /// Bytes of the node.
        len: u32,
        /// Offset in the block.
        offset: u32,
        /// Directory.
        dir: u32,
        /// Version of the node.
        version: u32,
        /// Inode; 0: the name was removed.
        ino: u32,
        /// Type of the inode, as `d_type`.
        kind: u8,
        /// Name.
        name: Vec<u8>,
    },
    /// An extended attribute.
    Xattr {
        /// Number of the attribute.
        xid: u32,
        /// Version of the node.
        version: u32,
        /// Offset in the block.
        offset: u32,
        /// Bytes of the node.
        len: u32,
    },
    /// That an inode has an attribute.
    Xref {
        /// Offset in the block.
        offset: u32,
    },
}

impl Entry {
    /// Of an inode node at `offset`.
    pub fn inode(node: &InodeNode, offset: u32, len: u32) -> Entry {
        Entry::Inode { ino: node.ino, version: node.version, offset, len }
    }

    /// Of a directory entry at `offset`.
    pub fn dirent(node: &DirentNode, name: &[u8], offset: u32) -> Entry {
        let len = (DirentNode::BYTES + name.len()) as u32;
        let DirentNode { dir, version, ino, kind, .. } = *node;
        Entry::Dirent { len, offset, dir, version, ino, kind, name: name.to_vec() }
    }

    /// Of an extended attribute at `offset`.
    pub fn xattr(node: &XattrNode, offset: u32, len: u32) -> Entry {
        Entry::Xattr { xid: node.xid, version: node.version, offset, len }
    }

    /// Bytes in the summary.
    pub fn bytes(&self) -> u32 {
        match self {
            Entry::Inode { .. } | Entry::Xattr { .. } => 18,
            Entry::Dirent { name, .. } => 24 + name.len() as u32,
            Entry::Xref { .. } => 6,
        }
    }

    /// Offset and bytes of the node.
    pub fn place(&self) -> (u32, u32) {
        match self {
            Entry::Inode { offset, len, .. } | Entry::Xattr { offset, len, .. } | Entry::Dirent { offset, len, .. } => {
                (*offset, *len)
            }
            Entry::Xref { offset } => (*offset, XrefNode::BYTES as u32),
        }
    }

    /// Offset, type and bytes of the node, as its header has them.
    pub fn header(&self) -> (u32, u16, u32) {
        let node_type = match self {
            Entry::Inode { .. } => node_type::INODE,
            Entry::Dirent { .. } => node_type::DIRENT,
            Entry::Xattr { .. } => node_type::XATTR,
            Entry::Xref { .. } => node_type::XREF,
        };
        let (offset, len) = self.place();
        (offset, node_type, len)
    }

    /// The same node at another offset.
    pub fn at(mut self, new: u32) -> Entry {
        match &mut self {
            Entry::Inode { offset, .. }
            | Entry::Xattr { offset, .. }
            | Entry::Dirent { offset, .. }
            | Entry::Xref { offset } => *offset = new,
        }
        self
    }

    fn write(&self, endian: Endian, out: &mut Vec<u8>) {
        let begin = out.len();
        out.resize(begin + self.bytes() as usize, 0);
        let bytes = &mut out[begin..];
        let mut words = |node_type: u16, words: &[u32]| {
            endian.put16(bytes, 0, node_type);
            words.iter().enumerate().for_each(|(at, word)| endian.put32(bytes, 2 + 4 * at, *word));
        };
        match self {
            Entry::Inode { ino, version, offset, len } => words(node_type::INODE, &[*ino, *version, *offset, *len]),
            Entry::Xattr { xid, version, offset, len } => words(node_type::XATTR, &[*xid, *version, *offset, *len]),
            Entry::Xref { offset } => words(node_type::XREF, &[*offset]),
            Entry::Dirent { len, offset, dir, version, ino, kind, name } => {
                words(node_type::DIRENT, &[*len, *offset, *dir, *version, *ino]);
                bytes[22] = u8::try_from(name.len()).expect("a name of JFFS2 is below 255 bytes");
                bytes[23] = *kind;
                bytes[24..].copy_from_slice(name);
            }
        }
    }
}

/// A summary that is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Offset of its node in the block.
    pub offset: u32,
    /// Bytes of the clean marker at the beginning of the block; 0: there is none.
    pub clean_marker: u32,
    /// The nodes, in the order in which they were written.
    pub entries: Vec<Entry>,
}

impl Summary {
    /// Bytes at the end of a block that say where its summary begins.
    pub const TAIL_BYTES: usize = TAIL;

    /// Where the summary of a block begins, by the last bytes of it. `None`: it has none.
    pub fn offset(endian: Endian, tail: &[u8], block_bytes: u32) -> Option<u32> {
        let tail = tail.last_chunk::<TAIL>()?;
        let offset = endian.u32(tail, 0);
        let fits = offset.checked_add(SUMMARY_FRAME).is_some_and(|end| end <= block_bytes);
        (endian.u32(tail, 4) == MARKER && fits).then_some(offset)
    }

    /// Reads the summary in `bytes`, which go from `offset` to the end of the block. `None`: a CRC differs, or an entry is of
    /// an unknown type or lies beyond the summary. Linux looks at every node of the block then.
    pub fn read(endian: Endian, bytes: &[u8], offset: u32) -> Option<Summary> {
        let header = Header::read(endian, bytes.get(..HEAD)?).ok()?;
        let is_whole = header.node_type == node_type::SUMMARY && header.len as usize == bytes.len();
        let (head, body) = bytes.split_at(HEAD);
        if !is_whole || endian.u32(head, 28) != crc(&head[..24]) || endian.u32(head, 24) != crc(body) {
            return None;
        }
        let (count, clean_marker) = (endian.u32(head, 12), endian.u32(head, 16));
        let (mut rest, mut entries) = (&body[..body.len().checked_sub(TAIL)?], Vec::new());
        let mut end = super::padded(clean_marker);
        for _ in 0..count {
            let (entry, len) = one(endian, rest)?;
            let (at, node_len) = entry.place();
            if at < end || !at.is_multiple_of(4) {
                return None;
            }
            end = at.checked_add(super::padded(node_len)).filter(|&end| end <= offset)?;
            entries.push(entry);
            rest = &rest[len..];
        }
        Some(Summary { offset, clean_marker, entries })
    }
}

/// The entry at the beginning of `bytes`, and its length.
fn one(endian: Endian, bytes: &[u8]) -> Option<(Entry, usize)> {
    let word = |at: usize| bytes.get(at..at + 4).map(|_| endian.u32(bytes, at));
    Some(match endian.u16(bytes.get(..2)?, 0) {
        node_type::INODE => (Entry::Inode { ino: word(2)?, version: word(6)?, offset: word(10)?, len: word(14)? }, 18),
        node_type::XATTR => (Entry::Xattr { xid: word(2)?, version: word(6)?, offset: word(10)?, len: word(14)? }, 18),
        node_type::XREF => (Entry::Xref { offset: word(2)? }, 6),
        node_type::DIRENT => {
            let (name_len, kind) = (usize::from(*bytes.get(22)?), *bytes.get(23)?);
            let name = bytes.get(24..24 + name_len)?.to_vec();
            let (len, offset, dir) = (word(2)?, word(6)?, word(10)?);
            (Entry::Dirent { len, offset, dir, version: word(14)?, ino: word(18)?, kind, name }, 24 + name_len)
        }
        _ => return None,
    })
}

/// The bytes from `offset` to the end of a block of `block_bytes`: the summary of `entries`. `None` if they do not fit.
/// `clean_marker`: bytes of it in the block. `padding`: bytes of padding nodes in it.
pub fn write(
    endian: Endian,
    entries: &[Entry],
    (clean_marker, padding): (u32, u32),
    offset: u32,
    block_bytes: u32,
) -> Option<Vec<u8>> {
    let mut out = vec![0; HEAD];
    entries.iter().for_each(|entry| entry.write(endian, &mut out));
    let whole = (block_bytes - offset) as usize;
    if out.len() + TAIL > whole {
        return None;
    }
    out.resize(whole - TAIL, 0xff);
    out.resize(whole, 0);
    endian.put32(&mut out, whole - TAIL, offset);
    endian.put32(&mut out, whole - 4, MARKER);
    Header { node_type: node_type::SUMMARY, len: whole as u32 }.write(endian, &mut out);
    endian.put32(&mut out, 12, u32::try_from(entries.len()).expect("fewer than bytes of a block"));
    endian.put32(&mut out, 16, clean_marker);
    endian.put32(&mut out, 20, padding);
    let sum = crc(&out[HEAD..]);
    endian.put32(&mut out, 24, sum);
    let sum = crc(&out[..24]);
    endian.put32(&mut out, 28, sum);
    Some(out)
}
