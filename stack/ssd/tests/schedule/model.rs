//! Dies and buses, written down a second time from their rules alone: plain vectors, one search for the next event, no
//! shortcut for what is frequent.
//!
//! - An array does one operation at a time; a bus serves one register at a time.
//! - A free die takes, in this order: the program whose data are in its cache register, a read, what was suspended, what
//!   it holds back, the FTL's work and writes. In order, a read does not overtake an earlier write.
//! - A waiting bus serves the classes in their order, and in a class the next die after the one that it served last.
//! - On a tie the dies' events come first, page registers before cache registers, then the buses'.

use std::collections::VecDeque;

use sim::{Cause, Ns};
use ssd::dispatch::FlashCounts;
use ssd::dispatch::io::IoKind;
use ssd::ftl::{NONE, Place, Step, UnitFtl};
use ssd::{BusOrder, Scheduling, Shape, Timing};

use crate::Scripted;

/// A page operation that was sent to a die.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub at: u64,
    pub kind: IoKind,
    pub unit: u32,
    pub lpn: u32,
    pub checked: bool,
}

/// What became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    pub end: u64,
    pub array: u64,
    pub gc: u64,
    pub erase: u64,
    pub queue: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read,
    Program,
    Copy,
    Erase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Bus(Class),
    Array,
    /// A program whose data are in the cache register.
    Ready,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Command,
    Out,
    In,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Register {
    Page,
    Cache,
}

/// One page of an operation: where it is read and programmed, and who asked for it.
#[derive(Clone, Copy, Debug)]
struct Page {
    from: u32,
    to: u32,
    sent: Option<usize>,
}

#[derive(Clone, Debug)]
struct Op {
    kind: Kind,
    unit: u32,
    cause: Cause,
    phase: Phase,
    pages: Vec<Page>,
    /// Of a copy: pages read, and pages that are being read in one go.
    read: usize,
    run: usize,
    checked: bool,
    suspends: u32,
    since: u64,
    starts: u64,
    ends: u64,
    array: u64,
    waited: u64,
}

#[derive(Clone, Copy, Debug)]
enum Later {
    Step(u32, Step),
    /// Page operation, its place, and the place before.
    Placed(usize, u32, u32),
}

#[derive(Clone, Debug, Default)]
struct Die {
    page: Option<Op>,
    cache: Option<Op>,
    suspended: Option<Op>,
    held: Option<Op>,
    later: Option<Later>,
    reads: VecDeque<usize>,
    writes: VecDeque<usize>,
    settling: bool,
    page_event: Option<u64>,
    cache_event: Option<u64>,
    busy: u64,
    busy_until: u64,
    /// Spells of internal work in the page register: begin, end, whether it erased.
    internal: Vec<(u64, u64, bool)>,
    entered: u64,
}

#[derive(Clone, Debug, Default)]
struct Bus {
    until: u64,
    busy: u64,
    /// Die on this bus, register, class.
    waiting: Vec<(u32, Register, Class)>,
    last: u32,
    event: Option<u64>,
}

pub struct Model {
    shape: Shape,
    timing: Timing,
    scheduling: Scheduling,
    order: BusOrder,
    pub ftl: Vec<Scripted>,
    dies: Vec<Die>,
    buses: Vec<Bus>,
    pub sent: Vec<Sent>,
    pub done: Vec<Option<Done>>,
    pub counts: FlashCounts,
    /// Wait of each page operation until its die began with it.
    began: Vec<Done>,
    entry_when_sent: Vec<usize>,
}

impl Model {
    pub fn new(shape: &Shape, timing: Timing, scheduling: Scheduling, order: BusOrder, ftl: Vec<Scripted>) -> Model {
        Model {
            shape: *shape,
            timing,
            scheduling,
            order,
            dies: vec![Die::default(); (shape.all_dies() * timing.independent_reads) as usize],
            ftl,
            buses: vec![Bus::default(); shape.channels as usize],
            sent: Vec::new(),
            done: Vec::new(),
            counts: FlashCounts::default(),
            began: Vec::new(),
            entry_when_sent: Vec::new(),
        }
    }

