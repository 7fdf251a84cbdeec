//! A histogram by powers of two.

/// Bins: one for 0, one for 1, then (1, 2], (2, 4], … up to 2^64 − 1.
const BINS: usize = 66;

/// A histogram whose bins end at powers of two, with minimum, maximum and sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log2 {
    counts: [u64; BINS],
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Default for Log2 {
    fn default() -> Log2 {
        Log2 { counts: [0; BINS], count: 0, sum: 0, min: u64::MAX, max: 0 }
    }
}

impl Log2 {
    /// Counts `value`.
    pub fn add(&mut self, value: u64) {
        let bin = if value == 0 { 0 } else { 65 - (value - 1).leading_zeros() as usize };
        self.counts[bin] += 1;
        self.count += 1;
        self.sum += u128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Smallest value; `None` if empty.
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// Largest value; `None` if empty.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// Mean; `None` if empty.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// Non-empty bins: upper end of each (2^64 − 1 for the last), and number of values.
    pub fn bins(&self) -> impl Iterator<Item = (u64, u64)> {
        let end = |bin: usize| match bin {
            0 => 0,
            65 => u64::MAX,
            _ => 1 << (bin - 1),
        };
        self.counts.iter().enumerate().filter(|(_, count)| **count > 0).map(move |(bin, &count)| (end(bin), count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_of_two_is_the_last_of_its_bin() {
        let mut log = Log2::default();
        for value in [0, 1, 2, 3, 4, 5, 4096, 4097, u64::MAX] {
            log.add(value);
        }
        let bins: Vec<_> = log.bins().collect();
        assert_eq!(bins, [(0, 1), (1, 1), (2, 1), (4, 2), (8, 1), (4096, 1), (8192, 1), (u64::MAX, 1)]);
        assert_eq!((log.min(), log.max(), log.count()), (Some(0), Some(u64::MAX), 9));
        assert_eq!((Log2::default().min(), Log2::default().mean()), (None, None));
    }
}
