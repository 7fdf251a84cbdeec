//! The random numbers of fsstress: xfstests links it with a generator of its own (C. Wallace, 1994), so that one seed is
//! one sequence everywhere. A shift register picks one of 128 multipliers for a congruential generator.

/// Powers of 69,069 modulo 2^32: the 128th first, the first last.
const MULTIPLIERS: [u32; 128] = {
    let mut powers = [0; 128];
    let (mut power, mut at) = (1_u32, 128);
    while at > 0 {
        at -= 1;
        power = power.wrapping_mul(69_069);
        powers[at] = power;
    }
    powers
};
/// Feedback of the shift register.
const FEEDBACK: u32 = 593_970_775;

/// The generator.
#[derive(Clone, Debug)]
pub(super) struct Random {
    register: u32,
    sum: u32,
}

impl Random {
    pub(super) fn new(seed: u32) -> Random {
        let mut random = Random { register: seed, sum: 0 };
        random.draw();
        random
    }

    /// 31 bits.
    #[inline]
    pub(super) fn draw(&mut self) -> u64 {
        let fed_back = self.register.cast_signed() <= 0;
        self.register = (self.register << 1) ^ if fed_back { FEEDBACK } else { 0 };
        let count = self.register.wrapping_sub(1);
        self.sum = self.sum.wrapping_mul(MULTIPLIERS[(count & 127) as usize]).wrapping_add(count);
        u64::from(if self.sum.cast_signed() < 0 { !self.sum } else { self.sum })
    }

    /// In `0..bound`.
    #[inline]
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound
    }

    /// 62 bits, of two draws with a zero bit between them.
    #[inline]
    pub(super) fn wide(&mut self) -> u64 {
        let upper = self.draw();
        (upper << 32) + self.draw()
    }

    /// One bit: a draw is odd.
    #[inline]
    pub(super) fn odd(&mut self) -> bool {
        self.draw() % 2 == 1
    }
}
