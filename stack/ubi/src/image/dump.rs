//! Where the PEBs are in the bytes of a dump, with the OOB taken out.

use std::borrow::Cow;

use sim::Peb;

/// Out-of-band bytes that a raw dump holds after each page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oob {
    /// Bytes of a page, without OOB.
    pub page_bytes: u32,
    /// Bytes of OOB after each page.
    pub oob_bytes: u32,
}

/// The shape of a dump, as guessed or given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes before the first PEB, for example another image's header.
    pub start: u64,
    /// Bytes of a PEB, without OOB.
    pub peb_bytes: u32,
    /// Set when each page is followed by OOB.
    pub oob: Option<Oob>,
    /// Whole PEBs.
    pub pebs: u32,
    /// Bytes of the last PEB when it is not whole, OOB included; else 0.
    pub partial_bytes: u32,
    /// PEBs that begin with an EC header whose checksum is right.
    pub ec_headers: u32,
    /// Of these, the ones that agree on the two offsets below.
    pub agreeing: u32,
    /// Where VID headers are, by majority of the EC headers.
    pub vid_hdr_offset: u32,
    /// Where data begin, by majority of the EC headers.
    pub data_offset: u32,
    /// Smallest write unit. No header states it: inferred from the offsets.
    pub min_io_bytes: u32,
    /// How it was inferred, and what else would look the same.
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

    /// Bytes of the last PEB when it is not whole, without OOB.
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

    /// Bytes that the last PEB lacks; 0 when it is whole.
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

/// Bytes and their shape.
#[derive(Clone, Debug)]
pub struct Dump<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) geometry: Geometry,
}

impl<'a> Dump<'a> {
    /// The shape.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Bytes of the whole dump.
    pub fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The PEB's bytes without OOB: borrowed where the dump has none. Panics when `peb` is not a whole PEB of the dump.
    pub fn peb(&self, peb: Peb) -> Cow<'a, [u8]> {
        strip(self.raw(peb), self.geometry.oob)
    }

    /// Where a byte of a PEB is in the dump; the end of the dump for one that was cut off.
    pub fn file_offset(&self, peb: Peb, offset: u32) -> u64 {
        let offset = match self.geometry.oob {
            Some(Oob { page_bytes, oob_bytes }) => offset + offset / page_bytes * oob_bytes,
            None => offset,
        };
        let at = self.geometry.start + u64::from(peb.0) * u64::from(self.geometry.raw_peb_bytes()) + u64::from(offset);
        at.min(self.len())
    }

    /// The first bad-block marker of `peb` that is not 0xFF: the page and the byte. Looked for in the OOB of the
    /// first two pages, at byte 5 for pages of 512 bytes and at byte 0 for larger ones; `None` without OOB.
    pub fn bad_marker(&self, peb: Peb) -> Option<(u32, u8)> {
        let Oob { page_bytes, oob_bytes } = self.geometry.oob?;
        let raw = self.raw(peb);
        let marker_at = if page_bytes <= 512 { 5 } else { 0 };
        (0..2)
            .filter_map(|page: u32| {
                let at = page * (page_bytes + oob_bytes) + page_bytes + marker_at;
                raw.get(at as usize).map(|&byte| (page, byte))
            })
            .find(|&(_, byte)| byte != 0xff)
    }

    fn raw(&self, peb: Peb) -> &'a [u8] {
        assert!(peb.0 < self.geometry.pebs, "PEB {peb} of a dump of {}", self.geometry.pebs);
        let raw = self.geometry.raw_peb_bytes() as usize;
        &self.bytes[self.geometry.start as usize + peb.at() * raw..][..raw]
    }
}

/// The data of a raw PEB, or of its beginning.
pub(super) fn strip(raw: &[u8], oob: Option<Oob>) -> Cow<'_, [u8]> {
    match oob {
        None => Cow::Borrowed(raw),
        Some(Oob { page_bytes, oob_bytes }) => {
            let mut data = Vec::with_capacity(raw.len());
            for page in raw.chunks((page_bytes + oob_bytes) as usize) {
                data.extend_from_slice(&page[..page.len().min(page_bytes as usize)]);
            }
            Cow::Owned(data)
        }
    }
}
