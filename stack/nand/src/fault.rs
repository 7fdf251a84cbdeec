//! Faults: an overlay on pristine data, declared before the run.
//!
//! Knows how blocks wear out, how bits flip and what fails. Does not change what the store holds: flips are computed
//! when a page is read, and vanish when the block is erased.
//!
//! Draws come from named streams of the plan's seed: `nand/factory-bad`, `nand/endurance`, `nand/program-failure`,
//! `nand/sudden-program-failure`, `nand/sudden-erase-failure` and `nand/bitflips` (nandsim's). Bit errors are keyed per
//! codeword under `nand/bit-errors`, so the order of reads does not matter.
//!
//! Invariants: the wrong bits of a codeword only grow until its block is erased; a block past its endurance always
//! fails to erase.

use sim::seam::{FlashError, Geometry, Medium, ReadStatus};
use sim::{Ns, Peb, Rng, Seed};

use crate::config::{ArrayConfig, ConfigError};
use crate::ecc::Ecc;
use crate::nandsim::{NandsimFaults, Weak};
use crate::wearout::{BitErrors, Lifetime, Rber, WearOut};

/// Blocks that are bad when the part leaves the factory. They are treated like blocks marked bad.
#[derive(Clone, Debug, PartialEq)]
pub enum FactoryBad {
    /// No bad blocks.
    None,
    /// Exactly these blocks.
    List(Vec<Peb>),
    /// Each block with this probability, except PEB 0, which data sheets guarantee.
    Rate(f64),
}

/// The faults of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultPlan {
    /// Seed of every draw.
    pub seed: Seed,
    /// Blocks that are bad from the start.
    pub factory_bad: FactoryBad,
    /// The five faults of nandsim.
    pub nandsim: NandsimFaults,
    /// Blocks that fail permanently as they wear; `None` for endless endurance.
    pub wear_out: Option<WearOut>,
    /// Probability that the program of a page fails, whatever the block's wear.
    pub program_failure: f64,
    /// Probability that an erase fails, whatever the block's wear.
    pub erase_failure: f64,
    /// Erases of each block before the array was made. They wear, and are in no erase count.
    pub worn_cycles: u32,
    /// Bit flips from wear, retention and read disturb, NAND only; `None` for none.
    pub bit_errors: Option<BitErrors>,
}

impl FaultPlan {
    /// No fault of any kind.
    pub fn none(seed: Seed) -> FaultPlan {
        FaultPlan {
            seed,
            factory_bad: FactoryBad::None,
            nandsim: NandsimFaults::default(),
            wear_out: None,
            program_failure: 0.0,
            erase_failure: 0.0,
            worn_cycles: 0,
            bit_errors: None,
        }
    }

