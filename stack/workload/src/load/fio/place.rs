//! Where random requests of one direction go: block numbers by the distributions of `random_distribution`.
//!
//! Zipf ranks are exact, by rejection-inversion (W. Hörmann, G. Derflinger, "Rejection-inversion to generate variates
//! from monotone discrete distributions", ACM TOMACS 6(3), 1996), where fio approximates them. Pareto and normal draws
//! have fio's own shapes. Ranks are scattered as in fio: multiplied by a constant, modulo the number of blocks. If that
//! number is no power of two, some blocks get several ranks and others none, as in fio.
//!
//! Powers and logarithms come from `libm`, so that blocks are the same on every machine.

use sim::Rng;

use super::job::{Distribution, Zone, ZoneLen};

/// 2^64 · (3 − √5)/2, made odd, so that the product is one to one modulo powers of two.
const SCATTER: u64 = 0x61c8_8646_80b5_83eb;

/// Draws block numbers below a bound.
#[derive(Clone, Debug)]
pub(super) enum Placer {
    Uniform { blocks: u64 },
    Zipf { zipf: Zipf, scatter: Scatter },
    Pareto { power: f64, scatter: Scatter },
    Normal { spread: u64, scatter: Scatter },
    Zoned(Vec<Span>),
}

/// Maps ranks to blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scatter {
    blocks: u64,
    shift: u64,
}

/// A zone in blocks, with the sum of weights up to and including it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    weight_to: u64,
    first: u64,
    blocks: u64,
}

impl Scatter {
    fn new(blocks: u64, center: Option<f64>, rng: &mut Rng) -> Scatter {
        let shift = center.map_or_else(|| rng.bits(), |center| (blocks as f64 * center) as u64);
        Scatter { blocks, shift }
    }

    /// Block of `rank`.
    #[inline]
    pub(super) fn block(&self, rank: u64) -> u64 {
        rank.wrapping_mul(SCATTER).wrapping_add(self.shift) % self.blocks
    }
}

impl Placer {
    /// For `blocks` blocks (at least 1) of `block_sectors` sectors.
    /// Errors: a zone that is empty, or ends beyond the region.
    pub(super) fn new(
        distribution: &Distribution,
        direction: usize,
        blocks: u64,
        block_sectors: u64,
        rng: &mut Rng,
    ) -> Result<Placer, String> {
        Ok(match distribution {
            Distribution::Uniform => Placer::Uniform { blocks },
            Distribution::Zipf { theta, center } => {
                Placer::Zipf { zipf: Zipf::new(blocks, *theta), scatter: Scatter::new(blocks, *center, rng) }
            }
            Distribution::Pareto { h, center } => {
                let power = libm::log(*h) / libm::log1p(-*h);
                Placer::Pareto { power, scatter: Scatter::new(blocks, *center, rng) }
            }
            Distribution::Normal { deviation_percent, center } => {
                let spread = ((blocks as f64 * deviation_percent / 100.0) as u64).min(blocks / 2);
                let center = (center + 0.5) % 1.0;
                Placer::Normal { spread, scatter: Scatter::new(blocks, Some(center), rng) }
            }
            Distribution::Zoned(zones) if zones[direction].is_empty() => Placer::Uniform { blocks },
            Distribution::Zoned(zones) => Placer::Zoned(spans(&zones[direction], blocks, block_sectors)?),
        })
    }

    #[inline]
    pub(super) fn draw(&self, rng: &mut Rng) -> u64 {
        match self {
            Placer::Uniform { blocks } => rng.below(*blocks),
            Placer::Zipf { zipf, scatter } => scatter.block(zipf.draw(rng) - 1),
            Placer::Pareto { power, scatter } => {
                let rank = scatter.blocks as f64 * libm::pow(rng.unit(), *power);
                scatter.block((rank as u64).min(scatter.blocks - 1))
            }
            Placer::Normal { spread, scatter } => scatter.block(normal_rank(scatter.blocks, *spread, rng)),
            Placer::Zoned(spans) => {
                let total = spans.last().map_or(1, |span| span.weight_to);
                let drawn = rng.below(total);
                let span = spans[spans.partition_point(|span| span.weight_to <= drawn)];
                span.first + rng.below(span.blocks)
            }
        }
    }
}

/// The mean of twelve uniform draws, plus a uniform step of up to half of `spread` to either side, halved until the
/// result is inside the region.
fn normal_rank(blocks: u64, spread: u64, rng: &mut Rng) -> u64 {
    let sum: u128 = (0..12).map(|_| u128::from(rng.below(blocks))).sum();
    let mean = (sum / 12) as i128;
    let mut step = if spread == 0 { 0 } else { i128::from(rng.below(spread)) - i128::from(spread / 2) };
    while !(0..i128::from(blocks)).contains(&(mean + step)) {
        step /= 2;
    }
    (mean + step) as u64
}

