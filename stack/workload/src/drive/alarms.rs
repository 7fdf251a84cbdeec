//! Alarms of a load's users, by virtual time. The order of alarms at the same time is part of a load's definition, so
//! each load selects the cheapest queue with that order.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use sim::Ns;

/// A queue of alarms.
pub trait Alarms: Default {
    /// Wakes `user` at `at`.
    fn set(&mut self, at: Ns, user: u32);

    /// Time of the next alarm; `Ns(u64::MAX)` if none is set.
    fn first(&self) -> Ns;

    /// Takes the next alarm.
    fn pop(&mut self) -> Option<(Ns, u32)>;
}

/// For any times; users with the same time in the order of their numbers.
#[derive(Debug, Default)]
pub struct ByUser(BinaryHeap<Reverse<(Ns, u32)>>);

impl Alarms for ByUser {
    fn set(&mut self, at: Ns, user: u32) {
        self.0.push(Reverse((at, user)));
    }

    #[inline]
    fn first(&self) -> Ns {
        self.0.peek().map_or(Ns(u64::MAX), |&Reverse((at, _))| at)
    }

    fn pop(&mut self) -> Option<(Ns, u32)> {
        self.0.pop().map(|Reverse(alarm)| alarm)
    }
}

/// For times that never decrease, as with a constant delay: first set, first up.
#[derive(Debug, Default)]
pub struct InOrder(VecDeque<(Ns, u32)>);

impl Alarms for InOrder {
    #[inline]
    fn set(&mut self, at: Ns, user: u32) {
        debug_assert!(self.0.back().is_none_or(|&(last, _)| last <= at), "an alarm before the last");
        self.0.push_back((at, user));
    }

    #[inline]
    fn first(&self) -> Ns {
        self.0.front().map_or(Ns(u64::MAX), |&(at, _)| at)
    }

    #[inline]
    fn pop(&mut self) -> Option<(Ns, u32)> {
        self.0.pop_front()
    }
}

/// A single alarm; setting it again moves it.
#[derive(Debug)]
pub struct One {
    at: Ns,
    user: u32,
    is_set: bool,
}

impl Default for One {
    fn default() -> One {
        One { at: Ns(u64::MAX), user: 0, is_set: false }
    }
}

impl Alarms for One {
    #[inline]
    fn set(&mut self, at: Ns, user: u32) {
        (self.at, self.user, self.is_set) = (at, user, true);
    }

    #[inline]
    fn first(&self) -> Ns {
        self.at
    }

    #[inline]
    fn pop(&mut self) -> Option<(Ns, u32)> {
        let at = std::mem::replace(&mut self.at, Ns(u64::MAX));
        std::mem::replace(&mut self.is_set, false).then_some((at, self.user))
    }
}
