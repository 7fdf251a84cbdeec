//! The dispatcher: page operations and the layers' own work on dies and buses, event by event.
//!
//! Knows dies, channels, page operations and [`UnitFtl`]s. Does not know requests, the host, or what a page means.
//!
//! A die does one operation in its array. Which one is decided when the die is free, and only then is a write given its
//! place: a suspended or garbage-collecting die keeps its later writes unplaced, so the state of a unit's layer moves
//! on in the order in which its die works. Cells change when an operation ends; what is under way when power goes is
//! torn.
//!
//! Order on a die: reads before writes where [`Scheduling::ReadsFirst`] says so; writes in the order of their coming,
//! each behind the work that its layer asks for; background work when nothing else waits. On a bus: commands, then data
//! to the controller, then data to dies, round robin among the dies of each.
//!
//! Invariants (`check`):
//! - a die that waits for the bus holds what is to cross it, and is on its channel's list;
//! - components of a [`Breakdown`] add up to the whole time of the page operation.

mod bus;
mod checkpoint;
mod die;
mod flash_end;
pub mod io;
mod memory;
mod recovery;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use sim::seam::Flash;
use sim::{Agenda, Cause, CauseCounts, Ns};

use crate::cells::Cells;
use crate::divisor::Divisor;
use crate::ftl::{NONE, Place, Step, UnitFtl};
use crate::timing::{MAX_LEVELS, Timing};
use crate::{KnownBad, Shape};
pub use checkpoint::CheckpointRegions;
use checkpoint::Checkpoints;
pub(crate) use checkpoint::{Image, LOST};
pub use die::MAX_PLANES;
use die::{Channel, Class, Deferred, Die, Kind, Op, Register, Stage};
use io::{Breakdown, InternalTime, Io, IoKind, Ios, Owner};

/// Which page operation a free die takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduling {
    /// Reads before writes, each in the order of their coming.
    ReadsFirst,
    /// All in the order of their coming.
    InOrder,
}

/// How a dispatcher works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DispatchConfig {
    /// Times of the flash.
    pub timing: Timing,
    /// Order on a die.
    pub scheduling: Scheduling,
    /// How long a die is idle before background work begins on it; `None`: none does.
    pub background_after: Option<Ns>,
}

/// Flash operations that a dispatcher has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlashCounts {
    /// Pages read for requests.
    pub host_reads: u64,
    /// Pages of a mapping table read because an operation waited for them.
    pub map_reads: u64,
    /// Pages read to be copied or merged.
    pub internal_reads: u64,
    /// Pages programmed, by cause.
    pub programs: CauseCounts,
    /// Blocks erased.
    pub erases: u64,
    /// Program operations, of one or more planes.
    pub program_ops: u64,
    /// Operations put off for a read.
    pub suspends: u64,
    /// Pages of data lost because they could not be read when they were to be copied. Reads of them fail until they are
    /// written.
    pub lost: u64,
}

/// The dispatcher of a drive.
#[derive(Clone, Debug)]
pub struct Dispatcher<F, M> {
    shape: Shape,
    config: DispatchConfig,
    units: Vec<M>,
    cells: Cells<F>,
    dies: Vec<Die>,
    channels: Vec<Channel>,
    /// Sources: each die's page register, then each die's cache register where commands use it, then the buses.
    agenda: Agenda,
    /// The first bus among the sources.
    buses: usize,
    /// Planes of a unit.
    planes: Divisor,
    /// Page operations, those under way and those just finished.
    pub ios: Ios,
    /// Finished page operations, in order; the caller takes and releases them.
    pub finished: Vec<u32>,
    /// Pages that were copied, by unit and logical page there, where [`report_moves`](Self::report_moves) asks for it.
    pub moved: Vec<(u32, u32)>,
    reports_moves: bool,
    /// Dies to look at when the caller has handed over what it had.
    touched: Vec<u32>,
    /// Where trimmed pages were, by unit and logical page, while the cells still hold them and reads may show it.
    old: BTreeMap<(u32, u32), u32>,
    /// Places whose contents could not be read when they were copied there: unit, physical page. And page operations
    /// that carry such contents.
    lost: BTreeSet<(u32, u32)>,
    lost_ios: Vec<u32>,
    /// Pages whose program failed and that are on their way to another place: unit, logical page, page operation.
    recovering: Vec<(u32, u32, u32)>,
    /// Units that have no place even for what failed to be programmed: they take nothing more.
    full: Vec<u32>,
    checkpoints: Option<Box<Checkpoints>>,
    counts: FlashCounts,
    power_lost: bool,
    /// Contents of the page that is being programmed; empty where the flash keeps none.
    scratch: Vec<u8>,
}

