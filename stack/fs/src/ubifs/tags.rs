//! What is known of a volume that keeps no bytes: its nodes, without the data of data nodes.
//!
//! So wear runs cost no copies, and the same code runs as with bytes: it reads nodes here that it would read from flash.

use super::media::{DataNode, Header, INDEX_HEADER_BYTES, NodeType, aligned};
use super::scan::{Found, Recovery, scan};

/// Bytes of an index node that are kept: its header and the key of its first branch.
const INDEX_BYTES: usize = INDEX_HEADER_BYTES + 20;

/// A node: where it is in the LEB, and where its bytes are kept.
#[derive(Clone, Copy, Debug)]
struct Node {
    offset: u32,
    header: Header,
    at: u32,
    kept: u32,
}

/// A LEB: its nodes in order.
#[derive(Clone, Debug, Default)]
struct Leb {
    nodes: Vec<Node>,
    bytes: Vec<u8>,
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
                self.add(lnum, found.offset, found.of(bytes));
            }
        }
    }

    /// Fills in what is known of the bytes of a LEB: its image, or nothing.
    pub fn read(&self, lnum: u32, offset: u32, bytes: &mut [u8]) {
        bytes.fill(0xff);
        if let Some(Some(image)) = self.images.get(lnum as usize) {
            let from = image.get(offset as usize..).unwrap_or_default();
            let len = from.len().min(bytes.len());
            bytes[..len].copy_from_slice(&from[..len]);
        }
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

    /// Adds a node, of which `bytes` may be only the header.
    pub fn add(&mut self, lnum: u32, offset: u32, bytes: &[u8]) {
        let header = Header::peek(bytes).expect("a node that was just made");
        let most = match header.node_type {
            NodeType::Data => DataNode::HEADER_BYTES,
            NodeType::Index => INDEX_BYTES,
            _ => header.len as usize,
        };
        let kept = &bytes[..most.min(bytes.len())];
        let leb = self.leb_mut(lnum);
        let node = Node { offset, header, at: leb.bytes.len() as u32, kept: kept.len() as u32 };
        leb.bytes.extend_from_slice(kept);
        let place = leb.nodes.partition_point(|other| other.offset < offset);
        leb.nodes.insert(place, node);
    }

    /// Adds nodes one after another, of which the last may lack its data. Returns the bytes that they take in the LEB.
    pub fn append(&mut self, lnum: u32, offset: u32, bytes: &[u8]) -> u32 {
        let mut at = 0;
        while at < bytes.len() {
            let Ok(header) = Header::peek(&bytes[at..]) else { break };
            self.add(lnum, offset + at as u32, &bytes[at..]);
            at += aligned(header.len) as usize;
        }
        at as u32
    }

    /// Bytes that are kept of the node at this place.
    pub fn node(&self, lnum: u32, offset: u32) -> Option<&[u8]> {
        let leb = self.lebs.get(lnum as usize)?;
        let place = leb.nodes.binary_search_by_key(&offset, |node| node.offset).ok()?;
        let Node { at, kept, .. } = leb.nodes[place];
        Some(&leb.bytes[at as usize..][..kept as usize])
    }

    /// The nodes of a LEB, and its bytes as far as they are kept; the others are zero.
    pub fn leb(&self, lnum: u32, leb_bytes: u32) -> (Vec<u8>, Vec<Found>) {
        let mut bytes = vec![0; leb_bytes as usize];
        let mut found = Vec::new();
        if let Some(leb) = self.lebs.get(lnum as usize) {
            for node in &leb.nodes {
                let kept = &leb.bytes[node.at as usize..][..node.kept as usize];
                bytes[node.offset as usize..][..kept.len()].copy_from_slice(kept);
                found.push(Found { offset: node.offset, header: node.header });
            }
        }
        (bytes, found)
    }
}
