//! Where the time of dies and buses goes, by cause and work, for a flame graph. Recorded only if that was asked for.
//!
//! It is booked where the busy time of a die or bus is, so that the sums are the same.

use sim::flame::Work;
use sim::seam::Flash;
use sim::{Cause, Ns};

use super::Dispatcher;
use super::die::{Kind, Op, Register};
use crate::ftl::{NONE, UnitFtl};

/// Time of dies and buses by cause and work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NandTime {
    /// Nanoseconds of the arrays of all dies. What a suspend takes back was booked before.
    dies: [[i64; Work::ALL.len()]; Cause::ALL.len()],
    /// Nanoseconds of all buses.
    buses: [i64; Cause::ALL.len()],
}

impl NandTime {
    /// Time in which arrays worked, by cause and work, without those that took none.
    pub fn dies(&self) -> impl Iterator<Item = (Cause, Work, Ns)> + '_ {
        let all = Cause::ALL.into_iter().flat_map(|cause| Work::ALL.map(|work| (cause, work)));
        all.map(|(cause, work)| (cause, work, Ns(self.dies[cause as usize][work as usize].max(0).cast_unsigned())))
            .filter(|(_, _, span)| *span > Ns::ZERO)
    }

    /// Time in which buses worked, by cause, without those that took none.
    pub fn buses(&self) -> impl Iterator<Item = (Cause, Ns)> + '_ {
        let all = Cause::ALL.into_iter().map(|cause| (cause, Ns(self.buses[cause as usize].max(0).cast_unsigned())));
        all.filter(|(_, span)| *span > Ns::ZERO)
    }
}

impl<F: Flash, M: UnitFtl> Dispatcher<F, M> {
    /// Records from now on where the time of dies and buses goes.
    pub fn record(&mut self) {
        self.nand_time = Some(Box::default());
    }

    /// Ends the record, if there is one.
    pub fn stop_recording(&mut self) -> Option<NandTime> {
        self.nand_time.take().map(|time| *time)
    }

    /// Why an operation is done: a read for its first page's cause.
    fn cause_of(&self, op: &Op) -> Cause {
        match op.kind {
            Kind::Read if op.io[0] != NONE => self.ios[op.io[0]].cause,
            _ => op.cause,
        }
    }

    /// What the array does in an operation's next phase, or in the one under way.
    fn work_of(op: &Op) -> Work {
        match op.kind {
            Kind::Erase => Work::Erase,
            Kind::Program => Work::Program,
            Kind::Copy if op.read == op.n => Work::Program,
            Kind::Copy | Kind::Read => Work::Read,
        }
    }

    /// Books time of an array for an operation; less than 0 of one that was booked and did not come.
    #[cold]
    pub(super) fn record_array(&mut self, op: &Op, span: i64) {
        let cause = self.cause_of(op);
        if let Some(time) = &mut self.nand_time {
            time.dies[cause as usize][Self::work_of(op) as usize] += span;
        }
    }

    /// Books time of the bus for the operation in a register, and that of the array which follows.
    #[cold]
    pub(super) fn record_grant(&mut self, d: u32, register: Register, span: u64, array: u64) {
        let op = *self.dies[d as usize].held_by(register);
        let cause = self.cause_of(&op);
        if let Some(time) = &mut self.nand_time {
            time.buses[cause as usize] += span.cast_signed();
        }
        // Independent reads overlap: `book_array` books what each adds.
        if self.groups == 1 {
            self.record_array(&op, array.cast_signed());
        }
    }
}
