//! Ageing of cells: the endurance of each block, and the raw bit error rate by cycles, data age and reads.
//!
//! The form of both models is our own choice, with published ingredients named at each; neither is a fit to a part.
//! [`WearOut`] and [`BitErrors`] say what is calibrated and what that means.
//!
//! Arithmetic beyond + − × ÷ goes through `libm`, so that results are the same bits on every machine.

use sim::{Ns, Rng};

use crate::ecc::Ecc;

/// One year of 365.25 days.
pub const YEAR: Ns = Ns::from_s(31_557_600);

/// Distribution of the blocks' endurance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lifetime {
    /// Every block lasts exactly the rating.
    Fixed,
    /// Normal, with this coefficient of variation.
    Normal {
        /// Standard deviation over mean, below 0.4.
        cv: f64,
    },
    /// Lognormal, with this standard deviation of the logarithm.
    LogNormal {
        /// Standard deviation of the natural logarithm.
        sigma: f64,
    },
    /// Weibull, with this shape; above 1 the failure rate grows with wear.
    Weibull {
        /// Shape parameter, often called beta.
        shape: f64,
    },
}

/// Blocks that fail permanently.
///
/// Calibration: `failed_at_rating` of all blocks have failed once every block has seen `rating_cycles` erases. Data
/// sheets promise that so many of the blocks stay valid over the rated endurance, commonly 2008 of 2048 (Micron
/// 2/4/8 Gb NAND data sheet, "Error Management": N_VB), which is 2 % with the factory's bad blocks among them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WearOut {
    /// The part's rated program–erase cycles.
    pub rating_cycles: u32,
    /// Share of blocks that have failed at the rating, above 0 and below 1. Ignored for `Fixed`.
    pub failed_at_rating: f64,
    /// Distribution of the endurance.
    pub lifetime: Lifetime,
    /// Probability that one program fails in a block at the rating.
    pub program_failure_at_rating: f64,
    /// Growth of that probability: (cycles / rating) to this power.
    pub program_failure_exponent: f64,
}

impl WearOut {
    /// Our default around a part's rating: Weibull of shape 4, 2 % failed at the rating, one program in 10⁷ failing
    /// there, growing with the fourth power.
    ///
    /// Weibull is the family in which reliability engineers of NAND state wear-out (T. Marquart, "Practical Approach
    /// to Determining SSD Reliability", Flash Memory Summit 2015, which draws it for shapes 0.1, 1 and 4); shape 4 and
    /// the program failures are our choice.
    pub const fn by_rating(rating_cycles: u32) -> WearOut {
        WearOut {
            rating_cycles,
            failed_at_rating: 0.02,
            lifetime: Lifetime::Weibull { shape: 4.0 },
            program_failure_at_rating: 1e-7,
            program_failure_exponent: 4.0,
        }
    }

    /// Draws one block's endurance: the number of erases that succeed, at least 1.
    pub fn draw_endurance(&self, rng: &mut Rng) -> u32 {
        let rating = f64::from(self.rating_cycles);
        let failed = self.failed_at_rating;
        let cycles = match self.lifetime {
            Lifetime::Fixed => rating,
            Lifetime::Normal { cv } => rating / (1.0 + cv * normal_quantile(failed)) * (1.0 + cv * normal(rng)),
            Lifetime::LogNormal { sigma } => rating * libm::exp(sigma * (normal(rng) - normal_quantile(failed))),
            Lifetime::Weibull { shape } => {
                let own = -libm::log(1.0 - rng.unit());
                let at_rating = -libm::log(1.0 - failed);
                rating * libm::pow(own / at_rating, 1.0 / shape)
            }
        };
        (cycles as u32).max(1)
    }

    /// Share of blocks whose endurance is below `erases`: the distribution of which
    /// [`draw_endurance`](Self::draw_endurance) draws.
    pub fn failed_share(&self, erases: f64) -> f64 {
        let worn = erases / f64::from(self.rating_cycles);
        if worn <= 0.0 {
            return 0.0;
        }
        match self.lifetime {
            Lifetime::Fixed => f64::from(u8::from(worn >= 1.0)),
            Lifetime::Normal { cv } => {
                let mean = 1.0 / (1.0 + cv * normal_quantile(self.failed_at_rating));
                normal_share((worn / mean - 1.0) / cv)
            }
            Lifetime::LogNormal { sigma } => {
                normal_share(libm::log(worn) / sigma + normal_quantile(self.failed_at_rating))
            }
            Lifetime::Weibull { shape } => {
                1.0 - libm::exp(libm::log(1.0 - self.failed_at_rating) * libm::pow(worn, shape))
            }
        }
    }

