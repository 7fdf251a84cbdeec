//! Reading the log: which LEBs are buds.
//!
//! The log begins in the LEB that the master node names with the commit start node of its commit, and goes on in a
//! circle, as far as sequence numbers are not less than that node's.

use sim::Cx;
use sim::seam::LebVolume;

use crate::ubifs::error::{Result, UbifsError};
use crate::ubifs::media::{LOG_LNUM, Master, NodeType, ReferenceNode, SuperBlock, commit_start};
use crate::ubifs::nodes::Nodes;
use crate::ubifs::scan::{Recovery, Scanned, scan};

/// A LEB of the main area with nodes that the index does not know yet.
#[derive(Clone, Copy, Debug)]
pub(in crate::ubifs) struct Bud {
    pub lnum: u32,
    /// Offset of the first of them.
    pub start: u32,
    pub head: u32,
    /// Whether no other bud of its head came later: only then can it be torn.
    pub is_last: bool,
}

pub(in crate::ubifs) struct Log {
    /// In the order in which they were added.
    pub buds: Vec<Bud>,
    pub max_sqnum: u64,
    /// LEB and offset where the next reference goes.
    pub head: (u32, u32),
    /// The last LEB, if a power cut left something in it.
    pub torn: Option<(u32, Scanned)>,
}

/// Number of journal heads: garbage collection, inodes and entries, data.
const HEADS: u32 = 3;

pub(in crate::ubifs) fn read<V: LebVolume>(
    nodes: &mut Nodes<V>,
    cx: &mut Cx,
    sb: &SuperBlock,
    master: &Master,
    is_unclean: bool,
) -> Result<Log> {
    let tail = master.log_lnum;
    let mut log = Log { buds: Vec::new(), max_sqnum: 0, head: (tail, 0), torn: None };
    let next = |lnum: u32| if lnum + 1 == LOG_LNUM + sb.log_lebs { LOG_LNUM } else { lnum + 1 };
    let mut started = None;
    let mut lnum = tail;
    loop {
        let leb = nodes.leb(cx, lnum, 0)?;
        let found = match scan(leb, lnum, 0, sb.min_io_bytes, Recovery::None) {
            Err(UbifsError::Leb(error)) => return Err(error.into()),
            Err(_) if is_unclean => {
                let found = scan(leb, lnum, 0, sb.min_io_bytes, Recovery::Tail)?;
                let leb = leb.to_vec();
                let after = next(lnum);
                if after != tail {
                    is_end(nodes, cx, sb, after, started.or(found.nodes.first().map(|node| node.header.sqnum)))?;
                }
                let is_found = take(&leb, lnum, &found, sb, master, &mut started, &mut log)?;
                if found.is_torn {
                    log.torn = Some((lnum, found));
                }
                is_found
            }
            found => take(leb, lnum, &found?, sb, master, &mut started, &mut log)?,
        };
        if !found {
            if lnum == tail {
                return Err(UbifsError::corrupt(lnum, 0, "the log does not begin with a commit start node"));
            }
            break;
        }
        lnum = next(lnum);
        if lnum == tail {
            break;
        }
    }
    for head in 0..HEADS {
        if let Some(bud) = log.buds.iter_mut().rev().find(|bud| bud.head == head) {
            bud.is_last = true;
        }
    }
    Ok(log)
}

/// Checks that the log ends before LEB `lnum`: only its last LEB can be torn.
fn is_end<V: LebVolume>(
    nodes: &mut Nodes<V>,
    cx: &mut Cx,
    sb: &SuperBlock,
    lnum: u32,
    started: Option<u64>,
) -> Result<()> {
    let found = scan(nodes.leb(cx, lnum, 0)?, lnum, 0, sb.min_io_bytes, Recovery::None)?;
    match found.nodes.first() {
        Some(node) if started.is_some_and(|started| node.header.sqnum > started) => {
            Err(UbifsError::corrupt(lnum, 0, "the log goes on after a LEB of it that is damaged"))
        }
        _ => Ok(()),
    }
}

/// Adds the buds of a LEB of the log. Returns whether it belongs to the log.
fn take(
    leb: &[u8],
    lnum: u32,
    found: &Scanned,
    sb: &SuperBlock,
    master: &Master,
    started: &mut Option<u64>,
    log: &mut Log,
) -> Result<bool> {
    let Some(first) = found.nodes.first() else { return Ok(false) };
    let wrong = |offset, what: &str| Err(UbifsError::corrupt(lnum, offset, format!("log: {what}")));
    if started.is_none() {
        if first.header.node_type != NodeType::CommitStart {
            return wrong(first.offset, "the first node is no commit start node");
        }
        let commit = commit_start(first.of(leb));
        if commit != master.commit {
            let what = format!("it begins with commit {commit}, expected {} of the master node", master.commit);
            return wrong(first.offset, &what);
        }
        *started = Some(first.header.sqnum);
    }
    let started = started.unwrap_or_default();
    if first.header.sqnum < started {
        // What an older log left.
        return Ok(false);
    }
    if first.offset != 0 {
        return wrong(first.offset, "the first node does not begin at offset 0");
    }
    for node in &found.nodes {
        if node.header.sqnum < started {
            return wrong(node.offset, "a node is older than the commit");
        }
        log.max_sqnum = log.max_sqnum.max(node.header.sqnum);
        match node.header.node_type {
            NodeType::CommitStart if node.offset == 0 => {}
            NodeType::Reference => {
                let ReferenceNode { lnum: bud, offset: start, head } = ReferenceNode::decode(node.of(leb));
                let in_main = (sb.main_first()..sb.lebs).contains(&bud);
                if !in_main || head >= HEADS || start > sb.leb_bytes || !start.is_multiple_of(sb.min_io_bytes) {
                    return wrong(node.offset, "a reference to no write unit of the main area, or of no journal head");
                }
                match log.buds.iter().find(|known| known.lnum == bud) {
                    None => log.buds.push(Bud { lnum: bud, start, head, is_last: false }),
                    Some(known) if known.head == head && known.start <= start => {}
                    Some(_) => return wrong(node.offset, "a second reference to a bud, of another head"),
                }
            }
            _ => return wrong(node.offset, "a node that is no reference"),
        }
    }
    log.head = (lnum, found.end);
    Ok(found.end != 0)
}
