//! Fields of a few bits, packed from the lowest bit of the first byte on.

/// Reads fields one after another. Past the end it reads zeroes.
pub struct Bits<'a> {
    bytes: &'a [u8],
    at: u32,
}

impl<'a> Bits<'a> {
    /// Begins at bit `at` of `bytes`.
    pub fn new(bytes: &'a [u8], at: u32) -> Bits<'a> {
        Bits { bytes, at }
    }

    /// The next field of `width` bits, at most 32.
    pub fn take(&mut self, width: u32) -> u32 {
        debug_assert!(width <= 32);
        let first = (self.at / 8) as usize;
        let mut word = [0; 8];
        let rest = self.bytes.get(first..).unwrap_or_default();
        let len = rest.len().min(8);
        word[..len].copy_from_slice(&rest[..len]);
        let value = u64::from_le_bytes(word) >> (self.at % 8) & ((1 << width) - 1);
        self.at += width;
        #[allow(clippy::cast_possible_truncation, reason = "at most 32 bits")]
        let value = value as u32;
        value
    }
}

/// Appends fields to bytes that are zero.
pub struct PackBits<'a> {
    bytes: &'a mut [u8],
    at: u32,
}

impl<'a> PackBits<'a> {
    /// Begins at bit `at` of `bytes`.
    pub fn new(bytes: &'a mut [u8], at: u32) -> PackBits<'a> {
        PackBits { bytes, at }
    }

    /// Appends the lowest `width` bits of `value`, at most 32. Panics past the end of the bytes.
    pub fn put(&mut self, value: u32, width: u32) {
        debug_assert!(width == 32 || value >> width == 0, "{value} in {width} bits");
        let shifted = u64::from(value) << (self.at % 8);
        let first = (self.at / 8) as usize;
        let touched = (self.at % 8 + width).div_ceil(8) as usize;
        for (byte, part) in self.bytes[first..first + touched].iter_mut().zip(shifted.to_le_bytes()) {
            *byte |= part;
        }
        self.at += width;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_packed_from_the_lowest_bit_on() {
        let mut bytes = [0; 4];
        let mut pack = PackBits::new(&mut bytes, 4);
        pack.put(0b1, 1);
        pack.put(0b101_0110_0111, 11);
        pack.put(0x3ff, 10);
        // Bits 4; 5 to 15; 16 to 25.
        assert_eq!(bytes, [0b1111_0000, 0b1010_1100, 0xff, 0b11]);
        let mut bits = Bits::new(&bytes, 4);
        assert_eq!([bits.take(1), bits.take(11), bits.take(10), bits.take(32)], [1, 0b101_0110_0111, 0x3ff, 0]);
    }
}
