//! Where the PEBs are in a dump, and removing the OOB.

use std::borrow::Cow;

use sim::Peb;

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
    pub(super) bytes: &'a [u8],
    pub(super) geometry: Geometry,
}

impl<'a> Dump<'a> {
    /// Geometry of the dump.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Bytes of the whole dump.
    pub fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Whether the dump has no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The PEB's bytes without OOB; borrowed if the dump has none. Panics if `peb` is not a complete PEB of the dump.
    pub fn peb(&self, peb: Peb) -> Cow<'a, [u8]> {
        strip(self.raw(peb), self.geometry.oob)
    }

    /// Some bytes of a PEB, without OOB; fewer where the PEB ends. Panics if `peb` is not a complete PEB of the dump.
    pub fn read(&self, peb: Peb, offset: u32, length: u32) -> Vec<u8> {
        let (from, to) = (offset as usize, (offset.saturating_add(length)).min(self.geometry.peb_bytes) as usize);
        let raw = self.raw(peb);
        let Some(Oob { page_bytes, oob_bytes }) = self.geometry.oob else {
            return raw.get(from..to).unwrap_or_default().to_vec();
        };
        let (page, whole) = (page_bytes as usize, (page_bytes + oob_bytes) as usize);
        let mut bytes = Vec::with_capacity(to.saturating_sub(from));
        let mut at = from;
        while at < to {
            let end = (at / page * page + page).min(to);
            let begin = at / page * whole + at % page;
            bytes.extend_from_slice(&raw[begin..begin + (end - at)]);
            at = end;
        }
        bytes
    }

    /// Offset in the dump of a byte of a PEB; the end of the dump if that byte is cut off.
    pub fn file_offset(&self, peb: Peb, offset: u32) -> u64 {
        let offset = match self.geometry.oob {
            Some(Oob { page_bytes, oob_bytes }) => offset + offset / page_bytes * oob_bytes,
            None => offset,
        };
        let at = self.geometry.start + u64::from(peb.0) * u64::from(self.geometry.raw_peb_bytes()) + u64::from(offset);
        at.min(self.len())
    }

    /// The first bad-block marker of `peb` that is not 0xFF: page and byte. It is read from the OOB of the first two
    /// pages, at byte 5 for pages of 512 bytes and at byte 0 for larger ones; `None` without OOB.
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

/// Removes the OOB from a raw PEB or its beginning.
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
