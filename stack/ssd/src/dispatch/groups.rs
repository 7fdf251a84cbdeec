//! Dies whose planes read independently: several reads at a time, each on a group of planes.
//!
//! A die with `n` groups has `n` entries among the dispatcher's dies: the first does everything that a die does, and
//! reads its own group; each other one only reads, with a page register, a cache register and a queue of its own. Group
//! `g` of die `d` is entry `d + g * dies`; so it is on the channel of its die and is served as a die of its own there.
//! A program, an erase or a copy holds the die: it starts when no group reads and no read waits, and no group reads
//! until it has ended or is suspended.
//!
//! A read is queued in the group that held its page then. If a copy has moved the page meanwhile, it changes queues.

use sim::seam::Flash;

use super::Dispatcher;
use super::die::Kind;
use crate::ftl::{NONE, UnitFtl};

impl<F: Flash, M: UnitFtl> Dispatcher<F, M> {
    /// The entries of die `main`.
    fn groups_of(&self, main: u32) -> impl Iterator<Item = u32> + use<F, M> {
        let dies = self.shape.all_dies();
        (0..self.groups).map(move |group| main + group * dies)
    }

    /// The entry that reads physical page `ppn` of `unit`.
    pub(super) fn group_of(&self, unit: u32, ppn: u32) -> u32 {
        let planes = self.shape.units_per_die();
        let plane = if planes > 1 { unit % planes } else { self.cells.plane(ppn) };
        self.shape.die_of_unit(unit) + plane % self.groups * self.shape.all_dies()
    }

    /// The entry in whose queue read `at` waits: that of its page, or the first one if it needs no flash.
    #[inline(never)]
    pub(super) fn group_of_read(&self, at: u32) -> u32 {
        let unit = self.ios[at].unit;
        match self.place_of_read(at) {
            NONE => self.shape.die_of_unit(unit),
            ppn => self.group_of(unit, ppn),
        }
    }

    /// Moves a read whose page is now in another group to that group's queue. Returns whether it is.
    #[inline(never)]
    pub(super) fn moved_group(&mut self, d: u32, read: u32, unit: u32, ppn: u32) -> bool {
        let group = self.group_of(unit, ppn);
        if group != d {
            self.dies[group as usize].reads.push(&mut self.ios, read);
        }
        group != d
    }

    /// Whether a read waits in a queue of the die.
    #[inline]
    pub(super) fn reads_wait(&self, main: u32) -> bool {
        match self.groups {
            1 => !self.dies[main as usize].reads.is_empty(),
            _ => self.groups_of(main).any(|d| !self.dies[d as usize].reads.is_empty()),
        }
    }

    /// Whether an operation other than a read holds the die, or a suspend is under way.
    fn is_held(&self, main: u32) -> bool {
        let die = &self.dies[main as usize];
        die.settling || die.page_register.as_ref().is_some_and(|op| op.kind != Kind::Read)
    }

    /// As [`kick`](Self::kick) for an entry that got page operations.
    #[inline(never)]
    pub(super) fn kick_group(&mut self, d: u32, now: u64) {
        let main = self.dies[d as usize].main;
        if !self.is_held(main) {
            self.pick(main, now);
        } else if self.reads_wait(main) {
            self.maybe_suspend(main, now);
        }
    }

    /// As [`pick`](Self::pick): starts a read on each group that has one; if none reads, anything else.
    #[inline(never)]
    pub(super) fn pick_groups(&mut self, main: u32, now: u64) {
        if self.is_held(main) {
            return;
        }
        let die = &mut self.dies[main as usize];
        if die.idling {
            die.idling = false;
            self.agenda.clear(main as usize);
        }
        if self.start_prepared(main, now) || self.power_lost {
            return;
        }
        self.dies[main as usize].account(now);
        // Twice, since a read may move to the queue of a group that was looked at before.
        for d in self.groups_of(main).chain(self.groups_of(main)) {
            if self.dies[d as usize].page_register.is_none() && self.next_read(d, main, now) {
                self.begin(d, now);
            }
        }
        if self.groups_of(main).all(|d| self.dies[d as usize].page_register.is_none()) {
            self.pick_other(main, now);
        }
    }

    /// Counts `array`, which begins at `start`, in the time in which the die works. What several groups do at the same
    /// time counts once.
    #[inline(never)]
    pub(super) fn book_array(&mut self, d: u32, start: u64, array: u64) {
        let main = self.dies[d as usize].main;
        let die = &mut self.dies[main as usize];
        let end = start + array;
        let more = end.saturating_sub(start.max(die.busy_until));
        die.busy += more;
        die.busy_until = die.busy_until.max(end);
        if self.nand_time.is_some()
            && let Some(op) = self.dies[d as usize].page_register
        {
            self.record_array(&op, more.cast_signed());
        }
    }
}
