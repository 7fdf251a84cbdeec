//! Reading an inode from its nodes, and checking their data, which a mount leaves for later.
//! Source: Linux 6.12, `fs/jffs2/readinode.c`.

use std::collections::BTreeMap;

use sim::Cx;
use sim::seam::{FileType, Flash, FsError, Ino};

use super::blocks::{Node, NodeState};
use super::damage::Lost;
use super::error::{Jffs2Error, Result};
use super::inode::Inode;
use super::media::{DirentNode, HEADER_BYTES, Header, InodeNode, PAGE_BYTES, ROOT_INO, compression, crc, node_type};
use super::{Cache, Jffs2};

/// Permissions of a directory of which flash has names, and no inode node.
const BARE_DIR: u32 = 0o755;

/// An inode node, and which it is.
pub(super) type Version = (u32, u32, InodeNode);

/// An entry of a directory: which node it is, and its name.
type Found = (u32, DirentNode, Vec<u8>);

/// Bytes of a file that newer nodes have.
#[derive(Default)]
struct Covered(BTreeMap<u32, u32>);

impl Covered {
    /// Whether all of a range is covered.
    fn has(&self, from: u32, to: u32) -> bool {
        self.0.range(..=from).next_back().is_some_and(|(_, &end)| end >= to)
    }

    fn add(&mut self, from: u32, to: u32) {
        let (mut from, mut to) = (from, to);
        if let Some((&before, &end)) = self.0.range(..=from).next_back().filter(|(_, end)| **end >= from) {
            (from, to) = (before, to.max(end));
        }
        let inner: Vec<u32> = self.0.range(from..=to).map(|(&begin, _)| begin).collect();
        for begin in inner {
            to = to.max(self.0.remove(&begin).expect("it is there"));
        }
        self.0.insert(from, to);
    }
}

/// Ranges of a file that one newer node has, but for those that lie in another: where they end, by where they begin.
#[derive(Default)]
struct Ranges(BTreeMap<u32, u32>);

impl Ranges {
    /// Whether one of them has all of a range.
    fn has(&self, from: u32, to: u32) -> bool {
        // What begins later ends later.
        self.0.range(..=from).next_back().is_some_and(|(_, &end)| end >= to)
    }

    /// Adds one that no other has all of.
    fn add(&mut self, from: u32, to: u32) {
        while let Some((&begin, _)) = self.0.range(from..).next().filter(|(_, end)| **end <= to) {
            self.0.remove(&begin);
        }
        self.0.insert(from, to);
    }
}

impl<F: Flash> Jffs2<F> {
    /// An inode, read from flash if it is not in memory.
    /// Errors: the flash's; there is none; what it has on flash is no inode.
    pub(super) fn load(&mut self, cx: &mut Cx, ino: u32) -> Result<&mut Inode> {
        if !self.inodes.has(ino) {
            let stale = || Jffs2Error::Fs(FsError::Stale { ino: Ino(ino.into()) });
            let links = self.caches.get(ino).filter(|cache| cache.links > 0).ok_or_else(stale)?.links;
            let inode = self.read_inode(cx, ino, links)?;
            self.inodes.insert(ino, Box::new(inode));
        }
        Ok(self.inodes.get_mut(ino).expect("it was just put there"))
    }

    /// The inode of a number of the seam.
    pub(super) fn get(&mut self, cx: &mut Cx, ino: Ino) -> Result<&mut Inode> {
        let number = u32::try_from(ino.0).map_err(|_| FsError::Stale { ino })?;
        self.load(cx, number)
    }

