//! The nodes of the main area, the log and the orphan area.

use super::{
    BLOCK_BYTES, Compression, Group, HEADER_BYTES, ItemType, Key, MAX_INLINE, MAX_NAME, MediaError, NodeType,
    PAD_NODE_BYTES, PADDING_BYTE, field, put_crc, put_header, put16, put32, put64, seal, u16_at, u32_at, u64_at,
};

/// Flags of an inode.
pub mod inode_flags {
    /// Its data may be compressed.
    pub const COMPRESSED: u32 = 0x01;
    /// Writes are synchronous.
    pub const SYNC: u32 = 0x02;
    /// It cannot be changed.
    pub const IMMUTABLE: u32 = 0x04;
    /// It can only be appended to.
    pub const APPEND: u32 = 0x08;
    /// Changes of the directory are synchronous.
    pub const DIR_SYNC: u32 = 0x10;
    /// It holds the value of an extended attribute.
    pub const XATTR: u32 = 0x20;
    /// Its data are encrypted.
    pub const ENCRYPTED: u32 = 0x40;
}

/// Inode node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InodeNode<'a> {
    /// Key, of type inode.
    pub key: Key,
    /// Sequence number when the inode was created.
    pub creat_sqnum: u64,
    /// Bytes of the file; of a directory, the sum of what its entries take.
    pub size: u64,
    /// Times of last access, last change of the inode, last change of the data: seconds since 1970, nanoseconds.
    pub atime: (u64, u32),
    /// Time of the last change of the inode.
    pub ctime: (u64, u32),
    /// Time of the last change of the data.
    pub mtime: (u64, u32),
    /// Number of links; 0 in the journal means that the inode is deleted.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Type and permissions, as `st_mode`.
    pub mode: u32,
    /// See [`inode_flags`].
    pub flags: u32,
    /// Number of extended attributes.
    pub xattr_cnt: u32,
    /// Bytes of names and values of extended attributes, as UBIFS counts them.
    pub xattr_size: u32,
    /// Bytes of the names of extended attributes.
    pub xattr_names: u32,
    /// Compression of the data.
    pub compression: Compression,
    /// Target of a symbolic link, number of a device, or value of an extended attribute.
    pub data: &'a [u8],
}

impl<'a> InodeNode<'a> {
    /// Bytes without inline data.
    pub const BYTES: usize = 160;

    /// Bytes of this node.
    pub fn bytes(&self) -> usize {
        InodeNode::BYTES + self.data.len()
    }

