//! Error-correcting codes whose bytes are in the OOB of each page, as Linux's software ECC and its simulator `nandsim`
//! keep them.
//!
//! This is for dumps that were read without correction. The array of this crate computes no code: it counts wrong bits
//! ([`Ecc`](crate::Ecc)). A page is divided into steps, each with its own code bytes. Linux places these by the size of
//! the OOB: `drivers/mtd/nand/ecc.c` has the layouts, `ecc-sw-hamming.c` and `ecc-sw-bch.c` choose one.
//!
//! An erased step with its code bytes, all 0xFF, is a codeword of both codes: so wrong bits of erased pages are corrected
//! as others are. The bound of Linux's `nand_check_erased_ecc_chunk`, which drivers use whose codes lack this property,
//! is the same: as many as the code corrects, those in the code bytes included.

mod bch;
mod field;
mod hamming;

use std::fmt;
use std::str::FromStr;

use self::bch::Bch;
use self::field::Field;

/// A code and its strength.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// One wrong bit of 256 bytes is corrected and two are detected.
    Hamming,
    /// Up to `bits` wrong bits of `step_bytes` and their code bytes are corrected.
    Bch {
        /// Wrong bits corrected.
        bits: u32,
        /// Data bytes of a step.
        step_bytes: u32,
    },
}

/// Why a code does not fit a page. `Display` says what was found and what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("found {found}, expected {expected}")]
pub struct CodeError {
    found: String,
    expected: &'static str,
}

/// More bits of a step are wrong than its code corrects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more wrong bits than the code corrects")]
pub struct Uncorrectable;

/// A wrong bit of a step: the lowest bit of a byte is bit 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Data { byte: usize, bit: u32 },
    Parity { byte: usize, bit: u32 },
}

/// The code of a page and where its bytes are.
#[derive(Clone, Debug)]
pub struct PageEcc {
    code: Code,
    page_bytes: usize,
    oob_bytes: usize,
    step_bytes: usize,
    /// `None` for Hamming.
    bch: Option<Bch>,
    /// Place in the OOB of each code byte, those of the first step first.
    places: Vec<usize>,
}

impl Code {
    /// Nandsim's `bch=4`.
    pub const DEFAULT_BCH: Code = Code::Bch { bits: 4, step_bytes: 512 };
    /// Most bytes of a step, of any code.
    pub const MAX_STEP_BYTES: u32 = 2048;

    /// Name of the code.
    pub const fn name(self) -> &'static str {
        match self {
            Code::Hamming => "hamming",
            Code::Bch { .. } => "bch",
        }
    }

    /// Wrong bits that are corrected in a step.
    pub const fn bits(self) -> u32 {
        match self {
            Code::Hamming => 1,
            Code::Bch { bits, .. } => bits,
        }
    }

    /// Data bytes of a step.
    pub const fn step_bytes(self) -> u32 {
        match self {
            Code::Hamming => hamming::STEP_BYTES as u32,
            Code::Bch { step_bytes, .. } => step_bytes,
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Code::Hamming => f.write_str("hamming"),
            Code::Bch { bits, step_bytes } => write!(f, "bch:{bits}/{step_bytes}"),
        }
    }
}

impl FromStr for Code {
    type Err = CodeError;

    /// Reads `hamming`, `bch`, `bch:BITS` or `bch:BITS/STEP`, with the step in bytes.
    fn from_str(text: &str) -> Result<Code, CodeError> {
        let wrong = |expected| CodeError { found: format!("{text:?}"), expected };
        match text.split_once(':').unwrap_or((text, "")) {
            ("hamming", "") if !text.ends_with(':') => Ok(Code::Hamming),
            ("bch", "") if !text.ends_with(':') => Ok(Code::DEFAULT_BCH),
            ("bch", strength) => {
                let (bits, step) = strength.split_once('/').unwrap_or((strength, "512"));
                match (bits.parse(), step.parse()) {
                    (Ok(bits @ 1..), Ok(step_bytes @ (256 | 512 | 1024 | 2048))) => Ok(Code::Bch { bits, step_bytes }),
                    _ => Err(wrong("bch:BITS or bch:BITS/STEP, steps of 256, 512, 1024 or 2048 bytes")),
                }
            }
            _ => Err(wrong("hamming, bch, bch:BITS or bch:BITS/STEP")),
        }
    }
}

