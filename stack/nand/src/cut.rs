//! Power cuts: which operation does not complete, and what it leaves in the cells.
//!
//! Knows the moment of a cut and the shapes of a tear. Does not know who enumerates cuts, or how a layer recovers.
//!
//! A cut trips once. From then on every call returns `PowerLost` until
//! [`Array::power_on`](crate::Array::power_on). A cut that has not tripped stays armed over a power-on.

use sim::{Ns, Peb, Rng, Seed};

/// When power fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutAt {
    /// After this many programs and erases since power-on, the next one is interrupted. `Op(0)` cuts the first. Over a
    /// whole run, `0..array.ops()` enumerates every cut.
    Op(u64),
    /// The operation under way at this time does not complete. One that would begin at it or later does not begin.
    Time(Ns),
}

/// How many bytes of a torn operation reach the cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefixBytes {
    /// This many, or all if the operation is shorter. `Exactly(u32::MAX)` completes in the cells although its caller
    /// sees `PowerLost`.
    Exactly(u32),
    /// Drawn uniformly from none to all, from the stream `"nand/tear"` of the cut's seed.
    Drawn,
}

/// What the operation under way leaves in the cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tear {
    /// As if it never began: the cells are as before.
    Clean,
    /// Program: the first bytes of the data are programmed, the others not. Erase: the first bytes of the block read
    /// 0xFF, the others are as before.
    Prefix(PrefixBytes),
    /// Program: one page of the operation (drawn) is torn; those before it are whole, those after it untouched. Each
    /// bit to be programmed in the torn page is programmed with a probability drawn once per cut. The page's OOB has a
    /// probability of its own, and may be whole. Erase: each bit to be erased is erased with such a probability.
    RandomBits,
}

/// Pages that share cells, on a part that keeps two bits in each. A program of the upper page moves the charge of the
/// lower one: if it is interrupted, the lower page is lost too, however long ago it was programmed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pairing {
    /// Each page has cells of its own, as on SLC.
    #[default]
    None,
    /// A word line holds four pages: two lower ones, and the two upper ones that follow the next word line's lower ones.
    /// Page 0 is paired with 4, 1 with 5, 2 with 8, 3 with 9, 6 with 12, and so on; the last two pages of a block with the
    /// pages four before. As data sheets of Samsung's MLC parts list it.
    Mlc,
}

impl Pairing {
    /// The lower page whose cells `page` shares, in a block of `pages`; `None` if `page` is a lower one itself.
    pub const fn lower_of(self, page: u32, pages: u32) -> Option<u32> {
        match self {
            Pairing::None => None,
            Pairing::Mlc if page < 4 || page >= pages => None,
            Pairing::Mlc if page < 6 || page >= pages.saturating_sub(2) => Some(page - 4),
            Pairing::Mlc if page % 4 < 2 => Some(page - 6),
            Pairing::Mlc => None,
        }
    }
}

/// A power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerCut {
    /// When power fails.
    pub at: CutAt,
    /// What the operation under way leaves.
    pub tear: Tear,
    /// Whether ECC detects the tear: reads of the torn page, or of the block whose erase was interrupted, return
    /// `Uncorrectable` until the block is erased. If false, the reader gets the cells' contents as good, as on a NOR or
    /// when the code happens to match. A layer must be tested with both.
    pub ecc_sees_torn: bool,
    /// Whether repeated reads of the torn cells differ: each bit flips with probability 1/64 per read, from the stream
    /// `"nand/unstable"`. If false, the mixture is drawn once and stays.
    pub unstable: bool,
    /// Which pages share cells: the lower page of one that is torn becomes uncorrectable.
    pub pairing: Pairing,
    /// Seed of this cut's draws.
    pub seed: Seed,
}

impl PowerCut {
    /// Tears the operation after `ops` completed ones; stable bits, undetected by ECC, seed 0.
    pub const fn at_op(ops: u64, tear: Tear) -> PowerCut {
        PowerCut {
            at: CutAt::Op(ops),
            tear,
            ecc_sees_torn: false,
            unstable: false,
            pairing: Pairing::None,
            seed: Seed(0),
        }
    }

    /// Tears the operation under way at `time`; stable bits, undetected by ECC, seed 0.
    pub const fn at_time(time: Ns, tear: Tear) -> PowerCut {
        PowerCut {
            at: CutAt::Time(time),
            tear,
            ecc_sees_torn: false,
            unstable: false,
            pairing: Pairing::None,
            seed: Seed(0),
        }
    }

    /// Whether torn cells can be told from whole ones even if no bit changed.
    pub(crate) const fn leaves_a_trace(&self) -> bool {
        self.ecc_sees_torn || self.unstable
    }

    /// Lets pages share cells.
    pub const fn paired(self, pairing: Pairing) -> PowerCut {
        PowerCut { pairing, ..self }
    }

    /// Sets the seed of the draws.
    pub const fn seeded(self, seed: Seed) -> PowerCut {
        PowerCut { seed, ..self }
    }

    /// Makes ECC detect the tear.
    pub const fn seen_by_ecc(self) -> PowerCut {
        PowerCut { ecc_sees_torn: true, ..self }
    }

    /// Makes the torn bits differ from read to read.
    pub const fn unstable(self) -> PowerCut {
        PowerCut { unstable: true, ..self }
    }
}

/// Cells that a cut left half programmed or half erased, until their block is erased.
#[derive(Clone, Debug)]
pub(crate) struct Torn {
    pub peb: Peb,
    /// Byte offset of the first, in the block.
    pub from: u32,
    /// One past the last byte.
    pub to: u32,
    pub ecc_sees: bool,
    pub unstable: Option<Rng>,
    /// Whether no operation was under way on these cells: an interrupted one on cells that they share destroyed them.
    pub bystander: bool,
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

/// Steps of the probability in [`random_bits`].
pub(crate) const DENSITIES: u64 = 16;

/// 64 bits that are each 1 with probability `density`/[`DENSITIES`]. Built from the binary digits of the fraction, the
/// lowest first.
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
