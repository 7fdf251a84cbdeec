//! An inode in memory: what `stat` says of it, which node has which bytes of the file, or the names in the directory.

use std::collections::BTreeMap;

use sim::seam::FileType;

use super::blocks::{Blocks, NodeState};
use super::media::{InodeNode, PAGE_BYTES};

/// A run of bytes of a file that one node has, or none: a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    pub len: u32,
    pub node: Option<u32>,
}

/// A node with data of a file.
#[derive(Clone, Copy, Debug)]
pub struct DataNode {
    /// Where its data begin in the file.
    pub offset: u32,
    /// Bytes of the file.
    pub len: u32,
    /// Fragments that are of it.
    pub fragments: u32,
}

/// A name in a directory.
#[derive(Clone, Copy, Debug)]
pub struct Name {
    /// Node on flash.
    pub node: u32,
    pub version: u32,
    /// Inode; 0: the name was removed, and the node says so.
    pub ino: u32,
    pub kind: u8,
    /// Place among the names when they are listed.
    pub place: u64,
}

/// An inode.
#[derive(Clone, Debug)]
pub struct Inode {
    pub ino: u32,
    /// Version of its newest node.
    pub version: u32,
    pub file_type: FileType,
    /// 12 bits of permissions.
    pub mode: u32,
    pub uid: u16,
    pub gid: u16,
    pub size: u32,
    pub atime: u32,
    pub mtime: u32,
    pub ctime: u32,
    /// Names of a file; 2 and one for each directory in a directory.
    pub links: u32,
    pub opens: u32,
    /// By where they begin. They follow one another without gaps.
    pub fragments: BTreeMap<u32, Fragment>,
    pub nodes: BTreeMap<u32, DataNode>,
    /// The node that has the attributes and no bytes of a file.
    pub metadata: Option<u32>,
    pub names: BTreeMap<Vec<u8>, Name>,
    pub next_place: u64,
    /// Target of a symbolic link, or number of a device as on flash.
    pub data: Vec<u8>,
}

/// Nodes that a change of the fragments made obsolete.
pub type Dropped = Vec<u32>;

impl Inode {
    /// An inode without nodes.
    pub fn new(ino: u32, file_type: FileType) -> Inode {
        Inode {
            ino,
            version: 0,
            file_type,
            mode: 0,
            uid: 0,
            gid: 0,
            size: 0,
            atime: 0,
            mtime: 0,
            ctime: 0,
            links: if file_type == FileType::Directory { 2 } else { 1 },
            opens: 0,
            fragments: BTreeMap::new(),
            nodes: BTreeMap::new(),
            metadata: None,
            names: BTreeMap::new(),
            next_place: 0,
            data: Vec::new(),
        }
    }

    pub fn is_dir(&self) -> bool {
        self.file_type == FileType::Directory
    }

    /// A node with what is known of the inode, without data.
    pub fn describe(&self) -> InodeNode {
        InodeNode {
            ino: self.ino,
            mode: self.file_type.mode_bits() | self.mode,
            uid: self.uid,
            gid: self.gid,
            size: self.size,
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
            ..InodeNode::default()
        }
    }

    /// Where the fragments end.
    pub fn end(&self) -> u32 {
        self.fragments.last_key_value().map_or(0, |(at, fragment)| at + fragment.len)
    }

    /// The fragment that has a byte, and where it begins.
    pub fn fragment_at(&self, offset: u32) -> Option<(u32, Fragment)> {
        let (&at, fragment) = self.fragments.range(..=offset).next_back()?;
        (offset < at + fragment.len).then_some((at, *fragment))
    }

    /// The fragments of a node: where they begin, and where they end.
    pub fn range_of(&self, node: u32) -> Option<(u32, u32)> {
        let DataNode { offset, len, .. } = *self.nodes.get(&node)?;
        let mut own =
            self.fragments.range(offset..offset.saturating_add(len)).filter(|(_, one)| one.node == Some(node));
        let (&from, first) = own.next()?;
        let (&last, one) = own.next_back().unwrap_or((&from, first));
        Some((from, last + one.len))
    }

    fn give_up(&mut self, blocks: &mut Blocks, fragment: Fragment, dropped: &mut Dropped) {
        let Some(id) = fragment.node else { return };
        let node = self.nodes.get_mut(&id).expect("a fragment is of a node");
        node.fragments -= 1;
        if node.fragments == 0 {
            self.nodes.remove(&id);
            dropped.push(id);
        } else {
            make_normal(blocks, id);
        }
    }

