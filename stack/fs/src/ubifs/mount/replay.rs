//! Replay: the nodes of the buds, applied to the index in the order of their sequence numbers.

use std::collections::BTreeMap;

use sim::Cx;
use sim::seam::LebVolume;

use super::log::{Bud, Log};
use crate::ubifs::error::{Result, UbifsError};
use crate::ubifs::index::Index;
use crate::ubifs::media::{
    BLOCK_BYTES, Branch, DataNode, DentNode, InodeNode, Key, KeyType, MAX_BLOCK, MediaError, NodeType, SuperBlock,
    TruncationNode, aligned,
};
use crate::ubifs::nodes::Nodes;
use crate::ubifs::scan::{Found, Recovery, scan};

/// Journal head of garbage collection, whose nodes come in no groups.
const GC_HEAD: u32 = 0;

/// What a bud holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudUse {
    /// The LEB.
    pub lnum: u32,
    /// Where the journal begins in it.
    pub start: u32,
    /// Where it ends.
    pub end: u32,
    /// Journal head.
    pub head: u32,
    /// Bytes of nodes in between that put something.
    pub used: u32,
    /// Where the last node ends, if a power cut left something after it.
    pub torn_at: Option<u32>,
}

/// What the journal held.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    /// The buds, in the order of the log.
    pub buds: Vec<BudUse>,
    /// Nodes replayed.
    pub nodes: u64,
    /// Greatest sequence number among them.
    pub max_sqnum: u64,
    /// Greatest inode number among them.
    pub highest_ino: u32,
    /// Sizes of files whose inode was not written before power was lost, as their data say.
    pub sizes: BTreeMap<u32, u64>,
    /// What is known of the sizes of inodes with nodes in the journal.
    seen: BTreeMap<u32, Sizes>,
}

/// Sizes of a file, from the journal.
#[derive(Clone, Copy, Debug, Default)]
struct Sizes {
    /// As the last inode node says, if there is one.
    inode: Option<u64>,
    /// As the data nodes say.
    data: u64,
}

/// What a node of the journal does.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// The inode or data node becomes the leaf of its key. `size` is the file's size, as it says.
    Put { size: u64 },
    /// The inode is deleted.
    RemoveInode,
    /// The entry is put, or removed. Its name is a range of the names.
    Entry { name: (u32, u16), is_removed: bool },
    /// The file was cut.
    Truncate { old: u64, new: u64 },
}

struct Entry {
    sqnum: u64,
    branch: Branch,
    change: Change,
}

struct Replay {
    entries: Vec<Entry>,
    names: Vec<u8>,
}

pub(in crate::ubifs) fn replay<V: LebVolume>(
    nodes: &mut Nodes<V>,
    cx: &mut Cx,
    sb: &SuperBlock,
    index: &mut Index,
    log: &Log,
    is_unclean: bool,
) -> Result<Journal> {
    let mut journal = Journal::default();
    let mut replay = Replay { entries: Vec::new(), names: Vec::new() };
    for bud in &log.buds {
        let recovery = match (is_unclean && bud.is_last, bud.head) {
            (false, _) => Recovery::None,
            (true, GC_HEAD) => Recovery::WholeUnits,
            (true, _) => Recovery::Groups,
        };
        let Bud { lnum, start, head, .. } = *bud;
        if start == sb.leb_bytes {
            journal.buds.push(BudUse { lnum, start, end: start, head, used: 0, torn_at: None });
            continue;
        }
        let leb = nodes.leb(cx, bud.lnum, 0)?;
        let found = scan(leb, bud.lnum, bud.start, sb.min_io_bytes, recovery)?;
        let mut used = 0;
        for node in &found.nodes {
            journal.max_sqnum = journal.max_sqnum.max(node.header.sqnum);
            let is_put = replay.add(leb, bud, node)?;
            journal.highest_ino = journal.highest_ino.max(replay.last_ino());
            if is_put {
                used += aligned(node.header.len);
            }
        }
        // A unit that was torn may read as if it were empty: the last LEB of a head is written anew in any case.
        let torn_at = (recovery != Recovery::None).then_some(found.nodes_end);
        journal.buds.push(BudUse { lnum, start, end: found.end, head, used, torn_at });
    }
    replay.entries.sort_by_key(|entry| entry.sqnum);
    journal.nodes = replay.entries.len() as u64;
    // An inode that is deleted and linked again later must keep its data.
    let mut last_inode = BTreeMap::new();
    for entry in &replay.entries {
        match entry.change {
            Change::Put { .. } if entry.branch.key.key_type() == Some(KeyType::Inode) => {
                last_inode.insert(entry.branch.key.ino(), true);
            }
            Change::RemoveInode => {
                last_inode.insert(entry.branch.key.ino(), false);
            }
            _ => {}
        }
    }
    for &Entry { branch, change, .. } in &replay.entries {
        let ino = branch.key.ino();
        match change {
            Change::Put { size } => {
                index.put(nodes, cx, branch)?;
                let seen = journal.seen.entry(ino).or_default();
                match branch.key.key_type() {
                    Some(KeyType::Data) => seen.data = seen.data.max(size),
                    _ => seen.inode = Some(size),
                }
            }
            Change::RemoveInode => {
                if !last_inode[&ino] {
                    index.remove_inode(nodes, cx, ino, true, |_| {})?;
                }
                journal.seen.remove(&ino);
            }
            Change::Entry { name: (at, len), is_removed } => {
                let name = &replay.names[at as usize..][..len.into()];
                if is_removed {
                    index.remove_named(nodes, cx, branch.key, name, true)?;
                } else {
                    index.put_named(nodes, cx, branch, name, true)?;
                }
            }
            Change::Truncate { old, new } => {
                if let Some(range) = cut_blocks(ino, old, new) {
                    index.remove_range(nodes, cx, range, |_| {})?;
                }
                if let Some(seen) = journal.seen.get_mut(&ino) {
                    seen.data = new;
                }
            }
        }
    }
    Ok(journal)
}

