//! What a die does next.

use sim::seam::Flash;
use sim::{Cause, Ns};

use super::die::{Class, Deferred, Kind, Register, Stage};
use super::io::IoKind;
use super::{Dispatcher, Scheduling};
use crate::ftl::{NONE, Place, Step, UnitFtl};

impl<F: Flash, M: UnitFtl> Dispatcher<F, M> {
    /// The die is free: starts its next operation. In this order: a program in the cache register, a read, the
    /// suspended operation, FTL work and writes, background work.
    pub(super) fn pick(&mut self, d: u32, now: u64) {
        if self.groups > 1 {
            return self.pick_groups(self.dies[d as usize].main, now);
        }
        let die = &mut self.dies[d as usize];
        debug_assert!(die.page_register.is_none() && !die.settling);
        if die.idling {
            die.idling = false;
            self.agenda.clear(d as usize);
        }
        if self.start_prepared(d, now) || self.power_lost {
            return;
        }
        self.dies[d as usize].account(now);
        if self.next_read(d, d, now) {
            return self.begin(d, now);
        }
        self.pick_other(d, now);
    }

    /// Starts the program in the die's cache register, if there is one and its data are there: it was placed first.
    /// Returns whether there is one.
    #[inline(always)]
    pub(super) fn start_prepared(&mut self, d: u32, now: u64) -> bool {
        let die = &mut self.dies[d as usize];
        let Some(side) = die.cache_register.filter(|side| side.kind != Kind::Read) else { return false };
        if side.stage == Stage::Ready {
            die.cache_register = None;
            self.start_array(d, side, now);
        }
        true
    }

    /// The die is free and no read is next: resumes what was suspended, starts FTL work or a write, or goes idle.
    #[inline(always)]
    pub(super) fn pick_other(&mut self, d: u32, now: u64) {
        let die = &mut self.dies[d as usize];
        if die.suspended.is_some()
            && let Some(op) = die.suspended.take()
        {
            return self.resume(d, op, now);
        }
        if self.next_work(d, Register::Page, now) {
            return self.begin(d, now);
        }
        if self.reads_wait(d) {
            // These reads waited for earlier writes, which found no space and are gone.
            return self.pick(d, now);
        }
        self.go_idle(d, now);
    }

    fn go_idle(&mut self, d: u32, now: u64) {
        let die = &mut self.dies[d as usize];
        die.since = now;
        if die.background {
            return self.background(d, now);
        }
        if let Some(after) = self.config.background_after {
            die.idling = true;
            self.agenda.set(d as usize, Ns(now) + after);
        }
    }

    /// Puts the next read of an entry of die `main` into its page register, if a read is next. Reads that memory can
    /// serve finish at once. Returns whether the register now holds a read. Inlined into its two callers: as a function
    /// it makes every read slower.
    #[inline(always)]
    pub(super) fn next_read(&mut self, d: u32, main: u32, now: u64) -> bool {
        loop {
            let Some(first) = self.dies[d as usize].reads.front() else { return false };
            if self.config.scheduling == Scheduling::InOrder
                && let Some(write) = self.dies[main as usize].writes.front()
                && self.ios[write].queued_at < self.ios[first].queued_at
            {
                return false;
            }
            self.dies[d as usize].reads.pop(&self.ios);
            let (unit, lpn) = (self.ios[first].unit, self.ios[first].lpn);
            let mut ppn = self.place_of_read(first);
            if ppn == NONE {
                ppn = self.old.get(&(unit, lpn)).copied().unwrap_or(NONE);
            }
            if self.read_from_memory(main, first, unit, lpn, ppn) {
                self.ios[first].latency.queue += now - self.ios[first].queued_at;
                self.finished.push(first);
                continue;
            }
            if self.groups > 1 && self.moved_group(d, first, unit, ppn) {
                continue;
            }
            self.waited(main, first, now);
            let slc = self.is_slc(unit, ppn);
            let checked = self.ios[first].checked;
            let op = self.dies[d as usize].fresh(Register::Page, Kind::Read, unit, Cause::Host);
            (op.slc, op.checked, op.from[0], op.io[0]) = (slc, checked, ppn, first);
            self.join_reads(d, main, unit, ppn, now);
            return true;
        }
    }

