//! Reading and checking the super block.

use sim::Cx;
use sim::seam::LebVolume;

use crate::ubifs::error::{Result, UbifsError};
use crate::ubifs::media::{Header, NodeType, SB_LNUM, SuperBlock, index_bytes, lpt::LptGeometry, sb_flags};
use crate::ubifs::nodes::Nodes;

/// Least LEBs of the log, the LPT, the orphan area and the main area.
const MIN_AREAS: [u32; 4] = [2, 2, 1, 9];
/// Least branches of an index node.
const MIN_FANOUT: u32 = 3;
/// Journal heads for data.
const DATA_HEADS: u32 = 1;
/// Numbers in the save table that need no check against the main area.
const DEFAULT_LSAVE: u32 = 256;

/// Reads the super block, as it is once the file system has grown to what the volume holds, which Linux lets it do at each
/// mount. Returns also the LEBs that it had before.
pub(in crate::ubifs) fn read<V: LebVolume>(nodes: &mut Nodes<V>, cx: &mut Cx) -> Result<(SuperBlock, u32)> {
    let len = nodes.leb_bytes().min(SuperBlock::BYTES as u32);
    let bytes = nodes.bytes(cx, SB_LNUM, 0, len)?;
    let (_, node) = Header::expect(bytes, NodeType::SuperBlock).map_err(UbifsError::NoSuperBlock)?;
    let mut sb = SuperBlock::decode(node).map_err(|error| UbifsError::node(SB_LNUM, 0, "super block", error))?;
    let lebs = sb.lebs;
    sb.lebs = lebs.max(sb.max_lebs.min(nodes.volume().lebs()));
    check(&sb, nodes.leb_bytes(), nodes.volume().lebs())?;
    Ok((sb, lebs))
}

/// Checks a super block for a volume of `lebs` LEBs of `leb_bytes` bytes.
/// Errors: a format that is not supported; sizes that do not fit the volume or one another. Linux refuses the same.
/// Source: Linux 6.12, `validate_sb` and what it calls.
pub fn check(sb: &SuperBlock, leb_bytes: u32, lebs: u32) -> Result<()> {
    let unsupported = |what: String| Err(UbifsError::Unsupported { what });
    if sb.flags & sb_flags::AUTHENTICATED != 0 {
        return unsupported("an authenticated image (flag 0x20)".to_owned());
    }
    if sb.flags & sb_flags::ENCRYPTION != 0 {
        return unsupported("a file system with encrypted files (flag 0x10)".to_owned());
    }
    if sb.flags & !sb_flags::ALL != 0 {
        return unsupported(format!("unknown flags {:#x}", sb.flags & !sb_flags::ALL));
    }
    if sb.version > 5 {
        return unsupported(format!("format {}", sb.version));
    }
    let wrong = |what, found: u64, expected: String| Err(UbifsError::SuperBlock { what, found, expected });
    if (sb.version == 5) != (sb.flags & sb_flags::DOUBLE_HASH != 0) {
        return wrong("fmt_version", sb.version.into(), "5 with double hashes (flag 0x8), less without".to_owned());
    }
    if sb.leb_bytes != leb_bytes {
        return wrong("leb_size", sb.leb_bytes.into(), format!("{leb_bytes}, that of the volume"));
    }
    if sb.min_io_bytes < 8 || !sb.min_io_bytes.is_power_of_two() || sb.min_io_bytes > leb_bytes {
        return wrong("min_io_size", sb.min_io_bytes.into(), "a power of two from 8 to a LEB".to_owned());
    }
    if sb.lebs > lebs {
        return wrong("leb_cnt", sb.lebs.into(), format!("at most {lebs}, those of the volume"));
    }
    // Each is below the LEB count, so that sums cannot overflow.
    let areas = [sb.log_lebs, sb.lpt_lebs, sb.orphan_lebs];
    let names = ["log_lebs", "lpt_lebs", "orph_lebs"];
    for ((what, found), least) in names.into_iter().zip(areas).zip(MIN_AREAS) {
        if found < least || found >= sb.lebs {
            return wrong(what, found.into(), format!("from {least} to less than leb_cnt, {}", sb.lebs));
        }
    }
    let before_main = 3 + areas.iter().map(|&lebs| u64::from(lebs)).sum::<u64>();
    let least = before_main + u64::from(MIN_AREAS[3]);
    if u64::from(sb.lebs) < least {
        return wrong("leb_cnt", sb.lebs.into(), format!("at least {least}"));
    }
    if sb.max_lebs < sb.lebs {
        return wrong("max_leb_cnt", sb.max_lebs.into(), format!("at least leb_cnt, {}", sb.lebs));
    }
    let main = u64::from(sb.main_lebs()) * u64::from(leb_bytes);
    if sb.max_bud_bytes < 3 * u64::from(leb_bytes) || sb.max_bud_bytes > main {
        return wrong("max_bud_bytes", sb.max_bud_bytes, format!("from 3 LEBs to the main area, {main}"));
    }
    if sb.data_heads != DATA_HEADS {
        return wrong("jhead_cnt", sb.data_heads.into(), DATA_HEADS.to_string());
    }
    if sb.fanout < MIN_FANOUT || index_bytes(sb.fanout as usize) > leb_bytes as usize {
        return wrong("fanout", sb.fanout.into(), "at least 3, and an index node that fits into a LEB".to_owned());
    }
    let most_main = u64::from(sb.max_lebs) - before_main;
    if sb.lsave_count > DEFAULT_LSAVE && u64::from(sb.lsave_count) > most_main {
        return wrong("lsave_cnt", sb.lsave_count.into(), format!("at most {most_main}"));
    }
    if sb.reserve_bytes > main {
        return wrong("rp_size", sb.reserve_bytes, format!("at most the main area, {main}"));
    }
    if !(1..=1_000_000_000).contains(&sb.time_gran) {
        return wrong("time_gran", sb.time_gran.into(), "from 1 to 1000000000".to_owned());
    }
    let lpt = LptGeometry::new(sb);
    if lpt.ltab_bytes() > leb_bytes as usize {
        return wrong("lpt_lebs", sb.lpt_lebs.into(), "a table of LPT LEBs that fits into one".to_owned());
    }
    Ok(())
}