impl<F: Flash, M: UnitFtl> Dispatcher<F, M> {
    /// Over `cells`, with a layer for each unit.
    pub fn new(shape: &Shape, config: DispatchConfig, cells: Cells<F>, units: Vec<M>) -> Dispatcher<F, M> {
        assert_eq!(units.len() as u32, shape.units(), "a layer for each unit");
        let dies = shape.all_dies() as usize;
        let registers = if config.timing.cache_read || config.timing.cache_program { 2 } else { 1 };
        let idle = |d: u32| Die { channel: shape.channel_of_die(d), slot: d / shape.channels, ..Die::IDLE };
        Dispatcher {
            shape: *shape,
            config,
            units,
            cells,
            dies: (0..shape.all_dies()).map(idle).collect(),
            channels: vec![Channel::default(); shape.channels as usize],
            agenda: Agenda::new(registers * dies + shape.channels as usize),
            buses: registers * dies,
            planes: Divisor::new(shape.unit_planes()),
            ios: Ios::new(1024),
            finished: Vec::with_capacity(64),
            moved: Vec::new(),
            reports_moves: false,
            touched: Vec::with_capacity(64),
            old: BTreeMap::new(),
            lost: BTreeSet::new(),
            lost_ios: Vec::new(),
            recovering: Vec::new(),
            full: Vec::new(),
            checkpoints: None,
            counts: FlashCounts::default(),
            power_lost: false,
            scratch: Vec::new(),
        }
    }

    /// Lists copied pages in [`moved`](Self::moved) from now on, for a caller that keeps a table of its own.
    pub fn report_moves(&mut self) {
        self.reports_moves = true;
    }

    /// Time of the next event; `None` when nothing is under way.
    #[inline]
    pub fn next_time(&self) -> Option<Ns> {
        self.agenda.next_time()
    }

    /// Flash operations so far.
    pub fn counts(&self) -> &FlashCounts {
        &self.counts
    }

    /// The translation layer of each unit.
    pub fn units(&self) -> &[M] {
        &self.units
    }

    /// Whether a page holds nothing, in the cells or on its way there: it reads as zeroes and touches no flash.
    #[inline]
    pub fn is_unmapped(&self, unit: u32, lpn: u32) -> bool {
        self.units[unit as usize].lookup(lpn) == NONE
            && !self.recovering.iter().any(|&(at, page, _)| (at, page) == (unit, lpn))
            && !self.old.contains_key(&(unit, lpn))
    }

    /// A page holds nothing any more. With `shown`, reads find what it held until it is written or its block erased.
    pub fn trim(&mut self, unit: u32, lpn: u32, shown: bool) {
        let ppn = self.units[unit as usize].lookup(lpn);
        if shown && ppn != NONE {
            self.old.insert((unit, lpn), ppn);
        }
        self.cancel_recovery(unit, lpn);
        self.units[unit as usize].trim(lpn);
    }

    /// The flash below, as it is addressed.
    pub fn cells(&self) -> &Cells<F> {
        &self.cells
    }

    /// Pages that are known to hold lost contents, of a drive that was powered off since.
    pub(crate) fn set_lost(&mut self, unit: u32, pages: impl IntoIterator<Item = u32>) {
        self.lost.extend(pages.into_iter().map(|ppn| (unit, ppn)));
    }

    /// The flash, to cut its power or read its contents.
    pub fn flash_mut(&mut self) -> &mut F {
        self.cells.flash_mut()
    }

    /// Makes deliberate mistakes from now on.
    pub(crate) fn set_known_bad(&mut self, known_bad: KnownBad) {
        self.cells.known_bad = known_bad;
    }

    /// Cells and layers, for another life of the drive.
    pub fn into_parts(self) -> (Cells<F>, Vec<M>) {
        (self.cells, self.units)
    }

    /// Time of each die's array at work, and of each channel.
    pub fn busy(&self) -> (Vec<Ns>, Vec<Ns>) {
        let dies = self.dies.iter().map(|die| Ns(die.busy)).collect();
        (dies, self.channels.iter().map(|channel| Ns(channel.busy)).collect())
    }

