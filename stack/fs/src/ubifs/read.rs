//! Reading of files, directories and attributes.

use sim::Cx;
use sim::Lnum;
use sim::seam::LebVolume;

use super::error::{Result, UbifsError};
use super::index::{Place, entry};
use super::media::{
    BLOCK_BYTES, Branch, Compression, DataNode, InodeNode, ItemType, Key, KeyType, MAX_BLOCK, NodeType, ROOT_INO,
};
use super::mount::{Mounted, mount};
use super::nodes::Nodes;
use crate::compress::{Algorithm, Decompressor, Unpacked};

/// Index nodes that stay in memory between two operations: about 8 MiB with a fanout of 8.
const MOST_INDEX_NODES: usize = 32 << 10;

/// An inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inode {
    /// Its number.
    pub ino: u32,
    /// Type.
    pub item: ItemType,
    /// Type and permissions, as `st_mode`.
    pub mode: u32,
    /// Number of links.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes.
    pub size: u64,
    /// Time of the last access: seconds since 1970, nanoseconds.
    pub atime: (u64, u32),
    /// Time of the last change of the inode.
    pub ctime: (u64, u32),
    /// Time of the last change of the data.
    pub mtime: (u64, u32),
    /// Flags, see [`inode_flags`](super::media::inode_flags).
    pub flags: u32,
    /// Number of extended attributes.
    pub xattr_cnt: u32,
    /// Target of a symbolic link, number of a device, or value of an extended attribute.
    pub data: Vec<u8>,
}

/// An entry of a directory, or of the extended attributes of an inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Name.
    pub name: Vec<u8>,
    /// Inode that it names.
    pub ino: u32,
    /// Type of that inode.
    pub item: ItemType,
}

/// A file system that is open for reading.
#[derive(Debug)]
pub struct Reader<V> {
    nodes: Nodes<V>,
    mounted: Mounted,
    unpack: Decompressor,
}

impl<V: LebVolume> Reader<V> {
    /// Mounts `volume` for reading.
    /// Errors: the volume's; no UBIFS; a format that is not supported; damage that a power cut does not explain.
    pub fn mount(volume: V, cx: &mut Cx) -> Result<Reader<V>> {
        let mut nodes = Nodes::new(volume);
        let mounted = mount(&mut nodes, cx)?;
        Ok(Reader { nodes, mounted, unpack: Decompressor::new() })
    }

    /// Takes blocks that were decompressed before from `known`, and adds others.
    pub fn know(&mut self, known: &Unpacked) {
        self.unpack.know(known);
    }

    /// What the mount found.
    pub fn mounted(&self) -> &Mounted {
        &self.mounted
    }

    /// The volume.
    pub fn volume(&self) -> &V {
        self.nodes.volume()
    }

    /// Index and nodes, for a check.
    pub(super) fn parts(&mut self) -> (&mut Nodes<V>, &mut Mounted, &mut Decompressor) {
        (&mut self.nodes, &mut self.mounted, &mut self.unpack)
    }

    fn bound_memory(&mut self) {
        if self.mounted.index.loaded() > MOST_INDEX_NODES {
            self.mounted.index.shrink();
        }
    }

    /// Reads inode `ino`. Errors: the volume's; there is none; its type is unknown.
    pub fn inode(&mut self, cx: &mut Cx, ino: u32) -> Result<Inode> {
        self.bound_memory();
        let Mounted { index, journal, .. } = &mut self.mounted;
        let found = index.find(&mut self.nodes, cx, Key::inode(ino))?;
        let (_, branch) = found.ok_or(UbifsError::NoInode { ino })?;
        let mut inode = decode_inode(&mut self.nodes, cx, &branch)?;
        inode.size = journal.sizes.get(&ino).copied().unwrap_or(inode.size);
        Ok(inode)
    }

    /// The root directory. Errors: it cannot be read, or is no directory.
    pub fn root(&mut self, cx: &mut Cx) -> Result<Inode> {
        let root = self.inode(cx, ROOT_INO)?;
        match root.item {
            ItemType::Dir => Ok(root),
            _ => Err(UbifsError::NoInode { ino: ROOT_INO }),
        }
    }