    /// Decodes a node whose header and checksum are right.
    /// Errors: a key of another type; inline data longer than the node; an unknown compression.
    pub fn decode(node: &'a [u8]) -> Result<InodeNode<'a>, MediaError> {
        let key = Key::decode(&node[24..])?;
        if key.key_type() != Some(super::KeyType::Inode) {
            return field("key type", key.0 >> 29 & 7, "0 in an inode node");
        }
        let nlink = u32_at(node, 92);
        // The node that deletes an inode comes without its data.
        let is_bare = nlink == 0 && node.len() == InodeNode::BYTES;
        let data_len = if is_bare { 0 } else { u32_at(node, 112) };
        let Some(data) = node[InodeNode::BYTES..].get(..data_len as usize).filter(|data| data.len() <= MAX_INLINE)
        else {
            return field("data_len", data_len, "at most what the node holds");
        };
        Ok(InodeNode {
            key,
            creat_sqnum: u64_at(node, 40),
            size: u64_at(node, 48),
            atime: (u64_at(node, 56), u32_at(node, 80)),
            ctime: (u64_at(node, 64), u32_at(node, 84)),
            mtime: (u64_at(node, 72), u32_at(node, 88)),
            nlink,
            uid: u32_at(node, 96),
            gid: u32_at(node, 100),
            mode: u32_at(node, 104),
            flags: u32_at(node, 108),
            xattr_cnt: u32_at(node, 116),
            xattr_size: u32_at(node, 120),
            xattr_names: u32_at(node, 128),
            compression: Compression::decode(u16_at(node, 132))?,
            data,
        })
    }

    /// Sets how many bytes of inline data a deletion's inode had, which are not in its node. The checksum stays.
    pub(crate) fn set_data_len(node: &mut [u8], bytes: usize) {
        put32(node, 112, u32::try_from(bytes).expect("at most 4 KiB"));
    }

    /// Changes the size in a node that is whole.
    pub fn set_size(node: &mut [u8], size: u64) {
        put64(node, 48, size);
        put_crc(node);
    }

    /// Encodes the node into `node`, which is [`bytes`](InodeNode::bytes) long, with its header.
    pub fn encode(&self, node: &mut [u8], group: Group, sqnum: u64) {
        self.encode_without_crc(node, group, sqnum);
        put_crc(node);
    }

    /// As [`encode`](InodeNode::encode), but for the checksum.
    pub(crate) fn encode_without_crc(&self, node: &mut [u8], group: Group, sqnum: u64) {
        node[..InodeNode::BYTES].fill(0);
        self.key.encode(&mut node[24..]);
        put64(node, 40, self.creat_sqnum);
        put64(node, 48, self.size);
        for (at, (seconds, nanos)) in [self.atime, self.ctime, self.mtime].into_iter().enumerate() {
            put64(node, 56 + 8 * at, seconds);
            put32(node, 80 + 4 * at, nanos);
        }
        put32(node, 92, self.nlink);
        put32(node, 96, self.uid);
        put32(node, 100, self.gid);
        put32(node, 104, self.mode);
        put32(node, 108, self.flags);
        put32(node, 112, u32::try_from(self.data.len()).expect("at most 4 KiB"));
        put32(node, 116, self.xattr_cnt);
        put32(node, 120, self.xattr_size);
        put32(node, 128, self.xattr_names);
        put16(node, 132, self.compression as u16);
        node[InodeNode::BYTES..].copy_from_slice(self.data);
        put_header(node, NodeType::Inode, group, sqnum);
    }
}

/// Data node: up to 4 KiB of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataNode<'a> {
    /// Key: inode and block number.
    pub key: Key,
    /// Bytes before compression, 1 to 4096. The rest of the block is zero.
    pub size: u32,
    /// How `data` is compressed.
    pub compression: Compression,
    /// The data as on flash.
    pub data: &'a [u8],
}

impl<'a> DataNode<'a> {
    /// Bytes without data.
    pub const HEADER_BYTES: usize = 48;

    /// Decodes a node whose header and checksum are right.
    /// Errors: a key of another type; a size that is no block's; an unknown compression; data without compression that
    /// are longer or shorter than `size`.
    pub fn decode(node: &'a [u8]) -> Result<DataNode<'a>, MediaError> {
        let key = Key::decode(&node[24..])?;
        if key.key_type() != Some(super::KeyType::Data) {
            return field("key type", key.0 >> 29 & 7, "1 in a data node");
        }
        let size = u32_at(node, 40);
        if !(1..=BLOCK_BYTES).contains(&size) {
            return field("size", size, "1 to 4096");
        }
        let compression = Compression::decode(u16_at(node, 44))?;
        let data = &node[DataNode::HEADER_BYTES..];
        if compression == Compression::None && data.len() != size as usize {
            return field("size", size, "the bytes of an uncompressed node");
        }
        Ok(DataNode { key, size, compression, data })
    }

    /// Bytes before compression, of a node of which there may be no more than the header.
    pub(crate) fn size_of(node: &[u8]) -> u32 {
        u32_at(node, 40)
    }

    /// Writes the fields of the header of a node of `len` bytes, whose data nobody keeps.
    pub(crate) fn encode_header(key: Key, (size, len): (u32, u32), node: &mut [u8], group: Group, sqnum: u64) {
        DataNode::put_fields(key, size, Compression::None, node, group, sqnum);
        put32(node, 16, len);
    }

    fn put_fields(key: Key, size: u32, compression: Compression, node: &mut [u8], group: Group, sqnum: u64) {
        node[HEADER_BYTES..DataNode::HEADER_BYTES].fill(0);
        key.encode(&mut node[24..]);
        put32(node, 40, size);
        put16(node, 44, compression as u16);
        put_header(node, NodeType::Data, group, sqnum);
    }

    /// Writes the fields of a node whose data are in place in `node` after [`HEADER_BYTES`](DataNode::HEADER_BYTES), and
    /// its header.
    pub fn encode_around(key: Key, size: u32, compression: Compression, node: &mut [u8], group: Group, sqnum: u64) {
        DataNode::put_fields(key, size, compression, node, group, sqnum);
        put_crc(node);
    }
}

/// Directory entry, or entry of an extended attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DentNode<'a> {
    /// Key: the directory or host inode, and the hash of the name.
    pub key: Key,
    /// Inode that the entry names; 0 in the journal means that the entry is removed.
    pub ino: u64,
    /// Type of that inode.
    pub item: ItemType,
    /// A random number, with which NFS tells apart entries whose hashes are equal.
    pub cookie: u32,
    /// The name: 1 to 255 bytes, neither zero nor, for an entry of a directory, a slash.
    pub name: &'a [u8],
}

