//! Power cuts: which operation does not complete, and what it leaves in the cells.
//!
//! Knows the moment of a cut and the shapes of a tear. Does not know who enumerates the cuts, nor what recovery means.
//!
//! A cut trips once. From then on every call returns `PowerLost` until
//! [`Array::power_on`](crate::Array::power_on). A cut that has not tripped stays armed over a power-on.

use sim::{Ns, Peb, Rng, Seed};

/// When power goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutAt {
    /// That many programs and erases complete after power-on; the next one does not. `Op(0)` cuts the first, and
    /// `Op(array.ops())` of a whole run would never trip: `0..ops` enumerates every cut of it.
    Op(u64),
    /// The operation under way at this time does not complete. One that would begin at it or later does not begin.
    Time(Ns),
}

/// How many bytes of a torn operation made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefixBytes {
    /// This many, or all where the operation is shorter: `Exactly(u32::MAX)` is an operation that made it although its
    /// caller never heard.
    Exactly(u32),
    /// Uniform from none to all, from the stream `"nand/tear"` of the cut's seed.
    Drawn,
}

/// What the operation under way leaves in the cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tear {
    /// It never began: the cells are as before.
    Clean,
    /// Program: the first bytes of the data are in the cells, the others not. Erase: the first bytes of the block read
    /// 0xFF, the others as before.
    Prefix(PrefixBytes),
    /// Program: one page of the operation (drawn) is torn, those before it are whole, those after it untouched; each
    /// bit that was to fall in the torn page did so with a probability that is drawn once per cut. Erase: each bit of
    /// the block that was to rise did so with such a probability.
    RandomBits,
}

/// One cut of the power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerCut {
    /// When.
    pub at: CutAt,
    /// What the operation under way leaves.
    pub tear: Tear,
    /// Whether ECC notices: reads of the torn page, or of the block whose erase was interrupted, give `Uncorrectable`
    /// until the block is erased. Without it the reader gets what the cells hold as if it were good, as a page whose
    /// code happens to fit, or a NOR, would give. Both are needed to exercise both ways a layer can notice.
    pub ecc_sees_torn: bool,
    /// Whether repeated reads of the torn cells differ: each of their bits flips with probability 1/64 per read, from
    /// the stream `"nand/unstable"`. Without it the mixture is drawn once and stays.
    pub unstable: bool,
    /// Where this cut's draws come from.
    pub seed: Seed,
}

impl PowerCut {
    /// `ops` operations complete after power-on, the next is torn; stable bits, unnoticed by ECC, seed 0.
    pub const fn at_op(ops: u64, tear: Tear) -> PowerCut {
        PowerCut { at: CutAt::Op(ops), tear, ecc_sees_torn: false, unstable: false, seed: Seed(0) }
    }

    /// The operation under way at `time` is torn; stable bits, unnoticed by ECC, seed 0.
    pub const fn at_time(time: Ns, tear: Tear) -> PowerCut {
        PowerCut { at: CutAt::Time(time), tear, ecc_sees_torn: false, unstable: false, seed: Seed(0) }
    }

    /// Whether torn cells can be told from whole ones even where no bit of them changed.
    pub(crate) const fn leaves_a_trace(&self) -> bool {
        self.ecc_sees_torn || self.unstable
    }

    /// The same cut, its draws from `seed`.
    pub const fn seeded(self, seed: Seed) -> PowerCut {
        PowerCut { seed, ..self }
    }

    /// The same cut, noticed by ECC.
    pub const fn seen_by_ecc(self) -> PowerCut {
        PowerCut { ecc_sees_torn: true, ..self }
    }

    /// The same cut, leaving bits that change from read to read.
    pub const fn unstable(self) -> PowerCut {
        PowerCut { unstable: true, ..self }
    }
}

/// Cells that a cut left in between, until their block is erased.
#[derive(Clone, Debug)]
pub(crate) struct Torn {
    pub peb: Peb,
    /// First byte, in the block.
    pub from: u32,
    /// One past the last byte.
    pub to: u32,
    pub ecc_sees: bool,
    pub unstable: Option<Rng>,
}

impl Torn {
    /// Draws the flips of one read of `buf`, which begins at `offset` of the block.
    pub fn shake(&mut self, offset: u32, buf: &mut [u8]) {
        let Some(rng) = &mut self.unstable else { return };
        let from = self.from.max(offset);
        let to = self.to.min(offset + buf.len() as u32);
        for at in from..to {
            buf[(at - offset) as usize] ^= thin_byte(rng);
        }
    }
}

/// A byte whose bits are each 1 with probability 1/64.
fn thin_byte(rng: &mut Rng) -> u8 {
    let bits = rng.bits();
    (0..6).fold(0xff, |byte, round| byte & (bits >> (8 * round)) as u8)
}

/// The finest share of bits that [`random_bits`] knows.
pub(crate) const DENSITIES: u64 = 16;

/// 64 bits that are each 1 with probability `density`/[`DENSITIES`]: a binary fraction, built up from its lowest digit.
pub(crate) fn random_bits(rng: &mut Rng, density: u64) -> u64 {
    if density >= DENSITIES {
        return u64::MAX;
    }
    (0..DENSITIES.ilog2()).fold(0, |bits, digit| {
        let drawn = rng.bits();
        if density >> digit & 1 == 1 { bits | drawn } else { bits & drawn }
    })
}

/// Sets each bit of `cells` with probability `density`/[`DENSITIES`].
pub(crate) fn raise_some(rng: &mut Rng, density: u64, cells: &mut [u8]) {
    for word in cells.chunks_mut(8) {
        let bits = random_bits(rng, density).to_le_bytes();
        word.iter_mut().zip(bits).for_each(|(cell, bits)| *cell |= bits);
    }
}