    /// Whether no die has anything to do.
    pub fn is_quiet(&self) -> bool {
        self.dies.iter().all(|die| {
            let registers = [&die.page, &die.cache, &die.suspended, &die.held];
            registers.iter().all(|op| op.is_none())
                && die.later.is_none()
                && die.reads.is_empty()
                && die.writes.is_empty()
        })
    }

    /// The die of an entry: itself, or the one of which it is a group of planes that reads by itself.
    fn main(&self, d: usize) -> usize {
        d % self.shape.all_dies() as usize
    }

    /// The entries of a die.
    fn groups(&self, main: usize) -> Vec<usize> {
        (main..self.dies.len()).step_by(self.shape.all_dies() as usize).collect()
    }

    /// The entry that reads a physical page.
    fn group(&self, unit: u32, ppn: u32) -> usize {
        let per_die = self.shape.units_per_die();
        let plane = if per_die > 1 { unit % per_die } else { ppn % self.shape.unit_planes() };
        let group = plane % self.timing.independent_reads;
        (unit / per_die + group * self.shape.all_dies()) as usize
    }

    /// Whether the die does something else than reading.
    fn is_held(&self, main: usize) -> bool {
        let die = &self.dies[main];
        die.settling || die.page.as_ref().is_some_and(|op| op.kind != Kind::Read)
    }

    fn reads_wait(&self, main: usize) -> bool {
        self.groups(main).iter().any(|&d| !self.dies[d].reads.is_empty())
    }

    pub fn busy(&self) -> (Vec<Ns>, Vec<Ns>) {
        let dies = self.shape.all_dies() as usize;
        (
            self.dies[..dies].iter().map(|die| Ns(die.busy)).collect(),
            self.buses.iter().map(|bus| Ns(bus.busy)).collect(),
        )
    }

    /// Sends page operations at one moment, and starts their dies in their order.
    pub fn send(&mut self, all: &[Sent]) {
        for sent in all {
            let number = self.sent.len();
            self.sent.push(*sent);
            self.done.push(None);
            self.began.push(Done::default());
            let d = self.entry_of(number);
            let die = &mut self.dies[d];
            let queue = if sent.kind == IoKind::Read { &mut die.reads } else { &mut die.writes };
            queue.push_back(number);
        }
        let first = self.sent.len() - all.len();
        let entries: Vec<usize> = (first..self.sent.len()).map(|number| self.entry_when_sent[number]).collect();
        for (d, sent) in entries.into_iter().zip(all) {
            let main = self.main(d);
            if self.timing.independent_reads > 1 {
                if !self.is_held(main) {
                    self.pick(main, sent.at);
                } else if self.reads_wait(main) {
                    self.suspend(main, sent.at);
                }
            } else if self.dies[d].page.is_none() && !self.dies[d].settling {
                self.pick(d, sent.at);
            } else if !self.dies[d].reads.is_empty() {
                self.suspend(d, sent.at);
            }
        }
    }

    /// The entry in whose queue a page operation waits at first.
    fn entry_of(&mut self, number: usize) -> usize {
        let Sent { unit, lpn, kind, .. } = self.sent[number];
        let ppn = self.ftl[unit as usize].lookup(lpn);
        let d = if kind == IoKind::Read && ppn != NONE {
            self.group(unit, ppn)
        } else {
            (unit / self.shape.units_per_die()) as usize
        };
        self.entry_when_sent.push(d);
        d
    }

    /// Handles all events up to `until`.
    pub fn run(&mut self, until: u64) {
        loop {
            let dies = self.dies.len();
            let mut events: Vec<(u64, usize)> = Vec::new();
            for (d, die) in self.dies.iter().enumerate() {
                events.extend(die.page_event.map(|at| (at, d)));
                events.extend(die.cache_event.map(|at| (at, dies + d)));
            }
            events.extend(self.buses.iter().enumerate().filter_map(|(c, bus)| Some((bus.event?, 2 * dies + c))));
            let Some(&(now, source)) = events.iter().min().filter(|event| event.0 <= until) else { return };
            if source < dies {
                self.dies[source].page_event = None;
                self.page_event(source, now);
            } else if source < 2 * dies {
                self.dies[source - dies].cache_event = None;
                self.cache_event(source - dies, now);
            } else {
                self.bus_event(source - 2 * dies, now);
            }
        }
    }

