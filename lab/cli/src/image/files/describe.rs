//! What a mount finds out about a file system, for `nandlab image info`.

use fs::jffs2::media::compression;
use fs::jffs2::{BlockCounts, Jffs2Error, Packed, Statistics};
use fs::ubifs::media::{SuperBlock, sb_flags};
use fs::ubifs::{Mounted, UbifsError};
use serde::Serialize;
use sim::Cx;
use ubi::image::{ImageVolume, Scan, Volume};

use super::jffs2::Blocks;
use super::opened::FilesError;
use super::{Alone, Holds, Lebs};
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

/// A file system.
pub enum Described {
    /// UBIFS.
    Ubifs(Box<UbifsJson>),
    /// JFFS2.
    Jffs2(Box<Jffs2Json>),
}

impl Described {
    /// Name of the file system.
    pub const fn name(&self) -> &'static str {
        match self {
            Described::Ubifs(_) => "UBIFS",
            Described::Jffs2(_) => "JFFS2",
        }
    }

    /// Calls `line` with label and value of each line of the report.
    pub fn lines(&self, line: &mut impl FnMut(&str, String)) {
        match self {
            Described::Ubifs(it) => it.lines(line),
            Described::Jffs2(it) => it.lines(line),
        }
    }
}

/// JFFS2, by what a mount finds.
#[derive(Serialize)]
pub struct Jffs2Json {
    endian: &'static str,
    block_bytes: u32,
    block_bytes_given: bool,
    block_bytes_why: &'static str,
    oob: Option<[u32; 2]>,
    blocks: u32,
    clean_blocks: u32,
    dirty_blocks: u32,
    free_blocks: u32,
    unmarked_blocks: u32,
    obsolete_blocks: u32,
    open_blocks: u32,
    bad_blocks: u32,
    summaries: u32,
    used_bytes: u64,
    obsolete_bytes: u64,
    free_bytes: u64,
    inodes: u64,
    names: u64,
    nodes: u64,
    compression: Vec<PackedJson>,
    missing_bytes: u64,
    damaged: u64,
}

/// Nodes that are compressed in one way.
#[derive(Serialize)]
struct PackedJson {
    name: String,
    nodes: u64,
    packed_bytes: u64,
    bytes: u64,
}

/// Mounts the file system in a volume, if it holds one.
pub fn of_volume(scan: &Scan<'_>, volume: &Volume) -> Option<Result<Described, FilesError>> {
    let lebs = || ImageVolume::new(scan, volume.clone());
    match Holds::of(scan, volume) {
        Holds::Ubifs => Some(of(Lebs::Volume(lebs())).map(|it| Described::Ubifs(Box::new(it))).map_err(Into::into)),
        Holds::Jffs2 => {
            Some(of_blocks(Blocks::of_volume(lebs())).map(|it| Described::Jffs2(Box::new(it))).map_err(Into::into))
        }
        _ => None,
    }
}

/// Mounts the file system of an image without UBI.
pub fn of_alone(alone: Alone<'_>) -> Result<Described, FilesError> {
    Ok(match alone {
        Alone::Ubifs(bare) => Described::Ubifs(Box::new(of(Lebs::Bare(bare))?)),
        Alone::Jffs2(image) => Described::Jffs2(Box::new(of_blocks(Blocks::of_image(image))?)),
    })
}

fn of_blocks(blocks: Blocks<'_, '_>) -> Result<Jffs2Json, Jffs2Error> {
    let (block_bytes_given, block_bytes_why, oob) = (blocks.is_given(), blocks.why(), blocks.oob());
    let (block_bytes, count) = blocks.size();
    let mut cx = Cx::new();
    let mut fs = blocks.mount(&mut cx)?;
    let Statistics { blocks, used_bytes, obsolete_bytes, free_bytes, inodes, names, nodes, compression, summaries } =
        fs.statistics(&mut cx)?;
    let BlockCounts { clean, dirty, free, unmarked, obsolete, next, bad } = blocks;
    let (damages, more) = fs.damages();
    Ok(Jffs2Json {
        endian: fs.endian().name(),
        block_bytes,
        block_bytes_given,
        block_bytes_why,
        oob: oob.map(|(page, oob)| [page, oob]),
        blocks: count,
        clean_blocks: clean,
        dirty_blocks: dirty,
        free_blocks: free,
        unmarked_blocks: unmarked,
        obsolete_blocks: obsolete,
        open_blocks: next,
        bad_blocks: bad,
        summaries,
        used_bytes,
        obsolete_bytes,
        free_bytes,
        inodes,
        names,
        nodes,
        compression: compression.into_iter().map(|(number, packed)| PackedJson::new(number, packed)).collect(),
        missing_bytes: fs.flash().missing_bytes(),
        damaged: damages.len() as u64 + more,
    })
}

impl PackedJson {
    fn new(number: u8, Packed { nodes, packed, unpacked }: Packed) -> PackedJson {
        let name = compression::name(number).map_or_else(|| format!("number {number}"), str::to_owned);
        PackedJson { name, nodes, packed_bytes: packed, bytes: unpacked }
    }
}

impl Jffs2Json {
    /// Calls `line` with label and value of each line of the report.
    pub fn lines(&self, line: &mut impl FnMut(&str, String)) {
        line("byte order", format!("{}-endian", self.endian));
        line("eraseblocks", format!("{} of {}, {}", self.blocks, bytes(self.block_bytes.into()), self.block_bytes_why));
        if let Some([page, oob]) = self.oob {
            line("OOB", format!("this dump contains OOB of {oob} bytes per {page}-byte page; read without it"));
        }
        let states = [
            (self.clean_blocks, "clean"),
            (self.dirty_blocks, "dirty"),
            (self.open_blocks, "being written"),
            (self.free_blocks, "free"),
            (self.unmarked_blocks, "erased without a clean marker"),
            (self.obsolete_blocks, "obsolete"),
            (self.bad_blocks, "bad"),
        ];
        let states = states.iter().filter(|(count, _)| *count > 0).map(|(count, state)| format!("{count} {state}"));
        line("states", states.collect::<Vec<_>>().join(", "));
        let summaries = match self.summaries {
            0 => "none".to_owned(),
            some => format!("of {}", counted(some as usize, "eraseblock")),
        };
        line("summaries", summaries);
        let (used, obsolete, free) = (self.used_bytes, self.obsolete_bytes, self.free_bytes);
        line("space", format!("used {used} bytes, obsolete {obsolete}, free {free}"));
        let (inodes, names, nodes) = (self.inodes, self.names, self.nodes);
        line("files", format!("{inodes} inodes, {names} names, in {nodes} nodes"));
        let packed = self.compression.iter().map(|PackedJson { name, nodes, packed_bytes, bytes }| {
            format!("{name}: {nodes} nodes, {bytes} bytes in {packed_bytes}")
        });
        let packed = packed.collect::<Vec<_>>().join("; ");
        line("compression", if packed.is_empty() { "no data".to_owned() } else { packed });
        if self.missing_bytes > 0 {
            line("truncated", format!("{} bytes of the last node are missing", self.missing_bytes));
        }
        if self.damaged > 0 {
            let places = counted(self.damaged as usize, "damaged place");
            line("damage", format!("{places} so far; `nandlab image check` names them, and looks at data too"));
        }
    }
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
