//! One inode in memory: its live nodes by version, and which node has which of its bytes.
//!
//! Knows what nodes say of contents. Does not know the flash.
//!
//! Invariants ([`File::check`]): extents do not overlap and are within the size; a node holds as many bytes as its extents
//! have; the last byte of a file is in an extent, because a size without data is nowhere on the flash.

use std::collections::BTreeMap;

use sim::seam::FileType;

use super::log::ChunkId;
use super::media::RawInode;

/// A live node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Node {
    /// Where it lives.
    pub chunk: ChunkId,
    /// Whether it has the name.
    pub named: bool,
    /// Where it changes the contents.
    pub offset: u32,
    /// Bytes that it removes there.
    pub removed: u32,
    /// Bytes of its data that are part of the file.
    pub held: u32,
    /// Where its data are on the flash.
    pub data_at: u32,
}

/// Bytes of a file that one node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub bytes: u32,
    pub version: u32,
    /// Where they are on the flash.
    pub at: u32,
}

/// An inode.
#[derive(Clone, Debug)]
pub(super) struct File {
    pub pino: u32,
    pub mode: u32,
    pub uid: u16,
    pub gid: u16,
    pub atime: u32,
    pub mtime: u32,
    /// On the flash: of the creation, or of the last change of attributes.
    pub ctime: u32,
    /// What `stat` says, until the next mount forgets it: times of the last change of the contents, and of anything.
    pub shown: (u32, u32),
    pub nlink: u8,
    pub name: Vec<u8>,
    pub deleted: bool,
    pub opens: u32,
    pub size: u32,
    pub highest: u32,
    pub nodes: BTreeMap<u32, Node>,
    pub extents: BTreeMap<u32, Extent>,
    /// Of a directory: inodes by name.
    pub entries: BTreeMap<Vec<u8>, u32>,
    /// Of a directory: names by cookie.
    pub order: BTreeMap<u64, Vec<u8>>,
    /// Its cookie in its directory.
    pub cookie: u64,
}

/// What a change of contents came to.
#[derive(Debug, Default)]
pub(super) struct Changed {
    /// Chunks of nodes that hold nothing any more.
    pub obsolete: Vec<ChunkId>,
    /// Elements of the list of extents that a search from its beginning visits.
    pub visited: u64,
}

impl File {
    /// An inode of which nothing is known but what `raw` says, without its nodes.
    pub fn new(raw: &RawInode, name: &[u8]) -> File {
        let mut file = File {
            pino: 0,
            mode: 0,
            uid: 0,
            gid: 0,
            atime: 0,
            mtime: 0,
            ctime: 0,
            shown: (0, 0),
            nlink: raw.nlink,
            name: Vec::new(),
            deleted: false,
            opens: 0,
            size: 0,
            highest: 0,
            nodes: BTreeMap::new(),
            extents: BTreeMap::new(),
            entries: BTreeMap::new(),
            order: BTreeMap::new(),
            cookie: 0,
        };
        file.learn(raw, name);
        file
    }

    /// Takes over what its newest node says.
    pub fn learn(&mut self, raw: &RawInode, name: &[u8]) {
        self.pino = raw.pino;
        self.mode = raw.mode;
        (self.uid, self.gid) = (raw.uid, raw.gid);
        (self.atime, self.mtime, self.ctime) = (raw.atime, raw.mtime, raw.ctime);
        self.deleted |= raw.deleted;
        if raw.name_bytes > 0 {
            self.name = name.to_vec();
        }
    }

    /// The raw inode of a node that changes nothing, its version and sums left out.
    pub fn raw(&self, ino: u32) -> RawInode {
        RawInode {
            ino,
            pino: self.pino,
            mode: self.mode,
            uid: self.uid,
            gid: self.gid,
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
            name_bytes: self.name.len() as u8,
            nlink: self.nlink,
            deleted: self.deleted,
            accurate: 0xff,
            ..RawInode::default()
        }
    }

    /// Its type; what no type of Linux has is a regular file.
    pub fn file_type(&self) -> FileType {
        const TYPE_BITS: u32 = 0o170_000;
        let of_mode = |file_type: &FileType| file_type.mode_bits() == self.mode & TYPE_BITS;
        FileType::ALL.into_iter().find(of_mode).unwrap_or(FileType::Regular)
    }

    pub fn is_dir(&self) -> bool {
        self.file_type() == FileType::Directory
    }

    /// Adds a node of `data` bytes to the list of versions. Its contents are not part of the file until
    /// [`apply`](File::apply).
    pub fn add(&mut self, raw: &RawInode, chunk: ChunkId, data_at: u32) {
        let data = if raw.renames { 0 } else { raw.data_bytes };
        let named = raw.name_bytes > 0;
        let node = Node { chunk, named, offset: raw.offset, removed: raw.removed_bytes, held: data, data_at };
        self.nodes.insert(raw.version, node);
        self.highest = self.highest.max(raw.version);
    }

