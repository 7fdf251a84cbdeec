//! Block-level mapping: a logical block lies in one physical block, each page in its place; overwriting copies.
//!
//! The algorithm is that of early cards and disks with replacement blocks, in NAND's ascending order. A page beyond the
//! last one written of its block is programmed there, and what it skips is padded. A page before it opens a
//! *replacement block*: the pages before the one to be written are copied, then it is written; later pages are written
//! there as long as they come in ascending order, with those between them copied. A page that goes back, or one of
//! another logical block when all replacement blocks are in use (the one written least recently is chosen), closes it:
//! the pages after are copied, the replacement is the data block from then on, and the old one is erased.
//!
//! A closing counts as a switch if nothing was copied at all, as partial if only the end was, as full if pages before
//! the first one written were copied. A block takes part in wear levelling only in that the least worn free block is
//! taken.

use super::NONE;
use super::hybrid::{Hybrid, LogKind, LogPolicy, MakeRoom};

/// Block mapping of one unit; [`HybridConfig::logs`](super::hybrid::HybridConfig::logs) replacement blocks may be open
/// at once.
pub type BlockFtl = Hybrid<BlockPolicy>;

/// A replacement block for each logical block that is overwritten; the one written least recently is closed first.
#[derive(Clone, Copy, Debug)]
pub enum BlockPolicy {}

impl LogPolicy for BlockPolicy {
    /// A replacement block is itself what is merged into.
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
