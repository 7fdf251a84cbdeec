//! Sizes of the areas, from the options: the arithmetic of mkfs.ubifs 2.1.5, found by comparing super blocks, and what
//! Linux 6.12 asks of a super block (`fs/ubifs/sb.c`).

use super::{Compress, OptionError, Options, Reserve};
use crate::ubifs::media::lpt::LptGeometry;
use crate::ubifs::media::{
    BLOCK_BYTES, Compression, DataNode, LOG_LNUM, MAX_NODE_BYTES, REFERENCE_BYTES, SuperBlock, index_bytes, sb_flags,
};

const MIN_FANOUT: u32 = 3;
const MIN_LOG_LEBS: u32 = 2;
const MIN_LPT_LEBS: u32 = 2;
/// LEBs of three buds, and six more: index, garbage collection, deletions.
const MIN_MAIN_LEBS: u32 = 9;
const MIN_BUD_LEBS: u32 = 3;
const MAX_LEB_BYTES: u32 = 2 << 20;
const MIN_LEB_BYTES: u32 = 15 * 1024;
/// The journal takes at most so much, unless asked to.
const MAX_DEFAULT_JOURNAL: u64 = 8 << 20;
/// LEBs that are read before others at mount, in the big model.
const LSAVE_COUNT: u32 = 256;

/// Fewest LEBs with which Linux mounts a file system of these areas.
pub fn min_lebs(sb: &SuperBlock) -> u32 {
    let journal = u32::try_from(sb.max_bud_bytes.div_ceil(u64::from(sb.leb_bytes))).unwrap_or(u32::MAX);
    sb.main_first() + MIN_MAIN_LEBS.max(sb.data_heads + 6).max(journal)
}

fn refuse<T>(option: &'static str, found: impl Into<u64>, expected: impl Into<String>) -> Result<T, OptionError> {
    Err(OptionError { option, found: found.into(), expected: expected.into() })
}