    /// Removes and inserts what a node says.
    pub fn apply(&mut self, version: u32) -> Changed {
        let node = self.nodes[&version];
        let mut changed = Changed::default();
        if node.removed == 0 && node.held == 0 {
            return changed;
        }
        let is_append = node.offset == self.size;
        if !is_append {
            // Once to find what goes, and once to find where the new data belong.
            let searches = 1 + u64::from(node.held > 0);
            changed.visited = searches * self.extents.range(..node.offset).count() as u64;
        }
        let removed = node.removed.min(self.size.saturating_sub(node.offset));
        if removed > 0 {
            self.cut(node.offset, node.offset + removed, &mut changed);
        }
        if removed != node.held {
            self.shift(node.offset + removed, i64::from(node.held) - i64::from(removed));
        }
        self.size = match node.held {
            0 => self.size - removed,
            held => self.size.max(node.offset) - removed + held,
        };
        if node.held > 0 {
            let extent = Extent { bytes: node.held, version, at: node.data_at };
            self.extents.insert(node.offset, extent);
            if !is_append {
                // What follows is looked at twice, because its offsets may change.
                changed.visited += 2 * self.extents.range(node.offset..).count() as u64;
            }
        }
        changed
    }

    /// Takes bytes `from..to` out of the extents.
    fn cut(&mut self, from: u32, to: u32, changed: &mut Changed) {
        let first = self.extents.range(..from).next_back().filter(|(at, extent)| *at + extent.bytes > from);
        let first = first.map_or(from, |(at, _)| *at);
        let within: Vec<(u32, Extent)> = self.extents.range(first..to).map(|(at, extent)| (*at, *extent)).collect();
        for (at, extent) in within {
            changed.visited += 1;
            let end = at + extent.bytes;
            self.extents.remove(&at);
            if at < from {
                self.extents.insert(at, Extent { bytes: from - at, ..extent });
            }
            if end > to {
                let rest = Extent { bytes: end - to, at: extent.at + (to - at), ..extent };
                self.extents.insert(to, rest);
            }
            let lost = end.min(to) - at.max(from);
            let node = self.nodes.get_mut(&extent.version).expect("an extent has a node");
            node.held -= lost;
            if node.held == 0 {
                changed.obsolete.push(node.chunk);
                self.nodes.remove(&extent.version);
            }
        }
    }

    /// Moves what begins at `from` or later.
    fn shift(&mut self, from: u32, by: i64) {
        let moved = self.extents.split_off(&from);
        self.extents.extend(moved.into_iter().map(|(at, extent)| ((i64::from(at) + by) as u32, extent)));
    }

    /// Forgets nodes that say nothing which a later one does not say. Returns their chunks.
    ///
    /// A node without data is not needed if a later one has all it has: the newest has the attributes, and the name if it
    /// has one. A node that removes contents is not needed if none is older, as long as the name is in a later one.
    pub fn forget_redundant(&mut self) -> Vec<ChunkId> {
        let mut newer = self.nodes.iter().rev();
        let Some((_, newest)) = newer.next() else { return Vec::new() };
        let newest_named = newest.named;
        let oldest = *self.nodes.keys().next().expect("there is a newest");
        let mut named_later = newest_named;
        let mut redundant = Vec::new();
        for (&version, node) in newer {
            let says_attributes_only = node.held == 0 && node.removed == 0;
            let removes_nothing = node.held == 0 && node.removed > 0 && version == oldest && named_later;
            if says_attributes_only && (!node.named || newest_named) || removes_nothing {
                redundant.push(version);
            } else {
                named_later |= node.named;
            }
        }
        redundant.iter().map(|version| self.nodes.remove(version).expect("just seen").chunk).collect()
    }

    /// Where the data of a node begin in the file: what garbage collection rewrites from there on.
    pub fn begins(&self, version: u32) -> u32 {
        let own = self.extents.iter().find(|(_, extent)| extent.version == version);
        own.map_or(self.nodes[&version].offset, |(at, _)| *at)
    }

    /// Bytes of data from `offset` on without a hole.
    pub fn data_from(&self, offset: u32) -> u32 {
        let mut end = offset;
        let holding = self.extents.range(..=offset).next_back().filter(|(at, extent)| *at + extent.bytes > offset);
        for (at, extent) in self.extents.range(holding.map_or(offset, |(at, _)| *at)..) {
            if *at > end {
                break;
            }
            end = at + extent.bytes;
        }
        end - offset
    }

    /// Extents that have a part of `from..to`, and how many come before them.
    pub fn extents_in(&self, from: u32, to: u32) -> (u64, Vec<(u32, Extent)>) {
        let before = self.extents.range(..from).count() as u64;
        let holding = self.extents.range(..from).next_back().filter(|(at, extent)| *at + extent.bytes > from);
        let first = holding.map_or(from, |(at, _)| *at);
        (before, self.extents.range(first..to).map(|(at, extent)| (*at, *extent)).collect())
    }

