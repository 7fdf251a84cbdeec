//! Fully associative sector translation (FAST): one sequential log block, and random log blocks shared by all logical
//! blocks.
//!
//! Source: Lee, Park, Chung, Lee, Park and Song, "A log buffer-based flash translation layer using fully-associative
//! sector translation", ACM Transactions on Embedded Computing Systems 6(3), 2007; its abstract, and summaries of the
//! rest: the full text was not available. A write of a logical block's first page opens the sequential log block for
//! it, after merging the one before; the pages that follow in order are appended. A page of the same logical block out
//! of order closes it: it is merged, by a switch or partially. All others go to the random log blocks, in order of
//! writing. When those are full, the oldest is reclaimed: each logical block that has a page in it is merged fully,
//! with its newest pages wherever they are.
//!
//! Ours, beyond the ascending order in data blocks (see [`bast`](super::bast)): a page that closes the sequential log
//! block goes to the random ones; a random log block without a valid page is erased without a merge; when so many
//! blocks have failed that only one log block is left, it is a random one.

use super::NONE;
use super::hybrid::{Hybrid, LogKind, LogPolicy, MakeRoom};

/// FAST mapping of one unit.
pub type Fast = Hybrid<FastPolicy>;

/// A sequential log block, and random log blocks of which the oldest is reclaimed first.
#[derive(Clone, Copy, Debug)]
pub enum FastPolicy {}

/// Whether there is a sequential log block in addition to the random ones.
#[inline]
fn has_sequential(ftl: &Fast) -> bool {
    ftl.log_limit() > 1
}

impl LogPolicy for FastPolicy {
    const SPARE: u32 = 1;
    const LOGS: LogKind = LogKind::Shared;

    #[inline]
    fn open_block(ftl: &Fast, lpn: u32) -> Option<u32> {
        let (logical, offset) = ftl.split(lpn);
        let held = ftl.logical(logical);
        if held.log != NONE {
            return ftl.takes_next(held.log, offset).then_some(held.log);
        }
        if ftl.takes_next(held.data, offset) {
            return Some(held.data);
        }
        if offset == 0 && (held.data == NONE || has_sequential(ftl)) {
            return None;
        }
        ftl.shared.back().copied().filter(|&block| ftl.has_room(block))
    }

    fn make_room(ftl: &mut Fast, lpn: u32) -> MakeRoom {
        let (logical, offset) = ftl.split(lpn);
        let sequential = has_sequential(ftl);
        let held = *ftl.logical(logical);
        // The logical block of the sequential log block.
        let owner = ftl.least_recent_log();
        if held.log != NONE {
            return MakeRoom::Merge(logical);
        }
        let opened = if offset == 0 && held.data == NONE {
            ftl.take_data(logical)
        } else if offset == 0 && sequential {
            if let Some(owner) = owner {
                return MakeRoom::Merge(owner);
            }
            ftl.take_log(logical)
        } else if ftl.shared.len() as u32 + u32::from(sequential) < ftl.log_limit() {
            ftl.take_shared()
        } else {
            None
        };
        if opened.is_some() {
            return MakeRoom::Opened;
        }
        match (ftl.shared.front().copied(), owner) {
            (Some(oldest), None) if ftl.empty(oldest) => MakeRoom::Emptying,
            (Some(oldest), Some(_)) if sequential && ftl.empty(oldest) => MakeRoom::Emptying,
            (_, Some(owner)) => MakeRoom::Merge(owner),
            (_, None) => MakeRoom::Nothing,
        }
    }
}
