//! A log of what UBI is asked for: by Linux in the guest, or by a load on nandlab's own.

use guest::protocol::{UbiCall, UbiOp};
use nand::{Array, Store};
use sim::{Ns, Peb};
use ubi::Ubi;
use ubi::record::{Event, Op, What};

/// A call of UBI, or an erasure.
#[derive(Clone, Copy, Debug)]
pub struct UbiEvent<'a> {
    /// When, since the job or load began.
    pub at: Ns,
    /// The process that calls: a program, or a thread as UBI's background thread.
    pub process: &'a [u8],
    /// What it calls.
    pub what: UbiDoes,
}

/// What happens to a LEB or a PEB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UbiDoes {
    /// UBI is called.
    Call(UbiCall),
    /// A PEB is erased.
    Erase(Peb),
}

/// Gets the calls and erasures in the order in which UBI does them.
pub type UbiLog<'a> = &'a mut dyn FnMut(&UbiEvent<'_>);

/// What Linux calls UBI's background thread.
pub(super) const UBI_THREAD: &str = "ubi_bgt0d";
/// What Linux calls UBIFS's background thread.
pub(super) const UBIFS_THREAD: &str = "ubifs_bgt0_0";
/// What Linux calls the thread that writes back what is dirty in the page cache.
pub(super) const FLUSHER: &str = "kworker";

/// Hands on what a device has recorded since the last call.
pub(super) fn hand_on<S: Store>(device: &mut Ubi<Array<S>>, started: Ns, log: &mut dyn FnMut(&UbiEvent<'_>)) {
    for event in device.recorded() {
        log(&UbiEvent::of(&event, started));
    }
}

impl UbiEvent<'_> {
    /// An event of nandlab's UBI under a load that began at `started`. A thread may have begun before.
    fn of(event: &Event, started: Ns) -> UbiEvent<'static> {
        let what = match event.what {
            What::Erase(peb) => UbiDoes::Erase(peb),
            What::Call { op, vol_id, lnum, offset, len } => UbiDoes::Call(UbiCall {
                op: match op {
                    Op::Map => UbiOp::Map,
                    Op::Unmap => UbiOp::Unmap,
                    Op::Write => UbiOp::Write,
                    Op::WriteStatic => UbiOp::WriteStatic,
                    Op::Change => UbiOp::Change,
                    Op::Move => UbiOp::Move,
                },
                volume: vol_id.0,
                leb: lnum.0,
                offset,
                bytes: len,
            }),
        };
        UbiEvent { at: Ns(event.at.0.saturating_sub(started.0)), process: event.actor.as_bytes(), what }
    }
}
