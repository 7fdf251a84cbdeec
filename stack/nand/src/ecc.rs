//! Strength of the error-correcting code: how many wrong bits of a codeword it corrects. The code is not computed:
//! flips are counted, and the stored data is returned while they are few enough.

use sim::seam::Geometry;

use crate::config::ConfigError;

/// A code of `bits` per `step_bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ecc {
    /// Wrong bits that can be corrected in one codeword.
    pub bits: u32,
    /// Data bytes of a codeword.
    pub step_bytes: u32,
    /// Corrected bits in one codeword at which a read asks for scrubbing.
    pub scrub_at: u32,
}

impl Ecc {
    /// A code with Linux's threshold for scrubbing, three quarters of the strength rounded up.
    /// Source: Linux `nand_base.c`, default of `mtd->bitflip_threshold`.
    pub const fn new(bits: u32, step_bytes: u32) -> Ecc {
        Ecc { bits, step_bytes, scrub_at: (3 * bits).div_ceil(4) }
    }

    /// Parity bytes of a BCH code of this strength: `bits` times the field's degree, rounded up to bytes.
    pub const fn parity_bytes(&self) -> u32 {
        // A binary BCH code over GF(2^m) needs m parity bits per corrected bit, with 2^m - 1 >= data + parity bits.
        let mut degree = 1;
        while (1u64 << degree) - 1 < 8 * self.step_bytes as u64 + (self.bits * degree) as u64 {
            degree += 1;
        }
        (self.bits * degree).div_ceil(8)
    }

    /// Bits of a codeword: data and parity.
    pub const fn codeword_bits(&self) -> u32 {
        8 * (self.step_bytes + self.parity_bytes())
    }

    pub(crate) fn validate(&self, geometry: &Geometry) -> Result<(), ConfigError> {
        let wrong = |field, found: u32, expected| Err(ConfigError { field, found: found.into(), expected });
        if self.bits == 0 || self.bits > 1024 {
            return wrong("ecc.bits", self.bits, "1 to 1024; leave ecc out for no code");
        }
        if self.step_bytes == 0 || !geometry.page_bytes.is_multiple_of(self.step_bytes) {
            return wrong("ecc.step_bytes", self.step_bytes, "a divisor of the page");
        }
        if self.scrub_at == 0 || self.scrub_at > self.bits {
            return wrong("ecc.scrub_at", self.scrub_at, "1 up to ecc.bits");
        }
        Ok(())
    }
}