    /// Reads all nodes of an inode, checks those that were not, and drops those that are not needed.
    fn read_inode(&mut self, cx: &mut Cx, ino: u32, links: u32) -> Result<Inode> {
        let ids = self.caches.get(ino).map(|cache| cache.nodes.clone()).unwrap_or_default();
        let mut inode = Inode::new(ino, FileType::Directory);
        let (mut versions, mut entries) = (Vec::<Version>::new(), Vec::<Found>::new());
        for id in ids.into_iter().filter(|&id| self.blocks.node(id).state != NodeState::Obsolete).collect::<Vec<_>>() {
            match self.read_node(cx, id)? {
                Some(Read::Inode(node)) => versions.push((node.version, id, node)),
                Some(Read::Dirent(node, name)) => entries.push((id, node, name)),
                None => {
                    self.counters.damaged += 1;
                    self.note_lost(id, Some(ino), Lost::Node(0), &[]);
                    self.obsolete(cx, id)?;
                }
            }
        }
        inode.version = self.caches.get(ino).map_or(0, |cache| cache.version);
        versions.sort_by_key(|&(version, id, _)| (version, id));
        let valid = self.check_versions(cx, versions)?;
        let Some(&(version, latest, node)) = valid.last() else {
            if ino != ROOT_INO && entries.is_empty() {
                return Err(FsError::Stale { ino: Ino(ino.into()) }.into());
            }
            inode.mode = BARE_DIR;
            // Linux gives it no times then, whatever its entries say.
            self.read_names(cx, &mut inode, entries, u32::MAX)?;
            self.checked(ino);
            return Ok(inode);
        };
        let file_type = FileType::ALL.into_iter().find(|kind| kind.mode_bits() == node.mode & 0o170_000);
        let Node { block, offset, .. } = *self.blocks.node(latest);
        let wrong = |what: String| Jffs2Error::corrupt(block, offset, what);
        let file_type =
            file_type.ok_or_else(|| wrong(format!("inode {ino} with mode {:#o}, which has no type", node.mode)))?;
        let InodeNode { mode, uid, gid, size, atime, mtime, ctime, .. } = node;
        inode = Inode { file_type, mode: mode & 0o7777, uid, gid, size, atime, mtime, ctime, ..inode };
        if file_type != FileType::Directory {
            inode.links = links;
        }
        for (_, id, node) in as_linux_inserts(valid) {
            let covers = node.covers();
            if covers > 0 {
                for old in inode.insert(&mut self.blocks, id, node.offset, covers) {
                    self.obsolete(cx, old)?;
                }
            } else if id == latest {
                inode.metadata = Some(id);
            } else {
                self.obsolete(cx, id)?;
            }
        }
        match file_type {
            FileType::Directory => self.read_names(cx, &mut inode, entries, version)?,
            FileType::Regular => {
                for old in inode.truncate(&mut self.blocks, size) {
                    self.obsolete(cx, old)?;
                }
                inode.size = inode.size.min(inode.end());
            }
            _ => {
                // Such an inode has one node, with all of its data.
                let is_one = inode.fragments.len() <= 1;
                inode.fragments.clear();
                inode.nodes.clear();
                inode.metadata = Some(latest);
                if !is_one {
                    return Err(wrong(format!("inode {ino} of a {file_type:?} with several nodes")));
                }
                inode.data = vec![0; node.packed as usize];
                let has_room =
                    node.packed <= PAGE_BYTES && node.packed + InodeNode::BYTES as u32 <= self.blocks.node(latest).len;
                if !has_room {
                    return Err(wrong(format!("inode {ino} with {} bytes of data", node.packed)));
                }
                self.device.read(cx, block, offset + InodeNode::BYTES as u32, &mut inode.data)?;
                if file_type == FileType::Symlink {
                    inode.size = node.packed;
                }
            }
        }
        self.checked(ino);
        Ok(inode)
    }

    fn checked(&mut self, ino: u32) {
        if let Some(cache) = self.caches.get_mut(ino) {
            cache.is_checked = true;
        }
    }

