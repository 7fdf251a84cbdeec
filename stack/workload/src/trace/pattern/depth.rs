//! Queue depth, from issue times and latencies.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use sim::Ns;

/// Most time spans for which a depth is kept; once full, at least half of them are in use.
pub const DEPTH_BINS: usize = 256;
/// Initial width of a span, as a power of two of nanoseconds: about 1 µs.
const FIRST_SHIFT: u32 = 10;
/// Most outstanding requests that are tracked.
const MOST: usize = 1 << 16;

/// Queue depth over time, between the first and the last request whose latency is known.
#[derive(Clone, Debug, Default)]
pub struct Depth {
    under_way: BinaryHeap<Reverse<u64>>,
    first: Option<u64>,
    /// Time up to which `areas` is computed.
    booked: u64,
    /// Requests × nanoseconds in each span, from `first` on.
    areas: Vec<u128>,
    shift: u32,
    known: u64,
    max: usize,
    gave_up: bool,
}

impl Depth {
    pub(super) fn add(&mut self, at: Ns, latency: Option<Ns>) {
        let Some(latency) = latency else { return };
        if self.gave_up {
            return;
        }
        if self.first.is_none() {
            (self.first, self.booked, self.shift) = (Some(at.0), at.0, FIRST_SHIFT);
        }
        while let Some(&Reverse(done)) = self.under_way.peek()
            && done <= at.0
        {
            self.book_until(done);
            self.under_way.pop();
        }
        self.book_until(at.0);
        self.known += 1;
        self.under_way.push(Reverse(at.0.saturating_add(latency.0)));
        self.max = self.max.max(self.under_way.len());
        self.gave_up = self.under_way.len() > MOST;
    }

    /// Adds the current depth from `booked` to `until`.
    fn book_until(&mut self, until: u64) {
        let depth = self.under_way.len() as u128;
        let first = self.first.unwrap_or(0);
        let (mut from, to) = (self.booked - first, until.max(self.booked) - first);
        self.booked = first + to;
        if to == from {
            return;
        }
        while (to - 1) >> self.shift >= DEPTH_BINS as u64 {
            let halved = self.areas.chunks(2).map(|pair| pair.iter().sum()).collect();
            self.areas = halved;
            self.shift += 1;
        }
        let last = ((to - 1) >> self.shift) as usize;
        if self.areas.len() <= last {
            self.areas.resize(last + 1, 0);
        }
        while from < to {
            let bin = from >> self.shift;
            // The end of the last possible bin is 2^64.
            let end = u128::from(to).min((u128::from(bin) + 1) << self.shift) as u64;
            self.areas[bin as usize] += depth * u128::from(end - from);
            from = end;
        }
    }

    /// Requests with a known latency.
    pub fn known(&self) -> u64 {
        self.known
    }

    /// Whether more requests were outstanding than are tracked; the measurement ends there.
    pub fn gave_up(&self) -> bool {
        self.gave_up
    }

    /// Highest depth.
    pub fn max(&self) -> usize {
        self.max
    }

    /// Mean depth over time.
    pub fn mean(&self) -> Option<f64> {
        let span = self.booked.saturating_sub(self.first?);
        (span > 0).then(|| self.areas.iter().sum::<u128>() as f64 / span as f64)
    }

    /// Width of a span of [`Self::over_time`].
    pub fn width(&self) -> Ns {
        Ns(1 << self.shift)
    }

    /// Mean depth of each span, from the first request on; the last span may be shorter.
    pub fn over_time(&self) -> impl Iterator<Item = f64> {
        let end = self.booked.saturating_sub(self.first.unwrap_or(0));
        let width = 1u64 << self.shift;
        self.areas.iter().enumerate().map(move |(bin, &area)| {
            let span = (end - bin as u64 * width).min(width);
            area as f64 / span as f64
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_times_that_there_are_have_a_bin() {
        let mut depth = Depth::default();
        depth.add(Ns(0), Some(Ns(u64::MAX)));
        depth.add(Ns(u64::MAX), Some(Ns(1)));
        assert_eq!((depth.mean(), depth.over_time().count()), (Some(1.0), DEPTH_BINS));
    }

    #[test]
    fn the_mean_is_time_under_way_over_time() {
        let mut depth = Depth::default();
        // One from 0 to 10, one from 5 to 8, then nothing until 20.
        depth.add(Ns(1000), Some(Ns(10)));
        depth.add(Ns(1005), Some(Ns(3)));
        depth.add(Ns(1020), Some(Ns(1)));
        assert_eq!((depth.mean(), depth.max(), depth.known()), (Some(13.0 / 20.0), 2, 3));
        assert_eq!(depth.over_time().collect::<Vec<_>>(), [13.0 / 20.0]);
    }

    #[test]
    fn spans_grow_with_the_trace_and_keep_the_sum() {
        let mut depth = Depth::default();
        for at in 0..100_000u64 {
            depth.add(Ns(at * 10_000), Some(Ns(5_000)));
        }
        let spans: Vec<f64> = depth.over_time().collect();
        assert!((DEPTH_BINS / 2..=DEPTH_BINS).contains(&spans.len()), "{} spans", spans.len());
        assert!(spans.iter().all(|depth| (0.49..0.51).contains(depth)), "{spans:?}");
        assert!((depth.mean().expect("time has passed") - 0.5).abs() < 1e-9);
    }

    #[test]
    fn requests_that_never_end_are_given_up_at_a_bound() {
        let mut depth = Depth::default();
        for at in 0..3 * MOST as u64 {
            depth.add(Ns(at), Some(Ns(u64::MAX)));
        }
        assert!(depth.gave_up() && depth.under_way.len() == MOST + 1);
    }
}