    /// The entry of directory `dir` with this name. Errors: the volume's; a damaged entry.
    pub fn lookup(&mut self, cx: &mut Cx, dir: u32, name: &[u8]) -> Result<Option<DirEntry>> {
        self.bound_memory();
        let key = Key::dent(dir, self.mounted.sb.key_hash.of(name));
        match self.mounted.index.find_named(&mut self.nodes, cx, key, name, false)? {
            None => Ok(None),
            Some((_, branch)) => read_entry(&mut self.nodes, cx, &branch).map(Some),
        }
    }

    /// The entries of directory `dir`, in the order of their hashes.
    /// Errors: the volume's; a damaged entry.
    pub fn entries(&mut self, cx: &mut Cx, dir: u32) -> Result<Vec<DirEntry>> {
        self.entries_between(cx, Key::dent(dir, 0), Key::dent(dir, MAX_BLOCK))
    }

    /// The extended attributes of inode `host`: names, and the inodes that hold the values.
    /// Errors: the volume's; a damaged entry.
    pub fn attributes(&mut self, cx: &mut Cx, host: u32) -> Result<Vec<DirEntry>> {
        self.entries_between(cx, Key::xent(host, 0), Key::xent(host, MAX_BLOCK))
    }

    fn entries_between(&mut self, cx: &mut Cx, first: Key, last: Key) -> Result<Vec<DirEntry>> {
        self.bound_memory();
        let index = &mut self.mounted.index;
        let mut entries = Vec::new();
        let mut found = index.lower_bound(&mut self.nodes, cx, first)?;
        while let Some((place, branch)) = found.filter(|(_, branch)| branch.key <= last) {
            entries.push(read_entry(&mut self.nodes, cx, &branch)?);
            found = index.next(&mut self.nodes, cx, place)?;
        }
        Ok(entries)
    }

    /// The block of file `ino` with data that comes after another, or the first one. `None` after the last one. No other
    /// operation may come between two calls, but for [`read_block`](Reader::read_block).
    /// Errors: the volume's; index nodes that are damaged.
    pub fn next_block(&mut self, cx: &mut Cx, ino: u32, after: Option<&Data>) -> Result<Option<Data>> {
        if after.is_none() {
            self.bound_memory();
        }
        let index = &mut self.mounted.index;
        let found = match after {
            None => index.lower_bound(&mut self.nodes, cx, Key::data(ino, 0))?,
            Some(data) => index.next(&mut self.nodes, cx, data.place)?,
        };
        Ok(found
            .filter(|(_, branch)| branch.key.ino() == ino && branch.key.key_type() == Some(KeyType::Data))
            .map(|(place, branch)| Data { place, branch }))
    }

    /// Reads a block that [`next_block`](Reader::next_block) found, into the beginning of `out`, of 4096 bytes. Returns its
    /// length. Errors: the volume's; a damaged node.
    pub fn read_block(&mut self, cx: &mut Cx, data: &Data, out: &mut [u8]) -> Result<u32> {
        read_data(&mut self.nodes, &mut self.unpack, cx, &data.branch, out)
    }

    /// Reads up to `out.len()` bytes of file `ino`, whose size is `size`, from `offset` on. Returns their number, which is
    /// less at the end of the file. Errors: the volume's; a damaged node.
    pub fn read(&mut self, cx: &mut Cx, ino: u32, size: u64, offset: u64, out: &mut [u8]) -> Result<usize> {
        let len = size.saturating_sub(offset).min(out.len() as u64) as usize;
        let (out, end) = (&mut out[..len], offset + len as u64);
        out.fill(0);
        if len == 0 {
            return Ok(0);
        }
        self.bound_memory();
        let block_bytes = u64::from(BLOCK_BYTES);
        let first = Key::data(ino, u32::try_from(offset / block_bytes).unwrap_or(MAX_BLOCK).min(MAX_BLOCK));
        let last = Key::data(ino, u32::try_from((end - 1) / block_bytes).unwrap_or(MAX_BLOCK).min(MAX_BLOCK));
        let mut block = [0; BLOCK_BYTES as usize];
        let mut found = self.mounted.index.lower_bound(&mut self.nodes, cx, first)?;
        while let Some((place, branch)) = found.filter(|(_, branch)| branch.key <= last) {
            let bytes = read_data(&mut self.nodes, &mut self.unpack, cx, &branch, &mut block)?;
            let at = u64::from(branch.key.low()) * block_bytes;
            let (from, to) = (at.max(offset), (at + u64::from(bytes)).min(end));
            if from < to {
                let part = &block[(from - at) as usize..(to - at) as usize];
                out[(from - offset) as usize..(to - offset) as usize].copy_from_slice(part);
            }
            found = self.mounted.index.next(&mut self.nodes, cx, place)?;
        }
        Ok(len)
    }
}