    fn enter(&mut self, d: usize, op: Op, now: u64) {
        let die = &mut self.dies[d];
        assert!(die.page.is_none());
        die.page = Some(op);
        die.entered = now;
    }

    /// Since when the page register works for the FTL, and whether it erases.
    fn internal(&self, d: usize) -> Option<(u64, bool)> {
        let op = self.dies[d].page.as_ref()?;
        let of_ftl = op.pages.first().is_none_or(|page| page.sent.is_none());
        let counts = matches!(op.cause, Cause::Gc | Cause::WearLevel) || op.cause == Cause::Padding && of_ftl;
        (op.kind == Kind::Erase || counts).then_some((self.dies[d].entered, op.kind == Kind::Erase))
    }

    fn leave(&mut self, d: usize, now: u64) -> Op {
        if let Some((from, erases)) = self.internal(d) {
            self.dies[d].internal.push((from, now, erases));
        }
        self.dies[d].page.take().expect("an operation in the page register")
    }

    fn in_row(&self, ppn: u32) -> u32 {
        ppn / self.shape.unit_planes()
    }

    /// Time to read or program a page; of a drive in SLC mode, to read, program or erase.
    fn time(&self, times: &[Ns], slc: usize, ppn: u32) -> u64 {
        if self.ftl[0].uses_slc() {
            return self.timing.slc[slc].0;
        }
        let row = ppn % self.shape.unit_pages() / self.shape.unit_planes();
        times[(row % self.timing.levels) as usize].0
    }

    fn pick(&mut self, d: usize, now: u64) {
        let d = self.main(d);
        let groups = self.groups(d);
        if groups.len() > 1 && self.is_held(d) {
            return;
        }
        if self.dies[d].cache.as_ref().is_some_and(|op| op.kind != Kind::Read) {
            if self.dies[d].cache.as_ref().is_some_and(|op| op.phase == Phase::Ready) {
                let mut op = self.dies[d].cache.take().expect("just seen");
                let array = self.time(&self.timing.program, 1, op.pages[0].to);
                op.waited += now - op.ends;
                self.enter(d, op, now);
                self.array(d, now, array);
                self.look_ahead(d, now);
            }
            return;
        }
        // A read may move to the queue of a group that was looked at before.
        for d in [&groups[..], &groups[..]].concat() {
            if self.dies[d].page.is_none() && self.next_read(d, now) {
                self.begin(d, now);
            }
        }
        if groups.iter().any(|&d| self.dies[d].page.is_some()) {
            return;
        }
        if let Some(mut op) = self.dies[d].suspended.take() {
            let left = op.ends + self.timing.resume.0;
            op.waited += now - op.since;
            self.enter(d, op, now);
            return self.array(d, now, left);
        }
        if let Some(op) = self.next_work(d, now) {
            self.enter(d, op, now);
            self.begin(d, now);
        }
    }

    /// The array of a die works from `start` on.
    fn array(&mut self, d: usize, start: u64, span: u64) {
        let die = &mut self.dies[d];
        let op = die.page.as_mut().expect("an operation in the page register");
        (op.phase, op.starts, op.ends) = (Phase::Array, start, start + span);
        op.array += span;
        die.page_event = Some(start + span);
        // What groups do at the same time counts once.
        let main = self.main(d);
        let die = &mut self.dies[main];
        let from = if self.timing.independent_reads > 1 { start.max(die.busy_until) } else { start };
        die.busy += (start + span).saturating_sub(from);
        die.busy_until = die.busy_until.max(start + span);
    }

    /// Whether a page is placed and its program waits beside the array; its contents are in the controller's memory.
    fn is_in_memory(&self, d: usize, unit: u32, ppn: u32) -> bool {
        let die = &self.dies[d];
        let waits = match die.later {
            Some(Later::Placed(write, to, _)) => (self.sent[write].unit, to) == (unit, ppn),
            Some(Later::Step(of, Step::Copy { to, .. })) => (of, to) == (unit, ppn),
            _ => false,
        };
        let programs = |op: &Op| op.unit == unit && op.kind != Kind::Read && op.pages.iter().any(|page| page.to == ppn);
        waits || [&die.cache, &die.suspended, &die.held].into_iter().flatten().any(programs)
    }