    /// The names of a directory, from its entries; the time of the newest is that of the directory, if it is newer.
    fn read_names(&mut self, cx: &mut Cx, inode: &mut Inode, mut entries: Vec<Found>, version: u32) -> Result<()> {
        entries.sort_by_key(|(id, node, _)| (node.version, *id));
        let last =
            entries.iter().rev().find(|(_, node, _)| node.time > 0).map(|(_, node, _)| (node.version, node.time));
        for (id, node, name) in entries {
            if let Some(old) = inode.put_name(&name, id, node.version, node.ino, node.kind) {
                self.obsolete(cx, old)?;
            }
        }
        let caches = &self.caches;
        let is_dir = |ino: u32| caches.get(ino).is_some_and(|cache| cache.is_dir && cache.links > 0);
        inode.links = 2 + inode.live_names().filter(|(_, name)| is_dir(name.ino)).count() as u32;
        if let Some((_, time)) = last.filter(|&(newest, _)| newest > version) {
            (inode.mtime, inode.ctime) = (time, time);
        }
        Ok(())
    }

    /// Of the nodes of an inode, in the order of their versions, those that are whole, without those of which a newer one has everything.
    /// What several have together still counts when the file is put together.
    /// Source: Linux 6.12, `jffs2_add_tn_to_tree`.
    fn check_versions(&mut self, cx: &mut Cx, versions: Vec<Version>) -> Result<Vec<Version>> {
        let (mut covered, mut ranges, mut valid) = (Covered::default(), Ranges::default(), Vec::new());
        for (version, id, node) in versions.into_iter().rev() {
            let (from, covers) = (node.offset, node.covers());
            let Some(to) = from.checked_add(covers) else {
                self.note_lost(id, Some(node.ino), Lost::Node(node_type::INODE), &[]);
                self.obsolete(cx, id)?;
                continue;
            };
            if covers > 0 && ranges.has(from, to) {
                self.obsolete(cx, id)?;
                continue;
            }
            if self.blocks.node(id).state == NodeState::Unchecked {
                if !self.has_whole_data(cx, id, &node)? {
                    if covers == 0 || !covered.has(from, to) {
                        self.counters.damaged += 1;
                        let data = std::mem::take(&mut self.scratch);
                        self.note_lost(id, Some(node.ino), Lost::Data(from, to), &data);
                        self.scratch = data;
                    }
                    self.obsolete(cx, id)?;
                    continue;
                }
                // With data it is taken to be all that is in its pages, until another is found there.
                // Source: Linux 6.12, `read_dnode` and `check_tn_node`.
                let state = if node.packed > 0 { NodeState::Pristine } else { NodeState::Normal };
                self.blocks.set(id, state);
            }
            covered.add(from, to);
            if covers > 0 {
                ranges.add(from, to);
            }
            valid.push((version, id, node));
        }
        valid.reverse();
        Ok(valid)
    }

    /// Whether the data of a node are what its CRC says.
    fn has_whole_data(&mut self, cx: &mut Cx, id: u32, node: &InodeNode) -> Result<bool> {
        let Node { block, offset, len, .. } = *self.blocks.node(id);
        let packed = if node.compression == compression::ZERO { 0 } else { node.packed };
        let is_sane = u64::from(packed) + InodeNode::BYTES as u64 <= u64::from(len) && node.offset <= node.size;
        if !is_sane || packed == 0 {
            return Ok(is_sane);
        }
        let mut data = std::mem::take(&mut self.scratch);
        data.resize(node.packed as usize, 0);
        let read = self.device.read(cx, block, offset + InodeNode::BYTES as u32, &mut data);
        self.spend(cx, 0, u64::from(node.packed));
        let is_whole = crc(&data) == node.data_crc;
        self.scratch = data;
        read?;
        Ok(is_whole)
    }

