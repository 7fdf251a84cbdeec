//! UBI volumes whose users write bytes at a rate, in virtual time.
//!
//! Each volume has one user: a log, a store that is rewritten in place, an image that is updated, or data that are only
//! read. The generator says what the users do next, in the order of time; whoever holds the UBI device does it. It knows
//! LEBs and write units, and no device: what is free, where LEBs are and when blocks are erased is UBI's.
//!
//! - The time of a user's write `n` (from 1) follows from its bytes: `n` × write size ÷ rate. A span of time has the same
//!   bytes however the run is cut into steps.
//! - Steps are due in the order of time, of equal times in the order of the volumes. An update or a scan of a volume goes
//!   on as fast as the device does, LEB by LEB; other users come between.
//! - Records of a log that follow each other in one LEB, with no other user between them, are one step. UBI sees the same
//!   bytes at the same places in the same order.

mod users;

use sim::events::Agenda;
use sim::{Lnum, Ns, Seed};

use users::{Next, User};
pub use users::{Order, Pattern, Rate};

/// A volume and what its user does.
#[derive(Clone, Debug, PartialEq)]
pub struct Volume {
    /// Name; the draws of its user depend on it.
    pub name: String,
    /// LEBs of the volume.
    pub lebs: u32,
    /// What its user does.
    pub pattern: Pattern,
}

/// LEBs of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lebs {
    /// Bytes of a LEB.
    pub leb_bytes: u32,
    /// Write unit in bytes.
    pub min_io_bytes: u32,
}

/// An operation on a volume. Lengths are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Write at an offset of a LEB, which is unmapped first if `fresh`.
    Write {
        /// LEB to write.
        lnum: Lnum,
        /// Offset in the LEB.
        offset: u32,
        /// Bytes to write, in whole write units.
        bytes: u32,
        /// Whether the LEB's old contents go first.
        fresh: bool,
    },
    /// Change a LEB atomically.
    Change {
        /// LEB to change.
        lnum: Lnum,
        /// Its new length, in whole write units.
        bytes: u32,
    },
    /// Begin an update of the volume.
    BeginUpdate {
        /// Length of the new contents.
        bytes: u64,
    },
    /// Write a LEB of the update.
    UpdateLeb {
        /// LEB to write.
        lnum: Lnum,
        /// Length of its part of the update.
        bytes: u32,
        /// Length of the new contents.
        of: u64,
    },
    /// End the update.
    EndUpdate {
        /// Length of the new contents.
        bytes: u64,
    },
    /// Read a LEB.
    Read {
        /// LEB to read.
        lnum: Lnum,
        /// Bytes to read, from its beginning.
        bytes: u32,
    },
}

/// What a user does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The volume, by its place in the list.
    pub volume: usize,
    /// When it is due, since the load began.
    pub due: Ns,
    /// The operation.
    pub op: Op,
    /// Writes of the user that it completes.
    pub writes: u64,
    /// Bytes of these writes, without what fills them up to write units or LEBs.
    pub host_bytes: u64,
}

/// Where the load ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Nothing that is due later is done, and nothing after it.
    pub until: Ns,
    /// A step completes no more writes than it takes to reach this many bytes.
    pub host_bytes: u64,
}

/// Generator of the load.
#[derive(Clone, Debug)]
pub struct Volumes {
    users: Vec<User>,
    agenda: Agenda,
    /// The user who goes on as soon as the step before is done.
    goes_on: Option<usize>,
}

impl Volumes {
    /// The load of these volumes. Panics if a pattern does not fit its volume ([`Pattern::misfit`]).
    pub fn new(volumes: &[Volume], shape: Lebs, seed: Seed) -> Volumes {
        let users: Vec<User> = volumes.iter().map(|volume| User::new(volume, shape, seed)).collect();
        let mut agenda = Agenda::new(users.len());
        for (at, user) in users.iter().enumerate() {
            agenda.set(at, user.due());
        }
        Volumes { users, agenda, goes_on: None }
    }

    /// What brings the volumes into the state in which the load begins: images and data that are read are written, and
    /// every LEB that is rewritten in place is mapped. Logs are empty.
    pub fn fill(&self) -> impl Iterator<Item = (usize, Op)> + '_ {
        self.users.iter().enumerate().flat_map(|(at, user)| user.fill().map(move |op| (at, op)))
    }

    /// The next step; `None` if nothing is due within the limits. `now` is the time since the load began at which the
    /// step before was done.
    #[inline]
    pub fn next(&mut self, now: Ns, limits: Limits) -> Option<Step> {
        if let Some(at) = self.goes_on.take() {
            self.agenda.set(at, now);
        }
        let (due, volume) = self.agenda.next().filter(|&(due, _)| due.max(now) <= limits.until)?;
        self.agenda.clear(volume);
        // Steps of this user before this time meet no other user.
        let alone_until = self.agenda.next_time().unwrap_or(Ns(u64::MAX)).min(Ns(limits.until.0.saturating_add(1)));
        let user = &mut self.users[volume];
        let (op, writes, host_bytes) = user.step(alone_until, limits.host_bytes);
        match user.next() {
            Next::At(due) => self.agenda.set(volume, due),
            Next::WhenDone => self.goes_on = Some(volume),
        }
        Some(Step { volume, due, op, writes, host_bytes })
    }
}
