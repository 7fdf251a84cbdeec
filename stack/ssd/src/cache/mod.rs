//! The write buffer of a drive: which pages it holds, and which it gives up first.
//!
//! Knows: logical page numbers, slots, an order. Does not know: time, contents, flash. Contents are the caller's, in an
//! array of its own by slot number, and so is a mask of the sectors of a page that are there. All memory is taken at
//! construction.
//!
//! A slot is free, dirty, or being written out. A page that is written again while its old contents are on their way
//! out gets another slot: reads see the newest, and a flush is over when every slot that was dirty or under way when it
//! began has been [released](WriteBuffer::release).
//!
//! Invariants ([`WriteBuffer::check`]): the index names the newest slot of each page and nothing else; a page has one
//! dirty slot at most (several under [`Policy::None`]); every slot is in one list.

mod buffer;
pub(crate) mod index;
pub(crate) mod ring;

pub use buffer::{BufferConfig, BufferCounts, Evicted, Inserted, Policy, WriteBuffer};
