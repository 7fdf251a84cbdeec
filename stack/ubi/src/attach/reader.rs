//! Reads and checks headers and data for both ways of attaching.
//!
//! Knows one PEB at a time; the callers decide what its headers mean for volumes. An uncorrectable read is no error
//! here: the uncorrected bytes are verified by their checksum and count as suspect.

use sim::seam::{Flash, FlashError, is_erased};
use sim::{Cx, Peb};

use super::AttachError;
use crate::layout::Layout;
use crate::media::{EcHdr, MediaError, VidHdr, crc};

/// Quality of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quality {
    /// No correction beyond the threshold.
    Clean,
    /// Corrected bits reached the part's threshold: scrub the block.
    Tired,
    /// Uncorrectable.
    Raw,
}

/// What was found in the place of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found<H> {
    /// A valid header; `tired` if the read needed correction.
    Header { hdr: H, tired: bool },
    /// Erased cells; `tired` if the read needed correction.
    Erased { tired: bool },
    /// Neither; `ecc` if the read was uncorrectable.
    Bad { ecc: bool, why: MediaError },
}

/// State of the data area behind a broken VID header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DataArea {
    /// Erased or hard to read, as an interrupted erase leaves it.
    InterruptedErase,
    /// Holds data.
    Data,
}

/// State of a copy's data, checked against the checksum in its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CopyState {
    /// The checksum matches; `tired` if the read needed correction.
    Whole { tired: bool },
    /// Torn by a power cut.
    Torn,
}

/// What was found in the places of both headers of a PEB.
///
/// Who attaches nearly the same flash again and again reads them once, and an attach takes them as read: it reads, and
/// takes time for, only the others. They must be what a read of the PEB would find now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    ec: Found<EcHdr>,
    vid: Found<VidHdr>,
}

impl Headers {
    /// Reads both headers of `peb`. `None` if one cannot be read, or is valid and impossible.
    pub fn read<F: Flash>(flash: &mut F, layout: &Layout, peb: Peb) -> Option<Headers> {
        let mut cx = Cx::new();
        let mut reader = Reader::new(flash, &mut cx, layout).ok()?;
        Some(Headers { ec: reader.read_ec_hdr(peb).ok()?, vid: reader.read_vid_hdr(peb).ok()? })
    }

    /// The erase counter, if there is a valid EC header.
    pub fn erase_count(&self) -> Option<u32> {
        match self.ec {
            Found::Header { hdr, .. } => Some(hdr.ec as u32), // at most MAX_ERASE_COUNT
            Found::Erased { .. } | Found::Bad { .. } => None,
        }
    }
}

/// Flash being attached. `scratch` holds one LEB and is allocated on first use.
pub(super) struct Reader<'a, F> {
    flash: &'a mut F,
    cx: &'a mut Cx,
    pub(super) layout: &'a Layout,
    /// By PEB: headers that need not be read.
    read: &'a [Option<&'a Headers>],
    /// Image sequence number, once a header had one.
    pub(super) image_seq: u32,
    scratch: Vec<u8>,
}