fn spans(zones: &[Zone], blocks: u64, block_sectors: u64) -> Result<Vec<Span>, String> {
    let (mut weight, mut parts, mut bytes) = (0u64, 0u64, 0u64);
    let mut spans = Vec::with_capacity(zones.len());
    for (at, zone) in zones.iter().enumerate() {
        let (first, end) = match zone.len {
            ZoneLen::Parts(len, of) => {
                let edge = |parts: u64| (u128::from(blocks) * u128::from(parts) / u128::from(of.max(1))) as u64;
                let first = edge(parts);
                parts += u64::from(len);
                (first, edge(parts))
            }
            ZoneLen::Bytes(len) => {
                let edge = |bytes: u64| bytes / (block_sectors * 512);
                let first = edge(bytes);
                bytes = bytes.saturating_add(len);
                (first, edge(bytes))
            }
        };
        if end > blocks {
            return Err(format!("zone {} of random_distribution ends behind the job's region", at + 1));
        }
        if zone.weight == 0 {
            continue;
        }
        if first == end {
            return Err(format!("zone {} of random_distribution holds no block", at + 1));
        }
        weight += u64::from(zone.weight);
        spans.push(Span { weight_to: weight, first, blocks: end - first });
    }
    Ok(spans)
}

/// Ranks 1 to n, rank k with weight k^-theta.
#[derive(Clone, Copy, Debug)]
pub(super) struct Zipf {
    n: f64,
    theta: f64,
    /// Integrals of the hat function from 1 to 1.5, less the weight of 1, and to n + 0.5.
    low: f64,
    high: f64,
    /// Draws at most this far below their rank are accepted at once.
    slack: f64,
}

/// (e^t − 1)/t and ln(1 + t)/t, with their limit at 0.
fn expm1_over(t: f64) -> f64 {
    if t.abs() > 1e-8 { libm::expm1(t) / t } else { 1.0 + t / 2.0 }
}
fn log1p_over(t: f64) -> f64 {
    if t.abs() > 1e-8 { libm::log1p(t) / t } else { 1.0 - t / 2.0 }
}

