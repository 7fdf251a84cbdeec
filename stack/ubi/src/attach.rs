//! Reading the state of a flash: by a full scan, or by the fastmap and a scan of its pools.
//!
//! Both ways result in the same [`AttachInfo`], from which the device is built; [`crate::Ubi`] decides which to try.
//! This module reads and never writes: it reports what has to be erased or repaired, and the device does it.

mod claims;
mod compare;
mod fastmap;
mod reader;
mod scan;
mod table;

pub use compare::compare;
pub use fastmap::{FastmapUnusable, attach_by_fastmap, attach_by_fastmap_of, still_holds};
pub use reader::Headers;
pub use scan::{attach_by_scan, attach_by_scan_of};

use sim::seam::FlashError;
use sim::{EraseCount, Lnum, Peb, VolId};

use crate::media::{LAYOUT_VOLUME_ID, MediaError, VtblRecord};

/// State of a PEB as attach found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PebFate {
    /// Marked bad.
    Bad,
    /// Erased, with an EC header.
    Free,
    /// To be erased before use.
    Erase {
        /// Whether to test it with patterns, because its bits are suspect.
        torture: bool,
    },
    /// Holds the newest copy of a LEB.
    Used {
        /// Volume of the LEB.
        vol_id: VolId,
        /// Number of the LEB.
        lnum: Lnum,
        /// Whether to scrub it: a read of its headers needed correction.
        scrub: bool,
    },
    /// Block `index` of the fastmap in use; 0 is the anchor.
    Fastmap {
        /// Number of the block in the fastmap.
        index: u32,
    },
    /// Belongs to a fastmap no longer in use. A super block is erased at once, so that no later attach finds it.
    OldFastmap {
        /// Whether it is a super block.
        super_block: bool,
    },
    /// Data behind an unreadable header: kept for the user, never erased.
    Corrupt,
    /// Belongs to an unknown internal volume whose `compat` asks to preserve it.
    Preserved,
}

/// How the flash was attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttachedBy {
    /// By reading the headers of every PEB.
    Scan,
    /// By the fastmap.
    Fastmap,
}

/// A volume and its LEBs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachedVolume {
    /// Its record in the volume table.
    pub record: VtblRecord,
    /// PEB of each LEB below `record.reserved_pebs`; `None` where unmapped.
    pub eba: Vec<Option<Peb>>,
    /// LEBs in use, from the headers; 0 when empty. Static volumes only.
    pub used_ebs: u32,
    /// Data bytes in the last used LEB: static volumes only.
    pub last_eb_bytes: u32,
}

/// State of a copy of the volume table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableCopy {
    /// Valid, and the one in use.
    Good,
    /// Valid, but not equal to the one in use.
    Differs,
    /// Missing or damaged.
    Bad,
}

/// State of the flash, from which the device is built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachInfo {
    /// How it was read.
    pub by: AttachedBy,
    /// Whether the flash is blank and must be formatted (empty layout volume, no volumes).
    pub empty: bool,
    /// Fate of each PEB.
    pub fates: Vec<PebFate>,
    /// Erase count of each PEB; the mean if unknown, 0 if bad.
    pub erase_counts: Vec<EraseCount>,
    /// Volumes by number; the length is the number of slots in the table.
    pub volumes: Vec<Option<AttachedVolume>>,
    /// PEB of each LEB of the layout volume.
    pub layout_eba: [Option<Peb>; 2],
    /// State of each copy of the volume table.
    pub table: [TableCopy; 2],
    /// Highest sequence number found.
    pub max_sqnum: u64,
    /// Sequence number of the image; 0 when none is set.
    pub image_seq: u32,
    /// Blocks of the fastmap in use, anchor first; empty after a scan.
    pub fastmap_blocks: Vec<Peb>,
    /// PEBs of the user pool and of the wear-levelling pool in the fastmap, without those found in use.
    pub pools: [Vec<Peb>; 2],
    /// Whether the flash must not be written, because an unknown internal volume requires it.
    pub read_only: bool,
    /// Harmless oddities and where they are, for the log.
    pub notes: Vec<String>,
}

