//! What is known of a volume that keeps no bytes: its nodes, of inodes and entries with their bytes.
//!
//! So wear runs cost no copies, and the same code runs as with bytes: it reads nodes here that it would read from flash.
//! Index nodes that are not in memory cost a read, but their branches stay with the index.

use std::mem;

use super::media::{DataNode, Header, IndexNode, Key, NodeType, aligned};
use super::nodes::Stored;
use super::scan::{Recovery, scan};

/// A LEB: its nodes in order.
#[derive(Clone, Debug, Default)]
struct Leb {
    nodes: Vec<Stored>,
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

/// Bytes of the nodes of all LEBs, of a node and its copies once. The place of a node that is gone is that of the next as long, so
/// that memory does not grow with what each LEB has ever held.
#[derive(Clone, Debug, Default)]
struct Kept {
    /// By place, which counts eights of bytes. A vector that grew as one would be copied each time.
    chunks: Vec<Box<[u8]>>,
    /// Where the next new place is.
    end: usize,
    /// Free places by length, in eights of bytes.
    free: Vec<Vec<u32>>,
}

/// Eights of bytes in a chunk: several times the longest node.
const CHUNK: usize = 8192;
/// Bytes before those of a node that say how many nodes have them.
const HOLDERS: usize = 8;

impl Kept {
    fn eights(len: u32) -> usize {
        (HOLDERS + len as usize).div_ceil(8)
    }

    /// What is at a place, from the number of its holders on.
    fn at(&self, at: u32) -> &[u8] {
        &self.chunks[at as usize / CHUNK][at as usize % CHUNK * 8..]
    }

    fn at_mut(&mut self, at: u32) -> &mut [u8] {
        &mut self.chunks[at as usize / CHUNK][at as usize % CHUNK * 8..]
    }

    fn holders(&mut self, at: u32) -> &mut [u8; 4] {
        self.at_mut(at).first_chunk_mut().expect("a place has room for the number of its holders")
    }

    /// One node more, or less, has what is at a place. Returns how many do.
    fn count(&mut self, at: u32, change: i32) -> u32 {
        let holders = self.holders(at);
        let count = u32::from_ne_bytes(*holders).checked_add_signed(change).expect("a place has a holder");
        *holders = count.to_ne_bytes();
        count
    }

    fn keep(&mut self, bytes: &[u8]) -> u32 {
        let eights = Kept::eights(bytes.len() as u32);
        let at = self.free.get_mut(eights).and_then(Vec::pop).unwrap_or_else(|| self.place(eights));
        *self.holders(at) = 1_u32.to_ne_bytes();
        self.at_mut(at)[HOLDERS..][..bytes.len()].copy_from_slice(bytes);
        at
    }

    /// A place that had nothing yet. What a chunk has no room for begins the next.
    fn place(&mut self, eights: usize) -> u32 {
        if self.end % CHUNK + eights > CHUNK {
            self.end = self.end.next_multiple_of(CHUNK);
        }
        let at = self.end;
        self.end += eights;
        if self.chunks.len() * CHUNK < self.end {
            self.chunks.push(vec![0; CHUNK * 8].into());
        }
        at as u32
    }

    fn hold(&mut self, at: u32) {
        self.count(at, 1);
    }

    fn drop(&mut self, at: u32, len: u32) {
        if self.count(at, -1) > 0 {
            return;
        }
        let eights = Kept::eights(len);
        if self.free.len() <= eights {
            self.free.resize_with(eights + 1, Vec::new);
        }
        self.free[eights].push(at);
    }

    fn get(&self, at: u32, len: u32) -> &[u8] {
        &self.at(at)[HOLDERS..][..len as usize]
    }
}

/// The nodes of a volume.
#[derive(Clone, Debug)]
pub(super) struct Tags {
    lebs: Vec<Leb>,
    kept: Kept,
    /// LEBs as they were when the file system was made.
    images: Vec<Option<Box<[u8]>>>,
    count: usize,
}

impl Tags {
    /// Of a volume with so many LEBs, which are empty.
    pub fn new(lebs: u32) -> Tags {
        Tags { lebs: Vec::new(), kept: Kept::default(), images: Vec::new(), count: lebs as usize }
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
            // Its memory goes too: a LEB of the index has 20 times as many nodes as one of data, and each may become either.
            for node in mem::take(&mut leb.nodes).iter().filter(|node| is_kept(node.node_type)) {
                self.kept.drop(node.at, node.len);
            }
        }
        if let Some(image) = self.images.get_mut(lnum as usize) {
            *image = None;
        }
    }

