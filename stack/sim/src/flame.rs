//! Where the time of a clock goes: by operation, by the causes of the work, and by what the work is.
//!
//! A [`Cx`](crate::Cx) that records files every nanosecond of its clock here once, so that the parts sum to the whole.
//! Whoever drives the actor names the operation when it ends. A clock that does not record pays one branch where time
//! passes.

use std::collections::BTreeMap;

use crate::{Cause, Ns};

/// The name under which time between operations is filed.
pub const IDLE: &str = "idle";

/// Most causes of a stack: of a deeper one the innermost are kept.
pub const DEPTH: usize = 9;

/// What a span of time is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Work {
    /// The host's processor.
    Processor,
    /// The cells of a page are read.
    Read,
    /// The cells of a page are programmed.
    Program,
    /// The cells of a block are erased.
    Erase,
    /// Commands and data on the bus.
    Transfer,
    /// Waiting for a die or bus that is at work for another actor.
    Busy,
    /// Waiting for anything else.
    Wait,
}

impl Work {
    /// Every kind of work.
    pub const ALL: [Work; 7] =
        [Work::Processor, Work::Read, Work::Program, Work::Erase, Work::Transfer, Work::Busy, Work::Wait];

    /// Name of the work in results.
    pub const fn name(self) -> &'static str {
        match self {
            Work::Processor => "processor",
            Work::Read => "read",
            Work::Program => "program",
            Work::Erase => "erase",
            Work::Transfer => "transfer",
            Work::Busy => "busy chip",
            Work::Wait => "wait",
        }
    }
}

/// The causes under which an actor works, the innermost last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stack {
    /// The causes around the innermost, four bits each, 0 for none; the lowest is the nearest.
    outer: u32,
    innermost: Cause,
}

// A cause fits four bits, and 0 stays free; the others of a stack fit the word.
const _: () = assert!(Cause::ALL.len() < 16 && DEPTH == 1 + 32 / 4);

impl Stack {
    pub const fn new(cause: Cause) -> Stack {
        Stack { outer: 0, innermost: cause }
    }

    /// The stack with a cause more. Of nine causes the outermost is forgotten.
    #[inline]
    pub const fn with(self, cause: Cause) -> Stack {
        Stack { outer: self.outer << 4 | (self.innermost as u32 + 1), innermost: cause }
    }

    #[inline]
    pub const fn innermost(self) -> Cause {
        self.innermost
    }

    fn causes(self) -> Vec<Cause> {
        let outer = (0..8).rev().map(|at| self.outer >> (4 * at) & 15).filter(|&code| code > 0);
        let mut causes: Vec<_> = outer.map(|code| Cause::ALL[code as usize - 1]).collect();
        causes.push(self.innermost);
        causes
    }
}

/// Causes and work of a span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    stack: Stack,
    /// What it is.
    pub work: Work,
}

impl Kind {
    /// The causes, the outermost first.
    pub fn causes(self) -> Vec<Cause> {
        self.stack.causes()
    }
}

/// Operations of one name that took about the same time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filed {
    /// Number of the operations.
    pub operations: u64,
    /// Their time by kind.
    pub time: BTreeMap<Kind, Ns>,
}

impl Filed {
    /// Time of the operations.
    pub fn total(&self) -> Ns {
        self.time.values().fold(Ns::ZERO, |sum, &span| sum + span)
    }
}

/// Where the time of a clock went.
#[derive(Clone, Debug, Default)]
pub struct Flame {
    /// Time since the last operation was filed.
    open: Vec<(Kind, Ns)>,
    filed: BTreeMap<(&'static str, u16), Filed>,
}

impl Flame {
    /// Adds time of the operation under way.
    #[cold]
    pub(crate) fn add(&mut self, stack: Stack, work: Work, span: Ns) {
        if span == Ns::ZERO {
            return;
        }
        let kind = Kind { stack, work };
        // What went last comes again most often.
        match self.open.iter_mut().rev().find(|(known, _)| *known == kind) {
            Some((_, sum)) => *sum += span,
            None => self.open.push((kind, span)),
        }
    }

    /// Files time between operations.
    #[cold]
    pub(crate) fn idle(&mut self, stack: Stack, span: Ns) {
        let filed = self.filed.entry((IDLE, 0)).or_default();
        *filed.time.entry(Kind { stack, work: Work::Wait }).or_default() += span;
    }

    /// Files the time since the last call as an operation.
    #[cold]
    pub(crate) fn file(&mut self, operation: &'static str) {
        let total: u64 = self.open.iter().map(|(_, span)| span.0).sum();
        if total == 0 && operation == IDLE {
            return;
        }
        let filed = self.filed.entry((operation, class(total))).or_default();
        filed.operations += 1;
        for (kind, span) in self.open.drain(..) {
            *filed.time.entry(kind).or_default() += span;
        }
    }

    /// Adds what another record has filed.
    pub fn merge(&mut self, other: Flame) {
        for (operation, filed) in other.filed {
            let own = self.filed.entry(operation).or_default();
            own.operations += filed.operations;
            for (kind, span) in filed.time {
                *own.time.entry(kind).or_default() += span;
            }
        }
    }