impl PageEcc {
    /// The code on pages of `page_bytes` with `oob_bytes` of OOB each.
    /// Errors: Linux has no layout of this code for such pages.
    pub fn new(code: Code, page_bytes: u32, oob_bytes: u32) -> Result<PageEcc, CodeError> {
        let refuse = |expected| {
            let found = format!("{code} on pages of {page_bytes} bytes with OOB of {oob_bytes}");
            Err(CodeError { found, expected })
        };
        let step_bytes = code.step_bytes();
        if page_bytes == 0 || !page_bytes.is_multiple_of(step_bytes) {
            return refuse("pages of whole steps");
        }
        let steps = (page_bytes / step_bytes) as usize;
        let oob = oob_bytes as usize;
        let (bch, total, first) = match code {
            Code::Hamming => {
                let total = steps * hamming::PARITY_BYTES;
                let first = match oob {
                    8 | 16 => 0,
                    64 => 40,
                    128 => 80,
                    _ => return refuse("OOB of 8, 16, 64 or 128 bytes, for which Linux has a layout"),
                };
                (None, total, first)
            }
            Code::Bch { bits, .. } => {
                if oob < 64 {
                    return refuse("OOB of 64 bytes or more");
                }
                // Checked before the code is computed, which takes time that grows with its strength.
                let degree = (8 * step_bytes + 1).ilog2() + 1;
                let bytes = (u64::from(bits) * u64::from(degree)).div_ceil(8);
                if bytes * steps as u64 + 2 > oob as u64 {
                    return refuse("code bytes that leave two bytes of the OOB to the bad-block mark");
                }
                let bch = Field::linux(degree).and_then(|field| Bch::new(field, bits, step_bytes));
                let Some(bch) = bch else { return refuse("a step that fits into a codeword") };
                let total = steps * bch.parity_bytes();
                (Some(bch), total, oob - total)
            }
        };
        // The mark of a bad block is at byte 5 of small pages, between the code bytes.
        let places: Vec<usize> = match oob {
            16 => (0..4).chain(6..).take(total).collect(),
            _ => (first..).take(total).collect(),
        };
        if places.last().is_none_or(|&last| last >= oob) {
            return refuse("code bytes that fit into the OOB");
        }
        let (page_bytes, step_bytes) = (page_bytes as usize, step_bytes as usize);
        Ok(PageEcc { code, page_bytes, oob_bytes: oob, step_bytes, bch, places })
    }

    /// The code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// Bytes of a page and its OOB.
    pub fn raw_bytes(&self) -> usize {
        self.page_bytes + self.oob_bytes
    }

    /// Bytes of a page without OOB.
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Steps of a page.
    pub fn steps(&self) -> usize {
        self.page_bytes / self.step_bytes
    }

    /// Finds the wrong bits of a step and appends them to `into`: numbers from bit 0 of byte 0 of the page on, through its
    /// OOB. Panics unless `raw` is a page and its OOB.
    /// Errors: there are more than the code corrects, as far as it can tell; nothing is appended.
    pub fn wrong_bits(&self, raw: &[u8], step: usize, into: &mut Vec<u64>) -> Result<(), Uncorrectable> {
        assert_eq!(raw.len(), self.raw_bytes(), "a page and its OOB");
        let data = &raw[step * self.step_bytes..][..self.step_bytes];
        let places = self.places_of(step);
        let parity: Vec<u8> = places.iter().map(|&at| raw[self.page_bytes + at]).collect();
        let bit = |wrong: &Wrong| match *wrong {
            Wrong::Data { byte, bit } => 8 * (step * self.step_bytes + byte) as u64 + u64::from(bit),
            Wrong::Parity { byte, bit } => 8 * (self.page_bytes + places[byte]) as u64 + u64::from(bit),
        };
        match (&self.bch, parity.first_chunk()) {
            (Some(bch), _) => into.extend(bch.wrong(data, &parity)?.iter().map(bit)),
            (None, Some(parity)) => into.extend(hamming::wrong(data, parity)?.iter().map(bit)),
            (None, None) => unreachable!("Hamming has three bytes a step"),
        }
        Ok(())
    }

    /// Computes the code bytes of a page and puts them into its OOB. Panics unless `raw` is a page and its OOB.
    pub fn encode(&self, raw: &mut [u8]) {
        assert_eq!(raw.len(), self.raw_bytes(), "a page and its OOB");
        let (page, oob) = raw.split_at_mut(self.page_bytes);
        for (step, data) in page.chunks_exact(self.step_bytes).enumerate() {
            let parity = match &self.bch {
                Some(bch) => bch.stored(data),
                None => hamming::stored(data).to_vec(),
            };
            self.places_of(step).iter().zip(parity).for_each(|(&at, byte)| oob[at] = byte);
        }
    }

    fn places_of(&self, step: usize) -> &[usize] {
        let bytes = self.places.len() / self.steps();
        &self.places[step * bytes..][..bytes]
    }
}
