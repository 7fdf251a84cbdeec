//! What is programmed or read, as a length whose bytes exist only where somebody keeps them.
//!
//! A layer says what its bytes would be, in a closure, and how many; whether they are built is asked here and nowhere
//! else. In code compiled for a flash that keeps no bytes the closures are never called and nothing is allocated.

/// What is programmed, or what was read: bytes, or only so many of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// This many bytes that nobody will read back. A store that keeps bytes programs zeroes.
    Length(u32),
}

impl<'a> Payload<'a> {
    /// Its length in bytes.
    #[inline]
    pub fn len(&self) -> u32 {
        match self {
            Payload::Bytes(bytes) => bytes.len() as u32,
            Payload::Length(length) => *length,
        }
    }

    /// Whether nothing is programmed.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, if there are any: whatever depends on contents asks here. `None` of a mere length.
    #[inline]
    pub fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Payload::Bytes(bytes) => Some(bytes),
            Payload::Length(_) => None,
        }
    }

    /// A part of it, `length` bytes from `offset`, both in bytes. Panics on bytes it does not have.
    #[inline]
    pub fn part(self, offset: u32, length: u32) -> Payload<'a> {
        match self {
            Payload::Bytes(bytes) => Payload::Bytes(&bytes[offset as usize..][..length as usize]),
            Payload::Length(whole) => {
                assert!(offset <= whole && length <= whole - offset, "{length} bytes at {offset} of {whole}");
                Payload::Length(length)
            }
        }
    }
}

/// A payload of `length` bytes. Where they are `kept`, `buffer` is made that long, all zero, and `build` fills it.
#[inline(always)]
pub(super) fn offer(kept: bool, buffer: &mut Vec<u8>, length: u32, build: impl FnOnce(&mut [u8])) -> Payload<'_> {
    if !kept {
        return Payload::Length(length);
    }
    buffer.clear();
    buffer.resize(length as usize, 0);
    build(buffer);
    Payload::Bytes(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_as_long_with_bytes_as_without() {
        let bytes = [1, 2, 3, 4];
        for payload in [Payload::Bytes(&bytes), Payload::Length(4)] {
            assert_eq!((payload.part(1, 2).len(), payload.part(4, 0).len()), (2, 0));
        }
        assert_eq!(Payload::Bytes(&bytes).part(1, 2), Payload::Bytes(&[2, 3]));
        assert_eq!(Payload::Length(4).part(1, 2).bytes(), None);
        assert_eq!(Payload::Bytes(&bytes).part(1, 2).bytes(), Some(&[2, 3][..]));
    }

    #[test]
    fn nothing_is_empty_and_a_byte_is_not() {
        assert!(Payload::Bytes(&[]).is_empty() && Payload::Length(0).is_empty());
        assert!(!Payload::Bytes(&[0xff]).is_empty() && !Payload::Length(1).is_empty());
    }

    #[test]
    #[should_panic(expected = "3 bytes at 2 of 4")]
    fn a_part_beyond_the_end_is_refused_without_bytes_too() {
        Payload::Length(4).part(2, 3);
    }

    #[test]
    fn bytes_are_built_where_they_are_kept_and_nowhere_else() {
        let mut buffer = vec![0xee; 9];
        let built = offer(true, &mut buffer, 4, |bytes| bytes[1] = 7);
        assert_eq!(built, Payload::Bytes(&[0, 7, 0, 0]));

        let mut buffer = Vec::new();
        let built = offer(false, &mut buffer, 4, |_| unreachable!("nobody keeps them"));
        assert_eq!(built, Payload::Length(4));
        assert_eq!(buffer.capacity(), 0);
    }
}
