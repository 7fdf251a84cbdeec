//! Virtual time: nanoseconds in 64 bits, and the resources that actors occupy.

use crate::{Cx, Work};

/// A point in virtual time, or a span of it, in nanoseconds. 64 bits hold 584 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ns(pub u64);

impl Ns {
    /// Start of every run.
    pub const ZERO: Ns = Ns(0);

    /// A span of `us` microseconds.
    pub const fn from_us(us: u64) -> Ns {
        Ns(us * 1_000)
    }

    /// A span of `ms` milliseconds.
    pub const fn from_ms(ms: u64) -> Ns {
        Ns(ms * 1_000_000)
    }

    /// A span of `s` seconds.
    pub const fn from_s(s: u64) -> Ns {
        Ns(s * 1_000_000_000)
    }

    /// The span in seconds, for display.
    pub fn as_s(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl std::ops::Add for Ns {
    type Output = Ns;
    fn add(self, rhs: Ns) -> Ns {
        Ns(self.0 + rhs.0)
    }
}

impl std::ops::AddAssign for Ns {
    fn add_assign(&mut self, rhs: Ns) {
        self.0 += rhs.0;
    }
}

impl std::ops::Sub for Ns {
    type Output = Ns;
    /// Panics in debug builds if `rhs` is later: a span is never negative.
    fn sub(self, rhs: Ns) -> Ns {
        Ns(self.0 - rhs.0)
    }
}

impl std::ops::Mul<u64> for Ns {
    type Output = Ns;
    fn mul(self, rhs: u64) -> Ns {
        Ns(self.0 * rhs)
    }
}

/// A resource that serves one actor at a time, in the order of requests: a die, a bus, a processor.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timeline {
    free_at: Ns,
    busy: Ns,
}

impl Timeline {
    /// Waits until the resource is free, holds it for `span` of `work`, and leaves `cx` at the end of that span.
    pub fn occupy(&mut self, cx: &mut Cx, span: Ns, work: Work) {
        cx.work_until(Work::Busy, self.free_at);
        let end = cx.now() + span;
        self.free_at = end;
        self.busy += span;
        cx.work_until(work, end);
    }

    /// When the resource is free next.
    pub fn free_at(&self) -> Ns {
        self.free_at
    }

    /// Time for which it was held; divided by the run's length, its utilisation.
    pub fn busy(&self) -> Ns {
        self.busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_added_taken_off_and_multiplied() {
        assert_eq!([Ns::from_us(3), Ns::from_ms(3), Ns::from_s(3)], [3_000, 3_000_000, 3_000_000_000].map(Ns));
        let mut at = Ns(7) + Ns(5);
        assert_eq!((at, at - Ns(5), at * 3, Ns::ZERO * 3), (Ns(12), Ns(7), Ns(36), Ns::ZERO));
        at += Ns(30);
        assert_eq!((at, Ns::from_ms(2_500).as_s()), (Ns(42), 2.5));
    }

    #[test]
    fn a_second_actor_waits_for_the_first() {
        let mut die = Timeline::default();
        let (mut a, mut b) = (Cx::new(), Cx::new());
        die.occupy(&mut a, Ns::from_us(25), Work::Read);
        die.occupy(&mut b, Ns::from_us(25), Work::Read);
        assert_eq!((a.now(), b.now()), (Ns::from_us(25), Ns::from_us(50)));
        assert_eq!((die.free_at(), Timeline::default().free_at()), (Ns::from_us(50), Ns::ZERO));
        assert_eq!(die.busy(), Ns::from_us(50));
    }

    #[test]
    fn an_idle_resource_starts_when_asked() {
        let mut die = Timeline::default();
        let mut cx = Cx::new();
        cx.spend(Ns(10));
        die.occupy(&mut cx, Ns(5), Work::Read);
        assert_eq!(cx.now(), Ns(15));
        assert_eq!(die.busy(), Ns(5));
    }
}
