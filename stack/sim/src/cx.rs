//! The context of one actor: its clock and the cause of what it does.

use crate::flame::{Flame, IDLE, Stack, Work};
use crate::passes::{Begun, Pass, PassKind, Passes, Spent};
use crate::{Cause, Ns};

/// One actor's clock, and the causes under which its work is counted.
///
/// Every operation of the stack takes `&mut Cx`. Code of the raw-flash layers stays straight-line: when a call returns,
/// the clock has advanced. The runner steps the actor whose clock is earliest.
#[derive(Clone, Debug)]
pub struct Cx {
    now: Ns,
    actor: &'static str,
    stack: Stack,
    /// Where the time goes, if that is recorded.
    flame: Option<Box<Flame>>,
    /// Passes of garbage collection, if they are kept.
    passes: Option<Box<Passes>>,
}

impl Default for Cx {
    fn default() -> Self {
        Cx::new()
    }
}

impl Cx {
    /// An actor at time zero with cause [`Cause::Host`].
    pub fn new() -> Cx {
        Cx::named("")
    }

    /// As [`new`](Self::new), of an actor with a name, which records of its calls have.
    pub fn named(actor: &'static str) -> Cx {
        Cx { now: Ns::ZERO, actor, stack: Stack::new(Cause::Host), flame: None, passes: None }
    }

    /// Name of the actor; empty of one without a name.
    pub fn actor(&self) -> &'static str {
        self.actor
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
            if let Some(passes) = &mut self.passes {
                passes.spent.add(work, at - self.now);
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

    /// Keeps from now on the passes of garbage collection, and where the time goes, idle time apart. A clone keeps its own.
    pub fn keep_passes(&mut self) {
        self.passes.get_or_insert_default();
    }

    /// Time by work since passes are kept.
    pub fn spent(&self) -> Spent {
        self.passes.as_ref().map_or(Spent::default(), |passes| passes.spent)
    }

    /// A pass begins.
    #[inline]
    pub fn begin_pass(&self) -> Begun {
        Begun(self.passes.as_ref().map(|passes| (self.now, passes.spent)))
    }

    /// A pass ends that wrote so many nodes, of so many bytes. Does nothing if passes are not kept.
    #[inline]
    pub fn end_pass(&mut self, begun: Begun, kind: PassKind, victim: u32, (nodes, moved_bytes): (u64, u64)) {
        if let (Begun(Some((start, before))), Some(passes)) = (begun, &mut self.passes) {
            let spent = passes.spent - before;
            passes.done.push(Pass { kind, start, end: self.now, victim, nodes, moved_bytes, spent });
        }
    }

    /// The passes since the last call.
    #[inline]
    pub fn take_passes(&mut self) -> Vec<Pass> {
        self.passes.as_mut().map_or(Vec::new(), |passes| std::mem::take(&mut passes.done))
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

    /// Whatever passes the time, a clock goes forward or stays, and no time is filed where it stays.
    #[test]
    fn a_clock_goes_to_a_time_that_is_to_come_and_no_further() {
        let ways: [fn(&mut Cx, Ns); 4] = [
            Cx::wait_until,
            Cx::idle_until,
            |cx, at| cx.work_until(Work::Erase, at),
            |cx, at| cx.spend(Ns(at.0.saturating_sub(cx.now().0))),
        ];
        for (number, way) in ways.into_iter().enumerate() {
            let mut cx = Cx::default();
            assert_eq!(cx.now(), Ns::ZERO);
            cx.record();
            for (at, expected) in [(0, 0), (70, 70), (70, 70), (69, 70), (0, 70), (71, 71), (1_000, 1_000)] {
                way(&mut cx, Ns(at));
                assert_eq!(cx.now(), Ns(expected), "way {number} to {at}");
            }
            let mut resting = cx.clone();
            assert_eq!(cx.stop_recording().unwrap().total(), Ns(1_000), "way {number}");
            resting.record();
            [999, 1_000].into_iter().for_each(|at| way(&mut resting, Ns(at)));
            assert_eq!(resting.stop_recording().unwrap().filed().count(), 0, "way {number}");
        }
    }

    #[test]
    fn a_cause_ends_with_its_work() {
        let mut cx = Cx::new();
        let inner = cx.because(Cause::Fastmap, |cx| cx.because(Cause::WearLevel, |cx| cx.cause()));
        assert_eq!((inner, cx.cause()), (Cause::WearLevel, Cause::Host));
    }
}