impl Zipf {
    fn new(n: u64, theta: f64) -> Zipf {
        let mut zipf = Zipf { n: n as f64, theta, low: 0.0, high: 0.0, slack: 0.0 };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(zipf.n + 0.5);
        zipf.slack = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    fn weight(&self, x: f64) -> f64 {
        libm::exp(-self.theta * libm::log(x))
    }

    /// Integral of the weight from 1 to `x`.
    fn integral(&self, x: f64) -> f64 {
        let log = libm::log(x);
        expm1_over((1.0 - self.theta) * log) * log
    }

    fn inverse(&self, area: f64) -> f64 {
        let t = (area * (1.0 - self.theta)).max(-1.0);
        libm::exp(log1p_over(t) * area)
    }

    pub(super) fn draw(&self, rng: &mut Rng) -> u64 {
        loop {
            let area = self.high + rng.unit() * (self.low - self.high);
            let x = self.inverse(area);
            let rank = libm::floor(x + 0.5).clamp(1.0, self.n);
            if rank - x <= self.slack || area >= self.integral(rank + 0.5) - self.weight(rank) {
                return rank as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use sim::Seed;

    use super::*;

    const DRAWS: u64 = 400_000;

    fn placer(distribution: Distribution, blocks: u64) -> (Placer, Rng) {
        let mut rng = Seed(11).stream("place");
        (Placer::new(&distribution, 0, blocks, 8, &mut rng).unwrap(), rng)
    }

    fn counts(placer: &Placer, rng: &mut Rng, blocks: u64) -> Vec<u64> {
        let mut counts = vec![0; blocks as usize];
        for _ in 0..DRAWS {
            counts[placer.draw(rng) as usize] += 1;
        }
        counts
    }

    /// Chi-square of draws against probabilities, over cells that expect 20 or more; the rest is one cell. Its mean is
    /// the number of cells, its deviation the root of twice that; five deviations do not occur by chance.
    fn fits(counts: &[u64], probabilities: &[f64]) {
        let (mut chi, mut cells, mut rest) = (0.0, 0.0, (0.0, 0.0));
        for (&count, &probability) in counts.iter().zip(probabilities) {
            let expected = probability * DRAWS as f64;
            if expected >= 20.0 {
                chi += (count as f64 - expected).powi(2) / expected;
                cells += 1.0;
            } else {
                rest = (rest.0 + count as f64, rest.1 + expected);
            }
        }
        if rest.1 > 0.0 {
            chi += (rest.0 - rest.1).powi(2) / rest.1;
        }
        assert!(chi < cells + 5.0 * f64::sqrt(2.0 * cells) + 10.0, "chi-square {chi} of {cells} cells");
    }

    #[test]
    fn zipf_ranks_have_the_probabilities_of_the_zipf_law() {
        for (theta, blocks) in [(0.5, 700u64), (0.99, 1024), (1.0, 1000), (1.2, 3000), (2.5, 50), (1.1, 1)] {
            let (placer, mut rng) = placer(Distribution::Zipf { theta, center: None }, blocks);
            let Placer::Zipf { scatter, .. } = &placer else { unreachable!() };
            let zeta: f64 = (1..=blocks).map(|rank| (rank as f64).powf(-theta)).sum();
            let mut probabilities = vec![0.0; blocks as usize];
            for rank in 1..=blocks {
                probabilities[scatter.block(rank - 1) as usize] += (rank as f64).powf(-theta) / zeta;
            }
            fits(&counts(&placer, &mut rng, blocks), &probabilities);
        }
    }

    #[test]
    fn pareto_ranks_have_the_probabilities_of_their_power_law() {
        for (h, blocks) in [(0.2f64, 1000u64), (0.1, 512), (0.5, 300), (0.9, 777)] {
            let (placer, mut rng) = placer(Distribution::Pareto { h, center: Some(0.25) }, blocks);
            let Placer::Pareto { scatter, .. } = &placer else { unreachable!() };
            assert_eq!(scatter.block(0), blocks / 4);
            let power = h.ln() / (1.0 - h).ln();
            let below = |rank: u64| (rank as f64 / blocks as f64).powf(1.0 / power);
            let mut probabilities = vec![0.0; blocks as usize];
            for rank in 0..blocks {
                probabilities[scatter.block(rank) as usize] += below(rank + 1) - below(rank);
            }
            fits(&counts(&placer, &mut rng, blocks), &probabilities);
        }
    }

    #[test]
    fn a_fifth_of_the_blocks_gets_four_fifths_under_pareto() {
        let blocks = 1 << 14;
        let (placer, mut rng) = placer(Distribution::Pareto { h: 0.2, center: None }, blocks);
        let mut counts = counts(&placer, &mut rng, blocks);
        counts.sort_by(|a, b| b.cmp(a));
        let top: u64 = counts[..blocks as usize / 5].iter().sum();
        assert!((top as f64 / DRAWS as f64 - 0.8).abs() < 0.01, "{top}");
    }

    #[test]
    fn normal_ranks_have_the_variance_of_twelve_uniform_draws_and_a_step() {
        for (deviation_percent, variance) in [(0.0, 1.0 / 144.0), (40.0, 1.0 / 144.0 + 0.16 / 12.0)] {
            let mut rng = Seed(2).stream("normal");
            let (blocks, spread) = (100_000u64, (deviation_percent * 1000.0) as u64);
            let ranks: Vec<f64> =
                (0..DRAWS).map(|_| normal_rank(blocks, spread, &mut rng) as f64 / blocks as f64).collect();
            let mean = ranks.iter().sum::<f64>() / DRAWS as f64;
            let found = ranks.iter().map(|rank| (rank - mean).powi(2)).sum::<f64>() / DRAWS as f64;
            assert!((mean - 0.5).abs() < 0.002, "{mean}");
            assert!((found / variance - 1.0).abs() < 0.01, "{found} {variance}");
        }
    }

    #[test]
    fn zones_get_their_shares() {
        let zone = |weight, len| Zone { weight, len: ZoneLen::Parts(len, 100) };
        let zones = vec![zone(60, 10), zone(30, 20), zone(8, 30), zone(2, 40)];
        let distribution = Distribution::Zoned(std::sync::Arc::new([zones, Vec::new(), Vec::new()]));
        let (placer, mut rng) = placer(distribution, 1000);
        let probabilities: Vec<f64> = (0..1000)
            .map(|block| match block {
                0..100 => 0.6 / 100.0,
                100..300 => 0.3 / 200.0,
                300..600 => 0.08 / 300.0,
                _ => 0.02 / 400.0,
            })
            .collect();
        fits(&counts(&placer, &mut rng, 1000), &probabilities);
    }

    #[test]
    fn a_zone_behind_the_end_or_without_a_block_is_refused() {
        let make = |lens: [u64; 2], blocks| {
            let zones = lens.map(|len| Zone { weight: 50, len: ZoneLen::Bytes(len) }).to_vec();
            let distribution = Distribution::Zoned(std::sync::Arc::new([zones, Vec::new(), Vec::new()]));
            Placer::new(&distribution, 0, blocks, 8, &mut Seed(1).stream("zones")).map(|_| ())
        };
        assert_eq!(make([4096, 8192], 3), Ok(()));
        assert!(make([4096, 8192], 2).unwrap_err().contains("zone 2"));
        assert!(make([512, 8192], 3).unwrap_err().contains("zone 1"));
    }
}
