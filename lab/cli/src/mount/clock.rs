//! Virtual time that follows the clock of this machine.

use std::time::{Duration, SystemTime};

use sim::seam::Timestamp;
use sim::{Cx, Ns};

use super::convert;

/// Time of a file system whose virtual time 0 was `epoch`.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch: Timestamp,
}

impl Clock {
    /// Virtual time 0 is the beginning of 1970: nanoseconds since then fit until the year 2554.
    pub const SINCE_1970: Clock = Clock { epoch: Timestamp { seconds: 0, nanos: 0 } };

    /// When virtual time 0 was.
    pub fn epoch(self) -> Timestamp {
        self.epoch
    }

    /// Sets an actor's time to the present. What its work took may have brought it further: time never goes back.
    pub fn set(self, cx: &mut Cx) {
        let now = convert::timestamp(SystemTime::now());
        cx.wait_until(self.virtual_at(now));
    }

    /// The time that the file system writes now.
    pub fn present(self, cx: &Cx) -> Timestamp {
        self.epoch.after(cx.now())
    }

    /// How long it is until virtual time `at`.
    pub fn until(self, at: Ns) -> Duration {
        Duration::from_nanos(at.0.saturating_sub(self.virtual_at(convert::timestamp(SystemTime::now())).0))
    }

    /// Virtual time at `time`, 0 of what is before the epoch.
    fn virtual_at(self, time: Timestamp) -> Ns {
        const SECOND: u64 = 1_000_000_000;
        let total = |time: Timestamp| time.seconds.saturating_mul(SECOND).saturating_add(time.nanos.into());
        Ns(total(time).saturating_sub(total(self.epoch)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_writes_the_time_of_this_machine_whatever_its_epoch() {
        for epoch in [Timestamp { seconds: 0, nanos: 0 }, Timestamp { seconds: 1_600_000_000, nanos: 999_999_999 }] {
            let (clock, mut cx) = (Clock { epoch }, Cx::new());
            let before = convert::timestamp(SystemTime::now());
            clock.set(&mut cx);
            let after = convert::timestamp(SystemTime::now());
            assert!((before..=after).contains(&clock.present(&cx)), "{before:?} {:?} {after:?}", clock.present(&cx));
        }
    }

    #[test]
    fn time_before_the_epoch_is_virtual_time_0_and_time_never_goes_back() {
        let clock = Clock { epoch: Timestamp { seconds: 10, nanos: 5 } };
        assert_eq!(clock.virtual_at(Timestamp { seconds: 9, nanos: 7 }), Ns(0));
        assert_eq!(clock.virtual_at(Timestamp { seconds: 12, nanos: 4 }), Ns(1_999_999_999));
        let mut cx = Cx::new();
        cx.wait_until(Ns(u64::MAX));
        Clock::SINCE_1970.set(&mut cx);
        assert_eq!(cx.now(), Ns(u64::MAX));
    }
}