    pub(crate) fn validate(&self, config: &ArrayConfig) -> Result<(), ConfigError> {
        let g = &config.geometry;
        let pages = u64::from(g.pebs) * u64::from(g.pages_per_peb());
        let need = |holds: bool, field: &'static str, found: u64, expected: &'static str| {
            if holds { Ok(()) } else { Err(ConfigError { field, found, expected }) }
        };
        let sim = &self.nandsim;
        let weak = |list: &[Weak]| list.iter().map(|weak| weak.at).max();
        all_below("faults.nandsim.badblocks", sim.bad_blocks.iter().copied().max(), g.pebs.into())?;
        all_below("faults.nandsim.weakblocks", weak(&sim.weak_blocks), g.pebs.into())?;
        all_below("faults.nandsim.weakpages", weak(&sim.weak_pages), pages)?;
        all_below("faults.nandsim.gravepages", weak(&sim.grave_pages), pages)?;
        match &self.factory_bad {
            FactoryBad::None => {}
            FactoryBad::List(list) => {
                all_below("faults.factory_bad", list.iter().map(|peb| peb.0).max(), g.pebs.into())?;
            }
            FactoryBad::Rate(rate) => {
                need((0.0..1.0).contains(rate), "faults.factory_bad.rate", *rate as u64, "from 0 to below 1")?;
            }
        }
        if let Some(wear) = &self.wear_out {
            need(wear.rating_cycles > 0, "faults.wear_out.rating_cycles", 0, "at least 1")?;
            let failed = wear.failed_at_rating;
            need(failed > 0.0 && failed < 1.0, "faults.wear_out.failed_at_rating", failed as u64, "between 0 and 1")?;
            let spread = match wear.lifetime {
                Lifetime::Fixed => true,
                Lifetime::Normal { cv } => (0.0..0.4).contains(&cv),
                Lifetime::LogNormal { sigma } => sigma >= 0.0,
                Lifetime::Weibull { shape } => shape > 0.0,
            };
            need(spread, "faults.wear_out.lifetime", 0, "a spread that its family has")?;
        }
        for (field, p) in
            [("faults.program_failure", self.program_failure), ("faults.erase_failure", self.erase_failure)]
        {
            need((0.0..=1.0).contains(&p), field, p as u64, "0 to 1")?;
        }
        if let Some(model) = &self.bit_errors {
            need(g.medium == Medium::Nand, "faults.bit_errors", 1, "none on a NOR")?;
            need(model.rating_cycles > 0, "faults.bit_errors.rating_cycles", 0, "at least 1")?;
            need(model.shape > 0, "faults.bit_errors.shape", 0, "at least 1")?;
            need(model.retention_unit.0 > 0, "faults.bit_errors.retention_unit", 0, "above 0")?;
            let (uber, reads) = (model.uber_at_limit, model.reads_at_limit);
            need(uber > 0.0 && uber < 1.0, "faults.bit_errors.uber_at_limit", uber as u64, "between 0 and 1")?;
            need(reads > 0.0, "faults.bit_errors.reads_at_limit", reads as u64, "above 0")?;
            let base = model.base_of_limit;
            need(base > 0.0 && base < 1.0, "faults.bit_errors.base_of_limit", base as u64, "between 0 and 1")?;
            let limit = model.limit_rber.unwrap_or(0.1);
            need(limit > 0.0 && limit < 0.5, "faults.bit_errors.limit_rber", limit as u64, "between 0 and one half")?;
        }
        Ok(())
    }
}

/// Checks that `largest` lies below `end`.
fn all_below(field: &'static str, largest: Option<u32>, end: u64) -> Result<(), ConfigError> {
    match largest {
        Some(at) if u64::from(at) >= end => {
            Err(ConfigError { field, found: at.into(), expected: "a block or page of the device" })
        }
        _ => Ok(()),
    }
}

/// Faults that a run has met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Bits that ECC corrected, summed over reads.
    pub corrected_bits: u64,
    /// Page reads of which ECC corrected at least one bit, and all wrong ones.
    pub corrected_pages: u64,
    /// Wrong bits that reached the reader because there is no code, summed over reads.
    pub unnoticed_bits: u64,
    /// Page reads that ECC could not correct.
    pub uncorrectable_pages: u64,
    /// Programs that failed.
    pub program_failures: u64,
    /// Erases that failed.
    pub erase_failures: u64,
}

impl FaultCounts {
    /// Faults met since an earlier count.
    pub fn since(&self, before: &FaultCounts) -> FaultCounts {
        FaultCounts {
            corrected_bits: self.corrected_bits - before.corrected_bits,
            corrected_pages: self.corrected_pages - before.corrected_pages,
            unnoticed_bits: self.unnoticed_bits - before.unnoticed_bits,
            uncorrectable_pages: self.uncorrectable_pages - before.uncorrectable_pages,
            program_failures: self.program_failures - before.program_failures,
            erase_failures: self.erase_failures - before.erase_failures,
        }
    }
}

/// A weak block or page, and how often it was used.
#[derive(Clone, Copy, Debug)]
struct Used {
    weak: Weak,
    done: u32,
}

/// State of the bit-error model.
#[derive(Clone, Debug)]
struct Decay {
    rber: Rber,
    key: u64,
    /// When each page of the device was programmed; `NEVER` if it was not.
    programmed_at: Vec<Ns>,
    /// Page reads in each block since its last erase.
    reads: Vec<u64>,
}

const NEVER: Ns = Ns(u64::MAX);

/// The fault plan applied to one device.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    geometry: Geometry,
    ecc: Option<Ecc>,
    factory_bad: Vec<Peb>,
    /// Erases that each block survives; empty without wear-out.
    endurance: Vec<u32>,
    wear_out: Option<WearOut>,
    program_failure: Rng,
    sudden_program: Option<(f64, Rng)>,
    sudden_erase: Option<(f64, Rng)>,
    decay: Option<Decay>,
    weak_blocks: Vec<Used>,
    weak_pages: Vec<Used>,
    grave_pages: Vec<Used>,
    bitflips: u32,
    flipping: Rng,
    /// Whether nothing fails for now.
    pub suspended: bool,
    pub counts: FaultCounts,
}

