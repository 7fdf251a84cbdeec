//! Where the PEBs are in a dump, and removing the OOB.

use std::borrow::Cow;

use sim::Peb;

use super::bad::KnownBad;
use super::devices::FoundDevice;

/// Bytes of a dump that are not in memory: those of a file, read piece by piece.
///
/// A read gives no error here. An input that cannot read a piece gives 0xFF for it and remembers why; its owner asks
/// before it believes a result.
pub trait Input: std::fmt::Debug {
    /// Number of bytes.
    fn bytes(&self) -> u64;

    /// Appends the `length` bytes from `at` on to `into`. Only bytes that exist are asked for.
    fn read(&self, at: u64, length: usize, into: &mut Vec<u8>);
}

/// Where the bytes of a dump are.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bytes<'a> {
    Memory(&'a [u8]),
    Input(&'a dyn Input),
}

impl<'a> Bytes<'a> {
    pub(super) fn len(self) -> u64 {
        match self {
            Bytes::Memory(bytes) => bytes.len() as u64,
            Bytes::Input(input) => input.bytes(),
        }
    }

    /// The `length` bytes from `at` on, fewer where the dump ends.
    pub(super) fn get(self, at: u64, length: u64) -> Cow<'a, [u8]> {
        let at = at.min(self.len());
        let length = length.min(self.len() - at) as usize;
        match self {
            Bytes::Memory(bytes) => Cow::Borrowed(&bytes[at as usize..][..length]),
            Bytes::Input(input) => {
                let mut bytes = Vec::with_capacity(length);
                input.read(at, length, &mut bytes);
                bytes.resize(length, 0xff);
                Cow::Owned(bytes)
            }
        }
    }
}

/// Layout of out-of-band bytes in a raw dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oob {
    /// Bytes of a page, without OOB.
    pub page_bytes: u32,
    /// Bytes of OOB after each page.
    pub oob_bytes: u32,
}

/// Geometry of a dump, as guessed or given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes before the first PEB, for example the header of another format.
    pub start: u64,
    /// Bytes of a PEB, without OOB.
    pub peb_bytes: u32,
    /// OOB after each page; `None` if the dump has none.
    pub oob: Option<Oob>,
    /// Complete PEBs.
    pub pebs: u32,
    /// Bytes of a truncated last PEB, OOB included; 0 if it is complete.
    pub partial_bytes: u32,
    /// PEBs that begin with a valid EC header.
    pub ec_headers: u32,
    /// PEBs of these that agree on the two offsets below.
    pub agreeing: u32,
    /// Offset of VID headers in bytes, by majority of the EC headers.
    pub vid_hdr_offset: u32,
    /// Offset of data in bytes, by majority of the EC headers.
    pub data_offset: u32,
    /// Smallest write unit in bytes, inferred from the offsets: no header has it.
    pub min_io_bytes: u32,
    /// How it was inferred, and what else is possible.
    pub min_io_why: &'static str,
    /// Whether the PEB size was given rather than guessed.
    pub peb_bytes_given: bool,
}

impl Geometry {
    /// Bytes of a LEB.
    pub const fn leb_bytes(&self) -> u32 {
        self.peb_bytes - self.data_offset
    }

    /// Bytes of a PEB in the dump, OOB included.
    pub const fn raw_peb_bytes(&self) -> u32 {
        raw_peb_bytes(self.peb_bytes, self.oob)
    }

    /// Bytes of a truncated last PEB, without OOB.
    pub const fn partial_data_bytes(&self) -> u32 {
        match self.oob {
            None => self.partial_bytes,
            Some(Oob { page_bytes, oob_bytes }) => {
                let (pages, rest) =
                    (self.partial_bytes / (page_bytes + oob_bytes), self.partial_bytes % (page_bytes + oob_bytes));
                pages * page_bytes + if rest < page_bytes { rest } else { page_bytes }
            }
        }
    }

    /// Bytes missing from the last PEB; 0 if it is complete.
    pub const fn missing_bytes(&self) -> u32 {
        if self.partial_bytes == 0 { 0 } else { self.raw_peb_bytes() - self.partial_bytes }
    }
}

pub(super) const fn raw_peb_bytes(peb_bytes: u32, oob: Option<Oob>) -> u32 {
    match oob {
        Some(Oob { page_bytes, oob_bytes }) => peb_bytes / page_bytes * (page_bytes + oob_bytes),
        None => peb_bytes,
    }
}

/// The bytes of a dump and their geometry.
#[derive(Clone, Debug)]
pub struct Dump<'a> {
    pub(super) bytes: Bytes<'a>,
    pub(super) geometry: Geometry,
    /// The device that was asked for, if one was: PEBs of others are [foreign](super::PebState::Foreign).
    pub(super) image_seq: Option<u32>,
    /// Devices whose headers are at other distances.
    pub(super) off_grid: Vec<FoundDevice>,
    pub(super) bad: KnownBad,
}

impl<'a> Dump<'a> {
    /// Geometry of the dump.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Bytes of the whole dump.
    pub fn len(&self) -> u64 {
        self.bytes.len()
    }

    /// Whether the dump has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The device that was asked for, if one was.
    pub fn image_seq(&self) -> Option<u32> {
        self.image_seq
    }