impl<'a> DentNode<'a> {
    /// Bytes without the name and the zero after it.
    pub const HEADER_BYTES: usize = 56;

    /// Bytes of an entry whose name has `name_len` bytes.
    pub const fn bytes_of(name_len: usize) -> usize {
        DentNode::HEADER_BYTES + name_len + 1
    }

    /// Decodes a node whose header and checksum are right.
    /// Errors: a key of another type; a name that is empty, too long, longer than the node, or has a zero in it.
    pub fn decode(node: &'a [u8]) -> Result<DentNode<'a>, MediaError> {
        let key = Key::decode(&node[24..])?;
        if !matches!(key.key_type(), Some(super::KeyType::Dent | super::KeyType::Xent)) {
            return field("key type", key.0 >> 29 & 7, "2 or 3 in an entry");
        }
        let name_len = u16_at(node, 50);
        if name_len == 0 || usize::from(name_len) > MAX_NAME {
            return field("nlen", name_len, "1 to 255");
        }
        match node[DentNode::HEADER_BYTES..].split_at_checked(name_len.into()) {
            Some((name, [0])) if !name.contains(&0) => Ok(DentNode {
                key,
                ino: u64_at(node, 40),
                item: ItemType::decode(node[49])?,
                cookie: u32_at(node, 52),
                name,
            }),
            _ => field("nlen", name_len, "the length of the name, which ends with the node's only zero byte"),
        }
    }

    /// Encodes the node into `node`, which is [`bytes_of`](DentNode::bytes_of) its name long, with its header.
    pub fn encode(&self, node: &mut [u8], group: Group, sqnum: u64) {
        self.encode_without_crc(node, group, sqnum);
        put_crc(node);
    }

    /// As [`encode`](DentNode::encode), but for the checksum.
    pub(crate) fn encode_without_crc(&self, node: &mut [u8], group: Group, sqnum: u64) {
        node.fill(0);
        self.key.encode(&mut node[24..]);
        put64(node, 40, self.ino);
        node[49] = self.item as u8;
        put16(node, 50, u16::try_from(self.name.len()).expect("at most 255 bytes"));
        put32(node, 52, self.cookie);
        node[DentNode::HEADER_BYTES..][..self.name.len()].copy_from_slice(self.name);
        let is_xent = self.key.key_type() == Some(super::KeyType::Xent);
        put_header(node, if is_xent { NodeType::Xent } else { NodeType::Dent }, group, sqnum);
    }
}

/// Truncation of a file, in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TruncationNode {
    /// The file.
    pub ino: u32,
    /// Its size before, in bytes.
    pub old_size: u64,
    /// Its size after, in bytes.
    pub new_size: u64,
}

impl TruncationNode {
    /// Bytes on flash.
    pub const BYTES: usize = 56;

