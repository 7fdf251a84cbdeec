//! A binary BCH code in the form that Linux's `lib/bch.c` has: systematic, shortened to the step, the most significant
//! bit of each byte first, and the parity bytes after the data.

use super::field::Field;
use super::{Uncorrectable, Wrong};

/// A code that corrects up to `t` wrong bits of a step and its parity.
#[derive(Clone, Debug)]
pub(super) struct Bch {
    field: Field,
    t: usize,
    step_bytes: usize,
    /// Degree of the generator: bits of parity.
    parity_bits: usize,
    /// Bytes of parity, with bits that are not used at the end of the last one.
    parity_bytes: usize,
    /// 64-bit words of a remainder.
    words: usize,
    /// The remainder of each byte that leaves the register, word by word. Remainders begin at the topmost bit of word 0.
    table: Vec<u64>,
    /// What the stored parity is xored with, so that that of a step of 0xFF is 0xFF.
    mask: Vec<u8>,
}

impl Bch {
    /// `None` if the step does not fit into a codeword of the field.
    pub(super) fn new(field: Field, t: u32, step_bytes: u32) -> Option<Bch> {
        let (t, step_bytes) = (t as usize, step_bytes as usize);
        let m = (field.order() + 1).trailing_zeros() as usize;
        // Consecutive powers must be distinct, or the generator would be that of a shorter code.
        if t == 0 || 2 * t >= field.order() {
            return None;
        }
        let generator = generator(&field, t);
        let parity_bits = generator.len() - 1;
        let parity_bytes = (m * t).div_ceil(8);
        if 8 * step_bytes + parity_bits > field.order() {
            return None;
        }
        let words = parity_bits.div_ceil(64);
        // The generator without its leading term, from the topmost bit on.
        let mut aligned = vec![0u64; words];
        for (at, _) in generator.iter().rev().skip(1).enumerate().filter(|(_, is_set)| **is_set) {
            aligned[at / 64] |= 1 << (63 - at % 64);
        }
        let mut table = Vec::with_capacity(256 * words);
        for byte in 0..256u64 {
            let mut register = vec![0; words];
            register[0] = byte << 56;
            for _ in 0..8 {
                let is_set = register[0] >> 63 == 1;
                for at in 0..words {
                    register[at] = register[at] << 1 | register.get(at + 1).map_or(0, |next| next >> 63);
                    if is_set {
                        register[at] ^= aligned[at];
                    }
                }
            }
            table.extend_from_slice(&register);
        }
        let mut code = Bch { field, t, step_bytes, parity_bits, parity_bytes, words, table, mask: Vec::new() };
        code.mask = vec![0; parity_bytes];
        let erased = code.stored(&vec![0xff; step_bytes]);
        code.mask = erased.iter().map(|byte| !byte).collect();
        Some(code)
    }

    pub(super) fn parity_bytes(&self) -> usize {
        self.parity_bytes
    }

    /// The parity bytes of a step as they are stored.
    pub(super) fn stored(&self, step: &[u8]) -> Vec<u8> {
        let mut register = vec![0u64; self.words];
        match self.words {
            1 => {
                register[0] = step
                    .iter()
                    .fold(0, |register, byte| (register << 8) ^ self.table[usize::from((register >> 56) as u8 ^ byte)])
            }
            words => {
                for byte in step {
                    let leaving = usize::from((register[0] >> 56) as u8 ^ byte);
                    let remainder = &self.table[leaving * words..][..words];
                    for at in 0..words - 1 {
                        register[at] = (register[at] << 8 | register[at + 1] >> 56) ^ remainder[at];
                    }
                    register[words - 1] = register[words - 1] << 8 ^ remainder[words - 1];
                }
            }
        }
        let bytes = register.into_iter().flat_map(u64::to_be_bytes).chain(std::iter::repeat(0));
        bytes.zip(&self.mask).map(|(byte, mask)| byte ^ mask).collect()
    }

