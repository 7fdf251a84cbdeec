//! A type for each number, so that one cannot be mistaken for another.

use std::fmt;

/// A physical eraseblock's number, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Peb(pub u32);

/// A logical eraseblock's number within its volume, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Lnum(pub u32);

/// A volume's number, as on flash. User volumes are 0 to 127.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct VolId(pub u32);

/// How often a block was erased.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct EraseCount(pub u32);

impl Peb {
    /// The number as an index into an array.
    #[inline]
    pub const fn at(self) -> usize {
        self.0 as usize
    }
}

impl Lnum {
    /// The number as an index into an array.
    #[inline]
    pub const fn at(self) -> usize {
        self.0 as usize
    }
}

macro_rules! plain_display {
    ($($unit:ident),*) => {$(
        impl fmt::Display for $unit {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}
plain_display!(Peb, Lnum, VolId, EraseCount);