impl Faults {
    pub fn new(plan: &FaultPlan, config: &ArrayConfig) -> Faults {
        let geometry = config.geometry;
        let mut factory_bad: Vec<Peb> = plan.nandsim.bad_blocks.iter().copied().map(Peb).collect();
        match &plan.factory_bad {
            FactoryBad::None => {}
            FactoryBad::List(list) => factory_bad.extend(list),
            FactoryBad::Rate(rate) => {
                let mut rng = plan.seed.stream("nand/factory-bad");
                factory_bad.extend((1..geometry.pebs).filter(|_| rng.chance(*rate)).map(Peb));
            }
        }
        factory_bad.sort_unstable();
        factory_bad.dedup();
        let mut rng = plan.seed.stream("nand/endurance");
        let endurance = plan
            .wear_out
            .map_or_else(Vec::new, |wear| (0..geometry.pebs).map(|_| wear.draw_endurance(&mut rng)).collect());
        let sudden = |chance: f64, stream| (chance > 0.0).then(|| (chance, plan.seed.stream(stream)));
        let fresh = |list: &[Weak]| list.iter().map(|&weak| Used { weak, done: 0 }).collect();
        Faults {
            geometry,
            ecc: config.ecc,
            factory_bad,
            endurance,
            wear_out: plan.wear_out,
            program_failure: plan.seed.stream("nand/program-failure"),
            sudden_program: sudden(plan.program_failure, "nand/sudden-program-failure"),
            sudden_erase: sudden(plan.erase_failure, "nand/sudden-erase-failure"),
            decay: plan.bit_errors.map(|model| Decay {
                rber: model.calibrate(config.ecc),
                key: plan.seed.stream("nand/bit-errors").bits(),
                programmed_at: vec![NEVER; geometry.pebs as usize * geometry.pages_per_peb() as usize],
                reads: vec![0; geometry.pebs as usize],
            }),
            weak_blocks: fresh(&plan.nandsim.weak_blocks),
            weak_pages: fresh(&plan.nandsim.weak_pages),
            grave_pages: fresh(&plan.nandsim.grave_pages),
            bitflips: plan.nandsim.bitflips,
            flipping: plan.seed.stream("nand/bitflips"),
            suspended: false,
            counts: FaultCounts::default(),
        }
    }

    pub fn factory_bad(&self) -> &[Peb] {
        &self.factory_bad
    }

    /// Erases that `peb` survives; `None` without wear-out.
    pub fn endurance_of(&self, peb: Peb) -> Option<u32> {
        self.endurance.get(peb.at()).copied()
    }

    pub fn rber(&self) -> Option<Rber> {
        self.decay.as_ref().map(|decay| decay.rber)
    }

    pub fn held_bytes(&self) -> usize {
        let decay = self.decay.as_ref().map_or(0, |d| (d.programmed_at.capacity() + d.reads.capacity()) * 8);
        let weak = self.weak_blocks.capacity() + self.weak_pages.capacity() + self.grave_pages.capacity();
        size_of::<Faults>() + decay + self.endurance.capacity() * 4 + weak * size_of::<Used>()
    }

    /// Records the time of a program.
    pub fn programmed(&mut self, now: Ns, peb: Peb, offset: u32, len: u32) {
        let (first, last) = self.pages(peb, offset, len);
        if let Some(decay) = &mut self.decay {
            decay.programmed_at[first..=last].fill(now);
        }
    }

    /// First and last page of a range, numbered in the device; `len` is above 0.
    fn pages(&self, peb: Peb, offset: u32, len: u32) -> (usize, usize) {
        let first = peb.at() * self.geometry.pages_per_peb() as usize;
        let page_bytes = self.geometry.page_bytes;
        (first + (offset / page_bytes) as usize, first + ((offset + len - 1) / page_bytes) as usize)
    }