    /// Decodes a node whose header and checksum are right.
    pub fn decode(node: &[u8]) -> TruncationNode {
        TruncationNode { ino: u32_at(node, 24), old_size: u64_at(node, 40), new_size: u64_at(node, 48) }
    }

    /// Encodes the node into `node`, with its header.
    pub fn encode(&self, node: &mut [u8], group: Group, sqnum: u64) {
        node.fill(0);
        put32(node, 24, self.ino);
        put64(node, 40, self.old_size);
        put64(node, 48, self.new_size);
        seal(node, NodeType::Truncation, group, sqnum);
    }
}

/// Bytes of a reference node.
pub const REFERENCE_BYTES: usize = 64;

/// Reference from the log to a bud.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReferenceNode {
    /// LEB of the bud.
    pub lnum: u32,
    /// Offset from which on the LEB belongs to the journal.
    pub offset: u32,
    /// Journal head: 0 garbage collection, 1 inodes and entries, 2 data.
    pub head: u32,
}

impl ReferenceNode {
    /// Decodes a node whose header and checksum are right.
    pub fn decode(node: &[u8]) -> ReferenceNode {
        ReferenceNode { lnum: u32_at(node, 24), offset: u32_at(node, 28), head: u32_at(node, 32) }
    }

    /// Encodes the node into `node`, with its header.
    pub fn encode(&self, node: &mut [u8], sqnum: u64) {
        node.fill(0);
        put32(node, 24, self.lnum);
        put32(node, 28, self.offset);
        put32(node, 32, self.head);
        seal(node, NodeType::Reference, Group::None, sqnum);
    }
}

/// Bytes of a commit start node.
pub const COMMIT_START_BYTES: usize = 32;

/// The number of the commit that a commit start node, whose header and checksum are right, begins.
pub fn commit_start(node: &[u8]) -> u64 {
    u64_at(node, 24)
}

/// Encodes a commit start node into `node`, with its header.
pub fn encode_commit_start(commit: u64, node: &mut [u8], sqnum: u64) {
    put64(node, 24, commit);
    seal(node, NodeType::CommitStart, Group::None, sqnum);
}

/// Bytes of an orphan node without inode numbers.
pub const ORPHAN_HEADER_BYTES: usize = 32;

/// List of orphans: inodes without a link that were open at a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrphanNode<'a> {
    /// The commit.
    pub commit: u64,
    /// Whether the node is the last of its commit.
    pub is_last: bool,
    inos: &'a [u8],
}

impl<'a> OrphanNode<'a> {
    const LAST: u64 = 1 << 63;

    /// Decodes a node whose header and checksum are right. Errors: it ends inside an inode number.
    pub fn decode(node: &'a [u8]) -> Result<OrphanNode<'a>, MediaError> {
        let commit = u64_at(node, 24);
        let inos = &node[ORPHAN_HEADER_BYTES..];
        if !inos.len().is_multiple_of(8) {
            return field("len", node.len() as u64, "32 and a multiple of 8");
        }
        Ok(OrphanNode { commit: commit & !OrphanNode::LAST, is_last: commit & OrphanNode::LAST != 0, inos })
    }

    /// The inode numbers.
    pub fn inos(&self) -> impl ExactSizeIterator<Item = u64> + 'a {
        self.inos.chunks_exact(8).map(|bytes| u64_at(bytes, 0))
    }

    /// Encodes a node with `inos` into `node`, with its header.
    pub fn encode(commit: u64, is_last: bool, inos: &[u64], node: &mut [u8], sqnum: u64) {
        put64(node, 24, commit | if is_last { OrphanNode::LAST } else { 0 });
        for (at, &ino) in inos.iter().enumerate() {
            put64(node, ORPHAN_HEADER_BYTES + 8 * at, ino);
        }
        seal(node, NodeType::Orphan, Group::None, sqnum);
    }
}

/// Bytes of an index node without branches.
pub const INDEX_HEADER_BYTES: usize = 28;

