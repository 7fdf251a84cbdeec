//! Mounting: from the super block and the master node to an index in memory that knows all that the journal says.
//!
//! A mount for reading writes nothing: what a power cut left is recovered in memory.

pub(super) mod log;
pub(super) mod master;
pub(super) mod replay;
pub(super) mod superblock;
#[cfg(test)]
mod tests;

use sim::Cx;
use sim::seam::LebVolume;

pub use superblock::check as check_superblock;

use super::error::Result;
use super::index::Index;
use super::media::{Master, SuperBlock, master_flags};
use super::nodes::Nodes;
use super::orphans;
pub(super) use replay::cut_blocks;
pub use replay::{BudUse, Journal};

/// What a mount found.
#[derive(Clone, Debug)]
pub struct Mounted {
    /// The super block, of a file system that has grown to what the volume holds.
    pub sb: SuperBlock,
    /// LEBs in the super block on flash.
    pub lebs_before: u32,
    /// The master node, of the last commit.
    pub master: Master,
    /// Whether the file system was not unmounted cleanly.
    pub is_unclean: bool,
    /// The index, journal included.
    pub index: Index,
    /// What the journal held.
    pub journal: Journal,
    /// Inodes without a link that were open when power was lost; they are gone from the index.
    pub orphans: Vec<u32>,
    /// Greatest sequence number in use.
    pub max_sqnum: u64,
}

/// Mounts for reading.
/// Errors: the volume's; no UBIFS; a format that is not supported; damage that a power cut does not explain.
pub fn mount<V: LebVolume>(nodes: &mut Nodes<V>, cx: &mut Cx) -> Result<Mounted> {
    let (sb, lebs_before) = superblock::read(nodes, cx)?;
    let found = master::read(nodes, cx, &sb)?;
    let (master, is_unclean) = (found.master, found.is_recovered || found.master.flags & master_flags::DIRTY != 0);
    let mut index = Index::new(&sb, &master);
    let log = log::read(nodes, cx, &sb, &master, is_unclean)?;
    let mut journal = replay::replay(nodes, cx, &sb, &mut index, &log, is_unclean)?;
    let no_orphans = master.flags & master_flags::NO_ORPHANS != 0;
    let mut orphans = Vec::new();
    if is_unclean {
        if !no_orphans {
            orphans = orphans::kill(nodes, cx, &sb, &mut index)?.inos;
        }
        replay::fix_sizes(nodes, cx, &mut index, &mut journal)?;
    }
    let max_sqnum = found.sqnum.max(log.max_sqnum).max(journal.max_sqnum);
    Ok(Mounted { sb, lebs_before, master, is_unclean, index, journal, orphans, max_sqnum })
}
