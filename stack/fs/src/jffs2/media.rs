//! The format of JFFS2 on flash.
//!
//! A log of nodes, each at a multiple of 4 bytes in one eraseblock. A node begins with a [`Header`]. Its CRC covers the
//! type with [`ACCURATE`] set: an obsolete node has that bit cleared in place, where the flash lets bits fall. Numbers have
//! the byte order of the machine that wrote them.
//!
//! Source: Linux 6.12, `include/uapi/linux/jffs2.h` and `fs/jffs2/summary.h`.

mod acl;
mod nodes;
mod summary;

pub use acl::{acl, encode_acl};
pub use nodes::{DirentNode, InodeNode, XattrNode, XrefNode, device, encode_device};
pub use summary::{Entry, SUMMARY_FRAME, Summary, write as write_summary};

/// Magic number of a node.
pub const MAGIC: u16 = 0x1985;
/// Magic number of nodes from before 2001, which Linux refuses.
pub const OLD_MAGIC: u16 = 0x1984;
/// Bit of a node's type: it is not obsolete.
pub const ACCURATE: u16 = 0x2000;
/// Bytes of a node's header.
pub const HEADER_BYTES: usize = 12;
/// Inode of the root directory.
pub const ROOT_INO: u32 = 1;
/// Most bytes of a name.
pub const MAX_NAME: usize = 254;
/// Unit in which files are written: Linux's page.
pub const PAGE_BYTES: u32 = 4096;
/// Least room for data that Linux reserves with an inode node.
pub const MIN_DATA: u32 = 128;
/// Out-of-band bytes of a clean marker on NAND.
pub const OOB_MARKER_BYTES: usize = 8;

/// Types of nodes, with [`ACCURATE`].
pub mod node_type {
    /// An entry of a directory.
    pub const DIRENT: u16 = 0xe001;
    /// An inode, and data of a file.
    pub const INODE: u16 = 0xe002;
    /// The eraseblock was erased as a whole.
    pub const CLEAN_MARKER: u16 = 0x2003;
    /// Nothing, up to a page's end.
    pub const PADDING: u16 = 0x2004;
    /// What the eraseblock holds.
    pub const SUMMARY: u16 = 0x2006;
    /// Name and value of an extended attribute.
    pub const XATTR: u16 = 0xe008;
    /// An inode has an extended attribute.
    pub const XREF: u16 = 0xe009;
}

/// What to do with a node of an unknown type: the upper two bits of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compat {
    /// Refuse to mount.
    Incompatible,
    /// Mount for reading only.
    ReadOnly,
    /// Keep it, and let garbage collection copy it.
    Copy,
    /// Let garbage collection drop it.
    Delete,
}

impl Compat {
    /// Of a node's type.
    pub const fn of(node_type: u16) -> Compat {
        match node_type >> 14 {
            3 => Compat::Incompatible,
            2 => Compat::ReadOnly,
            1 => Compat::Copy,
            _ => Compat::Delete,
        }
    }
}

/// How data of a node are compressed.
pub mod compression {
    /// Not at all.
    pub const NONE: u8 = 0;
    /// A hole: there are no data.
    pub const ZERO: u8 = 1;
    /// JFFS2's run-length code.
    pub const RTIME: u8 = 2;
    /// zlib.
    pub const ZLIB: u8 = 6;
    /// LZO1X.
    pub const LZO: u8 = 7;

    /// Its name; `None` of one that Linux only ever read, or OpenWrt alone writes.
    pub const fn name(compression: u8) -> Option<&'static str> {
        Some(match compression {
            NONE => "none",
            ZERO => "hole",
            RTIME => "rtime",
            ZLIB => "zlib",
            LZO => "lzo",
            _ => return None,
        })
    }
}

/// Byte order of the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endian {
    /// The least byte first.
    Little,
    /// The greatest byte first.
    Big,
}

