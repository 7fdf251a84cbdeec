//! What happens when a phase of an operation ends: cells change, page operations finish, the next phase begins.

use sim::seam::{BlockError, Flash, FlashError};
use sim::{Cause, Ns};

use super::die::{Class, Kind, Op, Register, Stage};
use super::{BusOrder, Dispatcher, Scheduling};
use crate::cells::Held;
use crate::ftl::{NONE, UnitFtl};

impl<F: Flash, M: UnitFtl> Dispatcher<F, M> {
    /// Handles the event of a die's page register: the end of a phase of its operation, of a suspend, or of the idle
    /// time before background work.
    pub(super) fn page_register_event(&mut self, d: u32, now: u64) {
        let die = &mut self.dies[d as usize];
        if die.settling {
            die.settling = false;
            return self.pick(d, now);
        }
        if die.idling {
            die.idling = false;
            return self.background(d, now);
        }
        let Some(op) = &die.page_register else { return };
        match (op.kind, op.stage) {
            (Kind::Read, Stage::Array) => self.read_done(d, now),
            (Kind::Copy, _) => self.copy_phase(d, now),
            (Kind::Read | Kind::Program | Kind::Erase, _) => self.end(d, now),
        }
    }

    /// Handles the end of a transfer from or to a die's cache register.
    pub(super) fn cache_register_event(&mut self, d: u32, now: u64) {
        let die = &mut self.dies[d as usize];
        let Some(side) = &mut die.cache_register else { return };
        if side.kind == Kind::Read {
            let op = die.cache_register.take().expect("looked at above");
            op.io[..usize::from(op.n)].iter().for_each(|&io| self.finish(io, &op));
            // A read whose data wait in the page register moves into the cache register, so that the next read can
            // begin.
            if let Some(main) = self.dies[d as usize].page_register
                && main.kind == Kind::Read
                && main.stage == Stage::Out
                && self.is_waiting(d, Class::Out)
            {
                self.move_out(d, main, now);
            }
            return;
        }
        side.stage = Stage::Ready;
        side.ends = now;
        if die.page_register.is_none() && !die.settling {
            self.pick(d, now);
        }
    }

    fn is_waiting(&self, d: u32, class: Class) -> bool {
        let die = &self.dies[d as usize];
        self.channels[die.channel as usize].waiting[class as usize][Register::Page as usize] >> die.slot & 1 == 1
    }

    /// A read leaves the array: its data cross the bus, from the cache register if cache reads are on, the register is
    /// empty and another read waits.
    fn read_done(&mut self, d: u32, now: u64) {
        let Some(op) = &self.dies[d as usize].page_register else { return };
        let of_map = op.io[..usize::from(op.n)].iter().filter(|&&io| self.ios[io].cause == Cause::Map).count() as u64;
        self.counts.map_reads += of_map;
        self.counts.host_reads += u64::from(op.n) - of_map;
        let op = *op;
        for (&io, &from) in op.io.iter().zip(&op.from).take(op.n.into()) {
            self.fetch(io, op.unit, from);
        }
        let die = &self.dies[d as usize];
        if self.config.timing.cache_read
            && die.cache_register.is_none()
            && !die.reads.is_empty()
            && let Some(op) = die.page_register
        {
            self.move_out(d, op, now);
        } else {
            self.want(d, Register::Page, Class::Out, now);
        }
    }

    /// Moves a read into the cache register and starts the die's next operation.
    fn move_out(&mut self, d: u32, op: Op, now: u64) {
        let die = &mut self.dies[d as usize];
        self.channels[die.channel as usize].waiting[Class::Out as usize][Register::Page as usize] &= !(1 << die.slot);
        die.account(now);
        die.page_register = None;
        let since = if op.stage == Stage::Out { op.wants_since } else { now };
        die.cache_register = Some(op);
        if self.config.bus_order == BusOrder::CommandsFirst {
            // The next read's command goes before the data of this one, so that the array works meanwhile.
            self.pick(d, now);
            self.want(d, Register::Cache, Class::Out, now);
        } else {
            self.want(d, Register::Cache, Class::Out, now);
            self.pick(d, now);
        }
        if let Some(side) = &mut self.dies[d as usize].cache_register {
            side.bus += now - since;
        }
    }