    /// Whether the flash has lost power.
    pub fn power_lost(&self) -> bool {
        self.power_lost
    }

    /// Whether no die has anything to do but background work.
    pub fn is_quiet(&self) -> bool {
        self.dies.iter().all(|die| {
            die.page_register.is_none()
                && die.cache_register.is_none()
                && die.suspended.is_none()
                && die.deferred.is_none()
                && die.held.is_none()
                && die.reads.is_empty()
                && die.writes.is_empty()
        })
    }

    /// Hands a page operation over. [`kick`](Self::kick) follows once everything that comes at this time is handed
    /// over.
    #[inline(always)]
    pub fn push(&mut self, now: Ns, mut io: Io) -> u32 {
        let d = self.shape.die_of_unit(io.unit);
        io.queued_at = now.0;
        io.seen = self.dies[d as usize].internal_time(now.0);
        let is_read = io.kind == IoKind::Read;
        if !is_read {
            // The caller announced this page with `expect`.
            self.units[io.unit as usize].expect_place(io.lpn);
            if !self.old.is_empty() {
                self.old.remove(&(io.unit, io.lpn));
            }
        }
        let at = self.ios.add(io);
        let die = &mut self.dies[d as usize];
        if is_read {
            die.reads.push(&mut self.ios, at);
        } else {
            die.writes.push(&mut self.ios, at);
        }
        self.touched.push(d);
        at
    }

    /// Sets dies to work on what was pushed, in the order in which it was.
    #[inline]
    pub fn kick(&mut self, now: Ns) {
        for at in 0..self.touched.len() {
            let d = self.touched[at];
            let die = &self.dies[d as usize];
            if die.page_register.is_none() && !die.settling {
                self.pick(d, now.0);
            } else if !die.reads.is_empty() {
                self.maybe_suspend(d, now.0);
            }
        }
        self.touched.clear();
    }

    /// A page operation that has not waited yet.
    #[inline(always)]
    pub fn io(kind: IoKind, cause: Cause, unit: u32, lpn: u32, owner: Owner) -> Io {
        Io {
            kind,
            cause,
            checked: false,
            unit,
            lpn,
            owner,
            queued_at: 0,
            seen: InternalTime::default(),
            latency: Breakdown::default(),
            result: Ok(()),
            next: NONE,
        }
    }

    /// Lets the next event happen.
    pub fn step(&mut self) {
        if let Some((now, source)) = self.agenda.next() {
            self.happen(now, source);
        }
    }

    /// Lets what comes up to `until` happen, as far as the first event with which a page operation finishes or, where
    /// that is [asked for](Self::report_moves), a page is moved or a block erased. The time of the last event that
    /// happened.
    #[inline]
    pub fn run(&mut self, until: Ns) -> Option<Ns> {
        let (mut last, erases) = (None, self.counts.erases);
        while let Some((now, source)) = self.agenda.next()
            && now <= until
        {
            self.happen(now, source);
            last = Some(now);
            let has_news = self.reports_moves && (!self.moved.is_empty() || self.counts.erases != erases);
            if !self.finished.is_empty() || has_news {
                break;
            }
        }
        last
    }

    #[inline]
    fn happen(&mut self, now: Ns, source: usize) {
        let now = now.0;
        let dies = self.dies.len();
        if source < dies {
            self.agenda.begin(source);
            self.page_register_event(source as u32, now);
            self.agenda.settle(source);
        } else if source < self.buses {
            self.agenda.begin(source);
            self.cache_register_event((source - dies) as u32, now);
            self.agenda.settle(source);
        } else {
            self.channel_event((source - self.buses) as u32, now);
        }
    }

    /// A page of contents, all zero.
    fn blank_page(&self) -> Vec<u8> {
        vec![0; self.shape.page_bytes as usize]
    }

    #[inline]
    fn page_time(&self, times: &[Ns; MAX_LEVELS], slc: usize, op_slc: bool, ppn: u32) -> u64 {
        if op_slc {
            return self.config.timing.slc[slc].0;
        }
        let levels = self.config.timing.levels;
        if levels == 1 {
            return times[0].0;
        }
        times[(self.cells.row(ppn) % levels) as usize].0
    }

    #[inline]
    fn is_slc(&self, unit: u32, ppn: u32) -> bool {
        let layer = &self.units[unit as usize];
        layer.uses_slc() && layer.is_slc(self.cells.block(ppn))
    }

