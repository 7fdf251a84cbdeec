//! Bus arbitration, and the phases that begin when a die gets the bus.

use sim::Ns;
use sim::seam::Flash;

use super::Dispatcher;
use super::die::{Class, Kind, Op, Register, Stage};
use crate::ftl::UnitFtl;

impl<F: Flash, M: UnitFtl> Dispatcher<F, M> {
    /// Requests the bus for a die's register, and grants it at once if it is idle. Inlined, because most callers know
    /// the class.
    #[inline(always)]
    pub(super) fn want(&mut self, d: u32, register: Register, class: Class, now: u64) {
        let die = &mut self.dies[d as usize];
        let (c, slot) = (die.channel, die.slot);
        let op = if register == Register::Page { die.page_register.as_mut() } else { die.cache_register.as_mut() };
        let op = op.expect("a register that wants the bus holds an operation");
        op.wants_since = now;
        op.stage = match class {
            Class::Command => Stage::Command,
            Class::Out => Stage::Out,
            Class::In => Stage::In,
        };
        let channel = &mut self.channels[c as usize];
        if channel.until <= now && !channel.anyone_waits() {
            channel.last = slot;
            return self.grant(d, register, class, now);
        }
        channel.waiting[class as usize][register as usize] |= 1 << slot;
        let (source, at) = (self.buses + c as usize, Ns(channel.until.max(now)));
        if self.agenda.of(source) != Some(at) {
            self.agenda.set(source, at);
        }
    }

    /// The bus of channel `c` may be free: grants it to the next register that waits.
    pub(super) fn channel_event(&mut self, c: u32, now: u64) {
        let source = self.buses + c as usize;
        let channel = &mut self.channels[c as usize];
        if channel.until > now {
            self.agenda.set(source, Ns(channel.until));
            return;
        }
        let Some((class, register, slot)) = channel.next(self.config.bus_order) else {
            self.agenda.clear(source);
            return;
        };
        channel.waiting[class as usize][register as usize] &= !(1 << slot);
        channel.last = slot;
        self.grant(slot * self.shape.channels + c, register, class, now);
        let channel = &self.channels[c as usize];
        if channel.anyone_waits() {
            self.agenda.set(source, Ns(channel.until));
        } else {
            self.agenda.clear(source);
        }
    }

    /// Gives the bus to a register: books the transfer, and the array phase that follows it.
    #[inline(always)]
    fn grant(&mut self, d: u32, register: Register, class: Class, now: u64) {
        let timing = &self.config.timing;
        let (command, transfer) = (timing.command.0, timing.transfer.0);
        let die = &self.dies[d as usize];
        let c = die.channel as usize;
        let op = if register == Register::Page { die.page_register.as_ref() } else { die.cache_register.as_ref() };
        let op = op.expect("a register that was granted the bus holds an operation");
        let span = match class {
            Class::Command => command,
            Class::Out if op.kind == Kind::Copy => transfer * u64::from(op.run),
            Class::Out => transfer * u64::from(op.n),
            Class::In => command + transfer * u64::from(op.n),
        };
        let array = match class {
            Class::Command if op.kind == Kind::Erase => self.erase_time(op),
            Class::Command if op.kind == Kind::Copy && op.read == op.n => self.program_time(op),
            Class::Command => self.read_time(op, op.from[usize::from(op.read)]),
            Class::In if register == Register::Page => self.program_time(op),
            Class::In | Class::Out => 0,
        };
        let channel = &mut self.channels[c];
        channel.until = now + span;
        channel.busy += span;
        let die = &mut self.dies[d as usize];
        let op = if register == Register::Page { die.page_register.as_mut() } else { die.cache_register.as_mut() };
        let op: &mut Op = op.expect("looked at above");
        op.bus += now - op.wants_since + span;
        if array > 0 || class == Class::Command || class == Class::In && register == Register::Page {
            // The array starts at the last cycle on the bus.
            op.stage = Stage::Array;
            op.array += array;
            op.starts = now + span;
            op.ends = now + span + array;
            if self.groups == 1 {
                die.busy += array;
            } else {
                self.book_array(d, now + span, array);
            }
        }
        if self.nand_time.is_some() {
            self.record_grant(d, register, span, array);
        }
        let source = if register == Register::Page { d as usize } else { self.dies.len() + d as usize };
        self.agenda.set(source, Ns(now + span + array));
        if class == Class::In && register == Register::Page {
            self.stage_next(d, now);
        }
    }

    /// Starts the array on a program whose data are already in the register.
    pub(super) fn start_array(&mut self, d: u32, mut op: Op, now: u64) {
        let array = self.program_time(&op);
        op.stage = Stage::Array;
        op.array += array;
        op.waited += now - op.ends;
        (op.starts, op.ends) = (now, now + array);
        let die = &mut self.dies[d as usize];
        die.account(now);
        die.page_register = Some(op);
        self.book_array(d, now, array);
        self.agenda.set(d as usize, Ns(now + array));
        self.stage_next(d, now);
    }
}
