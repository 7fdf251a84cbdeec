//! LEB properties against what is in the LEBs, and the master node against both, as of the last commit.

use sim::Cx;
use sim::seam::LebVolume;

use super::{Class, Report, Severity};
use crate::ubifs::error::Result;
use crate::ubifs::index::{Index, Met};
use crate::ubifs::lprops::{self, Lprops, dead_and_dark};
use crate::ubifs::media::lpt::LebProps;
use crate::ubifs::media::{Master, SuperBlock, aligned};
use crate::ubifs::mount::Mounted;
use crate::ubifs::nodes::Nodes;
use crate::ubifs::read::Reader;

/// Bytes in use, by LEB of the main area.
struct Used {
    index: Vec<u32>,
    other: Vec<u32>,
}

pub(super) fn check<V: LebVolume>(reader: &mut Reader<V>, cx: &mut Cx, report: &mut Report) -> Result<()> {
    let (nodes, mounted, _) = reader.parts();
    let Mounted { sb, master, is_unclean, .. } = mounted;
    let main = sb.main_first();
    let count = sb.main_lebs() as usize;
    let add = |sum: &mut u32, len| *sum = sum.saturating_add(aligned(len));
    let mut used = Used { index: vec![0; count], other: vec![0; count] };
    let mut is_whole = true;
    Index::new(sb, master).walk(nodes, cx, |_, _, met| {
        match met {
            // Branches that overlap may add up to more than a number holds.
            Met::Node(branch) => add(&mut used.index[(branch.lnum - main) as usize], branch.len),
            Met::Leaf(branch) => add(&mut used.other[(branch.lnum - main) as usize], branch.len),
            Met::Misplaced(_) => {}
            Met::Damaged(..) => is_whole = false,
        }
        Ok(())
    })?;
    let props = lprops::read(nodes, cx, sb, master)?;
    for error in &props.damaged {
        report.damage(Class::Space, error);
    }
    for ((entry, &used), lnum) in props.ltab.iter().zip(&props.used).zip(sb.lpt_first()..) {
        let expected = sb.leb_bytes - entry.dirty - entry.free;
        if used != expected && props.damaged.is_empty() {
            let what = format!("the LPT counts {expected} bytes in use, found {used}");
            report.find(Severity::Warning, Class::Space, Some((lnum, 0)), what);
        }
    }
    if !is_whole || !props.damaged.is_empty() {
        return Ok(());
    }
    lebs(nodes, cx, sb, master, *is_unclean, &props, &used, report)?;
    totals(sb, master, &props, &used, report);
    Ok(())
}

/// Each LEB: what the index uses in it, and whether what is free was never written.
#[allow(clippy::too_many_arguments, reason = "what a check compares")]
fn lebs<V: LebVolume>(
    nodes: &mut Nodes<V>,
    cx: &mut Cx,
    sb: &SuperBlock,
    master: &Master,
    is_unclean: bool,
    props: &Lprops,
    used: &Used,
    report: &mut Report,
) -> Result<()> {
    let severity = if is_unclean { Severity::Warning } else { Severity::Error };
    for (at, props) in props.lebs.iter().enumerate() {
        let LebProps { free, dirty, is_index } = *props;
        let lnum = sb.main_first() + at as u32;
        let (of_index, of_others) = (used.index[at], used.other[at]);
        let place = Some((lnum, 0));
        if of_index > 0 && of_others > 0 {
            report.find(Severity::Error, Class::Space, place, "nodes of the index and others in one LEB");
        }
        if of_index > 0 && !is_index || of_others > 0 && is_index {
            let (has, flag) = if is_index { ("none", "has") } else { ("nodes of the index", "lacks") };
            let what = format!("it {flag} the flag of an index LEB, and holds {has}");
            report.find(severity, Class::Space, place, what);
        }
        let counted = sb.leb_bytes - free - dirty;
        let found = of_index.saturating_add(of_others);
        if counted != found {
            let what = format!(
                "LEB properties count {counted} bytes in use ({free} free, {dirty} dirty), the index uses {found}"
            );
            report.find(severity, Class::Space, place, what);
        }
        // A LEB without used bytes may hold anything; so may the end of an index LEB after writes into its gaps. The journal
        // goes on in the LEB of a head.
        let is_scanned = found > 0 && free > 0 && !is_unclean && (!is_index || lnum == master.index_head_lnum);
        if is_scanned {
            let end = nodes.leb(cx, lnum, sb.leb_bytes - free)?;
            if let Some(written) = end.iter().position(|&byte| byte != 0xff) {
                let what = format!(
                    "byte {} is written, though {free} bytes at the end count as free",
                    written as u32 + sb.leb_bytes - free
                );
                report.find(severity, Class::Space, place, what);
            }
        }
    }
    Ok(())
}

/// The totals of the master node.
fn totals(sb: &SuperBlock, master: &Master, props: &Lprops, used: &Used, report: &mut Report) {
    let mut sum = Master { lebs: sb.lebs, ..Master::default() };
    for &LebProps { free, dirty, is_index } in &props.lebs {
        sum.total_free += u64::from(free);
        sum.total_dirty += u64::from(dirty);
        sum.empty_lebs += u32::from(free == sb.leb_bytes);
        sum.index_lebs += u32::from(is_index);
        if !is_index {
            sum.total_used += u64::from(sb.leb_bytes - free - dirty);
            let (dead, dark) = dead_and_dark(free + dirty, sb.min_io_bytes);
            sum.total_dead += u64::from(dead);
            sum.total_dark += u64::from(dark);
        }
    }
    sum.index_bytes = used.index.iter().map(|&bytes| u64::from(bytes)).sum();
    let fields = |master: &Master| {
        [
            ("total_free", master.total_free),
            ("total_dirty", master.total_dirty),
            ("total_used", master.total_used),
            ("total_dead", master.total_dead),
            ("total_dark", master.total_dark),
            ("empty_lebs", master.empty_lebs.into()),
            ("idx_lebs", master.index_lebs.into()),
            ("index_size", master.index_bytes),
        ]
    };
    for ((what, counted), (_, found)) in fields(master).into_iter().zip(fields(&sum)) {
        if counted != found {
            let what = format!("{what} = {counted}, expected {found} of the LEB properties and the index");
            report.find(Severity::Warning, Class::Master, None, what);
        }
    }
}
