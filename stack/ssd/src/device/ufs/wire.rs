//! Shared by the UFS and HPB formats: the decoding error, big-endian fields, notes on fields for output, and the macro
//! that defines enumerations of one byte.
//!
//! Every offset is written once, beside its field; encoder, decoder, mask and the compile-time layout check use it.

/// Why bytes cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The bytes end inside the format.
    #[error("{format} ends after {found} bytes, expected {expected}")]
    Short {
        /// Name of the format.
        format: &'static str,
        /// Number of bytes found.
        found: usize,
        /// Number of bytes required.
        expected: usize,
    },
    /// A field has a value that is not allowed.
    #[error("{format}, byte {at}: {field} is {found:#04x}, expected {expected}")]
    Value {
        /// Name of the format.
        format: &'static str,
        /// Offset of the field in bytes from the start of the format.
        at: usize,
        /// Name of the field in the standard.
        field: &'static str,
        /// Value of the field.
        found: u64,
        /// Values that are allowed.
        expected: &'static str,
    },
}

/// Name, position and meaning of a field, for output to the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    /// Offset in bytes from the start of the format.
    pub at: usize,
    /// Size in bytes: 1, 2, 4 or 8.
    pub bytes: usize,
    /// Doc comment of the field, which starts with its name.
    pub(crate) text: &'static str,
}

impl Note {
    /// Name of the field in the standard.
    pub fn name(&self) -> &'static str {
        self.split().0
    }

    /// Meaning of the field; empty if its comment has the name only.
    pub fn meaning(&self) -> &'static str {
        self.split().1.trim_start_matches([':', ',', ' '])
    }

    /// Value of the field in the bytes of a format. Panics: they end before the field.
    pub fn value(&self, bytes: &[u8]) -> u64 {
        bytes[self.at..self.at + self.bytes].iter().fold(0, |value, &byte| value << 8 | u64::from(byte))
    }

    fn split(&self) -> (&'static str, &'static str) {
        let text = self.text.trim().trim_end_matches('.');
        text.split_at(text.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(text.len()))
    }
}

/// A number or run of bytes at an offset, big-endian.
pub(crate) trait Field: Copy {
    /// Size in bytes.
    const BYTES: usize;
    fn get(bytes: &[u8], at: usize) -> Self;
    fn put(self, bytes: &mut [u8], at: usize);
}

impl<const N: usize> Field for [u8; N] {
    const BYTES: usize = N;

    fn get(bytes: &[u8], at: usize) -> [u8; N] {
        let mut field = [0; N];
        field.copy_from_slice(&bytes[at..at + N]);
        field
    }

    fn put(self, bytes: &mut [u8], at: usize) {
        bytes[at..at + N].copy_from_slice(&self);
    }
}

macro_rules! numbers {
    ($($number:ty)+) => { $(
        impl Field for $number {
            const BYTES: usize = size_of::<$number>();

            fn get(bytes: &[u8], at: usize) -> $number {
                <$number>::from_be_bytes(Field::get(bytes, at))
            }

            fn put(self, bytes: &mut [u8], at: usize) {
                self.to_be_bytes().put(bytes, at);
            }
        }
    )+ };
}
numbers!(u8 u16 u32 u64);

/// Bytes of a format, checked to be long enough.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    pub(crate) format: &'static str,
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads the first `expected` bytes. Errors: there are fewer. Further bytes are ignored.
    pub(crate) fn new(format: &'static str, bytes: &'a [u8], expected: usize) -> Result<Reader<'a>, WireError> {
        match bytes.get(..expected) {
            Some(bytes) => Ok(Reader { format, bytes }),
            None => Err(WireError::Short { format, found: bytes.len(), expected }),
        }
    }

    pub(crate) fn get<T: Field>(&self, at: usize) -> T {
        T::get(self.bytes, at)
    }

    /// Whether any bit of `mask` is set.
    pub(crate) fn bit(&self, at: usize, mask: u8) -> bool {
        self.bytes[at] & mask != 0
    }

    pub(crate) fn refuse<T>(
        &self,
        at: usize,
        field: &'static str,
        found: u64,
        expected: &'static str,
    ) -> Result<T, WireError> {
        Err(WireError::Value { format: self.format, at, field, found, expected })
    }

    /// Errors: the field at `at` is not `value`. `expected` is that value as text for the error.
    pub(crate) fn expect<T: Field + Into<u64> + PartialEq>(
        &self,
        at: usize,
        field: &'static str,
        value: T,
        expected: &'static str,
    ) -> Result<(), WireError> {
        let found: T = self.get(at);
        if found == value { Ok(()) } else { self.refuse(at, field, found.into(), expected) }
    }

    /// Errors: a bit of `mask` is set in the byte at `at`.
    pub(crate) fn expect_clear(&self, at: usize, field: &'static str, mask: u8) -> Result<(), WireError> {
        match self.bytes[at] & mask {
            0 => Ok(()),
            found => self.refuse(at, field, found.into(), "0"),
        }
    }
}

