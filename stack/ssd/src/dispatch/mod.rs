//! The dispatcher: an event-driven model that runs page operations and the FTLs' internal work on dies and buses.
//!
//! Knows dies, channels, page operations and [`UnitFtl`]s. Does not know requests, the host, or what a page means.
//!
//! A die's array does one operation at a time. The next one is chosen when the array or the die's cache register
//! becomes free, and a write is placed (gets its physical page) only then: while a die is suspended or collects
//! garbage, its later writes stay unplaced. So the state of a unit's FTL advances in the order in which its die works.
//! Cells change when an operation ends; an operation that is in progress when power is lost is torn.
//!
//! Order on a die: reads before writes under [`Scheduling::ReadsFirst`]; writes in order of arrival, each after the
//! work that its FTL requires first; background work when nothing else waits. Order on a bus: [`BusOrder`]; round robin
//! among the dies of each class.
//!
//! Invariants (`check`):
//! - a die that waits for the bus has an operation in the register that waits;
//! - a die that enters a suspend has no operation in its page register.
//!
//! The components of a [`Breakdown`] sum to the whole time of its page operation (verified in `tests`).

mod bus;
mod checkpoint;
mod die;
mod flash_end;
mod groups;
pub mod io;
mod memory;
mod nand_time;
mod pick;
mod recovery;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use sim::seam::Flash;
use sim::{Agenda, Cause, CauseCounts, Ns};

use crate::cells::Cells;
use crate::divisor::Divisor;
use crate::ftl::{NONE, UnitFtl};
use crate::timing::{MAX_LEVELS, Timing};
use crate::{KnownBad, Shape};
pub use checkpoint::CheckpointRegions;
use checkpoint::Checkpoints;
pub(crate) use checkpoint::{Image, LOST};
pub use die::MAX_PLANES;
use die::{Channel, Die, Kind, Op, Register, Stage};
use io::{Breakdown, ByEntry, InternalTime, Io, IoKind, Ios, Owner};
pub use nand_time::NandTime;

/// Order in which a die serves its queued reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduling {
    /// Reads before writes, each in order of arrival. A read may suspend a program or an erase.
    ReadsFirst,
    /// Reads and writes in order of arrival. No operation is suspended, and no program is prepared in the cache
    /// register.
    InOrder,
}

/// Order in which a flash bus serves what waits for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BusOrder {
    /// Commands, which are short and each start an array; then data to the controller; then data to dies.
    #[default]
    CommandsFirst,
    /// Data to the controller before commands, as in MQSim (`NVM_PHY_ONFI_NVDDR2`); then data to dies.
    DataFirst,
}

/// Most reads at the same time on the dies of a channel: dies times [`Timing::independent_reads`].
pub const MAX_SLOTS: u32 = u64::BITS;

/// Configuration of a dispatcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DispatchConfig {
    /// Times and optional commands of the flash.
    pub timing: Timing,
    /// Order in which a die serves reads and writes.
    pub scheduling: Scheduling,
    /// Order in which a bus serves commands and data.
    pub bus_order: BusOrder,
    /// How long a die must be idle before background work begins on it; `None`: no background work.
    pub background_after: Option<Ns>,
}

/// Flash operations since the dispatcher was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlashCounts {
    /// Pages read for host requests.
    pub host_reads: u64,
    /// Pages of a mapping table read because an operation waited for them (DFTL's translation pages).
    pub map_reads: u64,
    /// Pages read in order to copy or merge them: garbage collection, wear levelling, partial writes.
    pub internal_reads: u64,
    /// Pages programmed, by cause.
    pub programs: CauseCounts,
    /// Blocks erased; a block of a unit counts once, however many planes it has.
    pub erases: u64,
    /// Program operations. A multi-plane program of several pages counts once.
    pub program_ops: u64,
    /// Programs and erases suspended for a read.
    pub suspends: u64,
    /// Pages whose contents could not be read when they were to be copied, and are lost. Reads of such a page fail
    /// until it is written again.
    pub lost: u64,
}

