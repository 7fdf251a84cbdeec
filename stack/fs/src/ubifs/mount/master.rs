//! Finding the master node.
//!
//! It is appended to LEB 1, then to LEB 2; a LEB that is full is unmapped first. So after a power cut one of them may end
//! with garbage, lack the newest node, or be empty. The last valid node rules.

use sim::Cx;
use sim::seam::{LebVolume, is_erased};

use crate::ubifs::error::{Result, UbifsError};
use crate::ubifs::lprops::dead_and_dark;
use crate::ubifs::media::{
    Header, LOG_LNUM, MAGIC, MASTER_LNUMS, Master, NodeType, SuperBlock, lpt::LptGeometry, master_flags, u32_at,
};
use crate::ubifs::nodes::Nodes;

/// The master node that rules.
pub(in crate::ubifs) struct Found {
    pub master: Master,
    pub sqnum: u64,
    /// Its offset in the LEBs.
    pub offset: u32,
    /// Whether the two LEBs are not as a clean file system leaves them.
    pub is_recovered: bool,
}

/// The last master node of a LEB.
struct Last {
    master: Master,
    sqnum: u64,
    offset: u32,
    /// The node's bytes after its header.
    body: Vec<u8>,
}

struct Leb {
    last: Option<Last>,
    /// Whether there is garbage after it.
    is_torn: bool,
}

pub(in crate::ubifs) fn read<V: LebVolume>(nodes: &mut Nodes<V>, cx: &mut Cx, sb: &SuperBlock) -> Result<Found> {
    let step = (Master::BYTES as u32).next_multiple_of(sb.min_io_bytes);
    let [first, second] = MASTER_LNUMS;
    let one = read_leb(nodes.leb(cx, first, 0)?, first, step)?;
    let two = read_leb(nodes.leb(cx, second, 0)?, second, step)?;
    let leb_bytes = nodes.leb_bytes();
    let is_clean = !one.is_torn && !two.is_torn;
    let is_whole = !one.is_torn;
    let wrong = |what: &str| Err(UbifsError::Master { what: what.to_owned() });
    let (rules, agree) = match (one.last, two.last) {
        (None, None) => return wrong("neither LEB has a valid one"),
        // LEB 1 was unmapped, since it was full.
        (None, Some(two)) if two.offset + 2 * step <= leb_bytes => {
            return wrong("LEB 1 has none, though LEB 2 has room for another");
        }
        (None, Some(two)) => (two, false),
        (Some(one), _) if one.master.flags & master_flags::RECOVERY != 0 && one.offset == 0 && is_whole => (one, false),
        // LEB 2 was unmapped, and about to be written.
        (Some(one), None) if one.offset == 0 && is_whole => (one, false),
        (Some(_), None) => return wrong("LEB 2 has none, though LEB 1 has more than one"),
        (Some(one), Some(two)) if one.offset == two.offset => {
            if one.body != two.body {
                return wrong("the last ones of both LEBs differ");
            }
            (one, is_clean)
        }
        (Some(one), Some(two)) => {
            let appended = two.offset + step == one.offset;
            let begun = one.offset == 0 && two.offset + 2 * step > leb_bytes;
            if !appended && !begun || !is_whole {
                return wrong("LEB 2 is more than one node behind LEB 1, or before it");
            }
            (one, false)
        }
    };
    let Last { mut master, sqnum, offset, .. } = rules;
    master.flags &= !master_flags::RECOVERY;
    let wrong = |what: &str| UbifsError::corrupt(first, offset, format!("master node: {what}"));
    grow(&mut master, sb)
        .ok_or_else(|| wrong("leb_cnt is greater than that of the super block, or totals are too large"))?;
    check(&master, sb, sqnum).map_err(|what| UbifsError::corrupt(first, offset, format!("master node: {what}")))?;
    Ok(Found { master, sqnum, offset, is_recovered: !agree })
}

/// Counts the LEBs by which the file system has grown since the master node was written. `None` if it had more.
fn grow(master: &mut Master, sb: &SuperBlock) -> Option<()> {
    let growth = sb.lebs.checked_sub(master.lebs)?;
    let (_, dark) = dead_and_dark(sb.leb_bytes, sb.min_io_bytes);
    master.empty_lebs = master.empty_lebs.checked_add(growth)?;
    master.total_free = master.total_free.checked_add(u64::from(growth) * u64::from(sb.leb_bytes))?;
    master.total_dark = master.total_dark.checked_add(u64::from(growth) * u64::from(dark))?;
    master.lebs = sb.lebs;
    Some(())
}

