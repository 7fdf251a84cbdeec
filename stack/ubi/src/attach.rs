//! What is on the flash: by a full scan, or by the fastmap and a scan of its pools.
//!
//! Both ways end in the same [`AttachInfo`], from which the running layer is built; [`crate::Ubi`] decides which to
//! try. This module reads and never writes: what has to be erased or repaired is reported, and done by the layer.

mod claims;
mod compare;
mod fastmap;
mod reader;
mod scan;
mod table;

pub use compare::compare;
pub use fastmap::{FastmapUnusable, attach_by_fastmap, still_holds};
pub use scan::attach_by_scan;

use sim::seam::FlashError;
use sim::{EraseCount, Lnum, Peb, VolId};

use crate::media::{LAYOUT_VOLUME_ID, MediaError, VtblRecord};

/// What becomes of a PEB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PebFate {
    /// Marked bad.
    Bad,
    /// Erased, with an EC header.
    Free,
    /// To be erased before use; `torture` when its bits are suspect.
    Erase {
        /// Whether to test it with patterns.
        torture: bool,
    },
    /// Holds the newest copy of a LEB; `scrub` when reading it needed correction.
    Used {
        /// The volume.
        vol_id: VolId,
        /// The LEB.
        lnum: Lnum,
        /// Whether to move it soon.
        scrub: bool,
    },
    /// Block `index` of the fastmap in use; 0 is the anchor.
    Fastmap {
        /// Its place in the fastmap.
        index: u32,
    },
    /// Belongs to a fastmap no longer in use. A super block is erased at once, so that it is never found again.
    OldFastmap {
        /// Whether it is a super block.
        super_block: bool,
    },
    /// Unreadable header but data: kept for the user to look at, never erased.
    Corrupt,
    /// Belongs to an unknown internal volume that asks to be preserved.
    Preserved,
}

/// How the flash was attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttachedBy {
    /// Every PEB was read.
    Scan,
    /// The fastmap was used.
    Fastmap,
}

/// A volume's LEBs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachedVolume {
    /// Its record in the volume table.
    pub record: VtblRecord,
    /// PEB of each LEB below `record.reserved_pebs`; `None` where unmapped.
    pub eba: Vec<Option<Peb>>,
    /// LEBs in use: static volumes only, from their headers (0 when empty).
    pub used_ebs: u32,
    /// Data bytes in the last used LEB: static volumes only.
    pub last_eb_bytes: u32,
}

/// A copy of the volume table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableCopy {
    /// Whole, and the one that was used.
    Good,
    /// Whole, but not equal to the one that was used.
    Differs,
    /// Missing or damaged.
    Bad,
}

/// Everything that the running layer needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachInfo {
    /// How it was found out.
    pub by: AttachedBy,
    /// Whether the flash holds nothing: it is to be formatted (empty layout volume, no volumes).
    pub empty: bool,
    /// Fate of each PEB.
    pub fates: Vec<PebFate>,
    /// Erase count of each PEB; the mean where unknown, 0 for bad ones.
    pub erase_counts: Vec<EraseCount>,
    /// By volume number; as many as the table has slots.
    pub volumes: Vec<Option<AttachedVolume>>,
    /// PEB of each LEB of the layout volume.
    pub layout_eba: [Option<Peb>; 2],
    /// Which copies of the volume table are whole.
    pub table: [TableCopy; 2],
    /// Highest sequence number seen.
    pub max_sqnum: u64,
    /// The image's sequence number; 0 when none is set.
    pub image_seq: u32,
    /// Blocks of the fastmap in use, anchor first; empty after a scan.
    pub fastmap_blocks: Vec<Peb>,
    /// PEBs of the user pool and of the wear-levelling pool as the fastmap gave them, after what was found in use.
    pub pools: [Vec<Peb>; 2],
    /// Whether the flash must not be written: an unknown internal volume says so.
    pub read_only: bool,
    /// What was odd and did not matter, with its place, for the log.
    pub notes: Vec<String>,
}

impl AttachInfo {
    /// Where each LEB is: the layout volume's, then every user volume's.
    pub fn mapped(&self) -> impl Iterator<Item = (VolId, Lnum, Peb)> + '_ {
        let layout = (VolId(LAYOUT_VOLUME_ID), &self.layout_eba[..]);
        let users = self.volumes.iter().enumerate();
        let users = users.filter_map(|(id, volume)| Some((VolId(id as u32), &volume.as_ref()?.eba[..])));
        std::iter::once(layout)
            .chain(users)
            .flat_map(|(vol_id, eba)| (0..).zip(eba).filter_map(move |(lnum, peb)| Some((vol_id, Lnum(lnum), (*peb)?))))
    }

    /// Asserts what holds after every attach: fates and LEB tables say the same, and no PEB is in two places.
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

/// Why a flash cannot be attached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    /// The medium's fault.
    #[error(transparent)]
    Flash(#[from] FlashError),
    /// The geometry cannot hold UBI.
    #[error(transparent)]
    Layout(#[from] crate::layout::LayoutError),
    /// A header contradicts the geometry or the other headers.
    #[error("PEB {peb}, offset {offset}: {what} is {found}, expected {expected}")]
    Mismatch {
        /// The PEB.
        peb: Peb,
        /// Byte offset in the PEB.
        offset: u32,
        /// The field.
        what: &'static str,
        /// Its value.
        found: u64,
        /// The value it should have.
        expected: u64,
    },
    /// A header's checksum is right, and what it says is impossible.
    #[error("PEB {peb}, offset {offset}: {why}")]
    Header {
        /// The PEB.
        peb: Peb,
        /// Byte offset of the header in the PEB.
        offset: u32,
        /// The impossibility.
        why: MediaError,
    },
    /// Two PEBs claim one LEB with the same sequence number.
    #[error("PEBs {a} and {b}: both hold volume {vol_id} LEB {lnum} with sequence number {sqnum}")]
    SameSqnum {
        /// One PEB.
        a: Peb,
        /// The other.
        b: Peb,
        /// The volume.
        vol_id: VolId,
        /// The LEB.
        lnum: Lnum,
        /// The number that both carry.
        sqnum: u64,
    },
    /// Too many PEBs hold data behind unreadable headers: this is not UBI, or badly damaged.
    #[error(
        "{corrupt} of {good} PEBs hold data behind corrupt headers (first: PEB {first}); at most {limit} are attached"
    )]
    TooManyCorrupt {
        /// How many.
        corrupt: u32,
        /// Good PEBs.
        good: u32,
        /// How many are tolerated.
        limit: u32,
        /// The first one.
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
        /// The volume.
        vol_id: VolId,
        /// The contradiction.
        what: String,
    },
    /// An unknown internal volume forbids attaching.
    #[error("PEB {peb}: internal volume {vol_id} is unknown and says: reject")]
    Rejected {
        /// Where it was seen.
        peb: Peb,
        /// The volume.
        vol_id: VolId,
    },
    /// The volumes and reserves need more PEBs than are good.
    #[error("{need} PEBs are needed, {have} are good")]
    NoSpace {
        /// PEBs needed.
        need: u32,
        /// PEBs there are.
        have: u32,
    },
    /// The store keeps no bytes: only a blank flash can be attached.
    #[error("the store keeps tags only: attach a blank flash, or keep bytes")]
    NoBytes,
}