    /// Notes a node, whose bytes are kept already if they are at all.
    pub fn note(&mut self, lnum: u32, stored: Stored) {
        if self.lebs.is_empty() {
            self.lebs.resize_with(self.count, Leb::default);
        }
        self.lebs[lnum as usize].insert(stored);
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
        let at = match node_type {
            NodeType::Data => DataNode::size_of(bytes),
            NodeType::Index => u32::MAX,
            _ => self.kept.keep(&bytes[..len as usize]),
        };
        self.note(lnum, Stored { key, offset, len, at, level, node_type });
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
    pub fn copy(&mut self, node: Stored, (to, offset): (u32, u32)) {
        if is_kept(node.node_type) {
            self.kept.hold(node.at);
        }
        self.note(to, Stored { offset, ..node });
    }

    /// The bytes of the inode or entry at this place.
    pub fn node(&self, lnum: u32, offset: u32) -> Option<&[u8]> {
        let node = self.lebs.get(lnum as usize)?.find(offset).filter(|node| is_kept(node.node_type))?;
        Some(self.kept.get(node.at, node.len))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ubifs::media::Group;

    const INODE: Header = Header { sqnum: 1, len: 160, node_type: NodeType::Inode, group: Group::None };
    const ENTRY: Header = Header { len: 61, node_type: NodeType::Dent, ..INODE };

    /// A node that is all `fill` but for its key.
    fn bytes(header: Header, fill: u8) -> Vec<u8> {
        let mut bytes = vec![fill; header.len as usize];
        let key = if header.node_type == NodeType::Dent { Key::dent(70, 1) } else { Key::inode(70) };
        key.encode(&mut bytes[24..]);
        bytes
    }

    /// A node that garbage collection has moved is there when the LEB that it came from is empty, and once more after that.
    #[test]
    fn a_copy_outlives_what_it_was_copied_from() {
        let mut tags = Tags::new(4);
        let inode = bytes(INODE, 7);
        tags.add(0, 64, INODE, &inode);
        for (from, to) in [(0, 1), (1, 2)] {
            tags.copy(tags.of(from)[0], (to, 8));
            tags.clear(from);
            assert_eq!(tags.node(from, 64), None);
            assert_eq!(tags.node(to, 8), Some(&inode[..]));
        }
        // Nothing that is written later takes its place.
        tags.add(3, 0, INODE, &bytes(INODE, 9));
        assert_eq!(tags.node(2, 8), Some(&inode[..]));
    }

    /// However often LEBs are written anew, with nodes of several lengths, memory is that of one time.
    #[test]
    fn the_place_of_a_node_that_is_gone_is_used_again() {
        let mut tags = Tags::new(2);
        for turn in 0..100 {
            for header in [INODE, ENTRY] {
                tags.add(turn % 2, header.len, header, &bytes(header, turn as u8));
            }
            assert_eq!(tags.node(turn % 2, ENTRY.len).map(<[u8]>::len), Some(61));
            tags.clear((turn + 1) % 2);
        }
        // Two LEBs at a time, of 160 bytes and of 61, which take 64, and 8 with each.
        assert_eq!(tags.kept.end * 8, 2 * (168 + 72));
    }

    /// By hand: a chunk of 65,536 bytes has 390 places of 168 bytes, and 16 bytes in which no other has room.
    #[test]
    fn a_node_that_has_no_room_in_a_chunk_is_in_the_next() {
        let mut tags = Tags::new(1);
        for number in 0..1000 {
            tags.add(0, number * 160, INODE, &bytes(INODE, number as u8));
        }
        assert!((0..1000).all(|number| tags.node(0, number * 160) == Some(&bytes(INODE, number as u8)[..])));
        assert_eq!((tags.kept.chunks.len(), tags.kept.end * 8), (3, 2 * 65_536 + 220 * 168));
    }
}