/// The super block of a file system of the greatest size. Errors: options that do not go together.
pub fn super_block(options: &Options) -> Result<SuperBlock, OptionError> {
    let Options { leb_bytes, max_lebs, orphan_lebs, fanout, .. } = *options;
    // Linux takes smaller units for 8 bytes.
    let min_io_bytes = options.min_io_bytes.max(8);
    if !min_io_bytes.is_power_of_two() {
        return refuse("--min-io-size", min_io_bytes, "a power of two");
    }
    if !(MIN_LEB_BYTES..=MAX_LEB_BYTES).contains(&leb_bytes) {
        return refuse("--leb-size", leb_bytes, "15 KiB to 2 MiB");
    }
    if !leb_bytes.is_multiple_of(min_io_bytes) {
        return refuse("--leb-size", leb_bytes, format!("a multiple of --min-io-size, {min_io_bytes}"));
    }
    let fits = |fanout: u32| index_bytes(fanout as usize) <= leb_bytes as usize && fanout <= u32::from(u16::MAX);
    if fanout < MIN_FANOUT || !fits(fanout) {
        return refuse("--fanout", fanout, "at least 3, and an index node that fits into a LEB");
    }
    if orphan_lebs == 0 {
        return refuse("--orph-lebs", orphan_lebs, "at least 1");
    }
    if let Compress::FavorLzo { percent } = options.compress
        && percent >= 100
    {
        return refuse("--favor-percent", percent, "less than 100");
    }
    let fixed = LOG_LNUM + MIN_LPT_LEBS + MIN_MAIN_LEBS;
    let Some(most_log_lebs) = max_lebs.checked_sub(fixed).and_then(|lebs| lebs.checked_sub(orphan_lebs)) else {
        return refuse("--max-leb-cnt", max_lebs, format!("at least {}", fixed + orphan_lebs + MIN_LOG_LEBS));
    };
    if most_log_lebs < MIN_LOG_LEBS {
        return refuse("--max-leb-cnt", max_lebs, format!("at least {}", fixed + orphan_lebs + MIN_LOG_LEBS));
    }
    let leb = u64::from(leb_bytes);
    let default_journal = || {
        let main = max_lebs - LOG_LNUM - orphan_lebs - options.log_lebs.unwrap_or(MIN_LOG_LEBS) - MIN_LPT_LEBS;
        (u64::from(main / 8) * leb).min(MAX_DEFAULT_JOURNAL).max(4 * leb)
    };
    if let Some(log_lebs) = options.log_lebs
        && !(MIN_LOG_LEBS..=most_log_lebs).contains(&log_lebs)
    {
        return refuse("--log-lebs", log_lebs, format!("{MIN_LOG_LEBS} to {most_log_lebs}"));
    }
    let max_bud_bytes = options.journal_bytes.unwrap_or_else(default_journal);
    if max_bud_bytes < u64::from(MIN_BUD_LEBS) * leb {
        return refuse("--jrn-size", max_bud_bytes, format!("at least {MIN_BUD_LEBS} LEBs of {leb_bytes} bytes"));
    }
    // A reference node for each bud, one LEB that a commit begins, and two to go on while it runs.
    let reference = REFERENCE_BYTES.next_multiple_of(min_io_bytes as usize) as u64;
    let references = (max_bud_bytes.div_ceil(leb) * reference).div_ceil(leb);
    let default_log = u32::try_from(references + 1 + 2).unwrap_or(u32::MAX).min(most_log_lebs);
    let compression = match options.compress {
        Compress::Always(compression) => compression,
        Compress::FavorLzo { .. } => Compression::Lzo,
    };
    let areas = SuperBlock {
        key_hash: options.key_hash,
        flags: if options.space_fixup { sb_flags::SPACE_FIXUP } else { 0 },
        min_io_bytes,
        leb_bytes,
        lebs: max_lebs,
        max_lebs,
        max_bud_bytes,
        log_lebs: options.log_lebs.unwrap_or(default_log),
        lpt_lebs: MIN_LPT_LEBS,
        orphan_lebs,
        data_heads: 1,
        fanout,
        lsave_count: LSAVE_COUNT,
        version: 4,
        compression,
        reserve_owner: (0, 0),
        reserve_bytes: 0,
        time_gran: 1_000_000_000,
        uuid: [0; 16],
        ro_compat: 0,
        hash_algo: 0xffff,
    };
    let Some(mut sb) = with_lpt(areas) else {
        return refuse("--max-leb-cnt", max_lebs, "a number of LEBs whose properties fit beside them");
    };
    let main_bytes = u64::from(sb.main_lebs()) * leb;
    if max_bud_bytes > main_bytes {
        return refuse("--jrn-size", max_bud_bytes, format!("at most the main area, {main_bytes}"));
    }
    sb.reserve_bytes = match options.reserve {
        Reserve::Data(bytes) => reserve(bytes, fanout),
        Reserve::Share { percent, most } => (main_bytes * percent / 100).min(most),
    };
    if let Reserve::Data(bytes) = options.reserve
        && sb.reserve_bytes > main_bytes
    {
        return refuse("--reserved", bytes, format!("less than the main area, {main_bytes}"));
    }
    Ok(sb)
}

