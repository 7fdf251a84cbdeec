//! The context of one actor: its clock and the cause of what it does.

use crate::{Cause, Ns};

/// One actor's clock, and the cause under which its work is counted.
///
/// Every operation of the stack takes `&mut Cx`. Code of the raw-flash layers stays straight-line: when a call returns,
/// the clock has advanced. The runner steps the actor whose clock is earliest.
#[derive(Clone, Debug)]
pub struct Cx {
    now: Ns,
    cause: Cause,
}

impl Default for Cx {
    fn default() -> Self {
        Cx::new()
    }
}

impl Cx {
    /// An actor at time zero with cause [`Cause::Host`].
    pub fn new() -> Cx {
        Cx { now: Ns::ZERO, cause: Cause::Host }
    }

    /// Time of the actor's clock.
    #[inline]
    pub fn now(&self) -> Ns {
        self.now
    }

    /// Cause of the actor's work: programmed bytes and erases are counted under it.
    #[inline]
    pub fn cause(&self) -> Cause {
        self.cause
    }

    /// Advances the clock by `span`.
    #[inline]
    pub fn spend(&mut self, span: Ns) {
        self.now += span;
    }

    /// Advances the clock to `at`; does nothing if that is in the past.
    #[inline]
    pub fn wait_until(&mut self, at: Ns) {
        self.now = self.now.max(at);
    }

    /// Runs `work` with another cause.
    #[inline]
    pub fn because<T>(&mut self, cause: Cause, work: impl FnOnce(&mut Cx) -> T) -> T {
        let outer = std::mem::replace(&mut self.cause, cause);
        let done = work(self);
        self.cause = outer;
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_ends_with_its_work() {
        let mut cx = Cx::new();
        let inner = cx.because(Cause::Fastmap, |cx| cx.because(Cause::WearLevel, |cx| cx.cause()));
        assert_eq!((inner, cx.cause()), (Cause::WearLevel, Cause::Host));
    }
}