/// The last valid node of a LEB. Errors: damage that is not at the end.
fn read_leb(leb: &[u8], lnum: u32, step: u32) -> Result<Leb> {
    let wrong = |what: &str| Err(UbifsError::Master { what: format!("LEB {lnum}: {what}") });
    let slots: Vec<&[u8]> = leb.chunks_exact(step as usize).collect();
    let begun = slots.iter().take_while(|slot| u32_at(slot, 0) == MAGIC).count();
    let whole = |at: usize| Header::expect(slots[at], NodeType::Master).ok();
    // One node may be torn.
    let last = (begun.saturating_sub(2)..begun).rev().find_map(|at| whole(at).map(|node| (at, node)));
    if last.is_none() && begun > 1 {
        return wrong("the last two nodes are damaged");
    }
    let after = last.as_ref().map_or(0, |(at, _)| at + 1);
    let is_torn = slots.get(after).is_some_and(|slot| !is_erased(slot));
    if !is_erased(leb.get((after + 1) * step as usize..).unwrap_or_default()) {
        return wrong("damage that a power cut does not explain: there are bytes after it");
    }
    let last = match last {
        None => None,
        Some((at, (header, node))) => {
            let offset = at as u32 * step;
            let error = |error| UbifsError::node(lnum, offset, "master node", error);
            let master = Master::decode(node).map_err(error)?;
            Some(Last { master, sqnum: header.sqnum, offset, body: node[24..].to_vec() })
        }
    };
    Ok(Leb { last, is_torn })
}

/// Errors: a field that Linux refuses. Source: Linux 6.12, `validate_master`.
fn check(master: &Master, sb: &SuperBlock, sqnum: u64) -> std::result::Result<(), String> {
    const WATERMARK: u64 = 0xffff_ffff_ff00_0000;
    let (main, lpt) = (sb.main_first()..sb.lebs, LptGeometry::new(sb));
    let lpt_area = sb.lpt_first()..sb.orphan_first();
    let in_lpt = |lnum, offset: u32, bytes: usize| {
        lpt_area.contains(&lnum) && u64::from(offset) + bytes as u64 <= u64::from(sb.leb_bytes)
    };
    let main_bytes = u64::from(sb.main_lebs()) * u64::from(sb.leb_bytes);
    let spaces = [master.total_free, master.total_dirty, master.total_used, master.total_dead, master.total_dark];
    // Each is at most the main area by then.
    let sum = |spaces: &[u64]| spaces.iter().sum::<u64>();
    let is_whole = |offset: u32| offset.is_multiple_of(sb.min_io_bytes) && offset <= sb.leb_bytes;
    let rules: [(bool, &str); 15] = [
        (sqnum < WATERMARK, "its sequence number is past the end of the file system's life"),
        (master.commit < sqnum, "cmt_no is not less than its sequence number"),
        (master.highest_ino < 0xffff_ff00, "highest_inum is past the last inode number"),
        ((LOG_LNUM..LOG_LNUM + sb.log_lebs).contains(&master.log_lnum), "log_lnum is not in the log"),
        (
            main.contains(&master.root_lnum)
                && master.root_offset < sb.leb_bytes
                && master.root_offset.is_multiple_of(8),
            "the root of the index is not in the main area",
        ),
        (main.contains(&master.gc_lnum), "gc_lnum is not in the main area"),
        (
            main.contains(&master.index_head_lnum) && is_whole(master.index_head_offset),
            "ihead is not a write unit of the main area",
        ),
        (master.index_bytes.is_multiple_of(8) && master.index_bytes < main_bytes, "index_size is no size of an index"),
        (in_lpt(master.lpt_lnum, master.lpt_offset, lpt.nnode_bytes()), "the root of the LPT is not in its area"),
        (
            lpt_area.contains(&master.lpt_head_lnum) && is_whole(master.lpt_head_offset),
            "nhead is not a write unit of the LPT area",
        ),
        (in_lpt(master.ltab_lnum, master.ltab_offset, lpt.ltab_bytes()), "ltab is not in the LPT area"),
        (
            !lpt.is_big || in_lpt(master.lsave_lnum, master.lsave_offset, lpt.lsave_bytes()),
            "lsave is not in the LPT area",
        ),
        (main.contains(&master.lscan_lnum), "lscan_lnum is not in the main area"),
        (
            master.empty_lebs <= sb.main_lebs() - 2 && master.index_lebs < sb.main_lebs(),
            "more empty LEBs, or LEBs of the index, than the main area has",
        ),
        (
            spaces.iter().all(|&bytes| bytes.is_multiple_of(8) && bytes <= main_bytes)
                && sum(&spaces[..3]) <= main_bytes
                && sum(&spaces[2..]).saturating_add(master.index_bytes) <= main_bytes
                && spaces[3..].iter().all(|&bytes| bytes <= spaces[0] + spaces[1]),
            "free, dirty and used bytes do not fit into the main area",
        ),
    ];
    match rules.into_iter().find(|&(holds, _)| !holds) {
        Some((_, what)) => Err(what.to_owned()),
        None => Ok(()),
    }
}