    /// What is known of bad blocks beside what the dump shows.
    pub fn known_bad(&self) -> &KnownBad {
        &self.bad
    }

    /// The PEB's bytes without OOB; borrowed if the dump is in memory and has none. Panics if `peb` is not a complete
    /// PEB of the dump.
    pub fn peb(&self, peb: Peb) -> Cow<'a, [u8]> {
        self.read(peb, 0, self.geometry.peb_bytes)
    }

    /// Some bytes of a PEB, without OOB; fewer where the PEB ends. Panics if `peb` is not a complete PEB of the dump.
    pub fn read(&self, peb: Peb, offset: u32, length: u32) -> Cow<'a, [u8]> {
        let to = offset.saturating_add(length).min(self.geometry.peb_bytes);
        let from = offset.min(to);
        let Some(at) = self.start_of(peb) else { return Cow::Owned(vec![0xff; (to - from) as usize]) };
        let Some(Oob { page_bytes, oob_bytes }) = self.geometry.oob else {
            return self.bytes.get(at + u64::from(from), u64::from(to - from));
        };
        let (page, whole) = (page_bytes as usize, (page_bytes + oob_bytes) as usize);
        let raw_at = |offset: u32| u64::from(offset / page_bytes) * whole as u64 + u64::from(offset % page_bytes);
        let raw = match from == to {
            true => Cow::Borrowed(&[][..]),
            false => self.bytes.get(at + raw_at(from), raw_at(to - 1) + 1 - raw_at(from)),
        };
        let first = (page - from as usize % page).min(raw.len());
        let mut bytes = Vec::with_capacity((to - from) as usize);
        bytes.extend_from_slice(&raw[..first]);
        let rest = raw.get(first + oob_bytes as usize..).unwrap_or_default();
        for page_and_oob in rest.chunks(whole) {
            bytes.extend_from_slice(&page_and_oob[..page_and_oob.len().min(page)]);
        }
        Cow::Owned(bytes)
    }

    /// Offset in the dump of a byte of a PEB; the end of the dump if that byte is cut off. Of a PEB that the dump leaves
    /// out, the place where it would be.
    pub fn file_offset(&self, peb: Peb, offset: u32) -> u64 {
        let offset = match self.geometry.oob {
            _ if self.bad.is_left_out(peb) => 0,
            Some(Oob { page_bytes, oob_bytes }) => offset + offset / page_bytes * oob_bytes,
            None => offset,
        };
        let slot = u64::from(peb.0) - self.bad.left_out_before(peb);
        let at = self.geometry.start + slot * u64::from(self.geometry.raw_peb_bytes()) + u64::from(offset);
        at.min(self.len())
    }

    /// The PEB whose bytes are at `at` of the dump, and the byte in it, OOB included. `None` before and behind the PEBs.
    pub fn peb_at(&self, at: u64) -> Option<(Peb, u32)> {
        let raw = u64::from(self.geometry.raw_peb_bytes());
        let at = at.checked_sub(self.geometry.start)?;
        let slot = at / raw;
        let is_here =
            |peb: &Peb| !self.bad.is_left_out(*peb) && u64::from(peb.0) - self.bad.left_out_before(*peb) == slot;
        let first = u32::try_from(slot).ok()?;
        let peb = (first..self.geometry.pebs).map(Peb).find(is_here)?;
        Some((peb, (at % raw) as u32))
    }

    /// The first bad-block marker of `peb` that is not 0xFF: page and byte. It is read from the OOB of the first two
    /// pages, at byte 5 for pages of 512 bytes and at byte 0 for larger ones; `None` without OOB.
    pub fn bad_marker(&self, peb: Peb) -> Option<(u32, u8)> {
        let Oob { page_bytes, oob_bytes } = self.geometry.oob?;
        let start = self.start_of(peb)?;
        let marker_at = if page_bytes <= 512 { 5 } else { 0 };
        (0..2)
            .filter(|page| marker_at < oob_bytes && (page + 1) * page_bytes <= self.geometry.peb_bytes)
            .filter_map(|page: u32| {
                let at = page * (page_bytes + oob_bytes) + page_bytes + marker_at;
                self.bytes.get(start + u64::from(at), 1).first().map(|&byte| (page, byte))
            })
            .find(|&(_, byte)| byte != 0xff)
    }

    /// Where the PEB begins; `None` if the dump leaves it out.
    fn start_of(&self, peb: Peb) -> Option<u64> {
        assert!(peb.0 < self.geometry.pebs, "PEB {peb} of a dump of {}", self.geometry.pebs);
        (!self.bad.is_left_out(peb)).then(|| self.file_offset(peb, 0))
    }
}

/// Removes the OOB from the beginning of a raw PEB.
pub(super) fn strip(raw: Cow<'_, [u8]>, oob: Option<Oob>) -> Cow<'_, [u8]> {
    match oob {
        None => raw,
        Some(Oob { page_bytes, oob_bytes }) => {
            let mut data = Vec::with_capacity(raw.len());
            for page in raw.chunks((page_bytes + oob_bytes) as usize) {
                data.extend_from_slice(&page[..page.len().min(page_bytes as usize)]);
            }
            Cow::Owned(data)
        }
    }
}
