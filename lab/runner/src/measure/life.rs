//! The time until blocks are worn out, if the load of a run goes on.
//!
//! The number of erasures that a block lasts is distributed around the part's rating ([`WearOut::by_rating`]). A run
//! gives the rate at which each block is erased. Both together give the distribution of the number of worn-out blocks
//! at any time. Two assumptions bound the truth: each block goes on at its own rate, or all at the mean rate, as if
//! wear levelling were perfect. The load, its amplification and the temperature are assumed to stay as they are.

use nand::WearOut;

use super::Metrics;

/// Seconds of a year of 365.25 days.
pub const YEAR_S: f64 = 31_557_600.0;
/// Mean erasures per block from which the counts say how evenly blocks wear; fewer are mostly chance.
pub const LEAST_ERASES: f64 = 10.0;
/// Up to this many blocks, the distribution of the number of worn-out blocks is computed; beyond, it is taken as normal.
const EXACT_UP_TO: usize = 50;
/// Rates that differ by less than this share count as one.
const RATES_WITHIN: f64 = 0.01;
/// Groups of which fewer blocks than this are worn out on average do not count.
const NEGLIGIBLE: f64 = 1e-9;

/// 10th, 50th and 90th percentile of a time, in seconds; infinite if no block is erased.
pub type Quantiles = [f64; 3];

const SHARES: [f64; 3] = [0.1, 0.5, 0.9];

/// Rates of erasure of a device's blocks.
#[derive(Clone, Debug)]
pub struct Rates {
    /// Erasures per second, and the number of blocks that have this rate.
    groups: Vec<(f64, u64)>,
    endurance: WearOut,
}

impl Rates {
    /// The rates of blocks that were erased `counts` times in `seconds`.
    pub fn of(counts: &[u32], seconds: f64, endurance: WearOut) -> Rates {
        let mut sorted = counts.to_vec();
        sorted.sort_unstable();
        let mut groups: Vec<(f64, u64)> = Vec::new();
        let (mut least, mut from) = (sorted.first().copied().unwrap_or(0), 0);
        for at in 1..=sorted.len() {
            if sorted.get(at).is_none_or(|&count| f64::from(count) > f64::from(least) * (1.0 + RATES_WITHIN)) {
                let all: f64 = sorted[from..at].iter().map(|&count| f64::from(count)).sum();
                let blocks = at - from;
                groups.push((all / blocks as f64 / seconds, blocks as u64));
                (least, from) = (sorted.get(at).copied().unwrap_or(0), at);
            }
        }
        Rates { groups, endurance }
    }

    /// The same erasures, spread evenly over all blocks.
    pub fn level(&self) -> Rates {
        let blocks: u64 = self.groups.iter().map(|(_, blocks)| blocks).sum();
        let all: f64 = self.groups.iter().map(|&(rate, blocks)| rate * blocks as f64).sum();
        Rates { groups: vec![(all / blocks.max(1) as f64, blocks)], endurance: self.endurance }
    }

    /// Time until `number` blocks are worn out.
    pub fn until(&self, number: u64) -> Quantiles {
        let fastest = self.groups.last().map_or(0.0, |&(rate, _)| rate);
        let wearing: u64 = self.groups.iter().filter(|(rate, _)| *rate > 0.0).map(|(_, blocks)| blocks).sum();
        if fastest <= 0.0 || wearing < number {
            return [f64::INFINITY; 3];
        }
        let rating = f64::from(self.endurance.rating_cycles);
        SHARES.map(|share| {
            let (mut before, mut after) = (0.0, rating / fastest);
            while self.probability(number, after) < share && after.is_finite() {
                (before, after) = (after, after * 2.0);
            }
            for _ in 0..40 {
                let middle = 0.5 * (before + after);
                if self.probability(number, middle) < share { before = middle } else { after = middle }
            }
            after
        })
    }

    /// Probability that `number` blocks or more are worn out after `seconds`.
    fn probability(&self, number: u64, seconds: f64) -> f64 {
        let failed = || self.groups.iter().map(|&(rate, blocks)| (self.endurance.failed_share(rate * seconds), blocks));
        if let Ok(number) = usize::try_from(number)
            && number <= EXACT_UP_TO
        {
            return 1.0 - fewer_than(number, failed()).iter().sum::<f64>();
        }
        let (mut mean, mut variance) = (0.0, 0.0);
        for (failed, blocks) in failed() {
            mean += failed * blocks as f64;
            variance += failed * (1.0 - failed) * blocks as f64;
        }
        let above = number as f64 - 0.5 - mean;
        if variance <= 0.0 {
            return if above <= 0.0 { 1.0 } else { 0.0 };
        }
        0.5 * libm::erfc(above / libm::sqrt(2.0 * variance))
    }
}