impl AttachInfo {
    /// PEB of each mapped LEB: the layout volume's, then every user volume's.
    pub fn mapped(&self) -> impl Iterator<Item = (VolId, Lnum, Peb)> + '_ {
        let layout = (VolId(LAYOUT_VOLUME_ID), &self.layout_eba[..]);
        let users = self.volumes.iter().enumerate();
        let users = users.filter_map(|(id, volume)| Some((VolId(id as u32), &volume.as_ref()?.eba[..])));
        std::iter::once(layout)
            .chain(users)
            .flat_map(|(vol_id, eba)| (0..).zip(eba).filter_map(move |(lnum, peb)| Some((vol_id, Lnum(lnum), (*peb)?))))
    }

    /// Checks that the fates and the LEB tables agree and that no PEB is used twice; panics otherwise.
    pub fn check(&self) {
        assert_eq!(self.fates.len(), self.erase_counts.len());
        let mut used = self.fates.iter().filter(|fate| matches!(fate, PebFate::Used { .. })).count();
        for (vol_id, lnum, peb) in self.mapped() {
            let PebFate::Used { vol_id: v, lnum: l, .. } = self.fates[peb.at()] else {
                panic!("volume {vol_id} LEB {lnum} is in PEB {peb}, which is not in use");
            };
            assert_eq!((v, l), (vol_id, lnum), "PEB {peb} is in two places");
            used -= 1;
        }
        assert_eq!(used, 0, "PEBs in use that no LEB is in");
        for (index, peb) in (0..).zip(&self.fastmap_blocks) {
            assert_eq!(self.fates[peb.at()], PebFate::Fastmap { index }, "PEB {peb}");
        }
        for peb in self.pools.iter().flatten() {
            assert_eq!(self.fates[peb.at()], PebFate::Free, "PEB {peb} is in a pool");
        }
    }
}

/// What an attach with fastmap uses: the fastmap if it is usable, else a scan.
/// Errors: a fault that a scan would meet too; those of the scan.
pub fn choose(
    fastmap: Result<AttachInfo, FastmapUnusable>,
    scan: impl FnOnce() -> Result<AttachInfo, AttachError>,
) -> Result<AttachInfo, AttachError> {
    match fastmap {
        Ok(info) => Ok(info),
        Err(FastmapUnusable::Fatal(error)) => Err(error),
        Err(FastmapUnusable::NotFound) => scan(),
        Err(unusable @ FastmapUnusable::Invalid { .. }) => {
            let mut info = scan()?;
            info.notes.push(format!("fastmap not used: {unusable}"));
            Ok(info)
        }
    }
}

/// Why a flash cannot be attached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    /// The flash failed, or power was lost.
    #[error(transparent)]
    Flash(#[from] FlashError),
    /// The geometry cannot hold UBI.
    #[error(transparent)]
    Layout(#[from] crate::layout::LayoutError),
    /// A header contradicts the geometry or the other headers.
    #[error("PEB {peb}, offset {offset}: {what} is {found}, expected {expected}")]
    Mismatch {
        /// PEB of the header.
        peb: Peb,
        /// Byte offset in the PEB.
        offset: u32,
        /// Name of the field.
        what: &'static str,
        /// Its value.
        found: u64,
        /// Value expected.
        expected: u64,
    },
    /// A header has a right checksum, but impossible contents.
    #[error("PEB {peb}, offset {offset}: {why}")]
    Header {
        /// PEB of the header.
        peb: Peb,
        /// Byte offset of the header in the PEB.
        offset: u32,
        /// Which field is impossible.
        why: MediaError,
    },
    /// Two PEBs claim one LEB with the same sequence number.
    #[error("PEBs {a} and {b}: both hold volume {vol_id} LEB {lnum} with sequence number {sqnum}")]
    SameSqnum {
        /// The first PEB.
        a: Peb,
        /// The second PEB.
        b: Peb,
        /// Volume of the LEB.
        vol_id: VolId,
        /// Number of the LEB.
        lnum: Lnum,
        /// Sequence number of both.
        sqnum: u64,
    },
    /// Too many PEBs hold data behind unreadable headers: the flash does not hold UBI, or is badly damaged.
    #[error(
        "{corrupt} of {good} PEBs hold data behind corrupt headers (first: PEB {first}): UBI refuses {limit} or more"
    )]
    TooManyCorrupt {
        /// PEBs with corrupt headers.
        corrupt: u32,
        /// Good PEBs of the device.
        good: u32,
        /// Most corrupt PEBs with which attach succeeds.
        limit: u32,
        /// First corrupt PEB.
        first: Peb,
    },
    /// No readable copy of the volume table.
    #[error("no valid volume table: {why}")]
    NoVolumeTable {
        /// What is wrong with each copy.
        why: String,
    },
    /// A volume's headers contradict its record in the volume table.
    #[error("volume {vol_id}: {what}")]
    Volume {
        /// Number of the volume.
        vol_id: VolId,
        /// What contradicts what.
        what: String,
    },
    /// An unknown internal volume whose `compat` forbids attaching.
    #[error("PEB {peb}: unknown internal volume {vol_id} must not be attached (compat is reject)")]
    Rejected {
        /// PEB of its header.
        peb: Peb,
        /// Number of the volume.
        vol_id: VolId,
    },
    /// The volumes and reserves need more PEBs than are good.
    #[error("{need} PEBs are needed, {have} are good")]
    NoSpace {
        /// PEBs needed.
        need: u32,
        /// Good PEBs of the device.
        have: u32,
    },
    /// The store keeps no bytes: only a blank flash can be attached.
    #[error("the store keeps tags only: attach a blank flash, or keep bytes")]
    NoBytes,
}
