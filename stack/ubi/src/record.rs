//! A record of what UBI is asked for, and of its erasures, in the order in which it does them: as the guest's kernel keeps
//! one of Linux's UBI.

use sim::seam::Flash;
use sim::{Cx, Lnum, Ns, Peb, VolId};

use crate::device::Ubi;
use crate::wl::Owner;

/// What UBI is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Map a LEB to a PEB without writing to it.
    Map,
    /// Unmap a LEB.
    Unmap,
    /// Write to a LEB.
    Write,
    /// Write a LEB of a static volume.
    WriteStatic,
    /// Atomic LEB change.
    Change,
    /// Copy a LEB to another PEB: wear levelling and scrubbing.
    Move,
}

/// What happens to a LEB or a PEB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// UBI is called.
    Call {
        /// What it is asked for.
        op: Op,
        /// Volume; that of the volume table is [`LAYOUT_VOLUME_ID`](crate::media::LAYOUT_VOLUME_ID).
        vol_id: VolId,
        /// The LEB.
        lnum: Lnum,
        /// First byte in the LEB of a write.
        offset: u32,
        /// Bytes of a write or change.
        len: u32,
    },
    /// A PEB is erased.
    Erase(Peb),
}

/// A call of UBI or an erasure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it begins.
    pub at: Ns,
    /// Who does it: [`Cx::actor`].
    pub actor: &'static str,
    /// What it is.
    pub what: What,
}

/// What is recorded and was not taken yet.
pub type Record = Vec<Event>;

impl<F: Flash> Ubi<F> {
    /// Goes on with a record from now on, also one of another attach; `None` records nothing.
    pub fn set_record(&mut self, record: Option<Record>) {
        self.record = record;
    }

    /// Ends the record, if there is one. Returns what was not taken.
    pub fn take_record(&mut self) -> Option<Record> {
        self.record.take()
    }

    /// Takes what was recorded since the last call.
    pub fn recorded(&mut self) -> impl Iterator<Item = Event> {
        self.record.iter_mut().flat_map(|record| record.drain(..))
    }

    /// Records a call, if there is a record.
    #[inline]
    pub(crate) fn note(&mut self, cx: &Cx, op: Op, Owner { vol_id, lnum }: Owner, (offset, len): (u32, u32)) {
        if let Some(record) = &mut self.record {
            let what = What::Call { op, vol_id, lnum, offset, len };
            record.push(Event { at: cx.now(), actor: cx.actor(), what });
        }
    }

    /// Records an erasure, if there is a record.
    #[inline]
    pub(crate) fn note_erase(&mut self, cx: &Cx, peb: Peb) {
        if let Some(record) = &mut self.record {
            record.push(Event { at: cx.now(), actor: cx.actor(), what: What::Erase(peb) });
        }
    }
}