    /// Whether a program is reported as failed. The cells hold the data either way.
    pub fn program_fails(&mut self, now: Ns, peb: Peb, offset: u32, len: u32, erases: u32) -> bool {
        self.programmed(now, peb, offset, len);
        if self.suspended {
            return false;
        }
        let (first, last) = self.pages(peb, offset, len);
        let mut fails = false;
        for used in &mut self.weak_pages {
            if (first..=last).contains(&(used.weak.at as usize)) {
                fails |= used_up(used);
            }
        }
        if let Some(wear) = &self.wear_out {
            fails |= self.program_failure.chance(wear.program_failure(erases));
        }
        if let Some((chance, rng)) = &mut self.sudden_program {
            let pages = (last - first + 1) as f64;
            fails |= rng.chance(if first == last { *chance } else { 1.0 - libm::pow(1.0 - *chance, pages) });
        }
        self.counts.program_failures += u64::from(fails);
        fails
    }

    /// Whether an erase, the block's `erases`-th, is reported as failed.
    pub fn erase_fails(&mut self, peb: Peb, erases: u32) -> bool {
        if self.suspended {
            return false;
        }
        let mut fails = self.endurance_of(peb).is_some_and(|endurance| erases > endurance);
        for used in self.weak_blocks.iter_mut().filter(|used| used.weak.at == peb.0) {
            fails |= used_up(used);
        }
        if let Some((chance, rng)) = &mut self.sudden_erase {
            fails |= rng.chance(*chance);
        }
        self.counts.erase_failures += u64::from(fails);
        fails
    }

    /// Forgets the pages of an erased block.
    pub fn erased(&mut self, peb: Peb) {
        let pages = self.geometry.pages_per_peb() as usize;
        if let Some(decay) = &mut self.decay {
            decay.programmed_at[peb.at() * pages..][..pages].fill(NEVER);
            decay.reads[peb.at()] = 0;
        }
    }

    /// Applies ECC to a read of `buf`. Returns the corrected bits, or the first page that could not be corrected. Cells
    /// at or past `written` are erased and read without errors.
    pub fn read(
        &mut self,
        now: Ns,
        peb: Peb,
        offset: u32,
        buf: &mut [u8],
        written: u32,
        erases: u32,
    ) -> Result<ReadStatus, FlashError> {
        let page_bytes = self.geometry.page_bytes;
        let end = offset + buf.len() as u32;
        let mut status = ReadStatus::default();
        let mut given_up = None;
        if self.geometry.medium == Medium::Nor || self.suspended {
            return Ok(status);
        }
        for page in offset / page_bytes..end.div_ceil(page_bytes) {
            let start = page * page_bytes;
            let read = offset.max(start)..end.min(start + page_bytes);
            let part = &mut buf[(read.start - offset) as usize..(read.end - offset) as usize];
            let good =
                start >= written || self.read_page(now, peb, page, read.start - start, part, erases, &mut status);
            if let Some(decay) = &mut self.decay {
                decay.reads[peb.at()] += 1;
            }
            if !good {
                self.counts.uncorrectable_pages += 1;
                given_up = given_up.or(Some(start));
            }
        }
        match given_up {
            Some(offset) => Err(FlashError::Uncorrectable { peb, offset }),
            None => Ok(status),
        }
    }

