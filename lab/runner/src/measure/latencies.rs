//! Latencies of one kind of operation.

use std::borrow::Cow;

use hdrhistogram::Histogram;

/// Most latencies that are listed: 16 KiB of them, where a histogram of milliseconds takes ten times as much.
const MOST_LISTED: usize = 2_048;

/// Latencies in nanoseconds: a list of them, which becomes a histogram of three digits when there are many.
///
/// A load has tens of kinds of operations, most of which are rare. A histogram for each would be most of the memory of a
/// short run.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    listed: Vec<u64>,
    histogram: Option<Histogram<u64>>,
}

impl Latencies {
    /// Adds one; 0 counts as 1.
    pub fn record(&mut self, ns: u64) {
        let ns = ns.max(1);
        if let Some(histogram) = &mut self.histogram {
            record(histogram, ns);
        } else if self.listed.len() < MOST_LISTED {
            self.listed.push(ns);
        } else {
            let mut histogram = self.histogram().into_owned();
            record(&mut histogram, ns);
            *self = Latencies { listed: Vec::new(), histogram: Some(histogram) };
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.listed.is_empty() && self.histogram.is_none()
    }

    /// All of them.
    pub fn histogram(&self) -> Cow<'_, Histogram<u64>> {
        if let Some(histogram) = &self.histogram {
            return Cow::Borrowed(histogram);
        }
        let mut histogram = Histogram::new(3).expect("three digits are valid");
        // It takes the memory for the longest at once.
        if let Some(&longest) = self.listed.iter().max() {
            record(&mut histogram, longest);
            histogram.reset();
        }
        self.listed.iter().for_each(|&ns| record(&mut histogram, ns));
        Cow::Owned(histogram)
    }
}

fn record(histogram: &mut Histogram<u64>, ns: u64) {
    histogram.record(ns).expect("it grows as needed");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether listed or not: counts, quantiles by hand of the numbers from 1 up, the extremes.
    #[test]
    fn a_list_is_the_histogram_that_it_becomes() {
        for count in [1, 10, MOST_LISTED as u64, MOST_LISTED as u64 + 1, 10_000] {
            let mut latencies = Latencies::default();
            assert!(latencies.is_empty() && latencies.histogram().is_empty());
            // Not in order.
            (0..count).for_each(|at| latencies.record((at * 7_919) % count * 1_000 + 1_000));
            let histogram = latencies.histogram();
            assert_eq!(
                (latencies.is_empty(), histogram.len(), latencies.histogram.is_some()),
                (false, count, count > 2_048)
            );
            assert_eq!(histogram.min() / 100, 10, "three digits of 1,000");
            for (quantile, expected) in [(0.5, count.div_ceil(2)), (1.0, count)] {
                let found = histogram.value_at_quantile(quantile);
                assert!(found.abs_diff(expected * 1_000) <= expected, "{found} for {expected} us of {count}");
            }
        }
        let mut none = Latencies::default();
        none.record(0);
        assert_eq!(none.histogram().max(), 1);
    }
}