/// Keys of the blocks that a truncation from `old` to `new` bytes removes.
pub(in crate::ubifs) fn cut_blocks(ino: u32, old: u64, new: u64) -> Option<(Key, Key)> {
    let block = |blocks: u64| u32::try_from(blocks).unwrap_or(MAX_BLOCK).min(MAX_BLOCK);
    let first = new.div_ceil(BLOCK_BYTES.into());
    let last = old.div_ceil(BLOCK_BYTES.into()).checked_sub(1)?;
    (first <= last).then(|| (Key::data(ino, block(first)), Key::data(ino, block(last))))
}

impl Replay {
    /// Inode of the node that was added last.
    fn last_ino(&self) -> u32 {
        self.entries.last().map_or(0, |entry| entry.branch.key.ino())
    }

    /// Adds a node. Returns whether it puts something; else it is dirt.
    fn add(&mut self, leb: &[u8], bud: &Bud, found: &Found) -> Result<bool> {
        let node = found.of(leb);
        let Found { offset, header } = *found;
        let error = |error| UbifsError::node(bud.lnum, offset, header.node_type.name(), error);
        let (key, change) = match header.node_type {
            NodeType::Inode => {
                let inode = InodeNode::decode(node).map_err(error)?;
                let change = if inode.nlink == 0 { Change::RemoveInode } else { Change::Put { size: inode.size } };
                (inode.key, change)
            }
            NodeType::Data => {
                let data = DataNode::decode(node).map_err(error)?;
                let size = u64::from(data.key.low()) * u64::from(BLOCK_BYTES) + u64::from(data.size);
                (data.key, Change::Put { size })
            }
            NodeType::Dent | NodeType::Xent => {
                let entry = DentNode::decode(node).map_err(error)?;
                let expected = if header.node_type == NodeType::Xent { KeyType::Xent } else { KeyType::Dent };
                if entry.key.key_type() != Some(expected) {
                    let found = entry.key.key_type().map_or(u64::MAX, |found| found as u64);
                    return Err(error(MediaError::Field { what: "key type", found, expected: "that of the node" }));
                }
                let name = (self.names.len() as u32, entry.name.len() as u16);
                self.names.extend_from_slice(entry.name);
                (entry.key, Change::Entry { name, is_removed: entry.ino == 0 })
            }
            NodeType::Truncation => {
                let TruncationNode { ino, old_size: old, new_size: new } = TruncationNode::decode(node);
                let most = u64::from(MAX_BLOCK + 1) * u64::from(BLOCK_BYTES);
                if old > most || new >= old {
                    let expected = "more than the new size, and at most 2 TiB";
                    return Err(error(MediaError::Field { what: "old_size", found: old, expected }));
                }
                (Key::inode(ino), Change::Truncate { old, new })
            }
            other => {
                let what = format!("{} in a bud", other.name());
                return Err(UbifsError::corrupt(bud.lnum, offset, what));
            }
        };
        let branch = Branch { key, lnum: bud.lnum, offset, len: header.len };
        self.entries.push(Entry { sqnum: header.sqnum, branch, change });
        Ok(matches!(change, Change::Put { .. } | Change::Entry { is_removed: false, .. }))
    }
}

/// Gives files whose data were written, but not their inode, the size that the data say, and removes data without an
/// inode.
pub(in crate::ubifs) fn fix_sizes<V: LebVolume>(
    nodes: &mut Nodes<V>,
    cx: &mut Cx,
    index: &mut Index,
    journal: &mut Journal,
) -> Result<()> {
    for (ino, Sizes { inode, data }) in std::mem::take(&mut journal.seen) {
        let size = match inode {
            Some(size) => size,
            None => match index.find(nodes, cx, Key::inode(ino))? {
                None => {
                    index.remove_inode(nodes, cx, ino, true, |_| {})?;
                    continue;
                }
                Some((_, branch)) => {
                    let node = nodes.node(cx, &branch, NodeType::Inode)?;
                    let error = |error| UbifsError::node(branch.lnum, branch.offset, "inode node", error);
                    InodeNode::decode(node).map_err(error)?.size
                }
            },
        };
        if size < data {
            journal.sizes.insert(ino, data);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_truncation_removes_whole_blocks_behind_the_new_end() {
        let blocks = |first, last| Some((Key::data(7, first), Key::data(7, last)));
        for (old, new, expected) in [
            (8193, 4097, blocks(2, 2)),
            (8192, 4096, blocks(1, 1)),
            (8192, 0, blocks(0, 1)),
            (4097, 4096, blocks(1, 1)),
            (4096, 4095, None),
            (1, 0, blocks(0, 0)),
        ] {
            assert_eq!(cut_blocks(7, old, new), expected, "{old} to {new}");
        }
    }
}