    /// One page of a read, of which `buf` begins `from` bytes into the page. False if ECC fails.
    #[allow(clippy::too_many_arguments)]
    fn read_page(
        &mut self,
        now: Ns,
        peb: Peb,
        page: u32,
        from: u32,
        buf: &mut [u8],
        erases: u32,
        status: &mut ReadStatus,
    ) -> bool {
        let page_no = peb.at() as u32 * self.geometry.pages_per_peb() + page;
        let mut dead = false;
        for used in self.grave_pages.iter_mut().filter(|used| used.weak.at == page_no) {
            dead |= used_up(used);
        }
        if dead {
            buf.iter_mut().for_each(|byte| *byte = self.flipping.bits() as u8);
            return false;
        }
        let page_bits = 8 * self.geometry.page_bytes;
        let transient = self.draw_bitflips();
        let step_bytes = self.ecc.map_or(self.geometry.page_bytes.min(512), |ecc| ecc.step_bytes);
        let codeword_bits = self.ecc.map_or(8 * step_bytes, |ecc| ecc.codeword_bits());
        let wrong = self.decay.as_ref().and_then(|decay| {
            let programmed_at = decay.programmed_at[page_no as usize];
            let age = Ns(now.0.saturating_sub(programmed_at.0));
            (programmed_at != NEVER).then(|| {
                let rber = decay.rber.at(erases, age, decay.reads[peb.at()]);
                (decay.rber.codeword(codeword_bits, rber), decay.key)
            })
        });
        let (first, last) = (from / step_bytes, (from + buf.len() as u32 - 1) / step_bytes);
        let steps = self.geometry.page_bytes / step_bytes;
        let (mut good, mut corrected) = (true, false);
        for step in first..=last {
            let rank = wrong.map(|(codeword, key)| {
                let mut rank = Scatter::new(key, peb, page, step, erases);
                (codeword.quantile(rank.unit()), rank)
            });
            // Flips in the OOB count against the codeword whose parity they hit.
            let oob_bits = (8 * self.geometry.oob_bytes).max(1);
            let step_of = |bit: u32| {
                if bit < page_bits {
                    bit / (8 * step_bytes)
                } else {
                    ((u64::from(bit - page_bits)) * u64::from(steps) / u64::from(oob_bits)) as u32
                }
            };
            let flips = transient.iter().copied().filter(|&bit| step_of(bit) == step);
            let count = rank.as_ref().map_or(0, |&(count, _)| count) + flips.clone().count() as u32;
            if count == 0 {
                continue;
            }
            match self.ecc {
                Some(ecc) if count <= ecc.bits => {
                    self.counts.corrected_bits += u64::from(count);
                    corrected = true;
                    status.bitflips_corrected = status.bitflips_corrected.max(count);
                    status.scrub |= count >= ecc.scrub_at;
                    continue;
                }
                Some(_) => good = false,
                None => self.counts.unnoticed_bits += u64::from(count),
            }
            let mut flip = |bit: u32| {
                let byte = (bit / 8).wrapping_sub(from) as usize;
                if bit < page_bits
                    && let Some(byte) = buf.get_mut(byte)
                {
                    *byte ^= 1 << (bit % 8);
                }
            };
            flips.for_each(&mut flip);
            if let Some((count, mut scatter)) = rank {
                let step_bits = 8 * step_bytes;
                for bit in scatter.distinct(count, codeword_bits) {
                    if bit < step_bits {
                        flip(step * step_bits + bit);
                    }
                }
            }
        }
        self.counts.corrected_pages += u64::from(good && corrected);
        good
    }

    /// nandsim's flips of one page read: bit numbers in page and OOB; mostly empty.
    fn draw_bitflips(&mut self) -> Vec<u32> {
        if self.bitflips == 0 || self.flipping.below(1024) != 0 {
            return Vec::new();
        }
        let flips = 1 + self.flipping.below(self.bitflips.into());
        let bits = 8 * u64::from(self.geometry.page_bytes + self.geometry.oob_bytes);
        (0..flips).map(|_| self.flipping.below(bits) as u32).collect()
    }
}

/// Counts a use; true once all uses that succeed are spent.
fn used_up(used: &mut Used) -> bool {
    if used.done >= used.weak.max {
        return true;
    }
    used.done += 1;
    false
}

/// The draws of one codeword between two erases: they do not depend on who reads or when.
#[derive(Clone, Debug)]
pub(crate) struct Scatter(u64);

impl Scatter {
    pub(crate) fn new(key: u64, peb: Peb, page: u32, step: u32, erases: u32) -> Scatter {
        let mut scatter = Scatter(key);
        for word in [peb.0, page, step, erases] {
            scatter.0 = scatter.bits() ^ u64::from(word);
        }
        scatter
    }

    /// Draws as from a generator of this state.
    #[cfg(test)]
    pub(crate) fn from_state(state: u64) -> Scatter {
        Scatter(state)
    }

    /// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// The first `count` distinct values of an endless sequence of bits below `bound`: a longer list begins with the
    /// shorter.
    pub(crate) fn distinct(&mut self, count: u32, bound: u32) -> Vec<u32> {
        let mut seen = vec![0u64; bound.div_ceil(64) as usize];
        let mut list = Vec::with_capacity(count as usize);
        while list.len() < count.min(bound) as usize {
            let bit = ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u32;
            let (word, mask) = ((bit / 64) as usize, 1u64 << (bit % 64));
            if seen[word] & mask == 0 {
                seen[word] |= mask;
                list.push(bit);
            }
        }
        list
    }
}
