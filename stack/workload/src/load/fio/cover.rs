//! Random maps: every block of a region once before any is repeated.
//!
//! For blocks of one size no map is kept: a permutation is computed block by block, in memory that does not grow with
//! the region. Blocks of several sizes need a bit per unit.
//!
//! fio draws a block and takes the next free one if it is taken; towards the end of a pass its requests therefore come
//! in runs. A permutation has no such runs: each pass has a newly drawn order.

use sim::Rng;

/// Regions of up to this many blocks are shuffled in memory, exactly; larger ones are permuted by a cipher.
const SHUFFLED: u64 = 4096;
/// Rounds of the cipher. Each mixes one half of a block's number into the other.
const ROUNDS: usize = 6;

/// An order of `0..blocks` that visits each block once, then another such order, without end.
#[derive(Clone, Debug)]
pub(super) struct Permutation {
    blocks: u64,
    /// Next position in the order; with the cipher, in its domain, which is a power of two.
    at: u64,
    order: Order,
    /// Orders that have begun.
    pub passes: u64,
}

#[derive(Clone, Debug)]
enum Order {
    Shuffled(Vec<u32>),
    Cipher(Cipher),
}

/// A Feistel network on two halves of `low` and `high` bits. Numbers beyond the region are skipped.
#[derive(Clone, Debug)]
struct Cipher {
    low: u32,
    high: u32,
    keys: [u64; ROUNDS],
}

impl Cipher {
    fn new(blocks: u64, rng: &mut Rng) -> Cipher {
        let bits = 64 - (blocks - 1).leading_zeros();
        let low = bits / 2;
        Cipher { low, high: bits - low, keys: std::array::from_fn(|_| rng.bits()) }
    }

