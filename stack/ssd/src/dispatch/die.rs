//! One die: what it is doing, what its registers hold, what waits for it.

use sim::Cause;

use super::io::{Fifo, InternalTime};
use crate::ftl::{NONE, Step};

/// Most planes of a die: pages of one multi-plane operation.
pub const MAX_PLANES: usize = 4;

/// Kinds of flash operations, as a die is told them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Pages are read to the controller.
    Read,
    /// Pages are programmed with data from the controller.
    Program,
    /// Pages are read, then programmed elsewhere in the unit.
    Copy,
    /// A block is erased.
    Erase,
}

/// A register of a die that holds an operation and its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Register {
    /// The page register, which the array reads into and programs from.
    Page = 0,
    /// The cache register, from which data go out, or into which they come, while the array works.
    Cache = 1,
}

/// The phase that an operation is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Wants the bus for its command.
    Command,
    /// Wants the bus, or has it, for data to the controller.
    Out,
    /// Wants the bus, or has it, for data to the die.
    In,
    /// The array works.
    Array,
    /// A program whose data are in the cache register, behind one in the array.
    Ready,
}

/// A flash operation on one die, on as many planes as it has pages.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    pub kind: Kind,
    pub stage: Stage,
    pub cause: Cause,
    /// Pages of the operation, each on another plane.
    pub n: u8,
    /// Of a copy: pages read so far; of those under way, `run`.
    pub read: u8,
    pub run: u8,
    pub slc: bool,
    /// Of a read: whether a page of it is held against an entry.
    pub checked: bool,
    pub suspends: u8,
    pub unit: u32,
    /// Pages to read; of an erase, the block.
    pub from: [u32; MAX_PLANES],
    /// Pages to program.
    pub at: [u32; MAX_PLANES],
    /// Page operations that it serves, or [`NONE`].
    pub io: [u32; MAX_PLANES],
    /// Since when it wants the bus.
    pub wants_since: u64,
    /// When the array begins, after the last cycle on the bus, and when it is done.
    pub starts: u64,
    pub ends: u64,
    /// Time waited for and spent on the bus, and in the array.
    pub bus: u64,
    pub array: u64,
    /// Time waited for others in the middle of it: suspended, or behind another program.
    pub waited: u64,
}

impl Op {
    pub fn new(kind: Kind, unit: u32, cause: Cause) -> Op {
        let stage = match kind {
            Kind::Read | Kind::Erase | Kind::Copy => Stage::Command,
            Kind::Program => Stage::In,
        };
        Op {
            kind,
            stage,
            cause,
            n: 1,
            read: 0,
            run: 1,
            slc: false,
            checked: false,
            suspends: 0,
            unit,
            from: [NONE; MAX_PLANES],
            at: [NONE; MAX_PLANES],
            io: [NONE; MAX_PLANES],
            wants_since: 0,
            starts: 0,
            ends: 0,
            bus: 0,
            array: 0,
            waited: 0,
        }
    }

    /// Books `span` of the die's time on it, if it is internal work.
    #[inline]
    fn book(&self, span: u64, time: &mut InternalTime) {
        match (self.kind, self.cause) {
            (Kind::Erase, _) => time.erase += span,
            (_, Cause::Gc | Cause::WearLevel) => time.gc += span,
            // Padding that a layer asks for; a write buffer's comes as page operations.
            (_, Cause::Padding) if self.io[0] == NONE => time.gc += span,
            _ => {}
        }
    }

    /// Whether page `ppn` of `unit` is among those that it programs.
    #[inline]
    pub fn programs(&self, unit: u32, ppn: u32) -> Option<usize> {
        let writes = matches!(self.kind, Kind::Program | Kind::Copy) && self.unit == unit;
        (0..if writes { usize::from(self.n) } else { 0 }).find(|&page| self.at[page] == ppn)
    }
}

/// What a layer asked for or gave while an earlier group was made up, to be done next.
#[derive(Clone, Copy, Debug)]
pub enum Deferred {
    /// A step of work on a unit.
    Step(u32, Step),
    /// A write, which goes here; before that it was there.
    Placed {
        /// Number of the page operation.
        write: u32,
        /// The physical page that the layer gave it.
        at: u32,
        /// The physical page that held its logical page before, or [`NONE`].
        old: u32,
    },
}