/// The dispatcher of a drive.
#[derive(Clone, Debug)]
pub struct Dispatcher<F, M> {
    shape: Shape,
    config: DispatchConfig,
    units: Vec<M>,
    cells: Cells<F>,
    /// Dies. With independent reads each further group of planes is an entry of its own behind them, with a page
    /// register, a cache register and a queue of reads: see `groups`.
    dies: Vec<Die>,
    /// Groups of planes of a die that read independently.
    groups: u32,
    channels: Vec<Channel>,
    /// Event sources: each die's page register, then each die's cache register if the timing uses it, then the buses.
    agenda: Agenda,
    /// Index of the first bus among the sources of `agenda`.
    buses: usize,
    /// Planes of a unit.
    planes: Divisor,
    /// Page operations, in progress and finished but not yet released.
    pub ios: Ios,
    /// Numbers of finished page operations, oldest first. The caller drains the list and releases the operations.
    pub finished: Vec<u32>,
    /// Copied pages as (unit, logical page of the unit), while [`report_moves`](Self::report_moves) is on. The caller
    /// drains the list.
    pub moved: Vec<(u32, u32)>,
    reports_moves: bool,
    /// Dies that got page operations since the last [`kick`](Self::kick).
    touched: Vec<u32>,
    /// Trimmed pages that reads may still show: (unit, logical page) to the physical page whose cells hold the old
    /// contents.
    old: BTreeMap<(u32, u32), u32>,
    /// Physical pages, as (unit, page), into which contents were copied that could not be read; and page operations
    /// that carry such contents.
    lost: BTreeSet<(u32, u32)>,
    lost_ios: Vec<u32>,
    /// Pages whose program failed and that wait to be programmed elsewhere: (unit, logical page, page operation).
    recovering: Vec<(u32, u32, u32)>,
    /// Units without space even for a page whose program failed. They accept no more writes.
    full: Vec<u32>,
    checkpoints: Option<Box<Checkpoints>>,
    counts: FlashCounts,
    /// Where the time of dies and buses goes, while that is recorded.
    nand_time: Option<Box<NandTime>>,
    power_lost: bool,
    /// Buffer for the contents of the page being programmed; empty if the flash keeps no contents.
    scratch: Vec<u8>,
}

impl<F: Flash, M: UnitFtl> Dispatcher<F, M> {
    /// Makes a dispatcher over `cells`, with one FTL for each unit. Panics if `units` has another length than the shape
    /// has units, or if a die cannot have so many independent reads.
    pub fn new(shape: &Shape, config: DispatchConfig, cells: Cells<F>, units: Vec<M>) -> Dispatcher<F, M> {
        assert_eq!(units.len() as u32, shape.units(), "a layer for each unit");
        let groups = config.timing.independent_reads;
        let fits = groups > 0 && shape.planes.is_multiple_of(groups) && shape.ways * shape.dies * groups <= MAX_SLOTS;
        assert!(fits, "{groups} independent reads of {} planes", shape.planes);
        let entries = shape.all_dies() * groups;
        let dies = entries as usize;
        let registers = if config.timing.cache_read || config.timing.cache_program { 2 } else { 1 };
        let idle = |d: u32| {
            let main = d % shape.all_dies();
            Die { channel: shape.channel_of_die(d), slot: d / shape.channels, main, ..Die::IDLE }
        };
        Dispatcher {
            shape: *shape,
            config,
            units,
            cells,
            dies: (0..entries).map(idle).collect(),
            groups,
            channels: vec![Channel::default(); shape.channels as usize],
            agenda: Agenda::new(registers * dies + shape.channels as usize),
            buses: registers * dies,
            planes: Divisor::new(shape.unit_planes()),
            ios: Ios::default(),
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
            nand_time: None,
            power_lost: false,
            scratch: Vec::new(),
        }
    }

    /// Lists copied pages in [`moved`](Self::moved) from now on, for a caller that keeps a mapping table of its own.
    pub fn report_moves(&mut self) {
        self.reports_moves = true;
    }

    /// Time of the next event; `None` if none is scheduled.
    #[inline]
    pub fn next_time(&self) -> Option<Ns> {
        self.agenda.next_time()
    }

    /// Flash operations since the dispatcher was made.
    pub fn counts(&self) -> &FlashCounts {
        &self.counts
    }

    /// The FTL of each unit, by unit number.
    pub fn units(&self) -> &[M] {
        &self.units
    }

    /// Whether a page has no contents, neither in the cells nor on their way there. It reads as zeroes without a flash
    /// operation.
    #[inline]
    pub fn is_unmapped(&self, unit: u32, lpn: u32) -> bool {
        self.units[unit as usize].lookup(lpn) == NONE
            && !self.recovering.iter().any(|&(at, page, _)| (at, page) == (unit, lpn))
            && !self.old.contains_key(&(unit, lpn))
    }

    /// Unmaps a page. With `shown`, reads return the old contents until the page is written or the old block erased.
    pub fn trim(&mut self, unit: u32, lpn: u32, shown: bool) {
        let ppn = self.units[unit as usize].lookup(lpn);
        if shown && ppn != NONE {
            self.old.insert((unit, lpn), ppn);
        }
        self.cancel_recovery(unit, lpn);
        self.units[unit as usize].trim(lpn);
    }

    /// The flash, addressed by unit and physical page.
    pub fn cells(&self) -> &Cells<F> {
        &self.cells
    }

    /// Lets the data in the cells age by `span`, without power and work.
    pub(crate) fn age(&mut self, span: Ns) {
        self.cells.age(span);
    }