    /// Operations by name and then by time, the shortest first; with the least time of each class.
    pub fn filed(&self) -> impl Iterator<Item = (&'static str, Ns, &Filed)> {
        self.filed.iter().map(|(&(operation, class), filed)| (operation, Ns(least_of(class)), filed))
    }

    /// All time that was recorded.
    pub fn total(&self) -> Ns {
        self.filed.values().fold(Ns::ZERO, |sum, filed| sum + filed.total())
    }
}

/// Class of a span: eight to a power of two, so that one is at most an eighth wide.
fn class(span: u64) -> u16 {
    if span < 16 {
        return span as u16;
    }
    let power = span.ilog2();
    ((power - 2) * 8) as u16 + (span >> (power - 3) & 7) as u16
}

/// Least span of a class.
fn least_of(class: u16) -> u64 {
    if class < 16 { class.into() } else { u64::from(8 + class % 8) << (class / 8 - 1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cx, PassKind, Timeline};

    #[test]
    fn a_class_has_the_spans_from_its_least_to_the_next_ones() {
        for span in (0..5_000).chain([1 << 40, (1 << 40) - 1, 1 << 63, u64::MAX]) {
            let class = class(span);
            assert!(least_of(class) <= span, "{span}: {class}");
            assert!(class == 495 || span < least_of(class + 1), "{span}: {class}");
        }
        assert_eq!(class(u64::MAX), 495);
    }

    #[test]
    fn every_nanosecond_is_filed_once_with_its_causes_and_its_work() {
        let (mut chip, mut other, mut cx) = (Timeline::default(), Cx::new(), Cx::new());
        cx.spend(Ns(1_000));
        cx.record();
        cx.idle_until(Ns(1_500));
        chip.occupy(&mut other, Ns(1_600), Work::Erase);
        cx.because(Cause::Gc, |cx| {
            chip.occupy(cx, Ns(50), Work::Program);
            cx.because(Cause::Index, |cx| chip.occupy(cx, Ns(7), Work::Program));
            cx.spend(Ns(3));
        });
        chip.occupy(&mut cx, Ns(50), Work::Read);
        cx.file("write");
        cx.wait_until(Ns(1_000));
        cx.file("nothing");
        cx.spend(Ns(20));
        let flame = cx.stop_recording().unwrap();
        let mut found = Vec::new();
        for (operation, least, filed) in flame.filed() {
            let time = filed.time.iter().map(|(kind, span)| (kind.causes(), kind.work, span.0));
            found.push((operation, least.0, filed.operations, time.collect::<Vec<_>>()));
        }
        let (host, gc, index) = (Cause::Host, Cause::Gc, Cause::Index);
        let expected = [
            (IDLE, 0, 0, vec![(vec![host], Work::Wait, 500)]),
            (IDLE, 20, 1, vec![(vec![host], Work::Processor, 20)]),
            ("nothing", 0, 1, vec![]),
            (
                "write",
                208,
                1,
                vec![
                    (vec![host], Work::Read, 50),
                    (vec![host, gc], Work::Processor, 3),
                    (vec![host, gc], Work::Program, 50),
                    (vec![host, gc], Work::Busy, 100),
                    (vec![host, gc, index], Work::Program, 7),
                ],
            ),
        ];
        assert_eq!(found, expected);
        assert_eq!(flame.total(), cx.now() - Ns(1_000));
        assert!(cx.stop_recording().is_none());
    }

    #[test]
    fn two_records_together_have_what_each_has() {
        let record = |spans: &[u64]| {
            let mut cx = Cx::new();
            cx.record();
            for &span in spans {
                cx.spend(Ns(span));
                cx.file("write");
            }
            cx.stop_recording().unwrap()
        };
        let mut both = record(&[10, 10, 3]);
        both.merge(record(&[10, 400]));
        let found: Vec<_> =
            both.filed().map(|(_, least, filed)| (least.0, filed.operations, filed.total().0)).collect();
        assert_eq!(found, [(3, 1, 3), (10, 3, 30), (384, 1, 400)]);
    }

    #[test]
    fn every_kind_of_work_and_of_pass_has_a_name_of_its_own() {
        let names = Work::ALL.map(Work::name);
        assert_eq!(names, ["processor", "read", "program", "erase", "transfer", "busy chip", "wait"]);
        let kinds = [PassKind::Check, PassKind::Move, PassKind::Erase];
        assert_eq!(kinds.map(PassKind::name), ["check", "move", "erase"]);
    }

    #[test]
    fn of_too_many_causes_the_outermost_are_forgotten() {
        let mut stack = Stack::new(Cause::Host);
        for cause in Cause::ALL {
            stack = stack.with(cause);
        }
        assert_eq!(stack.causes(), Cause::ALL[Cause::ALL.len() - DEPTH..]);
        assert_eq!(Stack::new(Cause::Gc).with(Cause::Host).causes(), [Cause::Gc, Cause::Host]);
    }
}
