//! Nodes of inodes, directory entries and extended attributes.

use super::{Endian, Header, compression, crc, node_type};

/// An inode: what `stat` says of it, and up to a page of its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InodeNode {
    /// Number of the inode.
    pub ino: u32,
    /// Which of the nodes of an inode is newer.
    pub version: u32,
    /// Type and permissions, as `st_mode`.
    pub mode: u32,
    /// Owner.
    pub uid: u16,
    /// Group.
    pub gid: u16,
    /// Bytes of the file.
    pub size: u32,
    /// Time of the last access, in seconds since 1970.
    pub atime: u32,
    /// Time of the last change of the contents.
    pub mtime: u32,
    /// Time of the last change of the inode.
    pub ctime: u32,
    /// Where the data begin in the file.
    pub offset: u32,
    /// Bytes of data on flash.
    pub packed: u32,
    /// Bytes of data in the file.
    pub unpacked: u32,
    /// How the data are compressed, see [`compression`].
    pub compression: u8,
    /// What the user asked for, which nobody reads.
    pub wanted: u8,
    /// Flags, which nobody sets.
    pub flags: u16,
    /// CRC of the data on flash.
    pub data_crc: u32,
}

impl InodeNode {
    /// Bytes before the data.
    pub const BYTES: usize = 68;

    /// Reads a node of [`BYTES`](Self::BYTES) at least, whose header is right. `None`: the CRC differs.
    pub fn read(endian: Endian, bytes: &[u8]) -> Option<InodeNode> {
        let at32 = |at| endian.u32(bytes, at);
        (crc(&bytes[..60]) == at32(64)).then(|| InodeNode {
            ino: at32(12),
            version: at32(16),
            mode: at32(20),
            uid: endian.u16(bytes, 24),
            gid: endian.u16(bytes, 26),
            size: at32(28),
            atime: at32(32),
            mtime: at32(36),
            ctime: at32(40),
            offset: at32(44),
            packed: at32(48),
            unpacked: at32(52),
            compression: bytes[56],
            wanted: bytes[57],
            flags: endian.u16(bytes, 58),
            data_crc: at32(60),
        })
    }

    /// Appends the node to `out`, with `data` as on flash, whose length and CRC are put in.
    pub fn write(&self, endian: Endian, data: &[u8], out: &mut Vec<u8>) {
        let begin = out.len();
        out.resize(begin + Self::BYTES, 0);
        let bytes = &mut out[begin..];
        let len = (Self::BYTES + data.len()) as u32;
        Header { node_type: node_type::INODE, len }.write(endian, bytes);
        let words = [(12, self.ino), (16, self.version), (20, self.mode), (28, self.size), (32, self.atime)];
        let more = [(36, self.mtime), (40, self.ctime), (44, self.offset), (48, data.len() as u32)];
        for (at, word) in words.into_iter().chain(more) {
            endian.put32(bytes, at, word);
        }
        endian.put16(bytes, 24, self.uid);
        endian.put16(bytes, 26, self.gid);
        endian.put32(bytes, 52, self.unpacked);
        bytes[56] = self.compression;
        bytes[57] = self.wanted;
        endian.put16(bytes, 58, self.flags);
        endian.put32(bytes, 60, crc(data));
        let sum = crc(&bytes[..60]);
        endian.put32(bytes, 64, sum);
        out.extend_from_slice(data);
    }

    /// Bytes of the file that the data are. Linux once wrote holes with the two lengths exchanged.
    pub fn covers(&self) -> u32 {
        match (self.compression, self.unpacked) {
            (compression::ZERO, 0) => self.packed,
            _ => self.unpacked,
        }
    }
}

/// An entry of a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirentNode {
    /// Directory.
    pub dir: u32,
    /// Which of the nodes of the directory is newer.
    pub version: u32,
    /// Inode; 0: the name was removed.
    pub ino: u32,
    /// Time of the change, in seconds since 1970.
    pub time: u32,
    /// Type of the inode, as `d_type`.
    pub kind: u8,
    /// Bytes of the name.
    pub name_len: u8,
    /// CRC of the name.
    pub name_crc: u32,
}

impl DirentNode {
    /// Bytes before the name.
    pub const BYTES: usize = 40;

    /// Reads a node of [`BYTES`](Self::BYTES) at least, whose header is right. `None`: the CRC differs.
    pub fn read(endian: Endian, bytes: &[u8]) -> Option<DirentNode> {
        let at32 = |at| endian.u32(bytes, at);
        (crc(&bytes[..32]) == at32(32)).then(|| DirentNode {
            dir: at32(12),
            version: at32(16),
            ino: at32(20),
            time: at32(24),
            name_len: bytes[28],
            kind: bytes[29],
            name_crc: at32(36),
        })
    }

