//! The finite field GF(2^m): sums are exclusive ors, products go through logarithms.

/// A finite field of 2^m elements. An element is a polynomial in α over GF(2), its coefficients the bits of a number.
#[derive(Clone, Debug)]
pub(super) struct Field {
    /// α^i, twice around so that a sum of two logarithms needs no reduction.
    exp: Vec<u16>,
    /// i of each α^i; that of 0 is not used.
    log: Vec<u16>,
}

/// A primitive polynomial of each degree from 5 to 15, its coefficients as bits. They choose the code: Linux's
/// `lib/bch.c` has these where the caller gives none.
const PRIMITIVE: [u32; 11] = [0x25, 0x43, 0x83, 0x11d, 0x211, 0x409, 0x805, 0x1053, 0x201b, 0x402b, 0x8003];

/// The smallest degree of [`PRIMITIVE`].
const LEAST_DEGREE: u32 = 5;

impl Field {
    /// The field that Linux takes for degree `m`; `None` outside 5 to 15.
    pub(super) fn linux(m: u32) -> Option<Field> {
        let polynomial = *PRIMITIVE.get(m.checked_sub(LEAST_DEGREE)? as usize)?;
        Some(Field::new(m, polynomial))
    }

    /// The field of a primitive polynomial of degree `m`.
    pub(super) fn new(m: u32, polynomial: u32) -> Field {
        let order = (1usize << m) - 1;
        let (mut exp, mut log) = (vec![0; 2 * order], vec![0; order + 1]);
        let mut power = 1;
        for at in 0..order {
            exp[at] = power as u16;
            exp[at + order] = power as u16;
            log[power as usize] = at as u16;
            power <<= 1;
            if power >> m != 0 {
                power ^= polynomial;
            }
        }
        Field { exp, log }
    }

    /// Number of powers of α: 2^m - 1.
    pub(super) fn order(&self) -> usize {
        self.log.len() - 1
    }

    /// α^i.
    pub(super) fn power(&self, i: usize) -> u16 {
        self.exp[i % self.order()]
    }

    pub(super) fn product(&self, a: u16, b: u16) -> u16 {
        match (a, b) {
            (0, _) | (_, 0) => 0,
            _ => self.exp[usize::from(self.log[usize::from(a)]) + usize::from(self.log[usize::from(b)])],
        }
    }

    /// a / b. `b` is not 0.
    pub(super) fn quotient(&self, a: u16, b: u16) -> u16 {
        if a == 0 {
            return 0;
        }
        self.exp[usize::from(self.log[usize::from(a)]) + self.order() - usize::from(self.log[usize::from(b)])]
    }

    /// i of `element` = α^i. `element` is not 0.
    pub(super) fn logarithm(&self, element: u16) -> usize {
        usize::from(self.log[usize::from(element)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The product of two polynomials, reduced bit by bit.
    fn long_product(m: u32, polynomial: u32, a: u16, b: u16) -> u16 {
        let mut product: u64 = 0;
        for bit in 0..m {
            if b >> bit & 1 == 1 {
                product ^= u64::from(a) << bit;
            }
        }
        for bit in (m..2 * m).rev() {
            if product >> bit & 1 == 1 {
                product ^= u64::from(polynomial) << (bit - m);
            }
        }
        product as u16
    }

    #[test]
    fn products_and_quotients_are_those_of_polynomials() {
        for (m, polynomial) in (LEAST_DEGREE..).zip(PRIMITIVE).chain([(4, 0x13)]) {
            let field = Field::new(m, polynomial);
            assert_eq!(field.order(), (1 << m) - 1);
            // α is primitive: its powers are all elements but 0.
            let mut seen: Vec<u16> = (0..field.order()).map(|i| field.power(i)).collect();
            seen.sort_unstable();
            assert!(seen.iter().copied().eq(1..=field.order() as u16), "degree {m}");
            let stride = (field.order() / 90).max(1);
            for a in (0..=field.order()).step_by(stride) {
                for b in (0..=field.order()).step_by(stride) {
                    let (a, b) = (a as u16, b as u16);
                    let product = long_product(m, polynomial, a, b);
                    assert_eq!(field.product(a, b), product, "degree {m}: {a} times {b}");
                    if b != 0 {
                        assert_eq!(field.quotient(product, b), a, "degree {m}: {product} by {b}");
                    }
                }
            }
        }
        assert!(Field::linux(4).is_none() && Field::linux(16).is_none());
        assert_eq!(Field::linux(13).unwrap().order(), 8191);
    }
}
