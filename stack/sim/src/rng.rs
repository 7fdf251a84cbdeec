//! Named random streams: a new user of chance does not shift the draws of the others.

use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// The seed of a run. Streams are derived from it by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(pub u64);

impl Seed {
    /// The stream called `name`, for example `"nand/retention"`. The same seed and name always give the same draws.
    pub fn stream(self, name: &str) -> Rng {
        // FNV-1a over the name keeps streams apart; the generator's own seeding mixes the 64 bits.
        let hash = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        Rng(Pcg64Mcg::seed_from_u64(self.0 ^ hash))
    }
}

/// One stream of draws (PCG XSL 128/64).
#[derive(Clone, Debug)]
pub struct Rng(Pcg64Mcg);

impl Rng {
    /// 64 uniform bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in `0..bound` by multiply-shift; the bias is below `bound / 2^64`. Panics when `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "an empty range has no draw");
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// Uniform in `[0, 1)` with 53 bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// True with probability `p`; always false for `p <= 0`, always true for `p >= 1`.
    #[inline]
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// Standard normal draw (Box–Muller, one of the pair).
    pub fn normal(&mut self) -> f64 {
        let (radius, angle) = (1.0 - self.unit(), self.unit());
        (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_repeatable_and_apart() {
        let draw = |seed: u64, name: &str| Seed(seed).stream(name).bits();
        assert_eq!(draw(1, "a"), draw(1, "a"));
        assert_ne!(draw(1, "a"), draw(1, "b"));
        assert_ne!(draw(1, "a"), draw(2, "a"));
    }

    /// A golden draw: another generator or seeding would change every result.
    #[test]
    fn the_first_draw_is_the_golden_one() {
        assert_eq!(Seed(1).stream("golden").bits(), 17334700530263801450);
    }

    /// Within five standard deviations of a sample of 100,000.
    #[test]
    fn a_normal_draw_has_the_mean_the_spread_and_the_shares_of_its_distribution() {
        let mut rng = Seed(3).stream("normal");
        let draws: Vec<f64> = (0..100_000).map(|_| rng.normal()).collect();
        let mean = |of: &dyn Fn(f64) -> f64| draws.iter().map(|&draw| of(draw)).sum::<f64>() / draws.len() as f64;
        assert!(mean(&|draw| draw).abs() < 0.016);
        assert!((mean(&|draw| draw * draw) - 1.0).abs() < 0.023);
        for (within, share) in [(0.5, 0.3829), (1.0, 0.6827), (2.0, 0.9545), (3.0, 0.9973)] {
            let found = mean(&|draw| f64::from(draw.abs() < within));
            assert!((found - share).abs() < 0.008, "{found} within {within}");
        }
    }

    #[test]
    fn a_chance_is_its_probability_and_none_below_zero_and_sure_from_one_on() {
        let mut rng = Seed(5).stream("chance");
        let mut hits = |p| (0..10_000).filter(|_| rng.chance(p)).count();
        assert_eq!([hits(-1.0), hits(0.0), hits(1.0), hits(2.0)], [0, 0, 10_000, 10_000]);
        for percent in [1, 25, 50, 99] {
            let found = hits(f64::from(percent) / 100.0) as i32;
            assert!((found - 100 * percent).abs() < 250, "{found} of {percent} %");
        }
        let mut rng = Seed(5).stream("unit");
        let units: Vec<f64> = (0..10_000).map(|_| rng.unit()).collect();
        assert!(units.iter().all(|unit| (0.0..1.0).contains(unit)));
        assert!((units.iter().sum::<f64>() / 10_000.0 - 0.5).abs() < 0.015);
    }

    #[test]
    fn bounded_draws_cover_their_range() {
        let mut rng = Seed(7).stream("range");
        let mut seen = [0u32; 10];
        for _ in 0..10_000 {
            seen[rng.below(10) as usize] += 1;
        }
        assert!(seen.iter().all(|&count| (800..1200).contains(&count)), "{seen:?}");
    }
}