    /// Adds the reads at the head of the queue that are in the same row on other planes: one multi-plane read.
    #[inline]
    fn join_reads(&mut self, d: u32, main: u32, unit: u32, first: u32, now: u64) {
        for n in 1..self.shape.unit_planes() as usize {
            let Some(next) = self.dies[d as usize].reads.front() else { return };
            let io = &self.ios[next];
            if io.unit != unit {
                return;
            }
            let ppn = self.place_of_read(next);
            let op = self.dies[d as usize].held_by(Register::Page);
            let other_row = self.planes.quotient(ppn) != self.planes.quotient(first) || op.from[..n].contains(&ppn);
            let other_group = self.groups > 1 && ppn != NONE && self.group_of(unit, ppn) != d;
            if other_row || other_group || self.in_memory(main, unit, io.lpn, ppn).is_some() {
                return;
            }
            let checked = io.checked;
            self.dies[d as usize].reads.pop(&self.ios);
            self.waited(main, next, now);
            let op = self.dies[d as usize].held_by(Register::Page);
            (op.from[n], op.io[n], op.n) = (ppn, next, n as u8 + 1);
            op.checked |= checked;
        }
    }

    /// Adds the time from queueing to `now` to the latency of `io`, when its die starts it.
    #[inline]
    pub(super) fn waited(&mut self, d: u32, io: u32, now: u64) {
        let seen = self.dies[d as usize].internal_time(now);
        let io = &mut self.ios[io];
        let (gc, erase) = (seen.gc - io.seen.gc, seen.erase - io.seen.erase);
        io.latency.gc += gc;
        io.latency.erase += erase;
        io.latency.queue += now - io.queued_at - gc - erase;
    }

    /// Puts the die's next operation into `register`: a held operation, work that the FTL requires, or the next write.
    /// Returns whether there is one.
    pub(super) fn next_work(&mut self, d: u32, register: Register, now: u64) -> bool {
        let die = &mut self.dies[d as usize];
        if die.held.is_some()
            && let Some(mut op) = die.held.take()
        {
            op.waited += now - op.wants_since;
            *(if register == Register::Page { &mut die.page_register } else { &mut die.cache_register }) = Some(op);
            return true;
        }
        loop {
            if let Some(deferred) = self.dies[d as usize].deferred.take() {
                match deferred {
                    Deferred::Step(unit, step) => self.step_op(d, register, unit, step),
                    Deferred::Placed { write, at, old } => self.write_op(d, register, write, at, old, now),
                }
                return true;
            }
            let Some(write) = self.dies[d as usize].writes.front() else { return false };
            let (unit, lpn) = (self.ios[write].unit, self.ios[write].lpn);
            if !self.full.is_empty() && self.full.contains(&unit) {
                self.dies[d as usize].writes.pop(&self.ios);
                self.out_of_space(d, write, now);
                continue;
            }
            if self.ios[write].cause == Cause::Recovery && self.is_cancelled(write) {
                self.dies[d as usize].writes.pop(&self.ios);
                self.drop_recovery(write);
                continue;
            }
            if self.checkpoints.is_some() && self.checkpoint_op(d, register, unit) {
                return true;
            }
            let old = self.units[unit as usize].lookup(lpn);
            match self.units[unit as usize].place(lpn) {
                Place::At(at) => {
                    self.dies[d as usize].writes.pop(&self.ios);
                    self.write_op(d, register, write, at, old, now);
                    return true;
                }
                Place::Work(step) => {
                    self.step_op(d, register, unit, step);
                    return true;
                }
                Place::Full => {
                    self.dies[d as usize].writes.pop(&self.ios);
                    self.out_of_space(d, write, now);
                }
            }
        }
    }

    /// Fills `register` with the program of a placed write, and of the queued writes that go into the same row.
    fn write_op(&mut self, d: u32, register: Register, write: u32, at: u32, old: u32, now: u64) {
        self.waited(d, write, now);
        let io = &self.ios[write];
        let (unit, cause) = (io.unit, io.cause);
        let merges = matches!(io.kind, IoKind::Merge) && old != NONE;
        let slc = self.is_slc(unit, at);
        let kind = if merges { Kind::Copy } else { Kind::Program };
        let op = self.dies[d as usize].fresh(register, kind, unit, cause);
        (op.slc, op.at[0], op.io[0]) = (slc, at, write);
        if merges {
            op.from[0] = old;
            self.host_pages_placed(unit, 1);
            return;
        }
        let (mut last, mut n) = (at, 1);
        while !self.ends_row(last) {
            let Some(next) = self.dies[d as usize].writes.front() else { break };
            let io = &self.ios[next];
            if io.unit != unit || io.kind != IoKind::Write || !self.units[unit as usize].follows(last, io.lpn) {
                break;
            }
            let Place::At(at) = self.units[unit as usize].place(io.lpn) else {
                unreachable!("the layer said that the page follows")
            };
            debug_assert_eq!(at, last + 1, "the layer said that the page follows");
            self.dies[d as usize].writes.pop(&self.ios);
            self.waited(d, next, now);
            let op = self.dies[d as usize].held_by(register);
            (op.at[n], op.io[n], op.n) = (at, next, n as u8 + 1);
            (last, n) = (at, n + 1);
        }
        self.host_pages_placed(unit, n as u8);
    }