    /// The wrong bits of a step and its stored parity.
    /// Errors: there are more than the code corrects.
    pub(super) fn wrong(&self, step: &[u8], parity: &[u8]) -> Result<Vec<Wrong>, Uncorrectable> {
        let mut difference = self.stored(step);
        if difference == parity {
            return Ok(Vec::new());
        }
        difference.iter_mut().zip(parity).for_each(|(byte, stored)| *byte ^= stored);
        let syndromes = self.syndromes(&difference);
        if syndromes.iter().all(|&syndrome| syndrome == 0) {
            // Only bits differ that no code uses.
            return Ok(Vec::new());
        }
        let locator = self.locator(&syndromes)?;
        self.roots(&locator)
    }

    /// S_1 to S_2t: what is left of the codeword at each root of the generator, and 0 of a right one.
    fn syndromes(&self, difference: &[u8]) -> Vec<u16> {
        let set = |at: &usize| difference[at / 8] >> (7 - at % 8) & 1 == 1;
        let degrees: Vec<usize> = (0..self.parity_bits).filter(set).map(|at| self.parity_bits - 1 - at).collect();
        let at_power = |j: usize| degrees.iter().fold(0, |sum, degree| sum ^ self.field.power(degree * j));
        (1..=2 * self.t).map(at_power).collect()
    }

    /// The polynomial whose roots are the inverses of the places of the wrong bits, lowest coefficient first, by
    /// Massey's algorithm: the shortest recurrence that gives the syndromes.
    fn locator(&self, syndromes: &[u16]) -> Result<Vec<u16>, Uncorrectable> {
        let field = &self.field;
        let (mut current, mut before) = (vec![1u16], vec![1u16]);
        let (mut length, mut shift, mut last) = (0, 1, 1u16);
        for at in 0..syndromes.len() {
            let terms = current.iter().take(length + 1).enumerate();
            let discrepancy = terms.fold(0, |sum, (i, &term)| sum ^ field.product(term, syndromes[at - i]));
            if discrepancy == 0 {
                shift += 1;
                continue;
            }
            let scale = field.quotient(discrepancy, last);
            let mut next = current.clone();
            next.resize(next.len().max(before.len() + shift), 0);
            for (i, &term) in before.iter().enumerate() {
                next[i + shift] ^= field.product(scale, term);
            }
            if 2 * length <= at {
                length = at + 1 - length;
                (before, last, shift) = (current, discrepancy, 1);
            } else {
                shift += 1;
            }
            current = next;
        }
        while current.last() == Some(&0) {
            current.pop();
        }
        if length > self.t || current.len() != length + 1 { Err(Uncorrectable) } else { Ok(current) }
    }

    /// The places of the wrong bits, by trying each one (Chien's search): the terms of the polynomial at one place give
    /// those at the next by a multiplication each.
    /// Errors: the polynomial has fewer roots in the codeword than its degree.
    fn roots(&self, locator: &[u16]) -> Result<Vec<Wrong>, Uncorrectable> {
        let field = &self.field;
        let bits = 8 * self.step_bytes + self.parity_bits;
        let degree = locator.len() - 1;
        // Logarithms of the terms at α^-place, from place 0 on.
        let mut terms: Vec<(usize, usize)> = (1..)
            .zip(&locator[1..])
            .filter(|(_, coefficient)| **coefficient != 0)
            .map(|(i, &coefficient)| (field.logarithm(coefficient), field.order() - i))
            .collect();
        let mut wrong = Vec::with_capacity(degree);
        for place in 0..bits {
            let mut sum = locator[0];
            for (log, down) in &mut terms {
                sum ^= field.power(*log);
                *log += *down;
                if *log >= field.order() {
                    *log -= field.order();
                }
            }
            if sum == 0 {
                wrong.push(self.bit(bits - 1 - place));
                if wrong.len() == degree {
                    return Ok(wrong);
                }
            }
        }
        Err(Uncorrectable)
    }

    /// The bit at `index` from the front of the codeword.
    fn bit(&self, index: usize) -> Wrong {
        match index.checked_sub(8 * self.step_bytes) {
            None => Wrong::Data { byte: index / 8, bit: 7 - index as u32 % 8 },
            Some(index) => Wrong::Parity { byte: index / 8, bit: 7 - index as u32 % 8 },
        }
    }
}

