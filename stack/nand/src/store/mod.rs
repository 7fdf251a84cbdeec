//! Stores: where the contents of the cells are kept.
//!
//! A store knows bytes and blocks only: no rule of the medium, no time, no fault. The [`Array`](crate::Array) checks
//! every offset before it calls, so a store panics on one outside the device.
//!
//! | store | keeps | clone |
//! |---|---|---|
//! | [`Tags`] | nothing, and nothing is read back | free |
//! | [`Blank`] | nothing: reads are done, and find zeroes | free |
//! | [`Bytes`] | the programmed part of each block, in memory | one reference per block; blocks are copied when written |
//! | [`Sparse`] | the same, without OOB; zeroes take no memory | a copy of all |
//! | [`Mapped`] | everything, in one flat buffer supplied by the caller | none |
//! | [`Overlay`] | changed blocks in memory over a read-only image | one reference per changed block |
//! | [`AnyStore`] | as the one of [`Bytes`], [`Sparse`], [`Mapped`] and [`Blank`] that it is | none |

mod any;
mod bytes;
mod mapped;
mod overlay;
mod sparse;

pub use any::{AnyStore, Buffer};
pub use bytes::Bytes;
pub use mapped::Mapped;
pub use overlay::Overlay;
use sim::Peb;
use sim::seam::{Geometry, Payload};
pub use sparse::Sparse;

/// Keeper of the cells' contents. Implemented by this crate's stores only.
pub trait Store: sealed::Sealed {
    /// Whether what was programmed can be read back.
    const KEEPS_BYTES: bool;

    /// Prepares the store for a device of this shape. Called once, before anything else.
    fn attach(&mut self, geometry: &Geometry);

    /// Copies the cells at `offset` of `peb` into `buf`; what it holds means nothing unless [`KEEPS_BYTES`](Store::KEEPS_BYTES).
    fn read(&self, peb: Peb, offset: u32, buf: &mut [u8]);

    /// Clears the bits that `data` has clear; [`Payload::Length`] clears all.
    fn program(&mut self, peb: Peb, offset: u32, data: Payload<'_>);

    /// Sets every bit of the block and of its OOB.
    fn erase(&mut self, peb: Peb);

    /// Replaces the block's contents, without OOB; `data` is a whole block.
    fn replace(&mut self, peb: Peb, data: &[u8]);

    /// One past the block's last byte that is not 0xFF; 0 for an erased block.
    fn programmed_end(&self, peb: Peb) -> u32;

    /// Whether nothing was programmed since the block was erased, as far as that is known at once: an erased block of which it is not
    /// known has `false`.
    fn is_known_erased(&self, _: Peb) -> bool {
        false
    }

    /// Whether OOB bytes are kept.
    fn keeps_oob(&self) -> bool;

    /// Copies the first OOB bytes of a page into `buf`; 0xFF if none are kept.
    fn read_oob(&self, peb: Peb, page: u32, buf: &mut [u8]);

    /// Clears OOB bits of a page; ignored if no OOB is kept.
    fn program_oob(&mut self, peb: Peb, page: u32, data: &[u8]);

    /// Bytes of memory that the contents take, a mapped file included.
    fn held_bytes(&self) -> usize;
}

pub(crate) mod sealed {
    /// Seals [`Store`](super::Store): only this crate implements it, so its methods may change.
    pub trait Sealed {}
}

/// Keeps nothing: a read leaves the buffer as it is. For studies that count wear and never read back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tags;

/// Keeps nothing, as [`Tags`], but layers above read it as if it did, and find 0x00. For faults of a large device:
/// every read passes ECC, and no page takes memory. Only for layers that do not judge what they read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blank;

/// A store that keeps nothing, and whether layers above read it.
macro_rules! keeps_nothing {
    ($store:ident, $is_read:literal) => {
        impl sealed::Sealed for $store {}

        impl Store for $store {
            const KEEPS_BYTES: bool = $is_read;

            #[inline]
            fn attach(&mut self, _: &Geometry) {}

            #[inline]
            fn read(&self, _: Peb, _: u32, buf: &mut [u8]) {
                if $is_read {
                    buf.fill(0);
                }
            }

            #[inline]
            fn program(&mut self, _: Peb, _: u32, _: Payload<'_>) {}

            #[inline]
            fn erase(&mut self, _: Peb) {}

            #[inline]
            fn replace(&mut self, _: Peb, _: &[u8]) {}

            #[inline]
            fn programmed_end(&self, _: Peb) -> u32 {
                0
            }

            #[inline]
            fn keeps_oob(&self) -> bool {
                false
            }

            #[inline]
            fn read_oob(&self, _: Peb, _: u32, buf: &mut [u8]) {
                buf.fill(0xff);
            }

            #[inline]
            fn program_oob(&mut self, _: Peb, _: u32, _: &[u8]) {}

            #[inline]
            fn held_bytes(&self) -> usize {
                0
            }
        }
    };
}

keeps_nothing!(Tags, false);
keeps_nothing!(Blank, true);

/// One past the last byte that is not 0xFF.
pub(crate) fn end_of_data(bytes: &[u8]) -> usize {
    // Eight bytes at a time from the end: images are mostly full or mostly erased.
    let mut end = bytes.len();
    while end >= 8 && bytes[end - 8..end] == [0xff; 8] {
        end -= 8;
    }
    while end > 0 && bytes[end - 1] == 0xff {
        end -= 1;
    }
    end
}

/// Clears in `cells` what `data` has clear.
pub(crate) fn and_into(cells: &mut [u8], data: Payload<'_>) {
    match data {
        Payload::Bytes(bytes) => cells.iter_mut().zip(bytes).for_each(|(cell, byte)| *cell &= byte),
        Payload::Length(_) => cells.fill(0),
    }
}
