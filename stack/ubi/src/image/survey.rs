//! Finds the EC headers of a dump, wherever they are, and names what has none.

use std::collections::BTreeMap;

use sim::seam::is_erased;

use super::ProbeError;
use super::dump::Bytes;
use crate::media::{EcHdr, crc};

/// An EC header with valid magic and checksum; version and fields may be anything.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) at: u64,
    pub(super) vid_hdr_offset: u32,
    pub(super) data_offset: u32,
    pub(super) image_seq: u32,
}

/// EC headers of one image sequence number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub(super) headers: u32,
    pub(super) first_at: u64,
    pub(super) last_at: u64,
}

/// The EC headers of a dump. Memory is bounded: of hostile input not every header is kept.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// The first [`SAMPLE`] headers and one more, in order.
    pub(super) seen: Vec<Seen>,
    /// Number of all headers of the sample's kind.
    pub(super) headers: u64,
    /// The first [`MOST_GROUPS`] image sequence numbers.
    pub(super) groups: BTreeMap<u32, Group>,
}

/// Headers to examine.
pub(super) const SAMPLE: usize = 1 << 16;
/// Image sequence numbers to tell apart.
const MOST_GROUPS: usize = 64;
/// Bytes to look at in one piece, if they must be read.
const WINDOW: u64 = 1 << 20;

/// Decodes an EC header of any version: verifies the checksum of the bytes as they are, then decodes with
/// [`EcHdr::decode`] as if the version were ours.
pub(super) fn ec_of_any_version(bytes: &[u8; EcHdr::BYTES]) -> Option<EcHdr> {
    let body = EcHdr::BYTES - 4;
    if bytes[body..] != crc(&bytes[..body]).to_be_bytes() {
        return None;
    }
    let mut ours = *bytes;
    ours[4] = crate::media::VERSION;
    let sum = crc(&ours[..body]).to_be_bytes();
    ours[body..].copy_from_slice(&sum);
    EcHdr::decode(&ours).ok()
}

/// The EC header at the beginning of `bytes`, which are at byte `at` of the dump.
fn header(bytes: &[u8], at: u64) -> Option<Seen> {
    let found = bytes.first_chunk::<{ EcHdr::BYTES }>().and_then(ec_of_any_version)?;
    let EcHdr { vid_hdr_offset, data_offset, image_seq, .. } = found;
    Some(Seen { at, vid_hdr_offset, data_offset, image_seq })
}

/// The EC headers at `first`, `first + stride` and so on: those of `pebs` PEBs.
pub(super) fn on_grid(bytes: Bytes<'_>, first: u64, stride: u64, pebs: u64) -> Vec<Seen> {
    let starts = (0..pebs).map(|peb| first + peb * stride);
    starts.filter_map(|at| header(&bytes.get(at, EcHdr::BYTES as u64), at)).collect()
}

/// Finds the EC headers in order of offset. `wanted`: only headers of this image are in the sample.
/// Errors: there is none.
pub(super) fn survey(bytes: Bytes<'_>, wanted: Option<u32>) -> Result<Survey, ProbeError> {
    let magic = EcHdr::MAGIC.to_be_bytes();
    let mut survey = Survey::default();
    let (mut magics, mut first, mut from) = (0u64, 0u64, 0u64);
    while from < bytes.len() {
        let window = bytes.get(from, WINDOW + EcHdr::BYTES as u64 - 1);
        // What begins behind this is of the next window.
        let end = window.len().min(WINDOW as usize);
        let mut at = 0;
        while let Some(next) = window.get(at..).and_then(|rest| find(rest, magic)).filter(|next| at + next < end) {
            at += next;
            if magics == 0 {
                first = from + at as u64;
            }
            magics += 1;
            match header(&window[at..], from + at as u64) {
                Some(seen) => {
                    survey.add(seen, wanted);
                    at += EcHdr::BYTES;
                }
                None => at += magic.len(),
            }
        }
        from += at.max(end) as u64;
    }
    match (survey.groups.is_empty(), magics) {
        (false, _) => Ok(survey),
        (true, 0) => Err(not_ubi(bytes)),
        (true, magics) => Err(ProbeError::NoWholeHeader { magics, first }),
    }
}

