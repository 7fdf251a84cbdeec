//! Linux's software Hamming code: three bytes for each 256, of which one wrong bit is corrected and two are detected.
//!
//! Each bit of a step has an address of eleven bits: that of its byte, and its place in it. For each bit of the address
//! there are two parities: of the data bits where it is 1, and of those where it is 0. A wrong bit changes one of each
//! pair, and which ones says where it is.

use super::{Uncorrectable, Wrong};

/// Data bytes of a step.
pub(super) const STEP_BYTES: usize = 256;
/// Parity bytes of a step.
pub(super) const PARITY_BYTES: usize = 3;

/// The parity bytes of a step as they are stored: those of the byte's upper and lower four address bits, and those of
/// the bit's three above two bits of 1. All are inverted, so that those of a step of 0xFF are 0xFF.
pub(super) fn stored(step: &[u8]) -> [u8; PARITY_BYTES] {
    let (mut bytes, mut columns) = (0u8, 0u8);
    for (at, byte) in step.iter().enumerate() {
        columns ^= byte;
        if byte.count_ones() % 2 == 1 {
            bytes ^= at as u8;
        }
    }
    let is_odd = |byte: u8| u8::from(byte.count_ones() % 2 == 1);
    let places = is_odd(columns & 0xf0) << 2 | is_odd(columns & 0xcc) << 1 | is_odd(columns & 0xaa);
    let whole = if is_odd(columns) == 1 { 0xff } else { 0 };
    // Of each pair, the parity where the address bit is 1 stands above that where it is 0.
    let pairs = |ones: u8| spread(ones) << 1 | spread(ones ^ whole & 0xf);
    [!pairs(bytes >> 4), !pairs(bytes & 0xf), !(pairs(places) << 2)]
}

/// The wrong bit of a step and its stored parity, if there is one.
/// Errors: two or more are wrong.
pub(super) fn wrong(step: &[u8], parity: &[u8; PARITY_BYTES]) -> Result<Option<Wrong>, Uncorrectable> {
    let right = stored(step);
    let [upper, lower, places] = [0, 1, 2].map(|at| right[at] ^ parity[at]);
    if [upper, lower, places] == [0; PARITY_BYTES] {
        return Ok(None);
    }
    if let (Some(upper), Some(lower), Some(bit)) = (address(upper, 4), address(lower, 4), address(places >> 2, 3)) {
        return Ok(Some(Wrong::Data { byte: usize::from(upper << 4 | lower), bit: bit.into() }));
    }
    let changed = [upper, lower, places].into_iter().enumerate();
    let mut bits =
        changed.flat_map(|(byte, bits)| (0..8).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| (byte, bit)));
    match (bits.next(), bits.next()) {
        (Some((byte, bit)), None) => Ok(Some(Wrong::Parity { byte, bit })),
        _ => Err(Uncorrectable),
    }
}

/// Puts four bits into the even bits of a byte.
fn spread(bits: u8) -> u8 {
    (0..4).fold(0, |spread, bit| spread | (bits >> bit & 1) << (2 * bit))
}

/// The address whose pairs of parities changed; `None` unless exactly one of each of `bits` pairs did.
fn address(changed: u8, bits: u32) -> Option<u8> {
    let mut address = 0;
    for bit in 0..bits {
        match changed >> (2 * bit) & 3 {
            0b01 => {}
            0b10 => address |= 1 << bit,
            _ => return None,
        }
    }
    Some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each parity by its definition: bit `k` of the address of a bit is `value`.
    fn by_definition(step: &[u8]) -> [u8; 3] {
        let parity = |k: u32, value: usize| {
            let bits = (0..8 * step.len()).filter(|place| place >> k & 1 == value);
            bits.filter(|place| step[place / 8] >> (place % 8) & 1 == 1).count() as u8 & 1
        };
        let pair = |k: u32| parity(k, 1) << 1 | parity(k, 0);
        // The address of a bit: byte above place in it.
        let byte = |first: u32| (0..4).fold(0, |all, k| all | pair(first + k) << (2 * k));
        [!byte(7), !byte(3), !(pair(2) << 6 | pair(1) << 4 | pair(0) << 2)]
    }

    fn data(seed: u32) -> Vec<u8> {
        (0..256u32).map(|at| (at.wrapping_mul(seed).wrapping_mul(2_654_435_761) >> 24) as u8).collect()
    }

    #[test]
    fn parities_are_those_of_the_definition() {
        for seed in 0..50 {
            assert_eq!(stored(&data(seed)), by_definition(&data(seed)));
        }
        assert_eq!(stored(&[0xff; 256]), [0xff; 3]);
        assert_eq!(stored(&[0; 256]), [0xff; 3]);
    }

    #[test]
    fn each_single_bit_is_found_and_each_pair_is_detected() {
        let right = data(77);
        let parity = stored(&right);
        assert_eq!(wrong(&right, &parity), Ok(None));
        // Data bits, then the 22 bits of parity that mean something.
        let places: Vec<usize> = (0..2048).chain(2048..2064).chain(2066..2072).collect();
        let flip = |bytes: &mut [u8], place: usize| bytes[place / 8] ^= 1 << (place % 8);
        let read = |flipped: &[usize]| {
            let mut bytes = [&right[..], &parity].concat();
            flipped.iter().for_each(|&place| flip(&mut bytes, place));
            wrong(&bytes[..256], bytes[256..].first_chunk().unwrap())
        };
        for &place in &places {
            let (byte, bit) = (place / 8, place as u32 % 8);
            let expected = if byte < 256 { Wrong::Data { byte, bit } } else { Wrong::Parity { byte: byte - 256, bit } };
            assert_eq!(read(&[place]), Ok(Some(expected)));
        }
        for (at, &first) in places.iter().enumerate() {
            for &second in places[at + 1..].iter().step_by(if first < 2048 { 97 } else { 1 }) {
                assert_eq!(read(&[first, second]), Err(Uncorrectable), "bits {first} and {second}");
            }
        }
    }
}
