//! One die: its registers, the operation in its array, and the queues in front of it.

use sim::Cause;

use super::BusOrder;
use super::io::{Fifo, InternalTime};
use crate::ftl::{NONE, Step};

/// Largest number of planes of a die: pages of one multi-plane operation.
pub const MAX_PLANES: usize = 4;

/// Kinds of flash operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads pages into the controller.
    Read,
    /// Programs pages with data from the controller.
    Program,
    /// Reads pages and programs them elsewhere in the unit. A write of some sectors is one as well: its source is the
    /// page's old place.
    Copy,
    /// Erases a block.
    Erase,
}

/// A register of a die. Each holds an operation and its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Register {
    /// The page register: the array reads into it and programs from it.
    Page = 0,
    /// The cache register: data enter or leave it while the array works.
    Cache = 1,
}

/// The phase of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Waits for the bus, for its command.
    Command,
    /// Waits for or uses the bus, with data to the controller.
    Out,
    /// Waits for or uses the bus, with data to the die.
    In,
    /// In the array.
    Array,
    /// A program with its data in the cache register, which waits for the program in the array.
    Ready,
}

/// A flash operation on one die, on one plane for each of its pages. Times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    pub kind: Kind,
    pub stage: Stage,
    pub cause: Cause,
    /// Number of pages, each on another plane.
    pub n: u8,
    /// Of a copy: pages read so far.
    pub read: u8,
    /// Of a copy: pages that are being read now, in one operation.
    pub run: u8,
    pub slc: bool,
    /// Of a read: whether an HPB entry is verified against one of its pages, which takes
    /// [`Timing::entry_check`](crate::Timing::entry_check) longer.
    pub checked: bool,
    pub suspends: u8,
    pub unit: u32,
    /// Physical pages to read; of an erase, the block; of padding, the logical page that has none.
    pub from: [u32; MAX_PLANES],
    /// Physical pages to program.
    pub at: [u32; MAX_PLANES],
    /// Page operations that it serves, one for each page, or [`NONE`].
    pub io: [u32; MAX_PLANES],
    /// When it began to wait: for the bus, suspended, or held.
    pub wants_since: u64,
    /// When the array starts, at the last cycle on the bus, and when it ends. While suspended, `ends` is the time left.
    pub starts: u64,
    pub ends: u64,
    /// Time spent waiting for and using the bus, and time in the array.
    pub bus: u64,
    pub array: u64,
    /// Time spent waiting since it began: suspended, or behind another program.
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

    /// Adds `span` of the die's time to `time`, if this operation is internal work.
    #[inline]
    fn book(&self, span: u64, time: &mut InternalTime) {
        match (self.kind, self.cause) {
            (Kind::Erase, _) => time.erase += span,
            (_, Cause::Gc | Cause::WearLevel) => time.gc += span,
            // Padding programmed by the FTL. The write buffer's padding arrives as page operations.
            (_, Cause::Padding) if self.io[0] == NONE => time.gc += span,
            _ => {}
        }
    }

    /// The index of `ppn` of `unit` among the pages that this operation programs.
    #[inline]
    pub fn programs(&self, unit: u32, ppn: u32) -> Option<usize> {
        let writes = matches!(self.kind, Kind::Program | Kind::Copy) && self.unit == unit;
        (0..if writes { usize::from(self.n) } else { 0 }).find(|&page| self.at[page] == ppn)
    }
}

/// What the FTL returned while an earlier group was formed, and is done next.
#[derive(Clone, Copy, Debug)]
pub enum Deferred {
    /// A step of work on a unit (its number).
    Step(u32, Step),
    /// A write that was placed already.
    Placed {
        /// Number of the page operation.
        write: u32,
        /// The physical page to program.
        at: u32,
        /// The physical page that held the logical page before, or [`NONE`].
        old: u32,
    },
}

