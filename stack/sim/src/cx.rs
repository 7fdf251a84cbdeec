//! The context of one actor: its clock and the cause of what it does.

use crate::flame::{Flame, IDLE, Stack, Work};
use crate::{Cause, Ns};

/// One actor's clock, and the causes under which its work is counted.
///
/// Every operation of the stack takes `&mut Cx`. Code of the raw-flash layers stays straight-line: when a call returns,
/// the clock has advanced. The runner steps the actor whose clock is earliest.
#[derive(Clone, Debug)]
pub struct Cx {
    now: Ns,
    stack: Stack,
    /// Where the time goes, if that is recorded.
    flame: Option<Box<Flame>>,
}

impl Default for Cx {
    fn default() -> Self {
        Cx::new()
    }
}

impl Cx {
    /// An actor at time zero with cause [`Cause::Host`].
    pub fn new() -> Cx {
        Cx { now: Ns::ZERO, stack: Stack::new(Cause::Host), flame: None }
    }

    /// Time of the actor's clock.
    #[inline]
    pub fn now(&self) -> Ns {
        self.now
    }

    /// Cause of the actor's work: programmed bytes and erases are counted under it.
    #[inline]
    pub fn cause(&self) -> Cause {
        self.stack.innermost()
    }

    /// Advances the clock by `span`, for which the actor has a processor.
    #[inline]
    pub fn spend(&mut self, span: Ns) {
        self.work_until(Work::Processor, self.now + span);
    }

    /// Advances the clock to `at`; does nothing if that is in the past.
    #[inline]
    pub fn wait_until(&mut self, at: Ns) {
        self.work_until(Work::Wait, at);
    }

    /// Advances the clock to `at`, between two operations; does nothing if that is in the past.
    #[inline]
    pub fn idle_until(&mut self, at: Ns) {
        if at > self.now {
            if let Some(flame) = &mut self.flame {
                flame.idle(self.stack, at - self.now);
            }
            self.now = at;
        }
    }

    /// Advances the clock to `at` by work of a kind; does nothing if that is in the past.
    #[inline]
    pub fn work_until(&mut self, work: Work, at: Ns) {
        if at > self.now {
            if let Some(flame) = &mut self.flame {
                flame.add(self.stack, work, at - self.now);
            }
            self.now = at;
        }
    }

    /// Records from now on where the time goes. A clone records for itself.
    pub fn record(&mut self) {
        self.flame = Some(Box::default());
    }

    /// Files the time since the last call, or since the record began, under the name of the operation that it was, or as
    /// [`IDLE`]. Does nothing without a record.
    #[inline]
    pub fn file(&mut self, operation: &'static str) {
        if let Some(flame) = &mut self.flame {
            flame.file(operation);
        }
    }

    /// Ends the record, if there is one. What was not filed is idle.
    pub fn stop_recording(&mut self) -> Option<Flame> {
        self.file(IDLE);
        self.flame.take().map(|flame| *flame)
    }

    /// Runs `work` with another cause.
    #[inline]
    pub fn because<T>(&mut self, cause: Cause, work: impl FnOnce(&mut Cx) -> T) -> T {
        let outer = self.stack;
        self.stack = outer.with(cause);
        let done = work(self);
        self.stack = outer;
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