/// The product of x - r over all conjugates r of α^1 to α^2t, lowest coefficient first. Its coefficients are 0 and 1.
fn generator(field: &Field, t: usize) -> Vec<bool> {
    let mut is_root = vec![false; field.order()];
    for first in (1..2 * t).step_by(2) {
        let mut root = first;
        while !is_root[root] {
            is_root[root] = true;
            root = 2 * root % field.order();
        }
    }
    let mut product = vec![1u16];
    for (root, _) in is_root.iter().enumerate().filter(|(_, is_root)| **is_root) {
        let root = field.power(root);
        let scaled: Vec<u16> = product.iter().map(|&term| field.product(term, root)).collect();
        product.insert(0, 0);
        product.iter_mut().zip(scaled).for_each(|(term, scaled)| *term ^= scaled);
    }
    product.into_iter().map(|term| term == 1).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Coefficients of a polynomial that a table prints in octal, the highest first.
    fn octal(digits: &str) -> Vec<bool> {
        let number = u128::from_str_radix(digits, 8).unwrap();
        (0..128 - number.leading_zeros()).map(|bit| number >> bit & 1 == 1).collect()
    }

    #[test]
    fn generators_are_those_of_the_published_table() {
        // Lin and Costello, Error Control Coding, appendix C: (n, k, t) and the generator in octal. The fields are those
        // of the polynomials x^4+x+1, x^5+x^2+1, x^6+x+1 and x^7+x^3+1.
        let table: [(u32, u32, usize, usize, &str); 12] = [
            (4, 0x13, 11, 1, "23"),
            (4, 0x13, 7, 2, "721"),
            (4, 0x13, 5, 3, "2467"),
            (5, 0x25, 26, 1, "45"),
            (5, 0x25, 21, 2, "3551"),
            (5, 0x25, 16, 3, "107657"),
            (5, 0x25, 11, 5, "5423325"),
            (6, 0x43, 57, 1, "103"),
            (6, 0x43, 51, 2, "12471"),
            (6, 0x43, 45, 3, "1701317"),
            (7, 0x89, 120, 1, "211"),
            (7, 0x89, 113, 2, "41567"),
        ];
        for (m, polynomial, k, t, expected) in table {
            let field = Field::new(m, polynomial);
            let found = generator(&field, t);
            assert_eq!(found, octal(expected), "degree {m}, t {t}");
            assert_eq!(field.order() - (found.len() - 1), k);
        }
    }

    /// The parity of `data` by long division, bit by bit, with bits unused left 0.
    fn long_division(code: &Bch, data: &[u8]) -> Vec<u8> {
        let generator = generator(&code.field, code.t);
        let mut bits: Vec<bool> =
            data.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1 == 1)).collect();
        let end = bits.len();
        bits.resize(end + code.parity_bits, false);
        for at in 0..end {
            if bits[at] {
                for (offset, &is_set) in generator.iter().rev().enumerate() {
                    bits[at + offset] ^= is_set;
                }
            }
        }
        let mut parity = vec![0; code.parity_bytes];
        bits[end..]
            .iter()
            .enumerate()
            .filter(|(_, is_set)| **is_set)
            .for_each(|(at, _)| parity[at / 8] |= 0x80 >> (at % 8));
        parity
    }

    fn code(m: u32, t: u32, step: u32) -> Bch {
        Bch::new(Field::linux(m).unwrap(), t, step).unwrap()
    }

    #[test]
    fn parity_is_the_remainder_of_a_long_division() {
        for (m, t, step) in
            [(13, 1, 512), (13, 4, 512), (13, 5, 512), (13, 8, 512), (14, 40, 1024), (12, 3, 256), (6, 2, 4)]
        {
            let code = code(m, t, step);
            let data: Vec<u8> = (0..step).map(|at| (at * at / 7 + t) as u8).collect();
            let erased = long_division(&code, &vec![0xff; step as usize]);
            let expected: Vec<u8> =
                long_division(&code, &data).iter().zip(erased).map(|(byte, erased)| byte ^ !erased).collect();
            assert_eq!(code.stored(&data), expected, "degree {m}, t {t}");
            assert_eq!(code.stored(&vec![0xff; step as usize]), vec![0xff; code.parity_bytes()]);
        }
    }

    #[test]
    fn a_step_fits_into_its_field() {
        assert!(Bch::new(Field::linux(12).unwrap(), 4, 512).is_none());
        assert!(Bch::new(Field::linux(13).unwrap(), 0, 512).is_none());
        assert!(Bch::new(Field::linux(5).unwrap(), 16, 1).is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
        #[test]
        fn up_to_t_wrong_bits_are_found_wherever_they_are(
            (m, t, step) in prop::sample::select(vec![(13u32, 1u32, 512u32), (13, 4, 512), (13, 8, 512), (12, 3, 256), (14, 24, 1024)]),
            seed in any::<u64>(),
            picks in prop::collection::vec(any::<prop::sample::Index>(), 0..=24),
        ) {
            let code = code(m, t, step);
            let data: Vec<u8> = (0..u64::from(step)).map(|at| (seed.wrapping_mul(2 * at + 1) >> 56) as u8).collect();
            let parity = code.stored(&data);
            let bits = 8 * step as usize + code.parity_bits;
            let places: std::collections::BTreeSet<usize> =
                picks.iter().take(t as usize).map(|pick| pick.index(bits)).collect();
            let (mut read, mut read_parity) = (data.clone(), parity.clone());
            for place in &places {
                match place.checked_sub(8 * step as usize) {
                    None => read[place / 8] ^= 0x80 >> (place % 8),
                    Some(place) => read_parity[place / 8] ^= 0x80 >> (place % 8),
                }
            }
            let wrong = code.wrong(&read, &read_parity).unwrap();
            prop_assert_eq!(wrong.len(), places.len());
            for wrong in wrong {
                match wrong {
                    Wrong::Data { byte, bit } => read[byte] ^= 1 << bit,
                    Wrong::Parity { byte, bit } => read_parity[byte] ^= 1 << bit,
                }
            }
            prop_assert!(read == data && read_parity == parity);
        }
    }

    #[test]
    fn of_a_small_code_every_pattern_is_judged_as_by_brute_force() {
        // 2 bytes under t = 2 in GF(2^5): 16 + 10 bits. Of each codeword with up to 3 wrong bits, the nearest codeword is
        // looked for among all.
        let code = code(5, 2, 2);
        assert_eq!((code.parity_bits, code.parity_bytes), (10, 2));
        let word = |data: u16| {
            u32::from(data) << 10
                | u32::from(u16::from_be_bytes(code.stored(&data.to_be_bytes()).try_into().unwrap()) >> 6)
        };
        let all: Vec<u32> = (0..=u16::MAX).map(word).collect();
        let right = word(0x5a3c);
        let mut uncorrectable = 0;
        for a in 0..26 {
            for b in 0..=a {
                for c in 0..=b {
                    // Equal places cancel out, so that patterns of one wrong bit are among them.
                    let read = right ^ 1 << a ^ 1 << b ^ 1 << c;
                    let near = all.iter().find(|&&other| (other ^ read).count_ones() <= 2);
                    let parity = ((read << 6 & 0xffc0) | (u32::from(code.mask[1]) & 0x3f)) as u16;
                    let found = code.wrong(&((read >> 10) as u16).to_be_bytes(), &parity.to_be_bytes());
                    match (near, found) {
                        (Some(near), Ok(wrong)) => {
                            let mended = wrong.iter().fold(read, |read, wrong| match *wrong {
                                Wrong::Data { byte, bit } => read ^ 1 << (10 + 8 * (1 - byte as u32) + bit),
                                Wrong::Parity { byte, bit } => read ^ 1 << (8 * (1 - byte as u32) + bit) >> 6,
                            });
                            assert_eq!(mended, *near, "bits {a}, {b}, {c}");
                        }
                        (None, Err(Uncorrectable)) => uncorrectable += 1,
                        (near, found) => panic!("bits {a}, {b}, {c}: {near:?}, {found:?}"),
                    }
                }
            }
        }
        assert!(uncorrectable > 100);
    }
}
