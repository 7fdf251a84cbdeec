//! A store with contents that is chosen at run time.

use sim::Peb;
use sim::seam::{Geometry, Payload};

use super::{Blank, Bytes, Mapped, Sparse, Store, sealed::Sealed};

/// A caller's buffer of whatever type, for example a memory-mapped file.
pub trait Buffer: AsRef<[u8]> + AsMut<[u8]> {}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Buffer for B {}

/// One of the stores that layers above read. Code that is generic over [`Store`] is compiled for it once, and then runs on
/// each of them; a choice for each operation is little beside the bytes of a page. Code that must be fast without contents
/// has [`Tags`](super::Tags).
pub enum AnyStore<'a> {
    /// In memory.
    Bytes(Bytes),
    /// In memory, without zeroes.
    Sparse(Sparse),
    /// In a buffer.
    Mapped(Mapped<&'a mut dyn Buffer>),
    /// Nowhere.
    Blank(Blank),
}

impl AnyStore<'_> {
    /// The contents in memory, if they are there.
    pub fn into_bytes(self) -> Option<Bytes> {
        match self {
            AnyStore::Bytes(bytes) => Some(bytes),
            AnyStore::Sparse(_) | AnyStore::Mapped(_) | AnyStore::Blank(_) => None,
        }
    }
}

impl From<Bytes> for AnyStore<'_> {
    fn from(bytes: Bytes) -> Self {
        AnyStore::Bytes(bytes)
    }
}

impl From<Sparse> for AnyStore<'_> {
    fn from(sparse: Sparse) -> Self {
        AnyStore::Sparse(sparse)
    }
}

impl Sealed for AnyStore<'_> {}

/// Calls the store that it is.
macro_rules! each {
    ($any:expr, $store:ident => $call:expr) => {
        match $any {
            AnyStore::Bytes($store) => $call,
            AnyStore::Sparse($store) => $call,
            AnyStore::Mapped($store) => $call,
            AnyStore::Blank($store) => $call,
        }
    };
}

impl Store for AnyStore<'_> {
    const KEEPS_BYTES: bool = true;

    fn attach(&mut self, geometry: &Geometry) {
        each!(self, store => store.attach(geometry));
    }

    #[inline]
    fn read(&self, peb: Peb, offset: u32, buf: &mut [u8]) {
        each!(self, store => store.read(peb, offset, buf));
    }

    #[inline]
    fn program(&mut self, peb: Peb, offset: u32, data: Payload<'_>) {
        each!(self, store => store.program(peb, offset, data));
    }

    #[inline]
    fn erase(&mut self, peb: Peb) {
        each!(self, store => store.erase(peb));
    }

    fn replace(&mut self, peb: Peb, data: &[u8]) {
        each!(self, store => store.replace(peb, data));
    }

    fn programmed_end(&self, peb: Peb) -> u32 {
        each!(self, store => store.programmed_end(peb))
    }

    #[inline]
    fn is_known_erased(&self, peb: Peb) -> bool {
        each!(self, store => store.is_known_erased(peb))
    }

    fn keeps_oob(&self) -> bool {
        each!(self, store => store.keeps_oob())
    }

    fn read_oob(&self, peb: Peb, page: u32, buf: &mut [u8]) {
        each!(self, store => store.read_oob(peb, page, buf));
    }

    fn program_oob(&mut self, peb: Peb, page: u32, data: &[u8]) {
        each!(self, store => store.program_oob(peb, page, data));
    }

    fn held_bytes(&self) -> usize {
        each!(self, store => store.held_bytes())
    }
}