impl<'a, F: Flash> Reader<'a, F> {
    /// Errors: `NoBytes`: a flash that keeps none has nothing to attach by.
    pub(super) fn new(flash: &'a mut F, cx: &'a mut Cx, layout: &'a Layout) -> Result<Reader<'a, F>, AttachError> {
        if !F::KEEPS_BYTES {
            return Err(AttachError::NoBytes);
        }
        Ok(Reader { flash, cx, layout, read: &[], image_seq: 0, scratch: Vec::new() })
    }

    /// As `new`; headers in `read`, by PEB, are not read again.
    pub(super) fn with(
        flash: &'a mut F,
        cx: &'a mut Cx,
        layout: &'a Layout,
        read: &'a [Option<&'a Headers>],
    ) -> Result<Reader<'a, F>, AttachError> {
        Ok(Reader { read, ..Reader::new(flash, cx, layout)? })
    }

    fn headers(&self, peb: Peb) -> Option<&'a Headers> {
        *self.read.get(peb.at())?
    }

    pub(super) fn is_bad(&self, peb: Peb) -> bool {
        self.flash.is_bad(peb)
    }

    /// Reads bytes; uncorrectable ones are returned as `Raw`. Errors: other faults of the flash.
    pub(super) fn read(&mut self, peb: Peb, offset: u32, buf: &mut [u8]) -> Result<Quality, FlashError> {
        match self.flash.read(self.cx, peb, offset, buf) {
            Ok(status) if status.scrub => Ok(Quality::Tired),
            Ok(_) => Ok(Quality::Clean),
            Err(FlashError::Uncorrectable { .. }) => Ok(Quality::Raw),
            Err(error) => Err(error),
        }
    }

    /// Reads the EC header of `peb`.
    /// Errors: faults of the flash; a valid header that is impossible, or contradicts the layout or earlier headers.
    pub(super) fn ec_hdr(&mut self, peb: Peb) -> Result<Found<EcHdr>, AttachError> {
        let found = match self.headers(peb) {
            Some(headers) => headers.ec,
            None => self.read_ec_hdr(peb)?,
        };
        let Found::Header { hdr, .. } = found else { return Ok(found) };
        let expect = |offset, what, found: u32, expected: u32| {
            if found == expected {
                return Ok(());
            }
            Err(AttachError::Mismatch { peb, offset, what, found: found.into(), expected: expected.into() })
        };
        expect(16, "vid_hdr_offset", hdr.vid_hdr_offset, self.layout.vid_hdr_offset)?;
        expect(20, "data_offset", hdr.data_offset, self.layout.data_offset)?;
        if self.image_seq == 0 {
            self.image_seq = hdr.image_seq;
        }
        if hdr.image_seq != 0 {
            expect(24, "image_seq", hdr.image_seq, self.image_seq)?;
        }
        Ok(found)
    }

    fn read_ec_hdr(&mut self, peb: Peb) -> Result<Found<EcHdr>, AttachError> {
        let mut bytes = [0; EcHdr::BYTES];
        let quality = self.read(peb, 0, &mut bytes)?;
        judge(&bytes, quality, EcHdr::decode).map_err(|why| AttachError::Header { peb, offset: 0, why })
    }

    /// Reads the VID header of `peb`.
    /// Errors: faults of the flash; a valid header that is impossible.
    pub(super) fn vid_hdr(&mut self, peb: Peb) -> Result<Found<VidHdr>, AttachError> {
        match self.headers(peb) {
            Some(headers) => Ok(headers.vid),
            None => self.read_vid_hdr(peb),
        }
    }

    fn read_vid_hdr(&mut self, peb: Peb) -> Result<Found<VidHdr>, AttachError> {
        let mut bytes = [0; VidHdr::BYTES];
        let offset = self.layout.vid_hdr_offset;
        let quality = self.read(peb, offset, &mut bytes)?;
        judge(&bytes, quality, |bytes| {
            let hdr = VidHdr::decode(bytes)?;
            hdr.check(self.layout.leb_bytes)?;
            Ok(hdr)
        })
        .map_err(|why| AttachError::Header { peb, offset, why })
    }

    /// Classifies the data area behind a broken VID header.
    pub(super) fn data_area(&mut self, peb: Peb) -> Result<DataArea, FlashError> {
        let quality = self.fill_scratch(peb, self.layout.leb_bytes)?;
        let interrupted = quality != Quality::Clean || is_erased(&self.scratch);
        Ok(if interrupted { DataArea::InterruptedErase } else { DataArea::Data })
    }

    /// Whether the data of a copy match the checksum in its header.
    pub(super) fn copy_state(&mut self, peb: Peb, hdr: &VidHdr) -> Result<CopyState, FlashError> {
        let quality = self.fill_scratch(peb, hdr.data_size)?;
        // Linux accepts a matching checksum even if ECC failed. The next read would fail again, so the original is
        // better.
        let whole = quality != Quality::Raw && crc(&self.scratch[..hdr.data_size as usize]) == hdr.data_crc;
        Ok(if whole { CopyState::Whole { tired: quality != Quality::Clean } } else { CopyState::Torn })
    }

    /// Reads the first `len` bytes of the LEB in `peb` into `scratch`; [`VidHdr::check`] ensures that `len` is at most a LEB.
    fn fill_scratch(&mut self, peb: Peb, len: u32) -> Result<Quality, FlashError> {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.resize(self.layout.leb_bytes as usize, 0);
        let quality = if len == 0 {
            Ok(Quality::Clean)
        } else {
            self.read(peb, self.layout.data_offset, &mut scratch[..len as usize])
        };
        self.scratch = scratch;
        quality
    }
}

/// Classifies the result of decoding. Errors: a valid header with impossible contents. An invalid one is `Found::Bad`.
fn judge<H>(
    bytes: &[u8; 64],
    quality: Quality,
    decode: impl FnOnce(&[u8; 64]) -> Result<H, MediaError>,
) -> Result<Found<H>, MediaError> {
    match decode(bytes) {
        Ok(hdr) => Ok(Found::Header { hdr, tired: quality != Quality::Clean }),
        Err(why @ MediaError::Field { .. }) => Err(why),
        Err(_) if quality != Quality::Raw && is_erased(bytes) => Ok(Found::Erased { tired: quality == Quality::Tired }),
        Err(why) => Ok(Found::Bad { ecc: quality == Quality::Raw, why }),
    }
}
