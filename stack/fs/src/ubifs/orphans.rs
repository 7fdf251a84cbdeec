//! Orphans: inodes without a link that were open at a commit. They are listed in an area of their own, and deleted when the
//! file system is mounted after a power cut.

use sim::Cx;
use sim::seam::LebVolume;

use super::error::{Result, UbifsError};
use super::index::Index;
use super::media::{InodeNode, Key, NodeType, OrphanNode, SuperBlock};
use super::nodes::Nodes;
use super::scan::{Recovery, Scanned, scan};

/// Orphans that were found.
#[derive(Debug, Default)]
pub(super) struct Killed {
    /// Inodes that were removed.
    pub inos: Vec<u32>,
    /// LEB and offset where the next list goes; `None`: the area is empty.
    pub head: Option<(u32, u32)>,
    /// LEBs in which a power cut left something.
    pub torn: Vec<(u32, Scanned)>,
    /// The newest commit with a list.
    pub commit: u64,
}

/// Removes the orphans from the index.
///
/// A list of a commit that did not end counts too: an inode is an orphan if it is listed and has no link.
pub(super) fn kill<V: LebVolume>(
    nodes: &mut Nodes<V>,
    cx: &mut Cx,
    sb: &SuperBlock,
    index: &mut Index,
) -> Result<Killed> {
    let mut result = Killed::default();
    let mut inos: Vec<u32> = Vec::new();
    // The commit of the node before, and whether it was the last of that commit.
    let mut before = (0, false);
    'area: for lnum in sb.orphan_first()..sb.main_first() {
        let leb = nodes.leb(cx, lnum, 0)?;
        // The area is written during a commit, which the power cut may have interrupted.
        let found = scan(leb, lnum, 0, sb.min_io_bytes, Recovery::Tail)?;
        for (at, node) in found.nodes.iter().enumerate() {
            let offset = node.offset;
            let wrong = |what: String| UbifsError::corrupt(lnum, offset, what);
            if node.header.node_type != NodeType::Orphan {
                return Err(wrong(format!("{} in the orphan area", node.header.node_type.name())));
            }
            let orphans = OrphanNode::decode(node.of(leb));
            let orphans = orphans.map_err(|error| UbifsError::node(lnum, offset, "orphan node", error))?;
            if before.1 && orphans.commit < before.0 {
                match at {
                    // What an older commit left.
                    0 => break 'area,
                    _ => {
                        return Err(wrong(format!("orphans of commit {} after those of {}", orphans.commit, before.0)));
                    }
                }
            }
            before = (orphans.commit, orphans.is_last);
            result.commit = result.commit.max(orphans.commit);
            inos.extend(orphans.inos().filter_map(|ino| u32::try_from(ino).ok()));
        }
        if found.end > 0 {
            result.head = Some((lnum, found.end));
        }
        if found.is_torn {
            result.torn.push((lnum, found));
        }
    }
    inos.sort_unstable();
    inos.dedup();
    for ino in inos {
        // It may have been deleted, or linked again, since.
        let Some((_, branch)) = index.find(nodes, cx, Key::inode(ino))? else { continue };
        // Power may have failed in a recovery that had deleted the orphan and erased the LEB, and not committed yet.
        let is_orphan = match nodes.node(cx, &branch, NodeType::Inode) {
            Ok(node) => InodeNode::decode(node).is_ok_and(|inode| inode.nlink == 0),
            Err(UbifsError::Node { .. }) => true,
            Err(error) => return Err(error),
        };
        if is_orphan {
            index.remove_inode(nodes, cx, ino, true, |_| {})?;
            result.inos.push(ino);
        }
    }
    Ok(result)
}
