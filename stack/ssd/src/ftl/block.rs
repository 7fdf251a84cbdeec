//! Block-level mapping: a logical block is in one physical block, each page at its own offset; an overwrite copies.
//!
//! The algorithm is that of early cards and disks with replacement blocks, restricted to NAND's ascending program
//! order. A page after the last one programmed in its block is programmed there, and the pages skipped are padded. A
//! page before it opens a *replacement block*: the pages before the one to be written are copied, then it is written;
//! later pages are written there as long as they come in ascending order, with those between them copied. The
//! replacement block is closed by a page that goes back, or by a page of another logical block if all replacement
//! blocks are in use (then the one written least recently is closed). To close it, the pages after are copied; the
//! replacement block becomes the data block, and the old one is erased.
//!
//! A closing counts as a switch merge if nothing was copied, as partial if only the pages at the end were, as full if
//! pages before the first written one were copied. The only wear levelling is that the least worn free block is
//! allocated.

use super::NONE;
use super::hybrid::{Hybrid, LogKind, LogPolicy, MakeRoom};

/// Block mapping of one unit. Up to [`HybridConfig::logs`](super::hybrid::HybridConfig::logs) replacement blocks are
/// open at once.
pub type BlockFtl = Hybrid<BlockPolicy>;

/// A replacement block for each logical block that is overwritten; the one written least recently is closed first.
#[derive(Clone, Copy, Debug)]
pub enum BlockPolicy {}

impl LogPolicy for BlockPolicy {
    /// 0: the merge goes into the replacement block itself, so it needs no free block.
    const SPARE: u32 = 0;
    const LOGS: LogKind = LogKind::InPlace;

    #[inline]
    fn open_block(ftl: &BlockFtl, lpn: u32) -> Option<u32> {
        let (logical, offset) = ftl.split(lpn);
        let held = ftl.logical(logical);
        let block = if held.log == NONE { held.data } else { held.log };
        (ftl.has_room(block) && ftl.block(block).next <= offset).then_some(block)
    }

    fn make_room(ftl: &mut BlockFtl, lpn: u32) -> MakeRoom {
        let (logical, _) = ftl.split(lpn);
        let held = *ftl.logical(logical);
        let opened = if held.data == NONE {
            ftl.take_data(logical)
        } else if held.log == NONE && ftl.opened() < ftl.log_limit() {
            ftl.take_log(logical)
        } else {
            None
        };
        let closed = if held.log != NONE { Some(logical) } else { ftl.least_recent_log() };
        match (opened, closed) {
            (Some(_), _) => MakeRoom::Opened,
            (None, Some(closed)) => MakeRoom::Merge(closed),
            (None, None) => MakeRoom::Nothing,
        }
    }
}