    /// Puts the data of a node, `len` bytes at `offset`, in the place of what was there.
    /// Source: Linux 6.12, `jffs2_add_full_dnode_to_inode`.
    pub fn insert(&mut self, blocks: &mut Blocks, id: u32, offset: u32, len: u32) -> Dropped {
        let mut dropped = Dropped::new();
        if len == 0 {
            return dropped;
        }
        let (end, last) = (offset + len, self.end());
        self.nodes.insert(id, DataNode { offset, len, fragments: 1 });
        if last < offset {
            self.fragments.insert(last, Fragment { len: offset - last, node: None });
        }
        // What begins before and reaches into the new data is cut there; what reaches beyond them begins after them.
        if let Some((at, old)) = self.fragment_at(offset).filter(|(at, _)| *at < offset) {
            self.fragments.insert(at, Fragment { len: offset - at, ..old });
            if at + old.len > end {
                self.fragments.insert(end, Fragment { len: at + old.len - end, ..old });
                if let Some(node) = old.node {
                    self.nodes.get_mut(&node).expect("a fragment is of a node").fragments += 1;
                }
            }
            old.node.into_iter().for_each(|node| make_normal(blocks, node));
            make_normal(blocks, id);
        }
        while let Some((&at, &old)) = self.fragments.range(offset..end).next() {
            self.fragments.remove(&at);
            if at + old.len > end {
                self.fragments.insert(end, Fragment { len: at + old.len - end, ..old });
                if at > offset {
                    old.node.into_iter().for_each(|node| make_normal(blocks, node));
                    make_normal(blocks, id);
                }
            } else {
                self.give_up(blocks, old, &mut dropped);
            }
        }
        self.fragments.insert(offset, Fragment { len, node: Some(id) });
        // Nodes that share a page are written anew when they are collected.
        let before = self.fragments.range(..offset).next_back().map(|(_, one)| one.node);
        let after = self.fragments.get(&end).map(|one| one.node);
        for (shares, neighbour) in
            [(!offset.is_multiple_of(PAGE_BYTES), before), (!end.is_multiple_of(PAGE_BYTES), after)]
        {
            if let (true, Some(neighbour)) = (shares, neighbour) {
                make_normal(blocks, id);
                neighbour.into_iter().for_each(|node| make_normal(blocks, node));
            }
        }
        dropped
    }

    /// Drops what is at `size` and beyond.
    /// Source: Linux 6.12, `jffs2_truncate_fragtree`.
    pub fn truncate(&mut self, blocks: &mut Blocks, size: u32) -> Dropped {
        let mut dropped = Dropped::new();
        let beyond: Vec<(u32, Fragment)> = self.fragments.split_off(&size).into_iter().collect();
        for (_, fragment) in beyond {
            self.give_up(blocks, fragment, &mut dropped);
        }
        if let Some(mut last) = self.fragments.last_entry() {
            let at = *last.key();
            last.get_mut().len = last.get().len.min(size - at);
            let whole = at + last.get().len == size && at.is_multiple_of(PAGE_BYTES);
            if let Some(node) = last.get().node.filter(|&node| whole && blocks.node(node).state == NodeState::Normal) {
                blocks.set(node, NodeState::Pristine);
            }
        }
        dropped
    }

    /// Adds a name, or replaces the one that is equal. Returns the node that is obsolete now, if any: of two that are equal
    /// the one of the lower version.
    pub fn put_name(&mut self, bytes: &[u8], node: u32, version: u32, ino: u32, kind: u8) -> Option<u32> {
        if let Some(old) = self.names.get_mut(bytes) {
            if version < old.version {
                return Some(node);
            }
            let place = old.place;
            return Some(std::mem::replace(old, Name { node, version, ino, kind, place }).node);
        }
        let place = self.next_place;
        self.next_place += 1;
        self.names.insert(bytes.to_vec(), Name { node, version, ino, kind, place });
        None
    }

    /// Names of files that are there.
    pub fn live_names(&self) -> impl Iterator<Item = (&Vec<u8>, &Name)> {
        self.names.iter().filter(|(_, name)| name.ino != 0)
    }
}

fn make_normal(blocks: &mut Blocks, node: u32) {
    if blocks.node(node).state == NodeState::Pristine {
        blocks.set(node, NodeState::Normal);
    }
}