    /// The top `bits` of a product: each depends on all bits of `half`.
    #[inline(always)]
    fn mix(half: u64, key: u64, bits: u32) -> u64 {
        let product = (half ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (product ^ (product >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> (64 - bits)
    }

    #[inline(always)]
    fn permute(&self, number: u64) -> u64 {
        let mut low = number & ((1 << self.low) - 1);
        let mut high = number >> self.low;
        for keys in self.keys.chunks_exact(2) {
            low ^= Cipher::mix(high, keys[0], self.low);
            high ^= Cipher::mix(low, keys[1], self.high);
        }
        high << self.low | low
    }
}

impl Permutation {
    /// An order of `blocks` blocks, at least 1.
    pub(super) fn new(blocks: u64, rng: &mut Rng) -> Permutation {
        let mut new = Permutation { blocks, at: 0, order: Order::Shuffled(Vec::new()), passes: 0 };
        if blocks <= SHUFFLED {
            new.order = Order::Shuffled((0..blocks as u32).collect());
        }
        new.begin(rng);
        new
    }

    /// Draws another order.
    fn begin(&mut self, rng: &mut Rng) {
        self.at = 0;
        self.passes += 1;
        match &mut self.order {
            Order::Shuffled(order) if self.blocks <= SHUFFLED => {
                for last in (1..order.len()).rev() {
                    order.swap(last, rng.below(last as u64 + 1) as usize);
                }
            }
            order => *order = Order::Cipher(Cipher::new(self.blocks, rng)),
        }
    }

    /// The next block.
    #[inline]
    pub(super) fn next(&mut self, rng: &mut Rng) -> u64 {
        loop {
            match &self.order {
                Order::Shuffled(order) => {
                    if let Some(&block) = order.get(self.at as usize) {
                        self.at += 1;
                        return u64::from(block);
                    }
                }
                Order::Cipher(cipher) => {
                    let domain = 1 << (cipher.low + cipher.high);
                    while self.at < domain {
                        let block = cipher.permute(self.at);
                        self.at += 1;
                        if block < self.blocks {
                            return block;
                        }
                    }
                }
            }
            self.begin(rng);
        }
    }
}

/// A bit per unit of a region, set once the unit was visited. Each level above has a bit per full word of the one
/// below.
#[derive(Clone, Debug)]
pub(super) struct UnitMap {
    levels: Vec<Vec<u64>>,
    units: u64,
    left: u64,
    /// How often all became free.
    pub passes: u64,
}

impl UnitMap {
    /// Largest number of units: half a gigabyte of bits.
    pub(super) const MAX_UNITS: u64 = 1 << 32;

    /// A map of `units` (1 to [`MAX_UNITS`](Self::MAX_UNITS)), none visited.
    pub(super) fn new(units: u64) -> UnitMap {
        let mut levels = Vec::new();
        let mut bits = units;
        loop {
            let words = bits.div_ceil(64);
            levels.push(vec![0; words as usize]);
            bits = words;
            if words == 1 {
                break;
            }
        }
        let mut map = UnitMap { levels, units, left: 0, passes: 0 };
        map.clear();
        map
    }

    /// Marks every unit as not visited.
    fn clear(&mut self) {
        let mut bits = self.units;
        for level in &mut self.levels {
            level.fill(0);
            // Units beyond the end count as visited.
            if !bits.is_multiple_of(64)
                && let Some(last) = level.last_mut()
            {
                *last = u64::MAX << (bits % 64);
            }
            bits = level.len() as u64;
        }
        self.left = self.units;
        self.passes += 1;
    }

    /// The first unit from `from` on that was not visited.
    fn next_free(&self, level: usize, from: u64) -> Option<u64> {
        let words = self.levels.get(level)?;
        let word = from / 64;
        let free = !words.get(word as usize)? & (u64::MAX << (from % 64));
        if free != 0 {
            return Some(word * 64 + u64::from(free.trailing_zeros()));
        }
        let word = self.next_free(level + 1, word + 1)?;
        Some(word * 64 + u64::from(words[word as usize].trailing_ones()))
    }

    /// Visits free units at or after `from`, wrapping at the end of the region: at most `want`, fewer if the gap is
    /// shorter. If none is free, all become free first.
    /// Returns the first unit and their number.
    pub(super) fn take(&mut self, from: u64, want: u64) -> (u64, u64) {
        if self.left == 0 {
            self.clear();
        }
        let first = self.next_free(0, from).or_else(|| self.next_free(0, 0)).unwrap_or(0);
        let mut at = first;
        let end = first + want.min(self.units - first);
        while at < end {
            let word = (at / 64) as usize;
            let ahead = self.levels[0][word] >> (at % 64);
            let run = u64::from(ahead.trailing_zeros()).min(64 - at % 64).min(end - at);
            if run == 0 {
                break;
            }
            self.levels[0][word] |= (u64::MAX >> (64 - run)) << (at % 64);
            self.note_full(word);
            at += run;
        }
        self.left -= at - first;
        (first, at - first)
    }

    fn note_full(&mut self, mut word: usize) {
        for level in 1..self.levels.len() {
            if self.levels[level - 1][word] != u64::MAX {
                break;
            }
            self.levels[level][word / 64] |= 1 << (word % 64);
            word /= 64;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sim::Seed;

    use super::*;

    #[test]
    fn each_pass_visits_every_block_once_in_another_order() {
        for blocks in [1, 2, 3, 1000, 4096, 4097, 5000, 65_536, 70_001] {
            let mut rng = Seed(3).stream("cover");
            let mut permutation = Permutation::new(blocks, &mut rng);
            let mut pass = || (0..blocks).map(|_| permutation.next(&mut rng)).collect::<Vec<_>>();
            let (first, second) = (pass(), pass());
            assert!(blocks < 1000 || first != second);
            for mut order in [first, second] {
                order.sort();
                assert!(order.into_iter().eq(0..blocks), "{blocks}");
            }
        }
    }

    /// In the first tenth of a pass, every 64th of the region gets its share, and so do differences between neighbours:
    /// chi-square with 63 degrees of freedom exceeds 120 only once in 100,000 seeds.
    #[test]
    fn a_permutation_looks_random_from_its_first_tenth_on() {
        for blocks in [40_000u64, 1 << 17, 1_000_003, 1 << 30] {
            let mut rng = Seed(5).stream("cover");
            let mut permutation = Permutation::new(blocks, &mut rng);
            let draws = (blocks / 10).min(200_000);
            let (mut places, mut steps) = ([0u64; 64], [0u64; 64]);
            let mut last = 0;
            for _ in 0..draws {
                let block = permutation.next(&mut rng);
                places[(block * 64 / blocks) as usize] += 1;
                steps[((block + blocks - last) % blocks * 64 / blocks) as usize] += 1;
                last = block;
            }
            let expected = draws as f64 / 64.0;
            let chi = |counts: [u64; 64]| counts.map(|n| (n as f64 - expected).powi(2) / expected).iter().sum::<f64>();
            assert!(chi(places) < 120.0 && chi(steps) < 120.0, "{blocks}: {} {}", chi(places), chi(steps));
        }
    }

    proptest! {
        #[test]
        fn a_unit_map_visits_every_unit_once(
            units in 1u64..20_000,
            requests in prop::collection::vec((any::<u64>(), 1u64..300), 1..400),
        ) {
            let mut map = UnitMap::new(units);
            let mut plain = vec![false; units as usize];
            for (from, want) in requests {
                let (first, got) = map.take(from % units, want);
                if plain.iter().all(|&visited| visited) {
                    plain.fill(false);
                }
                let free = |from: u64| (from..units).find(|&unit| !plain[unit as usize]);
                prop_assert_eq!(Some(first), free(from % units).or_else(|| free(0)));
                let gap = (first..units).take_while(|&unit| !plain[unit as usize]).count() as u64;
                prop_assert_eq!(got, want.min(gap));
                plain[first as usize..(first + got) as usize].fill(true);
                prop_assert_eq!(map.left, plain.iter().filter(|&&visited| !visited).count() as u64);
            }
        }
    }

    #[test]
    fn a_full_map_starts_over() {
        let mut map = UnitMap::new(64 * 64 * 2 + 5);
        let mut taken = 0;
        while taken < map.units {
            taken += map.take(taken, 64).1;
        }
        assert_eq!((map.left, map.take(70, 1)), (0, (70, 1)));
    }
}