    #[inline]
    fn read_time(&self, op: &Op, ppn: u32) -> u64 {
        let check = if op.checked { self.config.timing.entry_check.0 } else { 0 };
        self.page_time(&self.config.timing.read, 0, op.slc, ppn) + check
    }

    #[inline]
    fn program_time(&self, op: &Op) -> u64 {
        self.page_time(&self.config.timing.program, 1, op.slc, op.at[0])
    }

    fn erase_time(&self, op: &Op) -> u64 {
        if op.slc { self.config.timing.slc[2].0 } else { self.config.timing.erase.0 }
    }

    /// The die is free: gives it something to do.
    fn pick(&mut self, d: u32, now: u64) {
        let die = &mut self.dies[d as usize];
        debug_assert!(die.page_register.is_none() && !die.settling);
        if die.idling {
            die.idling = false;
            self.agenda.clear(d as usize);
        }
        // What the cache register holds goes first: it was placed first.
        if let Some(side) = die.cache_register
            && side.kind != Kind::Read
        {
            if side.stage == Stage::Ready {
                die.cache_register = None;
                self.start_array(d, side, now);
            }
            return;
        }
        if self.power_lost {
            return;
        }
        die.account(now);
        if self.next_read(d, now) {
            return self.begin(d, now);
        }
        let die = &mut self.dies[d as usize];
        if die.suspended.is_some()
            && let Some(op) = die.suspended.take()
        {
            return self.resume(d, op, now);
        }
        if self.next_work(d, Register::Page, now) {
            return self.begin(d, now);
        }
        if !self.dies[d as usize].reads.is_empty() {
            // They waited for writes that found no place.
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

    /// The next read of a die, if its turn has come, is in its page register then.
    #[inline]
    fn next_read(&mut self, d: u32, now: u64) -> bool {
        loop {
            let die = &mut self.dies[d as usize];
            let Some(first) = die.reads.front() else { return false };
            if self.config.scheduling == Scheduling::InOrder
                && let Some(write) = die.writes.front()
                && self.ios[write].queued_at < self.ios[first].queued_at
            {
                return false;
            }
            die.reads.pop(&self.ios);
            let (unit, lpn) = (self.ios[first].unit, self.ios[first].lpn);
            let mut ppn = self.units[unit as usize].lookup(lpn);
            if ppn == NONE {
                ppn = self.old.get(&(unit, lpn)).copied().unwrap_or(NONE);
            }
            if self.read_from_memory(d, first, unit, lpn, ppn) {
                self.ios[first].latency.queue += now - self.ios[first].queued_at;
                self.finished.push(first);
                continue;
            }
            self.waited(d, first, now);
            let slc = self.is_slc(unit, ppn);
            let checked = self.ios[first].checked;
            let op = self.dies[d as usize].fresh(Register::Page, Kind::Read, unit, Cause::Host);
            (op.slc, op.checked, op.from[0], op.io[0]) = (slc, checked, ppn, first);
            self.join_reads(d, unit, ppn, now);
            return true;
        }
    }

    /// Reads of the same row on other planes, next in the queue, go with the first.
    #[inline]
    fn join_reads(&mut self, d: u32, unit: u32, first: u32, now: u64) {
        for n in 1..self.shape.unit_planes() as usize {
            let Some(next) = self.dies[d as usize].reads.front() else { return };
            let io = &self.ios[next];
            if io.unit != unit {
                return;
            }
            let ppn = self.units[unit as usize].lookup(io.lpn);
            let op = self.dies[d as usize].held_by(Register::Page);
            let other_row = self.planes.quotient(ppn) != self.planes.quotient(first) || op.from[..n].contains(&ppn);
            if other_row || self.in_memory(d, unit, io.lpn, ppn).is_some() {
                return;
            }
            let checked = io.checked;
            self.dies[d as usize].reads.pop(&self.ios);
            self.waited(d, next, now);
            let op = self.dies[d as usize].held_by(Register::Page);
            (op.from[n], op.io[n], op.n) = (ppn, next, n as u8 + 1);
            op.checked |= checked;
        }
    }

    /// Books the wait of `io` up to now, when its die takes it up.
    #[inline]
    fn waited(&mut self, d: u32, io: u32, now: u64) {
        let seen = self.dies[d as usize].internal_time(now);
        let io = &mut self.ios[io];
        let (gc, erase) = (seen.gc - io.seen.gc, seen.erase - io.seen.erase);
        io.latency.gc += gc;
        io.latency.erase += erase;
        io.latency.queue += now - io.queued_at - gc - erase;
    }

    /// What the layers ask for, or the next write, is in a register of the die then. Whether there is
    /// any.
    fn next_work(&mut self, d: u32, register: Register, now: u64) -> bool {
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

    /// The program of a placed write, with those next in the queue that go into the same row.
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

    /// A step of a layer's work, with further copies into the same row.
    fn step_op(&mut self, d: u32, register: Register, unit: u32, step: Step) {
        match step {
            Step::Erase { block, cause } => {
                let slc = self.units[unit as usize].is_slc(block);
                let op = self.dies[d as usize].fresh(register, Kind::Erase, unit, cause);
                (op.slc, op.from[0]) = (slc, block);
            }
            Step::Pad { at } => {
                let slc = self.is_slc(unit, at);
                let op = self.dies[d as usize].fresh(register, Kind::Program, unit, Cause::Padding);
                (op.slc, op.at[0]) = (slc, at);
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

    /// Whether a page is on the last plane of its unit: what follows it is in another row.
    #[inline]
    fn ends_row(&self, ppn: u32) -> bool {
        self.planes.remainder(ppn) + 1 == self.shape.unit_planes()
    }

    /// Background work of an idle die.
    fn background(&mut self, d: u32, now: u64) {
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

    /// The operation that was put into the die's page register begins: it wants the bus.
    #[inline]
    fn begin(&mut self, d: u32, now: u64) {
        let kind = self.dies[d as usize].held_by(Register::Page).kind;
        let class = if kind == Kind::Program { Class::In } else { Class::Command };
        if kind == Kind::Copy {
            self.next_run(d);
        }
        self.want(d, Register::Page, class, now);
    }

    /// How many pages of a copy's sources, from the next on, are read in one operation.
    fn next_run(&mut self, d: u32) {
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

    /// A read may put off what the die's array is doing.
    fn maybe_suspend(&mut self, d: u32, now: u64) {
        let die = &mut self.dies[d as usize];
        let Some(op) = &mut die.page_register else { return };
        let programs = op.kind == Kind::Program || op.kind == Kind::Copy && op.read == op.n;
        let latency = match op.kind {
            Kind::Erase => self.config.timing.suspend_erase,
            _ if programs => self.config.timing.suspend_program,
            _ => None,
        };
        let Some(latency) = latency else { return };
        let fits = op.stage == Stage::Array
            && op.starts <= now
            && !die.settling
            && die.cache_register.is_none()
            && u32::from(op.suspends) < self.config.timing.max_suspends
            && op.ends > now + latency.0 + self.config.timing.resume.0;
        if !fits || self.config.scheduling == Scheduling::InOrder {
            return;
        }
        op.suspends += 1;
        let left = op.ends - now;
        die.account(now);
        let mut op = die.page_register.take().expect("looked at above");
        op.array -= left;
        die.busy -= left;
        op.ends = left;
        op.wants_since = now;
        die.suspended = Some(op);
        die.settling = true;
        self.counts.suspends += 1;
        self.agenda.set(d as usize, Ns(now) + latency);
    }

    fn resume(&mut self, d: u32, mut op: Op, now: u64) {
        let die = &mut self.dies[d as usize];
        die.account(now);
        let left = op.ends + self.config.timing.resume.0;
        op.array += left;
        op.waited += now - op.wants_since;
        op.ends = now + left;
        die.busy += left;
        die.page_register = Some(op);
        self.agenda.set(d as usize, Ns(now + left));
    }

    /// Panics when an invariant of this module does not hold.
    pub fn check(&self) {
        for (d, die) in (0..).zip(&self.dies) {
            let (channel, bit) = (die.channel, 1 << die.slot);
            let waits = |register: Register| {
                self.channels[channel as usize].waiting.iter().any(|class| class[register as usize] & bit != 0)
            };
            assert!(!waits(Register::Page) || die.page_register.is_some(), "die {d} waits for the bus with nothing");
            assert!(
                !waits(Register::Cache) || die.cache_register.is_some(),
                "die {d} waits for the bus with an empty register"
            );
            assert!(die.page_register.is_none() || !die.settling, "die {d} works while it settles");
        }
    }
}