    fn next_read(&mut self, d: usize, now: u64) -> bool {
        while let Some(&first) = self.dies[d].reads.front() {
            let main = self.main(d);
            let earlier =
                self.dies[main].writes.front().is_some_and(|&write| self.sent[write].at < self.sent[first].at);
            if self.scheduling == Scheduling::InOrder && earlier {
                return false;
            }
            self.dies[d].reads.pop_front();
            let unit = self.sent[first].unit;
            let ppn = self.ftl[unit as usize].lookup(self.sent[first].lpn);
            if ppn == NONE || self.is_in_memory(main, unit, ppn) {
                let queue = now - self.sent[first].at;
                self.done[first] = Some(Done { end: now, queue, ..Done::default() });
                continue;
            }
            if self.group(unit, ppn) != d {
                let group = self.group(unit, ppn);
                self.dies[group].reads.push_back(first);
                continue;
            }
            self.begins(main, first, now);
            let mut pages = vec![Page { from: ppn, to: NONE, sent: Some(first) }];
            let mut checked = self.sent[first].checked;
            while let Some(&next) = self.dies[d].reads.front() {
                let other = self.ftl[self.sent[next].unit as usize].lookup(self.sent[next].lpn);
                let fits = other != NONE
                    && self.sent[next].unit == unit
                    && self.in_row(other) == self.in_row(ppn)
                    && pages.iter().all(|page| page.from != other)
                    && self.group(unit, other) == d
                    && !self.is_in_memory(main, unit, other);
                if !fits {
                    break;
                }
                self.dies[d].reads.pop_front();
                self.begins(main, next, now);
                pages.push(Page { from: other, to: NONE, sent: Some(next) });
                checked |= self.sent[next].checked;
            }
            let op = Op { checked, ..Model::op(Kind::Read, unit, Cause::Host, pages) };
            self.enter(d, op, now);
            return true;
        }
        false
    }

    /// Splits the wait of a page operation: internal work in the page register, and the rest.
    fn begins(&mut self, d: usize, number: usize, now: u64) {
        let came = self.sent[number].at;
        let shared = |erases: bool| -> u64 {
            let current = self.internal(d).map(|(from, erases)| (from, now, erases));
            let spells = self.dies[d].internal.iter().chain(&current).filter(|spell| spell.2 == erases);
            spells.map(|&(from, to, _)| to.min(now).saturating_sub(from.max(came))).sum()
        };
        let (gc, erase) = (shared(false), shared(true));
        self.began[number] = Done { gc, erase, queue: now - came - gc - erase, ..Done::default() };
    }

    fn op(kind: Kind, unit: u32, cause: Cause, pages: Vec<Page>) -> Op {
        Op {
            kind,
            unit,
            cause,
            phase: Phase::Ready,
            pages,
            read: 0,
            run: 1,
            checked: false,
            suspends: 0,
            since: 0,
            starts: 0,
            ends: 0,
            array: 0,
            waited: 0,
        }
    }

    fn next_work(&mut self, d: usize, now: u64) -> Option<Op> {
        if let Some(mut op) = self.dies[d].held.take() {
            op.waited += now - op.since;
            return Some(op);
        }
        match self.dies[d].later.take() {
            Some(Later::Step(unit, step)) => return Some(self.step(d, unit, step)),
            Some(Later::Placed(write, to, old)) => return Some(self.write(d, write, to, old, now)),
            None => {}
        }
        let &write = self.dies[d].writes.front()?;
        let Sent { unit, lpn, .. } = self.sent[write];
        let old = self.ftl[unit as usize].lookup(lpn);
        Some(match self.ftl[unit as usize].place(lpn) {
            Place::At(to) => {
                self.dies[d].writes.pop_front();
                self.write(d, write, to, old, now)
            }
            Place::Work(step) => self.step(d, unit, step),
            Place::Full => unreachable!("the script has room"),
        })
    }

    fn ends_row(&self, ppn: u32) -> bool {
        (ppn + 1).is_multiple_of(self.shape.unit_planes())
    }