    /// Marks physical pages of a unit whose contents were found lost at power-on: reads of them fail.
    pub(crate) fn set_lost(&mut self, unit: u32, pages: impl IntoIterator<Item = u32>) {
        self.lost.extend(pages.into_iter().map(|ppn| (unit, ppn)));
    }

    /// Geometry of the drive.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The raw flash, to cut its power or read its contents.
    pub fn flash_mut(&mut self) -> &mut F {
        self.cells.flash_mut()
    }

    /// Enables deliberate defects, with which tests prove that the checks detect them.
    pub(crate) fn set_known_bad(&mut self, known_bad: KnownBad) {
        self.cells.known_bad = known_bad;
    }

    /// Takes the dispatcher apart into its cells and FTLs, to build another one over them.
    pub fn into_parts(self) -> (Cells<F>, Vec<M>) {
        (self.cells, self.units)
    }

    /// Busy time of each die's array, and of each channel.
    pub fn busy(&self) -> (Vec<Ns>, Vec<Ns>) {
        let dies = self.dies[..self.shape.all_dies() as usize].iter().map(|die| Ns(die.busy)).collect();
        (dies, self.channels.iter().map(|channel| Ns(channel.busy)).collect())
    }

    /// Whether an operation found the flash without power.
    pub fn power_lost(&self) -> bool {
        self.power_lost
    }

    /// Whether no die has anything to do except background work.
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

    /// Queues a page operation on its die and returns its number. Call [`kick`](Self::kick) once all operations of this
    /// moment are queued.
    #[inline(always)]
    pub fn push(&mut self, now: Ns, mut io: Io) -> u32 {
        let d = self.shape.die_of_unit(io.unit);
        io.queued_at = now.0;
        io.seen = self.dies[d as usize].internal_time(now.0);
        let is_read = io.kind == IoKind::Read;
        if !is_read {
            // The caller announced this page with `expect` before.
            self.units[io.unit as usize].expect_place(io.lpn);
            if !self.old.is_empty() {
                self.old.remove(&(io.unit, io.lpn));
            }
        }
        let at = self.ios.add(io);
        let d = if is_read && self.groups > 1 { self.group_of_read(at) } else { d };
        let die = &mut self.dies[d as usize];
        if is_read {
            die.reads.push(&mut self.ios, at);
        } else {
            die.writes.push(&mut self.ios, at);
        }
        self.touched.push(d);
        at
    }

    /// The physical page that a read goes to: the one in its HPB entry, unless the page has moved since the entry was
    /// accepted; without an entry that of the mapping.
    #[inline]
    fn place_of_read(&self, at: u32) -> u32 {
        let io = &self.ios[at];
        let mapped = self.units[io.unit as usize].lookup(io.lpn);
        if io.checked && io.by_entry.mapped == mapped { io.by_entry.page } else { mapped }
    }

    /// Starts the dies that got page operations since the last call, in the order in which they got them.
    #[inline]
    pub fn kick(&mut self, now: Ns) {
        for at in 0..self.touched.len() {
            let d = self.touched[at];
            let die = &self.dies[d as usize];
            if self.groups > 1 {
                self.kick_group(d, now.0);
            } else if die.page_register.is_none() && !die.settling {
                self.pick(d, now.0);
            } else if !die.reads.is_empty() {
                self.maybe_suspend(d, now.0);
            }
        }
        self.touched.clear();
    }

    /// A new page operation, for [`push`](Self::push).
    #[inline(always)]
    pub fn io(kind: IoKind, cause: Cause, unit: u32, lpn: u32, owner: Owner) -> Io {
        Io {
            kind,
            cause,
            checked: false,
            by_entry: ByEntry::NONE,
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

    /// Handles the next event, if there is one.
    pub fn step(&mut self) {
        if let Some((now, source)) = self.agenda.next() {
            self.happen(now, source);
        }
    }

    /// Handles events up to and including `until`. Stops after the first event that finishes a page operation or, with
    /// [`report_moves`](Self::report_moves), moves a page or erases a block. Returns the time of the last event
    /// handled.
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
        if F::KEEPS_BYTES {
            self.cells.advance_to(now);
        }
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

    /// A page of zeroes.
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

    /// Suspends the program or erase in the die's array for a waiting read, if the part can and enough of it is left.
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
        die.busy_until = now;
        op.ends = left;
        op.wants_since = now;
        die.suspended = Some(op);
        die.settling = true;
        self.counts.suspends += 1;
        if self.nand_time.is_some() {
            self.record_array(&op, -left.cast_signed());
        }
        self.agenda.set(d as usize, Ns(now) + latency);
    }

    fn resume(&mut self, d: u32, mut op: Op, now: u64) {
        let die = &mut self.dies[d as usize];
        die.account(now);
        let left = op.ends + self.config.timing.resume.0;
        op.array += left;
        op.waited += now - op.wants_since;
        op.ends = now + left;
        die.page_register = Some(op);
        self.book_array(d, now, left);
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
