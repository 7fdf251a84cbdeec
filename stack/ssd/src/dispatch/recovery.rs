//! Failed programs, and copies whose source cannot be read.
//!
//! The data of a failed program are still in the controller's memory. They are programmed elsewhere before the die's
//! other writes, and read from memory until then. If the unit has no space left they stay in memory as long as there is
//! power. Contents that could not be read are never presented as good: the dispatcher remembers the physical page they
//! were copied to, and reads of it fail until the page is written again.

use sim::Cause;
use sim::seam::{BlockError, Flash};

use super::Dispatcher;
use super::die::{Kind, Op};
use super::io::{Io, IoKind, Owner};
use crate::ftl::{NONE, UnitFtl};

impl<F: Flash, M: UnitFtl> Dispatcher<F, M> {
    /// Queues the data of a failed program to be programmed elsewhere, before the die's other writes.
    pub(super) fn relocate_failed(&mut self, d: u32, op: &Op, page: usize, now: u64) {
        let (unit, ppn, io) = (op.unit, op.at[page], op.io[page]);
        let lpn = self.units[unit as usize].holds(ppn);
        self.units[unit as usize].program_failed(ppn);
        if lpn == NONE {
            // Overwritten or trimmed meanwhile: nothing is lost.
            self.old.retain(|&(of, _), &mut at| (of, at) != (unit, ppn));
            self.recovering.retain(|&(_, _, other)| other != io);
            self.lost_ios.retain(|&other| other != io);
            if io != NONE {
                self.finish(io, op);
            }
            return;
        }
        let again = if io != NONE {
            if self.ios[io].kind == IoKind::Merge {
                self.ios[io].kind = IoKind::Write;
                if op.from[page] != NONE
                    && let Some(mut contents) = self.rescue(unit, op.from[page], io)
                {
                    self.ios.overlay(io, &mut contents);
                    self.ios.set_page(io, contents, u128::MAX);
                }
            }
            io
        } else {
            let moved = self.ios.add(Self::io(IoKind::Write, Cause::Recovery, unit, lpn, Owner::Recovery));
            if let Some(contents) = self.rescue(unit, op.from[page], moved) {
                self.ios.set_page(moved, contents, u128::MAX);
            }
            moved
        };
        // The latency of the failed attempt is booked; the wait begins anew.
        let seen = self.dies[d as usize].internal_time(now);
        let waiting = &mut self.ios[again];
        if io != NONE {
            waiting.latency.bus += op.bus;
            waiting.latency.die += op.array;
            waiting.latency.queue += op.waited;
        }
        (waiting.queued_at, waiting.seen) = (now, seen);
        self.recovering.retain(|&(_, _, other)| other != again);
        self.recovering.push((unit, lpn, again));
        // A write that was placed after it keeps its physical page and is programmed after it.
        self.dies[d as usize].writes.push_front(&mut self.ios, again);
    }

    /// Fails a write for which its unit has no space, now or later. Data of a failed program stay in memory.
    pub(super) fn out_of_space(&mut self, d: u32, write: u32, now: u64) {
        let recovers = self.recovering.iter().position(|&(_, _, io)| io == write);
        if let Some(at) = recovers {
            let unit = self.ios[write].unit;
            if !self.full.contains(&unit) {
                self.full.push(unit);
            }
            if self.ios[write].owner == Owner::Recovery {
                return;
            }
            let kept = self.ios.add(Io { owner: Owner::Recovery, ..self.ios[write].clone() });
            if let Some(page) = F::kept(|| self.ios.page(write).to_vec()) {
                self.ios.set_page(kept, page, u128::MAX);
            }
            self.recovering[at].2 = kept;
            self.lost_ios.iter_mut().filter(|lost| **lost == write).for_each(|lost| *lost = kept);
        }
        self.waited(d, write, now);
        self.ios[write].result = Err(BlockError::WornOut { why: "no free block is left in a unit" });
        self.finished.push(write);
    }

    /// Whether a page operation was to program a page elsewhere that has been trimmed since.
    pub(super) fn is_cancelled(&self, write: u32) -> bool {
        let io = &self.ios[write];
        io.owner == Owner::Recovery
            && io.cause == Cause::Recovery
            && !self.recovering.iter().any(|&(_, _, other)| other == write)
    }

    /// Releases a cancelled page operation.
    pub(super) fn drop_recovery(&mut self, write: u32) {
        self.lost_ios.retain(|&other| other != write);
        self.ios.release(write);
    }

    /// Cancels the recovery of a page because it is trimmed.
    pub(super) fn cancel_recovery(&mut self, unit: u32, lpn: u32) {
        if !self.recovering.is_empty() {
            self.recovering.retain(|&(at, page, _)| (at, page) != (unit, lpn));
        }
    }

    /// Whether the page about to be programmed has contents that could not be read. If so, marks the physical page as
    /// lost.
    pub(super) fn mark_if_lost(&mut self, op: &Op, page: usize, unreadable: bool) -> bool {
        let (from, io) = (op.from[page], op.io[page]);
        let passed_on = op.kind == Kind::Copy && self.lost.contains(&(op.unit, from));
        let lost = unreadable || passed_on || self.lost_ios.contains(&io);
        if lost {
            self.counts.lost += u64::from(!passed_on);
            self.lost.insert((op.unit, op.at[page]));
        }
        lost
    }

    /// Contents of the source of a page that is to be programmed elsewhere, if the flash keeps any. If they cannot be
    /// read, marks `io` as carrying lost contents.
    fn rescue(&mut self, unit: u32, from: u32, io: u32) -> Option<Vec<u8>> {
        F::kept(|| {
            let mut contents = self.blank_page();
            if self.cells.read(unit, from, &mut contents).is_err() || self.lost.contains(&(unit, from)) {
                self.lost_ios.push(io);
            }
            contents
        })
    }

    /// Forgets the lost pages of a block, which is being erased.
    pub(super) fn forget_lost(&mut self, unit: u32, block: u32) {
        if !self.lost.is_empty() {
            let cells = &self.cells;
            self.lost.retain(|&(of, at)| of != unit || cells.block(at) != block);
        }
    }
}
