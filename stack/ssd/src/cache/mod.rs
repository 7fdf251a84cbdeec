//! The write buffer of a drive: which pages it holds, and which it evicts first.
//!
//! Knows: logical page numbers, slots, an order. Does not know: time, contents, flash. The caller keeps the contents in
//! an array of its own by slot number, and with them a mask of the valid sectors of each page. All memory is allocated
//! at construction.
//!
//! A slot is free, dirty, or being written out. If a page is written again while its old contents are being written
//! out, it gets another slot: reads find the newest, and a flush is complete when every slot that was dirty or being
//! written out when it began has been [released](WriteBuffer::release).
//!
//! Invariants ([`WriteBuffer::check`]): the index maps each page to its newest slot and has no other entry; a page has
//! one dirty slot at most (several under [`Policy::None`]); every slot is in one list.

mod buffer;
pub(crate) mod index;
pub(crate) mod ring;

pub use buffer::{BufferConfig, BufferCounts, Evicted, Inserted, Policy, WriteBuffer};