/// Mask in which the bytes of `fields` (offset and size) are set.
pub(crate) const fn mask_of<const N: usize>(fields: &[(usize, usize)]) -> [u8; N] {
    let mut mask = [0; N];
    let mut field = 0;
    while field < fields.len() {
        let (at, bytes) = fields[field];
        let mut byte = at;
        while byte < at + bytes {
            mask[byte] = 0xff;
            byte += 1;
        }
        field += 1;
    }
    mask
}

/// `mask` with the byte at `at` replaced by `bits`.
pub(crate) const fn with_bits<const N: usize>(mut mask: [u8; N], at: usize, bits: u8) -> [u8; N] {
    mask[at] = bits;
    mask
}

/// Whether `fields` (offset and size) are in order and do not overlap, and the last one ends at `end`.
pub(crate) const fn fills(fields: &[(usize, usize)], end: usize) -> bool {
    let mut free = 0;
    let mut field = 0;
    while field < fields.len() {
        let (at, bytes) = fields[field];
        if at < free {
            return false;
        }
        free = at + bytes;
        field += 1;
    }
    free == end
}

/// Defines an enumeration of one byte; each value is written once.
macro_rules! byte_enum {
    ($(#[$doc:meta])* pub enum $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $value:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$variant_doc])* $variant = $value,)+
        }

        impl $name {
            /// All values.
            pub const ALL: &[$name] = &[$($name::$variant),+];

            /// The value with this code; `None` if the format does not define it.
            pub const fn from_byte(byte: u8) -> Option<$name> {
                match byte {
                    $($value => Some($name::$variant),)+
                    _ => None,
                }
            }

            /// Code of the value.
            pub const fn byte(self) -> u8 {
                self as u8
            }

            /// Errors: a code that the format does not define.
            #[allow(dead_code, reason = "some are read from a part of a byte, or by the host alone")]
            pub(crate) fn read(
                reader: &$crate::device::ufs::wire::Reader<'_>,
                at: usize,
                field: &'static str,
                byte: u8,
            ) -> Result<$name, $crate::device::ufs::wire::WireError> {
                match $name::from_byte(byte) {
                    Some(value) => Ok(value),
                    None => reader.refuse(at, field, byte.into(), concat!("one of", $(" ", stringify!($value)),+)),
                }
            }
        }
    };
}
pub(crate) use byte_enum;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_that_overlaps_or_ends_elsewhere_is_noticed() {
        const { assert!(fills(&[(0, 1), (1, 2), (4, 4)], 8)) };
        const { assert!(!fills(&[(0, 1), (1, 2), (2, 6)], 8)) };
        const { assert!(!fills(&[(0, 1), (4, 4)], 9)) };
        assert_eq!(with_bits(mask_of::<4>(&[(1, 2)]), 0, 0x0f), [0x0f, 0xff, 0xff, 0]);
    }

    #[test]
    fn an_error_names_format_place_found_and_expected() {
        let reader = Reader::new("READ(10)", &[0x28, 7], 2).expect("two bytes");
        let error = reader.expect(1, "CONTROL", 0u8, "0").expect_err("it is 7");
        assert_eq!(error.to_string(), "READ(10), byte 1: CONTROL is 0x07, expected 0");
        let error = Reader::new("READ(10)", &[0x28], 10).err().expect("too short");
        assert_eq!(error.to_string(), "READ(10) ends after 1 bytes, expected 10");
    }
}
