//! When UBI's background thread gets a processor. This is a property of the machine, not of the file system.

use sim::{Ns, Rng, Seed};

/// How a machine's scheduler treats the thread. Times, not steps of the load: a faster load outruns the thread by more
/// steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processor {
    /// Mean time from the moment at which work is queued to the moment at which the sleeping thread begins it;
    /// exponentially distributed.
    pub wake: Ns,
    /// Mean time between two spells in which the thread does not begin at all; [`Ns::ZERO`]: there are none.
    pub spell_every: Ns,
    /// Mean length of a spell.
    pub spell: Ns,
}

impl Processor {
    /// The thread begins at once.
    pub const PROMPT: Processor = Processor { wake: Ns::ZERO, spell_every: Ns::ZERO, spell: Ns::ZERO };

    /// The machine of the fastmap report (x86-64 under QEMU), where the thread has its own processor. Calibrated on one
    /// printed ratio, device A before the series (4.02); every other number is a prediction.
    pub const OWN_PROCESSOR: Processor = Processor { wake: Ns(3_700_000), spell_every: Ns::ZERO, spell: Ns::ZERO };

    /// User-mode Linux 6.1 on one processor, where the scheduler's clock is the 10 ms tick: a writer keeps the
    /// processor until its tick ends. Calibrated on two counters of the kernel run of device A: fastmap writes per PEB,
    /// and anchors rewritten in place.
    pub const JIFFIES_CLOCK: Processor =
        Processor { wake: Ns(5_000_000), spell_every: Ns(130_000_000), spell: Ns(25_000_000) };
}

/// The thread's clock.
#[derive(Clone, Debug)]
pub struct Wakes {
    processor: Processor,
    /// The spell that is under way or the next one: begin and end.
    spell: (Ns, Ns),
    rng: Rng,
}

impl Wakes {
    /// The clock of a machine, at time 0.
    pub fn new(processor: Processor, seed: Seed) -> Wakes {
        Wakes { processor, spell: (Ns::ZERO, Ns::ZERO), rng: seed.stream("workload/thread") }
    }

    /// When the thread, asleep until then, begins work that was queued at `queued`. Calls go forward in time.
    pub fn begins(&mut self, queued: Ns) -> Ns {
        let mut from = queued;
        if self.processor.spell_every > Ns::ZERO {
            while self.spell.1 <= queued {
                let begin = self.spell.1 + self.exponential(self.processor.spell_every);
                self.spell = (begin, begin + self.exponential(self.processor.spell));
            }
            if self.spell.0 <= queued {
                from = self.spell.1;
            }
        }
        if self.processor.wake > Ns::ZERO { from + self.exponential(self.processor.wake) } else { from }
    }

    fn exponential(&mut self, mean: Ns) -> Ns {
        // At least a nanosecond, so that spells pass.
        Ns(((-(1.0 - self.rng.unit()).ln() * mean.0 as f64) as u64).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_wait(processor: Processor, every: u64) -> f64 {
        let mut wakes = Wakes::new(processor, Seed(1));
        let steps = 200_000u64;
        (1..=steps).map(|step| (wakes.begins(Ns(step * every)).0 - step * every) as f64).sum::<f64>() / steps as f64
    }

    #[test]
    fn a_prompt_thread_never_waits_and_another_waits_its_mean() {
        assert_eq!(mean_wait(Processor::PROMPT, 1000), 0.0);
        let wake = Processor { wake: Ns(500), ..Processor::PROMPT };
        assert!((490.0..510.0).contains(&mean_wait(wake, 1000)));
    }

    /// By hand: a spell takes 1/5 of the time, and what falls into it waits 1 ms on average, the mean of what is left of
    /// an exponential.
    #[test]
    fn spells_delay_by_time_whatever_the_pace() {
        let spells = Processor { wake: Ns::ZERO, spell_every: Ns(4_000_000), spell: Ns(1_000_000) };
        for every in [100_000, 1_000_000] {
            let wait = mean_wait(spells, every);
            assert!((180_000.0..220_000.0).contains(&wait), "{wait}");
        }
    }
}
