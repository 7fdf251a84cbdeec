//! Passes of garbage collection, as the clock of the actor that did them saw them: whoever drives the actor knows whether a
//! program waited for them.

use std::ops::{Add, AddAssign, Sub};

use crate::{Ns, Work};

/// Time by what it was spent on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent([Ns; Work::ALL.len()]);

impl Spent {
    /// Time spent on a kind of work.
    pub fn on(&self, work: Work) -> Ns {
        self.0[work as usize]
    }

    /// All of it.
    pub fn total(&self) -> Ns {
        self.0.iter().fold(Ns::ZERO, |sum, &span| sum + span)
    }

    #[inline]
    pub(crate) fn add(&mut self, work: Work, span: Ns) {
        self.0[work as usize] += span;
    }
}

impl Add for Spent {
    type Output = Spent;
    fn add(mut self, other: Spent) -> Spent {
        self += other;
        self
    }
}

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Spent) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, span)| *sum += span);
    }
}

impl Sub for Spent {
    type Output = Spent;
    fn sub(mut self, earlier: Spent) -> Spent {
        self.0.iter_mut().zip(earlier.0).for_each(|(span, before)| *span = *span - before);
        self
    }
}

/// What a pass did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PassKind {
    /// It looked at nodes that no mount had checked.
    Check,
    /// It moved what is in use.
    Move,
    /// It erased.
    Erase,
}

impl PassKind {
    /// Name of the kind in results.
    pub const fn name(self) -> &'static str {
        match self {
            PassKind::Check => "check",
            PassKind::Move => "move",
            PassKind::Erase => "erase",
        }
    }
}

/// A pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// What it did.
    pub kind: PassKind,
    /// When it began.
    pub start: Ns,
    /// When it ended.
    pub end: Ns,
    /// The eraseblock that it emptied or erased, or the inode that it checked.
    pub victim: u32,
    /// Nodes that it wrote.
    pub nodes: u64,
    /// Bytes of them.
    pub moved_bytes: u64,
    /// Where its time went.
    pub spent: Spent,
}

/// A pass that has begun, on a clock that keeps them.
#[derive(Clone, Copy, Debug)]
pub struct Begun(pub(crate) Option<(Ns, Spent)>);

/// What a clock keeps: where its time went, and the passes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Passes {
    pub spent: Spent,
    pub done: Vec<Pass>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cx, Timeline};

    #[test]
    fn times_are_added_and_taken_off_work_by_work() {
        let spent = |of: fn(u64) -> u64| {
            let mut spent = Spent::default();
            (0..).zip(Work::ALL).for_each(|(number, work)| Spent::add(&mut spent, work, Ns(of(number))));
            spent
        };
        let (first, second) = (spent(|number| 10 + number), spent(|number| number * number));
        let mut sum = first;
        sum += second;
        assert_eq!(
            (sum, first + second, sum - second, sum - first),
            (spent(|number| 10 + number + number * number), sum, first, second)
        );
        // 70 and 0 to 6; the squares of 0 to 6.
        assert_eq!([first, second, sum].map(|spent| spent.total()), [91, 91, 182].map(Ns));
        assert_eq!((sum.on(Work::Processor), sum.on(Work::Wait)), (Ns(10), Ns(52)));
    }

    #[test]
    fn a_pass_has_its_own_time_by_work() {
        let (mut chip, mut cx) = (Timeline::default(), Cx::new());
        let before = cx.begin_pass();
        cx.spend(Ns(5));
        cx.end_pass(before, PassKind::Move, 1, (2, 3));
        assert!(cx.take_passes().is_empty(), "nobody asked for it");
        cx.keep_passes();
        cx.spend(Ns(100));
        let begun = cx.begin_pass();
        cx.spend(Ns(7));
        chip.occupy(&mut cx, Ns(30), Work::Erase);
        cx.end_pass(begun, PassKind::Erase, 4, (0, 0));
        let found = cx.take_passes();
        let [pass] = found[..] else { panic!("{found:?}") };
        assert_eq!((pass.start, pass.end, pass.victim), (Ns(105), Ns(142), 4));
        assert_eq!((pass.spent.on(Work::Processor), pass.spent.on(Work::Erase)), (Ns(7), Ns(30)));
        assert_eq!((pass.spent.total(), cx.spent().total()), (Ns(37), Ns(137)));
        assert!(cx.take_passes().is_empty());
    }
}
