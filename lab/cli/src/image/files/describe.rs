//! What a mount finds out about a file system, for `nandlab image info`.

use fs::ubifs::media::{SuperBlock, sb_flags};
use fs::ubifs::{Mounted, UbifsError};
use serde::Serialize;
use sim::Cx;
use ubi::image::{ImageVolume, Scan, Volume};

use super::{Bare, Holds, Lebs};
use crate::image::info::{bytes, counted};

/// A file system, or why it cannot be mounted.
#[derive(Serialize)]
pub struct UbifsJson {
    format: u32,
    uuid: String,
    leb_bytes: u32,
    min_io_bytes: u32,
    lebs: u32,
    max_lebs: u32,
    log_lebs: u32,
    lpt_lebs: u32,
    orphan_lebs: u32,
    main_lebs: u32,
    big_lpt: bool,
    space_fixup: bool,
    fanout: u32,
    compression: &'static str,
    journal_bytes: u64,
    reserved_bytes: u64,
    clean: bool,
    commit: u64,
    journal_nodes: u64,
    journal_buds: usize,
    orphans: usize,
    index_bytes: u64,
    used_bytes: u64,
    free_bytes: u64,
    dirty_bytes: u64,
    highest_inode: u64,
}

/// Mounts the file system in a volume, if it holds one.
pub fn of_volume(scan: &Scan<'_>, volume: &Volume) -> Option<Result<UbifsJson, UbifsError>> {
    (Holds::of(scan, volume) == Holds::Ubifs).then(|| of(Lebs::Volume(ImageVolume::new(scan, volume.clone()))))
}

/// Mounts the file system of an image without UBI.
pub fn of_bare(bare: Bare<'_>) -> Result<UbifsJson, UbifsError> {
    of(Lebs::Bare(bare))
}

fn of(lebs: Lebs<'_, '_>) -> Result<UbifsJson, UbifsError> {
    let reader = fs::ubifs::Reader::mount(lebs, &mut Cx::new())?;
    let Mounted { sb, lebs_before, master, is_unclean, journal, orphans, .. } = reader.mounted();
    let lebs = *lebs_before;
    let SuperBlock { flags, leb_bytes, min_io_bytes, max_lebs, log_lebs, lpt_lebs, orphan_lebs, .. } = *sb;
    Ok(UbifsJson {
        format: sb.version,
        uuid: uuid(&sb.uuid),
        leb_bytes,
        min_io_bytes,
        lebs,
        max_lebs,
        log_lebs,
        lpt_lebs,
        orphan_lebs,
        main_lebs: lebs.saturating_sub(sb.main_first()),
        big_lpt: flags & sb_flags::BIG_LPT != 0,
        space_fixup: flags & sb_flags::SPACE_FIXUP != 0,
        fanout: sb.fanout,
        compression: sb.compression.name(),
        journal_bytes: sb.max_bud_bytes,
        reserved_bytes: sb.reserve_bytes,
        clean: !is_unclean,
        commit: master.commit,
        journal_nodes: journal.nodes,
        journal_buds: journal.buds.len(),
        orphans: orphans.len(),
        index_bytes: master.index_bytes,
        used_bytes: master.total_used,
        free_bytes: master.total_free - u64::from(sb.lebs - lebs) * u64::from(leb_bytes),
        dirty_bytes: master.total_dirty,
        highest_inode: master.highest_ino,
    })
}

fn uuid(bytes: &[u8; 16]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

impl UbifsJson {
    /// Calls `line` with label and value of each line of the report.
    pub fn lines(&self, line: &mut impl FnMut(&str, String)) {
        line("format", format!("{}, {}, fanout {}", self.format, self.compression, self.fanout));
        line("UUID", self.uuid.clone());
        let most = if self.max_lebs == self.lebs { String::new() } else { format!(", can grow to {}", self.max_lebs) };
        line("LEBs", format!("{}{most}, of {}", self.lebs, bytes(self.leb_bytes.into())));
        line("min. I/O unit", bytes(self.min_io_bytes.into()));
        let big = if self.big_lpt { " (big model)" } else { "" };
        let (log, lpt, orphan, main) = (self.log_lebs, self.lpt_lebs, self.orphan_lebs, self.main_lebs);
        line("areas", format!("log {log} LEBs, LPT {lpt}{big}, orphans {orphan}, main {main}"));
        let (used, index, free, dirty) = (self.used_bytes, self.index_bytes, self.free_bytes, self.dirty_bytes);
        line(
            "space",
            format!("used {used} bytes, index {index}, free {free}, dirty {dirty}, as of commit {}", self.commit),
        );
        let state = match (self.clean, self.space_fixup) {
            (true, false) => "unmounted cleanly".to_owned(),
            (true, true) => "new: free space is to be rewritten at the first mount".to_owned(),
            (false, _) => format!("not unmounted cleanly: {} recovered", counted(self.orphans, "orphan")),
        };
        line("state", state);
        let journal = match self.journal_nodes {
            0 => "empty".to_owned(),
            nodes => format!("{} in {}", counted(nodes as usize, "node"), counted(self.journal_buds, "LEB")),
        };
        line("journal", journal);
    }
}