    fn write(&mut self, d: usize, write: usize, to: u32, old: u32, now: u64) -> Op {
        self.begins(d, write, now);
        let unit = self.sent[write].unit;
        if self.sent[write].kind == IoKind::Merge && old != NONE {
            return Model::op(Kind::Copy, unit, Cause::Host, vec![Page { from: old, to, sent: Some(write) }]);
        }
        let mut pages = vec![Page { from: NONE, to, sent: Some(write) }];
        let mut last = to;
        while !self.ends_row(last)
            && let Some(&next) = self.dies[d].writes.front()
            && (self.sent[next].kind, self.sent[next].unit) == (IoKind::Write, unit)
            && self.ftl[unit as usize].follows(last, self.sent[next].lpn)
        {
            self.dies[d].writes.pop_front();
            let Place::At(to) = self.ftl[unit as usize].place(self.sent[next].lpn) else { unreachable!("it follows") };
            self.begins(d, next, now);
            pages.push(Page { from: NONE, to, sent: Some(next) });
            last = to;
        }
        Model::op(Kind::Program, unit, Cause::Host, pages)
    }

    fn step(&mut self, d: usize, unit: u32, step: Step) -> Op {
        match step {
            Step::Erase { block, cause } => {
                Model::op(Kind::Erase, unit, cause, vec![Page { from: block, to: NONE, sent: None }])
            }
            Step::Pad { at, .. } => {
                Model::op(Kind::Program, unit, Cause::Padding, vec![Page { from: NONE, to: at, sent: None }])
            }
            Step::Copy { from, to, cause } => {
                let mut pages = vec![Page { from, to, sent: None }];
                let mut last = to;
                while !self.ends_row(last)
                    && let Some(&write) = self.dies[d].writes.front()
                    && self.sent[write].unit == unit
                {
                    let lpn = self.sent[write].lpn;
                    let old = self.ftl[unit as usize].lookup(lpn);
                    match self.ftl[unit as usize].place(lpn) {
                        Place::Work(Step::Copy { from, to, cause: why }) if to == last + 1 && why == cause => {
                            pages.push(Page { from, to, sent: None });
                            last = to;
                        }
                        Place::Work(other) => {
                            self.dies[d].later = Some(Later::Step(unit, other));
                            break;
                        }
                        Place::At(to) => {
                            self.dies[d].writes.pop_front();
                            self.dies[d].later = Some(Later::Placed(write, to, old));
                            break;
                        }
                        Place::Full => unreachable!("the script has room"),
                    }
                }
                Model::op(Kind::Copy, unit, cause, pages)
            }
        }
    }

    /// How many of the pages left to read are in the row of the next one.
    fn next_run(&mut self, d: usize) {
        let op = self.dies[d].page.as_ref().expect("a copy");
        let row = self.in_row(op.pages[op.read].from);
        let run = op.pages[op.read..].iter().take_while(|page| self.in_row(page.from) == row).count();
        self.dies[d].page.as_mut().expect("a copy").run = run;
    }

    fn begin(&mut self, d: usize, now: u64) {
        let kind = self.dies[d].page.as_ref().expect("an operation in the page register").kind;
        if kind == Kind::Copy {
            self.next_run(d);
        }
        self.want(d, Register::Page, if kind == Kind::Program { Class::In } else { Class::Command }, now);
    }

    fn register(&mut self, d: usize, register: Register) -> &mut Op {
        let die = &mut self.dies[d];
        let op = if register == Register::Page { &mut die.page } else { &mut die.cache };
        op.as_mut().expect("an operation in the register")
    }

    fn want(&mut self, d: usize, register: Register, class: Class, now: u64) {
        let op = self.register(d, register);
        (op.since, op.phase) = (now, Phase::Bus(class));
        let (c, slot) = (d % self.buses.len(), (d / self.buses.len()) as u32);
        let bus = &mut self.buses[c];
        if bus.until <= now && bus.waiting.is_empty() {
            bus.last = slot;
            return self.grant(d, register, class, now);
        }
        bus.waiting.push((slot, register, class));
        bus.event = Some(bus.until.max(now));
    }