/// A die: its operations and its queues.
#[derive(Clone, Debug)]
pub struct Die {
    /// The channel that the die is on, and its number among the dies there.
    pub channel: u32,
    pub slot: u32,
    /// The entry that does everything but reads; another one than this if this is a group of planes.
    pub main: u32,
    /// The operation in the array and the page register.
    pub page_register: Option<Op>,
    /// The operation in the cache register: a read whose data leave while the next read begins, or the next program.
    pub cache_register: Option<Op>,
    /// The operation that was suspended for reads.
    pub suspended: Option<Op>,
    pub deferred: Option<Deferred>,
    /// An operation taken from the queue that needs the page register, and starts when the array is free.
    pub held: Option<Op>,
    pub reads: Fifo,
    pub writes: Fifo,
    /// Whether the array is entering a suspend.
    pub settling: bool,
    /// Whether the idle timer before background work is running.
    pub idling: bool,
    /// Whether the die is doing background work; it goes on until there is none or a request comes.
    pub background: bool,
    /// Start of the time not yet booked, and internal work booked before it.
    pub since: u64,
    pub internal: InternalTime,
    /// Time in which the array worked, in nanoseconds.
    pub busy: u64,
    /// With independent reads: end of the time counted in `busy`.
    pub busy_until: u64,
}

impl Die {
    pub const IDLE: Die = Die {
        channel: 0,
        slot: 0,
        main: 0,
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
        busy_until: 0,
    };

    /// Puts a new operation into a register, whatever it held. Operations are filled in where they stay: they are too
    /// large to be moved about.
    #[inline]
    pub fn fresh(&mut self, register: Register, kind: Kind, unit: u32, cause: Cause) -> &mut Op {
        let place = if register == Register::Page { &mut self.page_register } else { &mut self.cache_register };
        place.insert(Op::new(kind, unit, cause))
    }

    /// The operation in a register, which must hold one.
    #[inline]
    pub fn held_by(&mut self, register: Register) -> &mut Op {
        let op = if register == Register::Page { &mut self.page_register } else { &mut self.cache_register };
        op.as_mut().expect("a register that is looked at holds an operation")
    }

    /// Time spent on internal work up to `now`.
    #[inline]
    pub fn internal_time(&self, now: u64) -> InternalTime {
        let mut time = self.internal;
        if let Some(op) = &self.page_register {
            op.book(now - self.since, &mut time);
        }
        time
    }

    /// Books the time since the last call to the operation in the page register.
    #[inline]
    pub fn account(&mut self, now: u64) {
        if let Some(op) = &self.page_register {
            op.book(now - self.since, &mut self.internal);
        }
        self.since = now;
    }
}

/// Bus arbitration classes, highest priority first under [`BusOrder::CommandsFirst`](super::BusOrder).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Class {
    /// Commands: short, and each starts a die's array.
    Command = 0,
    /// Data from a die to the controller.
    Out = 1,
    /// Data from the controller to a die.
    In = 2,
}

/// A bus, and the registers that wait for it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Channel {
    pub until: u64,
    pub busy: u64,
    /// Dies that wait, one bit for each die of the channel, by [`Class`] and [`Register`].
    pub waiting: [[u64; 2]; 3],
    /// The die that used the bus last.
    pub last: u32,
}

impl Channel {
    #[inline]
    pub fn anyone_waits(&self) -> bool {
        self.waiting.iter().fold(0, |all, class| all | class[0] | class[1]) != 0
    }

    /// The register that gets the bus next, as (class, register, die on this channel). Round robin within a class.
    #[inline]
    pub fn next(&self, order: BusOrder) -> Option<(Class, Register, u32)> {
        match order {
            BusOrder::CommandsFirst => self.first_of([Class::Command, Class::Out, Class::In]),
            BusOrder::DataFirst => self.first_of([Class::Out, Class::Command, Class::In]),
        }
    }

    #[inline(always)]
    fn first_of(&self, classes: [Class; 3]) -> Option<(Class, Register, u32)> {
        for class in classes {
            let [main, side] = self.waiting[class as usize];
            let all = main | side;
            if all != 0 {
                let after = all & (u64::MAX << self.last << 1);
                let die = if after != 0 { after.trailing_zeros() } else { all.trailing_zeros() };
                // Of the data to the controller, those in the cache register were read first; of the others, the page
                // register's are first.
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
