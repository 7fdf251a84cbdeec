//! The share of the background limit that a device has: of all pages that were written back lately, those that it wrote.
//!
//! Source: Linux 6.12 `lib/flex_proportions.c`, `mm/page-writeback.c` (behaviour), on one processor and without other devices.

use sim::Ns;

/// After this time what was written counts for half.
const PERIOD: Ns = Ns(3_000_000_000);

/// Pages written back. The total begins with one that nobody wrote, and is halved down to 1; the device's own can become 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    all: u64,
    own: u64,
    /// When the next period begins; none where there is nothing left to halve.
    period: Option<Ns>,
}

impl Default for Share {
    fn default() -> Share {
        Share { all: 1, own: 0, period: None }
    }
}

impl Share {
    /// The device alone has written, and long ago.
    #[cfg(test)]
    pub fn whole() -> Share {
        Share { all: 1, own: 1, period: None }
    }

    /// Pages were written back.
    pub fn add(&mut self, now: Ns, pages: u64) {
        self.age(now);
        self.all += pages;
        self.own += pages;
        self.period.get_or_insert(now + PERIOD);
    }

    fn age(&mut self, now: Ns) {
        while let Some(period) = self.period.filter(|&period| period <= now) {
            self.period = (self.all > 1).then(|| period + PERIOD);
            if self.all > 1 {
                (self.all, self.own) = (self.all / 2, self.own / 2);
            }
        }
    }

    /// What the device has of a limit. Nothing before it has written any page.
    pub fn of(&mut self, now: Ns, limit: u64) -> u64 {
        self.age(now);
        (u128::from(limit) * u128::from(self.own) / u128::from(self.all.max(self.own).max(1))) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand. Three pages: all 4, 2, 1; own 3, 1, 0. Four: all 5, 2, 1; own 4, 2, 1.
    #[test]
    fn what_was_written_counts_for_half_after_three_seconds() {
        for (pages, shares) in [(3, [75, 50, 0, 0]), (4, [80, 100, 100, 100])] {
            let mut share = Share::default();
            assert_eq!(share.of(Ns(5), 100), 0);
            share.add(Ns(1), pages);
            let of = |share: &mut Share, periods| share.of(Ns(1) + Ns(PERIOD.0 * periods), 100);
            assert_eq!([0, 1, 2, 30].map(|periods| of(&mut share, periods)), shares, "{pages} pages");
        }
    }
}