    fn bus_event(&mut self, c: usize, now: u64) {
        let bus = &mut self.buses[c];
        bus.event = None;
        if bus.until > now {
            bus.event = Some(bus.until);
            return;
        }
        let order = match self.order {
            BusOrder::CommandsFirst => [Class::Command, Class::Out, Class::In],
            BusOrder::DataFirst => [Class::Out, Class::Command, Class::In],
        };
        let Some(class) = order.into_iter().find(|class| bus.waiting.iter().any(|other| other.2 == *class)) else {
            return;
        };
        let dies = 64;
        let turn = |&(slot, register, _): &(u32, Register, Class)| {
            // What was read first goes first: it is in the cache register. Else the page register comes first.
            let second = (register == Register::Page) == (class == Class::Out);
            ((slot + dies - bus.last - 1) % dies, second)
        };
        let (slot, register, _) =
            *bus.waiting.iter().filter(|other| other.2 == class).min_by_key(|other| turn(other)).expect("found above");
        bus.waiting.retain(|other| *other != (slot, register, class));
        bus.last = slot;
        let d = slot as usize * self.buses.len() + c;
        self.grant(d, register, class, now);
        let bus = &mut self.buses[c];
        bus.event = (!bus.waiting.is_empty()).then_some(bus.until);
    }

    fn grant(&mut self, d: usize, register: Register, class: Class, now: u64) {
        let op = self.register(d, register).clone();
        let (command, transfer) = (self.timing.command.0, self.timing.transfer.0);
        let pages = if op.kind == Kind::Copy && class == Class::Out { op.run } else { op.pages.len() } as u64;
        let span = match class {
            Class::Command => command,
            Class::Out => transfer * pages,
            Class::In => command + transfer * pages,
        };
        let c = d % self.buses.len();
        self.buses[c].until = now + span;
        self.buses[c].busy += span;
        let array = match (class, op.kind) {
            (Class::Out, _) => None,
            (Class::In, _) => (register == Register::Page).then(|| self.time(&self.timing.program, 1, op.pages[0].to)),
            (_, Kind::Erase) => Some(self.time(&[self.timing.erase; 4], 2, 0)),
            (_, Kind::Copy) if op.read == op.pages.len() => Some(self.time(&self.timing.program, 1, op.pages[0].to)),
            _ => {
                let check = if op.checked { self.timing.entry_check.0 } else { 0 };
                Some(self.time(&self.timing.read, 0, op.pages[op.read].from) + check)
            }
        };
        match (array, register) {
            (Some(array), _) => self.array(d, now + span, array),
            (None, Register::Page) => self.dies[d].page_event = Some(now + span),
            (None, Register::Cache) => self.dies[d].cache_event = Some(now + span),
        }
        if class == Class::In && register == Register::Page {
            self.look_ahead(d, now);
        }
    }

    /// Cache program: the next program's data go into the cache register while the array programs.
    fn look_ahead(&mut self, d: usize, now: u64) {
        let die = &self.dies[d];
        let may = self.timing.cache_program && self.scheduling == Scheduling::ReadsFirst;
        if !may || die.cache.is_some() || die.later.is_some() || self.reads_wait(d) || die.writes.is_empty() {
            return;
        }
        let Some(mut op) = self.next_work(d, now) else { return };
        if op.kind == Kind::Program {
            self.dies[d].cache = Some(op);
            return self.want(d, Register::Cache, Class::In, now);
        }
        op.since = now;
        self.dies[d].held = Some(op);
    }

    fn page_event(&mut self, d: usize, now: u64) {
        if std::mem::take(&mut self.dies[d].settling) {
            return self.pick(d, now);
        }
        let op = self.dies[d].page.clone().expect("an operation in the page register");
        match (op.kind, op.phase) {
            (Kind::Read, Phase::Array) => {
                self.counts.host_reads += op.pages.len() as u64;
                let free = self.dies[d].cache.is_none() && !self.dies[d].reads.is_empty();
                if self.timing.cache_read && free {
                    self.move_out(d, now);
                } else {
                    self.want(d, Register::Page, Class::Out, now);
                }
            }
            (Kind::Copy, _) => self.copy_goes_on(d, &op, now),
            _ => self.ends(d, now),
        }
    }