    /// Probability that one program fails in a block erased `erases` times.
    pub fn program_failure(&self, erases: u32) -> f64 {
        let worn = f64::from(erases) / f64::from(self.rating_cycles);
        self.program_failure_at_rating * libm::pow(worn, self.program_failure_exponent)
    }
}

/// Standard normal draw by Box–Muller through `libm`, two uniform draws each.
fn normal(rng: &mut Rng) -> f64 {
    let (radius, angle) = (1.0 - rng.unit(), rng.unit());
    libm::sqrt(-2.0 * libm::log(radius)) * libm::cos(std::f64::consts::TAU * angle)
}

/// Standard normal distribution function.
fn normal_share(x: f64) -> f64 {
    0.5 * libm::erfc(-x / std::f64::consts::SQRT_2)
}

/// Standard normal quantile of `p`, by bisection of the error function.
fn normal_quantile(p: f64) -> f64 {
    let (mut low, mut high) = (-40.0_f64, 40.0_f64);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if normal_share(middle) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// Raw bit errors of programmed pages.
///
/// `RBER(n, t, r) = a + b·(n/N)^k·(1 + c·ln(1 + t/t0)) + s·(n/N)·r` with `n` erases of the block, `t` the age of the
/// page's data, `r` page reads in the block since its erase, and `N` the rating; never above one half.
///
/// Errors of a codeword are beta-binomial: the codeword's own error rate is Beta-distributed around the RBER, because
/// measured frames are over-dispersed against a binomial (Taranalli et al., 1X/2Y nm MLC). Growth with the logarithm of
/// time, and linearly in reads and wear, follows the tendencies in Luo et al., SIGMETRICS'18, and Cai et al., DSN'15;
/// the form and its numbers are our choice.
///
/// Calibration: `b` and `s` follow from the code. Its *limit* is the RBER at which the uncorrectable bit error rate,
/// the probability of an uncorrectable codeword over its data bits, is `uber_at_limit`. Then `RBER(N, 1 year, 0) =
/// limit`, and `reads_at_limit` reads of a block at `N` add the limit once more.
///
/// Errors persist: each codeword keeps a rank until its block is erased, and its number of wrong bits is the quantile
/// of the distribution at that rank. So two reads return the same, and errors only grow with age and reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BitErrors {
    /// `N`, the part's rated program–erase cycles.
    pub rating_cycles: u32,
    /// `a` as a share of the limit: errors of fresh cells.
    pub base_of_limit: f64,
    /// `k`, the exponent of wear.
    pub wear_exponent: f64,
    /// `c`, the growth with the logarithm of data age.
    pub retention: f64,
    /// `t0`, the unit of data age.
    pub retention_unit: Ns,
    /// Reads of a block at `N` that add as many errors as the limit.
    pub reads_at_limit: f64,
    /// The uncorrectable bit error rate that defines the limit.
    pub uber_at_limit: f64,
    /// The limit itself, above 0 and below one half, whatever the code; `None`: it follows from the code and
    /// `uber_at_limit`. Set it to compare codes on the same cells.
    pub limit_rber: Option<f64>,
    /// Shape `α` of the codewords' Beta distribution; the relative spread of their error rates is `1/√α`.
    pub shape: u32,
}

impl BitErrors {
    /// Our default around a part's rating: 1 % of the limit when fresh, quadratic wear, a year of retention multiplying
    /// wear's errors by 5.5 (`c` = 0.5, `t0` = 1 h), a million reads to the limit, UBER 10⁻¹⁵ (JESD218's client class),
    /// and a spread of 25 % between codewords.
    pub const fn by_rating(rating_cycles: u32) -> BitErrors {
        BitErrors {
            rating_cycles,
            base_of_limit: 0.01,
            wear_exponent: 2.0,
            retention: 0.5,
            retention_unit: Ns::from_s(3600),
            reads_at_limit: 1e6,
            uber_at_limit: 1e-15,
            limit_rber: None,
            shape: 16,
        }
    }