/// What a die is doing, what its registers hold, and what waits for it.
#[derive(Clone, Debug)]
pub struct Die {
    /// The channel that reaches it, and its number among the dies there.
    pub channel: u32,
    pub slot: u32,
    /// In the array and its page register.
    pub page_register: Option<Op>,
    /// In the cache register: a read on its way out behind which the next one begins, or the data of the next program.
    pub cache_register: Option<Op>,
    /// Put off for reads.
    pub suspended: Option<Op>,
    pub deferred: Option<Deferred>,
    /// Ready to begin when the array is free.
    pub held: Option<Op>,
    pub reads: Fifo,
    pub writes: Fifo,
    /// The array goes into or comes out of a suspend until then.
    pub settling: bool,
    /// Waits for a while before it looks for background work.
    pub idling: bool,
    /// Does background work, and goes on with it.
    pub background: bool,
    /// Since when the page register holds what it holds, and time spent on internal work before.
    pub since: u64,
    pub internal: InternalTime,
    /// Time of the array at work.
    pub busy: u64,
}

impl Die {
    pub const IDLE: Die = Die {
        channel: 0,
        slot: 0,
        page_register: None,
        cache_register: None,
        suspended: None,
        deferred: None,
        held: None,
        reads: Fifo::EMPTY,
        writes: Fifo::EMPTY,
        settling: false,
        idling: false,
        background: false,
        since: 0,
        internal: InternalTime { gc: 0, erase: 0 },
        busy: 0,
    };

    /// Makes a fresh operation in a register, whatever it held. Operations are filled in where they
    /// stay: they are too long to be moved about.
    #[inline]
    pub fn fresh(&mut self, register: Register, kind: Kind, unit: u32, cause: Cause) -> &mut Op {
        let place = if register == Register::Page { &mut self.page_register } else { &mut self.cache_register };
        place.insert(Op::new(kind, unit, cause))
    }

    /// What a register holds.
    #[inline]
    pub fn held_by(&mut self, register: Register) -> &mut Op {
        let op = if register == Register::Page { &mut self.page_register } else { &mut self.cache_register };
        op.as_mut().expect("a register that is looked at holds an operation")
    }

    /// Time spent up to `now` on internal work.
    #[inline]
    pub fn internal_time(&self, now: u64) -> InternalTime {
        let mut time = self.internal;
        if let Some(op) = &self.page_register {
            op.book(now - self.since, &mut time);
        }
        time
    }

    /// Books the time since it was last asked to what it did.
    #[inline]
    pub fn account(&mut self, now: u64) {
        if let Some(op) = &self.page_register {
            op.book(now - self.since, &mut self.internal);
        }
        self.since = now;
    }
}

/// Who may use the bus next, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Class {
    /// Commands: short, and each sets a die to work.
    Command = 0,
    /// Data to the controller.
    Out = 1,
    /// Data to a die.
    In = 2,
}

/// A bus and who waits for it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Channel {
    pub until: u64,
    pub busy: u64,
    /// Dies of the channel (their number on it) that wait, by [`Class`] and [`Register`].
    pub waiting: [[u64; 2]; 3],
    /// Who had it last.
    pub last: u32,
}

impl Channel {
    #[inline]
    pub fn anyone_waits(&self) -> bool {
        self.waiting.iter().fold(0, |all, class| all | class[0] | class[1]) != 0
    }

    /// The next to have it: class, register, die on this channel; within a class round robin.
    #[inline]
    pub fn next(&self) -> Option<(Class, Register, u32)> {
        for class in [Class::Command, Class::Out, Class::In] {
            let [main, side] = self.waiting[class as usize];
            let all = main | side;
            if all != 0 {
                let after = all & (u64::MAX << self.last << 1);
                let die = if after != 0 { after.trailing_zeros() } else { all.trailing_zeros() };
                // What is in the cache register came first on its way out, and is behind on its way in.
                let in_side = side >> die & 1 == 1;
                let in_main = main >> die & 1 == 1;
                let from_cache = if class == Class::Out { in_side } else { !in_main };
                let register = if from_cache { Register::Cache } else { Register::Page };
                return Some((class, register, die));
            }
        }
        None
    }
}