    fn copy_goes_on(&mut self, d: usize, op: &Op, now: u64) {
        let plane = |ppn: u32| ppn % self.shape.unit_planes();
        let stays = |page: &Page| page.sent.is_none() && plane(page.from) == plane(page.to);
        let in_place = self.timing.copyback && op.pages.iter().all(stays);
        if op.phase == Phase::Array && op.read == op.pages.len() {
            return self.ends(d, now);
        }
        if op.phase == Phase::Array && !in_place {
            return self.want(d, Register::Page, Class::Out, now);
        }
        self.counts.internal_reads += op.run as u64;
        let copy = self.register(d, Register::Page);
        copy.read += copy.run;
        if copy.read < copy.pages.len() {
            self.next_run(d);
            return self.want(d, Register::Page, Class::Command, now);
        }
        self.want(d, Register::Page, if in_place { Class::Command } else { Class::In }, now);
    }

    fn ends(&mut self, d: usize, now: u64) {
        let op = self.leave(d, now);
        match op.kind {
            Kind::Erase => {
                self.counts.erases += 1;
                self.ftl[op.unit as usize].erased(op.pages[0].from, true);
            }
            Kind::Program | Kind::Copy => {
                self.counts.program_ops += 1;
                self.counts.programs[op.cause] += op.pages.len() as u64;
            }
            Kind::Read => {}
        }
        self.finish(&op, now);
        self.pick(d, now);
    }

    fn finish(&mut self, op: &Op, now: u64) {
        for number in op.pages.iter().filter_map(|page| page.sent) {
            let wait = self.began[number];
            self.done[number] = Some(Done { end: now, array: op.array, queue: wait.queue + op.waited, ..wait });
        }
    }

    /// A read goes into the cache register, so that the array can read on.
    fn move_out(&mut self, d: usize, now: u64) {
        let (c, slot) = (d % self.buses.len(), (d / self.buses.len()) as u32);
        self.buses[c].waiting.retain(|&other| other != (slot, Register::Page, Class::Out));
        let op = self.leave(d, now);
        self.dies[d].cache = Some(op);
        if self.order == BusOrder::CommandsFirst {
            self.pick(d, now);
            self.want(d, Register::Cache, Class::Out, now);
        } else {
            self.want(d, Register::Cache, Class::Out, now);
            self.pick(d, now);
        }
    }

    fn cache_event(&mut self, d: usize, now: u64) {
        if self.dies[d].cache.as_ref().is_some_and(|op| op.kind == Kind::Read) {
            let op = self.dies[d].cache.take().expect("just seen");
            self.finish(&op, now);
            let slot = (d / self.buses.len()) as u32;
            let waits = self.buses[d % self.buses.len()].waiting.contains(&(slot, Register::Page, Class::Out));
            if waits && self.dies[d].page.as_ref().is_some_and(|op| op.kind == Kind::Read) {
                self.move_out(d, now);
            }
            return;
        }
        let op = self.register(d, Register::Cache);
        (op.phase, op.ends) = (Phase::Ready, now);
        if self.dies[d].page.is_none() && !self.dies[d].settling {
            self.pick(d, now);
        }
    }

    fn suspend(&mut self, d: usize, now: u64) {
        let die = &mut self.dies[d];
        let Some(op) = &die.page else { return };
        let programs = op.kind == Kind::Program || op.kind == Kind::Copy && op.read == op.pages.len();
        let latency = match op.kind {
            Kind::Erase => self.timing.suspend_erase,
            _ if programs => self.timing.suspend_program,
            _ => None,
        };
        let Some(latency) = latency else { return };
        let works = op.phase == Phase::Array && op.starts <= now && die.cache.is_none();
        let pays = op.ends > now + latency.0 + self.timing.resume.0 && op.suspends < self.timing.max_suspends;
        if !works || !pays || die.settling || self.scheduling == Scheduling::InOrder {
            return;
        }
        let mut op = self.leave(d, now);
        let left = op.ends - now;
        op.suspends += 1;
        op.array -= left;
        (op.ends, op.since) = (left, now);
        let die = &mut self.dies[d];
        die.busy -= left;
        die.busy_until = now;
        die.suspended = Some(op);
        die.settling = true;
        die.page_event = Some(now + latency.0);
        self.counts.suspends += 1;
    }
}
