//! Division by a number that is constant for a drive but not known at compile time.

/// Division of any `u32` by a number above 0, by one multiplication.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Divisor {
    reciprocal: u64,
    by: u32,
}

impl Divisor {
    pub(crate) const fn new(by: u32) -> Divisor {
        Divisor { reciprocal: u64::MAX / by as u64, by }
    }

    /// Exact, because `(n + 1) * floor((2^64 - 1) / by)` is below `(n + 1) / by * 2^64` by less than `2^64 / by`, for
    /// `n + 1 <= 2^32`.
    #[inline]
    pub(crate) fn quotient(self, n: u32) -> u32 {
        ((u128::from(self.reciprocal) * (u128::from(n) + 1)) >> 64) as u32
    }

    #[inline]
    pub(crate) fn remainder(self, n: u32) -> u32 {
        self.divide(n).1
    }

    /// Quotient and remainder.
    #[inline]
    pub(crate) fn divide(self, n: u32) -> (u32, u32) {
        let quotient = self.quotient(n);
        (quotient, n - quotient * self.by)
    }
}

#[cfg(test)]
mod tests {
    use super::Divisor;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_divides_as_the_processor_does(n in any::<u32>(), by in 1u32.., small in 1u32..600) {
            for by in [by, small, n.max(1)] {
                let divisor = Divisor::new(by);
                for n in [n, n / by * by, (n / by * by).wrapping_sub(1), u32::MAX, 0] {
                    prop_assert_eq!((divisor.quotient(n), divisor.remainder(n)), (n / by, n % by), "{} by {}", n, by);
                }
            }
        }
    }
}