    /// Appends the node to `out`, with `name`, whose length and CRC are put in.
    pub fn write(&self, endian: Endian, name: &[u8], out: &mut Vec<u8>) {
        let begin = out.len();
        out.resize(begin + Self::BYTES, 0);
        let bytes = &mut out[begin..];
        let len = (Self::BYTES + name.len()) as u32;
        Header { node_type: node_type::DIRENT, len }.write(endian, bytes);
        for (at, word) in [(12, self.dir), (16, self.version), (20, self.ino), (24, self.time)] {
            endian.put32(bytes, at, word);
        }
        bytes[28] = u8::try_from(name.len()).expect("a name of JFFS2 is below 255 bytes");
        bytes[29] = self.kind;
        let sum = crc(&bytes[..32]);
        endian.put32(bytes, 32, sum);
        endian.put32(bytes, 36, crc(name));
        out.extend_from_slice(name);
    }
}

/// Name and value of an extended attribute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XattrNode {
    /// Number of the attribute.
    pub xid: u32,
    /// Which of its nodes is newer.
    pub version: u32,
    /// Prefix of the name: 1 `user.`, 2 `security.`, 3 and 4 access and default ACL, 5 `trusted.`.
    pub prefix: u8,
    /// Bytes of the name without its prefix.
    pub name_len: u8,
    /// Bytes of the value.
    pub value_len: u16,
    /// CRC of name, zero byte and value.
    pub data_crc: u32,
}

impl XattrNode {
    /// Bytes before the name.
    pub const BYTES: usize = 32;

    /// Reads a node of [`BYTES`](Self::BYTES) at least, whose header is right. `None`: the CRC differs.
    pub fn read(endian: Endian, bytes: &[u8]) -> Option<XattrNode> {
        let at32 = |at| endian.u32(bytes, at);
        (crc(&bytes[..28]) == at32(28)).then(|| XattrNode {
            xid: at32(12),
            version: at32(16),
            prefix: bytes[20],
            name_len: bytes[21],
            value_len: endian.u16(bytes, 22),
            data_crc: at32(24),
        })
    }

    /// Bytes of name, zero byte and value.
    pub fn data_len(&self) -> usize {
        usize::from(self.name_len) + 1 + usize::from(self.value_len)
    }

    /// Appends the node to `out`, with name and value, whose lengths and CRC are put in.
    pub fn write(&self, endian: Endian, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        let begin = out.len();
        out.resize(begin + Self::BYTES, 0);
        out.extend_from_slice(name);
        out.push(0);
        out.extend_from_slice(value);
        let sum = crc(&out[begin + Self::BYTES..]);
        let bytes = &mut out[begin..];
        // The length counts the bytes up to the next node, as that of no other node does.
        let len = super::padded(bytes.len() as u32);
        Header { node_type: node_type::XATTR, len }.write(endian, bytes);
        endian.put32(bytes, 12, self.xid);
        endian.put32(bytes, 16, self.version);
        bytes[20] = self.prefix;
        bytes[21] = u8::try_from(name.len()).expect("a name is below 256 bytes");
        endian.put16(bytes, 22, u16::try_from(value.len()).expect("a value is below 64 KiB"));
        endian.put32(bytes, 24, sum);
        let sum = crc(&bytes[..28]);
        endian.put32(bytes, 28, sum);
    }
}

/// An inode has an extended attribute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XrefNode {
    /// Inode.
    pub ino: u32,
    /// Attribute.
    pub xid: u32,
    /// Which of the nodes about the two is newer; an odd one takes the attribute away.
    pub seqno: u32,
}

impl XrefNode {
    /// Bytes of the node.
    pub const BYTES: usize = 28;

    /// Reads a node of [`BYTES`](Self::BYTES), whose header is right. `None`: the CRC differs.
    pub fn read(endian: Endian, bytes: &[u8]) -> Option<XrefNode> {
        let at32 = |at| endian.u32(bytes, at);
        (crc(&bytes[..24]) == at32(24)).then(|| XrefNode { ino: at32(12), xid: at32(16), seqno: at32(20) })
    }

    /// Appends the node to `out`.
    pub fn write(&self, endian: Endian, out: &mut Vec<u8>) {
        let begin = out.len();
        out.resize(begin + Self::BYTES, 0);
        let bytes = &mut out[begin..];
        Header { node_type: node_type::XREF, len: Self::BYTES as u32 }.write(endian, bytes);
        for (at, word) in [(12, self.ino), (16, self.xid), (20, self.seqno)] {
            endian.put32(bytes, at, word);
        }
        let sum = crc(&bytes[..24]);
        endian.put32(bytes, 24, sum);
    }
}

/// Number of a device, major and minor, by the data of its inode: 2 bytes of old, 4 since Linux 2.6. `None` of any other
/// length.
pub fn device(endian: Endian, data: &[u8]) -> Option<(u32, u32)> {
    match data.len() {
        2 => {
            let number = u32::from(endian.u16(data, 0));
            Some((number >> 8, number & 0xff))
        }
        4 => {
            let number = endian.u32(data, 0);
            Some(((number >> 8) & 0xfff, (number & 0xff) | ((number >> 12) & 0xf_ff00)))
        }
        _ => None,
    }
}

/// The data of a device's inode, as Linux writes them: 2 bytes if both numbers are below 256, else 4.
pub fn encode_device(endian: Endian, major: u32, minor: u32) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    if major < 256 && minor < 256 {
        bytes.truncate(2);
        endian.put16(&mut bytes, 0, ((major << 8) | minor) as u16);
    } else {
        endian.put32(&mut bytes, 0, (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12));
    }
    bytes
}