    /// Continues a copy, or a write that is merged with the rest of its page, after one of its phases.
    fn copy_phase(&mut self, d: u32, now: u64) {
        let Some(op) = &self.dies[d as usize].page_register else { return };
        let all_read = op.read == op.n;
        let in_place = self.config.timing.copyback
            && (0..usize::from(op.n))
                .all(|page| op.io[page] == NONE && self.cells.plane(op.from[page]) == self.cells.plane(op.at[page]));
        match op.stage {
            Stage::Array if all_read => return self.end(d, now),
            Stage::Array if !in_place => return self.want(d, Register::Page, Class::Out, now),
            _ => {}
        }
        // These pages are now in the controller; with copyback, in the page registers.
        self.counts.internal_reads += u64::from(op.run);
        let op = self.dies[d as usize].page_register.as_mut().expect("the copy under way");
        op.read += op.run;
        if op.read < op.n {
            self.next_run(d);
            return self.want(d, Register::Page, Class::Command, now);
        }
        self.want(d, Register::Page, if in_place { Class::Command } else { Class::In }, now);
    }

    /// Ends an operation: changes its cells, finishes its page operations and starts the die's next operation.
    fn end(&mut self, d: u32, now: u64) {
        let die = &mut self.dies[d as usize];
        die.account(now);
        if let Some(op) = &die.page_register
            && op.kind == Kind::Read
        {
            // Without a copy of the whole operation, which would slow every read down.
            let (ios, n, bus, array, waited) = (op.io, usize::from(op.n), op.bus, op.array, op.waited);
            die.page_register = None;
            ios[..n].iter().for_each(|&io| self.finish_with(io, bus, array, waited));
            return self.pick(d, now);
        }
        let Some(op) = die.page_register else { return };
        die.page_register = None;
        if op.kind == Kind::Erase {
            self.erase_cells(&op);
        } else {
            self.program_cells(d, &op, now);
        }
        self.pick(d, now);
    }

    #[inline]
    pub(super) fn finish(&mut self, io: u32, op: &Op) {
        self.finish_with(io, op.bus, op.array, op.waited);
    }

    #[inline]
    fn finish_with(&mut self, io: u32, bus: u64, array: u64, waited: u64) {
        let latency = &mut self.ios[io].latency;
        latency.bus += bus;
        latency.die += array;
        latency.queue += waited;
        self.finished.push(io);
    }

    fn program_cells(&mut self, d: u32, op: &Op, now: u64) {
        self.counts.program_ops += 1;
        for page in 0..usize::from(op.n) {
            let (ppn, io) = (op.at[page], op.io[page]);
            // Pages of one row may be programmed for different causes.
            let cause = if io == NONE { op.cause } else { self.ios[io].cause };
            match self.program_page(op, page, cause) {
                Ok(()) => {
                    self.counts.programs[cause] += 1;
                    if !self.recovering.is_empty() && io != NONE {
                        self.recovering.retain(|&(_, _, moved)| moved != io);
                        self.lost_ios.retain(|&other| other != io);
                    }
                    if io != NONE {
                        self.finish(io, op);
                    } else if self.reports_moves {
                        let lpn = self.units[op.unit as usize].holds(ppn);
                        if lpn != NONE {
                            self.moved.push((op.unit, lpn));
                        }
                    }
                }
                Err(FlashError::PowerLost) => {
                    self.power_lost = true;
                    if io != NONE {
                        self.ios[io].result = Err(BlockError::PowerLost);
                        self.finished.push(io);
                    }
                    return;
                }
                Err(error) if io == NONE && self.is_checkpoint_block(op.unit, self.cells.block(ppn)) => {
                    self.checkpoint_failed(op.unit, &error);
                }
                Err(_) => self.relocate_failed(d, op, page, now),
            }
        }
    }