    /// Fills `register` with a step of FTL work, and with further copies into the same row.
    fn step_op(&mut self, d: u32, register: Register, unit: u32, step: Step) {
        match step {
            Step::Erase { block, cause } => {
                let slc = self.units[unit as usize].is_slc(block);
                let op = self.dies[d as usize].fresh(register, Kind::Erase, unit, cause);
                (op.slc, op.from[0]) = (slc, block);
            }
            Step::Pad { at, lpn } => {
                let slc = self.is_slc(unit, at);
                // A page whose program has failed is unmapped, but not trimmed.
                let is_trimmed = self.recovering.iter().all(|&(of, other, _)| (of, other) != (unit, lpn));
                let op = self.dies[d as usize].fresh(register, Kind::Program, unit, Cause::Padding);
                (op.slc, op.at[0], op.from[0]) = (slc, at, if is_trimmed { lpn } else { NONE });
            }
            Step::Copy { from, to, cause } => {
                let slc = self.is_slc(unit, to);
                let op = self.dies[d as usize].fresh(register, Kind::Copy, unit, cause);
                (op.slc, op.from[0], op.at[0]) = (slc, from, to);
                self.join_copies(d, register, unit, to, cause);
            }
        }
    }

    fn join_copies(&mut self, d: u32, register: Register, unit: u32, first: u32, why: Cause) {
        let (mut last, mut n) = (first, 1);
        while !self.ends_row(last) {
            let next = match self.dies[d as usize].writes.front().filter(|&write| self.ios[write].unit == unit) {
                Some(write) => {
                    let lpn = self.ios[write].lpn;
                    let old = self.units[unit as usize].lookup(lpn);
                    match self.units[unit as usize].place(lpn) {
                        Place::Work(step) => Some(Deferred::Step(unit, step)),
                        Place::At(at) => {
                            self.dies[d as usize].writes.pop(&self.ios);
                            Some(Deferred::Placed { write, at, old })
                        }
                        Place::Full => None,
                    }
                }
                None => self.units[unit as usize].housekeeping().map(|step| Deferred::Step(unit, step)),
            };
            match next {
                Some(Deferred::Step(_, Step::Copy { from, to, cause })) if to == last + 1 && cause == why => {
                    let op = self.dies[d as usize].held_by(register);
                    (op.from[n], op.at[n], op.n) = (from, to, n as u8 + 1);
                    (last, n) = (to, n + 1);
                }
                Some(other) => {
                    self.dies[d as usize].deferred = Some(other);
                    return;
                }
                None => return,
            }
        }
    }

    /// Whether a page is on the last plane of its unit, so that the next page is in another row.
    #[inline]
    fn ends_row(&self, ppn: u32) -> bool {
        self.planes.remainder(ppn) + 1 == self.shape.unit_planes()
    }

    /// Starts background work on an idle die, if a unit of it has any.
    pub(super) fn background(&mut self, d: u32, now: u64) {
        self.dies[d as usize].background = true;
        let per_die = self.shape.units_per_die();
        for unit in d * per_die..(d + 1) * per_die {
            if let Some(step) = self.units[unit as usize].housekeeping() {
                self.dies[d as usize].account(now);
                self.step_op(d, Register::Page, unit, step);
                return self.begin(d, now);
            }
        }
        self.dies[d as usize].background = false;
    }

    /// Starts the operation in the die's page register: it waits for the bus.
    #[inline]
    pub(super) fn begin(&mut self, d: u32, now: u64) {
        let kind = self.dies[d as usize].held_by(Register::Page).kind;
        let class = if kind == Kind::Program { Class::In } else { Class::Command };
        if kind == Kind::Copy {
            self.next_run(d);
        }
        self.want(d, Register::Page, class, now);
    }

    /// Sets `run`: how many of a copy's remaining source pages are in one row, and so are read in one operation.
    pub(super) fn next_run(&mut self, d: u32) {
        let planes = self.planes;
        let Some(op) = self.dies[d as usize].page_register.as_mut() else { return };
        let left = &op.from[usize::from(op.read)..usize::from(op.n)];
        op.run = match left {
            [_] => 1,
            [first, ..] => {
                left.iter().take_while(|&&page| planes.quotient(page) == planes.quotient(*first)).count() as u8
            }
            [] => 0,
        };
    }
}
