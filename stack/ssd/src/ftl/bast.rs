//! Block-associative sector translation (BAST): a log block for each logical block that is being overwritten.
//!
//! Source: Kim, Kim, Noh, Min and Cho, "A space-efficient flash translation layer for CompactFlash systems", IEEE
//! Transactions on Consumer Electronics 48(2), 2002, as later papers describe it (Lee et al. 2007, section 2). A page
//! goes into the data block of its logical block if it is the next one there, otherwise into the log block, in order of
//! writing. A full log block is merged with its data block: by a switch if it holds all pages in order, partially if it
//! holds the first ones in order, otherwise fully. If all log blocks are in use, the one written least recently is
//! merged first.
//!
//! Ours: NAND blocks are programmed in ascending order, so a first write beyond a data block's next page goes to the
//! log too (parts of 2002 allowed any order); a data block is allocated when the first page of its logical block is
//! written, or by a merge. Complete log blocks in order are switched in idle times.

use super::NONE;
use super::hybrid::{Hybrid, LogKind, LogPolicy, MakeRoom};

/// BAST mapping of one unit.
pub type Bast = Hybrid<BastPolicy>;

/// A log block for each logical block that is overwritten; the one written least recently is merged first.
#[derive(Clone, Copy, Debug)]
pub enum BastPolicy {}

impl LogPolicy for BastPolicy {
    const SPARE: u32 = 1;
    const LOGS: LogKind = LogKind::PerBlock;

    #[inline]
    fn open_block(ftl: &Bast, lpn: u32) -> Option<u32> {
        let (logical, offset) = ftl.split(lpn);
        let held = ftl.logical(logical);
        if ftl.takes_next(held.data, offset) {
            return Some(held.data);
        }
        ftl.has_room(held.log).then_some(held.log)
    }

    fn make_room(ftl: &mut Bast, lpn: u32) -> MakeRoom {
        let (logical, offset) = ftl.split(lpn);
        let held = *ftl.logical(logical);
        if held.log != NONE {
            // The log block is full, or a program in it failed.
            return MakeRoom::Merge(logical);
        }
        let opened = if offset == 0 && held.data == NONE {
            ftl.take_data(logical)
        } else if ftl.opened() < ftl.log_limit() {
            ftl.take_log(logical)
        } else {
            None
        };
        match opened {
            Some(_) => MakeRoom::Opened,
            None => ftl.least_recent_log().map_or(MakeRoom::Nothing, MakeRoom::Merge),
        }
    }
}