/// Bytes to reserve so that so many bytes of data can be written, with their headers and their share of the index.
fn reserve(data_bytes: u64, fanout: u32) -> u64 {
    let half = if fanout > MIN_FANOUT { u64::from(fanout / 2) } else { 2 };
    let index = 3 * index_bytes(fanout as usize) as u64 / (half - 1);
    let node = DataNode::HEADER_BYTES as u64 + u64::from(BLOCK_BYTES);
    let bytes = u128::from(data_bytes) * u128::from(node + index) / u128::from(BLOCK_BYTES);
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Adds an LPT area four times as large as the tree, and its model. `None` if there is no room.
fn with_lpt(areas: SuperBlock) -> Option<SuperBlock> {
    let room = areas.max_lebs - areas.lpt_first() - areas.orphan_lebs;
    let mut sb = areas;
    if tree_bytes(&sb) > u64::from(sb.leb_bytes) {
        sb.flags |= sb_flags::BIG_LPT;
    }
    // The more LEBs it has, the larger is its own table; that settles at once.
    loop {
        let needed = u32::try_from((tree_bytes(&sb) * 4).div_ceil(u64::from(sb.leb_bytes))).ok()?;
        if needed <= sb.lpt_lebs {
            let fits = LptGeometry::new(&sb).ltab_bytes() <= sb.leb_bytes as usize;
            return fits.then_some(sb);
        }
        if needed + MIN_MAIN_LEBS > room {
            return None;
        }
        sb.lpt_lebs = needed;
    }
}

/// Bytes of all nodes of the LPT, and what their packing into LEBs and write units may waste.
fn tree_bytes(sb: &SuperBlock) -> u64 {
    let geometry = LptGeometry::new(sb);
    let (pnode, nnode) = (geometry.pnode_bytes() as u64, geometry.nnode_bytes() as u64);
    let lsave = if geometry.is_big { geometry.lsave_bytes() as u64 } else { 0 };
    let nodes = u64::from(geometry.pnodes) * pnode
        + u64::from(geometry.nnodes()) * nnode
        + geometry.ltab_bytes() as u64
        + lsave;
    // At the end of each LEB a node may not fit; each LEB but the first holds what the others left over.
    let (leb, left_over) = (u64::from(sb.leb_bytes), pnode.max(nnode));
    let more_lebs = nodes.saturating_sub(leb - left_over).div_ceil(leb - left_over);
    let waste = (more_lebs + 1) * left_over;
    let last = nodes + waste - more_lebs * leb;
    nodes + waste + last.next_multiple_of(u64::from(sb.min_io_bytes)) - last
}

/// Bytes of space in a LEB below which nothing may fit: the smallest node that is written.
fn dead_mark(sb: &SuperBlock) -> u32 {
    SMALLEST_WRITE.next_multiple_of(sb.min_io_bytes)
}

/// A data node of eight bytes: Linux counts on none that is smaller.
const SMALLEST_WRITE: u32 = DataNode::HEADER_BYTES as u32 + 8;

/// Bytes that count as dead and as dark in a LEB with so many free and dirty bytes.
pub fn dead_and_dark(sb: &SuperBlock, space: u32) -> (u32, u32) {
    #[allow(clippy::cast_possible_truncation, reason = "4256")]
    let dark_mark = (MAX_NODE_BYTES as u32).next_multiple_of(sb.min_io_bytes);
    match space {
        space if space < dead_mark(sb) => (space, 0),
        space if space < dark_mark => (0, space),
        // A little more: only the smallest node surely fits.
        space if space - dark_mark < SMALLEST_WRITE => (0, space - SMALLEST_WRITE),
        _ => (0, dark_mark),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of a LEB and of a page, LEBs of the volume, of the log, the LPT and the orphan area, bytes of the journal and of
    /// the reserve.
    type FirstMount = (u32, u32, u32, u32, u32, u32, u64, u64);

    /// Super blocks that Linux 6.12.117 wrote when it first mounted empty volumes.
    const FIRST_MOUNTS: [FirstMount; 8] = [
        (31_744, 512, 29, 3, 2, 2, 95_232, 30_156),
        (15_360, 512, 37, 3, 2, 2, 46_080, 20_736),
        (31_744, 512, 48, 3, 2, 2, 95_232, 60_313),
        (1_032_192, 8192, 496, 3, 2, 2, 21_676_032, 5_242_880),
        (126_976, 2048, 998, 4, 2, 2, 5_713_920, 5_242_880),
        (253_952, 4096, 4010, 7, 2, 2, 31_744_000, 5_242_880),
        (126_976, 2048, 8026, 11, 2, 2, 32_124_928, 5_242_880),
        (126_976, 2048, 16_056, 11, 3, 2, 32_124_928, 5_242_880),
    ];

    #[test]
    fn a_first_mount_makes_the_areas_that_linux_makes() {
        for expected in FIRST_MOUNTS {
            let (leb_bytes, page, lebs, ..) = expected;
            let sb = super_block(&Options::first_mount(page, leb_bytes, lebs)).unwrap();
            let areas = (sb.log_lebs, sb.lpt_lebs, sb.orphan_lebs, sb.max_bud_bytes, sb.reserve_bytes);
            let found = (leb_bytes, page, sb.lebs, areas.0, areas.1, areas.2, areas.3, areas.4);
            assert_eq!(found, expected);
            assert_eq!((sb.flags, sb.fanout, sb.data_heads, sb.lsave_count), (0, 8, 1, 256), "{lebs} LEBs");
        }
    }

    #[test]
    fn the_smallest_volumes_have_no_room_for_more() {
        // 17 LEBs are the least; one more is for orphans, and beyond 25 one for the log.
        let areas = |lebs| {
            let options = Options::first_mount(512, 15_360, lebs);
            (options.log_lebs, options.orphan_lebs, options.journal_bytes)
        };
        assert_eq!(areas(17), (Some(2), 1, Some(3 * 15_360)));
        assert_eq!(areas(18), (Some(2), 1, Some(3 * 15_360)));
        assert_eq!(areas(19), (Some(2), 2, Some(3 * 15_360)));
        assert_eq!(areas(25), (Some(2), 2, Some(3 * 15_360)));
        assert_eq!(areas(26), (Some(3), 2, Some(3 * 15_360)));
    }
}
