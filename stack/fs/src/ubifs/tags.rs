//! What is known of a volume that keeps no bytes: its nodes, of inodes and entries with their bytes.
//!
//! So wear runs cost no copies, and the same code runs as with bytes: it reads nodes here that it would read from flash.
//! Index nodes that are not in memory cost a read, but their branches stay with the index.

use super::media::{DataNode, Header, IndexNode, Key, NodeType, aligned};
use super::nodes::Stored;
use super::scan::{Recovery, scan};

/// A LEB: its nodes in order.
#[derive(Clone, Debug, Default)]
struct Leb {
    nodes: Vec<Stored>,
    bytes: Vec<u8>,
}

impl Leb {
    fn insert(&mut self, node: Stored) {
        match self.nodes.last() {
            Some(last) if last.offset > node.offset => {
                let place = self.nodes.partition_point(|other| other.offset < node.offset);
                self.nodes.insert(place, node);
            }
            _ => self.nodes.push(node),
        }
    }

    fn find(&self, offset: u32) -> Option<&Stored> {
        let place = self.nodes.binary_search_by_key(&offset, |node| node.offset).ok()?;
        Some(&self.nodes[place])
    }
}

/// Whether bytes of a node of this type are kept.
fn is_kept(node_type: NodeType) -> bool {
    !matches!(node_type, NodeType::Data | NodeType::Index)
}

/// The nodes of a volume.
#[derive(Clone, Debug)]
pub(super) struct Tags {
    lebs: Vec<Leb>,
    /// LEBs as they were when the file system was made.
    images: Vec<Option<Box<[u8]>>>,
    count: usize,
}

impl Tags {
    /// Of a volume with so many LEBs, which are empty.
    pub fn new(lebs: u32) -> Tags {
        Tags { lebs: Vec::new(), images: Vec::new(), count: lebs as usize }
    }

    fn leb_mut(&mut self, lnum: u32) -> &mut Leb {
        if self.lebs.is_empty() {
            self.lebs.resize_with(self.count, Leb::default);
        }
        &mut self.lebs[lnum as usize]
    }

    /// The image of a LEB, which can be read until it is written again.
    pub fn preload(&mut self, lnum: u32, bytes: &[u8]) {
        if self.images.is_empty() {
            self.images.resize_with(self.count, || None);
        }
        self.images[lnum as usize] = Some(bytes.into());
        if let Ok(scanned) = scan(bytes, lnum, 0, 8, Recovery::Tail) {
            for found in scanned.nodes {
                self.add(lnum, found.offset, found.header, found.of(bytes));
            }
        }
    }

    /// Fills in what is known of the bytes of a LEB: its image, or nothing.
    pub fn read(&self, lnum: u32, offset: u32, bytes: &mut [u8]) {
        bytes.fill(0xff);
        if let Some(from) = self.image(lnum, offset) {
            let len = from.len().min(bytes.len());
            bytes[..len].copy_from_slice(&from[..len]);
        }
    }

    /// The image of a LEB from `offset` on.
    pub fn image(&self, lnum: u32, offset: u32) -> Option<&[u8]> {
        self.images.get(lnum as usize)?.as_ref()?.get(offset as usize..)
    }

    /// The LEB is empty.
    pub fn clear(&mut self, lnum: u32) {
        if let Some(leb) = self.lebs.get_mut(lnum as usize) {
            leb.nodes.clear();
            leb.bytes.clear();
        }
        if let Some(image) = self.images.get_mut(lnum as usize) {
            *image = None;
        }
    }

    /// Notes a node of which no bytes are kept.
    pub fn note(&mut self, lnum: u32, stored: Stored) {
        self.leb_mut(lnum).insert(stored);
    }

    /// Adds a node, of which `bytes` may be only the header.
    fn add(&mut self, lnum: u32, offset: u32, header: Header, bytes: &[u8]) {
        let Header { len, node_type, .. } = header;
        let key = |bytes: &[u8]| Key::decode(&bytes[24..]).expect("a node that was just made");
        let (key, level) = match node_type {
            NodeType::Index => IndexNode::first(bytes).expect("a node that was just made"),
            NodeType::Inode | NodeType::Data | NodeType::Dent | NodeType::Xent => (key(bytes), 0),
            // Nothing in memory points to it.
            _ => return,
        };
        let leb = self.leb_mut(lnum);
        let at = match node_type {
            NodeType::Data => DataNode::size_of(bytes),
            NodeType::Index => u32::MAX,
            _ => {
                let at = leb.bytes.len() as u32;
                leb.bytes.extend_from_slice(&bytes[..len as usize]);
                at
            }
        };
        leb.insert(Stored { key, offset, len, at, level, node_type });
    }

    /// Adds nodes one after another, of which the last may lack its data. Returns the bytes that they take in the LEB.
    pub fn append(&mut self, lnum: u32, offset: u32, bytes: &[u8]) -> u32 {
        let mut at = 0;
        while at < bytes.len() {
            let Ok(header) = Header::peek(&bytes[at..]) else { break };
            self.add(lnum, offset + at as u32, header, &bytes[at..]);
            at += aligned(header.len) as usize;
        }
        at as u32
    }

    /// Puts a copy of a node into another LEB.
    pub fn copy(&mut self, (lnum, node): (u32, Stored), (to, offset): (u32, u32)) {
        let [from, to] = self.lebs.get_disjoint_mut([lnum as usize, to as usize]).expect("they are two LEBs");
        let mut at = node.at;
        if is_kept(node.node_type) {
            at = to.bytes.len() as u32;
            to.bytes.extend_from_slice(&from.bytes[node.at as usize..][..node.len as usize]);
        }
        to.insert(Stored { offset, at, ..node });
    }

    /// The bytes of the inode or entry at this place.
    pub fn node(&self, lnum: u32, offset: u32) -> Option<&[u8]> {
        let leb = self.lebs.get(lnum as usize)?;
        let node = leb.find(offset).filter(|node| is_kept(node.node_type))?;
        Some(&leb.bytes[node.at as usize..][..node.len as usize])
    }

    /// Bytes before compression of the data node at this place.
    pub fn data_size(&self, lnum: u32, offset: u32) -> Option<u32> {
        let node = self.lebs.get(lnum as usize)?.find(offset)?;
        (node.node_type == NodeType::Data).then_some(node.at)
    }

    /// The nodes of a LEB.
    pub fn of(&self, lnum: u32) -> &[Stored] {
        self.lebs.get(lnum as usize).map_or(&[], |leb| &leb.nodes)
    }
}