impl Survey {
    fn add(&mut self, seen: Seen, wanted: Option<u32>) {
        let at = seen.at;
        if self.groups.len() < MOST_GROUPS || self.groups.contains_key(&seen.image_seq) {
            let new = Group { headers: 0, first_at: at, last_at: at };
            let group = self.groups.entry(seen.image_seq).or_insert(new);
            group.headers = group.headers.saturating_add(1);
            group.last_at = at;
        }
        if wanted.is_none_or(|wanted| wanted == seen.image_seq) {
            self.headers += 1;
            if self.seen.len() <= SAMPLE {
                self.seen.push(seen);
            }
        }
    }
}

/// The first place of `magic`. Most blocks of 64 bytes are passed over with two comparisons a byte, which compilers make
/// vectors of.
fn find(bytes: &[u8], magic: [u8; 4]) -> Option<usize> {
    const BLOCK: usize = 64;
    let mut from = 0;
    while let Some(block) = bytes.get(from..from + BLOCK + 1) {
        let (firsts, seconds) = (&block[..BLOCK], &block[1..]);
        let may_hold =
            firsts.iter().zip(seconds).fold(false, |held, (&a, &b)| held | ((a == magic[0]) & (b == magic[1])));
        if may_hold && let Some(at) = (from..from + BLOCK).find(|&at| bytes[at..].starts_with(&magic)) {
            return Some(at);
        }
        from += BLOCK;
    }
    (from..bytes.len()).find(|&at| bytes[at..].starts_with(&magic))
}

fn not_ubi(bytes: Bytes<'_>) -> ProbeError {
    let (mut blank, mut zero, mut swapped16, mut swapped32) = (true, true, false, false);
    let mut from = 0;
    while from < bytes.len() {
        let window = bytes.get(from, WINDOW + 3);
        blank &= is_erased(&window);
        zero &= window.iter().all(|&byte| byte == 0);
        swapped16 |= find(&window, *b"BU#I").is_some();
        swapped32 |= find(&window, *b"#IBU").is_some();
        from += WINDOW;
    }
    let (found, help) = match *bytes.get(0, 8) {
        _ if blank => ("only 0xFF, as erased flash reads,", "dump the partition that UBI is on"),
        _ if zero => ("only 0x00", "dump the partition that UBI is on"),
        [0x31, 0x18, 0x10, 0x06, ..] => {
            ("a UBIFS image without UBI", "wrap it in UBI with `nandlab image pack`, or extract from the UBI image")
        }
        [0x85, 0x19, ..] | [0x19, 0x85, ..] => ("a JFFS2 image", "this command reads UBI images"),
        [b'h', b's', b'q', b's', ..] => ("a squashfs image", "wrap it in UBI with `nandlab image pack`"),
        [0x1f, 0x8b, ..] => ("gzip data", "decompress it first: `gunzip`"),
        [0xfd, b'7', b'z', b'X', b'Z', ..] => ("xz data", "decompress it first: `unxz`"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => ("zstd data", "decompress it first: `unzstd`"),
        [0x3a, 0xff, 0x26, 0xed, ..] => ("an Android sparse image", "expand it first: `simg2img`"),
        [0x7f, b'E', b'L', b'F', ..] => ("an ELF file", "dump the partition that UBI is on"),
        _ if swapped16 => ("UBI with the bytes of each 16-bit word swapped", "swap them: `dd conv=swab`"),
        _ if swapped32 => {
            ("UBI with the bytes of each 32-bit word reversed", "reverse them: `objcopy --reverse-bytes=4`")
        }
        _ => ("other data", "dump the partition that UBI is on; data may be encrypted or read without ECC"),
    };
    ProbeError::NotUbi { found, bytes: bytes.len(), help }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_magic_is_found_at_every_place() {
        for length in [4, 64, 65, 68, 200] {
            for at in 0..=length - 4 {
                let mut bytes = vec![b'U'; length];
                bytes[at..at + 4].copy_from_slice(b"UBI#");
                assert_eq!(find(&bytes, *b"UBI#"), Some(at), "of {length} bytes");
            }
            assert_eq!(find(&vec![b'U'; length], *b"UBI#"), None);
        }
    }
}
