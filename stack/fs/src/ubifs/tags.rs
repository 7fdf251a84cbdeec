//! What is known of a volume that keeps no bytes: its nodes, of inodes and entries with their bytes.
//!
//! So wear runs cost no copies, and the same code runs as with bytes: it reads nodes here that it would read from flash.
//! Index nodes that are not in memory cost a read, but their branches stay with the index.

use super::media::{DataNode, Header, IndexNode, Key, NodeType, aligned};
use super::nodes::Stored;
use super::scan::{Recovery, scan};

/// A node, and where its bytes are kept; of a data node the bytes before compression.
#[derive(Clone, Copy, Debug)]
struct Node {
    stored: Stored,
    at: u32,
}

/// A LEB: its nodes in order.
#[derive(Clone, Debug, Default)]
struct Leb {
    nodes: Vec<Node>,
    bytes: Vec<u8>,
}

impl Leb {
    fn insert(&mut self, node: Node) {
        match self.nodes.last() {
            Some(last) if last.stored.offset > node.stored.offset => {
                let place = self.nodes.partition_point(|other| other.stored.offset < node.stored.offset);
                self.nodes.insert(place, node);
            }
            _ => self.nodes.push(node),
        }
    }
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
        self.leb_mut(lnum).insert(Node { stored, at: 0 });
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
            NodeType::Index => 0,
            _ => {
                let at = leb.bytes.len() as u32;
                leb.bytes.extend_from_slice(&bytes[..len as usize]);
                at
            }
        };
        leb.insert(Node { stored: Stored { offset, len, node_type, key, level }, at });
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
    pub fn copy(&mut self, from: (u32, Stored), to: (u32, u32)) {
        let (lnum, stored) = from;
        let [source, target] =
            self.lebs.get_disjoint_mut([lnum as usize, to.0 as usize]).expect("a node is copied to another LEB");
        let place = source.nodes.binary_search_by_key(&stored.offset, |node| node.stored.offset);
        let mut at = source.nodes[place.expect("the LEB has the node")].at;
        if !matches!(stored.node_type, NodeType::Data | NodeType::Index) {
            let bytes = &source.bytes[at as usize..][..stored.len as usize];
            at = target.bytes.len() as u32;
            target.bytes.extend_from_slice(bytes);
        }
        target.insert(Node { stored: Stored { offset: to.1, ..stored }, at });
    }

    fn find(&self, lnum: u32, offset: u32) -> Option<(&Leb, &Node)> {
        let leb = self.lebs.get(lnum as usize)?;
        let place = leb.nodes.binary_search_by_key(&offset, |node| node.stored.offset).ok()?;
        Some((leb, &leb.nodes[place]))
    }

    /// The bytes of the inode or entry at this place.
    pub fn node(&self, lnum: u32, offset: u32) -> Option<&[u8]> {
        let (leb, node) = self.find(lnum, offset)?;
        let is_kept = !matches!(node.stored.node_type, NodeType::Data | NodeType::Index);
        is_kept.then(|| &leb.bytes[node.at as usize..][..node.stored.len as usize])
    }

    /// Bytes before compression of the data node at this place.
    pub fn data_size(&self, lnum: u32, offset: u32) -> Option<u32> {
        let (_, node) = self.find(lnum, offset)?;
        (node.stored.node_type == NodeType::Data).then_some(node.at)
    }

    /// The nodes of a LEB.
    pub fn of(&self, lnum: u32) -> impl Iterator<Item = Stored> + '_ {
        self.lebs.get(lnum as usize).into_iter().flat_map(|leb| leb.nodes.iter().map(|node| node.stored))
    }
}