    /// Holds what must always hold. Panics where it does not.
    pub fn check(&self, ino: u32) {
        let mut held: BTreeMap<u32, u32> = BTreeMap::new();
        let mut end = 0;
        for (&at, extent) in &self.extents {
            assert!(at >= end && extent.bytes > 0, "inode {ino}: extents overlap at {at}");
            end = at + extent.bytes;
            *held.entry(extent.version).or_default() += extent.bytes;
        }
        assert_eq!(end, self.size, "inode {ino}: the last byte is no data");
        for (version, node) in &self.nodes {
            assert_eq!(held.remove(version).unwrap_or_default(), node.held, "inode {ino}, version {version}");
        }
        assert!(held.is_empty(), "inode {ino}: data of no node");
        assert!(self.nodes.keys().all(|version| *version <= self.highest));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file, and the number of its next node.
    struct Writer(File, u32);

    impl Writer {
        fn new() -> Writer {
            Writer(File::new(&RawInode { mode: 0o100_644, nlink: 1, ..RawInode::default() }, b""), 0)
        }

        /// A node that removes and inserts; returns how many nodes became obsolete.
        fn node(&mut self, offset: u32, removed_bytes: u32, data_bytes: u32) -> usize {
            self.1 += 1;
            let (version, name_bytes) = (self.1, 1);
            let raw = RawInode { version, offset, removed_bytes, data_bytes, name_bytes, ..RawInode::default() };
            self.0.add(&raw, version.into(), version * 1000);
            let obsolete = self.0.apply(version).obsolete.len() + self.0.forget_redundant().len();
            self.0.check(1);
            obsolete
        }

        /// Offset, length, and place on the flash of all contents.
        fn contents(&self) -> Vec<(u32, u32, u32)> {
            self.0.extents.iter().map(|(at, extent)| (*at, extent.bytes, extent.at)).collect()
        }
    }

    #[test]
    fn a_write_into_the_middle_splits_a_node_and_a_write_over_both_parts_ends_it() {
        let mut file = Writer::new();
        assert_eq!(file.node(0, 0, 100), 0);
        assert_eq!(file.node(40, 20, 20), 0);
        assert_eq!(file.contents(), [(0, 40, 1000), (40, 20, 2000), (60, 40, 1060)]);
        assert_eq!((file.0.begins(1), file.0.data_from(10)), (0, 90));
        assert_eq!(file.node(0, 40, 40), 0);
        assert_eq!(file.0.begins(1), 60);
        assert_eq!(file.node(60, 40, 50), 1, "the first node holds nothing");
        assert_eq!((file.0.size, file.0.nodes.len()), (110, 3));
    }

    #[test]
    fn what_a_node_removes_moves_up_what_follows() {
        let mut file = Writer::new();
        file.node(0, 0, 30);
        file.node(30, 0, 30);
        assert_eq!(file.node(10, 30, 5), 0);
        assert_eq!(file.contents(), [(0, 10, 1000), (10, 5, 3000), (15, 20, 2010)]);
        assert_eq!(file.0.size, 35);
    }

    #[test]
    fn a_removal_is_needed_as_long_as_an_older_node_is_there() {
        let mut file = Writer::new();
        file.node(0, 0, 100);
        assert_eq!(file.node(50, 50, 0), 0);
        assert_eq!(file.node(50, 0, 10), 0);
        assert_eq!((file.0.size, file.0.nodes.len()), (60, 3));
        // The first is rewritten; then nothing is older than the removal.
        assert_eq!(file.node(0, 50, 50), 2);
        assert_eq!(file.0.nodes.keys().collect::<Vec<_>>(), [&3, &4]);
    }

    #[test]
    fn data_beyond_the_end_leave_a_hole() {
        let mut file = Writer::new();
        file.node(100, 0, 10);
        assert_eq!((file.0.size, file.0.data_from(0), file.0.data_from(100)), (110, 0, 10));
        assert_eq!(file.0.extents_in(0, 50), (0, vec![]));
        assert_eq!(file.0.extents_in(105, 200).1.len(), 1);
    }

    #[test]
    fn attributes_are_those_of_the_newest_node_alone() {
        let mut file = Writer::new();
        assert_eq!(file.node(0, 0, 0), 0);
        assert_eq!(file.node(0, 0, 0), 1);
        assert_eq!(file.node(0, 0, 10), 1);
        assert_eq!(file.node(0, 0, 0), 0, "the data are needed");
    }

    /// A node that has the only name stays, whatever else it says.
    #[test]
    fn the_last_node_with_a_name_is_needed() {
        let left = |nodes: &[RawInode]| {
            let mut file = File::new(&RawInode { mode: 0o100_644, ..RawInode::default() }, b"");
            for (raw, version) in nodes.iter().zip(1..) {
                file.add(&RawInode { version, ..*raw }, version.into(), 0);
                file.apply(version);
            }
            file.forget_redundant();
            file.nodes.into_keys().collect::<Vec<_>>()
        };
        let (plain, named) = (RawInode::default(), RawInode { name_bytes: 1, ..RawInode::default() });
        let removal = |raw: RawInode| RawInode { removed_bytes: 10, ..raw };
        assert_eq!(left(&[named, plain]), [1, 2]);
        assert_eq!(left(&[plain, named]), [2]);
        assert_eq!(left(&[removal(named), plain]), [1, 2]);
        assert_eq!(left(&[removal(named), named]), [2]);
        assert_eq!(left(&[removal(plain), named]), [2]);
    }
}