/// Probabilities of 0, 1 … worn-out blocks, fewer than `number`. Each group has the share that is worn out, and blocks.
fn fewer_than(number: usize, groups: impl Iterator<Item = (f64, u64)>) -> Vec<f64> {
    let mut all = vec![0.0; number];
    all[0] = 1.0;
    for (failed, blocks) in groups.filter(|&(failed, blocks)| failed * blocks as f64 > NEGLIGIBLE) {
        if failed >= 1.0 {
            let gone = usize::try_from(blocks).unwrap_or(number).min(number);
            all.rotate_right(gone);
            all[..gone].fill(0.0);
            continue;
        }
        // The binomial distribution of the group, then both together.
        let odds = failed / (1.0 - failed);
        let mut own = vec![libm::pow(1.0 - failed, blocks as f64); number];
        for k in 1..number {
            own[k] = own[k - 1] * odds * (blocks as f64 - k as f64 + 1.0).max(0.0) / k as f64;
        }
        for k in (0..number).rev() {
            all[k] = (0..=k).map(|part| all[part] * own[k - part]).sum();
        }
    }
    all
}

/// A device whose life is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Device<'a> {
    /// Erasures of each block in the run.
    pub erase_counts: &'a [u32],
    /// Length of the run in seconds.
    pub seconds: f64,
    /// Bytes that the host wrote in the run.
    pub host_bytes: f64,
    /// Erasures for which blocks are rated; 0: not stated.
    pub endurance: u32,
    /// Blocks that may wear out before the device stops accepting writes.
    pub reserve: u64,
}

/// Adds the metrics of a device's life; none if no endurance is stated, or nothing was erased. Those that depend on how
/// evenly blocks wear need [`LEAST_ERASES`].
pub fn put(metrics: &mut Metrics, device: Device<'_>) {
    let erases: f64 = device.erase_counts.iter().map(|&count| f64::from(count)).sum();
    if device.endurance == 0 || device.seconds <= 0.0 || erases == 0.0 {
        return;
    }
    let rates = Rates::of(device.erase_counts, device.seconds, WearOut::by_rating(device.endurance));
    let mut rows =
        vec![("level_first", rates.level().until(1)), ("level_reserve", rates.level().until(device.reserve + 1))];
    if erases / device.erase_counts.len() as f64 >= LEAST_ERASES {
        rows.extend([("first", rates.until(1)), ("reserve", rates.until(device.reserve + 1))]);
    }
    for (end, quantiles) in rows {
        let [_, p50, _] = quantiles;
        if !p50.is_finite() {
            continue;
        }
        for (share, seconds) in ["p10", "p50", "p90"].into_iter().zip(quantiles) {
            metrics.put(&format!("life.{end}.{share}_years"), seconds / YEAR_S);
        }
        metrics.put(&format!("life.{end}.host_bytes"), device.host_bytes / device.seconds * p50);
    }
    metrics.put("life.reserve_blocks", device.reserve as f64);
}

#[cfg(test)]
mod tests {
    use sim::Seed;

    use super::*;

    /// The same quantiles by drawing the endurance of every block, many times.
    fn drawn(counts: &[u32], seconds: f64, wear_out: WearOut, number: usize) -> Quantiles {
        let mut rng = Seed(7).stream("life");
        let mut times: Vec<f64> = (0..1500)
            .map(|_| {
                let mut ends: Vec<f64> = counts
                    .iter()
                    .map(|&count| f64::from(wear_out.draw_endurance(&mut rng)) * seconds / f64::from(count))
                    .collect();
                *ends.select_nth_unstable_by(number - 1, f64::total_cmp).1
            })
            .collect();
        times.sort_by(f64::total_cmp);
        SHARES.map(|share| times[(share * 1500.0) as usize])
    }

    #[test]
    fn times_are_those_of_drawing_each_block() {
        let counts: Vec<u32> = (0..200).map(|block| if block < 10 { 50 } else { 5 + block % 10 }).collect();
        let wear_out = WearOut::by_rating(3000);
        for number in [1, 3, 9, 80] {
            let exact = Rates::of(&counts, 10.0, wear_out).until(number as u64);
            for (exact, drawn) in exact.iter().zip(drawn(&counts, 10.0, wear_out, number)) {
                assert!((exact / drawn - 1.0).abs() < 0.03, "{number} blocks: {exact} computed, {drawn} drawn");
            }
        }
    }

    #[test]
    fn one_block_of_a_fixed_endurance_lasts_as_long_as_division_says() {
        let mut wear_out = WearOut::by_rating(1000);
        wear_out.lifetime = nand::Lifetime::Fixed;
        // 4 erasures in 2 seconds are 2 a second: 1,000 last 500 seconds.
        for seconds in Rates::of(&[4], 2.0, wear_out).until(1) {
            assert!((seconds - 500.0).abs() < 1e-6, "{seconds}");
        }
    }

    #[test]
    fn what_is_never_erased_lasts_for_ever() {
        let wear_out = WearOut::by_rating(1000);
        assert_eq!(Rates::of(&[0, 0], 1.0, wear_out).until(1), [f64::INFINITY; 3]);
        // One of two blocks is erased: a second one never wears out.
        assert_eq!(Rates::of(&[0, 9], 1.0, wear_out).until(2), [f64::INFINITY; 3]);
    }

    #[test]
    fn level_wear_outlives_uneven_wear() {
        let rates = Rates::of(&[10, 20, 90], 1.0, WearOut::by_rating(1000));
        assert!(rates.level().until(1)[1] > rates.until(1)[1]);
    }
}