impl Endian {
    /// Of the machine that wrote these two bytes as a magic number. `None`: they are none.
    pub const fn of_magic(bytes: [u8; 2]) -> Option<Endian> {
        match bytes {
            [0x85, 0x19] => Some(Endian::Little),
            [0x19, 0x85] => Some(Endian::Big),
            _ => None,
        }
    }

    /// Name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Endian::Little => "little",
            Endian::Big => "big",
        }
    }

    #[inline]
    fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let bytes = [bytes[at], bytes[at + 1]];
        if self == Endian::Little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) }
    }

    #[inline]
    fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let bytes = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        if self == Endian::Little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) }
    }

    #[inline]
    fn put16(self, bytes: &mut [u8], at: usize, value: u16) {
        let value = if self == Endian::Little { value.to_le_bytes() } else { value.to_be_bytes() };
        bytes[at..at + 2].copy_from_slice(&value);
    }

    #[inline]
    fn put32(self, bytes: &mut [u8], at: usize, value: u32) {
        let value = if self == Endian::Little { value.to_le_bytes() } else { value.to_be_bytes() };
        bytes[at..at + 4].copy_from_slice(&value);
    }
}

/// CRC-32 as JFFS2 has it: it begins with 0, and its bits are not inverted in the end.
pub fn crc(bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(u32::MAX);
    hasher.update(bytes);
    !hasher.finalize()
}

/// Length of a node on flash: nodes begin at multiples of 4 bytes.
#[inline]
pub const fn padded(len: u32) -> u32 {
    len.saturating_add(3) & !3
}

/// What every node begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Type, as on flash.
    pub node_type: u16,
    /// Bytes of the node, this header included.
    pub len: u32,
}

/// Why bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoHeader {
    /// They do not begin with [`MAGIC`], but with this.
    Magic(u16),
    /// The CRC differs.
    Crc,
}

impl Header {
    /// Reads the header at the beginning of `bytes`, of [`HEADER_BYTES`] at least.
    /// Errors: there is none.
    pub fn read(endian: Endian, bytes: &[u8]) -> Result<Header, NoHeader> {
        let magic = endian.u16(bytes, 0);
        if magic != MAGIC {
            return Err(NoHeader::Magic(magic));
        }
        let header = Header { node_type: endian.u16(bytes, 2), len: endian.u32(bytes, 4) };
        let mut whole = [0; 8];
        whole.copy_from_slice(&bytes[..8]);
        endian.put16(&mut whole, 2, header.node_type | ACCURATE);
        if crc(&whole) == endian.u32(bytes, 8) { Ok(header) } else { Err(NoHeader::Crc) }
    }

    /// Writes the header to the beginning of `bytes`.
    pub fn write(self, endian: Endian, bytes: &mut [u8]) {
        endian.put16(bytes, 0, MAGIC);
        endian.put16(bytes, 2, self.node_type);
        endian.put32(bytes, 4, self.len);
        let sum = crc(&bytes[..8]);
        endian.put32(bytes, 8, sum);
    }

    /// Whether the node is not obsolete.
    pub const fn is_accurate(self) -> bool {
        self.node_type & ACCURATE != 0
    }

    /// Bytes to the next node.
    pub const fn padded(self) -> u32 {
        padded(self.len)
    }
}

/// The two bytes of a type without [`ACCURATE`], which make a node obsolete in place.
pub fn obsolete_type(endian: Endian, node_type: u16) -> [u8; 2] {
    let mut bytes = [0; 2];
    endian.put16(&mut bytes, 0, node_type & !ACCURATE);
    bytes
}

/// The clean marker of an eraseblock: at its beginning, or in the out-of-band bytes of its first page.
pub fn clean_marker(endian: Endian, is_in_oob: bool) -> Vec<u8> {
    let len = if is_in_oob { OOB_MARKER_BYTES } else { HEADER_BYTES };
    let mut bytes = vec![0; HEADER_BYTES];
    Header { node_type: node_type::CLEAN_MARKER, len: len as u32 }.write(endian, &mut bytes);
    bytes.truncate(len);
    bytes
}