/// A branch of the index: a key, and where the node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// Least key below the branch; at level 0, the key of the leaf.
    pub key: Key,
    /// LEB of the node.
    pub lnum: u32,
    /// Its offset in the LEB.
    pub offset: u32,
    /// Its length in bytes.
    pub len: u32,
}

impl Branch {
    /// Bytes on flash, without a hash.
    pub const BYTES: usize = 12 + Key::BYTES;
}

/// Bytes of an index node with `branches` branches.
pub const fn index_bytes(branches: usize) -> usize {
    INDEX_HEADER_BYTES + branches * Branch::BYTES
}

/// Index node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexNode<'a> {
    /// Height above the nodes that point to leaves, which have 0.
    pub level: u16,
    branches: &'a [u8],
}

impl<'a> IndexNode<'a> {
    /// Decodes a node whose header and checksum are right. Errors: no branch, or not as many as the node is long.
    pub fn decode(node: &'a [u8]) -> Result<IndexNode<'a>, MediaError> {
        let children = u16_at(node, 24);
        if children == 0 || node.len() != index_bytes(children.into()) {
            return field("child_cnt", children, "at least 1, and as many as the node is long");
        }
        Ok(IndexNode { level: u16_at(node, 26), branches: &node[INDEX_HEADER_BYTES..] })
    }

    /// Key of the first branch, and the level, of a node of which there may be no more than that.
    /// Errors: a key of an unknown type.
    pub fn first(node: &[u8]) -> Result<(Key, u16), MediaError> {
        Ok((Key::decode(&node[INDEX_HEADER_BYTES + 12..])?, u16_at(node, 26)))
    }

    /// Number of branches.
    pub fn len(&self) -> usize {
        self.branches.len() / Branch::BYTES
    }

    /// Never: a node has at least one branch.
    pub fn is_empty(&self) -> bool {
        self.branches.is_empty()
    }

    /// The branches, in the order of their keys as far as the node is right. Errors: a key of an unknown type.
    pub fn branches(&self) -> impl ExactSizeIterator<Item = Result<Branch, MediaError>> + 'a {
        self.branches.chunks_exact(Branch::BYTES).map(|bytes| {
            let [lnum, offset, len] = [0, 4, 8].map(|at| u32_at(bytes, at));
            Ok(Branch { key: Key::decode(&bytes[12..])?, lnum, offset, len })
        })
    }
}

/// Encodes an index node into `node`, which is [`index_bytes`] long, with its header.
pub fn encode_index(level: u16, branches: impl ExactSizeIterator<Item = Branch>, node: &mut [u8], sqnum: u64) {
    put16(node, 24, u16::try_from(branches.len()).expect("the fanout is smaller"));
    put16(node, 26, level);
    for (branch, bytes) in branches.zip(node[INDEX_HEADER_BYTES..].chunks_exact_mut(Branch::BYTES)) {
        put32(bytes, 0, branch.lnum);
        put32(bytes, 4, branch.offset);
        put32(bytes, 8, branch.len);
        branch.key.encode(&mut bytes[12..]);
    }
    seal(node, NodeType::Index, Group::None, sqnum);
}

/// Fills a gap between two nodes, or after the last one of a write unit: with a padding node, or bytes of
/// [`PADDING_BYTE`] where none fits.
pub fn pad(gap: &mut [u8]) {
    if gap.len() < PAD_NODE_BYTES {
        gap.fill(PADDING_BYTE);
        return;
    }
    let (node, rest) = gap.split_at_mut(PAD_NODE_BYTES);
    node.fill(0);
    put32(node, 24, u32::try_from(rest.len()).expect("a gap fits into a LEB"));
    seal(node, NodeType::Padding, Group::None, 0);
    rest.fill(0);
}

/// Bytes that a padding node, whose header and checksum are right, covers after itself.
pub(crate) fn padded(node: &[u8]) -> u32 {
    u32_at(node, HEADER_BYTES)
}

/// Number of a device, as in the inline data of its inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