    /// Solves the model's constants for a code. Without a code, the limit is one wrong bit in 512 bytes.
    pub fn calibrate(&self, ecc: Option<Ecc>) -> Rber {
        let limit = self.limit_rber.unwrap_or_else(|| self.limit(ecc.unwrap_or(Ecc::new(1, 512))));
        let base = self.base_of_limit * limit;
        let year = 1.0 + self.retention * libm::log(1.0 + YEAR.0 as f64 / self.retention_unit.0 as f64);
        Rber { model: *self, limit, base, wear: (limit - base) / year, disturb: limit / self.reads_at_limit }
    }

    /// RBER at which `ecc` leaves an uncorrectable bit error rate of `uber_at_limit`.
    pub fn limit(&self, ecc: Ecc) -> f64 {
        let data_bits = f64::from(8 * ecc.step_bytes);
        let (mut low, mut high) = (1e-30_f64, 0.5_f64);
        for _ in 0..200 {
            // Bisection of the logarithm: limits span ten decades.
            let middle = libm::sqrt(low * high);
            let uber = Codeword::new(ecc.codeword_bits(), middle, self.shape).more_than(ecc.bits) / data_bits;
            if uber < self.uber_at_limit {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }
}

/// A calibrated [`BitErrors`], with the constants of its formula.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rber {
    model: BitErrors,
    /// Highest RBER at which the code still meets `uber_at_limit`.
    pub limit: f64,
    /// `a`, errors of fresh cells.
    pub base: f64,
    /// `b`, errors of wear at the rating without retention.
    pub wear: f64,
    /// `s`, errors per read at the rating.
    pub disturb: f64,
}

impl Rber {
    /// The raw bit error rate of a page: `erases` of its block, `age` of its data, `reads` in its block since the erase.
    pub fn at(&self, erases: u32, age: Ns, reads: u64) -> f64 {
        let worn = f64::from(erases) / f64::from(self.model.rating_cycles);
        let aged = 1.0 + self.model.retention * libm::log(1.0 + age.0 as f64 / self.model.retention_unit.0 as f64);
        let rber = self.base
            + self.wear * libm::pow(worn, self.model.wear_exponent) * aged
            + self.disturb * worn * reads as f64;
        rber.min(0.5)
    }

    /// The distribution of wrong bits in a codeword of `bits` bits.
    pub fn codeword(&self, bits: u32, rber: f64) -> Codeword {
        Codeword::new(bits, rber, self.model.shape)
    }
}

/// The beta-binomial distribution of wrong bits in one codeword.
#[derive(Clone, Copy, Debug)]
pub struct Codeword {
    bits: u32,
    alpha: f64,
    beta: f64,
    none: f64,
}

impl Codeword {
    /// A codeword of `bits` bits whose error rate is Beta(`shape`, ·) with mean `rber`, above 0 and at most one half.
    pub fn new(bits: u32, rber: f64, shape: u32) -> Codeword {
        let alpha = f64::from(shape);
        let beta = alpha * (1.0 - rber) / rber;
        // P(0) = B(α, β+m) / B(α, β), which for whole α is a product of α factors.
        let none = (0..shape).fold(1.0, |p, j| p * (beta + f64::from(j)) / (beta + f64::from(bits) + f64::from(j)));
        Codeword { bits, alpha, beta, none }
    }

    /// P(k) / P(k-1).
    fn ratio(&self, k: u32) -> f64 {
        let (bits, k) = (f64::from(self.bits), f64::from(k));
        (bits - k + 1.0) * (self.alpha + k - 1.0) / (k * (self.beta + bits - k))
    }

    /// Probability of more than `bits` wrong bits.
    pub fn more_than(&self, bits: u32) -> f64 {
        let mut p = self.none;
        let mut sum = 0.0;
        for k in 1..=self.bits {
            p *= self.ratio(k);
            if k > bits {
                sum += p;
                if p < sum * 1e-17 && f64::from(k) * self.beta > f64::from(self.bits) * self.alpha {
                    break;
                }
            }
        }
        sum
    }

    /// The number of wrong bits at `rank`, uniform in [0, 1).
    pub fn quantile(&self, rank: f64) -> u32 {
        let mut p = self.none;
        let mut below = p;
        let mut k = 0;
        while rank >= below && k < self.bits {
            k += 1;
            p *= self.ratio(k);
            below += p;
        }
        k
    }
}