/// A block of a file that has data.
#[derive(Clone, Copy, Debug)]
pub struct Data {
    place: Place,
    branch: Branch,
}

impl Data {
    /// Number of the block: its data begin at this many times 4096 bytes.
    pub fn block(&self) -> u32 {
        self.branch.key.low()
    }
}

pub(super) fn read_entry<V: LebVolume>(nodes: &mut Nodes<V>, cx: &mut Cx, branch: &Branch) -> Result<DirEntry> {
    let entry = entry(nodes, cx, branch)?;
    match u32::try_from(entry.ino) {
        Ok(ino) if ino != 0 => Ok(DirEntry { name: entry.name.to_vec(), ino, item: entry.item }),
        _ => Err(UbifsError::corrupt(branch.lnum, branch.offset, format!("an entry that names inode {}", entry.ino))),
    }
}

pub(super) fn decode_inode<V: LebVolume>(nodes: &mut Nodes<V>, cx: &mut Cx, branch: &Branch) -> Result<Inode> {
    let Branch { lnum, offset, key, .. } = *branch;
    let node = nodes.node(cx, branch, NodeType::Inode)?;
    let found = InodeNode::decode(node).map_err(|error| UbifsError::node(lnum, offset, "inode node", error))?;
    if found.key != key {
        let what = format!("inode node of {:?}, expected {key:?}", found.key);
        return Err(UbifsError::corrupt(lnum, offset, what));
    }
    let Some(item) = ItemType::of_mode(found.mode) else {
        let what = format!("inode {} with mode {:#o}, which has no type", key.ino(), found.mode);
        return Err(UbifsError::corrupt(lnum, offset, what));
    };
    Ok(Inode {
        ino: key.ino(),
        item,
        mode: found.mode,
        nlink: found.nlink,
        uid: found.uid,
        gid: found.gid,
        size: found.size,
        atime: found.atime,
        ctime: found.ctime,
        mtime: found.mtime,
        flags: found.flags,
        xattr_cnt: found.xattr_cnt,
        data: found.data.to_vec(),
    })
}

/// Reads the data node at `branch` into the beginning of `out`. Returns the length.
pub(super) fn read_data<V: LebVolume>(
    nodes: &mut Nodes<V>,
    unpack: &mut Decompressor,
    cx: &mut Cx,
    branch: &Branch,
    out: &mut [u8],
) -> Result<u32> {
    let Branch { lnum, offset, key, .. } = *branch;
    if !V::keeps_bytes() {
        let size = nodes.data_size(cx, branch)?;
        out[..size as usize].fill(0);
        return Ok(size);
    }
    let node = nodes.node(cx, branch, NodeType::Data)?;
    let data = DataNode::decode(node).map_err(|error| UbifsError::node(lnum, offset, "data node", error))?;
    if data.key != key {
        let what = format!("data node of {:?}, expected {key:?}", data.key);
        return Err(UbifsError::corrupt(lnum, offset, what));
    }
    let out = &mut out[..data.size as usize];
    let algorithm = match data.compression {
        Compression::None => {
            out.copy_from_slice(data.data);
            return Ok(data.size);
        }
        Compression::Lzo => Algorithm::Lzo,
        Compression::Zlib => Algorithm::Deflate,
        Compression::Zstd => Algorithm::Zstd,
    };
    let (ino, block) = (key.ino(), key.low());
    unpack.decompress(algorithm, data.data, out).map_err(|error| UbifsError::Data {
        lnum: Lnum(lnum),
        offset,
        ino,
        block,
        error,
    })?;
    Ok(data.size)
}