impl Device {
    /// Decodes the four bytes of the newer encoding or the eight of the larger one. Errors: another length.
    pub fn decode(data: &[u8]) -> Result<Device, MediaError> {
        match data.len() {
            4 => {
                let dev = u32_at(data, 0);
                Ok(Device { major: dev >> 8 & 0xfff, minor: dev & 0xff | dev >> 12 & 0xf_ff00 })
            }
            8 => {
                let dev = u64_at(data, 0);
                let half = |dev: u64| u32::try_from(dev & 0xffff_ffff).expect("32 bits");
                let (low, high) = (half(dev), half(dev >> 32));
                Ok(Device {
                    major: low >> 8 & 0xfff | high & 0xffff_f000,
                    minor: low & 0xff | half(dev >> 12) & 0xffff_ff00,
                })
            }
            other => field("data_len", other as u64, "4 or 8 for a device"),
        }
    }

    /// Encodes the number in four bytes, where it fits, else in eight, as Linux does.
    pub fn encode(self) -> Vec<u8> {
        let Device { major, minor } = self;
        if major < 1 << 12 && minor < 1 << 20 {
            return (minor & 0xff | major << 8 | (minor & !0xff) << 12).to_le_bytes().to_vec();
        }
        let (major, minor) = (u64::from(major), u64::from(minor));
        (minor & 0xff | (major & 0xfff) << 8 | (minor & !0xff) << 12 | (major & !0xfff) << 32).to_le_bytes().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ubifs::media::{Header, MAGIC, crc};

    #[test]
    fn a_padding_node_is_as_the_format_says() {
        let mut gap = [1; 40];
        pad(&mut gap);
        let mut expected = [0; 40];
        expected[..4].copy_from_slice(&[0x31, 0x18, 0x10, 0x06]);
        expected[16] = 28;
        expected[20] = 5;
        expected[24] = 12;
        let sum = crc(&expected[8..28]);
        expected[4..8].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(gap, expected);
        assert_eq!(u32_at(&gap, 0), MAGIC);
        let (header, node) = Header::read(&gap).expect("it is whole");
        assert_eq!((header.node_type, header.sqnum, padded(node)), (NodeType::Padding, 0, 12));
        let mut small = [0; 27];
        pad(&mut small);
        assert_eq!(small, [0xce; 27]);
    }

    #[test]
    fn devices_are_encoded_as_linux_does() {
        // new_encode_dev(MKDEV(8, 1)) = 0x801; MKDEV(259, 0x12345): 0x45 | 259 << 8 | 0x12300 << 12.
        assert_eq!(Device { major: 8, minor: 1 }.encode(), [1, 8, 0, 0]);
        assert_eq!(Device { major: 259, minor: 0x1_2345 }.encode(), 0x1231_0345_u32.to_le_bytes());
        for device in [
            Device { major: 8, minor: 1 },
            Device { major: 259, minor: 0x1_2345 },
            Device { major: 0xfff, minor: 0xf_ffff },
            Device { major: 0x1000, minor: 7 },
            Device { major: 5, minor: 0x10_0000 },
            Device { major: u32::MAX, minor: u32::MAX },
        ] {
            assert_eq!(Device::decode(&device.encode()), Ok(device));
        }
        assert!(Device::decode(&[1, 2]).is_err());
    }

    #[test]
    fn a_name_that_is_none_is_refused() {
        let entry = DentNode { key: Key::dent(1, 9), ino: 70, item: ItemType::File, cookie: 5, name: b"name" };
        let mut node = vec![0; DentNode::bytes_of(4)];
        entry.encode(&mut node, Group::In, 77);
        let (header, bytes) = Header::expect(&node, NodeType::Dent).expect("it is whole");
        assert_eq!((header.sqnum, header.group), (77, Group::In));
        assert_eq!(DentNode::decode(bytes), Ok(entry));
        for (at, byte) in [(50, 5), (50, 3), (50, 0), (57, 0), (60, b'x'), (49, 7)] {
            let mut wrong = node.clone();
            wrong[at] = byte;
            assert!(DentNode::decode(&wrong).is_err(), "{byte} at {at}");
        }
    }
}