    /// Programs a page. The contents, if the flash keeps any, are those of the write, of the write merged with the old
    /// page, or of the copy's source.
    fn program_page(&mut self, op: &Op, page: usize, cause: Cause) -> Result<(), FlashError> {
        let (ppn, io) = (op.at[page], op.io[page]);
        if !F::KEEPS_BYTES {
            // Nothing can be lost, and pages have no tags. This short path makes writes 3 % faster.
            return self.cells.program(cause, op.unit, ppn, None);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let (mut source, mut own) = (Ok(()), None);
        let contents = F::offer(&mut scratch, self.shape.page_bytes, |contents| {
            if op.kind == Kind::Copy && op.from[page] != NONE {
                source = self.cells.read(op.unit, op.from[page], contents).map(drop);
            }
            if io != NONE {
                self.ios.overlay(io, contents);
            } else if op.kind == Kind::Program && self.checkpoints.is_some() {
                own = self.checkpoint_page(op.unit, ppn, contents);
            }
        });
        let outcome = match source {
            Err(FlashError::PowerLost) => Err(FlashError::PowerLost),
            other => {
                let lost = self.mark_if_lost(op, page, other.is_err());
                if self.cells.is_tagged() {
                    let held = own.unwrap_or_else(|| self.oob_of(op, page));
                    self.cells.program_tagged(cause, op.unit, ppn, contents, Held { lost, ..held })
                } else {
                    self.cells.program(cause, op.unit, ppn, contents.bytes())
                }
            }
        };
        self.scratch = scratch;
        outcome
    }

    /// The fields of the tag that a page of an operation gets. A copy keeps its source's: the FTL may already map the
    /// logical page to a newer write that is not in the cells yet.
    fn oob_of(&mut self, op: &Op, page: usize) -> Held {
        let (ppn, io) = (op.at[page], op.io[page]);
        let unit = &self.units[op.unit as usize];
        let erases = unit.erase_counts()[self.cells.block(ppn) as usize];
        let fresh = |lpn| Held { lpn, padding: false, version: None, erases, lost: false };
        if io != NONE {
            return fresh(self.ios[io].lpn);
        }
        if op.kind != Kind::Copy {
            return Held { padding: true, ..fresh(op.from[page]) };
        }
        let lpn = unit.holds(ppn);
        if self.cells.known_bad.copies_are_new_versions {
            return fresh(lpn);
        }
        let source = self.cells.tag(op.unit, op.from[page]);
        source.map_or(fresh(lpn), |tag| Held { version: Some(tag.version), ..fresh(tag.lpn) })
    }

    fn erase_cells(&mut self, op: &Op) {
        let block = op.from[0];
        if !self.old.is_empty() {
            let cells = &self.cells;
            self.old.retain(|&(of, _), &mut at| of != op.unit || cells.block(at) != block);
        }
        self.forget_lost(op.unit, block);
        let own = self.is_checkpoint_block(op.unit, block);
        let outcome = self.cells.erase(op.cause, op.unit, block);
        match &outcome {
            Ok(()) => self.counts.erases += 1,
            Err(FlashError::PowerLost) => {
                self.power_lost = true;
                return;
            }
            Err(error) => {
                // Without power the block cannot be marked bad; it is marked when it fails again.
                let _ = self.cells.mark_bad(op.unit, block);
                if own {
                    self.checkpoint_failed(op.unit, error);
                }
            }
        }
        if !own {
            self.units[op.unit as usize].erased(block, outcome.is_ok());
        }
    }

    /// Power was lost at `now`: tears the programs and erases in progress on other dies as well, suspended ones
    /// included. Before each of them, `again` must restore power to the flash and arm a cut at its very next operation.
    /// The drive does nothing else from then on.
    pub fn tear_under_way(&mut self, now: Ns, mut again: impl FnMut(&mut F)) {
        for d in 0..self.dies.len() {
            let die = &self.dies[d];
            let changes_cells = |op: &Op| {
                let programs = op.kind == Kind::Program || op.kind == Kind::Copy && op.read == op.n;
                op.stage == Stage::Array && op.starts <= now.0 && (programs || op.kind == Kind::Erase)
            };
            let under_way = [die.page_register.filter(changes_cells), die.suspended];
            for op in under_way.into_iter().flatten() {
                again(self.cells.flash_mut());
                match op.kind {
                    Kind::Erase => self.erase_cells(&op),
                    _ => self.program_cells(d as u32, &op, now.0),
                }
            }
        }
    }

    /// Takes the next program into the cache register while the array programs, if the part has cache programs.
    pub(super) fn stage_next(&mut self, d: u32, now: u64) {
        let die = &self.dies[d as usize];
        let wanted = self.config.timing.cache_program
            && die.cache_register.is_none()
            && die.deferred.is_none()
            && !self.reads_wait(d)
            && !die.writes.is_empty()
            && self.config.scheduling != Scheduling::InOrder;
        if !wanted {
            return;
        }
        if !self.next_work(d, Register::Cache, now) {
            return;
        }
        let die = &mut self.dies[d as usize];
        let op = die.held_by(Register::Cache);
        if op.kind == Kind::Program {
            return self.want(d, Register::Cache, Class::In, now);
        }
        // An operation that cannot use the cache register is held until the array is free.
        op.wants_since = now;
        die.held = die.cache_register.take();
    }
}