    /// A node of an inode. `None`: it is damaged.
    fn read_node(&mut self, cx: &mut Cx, id: u32) -> Result<Option<Read>> {
        let endian = self.device.endian();
        let Node { block, offset, len, state, .. } = *self.blocks.node(id);
        let mut head = [0; InodeNode::BYTES];
        let bytes = &mut head[..InodeNode::BYTES.min(len as usize)];
        self.device.read(cx, block, offset, bytes)?;
        self.spend(cx, 1, bytes.len() as u64);
        let Some(Ok(header)) = bytes.get(..HEADER_BYTES).map(|bytes| Header::read(endian, bytes)) else {
            return Ok(None);
        };
        match header.node_type {
            node_type::INODE if bytes.len() == InodeNode::BYTES => Ok(InodeNode::read(endian, bytes).map(Read::Inode)),
            node_type::DIRENT if bytes.len() >= DirentNode::BYTES => {
                let Some(node) = DirentNode::read(endian, bytes) else { return Ok(None) };
                let mut name = vec![0; usize::from(node.name_len)];
                if DirentNode::BYTES + name.len() > len as usize {
                    return Ok(None);
                }
                self.device.read(cx, block, offset + DirentNode::BYTES as u32, &mut name)?;
                let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
                name.truncate(end);
                if crc(&name) != node.name_crc {
                    return Ok(None);
                }
                if state == NodeState::Unchecked {
                    self.blocks.set(id, if node.ino == 0 { NodeState::Normal } else { NodeState::Pristine });
                }
                Ok(Some(Read::Dirent(node, name)))
            }
            _ => Ok(None),
        }
    }

    /// Checks the next inode that was not since the mount. False: there is none.
    pub(super) fn check_one(&mut self, cx: &mut Cx) -> Result<bool> {
        self.verify_xattrs(cx)?;
        let (ino, links) = loop {
            let Some(ino) = self.to_check.pop() else { return Ok(false) };
            match self.caches.get(ino) {
                Some(&Cache { links, is_checked: false, .. }) if links > 0 => break (ino, links),
                _ => {}
            }
        };
        if !self.inodes.has(ino) {
            match self.read_inode(cx, ino, links) {
                Ok(_) => {}
                Err(error @ Jffs2Error::Flash(_)) => return Err(error),
                // What is wrong with it is said when somebody asks for it.
                Err(_) => self.drop_unchecked(cx, ino)?,
            }
        }
        self.checked(ino);
        Ok(true)
    }

    /// Nodes of an inode that cannot be read are of no use.
    fn drop_unchecked(&mut self, cx: &mut Cx, ino: u32) -> Result<()> {
        let nodes = self.caches.get(ino).map(|cache| cache.nodes.clone()).unwrap_or_default();
        for id in nodes {
            if self.blocks.node(id).state == NodeState::Unchecked {
                self.obsolete(cx, id)?;
            }
        }
        Ok(())
    }
}

/// Nodes in the order in which a file is put together: those that overlap each other by version, and what is nearer to the end
/// of the file first. A node that comes before others falls into a hole then, and collection writes it anew rather than copying it.
/// Source: Linux 6.12, `jffs2_build_inode_fragtree`.
pub(super) fn as_linux_inserts(mut nodes: Vec<Version>) -> Vec<Version> {
    nodes.sort_by_key(|&(version, _, node)| (node.offset, version));
    let mut groups: Vec<Vec<Version>> = Vec::new();
    let mut end = 0;
    for (version, id, node) in nodes {
        match groups.last_mut().filter(|_| node.offset < end) {
            Some(group) => group.push((version, id, node)),
            None => groups.push(vec![(version, id, node)]),
        }
        end = end.max(node.offset + node.covers());
    }
    groups.iter_mut().for_each(|group| group.sort_by_key(|&(version, id, _)| (version, id)));
    groups.into_iter().rev().flatten().collect()
}

/// A node that was read.
enum Read {
    Inode(InodeNode),
    Dirent(DirentNode, Vec<u8>),
}

/// What a node that is whole is to garbage collection.
pub(super) fn state_of(node: &InodeNode) -> NodeState {
    let InodeNode { offset, size, .. } = *node;
    let len = node.covers();
    let is_page = len >= PAGE_BYTES || (offset.is_multiple_of(PAGE_BYTES) && offset + len == size);
    if is_page { NodeState::Pristine } else { NodeState::Normal }
}
